// Which names are ports', as the rest of the layer asks.
#pragma once

#include "board/layout.hpp"

namespace wilkins {

// A name that matches at least one memory port of this process's task.
struct Match {
    int outport = -1;   // index into the board's ports, or -1: this task does not produce the name
    int inport = -1;    // likewise for consuming it
    bool made = false;  // no port's: the task makes a file of its own that is called like one of an in-port's, for the
                        // first time
    char name[kNameMax] = {};    // normalised: no "./", no "//", no "a/../"
    mutable uint64_t place = 0;  // once it was asked for (see place_of)
    mutable bool makes =
        false;  // it is opened by a mere reader that makes a file of its own if there is no step of the name
    bool by_descriptor = false;  // a file that is begun is going to be opened as one of the kernel's, which others join
};

// What a program asks for when it opens a name.
enum class Intent {
    read,              // O_RDONLY
    update,            // O_RDWR on a name that must exist
    create,            // O_CREAT | O_TRUNC
    create_exclusive,  // O_CREAT | O_EXCL
    create_missing,    // O_CREAT alone on a name that was missing: EEXIST if it is not any more
    open_or_create,    // O_RDWR | O_CREAT without O_TRUNC
    look,              // waits until a step is there, but does not count as reading it (magic bytes before H5Fopen)
};

// Why a program says a name.
enum class Purpose {
    ask,     // it wants to know something of the name, now
    look,    // is there such a file?
    read,    // opens it to read
    update,  // opens it to change it
    create,  // makes it anew
    put,     // gives the name to another file
};

// True, and fills `match`, if the name is that of a memory port of this task, where that holds (names/places.hpp). No
// name costs an allocation, and one that no port's pattern matches costs no system call. To look or to open may wait
// until a producer of the in-port has begun a file, if only that tells whether its files are in this folder. Always
// false in a process that is not part of a run.
bool find_match(const char* name, Match* match, Purpose purpose);

// The same for ports whose steps are folders, or several files: of any of those the match has the name of the step.
bool match_set(const char* name, Match* match, Purpose purpose);

// The program has made a file of this name on disk (it has renamed one to it); there is none any more, or it could not
// be made.
void note_made(const char* name);

void forget_made(const char* name);

// The process has changed its folder.
void note_moved();

// While the program makes a folder. Its files there are steps from the first one on; until that is begun, readers that
// open one by name wait for it.
class FolderMaking {
public:
    FolderMaking();
    ~FolderMaking();
    FolderMaking(const FolderMaking&) = delete;
    FolderMaking& operator=(const FolderMaking&) = delete;

    // It is there now.
    void done(const char* name);

private:
    bool active_;
};

// A folder that the disk does not have: if it is one in which an in-port's pattern has files, waits until it is there,
// as a look at such a file would. Returns whether it is. Names of no such folder cost a comparison.
bool await_folder(const char* name);

// False only if no port of this task has a name that ends like this one. Costs a comparison of last components.
bool could_match(const char* name);

// False only if no file in a folder that is called like this one, or below it, has a name of the task's out-ports.
// Costs a comparison of components.
bool could_hold_steps(const char* folder);

}  // namespace wilkins
