// What becomes of a step when its last descriptor is closed.
#include "base/raw.hpp"
#include "posix/table.hpp"
#include "steps/inherited.hpp"
#include "steps/joined.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "events.hpp"

namespace wilkins::posix {

int OpenStep::finish(int fd) {
    if (writable_) return finish_written(fd);
    const bool read_past = pending_ == Pending::read && was_read_past(fd);
    if (is_left_to_others(fd) || read_past) settle();
    close_step(step_);
    if (looked_) close_step(looked_);
    return 0;
}

// Others have the file, and publish it when nobody writes it any more.
int OpenStep::finish_joined(int fd) {
    const int reading = file_->others ? -1 : reopen_anew(fd, O_RDONLY | O_CLOEXEC);
    if (reading >= 0) {
        libc::dup3(reading, fd, O_CLOEXEC);
        libc::close(reading);
        has_left = true;
    }
    close_step(step_);
    return 0;
}

// What has no room is the program's to handle, as on a disk, and its close tells it; of all else it can know nothing,
// and exit code 0 would say that its readers have got the file.
void OpenStep::tell_lost(int error) const {
    const Process& p = process();
    if (error == ENOSPC || error == EDQUOT || error == EFBIG) return log_event(event::not_stored(match_.name, error));
    Board::Lock lock(p.board);
    fail_run(p, event::not_stored_closed(match_.name, error));
}

int OpenStep::finish_written(int fd) {
    was_moved(fd);  // by one that has closed it since, perhaps
    if (file_->joint) return finish_joined(fd);
    bool by_kernel = file_->takes_all || was_written_past(fd);
    int error = note_changed(fd);
    if (is_draft()) return finish_draft(fd);
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
    const bool is_last = step->state->role != Role::lead || joined::begin_to_publish(step->state);
    by_kernel = was_moved(fd) || by_kernel;  // by one that has closed it since
    // The number leads to the same file, to be read, until the program's own call closes it.
    const bool there = leads_here(fd);
    const int reading = there ? reopen_anew(fd, O_RDONLY | O_CLOEXEC) : -1;
    if (!there && by_kernel) error = EBADF;
    if (there && (reading < 0 || libc::dup3(reading, fd, O_CLOEXEC) < 0)) error = errno;
    const bool others = !error && there && is_last && inherited::is_written(reading);
    if (others && !by_kernel) {  // that has it by a way that is not known
        const int writing = reopen_anew(reading, O_RDWR | O_CLOEXEC);
        error = writing < 0 ? errno : 0;
        if (!error && !native(writing)) error = take_over(writing);
        if (writing >= 0) libc::close(writing);
    }
    if (!error && !is_last) {
        has_left = true;
        leave_step(step);
    } else if (!error && others && (error = inherited::leave(step, reading)) == 0) {
        joined::leave_to_others(step->state);
        has_left = true;
        leave_step(step);
    } else if (error || (by_kernel && (error = store(reading)) != 0)) {
        tell_lost(error);
        if (file_->named) inherited::remove_file(process().board, step->token().slot);
        discard_step(step);
    } else {
        if (left_) inherited::take_back(step);
        if (file_->named) inherited::remove_file(process().board, step->token().slot);
        close_step(step);
    }
    if (reading >= 0) libc::close(reading);
    if (looked_) close_step(looked_);
    return error;
}

// What has no descriptor of the kernel's was written by our calls, and the draft knows what.
int OpenStep::finish_draft(int fd) {
    StepFile* const step = step_;
    const int error = step->state->failed;
    if (ordinary_) step->state->draft->end(is_shared(fd), fd);
    close_step(step);
    return error;
}

// True if anyone but this description, which is about to end, has the file open.
bool OpenStep::is_shared(int fd) const {
    const int reading = reopen_anew(fd, O_RDONLY | O_CLOEXEC);
    if (reading < 0) return false;
    libc::dup3(reading, fd, O_CLOEXEC);
    const bool shared = inherited::is_written(reading);
    libc::close(reading);
    return shared;
}

StepFile* OpenStep::give_lead(const Match& match, int fd) {
    if (!may_write() || !writable_ || strcmp(match_.name, match.name) != 0 || file_->handed || file_->references > 1)
        return nullptr;
    StepFile* const lead = step_;
    struct stat st;
    std::lock_guard<std::mutex> lock(changing_);
    if (lead->state->role != Role::lead || pending_ == Pending::update || lead->eof() > 0) return nullptr;
    if (raw::fstat(fd, &st) != 0 || st.st_ino != file_->inode || st.st_size > 0) return nullptr;
    int error = 0;
    StepFile* const other = joined::open(match, &error);
    if (!other) return nullptr;
    if (file_->named) inherited::remove_file(process().board, lead->state->slot);
    file_->named = false;
    file_->takes_all = false;
    pending_ = Pending::update;
    step_ = other;
    return lead;
}

// Another description of the same step goes on: it is the one whose close publishes.
void OpenStep::pass_lead() {
    if (step_.load()->state->role != Role::lead) return;
    std::lock_guard<std::mutex> lock(leaving);
    for (int fd = 0; fd <= highest; ++fd) {
        OpenStep* const other = find(fd);
        if (!other || other == this || other->file_ != file_) continue;
        step_ = other->step_.exchange(step_);
        other->pending_ = Pending::nothing;  // also if it has not written: its close publishes what this one has
        return;
    }
}

}  // namespace wilkins::posix
