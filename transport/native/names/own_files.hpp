// Files that a task makes itself and that are called like steps which it reads: they are the disk's.
#pragma once

#include "board/process.hpp"

namespace wilkins {

// True if a task has made a file of this name itself that is called like a step which it reads.
bool has_made(const Process& p, int task, const char* name);

// The task makes such a file. False if it has made it before, or its folder is not there.
bool make_own(const Process& p, const char* name);

}  // namespace wilkins
