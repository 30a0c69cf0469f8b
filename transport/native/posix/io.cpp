// read, write, lseek and kin on descriptors that lead to steps.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>

#include "base/resolve.hpp"
#include "posix/files.hpp"
#include "posix/watches.hpp"
#include "store/sets.hpp"

namespace wilkins::posix {
namespace {

// The step whose reads and writes are copies made here, or nullptr: the kernel does the work.
OpenStep* copied(int fd) {
    OpenStep* step = find(fd);
    return step && !step->native(fd) ? step : nullptr;
}

// The kernel's own offset of the descriptor serves read() and write(), so duplicates share it. (Of a file that is
// written, it was just found to be where we have left it.)
ssize_t read_on(OpenStep* step, int fd, void* buffer, size_t count) {
    const off_t at = step->writable() ? step->offset() : libc::lseek(fd, 0, SEEK_CUR);
    const ssize_t n = step->read_at(buffer, count, at);
    if (n > 0) step->note_offset(libc::lseek(fd, at + n, SEEK_SET));
    else if (n == 0 && count > 0) step->note_end();
    return n;
}

ssize_t append_on(OpenStep* step, int fd, const void* buffer, size_t count) {
    if (step->native(fd)) return libc::write(fd, buffer, count);
    const auto at = static_cast<off_t>(step->size());
    const ssize_t n = step->write_at(buffer, count, at);
    if (n > 0) step->note_offset(libc::lseek(fd, at + n, SEEK_SET));
    return n;
}

// One call moves the offset, and tells where it was.
ssize_t write_on(OpenStep* step, int fd, const void* buffer, size_t count) {
    const auto length = static_cast<off_t>(count);
    const auto move = [&] { return libc::lseek(fd, length, SEEK_CUR) - length; };
    const auto move_back = [&] { return libc::lseek(fd, -length, SEEK_CUR); };
    off_t at = move();
    if (at != step->offset()) {  // moved by another thread, or by what has written past our calls
        if (at >= 0) move_back();
        if (step->native(fd)) return libc::write(fd, buffer, count);
        at = move();
    }
    if (at < 0) return -1;
    step->note_offset(at + length);
    const ssize_t n = step->write_at(buffer, count, at);
    if (n < 0) {
        const int error = errno;
        step->note_offset(move_back());
        errno = error;
    }
    return n;
}

// The step that a write of so many bytes goes to, if that is a copy made here; from some bytes on it may be worth
// while. *error: 0 or an errno.
OpenStep* written(int fd, size_t count, int* error) {
    OpenStep* step = find(fd);
    *error = 0;
    if (!step || !step->writable()) return nullptr;
    if (count > 0 && step->begin_to_write(fd) != 0) *error = errno;
    if (*error) return nullptr;
    step->speed_up(fd, count);
    return step->writes_natively(fd) ? nullptr : step;
}

ssize_t failed(int error) {
    errno = error;
    return -1;
}

ssize_t write_any(int fd, const void* buffer, size_t count) {
    int error;
    OpenStep* step = written(fd, count, &error);
    if (error) return failed(error);
    if (!step) note_late(fd);
    if (!step) return libc::write(fd, buffer, count);
    return step->append() ? append_on(step, fd, buffer, count) : write_on(step, fd, buffer, count);
}

ssize_t pwrite_any(int fd, const void* buffer, size_t count, off_t offset) {
    int error;
    OpenStep* step = written(fd, count, &error);
    if (error) return failed(error);
    if (!step) note_late(fd);
    if (!step) return libc::pwrite(fd, buffer, count, offset);
    return step->write_at(buffer, count,
                          step->append() && offset >= 0 ? static_cast<off_t>(step->size()) : offset);  // as Linux does
}

ssize_t read_any(int fd, void* buffer, size_t count) {
    OpenStep* step = copied(fd);
    if (step) return read_on(step, fd, buffer, count);
    return watches::any() ? watches::read(fd, buffer, count) : libc::read(fd, buffer, count);
}

ssize_t pread_any(int fd, void* buffer, size_t count, off_t offset) {
    OpenStep* step = copied(fd);
    return step ? step->read_at(buffer, count, offset) : libc::pread(fd, buffer, count, offset);
}

off_t seek(OpenStep* step, int fd, off_t offset, int whence) {
    const off_t end = static_cast<off_t>(step->size());
    if (whence == SEEK_END) return libc::lseek(fd, end + offset, SEEK_SET);
    if (whence == SEEK_SET || whence == SEEK_CUR) return libc::lseek(fd, offset, whence);
    if (offset < 0 || offset >= end) {
        errno = ENXIO;
        return -1;
    }
    return libc::lseek(fd, whence == SEEK_DATA ? offset : end, SEEK_SET);
}

// posix_fallocate and fallocate without flags only ever make a file longer. Returns 0 or an errno.
int lengthen(OpenStep* step, off_t offset, off_t count) {
    if (offset < 0 || count <= 0) return EINVAL;
    const off_t end = offset + count;
    if (end <= static_cast<off_t>(step->size())) return 0;
    return step->resize(end) == 0 ? 0 : errno;
}

// The step whose length is set here, or nullptr.
OpenStep* resized(int fd) {
    OpenStep* const step = find(fd);
    return step && step->begin_to_write(fd) == 0 ? copied(fd) : nullptr;
}

// What copy_file_range would do. Returns as much as it has copied, or -1 and errno.
ssize_t copy_range(int from, off_t* from_at, int to, off_t* to_at, size_t count) {
    char piece[65536];
    ssize_t done = 0;
    while (static_cast<size_t>(done) < count) {
        const size_t most = std::min(count - static_cast<size_t>(done), sizeof(piece));
        const ssize_t got = from_at ? libc::pread(from, piece, most, *from_at) : libc::read(from, piece, most);
        const ssize_t put = got <= 0 ? got
                            : to_at  ? libc::pwrite(to, piece, static_cast<size_t>(got), *to_at)
                                     : libc::write(to, piece, static_cast<size_t>(got));
        if (got > 0 && put < got && !from_at) libc::lseek(from, std::max<ssize_t>(put, 0) - got, SEEK_CUR);
        if (put <= 0) return done > 0 ? done : put;
        if (from_at) *from_at += put;
        if (to_at) *to_at += put;
        done += put;
    }
    return done;
}

void* map_any(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
    if (!(flags & MAP_ANONYMOUS) && hand_over(fd) != 0) return MAP_FAILED;
    return libc::mmap(address, length, protection, flags, fd, offset);
}

}  // namespace

int resize_open(int fd, off_t size) {
    OpenStep* const step = resized(fd);
    return step ? step->resize(size) : libc::ftruncate(fd, size);
}

}  // namespace wilkins::posix

