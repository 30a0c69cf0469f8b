// Steps that a relay has left out while its readers were busy: to these their names are missing, as on one machine.
#pragma once

#include "board/process.hpp"
#include "names/match.hpp"

namespace wilkins {

// A rank is going to wait for a name. Asks the hosts from which its steps come on demand whether it was left out there,
// and lets go of the lock meanwhile. True if it was: the board knows now, and may have another answer for the rank.
bool learns_left_out(Process& p, const Match& match, Board::Lock& lock);

}  // namespace wilkins
