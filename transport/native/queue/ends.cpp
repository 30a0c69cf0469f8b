// Who holds which step, and what the start and the end of a program change.
#include "queue/queue.hpp"

#include <cstring>
#include <vector>

#include "base/fault.hpp"
#include "queue/answers.hpp"
#include "queue/parts.hpp"
#include "queue/closed.hpp"

namespace wilkins::queue {

Holds* more_holds(const Board& board, const Holds& part) {
    return part.more ? reinterpret_cast<Holds*>(board.annex(part.more)) : nullptr;
}

bool holds(const Board& board, RankRecord& rank, int slot) {
    bool found = false;
    each_hold(board, rank, [&](int32_t held, uint32_t) { found = found || held == slot; });
    return found;
}

bool is_held_in(const Board& board, int task, int slot) {
    if (board.slot(slot).holds == 0) return false;
    for (RankRecord& rank : ranks_of(board, board.task(task)))
        if (holds(board, rank, slot)) return true;
    return false;
}

int count_holds(const Board& board, int rank) {
    int n = 0;
    each_hold(board, board.rank(rank), [&](int32_t, uint32_t) { ++n; });
    return n;
}

namespace {

// A place of the rank's holds for a slot: the one of this process's, or a free one; nullptr if there is none.
struct HoldPlace {
    int32_t* slot = nullptr;
    uint32_t* process = nullptr;
};

HoldPlace find_place(Holds& part, int32_t slot, uint32_t process) {
    for (int k = 0; k < kHolds; ++k)
        if (part.slots[k] == slot && (slot < 0 || part.processes[k] == process))
            return {&part.slots[k], &part.processes[k]};
    return {};
}

// Links further places to a rank's last holds.
bool grow(const Board& board, Holds& last) {
    const uint64_t handle = board.extend(sizeof(Holds));
    if (!handle) return false;
    auto& added = *reinterpret_cast<Holds*>(board.annex(handle));
    for (int32_t& slot : added.slots) slot = -1;
    WILKINS_FAULT_POINT("hold.room");
    last.more = handle;
    return true;
}

}  // namespace

bool add_hold(const Board& board, int rank_index, int slot) {
    for (Holds* part = &board.rank(rank_index).holds; part; part = more_holds(board, *part)) {
        const HoldPlace place = find_place(*part, -1, 0);
        if (!place.slot) {
            if (!part->more && !grow(board, *part)) return false;
            continue;
        }
        *place.process = board.self();
        *place.slot = slot;
        WILKINS_FAULT_POINT("hold.noted");
        ++board.slot(slot).holds;
        return true;
    }
    return false;
}

void drop_hold(const Board& board, int rank_index, int slot, uint32_t process) {
    for (Holds* part = &board.rank(rank_index).holds; part; part = more_holds(board, *part)) {
        const HoldPlace place = find_place(*part, slot, process);
        if (!place.slot) continue;
        *place.slot = -1;
        WILKINS_FAULT_POINT("drop.noted");
        SlotRecord& record = board.slot(slot);
        if (record.holds > 0) --record.holds;
        WILKINS_FAULT_POINT("drop.before-ring");
        board.ring(board.source(record.source).port);
        return;
    }
}

void task_started(const Board& board, int index, bool one_step) {
    TaskRecord& task = board.task(index);
    task.state = TaskState::running;
    WILKINS_FAULT_POINT("start.running");
    board.head().moved_at = now_ns();
    ++task.starts;
    task.awaits = 0;
    task.one_step = one_step;
    forget_looks(board, index);
    for (RankRecord& rank : ranks_of(board, task)) {
        rank.leaving = rank.more_members = 0;
        for (Member& member : rank.members) member = {};
    }
    bool first = true;  // until a step of some in-port was read, only the first one's are waited for
    for (PortRecord& port : ports_of(board, index, Direction::in)) {
        port.ahead = 0;
        port.listed_to = 0;
        port.read_listed = port.read_later = port.listed_whole = 0;
        const int offered = one_step && (first || port.steps > 0) ? next_step(board, board.index(port)) : -1;
        first = false;
        port.started_for = offered < 0 ? 0 : board.slot(offered).stamp;
        forget_questions(board, port);
        for (ChannelRecord& channel : channels_of(board, port)) {
            channel.in_part = 0;
            for (const SourceRecord& source : sources_of(board, channel))
                for (int r = 0; r < channel.readers; ++r) board.mark(channel, source.rank, r).opened = 0;
        }
        for (int r = 0; r < task.nprocs; ++r) board.first_opens(port, r).since_start = 0;
    }
}

namespace {

// What one rank of a program has consumed, all have consumed for its next start.
void align_marks(const Board& board, const PortRecord& port) {
    uint32_t farthest = 0;
    for (int r = 0; r < board.task(port.task).nprocs; ++r) {
        uint32_t position = board.position(port, r);
        farthest = position > farthest ? position : farthest;
    }
    for (int r = 0; r < board.task(port.task).nprocs; ++r) {
        board.position(port, r) = farthest;
        board.latest(port, r) = 0;
    }
    for (const ChannelRecord& channel : channels_of(board, port))
        for (const SourceRecord& source : sources_of(board, channel)) {
            const uint64_t high = highest(board, channel, source.rank);
            for (int r = 0; r < channel.readers; ++r) {
                board.mark(channel, source.rank, r).next = high;
                board.mark(channel, source.rank, r).keep = kGone;
            }
            if (in_order(port)) continue;
            for (const SlotRecord& slot : steps_of(board, channel, source))
                if (is_consumed(board, channel, source.rank, slot))
                    memset(&board.consumed(slot, channel, 0), kConsumed | kPast, static_cast<size_t>(channel.readers));
        }
}

// No rank of the in-port's task gets the step any more.
void pass(const Board& board, const PortRecord& inport, int slot) {
    for (int r = 0; r < board.task(inport.task).nprocs; ++r) follow_lead(board, board.index(inport), r, slot);
}

// A program that was started for a step and has opened none has left that one out: it is not started for it again.
void pass_over(const Board& board, int index) {
    if (!board.task(index).one_step || steps_opened(board, index) > 0) return;
    for (const PortRecord& port : ports_of(board, index, Direction::in)) {
        if (port.started_for == 0) continue;
        const int slot = next_step(board, board.index(port));
        if (slot < 0 || board.slot(slot).stamp != port.started_for) continue;
        pass(board, port, slot);
    }
}

// The step that a rank has opened last since the start of its task; without a slot if that is gone.
struct Last {
    int port = -1;
    int channel = -1;
    int source = -1;  // number in the out-port
    int slot = -1;
    uint64_t at = 0;
};

Last last_opened(const Board& board, int task, int reader) {
    Last last;
    for (const PortRecord& port : ports_of(board, task, Direction::in))
        for (const ChannelRecord& channel : channels_of(board, port))
            for (const SourceRecord& source : sources_read(board, channel, reader)) {
                const Mark& mark = board.mark(channel, source.rank, reader);
                if (mark.opened == 0 || mark.opened_at <= last.at) continue;
                last = {board.index(port), board.index(channel), source.rank, -1, mark.opened_at};
                for (const SlotRecord& slot : steps_of(board, channel, source))
                    if (slot.sequence + 1 == mark.last) last.slot = board.index(slot);
            }
    return last;
}

// No rank of the task has consumed the step, nor what came after it where steps are read in order.
void unread(const Board& board, const Last& last) {
    const PortRecord& port = board.port(last.port);
    const ChannelRecord& channel = board.channel(last.channel);
    const SlotRecord& slot = board.slot(last.slot);
    for (int r = 0; r < channel.readers; ++r) {
        Mark& mark = board.mark(channel, last.source, r);
        mark.next = mark.next < slot.sequence ? mark.next : slot.sequence;
        if (!in_order(port)) board.consumed(slot, channel, r) = 0;
    }
    if (!in_order(port)) return;
    for (uint32_t n = 0; n < port.log_end; ++n) {
        const Delivery& first = board.delivery(port, n);
        if (board.link(port, first.link) != last.channel || first.source != last.source ||
            first.sequence != slot.sequence)
            continue;
        for (int r = 0; r < board.task(port.task).nprocs; ++r)
            if (board.position(port, r) > n) board.position(port, r) = n;
        for (; n < port.log_end; ++n) {
            const Delivery& entry = board.delivery(port, n);
            const ChannelRecord& other = board.channel(board.link(port, entry.link));
            for (int r = 0; r < other.readers; ++r) {
                Mark& mark = board.mark(other, entry.source, r);
                mark.next = mark.next < entry.sequence ? mark.next : entry.sequence;
            }
        }
    }
}

}  // namespace

bool pass_step(const Board& board, int inport) {
    const int slot = next_step(board, inport);
    if (slot >= 0) pass(board, board.port(inport), slot);
    return slot >= 0;
}

bool give_again(const Board& board, int task) {
    bool whole = true;
    std::vector<Last> found;
    for (int r = 0; r < board.task(task).nprocs; ++r)
        if (const Last last = last_opened(board, task, r); last.slot >= 0) found.push_back(last);
        else whole = whole && last.port < 0;
    for (const Last& last : found) unread(board, last);
    return whole;
}

void task_exited(const Board& board, int index, bool final, bool clean,
                 void (*discarded)(const Board& board, const SlotRecord& slot)) {
    TaskRecord& task = board.task(index);
    for (RankRecord& rank : ranks_of(board, task)) {
        each_wait(rank, [&](WaitRecord& wait) {
            rank.waiting_ns += static_cast<uint64_t>(now_ns() - wait.since);
            wait.what = WaitFor::nothing;
        });
        for (Holds* part = &rank.holds; part; part = more_holds(board, *part))
            for (int32_t& held : part->slots) {
                if (held < 0) continue;
                SlotRecord& slot = board.slot(held);
                if (slot.holds > 0) --slot.holds;
                held = -1;
            }
    }
    for (SlotRecord& slot : slots_of(board)) {
        if (board.port(board.source(slot.source).port).task != index) continue;
        slot.peers = 0;
        WILKINS_FAULT_POINT("exit.peers");
        if (slot.state != SlotState::writing) continue;
        if (discarded) discarded(board, slot);
        clear_slot(board, board.index(slot));
    }
    if (!final && clean) pass_over(board, index);
    for (PortRecord& port : ports_of(board, index, Direction::in)) {
        port.started_for = 0;
        align_marks(board, port);
    }
    end_closed(board, index, clean, discarded);
    WILKINS_FAULT_POINT("exit.aligned");
    if (final) task.state = TaskState::ended;
    WILKINS_FAULT_POINT("exit.before-ring");
    for (const PortRecord& port : ports_of(board)) board.ring(board.index(port));
}

}  // namespace wilkins::queue
