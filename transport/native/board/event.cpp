#include "board/event.hpp"

#include <fcntl.h>
#include <time.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "base/raw.hpp"
#include "board/process.hpp"
#include "events.hpp"

namespace wilkins {

namespace {

constexpr size_t kMostOfText = 900;  // bytes of an argument that are logged
constexpr size_t kLine = sizeof(BoardRecord::failure);
constexpr size_t kWords = kLine - 6 * kMostOfText;  // of a line, for people: its end is always whole

// What fits of a text.
class Text {
public:
    Text(char* out, size_t room) : out_(out), at_(out) { give(room); }

    // From now on, so many bytes of it are used.
    void give(size_t room) {
        end_ = out_ + room - 1;
        *at_ = 0;
    }
    void add(char c) {
        if (at_ == end_) return;
        *at_++ = c;
        *at_ = 0;
    }
    void add(const char* text) {
        while (*text) add(*text++);
    }
    void add(int64_t number) {
        char digits[32];
        snprintf(digits, sizeof(digits), "%" PRId64, number);
        add(digits);
    }
    // One that may hold any bytes. `quoted`: as JSON has it.
    void add_escaped(const char* text, bool quoted) {
        const char* const most = at_ + kMostOfText;
        for (; *text && at_ < most; ++text) {
            char escaped[8] = {*text};
            if (const auto byte = static_cast<unsigned char>(*text); byte < 0x20)
                snprintf(escaped, sizeof(escaped), "\\u%04x", byte);
            else if (quoted && (*text == '"' || *text == '\\')) add('\\');
            add(escaped);
        }
    }
    size_t length() const { return static_cast<size_t>(at_ - out_); }

private:
    char* out_;
    char* at_;
    char* end_;
};

struct Speaker {
    const char* task;
    int rank;
};

Speaker speaker(const Process& p) { return {p.task_name(), p.task_rank()}; }

void add_argument(Text& out, const event::Argument& argument) {
    if (argument.is == event::Argument::kNumber) out.add(argument.number);
    else if (argument.is == event::Argument::kErrno) out.add(strerror(static_cast<int>(argument.number)));
    else if (argument.is == event::Argument::kText) out.add_escaped(argument.text, false);
    else out.add(argument.text);
}

void add_words(Text& out, const Speaker& who, const Event& event) {
    for (const char* c = event.text; *c; ++c) {
        if (*c != '\1') out.add(*c);
        else if (*++c == 't') out.add(who.task);
        else if (*c == 'r') out.add(int64_t{who.rank});
        else add_argument(out, event.arguments[*c - 'a']);
    }
}

void add_code(Text& out, const event::Argument& argument) {
    if (argument.is == event::Argument::kWord) return out.add(argument.code);
    if (argument.is != event::Argument::kText) return out.add(argument.number);
    out.add('"');
    out.add_escaped(argument.text, true);
    out.add('"');
}

// <task>[<rank>] <kind: English> TAB <code> TAB [<task>,<rank>,<arguments>]: what the launcher reads of it is always
// whole.
void add_line(Text& out, const Speaker& who, const Event& event) {
    out.give(kWords);
    out.add(who.task);
    out.add('[');
    out.add(int64_t{who.rank});
    out.add("] ");
    out.add(event.kind);
    add_words(out, who, event);
    out.give(kLine - 1);  // and a newline
    out.add('\t');
    out.add(event.code);
    out.add("\t[\"");
    out.add(who.task);
    out.add("\",");
    out.add(int64_t{who.rank});
    for (int k = 0; k < event.count; ++k) {
        out.add(',');
        add_code(out, event.arguments[k]);
    }
    out.add(']');
}

void write_line(const Board& board, const Speaker& who, const Event& event) {
    const char* const file = board.head().log_file;
    if (!file[0]) return;
    char line[kLine];
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    char stamp[48];
    snprintf(stamp, sizeof(stamp), "%lld.%03ld ", static_cast<long long>(t.tv_sec), t.tv_nsec / 1000000);
    Text out(line, kLine);
    out.add(stamp);
    add_line(out, who, event);
    out.give(kLine);
    out.add('\n');
    // Nobody waits for a file system to have the board.
    if (!Board::Lock::keep_line(file, line, out.length())) write_log(file, line, out.length());
}

void note_failure(const Board& board, int task, const Speaker& who, const Event& event) {
    char* const failure = board.head().failure;
    if (!failure[0]) {
        Text out(failure, kLine);
        add_line(out, who, event);
    }
    board.task(task).met_failure = 1;
    write_line(board, who, event);
}

}  // namespace

void log_event(const Event& event) {
    const Process& p = process();
    if (p.context.active) write_line(p.board, speaker(p), event);
}

void log_event_for(const Board& board, int task, int rank, const Event& event) {
    write_line(board, {board.task(task).name, rank}, event);
}

bool is_logged(const PortRecord& port, Once once) {
    return port.logged.load(std::memory_order_relaxed) & static_cast<uint32_t>(once);
}

void log_once(PortRecord& port, Once once, const Event& event) {
    if (!(port.logged.fetch_or(static_cast<uint32_t>(once)) & static_cast<uint32_t>(once))) log_event(event);
}

void fail_run(const Process& p, const Event& event) { note_failure(p.board, p.context.task, speaker(p), event); }

void fail_run_for(const Board& board, int task, int rank, const Event& event) {
    note_failure(board, task, {board.task(task).name, rank}, event);
}

void word_event(const Event& event, char* out, size_t room) {
    Text text(out, room);
    add_words(text, speaker(process()), event);
}

void write_log(const char* file, const char* lines, size_t length) {
    const int before = errno;
    const int fd = raw::open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) {
        [[maybe_unused]] const ssize_t done = raw::write(fd, lines, length);
        raw::close(fd);
    }
    errno = before;
}

}  // namespace wilkins
