// Tables of where the bytes of steps are, and how those come that are elsewhere.
#include "steps/homes.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/held_at_forks.hpp"
#include "base/raw.hpp"
#include "board/step_token.hpp"
#include "events.hpp"
#include "far/part.hpp"
#include "steps/creating.hpp"
#include "waiting/wait.hpp"

namespace wilkins::homes {

namespace {

using Entry = std::atomic<uint8_t>;

struct Head {
    std::atomic<uint32_t> hosts;
    char lead[kAddressMax];
    Host list[kMostHosts];
};

constexpr uint64_t kHead = (sizeof(Head) + 4095) / 4096 * 4096;
constexpr size_t kMostRuns = 1 << 16;  // of what was read of a step: where there are more, near ones are taken together
constexpr uint64_t kGapsPart = 64;     // of what was read: so much more may come with it, to fill gaps
constexpr uint64_t kWorthARun =
    256;  // bytes of a step for each run: one that is more scattered than that is brought together
constexpr uint64_t kMostScattered = 1 << 18;  // runs of a step that is not: each host that reads it gets them all
// A step of so few bytes is in one place; where tests make every step lazy, none is.
#ifdef WILKINS_HOOKS
constexpr uint64_t kSmall = 0;
#else
constexpr uint64_t kSmall = 4 * kBlock;
#endif

struct Table {
    int fd = -1;
    Head* head = nullptr;
    Entry* entries = nullptr;
    uint64_t length = 0;              // entries that there are addresses for
    std::atomic<uint64_t> memory{0};  // bytes of the file that are known to have some
};

SlotRecord& slot_of(const StepFile::State* state) { return process().board.slot(state->slot); }

int open_table(int slot, Table* table) {
    const Board& board = process().board;
    char path[4096];
    snprintf(path, sizeof(path), "%s/a%d.homes", board.folder(), slot);
    table->length = board.head().reserve / kSector;
    const uint64_t bytes = kHead + table->length;
    table->fd = raw::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (table->fd < 0) return errno;
    if (raw::ftruncate(table->fd, static_cast<off_t>(bytes)) != 0) return errno;
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, table->fd, 0);
    if (at == MAP_FAILED) return errno;
    table->head = static_cast<Head*>(at);
    table->entries = reinterpret_cast<Entry*>(static_cast<char*>(at) + kHead);
    return 0;
}

std::mutex tables_mutex;
HeldAtForks held_at_forks(tables_mutex);
auto& tables = *new std::vector<std::unique_ptr<Table>>;  // used to the end of the process

// The slot's, which the process keeps. nullptr: there is no memory for it.
Table* table_of(int slot) {
    const std::lock_guard<std::mutex> guard(tables_mutex);
    tables.resize(static_cast<size_t>(process().board.head().slots));
    std::unique_ptr<Table>& table = tables[static_cast<size_t>(slot)];
    if (table) return table.get();
    auto made = std::make_unique<Table>();
    if (open_table(slot, made.get()) != 0) {
        if (made->fd >= 0) raw::close(made->fd);
        return nullptr;
    }
    table = std::move(made);
    return table.get();
}

// Memory for the head, and for so many entries. Returns 0 or an errno.
int hold(Table& table, uint64_t entries) {
    if (entries > table.length) return EFBIG;
    const uint64_t bytes = (kHead + entries + kBlock - 1) / kBlock * kBlock;
    const uint64_t have = table.memory.load(std::memory_order_relaxed);
    if (bytes <= have) return 0;
    if (const int error = allocate_file(table.fd, have, bytes)) return error;
    table.memory.store(bytes, std::memory_order_relaxed);
    return 0;
}

// While it lives, no other process or thread changes the slot's table.
class Alone {
public:
    explicit Alone(SlotRecord& slot) : lock_(slot.lazy.bringing) { wilkins::take(lock_, process().board.life()); }
    ~Alone() { give_back(lock_); }
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;

private:
    SharedLock& lock_;
};

// Sectors that are elsewhere.
struct Missing {
    uint64_t begin;
    uint64_t end;
    uint8_t host;
};

bool is_absent(uint8_t entry) { return entry != kHere && entry != kUnread; }

uint64_t eight_from(const Entry* entries) {
    uint64_t word;
    __atomic_load(reinterpret_cast<const uint64_t*>(entries), &word, __ATOMIC_ACQUIRE);
    return word;
}

// Of these entries, adds those of sectors that are elsewhere. `reads`: the others are read from now on.
void find_missing(Table& table, uint64_t first, uint64_t last, bool reads, std::vector<Missing>* missing) {
    Entry* const entries = table.entries;
    for (uint64_t s = first; s < last;) {
        if (s % 8 == 0 && s + 8 <= last && eight_from(entries + s) == 0) {
            s += 8;
            continue;
        }
        const uint8_t entry = entries[s].load(std::memory_order_acquire);
        if (entry == kUnread && reads) entries[s].store(kHere, std::memory_order_relaxed);
        if (is_absent(entry)) {
            if (missing->empty() || missing->back().end != s || missing->back().host != entry)
                missing->push_back({s, s, entry});
            missing->back().end = s + 1;
        }
        ++s;
    }
}

// The same for ranges of a file.
std::vector<Missing> missing_of(Table& table, const SlotRecord& slot, const Range* ranges, size_t count, bool reads) {
    const uint64_t known = std::min(slot.lazy.sectors.load(), (slot.size.load() + kSector - 1) / kSector);
    std::vector<Missing> missing;
    for (size_t k = 0; k < count; ++k) {
        const uint64_t last = ranges[k].end >= known * kSector ? known : (ranges[k].end + kSector - 1) / kSector;
        find_missing(table, ranges[k].begin / kSector, last, reads, &missing);
    }
    return missing;
}

// The handle's connection to a host: a fork needs one of its own.
FarFile* connect(StepFile::State* state, uint64_t number, int* error) {
    const uint32_t self = process().board.self();
    if (state->connected_by != self) state->servers.clear();
    state->connected_by = self;
    if (state->servers.size() <= number) state->servers.resize(number + 1);
    std::unique_ptr<FarFile>& server = state->servers[number];
    if (server) return server.get();
    const Host* const host = homes::host(state->slot, number);
    if (host == nullptr) {
        *error = EPROTO;
        return nullptr;
    }
    SlotRecord& slot = slot_of(state);
    const StepToken token = {slot.lazy.slot, slot.lazy.slot, slot.lazy.stamp};
    server = FarFile::open(host->where, token, host->has_step ? Use::bring : Use::part, state->name,
                           host->has_step ? "" : lead(state->slot), error);
    process().board.source(slot.source).asked.fetch_add(3);  // its end, too
    return server.get();
}

// A part on this host is read without its server.
Part* part_here(const StepFile::State* state, uint64_t number) {
    const Host* const host = homes::host(state->slot, number);
    const Lazy& lazy = slot_of(state).lazy;
    int error = 0;
    Part* const part =
        host == nullptr || host->has_step ? nullptr : Part::open(lead(state->slot), lazy.slot, false, &error);
    return part != nullptr && part->holds(lazy.stamp, host->where) ? part : nullptr;
}

// A step that is written: what nobody has written of a block is zero, beside what comes.
int prepare(const StepFile::State* state, const SlotRecord& slot, uint64_t begin, uint64_t end) {
    const uint64_t reserved = slot.reserved.load(std::memory_order_acquire);
    if (const int error = open_to(state->mapping, reserved)) return error;
    for (uint64_t b = begin / kBlock; b * kBlock < end; ++b)
        if (const int error = make_valid(state->mapping, b, reserved)) return error;
    return 0;
}

// Brings these, and notes that they are here. Call with the table's lock held.
int fetch(StepFile::State* state, Table& table, const std::vector<Missing>& missing, uint8_t entry) {
    SlotRecord& slot = slot_of(state);
    SourceRecord& source = process().board.source(slot.source);
    const uint64_t size = slot.size.load();
    const bool published = slot.lazy.is != Absence::none;
    std::map<uint64_t, std::vector<ByteRange>> asked;  // by number of the host
    uint64_t crossed = 0, came = 0;
    int error = 0;
    for (const Missing& one : missing) {
        const uint64_t begin = one.begin * kSector, end = std::min(one.end * kSector, size);
        if (!published && (error = prepare(state, slot, begin, end))) return error;
        came += one.end - one.begin;
        if (Part* const part = part_here(state, one.host)) {
            if ((error = part->open_to_read(end))) return error;
            memcpy(state->mapping.bytes + begin, part->bytes() + begin, end - begin);
            continue;
        }
        asked[one.host].push_back({begin, end});
        crossed += end - begin;
    }
    for (auto& [number, ranges] : asked) {
        FarFile* const server = connect(state, number, &error);
        if (server == nullptr) return error;
        server->gather(std::move(ranges), state->mapping.bytes);
        source.asked.fetch_add(2);
    }
    for (const std::unique_ptr<FarFile>& server : state->servers)
        if (server && (error = server->settle())) return error;
    for (const Missing& one : missing)
        for (uint64_t s = one.begin; s < one.end; ++s) table.entries[s].store(entry, std::memory_order_release);
    if (published) slot.lazy.absent.fetch_sub(came);
    if (slot.lazy.is == Absence::lazy) source.left.fetch_sub(crossed);
    return 0;
}

// Waits until these have come, of a step whose bytes do. Returns 0, or EINTR: the run is being stopped, as where the
// relay has died that they come by.
int await_coming(const SlotRecord& slot, const Range* ranges, size_t count) {
    const Board& board = process().board;
    const uint64_t size = slot.size.load();
    uint64_t end = 0;
    for (size_t k = 0; k < count; ++k) end = std::max(end, std::min(ranges[k].end, size));
    if (has_come(slot, end)) return 0;
    const int port = board.source(slot.source).port;
    Board::Lock lock(board);
    while (!has_come(slot, end)) {
        if (board.head().stopped) return EINTR;
        const uint32_t seen = board.bell(port);
        lock.release();
        {
            PythonUnlocked python;
            board.sleep(port, seen, kNap);
        }
        lock.acquire();
    }
    return 0;
}

int gave_up(StepFile::State* state, int error) {
    log_event(error == EBADMSG ? event::stays_damaged(state->name) : event::did_not_come(state->name, error));
    if (slot_of(state).lazy.is == Absence::none) slot_of(state).broken.store(error);
    return state->failed = error;
}

void set(Table& table, uint64_t first, uint64_t last, uint8_t entry) {
    memset(static_cast<void*>(table.entries + first), entry, last - first);
}

void mark_absent(const StepFile::State* state, uint64_t size) {
    for (uint64_t b = 0; b * kBlock < size; ++b) state->mapping.blocks[b].store(kAbsent, std::memory_order_relaxed);
}

// Ranges with what lies between near ones, if all that is little beside them: a step of which nearly all is read comes
// whole.
std::vector<Range> without_small_gaps(std::vector<Range> ranges, uint64_t size) {
    uint64_t gaps = 0, bytes = 0, at = 0;
    const auto is_small = [](uint64_t gap) { return gap < kBlock; };
    for (const Range& range : ranges) {
        if (is_small(range.begin - at)) gaps += range.begin - at;
        bytes += range.end - range.begin;
        at = range.end;
    }
    if (is_small(size - at)) gaps += size - at;
    if (gaps == 0 || gaps > bytes / kGapsPart) return ranges;
    std::vector<Range> joined;
    at = 0;
    for (const Range& range : ranges) {
        if (!is_small(range.begin - at)) joined.push_back(range);
        else if (joined.empty()) joined.push_back({at, range.end});
        else joined.back().end = range.end;
        at = range.end;
    }
    if (is_small(size - at)) joined.back().end = size;
    return joined;
}

}  // namespace

