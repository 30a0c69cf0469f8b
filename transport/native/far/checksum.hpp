// A checksum of bytes that cross between hosts: CRC-32C (Castagnoli), as iSCSI and file systems have it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wilkins::far {

class Checksum {
public:
    // Bytes that follow those before.
    void add(const void* bytes, size_t count);
    // The same of bytes of which that is the checksum.
    void add_known(uint32_t value, size_t count);
    uint32_t value() const { return ~crc_; }

    // The same as on processors that lack some instructions: without those that multiply polynomials, and without any.
    void add_by_words(const void* bytes, size_t count);
    void add_by_tables(const void* bytes, size_t count);

private:
    uint32_t crc_ = ~0u;
};

}  // namespace wilkins::far
