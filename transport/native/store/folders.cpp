// Folders of in-ports' files that producers have yet to make: who looks at one waits for it, as for the files.

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/patterns.hpp"
#include "board/past_names.hpp"
#include "queue/answers.hpp"
#include "queue/parts.hpp"
#include "queue/stand_in.hpp"
#include "store/first_opens.hpp"
#include "store/parts.hpp"
#include "waiting/wait.hpp"

namespace wilkins {

namespace {

constexpr int kFirstPause = 10;  // ms between looks at the disk, and then more and more
constexpr int kLastPause = 250;

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
        if (glob_match(last_components(first, 1), last_components(name, 1)) && pattern_match(first, directories, name)) return directories;
    }
    return 0;
}

// Is the folder, above the pattern's own ones, where the reader or a producer of the in-port starts?
bool is_start(const Process& p, const PortRecord& inport, const char* name, int directories) {
    const char* const own = last_components(name, directories);
    char above[kNameMax] = ".";
    if (own > name) {
        memcpy(above, name, static_cast<size_t>(own - name));
        above[own - name] = 0;
    }
    const Folder folder = identify(above);
    bool found = !folder.none() && folder == p.start;
    for (int k = 0; k < inport.links && !folder.none(); ++k)
        found = found || folder == p.board.task(p.board.port(p.board.channel(p.board.link(inport, k)).outport).task).folder;
    return found;
}

// The in-port that has files in the folder of this name; -1: there is none, or the task itself may make it.
int inport_of(const Process& p, const char* name) {
    int found = -1;
    for (int i = p.first_port; i < p.last_port; ++i) {
        const PortRecord& port = p.board.port(i);
        const int directories = port.task == p.context.task ? directories_of(stands_in(port) ? port.stands : port.pattern, name) : 0;
        if (directories == 0) continue;
        if (port.direction == Direction::out) return -1;
        if (found < 0 && is_start(p, port, name, directories)) found = i;
    }
    return found;
}

// Can a producer still make the folder? Those that have begun files have theirs; but where the pattern's folders have wildcards, further ones come.
bool may_be_made(const Board& board, int index) {
    const PortRecord& inport = board.port(index);
    const char* const pattern = stands_in(inport) ? inport.stands : inport.pattern;
    char folders[kNameMax] = "";
    memcpy(folders, pattern, static_cast<size_t>(last_components(pattern, 1) - pattern));
    bool may = has_wildcard(folders);
    for (int k = 0; k < inport.links; ++k) may = may || !queue::has_begun(board, board.port(board.channel(board.link(inport, k)).outport));
    return may && queue::can_produce(board, index);
}

// Until the folder is there, or nobody can make it any more. Call with the lock held.
bool await(Process& p, int inport, const char* name, Board::Lock& lock) {
    char folder[kNameMax + 1];  // no name of a step
    strcpy(folder, name);
    strcat(folder, "/");
    Wait wait(p, WaitFor::data, inport, folder, WaitKind::gives_up);
    for (int pause = kFirstPause;; pause = std::min(2 * pause, kLastPause)) {
        const bool over = !may_be_made(p.board, inport);
        lock.release();
        const bool there = !identify(name).none();
        lock.acquire();
        if (there || over || wait.is_in_vain(lock) || wait.nap(lock, pause) != 0) return there;
    }
}

}  // namespace

bool awaits_folders(const Process& p, int index, Purpose purpose) {
    const PortRecord& inport = p.board.port(index);
    if (!may_read(p.board, index, p.context.rank) || before_first(p, index)) return false;
    if (purpose == Purpose::read) return true;
    for (int k = 0; inport.habits.looks != Looks::always && k < inport.links; ++k) {
        const ChannelRecord& channel = p.board.channel(p.board.link(inport, k));
        if (channel.when_full != WhenFull::block && p.board.port(channel.outport).steps > 0) return false;
    }
    return inport.habits.looks != Looks::now;
}

FolderMaking::FolderMaking() : active_(false) {
    const Process& p = process();
    if (!p.context.active || p.rank_index < 0 || passing_through()) return;
    for (int i = p.first_port; i < p.last_port; ++i) {
        const PortRecord& port = p.board.port(i);
        active_ = active_ || (port.task == p.context.task && port.direction == Direction::out && port.links > 0);
    }
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
    for (int i = p.first_port; i < p.last_port; ++i) {
        const PortRecord& out = p.board.port(i);
        if (out.task != p.context.task || out.direction != Direction::out) continue;
        for (int k = 0; k < out.links; ++k) {
            PortRecord& inport = p.board.port(p.board.channel(p.board.link(out, k)).inport);
            if (inport.task != out.task) past::add(p.board, inport.made_folders, key_of(folder).text);
        }
    }
}

bool await_folder(const char* name) {
    Process& p = process();
    char clean[kNameMax];
    if (!p.context.active || p.first_port == p.last_port || passing_through() || !normalise(name, clean, sizeof(clean))) return false;
    const int saved = errno;
    bool there = false;
    if (const int inport = inport_of(p, clean); inport >= 0) {
        Board::Lock lock(p.board);
        if (awaits_folders(p, inport, Purpose::look)) {
            there = await(p, inport, clean, lock);
            if (!there) note_vain(p.board, inport, p.context.rank, clean);
        }
    }
    errno = saved;
    return there;
}

}  // namespace wilkins