int number_of(int index, const char* where, const char* lead, bool has_step) {
    Table* const table = table_of(index);
    if (table == nullptr || hold(*table, 0) != 0) return -1;
    const Alone alone(process().board.slot(index));
    Head& head = *table->head;
    const uint32_t count = head.hosts.load();
    for (uint32_t k = 0; k < count; ++k)
        if (strcmp(head.list[k].where, where) == 0 && head.list[k].has_step == has_step) return static_cast<int>(k) + 1;
    if (count == kMostHosts) return -1;
    strncpy(head.lead, lead, sizeof(head.lead) - 1);
    strncpy(head.list[count].where, where, sizeof(head.list[count].where) - 1);
    head.list[count].has_step = has_step;
    head.hosts.store(count + 1, std::memory_order_release);
    return static_cast<int>(count) + 1;
}

const Host* host(int slot, uint64_t number) {
    const Table* const table = table_of(slot);
    const bool there = table != nullptr && number > 0 && number <= table->head->hosts.load(std::memory_order_acquire);
    return there ? &table->head->list[number - 1] : nullptr;
}

std::vector<Host> hosts(int slot) {
    std::vector<Host> found;
    for (uint64_t number = 1; const Host* const one = host(slot, number); ++number) found.push_back(*one);
    return found;
}

