#include "store/own_sets.hpp"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/patterns.hpp"
#include "base/raw.hpp"
#include "board/border.hpp"
#include "queue/parts.hpp"
#include "queue/queue.hpp"
#include "queue/resting.hpp"
#include "store/disk.hpp"
#include "store/parts.hpp"
#include "store/set_folder.hpp"
#include "waiting/wait.hpp"

namespace wilkins::sets {

namespace {

// A folder in which this process writes.
struct Own {
    int outport;
    int slot;
    uint64_t stamp;
    uint64_t where;  // hash of its absolute name
    bool turned;     // the process has turned to another one since; it is done when it has nothing open in it
    bool completes;  // a file that completes it was there; it is complete when the process has nothing open in it
};

std::mutex mutex;
std::vector<Own>& owns = *new std::vector<Own>;  // (Needed until the library's last function has run.)
uint32_t owner = 0;               // the process that has written in those: a fork has not
std::atomic<uint32_t> open_ones{0};  // of those that are turned from, or complete, but for what is open

// (With the mutex held.)
void forget_parents(const Process& p) {
    if (owner == p.board.self()) return;
    owner = p.board.self();
    owns.clear();
    open_ones = 0;
}

template <class Visit>
void each_slot(const Board& board, const PortRecord& port, Visit visit) {
    for (int s = port.first_source; s < port.first_source + port.sources; ++s) queue::each_slot(board, board.source(s), visit);
}

// The port's unpublished step of the name.
int find_begun(const Process& p, const Match& match, uint64_t place, SlotState state) {
    int found = -1;
    each_slot(p.board, p.board.port(match.outport), [&](int k, const SlotRecord& slot) {
        if (slot.state != state || slot.removed || (place ? slot.place_hash != place : strcmp(slot.name, match.name) != 0)) return;
        if (state != SlotState::writing || !p.board.is_over(slot.writer_process)) found = k;
    });
    return found;
}

// Folders of the port that were begun after this one.
int count_later(const Board& board, const PortRecord& port, const SlotRecord& slot) {
    int later = 0;
    each_slot(board, port, [&](int, const SlotRecord& other) { later += other.state != SlotState::free && other.stamp > slot.stamp; });
    return later;
}

// Ranks that have not come to the folder yet, but may: one that has written in another one, until two later ones are begun.
bool awaits_ranks(const Board& board, const PortRecord& port, const SlotRecord& slot, int later) {
    bool any_published = false;
    for (int s = port.first_source; s < port.first_source + port.sources; ++s)
        any_published = any_published || board.source(s).next_sequence > board.source(s).first_sequence;
    if (later >= 2) return false;
    for (int s = port.first_source; s < port.first_source + port.sources; ++s) {
        const SourceRecord& source = board.source(s);
        if (source.set_turn >= slot.stamp) continue;
        if (source.set_turn == 0 ? !any_published : !board.is_over(source.set_writer)) return true;
    }
    return false;
}

bool is_complete(const Board& board, const PortRecord& port, int index) {
    const SlotRecord& slot = board.slot(index);
    if (port.habits.publish == Publish::file) return slot.set_complete != 0;
    if (port.habits.publish != Publish::next) return false;
    const int later = count_later(board, port, slot);
    return later > 0 && !has_writers(board, index, slot.stamp) && !awaits_ranks(board, port, slot, later);
}

// The source's folder that was begun first and is not published; -1: there is none.
int oldest(const Board& board, const SourceRecord& source) {
    int found = -1;
    for (int k = source.first_slot; k < source.first_slot + source.slots; ++k)
        if (board.slot(k).state == SlotState::resting && (found < 0 || board.slot(k).stamp < board.slot(found).stamp)) found = k;
    return found;
}

// Publishes what is complete, in the order in which it was begun.
void publish_complete(const Process& p, int outport) {
    const Board& board = p.board;
    const PortRecord& port = board.port(outport);
    for (int s = port.first_source; s < port.first_source + port.sources; ++s) {
        for (;;) {
            int index;
            uint64_t stamp = 0;
            {
                Board::Lock lock(board);
                index = oldest(board, board.source(s));
                if (index < 0 || !is_complete(board, port, index)) break;
                stamp = board.slot(index).stamp;
            }
            RealPath folder;
            folder_of_step(board, index, stamp, folder);
            const bool there = raw::access(folder) == 0;
            const uint64_t bytes = bytes_below(folder);
            Board::Lock lock(board);
            SlotRecord& slot = board.slot(index);
            if (slot.state != SlotState::resting || slot.stamp != stamp || !is_complete(board, port, index)) continue;
            slot.set_bytes = bytes;
            if (there) queue::publish(board, index);
            else queue::withdraw(board, index);
        }
    }
}

// Those that were only left open, and are no more. (With the mutex held.) Returns ports whose folders may be complete now.
std::vector<int> settle(const Process& p) {
    std::vector<int> touched;
    uint32_t open = 0;
    for (size_t k = owns.size(); k-- > 0;) {
        Own& one = owns[k];
        if (!one.turned && !one.completes) continue;
        RealPath folder;
        folder_of_step(p.board, one.slot, one.stamp, folder);
        if (is_open_here(folder)) {
            ++open;
            continue;
        }
        if (one.completes) {
            Board::Lock lock(p.board);
            SlotRecord& slot = p.board.slot(one.slot);
            if (slot.stamp == one.stamp) slot.set_complete = 1;
        }
        forget_writer(p.board, one.slot, one.stamp, p.board.self());
        touched.push_back(one.outport);
        owns.erase(owns.begin() + static_cast<long>(k));
    }
    open_ones = open;
    return touched;
}

void settle_and_publish(const Process& p) {
    std::vector<int> touched;
    {
        std::lock_guard<std::mutex> guard(mutex);
        forget_parents(p);
        touched = settle(p);
    }
    for (int port : touched) publish_complete(p, port);
}

// The process turns to this step of the port.
void turn(const Process& p, int outport, int slot) {
    bool any = false;
    {
        std::lock_guard<std::mutex> guard(mutex);
        forget_parents(p);
        for (Own& one : owns) {
            if (one.outport != outport || one.slot == slot || one.turned) continue;
            one.turned = any = true;
        }
    }
    if (any) settle_and_publish(p);
}

// Makes a step of the folder. Returns its slot, or -1 with *error; EEXIST: another process has.
int begin(const Match& match, bool makes_folder, int* error) {
    Process& p = process();
    const Board& board = p.board;
    const int source = board.port(match.outport).first_source + p.context.rank;
    board.port(match.outport).touched = 1;
    turn(p, match.outport, -1);
    StepFile* const file = begin_step(match, source, place_of(match), Role::lead, error);
    if (!file) return -1;
    const StepToken token = file->token();
    SlotRecord& slot = board.slot(token.slot);
    const uint64_t before = slot.set_folder;
    slot.set_folder = token.stamp;
    slot.set_bytes = 0;
    if (before) remove(board, token.slot, before);
    RealPath folder;
    folder_of_step(board, token.slot, token.stamp, folder);
    char whole[kNameMax];
    const bool made = make_notes(board, token.slot, token.stamp, make_whole(match.name, whole) ? whole : match.name) && note_writer(board, token.slot, token.stamp, board.self()) &&
                      (!makes_folder || syscall(SYS_mkdirat, AT_FDCWD, folder, 0777) == 0);
    if (!made) {
        *error = errno;
        discard_step(file);
        return -1;
    }
    close_step(file);
    publish_complete(p, match.outport);
    return token.slot;
}

// Was a step of the name published, and is its memory that of another one by now?
bool is_gone(const Process& p, const Match& match) {
    const PortRecord& port = p.board.port(match.outport);
    for (int s = port.first_source; s < port.first_source + port.sources; ++s)
        if (queue::exists(p.board, p.board.source(s), match.name)) return true;
    return false;
}

Leads lead_published(const Process& p, const Match& match, const char* rest, Use use, Place* place, int* error) {
    if (*rest && (use == Use::change || use == Use::make)) {
        fail_for_change(p, match, rest);
        *error = EROFS;
        return Leads::nowhere;
    }
    StepFile* const file = open_step(match, Intent::look, 1, error);
    if (file) {
        place->held = file;
        place->slot = file->token().slot;
        place->stamp = file->token().stamp;
        folder_of_step(p.board, place->slot, place->stamp, place->real);
        return Leads::inside;
    }
    // What is missing in a folder that is gone would be taken for what was never written.
    if (*rest) {
        Board::Lock lock(p.board);
        fail_run(p,
                 "task '%s' rank %d: goes back to its own '%s/%s', which all its readers have had and whose memory is that of a later folder; a longer "
                 "'queue' of the port '%s/' keeps more of them",
                 p.task_name(), p.told_rank(), match.name, rest, p.board.port(match.outport).pattern);
    }
    return Leads::nowhere;
}

bool is_folder_on_disk(const char* name) { return !identify(name).none(); }

// The process ends by itself: it is done with all. (What nobody has turned from is published at the end of its task, as programs of a script
// make a folder and fill it.)
__attribute__((destructor)) void end() try {
    if (owns.empty()) return;
    const Process& p = process();
    if (!p.board.joined() || owner != p.board.joined()) return;
    fflush(nullptr);
    std::vector<int> touched;
    {
        std::lock_guard<std::mutex> guard(mutex);
        for (const Own& one : owns) {
            forget_writer(p.board, one.slot, one.stamp, owner);
            touched.push_back(one.outport);
        }
        owns.clear();
    }
    for (int port : touched) publish_complete(p, port);
} WILKINS_OR()

}  // namespace

void fail_for_change(const Process& p, const Match& match, const char* rest) {
    Board::Lock lock(p.board);
    if (match.outport < 0) {
        fail_run(p, "task '%s' rank %d: changes '%s/%s', which another task has written for all its readers; let it write to a folder of its own, "
                    "of another name",
                 p.task_name(), p.told_rank(), match.name, rest);
        return;
    }
    fail_run(p,
             "task '%s' rank %d: changes '%s/%s', though the folder is published already and may have been read; say with 'publish' on its out-port "
             "'%s/' when it is complete: '{file: PATTERN}', when a file in it was closed, or 'end'",
             p.task_name(), p.told_rank(), match.name, rest, p.board.port(match.outport).pattern);
}

Leads join(const Match& match, const char* rest, Place* place, int* error) {
    Process& p = process();
    bool known = false;
    {
        std::lock_guard<std::mutex> guard(mutex);
        forget_parents(p);
        for (Own& one : owns) {
            if (one.slot != place->slot || one.stamp != place->stamp) continue;
            known = true;
            one.turned = false;
        }
    }
    if (!known) {
        bool published;
        {
            Board::Lock lock(p.board);
            const SlotRecord& slot = p.board.slot(place->slot);
            published = slot.stamp != place->stamp || slot.state != SlotState::resting;
            if (!published && !note_writer(p.board, place->slot, place->stamp, p.board.self())) *error = errno;
            SourceRecord& source = p.board.source(p.board.port(match.outport).first_source + p.context.rank);
            if (!published && !*error) {
                source.set_writer = p.board.self();
                if (source.set_turn < place->stamp) source.set_turn = place->stamp;
            }
        }
        if (published) {
            fail_for_change(p, match, rest);
            *error = EROFS;
        }
        if (*error) return Leads::nowhere;
        std::lock_guard<std::mutex> guard(mutex);
        owns.push_back({match.outport, place->slot, place->stamp, place_of(match), false, false});
    }
    turn(p, match.outport, place->slot);
    const Habits& habits = p.board.port(match.outport).habits;
    place->completes = habits.publish == Publish::file && *rest && pattern_match(habits.publish_file, compared_components(habits.publish_file), rest);
    return Leads::inside;
}

namespace {

// The step of this place in which the process writes already: nobody else need be asked.
bool find_own(const Process& p, int outport, uint64_t where, Place* place) {
    std::lock_guard<std::mutex> guard(mutex);
    forget_parents(p);
    for (const Own& one : owns) {
        const SlotRecord& slot = p.board.slot(one.slot);
        if (one.outport != outport || !where || one.where != where || slot.stamp != one.stamp || slot.state != SlotState::resting) continue;
        place->slot = one.slot;
        place->stamp = one.stamp;
        return true;
    }
    return false;
}

}  // namespace

Leads lead_producer(const Match& match, const char* rest, Use use, Place* place, int* error) {
    Process& p = process();
    const uint64_t where = place_of(match);
    const bool changes = use == Use::change || use == Use::make;
    if (find_own(p, match.outport, where, place)) {
        folder_of_step(p.board, place->slot, place->stamp, place->real);
        return changes ? join(match, rest, place, error) : Leads::inside;
    }
    for (;;) {
        bool published = false;
        {
            Board::Lock lock(p.board);
            Wait wait(p, WaitFor::room, match.outport, match.name);
            while (find_begun(p, match, where, SlotState::writing) >= 0)
                if ((*error = wait.nap(lock))) return Leads::nowhere;
            place->slot = find_begun(p, match, where, SlotState::resting);
            if (place->slot >= 0) place->stamp = p.board.slot(place->slot).stamp;
            else published = queue::find_own(p.board, match.outport, match.name, where) >= 0 || is_gone(p, match);
        }
        if (place->slot >= 0) {
            folder_of_step(p.board, place->slot, place->stamp, place->real);
            return changes || use == Use::enter ? join(match, rest, place, error) : Leads::inside;
        }
        if (published) return lead_published(p, match, rest, use, place, error);
        const bool makes = use == Use::make && !*rest;
        // A folder that an earlier run has left: the program may have seen that it need not make it.
        if (!makes && !(changes && *rest && is_folder_on_disk(match.name))) return Leads::elsewhere;
        if (begin(match, !makes, error) >= 0 || *error == EEXIST) {
            *error = 0;
            continue;  // (It is found now.)
        }
        return Leads::nowhere;
    }
}

void note_completion(const Place& place) {
    const Process& p = process();
    if (raw::access(place.real) != 0) return;
    {
        std::lock_guard<std::mutex> guard(mutex);
        for (Own& one : owns)
            if (one.slot == place.slot && one.stamp == place.stamp) one.completes = true;
    }
    settle_and_publish(p);
}

void note_closed() {
    if (open_ones.load(std::memory_order_relaxed) == 0) return;
    const int saved = errno;
    settle_and_publish(process());
    errno = saved;
}

}  // namespace wilkins::sets
