// Reading and writing one open step: copies between the program's memory and the arena.
#include "steps/step_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/fault.hpp"
#include "base/raw.hpp"
#include "board/step_token.hpp"
#include "events.hpp"
#include "queue/queue.hpp"
#include "queue/closed.hpp"
#include "steps/disk.hpp"
#include "steps/handles.hpp"
#include "steps/homes.hpp"
#include "steps/joined.hpp"
#include "steps/lazy.hpp"
#include "steps/reclaim.hpp"
#include "steps/sums.hpp"
#include "steps/viewers.hpp"
#include "waiting/wait.hpp"

namespace wilkins {

namespace {

constexpr int kLook = 50;           // ms between looks whether programs can see less
constexpr uint64_t kTimed = 65536;  // bytes from which a copy is timed

// Times one copy, unless it is small.
class Timed {
public:
    explicit Timed(uint64_t bytes) : bytes_(bytes), since_(bytes >= kTimed ? now_ns() : 0) {}
    ~Timed() {
        if (since_) account_copying(static_cast<uint64_t>(now_ns() - since_), bytes_);
    }
    Timed(const Timed&) = delete;
    Timed& operator=(const Timed&) = delete;

private:
    uint64_t bytes_;
    int64_t since_;
};

SlotRecord& slot_of(const StepFile::State* state) { return process().board.slot(state->slot); }

void grow_to(std::atomic<uint64_t>& value, uint64_t to) {
    uint64_t seen = value.load(std::memory_order_relaxed);
    while (seen < to && !value.compare_exchange_weak(seen, to, std::memory_order_release)) {}
}

// The step is not whole any more; every handle on it knows.
int fail(StepFile::State* state, int error) {
    if (state->slot >= 0) slot_of(state).broken.store(error);
    return state->failed = error;
}

// Is there a step whose end will free memory: published and still wanted, or being written by a rank that does not
// itself wait for memory?
bool others_will_free(const Process& p, int port) {
    for (const SlotRecord& slot : slots_of(p.board)) {
        if (port >= 0 && p.board.source(slot.source).port != port) continue;
        if (port >= 0 && queue::claimed(p.board, slot)) return true;  // its file on disk is being removed
        if (slot.state == SlotState::published && queue::needed(p.board, slot, true) &&
            !queue::waits_for_series(p.board, slot))
            return true;
        if (queue::unfinished(slot) && slot.writer != p.rank_index &&
            !waits_for(p.board.rank(slot.writer), WaitFor::memory))
            return true;
    }
    return false;
}

// A step that takes memory until its series is whole, or nullptr.
const SlotRecord* find_series(const Process& p, int port) {
    for (const SlotRecord& slot : slots_of(p.board)) {
        if (port >= 0 && p.board.source(slot.source).port != port) continue;
        if (slot.state == SlotState::published && queue::waits_for_series(p.board, slot)) return &slot;
    }
    return nullptr;
}

}  // namespace

uint64_t StepFile::eof() const {
    if (state->far) {
        uint64_t size = 0;
        if (const int error = state->far->eof(&size)) state->failed = error;
        return size;
    }
    if (state->role == Role::draft) return state->draft->size();
    return state->slot < 0 || state->role == Role::reader ? state->size
                                                          : slot_of(state).size.load(std::memory_order_acquire);
}

namespace {

// Tries until there is memory for `size` bytes of what the step needs: first that of steps that nobody needs, then what
// others give back. Returns 0 or the errno that makes the step incomplete. `on_disk`: it needs the disk instead.
template <class Attempt>
int obtain(StepFile::State* state, uint64_t size, bool on_disk, Attempt attempt) {
    Process& p = process();
    const int port = p.board.source(slot_of(state).source).port;
    Board::Lock lock(p.board, std::defer_lock);
    Wait wait(p, WaitFor::memory, port, state->name);
    viewers::Watch watch;
    // Memory may come free between the attempt and the look at who could free some, so the last attempt comes after it.
    for (bool last = false;;) {
        lock.release();
        const int error = attempt();
        if (!error) return 0;
        const int scope = error == EDQUOT || on_disk ? port : -1;
        if (error == EDQUOT || error == ENOSPC) {
            if (reclaim(p.board, *p.arenas, scope)) {
                last = false;
                continue;
            }
            WILKINS_FAULT_POINT("memory.short");
            lock.acquire();
            sweep_dead_readers(p, scope);
            const uint64_t cap = p.board.port(port).cap;
            const bool fits = error != EDQUOT || size <= cap;
            const queue::Viewed viewed = fits ? queue::count_viewed(p.board, scope) : queue::Viewed();
            const bool others = fits && others_will_free(p, scope);
            if (others && viewed.steps == 0) {
                last = false;
                if (wait.nap(lock) != 0) return fail(state, EINTR);
                continue;
            }
            if (!last) {
                last = true;
                continue;
            }
            if (viewed.steps > 0) {
                lock.release();
                const bool may_end = watch.may_end();
                lock.acquire();
                if (may_end || ((others || watch.any_asleep()) && !wait.is_alone(lock))) {
                    if (wait.nap(lock, kLook) != 0) return fail(state, EINTR);
                    continue;
                }
                fail_run(p, event::seen_steps_fill(state->name, size, viewed.steps, viewed.bytes, watch.names(),
                                                   error == EDQUOT));
                return fail(state, ENOSPC);
            }
            const SlotRecord* const series = find_series(p, scope);
            if (series)
                fail_run(p, on_disk ? event::series_fills_disk(state->name, size, series->name)
                            : error == EDQUOT
                                ? event::series_fills_port(state->name, size, series->name)
                                : event::series_fills_memory(state->name, size, p.board.folder(), series->name));
            else if (error == EDQUOT)
                fail_run(p, event::port_full(state->name, (size + kBlock - 1) / kBlock * kBlock, kBlock, fits, cap));
            else if (on_disk) fail_run(p, event::disk_full(state->name, size));
            else fail_run(p, event::memory_full(state->name, size, p.board.folder()));
        }
        return fail(state, error == EDQUOT ? ENOSPC : error);
    }
}

}  // namespace

int StepFile::reserve(uint64_t size, uint64_t likely) {
    if (state->far || state->role == Role::draft) return 0;  // the server, or the disk, does as it is written
    if (state->slot >= 0 && size <= slot_of(state).reserved.load(std::memory_order_acquire)) return 0;
    size = std::max(size, likely);
    if (size > state->mapping.length) return fail(state, EFBIG);
    if (state->slot < 0) {
        const int error = open_to(state->mapping, (size + kBlock - 1) / kBlock * kBlock);
        return error ? fail(state, error) : 0;
    }
    return obtain(state, size, disk::is_file(process().board, state->slot),
                  [&] { return process().arenas->reserve(state->slot, size); });
}

int make_room_for_name(const StepFile* file) {
    return obtain(file->state, sizeof(NameSet), false, [&] {
        const Board& board = process().board;
        Board::Lock lock(board);
        return queue::make_room_for_names(board, board.source(slot_of(file->state).source)) ? 0 : ENOSPC;
    });
}

namespace {

// A handle that has joined a file counts as one that writes it from its first change on.
int begin_change(StepFile::State* state) {
    if (!state->joined || state->wrote) return 0;
    const int error = joined::begin_to_write(state);
    return error ? state->failed = error : 0;
}

}  // namespace

int StepFile::prepare_write(uint64_t offset, uint64_t count, bool without_gaps) {
    if (!writable() || state->role == Role::draft) return EBADF;
    if (count == 0) return 0;
    if (int error = begin_change(state)) return error;
    const uint64_t end = offset + count;
    if (end < offset) return EFBIG;
    if (int error = reserve(end)) return error;
    if (state->slot < 0) {
        if (end > state->size) state->size = end;
        return 0;
    }
    SlotRecord& slot = slot_of(state);
    const uint64_t first = offset / kBlock, last = (end - 1) / kBlock;
    grow_to(slot.touched, last + 1);
    // The part of a block that this write leaves alone must read as zeros, unless it holds data already. The last
    // block's memory may end inside it, as the arena's last step has left it: steps of one size need no more memory
    // each time.
    const uint64_t reserved = slot.reserved.load(std::memory_order_acquire);
    if (int error = open_to(state->mapping, reserved)) return fail(state, error);
    for (uint64_t b = first; b <= last; ++b) {
        if (state->mapping.blocks[b].load(std::memory_order_acquire) == kValid) continue;
        const bool whole = b * kBlock >= offset && (b + 1) * kBlock <= end;
        const int error = !without_gaps ? make_valid(state->mapping, b, reserved)
                          : whole       ? claim(state->mapping, b)
                                        : claim_part(state->mapping, b, offset, end, reserved);
        if (error) return fail(state, error);
    }
    grow_to(slot.size, end);
    slot.changes.fetch_add(1, std::memory_order_relaxed);
    return homes::any(slot) ? homes::take(state, offset, count, without_gaps) : 0;
}

int StepFile::put(uint64_t offset, uint64_t count, uint64_t host) {
    if (!writable()) return EBADF;
    if (count == 0) return 0;
    if (state->failed) return state->failed;
    const uint64_t end = offset + count;
    if (end < offset) return EFBIG;
    if (int error = reserve(end)) return error;
    SlotRecord& slot = slot_of(state);
    grow_to(slot.touched, (end - 1) / kBlock + 1);
    if (int error = homes::put(state, host, offset, count)) return fail(state, error);
    grow_to(slot.size, end);
    slot.changes.fetch_add(1, std::memory_order_relaxed);
    return 0;
}

bool StepFile::may_lack() const {
    return state->reads_by_asking() || (state->slot >= 0 && state->role != Role::reader && homes::any(slot_of(state)));
}

void StepFile::bring(const std::vector<ByteRange>& ranges) {
    if (state->compared) sums::check(state, ranges.data(), ranges.size());
    else if (state->lazy) lazy::bring(state, ranges.data(), ranges.size());
    else if (state->slot >= 0 && writable()) homes::bring(state, ranges.data(), ranges.size());
}

int StepFile::write(uint64_t offset, const void* buffer, size_t count) {
    if (state->failed) return state->failed;
    if (state->far) {
        if (count > 0) state->far->write(offset, buffer, count);
        return 0;
    }
    if (state->role == Role::draft) return state->failed = state->draft->write(offset, buffer, count);
    if (int error = prepare_write(offset, count, true)) return error;
    Timed timed(count);
    memcpy(state->mapping.bytes + offset, buffer, count);
    return 0;
}

void StepFile::prepare_read(uint64_t offset, uint64_t count) {
    if (state->reads_by_asking()) {
        bring({{offset, offset + count}});
        return;
    }
    if (state->slot < 0) reserve(state->size);
    if (state->slot < 0 || !writable() || count == 0) return;
    const uint64_t last = (offset + count - 1) / kBlock;
    if (reserve(offset + count)) return;
    grow_to(slot_of(state).touched, last + 1);
    const uint64_t reserved = slot_of(state).reserved.load(std::memory_order_acquire);
    if (const int error = open_to(state->mapping, reserved)) {
        fail(state, error);
        return;
    }
    for (uint64_t b = offset / kBlock; b <= last; ++b) {
        if (const int error = make_valid(state->mapping, b, reserved)) {
            fail(state, error);
            return;
        }
    }
    if (may_lack()) bring({{offset, offset + count}});
}

namespace {

// A block at a time: it is in a core's cache as it is copied.
void read_compared(StepFile::State* state, uint64_t offset, unsigned char* to, uint64_t count) {
    for (const uint64_t end = offset + count; offset < end;) {
        const uint64_t part = std::min(end - offset, kBlock - offset % kBlock);
        const ByteRange range = {offset, offset + part};
        if (sums::check(state, &range, 1) != 0) return;
        memcpy(to, state->mapping.bytes + offset, part);
        to += part;
        offset += part;
    }
}

}  // namespace

void StepFile::read(uint64_t offset, void* buffer, size_t count) {
    if (state->far) {
        if (count > 0) state->far->read(offset, buffer, count);
        return;
    }
    if (state->role == Role::draft) {
        state->draft->read(offset, buffer, count);
        return;
    }
    auto* to = static_cast<unsigned char*>(buffer);
    const uint64_t end = eof();
    uint64_t inside = offset < end ? end - offset : 0;
    if (inside > count) inside = count;
    if (inside < count) memset(to + inside, 0, count - inside);
    if (inside == 0) return;
    Timed timed(inside);
    if (state->compared) {
        read_compared(state, offset, to, inside);
        return;
    }
    if (may_lack()) {
        bring({{offset, offset + inside}});
        if (state->failed) return;
    }
    if (state->slot < 0 || !writable()) {
        if (state->slot < 0 && reserve(state->size) != 0) return;
        memcpy(to, state->mapping.bytes + offset, inside);
        return;
    }
    // A step still being written may have blocks that nobody wrote, and end behind its memory.
    const uint64_t reserved = slot_of(state).reserved.load(std::memory_order_acquire);
    if (const int error = open_to(state->mapping, reserved)) {
        fail(state, error);
        return;
    }
    while (inside > 0) {
        const uint64_t block = offset / kBlock;
        uint64_t part = (block + 1) * kBlock - offset;
        if (part > inside) part = inside;
        uint64_t there = offset < reserved ? reserved - offset : 0;
        if (there > part) there = part;
        if (state->mapping.blocks[block].load(std::memory_order_acquire) == kParted) {
            if (const int error = make_valid(state->mapping, block, reserved)) {
                fail(state, error);
                return;
            }
        }
        if (state->mapping.blocks[block].load(std::memory_order_acquire) != kValid) there = 0;
        memcpy(to, state->mapping.bytes + offset, there);
        memset(to + there, 0, part - there);
        to += part;
        offset += part;
        inside -= part;
    }
}

int StepFile::set_eof(uint64_t size) {
    if (!writable()) return EBADF;
    if (state->far) return state->far->set_eof(size);
    if (state->role == Role::draft) return state->draft->resize(size);
    if (int error = begin_change(state)) return error;
    if (size > state->mapping.length) return EFBIG;
    if (state->slot < 0) {
        if (const int error = reserve(state->size)) return error;
        if (size < state->size) memset(state->mapping.bytes + size, 0, state->size - size);
        state->size = size;
        return 0;
    }
    SlotRecord& slot = slot_of(state);
    const uint64_t old = slot.size.load();
    if (size < old) {
        if (const int error = open_to(state->mapping, slot.reserved.load(std::memory_order_acquire)))
            return fail(state, error);
        const uint64_t first_whole = (size + kBlock - 1) / kBlock;
        const uint64_t behind = slot.touched.load();
        for (uint64_t b = first_whole; b < behind; ++b)
            state->mapping.blocks[b].store(kStale, std::memory_order_release);
        const uint64_t cut = size / kBlock;
        const uint64_t reserved = slot.reserved.load(std::memory_order_acquire);
        const uint64_t cut_end = (cut + 1) * kBlock < reserved ? (cut + 1) * kBlock : reserved;
        if (may_lack()) {
            if (const int error = homes::cut(state, size)) return error;
        }
        if (size < cut_end && state->mapping.blocks[cut].load() == kParted) {
            if (const int error = make_valid(state->mapping, cut, reserved)) return fail(state, error);
        }
        if (size < cut_end && state->mapping.blocks[cut].load() == kValid)
            memset(state->mapping.bytes + size, 0, cut_end - size);
    }
    slot.size.store(size, std::memory_order_release);
    if (size != old) slot.changes.fetch_add(1, std::memory_order_relaxed);
    return 0;
}

bool StepFile::is_far() const { return state->far != nullptr; }

int StepFile::settle() {
    if (state->role == Role::draft) return state->draft->settle();
    if (!state->far) return may_lack() ? state->failed : 0;
    if (!state->failed) state->failed = state->far->settle();
    return state->failed;
}

namespace {

int arena_descriptor(const StepFile::State* state) {
    if (state->role == Role::draft) return state->draft->descriptor();
    const Arenas& arenas = *process().arenas;
    if (state->fd < 0 && state->slot >= 0)
        state->fd = state->page ? arenas.open_former(state->slot, state->inode)
                                : arenas.open(state->slot, state->role != Role::reader);
    return state->fd;
}

}  // namespace

int StepFile::lock(short kind) {
    if (state->far) return state->far->lock(kind);
    int rc = 0;
    do {
        rc = raw::lock(arena_descriptor(state), kind);
    } while (rc != 0 && errno == EINTR);
    return rc == 0 ? 0 : errno;
}

unsigned char* StepFile::data() const { return state->mapping.bytes; }

int StepFile::descriptor() const {
    const ByteRange all = {0, eof()};
    if (state->lazy && (errno = lazy::bring(state, &all, 1)) != 0) return -1;
    if (state->compared && (errno = sums::check(state, &all, 1)) != 0) return -1;
    if (state->slot >= 0 && writable()) {
        slot_of(state).lazy.pinned.store(1);
        if (may_lack() && (errno = homes::bring(state, &all, 1)) != 0) return -1;
    }
    return arena_descriptor(state);
}

uint64_t StepFile::identity() const { return state->identity; }

bool StepFile::writable() const {
    return state->far ? state->far->writable() : state->role != Role::reader && state->role != Role::on_disk;
}

const char* StepFile::name() const { return state->name; }

StepToken StepFile::token() const { return {state->slot, state->slot, state->identity}; }

}  // namespace wilkins
