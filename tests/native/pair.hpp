// Two sockets, each of which gets what the other one is sent.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include "check.hpp"

struct Pair {
    Pair() { CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0); }
    ~Pair() {
        for (const int end : ends) close(end);
    }
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;
    int ends[2];
};
