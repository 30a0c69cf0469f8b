// Stages: how the step that is read becomes a file of the task's own, and when that is passed on.
#include "store/stage.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/fault.hpp"
#include "base/turn.hpp"
#include "queue/parts.hpp"
#include "queue/queue.hpp"
#include "queue/resting.hpp"
#include "store/before_open.hpp"
#include "store/parts.hpp"
#include "waiting/wait.hpp"

namespace wilkins::stage {

namespace {

// Stamps of copies.
class Copies {
public:
    void add(uint64_t stamp) {
        std::lock_guard<std::mutex> guard(mutex_);
        if (find(stamp) == stamps_.end()) stamps_.push_back(stamp);
    }
    bool has(uint64_t stamp) {
        std::lock_guard<std::mutex> guard(mutex_);
        return find(stamp) != stamps_.end();
    }
    // False if it was none of them.
    bool remove(uint64_t stamp) {
        std::lock_guard<std::mutex> guard(mutex_);
        const auto found = find(stamp);
        if (found == stamps_.end()) return false;
        stamps_.erase(found);
        return true;
    }

private:
    std::vector<uint64_t>::iterator find(uint64_t stamp) { return std::find(stamps_.begin(), stamps_.end(), stamp); }

    std::mutex mutex_;
    std::vector<uint64_t> stamps_;
};

Copies unopened;  // that this process has made, and not opened yet
Copies used;      // that it has found, and not passed on

// Is it one that this process has closed, or has had of others?
bool is_done(const SlotRecord& slot) {
    if (unopened.has(slot.stamp)) return false;
    return used.remove(slot.stamp) || slot.writer_process == process().board.joined();
}

// The slot of the file of this name that the task has, and that is no step yet; -1: none. Call with the lock held.
int find_own(const Process& p, const Match& match) {
    const int resting = queue::find_resting(p.board, match.outport, match.name, match.place);
    return resting >= 0 ? resting : queue::find_written(p.board, match.outport, match.place);
}

// Is this file what the program means by the name, which is that of one step after the other?
bool is_meant(const Process& p, const Match& match, int own, Purpose purpose) {
    const SlotRecord& slot = p.board.slot(own);
    if (slot.state == SlotState::writing || unopened.has(slot.stamp)) return true;
    const queue::Found found = queue::find(p.board, match.inport, p.context.rank, match.name);
    if (found.slot < 0 || found.unread) return false;
    if (purpose != Purpose::look) queue::take(p.board, match.inport, p.context.rank, found);  // one open more of the same step
    return true;
}

// Call with the lock held.
bool has_own(const Process& p, const Match& match, Purpose purpose) {
    const int own = find_own(p, match);
    if (own < 0) return false;
    if (purpose != Purpose::ask && purpose != Purpose::look) used.add(p.board.slot(own).stamp);
    const bool may_be_next = purpose == Purpose::look || purpose == Purpose::read || purpose == Purpose::update;
    if (!in_order(p.board.port(match.inport)) || !may_be_next) return true;
    return is_meant(p, match, own, purpose);
}

// Copies a step into a file of the out-port, which then rests. Returns 0 or an errno.
int copy(Process& p, StepFile* from, const Match& match) {
    int error = 0;
    StepFile* const to = begin_step(match, p.board.port(match.outport).first_source + p.context.rank, match.place, Role::lead, &error);
    if (!to) return error;
    const uint64_t size = from->eof();
    unopened.add(to->identity());
    error = to->reserve(size);
    from->prepare_read(0, size);
    if (!error) error = from->settle();
    if (!error) error = to->write(0, from->data(), size);
    WILKINS_FAULT_POINT("stage.copied");
    if (error) discard_step(to);
    else close_step(to);
    return error;
}

// Waits until an open of the name would get an answer, and for room to copy it to, or until another process of the task has made the copy.
// Is there a step?
bool await(Process& p, const Match& in, const Match& match, Purpose purpose) {
    Board::Lock lock(p.board);
    {
        Wait wait(p, WaitFor::data, match.inport, match.name);
        while (!has_own(p, match, purpose) && !is_answered(p, in)) {
            pass_on(p);
            if (wait.nap(lock) != 0) return false;
        }
    }
    if (queue::find(p.board, match.inport, p.context.rank, match.name).slot < 0) return has_own(p, match, purpose);
    Wait wait(p, WaitFor::room, match.outport, match.name);
    while (!has_own(p, match, purpose) && !queue::has_room(p.board, p.board.port(match.outport).first_source + p.context.rank, match.name))
        if (wait.nap(lock) != 0) return false;
    return true;
}

// Takes the next step that the name means, if there is one, and makes the task's copy of it.
bool bring(Process& p, const Match& match, Purpose purpose) {
    const H5pyUnlocked h5py;
    {
        Board::Lock lock(p.board);
        queue::pass_on(p.board, match.outport, p.context.rank, is_done);
    }
    Match in = match, out = match;
    in.outport = out.inport = -1;
    if (!await(p, in, match, purpose)) return false;
    const Turn turn(p.board.folder(), hash_text(match.name, match.place + static_cast<uint64_t>(match.outport)));
    {
        Board::Lock lock(p.board);
        if (has_own(p, match, purpose)) return true;  // another process has made it meanwhile
    }
    p.board.port(match.inport).touched = p.board.port(match.outport).touched = 1;
    int error = 0;
    StepFile* const from = read_step(in, Intent::read, 1, &error);
    if (!from) return false;
    error = copy(p, from, out);
    close_step(from);
    if (!error) return true;
    Board::Lock lock(p.board);
    if (!p.board.head().stopped) fail_run(p, "task '%s' rank %d: '%s' cannot be passed on: %s", p.task_name(), p.told_rank(), match.name, strerror(error));
    return false;
}

}  // namespace

void decide(Process& p, Match* match, Purpose purpose) {
    place_of(*match);
    const bool opens = purpose == Purpose::read || purpose == Purpose::update;
    bool own = purpose == Purpose::create;
    if (!own) {
        Board::Lock lock(p.board);
        own = has_own(p, *match, purpose);
    }
    if (own || (opens && bring(p, *match, purpose))) match->inport = -1;
    else match->outport = -1;
}

void note_opened(const Process& p, const Match& match, const StepFile* file) {
    if (p.board.port(match.outport).habits.passes_on) unopened.remove(file->identity());
}

void pass_on(const Process& p) {
    for (int i = p.first_port; i < p.last_port; ++i) {
        const PortRecord& port = p.board.port(i);
        if (port.task == p.context.task && port.habits.passes_on) queue::pass_on(p.board, i, p.context.rank, is_done);
    }
}

}  // namespace wilkins::stage
