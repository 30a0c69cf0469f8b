// Waits that nothing can end are found; every other wait is left alone.
#include "waiting/stuck.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "check.hpp"
#include "queue/answers.hpp"
#include "queue/queue.hpp"
#include "waiting/circle.hpp"
#include "waiting/members.hpp"
#include "waiting/thread_state.hpp"

using namespace wilkins;

namespace {

struct Run {
    explicit Run(const BoardPlan& plan) {
        CHECK(create_board(scratch.path.c_str(), plan) == 0);
        CHECK(board.attach(scratch.path.c_str()) == 0);
        for (int t = 0; t < board.head().tasks; ++t) queue::task_started(board, t);
    }

    void wait(int rank, WaitFor what, int port, const char* name, uint32_t process = 0, int place = 0) {
        WaitRecord& record = board.rank(rank).waits[place];
        record.what = what;
        record.port = port;
        record.process = process ? process : board.self();
        record.since = now_ns();
        strcpy(record.name, name);
    }
    void go_on(int rank) { board.rank(rank).waits[0].what = WaitFor::nothing; }

    int begin(int source, const char* name) {
        const int slot = queue::take_slot(board, source, true);
        CHECK(slot >= 0);
        SlotRecord& record = board.slot(slot);
        record.state = SlotState::writing;
        record.writer = board.task(board.port(board.source(source).port).task).first_rank + board.source(source).rank;
        record.stamp = ++board.head().stamp;
        strcpy(record.name, name);
        return slot;
    }
    void write(int source, const char* name) { queue::publish(board, begin(source, name)); }

    // Opens a step for rank 0 of a port's task; it stays open.
    void read(int inport, const char* name) {
        const queue::Found found = queue::find(board, inport, 0, name);
        CHECK(found.slot >= 0);
        CHECK(queue::add_hold(board, board.task(board.port(inport).task).first_rank, found.slot));
        queue::take(board, inport, 0, found);
    }
    bool stuck() { return !find_stuck(board).empty(); }

