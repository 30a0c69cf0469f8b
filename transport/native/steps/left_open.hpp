// Files that are still open when their process ends, whatever ends it.
//
// HDF5 that was flushed and not written since is whole but for its marks of an open file: it is published. Of anything
// else nobody knows whether it is whole: it never existed for consumers, and the log says so. (What a program writes by
// descriptors is closed by the process itself, unless a signal ends that: see posix/table.cpp.)
#pragma once

#include "board/process.hpp"
#include "steps/step.hpp"

namespace wilkins::left_open {

// HDF5 has flushed the whole file.
void note_flushed(const StepFile* file);

// This process ends by itself: what it has flushed is published. The rest is for those who find it dead.
void end_process();

// What dead processes of this rank have left open is published, or discarded; of one source (number in the source
// table), or of all (-1). Costs a look at their slots where there is nothing.
void settle_own(int source = -1);

// The same for the launcher, of a task (-1: all). `ends`: no process of the task shares such files any more. Not to be
// called with the board's lock.
bool any(const Board& board, int task);
void settle(const Board& board, Arenas& arenas, int task, bool ends);

// Says in the run's log that nobody will see the file.
void log_lost(const Board& board, const SlotRecord& slot);

}  // namespace wilkins::left_open