const char* lead(int slot) {
    const Table* const table = table_of(slot);
    return table != nullptr ? table->head->lead : "";
}

int put(StepFile::State* state, uint64_t number, uint64_t offset, uint64_t count) {
    SlotRecord& slot = slot_of(state);
    Table* const table = table_of(state->slot);
    const uint64_t first = offset / kSector, last = first + count / kSector;
    if (table == nullptr) return ENOMEM;
    if (offset % kSector != 0 || count % kSector != 0 || number == 0 || number > kMostHosts) return EPROTO;
    {
        const Alone alone(slot);
        if (const int error = hold(*table, last)) return error;
        set(*table, first, last, static_cast<uint8_t>(number));
        if (slot.lazy.sectors.load() < last) slot.lazy.sectors.store(last, std::memory_order_release);
        slot.lazy.slot = state->slot;
        slot.lazy.stamp = slot.stamp;
    }
    const Range range = {offset, offset + count};
    return slot.lazy.pinned.load() != 0 ? bring(state, &range, 1) : 0;
}

int take(StepFile::State* state, uint64_t offset, uint64_t count, bool whole) {
    const SlotRecord& slot = slot_of(state);
    Table* const table = table_of(state->slot);
    if (table == nullptr) return ENOMEM;
    const uint64_t end = offset + count;
    const Range all = {offset, end};
    if (missing_of(*table, slot, &all, 1, false).empty()) return 0;
    const Alone alone(process().board.slot(state->slot));
    std::vector<Missing> kept;  // of the sectors at either end, other bytes stay
    const Range ends[] = {{offset, offset + 1}, {end - 1, end}};
    if (!whole) kept = missing_of(*table, slot, &all, 1, false);
    if (whole && offset % kSector != 0) kept = missing_of(*table, slot, &ends[0], 1, false);
    if (whole && end % kSector != 0 && (kept.empty() || kept[0].begin != (end - 1) / kSector)) {
        const std::vector<Missing> last = missing_of(*table, slot, &ends[1], 1, false);
        kept.insert(kept.end(), last.begin(), last.end());
    }
    if (const int error = kept.empty() ? 0 : fetch(state, *table, kept, kHere)) return gave_up(state, error);
    const uint64_t known = slot.lazy.sectors.load();
    const uint64_t first = std::min(offset / kSector, known), last = std::min((end + kSector - 1) / kSector, known);
    set(*table, first, last, kHere);
    return 0;
}

