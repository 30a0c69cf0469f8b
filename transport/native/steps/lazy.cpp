// How absent bytes of published steps come, and what is noted of which ones were read.
#include "steps/lazy.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "board/step_token.hpp"

namespace wilkins::lazy {

namespace {

using homes::Range;

// Of what was read of one step and of the one before it, what is expected to be read of the next: that which was read
// of both. A reader that reads another part of each step, as samples drawn at random are, is thus sent the metadata.
std::vector<Range> expected(const std::vector<Range>& before, const std::vector<Range>& last) {
    if (before.empty()) return last;
    std::vector<Range> both;
    for (size_t b = 0, l = 0; b < before.size() && l < last.size();) {
        const Range common = {std::max(before[b].begin, last[l].begin), std::min(before[b].end, last[l].end)};
        if (common.begin < common.end) both.push_back(common);
        if (before[b].end < last[l].end) ++b;
        else ++l;
    }
    return both;
}

// By the one thread of a relay: what was read of the last lazy step, and what is expected of the next.
std::vector<Range> relayed, used;

constexpr size_t kMostNoted = 1 << 16;  // ranges of what is read of a step: what is read beyond them is not expected

// Of the steps of a source, what this process has read of the last one, and of the one before it.
struct Read {
    uint64_t last = 0;  // its stamp
    std::vector<Range> of_last;
    std::vector<Range> before;
};

// For one thread at a time; another one that comes meanwhile does without, and so does a fork of it.
std::mutex reads_mutex;
std::map<int, Read>& reads = *new std::map<int, Read>;  // used to the end of the process

void note(std::vector<Range>& read, const Range& range) {
    if (!read.empty() && range.begin >= read.back().begin && range.begin <= read.back().end)
        read.back().end = std::max(read.back().end, range.end);
    else if (read.size() < kMostNoted) read.push_back(range);
}

// Threads may read by one handle at once.
void note_all(StepFile::State* state, const Range* ranges, size_t count, uint64_t size) {
    const std::unique_lock<std::mutex> guard(reads_mutex, std::try_to_lock);
    for (size_t k = 0; guard && k < count; ++k)
        if (const uint64_t end = std::min(size, ranges[k].end); ranges[k].begin < end)
            note(state->read, {ranges[k].begin, end});
}

// In order, and none of them over another.
std::vector<Range> in_order(std::vector<Range> ranges) {
    std::sort(ranges.begin(), ranges.end(),
              [](const Range& one, const Range& other) { return one.begin < other.begin; });
    std::vector<Range> found;
    for (const Range& range : ranges) note(found, range);
    return found;
}

int bring_expected(StepFile::State* state, uint64_t size) {
    std::vector<Range> wanted;
    {
        const std::unique_lock<std::mutex> guard(reads_mutex, std::try_to_lock);
        const auto known = guard ? reads.find(process().board.slot(state->slot).source) : reads.end();
        if (!guard || known == reads.end()) return 0;
        const Read& read = known->second;
        wanted = read.last == state->identity ? read.before : expected(read.before, read.of_last);
    }
    for (Range& range : wanted) range = {std::min(range.begin, size), std::min(range.end, size)};
    return wanted.empty() ? 0 : homes::bring(state, wanted.data(), wanted.size(), homes::kUnread);
}

}  // namespace

int bring(StepFile::State* state, const Range* ranges, size_t count) {
    const uint64_t size = process().board.slot(state->slot).size.load();
    std::atomic<uint8_t>* const blocks = state->mapping.blocks;
    if (state->failed) return state->failed;
    note_all(state, ranges, count, size);
    std::vector<Range> some;      // of blocks that are not whole, or have not been read
    std::vector<uint64_t> whole;  // of these, blocks that are asked for from end to end
    for (size_t k = 0; k < count; ++k) {
        const uint64_t end = std::min(size, ranges[k].end);
        if (ranges[k].begin >= end) continue;
        bool unknown = false;
        for (uint64_t b = ranges[k].begin / kBlock; b * kBlock < end; ++b) {
            if (blocks[b].load(std::memory_order_acquire) == kValid) continue;
            const bool all = b * kBlock >= ranges[k].begin && std::min((b + 1) * kBlock, size) <= end;
            unknown = true;
            if (all) whole.push_back(b);
        }
        if (unknown) some.push_back({ranges[k].begin, end});
    }
    if (some.empty()) return 0;
    if (!state->expected.exchange(true)) {
        if (const int error = bring_expected(state, size)) return error;
    }
    if (const int error = homes::bring(state, some.data(), some.size())) return error;
    for (const uint64_t b : whole) blocks[b].store(kValid, std::memory_order_release);
    return 0;
}

void note_read(StepFile::State* state) {
    const std::unique_lock<std::mutex> guard(reads_mutex, std::try_to_lock);
    if (!guard || state->read.empty()) return;
    Read& known = reads[process().board.slot(state->slot).source];
    if (known.last != state->identity) {
        known.before = std::move(known.of_last);
        known.of_last.clear();
        known.last = state->identity;
    }
    known.of_last.insert(known.of_last.end(), state->read.begin(), state->read.end());
    known.of_last = in_order(std::move(known.of_last));
}

int publish_absent(const StepFile& step, const std::vector<Range>& here, const StepToken& token, const char* where,
                   const Elsewhere& elsewhere) {
    StepFile::State* const state = step.state;
    SlotRecord& slot = process().board.slot(state->slot);
    SourceRecord& source = process().board.source(slot.source);
    int number = homes::number_of(state->slot, where, elsewhere.lead, true);
    for (const homes::Host& host : elsewhere.hosts)
        if (number > 0) number = homes::number_of(state->slot, host.where, elsewhere.lead, false);
    if (number != static_cast<int>(elsewhere.hosts.size()) + 1) return ENOMEM;
    const std::vector<homes::Run> all = {{slot.size.load(), homes::kHere}};
    const uint64_t left = homes::lay_out(state, elsewhere.runs.empty() ? all : elsewhere.runs, here);
    if (left == UINT64_MAX) return ENOMEM;
    source.left.fetch_add(left);
    source.asked.fetch_add(1);  // to let go of it there
    slot.lazy.slot = token.slot;
    slot.lazy.stamp = token.stamp;
    slot.lazy.is = Absence::lazy;
    return 0;
}

void note_use(int index, const std::atomic<uint8_t>* blocks) {
    SlotRecord& slot = process().board.slot(index);
    if (slot.lazy.is == Absence::lazy) {
        std::vector<Range> last = homes::read_of(index, blocks);
        if (!last.empty()) {  // else its readers left it out
            used = expected(relayed, last);
            relayed = std::move(last);
        }
    }
    slot.lazy.is = Absence::none;
    homes::clear(index);
}

const std::vector<Range>& last_used() { return used; }

}  // namespace wilkins::lazy
