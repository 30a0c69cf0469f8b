// What is behind an open step.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "board/process.hpp"
#include "steps/draft.hpp"
#include "far/far_file.hpp"
#include "steps/step.hpp"

namespace wilkins {

enum class Role {
    lead,      // created it; publishes it by closing
    peer,      // writes into a step that another rank, or another handle, created
    reader,    // reads a published step and holds it
    draft,     // a consumer that opened for writing
    own_copy,  // ... and has it in memory of its own until it closes it
    snapshot,  // copies a step that is being written; publishes the copy by closing
    on_disk,   // the program's own file on disk, to be read
    far,       // writes into a step in another host's memory, which another rank created
};

struct StepFile::State {
    Role role = Role::reader;
    int slot = -1;                 // -1 for draft, own_copy, on_disk and far
    std::unique_ptr<Draft> draft;  // of a draft; of an own_copy that is to be kept
    std::unique_ptr<FarFile> far;
    int outport = -1;               // of a far one
    std::unique_ptr<FarFile> home;  // of own_copy: where it goes back to when it is closed
    Mapping mapping;
    uint64_t identity = 0;
    uint64_t size = 0;     // of those two, and of a step that is read
    int failed = 0;        // the errno that made the step incomplete, seen through this handle
    uint32_t process = 0;  // that opened it
    mutable int fd = -1;
    std::atomic<bool> held{true};  // of a reader: on the board; else by this page, or this is a fork of who holds it
                                   // (see steps/viewers.hpp)
    void* page = nullptr;
    bool by_name = false;  // the program has opened it by its name: it keeps itself once others were opened after it
    uint64_t inode = 0;    // of its file, then
    uint64_t place = 0;    // hash of the absolute path
    uint32_t dataset_writes = 0;  // that count for its port's rule, through this handle
    bool flushed = false;         // through this handle, in a way that publishes
    uint64_t published = 0;       // place of the step that is read in the order of publication; 0: none is
    std::vector<std::unique_ptr<FarFile>>
        servers;  // where absent bytes come from, by number of the host, for the process `connected_by`
    uint32_t connected_by = 0;
    bool lazy = false;                              // reads a step of which bytes may be absent
    std::vector<ByteRange> read;                    // of such a one, what was asked for,
    std::atomic<bool> expected{false};              // and what was read of the last one has been brought
    std::vector<uint32_t> sums;                     // of the blocks of a step that is read, if its port is checked,
    std::unique_ptr<std::atomic<bool>[]> compared;  // and which of these have been found to be right
    std::atomic<bool> mended{false};                // some were not, and were mended
    bool summed = false;                            // of one that is written: its checksums came with it
    bool joined = false;  // of a peer: has joined a file that is being written (see steps/joined.hpp),
    bool wrote = false;   // and written to it
    struct Own {
        int slot = -1;
        uint64_t stamp = 0;
    } own;                // the task's own file that it reads, where that is in memory,
    uint32_t closes = 0;  // and how often it had been closed then; of one that has joined, too
    bool again = false;   // reads a step that the program holds already: its close is no event
    char name[kNameMax] = {};
    State* next = nullptr;
    State* previous = nullptr;

    // True if what is read has to be brought, or compared, before it is looked at.
    bool reads_by_asking() const { return lazy || compared; }
    // True in the process that opened it, not in a fork of it.
    bool mine() const;
    // True if another process has renamed the file, which this one has joined.
    bool is_renamed(const SlotRecord& now) const;
};

// A step that the launcher has given up (its program was said to have ended) is no longer this process's to finish.
inline bool is_writing(const SlotRecord& slot, uint64_t stamp) {
    return slot.state == SlotState::writing && slot.stamp == stamp;
}

// Waits for memory in which the board remembers the name of the step that is being written. Returns 0 or an errno.
int make_room_for_name(const StepFile* file);

}  // namespace wilkins
