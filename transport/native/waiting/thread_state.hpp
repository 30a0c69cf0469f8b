// What threads do that do not wait in the layer, as the kernel tells.
#pragma once

#include <cstdint>
#include <vector>

namespace wilkins {

enum class ThreadState {
    ended,
    running,  // or nobody can tell
    asleep,   // until somebody wakes it, who may be of another process
    futex,    // until another thread of its process wakes it
};

// Of a thread of a process in this PID namespace. It sleeps if that was seen a second ago, and it has not moved since.
// Call with the board's lock held.
ThreadState state_of(int pid, int thread);

// What a thread sleeps in, of which is known who wakes it: a process that it has started, one that writes into its
// pipe, a thread of its own process.
enum class Sleep { none, child, pipe, futex };
Sleep sleep_of(int pid, int thread);

std::vector<int> threads_of(int pid);

// How often the thread has gone to sleep so far, or was put off; UINT64_MAX: nobody can tell.
uint64_t switches(int pid, int thread);

// True if all threads of this process, but for those that wait in the layer and the calling one, sleep until another
// thread of it wakes them. Then none of them goes on before one that waits in the layer does.
bool all_asleep(const std::vector<int>& waiting);

}  // namespace wilkins
