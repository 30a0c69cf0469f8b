// Steps of which another process has the descriptor that this one has closed: a child that was started with it, and reads it by itself.
//
// It is found by a lock on a byte of the open file description, which lasts until nobody has that open. Until then this process holds
// the step, or its memory would come to hold another one while the child reads.
#pragma once

#include "board/process.hpp"

namespace wilkins::loans {

// Of the program's last descriptor of a step's description, which is about to be closed and leads elsewhere from then on: holds the step
// if another process has the description, too. Returns whether one has. `unread`: this process has read nothing by it.
bool lend(int fd, int slot, bool unread);

// So many of this process's holds on the step are for others. Under the board's lock.
int count(const Process& process, int slot);

// Lets go of the steps that nobody reads any more. Under the board's lock.
void take_back(const Process& process);

}  // namespace wilkins::loans
