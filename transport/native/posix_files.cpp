// Descriptors that lead to steps: the table of them, and the copies behind reads and writes.
#include "posix_files.hpp"

#include <limits.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "inherited.hpp"
#include "raw.hpp"
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

std::atomic<bool> has_left{false};  // this process has left steps to others

constexpr size_t kWorthCopying = 4096;  // of less at once, some must have come before

// A second, independent descriptor of the same file; -1 and errno on failure.
int reopen_anew(int fd, int flags) {
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return libc::open(path, flags | O_NOCTTY);
}

// The same, or a duplicate where there is none.
int reopen(int fd, int flags) {
    const int opened = reopen_anew(fd, flags);
    return opened >= 0 ? opened : libc::fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

// A file without a name that others can be given one of later (see inherited.hpp).
int make_kernel_file(int flags) {
    const int fd = raw::open(process().board.folder(), O_TMPFILE | flags, 0600);
    return fd >= 0 ? fd : memfd_create("wilkins", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
}

// Standard input, output and errors are what other programs are given, and what the C library writes by itself.
constexpr int kLastStandard = 2;

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
    if (entries > 0) {
        fflush(nullptr);
        forget_range(0, kMostDescriptors);
    }
    inherited::settle_own();
} WILKINS_OR()

// No fork while an entry leaves the table: in the child nobody would ever be done with that.
void before_fork() {
    hand_all_to_child();
    leaving.lock();
}
void after_fork() { leaving.unlock(); }

__attribute__((constructor)) void watch_forks() { pthread_atfork(before_fork, after_fork, after_fork); }

}  // namespace

