// Opening steps: what a program's intent and the direction of its port make of a name.
#include "store/store.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <initializer_list>

#include "base/fault.hpp"
#include "queue/vain_opens.hpp"
#include "store/far_file.hpp"
#include "store/joined.hpp"
#include "store/left_open.hpp"
#include "store/parts.hpp"
#include "store/stage.hpp"

namespace wilkins {

StepFile* open_step(const Match& match, Intent intent, int ranks, int* error) {
    Process& p = process();
    *error = 0;
    const bool creates = intent == Intent::create || intent == Intent::create_exclusive || intent == Intent::create_missing ||
                         intent == Intent::open_or_create;
    const bool produces = match.outport >= 0 && (creates || intent == Intent::update || match.inport < 0);
    if (!produces && creates) {
        log_line("error: task '%s' rank %d creates '%s', which is one of its in-ports; only the task that produces a file may create it",
                 p.task_name(), p.told_rank(), match.name);
        *error = EACCES;
        return nullptr;
    }
    p.board.port(produces ? match.outport : match.inport).touched = 1;
    if (produces) left_open::settle_own();
    StepFile* file = nullptr;
    switch (intent) {
    case Intent::create:
    case Intent::create_exclusive:
    case Intent::create_missing: file = create(match, intent, error); break;
    case Intent::open_or_create:
        file = continue_own(match, error);
        if (!file && *error == ENOENT) file = open_elsewhere(match, true, error);
        if (!file && *error == ENOENT) file = create(match, Intent::create, error);
        break;
    case Intent::read:
    case Intent::look: 
        file = produces ? joined::open(match, error) : read_step(match, intent, ranks, error);
        if (!file && produces && !*error) file = reread_own(match, error);
        if (!file && produces && *error == ENOENT) {  // another process may have begun to write it since
            file = joined::open(match, error);
            if (!file && !*error) *error = ENOENT;
        }
        if (!file && produces && *error == ENOENT) file = open_elsewhere(match, false, error);
        break;
    case Intent::update:
        if (produces) {
            file = continue_own(match, error);
            if (!file && *error == ENOENT) file = open_elsewhere(match, true, error);
        } else {
            file = read_step(match, Intent::read, ranks, error);
            if (file) file = to_draft(file, match, error);
        }
        break;
    }
    if (file) *error = 0;
    if (file && produces) stage::note_opened(p, match, file);
    return file;
}

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
    if (queue::may_go_on(p.me().vain_open)) queue::note_went_on(p.board, p.rank_index, asker(), how, to);
}

void note_written(const char* name) {
    const Process& p = process();
    if (!p.context.active || !queue::may_go_on(p.me().vain_open) || !name || is_nobodys(name)) return;
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
    const VainOpen* const last = queue::last_vain_open(p.board, p.context.task);
    return last && queue::ends_loop(*last) && last->went_on == WentOn::no;
}

void leave_mpi(bool leaves) {
    const Process& p = process();
    if (!p.context.active) return;
    Board::Lock lock(p.board);
    p.me().leaving = leaves ? p.board.self() : 0;
    WILKINS_FAULT_POINT("leave.noted");
    ++p.board.head().moves;
}

}  // namespace wilkins
