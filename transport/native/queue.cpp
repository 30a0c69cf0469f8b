// The state machine of steps.
#include "queue.hpp"

#include <time.h>
#include <unistd.h>

#include <cstring>

#include "fault.hpp"
#include "match.hpp"
#include "resting.hpp"
#include "trace.hpp"

namespace wilkins::queue {

namespace {

int place_in_port(const Board& board, const SourceRecord& source) {
    return static_cast<int>(&source - &board.source(board.port(source.port).first_source));
}

bool alive(const Board& board, const ChannelRecord& channel) {
    return board.task(board.port(channel.inport).task).state != TaskState::ended;
}

// A rank that never opened anything of this source follows, there, the farthest it has got on the channel's other sources.
// (By name only; a fixed name is read in order.)
bool follows(const Board& board, const ChannelRecord& channel, const Mark& own) {
    return own.next == 0 && own.keep != kInOrder && !board.port(channel.inport).fixed;
}

// Has the rank opened a step on this in-port since its task was last started?
bool has_opened(const Board& board, const PortRecord& inport, int reader) {
    for (int link = 0; link < inport.links; ++link) {
        const ChannelRecord& channel = board.channel(board.link(inport, link));
        const int sources = reader < channel.readers ? board.port(channel.outport).sources : 0;
        for (int s = 0; s < sources; ++s)
            if (board.mark(channel, s, reader).opened > 0) return true;
    }
    return false;
}

// A rank that has read nothing where others of its task read together: nothing waits for it.
bool stands_by(const Board& board, const ChannelRecord& channel, int reader) {
    return channel.in_part && !has_opened(board, board.port(channel.inport), reader);
}

uint64_t farthest(const Board& board, const ChannelRecord& channel, int reader) {
    uint64_t most = 0;
    for (int s = 0; s < board.port(channel.outport).sources; ++s) {
        const uint64_t next = board.mark(channel, s, reader).next;
        most = next > most ? next : most;
    }
    return most;
}

// Steps of the source so far whose names match the channel's in-port. The word's upper half says which step was counted last: the
// one that is published next, if a process died while it published it.
uint64_t offered(const Board& board, const ChannelRecord& channel, int source) {
    const uint64_t word = board.offered(channel, source);
    const uint64_t next = board.source(board.port(channel.outport).first_source + source).next_sequence;
    return (word & UINT32_MAX) - (word >> 32 == ((next + 1) & UINT32_MAX) ? 1 : 0);
}

// The first step that the rank may still want. One that follows may yet turn to this source's present step.
uint64_t wanted_from(const Board& board, const ChannelRecord& channel, int source, int reader) {
    if (stands_by(board, channel, reader)) return UINT64_MAX;
    const Mark& own = board.mark(channel, source, reader);
    if (!follows(board, channel, own)) return own.next;
    const uint64_t most = farthest(board, channel, reader);
    return most > 0 ? most - 1 : 0;
}

// One past the last step of the source that any reading rank has opened.
uint64_t highest(const Board& board, const ChannelRecord& channel, int source) {
    uint64_t most = 0;
    for (int r = 0; r < channel.readers; ++r) {
        const uint64_t next = board.mark(channel, source, r).next;
        most = next > most ? next : most;
    }
    return most;
}

template <class Visit>
void each_slot(const Board& board, const SourceRecord& source, Visit visit) {
    for (int k = source.first_slot; k < source.first_slot + source.slots; ++k) visit(k, board.slot(k));
}

bool same_key(const PortRecord& inport, const char* asked, const char* published) {
    const int n = static_cast<int>(inport.components);
    return strcmp(last_components(asked, n), last_components(published, n)) == 0;
}

bool on_channel(const Board& board, const SlotRecord& slot, const ChannelRecord& channel) {
    return slot.state == SlotState::published && board.on(slot, channel.place) != 0;
}

}  // namespace

uint64_t reach(const Board& board, const ChannelRecord& channel, int source, int reader) {
    if (stands_by(board, channel, reader)) return UINT64_MAX;
    const Mark& own = board.mark(channel, source, reader);
    return follows(board, channel, own) ? farthest(board, channel, reader) : own.next;
}

bool needed(const Board& board, const SlotRecord& slot, bool pressed) {
    if (slot.state == SlotState::free) return false;
    if (unfinished(slot) || slot.holds > 0) return true;
    const SourceRecord& source = board.source(slot.source);
    const PortRecord& port = board.port(source.port);
    const int s = place_in_port(board, source);
    for (int k = 0; k < port.links; ++k) {
        const ChannelRecord& channel = board.channel(board.link(port, k));
        if (!board.on(slot, channel.place) || !alive(board, channel)) continue;
        for (int r = 0; r < channel.readers; ++r) {
            if (wanted_from(board, channel, s, r) <= slot.sequence) return true;
            const Mark& mark = board.mark(channel, s, r);
            if (mark.next != slot.sequence + 1) continue;
            if (mark.keep == kCurrent || mark.keep == kHalfOpened || (!pressed && mark.keep == kOpensAgain)) return true;
        }
    }
    return false;
}

int queued(const Board& board, const ChannelRecord& channel, int source_in_port) {
    if (!alive(board, channel)) return 0;
    uint64_t low = UINT64_MAX;
    for (int r = 0; r < channel.readers; ++r) {
        const uint64_t next = reach(board, channel, source_in_port, r);
        low = next < low ? next : low;
    }
    int n = 0;
    const SourceRecord& source = board.source(board.port(channel.outport).first_source + source_in_port);
    each_slot(board, source, [&](int, const SlotRecord& slot) { n += on_channel(board, slot, channel) && slot.sequence >= low; });
    return n;
}

bool full(const Board& board, const ChannelRecord& channel, int source_in_port, const char* name) {
    const PortRecord& inport = board.port(channel.inport);
    if (channel.when_full != WhenFull::block || offered(board, channel, source_in_port) % channel.every != 0) return false;
    if (!pattern_match(inport.pattern, static_cast<int>(inport.components), name)) return false;
    return queued(board, channel, source_in_port) >= static_cast<int>(channel.queue);
}

bool has_room(const Board& board, int source_index, const char* name) {
    const SourceRecord& source = board.source(source_index);
    const PortRecord& port = board.port(source.port);
    for (int k = 0; k < port.links; ++k) {
        const ChannelRecord& channel = board.channel(board.link(port, k));
        if (full(board, channel, place_in_port(board, source), name)) return false;
    }
    return true;
}

int take_slot(const Board& board, int source_index, bool pressed) {
    int best = -1;
    each_slot(board, board.source(source_index), [&](int k, SlotRecord& slot) {
        if (needed(board, slot, pressed) || slot.peers > 0) return;
        // The last step with memory in it: its pages are the ones most likely still mapped by both sides.
        if (best < 0 || slot.reserved.load() > board.slot(best).reserved.load()) best = k;
    });
    if (best >= 0) clear_slot(board, best);
    return best;
}

void clear_slot(const Board& board, int index) {
    SlotRecord& slot = board.slot(index);
    slot.state = SlotState::free;
    WILKINS_FAULT_POINT("clear.freed");
    slot.name[0] = 0;
    slot.holds = 0;
    slot.size.store(0);
    slot.broken.store(0);
    slot.removed = 0;
    slot.kept_back = 0;
    slot.closes = 0;
    slot.snapshots = 0;
    const PortRecord& port = board.port(board.source(slot.source).port);
    for (int k = 0; k < port.links; ++k) board.on(slot, k) = 0;
}

namespace {

// A step that a consumer will not get.
void note_lost(const Board& board, const ChannelRecord& channel, const char* event, const SlotRecord& slot, uint64_t sequence) {
    const PortRecord& inport = board.port(channel.inport);
    trace::note(board, event, inport.task, -1, inport.pattern, slot.name, static_cast<int64_t>(sequence),
                static_cast<int64_t>(slot.size.load()));
}

// Steps on the channel that no rank has opened; a step that some rank has opened is never dropped: the others will read it too.
struct Unopened {
    uint32_t count = 0;
    int oldest = -1;
};

Unopened unopened(const Board& board, const ChannelRecord& channel, int s, const SourceRecord& source) {
    const uint64_t high = highest(board, channel, s);
    Unopened found;
    each_slot(board, source, [&](int k, const SlotRecord& slot) {
        if (!on_channel(board, slot, channel) || slot.sequence < high) return;
        ++found.count;
        if (found.oldest < 0 || slot.sequence < board.slot(found.oldest).sequence) found.oldest = k;
    });
    return found;
}

// Makes a full channel that drops hold no more than it may, now that a step was added to it.
void drop_surplus(const Board& board, ChannelRecord& channel, int s, const SourceRecord& source) {
    for (;;) {
        const Unopened found = unopened(board, channel, s, source);
        if (found.count <= channel.queue) return;
        const SlotRecord& oldest = board.slot(found.oldest);
        board.on(oldest, channel.place) = 0;
        note_lost(board, channel, "drop", oldest, oldest.sequence);
        ++channel.dropped;
        WILKINS_FAULT_POINT("publish.dropped");
    }
}

// What follows from a step's being published. Its last store says that it is done; until then it may be done again.
void settle(const Board& board, int index) {
    const SlotRecord& slot = board.slot(index);
    SourceRecord& source = board.source(slot.source);
    PortRecord& port = board.port(source.port);
    const int s = place_in_port(board, source);
    for (int k = 0; k < port.links; ++k) {
        ChannelRecord& channel = board.channel(board.link(port, k));
        if (channel.when_full == WhenFull::drop_oldest && board.on(slot, channel.place)) drop_surplus(board, channel, s, source);
    }
    if (source.names <= slot.sequence) {
        const uint64_t name_hash = hash_text(last_components(slot.name, static_cast<int>(port.components)));
        const bool known = in_history(board, source, slot.name, static_cast<int>(port.components));
        if (takes_snapshots(port.habits) || known) source.rewrites = 1;
        else if (source.names > 0) source.renames = 1;
        WILKINS_FAULT_POINT("publish.named");
        source.history[source.names % kHistory] = name_hash | 1;
        source.names = static_cast<uint32_t>(slot.sequence + 1);
    }
    WILKINS_FAULT_POINT("publish.remembered");
    ++port.steps;
    port.bytes += slot.size.load();
    trace::note(board, "publish", port.task, source.rank, port.pattern, slot.name, static_cast<int64_t>(slot.sequence),
                static_cast<int64_t>(slot.size.load()));
    source.next_sequence = slot.sequence + 1;
}

}  // namespace

void publish(const Board& board, int index) {
    SlotRecord& slot = board.slot(index);
    SourceRecord& source = board.source(slot.source);
    PortRecord& port = board.port(source.port);
    const int s = place_in_port(board, source);
    const uint64_t sequence = source.next_sequence;
    WILKINS_FAULT_POINT("publish.begun");
    for (int k = 0; k < port.links; ++k) {
        ChannelRecord& channel = board.channel(board.link(port, k));
        const PortRecord& inport = board.port(channel.inport);
        const bool matches = pattern_match(inport.pattern, static_cast<int>(inport.components), slot.name);
        const uint64_t before = offered(board, channel, s);
        board.offered(channel, s) = matches ? ((sequence + 1) & UINT32_MAX) << 32 | (before + 1) : before;
        WILKINS_FAULT_POINT("publish.offered");
        bool goes = matches && before % channel.every == 0 && alive(board, channel);
        if (matches && before % channel.every != 0) note_lost(board, channel, "skip", slot, sequence);
        if (goes && channel.when_full == WhenFull::drop_newest && unopened(board, channel, s, source).count >= channel.queue) {
            note_lost(board, channel, "drop", slot, sequence);
            ++channel.dropped;
            goes = false;
        }
        board.on(slot, channel.place) = goes;
    }
    slot.sequence = sequence;
    slot.published_stamp = ++board.head().publications;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    slot.published_ns = static_cast<int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec;
    WILKINS_FAULT_POINT("publish.placed");
    // From here on the step is there, also if this process dies before it comes to the rest (see repair).
    slot.state = SlotState::published;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    WILKINS_FAULT_POINT("publish.shown");
    settle(board, index);
    WILKINS_FAULT_POINT("publish.before-ring");
    for (int k = 0; k < port.links; ++k) board.ring(board.channel(board.link(port, k)).inport);
    WILKINS_FAULT_POINT("publish.readers-rung");
    board.ring(source.port);
}

void repair(const Board& board) {
    BoardRecord& head = board.head();
    for (int s = 0; s < head.slots; ++s) board.slot(s).holds = 0;
    for (int r = 0; r < head.ranks; ++r)
        for (int held : board.rank(r).holds)
            if (held >= 0 && held < head.slots) ++board.slot(held).holds;
    head.memory = 0;
    for (int p = 0; p < head.ports; ++p) board.port(p).used = 0;
    for (int s = 0; s < head.slots; ++s) {
        SlotRecord& slot = board.slot(s);
        const SourceRecord& source = board.source(slot.source);
        PortRecord& port = board.port(source.port);
        if (port.habits.mode != Mode::file) {  // those take no shared memory
            port.used += slot.accounted;
            head.memory += slot.accounted;
        }
        // A file that was being withdrawn is (see withdraw).
        if (slot.state == SlotState::resting && slot.removed) slot.state = SlotState::published;
        // (One that was withdrawn has no number.)
        if (slot.state == SlotState::published && !slot.removed && slot.sequence >= source.next_sequence) settle(board, s);
    }
    for (int p = 0; p < head.ports; ++p) {
        const PortRecord& port = board.port(p);
        if (port.direction == Direction::in && port.log_end > 0) {
            const Delivery& last = board.delivery(port, port.log_end - 1);
            uint64_t& logged = board.logged(board.channel(board.link(port, last.link)), last.source);
            if (logged <= last.sequence) logged = last.sequence + 1;
        }
        board.ring(p);
    }
}

namespace {

// The step of one entry of the in-port's log; without a slot if its producer has withdrawn it.
Found find_entry(const Board& board, const PortRecord& inport, uint32_t position) {
    Found found;
    const Delivery& entry = board.delivery(inport, position);
    const ChannelRecord& channel = board.channel(board.link(inport, entry.link));
    const PortRecord& out = board.port(channel.outport);
    each_slot(board, board.source(out.first_source + entry.source), [&](int k, const SlotRecord& slot) {
        if (on_channel(board, slot, channel) && slot.sequence == entry.sequence) found = {k, entry.link, true, false, position};
    });
    return found;
}

// Is it the step that the rank has opened last, and will it open it again before it turns to the next?
bool half_opened(const Board& board, const PortRecord& inport, const Found& found, int reader) {
    const ChannelRecord& channel = board.channel(board.link(inport, found.link));
    const SlotRecord& slot = board.slot(found.slot);
    const Mark& mark = board.mark(channel, place_in_port(board, board.source(slot.source)), reader);
    return mark.keep == kHalfOpened && mark.next == slot.sequence + 1;
}

// In order: the next entry of the in-port's log, or the oldest step not in it yet.
Found find_in_order(const Board& board, int index, int reader) {
    const PortRecord& inport = board.port(index);
    Found found;
    uint32_t position = board.position(inport, reader);
    if (board.task(inport.task).one_step && position > 0 && has_opened(board, inport, reader)) {
        found = find_entry(board, inport, position - 1);
        found.unread = false;
        found.passed = found.slot < 0;
        return found;
    }
    if (position > 0) {
        found = find_entry(board, inport, position - 1);
        if (found.slot >= 0 && half_opened(board, inport, found, reader)) {
            found.unread = false;
            return found;
        }
        found = {};
    }
    for (; position < inport.log_end; ++position) {
        found = find_entry(board, inport, position);
        if (found.slot >= 0) return found;
        // Its producer has removed it since: for this rank the stream goes on behind it.
    }
    for (int link = 0; link < inport.links; ++link) {
        const ChannelRecord& channel = board.channel(board.link(inport, link));
        if (reader >= channel.readers) continue;
        const PortRecord& out = board.port(channel.outport);
        for (int s = 0; s < out.sources; ++s)
            each_slot(board, board.source(out.first_source + s), [&](int k, const SlotRecord& slot) {
                if (!on_channel(board, slot, channel) || slot.sequence < board.logged(channel, s)) return;
                if (found.slot < 0 || slot.published_stamp < board.slot(found.slot).published_stamp) found = {k, link, true, false, position};
            });
    }
    return found;
}

// May a rank that has opened the source's step `slot` open its name again and get the same step? Not if the producer
// rewrites the name: then the next open is the next step. As long as nothing tells, the answer waits for the producer's next
// file, except where the producer itself waits for data or has ended.
bool opens_again(const Board& board, const SourceRecord& source, const SlotRecord& slot) {
    if (source.rewrites || source.renames) return !source.rewrites;
    const TaskRecord& task = board.task(board.port(source.port).task);
    const RankRecord& producer = board.rank(task.first_rank + source.rank);
    if (task.state == TaskState::ended || producer.wait == WaitFor::data) return true;
    if (producer.wait == WaitFor::room && strcmp(producer.wait_name, slot.name) != 0) return true;
    bool other = false;
    each_slot(board, source, [&](int, const SlotRecord& next) {
        other = other || (unfinished(next) && strcmp(next.name, slot.name) != 0);
    });
    return other;
}

Found find_by_name(const Board& board, int index, int reader, const char* name) {
    const PortRecord& inport = board.port(index);
    Found found, owed;
    bool passed = false;
    for (int link = 0; link < inport.links; ++link) {
        const ChannelRecord& channel = board.channel(board.link(inport, link));
        if (reader >= channel.readers) continue;
        const PortRecord& out = board.port(channel.outport);
        for (int s = 0; s < out.sources; ++s) {
            const SourceRecord& source = board.source(out.first_source + s);
            const Mark& mark = board.mark(channel, s, reader);
            bool again = false;
            each_slot(board, source, [&](int k, const SlotRecord& slot) {
                if (!on_channel(board, slot, channel) || !same_key(inport, name, slot.name)) return;
                if (slot.sequence < mark.next) {
                    if ((mark.keep != kOpensAgain && mark.keep != kHalfOpened) || slot.sequence + 1 != mark.next) return;
                    again = true;
                    if (mark.keep == kHalfOpened) owed = {k, link, false, false};
                    else if (found.slot < 0 && opens_again(board, source, slot)) found = {k, link, false, false};
                } else if (!found.unread || slot.published_stamp < board.slot(found.slot).published_stamp) {
                    found = {k, link, true, false};
                }
            });
            if (found.slot < 0 && !again && !source.rewrites) passed = passed || in_history(board, source, name, static_cast<int>(inport.components));
        }
    }
    if (owed.slot >= 0) return owed;
    found.passed = found.slot < 0 && passed;
    return found;
}

}  // namespace

namespace {

// Calls `visit` with every mark of the rank on the in-port: its channel's link, its source within the out-port.
template <class Visit>
void each_mark(const Board& board, const PortRecord& inport, int reader, Visit visit) {
    for (int link = 0; link < inport.links; ++link) {
        const ChannelRecord& channel = board.channel(board.link(inport, link));
        const int sources = reader < channel.readers ? board.port(channel.outport).sources : 0;
        for (int s = 0; s < sources; ++s) visit(link, s, board.mark(channel, s, reader));
    }
}

// The step that the rank has chosen, if this is its name.
Found find_chosen(const Board& board, const PortRecord& inport, int reader, const char* name) {
    Found found;
    each_mark(board, inport, reader, [&](int link, int s, const Mark& mark) {
        if (mark.keep != kCurrent) return;
        const ChannelRecord& channel = board.channel(board.link(inport, link));
        each_slot(board, board.source(board.port(channel.outport).first_source + s), [&](int k, const SlotRecord& slot) {
            if (on_channel(board, slot, channel) && slot.sequence + 1 == mark.next && same_key(inport, name, slot.name)) found = {k, link, false, false};
        });
    });
    return found;
}

}  // namespace

namespace {

// What the rank would choose now.
Found find_choice(const Board& board, int index, int reader) {
    const PortRecord& inport = board.port(index);
    Found found;
    if (inport.fixed) {
        found = find_in_order(board, index, reader);
        if (!found.unread) return {};
    } else {
        each_mark(board, inport, reader, [&](int link, int s, const Mark& mark) {
            const ChannelRecord& channel = board.channel(board.link(inport, link));
            each_slot(board, board.source(board.port(channel.outport).first_source + s), [&](int k, const SlotRecord& slot) {
                if (!on_channel(board, slot, channel) || slot.sequence < mark.next) return;
                if (found.slot < 0 || slot.published_stamp < board.slot(found.slot).published_stamp) found = {k, link, true, false};
            });
        });
    }
    return found;
}

}  // namespace

bool has_its_step(const Board& board, int index, int reader) {
    const PortRecord& inport = board.port(index);
    return board.task(inport.task).one_step && inport.fixed && has_opened(board, inport, reader);
}

bool has_choice(const Board& board, int index, int reader) { return find_choice(board, index, reader).slot >= 0; }

int choose(const Board& board, int index, int reader) {
    const PortRecord& inport = board.port(index);
    const Found found = find_choice(board, index, reader);
    if (found.slot < 0) return -1;
    take(board, index, reader, found);
    const ChannelRecord& channel = board.channel(board.link(inport, found.link));
    board.mark(channel, place_in_port(board, board.source(board.slot(found.slot).source)), reader).keep = kCurrent;
    return found.slot;
}

void leave(const Board& board, int index, int reader, bool for_next) {
    const PortRecord& inport = board.port(index);
    each_mark(board, inport, reader, [&](int link, int, Mark& mark) {
        if (mark.next == 0) mark.keep = for_next ? kInOrder : kGone;
        else if (mark.keep != kGone) mark.keep = kGone;
        else return;
        board.ring(board.channel(board.link(inport, link)).outport);
    });
}

Found find(const Board& board, int inport, int reader, const char* name) {
    const Found chosen = find_chosen(board, board.port(inport), reader, name);
    if (chosen.slot >= 0) return chosen;
    return board.port(inport).fixed ? find_in_order(board, inport, reader) : find_by_name(board, inport, reader, name);
}

namespace {

// Counts one more open of the step that the mark's rank has opened last.
void count_open(const Board& board, const PortRecord& inport, const ChannelRecord& channel, Mark& mark) {
    ++mark.opens;
    const bool again = !inport.fixed || board.task(inport.task).one_step;
    mark.keep = mark.opens < inport.habits.opens_per_step ? kHalfOpened : again ? kOpensAgain : kOpened;
    board.ring(channel.outport);
}

}  // namespace

void take(const Board& board, int index, int reader, const Found& found) {
    PortRecord& inport = board.port(index);
    const ChannelRecord& channel = board.channel(board.link(inport, found.link));
    const SlotRecord& slot = board.slot(found.slot);
    const int s = place_in_port(board, board.source(slot.source));
    if (!found.unread) {
        Mark& mark = board.mark(channel, s, reader);
        if (mark.keep == kHalfOpened) count_open(board, inport, channel, mark);
        return;
    }
    bool first = true;
    for (int r = 0; r < channel.readers; ++r) first = first && board.mark(channel, s, r).next <= slot.sequence;
    if (first) {
        ++inport.steps;
        inport.bytes += slot.size.load();
    }
    if (inport.fixed) {
        if (found.position == inport.log_end) {
            board.delivery(inport, inport.log_end) = {found.link, s, slot.sequence};
            WILKINS_FAULT_POINT("take.delivery");
            ++inport.log_end;  // first: see repair
            WILKINS_FAULT_POINT("take.logged");
            board.logged(channel, s) = slot.sequence + 1;
        }
    }
    Mark& mark = board.mark(channel, s, reader);
    ++mark.opened;
    WILKINS_FAULT_POINT("take.kept");
    mark.next = slot.sequence + 1;
    WILKINS_FAULT_POINT("take.marked");
    // Last: a step that the rank is past in the log, but not by its mark, would be in the queue for ever.
    if (inport.fixed) board.position(inport, reader) = found.position + 1;
    trace::note(board, "open", inport.task, reader, inport.pattern, slot.name, static_cast<int64_t>(slot.sequence),
                static_cast<int64_t>(slot.size.load()));
    mark.opens = 0;
    count_open(board, inport, channel, mark);
}

void opened_in_part(const Board& board, int index, int ranks) {
    const PortRecord& inport = board.port(index);
    for (int link = 0; link < inport.links; ++link) {
        ChannelRecord& channel = board.channel(board.link(inport, link));
        if (ranks < 2 || ranks >= channel.readers || channel.readers_given) continue;
        channel.in_part = 1;
        board.ring(channel.outport);
    }
}

bool comes_late(const Board& board, int index, int reader, const Found& found) {
    const PortRecord& inport = board.port(index);
    for (int link = 0; link < inport.links; ++link) {
        const ChannelRecord& channel = board.channel(board.link(inport, link));
        if (!stands_by(board, channel, reader) || (found.slot >= 0 && found.link != link)) continue;
        if (inport.fixed) return board.position(inport, reader) < (found.slot < 0 ? inport.log_end : found.position);
        for (int s = 0; s < board.port(channel.outport).sources; ++s)
            if (highest(board, channel, s) > (found.slot < 0 ? 0 : board.slot(found.slot).sequence + 1)) return true;
    }
    return false;
}

void follow_lead(const Board& board, int index, int reader, int slot_index) {
    const PortRecord& inport = board.port(index);
    const SlotRecord& slot = board.slot(slot_index);
    const SourceRecord& source = board.source(slot.source);
    const int s = place_in_port(board, source);
    for (int link = 0; link < inport.links; ++link) {
        const ChannelRecord& channel = board.channel(board.link(inport, link));
        if (channel.outport != source.port || reader >= channel.readers || !on_channel(board, slot, channel)) continue;
        Mark& mark = board.mark(channel, s, reader);
        if (mark.keep == kHalfOpened && mark.next == slot.sequence + 1) count_open(board, inport, channel, mark);
        if (slot.sequence < mark.next) continue;
        Found found = {slot_index, link, true, false, inport.log_end};
        for (uint32_t n = inport.fixed ? board.position(inport, reader) : inport.log_end; n < inport.log_end; ++n) {
            const Delivery& entry = board.delivery(inport, n);
            if (entry.link == link && entry.source == s && entry.sequence == slot.sequence) found.position = n;
        }
        take(board, index, reader, found);
    }
}

bool let_go(const Board& board, int index, int reader, const char* name) {
    const PortRecord& inport = board.port(index);
    bool any = false;
    for (int link = 0; link < inport.links; ++link) {
        const ChannelRecord& channel = board.channel(board.link(inport, link));
        if (reader >= channel.readers) continue;
        const PortRecord& out = board.port(channel.outport);
        for (int s = 0; s < out.sources; ++s) {
            Mark& mark = board.mark(channel, s, reader);
            bool same = inport.fixed && (mark.keep == kOpened || mark.keep == kHalfOpened);
            if (mark.keep == kOpensAgain || mark.keep == kCurrent || mark.keep == kHalfOpened)
                each_slot(board, board.source(out.first_source + s), [&](int, const SlotRecord& slot) {
                    same = same || (on_channel(board, slot, channel) && slot.sequence + 1 == mark.next && same_key(inport, name, slot.name));
                });
            if (!same) continue;
            any = true;
            mark.keep = kGone;
            WILKINS_FAULT_POINT("let-go.noted");
            board.ring(channel.outport);
        }
    }
    if (any) return true;
    const Found found = find(board, index, reader, name);
    if (found.slot < 0 || !found.unread) return found.passed;
    take(board, index, reader, found);
    return let_go(board, index, reader, name);
}

bool can_produce(const Board& board, int inport) {
    const PortRecord& port = board.port(inport);
    for (int k = 0; k < port.links; ++k) {
        const ChannelRecord& channel = board.channel(board.link(port, k));
        if (board.task(board.port(channel.outport).task).state != TaskState::ended) return true;
    }
    return false;
}

int find_own(const Board& board, int outport, const char* name, uint64_t place) {
    const PortRecord& port = board.port(outport);
    int best = -1;
    for (int s = 0; s < port.sources; ++s)
        each_slot(board, board.source(port.first_source + s), [&](int k, const SlotRecord& slot) {
            if ((slot.state != SlotState::published && slot.state != SlotState::resting) || slot.removed) return;
            if (strcmp(slot.name, name) != 0 && (!place || slot.place_hash != place)) return;
            // A resting one was begun after all of its name that are published.
            if (best < 0 || slot.state == SlotState::resting ||
                (board.slot(best).state == SlotState::published && slot.published_stamp > board.slot(best).published_stamp))
                best = k;
        });
    return best;
}

int find_clash(const Board& board, int outport, int rank, uint64_t place_hash) {
    const PortRecord& port = board.port(outport);
    int clash = -1;
    for (int s = 0; s < port.sources; ++s) {
        if (board.source(port.first_source + s).rank == rank) continue;
        each_slot(board, board.source(port.first_source + s), [&](int k, const SlotRecord& slot) {
            if (slot.place_hash == place_hash && !slot.removed && needed(board, slot, false)) clash = k;
        });
    }
    return clash;
}

namespace {

// Calls `visit` with every entry of the source's history that is about this name.
template <class Visit>
void each_entry(SourceRecord& source, const char* name, int components, Visit visit) {
    const uint64_t hash = hash_text(last_components(name, components)) | 1;
    const uint32_t n = source.names < kHistory ? source.names : kHistory;
    for (uint32_t k = 0; k < n; ++k)
        if ((source.history[k] | 1) == hash) visit(source.history[k]);
}

}  // namespace

bool in_history(const Board& board, const SourceRecord& source, const char* name, int components) {
    if (static_cast<int>(board.port(source.port).components) != components) return false;
    bool found = false;
    each_entry(const_cast<SourceRecord&>(source), name, components, [&](uint64_t) { found = true; });
    return found;
}

bool exists(const Board& board, const SourceRecord& source, const char* name) {
    bool found = false;
    each_entry(const_cast<SourceRecord&>(source), name, static_cast<int>(board.port(source.port).components),
               [&](uint64_t entry) { found = found || (entry & 1); });
    return found;
}

bool remove_own(const Board& board, int outport, const char* name, uint64_t place, bool withdraw) {
    const PortRecord& port = board.port(outport);
    bool any = false;
    for (int index; (index = find_own(board, outport, name, place)) >= 0; any = true) {
        SlotRecord& slot = board.slot(index);
        slot.removed = 1;
        WILKINS_FAULT_POINT("remove.noted");
        if (slot.state == SlotState::resting) queue::withdraw(board, index);
        for (int k = 0; withdraw && k < port.links; ++k) board.on(slot, k) = 0;
    }
    for (int s = 0; s < port.sources; ++s) {
        each_entry(board.source(port.first_source + s), name, static_cast<int>(port.components), [&](uint64_t& entry) {
            any = any || (entry & 1);
            entry &= ~uint64_t{1};
        });
    }
    if (withdraw && any) board.ring(outport);
    return any;
}

bool add_hold(const Board& board, int rank_index, int slot) {
    RankRecord& rank = board.rank(rank_index);
    for (int k = 0; k < kHolds; ++k)
        if (rank.holds[k] < 0) {
            rank.holders[k] = getpid();
            rank.holds[k] = slot;
            WILKINS_FAULT_POINT("hold.noted");
            ++board.slot(slot).holds;
            return true;
        }
    return false;
}

void drop_hold(const Board& board, int rank_index, int slot, int process) {
    RankRecord& rank = board.rank(rank_index);
    for (int k = 0; k < kHolds; ++k)
        if (rank.holds[k] == slot && rank.holders[k] == process) {
            rank.holds[k] = -1;
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
    ++task.starts;
    task.saw_end = 0;
    task.one_step = one_step;
    for (int p = 0; p < board.head().ports; ++p) {
        const PortRecord& port = board.port(p);
        if (port.task != index || port.direction != Direction::in) continue;
        for (int k = 0; k < port.links; ++k) {
            ChannelRecord& channel = board.channel(board.link(port, k));
            channel.in_part = 0;
            const int sources = board.port(channel.outport).sources;
            for (int s = 0; s < sources; ++s)
                for (int r = 0; r < channel.readers; ++r) board.mark(channel, s, r).opened = 0;
        }
        for (int r = 0; r < task.nprocs; ++r) board.first_opens(port, r).since_start = 0;
    }
}

namespace {

// The ranks of a program that was started for one step move on together.
void align_marks(const Board& board, const PortRecord& port) {
    uint32_t farthest = 0;
    for (int r = 0; r < board.task(port.task).nprocs; ++r) {
        uint32_t position = board.position(port, r);
        farthest = position > farthest ? position : farthest;
    }
    for (int r = 0; r < board.task(port.task).nprocs; ++r) board.position(port, r) = farthest;
    for (int k = 0; k < port.links; ++k) {
        const ChannelRecord& channel = board.channel(board.link(port, k));
        const int sources = board.port(channel.outport).sources;
        for (int s = 0; s < sources; ++s) {
            const uint64_t high = highest(board, channel, s);
            for (int r = 0; r < channel.readers; ++r) {
                board.mark(channel, s, r).next = high;
                board.mark(channel, s, r).keep = kGone;
            }
        }
    }
}

}  // namespace

void task_exited(const Board& board, int index, bool final, bool clean,
                 void (*discarded)(const Board& board, const SlotRecord& slot)) {
    TaskRecord& task = board.task(index);
    for (int r = task.first_rank; r < task.first_rank + task.nprocs; ++r) {
        RankRecord& rank = board.rank(r);
        if (rank.wait != WaitFor::nothing) rank.waiting_ns += static_cast<uint64_t>(now_ns() - rank.wait_since);
        rank.wait = WaitFor::nothing;
        for (int& held : rank.holds) {
            if (held < 0) continue;
            SlotRecord& slot = board.slot(held);
            if (slot.holds > 0) --slot.holds;
            held = -1;
        }
    }
    for (int s = 0; s < board.head().slots; ++s) {
        SlotRecord& slot = board.slot(s);
        if (board.port(board.source(slot.source).port).task != index) continue;
        slot.peers = 0;
        WILKINS_FAULT_POINT("exit.peers");
        if (slot.state == SlotState::writing) clear_slot(board, s);
    }
    for (int p = 0; p < board.head().ports; ++p)
        if (board.port(p).task == index && board.port(p).direction == Direction::in) align_marks(board, board.port(p));
    end_resting(board, index, clean, discarded);
    WILKINS_FAULT_POINT("exit.aligned");
    if (final) task.state = TaskState::ended;
    WILKINS_FAULT_POINT("exit.before-ring");
    for (int p = 0; p < board.head().ports; ++p) board.ring(p);
}

int next_step(const Board& board, int index) {
    const PortRecord& inport = board.port(index);
    if (inport.fixed) return find_in_order(board, index, 0).slot;
    int best = -1;
    for (int k = 0; k < inport.links; ++k) {
        const ChannelRecord& channel = board.channel(board.link(inport, k));
        const PortRecord& out = board.port(channel.outport);
        for (int s = 0; s < out.sources; ++s) {
            const uint64_t high = highest(board, channel, s);
            each_slot(board, board.source(out.first_source + s), [&](int slot_index, const SlotRecord& slot) {
                if (!on_channel(board, slot, channel) || slot.sequence < high) return;
                if (best < 0 || slot.published_stamp < board.slot(best).published_stamp) best = slot_index;
            });
        }
    }
    return best;
}

uint32_t steps_opened(const Board& board, int index) {
    uint32_t most = 0;
    for (int p = 0; p < board.head().ports; ++p) {
        const PortRecord& port = board.port(p);
        if (port.task != index || port.direction != Direction::in) continue;
        for (int k = 0; k < port.links; ++k) {
            const ChannelRecord& channel = board.channel(board.link(port, k));
            const int sources = board.port(channel.outport).sources;
            for (int s = 0; s < sources; ++s)
                for (int r = 0; r < channel.readers; ++r) {
                    uint32_t opened = board.mark(channel, s, r).opened + (board.first_opens(port, r).since_start > 0 ? 1 : 0);
                    most = opened > most ? opened : most;
                }
        }
    }
    return most;
}

}  // namespace wilkins::queue
