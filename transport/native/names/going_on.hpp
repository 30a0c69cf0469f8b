// Whether a program goes on after a failed open (queue/failed_opens.hpp).
#pragma once

#include "board/process.hpp"
#include "queue/failed_opens.hpp"

namespace wilkins {

// This process, to say whose open failed.
queue::Asker asker();

// It goes on, if it has: with a step, or with a file that it writes. Call with the lock held.
void note_went_on(const Process& p, WentOn how, const char* to);

// The program has opened a file of the disk for writing: if it fails, that is not since its input has ended.
void note_written(const char* name);

// True if this task's program met the end of a stream, as a loop does, in its last failed open.
bool met_end();

}  // namespace wilkins
