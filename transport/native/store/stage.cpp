// Stages: how the step that is read becomes a file of the task's own, and when that is passed on.
#include "store/stage.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/fault.hpp"
#include "base/held_at_forks.hpp"
#include "base/turn.hpp"
#include "board/border.hpp"
#include "events.hpp"
#include "names/going_on.hpp"
#include "names/places.hpp"
#include "queue/parts.hpp"
#include "queue/queue.hpp"
#include "queue/closed.hpp"
#include "steps/creating.hpp"
#include "steps/open_files.hpp"
#include "store/before_open.hpp"
#include "store/left_out.hpp"
#include "store/reading.hpp"
#include "store/store.hpp"
#include "waiting/wait.hpp"

namespace wilkins::stage {

namespace {

// Stamps of copies, and the thread that used each last.
class Copies {
public:
    void add(uint64_t stamp) {
        std::lock_guard<std::mutex> guard(mutex_);
        const auto found = find(stamp);
        if (found != copies_.end()) found->thread = pthread_self();
        else copies_.push_back({stamp, pthread_self()});
        // (Others may have passed the oldest on: no more are closed at once than there are slots.)
        if (copies_.size() > static_cast<size_t>(process().board.head().slots)) copies_.erase(copies_.begin());
    }
    bool has(uint64_t stamp, bool* others = nullptr) {
        std::lock_guard<std::mutex> guard(mutex_);
        const auto found = find(stamp);
        if (others) *others = found != copies_.end() && !pthread_equal(found->thread, pthread_self());
        return found != copies_.end();
    }
    // False if it was none of them.
    bool remove(uint64_t stamp) {
        std::lock_guard<std::mutex> guard(mutex_);
        const auto found = find(stamp);
        if (found == copies_.end()) return false;
        copies_.erase(found);
        return true;
    }

private:
    struct Copy {
        uint64_t stamp;
        pthread_t thread;
    };
    std::vector<Copy>::iterator find(uint64_t stamp) {
        return std::find_if(copies_.begin(), copies_.end(), [&](const Copy& copy) { return copy.stamp == stamp; });
    }

