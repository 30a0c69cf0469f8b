// Steps that are folders, for the tasks that read them, and what leads into which.
#include "store/sets.hpp"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "base/patterns.hpp"
#include "base/raw.hpp"
#include "queue/queue.hpp"
#include "store/let_go.hpp"
#include "store/own_sets.hpp"
#include "store/parts.hpp"
#include "store/set_folder.hpp"

namespace wilkins::sets {

namespace {

// A folder that this process reads: it stays until the process turns to another one of the in-port, and has nothing open in it.
struct Read {
    int inport;
    std::string name;   // what its in-port compares
    std::string whole;  // from the root on
    StepFile* file;
};

std::mutex mutex;
std::vector<Read>& reads = *new std::vector<Read>;

enum class Known { unknown, none, some };
std::atomic<Known> ports{Known::unknown};

const char* compared(const Process& p, const Match& match) {
    return last_components(match.name, static_cast<int>(p.board.port(match.inport).components));
}

void place_at(const StepFile* file, Place* place) {
    place->slot = file->token().slot;
    place->stamp = file->token().stamp;
    folder_of_step(process().board, place->slot, place->stamp, place->real);
}

bool find_read(const Process& p, const Match& match, Place* place) {
    std::lock_guard<std::mutex> guard(mutex);
    // (Of a fork, those that its parent reads are not its own.)
    reads.erase(std::remove_if(reads.begin(), reads.end(), [](const Read& one) { return !one.file->state->mine(); }), reads.end());
    for (const Read& one : reads)
        if (one.inport == match.inport && one.name == compared(p, match)) {
            place_at(one.file, place);
            return true;
        }
    return false;
}

// The process reads this one from now on. Others of the in-port, in which it has nothing open, it lets go.
void keep_read(const Process& p, const Match& match, StepFile* file) {
    std::vector<StepFile*> gone;
    {
        std::lock_guard<std::mutex> guard(mutex);
        for (size_t k = reads.size(); k-- > 0;) {
            RealPath folder;
            const StepToken token = reads[k].file->token();
            folder_of_step(p.board, token.slot, token.stamp, folder);
            if (reads[k].inport != match.inport || is_open_here(folder)) continue;
            gone.push_back(reads[k].file);
            reads.erase(reads.begin() + static_cast<long>(k));
        }
        char whole[kNameMax];
        reads.push_back({match.inport, compared(p, match), make_whole(match.name, whole) ? whole : match.name, file});
    }
    for (StepFile* one : gone) close_step(one);
}

// The run ends if the task has read the folder and memory has let go of it: whoever looks for a piece of it would take that for one that was never
// written. Returns 0 or the errno.
int refuse_gone(const Process& p, const Match& match) {
    Board::Lock lock(p.board);
    const bool was_read = queue::let_go_of(p.board, p.board.port(match.inport), match.name) == queue::LetGo::read;
    return was_read ? refuse_let_go(p, match, "looks into") : 0;
}

StepFile* look_into(const Process& p, const Match& match, int* error) {
    if ((*error = refuse_gone(p, match))) return nullptr;
    StepFile* const file = open_look(match, error);
    if (file || *error != ENOENT) return file;
    const int gone = refuse_gone(p, match);  // meanwhile
    *error = gone ? gone : ENOENT;
    return nullptr;
}

Leads lead_reader(const Match& match, const char* rest, Use use, Place* place, int* error) {
    Process& p = process();
    if (use == Use::change && !*rest) return Leads::elsewhere;
    if (!find_read(p, match, place)) {
        StepFile* const file = use != Use::look ? open_step(match, Intent::read, 1, error)
                               : *rest          ? look_into(p, match, error)
                                                : open_look(match, error);
        if (!file) return Leads::nowhere;
        place_at(file, place);
        if (use == Use::look) place->held = file;
        else keep_read(p, match, file);
    }
    if (use == Use::look || use == Use::read || use == Use::enter || !*rest) return Leads::inside;
    Board::Lock lock(p.board);
    fail_run(p,
             "task '%s' rank %d: changes '%s/%s', which another task has written for all its readers; let it write to a folder of its own, of another "
             "name",
             p.task_name(), p.told_rank(), match.name, rest);
    *error = EROFS;
    return Leads::nowhere;
}

// Is the process's working folder in such a folder?
enum class Working { unknown, elsewhere, inside };
std::atomic<Working> working{Working::unknown};

bool works_inside(const Process& p, RealPath& folder) {
    if (working.load(std::memory_order_relaxed) == Working::elsewhere) return false;
    int slot;
    uint64_t stamp;
    const char* rest;
    const bool inside = syscall(SYS_getcwd, folder, sizeof(RealPath)) > 0 && step_of_folder(p.board, folder, &slot, &stamp, &rest);
    working = inside ? Working::inside : Working::elsewhere;
    return inside;
}

bool is_file_on_disk(const char* name) {
    struct stat st;
    const int saved = errno;
    const bool there = raw::stat(name, &st) == 0 && !S_ISDIR(st.st_mode);
    errno = saved;
    return there;
}

Purpose purpose_of(Use use, bool is_root) {
    if (use == Use::look) return Purpose::look;
    if (use == Use::make && is_root) return Purpose::create;
    return use == Use::read || use == Use::enter ? Purpose::read : Purpose::update;
}

// Could this be the last component of a folder's name that is a port's?
bool may_be_port(const Process& p, const char* component) {
    for (int i = p.first_port; i < p.last_port; ++i) {
        const PortRecord& port = p.board.port(i);
        if (port.task == p.context.task && port.habits.is_folder && glob_match(last_components(port.pattern, 1), component)) return true;
    }
    return false;
}

// A path below the run's own folder, as those are that begin at an open folder: the process may have it open since it was complete.
Leads lead_real(const Process& p, const char* path, Use use, Place* place, int* error) {
    const char* rest;
    if (use == Use::look || use == Use::read || !step_of_folder(p.board, path, &place->slot, &place->stamp, &rest)) return Leads::elsewhere;
    strcpy(place->real, path);
    Match match;
    bool published = false;
    {
        Board::Lock lock(p.board);
        const SlotRecord& slot = p.board.slot(place->slot);
        published = slot.stamp != place->stamp || slot.state == SlotState::published;
        strcpy(match.name, slot.name);
        const int port = p.board.source(slot.source).port;
        if (p.board.port(port).task == p.context.task) match.outport = port;
    }
    if (match.outport >= 0 && !published) return join(match, rest, place, error);
    fail_for_change(p, match, rest);
    *error = EROFS;
    return Leads::nowhere;
}

}  // namespace

bool may_be_any() { return ports.load(std::memory_order_relaxed) != Known::none; }

bool any() {
    Known known = ports.load(std::memory_order_relaxed);
    if (known == Known::unknown) {
        const Process& p = process();
        if (!p.context.active) return false;
        known = Known::none;
        for (int i = p.first_port; i < p.last_port; ++i)
            if (p.board.port(i).task == p.context.task && p.board.port(i).habits.is_folder) known = Known::some;
        ports = known;
    }
    return known == Known::some;
}

Leads lead(const char* path, Use use, Place* place, int* error) {
    const Process& p = process();
    char clean[kNameMax], prefix[kNameMax];
    if (!path || !path[0] || !normalise(path, clean, sizeof(clean))) return Leads::elsewhere;
    RealPath here;
    if (clean[0] != '/' && works_inside(p, here)) return lead_from(here, path, use, place, error);
    const size_t own = strlen(p.board.folder());
    if (clean[0] == '/' && strncmp(clean, p.board.folder(), own) == 0) return lead_real(p, clean, use, place, error);
    strcpy(prefix, clean);
    for (char* at = prefix; *at;) {
        char* const end = strchr(at, '/') ? strchr(at, '/') : at + strlen(at);
        const char after = *end;
        *end = 0;
        if (end > at && may_be_port(p, at) && !is_file_on_disk(prefix)) {
            const char* const rest = after ? clean + (end - prefix) + 1 : "";
            Match match;
            Leads leads = Leads::elsewhere;
            if (match_folder(prefix, &match, purpose_of(use, !*rest))) {
                if (match.outport >= 0) leads = lead_producer(match, rest, use, place, error);
                if (leads == Leads::elsewhere && match.inport >= 0 && match.outport < 0) leads = lead_reader(match, rest, use, place, error);
            }
            if (leads == Leads::inside && *rest) {
                const size_t length = strlen(place->real);
                if (length + 1 + strlen(rest) >= sizeof(place->real)) {
                    *error = ENAMETOOLONG;
                    return Leads::nowhere;
                }
                place->real[length] = '/';
                strcpy(place->real + length + 1, rest);
            }
            if (leads != Leads::elsewhere) return leads;
        }
        *end = after;
        if (!after) break;
        at = end + 1;
    }
    return Leads::elsewhere;
}

Leads lead_from(const char* folder, const char* path, Use use, Place* place, int* error) {
    const Process& p = process();
    int slot;
    uint64_t stamp;
    const char* rest;
    const std::string whole = std::string(folder) + "/" + path;
    RealPath name;
    if (!step_of_folder(p.board, folder, &slot, &stamp, &rest)) return lead(whole.c_str(), use, place, error);
    char clean[kNameMax];
    if (!normalise(whole.c_str(), clean, sizeof(clean))) return Leads::elsewhere;
    if (step_of_folder(p.board, clean, &slot, &stamp, &rest)) return lead_real(p, clean, use, place, error);
    // It leads out again: to where that is for the program.
    if (!name_of_real(folder, name) || strlen(name) + strlen(path) + 2 > sizeof(name)) return Leads::elsewhere;
    strcat(name, "/");
    strcat(name, path);
    if (!normalise(name, clean, sizeof(clean))) return Leads::elsewhere;
    const Leads leads = lead(clean, use, place, error);
    if (leads != Leads::elsewhere) return leads;
    strcpy(place->real, clean);
    return Leads::inside;
}

void leave(const Place& place) {
    const int saved = errno;
    if (place.completes) note_completion(place);
    if (place.held) close_step(place.held);
    errno = saved;
}

bool name_of_real(const char* real, char* out) {
    const Process& p = process();
    int slot;
    uint64_t stamp;
    const char* rest;
    if (!step_of_folder(p.board, real, &slot, &stamp, &rest)) return false;
    std::string name;
    {
        std::lock_guard<std::mutex> guard(mutex);
        for (const Read& one : reads)
            if (one.file->token().slot == slot && one.file->token().stamp == stamp) name = one.whole;
    }
    RealPath told;
    if (name.empty() && read_name(p.board, slot, stamp, told)) name = told;
    if (*rest) name += std::string("/") + rest;
    if (name.empty() || name[0] != '/' || name.size() >= PATH_MAX) return false;
    strcpy(out, name.c_str());
    return true;
}

void note_moved() { working = Working::unknown; }

}  // namespace wilkins::sets
