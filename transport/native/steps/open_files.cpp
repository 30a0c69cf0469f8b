// The StepFiles that this process has open, so that a second open of a file being written finds the first.
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "base/patterns.hpp"
#include "base/raw.hpp"
#include "board/step_token.hpp"
#include "board/views.hpp"
#include "events.hpp"
#include "names/places.hpp"
#include "steps/closing.hpp"
#include "steps/joined.hpp"
#include "steps/lazy.hpp"
#include "steps/step_file.hpp"
#include "steps/viewers.hpp"

namespace wilkins {

namespace {

std::mutex open_mutex;

StepFile::State* open_files = nullptr;

std::atomic<int> drafts{0};

Arenas* forking = nullptr;  // that nobody maps meanwhile; guarded by the mutex

void enlist(StepFile::State* state) {
    std::lock_guard<std::mutex> guard(open_mutex);
    drafts += state->role == Role::draft;
    state->next = open_files;
    if (open_files) open_files->previous = state;
    open_files = state;
}

void delist(StepFile::State* state) {
    std::lock_guard<std::mutex> guard(open_mutex);
    drafts -= state->role == Role::draft;
    if (state->previous) state->previous->next = state->next;
    else open_files = state->next;
    if (state->next) state->next->previous = state->previous;
}

}  // namespace

void note_cwd(const Board& board, SlotRecord& slot) {
    SourceRecord& source = board.source(slot.source);
    char now[kNameMax];
    if (!getcwd(now, sizeof(now))) now[0] = 0;
    if (strcmp(now, source.cwd) != 0) {
        strcpy(source.cwd, now);
        ++source.cwds;
    }
    slot.cwds = source.cwds;
}

StepFile* make_file(Role role, int slot, const Mapping& mapping, uint64_t identity, const char* name, uint64_t place) {
    auto* state = new (std::nothrow) StepFile::State();
    auto* file = new (std::nothrow) StepFile();
    if (!state || !file) {
        delete state;
        delete file;
        return nullptr;
    }
    state->role = role;
    state->slot = slot;
    state->mapping = mapping;
    state->identity = identity;
    state->process = process().board.self();
    state->place = place ? place : place_of(name);
    strncpy(state->name, name, sizeof(state->name) - 1);
    file->state = state;
    if (slot >= 0) process().arenas->count_user(slot, 1);
    enlist(state);
    return file;
}

namespace {

constexpr int kMostHeld = 8;  // steps that a process holds on the board, of those that its program opens by their names

// What lies on disk is never another step's.
bool is_on_disk(const StepFile::State& state) {
    const Board& board = process().board;
    return board.port(board.source(board.slot(state.slot).source).port).keys.mode == Mode::file;
}

// Keeps a step that is held by a page. False if it cannot be.
bool keep_by_page(StepFile::State* state) {
    const Process& p = process();
    SlotRecord& slot = p.board.slot(state->slot);
    const int fd = p.arenas->open(state->slot, false);
    struct stat st;
    if (fd >= 0 && raw::fstat(fd, &st) == 0) state->inode = st.st_ino;
    state->page = views::keep_by_page(fd);
    if (state->page) slot.viewed.store(1);
    return state->page != nullptr;
}

}  // namespace

void viewers::note_opened(const StepFile* file) {
    if (!file || file->state->role != Role::reader) return;
    std::lock_guard<std::mutex> guard(open_mutex);
    file->state->by_name = true;
    int held = 0;
    StepFile::State* first = nullptr;
    for (StepFile::State* s = open_files; s; s = s->next) {
        if (s->role != Role::reader || !s->by_name || !s->held || s->lazy || !s->mine()) continue;
        ++held;
        first = s;
    }
    if (held <= kMostHeld) return;
    const Process& p = process();
    // (Its name in the run's folder may soon be another file's.)
    if (is_on_disk(*first) && first->fd < 0) first->fd = p.arenas->open(first->slot, false);
    if (is_on_disk(*first) ? first->fd < 0 : !keep_by_page(first)) return;
    Board::Lock lock(p.board);
    end_hold(p, first);
}

// No step is opened or closed meanwhile.
void viewers::before_fork() {
    open_mutex.lock();
    for (StepFile::State* s = open_files; s; s = s->next) {
        if (s->role != Role::reader || !s->held || !s->mine() || is_on_disk(*s) || keep_by_page(s)) continue;
        log_event(event::not_kept_for_child(s->name, errno));
    }
    const Process* const p = known_process();
    forking = p ? p->arenas : nullptr;
    if (forking) forking->before_fork();
}

void viewers::after_fork(bool child) {
    if (forking) forking->after_fork();
    for (StepFile::State* s = open_files; s && !child; s = s->next)
        if (s->page && s->held && s->mine()) views::let_go(std::exchange(s->page, nullptr));
    open_mutex.unlock();
}

bool StepFile::State::mine() const { return process == wilkins::process().board.joined(); }

void free_file(StepFile* file) {
    StepFile::State* state = file->state;
    delist(state);
    if (state->lazy) lazy::note_read(state);
    if (state->fd >= 0) raw::close(state->fd);
    if (state->page) views::let_go(state->page);
    if (state->slot >= 0) process().arenas->count_user(state->slot, -1);
    if (state->role == Role::own_copy || !state->mapping.kept) unmap(state->mapping);  // there is none of a far one
    delete state;
    delete file;
}

namespace {

// One more handle on a step of another host.
StepFile* also_far(const StepFile::State& state, std::unique_lock<std::mutex>& guard) {
    const std::string where = state.far->where();
    const StepToken token = state.far->token();
    const bool writable = state.far->writable();
    Match match;
    match.outport = state.outport;
    strcpy(match.name, state.name);
    guard.unlock();
    int error = 0;
    return attach_far(where.c_str(), token, writable, match, match.name, &error);
}

// By which the process has the step open. Call with the mutex held.
StepFile::State* find_state(uint64_t place, bool written) {
    for (StepFile::State* s = open_files; s; s = s->next) {
        if (s->place != place) continue;
        if (s->role == Role::far) {
            if (s->far->writable() == written) return s;
        } else if (!written) {
            if (s->role == Role::reader) return s;
        } else if (s->role == Role::own_copy || s->role == Role::draft) {
            return nullptr;
        } else if (s->role == Role::lead || s->role == Role::peer) {
            const SlotRecord& slot = process().board.slot(s->slot);
            if (is_writing(slot, s->identity) && !slot.removed && !s->is_renamed(slot)) return s;
        }
    }
    return nullptr;
}

StepToken token_of(const StepFile::State& state) { return {state.slot, state.slot, state.identity}; }

}  // namespace

StepFile* find_open(const Match& match, bool written) {
    const uint64_t place = place_of(match);
    std::unique_lock<std::mutex> guard(open_mutex);
    const StepFile::State* const found = find_state(place, written);
    if (!found) return nullptr;
    if (found->far) return also_far(*found, guard);
    const StepToken token = token_of(*found);
    guard.unlock();
    int error = 0;
    if (written) return joined::open(match, &error);
    StepFile* const file = attach_step(token, false, match.name, &error);
    if (file) file->state->again = true;
    return file;
}

StepFile* find_written(const Match& match) {
    const uint64_t place = place_of(match);
    std::unique_lock<std::mutex> guard(open_mutex);
    const StepFile::State* const found = find_state(place, true);
    if (!found) return nullptr;
    if (found->far) return also_far(*found, guard);
    const StepToken token = token_of(*found);
    guard.unlock();
    int error = 0;
    return attach_step(token, true, match.name, &error);
}

bool StepFile::State::is_renamed(const SlotRecord& now) const {
    return joined && is_writing(now, identity) && now.place_hash != place;
}

void rename_open(int slot, uint64_t stamp, const char* name, uint64_t place) {
    std::lock_guard<std::mutex> guard(open_mutex);
    for (StepFile::State* s = open_files; s; s = s->next) {
        if (s->slot != slot || s->identity != stamp) continue;
        strcpy(s->name, name);
        s->place = place;
    }
}

bool has_draft(const char* name) {
    if (drafts.load(std::memory_order_relaxed) == 0) return false;
    char clean[kNameMax];
    if (!normalise(name, clean, sizeof(clean))) return false;
    const uint64_t place = place_of(clean);
    std::lock_guard<std::mutex> guard(open_mutex);
    const StepFile::State* s = open_files;
    while (s && (s->role != Role::draft || s->place != place)) s = s->next;
    return s != nullptr;
}

bool count_write(const char* name, uint32_t every) {
    std::lock_guard<std::mutex> guard(open_mutex);
    for (StepFile::State* s = open_files; s; s = s->next)
        if ((s->role == Role::lead || s->role == Role::peer || s->role == Role::far) && strcmp(s->name, name) == 0)
            return ++s->dataset_writes % every == 0;
    return false;
}

}  // namespace wilkins
