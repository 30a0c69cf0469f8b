// What the launcher asks of a run costs what the run is large, not the square of that: the board is locked meanwhile.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "board/board.hpp"
#include "check.hpp"
#include "queue/queue.hpp"

using namespace wilkins;

struct Watched;  // the launcher's board (python/board.cpp)
extern "C" Watched* wilkins_board_attach(const char* folder, int* error);
extern "C" void wilkins_board_detach(Watched* board);
extern "C" size_t wilkins_report(const Watched* board, int threads, char* text, size_t room);
extern "C" size_t wilkins_stuck(const Watched* board, char* text, size_t room);

namespace {

constexpr int kFew = 100;
constexpr int kTimes = 8;
constexpr double kMost = 4 * kTimes;  // the square would be kTimes * kTimes

struct Run {
    explicit Run(const BoardPlan& plan) {
        CHECK(create_board(scratch.path.c_str(), plan) == 0);
        CHECK(board.attach(scratch.path.c_str()) == 0);
        int error = 0;
        watched = wilkins_board_attach(scratch.path.c_str(), &error);
        CHECK(watched && error == 0);
        for (int t = 0; t < board.head().tasks; ++t) queue::task_started(board, t);
    }
    ~Run() { wilkins_board_detach(watched); }
    void wait(int rank, WaitFor what, int port, const std::string& name) {
        WaitRecord& record = board.rank(rank).waits[0];
        record.what = what;
        record.port = port;
        record.pid = getpid();
        record.process = board.self();
        strcpy(record.name, name.c_str());
    }

    test::Scratch scratch;
    Board board;
    Watched* watched = nullptr;
};

// Processor time that a call takes, the least of some.
template <class Call>
double cost(Call call) {
    double least = 1e9;
    for (int n = 0; n < 5; ++n) {
        struct timespec before, after;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
        call();
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
        least = std::min(least, static_cast<double>(after.tv_sec - before.tv_sec) +
                                    1e-9 * static_cast<double>(after.tv_nsec - before.tv_nsec));
    }
    return least;
}

BoardPlan pairs(int n) {
    BoardPlan plan;
    for (int t = 0; t < n; ++t) {
        const std::string name = "x" + std::to_string(t) + "-*.h5";
        plan.tasks.push_back({"sim" + std::to_string(t), 1});
        plan.tasks.push_back({"look" + std::to_string(t), 1});
        plan.ports.push_back({2 * t, Direction::out, name, 0});
        plan.ports.push_back({2 * t + 1, Direction::in, name, 0});
        plan.channels.push_back({2 * t, 2 * t + 1, 1, 1, WhenFull::block, 1});
    }
    return plan;
}

// Many pairs of tasks, in each of which one waits for the other. Returns what the two questions cost.
double of_pairs(int n, WaitFor what) {
    Run run(pairs(n));
    for (int t = 0; t < n; ++t) {
        const std::string name = "x" + std::to_string(t) + "-0.h5";
        if (what == WaitFor::data) run.wait(2 * t + 1, what, 2 * t + 1, name);
        else run.wait(2 * t, what, 2 * t, name);
    }
    std::vector<char> text(1 << 22);
    return cost([&] {
        CHECK(wilkins_report(run.watched, 0, text.data(), text.size()) < text.size());
        CHECK(strstr(text.data(), ("x" + std::to_string(n - 1) + "-0.h5").c_str()) != nullptr);
        CHECK(wilkins_stuck(run.watched, text.data(), text.size()) == 0);
    });
}

// Tasks that each wait for the next one's file; only the last one can move.
double of_a_chain(int n) {
    BoardPlan plan;
    for (int t = 0; t < n; ++t) {
        const std::string own = "x" + std::to_string(t) + ".h5", next = "x" + std::to_string(t + 1) + ".h5";
        plan.tasks.push_back({"t" + std::to_string(t), 1});
        plan.ports.push_back({t, Direction::out, own, 0});
        plan.ports.push_back({t, Direction::in, next, 0});
        if (t > 0) plan.channels.push_back({2 * t, 2 * t - 1, 1, 1, WhenFull::block, 1});
    }
    Run run(plan);
    for (int t = 0; t + 1 < n; ++t) run.wait(t, WaitFor::data, 2 * t + 1, "x" + std::to_string(t + 1) + ".h5");
    std::vector<char> text(1 << 22);
    return cost([&] { CHECK(wilkins_stuck(run.watched, text.data(), text.size()) == 0); });
}

// Ranks that each read the file that one rank of the producer writes, and wait for its next one.
double of_ranks(int ranks) {
    BoardPlan plan;
    plan.tasks = {{"sim", ranks}, {"look", ranks}};
    plan.ports = {{0, Direction::out, "x*.h5", 0}, {1, Direction::in, "x*.h5", 0}};
    plan.channels = {{0, 1, 1, 1, WhenFull::block, ranks}};
    Run run(plan);
    for (int r = 0; r < ranks; ++r) run.wait(ranks + r, WaitFor::data, 1, "x" + std::to_string(r) + "-1.h5");
    std::vector<char> text(1 << 22);
    return cost([&] {
        CHECK(wilkins_report(run.watched, 0, text.data(), text.size()) < text.size());
        CHECK(wilkins_stuck(run.watched, text.data(), text.size()) == 0);
    });
}

void check(const char* what, double few, double many, double most) {
    printf("%s: %.3f ms, %.3f ms with %d times as many\n", what, 1e3 * few, 1e3 * many, kTimes);
    CHECK(many < most * few);
}

}  // namespace

int main() {
    check("waits for data", of_pairs(kFew, WaitFor::data), of_pairs(kTimes * kFew, WaitFor::data), kMost);
    check("waits for room", of_pairs(kFew, WaitFor::room), of_pairs(kTimes * kFew, WaitFor::room), kMost);
    check("waits for memory", of_pairs(kFew, WaitFor::memory), of_pairs(kTimes * kFew, WaitFor::memory), kMost);
    check("a chain", of_a_chain(kFew), of_a_chain(kTimes * kFew), kMost);
    // There are as many marks as ranks times sources; no rank is to look at all of them.
    const int ranks = 25;
    check("ranks", of_ranks(ranks), of_ranks(kTimes * ranks), kMost * kTimes);
    puts("report: ok");
}
