// A trace that cannot be written disturbs nobody, also while the board's lock is held.
#include "trace.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "check.hpp"

using namespace wilkins;

int main() {
    test::Scratch scratch;
    BoardPlan plan;
    plan.tasks = {{"sim", 1}};
    plan.ports = {{0, Direction::out, "out*.h5", 0}};
    plan.trace_file = scratch.path + "/trace.tsv";
    CHECK(create_board(scratch.path.c_str(), plan) == 0);
    Board board;
    CHECK(board.attach(scratch.path.c_str()) == 0);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        const struct rlimit small = {4096, 4096};
        signal(SIGXFSZ, SIG_DFL);
        if (setrlimit(RLIMIT_FSIZE, &small) != 0) _exit(2);
        Board::Lock lock(board);
        // More than the board has room for: some of it is written before the lock is released.
        for (int k = 0; k < 1000; ++k) trace::note(board, "skip", 0, -1, "out*.h5", "out0.h5", k, 1);
        lock.release();
        lock.acquire();
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    puts("trace: ok");
}
