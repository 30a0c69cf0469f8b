// Looks on the board: whose wait ends by itself, which answers ranks share, and what a look at the end of a stream says
// of its task.
#include "queue/answers.hpp"

#include <cstring>

#include "check.hpp"
#include "queue/queue.hpp"
#include "waiting/stuck.hpp"

using namespace wilkins;

namespace {

struct Run {
    explicit Run(int readers, const char* name = "s*.h5") {
        BoardPlan plan;
        plan.tasks = {{"sim", 1}, {"ana", readers}};
        plan.ports = {{0, Direction::out, name, 0}, {1, Direction::in, name, 0}};
        plan.channels = {{0, 1, 1, 1, WhenFull::block, readers}};
        plan.ports[1].keys.reorder = 1;  // a queue that can grow is not stuck
        CHECK(create_board(scratch.path.c_str(), plan) == 0);
        CHECK(board.attach(scratch.path.c_str()) == 0);
        for (int t = 0; t < board.head().tasks; ++t) queue::task_started(board, t);
    }

    uint64_t write(const char* name) {
        const int index = queue::take_slot(board, 0, true);
        CHECK(index >= 0);
        SlotRecord& slot = board.slot(index);
        slot.state = SlotState::writing;
        slot.stamp = ++board.head().stamp;
        strcpy(slot.name, name);
        queue::publish(board, index);
        return slot.stamp;
    }

    void wait(int rank, WaitFor what, int port, const char* name, bool looks) {
        WaitRecord& record = board.rank(rank).waits[0];
        record.what = what;
        record.port = port;
        record.process = board.self();
        record.kind = looks ? WaitKind::gives_up : WaitKind::plain;
        strcpy(record.name, name);
    }

    test::Scratch scratch;
    Board board;
};

// A reader looks for what its producer cannot write before it reads: it finds that out by itself, and nobody stops the
// run.
void a_look_among_those_that_wait_for_each_other() {
    Run run(1);
    run.write("s0.h5");
    run.wait(0, WaitFor::room, 0, "s1.h5", false);
    run.wait(1, WaitFor::data, 1, "s9.h5", true);
    CHECK(find_stuck(run.board).empty());
    CHECK(is_stuck(run.board, 1));
    run.wait(1, WaitFor::data, 1, "s9.h5", false);
    CHECK(!find_stuck(run.board).empty());
    run.wait(1, WaitFor::data, 1, "s0.h5", true);  // it is there
    CHECK(!is_stuck(run.board, 1));
}

void ranks_share_answers() {
    Run run(3);
    SharedAnswer first(run.board, 1, 0, "s0.h5");
    CHECK(!first.known().given);
    first.give(0);
    const uint64_t stamp = run.write("s0.h5");
    SharedAnswer second(run.board, 1, 0, "s0.h5");
    second.give(stamp);
    CHECK(SharedAnswer(run.board, 1, 1, "s0.h5").known().given);
    CHECK(SharedAnswer(run.board, 1, 2, "s1.h5").known().given ==
          false);  // another name: it goes by itself from now on
    CHECK(SharedAnswer(run.board, 1, 2, "s0.h5").known().given == false);
    const SharedAnswer::Known known = SharedAnswer(run.board, 1, 1, "s0.h5").known();
    CHECK(known.given && run.board.slot(known.slot).stamp == stamp);
    // Who comes when answers are forgotten goes by itself.
    for (int n = 0; n < 2 * kAnswers; ++n) SharedAnswer(run.board, 1, 0, "s0.h5").give(stamp);
    CHECK(!SharedAnswer(run.board, 1, 1, "s0.h5").known().given);
    forget_looks(run.board, 1);
    CHECK(!SharedAnswer(run.board, 1, 2, "s0.h5").known().given);
    SharedAnswer(run.board, 1, 2, "s1.h5").give(0);
    CHECK(!SharedAnswer(run.board, 1, 0, "s0.h5").known().given);
}

// A reader that is alone sees what is there at each look.
void one_rank_shares_nothing() {
    Run run(1);
    SharedAnswer first(run.board, 1, 0, "s0.h5");
    first.give(0);
    CHECK(!SharedAnswer(run.board, 1, 0, "s0.h5").known().given);
    CHECK(run.board.port(1).answers[1].number == 0);
}

void looks_in_vain_count_until_the_rank_goes_on() {
    Run run(2);
    note_failed(run.board, 1, 1, "s3.h5");
    note_failed(run.board, 1, 1, "s3.h5");
    CHECK(run.board.rank(2).empty_looks.looks == 2);
    ++run.board.rank(2).files;
    note_failed(run.board, 1, 1, "s4.h5");
    CHECK(run.board.rank(2).empty_looks.looks == 1 && !strcmp(run.board.rank(2).empty_looks.name, "s4.h5"));
}

}  // namespace

int main() {
    a_look_among_those_that_wait_for_each_other();
    ranks_share_answers();
    one_rank_shares_nothing();
    looks_in_vain_count_until_the_rank_goes_on();
    puts("looks: ok");
}
