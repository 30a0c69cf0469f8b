// Files of /proc.
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "base/raw.hpp"

namespace wilkins {

// A file of /proc, or as much as there is room for; length -1: it cannot be read, and errno says why.
template <size_t size>
struct ProcText {
    explicit ProcText(const char* path) {
        const int fd = raw::open(path, O_RDONLY | O_CLOEXEC, 0);
        if (fd < 0) return;
        length = raw::read(fd, bytes, size - 1);
        const int error = errno;
        raw::close(fd);
        errno = error;
        bytes[std::max<ssize_t>(length, 0)] = 0;
    }
    bool is_whole() const { return length >= 0 && length < static_cast<ssize_t>(size) - 1; }
    char bytes[size] = {};
    ssize_t length = -1;
};

}  // namespace wilkins
