// Descriptors that lead to steps: the table of them, and the copies behind reads and writes.
#include "posix_files.hpp"

#include <limits.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "context.hpp"
#include "snapshot.hpp"
#include "store_parts.hpp"

namespace wilkins::posix {
namespace {

// What a library opens again after a look: in a process that has a shared HDF5, one reads magic bytes before it opens a file,
// in one read of the first bytes (buffered readers ask for up to 128 KiB at once), then nothing beyond the first page.
constexpr uint64_t kFirstLook = 131072;
constexpr uint64_t kNextLook = 4096;
// All else: where HDF5 is linked statically, the file's own reads come this way; H5Fis_hdf5 takes 8 bytes, H5Fopen more.
constexpr uint64_t kSignature = 64;

std::atomic<OpenStep*> table[kMostDescriptors];
std::atomic<int> entries{0};
std::atomic<int> highest{-1};
std::mutex leaving;  // held while entries leave the table, and by those who walk through it

// A second, independent descriptor of the same file.
int reopen(int fd, int flags) {
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    const int opened = libc::open(path, flags | O_NOCTTY);
    return opened >= 0 ? opened : libc::fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

bool enter(int fd, OpenStep* step) {
    if (fd >= kMostDescriptors) return false;
    forget(fd);
    table[fd] = step;
    ++entries;
    int seen = highest;
    while (seen < fd && !highest.compare_exchange_weak(seen, fd)) continue;
    return true;
}

OpenStep* take_out(int fd) {
    std::lock_guard<std::mutex> lock(leaving);
    OpenStep* step = find(fd);
    if (!step || !table[fd].compare_exchange_strong(step, nullptr)) return nullptr;
    --entries;
    return step;
}

// A process that ends without closing has written its file all the same. Runs after HDF5's own exit handler.
__attribute__((destructor)) void finish_all() try {
    if (entries == 0) return;
    fflush(nullptr);
    forget_range(0, kMostDescriptors);
} WILKINS_OR()

}  // namespace

int64_t wall_clock_ns() {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

OpenStep::OpenStep(StepFile* step, const Match& match, int flags, Opener by)
    : step_(step),
      match_(match),
      writable_((flags & O_ACCMODE) != O_RDONLY),
      append_(flags & O_APPEND),
      by_(by),
      opened_ns_(wall_clock_ns()) {}

bool OpenStep::mine() const { return step_.load()->state->mine(); }

uint64_t OpenStep::size() const { return step_.load()->eof(); }

void OpenStep::describe(struct stat* st) const {
    StepFile* step = step_;
    posix::describe(step->eof(), step->identity(), opened_ns_, st);
}

ssize_t OpenStep::read_at(void* buffer, size_t count, off_t offset) {
    if (offset < 0) {
        errno = EINVAL;
        return -1;
    }
    if (pending_ == Pending::read) count_read(static_cast<uint64_t>(offset), count);
    StepFile* step = step_;
    const uint64_t eof = step->eof();
    const uint64_t begin = static_cast<uint64_t>(offset);
    const size_t got = begin >= eof ? 0 : static_cast<size_t>(std::min<uint64_t>({count, eof - begin, SSIZE_MAX}));
    if (got > 0) step->read(begin, buffer, got);
    return static_cast<ssize_t>(got);
}

ssize_t OpenStep::write_at(const void* buffer, size_t count, off_t offset) {
    int error = offset < 0 ? EINVAL : !writable_ ? EBADF : start_update();
    if (!error && count > 0) error = step_.load()->write(static_cast<uint64_t>(offset), buffer, count);
    if (!error) return static_cast<ssize_t>(count);
    errno = error;
    return -1;
}

int OpenStep::resize(off_t size) {
    int error = size < 0 || !writable_ ? EINVAL : start_update();
    if (!error) error = step_.load()->set_eof(static_cast<uint64_t>(size));
    if (!error) return 0;
    errno = error;
    return -1;
}

namespace {

// Perhaps behind a user block.
bool is_hdf5(StepFile& step) {
    const uint64_t eof = step.eof();
    char found[8];
    for (uint64_t at = 0; at + sizeof(found) <= eof; at = at ? 2 * at : 512) {
        step.read(at, found, sizeof(found));
        if (memcmp(found, "\x89HDF\r\n\x1a\n", sizeof(found)) == 0) return true;
    }
    return false;
}

bool is_classic_netcdf(StepFile& step) {
    char found[4];
    if (step.eof() < sizeof(found)) return false;
    step.read(0, found, sizeof(found));
    return memcmp(found, "CDF", 3) == 0 && (found[3] == 1 || found[3] == 2 || found[3] == 5);
}

}  // namespace

void OpenStep::count_read(uint64_t offset, size_t count) {
    ++reads_;
    read_bytes_ += count;
    const uint64_t end = offset + count;
    const bool looks = may_be_look();
    const bool only_a_look = !looks       ? read_bytes_ <= kSignature
                             : reads_ == 1 ? end <= kFirstLook
                                           : end <= kNextLook;
    // Who has seen all of a step has read it; but under a name that is rewritten, the open after a look would take the next one.
    const bool seen_whole = end >= size() && !(looks && in_order(process().board.port(match_.inport)));
    if (!only_a_look || seen_whole) settle();
}

void OpenStep::settle_unless_looked_at() {
    if (!may_be_look()) settle();
}

// HDF5 opens its own files with a driver of ours; netCDF looks at all files as streams, and opens classic ones as descriptors.
bool OpenStep::may_be_look() const {
    if (!has_shared_hdf5()) return false;
    StepFile& step = *step_.load();
    return is_hdf5(step) || (by_ != Opener::program && is_classic_netcdf(step));
}

void OpenStep::settle() {
    std::lock_guard<std::mutex> lock(changing_);
    if (pending_ != Pending::read) return;
    pending_ = Pending::nothing;
    int error = 0;
    StepFile* step = open_to_read(match_, {nullptr, false}, &error);
    if (!step) {
        log_line("'%s' was read further than a look, but could not be counted as read: %s", match_.name, strerror(error));
        return;
    }
    looked_ = step_;
    step_ = step;
    if (step->identity() == looked_->identity()) return;
    const int arena = reopen(step->descriptor(), O_RDONLY | O_CLOEXEC);
    for (int fd = 0; fd <= highest; ++fd) {
        if (table[fd] != this) continue;
        const off_t offset = libc::lseek(fd, 0, SEEK_CUR);
        const int flags = libc::fcntl(fd, F_GETFD);
        libc::dup3(arena, fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0);
        libc::lseek(fd, offset, SEEK_SET);
    }
    libc::close(arena);
}

int OpenStep::start_update() {
    if (pending_ != Pending::update) return 0;
    std::lock_guard<std::mutex> lock(changing_);
    if (pending_ != Pending::update) return 0;
    int error = 0;
    StepFile* step = open_step(match_, Intent::update, 1, &error);
    if (!step) return error ? error : EIO;
    looked_ = step_;
    step_ = step;
    pending_ = Pending::nothing;
    return 0;
}

int OpenStep::use_scratch(int fd) {
    if (!writable_ || scratch_) return 0;
    int error = start_update();
    std::lock_guard<std::mutex> lock(changing_);
    StepFile* step = step_;
    const uint64_t size = step->eof();
    if (!error && size > 0) {
        step->prepare_read(0, size);
        for (uint64_t done = 0; !error && done < size;) {
            const ssize_t n = libc::pwrite(fd, step->data() + done, size - done, static_cast<off_t>(done));
            if (n > 0) done += static_cast<uint64_t>(n);
            else if (errno != EINTR) error = errno;
        }
    }
    if (!error && append_) libc::fcntl(fd, F_SETFL, O_APPEND);
    if (!error) scratch_ = true;
    if (!error) return 0;
    errno = error;
    return -1;
}

int OpenStep::store_scratch(int fd) {
    struct stat st;
    if (libc::fstat(fd, &st) != 0) return errno;
    const uint64_t size = static_cast<uint64_t>(st.st_size);
    StepFile* step = step_;
    int error = step->set_eof(0);
    if (error || size == 0) return error;
    void* bytes = libc::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) return errno;
    error = step->reserve(size);
    if (!error) error = step->write(0, bytes, size);
    munmap(bytes, size);
    return error;
}

int OpenStep::sync(int fd) {
    std::lock_guard<std::mutex> lock(changing_);
    StepFile* step = step_;
    if (!writable_ || pending_ == Pending::update || !publishes(step, Flushing::by_program)) return 0;
    const int error = scratch_ ? store_scratch(fd) : 0;
    return error ? error : publish_snapshot(step);
}

int OpenStep::finish(int fd) {
    int error = 0;
    if (scratch_) error = store_scratch(fd);
    StepFile* step = step_;
    if (error) {
        log_line("'%s' could not be stored: %s; the step is given up", match_.name, strerror(error));
        discard_step(step);
    } else {
        close_step(step);
    }
    if (looked_) close_step(looked_);
    return error;
}

OpenStep* find(int fd) {
    if (entries.load(std::memory_order_relaxed) == 0 || fd < 0 || fd >= kMostDescriptors) return nullptr;
    OpenStep* step = table[fd].load(std::memory_order_acquire);
    return step && step->mine() ? step : nullptr;
}

bool describe_open(const Match& match, bool written, struct stat* st) {
    if (entries == 0) return false;
    std::lock_guard<std::mutex> lock(leaving);
    for (int fd = 0; fd <= highest; ++fd) {
        OpenStep* step = find(fd);
        if (!step || (written && !step->writable()) || strcmp(step->name(), match.name) != 0) continue;
        step->describe(st);
        return true;
    }
    return false;
}

void adopt_duplicate(int fd, int copy) {
    OpenStep* step = find(fd);
    if (!step || copy < 0) return;
    ++step->references;
    if (!enter(copy, step)) --step->references;
    // A step that becomes standard input or output is about to be handed to another program, whose reads are not seen.
    if (copy <= 2) step->settle();
}

int forget(int fd) {
    OpenStep* step = take_out(fd);
    if (!step || --step->references > 0) return 0;
    const int error = step->finish(fd);
    delete step;
    return error;
}

void forget_range(unsigned first, unsigned last) {
    if (entries == 0) return;
    for (int fd = highest; fd >= 0; --fd)
        if (static_cast<unsigned>(fd) >= first && static_cast<unsigned>(fd) <= last) forget(fd);
}

namespace {

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
    const bool there = match.outport >= 0 && lookup_step(match, &size, &identity, &published);
    const bool continues = there && !(flags & (O_EXCL | O_TRUNC));
    if ((writes || match.outport >= 0) && (flags & O_CREAT) && !continues) {
        plan->intent = flags & O_EXCL ? Intent::create_exclusive : Intent::create;
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

}  // namespace

int open_match(const Match& match, int flags, Opener by) {
    Plan plan;
    int error = 0;
    // A file that this program has open for writing is the file it opens again.
    StepFile* file = match.outport >= 0 && !(flags & (O_CREAT | O_TRUNC)) ? find_open(match.name, true) : nullptr;
    if (!file) error = plan_open(match, flags, by == Opener::stream, &plan);
    if (!file && !error) {
        const bool reads = match.inport >= 0 && (plan.intent == Intent::read || plan.pending == OpenStep::Pending::read);
        file = !reads                        ? open_step(match, plan.intent, 1, &error)
               : plan.intent == Intent::read ? open_to_read(match, {nullptr, false}, &error)
                                             : open_to_look(match, {nullptr, false}, &error);
    }
    if (!file) {
        errno = error;
        return -1;
    }
    const bool writable = (flags & O_ACCMODE) != O_RDONLY;
    if (plan.empty) error = file->set_eof(0);
    const int cloexec = flags & O_CLOEXEC;
    const int fd = error      ? -1
                   : writable ? memfd_create("wilkins", cloexec ? MFD_CLOEXEC : 0)
                              : reopen(file->descriptor(), O_RDONLY | cloexec);
    if (fd < 0 && !error) error = errno;
    auto* step = error ? nullptr : new (std::nothrow) OpenStep(file, match, flags, by);
    if (!error && !step) error = ENOMEM;
    if (!error) {
        step->set_pending(plan.pending);
        if (!enter(fd, step)) error = EMFILE;
    }
    if (error) {
        delete step;
        if (fd >= 0) libc::close(fd);
        if (file->writable()) discard_step(file);
        else close_step(file);
        errno = error;
        return -1;
    }
    if (by == Opener::stream || step->size() == 0) step->settle_unless_looked_at();
    if (by == Opener::stream && step->use_scratch(fd) != 0) {
        error = errno;
        forget(fd);
        libc::close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

}  // namespace wilkins::posix
