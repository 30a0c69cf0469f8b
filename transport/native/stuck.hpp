// Waits that nothing can end.
#pragma once

#include <string>

#include "board.hpp"

namespace wilkins {

// A description of ranks that wait for each other and cannot go on, or "". A look among them goes on by itself. Call with the lock held.
std::string find_stuck(const Board& board);

// Is the rank, which waits, one of those that would if no look went on by itself? Call with the lock held.
bool is_stuck(const Board& board, int rank_index);

}  // namespace wilkins
