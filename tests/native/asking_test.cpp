// Asking for steps without waiting: whatever the order in which the ranks of a task ask, each gets the same answers.
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "queue/queue.hpp"

using namespace wilkins;
using test::Scratch;

namespace {

constexpr int kRanks = 3, kSteps = 25;
constexpr int64_t kNone = -1, kEnded = -2;

struct Case {
    bool fixed;
    int writers;
    unsigned depth;
    WhenFull when;
};

// The state of one run: a producer, and ranks that each carry out the same program at their own pace.
class Run {
public:
    Run(const Case& what, unsigned seed)
        : what_(what), random_(seed), answers_(kRanks), written_(static_cast<size_t>(what.writers)) {
        const char* pattern = what.fixed ? "x.h5" : "x*.h5";
        BoardPlan plan;
        plan.tasks = {{"sim", what.writers}, {"look", kRanks}};
        plan.ports = {{0, Direction::out, pattern, 0}, {1, Direction::in, pattern, 0}};
        plan.channels = {{0, 1, 1, what.depth, what.when, kRanks}};
        CHECK(create_board(scratch_.path.c_str(), plan) == 0);
        CHECK(board_.attach(scratch_.path.c_str()) == 0);
        queue::task_started(board_, 0);
        queue::task_started(board_, 1);
        // Some runs have ranks that are much slower than others.
        std::vector<double> pace = {1.0};
        for (int r = 0; r < kRanks; ++r) pace.push_back(random_() % 3 == 0 ? 0.1 : 1.0);
        std::discrete_distribution<int> turn(pace.begin(), pace.end());
        for (int ticks = 0; !over() && ticks < 1000000; ++ticks) {
            const int who = turn(random_);
            if (who == 0) produce();
            else ask(who - 1);
        }
        CHECK(over());
        for (int r = 1; r < kRanks; ++r) CHECK(answers_[static_cast<size_t>(r)] == answers_[0]);
        size_t steps = 0;
        for (int64_t answer : answers_[0]) steps += answer >= 0;
        CHECK(steps > 0 && (what.when != WhenFull::block || steps == static_cast<size_t>(kSteps * what.writers)));
    }

private:
    bool over() const {
        for (const auto& of_rank : answers_)
            if (of_rank.empty() || of_rank.back() != kEnded) return false;
        return true;
    }

    void produce() {
        const int rank = static_cast<int>(random_() % static_cast<unsigned>(what_.writers));
        int& n = written_[static_cast<size_t>(rank)];
        char name[32];
        if (what_.fixed) strcpy(name, "x.h5");
        else snprintf(name, sizeof(name), "x%d-%d.h5", rank, n);
        if (n < kSteps && queue::has_room(board_, rank, name)) {
            const int slot = queue::take_slot(board_, rank, false);
            if (slot < 0) return;
            SlotRecord& record = board_.slot(slot);
            record.state = SlotState::writing;
            record.stamp = ++board_.head().stamp;
            strcpy(record.name, name);
            queue::publish(board_, slot);
            ++n;
        }
        for (int count : written_)
            if (count < kSteps) return;
        queue::task_exited(board_, 0, true);
    }

    // The rank's next question; every fifth is a wait. What wilkins_channels_take does, without the sleep.
    void ask(int rank) {
        auto& answers = answers_[static_cast<size_t>(rank)];
        if (!answers.empty() && answers.back() == kEnded) return;
        const bool waits = answers.size() % 5 == 4;
        queue::leave(board_, 1, rank);
        const int choice = queue::next_choice(board_, 1, rank);
        if (waits) {
            if (choice < 0 && queue::can_produce(board_, 1)) return;  // its turn comes again
            if (choice < 0) return answers.push_back(kEnded);
        } else {
            const queue::Answer answer = queue::poll(board_, 1, rank);
            if (answer != queue::Answer::step)
                return answers.push_back(answer == queue::Answer::ended ? kEnded : kNone);
            CHECK(choice >= 0);
        }
        CHECK(queue::choose(board_, 1, rank, !waits) == choice);
        const SlotRecord& slot = board_.slot(choice);
        answers.push_back(int64_t{slot.source} * 1000 + static_cast<int64_t>(slot.sequence));
    }

    Scratch scratch_;
    Board board_;
    Case what_;
    std::mt19937 random_;
    std::vector<std::vector<int64_t>> answers_;
    std::vector<int> written_;
};

void all_ranks_get_the_same_answer() {
    for (bool fixed : {false, true})
        for (int writers : {1, 2})
            for (unsigned depth : {1u, 3u})
                for (WhenFull when : {WhenFull::block, WhenFull::drop_oldest, WhenFull::drop_newest})
                    for (unsigned seed = 0; seed < 12; ++seed) Run({fixed, writers, depth, when}, seed);
}

// A step that its producer takes back after one rank has got it does not keep the others from what comes next.
void a_step_that_was_withdrawn() {
    Scratch scratch;
    BoardPlan plan;
    plan.tasks = {{"sim", 1}, {"look", 2}};
    plan.ports = {{0, Direction::out, "x*.h5", 0}, {1, Direction::in, "x*.h5", 0}};
    plan.channels = {{0, 1, 1, 4, WhenFull::block, 2}};
    Board board;
    CHECK(create_board(scratch.path.c_str(), plan) == 0 && board.attach(scratch.path.c_str()) == 0);
    queue::task_started(board, 0);
    queue::task_started(board, 1);
    auto write = [&](const char* name) {
        const int slot = queue::take_slot(board, 0, false);
        strcpy(board.slot(slot).name, name);
        queue::publish(board, slot);
    };
    write("x0.h5");
    CHECK(queue::poll(board, 1, 0) == queue::Answer::step);
    CHECK(queue::choose(board, 1, 0, true) >= 0);
    queue::remove_own(board, 0, "x0.h5", 0, true);
    CHECK(queue::poll(board, 1, 1) == queue::Answer::none);
    queue::task_exited(board, 0, true);
    CHECK(queue::poll(board, 1, 1) == queue::Answer::ended);
}

// A reader that asks for it lets its producer be further ahead than the queue's bound, until its task starts again.
void ahead() {
    Scratch scratch;
    BoardPlan plan;
    plan.tasks = {{"sim", 1}, {"look", 1}};
    plan.ports = {{0, Direction::out, "x.h5", 0}, {1, Direction::in, "x.h5", 0}};
    plan.channels = {{0, 1, 1, 1, WhenFull::block, 1}};
    Board board;
    CHECK(create_board(scratch.path.c_str(), plan) == 0 && board.attach(scratch.path.c_str()) == 0);
    queue::task_started(board, 1);
    board.port(1).ahead = 2;
    for (int n = 0; n < 3; ++n) {
        CHECK(queue::has_room(board, 0, "x.h5"));
        const int slot = queue::take_slot(board, 0, false);
        strcpy(board.slot(slot).name, "x.h5");
        queue::publish(board, slot);
    }
    CHECK(!queue::has_room(board, 0, "x.h5"));
    CHECK(queue::choose(board, 1, 0) >= 0);
    CHECK(queue::has_room(board, 0, "x.h5"));
    queue::task_started(board, 1);
    CHECK(!queue::has_room(board, 0, "x.h5"));
}

}  // namespace

int main() {
    all_ranks_get_the_same_answer();
    a_step_that_was_withdrawn();
    ahead();
    puts("asking: ok");
    return 0;
}
