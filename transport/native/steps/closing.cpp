// Closing steps: what was written becomes whole, takes its name on disk and is published; what was read is let go.
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/fault.hpp"
#include "board/border.hpp"
#include "board/trace.hpp"
#include "events.hpp"
#include "queue/queue.hpp"
#include "queue/closed.hpp"
#include "steps/actions.hpp"
#include "steps/creating.hpp"
#include "steps/disk.hpp"
#include "steps/handles.hpp"
#include "steps/homes.hpp"
#include "steps/joined.hpp"
#include "steps/left_open.hpp"
#include "steps/open_files.hpp"
#include "steps/snapshot.hpp"
#include "steps/step_file.hpp"
#include "steps/sums.hpp"

namespace wilkins {

// Where a run may be gone on with: which file it is that the program has written now. Noted before it has a name, its
// own or a second one, so that none is there of which the trace does not tell: it may have the inode of an earlier one
// that is gone.
void note_file(const Board& board, int index, const char* hidden, const char* path, uint64_t inode) {
    board.slot(index).inode = inode;
    if (!board.head().trace_at_once) return;
    const SlotRecord& slot = board.slot(index);
    const SourceRecord& source = board.source(slot.source);
    const PortRecord& port = board.port(source.port);
    uint64_t sequence = 0;
    {
        Board::Lock lock(board);
        sequence = source.next_sequence;
        trace::note(board, "file", port.task, source.rank, port.pattern, path, static_cast<int64_t>(inode),
                    static_cast<int64_t>(slot.size.load()));
    }
    disk::keep(board, source.port, source.rank, sequence, hidden, path);
}

namespace {

// The step's file takes its name on disk. A run whose archive has a gap is no good: that ends it.
int settle_on_disk(const StepFile* file) {
    const Process& p = process();
    const StepFile::State* state = file->state;
    const int error = disk::settle(p.board, state->slot, state->mapping.bytes, file->eof(), note_file);
    if (!error) return 0;
    Board::Lock lock(p.board);
    fail_run(p, event::not_on_disk(state->name, error,
                                   error == ENOSPC || error == EDQUOT      ? event::Store::space
                                   : error == EPERM || error == EOPNOTSUPP ? event::Store::links
                                                                           : event::Store::other));
    return error;
}

// Ranks on other hosts have bytes of the file: they stay there until readers ask for them, or come now, if others than
// readers may want them.
int settle_elsewhere(const StepFile* file) {
    StepFile::State* const state = file->state;
    const AccessKeys* const keys = keys_of(file);
    const bool stay = keys->mode == Mode::memory && !keys->checked && !publishes_later(*keys) &&
                      !takes_snapshots(*keys) && !actions::keeps_back();
    const homes::Range all = {0, file->eof()};
    return stay && homes::scatter(state) ? 0 : homes::bring(state, &all, 1);
}

// The arena becomes exactly the file: no stale byte below its end, nothing behind it.
int complete(StepFile* file) {
    Process& p = process();
    SlotRecord& slot = p.board.slot(file->state->slot);
    {
        Board::Lock lock(p.board);
        if (!is_writing(slot, file->state->identity)) return ESTALE;
    }
    if (int error = slot.broken.load()) return error;
    const uint64_t size = file->eof();
    const uint64_t blocks = (size + kBlock - 1) / kBlock;
    const bool scattered = slot.lazy.is == Absence::none && homes::any(slot);
    if (scattered) {
        if (int error = file->reserve(size)) return error;
        if (int error = open_to(file->state->mapping, slot.reserved.load())) return error;
        if (int error = settle_elsewhere(file)) return error;
    }
    bool stale = slot.reserved.load() < size;
    for (uint64_t b = 0; b < blocks && !stale; ++b) stale = file->state->mapping.blocks[b].load() < kValid;
    if (stale) {
        if (int error = file->reserve(size)) return error;
        if (slot.touched.load() < blocks) slot.touched.store(blocks);
        if (int error = open_to(file->state->mapping, slot.reserved.load())) return error;
        for (uint64_t b = 0; b < blocks; ++b)
            if (int error = make_valid(file->state->mapping, b, slot.reserved.load())) return error;
    }
    WILKINS_FAULT_POINT("complete.valid");
    if (int error = open_to(file->state->mapping, size)) return error;
    if (slot.reserved.load() != size)
        if (int error = p.arenas->trim(file->state->slot, size)) return error;
    if (const int error = file->state->summed ? 0 : sums::keep(p.board, file->state->slot, file->data(), size))
        return error;
    if (const int error = settle_on_disk(file)) return error;
#ifdef WILKINS_HOOKS
    if (size > 0 && fault::flips_memory()) file->data()[size / 2] ^= 4;
#endif
    return 0;
}

// This rank closes a step that it took as its in-port's; to look at one, or to read one's own again, is no event.
void note_closed(const Process& p, int index) {
    const SlotRecord& slot = p.board.slot(index);
    const SourceRecord& source = p.board.source(slot.source);
    const PortRecord& outport = p.board.port(source.port);
    for (const ChannelRecord& channel : channels_of(p.board, outport)) {
        const PortRecord& inport = p.board.port(channel.inport);
        if (inport.task != p.context.task || !p.board.on(slot, channel.place) || p.context.rank >= channel.readers)
            continue;
        if (!queue::has_consumed(p.board, channel, source.rank, p.context.rank, slot)) continue;
        trace::note(p.board, "close", inport.task, p.context.rank, inport.pattern, slot.name,
                    static_cast<int64_t>(slot.sequence), static_cast<int64_t>(slot.size.load()));
        return;
    }
}

}  // namespace

void end_hold(const Process& p, StepFile::State* state) {
    if (!state->held.exchange(false)) return;
    if (!state->again) note_closed(p, state->slot);
    queue::drop_hold(p.board, p.rank_index, state->slot, state->process);
}

namespace {

std::atomic<bool> has_left_closed{false};  // this process has left closed files
std::atomic<bool> ending{false};

void note_closed(SlotRecord& slot) {
    if (slot.state != SlotState::closed) return;
    has_left_closed = true;
    slot.handed_over = ending;
}

std::atomic<bool> exiting{false};  // the program has called exit, or returned from main

// A file that the program has closed as it ended, and is not published yet.
struct ClosedAtEnd {
    int slot;
    uint64_t stamp;
    uint64_t digest;
    ClosedAtEnd* next;
};
ClosedAtEnd* closed_at_end = nullptr;  // guarded by the board's lock

bool close_later(int slot, uint64_t stamp, uint64_t digest) {
    auto* closed = new (std::nothrow) ClosedAtEnd{slot, stamp, digest, closed_at_end};
    if (closed) closed_at_end = closed;
    return closed != nullptr;
}

// The stamp of the first file of this process that is open.
uint64_t first_open(const Board& board) {
    const uint32_t self = board.joined();
    uint64_t first = UINT64_MAX;
    for (const SlotRecord& slot : slots_of(board)) {
        if (slot.state != SlotState::writing || slot.writer_process != self || slot.stamp >= first) continue;
        bool closed = false;
        for (const ClosedAtEnd* one = closed_at_end; one; one = one->next) closed = closed || one->stamp == slot.stamp;
        if (!closed) first = slot.stamp;
    }
    return first;
}

// Closes those, in the order in which they were begun, up to one that is open. `all`: that one will stay so.
void close_in_order(const Board& board, bool all) {
    const uint64_t open = all ? UINT64_MAX : first_open(board);
    while (closed_at_end) {
        ClosedAtEnd** first = &closed_at_end;
        for (ClosedAtEnd** one = first; *one; one = &(*one)->next)
            if ((*one)->stamp < (*first)->stamp) first = one;
        if ((*first)->stamp > open) return;
        const ClosedAtEnd* const next = *first;
        *first = next->next;
        if (is_writing(board.slot(next->slot), next->stamp)) {
            queue::close_slot(board, next->slot, next->digest, actions::keeps_back());
            note_closed(board.slot(next->slot));
        }
        delete next;
    }
}

void close_rest() try {
    if (!closed_at_end) return;
    const Process& p = process();
    if (!p.board.joined()) return;
    Board::Lock lock(p.board);
    close_in_order(p.board, true);
}
WILKINS_OR()

// The last of the library's: what is still open now stays so.
__attribute__((destructor(101))) void end_last() {
    close_rest();
    left_open::end_process();
}

// HDF5 may close its files before or after this.
__attribute__((destructor)) void end_by_itself() {
    ending = true;
    hand_over_closed();
}

}  // namespace

void watch_exit() {
    // HDF5 has been initialised by now, so this runs before its own handler.
    static const int registered = atexit([] { exiting = true; });
    (void)registered;
}

void log_discarded(const Board& board, const SlotRecord& slot) {
    if (slot.state == SlotState::writing && !slot.inherited) return left_open::log_lost(board, slot);
    const SourceRecord& source = board.source(slot.source);
    log_event_for(board, board.port(source.port).task, source.rank, event::left_resting(slot.name));
}

namespace {

void hand_over(bool ends) try {
    if (!has_left_closed) return;
    const Process& p = process();
    // A child that shares its parent's memory until it calls exec may come here: it has closed nothing, and must not
    // lock.
    const uint32_t self = p.board.joined();
    if (!self) return;
    bool any = false;
    for (const SlotRecord& slot : slots_of(p.board)) any = any || slot.writer_process == self;
    if (!any) return;
    Board::Lock lock(p.board);
    queue::hand_over(p.board, p.context.task, self, ends);
}
WILKINS_OR()

}  // namespace

void hand_over_closed() { hand_over(true); }

void take_back_closed() { hand_over(false); }

namespace {

// What was changed of a far step's copy goes back to it.
int bring_home(const StepFile& file) {
    FarFile& home = *file.state->home;
    home.write(0, file.state->mapping.bytes, file.state->size);
    const int error = home.set_eof(file.state->size);
    const int closed = home.close();
    return error ? error : closed;
}

// What was changed of what the task only reads is kept.
void end_draft(const Process& p, const StepFile& file) {
    Draft& draft = *file.state->draft;
    const int error =
        file.state->role == Role::own_copy ? draft.replace(file.state->mapping.bytes, file.state->size) : 0;
    draft.end(false);
    if (!error) return;
    Board::Lock lock(p.board);
    fail_run(p, event::changes_not_on_disk(file.state->name, error));
}

}  // namespace

void close_step(StepFile* file) {
    const int before = errno;
    StepFile::State* state = file->state;
    Process& p = process();
    if (state->mine()) {
        const bool publishes =
            state->joined ? joined::end(state) : state->role == Role::lead && joined::begin_to_publish(state);
        if (publishes || state->role == Role::snapshot) {
            WILKINS_FAULT_POINT("close.begun");
            const int error = complete(file);
            WILKINS_FAULT_POINT("close.complete");
            if (error == ECANCELED) {
                log_event(event::given_up(state->name));
                give_up(p, state->slot, state->identity);
            } else if (error) {
                log_event(event::not_whole(state->name, error));
                give_up(p, state->slot, state->identity);
            } else {
                const uint64_t digest = final_digest(file);
                Board::Lock lock(p.board);
                const bool mine = is_writing(p.board.slot(state->slot), state->identity);
                if (mine && state->role == Role::snapshot) queue::publish(p.board, state->slot);
                else if (mine && !(exiting && close_later(state->slot, state->identity, digest)))
                    queue::close_slot(p.board, state->slot, digest, actions::keeps_back());
                if (mine) note_closed(p.board.slot(state->slot));
                if (exiting) close_in_order(p.board, false);
            }
        } else if (state->draft) {
            end_draft(p, *file);
        } else if (state->role == Role::far || state->home) {
            if (const int error = state->home ? bring_home(*file) : state->far->close())
                log_event(error == EBADMSG ? event::stays_damaged(state->name)
                                           : event::not_at_home(state->name, error));
        } else if (state->role == Role::peer && !state->joined) {
            WILKINS_FAULT_POINT("close.peer");
            Board::Lock lock(p.board);
            end_peer(p.board.slot(state->slot), state->identity);
        } else if (state->role == Role::reader) {
            WILKINS_FAULT_POINT("close.reader");
            Board::Lock lock(p.board);
            end_hold(p, state);
        }
        if (state->joined) joined::leave(state);
    }
    WILKINS_FAULT_POINT("close.before-free");
    free_file(file);
    errno = before;
}

void leave_step(StepFile* file) {
    if (file->state->joined && file->state->mine()) joined::leave(file->state);
    free_file(file);
}

void discard_step(StepFile* file) {
    const StepFile::State* state = file->state;
    const bool writes = state->role == Role::lead || state->role == Role::snapshot;
    if (writes && state->mine()) give_up(process(), state->slot, state->identity);
    leave_step(file);
}

}  // namespace wilkins
