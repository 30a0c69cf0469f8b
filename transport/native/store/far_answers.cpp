// Each takes what comes with a request, and sends what is asked for.
#include "store/far_answers.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "board/process.hpp"
#include "steps/homes.hpp"
#include "store/store.hpp"

namespace wilkins::far {

namespace {

constexpr size_t kBuffer = 1 << 18;

// False also where they cannot be read: who asks may have none in their stead.
bool give_bytes(Connection& rank, StepFile* step, uint64_t place, uint64_t length, bool more) {
    std::vector<unsigned char> part(std::min<uint64_t>(length, kBuffer));
    for (uint64_t done = 0; done < length;) {
        const uint64_t count = std::min<uint64_t>(part.size(), length - done);
        step->read(place + done, part.data(), count);
        if (step->settle() != 0) return false;
        done += count;
        if (rank.send_bytes(Connection::one_piece(part.data(), count), more || done < length) != 0) return false;
    }
    return true;
}

}  // namespace

bool answer(Connection& rank, int error, uint64_t value, bool more) {
    const Answer said = {error, value};
    return rank.send_words(Connection::one_piece(&said, sizeof(said)), more) == 0;
}

void mark_damaged(const StepFile& step) {
    if (step.writable() && step.state->slot >= 0) process().board.slot(step.state->slot).broken.store(EBADMSG);
}

bool take_write(Connection& rank, StepFile* step, const Request& request, int* error) {
    if (*error == 0) *error = step->prepare_write(request.place, request.length, true);
    std::vector<unsigned char> nowhere(*error != 0 ? std::min<uint64_t>(request.length, kBuffer) : 0);
    for (uint64_t left = request.length; left > 0;) {
        const uint64_t part = nowhere.empty() ? left : std::min<uint64_t>(left, nowhere.size());
        const int failed = rank.receive(nowhere.empty() ? step->data() + request.place : nowhere.data(), part);
        if (failed != 0 && failed != EBADMSG) return false;
        if (failed != 0) mark_damaged(*step);
        if (*error == 0) *error = failed;
        left -= part;
    }
    return true;
}

bool take_ranges(Connection& rank, uint64_t count, std::vector<ByteRange>* ranges) {
    constexpr uint64_t kMost = 1 << 24;
    if (count > kMost) return false;
    ranges->resize(count);
    return rank.receive(ranges->data(), count * sizeof(ByteRange)) == 0;
}

bool give_ranges(Connection& rank, const unsigned char* bytes, const std::vector<ByteRange>& ranges) {
    Pieces all;
    for (const ByteRange& range : ranges)
        all.add(const_cast<unsigned char*>(bytes) + range.begin, range.end - range.begin);
    return rank.send_bytes(std::move(all)) == 0;
}

bool give_gathered(Connection& rank, StepFile* step, uint64_t count) {
    std::vector<ByteRange> ranges;
    if (!take_ranges(rank, count, &ranges)) return false;
    const uint64_t size = step->eof();
    const bool sound = std::all_of(ranges.begin(), ranges.end(),
                                   [=](const ByteRange& one) { return one.begin <= one.end && one.end <= size; });
    if (sound) step->bring(ranges);
    const int error = !sound || step->writable() ? EPROTO : step->settle();
    if (!answer(rank, error, step->state->mended.load(), error == 0) || error != 0) return error != 0;
    return give_ranges(rank, step->data(), ranges);
}

bool give_read(Connection& rank, StepFile* step, const Request& request, uint64_t number) {
    const StepFile::State* const state = step->state;
    std::vector<homes::Run> runs;
    if (number != 0 && homes::any(process().board.slot(state->slot)))
        runs = homes::runs_of(state->slot, request.place, request.place + request.length);
    if (runs.size() == 1 && runs[0].host == homes::kHere) runs.clear();
    if (!answer(rank, 0, runs.size(), true)) return false;
    if (runs.empty()) return give_bytes(rank, step, request.place, request.length, false);
    const bool any =
        std::any_of(runs.begin(), runs.end(), [](const homes::Run& run) { return run.host == homes::kHere; });
    if (rank.send_words(Connection::one_piece(runs.data(), runs.size() * sizeof(homes::Run)), any) != 0) return false;
    uint64_t at = request.place;
    for (const homes::Run& run : runs) {
        if (run.host == homes::kHere &&
            !give_bytes(rank, step, at, run.end - at, run.end < request.place + request.length))
            return false;
        at = run.end;
    }
    return true;
}

bool give_address(Connection& rank, const StepFile* step, int32_t number) {
    char address[kAddressMax] = {};
    const homes::Host* const host = homes::host(step->state->slot, static_cast<uint64_t>(number));
    if (host != nullptr) strcpy(address, host->where);
    return answer(rank, host != nullptr ? 0 : ENOENT, 0, true) &&
           rank.send_words(Connection::one_piece(address, sizeof(address))) == 0;
}

bool give_owners(Connection& rank, const StepFile* step, uint64_t count, Owners owners) {
    std::vector<ByteRange> ranges;
    if (!take_ranges(rank, count, &ranges)) return false;
    char words[1024] = {};
    const uint64_t size = step->eof();
    std::vector<ByteRange> here = {{0, size}};
    if (step->state->lazy) here = homes::here_among(step->state->slot, here, size);
    if (owners != nullptr && !step->writable())
        owners(step->data(), size, here.data(), here.size(), ranges.data(), ranges.size(), words, sizeof(words));
    const size_t length = strnlen(words, sizeof(words));
    return answer(rank, 0, length, length > 0) &&
           (length == 0 || rank.send_words(Connection::one_piece(words, length)) == 0);
}

}  // namespace wilkins::far
