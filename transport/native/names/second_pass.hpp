// Programs that go over the steps of names with wildcards again, of which only the newest are still there: logged once
// for each in-port, since a look or a listing fails nobody. Call everything here with the board's lock held.
#pragma once

#include "board/process.hpp"

namespace wilkins {

// So many steps of each source would have to stay for all to be found again.
uint64_t steps_to_keep(const Board& board, const PortRecord& inport);

// A look of the rank at this name found nothing.
void hint_at_look_again(const Process& p, int inport, const char* name);

// A listing of the in-port's steps is shown to the rank.
void note_listing_again(const Process& p, int inport);

// The rank opens a step again that was opened last as this one of the run.
void hint_at_open_again(const Process& p, int inport, uint64_t opened_at);

}  // namespace wilkins
