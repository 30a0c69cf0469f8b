// Which calls come from HDF5, and their nonblocking forms.
#include "mpi/asleep.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstring>

#include "mpi/wait.hpp"

namespace wilkins::mpiio {

namespace {

// True if the code at this address is HDF5's. Asked for each call of the few places in it that call MPI: remembers the
// last library.
bool is_hdf5(const void* caller) {
    static std::atomic<const void*> known{nullptr};
    Dl_info library;
    if (dladdr(caller, &library) == 0) return false;
    if (known.load(std::memory_order_relaxed) == library.dli_fbase) return true;
    const char* const slash = std::strrchr(library.dli_fname, '/');
    if (std::strncmp(slash ? slash + 1 : library.dli_fname, "libhdf5", 7) != 0) return false;
    known.store(library.dli_fbase, std::memory_order_relaxed);
    return true;
}

int narrow(intptr_t value) { return static_cast<int>(value); }
void* pointer(intptr_t value) { return reinterpret_cast<void*>(value); }

}  // namespace

const Abi* asleep(const void* caller) { return shares_cores() && is_hdf5(caller) ? find_abi(caller) : nullptr; }

intptr_t sleep_MPI_Barrier(const Abi& mpi, intptr_t comm) { return barrier(mpi, comm); }

intptr_t sleep_MPI_Comm_dup(const Abi& mpi, intptr_t comm, intptr_t copy) {
    return duplicate(mpi, comm, static_cast<Handle*>(pointer(copy)));
}

intptr_t sleep_MPI_Bcast(const Abi& mpi, intptr_t buffer, intptr_t count, intptr_t type, intptr_t root, intptr_t comm) {
    Handle request = 0;
    const int rc = mpi.Ibcast(pointer(buffer), narrow(count), type, narrow(root), comm, &request);
    return rc != 0 ? rc : complete(mpi, &request);
}

intptr_t sleep_MPI_Allreduce(const Abi& mpi, intptr_t in, intptr_t out, intptr_t count, intptr_t type, intptr_t op,
                             intptr_t comm) {
    Handle request = 0;
    const int rc = mpi.Iallreduce(pointer(in), pointer(out), narrow(count), type, op, comm, &request);
    return rc != 0 ? rc : complete(mpi, &request);
}

}  // namespace wilkins::mpiio
