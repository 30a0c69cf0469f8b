// The one context of the process: which task and rank it is, and the run it belongs to.
#pragma once

#include <cstdint>

namespace wilkins {

struct Context {
    bool active = false;  // part of a run; false leaves every interposed call untouched
    int task = -1;        // index of the task in the board
    int rank = 0;         // rank within the task
    int nprocs = 1;       // ranks of the task
};

// Attached on first use, from the environment the launcher sets (see docs/developers/design.md). Thread-safe.
const Context& context();

// Calls back into Python, if this process runs it: lets other Python threads run while the guard lives. `interrupted`
// asks Python whether a signal handler raised (KeyboardInterrupt), so that a wait can end early.
class PythonUnlocked {
public:
    PythonUnlocked();
    ~PythonUnlocked();
    bool interrupted();
    PythonUnlocked(const PythonUnlocked&) = delete;
    PythonUnlocked& operator=(const PythonUnlocked&) = delete;

private:
    void take_back();

    int levels_ = 0;  // of h5py's lock
    void* saved_ = nullptr;
};

// h5py holds a lock of its own through every call of HDF5's. While this guard lives, the thread's waits let others have
// it, too, as long as they last; so it must be outside of HDF5, where another thread may come in. `held`: the thread
// has that lock.
class H5pyUnlocked {
public:
    H5pyUnlocked();
    ~H5pyUnlocked();
    bool held() const { return held_; }
    H5pyUnlocked(const H5pyUnlocked&) = delete;
    H5pyUnlocked& operator=(const H5pyUnlocked&) = delete;

private:
    bool held_;
};

// Time the process spent in copies and in waits, for the run's summary.
void account_copying(uint64_t nanoseconds, uint64_t bytes);
void account_waiting(uint64_t nanoseconds);

}  // namespace wilkins
