// Taking a lock that processes share: a futex with its holder's number in it.
#include "board/shared_lock.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "board/board.hpp"

namespace wilkins {

namespace {

constexpr uint32_t kWaited = 1u << 31;
constexpr int64_t kFirstLook = 20'000'000;  // ns until a waiter first asks whether the holder lives
constexpr int64_t kRarest = 320'000'000;    // and between two such questions at most

void sleep(std::atomic<uint32_t>& word, uint32_t seen, int64_t length) {
    const struct timespec limit = {static_cast<time_t>(length / 1000000000), static_cast<long>(length % 1000000000)};
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, seen, &limit, nullptr, 0);
}

// The lock is held, or was when this began.
Taken wait_for(std::atomic<uint32_t>& word, const Life& life, uint32_t self, int64_t until) {
    int64_t pause = kFirstLook;
    int64_t look = now_ns() + pause;
    for (;;) {
        uint32_t seen = word.load(std::memory_order_relaxed);
        if ((seen & ~kWaited) == 0) {  // others may wait too
            if (word.compare_exchange_strong(seen, self | kWaited, std::memory_order_acquire)) return Taken::free;
            continue;
        }
        if (!(seen & kWaited) && !word.compare_exchange_strong(seen, seen | kWaited, std::memory_order_relaxed))
            continue;
        seen |= kWaited;
        const int64_t now = now_ns();
        if (now >= look) {
            if ((seen & ~kWaited) != self && life.is_over(seen & ~kWaited) &&
                word.compare_exchange_strong(seen, self | kWaited, std::memory_order_acquire))
                return Taken::from_dead;
            pause = std::min(2 * pause, kRarest);
            look = now + pause;
        }
        if (now >= until) return Taken::not_yet;
        sleep(word, seen, std::min(look, until) - now);
    }
}

}  // namespace

Taken take(SharedLock& lock, const Life& life, int64_t until) {
    const uint32_t self = life.self();
    uint32_t seen = 0;
    if (lock.word.compare_exchange_strong(seen, self, std::memory_order_acquire)) return Taken::free;
    const int before = errno;
    const Taken taken = wait_for(lock.word, life, self, until);
    errno = before;
    return taken;
}

void give_back(SharedLock& lock) {
    if (!(lock.word.exchange(0, std::memory_order_release) & kWaited)) return;
    const int before = errno;
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&lock.word), FUTEX_WAKE, 1, nullptr, nullptr, 0);
    errno = before;
}

uint32_t holder(const SharedLock& lock) { return lock.word.load(std::memory_order_relaxed) & ~kWaited; }

}  // namespace wilkins
