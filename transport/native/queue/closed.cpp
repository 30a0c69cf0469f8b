// Closed files that are not yet published.
#include "queue/closed.hpp"

#include <cstring>

#include "base/fault.hpp"
#include "board/past_names.hpp"
#include "board/ranges.hpp"
#include "queue/parts.hpp"
#include "queue/queue.hpp"

namespace wilkins::queue {

namespace {

// The source's closed slot that was begun first, of those that `is_one` says are meant, but for that of a place; -1 if
// there is none.
template <class IsOne>
int oldest_of(const Board& board, const SourceRecord& source, uint64_t but_place, IsOne is_one) {
    int oldest = -1;
    for (const SlotRecord& slot : slots_of(board, source)) {
        if (slot.state != SlotState::closed || slot.place_hash == but_place || !is_one(slot)) continue;
        if (oldest < 0 || slot.stamp < board.slot(oldest).stamp) oldest = board.index(slot);
    }
    return oldest;
}

// `kept_back`: or one of a file which the task's actions keep back.
int oldest_closed(const Board& board, const SourceRecord& source, uint64_t but_place, bool kept_back) {
    return oldest_of(board, source, but_place, [&](const SlotRecord& slot) { return kept_back || !slot.kept_back; });
}

constexpr int64_t kLongEmpty = 1'000'000'000;  // ns for which a file without a byte may yet be written

// A file without a byte: its program has only made or cut it, and may be about to write it.
bool is_empty(const Board& board, const SlotRecord& slot) {
    return slot.size.load() == 0 && !port_of(board, slot).keys.is_set;
}

// True if it is held for that reason alone.
bool is_held_empty(const Board& board, const SlotRecord& slot) {
    const bool held_anyway = publishes_later(port_of(board, slot).keys) || slot.kept_back;
    return slot.state == SlotState::closed && is_empty(board, slot) && !held_anyway && !claimed(board, slot);
}

bool may_pass(const Board& board, const SlotRecord& slot) {
    return slot.state == SlotState::closed && !slot.kept_back && !claimed(board, slot);
}

// True of a stage's file whose process has ended.
bool is_left(const Board& board, const SlotRecord& slot) {
    return port_of(board, slot).keys.passes_on && may_pass(board, slot) && board.is_over(slot.writer_process);
}

bool abandoned(const Board& board, const SlotRecord& slot) {
    // (What a folder holds, all processes have written that are in it; and what a task passes on is whole without that
    // one.)
    const AccessKeys& keys = port_of(board, slot).keys;
    return slot.state == SlotState::closed && !slot.handed_over && !keys.is_set && !keys.passes_on &&
           board.is_over(slot.writer_process);
}

// Calls `visit` with every closed slot of an out-port.
template <class Visit>
void each_closed(const Board& board, int outport, Visit visit) {
    const PortRecord& port = board.port(outport);
    for (const SlotRecord& slot : slots_of(board, port))
        if (slot.state == SlotState::closed) visit(board.index(slot), slot);
}

}  // namespace

void hand_over(const Board& board, int task, uint32_t process, bool ends) {
    for (SlotRecord& slot : slots_of(board)) {
        if (slot.state != SlotState::closed || slot.writer_process != process) continue;
        if (board.port(board.source(slot.source).port).task == task) slot.handed_over = ends;
    }
}

void withdraw_abandoned(const Board& board, int outport, uint64_t but_place, Discarded discarded) {
    each_closed(board, outport, [&](int k, const SlotRecord& slot) {
        if (!abandoned(board, slot) || slot.place_hash == but_place) return;
        discarded(board, slot);
        withdraw(board, k);
    });
}

bool settle_claims(const Board& board, int outport, Discarded discarded) {
    bool any = false;
    each_closed(board, outport, [&](int k, const SlotRecord& slot) {
        if (slot.claimed_by == 0) return;
        if (claimed(board, slot)) {
            any = true;
            return;
        }
        discarded(board, slot);
        withdraw(board, k);
        board.slot(k).claimed_by = 0;
    });
    return any;
}

void close_slot(const Board& board, int index, uint64_t digest, bool keep_back) {
    SlotRecord& slot = board.slot(index);
    const AccessKeys& keys = port_of(board, slot).keys;
    ++slot.closes;
    WILKINS_FAULT_POINT("closed.counted");
    slot.kept_back = keep_back;
    if (slot.removed) {
        withdraw(board, index);
        return;
    }
    if (slot.snapshots > 0 && slot.digest == digest) slot.snapshot_changes = slot.changes.load();
    const bool empty = is_empty(board, slot);
    if (empty) {
        slot.handed_over = 1;  // it is whole, whatever becomes of the process
        slot.empty_since = now_ns();
    }
    if (keep_back || empty || keys.publish == Publish::next || keys.is_set ||
        (keys.publish == Publish::close && slot.closes % keys.publish_count != 0)) {
        slot.state = SlotState::closed;
        board.ring(board.source(slot.source).port);
    } else if (slot.snapshots > 0 && slot.digest == digest) {
        withdraw(board, index);
    } else {
        publish(board, index);
    }
}

int find_closed(const Board& board, int outport, const char* name, uint64_t place, SlotState state) {
    const PortRecord& port = board.port(outport);
    for (const SlotRecord& slot : slots_of(board, port)) {
        const bool lost_its_name = slot.state == SlotState::writing && slot.removed;
        if (slot.state != state || lost_its_name) continue;
        if ((place && slot.place_hash == place) || strcmp(slot.name, name) == 0) return board.index(slot);
    }
    return -1;
}

namespace {

// The slot of the first such file of the rank, of all its out-ports, that is to be published as it is.
template <class IsOne>
int first_of(const Board& board, int task, int rank, uint64_t but_place, IsOne is_one) {
    for (const PortRecord& port : ports_of(board, task, Direction::out)) {
        if (rank >= port.sources) continue;
        const int oldest = oldest_of(board, board.source(port, rank), but_place, is_one);
        if (oldest >= 0) return oldest;
    }
    return -1;
}

int first_empty(const Board& board, int task, int rank, uint64_t but_place) {
    return first_of(board, task, rank, but_place, [&](const SlotRecord& slot) { return is_held_empty(board, slot); });
}

int first_left(const Board& board, int task, int rank) {
    return first_of(board, task, rank, 0, [&](const SlotRecord& slot) { return is_left(board, slot); });
}

}  // namespace

bool has_idle(const Board& board, int task, int rank, bool lives) {
    return first_empty(board, task, rank, 0) >= 0 || (lives && first_left(board, task, rank) >= 0);
}

void publish_empty(const Board& board, int task, int rank, uint64_t but_place) {
    for (int k; (k = first_empty(board, task, rank, but_place)) >= 0;) {
        WILKINS_FAULT_POINT("closed.empty");
        publish(board, k);
    }
}

void publish_idle(const Board& board, int task, int rank, bool lives) {
    publish_empty(board, task, rank);
    for (int k; lives && (k = first_left(board, task, rank)) >= 0;) {
        WILKINS_FAULT_POINT("stage.passing");
        publish(board, k);
    }
}

int publish_long_empty(const Board& board, int task) {
    int left = 0;
    for (const SlotRecord& slot : slots_of(board)) {
        if ((task >= 0 && port_of(board, slot).task != task) || !is_held_empty(board, slot)) continue;
        if (now_ns() - slot.empty_since < kLongEmpty) {
            ++left;
            continue;
        }
        WILKINS_FAULT_POINT("closed.empty");
        publish(board, board.index(slot));
    }
    return left;
}

void turn_to(const Board& board, int source_index, uint64_t place) {
    const SourceRecord& source = board.source(source_index);
    publish_empty(board, board.port(source.port).task, source.rank, place);
    const AccessKeys& keys = board.port(source.port).keys;
    if (keys.publish != Publish::next || keys.passes_on) return;
    for (int k; (k = oldest_closed(board, source, place, false)) >= 0;) {
        WILKINS_FAULT_POINT("closed.turning");
        publish(board, k);
    }
}

void pass_on(const Board& board, int outport, int rank, bool (*is_done)(const SlotRecord& slot)) {
    const PortRecord& port = board.port(outport);
    for (const SourceRecord& source : sources_of(board, port))
        for (const SlotRecord& slot : slots_of(board, source)) {
            if (!may_pass(board, slot)) continue;
            if (!is_done(slot) && (source.rank != rank || !board.is_over(slot.writer_process))) continue;
            WILKINS_FAULT_POINT("stage.passing");
            publish(board, board.index(slot));
        }
}

bool full_of_closed(const Board& board, int source_index) {
    const SourceRecord& source = board.source(source_index);
    bool any = false;
    for (const SlotRecord& slot : slots_of(board, source)) {
        if (!unfinished(slot)) return false;
        any = any || slot.state == SlotState::closed;
    }
    return any;
}

bool make_room_for_names(const Board& board, SourceRecord& source) {
    uint64_t n = 0;
    for (const SlotRecord& slot : slots_of(board, source))
        if (unfinished(slot)) n += 2;  // its readers may call it otherwise
    return past::make_room(board, source.names, n);
}

bool drop_kept_back(const Board& board, int source_index) {
    const SourceRecord& source = board.source(source_index);
    int oldest = -1;
    for (const SlotRecord& slot : slots_of(board, source)) {
        if (slot.state != SlotState::closed || !slot.kept_back || claimed(board, slot)) continue;
        if (oldest < 0 || slot.stamp < board.slot(oldest).stamp) oldest = board.index(slot);
    }
    if (oldest >= 0) withdraw(board, oldest);
    return oldest >= 0;
}

void withdraw(const Board& board, int index) {
    SlotRecord& slot = board.slot(index);
    // As a published step that no channel has: whoever holds it open may go on reading it.
    for (const ChannelRecord& channel : channels_of(board, port_of(board, slot))) board.on(slot, channel.place) = 0;
    slot.removed = 1;
    WILKINS_FAULT_POINT("withdraw.noted");
    slot.state = SlotState::published;
    board.ring(board.source(slot.source).port);
}

void end_closed(const Board& board, int task, bool clean, Discarded discarded) {
    for (const SourceRecord& source : sources_of(board)) {
        if (board.port(source.port).task != task) continue;
        for (int k; (k = oldest_closed(board, source, 0, true)) >= 0;) {
            // (Nobody knows what a file is called that is being renamed.)
            const bool whole = clean && !abandoned(board, board.slot(k)) && board.slot(k).claimed_by == 0;
            if (whole && !board.slot(k).kept_back) {
                if (board.port(source.port).keys.publish == Publish::close && !is_empty(board, board.slot(k)))
                    board.port(source.port).unseen.fetch_add(1);
                publish(board, k);
                continue;
            }
            if (!whole && discarded) discarded(board, board.slot(k));
            withdraw(board, k);
        }
    }
}

}  // namespace wilkins::queue
