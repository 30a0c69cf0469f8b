// Names that stand for the next step of an in-port: given, or found by the first open.
#include "queue/alias.hpp"

#include <cstring>

#include "base/patterns.hpp"
#include "check.hpp"
#include "queue/queue.hpp"

using namespace wilkins;
using test::Scratch;

namespace {

// Two producers of one rank, and a consumer of two that is started for each step.
struct Run {
    explicit Run(const char* stands = "", bool may_have_alias = true, const char* pattern = "*.h5") {
        BoardPlan plan;
        plan.tasks = {{"a", 1}, {"b", 1}, {"look", 2}};
        plan.ports = {{0, Direction::out, "*.h5", 0},
                      {1, Direction::out, "*.h5", 0},
                      {2, Direction::in, pattern, 0, {}, stands, may_have_alias}};
        plan.channels = {{0, 2, 1, 8, WhenFull::block, 2}, {1, 2, 1, 8, WhenFull::block, 2}};
        CHECK(create_board(scratch.path.c_str(), plan) == 0 && board.attach(scratch.path.c_str()) == 0);
        queue::task_started(board, 0);
        queue::task_started(board, 1);
        queue::task_started(board, 2, true);
    }

    void write(int source, const char* name) {
        const int slot = queue::take_slot(board, source, false);
        board.slot(slot).stamp = ++board.head().stamp;
        strcpy(board.slot(slot).name, name);
        queue::publish(board, slot);
    }

    // Opens the name; that of the step's producer, "-" if there is none, "gone" if none will come.
    const char* open(const char* name, int reader = 0, const OnDisk* file = nullptr) {
        if (queue::may_be_alias(board, port(), name)) queue::decide(board, 2, reader, name, file);
        else queue::name_opened(board, 2, name);
        const queue::Found found = queue::find(board, 2, reader, name);
        if (found.slot < 0) return found.passed ? "gone" : "-";
        queue::take(board, 2, reader, found);
        return board.slot(found.slot).name;
    }

    bool gives(const char* asked, const char* step, int reader = 0) { return strcmp(open(asked, reader), step) == 0; }
    PortRecord& port() { return board.port(2); }

    Scratch scratch;
    Board board;
};

void each_open_of_a_found_name_is_the_next_step() {
    Run run;
    CHECK(!queue::may_be_alias(run.board, run.port(), "in.h5") && run.gives("in.h5", "-"));
    run.write(0, "out_0.h5");
    run.write(1, "b7.h5");
    run.write(0, "out_1.h5");
    CHECK(run.gives("./in.h5", "out_0.h5") && run.port().alias_state == AliasState::found);
    CHECK(run.gives("in.h5", "b7.h5") && run.gives("in.h5", "out_0.h5", 1) && run.gives("in.h5", "out_1.h5"));
    CHECK(run.gives("in.h5", "-") && run.gives("other.h5", "-") && run.gives("out_1.h5", "gone"));
    CHECK(run.gives("in.h5", "b7.h5", 1) && run.gives("in.h5", "out_1.h5", 1));
    queue::task_exited(run.board, 2, false);
    queue::task_started(run.board, 2, true);
    run.write(1, "b8.h5");
    CHECK(run.gives("in.h5", "b8.h5") && !strcmp(name_for(run.port(), run.board.slot(0)), "in.h5"));
    CHECK(!run.board.head().failure[0]);
}

void names_of_producers_stay_theirs() {
    Run run;
    run.write(0, "out_0.h5");
    CHECK(run.gives("out_12.h5", "-") && run.port().alias_state == AliasState::no);
    CHECK(run.gives("in.h5", "-") && run.gives("out_0.h5", "out_0.h5"));
    Run no_alias("", false);
    no_alias.write(0, "out_0.h5");
    CHECK(no_alias.gives("in.h5", "-") && queue::is_strange(no_alias.board, no_alias.port(), "in.h5"));
    CHECK(!queue::is_strange(no_alias.board, no_alias.port(), "out_3.h5") &&
          !queue::is_strange(no_alias.board, no_alias.port(), "in.nc"));
}

void a_file_on_disk_prevents_it_unless_a_run_has_left_it() {
    const OnDisk file = {1, 2, 3, 4}, changed = {1, 2, 3, 5};
    for (const bool left : {false, true}) {
        Run run;
        queue::left_by_run(run.board, 2, left ? file : changed);
        run.write(0, "out_0.h5");
        CHECK(!strcmp(run.open("in.h5", 0, &file), left ? "out_0.h5" : "-"));
        CHECK(run.port().alias_state == (left ? AliasState::found : AliasState::prevented));
    }
}

void a_file_of_that_name_that_comes_later_ends_the_run() {
    for (const char* name : {"in1.h5", "in22.h5", "in.h5"}) {
        Run run;
        run.write(0, "out_0.h5");
        CHECK(run.gives("in1.h5", "out_0.h5"));
        run.write(1, name);
        CHECK((strstr(run.board.head().failure, "task 'b' publishes") != nullptr) == (strcmp(name, "in.h5") != 0));
    }
}

void a_given_name() {
    Run run("data/in.h5", false, "out_*.h5");
    run.write(0, "out_0.h5");
    run.write(1, "x/out_1.h5");
    CHECK(is_called(run.port(), "/here/data/in.h5") && !is_called(run.port(), "in.h5") &&
          !is_called(run.port(), "out_0.h5"));
    CHECK(run.gives("data/in.h5", "out_0.h5") && run.gives("/here/data/in.h5", "x/out_1.h5") &&
          run.gives("data/in.h5", "-"));
}

// A program that has opened nothing is not started for its step again, whether there is an alias later or not.
void steps_that_are_left_out() {
    Run run;
    run.write(0, "out_0.h5");
    run.write(0, "out_1.h5");
    run.write(1, "b.h5");
    auto start_again = [&] {
        queue::task_exited(run.board, 2, false);
        queue::task_started(run.board, 2, true);
        return run.board.slot(queue::next_step(run.board, 2)).name;
    };
    queue::task_started(run.board, 2, true);
    CHECK(!strcmp(start_again(), "out_1.h5") && run.port().alias_state == AliasState::undecided);
    CHECK(run.gives("in.h5", "out_1.h5") && run.gives("in.h5", "out_1.h5", 1));
    CHECK(!strcmp(start_again(), "b.h5") && run.gives("in.h5", "b.h5", 1) && run.gives("in.h5", "-", 1));
}

void shapes() {
    char shape[16];
    shape_of("plt00012-3.h5", shape, sizeof(shape));
    CHECK(!strcmp(shape, "plt#-#.h#"));
    shape_of("0123", shape, sizeof(shape));
    CHECK(!strcmp(shape, "#"));
    shape_of("abcdefghijklmnopqrst", shape, 4);
    CHECK(!strcmp(shape, "abc"));
}

}  // namespace

int main() {
    each_open_of_a_found_name_is_the_next_step();
    names_of_producers_stay_theirs();
    a_file_on_disk_prevents_it_unless_a_run_has_left_it();
    a_file_of_that_name_that_comes_later_ends_the_run();
    a_given_name();
    steps_that_are_left_out();
    shapes();
    puts("alias: ok");
    return 0;
}
