// Steps that are folders or several files, for the tasks that read them, and what leads into which.
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

#include "base/held_at_forks.hpp"
#include "base/patterns.hpp"
#include "base/raw.hpp"
#include "board/step_token.hpp"
#include "names/set_folder.hpp"
#include "names/set_names.hpp"
#include "queue/queue.hpp"
#include "steps/disk.hpp"
#include "steps/step_file.hpp"
#include "store/let_go.hpp"
#include "store/own_sets.hpp"
#include "store/store.hpp"

namespace wilkins::sets {

namespace {

// A step that this process reads: it stays until the process turns to another one of the in-port, and has nothing open
// in it.
struct Read {
    int inport;
    std::string name;   // what its in-port compares
    std::string whole;  // what the program calls the folder in which the contents are, from the root on
    StepFile* file;
};

std::mutex sets_mutex;
HeldAtForks held_at_forks(sets_mutex);
std::vector<Read>& reads = *new std::vector<Read>;

const char* compared(const Process& p, const Match& match) {
    return last_components(match.name, static_cast<int>(p.board.port(match.inport).components));
}

void place_at(const StepFile* file, Place* place) {
    place->slot = file->token().slot;
    place->stamp = file->token().stamp;
    contents_of_step(process().board, place->slot, place->stamp, place->real);
}

bool find_read(const Process& p, const Match& match, Place* place) {
    std::lock_guard<std::mutex> guard(sets_mutex);
    // (Of a fork, those that its parent reads are not its own.)
    reads.erase(std::remove_if(reads.begin(), reads.end(), [](const Read& one) { return !one.file->state->mine(); }),
                reads.end());
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
    const std::string whole = whole_place(p.board.port(match.inport), match);  // asks where the process is
    {
        std::lock_guard<std::mutex> guard(sets_mutex);
        for (size_t k = reads.size(); k-- > 0;) {
            const StepToken token = reads[k].file->token();
            if (reads[k].inport != match.inport || is_open_here(p.board, token.slot, token.stamp)) continue;
            gone.push_back(reads[k].file);
            reads.erase(reads.begin() + static_cast<long>(k));
        }
        reads.push_back({match.inport, compared(p, match), whole, file});
    }
    for (StepFile* one : gone) close_step(one);
}

// Where a step of which memory knows no more lies on the disk; false: it does not.
bool find_on_disk(const Process& p, const Match& match, const char* rest, Place* place) {
    const PortRecord& inport = p.board.port(match.inport);
    if (!inport.keys.on_disk) return false;
    for (const PortRecord& out : outports_of(p.board, inport)) {
        if (!out.begun) continue;
        const std::string folder =
            is_list(out) ? out.begun_in : std::string(out.begun_in) + "/" + last_components(match.name, 1);
        const std::string file = is_list(out) ? folder + "/" + rest : folder;
        if (folder.size() >= sizeof(place->real) || raw::access(file.c_str()) != 0) continue;
        strcpy(place->real, folder.c_str());
        return true;
    }
    return false;
}

// Where memory has let go of a step that the task has read, it is read from the disk. Else the run ends: whoever looks
// for a piece of it would take that for one that was never written. Returns 0 or the errno.
int find_gone(const Process& p, const Match& match, const char* rest, bool looks, Place* place) {
    {
        Board::Lock lock(p.board);
        if (queue::let_go_of(p.board, p.board.port(match.inport), match.name) != queue::LetGo::read) return 0;
    }
    if (find_on_disk(p, match, rest, place) || (looks && is_list(p.board.port(match.inport)))) return 0;
    Board::Lock lock(p.board);
    return refuse_let_go(p, match, true);
}

// A look at something in a folder, or an open; what the task has read and memory has let go of comes from the disk.
StepFile* open_or_find(const Match& match, const char* rest, bool looks, Place* place, int* error) {
    const Process& p = process();
    const bool may_be_gone = p.board.port(match.inport).keys.on_disk || (looks && !is_list(p.board.port(match.inport)));
    if (may_be_gone && ((*error = find_gone(p, match, rest, looks, place)) || place->real[0])) return nullptr;
    StepFile* const file = looks ? open_look(match, error) : open_step(match, Intent::read, 1, error);
    if (file || *error != ENOENT || !may_be_gone) return file;
    const int gone = find_gone(p, match, rest, looks, place);  // meanwhile
    *error = gone ? gone : place->real[0] ? 0 : ENOENT;
    return nullptr;
}

Leads lead_reader(const Match& match, const char* rest, Use use, Place* place, int* error) {
    Process& p = process();
    const bool reads = use == Use::look || use == Use::read || use == Use::enter;
    if (!reads && !*rest) return Leads::elsewhere;
    if (!find_read(p, match, place)) {
        place->real[0] = 0;
        const bool looks = use == Use::look;
        StepFile* const file =
            looks && !*rest ? open_look(match, error) : open_or_find(match, rest, looks, place, error);
        if (!file && !place->real[0]) return Leads::nowhere;
        if (file) {
            place_at(file, place);
            if (looks) place->held = file;
            else keep_read(p, match, file);
        }
    }
    if (reads) return Leads::inside;
    fail_for_change(p, match, rest);
    *error = EROFS;
    return Leads::nowhere;
}

// True if the process's working folder is in such a folder.
enum class Working { unknown, elsewhere, inside };
std::atomic<Working> working{Working::unknown};

bool works_inside(const Process& p, RealPath& folder) {
    if (working.load(std::memory_order_relaxed) == Working::elsewhere) return false;
    int slot;
    uint64_t stamp;
    const char* rest;
    const bool inside =
        syscall(SYS_getcwd, folder, sizeof(RealPath)) > 0 && step_of_folder(p.board, folder, &slot, &stamp, &rest);
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

Purpose purpose_of(Use use, bool begins) {
    if (use == Use::look) return Purpose::look;
    if (begins) return Purpose::create;
    return use == Use::read || use == Use::enter ? Purpose::read : Purpose::update;
}

enum class Like { nothing, folder, file };

// True if this component of a path could be the name of a folder that is a step, or the last one that of a file of
// several.
Like like_port(const Process& p, const char* component, bool is_last) {
    for (const PortRecord& port : ports_of(p)) {
        if (!port.keys.is_set) continue;
        if (is_list(port) ? is_last && is_listed(port, component)
                          : glob_match(last_components(port.pattern, 1), component))
            return is_list(port) ? Like::file : Like::folder;
    }
    return Like::nothing;
}

bool append(const char* rest, Place* place, int* error) {
    const size_t length = strlen(place->real);
    if (length + 1 + strlen(rest) >= sizeof(place->real)) {
        *error = ENAMETOOLONG;
        return false;
    }
    place->real[length] = '/';
    strcpy(place->real + length + 1, rest);
    return true;
}

// `name`: of something that may be a step, and `rest` what is named in it.
Leads lead_named(const char* name, Like like, const char* rest, Use use, Place* place, int* error) {
    const Process& p = process();
    const bool is_file = like == Like::file;
    if (is_file ? use == Use::make || use == Use::enter || disk::is_directory(name) : is_file_on_disk(name))
        return Leads::elsewhere;
    const bool begins = is_file ? use == Use::create : use == Use::make && !*rest;
    Match match;
    if (!match_set(name, &match, purpose_of(use, begins))) return Leads::elsewhere;
    const int port = match.outport >= 0 ? match.outport : match.inport;
    if (is_list(p.board.port(port)) != is_file) return Leads::elsewhere;
    const Leads leads = match.outport >= 0 ? lead_producer(match, rest, use, place, error)
                                           : lead_reader(match, rest, use, place, error);
    if (leads != Leads::inside || !*rest) return leads;
    return append(rest, place, error) ? leads : Leads::nowhere;
}

// A path below the run's own folder, as those are that begin at an open folder: the process may have it open since it
// was complete.
Leads lead_real(const Process& p, const char* path, Use use, Place* place, int* error) {
    const char* rest;
    if (use == Use::look || use == Use::read || use == Use::enter ||
        !step_of_folder(p.board, path, &place->slot, &place->stamp, &rest))
        return Leads::elsewhere;
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
        const Like like = end > at ? like_port(p, at, !after) : Like::nothing;
        if (like != Like::nothing) {
            const char* const rest = like == Like::file ? at : after ? clean + (end - prefix) + 1 : "";
            const Leads leads = lead_named(prefix, like, rest, use, place, error);
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
    if (place.joined) leave_own(place);
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
        std::lock_guard<std::mutex> guard(sets_mutex);
        for (const Read& one : reads)
            if (one.file->token().slot == slot && one.file->token().stamp == stamp) name = one.whole;
    }
    RealPath program_name;
    if (name.empty() && read_name(p.board, slot, stamp, program_name)) name = program_name;
    if (*rest) name += std::string("/") + rest;
    if (name.empty() || name[0] != '/' || name.size() >= PATH_MAX) return false;
    strcpy(out, name.c_str());
    return true;
}

void note_moved() { working = Working::unknown; }

}  // namespace wilkins::sets
