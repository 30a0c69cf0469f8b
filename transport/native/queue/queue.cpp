// The state machine of steps, as producers meet it: room, publication, what is dropped, and repair after a death.
#include "queue/queue.hpp"

#include <time.h>

#include <algorithm>
#include <cstring>

#include "base/fault.hpp"
#include "base/patterns.hpp"
#include "board/ahead.hpp"
#include "board/past_names.hpp"
#include "board/trace.hpp"
#include "queue/parts.hpp"
#include "queue/closed.hpp"
#include "queue/failed_opens.hpp"

namespace wilkins::queue {

bool has_consumed(const Board& board, const ChannelRecord& channel, int source, int reader, const SlotRecord& slot) {
    if (in_order(board.port(channel.inport))) return board.mark(channel, source, reader).next > slot.sequence;
    return (board.consumed(slot, channel, reader) & kConsumed) != 0;
}

bool is_past(const Board& board, const ChannelRecord& channel, int source, int reader, const SlotRecord& slot) {
    return is_done(board, channel, source, reader, slot) || is_idle(board, channel, reader);
}

bool needed(const Board& board, const SlotRecord& slot, bool pressed) {
    return needed_by(board, slot, pressed,
                     [&](const ChannelRecord& channel, int reader) { return is_idle(board, channel, reader); });
}

namespace {

Queued look_at_queue(const Board& board, const ChannelRecord& channel, int s) {
    if (!alive(board, channel)) return {};
    return count_queued(board, channel, s, [&](int reader) { return is_idle(board, channel, reader); });
}

}  // namespace

int queued(const Board& board, const ChannelRecord& channel, int source_in_port) {
    return look_at_queue(board, channel, source_in_port).waiting;
}

bool full(const Board& board, const ChannelRecord& channel, int source_in_port, const char* name) {
    return is_for(board, channel, source_in_port, name) &&
           fills(board, channel, look_at_queue(board, channel, source_in_port));
}

bool has_room(const Board& board, int source_index, const char* name) {
    const SourceRecord& source = board.source(source_index);
    const PortRecord& port = board.port(source.port);
    for (const ChannelRecord& channel : channels_of(board, port))
        if (full(board, channel, source.rank, name)) return false;
    return true;
}

void want(const Board& board, int index) {
    PortRecord& inport = board.port(index);
    if (inport.wanted) return;
    for (const PortRecord& out : outports_of(board, inport)) {
        if (!out.keys.on_demand) continue;
        inport.wanted = 1;
        board.ring(board.index(out));
    }
}

bool is_wanted(const Board& board, int outport, const char* name) {
    bool wanted = false;
    for (const ChannelRecord& channel : channels_of(board, board.port(outport))) {
        if (!alive(board, channel)) continue;
        if (full(board, channel, 0, name)) return false;
        wanted = wanted || board.port(channel.inport).wanted;
    }
    return wanted;
}

bool is_read(const Board& board, int outport) {
    bool read = false;
    for (const ChannelRecord& channel : channels_of(board, board.port(outport))) read = read || alive(board, channel);
    return read;
}

namespace {

// True if all ranks that read the channel are about to take a step of this name: they wait for it, or for any.
bool is_awaited(const Board& board, const ChannelRecord& channel, const char* name) {
    const PortRecord& inport = board.port(channel.inport);
    bool any = false;
    for (int r = 0; r < channel.readers; ++r) {
        if (is_idle(board, channel, r)) continue;
        const WaitRecord* const wait = waits_for(board.rank(board.task(inport.task).first_rank + r), WaitFor::data);
        if (!wait || wait->port != channel.inport) return false;
        if (strcmp(wait->name, name) != 0 && strcmp(wait->name, inport.pattern) != 0) return false;
        any = true;
    }
    return any;
}

}  // namespace

int coming(const Board& board, int source_index, const char* last, int most) {
    const SourceRecord& source = board.source(source_index);
    int least = most;
    bool any = false;
    for (const ChannelRecord& channel : channels_of(board, board.port(source.port))) {
        if (channel.when_full != WhenFull::block || !alive(board, channel)) continue;
        any = true;
        if (board.port(channel.inport).keys.listing == Lists::end) continue;
        const int waiting = queued(board, channel, source.rank);
        const int taken = waiting > 0 && is_awaited(board, channel, last) ? 1 : 0;
        least = std::min(least, bound(board, channel) + 1 - waiting + taken);
    }
    return any ? std::max(least, 1) : 1;
}

bool claimed(const Board& board, const SlotRecord& slot) {
    return slot.claimed_by != 0 && !board.is_over(slot.claimed_by);
}

bool may_come_again(const Board& board, const SlotRecord& slot) {
    const SourceRecord& source = board.source(slot.source);
    if (slot.state != SlotState::published || source.rewrites) return false;
    const PortRecord& port = board.port(source.port);
    for (const ChannelRecord& channel : channels_of(board, port)) {
        if (!board.on(slot, channel.place) || !alive(board, channel) || in_order(board.port(channel.inport))) continue;
        for (int r = 0; r < channel.readers; ++r)
            if (!(board.consumed(slot, channel, r) & kPast)) return true;
    }
    return false;
}

namespace {

// What a step that takes the slot finds there: nothing of an arena that programs can still see.
uint64_t memory_of(const SlotRecord& slot) {
    return slot.viewed.load() ? 0 : slot.reserved.load() + slot.set_bytes.load();
}

// True if the source may have memory for one more step, beside so many that nobody needs. As many as the workflow file
// says, or as fit.
bool may_retain(const Board& board, const SourceRecord& source, int kept) {
    const PortRecord& port = board.port(source.port);
    uint64_t taken = 0, largest = 0;
    for (const SlotRecord& slot : slots_of(board, source)) {
        const uint64_t bytes = memory_of(slot);
        taken += bytes;
        largest = bytes > largest ? bytes : largest;
    }
    if (port.cap && port.used + largest > port.cap) return false;
    if (taken + largest <= kRetained) return true;
    for (const PortRecord& inport : inports_of(board, port)) {
        const AccessKeys& keys = inport.keys;
        if (keys.reorder_given && kept < static_cast<int>(keys.reorder)) return true;
    }
    return false;
}

}  // namespace

int take_slot(const Board& board, int source_index, bool pressed) {
    const SourceRecord& source = board.source(source_index);
    int best = -1, oldest = -1, last = -1, kept = 0;  // `oldest`: of those that no program can see; `last`: of all
    for (SlotRecord& slot : slots_of(board, source)) {
        if (needed(board, slot, pressed) || is_attached(slot) || claimed(board, slot)) continue;
        if (may_come_again(board, slot)) {
            ++kept;
            if (!slot.viewed.load() && (oldest < 0 || slot.opened_at < board.slot(oldest).opened_at))
                oldest = board.index(slot);
            if (last < 0 || slot.opened_at < board.slot(last).opened_at) last = board.index(slot);
            continue;
        }
        // The last step with memory in it: its pages are the ones most likely still mapped by both sides.
        const bool first = best < 0 || (memory_of(slot) == memory_of(board.slot(best)) &&
                                        slot.viewed.load() < board.slot(best).viewed.load());
        if (first || memory_of(slot) > memory_of(board.slot(best))) best = board.index(slot);
    }
    if (oldest < 0 && best < 0) oldest = last;
    const bool grows = best >= 0 && memory_of(board.slot(best)) == 0;
    if (oldest >= 0 && (best < 0 || (grows && !may_retain(board, source, kept)))) best = oldest;
    if (best < 0) return best;
    note_let_go(board, best);
    board.slot(best).claimed_by = 0;
    clear_slot(board, best);
    return best;
}

bool let_go_lazy(const Board& board, int source_index) {
    const SourceRecord& source = board.source(source_index);
    int oldest = -1, kept = 0;
    for (const SlotRecord& slot : slots_of(board, source)) {
        if (needed(board, slot, false) || is_attached(slot) || claimed(board, slot) || !may_come_again(board, slot))
            continue;
        ++kept;
        const bool is_lazy = slot.lazy.is == Absence::lazy && slot.lazy.absent.load() > 0 && !slot.viewed.load();
        if (is_lazy && (oldest < 0 || slot.opened_at < board.slot(oldest).opened_at)) oldest = board.index(slot);
    }
    if (oldest < 0 || may_retain(board, source, kept)) return false;
    note_let_go(board, oldest);
    clear_slot(board, oldest);
    return true;
}

Viewed count_viewed(const Board& board, int port) {
    Viewed found;
    for (const SourceRecord& source : sources_of(board)) {
        if ((port >= 0 && source.port != port) || board.port(source.port).keys.mode == Mode::file) continue;
        found.steps += static_cast<int>(source.aside_end - source.aside_first);
        found.bytes += source.aside_bytes;
        for (const SlotRecord& slot : slots_of(board, source)) {
            if (!slot.viewed.load() || needed(board, slot, true)) continue;
            ++found.steps;
            found.bytes += slot.accounted;
        }
    }
    return found;
}

void clear_slot(const Board& board, int index) {
    SlotRecord& slot = board.slot(index);
    slot.state = SlotState::free;
    WILKINS_FAULT_POINT("clear.freed");
    slot.name[0] = 0;
    slot.kept_for = 0;
    slot.numbered = 0;
    slot.inode = 0;
    slot.gone_after = 0;
    slot.size.store(0);
    slot.broken.store(0);
    slot.inherited.store(0);
    slot.is_copy = 0;
    slot.joint_writers = 0;
    slot.lead_left = 0;
    slot.closing = 0;
    slot.opening.store(0);
    slot.in_kernel.store(0);
    slot.shared.store(0);
    slot.copying.store(0);
    slot.removed = 0;
    slot.kept_back = 0;
    slot.set_complete = 0;
    slot.handed_over = 0;
    slot.made_anew = 0;
    slot.keeps_name = 0;
    slot.closes = 0;
    slot.snapshots = 0;
    slot.flushed.store(0);
    slot.opened_at = 0;
    slot.origin.stamp = 0;
    const PortRecord& port = board.port(board.source(slot.source).port);
    for (const ChannelRecord& channel : channels_of(board, port)) {
        board.on(slot, channel.place) = 0;
        memset(&board.consumed(slot, channel, 0), 0, static_cast<size_t>(channel.readers));
    }
}

namespace {

// A step that a consumer will not get.
void note_lost(const Board& board, ChannelRecord& channel, const char* event, const SlotRecord& slot,
               uint64_t sequence) {
    const PortRecord& inport = board.port(channel.inport);
    if (inport.keys.far_host != 0) past::add(board, channel.left_out, key_of(inport, slot.name));
    trace::note(board, event, inport.task, -1, inport.pattern, slot.name, static_cast<int64_t>(sequence),
                static_cast<int64_t>(slot.size.load()));
}

// True if the task's program was started for this step with its name, by which it may open it as long as it runs. (What
// is read in order has no name to miss.)
bool is_started_for(const PortRecord& inport, const SlotRecord& slot) {
    return !in_order(inport) && inport.started_for == slot.stamp;
}

// The channel, and those that drop the same steps as it does.
template <class Visit>
void each_of_group(const Board& board, const ChannelRecord& channel, Visit visit) {
    for (ChannelRecord& one : channels_of(board, board.port(channel.outport)))
        if (&one == &channel || (channel.group != 0 && one.group == channel.group)) visit(one);
}

// True if a rank of the channel's task has the step: it is not dropped any more.
bool is_taken(const Board& board, const ChannelRecord& channel, int s, const SlotRecord& slot) {
    const PortRecord& inport = board.port(channel.inport);
    // (One that was only looked at so far may be read on, and must then be what the look has said.)
    return is_consumed(board, channel, s, slot) || is_held_in(board, inport.task, board.index(slot)) ||
           is_started_for(inport, slot);
}

// Steps on the channels of a group that no rank has opened; a step that some rank has opened is never dropped: the
// others will read it too.
struct Unopened {
    uint32_t count = 0;
    int oldest = -1;
};

Unopened unopened(const Board& board, const ChannelRecord& channel, int s, const SourceRecord& source) {
    Unopened found;
    for (const SlotRecord& slot : slots_of(board, source)) {
        bool there = false, taken = false;
        each_of_group(board, channel, [&](const ChannelRecord& one) {
            if (!on_channel(board, slot, one)) return;
            there = true;
            taken = taken || is_taken(board, one, s, slot);
        });
        if (!there || taken) continue;
        ++found.count;
        if (found.oldest < 0 || slot.sequence < board.slot(found.oldest).sequence) found.oldest = board.index(slot);
    }
    return found;
}

// Makes a full channel that drops hold no more than it may, now that a step was added to it; and with it its group.
void drop_surplus(const Board& board, const ChannelRecord& channel, int s, const SourceRecord& source) {
    for (;;) {
        const Unopened found = unopened(board, channel, s, source);
        if (found.count <= channel.queue) return;
        const SlotRecord& oldest = board.slot(found.oldest);
        each_of_group(board, channel, [&](ChannelRecord& one) {
            uint8_t& on = board.on(oldest, one.place);
            if (!on) return;
            on = 0;
            note_lost(board, one, "drop", oldest, oldest.sequence);
            ++one.dropped;
            WILKINS_FAULT_POINT("publish.dropped");
        });
    }
}

// Counts a step for the channels that it was offered to (see offered).
void count_published(const Board& board, const PortRecord& port, int s, const SlotRecord& slot) {
    const bool rewrites = board.source(port, s).rewrites;
    for (ChannelRecord& channel : channels_of(board, port)) {
        const bool matches = board.offered(channel, s) >> 32 == ((slot.sequence + 1) & UINT32_MAX);
        if (!matches || slot.sequence < board.first(channel, s)) continue;
        ++channel.published;
        if (!keeps(channel, offered(board, channel, s))) ++channel.skipped;
        if (!rewrites || !gives_all(board, channel) || !has_consumed_name(board, board.port(channel.inport), slot.name))
            continue;
        if (uint8_t& on = board.on(slot, channel.place); on & kOn) set_newer(channel, on, true);
        else ++channel.newer;  // its task has ended
    }
}

// The first size of a source's steps says how much memory its next arenas need.
void note_size(const Board& board, SourceRecord& source, uint64_t size) {
    const uint64_t before = source.largest.load(std::memory_order_relaxed);
    if (size <= before) return;
    source.largest.store(size, std::memory_order_relaxed);
    if (before < ahead::kLeast && size >= ahead::kLeast) ahead::ring(board);
}

// What follows from a step's being published. Its last store says that it is done; until then it may be done again.
void settle(const Board& board, int index) {
    const SlotRecord& slot = board.slot(index);
    SourceRecord& source = board.source(slot.source);
    PortRecord& port = board.port(source.port);
    const int s = source.rank;
    for (const ChannelRecord& channel : channels_of(board, port))
        if (channel.when_full == WhenFull::drop_oldest && board.on(slot, channel.place))
            drop_surplus(board, channel, s, source);
    const uint64_t place = slot.sequence - source.first_sequence;
    const char* const name = last_components(slot.name, static_cast<int>(port.components));
    if (source.judged <= place) {
        const bool known = !slot.keeps_name && past::knows(board, source.names, name);
        if (takes_snapshots(port.keys) || known) source.rewrites = 1;
        else if (source.judged > 0) source.renames = 1;
        source.different += !known;
        WILKINS_FAULT_POINT("publish.judged");
        source.judged = place + 1;
    }
    WILKINS_FAULT_POINT("publish.named");
    if (source.named <= place) {
        past::add(board, source.names, name);
        note_file(board, slot);
        remember_for_readers(board, source, slot.name);
        WILKINS_FAULT_POINT("publish.added");
        source.named = place + 1;
    }
    WILKINS_FAULT_POINT("publish.remembered");
    ++port.steps;
    port.bytes += slot.size.load() + slot.set_bytes.load();
    note_size(board, source, slot.size.load());
    count_published(board, port, s, slot);
    if (port.keys.on_demand)
        for (PortRecord& inport : inports_of(board, port)) inport.wanted = 0;
    trace::note(board, "publish", port.task, source.rank, port.pattern, slot.name, static_cast<int64_t>(slot.sequence),
                static_cast<int64_t>(slot.size.load()));
    source.next_sequence = slot.sequence + 1;
}

}  // namespace

namespace {

// A step that an earlier start of the program has published already: its readers have consumed it, or find it in their
// queues.
void publish_again(const Board& board, SlotRecord& slot, SourceRecord& source, const PortRecord& port) {
    slot.sequence = source.next_sequence++;  // first: it is nobody's, whether this process comes to the rest or not
    WILKINS_FAULT_POINT("publish.again");
    for (const ChannelRecord& channel : channels_of(board, port)) board.on(slot, channel.place) = 0;
    slot.published_stamp = ++board.head().publications;
    note_file(board, slot);
    board.head().moved_at = now_ns();
    slot.state = SlotState::published;
    trace::note(board, "remake", port.task, source.rank, port.pattern, slot.name, static_cast<int64_t>(slot.sequence),
                static_cast<int64_t>(slot.size.load()));
    board.ring(source.port);
}

}  // namespace

void go_back(const Board& board, int outport, int rank, uint64_t sequence) {
    const PortRecord& port = board.port(outport);
    SourceRecord& source = board.source(port, rank);
    if (sequence >= source.next_sequence) return;
    source.made = published_to(source);
    source.next_sequence = sequence;
    trace::note(board, "back", port.task, rank, port.pattern, "-", static_cast<int64_t>(sequence), -1);
}

void publish(const Board& board, int index) {
    SlotRecord& slot = board.slot(index);
    SourceRecord& source = board.source(slot.source);
    PortRecord& port = board.port(source.port);
    if (makes_again(source)) return publish_again(board, slot, source, port);
    const int s = source.rank;
    const uint64_t sequence = source.next_sequence;
    WILKINS_FAULT_POINT("publish.begun");
    for (ChannelRecord& channel : channels_of(board, port)) {
        const PortRecord& inport = board.port(channel.inport);
        const bool matches = pattern_match(inport.pattern, static_cast<int>(inport.components), slot.name);
        const uint64_t before = offered(board, channel, s);
        uint8_t& on = board.on(slot, channel.place);
        const uint8_t counted = on & kCounted;  // it was offered under the name that it had before (see carry)
        board.offered(channel, s) = matches && !counted ? ((sequence + 1) & UINT32_MAX) << 32 | (before + 1) : before;
        WILKINS_FAULT_POINT("publish.offered");
        const bool wanted = counted || (keeps(channel, before) && sequence >= board.first(channel, s));
        bool goes = matches && wanted && alive(board, channel);
        if (matches && !wanted) note_lost(board, channel, "skip", slot, sequence);
        if (goes && !counted && channel.when_full == WhenFull::drop_newest &&
            unopened(board, channel, s, source).count >= channel.queue) {
            note_lost(board, channel, "drop", slot, sequence);
            ++channel.dropped;
            goes = false;
        }
        on = goes ? kOn | counted : 0;
    }
    slot.sequence = sequence;
    slot.published_stamp = ++board.head().publications;
    source.came_to = slot.origin.stamp;
    board.head().moved_at = now_ns();
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
    for (const ChannelRecord& channel : channels_of(board, port)) board.ring(channel.inport);
    WILKINS_FAULT_POINT("publish.readers-rung");
    board.ring(source.port);
}

void repair(const Board& board) {
    BoardRecord& head = board.head();
    for (SlotRecord& slot : slots_of(board)) slot.holds = 0;
    for (RankRecord& rank : ranks_of(board))
        each_hold(board, rank, [&](int32_t held, uint32_t) { ++board.slot(held).holds; });
    head.memory = 0;
    for (PortRecord& port : ports_of(board)) port.used = 0;
    for (const SourceRecord& source : sources_of(board)) {
        board.port(source.port).used += source.aside_bytes;
        head.memory += source.aside_bytes;
    }
    for (SlotRecord& slot : slots_of(board)) {
        const SourceRecord& source = board.source(slot.source);
        PortRecord& port = board.port(source.port);
        if (port.keys.mode != Mode::file) {  // those take no shared memory
            port.used += slot.accounted;
            head.memory += slot.accounted;
        }
        // A file that was being withdrawn is (see withdraw).
        if (slot.state == SlotState::closed && slot.removed) slot.state = SlotState::published;
        // (One that was withdrawn has no number.)
        if (slot.state == SlotState::published && !slot.removed && slot.sequence >= published_to(source))
            settle(board, board.index(slot));
    }
    for (const PortRecord& port : ports_of(board)) {
        if (port.direction == Direction::in && port.log_end > 0) {
            const Delivery& last = board.delivery(port, port.log_end - 1);
            uint64_t& logged = board.logged(board.channel(board.link(port, last.link)), last.source);
            if (logged <= last.sequence) logged = last.sequence + 1;
        }
        board.ring(board.index(port));
    }
}

}  // namespace wilkins::queue
