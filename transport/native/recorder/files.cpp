// The C library's calls that open, write, close, look at and list files: each goes on to the real one, and leaves a
// line.
#include <dirent.h>
#include <sys/uio.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <type_traits>

#include "base/raw.hpp"
#include "base/resolve.hpp"
#include "posix/python_imports.hpp"
#include "recorder/log.hpp"

#define RECORDED extern "C" __attribute__((visibility("default")))
// The C library's function of this name and type.
#define REAL(name, type)                                                                          \
    (*[] {                                                                                        \
        static const auto found = reinterpret_cast<std::add_pointer_t<type>>(resolve_libc(name)); \
        return found;                                                                             \
    }())

namespace {

using namespace wilkins;
using recorder::log;

constexpr int kDescriptors = 1 << 16;
// Bytes that were written by each descriptor since it was opened; -1: nobody follows it.
std::atomic<long long> written[kDescriptors];
struct Unfollowed {
    Unfollowed() {
        for (auto& one : written) one.store(-1, std::memory_order_relaxed);
    }
} const unfollowed;

bool is_descriptor(int fd) { return fd >= 0 && fd < kDescriptors; }

// O_TRUNC if a call makes a file that is not there: such a one begins anew, too.
int begins_file(const char* name, int flags) {
    const int before = errno;
    const int begins = flags & O_CREAT && raw::access(name) != 0 ? O_TRUNC : 0;
    errno = before;
    return begins;
}

int opened(int fd, int flags, const char* name, int folder) {
    const bool writes = (flags & O_ACCMODE) != O_RDONLY;
    if (fd < 0) {
        if (errno == ENOENT) log("absent", -1, 0, name, folder);
        return fd;
    }
    if (flags & (O_DIRECTORY | O_PATH)) return fd;
    log(!writes ? "read" : flags & (O_TRUNC | O_EXCL) ? "create" : "update", fd, 0, name, folder);
    if (is_descriptor(fd)) written[fd] = 0;
    return fd;
}

void closed(int fd, long long more) {
    if (!is_descriptor(fd)) return;
    const long long bytes = written[fd].exchange(-1);
    if (bytes >= 0) log("close", fd, bytes + more, "/", AT_FDCWD);
}

ssize_t counted(int fd, ssize_t bytes) {
    if (bytes > 0 && is_descriptor(fd) && written[fd].load(std::memory_order_relaxed) >= 0) written[fd] += bytes;
    return bytes;
}

int looked(int result, const char* name, int folder) {
    if (name && *name) log(result == 0 ? "look" : "missing", -1, 0, name, folder);
    return result;
}

mode_t mode_of(int flags, va_list words) {
    return flags & (O_CREAT | __O_TMPFILE) ? static_cast<mode_t>(va_arg(words, int)) : 0;
}

int flags_of(const char* mode) {
    const bool both = mode[0] && (mode[1] == '+' || (mode[1] && mode[2] == '+'));
    if (*mode == 'r') return both ? O_RDWR : O_RDONLY;
    return (*mode == 'w' ? O_TRUNC : 0) | (both ? O_RDWR : O_WRONLY);
}

FILE* opened_stream(FILE* file, const char* mode, const char* name) {
    opened(file ? fileno(file) : -1, flags_of(mode), name, AT_FDCWD);
    return file;
}

}  // namespace

