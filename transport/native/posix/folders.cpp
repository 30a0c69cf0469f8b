// chdir and fchdir: from then on relative names mean other files. mkdir: a folder in which there may be steps soon.
#include "posix/names.hpp"

namespace {

using namespace wilkins;

int moved(int result) {
    if (result == 0) note_moved();
    return result;
}

// A folder that is there already counts: the program wants to have it.
template <class Call>
int make_folder(int dirfd, const char* path, const void* caller, Call call) {
    if (!posix::in_run(caller)) return call();
    FolderMaking making;
    const int result = call();
    const int saved = errno;
    if (result == 0 || saved == EEXIST) {
        char at[PATH_MAX];
        const bool relative = dirfd != AT_FDCWD && path[0] != '/';
        if (!relative) making.done(path);
        if (relative && snprintf(at, sizeof(at), "/proc/self/fd/%d/%s", dirfd, path) < static_cast<int>(sizeof(at))) making.done(at);
    }
    errno = saved;
    return result;
}

}  // namespace

WILKINS_INTERPOSE(int, chdir, const char* path) {
    return moved(wilkins::posix::look_on_disk(path, WILKINS_CALLER, [=] { return wilkins::libc::chdir(path); }));
} WILKINS_OR(-1)

WILKINS_INTERPOSE(int, fchdir, int fd) { return moved(wilkins::libc::fchdir(fd)); } WILKINS_OR(-1)

WILKINS_INTERPOSE(int, mkdir, const char* path, mode_t mode) {
    return make_folder(AT_FDCWD, path, WILKINS_CALLER, [=] { return wilkins::libc::mkdir(path, mode); });
} WILKINS_OR(-1)

WILKINS_INTERPOSE(int, mkdirat, int dirfd, const char* path, mode_t mode) {
    return make_folder(dirfd, path, WILKINS_CALLER, [=] { return wilkins::libc::mkdirat(dirfd, path, mode); });
} WILKINS_OR(-1)
