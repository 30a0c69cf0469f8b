// Names of the C library's calls that lead to steps: matching, stat, access, unlink, truncate.
#include "posix/names.hpp"

#include <sys/sysmacros.h>
#include <unistd.h>

#include <climits>
#include <cstring>

#include "base/resolve.hpp"
#include "board/context.hpp"
#include "names/first_opens.hpp"
#include "posix/files.hpp"
#include "posix/in_set.hpp"
#include "posix/links.hpp"
#include "steps/disk.hpp"
#include "steps/joined.hpp"
#include "steps/open_files.hpp"
#include "steps/step_file.hpp"

namespace wilkins::posix {
namespace {

// Set while this thread asks for a match: joining the run may make calls that come back here.
__attribute__((tls_model("initial-exec"))) thread_local bool matching = false;

// The device that steps appear on: none that Linux hands out.
const dev_t kDevice = makedev(0xfff, 0x5753);

int access_match(const Match& match, int mode) {
    struct stat st;
    if (look_at(match, &st) != 0) return -1;
    return succeed_or(mode & X_OK ? EACCES : 0);
}

// unlink of a matching name: the step, and a file on disk that an earlier run may have left.
// True if this producer is writing a file of this name now.
bool is_being_written(const Match& match) {
    struct stat st;
    Look look;
    return describe_open(match, true, &st) || joined::look(match, &look);
}

int unlink_match(const Match& match, int dirfd, const char* path) {
    const bool has_no_name_yet = on_disk(match) && is_being_written(match);
    const int error = remove_step(match);
    const int saved = errno;
    if (error == EINTR || !may_remove_file(match)) return succeed_or(error);
    if (libc::unlinkat(dirfd, path, 0) == 0) return 0;
    if (on_disk(match) && !(has_no_name_yet && errno == ENOENT)) return -1;
    errno = saved;
    return succeed_or(error);
}

// Its rights are those of the file on the disk, if it has one.
bool describe_written(const Match& match, struct stat* st) {
    Look written;
    if (!describe_open(match, true, st)) {
        // HDF5's own driver, MPI-IO or another process may be writing it.
        if (!joined::look(match, &written)) return false;
        describe(written.size, written.identity, written.published_ns, st);
    }
    const int before = errno;
    char hidden[PATH_MAX];
    struct stat there;
    if (on_disk(match) && libc::stat(name_on_disk(match, hidden, sizeof(hidden)) ? hidden : match.name, &there) == 0) {
        st->st_mode = there.st_mode;
        st->st_uid = there.st_uid;
        st->st_gid = there.st_gid;
    }
    errno = before;
    return true;
}

// The result of removing a name of the disk.
int removed(int result, const char* name, const void* caller) {
    if (result == 0 && in_run(caller)) forget_made(name);
    return result;
}

int truncate_match(const Match& match, off_t size) {
    const libc::KeptErrno kept;
    if (size == 0 && match.outport >= 0 && !is_being_written(match)) {
        const int error = begin_again(match);
        if (error != EAGAIN) return kept(succeed_or(error));
    }
    const int fd = open_match(match, O_WRONLY, Opener::program);
    if (fd < 0) return -1;
    const int result = resize_open(fd, size);
    const int error = result == 0 ? forget(fd) : errno;
    if (result != 0) forget(fd);
    libc::close(fd);
    return kept(succeed_or(error));
}

// True if the layer answers a look at this name.
bool is_looked_at(const char* path, Match* match, const void* caller) {
    return matches(path, match, caller, Purpose::look) && (!on_disk(*match) || is_being_written(*match));
}

template <class Call>
int look_on_disk(const Linked& name, Call call) {
    const bool whole = name.dirfd == AT_FDCWD || (name.path && name.path[0] == '/');
    return posix::look_on_disk(whole ? name.path : nullptr, name.caller, call);
}

int fstat_any(int fd, struct stat* st) {
    OpenStep* const step = find(fd);
    const bool is_step = step && !step->is_ordinary();
    const bool native = is_step && step->native(fd);  // the descriptor may lead elsewhere from then on
    const int result = libc::fstat(fd, st);
    if (is_step && result == 0) {
        const off_t size = st->st_size;
        step->describe(st);
        if (native) st->st_size = size;
    }
    return result;
}

// stat, and access, of a name: of a step, or else by the program's own `call`.
template <class Call>
int stat_name(const Linked& name, struct stat* st, Call call) {
    Match match;
    const int open = name.follows ? step_descriptor(name.path) : -1;
    if (open >= 0) return fstat_any(open, st);
    if (is_looked_at(NameAt(name.dirfd, name.path, name.caller), &match, name.caller)) return look_at(match, st);
    return follow_links(
        name, [&] { return look_on_disk(name, call); }, [=](const Match& step) { return look_at(step, st); });
}

template <class Call>
int access_name(const Linked& name, int mode, Call call) {
    Match match;
    if (is_looked_at(NameAt(name.dirfd, name.path, name.caller), &match, name.caller)) return access_match(match, mode);
    return follow_links(
        name, [&] { return look_on_disk(name, call); }, [=](const Match& step) { return access_match(step, mode); });
}

Linked looked_at(int dirfd, const char* path, bool follows, const void* caller) {
    return {dirfd, path, follows, Purpose::look, caller};
}

// A directory stays one, whatever a port says of its name. It hides no steps that the task reads.
bool is_directory(const char* name, const Match& match, bool reads) {
    uint64_t size, identity;
    int64_t published;
    if (match.outport < 0 && (reads || lookup_step(match, &size, &identity, &published))) return false;
    return disk::is_directory(name);
}

}  // namespace

bool in_run(const void* caller) {
    if (matching || is_ours(caller)) return false;
    matching = true;
    const bool active = context().active;
    matching = false;
    return active;
}

bool matches(const char* name, Match* match, const void* caller, Purpose purpose) {
    if (name == nullptr || !in_run(caller) || !match_name(name, match, purpose)) return false;
    const bool reads = purpose == Purpose::read;
    // Where HDF5's own calls are seen, it is those that open the file.
    if ((match->outport < 0 || reads) && answered_by_disk(*match, reads && !has_shared_hdf5())) return false;
    return !is_directory(name, *match, reads);
}

NameAt::NameAt(int dirfd, const char* path, const void* caller, bool may_be_folder) : name_(path) {
    if (dirfd == AT_FDCWD || !path || !path[0] || path[0] == '/' || !in_run(caller)) return;
    if (!could_match(path) && !(may_be_folder && could_hold_steps(path))) return;
    const int saved = errno;
    char link[32];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd);
    const ssize_t length = readlink(link, whole_, PATH_MAX);
    errno = saved;
    if (length <= 0 || length >= PATH_MAX || whole_[0] != '/' || strlen(path) >= kNameMax - 1) return;
    whole_[length] = '/';
    strcpy(whole_ + length + 1, path);
    name_ = whole_;
}

