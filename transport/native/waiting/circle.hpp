// Circles of waits: sets of ranks each of which only a member of the set could wake. Those that wait find them, and end what a longer queue
// can end.
#pragma once

#include "waiting/stuck.hpp"

namespace wilkins {

inline constexpr int64_t kUnsureNs = 10'000'000'000;  // without a movement for so long, a rank waits if any of its processes does

// Has nothing moved for that long?
bool is_quiet(const Board& board);

// A process of a rank that uses its ports is noted; `waits`: it is going to, or not any more.
void note_member(const Board& board, int rank, bool waits);

// No process of the rank is left. `began`: there was one, since its task's last start; else that counts if one has used its ports.
void note_gone(const Board& board, int rank, bool began);

// Would a longer queue, for which there is memory, or the end of a common order help one of these? Call with the lock held, as all of these.
bool may_stretch(const Board& board, Waiting& waiting);

// Looks whether there is a circle, unless that is known, and ends it: a queue grows by a step, as far as its in-port's `reorder` goes and memory
// is there; beyond that, of in-ports whose names mean steps, the oldest one that no rank has had is let go.
void end_circle(const Board& board);

// The same for a rank of this process that does not wait, but asks again and again for further steps of the in-port: as if it waited. For its
// sake nothing is let go.
void end_circle_of_poll(const Board& board, int rank, int inport);

// Lets one queue grow for any of the ranks that wait for room, as a circle would that leads over other hosts. False: none can.
bool grow(const Board& board);

// Ends the wait of a rank that can go on without what it waits for, as a circle would that leads over other hosts. False: there is none.
bool end_wait(const Board& board);

// A description of ranks that wait for each other for ever, or "": there are none, or those that wait are going to end it.
std::string find_lasting(const Board& board);

}  // namespace wilkins
