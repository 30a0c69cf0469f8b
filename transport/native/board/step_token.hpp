// What processes tell each other of a step, and of its bytes.
#pragma once

#include <cstdint>

namespace wilkins {

// Identifies a step being written so that other ranks of the same task can attach to it. Plain bytes: may be broadcast.
struct StepToken {
    int32_t slot;
    int32_t arena;
    uint64_t stamp;
};

// Bytes of a file.
struct ByteRange {
    uint64_t begin;
    uint64_t end;
};

}  // namespace wilkins
