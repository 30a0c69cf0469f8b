// Copies between files of the disk and steps.
#include "posix/copies.hpp"

#include "steps/step_file.hpp"
#include "store/reading.hpp"

namespace wilkins::posix {
namespace {

StepFile* open_source(const Match& step, int* error) {
    if (step.inport >= 0) return open_to_read(step, {nullptr, false}, error);
    return open_step(step, Intent::look, 1, error);
}

// Returns 0 or an errno.
int write_to(StepFile* step, int fd) {
    const uint64_t size = step->eof();
    step->prepare_read(0, size);
    if (const int error = step->settle()) return error;
    for (uint64_t done = 0; done < size;) {
        const ssize_t n = libc::write(fd, step->data() + done, size - done);
        if (n >= 0) done += static_cast<uint64_t>(n);
        else if (errno != EINTR) return errno;
    }
    return 0;
}

int finish(StepFile* step, int error) {
    if (error) discard_step(step);
    else close_step(step);
    return error;
}

}  // namespace

int fill_from(StepFile* step, int fd, uint64_t size) {
    int error = step->prepare_write(0, size, true);
    for (uint64_t done = 0; !error && done < size;) {
        const ssize_t n = libc::pread(fd, step->data() + done, size - done, static_cast<off_t>(done));
        if (n > 0) done += static_cast<uint64_t>(n);
        else if (n == 0) error = EIO;
        else if (errno != EINTR) error = errno;
    }
    return error;
}

int publish_file(int dirfd, const char* path, const Match& name, Intent intent) {
    const int fd = libc::openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno;
    struct stat st;
    int error = libc::fstat(fd, &st) != 0 ? errno : S_ISREG(st.st_mode) ? 0 : EINVAL;
    StepFile* step = error ? nullptr : open_step(name, intent, 1, &error);
    if (step) error = finish(step, fill_from(step, fd, static_cast<uint64_t>(st.st_size)));
    libc::close(fd);
    if (!error && on_disk(name)) libc::chmod(name.name, st.st_mode & 07777);
    return error;
}

int publish_step(const Match& step, const Match& name, Intent intent) {
    int error = 0;
    StepFile* old = open_source(step, &error);
    if (!old) return error;
    StepFile* copy = open_step(name, intent, 1, &error);
    if (copy) {
        const uint64_t size = old->eof();
        old->prepare_read(0, size);
        error = old->settle();
        error = finish(copy, error ? error : copy->write(0, old->data(), size));
    }
    close_step(old);
    return error;
}

int save_step(const Match& step, int dirfd, const char* path, int flags) {
    struct stat st;
    if ((flags & O_EXCL) && libc::fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) == 0) return EEXIST;
    int error = 0;
    StepFile* file = open_source(step, &error);
    if (!file) return error;
    const int fd = libc::openat(dirfd, path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
    if (fd < 0) error = errno;
    else error = write_to(file, fd);
    if (fd >= 0 && libc::close(fd) != 0 && !error) error = errno;
    close_step(file);
    return error;
}

}  // namespace wilkins::posix
