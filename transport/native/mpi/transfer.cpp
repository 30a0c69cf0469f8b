// Typed transfers between a program's memory and an arena: each byte is copied once, run by run.
#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/raw.hpp"
#include "board/arena.hpp"
#include "board/border.hpp"
#include "mpi/file.hpp"

namespace wilkins::mpiio {

namespace {

// Runs shorter than this are gathered, so that the arena is prepared once for many.
constexpr int64_t kShort = 4096;

struct Copy {
    int64_t place;  // in the file
    unsigned char* memory;
    int64_t length;
};

// Short writes on their way to an arena.
class Gathered {
public:
    explicit Gathered(StepFile& step) : step_(step) {}

    int add(Copy copy) {
        const bool near = count_ > 0 && copy.place >= end_ && copy.place - end_ < static_cast<int64_t>(kBlock);
        if (count_ > 0 && (!near || count_ == copies_.size())) {
            if (const int error = flush()) return error;
        }
        if (count_ == 0) {
            start_ = end_ = copy.place;
            gap_ = false;
        }
        gap_ = gap_ || copy.place != end_;
        end_ = copy.place + copy.length;
        copies_[count_++] = copy;
        return 0;
    }

    int flush() {
        if (count_ == 0) return 0;
        const auto place = static_cast<uint64_t>(start_);
        if (const int error = step_.prepare_write(place, static_cast<uint64_t>(end_ - start_), !gap_)) return error;
        unsigned char* const data = step_.data();
        for (size_t i = 0; i < count_; ++i) {
            std::copy_n(copies_[i].memory, copies_[i].length, data + copies_[i].place);
        }
        count_ = 0;
        return 0;
    }

private:
    StepFile& step_;
    std::array<Copy, 256> copies_;
    size_t count_ = 0;
    int64_t start_ = 0;
    int64_t end_ = 0;
    bool gap_ = false;
};

// Calls `move(place in the file, memory, length)` for each piece contiguous on both sides, until it returns false.
template <typename Move>
void for_each_piece(Cursor file, int64_t disp, Cursor memory, unsigned char* buffer, Move move) {
    while (!memory.done() && !file.done()) {
        const int64_t length = std::min(memory.run().length, file.run().length);
        if (!move(disp + file.run().offset, buffer + memory.run().offset, length)) return;
        memory.advance(length);
        file.advance(length);
    }
}

int write_pieces(StepFile& step, Cursor file, int64_t disp, Cursor memory, unsigned char* buffer, int64_t* bytes) {
    int error = 0;
    Gathered gathered(step);
    const auto move = [&](int64_t place, unsigned char* at, int64_t length) {
        // (The other host gathers what comes to it. Where others have bytes of the step, what lies between short runs
        // stays theirs.)
        if (length < kShort && !step.is_far() && !step.may_lack()) {
            error = gathered.add({place, at, length});
        } else {
            error = gathered.flush();
            if (error == 0) error = step.write(static_cast<uint64_t>(place), at, static_cast<size_t>(length));
        }
        if (error == 0) *bytes += length;
        return error == 0;
    };
    for_each_piece(std::move(file), disp, std::move(memory), buffer, move);
    return error != 0 ? error : gathered.flush();
}

// What is going to be read comes from other hosts in one go.
void bring_pieces(StepFile& step, Cursor file, int64_t disp, Cursor memory, unsigned char* buffer, int64_t end) {
    std::vector<ByteRange> ranges;
    const auto note = [&](int64_t place, unsigned char*, int64_t length) {
        const int64_t last = std::min(place + length, end);
        if (place >= last) return false;
        const auto from = static_cast<uint64_t>(place), to = static_cast<uint64_t>(last);
        if (!ranges.empty() && ranges.back().end == from) ranges.back().end = to;
        else ranges.push_back({from, to});
        return true;
    };
    for_each_piece(std::move(file), disp, std::move(memory), buffer, note);
    step.bring(ranges);
}

void read_pieces(StepFile& step, Cursor file, int64_t disp, Cursor memory, unsigned char* buffer, int64_t* bytes) {
    const auto end = static_cast<int64_t>(step.eof());
    if (step.may_lack()) bring_pieces(step, file, disp, memory, buffer, end);
    const auto move = [&](int64_t place, unsigned char* at, int64_t length) {
        const int64_t there = std::min(length, end - place);
        if (there <= 0) return false;
        step.read(static_cast<uint64_t>(place), at, static_cast<size_t>(there));
        *bytes += there;
        return there == length;
    };
    for_each_piece(std::move(file), disp, std::move(memory), buffer, move);
}

// While it lives, the file is this thread's among those of the process, and this process's among the ranks; or there is
// an error.
class Turn {
public:
    Turn(std::mutex& threads, StepFile& step, short kind) : thread_(threads), step_(step), error_(step.lock(kind)) {}
    ~Turn() {
        if (error_ == 0) step_.lock(F_UNLCK);
    }
    int error() const { return error_; }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

private:
    const std::lock_guard<std::mutex> thread_;
    StepFile& step_;
    const int error_;
};

}  // namespace

int File::refused(Direction direction, int64_t offset, int64_t count) const {
    if (direction == Direction::write && (amode_ & mode_rdonly)) return mpi_.error.read_only;
    if (direction == Direction::read && (amode_ & mode_wronly)) return mpi_.error.access;
    if (count < 0) return mpi_.error.count;
    return offset < 0 ? mpi_.error.arg : 0;
}

int File::transfer(Direction direction, int64_t offset, void* buffer, int64_t count, Handle type, int64_t* bytes) {
    *bytes = 0;
    if (const int code = refused(direction, offset, count)) return fail(code);
    if (count == 0) return 0;
    auto* const memory = static_cast<unsigned char*>(buffer);
    const int code = guarded(
        "MPI-IO", [&] { return transfer_typed(direction, offset, memory, count, type, bytes); },
        [this](int error) { return mpi_.error_class(error); });
    return code == 0 ? 0 : fail(code);
}

// Returns an MPI error code, which is reported nowhere yet.
int File::transfer_typed(Direction direction, int64_t offset, unsigned char* memory, int64_t count, Handle type,
                         int64_t* bytes) {
    Datatype element;
    if (const int rc = decode(mpi_, type, &element)) return rc;
    const auto seen = view();
    const Layout layout = repeat(count, element.extent, element.layout);
    int error = 0;
    if (!atomic_ || !step_->writable()) {  // a step that is read does not change
        error = move(direction, *seen, offset, memory, layout, bytes);
    } else {
        const Turn turn(turn_, *step_, direction == Direction::read ? F_RDLCK : F_WRLCK);
        error = turn.error();
        if (error == 0) error = move(direction, *seen, offset, memory, layout, bytes);
    }
    return error == 0 ? 0 : mpi_.error_class(error);
}

// Returns an errno.
int File::move(Direction direction, const View& view, int64_t offset, unsigned char* memory, const Layout& layout,
               int64_t* bytes) {
    Cursor file(view.bytes, offset * view.element.layout->size);
    if (direction == Direction::write) {
        if (const int error = write_pieces(*step_, std::move(file), view.disp, Cursor(layout), memory, bytes))
            return error;
    } else {
        read_pieces(*step_, std::move(file), view.disp, Cursor(layout), memory, bytes);
    }
    return step_->settle();
}

int File::transfer_next(Direction direction, void* buffer, int64_t count, Handle type, int64_t* bytes) {
    *bytes = 0;
    if (const int code = refused(direction, 0, count)) return fail(code);  // the pointer stays where it is
    Datatype element;
    if (const int rc = decode(mpi_, type, &element)) return fail(rc);
    int64_t from = 0;
    int64_t unit = 1;
    {
        const std::lock_guard lock(mutex_);
        from = position_;
        unit = view_->element.layout->size;
        position_ += (element.layout->size * count + unit - 1) / unit;
    }
    const int rc = transfer(direction, from, buffer, count, type, bytes);
    if (direction == Direction::read && *bytes < element.layout->size * count) {
        const std::lock_guard lock(mutex_);
        position_ = from + (*bytes + unit - 1) / unit;
    }
    return rc;
}

namespace {

struct Finished {
    const Abi& mpi;
    int64_t bytes;
};

int query_finished(void* extra, void* status) {
    const auto* finished = static_cast<const Finished*>(extra);
    finished->mpi.Status_set_elements_x(status, finished->mpi.byte, finished->bytes);
    finished->mpi.Status_set_cancelled(status, 0);
    return 0;
}

int release_finished(void* extra) {
    delete static_cast<Finished*>(extra);
    return 0;
}

int cancel_finished(void*, int) { return 0; }

}  // namespace

int File::request(int64_t bytes, Handle* out) {
    auto finished = std::make_unique<Finished>(Finished{mpi_, bytes});
    Handle made = 0;
    int rc = mpi_.Grequest_start(query_finished, release_finished, cancel_finished, finished.get(), &made);
    if (rc != 0) return fail(rc);
    static_cast<void>(finished.release());  // the request's now
    rc = mpi_.Grequest_complete(made);
    mpi_.store(out, made);
    return rc != 0 ? fail(rc) : 0;
}

}  // namespace wilkins::mpiio
