// The step store as the rest of the native layer sees it: names lead to steps, steps are read and written through
// StepFile.
//
// Everything here may be called from any thread. Nothing throws. Errors are errno values; the reason for one is in the
// run's log (see board/context.hpp). Waiting calls can be interrupted by signals and release Python's GIL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/folder.hpp"
#include "names/going_on.hpp"
#include "names/match.hpp"
#include "steps/step.hpp"

namespace wilkins {

// True if the name is a port's here and now (see find_match). Of a name that a stage passes on, this decides which of
// its two ports it is.
bool match_name(const char* name, Match* match, Purpose purpose = Purpose::ask);

// Opens a step for the given intent. On failure returns nullptr and sets *error. Waits for room (producers) and for
// data (consumers). Reading a name at the end of its stream fails with ENOENT. `communicator_size` is the number of
// ranks that will share a step being created (1: this rank alone); only the lead calls this, the others attach.
StepFile* open_step(const Match& match, Intent intent, int communicator_size, int* error);

// The program is in MPI_Finalize from now on, or not any more.
void leave_mpi(bool leaves);

// The process ends by itself, with this exit status. If it stands for a rank of a stage, and has not failed, what the
// rank has left is passed on.
void end_rank(int status);

// For stat, access, H5Fis_accessible: is there a file of this name? Of a name that the task only reads this waits as an
// open would, and takes nothing; store/looks.cpp says where it answers at once. Returns 0, ENOENT, or EINTR as a wait
// does.
int await_look(const Match& match, Look* look);

// The same, and opens the step to be looked into; it does not count as read.
StepFile* open_look(const Match& match, int* error);

// For calls that ask what is there now: is there an unread or still held step of this name, and how long is it? Never
// waits.
bool lookup_step(const Match& match, uint64_t* size, uint64_t* identity, int64_t* published_ns);

// True if ranks of the task on other hosts have written a file of this name of its own.
bool find_elsewhere(const Match& match, Look* look);

// True if this producer's files are on disk too. Then its own looks at them are looks at the disk.
bool on_disk(const Match& match);

// True if the steps of a name that the task reads are files on the disk, and nothing else.
bool is_file(const Match& match);

// True if the file of the disk goes when a program removes this name. A consumer removes what it has read, never an
// archive, and never the file of a later step.
bool may_remove_file(const Match& match);

// False only if no listing of any folder has to do with steps. Costs no system call and no allocation.
bool any_may_hold_steps();

// False only if no listing of the folder (none: one that is not there) has to do with steps. Costs no system call and
// no allocation.
bool may_hold_steps(const Folder& folder);

// A folder as a program names it when it lists it.
class Listed {
public:
    // `path` is normalised. Looks at the disk.
    Listed(std::string path, const Folder& folder);

    // Looks again whether the folder is there.
    void look_again();

    // The folder above the directories of the in-port's pattern, and those above that; without one that is there, if
    // this folder is not called like these directories, or is not there.
    Bases bases_for(const PortRecord& inport) const;

    std::string path;
    Folder folder;

private:
    std::vector<std::pair<int, Bases>> bases_;  // of an in-port each, where its pattern has directories
};

// What a folder has to do with steps.
enum class Content {
    nothing,
    files,   // steps were begun there, none of them for this task to read
    steps,   // in-ports of the task hold there
    perhaps  // no producer has begun a file there, but one has begun none at all yet
};

Content content_of(const Listed& listed);

// True if in-ports of the task name folders in it by wildcards, such as `step*/data.h5`.
bool leads_to_steps(const Listed& listed);

// Waits until a first step, or with `listing: end` the end, of the in-ports that hold in the folder is there, unless
// the program has to be answered at once. `perhaps`: also where a producer that has begun no file may yet do so.
void await_listing(Listed& listed, bool perhaps);

// A step as a listing shows it: the name within the folder, and its number, which stat of the name shows, too.
struct ListedStep {
    std::string name;
    uint64_t identity;
    bool is_folder = false;
    bool is_in_set = false;  // a file of a step of several
};

// The steps that an open by a name in this folder would lead to: what this rank may still read of others, and what its
// task has written there itself and not removed. `by_program`: this listing tells the program what there is to read.
std::vector<ListedStep> list_steps(const Listed& listed, bool by_program);

// What there is to tell a program that waits for files in this folder: the steps that its rank may read there and has
// not consumed, in the order of publication; of which in-port, whose bell rings for the next, or several.
// `found_nothing`: the program still waits, after the last ones.
struct News {
    std::vector<ListedStep> steps;
    int inport = -1;
    bool several = false;
    uint32_t bell = 0;
};

News list_unread(const Listed& listed, bool found_nothing);

// True if an open would not lead to the disk's file of a matching name in this folder. `stored_as`: the number that
// stat tells of one that holds a step which memory has let go of; else 0.
bool is_covered(const Listed& listed, const Match& match, uint64_t* stored_as);

// The same of a name that is one in a step of a folder or of several files.
bool covers_set(const Listed& listed, const Match& match, bool is_folder);

// The producer's own view: removes a published or written step of this name that this task made (H5Fdelete, unlink).
// For a consumer: lets go of the step. Returns 0, ENOENT, or EINTR as a wait does. `unfinished`: a file that is being
// written loses its name, too.
int remove_step(const Match& match, bool unfinished = true);

// The same for the calls that delete a file by name (H5Fdelete, MPI_File_delete): where the producer's files are on
// disk, that one is deleted and its absence an error.
int delete_file(const Match& match);

// A producer cuts a file of its own to nothing, to begin it again. What was complete is published and stays so, and the
// name is that of an empty file. Returns 0, ENOENT, EINTR as a wait does, or EAGAIN for a closed file, which is to be
// written on.
int begin_again(const Match& match);

// Renames a step this task is about to publish or has published: `from` is published under the name `to`. Returns 0 or
// an errno.
int rename_step(const Match& from, const Match& to);

// The name under which the disk has a file of the task's that is being written, if there is one and no other has the
// name yet.
bool name_on_disk(const Match& match, char* out, size_t room);

// The task's files of this name that are being written (see queue::find_unfinished), and that they have lost it to
// another file.
std::vector<uint64_t> find_unfinished(const Match& match);

void lose_name(const Match& match, const std::vector<uint64_t>& unfinished);

// The file of a step that this task is about to publish or has published has another name now, and is going to be
// published under that.
void withdraw_step(const Match& match);

// The program has given a folder another name: so have the task's files on disk in it and below. Returns the old names
// of those in memory, which have to be renamed one by one, in the order in which they were begun. Both names are
// normalised.
std::vector<std::string> move_folder(const char* from, const char* to);

}  // namespace wilkins
