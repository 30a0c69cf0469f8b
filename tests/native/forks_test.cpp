// A child has no lock for ever that a thread of its parent had.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "base/held_at_forks.hpp"
#include "base/loaded.hpp"
#include "check.hpp"

using namespace wilkins;

namespace {

std::mutex mutex;
HeldAtForks held_at_forks(mutex);

void take_turn() {
    const std::lock_guard<std::mutex> guard(mutex);
    usleep(100);
}

void ask_loader() { CHECK(loaded_at(reinterpret_cast<const void*>(&fork)).name != nullptr); }

// Children make the call that a thread of their parent makes all the time.
void children_can(void (*call)()) {
    std::atomic<bool> over{false};
    std::thread busy([&] {
        while (!over) call();
    });
    for (int round = 0; round < 50; ++round) {
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(30);
            call();
            _exit(0);
        }
        int status = 1;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    over = true;
    busy.join();
}

}  // namespace

int main() {
    children_can(take_turn);
    children_can(ask_loader);
    puts("forks: ok");
}
