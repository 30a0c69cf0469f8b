// The state machine of steps, as consumers meet it: which step an open means, and how far each rank has got.
#include "queue/queue.hpp"

#include <algorithm>
#include <cstring>

#include "base/fault.hpp"
#include "board/trace.hpp"
#include "queue/answers.hpp"
#include "queue/parts.hpp"
#include "queue/closed.hpp"
#include "queue/failed_opens.hpp"

namespace wilkins::queue {

namespace {

// The step of one entry of the in-port's log; without a slot if its producer has withdrawn it.
Found find_entry(const Board& board, const PortRecord& inport, uint32_t position) {
    Found found;
    const Delivery& entry = board.delivery(inport, position);
    const ChannelRecord& channel = board.channel(board.link(inport, entry.link));
    for (const SlotRecord& slot : steps_of(board, channel, board.source(board.port(channel.outport), entry.source)))
        if (slot.sequence == entry.sequence) found = {board.index(slot), entry.link, true, false, false, position};
    return found;
}

// True if the rank has opened the step last, and will open it again before it goes on to the next.
bool half_opened(const Board& board, const PortRecord& inport, const Found& found, int reader) {
    const ChannelRecord& channel = board.channel(board.link(inport, found.link));
    const SlotRecord& slot = board.slot(found.slot);
    const Mark& mark = board.mark(channel, board.source(slot.source).rank, reader);
    return mark.keep == kHalfOpened && mark.last == slot.sequence + 1;
}

Found find_after(const Board& board, int index, int reader, uint32_t position);

// In order: the next entry of the in-port's log, or the oldest step not in it yet.
Found find_in_order(const Board& board, int index, int reader) {
    const PortRecord& inport = board.port(index);
    Found found;
    uint32_t position = board.position(inport, reader);
    if (for_one_step(board, inport) && position > 0 && has_opened(board, inport, reader)) {
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
    }
    return find_after(board, index, reader, position);
}

// The first step in order from this place in the log on.
Found find_after(const Board& board, int index, int reader, uint32_t position) {
    const PortRecord& inport = board.port(index);
    Found found;
    for (; position < inport.log_end; ++position) {
        found = find_entry(board, inport, position);
        if (found.slot >= 0) return found;
        // Its producer has removed it since: for this rank the stream goes on behind it.
    }
    for (const ChannelRecord& channel : channels_of(board, inport))
        for (const SourceRecord& source : sources_read(board, channel, reader))
            for (const SlotRecord& slot : steps_of(board, channel, source)) {
                if (slot.sequence < board.logged(channel, source.rank)) continue;
                if (found.slot < 0 || slot.published_stamp < board.slot(found.slot).published_stamp)
                    found = {board.index(slot), channel.link, true, false, false, position};
            }
    return found;
}

// What a source does next, as far as it tells.
enum class Begins { unknown, same, other };  // a file of the name that is asked for, or not

Begins begins_next(const Board& board, const PortRecord& inport, const SourceRecord& source, const char* name) {
    const TaskRecord& task = board.task(board.port(source.port).task);
    const RankRecord& producer = board.rank(task.first_rank + source.rank);
    if (task.state == TaskState::ended || waits_for(producer, WaitFor::data)) return Begins::other;
    Begins next = Begins::unknown;
    // (Where it waits for room for a file of another port, nothing tells what it begins of this one.)
    for (const WaitRecord& wait : producer.waits) {
        if (wait.what != WaitFor::room || wait.port != source.port) continue;
        if (means(inport, name, wait.name)) next = Begins::same;
        else if (next == Begins::unknown) next = Begins::other;
    }
    if (source.moving_to[0] && !board.is_over(source.moving_process) && means(inport, name, source.moving_to))
        next = Begins::same;
    for (const SlotRecord& slot : slots_of(board, source)) {
        if (!unfinished(slot)) continue;
        if (means(inport, name, slot.name)) next = Begins::same;
        else if (next == Begins::unknown) next = Begins::other;
    }
    return next;
}

// True if a rank that has opened the source's step of this name may open the name again and get the same step. Not if
// the producer rewrites the name: then the next open is the next step. As long as nothing tells, the answer waits for
// the producer's next file, except where the producer itself waits for data or has ended.
bool opens_again(const Board& board, const PortRecord& inport, const SourceRecord& source, const char* name) {
    if (source.rewrites || source.renames) return !source.rewrites;
    return begins_next(board, inport, source, name) == Begins::other;
}

// The same, where the rank has opened a later step of the source. The first name that repeats may be this one, however
// many have not, so the answer waits for a file that is begun after all that the rank has consumed.
bool goes_back(const Board& board, const PortRecord& inport, const SourceRecord& source, const Mark& mark,
               const char* name) {
    if (source.rewrites) return false;
    const Begins next = begins_next(board, inport, source, name);
    return next == Begins::other || (next == Begins::unknown && published_to(source) > mark.next);
}

Found find_by_name(const Board& board, int index, int reader, const char* name) {
    const PortRecord& inport = board.port(index);
    const bool settled = is_settled(board, index, reader, name);
    Found found, owed;
    bool passed = false;
    for (const ChannelRecord& channel : channels_of(board, inport))
        for (const SourceRecord& source : sources_read(board, channel, reader)) {
            const Mark& mark = board.mark(channel, source.rank, reader);
            bool again = false, past = false;
            for (const SlotRecord& slot : steps_of(board, channel, source)) {
                if (!means(inport, name, slot.name)) continue;
                const uint8_t consumed = board.consumed(slot, channel, reader);
                if (consumed & kPast) {
                    past = true;
                } else if (consumed & kConsumed) {
                    again = true;
                    const bool is_last = mark.last == slot.sequence + 1;
                    const bool allowed =
                        (settled && !source.rewrites) ||
                        (mark.next == slot.sequence + 1 ? opens_again(board, inport, source, name)
                                                        : goes_back(board, inport, source, mark, name));
                    if (is_last && (mark.keep == kHalfOpened || (board.task(inport.task).one_step && allowed)))
                        owed = {board.index(slot), channel.link, false, false};
                    else if (found.slot < 0 && allowed) found = {board.index(slot), channel.link, false, false};
                } else if (source.rewrites && is_done(board, channel, source.rank, reader, slot)) {
                    continue;  // given up: of a name that repeats, the rank gets the next one
                } else if (!found.unread || slot.published_stamp < board.slot(found.slot).published_stamp) {
                    found = {board.index(slot), channel.link, true, false};
                }
            }
            if (found.slot >= 0 || again || source.rewrites ||
                !in_history(board, source, name, static_cast<int>(inport.components)))
                continue;
            if (past || mark.opened == 0) passed = passed || begins_next(board, inport, source, name) != Begins::same;
            else passed = passed || settled || goes_back(board, inport, source, mark, name);
        }
    if (owed.slot >= 0) return owed;
    found.passed = found.slot < 0 && passed;
    return found;
}

// Where a name stands for the steps, no other one means any.
Found find_none(const Board& board, const PortRecord& inport, const char* name) {
    Found found;
    found.passed = was_published(board, inport, name);
    return found;
}

// Calls `visit` with every mark of the rank on the in-port, and the channel and source that it is on.
template <class Visit>
void each_mark(const Board& board, const PortRecord& inport, int reader, Visit visit) {
    for (const ChannelRecord& channel : channels_of(board, inport))
        for (const SourceRecord& source : sources_read(board, channel, reader))
            visit(channel, source, board.mark(channel, source.rank, reader));
}

// The step that the rank has chosen, if this is its name.
Found find_chosen(const Board& board, const PortRecord& inport, int reader, const char* name) {
    Found found;
    each_mark(board, inport, reader, [&](const ChannelRecord& channel, const SourceRecord& source, const Mark& mark) {
        if (mark.keep != kCurrent) return;
        for (const SlotRecord& slot : steps_of(board, channel, source))
            if (slot.sequence + 1 == mark.last && means(inport, name, slot.name))
                found = {board.index(slot), channel.link, false, true};
    });
    return found;
}

// What the rank would choose now.
Found find_choice(const Board& board, int index, int reader) {
    const PortRecord& inport = board.port(index);
    Found found;
    if (in_order(inport)) {
        found = find_in_order(board, index, reader);
        return found.unread ? found : Found{};
    }
    for (const ChannelRecord& channel : channels_of(board, inport))
        for (const SourceRecord& source : sources_read(board, channel, reader))
            for (const SlotRecord& slot : steps_of(board, channel, source)) {
                if (is_done(board, channel, source.rank, reader, slot)) continue;
                if (found.slot < 0 || slot.published_stamp < board.slot(found.slot).published_stamp)
                    found = {board.index(slot), channel.link, true, false};
            }
    return found;
}

}  // namespace

bool has_its_step(const Board& board, int index, int reader) {
    const PortRecord& inport = board.port(index);
    return for_one_step(board, inport) && has_opened(board, inport, reader);
}

bool has_choice(const Board& board, int index, int reader) { return find_choice(board, index, reader).slot >= 0; }

int choose(const Board& board, int index, int reader, bool polled) {
    PortRecord& inport = board.port(index);
    const Found found = find_choice(board, index, reader);
    if (found.slot < 0) return -1;
    keep_names(inport);
    take(board, index, reader, found);
    const ChannelRecord& channel = board.channel(board.link(inport, found.link));
    board.mark(channel, board.source(board.slot(found.slot).source).rank, reader).keep = kCurrent;
    note_given(board, inport, reader, polled);
    return found.slot;
}

int next_choice(const Board& board, int index, int reader) { return find_choice(board, index, reader).slot; }

namespace {

// The name of the step that the rank has opened last does not mean it again.
void forget_last(const Board& board, const ChannelRecord& channel, const SourceRecord& source, int reader, Mark& mark) {
    mark.keep = kGone;
    if (in_order(board.port(channel.inport))) return;
    for (const SlotRecord& slot : steps_of(board, channel, source))
        if (slot.sequence + 1 == mark.last) board.consumed(slot, channel, reader) |= kPast;
}

}  // namespace

void finish(const Board& board, int index, int reader, int slot_index) {
    const SlotRecord& slot = board.slot(slot_index);
    each_mark(board, board.port(index), reader,
              [&](const ChannelRecord& channel, const SourceRecord& source, Mark& mark) {
                  if (mark.keep != kCurrent || mark.last != slot.sequence + 1 || board.index(source) != slot.source)
                      return;
                  forget_last(board, channel, source, reader, mark);
                  board.ring(channel.outport);
              });
}

void leave(const Board& board, int index, int reader) {
    each_mark(board, board.port(index), reader,
              [&](const ChannelRecord& channel, const SourceRecord& source, Mark& mark) {
                  if (mark.keep == kGone) return;
                  forget_last(board, channel, source, reader, mark);
                  board.ring(channel.outport);
              });
}

void turn(const Board& board, int index, int reader) {
    each_mark(board, board.port(index), reader,
              [&](const ChannelRecord&, const SourceRecord&, Mark& mark) { mark.keep = kGone; });
}

bool find_consumed(const Board& board, int index, int reader, const char* name, int* slot_index) {
    const PortRecord& inport = board.port(index);
    *slot_index = -1;
    if (in_order(inport)) return false;
    for (const ChannelRecord& channel : channels_of(board, inport))
        for (const SourceRecord& source : sources_read(board, channel, reader)) {
            if (source.rewrites) continue;
            for (const SlotRecord& slot : steps_of(board, channel, source))
                if (means(inport, name, slot.name) &&
                    (board.consumed(slot, channel, reader) & (kConsumed | kPast)) == kConsumed)
                    *slot_index = board.index(slot);
        }
    return *slot_index >= 0;
}

bool is_settled(const Board& board, int inport, int reader, const char* name) {
    const PortRecord& port = board.port(inport);
    return board.looked(port, reader).settled == hash_name(port, name);
}

void settle_name(const Board& board, int inport, int reader, const char* name) {
    const PortRecord& port = board.port(inport);
    board.looked(port, reader).settled = hash_name(port, name);
    board.ring(inport);
}

bool may_settle(const Board& board, int index, int reader, const char* name) {
    const PortRecord& inport = board.port(index);
    if (in_order(inport) || is_settled(board, index, reader, name)) return false;
    bool may = false;
    each_mark(board, inport, reader, [&](const ChannelRecord&, const SourceRecord& source, const Mark& mark) {
        may = may || (mark.opened > 0 && !source.rewrites &&
                      in_history(board, source, name, static_cast<int>(inport.components)));
    });
    return may;
}

Found find(const Board& board, int inport, int reader, const char* name) {
    const PortRecord& port = board.port(inport);
    const Found chosen = find_chosen(board, port, reader, name);
    if (chosen.slot >= 0) return chosen;
    if (!in_order(port)) return find_by_name(board, inport, reader, name);
    return has_alias(port) && !means(port, name, "") ? find_none(board, port, name)
                                                     : find_in_order(board, inport, reader);
}

namespace {

// Counts one more open of the step that the mark's rank has opened last.
void count_open(const Board& board, PortRecord& inport, const ChannelRecord& channel, Mark& mark) {
    inport.most_opens = std::max(inport.most_opens, ++mark.opens);
    const bool first =
        mark.opened == 1 && inport.keys.opens_per_step == 1;  // not known yet whether several libraries read each
    const bool again = first || !in_order(inport) || for_one_step(board, inport);
    mark.keep = mark.opens < inport.keys.opens_per_step ? kHalfOpened : again ? kOpensAgain : kOpened;
    board.ring(channel.outport);
}

// Some rank has consumed the step.
void count_consumed(const Board& board, ChannelRecord& channel, const SlotRecord& slot) {
    uint8_t& on = board.on(slot, channel.place);
    set_newer(channel, on, false);
    if (on & kCounted) return;
    on |= kCounted;
    ++channel.read;
}

// Later steps of the name of one that the task has read are newer versions of it.
void mark_newer(const Board& board, ChannelRecord& channel, const SourceRecord& source, const SlotRecord& consumed) {
    if (!source.rewrites || !gives_all(board, channel)) return;
    for (const SlotRecord& slot : steps_of(board, channel, source)) {
        if (slot.published_stamp < consumed.published_stamp || &slot == &consumed) continue;
        uint8_t& on = board.on(slot, channel.place);
        if (!(on & kCounted) && means(board.port(channel.inport), consumed.name, slot.name))
            set_newer(channel, on, true);
    }
}

// The task has the step, which is not read in order.
void note_consumed(const Board& board, int index, const Found& found) {
    const SlotRecord& slot = board.slot(found.slot);
    note_consumed_name(board, index, slot.name, false);
    mark_newer(board, board.channel(board.link(board.port(index), found.link)), board.source(slot.source), slot);
}

}  // namespace

int newer_behind(const Board& board, int index, int slot_index) {
    const PortRecord& inport = board.port(index);
    const SlotRecord& consumed = board.slot(slot_index);
    int found = -1;
    for (const ChannelRecord& channel : channels_of(board, inport)) {
        if (channel.newer == 0) continue;
        for (const SlotRecord& slot : steps_of(board, channel))
            if ((board.on(slot, channel.place) & kNewer) && slot.published_stamp < consumed.published_stamp)
                found = board.index(slot);
    }
    return found;
}

void take(const Board& board, int index, int reader, const Found& found) {
    PortRecord& inport = board.port(index);
    board.looked(inport, reader).settled = 0;
    const ChannelRecord& channel = board.channel(board.link(inport, found.link));
    SlotRecord& slot = board.slot(found.slot);
    const int s = board.source(slot.source).rank;
    Mark& mark = board.mark(channel, s, reader);
    slot.opened_at = mark.opened_at = ++board.head().opens;
    board.head().moved_at = now_ns();
    if (!found.unread) {
        const bool half = mark.keep == kHalfOpened;
        if (!in_order(inport) && !half) note_consumed_name(board, index, slot.name, true);
        if (in_order(inport) || mark.last == slot.sequence + 1) {
            if (half) count_open(board, inport, channel, mark);
            else inport.most_opens = std::max(inport.most_opens, ++mark.opens);
            return;
        }
        mark.last = slot.sequence + 1;
        mark.opens = 0;
        return count_open(board, inport, channel, mark);
    }
    const bool counted = board.on(slot, channel.place) & kCounted;  // it was consumed before, and comes again
    count_consumed(board, board.channel(board.link(inport, found.link)), slot);
    if (!is_consumed(board, channel, s, slot)) {
        inport.steps += !counted;
        inport.bytes += counted ? 0 : slot.size.load();
    } else {
        inport.in_common = 1;
    }
    if (in_order(inport) && found.position == inport.log_end) {
        board.delivery(inport, inport.log_end) = {found.link, s, slot.sequence};
        WILKINS_FAULT_POINT("take.delivery");
        ++inport.log_end;  // first: see repair
        WILKINS_FAULT_POINT("take.logged");
        board.logged(channel, s) = slot.sequence + 1;
    }
    ++(slot.published_stamp <= inport.listed_to ? inport.read_listed : inport.read_later);
    note_process(board, inport, reader);
    ++mark.opened;
    WILKINS_FAULT_POINT("take.kept");
    board.consumed(slot, channel, reader) = kConsumed;
    mark.next = std::max(mark.next, slot.sequence + 1);
    mark.last = slot.sequence + 1;
    if (!in_order(inport) && !counted) note_consumed(board, index, found);
    WILKINS_FAULT_POINT("take.marked");
    // Last: a step that the rank is past in the log, but not by its mark, would be in the queue for ever.
    if (in_order(inport)) board.position(inport, reader) = found.position + 1;
    else board.latest(inport, reader) = std::max(board.latest(inport, reader), slot.published_stamp);
    trace::note(board, "open", inport.task, reader, inport.pattern, slot.name, static_cast<int64_t>(slot.sequence),
                static_cast<int64_t>(slot.size.load()));
    mark.opens = 0;
    count_open(board, inport, channel, mark);
}

void opened_in_part(const Board& board, int index, int ranks) {
    const PortRecord& inport = board.port(index);
    for (ChannelRecord& channel : channels_of(board, inport)) {
        if (ranks < 2 || ranks >= channel.readers || channel.readers_given) continue;
        channel.in_part = 1;
        board.ring(channel.outport);
    }
}

bool comes_late(const Board& board, int index, int reader, const Found& found) {
    const PortRecord& inport = board.port(index);
    for (const ChannelRecord& channel : channels_of(board, inport)) {
        if (!is_idle(board, channel, reader) || (found.slot >= 0 && found.link != channel.link)) continue;
        if (in_order(inport))
            return board.position(inport, reader) < (found.slot < 0 ? inport.log_end : found.position);
        for (const SourceRecord& source : sources_of(board, channel))
            if (highest(board, channel, source.rank) > (found.slot < 0 ? 0 : board.slot(found.slot).sequence + 1))
                return true;
    }
    return false;
}

void follow_lead(const Board& board, int index, int reader, int slot_index) {
    PortRecord& inport = board.port(index);
    const SlotRecord& slot = board.slot(slot_index);
    const SourceRecord& source = board.source(slot.source);
    const int s = source.rank;
    for (const ChannelRecord& channel : channels_of(board, inport)) {
        if (channel.outport != source.port || reader >= channel.readers || !on_channel(board, slot, channel)) continue;
        Mark& mark = board.mark(channel, s, reader);
        if (mark.keep == kHalfOpened && mark.last == slot.sequence + 1) count_open(board, inport, channel, mark);
        if (in_order(inport) ? slot.sequence < mark.next : (board.consumed(slot, channel, reader) & kConsumed) != 0)
            continue;
        Found found = {slot_index, channel.link, true, false, false, inport.log_end};
        for (uint32_t n = in_order(inport) ? board.position(inport, reader) : inport.log_end; n < inport.log_end; ++n) {
            const Delivery& entry = board.delivery(inport, n);
            if (entry.link == channel.link && entry.source == s && entry.sequence == slot.sequence) found.position = n;
        }
        take(board, index, reader, found);
    }
}

namespace {

// True if a step of this name was published, of a source whose names do not repeat.
bool was_there(const Board& board, const PortRecord& inport, const char* name) {
    return !in_order(inport) && any_source(board, inport, [&](const SourceRecord& source) {
        return !source.rewrites && in_history(board, source, name, static_cast<int>(inport.components));
    });
}

}  // namespace

bool let_go(const Board& board, int index, int reader, const char* name) {
    const PortRecord& inport = board.port(index);
    if (has_alias(inport) && !means(inport, name, "")) return find_none(board, inport, name).passed;
    bool any = false;
    for (const ChannelRecord& channel : channels_of(board, inport))
        for (const SourceRecord& source : sources_read(board, channel, reader)) {
            Mark& mark = board.mark(channel, source.rank, reader);
            bool same =
                in_order(inport) && (mark.keep == kOpened || mark.keep == kOpensAgain || mark.keep == kHalfOpened);
            for (const SlotRecord& slot : steps_of(board, channel, source)) {
                if (!means(inport, name, slot.name)) continue;
                const bool is_last = mark.keep != kGone && mark.last == slot.sequence + 1;
                same = same || is_last;
                if (in_order(inport) || (board.consumed(slot, channel, reader) & (kConsumed | kPast)) != kConsumed)
                    continue;
                board.consumed(slot, channel, reader) |= kPast;
                any = true;
            }
            if (!same) continue;
            any = true;
            mark.keep = kGone;
            WILKINS_FAULT_POINT("let-go.noted");
            board.ring(channel.outport);
        }
    if (any) return true;
    const Found found = find(board, index, reader, name);
    if (found.slot < 0 || !found.unread) return found.passed || was_there(board, inport, name);
    take(board, index, reader, found);
    return let_go(board, index, reader, name);
}

namespace {

void mark_all(const Board& board, int index, int slot_index, uint8_t how) {
    const PortRecord& inport = board.port(index);
    const SlotRecord& slot = board.slot(slot_index);
    for (const ChannelRecord& channel : channels_of(board, inport)) {
        if (channel.outport != board.source(slot.source).port || !on_channel(board, slot, channel)) continue;
        for (int reader = 0; reader < channel.readers; ++reader) board.consumed(slot, channel, reader) |= how;
        board.ring(channel.outport);
    }
}

}  // namespace

void pass_by(const Board& board, int index, int slot_index) { mark_all(board, index, slot_index, kConsumed | kPast); }

void share_consumed(const Board& board, int index, int slot_index) { mark_all(board, index, slot_index, kConsumed); }

bool can_produce(const Board& board, int inport) {
    const PortRecord& port = board.port(inport);
    for (const ChannelRecord& channel : channels_of(board, port))
        if (board.task(board.port(channel.outport).task).state != TaskState::ended) return true;
    return false;
}

int next_step(const Board& board, int index) {
    const PortRecord& inport = board.port(index);
    // What a program that was started for one step has opened is none to start the next one for.
    if (for_one_step(board, inport)) return find_after(board, index, 0, board.position(inport, 0)).slot;
    if (in_order(inport)) return find_in_order(board, index, 0).slot;
    int best = -1;
    for (const ChannelRecord& channel : channels_of(board, inport))
        for (const SourceRecord& source : sources_of(board, channel)) {
            // A program that gets no names has chosen what it wants: an earlier step is none to start it again for.
            const uint64_t from = board.task(inport.task).one_step ? 0 : highest(board, channel, source.rank);
            for (const SlotRecord& slot : steps_of(board, channel, source)) {
                if (slot.sequence < from || is_consumed(board, channel, source.rank, slot)) continue;
                if (best < 0 || slot.published_stamp < board.slot(best).published_stamp) best = board.index(slot);
            }
        }
    return best;
}

uint32_t steps_opened(const Board& board, int index) {
    uint32_t most = 0;
    for (const PortRecord& port : ports_of(board, index, Direction::in))
        for (const ChannelRecord& channel : channels_of(board, port))
            for (const SourceRecord& source : sources_of(board, channel))
                for (int r = 0; r < channel.readers; ++r) {
                    uint32_t opened = board.mark(channel, source.rank, r).opened +
                                      (board.first_opens(port, r).since_start > 0 ? 1 : 0);
                    most = opened > most ? opened : most;
                }
    return most;
}

}  // namespace wilkins::queue