    test::Scratch scratch;
    Board board;
};

BoardPlan pair(const char* out, const char* in, int writers = 1, int readers = 1) {
    BoardPlan plan;
    plan.tasks = {{"sim", writers}, {"look", readers}};
    plan.ports = {{0, Direction::out, out, 0}, {1, Direction::in, in, 0}};
    plan.channels = {{0, 1, 1, 1, WhenFull::block, readers}};
    return plan;
}

// Two tasks that read each other's files, both before they write.
void two_wait_for_each_other() {
    BoardPlan plan;
    plan.tasks = {{"a", 1}, {"b", 1}};
    plan.ports = {{0, Direction::out, "a.h5", 0},
                  {0, Direction::in, "b.h5", 0},
                  {1, Direction::out, "b.h5", 0},
                  {1, Direction::in, "a.h5", 0}};
    plan.channels = {{0, 3, 1, 1, WhenFull::block, 1}, {2, 1, 1, 1, WhenFull::block, 1}};
    Run run(plan);
    CHECK(!run.stuck());
    run.wait(0, WaitFor::data, 1, "b.h5");
    CHECK(!run.stuck());
    run.wait(1, WaitFor::data, 3, "a.h5");
    const std::string text = find_stuck(run.board);
    CHECK(text.find("task 'a' rank 0 waits for 'b.h5' from task 'b' rank 0") != std::string::npos);
    run.write(0, "a.h5");  // published, and the reader has yet to notice
    CHECK(!run.stuck());
    run.read(3, "a.h5");
    CHECK(run.stuck());
    queue::task_exited(run.board, 0, true);  // the end of the stream will wake the other
    CHECK(!run.stuck());
}

// One of two that wait for each other goes on by itself: the run is not stuck, and that one knows.
void a_listing_that_gives_up() {
    BoardPlan plan;
    plan.tasks = {{"a", 1}, {"b", 1}};
    plan.ports = {{0, Direction::out, "a*.h5", 0},
                  {0, Direction::in, "b*.h5", 0},
                  {1, Direction::out, "b*.h5", 0},
                  {1, Direction::in, "a*.h5", 0}};
    plan.channels = {{0, 3, 1, 1, WhenFull::block, 1}, {2, 1, 1, 1, WhenFull::block, 1}};
    Run run(plan);
    run.wait(0, WaitFor::data, 1, "b*.h5");
    run.board.rank(0).waits[0].kind = WaitKind::gives_up;
    CHECK(!is_stuck(run.board, 0));
    CHECK(end_wait(run.board));  // as a circle over other hosts would
    CHECK(is_stuck(run.board, 0));
    CHECK(!end_wait(run.board));
    run.board.rank(0).waits[0].found_nothing = 0;
    run.wait(1, WaitFor::data, 3, "a0.h5");
    CHECK(!run.stuck());
    CHECK(is_stuck(run.board, 0));
    run.board.rank(0).waits[0].kind = WaitKind::plain;
    CHECK(run.stuck());
}

// One that lists again and again does not wait, but its queue grows as if it did, and nothing is let go for it.
void a_listing_again_and_again() {
    BoardPlan plan = pair("out*.h5", "out*.h5");
    plan.ports[1].keys.reorder = 2;
    Run run(plan);
    run.write(0, "out0.h5");
    CHECK(!note_listed(run.board, 1, 0, run.board.head().publications));  // something new
    for (int k = 0; k < 2; ++k) CHECK(!note_listed(run.board, 1, 0, run.board.head().publications));
    CHECK(note_listed(run.board, 1, 0, run.board.head().publications));
    end_circle_of_poll(run.board, 1, 1);
    CHECK(run.board.channel(0).stretched == 0);  // the producer may go on
    run.wait(0, WaitFor::room, 0, "out1.h5");
    run.board.head().circle_next = 0;
    end_circle_of_poll(run.board, 1, 1);
    CHECK(run.board.channel(0).stretched == 1);
    CHECK(!waits_for(run.board.rank(1), WaitFor::data));
    run.go_on(0);
    run.write(0, "out1.h5");
    CHECK(!note_listed(run.board, 1, 0, run.board.head().publications));
    run.wait(0, WaitFor::room, 0, "out2.h5");
    run.board.head().circle_next = 0;
    end_circle_of_poll(run.board, 1, 1);  // as far as `reorder` goes
    CHECK(run.board.channel(0).stretched == 1 && run.board.channel(0).let_go == 0);
}

// Two that list again and again, never both at the same moment, and one that waits: the queue grows for them.
void two_listings_again_and_again() {
    Run run(pair("out*.h5", "out*.h5", 1, 3));
    run.write(0, "out0.h5");
    run.wait(0, WaitFor::room, 0, "out1.h5");
    run.wait(1, WaitFor::data, 1, "out9.h5");
    for (int reader = 1; reader < 3; ++reader)
        for (int k = 0; k < 3; ++k) CHECK(!note_listed(run.board, 1, reader, run.board.head().publications));
    CHECK(note_listed(run.board, 1, 1, run.board.head().publications));
    run.board.head().circle_next = 0;
    end_circle_of_poll(run.board, 2, 1);
    CHECK(run.board.channel(0).stretched == 0);  // the other one may yet read
    CHECK(note_listed(run.board, 1, 2, run.board.head().publications));
    run.board.head().circle_next = 0;
    end_circle_of_poll(run.board, 3, 1);
    CHECK(run.board.channel(0).stretched == 1);
    CHECK(!waits_for(run.board.rank(2), WaitFor::data) && !waits_for(run.board.rank(3), WaitFor::data));
}

// A listing of the whole series: steps that are there do not end its wait, the end of the producer does.
void a_listing_that_waits_for_the_end() {
    Run run(pair("out*.h5", "out*.h5"));
    run.write(0, "out0.h5");
    run.wait(0, WaitFor::room, 0, "out1.h5");
    run.wait(1, WaitFor::data, 1, "out*.h5");
    CHECK(!run.stuck());  // it asks for the next step, which is there
    run.board.rank(1).waits[0].kind = WaitKind::to_end;
    CHECK(run.stuck());
    queue::task_exited(run.board, 0, true);
    CHECK(!run.stuck());
}

void a_dead_process_waits_for_nothing() {
    Run run(pair("out*.h5", "out*.h5"));
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        run.board.rank(1).waits[0].process = run.board.self();
        _exit(0);
    }
    CHECK(waitpid(child, nullptr, 0) == child);
    const uint32_t dead = run.board.rank(1).waits[0].process;
    run.write(0, "out0.h5");
    run.wait(0, WaitFor::room, 0, "out1.h5");
    run.wait(1, WaitFor::data, 1, "out9.h5");
    CHECK(run.stuck());
    run.wait(1, WaitFor::data, 1, "out9.h5", dead);  // the task is a script that goes on with another program
    CHECK(!run.stuck());
}

