// Files of the task's own that its ranks on other hosts have written.
#pragma once

#include "steps/step.hpp"

namespace wilkins {

// Opens, for a rank by itself, a file that its task has written on another host: to be changed there, or a copy to be
// read. nullptr, with ENOENT, if there is none.
StepFile* open_elsewhere(const Match& match, bool writable, int* error);

}  // namespace wilkins
