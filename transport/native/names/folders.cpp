// Folders of in-ports' files that producers have yet to make: who looks at one waits for it, as for the files.

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/patterns.hpp"
#include "board/past_names.hpp"
#include "names/first_opens.hpp"
#include "names/places.hpp"
#include "queue/answers.hpp"
#include "queue/parts.hpp"
#include "queue/alias.hpp"
#include "waiting/wait.hpp"

namespace wilkins {

namespace {

// The first of how many of the pattern's directories the name ends in; 0: in none.
int directories_of(const char* pattern, const char* name) {
    if (pattern[0] == '/' || is_deep(pattern)) return 0;
    int directories = 0;
    for (const char* end = strchr(pattern, '/'); end; end = strchr(end + 1, '/')) {
        ++directories;
        char first[kNameMax];
        const auto length = static_cast<size_t>(end - pattern);
        memcpy(first, pattern, length);
        first[length] = 0;
        if (glob_match(last_components(first, 1), last_components(name, 1)) && pattern_match(first, directories, name))
            return directories;
    }
    return 0;
}

// True if the in-port holds in the folder above these directories of its pattern.
bool holds_above(const Process& p, const PortRecord& inport, const char* name, int directories) {
    const Bases bases = bases_of(name, directories);
    Board::Lock lock(p.board);
    return holds_in(p, p.board.index(inport), bases) == Held::yes;
}

// The in-port that has files in the folder of this name; -1: there is none, or the task itself may make it.
int inport_of(const Process& p, const char* name) {
    int found = -1;
    for (const PortRecord& port : ports_of(p)) {
        const int directories = directories_of(own_name(port), name);
        if (directories == 0) continue;
        if (port.direction == Direction::out) return -1;
        if (found < 0 && holds_above(p, port, name, directories)) found = p.board.index(port);
    }
    return found;
}

// True if a producer can still make the folder. Those that have begun files have theirs; but where the pattern's
// folders have wildcards, further ones come.
bool may_be_made(const Board& board, int index) {
    const PortRecord& inport = board.port(index);
    const char* const pattern = own_name(inport);
    char folders[kNameMax] = "";
    memcpy(folders, pattern, static_cast<size_t>(last_components(pattern, 1) - pattern));
    bool may = has_wildcard(folders);
    for (const PortRecord& out : outports_of(board, inport)) may = may || !queue::has_begun(board, out);
    return may && queue::can_produce(board, index);
}

// Until the folder is there, or nobody can make it any more. Call with the lock held.
bool await(Process& p, int inport, const char* name, Board::Lock& lock) {
    char folder[kNameMax + 1];  // no name of a step
    strcpy(folder, name);
    strcat(folder, "/");
    Wait wait(p, WaitFor::data, inport, folder, WaitKind::gives_up);
    for (;;) {
        const bool over = !may_be_made(p.board, inport);
        lock.release();
        const bool there = !identify(name).none();
        lock.acquire();
        if (there || over || wait.has_found_nothing(lock) || wait.nap(lock, kUnheard) != 0) return there;
    }
}

}  // namespace

FolderMaking::FolderMaking() : active_(false) {
    const Process& p = process();
    if (!p.context.active || p.rank_index < 0 || passing_through()) return;
    for (const PortRecord& port : ports_of(p, Direction::out)) active_ = active_ || port.links > 0;
    if (active_) p.me().makes_folder = p.board.self();
}

FolderMaking::~FolderMaking() {
    if (active_) process().me().makes_folder = 0;
}

void FolderMaking::done(const char* name) {
    if (!active_) return;
    const Process& p = process();
    const Folder folder = identify(name);
    if (folder.none()) return;
    Board::Lock lock(p.board);
    for (const PortRecord& out : ports_of(p, Direction::out))
        for (PortRecord& inport : inports_of(p.board, out))
            if (inport.task != out.task) past::add(p.board, inport.made_folders, key_of(folder).text);
}

bool await_folder(const char* name) {
    Process& p = process();
    char clean[kNameMax];
    if (!p.context.active || p.first_port == p.last_port || passing_through() || !normalise(name, clean, sizeof(clean)))
        return false;
    const int saved = errno;
    bool there = false;
    if (const int inport = inport_of(p, clean); inport >= 0) {
        Board::Lock lock(p.board);
        if (awaits_folders(p, inport, Purpose::look)) {
            there = await(p, inport, clean, lock);
            if (!there) note_failed(p.board, inport, p.context.rank, clean);
        }
    }
    errno = saved;
    return there;
}

}  // namespace wilkins
