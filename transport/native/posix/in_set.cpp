#include "posix/in_set.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

namespace wilkins::posix {

namespace {

bool name_of_open(int dirfd, char (&out)[PATH_MAX]) {
    char link[32];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd);
    const ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, out, sizeof(out) - 1);
    if (length <= 0) return false;
    out[length] = 0;
    return out[0] == '/';
}

}  // namespace

void InSet::find(int dirfd, const char*& path, sets::Use use) {
    const int saved = errno;
    const bool at_folder = dirfd != AT_FDCWD && path[0] && path[0] != '/';
    int error = 0;
    if (at_folder) {
        char folder[PATH_MAX];
        if (name_of_open(dirfd, folder)) leads_ = sets::lead_from(folder, path, use, &place_, &error);
    } else {
        leads_ = sets::lead(path, use, &place_, &error);
    }
    errno = failed() ? error : saved;
    if (inside()) path = place_.real;
}

bool move_into_set(const char* from, const char* to, const void* caller, int* result) {
    Match match;
    if (!sets::may_be_any() || !in_run(caller) || !sets::any() || !match_folder(to, &match, Purpose::ask) || match.outport < 0 || identify(from).none()) return false;
    const char* path = to;
    const InSet set(path, sets::Use::make, caller);
    if (!set.inside()) {
        *result = succeed_or(set.failed() ? errno : EXDEV);
        return true;
    }
    std::error_code error;
    std::filesystem::copy(from, path, std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks, error);
    if (!error) std::filesystem::remove_all(from, error);
    *result = succeed_or(error.value());
    return true;
}

sets::Use use_of(int flags) {
    if ((flags & O_PATH) == O_PATH) return sets::Use::look;
    const bool changes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0;
    return changes ? sets::Use::change : sets::Use::read;
}

}  // namespace wilkins::posix
