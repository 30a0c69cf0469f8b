// What the first open of an in-port by a rank is answered with, so that a cycle of tasks can begin (see
// AccessKeys::first).
#pragma once

#include "board/process.hpp"
#include "names/match.hpp"

namespace wilkins {

// How the rank's next open of the in-port by this name, or a look at it, is answered: First::wait means by a step. An
// open that is not counts as (one of) the first; so do looks, once the rank has gone on to other steps since the first
// look: a program that asks whether a file is there, and does without, will not open it. Call with the board's lock
// held.
First answer_first(const Process& process, int inport, const char* name, bool opens);

// True if the rank's first open of the in-port, which no step answers, is yet to come. It changes nothing.
bool before_first(const Process& process, int inport);

// True if the disk answers for the name now. For calls that only read; `opens` as above. Takes the board's lock.
bool answered_by_disk(const Match& match, bool opens);

// The rank takes part in an open that another rank of its task has answered: it counts for this one too, so that later
// looks of all ranks are answered alike. Takes the board's lock.
void follow_first(const Match& match);

// While it lives, this thread's names are those of plain files.
class PassThrough {
public:
    explicit PassThrough(bool active);
    ~PassThrough();
    PassThrough(const PassThrough&) = delete;
    PassThrough& operator=(const PassThrough&) = delete;

private:
    bool before_;
};
bool passing_through();

}  // namespace wilkins
