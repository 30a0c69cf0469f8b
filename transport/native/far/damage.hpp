// Notes of bytes of a step that were damaged on their way from another host: whose they are, that host says, since it
// has the whole file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "board/step_token.hpp"

namespace wilkins::far {

// Bytes of a step that cross together, in as many or fewer (`stored`).
struct Crossed {
    uint64_t begin;
    uint64_t end;
    uint64_t stored;
};

// Of what has crossed in this order, the bytes of the step that were damaged. `damaged`: ranges of what has come.
std::vector<ByteRange> damaged_bytes(const std::vector<Crossed>& crossed, const std::vector<ByteRange>& damaged);

// Notes it. `server`: where the step's host serves it (address:port), under this token; `from`: whom to name.
void note_damage(const char* server, const StepToken& token, const char* name, const char* from,
                 const std::vector<ByteRange>& bytes);

}  // namespace wilkins::far
