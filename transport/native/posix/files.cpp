// Opening matching names: what the flags ask for, and the descriptor that the program gets.
#include "base/raw.hpp"
#include "posix/table.hpp"
#include "steps/creating.hpp"
#include "steps/handles.hpp"
#include "steps/inherited.hpp"
#include "steps/joined.hpp"
#include "steps/open_files.hpp"
#include "steps/viewers.hpp"
#include "store/reading.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace wilkins::posix {

namespace {

__attribute__((tls_model("initial-exec"))) thread_local const DatasetRead* under_way = nullptr;

// A file without a name that others can be given one of later (see steps/inherited.hpp).
int make_kernel_file(int flags) {
    const int fd = raw::open(process().board.folder(), O_TMPFILE | flags, 0600);
    return fd >= 0 ? fd : memfd_create("wilkins", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
}

struct Plan {
    Intent intent = Intent::look;
    OpenStep::Pending pending = OpenStep::Pending::nothing;
    bool empty = false;  // O_TRUNC on a step that exists
};

// What flags of open() ask of the store. Returns 0 or an errno.
int plan_open(const Match& match, int flags, bool stream, Plan* plan) {
    using Pending = OpenStep::Pending;
    const bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC);
    uint64_t size = 0, identity = 0;
    int64_t published = 0;
    if (flags & O_DIRECTORY) return ENOTDIR;
    Look look;
    const bool here = match.outport >= 0 && lookup_step(match, &size, &identity, &published);
    const bool there = here || (!(flags & O_TRUNC) && find_elsewhere(match, &look));
    // A reader that only makes sure of a file that it could append to has not read it.
    if (match.outport < 0 && (flags & (O_ACCMODE | O_CREAT | O_TRUNC | O_EXCL)) == (O_WRONLY | O_CREAT)) {
        plan->pending = Pending::update;
        return 0;
    }
    const bool anew = (flags & (O_EXCL | O_TRUNC)) != 0;
    if ((writes || match.outport >= 0) && (flags & O_CREAT) && (anew || (match.outport >= 0 && !there))) {
        plan->intent = flags & O_EXCL    ? Intent::create_exclusive
                       : flags & O_TRUNC ? Intent::create
                                         : Intent::create_missing;
        return 0;
    }
    if (match.outport >= 0 && (writes || match.inport < 0)) {
        // HDF5 opens a name before it creates it, to see whether it has the file open already: only a write makes this
        // an update. Nobody waits for what only the program itself can write.
        if (!there) return ENOENT;
        if (flags & O_TRUNC) plan->intent = Intent::create;
        else plan->pending = writes ? Pending::update : Pending::nothing;
        return 0;
    }
    if (writes) {
        *plan = {Intent::update, Pending::nothing, (flags & O_TRUNC) != 0};
    } else if (stream && !has_shared_hdf5()) {
        plan->intent = Intent::read;
    } else {
        plan->pending = Pending::read;
    }
    return 0;
}

// The kernel's file with the bytes of a step that something else is writing: to be read, for now. -1: the arena has
// them.
int open_file_of_others(const StepFile* step, int flags, KernelFile** file) {
    const Process& p = process();
    if (!step->state->joined) return -1;
    {
        Board::Lock lock(p.board);
        p.board.slot(step->state->slot).shared = 1;  // from now on they stay there
    }
    const int fd = inherited::open_file(p.board, step->state->slot, O_RDONLY | (flags & O_CLOEXEC));
    if (fd < 0) return -1;
    *file = new (std::nothrow) KernelFile();
    if (!*file) {
        libc::close(fd);
        return -1;
    }
    struct stat st;
    (*file)->takes_all = true;
    (*file)->joint = true;
    (*file)->others = true;
    if (raw::fstat(fd, &st) == 0) (*file)->inode = st.st_ino;
    return fd;
}

// The descriptor of a step that is to be written: of a new file, or of the one behind another descriptor of the same
// step. `is_new`: the step holds nothing yet.
int open_kernel_file(const StepFile* step, bool is_new, int flags, KernelFile** file) {
    std::lock_guard<std::mutex> lock(leaving);
    for (int other = 0; entries > 0 && step->state->role != Role::draft && other <= highest; ++other) {
        OpenStep* const open = find(other);
        if (!open || !open->same_step(step) || (open->waits() && step->state->role == Role::lead)) continue;
        const int append = open->takes_all() ? O_APPEND : 0;
        const int fd = reopen_anew(other, flags & (O_ACCMODE | O_CLOEXEC | append));
        if (fd < 0) break;
        *file = open->share_file();
        return fd;
    }
    if (const int fd = open_file_of_others(step, flags, file); fd >= 0) return fd;
    *file = new (std::nothrow) KernelFile();
    if (!*file) {
        errno = ENOMEM;
        return -1;
    }
    (*file)->takes_all = is_new;
    const int fd = make_kernel_file(flags & (O_ACCMODE | O_CLOEXEC | (is_new ? O_APPEND : 0)));
    struct stat st;
    if (fd >= 0 && raw::fstat(fd, &st) == 0) (*file)->inode = st.st_ino;
    return fd;
}

}  // namespace

