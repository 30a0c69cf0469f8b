// The error handlers of files: what those call that a program has made, and who refers to them.
//
// MPI counts references: an error handler that a program frees lives as long as a file has it, and who asks a file for
// its own gets another reference, to be freed. MPI does not know of files in memory, so their references are counted
// here, and the program's calls that free are taken off them first. The last one goes to MPI.
#pragma once

#include <map>

#include "mpi/abi.hpp"

namespace wilkins::mpiio {

using Errhandler = void(Handle*, int*, ...);
struct Known {
    Errhandler* function;     // nullptr: it is none that the program made for files
    unsigned references = 0;  // besides those that MPI counts
};
using Errhandlers = std::map<Handle, Known>;

// Room for one more, taken before MPI makes it: then nothing can fail any more.
Errhandlers::node_type room_for(Errhandler* function);
void remember_errhandler(Handle errhandler, Errhandlers::node_type room);

Errhandler* function_of(Handle errhandler);

// True if any references are counted here. Costs one load.
bool any_references();
// One more reference.
void refer_to(Handle errhandler);
// One less, if there are any besides those that MPI counts.
bool give_back(Handle errhandler);
// One less.
void release(const Abi& mpi, Handle errhandler);

// Calls an error handler; returns the code if the handler lets it.
int call_errhandler(const Abi& mpi, Handle errhandler, Errhandler* function, Handle file, int code);
// Calls the one of files that could not be opened or deleted.
int fail_without_file(const Abi& mpi, int code);

}  // namespace wilkins::mpiio
