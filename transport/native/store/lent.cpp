// Which blocks of lent steps are absent, and how they come.
#include "store/lent.hpp"

#include <algorithm>
#include <cstring>

namespace wilkins::lent {

namespace {

// Of one process at a time, for each step.
class Bringing {
public:
    explicit Bringing(SlotRecord& slot) : lock_(slot.lent.bringing) { take(lock_, process().board.life()); }
    ~Bringing() { give_back(lock_); }
    Bringing(const Bringing&) = delete;
    Bringing& operator=(const Bringing&) = delete;

private:
    SharedLock& lock_;
};

// The handle's connection: a fork needs one of its own.
int connect(StepFile::State* state, const SlotRecord& slot, SourceRecord& source) {
    const uint32_t self = process().board.self();
    if (state->lender && state->lent_to == self) return 0;
    int error = 0;
    state->lender = FarFile::open(source.lends_at, {slot.lent.slot, slot.lent.slot, slot.lent.stamp}, Use::bring, state->name, &error);
    state->lent_to = self;
    source.asked.fetch_add(3);  // its end, too
    return error;
}

std::vector<Range> absent_among(const Mapping& mapping, uint64_t first, uint64_t last) {
    std::vector<Range> found;
    for (uint64_t b = first; b <= last; ++b) {
        if (mapping.blocks[b].load(std::memory_order_acquire) != kAbsent) continue;
        if (found.empty() || found.back().end != b * kBlock) found.push_back({b * kBlock, b * kBlock});
        found.back().end = (b + 1) * kBlock;
    }
    return found;
}

int bring_blocks(StepFile::State* state, uint64_t first, uint64_t last) {
    SlotRecord& slot = process().board.slot(state->slot);
    SourceRecord& source = process().board.source(slot.source);
    const Bringing alone(slot);
    const std::vector<Range> absent = absent_among(state->mapping, first, last);
    if (absent.empty()) return 0;
    if (const int error = connect(state, slot, source)) return error;
    const uint64_t size = slot.size.load();
    uint64_t bytes = 0;
    for (const Range& range : absent) {
        const uint64_t length = std::min(range.end, size) - range.begin;
        state->lender->read(range.begin, state->mapping.bytes + range.begin, length);
        bytes += length;
    }
    source.asked.fetch_add(2 * absent.size());
    if (const int error = state->lender->settle()) return error;
    for (const Range& range : absent)
        for (uint64_t b = range.begin / kBlock; b < range.end / kBlock; ++b) {
            state->mapping.blocks[b].store(kValid, std::memory_order_release);
            slot.lent.absent.fetch_sub(1);
        }
    source.left.fetch_sub(bytes);
    return 0;
}

std::vector<Range> used;  // by the one thread of a relay

}  // namespace

int bring(StepFile::State* state, uint64_t offset, uint64_t count) {
    const uint64_t size = process().board.slot(state->slot).size.load();
    const uint64_t end = std::min(size, offset + count);
    if (state->failed || offset >= end) return state->failed;
    const uint64_t first = offset / kBlock, last = (end - 1) / kBlock;
    bool absent = false;
    for (uint64_t b = first; b <= last; ++b) {
        const uint8_t seen = state->mapping.blocks[b].load(std::memory_order_acquire);
        if (seen == kUnread) state->mapping.blocks[b].store(kValid, std::memory_order_relaxed);
        absent = absent || seen == kAbsent;
    }
    if (!absent) return 0;
    const int error = bring_blocks(state, first, last);
    if (error)
        log_line("error: task '%s' rank %d: bytes of '%s' did not come from the host that has them: %s", process().task_name(),
                 process().told_rank(), state->name, strerror(error));
    return state->failed = error;
}

void lend(const StepFile& step, const std::vector<Range>& here, const StepToken& token, const char* where) {
    SlotRecord& slot = process().board.slot(step.state->slot);
    SourceRecord& source = process().board.source(slot.source);
    const uint64_t size = slot.size.load(), blocks = (size + kBlock - 1) / kBlock;
    uint64_t absent = blocks, left = size;
    std::atomic<uint8_t>* const table = step.state->mapping.blocks;
    for (uint64_t b = 0; b < blocks; ++b) table[b].store(kAbsent, std::memory_order_relaxed);
    for (const Range& range : here) {
        const uint64_t end = std::min(range.end, size);
        for (uint64_t b = range.begin / kBlock; b * kBlock < end; ++b, --absent) table[b].store(kUnread, std::memory_order_relaxed);
        left -= end - range.begin;
    }
    strncpy(source.lends_at, where, sizeof(source.lends_at) - 1);
    source.left.fetch_add(left);
    source.asked.fetch_add(3);  // to have it kept there, and to let go of it
    slot.lent.slot = token.slot;
    slot.lent.stamp = token.stamp;
    slot.lent.absent.store(absent);
    slot.lent.is = 1;
}

void note_use(SlotRecord& slot, const std::atomic<uint8_t>* blocks) {
    if (!slot.lent.is) return;
    slot.lent.is = 0;
    used.clear();
    const uint64_t count = slot.touched.load();
    for (uint64_t b = 0; b < count; ++b) {
        if (blocks[b].load() != kValid) continue;
        if (used.empty() || used.back().end != b * kBlock) used.push_back({b * kBlock, 0});
        used.back().end = b + 1 == count ? UINT64_MAX : (b + 1) * kBlock;
    }
}

const std::vector<Range>& last_used() { return used; }

}  // namespace wilkins::lent
