// Folders that are steps of this task's own: begun, written by its processes together, and published when these are done.
#pragma once

#include "board/process.hpp"
#include "store/sets.hpp"

namespace wilkins::sets {

// Where a path into a folder of an out-port leads; begins the step if the call makes the folder. `rest`: what follows the folder's name.
Leads lead_producer(const Match& match, const char* rest, Use use, Place* place, int* error);

// The process writes in the step at `place`, which is not published yet; it is done with all others of the port.
Leads join(const Match& match, const char* rest, Place* place, int* error);

// The program changes a folder that is published. Ends the run.
void fail_for_change(const Process& p, const Match& match, const char* rest);

// A call on a file that completes the folder at `place` is done.
void note_completion(const Place& place);

}  // namespace wilkins::sets
