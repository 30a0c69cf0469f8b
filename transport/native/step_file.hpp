// What is behind an open step.
#pragma once

#include "arena.hpp"
#include "store.hpp"

namespace wilkins {

enum class Role {
    lead,      // created it; publishes it by closing
    peer,      // writes into a step that another rank, or another handle, created
    reader,    // reads a published step and holds it
    own_copy,  // a consumer that opened for writing: memory of its own
};

struct StepFile::State {
    Role role = Role::reader;
    int slot = -1;  // -1 for own_copy
    Mapping mapping;
    uint64_t identity = 0;
    uint64_t size = 0;  // own_copy
    int failed = 0;     // the errno that made the step incomplete, seen through this handle
    int pid = 0;
    mutable int fd = -1;
    uint64_t place = 0;  // hash of the absolute path
    char name[kNameMax] = {};
    State* next = nullptr;
    State* previous = nullptr;
};

// A second handle on a step of this name that this process has open for writing (`written`), or nullptr.
StepFile* find_open(const char* name, bool written);

}  // namespace wilkins
