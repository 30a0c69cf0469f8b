// Steps that are lent: they were made on another host, and blocks of them are absent here until somebody reads them.
//
// The relay that publishes such a step says where its bytes are, and keeps it there (store/kept_elsewhere.hpp). A reader that comes to
// an absent block gets it from there, into the arena, for all readers of its host.
#pragma once

#include <vector>

#include "store/step_file.hpp"

namespace wilkins::lent {

// Whole blocks of a file, in bytes.
struct Range {
    uint64_t begin;
    uint64_t end;  // UINT64_MAX: to the end of the file, however long that is
};

// Brings what is absent of these bytes. Returns 0 or an errno, which the handle keeps.
int bring(StepFile::State* state, uint64_t offset, uint64_t count);

// Lends a step that is being written and that has memory for all its bytes: only those in `here` have come. `where`: its host gives
// the others, and calls it `token`.
void lend(const StepFile& step, const std::vector<Range>& here, const StepToken& token, const char* where);

// The slot is about to hold another step: what was read of the last one is known now, if that was lent.
void note_use(SlotRecord& slot, const std::atomic<uint8_t>* blocks);

// What was read of the last such step of this process.
const std::vector<Range>& last_used();

}  // namespace wilkins::lent
