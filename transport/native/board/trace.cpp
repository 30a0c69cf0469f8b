// Writing the run's trace.
#include "board/trace.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/fault.hpp"
#include "base/raw.hpp"

namespace wilkins::trace {

namespace {

// A line on its way to the ring. It is there with its last store.
class Line {
public:
    explicit Line(BoardRecord& head) : head_(head), end_(head.events_end.load(std::memory_order_relaxed)) {}
    void put(const char* text) {
        for (; *text; ++text) head_.events[end_++ % kTraceRoom] = *text;
    }
    // No name can break the lines and columns of the file.
    void put_clean(const char* text) {
        for (; *text; ++text) head_.events[end_++ % kTraceRoom] = static_cast<unsigned char>(*text) < 0x20 ? '?' : *text;
    }
    void end(bool urgent) {
        if (urgent) head_.events_urgent.store(end_, std::memory_order_relaxed);
        head_.events_end.store(end_, std::memory_order_release);
    }

private:
    BoardRecord& head_;
    uint64_t end_;
};

// Is all of it there?
bool append(const Board& board, const struct iovec* parts, int count) {
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
    const ssize_t done = syscall(SYS_writev, fd, parts, count);
    raw::close(fd);
    if (limited) {
        const struct timespec now = {0, 0};
        while (!sigismember(&mask, SIGXFSZ) && sigtimedwait(&only, nullptr, &now) > 0) {}
        pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    }
    size_t length = 0;
    for (int k = 0; k < count; ++k) length += parts[k].iov_len;
    return done == static_cast<ssize_t>(length);
}

// Must it be on disk before anybody can act on it, in a run that may be gone on with? What others did before it is there by then,
// too: events are written in their order. So a step that somebody opens can wait for what comes of it.
bool is_urgent(const char* event) {
    for (const char* urgent : {"publish", "remake", "back", "file", "start", "end", "done"})
        if (strcmp(event, urgent) == 0) return true;
    return false;
}

// As it stands in wilkins/flow/trace.py. What was written before it has an end of line, whole or not.
char again[] = "\nagain\n";

// For whoever holds the trace's lock, and may die at any moment. `anew`: the last one has died.
void write_out(const Board& board, bool anew) {
    BoardRecord& head = board.head();
    const uint64_t begin = head.events_written.load(), end = head.events_end.load(std::memory_order_acquire);
    bool whole = true;
    if (anew && head.events_halfway > begin) {
        const struct iovec mark = {again, sizeof(again) - 1};
        whole = append(board, &mark, 1);
    }
    head.events_halfway = end;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    WILKINS_FAULT_POINT("trace.begun");
    const uint64_t first = begin % kTraceRoom, room = kTraceRoom - first, length = end - begin;
    const struct iovec parts[] = {{head.events + first, std::min(length, room)}, {head.events, length > room ? length - room : 0}};
    whole = append(board, parts, 2) && whole;
    WILKINS_FAULT_POINT("trace.written");
    if (!whole && head.trace_at_once) head.trace_stopped = 1;
    head.events_written.store(end);
}

}  // namespace

void note(const Board& board, const char* event, int task, int rank, const char* pattern, const char* name, int64_t sequence,
          int64_t bytes, int64_t time_ns) {
    BoardRecord& head = board.head();
    if (!head.trace_file[0] || head.trace_stopped) return;
    constexpr size_t kNumbers = 160;  // the longest that the columns of numbers and the event can be
    const TaskRecord& record = board.task(task);
    const size_t most = strlen(record.name) + strlen(pattern) + strlen(name) + kNumbers;
    if (head.events_end.load() + most > head.events_written.load() + kTraceRoom) {  // a step for thousands of channels
        if (head.trace_at_once) head.trace_stopped = 1;
        return;
    }
    char numbers[kNumbers];
    Line line(head);
    snprintf(numbers, sizeof(numbers), "%lld\t%s\t", static_cast<long long>(time_ns), event);
    line.put(numbers);
    line.put_clean(record.name);
    snprintf(numbers, sizeof(numbers), "\t%d\t", rank);
    line.put(numbers);
    line.put_clean(pattern);
    line.put("\t");
    line.put_clean(name);
    snprintf(numbers, sizeof(numbers), "\t%lld\t%lld\n", static_cast<long long>(sequence), static_cast<long long>(bytes));
    line.put(numbers);
    line.end(is_urgent(event));
}

void hurry(const Board& board) { board.head().events_urgent.store(board.head().events_end.load(), std::memory_order_relaxed); }

bool write_until(const Board& board, uint64_t end, int64_t until) {
    BoardRecord& head = board.head();
    while (head.events_written.load() < end) {
        const Taken taken = board.take(head.trace_lock, until);
        if (taken == Taken::not_yet) return false;
        const int before = errno;
        if (taken == Taken::from_dead || head.events_written.load() < end) write_out(board, taken == Taken::from_dead);
        errno = before;
        give_back(head.trace_lock.lock);
    }
    return true;
}

}  // namespace wilkins::trace