void describe(uint64_t size, uint64_t identity, int64_t modified_ns, struct stat* st) {
    *st = {};
    st->st_dev = kDevice;
    st->st_ino = identity;
    st->st_mode = S_IFREG | 0600;
    st->st_nlink = 1;
    st->st_uid = geteuid();
    st->st_gid = getegid();
    st->st_size = static_cast<off_t>(size);
    st->st_blksize = 4096;
    st->st_blocks = static_cast<blkcnt_t>((size + 511) / 512);
    st->st_mtim = {modified_ns / 1000000000, modified_ns % 1000000000};
    st->st_ctim = st->st_atim = st->st_mtim;
}

void describe(const struct stat& st, struct statx* stx) {
    *stx = {};
    stx->stx_mask = STATX_BASIC_STATS;
    stx->stx_blksize = static_cast<uint32_t>(st.st_blksize);
    stx->stx_nlink = static_cast<uint32_t>(st.st_nlink);
    stx->stx_uid = st.st_uid;
    stx->stx_gid = st.st_gid;
    stx->stx_mode = static_cast<uint16_t>(st.st_mode);
    stx->stx_ino = st.st_ino;
    stx->stx_size = static_cast<uint64_t>(st.st_size);
    stx->stx_blocks = static_cast<uint64_t>(st.st_blocks);
    stx->stx_mtime.tv_sec = st.st_mtim.tv_sec;
    stx->stx_mtime.tv_nsec = static_cast<uint32_t>(st.st_mtim.tv_nsec);
    stx->stx_atime = stx->stx_ctime = stx->stx_mtime;
    stx->stx_dev_major = major(st.st_dev);
    stx->stx_dev_minor = minor(st.st_dev);
}

