// A checksum of bytes that cross between hosts: the CRC-32C (Castagnoli) of four CRC-32C, each of every fourth word of
// eight bytes, so that a processor computes these at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace wilkins::far {

class Checksum {
public:
    using Lanes = std::array<uint32_t, 4>;  // one for each word of four

    // Bytes that follow those before.
    void add(const void* bytes, size_t count);
    const Lanes& lanes() const { return lanes_; }
    uint32_t value() const;

    // The same by tables, as on a processor without an instruction for it.
    void add_by_tables(const void* bytes, size_t count);

private:
    Lanes lanes_ = {~0u, ~0u, ~0u, ~0u};
    size_t at_ = 0;
};

}  // namespace wilkins::far
