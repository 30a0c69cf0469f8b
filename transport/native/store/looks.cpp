// Looks: whether a name of an in-port is there, asked without opening it (stat, access, H5Fis_accessible).
//
// A look waits as an open would, so that a program that looks before it opens gets no 'not there' for a step that is
// still to come. It takes nothing. Where waiting could last, it answers at once: see answers_at_once and closes_circle.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "events.hpp"
#include "far/far_file.hpp"
#include "names/first_opens.hpp"
#include "names/going_on.hpp"
#include "names/second_pass.hpp"
#include "queue/answers.hpp"
#include "queue/parts.hpp"
#include "queue/alias.hpp"
#include "queue/failed_opens.hpp"
#include "steps/disk.hpp"
#include "steps/handles.hpp"
#include "store/let_go.hpp"
#include "store/stage.hpp"
#include "store/store.hpp"
#include "waiting/stuck.hpp"
#include "waiting/wait.hpp"

namespace wilkins {

namespace {

constexpr int kFirstPause =
    10;  // ms until a waiting look asks for the first time whether anything can still end its wait,

constexpr int kLongestPause = 1000;  // and between the later times

constexpr int64_t kStill =
    10'000'000'000;  // ns without movement after which processes that are not known to wait count as waiting

// Of a step: what a look shows. `slot`: where it is; -1: it is one that the rank has consumed and whose memory holds
// another step by now. `stored`: where it is on disk, and not in memory.
struct Sight {
    Look look;
    int slot;
    std::optional<Stored> stored;
};

Sight sight_of(const Board& board, int index) {
    const SlotRecord& slot = board.slot(index);
    return {{slot.size.load(), slot.stamp, slot.published_ns}, index, {}};
}

// One question of a rank about one name.
class Question {
public:
    Question(Process& p, const Match& match)
        : p_(p), board_(p.board), match_(match), inport_(p.board.port(match.inport)) {}

    // 0 and *sight, ENOENT, or EINTR as a wait does. `in_memory`: what is seen must be a step whose slot still holds
    // it.
    int ask(Board::Lock& lock, bool in_memory, Sight* sight);

private:
    bool sees(bool in_memory, Sight* sight) const;
    bool sees_held(Sight* sight) const;
    bool sees_consumed(bool in_memory, Sight* sight) const;
    bool answers_at_once() const;
    bool any_published() const;
    bool asks_again() const;
    bool writers_wait_for_room() const;
    bool closes_circle(Wait& wait, Board::Lock& lock);
    bool may_move_unseen() const;
    uint64_t movement() const;
    int missing(Board::Lock& lock, bool never, Sight* sight) const;

