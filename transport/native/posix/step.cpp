// An open description of a step: its size, its bytes, and how it comes to be written.
#include "posix/table.hpp"

#include <limits.h>
#include <time.h>

#include <algorithm>

#include "store/inherited.hpp"
#include "store/joined.hpp"
#include "store/parts.hpp"
#include "store/viewers.hpp"

namespace wilkins::posix {

int reopen_anew(int fd, int flags) {
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return libc::open(path, flags | O_NOCTTY);
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
    return writable_ && state->slot >= 0 && !state->mine() && !is_writing(process().board.slot(state->slot), state->identity);
}

bool OpenStep::is_draft() const { return step_.load()->state->role == Role::draft; }

bool OpenStep::has_lost_name() const {
    const StepFile::State* const state = step_.load()->state;
    if (state->slot < 0) return false;
    const SlotRecord& slot = process().board.slot(state->slot);
    return slot.stamp == state->identity && slot.removed;
}

bool OpenStep::same_step(const StepFile* step) const { return may_write() && !is_draft() && step_.load()->identity() == step->identity(); }

KernelFile* OpenStep::share_file() {
    ++file_->references;
    return file_;
}

uint64_t OpenStep::size() const {
    const StepFile* const step = step_;
    uint64_t size = 0;
    return step->state->joined && inherited::size_of(process().board, step->state->slot, &size) ? size : step->eof();
}

void OpenStep::describe(struct stat* st) const {
    StepFile* step = step_;
    posix::describe(size(), step->identity(), opened_ns_, st);
}

ssize_t OpenStep::read_at(void* buffer, size_t count, off_t offset) {
    if (offset < 0 || !readable_) {
        errno = readable_ ? EINVAL : EBADF;
        return -1;
    }
    if (pending_ == Pending::read) count_read(static_cast<uint64_t>(offset), count);
    StepFile* step = step_;
    // Who writes the file has turned to the kernel since.
    const int by_kernel = step->state->joined ? inherited::open_file(process().board, step->state->slot, O_RDONLY | O_CLOEXEC) : -1;
    if (by_kernel >= 0) {
        const ssize_t n = libc::pread(by_kernel, buffer, count, offset);
        libc::close(by_kernel);
        return n;
    }
    const uint64_t eof = step->eof();
    const uint64_t begin = static_cast<uint64_t>(offset);
    const size_t got = begin >= eof ? 0 : static_cast<size_t>(std::min<uint64_t>({count, eof - begin, SSIZE_MAX}));
    if (got > 0) step->read(begin, buffer, got);
    return static_cast<ssize_t>(got);
}

ssize_t OpenStep::write_at(const void* buffer, size_t count, off_t offset) {
    int error = offset < 0 ? EINVAL : !writable_ ? EBADF : start_update();
    const uint64_t begin = static_cast<uint64_t>(offset);
    if (!error && count > 0) file_->recent.add(begin, begin + count);
    if (!error && count > 0) error = step_.load()->write(begin, buffer, count);
    if (!error) return static_cast<ssize_t>(count);
    errno = error;
    return -1;
}

int OpenStep::resize(off_t size) {
    int error = size < 0 || !writable_ ? EINVAL : start_update();
    if (!error) error = step_.load()->set_eof(static_cast<uint64_t>(size));
    if (!error) return 0;
    errno = error;
    return -1;
}

// Something else of the task has begun to write the file since this description was opened.
StepFile* OpenStep::join_written(int* error) {
    StepFile* const step = joined::open(match_, error);
    if (!step) return nullptr;
    const bool by_kernel = process().board.slot(step->state->slot).in_kernel != 0;
    if (by_kernel && file_->references == 1) {
        log_line("error: '%s' is being written by another process, and is opened to be changed by this one, which began before: close it, and open it again",
                 match_.name);
        *error = EAGAIN;
    } else {
        *error = joined::begin_to_write(step->state);
    }
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
        error = joined::begin_to_write(state);
        if (!error) pending_ = Pending::nothing;
        if (error != ESTALE) return error;  // else it is whole by now, and what comes makes another step
    }
    StepFile* step = join_written(&error);
    if (!step && !error) step = open_step(match_, Intent::update, 1, &error);
    if (step && step->is_far()) step = borrow_far(step, &error);
    if (!step) return error ? error : EIO;
    if (looked_) close_step(looked_);
    looked_ = step_;
    step_ = step;
    file_->joint = false;
    pending_ = Pending::nothing;
    for (int fd = 0; file_->takes_all && fd <= highest; ++fd) {
        if (table[fd] != this) continue;
        note_holder(fd);
        break;
    }
    return 0;
}

int OpenStep::join(int fd) {
    if (!writable_ || !file_->others) return 0;
    {
        std::lock_guard<std::mutex> lock(changing_);
        if (!file_->others) return 0;
        const int writing = reopen_anew(fd, (readable_ ? O_RDWR : O_WRONLY) | (append_ ? O_APPEND : 0) | O_CLOEXEC);
        if (writing < 0) return -1;
        lead_to(writing);
        libc::close(writing);
        file_->others = false;
    }
    return start_update();
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
