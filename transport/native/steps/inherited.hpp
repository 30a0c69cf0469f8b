// Steps that may still be written past the layer's calls when their program has let go of them: by a process that
// inherited the descriptor, through a mapping, by a program that has taken the process's place.
//
// What the kernel writes of a step lies in a file of its own, without a name; a step that is left to others has it in
// the run's folder as w<slot>. Such a step is whole when no process has that file open, or mapped, for writing any
// more. Whoever finds that publishes it: a process of its task that begins or ends a file, or ends itself, and else the
// launcher.
#pragma once

#include "board/process.hpp"
#include "steps/step.hpp"

namespace wilkins::inherited {

// True if any process has the file open, or mapped, for writing. `fd`: of a description that reads it alone. False
// where the kernel does not say.
bool is_written(int fd);

// The file behind `fd`, which is to hold the bytes of the step that is being written, gets a name by which others that
// join find it. Returns 0 or an errno.
int name_file(const StepFile* step, int fd);
// If such a file holds the bytes of the slot's step, how many; or a descriptor of it. False or -1: it does not.
bool size_of(const Board& board, int slot, uint64_t* size);
int open_file(const Board& board, int slot, int flags);

// The file behind `fd` gets a name by which others find it, and the step is theirs to publish. Returns 0 or an errno.
int leave(const StepFile* step, int fd);
// It is this process's again, which has to remove the file when it closes the step.
void take_back(const StepFile* step);

// Publishes what nobody writes any more, of a task (-1: of all). `ends`: the task's program has ended, so its files are
// complete as they are. Returns how many there still are. Not to be called with the board's lock.
int settle(const Board& board, Arenas& arenas, int task, bool ends);

// Nobody will get what was left of the slot.
void remove_file(const Board& board, int slot);

// The same for the calling process's task. Costs a look at its ports' slots where there is none. `waits`: for what
// another process publishes just now, too, so that who opens a file finds what was written to it before.
void settle_own(bool waits);

}  // namespace wilkins::inherited