int cut(StepFile::State* state, uint64_t size) {
    SlotRecord& slot = slot_of(state);
    Table* const table = table_of(state->slot);
    if (table == nullptr) return ENOMEM;
    const Alone alone(slot);
    const Range last = {size - std::min<uint64_t>(size, 1),
                        size};  // the sector that the file ends in, unless it ends with it
    const std::vector<Missing> kept =
        size % kSector != 0 ? missing_of(*table, slot, &last, 1, false) : std::vector<Missing>();
    if (const int error = kept.empty() ? 0 : fetch(state, *table, kept, kHere)) return gave_up(state, error);
    const uint64_t known = slot.lazy.sectors.load();
    set(*table, std::min((size + kSector - 1) / kSector, known), known, kHere);
    return 0;
}

int bring(StepFile::State* state, const Range* ranges, size_t count, uint8_t entry) {
    SlotRecord& slot = slot_of(state);
    if (state->failed) return state->failed;
    Table* const table = table_of(state->slot);
    if (table == nullptr) return gave_up(state, ENOMEM);
    if (missing_of(*table, slot, ranges, count, entry == kHere).empty()) return 0;
    if (slot.lazy.comes.load() != 0 && entry == kUnread) return 0;  // so does what nobody has asked for yet
    if (const int error = await_coming(slot, ranges, count)) return gave_up(state, error);
    const Alone alone(slot);
    const std::vector<Missing> missing = missing_of(*table, slot, ranges, count, false);
    const int error = missing.empty() ? 0 : fetch(state, *table, missing, entry);
    return error ? gave_up(state, error) : 0;
}

