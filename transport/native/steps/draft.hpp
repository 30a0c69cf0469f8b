// What a task that only reads a step changes of it.
//
// Until a byte changes, the step is read; what HDF5 writes as it opens and closes a file is no change. From then on it
// is a file of the task's own on the disk, under the name that the program gave, like all that a task makes (see
// names/match.cpp). Under a name that means the next step at each open nobody would find it there: then it has none,
// and the run tells of it.
#pragma once

#include <mutex>
#include <vector>

#include "steps/snapshot.hpp"

namespace wilkins {

struct Process;

class Draft {
public:
    // `step`: that is read, and the draft's from now on.
    Draft(StepFile* step, const Match& match);
    ~Draft();
    Draft(const Draft&) = delete;
    Draft& operator=(const Draft&) = delete;

    uint64_t size();
    void read(uint64_t offset, void* buffer, uint64_t count);
    // 0, or the errno for which the step could not be read.
    int settle() const;
    // These return 0 or an errno.
    int write(uint64_t offset, const void* bytes, uint64_t count);
    int resize(uint64_t size);
    // All of it, at once, unless that says the same as the step.
    int replace(const unsigned char* bytes, uint64_t size);

    // A descriptor of the file, for who writes it where nobody sees that; only `end` tells then whether anything has
    // changed. -1 and errno.
    int descriptor();
    // The same, which is the caller's: the draft has it no longer open.
    int take_descriptor();
    // The last handle in this process is closed. `others`: other processes, or mappings, have the file still open for
    // writing. `fd`: reads it, if the draft has it no longer open.
    void end(bool others, int fd = -1);
    // It is another program's from now on.
    void leave();

    // True if it is a file of its own by now, and which one.
    bool is_file(uint64_t* device, uint64_t* inode);
    uint64_t identity() const;

private:
    struct Place {
        char whole[kNameMax];  // the name from the root on
        int inport;
        int slot;
        uint64_t stamp;
        uint64_t device, inode;  // of the file
        uint64_t digest;         // of the step
        bool named;              // the task finds the file by its name
        bool on_disk;            // it has a name at all

        bool is(const Place& other) const {
            return device == other.device && inode == other.inode && slot == other.slot && stamp == other.stamp;
        }
    };

    static std::vector<Place>& left;  // to other processes, or to mappings

    static void keep(const Place& place);
    static bool is_as_before(const Place& place, int fd);
    static void drop(const Place& place);
    friend void settle_drafts();

    bool is_made();
    bool is_change(uint64_t offset, const unsigned char* bytes, uint64_t count);
    bool is_nothing(uint64_t from, uint64_t to);
    int make();
    int make_known();
    int join();
    int store(const Process& process);
    int store_named(const Process& process, bool* stale);
    int fill(int fd);
    void tell_lost();

    std::mutex mutex_;
    StepFile* step_;
    Place place_{};
    uint64_t size_;
    Marks marks_;
    std::vector<unsigned char> block_;  // the superblock, as HDF5 has left it
    int fd_ = -1;
    bool made_ = false;
    bool changed_ = false;  // for sure
    bool reported_ = false;
    bool ended_ = false;
    uint32_t seen_ = 0;  // files that the task had made when it was last asked whether this is one
};

// Files that were left to mappings and other processes: those that are still as the step was are gone once nobody can
// change them.
void settle_drafts();

}  // namespace wilkins
