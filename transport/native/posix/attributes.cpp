// chmod, chown, utime and extended attributes of matching names: a step has none of its own, so there is nothing to
// change, unless it is a file on disk as well. One that is being written has another name there.
#include "posix/files.hpp"
#include "posix/in_set.hpp"

#include <limits.h>
#include <unistd.h>

#include <cstring>

namespace wilkins::posix {
namespace {

// What such a call is about: a step, to which it does nothing, or a file of the disk.
class Target {
public:
    // `path`: as the program says it, and `whole` as a match needs it. `error`: what the call fails with if the step is
    // there, or 0.
    Target(const char* path, const char* whole, const void* caller, int error) : path_(path) {
        Match match;
        if (!matches(whole, &match, caller)) return;
        is_step_ = !on_disk(match);
        struct stat st;
        if (!is_step_) {
            if (name_on_disk(match, hidden_, sizeof(hidden_))) path_ = hidden_;
            return;
        }
        result_ = stat_match(match, &st);
        if (result_ != 0 || !error) return;
        errno = error;
        result_ = -1;
    }
    bool is_step() const { return is_step_; }
    int result() const { return result_; }
    const char* path() const { return path_; }
    Target(const Target&) = delete;
    Target& operator=(const Target&) = delete;

private:
    const char* path_;
    bool is_step_ = false;
    int result_ = 0;
    char hidden_[PATH_MAX];
};

// The descriptor of a file that is being written, and lies on the disk, leads to a file in memory: the name of the one
// on the disk, or nullptr.
const char* named_on_disk(int fd, char* out, size_t room) {
    const OpenStep* const step = find(fd);
    if (!step || !step->writable() || step->is_ordinary() || step->has_lost_name() || !on_disk(step->match()))
        return nullptr;
    const int before = errno;
    const char* const name = name_on_disk(step->match(), out, room) ? out : step->name();
    errno = before;
    return name;
}

// The path to ask about a file's file system by: of a step that is there, its folder.
class FileSystem {
public:
    FileSystem(const char* path, const void* caller) : path_(path) {
        Match match;
        struct stat st;
        const int saved = errno;
        const bool is_step = matches(path, &match, caller, Purpose::look) &&
                             !(on_disk(match) && libc::access(path, F_OK) == 0) && look_at(match, &st) == 0;
        errno = saved;
        if (!is_step || strlen(path) >= sizeof(folder_)) return;
        strcpy(folder_, path);
        char* const end = strrchr(folder_, '/');
        if (end) end[end == folder_] = 0;
        path_ = end ? folder_ : ".";
    }
    operator const char*() const { return path_; }
    FileSystem(const FileSystem&) = delete;
    FileSystem& operator=(const FileSystem&) = delete;

private:
    const char* path_;
    char folder_[PATH_MAX];
};

}  // namespace
}  // namespace wilkins::posix

using namespace wilkins;
using namespace wilkins::posix;

// The file system of a step's name is that of its folder.
WILKINS_INTERPOSE(int, statvfs, const char* path, struct statvfs* st) {
    return libc::statvfs(FileSystem(path, WILKINS_CALLER), st);
}
WILKINS_OR(-1)
WILKINS_ALIAS(statvfs64, statvfs);

WILKINS_INTERPOSE(int, statfs, const char* path, struct statfs* st) {
    return libc::statfs(FileSystem(path, WILKINS_CALLER), st);
}
WILKINS_OR(-1)
WILKINS_ALIAS(statfs64, statfs);

