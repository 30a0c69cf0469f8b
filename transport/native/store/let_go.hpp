// Steps that memory has let go of: where a port's files are on disk, too, they are read from there, as long as the file
// of a name is the one that this run has published. Else whoever opens one ends the run, since no program can tell what
// it misses.
#pragma once

#include <optional>

#include "board/process.hpp"
#include "queue/queue.hpp"
#include "queue/alias.hpp"
#include "steps/step.hpp"

namespace wilkins {

// A file on disk that holds a step.
struct Stored {
    OnDisk file;
    char path[kNameMax];
};

// That of this name. The lock is given back while the disk is asked.
std::optional<Stored> find_stored(const Process& p, const Match& match, Board::Lock& lock);

// The same, of a name that memory has let go of since its task's start.
std::optional<Stored> find_let_go(const Process& p, const Match& match, Board::Lock& lock);

// The place in the order of publication of a step that is read from the disk: it is not known.
inline constexpr uint64_t kPublishedEarlier = UINT64_MAX;

// Opens that file; nullptr with ENOENT: another one has its name by now.
StepFile* open_stored(const Match& match, const Stored& stored, int* error);

// The rank opens a name that its task has read, and neither memory nor the disk has its step: ends the run. Returns the
// errno. Call with the lock held.
int refuse_let_go(const Process& p, const Match& match, bool looks_into = false);

// A library opens the in-port's name by itself, out of a step, and memory has no step of it.
StepFile* open_gone_within(const Match& match, int* error);

// The same, where memory has steps of it, but not the one that belongs to the file: ends the run. Returns the errno.
// Call with the lock held.
int refuse_gone_within(Process& p, const Match& match, Board::Lock& lock);

// A library opens a name of no port by itself, out of a step, and it is not on disk: ends the run if a producer of the
// task has published it, to others or to nobody. Returns the errno.
int refuse_untaken_within(const char* name);

// The same for a name of the task's own: ends the run if the task has written it and memory has let go of it. Returns
// the errno.
int refuse_own_within(const Match& match);

}  // namespace wilkins
