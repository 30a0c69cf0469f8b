// Tasks that pass on the steps which they read, changed or not: an in-port and an out-port of theirs have one pattern.
//
// A step that such a task opens is copied into a file of the out-port, as if the task had made it, closed it, and were
// about to go on with it: it is closed, all processes and ranks of the task have it as a file of their own, and it is
// published when one of them opens the next, waits for data, or ends.
#pragma once

#include "board/process.hpp"
#include "steps/step.hpp"

namespace wilkins::stage {

// Of a name that is one of both ports: which of them the program means. It is the out-port's once the task has its own
// copy of the step, which an open to read or to change it makes, and waits for.
void decide(Process& p, Match* match, Purpose purpose);

// The task has opened its copy: the next open of a name that means another step each time is of the next one.
void note_opened(const Process& p, const Match& match, const StepFile* file);

// True if the task passes on the steps of the in-port. (Then the name has no step any more.)
bool passes_on(const Match& match);

// A process of the task is about to wait for data: its closed files are published. Call with the lock held.
void pass_on(const Process& p);

}  // namespace wilkins::stage