    std::mutex mutex_;
    HeldAtForks held_at_forks_{mutex_};
    std::vector<Copy> copies_;
};

// (Never destroyed: a rank's copies are passed on when all else of its process is over.)
Copies& unopened = *new Copies;  // that this process has made, and not opened yet
Copies& used = *new Copies;      // that it has found, and not passed on

// True if this thread, or nobody else here, used it last.
bool is_done(const SlotRecord& slot) {
    bool others = false;
    if (unopened.has(slot.stamp)) return false;
    if (used.has(slot.stamp, &others)) return !others && used.remove(slot.stamp);
    return slot.writer_process == process().board.joined();
}

// Once the threads have ended: true if any of them used it.
bool is_left(const SlotRecord& slot) {
    if (unopened.has(slot.stamp)) return false;
    return used.has(slot.stamp) || slot.writer_process == process().board.joined();
}

// The slot of the file of this name that the task has, and that is no step yet; -1: none. Call with the lock held.
int find_unfinished(const Process& p, const Match& match) {
    const int closed = queue::find_closed(p.board, match.outport, match.name, match.place);
    return closed >= 0 ? closed : queue::find_written(p.board, match.outport, match.place);
}

// Is this file what the program means by the name, which is that of one step after the other? So if it has not opened
// it yet, or opens each more than once.
bool is_meant(const Process& p, const Match& match, int own) {
    if (unopened.has(p.board.slot(own).stamp)) return true;
    const queue::Found found = queue::find(p.board, match.inport, p.context.rank, match.name);
    return found.slot >= 0 && !found.unread;
}

// True if there is a step of the name that no rank has consumed.
bool is_next(const Process& p, const Match& match) {
    const queue::Found found = queue::find(p.board, match.inport, p.context.rank, match.name);
    if (found.slot < 0 || !found.unread) return false;
    const ChannelRecord& channel = p.board.channel(p.board.link(p.board.port(match.inport), found.link));
    const SlotRecord& slot = p.board.slot(found.slot);
    return !queue::is_consumed(p.board, channel, p.board.source(slot.source).rank, slot);
}

// True if the task has a file of the name that the program means. Call with the lock held.
bool has_own(const Process& p, const Match& match, Purpose purpose) {
    const bool opens = purpose == Purpose::read || purpose == Purpose::update;
    const bool fixed = in_order(p.board.port(match.inport));
    const int own = find_unfinished(p, match);
    if (own < 0)
        return !fixed && queue::find_own(p.board, match.outport, match.name, match.place) >= 0 && !is_next(p, match);
    if (fixed && (opens || purpose == Purpose::look) && !is_meant(p, match, own)) return false;
    if (!fixed && opens && !unopened.has(p.board.slot(own).stamp) && is_next(p, match))
        return false;  // its producer has written the name again
    if (opens) used.add(p.board.slot(own).stamp);
    return true;
}

// True if it has been passed on. It is too late then to change it.
bool is_passed_on(const Process& p, const Match& match) {
    const PortRecord& out = p.board.port(match.outport);
    if (in_order(p.board.port(match.inport)) || find_unfinished(p, match) >= 0 || is_next(p, match)) return false;
    for (const SourceRecord& source : sources_of(p.board, out))
        if (queue::in_history(p.board, source, match.name, static_cast<int>(out.components))) return true;
    return false;
}

// True if each open of the name means the next step, and the program has not closed the last one. To HDF5 that is one
// file.
bool is_still_open(const Process& p, const Match& match) {
    if (!in_order(p.board.port(match.inport))) return false;
    const int written = queue::find_written(p.board, match.outport, match.place);
    return written >= 0 && p.board.slot(written).writer_process == p.board.joined();
}

// Copies a step into a file of the out-port, which is then a closed one. Returns 0 or an errno.
int copy(Process& p, StepFile* from, const Match& match) {
    int error = 0;
    StepFile* const to =
        begin_step(match, p.board.port(match.outport).first_source + p.context.rank, match.place, Role::lead, &error);
    if (!to) return error;
    const uint64_t size = from->eof();
    unopened.add(to->identity());
    used.add(to->identity());
    error = to->reserve(size);
    from->prepare_read(0, size);
    if (!error) error = from->settle();
    if (!error) error = to->write(0, from->data(), size);
    WILKINS_FAULT_POINT("stage.copied");
    if (error) discard_step(to);
    else close_step(to);
    return error;
}

// Waits until an open of the name would get an answer, and for room to copy it to, or until another process of the task
// has made the copy. True if there is a step.
bool await(Process& p, const Match& in, const Match& match, Purpose purpose) {
    Board::Lock lock(p.board);
    {
        Wait wait(p, WaitFor::data, match.inport, match.name);
        while (!has_own(p, match, purpose) && !is_answered(p, in)) {
            if (learns_left_out(p, in, lock)) continue;
            pass_on(p);
            if (wait.nap(lock) != 0) return false;
        }
    }
    if (queue::find(p.board, match.inport, p.context.rank, match.name).slot < 0) return has_own(p, match, purpose);
    Wait wait(p, WaitFor::room, match.outport, match.name);
    while (!has_own(p, match, purpose) &&
           !queue::has_room(p.board, p.board.port(match.outport).first_source + p.context.rank, match.name)) {
        pass_on(p);  // what others of the rank have left that are over, for which readers may wait
        if (wait.nap(lock) != 0) return false;
    }
    return true;
}

// One process, and thread, at a time makes the copy of a name.
uint64_t turn_of(const Match& match) {
    return hash_text(match.name, match.place + static_cast<uint64_t>(match.outport));
}

// Waits until the copy that another process, or thread, of the task may be making has all its bytes.
void await_copy(const Process& p, const Match& match) {
    const H5pyUnlocked h5py;
    const Turn turn(p.board.folder(), turn_of(match));
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
    const Turn turn(p.board.folder(), turn_of(match));
    {
        Board::Lock lock(p.board);
        if (has_own(p, match, purpose)) return true;  // another process has made it meanwhile
    }
    p.board.port(match.inport).touched = p.board.port(match.outport).touched = 1;
    int error = 0;
    StepFile* const from = read_step(in, Intent::read, 1, &error);
    if (!from) return false;
    if (from->state->slot >= 0 && !in_order(p.board.port(match.inport))) {
        Board::Lock lock(p.board);
        queue::share_consumed(p.board, match.inport, from->state->slot);
    }
    error = copy(p, from, out);
    close_step(from);
    if (!error) return true;
    Board::Lock lock(p.board);
    if (!p.board.head().stopped) fail_run(p, event::not_passed_on(match.name, error));
    return false;
}

}  // namespace

void decide(Process& p, Match* match, Purpose purpose) {
    place_of(*match);
    const bool opens = purpose == Purpose::read || purpose == Purpose::update;
    bool own = purpose == Purpose::create || purpose == Purpose::put;
    bool written = false;
    if (!own) {
        Board::Lock lock(p.board);
        own = has_own(p, *match, purpose);
        written = own && queue::find_written(p.board, match->outport, match->place) >= 0;
        if (opens && is_passed_on(p, *match) && (purpose == Purpose::update || !own)) {
            fail_run(p, event::passed_on_before(match->name, purpose == Purpose::update));
            own = true;
        }
        if (opens && !own && is_still_open(p, *match)) {
            fail_run(p, event::passes_on_open(match->name));
            own = true;
        }
    }
    if (written) await_copy(p, *match);
    if (own || (opens && bring(p, *match, purpose))) match->inport = -1;
    else match->outport = -1;
}

bool passes_on(const Match& match) {
    const Process& p = process();
    if (match.inport < 0) return false;
    for (const PortRecord& out : ports_of(p))
        if (out.keys.passes_on && strcmp(out.pattern, p.board.port(match.inport).pattern) == 0) return true;
    return false;
}

void note_opened(const Process& p, const Match& match, const StepFile* file) {
    const PortRecord& port = p.board.port(match.outport);
    if (!port.keys.passes_on || unopened.remove(file->identity())) return;
    for (const PortRecord& inport : ports_of(p, Direction::in)) {
        if (!in_order(inport) || strcmp(inport.pattern, port.pattern) != 0) continue;
        const int index = p.board.index(inport);
        Board::Lock lock(p.board);
        const queue::Found found =
            queue::find(p.board, index, p.context.rank, match.name);  // one open more of the same step
        if (found.slot >= 0 && !found.unread) queue::take(p.board, index, p.context.rank, found);
    }
}

namespace {

void pass_on_if(const Process& p, bool (*is_done)(const SlotRecord& slot)) {
    for (const PortRecord& port : ports_of(p))
        if (port.keys.passes_on) queue::pass_on(p.board, p.board.index(port), p.context.rank, is_done);
}

int rank_process = 0;  // the one that stands for the rank: as the launcher has started it, or an mpiexec

int number_in(const char* variable) {
    const char* const text = getenv(variable);
    return text ? atoi(text) : 0;
}

// (The first exit handler of all is called last, when what the program has open is closed.)
__attribute__((constructor)) void watch_end() {
    if (number_in("WILKINS_RANK_PID") != getpid() && number_in("WILKINS_STARTER") != getppid()) return;
    rank_process = getpid();
    on_exit([](int status, void*) { end_rank(status); }, nullptr);
}

}  // namespace

void pass_on(const Process& p) { pass_on_if(p, is_done); }

}  // namespace wilkins::stage

void wilkins::end_rank(int status) try {
    if (stage::rank_process != getpid() || Board::Lock::is_held()) return;
    const Process& p = process();
    if (!p.context.active || (status != 0 && !met_end())) return;
    Board::Lock lock(p.board);
    stage::pass_on_if(p, stage::is_left);
}
WILKINS_OR()
