// What mpi/world.cpp knows of the job and of the program's view of MPI, for the calls that mpi/world_calls.cpp answers.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "base/resolve.hpp"
#include "mpi/world.hpp"

namespace wilkins {

inline constexpr int kErrorOther = 15;  // MPI_ERR_OTHER, or a near relative of it, in every MPI library

// How an MPI library represents handles.
enum class Handles { mpich, open_mpi, standard };

struct World {
    int first = 0, last = -1;  // ranks of the job that are this task
    Handles handles = Handles::mpich;
    const void* library = nullptr;                 // an address inside the MPI library
    int provided = 0;                              // thread level of the job
    pid_t process = 0;                             // that initialised MPI; a forked child is none of it
    std::atomic<bool> program_initialized{false};  // the program has called MPI_Init
    std::atomic<bool> program_finalized{false};    // the program has called MPI_Finalize
    int program_level = 0;                         // the thread level that the program got
    pid_t program_thread = 0;                      // the thread that called MPI_Init
};
extern World world;

// True if the launcher gave this process a world of its own.
bool world_wanted();

// True once MPI is initialised and the task's communicator stands. Otherwise tries to do so: returns MPI's error code
// in *error if that fails. `caller` is where the program's call came from.
bool boot_world(int* argc, char*** argv, const void* caller, int* error);
bool world_is_up();

// True while this thread initialises or finalises the real MPI: what MPI itself then calls is answered by MPI.
bool inside_mpi();

// The program's MPI_Finalize.
int finalize_program();

// The MPI library's function `name`, behind any wrapper; returns MPI's error code.
template <typename... Arguments>
int call_mpi(const char* name, Arguments... arguments) {
    auto* function = reinterpret_cast<int (*)(Arguments...)>(resolve(name, world.library));
    return function ? function(arguments...) : no_mpi(name);
}

// A library that calls MPI through us shall see by its weak references what its MPI has, not what we define.
void release_weak_references(const void* caller);

// Handles in memory have the width of the library's handles.
intptr_t load_handle(const void* from);
void store_handle(void* to, intptr_t handle);

}  // namespace wilkins
