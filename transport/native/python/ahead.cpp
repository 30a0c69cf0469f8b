// The launcher's thread that makes memory ready for arenas (see board/ahead.hpp): of huge pages, where the kernel has
// some, since a program maps those at little cost.
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <memory>
#include <string>
#include <vector>

#include "base/free_memory.hpp"
#include "base/raw.hpp"
#include "board/ahead.hpp"
#include "board/arena.hpp"
#include "board/border.hpp"
#include "board/ranges.hpp"

using namespace wilkins;
using ahead::Offer;
using ahead::State;

namespace {

constexpr uint64_t kHuge = 2u << 20;
constexpr int kPopulateWrite = 23, kCollapse = 25;  // MADV_: Linux 5.14 and 6.1
constexpr uint64_t kShare = 4;                      // no more than one part in so many of the memory that is free
constexpr uint64_t kLookAgain = 64u << 20;          // bytes after which what is free is looked at again
constexpr int64_t kSlow = 20'000'000;  // ns of its own time for a huge page: the kernel moves others out of its way
constexpr int64_t kUnused =
    30'000'000'000;  // ns for which memory is kept ready that no step asks for while others go on
constexpr int kNice = 5;

int64_t own_time() {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

// A file that gets its pages. Its mapping is for the kernel's advice alone: nothing is read or written through it, so
// the file may be cut at any time.
class Pages {
public:
    Pages(int fd, uint64_t size)
        : fd_(fd),
          size_(size),
          room_(mmap(nullptr, size + 2 * kHuge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
        if (room_ == MAP_FAILED) return;
        const uintptr_t at = (reinterpret_cast<uintptr_t>(room_) + kHuge - 1) / kHuge * kHuge;
        void* const bytes =
            mmap(reinterpret_cast<void*>(at), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
        if (bytes != MAP_FAILED) bytes_ = static_cast<unsigned char*>(bytes);
    }
    ~Pages() {
        if (room_ != MAP_FAILED) munmap(room_, size_ + 2 * kHuge);
        raw::close(fd_);
    }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;

    // Gives the bytes from `begin` memory, a huge page at most. False: there is none, or the file is shorter by now, or
    // the kernel cannot.
    bool fill(uint64_t begin, uint64_t count) {
        if (!bytes_) return false;
        if (patience_ > 0 && count == kHuge) {
            // There has to be a page in it, or the kernel takes it for a hole.
            if (madvise(bytes_ + begin, 1, kPopulateWrite) != 0) return false;
            const int64_t began = own_time();
            const bool done = madvise(bytes_ + begin, kHuge, kCollapse) == 0;
            if (!done || own_time() - began > kSlow) --patience_;
            if (done) return true;
        }
        return madvise(bytes_ + begin, count, kPopulateWrite) == 0;
    }

private:
    int fd_;
    uint64_t size_;
    void* room_;
    unsigned char* bytes_ = nullptr;
    int patience_ = 3;  // huge pages that may be slow, or refused, until small ones do
};

class Maker {
public:
    explicit Maker(const Board& board)
        : board_(board), unused_since_(static_cast<size_t>(board.head().sources * kSpares), 0) {}

    // Starts the thread. Returns 0 or an errno.
    int begin() {
        pthread_attr_t with;
        if (const int error = pthread_attr_init(&with)) return error;
        pthread_attr_setstacksize(&with, 256 << 10);
        board_.head().ahead_works.store(1);
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        const int error = pthread_create(&thread_, &with, &Maker::main, this);
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        pthread_attr_destroy(&with);
        if (error) board_.head().ahead_works.store(0);
        return error;
    }

    void end() {
        ending_.store(true);
        ahead::ring(board_);
        pthread_join(thread_, nullptr);
    }

private:
    static void* main(void* maker) noexcept {
        setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
        static_cast<Maker*>(maker)->work();
        return nullptr;
    }

    bool over() const { return ending_.load() || board_.head().ahead_short.load() || board_.head().stopped.load(); }

    void work() {
        while (!over()) {
            const uint32_t seen = board_.head().ahead_bell.load(std::memory_order_acquire);
            bool any = false;
            for (int s = 0; s < board_.head().sources && !over(); ++s) any = look_at(s) || any;
            if (!any && !over()) sleep(seen);
        }
    }

    void sleep(uint32_t seen) const {
        int64_t first = INT64_MAX;
        for (const int64_t since : unused_since_)
            if (since) first = std::min(first, since + kUnused);
        struct timespec limit = {};
        const int64_t pause = std::max<int64_t>(first - now_ns(), 1'000'000);
        limit.tv_sec = pause / 1'000'000'000;
        limit.tv_nsec = pause % 1'000'000'000;
        const struct timespec* const at_most = first == INT64_MAX ? nullptr : &limit;
        syscall(SYS_futex, reinterpret_cast<uint32_t*>(&board_.head().ahead_bell), FUTEX_WAIT, seen, at_most, nullptr,
                0);
    }

    int64_t& unused_since(int s, int k) {
        return unused_since_[static_cast<size_t>(s) * kSpares + static_cast<size_t>(k)];
    }

    // Makes memory ready for a source's next arena, if it will need one. False: there is nothing to do for now.
    bool look_at(int s) {
        const SourceRecord& source = board_.source(s);
        const uint64_t largest = source.largest.load(std::memory_order_relaxed);
        int place = -1;
        for (int k = 0; k < kSpares; ++k) {
            if (Offer::of(source.ahead.spares[k]).state != State::offered) {
                unused_since(s, k) = 0;
                place = k;
                continue;
            }
            if (!largest) continue;  // the first ones wait for their steps, however long these take
            if (!unused_since(s, k)) unused_since(s, k) = now_ns();
            else if (now_ns() - unused_since(s, k) > kUnused) return drop(s);
        }
        const uint64_t size = ahead::size_of_next(source);
        if (size < ahead::kLeast || place < 0) return false;
        return ahead::is_wanted(board_, source) && make(s, place, size);
    }

    // Nobody has asked for it in a long time: as many arenas as there are seem to do.
    bool drop(int s) {
        board_.source(s).ahead.most.store(0);
        for (int k = 0; k < kSpares; ++k) {
            unused_since(s, k) = 0;
            if (const ahead::Taken taken = ahead::take(board_, s, k)) raw::unlink(taken.path);
        }
        return false;
    }

    // What a source may have, of so many bytes that it needs.
    uint64_t bounded(const SourceRecord& source, uint64_t size) const {
        const uint64_t held = ahead::held(board_, -1), share = (free_shared_memory(board_.folder()) + held) / kShare;
        uint64_t bytes = std::min(size, share > held ? share - held : 0);
        const PortRecord& port = board_.port(source.port);
        if (port.cap) {
            // Without the board's lock: what changes meanwhile is found out when the memory is taken.
            const uint64_t taken = __atomic_load_n(&port.used, __ATOMIC_RELAXED) + ahead::held(board_, source.port);
            bytes = std::min(bytes, port.cap > taken ? port.cap - taken : 0);
        }
        struct rlimit limit;
        if (getrlimit(RLIMIT_FSIZE, &limit) == 0) bytes = std::min<uint64_t>(bytes, limit.rlim_cur);
        return bytes == size ? bytes : bytes / kBlock * kBlock;
    }

    bool make(int s, int place, uint64_t wanted) {
        SourceRecord& source = board_.source(s);
        Spare& spare = source.ahead.spares[place];
        const uint64_t size = bounded(source, wanted), number = Offer::of(spare).number + 1;
        if (size < ahead::kLeast) return false;
        char path[PATH_MAX];
        if (number > 1) {  // of a process that died as it took it
            ahead::path_of(board_, s, place, number - 1, path, sizeof(path));
            raw::unlink(path);
        }
        ahead::path_of(board_, s, place, number, path, sizeof(path));
        const int fd = raw::open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 || raw::ftruncate(fd, static_cast<off_t>(size)) != 0) {
            if (fd >= 0) raw::close(fd);
            raw::unlink(path);
            return false;
        }
        Pages pages(fd, size);
        spare.ready.store(0);
        spare.size.store(size);
        const uint64_t offered = Offer{number, State::offered}.word();
        board_.head().ahead_offered.store(1);
        spare.offer.store(offered, std::memory_order_release);
        uint64_t at = 0;
        while (at < size && !over() && spare.offer.load(std::memory_order_acquire) == offered) {
            if (at > 0 && at % kLookAgain == 0 && free_shared_memory(board_.folder()) < 2 * (size - at)) break;
            const uint64_t part = std::min(size - at, kHuge);
            if (!pages.fill(at, part)) break;
            at += part;
            spare.ready.store(at, std::memory_order_release);
        }
        spare.size.store(at);
        return at > 0 || drop(s);
    }

    const Board& board_;
    std::atomic<bool> ending_{false};
    pthread_t thread_{};
    std::vector<int64_t>
        unused_since_;  // of each spare, ns; 0: it is not there, or its source has published nothing yet
};

}  // namespace

// A rank's steps on an out-port will take so many bytes, as far as is known; no more than `most` arenas are needed for
// them.
WILKINS_API(void, wilkins_ahead_expect(const Board* board, int outport, int rank, uint64_t bytes, unsigned most)) {
    Ahead& ahead = board->source(board->port(outport), rank).ahead;
    ahead.expected.store(bytes);
    ahead.most.store(most);
}
WILKINS_OR()

// Makes memory ready from now on, beside all else. nullptr: it cannot, and the run goes on without.
WILKINS_API(Maker*, wilkins_ahead_begin(const Board* board)) {
    auto maker = std::make_unique<Maker>(*board);
    return maker->begin() == 0 ? maker.release() : nullptr;
}
WILKINS_OR(nullptr)

WILKINS_API(void, wilkins_ahead_end(Maker* maker)) {
    maker->end();
    delete maker;
}
WILKINS_OR()

// The largest steps that ranks have published, of those for which memory is worth making ready, one a line: out-port,
// rank, bytes.
WILKINS_API(size_t, wilkins_largest_steps(const Board* board, char* text, size_t room)) {
    std::string out;
    for (const SourceRecord& source : sources_of(*board))
        if (const uint64_t bytes = source.largest.load(); bytes >= ahead::kLeast)
            out += std::to_string(source.port) + " " + std::to_string(source.rank) + " " + std::to_string(bytes) + "\n";
    const size_t n = room ? std::min(out.size(), room - 1) : 0;
    out.copy(text, n);
    if (room) text[n] = 0;
    return out.size();
}
WILKINS_OR(SIZE_MAX)
