// Writing the run's trace.
#include "trace.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "fault.hpp"
#include "raw.hpp"

namespace wilkins::trace {

namespace {

// No name can break the lines and columns of the file.
void append_clean(char*& to, const char* text) {
    for (; *text; ++text) *to++ = static_cast<unsigned char>(*text) < 0x20 ? '?' : *text;
}

// Is all of it there?
bool append(const Board& board, const char* text, size_t length) {
    const char* path = board.head().trace_file;
    // Opened anew each time: the program may close any descriptor that it did not open, and open another in its place.
    const int fd = raw::open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    struct rlimit limit;
    const bool limited = getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
    sigset_t only, mask;
    if (limited) {  // to write past the limit is a signal that would end the program
        sigemptyset(&only);
        sigaddset(&only, SIGXFSZ);
        pthread_sigmask(SIG_BLOCK, &only, &mask);
    }
    const ssize_t done = raw::write(fd, text, length);
    raw::close(fd);
    if (limited) {
        const struct timespec now = {0, 0};
        while (!sigismember(&mask, SIGXFSZ) && sigtimedwait(&only, nullptr, &now) > 0) {}
        pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    }
    return done == static_cast<ssize_t>(length);
}

// Must it be on disk before anybody can act on it, in a run that may be gone on with? What others did before it is there by then,
// too: events are written in their order. So a step that somebody opens can wait for what comes of it.
bool is_urgent(const char* event) {
    for (const char* urgent : {"publish", "file", "start", "end", "done"})
        if (strcmp(event, urgent) == 0) return true;
    return false;
}

// As it stands in wilkins/flow/trace.py. What was written before it has an end of line, whole or not.
constexpr char kAgain[] = "\nagain\n";

// What is on the board goes to the file. For whoever holds the lock, and may die at any moment.
void write_out(const Board& board) {
    BoardRecord& head = board.head();
    head.events_halfway = 1;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    const bool whole = append(board, head.events, head.events_end);
    WILKINS_FAULT_POINT("trace.written");
    head.events_end = 0;
    head.events_urgent = 0;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    head.events_halfway = 0;
    if (!whole && head.trace_at_once) head.trace_stopped = 1;
}

}  // namespace

void note(const Board& board, const char* event, int task, int rank, const char* pattern, const char* name, int64_t sequence,
          int64_t bytes, int64_t time_ns) {
    BoardRecord& head = board.head();
    if (!head.trace_file[0] || head.trace_stopped) return;
    constexpr size_t kNumbers = 160;  // the longest that the columns of numbers and the event can be
    const TaskRecord& record = board.task(task);
    const size_t most = strlen(record.name) + strlen(pattern) + strlen(name) + kNumbers;
    if (most > sizeof(head.events)) return;
    if (head.events_end + most > sizeof(head.events)) {  // a step for very many channels
        write_out(board);
        if (head.trace_stopped) return;
    }
    char* to = head.events + head.events_end;
    to += snprintf(to, kNumbers, "%lld\t%s\t", static_cast<long long>(time_ns), event);
    append_clean(to, record.name);
    to += snprintf(to, kNumbers, "\t%d\t", rank);
    append_clean(to, pattern);
    *to++ = '\t';
    append_clean(to, name);
    to += snprintf(to, kNumbers, "\t%lld\t%lld\n", static_cast<long long>(sequence), static_cast<long long>(bytes));
    head.events_end = static_cast<uint32_t>(to - head.events);
    if (is_urgent(event)) head.events_urgent = 1;
}

void write(const Board& board) {
    const int before = errno;
    write_out(board);
    errno = before;
}

void repair(const Board& board) {
    BoardRecord& head = board.head();
    if (!head.events_halfway) return;
    const int before = errno;
    if (!append(board, kAgain, sizeof(kAgain) - 1) && head.trace_at_once) head.trace_stopped = 1;
    head.events_halfway = 0;
    if (head.trace_stopped) head.events_end = 0;
    errno = before;
}

void release_and_write(const Board& board) {
    BoardRecord& head = board.head();
    char lines[sizeof(head.events)];
    const size_t length = head.events_end;
    memcpy(lines, head.events, length);
    head.events_end = 0;
    give_back(head.lock);
    const int before = errno;
    append(board, lines, length);
    errno = before;
}

}  // namespace wilkins::trace
