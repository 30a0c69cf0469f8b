// The state machine of steps: room, order, marks, policies, ends.
#include "queue/queue.hpp"

#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/patterns.hpp"
#include "board/arena.hpp"
#include "check.hpp"
#include "queue/closed.hpp"

using namespace wilkins;
using test::Scratch;

namespace {

// Opens and closes; the sequence number of the step, -1 if there is none yet, -2 if it will not come.
int read_by(const Board& board, int inport, const char* name, int reader) {
    const queue::Found found = queue::find(board, inport, reader, name);
    if (found.passed) return -2;
    if (found.slot < 0) return -1;
    queue::take(board, inport, reader, found);
    return static_cast<int>(board.slot(found.slot).sequence);
}

// A board of one producer with `writers` ranks and one consumer with `readers` ranks.
struct Pair {
    Pair(const char* out, const char* in, int writers, int readers, unsigned every, unsigned queue_depth, WhenFull when,
         AccessKeys out_keys = {}, AccessKeys in_keys = {}, unsigned offset = 0) {
        BoardPlan plan;
        plan.tasks = {{"sim", writers}, {"look", readers}};
        plan.ports = {{0, Direction::out, out, 0, out_keys}, {1, Direction::in, in, 0, in_keys}};
        plan.channels = {{0, 1, every, queue_depth, when, readers, false, offset}};
        begin(plan);
    }
    explicit Pair(const BoardPlan& plan) { begin(plan); }

    void begin(const BoardPlan& plan) {
        CHECK(create_board(scratch.path.c_str(), plan) == 0);
        CHECK(board.attach(scratch.path.c_str()) == 0);
        for (int t = 0; t < board.head().tasks; ++t) queue::task_started(board, t);
    }

    // Writes and publishes a step of the given rank. False if there is no room.
    bool write(const char* name, int rank = 0) {
        if (!queue::has_room(board, rank, name)) return false;
        const int slot = queue::take_slot(board, rank, false);
        CHECK(slot >= 0);
        SlotRecord& record = board.slot(slot);
        record.state = SlotState::writing;
        record.writer = rank;
        record.stamp = ++board.head().stamp;
        strcpy(record.name, name);
        queue::publish(board, slot);
        return true;
    }

    int read(const char* name, int reader = 0) { return read_by(board, 1, name, reader); }