WILKINS_INTERPOSE(int, chmod, const char* path, mode_t mode) {
    WILKINS_IN_SET(-1, change, path);
    const Target target(path, path, WILKINS_CALLER, 0);
    return target.is_step() ? target.result() : libc::chmod(target.path(), mode);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, fchmodat, int dirfd, const char* path, mode_t mode, int flags) {
    WILKINS_IN_SET(-1, change, dirfd, path);
    const Target target(path, NameAt(dirfd, path, WILKINS_CALLER), WILKINS_CALLER, 0);
    return target.is_step() ? target.result() : libc::fchmodat(dirfd, target.path(), mode, flags);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, fchmod, int fd, mode_t mode) {
    char hidden[PATH_MAX];
    const char* const name = named_on_disk(fd, hidden, sizeof(hidden));
    return name ? libc::chmod(name, mode) : libc::fchmod(fd, mode);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, fchown, int fd, uid_t user, gid_t group) {
    char hidden[PATH_MAX];
    const char* const name = named_on_disk(fd, hidden, sizeof(hidden));
    return name ? libc::chown(name, user, group) : libc::fchown(fd, user, group);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, chown, const char* path, uid_t user, gid_t group) {
    WILKINS_IN_SET(-1, change, path);
    const Target target(path, path, WILKINS_CALLER, 0);
    return target.is_step() ? target.result() : libc::chown(target.path(), user, group);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, lchown, const char* path, uid_t user, gid_t group) {
    WILKINS_IN_SET(-1, change, path);
    const Target target(path, path, WILKINS_CALLER, 0);
    return target.is_step() ? target.result() : libc::lchown(target.path(), user, group);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, fchownat, int dirfd, const char* path, uid_t user, gid_t group, int flags) {
    WILKINS_IN_SET(-1, change, dirfd, path);
    const Target target(path, NameAt(dirfd, path, WILKINS_CALLER), WILKINS_CALLER, 0);
    return target.is_step() ? target.result() : libc::fchownat(dirfd, target.path(), user, group, flags);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, utime, const char* path, const struct utimbuf* times) {
    WILKINS_IN_SET(-1, change, path);
    const Target target(path, path, WILKINS_CALLER, 0);
    return target.is_step() ? target.result() : libc::utime(target.path(), times);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, utimes, const char* path, const struct timeval* times) {
    WILKINS_IN_SET(-1, change, path);
    const Target target(path, path, WILKINS_CALLER, 0);
    return target.is_step() ? target.result() : libc::utimes(target.path(), times);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, utimensat, int dirfd, const char* path, const struct timespec* times, int flags) {
    WILKINS_IN_SET(-1, change, dirfd, path);
    const Target target(path, NameAt(dirfd, path, WILKINS_CALLER), WILKINS_CALLER, 0);
    return target.is_step() ? target.result() : libc::utimensat(dirfd, target.path(), times, flags);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(ssize_t, getxattr, const char* path, const char* name, void* value, size_t size) {
    WILKINS_IN_SET(-1, look, path);
    const Target target(path, path, WILKINS_CALLER, ENODATA);
    return target.is_step() ? target.result() : libc::getxattr(target.path(), name, value, size);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(ssize_t, lgetxattr, const char* path, const char* name, void* value, size_t size) {
    WILKINS_IN_SET(-1, look, path);
    const Target target(path, path, WILKINS_CALLER, ENODATA);
    return target.is_step() ? target.result() : libc::lgetxattr(target.path(), name, value, size);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(ssize_t, listxattr, const char* path, char* list, size_t size) {
    WILKINS_IN_SET(-1, look, path);
    const Target target(path, path, WILKINS_CALLER, 0);
    return target.is_step() ? target.result() : libc::listxattr(target.path(), list, size);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(ssize_t, llistxattr, const char* path, char* list, size_t size) {
    WILKINS_IN_SET(-1, look, path);
    const Target target(path, path, WILKINS_CALLER, 0);
    return target.is_step() ? target.result() : libc::llistxattr(target.path(), list, size);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, setxattr, const char* path, const char* name, const void* value, size_t size, int flags) {
    WILKINS_IN_SET(-1, change, path);
    const Target target(path, path, WILKINS_CALLER, ENOTSUP);
    return target.is_step() ? target.result() : libc::setxattr(target.path(), name, value, size, flags);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, lsetxattr, const char* path, const char* name, const void* value, size_t size, int flags) {
    WILKINS_IN_SET(-1, change, path);
    const Target target(path, path, WILKINS_CALLER, ENOTSUP);
    return target.is_step() ? target.result() : libc::lsetxattr(target.path(), name, value, size, flags);
}
WILKINS_OR(-1)
