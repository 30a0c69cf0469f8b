// Holding a run's board, and what waits until it is given back: events, lines of the log, and bells.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <new>

#include "board/board.hpp"
#include "board/event.hpp"
#include "board/trace.hpp"

namespace wilkins {

Board::Lock::Lock(const Board& board) : board_(board) { acquire(); }

Board::Lock::~Lock() { release(); }

namespace {

__attribute__((tls_model("initial-exec"))) thread_local Board::Lock* innermost = nullptr;

void wake_all(std::atomic<uint32_t>& bell) {
    const int before = errno;
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&bell), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    errno = before;
}

}  // namespace

int64_t Board::Lock::limit() const { return patience_ < 0 ? INT64_MAX : now_ns() + patience_; }

void Board::Lock::acquire() { take_by(limit()); }

bool Board::Lock::acquire_within(int64_t patience) {
    patience_ = patience;
    return take_by(limit());
}

bool Board::Lock::take_by(int64_t until) {
    if (held_) return true;
    BoardRecord& head = board_.head();
    for (;;) {
        const Taken taken = board_.take(head.lock, until);
        if (taken == Taken::not_yet) return false;
        if (taken == Taken::from_dead) queue::repair(board_);
        // There must be room for the events of what is done with the lock, which is no time to write to a file.
        const uint64_t end = head.events_end.load();
        if (end - head.events_written.load() <= kTraceRoom / 2) break;
        give_back(head.lock.lock);
        if (!trace::write_until(board_, end, until)) return false;
    }
    held_ = true;
    outer_ = innermost;
    innermost = this;
    return true;
}

bool Board::Lock::release() {
    if (!held_) return written_;
    held_ = false;
    innermost = outer_;
    BoardRecord& head = board_.head();
    const uint64_t end = head.events_end.load();
    const uint64_t urgent = head.trace_at_once ? std::min(head.events_urgent.load(), end) : 0;
    give_back(head.lock.lock);
    for (; rings_ > 0; --rings_) wake_all(board_.port(rung_[rings_ - 1]).bell);
    if (log_file_) {
        write_log(log_file_, lines_.data(), lines_.size());
        log_file_ = nullptr;
        lines_.clear();
    }
    const uint64_t written = head.events_written.load();
    written_ = written >= urgent || trace::write_until(board_, urgent, limit());
    if (written >= urgent && written < end && end - written > events_kept_)
        trace::write_until(board_, end, events_kept_ ? 0 : limit());
    return written_;
}

bool Board::Lock::is_held() { return innermost != nullptr; }

bool Board::Lock::keep_line(const char* file, const char* line, size_t length) {
    if (!innermost) return false;
    try {
        innermost->lines_.append(line, length);
    } catch (const std::bad_alloc&) {
        return true;
    }
    innermost->log_file_ = file;
    return true;
}

bool Board::Lock::wake_later(const Board& board, int port) {
    Lock* const lock = innermost;
    if (!lock || &lock->board_ != &board) return false;
    for (int k = 0; k < lock->rings_; ++k)
        if (lock->rung_[k] == port) return true;
    if (lock->rings_ == kMostRung) return false;
    lock->rung_[lock->rings_++] = port;
    return true;
}

void Board::ring(int port) const {
    PortRecord& record = this->port(port);
    record.bell.fetch_add(1);
    ++head().moves;
    // Who comes to sleep after this look finds that the bell has been rung.
    if (record.sleepers.load() != 0 && !Lock::wake_later(*this, port)) wake_all(record.bell);
}

}  // namespace wilkins
