// What the files of the step store (store/store.hpp) share.
#pragma once

#include "queue/vain_opens.hpp"
#include "store/step_file.hpp"

namespace wilkins {

// The hash of the absolute path: where the process is, is asked once for a match, which is of one call.
uint64_t place_of(const Match& match);


// The step's name is that of a file as seen from the process's folder now. Call with the lock held.
void note_cwd(const Board& board, SlotRecord& slot);
// `place`: that of the name, if it is known.
StepFile* make_file(Role role, int slot, const Mapping& mapping, uint64_t identity, const char* name, uint64_t place = 0);
void free_file(StepFile* file);

// A step that the launcher has given up (its program was said to have ended) is no longer this process's to finish.
inline bool is_writing(const SlotRecord& slot, uint64_t stamp) { return slot.state == SlotState::writing && slot.stamp == stamp; }

// For disk::settle: where a run may be gone on with, the trace tells what is about to lie under the program's name.
void note_file(const Board& board, int slot, const char* hidden, const char* path, uint64_t inode);

// The step never existed.
void give_up(const Process& p, int index, uint64_t stamp);

// The process begins a file: those that it leaves open to its end are going to be published in the order in which they were begun.
void note_begun();

// Waits until no other call of the task's is renaming a file of the out-port on disk. Returns 0, or EINTR as a wait does (see waiting/wait.hpp).
int await_renames(Process& p, int outport, Board::Lock& lock);

StepFile* create(const Match& match, Intent intent, int* error);

// The program is about to make the file anew (O_TRUNC): an empty one that it has made in this way before was a step, not the beginning of one.
void finish_made_anew(const Match& match);
void note_made_anew(const StepFile* file);

// Goes on with a file that rests, or with a new step that starts as a copy of one this task published.
StepFile* continue_own(const Match& match, int* error);

// The name from the root on. False if it is not known, or too long.
bool make_whole(const char* name, char (&out)[kNameMax]);

// A file of the out-port is begun: its readers know where it is. `folder`: that of the name.
void note_begun(const Process& p, int outport, const char* name, const Folder& folder);

// A folder, or a file in it, as sets of names keep it: without digits, which they take for numbers.
struct Key {
    char text[49];
};
Key key_of(const Folder& folder, const char* file = "");

// Has a task made a file of this name itself, one that is called like a step which it reads?
bool has_made(const Process& p, int task, const char* name);

// The out-port of which a producer of the in-port has published this name; nullptr if none has. Call with the lock held.
const PortRecord* published_by(const Board& board, int inport, const char* name);

// For readers on another host: what it is for a folder, as this host knows it, and for those above it if the pattern holds there, too (`deep`).
Held holds_for_others(const char* folder, bool deep);

// Does the in-port's task start in the folder, or one of its producers?
bool starts_in(const Process& p, const PortRecord& inport, const Folder& folder);

// Does the program, for what it says a name, wait until a producer has begun files in its folder? Call with the lock held.
bool awaits_folders(const Process& p, int inport, Purpose purpose);

// This process, to say who has asked for a step in vain.
queue::Asker asker();

// It goes on, if it has: with a step, or with a file that it writes. Call with the lock held.
void note_went_on(const Process& p, WentOn how, const char* to);

// A rank beyond the port's readers has no mark to move.
bool may_read(const Board& board, int inport, int rank);

// `ranks`: of the task, that open it together.
StepFile* read_step(const Match& match, Intent intent, int ranks, int* error);

// Who reads: an HDF5 library of the process, or what reads descriptors (nullptr). `among_several`: of such libraries.
struct Library {
    const void* identity;
    bool among_several;
};

// Opens a step to read it, or to look at it, by a call of the program's: the step that its other libraries have had last, if this one has
// not, else the next one.
StepFile* open_to_read(const Match& match, const Library& library, int* error);
StepFile* open_to_look(const Match& match, const Library& library, int* error);

// A look at a name of which there is no further step: does it mean the last one, which a library that reads the others has not had?
bool look_at_last(const Match& match, uint64_t* size, uint64_t* identity, int64_t* published_ns);

// A library opens the in-port's name by itself, out of a step that was published as this one of the run: the step of the name that belongs
// to it. That is the newest one published before it; where the first was published after it, the next one after.
StepFile* open_within(const Match& match, uint64_t published, int* error);

// Another handle on a published step; nullptr: it is gone.
StepFile* hold_again(int slot, uint64_t stamp, const char* name, int* error);

// Another handle on a step that is open for reading, so that it stays.
StepFile* hold_too(const StepFile& file, int* error);

// The rank has so many steps open that there is no memory to note one more. Ends the run; returns the errno. Call with the
// board's lock held.
int too_many_open(const Process& p, const char* name);

// Opens a step that this task itself published and that is still whole. Where its files are on disk, that is what the
// program alone would read.
StepFile* reread_own(const Match& match, int* error);

// The bytes of an open file, as memory of the process's own.
StepFile* copy_of_file(int fd, const char* name, int* error);
// Opens a file of the disk, which the program calls by this name.
StepFile* read_disk(const char* path, const char* name, int* error);

// Turns a reader's step into one that it may change: what it changes is kept (see store/draft.hpp). The second has it in memory meanwhile.
StepFile* to_draft(StepFile* from, const Match& match, int* error);
StepFile* to_draft_in_memory(StepFile* from, int* error);

// Turns a reader's step into memory of its own, which it may change, and nobody else sees.
StepFile* private_copy(StepFile* from, int* error);

// A descriptor by which the file can be read as it is now; -1 with errno. Owned by the store, as `descriptor` is.
int descriptor_to_read(StepFile* file);

// Says in the run's log that a file rested and is not going to be published.
void log_discarded(const Board& board, const SlotRecord& slot);

// The reader's hold on its step ends, if it has not. Call with the board's lock held.
void end_hold(const Process& p, StepFile::State* state);

// A peer's part in the step ends.
void end_peer(SlotRecord& slot, uint64_t stamp);

}  // namespace wilkins
