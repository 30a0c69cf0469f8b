// What the files of the step store (store.hpp) share.
#pragma once

#include "step_file.hpp"

namespace wilkins {

uint64_t hash_place(const char* name);
StepFile* make_file(Role role, int slot, const Mapping& mapping, uint64_t identity, const char* name);
void free_file(StepFile* file);

// A step that the launcher has given up (its program was said to have ended) is no longer this process's to finish.
inline bool is_writing(const SlotRecord& slot, uint64_t stamp) { return slot.state == SlotState::writing && slot.stamp == stamp; }

// The step never existed.
void give_up(const Process& p, int index, uint64_t stamp);

// Waits until no other call of the task's is renaming a file of the out-port on disk. Returns 0, or EINTR as a wait does (see wait.hpp).
int await_renames(Process& p, int outport, Board::Lock& lock);

StepFile* create(const Match& match, bool exclusive, int* error);

// Goes on with a file that rests, or with a new step that starts as a copy of one this task published.
StepFile* continue_own(const Match& match, int* error);

// A file of the out-port is begun: its readers know where it is.
void note_begun(const Process& p, int outport, const char* name);

// A rank beyond the port's readers has no mark to move.
bool may_read(const Board& board, int inport, int rank);

// `ranks`: of the task, that open it together.
StepFile* read_step(const Match& match, Intent intent, int ranks, int* error);

// The rank has so many steps open that there is no memory to note one more. Ends the run; returns the errno. Call with the
// board's lock held.
int too_many_open(const Process& p, const char* name);

// Opens a step that this task itself published and that is still whole. Where its files are on disk, that is what the
// program alone would read.
StepFile* reread_own(const Match& match, int* error);

// Turns a reader's step into memory of its own, which it may change.
StepFile* private_copy(StepFile* from, int* error);

// Says in the run's log that a file rested and is not going to be published.
void log_discarded(const Board& board, const SlotRecord& slot);

// A peer's part in the step ends.
void end_peer(SlotRecord& slot, uint64_t stamp);

}  // namespace wilkins
