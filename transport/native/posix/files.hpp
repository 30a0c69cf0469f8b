// Descriptors that lead to steps: which they are, and what reading, writing and closing them means.
//
// A descriptor opened for reading is a real one of the arena's file: whatever reads it natively (streams, mmap, a
// child) sees the step. A descriptor opened for writing is a real one of a file in memory that has no name, in which
// the kernel's own reads and writes are right: what it holds at the last close is the step. From the first write of a
// page or more that comes by our wrappers, or after some smaller ones, it is emptied, and reads and writes are copies
// to and from the arena, as fast as a memory copy. It gets all back, for good, when the program turns to a call that
// goes past the wrappers (streams, mappings, vectors, other processes); or when it is found not to be empty, because
// something unseen has written to it. Whether it is empty is asked before each read, before a write only after every
// megabyte, and at the close.
#pragma once

#include <cstdint>
#include <mutex>

#include "posix/names.hpp"
#include "posix/recent.hpp"

namespace wilkins::posix {

inline constexpr int kMostDescriptors = 65536;  // descriptors above cannot lead to steps

// Who opens a file: a C stream, Python (as with open and os.open), or else code of the program or of a library.
enum class Opener { stream, interpreter, program };

// The file in memory behind the descriptors of a step that is written.
struct KernelFile {
    std::atomic<int> references{1};      // descriptions
    std::atomic<bool> takes_all{false};  // it holds the step's bytes, not the arena
    std::atomic<bool> handed{false};     // for good: others may write it, too
    std::atomic<uint64_t> trickled{0};   // bytes written by our calls, a few at a time
    bool joint = false;  // it is that of a file which others write (see steps/joined.hpp): this description
    std::atomic<bool> others{false};  // only reads it, so far
    bool named = false;               // others that join find it
    uint64_t inode = 0;
    RecentWrites recent;  // copies made to the arena
    std::mutex changing;
};

// One open file description; shared by descriptors that are duplicates of each other.
class OpenStep {
public:
    // `file`: of a step that is to be written, and this description's then.
    OpenStep(StepFile* step, const Match& match, int flags, Opener by, KernelFile* file);
    ~OpenStep();
    OpenStep(const OpenStep&) = delete;
    OpenStep& operator=(const OpenStep&) = delete;

    // pread and pwrite; -1 and errno on failure.
    ssize_t read_at(void* buffer, size_t count, off_t offset);
    ssize_t write_at(const void* buffer, size_t count, off_t offset);
    int resize(off_t size);
    uint64_t size();
    void describe(struct stat* st);

    // True if the kernel does all the work on this description; `fd`: one of its descriptors. Finds out what has
    // reached the step past our calls, and keeps it.
    bool native(int fd);
    // The same of a write, for which what has reached the step otherwise may be found out later.
    bool writes_natively(int fd);
    bool writable() const { return writable_; }
    bool append() const { return append_; }
    const char* name() const { return match_.name; }
    const Match& match() const { return match_; }
    // The program has renamed the file, perhaps.
    void follow_name(const Match& from, const Match& to);

    // So many bytes are about to be written by our calls: if it is a page or more, or there have been some, these do
    // the work from now on, unless it was handed over.
    void speed_up(int fd, size_t count);
    // The program is about to write: where something else of the task writes the file, too, both write the same bytes.
    // Returns 0, or -1 and errno.
    int begin_to_write(int fd);
    // From now on the kernel does the work; `fd` is any of the description's descriptors. Returns 0, or -1 and errno.
    int hand_over(int fd);
    // A process is about to be started that gets the descriptor.
    void hand_to_child(int fd);
    // The lead's handle on the file of this name, if that was only made by this description, which has another handle
    // then.
    StepFile* give_lead(const Match& match, int fd);
    // The program closes the last descriptor `fd`, which leads elsewhere from then on: what the kernel holds is stored,
    // the step is closed, or left to those who still have it open. Returns 0 or an errno.
    int finish(int fd);

    // True of a file of the disk, with which the layer has nothing more to do.
    bool is_ordinary() const { return ordinary_; }

    // Another program is about to take this process, with the descriptor; or could not take it.
    void leave_to_next(int fd);
    void take_back();

    // The program wants to be sure that what it has written is stored. Returns 0 or an errno.
    int sync(int fd);

    // The program has done more than look: the step counts as read. Reading a mapping does, always.
    void settle();

    // Nobody will see it read, because it is empty, or a stream: it counts as read now, unless that may be a library's
    // look.
    void settle_unless_looked_at();

    bool mine() const;
    // Of the process that forked this one: is it a step of which that has let go?
    bool is_published_without_fork() const;
    bool is_draft() const;
    bool same_step(const StepFile* step) const;
    // True if its name was removed since it was opened.
    bool has_lost_name() const;
    bool takes_all() const { return file_->takes_all; }
    bool waits() const { return pending_ == Pending::update; }
    bool may_write() const { return file_ && !file_->joint; }
    // The kernel's file holds the bytes of the file that is being written, or does so no longer: others that join read
    // them there.
    void note_holder(int fd);
    // A C stream writes by it, whose calls are not seen. Returns 0, or -1 and errno.
    int hand_to_stream(int fd);
    // Shares the file behind the description of another one of the same step.
    KernelFile* share_file();
    std::atomic<int> references{1};

    // Where our calls have left the kernel's offset. What has moved it beyond has read or written past them.
    void note_offset(off_t offset) { offset_ = offset; }
    off_t offset() const { return offset_; }
    // A read at the end found nothing: the program has read all.
    void note_end();

