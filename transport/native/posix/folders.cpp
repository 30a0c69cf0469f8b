// chdir and fchdir: from then on relative names mean other files.
#include "posix/names.hpp"

namespace {

int moved(int result) {
    if (result == 0) wilkins::note_moved();
    return result;
}

}  // namespace

WILKINS_INTERPOSE(int, chdir, const char* path) {
    return moved(wilkins::posix::look_on_disk(path, WILKINS_CALLER, [=] { return wilkins::libc::chdir(path); }));
} WILKINS_OR(-1)

WILKINS_INTERPOSE(int, fchdir, int fd) { return moved(wilkins::libc::fchdir(fd)); } WILKINS_OR(-1)
