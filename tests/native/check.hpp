// A minimal test harness: CHECK stops the test with the place and the expression; scratch runs live in shared memory.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

#include "board/board.hpp"
#include "board_plan.hpp"
#include "posix/libc.hpp"

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                \
        }                                                                           \
    } while (false)

namespace wilkins::test {

// A run's folder, removed at the end, also when a CHECK ends the test.
class Scratch {
public:
    Scratch() : pid_(getpid()) {
        char name[] = "/dev/shm/wilkins-test-XXXXXX";
        CHECK(mkdtemp(name));
        path = name;
        previous_ = std::exchange(newest(), this);
        static const int registered = atexit([] {
            for (Scratch* s = newest(); s; s = s->previous_) s->remove();
        });
        CHECK(registered == 0);
    }
    ~Scratch() {
        remove();
        newest() = previous_;
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    std::string path;

private:
    static Scratch*& newest() {
        static Scratch* scratch = nullptr;
        return scratch;
    }
    void remove() const {
        if (getpid() != pid_) return;  // a forked child's folder is its parent's
        const std::string command = "rm -rf '" + path + "'";
        // (The layer's own would settle that this process, and its forks, are in no run.)
        if (libc::system(command.c_str()) != 0) fprintf(stderr, "cannot remove %s\n", path.c_str());
    }

    pid_t pid_;
    Scratch* previous_ = nullptr;
};

// Makes this process rank 0 of task 0 of a run whose only task reads what it writes, so that one process can play both
// sides.
inline void join_loop(const Scratch& scratch, const char* pattern, unsigned queue, uint64_t cap) {
    BoardPlan plan;
    plan.tasks = {{"loop", 1}};
    plan.ports = {{0, Direction::out, pattern, cap}, {0, Direction::in, pattern, 0}};
    plan.channels = {{0, 1, 1, queue, WhenFull::block, 1}};
    CHECK(create_board(scratch.path.c_str(), plan) == 0);
    setenv("WILKINS_RUN", scratch.path.c_str(), 1);
    setenv("WILKINS_TASK", "0", 1);
    setenv("WILKINS_RANK", "0", 1);
}

}  // namespace wilkins::test
