// Files of several names that are one step: of a port that lists x*.xdmf and x*.h5, x3.xdmf and x3.h5 are the step
// x3.xdmf.
#pragma once

#include "base/patterns.hpp"
#include "board/layout.hpp"

namespace wilkins::sets {

inline bool is_list(const PortRecord& port) { return port.keys.is_set && port.keys.beside[0]; }

// True if a file of this name, without its folder, could be of the list.
bool is_listed(const PortRecord& port, const char* file);

// The step to which the file belongs: what the list's first name is with the same number. False: to none.
bool step_of_file(const PortRecord& port, const char* name, char (&step)[kNameMax]);

// True if the folder has a file of each name of the step.
bool has_all(const PortRecord& port, const char* step, const char* folder);

// True if the task has such ports. `may_be_any`: true also where that is not known yet; may be asked while the process
// joins its run.
bool may_be_any();
bool any();

}  // namespace wilkins::sets
