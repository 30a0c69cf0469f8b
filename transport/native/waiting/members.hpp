// The threads that use a rank's ports: which of them wait, and for what.
#pragma once

#include "board/board.hpp"

namespace wilkins {

inline constexpr int64_t kUnsureNs =
    10'000'000'000;  // without a movement for so long, what the kernel says of a thread's sleep counts
inline constexpr int64_t kAmongNs =
    2'000'000'000;  // no call of MPI's takes so long that is not going to wait for others

// True if nothing has moved for kUnsureNs.
bool is_quiet(const Board& board);

// The calling thread, which uses the rank's ports, is noted; `waits`: it is going to, or not any more.
void note_member(const Board& board, int rank, bool waits);

// A place for what the calling thread waits for, or nullptr: so many wait already. A place is taken when it says for
// what.
WaitRecord* find_wait_place(const Board& board, int rank);

// No process of the rank is left. `began`: there was one, since its task's last start; else that counts if one has used
// its ports.
void note_gone(const Board& board, int rank, bool began);

// The calling thread begins a call of MPI's that other ranks may have to end. Costs no system call but the first time.
void enter_among(const Board& board, RankRecord& rank);
void leave_among(const Board& board, RankRecord& rank);

// True if a process of the rank has been in such a call for so long.
bool is_among_ranks(const Board& board, int rank, int64_t least_ns);

// True if the rank's program is over, or in MPI_Finalize, while its task goes on.
bool leaves(const Board& board, int rank);

// True if one of the rank's threads is not known to wait. Known are those that wait in the layer, or in a call of
// MPI's, or that sleep; and where nothing has moved for kUnsureNs, of those that sleep in the kernel until somebody
// wakes them.
bool is_unsure(const Board& board, int rank);

// The first such thread, in words, or "".
std::string unsure_thread(const Board& board, int rank);

// Notes that those threads of this process sleep that are not known to wait, if they do.
void note_asleep(const Board& board, int rank);

}  // namespace wilkins
