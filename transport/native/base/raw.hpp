// The few C-library calls the store makes on its own files, reached behind our own wrappers of the same names.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace wilkins::raw {

inline int open(const char* path, int flags, mode_t mode) {
    return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
inline int close(int fd) { return static_cast<int>(syscall(SYS_close, fd)); }
inline int duplicate(int fd) { return static_cast<int>(syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 3)); }
// `to` becomes a duplicate of `fd`, and is closed by exec.
inline int replace(int to, int fd) { return static_cast<int>(syscall(SYS_dup3, fd, to, O_CLOEXEC)); }
inline int rename(const char* from, const char* to) {
    return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
inline ssize_t read_link(const char* path, char* out, size_t room) {
    return syscall(SYS_readlinkat, AT_FDCWD, path, out, room);
}
inline int unlink(const char* path) { return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0)); }
// EEXIST: there is a file of the new name.
inline int rename_if_new(const char* from, const char* to) {
    return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 1 /* RENAME_NOREPLACE */));
}
inline int ftruncate(int fd, off_t size) { return static_cast<int>(syscall(SYS_ftruncate, fd, size)); }
inline ssize_t read(int fd, void* bytes, size_t count) { return syscall(SYS_read, fd, bytes, count); }
inline ssize_t pread(int fd, void* bytes, size_t count, off_t offset) {
    return syscall(SYS_pread64, fd, bytes, count, offset);
}
inline ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
    return syscall(SYS_pwrite64, fd, bytes, count, offset);
}
inline ssize_t write(int fd, const void* bytes, size_t count) { return syscall(SYS_write, fd, bytes, count); }
inline int fstat(int fd, struct stat* st) {
#ifdef SYS_fstat
    return static_cast<int>(syscall(SYS_fstat, fd, st));
#else
    return static_cast<int>(syscall(SYS_newfstat, fd, st));
#endif
}
// The file's size less the offset of the descriptor, of which an int takes the lower bits.
inline int bytes_ahead(int fd, int* out) { return static_cast<int>(syscall(SYS_ioctl, fd, FIONREAD, out)); }
inline int stat(const char* path, struct stat* st) {
    return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, st, 0));
}
inline int access(const char* path) { return static_cast<int>(syscall(SYS_faccessat, AT_FDCWD, path, F_OK)); }
// Bytes from here on are behind all that a file can hold: locks on them say something else than that somebody has it
// for himself.
inline constexpr off_t kLockPlaces = off_t{1} << 61;
// Takes (F_RDLCK, F_WRLCK) or gives back (F_UNLCK) the whole file, for this open file; sleeps until it is free.
inline int lock(int fd, short kind) {
    struct flock whole{};
    whole.l_type = kind;
    whole.l_whence = SEEK_SET;
    whole.l_len = kLockPlaces;
    return static_cast<int>(syscall(SYS_fcntl, fd, F_OFD_SETLKW, &whole));
}
// F_RDLCK: a lease on a file that this description reads; EAGAIN: somebody has it open for writing. F_UNLCK gives it
// back. To who has it the kernel sends a signal when somebody opens the file to write: one that by default means
// nothing, not SIGIO, which ends a program.
inline int lease(int fd, int kind) {
    if (kind != F_UNLCK) syscall(SYS_fcntl, fd, F_SETSIG, SIGURG);
    return static_cast<int>(syscall(SYS_fcntl, fd, F_SETLEASE, kind));
}
inline struct flock byte_of(off_t place) {
    struct flock byte{};
    byte.l_type = F_WRLCK;
    byte.l_whence = SEEK_SET;
    byte.l_start = place;
    byte.l_len = 1;
    return byte;
}
// Takes one byte for this open file, without waiting.
inline int lock_byte(int fd, off_t place) {
    const struct flock byte = byte_of(place);
    return static_cast<int>(syscall(SYS_fcntl, fd, F_OFD_SETLK, &byte));
}
// The same, and sleeps until it is free.
inline int await_byte(int fd, off_t place) {
    const struct flock byte = byte_of(place);
    return static_cast<int>(syscall(SYS_fcntl, fd, F_OFD_SETLKW, &byte));
}
inline void release_byte(int fd, off_t place) {
    struct flock byte = byte_of(place);
    byte.l_type = F_UNLCK;
    syscall(SYS_fcntl, fd, F_OFD_SETLK, &byte);
}
// Takes it of a file that it only reads; others may, too.
inline int share_byte(int fd, off_t place) {
    struct flock byte = byte_of(place);
    byte.l_type = F_RDLCK;
    return static_cast<int>(syscall(SYS_fcntl, fd, F_OFD_SETLK, &byte));
}
// True if the byte could be taken.
inline bool is_byte_free(int fd, off_t place) {
    struct flock byte = byte_of(place);
    return syscall(SYS_fcntl, fd, F_OFD_GETLK, &byte) == 0 && byte.l_type == F_UNLCK;
}

}  // namespace wilkins::raw
