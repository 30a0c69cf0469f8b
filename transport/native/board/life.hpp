// Which processes of a run live, known alike in every PID namespace.
//
// Each process that changes the board has a number in the run, and holds a lock on the byte of that number in the
// board's file. The kernel ends the lock with the process: when it dies, before anybody learns how it ended, and when
// another program takes its place (exec). The lock lives by a mapping, not by a descriptor: a program that closes all
// its descriptors keeps it, its descriptors have the numbers they would have without it, and a fork, which does not get
// the mapping, is a process of its own.
#pragma once

#include <atomic>
#include <cstdint>

namespace wilkins {

class Life {
public:
    Life() = default;
    ~Life();
    Life(const Life&) = delete;
    Life& operator=(const Life&) = delete;

    // For the run whose board this file is; `counter` is on the board. Returns 0 or an errno.
    int begin(const char* file, std::atomic<uint32_t>* counter);

    // This process's number, never 0; with the first call it gets one.
    uint32_t self() const;

    // The same, or 0: this process has none, or it shares the memory of one that has, as between vfork and exec.
    uint32_t joined() const;

    // What it is called where it lives: its pid, and the PID namespace that this is a pid of. Of one that has a number.
    int pid() const;
    uint64_t pid_namespace() const;

    // True if the process of this number has died. Never true of one that could not take its lock, for want of a
    // descriptor.
    bool is_over(uint32_t number) const;

private:
    struct Own;

    uint32_t join() const;
    uint32_t next() const;
    uint32_t lock_next(int fd) const;

    const char* file_ = nullptr;
    std::atomic<uint32_t>* counter_ = nullptr;
    Own* own_ = nullptr;
};

}  // namespace wilkins
