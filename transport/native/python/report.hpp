// The report of a run for the launcher.
#pragma once

#include <optional>
#include <string>

#include "board/board.hpp"

namespace wilkins {

// Everything on the board, as JSON (transport/report_table.py says what). What changes is taken from the board under
// its lock, which others wait for; the lock is released before the text is made. `threads`: whether it says for which
// ranks each thread is known to wait.
std::string report(const Board& board, Board::Lock& lock, bool threads);

// The task's last failed open. Call with the lock held.
std::optional<facts::FailedOpen> failed_open(const Board& board, int task);

}  // namespace wilkins
