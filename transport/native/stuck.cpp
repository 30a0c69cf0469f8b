// Waits that nothing can end: the largest set of waiting ranks each of which only a member of the set could wake.
#include "stuck.hpp"

#include <signal.h>

#include <cerrno>
#include <cstring>

#include "queue.hpp"
#include "resting.hpp"

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
        if (!queue::full(board, channel, rank.rank, rank.wait_name)) continue;
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

bool is_gone(int pid) { return kill(pid, 0) != 0 && errno == ESRCH; }

// A hold that is let go as soon as somebody who needs it looks (see sweep_dead_readers).
bool held_by_dead(const Board& board, int index) {
    for (int r = 0; r < board.head().ranks; ++r)
        for (int k = 0; k < kHolds; ++k)
            if (board.rank(r).holds[k] == index && is_gone(board.rank(r).holders[k])) return true;
    return false;
}

// Ranks that may have to do with it that the slot's memory cannot be used again: rather too many than too few.
void add_users(const Board& board, int index, std::vector<int>& to) {
    const SlotRecord& slot = board.slot(index);
    if (queue::unfinished(slot)) to.push_back(slot.writer);
    for (int r = 0; r < board.head().ranks; ++r)
        for (int held : board.rank(r).holds)
            if (held == index) to.push_back(r);
    const SourceRecord& source = board.source(slot.source);
    const PortRecord& port = board.port(source.port);
    for (int k = 0; k < port.links; ++k) {
        const ChannelRecord& channel = board.channel(board.link(port, k));
        if (slot.state != SlotState::published || !board.on(slot, channel.place)) continue;
        const TaskRecord& reader = board.task(board.port(channel.inport).task);
        for (int r = 0; r < channel.readers; ++r)
            if (queue::reach(board, channel, source.rank, r) <= slot.sequence + 1) to.push_back(reader.first_rank + r);
    }
}

// Users of the slots that the rank could go on with: of its source, or, if it needs memory, of the whole run.
void add_slot_users(const Board& board, int index, std::vector<int>& to) {
    const RankRecord& rank = board.rank(index);
    const bool memory = rank.wait == WaitFor::memory;
    const int source = board.port(rank.wait_port).first_source + rank.rank;
    for (int s = 0; s < board.head().slots; ++s) {
        const SlotRecord& slot = board.slot(s);
        if (memory ? queue::unfinished(slot) && slot.writer == index : slot.source != source) continue;
        const bool has_gone = held_by_dead(board, s);
        if (has_gone || (!queue::needed(board, slot, true) && slot.peers == 0)) {
            if (memory && !has_gone) continue;
            to.clear();  // it has only to notice
            return;
        }
        add_users(board, s, to);
    }
}

// A process that died in a wait waits no more; its task may go on with other programs.
bool waits(const RankRecord& rank) {
    return rank.wait != WaitFor::nothing && !is_gone(rank.wait_pid);
}

}  // namespace

std::vector<int> waits_on(const Board& board, int index) {
    const RankRecord& rank = board.rank(index);
    std::vector<int> on;
    if (rank.wait == WaitFor::room) add_blockers(board, rank, on);
    if (rank.wait == WaitFor::memory || (rank.wait == WaitFor::room && on.empty())) add_slot_users(board, index, on);
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
        if (ended(r) || !waits(board.rank(r))) continue;
        on[static_cast<size_t>(r)] = waits_on(board, r);
        hopeless[static_cast<size_t>(r)] = 1;
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (int r = 0; r < ranks; ++r) {
            if (!hopeless[static_cast<size_t>(r)]) continue;
            const RankRecord& rank = board.rank(r);
            bool wakes = true;
            if (rank.wait != WaitFor::room || queue::has_room(board, board.port(rank.wait_port).first_source + rank.rank, rank.wait_name)) {
                // Any producer that can move may bring data, any user of a slot may let go of it; if all have ended, that ends
                // the wait.
                bool all_ended = true, one_moves = false;
                for (int other : on[static_cast<size_t>(r)]) {
                    all_ended = all_ended && ended(other);
                    one_moves = one_moves || (!ended(other) && !hopeless[static_cast<size_t>(other)]);
                }
                wakes = all_ended || one_moves;
                // What it waits for may be there, and the rank has yet to notice.
                if (!wakes && rank.wait == WaitFor::data) {
                    const PortRecord& port = board.port(rank.wait_port);
                    const queue::Found found = queue::find(board, rank.wait_port, rank.rank, rank.wait_name);
                    wakes = found.slot >= 0 || found.passed;
                    // Who asks for the next step, whatever its name, waits for the pattern (see steps.cpp).
                    if (!wakes && !port.fixed && strcmp(rank.wait_name, port.pattern) == 0)
                        wakes = queue::has_choice(board, rank.wait_port, rank.rank);
                }
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
        const char* what = rank.wait == WaitFor::data   ? " waits for '"
                           : rank.wait == WaitFor::room ? " waits for room to create '"
                                                        : " waits for memory to write '";
        text += who(r) + what + rank.wait_name + "' from ";
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
