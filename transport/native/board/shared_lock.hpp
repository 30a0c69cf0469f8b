// A lock in memory that processes share, which names its holder and is taken from one that has died.
//
// The robust mutexes of the C library are not enough here: the kernel tells their owner by the thread's number in its
// own PID namespace. When a thread that waits for one dies, and the holder has the same number in another namespace,
// the kernel takes the lock from the living holder.
#pragma once

#include <atomic>
#include <cstdint>

namespace wilkins {

inline constexpr uint32_t kLargestOwner = (1u << 31) - 1;

// Zero-initialised: free.
struct SharedLock {
    std::atomic<uint32_t>
        word;  // a futex: the holder's number in the run (see board/life.hpp), and whether somebody waits
};

enum class Taken { free, from_dead, not_yet };

class Life;

// Takes the lock for this process. `until`: ns of the monotonic clock; `not_yet` past it. `from_dead`: its holder died
// as it held it.
Taken take(SharedLock& lock, const Life& life, int64_t until = INT64_MAX);

// Wakes the next.
void give_back(SharedLock& lock);

// The number of the process that holds it, or 0.
uint32_t holder(const SharedLock& lock);

}  // namespace wilkins
