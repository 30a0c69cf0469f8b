// Processes of a rank that start others for it, as shells do: what they do next is known only while they wait for
// those.
#pragma once

#include <functional>

#include "board/layout.hpp"

namespace wilkins {

// The processes that have led to this one since its rank was started: its parent first, then that one's; 0 where there
// is none.
void find_starters(int32_t (&starters)[kStarters]);

// True if the process has ended. Its parent may not have noticed.
bool is_gone(int pid);

// Of whose threads it is asked: of all, or of those that were started just now, which may be about to use a port for
// the first time.
enum class Ages { all, young };

// The process, or one below it, that may go on before one does that waits in the layer; 0: there is none. They sleep
// until another one of them goes on, or, with `quiet`, somebody else. `is_known`: what the thread does is known
// otherwise; so is then what its process has started.
int find_mover(int pid, bool quiet, Ages ages, const std::function<bool(int pid, int thread)>& is_known);

}  // namespace wilkins
