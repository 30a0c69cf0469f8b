// The step store as the rest of the native layer sees it: names lead to steps, steps are read and written through StepFile.
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
#include "base/patterns.hpp"
#include "board/look.hpp"

namespace wilkins {

// A name that matches at least one memory port of this process's task.
struct Match {
    int outport = -1;         // index into the board's ports, or -1: this task does not produce the name
    int inport = -1;          // likewise for consuming it
    bool made = false;        // no port's: the task makes a file of its own that is called like one of an in-port's, for the first time
    char name[kNameMax] = {}; // normalised: no "./", no "//", no "a/../"
    mutable uint64_t place = 0;  // once it was asked for (see place_of)
    mutable bool makes = false;  // it is opened by a mere reader that makes a file of its own if there is no step of the name
    bool by_descriptor = false;  // a file that is begun is going to be opened as one of the kernel's, which others join
};

// What a program asks for when it opens a name.
enum class Intent {
    read,              // O_RDONLY
    update,            // O_RDWR on a name that must exist
    create,            // O_CREAT | O_TRUNC
    create_exclusive,  // O_CREAT | O_EXCL
    create_missing,    // O_CREAT alone on a name that was missing: EEXIST if it is not any more
    open_or_create,    // O_RDWR | O_CREAT without O_TRUNC
    look,              // waits until a step is there, but does not count as reading it (magic bytes before H5Fopen)
};

// Identifies a step being written so that other ranks of the same task can attach to it. Plain bytes: may be broadcast.
struct StepToken {
    int32_t slot;
    int32_t arena;
    uint64_t stamp;
};

// Bytes of a file.
struct ByteRange {
    uint64_t begin;
    uint64_t end;
};

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
    // Memory up to `size`. Where that is more than there is, it comes for all of `likely` in one go, the size that the file will reach as
    // far as its writer knows. Returns 0 or an errno.
    int reserve(uint64_t size, uint64_t likely = 0);

    // For transfers that bypass read/write (typed MPI copies): makes [offset, offset+count) valid memory in data(),
    // zeroing stale blocks. `prepare_write` reserves space and extends eof, and may be told that the range will be
    // written without gaps, which saves the zeroing of whole blocks.
    int prepare_write(uint64_t offset, uint64_t count, bool without_gaps);
    void prepare_read(uint64_t offset, uint64_t count);
    unsigned char* data() const;
    // May bytes of it be on other hosts? Then those that are going to be read come faster if all are told of at once.
    bool may_lack() const;
    void bring(const std::vector<ByteRange>& ranges);
    // Ranks on another host have written these bytes, whole sectors, and have them there (see store/homes.hpp). Returns 0 or an errno.
    int put(uint64_t offset, uint64_t count, uint64_t host);

    // Is the step in another host's memory? Then the copies of `read` and `write` may be under way until `settle`, which returns 0 or the
    // errno of the first that failed; there is no `data`, and no descriptor.
    bool is_far() const;
    int settle();
    // Has the file for this process's rank alone (F_WRLCK), or with others that read (F_RDLCK), or gives it back (F_UNLCK). Returns 0 or an errno.
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

// Does an in-port hold in a folder? Not yet, if a producer may still begin its first file there.
enum class Held : uint64_t { no, not_yet, yes };

// Why a program says a name.
enum class Purpose {
    ask,     // it wants to know something of the name, now
    look,    // is there such a file?
    read,    // opens it to read
    update,  // opens it to change it
    create,  // makes it anew
    put,     // gives the name to another file
};

// True, and fills `match`, if the name is that of a memory port of this task, where that holds (store/match.cpp). No name costs an
// allocation, and one that no port's pattern matches costs no system call. To look or to open may wait until a producer of the
// in-port has begun a file, if only that tells whether its files are in this folder. Always false in a process that is not part of a run.
bool match_name(const char* name, Match* match, Purpose purpose = Purpose::ask);

// The same for ports whose steps are folders, or several files: of any of those the match has the name of the step.
bool match_set(const char* name, Match* match, Purpose purpose);

// The program has made a file of this name on disk (it has renamed one to it); there is none any more, or it could not be made.
void note_made(const char* name);
void forget_made(const char* name);

// The process has changed its folder.
void note_moved();

// While the program makes a folder. Its files there are steps from the first one on; until that is begun, readers that open one by name wait for it.
class FolderMaking {
public:
    FolderMaking();
    ~FolderMaking();
    FolderMaking(const FolderMaking&) = delete;
    FolderMaking& operator=(const FolderMaking&) = delete;

