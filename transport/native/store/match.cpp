// Which names are ports'. An out-port's are its task's in any folder, but for files that lie in another one than the task has put any
// in, or starts in. An in-port's are those in a folder where its producers put their files, or in which its task starts; but for files
// of that name that the task has made itself.
#include <sys/stat.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/patterns.hpp"
#include "base/raw.hpp"
#include "board/past_names.hpp"
#include "queue/parts.hpp"
#include "queue/queue.hpp"
#include "queue/stand_in.hpp"
#include "store/far_file.hpp"
#include "store/first_opens.hpp"
#include "store/led_step.hpp"
#include "store/parts.hpp"
#include "store/set_names.hpp"
#include "store/sets.hpp"
#include "store/stage.hpp"
#include "store/unmatched_names.hpp"
#include "waiting/wait.hpp"

namespace wilkins {

namespace {

// A name that is too long for a step would go to the disk unseen; if it is a port's, that ends the run.
void explain_long_name(const Process& p, const char* name) {
    for (const PortRecord& port : ports_of(p)) {
        if (!is_called(port, name)) continue;
        Board::Lock lock(p.board);
        fail_run(p, "task '%s' rank %d: a file of port '%s' has a name of %zu bytes, more than the %zu that a step can carry; open it "
                    "by a shorter path, relative to the task's folder",
                 p.task_name(), p.told_rank(), port.pattern, strlen(name), kNameMax - 1);
        return;
    }
}

// Is it a file of the run's own, such as one in a folder that is a step?
bool is_of_run(const Process& p, const char* name) {
    const size_t length = name[0] == '/' ? strlen(p.board.folder()) : 0;
    return length > 0 && strncmp(name, p.board.folder(), length) == 0 && (name[length] == '/' || !name[length]);
}

bool same(const Folder& one, const Folder& other) { return !one.none() && one == other; }

using FolderName = char[kNameMax];

// The folder above the name's last n components, as the name says it.
void folder_above(const char* name, int n, FolderName& out) {
    auto length = static_cast<size_t>(last_components(name, n) - name);
    while (length > 1 && name[length - 1] == '/') --length;
    memcpy(out, name, length);
    out[length] = 0;
    if (length == 0) strcpy(out, ".");
}

// A name from the root on, without symbolic links in its folder, if that is there: names that are compared as a whole are spelled so.
bool resolve_folder(char (&name)[kNameMax]) {
    FolderName folder;
    char real[PATH_MAX];
    folder_above(name, 1, folder);
    const int saved = errno;
    const bool there = realpath(folder, real);
    errno = saved;
    if (!there) return true;
    const char* const file = last_components(name, 1);
    const size_t length = strcmp(real, "/") == 0 ? 0 : strlen(real);
    if (length + 1 + strlen(file) >= kNameMax) return false;
    char spelled[kNameMax];
    memcpy(spelled, real, length);
    spelled[length] = '/';
    strcpy(spelled + length + 1, file);
    strcpy(name, spelled);
    return true;
}

// Does the pattern match the name once that is said from the root on, or once its folder is called as the pattern calls it? Then
// `name` becomes what it matches. For names that it does not match as they are.
bool matches_elsewhere(const OwnPattern& wanted, char (&name)[kNameMax]) {
    const char* const pattern = wanted.text;
    const bool absolute = pattern[0] == '/';
    const bool deep = wanted.components == kAllComponents;
    if (!glob_match(last_components(pattern, 1), last_components(name, 1))) return false;
    const bool short_of = name[0] != '/' && (count_components(name) < wanted.components || strncmp(name, "../", 3) == 0);
    char whole[kNameMax];
    if ((!absolute && !short_of && !deep) || !make_whole(name, whole) || (deep && !resolve_folder(whole))) return false;
    if (pattern_match(pattern, wanted.components, whole)) {
        strcpy(name, whole);
        return true;
    }
    if (!absolute || deep) return false;
    const char* const rest = pattern + literal_folder(pattern);
    const char* const end = last_components(whole, count_components(rest));
    if (!glob_match(rest, end)) return false;
    const auto head = static_cast<size_t>(rest - pattern);
    FolderName mine, wants;
    folder_above(whole, count_components(rest), mine);
    memcpy(wants, pattern, head);
    wants[head > 1 ? head - 1 : head] = 0;
    if (!same(identify(mine), identify(wants)) || head + strlen(end) >= kNameMax) return false;
    char spelled[kNameMax];
    memcpy(spelled, pattern, head);
    strcpy(spelled + head, end);
    strcpy(name, spelled);
    return true;
}

bool is_match(const PortRecord& port, char (&name)[kNameMax]) {
    const OwnPattern wanted = own_pattern(port);
    return (wanted.components != kAllComponents && is_called(port, name)) || matches_elsewhere(wanted, name);
}

// Readers whose patterns say folders that the producer's name does not are to find them in it.
void spell_for_readers(const Board& board, const PortRecord& outport, char (&name)[kNameMax]) {
    for (const PortRecord& inport : inports_of(board, outport)) {
        const OwnPattern wanted = {inport.pattern, static_cast<int>(inport.components)};
        if (wanted.components == kAllComponents || !pattern_match(wanted.text, wanted.components, name)) matches_elsewhere(wanted, name);
    }
}

// The places that were found to be an in-port's, by the folder's name and the times that the process has changed its own: asking the
// disk and the board again would not change that.
std::atomic<uint64_t> known_places[64];
std::atomic<uint32_t> moves{0};

uint64_t place_of(int inport, const char* folder) {
    const uint64_t seed = (uint64_t{moves.load(std::memory_order_relaxed)} << 20 ^ static_cast<uint64_t>(inport)) * 0x9e3779b97f4a7c15ull;
    return hash_text(folder, seed) | 1;
}

constexpr int kDeepest = 64;  // folders of a name that are looked at

// Does the port hold in the folder? For an in-port that is not yet known while a producer of it may still begin its first file there.
Held holds_in(const Process& p, int index, const Folder& folder) {
    const Board& board = p.board;
    const PortRecord& inport = board.port(index);
    if (same(folder, board.task(inport.task).folder) || past::knows(board, inport.folders, key_of(folder).text)) return Held::yes;
    if (inport.direction == Direction::out) return Held::no;
    bool all_begun = true;
    for (const PortRecord& out : outports_of(board, inport)) {
        const TaskRecord& task = board.task(out.task);
        if (same(folder, task.folder)) return Held::yes;
        all_begun = all_begun && (queue::has_begun(board, out) || task.state == TaskState::ended || out.task == inport.task);
    }
    return all_begun ? Held::no : Held::not_yet;
}

// The name was told to the program, as its producer says it.
bool was_told(const Process& p, int index, const char* name) {
    const PortRecord& inport = p.board.port(index);
    if (queue::find(p.board, index, p.context.rank, name).chosen) return true;
    if (inport.started_for == 0) return false;
    for (const SlotRecord& slot : slots_of(p.board)) {
        if (slot.stamp == inport.started_for && strcmp(slot.name, name) == 0) return true;
    }
    return false;
}

// The same for a pattern that holds in folders below, too: what it is for the first folder above for which it is known.
Held holds_below(const Process& p, int index, const Folder (&folders)[kDeepest]) {
    Held held = Held::no;
    for (const Folder& folder : folders) {
        if (folder.inode == 0) break;
        const Held here = holds_in(p, index, folder);
        if (here == Held::yes) return here;
        held = here;
    }
    return held;
}

// The folder, and with `deep` those above it; ends with one that is not there. `folder` is the last one then.
void identify_all(FolderName& folder, bool deep, Folder (&folders)[kDeepest]) {
    folders[0] = identify(folder);
    for (int k = 1; deep && k < kDeepest && !folders[k - 1].none() && strcmp(folder, "/") != 0; ++k) {
        FolderName above;
        folder_above(folder, 1, above);
        strcpy(folder, above);
        folders[k] = identify(folder);
    }
}

// The folders above the part of the name that a pattern of so many components is for, as they are now.
void identify_above(const char* name, int components, FolderName& folder, Folder (&folders)[kDeepest]) {
    const bool deep = components == kAllComponents;
    folder_above(name, deep ? 1 : components, folder);
    for (Folder& one : folders) one = {};
    identify_all(folder, deep, folders);
}

// A producer has made one of the folders, or is just making one, and may yet begin a file there.
bool may_begin_there(const Process& p, int index, const Folder (&folders)[kDeepest]) {
    const Board& board = p.board;
    const PortRecord& inport = board.port(index);
    bool may = false;
    for (const Folder& folder : folders) may = may || (!folder.none() && past::knows(board, inport.made_folders, key_of(folder).text));
    for (const PortRecord& out : outports_of(board, inport)) {
        if (out.task == inport.task) continue;
        for (const RankRecord& rank : ranks_of(board, board.task(out.task))) {
            const uint32_t process = rank.makes_folder.load();
            may = may || (process != 0 && !board.is_over(process));
        }
    }
    return may && queue::can_produce(board, index);
}

// What producers' hosts know of the folder above the last `components` of the name: they learn first where a file is begun.
Held holds_elsewhere(const Process& p, int index, const char* name, int components) {
    const PortRecord& inport = p.board.port(index);
    Held held = Held::no;
    char whole[kNameMax];
    for (const PortRecord& out : outports_of(p.board, inport)) {
        const char* const where = out.asked_at;
        if (held == Held::yes || !where[0] || !make_whole(name, whole)) continue;
        FolderName folder;
        const bool deep = components == kAllComponents;
        folder_above(whole, deep ? 1 : components, folder);
        held = std::max(held, FarFile::ask_of_folder(where, folder, deep));
    }
    return held;
}

// Whether the in-port comes to hold in folders that a producer has made, before the disk has a file of the name. Call with the lock held.
bool comes_to_hold(Process& p, int index, const char* name, const char* folder, Folder (&folders)[kDeepest], Board::Lock& lock) {
    PortRecord& inport = p.board.port(index);
    Wait wait(p, WaitFor::data, index, folder, WaitKind::gives_up);
    for (Pause pause; holds_below(p, index, folders) != Held::yes; pause.grow()) {
        const bool may = may_begin_there(p, index, folders);
        lock.release();
        const int saved = errno;
        const Held elsewhere = holds_elsewhere(p, index, name, own_pattern(inport).components);  // first: a step may be on the disk before it is here
        const bool there = raw::access(name) == 0;
        FolderName again;
        identify_above(name, own_pattern(inport).components, again, folders);
        errno = saved;
        lock.acquire();
        if (elsewhere == Held::yes) {
            past::add(p.board, inport.folders, key_of(folders[0]).text);  // for want of memory, it may be lost again
            return true;
        }
        if (there || (!may && elsewhere == Held::no)) return holds_below(p, index, folders) == Held::yes;
        if (wait.is_in_vain(lock) || wait.nap(lock, pause.length) != 0) return false;
    }
    return true;
}

// `waits`: until it is known.
bool holds(Process& p, int index, const char* name, bool waits, Purpose purpose = Purpose::ask) {
    const PortRecord& inport = p.board.port(index);
    const OwnPattern wanted = own_pattern(inport);
    if (p.board.task(inport.task).folder.inode == 0 || wanted.text[0] == '/' || led_step(name)) return true;
    FolderName folder;
    const bool deep = wanted.components == kAllComponents;
    folder_above(name, deep ? 1 : wanted.components, folder);
    const uint64_t place = place_of(index, folder);
    std::atomic<uint64_t>& known = known_places[place >> 8 & 63];
    if (known.load(std::memory_order_relaxed) == place) return true;
    Folder where[kDeepest] = {};
    identify_all(folder, deep, where);
    if (where[0].none()) return true;
    bool waited = false;
    // The name of no step: what is waited for is that a producer begins its first.
    if (strlen(folder) + 1 < sizeof(folder)) strcat(folder, "/");
    Board::Lock lock(p.board);
    Held held = holds_below(p, index, where);
    if (held != Held::yes && inport.direction == Direction::in && was_told(p, index, name)) return true;
    Wait wait(p, WaitFor::data, index, folder);
    while (held == Held::not_yet && waits && may_read(p.board, index, p.context.rank) && !before_first(p, index)) {
        if (wait.is_in_vain(lock) || wait.nap(lock) != 0) break;
        held = holds_below(p, index, where);
        waited = true;
    }
    if (waited && held != Held::yes) {  // its producer may have made the folder anew
        lock.release();
        FolderName again;
        identify_above(name, wanted.components, again, where);
        lock.acquire();
        if (where[0].none()) return true;
        held = holds_below(p, index, where);
    }
    if (held == Held::no && waits && awaits_folders(p, index, purpose) && comes_to_hold(p, index, name, folder, where, lock)) held = Held::yes;
    if (held == Held::yes) known.store(place, std::memory_order_relaxed);
    return held == Held::yes;
}

// The file of this name, as the set of those that a task has made keeps it. False: its folder is not there.
bool file_key(const char* name, Key* out) {
    FolderName folder;
    folder_above(name, 1, folder);
    const Folder where = identify(folder);
    if (where.none()) return false;
    *out = key_of(where, last_components(name, 1));
    return true;
}

// False if it was already.
bool make(const Process& p, const char* name) {
    TaskRecord& task = p.board.task(p.context.task);
    Key key;
    if (!file_key(name, &key)) return false;
    Board::Lock lock(p.board);
    if (past::has(p.board, task.made, key.text)) return false;
    past::add(p.board, task.made, key.text);
    ++task.makes;
    return true;
}

// The program looks for a file of the disk that is called like a step, in another folder than the steps: says so once.
void explain_elsewhere(const Process& p, int index, const char* name) {
    PortRecord& inport = p.board.port(index);
    const int saved = errno;
    const bool there = inport.elsewhere.load(std::memory_order_relaxed) != 0 || raw::access(name) == 0;
    errno = saved;
    if (there) return;
    Board::Lock lock(p.board);
    const PortRecord* const out = published_by(p.board, index, name);
    if (!out || inport.elsewhere.fetch_add(1) > 0) return;
    log_line("task '%s' rank %d: there is no file '%s': the step of that name is in '%s', where task '%s' has written it; open it there",
             p.task_name(), p.told_rank(), name, out->begun_in, p.board.task(out->task).name);
}

// A file that the task itself makes is its own, whatever it is called, but for a step's own file. Returns whether it is.
bool makes_own(Process& p, int index, const char* name, bool* made) {
    const int saved = errno;
    bool is_step = p.board.port(index).habits.mode == Mode::file && raw::access(name) == 0 && holds(p, index, name, false);
    errno = saved;
    if (is_step) {
        Board::Lock lock(p.board);
        is_step = published_by(p.board, index, name) != nullptr;
    }
    if (!is_step) *made = make(p, name);
    return !is_step;
}

// Does the name, which the out-port's pattern matches, mean a file that the disk has, of which the port knows nothing: one that another
// run has left, or of installed software?
bool is_foreign(Process& p, int outport, const char* name, Purpose purpose) {
    if (purpose != Purpose::ask && purpose != Purpose::look && purpose != Purpose::read) return false;
    if (outport < 0 || holds(p, outport, name, false)) return false;
    const int saved = errno;
    const bool there = raw::access(name) == 0;
    errno = saved;
    return there;
}

// Is the name, which the in-port's pattern matches, the in-port's here and now?
bool is_read(Process& p, int index, Match* match, Purpose purpose) {
    if (has_made(p, p.context.task, match->name)) return false;
    const bool produces = match->outport >= 0;
    if (purpose == Purpose::create && !produces) return !makes_own(p, index, match->name, &match->made);
    const bool waits = purpose == Purpose::read || (!produces && (purpose == Purpose::look || purpose == Purpose::update));
    if (holds(p, index, match->name, waits, purpose)) return true;
    if (waits) explain_elsewhere(p, index, match->name);
    return false;
}

// Is one of the pattern's folders called so?
bool has_folder_like(const char* pattern, const char* name) {
    if (is_deep(pattern)) return true;
    for (const char* end; (end = strchr(pattern, '/')); pattern = end + 1) {
        FolderName one;
        const auto length = static_cast<size_t>(end - pattern);
        memcpy(one, pattern, length);
        one[length] = 0;
        if (length > 0 && glob_match(one, name)) return true;
    }
    return false;
}

// Of names that are no step's: an in-port whose pattern matches, or -1. Costs a comparison of last components for all others.
int inport_like(const Process& p, const char* name, char (&clean)[kNameMax]) {
    if (!p.context.active || !name || !name[0] || passing_through() || !could_match(name) || !normalise(name, clean, sizeof(clean))) return -1;
    for (const PortRecord& port : ports_of(p, Direction::in))
        if (!port.habits.is_set && is_match(port, clean)) return p.board.index(port);
    return -1;
}

}  // namespace

const PortRecord* published_by(const Board& board, int index, const char* name) {
    const PortRecord& inport = board.port(index);
    for (const PortRecord& out : outports_of(board, inport))
        for (const SourceRecord& source : sources_of(board, out))
            if (past::knows(board, source.names, last_components(name, static_cast<int>(out.components)))) return &out;
    return nullptr;
}

Held holds_for_others(const char* name, bool deep) {
    const Process& p = process();
    FolderName folder;
    Folder folders[kDeepest] = {};
    strcpy(folder, name);
    identify_all(folder, deep, folders);
    Board::Lock lock(p.board);
    Held held = Held::no;
    for (const PortRecord& port : ports_of(p, Direction::in)) {
        const int i = p.board.index(port);
        held = std::max(held, holds_below(p, i, folders));
        if (held != Held::yes && may_begin_there(p, i, folders)) held = Held::not_yet;
    }
    return held;
}

Key key_of(const Folder& folder, const char* file) {
    const uint64_t words[] = {folder.device, folder.inode, hash_text(file)};
    Key key;
    char* at = key.text;
    for (uint64_t word : words)
        for (int k = 0; k < 16; ++k, word >>= 4) *at++ = static_cast<char>('a' + (word & 15));
    *at = 0;
    return key;
}

bool make_whole(const char* name, char (&out)[kNameMax]) {
    char text[PATH_MAX + kNameMax];
    const int saved = errno;
    const bool known = name[0] == '/' || getcwd(text, PATH_MAX - 1);
    errno = saved;
    if (!known) return false;
    size_t length = name[0] == '/' ? 0 : strlen(text);
    if (length > 0) text[length++] = '/';
    strcpy(text + length, name);
    return normalise(text, out, sizeof(out));
}

namespace {

// Is the name a port's? A file's of a list becomes that of its step.
bool names_step(const PortRecord& port, char (&name)[kNameMax]) {
    FolderName step;
    if (!sets::is_list(port)) return is_match(port, name);
    if (!sets::step_of_file(port, name, step) || !is_match(port, step)) return false;
    strcpy(name, step);
    return true;
}

// Finds the ports of the name: those of single files, or those of sets.
bool find_ports(const Process& p, bool of_sets, Match* match) {
    match->outport = match->inport = -1;
    match->made = false;
    for (const PortRecord& port : ports_of(p)) {
        if ((port.habits.is_set != 0) != of_sets) continue;
        int& side = port.direction == Direction::out ? match->outport : match->inport;
        if (side < 0 && names_step(port, match->name)) side = p.board.index(port);
    }
    return match->outport >= 0 || match->inport >= 0;
}

bool is_set(const Process& p, const char* name, bool of_files) {
    for (const PortRecord& port : ports_of(p)) {
        FolderName same;
        strcpy(same, name);
        if (port.habits.is_set && sets::is_list(port) == of_files && names_step(port, same)) return true;
    }
    return false;
}

// Does the name lie in a folder that is a step, or is it a file of a step of several? Neither is a step of its own.
bool is_in_set(const Process& p, const char* name) {
    if (!sets::any()) return false;
    FolderName folder;
    strcpy(folder, name);
    bool found = is_set(p, name, true);
    for (char* end; !found && (end = strrchr(folder, '/')) && end > folder;) {
        *end = 0;
        found = is_set(p, folder, false);
    }
    return found;
}

}  // namespace

bool match_set(const char* name, Match* match, Purpose purpose) {
    Process& p = process();
    if (passing_through() || !normalise(name, match->name, sizeof(match->name)) || !find_ports(p, true, match)) return false;
    match->place = 0;
    if (is_foreign(p, match->outport, match->name, purpose)) match->outport = -1;
    if (match->outport >= 0) spell_for_readers(p.board, p.board.port(match->outport), match->name);
    if (match->inport >= 0 && !is_read(p, match->inport, match, purpose)) match->inport = -1;
    return match->outport >= 0 || match->inport >= 0;
}

bool match_name(const char* name, Match* match, Purpose purpose) {
    Process& p = process();
    if (!p.context.active || !name || !name[0] || p.first_port == p.last_port || passing_through()) return false;
    if (!normalise(name, match->name, sizeof(match->name))) {
        explain_long_name(p, name);
        return false;
    }
    if (is_of_run(p, match->name) || is_in_set(p, match->name)) return false;
    if (!find_ports(p, false, match)) {
        note_unmatched(p, match->name);
        return false;
    }
    if (is_foreign(p, match->outport, match->name, purpose)) match->outport = -1;
    if (match->outport >= 0) spell_for_readers(p.board, p.board.port(match->outport), match->name);
    const bool passes_on = match->outport >= 0 && match->inport >= 0 && p.board.port(match->outport).habits.passes_on;
    if (match->inport >= 0 && !is_read(p, match->inport, match, purpose)) match->inport = -1;
    if (passes_on && match->inport >= 0) stage::decide(p, match, purpose);
    return match->outport >= 0 || match->inport >= 0;
}

bool could_match(const char* name) {
    const Process& p = process();
    if (!p.context.active || passing_through()) return false;
    const char* last = last_components(name, 1);
    for (const PortRecord& port : ports_of(p))
        if (glob_match(last_components(own_pattern(port).text, 1), last) || (sets::is_list(port) && sets::is_listed(port, last))) return true;
    return false;
}

bool could_hold_steps(const char* folder) {
    const Process& p = process();
    if (!folder || !p.context.active || passing_through()) return false;
    FolderName clean;
    if (!normalise(folder, clean, sizeof(clean))) return false;
    const char* const last = last_components(clean, 1);
    for (const PortRecord& port : ports_of(p, Direction::out))
        if (has_folder_like(port.pattern, last)) return true;
    return false;
}

bool has_made(const Process& p, int index, const char* name) {
    const TaskRecord& task = p.board.task(index);
    Key key;
    if (task.makes.load(std::memory_order_relaxed) == 0 || !file_key(name, &key)) return false;
    Board::Lock lock(p.board);
    return past::has(p.board, task.made, key.text);
}

void note_made(const char* name) {
    const Process& p = process();
    char clean[kNameMax];
    if (inport_like(p, name, clean) >= 0) make(p, clean);
}

void forget_made(const char* name) {
    const Process& p = process();
    char clean[kNameMax];
    Key key;
    if (!p.context.active) return;
    TaskRecord& task = p.board.task(p.context.task);
    if (task.makes.load(std::memory_order_relaxed) == 0 || inport_like(p, name, clean) < 0 || !file_key(clean, &key)) return;
    Board::Lock lock(p.board);
    past::remove(p.board, task.made, key.text);
}

void note_moved() { ++moves; }

void note_begun(const Process& p, int outport, const char* name, const Folder& nearest) {
    const Board& board = p.board;
    PortRecord& out = board.port(outport);
    Folder folders[kDeepest] = {};
    bool there[kDeepest] = {}, asked[kDeepest] = {};
    folders[1] = nearest;
    there[1] = !nearest.none();
    asked[1] = true;
    const auto each = [&](auto visit) {
        const int own = static_cast<int>(out.components);
        if (out.pattern[0] != '/' && (own < kDeepest || own == kAllComponents)) visit(outport, own == kAllComponents ? 1 : own);
        for (const ChannelRecord& channel : channels_of(board, out)) {
            const int index = channel.inport;
            const PortRecord& inport = board.port(index);
            const int compared = static_cast<int>(inport.components);
            const int depth = compared == kAllComponents ? 1 : compared;
            if (inport.pattern[0] != '/' && depth < kDeepest && pattern_match(inport.pattern, compared, name)) visit(index, depth);
        }
    };
    each([&](int, int depth) {
        if (asked[depth]) return;
        FolderName folder;
        folder_above(name, depth, folder);
        asked[depth] = true;
        folders[depth] = identify(folder);
        there[depth] = !folders[depth].none();
    });
    const auto is_new = [&](int index, int depth) {
        return there[depth] && !past::knows(board, board.port(index).folders, key_of(folders[depth]).text);
    };
    bool all_known = out.begun > 0;
    {
        Board::Lock lock(board);
        each([&](int index, int depth) { all_known = all_known && !is_new(index, depth); });
    }
    if (all_known) return;
    char whole[kNameMax] = "";
    if (!make_whole(name, whole)) strcpy(whole, name);
    Board::Lock lock(board);
    each([&](int index, int depth) {
        PortRecord& inport = board.port(index);
        if (!is_new(index, depth)) return;
        past::add(board, inport.folders, key_of(folders[depth]).text);
        folder_above(whole, 1, out.begun_in);
        board.ring(index);
    });
    if (out.begun.fetch_add(1) > 0) return;
    folder_above(whole, 1, out.begun_in);
    for (const ChannelRecord& channel : channels_of(board, out)) board.ring(channel.inport);
}

}  // namespace wilkins
