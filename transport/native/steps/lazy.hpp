// Published steps of which bytes are absent here until somebody reads them: they were made on another host, or ranks on
// others have written them.
//
// The relay that publishes a step from another host says where its bytes are, and has it kept there
// (steps/kept_elsewhere.hpp). A reader that comes to absent bytes gets them from there, into the arena, for all readers
// of its host. Which are absent, a table tells (steps/homes.hpp); of blocks of which nothing is, the arena's own table
// does.
#pragma once

#include <vector>

#include "board/step_token.hpp"
#include "steps/homes.hpp"

namespace wilkins::lazy {

// Brings what is absent of these bytes; the first time also what this process is expected to read, by one question.
// Returns 0 or an errno, which the handle keeps.
int bring(StepFile::State* state, const homes::Range* ranges, size_t count);

// The handle is about to go: what was read by it is expected to be read of the next step.
void note_read(StepFile::State* state);

// The hosts that have the bytes of a step which its server lacks.
struct Elsewhere {
    char lead[kAddressMax];          // where the server of the host is on which the step was made
    std::vector<homes::Host> hosts;  // those that have parts of it, by number from 1 on
    std::vector<homes::Run> runs;    // none: the server has all
};

// Makes a step lazy that is being written and has memory for all its bytes: only those in `here` have come. `where`:
// its host gives the others, and calls it `token`. Returns 0 or an errno.
int publish_absent(const StepFile& step, const std::vector<homes::Range>& here, const StepToken& token,
                   const char* where, const Elsewhere& elsewhere);

// The slot is about to hold another step: what was read of the last one is known now, if that was lazy.
void note_use(int slot, const std::atomic<uint8_t>* blocks);

// What is expected to be read of the next such step of this process.
const std::vector<homes::Range>& last_used();

}  // namespace wilkins::lazy
