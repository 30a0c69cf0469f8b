// Making the board of a run.
#pragma once

#include "plan_table.hpp"

namespace wilkins {

// Writes `folder`/board for what the launcher tells of the run. Returns 0 or an errno (EINVAL: names too long or
// indices out of range).
int create_board(const char* folder, const plan::Arrays& run);

}  // namespace wilkins
