// Tells the board of calls of MPI's, by a few stores: programs make very many.
#include "mpi/among.hpp"

#include "board/process.hpp"
#include "waiting/members.hpp"

namespace wilkins {

namespace {

__attribute__((tls_model("initial-exec"))) thread_local bool within = false;

// Only ranks of several have others.
const Process* task_of_several() {
    if (!context().active) return nullptr;
    const Process& p = process();
    return p.context.active && p.context.nprocs > 1 ? &p : nullptr;
}

}  // namespace

AmongRanks::AmongRanks() : outermost_(!within) {
    if (!outermost_) return;
    within = true;
    if (const Process* p = task_of_several()) enter_among(p->board, p->me());
}

AmongRanks::~AmongRanks() {
    if (!outermost_) return;
    within = false;
    if (const Process* p = task_of_several()) leave_among(p->board, p->me());
}

}  // namespace wilkins
