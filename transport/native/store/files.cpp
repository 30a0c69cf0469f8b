// The StepFiles that this process has open, so that a second open of a file being written finds the first.
#include <unistd.h>

#include <climits>
#include <cstring>
#include <mutex>
#include <new>
#include <string>

#include "base/patterns.hpp"
#include "base/raw.hpp"
#include "store/joined.hpp"
#include "store/lent.hpp"
#include "store/parts.hpp"

namespace wilkins {

namespace {

std::mutex open_mutex;
StepFile::State* open_files = nullptr;

void enlist(StepFile::State* state) {
    std::lock_guard<std::mutex> guard(open_mutex);
    state->next = open_files;
    if (open_files) open_files->previous = state;
    open_files = state;
}

void delist(StepFile::State* state) {
    std::lock_guard<std::mutex> guard(open_mutex);
    if (state->previous) state->previous->next = state->next;
    else open_files = state->next;
    if (state->next) state->next->previous = state->previous;
}

// Of the absolute path.
uint64_t hash_place(const char* name) {
    char folder[PATH_MAX];
    if (name[0] == '/' || !getcwd(folder, sizeof(folder))) return hash_text(name);
    char whole[PATH_MAX + kNameMax], clean[PATH_MAX + kNameMax];
    const size_t n = strlen(folder);
    memcpy(whole, folder, n);
    whole[n] = '/';
    strcpy(whole + n + 1, name);
    return hash_text(normalise(whole, clean, sizeof(clean)) ? clean : whole);
}

}  // namespace

uint64_t place_of(const Match& match) {
    if (match.place == 0) match.place = hash_place(match.name);
    return match.place;
}

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
    state->place = place ? place : hash_place(name);
    strncpy(state->name, name, sizeof(state->name) - 1);
    file->state = state;
    enlist(state);
    return file;
}

bool StepFile::State::mine() const { return process == wilkins::process().board.joined(); }

void free_file(StepFile* file) {
    StepFile::State* state = file->state;
    delist(state);
    if (state->lent) lent::note_read(state);
    if (state->fd >= 0) raw::close(state->fd);
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

}  // namespace

StepFile* find_open(const Match& match, bool written) {
    const uint64_t place = place_of(match);
    StepFile::State* found = nullptr;
    std::unique_lock<std::mutex> guard(open_mutex);
    for (StepFile::State* s = open_files; s && !found; s = s->next) {
        if (s->place != place) continue;
        if (s->role == Role::far) {
            if (s->far->writable() == written) found = s;
        } else if (!written) {
            if (s->role == Role::reader) found = s;
        } else if (s->role == Role::own_copy) {
            return nullptr;
        } else if (s->role == Role::lead || s->role == Role::peer) {
            const SlotRecord& slot = process().board.slot(s->slot);
            if (is_writing(slot, s->identity) && !slot.removed) found = s;
        }
    }
    if (!found) return nullptr;
    if (found->far) return also_far(*found, guard);
    const StepToken token = {found->slot, found->slot, found->identity};
    guard.unlock();
    int error = 0;
    if (written) return joined::open(match, &error);
    StepFile* const file = attach_step(token, false, match.name, &error);
    if (file) file->state->again = true;
    return file;
}

bool count_write(const char* name, uint32_t every) {
    std::lock_guard<std::mutex> guard(open_mutex);
    for (StepFile::State* s = open_files; s; s = s->next)
        if ((s->role == Role::lead || s->role == Role::peer || s->role == Role::far) && strcmp(s->name, name) == 0) return ++s->dataset_writes % every == 0;
    return false;
}

}  // namespace wilkins
