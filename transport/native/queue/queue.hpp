// The state machine of steps: who may create, what is published where, which step an open means, when an arena is free.
//
// Functions on a locked board, without waiting and without I/O. wilkins/flow/machine.py is the reference they follow.
#pragma once

#include <vector>

#include "board/board.hpp"

namespace wilkins::queue {

// True if some reading rank still needs the step, or has it open. `pressed`: memory is short, so steps that are kept
// only because a name might be opened again do not count.
bool needed(const Board& board, const SlotRecord& slot, bool pressed);

// True if a handle has the slot's memory mapped, though the step may have been given up.
inline bool is_attached(const SlotRecord& slot) { return slot.peers > 0 || slot.holds > 0; }

// Might a rank open it, though nobody needs it?
bool may_come_again(const Board& board, const SlotRecord& slot);

// True if the rank is done with a step of the source (numbered within its port): it has consumed it or given it up, or
// is idle.
bool is_past(const Board& board, const ChannelRecord& channel, int source, int reader, const SlotRecord& slot);

// True if the rank has opened the step.
bool has_consumed(const Board& board, const ChannelRecord& channel, int source, int reader, const SlotRecord& slot);

// Steps of the source that are published on the channel and fill its queue: in an in-port that is read in order, those
// that some reading rank has not opened; in others, those that none has.
int queued(const Board& board, const ChannelRecord& channel, int source_in_port);

// True if the source can create a step of this name now without breaking a channel's bound.
bool has_room(const Board& board, int source, const char* name);

// How many steps of the source may be on their way to this board, so that at most one of them has to wait for room in a
// queue: between 1 and `most`; 1 if no channel keeps its producer waiting. `last`: the name of the last one that has
// come, which fills no queue if its readers wait for it.
int coming(const Board& board, int source, const char* last, int most);

// True if this channel keeps the source (numbered within its port) from creating a step of this name now.
bool full(const Board& board, const ChannelRecord& channel, int source_in_port, const char* name);

// True if a living process changes what lies on disk of the slot's file. It does so without the board's lock: the file
// system may not answer. Until it is done nobody else takes the slot. If it dies, the claim means nothing any more: a
// slot that holds no file is free to take, and a closed file is withdrawn, since nobody knows what it is called (see
// settle_claims).
bool claimed(const Board& board, const SlotRecord& slot);

// A slot for a new step: free, or published and no longer needed. Prefers arenas that have memory and that no program
// can see, and of steps that could be opened again by name keeps what fits (see kRetained); of these, the one opened
// least recently goes first. -1 if there is none.
int take_slot(const Board& board, int source, bool pressed);

// Lets go of the oldest step with absent bytes that is here only because its name might be opened again, if the source
// may not have memory for one more. False: there is none.
bool let_go_lazy(const Board& board, int source);

// Memory that a port, or all (port < 0), have in steps that nobody needs, but which programs can see (see
// board/views.hpp).
struct Viewed {
    int steps = 0;
    uint64_t bytes = 0;
};
Viewed count_viewed(const Board& board, int port);

// Takes the slot's step away from everyone; its arena's memory stays.
void clear_slot(const Board& board, int slot);

// A rank asks for a step of the in-port that is not there: where one can come by a relay on demand, it does.
void want(const Board& board, int inport);

// A relay that brings steps on demand is to bring one: a reader wants it, and there is room for one of that name.
bool is_wanted(const Board& board, int outport, const char* name);

// A task that reads the out-port has not ended.
bool is_read(const Board& board, int outport);

// Before a relay: true if it does not get the step of this name, nor will. Behind it: the board hears of that, so that
// the name is missing for readers there, and not waited for; true if it knows, or if the step has come.
bool is_left_out(const Board& board, int inport, const char* name);
void note_left_out(const Board& board, int outport, const char* name);
bool knows_left_out(const Board& board, int outport, const char* name);

// A written step becomes visible. Applies each channel's policy and rings the readers.
void publish(const Board& board, int slot);

struct Found {
    int slot = -1;
    int link = -1;  // which of the in-port's channels
    bool unread = false;
    bool chosen = false;    // the name means it because the rank has taken it in order
    bool passed = false;    // the name was published and is gone for this rank: it will not come
    uint32_t position = 0;  // in the log of an in-port with a fixed name
};

// The step that rank `reader` gets if it opens `name` on the in-port now.
Found find(const Board& board, int inport, int reader, const char* name);

// The step of a name under wildcards that the rank has consumed, if it is still there and its source has not written
// the name again so far. An open may have to wait until it is known whether that is what it gets; to a look or a
// listing, the file is there.
bool find_consumed(const Board& board, int inport, int reader, const char* name, int* slot);

// A rank that opens a name again, of which it has consumed a step, waits until it is known whether another one comes.
// `may_settle`: true if the wait can be given up, so that the name means the consumed step, or one that is gone.
// `is_settled`: true if it is, until the rank opens a step.
bool may_settle(const Board& board, int inport, int reader, const char* name);
bool is_settled(const Board& board, int inport, int reader, const char* name);
void settle_name(const Board& board, int inport, int reader, const char* name);

// The rank asks for a name that two sources of the in-port have published. Then the run fails, as it does if the second
// one publishes it only later.
bool asks_for_double(const Board& board, int inport, int reader, const char* name);

// The source has published the name: what its readers must know of it beyond its steps.
void remember_for_readers(const Board& board, SourceRecord& source, const char* name);

// Ranks of a part of the task have opened a step together (MPI-IO): the others do not read the port, until they do.
void opened_in_part(const Board& board, int inport, int ranks);

// The rank has read nothing of a port that a part of its task reads together, and opens one only now that steps, which
// it would have read too, are gone.
bool comes_late(const Board& board, int inport, int reader, const Found& found);

// Rank `reader` opens what `find` returned. In order, it is past all earlier steps; by name, past those that another
// rank has consumed.
void take(const Board& board, int inport, int reader, const Found& found);

// Where the channel keeps all steps: a step that was published before the one that the rank has opened, that no rank
// has consumed, and of whose name one has consumed an older step; -1: there is none.
int newer_behind(const Board& board, int inport, int slot);

// Rank `reader` opens the step that another rank of its task has chosen.
void follow_lead(const Board& board, int inport, int reader, int slot);

// Rank `reader` removes the name: the step of it that it has opened last, else the next one it would open. So a
// consumer that reads a file and removes it loses nothing that the producer has published meanwhile. False if there is
// no such step.
bool let_go(const Board& board, int inport, int reader, const char* name);

// The rank takes its next step, whatever the name: of the steps it has not got to, the one published first, so that the
// order is the same on all ranks. Until it asks again or leaves, the step's name means this step. -1: there is none
// now. `polled`: it is the answer to a question (see poll).
int choose(const Board& board, int inport, int reader, bool polled = false);

// The slot of the step that the rank would choose, or -1; whether there is one.
int next_choice(const Board& board, int inport, int reader);
bool has_choice(const Board& board, int inport, int reader);

// A rank asks for its next step without waiting: is there one to choose, none now, or none any more? The n-th question
// of every rank of a task has the same answer, which is found when the first of them asks.
enum class Answer { step, none, ended };
Answer poll(const Board& board, int inport, int reader);

// The rank was given its next step.
void note_given(const Board& board, PortRecord& inport, int reader, bool polled);

// This process got to a step of the rank's. Notes whether processes of one rank do so by turns: each misses the others'
// steps.
void note_process(const Board& board, PortRecord& inport, int reader);

// A started program has asked nothing yet.
void forget_questions(const Board& board, PortRecord& inport);

// The rank is done with the step that it has chosen last, if it is this one, before it asks for the next.
void finish(const Board& board, int inport, int reader, int slot);

// True if the rank has opened the one step for which its program was started. There is no next one for it.
bool has_its_step(const Board& board, int inport, int reader);

// The rank is done with what it has opened on the in-port.
void leave(const Board& board, int inport, int reader);

// The rank turns to the next step. What it has opened is kept like any other step that it might open again by name.
void turn(const Board& board, int inport, int reader);

// No rank of the in-port's task opens the step by its name any more, whether it has consumed it or not: the name means
// another file.
void pass_by(const Board& board, int inport, int slot);

// True if another step can still be published for this in-port.
bool can_produce(const Board& board, int inport);

// The newest whole step of this place (see SlotRecord::place_hash), or of this name if the place is not known (0), that
// the task itself published through the out-port, or -1.
int find_own(const Board& board, int outport, const char* name, uint64_t place = 0);

// The file of this place that a process of the task has open for writing, or -1.
int find_written(const Board& board, int outport, uint64_t place);

// A step of this place, also an unfinished one, that a rank of the task other than `rank` has made and that is still
// needed; -1 if there is none.
int find_clash(const Board& board, int outport, int rank, uint64_t place_hash);

// True if the source has published a step of this name.
bool in_history(const Board& board, const SourceRecord& source, const char* name, int components);

// True if the producer would find the name on a disk: published by the source, and not removed since.
bool exists(const Board& board, const SourceRecord& source, const char* name);

// The slot's memory is about to be a later step's.
void note_let_go(const Board& board, int slot);

// No rank has consumed the step, and none is going to have it from memory: a circle of waits would have lasted for
// ever.
void note_given_up(const Board& board, const ChannelRecord& channel, const SlotRecord& slot);

// A rank has consumed the step from the disk after all.
void note_consumed_late(const Board& board, int inport, const char* name);

// In an in-port that is read in order, of which every step is kept: did that happen to the last step that was published
// up to then? `last`: the last one of those that are there, or -1.
bool is_last_gone(const Board& board, const PortRecord& inport, int last, uint64_t published);

// Whether that happened to a step of this name, which could have been opened again, since the start of the in-port's
// task; and whether a rank has consumed it. Not if the task has removed the name, or its producer rewrites names.
enum class LetGo { no, unread, read };
LetGo let_go_of(const Board& board, const PortRecord& inport, const char* name);

// The number of names of the in-port's producers to which it happened.
uint64_t count_let_go(const Board& board, const PortRecord& inport);

// A rank of the in-port's task has removed the name. Has one, and was the name not written since?
void note_removed(const Board& board, int inport, const char* name);
bool is_removed(const Board& board, const PortRecord& inport, const char* name);

// A step of this name is published for the in-port: what was removed or let go under it is of no account.
void note_named(const Board& board, PortRecord& inport, const char* name);

// True if a producer of the in-port has published the name in this run.
bool was_published(const Board& board, const PortRecord& inport, const char* name);

// The step is published: the file of its number on disk, if it has one, holds it.
void note_file(const Board& board, const SlotRecord& slot);

// True if the file of this number holds a step of this name that a producer of the in-port has published in this run.
bool is_step_file(const Board& board, const PortRecord& inport, const char* name, uint64_t inode);

// The producer removes a name. What it has published stays for its consumers. `withdraw`: it does not; what no rank has
// opened never comes. `unfinished`: what is being written under this name is not published either. False if the task
// has no step of this name.
bool remove_own(const Board& board, int outport, const char* name, uint64_t place, bool withdraw,
                bool unfinished = true);

// The stamps of the files of this name that are being written. They lose the name when another file has taken it: their
// program goes on with them, and nobody else ever sees them.
std::vector<uint64_t> find_unfinished(const Board& board, int outport, const char* name, uint64_t place);
void lose_name(const Board& board, int outport, const char* name, uint64_t place, const std::vector<uint64_t>& stamps);

// What a step is to the readers of its port, which find it under another name when its program renames it.
struct Carried {
    int source = -1;  // -1: there is no such step
    bool keeps_name = false;
    std::vector<uint8_t> consumed;  // of each channel, whether some rank has consumed it, and of each of its ranks
};

// That of the task's own step of this name, which is about to be withdrawn and to have the name `next`. Until `moved`,
// readers wait for that.
Carried moves(const Board& board, int outport, const char* name, uint64_t place, const char* next);

// The file under its new name, which its program has not closed yet: ranks that have consumed the step have consumed
// this one.
void carry(const Board& board, int slot, const Carried& from);
void moved(const Board& board, const Carried& from);

// This process, of the rank, opened a published step; `process` let go of it. `add_hold` fails if shared memory is
// full.
bool add_hold(const Board& board, int rank_index, int slot);
void drop_hold(const Board& board, int rank_index, int slot, uint32_t process);

// The next part of a rank's holds, or nullptr; whether a process of the rank has the slot open, and how many steps they
// all have.
Holds* more_holds(const Board& board, const Holds& part);
bool holds(const Board& board, RankRecord& rank, int slot);
// True if a rank of the task has the step open.
bool is_held_in(const Board& board, int task, int slot);
int count_holds(const Board& board, int rank);

// The task's program ended: holds, waits and unfinished steps of its ranks are gone; `clean`: but closed files are
// published. Final: see docs/developers/design.md. `discarded` is called for each closed step that is not published.
void task_started(const Board& board, int task, bool one_step = false);
// The step that each rank of the task has opened last, since its start, comes again at the next one, as if nobody had
// consumed it. False: one of them is gone.
bool give_again(const Board& board, int task);
// The task reads on behind the in-port's next step, as if each of its ranks had opened it; false: there is none now.
bool pass_step(const Board& board, int inport);
// The rank's next step on the out-port has this number again: its task is started anew, and makes steps that it has
// published.
void go_back(const Board& board, int outport, int rank, uint64_t sequence);
void task_exited(const Board& board, int task, bool final, bool clean = true,
                 void (*discarded)(const Board& board, const SlotRecord& slot) = nullptr);

// The step the in-port's task would read next, or -1.
int next_step(const Board& board, int inport);

// True if nobody gives up the step before its producers have ended (see kept_to_end).
bool waits_for_series(const Board& board, const SlotRecord& slot);

// True if such steps take all the source's slots.
bool full_of_series(const Board& board, int source);

// The rank's program lists the steps of the in-port that are there; `whole`: all that will ever be. Returns the last
// publication that it may show: the n-th listing of every rank shows the same ones.
uint64_t begin_listing(const Board& board, int inport, int reader, bool whole);

// Whether what the task has read since its last start is what it had listed before; whether it was shown all that there
// ever will be.
struct ReadAsListed {
    bool some;
    bool whole;
};
ReadAsListed read_as_listed(const Board& board, int task);

// Most steps of one source that one rank has opened since the task was last started.
uint32_t steps_opened(const Board& board, int task);

}  // namespace wilkins::queue
