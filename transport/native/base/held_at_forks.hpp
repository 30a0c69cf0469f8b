// A fork copies mutexes as they are: one that another thread has would be locked in the child for ever.
#pragma once

#include <mutex>

namespace wilkins {

// Whoever forks has the mutex meanwhile. Only for one under which no other is taken; both are there to the end of the
// process.
class HeldAtForks {
public:
    explicit HeldAtForks(std::mutex& mutex);
    HeldAtForks(const HeldAtForks&) = delete;
    HeldAtForks& operator=(const HeldAtForks&) = delete;

    std::mutex& mutex;
    HeldAtForks* const next;
};

}  // namespace wilkins
