// Finds the ports of names. In-ports' names are theirs but for files of that name that the task has made itself.
#include "names/match.hpp"

#include <cerrno>
#include <cstring>

#include "base/patterns.hpp"
#include "base/raw.hpp"
#include "events.hpp"
#include "names/first_opens.hpp"
#include "names/own_files.hpp"
#include "names/places.hpp"
#include "names/set_names.hpp"
#include "names/spelling.hpp"
#include "names/unmatched_names.hpp"
#include "queue/parts.hpp"
#include "queue/alias.hpp"

namespace wilkins {

namespace {

// A name that is too long for a step would go to the disk unseen; if it is a port's, that ends the run.
void explain_long_name(const Process& p, const char* name) {
    for (const PortRecord& port : ports_of(p)) {
        if (!is_called(port, name)) continue;
        Board::Lock lock(p.board);
        fail_run(p, event::name_too_long(port.pattern, strlen(name), kNameMax - 1));
        return;
    }
}

// True of a file of the run's own, such as one in a folder that is a step.
bool is_of_run(const Process& p, const char* name) {
    const size_t length = name[0] == '/' ? strlen(p.board.folder()) : 0;
    return length > 0 && strncmp(name, p.board.folder(), length) == 0 && (name[length] == '/' || !name[length]);
}

// The program looks for a file of the disk that is called like a step, in another folder than the steps: says so once.
void explain_elsewhere(const Process& p, int index, const char* name) {
    PortRecord& inport = p.board.port(index);
    const int saved = errno;
    const bool there = is_logged(inport, Once::elsewhere) || raw::access(name) == 0;
    errno = saved;
    if (there) return;
    Board::Lock lock(p.board);
    const PortRecord* const out = published_by(p.board, index, name);
    if (out)
        log_once(inport, Once::elsewhere, event::no_such_file_here(name, out->begun_in, p.board.task(out->task).name));
}

// A file that the task itself makes is its own, whatever it is called, but for a step's own file. Returns whether it
// is.
bool makes_own(Process& p, int index, const char* name, bool* made) {
    const int saved = errno;
    bool is_step =
        p.board.port(index).keys.mode == Mode::file && raw::access(name) == 0 && holds(p, index, name, false);
    errno = saved;
    if (is_step) {
        Board::Lock lock(p.board);
        is_step = published_by(p.board, index, name) != nullptr;
    }
    if (!is_step) *made = make_own(p, name);
    return !is_step;
}

// Does the name, which the out-port's pattern matches, mean a file that the disk has, of which the port knows nothing:
// one that another run has left, or of installed software?
bool is_foreign(Process& p, int outport, const char* name, Purpose purpose) {
    if (purpose != Purpose::ask && purpose != Purpose::look && purpose != Purpose::read) return false;
    if (outport < 0 || holds(p, outport, name, false)) return false;
    const int saved = errno;
    const bool there = raw::access(name) == 0;
    errno = saved;
    return there;
}

// True if the name, which the in-port's pattern matches, is the in-port's here and now.
bool is_read(Process& p, int index, Match* match, Purpose purpose) {
    if (has_made(p, p.context.task, match->name)) return false;
    const bool produces = match->outport >= 0;
    if (purpose == Purpose::create && !produces) return !makes_own(p, index, match->name, &match->made);
    const bool waits =
        purpose == Purpose::read || (!produces && (purpose == Purpose::look || purpose == Purpose::update));
    if (holds(p, index, match->name, waits, purpose)) return true;
    if (waits) explain_elsewhere(p, index, match->name);
    return false;
}

// True if one of the pattern's folders has this name.
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

// True if the name is a port's. A file's of a list becomes that of its step.
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
        if ((port.keys.is_set != 0) != of_sets) continue;
        int& side = port.direction == Direction::out ? match->outport : match->inport;
        if (side < 0 && names_step(port, match->name)) side = p.board.index(port);
    }
    return match->outport >= 0 || match->inport >= 0;
}

bool is_set(const Process& p, const char* name, bool of_files) {
    for (const PortRecord& port : ports_of(p)) {
        FolderName same;
        strcpy(same, name);
        if (port.keys.is_set && sets::is_list(port) == of_files && names_step(port, same)) return true;
    }
    return false;
}

// True if the name lies in a folder that is a step, or is a file of a step of several. Neither is a step of its own.
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
    if (passing_through() || !normalise(name, match->name, sizeof(match->name)) || !find_ports(p, true, match))
        return false;
    match->place = 0;
    if (is_foreign(p, match->outport, match->name, purpose)) match->outport = -1;
    if (match->outport >= 0) spell_for_readers(p.board, p.board.port(match->outport), match->name);
    if (match->inport >= 0 && !is_read(p, match->inport, match, purpose)) match->inport = -1;
    return match->outport >= 0 || match->inport >= 0;
}

bool find_match(const char* name, Match* match, Purpose purpose) {
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
    if (match->inport >= 0 && !is_read(p, match->inport, match, purpose)) match->inport = -1;
    return match->outport >= 0 || match->inport >= 0;
}

bool could_match(const char* name) {
    const Process& p = process();
    if (!p.context.active || passing_through()) return false;
    const char* last = last_components(name, 1);
    for (const PortRecord& port : ports_of(p))
        if (glob_match(last_components(own_pattern(port).text, 1), last) ||
            (sets::is_list(port) && sets::is_listed(port, last)))
            return true;
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

}  // namespace wilkins
