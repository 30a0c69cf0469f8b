// On a system with pages of 64 KiB, as some ARM machines have, a mapping is opened by whole pages of that size.
#include "board/arena.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "check.hpp"

namespace {

constexpr long kPage = 65536;

}  // namespace

// What such a kernel says, for the calls of this program.

extern "C" long sysconf(int name) noexcept {
    static const auto real = reinterpret_cast<long (*)(int)>(dlsym(RTLD_NEXT, "sysconf"));
    return name == _SC_PAGESIZE ? kPage : real(name);
}

extern "C" int mprotect(void* address, size_t length, int protection) noexcept {
    if (reinterpret_cast<uintptr_t>(address) % kPage == 0)
        return static_cast<int>(syscall(SYS_mprotect, address, length, protection));
    errno = EINVAL;
    return -1;
}

using namespace wilkins;

int main() {
    const test::Scratch scratch;
    const int fd = open((scratch.path + "/arena").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK(allocate_file(fd, 0, 4 * kPage) == 0);
    Mapping mapping;
    CHECK(map_most(fd, 1u << 30, 0, true, &mapping) == 0);
    for (const uint64_t size : {4096L, 5000L, kPage + 4096L, 3 * kPage}) {
        CHECK(open_to(mapping, size) == 0);
        mapping.bytes[size - 1] = 1;
    }
    unmap(mapping);
    close(fd);
}
