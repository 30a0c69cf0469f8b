// Opens of steps by the names of in-ports.
#pragma once

#include "steps/step.hpp"

namespace wilkins {

// `ranks`: of the task, that open it together.
StepFile* read_step(const Match& match, Intent intent, int ranks, int* error);

// Who reads: an HDF5 library of the process, or what reads descriptors (nullptr). `among_several`: of such libraries.
struct Library {
    const void* identity;
    bool among_several;
};

// Opens a step to read it, or to look at it, by a call of the program's: the step that its other libraries have
// consumed last, if this one has not, else the next one.
StepFile* open_to_read(const Match& match, const Library& library, int* error);

StepFile* open_to_look(const Match& match, const Library& library, int* error);

// A look at a name without a further step: true if it means the last one, which a library that reads the others has not
// consumed.
bool look_at_last(const Match& match, uint64_t* size, uint64_t* identity, int64_t* published_ns);

// A library opens the in-port's name by itself, out of a step that was published as this one of the run: the step of
// the name that belongs to it. That is the newest one published before it; where the first was published after it, the
// next one after.
StepFile* open_within(const Match& match, uint64_t published, int* error);

}  // namespace wilkins
