// Circles of waits: sets of ranks each of which only a member of the set could wake. Those that wait find them, and end
// what a longer queue can end.
#pragma once

#include <string>

#include "queue/queue.hpp"
#include "waiting/stuck.hpp"

namespace wilkins {

inline constexpr int64_t kOldNs = 1'000'000'000;

// True if a longer queue, for which there is memory, or the end of a common order would help one of these. Call with
// the lock held, as all of these.
bool may_stretch(const Board& board, Waiting& waiting);

// Looks whether there is a circle, unless that is known, and ends it: a queue grows by a step, as far as its in-port's
// `reorder` goes and memory is there; beyond that, of in-ports whose names mean steps, the oldest one that no rank has
// consumed is let go.
//
// Growing costs memory and no step, so for that it is enough that of each rank one thread waits, or, after kOldNs, of
// each task one rank. For the rest all threads must be known to wait, and all ranks. `rank`: the one that looks, of
// this process.
void end_circle(const Board& board, int rank);

// The same for a rank of this process that does not wait, but asks again and again for further steps of the in-port: as
// if it waited. For its sake nothing is let go.
void end_circle_of_poll(const Board& board, int rank, int inport);

// Lets one queue grow for any of the ranks that wait for room, as a circle would that leads over other hosts. False:
// none can.
bool grow(const Board& board);

// Ends the wait of a rank that can go on without what it waits for, as a circle would that leads over other hosts.
// False: there is none.
bool end_wait(const Board& board);

// Ranks that wait for each other for ever.
struct Lasting {
    std::string description;  // a description of them, or "": there are none, or those that wait are going to end it
    queue::Viewed viewed;     // steps that programs can see, for want of whose memory a queue cannot grow
};
Lasting find_lasting(const Board& board);

// A description of ranks that may wait for each other for ever, since nothing has moved for long and not all of their
// threads, or of their tasks' ranks, are known to wait; or "".
std::string find_doubtful(const Board& board);

}  // namespace wilkins