DatasetRead::DatasetRead(int64_t of, const void* by, Open with)
    : dataset(of), caller(by), open(with), before_(under_way) {
    under_way = this;
}

DatasetRead::~DatasetRead() { under_way = before_; }

const DatasetRead* DatasetRead::now() { return under_way; }

int open_match(const Match& match, int flags, Opener by) {
    Plan plan;
    int error = 0;
    match.makes = match.outport < 0 && (flags & O_CREAT);
    Match named = match;
    named.by_descriptor = true;
    if (match.outport >= 0) inherited::settle_own(true);
    // A file that the task has open for writing is the file it opens again.
    const bool may_join = match.outport >= 0 && !(flags & (O_TRUNC | O_EXCL));
    StepFile* file = may_join ? find_open(match, true) : nullptr;
    if (!file && may_join) file = joined::open(match, &error);
    const bool anew = match.outport >= 0 && (flags & (O_TRUNC | O_EXCL)) == O_TRUNC;
    if (anew) file = take_lead(match);
    if (anew && !file) finish_made_anew(match);
    if (!file && !error) error = plan_open(match, flags, by == Opener::stream, &plan);
    if (!file && !error) {
        const bool reads =
            match.inport >= 0 &&
            (plan.intent == Intent::read || plan.pending == OpenStep::Pending::read || match.outport < 0) &&
            plan.intent != Intent::update;
        const DatasetRead* const part = reads ? DatasetRead::now() : nullptr;
        if (part) plan.pending = OpenStep::Pending::nothing;
        file = part                          ? part->open(*part, match, &error)
               : !reads                      ? open_step(named, plan.intent, 1, &error)
               : plan.intent == Intent::read ? open_to_read(match, {nullptr, false}, &error)
                                             : open_to_look(match, {nullptr, false}, &error);
    }
    if (!file && error == EEXIST && plan.intent == Intent::create_missing) return open_match(match, flags, by);
    viewers::note_opened(file);
    if (anew && file && file->state->role == Role::lead && file->state->slot >= 0) note_made_anew(file);
    const bool writable = (flags & O_ACCMODE) != O_RDONLY;
    // What is only read does not go back: others may write it meanwhile.
    if (file && file->is_far()) file = writable ? borrow_far(file, &error) : private_copy(file, &error);
    if (!file) {
        errno = error;
        return -1;
    }
    if (plan.empty) error = file->set_eof(0);
    int fd = -1;
    KernelFile* kernel_file = nullptr;
    const bool joins = !error && file->state->joined;
    const bool is_new = !error && !joins && plan.pending != OpenStep::Pending::update &&
                        file->state->role != Role::draft && file->eof() == 0;
    if (!error && writable) fd = open_kernel_file(file, is_new, flags, &kernel_file);
    else if (!error && joins) fd = open_file_of_others(file, flags, &kernel_file);
    if (!error && !writable && fd < 0) fd = open_view(file, O_RDONLY | (flags & O_CLOEXEC));
    // Until it writes, it is none of those that do; but it shares all with another descriptor of this process.
    if (joins && writable && kernel_file && kernel_file->references == 1) plan.pending = OpenStep::Pending::update;
    if (fd < 0 && !error) error = errno;
    auto* step = error ? nullptr : new (std::nothrow) OpenStep(file, match, flags, by, kernel_file);
    if (!error && !step) error = ENOMEM;
    if (!error) {
        step->set_pending(plan.pending);
        if (!enter(fd, step)) error = EMFILE;
        else if (is_new && writable) step->note_holder(fd);
        if (file->state->role == Role::lead && file->state->slot >= 0)
            process().board.slot(file->state->slot).opening.store(0);
    }
    if (error) {
        if (!step && kernel_file && --kernel_file->references == 0) delete kernel_file;
        delete step;
        if (fd >= 0) libc::close(fd);
        if (file->writable()) discard_step(file);
        else close_step(file);
        errno = error;
        return -1;
    }
    if (by == Opener::stream || step->size() == 0) step->settle_unless_looked_at();
    if (fd <= kLastStandard) {
        step->settle();
        step->hand_to_child(fd);
    }
    if (by == Opener::stream && step->hand_to_stream(fd) != 0) {
        error = errno;
        forget(fd);
        libc::close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

}  // namespace wilkins::posix
