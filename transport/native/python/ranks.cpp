// What a group of ranks in Python says of itself (tasks/group.py).
#include "board/border.hpp"
#include "board/process.hpp"
#include "waiting/members.hpp"

using namespace wilkins;

// From now on the calling thread waits for other ranks of its task, as within a call of MPI's that does (see
// mpi/among.hpp); or not any more.
WILKINS_API(void, wilkins_ranks_wait(int waits)) {
    if (!context().active) return;
    const Process& p = process();
    if (!p.context.active || p.context.nprocs < 2) return;
    if (waits) enter_among(p.board, p.me());
    else leave_among(p.board, p.me());
}
WILKINS_OR()
