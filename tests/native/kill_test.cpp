// Processes that die at any moment leave a store that the others can go on with.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "check.hpp"
#include "queue/queue.hpp"

using namespace wilkins;

int main() {
    test::Scratch scratch;
    BoardPlan plan;
    plan.tasks = {{"sim", 1}, {"look", 1}, {"too", 1}};
    plan.ports = {{0, Direction::out, "out.h5", 0}, {1, Direction::in, "out.h5", 0}, {2, Direction::in, "out.h5", 0}};
    plan.channels = {{0, 1, 1, 2, WhenFull::drop_oldest, 1, false, 0, 1},
                     {0, 2, 1, 2, WhenFull::drop_oldest, 1, false, 0, 1}};
    CHECK(create_board(scratch.path.c_str(), plan) == 0);
    Board board;
    CHECK(board.attach(scratch.path.c_str()) == 0);
    srand(1);
    uint64_t steps = 0;
    for (int round = 0; round < 200; ++round) {
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            for (;;) {
                Board::Lock lock(board);
                const int slot = queue::take_slot(board, 0, true);
                if (slot < 0) continue;
                board.slot(slot).state = SlotState::writing;
                board.slot(slot).stamp = ++board.head().stamp;
                strcpy(board.slot(slot).name, "out.h5");
                queue::publish(board, slot);
                const int reader = 1 + static_cast<int>(steps++ % 2);
                const queue::Found found = queue::find(board, reader, 0, "out.h5");
                if (found.slot >= 0 && queue::add_hold(board, board.task(reader).first_rank, found.slot)) {
                    queue::take(board, reader, 0, found);
                    queue::drop_hold(board, board.task(reader).first_rank, found.slot, board.self());
                }
            }
        }
        for (int wait = 0; round % 2 && board.port(0).steps <= steps && wait < 60'000; ++wait) usleep(1000);
        usleep(static_cast<useconds_t>(rand() % 3000));
        kill(child, SIGKILL);
        CHECK(waitpid(child, nullptr, 0) == child);
        Board::Lock lock(board);
        queue::task_exited(board, 0, false);
        for (int s = 0; s < board.head().slots; ++s)  // both have a step, or none
            if (board.slot(s).state == SlotState::published)
                CHECK(!board.on(board.slot(s), 0) == !board.on(board.slot(s), 1));
        queue::task_exited(board, 1, false);
        queue::task_exited(board, 2, false);
        CHECK(board.port(0).steps >= steps);
        steps = board.port(0).steps;
        for (int s = 0; s < board.head().slots; ++s)
            CHECK(board.slot(s).holds == 0 && board.slot(s).state != SlotState::writing);
    }
    CHECK(steps >= 100);  // one for each that did not die at once
    puts("kill: ok");
}
