// Memory made ready for arenas: what processes of the run share of it, take of it, and give back.
#include "board/ahead.hpp"

#include <linux/futex.h>

#include <cerrno>
#include <climits>
#include <cstdio>

#include "base/fault.hpp"
#include "base/raw.hpp"
#include "board/arena.hpp"
#include "board/ranges.hpp"

namespace wilkins {

namespace ahead {

void path_of(const Board& board, int source, int spare, uint64_t number, char* out, size_t room) {
    snprintf(out, room, "%s/n%d.%d.%llu", board.folder(), source, spare, static_cast<unsigned long long>(number));
}

Taken take(const Board& board, int source, int spare) {
    Spare& found = board.source(source).ahead.spares[spare];
    uint64_t seen = found.offer.load(std::memory_order_acquire);
    const Offer offer = Offer::of(seen);
    Taken taken;
    if (offer.state != State::offered) return taken;
    if (!found.offer.compare_exchange_strong(seen, Offer{offer.number, State::taken}.word(), std::memory_order_acq_rel))
        return taken;
    taken.spare = &found;
    path_of(board, source, spare, offer.number, taken.path, sizeof(taken.path));
    return taken;
}

namespace {

constexpr int64_t kStandsStill = 5'000'000;  // ns without progress after which nobody waits for the thread
constexpr int64_t kLongest = 200'000'000;  // ns that it is waited for: the step may be much smaller than the last run's
constexpr long kLook = 200'000;            // ns between two looks at it

// Of a source's spares that are offered, the one of which most is ready; -1: there is none.
int best_of(const Board& board, int source) {
    int best = -1;
    uint64_t most = 0;
    for (int k = 0; k < kSpares; ++k) {
        const Spare& spare = board.source(source).ahead.spares[k];
        const uint64_t ready = spare.ready.load(std::memory_order_acquire);
        if (Offer::of(spare).state != State::offered || (best >= 0 && ready <= most)) continue;
        best = k;
        most = ready;
    }
    return best;
}

}  // namespace

uint64_t size_of_next(const SourceRecord& source) {
    const uint64_t largest = source.largest.load(std::memory_order_relaxed);
    return largest ? largest : source.ahead.expected.load(std::memory_order_relaxed);
}

bool is_wanted(const Board& board, const SourceRecord& source) {
    if (size_of_next(source) < kLeast) return false;
    uint32_t arenas = 0, offered = 0;
    for (const SlotRecord& slot : slots_of(board, source)) arenas += slot.reserved.load() > 0;
    for (const Spare& spare : source.ahead.spares) offered += Offer::of(spare).state == State::offered;
    if (offered > 0 || arenas >= source.ahead.most.load()) return false;
    return arenas == 0 || source.begun.load(std::memory_order_relaxed) > 1;
}

namespace {

// The thread looks only when there is something to do.
int await_offer(const Board& board, int source) {
    int best = best_of(board, source);
    const BoardRecord& head = board.head();
    if (best >= 0 || !head.ahead_works.load() || !is_wanted(board, board.source(source))) return best;
    ring(board);
    const int64_t began = now_ns();
    while (best < 0 && !head.ahead_short.load() && !head.stopped.load() && now_ns() - began < kStandsStill) {
        const struct timespec pause = {0, kLook};
        nanosleep(&pause, nullptr);
        best = best_of(board, source);
    }
    return best;
}

}  // namespace

void await(const Board& board, int source) {
    const int best = await_offer(board, source);
    if (best < 0) return;
    const Spare& spare = board.source(source).ahead.spares[best];
    uint64_t seen = 0;
    const int64_t began = now_ns();
    int64_t since = began;
    while (Offer::of(spare).state == State::offered && !board.head().stopped.load() && now_ns() - began < kLongest) {
        const uint64_t ready = spare.ready.load(std::memory_order_acquire);
        if (ready >= spare.size.load()) return;
        if (ready != seen) {
            seen = ready;
            since = now_ns();
        } else if (now_ns() - since > kStandsStill) {
            return;
        }
        const struct timespec pause = {0, kLook};
        nanosleep(&pause, nullptr);
    }
}

Taken take(const Board& board, int source) {
    const int best = best_of(board, source);
    return best < 0 ? Taken() : take(board, source, best);
}

void ring(const Board& board) {
    BoardRecord& head = board.head();
    if (!head.ahead_works.load(std::memory_order_acquire)) return;
    head.ahead_bell.fetch_add(1, std::memory_order_release);
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&head.ahead_bell), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

uint64_t held(const Board& board, int port) {
    uint64_t bytes = 0;
    if (board.head().ahead_offered.load(std::memory_order_acquire))
        for (const SourceRecord& source : sources_of(board, port))
            for (const Spare& spare : source.ahead.spares)
                if (Offer::of(spare).state == State::offered) bytes += spare.size.load();
    return bytes;
}

bool give_back(const Board& board, int port) {
    BoardRecord& head = board.head();
    if (!head.ahead_works.load(std::memory_order_acquire)) return false;
    if (port < 0) head.ahead_short.store(1);
    bool any = false;
    for (SourceRecord& source : sources_of(board, port)) {
        if (port >= 0) source.ahead.most.store(0);
        for (int k = 0; k < kSpares; ++k) {
            const Taken taken = take(board, board.index(source), k);
            // Cut first: the thread may have the file open yet, and so keep its memory.
            const int fd = taken ? raw::open(taken.path, O_RDWR | O_CLOEXEC, 0) : -1;
            if (fd < 0) continue;
            any = raw::ftruncate(fd, 0) == 0 || any;
            raw::close(fd);
            raw::unlink(taken.path);
        }
    }
    return any;
}

}  // namespace ahead

// Counts the memory of a file that is to be the slot's arena: how much of it the port's cap leaves room for.
uint64_t Arenas::account_for_adopted(int index, uint64_t bytes) {
    SlotRecord& slot = board_.slot(index);
    Board::Lock lock(board_);
    const PortRecord& port = board_.port(board_.source(slot.source).port);
    const uint64_t used = port.used - slot.accounted;
    if (port.cap && used + bytes > port.cap) bytes = port.cap > used ? (port.cap - used) / kBlock * kBlock : 0;
    if (bytes > slot.accounted) account(slot, bytes);
    return bytes;
}

// A process that died before it could note what it had given the file may have left it longer. (Nobody else has the
// step open yet.)
void Arenas::cut_leftovers(int index) const {
    const int fd = open(index, true);
    struct stat st;
    if (fd >= 0 && raw::fstat(fd, &st) == 0 && st.st_size > 0) raw::ftruncate(fd, 0);
    if (fd >= 0) raw::close(fd);
}

void Arenas::adopt(int index) {
    SlotRecord& slot = board_.slot(index);
    if (slot.reserved.load(std::memory_order_acquire) != 0 || on_disk(index)) return;
    cut_leftovers(index);
    ahead::await(board_, slot.source);
    const ahead::Taken taken = ahead::take(board_, slot.source);
    if (!taken) return;
    WILKINS_FAULT_POINT("adopt.taken");
    char arena[PATH_MAX];
    snprintf(arena, sizeof(arena), "%s/a%d", board_.folder(), index);
    const uint64_t before = slot.accounted;
    uint64_t bytes = taken.spare->ready.load(std::memory_order_acquire);
    const int fd = bytes ? raw::open(taken.path, O_RDWR | O_CLOEXEC, 0) : -1;
    if (fd >= 0) bytes = account_for_adopted(index, bytes);
    WILKINS_FAULT_POINT("adopt.accounted");
    // Cut before it is the arena: what the thread is still filling beyond that is no part of it.
    bool done = fd >= 0 && bytes > 0 && raw::ftruncate(fd, static_cast<off_t>(bytes)) == 0;
    if (fd >= 0) raw::close(fd);
    int table = -1;
    done = done && make_table(index, &table) == 0;
    if (table >= 0) raw::close(table);
    done = done && reserve_table(index, (bytes / kBlock / 4096 + 1) * 4096) == 0;
    // An arena that was one before is mapped by others: it stays.
    done = done && raw::rename_if_new(taken.path, arena) == 0;
    WILKINS_FAULT_POINT("adopt.renamed");
    if (done) slot.reserved.store(bytes);
    else raw::unlink(taken.path);
    {
        Board::Lock lock(board_);
        if (done) note_peak();
        else if (slot.accounted != before) account(slot, before);
    }
    ahead::ring(board_);
}

}  // namespace wilkins
