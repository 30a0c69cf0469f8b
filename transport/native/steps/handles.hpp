// Handles on steps that were chosen: published ones, those of other ranks, the task's own, and copies.
#pragma once

#include "steps/step_file.hpp"

namespace wilkins {

// Maps a published step that this rank has just taken a hold on; without success the hold ends.
StepFile* open_held(int slot, uint64_t stamp, const char* name, int* error, uint64_t place = 0);

// Another handle on a published step; nullptr: it is gone.
StepFile* hold_again(int slot, uint64_t stamp, const char* name, int* error);

// Another handle on a step that is open for reading, so that it stays.
StepFile* hold_too(const StepFile& file, int* error);

// The rank has so many steps open that there is no memory to note one more. Ends the run; returns the errno. Call with
// the board's lock held.
int too_many_open(const Process& p, const char* name);

// Lets go of the steps of the port (-1: of all) that readers held when they died without a word, as programs of a shell
// script do: their task goes on. Call with the board's lock held.
void sweep_dead_readers(Process& process, int port);

// Opens a step that this task itself published and that is still whole. Where its files are on disk, that is what the
// program alone would read.
StepFile* reread_own(const Match& match, int* error);

// The bytes of an open file, as memory of the process's own.
StepFile* copy_of_file(int fd, const char* name, int* error);

// Opens a file of the disk, which the program calls by this name.
StepFile* read_disk(const char* path, const char* name, int* error);

// Turns a reader's step into one that it may change: what it changes is kept (see steps/draft.hpp). The second has it
// in memory meanwhile.
StepFile* to_draft(StepFile* from, const Match& match, int* error);

StepFile* to_draft_in_memory(StepFile* from, int* error);

// Turns a reader's step into memory of its own, which it may change, and nobody else sees.
StepFile* private_copy(StepFile* from, int* error);

// A descriptor by which the file can be read as it is now; -1 with errno. Owned by the store, as `descriptor` is.
int descriptor_to_read(StepFile* file);

// A peer's part in the step ends.
void end_peer(SlotRecord& slot, uint64_t stamp);

}  // namespace wilkins
