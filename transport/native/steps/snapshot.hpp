// Snapshots: steps that are copies of a file which its program goes on writing.
#pragma once

#include "steps/step.hpp"

namespace wilkins {

struct AccessKeys;

// The rules of the out-port that an open step belongs to; nullptr for a private copy.
const AccessKeys* keys_of(const StepFile* file);

// Publishes what the file holds now, unless nothing was written since the last time (`again`: also then); may wait for
// room. Returns 0 or an errno. No one else may write to it meanwhile.
int publish_snapshot(StepFile* file, bool again = false);

// A digest of a file that is being closed, to compare with its last snapshot; 0 if there is none. Also says, once per
// port, if what its port's rule waits for was never seen.
uint64_t final_digest(StepFile* file);

// The file as it is now, just opened, is known to its consumers.
void starts_as_snapshot(StepFile* file);

// The parts of an HDF5 file's superblock that change when it is opened to be changed and closed again, whatever is done
// in between, in the order in which they lie there; from `begin` to `end` is the superblock. Empty if it is none.
struct Marks {
    uint64_t begin = 0;
    uint64_t end = 0;
    ByteRange parts[3] = {};
    bool empty() const { return begin == end; }
};
Marks find_marks(const unsigned char* bytes, uint64_t size);

// An HDF5 file that was copied while open for writing says so in its superblock, and could not be opened. Makes it say
// that it was closed. `bytes` may hold anything.
void mark_closed(unsigned char* bytes, uint64_t size);

// A digest of what a file says, as that of its last snapshot is one.
uint64_t digest_of(const unsigned char* bytes, uint64_t size);

// True if the current thread is in a call by which the program flushes an HDF5 file, or in one that the layer makes
// after writes.
enum class Flushing { no, by_program, by_layer };
class FlushCall {
public:
    explicit FlushCall(Flushing what);
    ~FlushCall();
    static Flushing what();
    FlushCall(const FlushCall&) = delete;
    FlushCall& operator=(const FlushCall&) = delete;

private:
    Flushing before_;
};

// True if a flush of this kind publishes a snapshot of the file.
bool publishes(const StepFile* file, Flushing what);

// True if the process has opened a file whose dataset writes count. Costs one load.
bool counts_writes();
// A file was opened to be written.
void note_opened(const StepFile* file);

}  // namespace wilkins
