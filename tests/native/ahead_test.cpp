// Memory that was made ready for an arena becomes that arena, and no more of it than was ready; where memory is short,
// it goes.
#include "board/ahead.hpp"
#include "board/arena.hpp"
#include "board/process.hpp"
#include "check.hpp"
#include "steps/creating.hpp"
#include "store/store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

using namespace wilkins;
using ahead::Offer;
using ahead::State;

namespace {

constexpr uint64_t kMiB = 1u << 20;

// What the launcher's thread leaves: a file as long as it is meant to be, of which a part has memory.
std::string offer(const Board& board, int place, uint64_t number, uint64_t size, uint64_t ready) {
    char path[4096];
    ahead::path_of(board, 0, place, number, path, sizeof(path));
    const int fd = ::open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0 && ftruncate(fd, static_cast<off_t>(size)) == 0 &&
          posix_fallocate(fd, 0, static_cast<off_t>(ready)) == 0);
    close(fd);
    Spare& spare = board.source(0).ahead.spares[place];
    spare.size.store(size);
    spare.ready.store(ready);
    spare.offer.store(Offer{number, State::offered}.word());
    board.head().ahead_works.store(1);
    board.head().ahead_offered.store(1);
    return path;
}

struct stat look(const std::string& path) {
    struct stat st = {};
    if (stat(path.c_str(), &st) != 0) st.st_size = -1;
    return st;
}

StepFile* create(const char* name) {
    Match match;
    CHECK(match_name(name, &match));
    int error = 0;
    StepFile* file = open_step(match, Intent::create, 1, &error);
    CHECK(file && error == 0);
    return file;
}

uint64_t spare_bytes(const Board& board) { return ahead::held(board, -1); }

void write(StepFile* file, uint64_t offset, uint64_t count, unsigned char byte) {
    const std::vector<unsigned char> data(count, byte);
    CHECK(file->write(offset, data.data(), data.size()) == 0);
}

// The step has what was written and zeros elsewhere, and its file is exactly as long.
void becomes_the_arena(const Board& board) {
    const std::string path = offer(board, 0, 1, 4 * kMiB, 3 * kMiB);
    const ino_t inode = look(path).st_ino;
    StepFile* file = create("step-0.h5");
    CHECK(look(path).st_size == -1 && spare_bytes(board) == 0);
    const std::string arena = std::string(board.folder()) + "/a0";
    CHECK(look(arena).st_ino == inode && static_cast<uint64_t>(look(arena).st_size) == 3 * kMiB);
    CHECK(board.slot(0).reserved.load() == 3 * kMiB && board.head().memory == 3 * kMiB &&
          board.port(0).used == 3 * kMiB);
    write(file, 100, kMiB, 7);
    write(file, 4 * kMiB, 10, 8);  // beyond what was ready
    close_step(file);
    CHECK(static_cast<uint64_t>(look(arena).st_size) == 4 * kMiB + 10);
    Match match;
    int error = 0;
    CHECK(match_name("step-0.h5", &match));
    StepFile* read = open_step(match, Intent::read, 1, &error);
    CHECK(read && read->eof() == 4 * kMiB + 10);
    std::vector<unsigned char> bytes(read->eof());
    read->read(0, bytes.data(), bytes.size());
    for (uint64_t k = 0; k < bytes.size(); ++k)
        CHECK(bytes[k] == (k >= 100 && k < 100 + kMiB ? 7 : k >= 4 * kMiB ? 8 : 0));
    close_step(read);
    CHECK(board.head().memory == 4 * kMiB + 10 && board.head().memory_peak >= 4 * kMiB);
}

// The one of which most is ready is taken, and nothing that is not.
void the_readiest_first(const Board& board) {
    const std::string first = offer(board, 0, 2, 4 * kMiB, kMiB), second = offer(board, 1, 1, 4 * kMiB, 2 * kMiB);
    StepFile* file = create("step-1.h5");  // while the other one may be opened again
    CHECK(look(second).st_size == -1 && static_cast<uint64_t>(look(first).st_size) == 4 * kMiB);
    StepFile* other = create("step-2.h5");
    CHECK(look(first).st_size == -1 && spare_bytes(board) == 0);
    write(other, 0, 10, 1);
    close_step(other);
    write(file, 0, 10, 1);
    close_step(file);
    CHECK(look(std::string(board.folder()) + "/a1").st_size == 10);
}

