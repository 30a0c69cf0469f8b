// Listings of folders: in which of them steps lie, what there is to show, and how long that is waited for.
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <tuple>

#include "base/patterns.hpp"
#include "base/raw.hpp"
#include "board/past_names.hpp"
#include "events.hpp"
#include "names/first_opens.hpp"
#include "names/places.hpp"
#include "names/second_pass.hpp"
#include "names/set_folder.hpp"
#include "names/set_names.hpp"
#include "queue/answers.hpp"
#include "queue/origins.hpp"
#include "queue/parts.hpp"
#include "queue/queue.hpp"
#include "queue/alias.hpp"
#include "steps/disk.hpp"
#include "store/let_go.hpp"
#include "store/stage.hpp"
#include "store/store.hpp"
#include "waiting/circle.hpp"
#include "waiting/wait.hpp"

namespace wilkins {

namespace {

constexpr int kSeveral = 20;  // ms between looks at most where steps of several in-ports may end the wait

const char* base_of(const char* name) { return last_components(name, 1); }

// What the in-port is for a folder: whether a file of its names that lies there is one of its steps.
Held holds_in(const Process& p, const PortRecord& inport, const Listed& listed) {
    const char* const pattern = own_name(inport);
    if (pattern[0] != '/') return holds_in(p, p.board.index(inport), listed.bases_for(inport));
    const std::string whole = listed.path + "/";
    return std::count(pattern, pattern + strlen(pattern), '/') == std::count(whole.begin(), whole.end(), '/') &&
                   glob_match(std::string(pattern, base_of(pattern)).c_str(), whole.c_str())
               ? Held::yes
               : holds_in(p, p.board.index(inport), Bases{});
}

bool lies_in(const Process& p, const PortRecord& inport, const Listed& listed) {
    return holds_in(p, inport, listed) == Held::yes;
}

// True if the pattern names folders in this one by wildcards, as `step*/data.h5` does where the in-port holds.
bool leads_to(const Process& p, const PortRecord& inport, const Listed& listed) {
    const char* const pattern = own_name(inport);
    const char* const end = strchr(pattern, '/');
    if (!end || end == pattern || !has_wildcard(std::string(pattern, end).c_str())) return false;
    return holds_in(p, p.board.index(inport), Bases{{listed.folder}}) == Held::yes;
}

// A file that the task has written, or is writing, and has not removed: to the program it is there. (What is whole lies
// on the disk, too, if any does.)
bool is_own_file(const Process& p, const SlotRecord& slot) {
    const PortRecord& port = p.board.port(p.board.source(slot.source).port);
    if (port.task != p.context.task || slot.state == SlotState::free || slot.removed) return false;
    if (slot.state != SlotState::writing) return port.keys.mode == Mode::memory;
    return !slot.is_copy && (slot.inherited || !p.board.is_over(slot.writer_process));
}

// What a listing has to wait for.
struct Awaited {
    int port = -1;
    WaitKind kind = WaitKind::gives_up;
    bool several = false;
};

// One that a later listing of the same start will not wait for again.
bool is_answered(const Process& p) { return p.me().listed == p.board.task(p.context.task).starts + 1; }

// An in-port that the listing shows, of which a step may be on its way from another host that was published there
// before this one; -1: there is none.
int find_behind(const Process& p, const Listed& listed, const SlotRecord& step) {
    for (const PortRecord& port : ports_of(p, Direction::in)) {
        if (!lies_in(p, port, listed) && !leads_to(p, port, listed)) continue;
        for (const ChannelRecord& channel : channels_of(p.board, port))
            if (p.context.rank < channel.readers && !queue::leaves_out(p.board, channel) &&
                queue::is_behind(p.board, channel.outport, step))
                return p.board.index(port);
    }
    return -1;
}

Awaited awaited(const Process& p, const Listed& listed, bool perhaps) {
    const Board& board = p.board;
    Awaited first;
    int behind = -1;
    bool there = is_answered(p);
    for (const PortRecord& port : ports_of(p, Direction::in)) {
        const int i = board.index(port);
        if (!queue::may_read(board, i, p.context.rank) || before_first(p, i)) continue;
        const Held held = holds_in(p, port, listed);
        const bool known = held == Held::yes || leads_to(p, port, listed);
        if (!known && !(perhaps && held == Held::not_yet)) continue;
        if (known && port.keys.listing == Lists::end) {
            if (queue::can_produce(board, i)) return {i, WaitKind::to_end, false};
            continue;
        }
        const int choice = known ? queue::next_choice(board, i, p.context.rank) : -1;
        const int late = choice >= 0 ? find_behind(p, listed, board.slot(choice)) : -1;
        if (late >= 0) behind = late;
        there = there || (choice >= 0 && late < 0) || queue::has_opened(board, port, p.context.rank);
        if (there || port.keys.looks == Looks::now || !queue::can_produce(board, i)) continue;
        if (port.keys.looks != Looks::always && queue::drops_since_first(board, port)) continue;
        if (first.port >= 0) first.several = true;
        else first.port = i;
    }
    if (there) return {};
    return behind >= 0 ? Awaited{behind, WaitKind::gives_up, true} : first;
}

void tell_short(const Process& p, int index) {
    PortRecord& port = p.board.port(index);
    log_once(port, Once::listed_short, event::listing_not_waited(port.pattern));
}

// A path that says fewer folders than a pattern is said from the root on.
void complete(std::string& path, int directories) {
    const bool is_short = path.empty() || count_components(path.c_str()) < directories || path.compare(0, 2, "..") == 0;
    char above[PATH_MAX];
    const int saved = errno;
    if (is_short && path[0] != '/' && getcwd(above, sizeof(above))) {
        const std::string whole = std::string(above) + "/" + path;
        char clean[PATH_MAX];
        if (normalise(whole.c_str(), clean, sizeof(clean))) path = clean;
    }
    errno = saved;
}

}  // namespace

Listed::Listed(std::string given, const Folder& identity) : path(std::move(given)), folder(identity) {
    const Process& p = process();
    for (const PortRecord& port : ports_of(p, Direction::in)) {
        const char* const pattern = own_name(port);
        const int directories = count_components(pattern) - 1;
        if (directories < 1 || pattern[0] == '/' || folder.none()) continue;
        complete(path, directories);
        const std::string middle(pattern, static_cast<size_t>(base_of(pattern) - pattern - 1));
        if (pattern_match(middle.c_str(), directories, path.c_str()))
            bases_.emplace_back(p.board.index(port), bases_of(path.c_str(), directories));
    }
}

void Listed::look_again() {
    const Folder now = identify(path.empty() ? "." : path.c_str());
    *this = Listed(std::move(path), now);
}

Bases Listed::bases_for(const PortRecord& inport) const {
    if (count_components(own_name(inport)) == 1) return {{folder}};
    for (const auto& [port, bases] : bases_)
        if (port == process().board.index(inport)) return bases;
    return {};
}

bool any_may_hold_steps() {
    const Process& p = process();
    if (!p.context.active) return false;
    if (const auto inports = ports_of(p, Direction::in); inports.begin() != inports.end()) return true;
    Board::Lock lock(p.board);
    for (const SlotRecord& slot : slots_of(p.board))
        if (!slot.folder.none()) return true;
    return false;
}

bool may_hold_steps(const Folder& folder) {
    const Process& p = process();
    if (!p.context.active || p.first_port == p.last_port) return false;
    Board::Lock lock(p.board);
    bool may = false;
    for (const PortRecord& port : ports_of(p, Direction::in)) {
        const Held held = holds_in(p, p.board.index(port), Bases{{folder}});
        may = may || held != Held::no || (!folder.none() && strchr(own_name(port), '/'));
    }
    for (const SlotRecord& slot : slots_of(p.board)) may = may || (!folder.none() && slot.folder == folder);
    return may;
}

bool leads_to_steps(const Listed& listed) {
    const Process& p = process();
    if (!p.context.active) return false;
    Board::Lock lock(p.board);
    for (const PortRecord& port : ports_of(p, Direction::in))
        if (leads_to(p, port, listed)) return true;
    return false;
}

Content content_of(const Listed& listed) {
    const Process& p = process();
    if (!p.context.active) return Content::nothing;
    Board::Lock lock(p.board);
    Content content = Content::nothing;
    for (const PortRecord& port : ports_of(p, Direction::in)) {
        const Held held = holds_in(p, port, listed);
        if (held == Held::yes) return Content::steps;
        if (held == Held::not_yet) content = Content::perhaps;
    }
    if (listed.folder.none()) return content;
    for (const SlotRecord& slot : slots_of(p.board))
        if (slot.folder == listed.folder) return Content::files;
    return content;
}

void await_listing(Listed& listed, bool perhaps) {
    Process& p = process();
    Board::Lock lock(p.board);
    std::optional<Wait> wait;
    Awaited before;
    for (;;) {
        const Awaited now = awaited(p, listed, perhaps);
        if (now.port < 0) break;
        PortRecord& port = p.board.port(now.port);
        if (!wait || now.port != before.port || now.kind != before.kind) {
            wait.reset();
            lock.acquire();
            wait.emplace(p, WaitFor::data, now.port, port.pattern, now.kind);
            before = now;
        }
        const int longest = now.kind == WaitKind::to_end ? kNap : now.several || perhaps ? kSeveral : kUnheard;
        stage::pass_on(p);
        if (wait->nap(lock, longest) != 0) break;
        if (now.kind == WaitKind::gives_up && wait->has_found_nothing(lock)) {
            tell_short(p, now.port);
            break;
        }
        if (perhaps) {  // (no disk is asked with the board's lock)
            lock.release();
            listed.look_again();
            lock.acquire();
        }
    }
    lock.acquire();
    const uint32_t start = p.board.task(p.context.task).starts + 1;
    for (const PortRecord& port : ports_of(p, Direction::in))
        if (lies_in(p, port, listed)) p.me().listed = start;
}

namespace {

struct Found {
    ListedStep step;
    uint64_t place;    // among those of one name: an open leads to the lowest
    int several = -1;  // a step of several files: its slot
};

Found found_step(const PortRecord& port, int slot, const std::string& name, uint64_t stamp, uint64_t place) {
    const bool list = sets::is_list(port);
    return {{name, stamp, port.keys.is_set && !list, list}, place, list ? slot : -1};
}

// Steps of several files are shown as these.
void show_files(const Board& board, std::vector<Found>& found) {
    std::vector<Found> shown;
    for (Found& one : found) {
        if (one.several < 0) {
            shown.push_back(std::move(one));
            continue;
        }
        sets::RealPath folder;
        sets::contents_of_step(board, one.several, one.step.identity, folder);
        const PortRecord& port = board.port(board.source(board.slot(one.several).source).port);
        sets::each_entry(folder, [&](const char* name) {
            char step[kNameMax];
            struct stat st;
            if (!sets::step_of_file(port, name, step) || one.step.name != step ||
                raw::stat((std::string(folder) + "/" + name).c_str(), &st) != 0)
                return;
            shown.push_back({{name, st.st_ino, false, true}, one.place});
        });
    }
    found.swap(shown);
}

// In-ports, and out-ports whose files of these lie below the folder in which the reader starts.
using Below = std::vector<std::pair<int, int>>;

// True if the folder is one of those above a name.
bool is_above(const Folder& folder, std::string name) {
    for (size_t end = name.rfind('/'); end != std::string::npos && end > 0; end = name.rfind('/')) {
        name.resize(end);
        if (identify(name.c_str()) == folder) return true;
    }
    return false;
}

// In the folder in which the reader starts, the steps of producers elsewhere are shown; but those of folders below it
// are shown there alone, as on disk, or programs that go through all of them would meet each twice.
Below find_below(const Process& p, const Listed& listed) {
    struct Begun {
        std::pair<int, int> ports;
        std::string folder;
    };
    std::vector<Begun> begun;
    {
        Board::Lock lock(p.board);
        for (const PortRecord& port : ports_of(p, Direction::in)) {
            if (own_name(port)[0] == '/' || !(listed.bases_for(port).nearest() == p.start)) continue;
            const int directories = count_components(own_name(port)) - 1;
            for (const PortRecord& out : outports_of(p.board, port)) {
                std::string folder = out.begun_in;
                for (int k = 0; k < directories; ++k) folder.resize(std::min(folder.size(), folder.rfind('/')));
                if (out.begun) begun.push_back({{p.board.index(port), p.board.index(out)}, std::move(folder)});
            }
        }
    }
    Below below;
    for (const Begun& one : begun)
        if (is_above(p.start, one.folder)) below.push_back(one.ports);
    return below;
}

bool is_below(const Below& below, const Listed& listed, const ChannelRecord& channel, const SlotRecord& slot) {
    return !(slot.folder == listed.folder) &&
           std::find(below.begin(), below.end(), std::pair(channel.inport, channel.outport)) != below.end();
}

// The in-port's steps that an open by a name in the folder finds, of those published so far. `unread`: that the rank
// has not consumed.
void find_steps(const Process& p, int index, const Listed& listed, const Below& below, uint64_t so_far, bool unread,
                std::vector<Found>& found) {
    const Board& board = p.board;
    const PortRecord& port = board.port(index);
    const std::string folder = listed.path.empty() ? "" : listed.path == "/" ? "/" : listed.path + "/";
    const TaskRecord& task = board.task(p.context.task);
    const auto add = [&](const std::string& base, int at) {
        const SlotRecord& slot = board.slot(at);
        // (A file that the task has made is the disk's.)
        if (task.makes.load(std::memory_order_relaxed) > 0 &&
            past::has(board, task.made, key_of(listed.folder, base.c_str()).text))
            return;
        found.push_back(found_step(port, at, base, slot.stamp, slot.published_stamp));
    };
    if (in_order(port)) {
        const std::string base = base_of(own_name(port));
        const std::string name = folder + base;
        const queue::Found next =
            is_called(port, name.c_str()) ? queue::find(board, index, p.context.rank, name.c_str()) : queue::Found{};
        if (next.slot >= 0 && (next.unread || !unread)) add(base, next.slot);
        return;
    }
    for (const ChannelRecord& channel : channels_of(board, port)) {
        if (p.context.rank >= channel.readers) continue;
        for (const SlotRecord& slot : steps_of(board, channel)) {
            if (slot.published_stamp > so_far || is_below(below, listed, channel, slot)) continue;
            const std::string base = base_of(slot.name);
            const std::string name = folder + base;
            if (!is_called(port, name.c_str()) || !means(port, name.c_str(), slot.name)) continue;
            const bool consumed =
                queue::has_consumed(board, channel, board.source(slot.source).rank, p.context.rank, slot);
            if (consumed && unread) continue;
            const int k = board.index(slot);
            int still = k;
            const bool shown = !consumed || queue::find(board, index, p.context.rank, name.c_str()).slot == k ||
                               (queue::find_consumed(board, index, p.context.rank, name.c_str(), &still) && still == k);
            if (shown) add(base, k);
        }
    }
}

// A program that lists again and again until there are as many files as it needs reads none before: queues that are
// full are to grow.
void note_listing(const Process& p, int index, uint64_t last) {
    if (note_listed(p.board, index, p.context.rank, last) && !in_order(p.board.port(index)))
        end_circle_of_poll(p.board, p.rank_index, index);
}

}  // namespace

std::vector<ListedStep> list_steps(const Listed& listed, bool by_program) {
    const Process& p = process();
    const Below below = find_below(p, listed);
    std::vector<Found> found;
    {
        Board::Lock lock(p.board);
        int listed_port = -1;
        uint64_t last = 0;  // publication of a step of others
        for (const PortRecord& port : ports_of(p)) {
            const int i = p.board.index(port);
            if (port.direction == Direction::out) {
                for (const SlotRecord& slot : slots_of(p.board, port))
                    if (slot.folder == listed.folder && is_own_file(p, slot))
                        found.push_back(found_step(port, p.board.index(slot), base_of(slot.name), slot.stamp,
                                                   UINT64_MAX - slot.stamp));
            } else if (queue::may_read(p.board, i, p.context.rank) && !before_first(p, i) && lies_in(p, port, listed)) {
                const bool whole = port.keys.listing == Lists::end && !queue::can_produce(p.board, i);
                const bool counts = by_program && !in_order(port);
                const uint64_t so_far = counts ? queue::begin_listing(p.board, i, p.context.rank, whole) : UINT64_MAX;
                if (counts) note_listing_again(p, i);
                const size_t before = found.size();
                find_steps(p, i, listed, below, so_far, false, found);
                for (size_t k = before; k < found.size(); ++k) last = std::max(last, found[k].place);
                if (listed_port < 0 || in_order(p.board.port(listed_port))) listed_port = i;
            }
        }
        if (by_program && listed_port >= 0) note_listing(p, listed_port, last);
    }
    show_files(p.board, found);
    // Of others' steps of one name, an open leads to the one published first; of its own, to the newest.
    std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
        return std::tie(a.step.name, a.place) < std::tie(b.step.name, b.place);
    });
    std::vector<ListedStep> steps;
    for (Found& one : found)
        if (steps.empty() || steps.back().name != one.step.name) steps.push_back(std::move(one.step));
    return steps;
}

