// The error handlers that a program makes for its files: what they call.
#pragma once

#include <map>

#include "mpiio_abi.hpp"

namespace wilkins::mpiio {

using Errhandler = void(Handle*, int*, ...);
using Errhandlers = std::map<Handle, Errhandler*>;

// Room for one more, to be had before MPI makes it: then nothing can fail any more.
Errhandlers::node_type room_for(Errhandler* function);
void remember_errhandler(Handle errhandler, Errhandlers::node_type room);

// nullptr: it is none that the program made for files.
Errhandler* function_of(Handle errhandler);

// Calls an error handler; returns the code if the handler lets it.
int call_errhandler(const Abi& mpi, Handle errhandler, Errhandler* function, Handle file, int code);
// Calls the one of files that could not be opened or deleted.
int fail_without_file(const Abi& mpi, int code);

}  // namespace wilkins::mpiio
