#include "names/going_on.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace wilkins {

namespace {

std::atomic<int64_t> began{0};  // this process, in ns

void note_began() { began.store(now_ns(), std::memory_order_relaxed); }

__attribute__((constructor)) void watch_begins() {
    note_began();
    pthread_atfork(nullptr, nullptr, note_began);
}

// Files that libraries write for themselves, and what is no file.
bool is_nobodys(const char* name) {
    for (const char* folder : {"/dev/", "/proc/", "/sys/"})
        if (strncmp(name, folder, strlen(folder)) == 0) return true;
    const bool hidden = strstr(name, "/.") && !strstr(name, "/./") && !strstr(name, "/../");
    return hidden || (name[0] == '.' && name[1] != '/' && name[1] != '.') || strstr(name, "__pycache__");
}

}  // namespace

queue::Asker asker() { return {getpid(), getppid(), began.load(std::memory_order_relaxed)}; }

void note_went_on(const Process& p, WentOn how, const char* to) {
    if (queue::may_go_on(p.me().failed_open)) queue::note_went_on(p.board, p.rank_index, asker(), how, to);
}

void note_written(const char* name) {
    const Process& p = process();
    if (!p.context.active || !queue::may_go_on(p.me().failed_open) || !name || is_nobodys(name)) return;
    const int saved = errno;
    {
        Board::Lock lock(p.board);
        note_went_on(p, WentOn::wrote, name);
    }
    errno = saved;
}

bool met_end() {
    const Process& p = process();
    if (!p.context.active) return false;
    Board::Lock lock(p.board);
    const FailedOpen* const last = queue::last_failed_open(p.board, p.context.task);
    return last && queue::ends_loop(*last) && last->went_on == WentOn::no;
}

}  // namespace wilkins
