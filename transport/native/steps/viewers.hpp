// Programs that can see the memory of steps which nobody needs any more (see board/views.hpp): they make views, and are
// found by them.
#pragma once

#include <string>

#include "steps/step_file.hpp"

namespace wilkins::viewers {

// The descriptor of the step's file is the program's from now on: for as long as anything has its description, the
// memory holds no other step. Returns 0 or an errno. The step is open.
int show(const StepFile& step, int fd);

// The program has opened the step by its name, to read it. Of many that it has open at once the board need not know:
// those opened before so many others are kept by pages of theirs.
void note_opened(const StepFile* file);

// Has anything but the program's descriptor its description? It has one of its own afterwards.
bool is_shared(int fd);

// Bytes that the descriptor leads to are about to be queued in `to`: unless that is a file, which copies them, as the
// pages that hold them.
void note_sent(int from, int to);
// The same of memory from this address on, which may be of any step that programs can see.
void note_sent(const void* address);

// Steps open to be read are the child's, too, which is about to be forked: it gets a page of each. `child`: the call is
// in it.
void before_fork();
void after_fork(bool child);

// Who can see steps of the run, in words for people. Call without the board's lock.
std::string names(const Board& board);

// While a writer waits for memory of steps that programs can see.
class Watch {
public:
    // True if some may come free. Not if those that can see it wait, too, or sleep. Call without the board's lock.
    bool may_end();
    // True if there are some that do not wait for files. A rank that goes on may wake them.
    bool any_asleep() const { return asleep_; }
    // Who they are, as `names` tells.
    const char* names() const { return names_.c_str(); }

private:
    std::string names_;
    int64_t next_ = 0;    // look, ns, monotonic
    int64_t since_ = 0;   // when all that can see any were first found to wait,
    uint64_t times_ = 0;  // or to sleep, after so many times before
    bool asleep_ = false;
};

}  // namespace wilkins::viewers
