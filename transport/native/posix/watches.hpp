// inotify: a program that watches a folder of its in-ports is notified of their steps.
#pragma once

#include <sys/types.h>

#include <atomic>

namespace wilkins::posix::watches {

inline std::atomic<int> count{0};

// True if the program watches such a folder.
inline bool any() { return count.load(std::memory_order_relaxed) > 0; }

// read, of any descriptor.
ssize_t read(int fd, void* buffer, size_t size);

// The descriptor is about to be closed.
void forget(int fd);

}  // namespace wilkins::posix::watches
