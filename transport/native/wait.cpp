// Waiting at a port's bell.
#include "wait.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace wilkins {

namespace {

constexpr int kNap = 1000;  // ms a wait sleeps at most before it looks again

}  // namespace

Wait::Wait(Process& process, WaitFor what, int port, const char* name) : process_(process), what_(what), port_(port), name_(name) {}

Wait::~Wait() {
    if (since_) account_waiting(static_cast<uint64_t>(now_ns() - since_));
}

int Wait::nap(Board::Lock& lock) {
    const Board& board = process_.board;
    if (board.head().stopped) return EINTR;
    RankRecord& me = process_.me();
    if (!since_) since_ = now_ns();
    me.wait = what_;
    me.wait_port = port_;
    me.wait_pid = getpid();
    me.wait_since = since_;
    strncpy(me.wait_name, name_, sizeof(me.wait_name) - 1);
    const uint32_t seen = board.bell(port_);
    lock.release();
    bool interrupted = false;
    {
        PythonUnlocked python;
        board.sleep(port_, seen, kNap);
        interrupted = python.interrupted();  // also after a sleep to its end: another thread may have got the signal
    }
    lock.acquire();
    me.wait = WaitFor::nothing;
    return interrupted || board.head().stopped ? EINTR : 0;
}

}  // namespace wilkins
