// Finds arenas whose steps nobody needs.
#include "steps/reclaim.hpp"

#include <cerrno>

#include "base/fault.hpp"
#include "board/ahead.hpp"
#include "queue/queue.hpp"
#include "steps/disk.hpp"

namespace wilkins {

namespace {

// The slot, whose arena is a file on disk, is nobody's until that is gone: the disk is not waited for with the lock.
void give_back_file(const Board& board, Arenas& arenas, int index, Board::Lock& lock) {
    SlotRecord& slot = board.slot(index);
    lock.release();
    disk::forget(board, index);
    lock.acquire();
    arenas.note_gone(index);
    WILKINS_FAULT_POINT("reclaim.forgotten");
    slot.claimed_by = 0;
    board.ring(board.source(slot.source).port);
}

}  // namespace

bool reclaim(const Board& board, Arenas& arenas, int port) {
    bool any = ahead::give_back(board, port);
    Board::Lock lock(board);
    any = arenas.give_back_aside(port) || any;
    for (SlotRecord& slot : slots_of(board)) {
        const int s = board.index(slot);
        if ((slot.reserved.load() == 0 && slot.accounted == 0) || queue::is_attached(slot) ||
            queue::needed(board, slot, true))
            continue;
        if (queue::claimed(board, slot)) continue;
        if (port >= 0 && board.source(slot.source).port != port) continue;
        const bool on_disk = disk::is_file(board, s);
        if (on_disk && port < 0) continue;  // its memory is elsewhere
        if (arenas.is_viewed(s)) continue;
        slot.claimed_by = on_disk ? board.self() : 0;
        queue::clear_slot(board, s);
        WILKINS_FAULT_POINT("reclaim.cleared");
        if (on_disk) {
            give_back_file(board, arenas, s, lock);
            any = true;
        } else if (arenas.empty(s)) {
            any = true;
        }
    }
    return any;
}

int reserve(const Board& board, Arenas& arenas, int slot, uint64_t size) {
    for (;;) {
        const int error = arenas.reserve(slot, size);
        if (error != ENOSPC && error != EDQUOT) return error;
        if (!reclaim(board, arenas, error == EDQUOT ? board.source(board.slot(slot).source).port : -1)) return error;
    }
}

}  // namespace wilkins
