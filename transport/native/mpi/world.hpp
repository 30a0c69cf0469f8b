// A world per task in one MPI job: where a program passes MPI_COMM_WORLD, its task's communicator is meant.
//
// Active in a process whose environment has WILKINS_WORLD=<first>:<last>, the ranks of the job that are its task; in
// all others every call goes straight to the real function. MPI itself is initialised once per process, before `main`
// if the program is linked to MPI, else at its first call of an initialising function. The program's own Init, Finalize
// and queries are answered here (mpi/world_calls.cpp); the real MPI_Finalize follows when the process exits.
//
// No MPI header is used. A handle is an int in MPICH's family and a pointer in Open MPI's and in the standard ABI (MPI
// 5.0): all of them travel as intptr_t, on little-endian machines.
#pragma once

#include <atomic>
#include <cstdint>

#define WILKINS_MPI_SYMBOL __attribute__((visibility("default")))

namespace wilkins {

// What replaces what. Written once, before `on` is set; cleared when the program finalises MPI.
struct Substitution {
    std::atomic<bool> on{false};
    intptr_t mask = 0;  // the bits of an argument that are the handle
    intptr_t world = 0, self = 0;
    intptr_t task_world = 0, task_self = 0;
};
extern Substitution substitution;

// The communicator that is meant by a C handle: the task's for MPI_COMM_WORLD, its own duplicate for MPI_COMM_SELF (so
// that what the program attaches to it ends in the program's own MPI_Finalize), any other as it is.
inline intptr_t world_comm(intptr_t comm) {
    if (!substitution.on.load(std::memory_order_acquire)) return comm;
    const intptr_t handle = comm & substitution.mask;
    if (handle == substitution.world) return substitution.task_world;
    if (handle == substitution.self) return substitution.task_self;
    return comm;
}

// The same for a Fortran handle.
int world_comm_f(int comm);

// Called once, when the program has come to its end (`exit`, a return from `main`, `_exit` after MPI_Finalize) and
// before the real MPI_Finalize, which waits for every rank of the job: the moment to tell others that this rank has
// ended. Gets the exit status and returns the one to leave with (the same, or 0 for a failure that is none: end of
// stream). `orderly` is false if the program initialised MPI and did not finalise it: then MPI ends the job, as it
// would without us, unless the hook turns the status into 0.
using ProgramEnd = int (*)(int status, bool orderly);
void on_program_end(ProgramEnd hook);

// A real MPI function, looked up at its first use. Nothing is thrown by that, and the wrappers call what they get
// outside of any handler: what a callback of the program's throws in there finds only the program's.
class RealFunction {
public:
    explicit constexpr RealFunction(const char* name) : name_(name) {}
    // nullptr if the process holds no MPI library.
    void* get(const void* caller) {
        void* function = function_.load(std::memory_order_relaxed);
        return function ? function : look_up(caller);
    }

private:
    void* look_up(const void* caller);

    const char* name_;
    std::atomic<void*> function_{nullptr};
};

// The result of an MPI function that was called in a process without MPI: says so, and returns an error code.
int no_mpi(const char* name);

}  // namespace wilkins
