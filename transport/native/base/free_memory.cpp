// What limits shared memory: its file system, the machine's memory, control groups.
#include "base/free_memory.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/raw.hpp"

namespace wilkins {

namespace {

// The beginning of a file of the kernel's. False: it cannot be read.
bool read_text(const char* path, char* text, size_t room) {
    const int fd = raw::open(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return false;
    const ssize_t n = raw::read(fd, text, room - 1);
    raw::close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

// A number alone in a file; `otherwise` for none, and for `max`.
uint64_t number_in(const char* folder, const char* name, uint64_t otherwise) {
    char path[PATH_MAX + 64], text[64];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (!read_text(path, text, sizeof(text))) return otherwise;
    char* end = text;
    const uint64_t value = strtoull(text, &end, 10);
    return end == text ? otherwise : value;
}

uint64_t left_of_machine() {
    char text[512];
    if (!read_text("/proc/meminfo", text, sizeof(text))) return UINT64_MAX;
    const char* const line = strstr(text, "MemAvailable:");
    return line ? strtoull(line + strlen("MemAvailable:"), nullptr, 10) << 10 : UINT64_MAX;
}

// What a group and those above it leave. `at`: where its controller is mounted; `limit` and `used`: names of files.
uint64_t left_of_groups(const char* at, const char* group, const char* limit, const char* used) {
    char folder[PATH_MAX];
    if (snprintf(folder, sizeof(folder), "%s%s", at, group) >= static_cast<int>(sizeof(folder))) return UINT64_MAX;
    uint64_t left = UINT64_MAX;
    for (;;) {
        const uint64_t most = number_in(folder, limit, UINT64_MAX), now = number_in(folder, used, 0);
        if (most != UINT64_MAX) left = std::min(left, most > now ? most - now : 0);
        char* const last = strrchr(folder, '/');
        if (!last || static_cast<size_t>(last - folder) < strlen(at)) return left;
        *last = 0;
    }
}

// Of the groups in /proc/self/cgroup: lines `number:controllers:path`, of version 2 without controllers.
uint64_t left_of_own_groups() {
    char text[4096];
    if (!read_text("/proc/self/cgroup", text, sizeof(text))) return UINT64_MAX;
    uint64_t left = UINT64_MAX;
    char* rest = nullptr;
    for (char* line = strtok_r(text, "\n", &rest); line; line = strtok_r(nullptr, "\n", &rest)) {
        char* const controllers = strchr(line, ':');
        char* const path = controllers ? strchr(controllers + 1, ':') : nullptr;
        if (!path) continue;
        *path = 0;
        if (!controllers[1])
            left = std::min(left, left_of_groups("/sys/fs/cgroup", path + 1, "memory.max", "memory.current"));
        else if (strstr(controllers, "memory"))
            left = std::min(left, left_of_groups("/sys/fs/cgroup/memory", path + 1, "memory.limit_in_bytes",
                                                 "memory.usage_in_bytes"));
    }
    return left;
}

}  // namespace

uint64_t free_shared_memory(const char* folder) {
    struct statvfs fs;
    const uint64_t left =
        statvfs(folder, &fs) == 0 && fs.f_blocks ? static_cast<uint64_t>(fs.f_bavail) * fs.f_frsize : UINT64_MAX;
    return std::min({left, left_of_machine(), left_of_own_groups()});
}

}  // namespace wilkins
