// Drafts: when a step that is read becomes a file of its reader's own, and where.
#include "steps/draft.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

#include "base/held_at_forks.hpp"
#include "base/raw.hpp"
#include "base/turn.hpp"
#include "events.hpp"
#include "names/own_files.hpp"
#include "names/places.hpp"
#include "queue/queue.hpp"
#include "steps/disk.hpp"
#include "steps/inherited.hpp"
#include "steps/step_file.hpp"

namespace wilkins {

namespace {

constexpr uint64_t kSearched =
    65536;  // bytes in which a superblock is looked for: what is behind a larger user block counts like any byte

int write_at(int fd, const unsigned char* bytes, uint64_t count, uint64_t offset) {
    for (uint64_t done = 0; done < count;) {
        const ssize_t n = raw::pwrite(fd, bytes + done, count - done, static_cast<off_t>(offset + done));
        if (n > 0) done += static_cast<uint64_t>(n);
        else if (n == 0) return EIO;
        else if (errno != EINTR) return errno;
    }
    return 0;
}

uint64_t size_of(int fd) {
    struct stat st;
    return raw::fstat(fd, &st) == 0 ? static_cast<uint64_t>(st.st_size) : 0;
}

bool is_zero(const unsigned char* bytes, uint64_t count) {
    return count == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0);
}

// Calls `use` with what the file holds.
template <class Use>
bool with_bytes(int fd, Use use) {
    const uint64_t size = size_of(fd);
    static const unsigned char nothing = 0;
    void* bytes = size ? mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0) : nullptr;
    if (bytes == MAP_FAILED) return false;
    const bool result = use(size ? static_cast<const unsigned char*>(bytes) : &nothing, size);
    if (size) munmap(bytes, size);
    return result;
}

const AccessKeys& keys(int inport) { return process().board.port(inport).keys; }

}  // namespace

Draft::Draft(StepFile* step, const Match& match) : step_(step), size_(step->eof()) {
    const PortRecord& inport = process().board.port(match.inport);
    const bool known = make_whole(match.name, place_.whole);
    place_.inport = match.inport;
    place_.slot = step->state->slot;
    place_.stamp = step->identity();
    place_.named = known && !in_order(inport);
    place_.on_disk = known && (place_.named || inport.keys.mode != Mode::memory);
    const uint64_t searched = std::min(size_, kSearched);
    step_->prepare_read(0, searched);
    marks_ = find_marks(step_->data(), searched);
    block_.assign(step_->data() + marks_.begin, step_->data() + marks_.end);
}

Draft::~Draft() {
    if (fd_ >= 0) raw::close(fd_);
    if (step_) close_step(step_);
}

// Another process or handle of the task has made the file.
int Draft::join() {
    fd_ = raw::open(place_.whole, O_RDWR | O_CLOEXEC, 0);
    if (fd_ < 0) return errno;
    made_ = changed_ = true;
    return 0;
}

bool Draft::is_made() {
    if (made_ || !place_.named) return made_;
    const Process& p = process();
    const TaskRecord& task = p.board.task(p.context.task);
    const uint32_t makes = task.makes.load(std::memory_order_relaxed);
    if (makes == seen_) return false;
    seen_ = makes;
    return has_made(p, p.context.task, place_.whole) && join() == 0;
}

uint64_t Draft::size() {
    std::lock_guard<std::mutex> guard(mutex_);
    return is_made() && fd_ >= 0 ? size_of(fd_) : size_;
}

void Draft::read(uint64_t offset, void* buffer, uint64_t count) {
    std::lock_guard<std::mutex> guard(mutex_);
    auto* to = static_cast<unsigned char*>(buffer);
    if (is_made()) {
        uint64_t done = 0;
        while (fd_ >= 0 && done < count) {
            const ssize_t n = raw::pread(fd_, to + done, count - done, static_cast<off_t>(offset + done));
            if (n > 0) done += static_cast<uint64_t>(n);
            else if (n == 0 || errno != EINTR) break;
        }
        memset(to + done, 0, count - done);
        return;
    }
    step_->read(offset, buffer, count);
    const uint64_t begin = std::max(offset, marks_.begin), end = std::min(offset + count, marks_.end);
    if (begin < end) memcpy(to + (begin - offset), block_.data() + (begin - marks_.begin), end - begin);
}

// True if the step's bytes between these places are nothing but zeros.
bool Draft::is_nothing(uint64_t from, uint64_t to) {
    to = std::min(to, step_->eof());
    if (from >= to) return true;
    step_->prepare_read(from, to - from);
    return is_zero(step_->data() + from, to - from);
}

