#include "posix/in_set.hpp"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/raw.hpp"
#include "steps/disk.hpp"

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
    if (!sets::may_be_any() || !in_run(caller) || !sets::any() || !match_set(to, &match, Purpose::put) ||
        match.outport < 0 || identify(from).none())
        return false;
    if (!disk::is_directory(from)) return false;
    const char* path = to;
    const InSet set(path, sets::Use::make, caller);
    if (!set.inside()) {
        *result = succeed_or(set.failed() ? errno : EXDEV);
        return true;
    }
    std::error_code error;
    std::filesystem::copy(
        from, path, std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks, error);
    if (!error) std::filesystem::remove_all(from, error);
    *result = succeed_or(error.value());
    return true;
}

int copy_across(int from_dir, const char* from, int to_dir, const char* to) {
    const int source = static_cast<int>(syscall(SYS_openat, from_dir, from, O_RDONLY | O_CLOEXEC, 0));
    if (source < 0) return -1;
    struct stat st;
    int target = -1;
    if (raw::fstat(source, &st) == 0 && S_ISREG(st.st_mode))
        target = static_cast<int>(
            syscall(SYS_openat, to_dir, to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, st.st_mode & 0777));
    else errno = EXDEV;
    bool whole = target >= 0;
    std::vector<char> buffer(1 << 16);
    for (ssize_t got = 0; whole && (got = raw::read(source, buffer.data(), buffer.size())) != 0;)
        whole = got > 0 && raw::write(target, buffer.data(), static_cast<size_t>(got)) == got;
    const int saved = errno;
    if (target >= 0) raw::close(target);
    raw::close(source);
    errno = saved;
    return whole ? 0 : -1;
}

sets::Use use_of(int flags) {
    if ((flags & O_PATH) == O_PATH) return sets::Use::look;
    if (flags & O_CREAT) return sets::Use::create;
    return (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) ? sets::Use::change : sets::Use::read;
}

}  // namespace wilkins::posix
