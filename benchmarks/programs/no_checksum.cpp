// What crossing.cpp is linked with to see what checksums cost: none are made, and all are alike.
#include "far/checksum.hpp"

namespace wilkins::far {

void Checksum::add(const void*, size_t) {}
void Checksum::add_known(uint32_t, size_t) {}

}  // namespace wilkins::far
