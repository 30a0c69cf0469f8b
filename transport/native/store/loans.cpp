// Loans of steps: to whom they are made, and how they end.
#include "store/loans.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <vector>

#include "base/raw.hpp"
#include "queue/queue.hpp"
#include "store/parts.hpp"

namespace wilkins::loans {

namespace {

// Fewer than the steps that a rank may have open beyond the queue: children that never end keep no producer waiting.
constexpr size_t kMost = 8;
constexpr off_t kPlaces = off_t{1} << 61;  // beyond all bytes of a step: one for each process and loan

struct Loan {
    int slot;
    int probe;  // a descriptor of the same file, but of another description
    off_t place;
    uint32_t process;
    bool unread;  // this process has read nothing of it, so the other one will
};

std::mutex mutex;
std::vector<Loan> loans;
std::atomic<size_t> known{0};
off_t next_place = 0;

void end(const Process& p, const Loan& loan) {
    if (loan.process != p.board.self()) return;  // of the process that this one is a fork of
    queue::drop_hold(p.board, p.rank_index, loan.slot, loan.process);
    raw::close(loan.probe);
}

void sweep(const Process& p, size_t most) {
    const auto over = [&](const Loan& loan) { return loan.process != p.board.self() || raw::is_byte_free(loan.probe, loan.place); };
    loans.erase(std::remove_if(loans.begin(), loans.end(), [&](const Loan& loan) { return over(loan) && (end(p, loan), true); }), loans.end());
    while (loans.size() > most) {
        if (loans.front().unread)
            fail_run(p,
                     "task '%s' rank %d has started more than %zu processes that still have steps open of which it has closed the descriptor: "
                     "their memory cannot be kept for so many; let the program wait for some of them, or give the port 'mode: file'",
                     p.task_name(), p.told_rank(), kMost);
        end(p, loans.front());
        loans.erase(loans.begin());
    }
    known = loans.size();
}

}  // namespace

bool lend(int fd, int slot, bool unread) {
    const Process& p = process();
    std::lock_guard<std::mutex> guard(mutex);
    const off_t place = kPlaces + (static_cast<off_t>(getpid()) << 24) + (next_place++ & 0xffffff);
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    const int probe = raw::open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
    if (probe < 0) return false;
    bool shared = raw::share_byte(fd, place) == 0 && raw::replace(fd, probe) >= 0;
    shared = shared && !raw::is_byte_free(probe, place);
    // Files on disk keep their bytes without a hold.
    const bool in_memory = p.board.port(p.board.source(p.board.slot(slot).source).port).habits.mode != Mode::file;
    const int kept = shared && in_memory ? raw::duplicate(probe) : -1;
    raw::close(probe);
    Board::Lock lock(p.board);
    sweep(p, kMost - 1);
    if (kept >= 0 && queue::add_hold(p.board, p.rank_index, slot)) loans.push_back({slot, kept, place, p.board.self(), unread});
    else if (kept >= 0) raw::close(kept);
    known = loans.size();
    return shared;
}

int count(const Process& process, int slot) {
    if (known.load(std::memory_order_relaxed) == 0) return 0;
    const std::unique_lock<std::mutex> guard(mutex, std::try_to_lock);
    if (!guard) return 0;
    const uint32_t self = process.board.self();
    const auto found = std::count_if(loans.begin(), loans.end(), [&](const Loan& loan) { return loan.slot == slot && loan.process == self; });
    return static_cast<int>(found);
}

void take_back(const Process& process) {
    if (known.load(std::memory_order_relaxed) == 0) return;
    const std::unique_lock<std::mutex> guard(mutex, std::try_to_lock);  // who has it may wait for the board
    if (guard) sweep(process, kMost);
}

}  // namespace wilkins::loans
