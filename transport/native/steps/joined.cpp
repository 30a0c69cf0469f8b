// Handles on a file that is being written, beside its lead's.
#include "steps/joined.hpp"

#include <fcntl.h>
#include <time.h>

#include <cerrno>

#include "base/raw.hpp"
#include "names/places.hpp"
#include "queue/parts.hpp"
#include "queue/queue.hpp"
#include "steps/handles.hpp"
#include "steps/inherited.hpp"
#include "steps/open_files.hpp"
#include "steps/step_file.hpp"
#include "waiting/wait.hpp"

namespace wilkins::joined {

namespace {

constexpr int kPause = 2;          // ms between looks whether a file is open, or its bytes are elsewhere
constexpr int kMostLooks = 30000;  // a write that lasts longer hangs

// The slot of the file of this name that the task is writing, or -1; of a name that it also reads, only what this
// process writes. Call with the lock held.
int find(const Board& board, const Match& match, uint64_t place) {
    const int index = queue::find_written(board, match.outport, place);
    const bool is_own = index >= 0 && board.slot(index).writer_process == board.joined();
    return match.inport < 0 || is_own ? index : -1;
}

SlotRecord& slot_of(const StepFile::State* state) { return process().board.slot(state->slot); }

}  // namespace

bool look(const Match& match, Look* look) {
    const Process& p = process();
    if (match.outport < 0) return false;
    const uint64_t place = place_of(match);
    Board::Lock lock(p.board);
    const int index = find(p.board, match, place);
    if (index < 0) return false;
    const SlotRecord& slot = p.board.slot(index);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *look = {slot.size.load(), slot.stamp, now.tv_sec * 1'000'000'000ll + now.tv_nsec};
    inherited::size_of(p.board, index, &look->size);
    return true;
}

StepFile* open(const Match& match, int* error) {
    Process& p = process();
    *error = 0;
    if (match.outport < 0) return nullptr;
    const uint64_t place = place_of(match);
    int index;
    uint64_t stamp;
    uint32_t closes;
    {
        Board::Lock lock(p.board);
        while ((index = find(p.board, match, place)) >= 0 && p.board.slot(index).opening.load())
            if ((*error = nap(p, match.outport, lock, kPause))) return nullptr;
        if (index < 0) return nullptr;
        stamp = p.board.slot(index).stamp;
        closes = p.board.slot(index).closes;
        if (!queue::add_hold(p.board, p.rank_index, index)) {
            *error = too_many_open(p, match.name);
            return nullptr;
        }
        ++p.me().files;
    }
    Mapping mapping;
    *error = p.arenas->map(index, true, &mapping);
    StepFile* const file = *error ? nullptr : make_file(Role::peer, index, mapping, stamp, match.name, place);
    if (file) {
        file->state->joined = true;
        file->state->closes = closes;
        return file;
    }
    if (!*error) *error = ENOMEM;
    Board::Lock lock(p.board);
    queue::drop_hold(p.board, p.rank_index, index, p.board.self());
    return nullptr;
}

StepFile* copy(const Match& match, int* error) {
    *error = 0;
    Look written;
    StepFile* const file = look(match, &written) ? open(match, error) : nullptr;
    if (!file) return nullptr;
    const int fd = inherited::open_file(process().board, file->state->slot, O_RDONLY | O_CLOEXEC);
    StepFile* const copied = fd < 0 ? nullptr : copy_of_file(fd, match.name, error);
    if (fd >= 0) raw::close(fd);
    close_step(file);
    return copied;
}

int begin_to_write(StepFile::State* state, bool by_kernel) {
    Process& p = process();
    SlotRecord& slot = slot_of(state);
    Board::Lock lock(p.board);
    const auto is_ending = [&] {
        return (slot.closing && !p.board.is_over(slot.writer_process)) || queue::claimed(p.board, slot);
    };
    while (is_writing(slot, state->identity) && is_ending())
        if (const int error = nap(p, p.board.source(slot.source).port, lock, kPause)) return error;
    if (!is_writing(slot, state->identity) || (by_kernel && slot.closes != state->closes)) return ESTALE;
    ++slot.joint_writers;
    state->wrote = true;
    return 0;
}

int begin_move(const StepFile::State* state) {
    Process& p = process();
    SlotRecord& slot = slot_of(state);
    Board::Lock lock(p.board);
    while (is_writing(slot, state->identity) && slot.opening.load())
        if (const int error = nap(p, p.board.source(slot.source).port, lock, kPause)) return error;
    if (!is_writing(slot, state->identity)) return ESTALE;
    if (slot.in_kernel.load()) return EAGAIN;
    slot.opening.store(1);
    slot.in_kernel.store(kMoving);
    // What has begun to write to the arena ends soon.
    for (int looks = 0; slot.copying.load() != 0; ++looks)
        if (const int error = looks < kMostLooks ? nap(p, p.board.source(slot.source).port, lock, kPause) : EBUSY) {
            slot.in_kernel.store(0);
            slot.opening.store(0);
            return error;
        }
    return 0;
}

namespace {

// Who writes it last is known by the kernel's file, which has the bytes.
void leave_in_kernel(SlotRecord& slot) {
    process().board.head().leaves.store(1);
    slot.inherited.store(1, std::memory_order_release);
}

}  // namespace

void end_move(const StepFile::State* state, bool moved) {
    SlotRecord& slot = slot_of(state);
    Board::Lock lock(process().board);
    if (!is_writing(slot, state->identity)) return;
    slot.in_kernel.store(moved ? kInKernel : 0);
    slot.opening.store(0);
    if (moved && slot.lead_left) leave_in_kernel(slot);
}

int open_kernel_file(const StepFile::State* state, int flags) {
    Process& p = process();
    SlotRecord& slot = slot_of(state);
    {
        Board::Lock lock(p.board);
        while (is_writing(slot, state->identity) && slot.opening.load())
            if ((errno = nap(p, p.board.source(slot.source).port, lock, kPause))) return -1;
        errno = ESTALE;
        if (!is_writing(slot, state->identity)) return -1;
        slot.shared.store(1);
    }
    return inherited::open_file(p.board, state->slot, flags);
}

namespace {

// Calls `visit` with the processes of handles beside the file's lead's that live, once for each handle.
template <class Visit>
void each_holder(const Board& board, int index, Visit visit) {
    for (RankRecord& rank : ranks_of(board))
        queue::each_hold(board, rank, [&](int32_t held, uint32_t process) {
            if (held == index && !board.is_over(process)) visit(process);
        });
}

}  // namespace

uint32_t other_holder(const Board& board, int index, uint32_t but) {
    uint32_t found = 0;
    each_holder(board, index, [&](uint32_t process) {
        if (process != but) found = process;
    });
    return found;
}

bool is_written(const Board& board, int index) {
    return board.slot(index).joint_writers > 0 && other_holder(board, index, 0) != 0;
}

bool begin_to_publish(const StepFile::State* state) {
    Process& p = process();
    SlotRecord& slot = slot_of(state);
    Board::Lock lock(p.board);
    while (is_writing(slot, state->identity) && slot.in_kernel.load() == kMoving)
        if (nap(p, p.board.source(slot.source).port, lock, kPause) != 0) return true;
    if (!is_writing(slot, state->identity)) return true;
    if (const uint32_t other = slot.joint_writers > 0 ? other_holder(p.board, state->slot, 0) : 0) {
        slot.lead_left = 1;
        if (slot.in_kernel.load()) leave_in_kernel(slot);
        else slot.writer_process = other;
        return false;
    }
    slot.closing = 1;
    return true;
}

void leave_to_others(const StepFile::State* state) {
    SlotRecord& slot = slot_of(state);
    Board::Lock lock(process().board);
    if (is_writing(slot, state->identity)) slot.closing = 0;
}

bool end(const StepFile::State* state) {
    const Process& p = process();
    SlotRecord& slot = slot_of(state);
    Board::Lock lock(p.board);
    if (!is_writing(slot, state->identity)) return false;
    if (state->wrote && slot.joint_writers > 0) --slot.joint_writers;
    if (!slot.lead_left || slot.inherited.load() || (slot.closing && !p.board.is_over(slot.writer_process)))
        return false;
    // Others have it open, and one of them has written to it, or may yet: one that lives is the one to publish it,
    // whoever writes.
    uint32_t other = 0;
    int own = 0;
    each_holder(p.board, state->slot, [&](uint32_t process) {
        if (process != state->process || own++ > 0) other = process;
    });
    const bool goes_on = other && slot.joint_writers > 0;
    slot.writer_process = goes_on ? other : p.board.self();
    slot.closing = !goes_on;
    return !goes_on;
}

void leave(const StepFile::State* state) {
    const Process& p = process();
    Board::Lock lock(p.board);
    queue::drop_hold(p.board, p.rank_index, state->slot, state->process);
}

}  // namespace wilkins::joined
