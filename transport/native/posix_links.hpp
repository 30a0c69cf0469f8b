// Symbolic links of the disk that lead to steps.
#pragma once

#include "posix_names.hpp"

namespace wilkins::posix {

// A name that a call says, which may be a symbolic link.
struct Linked {
    int dirfd;
    const char* path;
    bool follows;  // whether the call goes through it
    Purpose purpose;
    const void* caller;
};

// Is the name that of a symbolic link whose target is a step's? Leaves errno alone.
bool leads_to_step(const Linked& name, Match* match);

// Has the task made such links, or gone through them?
bool uses_links(const void* caller);
void note_link_used();

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

inline bool is_failure(int result) { return result < 0; }
inline bool is_failure(const FILE* result) { return result == nullptr; }

// The answer of the program's own `call`, or of `on_step` where that finds nothing but a link that leads to a step. Once the task has to do with such
// links, they come first: their targets may be on disk, too, with `mode: both` or `file`, or left there by an earlier run.
template <class Call, class OnStep>
auto follow_links(const Linked& name, Call call, OnStep on_step) -> decltype(call()) {
    Match match;
    if (name.follows && uses_links(name.caller) && leads_to_step(name, &match)) return on_step(match);
    const auto result = call();
    if (!is_failure(result) || !name.follows || errno != ENOENT || !leads_to_step(name, &match)) return result;
    note_link_used();
    return on_step(match);
}

}  // namespace wilkins::posix
