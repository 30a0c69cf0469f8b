// Waiting at a port's bell.
#include "wait.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fault.hpp"
#include "stuck.hpp"
#include "trace.hpp"

namespace wilkins {

namespace {

constexpr int kNap = 1000;  // ms a wait sleeps at most before it looks again

}  // namespace

int nap(Process& process, int port, Board::Lock& lock) {
    const Board& board = process.board;
    if (board.head().stopped) return EINTR;
    const uint32_t seen = board.bell(port);
    lock.release();
    WILKINS_FAULT_POINT("wait.before-sleep");
    bool interrupted = false;
    {
        PythonUnlocked python;
        board.sleep(port, seen, kNap);
        interrupted = python.interrupted();  // also after a sleep to its end: another thread may have got the signal
    }
    WILKINS_FAULT_POINT("wait.after-wake");
    lock.acquire();
    WILKINS_FAULT_POINT("wait.relocked");
    return interrupted || board.head().stopped ? EINTR : 0;
}

Wait::Wait(Process& process, WaitFor what, int port, const char* name) : process_(process), what_(what), port_(port), name_(name) {}

Wait::~Wait() {
    if (!since_) return;
    account_waiting(static_cast<uint64_t>(now_ns() - since_));
    lock_->acquire();
    note("go");
}

void Wait::note(const char* event) const {
    trace::note(process_.board, event, process_.context.task, process_.context.rank, process_.board.port(port_).pattern, name_, -1, -1);
}

int Wait::nap(Board::Lock& lock) {
    const Board& board = process_.board;
    if (board.head().stopped) return EINTR;
    if (!since_) {
        static const char* const begins[] = {"", "wait-data", "wait-room", "wait-memory"};
        since_ = now_ns();
        lock_ = &lock;
        note(begins[static_cast<int>(what_)]);
    }
    say();
    WILKINS_FAULT_POINT("wait.noted");
    const int error = wilkins::nap(process_, port_, lock);
    process_.me().wait = WaitFor::nothing;
    return error;
}

void Wait::say() const {
    RankRecord& me = process_.me();
    me.wait = what_;
    me.wait_port = port_;
    me.wait_pid = getpid();
    me.wait_process = process_.board.self();
    me.wait_since = since_;
    me.wait_yields = yields_;
    strncpy(me.wait_name, name_, sizeof(me.wait_name) - 1);
}

bool Wait::is_in_vain() {
    yields_ = true;
    say();
    const bool vain = is_stuck(process_.board, process_.rank_index);
    process_.me().wait = WaitFor::nothing;
    return vain;
}

}  // namespace wilkins
