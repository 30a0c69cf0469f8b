// What looking at a step's name shows, as the C library's stat tells it.
#pragma once

#include <cstdint>

namespace wilkins {

struct Look {
    uint64_t size;
    uint64_t identity;
    int64_t published_ns;
};

}  // namespace wilkins
