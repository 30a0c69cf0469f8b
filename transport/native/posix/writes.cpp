// Where the bytes of a step lie that is written: in the arena, or in the kernel's file; and what has reached that
// unseen.
#include "base/raw.hpp"
#include "posix/copies.hpp"
#include "posix/table.hpp"
#include "steps/inherited.hpp"
#include "steps/joined.hpp"
#include "steps/snapshot.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "events.hpp"

namespace wilkins::posix {

namespace {

constexpr size_t kWorthCopying = 4096;  // of less at once, some must have come before

}  // namespace

// The kernel's file has the step's bytes from now on, for all that write it.
int OpenStep::take_over(int fd) {
    if (is_draft()) return turn_to_own(fd);
    StepFile* const step = step_;
    StepFile::State* const state = step->state;
    const bool may_be_joint =
        pending_ != Pending::update && state->slot >= 0 && (state->role == Role::lead || state->joined);
    if (may_be_joint) {
        const int error = joined::begin_move(state);
        if (error == EAGAIN) return follow(step);
        if (error) return error;
    }
    int error = copy_to_kernel(fd);
    if (may_be_joint) {
        const bool named = !error && inherited::name_file(step, fd) == 0;
        joined::end_move(state, named);
        if (!error && !named && state->joined) error = EOPNOTSUPP;
        file_->named = named;
        file_->joint = !is_of_lead(state);
    }
    if (!error) file_->takes_all = true;
    return error;
}

// What the arena holds goes to the kernel's file, which is empty or holds what is known to be in the arena, too.
int OpenStep::copy_to_kernel(int fd) {
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
    for (int k = 0; file_->references > 1 && k <= highest; ++k)
        if (const OpenStep* const other = table[k]; other && other->file_ == file_ && other->append_)
            libc::fcntl(k, F_SETFL, O_APPEND);
    return 0;
}

// True of the file's own description, or of one that shares all with it.
bool OpenStep::leads() const {
    const StepFile::State* const state = step_.load()->state;
    return state->slot >= 0 &&
           (state->role == Role::lead || (state->joined && pending_ != Pending::update && file_->references > 1));
}

void OpenStep::note_holder(int fd) {
    if (!leads() || file_->joint) return;
    if (!file_->named) file_->named = inherited::name_file(step_, fd) == 0;
    if (file_->named) process().board.slot(step_.load()->state->slot).in_kernel = file_->takes_all;
}

// The arena holds the bytes from now on. False if others read or write the kernel's file.
bool OpenStep::give_to_arena() {
    if (!leads()) return true;
    const Board& board = process().board;
    SlotRecord& slot = board.slot(step_.load()->state->slot);
    Board::Lock lock(board);
    if (slot.shared) return false;
    slot.in_kernel = 0;
    return true;
}

// What the task only reads is its own file from now on, which all descriptors of the description lead to.
int OpenStep::turn_to_own(int fd) {
    const int own = step_.load()->state->draft->take_descriptor();
    if (own < 0) return errno;
    struct stat st;
    const int flags = (!writable_ ? O_RDONLY : readable_ ? O_RDWR : O_WRONLY) | (append_ ? O_APPEND : 0) | O_CLOEXEC;
    const int same = raw::fstat(own, &st) == 0 ? reopen_anew(own, flags) : -1;
    int error = same < 0 ? errno : 0;
    raw::close(own);
    if (error) return error;
    libc::lseek(same, libc::lseek(fd, 0, SEEK_CUR), SEEK_SET);
    for (int k = 0; k <= highest; ++k) {
        if (find(k) != this) continue;
        const int closes = libc::fcntl(k, F_GETFD);
        if (libc::dup3(same, k, closes > 0 && (closes & FD_CLOEXEC) ? O_CLOEXEC : 0) < 0) error = errno;
    }
    libc::close(same);
    file_->inode = st.st_ino;
    file_->takes_all = true;
    file_->handed = true;
    ordinary_ = true;
    return error;
}

void OpenStep::speed_up(int fd, size_t count) {
    if (!file_->takes_all || file_->handed || append_ || file_->joint) return;
    if (count < kWorthCopying && file_->trickled.fetch_add(count) < kBlock) return;
    std::lock_guard<std::mutex> lock(file_->changing);
    struct stat st;
    if (!file_->takes_all || file_->handed || raw::fstat(fd, &st) != 0 || st.st_ino != file_->inode) return;
    if (st.st_size > 0) {
        const int reading = readable_ ? fd : reopen_anew(fd, O_RDONLY | O_CLOEXEC);
        const bool stored = reading >= 0 && store(reading) == 0;
        if (reading >= 0 && !readable_) libc::close(reading);
        if (!stored || !give_to_arena() || raw::ftruncate(fd, 0) != 0) return;
    } else if (!give_to_arena()) {
        return;
    }
    offset_ = libc::lseek(fd, 0, SEEK_CUR);
    file_->takes_all = false;
}

// Not after a close that did not come by our calls, when the number may be that of anything.
bool OpenStep::leads_here(int fd) const {
    struct stat st;
    return raw::fstat(fd, &st) == 0 && st.st_ino == file_->inode;
}

// A file that was only opened to change it was changed by the kernel. Returns 0 or an errno.
int OpenStep::note_changed(int fd) {
    struct stat st;
    if (pending_ != Pending::update || file_->joint || !file_->takes_all || raw::fstat(fd, &st) != 0) return 0;
    return st.st_mtim.tv_sec == 0 && st.st_mtim.tv_nsec == 0 ? 0 : start_update();
}

// True if the kernel's file is empty, and its offset where our calls have left it. Mostly one call tells both (of the
// lower bits, which at the close is not all that is asked): the offset at the file's end, wherever that is, looks like
// zero. False where it is not sure.
bool OpenStep::is_untouched(int fd) const {
    const off_t offset = offset_;
    int ahead = 0;
    if (raw::bytes_ahead(fd, &ahead) != 0 || ahead != static_cast<int>(-offset)) return false;
    return offset != 0 || libc::lseek(fd, 0, SEEK_CUR) == 0;
}

bool OpenStep::writes_natively(int fd) {
    if (!writable_) return false;
    return file_->takes_all || was_moved() || (file_->recent.is_full() && native(fd));
}

bool OpenStep::native(int fd) {
    if (!file_) return false;
    leave_stale_copy(fd, false);
    if (file_->takes_all || was_moved()) return true;
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
        log_event(event::not_kept(match_.name, error));
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

// A page of the kernel's file over the same bytes of the arena. Bytes that were not written are zero there, as are
// zeros that were. Returns how many bytes of the arena might be either, or were written by our calls so lately that
// they may be the newer ones.
uint64_t lay_over(unsigned char* arena, const unsigned char* page, uint64_t at, uint64_t count, const InOrder& in_order,
                  RecentWrites& recent) {
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

// What something unseen has written becomes part of the arena. It was written after all that our calls have put there,
// but for the last of it.
int OpenStep::merge(int fd, uint64_t written) {
    StepFile* step = step_;
    const int reading = reopen_anew(fd, O_RDONLY | O_CLOEXEC);
    if (reading < 0) return errno;
    int error = 0;
    const uint64_t before = step->eof();
    const off_t now = libc::lseek(fd, 0, SEEK_CUR);
    const uint64_t begin = static_cast<uint64_t>(offset_), end = now > offset_ ? static_cast<uint64_t>(now) : begin;
    off_t at = libc::lseek(reading, 0, SEEK_DATA);
    const bool length_alone = at < 0 && errno == ENXIO;
    if (length_alone || written > before) error = step->set_eof(written);
    const InOrder in_order = {
        at >= 0 && end > begin && static_cast<uint64_t>(at) >= begin / kPage * kPage && written <= end, begin, end};
    uint64_t unknown = 0;
    while (!error && at >= 0 && static_cast<uint64_t>(at) < written) {
        const auto hole = static_cast<uint64_t>(libc::lseek(reading, at, SEEK_HOLE));
        for (auto place = static_cast<uint64_t>(at); !error && place < std::min(hole, written);) {
            unsigned char page[kPage];
            const uint64_t count = std::min({kPage, hole - place, written - place});
            if (libc::pread(reading, page, count, static_cast<off_t>(place)) != static_cast<ssize_t>(count))
                error = EIO;
            unsigned char known[kPage];
            if (!error) step->read(place, known, count);
            if (!error) unknown += lay_over(known, page, place, count, in_order, file_->recent);
            if (!error) error = step->write(place, known, count);
            place += count;
        }
        at = libc::lseek(reading, static_cast<off_t>(hole), SEEK_DATA);
    }
    libc::close(reading);
    if (error || unknown == 0) return error;
    const Process& p = process();
    Board::Lock lock(p.board);
    fail_run(p, event::written_both_ways(program_invocation_short_name, match_.name, unknown));
    return EIO;
}

// What the kernel holds becomes the arena's. `fd`: open to be read.
int OpenStep::store(int fd) {
    struct stat st;
    if (raw::fstat(fd, &st) != 0) return errno;
    const uint64_t size = static_cast<uint64_t>(st.st_size);
    StepFile* step = step_;
    const int error = step->set_eof(0);
    return error || size == 0 ? error : fill_from(step, fd, size);
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

}  // namespace wilkins::posix