    enum class Pending { nothing, read, update };
    void set_pending(Pending pending) { pending_ = pending; }
    void note_fork() { forked_ = true; }

private:
    void count_read(uint64_t offset, size_t count);
    bool may_be_look() const;
    bool was_read_past(int fd) const;
    bool is_left_to_others(int fd);
    int start_update();
    void follow_changes();
    StepFile* join_written(int* error);
    int follow(const StepFile* step, int leaving = -1);
    int leave_kernel_file();
    int leave_stale_copy(int fd, bool begins);
    bool was_moved(int leaving = -1);
    void lead_to(int other);
    int take_over(int fd);
    int copy_to_kernel(int fd);
    int any_descriptor() const;
    int fail_changed_twice() const;
    void tell_lost(int error) const;
    bool leads() const;
    bool is_of_lead(const StepFile::State* state) const;
    bool give_to_arena();
    int finish_joined(int fd);
    int turn_to_own(int fd);
    int finish_draft(int fd);
    int merge(int fd, uint64_t written);
    int store(int fd);
    int finish_written(int fd);
    bool is_untouched(int fd) const;
    bool was_written_past(int fd);
    bool leads_here(int fd) const;
    bool is_shared(int fd) const;
    int note_changed(int fd);
    void pass_lead();

    std::atomic<StepFile*> step_;
    StepFile* looked_ = nullptr;  // the step of the first look, if it turned out to be another one
    Match match_;
    bool readable_;
    bool writable_;
    bool append_;
    Opener by_;
    KernelFile* file_;
    std::atomic<Pending> pending_{Pending::nothing};
    std::atomic<off_t> offset_{0};
    uint32_t reads_ = 0;
    uint64_t read_bytes_ = 0;
    int64_t opened_ns_;
    std::atomic<int64_t> closes_{
        -1};               // of the file, when the kernel got a copy of it for a process that may change that
    bool left_ = false;    // to the program that is about to take the process
    bool forked_ = false;  // a fork has got the descriptor
    std::atomic<bool> ordinary_{false};  // it is a file of the disk, with which the layer has nothing more to do
    std::mutex changing_;
};

int64_t wall_clock_ns();

// True if any descriptor leads to a step.
bool has_entries();

// ftruncate of any descriptor.
int resize_open(int fd, off_t size);

// The description behind a descriptor; nullptr if it leads to no step, or belongs to the process that forked this one.
OpenStep* find(int fd);

// A forked process writes by a descriptor: says in the log, once for each, if the step was published without that (see
// steps/holders.hpp).
void note_late(int fd);

// fstat of a step of this name that this process has open (for writing, if `written`); false if it has none.
bool describe_open(const Match& match, bool written, struct stat* st);

// Opens a matching name as open() would; `stream` if a FILE will read it. Returns a descriptor, or -1 and errno.
int open_match(const Match& match, int flags, Opener by);

// The program begins the file of this name anew, which one of its descriptors has made without writing to it: the step
// that it is to write. That descriptor counts only once it writes. nullptr: there is none.
StepFile* take_lead(const Match& match);

// The program has given a file that it may be writing another name.
void follow_name(const Match& from, const Match& to);

// A process is about to be started: the kernel does the work on all that is written, for it may get the descriptors.
void hand_all_to_child();

// The kernel does the work on the descriptor from now on, for a call that moves bytes past our wrappers. Returns 0, or
// -1 and errno.
int hand_over(int fd);

// Another program takes this process, and with it the descriptors of what is written; or could not take it.
void leave_all();
void take_back_all();

// The process ends without exit handlers: the kernel closes what it has open, so that is closed here.
void end_process();

// The program lets go of a mapping: a step that was only written through it may be whole now.
void note_unmapped();

// While HDF5 reads a dataset: the files that it opens meanwhile hold parts of it. Costs no call.
class DatasetRead {
public:
    // What opens such a file, of a name of an in-port.
    using Open = StepFile* (*)(const DatasetRead& read, const Match& match, int* error);

    DatasetRead(int64_t dataset, const void* caller, Open open);
    ~DatasetRead();
    DatasetRead(const DatasetRead&) = delete;
    DatasetRead& operator=(const DatasetRead&) = delete;

    // The one that this thread is in; nullptr: none.
    static const DatasetRead* now();

    const int64_t dataset;
    const void* const caller;
    const Open open;

private:
    const DatasetRead* const before_;
};

// open, of any name; `caller`: whose call it is.
int open_name(int dirfd, const char* path, int flags, mode_t mode, const void* caller);

// openat2, which headers before Linux 5.6 and the GNU C library 2.43 lack.
constexpr long kOpenat2 = 437;
struct OpenHow {
    uint64_t flags, mode, resolve;
};
int open_restricted(int dirfd, const char* path, const OpenHow* how, size_t size, const void* caller);

// True of such a name, of whichever process.
bool names_descriptor(const char* path);

// The descriptor that a name below /proc or /dev stands for, or -1; the same of one that leads to a step.
int named_descriptor(const char* path);
int step_descriptor(const char* path);

// Makes `copy`, just duplicated from `fd` or opened by its path below /proc, lead where `fd` leads.
void adopt_duplicate(int fd, int copy);

// To be called before the descriptor is closed or replaced: takes it out of the table and, if it is the description's
// last, closes the step. Returns 0 or an errno.
int forget(int fd);
// The same for all descriptors from `first` to `last`.
void forget_range(unsigned first, unsigned last);

}  // namespace wilkins::posix
