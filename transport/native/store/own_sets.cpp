#include "store/own_sets.hpp"

#include <stdlib.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "base/patterns.hpp"
#include "base/raw.hpp"
#include "board/border.hpp"
#include "board/of_process.hpp"
#include "board/step_token.hpp"
#include "events.hpp"
#include "names/places.hpp"
#include "names/set_folder.hpp"
#include "names/set_names.hpp"
#include "queue/parts.hpp"
#include "queue/queue.hpp"
#include "queue/closed.hpp"
#include "steps/creating.hpp"
#include "steps/disk.hpp"
#include "store/set_publication.hpp"
#include "store/store.hpp"
#include "waiting/wait.hpp"

namespace wilkins::sets {

namespace {

// A step in which this process writes.
struct Own {
    int outport;
    int slot;
    uint64_t stamp;
    uint64_t where;  // hash of its absolute name
    int calls;       // that are about to open something in it, or to give it a name
    bool turned;     // the process has turned to another one since; it is done when it has nothing open in it
    bool completes;  // a file that completes it was there; it is complete when the process has nothing open in it
};

// A fork has written in none of them.
struct Owns {
    std::mutex mutex;  // the board's may be taken under it
    std::vector<Own> all;
    std::atomic<uint32_t> open_ones{0};  // that the process is done with but for what is open
};
OfProcess<Owns> of_process;

// The port's unpublished step of the name.
int find_begun(const Process& p, const Match& match, uint64_t place, SlotState state) {
    int found = -1;
    for (const SlotRecord& slot : slots_of(p.board, p.board.port(match.outport))) {
        if (slot.state != state || slot.removed ||
            (place ? slot.place_hash != place : strcmp(slot.name, match.name) != 0))
            continue;
        if (state != SlotState::writing || !p.board.is_over(slot.writer_process)) found = p.board.index(slot);
    }
    return found;
}

// True if a step of the port is complete when there is a file of each of its names, and nobody writes any.
bool closes(const Board& board, int outport) { return board.port(outport).keys.publish == Publish::close; }

// The process has nothing of the step open any more. (With the mutex held.)
void finish(const Process& p, const Own& one) {
    bool complete = one.completes;
    if (closes(p.board, one.outport)) {
        RealPath folder;
        contents_of_step(p.board, one.slot, one.stamp, folder);
        complete = has_all(p.board.port(one.outport), p.board.slot(one.slot).name, folder);
    }
    if (complete) {
        Board::Lock lock(p.board);
        SlotRecord& slot = p.board.slot(one.slot);
        if (slot.stamp == one.stamp) slot.set_complete = 1;
    }
    forget_writer(p.board, one.slot, one.stamp, p.board.self());
}

// Those that were only left open, and are no more. (With the mutex held.) Returns ports whose steps may be complete
// now.
std::vector<int> settle(const Process& p, Owns& owns) {
    std::vector<int> touched;
    uint32_t open = 0;
    for (size_t k = owns.all.size(); k-- > 0;) {
        const Own& one = owns.all[k];
        if (!one.turned && !one.completes && !closes(p.board, one.outport)) continue;
        if (one.calls > 0 || is_open_here(p.board, one.slot, one.stamp)) {
            ++open;
            continue;
        }
        finish(p, one);
        touched.push_back(one.outport);
        owns.all.erase(owns.all.begin() + static_cast<long>(k));
    }
    owns.open_ones = open;
    return touched;
}

void settle_and_publish(const Process& p, Owns& owns) {
    std::vector<int> touched;
    {
        std::lock_guard<std::mutex> guard(owns.mutex);
        touched = settle(p, owns);
    }
    for (int port : touched) publish_complete(p, port);
}

// The process turns to this step of the port.
void turn(const Process& p, int outport, int slot) {
    Owns& owns = of_process.get();
    bool any = false;
    {
        std::lock_guard<std::mutex> guard(owns.mutex);
        for (Own& one : owns.all) {
            if (one.outport != outport || one.slot == slot || one.turned) continue;
            one.turned = any = true;
        }
    }
    if (any) settle_and_publish(p, owns);
}

// Where the disk has what a program names, symbolic links followed; what is not there yet lies in a folder that is.
bool find_real(const std::string& name, RealPath& out) {
    if (realpath(name.c_str(), out)) return true;
    const size_t slash = name.rfind('/');
    if (slash == std::string::npos || !realpath(slash ? name.substr(0, slash).c_str() : "/", out)) return false;
    const std::string last = name.substr(slash + 1);
    const size_t length = strlen(out);
    if (length + last.size() + 2 > sizeof(out)) return false;
    snprintf(out + length, sizeof(out) - length, "%s%s", length > 1 ? "/" : "", last.c_str());
    return true;
}

// The contents of a new step: those on the disk, or a folder, which the program's own call may be about to make.
bool begin_contents(const Board& board, const PortRecord& port, const StepToken& token, const std::string& place,
                    bool makes_folder) {
    RealPath real;
    if (port.keys.on_disk) return find_real(place, real) && link_contents(board, token.slot, token.stamp, real);
    return (!makes_folder && !is_list(port)) || make_contents(board, token.slot, token.stamp);
}

// Begins a step. Returns its slot, or -1 with *error; EEXIST: another process has.
int begin(const Match& match, bool makes_folder, int* error) {
    Process& p = process();
    const Board& board = p.board;
    const PortRecord& port = board.port(match.outport);
    board.port(match.outport).touched = 1;
    turn(p, match.outport, -1);
    StepFile* const file = begin_step(match, port.first_source + p.context.rank, place_of(match), Role::lead, error);
    if (!file) return -1;
    const StepToken token = file->token();
    SlotRecord& slot = board.slot(token.slot);
    const uint64_t before = slot.set_folder;
    slot.set_folder = token.stamp;
    slot.set_bytes = 0;
    if (before) remove(board, token.slot, before);
    const std::string place = whole_place(port, match);
    const bool made = make_notes(board, token.slot, token.stamp, place.c_str()) &&
                      note_writer(board, token.slot, token.stamp, board.self()) &&
                      begin_contents(board, port, token, place, makes_folder);
    if (!made) {
        *error = errno;
        discard_step(file);
        return -1;
    }
    close_step(file);
    publish_complete(p, match.outport);
    return token.slot;
}

// True if a step of the name was published, and its memory is that of another one by now.
bool is_gone(const Process& p, const Match& match) {
    const PortRecord& port = p.board.port(match.outport);
    for (const SourceRecord& source : sources_of(p.board, port))
        if (queue::exists(p.board, source, match.name)) return true;
    return false;
}

bool is_change(Use use) { return use == Use::change || use == Use::make || use == Use::create || use == Use::remove; }

// How a message calls something in a step.
std::string name_in_step(const PortRecord& port, const Match& match, const char* rest) {
    const std::string step = match.name;
    if (!is_list(port)) return step + "/" + rest;
    return step.substr(0, step.size() - strlen(last_components(match.name, 1))) + rest;
}

Leads lead_published(const Process& p, const Match& match, const char* rest, Use use, Place* place, int* error) {
    const PortRecord& port = p.board.port(match.outport);
    if (*rest && is_change(use)) {
        fail_for_change(p, match, rest);
        *error = EROFS;
        return Leads::nowhere;
    }
    StepFile* const file = open_step(match, Intent::look, 1, error);
    if (file) {
        place->held = file;
        place->slot = file->token().slot;
        place->stamp = file->token().stamp;
        contents_of_step(p.board, place->slot, place->stamp, place->real);
        return Leads::inside;
    }
    if (port.keys.on_disk) return Leads::elsewhere;
    // What is missing in a folder that is gone would be taken for what was never written.
    if (*rest && !(is_list(port) && use == Use::look)) {
        Board::Lock lock(p.board);
        fail_run(p, event::back_to_own(name_in_step(port, match, rest).c_str(), port.pattern));
    }
    return Leads::nowhere;
}

bool is_folder_on_disk(const char* name) { return !identify(name).none(); }

// The process ends by itself: it is done with all. (What nobody has turned from is published at the end of its task, as
// programs of a script make a folder and fill it.)
__attribute__((destructor)) void end() try {
    Owns* const owns = of_process.known();
    if (!owns) return;
    const Process& p = process();
    fflush(nullptr);
    std::vector<int> touched;
    {
        std::lock_guard<std::mutex> guard(owns->mutex);
        for (const Own& one : owns->all) {
            finish(p, one);
            touched.push_back(one.outport);
        }
        owns->all.clear();
    }
    for (int port : touched) publish_complete(p, port);
}
WILKINS_OR()

}  // namespace

std::string whole_place(const PortRecord& port, const Match& match) {
    char whole[kNameMax];
    std::string name = make_whole(match.name, whole) ? whole : match.name;
    const size_t slash = name.rfind('/');
    if (!is_list(port) || slash == std::string::npos) return name;
    return slash ? name.substr(0, slash) : "/";
}

void fail_for_change(const Process& p, const Match& match, const char* rest) {
    const PortRecord& port = p.board.port(match.outport >= 0 ? match.outport : match.inport);
    const std::string what = name_in_step(port, match, rest);
    Board::Lock lock(p.board);
    if (match.outport < 0) {
        fail_run(p, event::changes_others(what.c_str()));
        return;
    }
    fail_run(p,
             event::changes_published(what.c_str(), is_list(port), port.pattern, port.keys.publish == Publish::close));
}

namespace {

// The process begins a call that writes in the step: false, it has not written there yet.
bool goes_on(const Place& place) {
    Owns& owns = of_process.get();
    std::lock_guard<std::mutex> guard(owns.mutex);
    for (Own& one : owns.all) {
        if (one.slot != place.slot || one.stamp != place.stamp) continue;
        one.turned = false;
        ++one.calls;
        return true;
    }
    return false;
}

// Notes that the process writes there. Returns 0 or an errno; EROFS: the step is published.
int note_joined(const Process& p, int outport, const Place& place) {
    Board::Lock lock(p.board);
    const SlotRecord& slot = p.board.slot(place.slot);
    if (slot.stamp != place.stamp || slot.state != SlotState::closed) return EROFS;
    if (!note_writer(p.board, place.slot, place.stamp, p.board.self())) return errno;
    SourceRecord& source = p.board.source(p.board.port(outport), p.context.rank);
    source.set_writer = p.board.self();
    if (source.set_turn < place.stamp) source.set_turn = place.stamp;
    return 0;
}

}  // namespace

Leads join(const Match& match, const char* rest, Place* place, int* error) {
    Process& p = process();
    if (!goes_on(*place)) {
        *error = note_joined(p, match.outport, *place);
        if (*error == EROFS) fail_for_change(p, match, rest);
        if (*error) return Leads::nowhere;
        if (!goes_on(*place)) {  // (Another thread may have come first.)
            Owns& owns = of_process.get();
            std::lock_guard<std::mutex> guard(owns.mutex);
            owns.all.push_back({match.outport, place->slot, place->stamp, place_of(match), 1, false, false});
        }
    }
    place->joined = true;
    turn(p, match.outport, place->slot);
    const AccessKeys& keys = p.board.port(match.outport).keys;
    place->completes = keys.publish == Publish::file && *rest &&
                       pattern_match(keys.publish_file, compared_components(keys.publish_file), rest);
    return Leads::inside;
}

namespace {

// The step of this place in which the process writes already: nobody else need be asked.
bool find_own(const Process& p, int outport, uint64_t where, Place* place) {
    Owns& owns = of_process.get();
    std::lock_guard<std::mutex> guard(owns.mutex);
    for (const Own& one : owns.all) {
        const SlotRecord& slot = p.board.slot(one.slot);
        if (one.outport != outport || !where || one.where != where || slot.stamp != one.stamp ||
            slot.state != SlotState::closed)
            continue;
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
    const PortRecord& port = p.board.port(match.outport);
    const bool changes = is_change(use);
    if (find_own(p, match.outport, where, place)) {
        contents_of_step(p.board, place->slot, place->stamp, place->real);
        return changes ? join(match, rest, place, error) : Leads::inside;
    }
    for (;;) {
        bool published = false;
        {
            Board::Lock lock(p.board);
            Wait wait(p, WaitFor::room, match.outport, match.name);
            while (find_begun(p, match, where, SlotState::writing) >= 0)
                if ((*error = wait.nap(lock))) return Leads::nowhere;
            place->slot = find_begun(p, match, where, SlotState::closed);
            if (place->slot >= 0) place->stamp = p.board.slot(place->slot).stamp;
            else published = queue::find_own(p.board, match.outport, match.name, where) >= 0 || is_gone(p, match);
        }
        if (place->slot >= 0) {
            contents_of_step(p.board, place->slot, place->stamp, place->real);
            return changes || use == Use::enter ? join(match, rest, place, error) : Leads::inside;
        }
        if (published) return lead_published(p, match, rest, use, place, error);
        const bool makes = is_list(port) ? use == Use::create : use == Use::make && !*rest;
        // A folder that an earlier run has left: the program may have seen that it need not make it.
        const bool goes_on = !is_list(port) && changes && use != Use::remove && *rest && is_folder_on_disk(match.name);
        if (!makes && !goes_on) {
            // (For the name of a file, the disk is not asked.)
            if (!is_list(port) || port.keys.on_disk) return Leads::elsewhere;
            *error = ENOENT;
            return Leads::nowhere;
        }
        if (begin(match, !makes, error) >= 0 || *error == EEXIST) {
            *error = 0;
            continue;  // (It is found now.)
        }
        return Leads::nowhere;
    }
}

void leave_own(const Place& place) {
    const Process& p = process();
    const bool complete = place.completes && raw::access(place.real) == 0;
    Owns& owns = of_process.get();
    bool closing = false;
    {
        std::lock_guard<std::mutex> guard(owns.mutex);
        for (Own& one : owns.all) {
            if (one.slot != place.slot || one.stamp != place.stamp) continue;
            --one.calls;
            one.completes = one.completes || complete;
            closing = one.turned || one.completes || closes(p.board, one.outport);
        }
        if (closing) ++owns.open_ones;
    }
    if (closing) settle_and_publish(p, owns);
}

void note_closed() {
    Owns* const owns = of_process.known();
    if (!owns || owns->open_ones.load(std::memory_order_relaxed) == 0) return;
    const int saved = errno;
    settle_and_publish(process(), *owns);
    errno = saved;
}

}  // namespace wilkins::sets