// True if these bytes would change what the file says. What HDF5 writes into its superblock as it opens and closes a
// file is noted.
bool Draft::is_change(uint64_t offset, const unsigned char* bytes, uint64_t count) {
    const uint64_t known = step_->eof();
    const uint64_t end = offset + count;
    const uint64_t inside = offset < known ? std::min(end, known) : offset;
    if (end > known && (marks_.empty() || !is_zero(bytes + (inside - offset), end - inside))) return true;
    step_->prepare_read(offset, inside - offset);
    const unsigned char* const old = step_->data();
    const auto differs = [&](uint64_t from, uint64_t to) {
        from = std::max(from, offset);
        to = std::min(to, inside);
        return from < to && memcmp(old + from, bytes + (from - offset), to - from) != 0;
    };
    uint64_t from = offset;
    for (const ByteRange& mark : marks_.parts) {
        if (differs(from, mark.begin)) return true;
        from = std::max(from, mark.end);
    }
    if (differs(from, inside)) return true;
    const uint64_t noted = std::max(offset, marks_.begin), to = std::min(end, marks_.end);
    if (noted < to) memcpy(block_.data() + (noted - marks_.begin), bytes + (noted - offset), to - noted);
    return false;
}

int Draft::write(uint64_t offset, const void* buffer, uint64_t count) {
    std::lock_guard<std::mutex> guard(mutex_);
    const auto* bytes = static_cast<const unsigned char*>(buffer);
    if (count == 0) return 0;
    if (!is_made() && !is_change(offset, bytes, count)) {
        size_ = std::max(size_, offset + count);
        return 0;
    }
    if (const int error = make_known()) return error;
    return write_at(fd_, bytes, count, offset);
}

int Draft::resize(uint64_t size) {
    std::lock_guard<std::mutex> guard(mutex_);
    if (!is_made() && (size == size_ || (!marks_.empty() && is_nothing(size, size_)))) {
        size_ = size;
        return 0;
    }
    if (const int error = make_known()) return error;
    return raw::ftruncate(fd_, static_cast<off_t>(size)) == 0 ? 0 : errno;
}

int Draft::replace(const unsigned char* bytes, uint64_t size) {
    {
        std::lock_guard<std::mutex> guard(mutex_);
        step_->prepare_read(0, step_->eof());
        if (!is_made() && digest_of(bytes, size) == digest_of(step_->data(), step_->eof())) return 0;
        if (const int error = make_known()) return error;
    }
    const int error = write(0, bytes, size);
    return error ? error : resize(size);
}

int Draft::make_known() {
    const bool before = changed_;
    changed_ = true;
    if (const int error = make()) return error;
    if (fd_ < 0) return EBADF;
    if (!before && place_.named) keep(place_);
    if (!place_.on_disk) tell_lost();
    return 0;
}

int Draft::make() {
    if (is_made()) return 0;
    const Process& p = process();
    if (!changed_) {
        step_->prepare_read(0, step_->eof());
        place_.digest = digest_of(step_->data(), step_->eof());
    }
    if (const int error = store(p)) return error;
    struct stat st;
    if (raw::fstat(fd_, &st) != 0) return errno;
    place_.device = st.st_dev;
    place_.inode = st.st_ino;
    made_ = true;
    if (place_.named) note_made(place_.whole);
    return 0;
}

