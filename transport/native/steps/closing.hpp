// What the end of a step, or of a hold on one, does.
#pragma once

#include "steps/step_file.hpp"

namespace wilkins {

// For disk::settle: where a run may be gone on with, the trace tells what is about to lie under the program's name.
void note_file(const Board& board, int slot, const char* hidden, const char* path, uint64_t inode);

// The process begins a file: those that it leaves open to its end are going to be published in the order in which they
// were begun.
void watch_exit();

// Logs that a closed file is not going to be published.
void log_discarded(const Board& board, const SlotRecord& slot);

// The reader's hold on its step ends, if it has not. Call with the board's lock held.
void end_hold(const Process& p, StepFile::State* state);

}  // namespace wilkins
