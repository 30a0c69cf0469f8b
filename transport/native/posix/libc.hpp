// The C library's own functions behind our wrappers of the same names.
#pragma once

// Names are interposed one by one, so no header may redirect one of them to another.
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE

#include <aio.h>
#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <ftw.h>
#include <glob.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <utime.h>

#include <cstdarg>

#include <atomic>
#include <cerrno>
#include <type_traits>
#include <utility>

#include "base/resolve.hpp"
#include "board/border.hpp"

static_assert(sizeof(off_t) == 8 && sizeof(struct stat) == sizeof(struct stat64), "a 64-bit system is assumed");

namespace wilkins::libc {

// A function found on first use. Constant-initialised, so it can be called before any constructor has run; a library
// constructor finds all of them, so that later calls are safe in signal handlers and after fork.
template <class Signature>
class Function {
public:
    explicit constexpr Function(const char* name) : name_(name) {}

    Signature* get() const {
        Signature* found = address_.load(std::memory_order_relaxed);
        if (found == nullptr) {
            found = reinterpret_cast<Signature*>(resolve_libc(name_));
            address_.store(found, std::memory_order_relaxed);
        }
        return found;
    }

    // A function this C library does not have fails with ENOSYS.
    template <class... Arguments>
    auto operator()(Arguments... arguments) const {
        using Result = decltype(std::declval<Signature*>()(arguments...));
        Signature* function = get();
        if (function) return function(arguments...);
        errno = ENOSYS;
        if constexpr (std::is_pointer_v<Result>) return Result{nullptr};
        else if constexpr (!std::is_void_v<Result>) return static_cast<Result>(-1);
    }

private:
    const char* name_;
    mutable std::atomic<Signature*> address_{nullptr};
};

#define WILKINS_LIBC_FUNCTIONS(X)                                                                                      \
    X(open, int(const char*, int, ...))                                                                                \
    X(openat, int(int, const char*, int, ...))                                                                         \
    X(fopen, FILE*(const char*, const char*))                                                                          \
    X(fdopen, FILE*(int, const char*))                                                                                 \
    X(freopen, FILE*(const char*, const char*, FILE*))                                                                 \
    X(fsync, int(int))                                                                                                 \
    X(fdatasync, int(int))                                                                                             \
    X(close, int(int))                                                                                                 \
    X(fclose, int(FILE*))                                                                                              \
    X(close_range, int(unsigned, unsigned, int))                                                                       \
    X(closefrom, int(int))                                                                                             \
    X(dup, int(int))                                                                                                   \
    X(dup2, int(int, int))                                                                                             \
    X(dup3, int(int, int, int))                                                                                        \
    X(fcntl, int(int, int, ...))                                                                                       \
    X(read, ssize_t(int, void*, size_t))                                                                               \
    X(pread, ssize_t(int, void*, size_t, off_t))                                                                       \
    X(readv, ssize_t(int, const struct iovec*, int))                                                                   \
    X(preadv, ssize_t(int, const struct iovec*, int, off_t))                                                           \
    X(preadv2, ssize_t(int, const struct iovec*, int, off_t, int))                                                     \
    X(write, ssize_t(int, const void*, size_t))                                                                        \
    X(pwrite, ssize_t(int, const void*, size_t, off_t))                                                                \
    X(writev, ssize_t(int, const struct iovec*, int))                                                                  \
    X(pwritev, ssize_t(int, const struct iovec*, int, off_t))                                                          \
    X(pwritev2, ssize_t(int, const struct iovec*, int, off_t, int))                                                    \
    X(sendfile, ssize_t(int, int, off_t*, size_t))                                                                     \
    X(copy_file_range, ssize_t(int, off_t*, int, off_t*, size_t, unsigned))                                            \
    X(mmap, void*(void*, size_t, int, int, int, off_t))                                                                \
    X(futimens, int(int, const struct timespec*))                                                                      \
    X(munmap, int(void*, size_t))                                                                                      \
    X(vdprintf, int(int, const char*, va_list))                                                                        \
    X(__vdprintf_chk, int(int, int, const char*, va_list))                                                             \
    X(splice, ssize_t(int, off_t*, int, off_t*, size_t, unsigned))                                                     \
    X(vmsplice, ssize_t(int, const struct iovec*, size_t, unsigned))                                                   \
    X(send, ssize_t(int, const void*, size_t, int))                                                                    \
    X(sendto, ssize_t(int, const void*, size_t, int, const struct sockaddr*, socklen_t))                               \
    X(sendmsg, ssize_t(int, const struct msghdr*, int))                                                                \
    X(sendmmsg, int(int, struct mmsghdr*, unsigned, int))                                                              \
    X(aio_read, int(struct aiocb*))                                                                                    \
    X(aio_write, int(struct aiocb*))                                                                                   \
    X(lio_listio, int(int, struct aiocb* const*, int, struct sigevent*))                                               \
    X(lseek, off_t(int, off_t, int))                                                                                   \
    X(ftruncate, int(int, off_t))                                                                                      \
    X(fallocate, int(int, int, off_t, off_t))                                                                          \
    X(posix_fallocate, int(int, off_t, off_t))                                                                         \
    X(truncate, int(const char*, off_t))                                                                               \
    X(stat, int(const char*, struct stat*))                                                                            \
    X(lstat, int(const char*, struct stat*))                                                                           \
    X(fstat, int(int, struct stat*))                                                                                   \
    X(statvfs, int(const char*, struct statvfs*))                                                                      \
    X(statfs, int(const char*, struct statfs*))                                                                        \
    X(fstatat, int(int, const char*, struct stat*, int))                                                               \
    X(__xstat, int(int, const char*, struct stat*))                                                                    \
    X(__lxstat, int(int, const char*, struct stat*))                                                                   \
    X(__fxstat, int(int, int, struct stat*))                                                                           \
    X(__fxstatat, int(int, int, const char*, struct stat*, int))                                                       \
    X(statx, int(int, const char*, int, unsigned, struct statx*))                                                      \
    X(access, int(const char*, int))                                                                                   \
    X(eaccess, int(const char*, int))                                                                                  \
    X(faccessat, int(int, const char*, int, int))                                                                      \
    X(rename, int(const char*, const char*))                                                                           \
    X(renameat, int(int, const char*, int, const char*))                                                               \
    X(renameat2, int(int, const char*, int, const char*, unsigned))                                                    \
    X(link, int(const char*, const char*))                                                                             \
    X(linkat, int(int, const char*, int, const char*, int))                                                            \
    X(symlink, int(const char*, const char*))                                                                          \
    X(symlinkat, int(const char*, int, const char*))                                                                   \
    X(realpath, char*(const char*, char*))                                                                             \
    X(unlink, int(const char*))                                                                                        \
    X(unlinkat, int(int, const char*, int))                                                                            \
    X(remove, int(const char*))                                                                                        \
    X(chmod, int(const char*, mode_t))                                                                                 \
    X(fchmodat, int(int, const char*, mode_t, int))                                                                    \
    X(fchmod, int(int, mode_t))                                                                                        \
    X(fchown, int(int, uid_t, gid_t))                                                                                  \
    X(chown, int(const char*, uid_t, gid_t))                                                                           \
    X(lchown, int(const char*, uid_t, gid_t))                                                                          \
    X(fchownat, int(int, const char*, uid_t, gid_t, int))                                                              \
    X(utime, int(const char*, const struct utimbuf*))                                                                  \
    X(utimes, int(const char*, const struct timeval*))                                                                 \
    X(utimensat, int(int, const char*, const struct timespec*, int))                                                   \
    X(getxattr, ssize_t(const char*, const char*, void*, size_t))                                                      \
    X(lgetxattr, ssize_t(const char*, const char*, void*, size_t))                                                     \
    X(listxattr, ssize_t(const char*, char*, size_t))                                                                  \
    X(llistxattr, ssize_t(const char*, char*, size_t))                                                                 \
    X(setxattr, int(const char*, const char*, const void*, size_t, int))                                               \
    X(lsetxattr, int(const char*, const char*, const void*, size_t, int))                                              \
    X(execve, int(const char*, char* const*, char* const*))                                                            \
    X(execv, int(const char*, char* const*))                                                                           \
    X(execvp, int(const char*, char* const*))                                                                          \
    X(execvpe, int(const char*, char* const*, char* const*))                                                           \
    X(fexecve, int(int, char* const*, char* const*))                                                                   \
    X(execveat, int(int, const char*, char* const*, char* const*, int))                                                \
    X(mkdir, int(const char*, mode_t))                                                                                 \
    X(mkdirat, int(int, const char*, mode_t))                                                                          \
    X(getcwd, char*(char*, size_t))                                                                                    \
    X(rmdir, int(const char*))                                                                                         \
    X(readlink, ssize_t(const char*, char*, size_t))                                                                   \
    X(readlinkat, ssize_t(int, const char*, char*, size_t))                                                            \
    X(chdir, int(const char*))                                                                                         \
    X(fchdir, int(int))                                                                                                \
    X(posix_spawn_file_actions_init, int(posix_spawn_file_actions_t*))                                                 \
    X(posix_spawn_file_actions_destroy, int(posix_spawn_file_actions_t*))                                              \
    X(posix_spawn_file_actions_addopen, int(posix_spawn_file_actions_t*, int, const char*, int, mode_t))               \
    X(posix_spawn_file_actions_addchdir_np, int(posix_spawn_file_actions_t*, const char*))                             \
    X(posix_spawn_file_actions_addfchdir_np, int(posix_spawn_file_actions_t*, int))                                    \
    X(posix_spawn, int(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*, char* const*, \
                       char* const*))                                                                                  \
    X(posix_spawnp, int(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*,              \
                        char* const*, char* const*))                                                                   \
    X(system, int(const char*))                                                                                        \
    X(popen, FILE*(const char*, const char*))                                                                          \
    X(vfork, pid_t())                                                                                                  \
    X(pclose, int(FILE*))                                                                                              \
    X(wait, pid_t(int*))                                                                                               \
    X(waitpid, pid_t(pid_t, int*, int))                                                                                \
    X(wait3, pid_t(int*, int, struct rusage*))                                                                         \
    X(wait4, pid_t(pid_t, int*, int, struct rusage*))                                                                  \
    X(waitid, int(idtype_t, id_t, siginfo_t*, int))                                                                    \
    X(pidfd_spawn,                                                                                                     \
      int(int*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*, char* const*, char* const*)) \
    X(pidfd_spawnp,                                                                                                    \
      int(int*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*, char* const*, char* const*)) \
    X(syscall, long(long, ...))                                                                                        \
    X(opendir, DIR*(const char*))                                                                                      \
    X(fdopendir, DIR*(int))                                                                                            \
    X(scandir, int(const char*, struct dirent***, int (*)(const struct dirent*),                                       \
                   int (*)(const struct dirent**, const struct dirent**)))                                             \
    X(scandirat, int(int, const char*, struct dirent***, int (*)(const struct dirent*),                                \
                     int (*)(const struct dirent**, const struct dirent**)))                                           \
    X(readdir, struct dirent*(DIR*))                                                                                   \
    X(readdir_r, int(DIR*, struct dirent*, struct dirent**))                                                           \
    X(rewinddir, void(DIR*))                                                                                           \
    X(telldir, long(DIR*))                                                                                             \
    X(seekdir, void(DIR*, long))                                                                                       \
    X(glob, int(const char*, int, int (*)(const char*, int), glob_t*))                                                 \
    X(ftw, int(const char*, int (*)(const char*, const struct stat*, int), int))                                       \
    X(nftw, int(const char*, int (*)(const char*, const struct stat*, int, struct FTW*), int, int))                    \
    X(closedir, int(DIR*))

// A call that goes well leaves errno as it was, whatever the layer has asked for it.
class KeptErrno {
public:
    template <class Result>
    Result operator()(Result result) const {
        bool well;
        if constexpr (std::is_pointer_v<Result>) well = result != nullptr;
        else well = result != static_cast<Result>(-1);
        if (well) errno = before_;
        return result;
    }

private:
    const int before_ = errno;
};

#define WILKINS_DECLARE(name, ...) inline const Function<__VA_ARGS__> name{#name};
WILKINS_LIBC_FUNCTIONS(WILKINS_DECLARE)
#undef WILKINS_DECLARE

}  // namespace wilkins::libc

// Defines the C function `name` under another C++ name, free of what the system's headers say of it. Its body is
// followed by what it answers where it cannot go on: WILKINS_OR(...).
#define WILKINS_INTERPOSE(result, name, ...)                                                                  \
    extern "C" __attribute__((visibility("default"))) result wilkins_libc_##name(__VA_ARGS__) __asm__(#name); \
    extern "C" result wilkins_libc_##name(__VA_ARGS__) try

// Another name of a function defined above it in the same file.
#define WILKINS_ALIAS(alias_name, name)       \
    extern "C"                                \
        __attribute__((visibility("default"), \
                       alias(#name))) decltype(wilkins_libc_##name) wilkins_libc_##alias_name __asm__(#alias_name)
