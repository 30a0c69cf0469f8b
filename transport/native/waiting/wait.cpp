// Waiting at a port's bell.
#include "waiting/wait.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/fault.hpp"
#include "board/trace.hpp"
#include "queue/queue.hpp"
#include "waiting/circle.hpp"
#include "waiting/members.hpp"
#include "waiting/stuck.hpp"

namespace wilkins {

namespace {

constexpr int kFirstNap = 5;  // ms, to find out whether nobody can end the wait

}  // namespace

int nap(Process& process, int port, Board::Lock& lock, int milliseconds) {
    const Board& board = process.board;
    if (board.head().stopped) return EINTR;
    const int before = errno;
    const uint32_t seen = board.bell(port);
    lock.release();
    WILKINS_FAULT_POINT("wait.before-sleep");
    bool interrupted = false;
    {
        PythonUnlocked python;
        board.sleep(port, seen, milliseconds);
        interrupted = python.interrupted();  // also after a sleep to its end: another thread may have got the signal
    }
    WILKINS_FAULT_POINT("wait.after-wake");
    lock.acquire();
    errno = before;
    WILKINS_FAULT_POINT("wait.relocked");
    return interrupted || board.head().stopped ? EINTR : 0;
}

Wait::Wait(Process& process, WaitFor what, int port, const char* name, WaitKind kind)
    : process_(process), what_(what), port_(port), name_(name), kind_(kind), pause_(kFirstNap) {}

Wait::~Wait() {
    if (!since_) return;
    account_waiting(static_cast<uint64_t>(now_ns() - since_));
    lock_->acquire();
    go_on();
    note_member(process_.board, process_.rank_index, false);
    note("go");
}

void Wait::go_on() {
    if (!record_) return;
    found_nothing_ = found_nothing_ || record_->found_nothing;
    record_->what = WaitFor::nothing;
    record_ = nullptr;  // from now on the place may be another thread's
}

void Wait::note(const char* event) const {
    trace::note(process_.board, event, process_.context.task, process_.context.rank, process_.board.port(port_).pattern,
                name_, -1, -1);
}

void Wait::tell(Board::Lock& lock) {
    const bool begins = !since_;
    if (begins) {
        static const char* const begins[] = {"", "wait-data", "wait-room", "wait-memory"};
        since_ = now_ns();
        lock_ = &lock;
        note(begins[static_cast<int>(what_)]);
    }
    if (what_ == WaitFor::data) queue::want(process_.board, port_);
    record_ = find_wait_place(process_.board, process_.rank_index);
    if (!record_) return note_member(process_.board, process_.rank_index, false);
    if (found_nothing_) record_->found_nothing = 1;
    record_->kind = kind_;
    record_->port = port_;
    record_->since = since_;
    strncpy(record_->name, name_, sizeof(record_->name) - 1);
    record_->what = what_;
    WILKINS_FAULT_POINT("wait.noted");
    note_member(process_.board, process_.rank_index, true);  // or others would not take it for waiting
}

int Wait::nap(Board::Lock& lock, int milliseconds) {
    const Board& board = process_.board;
    if (board.head().stopped) return EINTR;
    tell(lock);
    const uint32_t seen = board.bell(port_);
    const int error = wilkins::nap(process_, port_, lock, std::min(milliseconds, pause_));
    if (board.bell(port_) == seen && !error) {
        end_circle(board, process_.rank_index);
        pause_ = std::min(2 * pause_, kNap);
    }
    go_on();
    return error;
}

bool Wait::has_found_nothing(Board::Lock& lock) {
    if (kind_ == WaitKind::plain) kind_ = WaitKind::gives_up;
    tell(lock);
    const bool stuck = is_stuck(process_.board, process_.rank_index);
    go_on();
    if (stuck) share_failed();
    return stuck;
}

// Ranks of the task that wait for the same go on without it, too: this one may meet them next, and they would wait for
// it then.
void Wait::share_failed() const {
    const Board& board = process_.board;
    bool any = false;
    for (RankRecord& rank : ranks_of(board, board.task(process_.context.task)))
        for (WaitRecord& wait : rank.waits) {
            if (wait.what != what_ || wait.kind != WaitKind::gives_up || wait.port != port_) continue;
            if (strncmp(wait.name, name_, sizeof(wait.name) - 1) != 0) continue;
            any = any || !wait.found_nothing;
            wait.found_nothing = 1;
        }
    if (any) board.ring(port_);
}

bool Wait::is_alone(Board::Lock& lock) {
    tell(lock);
    const bool alone = Waiting(process_.board, Waits::known, true, true).hopeless(process_.rank_index);
    go_on();
    return alone;
}

}  // namespace wilkins
