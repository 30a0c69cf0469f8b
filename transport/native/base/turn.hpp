// One process at a time, by a lock on one byte of a file.
#pragma once

#include <fcntl.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>

#include "base/raw.hpp"

namespace wilkins {

// For as long as it lives, no other process of the run has the turn of this number. A process that dies gives its turn
// back.
class Turn {
public:
    Turn(const char* folder, uint64_t number) : place_(static_cast<off_t>(number >> 2)) {
        char path[PATH_MAX];
        snprintf(path, sizeof(path), "%s/making", folder);
        fd_ = raw::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        while (fd_ >= 0 && raw::await_byte(fd_, place_) != 0 && errno == EINTR) {}
    }
    ~Turn() {
        if (fd_ < 0) return;
        raw::release_byte(fd_, place_);  // a child that was forked meanwhile has the file open, too
        raw::close(fd_);
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

private:
    off_t place_;
    int fd_;
};

}  // namespace wilkins
