// Reads from /proc who has started whom, and whether they wait for each other.
#include "waiting/starters.hpp"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "base/proc_text.hpp"
#include "waiting/thread_state.hpp"

namespace wilkins {

namespace {

using IsKnown = std::function<bool(int pid, int thread)>;
using Sleeper = std::tuple<int, int, uint64_t>;  // a thread of a process, and how often it has gone to sleep

std::string folder_of(int pid) { return "/proc/" + std::to_string(pid); }

// "4711 (a name) S 4710 ...": from the letter on; empty if it is not there.
std::string state_and_parent(int pid) {
    const ProcText<512> text((folder_of(pid) + "/stat").c_str());
    const char* const name_end = strrchr(text.bytes, ')');
    return name_end && name_end[1] ? name_end + 2 : "";
}

int parent_of(int pid) {
    const std::string known = state_and_parent(pid);
    return known.empty() ? 0 : atoi(known.c_str() + 1);
}

int number_in(const char* variable) {
    const char* const text = getenv(variable);
    return text ? atoi(text) : 0;
}

// False: nobody can tell.
bool find_started(int pid, const std::vector<int>& threads, std::vector<int>* started) {
    for (const int thread : threads) {
        const ProcText<8192> text((folder_of(pid) + "/task/" + std::to_string(thread) + "/children").c_str());
        if (text.length < 0 && errno == ENOENT)
            continue;  // some kernels do not tell, and of some threads nothing is left
        if (!text.is_whole()) return false;
        char* rest = nullptr;
        for (const char* at = text.bytes; const long child = strtol(at, &rest, 10); at = rest)
            if (!is_gone(static_cast<int>(child))) started->push_back(static_cast<int>(child));
    }
    return true;
}

constexpr int64_t kYoungNs = 2'000'000'000;  // for so long who has not used a port may only have been started

bool is_young(int pid, int thread) {
    const ProcText<512> text((folder_of(pid) + "/task/" + std::to_string(thread) + "/stat").c_str());
    const char* at = strrchr(text.bytes, ')');
    for (int field = 2; at && field < 22; ++field) at = strchr(at + 1, ' ');  // of which the second is the name
    if (!at) return false;
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    const int64_t started = strtoll(at + 1, nullptr, 10) * (1'000'000'000 / sysconf(_SC_CLK_TCK));
    return now.tv_sec * 1'000'000'000ll + now.tv_nsec - started < kYoungNs;
}

// As find_mover, at one look; `top`: the first of them, who reads from a pipe for whoever else.
int look_below(int pid, bool top, bool quiet, Ages ages, const IsKnown& is_known, std::vector<Sleeper>* asleep) {
    std::vector<int> unknown, started;
    const std::vector<int> threads = threads_of(pid);
    const auto self = static_cast<int>(syscall(SYS_gettid));  // which asks
    std::copy_if(threads.begin(), threads.end(), std::back_inserter(unknown),
                 [&](int thread) { return thread != self && !is_known(pid, thread); });
    if (!top && unknown.size() < threads.size()) return 0;
    if (!find_started(pid, threads, &started)) return pid;
    for (const int thread : unknown) {
        if (ages == Ages::young && !is_young(pid, thread)) continue;
        asleep->emplace_back(pid, thread, switches(pid, thread));
        const Sleep sleep = sleep_of(pid, thread);
        const bool sleeps = sleep == Sleep::pipe ? !top || !started.empty() : sleep != Sleep::none;
        if (!sleeps && !(quiet && state_of(pid, thread) != ThreadState::running)) return pid;
    }
    for (const int child : started)
        if (const int mover = look_below(child, false, quiet, ages, is_known, asleep)) return mover;
    return 0;
}

}  // namespace

void find_starters(int32_t (&starters)[kStarters]) {
    const int before = errno;
    const int launcher = number_in("WILKINS_STARTER"), first = number_in("WILKINS_RANK_PID");
    const int self = getpid();
    int pid = self;
    for (int32_t& starter : starters) {
        starter = 0;
        if (pid == 0 || pid == first) continue;
        pid = pid == self ? getppid()
                          : parent_of(pid);  // the usual program, which the launcher has started, reads nothing
        if (pid == launcher || pid == 1) pid = 0;
        starter = pid;
    }
    errno = before;
}

bool is_gone(int pid) {
    const int before = errno;
    const std::string known = state_and_parent(pid);
    errno = before;
    return known.empty() || known[0] == 'Z' || known[0] == 'X';
}

int find_mover(int pid, bool quiet, Ages ages, const IsKnown& is_known) {
    const int before = errno;
    // One that was looked at first may be woken by one that is looked at last: at the second look none has moved since
    // the first.
    std::vector<Sleeper> first, second;
    int mover = look_below(pid, true, quiet, ages, is_known, &first);
    if (!mover) mover = look_below(pid, true, quiet, ages, is_known, &second);
    if (!mover && first != second) mover = pid;
    errno = before;
    return mover;
}

}  // namespace wilkins
