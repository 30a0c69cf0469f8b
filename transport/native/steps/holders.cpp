// What /proc says of processes that have a file open.
#include "steps/holders.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "base/raw.hpp"

namespace wilkins::holders {

namespace {

// The beginning of a small file of a process; false if it cannot be read.
template <class... Parts>
bool read_of(char* out, size_t room, const char* format, Parts... parts) {
    char path[96];
    snprintf(path, sizeof(path), format, parts...);
    const int fd = raw::open(path, O_RDONLY | O_CLOEXEC, 0);
    const ssize_t n = fd < 0 ? -1 : raw::read(fd, out, room - 1);
    if (fd >= 0) raw::close(fd);
    out[n > 0 ? n : 0] = 0;
    return n > 0;
}

// Calls `visit` with the numbers that the entries of a folder are called by, until one answers true. Does one?
template <class Visit>
bool any_number(const char* folder, Visit visit) {
    DIR* const entries = opendir(folder);
    if (!entries) return false;
    bool found = false;
    while (const struct dirent* entry = found ? nullptr : readdir(entries))
        if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9') found = visit(strtol(entry->d_name, nullptr, 10));
    closedir(entries);
    return found;
}

bool is_open(long pid, const struct stat& file, bool for_writing) {
    char folder[48];
    snprintf(folder, sizeof(folder), "/proc/%ld/fd", pid);
    return any_number(folder, [&](long fd) {
        char path[72], text[256];
        struct stat st;
        snprintf(path, sizeof(path), "%s/%ld", folder, fd);
        if (raw::stat(path, &st) != 0 || st.st_dev != file.st_dev || st.st_ino != file.st_ino) return false;
        if (!for_writing || !read_of(text, sizeof(text), "/proc/%ld/fdinfo/%ld", pid, fd)) return true;
        const char* const flags = strstr(text, "flags:");
        return !flags || (strtol(flags + 6, nullptr, 8) & O_ACCMODE) != O_RDONLY;
    });
}

bool is_mapped(long pid, const struct stat& file) {
    char path[48], line[4352];
    snprintf(path, sizeof(path), "/proc/%ld/maps", pid);
    FILE* const maps = fopen(path, "re");
    if (!maps) return false;
    bool found = false;
    while (!found && fgets(line, sizeof(line), maps)) {
        unsigned device[2] = {};
        unsigned long inode = 0;
        found = sscanf(line, "%*s %*s %*s %x:%x %lu", &device[0], &device[1], &inode) == 3 && inode == file.st_ino &&
                makedev(device[0], device[1]) == file.st_dev;
    }
    fclose(maps);
    return found;
}

// Who has forked a process, and where its stack begins, which a fork inherits and a new program changes.
struct Descent {
    long parent = 0;
    uint64_t stack = 0;
};

Descent descent_of(long pid) {
    char text[1024];
    Descent found;
    if (!read_of(text, sizeof(text), "/proc/%ld/stat", pid)) return found;
    constexpr int kParent = 4, kStack = 28;  // fields, counted from 1; the second is a name in brackets
    const char* at = strrchr(text, ')');
    for (int field = 3; at && field <= kStack; ++field) {
        at = strchr(at, ' ');
        if (!at) break;
        ++at;
        if (field == kParent) found.parent = strtol(at, nullptr, 10);
        if (field == kStack) found.stack = strtoull(at, nullptr, 10);
    }
    return found;
}

// True if the thread is in a call that nothing but another process, or thread, ends.
bool waits(long pid, long thread) {
    char text[256];
    if (!read_of(text, sizeof(text), "/proc/%ld/task/%ld/syscall", pid, thread)) return false;
    long number = -1;
    unsigned long words[6] = {};
    if (sscanf(text, "%ld %lx %lx %lx %lx %lx %lx", &number, &words[0], &words[1], &words[2], &words[3], &words[4],
               &words[5]) != 7)
        return false;
    switch (number) {
        case SYS_futex: return words[3] == 0;
        case SYS_read:
        case SYS_recvfrom:
        case SYS_recvmsg: return true;
#ifdef SYS_poll
        case SYS_poll: return static_cast<int>(words[2]) < 0;
        case SYS_epoll_wait: return static_cast<int>(words[3]) < 0;
#endif
        case SYS_ppoll: return words[2] == 0;
        case SYS_epoll_pwait: return static_cast<int>(words[3]) < 0;
        default: return false;
    }
}

// How often the thread has been given a core, or has let go of it; 0: not known.
uint64_t turns_of(long pid, long thread) {
    char text[4096];
    if (!read_of(text, sizeof(text), "/proc/%ld/task/%ld/status", pid, thread)) return 0;
    uint64_t turns = 0;
    for (const char* const name : {"\nvoluntary_ctxt_switches:", "\nnonvoluntary_ctxt_switches:"})
        if (const char* const at = strstr(text, name)) turns += strtoull(at + strlen(name), nullptr, 10);
    return turns;
}

// `turns`: takes in what changes as soon as one of its threads does anything.
bool is_waiting_fork(long pid, uint64_t* turns) {
    const Descent own = descent_of(pid);
    if (own.stack == 0 || own.stack != descent_of(own.parent).stack) return false;
    char folder[48];
    snprintf(folder, sizeof(folder), "/proc/%ld/task", pid);
    *turns = *turns * 31 + static_cast<uint64_t>(pid);
    return !any_number(folder, [&](long thread) {
        *turns = (*turns * 31 + static_cast<uint64_t>(thread)) * 31 + turns_of(pid, thread);
        return !waits(pid, thread);
    });
}

}  // namespace

bool all_wait(const struct stat& file, uint64_t* turns) {
    bool found = false;
    *turns = 0;
    const auto holds = [&](long pid, bool has_it) {
        found = found || has_it;
        return has_it && (pid == getpid() || !is_waiting_fork(pid, turns));
    };
    if (any_number("/proc", [&](long pid) { return holds(pid, is_open(pid, file, true)); })) return false;
    return !any_number("/proc", [&](long pid) { return holds(pid, is_mapped(pid, file)); }) && found;
}

void name_one(const struct stat& file, char* out, size_t room) {
    snprintf(out, room, "a process");
    any_number("/proc", [&](long pid) {
        if (pid == getpid() || !is_open(pid, file, false)) return false;
        char name[32];
        read_of(name, sizeof(name), "/proc/%ld/comm", pid);
        name[strcspn(name, "\n")] = 0;
        snprintf(out, room, "process %ld (%s)", pid, name);
        return true;
    });
}

}  // namespace wilkins::holders
