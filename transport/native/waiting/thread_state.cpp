// Reads what threads sleep in from /proc.
#include "waiting/thread_state.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "base/proc_text.hpp"
#include "base/raw.hpp"
#include "board/board.hpp"

namespace wilkins {

namespace {

constexpr long kNoHang = 1;  // WNOHANG
constexpr int64_t kAsleepNs = 1'000'000'000;
constexpr size_t kMostAsleep = 1024;

struct SystemCall {
    long number = -1;
    std::array<uint64_t, 6> arguments{};
};

// "202 0x7f02d4000b70 0x189 0x0 0x0 0x0 0xffffffff 0x7fff5b509840 0x7f02e14a3f16"; of a thread that runs, "running".
bool parse(const char* text, SystemCall* call) {
    char* rest = nullptr;
    call->number = strtol(text, &rest, 10);
    if (rest == text || call->number < 0) return false;
    for (uint64_t& argument : call->arguments) argument = strtoull(rest, &rest, 16);
    return true;
}

// True if the futex lies in memory that other processes may have, too.
bool is_shared(uint64_t address) {
    FILE* const maps = fdopen(raw::open("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0), "r");
    if (!maps) return true;
    bool shared = true;
    char line[512];
    while (fgets(line, sizeof(line), maps)) {
        uint64_t begin = 0, end = 0;
        char rights[5] = "";
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &begin, &end, rights) != 3 || address < begin || address >= end)
            continue;
        shared = rights[3] == 's';
        break;
    }
    fclose(maps);
    return shared;
}

ThreadState state_in_futex(const SystemCall& call) {
    const auto operation = static_cast<int>(call.arguments[1]);
    switch (operation & FUTEX_CMD_MASK) {
        case FUTEX_WAIT:
        case FUTEX_WAIT_BITSET:
        case FUTEX_WAIT_REQUEUE_PI:
        case FUTEX_LOCK_PI:
        case 13:  // FUTEX_LOCK_PI2
            break;
        default: return ThreadState::running;
    }
    if (call.arguments[3] != 0) return ThreadState::running;  // a time after which it goes on by itself
    return operation & FUTEX_PRIVATE_FLAG ? ThreadState::futex : ThreadState::asleep;
}

// Calls that end when somebody else does something, and not after a time.
ThreadState state_in(const SystemCall& call) {
    const auto given = [&](size_t place) { return call.arguments[place] != 0; };
    const auto for_ever = [&](size_t place) { return static_cast<int>(call.arguments[place]) < 0; };
    const auto when = [](bool sleeps) { return sleeps ? ThreadState::asleep : ThreadState::running; };
    switch (call.number) {
        case SYS_futex: return state_in_futex(call);
        case SYS_wait4: return when(!(call.arguments[2] & kNoHang));
        case SYS_waitid: return when(!(call.arguments[3] & kNoHang));
        case SYS_read:
        case SYS_readv:
        case SYS_recvfrom:
        case SYS_recvmsg:
        case SYS_accept:
        case SYS_accept4:
        case SYS_rt_sigsuspend:
        case SYS_flock:
        case SYS_fcntl: return ThreadState::asleep;
        case SYS_ppoll: return when(!given(2));
        case SYS_pselect6: return when(!given(4));
#ifdef SYS_epoll_wait
        case SYS_epoll_wait:
#endif
        case SYS_epoll_pwait: return when(for_ever(3));
#ifdef SYS_poll
        case SYS_poll: return when(for_ever(2));
#endif
#ifdef SYS_select
        case SYS_select: return when(!given(4));
#endif
#ifdef SYS_pause
        case SYS_pause: return ThreadState::asleep;
#endif
        default: return ThreadState::running;
    }
}

ThreadState state_of(const std::string& folder, SystemCall* call) {
    const ProcText<256> text((folder + "/syscall").c_str());
    if (text.length < 0) return errno == ENOENT || errno == ESRCH ? ThreadState::ended : ThreadState::running;
    return parse(text.bytes, call) ? state_in(*call) : ThreadState::running;
}

std::string folder_of(int pid, int thread) {
    return "/proc/" + std::to_string(pid) + "/task/" + std::to_string(thread);
}

// A thread that was found asleep: it has not moved since, if it has gone to sleep as often as then.
struct Asleep {
    uint64_t slept;
    int64_t since;
};

}  // namespace

std::vector<int> threads_of(int pid) {
    std::vector<int> found;
    const int fd = raw::open(("/proc/" + std::to_string(pid) + "/task").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0) return found;
    alignas(8) char entries[4096];
    for (long length; (length = syscall(SYS_getdents64, fd, entries, sizeof(entries))) > 0;)
        for (long at = 0; at < length;) {
            unsigned short size = 0;  // of struct linux_dirent64: after two numbers of 8 bytes; the name is at 19
            memcpy(&size, entries + at + 16, sizeof(size));
            if (const int thread = atoi(entries + at + 19); thread > 0) found.push_back(thread);
            at += size;
        }
    raw::close(fd);
    return found;
}

uint64_t switches(int pid, int thread) {
    const ProcText<4096> text((folder_of(pid, thread) + "/status").c_str());
    const char* const first = strstr(text.bytes, "voluntary_ctxt_switches:");
    const char* const other = first ? strstr(first, "nonvoluntary_ctxt_switches:") : nullptr;
    if (!other) return UINT64_MAX;
    return strtoull(strchr(first, ':') + 1, nullptr, 10) + strtoull(strchr(other, ':') + 1, nullptr, 10);
}

// The kernel's function tells that of processes that one may not trace (Yama), whose system calls are hidden.
Sleep sleep_of(int pid, int thread) {
    const std::string folder = folder_of(pid, thread);
    const ProcText<64> function((folder + "/wchan").c_str());
    if (strcmp(function.bytes, "do_wait") == 0) return Sleep::child;
    if (strstr(function.bytes, "pipe_read")) return Sleep::pipe;
    SystemCall call;
    return state_of(folder, &call) == ThreadState::futex ? Sleep::futex : Sleep::none;
}

ThreadState state_of(int pid, int thread) {
    static std::map<std::pair<int, int>, Asleep> asleep;
    if (thread == static_cast<int>(syscall(SYS_gettid))) return ThreadState::running;
    const int before = errno;
    SystemCall call;
    const uint64_t slept = switches(pid, thread);
    ThreadState state = state_of(folder_of(pid, thread), &call);
    if (state == ThreadState::asleep || state == ThreadState::futex) {
        if (asleep.size() > kMostAsleep) asleep.clear();
        const int64_t now = now_ns();
        Asleep& seen = asleep.try_emplace({pid, thread}, Asleep{slept, now}).first->second;
        if (seen.slept != slept) seen = {slept, now};
        if (slept == UINT64_MAX || now - seen.since < kAsleepNs) state = ThreadState::running;
    }
    errno = before;
    return state;
}

bool all_asleep(const std::vector<int>& waiting) {
    const int before = errno;
    const int pid = getpid();
    const auto self = static_cast<int>(syscall(SYS_gettid));
    const auto look = [&](std::vector<std::pair<int, uint64_t>>* seen) {
        for (const int thread : threads_of(pid)) {
            if (thread == self || std::find(waiting.begin(), waiting.end(), thread) != waiting.end()) continue;
            const uint64_t slept = switches(pid, thread);
            SystemCall call;
            ThreadState state = state_of(folder_of(pid, thread), &call);
            if (state == ThreadState::asleep && call.number == SYS_futex && !is_shared(call.arguments[0]))
                state = ThreadState::futex;
            if (state == ThreadState::ended) continue;
            if (state != ThreadState::futex || slept == UINT64_MAX) return false;
            seen->emplace_back(thread, slept);
        }
        return true;
    };
    // One that was looked at first may be woken by one that is looked at last: at the second look none has moved since
    // the first.
    std::vector<std::pair<int, uint64_t>> first, second;
    const bool asleep = look(&first) && look(&second) && first == second;
    errno = before;
    return asleep;
}

}  // namespace wilkins
