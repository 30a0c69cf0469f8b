// Arenas that programs can see: how that is found out, and what becomes of the arenas meanwhile.
#include "board/views.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/fault.hpp"
#include "base/raw.hpp"
#include "board/arena.hpp"
#include "board/ranges.hpp"

namespace wilkins {

namespace views {

namespace {

constexpr off_t kPlace = raw::kLockPlaces;
constexpr size_t kPage = 4096;

}  // namespace

int keep(int fd) { return raw::share_byte(fd, kPlace) == 0 ? 0 : errno; }

void keep_too(int fd) {
    const int before = errno;
    if (fd >= 0 && are_any(fd)) keep(fd);
    errno = before;
}

bool are_any(int fd) { return !raw::is_byte_free(fd, kPlace); }

void* keep_by_page(int fd) {
    void* const page = fd >= 0 && keep(fd) == 0 ? mmap(nullptr, kPage, PROT_NONE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (fd >= 0) raw::close(fd);
    return page == MAP_FAILED ? nullptr : page;
}

void let_go(void* page) { munmap(page, kPage); }

}  // namespace views

namespace {

constexpr int kAtOnce = 2;  // arenas aside that whoever begins a step looks at

void path_aside(const Board& board, int source, uint64_t number, char* out, size_t room) {
    snprintf(out, room, "%s/v%d.%llu", board.folder(), source, static_cast<unsigned long long>(number));
}

// Who opens a descriptor of the arena holds its step.
bool is_unused(const SlotRecord& slot) {
    return slot.holds == 0 && slot.peers == 0 && (slot.state == SlotState::free || slot.state == SlotState::published);
}

}  // namespace

bool Arenas::can_be_seen(int index) const {
    const int fd = open(index, false);
    if (fd < 0) return errno != ENOENT;
    const bool seen = views::are_any(fd);
    raw::close(fd);
    return seen;
}

bool Arenas::is_viewed(int index) {
    SlotRecord& slot = board_.slot(index);
    if (!slot.viewed.load() || on_disk(index)) return false;
    if (!is_unused(slot) || can_be_seen(index)) return true;
    slot.viewed.store(0);
    return false;
}

void Arenas::look_at_views(int s) {
    SourceRecord& source = board_.source(s);
    for (const SlotRecord& slot : slots_of(board_, source)) is_viewed(board_.index(slot));
    for (int n = 0; n < kAtOnce && source.aside_first < source.aside_end; ++n) {
        if (source.aside_look < source.aside_first || source.aside_look >= source.aside_end)
            source.aside_look = source.aside_first;
        uint64_t bytes = 0;
        const bool gone = look_at_aside(s, source.aside_look, &bytes);
        if (gone) account_aside(s, source.aside_bytes - std::min(source.aside_bytes, bytes));
        if (gone && source.aside_look == source.aside_first) ++source.aside_first;
        ++source.aside_look;
    }
}

int Arenas::renew(int index) {
    SlotRecord& slot = board_.slot(index);
    if (on_disk(index)) return 0;
    if (slot.viewed.load()) return set_aside(index);
    if (!slot.sent.load()) return 0;
    // The pages themselves are on their way: they leave the file, which gets others.
    const int error = trim(index, 0);
    if (!error) slot.sent.store(0);
    return error;
}

int Arenas::set_aside(int index) {
    SlotRecord& slot = board_.slot(index);
    SourceRecord& source = board_.source(slot.source);
    char arena[PATH_MAX], aside[PATH_MAX];
    snprintf(arena, sizeof(arena), "%s/a%d", board_.folder(), index);
    Board::Lock lock(board_);
    path_aside(board_, slot.source, source.aside_end, aside, sizeof(aside));
    ++source.aside_end;
    // First, as in trim; and whoever maps the arena from now on looks which one it is.
    slot.reserved.store(0);
    ++slot.cuts;
    ++slot.arena;
    WILKINS_FAULT_POINT("aside.noted");
    if (raw::rename(arena, aside) != 0 && errno != ENOENT) return errno;
    WILKINS_FAULT_POINT("aside.renamed");
    source.aside_bytes += slot.accounted;
    slot.accounted = 0;
    slot.sent.store(0);
    slot.viewed.store(0);  // last: if this process dies before, the next one that takes the slot looks again
    return 0;
}

// True if it is gone; else *left is what it holds.
bool Arenas::look_at_aside(int s, uint64_t number, uint64_t* bytes) {
    char path[PATH_MAX];
    path_aside(board_, s, number, path, sizeof(path));
    const int fd = raw::open(path, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0) return errno == ENOENT;
    struct stat st = {};
    raw::fstat(fd, &st);
    *bytes = static_cast<uint64_t>(st.st_size);
    const bool gone = !views::are_any(fd);
    // Cut first: processes of the run may have it mapped yet, and so keep its memory.
    if (gone && raw::ftruncate(fd, 0) == 0) raw::unlink(path);
    raw::close(fd);
    return gone;
}

void Arenas::account_aside(int s, uint64_t bytes) {
    SourceRecord& source = board_.source(s);
    PortRecord& port = board_.port(source.port);
    BoardRecord& head = board_.head();
    port.used = port.used - source.aside_bytes + bytes;
    head.memory = head.memory - source.aside_bytes + bytes;
    source.aside_bytes = bytes;
}

bool Arenas::give_back_aside(int port) {
    bool any = false;
    for (SourceRecord& source : sources_of(board_, port)) {
        const int s = board_.index(source);
        uint64_t left = 0, first = source.aside_end;
        for (uint64_t n = source.aside_first; n < source.aside_end; ++n) {
            uint64_t bytes = 0;
            if (look_at_aside(s, n, &bytes)) {
                any = any || bytes > 0;
                continue;
            }
            left += bytes;
            first = std::min(first, n);
        }
        source.aside_first = first;
        if (left != source.aside_bytes) account_aside(s, left);
    }
    return any;
}

void Arenas::count_user(int slot, int by) {
    if (Kept* const kept = this->kept(slot)) kept->users += by;
}

int Arenas::open_former(int index, uint64_t inode) const {
    const int s = board_.slot(index).source;
    const SourceRecord& source = board_.source(s);
    int fd = open(index, false);
    for (uint64_t n = source.aside_first;; ++n) {
        struct stat st;
        if (fd >= 0 && raw::fstat(fd, &st) == 0 && st.st_ino == inode) return fd;
        if (fd >= 0) raw::close(fd);
        errno = ESTALE;
        if (n >= source.aside_end) return -1;
        char path[PATH_MAX];
        path_aside(board_, s, n, path, sizeof(path));
        fd = raw::open(path, O_RDONLY | O_CLOEXEC, 0);
    }
}

int Arenas::slot_of(int fd) const {
    static const dev_t device = [&] {
        struct stat st = {};
        return raw::stat(board_.folder(), &st) == 0 ? st.st_dev : 0;
    }();
    struct stat st;
    if (fd < 0 || raw::fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_dev != device) return -1;
    char link[32], path[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t n = raw::read_link(link, path, sizeof(path) - 1);
    if (n < 0) return -1;
    path[n] = 0;
    const size_t length = strlen(board_.folder());
    if (strncmp(path, board_.folder(), length) != 0 || strncmp(path + length, "/a", 2) != 0) return -1;
    char* end = nullptr;
    const long slot = strtol(path + length + 2, &end, 10);
    return end != path + length + 2 && *end == 0 && slot >= 0 && slot < board_.head().slots ? static_cast<int>(slot)
                                                                                            : -1;
}

// The slot has another arena by now, which this process has yet to map. What it has mapped stays only for handles on a
// step in that.
void Arenas::leave_former(int slot, Kept& kept) {
    if (!kept.bytes || kept.arena == board_.slot(slot).arena.load()) return;
    if (kept.users.load() == 0) unmap(kept);
    kept.bytes = nullptr;
    kept.open = nullptr;
}

}  // namespace wilkins