int stat_match(const Match& match, struct stat* st) {
    if (describe_written(match, st)) return 0;
    if (StepFile* far = match.outport >= 0 ? find_open(match, true) : nullptr) {
        describe(far->eof(), far->identity(), wall_clock_ns(), st);
        close_step(far);
        return 0;
    }
    if (on_disk(match)) return libc::stat(match.name, st);
    uint64_t size = 0, identity = 0;
    int64_t published = 0;
    if (lookup_step(match, &size, &identity, &published)) {
        describe(size, identity, published, st);
        return 0;
    }
    // HDF5 asks for the name of a file just after it has opened it.
    if (describe_open(match, false, st)) return 0;
    Look look;
    if (!find_elsewhere(match, &look)) return succeed_or(ENOENT);
    describe(look.size, look.identity, look.published_ns, st);
    return 0;
}

bool comes_later(const char* path, const void* caller) {
    return path && errno == ENOENT && in_run(caller) && await_folder(path);
}

int look_at(const Match& match, struct stat* st) {
    if (match.inport < 0 || match.outport >= 0) return stat_match(match, st);
    // HDF5 asks for the name of a file just after it has opened it.
    if (describe_open(match, false, st)) return 0;
    Look look;
    const int error = await_look(match, &look);
    if (!error) describe(look.size, look.identity, look.published_ns, st);
    return succeed_or(error);
}

int stat_for_program(const char* path, struct stat* st, bool follow) {
    const InSet in_set(path, sets::Use::look, nullptr);
    if (in_set.failed()) return -1;
    return stat_name(looked_at(AT_FDCWD, path, follow, nullptr), st,
                     [=] { return follow ? libc::stat(path, st) : libc::lstat(path, st); });
}

int stat_at(int dirfd, const char* path, struct stat* st, int flags, const void* caller) {
    const InSet in_set(dirfd, path, sets::Use::look, caller);
    if (in_set.failed()) return -1;
    if (path && !path[0] && (flags & AT_EMPTY_PATH) && find(dirfd)) return fstat_any(dirfd, st);
    return stat_name(looked_at(dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW), caller), st,
                     [=] { return libc::fstatat(dirfd, path, st, flags); });
}

int statx_at(int dirfd, const char* path, int flags, unsigned mask, struct statx* stx, const void* caller) {
    const InSet in_set(dirfd, path, sets::Use::look, caller);
    if (in_set.failed()) return -1;
    struct stat st;
    int by_kernel = -1;
    const bool is_step = (!path || !path[0]) && (flags & AT_EMPTY_PATH) && find(dirfd);
    const int result = is_step ? fstat_any(dirfd, &st)
                               : stat_name(looked_at(dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW), caller), &st,
                                           [&] { return by_kernel = libc::statx(dirfd, path, flags, mask, stx); });
    if (result == 0 && by_kernel != 0) describe(st, stx);
    return result;
}

int access_at(int dirfd, const char* path, int mode, int flags, const void* caller) {
    const InSet in_set(dirfd, path, sets::Use::look, caller);
    if (in_set.failed()) return -1;
    return access_name(looked_at(dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW), caller), mode,
                       [=] { return libc::faccessat(dirfd, path, mode, flags); });
}

int unlink_at(int dirfd, const char* path, int flags, const void* caller) {
    const InSet in_set(dirfd, path, sets::Use::remove, caller);
    if (in_set.failed()) return -1;
    Match match;
    const NameAt whole(dirfd, path, caller);
    if (!(flags & AT_REMOVEDIR) && matches(whole, &match, caller)) return unlink_match(match, dirfd, path);
    return removed(libc::unlinkat(dirfd, path, flags), whole, caller);
}

}  // namespace wilkins::posix

using namespace wilkins;
using namespace wilkins::posix;

WILKINS_INTERPOSE(int, stat, const char* path, struct stat* st) {
    WILKINS_IN_SET(-1, look, path);
    return stat_name(looked_at(AT_FDCWD, path, true, WILKINS_CALLER), st, [=] { return libc::stat(path, st); });
}
WILKINS_OR(-1)
WILKINS_ALIAS(stat64, stat);

WILKINS_INTERPOSE(int, lstat, const char* path, struct stat* st) {
    WILKINS_IN_SET(-1, look, path);
    return stat_name(looked_at(AT_FDCWD, path, false, WILKINS_CALLER), st, [=] { return libc::lstat(path, st); });
}
WILKINS_OR(-1)
WILKINS_ALIAS(lstat64, lstat);

