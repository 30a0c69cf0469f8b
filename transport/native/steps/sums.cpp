// Checksums are in a file beside the arena, which each handle that reads the step takes whole.
#include "steps/sums.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <new>

#include "base/raw.hpp"
#include "events.hpp"
#include "steps/handles.hpp"
#include "steps/mending.hpp"

namespace wilkins::sums {

using mending::sum_of;

namespace {

uint64_t blocks_of(uint64_t size) { return (size + kBlock - 1) / kBlock; }

int open_sums(const Board& board, int slot, int flags) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/a%d.sums", board.folder(), slot);
    return raw::open(path, flags | O_CLOEXEC, 0600);
}

// Moves them all, and closes the file. Returns 0 or an errno. `call`: reads or writes some of it.
template <class Call>
int move_all(int fd, const Sums& sums, Call call) {
    const uint64_t size = sums.size() * sizeof(uint32_t);
    int error = 0;
    for (uint64_t done = 0; done < size && error == 0;) {
        const ssize_t count = call(done, size - done);
        if (count > 0) done += static_cast<uint64_t>(count);
        else if (count == 0 || errno != EINTR) error = count == 0 ? EIO : errno;
    }
    raw::close(fd);
    return error;
}

int store(const Board& board, int index, const Sums& sums) {
    const int fd = open_sums(board, index, O_RDWR | O_CREAT);
    if (fd < 0) return errno;
    const auto* const bytes = reinterpret_cast<const char*>(sums.data());
    const int error = move_all(fd, sums, [&](uint64_t at, uint64_t count) {
        return raw::pwrite(fd, bytes + at, count, static_cast<off_t>(at));
    });
    if (!error) board.slot(index).summed.store(board.slot(index).stamp, std::memory_order_release);
    return error;
}

}  // namespace

int keep(const Board& board, int slot, const unsigned char* bytes, uint64_t size) {
    if (!board.port(board.source(board.slot(slot).source).port).keys.checked) return 0;
    Sums sums;
    for (uint64_t block = 0; block < blocks_of(size); ++block) sums.push_back(sum_of(bytes, size, block));
    return store(board, slot, sums);
}

int keep(const Board& board, int slot, uint64_t size, const Sums& sums) {
    return sums.size() == blocks_of(size) ? store(board, slot, sums) : EPROTO;
}

int load(StepFile::State* state) {
    const Board& board = process().board;
    const SlotRecord& slot = board.slot(state->slot);
    if (slot.summed.load(std::memory_order_acquire) != state->identity) return 0;
    const uint64_t blocks = blocks_of(state->size);
    const int fd = open_sums(board, state->slot, O_RDONLY);
    if (fd < 0) return errno;
    state->sums.resize(blocks);
    state->compared = std::make_unique<std::atomic<bool>[]>(blocks);
    auto* const bytes = reinterpret_cast<char*>(state->sums.data());
    return move_all(fd, state->sums, [&](uint64_t at, uint64_t count) {
        return raw::pread(fd, bytes + at, count, static_cast<off_t>(at));
    });
}

int check(StepFile::State* state, const ByteRange* ranges, size_t count) {
    if (state->failed) return state->failed;
    for (size_t k = 0; k < count; ++k) {
        const uint64_t end = std::min(state->size, ranges[k].end);
        for (uint64_t block = ranges[k].begin / kBlock; block * kBlock < end; ++block) {
            if (state->compared[block].load(std::memory_order_relaxed)) continue;
            if (sum_of(state->mapping.bytes, state->size, block) != state->sums[block] &&
                !mending::mend(state, block)) {
                const auto first = static_cast<int64_t>(block * kBlock),
                           last = static_cast<int64_t>(std::min(state->size, (block + 1) * kBlock));
                const Process& p = process();
                Board::Lock lock(p.board);
                fail_run(p, event::changed_in_memory(first, last, state->name, state->slot));
                return state->failed = EIO;
            }
            state->compared[block].store(true, std::memory_order_relaxed);
        }
    }
    return 0;
}

int check_again(StepFile::State* state) {
    for (uint64_t block = 0; block < state->sums.size(); ++block) state->compared[block].store(false);
    const ByteRange all = {0, state->size};
    return check(state, &all, 1);
}

}  // namespace wilkins::sums
