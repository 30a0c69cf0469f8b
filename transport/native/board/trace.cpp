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
#include <climits>
#include <cstring>

#include "base/fault.hpp"
#include "base/raw.hpp"

namespace wilkins::trace {

namespace {

constexpr size_t kNumbers = 160;  // the longest that the columns of numbers and the event can be
constexpr size_t kLongestLine = sizeof(TaskRecord::name) + size_t{2} * PATH_MAX + kNumbers;

// A line on its way to the ring. It is there with the last store of `end`.
class Line {
public:
    explicit Line(BoardRecord& head) : head_(head) {}
    void put(char letter) { text_[length_++] = letter; }
    void put(const char* text, size_t length) {
        memcpy(text_ + length_, text, length);
        length_ += length;
    }
    // No name can break the lines and columns of the file.
    void put_clean(const char* text, size_t length) {
        for (size_t k = 0; k < length; ++k)
            text_[length_ + k] = static_cast<unsigned char>(text[k]) < 0x20 ? '?' : text[k];
        length_ += length;
    }
    void put_number(int64_t value) {
        char digits[20];  // as many as any has
        int n = 0;
        uint64_t rest = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
        do digits[n++] = static_cast<char>('0' + rest % 10);
        while (rest /= 10);
        if (value < 0) put('-');
        while (n) put(digits[--n]);
    }
    void end(bool urgent) {
        const uint64_t begin = head_.events_end.load(std::memory_order_relaxed), end = begin + length_;
        const size_t first = begin % kTraceRoom, room = std::min<size_t>(length_, kTraceRoom - first);
        memcpy(head_.events + first, text_, room);
        memcpy(head_.events, text_ + room, length_ - room);
        if (urgent) head_.events_urgent.store(end, std::memory_order_relaxed);
        head_.events_end.store(end, std::memory_order_release);
    }

private:
    BoardRecord& head_;
    size_t length_ = 0;
    char text_[kLongestLine];
};

// True if all of it is there.
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

// True if it must be on disk before anybody can act on it, in a run that can be resumed. What others did before it is
// there by then, too: events are written in their order. So a step that somebody opens can wait for what comes of it.
bool is_urgent(const char* event) {
    if (event[0] == 'o' || event[0] == 'c') return false;  // open, close, create: of each step
    for (const char* urgent : {"publish", "remake", "back", "file", "start", "end", "done"})
        if (strcmp(event, urgent) == 0) return true;
    return false;
}

// The format is that of wilkins/flow/trace.py. What was written before it has an end of line, whole or not.
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
    const struct iovec parts[] = {{head.events + first, std::min(length, room)},
                                  {head.events, length > room ? length - room : 0}};
    whole = append(board, parts, 2) && whole;
    WILKINS_FAULT_POINT("trace.written");
    if (!whole && head.trace_at_once) head.trace_stopped = 1;
    head.events_written.store(end);
}

}  // namespace

void note(const Board& board, const char* event, int task, int rank, const char* pattern, const char* name,
          int64_t sequence, int64_t bytes, int64_t time_ns) {
    BoardRecord& head = board.head();
    if (!head.trace_file[0] || head.trace_stopped) return;
    const TaskRecord& record = board.task(task);
    const size_t of_task = strlen(record.name), of_pattern = strlen(pattern), of_name = strlen(name);
    const size_t most = of_task + of_pattern + of_name + kNumbers;
    if (most > kLongestLine) return;                                                // no name on the board is so long
    if (head.events_end.load() + most > head.events_written.load() + kTraceRoom) {  // a step for thousands of channels
        if (head.trace_at_once) head.trace_stopped = 1;
        return;
    }
    Line line(head);
    line.put_number(time_ns);
    line.put('\t');
    line.put(event, strlen(event));
    line.put('\t');
    line.put_clean(record.name, of_task);
    line.put('\t');
    line.put_number(rank);
    line.put('\t');
    line.put_clean(pattern, of_pattern);
    line.put('\t');
    line.put_clean(name, of_name);
    line.put('\t');
    line.put_number(sequence);
    line.put('\t');
    line.put_number(bytes);
    line.put('\n');
    line.end(is_urgent(event));
}

void hurry(const Board& board) {
    board.head().events_urgent.store(board.head().events_end.load(), std::memory_order_relaxed);
}

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
