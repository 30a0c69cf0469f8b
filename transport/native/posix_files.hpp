// Descriptors that lead to steps: which they are, and what reading, writing and closing them means.
//
// A descriptor opened for reading is a real one of the arena's file: whatever reads it natively (streams, mmap, a child)
// sees the step. A descriptor opened for writing is a real one of an empty file in memory (its offset and locks are the
// kernel's), and reads and writes on it are copies to and from the arena. Where a call could go around our wrappers
// (streams, mappings, vectors) that file in memory becomes a scratch file, and is stored as the step at the last close.
#pragma once

#include <mutex>

#include "posix_names.hpp"

namespace wilkins::posix {

inline constexpr int kMostDescriptors = 65536;  // descriptors above cannot lead to steps

// Who opens a file: a C stream, Python (as with open and os.open), or else code of the program or of a library.
enum class Opener { stream, interpreter, program };

// One open file description; shared by descriptors that are duplicates of each other.
class OpenStep {
public:
    OpenStep(StepFile* step, const Match& match, int flags, Opener by);
    OpenStep(const OpenStep&) = delete;
    OpenStep& operator=(const OpenStep&) = delete;

    // pread and pwrite; -1 and errno on failure.
    ssize_t read_at(void* buffer, size_t count, off_t offset);
    ssize_t write_at(const void* buffer, size_t count, off_t offset);
    int resize(off_t size);
    uint64_t size() const;
    void describe(struct stat* st) const;

    // True if the kernel does all the work on this description.
    bool native() const { return scratch_; }
    bool writable() const { return writable_; }
    bool append() const { return append_; }
    const char* name() const { return match_.name; }

    // From now on the kernel does the work; `fd` is any of the description's descriptors. Returns 0, or -1 and errno.
    int use_scratch(int fd);
    // The program closes the last descriptor `fd`: what a scratch file holds is stored, the step is closed. Returns 0 or
    // an errno.
    int finish(int fd);

    // The program wants to be sure that what it has written is stored. Returns 0 or an errno.
    int sync(int fd);

    // The program has done more than look: the step counts as read. Reading a mapping does, always.
    void settle();

    // Nobody will see it read, because it is empty, or a stream: it counts as read now, unless that may be a library's look.
    void settle_unless_looked_at();

    bool mine() const;
    std::atomic<int> references{1};

    enum class Pending { nothing, read, update };
    void set_pending(Pending pending) { pending_ = pending; }

private:
    void count_read(uint64_t offset, size_t count);
    bool may_be_look() const;
    int start_update();
    int store_scratch(int fd);

    std::atomic<StepFile*> step_;
    StepFile* looked_ = nullptr;  // the step of the first look, if it turned out to be another one
    Match match_;
    bool writable_;
    bool append_;
    Opener by_;
    std::atomic<bool> scratch_{false};
    std::atomic<Pending> pending_{Pending::nothing};
    uint32_t reads_ = 0;
    uint64_t read_bytes_ = 0;
    int64_t opened_ns_;
    std::mutex changing_;
};

int64_t wall_clock_ns();

// The description behind a descriptor; nullptr if it leads to no step, or belongs to the process that forked this one.
OpenStep* find(int fd);

// fstat of a step of this name that this process has open (for writing, if `written`); false if it has none.
bool describe_open(const Match& match, bool written, struct stat* st);

// Opens a matching name as open() would; `stream` if a FILE will read it. Returns a descriptor, or -1 and errno.
int open_match(const Match& match, int flags, Opener by);

// Makes `copy`, just duplicated from `fd`, lead where `fd` leads.
void adopt_duplicate(int fd, int copy);

// To be called before the descriptor is closed or replaced: takes it out of the table and, if it is the description's last,
// stores a scratch file and closes the step. Returns 0 or an errno.
int forget(int fd);
// The same for all descriptors from `first` to `last`.
void forget_range(unsigned first, unsigned last);

}  // namespace wilkins::posix
