// What the layer says in the run's log: events, which functions make that are generated from events.py (events.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace wilkins {

class Board;
struct PortRecord;
enum class Once : uint32_t;

namespace event {

// One of several: in JSON, and in English.
struct Word {
    const char* code;
    const char* text;
};

struct Errno {
    int error;
};

struct Argument {
    Argument() = default;
    Argument(const char* value) : is(kText), text(value) {}
    Argument(int64_t value) : is(kNumber), number(value) {}
    Argument(Errno value) : is(kErrno), number(value.error) {}
    Argument(Word value) : is(kWord), text(value.text), code(value.code) {}

    enum { kText, kNumber, kErrno, kWord } is = kNumber;
    const char* text = nullptr;
    const char* code = nullptr;
    int64_t number = 0;
};

inline constexpr int kMostArguments = 8;

struct Event {
    const char* code;
    const char* kind;  // "error: ", "hint: ", "note: ", or none
    const char* text;  // with a byte 1 and a letter in the place of each argument
    Argument arguments[kMostArguments];
    int count;

    template <class... Arguments>
    Event(const char* code, const char* kind, const char* text, Arguments... arguments)
        : code(code), kind(kind), text(text), arguments{arguments...}, count(sizeof...(arguments)) {}
};

}  // namespace event

using event::Event;

// One line into the run's log, of the process's rank. Nothing outside a run. Allocates nothing, but while the process
// holds a board.
void log_event(const Event& event);

// The same if none of its kind was in the log for the port.
void log_once(PortRecord& port, Once once, const Event& event);
bool is_logged(const PortRecord& port, Once once);

// The same in the name of a rank of a task, for the launcher.
void log_event_for(const Board& board, int task, int rank, const Event& event);

// Ends the run with an error that no program can mend; the first one counts. `rank`: of the task that fails. Call with
// the board's lock held.
void fail_run_for(const Board& board, int task, int rank, const Event& event);

// Its English alone, as the process's rank says it.
void word_event(const Event& event, char* out, size_t room);

// Appends lines to the run's log. Errors are passed over.
void write_log(const char* file, const char* lines, size_t length);

}  // namespace wilkins