// An arena whose memory was given back is mapped, here and elsewhere: it stays, and what was made ready goes.
void an_arena_stays(const Board& board) {
    int slot = -1;
    for (int k = 0; k < board.head().slots; ++k)
        if (board.slot(k).reserved.load() > 0) slot = k;
    CHECK(slot >= 0);
    const std::string arena = std::string(board.folder()) + "/a" + std::to_string(slot);
    const ino_t inode = look(arena).st_ino;
    {
        Board::Lock lock(board);
        CHECK(process().arenas->empty(slot));
    }
    const std::string path = offer(board, 0, 3, 4 * kMiB, 4 * kMiB);
    process().arenas->adopt(slot);
    CHECK(look(arena).st_ino == inode && look(arena).st_size == 0 && look(path).st_size == -1);
    CHECK(board.slot(slot).reserved.load() == 0 && board.slot(slot).accounted == 0);
}

// What is ready counts as the port's, and is the first to go.
void goes_when_memory_is_short(const Board& board) {
    const uint64_t cap = board.port(0).cap = board.port(0).used + 5 * kMiB;
    const std::string path = offer(board, 0, 4, 4 * kMiB, 4 * kMiB);
    const int kept = open(path.c_str(), O_RDONLY);  // as the thread has it
    StepFile* file = create("step-3.h5");
    CHECK(look(path).st_size == -1);  // taken
    const std::string second = offer(board, 1, 2, 4 * kMiB, 4 * kMiB);
    const int held = open(second.c_str(), O_RDONLY);
    board.source(0).ahead.most.store(5);
    write(file, 0, 5 * kMiB - kBlock, 3);
    struct stat st;
    CHECK(look(second).st_size == -1 && fstat(held, &st) == 0 && st.st_blocks == 0);
    CHECK(board.source(0).ahead.most.load() == 0 && !board.head().ahead_short.load());
    CHECK(board.port(0).used <= cap && spare_bytes(board) == 0);
    close_step(file);
    close(held);
    close(kept);
    offer(board, 0, 5, 4 * kMiB, 4 * kMiB);
    CHECK(ahead::give_back(board, -1) && board.head().ahead_short.load() && spare_bytes(board) == 0);
    CHECK(!ahead::give_back(board, -1));
}

// Who asks while a file is being filled waits for that, unless it stands still.
void is_waited_for(const Board& board) {
    offer(board, 0, 50, 10 * kMiB, kMiB);
    Spare& spare = board.source(0).ahead.spares[0];
    int64_t longest = 0;  // that it may have stood still, since others had the processors
    std::thread filler([&, last = now_ns()]() mutable {
        for (uint64_t at = 2; at <= 10; ++at) {
            usleep(1000);
            const int64_t before = now_ns();
            spare.ready.store(at * kMiB);
            longest = std::max(longest, now_ns() - std::exchange(last, before));
        }
    });
    ahead::await(board, 0);
    const bool all = spare.ready.load() == 10 * kMiB;
    filler.join();
    CHECK(all || longest > 4'000'000);
    spare.ready.store(kMiB);
    const int64_t began = now_ns();
    ahead::await(board, 0);
    CHECK(now_ns() - began >= 5'000'000);
    CHECK(ahead::give_back(board, 0));
    ahead::await(board, 0);
}

// ... or takes long: who knows whether the step needs it?
void is_not_waited_for_long(const Board& board) {
    offer(board, 0, 60, 1000 * kMiB, kMiB);
    const int64_t began = now_ns();
    std::atomic<bool> over{false};
    std::thread filler([&] {
        std::atomic<uint64_t>& ready = board.source(0).ahead.spares[0].ready;
        while (!over && now_ns() - began < 60'000'000'000) ready.store(ready.load() + 1);
    });
    ahead::await(board, 0);
    const int64_t took = now_ns() - began;
    over = true;
    filler.join();
    CHECK(took < 30'000'000'000);
    CHECK(ahead::give_back(board, 0));
}

}  // namespace

int main() {
    test::Scratch scratch;
    test::join_loop(scratch, "step-*.h5", 8, 0);
    const Board& board = process().board;
    becomes_the_arena(board);
    the_readiest_first(board);
    an_arena_stays(board);
    is_waited_for(board);
    is_not_waited_for_long(board);
    goes_when_memory_is_short(board);
    puts("ahead: ok");
}
