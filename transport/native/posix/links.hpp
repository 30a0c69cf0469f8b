// Symbolic links of the disk that lead to steps.
#pragma once

#include "posix/names.hpp"

namespace wilkins::posix {

// A name that a call says, which may be a symbolic link.
struct Linked {
    int dirfd;
    const char* path;
    bool follows;  // whether the call goes through it
    Purpose purpose;
    const void* caller;
};

// True if the name is that of a symbolic link whose target is a step's. Leaves errno alone.
bool leads_to_step(const Linked& name, Match* match);

// True if there are such links, made in this run or lying in the folder of the task as it began.
bool uses_links(const void* caller);

// While HDF5 opens a file that is no step by its name, to read it. Costs no call.
class Hdf5Opens {
public:
    explicit Hdf5Opens(bool reads);
    ~Hdf5Opens();
    Hdf5Opens(const Hdf5Opens&) = delete;
    Hdf5Opens& operator=(const Hdf5Opens&) = delete;
    static bool now();

private:
    bool before_;
};

// The answer of the program's own `call`, or of `on_step` for a link that leads to a step, also where a file lies
// there: with `mode: both` or `file`, or left by an earlier run.
template <class Call, class OnStep>
auto follow_links(const Linked& name, Call call, OnStep on_step) -> decltype(call()) {
    Match match;
    return name.follows && uses_links(name.caller) && leads_to_step(name, &match) ? on_step(match) : call();
}

}  // namespace wilkins::posix
