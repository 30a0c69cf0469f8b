// Memory of arenas, taken back for steps that need some.
#pragma once

#include "board/arena.hpp"

namespace wilkins {

// Gives back the memory of arenas that hold no needed step: of one port, or of all (port < 0). True if any had some.
// Call without the board's lock.
bool reclaim(const Board& board, Arenas& arenas, int port);

// Gives the slot's arena memory for `size` bytes at least, if need be such memory. Returns 0 or an errno.
int reserve(const Board& board, Arenas& arenas, int slot, uint64_t size);

}  // namespace wilkins
