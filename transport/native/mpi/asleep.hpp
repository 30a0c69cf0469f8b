// Collectives that HDF5 makes by itself, asleep. An MPI that spins holds a core for a slice of the scheduler's time, 4
// ms and more; where there are more ranks than cores, the rank that it waits for has none meanwhile, and HDF5 makes ten
// such calls for a file.
#pragma once

#include <cstdint>

#include "mpi/abi.hpp"

namespace wilkins::mpiio {

// The program's MPI, if `caller` is a parallel HDF5 and ranks share cores. nullptr: let it spin.
const Abi* asleep(const void* caller);

// What the functions of these names do.
intptr_t sleep_MPI_Barrier(const Abi& mpi, intptr_t comm);
intptr_t sleep_MPI_Comm_dup(const Abi& mpi, intptr_t comm, intptr_t copy);
intptr_t sleep_MPI_Bcast(const Abi& mpi, intptr_t buffer, intptr_t count, intptr_t type, intptr_t root, intptr_t comm);
intptr_t sleep_MPI_Allreduce(const Abi& mpi, intptr_t in, intptr_t out, intptr_t count, intptr_t type, intptr_t op,
                             intptr_t comm);

}  // namespace wilkins::mpiio
