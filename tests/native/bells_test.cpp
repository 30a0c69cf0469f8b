// Bells: who is woken, and when.
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "check.hpp"

using namespace wilkins;

namespace {

constexpr int kPorts = 40;

void await(const std::atomic<uint32_t>& word, uint32_t value) {
    while (word.load() != value) usleep(100);
}

// Somebody who sleeps at a port until its bell rings.
class Sleeper {
public:
    Sleeper(const Board& board, int port)
        : thread_([&board, port, seen = board.bell(port), this] {
              while (board.bell(port) == seen) CHECK(board.sleep(port, seen, 60'000));
              awake_ = true;
          }) {}
    ~Sleeper() { thread_.join(); }
    bool awake() const { return awake_; }

private:
    std::atomic<bool> awake_{false};
    std::thread thread_;
};

}  // namespace

int main() {
    test::Scratch scratch;
    BoardPlan plan;
    plan.tasks = {{"sim", 1}};
    for (int p = 0; p < kPorts; ++p) plan.ports.push_back({0, Direction::out, "out" + std::to_string(p) + "-*.h5", 0});
    CHECK(create_board(scratch.path.c_str(), plan) == 0);
    Board board, again;
    CHECK(board.attach(scratch.path.c_str()) == 0);
    CHECK(again.attach(scratch.path.c_str()) == 0);

    // Who sleeps is woken when the lock is given back, which is needed first. (Who was just about to fall asleep does
    // not.)
    bool slept_on = false;
    for (int round = 0; round < 20 && !slept_on; ++round) {
        Sleeper one(board, 3), other(board, 3);
        await(board.port(3).sleepers, 2);
        usleep(1000);
        {
            Board::Lock lock(board);
            board.ring(3);
            board.ring(3);
            usleep(20'000);
            slept_on = board.port(3).sleepers == 2 && !one.awake() && !other.awake();
        }
        await(board.port(3).sleepers, 0);
    }
    CHECK(slept_on);

    // Without the lock, or where another handle on the board has it, at once.
    {
        Sleeper one(board, 5);
        await(board.port(5).sleepers, 1);
        board.ring(5);
        await(board.port(5).sleepers, 0);
    }
    {
        Sleeper one(board, 5);
        await(board.port(5).sleepers, 1);
        Board::Lock lock(again);
        board.ring(5);
        await(board.port(5).sleepers, 0);
    }

    // However many bells ring under one lock, and also where it is given back for a while.
    {
        std::vector<std::unique_ptr<Sleeper>> all;
        all.reserve(kPorts);
        for (int p = 0; p < kPorts; ++p) all.push_back(std::make_unique<Sleeper>(board, p));
        for (int p = 0; p < kPorts; ++p) await(board.port(p).sleepers, 1);
        Board::Lock lock(board);
        for (int p = 0; p < kPorts; ++p) board.ring(p);
        lock.release();
        for (int p = 0; p < kPorts; ++p) await(board.port(p).sleepers, 0);
        lock.acquire();
    }

    // Many rounds between two, each of whom answers the other: no ring is lost between a look, a glance and a sleep.
    constexpr int kRounds = 20'000;
    std::atomic<int> turn{0};
    const auto play = [&](int me) {
        for (int k = 0; k < kRounds; ++k) {
            for (;;) {
                const uint32_t seen = board.bell(me);
                {
                    Board::Lock lock(board);
                    if (turn == me) break;
                }
                const int64_t begun = now_ns();
                board.sleep(me, seen, 30'000);
                CHECK(now_ns() - begun < 20'000'000'000);
            }
            Board::Lock lock(board);
            turn = 1 - me;
            board.ring(1 - me);
        }
    };
    std::thread other([&] { play(1); });
    play(0);
    other.join();
    return 0;
}