int64_t wall_clock_ns() {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

OpenStep::OpenStep(StepFile* step, const Match& match, int flags, Opener by, KernelFile* file)
    : step_(step),
      match_(match),
      readable_((flags & O_ACCMODE) != O_WRONLY),
      writable_((flags & O_ACCMODE) != O_RDONLY),
      append_(flags & O_APPEND),
      by_(by),
      file_(file),
      opened_ns_(wall_clock_ns()) {}

OpenStep::~OpenStep() {
    if (file_ && --file_->references == 0) delete file_;
}

bool OpenStep::mine() const { return step_.load()->state->mine(); }

bool OpenStep::same_step(const StepFile* step) const { return file_ && step_.load()->identity() == step->identity(); }

KernelFile* OpenStep::share_file() {
    ++file_->references;
    return file_;
}

uint64_t OpenStep::size() const { return step_.load()->eof(); }

void OpenStep::describe(struct stat* st) const {
    StepFile* step = step_;
    posix::describe(step->eof(), step->identity(), opened_ns_, st);
}

ssize_t OpenStep::read_at(void* buffer, size_t count, off_t offset) {
    if (offset < 0 || !readable_) {
        errno = readable_ ? EINVAL : EBADF;
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
    const uint64_t begin = static_cast<uint64_t>(offset);
    if (!error && count > 0) file_->recent.add(begin, begin + count);
    if (!error && count > 0) error = step_.load()->write(begin, buffer, count);
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

void OpenStep::note_end() {
    if (pending_ == Pending::read) settle();
}

// Something else has moved the offset: a child that has the descriptor, a call of the kernel's. (netCDF reads megabytes to look, through
// a stream.)
bool OpenStep::was_read_past(int fd) const {
    return libc::lseek(fd, 0, SEEK_CUR) > offset_ && !(by_ == Opener::stream && may_be_look());
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

// What the arena holds goes to the kernel's file, which is empty or holds what is known to be in the arena, too.
int OpenStep::take_over(int fd) {
    StepFile* step = step_;
    const uint64_t size = step->eof();
    if (size > 0) {
        // (O_APPEND would append what belongs at its place.)
        const int writing = append_ ? reopen_anew(fd, O_WRONLY | O_CLOEXEC) : fd;
        int error = writing < 0 ? errno : 0;
        step->prepare_read(0, size);
        for (uint64_t done = 0; !error && done < size;) {
            const ssize_t n = libc::pwrite(writing, step->data() + done, size - done, static_cast<off_t>(done));
            if (n > 0) done += static_cast<uint64_t>(n);
            else if (errno != EINTR) error = errno;
        }
        if (append_ && writing >= 0) libc::close(writing);
        if (error) return error;
    }
    if (append_) libc::fcntl(fd, F_SETFL, O_APPEND);
    file_->takes_all = true;
    return 0;
}

void OpenStep::speed_up(int fd, size_t count) {
    if (!file_->takes_all || file_->handed || append_) return;
    if (count < kWorthCopying && file_->trickled.fetch_add(count) < kBlock) return;
    std::lock_guard<std::mutex> lock(file_->changing);
    struct stat st;
    if (!file_->takes_all || file_->handed || raw::fstat(fd, &st) != 0 || st.st_ino != file_->inode) return;
    if (st.st_size > 0) {
        const int reading = reopen_anew(fd, O_RDONLY | O_CLOEXEC);
        const bool stored = reading >= 0 && store(reading) == 0;
        if (reading >= 0) libc::close(reading);
        if (!stored || raw::ftruncate(fd, 0) != 0) return;
    }
    offset_ = libc::lseek(fd, 0, SEEK_CUR);
    file_->takes_all = false;
}

// Not after a close that did not come by our calls, when the number may be that of anything.
bool OpenStep::leads_here(int fd) const {
    struct stat st;
    return raw::fstat(fd, &st) == 0 && st.st_ino == file_->inode;
}

int OpenStep::hand_over(int fd) {
    if (!writable_) return 0;
    const bool already = native(fd);
    file_->handed = true;
    int error = start_update();
    if (already && !error) return 0;
    std::lock_guard<std::mutex> lock(file_->changing);
    if (!error && !file_->takes_all) error = take_over(fd);
    if (!error) return 0;
    errno = error;
    return -1;
}

void OpenStep::hand_to_child(int fd) {
    if (!writable_) return;
    int error = 0;
    if (pending_ != Pending::update) {
        error = hand_over(fd) == 0 ? 0 : errno;
    } else if (!native(fd)) {
        // That others may write to it makes a file no new step yet. The kernel's time of the last write will tell.
        std::lock_guard<std::mutex> lock(file_->changing);
        const struct timespec never[2] = {};
        if (!file_->takes_all) error = take_over(fd);
        if (!error && libc::futimens(fd, never) != 0) error = errno;
        file_->handed = true;
    }
    if (!error) return;
    log_line("error: '%s' cannot be handed to another process: %s; what that writes to it is lost", match_.name, strerror(error));
    step_.load()->state->failed = error;
}

// A file that was only opened to change it was changed by the kernel. Returns 0 or an errno.
int OpenStep::note_changed(int fd) {
    struct stat st;
    if (pending_ != Pending::update || !file_->takes_all || raw::fstat(fd, &st) != 0) return 0;
    return st.st_mtim.tv_sec == 0 && st.st_mtim.tv_nsec == 0 ? 0 : start_update();
}

// Is the kernel's file empty, and its offset where our calls have left it? Mostly one call tells both (of the lower bits, which at the
// close is not all that is asked): the offset at the file's end, wherever that is, looks like zero. False where it is not sure.
bool OpenStep::is_untouched(int fd) const {
    const off_t offset = offset_;
    int ahead = 0;
    if (raw::bytes_ahead(fd, &ahead) != 0 || ahead != static_cast<int>(-offset)) return false;
    return offset != 0 || libc::lseek(fd, 0, SEEK_CUR) == 0;
}

bool OpenStep::writes_natively(int fd) {
    if (!writable_) return false;
    return file_->takes_all || (file_->recent.is_full() && native(fd));
}

bool OpenStep::native(int fd) {
    if (!writable_) return false;
    if (file_->takes_all) return true;
    return !file_->recent.ask([&] { return is_untouched(fd); }) && was_written_past(fd);
}

// The same, for sure. True, too, if the number leads elsewhere by now.
bool OpenStep::was_written_past(int fd) {
    struct stat st;
    if (raw::fstat(fd, &st) != 0) return false;
    if (st.st_ino != file_->inode) return true;
    if (st.st_size == 0 && st.st_blocks == 0) {
        offset_ = libc::lseek(fd, 0, SEEK_CUR);
        return false;
    }
    int error = start_update();
    file_->handed = true;
    std::lock_guard<std::mutex> lock(file_->changing);
    if (file_->takes_all) return true;
    if (!error) error = merge(fd, static_cast<uint64_t>(st.st_size));
    if (!error) error = take_over(fd);
    if (error) {
        log_line("error: '%s': what was written to it past the C library could not be kept: %s", match_.name, strerror(error));
        step_.load()->state->failed = error;
        file_->takes_all = true;
    }
    return true;
}

namespace {

constexpr uint64_t kPage = 4096;

// What was written one after the other from the program's own offset is known to the byte.
struct InOrder {
    bool known;
    uint64_t begin, end;
    bool has(uint64_t place) const { return known && place >= begin && place < end; }
};

// A page of the kernel's file over the same bytes of the arena. Bytes that were not written are zero there, as are zeros that
// were. Returns how many bytes of the arena might be either, or were written by our calls so lately that they may be the newer ones.
uint64_t lay_over(unsigned char* arena, const unsigned char* page, uint64_t at, uint64_t count, const InOrder& in_order, RecentWrites& recent) {
    uint64_t unknown = 0;
    for (uint64_t k = 0; k < count; ++k) {
        if (arena[k] == page[k]) continue;
        const bool written = page[k] != 0 || in_order.has(at + k);
        if (written ? recent.contain(at + k) : !in_order.known) ++unknown;
        if (written) arena[k] = page[k];
    }
    return unknown;
}

}  // namespace

// What something unseen has written becomes part of the arena. It was written after all that our calls have put there, but for the
// last of it.
int OpenStep::merge(int fd, uint64_t written) {
    StepFile* step = step_;
    const int reading = reopen_anew(fd, O_RDONLY | O_CLOEXEC);
    if (reading < 0) return errno;
    int error = 0;
    const uint64_t before = step->eof();
    const off_t now = libc::lseek(fd, 0, SEEK_CUR);
    const uint64_t begin = static_cast<uint64_t>(offset_), end = now > offset_ ? static_cast<uint64_t>(now) : begin;
    off_t at = libc::lseek(reading, 0, SEEK_DATA);
    // The file's length alone was changed.
    if (at < 0 && errno == ENXIO) error = step->set_eof(written);
    else if (written > before) error = step->set_eof(written);
    const InOrder in_order = {at >= 0 && end > begin && static_cast<uint64_t>(at) >= begin / kPage * kPage && written <= end, begin, end};
    uint64_t unknown = 0;
    while (!error && at >= 0 && static_cast<uint64_t>(at) < written) {
        const auto hole = static_cast<uint64_t>(libc::lseek(reading, at, SEEK_HOLE));
        for (auto place = static_cast<uint64_t>(at); !error && place < std::min(hole, written);) {
            unsigned char page[kPage];
            const uint64_t count = std::min({kPage, hole - place, written - place});
            if (libc::pread(reading, page, count, static_cast<off_t>(place)) != static_cast<ssize_t>(count)) error = EIO;
            if (!error) error = step->prepare_write(place, count, false);
            if (!error) unknown += lay_over(step->data() + place, page, place, count, in_order, file_->recent);
            place += count;
        }
        at = libc::lseek(reading, static_cast<off_t>(hole), SEEK_DATA);
    }
    libc::close(reading);
    if (error || unknown == 0) return error;
    const Process& p = process();
    Board::Lock lock(p.board);
    fail_run(p,
             "task '%s' rank %d: the program %s has written to '%s' by a call that does not come from the C library (a raw system call, "
             "io_uring), among %llu bytes that it has written by write or pwrite, too, so that nobody can tell which of them "
             "are newer; write through the C library, or all of the file past it",
             p.task_name(), p.context.rank, program_invocation_short_name, match_.name, static_cast<unsigned long long>(unknown));
    return EIO;
}

// What the kernel holds becomes the arena's. `fd`: open to be read.
int OpenStep::store(int fd) {
    struct stat st;
    if (raw::fstat(fd, &st) != 0) return errno;
    const uint64_t size = static_cast<uint64_t>(st.st_size);
    StepFile* step = step_;
    int error = step->set_eof(0);
    if (error || size == 0) return error;
    error = step->prepare_write(0, size, true);
    for (uint64_t done = 0; !error && done < size;) {
        const ssize_t n = libc::pread(fd, step->data() + done, size - done, static_cast<off_t>(done));
        if (n > 0) done += static_cast<uint64_t>(n);
        else if (n == 0) error = EIO;
        else if (errno != EINTR) error = errno;
    }
    return error;
}

int OpenStep::sync(int fd) {
    if (!writable_) return 0;
    const bool by_kernel = native(fd);
    if (const int error = note_changed(fd)) return error;
    std::lock_guard<std::mutex> lock(file_->changing);
    StepFile* step = step_;
    if (pending_ == Pending::update || !publishes(step, Flushing::by_program)) return 0;
    const int reading = by_kernel ? reopen_anew(fd, O_RDONLY | O_CLOEXEC) : -1;
    int error = !by_kernel ? 0 : reading < 0 ? errno : store(reading);
    if (reading >= 0) libc::close(reading);
    return error ? error : publish_snapshot(step);
}

int OpenStep::finish(int fd) {
    if (writable_) return finish_written(fd);
    if (pending_ == Pending::read && was_read_past(fd)) settle();
    close_step(step_);
    if (looked_) close_step(looked_);
    return 0;
}

int OpenStep::finish_written(int fd) {
    const bool by_kernel = file_->takes_all || was_written_past(fd);
    int error = note_changed(fd);
    if (file_->references > 1) pass_lead();
    const bool unchanged = pending_ == Pending::update && !(by_kernel && is_shared(fd));
    if (unchanged || step_.load()->state->role == Role::own_copy || file_->references > 1) {
        // Nothing was written, or nobody else will read it, or another description goes on.
        close_step(step_);
        if (looked_) close_step(looked_);
        return error;
    }
    if (!error) error = start_update();
    StepFile* step = step_;
    // The number leads to the same file, to be read, until the program's own call closes it.
    const bool there = leads_here(fd);
    const int reading = there ? reopen_anew(fd, O_RDONLY | O_CLOEXEC) : -1;
    if (!there && by_kernel) error = EBADF;
    if (there && (reading < 0 || libc::dup3(reading, fd, O_CLOEXEC) < 0)) error = errno;
    const bool others = !error && there && inherited::is_written(reading);
    if (others && !by_kernel) {  // that has it by a way that is not known
        const int writing = reopen_anew(reading, O_RDWR | O_CLOEXEC);
        error = writing < 0 ? errno : 0;
        if (!error && !native(writing)) error = take_over(writing);
        if (writing >= 0) libc::close(writing);
    }
    if (!error && others && (error = inherited::leave(step, reading)) == 0) {
        has_left = true;
        leave_step(step);
    } else if (error || (by_kernel && (error = store(reading)) != 0)) {
        log_line("'%s' could not be stored: %s; the step is given up", match_.name, strerror(error));
        discard_step(step);
    } else {
        if (left_) inherited::take_back(step);
        if (named_) inherited::remove_file(process().board, step->token().slot);
        close_step(step);
    }
    if (reading >= 0) libc::close(reading);
    if (looked_) close_step(looked_);
    return error;
}

// Has anyone but this description the file open? Of a description that is about to end.
bool OpenStep::is_shared(int fd) const {
    const int reading = reopen_anew(fd, O_RDONLY | O_CLOEXEC);
    if (reading < 0) return false;
    libc::dup3(reading, fd, O_CLOEXEC);
    const bool shared = inherited::is_written(reading);
    libc::close(reading);
    return shared;
}

// Another description of the same step goes on: it is the one whose close publishes.
void OpenStep::pass_lead() {
    if (step_.load()->state->role != Role::lead) return;
    std::lock_guard<std::mutex> lock(leaving);
    for (int fd = 0; fd <= highest; ++fd) {
        OpenStep* const other = find(fd);
        if (!other || other == this || other->file_ != file_) continue;
        step_ = other->step_.exchange(step_);
        return;
    }
}

void OpenStep::leave_to_next(int fd) {
    hand_to_child(fd);
    if (writable_ && !(libc::fcntl(fd, F_GETFD) & FD_CLOEXEC)) start_update();
    const StepFile* step = step_;
    if (!writable_ || pending_ == Pending::update || step->state->role != Role::lead || left_) return;
    const int error = inherited::leave(step, fd);
    left_ = !error;
    named_ = named_ || left_;
    if (error) log_line("error: '%s' cannot be handed to the program that takes the process: %s", match_.name, strerror(error));
}

void OpenStep::take_back() {
    if (left_) inherited::take_back(step_);
    left_ = false;
}

bool has_entries() { return entries.load(std::memory_order_relaxed) != 0; }

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
        struct stat by_kernel;
        const bool native = step->native(fd) && raw::fstat(fd, &by_kernel) == 0;
        step->describe(st);
        if (native) st->st_size = by_kernel.st_size;
        return true;
    }
    return false;
}

void hand_all_to_child() {
    if (entries == 0) return;
    const int before = errno;
    std::lock_guard<std::mutex> lock(leaving);
    for (int fd = 0; fd <= highest; ++fd)
        if (OpenStep* step = find(fd)) step->hand_to_child(fd);
    errno = before;
}

void leave_all() {
    if (entries == 0) return;
    std::lock_guard<std::mutex> lock(leaving);
    for (int fd = 0; fd <= highest; ++fd)
        if (OpenStep* step = find(fd)) step->leave_to_next(fd);
}

void leave_handed() try {
    if (entries == 0) return;
    std::lock_guard<std::mutex> lock(leaving);
    for (int fd = 0; fd <= highest; ++fd) {
        OpenStep* const step = find(fd);
        if (step && step->handed()) step->leave_to_next(fd);
    }
} WILKINS_OR()

void take_back_all() {
    if (entries == 0) return;
    std::lock_guard<std::mutex> lock(leaving);
    for (int fd = 0; fd <= highest; ++fd)
        if (OpenStep* step = find(fd)) step->take_back();
}

void note_unmapped() {
    if (has_left) inherited::settle_own();
}

void adopt_duplicate(int fd, int copy) {
    OpenStep* step = find(fd);
    if (!step || copy < 0) return;
    ++step->references;
    if (!enter(copy, step)) --step->references;
    // A step that becomes standard input or output is about to be handed to another program, whose calls are not seen.
    if (copy > kLastStandard) return;
    step->settle();
    step->hand_to_child(copy);
}

int forget(int fd) {
    OpenStep* step = take_out(fd);
    if (!step || --step->references > 0) return 0;
    const int error = step->finish(fd);
    delete step;
    if (has_left) inherited::settle_own();
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

namespace {

// The descriptor of a step that is to be written: of a new file, or of the one behind another descriptor of the same step. `is_new`:
// the step holds nothing yet.
int open_kernel_file(const StepFile* step, bool is_new, int flags, KernelFile** file) {
    std::lock_guard<std::mutex> lock(leaving);
    for (int other = 0; entries > 0 && other <= highest; ++other) {
        OpenStep* const open = find(other);
        if (!open || !open->same_step(step)) continue;
        const int append = open->takes_all() ? O_APPEND : 0;
        const int fd = reopen_anew(other, flags & (O_ACCMODE | O_CLOEXEC | append));
        if (fd < 0) break;
        *file = open->share_file();
        return fd;
    }
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

int open_match(const Match& match, int flags, Opener by) {
    Plan plan;
    int error = 0;
    if (match.outport >= 0) inherited::settle_own();
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
    int fd = -1;
    KernelFile* kernel_file = nullptr;
    const bool is_new = !error && plan.pending != OpenStep::Pending::update && file->eof() == 0;
    if (!error && writable) fd = open_kernel_file(file, is_new, flags, &kernel_file);
    else if (!error) fd = reopen(file->descriptor(), O_RDONLY | (flags & O_CLOEXEC));
    if (fd < 0 && !error) error = errno;
    auto* step = error ? nullptr : new (std::nothrow) OpenStep(file, match, flags, by, kernel_file);
    if (!error && !step) error = ENOMEM;
    if (!error) {
        step->set_pending(plan.pending);
        if (!enter(fd, step)) error = EMFILE;
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
    if (by == Opener::stream && step->hand_over(fd) != 0) {
        error = errno;
        forget(fd);
        libc::close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

}  // namespace wilkins::posix