    // It is there now.
    void done(const char* name);

private:
    bool active_;
};

// False only if no port of this task has a name that ends like this one. Costs a comparison of last components.
bool could_match(const char* name);

// False only if no file in a folder that is called like this one, or below it, has a name of the task's out-ports. Costs a comparison of
// components.
bool could_hold_steps(const char* folder);

// Opens a step for the given intent. On failure returns nullptr and sets *error. Waits for room (producers) and for data
// (consumers). Reading a name at the end of its stream fails with ENOENT. `communicator_size` is the number of ranks
// that will share a step being created (1: this rank alone); only the lead calls this, the others attach.
StepFile* open_step(const Match& match, Intent intent, int communicator_size, int* error);

// The program has opened a file of the disk for writing: if it fails, that is not since its input has ended.
void note_written(const char* name);

// Has this task's program, in what it asked for last, met the end of a stream as a loop does?
bool met_end();

// The program is in MPI_Finalize from now on, or not any more.
void leave_mpi(bool leaves);

// Attaches another rank of the task, or another handle, to a step that its lead opened (for writing or for reading). `name`:
// as this rank calls it.
StepFile* attach_step(const StepToken& token, bool writable, const char* name, int* error);

// The same for a rank on another host than its lead: the server of files there (`where`) does what the rank asks. `said`: the
// file's name as it is said to that.
StepFile* attach_far(const char* where, const StepToken& token, bool writable, const Match& match, const char* said, int* error);

// For programs that want the file as memory: a copy of a far step, which goes back when it is closed. Closes `far`.
StepFile* borrow_far(StepFile* far, int* error);

// The true last close in this process. The opener of a written step publishes it, an attached rank only lets go (so
// the lead must close last, after a barrier). A reader's hold on the step ends.
void close_step(StepFile* file);

// Lets go of a step that this process has begun, without closing it: others will publish it (see store/inherited.hpp).
void leave_step(StepFile* file);

// The process ends by itself, not by a signal: what it has closed and not published is for others of its task to go on with.
void hand_over_resting();

// It does not end after all: another program was to take the process, and could not.
void take_back_resting();

// The process ends by itself, with this exit status. If it stands for a rank of a stage, and has not failed, what the rank has left is passed on.
void end_rank(int status);

// Gives up a step that this process created and has not published: it never existed for consumers.
void discard_step(StepFile* file);

// For stat, access, H5Fis_accessible: is there a file of this name? Of a name that the task only reads this waits as an open would, and takes
// nothing; store/looks.cpp says where it answers at once. Returns 0, ENOENT, or EINTR as a wait does.
int await_look(const Match& match, Look* look);

// The same, and opens the step to be looked into; it does not count as read.
StepFile* open_look(const Match& match, int* error);

// For calls that ask what is there now: is there an unread or still held step of this name, and how long is it? Never waits.
bool lookup_step(const Match& match, uint64_t* size, uint64_t* identity, int64_t* published_ns);

// Have ranks of the task on other hosts written a file of this name of its own?
bool find_elsewhere(const Match& match, Look* look);

// Are this producer's files on disk too? Then its own looks at them are looks at the disk.
bool on_disk(const Match& match);

// Are the steps of a name that the task reads files on the disk, and nothing else?
bool is_file(const Match& match);

// Does the file of the disk go when a program removes this name? A consumer removes what it has read, never an archive, and
// never the file of a later step.
bool may_remove_file(const Match& match);

// False only if no listing of any folder has to do with steps. Costs no system call and no allocation.
bool any_may_hold_steps();
// False only if no listing of the folder (none: one that is not there) has to do with steps. Costs no system call and no allocation.
bool may_hold_steps(const Folder& folder);

// A folder as a program names it when it lists it.
class Listed {
public:
    // `path` is normalised. Looks at the disk.
    Listed(std::string path, const Folder& folder);

