// Blocks of `checked` steps that have changed in memory are mended from a copy of the step: its file on disk, or the
// memory of the host that has sent it. Whatever the copy is, the block's checksum shows whether it is right.
#pragma once

#include <cstdint>

#include "steps/step_file.hpp"

namespace wilkins::mending {

// The checksum of a block of these bytes.
uint32_t sum_of(const unsigned char* bytes, uint64_t size, uint64_t block);

// Lets the block be what was published again, and notes it. False: there is no copy in which it is right.
bool mend(StepFile::State* state, uint64_t block);

}  // namespace wilkins::mending
