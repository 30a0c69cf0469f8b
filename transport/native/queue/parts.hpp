// What the files of the state machine (queue/queue.hpp) share: looking at sources, slots and marks of a locked board.
#pragma once

#include <cstring>

#include "base/patterns.hpp"
#include "board/ranges.hpp"
#include "queue/queue.hpp"
#include "queue/closed.hpp"
#include "queue/alias.hpp"

namespace wilkins::queue {

// The part of a producer's name that is compared with those of the port.
inline const char* key_of(const PortRecord& port, const char* name) {
    return last_components(name, static_cast<int>(port.components));
}

// The source's program was started again, and makes steps that were published before.
inline bool makes_again(const SourceRecord& source) { return source.next_sequence < source.made; }

// One past the last step that the source has published.
inline uint64_t published_to(const SourceRecord& source) {
    return makes_again(source) ? source.made : source.next_sequence;
}

inline bool alive(const Board& board, const ChannelRecord& channel) {
    return board.task(board.port(channel.inport).task).state != TaskState::ended;
}

// True if the rank is one of the port's readers. One beyond them has no mark to move.
inline bool may_read(const Board& board, int inport, int rank) {
    for (const ChannelRecord& channel : channels_of(board, board.port(inport)))
        if (rank < channel.readers) return true;
    return false;
}

// True if the rank has opened a step on this in-port since its task was last started.
inline bool has_opened(const Board& board, const PortRecord& inport, int reader) {
    for (const ChannelRecord& channel : channels_of(board, inport))
        for (const SourceRecord& source : sources_read(board, channel, reader))
            if (board.mark(channel, source.rank, reader).opened > 0) return true;
    return false;
}

// A rank that has read nothing where others of its task read together: nothing waits for it.
inline bool is_idle(const Board& board, const ChannelRecord& channel, int reader) {
    return channel.in_part && !has_opened(board, board.port(channel.inport), reader);
}

// Steps of the source so far whose names match the channel's in-port. The word's upper half says which step was counted
// last: the one that is published next, if a process died while it published it.
inline uint64_t offered(const Board& board, const ChannelRecord& channel, int source) {
    const uint64_t word = board.offered(channel, source);
    const uint64_t next = board.source(board.port(channel.outport), source).next_sequence;
    return (word & UINT32_MAX) - (word >> 32 == ((next + 1) & UINT32_MAX) ? 1 : 0);
}

// True if a rank of the channel's task has opened the step.
inline bool is_consumed(const Board& board, const ChannelRecord& channel, int source, const SlotRecord& slot) {
    for (int r = 0; r < channel.readers; ++r)
        if (has_consumed(board, channel, source, r, slot)) return true;
    return false;
}

// True if the rank, which is not idle, has opened the channel's step, or left it to another rank of its task. It has
// left those that another one has consumed, once it has consumed one that was published later; unless ranks read the
// same steps, each in its own order.
inline bool is_done(const Board& board, const ChannelRecord& channel, int source, int reader, const SlotRecord& slot) {
    const PortRecord& inport = board.port(channel.inport);
    if (in_order(inport)) return board.mark(channel, source, reader).next > slot.sequence;
    if (board.consumed(slot, channel, reader) != 0) return true;
    return !inport.in_common && slot.published_stamp < board.latest(inport, reader) &&
           is_consumed(board, channel, source, slot);
}

// One past the last step of the source that any reading rank has opened.
inline uint64_t highest(const Board& board, const ChannelRecord& channel, int source) {
    uint64_t most = 0;
    for (int r = 0; r < channel.readers; ++r) {
        const uint64_t next = board.mark(channel, source, r).next;
        most = next > most ? next : most;
    }
    return most;
}

// Calls `visit` with every slot that processes of a rank have open, and the process; may be more than once.
template <class Visit>
void each_hold(const Board& board, RankRecord& rank, Visit visit) {
    for (Holds* part = &rank.holds; part; part = more_holds(board, *part))
        for (int k = 0; k < kHolds; ++k)
            if (part->slots[k] >= 0) visit(part->slots[k], part->processes[k]);
}

// The parts that this host has of one out-port: of a task whose ranks are on several hosts, those that are here, and
// what comes from others.
template <class Visit>
void each_part(const Board& board, const PortRecord& out, Visit visit) {
    if (out.keys.part_of == 0) return visit(out);
    for (const PortRecord& part : ports_of(board))
        if (part.direction == Direction::out && part.keys.part_of == out.keys.part_of) visit(part);
}

// The out-port of a step.
inline const PortRecord& port_of(const Board& board, const SlotRecord& slot) {
    return board.port(board.source(slot.source).port);
}

// True if a program of the out-port has begun a file.
inline bool has_begun(const Board& board, const PortRecord& out) {
    bool begun = false;
    each_part(board, out, [&](const PortRecord& part) { begun = begun || part.begun > 0; });
    return begun;
}

// True if one of the sources that publish for the in-port passes the test.
template <class Test>
bool any_source(const Board& board, const PortRecord& inport, Test test) {
    for (const PortRecord& out : outports_of(board, inport))
        for (const SourceRecord& source : sources_of(board, out))
            if (test(source)) return true;
    return false;
}

// True if the task's program is started for one step of the in-port, which the port's one name means however often it
// is opened. A alias goes on from step to step.
inline bool for_one_step(const Board& board, const PortRecord& inport) {
    return board.task(inport.task).one_step && in_order(inport) && !has_alias(inport);
}

// True if all steps of the channel stay, since its program waits for the whole series, to list it.
inline bool kept_to_end(const Board& board, const ChannelRecord& channel) {
    return board.port(channel.inport).keys.listing == Lists::end && can_produce(board, channel.inport);
}

// How many steps of the source on the channel fill its queue, and how many some rank is not done with. Of a port that
// is read in order these are the same; of another one, a step that any rank has consumed fills no queue.
struct Queued {
    int waiting = 0;
    int unfinished = 0;
};

// Steps of the source on the channel that some rank is not done with. `is_idle`: for a reader, as the function of that
// name.
template <class IsIdle, class Visit>
void each_queued(const Board& board, const ChannelRecord& channel, int s, IsIdle is_idle, Visit visit) {
    for (const SlotRecord& slot : steps_of(board, channel, board.source(board.port(channel.outport), s))) {
        bool done = true;
        for (int r = 0; r < channel.readers && done; ++r) done = is_done(board, channel, s, r, slot) || is_idle(r);
        if (!done) visit(slot);
    }
}

template <class IsIdle>
Queued count_queued(const Board& board, const ChannelRecord& channel, int s, IsIdle is_idle) {
    Queued found;
    const bool ordered = in_order(board.port(channel.inport));
    each_queued(board, channel, s, is_idle, [&](const SlotRecord& slot) {
        ++found.unfinished;
        found.waiting += ordered || !is_consumed(board, channel, s, slot);
    });
    return found;
}

// True if the policy keeps the step that has `before` steps before it: every n-th, from `offset` on.
inline bool keeps(const ChannelRecord& channel, uint64_t before) { return before % channel.every == channel.offset; }

// True if the source's next step, of this name, would count in the channel's queue.
inline bool is_for(const Board& board, const ChannelRecord& channel, int source_in_port, const char* name) {
    const PortRecord& inport = board.port(channel.inport);
    if (inport.keys.listing == Lists::end) return false;  // its program waits for all of them
    if (makes_again(board.source(board.port(channel.outport), source_in_port))) return false;
    if (!keeps(channel, offered(board, channel, source_in_port))) return false;
    return pattern_match(inport.pattern, static_cast<int>(inport.components), name);
}

// True if the channel's task misses steps that come while it is busy, here or before they come to this host.
inline bool leaves_out(const Board& board, const ChannelRecord& channel) {
    return channel.when_full != WhenFull::block || board.port(channel.outport).keys.on_demand;
}

// True if the channel's task gets every step, under the name that its producer gives it.
inline bool gives_all(const Board& board, const ChannelRecord& channel) {
    return channel.every == 1 && !leaves_out(board, channel) && !in_order(board.port(channel.inport));
}

// True if a step was published for the in-port that a policy drops when there are more.
inline bool drops_since_first(const Board& board, const PortRecord& inport) {
    for (const ChannelRecord& channel : channels_of(board, inport))
        if (leaves_out(board, channel) && board.port(channel.outport).steps > 0) return true;
    return false;
}

// The step has a newer version of a name that the channel's task has read (see ChannelRecord::newer), or is that no
// more.
inline void set_newer(ChannelRecord& channel, uint8_t& on, bool newer) {
    if (((on & kNewer) != 0) == newer) return;
    on = newer ? on | kNewer : on & ~kNewer;
    channel.newer += newer ? 1 : -1;
}

inline int bound(const Board& board, const ChannelRecord& channel) {
    return static_cast<int>(channel.queue + channel.stretched + board.port(channel.inport).ahead);
}

// So many steps keep the source from beginning another one. A rank that is far behind the others of its task holds it
// up, too.
inline bool fills(const Board& board, const ChannelRecord& channel, const Queued& queued) {
    const int most = bound(board, channel);
    return (channel.when_full == WhenFull::block && queued.waiting >= most) || queued.unfinished >= most + kSpareSlots;
}

// See needed. `is_idle`: for a channel and reader, as the function of that name.
template <class IsIdle>
bool needed_by(const Board& board, const SlotRecord& slot, bool pressed, IsIdle is_idle) {
    if (slot.state == SlotState::free) return false;
    if (unfinished(slot) || slot.holds > 0) return true;
    const SourceRecord& source = board.source(slot.source);
    const PortRecord& port = board.port(source.port);
    const int s = source.rank;
    for (const ChannelRecord& channel : channels_of(board, port)) {
        if (!board.on(slot, channel.place) || !alive(board, channel)) continue;
        if (kept_to_end(board, channel)) return true;
        const PortRecord& inport = board.port(channel.inport);
        for (int r = 0; r < channel.readers; ++r) {
            if (!is_done(board, channel, s, r, slot) && !is_idle(channel, r)) return true;
            const Mark& mark = board.mark(channel, s, r);
            if (mark.last != slot.sequence + 1) continue;
            if (mark.keep == kCurrent || mark.keep == kHalfOpened ||
                (!pressed && (mark.keep == kOpensAgain || inport.keys.reads_again)))
                return true;
        }
    }
    return false;
}

// All ranks of the in-port's task have consumed the step that one has opened.
void share_consumed(const Board& board, int inport, int slot);

}  // namespace wilkins::queue
