// Arenas: files of shared memory, their growth and their kept mappings.
#include "board/arena.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <new>

#include "base/fault.hpp"
#include "base/raw.hpp"
#include "board/ahead.hpp"
#include "board/context.hpp"
#include "board/ranges.hpp"
#include "events.hpp"

namespace wilkins {

namespace {

void arena_path(const Board& board, int slot, const char* suffix, char* out, size_t room) {
    snprintf(out, room, "%s/a%d%s", board.folder(), slot, suffix);
}

void* map_file(int fd, uint64_t length, bool writable) {
    return mmap(nullptr, length, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
}

constexpr uint64_t kHugePage = 2u << 20;
constexpr uint64_t kAligned =
    1u << 30;  // bytes of an arena's address space, and no fewer; a mapping of one step may be shorter
constexpr uint64_t kRoomOnDisk = 1ull << 40;  // address space for a file, however much the disk holds now

// What is mapped, opened and unmapped are whole pages: of 4 KiB, and of 16 or 64 on some ARM systems.
uint64_t whole_pages(uint64_t bytes) {
    static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return (bytes + page - 1) / page * page;
}

uint64_t table_size(uint64_t bytes) { return (bytes / kBlock + 4095) / 4096 * 4096; }

// Where the process may write no file as long as the table (ulimit -f): how much of it the longest file that it may
// write takes. 0 elsewhere.
uint64_t limited_table(uint64_t table) {
    struct rlimit limit;
    const bool limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < table;
    return limited ? table_size(limit.rlim_cur + kBlock) : 0;
}

}  // namespace

// A signal would undo the work done so far, so a program with a fast timer (a profiler) might never get to the end of
// it: signals wait.
int allocate_file(int fd, uint64_t begin, uint64_t end) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = posix_fallocate(fd, static_cast<off_t>(begin), static_cast<off_t>(end - begin));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return error;
}

namespace {

int allocate(const char* path, uint64_t begin, uint64_t end) {
    const int fd = raw::open(path, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0) return errno;
    const int error = allocate_file(fd, begin, end);
    raw::close(fd);
    return error;
}

// Addresses alone: they must be opened before use. Returns 0 or an errno.
int map_closed(int fd, uint64_t length, bool writable, Mapping* out) {
    const int kind = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void* bytes = mmap(nullptr, length, PROT_NONE, kind | MAP_NORESERVE, fd, 0);
    if (bytes == MAP_FAILED) return errno;
    // Huge pages are mapped as such at addresses of their own size alone: then within more room, of which the rest
    // goes.
    if (reinterpret_cast<uintptr_t>(bytes) % kHugePage && fd >= 0 && length >= kAligned) {
        void* const roomy =
            mmap(nullptr, length + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (roomy != MAP_FAILED) {
            auto* const first = static_cast<unsigned char*>(roomy);
            const uint64_t before = (kHugePage - reinterpret_cast<uintptr_t>(roomy) % kHugePage) % kHugePage;
            void* const aligned = mmap(first + before, length, PROT_NONE, kind | MAP_NORESERVE | MAP_FIXED, fd, 0);
            if (aligned == MAP_FAILED) {
                munmap(roomy, length + kHugePage);
            } else {
                if (before) munmap(first, before);
                munmap(first + before + whole_pages(length), kHugePage - before);
                munmap(bytes, length);
                bytes = aligned;
            }
        }
    }
    out->open = new (std::nothrow) std::atomic<uint64_t>(0);
    if (!out->open) {
        munmap(bytes, length);
        return ENOMEM;
    }
    out->bytes = static_cast<unsigned char*>(bytes);
    out->length = length;
    out->writable = writable;
    return 0;
}

constexpr uint64_t kAmple = 1ull << 40;

bool has_addresses(uint64_t length) {
    void* const bytes = mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes == MAP_FAILED) return false;
    munmap(bytes, length);
    return true;
}

// True if there are fewer addresses than a processor has, although nobody has set a limit. Valgrind, for one, has 128
// GB of them.
bool addresses_are_scarce() {
    struct rlimit limit;
    return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY && !has_addresses(kAmple);
}

// Of those that are left, as many as one step of a hundred may take.
uint64_t fair_share() {
    uint64_t left = kAmple;
    while (left > (1u << 30) && !has_addresses(left)) left /= 2;
    return std::max<uint64_t>(left / 16, 512u << 20);
}

}  // namespace

void unmap(const Mapping& mapping) {
    munmap(mapping.bytes, mapping.length);
    delete mapping.open;
}

int map_most(int fd, uint64_t length, uint64_t needed, bool writable, Mapping* out) {
    static const bool scarce = addresses_are_scarce();
    if (scarce) length = std::min(length, std::max(fair_share(), needed));
    const uint64_t least = std::max(needed, std::min<uint64_t>(length, 64u << 20));
    int error = ENOMEM;
    for (; error && length >= least; length /= 2) error = map_closed(fd, length, writable, out);
    return error;
}

int open_further(const Mapping& mapping, uint64_t size) {
    uint64_t open = mapping.open->load(std::memory_order_acquire);
    const uint64_t goal = std::min(mapping.length, whole_pages(size));
    if (goal <= open) return 0;
    // Threads may do so at the same time: none takes back what another one has opened.
    if (mprotect(mapping.bytes + open, goal - open, mapping.writable ? PROT_READ | PROT_WRITE : PROT_READ) != 0)
        return errno;
    while (open < goal && !mapping.open->compare_exchange_weak(open, goal, std::memory_order_acq_rel)) {}
    return 0;
}

namespace {

using Entry = std::atomic<uint8_t>;

// A write that is shorter is not worth grains.
constexpr uint64_t kWorthGrains = 4096;

// Nobody may write what an entry is of before its zeroing, if it is being zeroed, is over.
template <typename Zero>
void validate(Entry& entry, Zero zero) {
    for (;;) {
        uint8_t seen = entry.load(std::memory_order_acquire);
        if (seen == kValid) return;
        if (seen == kStale && entry.compare_exchange_strong(seen, kZeroing, std::memory_order_acq_rel)) {
            zero();
            entry.store(kValid, std::memory_order_release);
            return;
        }
        sched_yield();
    }
}

void validate_grain(const Mapping& mapping, uint64_t block, Entry* grains, uint64_t g) {
    validate(grains[g], [&] { memset(mapping.bytes + block * kBlock + g * kGrain, 0, kGrain); });
}

// Eight entries at once: other ranks write those beside them.
using Eight [[gnu::may_alias]] = uint64_t;
constexpr uint64_t kEachValid = 0x0101010101010101ull * kValid;
static_assert(kStale == 0);

#ifdef __SANITIZE_THREAD__  // to which eight entries are another one than each of them
bool are_valid(Entry*) { return false; }
bool claim_stale(Entry*) { return false; }
#else
bool are_valid(Entry* eight) {
    return __atomic_load_n(reinterpret_cast<Eight*>(eight), __ATOMIC_ACQUIRE) == kEachValid;
}

bool claim_stale(Entry* eight) {
    uint64_t seen = 0;
    return __atomic_compare_exchange_n(reinterpret_cast<Eight*>(eight), &seen, kEachValid, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}
#endif

// These will be written whole.
void claim_grains(Entry* grains, uint64_t first, uint64_t end) {
    while (first < end) {
        if (first % 8 == 0 && end - first >= 8 && claim_stale(grains + first)) {
            first += 8;
            continue;
        }
        uint8_t seen = kStale;
        if (!grains[first].compare_exchange_strong(seen, kValid, std::memory_order_acq_rel))
            validate(grains[first], [] {});
        ++first;
    }
}

// All grains of a parted block hold what they should: so does the block. (Where others have made it so, or another step
// has begun, this is late.)
void note_valid(const Mapping& mapping, uint64_t block) {
    uint8_t seen = kParted;
    mapping.blocks[block].compare_exchange_strong(seen, kValid, std::memory_order_acq_rel);
}

}  // namespace

int make_valid(const Mapping& mapping, uint64_t block, uint64_t reserved) {
    Entry& state = mapping.blocks[block];
    for (;;) {
        uint8_t seen = state.load(std::memory_order_acquire);
        if (seen >= kValid) return 0;
        if (seen == kParted) {
            Entry* grains = nullptr;
            // (It has memory, maybe since the caller looked.)
            if (const int error = open_to(mapping, (block + 1) * kBlock)) return error;
            if (const int error = mapping.arenas->grains(mapping.slot, block, false, &grains)) return error;
            for (uint64_t g = 0; g < kGrains; ++g) {
                if (g % 8 == 0 && are_valid(grains + g)) g += 7;
                else validate_grain(mapping, block, grains, g);
            }
            note_valid(mapping, block);
            return 0;
        }
        if (seen == kStale && state.compare_exchange_strong(seen, kZeroing, std::memory_order_acq_rel)) {
            const uint64_t begin = block * kBlock;
            if (begin < reserved)
                memset(mapping.bytes + begin, 0, reserved - begin < kBlock ? reserved - begin : kBlock);
            state.store(kValid, std::memory_order_release);
            return 0;
        }
        sched_yield();
    }
}

int claim(const Mapping& mapping, uint64_t block) {
    Entry& state = mapping.blocks[block];
    for (;;) {
        uint8_t seen = kStale;
        if (state.compare_exchange_strong(seen, kValid, std::memory_order_acq_rel) || seen >= kValid) return 0;
        if (seen == kParted) {
            Entry* grains = nullptr;
            if (const int error = mapping.arenas->grains(mapping.slot, block, false, &grains)) return error;
            claim_grains(grains, 0, kGrains);
            note_valid(mapping, block);
            return 0;
        }
        sched_yield();
    }
}

int claim_part(const Mapping& mapping, uint64_t block, uint64_t begin, uint64_t end, uint64_t reserved) {
    const uint64_t start = block * kBlock, from = std::max(begin, start) - start, to = std::min(end - start, kBlock);
    // (The first block has HDF5's own data, which are short: a file whose other blocks are written whole needs no
    // table.)
    const bool worth =
        mapping.arenas != nullptr && block > 0 && end - begin >= kWorthGrains && start + kBlock <= reserved;
    Entry& state = mapping.blocks[block];
    Entry* grains = nullptr;
    for (;;) {
        uint8_t seen = state.load(std::memory_order_acquire);
        if (seen >= kValid) return 0;
        if (seen == kParted) {
            if (grains == nullptr)
                if (const int error = mapping.arenas->grains(mapping.slot, block, false, &grains)) return error;
            uint64_t first = from / kGrain, last = (to + kGrain - 1) / kGrain;
            if (from % kGrain != 0) validate_grain(mapping, block, grains, first++);
            if (to % kGrain != 0 && last > first) validate_grain(mapping, block, grains, --last);
            claim_grains(grains, first, last);
            return 0;
        }
        if (seen == kStale) {
            // (Where there is no memory for the table, the block is zeroed.)
            if (!worth || (grains == nullptr && mapping.arenas->grains(mapping.slot, block, true, &grains) != 0))
                return make_valid(mapping, block, reserved);
            if (state.compare_exchange_strong(seen, kZeroing, std::memory_order_acq_rel)) {
                memset(static_cast<void*>(grains), kStale, kGrains);
                state.store(kParted, std::memory_order_release);
            }
            continue;
        }
        sched_yield();
    }
}

Arenas* Arenas::make(const Board& board) {
    // (Zeroed memory that is not looked at takes none.)
    Places places(
        static_cast<std::atomic<Kept*>*>(calloc(static_cast<size_t>(board.head().slots), sizeof(std::atomic<Kept*>))),
        free);
    return places || board.head().slots == 0 ? new (std::nothrow) Arenas(board, std::move(places)) : nullptr;
}

Arenas::~Arenas() {
    for (int s = 0; s < board_.head().slots; ++s) delete places_[static_cast<size_t>(s)].load();
}

// nullptr: there is no memory for it.
Arenas::Kept* Arenas::kept(int slot) {
    std::atomic<Kept*>& place = places_[static_cast<size_t>(slot)];
    Kept* found = place.load(std::memory_order_acquire);
    if (found) return found;
    Kept* const fresh = new (std::nothrow) Kept();
    if (!fresh || place.compare_exchange_strong(found, fresh, std::memory_order_acq_rel)) return fresh;
    delete fresh;
    return found;
}

int Arenas::open(int slot, bool writable) const {
    char path[PATH_MAX];
    arena_path(board_, slot, "", path, sizeof(path));
    return raw::open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC, 0);
}

bool Arenas::on_disk(int slot) const {
    return board_.port(board_.source(board_.slot(slot).source).port).keys.mode == Mode::file;
}

uint64_t Arenas::room(int slot) const { return on_disk(slot) ? kRoomOnDisk : board_.head().reserve; }

// True if mappings of the slot's arena are kept from step to step. False of a file on disk, which is another one for
// each, and not where there are slots for a whole series: those would take all addresses.
bool Arenas::keeps(int slot) const { return !on_disk(slot) && !board_.source(board_.slot(slot).source).series; }

// Opens the slot's block table, which is as long as its arena's address space: most of it are holes.
int Arenas::make_table(int slot, int* fd) const {
    const uint64_t table = table_size(room(slot));
    char path[PATH_MAX];
    arena_path(board_, slot, ".blocks", path, sizeof(path));
    *fd = raw::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (*fd < 0) return errno;
    if (const uint64_t some = limited_table(table)) return posix_fallocate(*fd, 0, static_cast<off_t>(some));
    return raw::ftruncate(*fd, static_cast<off_t>(table)) == 0 ? 0 : errno;
}

int Arenas::map_table(int slot, bool writable, Mapping* kept) const {
    const uint64_t table = table_size(room(slot));
    int fd = -1, error = 0;
    if (writable) {
        error = make_table(slot, &fd);
    } else {
        char path[PATH_MAX];
        arena_path(board_, slot, ".blocks", path, sizeof(path));
        fd = raw::open(path, O_RDONLY | O_CLOEXEC, 0);
        if (fd < 0) error = errno;
    }
    void* blocks = error ? MAP_FAILED : map_file(fd, table, writable);
    if (!error && blocks == MAP_FAILED) error = errno;
    if (fd >= 0) raw::close(fd);
    if (error) return error;
    if (kept->blocks) munmap(static_cast<void*>(kept->blocks), table);
    kept->blocks = static_cast<std::atomic<uint8_t>*>(blocks);
    kept->writable = writable;
    return 0;
}

int Arenas::map_bytes(int slot, bool writable, Mapping* out) const {
    char path[PATH_MAX];
    arena_path(board_, slot, "", path, sizeof(path));
    const int fd = raw::open(path, (writable ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC, 0600);
    if (fd < 0) return errno;
    uint64_t length = room(slot);
    // A mapping that is not kept is of one step: to be read, it is as long as that.
    if (!writable && !keeps(slot)) length = std::max<uint64_t>(board_.slot(slot).size.load(), 1);
    if (const uint64_t some = writable ? limited_table(table_size(length)) : 0) length = some * kBlock;
    const int error = map_most(fd, length, 0, writable, out);
    raw::close(fd);
    if (error) {
        log_event(event::no_addresses());
        return ENOMEM;
    }
    return 0;
}

// Maps the table of grains anew, since it is too short for so many. (One for all that an arena could become would take
// a good part of the addresses that a limit leaves: ulimit -v.) `make`: gives them memory, too.
int Arenas::extend_grains(int slot, Kept& kept, uint64_t needed, bool make) {
    const uint64_t have = kept.grains_table.load(std::memory_order_relaxed),
                   mapped = kept.grains_mapped.load(std::memory_order_relaxed);
    const uint64_t goal = (std::max(needed, board_.slot(slot).reserved.load() / kGrain) + 4095) / 4096 * 4096;
    if (make && limited_table(goal)) return EFBIG;
    char path[PATH_MAX];
    arena_path(board_, slot, ".grains", path, sizeof(path));
    const int fd = raw::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return errno;
    int error = 0;
    if (make && have < needed) {
        error = allocate_file(fd, have, goal);
        if (!error) kept.grains_table.store(goal, std::memory_order_relaxed);
    }
    if (!error && mapped < needed) {
#ifdef __SANITIZE_THREAD__  // to which one entry at two addresses is two: there is one table for the steps of a test
        const uint64_t length = std::max({goal, 2 * mapped, uint64_t{1} << 18});
#else
        const uint64_t length = std::max(goal, 2 * mapped);
#endif
        void* const table = map_file(fd, length, true);
        if (table == MAP_FAILED) {
            error = errno;
        } else {
            // (The mapping before this one stays, for those who look at it now.)
            kept.grains.store(static_cast<Entry*>(table), std::memory_order_release);
            kept.grains_mapped.store(length, std::memory_order_release);
        }
    }
    raw::close(fd);
    return error;
}

int Arenas::grains(int slot, uint64_t block, bool make, Entry** out) {
    Kept* const kept = this->kept(slot);
    if (!kept) return ENOMEM;
    const uint64_t needed = (block + 1) * kGrains;
    const auto lacks = [&] {
        return kept->grains_mapped.load(std::memory_order_acquire) < needed ||
               (make && kept->grains_table.load(std::memory_order_relaxed) < needed);
    };
    if (lacks()) {
        std::lock_guard<std::mutex> guard(mutex_);
        if (lacks())
            if (const int error = extend_grains(slot, *kept, needed, make)) return error;
    }
    *out = kept->grains.load(std::memory_order_acquire) + block * kGrains;
    return 0;
}

int Arenas::map(int slot, bool writable, Mapping* out) {
    std::lock_guard<std::mutex> guard(mutex_);
    Kept* const kept = this->kept(slot);
    if (!kept) return ENOMEM;
    const bool enough = kept->blocks && (kept->writable || !writable);
    if (!enough) {
        if (int error = map_table(slot, writable, kept)) return error;
        kept->bytes = nullptr;  // a mapping that could only be read stays, for those who still do
    }
    leave_former(slot, *kept);
    *out = static_cast<const Mapping&>(*kept);
    if (kept->bytes) return 0;
    if (int error = map_bytes(slot, writable, out)) return error;
    if (!keeps(slot)) {
        out->kept = false;
        return 0;
    }
    if (writable) {
        out->arenas = this;
        out->slot = slot;
    }
    static_cast<Mapping&>(*kept) = *out;
    kept->arena = board_.slot(slot).arena.load();
    return 0;
}

int Arenas::find(const void* address, Mapping* out) {
    std::lock_guard<std::mutex> guard(mutex_);
    for (int s = 0; s < board_.head().slots; ++s) {
        const Mapping* const kept = places_[static_cast<size_t>(s)].load();
        if (!kept || !kept->bytes || address < kept->bytes || address >= kept->bytes + kept->length) continue;
        *out = *kept;
        return s;
    }
    return -1;
}

void Arenas::account(SlotRecord& slot, uint64_t bytes) {
    PortRecord& port = board_.port(board_.source(slot.source).port);
    BoardRecord& head = board_.head();
    if (port.keys.mode == Mode::file) {
        slot.accounted = bytes;
        return;
    }
    port.used = port.used - slot.accounted + bytes;
    WILKINS_FAULT_POINT("account.port");
    head.memory = head.memory - slot.accounted + bytes;
    WILKINS_FAULT_POINT("account.run");
    slot.accounted = bytes;
}

int Arenas::reserve_table(int slot, uint64_t size) {
    Kept* const kept = this->kept(slot);
    if (!kept) return ENOMEM;
    std::atomic<uint64_t>& have = kept->table;
    if (size <= have.load(std::memory_order_relaxed)) return 0;
    char path[PATH_MAX];
    arena_path(board_, slot, ".blocks", path, sizeof(path));
    const int error = allocate(path, 0, size);
    if (!error) have.store(size, std::memory_order_relaxed);
    return error;
}

int Arenas::reserve(int index, uint64_t size) {
    SlotRecord& slot = board_.slot(index);
    uint64_t have = slot.reserved.load(std::memory_order_acquire);
    if (size <= have) return 0;
    const uint64_t goal = (size + kBlock - 1) / kBlock * kBlock;
    uint64_t before;
    {
        Board::Lock lock(board_);
        const PortRecord& port = board_.port(board_.source(slot.source).port);
        before = slot.accounted;
        if (goal > before) {
            if (port.cap &&
                port.used + (goal - before) + ahead::held(board_, board_.source(slot.source).port) > port.cap)
                return EDQUOT;
            account(slot, goal);
        }
        ++board_.head().reserving;
    }
    WILKINS_FAULT_POINT("reserve.accounted");
    char path[PATH_MAX];
    int error = reserve_table(index, table_size(goal));
    WILKINS_FAULT_POINT("reserve.table");
    arena_path(board_, index, "", path, sizeof(path));
    if (!error) error = allocate(path, have, goal);
    if (error == EDQUOT) error = ENOSPC;  // a quota of the disk is no cap of the port
    if (error) {
        Board::Lock lock(board_);
        --board_.head().reserving;
        if (slot.accounted == goal) account(slot, before);
        return error;
    }
    WILKINS_FAULT_POINT("reserve.allocated");
    while (have < goal && !slot.reserved.compare_exchange_weak(have, goal)) {}
    Board::Lock lock(board_);
    --board_.head().reserving;
    note_peak();
    return 0;
}

// What there is no memory for was never taken: of what is counted, that which ranks have asked for and may not get is
// left out.
void Arenas::note_peak() {
    BoardRecord& head = board_.head();
    uint64_t taken = head.memory + ahead::held(board_, -1);
    if (taken <= head.memory_peak) return;
    for (const SlotRecord& slot : slots_of(board_)) {
        if (head.reserving == 0) break;
        const uint64_t reserved = slot.reserved.load();
        if (slot.accounted > reserved && board_.port(board_.source(slot.source).port).keys.mode != Mode::file)
            taken -= slot.accounted - reserved;
    }
    if (taken > head.memory_peak) head.memory_peak = taken;
}

int Arenas::trim(int index, uint64_t size) {
    SlotRecord& slot = board_.slot(index);
    int fd = open(index, true);
    if (fd < 0) return errno;
    if (slot.reserved.exchange(size) > size)
        ++slot.cuts;  // first: a process that dies in between must not leave word of memory that is gone
    WILKINS_FAULT_POINT("trim.noted");
    int error = raw::ftruncate(fd, static_cast<off_t>(size)) == 0 ? 0 : errno;
    raw::close(fd);
    if (error) return error;
    WILKINS_FAULT_POINT("trim.cut");
    Board::Lock lock(board_);
    account(slot, size);
    return 0;
}

bool Arenas::empty(int index) {
    const int fd = open(index, true);
    if (fd < 0) return false;
    SlotRecord& slot = board_.slot(index);
    slot.reserved.store(0);  // first, as in trim
    ++slot.cuts;
    WILKINS_FAULT_POINT("reclaim.noted");
    const bool cut = raw::ftruncate(fd, 0) == 0;
    if (cut) {
        WILKINS_FAULT_POINT("reclaim.cut");
        account(slot, 0);
    }
    raw::close(fd);
    return cut;
}

void Arenas::note_gone(int index) {
    SlotRecord& slot = board_.slot(index);
    slot.reserved.store(0);
    account(slot, 0);
}

}  // namespace wilkins