using namespace wilkins;
using namespace wilkins::posix;

WILKINS_INTERPOSE(ssize_t, read, int fd, void* buffer, size_t count) { return read_any(fd, buffer, count); }
WILKINS_OR(-1)

WILKINS_INTERPOSE(ssize_t, pread, int fd, void* buffer, size_t count, off_t offset) {
    return pread_any(fd, buffer, count, offset);
}
WILKINS_OR(-1)
WILKINS_ALIAS(pread64, pread);

// What programs compiled with _FORTIFY_SOURCE call where the compiler knows the size of the buffer.
WILKINS_INTERPOSE(ssize_t, __read_chk, int fd, void* buffer, size_t count, size_t room) {
    if (count > room) __builtin_trap();
    return read_any(fd, buffer, count);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(ssize_t, __pread_chk, int fd, void* buffer, size_t count, off_t offset, size_t room) {
    if (count > room) __builtin_trap();
    return pread_any(fd, buffer, count, offset);
}
WILKINS_OR(-1)
WILKINS_ALIAS(__pread64_chk, __pread_chk);

WILKINS_INTERPOSE(ssize_t, write, int fd, const void* buffer, size_t count) {
    const libc::KeptErrno kept;
    return kept(write_any(fd, buffer, count));
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(ssize_t, pwrite, int fd, const void* buffer, size_t count, off_t offset) {
    const libc::KeptErrno kept;
    return kept(pwrite_any(fd, buffer, count, offset));
}
WILKINS_OR(-1)
WILKINS_ALIAS(pwrite64, pwrite);

WILKINS_INTERPOSE(ssize_t, readv, int fd, const struct iovec* pieces, int count) {
    if (hand_over(fd) != 0) return -1;
    return libc::readv(fd, pieces, count);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(ssize_t, preadv, int fd, const struct iovec* pieces, int count, off_t offset) {
    if (hand_over(fd) != 0) return -1;
    return libc::preadv(fd, pieces, count, offset);
}
WILKINS_OR(-1)
WILKINS_ALIAS(preadv64, preadv);

WILKINS_INTERPOSE(ssize_t, preadv2, int fd, const struct iovec* pieces, int count, off_t offset, int flags) {
    if (hand_over(fd) != 0) return -1;
    return libc::preadv2(fd, pieces, count, offset, flags);
}
WILKINS_OR(-1)
WILKINS_ALIAS(preadv64v2, preadv2);

WILKINS_INTERPOSE(ssize_t, writev, int fd, const struct iovec* pieces, int count) {
    if (hand_over(fd) != 0) return -1;
    return libc::writev(fd, pieces, count);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(ssize_t, pwritev, int fd, const struct iovec* pieces, int count, off_t offset) {
    if (hand_over(fd) != 0) return -1;
    return libc::pwritev(fd, pieces, count, offset);
}
WILKINS_OR(-1)
WILKINS_ALIAS(pwritev64, pwritev);

WILKINS_INTERPOSE(ssize_t, pwritev2, int fd, const struct iovec* pieces, int count, off_t offset, int flags) {
    if (hand_over(fd) != 0) return -1;
    return libc::pwritev2(fd, pieces, count, offset, flags);
}
WILKINS_OR(-1)
WILKINS_ALIAS(pwritev64v2, pwritev2);

WILKINS_INTERPOSE(ssize_t, copy_file_range, int from, off_t* from_at, int to, off_t* to_at, size_t count,
                  unsigned flags) {
    const libc::KeptErrno kept;
    const bool leads_to_step = find(from) || find(to);
    if (hand_over(from) != 0 || hand_over(to) != 0) return -1;
    const ssize_t n = libc::copy_file_range(from, from_at, to, to_at, count, flags);
    // Where the step is in memory and the other file on a disk, the kernel does not: with two files of a disk it would
    // have.
    const bool refused = n < 0 && leads_to_step && (errno == EXDEV || errno == EOPNOTSUPP || errno == EINVAL);
    return refused && flags == 0 ? kept(copy_range(from, from_at, to, to_at, count)) : n;
}
WILKINS_OR(-1)

// What the C library does by threads and calls of its own.

WILKINS_INTERPOSE(int, vdprintf, int fd, const char* format, va_list arguments) {
    if (hand_over(fd) != 0) return -1;
    return libc::vdprintf(fd, format, arguments);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, dprintf, int fd, const char* format, ...) {
    if (hand_over(fd) != 0) return -1;
    va_list arguments;
    va_start(arguments, format);
    const int n = libc::vdprintf(fd, format, arguments);
    va_end(arguments);
    return n;
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, __vdprintf_chk, int fd, int flag, const char* format, va_list arguments) {
    if (hand_over(fd) != 0) return -1;
    return libc::__vdprintf_chk(fd, flag, format, arguments);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, __dprintf_chk, int fd, int flag, const char* format, ...) {
    if (hand_over(fd) != 0) return -1;
    va_list arguments;
    va_start(arguments, format);
    const int n = libc::__vdprintf_chk(fd, flag, format, arguments);
    va_end(arguments);
    return n;
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, aio_read, struct aiocb* request) {
    if (request && hand_over(request->aio_fildes) != 0) return -1;
    return libc::aio_read(request);
}
WILKINS_OR(-1)
WILKINS_ALIAS(aio_read64, aio_read);

WILKINS_INTERPOSE(int, aio_write, struct aiocb* request) {
    if (request && hand_over(request->aio_fildes) != 0) return -1;
    return libc::aio_write(request);
}
WILKINS_OR(-1)
WILKINS_ALIAS(aio_write64, aio_write);

WILKINS_INTERPOSE(int, lio_listio, int mode, struct aiocb* const* requests, int count, struct sigevent* event) {
    for (int k = 0; k < count; ++k)
        if (requests[k] && hand_over(requests[k]->aio_fildes) != 0) return -1;
    return libc::lio_listio(mode, requests, count, event);
}
WILKINS_OR(-1)
WILKINS_ALIAS(lio_listio64, lio_listio);

WILKINS_INTERPOSE(int, munmap, void* address, size_t length) {
    const int result = libc::munmap(address, length);
    sets::note_closed();
    if (!is_ours(WILKINS_CALLER)) note_unmapped();
    return result;
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(void*, mmap, void* address, size_t length, int protection, int flags, int fd, off_t offset) {
    return map_any(address, length, protection, flags, fd, offset);
}
WILKINS_OR(MAP_FAILED)
WILKINS_ALIAS(mmap64, mmap);

WILKINS_INTERPOSE(off_t, lseek, int fd, off_t offset, int whence) {
    OpenStep* step = copied(fd);
    if (!step) return libc::lseek(fd, offset, whence);
    const off_t at = seek(step, fd, offset, whence);
    if (at >= 0) step->note_offset(at);
    return at;
}
WILKINS_OR(-1)
WILKINS_ALIAS(lseek64, lseek);

// The times of a step cannot be set. Of a file that the kernel holds, they say whether it was written.
WILKINS_INTERPOSE(int, futimens, int fd, const struct timespec* times) {
    const OpenStep* step = find(fd);
    return step && step->writable() && !step->is_ordinary() ? 0 : libc::futimens(fd, times);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, ftruncate, int fd, off_t size) {
    const libc::KeptErrno kept;
    return kept(resize_open(fd, size));
}
WILKINS_OR(-1)
WILKINS_ALIAS(ftruncate64, ftruncate);

WILKINS_INTERPOSE(int, fallocate, int fd, int mode, off_t offset, off_t count) {
    const libc::KeptErrno kept;
    OpenStep* step = resized(fd);
    if (!step) return kept(libc::fallocate(fd, mode, offset, count));
    const int error = mode == 0 ? lengthen(step, offset, count) : EOPNOTSUPP;
    if (!error) return kept(0);
    errno = error;
    return -1;
}
WILKINS_OR(-1)
WILKINS_ALIAS(fallocate64, fallocate);

WILKINS_INTERPOSE(int, posix_fallocate, int fd, off_t offset, off_t count) {
    OpenStep* step = resized(fd);
    return step ? lengthen(step, offset, count) : libc::posix_fallocate(fd, offset, count);
}
WILKINS_OR(errno)
WILKINS_ALIAS(posix_fallocate64, posix_fallocate);
