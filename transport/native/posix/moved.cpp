// What a file that was made exclusively is called when it is closed.
#include "posix/moved.hpp"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <memory>

#include "base/raw.hpp"
#include "board/process.hpp"
#include "posix/copies.hpp"
#include "steps/disk.hpp"

namespace wilkins::posix::moved {
namespace {

constexpr int kDescriptors = 1024;  // higher ones are not watched
constexpr int kBits = 64;

std::atomic<uint64_t> watched[kDescriptors / kBits];
std::atomic<bool> any_watched{false};

// False if it was not watched.
bool unwatch(int fd) {
    if (!any_watched.load(std::memory_order_relaxed) || fd < 0 || fd >= kDescriptors) return false;
    const uint64_t bit = uint64_t{1} << (fd % kBits);
    std::atomic<uint64_t>& word = watched[fd / kBits];
    return (word.load(std::memory_order_relaxed) & bit) && (word.fetch_and(~bit) & bit);
}

bool produces(const Process& p) {
    for (const PortRecord& port : ports_of(p))
        if (port.direction == Direction::out) return true;
    return false;
}

}  // namespace

void note_opened(int fd, int flags) {
    if (fd < 0 || fd >= kDescriptors || (flags & (O_CREAT | O_EXCL)) != (O_CREAT | O_EXCL) ||
        (flags & O_ACCMODE) == O_RDONLY)
        return;
    const Process& p = process();
    if (!p.context.active || !produces(p)) return;
    any_watched.store(true, std::memory_order_relaxed);
    watched[fd / kBits].fetch_or(uint64_t{1} << (fd % kBits));
}

int publish(int fd, const void* caller) {
    if (!unwatch(fd)) return 0;
    const int saved = errno;
    char link[32];
    const auto name = std::make_unique<char[]>(kNameMax);
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t length = libc::readlink(link, name.get(), kNameMax - 1);
    int error = 0;
    Match match;
    if (length > 0) name[length] = 0;
    // (A file that was removed is not there under the name that the link tells.)
    if (length > 0 && matches(name.get(), &match, caller) && match.outport >= 0 && disk::exists(name.get())) {
        error = publish_file(AT_FDCWD, name.get(), match, Intent::create);
        if (!error && !on_disk(match)) libc::unlinkat(AT_FDCWD, name.get(), 0);
    }
    errno = saved;
    return error;
}

}  // namespace wilkins::posix::moved
