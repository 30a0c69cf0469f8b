// Where the bytes of a step are that has some on other hosts: where ranks have written them (far/part.hpp), or from
// where a relay has made the step lazy (steps/lazy.hpp).
//
// A table beside the arena has an entry for each sector of the file. All that read or write the arena ask it first,
// where any entry was set since the step was begun: what is absent is brought, and what is written here is here. So
// there is one order of writes, that in which the table changes.
#pragma once

#include <vector>

#include "far/runs.hpp"
#include "steps/step_file.hpp"

namespace wilkins::homes {

inline constexpr uint8_t kUnread = 255;  // here, and nobody has read it
inline constexpr uint8_t kComing = 251;  // on its way, see begin_to_come
inline constexpr int kMostHosts = 250;   // that can have bytes of one step; ranks on others write to the arena's

// Begins and ends with a sector, or with the file. The end UINT64_MAX is that of the file, wherever that is.
using Range = ByteRange;

// True if bytes of the step can be elsewhere.
inline bool any(const SlotRecord& slot) { return slot.lazy.sectors.load(std::memory_order_acquire) != 0; }

// A host that has, or is going to have, bytes of the step. `where`: its server of files.
struct Host {
    char where[kAddressMax];
    bool has_step;  // what it gives is the step as it has it; else a part
};

// The number of the host with this server, which the step gets if it has none. `lead`: the server of the host on which
// the step is made. -1: there are too many hosts, or there is no memory for the table.
int number_of(int slot, const char* where, const char* lead, bool has_step);

// By number; nullptr: there is none.
const Host* host(int slot, uint64_t number);
std::vector<Host> hosts(int slot);

// Where the server of the host is on which the step is made.
const char* lead(int slot);

// Ranks on the host have written these bytes, whole sectors, there. The arena has memory for them. Returns 0 or an
// errno.
int put(StepFile::State* state, uint64_t number, uint64_t offset, uint64_t count);

// These bytes are about to be written here; `whole`: all of them. Returns 0 or an errno.
int take(StepFile::State* state, uint64_t offset, uint64_t count, bool whole);

// The file ends with this byte now: of what was behind it, nothing is elsewhere. Returns 0 or an errno.
int cut(StepFile::State* state, uint64_t size);

// Brings what is absent of these bytes. `entry`: kHere or kUnread, for those that were. Returns 0 or an errno.
int bring(StepFile::State* state, const Range* ranges, size_t count, uint8_t entry = kHere);

// The step is about to be published with bytes elsewhere: marks its absent blocks. False: it has none, or so scattered
// ones that they should be brought first.
bool scatter(StepFile::State* state);

// For a lazy step: all its sectors are as the runs say, but for `here`, which have come and are unread; runs of no host
// are on that of number 1. Returns how many bytes are absent.
uint64_t lay_out(StepFile::State* state, const std::vector<Run>& runs, const std::vector<Range>& here);

// The step is about to be published while all its bytes come, in order: who asks for some waits for them. Returns 0 or
// an errno.
int begin_to_come(StepFile::State* state);

// All before this one have come, at the end of the file all.
void note_come(const StepFile::State* state, uint64_t end);

// False: the step's bytes come, and not all before this one are here.
inline bool has_come(const SlotRecord& slot, uint64_t end) {
    return slot.lazy.comes.load(std::memory_order_acquire) == 0 ||
           slot.lazy.come.load(std::memory_order_acquire) >= end;
}

// The runs of the step, up to its end.
std::vector<Run> runs_of(int slot, uint64_t begin, uint64_t end);

// What of these ranges is here.
std::vector<Range> here_among(int slot, const std::vector<Range>& ranges, uint64_t size);

// What was read of a lazy step, also when its slot has been freed.
std::vector<Range> read_of(int slot, const std::atomic<uint8_t>* blocks);

// The slot is about to hold another step: all of it will be here.
void clear(int slot);

}  // namespace wilkins::homes
