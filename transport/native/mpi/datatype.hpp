// MPI datatypes as layouts, decoded through MPI's own introspection.
#pragma once

#include "mpi/abi.hpp"
#include "mpi/layout.hpp"

namespace wilkins::mpiio {

struct Datatype {
    Layout layout;       // one element
    int64_t extent = 0;  // bytes from one element to the next
    bool named = false;  // predefined: its handle is never freed
};

// Returns 0, or an MPI error code for a datatype that cannot be decoded.
int decode(const Abi& mpi, Handle datatype, Datatype* out);

}  // namespace wilkins::mpiio
