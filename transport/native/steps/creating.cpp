// Steps that this task writes: begins them, waiting for room, and goes on with closed ones.
#include "steps/creating.hpp"

#include <cerrno>
#include <cstring>

#include "base/fault.hpp"
#include "board/trace.hpp"
#include "events.hpp"
#include "names/going_on.hpp"
#include "names/places.hpp"
#include "queue/queue.hpp"
#include "queue/closed.hpp"
#include "steps/closing.hpp"
#include "steps/disk.hpp"
#include "steps/handles.hpp"
#include "steps/left_open.hpp"
#include "steps/lazy.hpp"
#include "steps/open_files.hpp"
#include "steps/snapshot.hpp"
#include "steps/step_file.hpp"
#include "waiting/members.hpp"
#include "waiting/wait.hpp"

namespace wilkins {

int await_renames(Process& p, int outport, Board::Lock& lock) {
    if (!disk::has_files(p.board, outport)) return 0;
    while (queue::settle_claims(p.board, outport, log_discarded))
        if (const int error = nap(p, outport, lock)) return error;
    return 0;
}

namespace {

// Goes on with a closed file of this task. nullptr with ENOENT: there is none.
StepFile* reopen_closed(const Match& match, bool empty, int* error) {
    Process& p = process();
    const uint64_t place = place_of(match);
    int index;
    uint64_t stamp;
    {
        Board::Lock lock(p.board);
        if ((*error = await_renames(p, match.outport, lock))) return nullptr;
        queue::withdraw_abandoned(p.board, match.outport, empty ? 0 : place, log_discarded);
        index = queue::find_closed(p.board, match.outport, match.name, place);
        if (index < 0) {
            const int written = empty ? -1 : queue::find_written(p.board, match.outport, place);
            *error = written >= 0 ? EAGAIN : ENOENT;
            if (*error == EAGAIN && !match.by_descriptor)  // (A descriptor joins in.)
                log_event(
                    event::adds_too_early(match.name, p.task_rank(p.board.rank(p.board.slot(written).writer).rank)));
            return nullptr;
        }
        queue::turn_to(p.board, p.board.port(match.outport).first_source + p.context.rank, place);
        SlotRecord& slot = p.board.slot(index);
        slot.writer = p.rank_index;
        slot.writer_process = p.board.self();
        slot.handed_over = 0;
        slot.lead_left = 0;
        slot.closing = 0;
        slot.opening = match.by_descriptor;
        slot.state = SlotState::writing;
        WILKINS_FAULT_POINT("closed.reopened");
        stamp = slot.stamp;
    }
    Mapping mapping;
    *error = disk::follow_name(p.board, index, match.name);
    if (!*error) *error = p.arenas->map(index, true, &mapping);
    StepFile* file = *error ? nullptr : make_file(Role::lead, index, mapping, stamp, match.name, place);
    if (file) {
        if (empty) file->set_eof(0);
        return file;
    }
    if (!*error) *error = ENOMEM;
    Board::Lock lock(p.board);
    p.board.slot(index).opening = 0;
    p.board.slot(index).state = SlotState::closed;
    return nullptr;
}

}  // namespace

void give_up(const Process& p, int index, uint64_t stamp) {
    const SlotRecord& slot = p.board.slot(index);
    bool mine;
    {
        Board::Lock lock(p.board);
        mine = is_writing(slot, stamp);
    }
    if (mine)
        disk::forget(
            p.board,
            index);  // the slot is this process's until it is cleared: nobody waits for a disk to have the board
    Board::Lock lock(p.board);
    if (is_writing(slot, stamp)) queue::clear_slot(p.board, index);
    p.board.ring(p.board.source(slot.source).port);
}

void finish_made_anew(const Match& match) {
    const Process& p = process();
    const uint64_t place = place_of(match);
    Board::Lock lock(p.board);
    const int closed = queue::find_closed(p.board, match.outport, match.name, place);
    if (closed < 0 || !p.board.slot(closed).made_anew) return;
    queue::publish_empty(p.board, p.context.task, p.board.source(p.board.slot(closed).source).rank);
}

void note_made_anew(const StepFile* file) {
    const Process& p = process();
    SlotRecord& slot = p.board.slot(file->state->slot);
    Board::Lock lock(p.board);
    if (is_writing(slot, file->state->identity)) slot.made_anew = 1;
}

StepFile* create(const Match& match, Intent intent, int* error) {
    const bool exclusive = intent == Intent::create_exclusive,
               if_missing = exclusive || intent == Intent::create_missing;
    Process& p = process();
    const Board& board = p.board;
    const PortRecord& port = board.port(match.outport);
    const int source_index = port.first_source + p.context.rank;
    const uint64_t place = place_of(match);
    if (disk::is_directory(match.name)) {
        *error = EISDIR;
        return nullptr;
    }
    bool goes_on = port.keys.publish != Publish::next || port.keys.passes_on;
    if (!goes_on) {  // but for what the task's actions keep back: that is not published by turning to it again
        Board::Lock lock(board);
        if ((*error = await_renames(p, match.outport, lock))) return nullptr;
        const int closed = queue::find_closed(board, match.outport, match.name, place);
        goes_on = closed >= 0 && board.slot(closed).kept_back;
    }
    if (goes_on && !if_missing) {
        if (StepFile* file = reopen_closed(match, true, error)) return file;
        if (*error != ENOENT && *error != EAGAIN) return nullptr;
        *error = 0;
    }
    const bool on_disk = disk::has_files(board, match.outport);
    const bool is_there = exclusive && on_disk && disk::exists(match.name);
    Missing missing;
    {
        Board::Lock lock(board);
        if ((*error = await_renames(p, match.outport, lock))) return nullptr;
        queue::withdraw_abandoned(board, match.outport, 0, log_discarded);
        if (exclusive && (is_there || queue::find_written(board, match.outport, place) >= 0 ||
                          (!on_disk && (queue::exists(board, board.source(source_index), match.name) ||
                                        queue::find_own(board, match.outport, match.name, place) >= 0)))) {
            *error = EEXIST;
            return nullptr;
        }
        queue::turn_to(board, source_index, 0);
        missing = {queue::exists(board, board.source(source_index), match.name), board.head().stamp};
    }
    return begin_step(match, source_index, place, Role::lead, error, if_missing ? &missing : nullptr);
}

namespace {

// True if another rank writes a file of this place; then the run fails, since one failed rank may leave the others in a
// collective call for ever.
bool clashes(const Process& p, const Match& match, uint64_t place) {
    const int clash = queue::find_clash(p.board, match.outport, p.context.rank, place);
    if (clash < 0) return false;
    fail_run(p, event::both_create(p.task_rank(p.board.source(p.board.slot(clash).source).rank), match.name));
    return true;
}

// True if another process has made the file while this one waited for room. (Of a name that the task also reads, each
// has files of its own.)
bool is_made_meanwhile(const Board& board, const Match& match, int source, uint64_t place, const Missing& missing) {
    const int written = queue::find_written(board, match.outport, place);
    if (written >= 0 && (match.inport < 0 || board.slot(written).writer_process == board.joined())) return true;
    const int whole = queue::find_own(board, match.outport, match.name, place);
    return (whole >= 0 && board.slot(whole).stamp > missing.since) ||
           (!missing.was_known && queue::exists(board, board.source(source), match.name));
}

}  // namespace

StepFile* begin_step(const Match& match, int source_index, uint64_t place, Role role, int* error,
                     const Missing* missing) {
    Process& p = process();
    const Board& board = p.board;
    const PortRecord& port = board.port(match.outport);
    const Folder folder = folder_of(match.name);
    int index = -1;
    uint64_t stamp = 0;
    bool name_has_room = true;
    note_begun(p, match.outport, match.name, folder);
    left_open::settle_own(source_index);
    {
        Board::Lock lock(board);
        note_member(board, p.rank_index, false);
        Wait wait(p, WaitFor::room, match.outport, match.name);
        for (;;) {
            // Of a folder, who comes second joins in.
            if (port.keys.is_set &&
                (queue::find_closed(board, match.outport, match.name, place) >= 0 ||
                 queue::find_closed(board, match.outport, match.name, place, SlotState::writing) >= 0)) {
                *error = EEXIST;
                return nullptr;
            }
            if (missing && is_made_meanwhile(board, match, source_index, place, *missing)) {
                *error = EEXIST;
                return nullptr;
            }
            if (role == Role::lead && clashes(p, match, place)) {
                *error = EEXIST;
                return nullptr;
            }
            p.arenas->look_at_views(
                source_index);  // also for others, who look whether there is memory for a longer queue
            if (queue::has_room(board, source_index, match.name)) {
                index = queue::take_slot(board, source_index, false);
                if (index < 0) index = queue::take_slot(board, source_index, true);
                if (index >= 0) break;
                sweep_dead_readers(p, match.outport);
                if (queue::drop_kept_back(board, source_index)) continue;
                if (queue::full_of_series(board, source_index)) {
                    fail_run(p, event::series_too_long(board.source(source_index).slots, port.pattern));
                    *error = ENOSPC;
                    return nullptr;
                }
                if (queue::full_of_closed(board, source_index)) {
                    fail_run(p, event::too_many_rest(board.source(source_index).slots, port.pattern));
                    *error = ENOSPC;
                    return nullptr;
                }
            }
            if ((*error = wait.nap(lock))) return nullptr;
        }
        WILKINS_FAULT_POINT("create.slot-taken");
        watch_exit();
        ++p.me().files;
        note_went_on(p, WentOn::wrote, match.name);
        board.head().moved_at = now_ns();
        SlotRecord& slot = board.slot(index);
        slot.writer = p.rank_index;
        slot.writer_process = p.board.self();
        slot.stamp = stamp = ++board.head().stamp;
        slot.place_hash = place;
        slot.folder = folder;
        slot.is_copy = role == Role::snapshot;
        note_cwd(board, slot);
        slot.opening = match.by_descriptor;
        strcpy(slot.name, match.name);
        WILKINS_FAULT_POINT("create.named");
        slot.state = SlotState::writing;
        WILKINS_FAULT_POINT("create.writing");
        // (The board remembers the names of all files that are published.)
        name_has_room = queue::make_room_for_names(board, board.source(source_index));
        trace::note(board, "create", p.context.task, p.context.rank, port.pattern, match.name, -1, -1);
        // The second file of a source tells readers whether its names are unique (see queue::find).
        SourceRecord& source = board.source(source_index);
        ++source.begun;
        if (port.keys.is_set) source.renames = 1;  // (Of those, no name is written anew.)
        if (!source.rewrites && !source.renames)
            for (const ChannelRecord& channel : channels_of(board, port)) board.ring(channel.inport);
    }
    WILKINS_FAULT_POINT("create.before-map");
    Mapping mapping;
    *error = disk::begin(board, index);
    if (!*error) *error = p.arenas->renew(index);
    if (!*error) p.arenas->adopt(index);
    if (!*error) *error = p.arenas->map(index, true, &mapping);
    WILKINS_FAULT_POINT("create.mapped");
    if (!*error) {
        // The table first: if this process dies in between, the next writer empties it again.
        SlotRecord& slot = board.slot(index);
        lazy::note_use(index, mapping.blocks);
        memset(static_cast<void*>(mapping.blocks), 0, slot.touched.load());
        WILKINS_FAULT_POINT("create.emptied");
        slot.touched.store(0);
    }
    StepFile* file = *error ? nullptr : make_file(role, index, mapping, stamp, match.name, place);
    if (!file) {
        if (!*error) *error = ENOMEM;
        give_up(p, index, stamp);
        return nullptr;
    }
    if (!name_has_room && (*error = make_room_for_name(file)) != 0) {
        discard_step(file);
        return nullptr;
    }
    return file;
}

namespace {

// Says once per port that a file was published before its program had done with it.
void hint_at_publish(const Process& p, const Match& match) {
    PortRecord& port = p.board.port(match.outport);
    if (port.reopened.fetch_add(1) > 0) return;
    log_event(event::reopened(match.name, port.pattern));
}

}  // namespace

StepFile* continue_own(const Match& match, int* error) {
    if (StepFile* file = reopen_closed(match, false, error)) return file;
    if (*error != ENOENT) return nullptr;
    StepFile* old = reread_own(match, error);
    if (!old) return nullptr;
    StepFile* file = create(match, Intent::create, error);
    if (file) {
        const uint64_t size = old->eof();
        *error = file->reserve(size);
        old->prepare_read(0, size);
        if (!*error) *error = old->settle();
        if (!*error) *error = file->write(0, old->data(), size);
        if (*error) {
            discard_step(file);
            file = nullptr;
        } else {
            hint_at_publish(process(), match);
            starts_as_snapshot(file);
        }
    }
    close_step(old);
    return file;
}

}  // namespace wilkins
