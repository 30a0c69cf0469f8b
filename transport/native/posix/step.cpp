// An open description of a step: its size, its bytes, and how it comes to be written.
#include "base/raw.hpp"
#include "names/places.hpp"
#include "posix/table.hpp"
#include "queue/queue.hpp"
#include "queue/closed.hpp"
#include "steps/handles.hpp"
#include "steps/inherited.hpp"
#include "steps/joined.hpp"
#include "steps/step_file.hpp"
#include "steps/viewers.hpp"

#include <limits.h>
#include <time.h>

#include <algorithm>
#include <cstring>

#include "events.hpp"

namespace wilkins::posix {

namespace {

constexpr int kMostTurns = 100;  // of two that begin to write one file at once

// While it lives, our calls write to the arena of a file that others may write, too; unless its bytes have gone to the
// kernel's file.
class ToArena {
public:
    explicit ToArena(const StepFile::State& state) {
        if (state.slot < 0 || (state.role != Role::lead && !state.joined)) return;
        slot_ = &process().board.slot(state.slot);
        slot_->copying.fetch_add(1);
        if (!slot_->in_kernel.load()) return;
        slot_->copying.fetch_sub(1);  // at once: who moves them waits for that
        slot_ = nullptr;
        moved_ = true;
    }
    ~ToArena() {
        if (slot_) slot_->copying.fetch_sub(1);
    }
    ToArena(const ToArena&) = delete;
    ToArena& operator=(const ToArena&) = delete;
    bool is_moved() const { return moved_; }

private:
    SlotRecord* slot_ = nullptr;
    bool moved_ = false;
};

}  // namespace

int reopen_anew(int fd, int flags) {
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int opened;
    while ((opened = libc::open(path, flags | O_NOCTTY)) < 0 && errno == EINTR) {
    }  // while another process has a lease on it
    return opened;
}

int reopen(int fd, int flags) {
    const int opened = reopen_anew(fd, flags);
    return opened >= 0 ? opened : libc::fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

int open_view(StepFile* step, int flags) {
    const int fd = reopen(descriptor_to_read(step), flags);
    const int error = viewers::show(*step, fd);
    if (!error) return fd;
    libc::close(fd);
    errno = error;
    return -1;
}

int64_t wall_clock_ns() {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

OpenStep::OpenStep(StepFile* step, const Match& match, int flags, Opener by, KernelFile* file)
    : step_(step),
      match_(match),
      readable_((flags & O_ACCMODE) != O_WRONLY),
      writable_((flags & O_ACCMODE) != O_RDONLY),
      append_(flags & O_APPEND),
      by_(by),
      file_(file),
      opened_ns_(wall_clock_ns()) {}

OpenStep::~OpenStep() {
    if (file_ && --file_->references == 0) delete file_;
}

bool OpenStep::mine() const { return step_.load()->state->mine(); }

bool OpenStep::is_published_without_fork() const {
    const StepFile::State* const state = step_.load()->state;
    return writable_ && state->slot >= 0 && !state->mine() &&
           !is_writing(process().board.slot(state->slot), state->identity);
}

bool OpenStep::is_draft() const { return step_.load()->state->role == Role::draft; }

bool OpenStep::has_lost_name() const {
    const StepFile::State* const state = step_.load()->state;
    if (state->slot < 0) return false;
    const SlotRecord& slot = process().board.slot(state->slot);
    return slot.stamp == state->identity && (slot.removed || state->is_renamed(slot));
}

void OpenStep::follow_name(const Match& from, const Match& to) {
    if (!writable_ || strcmp(match_.name, from.name) != 0 || step_.load()->state->place != place_of(to)) return;
    strcpy(match_.name, to.name);
    match_.place = to.place;
}

bool OpenStep::same_step(const StepFile* step) const {
    return may_write() && !is_draft() && step_.load()->identity() == step->identity();
}

KernelFile* OpenStep::share_file() {
    ++file_->references;
    return file_;
}

// A file of the task's own that this description has not written: others of the task may be writing it, or have closed
// it again since.
void OpenStep::follow_changes() {
    const StepFile::State* const state = step_.load()->state;
    if (state->own.slot < 0 || match_.inport >= 0 || !state->mine()) return;
    const SlotRecord& slot = process().board.slot(state->own.slot);
    if (slot.stamp != state->own.stamp || slot.removed ||
        (slot.state != SlotState::writing && slot.closes == state->closes))
        return;
    std::lock_guard<std::mutex> lock(changing_);
    if (step_.load()->state != state) return;
    Match match = match_;
    match.by_descriptor = true;
    int error = 0;
    StepFile* now = joined::open(match, &error);
    if (!now && !error) now = open_step(match, Intent::look, 1, &error);
    if (!now) return;
    if (looked_) close_step(looked_);
    looked_ = step_;
    step_ = now;
}

uint64_t OpenStep::size() {
    follow_changes();
    const StepFile* const step = step_;
    uint64_t size = 0;
    return step->state->joined && inherited::size_of(process().board, step->state->slot, &size) ? size : step->eof();
}

void OpenStep::describe(struct stat* st) {
    StepFile* step = step_;
    posix::describe(size(), step->identity(), opened_ns_, st);
}

ssize_t OpenStep::read_at(void* buffer, size_t count, off_t offset) {
    if (offset < 0 || !readable_) {
        errno = readable_ ? EINVAL : EBADF;
        return -1;
    }
    if (pending_ == Pending::read) count_read(static_cast<uint64_t>(offset), count);
    follow_changes();
    StepFile* step = step_;
    // Who writes the file has turned to the kernel since.
    const int by_kernel =
        step->state->joined ? inherited::open_file(process().board, step->state->slot, O_RDONLY | O_CLOEXEC) : -1;
    if (by_kernel >= 0) {
        const ssize_t n = libc::pread(by_kernel, buffer, count, offset);
        libc::close(by_kernel);
        return n;
    }
    const uint64_t eof = step->eof();
    const uint64_t begin = static_cast<uint64_t>(offset);
    const size_t got = begin >= eof ? 0 : static_cast<size_t>(std::min<uint64_t>({count, eof - begin, SSIZE_MAX}));
    if (got > 0) {
        step->read(begin, buffer, got);
        if (const int error = step->settle()) {  // bytes of another host's did not come, or are not what they were
            errno = error;
            return -1;
        }
    }
    return static_cast<ssize_t>(got);
}

ssize_t OpenStep::write_at(const void* buffer, size_t count, off_t offset) {
    int error = offset < 0 ? EINVAL : !writable_ ? EBADF : start_update();
    const uint64_t begin = static_cast<uint64_t>(offset);
    if (!error && count > 0) {
        const ToArena writing(*step_.load()->state);
        if (writing.is_moved()) return was_moved() ? libc::pwrite(any_descriptor(), buffer, count, offset) : -1;
        file_->recent.add(begin, begin + count);
        error = step_.load()->write(begin, buffer, count);
    }
    if (!error) return static_cast<ssize_t>(count);
    errno = error;
    return -1;
}

int OpenStep::resize(off_t size) {
    int error = size < 0 || !writable_ ? EINVAL : start_update();
    if (!error) {
        const ToArena writing(*step_.load()->state);
        if (writing.is_moved()) return was_moved() ? libc::ftruncate(any_descriptor(), size) : -1;
        error = step_.load()->set_eof(static_cast<uint64_t>(size));
    }
    if (!error) return 0;
    errno = error;
    return -1;
}

int OpenStep::any_descriptor() const {
    for (int fd = 0; fd <= highest; ++fd)
        if (table[fd] == this) return fd;
    return -1;
}

// Two that do not see each other's bytes have changed the file. Returns an errno.
int OpenStep::fail_changed_twice() const {
    const Process& p = process();
    Board::Lock lock(p.board);
    fail_run(p, event::changed_twice(match_.name));
    return EIO;
}

// True if the file is that of the step's lead, which may be another description that shares it.
bool OpenStep::is_of_lead(const StepFile::State* state) const {
    if (state->role == Role::lead) return true;
    for (int fd = 0; fd <= highest; ++fd)
        if (const OpenStep* const one = table[fd];
            one && one->file_ == file_ && one->step_.load()->state->role == Role::lead)
            return true;
    return false;
}

// The kernel's file has the step's bytes, since others have it: all descriptions that share this one's file lead there
// from now on, and so does the descriptor `leaving`, which is in the table no more.
int OpenStep::follow(const StepFile* step, int leaving) {
    for (int fd = 0; fd <= std::max<int>(highest, leaving); ++fd) {
        OpenStep* const one = fd == leaving ? this : table[fd].load();
        if (!one || one->file_ != file_) continue;
        const int flags = (!one->writable_  ? O_RDONLY
                           : one->readable_ ? O_RDWR
                                            : O_WRONLY) |
                          (one->append_ ? O_APPEND : 0) | O_CLOEXEC;
        const int same = joined::open_kernel_file(step->state, flags);
        struct stat st;
        if (same < 0 || raw::fstat(same, &st) != 0) return errno;
        one->lead_to(same);
        if (fd == leaving) libc::dup3(same, fd, O_CLOEXEC);
        file_->inode = st.st_ino;
        libc::close(same);
    }
    file_->joint = !is_of_lead(step->state);
    file_->named = !file_->joint;
    file_->takes_all = true;
    return 0;
}

// True if another handle that writes the step has moved its bytes to the kernel's file.
bool OpenStep::was_moved(int leaving) {
    StepFile* const step = step_;
    const StepFile::State* const state = step->state;
    if (pending_ == Pending::update || state->slot < 0 || (state->role != Role::lead && !state->joined)) return false;
    const SlotRecord& slot = process().board.slot(state->slot);
    if (!slot.in_kernel.load(std::memory_order_relaxed) || !is_writing(slot, state->identity)) return false;
    std::lock_guard<std::mutex> lock(file_->changing);
    if (file_->takes_all) return true;
    const int before = errno;
    if (const int error = follow(step, leaving)) {
        if (error == ESTALE && is_writing(slot, state->identity) && !slot.in_kernel.load())
            return false;  // they have gone back
        log_event(event::not_writable(match_.name, error));
        step->state->failed = error;
    }
    errno = before;
    return file_->takes_all;
}

// Something else of the task has begun to write the file since this description was opened.
StepFile* OpenStep::join_written(int* error) {
    StepFile* const step = joined::open(match_, error);
    if (!step) return nullptr;
    *error = joined::begin_to_write(step->state);
    if (!*error && file_->handed) *error = fail_changed_twice();
    const SlotRecord& slot = process().board.slot(step->state->slot);
    if (!*error && slot.in_kernel.load() && (*error = follow(step)) == ESTALE)
        *error = is_writing(slot, step->state->identity) && !slot.in_kernel.load()
                     ? 0
                     : EAGAIN;  // they have gone back to the arena
    if (!*error) return step;
    if (*error == ESTALE) *error = 0;  // it is whole by now
    close_step(step);
    return nullptr;
}

int OpenStep::start_update() {
    if (pending_ != Pending::update) return 0;
    std::lock_guard<std::mutex> lock(changing_);
    if (pending_ != Pending::update) return 0;
    int error = 0;
    if (StepFile::State* const state = step_.load()->state; state->joined) {
        error = joined::begin_to_write(state, file_->joint);
        if (!error) pending_ = Pending::nothing;
        if (error != ESTALE) return error;  // else it is whole by now, and what comes makes another step
    }
    if (file_->joint && (error = leave_kernel_file())) return error;
    error = 0;
    Match match = match_;
    match.by_descriptor = true;
    StepFile* step = join_written(&error);
    for (int turn = 0; !step && !error; ++turn) {
        step = open_step(match, Intent::update, 1, &error);
        if (step || error != EAGAIN || turn == kMostTurns) break;
        step = join_written(&error);  // another one has begun to write in between
    }
    if (step && step->state->role == Role::lead && step->state->slot >= 0)
        process().board.slot(step->state->slot).opening.store(0);
    if (step && step->is_far()) step = borrow_far(step, &error);
    if (step && closes_ >= 0 && step->identity() == step_.load()->state->own.stamp &&
        process().board.slot(step->state->slot).closes != closes_) {
        error = fail_changed_twice();
        discard_step(step);
        step = nullptr;
    }
    if (!step) return error ? error : EIO;
    if (looked_) close_step(looked_);
    looked_ = step_;
    step_ = step;
    pending_ = Pending::nothing;
    for (int fd = 0; file_->takes_all && fd <= highest; ++fd) {
        if (table[fd] != this) continue;
        note_holder(fd);
        break;
    }
    return 0;
}

// The kernel's file was that of a file which is whole by now, and cannot get a name again: what comes lies in another
// one. Returns 0 or an errno.
int OpenStep::leave_kernel_file() {
    const int anew = raw::open(process().board.folder(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    struct stat st;
    int error = anew < 0 || raw::fstat(anew, &st) != 0 ? errno : 0;
    for (int fd = 0; !error && fd <= highest; ++fd) {
        OpenStep* const one = table[fd];
        if (!one || one->file_ != file_) continue;
        const int same = reopen_anew(anew, (!one->writable_  ? O_RDONLY
                                            : one->readable_ ? O_RDWR
                                                             : O_WRONLY) |
                                               O_CLOEXEC);
        if (same < 0) error = errno;
        else one->lead_to(same);
        if (same >= 0) libc::close(same);
        one->offset_ = libc::lseek(fd, 0, SEEK_CUR);
    }
    if (anew >= 0) raw::close(anew);
    if (error) return error;
    file_->inode = st.st_ino;
    file_->takes_all = false;
    file_->joint = false;
    file_->others = false;
    file_->named = false;
    return 0;
}

// The kernel has a copy of the file for a process that may change that. If others have changed the file since, and
// nobody that copy, the file is what counts. `begins`: this description is about to write. Returns 0 or an errno.
int OpenStep::leave_stale_copy(int fd, bool begins) {
    if (closes_ < 0 || pending_ != Pending::update) return 0;
    const StepFile::State::Own own = step_.load()->state->own;
    const Process& p = process();
    const auto changed = [&](int index, uint64_t stamp) {
        const SlotRecord& slot = p.board.slot(index);
        return slot.stamp != stamp || slot.state == SlotState::writing || slot.closes != closes_;
    };
    if (begins) {
        Board::Lock lock(p.board);
        const uint64_t place = place_of(match_);
        const int written = queue::find_written(p.board, match_.outport, place),
                  index = queue::find_own(p.board, match_.outport, match_.name, place);
        if (written < 0 && (index < 0 || (index == own.slot && !changed(index, own.stamp)))) return 0;
    } else if (p.board.slot(own.slot).stamp != own.stamp || !changed(own.slot, own.stamp)) {
        return 0;
    }
    struct stat st;
    if (raw::fstat(fd, &st) != 0 || st.st_mtim.tv_sec != 0 || st.st_mtim.tv_nsec != 0)
        return 0;  // (start_update says so.)
    std::lock_guard<std::mutex> lock(changing_);
    if (closes_ < 0) return 0;
    closes_ = -1;
    file_->handed = false;
    return leave_kernel_file();
}

int OpenStep::begin_to_write(int fd) {
    if (!writable_) return 0;
    if (const int error = leave_stale_copy(fd, true)) {
        errno = error;
        return -1;
    }
    if (file_->others) {
        std::lock_guard<std::mutex> lock(changing_);
        const int writing =
            file_->others ? reopen_anew(fd, (readable_ ? O_RDWR : O_WRONLY) | (append_ ? O_APPEND : 0) | O_CLOEXEC)
                          : fd;
        if (writing < 0) return -1;
        if (writing != fd) {
            lead_to(writing);
            libc::close(writing);
        }
        file_->others = false;
    } else if (file_->takes_all || pending_ != Pending::update || match_.outport < 0) {
        return 0;
    }
    const int error = start_update();
    errno = error;
    return error ? -1 : 0;
}

// All descriptors of the description lead where `other` does from now on, with the offset that they have.
void OpenStep::lead_to(int other) {
    for (int fd = 0; fd <= highest; ++fd) {
        if (table[fd] != this) continue;
        const off_t offset = libc::lseek(fd, 0, SEEK_CUR);
        const int flags = libc::fcntl(fd, F_GETFD);
        libc::dup3(other, fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0);
        libc::lseek(fd, offset, SEEK_SET);
    }
}

}  // namespace wilkins::posix
