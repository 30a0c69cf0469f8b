// Waits that nothing can end: the largest set of waiting ranks each of which only a member of the set could wake.
#include "stuck.hpp"

#include "match.hpp"
#include "queue.hpp"

namespace wilkins {

namespace {

void add_ranks(const Board& board, int task, std::vector<int>& to) {
    const TaskRecord& record = board.task(task);
    for (int r = 0; r < record.nprocs; ++r) to.push_back(record.first_rank + r);
}

// Readers whose marks keep the waiting producer from creating another step.
void add_blockers(const Board& board, const RankRecord& rank, std::vector<int>& to) {
    const PortRecord& port = board.port(rank.wait_port);
    for (int k = 0; k < port.links; ++k) {
        const ChannelRecord& channel = board.channel(board.link(port, k));
        if (channel.when_full != WhenFull::block) continue;
        if (queue::queued(board, channel, rank.rank) < static_cast<int>(channel.queue)) continue;
        const TaskRecord& reader = board.task(board.port(channel.inport).task);
        uint64_t low = UINT64_MAX;
        for (int r = 0; r < channel.readers; ++r) {
            const uint64_t next = queue::reach(board, channel, rank.rank, r);
            low = next < low ? next : low;
        }
        for (int r = 0; r < channel.readers; ++r)
            if (queue::reach(board, channel, rank.rank, r) == low) to.push_back(reader.first_rank + r);
    }
}

}  // namespace

std::vector<int> waits_on(const Board& board, int index) {
    const RankRecord& rank = board.rank(index);
    std::vector<int> on;
    if (rank.wait == WaitFor::room) add_blockers(board, rank, on);
    if (rank.wait == WaitFor::data) {
        const PortRecord& port = board.port(rank.wait_port);
        for (int k = 0; k < port.links; ++k)
            add_ranks(board, board.port(board.channel(board.link(port, k)).outport).task, on);
    }
    return on;
}

std::string find_stuck(const Board& board) {
    const int ranks = board.head().ranks;
    std::vector<char> hopeless(static_cast<size_t>(ranks));
    std::vector<std::vector<int>> on(static_cast<size_t>(ranks));
    auto ended = [&](int r) { return board.task(board.rank(r).task).state == TaskState::ended; };
    for (int r = 0; r < ranks; ++r) {
        const WaitFor what = board.rank(r).wait;
        if (ended(r) || (what != WaitFor::data && what != WaitFor::room)) continue;
        on[static_cast<size_t>(r)] = waits_on(board, r);
        hopeless[static_cast<size_t>(r)] = 1;
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (int r = 0; r < ranks; ++r) {
            if (!hopeless[static_cast<size_t>(r)]) continue;
            bool wakes = true;
            if (board.rank(r).wait == WaitFor::data) {
                // Any producer that can move may bring data; if all have ended, the end of the stream does.
                bool all_ended = true, one_moves = false;
                for (int other : on[static_cast<size_t>(r)]) {
                    all_ended = all_ended && ended(other);
                    one_moves = one_moves || (!ended(other) && !hopeless[static_cast<size_t>(other)]);
                }
                wakes = all_ended || one_moves;
                // A step may be there that this rank has yet to notice.
                const RankRecord& rank = board.rank(r);
                wakes = wakes || queue::find(board, rank.wait_port, rank.rank, rank.wait_name).slot >= 0;
            } else {
                // Every reader that keeps a step must move on.
                for (int other : on[static_cast<size_t>(r)])
                    if (!ended(other) && hopeless[static_cast<size_t>(other)]) wakes = false;
            }
            if (wakes) {
                hopeless[static_cast<size_t>(r)] = 0;
                changed = true;
            }
        }
    }
    std::string text;
    for (int r = 0; r < ranks; ++r) {
        if (!hopeless[static_cast<size_t>(r)]) continue;
        const RankRecord& rank = board.rank(r);
        auto who = [&](int index) {
            return "task '" + std::string(board.task(board.rank(index).task).name) + "' rank " + std::to_string(board.rank(index).rank);
        };
        if (!text.empty()) text += "; ";
        text += who(r) + (rank.wait == WaitFor::data ? " waits for '" : " waits for room to create '") + rank.wait_name + "' from ";
        bool first = true;
        for (int other : on[static_cast<size_t>(r)]) {
            if (!hopeless[static_cast<size_t>(other)]) continue;
            text += (first ? "" : ", ") + who(other);
            first = false;
        }
    }
    return text;
}

}  // namespace wilkins