WILKINS_INTERPOSE(int, fstat, int fd, struct stat* st) { return fstat_any(fd, st); }
WILKINS_OR(-1)
WILKINS_ALIAS(fstat64, fstat);

WILKINS_INTERPOSE(int, fstatat, int dirfd, const char* path, struct stat* st, int flags) {
    return stat_at(dirfd, path, st, flags, WILKINS_CALLER);
}
WILKINS_OR(-1)
WILKINS_ALIAS(fstatat64, fstatat);

WILKINS_INTERPOSE(int, __xstat, int version, const char* path, struct stat* st) {
    WILKINS_IN_SET(-1, look, path);
    return stat_name(looked_at(AT_FDCWD, path, true, WILKINS_CALLER), st,
                     [=] { return libc::__xstat(version, path, st); });
}
WILKINS_OR(-1)
WILKINS_ALIAS(__xstat64, __xstat);

WILKINS_INTERPOSE(int, __lxstat, int version, const char* path, struct stat* st) {
    WILKINS_IN_SET(-1, look, path);
    return stat_name(looked_at(AT_FDCWD, path, false, WILKINS_CALLER), st,
                     [=] { return libc::__lxstat(version, path, st); });
}
WILKINS_OR(-1)
WILKINS_ALIAS(__lxstat64, __lxstat);

WILKINS_INTERPOSE(int, __fxstat, int version, int fd, struct stat* st) {
    return find(fd) ? fstat_any(fd, st) : libc::__fxstat(version, fd, st);
}
WILKINS_OR(-1)
WILKINS_ALIAS(__fxstat64, __fxstat);

WILKINS_INTERPOSE(int, __fxstatat, int version, int dirfd, const char* path, struct stat* st, int flags) {
    WILKINS_IN_SET(-1, look, dirfd, path);
    if (path && !path[0] && (flags & AT_EMPTY_PATH) && find(dirfd)) return fstat_any(dirfd, st);
    return stat_name(looked_at(dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW), WILKINS_CALLER), st,
                     [=] { return libc::__fxstatat(version, dirfd, path, st, flags); });
}
WILKINS_OR(-1)
WILKINS_ALIAS(__fxstatat64, __fxstatat);

WILKINS_INTERPOSE(int, statx, int dirfd, const char* path, int flags, unsigned mask, struct statx* stx) {
    return statx_at(dirfd, path, flags, mask, stx, WILKINS_CALLER);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, access, const char* path, int mode) {
    WILKINS_IN_SET(-1, look, path);
    return access_name(looked_at(AT_FDCWD, path, true, WILKINS_CALLER), mode, [=] { return libc::access(path, mode); });
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, eaccess, const char* path, int mode) {
    WILKINS_IN_SET(-1, look, path);
    return access_name(looked_at(AT_FDCWD, path, true, WILKINS_CALLER), mode,
                       [=] { return libc::eaccess(path, mode); });
}
WILKINS_OR(-1)
WILKINS_ALIAS(euidaccess, eaccess);

WILKINS_INTERPOSE(int, faccessat, int dirfd, const char* path, int mode, int flags) {
    return access_at(dirfd, path, mode, flags, WILKINS_CALLER);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, unlink, const char* path) {
    WILKINS_IN_SET(-1, remove, path);
    Match match;
    return matches(path, &match, WILKINS_CALLER) ? unlink_match(match, AT_FDCWD, path)
                                                 : removed(libc::unlink(path), path, WILKINS_CALLER);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, unlinkat, int dirfd, const char* path, int flags) {
    return unlink_at(dirfd, path, flags, WILKINS_CALLER);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, remove, const char* path) {
    WILKINS_IN_SET(-1, remove, path);
    Match match;
    return matches(path, &match, WILKINS_CALLER) ? unlink_match(match, AT_FDCWD, path)
                                                 : removed(libc::remove(path), path, WILKINS_CALLER);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, truncate, const char* path, off_t size) {
    WILKINS_IN_SET(-1, change, path);
    Match match;
    return matches(path, &match, WILKINS_CALLER, Purpose::update) ? truncate_match(match, size)
                                                                  : libc::truncate(path, size);
}
WILKINS_OR(-1)
WILKINS_ALIAS(truncate64, truncate);
