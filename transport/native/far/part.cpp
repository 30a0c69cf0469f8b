// Files of parts: a page that says whose bytes they hold, then the bytes at their places in the step.
#include "far/part.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "base/patterns.hpp"
#include "base/held_at_forks.hpp"
#include "base/raw.hpp"
#include "board/process.hpp"

namespace wilkins {

namespace {

constexpr uint64_t kHead = 4096;
// A part takes no memory of which less than half would be left on its host then, or less than so many files as long as
// this one: those who read or make steps there could not do without, while the arena has room for what is written here
// in any case.
constexpr uint64_t kFilesLeft = 2;

std::mutex parts_mutex;  // also guards what each of them holds
HeldAtForks held_at_forks(parts_mutex);

}  // namespace

struct Part::Head {
    std::atomic<uint64_t> stamp;
    char where[kAddressMax];
};

namespace {

auto& parts = *new std::map<std::pair<std::string, int>, std::unique_ptr<Part>>;  // used to the end of the process

bool leaves_enough(int fd, uint64_t more, uint64_t end) {
    struct statvfs all;
    if (fstatvfs(fd, &all) != 0) return false;
    const uint64_t left = all.f_bavail * all.f_frsize;
    return all.f_blocks == 0 ||
           left >= more + std::max(all.f_blocks * all.f_frsize / 2, kFilesLeft * end);  // 0: it has no end
}

}  // namespace

Part::Head& Part::head() const { return *reinterpret_cast<Head*>(mapping_.bytes); }

unsigned char* Part::bytes() const { return mapping_.bytes + kHead; }

Part* Part::open(const char* lead, int slot, bool make, int* error) {
    const std::lock_guard<std::mutex> guard(parts_mutex);
    std::unique_ptr<Part>& part = parts[{lead, slot}];
    if (part) return part.get();
    const Board& board = process().board;
    char path[4096];
    snprintf(path, sizeof(path), "%s/p%016llx-%d", board.folder(), static_cast<unsigned long long>(hash_text(lead)),
             slot);
    const int fd = raw::open(path, O_RDWR | O_CLOEXEC | (make ? O_CREAT : 0), 0600);
    *error = fd < 0 ? errno : make ? allocate_file(fd, 0, kHead) : 0;
    Mapping mapping;
    if (*error == 0) *error = map_most(fd, kHead + board.head().reserve, kHead, true, &mapping);
    if (*error == 0) *error = open_to(mapping, kHead);
    if (fd >= 0) raw::close(fd);
    if (*error != 0) return nullptr;
    part.reset(new Part(path, mapping));
    return part.get();
}

void Part::begin(uint64_t stamp, const char* where) {
    strncpy(head().where, where, sizeof(head().where) - 1);
    head().stamp.store(stamp, std::memory_order_release);
}

bool Part::holds(uint64_t stamp, const char* where) const {
    return head().stamp.load(std::memory_order_acquire) == stamp &&
           (where == nullptr || strcmp(head().where, where) == 0);
}

int Part::hold(uint64_t begin, uint64_t end) {
    if (end > mapping_.length - kHead) return EFBIG;
    const uint64_t first = begin / kBlock, last = (end - 1) / kBlock;
    const std::lock_guard<std::mutex> guard(parts_mutex);
    if (held_.size() <= last) held_.resize(last + 1);
    const auto from = held_.begin() + static_cast<std::ptrdiff_t>(first),
               to = held_.begin() + static_cast<std::ptrdiff_t>(last) + 1;
    if (std::find(from, to, false) != to) {
        const auto more = static_cast<uint64_t>(std::count(from, to, false)) * kBlock;
        const int fd = raw::open(path_.c_str(), O_RDWR | O_CLOEXEC, 0);
        int error = fd < 0 ? errno : leaves_enough(fd, more, end) ? 0 : ENOSPC;
        if (error == 0) error = allocate_file(fd, kHead + first * kBlock, kHead + (last + 1) * kBlock);
        if (fd >= 0) raw::close(fd);
        if (error) return error;
        std::fill(from, to, true);
    }
    return open_to(mapping_, kHead + end);
}

int Part::open_to_read(uint64_t end) { return end > mapping_.length - kHead ? EFBIG : open_to(mapping_, kHead + end); }

}  // namespace wilkins
