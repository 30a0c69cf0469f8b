// A trace that cannot be written disturbs nobody, also while the board's lock is held.
#include "board/trace.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/fault.hpp"
#include "check.hpp"

using namespace wilkins;

namespace {

std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

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

    // More events than the board has room for come in their order, each once, though nobody writes them under the
    // board's lock.
    test::Scratch long_one;
    plan.trace_file = long_one.path + "/trace.tsv";
    CHECK(create_board(long_one.path.c_str(), plan) == 0);
    Board busy;
    CHECK(busy.attach(long_one.path.c_str()) == 0);
    constexpr int kLines = 20000;
    for (int k = 0; k < kLines; k += 500) {
        Board::Lock lock(busy);
        for (int n = k; n < k + 500; ++n) trace::note(busy, "skip", 0, -1, "out*.h5", "out0.h5", n, 1, 7);
        CHECK(busy.head().events_written.load() <= busy.head().events_end.load());
    }
    {
        Board::Lock lock(busy);
        lock.write_events();
    }
    CHECK(busy.head().events_end.load() > 2 * kTraceRoom);
    std::string expected;
    for (int n = 0; n < kLines; ++n) expected += "7\tskip\tsim\t-1\tout*.h5\tout0.h5\t" + std::to_string(n) + "\t1\n";
    CHECK(text_of(plan.trace_file) == expected);

    // Whoever dies as it writes leaves its events to the next one, which writes them again after a mark.
    test::Scratch other;
    plan.trace_file = other.path + "/trace.tsv";
    plan.trace_at_once = true;
    CHECK(create_board(other.path.c_str(), plan) == 0);
    Board second;
    CHECK(second.attach(other.path.c_str()) == 0);
    const pid_t killed = fork();
    CHECK(killed >= 0);
    if (killed == 0) {
        setenv("WILKINS_FAULTS", "kill=trace.written:2", 1);
        fault::configure("sim", 0);
        for (int k = 0; k < 3; ++k) {
            Board::Lock lock(second);
            trace::note(second, "publish", 0, -1, "out*.h5", "out0.h5", k, 1);
        }
        _exit(0);
    }
    CHECK(waitpid(killed, &status, 0) == killed);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    { Board::Lock lock(second); }
    const std::string written = text_of(plan.trace_file);
    const size_t mark = written.find("\n\nagain\n");
    CHECK(mark != std::string::npos);
    const size_t first = written.find('\n') + 1;
    CHECK(written.substr(first, mark + 1 - first) == written.substr(mark + strlen("\n\nagain\n")));

    // What nobody acts on is written with what comes next.
    {
        Board::Lock lock(second);
        trace::note(second, "open", 0, 0, "out*.h5", "out0.h5", 0, 1);
    }
    CHECK(text_of(plan.trace_file) == written);
    {
        Board::Lock lock(second);
        trace::note(second, "publish", 0, 0, "out*.h5", "out1.h5", 1, 1);
    }
    const std::string more = text_of(plan.trace_file).substr(written.size());
    CHECK(more.find("\topen\t") < more.find("\tpublish\t") && more.find("\tpublish\t") != std::string::npos);

    // A run that may be gone on with has a trace without gaps: after what could not be written, nothing is.
    CHECK(unlink(plan.trace_file.c_str()) == 0 && mkdir(plan.trace_file.c_str(), 0700) == 0);
    {
        Board::Lock lock(second);
        trace::note(second, "publish", 0, -1, "out*.h5", "lost.h5", 3, 1);
    }
    CHECK(rmdir(plan.trace_file.c_str()) == 0);
    {
        Board::Lock lock(second);
        trace::note(second, "publish", 0, -1, "out*.h5", "later.h5", 4, 1);
    }
    CHECK(access(plan.trace_file.c_str(), F_OK) != 0);
    puts("trace: ok");
}
