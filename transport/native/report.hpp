// What the launcher is told of a run.
#pragma once

#include <string>

#include "board.hpp"

namespace wilkins {

// Everything on the board, as JSON (wilkins/transport/board.py says what). What changes is taken from the board under its lock,
// which others wait for; the text is made after that. Call without the lock.
std::string report(const Board& board);

}  // namespace wilkins