    // Looks again whether the folder is there.
    void look_again();

    // Where a program would have started that calls this folder by the directories of the pattern.
    Folder start_of(const char* pattern) const;

    std::string path;
    Folder folder;

private:
    std::vector<std::pair<int, Folder>> above_;  // by how many levels, where a pattern of the task has directories
};

// What a folder has to do with steps.
enum class Content {
    nothing,
    files,   // steps were begun there, none of them for this task to read
    steps,   // in-ports of the task hold there
    perhaps  // no producer has begun a file there, but one has begun none at all yet
};
Content content_of(const Listed& listed);
// Do in-ports of the task name folders in it by wildcards, such as `step*/data.h5`?
bool leads_to_steps(const Listed& listed);

// Waits until a first step, or with `listing: end` the end, of the in-ports that hold in the folder is there, unless the program has to be
// answered at once. `perhaps`: also where a producer that has begun no file may yet do so.
void await_listing(Listed& listed, bool perhaps);

// A folder that the disk does not have: if it is one in which an in-port's pattern has files, waits until it is there, as a look at such a file
// would. Returns whether it is. Names of no such folder cost a comparison.
bool await_folder(const char* name);

// A step as a listing shows it: the name within the folder, and its number, which stat of the name shows, too.
struct ListedStep {
    std::string name;
    uint64_t identity;
    bool is_folder = false;
    bool is_in_set = false;  // a file of a step of several
};

// The steps that an open by a name in this folder would lead to: what this rank may still read of others, and what its task has
// written there itself and not removed. `by_program`: this listing tells the program what there is to read.
std::vector<ListedStep> list_steps(const Listed& listed, bool by_program);

// What there is to tell a program that waits for files in this folder: the steps that its rank may read there and has not had, in the order of
// publication; of which in-port, whose bell rings for the next, or several. `in_vain`: the program still waits, after the last ones.
struct News {
    std::vector<ListedStep> steps;
    int inport = -1;
    bool several = false;
    uint32_t bell = 0;
};
News list_unread(const Listed& listed, bool in_vain);

// Is the disk's file of a matching name in this folder not what an open would lead to? `stored_as`: the number that stat tells of one that holds
// a step which memory has let go of; else 0.
bool is_covered(const Listed& listed, const Match& match, uint64_t* stored_as);

// The same of a name that is one in a step of a folder or of several files.
bool covers_set(const Listed& listed, const Match& match, bool is_folder);

// The producer's own view: removes a published or written step of this name that this task made (H5Fdelete, unlink).
// For a consumer: lets go of the step. Returns 0, ENOENT, or EINTR as a wait does. `unfinished`: a file that is being written loses its name, too.
int remove_step(const Match& match, bool unfinished = true);

// The same for the calls that delete a file by name (H5Fdelete, MPI_File_delete): where the producer's files are on disk,
// that one is deleted and its absence an error.
int delete_file(const Match& match);

// A producer cuts a file of its own to nothing, to begin it again. What was complete is published and stays so, and the name is that of an
// empty file. Returns 0, ENOENT, EINTR as a wait does, or EAGAIN for a file that rests: it is to be written on.
int begin_again(const Match& match);

// Renames a step this task is about to publish or has published: `from` is published under the name `to`. Returns 0 or an errno.
int rename_step(const Match& from, const Match& to);

// The name under which the disk has a file of the task's that is being written, if there is one and no other has the name yet.
bool name_on_disk(const Match& match, char* out, size_t room);

// The task's files of this name that are being written (see queue::find_unfinished), and that they have lost it to another file.
std::vector<uint64_t> find_unfinished(const Match& match);
void lose_name(const Match& match, const std::vector<uint64_t>& unfinished);

// The file of a step that this task is about to publish or has published has another name now, and is going to be published under that.
void withdraw_step(const Match& match);

// The program has given a folder another name: so have the task's files on disk in it and below. Returns the old names of those in memory, which
// have to be renamed one by one, in the order in which they were begun. Both names are normalised.
std::vector<std::string> move_folder(const char* from, const char* to);

}  // namespace wilkins
