// HDF5's storage driver on arenas: reads and writes are copies. Names that match no port (targets of external links,
// access lists used again) are plain files.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <type_traits>
#include <vector>

#include "base/held_at_forks.hpp"
#include "board/border.hpp"
#include "events.hpp"
#include "hdf5/hdf5.hpp"
#include "hdf5/next_function.hpp"
#include "names/led.hpp"
#include "posix/files.hpp"
#include "posix/names.hpp"
#include "steps/actions.hpp"
#include "steps/handles.hpp"
#include "steps/joined.hpp"
#include "steps/left_open.hpp"
#include "steps/open_files.hpp"
#include "steps/snapshot.hpp"
#include "steps/step_file.hpp"
#include "steps/viewers.hpp"
#include "store/led_step.hpp"
#include "store/let_go.hpp"
#include "store/reading.hpp"
#include "store/store.hpp"

namespace wilkins {

namespace {

// As HDF5's own POSIX driver: aggregation, accumulation, sieving, files that any driver can open. Not one writer with
// many readers, who see a step when it is whole; nor its "POSIX-compatible handle", for which HDF5 looks at the name on
// disk to resolve symbolic links.
constexpr unsigned long kFeatures = 0x1 | 0x6 | 0x8 | 0x10 | 0x8000;

struct Opened {
    alignas(16) char head[512];  // HDF5's own H5FD_t, whose size depends on the version
    StepFile* step;              // an arena, or
    int fd;                      // a plain file
    haddr_t eoa;
    haddr_t eof;  // of a plain file
    uint64_t device, inode;
    bool read_write;
    const Hdf5* library;
    DriverInfo info;
    Opened* next;                 // in the list of files open for reading
    uint64_t number;              // of a step that is read: which open it is
    std::vector<StepFile*> kept;  // steps that were opened out of it: they stay as long as it does
};

std::mutex readers_mutex;
HeldAtForks held_at_forks(readers_mutex);
Opened* readers = nullptr;

// The step of this name, if HDF5 has it open for reading: it refuses to open that for writing too, or to create it
// anew, once the driver's compare tells it that the two are one file.
StepFile* open_for_reading(const Match& match) {
    uint64_t size, identity;
    int64_t when;
    if (!lookup_step(match, &size, &identity, &when)) return nullptr;
    {
        std::lock_guard<std::mutex> guard(readers_mutex);
        const Opened* file = readers;
        while (file && (file->read_write || file->library != Call::library() || file->step->identity() != identity))
            file = file->next;
        if (!file) return nullptr;
    }
    int error;
    return open_step(match, Intent::look, 1, &error);
}

std::atomic<uint64_t> opens{0};

// The open step of this number, and where it is in the order of publication; 0: it is none.
uint64_t published_as(uint64_t number) {
    std::lock_guard<std::mutex> guard(readers_mutex);
    for (const Opened* file = readers; file; file = file->next)
        if (file->number == number) return file->step->state->published;
    return 0;
}

// What was opened out of the step of this number stays as long as that is open.
void keep_within(uint64_t number, const StepFile& step) {
    if (step.state->role != Role::reader) return;
    int error;
    StepFile* kept = hold_too(step, &error);
    if (!kept) return;
    {
        std::lock_guard<std::mutex> guard(readers_mutex);
        for (Opened* file = readers; file && kept; file = file->next) {
            bool known = file->number != number;
            for (const StepFile* other : file->kept) known = known || other->identity() == step.identity();
            if (known) continue;
            file->kept.push_back(kept);
            kept = nullptr;
        }
    }
    if (kept) close_step(kept);
}

// A step of an in-port, to be read. `within`: the number of the step out of which a library opens it; 0: the program
// does.
StepFile* open_to_read(const Match& match, const Hdf5* library, uint64_t within, int* error) {
    const uint64_t published = match.inport >= 0 && within ? published_as(within) : 0;
    if (!published) {
        StepFile* const own = wilkins::open_to_read(match, {library, posix::has_several_hdf5()}, error);
        if (!own && within && match.inport < 0 && *error == ENOENT) *error = refuse_own_within(match);
        return own;
    }
    StepFile* const file = open_within(match, published, error);
    if (file) keep_within(within, *file);
    return file;
}

// The file of this name, if the task is writing it. HDF5 locks a file that it writes: another process cannot open it,
// unless that writes it otherwise, and then to be read as it is now.
StepFile* open_written(const Match& match, unsigned flags, int* error) {
    *error = 0;
    if (StepFile* const copy = Call::asking() != Asking::creating ? joined::copy(match, error) : nullptr) {
        if (!(flags & kReadWrite)) return copy;
        close_step(copy);
        *error = EAGAIN;
        return nullptr;
    }
    if (StepFile* const same = find_open(match, true)) return same;
    Look other;
    if (*error || Call::asking() == Asking::creating || match.inport >= 0 || !joined::look(match, &other))
        return nullptr;
    log_event(event::still_open(match.name));
    *error = EAGAIN;
    return nullptr;
}

// Which step the callback's flags mean, given why HDF5 was called.
StepFile* open_matching(const Match& match, unsigned flags, const Hdf5* library, uint64_t within, int* error) {
    const bool creates = flags & (kTruncate | kCreate | kExclusive);
    if (Call::asking() == Asking::looking) return open_look(match, error);
    if (!creates) {
        if (!(flags & kReadWrite) && led_step(match.name)) return open_led(error);
        // A file that is being written by this process is one file for HDF5, however often it is opened.
        if (StepFile* same = open_written(match, flags, error)) return same;
        if (*error) return nullptr;
        if (Call::asking() == Asking::creating) {
            // HDF5 looks for the file before it creates it. Where it must not exist, it is to be found, and then in the
            // way. What the task also reads has another file of that name.
            StepFile* const same = match.inport < 0 ? open_for_reading(match) : nullptr;
            if (same) return same;
            uint64_t size, identity;
            int64_t when;
            *error = ENOENT;
            const bool there = Call::exclusive() && lookup_step(match, &size, &identity, &when);
            return there ? open_step(match, Intent::look, 1, error) : nullptr;
        }
        if (Call::asking() == Asking::drafting) {
            StepFile* stored = open_to_read(match, library, within, error);
            return stored ? private_copy(stored, error) : nullptr;
        }
        if (!(flags & kReadWrite)) return open_to_read(match, library, within, error);
        if (StepFile* same = open_for_reading(match)) return same;
        if (match.outport >= 0) return open_step(match, Intent::update, 1, error);
        StepFile* const stored = open_to_read(match, library, within, error);
        return stored ? to_draft(stored, match, error) : nullptr;
    }
    if (flags & kTruncate) {
        StepFile* const begun = posix::take_lead(match);
        return begun ? begun : open_step(match, Intent::create, 1, error);
    }
    return open_step(match, flags & kExclusive ? Intent::create_exclusive : Intent::open_or_create, 1, error);
}

// The number of the step out of which the library opens a file, by the list that it took from there.
uint64_t number_within(const Hdf5& library, hid_t list) {
    if (!library.get_driver || !library.get_driver_info || library.get_driver(list) != library.driver) return 0;
    const auto* info = static_cast<const DriverInfo*>(library.get_driver_info(list));
    return info ? info->within : 0;
}

// Opens a file that holds bytes of a dataset.
StepFile* open_part(const posix::DatasetRead& read, const Match& match, int* error) {
    static NextFunction get_file("H5Iget_file_id"), get_list("H5Fget_access_plist"), release("H5Idec_ref");
    auto file_of = reinterpret_cast<hid_t (*)(hid_t)>(get_file(read.caller));
    auto list_of = reinterpret_cast<hid_t (*)(hid_t)>(get_list(read.caller));
    auto let_go = reinterpret_cast<int (*)(hid_t)>(release(read.caller));
    const Hdf5* const library = hdf5_of(read.caller);
    const hid_t file = library && file_of && list_of && let_go ? file_of(read.dataset) : -1;
    const hid_t list = file >= 0 ? list_of(file) : -1;
    const uint64_t within = list >= 0 ? number_within(*library, list) : 0;
    if (list >= 0) library->close_list(list);
    if (file >= 0) let_go(file);
    StepFile* const part = open_to_read(match, nullptr, within, error);
    return part || within || *error != ENOENT ? part : open_gone_within(match, error);
}

bool open_plain(Opened* file, const char* name, unsigned flags, int* error) {
    file->fd = open(name, posix_flags(flags) | O_CLOEXEC, 0666);
    struct stat st;
    if (file->fd < 0 || fstat(file->fd, &st) != 0) {
        *error = errno;
        if (file->fd >= 0) close(file->fd);
        return false;
    }
    file->eof = static_cast<haddr_t>(st.st_size);
    file->device = st.st_dev;
    file->inode = st.st_ino;
    return true;
}

// Opens a file; `library` is the one that calls, and does so by itself if no call of the program's that names a file is
// under way.
Opened* open_file(const Hdf5* library, const char* name, unsigned flags, hid_t list) {
    auto* file = new (std::nothrow) Opened();
    if (!file) return nullptr;
    file->fd = -1;
    file->read_write = flags & kReadWrite;
    file->library = library;
    file->info.replaced = library ? asked_driver(*library, list) : -1;
    const uint64_t within = library && !Call::library() ? number_within(*library, list) : 0;
    int error = 0;
    Match match;
    const Purpose purpose = flags & (kTruncate | kCreate | kExclusive) ? Purpose::create
                            : file->read_write                         ? Purpose::update
                                                                       : Purpose::read;
    const bool matched = match_name(name, &match, purpose);
    if (matched) file->step = open_matching(match, flags, library, within, &error);
    if (matched ? file->step != nullptr : open_plain(file, name, flags, &error)) {
        if (file->step && file->read_write) note_opened(file->step);
        viewers::note_opened(file->step);
        if (file->step && file->step->state->published) file->number = ++opens;
        file->info.within = within ? within : file->number;
        if (file->step && (!file->read_write || file->number)) {
            std::lock_guard<std::mutex> guard(readers_mutex);
            file->next = readers;
            readers = file;
        }
        return file;
    }
    if (!matched && within && error == ENOENT) error = refuse_untaken_within(name);
    if (library) library->push_cannot_open(name, error, flags);
    delete file;
    return nullptr;
}

herr_t failed_in(const Hdf5* library, int error) {
    if (library) library->push_failed("driver", error);
    return -1;
}

Opened* driver_open(const char* name, unsigned flags, hid_t list, haddr_t) {
    const Hdf5* const library = Call::library() ? Call::library() : hdf5_of(WILKINS_CALLER);
    return guarded(
        "HDF5's driver", [&] { return open_file(library, name, flags, list); },
        [&](int error) { return failed_in(library, error), static_cast<Opened*>(nullptr); });
}

herr_t driver_close(Opened* file) {
    herr_t result = 0;
    {
        std::lock_guard<std::mutex> guard(readers_mutex);
        Opened** at = &readers;
        while (*at && *at != file) at = &(*at)->next;
        if (*at) *at = file->next;
    }
    for (StepFile* kept : file->kept) close_step(kept);
    if (file->step) {
        char name[kNameMax];
        strcpy(name, file->step->name());
        actions::Closing under_way(name);
        close_step(file->step);
    } else if (close(file->fd) != 0) result = -1;
    delete file;
    return result;
}

void* copy_info(const void* info) {
    auto* copy = static_cast<DriverInfo*>(malloc(sizeof(DriverInfo)));
    if (copy) *copy = *static_cast<const DriverInfo*>(info);
    return copy;
}

void* driver_get_info(Opened* file) { return copy_info(&file->info); }

herr_t free_info(void* info) {
    free(info);
    return 0;
}

int three_way(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

// Finds out whether it is a file of the disk, and which one.
bool is_file(const Opened* opened, uint64_t* device, uint64_t* inode) {
    *device = opened->device;
    *inode = opened->inode;
    return !opened->step || (opened->step->state->draft && opened->step->state->draft->is_file(device, inode));
}

int driver_compare(const Opened* a, const Opened* b) {
    uint64_t devices[2], inodes[2];
    const bool one = is_file(a, &devices[0], &inodes[0]), other = is_file(b, &devices[1], &inodes[1]);
    if (one != other) return one ? -1 : 1;
    if (!one) return three_way(a->step->identity(), b->step->identity());
    const int order = three_way(devices[0], devices[1]);
    return order ? order : three_way(inodes[0], inodes[1]);
}

herr_t driver_query(const Opened*, unsigned long* flags) {
    *flags = kFeatures;
    return 0;
}

haddr_t driver_get_eoa(const Opened* file, int) { return file->eoa; }

herr_t driver_set_eoa(Opened* file, int, haddr_t address) {
    file->eoa = address;
    return 0;
}

haddr_t driver_get_eof(const Opened* file, int) { return file->step ? file->step->eof() : file->eof; }

herr_t driver_get_handle(Opened* file, hid_t, void** handle) {
    if (file->step) file->fd = file->step->descriptor();
    *handle = &file->fd;
    return file->fd >= 0 && (!file->step || viewers::show(*file->step, file->fd) == 0) ? 0 : -1;
}

// True if anything is there. Where nothing was ever allocated, HDF5's own drivers refuse to read and write.
bool is_defined(const Opened* file, haddr_t address, size_t count) {
    constexpr haddr_t kMost = INT64_MAX;
    if (address <= kMost && count <= kMost - address) return true;
    file->library->push_undefined(address);
    return false;
}

herr_t driver_read(Opened* file, int, hid_t, haddr_t address, size_t count, void* buffer) {
    if (!is_defined(file, address, count)) return -1;
    if (file->step) {
        file->step->read(address, buffer, count);
        return file->step->settle() == 0 ? 0 : -1;
    }
    auto* to = static_cast<char*>(buffer);
    while (count > 0) {
        const ssize_t n = pread(file->fd, to, count, static_cast<off_t>(address));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) break;
        to += n;
        address += static_cast<haddr_t>(n);
        count -= static_cast<size_t>(n);
    }
    memset(to, 0, count);  // behind the end of a file there are zeros
    return 0;
}

herr_t driver_write(Opened* file, int, hid_t, haddr_t address, size_t count, const void* buffer) {
    if (!is_defined(file, address, count)) return -1;
    if (file->step) {
        if (file->step->reserve(address + count, file->eoa) != 0) return -1;
        const int error = file->step->write(address, buffer, count);
        return error == 0 && file->step->settle() == 0 ? 0 : -1;
    }
    const auto* from = static_cast<const char*>(buffer);
    while (count > 0) {
        const ssize_t n = pwrite(file->fd, from, count, static_cast<off_t>(address));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        from += n;
        address += static_cast<haddr_t>(n);
        count -= static_cast<size_t>(n);
    }
    if (address > file->eof) file->eof = address;
    return 0;
}

herr_t driver_truncate(Opened* file, hid_t, bool) {
    if (!file->read_write) return 0;
    if (file->step) return file->step->set_eof(file->eoa) == 0 ? 0 : -1;
    if (file->eof != file->eoa && ftruncate(file->fd, static_cast<off_t>(file->eoa)) != 0) return -1;
    file->eof = file->eoa;
    return 0;
}

// HDF5 also flushes when it opens and closes files and when a single object is to be flushed: only a flush of the whole
// file that the program asks for, or the layer for it, says that the file is complete.
herr_t driver_flush(Opened* file, hid_t, bool closing) {
    if (!file->step || !file->read_write || closing || FlushCall::what() == Flushing::no) return 0;
    if (publishes(file->step, FlushCall::what()) && publish_snapshot(file->step) != 0) return -1;
    left_open::note_flushed(
        file->step);  // last: a process that dies before has published this as a snapshot, or not at all
    return 0;
}

herr_t driver_lock(Opened*, bool) { return 0; }

herr_t driver_unlock(Opened*) { return 0; }

// A callback as HDF5 gets it: what it answers is a failure if something was thrown in it.
template <auto callback>
struct Bordered;
template <class Result, class... Arguments, Result (*callback)(Arguments...)>
struct Bordered<callback> {
    static Result call(Arguments... arguments) {
        const int before = errno;
        const Result result = guarded("HDF5's driver", [&] { return callback(arguments...); }, failed);
        if (!is_failure(result)) errno = before;
        return result;
    }
    static bool is_failure(Result result) {
        if constexpr (std::is_pointer_v<Result>) return result == nullptr;
        else return result == static_cast<Result>(-1);
    }
    static Result failed(int error) {
        if (const Hdf5* library = Call::library()) library->push_failed("driver", error);
        if constexpr (std::is_pointer_v<Result>) return nullptr;
        else return static_cast<Result>(-1);
    }
};
template <auto callback>
constexpr auto bordered = Bordered<callback>::call;

// The two layouts of H5FD_class_t. Members that are not set stay null.
struct ClassHead {
    const char* name;
    haddr_t maxaddr;
    int close_degree;
    void *terminate, *sb_size, *sb_encode, *sb_decode;
    size_t fapl_size;
    void* (*fapl_get)(Opened*);
    void* (*fapl_copy)(const void*);
    herr_t (*fapl_free)(void*);
    size_t dxpl_size;
    void *dxpl_copy, *dxpl_free;
    Opened* (*open)(const char*, unsigned, hid_t, haddr_t);
    herr_t (*close)(Opened*);
    int (*compare)(const Opened*, const Opened*);
    herr_t (*query)(const Opened*, unsigned long*);
    void *get_type_map, *alloc, *free;
    haddr_t (*get_eoa)(const Opened*, int);
    herr_t (*set_eoa)(Opened*, int, haddr_t);
    haddr_t (*get_eof)(const Opened*, int);
    herr_t (*get_handle)(Opened*, hid_t, void**);
    herr_t (*read)(Opened*, int, hid_t, haddr_t, size_t, void*);
    herr_t (*write)(Opened*, int, hid_t, haddr_t, size_t, const void*);
};

struct ClassTail {
    herr_t (*flush)(Opened*, hid_t, bool);
    herr_t (*truncate)(Opened*, hid_t, bool);
    herr_t (*lock)(Opened*, bool);
    herr_t (*unlock)(Opened*);
};

struct Class110 {  // 1.10 and 1.12
    ClassHead head;
    ClassTail tail;
    int free_list_map[7];
};

struct Class114 {  // 1.13 and later, class version 1
    unsigned version;
    int value;
    ClassHead head;
    void *read_vector, *write_vector, *read_selection, *write_selection;
    ClassTail tail;
    void *remove, *control;
    int free_list_map[7];
};

constexpr ClassHead make_head() {
    ClassHead h = {};
    h.name = "wilkins";
    h.maxaddr = (static_cast<haddr_t>(1) << 63) - 1;  // as the POSIX driver: it is written into some files
    h.close_degree = 1;                               // H5F_CLOSE_WEAK, as the POSIX driver
    h.fapl_size = sizeof(DriverInfo);
    h.fapl_get = bordered<driver_get_info>;
    h.fapl_copy = bordered<copy_info>;
    h.fapl_free = bordered<free_info>;
    h.open = driver_open;
    h.close = bordered<driver_close>;
    h.compare = bordered<driver_compare>;
    h.query = bordered<driver_query>;
    h.get_eoa = bordered<driver_get_eoa>;
    h.set_eoa = bordered<driver_set_eoa>;
    h.get_eof = bordered<driver_get_eof>;
    h.get_handle = bordered<driver_get_handle>;
    h.read = bordered<driver_read>;
    h.write = bordered<driver_write>;
    return h;
}

constexpr ClassTail kTail = {bordered<driver_flush>, bordered<driver_truncate>, bordered<driver_lock>,
                             bordered<driver_unlock>};

// Free-space classes as the POSIX driver has them: metadata in one, raw data in the other.
constexpr Class110 kClass110 = {make_head(), kTail, {1, 1, 1, 3, 3, 1, 1}};
// The value names a driver in files and lists; from 512 on it is free for registered users.
constexpr Class114 kClass114 = {1,       700,     make_head(),          nullptr, nullptr, nullptr, nullptr, kTail,
                                nullptr, nullptr, {1, 1, 1, 3, 3, 1, 1}};

}  // namespace

Reads::Reads(hid_t dataset, const void* caller) : under_way_(dataset, caller, open_part) {}

hid_t register_driver(const Hdf5& lib) {
    const bool old = lib.version[0] == 1 && lib.version[1] < 13;
    return lib.register_driver(old ? static_cast<const void*>(&kClass110) : static_cast<const void*>(&kClass114));
}

}  // namespace wilkins