    Process& p_;
    const Board& board_;
    const Match& match_;
    PortRecord& inport_;
    uint64_t moved_ = 0;       // see movement
    int64_t still_since_ = 0;  // when that last changed
};

// The newest step of the name that the rank has open: what a call from within an open asks about.
bool Question::sees_held(Sight* sight) const {
    int best = -1;
    for (const ChannelRecord& channel : channels_of(board_, inport_)) {
        if (p_.context.rank >= channel.readers) continue;
        for (const SlotRecord& slot : steps_of(board_, channel)) {
            if (slot.holds == 0 || !means(inport_, match_.name, slot.name)) continue;
            const int k = board_.index(slot);
            bool held = false;
            queue::each_hold(board_, p_.me(), [&](int32_t index, uint32_t process) {
                held = held || (index == k && !board_.is_over(process));
            });
            if (held && (best < 0 || slot.published_stamp > board_.slot(best).published_stamp)) best = k;
        }
    }
    if (best >= 0) *sight = sight_of(board_, best);
    return best >= 0;
}

// The step that the rank has opened last, under this name: what a program asks about that looks back at what it has
// read, to tell its size or to remove it. It is shown once. Who asks again asks for the next one, as the next open
// does.
bool Question::sees_consumed(bool in_memory, Sight* sight) const {
    Looked& looked = board_.looked(inport_, p_.context.rank);
    if (looked.consumed.identity == 0 || looked.consumed_name != hash_name(inport_, match_.name)) return false;
    if (!queue::can_produce(board_, match_.inport)) return false;
    *sight = {looked.consumed, looked.consumed_slot, {}};
    const SlotRecord& slot = board_.slot(looked.consumed_slot);
    if (slot.stamp != looked.consumed.identity || slot.state != SlotState::published) sight->slot = -1;
    looked.consumed.identity = 0;
    return !in_memory || sight->slot >= 0;
}

bool Question::sees(bool in_memory, Sight* sight) const {
    if (sees_held(sight)) return true;
    const queue::Found found = queue::find(board_, match_.inport, p_.context.rank, match_.name);
    int slot = found.slot;
    if (slot >= 0 || queue::find_consumed(board_, match_.inport, p_.context.rank, match_.name, &slot))
        *sight = sight_of(board_, slot);
    return slot >= 0 || (inport_.keys.looks == Looks::wait && !found.passed && sees_consumed(in_memory, sight));
}

// True if a step was published for the in-port.
bool Question::any_published() const {
    for (const ChannelRecord& channel : channels_of(board_, inport_))
        for (const SourceRecord& source : sources_of(board_, channel))
            if (queue::offered(board_, channel, source.rank) > 0) return true;
    return false;
}

// Looks that do not wait: where the workflow file, or a cycle, says so; and where steps are dropped, once there was
// one, since the reader is to go at its own pace.
bool Question::answers_at_once() const {
    if (inport_.keys.looks != Looks::wait) return inport_.keys.looks == Looks::now;
    for (const ChannelRecord& channel : channels_of(board_, inport_))
        if (queue::leaves_out(board_, channel)) return any_published();
    return false;
}

// True if the rank has done nothing but look for this name, without finding it, for so long that it cannot go on
// without it.
bool Question::asks_again() const {
    const EmptyLooks& empty_looks = p_.me().empty_looks;
    return empty_looks.looks > 1 && empty_looks.files == p_.me().files && strcmp(empty_looks.name, match_.name) == 0 &&
           now_ns() - empty_looks.since >= int64_t{inport_.keys.poll_end_ms} * 1'000'000;
}

// True if all that could write for the in-port wait for room, or for a rank of their task that does.
bool Question::writers_wait_for_room() const {
    for (const PortRecord& out : outports_of(board_, inport_)) {
        const TaskRecord& task = board_.task(out.task);
        if (task.state == TaskState::ended) continue;
        bool full = false, among = false;
        for (const RankRecord& rank : ranks_of(board_, task)) {
            if (waits_for(rank, WaitFor::room)) full = true;
            else if (is_among_ranks(board_, board_.index(rank), 0)) among = true;
            else if (!leaves(board_, board_.index(rank))) return false;
        }
        if (among && !full) return false;
    }
    return true;
}

// Grows when anything on the board moves that could end a wait.
uint64_t Question::movement() const {
    uint64_t moved = board_.head().publications;
    for (const RankRecord& rank : ranks_of(board_)) moved += rank.files;
    return moved;
}

// True if a waiting rank has a living process that is not known to wait. It may do what the others wait for.
bool Question::may_move_unseen() const {
    for (const RankRecord& rank : ranks_of(board_)) {
        const auto waits = [&](uint32_t process) {
            return std::any_of(std::begin(rank.waits), std::end(rank.waits), [&](const WaitRecord& wait) {
                return wait.what != WaitFor::nothing && (process == 0 || wait.process == process);
            });
        };
        if (!waits(0)) continue;
        for (const uint32_t process : rank.came)
            if (process != 0 && !waits(process) && !board_.is_over(process)) return true;
    }
    return false;
}

// True if all wait for each other, this look among them. Then it is the look that goes on: what it asks for is not
// there.
bool Question::closes_circle(Wait& wait, Board::Lock& lock) {
    wait.tell(lock);
    const uint64_t moved = movement();
    const int64_t now = now_ns();
    if (still_since_ == 0 || moved != moved_) still_since_ = now;
    moved_ = moved;
    if (!is_stuck(board_, p_.rank_index)) return false;
    if (now - still_since_ < kStill && may_move_unseen()) return false;
    log_once(inport_, Once::missing, event::look_not_waited(match_.name, inport_.pattern));
    return true;
}

// No step in memory is the answer; `never`: nor will one be.
int Question::missing(Board::Lock& lock, bool never, Sight* sight) const {
    stage::pass_on(p_);
    if (const std::optional<Stored> stored = find_let_go(p_, match_, lock)) {
        const OnDisk& file = stored->file;
        *sight = {{file.size, disk::identity_of(file), file.modified_ns}, -1, stored};
        return 0;
    }
    hint_at_look_again(p_, match_.inport, match_.name);
    note_failed(board_, match_.inport, p_.context.rank, match_.name);
    if (never) queue::note_failed_open(board_, match_.inport, p_.context.rank, match_.name, asker());
    return ENOENT;
}

int Question::ask(Board::Lock& lock, bool in_memory, Sight* sight) {
    if (!queue::may_read(board_, match_.inport, p_.context.rank)) return ENOENT;
    note_came(board_, p_.rank_index);
    if (answer_first(p_, match_.inport, match_.name, false) != First::wait) return ENOENT;
    if (inport_.keys.looks != Looks::now) inport_.touched = 1;
    SharedAnswer shared(board_, match_.inport, p_.context.rank, match_.name);
    // A rank that asks again and again gets no further answer that nothing is there where all wait for it: it waits as
    // one that opens the name, so that what has to be done for that one is done.
    const bool insists = asks_again();
    Wait wait(p_, WaitFor::data, match_.inport, match_.name, insists ? WaitKind::plain : WaitKind::gives_up);
    int64_t asked_at = now_ns();
    int64_t pause = kFirstPause;
    for (;;) {
        const bool ended = !queue::can_produce(board_, match_.inport);
        if (const SharedAnswer::Known known = shared.known(); known.given) {
            if (known.slot < 0) return missing(lock, ended && inport_.keys.looks != Looks::now, sight);
            *sight = sight_of(board_, known.slot);
            return 0;
        }
        if (sees(in_memory, sight)) {
            shared.give(sight->look.identity);
            return 0;
        }
        const queue::Found found = queue::find(board_, match_.inport, p_.context.rank, match_.name);
        // A look decides nothing about what a name stands for, and where another one does, no other comes.
        const bool never = queue::may_be_alias(board_, inport_, match_.name) ||
                           (has_alias(inport_) && !means(inport_, match_.name, ""));
        bool over = never || found.passed || ended || (answers_at_once() && !(insists && writers_wait_for_room()));
        const int64_t now = now_ns();
        if (!over && !insists && now - asked_at >= pause * 1'000'000) {
            over = closes_circle(wait, lock);
            asked_at = now;
            pause = pause * 2 < kLongestPause ? pause * 2 : kLongestPause;
        }
        if (over) {
            shared.give(0);
            queue::want(board_, match_.inport);
            return missing(lock, (ended && inport_.keys.looks != Looks::now) || found.passed || never, sight);
        }
        stage::pass_on(p_);
        if (const int error = wait.nap(lock, static_cast<int>(pause))) return error;
    }
}

}  // namespace

int await_look(const Match& match, Look* look) {
    Process& p = process();
    if (match.outport >= 0 || match.inport < 0) {
        const bool here = lookup_step(match, &look->size, &look->identity, &look->published_ns);
        return here || find_elsewhere(match, look) ? 0 : ENOENT;
    }
    Board::Lock lock(p.board);
    Sight sight;
    const int error = Question(p, match).ask(lock, false, &sight);
    if (!error) *look = sight.look;
    return error;
}

StepFile* open_look(const Match& match, int* error) {
    Process& p = process();
    if (match.outport >= 0 || match.inport < 0) {
        Look look;
        *error = await_look(match, &look);
        return *error ? nullptr : open_step(match, Intent::look, 1, error);
    }
    Sight sight;
    {
        Board::Lock lock(p.board);
        if ((*error = Question(p, match).ask(lock, true, &sight))) return nullptr;
        if (!sight.stored && !queue::add_hold(p.board, p.rank_index, sight.slot)) {
            *error = too_many_open(p, match.name);
            return nullptr;
        }
    }
    if (sight.stored) return open_stored(match, *sight.stored, error);
    return open_held(sight.slot, sight.look.identity, match.name, error);
}

}  // namespace wilkins
