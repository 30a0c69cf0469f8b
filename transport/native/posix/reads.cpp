// When a step that was opened to be read counts as read.
#include "posix/table.hpp"
#include "queue/queue.hpp"
#include "steps/viewers.hpp"
#include "store/reading.hpp"

#include <unistd.h>

#include <cstring>

#include "events.hpp"

namespace wilkins::posix {

namespace {

// What a library opens again after a look: in a process that has a shared HDF5, one reads magic bytes before it opens a
// file, in one read of the first bytes (buffered readers ask for up to 128 KiB at once), then nothing beyond the first
// page.
constexpr uint64_t kFirstLook = 131072;
constexpr uint64_t kNextLook = 4096;
// All else: where HDF5 is linked statically, the file's own reads come this way; H5Fis_hdf5 takes 8 bytes, H5Fopen
// more.
constexpr uint64_t kSignature = 64;

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
    const bool only_a_look = !looks ? read_bytes_ <= kSignature : reads_ == 1 ? end <= kFirstLook : end <= kNextLook;
    // Who has seen all of a step has read it; but under a name that is rewritten, the open after a look would take the
    // next one.
    const bool seen_whole = end >= size() && !(looks && in_order(process().board.port(match_.inport)));
    if (!only_a_look || seen_whole) settle();
}

void OpenStep::note_end() {
    if (pending_ == Pending::read) settle();
}

// Something else has moved the offset: a child that has the descriptor, a call of the kernel's. (netCDF reads megabytes
// to look, through a stream.)
bool OpenStep::was_read_past(int fd) const {
    return libc::lseek(fd, 0, SEEK_CUR) > offset_ && !(by_ == Opener::stream && may_be_look());
}

// The program has read nothing itself, and another process has it, which will (`Popen(command, stdin=f); f.close()`, a
// descriptor in a message); or a fork had it, which may have ended since. (Under a name that means the next step, that
// is not enough: it would pass one over.) Not if another open has taken the step meanwhile: to settle would take the
// next one.
bool OpenStep::is_left_to_others(int fd) {
    if (pending_ != Pending::read || reads_ > 0) return false;
    const int slot = step_.load()->token().slot;
    const bool more = static_cast<uint64_t>(libc::lseek(fd, 0, SEEK_CUR)) < size();
    const Process& p = process();
    const bool by_fork = forked_ && !in_order(p.board.port(match_.inport));
    if (slot < 0 || !more || !(by_fork || viewers::is_shared(fd))) return false;
    Board::Lock lock(p.board);
    const queue::Found found = queue::find(p.board, match_.inport, p.context.rank, match_.name);
    return found.unread && found.slot == slot;
}

void OpenStep::settle_unless_looked_at() {
    if (!may_be_look()) settle();
}

// HDF5 opens its own files with a driver of ours; netCDF looks at all files as streams, and opens classic ones as
// descriptors.
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
        log_event(event::looked_further(match_.name, error));
        return;
    }
    viewers::note_opened(step);
    looked_ = step_;
    step_ = step;
    if (step->identity() == looked_->identity()) return;
    const int arena = open_view(step, O_RDONLY | O_CLOEXEC);
    lead_to(arena);
    libc::close(arena);
}

}  // namespace wilkins::posix
