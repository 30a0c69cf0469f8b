// Processes are known to live by locks, which end with them alone; a lock of the board is taken from a holder only when
// it is dead.
#include "board/life.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "check.hpp"

using namespace wilkins;

namespace {

// What a process and its children tell each other.
struct Shared {
    std::atomic<uint32_t> number;
    std::atomic<uint32_t> childs;
    std::atomic<int> child;
    std::atomic<int> step;
    SharedLock lock;
};

Shared* shared() {
    void* bytes = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(bytes != MAP_FAILED);
    return static_cast<Shared*>(bytes);
}

void until(const std::atomic<int>& step, int wanted) {
    const int64_t limit = now_ns() + 30'000'000'000;
    while (step.load() < wanted) {
        CHECK(now_ns() < limit);
        usleep(1000);
    }
}

void end(pid_t child) {
    kill(child, SIGKILL);
    siginfo_t info;
    CHECK(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) ==
          0);  // dead, and nobody has asked how it ended
}

void a_lock_ends_with_its_process_alone(const Board& board) {
    Shared* child_of = shared();
    const pid_t parent = fork();
    CHECK(parent >= 0);
    if (parent == 0) {
        child_of->number = board.self();
        for (int fd = 0; fd < 1024; ++fd) close(fd);
        const pid_t child = fork();
        if (child == 0) {
            child_of->childs = board.joined();
            ++child_of->step;
            for (;;) pause();
        }
        child_of->child = child;
        ++child_of->step;
        for (;;) pause();
    }
    until(child_of->step, 2);
    CHECK(child_of->childs == 0);  // a fork is another process
    CHECK(child_of->number != 0 && !board.is_over(child_of->number));
    end(parent);
    CHECK(board.is_over(child_of->number));  // though its child lives
    kill(child_of->child, SIGKILL);
    CHECK(waitpid(parent, nullptr, 0) == parent);
}

void a_program_that_takes_its_place_is_another_process(const Board& board) {
    Shared* child_of = shared();
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        child_of->number = board.self();
        child_of->step = 1;
        execl("/bin/sleep", "sleep", "100", static_cast<char*>(nullptr));
        _exit(1);
    }
    until(child_of->step, 1);
    const int64_t limit = now_ns() + 30'000'000'000;
    while (!board.is_over(child_of->number)) CHECK(now_ns() < limit);
    CHECK(waitpid(child, nullptr, WNOHANG) == 0);
    kill(child, SIGKILL);
    CHECK(waitpid(child, nullptr, 0) == child);
}

void only_the_lock_of_a_dead_holder_is_taken(const Board& board, Life& life) {
    Shared* child_of = shared();
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(take(child_of->lock, life) == Taken::free);
        child_of->number = life.self();
        child_of->step = 1;
        for (;;) pause();
    }
    until(child_of->step, 1);
    CHECK(take(child_of->lock, life, now_ns() + 500'000'000) == Taken::not_yet);
    CHECK(holder(child_of->lock) == child_of->number && !board.is_over(child_of->number));
    end(child);
    CHECK(take(child_of->lock, life) == Taken::from_dead);
    CHECK(holder(child_of->lock) == life.self());
    give_back(child_of->lock);
    CHECK(holder(child_of->lock) == 0 && take(child_of->lock, life) == Taken::free);
    CHECK(waitpid(child, nullptr, 0) == child);
}

}  // namespace

int main() {
    test::Scratch scratch;
    BoardPlan plan;
    plan.tasks = {{"sim", 1}};
    CHECK(create_board(scratch.path.c_str(), plan) == 0);
    Board board;
    CHECK(board.attach(scratch.path.c_str()) == 0);
    const std::string file = scratch.path + "/board";
    Life life;
    CHECK(life.begin(file.c_str(), &board.head().processes) == 0);
    a_lock_ends_with_its_process_alone(board);
    a_program_that_takes_its_place_is_another_process(board);
    only_the_lock_of_a_dead_holder_is_taken(board, life);
    puts("life: ok");
}