// A reader that wants a later step than its producer has room for.
void skipping_ahead_of_a_full_queue() {
    Run run(pair("out*.h5", "out*.h5", 1, 2));
    run.write(0, "out0.h5");
    run.wait(0, WaitFor::room, 0, "out1.h5");
    run.wait(1, WaitFor::data, 1, "out9.h5");
    run.wait(2, WaitFor::data, 1, "out9.h5");
    CHECK(run.stuck());
    run.go_on(2);
    CHECK(!run.stuck());  // rank 1 of the reader may open what fills the queue
    run.go_on(1);
    CHECK(!run.stuck());
    run.wait(1, WaitFor::data, 1, "out0.h5");
    run.wait(2, WaitFor::data, 1, "out0.h5");
    CHECK(!run.stuck());  // it is there
}

// In order, a rank cannot help another one of its task.
void a_stream_that_one_rank_does_not_read() {
    BoardPlan plan = pair("out.h5", "out.h5", 1, 2);
    plan.tasks.push_back({"other", 1});
    plan.ports.push_back({2, Direction::out, "x.h5", 0});
    plan.ports.push_back({1, Direction::in, "x.h5", 0});
    plan.ports.push_back({2, Direction::in, "out.h5", 0});
    plan.channels.push_back({2, 3, 1, 1, WhenFull::block, 2});
    plan.channels.push_back({0, 4, 1, 1, WhenFull::block, 1});
    Run run(plan);
    run.write(0, "out.h5");
    run.wait(0, WaitFor::room, 0, "out.h5");
    run.wait(1, WaitFor::data, 3, "x.h5");
    run.read(4, "out.h5");
    run.wait(3, WaitFor::data, 4, "out.h5");
    CHECK(run.stuck());  // rank 1 of the reader goes on
    run.wait(1, WaitFor::data, 1, "out.h5");
    CHECK(!run.stuck());
}

// One of several producers that can move is enough.
void another_producer_may_bring_it() {
    Run run(pair("out*.h5", "out*.h5", 2, 1));
    run.write(0, "out0.h5");
    run.wait(0, WaitFor::room, 0, "out1.h5");
    run.wait(2, WaitFor::data, 1, "out7.h5");
    CHECK(!run.stuck());
    run.write(1, "out5.h5");
    run.wait(1, WaitFor::room, 0, "out6.h5");
    CHECK(run.stuck());
    queue::task_exited(run.board, 1, true);
    CHECK(!run.stuck());
}

// A reader that keeps every file open takes its producer's last arena.
void every_arena_held_open() {
    Run run(pair("out*.h5", "out*.h5"));
    char name[32];
    for (int i = 0; i < run.board.source(0).slots; ++i) {
        snprintf(name, sizeof(name), "out%02d.h5", i);
        run.write(0, name);
        run.read(1, name);
    }
    run.wait(0, WaitFor::room, 0, "out98.h5");
    CHECK(!run.stuck());
    run.wait(1, WaitFor::data, 1, "out98.h5");
    CHECK(run.stuck());
    queue::drop_hold(run.board, 1, run.board.rank(1).holds.slots[0], run.board.self());
    CHECK(!run.stuck());
}

