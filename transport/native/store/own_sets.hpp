// Steps of this task's own that are folders or several files: begun, written by its processes together, and published
// when these are done.
#pragma once

#include <string>

#include "board/process.hpp"
#include "names/match.hpp"
#include "store/sets.hpp"

namespace wilkins::sets {

// What the program calls the folder in which the step's contents are, from the root on: the step itself, or that of its
// files.
std::string whole_place(const PortRecord& port, const Match& match);

// Where a path into a step of an out-port leads; begins it if the call makes the folder, or a file of several. `rest`:
// what is named in it.
Leads lead_producer(const Match& match, const char* rest, Use use, Place* place, int* error);

// The process writes in the step at `place`, which is not published yet; it is done with all others of the port.
Leads join(const Match& match, const char* rest, Place* place, int* error);

// The program changes a step that is published. Ends the run.
void fail_for_change(const Process& p, const Match& match, const char* rest);

// A call that writes in the step at `place` is done.
void leave_own(const Place& place);

}  // namespace wilkins::sets
