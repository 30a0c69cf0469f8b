#include "names/second_pass.hpp"

#include <algorithm>

#include "events.hpp"
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

// Says so once. `made`: makes one of those events, of the steps that it is without.
using Without = Event(int64_t others, const char* inport, int64_t keep);

void hint_without(const Process& p, PortRecord& inport, Without made) {
    log_once(inport, Once::replaced,
             made(queue::count_let_go(p.board, inport), inport.pattern, steps_to_keep(p.board, inport)));
}

}  // namespace

void hint_at_look_again(const Process& p, int index, const char* name) {
    PortRecord& inport = p.board.port(index);
    if (queue::let_go_of(p.board, inport, name) != queue::LetGo::read) return;
    log_once(inport, Once::replaced, event::looked_for_replaced(name, inport.pattern, steps_to_keep(p.board, inport)));
}

void note_listing_again(const Process& p, int index) {
    PortRecord& inport = p.board.port(index);
    if (in_order(inport) || inport.keys.mode != Mode::memory) return;  // the disk has what memory has let go of
    const bool short_of_some = queue::count_let_go(p.board, inport) > 0;
    p.board.looked(inport, p.context.rank).listed_after = short_of_some ? p.board.head().opens : 0;
    // A program that follows the stream by listings has made one before it reads anything, and makes many.
    const uint64_t listings = p.board.asked(inport, p.context.rank).listings;
    const bool counts_all = listings == 1 || (listings == 2 && !queue::can_produce(p.board, index));
    if (!short_of_some || !counts_all) return;
    hint_without(p, inport, event::listed_without);
}

void hint_at_open_again(const Process& p, int index, uint64_t opened_at) {
    PortRecord& inport = p.board.port(index);
    if (in_order(inport) || opened_at > p.board.looked(inport, p.context.rank).listed_after) return;
    hint_without(p, inport, event::listed_again_without);
}

}  // namespace wilkins
