// The run's trace: one line per event, in a file that `wilkins trace` reads (wilkins/flow/trace.py says what a line holds).
#pragma once

#include "board.hpp"

namespace wilkins::trace {

// Keeps an event on the board, from where many are written at once: by the launcher, every second and at the end of the run,
// and before that by whoever finds them to be too many. Call with the board's lock held. `pattern` belongs to the task; `rank` is -1 for
// the whole task, `name` "-" and the numbers -1 where there is nothing to say, `time_ns` of the monotonic clock. No-op in a run without a trace file.
void note(const Board& board, const char* event, int task, int rank, const char* pattern, const char* name, int64_t sequence,
          int64_t bytes, int64_t time_ns = now_ns());

// Unlocks the board and appends the events that were on it to the trace file: nobody waits for the file. Errors are passed
// over, errno is kept, and a limit on file sizes does not end the program.
void release_and_write(const Board& board);

// The same before the board is unlocked: nobody can have seen what happened unless the file tells it, also if all are killed. If the
// file cannot take it all, no event comes after it, so that nobody is misled by those that follow.
void write(const Board& board);

// After the death of a process that held the lock: what it was writing comes again, after a mark that says so.
void repair(const Board& board);

}  // namespace wilkins::trace
