// Collective agreement among the ranks of a file that sleeps instead of spinning.
#pragma once

#include "mpi/abi.hpp"

namespace wilkins::mpiio {

// Each returns an MPI error code. `comm` 0 stands for a file of one rank, where nothing is to be done.

// Waits until what the request stands for is done.
int complete(const Abi& mpi, Handle* request);
// True if the run has more ranks than cores here, which the launcher has let all ranks of the task know
// (WILKINS_SHARES_CORES). All ranks know the same, as they must where they choose between a blocking collective and a
// nonblocking one: those do not meet.
bool shares_cores();
// Another communicator of the same ranks.
int duplicate(const Abi& mpi, Handle comm, Handle* copy);
// Waits until all ranks have come.
int barrier(const Abi& mpi, Handle comm);
// The lead's bytes, on all ranks. The lead may have to wait at `port` before it calls this, so the others sleep until
// that port's bell rings, which the lead does, and their time counts as waiting in the run's summary.
int from_lead(const Abi& mpi, Handle comm, bool lead, int port, void* bytes, int count);
// Replaces the value by the largest one of all ranks.
int largest(const Abi& mpi, Handle comm, int* value);
// How many of the `ranks` have the same value as this one; it is one of them.
int count_alike(const Abi& mpi, Handle comm, uint64_t value, int ranks, int* alike);

}  // namespace wilkins::mpiio
