// Asks the board and the disk in which folders ports hold.
#include "names/places.hpp"

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
#include "names/first_opens.hpp"
#include "names/led.hpp"
#include "queue/answers.hpp"
#include "queue/parts.hpp"
#include "queue/queue.hpp"
#include "queue/alias.hpp"
#include "waiting/wait.hpp"

namespace wilkins {

// The folder above the name's last n components, as the name says it.
void folder_above(const char* name, int n, FolderName& out) {
    auto length = static_cast<size_t>(last_components(name, n) - name);
    while (length > 1 && name[length - 1] == '/') --length;
    memcpy(out, name, length);
    out[length] = 0;
    if (length == 0) strcpy(out, ".");
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

uint64_t place_of(const char* name) {
    char folder[PATH_MAX];
    if (name[0] == '/' || !getcwd(folder, sizeof(folder))) return hash_text(name);
    char whole[PATH_MAX + kNameMax], clean[PATH_MAX + kNameMax];
    const size_t n = strlen(folder);
    memcpy(whole, folder, n);
    whole[n] = '/';
    strcpy(whole + n + 1, name);
    return hash_text(normalise(whole, clean, sizeof(clean)) ? clean : whole);
}

uint64_t place_of(const Match& match) {
    if (match.place == 0) match.place = place_of(match.name);
    return match.place;
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

namespace {

// The places that were found to be an in-port's, by the folder's name and the times that the process has changed its
// own: asking the disk and the board again would not change that.
std::atomic<uint64_t> known_places[64];

std::atomic<uint32_t> moves{0};

uint64_t known_place(int inport, const char* folder) {
    const uint64_t seed =
        (uint64_t{moves.load(std::memory_order_relaxed)} << 20 ^ static_cast<uint64_t>(inport)) * 0x9e3779b97f4a7c15ull;
    return hash_text(folder, seed) | 1;
}

}  // namespace

namespace {

// What is known of the folder alone.
Held holds_in(const Process& p, const PortRecord& port, const Folder& folder) {
    const Board& board = p.board;
    if (same(folder, p.start) || past::knows(board, port.folders, key_of(folder).text)) return Held::yes;
    if (port.direction == Direction::out) return Held::no;
    bool all_begun = true;
    for (const PortRecord& out : outports_of(board, port)) {
        const TaskRecord& task = board.task(out.task);
        if (same(folder, task.folder)) return Held::yes;
        all_begun =
            all_begun && (queue::has_begun(board, out) || task.state == TaskState::ended || out.task == port.task);
    }
    return all_begun ? Held::no : Held::not_yet;
}

}  // namespace

// Of folders below each other, what it is for the first one for which it is known.
Held holds_in(const Process& p, int index, const Bases& bases) {
    const PortRecord& port = p.board.port(index);
    Held held = holds_in(p, port, bases.nearest());
    for (int k = 1; held != Held::yes && k < Bases::kMost && !bases.folders[k].none(); ++k)
        held = holds_in(p, port, bases.folders[k]);
    return held;
}

namespace {

// The folder, and with `deep` those above it.
Bases identify_all(const FolderName& folder, bool deep) {
    Bases bases;
    bases.folders[0] = identify(folder);
    FolderName at;
    strcpy(at, folder);
    for (int k = 1; deep && k < Bases::kMost && !bases.folders[k - 1].none() && strcmp(at, "/") != 0; ++k) {
        FolderName above;
        folder_above(at, 1, above);
        strcpy(at, above);
        bases.folders[k] = identify(at);
    }
    return bases;
}

}  // namespace

Bases bases_of(const char* name, int components) {
    const bool deep = components == kAllComponents;
    FolderName folder;
    folder_above(name, deep ? 1 : components, folder);
    return identify_all(folder, deep);
}

namespace {

// The program knows the name, as its producer says it.
bool is_known(const Process& p, int index, const char* name) {
    const PortRecord& inport = p.board.port(index);
    if (queue::find(p.board, index, p.context.rank, name).chosen) return true;
    if (inport.started_for == 0) return false;
    for (const SlotRecord& slot : slots_of(p.board)) {
        if (slot.stamp == inport.started_for && strcmp(slot.name, name) == 0) return true;
    }
    return false;
}

// A producer has made one of the folders, or is just making one, and may yet begin a file there.
bool may_begin_there(const Process& p, int index, const Bases& bases) {
    const Board& board = p.board;
    const PortRecord& inport = board.port(index);
    bool may = false;
    for (const Folder& folder : bases.folders)
        may = may || (!folder.none() && past::knows(board, inport.made_folders, key_of(folder).text));
    for (const PortRecord& out : outports_of(board, inport)) {
        if (out.task == inport.task) continue;
        for (const RankRecord& rank : ranks_of(board, board.task(out.task))) {
            const uint32_t process = rank.makes_folder.load();
            may = may || (process != 0 && !board.is_over(process));
        }
    }
    return may && queue::can_produce(board, index);
}

// What producers' hosts know of the folder above the last `components` of the name: they learn first where a file is
// begun.
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

// Whether the in-port comes to hold in folders that a producer has made, before the disk has a file of the name. Call
// with the lock held.
bool comes_to_hold(Process& p, int index, const char* name, const char* folder, Bases& bases, Board::Lock& lock) {
    PortRecord& inport = p.board.port(index);
    Wait wait(p, WaitFor::data, index, folder, WaitKind::gives_up);
    while (holds_in(p, index, bases) != Held::yes) {
        const bool may = may_begin_there(p, index, bases);
        lock.release();
        const int saved = errno;
        const Held elsewhere = holds_elsewhere(
            p, index, name, own_pattern(inport).components);  // first: a step may be on the disk before it is here
        const bool there = raw::access(name) == 0;
        bases = bases_of(name, own_pattern(inport).components);
        errno = saved;
        lock.acquire();
        if (elsewhere == Held::yes) {
            past::add(p.board, inport.folders,
                      key_of(bases.nearest()).text);  // for want of memory, it may be lost again
            return true;
        }
        if (there || (!may && elsewhere == Held::no)) return holds_in(p, index, bases) == Held::yes;
        if (wait.has_found_nothing(lock) || wait.nap(lock, kUnheard) != 0) return false;
    }
    return true;
}

}  // namespace

bool holds(Process& p, int index, const char* name, bool waits, Purpose purpose) {
    const PortRecord& inport = p.board.port(index);
    const OwnPattern wanted = own_pattern(inport);
    if (p.board.task(inport.task).folder.inode == 0 || wanted.text[0] == '/' || led_step(name)) return true;
    FolderName folder;
    const bool deep = wanted.components == kAllComponents;
    folder_above(name, deep ? 1 : wanted.components, folder);
    const uint64_t place = known_place(index, folder);
    std::atomic<uint64_t>& known = known_places[place >> 8 & 63];
    if (known.load(std::memory_order_relaxed) == place) return true;
    Bases bases = identify_all(folder, deep);
    if (bases.nearest().none()) return true;
    bool waited = false;
    // The name of no step: what is waited for is that a producer begins its first.
    if (strlen(folder) + 1 < sizeof(folder)) strcat(folder, "/");
    Board::Lock lock(p.board);
    Held held = holds_in(p, index, bases);
    if (held != Held::yes && inport.direction == Direction::in && is_known(p, index, name)) return true;
    Wait wait(p, WaitFor::data, index, folder);
    while (held == Held::not_yet && waits && queue::may_read(p.board, index, p.context.rank) &&
           !before_first(p, index)) {
        if (wait.has_found_nothing(lock) || wait.nap(lock) != 0) break;
        held = holds_in(p, index, bases);
        waited = true;
    }
    if (waited && held != Held::yes) {  // its producer may have made the folder anew
        lock.release();
        bases = bases_of(name, wanted.components);
        lock.acquire();
        if (bases.nearest().none()) return true;
        held = holds_in(p, index, bases);
    }
    if (held == Held::no && waits && awaits_folders(p, index, purpose) &&
        comes_to_hold(p, index, name, folder, bases, lock))
        held = Held::yes;
    if (held == Held::yes) known.store(place, std::memory_order_relaxed);
    return held == Held::yes;
}

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
    strcpy(folder, name);
    const Bases bases = identify_all(folder, deep);
    Held held = Held::no;
    std::vector<const char*> others;  // that know of steps which come from there
    {
        Board::Lock lock(p.board);
        for (const PortRecord& port : ports_of(p, Direction::in)) {
            const int i = p.board.index(port);
            held = std::max(held, holds_in(p, i, bases));
            if (held != Held::yes && may_begin_there(p, i, bases)) held = Held::not_yet;
            for (const PortRecord& out : outports_of(p.board, port))
                if (out.asked_at[0]) others.push_back(out.asked_at);
        }
    }
    for (const char* const where : others)
        if (held != Held::yes) held = std::max(held, FarFile::ask_of_folder(where, name, deep));
    return held;
}

bool awaits_folders(const Process& p, int index, Purpose purpose) {
    const PortRecord& inport = p.board.port(index);
    if (!queue::may_read(p.board, index, p.context.rank) || before_first(p, index)) return false;
    if (purpose == Purpose::read) return true;
    if (inport.keys.looks != Looks::always && queue::drops_since_first(p.board, inport)) return false;
    return inport.keys.looks != Looks::now;
}

void note_moved() { ++moves; }

void note_begun(const Process& p, int outport, const char* name, const Folder& nearest) {
    const Board& board = p.board;
    PortRecord& out = board.port(outport);
    constexpr int kMost = Bases::kMost;
    Folder folders[kMost] = {};
    bool there[kMost] = {}, asked[kMost] = {};
    folders[1] = nearest;
    there[1] = !nearest.none();
    asked[1] = true;
    const auto each = [&](auto visit) {
        const int own = static_cast<int>(out.components);
        if (out.pattern[0] != '/' && (own < kMost || own == kAllComponents))
            visit(outport, own == kAllComponents ? 1 : own);
        for (const ChannelRecord& channel : channels_of(board, out)) {
            const int index = channel.inport;
            const PortRecord& inport = board.port(index);
            const int compared = static_cast<int>(inport.components);
            const int depth = compared == kAllComponents ? 1 : compared;
            if (inport.pattern[0] != '/' && depth < kMost && pattern_match(inport.pattern, compared, name))
                visit(index, depth);
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
