// Steps that this task writes: begins them, waiting for room, and goes on with closed ones.
#pragma once

#include "steps/step_file.hpp"

namespace wilkins {

// A name that a program has found missing.
struct Missing {
    bool was_known;  // it has been that of a file
    uint64_t since;  // stamp of the last file that was begun before
};

// A new step of a source's own (number in the source table), to be written; waits for room. `role`: lead or snapshot.
// `missing`: EEXIST if another process of the task has begun a file of the name since.
StepFile* begin_step(const Match& match, int source, uint64_t place, Role role, int* error,
                     const Missing* missing = nullptr);

StepFile* create(const Match& match, Intent intent, int* error);

// Goes on with a closed file, or with a new step that starts as a copy of one this task published.
StepFile* continue_own(const Match& match, int* error);

// The program is about to make the file anew (O_TRUNC): an empty one that it has made in this way before was a step,
// not the beginning of one.
void finish_made_anew(const Match& match);

void note_made_anew(const StepFile* file);

// The step never existed.
void give_up(const Process& p, int index, uint64_t stamp);

// Waits until no other call of the task's is renaming a file of the out-port on disk. Returns 0, or EINTR as a wait
// does (see waiting/wait.hpp).
int await_renames(Process& p, int outport, Board::Lock& lock);

}  // namespace wilkins
