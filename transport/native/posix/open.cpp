// open, fopen, close, dup and kin: descriptors and streams that lead to steps.
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/raw.hpp"
#include "board/process.hpp"
#include "board/views.hpp"
#include "posix/caller.hpp"
#include "posix/files.hpp"
#include "posix/in_set.hpp"
#include "posix/links.hpp"
#include "posix/moved.hpp"
#include "posix/watches.hpp"
#include "steps/disk.hpp"

namespace wilkins::posix {
namespace {

bool has_mode(int flags) { return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE; }

Purpose purpose_of(int flags) {
    if ((flags & (O_ACCMODE | O_CREAT | O_TRUNC)) == O_RDONLY) return Purpose::read;
    return (flags & O_CREAT) && (flags & (O_TRUNC | O_EXCL)) ? Purpose::create : Purpose::update;
}

// The flags of open() that a stream's mode stands for.
int stream_flags(const char* mode) {
    int flags = O_RDONLY;
    if (mode[0] == 'w') flags = O_WRONLY | O_CREAT | O_TRUNC;
    if (mode[0] == 'a') flags = O_WRONLY | O_CREAT | O_APPEND;
    for (const char* at = mode; *at && *at != ','; ++at) {
        if (*at == '+') flags = (flags & ~O_ACCMODE) | O_RDWR;
        if (*at == 'x') flags |= O_EXCL;
        if (*at == 'e') flags |= O_CLOEXEC;
    }
    return flags;
}

// The stream leads to the step from now on, with a descriptor of its own.
FILE* reopen_stream(const Match& match, const char* mode, FILE* stream) {
    const libc::KeptErrno kept;
    const int fd = open_match(match, stream_flags(mode) | O_CLOEXEC, Opener::stream);
    int error = errno;
    char path[32] = "";  // of no file: the C library closes the stream, and fails
    if (fd >= 0) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    std::string how = mode;
    how.erase(std::remove(how.begin(), how.end(), 'x'), how.end());  // the file is there by now
    FILE* const reopened = libc::freopen(path, how.c_str(), stream);
    if (fd >= 0) {
        error = errno;
        if (reopened) views::keep_too(fileno(reopened));
        if (reopened) adopt_duplicate(fd, fileno(reopened));
        forget(fd);
        libc::close(fd);
    }
    if (!reopened) errno = error;
    return kept(reopened);
}

// What close() returns, given that of the real one and what publishing said.
int closed(int result, int error) {
    if (result != 0 || error == 0) return result;
    errno = error;
    return -1;
}

int stream_descriptor(FILE* stream) {
    const int saved = errno;
    const int fd = fileno(stream);
    errno = saved;
    return find(fd) ? fd : -1;
}

int descriptor_of(int fd) { return fd; }
int descriptor_of(FILE* stream) { return stream ? fileno(stream) : -1; }

// Opens what is no port's name. A step that is opened once more by the path of its descriptor is the kernel's from then
// on; that descriptor may be one that this process was given.
template <class Open>
auto open_other(const char* path, Open open) {
    const bool named = path && path[0] == '/' && names_descriptor(path);
    const int fd = named && has_entries() ? named_descriptor(path) : -1;
    OpenStep* const step = find(fd);
    if (step) {
        step->hand_to_child(fd);
        step->settle();
    }
    const auto opened = open(step ? fd : -1);
    if (named) views::keep_too(descriptor_of(opened));
    return opened;
}

// A number that the kernel gives anew was closed past our calls.
void begin_anew(int fd) {
    if (find(fd)) forget(fd);
}

// A program that gives a lock on all of a step back keeps what the layer has locked behind it, in the same name (see
// board/views.hpp).
int lock_range(int fd, int command, const struct flock* range) {
    const Process& p = process();
    if (!range || range->l_type != F_UNLCK || range->l_len != 0 || !p.context.active || p.arenas->slot_of(fd) < 0)
        return libc::fcntl(fd, command, range);
    struct flock some = *range;
    struct stat st = {};
    if (some.l_whence == SEEK_CUR) some.l_start += libc::lseek(fd, 0, SEEK_CUR);
    else if (some.l_whence == SEEK_END && libc::fstat(fd, &st) == 0) some.l_start += st.st_size;
    some.l_whence = SEEK_SET;
    some.l_len = raw::kLockPlaces - some.l_start;
    return libc::fcntl(fd, command, &some);
}

// What is no port's was opened.
void note_opened(bool there, const char* path, int flags) {
    if (there && (flags & O_ACCMODE) != O_RDONLY) note_written(path);
}

// A step that nobody has written is a file that a mere reader makes, by flags of open() that do so.
bool makes_instead(const Match& match, int flags) { return errno == ENOENT && (flags & O_CREAT) && match.outport < 0; }

// What the call makes on the disk is the task's own. Returns what the call returned.
template <class Open>
auto make_own(const Match& match, Open open) {
    note_made(match.name);
    const auto opened = open();
    const int saved = errno;
    if (descriptor_of(opened) < 0) forget_made(match.name);
    else begin_anew(descriptor_of(opened));
    note_opened(descriptor_of(opened) >= 0, match.name, O_WRONLY);
    errno = saved;
    return opened;
}

FILE* open_stream(const Match& match, const char* mode) {
    const libc::KeptErrno kept;
    const int fd = open_match(match, stream_flags(mode), Opener::stream);
    if (fd < 0 && makes_instead(match, stream_flags(mode)))
        return kept(make_own(match, [&] { return libc::fopen(match.name, mode); }));
    if (fd < 0) return nullptr;
    FILE* stream = libc::fdopen(fd, mode);
    if (stream) return kept(stream);
    const int error = errno;
    forget(fd);
    libc::close(fd);
    errno = error;
    return nullptr;
}

// Opening goes through symbolic links that are there; one that creates does so where they lead to.
Linked opened(int dirfd, const char* path, int flags, const void* caller) {
    return {dirfd, path, !(flags & (O_CREAT | O_NOFOLLOW)), purpose_of(flags), caller};
}

}  // namespace

bool names_descriptor(const char* path) {
    return strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/dev/std", 8) == 0 ||
           (strncmp(path, "/proc/", 6) == 0 && strstr(path, "/fd/"));
}

int named_descriptor(const char* path) {
    static const char* const standard[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
    for (int fd = 0; fd < 3; ++fd)
        if (strcmp(path, standard[fd]) == 0) return fd;
    const char* number = nullptr;
    if (strncmp(path, "/dev/fd/", 8) == 0) number = path + 8;
    else if (strncmp(path, "/proc/", 6) == 0 && (number = strstr(path, "/fd/"))) number += 4;
    if (!number || *number < '0' || *number > '9') return -1;
    if (path[1] == 'p' && strncmp(path + 6, "self/", 5) != 0 && strncmp(path + 6, "thread-self/", 12) != 0 &&
        atoi(path + 6) != getpid())
        return -1;
    return atoi(number);
}

int step_descriptor(const char* path) {
    const int fd = has_entries() && path && path[0] == '/' ? named_descriptor(path) : -1;
    return find(fd) ? fd : -1;
}

namespace {

// `real` opens a name that is no port's; `links`: the flags that say whether a link to a step is followed.
template <class Real>
int open_by(int dirfd, const char* path, int flags, mode_t mode, int links, const void* caller, Real real) {
    const InSet in_set(dirfd, path, use_of(flags), caller);
    if (in_set.failed()) return -1;
    Match match;
    const NameAt whole(dirfd, path, caller);
    const libc::KeptErrno kept;
    const auto open_step = [=](const Match& step) {
        const disk::Permission permission(mode);
        const int fd = open_match(step, flags, is_interpreter(caller) ? Opener::interpreter : Opener::program);
        if (fd >= 0 || !makes_instead(step, flags)) return kept(fd);
        return kept(make_own(step, [&] { return libc::openat(AT_FDCWD, step.name, flags, mode); }));
    };
    if (matches(whole, &match, caller, purpose_of(flags))) return open_step(match);
    const auto open_file = [&] {
        return open_other(path, [&](int same) {
            const int fd = real(path);
            if (fd < 0 && match.made) forget_made(whole);
            begin_anew(fd);
            adopt_duplicate(same, fd);
            note_opened(fd >= 0, path, flags);
            moved::note_opened(fd, flags);
            return fd;
        });
    };
    return follow_links(opened(dirfd, path, links, caller), open_file, [&](const Match& step) {
        const int fd = open_step(step);
        if (fd >= 0 && Hdf5Opens::now()) find(fd)->settle();
        return fd;
    });
}

bool has_parent(const char* path) {
    for (const char* at = strstr(path, ".."); at; at = strstr(at + 1, ".."))
        if ((at == path || at[-1] == '/') && (at[2] == '/' || at[2] == '\0')) return true;
    return false;
}

}  // namespace

int open_name(int dirfd, const char* path, int flags, mode_t mode, const void* caller) {
    return open_by(dirfd, path, flags, mode, flags, caller,
                   [=](const char* name) { return libc::openat(dirfd, name, flags, mode); });
}

int open_restricted(int dirfd, const char* path, const OpenHow* how, size_t size, const void* caller) {
    const auto real = [=](const char* name) {
        return static_cast<int>(libc::syscall(kOpenat2, dirfd, name, how, size, 0L, 0L));
    };
    if (!path || !how || size != sizeof *how) return real(path);
    const int flags = static_cast<int>(how->flags);
    const auto mode = static_cast<mode_t>(how->mode);
    if (!how->resolve) return open_by(dirfd, path, flags, mode, flags, caller, real);
    // Where the name may lead is restricted: the kernel judges one that leaves its folder, and no link is followed to a
    // step.
    if (path[0] == '/' || has_parent(path)) return real(path);
    return open_by(dirfd, path, flags, mode, flags | O_NOFOLLOW, caller, [=](const char* name) {
        return name == path ? real(path)
                            : libc::openat(dirfd, name, flags, mode);  // a folder of the layer's own has no such limits
    });
}

}  // namespace wilkins::posix

using namespace wilkins;
using namespace wilkins::posix;

WILKINS_INTERPOSE(int, open, const char* path, int flags, ...) {
    mode_t mode = 0;
    if (has_mode(flags)) {
        va_list arguments;
        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        va_end(arguments);
    }
    return open_name(AT_FDCWD, path, flags, mode, WILKINS_CALLER);
}
WILKINS_OR(-1)
WILKINS_ALIAS(open64, open);

WILKINS_INTERPOSE(int, openat, int dirfd, const char* path, int flags, ...) {
    mode_t mode = 0;
    if (has_mode(flags)) {
        va_list arguments;
        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        va_end(arguments);
    }
    return open_name(dirfd, path, flags, mode, WILKINS_CALLER);
}
WILKINS_OR(-1)
WILKINS_ALIAS(openat64, openat);

WILKINS_INTERPOSE(int, openat2, int dirfd, const char* path, const OpenHow* how, size_t size) {
    return open_restricted(dirfd, path, how, size, WILKINS_CALLER);
}
WILKINS_OR(-1)

// What programs compiled with _FORTIFY_SOURCE call where no mode is given.
WILKINS_INTERPOSE(int, __open_2, const char* path, int flags) {
    return open_name(AT_FDCWD, path, flags, 0, WILKINS_CALLER);
}
WILKINS_OR(-1)
WILKINS_ALIAS(__open64_2, __open_2);

WILKINS_INTERPOSE(int, __openat_2, int dirfd, const char* path, int flags) {
    return open_name(dirfd, path, flags, 0, WILKINS_CALLER);
}
WILKINS_OR(-1)
WILKINS_ALIAS(__openat64_2, __openat_2);

WILKINS_INTERPOSE(int, creat, const char* path, mode_t mode) {
    return open_name(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode, WILKINS_CALLER);
}
WILKINS_OR(-1)
WILKINS_ALIAS(creat64, creat);

WILKINS_INTERPOSE(FILE*, fopen, const char* path, const char* mode) {
    const InSet in_set(path, use_of(stream_flags(mode)), WILKINS_CALLER);
    if (in_set.failed()) return nullptr;
    Match match;
    if (matches(path, &match, WILKINS_CALLER, purpose_of(stream_flags(mode)))) return open_stream(match, mode);
    const auto open_file = [&] {
        return open_other(path, [&](int same) {
            FILE* const stream = libc::fopen(path, mode);
            if (!stream && match.made) forget_made(path);
            if (stream) begin_anew(fileno(stream));
            if (same >= 0 && stream) adopt_duplicate(same, fileno(stream));
            note_opened(stream != nullptr, path, stream_flags(mode));
            return stream;
        });
    };
    return follow_links(opened(AT_FDCWD, path, stream_flags(mode), WILKINS_CALLER), open_file,
                        [&](const Match& step) { return open_stream(step, mode); });
}
WILKINS_OR(nullptr)
WILKINS_ALIAS(fopen64, fopen);

WILKINS_INTERPOSE(FILE*, fdopen, int fd, const char* mode) {
    if (OpenStep* step = find(fd)) {
        if (step->hand_to_stream(fd) != 0) return nullptr;
        step->settle();
    }
    return libc::fdopen(fd, mode);
}
WILKINS_OR(nullptr)

WILKINS_INTERPOSE(FILE*, freopen, const char* path, const char* mode, FILE* stream) {
    const InSet in_set(path, use_of(stream_flags(mode)), WILKINS_CALLER);
    if (in_set.failed()) return nullptr;
    const int fd = stream_descriptor(stream);
    if (fd >= 0) {
        fflush(stream);
        forget(fd);
    }
    Match match;
    if (path && matches(path, &match, WILKINS_CALLER, purpose_of(stream_flags(mode))))
        return reopen_stream(match, mode, stream);
    FILE* const reopened = libc::freopen(path, mode, stream);
    if (path) note_opened(reopened != nullptr, path, stream_flags(mode));
    return reopened;
}
WILKINS_OR(nullptr)
WILKINS_ALIAS(freopen64, freopen);

WILKINS_INTERPOSE(int, fsync, int fd) {
    OpenStep* step = find(fd);
    const int error = step ? step->sync(fd) : 0;
    return closed(libc::fsync(fd), error);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, fdatasync, int fd) {
    OpenStep* step = find(fd);
    const int error = step ? step->sync(fd) : 0;
    return closed(libc::fdatasync(fd), error);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, close, int fd) {
    const int error = find(fd) ? forget(fd) : moved::publish(fd, WILKINS_CALLER);
    if (watches::any()) watches::forget(fd);
    const int result = libc::close(fd);
    sets::note_closed();
    return closed(result, error);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, fclose, FILE* stream) {
    const int fd = stream_descriptor(stream);
    if (fd < 0) {
        const int result = libc::fclose(stream);
        sets::note_closed();
        return result;
    }
    const int flushed = fflush(stream);
    const int flush_error = errno;
    const int error = forget(fd);
    const int result = libc::fclose(stream);
    return closed(result, flushed != 0 ? flush_error : error) == 0 ? 0 : EOF;
}
WILKINS_OR(EOF)

WILKINS_INTERPOSE(int, close_range, unsigned first, unsigned last, int flags) {
    if (!(flags & 4)) forget_range(first, last);  // CLOSE_RANGE_CLOEXEC closes nothing yet
    const int result = libc::close_range(first, last, flags);
    sets::note_closed();
    return result;
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(void, closefrom, int first) {
    forget_range(first < 0 ? 0 : static_cast<unsigned>(first), ~0u);
    libc::closefrom(first);
    sets::note_closed();
}
WILKINS_OR()

WILKINS_INTERPOSE(int, dup, int fd) {
    const int copy = libc::dup(fd);
    adopt_duplicate(fd, copy);
    return copy;
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, dup2, int fd, int copy) {
    if (fd != copy && find(copy) && libc::fcntl(fd, F_GETFD) >= 0) forget(copy);
    const int result = libc::dup2(fd, copy);
    if (fd != copy) adopt_duplicate(fd, result);
    return result;
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, dup3, int fd, int copy, int flags) {
    if (fd != copy && find(copy) && libc::fcntl(fd, F_GETFD) >= 0) forget(copy);
    const int result = libc::dup3(fd, copy, flags);
    adopt_duplicate(fd, result);
    return result;
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, fcntl, int fd, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void* argument = va_arg(arguments, void*);  // as the C library itself passes it on
    va_end(arguments);
    if (command == F_OFD_SETLK || command == F_OFD_SETLKW)
        return lock_range(fd, command, static_cast<const struct flock*>(argument));
    OpenStep* const step = command == F_SETFL || command == F_GETFL ? find(fd) : nullptr;
    if (step && command == F_SETFL) step->hand_to_child(fd);
    const int result = libc::fcntl(fd, command, argument);
    if (step && command == F_GETFL && result >= 0 && step->append()) return result | O_APPEND;
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) adopt_duplicate(fd, result);
    return result;
}
WILKINS_OR(-1)
WILKINS_ALIAS(fcntl64, fcntl);
