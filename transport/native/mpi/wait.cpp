// Nonblocking collectives, tested at growing intervals: a rank whose lead waits for a step uses next to no CPU.
#include "mpi/wait.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "board/process.hpp"
#include "mpi/among.hpp"

namespace wilkins::mpiio {

namespace {

constexpr int64_t kSpin = 50'000;              // nanoseconds of yielding before the first sleep
constexpr int64_t kLongest = 2'000'000;        // the longest sleep
constexpr int64_t kLongestRung = 250'000'000;  // the longest sleep that a bell ends
constexpr int64_t kUnlock = 1'000'000;         // sleeps from this length on let Python's other threads run

// Sleeps for a part of the time waited so far; a small one, unless the port's bell ends it.
void pause(int64_t waited, int port, uint32_t seen) {
    if (waited < kSpin) {
        sched_yield();
        return;
    }
    const int64_t length = port < 0 ? std::min(waited / 16, kLongest) : std::min(waited / 4, kLongestRung);
    const timespec t{0, static_cast<long>(length)};
    if (length < kUnlock) {
        nanosleep(&t, nullptr);
        return;
    }
    const PythonUnlocked unlocked;
    if (port < 0) {
        nanosleep(&t, nullptr);
    } else {
        process().board.sleep(port, seen, static_cast<int>(length / 1'000'000));
    }
}

// `port`: whose bell will ring when the wait may be over, or -1.
int complete(const Abi& mpi, Handle* request, int port) {
    const AmongRanks among;
    const int64_t start = now_ns();
    int64_t since = start;  // what the length of a sleep is measured from: the last ring
    uint32_t heard = port < 0 ? 0 : process().board.bell(port);
    int done = 0;
    int rc = 0;
    for (;;) {
        const uint32_t seen = port < 0 ? 0 : process().board.bell(port);
        if (seen != heard) since = now_ns();
        heard = seen;
        rc = mpi.Test(request, &done, const_cast<void*>(mpi.status_ignore));
        if (rc != 0 || done != 0) break;
        pause(now_ns() - since, port, seen);
    }
    if (port >= 0) account_waiting(static_cast<uint64_t>(now_ns() - start));
    return rc;
}

}  // namespace

int complete(const Abi& mpi, Handle* request) { return complete(mpi, request, -1); }

bool shares_cores() {
    static const bool shared = getenv("WILKINS_SHARES_CORES") != nullptr;
    return shared;
}

int duplicate(const Abi& mpi, Handle comm, Handle* copy) {
    if (!shares_cores()) return mpi.Comm_dup(comm, copy);
    Handle request = 0;
    const int rc = mpi.Comm_idup(comm, copy, &request);
    return rc != 0 ? rc : complete(mpi, &request);
}

int barrier(const Abi& mpi, Handle comm) {
    if (comm == 0) return 0;
    Handle request = 0;
    const int rc = mpi.Ibarrier(comm, &request);
    return rc != 0 ? rc : complete(mpi, &request, -1);
}

int from_lead(const Abi& mpi, Handle comm, bool lead, int port, void* bytes, int count) {
    if (comm == 0) return 0;
    Handle request = 0;
    int rc = mpi.Ibcast(bytes, count, mpi.byte, 0, comm, &request);
    if (rc == 0) rc = complete(mpi, &request, port);
    if (lead) {
        const Board::Lock lock(process().board);
        process().board.ring(port);
    }
    return rc;
}

int largest(const Abi& mpi, Handle comm, int* value) {
    if (comm == 0) return 0;
    const int mine = *value;
    Handle request = 0;
    const int rc = mpi.Iallreduce(&mine, value, 1, mpi.integer, mpi.op_max, comm, &request);
    return rc != 0 ? rc : complete(mpi, &request, -1);
}

int count_alike(const Abi& mpi, Handle comm, uint64_t value, int ranks, int* alike) {
    *alike = ranks;
    if (comm == 0) return 0;
    const std::unique_ptr<uint64_t[]> all(new (std::nothrow) uint64_t[static_cast<size_t>(ranks)]);
    int failed = all == nullptr;
    int rc = largest(mpi, comm, &failed);
    if (rc != 0 || failed) return rc != 0 ? rc : mpi.error.no_mem;
    Handle request = 0;
    rc = mpi.Iallgather(&value, sizeof(value), mpi.byte, all.get(), sizeof(value), mpi.byte, comm, &request);
    if (rc == 0) rc = complete(mpi, &request, -1);
    *alike = static_cast<int>(std::count(all.get(), all.get() + ranks, value));
    return rc;
}

}  // namespace wilkins::mpiio
