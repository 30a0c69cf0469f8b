// Notes of bytes of a step that were damaged on their way from another host: whose they are, that host says, since it
// has the whole file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "board/step_token.hpp"

namespace wilkins::far {

// Of ranges of a step that have crossed in this order, what was damaged. `damaged`: ranges of what has come, in order.
std::vector<ByteRange> damaged_bytes(const std::vector<ByteRange>& crossed, const std::vector<ByteRange>& damaged);

uint64_t length_of(const std::vector<ByteRange>& ranges);

// Notes it. `server`: where the step's host serves it (address:port), under this token; `from`: whom to name.
void note_damage(const char* server, const StepToken& token, const char* name, const char* from,
                 const std::vector<ByteRange>& bytes);

}  // namespace wilkins::far
