// Writing the run's trace.
#include "trace.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "raw.hpp"

namespace wilkins::trace {

namespace {

// No name can break the lines and columns of the file.
void append_clean(char*& to, const char* text) {
    for (; *text; ++text) *to++ = static_cast<unsigned char>(*text) < 0x20 ? '?' : *text;
}

void append(const Board& board, const char* text, size_t length) {
    const char* path = board.head().trace_file;
    // Opened anew each time: the program may close any descriptor that it did not open, and open another in its place.
    const int fd = raw::open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    struct rlimit limit;
    const bool limited = getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
    sigset_t only, mask;
    if (limited) {  // to write past the limit is a signal that would end the program
        sigemptyset(&only);
        sigaddset(&only, SIGXFSZ);
        pthread_sigmask(SIG_BLOCK, &only, &mask);
    }
    ssize_t done = raw::write(fd, text, length);
    static_cast<void>(done);
    raw::close(fd);
    if (limited) {
        const struct timespec now = {0, 0};
        while (!sigismember(&mask, SIGXFSZ) && sigtimedwait(&only, nullptr, &now) > 0) {}
        pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    }
}

}  // namespace

void note(const Board& board, const char* event, int task, int rank, const char* pattern, const char* name, int64_t sequence,
          int64_t bytes) {
    BoardRecord& head = board.head();
    if (!head.trace_file[0]) return;
    constexpr size_t kNumbers = 160;  // the longest that the columns of numbers and the event can be
    const TaskRecord& record = board.task(task);
    const size_t most = strlen(record.name) + strlen(pattern) + strlen(name) + kNumbers;
    if (most > sizeof(head.events)) return;
    if (head.events_end + most > sizeof(head.events)) {  // a step for very many channels
        append(board, head.events, head.events_end);
        head.events_end = 0;
    }
    char* to = head.events + head.events_end;
    to += snprintf(to, kNumbers, "%lld\t%s\t", static_cast<long long>(now_ns()), event);
    append_clean(to, record.name);
    to += snprintf(to, kNumbers, "\t%d\t", rank);
    append_clean(to, pattern);
    *to++ = '\t';
    append_clean(to, name);
    to += snprintf(to, kNumbers, "\t%lld\t%lld\n", static_cast<long long>(sequence), static_cast<long long>(bytes));
    head.events_end = static_cast<uint32_t>(to - head.events);
}

void write(const Board& board) {
    BoardRecord& head = board.head();
    const int before = errno;
    append(board, head.events, head.events_end);
    head.events_end = 0;
    errno = before;
}

void release_and_write(const Board& board) {
    BoardRecord& head = board.head();
    char lines[sizeof(head.events)];
    const size_t length = head.events_end;
    memcpy(lines, head.events, length);
    head.events_end = 0;
    pthread_mutex_unlock(&head.mutex);
    const int before = errno;
    append(board, lines, length);
    errno = before;
}

}  // namespace wilkins::trace