News list_unread(const Listed& listed, bool found_nothing) {
    const Process& p = process();
    const Below below = find_below(p, listed);
    std::vector<Found> found;
    News news;
    Board::Lock lock(p.board);
    for (const PortRecord& port : ports_of(p, Direction::in)) {
        const int i = p.board.index(port);
        if (!queue::may_read(p.board, i, p.context.rank) || before_first(p, i)) continue;
        const Held held = holds_in(p, port, listed);
        if (held == Held::not_yet) news.several = true;
        if (held != Held::yes) continue;
        find_steps(p, i, listed, below, UINT64_MAX, true, found);
        news.several = news.several || news.inport >= 0;
        news.inport = i;
    }
    std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.place < b.place; });
    const uint64_t last = found.empty() ? 0 : found.back().place;
    lock.release();
    show_files(p.board, found);
    lock.acquire();
    for (Found& one : found) news.steps.push_back(std::move(one.step));
    if (news.inport < 0) return news;
    news.bell = p.board.bell(news.inport);
    if (!found_nothing) return news;
    if (queue::can_produce(p.board, news.inport)) note_listing(p, news.inport, last);
    else note_failed(p.board, news.inport, p.context.rank, p.board.port(news.inport).pattern);
    return news;
}

bool covers_set(const Listed& listed, const Match& match, bool is_folder) {
    const Process& p = process();
    const PortRecord& port = p.board.port(match.outport >= 0 ? match.outport : match.inport);
    if (sets::is_list(port) == is_folder) return false;
    if (match.outport >= 0) return !is_folder && !port.keys.on_disk;
    Board::Lock lock(p.board);
    return lies_in(p, port, listed) &&
           !(port.keys.on_disk && queue::let_go_of(p.board, port, match.name) == queue::LetGo::read);
}

bool is_covered(const Listed& listed, const Match& match, uint64_t* stored_as) {
    *stored_as = 0;
    const Process& p = process();
    if (match.outport >= 0 && !disk::has_files(p.board, match.outport)) return true;
    if (match.inport < 0) return false;
    Board::Lock lock(p.board);
    if (!lies_in(p, p.board.port(match.inport), listed)) return false;
    const std::optional<Stored> stored = find_let_go(p, match, lock);
    if (stored) *stored_as = disk::identity_of(stored->file);
    return !stored;
}

}  // namespace wilkins
