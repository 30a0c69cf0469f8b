// Opening, closing and describing a parallel file on an arena.
#include "mpi/file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>

#include "board/border.hpp"
#include "events.hpp"
#include "hdf5/hdf5.hpp"
#include "mpi/wait.hpp"
#include "mpi/world.hpp"
#include "names/first_opens.hpp"
#include "steps/actions.hpp"
#include "steps/creating.hpp"
#include "steps/handles.hpp"
#include "steps/left_open.hpp"
#include "steps/open_files.hpp"
#include "steps/snapshot.hpp"
#include "steps/step_file.hpp"
#include "store/stage.hpp"

namespace wilkins::mpiio {

namespace {

// A handle given to a program is the address of a slot, so telling ours from others is a comparison of addresses.
constexpr size_t kSlots = 4096;
constexpr int kFortranBase = 0x5711'0000;  // real MPIs count their Fortran handles from zero
std::array<std::atomic<File*>, kSlots> slots;

Handle slot_handle(size_t slot) { return reinterpret_cast<Handle>(&slots[slot]); }

int claim_slot(File* file) {
    for (size_t i = 0; i < kSlots; ++i) {
        File* empty = nullptr;
        if (slots[i].compare_exchange_strong(empty, file)) return static_cast<int>(i);
    }
    return -1;
}

// What the lead tells the others about the step it opened.
struct Opened {
    int32_t error;
    int32_t written;  // the program has it open for writing already: this is one more handle on it
    int32_t again;    // the program reads it already
    StepToken token;
    uint64_t size;
    char where[256];  // of a task that runs on several hosts: who serves its files on the lead's
};

bool valid(int amode) {
    const int access = amode & (mode_rdonly | mode_wronly | mode_rdwr);
    const bool one = access == mode_rdonly || access == mode_wronly || access == mode_rdwr;
    return one && !(access == mode_rdonly && (amode & (mode_create | mode_excl))) &&
           !(access == mode_rdwr && (amode & mode_sequential));
}

// MPI has no way to ask for truncation, so programs that make a file (parallel HDF5 among them) ask for creation and
// cut it to size 0 afterwards: creation means a new step.
Intent intent_of(int amode) {
    if (amode & mode_rdonly) return Intent::read;
    if (!(amode & mode_create)) return Intent::update;
    return amode & mode_excl ? Intent::create_exclusive : Intent::create;
}

// The step that the lead has opened, on a rank of another host. The task's own files stay with the lead; of what it
// reads of others, each host has its own copy. `own`: it is one of the task's own.
StepFile* reach(const Match& match, const Opened& opened, bool own, bool writable, int ranks, int* error) {
    if (own) return attach_far(opened.where, opened.token, writable, match, match.name, error);
    StepFile* step = opened.again ? find_open(match, false) : nullptr;
    if (step == nullptr) step = open_step(match, Intent::read, ranks, error);
    if (step == nullptr || step->eof() == opened.size) return step;
    log_event(event::other_step(match.name, step->eof(), opened.size));
    close_step(step);
    *error = EIO;
    return nullptr;
}

}  // namespace

View::View(const Abi& abi, int64_t where, Handle element_type, Handle file_type)
    : mpi(abi), disp(where), etype(element_type), filetype(file_type) {}

int View::prepare() {
    int rc = decode(mpi, etype, &element);
    if (rc == 0) rc = decode(mpi, filetype, &tile);
    if (rc == 0 && (element.layout->size == 0 || disp < 0)) rc = mpi.error.arg;
    Handle copies[2] = {};
    if (rc == 0 && !element.named) rc = mpi.Type_dup(etype, &copies[0]);
    if (rc == 0 && !tile.named) rc = mpi.Type_dup(filetype, &copies[1]);
    if (rc != 0) {
        element.named = tile.named = true;  // nothing of ours to free
        return rc;
    }
    if (!element.named) etype = copies[0];
    if (!tile.named) filetype = copies[1];
    bytes = endless(tile.layout, tile.extent);
    return 0;
}

View::~View() {
    if (!element.named) mpi.Type_free(&etype);
    if (!tile.named) mpi.Type_free(&filetype);
}

File* File::find(Handle handle) {
    const auto offset = static_cast<uintptr_t>(handle) - reinterpret_cast<uintptr_t>(slots.data());
    if (offset >= sizeof(slots) || offset % sizeof(slots[0]) != 0) return nullptr;
    return slots[offset / sizeof(slots[0])].load(std::memory_order_acquire);
}

Handle File::from_fortran(int fortran) {
    if (fortran < kFortranBase || fortran >= kFortranBase + static_cast<int>(kSlots)) return 0;
    return slot_handle(static_cast<size_t>(fortran - kFortranBase));
}

int File::fortran() const { return kFortranBase + slot_; }

File::~File() {
    if (slot_ >= 0) slots[static_cast<size_t>(slot_)].store(nullptr, std::memory_order_release);
    if (refers_) release(mpi_, errhandler_);
    if (info_ != 0) mpi_.Info_free(&info_);
    if (comm_ != 0) mpi_.Comm_free(&comm_);
}

int File::open(const Abi& mpi, Handle comm, const Match& match, int amode, Handle info, Handle* out) {
    if (!valid(amode)) return fail_without_file(mpi, mpi.error.amode);
    int ranks = 1;
    const Handle task_comm = world_comm(comm);
    int rc = mpi.Comm_size(task_comm, &ranks);
    if (rc != 0) return fail_without_file(mpi, rc);

    auto* file = new (std::nothrow) File(mpi);
    if (file == nullptr) return fail_without_file(mpi, mpi.error.no_mem);
    const auto give_up = [&](int code) {
        delete file;
        return fail_without_file(mpi, code);
    };
    int here = ranks;  // on this host
    if (ranks > 1) {
        rc = duplicate(mpi, task_comm, &file->comm_);
        if (rc == 0) rc = mpi.Comm_rank(file->comm_, &file->rank_);
        if (rc == 0 && served_at()[0] != 0) rc = count_alike(mpi, file->comm_, hash_text(served_at()), ranks, &here);
        if (rc != 0) return give_up(rc);
    }
    file->amode_ = amode;
    file->from_hdf5_ = Call::library() != nullptr;
    const bool writable = (amode & mode_rdonly) == 0;

    Opened opened{};
    if (file->rank_ == 0) {
        int error = 0;
        if (ranks > 1 && match.outport < 0 && intent_of(amode) == Intent::update && !stage::passes_on(match)) {
            error = ENOTSUP;
            log_event(event::writes_inport(ranks, match.name));
        } else {
            if (match.outport >= 0) file->step_ = find_open(match, true);
            opened.written = file->step_ != nullptr;
            // HDF5 programs may open the next step of a rewritten name before they let go of the last; others that open
            // a name twice, as PnetCDF does for its independent calls, mean one file.
            if (!opened.written && !writable && !file->from_hdf5_) file->step_ = find_open(match, false);
            opened.again = !opened.written && file->step_ != nullptr;
            if (opened.written && (amode & mode_excl)) {
                close_step(file->step_);
                file->step_ = nullptr;
                error = EEXIST;
            } else if (file->step_ == nullptr) {
                file->step_ = open_step(match, intent_of(amode), here, &error);
                if (file->step_ != nullptr && file->step_->state->role == Role::draft)
                    file->step_ = to_draft_in_memory(file->step_, &error);
            }
        }
        opened.error = file->step_ != nullptr ? 0 : std::max(error, 1);
        if (file->step_ != nullptr) {
            const FarFile* const far = file->step_->state->far.get();
            opened.token = far != nullptr ? far->token() : file->step_->token();
            opened.size = file->step_->eof();
            std::strncpy(opened.where, far != nullptr ? far->where() : served_at(), sizeof(opened.where) - 1);
        }
    }
    const bool produces = match.outport >= 0 && (writable || match.inport < 0);
    const int port = produces ? match.outport : match.inport;
    if (file->rank_ != 0 && !produces) follow_first(match);
    rc = from_lead(mpi, file->comm_, file->rank_ == 0, port, &opened, sizeof(opened));
    if (rc != 0) return give_up(rc);
    if (opened.error != 0) return give_up(mpi.error_class(opened.error));
    int error = 0;
    if (file->rank_ != 0) {
        // What the lead reads from a file on disk, each rank reads there.
        const bool elsewhere = opened.token.slot < 0 && (wilkins::on_disk(match) || !produces);
        const bool far = std::strcmp(opened.where, served_at()) != 0;
        const auto attach = [&] {
            return elsewhere ? open_step(match, Intent::read, here, &error)
                   : far     ? reach(match, opened, produces, writable || opened.written, here, &error)
                             : attach_step(opened.token, writable || opened.written, match.name, &error);
        };
        // The others wait for what this rank says of it.
        file->step_ = guarded("MPI_File_open", attach,
                              [&](int thrown) { return error = thrown, static_cast<StepFile*>(nullptr); });
        if (file->step_ == nullptr) {
            error = std::max(error, 1);
            log_event(event::not_reached(file->rank_, match.name, error));
        }
    }
    if (error == 0) {
        file->slot_ = claim_slot(file);
        if (file->slot_ < 0) error = ENOMEM;
    }
    // What one rank has no memory for, all fail for.
    if (error == 0) error = guarded("MPI_File_open", [=] { return file->begin(); }, [](int thrown) { return thrown; });
    rc = largest(mpi, file->comm_, &error);
    if (rc != 0 || error != 0) {
        const bool created = file->rank_ == 0 && (amode & mode_create) != 0;
        if (file->step_ != nullptr) created ? discard_step(file->step_) : close_step(file->step_);
        return give_up(rc != 0 ? rc : mpi.error_class(error));
    }
    if (mpi.clean(info) != mpi.info_null) mpi.Info_dup(info, &file->info_);
    Handle errhandler = 0;
    if (mpi.File_get_errhandler(mpi.file_null, &errhandler) == 0) file->have_errhandler(mpi.clean(errhandler));
    if (writable) note_opened(file->step_);
    *out = slot_handle(static_cast<size_t>(file->slot_));
    return 0;
}

int File::begin() {
    auto view = std::make_shared<View>(mpi_, 0, mpi_.byte, mpi_.byte);
    const int rc = view->prepare();
    view_ = std::move(view);
    if (rc == 0 && (amode_ & mode_append)) position_ = end_of_view(*view_);
    return rc == 0 ? 0 : rc == mpi_.error.no_mem ? ENOMEM : EIO;
}

int File::on_disk(const Abi& mpi, Handle comm, const Match& match, int amode, bool* disk) {
    *disk = false;
    if (match.inport < 0 || (match.outport >= 0 && (amode & mode_rdonly) == 0)) return 0;
    if (process().board.port(match.inport).keys.first != First::file) return 0;
    const Handle task_comm = world_comm(comm);
    int ranks = 1, rank = 0;
    int rc = mpi.Comm_size(task_comm, &ranks);
    if (rc == 0) rc = mpi.Comm_rank(task_comm, &rank);
    int answer = rc == 0 && answered_by_disk(match, true);
    Handle shared = 0;
    if (rc == 0 && ranks > 1) rc = duplicate(mpi, task_comm, &shared);
    if (rc == 0) rc = from_lead(mpi, shared, rank == 0, match.inport, &answer, sizeof(answer));
    if (shared != 0) mpi.Comm_free(&shared);
    *disk = answer != 0;
    return rc == 0 ? 0 : fail_without_file(mpi, rc);
}

int File::close() {
    const bool writable = (amode_ & mode_rdonly) == 0;
    const bool lead = rank_ == 0;
    char name[kNameMax];
    std::strcpy(name, step_->name());
    const actions::Closing under_way(name);
    if (!lead) close_step(step_);
    int rc = barrier(mpi_, comm_);  // everything is written, and no other rank is attached
    if (lead) (amode_ & mode_delete_on_close) && writable ? discard_step(step_) : close_step(step_);
    // A rank that returns may open the file again at once: only when it is there.
    if (rc == 0 && writable) rc = barrier(mpi_, comm_);
    const int code = rc != 0 ? fail(rc) : 0;
    delete this;
    return code;
}

// Data is visible to all ranks at once, so there is nothing to do; but the file may be published at a flush.
int File::sync() {
    const Flushing what = from_hdf5_ ? FlushCall::what() : Flushing::by_program;
    const bool writable = (amode_ & mode_rdonly) == 0;
    const bool flushes = writable && from_hdf5_ && what != Flushing::no;
    const AccessKeys* keys = writable ? keys_of(step_) : nullptr;
    if (keys == nullptr || !takes_snapshots(*keys) || !publishes(step_, what)) {
        if (flushes) left_open::note_flushed(step_);
        return 0;
    }
    int rc = barrier(mpi_, comm_);  // everything is written
    int error = rc == 0 && rank_ == 0 ? publish_snapshot(step_) : 0;
    if (rc == 0) rc = largest(mpi_, comm_, &error);  // nobody goes on before it is copied
    if (rc == 0 && error != 0) rc = mpi_.error_class(error);
    if (rc == 0 && flushes) left_open::note_flushed(step_);
    return rc == 0 ? 0 : fail(rc);
}

int File::arrive() {
    const int rc = barrier(mpi_, comm_);
    return rc != 0 ? fail(rc) : 0;
}

int File::set_atomicity(bool flag) {
    if (const int rc = arrive()) return rc;  // what began before it has ended
    atomic_ = flag;
    return 0;
}

int File::set_size(int64_t size, bool only_grow) {
    if (size < 0) return fail(mpi_.error.arg);
    int rc = barrier(mpi_, comm_);
    int error = 0;
    if (rc == 0 && rank_ == 0) {
        const auto bytes = static_cast<uint64_t>(size);
        if (only_grow) error = step_->reserve(bytes);
        if (error == 0 && (!only_grow || bytes > step_->eof())) error = step_->set_eof(bytes);
    }
    if (rc == 0) rc = largest(mpi_, comm_, &error);
    if (rc != 0) return fail(rc);
    return error == 0 ? 0 : fail(mpi_.error_class(error));
}

int File::set_view(int64_t disp, Handle etype, Handle filetype, const char* datarep) {
    if (std::strcmp(datarep, "native") != 0 && std::strcmp(datarep, "internal") != 0) {
        log_event(event::data_representation(datarep, step_->name()));
        return fail(mpi_.error.unsupported_datarep);
    }
    auto view = std::make_shared<View>(mpi_, disp, etype, filetype);
    const int rc = view->prepare();
    if (rc != 0) return fail(rc);
    const std::lock_guard lock(mutex_);
    view_ = std::move(view);
    position_ = 0;
    return 0;
}

std::shared_ptr<const View> File::view() {
    const std::lock_guard lock(mutex_);
    return view_;
}

int64_t File::end_of_view(const View& view) const {
    const int64_t unit = view.element.layout->size;
    return (bytes_before(view.tile.layout, view.tile.extent, view.disp, size()) + unit - 1) / unit;
}

int File::seek(int64_t offset, int whence) {
    const std::lock_guard lock(mutex_);
    if (whence == kSeekCur) {
        offset += position_;
    } else if (whence == kSeekEnd) {
        offset += end_of_view(*view_);
    } else if (whence != kSeekSet) {
        return fail(mpi_.error.arg);
    }
    if (offset < 0) return fail(mpi_.error.arg);
    position_ = offset;
    return 0;
}

int64_t File::position() {
    const std::lock_guard lock(mutex_);
    return position_;
}

int File::byte_offset(int64_t offset, int64_t* disp) {
    const auto seen = view();
    if (offset < 0) return fail(mpi_.error.arg);
    const Cursor cursor(seen->bytes, offset * seen->element.layout->size);
    *disp = seen->disp + cursor.run().offset;
    return 0;
}

int File::get_view(int64_t* disp, void* etype, void* filetype, char* datarep) {
    const auto seen = view();
    Handle element = seen->etype;
    Handle tile = seen->filetype;
    int rc = seen->element.named ? 0 : mpi_.Type_dup(seen->etype, &element);
    if (rc == 0 && !seen->tile.named) rc = mpi_.Type_dup(seen->filetype, &tile);
    if (rc != 0) return fail(rc);
    *disp = seen->disp;
    mpi_.store(etype, element);
    mpi_.store(filetype, tile);
    std::strcpy(datarep, "native");
    return 0;
}

int File::get_group(void* group) {
    Handle result = 0;
    const int rc = mpi_.Comm_group(comm_ != 0 ? comm_ : mpi_.comm_self, &result);
    if (rc != 0) return fail(rc);
    mpi_.store(group, result);
    return 0;
}

int File::get_info(void* info) {
    Handle result = 0;
    const int rc = info_ != 0 ? mpi_.Info_dup(info_, &result) : mpi_.Info_create(&result);
    if (rc != 0) return fail(rc);
    mpi_.store(info, result);
    return 0;
}

int File::set_info(Handle info) {
    if (info_ != 0) mpi_.Info_free(&info_);
    info_ = 0;
    const int rc = mpi_.clean(info) != mpi_.info_null ? mpi_.Info_dup(info, &info_) : 0;
    return rc != 0 ? fail(rc) : 0;
}

void File::finish(void* status, int64_t bytes) const {
    if (status == mpi_.status_ignore) return;
    mpi_.Status_set_elements_x(status, mpi_.byte, bytes);
    mpi_.Status_set_cancelled(status, 0);
}

int File::fail(int code) {
    return call_errhandler(mpi_, errhandler_, errhandler_function_, slot_handle(static_cast<size_t>(slot_)), code);
}

int File::get_errhandler(void* errhandler) const {
    const Handle mine = errhandler_;
    refer_to(mine);
    mpi_.store(errhandler, mine);
    return 0;
}

int File::set_errhandler(Handle errhandler) {
    refer_to(errhandler);
    have_errhandler(errhandler);
    return 0;
}

void File::have_errhandler(Handle errhandler) {
    errhandler_function_ = function_of(errhandler);
    const Handle before = errhandler_.exchange(errhandler);
    if (refers_.exchange(true)) release(mpi_, before);
}

int File::unsupported(const char* what) {
    log_event(event::shared_pointer(what, step_->name()));
    return fail(mpi_.error.unsupported_operation);
}

}  // namespace wilkins::mpiio
