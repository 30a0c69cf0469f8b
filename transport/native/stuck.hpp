// Waits that nothing can end.
#pragma once

#include <string>

#include "board.hpp"

namespace wilkins {

// A description of ranks that wait for each other and cannot go on, or "". Call with the lock held.
std::string find_stuck(const Board& board);

}  // namespace wilkins
