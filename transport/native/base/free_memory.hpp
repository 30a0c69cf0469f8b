// How much shared memory there is yet.
#pragma once

#include <cstdint>

namespace wilkins {

// Bytes that files in a folder of shared memory can still get without anything else having to go: what the file system
// has left, the machine, and each control group that this process is in.
uint64_t free_shared_memory(const char* folder);

}  // namespace wilkins