#define OPEN(function)                                                                                                 \
    RECORDED int function(const char* name, int flags, ...) {                                                          \
        va_list words;                                                                                                 \
        va_start(words, flags);                                                                                        \
        const mode_t mode = mode_of(flags, words);                                                                     \
        va_end(words);                                                                                                 \
        const int begins = begins_file(name, flags);                                                                   \
        return opened(REAL(#function, int(const char*, int, ...))(name, flags, mode), flags | begins, name, AT_FDCWD); \
    }
#define OPENAT(function)                                                                                        \
    RECORDED int function(int folder, const char* name, int flags, ...) {                                       \
        va_list words;                                                                                          \
        va_start(words, flags);                                                                                 \
        const mode_t mode = mode_of(flags, words);                                                              \
        va_end(words);                                                                                          \
        return opened(REAL(#function, int(int, const char*, int, ...))(folder, name, flags, mode), flags, name, \
                      folder);                                                                                  \
    }
#define CREAT(function)                                                                                           \
    RECORDED int function(const char* name, mode_t mode) {                                                        \
        return opened(REAL(#function, int(const char*, mode_t))(name, mode), O_WRONLY | O_TRUNC, name, AT_FDCWD); \
    }
#define FOPEN(function)                                                                                   \
    RECORDED FILE* function(const char* name, const char* mode) {                                         \
        return opened_stream(REAL(#function, FILE * (const char*, const char*))(name, mode), mode, name); \
    }
#define PWRITE(function, offset_type)                                                                                  \
    RECORDED ssize_t function(int fd, const void* bytes, size_t count, offset_type offset) {                           \
        return counted(fd, REAL(#function, ssize_t(int, const void*, size_t, offset_type))(fd, bytes, count, offset)); \
    }
#define PWRITEV(function, offset_type)                                                                            \
    RECORDED ssize_t function(int fd, const struct iovec* pieces, int count, offset_type offset) {                \
        return counted(                                                                                           \
            fd, REAL(#function, ssize_t(int, const struct iovec*, int, offset_type))(fd, pieces, count, offset)); \
    }
#define FTRUNCATE(function, size_type)                                     \
    RECORDED int function(int fd, size_type size) {                        \
        const int result = REAL(#function, int(int, size_type))(fd, size); \
        if (result == 0 && size == 0) log("empty", fd, 0, "/", AT_FDCWD);  \
        return result;                                                     \
    }
#define STAT(function, buffer)                                                                       \
    RECORDED int function(const char* name, struct buffer* out) {                                    \
        return looked(REAL(#function, int(const char*, struct buffer*))(name, out), name, AT_FDCWD); \
    }
#define XSTAT(function, buffer)                                                                                    \
    RECORDED int function(int version, const char* name, struct buffer* out) {                                     \
        return looked(REAL(#function, int(int, const char*, struct buffer*))(version, name, out), name, AT_FDCWD); \
    }
#define FSTATAT(function, buffer)                                                                                  \
    RECORDED int function(int folder, const char* name, struct buffer* out, int flags) {                           \
        return looked(REAL(#function, int(int, const char*, struct buffer*, int))(folder, name, out, flags), name, \
                      folder);                                                                                     \
    }
#define UNCHECKED(function)                                                                        \
    RECORDED int function(const char* name, int flags) {                                           \
        return opened(REAL(#function, int(const char*, int))(name, flags), flags, name, AT_FDCWD); \
    }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
UNCHECKED(__open_2)
UNCHECKED(__open64_2)
CREAT(creat)
CREAT(creat64)
FOPEN(fopen)
FOPEN(fopen64)
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)
PWRITEV(pwritev, off_t)
PWRITEV(pwritev64, off64_t)
FTRUNCATE(ftruncate, off_t)
FTRUNCATE(ftruncate64, off64_t)
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)
XSTAT(__xstat, stat)
XSTAT(__xstat64, stat64)
XSTAT(__lxstat, stat)
XSTAT(__lxstat64, stat64)
FSTATAT(fstatat, stat)
FSTATAT(fstatat64, stat64)

RECORDED int statx(int folder, const char* name, int flags, unsigned mask, struct statx* out) {
    return looked(REAL("statx", int(int, const char*, int, unsigned, struct statx*))(folder, name, flags, mask, out),
                  name, folder);
}

RECORDED int access(const char* name, int mode) {
    return looked(REAL("access", int(const char*, int))(name, mode), name, AT_FDCWD);
}

RECORDED int faccessat(int folder, const char* name, int mode, int flags) {
    return looked(REAL("faccessat", int(int, const char*, int, int))(folder, name, mode, flags), name, folder);
}

RECORDED ssize_t write(int fd, const void* bytes, size_t count) {
    return counted(fd, REAL("write", ssize_t(int, const void*, size_t))(fd, bytes, count));
}

RECORDED ssize_t writev(int fd, const struct iovec* pieces, int count) {
    return counted(fd, REAL("writev", ssize_t(int, const struct iovec*, int))(fd, pieces, count));
}

RECORDED int close(int fd) {
    closed(fd, 0);
    return REAL("close", int(int))(fd);
}

// What the C library writes for a stream it does by itself: one that could be written counts as written.
RECORDED int fclose(FILE* file) {
    const int fd = fileno(file);
    const int flags = static_cast<int>(syscall(SYS_fcntl, fd, F_GETFL));
    closed(fd, flags >= 0 && (flags & O_ACCMODE) != O_RDONLY);
    return REAL("fclose", int(FILE*))(file);
}

RECORDED DIR* opendir(const char* name) {
    const void* const caller = WILKINS_CALLER;
    DIR* const folder = REAL("opendir", DIR * (const char*))(name);
    if (folder && is_made_by_program(caller) && !is_import(caller)) log("list", -1, 0, name, AT_FDCWD);
    return folder;
}

RECORDED int rename(const char* from, const char* to) {
    const int result = REAL("rename", int(const char*, const char*))(from, to);
    if (result == 0) {
        log("move", -1, 0, from, AT_FDCWD);
        log("moved", -1, 0, to, AT_FDCWD);
    }
    return result;
}
