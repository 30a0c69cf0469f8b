// When the file that a program has closed is published, and until then, who may find it and go on with it.
//
// Functions on a locked board, without waiting, as those of queue/queue.hpp.
#pragma once

#include "board/board.hpp"

namespace wilkins::queue {

// True while its program is not done with it: it is written, or closed and not yet published.
inline bool unfinished(const SlotRecord& slot) {
    return slot.state == SlotState::writing || slot.state == SlotState::closed;
}

// The program has closed the file: it is published, or is closed until then. `digest`: of its content, if its port
// takes snapshots; a file that is as its last snapshot is not published once more. `keep_back`: the task's actions will
// say when.
void close_slot(const Board& board, int slot, uint64_t digest, bool keep_back = false);

// The task's closed file of this name or place, whichever rank closed it last, or -1. `state`: or in another state.
int find_closed(const Board& board, int outport, const char* name, uint64_t place, SlotState state = SlotState::closed);

// A file that its program has closed without a byte in it is held until the rank turns to another file, waits for what
// only its readers can bring, or ends. Publishes those of the rank, of all its out-ports, but for that of a place.
void publish_empty(const Board& board, int task, int rank, uint64_t but_place = 0);
// True if the rank, for which all wait, has such files, or, in a stage, files of a process that has ended. `lives`: the
// processes of others have not. The other function publishes them.
bool has_idle(const Board& board, int task, int rank, bool lives);
void publish_idle(const Board& board, int task, int rank, bool lives);
// Publishes such files of the task (-1: of all) that are a second old: they are markers, for which somebody may wait.
// Returns how many are younger.
int publish_long_empty(const Board& board, int task);

// The source's program turns to the file of this place: those that are closed until then are published.
void turn_to(const Board& board, int source, uint64_t place);

// Publishes the port's closed files that a process of the rank is done with, or has left behind by its end.
void pass_on(const Board& board, int outport, int rank, bool (*is_done)(const SlotRecord& slot));

// True if closed files take all slots that the source could begin another step in.
bool full_of_closed(const Board& board, int source);

// Gives up the source's oldest file that is kept back. False if there is none.
bool drop_kept_back(const Board& board, int source);

// Makes sure of memory for the names of the source's unfinished files. False: shared memory is full.
bool make_room_for_names(const Board& board, SourceRecord& source);

// The process ends by itself, not by a signal: it may leave what it has closed to others of its task. `ends`: false if
// it does not end after all.
void hand_over(const Board& board, int task, uint32_t process, bool ends);

using Discarded = void (*)(const Board& board, const SlotRecord& slot);

// Withdraws the port's closed files whose process was killed, since it may have been about to add to them; but for that
// of a place. Calls `discarded` for each of those.
void withdraw_abandoned(const Board& board, int outport, uint64_t but_place, Discarded discarded);

// True if a living process is renaming a closed file of the port. Withdraws those that a process was renaming when it
// died, and calls `discarded` for each.
bool settle_claims(const Board& board, int outport, Discarded discarded);

// Takes a closed file from everyone: it was never published.
void withdraw(const Board& board, int slot);

// The task's program has ended: its closed files are published, or discarded after a failure. Calls `discarded` for
// each of those.
void end_closed(const Board& board, int task, bool clean, Discarded discarded);

}  // namespace wilkins::queue