    Scratch scratch;
    Board board;
};

void bounded_queue() {
    for (unsigned depth = 1; depth <= 5; ++depth) {
        Pair p("plt*.h5", "plt*.h5", 1, 1, 1, depth, WhenFull::block);
        char name[32];
        for (unsigned i = 0; i < depth; ++i) {
            snprintf(name, sizeof(name), "plt%u.h5", i);
            CHECK(p.write(name));
        }
        CHECK(!p.write("pltX.h5"));
        CHECK(p.read("plt0.h5") == 0);
        CHECK(p.write("pltX.h5"));
        CHECK(!p.write("pltY.h5"));
    }
}

void by_name() {
    Pair p("plt*.h5", "plt*.h5", 1, 1, 1, 4, WhenFull::block);
    for (const char* name : {"plt0.h5", "plt1.h5", "plt2.h5"}) CHECK(p.write(name));
    CHECK(p.read("other/plt1.h5") == 1);
    CHECK(p.read("plt1.h5") == 1);   // again, while it is held
    CHECK(p.read("plt9.h5") == -1);  // may still come
    CHECK(p.read("plt2.h5") == 2);
    CHECK(p.read("plt0.h5") == 0);  // a later one was opened, and nothing is lost by that
    for (int i = 0; i < 60; ++i) {
        char name[32];
        snprintf(name, sizeof(name), "plt1%02d.h5", i);
        CHECK(p.write(name));
        CHECK(p.read(name) == i + 3);
    }
    CHECK(p.read("plt1.h5") == -1);  // long gone, unless the next file has the name
    CHECK(p.write("plt200.h5"));
    CHECK(p.read("plt1.h5") == -2);
    CHECK(p.read("plt200.h5") == 63);
}

// The producer writes steps of this name and the reader opens them, each in an order of its own.
void any_order_within_the_queue() {
    Pair p("*.h5", "*.h5", 1, 1, 1, 4, WhenFull::block);
    int sequence = 0;
    for (int i = 0; i < 50; ++i, sequence += 4) {
        const auto name = [&](int k) { return "s-" + std::to_string(4 * i + k) + ".h5"; };
        for (int k = 0; k < 4; ++k) CHECK(p.write(name(k).c_str()));
        CHECK(!p.write("more.h5"));
        for (int k : {2, 0, 3, 1}) CHECK(p.read(name(k).c_str()) == sequence + k);
    }
}

// Ranks that share the files among them give the others' up, one after the other; the queue is for what none has
// consumed.
void every_rank_its_share() {
    Pair p("plt*.h5", "plt*.h5", 1, 3, 1, 2, WhenFull::block);
    const auto name = [](int i) { return "plt" + std::to_string(i) + ".h5"; };
    for (int i = 0; i < 200; ++i) {
        CHECK(p.write(name(i).c_str()));
        if (i % 3 == 0) CHECK(queue::queued(p.board, p.board.channel(0), 0) == 1);
        CHECK(p.read(name(i).c_str(), i % 3) == i);
    }
    CHECK(p.board.port(1).steps == 200);
}

// A rank that is far behind the others of its task loses nothing, and holds the producer up in the end.
void one_rank_is_late() {
    Pair p("plt*.h5", "plt*.h5", 1, 2, 1, 2, WhenFull::block);
    const auto name = [](int i) { return "plt" + std::to_string(i) + ".h5"; };
    int ahead = 0;
    for (; p.write(name(ahead).c_str()); ++ahead) {
        CHECK(ahead < 40);
        CHECK(p.read(name(ahead).c_str(), 0) == ahead);
    }
    CHECK(ahead == 2 + kSpareSlots);
    for (int i = 0; i < ahead; ++i) CHECK(p.read(name(i).c_str(), 1) == i);
    CHECK(p.write(name(ahead).c_str()));
}

// Two ranks read all, each file's second part before its first, and none loses what the other has consumed.
void the_other_way_round_by_two_ranks() {
    Pair p("*.h5", "*.h5", 1, 2, 1, 2, WhenFull::block);
    for (int s = 0; s < p.board.source(0).slots; ++s)
        p.board.slot(s).reserved.store(kRetained);  // such large ones are not kept for long
    int sequence = 0;
    for (int i = 0; i < 30; ++i, sequence += 3) {
        const std::string mesh = "mesh" + std::to_string(i) + ".h5", part = "part" + std::to_string(i) + ".h5";
        CHECK(p.write(mesh.c_str()) && p.write(part.c_str()));
        CHECK(p.read(part.c_str(), 0) == sequence + 1 && p.read(mesh.c_str(), 0) == sequence);
        CHECK(p.read(part.c_str(), 1) == sequence + 1);  // is not past the mesh, though the other rank has consumed it
        const std::string next = "next" + std::to_string(i) + ".h5";
        CHECK(p.write(next.c_str()));
        CHECK(p.read(mesh.c_str(), 1) == sequence);
        CHECK(p.read(next.c_str(), 0) == sequence + 2 && p.read(next.c_str(), 1) == sequence + 2);
    }
}

// Steps that all have consumed can be opened again by their names, as long as there is room; what was opened least
// recently goes first.
void two_passes() {
    const auto name = [](int i) { return "plt" + std::to_string(i) + ".h5"; };
    Pair p("plt*.h5", "plt*.h5", 1, 1, 1, 2, WhenFull::block);
    const int slots = p.board.source(0).slots;
    for (int i = 0; i < slots; ++i) CHECK(p.write(name(i).c_str()) && p.read(name(i).c_str()) == i);
    CHECK(p.read(name(0).c_str()) == -1);  // may yet be written anew
    queue::task_exited(p.board, 0, true);
    for (int i = 0; i < slots; ++i) CHECK(p.read(name(i).c_str()) == i);

    Pair q("plt*.h5", "plt*.h5", 1, 1, 1, 2, WhenFull::block);
    for (int i = 0; i < slots; ++i) CHECK(q.write(name(i).c_str()) && q.read(name(i).c_str()) == i);
    CHECK(q.write(name(slots).c_str()));
    CHECK(q.read(name(0).c_str()) == -2 && q.read(name(1).c_str()) == 1);
    CHECK(q.read(name(slots).c_str()) == slots);
    CHECK(q.write(name(slots + 1).c_str()));
    CHECK(q.read(name(1).c_str()) == 1 && q.read(name(2).c_str()) == -2);
}

// Large steps are not kept, unless the workflow file says how many.
void memory_of_consumed_steps() {
    const auto name = [](int i) { return "plt" + std::to_string(i) + ".h5"; };
    for (const uint32_t given : {0u, 5u}) {
        AccessKeys keys;
        if (given) keys.reorder = given, keys.reorder_given = 1;
        Pair p("plt*.h5", "plt*.h5", 1, 1, 1, 2, WhenFull::block, {}, keys);
        int arenas = 0;
        for (int i = 0; i < 100; ++i) {
            const int slot = queue::take_slot(p.board, 0, false);
            CHECK(slot >= 0);
            SlotRecord& record = p.board.slot(slot);
            if (record.reserved.exchange(kRetained / 2) == 0) ++arenas;
            record.state = SlotState::writing;
            strcpy(record.name, name(i).c_str());
            queue::publish(p.board, slot);
            CHECK(p.read(name(i).c_str()) == i);
        }
        CHECK(arenas == (given ? static_cast<int>(given) + 1 : 2));
        CHECK(p.write(name(100).c_str()));
        CHECK(p.read(name(99).c_str()) == 99);
        CHECK(p.read(name(95).c_str()) == (given ? 95 : -2));
    }
}

// A name that its rank has consumed, and a later one after it, may be written anew: the next file tells.
void going_back() {
    Pair p("r.*", "r.*", 1, 1, 1, 2, WhenFull::block);
    CHECK(p.write("r.1") && p.write("r.2"));
    CHECK(p.read("r.1") == 0 && p.read("r.2") == 1);
    CHECK(p.read("r.1") == -1);
    const int slot = queue::take_slot(p.board, 0, false);
    p.board.slot(slot).state = SlotState::writing;
    strcpy(p.board.slot(slot).name, "r.1");
    CHECK(p.read("r.1") == -1);
    queue::publish(p.board, slot);
    CHECK(p.read("r.1") == 2 && p.read("r.1") == -1);
    CHECK(p.read("r.2") == -1);  // its names repeat
    CHECK(p.write("r.2"));
    CHECK(p.read("r.2") == 3);

    Pair q("r.*", "r.*", 1, 1, 1, 2, WhenFull::block);
    CHECK(q.write("r.1") && q.write("r.2"));
    CHECK(q.read("r.1") == 0 && q.read("r.2") == 1);
    q.board.rank(0).waits[0].what = WaitFor::data;
    CHECK(q.read("r.1") == 0);
    q.board.rank(0).waits[0].what = WaitFor::nothing;
    CHECK(q.read("r.1") == -1);
    CHECK(q.write("r.3"));
    CHECK(q.read("r.1") == 0 && q.read("r.3") == 2);
}

// The next start of a program gets by name, and lists, only what no rank of it has consumed.
void started_again() {
    Pair p("plt*.h5", "plt*.h5", 1, 2, 1, 4, WhenFull::block);
    for (const char* name : {"plt0.h5", "plt1.h5", "plt2.h5"}) CHECK(p.write(name));
    CHECK(p.read("plt2.h5", 0) == 2 && p.read("plt0.h5", 1) == 0);
    queue::task_exited(p.board, 1, false);
    queue::task_started(p.board, 1);
    for (int reader : {0, 1}) CHECK(p.read("plt2.h5", reader) == -2 && p.read("plt0.h5", reader) == -2);
    CHECK(queue::next_step(p.board, 1) < 0);
    queue::task_started(p.board, 1, true);
    CHECK(p.board.slot(queue::next_step(p.board, 1)).sequence == 1);
    for (int reader : {0, 1}) CHECK(p.read("plt1.h5", reader) == 1);
}

// A program removes what it has read, in the end, also what has made room meanwhile; what it has not read is let go.
void removing_what_was_read() {
    Pair p("plt*.h5", "plt*.h5", 1, 1, 1, 4, WhenFull::block);
    const auto name = [](int i) { return "plt" + std::to_string(i) + ".h5"; };
    const int many = 2 * p.board.source(0).slots;
    for (int i = 0; i < many; ++i) CHECK(p.write(name(i).c_str()) && p.read(name(i).c_str()) == i);
    CHECK(p.write("plt-unread.h5"));
    for (int i = 0; i < many; ++i) CHECK(queue::let_go(p.board, 1, 0, name(i).c_str()));
    CHECK(p.read(name(many - 1).c_str()) == -2);
    CHECK(p.write("plt-more.h5"));
    CHECK(queue::let_go(p.board, 1, 0, "plt-unread.h5"));
    CHECK(p.read("plt-unread.h5") == -2 && p.read("plt-more.h5") == many + 1);
    CHECK(!queue::let_go(p.board, 1, 0, "plt-never.h5"));
}

// A name under a pattern with wildcards that its producer rewrites is a stream too; nothing depends on who is faster.
void rewritten_name_under_a_pattern() {
    Pair p("*.h5", "*.h5", 1, 1, 1, 2, WhenFull::block);
    CHECK(p.write("out.h5"));
    CHECK(p.read("out.h5") == 0);
    CHECK(p.read("out.h5") == -1);  // the same step again, or the next? The producer's next file will tell
    CHECK(p.write("out.h5"));
    CHECK(p.read("out.h5") == 1);
    CHECK(p.read("out.h5") == -1);  // now it is known

    Pair q("*.h5", "*.h5", 1, 1, 1, 2, WhenFull::block);
    CHECK(q.write("plt0.h5"));
    CHECK(q.read("plt0.h5") == 0);
    CHECK(q.read("plt0.h5") == -1);
    const int slot = queue::take_slot(q.board, 0, false);
    q.board.slot(slot).state = SlotState::writing;
    strcpy(q.board.slot(slot).name, "plt1.h5");
    CHECK(q.read("plt0.h5") == 0);
    CHECK(q.read("plt0.h5") == 0);
    queue::publish(q.board, slot);
    CHECK(q.read("plt1.h5") == 1);
    CHECK(q.read("plt1.h5") == 1);
    CHECK(q.read("plt0.h5") == -1);  // unless that is the next file
    CHECK(q.write("plt2.h5") && q.read("plt0.h5") == 0);

    Pair r("*.h5", "*.h5", 1, 1, 1, 2, WhenFull::block);
    CHECK(r.write("out.h5"));
    CHECK(r.read("out.h5") == 0);
    queue::task_exited(r.board, 0, true);
    CHECK(r.read("out.h5") == 0);
}

void fixed_name_is_a_stream() {
    Pair p("out.h5", "out.h5", 1, 2, 1, 3, WhenFull::block);
    CHECK(p.read("out.h5") == -1);
    for (int i = 0; i < 3; ++i) CHECK(p.write("out.h5"));
    CHECK(!p.write("out.h5"));
    CHECK(p.read("out.h5", 0) == 0);
    CHECK(p.read("out.h5", 0) == 1);
    CHECK(!p.write("out.h5"));  // rank 1 has read nothing yet
    CHECK(p.read("out.h5", 1) == 0);
    CHECK(p.write("out.h5"));
    CHECK(p.read("out.h5", 1) == 1);
    CHECK(p.read("out.h5", 1) == 2);
    CHECK(p.read("out.h5", 0) == 2);
    CHECK(p.read("out.h5", 0) == 3);
}

void every_and_drop() {
    Pair third("out.h5", "out.h5", 1, 1, 3, 10, WhenFull::block);
    for (int i = 0; i < 7; ++i) CHECK(third.write("out.h5"));
    for (int expected : {0, 3, 6, -1}) CHECK(third.read("out.h5") == expected);
    Pair last_of_three("out.h5", "out.h5", 1, 1, 3, 1, WhenFull::block, {}, {}, 2);
    for (int i = 0; i < 5; ++i) CHECK(last_of_three.write("out.h5"));
    CHECK(!last_of_three.write("out.h5"));
    for (int expected : {2, -1}) CHECK(last_of_three.read("out.h5") == expected);
    CHECK(last_of_three.write("out.h5"));
    for (int expected : {5, -1}) CHECK(last_of_three.read("out.h5") == expected);

    Pair latest("out.h5", "out.h5", 1, 2, 1, 1, WhenFull::drop_oldest);
    for (int i = 0; i < 5; ++i) CHECK(latest.write("out.h5"));
    CHECK(latest.read("out.h5", 0) == 4);
    for (int i = 0; i < 5; ++i) CHECK(latest.write("out.h5"));
    CHECK(latest.read("out.h5", 1) == 4);  // the same step as rank 0's first
    CHECK(latest.read("out.h5", 1) == 9);
    CHECK(latest.read("out.h5", 0) == 9);

    Pair newest("out.h5", "out.h5", 1, 1, 1, 2, WhenFull::drop_newest);
    for (int i = 0; i < 5; ++i) CHECK(newest.write("out.h5"));
    for (int expected : {0, 1, -1}) CHECK(newest.read("out.h5") == expected);
}

void a_rank_reads_only_its_file() {
    Pair p("out-*.h5", "out-*.h5", 2, 2, 1, 1, WhenFull::block);
    for (int i = 0; i < 10; ++i) {
        char name[2][32];
        for (int r = 0; r < 2; ++r) {
            snprintf(name[r], sizeof(name[r]), "out-%d-%d.h5", i, r);
            CHECK(p.write(name[r], r));
        }
        for (int r = 0; r < 2; ++r) CHECK(p.read(name[r], r) == i);
    }
}

void ends() {
    Pair p("out.h5", "out.h5", 1, 1, 1, 1, WhenFull::block);
    CHECK(p.write("out.h5"));
    CHECK(!p.write("out.h5"));
    queue::task_exited(p.board, 1, true);
    CHECK(p.write("out.h5"));  // nobody is left to wait for
    CHECK(queue::can_produce(p.board, 1));
    queue::task_exited(p.board, 0, true);
    CHECK(!queue::can_produce(p.board, 1));

    Pair q("out.h5", "out.h5", 1, 1, 1, 2, WhenFull::block);
    const int slot = queue::take_slot(q.board, 0, false);
    q.board.slot(slot).state = SlotState::writing;
    queue::task_exited(q.board, 0, true);  // killed while writing: the step never existed
    CHECK(q.read("out.h5") == -1 && !queue::can_produce(q.board, 1));
}

void restarts() {
    Pair p("out.h5", "out.h5", 1, 2, 1, 4, WhenFull::block);
    for (int i = 0; i < 3; ++i) CHECK(p.write("out.h5"));
    CHECK(p.read("out.h5", 0) == 0);
    CHECK(queue::steps_opened(p.board, 1) == 1);
    queue::task_exited(p.board, 1, false);
    queue::task_started(p.board, 1);
    CHECK(queue::steps_opened(p.board, 1) == 0);
    CHECK(p.read("out.h5", 1) == 1);  // its ranks move on together
    CHECK(p.read("out.h5", 0) == 1);
}

// What comes again is the step that the failed program itself has opened last, whatever others have opened since.
void given_again_beside_others() {
    AccessKeys again;
    again.reads_again = 1;
    BoardPlan plan;
    plan.tasks = {{"sim", 2}, {"look", 1}, {"other", 1}};
    plan.ports = {
        {0, Direction::out, "*.h5", 0}, {1, Direction::in, "*.h5", 0, again}, {2, Direction::in, "*.h5", 0, again}};
    for (const int inport : {1, 2}) plan.channels.push_back({0, inport, 1, 4, WhenFull::block, 1});
    Pair p(plan);
    CHECK(p.write("a0.h5", 0) && p.write("b0.h5", 1) && p.write("b1.h5", 1));
    CHECK(p.read("a0.h5") == 0 && p.read("b0.h5") == 0 && read_by(p.board, 2, "a0.h5", 0) == 0);
    CHECK(queue::give_again(p.board, 1));
    queue::task_exited(p.board, 1, false, false);
    queue::task_started(p.board, 1);
    const auto is_next = [&](const char* name) {
        const queue::Found found = queue::find(p.board, 1, 0, name);
        return found.slot >= 0 && found.unread;
    };
    CHECK(is_next("b0.h5") && is_next("b1.h5") && !is_next("a0.h5"));
}

// A program that waits to list the whole series: no queue bounds it, and what was read stays until it is whole.
void a_whole_series() {
    AccessKeys whole;
    whole.listing = Lists::end;
    Pair p("out*.h5", "out*.h5", 1, 1, 1, 2, WhenFull::block, {}, whole);
    const auto name = [](int step) { return "out" + std::to_string(step) + ".h5"; };
    const int slots = p.board.source(0).slots;
    for (int i = 0; i < 5; ++i) CHECK(p.write(name(i).c_str()));
    CHECK(p.read("out3.h5") == 3);
    for (int i = 5; i < slots; ++i) CHECK(p.write(name(i).c_str()));
    CHECK(queue::full_of_series(p.board, 0));
    CHECK(queue::take_slot(p.board, 0, true) < 0);
    queue::task_exited(p.board, 0, true);
    CHECK(!queue::full_of_series(p.board, 0));
    CHECK(p.read(name(slots - 1).c_str()) == slots - 1);
}

// What a program has read since its start, compared with what it was shown.
void read_as_listed() {
    Pair p("out*.h5", "out*.h5", 1, 1, 1, 4, WhenFull::block);
    CHECK(p.write("out0.h5") && p.write("out1.h5"));
    CHECK(queue::begin_listing(p.board, 1, 0, false) == 2);
    CHECK(!queue::read_as_listed(p.board, 1).some);
    CHECK(p.read("out0.h5") == 0 && p.read("out1.h5") == 1);
    CHECK(queue::read_as_listed(p.board, 1).some);
    CHECK(p.write("out2.h5") && p.read("out2.h5") == 2);
    CHECK(!queue::read_as_listed(p.board, 1).some);  // it knew that name by itself
    queue::task_exited(p.board, 1, false);
    queue::task_started(p.board, 1);
    CHECK(p.write("out3.h5") && p.read("out3.h5") == 3);
    CHECK(!queue::read_as_listed(p.board, 1).some);
    queue::begin_listing(p.board, 1, 0, true);
    CHECK(queue::read_as_listed(p.board, 1).whole);
}

// The n-th listing of each rank shows the same steps, whatever is published meanwhile.
void listings_of_ranks() {
    Pair p("out*.h5", "out*.h5", 1, 2, 1, 4, WhenFull::block);
    CHECK(p.write("out0.h5"));
    CHECK(queue::begin_listing(p.board, 1, 0, false) == 1);
    CHECK(p.write("out1.h5"));
    CHECK(queue::begin_listing(p.board, 1, 0, false) == 2);
    CHECK(p.write("out2.h5"));
    CHECK(queue::begin_listing(p.board, 1, 1, false) == 1);
    CHECK(queue::begin_listing(p.board, 1, 1, false) == 2);
    CHECK(queue::begin_listing(p.board, 1, 1, false) == 3);
    for (int i = 0; i < kListings; ++i) queue::begin_listing(p.board, 1, 1, false);
    CHECK(queue::begin_listing(p.board, 1, 0, false) == 3);  // that of this number is forgotten: as things are now
    queue::task_exited(p.board, 1, false);
    queue::task_started(p.board, 1);
    CHECK(p.write("out3.h5"));
    CHECK(queue::begin_listing(p.board, 1, 1, false) == 4);
}

// A script that was started for one step may open it with several programs; a fixed name stays that step until the next
// start.
void started_for_one_step() {
    Pair p("out.h5", "out.h5", 1, 2, 1, 4, WhenFull::block);
    for (int i = 0; i < 3; ++i) CHECK(p.write("out.h5"));
    for (int start = 0; start < 3; ++start) {
        queue::task_started(p.board, 1, true);
        for (int reader : {0, 0, 1, 0, 1}) CHECK(p.read("out.h5", reader) == start);
        CHECK(queue::steps_opened(p.board, 1) == 1);
        queue::task_exited(p.board, 1, false);
    }
    queue::task_started(p.board, 1, true);
    CHECK(p.read("out.h5", 0) == -1);
}

void names_that_clash_and_history() {
    Pair p("out*.h5", "out*.h5", 2, 1, 1, 2, WhenFull::block);
    CHECK(p.write("out1.h5", 0));
    p.board.slot(queue::find_own(p.board, 0, "out1.h5")).place_hash = 42;
    CHECK(queue::find_clash(p.board, 0, 1, 42) >= 0);
    CHECK(queue::find_clash(p.board, 0, 0, 42) < 0);
    CHECK(queue::in_history(p.board, p.board.source(0), "out1.h5", 1));
    CHECK(queue::exists(p.board, p.board.source(0), "out1.h5"));
    CHECK(queue::remove_own(p.board, 0, "out1.h5", 0, false));
    CHECK(!queue::remove_own(p.board, 0, "out1.h5", 0, false));
    CHECK(!queue::exists(p.board, p.board.source(0), "out1.h5"));
    CHECK(queue::in_history(p.board, p.board.source(0), "out1.h5", 1));
    CHECK(queue::find_own(p.board, 0, "out1.h5") < 0);
}

// "Remove the old file, write the new one" is common: what was published still reaches its consumers.
void removing_before_rewriting() {
    for (const char* pattern : {"out.h5", "*.h5"}) {
        Pair p(pattern, pattern, 1, 1, 1, 3, WhenFull::block);
        for (int i = 0; i < 3; ++i) {
            CHECK(queue::remove_own(p.board, 0, "out.h5", 0, false) == (i > 0));
            CHECK(p.write("out.h5"));
        }
        for (int i = 0; i < 3; ++i) CHECK(p.read("out.h5") == i);
        CHECK(p.read("out.h5") == -1);
        CHECK(p.write("out.h5"));
        CHECK(queue::remove_own(p.board, 0, "out.h5", 0, true));
        CHECK(p.read("out.h5") == -1);
    }
}

// A file that loses its name before it is whole is nobody's but its program's.
void removing_while_writing() {
    for (const Mode mode : {Mode::memory, Mode::both}) {
        Pair p("*.h5", "*.h5", 1, 1, 1, 3, WhenFull::block, {mode});
        const int index = queue::take_slot(p.board, 0, false);
        SlotRecord& slot = p.board.slot(index);
        strcpy(slot.name, "out.h5");
        slot.state = SlotState::writing;
        slot.size = 1;
        CHECK(queue::remove_own(p.board, 0, "out.h5", 0, false));
        queue::close_slot(p.board, index, 0, false);
        CHECK(p.read("out.h5") == -1);
        CHECK(p.write("out.h5"));
        CHECK(p.read("out.h5") == 0);
    }
}

// As wilkins/flow/machine.py: what some rank has opened takes no place from what none has.
void dropping_with_two_readers() {
    Pair p("out.h5", "out.h5", 1, 2, 1, 2, WhenFull::drop_oldest);
    CHECK(p.write("out.h5"));
    CHECK(p.read("out.h5", 0) == 0);
    CHECK(p.write("out.h5") && p.write("out.h5"));
    for (int expected : {1, 2, -1}) CHECK(p.read("out.h5", 0) == expected);
    for (int expected : {0, 1, 2, -1}) CHECK(p.read("out.h5", 1) == expected);
}

// What a group of channels drops is the same for all, whoever reads when: of ranks on this host, and of relays to
// others.
void dropping_together(const char* pattern, WhenFull when, unsigned seed) {
    const auto name = [&](int i) { return strchr(pattern, '*') ? "s" + std::to_string(i) + ".h5" : pattern; };
    BoardPlan plan;
    plan.tasks = {{"sim", 1}, {"look", 2}, {"to-b", 1}, {"to-c", 1}};
    plan.ports = {{0, Direction::out, pattern, 0},
                  {1, Direction::in, pattern, 0},
                  {2, Direction::in, pattern, 0},
                  {3, Direction::in, pattern, 0}};
    for (int port = 1; port <= 3; ++port)
        plan.channels.push_back({0, port, 1, 1 + seed % 3, when, port == 1 ? 2 : 1, false, 0, 5});
    Pair p(plan);
    srand(seed);
    std::vector<int> read[4];
    const auto take = [&](int who) {
        const int port = who < 2 ? 1 : who, slot = queue::choose(p.board, port, who < 2 ? who : 0);
        if (slot >= 0) read[who].push_back(static_cast<int>(p.board.slot(slot).sequence));
        return slot >= 0;
    };
    int written = 0;
    for (int i = 0; i < 400; ++i) {
        if (rand() % 3 > 0) take(rand() % 4);
        else if (p.write(name(written).c_str())) ++written;
    }
    for (int who = 0; who < 4; ++who)
        while (take(who)) continue;
    for (const auto& one : read) CHECK(one == read[0]);
    CHECK(read[0].size() > 20 && static_cast<int>(read[0].size()) <= written);
    for (int port = 1; port <= 3; ++port)
        CHECK(p.board.channel(port - 1).read + p.board.channel(port - 1).dropped == static_cast<uint64_t>(written));
    if (when == WhenFull::drop_oldest) CHECK(read[0].back() == written - 1);
}

// A relay brings a step when a reader asks for one that is not there.
void on_demand() {
    AccessKeys relay;
    relay.far_host = 1;
    relay.on_demand = 1;
    Pair p("s*.h5", "s*.h5", 1, 1, 1, 2, WhenFull::block, relay);
    const auto wanted = [&] { return queue::is_wanted(p.board, 0, ""); };
    CHECK(!wanted());
    CHECK(queue::poll(p.board, 1, 0) == queue::Answer::none && wanted());
    CHECK(p.write("s0.h5") && !wanted());
    CHECK(p.read("s0.h5") == 0 && !wanted());
    queue::want(p.board, 1);
    CHECK(wanted() && p.write("s5.h5"));
    queue::want(p.board, 1);  // a rank waits for a later one
    CHECK(wanted() && p.write("s6.h5"));
    queue::want(p.board, 1);
    CHECK(!queue::is_wanted(p.board, 0, "s6.h5"));  // two are there that nobody has opened
    CHECK(p.read("s3.h5") == -1);
    queue::note_left_out(p.board, 0, "s3.h5");
    CHECK(queue::knows_left_out(p.board, 0, "s3.h5") && p.read("s3.h5") == -2);
    CHECK(p.read("s6.h5") == 2 && wanted());
    CHECK(p.write("s7.h5") && !wanted());
    CHECK(queue::is_read(p.board, 0));
    queue::want(p.board, 1);
    queue::task_exited(p.board, 1, true);
    CHECK(!wanted() && !queue::is_read(p.board, 0));
}

// A relay knows which names it was not given.
void names_left_out() {
    AccessKeys relay;
    relay.far_host = 1;
    Pair p("*.h5", "s*.h5", 1, 1, 2, 1, WhenFull::drop_oldest, {}, relay, 1);
    for (const char* name : {"a0.h5", "s0.h5", "s1.h5", "s2.h5", "s3.h5"}) CHECK(p.write(name));
    for (const char* name : {"s0.h5", "s1.h5", "s2.h5"}) CHECK(queue::is_left_out(p.board, 1, name));
    for (const char* name : {"a0.h5", "s3.h5", "s4.h5"}) CHECK(!queue::is_left_out(p.board, 1, name));
    CHECK(p.read("s3.h5") == 4 && !queue::is_left_out(p.board, 1, "s3.h5"));
    CHECK(p.write("s0.h5"));  // names repeat: it may come yet
    CHECK(!queue::is_left_out(p.board, 1, "s0.h5"));
}

// Files that a channel does not carry neither count for it nor wait for its readers.
void names_of_other_channels() {
    Pair p("*.h5", "plt*.h5", 1, 1, 2, 1, WhenFull::block);
    for (int i = 0; i < 3; ++i) {
        char name[32];
        snprintf(name, sizeof(name), "chk%d.h5", i);
        CHECK(p.write(name));
        snprintf(name, sizeof(name), "plt%d.h5", i);
        if (i < 2) CHECK(p.write(name));
        else CHECK(!p.write(name));
    }
    CHECK(p.write("chk3.h5"));
    CHECK(p.read("plt1.h5") == -2);
    CHECK(p.read("plt0.h5") == 1);
    CHECK(p.write("plt2.h5"));
    CHECK(p.read("plt2.h5") == 6);
}

// A rank far behind the others still gets every step.
void far_behind() {
    Pair p("out.h5", "out.h5", 1, 2, 1, 1500, WhenFull::block);
    for (int i = 0; i < 1500; ++i) {
        CHECK(p.write("out.h5"));
        CHECK(p.read("out.h5", 0) == i);
    }
    for (int i = 0; i < 1500; ++i) CHECK(p.read("out.h5", 1) == i);
}

// A step that its producer removes after one rank has read it: the others go on behind it.
void removed_between_two_ranks() {
    Pair p("out.h5", "out.h5", 1, 2, 1, 3, WhenFull::block);
    CHECK(p.write("out.h5"));
    CHECK(p.read("out.h5", 0) == 0);
    p.board.on(p.board.slot(queue::find_own(p.board, 0, "out.h5")), 0) = 0;
    CHECK(p.write("out.h5"));
    CHECK(p.read("out.h5", 1) == 1);
    CHECK(p.read("out.h5", 0) == 1);
}

// One rank opened a step alone before all opened the next together.
void following_the_lead() {
    Pair p("out.h5", "out.h5", 1, 2, 1, 2, WhenFull::block);
    CHECK(p.write("out.h5") && p.write("out.h5"));
    CHECK(p.read("out.h5", 0) == 0);
    const int lead = queue::find(p.board, 1, 0, "out.h5").slot;
    CHECK(p.read("out.h5", 0) == 1);
    queue::follow_lead(p.board, 1, 1, lead);
    CHECK(p.write("out.h5") && p.write("out.h5"));
    CHECK(p.read("out.h5", 1) == 2);
}

// Writes a step of a board's first source, or goes on with a closed one, and closes it.
void write_and_close(const Pair& p, const char* name) {
    const uint64_t place = hash_text(name);
    int slot = queue::find_closed(p.board, 0, name, place);
    queue::turn_to(p.board, 0, slot < 0 ? 0 : place);
    if (slot < 0) slot = queue::take_slot(p.board, 0, false);
    CHECK(slot >= 0);
    SlotRecord& record = p.board.slot(slot);
    if (record.state != SlotState::closed) record.stamp = ++p.board.head().stamp;
    record.writer_process = p.board.self();
    record.state = SlotState::writing;
    record.size = 1;
    record.place_hash = place;
    strcpy(record.name, name);
    queue::close_slot(p.board, slot, 0);
}

constexpr uint32_t kNobody = 1u << 20;  // no process of the run has this number

// What a process changes on disk without the board's lock is nobody else's, as long as it lives.
void claiming() {
    static int discarded = 0;
    const auto count = [](const Board&, const SlotRecord&) { ++discarded; };
    Pair p("plt*.h5", "plt*.h5", 1, 1, 1, 9, WhenFull::block, {Mode::both, Publish::next});
    SlotRecord& empty = p.board.slot(0);
    empty.reserved.store(kBlock);  // taken before others
    empty.claimed_by = p.board.self();
    CHECK(queue::take_slot(p.board, 0, false) != 0);
    empty.claimed_by = kNobody;
    CHECK(queue::take_slot(p.board, 0, false) == 0 && empty.claimed_by == 0);

    write_and_close(p, "plt0.h5");
    SlotRecord& renamed = p.board.slot(queue::find_closed(p.board, 0, "plt0.h5", 0));
    CHECK(!queue::settle_claims(p.board, 0, count));
    renamed.claimed_by = p.board.self();
    CHECK(queue::settle_claims(p.board, 0, count) && renamed.state == SlotState::closed && discarded == 0);
    renamed.claimed_by = kNobody;
    CHECK(!queue::settle_claims(p.board, 0, count) && discarded == 1);
    CHECK(queue::find_closed(p.board, 0, "plt0.h5", 0) == -1);

    write_and_close(p, "plt1.h5");
    p.board.slot(queue::find_closed(p.board, 0, "plt1.h5", 0)).claimed_by = p.board.self();
    queue::task_exited(p.board, 0, true, true, count);  // it may have the one name or the other
    CHECK(discarded == 2 && p.board.port(0).steps == 0);
}

// A file without a byte may yet be written; after a while it is a step as it is.
void empty_files() {
    Pair p("plt*.h5", "plt*.h5", 1, 1, 1, 9, WhenFull::block);
    const int slot = queue::take_slot(p.board, 0, false);
    SlotRecord& record = p.board.slot(slot);
    record.state = SlotState::writing;
    strcpy(record.name, "plt0.h5");
    queue::close_slot(p.board, slot, 0);
    CHECK(queue::publish_long_empty(p.board, -1) == 1 && p.read("plt0.h5") == -1);
    record.empty_since -= 2'000'000'000;
    CHECK(queue::publish_long_empty(p.board, 1) == 0 && p.read("plt0.h5") == -1);  // another task's
    CHECK(queue::publish_long_empty(p.board, 0) == 0 && p.read("plt0.h5") == 0);
}

void closed() {
    Pair third("plt*.h5", "plt*.h5", 1, 1, 1, 9, WhenFull::block, {Mode::memory, Publish::close, 3});
    for (const char* name : {"plt0.h5", "plt1.h5"}) {
        for (int close = 0; close < 2; ++close) {
            write_and_close(third, name);
            CHECK(third.read(name) == -1);  // may still come
            CHECK(queue::find_own(third.board, 0, name) >= 0);
        }
        write_and_close(third, name);
    }
    CHECK(third.read("plt0.h5") == 0 && third.read("plt1.h5") == 1);

    Pair next("plt*.h5", "plt*.h5", 1, 1, 1, 9, WhenFull::block, {Mode::memory, Publish::next});
    for (const char* name : {"plt0.h5", "plt0.h5", "plt1.h5", "plt1.h5"}) write_and_close(next, name);
    CHECK(next.read("plt0.h5") == 0 && next.read("plt1.h5") == -1);
    CHECK(queue::remove_own(next.board, 0, "plt1.h5", 0, false));  // never published: gone for everyone
    write_and_close(next, "plt2.h5");
    CHECK(next.read("plt1.h5") == -1);
    queue::task_exited(next.board, 0, true, true);
    CHECK(next.read("plt2.h5") == 1);

    Pair failed("plt*.h5", "plt*.h5", 1, 1, 1, 9, WhenFull::block, {Mode::memory, Publish::next});
    write_and_close(failed, "plt0.h5");
    static int discarded = 0;
    queue::task_exited(failed.board, 0, true, false, [](const Board&, const SlotRecord&) { ++discarded; });
    CHECK(failed.read("plt0.h5") == -1 && discarded == 1 && failed.board.port(0).steps == 0);

    Pair full("*.h5", "*.h5", 1, 1, 1, 1, WhenFull::block, {Mode::memory, Publish::close, 2});
    for (int i = 0; i < full.board.source(0).slots; ++i) {
        CHECK(!queue::full_of_closed(full.board, 0));
        write_and_close(full, std::to_string(i).append(".h5").c_str());
    }
    CHECK(queue::full_of_closed(full.board, 0) && queue::take_slot(full.board, 0, true) < 0);
}

// What a process that died with the lock has left is completed.
void repairing() {
    Pair next("plt*.h5", "plt*.h5", 1, 1, 1, 9, WhenFull::block, {Mode::memory, Publish::next});
    write_and_close(next, "plt0.h5");
    const int removed = queue::find_closed(next.board, 0, "plt0.h5", 0);
    CHECK(removed >= 0);
    next.board.slot(removed).removed = 1;  // it died while it removed the file
    queue::repair(next.board);
    CHECK(queue::find_closed(next.board, 0, "plt0.h5", 0) < 0);
    queue::task_exited(next.board, 0, true, true);
    CHECK(next.read("plt0.h5") == -1 && next.board.port(0).steps == 0);

    for (const Mode mode : {Mode::memory, Mode::file}) {
        Pair p("plt*.h5", "plt*.h5", 1, 1, 1, 9, WhenFull::block, {mode});
        CHECK(p.write("plt0.h5"));
        p.board.slot(queue::find_own(p.board, 0, "plt0.h5")).accounted = 1000;
        queue::repair(p.board);
        CHECK(p.board.head().memory == (mode == Mode::file ? 0 : 1000));  // files are on disk
        CHECK(p.board.port(0).used == p.board.head().memory);
    }
}

// A producer that is started again makes its steps once more, for nobody and without waiting for room, and then goes
// on.
void made_again() {
    Pair p("plt*.h5", "plt*.h5", 1, 1, 1, 2, WhenFull::block);
    const auto name = [](int i) { return "plt" + std::to_string(i) + ".h5"; };
    for (int i = 0; i < 5; ++i) CHECK(p.write(name(i).c_str()) && (i >= 3 || p.read(name(i).c_str()) == i));
    CHECK(!p.write("plt5.h5"));  // two wait
    for (int round = 0; round < 2; ++round) {
        queue::task_exited(p.board, 0, false, false);
        queue::go_back(p.board, 0, 0, 1);
        queue::task_started(p.board, 0);
        for (int i = 1; i < (round == 0 ? 3 : 5); ++i)
            CHECK(p.write(name(i).c_str()));  // the first time, it fails again meanwhile
    }
    CHECK(!p.write("plt5.h5"));
    CHECK(p.board.port(0).steps == 5 && p.board.channel(0).published == 5 && p.board.source(0).rewrites == 0);
    CHECK(p.read("plt3.h5") == 3 && p.read("plt4.h5") == 4);
    CHECK(p.write("plt5.h5") && p.read("plt5.h5") == 5);
    CHECK(p.board.port(1).steps == 6 && p.board.port(0).steps == 6);
    queue::go_back(p.board, 0, 0, 9);  // further than it was
    CHECK(p.write("plt6.h5") && p.read("plt6.h5") == 6);
}

// Where only some steps are kept, the same ones are after a failure.
void made_again_of_some() {
    Pair p("plt*.h5", "plt*.h5", 1, 1, 3, 2, WhenFull::block);
    const auto name = [](int i) { return "plt" + std::to_string(i) + ".h5"; };
    for (int i = 0; i < 5; ++i) CHECK(p.write(name(i).c_str()));
    queue::go_back(p.board, 0, 0, 0);
    for (int i = 0; i < 10; ++i) CHECK(p.write(name(i).c_str()) && (i % 3 != 0 || p.read(name(i).c_str()) == i));
    CHECK(p.board.channel(0).published == 10 && p.board.channel(0).skipped == 6);
}

// The step at which a program has failed comes again, to all its ranks, and counts once.
void given_again() {
    AccessKeys again;
    again.reads_again = 1;
    for (const char* pattern : {"out.h5", "*.h5"}) {
        Pair p(pattern, pattern, 1, 2, 1, 4, WhenFull::block, {}, again);
        const auto name = [&](int i) {
            return strcmp(pattern, "out.h5") == 0 ? std::string(pattern) : std::to_string(i) + ".h5";
        };
        for (int i = 0; i < 4; ++i) CHECK(p.write(name(i).c_str()));
        for (int i = 0; i < 2; ++i) CHECK(p.read(name(i).c_str(), 0) == i && p.read(name(i).c_str(), 1) == i);
        CHECK(p.read(name(2).c_str(), 1) == 2);  // one rank is further
        for (int round = 0; round < 3; ++round) {
            CHECK(queue::give_again(p.board, 1) == (round < 2));  // memory is short at last
            queue::task_exited(p.board, 1, false, false);
            queue::task_started(p.board, 1);
            const int first = round < 2 ? 1 : 2;
            if (round == 2) {
                CHECK(p.read(name(2).c_str(), 0) == 2);
                break;
            }
            for (int r = 0; r < 2; ++r) CHECK(p.read(name(first).c_str(), r) == first);
            if (round == 1)
                for (int s = 0; s < p.board.source(0).slots; ++s)
                    if (SlotRecord& slot = p.board.slot(s); slot.state == SlotState::published && slot.sequence == 1) {
                        CHECK(queue::needed(p.board, slot, false) && !queue::needed(p.board, slot, true));
                        slot.state = SlotState::free;
                    }
        }
        CHECK(p.board.port(1).steps == 3 && p.board.channel(0).read == 3);
    }
}

// Opened twice per step: both opens mean the same step, which is kept in between, also when memory is short.
void opened_twice_per_step() {
    AccessKeys twice;
    twice.opens_per_step = 2;
    for (const char* pattern : {"out.h5", "*.h5"}) {
        Pair p(pattern, pattern, 1, 2, 1, 2, WhenFull::block, {}, twice);
        CHECK(p.write("out.h5") && p.write("out.h5"));
        const int slot = queue::find(p.board, 1, 0, "out.h5").slot;
        CHECK(p.read("out.h5", 0) == 0 && p.read("out.h5", 1) == 0 && p.read("out.h5", 1) == 0 &&
              p.read("out.h5", 1) == 1);
        CHECK(queue::needed(p.board, p.board.slot(slot), true));
        CHECK(p.read("out.h5", 0) == 0);
        CHECK(!queue::needed(p.board, p.board.slot(slot), true));
        CHECK(p.read("out.h5", 0) == 1 && queue::steps_opened(p.board, 1) == 2);
        queue::task_exited(p.board, 1, false);  // in the middle
        queue::task_started(p.board, 1);
        CHECK(p.write("out.h5"));
        CHECK(p.read("out.h5", 0) == 2 && p.read("out.h5", 0) == 2);
    }
}

// Ranks that ask for their steps get all of them, in the order of publication, whatever each rank's source and pace.
void chosen_in_order() {
    Pair p("x*.h5", "x*.h5", 2, 2, 1, 2, WhenFull::block);
    const auto next = [&](int reader) {
        queue::leave(p.board, 1, reader);
        const int slot = queue::choose(p.board, 1, reader);
        return slot < 0 ? std::string("none") : std::string(p.board.slot(slot).name);
    };
    CHECK(next(0) == "none");
    CHECK(next(1) == "none");
    CHECK(p.write("xb0.h5", 1) && p.write("xb1.h5", 1) && p.write("xa0.h5", 0));
    CHECK(next(0) == "xb0.h5" && next(0) == "xb1.h5" && next(0) == "xa0.h5" && next(0) == "none");
    CHECK(p.write("xb2.h5", 1));  // the other rank has them all to come, also those of a source it has not turned to
    CHECK(next(1) == "xb0.h5" && next(1) == "xb1.h5");
    CHECK(next(1) == "xa0.h5" && next(1) == "xb2.h5" && next(0) == "xb2.h5");
    CHECK(p.read("xb2.h5") == 2 && p.read("xb2.h5") == 2);  // the name means the step until the next is asked for
    CHECK(p.read("xb1.h5") == -2);
    queue::leave(p.board, 1, 0);
    CHECK(p.read("xb2.h5") == -2);
}

// A fixed name means the chosen step, however often it is opened; a step that was chosen is not dropped.
void chosen_of_one_name() {
    Pair p("x.h5", "x.h5", 1, 1, 1, 1, WhenFull::drop_oldest);
    CHECK(p.write("x.h5"));
    CHECK(queue::choose(p.board, 1, 0) >= 0);
    for (int i = 0; i < 30; ++i) CHECK(p.write("x.h5"));
    CHECK(p.read("x.h5") == 0 && p.read("x.h5") == 0);
    CHECK(queue::let_go(p.board, 1, 0, "x.h5"));  // removed by the program
    queue::leave(p.board, 1, 0);
    CHECK(queue::choose(p.board, 1, 0) >= 0);
    CHECK(p.read("x.h5") == 30);
    queue::leave(p.board, 1, 0);
    CHECK(p.read("x.h5") == -1);
}

// A name whose step was dropped will not come again, however many steps ago that was and however the names are
// numbered.
void names_of_long_ago() {
    const auto step = [](int i) { return "plt" + std::to_string(i) + ".h5"; };
    const auto padded = [](int i) {
        return (i % 2 ? "a/x-" : "a/y-") + std::to_string(100000000 + i / 2 * 250).substr(1) + "-of-9.h5";
    };
    const auto mixed = [](int i) {
        return "run" + std::to_string(i % 3) + "-" + std::to_string(hash_text(std::to_string(i).c_str())) + ".h5";
    };
    const int many = 20000;
    for (const auto& name : {std::function<std::string(int)>(step), std::function<std::string(int)>(padded),
                             std::function<std::string(int)>(mixed)}) {
        Pair p("*.h5", "*.h5", 1, 1, 1, 2, WhenFull::drop_oldest);
        for (int i = 0; i < many; ++i) CHECK(p.write(name(i).c_str()));
        CHECK(!p.board.source(0).rewrites);
        for (int i = 0; i < many - 2; ++i) CHECK(p.read(name(i).c_str()) == -2);
        for (int i = many - 2; i < many; ++i) CHECK(p.read(name(i).c_str()) == i);
        for (int i = many; i < many + 1000; ++i) CHECK(p.read(name(i).c_str()) == -1);
    }
    Pair p("plt*.h5", "plt*.h5", 1, 1, 1, 2, WhenFull::drop_oldest);
    for (int i = 0; i < many; ++i) CHECK(p.write(step(i).c_str()));
    for (const char* other :
         {"plt.h5", "plt00.h5", "plt007.h5", "plt-1.h5", "plt7.h50", "plt20000.h5", "plt99999999999999999999999.h5"})
        CHECK(p.read(other) == -1);
    CHECK(p.write("plt5000.h5") && p.board.source(0).rewrites);  // now its names mean streams
    CHECK(p.read("plt5000.h5") == many);
}

// What a producer has removed is free for it to create, and stays so; what it has not, is there.
void names_that_come_and_go() {
    Pair p("plt*.h5", "plt*.h5", 1, 1, 1, 2, WhenFull::drop_oldest);
    const auto step = [](int i) { return "plt" + std::to_string(i) + ".h5"; };
    const auto there = [&](int i) { return queue::exists(p.board, p.board.source(0), step(i).c_str()); };
    const int many = 10000, kept = 100;
    for (int i = 0; i < many; ++i) {  // keeps its newest files, and every thousandth
        CHECK(p.write(step(i).c_str()));
        if (i >= kept && i % 1000 != 0) CHECK(queue::remove_own(p.board, 0, step(i - kept).c_str(), 0, false));
    }
    for (int i = 0; i < many; ++i) {
        const bool is_there = i >= many - kept || (i + kept) % 1000 == 0;
        CHECK(there(i) == is_there);
        CHECK(queue::in_history(p.board, p.board.source(0), step(i).c_str(), 1));
        CHECK(queue::remove_own(p.board, 0, step(i).c_str(), 0, false) == is_there);
        CHECK(!there(i));
    }
    CHECK(p.write(step(77).c_str()) && there(77) && !there(78));
    CHECK(queue::remove_own(p.board, 0, step(77).c_str(), 0, false) && !there(77));
}

// Numbered names cost the board the same for any number of steps.
void memory_of_names() {
    Pair p("plt*.h5", "plt*.h5", 1, 1, 1, 2, WhenFull::drop_oldest);
    uint64_t before = 0;
    for (int i = 0; i < 100000; ++i) {
        char name[2][32];
        snprintf(name[0], sizeof(name[0]), "plt%05d.h5", 10 * i);
        snprintf(name[1], sizeof(name[1]), "plt2d-%d.h5", i);
        CHECK(p.write(name[0]) && p.write(name[1]));
        if (i == 1000) before = p.board.annexed();
    }
    CHECK(p.board.annexed() == before);
}

// A rank may have any number of steps open, and each as often as it likes.
void many_holds() {
    Pair p("plt*.h5", "plt*.h5", 1, 1, 1, 300, WhenFull::block);
    const int many = 300;
    std::vector<int> slots;
    for (int i = 0; i < many; ++i) {
        CHECK(p.write(("plt" + std::to_string(i) + ".h5").c_str()));
        const queue::Found found = queue::find(p.board, 1, 0, ("plt" + std::to_string(i) + ".h5").c_str());
        CHECK(found.slot >= 0);
        slots.push_back(found.slot);
    }
    const int reader = p.board.task(1).first_rank;
    for (int round = 0; round < 3; ++round) {
        for (const int slot : slots)
            CHECK(queue::add_hold(p.board, reader, slot) && queue::add_hold(p.board, reader, slot));
        for (const int slot : slots) CHECK(p.board.slot(slot).holds == 2);
        queue::repair(p.board);
        for (const int slot : slots) CHECK(p.board.slot(slot).holds == 2);
        for (const int slot : slots) queue::drop_hold(p.board, reader, slot, p.board.self());
        for (const int slot : slots) CHECK(p.board.slot(slot).holds == 1);
        if (round == 1) queue::task_exited(p.board, 1, false);
        else
            for (const int slot : slots) queue::drop_hold(p.board, reader, slot, p.board.self());
        for (const int slot : slots) CHECK(p.board.slot(slot).holds == 0);
    }
}

}  // namespace

