// Failed opens: they tell a program that ends with its stream from one that fails. Call everything here with the
// board's lock held.
#pragma once

#include "board/board.hpp"

namespace wilkins::queue {

// The task gets a step of this name. `again`: the rank has consumed it, and opens it more often than each step.
void note_consumed_name(const Board& board, int inport, const char* name, bool again);

// True if the task has consumed a step of this name.
bool has_consumed_name(const Board& board, const PortRecord& inport, const char* name);

// The process that asks.
struct Asker {
    int32_t pid, parent;
    int64_t began;  // ns, monotonic
};

// A process of the rank has opened the name, or looked at it, and no step of it will come.
void note_failed_open(const Board& board, int inport, int reader, const char* name, const Asker& by);

// True if the rank's open failed, and it has done nothing since that speaks against its end.
inline bool may_go_on(const FailedOpen& open) { return open.sought != Sought::nothing && open.went_on == WentOn::no; }

// The process goes on after a failed open of its own or of another process of its rank: with a step, or with a file
// that it opens for writing.
void note_went_on(const Board& board, int rank_index, const Asker& by, WentOn how, const char* to);

// The task's last failed open since its last start; or what speaks against taking a failure for the end of its stream:
// a rank that met that and went on to write, or one that met something else. nullptr: it has asked for nothing.
const FailedOpen* last_failed_open(const Board& board, int task);

// True if a loop over a stream would end so.
bool ends_loop(const FailedOpen& open);

}  // namespace wilkins::queue
