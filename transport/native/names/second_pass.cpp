#include "names/second_pass.hpp"

#include <algorithm>
#include <string>

#include "queue/parts.hpp"

namespace wilkins {

uint64_t steps_to_keep(const Board& board, const PortRecord& inport) {
    uint64_t most = 0;
    for (const PortRecord& out : outports_of(board, inport))
        for (const SourceRecord& source : sources_of(board, out))
            most = std::max(most, queue::published_to(source) - source.first_sequence);
    return most;
}

namespace {

void hint(const Process& p, PortRecord& inport, const std::string& what) {
    if (inport.told_replaced.exchange(1)) return;
    log_line("hint: task '%s' rank %d %s: their memory is that of later steps by now; if the program goes over its files more than once, give the "
             "in-port '%s' 'reorder: %lu', or as many as it goes over, and so many stay",
             p.task_name(), p.told_rank(), what.c_str(), inport.pattern, static_cast<unsigned long>(steps_to_keep(p.board, inport)));
}

std::string others(const Process& p, const PortRecord& inport) {
    return std::to_string(queue::count_let_go(p.board, inport)) + " that its task has read";
}

}  // namespace

void hint_at_look_again(const Process& p, int index, const char* name) {
    PortRecord& inport = p.board.port(index);
    if (queue::let_go_of(p.board, inport, name) != queue::LetGo::read) return;
    hint(p, inport, "looked for '" + std::string(name) + "', which its task has read, and was told that there is no such file, as for others");
}

void note_listing_again(const Process& p, int index) {
    PortRecord& inport = p.board.port(index);
    if (in_order(inport) || inport.habits.mode != Mode::memory) return;  // the disk has what memory has let go of
    const bool short_of_some = queue::count_let_go(p.board, inport) > 0;
    p.board.looked(inport, p.context.rank).listed_after = short_of_some ? p.board.head().opens : 0;
    // Who follows the stream by listings has had one before it has read anything, and has many.
    const uint64_t listings = p.board.asked(inport, p.context.rank).listings;
    const bool counts_all = listings == 1 || (listings == 2 && !queue::can_produce(p.board, index));
    if (!short_of_some || !counts_all) return;
    hint(p, inport, "listed its files, without " + others(p, inport));
}

void hint_at_open_again(const Process& p, int index, uint64_t opened_at) {
    PortRecord& inport = p.board.port(index);
    if (in_order(inport) || opened_at > p.board.looked(inport, p.context.rank).listed_after) return;
    hint(p, inport, "listed its files again, without " + others(p, inport) + ", and reads again what it was shown");
}

}  // namespace wilkins