int main() {
    names_of_long_ago();
    names_that_come_and_go();
    memory_of_names();
    many_holds();
    chosen_in_order();
    chosen_of_one_name();
    claiming();
    empty_files();
    closed();
    repairing();
    opened_twice_per_step();
    dropping_with_two_readers();
    for (unsigned seed = 0; seed < 9; ++seed)
        for (const char* pattern : {"out.h5", "s*.h5"})
            for (const WhenFull when : {WhenFull::drop_oldest, WhenFull::drop_newest})
                dropping_together(pattern, when, seed);
    on_demand();
    names_left_out();
    names_of_other_channels();
    far_behind();
    removed_between_two_ranks();
    following_the_lead();
    bounded_queue();
    by_name();
    any_order_within_the_queue();
    every_rank_its_share();
    one_rank_is_late();
    the_other_way_round_by_two_ranks();
    two_passes();
    memory_of_consumed_steps();
    going_back();
    started_again();
    removing_what_was_read();
    rewritten_name_under_a_pattern();
    fixed_name_is_a_stream();
    every_and_drop();
    a_rank_reads_only_its_file();
    ends();
    restarts();
    made_again();
    made_again_of_some();
    given_again();
    given_again_beside_others();
    a_whole_series();
    read_as_listed();
    listings_of_ranks();
    started_for_one_step();
    names_that_clash_and_history();
    removing_before_rewriting();
    removing_while_writing();
    puts("queue: ok");
}
