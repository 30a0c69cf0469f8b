// chdir and fchdir: from then on relative names mean other files. mkdir: a folder in which there may be steps soon.
#include "posix/in_set.hpp"
#include "posix/names.hpp"

#include <cstdlib>
#include <cstring>

namespace {

using namespace wilkins;
using posix::InSet;

int moved(int result) {
    if (result == 0) {
        note_moved();
        sets::note_moved();
    }
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
        if (relative && snprintf(at, sizeof(at), "/proc/self/fd/%d/%s", dirfd, path) < static_cast<int>(sizeof(at)))
            making.done(at);
    }
    errno = saved;
    return result;
}

}  // namespace

WILKINS_INTERPOSE(int, chdir, const char* path) {
    WILKINS_IN_SET(-1, enter, path);
    return moved(wilkins::posix::look_on_disk(path, WILKINS_CALLER, [=] { return wilkins::libc::chdir(path); }));
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, fchdir, int fd) { return moved(wilkins::libc::fchdir(fd)); }
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, mkdir, const char* path, mode_t mode) {
    WILKINS_IN_SET(-1, make, path);
    if (in_set.inside()) return wilkins::libc::mkdir(path, mode);
    return make_folder(AT_FDCWD, path, WILKINS_CALLER, [=] { return wilkins::libc::mkdir(path, mode); });
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, mkdirat, int dirfd, const char* path, mode_t mode) {
    WILKINS_IN_SET(-1, make, dirfd, path);
    if (in_set.inside()) return wilkins::libc::mkdir(path, mode);
    return make_folder(dirfd, path, WILKINS_CALLER, [=] { return wilkins::libc::mkdirat(dirfd, path, mode); });
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, rmdir, const char* path) {
    WILKINS_IN_SET(-1, remove, path);
    return wilkins::libc::rmdir(path);
}
WILKINS_OR(-1)

// What the system says of a folder that is a step, in the program's words.
WILKINS_INTERPOSE(char*, getcwd, char* out, size_t size) {
    char* const name = wilkins::libc::getcwd(out, size);
    char name_of_step[PATH_MAX];
    if (!name || !sets::may_be_any() || !posix::in_run(WILKINS_CALLER) || !sets::any() ||
        !sets::name_of_real(name, name_of_step))
        return name;
    if (!out) {
        free(name);
        return strdup(name_of_step);
    }
    if (strlen(name_of_step) < size) return strcpy(out, name_of_step);
    errno = ERANGE;
    return nullptr;
}
WILKINS_OR(nullptr)
