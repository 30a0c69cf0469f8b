// The StepFiles that this process has open.
#pragma once

#include "steps/step_file.hpp"

namespace wilkins {

// The step's name is that of a file as seen from the process's folder now. Call with the lock held.
void note_cwd(const Board& board, SlotRecord& slot);

// `place`: that of the name, if it is known.
StepFile* make_file(Role role, int slot, const Mapping& mapping, uint64_t identity, const char* name,
                    uint64_t place = 0);

void free_file(StepFile* file);

// A second handle on the step of this name that this process has open for writing (`written`), or that it reads;
// nullptr, if there is none.
StepFile* find_open(const Match& match, bool written);

// A handle that keeps the memory of the step of this name that this process has open for writing. It writes only for
// the others: when those are closed, the step is published.
StepFile* find_written(const Match& match);

// What this process has open of a file that is being written has this name from now on.
void rename_open(int slot, uint64_t stamp, const char* name, uint64_t place);

// True if this process has a draft of this name open. Costs one load where it has none.
bool has_draft(const char* name);

// Counts one write to a dataset of the file of this name, which this process has open for writing. True for every
// `every`-th.
bool count_write(const char* name, uint32_t every);

}  // namespace wilkins
