// An open description of a step: its size, its bytes, and how it comes to be written.
#include "posix/table.hpp"

#include <limits.h>
#include <time.h>

#include <algorithm>

#include "store/parts.hpp"

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

bool OpenStep::same_step(const StepFile* step) const { return file_ && step_.load()->identity() == step->identity(); }

KernelFile* OpenStep::share_file() {
    ++file_->references;
    return file_;
}

uint64_t OpenStep::size() const { return step_.load()->eof(); }

void OpenStep::describe(struct stat* st) const {
    StepFile* step = step_;
    posix::describe(step->eof(), step->identity(), opened_ns_, st);
}

ssize_t OpenStep::read_at(void* buffer, size_t count, off_t offset) {
    if (offset < 0 || !readable_) {
        errno = readable_ ? EINVAL : EBADF;
        return -1;
    }
    if (pending_ == Pending::read) count_read(static_cast<uint64_t>(offset), count);
    StepFile* step = step_;
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

int OpenStep::start_update() {
    if (pending_ != Pending::update) return 0;
    std::lock_guard<std::mutex> lock(changing_);
    if (pending_ != Pending::update) return 0;
    int error = 0;
    StepFile* step = open_step(match_, Intent::update, 1, &error);
    if (step && step->is_far()) step = borrow_far(step, &error);
    if (!step) return error ? error : EIO;
    looked_ = step_;
    step_ = step;
    pending_ = Pending::nothing;
    return 0;
}

}  // namespace wilkins::posix
