// One handler for all.
#include "base/held_at_forks.hpp"

#include <pthread.h>

#include <utility>

namespace wilkins {

namespace {

HeldAtForks* all = nullptr;  // made as the library is loaded, so by one thread

void before_fork() {
    for (const HeldAtForks* one = all; one != nullptr; one = one->next) one->mutex.lock();
}
void after_fork() {
    for (const HeldAtForks* one = all; one != nullptr; one = one->next) one->mutex.unlock();
}
// (Handlers of the library that are set later come before this one as a process is forked.)
__attribute__((constructor(103))) void watch_forks() { pthread_atfork(before_fork, after_fork, after_fork); }

}  // namespace

HeldAtForks::HeldAtForks(std::mutex& held) : mutex(held), next(std::exchange(all, this)) {}

}  // namespace wilkins