// The step's bytes go to a file: on the disk, unless nobody is to find it there, or a newer one of the name lies there.
int Draft::store(const Process& p) {
    bool stale = false;
    if (place_.on_disk) {
        const int error = store_named(p, &stale);
        if (error || !stale) return error;
    }
    place_.named = place_.on_disk = false;
    fd_ = raw::open(p.board.folder(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd_ < 0) fd_ = memfd_create("wilkins-draft", MFD_CLOEXEC);
    return fd_ < 0 ? errno : fill(fd_);
}

int Draft::store_named(const Process& p, bool* stale) {
    const Turn turn(p.board.folder(), hash_text(place_.whole));  // one process at a time makes the file of a name
    if (place_.named) {
        if (has_made(p, p.context.task, place_.whole)) return join();
        for (const TaskRecord& task : tasks_of(p.board)) {
            const int other = p.board.index(task);
            if (other == p.context.task || !has_made(p, other, place_.whole)) continue;
            Board::Lock lock(p.board);
            fail_run(p, event::both_change(task.name, place_.whole));
            return EACCES;
        }
    }
    if (keys(place_.inport).mode != Mode::memory) {
        int fd = raw::open(place_.whole, O_RDONLY | O_CLOEXEC, 0);
        if (fd < 0 && !place_.named) *stale = true;
        if (fd >= 0) {
            step_->prepare_read(0, step_->eof());
            const unsigned char* const bytes = step_->data();
            const uint64_t size = step_->eof();
            *stale = !with_bytes(fd, [&](const unsigned char* there, uint64_t length) {
                return length == size && memcmp(there, bytes, size) == 0;
            });
            raw::close(fd);
        }
        if (*stale) return 0;
    }
    const auto fill_it = [](void* draft, int fd) { return static_cast<Draft*>(draft)->fill(fd); };
    return disk::make_own(p.board, place_.whole, fill_it, this, &fd_);
}

int Draft::fill(int fd) {
    const uint64_t size = step_->eof();
    step_->prepare_read(0, size);
    int error = step_->settle();
    if (!error) error = write_at(fd, step_->data(), size, 0);
    if (!error && size_ != size && raw::ftruncate(fd, static_cast<off_t>(size_)) != 0) error = errno;
    return error ? error : write_at(fd, block_.data(), block_.size(), marks_.begin);
}

void Draft::tell_lost() {
    if (reported_) return;
    reported_ = true;
    const Process& p = process();
    PortRecord& inport = p.board.port(place_.inport);
    Board::Lock lock(p.board);
    log_once(inport, Once::lost_changes,
             in_order(inport) ? event::changes_rewritten(place_.whole) : event::changes_outdated(place_.whole));
}

int Draft::settle() const { return step_->settle(); }

int Draft::descriptor() {
    std::lock_guard<std::mutex> guard(mutex_);
    errno = make();
    return errno ? -1 : fd_;
}

int Draft::take_descriptor() {
    const int fd = descriptor();
    std::lock_guard<std::mutex> guard(mutex_);
    if (fd >= 0) fd_ = -1;
    return fd;
}

bool Draft::is_file(uint64_t* device, uint64_t* inode) {
    std::lock_guard<std::mutex> guard(mutex_);
    struct stat st;
    if (!is_made() || fd_ < 0 || raw::fstat(fd_, &st) != 0) return false;
    *device = st.st_dev;
    *inode = st.st_ino;
    return true;
}

uint64_t Draft::identity() const { return place_.stamp; }

// The task finds the file under the step's name from now on: no rank of it waits for the step, or has it listed.
void Draft::keep(const Place& place) {
    const Board& board = process().board;
    Board::Lock lock(board);
    const SlotRecord& slot = board.slot(place.slot);
    if (slot.stamp == place.stamp && slot.state == SlotState::published)
        queue::pass_by(board, place.inport, place.slot);
}

bool Draft::is_as_before(const Place& place, int fd) {
    return with_bytes(
        fd, [&](const unsigned char* bytes, uint64_t size) { return digest_of(bytes, size) == place.digest; });
}

// The file was made for who might have changed it, and nobody has. What a producer has on disk stays there.
void Draft::drop(const Place& place) {
    if (!place.named) return;
    struct stat st;
    const bool there = raw::stat(place.whole, &st) == 0 && st.st_dev == place.device && st.st_ino == place.inode;
    forget_made(place.whole);
    if (there && keys(place.inport).mode == Mode::memory) raw::unlink(place.whole);
}

namespace {

std::mutex left_mutex;
HeldAtForks held_at_forks(left_mutex);
std::atomic<bool> any_left{false};

}  // namespace

std::vector<Draft::Place>& Draft::left = *new std::vector<Place>;  // used to the end of the process

void Draft::leave() {
    std::lock_guard<std::mutex> guard(mutex_);
    if (!made_ || changed_) return;
    changed_ = true;
    if (place_.named) keep(place_);
}

void Draft::end(bool others, int fd) {
    std::lock_guard<std::mutex> guard(mutex_);
    if (!made_ || changed_ || ended_) return;
    ended_ = true;
    if (others) {
        if (!place_.named) return;
        std::lock_guard<std::mutex> left_guard(left_mutex);
        left.push_back(place_);
        any_left = true;
        return;
    }
    if (fd < 0) fd = fd_;
    changed_ = fd < 0 || !is_as_before(place_, fd);
    if (!changed_) drop(place_);
    else if (place_.named) keep(place_);
    else if (!place_.on_disk) tell_lost();
}

void settle_drafts() {
    if (!any_left) return;
    std::vector<Draft::Place> places;
    {
        std::lock_guard<std::mutex> guard(left_mutex);
        places = Draft::left;
    }
    const auto is_open = [](const Draft::Place& place) {
        const int fd = raw::open(place.whole, O_RDONLY | O_CLOEXEC, 0);
        struct stat st;
        const bool there = fd >= 0 && raw::fstat(fd, &st) == 0 && st.st_dev == place.device && st.st_ino == place.inode;
        const bool written = there && inherited::is_written(fd);
        if (there && !written) Draft::is_as_before(place, fd) ? Draft::drop(place) : Draft::keep(place);
        if (fd >= 0) raw::close(fd);
        return written;
    };
    // (Other processes and threads may settle the same ones meanwhile.)
    places.erase(std::remove_if(places.begin(), places.end(), is_open), places.end());
    std::lock_guard<std::mutex> guard(left_mutex);
    const auto is_settled = [&](const Draft::Place& place) {
        return std::any_of(places.begin(), places.end(), [&](const auto& settled) { return settled.is(place); });
    };
    Draft::left.erase(std::remove_if(Draft::left.begin(), Draft::left.end(), is_settled), Draft::left.end());
    any_left = !Draft::left.empty();
}

}  // namespace wilkins