std::vector<Run> runs_of(int index, uint64_t begin, uint64_t end) {
    const Table* const table = table_of(index);
    const uint64_t known = process().board.slot(index).lazy.sectors.load();
    std::vector<Run> runs;
    const auto add = [&](uint64_t to, uint8_t host) {
        if (!runs.empty() && runs.back().host == host) runs.back().end = to;
        else runs.push_back({to, host});
    };
    uint64_t s = begin / kSector;
    while (table != nullptr && s < known && s * kSector < end) {
        const uint8_t entry = table->entries[s].load(std::memory_order_acquire);
        ++s;
        add(std::min(s * kSector, end), is_absent(entry) ? entry : kHere);
    }
    if (s * kSector < end) add(end, kHere);
    return runs;
}

bool scatter(StepFile::State* state) {
    SlotRecord& slot = slot_of(state);
    const uint64_t size = slot.size.load();
    if (size <= kSmall) return false;
    const std::vector<Run> runs = runs_of(state->slot, 0, size);
    if (runs.size() > std::min(size / kWorthARun + 2, kMostScattered)) return false;
    const Alone alone(slot);
    const uint64_t reserved = slot.reserved.load();
    uint64_t absent = 0, at = 0;
    for (const Run& run : runs) {
        const uint64_t begin = std::exchange(at, run.end);
        if (run.host == kHere) continue;
        absent += (run.end - begin + kSector - 1) / kSector;
        for (uint64_t b = begin / kBlock; b * kBlock < run.end; ++b) {
            const bool whole = b * kBlock >= begin && std::min((b + 1) * kBlock, size) <= run.end;
            if (!whole && make_valid(state->mapping, b, reserved) != 0) return false;
            state->mapping.blocks[b].store(kAbsent, std::memory_order_release);
        }
    }
    if (absent == 0) return false;
    slot.lazy.absent.store(absent);
    slot.lazy.is = Absence::scattered;
    return true;
}

uint64_t lay_out(StepFile::State* state, const std::vector<Run>& runs, const std::vector<Range>& here) {
    SlotRecord& slot = slot_of(state);
    Table* const table = table_of(state->slot);
    const uint64_t size = slot.size.load(), sectors = (size + kSector - 1) / kSector;
    if (table == nullptr || hold(*table, sectors) != 0) return UINT64_MAX;
    uint64_t at = 0;
    for (const Run& run : runs) {
        const uint64_t end = (std::min(run.end, size) + kSector - 1) / kSector;
        if (end > at) set(*table, at, end, static_cast<uint8_t>(run.host + 1));
        at = std::max(at, end);
    }
    uint64_t absent = size;
    mark_absent(state, size);
    for (const Range& range : here) {
        const uint64_t end = std::min(range.end, size);
        set(*table, range.begin / kSector, (end + kSector - 1) / kSector, kUnread);
        absent -= end - range.begin;
    }
    uint64_t missing = 0;
    for (uint64_t s = 0; s < sectors; ++s) missing += is_absent(table->entries[s].load(std::memory_order_relaxed));
    slot.lazy.absent.store(missing);
    slot.lazy.sectors.store(sectors, std::memory_order_release);
    return absent;
}

