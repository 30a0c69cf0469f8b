// The run's trace: one line per event, in a file that `wilkins trace` reads (wilkins/flow/trace.py says what a line
// holds).
#pragma once

#include "board/board.hpp"

namespace wilkins::trace {

// Keeps an event on the board, from where many are written at once: by the launcher, every second and at the end of the
// run, and before that by whoever finds them to be too many. Call with the board's lock held. `pattern` belongs to the
// task; `rank` is -1 for the whole task, `name` "-" and the numbers -1 where there is nothing to say, `time_ns` of the
// monotonic clock. No-op in a run without a trace file.
void note(const Board& board, const char* event, int task, int rank, const char* pattern, const char* name,
          int64_t sequence, int64_t bytes, int64_t time_ns = now_ns());

// What has been noted up to now must be in the trace file, in a run that may be gone on with, before the board is
// unlocked: another host is going to act on it. Call with the board's lock held.
void hurry(const Board& board);

// Returns when the events up to there (see BoardRecord::events_end) are in the trace file: writes them, or waits for
// whoever does. Call without the board's lock. What a process was writing when it died comes again, after a mark that
// says so. Errors are passed over, errno is kept, and a limit on file sizes does not end the program; but where the run
// may be gone on with, no event comes after one that could not be written, so that nobody is misled. False if others
// write for longer than until then.
bool write_until(const Board& board, uint64_t end, int64_t until);

}  // namespace wilkins::trace
