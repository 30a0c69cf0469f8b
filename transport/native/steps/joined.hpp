// A file of the task that is being written, by whichever of its ranks and processes: others see it, and open it too.
//
// Its lead has begun it and publishes it by its close. A handle that joins reads and writes the same bytes. Until it
// has written it counts for nothing; if it has, and is open when the lead is closed, the last such handle publishes the
// file.
#pragma once

#include "steps/step_file.hpp"

namespace wilkins::joined {

// Finds out whether a file of this name is being written, and how long it is.
bool look(const Match& match, Look* look);

// One more handle on it; nullptr, with *error 0 or an errno, if there is none.
StepFile* open(const Match& match, int* error);

// A copy of it as it is now, if the kernel has its bytes (see steps/inherited.hpp); nullptr as above.
StepFile* copy(const Match& match, int* error);

// The handle, which has joined, is about to write for the first time. ESTALE: the file is not being written any more;
// or, if the handle has the kernel's file (`by_kernel`), that was another one.
int begin_to_write(StepFile::State* state, bool by_kernel = false);

// The handle's bytes are about to go from the arena to the kernel's file, where all who write them find them from
// `end_move` on. EAGAIN: they are there already, or ESTALE: the file is not being written any more.
int begin_move(const StepFile::State* state);
void end_move(const StepFile::State* state, bool moved);

// A descriptor of the kernel's file with the bytes, or -1 and errno. They stay there from now on.
int open_kernel_file(const StepFile::State* state, int flags);

// The lead is about to publish its file: none that joins begins to write from now on. False if others that write it do
// so later.
bool begin_to_publish(const StepFile::State* state);

// It does not, since others may still write the file, and publish it (see steps/inherited.hpp).
void leave_to_others(const StepFile::State* state);

// A handle that has joined is closed. True if it is the one that publishes the file.
bool end(const StepFile::State* state);

// A process that lives and has a handle beside its lead's on the file in the slot, other than `but`; 0: there is none.
// Call with the lock held.
uint32_t other_holder(const Board& board, int slot, uint32_t but);

// True if a handle beside its lead's, of a living process, has begun to write the file in the slot. Call with the lock
// held.
bool is_written(const Board& board, int slot);

// Lets go of the file.
void leave(const StepFile::State* state);

}  // namespace wilkins::joined
