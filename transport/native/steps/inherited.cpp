// Steps that are left to whoever still writes them: when they are whole, and how they come into their arenas then.
#include "steps/sums.hpp"
#include "steps/inherited.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "base/fault.hpp"
#include "base/raw.hpp"
#include "events.hpp"
#include "queue/queue.hpp"
#include "queue/closed.hpp"
#include "steps/closing.hpp"
#include "steps/disk.hpp"
#include "steps/holders.hpp"
#include "steps/joined.hpp"
#include "steps/reclaim.hpp"
#include "waiting/wait.hpp"

namespace wilkins::inherited {

namespace {

constexpr uint64_t kPiece = 64u << 20;  // bytes read at once
constexpr int kPause = 10;              // ms between looks whether another process is done with a step

struct Path {
    char text[PATH_MAX];
};

Path file_of(const Board& board, int slot) {
    Path path;
    snprintf(path.text, sizeof(path.text), "%s/w%d", board.folder(), slot);
    return path;
}

bool is_left(const SlotRecord& slot) { return slot.inherited.load(std::memory_order_acquire) != 0; }

// The file's bytes become the arena's, exactly. Returns 0 or an errno.
int store(const Board& board, Arenas& arenas, int index, int fd) {
    SlotRecord& slot = board.slot(index);
    struct stat st;
    if (raw::fstat(fd, &st) != 0) return errno;
    const uint64_t size = static_cast<uint64_t>(st.st_size);
    const uint64_t blocks = (size + kBlock - 1) / kBlock;
    Mapping mapping;
    if (const int error = arenas.map(index, true, &mapping)) return error;
    int error = size > mapping.length ? EFBIG : reserve(board, arenas, index, size);
    if (!error) error = open_to(mapping, size);
    if (!error && slot.touched.load() < blocks) slot.touched.store(blocks);
    for (uint64_t done = 0; !error && done < size;) {
        const ssize_t n = raw::pread(fd, mapping.bytes + done, std::min(size - done, kPiece), static_cast<off_t>(done));
        if (n > 0) done += static_cast<uint64_t>(n);
        else if (n == 0) error = EIO;
        else if (errno != EINTR) error = errno;
    }
    if (!error) {
        for (uint64_t b = 0; b < blocks; ++b) mapping.blocks[b].store(kValid, std::memory_order_release);
        slot.size.store(size, std::memory_order_release);
        if (slot.reserved.load() != size) error = arenas.trim(index, size);
    }
    if (!error) error = sums::keep(board, index, mapping.bytes, size);
    if (!error) error = disk::settle(board, index, mapping.bytes, size, note_file);
    if (!mapping.kept) unmap(mapping);
    return error;
}

void tell_cut_off(const Board& board, const SlotRecord& slot, int fd) {
    struct stat st;
    char who[64];
    if (raw::fstat(fd, &st) != 0) return;
    holders::name_one(st, who, sizeof(who));
    const SourceRecord& source = board.source(slot.source);
    log_event_for(board, board.port(source.port).task, source.rank, event::cut_off(slot.name, who));
}

constexpr int64_t kSeldom = 200'000'000;  // ns between looks at who has a file open, which the launcher takes,
constexpr int64_t kIdle = 2'000'000'000;  // and for which forks that hold it have to do nothing at all

// Since when forks that wait have done nothing that hold a step's file.
struct Idle {
    uint64_t stamp = 0;
    uint64_t turns = 0;
    int64_t since = 0;
    int64_t looked = 0;
};

bool all_wait(int fd, uint64_t* turns) {
    struct stat st;
    return raw::fstat(fd, &st) == 0 && holders::all_wait(st, turns);
}

// Of a file that some process has open for writing: does none of those hold it? A fork that waits may be about to get
// an order to write from the process that has forked it: only one that has long done nothing is idle. To be asked by
// the launcher's thread alone.
bool is_let_go(int slot, uint64_t stamp, int fd) {
    static std::unordered_map<int, Idle> known;
    Idle& idle = known[slot];
    const int64_t now = now_ns();
    if (idle.stamp == stamp && now < idle.looked + kSeldom) return false;
    uint64_t turns = 0;
    const bool wait = all_wait(fd, &turns);
    if (!wait || idle.since == 0 || idle.stamp != stamp || idle.turns != turns)
        idle = {stamp, turns, wait ? now_ns() : 0, 0};
    idle.looked = now_ns();
    return wait && now - idle.since >= kIdle;
}

// What is asked of a file that is left to others: by a process of its task, by the launcher, or by the launcher when
// the task's program has ended.
enum class Asks { own, launcher, end };

bool is_let_go(int slot, uint64_t stamp, int fd, Asks asks) {
    uint64_t turns;
    return asks == Asks::end ? all_wait(fd, &turns) : asks == Asks::launcher && is_let_go(slot, stamp, fd);
}

// True if the step is still left to others. `waits`: until whoever else settles it now has done so.
bool settle_one(const Board& board, Arenas& arenas, int index, Asks asks, bool waits) {
    const bool ends = asks == Asks::end;
    SlotRecord& slot = board.slot(index);
    uint64_t stamp;
    {
        Board::Lock lock(board);
        for (;;) {
            if (!is_left(slot) || slot.state != SlotState::writing) return false;
            if (joined::is_written(board, index)) return true;
            if (!queue::claimed(board, slot)) break;
            if (!waits || nap(process(), board.source(slot.source).port, lock, kPause) != 0) return true;
        }
        slot.claimed_by = board.self();
        stamp = slot.stamp;
    }
    const Path path = file_of(board, index);
    const int fd = raw::open(path.text, O_RDONLY | O_CLOEXEC, 0);
    int error = fd < 0 ? errno : 0;
    const bool written = !error && is_written(fd) && !is_let_go(index, stamp, fd, asks);
    if (written && !ends) error = EAGAIN;
    if (!error) error = store(board, arenas, index, fd);
    if (!error && written) tell_cut_off(board, slot, fd);
    if (fd >= 0) raw::close(fd);
    Board::Lock lock(board);
    slot.claimed_by = 0;
    if (slot.state != SlotState::writing || slot.stamp != stamp) return false;
    if (error == EAGAIN || ((error == ENOSPC || error == EDQUOT) && !ends)) return true;
    slot.inherited.store(0);
    remove_file(board, index);
    const SourceRecord& source = board.source(slot.source);
    if (error) {
        fail_run_for(board, board.port(source.port).task, source.rank,
                     event::not_stored_by_child(slot.name, error, error == ENOSPC || error == EDQUOT));
        queue::clear_slot(board, index);
    } else {
        queue::close_slot(board, index, 0);
        if (slot.state == SlotState::closed) slot.handed_over = 1;
    }
    board.ring(source.port);
    return false;
}

}  // namespace

// A lease on a file that is to be read is granted while nobody has it open for writing, and only then.
bool is_written(int fd) {
    const int before = errno;
    const bool granted = raw::lease(fd, F_RDLCK) == 0;
    const bool written = !granted && errno == EAGAIN;
    WILKINS_FAULT_POINT("lease");
    if (granted) raw::lease(fd, F_UNLCK);
    errno = before;
    return written;
}

int name_file(const StepFile* step, int fd) {
    const Path path = file_of(process().board, step->token().slot);
    char from[32];
    snprintf(from, sizeof(from), "/proc/self/fd/%d", fd);
    const auto link = [&] { return linkat(AT_FDCWD, from, AT_FDCWD, path.text, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno; };
    int error = link();
    struct stat named, open;
    if (error != EEXIST) return error;
    if (stat(path.text, &named) == 0 && raw::fstat(fd, &open) == 0 && named.st_ino == open.st_ino) return 0;
    raw::unlink(path.text);  // of a step that was cut off
    return link();
}

bool size_of(const Board& board, int slot, uint64_t* size) {
    struct stat st;
    if (board.slot(slot).in_kernel != kInKernel || stat(file_of(board, slot).text, &st) != 0) return false;
    *size = static_cast<uint64_t>(st.st_size);
    return true;
}

int open_file(const Board& board, int slot, int flags) {
    return board.slot(slot).in_kernel == kInKernel ? raw::open(file_of(board, slot).text, flags, 0) : -1;
}

int leave(const StepFile* step, int fd) {
    const Board& board = process().board;
    const int slot = step->token().slot;
    if (const int error = name_file(step, fd)) return error;
    board.head().leaves.store(1);
    board.slot(slot).inherited.store(1, std::memory_order_release);
    return 0;
}

void take_back(const StepFile* step) {
    // The file keeps its name: it could not be given one again, and is about to be asked for once more (a shell looks
    // for a program in one folder after the other).
    process().board.slot(step->token().slot).inherited.store(0, std::memory_order_release);
}

namespace {

int settle_all(const Board& board, Arenas& arenas, int task, Asks asks, bool waits) {
    int left = 0;
    if (!board.head().leaves.load()) return 0;
    for (const SlotRecord& slot : slots_of(board)) {
        if (!is_left(slot) || (task >= 0 && board.port(board.source(slot.source).port).task != task)) continue;
        if (settle_one(board, arenas, board.index(slot), asks, waits)) ++left;
    }
    return left;
}

}  // namespace

int settle(const Board& board, Arenas& arenas, int task, bool ends) {
    return settle_all(board, arenas, task, ends ? Asks::end : Asks::launcher, false);
}

void remove_file(const Board& board, int slot) {
    board.slot(slot).in_kernel = 0;
    raw::unlink(file_of(board, slot).text);
}

void settle_own(bool waits) {
    const Process& p = process();
    if (!p.context.active) return;
    const int before = errno;
    settle_all(p.board, *p.arenas, p.context.task, Asks::own, waits);
    errno = before;
}

}  // namespace wilkins::inherited
