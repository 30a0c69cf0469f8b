// A child has no lock for ever that a thread of its parent had.
#include "base/held_at_forks.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "check.hpp"

using namespace wilkins;

namespace {

std::mutex mutex;
HeldAtForks held_at_forks(mutex);
std::atomic<bool> over{false};

}  // namespace

int main() {
    std::thread busy([] {
        while (!over) {
            const std::lock_guard<std::mutex> guard(mutex);
            usleep(100);
        }
    });
    for (int round = 0; round < 50; ++round) {
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(30);
            const std::lock_guard<std::mutex> guard(mutex);
            _exit(0);
        }
        int status = 1;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    over = true;
    busy.join();
    puts("forks: ok");
}
