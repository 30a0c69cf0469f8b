// The table of descriptors that lead to steps: who enters it and leaves it, and what is done with all that are in it.
#include "posix/table.hpp"

#include <pthread.h>

#include <cstdlib>
#include <cstring>

#include "base/raw.hpp"
#include "events.hpp"
#include "steps/draft.hpp"
#include "steps/inherited.hpp"
#include "steps/left_open.hpp"
#include "steps/viewers.hpp"

namespace wilkins::posix {

std::atomic<OpenStep*> table[kMostDescriptors];
std::atomic<int> entries{0};
std::atomic<int> highest{-1};
std::mutex leaving;
std::atomic<bool> has_left{false};

bool enter(int fd, OpenStep* step) {
    if (fd >= kMostDescriptors) return false;
    forget(fd);
    table[fd] = step;
    ++entries;
    int seen = highest;
    while (seen < fd && !highest.compare_exchange_weak(seen, fd)) continue;
    return true;
}

namespace {

OpenStep* take_out(int fd) {
    std::lock_guard<std::mutex> lock(leaving);
    OpenStep* step = find(fd);
    if (!step || !table[fd].compare_exchange_strong(step, nullptr)) return nullptr;
    --entries;
    return step;
}

// A process that ends without closing has written its file all the same. Runs after HDF5's own exit handler.
__attribute__((destructor)) void finish_all() try {
    if (entries > 0) {
        fflush(nullptr);
        forget_range(0, kMostDescriptors);
    }
    inherited::settle_own(false);
    settle_drafts();
}
WILKINS_OR()

// Handlers of quick_exit run in reverse order, and the C library ends the process by itself after them.
__attribute__((constructor)) void watch_quick_exit() { at_quick_exit(end_process); }

// No fork while the process attaches, or an entry leaves the table: in the child nobody would ever be done with that.
void before_fork() {
    hand_all_to_child();
    hold_attaching();
    leaving.lock();
    for (int fd = 0; entries > 0 && fd <= highest; ++fd)
        if (OpenStep* const step = find(fd)) step->note_fork();
    viewers::before_fork();
}

template <bool child>
void after_fork() {
    viewers::after_fork(child);
    leaving.unlock();
    let_attach();
}

__attribute__((constructor)) void watch_forks() { pthread_atfork(before_fork, after_fork<false>, after_fork<true>); }

}  // namespace

OpenStep* find(int fd) {
    if (entries.load(std::memory_order_relaxed) == 0 || fd < 0 || fd >= kMostDescriptors) return nullptr;
    OpenStep* step = table[fd].load(std::memory_order_acquire);
    return step && step->mine() ? step : nullptr;
}

void note_late(int fd) {
    if (entries.load(std::memory_order_relaxed) == 0 || fd < 0 || fd >= kMostDescriptors) return;
    OpenStep* const step = table[fd].load(std::memory_order_acquire);
    if (!step || !step->is_published_without_fork()) return;
    if (table[fd].exchange(nullptr) != step) return;
    log_event(event::late_fork(step->name()));
}

bool describe_open(const Match& match, bool written, struct stat* st) {
    if (entries == 0) return false;
    std::lock_guard<std::mutex> lock(leaving);
    for (int fd = 0; fd <= highest; ++fd) {
        OpenStep* step = find(fd);
        if (!step || (written && !step->writable()) || strcmp(step->name(), match.name) != 0 || step->has_lost_name())
            continue;
        struct stat by_kernel;
        const bool native = step->native(fd) && raw::fstat(fd, &by_kernel) == 0;
        step->describe(st);
        if (native) st->st_size = by_kernel.st_size;
        return true;
    }
    return false;
}

void follow_name(const Match& from, const Match& to) {
    if (entries == 0) return;
    std::lock_guard<std::mutex> lock(leaving);
    for (int fd = 0; fd <= highest; ++fd)
        if (OpenStep* const step = find(fd)) step->follow_name(from, to);
}

StepFile* take_lead(const Match& match) {
    if (entries == 0 || match.outport < 0) return nullptr;
    std::lock_guard<std::mutex> lock(leaving);
    for (int fd = 0; fd <= highest; ++fd)
        if (OpenStep* const open = find(fd))
            if (StepFile* const lead = open->give_lead(match, fd)) return lead;
    return nullptr;
}

void hand_all_to_child() {
    if (entries == 0) return;
    const int before = errno;
    std::lock_guard<std::mutex> lock(leaving);
    for (int fd = 0; fd <= highest; ++fd) {
        OpenStep* const step = find(fd);
        if (step) step->hand_to_child(fd);
    }
    errno = before;
}

void leave_all() {
    if (entries == 0) return;
    std::lock_guard<std::mutex> lock(leaving);
    for (int fd = 0; fd <= highest; ++fd)
        if (OpenStep* step = find(fd)) step->leave_to_next(fd);
}

// (A signal handler may end the process in the midst of what holds the board: others find it dead then.)
void end_process() try {
    if (Board::Lock::is_held()) return;
    if (entries > 0) forget_range(0, kMostDescriptors);
    left_open::end_process();
}
WILKINS_OR()

void take_back_all() {
    if (entries == 0) return;
    std::lock_guard<std::mutex> lock(leaving);
    for (int fd = 0; fd <= highest; ++fd)
        if (OpenStep* step = find(fd)) step->take_back();
}

void note_unmapped() {
    settle_drafts();
    if (has_left) inherited::settle_own(false);
}

void adopt_duplicate(int fd, int copy) {
    OpenStep* step = find(fd);
    if (!step || copy < 0) return;
    ++step->references;
    if (!enter(copy, step)) --step->references;
    // A step that becomes standard input or output is about to be handed to another program, whose calls are not seen.
    if (copy > kLastStandard) return;
    step->settle();
    step->hand_to_child(copy);
}

int forget(int fd) {
    OpenStep* step = take_out(fd);
    if (!step || --step->references > 0) return 0;
    const int error = step->finish(fd);
    delete step;
    if (has_left) inherited::settle_own(false);
    return error;
}

void forget_range(unsigned first, unsigned last) {
    if (entries == 0) return;
    for (int fd = highest; fd >= 0; --fd)
        if (static_cast<unsigned>(fd) >= first && static_cast<unsigned>(fd) <= last) forget(fd);
}

}  // namespace wilkins::posix
