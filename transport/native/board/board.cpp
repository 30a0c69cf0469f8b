// Mapping a run's board; who takes its locks, and sleeps until its bells are rung.
#include "board/board.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

#include "base/raw.hpp"

namespace wilkins {

int64_t now_ns() {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec;
}

Board::~Board() {
    if (!base_) return;
    for (int k = 0; k < kSegments; ++k)
        if (annexed_[k]) munmap(annexed_[k], head().annex[k].size);
    munmap(base_, size_);
}

int Board::attach(const char* folder) {
    if (strlen(folder) >= sizeof(folder_)) return ENAMETOOLONG;
    snprintf(file_, sizeof(file_), "%s/board", folder);
    int fd = raw::open(file_, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0) return errno;
    struct stat st;
    int error = raw::fstat(fd, &st) == 0 ? 0 : errno;
    void* base = MAP_FAILED;
    if (!error) {
        base = mmap(nullptr, static_cast<size_t>(st.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (base == MAP_FAILED) error = errno;
    }
    raw::close(fd);
    if (error) return error;
    auto* record = static_cast<BoardRecord*>(base);
    const bool ours = static_cast<uint64_t>(st.st_size) >= sizeof(BoardRecord) && record->magic == kMagic &&
                      record->layout == kLayout;
    error = ours ? life_.begin(file_, &record->processes) : EPROTO;
    if (error) {
        munmap(base, static_cast<size_t>(st.st_size));
        return error;
    }
    base_ = static_cast<unsigned char*>(base);
    size_ = static_cast<uint64_t>(st.st_size);
    strcpy(folder_, folder);
    return 0;
}

Taken Board::take(NamedLock& lock, int64_t until) const {
    const Taken taken = wilkins::take(lock.lock, life_, until);
    if (taken == Taken::not_yet) return taken;
    HolderRecord& holder = lock.holder;
    const uint32_t self = life_.self();
    if (holder.process.load(std::memory_order_relaxed) == self) return taken;
    holder.process.store(0, std::memory_order_relaxed);
    holder.task = task_;
    holder.rank = rank_;
    holder.pid = life_.pid();
    holder.namespace_ = life_.pid_namespace();
    snprintf(holder.program, sizeof(holder.program), "%s", program_invocation_short_name);
    holder.process.store(self, std::memory_order_release);
    return taken;
}

namespace {

constexpr int64_t kGlance = 20'000;  // ns
constexpr uint32_t kMostUnseen = 63;

// How many sleeps of this process begin without a glance yet, since the last ones saw nothing, and how many did after
// the last such.
std::atomic<uint32_t> unseen{0};
std::atomic<uint32_t> last_unseen{0};

// Another turn of a loop that waits for a word to change.
void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// True if the bell rings within a moment. It costs less to see that than to fall asleep and to be woken: two system
// calls, and a processor that stops. Where it does not happen, since who would ring has no processor, say, hardly any
// time is spent on it.
bool glance(const std::atomic<uint32_t>& bell, uint32_t seen) {
    if (const uint32_t left = unseen.load(std::memory_order_relaxed); left > 0) {
        unseen.store(left - 1, std::memory_order_relaxed);
        return false;
    }
    const int64_t end = now_ns() + kGlance;
    do {
        for (int k = 0; k < 8; ++k) {
            if (bell.load(std::memory_order_acquire) != seen) {
                last_unseen.store(0, std::memory_order_relaxed);
                return true;
            }
            relax();
        }
    } while (now_ns() < end);
    const uint32_t next = std::min(2 * last_unseen.load(std::memory_order_relaxed) + 1, kMostUnseen);
    last_unseen.store(next, std::memory_order_relaxed);
    unseen.store(next, std::memory_order_relaxed);
    return false;
}

}  // namespace

bool Board::sleep(int port, uint32_t seen, int milliseconds) const {
    struct timespec limit = {milliseconds / 1000, static_cast<long>(milliseconds % 1000) * 1000000};
    PortRecord& record = this->port(port);
    if (glance(record.bell, seen)) return true;
    record.sleepers.fetch_add(1);
    long rc = syscall(SYS_futex, reinterpret_cast<uint32_t*>(&record.bell), FUTEX_WAIT, seen, &limit, nullptr, 0);
    const int error = errno;
    record.sleepers.fetch_sub(1);
    return !(rc < 0 && error == EINTR);
}

}  // namespace wilkins
