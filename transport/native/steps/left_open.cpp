// What becomes of files whose process has ended without closing them.
#include "steps/left_open.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/fault.hpp"
#include "board/border.hpp"
#include "events.hpp"
#include "queue/queue.hpp"
#include "queue/closed.hpp"
#include "steps/closing.hpp"
#include "steps/disk.hpp"
#include "steps/homes.hpp"
#include "steps/joined.hpp"
#include "steps/reclaim.hpp"
#include "steps/snapshot.hpp"
#include "steps/sums.hpp"
#include "steps/step_file.hpp"
#include "waiting/wait.hpp"

namespace wilkins::left_open {

namespace {

constexpr int kPause = 10;  // ms between looks whether another process is done with a file

std::atomic<bool> has_flushed{false};  // this process has

// Whose end it is, and who finds it.
enum class Finder {
    itself,    // the process that ends
    relative,  // another process of its task
    launcher,  // while processes of its task may live
    last,      // the launcher, when none shares the file any more
};

bool is_left(const Board& board, const SlotRecord& slot, Finder finder) {
    if (slot.state != SlotState::writing || slot.inherited.load(std::memory_order_acquire)) return false;
    const uint32_t writer = slot.writer_process;
    return finder == Finder::itself ? writer == board.self() : writer != board.joined() && board.is_over(writer);
}

// True if living processes still write it. The last of them publishes it.
bool is_joint(const Board& board, int index) {
    const SlotRecord& slot = board.slot(index);
    return slot.joint_writers > 0 && joined::other_holder(board, index, slot.writer_process) != 0;
}

bool is_shared(const Board& board, const SlotRecord& slot, Finder finder) {
    return slot.peers > 0 && finder != Finder::last &&
           board.task(board.port(board.source(slot.source).port).task).nprocs > 1;
}

bool is_whole(const SlotRecord& slot) {
    return slot.flushed.load() == slot.changes.load() + 1 && slot.broken.load() == 0 && !homes::any(slot);
}

// The arena becomes exactly the file, as if HDF5 had closed it, and takes its name on disk. Returns 0 or an errno.
int complete(const Board& board, Arenas& arenas, int index, uint64_t* digest) {
    SlotRecord& slot = board.slot(index);
    const uint64_t size = slot.size.load();
    const uint64_t blocks = (size + kBlock - 1) / kBlock;
    Mapping mapping;
    if (const int error = arenas.map(index, true, &mapping)) return error;
    int error = size > mapping.length ? EFBIG : reserve(board, arenas, index, size);
    if (!error) error = open_to(mapping, slot.reserved.load());
    if (!error && slot.touched.load() < blocks) slot.touched.store(blocks);
    for (uint64_t b = 0; b < blocks && !error; ++b) error = make_valid(mapping, b, slot.reserved.load());
    if (!error && slot.reserved.load() != size) error = arenas.trim(index, size);
    WILKINS_FAULT_POINT("left-open.valid");
    if (!error) {
        mark_closed(mapping.bytes, size);
        *digest = slot.snapshots > 0 ? digest_of(mapping.bytes, size) : 0;
        error = sums::keep(board, index, mapping.bytes, size);
        if (!error) error = disk::settle(board, index, mapping.bytes, size, note_file);
    }
    if (!mapping.kept) unmap(mapping);
    return error;
}

// Nobody else turns to the file until this process is done with it. False: it is none that was left, or others still
// share it.
bool claim(const Board& board, int index, Finder finder, bool* whole, uint64_t* stamp) {
    SlotRecord& slot = board.slot(index);
    Board::Lock lock(board);
    for (;;) {
        if (!is_left(board, slot, finder) || is_shared(board, slot, finder) || is_joint(board, index)) return false;
        if (!queue::claimed(board, slot)) break;
        if (finder != Finder::relative || nap(process(), board.source(slot.source).port, lock, kPause) != 0)
            return false;
    }
    *whole = is_whole(slot);
    // A thread of a process that ends may still write what is not whole.
    if (finder == Finder::itself && !*whole) return false;
    slot.claimed_by = board.self();
    *stamp = slot.stamp;
    return true;
}

void settle_one(const Board& board, Arenas& arenas, int index, Finder finder) {
    bool whole = false;
    uint64_t stamp = 0, digest = 0;
    if (!claim(board, index, finder, &whole, &stamp)) return;
    WILKINS_FAULT_POINT("left-open.claimed");
    SlotRecord& slot = board.slot(index);
    const int error = whole ? complete(board, arenas, index, &digest) : 0;
    if (!whole || error) disk::forget(board, index);
    WILKINS_FAULT_POINT("left-open.complete");
    Board::Lock lock(board);
    const SourceRecord& source = board.source(slot.source);
    slot.claimed_by = 0;
    if (!is_writing(slot, stamp)) return;
    if (whole && !error) {
        slot.peers = 0;
        queue::close_slot(board, index, digest);
        if (slot.state == SlotState::closed) slot.handed_over = 1;
    } else {
        if (error)
            log_event_for(board, board.port(source.port).task, source.rank, event::left_not_whole(slot.name, error));
        else log_lost(board, slot);
        queue::clear_slot(board, index);
    }
    board.ring(source.port);
}

// Calls `visit` with those of the slots, in the order in which their files were begun.
template <class Visit>
void each_left(const Board& board, Row<SlotRecord> slots, Finder finder, Visit visit) {
    for (uint64_t after = 0;;) {
        int next = -1;
        for (const SlotRecord& slot : slots) {
            if (slot.state != SlotState::writing || slot.stamp <= after ||
                (next >= 0 && slot.stamp > board.slot(next).stamp))
                continue;
            if (is_left(board, slot, finder)) next = board.index(slot);
        }
        if (next < 0) return;
        after = board.slot(next).stamp;
        if (!visit(next)) return;
    }
}

template <class Visit>
void each_left_own(const Process& p, Finder finder, Visit visit) {
    for (const PortRecord& port : ports_of(p, Direction::out))
        each_left(p.board, slots_of(p.board, p.board.source(port, p.context.rank)), finder, visit);
}

// True if the slot's file belongs to the task (-1: any).
bool is_of(const Board& board, int index, int task) {
    return task < 0 || board.port(board.source(board.slot(index).source).port).task == task;
}

}  // namespace

void note_flushed(const StepFile* file) {
    if (file->state->slot < 0) return;
    has_flushed = true;
    SlotRecord& slot = process().board.slot(file->state->slot);
    slot.flushed.store(slot.changes.load() + 1);
}

void end_process() try {
    if (!has_flushed || Board::Lock::is_held()) return;
    const Process& p = process();
    if (!p.board.joined()) return;
    each_left_own(p, Finder::itself, [&](int k) {
        settle_one(p.board, *p.arenas, k, Finder::itself);
        return true;
    });
}
WILKINS_OR()

void settle_own(int source) {
    const Process& p = process();
    if (!p.context.active || Board::Lock::is_held()) return;
    const int before = errno;
    const auto visit = [&](int k) {
        settle_one(p.board, *p.arenas, k, Finder::relative);
        return true;
    };
    if (source >= 0) each_left(p.board, slots_of(p.board, p.board.source(source)), Finder::relative, visit);
    else each_left_own(p, Finder::relative, visit);
    errno = before;
}

bool any(const Board& board, int task) {
    bool found = false;
    each_left(board, slots_of(board), Finder::launcher, [&](int k) { return !(found = is_of(board, k, task)); });
    return found;
}

void settle(const Board& board, Arenas& arenas, int task, bool ends) {
    const Finder finder = ends ? Finder::last : Finder::launcher;
    each_left(board, slots_of(board), finder, [&](int k) {
        if (is_of(board, k, task)) settle_one(board, arenas, k, finder);
        return true;
    });
}

void log_lost(const Board& board, const SlotRecord& slot) {
    if (board.head().stopped) return;
    const SourceRecord& source = board.source(slot.source);
    log_event_for(board, board.port(source.port).task, source.rank, event::left_open(slot.name));
}

}  // namespace wilkins::left_open
