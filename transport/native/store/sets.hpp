// Steps that are folders, or several files: a path into one leads to a real folder, in which nothing is imitated.
//
// On the board such a step is one like any other, with an arena that stays empty: it is begun when its producer makes
// the folder, or the first of the files, stays closed while processes of the task write in it, and is published and
// handed out under the rules of its port. What is in it lies in s<slot>.<stamp> below the run's folder, which is a link
// where the port's steps are on the disk; s<slot>.<stamp>.by has a file for each process that writes there and has not
// turned to another step of the port yet.
#pragma once

#include <limits.h>

#include "names/set_names.hpp"
#include "steps/step.hpp"

namespace wilkins::sets {

// What a call is about to do with a path.
enum class Use {
    look,    // asks what it is
    read,    // opens it to read
    enter,   // makes it its working folder
    make,    // makes a folder of this name
    create,  // opens a file to write it, or gives it the name, whether one is there or not
    remove,  // takes the name away
    change,  // anything else that changes what is there
};

enum class Leads { elsewhere, inside, nowhere };

// Where a path into a folder leads.
struct Place {
    char real[PATH_MAX];  // its path on the disk
    int slot = -1;
    uint64_t stamp = 0;
    StepFile* held = nullptr;  // for as long as the call lasts
    bool completes = false;    // a file of this name completes the step
    bool joined = false;       // the process writes in the step
};

// Finds where the path leads; waits as a look at a file, an open or the beginning of one does. `nowhere`: *error says
// why.
Leads lead(const char* path, Use use, Place* place, int* error);

// The same of a path that begins at a folder of the disk, which may lie in one that is a step.
Leads lead_from(const char* folder, const char* path, Use use, Place* place, int* error);

// The process has another working folder.
void note_moved();

// The call is done.
void leave(const Place& place);

// Descriptors or mappings were closed: folders that were only left open may be complete now.
void note_closed();

// What the path of something in such a folder is to the program, for one of the disk; false: it is in none. Both have
// room for PATH_MAX.
bool name_of_real(const char* real, char* out);

}  // namespace wilkins::sets
