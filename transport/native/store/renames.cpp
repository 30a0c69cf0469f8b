// What becomes of a step whose name is removed or changed, and what is there now.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/fault.hpp"
#include "base/patterns.hpp"
#include "base/raw.hpp"
#include "names/first_opens.hpp"
#include "names/places.hpp"
#include "names/unmatched_names.hpp"
#include "queue/answers.hpp"
#include "queue/parts.hpp"
#include "queue/queue.hpp"
#include "queue/closed.hpp"
#include "steps/creating.hpp"
#include "steps/disk.hpp"
#include "steps/handles.hpp"
#include "steps/joined.hpp"
#include "steps/open_files.hpp"
#include "steps/step_file.hpp"
#include "store/reading.hpp"
#include "store/store.hpp"
#include "waiting/wait.hpp"

namespace wilkins {

bool on_disk(const Match& match) { return match.inport < 0 && disk::has_files(process().board, match.outport); }

bool is_file(const Match& match) {
    return match.inport >= 0 && process().board.port(match.inport).keys.mode == Mode::file;
}

bool may_remove_file(const Match& match) {
    const Process& p = process();
    if (match.outport >= 0 || p.board.port(match.inport).keys.mode == Mode::memory) return true;
    if (p.board.port(match.inport).keys.mode == Mode::both || !queue::may_read(p.board, match.inport, p.context.rank))
        return false;
    Board::Lock lock(p.board);
    bool is_next = false;
    for (uint64_t seen = 0;;) {  // while this one looks at the disk, another thread may take the step
        const queue::Found next = queue::find(p.board, match.inport, p.context.rank, match.name);
        if (next.slot < 0 || !next.unread) return true;
        const uint64_t stamp = p.board.slot(next.slot).stamp;
        if (stamp == seen) return !is_next;
        seen = stamp;
        lock.release();
        is_next = disk::is_named(p.board, next.slot, match.name);
        lock.acquire();
    }
}

bool lookup_step(const Match& match, uint64_t* size, uint64_t* identity, int64_t* published_ns) {
    Process& p = process();
    const auto is_written = [&] {
        Look written;
        if (match.inport >= 0 || !joined::look(match, &written)) return false;
        *size = written.size;
        *identity = written.identity;
        *published_ns = written.published_ns;
        return true;
    };
    if (is_written()) return true;
    if (on_disk(match)) return disk::look(match.name, size, identity, published_ns);
    const uint64_t place = match.outport >= 0 ? place_of(match) : 0;
    int index = -1;
    Board::Lock lock(p.board);
    if (match.inport >= 0 && queue::may_read(p.board, match.inport, p.context.rank) &&
        answer_first(p, match.inport, match.name, false) == First::wait) {
        index = queue::find(p.board, match.inport, p.context.rank, match.name).slot;
        if (index < 0) note_found_nothing(p, match.inport, match.name, true);
    }
    if (index < 0 && match.outport >= 0) index = queue::find_own(p.board, match.outport, match.name, place);
    if (index < 0) {
        lock.release();
        // Another process may have begun to write it since.
        const bool there = match.inport >= 0 ? look_at_last(match, size, identity, published_ns) : is_written();
        lock.acquire();
        return there;
    }
    const SlotRecord& slot = p.board.slot(index);
    *size = slot.size.load();
    *identity = slot.stamp;
    *published_ns = slot.published_ns;
    return true;
}

int remove_step(const Match& match, bool unfinished) {
    Process& p = process();
    const uint64_t place = match.outport >= 0 ? place_of(match) : 0;
    Board::Lock lock(p.board);
    if (const int error = await_renames(p, match.outport, lock)) return error;
    bool removed =
        match.outport >= 0 && queue::remove_own(p.board, match.outport, match.name, place, false, unfinished);
    if (match.inport >= 0 && queue::may_read(p.board, match.inport, p.context.rank)) {
        forget_consumed(p.board, match.inport, p.context.rank, match.name);
        const bool let_go = queue::let_go(p.board, match.inport, p.context.rank, match.name);
        if (let_go) queue::note_removed(p.board, match.inport, match.name);
        removed = let_go || removed;
    }
    return removed ? 0 : ENOENT;
}

int delete_file(const Match& match) {
    if (!on_disk(match)) return remove_step(match);
    if (raw::unlink(match.name) != 0) return errno;
    remove_step(match);
    return 0;
}

int begin_again(const Match& match) {
    Process& p = process();
    const uint64_t place = place_of(match);
    Board::Lock lock(p.board);
    if (const int error = await_renames(p, match.outport, lock)) return error;
    const int closed = queue::find_closed(p.board, match.outport, match.name, place);
    if (closed >= 0 && p.board.slot(closed).size == 0) return 0;
    queue::turn_to(p.board, p.board.port(match.outport).first_source + p.context.rank, 0);
    if (queue::find_closed(p.board, match.outport, match.name, place) >= 0) return EAGAIN;
    const bool there = queue::remove_own(p.board, match.outport, match.name, place, false);
    lock.release();
    uint64_t size, identity;
    int64_t modified;
    if (!there && !(on_disk(match) && disk::look(match.name, &size, &identity, &modified))) return ENOENT;
    int error = 0;
    if (StepFile* const file = create(match, Intent::create, &error)) close_step(file);
    return error;
}

void withdraw_step(const Match& match) {
    const Process& p = process();
    const uint64_t place = place_of(match);
    Board::Lock lock(p.board);
    queue::remove_own(p.board, match.outport, match.name, place, true);
}

bool name_on_disk(const Match& match, char* out, size_t room) {
    if (!on_disk(match) || disk::exists(match.name)) return false;
    const Process& p = process();
    const uint64_t place = place_of(match);
    int index;
    {
        Board::Lock lock(p.board);
        index = queue::find_written(p.board, match.outport, place);
    }
    return index >= 0 && disk::hidden_name(p.board, index, out, room);
}

std::vector<uint64_t> find_unfinished(const Match& match) {
    const Process& p = process();
    const uint64_t place = place_of(match);
    Board::Lock lock(p.board);
    return queue::find_unfinished(p.board, match.outport, match.name, place);
}

void lose_name(const Match& match, const std::vector<uint64_t>& unfinished) {
    if (unfinished.empty()) return;
    const Process& p = process();
    const uint64_t place = place_of(match);
    Board::Lock lock(p.board);
    queue::lose_name(p.board, match.outport, match.name, place, unfinished);
}

std::vector<std::string> move_folder(const char* from, const char* to) {
    const Process& p = process();
    const size_t length = strlen(from);
    char whole_from[kNameMax], whole_to[kNameMax];
    const bool known = make_whole(from, whole_from) && make_whole(to, whole_to);
    std::vector<std::pair<uint64_t, std::string>> in_memory;
    {
        Board::Lock lock(p.board);
        for (const SlotRecord& slot : slots_of(p.board)) {
            const int outport = p.board.source(slot.source).port;
            if (p.board.port(outport).task != p.context.task) continue;
            const bool closed = slot.state == SlotState::published || slot.state == SlotState::closed;
            if (!disk::has_files(p.board, outport)) {
                if (!closed || slot.removed || strncmp(slot.name, from, length) != 0 || slot.name[length] != '/')
                    continue;
                in_memory.emplace_back(slot.stamp, slot.name);
            } else if (known) {  // a slot that is free may have a hidden file, too
                disk::move_folder(p.board, p.board.index(slot), whole_from, whole_to);
            }
        }
    }
    std::sort(in_memory.begin(), in_memory.end());
    std::vector<std::string> names;
    names.reserve(in_memory.size());
    for (auto& one : in_memory) names.push_back(std::move(one.second));
    return names;
}

namespace {

// Gives a file that is being written another name, under which it will be published. False: there is no such file; else
// *error is 0 or an errno.
bool rename_written(Process& p, const Match& from, const Match& to, int* error) {
    const Board& board = p.board;
    const uint64_t place = place_of(from), new_place = place_of(to);
    const Folder folder = folder_of(to.name);
    int index;
    uint64_t stamp;
    {
        Board::Lock lock(board);
        while ((index = queue::find_written(board, from.outport, place)) >= 0 && board.slot(index).closing)
            if ((*error = nap(p, from.outport, lock))) return true;
        if (index < 0) return false;
        stamp = board.slot(index).stamp;
    }
    if (from.outport != to.outport) {
        *error = EXDEV;
        return true;
    }
    note_begun(p, to.outport, to.name, folder);
    if ((*error = disk::follow_name(board, index, to.name))) {
        disk::follow_name(board, index, from.name);
        return true;
    }
    WILKINS_FAULT_POINT("rename.turned");
    {
        Board::Lock lock(board);
        SlotRecord& slot = board.slot(index);
        if (is_writing(slot, stamp)) {
            strcpy(slot.name, to.name);
            slot.place_hash = new_place;
            slot.folder = folder;
            note_cwd(board, slot);
        }
        queue::remove_own(board, from.outport, from.name, place, false, false);
    }
    rename_open(index, stamp, to.name, new_place);
    if (disk::has_files(board, from.outport)) raw::unlink(from.name);
    *error = 0;
    return true;
}

// Gives a closed file another name, on disk too. False: there is no such file; else *error is 0 or an errno.
bool rename_closed(Process& p, const Match& from, const Match& to, int* error) {
    const Board& board = p.board;
    const uint64_t place = place_of(from), new_place = place_of(to);
    const Folder folder = folder_of(to.name);
    note_begun(p, to.outport, to.name, folder);
    Board::Lock lock(board);
    if ((*error = await_renames(p, from.outport, lock))) return true;
    const int index = queue::find_closed(board, from.outport, from.name, place);
    if (index < 0) return false;
    const int replaced = queue::find_closed(board, to.outport, to.name, new_place);
    if (replaced == index) return true;
    SlotRecord& slot = board.slot(index);
    const auto take_name = [&] {
        strcpy(slot.name, to.name);
        slot.place_hash = new_place;
        slot.folder = folder;
        note_cwd(board, slot);
        if (replaced >= 0 && board.slot(replaced).state == SlotState::closed) queue::withdraw(board, replaced);
    };
    if (disk::has_files(board, from.outport)) {
        const auto claim = [&](uint32_t process) {
            slot.claimed_by = process;
            if (replaced >= 0) board.slot(replaced).claimed_by = process;
        };
        claim(board.self());
        lock.release();
        WILKINS_FAULT_POINT("rename.claimed");
        *error = disk::rename_file(board, index, from.name, to.name);
        lock.acquire();
        // (The launcher may have said meanwhile that the program has ended.)
        if (!*error && slot.state == SlotState::closed) take_name();
        WILKINS_FAULT_POINT("rename.noted");
        claim(0);
        board.ring(from.outport);
    } else {
        take_name();
    }
    return true;
}

}  // namespace

int rename_step(const Match& from, const Match& to) {
    Process& p = process();
    int error = 0;
    if (from.outport >= 0 && place_of(from) == place_of(to) && from.outport == to.outport) return 0;
    if (from.outport >= 0 && rename_written(p, from, to, &error)) return error;
    if (from.outport >= 0 && from.outport == to.outport && rename_closed(p, from, to, &error)) return error;
    StepFile* old = reread_own(from, &error);
    if (!old) return error;
    queue::Carried carried;
    {
        const uint64_t place = place_of(from);
        Board::Lock lock(p.board);
        if (from.outport == to.outport) carried = queue::moves(p.board, from.outport, from.name, place, to.name);
        // First, for it may take the room that the new name needs.
        queue::remove_own(p.board, from.outport, from.name, place, true);
    }
    WILKINS_FAULT_POINT("rename.removed");
    StepFile* file = create(to, Intent::create, &error);
    if (file) {
        if (file->state->slot >= 0 && publishes_at_once(p.board.port(to.outport).keys)) {
            Board::Lock lock(p.board);
            queue::carry(p.board, file->state->slot, carried);
        }
        const uint64_t size = old->eof();
        old->prepare_read(0, size);
        error = old->settle();
        if (!error) error = file->write(0, old->data(), size);
        WILKINS_FAULT_POINT("rename.written");
        if (error) discard_step(file);
        else close_step(file);
    }
    {
        Board::Lock lock(p.board);
        queue::moved(p.board, carried);
    }
    close_step(old);
    if (!error && disk::has_files(p.board, from.outport)) raw::unlink(from.name);
    return error;
}

}  // namespace wilkins
