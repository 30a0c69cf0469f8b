// An open step, and how its handles end. Errors are errno values; nothing throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "board/look.hpp"
#include "board/step_token.hpp"
#include "names/match.hpp"

namespace wilkins {

// One open step: a kept mapping of its arena, and the role this process plays for it.
class StepFile {
public:
    // Copies. Blocks never written read as zeros; so does everything past the end.
    void read(uint64_t offset, void* buffer, size_t count);
    // Returns 0 or an errno (ENOSPC, EFBIG, EBADF for a read-only step). Extends eof.
    int write(uint64_t offset, const void* buffer, size_t count);

    uint64_t eof() const;
    // Shrinking makes what is cut off read as zeros should the file grow again. Returns 0 or an errno.
    int set_eof(uint64_t size);
    // Memory up to `size`. Where that is more than there is, it comes for all of `likely` in one go, the size that the
    // file will reach as far as its writer knows. Returns 0 or an errno.
    int reserve(uint64_t size, uint64_t likely = 0);

    // For transfers that bypass read/write (typed MPI copies): makes [offset, offset+count) valid memory in data(),
    // zeroing stale blocks. `prepare_write` reserves space and extends eof, and may assume that the range will be
    // written without gaps, which saves the zeroing of whole blocks.
    int prepare_write(uint64_t offset, uint64_t count, bool without_gaps);
    void prepare_read(uint64_t offset, uint64_t count);
    unsigned char* data() const;
    // True if bytes of it may be on other hosts; then those that are going to be read come faster if all are requested
    // at once.
    bool may_lack() const;
    void bring(const std::vector<ByteRange>& ranges);
    // Ranks on another host have written these bytes, whole sectors, and have them there (see steps/homes.hpp). Returns
    // 0 or an errno.
    int put(uint64_t offset, uint64_t count, uint64_t host);

    // True if the step is in another host's memory. Then the copies of `read` and `write` may be under way until
    // `settle`, which returns 0 or the errno of the first that failed; there is no `data`, and no descriptor.
    bool is_far() const;
    int settle();
    // Has the file for this process's rank alone (F_WRLCK), or with others that read (F_RDLCK), or gives it back
    // (F_UNLCK). Returns 0 or an errno.
    int lock(short kind);

    // A descriptor of the arena's file, owned by the store: do not close it.
    int descriptor() const;
    // Equal for two StepFiles exactly if they are the same step (or the same private copy).
    uint64_t identity() const;
    bool writable() const;
    const char* name() const;
    StepToken token() const;

    struct State;
    State* state = nullptr;
};

// Attaches another rank of the task, or another handle, to a step that its lead opened (for writing or for reading).
// `name`: as this rank calls it.
StepFile* attach_step(const StepToken& token, bool writable, const char* name, int* error);

// The same for a rank on another host than its lead: the server of files there (`where`) does what the rank asks.
// `said`: the file's name as it is said to that.
StepFile* attach_far(const char* where, const StepToken& token, bool writable, const Match& match, const char* said,
                     int* error);

// For programs that want the file as memory: a copy of a far step, which goes back when it is closed. Closes `far`.
StepFile* borrow_far(StepFile* far, int* error);

// The true last close in this process. The opener of a written step publishes it, an attached rank only lets go (so
// the lead must close last, after a barrier). A reader's hold on the step ends.
void close_step(StepFile* file);

// Lets go of a step that this process has begun, without closing it: others will publish it (see steps/inherited.hpp).
void leave_step(StepFile* file);

// The process ends by itself, not by a signal: what it has closed and not published is for others of its task to go on
// with.
void hand_over_closed();

// It does not end after all: another program was to take the process, and could not.
void take_back_closed();

// Gives up a step that this process created and has not published: it never existed for consumers.
void discard_step(StepFile* file);

}  // namespace wilkins