// A reader that takes whatever comes next waits for the pattern, which is no step's name.
void a_step_for_who_asks_for_the_next() {
    Run run(pair("out*.h5", "out*.h5"));
    run.wait(1, WaitFor::data, 1, "out*.h5");
    CHECK(!run.stuck());
    run.write(0, "out0.h5");
    run.wait(0, WaitFor::room, 0, "out1.h5");
    CHECK(!run.stuck());  // the step is there, and the reader has yet to notice
    CHECK(queue::choose(run.board, 1, 0) >= 0);
    run.go_on(0);
    run.write(0, "out1.h5");
    run.wait(0, WaitFor::room, 0, "out2.h5");
    CHECK(!run.stuck());
}

// A reader holds one step while it waits for the next, and memory is only enough for one.
void memory_held_by_the_waiting_reader() {
    Run run(pair("out*.h5", "out*.h5"));
    run.write(0, "out0.h5");
    run.read(1, "out0.h5");
    run.begin(0, "out1.h5");
    run.wait(0, WaitFor::memory, 0, "out1.h5");
    CHECK(!run.stuck());
    run.wait(1, WaitFor::data, 1, "out1.h5");
    CHECK(run.stuck());
    queue::drop_hold(run.board, 1, run.board.rank(1).holds.slots[0], run.board.self());
    run.go_on(0);
    CHECK(!run.stuck());
}

void end(Run& run) {
    run.board.head().circle_next = 0;
    end_circle(run.board, 1);
}

// Those that wait stretch a queue as far as it goes; of wildcard names they let go what no rank has consumed.
void a_circle_that_a_longer_queue_ends() {
    for (const char* name : {"out*.h5", "out.h5"}) {
        BoardPlan plan = pair(name, name);
        plan.ports.push_back({0, Direction::out, "end.h5", 0});
        plan.ports.push_back({1, Direction::in, "end.h5", 0});
        plan.ports[1].keys.reorder = 4;
        plan.channels.push_back({2, 3, 1, 1, WhenFull::block, 1});
        Run run(plan);
        const bool stream = strcmp(name, "out.h5") == 0;
        const auto step = [&](int i) { return stream ? std::string(name) : "out" + std::to_string(i) + ".h5"; };
        run.wait(1, WaitFor::data, 3, "end.h5");
        for (int i = 0; i < 4; ++i) {
            end(run);  // (the producer can move)
            CHECK(run.board.channel(0).stretched == static_cast<uint32_t>(i > 0 ? i : 0));
            run.write(0, step(i).c_str());
            run.wait(0, WaitFor::room, 0, step(i + 1).c_str());
            CHECK(run.stuck());
            CHECK(is_stuck(run.board, 1) == (i == 3) &&
                  find_lasting(run.board).description.empty() == (i < 3 || !stream));
            if (i == 3) break;
            CHECK(!queue::has_room(run.board, 0, step(i + 1).c_str()));
            end(run);
            CHECK(queue::has_room(run.board, 0, step(i + 1).c_str()));
            run.go_on(0);
        }
        end(run);
        CHECK(run.board.channel(0).stretched == 3);
        CHECK(run.board.channel(0).let_go == (stream ? 0 : 1));
        CHECK(queue::has_room(run.board, 0, step(4).c_str()) == !stream);
        if (!stream)
            CHECK(queue::find(run.board, 1, 0, "out0.h5").passed && queue::find(run.board, 1, 0, "out1.h5").slot >= 0);
    }
}

Member member(const Board& board, uint32_t process, pid_t pid, Doing does) {
    return {process, pid, pid, does, board.pid_namespace(), {}, 0};
}

