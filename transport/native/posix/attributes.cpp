// chmod, chown, utime and extended attributes of matching names: a step has none of its own, so there is nothing to change,
// unless it is a file on disk as well.
#include "posix/in_set.hpp"
#include "posix/names.hpp"

#include <limits.h>
#include <unistd.h>

#include <cstring>

namespace wilkins::posix {
namespace {

// For a name that matches, true and the call's result: `result` if the step is there, and -1 with `error` if that is set.
bool handled(const char* path, const void* caller, int error, int* result) {
    Match match;
    if (!matches(path, &match, caller) || on_disk(match)) return false;
    struct stat st;
    *result = stat_match(match, &st);
    if (*result == 0 && error) {
        errno = error;
        *result = -1;
    }
    return true;
}

// The path to ask about a file's file system by: of a step that is there, its folder.
class FileSystem {
public:
    FileSystem(const char* path, const void* caller) : path_(path) {
        Match match;
        struct stat st;
        const int saved = errno;
        const bool is_step = matches(path, &match, caller, Purpose::look) && !(on_disk(match) && libc::access(path, F_OK) == 0) && look_at(match, &st) == 0;
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
} WILKINS_OR(-1)
WILKINS_ALIAS(statvfs64, statvfs);

WILKINS_INTERPOSE(int, statfs, const char* path, struct statfs* st) { return libc::statfs(FileSystem(path, WILKINS_CALLER), st); } WILKINS_OR(-1)
WILKINS_ALIAS(statfs64, statfs);

WILKINS_INTERPOSE(int, chmod, const char* path, mode_t mode) {
    WILKINS_IN_SET(-1, change, path);
    int result;
    return handled(path, WILKINS_CALLER, 0, &result) ? result : libc::chmod(path, mode);
} WILKINS_OR(-1)

WILKINS_INTERPOSE(int, fchmodat, int dirfd, const char* path, mode_t mode, int flags) {
    WILKINS_IN_SET(-1, change, dirfd, path);
    int result;
    return handled(NameAt(dirfd, path, WILKINS_CALLER), WILKINS_CALLER, 0, &result) ? result : libc::fchmodat(dirfd, path, mode, flags);
} WILKINS_OR(-1)

WILKINS_INTERPOSE(int, chown, const char* path, uid_t user, gid_t group) {
    WILKINS_IN_SET(-1, change, path);
    int result;
    return handled(path, WILKINS_CALLER, 0, &result) ? result : libc::chown(path, user, group);
} WILKINS_OR(-1)

WILKINS_INTERPOSE(int, lchown, const char* path, uid_t user, gid_t group) {
    WILKINS_IN_SET(-1, change, path);
    int result;
    return handled(path, WILKINS_CALLER, 0, &result) ? result : libc::lchown(path, user, group);
} WILKINS_OR(-1)

WILKINS_INTERPOSE(int, fchownat, int dirfd, const char* path, uid_t user, gid_t group, int flags) {
    WILKINS_IN_SET(-1, change, dirfd, path);
    int result;
    return handled(NameAt(dirfd, path, WILKINS_CALLER), WILKINS_CALLER, 0, &result) ? result : libc::fchownat(dirfd, path, user, group, flags);
} WILKINS_OR(-1)

WILKINS_INTERPOSE(int, utime, const char* path, const struct utimbuf* times) {
    WILKINS_IN_SET(-1, change, path);
    int result;
    return handled(path, WILKINS_CALLER, 0, &result) ? result : libc::utime(path, times);
} WILKINS_OR(-1)

WILKINS_INTERPOSE(int, utimes, const char* path, const struct timeval* times) {
    WILKINS_IN_SET(-1, change, path);
    int result;
    return handled(path, WILKINS_CALLER, 0, &result) ? result : libc::utimes(path, times);
} WILKINS_OR(-1)

WILKINS_INTERPOSE(int, utimensat, int dirfd, const char* path, const struct timespec* times, int flags) {
    WILKINS_IN_SET(-1, change, dirfd, path);
    int result;
    return handled(NameAt(dirfd, path, WILKINS_CALLER), WILKINS_CALLER, 0, &result) ? result : libc::utimensat(dirfd, path, times, flags);
} WILKINS_OR(-1)

WILKINS_INTERPOSE(ssize_t, getxattr, const char* path, const char* name, void* value, size_t size) {
    WILKINS_IN_SET(-1, look, path);
    int result;
    return handled(path, WILKINS_CALLER, ENODATA, &result) ? result : libc::getxattr(path, name, value, size);
} WILKINS_OR(-1)

WILKINS_INTERPOSE(ssize_t, lgetxattr, const char* path, const char* name, void* value, size_t size) {
    WILKINS_IN_SET(-1, look, path);
    int result;
    return handled(path, WILKINS_CALLER, ENODATA, &result) ? result : libc::lgetxattr(path, name, value, size);
} WILKINS_OR(-1)

WILKINS_INTERPOSE(ssize_t, listxattr, const char* path, char* list, size_t size) {
    WILKINS_IN_SET(-1, look, path);
    int result;
    return handled(path, WILKINS_CALLER, 0, &result) ? result : libc::listxattr(path, list, size);
} WILKINS_OR(-1)

WILKINS_INTERPOSE(ssize_t, llistxattr, const char* path, char* list, size_t size) {
    WILKINS_IN_SET(-1, look, path);
    int result;
    return handled(path, WILKINS_CALLER, 0, &result) ? result : libc::llistxattr(path, list, size);
} WILKINS_OR(-1)

WILKINS_INTERPOSE(int, setxattr, const char* path, const char* name, const void* value, size_t size, int flags) {
    WILKINS_IN_SET(-1, change, path);
    int result;
    return handled(path, WILKINS_CALLER, ENOTSUP, &result) ? result : libc::setxattr(path, name, value, size, flags);
} WILKINS_OR(-1)

WILKINS_INTERPOSE(int, lsetxattr, const char* path, const char* name, const void* value, size_t size, int flags) {
    WILKINS_IN_SET(-1, change, path);
    int result;
    return handled(path, WILKINS_CALLER, ENOTSUP, &result) ? result : libc::lsetxattr(path, name, value, size, flags);
} WILKINS_OR(-1)
