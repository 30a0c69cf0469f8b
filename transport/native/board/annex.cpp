// What the board holds beyond its tables of fixed size: segments, files of their own, each larger than the one before.
// None ever moves or shrinks, so that what lies in one may be pointed to.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <climits>
#include <cstdio>

#include "base/fault.hpp"
#include "base/raw.hpp"
#include "board/arena.hpp"
#include "board/board.hpp"

namespace wilkins {

namespace {

constexpr uint64_t kFirstSegment = 1u << 16;
constexpr int kOffsetBits = 48;

void segment_path(const char* folder, int segment, char* out, size_t room) {
    snprintf(out, room, "%s/more%d", folder, segment);
}

}  // namespace

unsigned char* Board::annex(uint64_t handle) const {
    const int k = static_cast<int>(handle >> kOffsetBits) - 1;
    if (!annexed_[k]) {
        char path[PATH_MAX];
        segment_path(folder_, k, path, sizeof(path));
        const int fd = raw::open(path, O_RDWR | O_CLOEXEC, 0);
        if (fd < 0) return nullptr;
        void* const bytes = mmap(nullptr, head().annex[k].size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        raw::close(fd);
        if (bytes == MAP_FAILED) return nullptr;
        annexed_[k] = static_cast<unsigned char*>(bytes);
    }
    return annexed_[k] + (handle & ((1ull << kOffsetBits) - 1));
}

uint64_t Board::extend(uint64_t bytes) const {
    BoardRecord& record = head();
    bytes = (bytes + 63) / 64 * 64;
    int k = static_cast<int>(record.segments) - 1;
    if (k < 0 || record.annex[k].used + bytes > record.annex[k].size) {
        if (++k == kSegments) return 0;
        const uint64_t size = std::max(kFirstSegment << k, (bytes + 4095) / 4096 * 4096);
        struct rlimit limit;  // beyond it, a signal would end the program
        if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size) return 0;
        char path[PATH_MAX];
        segment_path(folder_, k, path, sizeof(path));
        const int fd = raw::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0) return 0;
        const int error = allocate_file(fd, 0, size);
        raw::close(fd);
        if (error) {
            raw::unlink(path);
            return 0;
        }
        record.annex[k] = {size, 0};
        WILKINS_FAULT_POINT("annex.allocated");
        record.segments = static_cast<uint32_t>(k) + 1;
    }
    const uint64_t handle = (static_cast<uint64_t>(k) + 1) << kOffsetBits | record.annex[k].used;
    record.annex[k].used += bytes;
    return annex(handle) ? handle : 0;
}

uint64_t Board::annexed() const {
    uint64_t sum = 0;
    for (uint32_t k = 0; k < head().segments; ++k) sum += head().annex[k].used;
    return sum;
}

}  // namespace wilkins