// Where a process of a rank is not known to wait, nothing is let go; it is said when nothing has moved for long.
void a_process_that_may_go_on() {
    setenv("WILKINS_RANK_PID", std::to_string(getpid()).c_str(),
           1);  // what has started this one is no process of the rank
    for (const bool sleeps : {false, true}) {
        BoardPlan plan = pair("out*.h5", "out*.h5");
        plan.ports[1].keys.reorder = 1;
        Run run(plan);
        run.write(0, "out0.h5");
        run.wait(0, WaitFor::room, 0, "out1.h5");
        run.wait(1, WaitFor::data, 1, "out9.h5", run.board.self());
        run.board.rank(1).members[0] = member(run.board, run.board.self(), getpid(), Doing::waits);
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            note_member(run.board, 1, false);
            for (;;) sleeps ? pause() : usleep(1000);
        }
        while (run.board.rank(1).members[1].process == 0) usleep(1000);
        end(run);
        CHECK(run.board.channel(0).let_go == 0 && find_lasting(run.board).description.empty() &&
              find_doubtful(run.board).empty());
        run.board.head().moved_at -= 2 * kUnsureNs;
        // (Others must be able to see what it sleeps in.)
        while (sleeps && state_of(child, child) != ThreadState::asleep) usleep(1000);
        CHECK(find_doubtful(run.board).empty() == sleeps);
        end(run);
        CHECK(run.board.channel(0).let_go == sleeps);
        kill(child, SIGKILL);
        CHECK(waitpid(child, nullptr, 0) == child);
    }
}

struct Sleeper {
    Board* board;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    bool timed, over = false;
    std::atomic<int> thread{0};
};

void* sleep_until_woken(void* data) {
    auto& sleeper = *static_cast<Sleeper*>(data);
    note_member(*sleeper.board, 1, false);
    pthread_mutex_lock(&sleeper.mutex);
    sleeper.thread = static_cast<int>(syscall(SYS_gettid));
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    while (!sleeper.over)
        if (sleeper.timed) pthread_cond_timedwait(&sleeper.condition, &sleeper.mutex, &until);
        else pthread_cond_wait(&sleeper.condition, &sleeper.mutex);
    pthread_mutex_unlock(&sleeper.mutex);
    return nullptr;
}

