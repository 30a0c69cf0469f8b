// Names that a program has used and that match none of its ports, though they may be meant for one: for whoever
// explains, at the end, why a port had no file. A few are kept for each task, each once, with how often it was used.
#pragma once

#include "board/process.hpp"

namespace wilkins {

// Keeps a normalised name, if it ends as data files do or looks like one of the task's ports. No system call, no
// allocation, no lock.
void note_unmatched(const Process& process, const char* name);

// The rank has opened the in-port's name, or looked at it, and nothing is there. Counts until its task has consumed a
// step of the port. Call with the board's lock held.
void note_found_nothing(const Process& process, int inport, const char* name, bool looks);

// The rank has opened an object of a step of the in-port by a path at which there is none. `printed`: HDF5 has printed
// an error.
void note_not_found(const Process& process, int inport, const char* file, const char* path, bool printed);

// True if a pattern and a name are alike: they begin with the same letter, and differ, without numbers and wildcards,
// in no more than two.
bool alike(const char* pattern, const char* name);

}  // namespace wilkins
