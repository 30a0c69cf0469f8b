// One step for several opens: by another library of the process, or from inside a step that it has open.
//
// A name that is rewritten means the next step at each open. Not so for a library that has not consumed the present
// one: it gets that. Nor for an open that a library makes by itself, as it follows a link out of a step, or reads a
// virtual dataset of it: that leads to the step of the other file that belongs to this one.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/held_at_forks.hpp"
#include "base/patterns.hpp"
#include "events.hpp"
#include "queue/origins.hpp"
#include "queue/parts.hpp"
#include "steps/handles.hpp"
#include "steps/step_file.hpp"
#include "store/left_out.hpp"
#include "store/let_go.hpp"
#include "store/reading.hpp"
#include "store/store.hpp"
#include "waiting/wait.hpp"

namespace wilkins {

namespace {

// The step that the process has opened last by a name.
struct Last {
    int inport;
    uint64_t name;  // hash of the name, or of none where each name of the in-port means the next step
    int slot;
    uint64_t stamp;
    std::vector<const void*> consumed;  // libraries that have
    StepFile* kept;                     // so that it stays for the others; nullptr where there are none
};

constexpr size_t kMostLasts = 32;

std::mutex shared_mutex;
HeldAtForks held_at_forks(shared_mutex);

std::vector<Last> lasts;  // the one used last at the end

std::vector<const void*> libraries;  // that have read steps

uint64_t name_of(int inport, const char* name) {
    const PortRecord& port = process().board.port(inport);
    return in_order(port) ? 0 : hash_text(last_components(name, static_cast<int>(port.components)));
}

auto find_last(int inport, uint64_t name) {
    return std::find_if(lasts.begin(), lasts.end(),
                        [=](const Last& one) { return one.inport == inport && one.name == name; });
}

void note_library(const void* library) {
    if (std::find(libraries.begin(), libraries.end(), library) == libraries.end()) libraries.push_back(library);
}

// Returns the step that was opened last if the name means it to a library that has not consumed it.
StepFile* open_last(const Match& match, const void* library, bool counts) {
    int slot;
    uint64_t stamp;
    {
        std::lock_guard<std::mutex> guard(shared_mutex);
        const auto last = find_last(match.inport, name_of(match.inport, match.name));
        if (last == lasts.end() ||
            std::find(last->consumed.begin(), last->consumed.end(), library) != last->consumed.end())
            return nullptr;
        if (counts) {
            last->consumed.push_back(library);
            note_library(library);
        }
        slot = last->slot;
        stamp = last->stamp;
    }
    int error;
    StepFile* const file = hold_again(slot, stamp, match.name, &error);
    if (error == ESTALE) log_event(event::other_library(match.name));
    return file;
}

// The next step of the name is asked for: nobody waits for what is kept of the last one.
void leave_last(const Match& match) {
    StepFile* kept = nullptr;
    {
        std::lock_guard<std::mutex> guard(shared_mutex);
        const auto last = find_last(match.inport, name_of(match.inport, match.name));
        if (last != lasts.end()) std::swap(kept, last->kept);
    }
    if (kept) close_step(kept);
}

// `library`: that has opened it; nullptr: none has by a call of the program's.
void note_last(const Match& match, const StepFile& file, const Library* library) {
    const StepFile::State& state = *file.state;
    StepFile* gone = nullptr;
    bool keeps = false;
    {
        std::lock_guard<std::mutex> guard(shared_mutex);
        const uint64_t name = name_of(match.inport, match.name);
        Last last = {match.inport, name, state.slot, state.identity, {}, nullptr};
        if (library) note_library(library->identity);
        keeps = library && name == 0 && (library->among_several || libraries.size() > 1);
        if (library) last.consumed.push_back(library->identity);
        const auto before = find_last(match.inport, name);
        if (before != lasts.end() && before->slot == last.slot && before->stamp == last.stamp) return;
        if (before != lasts.end() || lasts.size() == kMostLasts) {
            const auto old = before != lasts.end() ? before : lasts.begin();
            gone = old->kept;
            lasts.erase(old);
        }
        lasts.push_back(std::move(last));
    }
    if (gone) close_step(gone);
    int error;
    StepFile* kept = keeps ? hold_again(state.slot, state.identity, match.name, &error) : nullptr;
    if (!kept) return;
    {
        std::lock_guard<std::mutex> guard(shared_mutex);
        const auto last = find_last(match.inport, name_of(match.inport, match.name));
        if (last != lasts.end() && last->stamp == state.identity) std::swap(kept, last->kept);
    }
    if (kept) close_step(kept);
}

bool is_shared(const Match& match) {
    return match.inport >= 0 && process().board.port(match.inport).keys.opens_per_step == 1;
}

}  // namespace

StepFile* open_to_read(const Match& match, const Library& library, int* error) {
    if (!is_shared(match)) return open_step(match, Intent::read, 1, error);
    if (StepFile* const file = open_last(match, library.identity, true)) return file;
    leave_last(match);
    StepFile* const file = open_step(match, Intent::read, 1, error);
    if (file && file->state->role == Role::reader) note_last(match, *file, &library);
    return file;
}

StepFile* open_to_look(const Match& match, const Library& library, int* error) {
    StepFile* const file = is_shared(match) ? open_last(match, library.identity, false) : nullptr;
    return file ? file : open_step(match, Intent::look, 1, error);
}

bool look_at_last(const Match& match, uint64_t* size, uint64_t* identity, int64_t* published_ns) {
    std::lock_guard<std::mutex> guard(shared_mutex);
    const auto last = find_last(match.inport, name_of(match.inport, match.name));
    if (last == lasts.end() || !last->kept || last->consumed.size() >= libraries.size()) return false;
    *size = last->kept->eof();
    *identity = last->stamp;
    *published_ns = process().board.slot(last->slot).published_ns;
    return true;
}

namespace {

// Steps that a name may mean to the rank, and the place of each in the order of publication.
struct Around {
    int before = -1;  // the newest that was published up to there
    int after = -1;   // the oldest of later ones
    int before_link = -1;
    int after_link = -1;
    bool behind = false;   // one that belongs before may be on its way from another host
    bool is_exact = true;  // their place is that in which they were published here
};

// The step that is open and has this place in the order of publication; nullptr: it is none of this run.
const SlotRecord* find_published(const Board& board, uint64_t published) {
    for (const SlotRecord& slot : slots_of(board))
        if (slot.state == SlotState::published && slot.published_stamp == published) return &slot;
    return nullptr;
}

Around find_around(const Board& board, int index, int reader, const char* name, uint64_t published) {
    const SlotRecord* const from = find_published(board, published);
    const PortRecord& inport = board.port(index);
    const auto stamp_of = [&](int slot) { return board.slot(slot).published_stamp; };
    Around found;
    found.is_exact = !from || from->origin.stamp == 0;
    for (const ChannelRecord& channel : channels_of(board, inport)) {
        if (reader >= channel.readers) continue;
        found.behind = found.behind || (from && queue::is_behind(board, channel.outport, *from));
        for (const SlotRecord& slot : steps_of(board, channel)) {
            if (!(in_order(inport) || means(inport, name, slot.name))) continue;
            const bool before = queue::is_before(board, slot, from, published);
            if (before && (found.before < 0 || slot.published_stamp > stamp_of(found.before))) {
                found.before = board.index(slot);
                found.before_link = channel.link;
            }
            if (!before && (found.after < 0 || slot.published_stamp < stamp_of(found.after))) {
                found.after = board.index(slot);
                found.after_link = channel.link;
            }
        }
    }
    return found;
}

// The rank has consumed the step, and what it would have been given before it.
void take_up_to(const Board& board, int index, int reader, const char* name, int slot, int link) {
    const uint64_t published = board.slot(slot).published_stamp;
    if (!in_order(board.port(index))) {
        const SlotRecord& record = board.slot(slot);
        const SourceRecord& source = board.source(record.source);
        const ChannelRecord& channel = board.channel(board.link(board.port(index), link));
        const bool unread = !queue::is_done(board, channel, source.rank, reader, record);
        if (unread) queue::take(board, index, reader, {slot, link, true});
        return;
    }
    for (;;) {
        const queue::Found next = queue::find(board, index, reader, name);
        if (next.slot < 0 || !next.unread || board.slot(next.slot).published_stamp > published) return;
        queue::take(board, index, reader, next);
        if (next.slot == slot) return;
    }
}

// In-ports whose steps are published after those from which they were opened.
std::atomic<uint64_t> follow_others[4];

bool follows(const Process& p, int inport) {
    const int k = inport - p.first_port;
    return k < 256 && (follow_others[k / 64] >> (k % 64) & 1);
}

void note_follows(const Process& p, int inport) {
    const int k = inport - p.first_port;
    if (k < 256) follow_others[k / 64] |= uint64_t{1} << (k % 64);
}

}  // namespace

StepFile* open_within(const Match& match, uint64_t published, int* error) {
    Process& p = process();
    const Board& board = p.board;
    const int reader = p.context.rank;
    int chosen = -1;
    uint64_t stamp = 0;
    {
        Board::Lock lock(board);
        if (!in_order(board.port(match.inport)) && queue::is_removed(board, board.port(match.inport), match.name)) {
            *error = ENOENT;
            return nullptr;
        }
        Wait wait(p, WaitFor::data, match.inport, match.name);
        while (queue::may_read(board, match.inport, reader)) {
            const Around around = find_around(board, match.inport, reader, match.name, published);
            if (around.behind) {
                if ((*error = wait.nap(lock))) return nullptr;
                continue;
            }
            const bool follows_others = follows(p, match.inport);
            if (!follows_others && around.is_exact &&
                queue::is_last_gone(board, board.port(match.inport), around.before, published)) {
                *error = refuse_gone_within(p, match, lock);
                return nullptr;
            }
            const bool later = follows_others || around.before < 0;
            int link = later ? around.after_link : around.before_link;
            chosen = later ? around.after : around.before;
            if (chosen < 0 && around.before >= 0)
                take_up_to(board, match.inport, reader, match.name, around.before, around.before_link);
            if (chosen < 0 && (!queue::can_produce(board, match.inport) || wait.has_found_nothing(lock))) {
                chosen = around.before;
                link = around.before_link;
            } else if (chosen < 0 &&
                       !(around.before < 0 && queue::find(board, match.inport, reader, match.name).passed)) {
                if (learns_left_out(p, match, lock)) continue;
                if ((*error = wait.nap(lock))) return nullptr;
                continue;
            }
            if (chosen < 0) break;
            if (!queue::add_hold(board, p.rank_index, chosen)) {
                *error = too_many_open(p, match.name);
                return nullptr;
            }
            if (chosen == around.after) note_follows(p, match.inport);
            board.port(match.inport).touched = 1;
            take_up_to(board, match.inport, reader, match.name, chosen, link);
            stamp = board.slot(chosen).stamp;
            break;
        }
    }
    if (chosen < 0) return open_gone_within(match, error);
    StepFile* const file = open_held(chosen, stamp, match.name, error);
    if (file) note_last(match, *file, nullptr);
    return file;
}

}  // namespace wilkins