// A thread that sleeps until another one of its process wakes it waits for that; one that wakes by itself does not.
void a_thread_that_sleeps() {
    for (const bool timed : {false, true}) {
        BoardPlan plan = pair("out*.h5", "out*.h5");
        plan.ports[1].keys.reorder = 1;
        Run run(plan);
        run.write(0, "out0.h5");
        run.wait(0, WaitFor::room, 0, "out1.h5");
        note_member(run.board, 1, true);
        run.wait(1, WaitFor::data, 1, "out9.h5");
        Sleeper sleeper;
        sleeper.board = &run.board;
        sleeper.timed = timed;
        pthread_t thread;
        CHECK(pthread_create(&thread, nullptr, sleep_until_woken, &sleeper) == 0);
        while (sleeper.thread == 0) usleep(1000);
        pthread_mutex_lock(&sleeper.mutex);
        pthread_mutex_unlock(&sleeper.mutex);
        CHECK(is_unsure(run.board, 1));
        end(run);
        for (int k = 0; k < 1000 && !timed && run.board.channel(0).let_go == 0; ++k) usleep(1000), end(run);
        CHECK(is_unsure(run.board, 1) == timed);
        CHECK(run.board.channel(0).let_go == !timed);
        run.board.head().moved_at -= 2 * kUnsureNs;
        CHECK(find_doubtful(run.board).empty() == !timed);
        note_member(run.board, 1, false);  // and may wake the other one
        CHECK(is_unsure(run.board, 1));
        pthread_mutex_lock(&sleeper.mutex);
        sleeper.over = true;
        pthread_cond_signal(&sleeper.condition);
        pthread_mutex_unlock(&sleeper.mutex);
        CHECK(pthread_join(thread, nullptr) == 0);
        note_member(run.board, 1, true);
        // (It has ended; but the kernel lists it for a moment longer.)
        for (int k = 0; k < 10'000 && is_unsure(run.board, 1); ++k) usleep(1000);
        CHECK(!is_unsure(run.board, 1));
    }
}

// Threads of a rank wait for different things: if one of these can come, the rank is not stuck.
void two_threads_that_wait() {
    BoardPlan plan = pair("out*.h5", "out*.h5");
    plan.tasks.push_back({"other", 1});
    plan.ports.push_back({2, Direction::out, "x*.h5", 0});
    plan.ports.push_back({1, Direction::in, "x*.h5", 0});
    plan.channels.push_back({2, 3, 1, 1, WhenFull::block, 1});
    plan.ports[1].keys.reorder = 1;
    Run run(plan);
    run.write(0, "out0.h5");
    run.wait(0, WaitFor::room, 0, "out1.h5");
    run.wait(1, WaitFor::data, 1, "out9.h5");
    CHECK(run.stuck());
    run.wait(1, WaitFor::data, 3, "x0.h5", 0, 1);
    CHECK(!run.stuck());
    end(run);
    CHECK(run.board.channel(0).let_go == 0);
    run.write(1, "x0.h5");  // it is there, and the thread has yet to notice
    run.board.rank(2).waits[0].what = WaitFor::nothing;
    CHECK(!run.stuck());
    queue::task_exited(run.board, 2, true);
    run.wait(1, WaitFor::data, 1, "out8.h5", 0, 1);
    CHECK(run.stuck());
    end(run);
    CHECK(run.board.channel(0).let_go == 1);
}

// Another rank of the producer is in a barrier, where it waits for the one that waits for room.
void a_rank_in_a_call_of_mpi() {
    BoardPlan plan = pair("out*.h5", "out*.h5", 2);
    plan.ports[1].keys.reorder = 2;
    Run run(plan);
    run.write(0, "out0.h5");
    run.wait(0, WaitFor::room, 0, "out1.h5");
    run.wait(2, WaitFor::data, 1, "out9.h5");
    end(run);
    CHECK(run.board.channel(0).stretched == 0);
    enter_among(run.board, run.board.rank(1));
    end(run);
    CHECK(run.board.channel(0).stretched == 1);
    run.write(0, "out1.h5");
    end(run);
    CHECK(run.board.channel(0).let_go == 0);  // it may be in some short call
    run.board.rank(1).among_since = run.board.rank(1).among_since - kAmongNs;
    end(run);
    CHECK(run.board.channel(0).let_go == 1);
    leave_among(run.board, run.board.rank(1));
    CHECK(find_lasting(run.board).description.empty());
}

// Nobody knows what the other rank of the producer does: the queue grows all the same, after a while; no step is let
// go, and that is said.
void a_rank_that_does_something_else() {
    BoardPlan plan = pair("out*.h5", "out*.h5", 2);
    plan.ports[1].keys.reorder = 2;
    Run run(plan);
    run.write(0, "out0.h5");
    run.wait(0, WaitFor::room, 0, "out1.h5");
    run.wait(2, WaitFor::data, 1, "out9.h5");
    run.board.rank(0).waits[0].since = run.board.rank(2).waits[0].since = now_ns() - kOldNs;
    end(run);
    CHECK(run.board.channel(0).stretched == 1);
    run.write(0, "out1.h5");
    run.board.head().moved_at -= 2 * kUnsureNs;
    end(run);
    CHECK(run.board.channel(0).let_go == 0 && find_lasting(run.board).description.empty());
    CHECK(find_doubtful(run.board).find("(task 'sim' rank 1) is not known to wait") != std::string::npos);
}

// Steps go from one task to another that waits with others in a circle: that one's steps are not let go for the sake of
// the circle.
void what_hangs_on_a_circle() {
    BoardPlan plan = pair("out*.h5", "out*.h5");
    plan.tasks.push_back({"far", 1});
    plan.ports.push_back({2, Direction::out, "far*.h5", 0});
    plan.ports.push_back({1, Direction::in, "far*.h5", 0});
    for (auto& port : plan.ports) port.keys.reorder = 1;
    plan.channels.push_back({2, 3, 1, 1, WhenFull::block, 1});
    Run run(plan);
    run.write(1, "far0.h5");
    run.wait(2, WaitFor::room, 2, "far1.h5");
    run.write(0, "out0.h5");
    run.wait(0, WaitFor::room, 0, "out1.h5");
    run.wait(1, WaitFor::data, 1, "out9.h5");
    CHECK(run.stuck());
    end(run);
    CHECK(run.board.channel(0).let_go == 1 && run.board.channel(1).let_go == 0);
}

// A rank that is over brings nothing as long as another one of its task goes on; when all are over, the launcher has to
// end the task.
void a_rank_that_is_over() {
    Run run(pair("out*.h5", "out*.h5", 2));
    run.write(0, "out0.h5");
    run.wait(0, WaitFor::room, 0, "out1.h5");
    run.wait(2, WaitFor::data, 1, "out9.h5");
    CHECK(!run.stuck());
    note_gone(run.board, 1, false);
    CHECK(!run.stuck());  // it may not have begun
    note_gone(run.board, 1, true);
    CHECK(run.stuck());
    end(run);
    CHECK(run.board.channel(0).stretched == 1);
    run.go_on(0);
    CHECK(!run.stuck());
    note_gone(run.board, 0, true);
    CHECK(!run.stuck());
    queue::task_started(run.board, 0);
    run.write(0, "out1.h5");
    run.wait(0, WaitFor::room, 0, "out2.h5");
    CHECK(!run.stuck());
    run.board.rank(1).leaving = run.board.self();
    CHECK(run.stuck());
    run.board.rank(1).leaving = 0;
    CHECK(!run.stuck());
}

// A circle that nothing can end yet does not keep others from being ended.
void two_circles() {
    BoardPlan plan = pair("out*.h5", "out*.h5");
    plan.tasks.insert(plan.tasks.end(), {{"sim2", 1}, {"look2", 1}});
    plan.ports.push_back({2, Direction::out, "far*.h5", 0});
    plan.ports.push_back({3, Direction::in, "far*.h5", 0});
    plan.channels.push_back({2, 3, 1, 1, WhenFull::block, 1});
    for (auto& port : plan.ports) port.keys.reorder = 1;
    Run run(plan);
    run.write(0, "out0.h5");
    run.wait(0, WaitFor::room, 0, "out1.h5");
    run.wait(1, WaitFor::data, 1, "out9.h5");
    run.board.rank(1).waits[0].kind = WaitKind::gives_up;
    run.write(1, "far0.h5");
    run.wait(2, WaitFor::room, 2, "far1.h5");
    run.wait(3, WaitFor::data, 3, "far9.h5");
    end(run);
    CHECK(run.board.channel(0).let_go == 0 && run.board.channel(1).let_go == 1);
}

}  // namespace

int main() {
    two_wait_for_each_other();
    a_listing_that_gives_up();
    a_listing_again_and_again();
    two_listings_again_and_again();
    a_listing_that_waits_for_the_end();
    a_dead_process_waits_for_nothing();
    skipping_ahead_of_a_full_queue();
    a_stream_that_one_rank_does_not_read();
    another_producer_may_bring_it();
    every_arena_held_open();
    a_step_for_who_asks_for_the_next();
    memory_held_by_the_waiting_reader();
    a_circle_that_a_longer_queue_ends();
    a_process_that_may_go_on();
    a_thread_that_sleeps();
    two_threads_that_wait();
    a_rank_in_a_call_of_mpi();
    a_rank_that_does_something_else();
    what_hangs_on_a_circle();
    a_rank_that_is_over();
    two_circles();
    puts("stuck: ok");
}