int begin_to_come(StepFile::State* state) {
    SlotRecord& slot = slot_of(state);
    Table* const table = table_of(state->slot);
    const uint64_t size = slot.size.load(), sectors = (size + kSector - 1) / kSector;
    if (table == nullptr || hold(*table, sectors) != 0) return ENOMEM;
    set(*table, 0, sectors, kComing);
    mark_absent(state, size);
    slot.lazy.absent.store(sectors);
    slot.lazy.come.store(0);
    slot.lazy.comes.store(1);
    slot.lazy.sectors.store(sectors, std::memory_order_release);
    slot.lazy.is = Absence::lazy;
    return 0;
}

void note_come(const StepFile::State* state, uint64_t end) {
    const Board& board = process().board;
    SlotRecord& slot = slot_of(state);
    const uint64_t size = slot.size.load(), before = slot.lazy.come.load() / kSector;
    const uint64_t sectors = end < size ? end / kSector : (size + kSector - 1) / kSector;
    if (sectors > before) set(*table_of(state->slot), before, sectors, kUnread);
    slot.lazy.absent.fetch_sub(sectors - before);
    slot.lazy.come.store(end, std::memory_order_release);
    if (end == size) slot.lazy.comes.store(0, std::memory_order_release);
    const Board::Lock lock(board);
    board.ring(board.source(slot.source).port);
}

std::vector<Range> here_among(int index, const std::vector<Range>& ranges, uint64_t size) {
    std::vector<Range> found;
    for (const Range& range : ranges) {
        uint64_t at = range.begin;
        const uint64_t last = std::min(range.end, size);
        if (at >= last) continue;
        for (const Run& run : runs_of(index, at, last)) {
            if (run.host == kHere) found.push_back({at, run.end});
            at = run.end;
        }
    }
    return found;
}

std::vector<Range> read_of(int index, const std::atomic<uint8_t>* blocks) {
    const Table* const table = table_of(index);
    const uint64_t known = process().board.slot(index).lazy.sectors.load(), size = known * kSector;
    std::vector<Range> found;
    if (table == nullptr) return found;
    for (uint64_t near = 0;;
         near = near == 0 ? kSector : 2 * near) {  // so near to each other, reads are taken together
        found.clear();
        const auto add = [&](uint64_t begin, uint64_t end) {
            if (found.empty() || begin > found.back().end + near) found.push_back({begin, end});
            else found.back().end = end;
        };
        for (uint64_t b = 0; b * kBlock < size; ++b) {
            const uint64_t end = std::min((b + 1) * kBlock, size);
            if (blocks[b].load() == kValid) {
                add(b * kBlock, end);
                continue;
            }
            for (uint64_t s = b * kBlock / kSector; s < known && s * kSector < end; ++s)
                if (table->entries[s].load() == kHere) add(s * kSector, std::min((s + 1) * kSector, end));
        }
        if (found.size() <= kMostRuns) break;
    }
    found = without_small_gaps(std::move(found), size);
    if (!found.empty() && found.back().end == size) found.back().end = UINT64_MAX;
    return found;
}

void clear(int index) {
    SlotRecord& slot = process().board.slot(index);
    const uint64_t known = slot.lazy.sectors.exchange(0);
    slot.lazy.pinned.store(0);
    slot.lazy.comes.store(0);
    Table* const table = known != 0 ? table_of(index) : nullptr;
    if (table == nullptr) return;
    set(*table, 0, known, kHere);
    table->head->hosts.store(0);
}

}  // namespace wilkins::homes
