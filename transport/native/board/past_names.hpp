// Names of long ago: a set of names on the board that forgets none. Numbered names that follow each other take the same
// room for any number of them; each other name takes about 16 bytes.
#pragma once

#include "board/board.hpp"

namespace wilkins::past {

// True if the name was ever added.
bool knows(const Board& board, const NameSet& names, const char* name);

// True if it was added, and not removed since.
bool has(const Board& board, const NameSet& names, const char* name);

// Adds it. May be begun again after a death. If memory is short, the name may be lost (see make_room).
void add(const Board& board, NameSet& names, const char* name);

// Removes it: it stays known. False if it was not there.
bool remove(const Board& board, NameSet& names, const char* name);

// Makes sure of memory for so many more names. False: shared memory is full.
bool make_room(const Board& board, NameSet& names, uint64_t more);

}  // namespace wilkins::past
