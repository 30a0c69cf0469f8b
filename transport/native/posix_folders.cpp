// chdir and fchdir: from then on relative names mean other files.
#include "posix_libc.hpp"
#include "store.hpp"

namespace {

int moved(int result) {
    if (result == 0) wilkins::note_moved();
    return result;
}

}  // namespace

WILKINS_INTERPOSE(int, chdir, const char* path) { return moved(wilkins::libc::chdir(path)); } WILKINS_OR(-1)

WILKINS_INTERPOSE(int, fchdir, int fd) { return moved(wilkins::libc::fchdir(fd)); } WILKINS_OR(-1)
