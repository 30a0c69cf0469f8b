// Names that stand for the next step of an in-port, whatever its producers call that.
#pragma once

#include "board.hpp"

namespace wilkins {

// Does the program mean files of its port by this (normalised) name? For in-ports: files to read.
bool is_called(const PortRecord& port, const char* name);

// Does the name, as the program says it, mean a step of the in-port that its producer has published under the other one? Of an
// in-port with one name for all its files it means any of them.
bool means(const PortRecord& inport, const char* asked, const char* published);

// The name by which the in-port's program calls a step.
const char* name_for(const PortRecord& inport, const SlotRecord& slot);

}  // namespace wilkins
