// Copies are looked at in order of what they cost.
#include "steps/mending.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <memory>
#include <vector>

#include "base/raw.hpp"
#include "events.hpp"
#include "far/checksum.hpp"
#include "steps/disk.hpp"

namespace wilkins::mending {

namespace {

// A block that is wanted, and where it is in the step.
struct Block {
    uint64_t begin;
    std::vector<unsigned char> bytes;
};

// Returns what `call` moves in all: less than the block where it meets an end, or an error.
template <class Call>
bool move_all(Block* block, Call call) {
    size_t done = 0;
    while (done < block->bytes.size()) {
        const ssize_t count =
            call(block->bytes.data() + done, block->bytes.size() - done, static_cast<off_t>(block->begin + done));
        if (count <= 0 && !(count < 0 && errno == EINTR)) return false;
        done += count > 0 ? static_cast<size_t>(count) : 0;
    }
    return true;
}

// From the file that the program has written too (`mode: both`), or that lies under the name by which the reader calls
// the step: on another host, that may be the producer's.
bool read_file(const StepFile::State& state, Block* block) {
    char path[PATH_MAX];
    const Board& board = process().board;
    const char* const name = disk::file_name(board, state.slot, path, sizeof(path)) ? path : state.name;
    const int fd = raw::open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd < 0) return false;
    struct stat st;
    const bool read = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                      move_all(block, [fd](void* to, size_t count, off_t at) { return raw::pread(fd, to, count, at); });
    raw::close(fd);
    return read;
}

// From the host that has sent the step, if it still has it: then a program there reads it yet.
bool ask_sender(const StepFile::State& state, Block* block) {
    const Board& board = process().board;
    const SlotRecord& slot = board.slot(state.slot);
    const char* const server = board.port(board.source(slot.source).port).asked_at;
    if (!server[0]) return false;
    const StepToken token = {slot.lazy.slot, slot.lazy.slot, slot.lazy.stamp};
    int error = 0;
    const std::unique_ptr<FarFile> step = FarFile::open(server, token, Use::bring, state.name, "", &error);
    if (!step) return false;
    step->read(block->begin, block->bytes.data(), block->bytes.size());
    return step->settle() == 0;
}

// Readers map what they read without the right to change it.
bool write_back(const StepFile::State& state, Block* block) {
    const Process& p = process();
    Board::Lock lock(p.board);
    if (p.board.slot(state.slot).stamp != state.identity) return false;  // a fork or a view reads what was there before
    const int fd = p.arenas->open(state.slot, true);
    if (fd < 0) return false;
    const bool written =
        move_all(block, [fd](const void* from, size_t count, off_t at) { return raw::pwrite(fd, from, count, at); });
    raw::close(fd);
    return written;
}

}  // namespace

uint32_t sum_of(const unsigned char* bytes, uint64_t size, uint64_t block) {
    far::Checksum sum;
    sum.add(bytes + block * kBlock, std::min(kBlock, size - block * kBlock));
    return sum.value();
}

bool mend(StepFile::State* state, uint64_t number) {
    if (state->slot < 0 || disk::is_file(process().board, state->slot)) return false;  // a file has no copy
    const uint64_t begin = number * kBlock, size = std::min(kBlock, state->size - begin);
    Block block = {begin, std::vector<unsigned char>(size)};
    const auto fits = [&] { return sum_of(block.bytes.data(), size, 0) == state->sums[number]; };
    const char* from = "its file on disk";
    if (!read_file(*state, &block) || !fits()) {
        from = "the host that has sent it";
        if (!ask_sender(*state, &block) || !fits()) return false;
    }
    // Memory that does not keep what is written there is not mended.
    if (!write_back(*state, &block) || sum_of(state->mapping.bytes, state->size, number) != state->sums[number])
        return false;
    state->mended.store(true);
    log_event(
        event::mended_in_memory(static_cast<int64_t>(begin), static_cast<int64_t>(begin + size), state->name, from));
    return true;
}

}  // namespace wilkins::mending
