// Checksums of the steps of ports that are `checked`, of each block: made when the step is whole, in the process that
// publishes it, and compared by each handle that reads it, before anybody sees the block. So bits that change in memory
// in between are found.
#pragma once

#include <cstdint>
#include <vector>

#include "steps/step_file.hpp"

namespace wilkins::sums {

using Sums = std::vector<uint32_t>;  // CRC-32C of each block; the last one ends with the file

// Keeps those of the step in the slot, if its port is checked: these are its bytes. Returns 0 or an errno.
int keep(const Board& board, int slot, const unsigned char* bytes, uint64_t size);

// The same of one that has come from another host with its checksums. EPROTO: there are not as many as it has blocks.
int keep(const Board& board, int slot, uint64_t size, const Sums& sums);

// The step that the handle is about to read has checksums from now on, if they were kept. Returns 0 or an errno.
int load(StepFile::State* state);

// Compares what has not been compared yet of these bytes, and mends it where there is a copy (steps/mending.hpp).
// Returns 0 or an errno, which the handle keeps; EIO: bytes are not those that were published, which ends the run.
int check(StepFile::State* state, const ByteRange* ranges, size_t count);

// The same of all of them, once more.
int check_again(StepFile::State* state);

}  // namespace wilkins::sums
