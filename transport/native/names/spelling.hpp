// Names as patterns spell them: from the root on, or by the folder that the pattern says.
#pragma once

#include "board/process.hpp"

namespace wilkins {

// True if the port's pattern matches the name, once that is spelled as the pattern is. Then `name` becomes what it
// matches.
bool is_match(const PortRecord& port, char (&name)[kNameMax]);

// Readers whose patterns say folders that the producer's name does not are to find them in it.
void spell_for_readers(const Board& board, const PortRecord& outport, char (&name)[kNameMax]);

}  // namespace wilkins
