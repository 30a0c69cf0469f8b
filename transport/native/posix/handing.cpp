// Steps that are handed to the kernel, and to other processes and programs with it.
#include "posix/table.hpp"
#include "steps/inherited.hpp"
#include "steps/step_file.hpp"
#include "steps/viewers.hpp"

#include <sys/stat.h>

#include <cstring>

#include "events.hpp"

namespace wilkins::posix {

int OpenStep::hand_over(int fd) {
    if (!writable_) return 0;
    if (begin_to_write(fd) != 0) return -1;
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

int OpenStep::hand_to_stream(int fd) {
    if (!writable_ || pending_ != Pending::update || file_->joint) return hand_over(fd);
    hand_to_child(fd);  // what it has not written makes no step
    return 0;
}

void OpenStep::hand_to_child(int fd) {
    // Whether that sends what it reads by reference, nobody may see.
    if (!writable_) return viewers::note_sent(fd, -1);
    follow_changes();
    const StepFile::State* const state = step_.load()->state;
    // What others write now, it may write, too.
    const bool joins = state->joined && is_writing(process().board.slot(state->slot), state->identity);
    if (file_->joint && pending_ == Pending::update && !joins) return;  // of a file that is whole since
    int error = 0;
    if (pending_ != Pending::update || joins ||
        match_.outport < 0) {  // a file that a reader has not changed is gone again at its close
        error = hand_over(fd) == 0 ? 0 : errno;
    } else if (!native(fd)) {
        // That others may write to it makes a file no new step yet. The kernel's time of the last write will tell.
        std::lock_guard<std::mutex> lock(file_->changing);
        const struct timespec never[2] = {};
        if (state->own.slot >= 0) closes_ = state->closes;
        if (!file_->takes_all) error = take_over(fd);
        if (!error && libc::futimens(fd, never) != 0) error = errno;
        file_->handed = true;
    }
    if (!error) return;
    log_event(event::not_handed(match_.name, error));
    step_.load()->state->failed = error;
}

void OpenStep::leave_to_next(int fd) {
    hand_to_child(fd);
    if (writable_ && !(libc::fcntl(fd, F_GETFD) & FD_CLOEXEC)) start_update();
    const StepFile* step = step_;
    if (ordinary_ && !(libc::fcntl(fd, F_GETFD) & FD_CLOEXEC)) step->state->draft->leave();
    if (!writable_ || pending_ == Pending::update || step->state->role != Role::lead || left_) return;
    const int error = inherited::leave(step, fd);
    left_ = !error;
    file_->named = file_->named || left_;
    if (error) log_event(event::not_handed_on(match_.name, error));
}

void OpenStep::take_back() {
    if (left_) inherited::take_back(step_);
    left_ = false;
}

int hand_over(int fd) {
    OpenStep* const step = find(fd);
    if (!step) return 0;
    const int before = errno;
    step->settle();
    if (step->hand_over(fd) != 0) return -1;
    errno = before;
    return 0;
}

bool has_entries() { return entries.load(std::memory_order_relaxed) != 0; }

}  // namespace wilkins::posix
