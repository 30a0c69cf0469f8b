// How hosts tell each other which of them has which bytes of a step (see steps/homes.hpp).
#pragma once

#include <cstdint>

namespace wilkins::homes {

inline constexpr uint64_t kSector = 64;  // bytes
inline constexpr uint8_t kHere = 0;

// Sectors that are on one host, up to the end of the last one.
struct Run {
    uint64_t end;   // in bytes
    uint64_t host;  // kHere, or its number
};

}  // namespace wilkins::homes
