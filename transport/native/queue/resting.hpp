// When the file that a program has closed is published, and until then, who may find it and go on with it.
//
// Functions on a locked board, without waiting, as those of queue/queue.hpp.
#pragma once

#include "board/board.hpp"

namespace wilkins::queue {

// Its program is not done with it: being written, or closed and resting.
inline bool unfinished(const SlotRecord& slot) { return slot.state == SlotState::writing || slot.state == SlotState::resting; }

// The program has closed the file: it is published, or rests until it is. `digest`: of its content, if its port takes
// snapshots; a file that is as its last snapshot is not published once more. `keep_back`: the task's actions will say when.
void close_slot(const Board& board, int slot, uint64_t digest, bool keep_back = false);

// The task's resting file of this name or place, whichever rank closed it last, or -1. `state`: or in another state.
int find_resting(const Board& board, int outport, const char* name, uint64_t place, SlotState state = SlotState::resting);

// A file that its program has closed without a byte in it rests until the rank turns to another file, waits for what only its readers can
// bring, or ends. Publishes those of the rank, of all its out-ports, but for that of a place.
void publish_empty(const Board& board, int task, int rank, uint64_t but_place = 0);
// Has the rank, of which all wait, such files, or of a stage those that a process has left which is over? `lives`: others are not. And publishes
// them.
bool has_idle(const Board& board, int task, int rank, bool lives);
void publish_idle(const Board& board, int task, int rank, bool lives);
// Publishes such files of the task (-1: of all) that have rested for a second: they are markers, for which somebody may wait. How many rest
// for less.
int publish_long_empty(const Board& board, int task);

// The source's program turns to the file of this place: those that rest until then are published.
void turn_to(const Board& board, int source, uint64_t place);

// Publishes the port's files that rest and with which a process of the rank is done, or which one has left that is over.
void pass_on(const Board& board, int outport, int rank, bool (*is_done)(const SlotRecord& slot));

// Is every slot that keeps the source from beginning another step taken by a resting one?
bool full_of_resting(const Board& board, int source);

// Gives up the source's oldest file that is kept back. False if there is none.
bool drop_kept_back(const Board& board, int source);

// Makes sure of memory for the names of the source's unfinished files. False: shared memory is full.
bool make_room_for_names(const Board& board, SourceRecord& source);

// The process ends by itself, not by a signal: it may leave what it has closed to others of its task. `ends`: false if it does not
// end after all.
void hand_over(const Board& board, int task, uint32_t process, bool ends);

using Discarded = void (*)(const Board& board, const SlotRecord& slot);

// Withdraws the port's files that rest though the process that closed them was killed, since it may have been about to add to
// them; but for that of a place. Calls `discarded` for each of those.
void withdraw_abandoned(const Board& board, int outport, uint64_t but_place, Discarded discarded);

// Is a living process renaming a file of the port that rests? Withdraws those that a process was renaming when it died, and calls
// `discarded` for each.
bool settle_claims(const Board& board, int outport, Discarded discarded);

// Takes a resting file from everyone: it was never published.
void withdraw(const Board& board, int slot);

// The task's program has ended: what rests is published, or discarded after a failure. Calls `discarded` for each of those.
void end_resting(const Board& board, int task, bool clean, Discarded discarded);

}  // namespace wilkins::queue
