// Taking and looking at the locks by which processes of a run are known to live.
#include "board/life.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "base/held_at_forks.hpp"
#include "base/raw.hpp"
#include "board/shared_lock.hpp"

namespace wilkins {

namespace {

constexpr size_t kPage = 4096;
constexpr uint32_t kLockless = kLargestOwner / 2 + 1;  // a bit of the numbers of those that could not take their lock

// No fork while a lock is taken: the child would share the descriptor, and with it the lock, for as long as it lives.
std::mutex joining;
HeldAtForks held_at_forks(joining);

// A signal handler that forks would wait for its own thread.
class Joining {
public:
    Joining() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
        joining.lock();
    }
    ~Joining() {
        joining.unlock();
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    Joining(const Joining&) = delete;
    Joining& operator=(const Joining&) = delete;

private:
    sigset_t before_;
};

uint64_t own_namespace() {
    char link[64];  // pid:[4026531836]
    const ssize_t length = readlink("/proc/self/ns/pid", link, sizeof(link) - 1);
    if (length < 0) return 0;
    link[length] = 0;
    const char* number = strchr(link, '[');
    return number ? strtoull(number + 1, nullptr, 10) : 0;
}

}  // namespace

// In a page that is empty in a fork.
struct Life::Own {
    std::atomic<uint32_t> number;
    std::atomic<int> pid;
    uint64_t pid_namespace;
    void* lock;  // the mapping that the lock lives by
};

Life::~Life() {
    if (!own_) return;
    if (own_->lock) munmap(own_->lock, kPage);
    munmap(static_cast<void*>(own_), kPage);
}

int Life::begin(const char* file, std::atomic<uint32_t>* counter) {
    void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return errno;
    if (madvise(page, kPage, MADV_WIPEONFORK) != 0) {
        const int error = errno;
        munmap(page, kPage);
        return error;
    }
    own_ = static_cast<Own*>(page);
    file_ = file;
    counter_ = counter;
    return 0;
}

uint32_t Life::self() const {
    const uint32_t known = own_->number.load(std::memory_order_acquire);
    return known ? known : join();
}

int Life::pid() const { return own_->pid.load(std::memory_order_relaxed); }

uint64_t Life::pid_namespace() const {
    self();
    return own_->pid_namespace;
}

uint32_t Life::joined() const {
    const uint32_t known = own_ ? own_->number.load(std::memory_order_acquire) : 0;
    return known && own_->pid.load(std::memory_order_relaxed) == getpid() ? known : 0;
}

uint32_t Life::next() const { return (counter_->fetch_add(1) + 1) % kLockless; }

// Locks the byte of a number that no living process has; 0: none can be locked.
uint32_t Life::lock_next(int fd) const {
    for (;;) {
        const uint32_t number = next();
        if (number == 0) continue;
        if (raw::lock_byte(fd, number) == 0) return number;
        if (errno != EAGAIN && errno != EACCES) return 0;  // of a process that has it since the counter began anew
    }
}

uint32_t Life::join() const {
    const Joining guard;
    if (const uint32_t known = own_->number.load(std::memory_order_acquire)) return known;
    const int before = errno;
    uint32_t number = 0;
    void* lock = MAP_FAILED;
    const int fd = raw::open(file_, O_RDWR | O_CLOEXEC, 0);
    if (fd >= 0) lock = mmap(nullptr, kPage, PROT_NONE, MAP_SHARED, fd, 0);
    if (lock != MAP_FAILED && madvise(lock, kPage, MADV_DONTFORK) == 0) number = lock_next(fd);
    if (fd >= 0) raw::close(fd);
    if (!number) {
        if (lock != MAP_FAILED) munmap(lock, kPage);
        lock = nullptr;
        number = kLockless | next();
    }
    own_->lock = lock;
    own_->pid_namespace = own_namespace();
    own_->pid.store(getpid(), std::memory_order_relaxed);
    own_->number.store(number, std::memory_order_release);
    errno = before;
    return number;
}

bool Life::is_over(uint32_t number) const {
    if (number & kLockless) return false;
    // The lock of this process lives for as long as the memory that this is in.
    if (number && number == own_->number.load(std::memory_order_relaxed)) return false;
    const int before = errno;
    const int fd = raw::open(file_, O_RDWR | O_CLOEXEC, 0);
    const bool over = fd >= 0 && raw::is_byte_free(fd, number);
    if (fd >= 0) raw::close(fd);
    errno = before;
    return over;
}

}  // namespace wilkins
