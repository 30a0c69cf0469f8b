// Opening and closing steps: does what the state machine says, and waits where it says so.
#include "store.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <mutex>
#include <new>

#include "disk.hpp"
#include "fault.hpp"
#include "match.hpp"
#include "process.hpp"
#include "actions.hpp"
#include "first.hpp"
#include "queue.hpp"
#include "raw.hpp"
#include "resting.hpp"
#include "snapshot.hpp"
#include "step_file.hpp"
#include "trace.hpp"
#include "wait.hpp"

namespace wilkins {

namespace {

std::atomic<uint64_t> private_copies{0};

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

// Open StepFiles of this process, so that a second open of a file being written finds the first.
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

StepFile* make_file(Role role, int slot, const Mapping& mapping, uint64_t identity, const char* name) {
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
    state->pid = getpid();
    state->place = hash_place(name);
    strncpy(state->name, name, sizeof(state->name) - 1);
    file->state = state;
    enlist(state);
    return file;
}

bool is_dead(int pid) { return kill(pid, 0) != 0 && errno == ESRCH; }

// Slots whose writer died without a word (a crashed program inside a shell-script task).
void sweep_dead_writers(Process& p, int source_index) {
    const SourceRecord& source = p.board.source(source_index);
    for (int k = source.first_slot; k < source.first_slot + source.slots; ++k) {
        SlotRecord& slot = p.board.slot(k);
        if (slot.state == SlotState::writing && is_dead(slot.writer_pid)) queue::clear_slot(p.board, k);
    }
}

}  // namespace

void sweep_dead_readers(Process& p, int port) {
    for (int r = 0; r < p.board.head().ranks; ++r) {
        RankRecord& rank = p.board.rank(r);
        for (int k = 0; k < kHolds; ++k) {
            if (rank.holds[k] < 0 || (port >= 0 && p.board.source(p.board.slot(rank.holds[k]).source).port != port)) continue;
            if (is_dead(rank.holders[k])) queue::drop_hold(p.board, r, rank.holds[k], rank.holders[k]);
        }
    }
}

namespace {

// Goes on with a file of this task that rests. nullptr with ENOENT: there is none.
StepFile* reopen_resting(const Match& match, bool empty, int* error) {
    Process& p = process();
    const uint64_t place = hash_place(match.name);
    int index;
    uint64_t stamp;
    {
        Board::Lock lock(p.board);
        index = queue::find_resting(p.board, match.outport, match.name, place);
        if (index < 0) {
            const bool may_rest = rests(p.board.port(match.outport).habits);
            const int written = !may_rest ? -1 : queue::find_resting(p.board, match.outport, match.name, place, SlotState::writing);
            *error = written >= 0 && !is_dead(p.board.slot(written).writer_pid) ? EAGAIN : ENOENT;
            if (*error == EAGAIN)
                log_line("error: task '%s' rank %d opens '%s' to add to it, but rank %d has not closed it yet", p.task_name(),
                         p.context.rank, match.name, p.board.rank(p.board.slot(written).writer).rank);
            return nullptr;
        }
        queue::turn_to(p.board, p.board.port(match.outport).first_source + p.context.rank, place);
        SlotRecord& slot = p.board.slot(index);
        slot.writer = p.rank_index;
        slot.writer_pid = getpid();
        slot.state = SlotState::writing;
        WILKINS_FAULT_POINT("rest.reopened");
        stamp = slot.stamp;
    }
    Mapping mapping;
    *error = p.arenas->map(index, true, &mapping);
    StepFile* file = *error ? nullptr : make_file(Role::lead, index, mapping, stamp, match.name);
    if (file) {
        if (empty) file->set_eof(0);
        return file;
    }
    if (!*error) *error = ENOMEM;
    Board::Lock lock(p.board);
    p.board.slot(index).state = SlotState::resting;
    return nullptr;
}

// A step that the launcher has given up (its program was said to have ended) is no longer this process's to finish.
bool is_writing(const SlotRecord& slot, uint64_t stamp) { return slot.state == SlotState::writing && slot.stamp == stamp; }

// The step never existed.
void give_up(const Process& p, int index, uint64_t stamp) {
    Board::Lock lock(p.board);
    const SlotRecord& slot = p.board.slot(index);
    if (is_writing(slot, stamp)) {
        disk::forget(p.board, index);
        queue::clear_slot(p.board, index);
    }
    p.board.ring(p.board.source(slot.source).port);
}

StepFile* create(const Match& match, bool exclusive, int* error) {
    Process& p = process();
    const Board& board = p.board;
    const PortRecord& port = board.port(match.outport);
    const int source_index = port.first_source + p.context.rank;
    const uint64_t place = hash_place(match.name);
    bool goes_on = port.habits.publish != Publish::next;
    if (!goes_on) {  // but for what the task's actions keep back: that is not published by turning to it again
        Board::Lock lock(board);
        const int resting = queue::find_resting(board, match.outport, match.name, place);
        goes_on = resting >= 0 && board.slot(resting).kept_back;
    }
    if (goes_on && !exclusive) {
        if (StepFile* file = reopen_resting(match, true, error)) return file;
        if (*error != ENOENT && *error != EAGAIN) return nullptr;
        *error = 0;
    }
    {
        Board::Lock lock(board);
        int clash = queue::find_clash(board, match.outport, p.context.rank, place);
        if (clash >= 0) {
            // The rank that fails may leave the others in a collective call for ever: this ends the run.
            fail_run(p,
                     "task '%s': ranks %d and %d both create '%s'; let each rank write a name of its own, or write one file together "
                     "through MPI-IO",
                     p.task_name(), board.source(board.slot(clash).source).rank, p.context.rank, match.name);
            *error = EEXIST;
            return nullptr;
        }
        if (exclusive && (disk::has_files(board, match.outport)
                              ? disk::exists(match.name)
                              : queue::exists(board, board.source(source_index), match.name) ||
                                    queue::find_resting(board, match.outport, match.name, place) >= 0)) {
            *error = EEXIST;
            return nullptr;
        }
        queue::turn_to(board, source_index, 0);
    }
    return begin_step(match, source_index, place, Role::lead, error);
}

}  // namespace

StepFile* begin_step(const Match& match, int source_index, uint64_t place, Role role, int* error) {
    Process& p = process();
    const Board& board = p.board;
    const PortRecord& port = board.port(match.outport);
    int index = -1;
    uint64_t stamp = 0;
    {
        Board::Lock lock(board);
        sweep_dead_writers(p, source_index);
        Wait wait(p, WaitFor::room, match.outport, match.name);
        for (;;) {
            if (queue::has_room(board, source_index, match.name)) {
                index = queue::take_slot(board, source_index, false);
                if (index < 0) index = queue::take_slot(board, source_index, true);
                if (index >= 0) break;
                sweep_dead_readers(p, match.outport);
                if (queue::drop_kept_back(board, source_index)) continue;
                if (queue::full_of_resting(board, source_index)) {
                    fail_run(p,
                             "task '%s' rank %d: %d files of port '%s' are closed but not yet published, more than can rest at once; "
                             "its 'publish' says that they will be added to, which these files are not: mend that key",
                             p.task_name(), p.context.rank, board.source(source_index).slots, port.pattern);
                    *error = ENOSPC;
                    return nullptr;
                }
            }
            if ((*error = wait.nap(lock))) return nullptr;
        }
        WILKINS_FAULT_POINT("create.slot-taken");
        ++p.me().files;
        SlotRecord& slot = board.slot(index);
        slot.writer = p.rank_index;
        slot.writer_pid = getpid();
        slot.stamp = stamp = ++board.head().stamp;
        slot.place_hash = place;
        strcpy(slot.name, match.name);
        WILKINS_FAULT_POINT("create.named");
        slot.state = SlotState::writing;
        WILKINS_FAULT_POINT("create.writing");
        trace::note(board, "create", p.context.task, p.context.rank, port.pattern, match.name, -1, -1);
        // The second file of a source tells readers whether its names are unique (see queue::find).
        const SourceRecord& source = board.source(source_index);
        if (!source.rewrites && !source.renames)
            for (int k = 0; k < port.links; ++k) board.ring(board.channel(board.link(port, k)).inport);
    }
    WILKINS_FAULT_POINT("create.before-map");
    Mapping mapping;
    *error = disk::begin(board, index);
    if (!*error) *error = p.arenas->map(index, true, &mapping);
    WILKINS_FAULT_POINT("create.mapped");
    if (!*error) {
        // The table first: if this process dies in between, the next writer empties it again.
        SlotRecord& slot = board.slot(index);
        memset(static_cast<void*>(mapping.blocks), 0, slot.touched.load());
        WILKINS_FAULT_POINT("create.emptied");
        slot.touched.store(0);
    }
    StepFile* file = *error ? nullptr : make_file(role, index, mapping, stamp, match.name);
    if (!file) {
        if (!*error) *error = ENOMEM;
        give_up(p, index, stamp);
        return nullptr;
    }
    return file;
}

namespace {

void explain_missing(const Process& p, const Match& match, const char* why) {
    log_line("task '%s' rank %d: no such file '%s': %s", p.task_name(), p.context.rank, match.name, why);
}

// A rank beyond the port's readers has no mark to move.
bool may_read(const Board& board, int inport, int rank) {
    const PortRecord& port = board.port(inport);
    for (int k = 0; k < port.links; ++k)
        if (rank < board.channel(board.link(port, k)).readers) return true;
    return false;
}

// Maps a published step that this rank has just taken a hold on; without success the hold ends.
StepFile* open_held(int index, uint64_t stamp, const char* name, int* error) {
    Process& p = process();
    WILKINS_FAULT_POINT("open.before-map");
    Mapping mapping;
    *error = p.arenas->map(index, false, &mapping);
    WILKINS_FAULT_POINT("open.mapped");
    // Where address space is limited, a mapping may be shorter than a step.
    if (!*error && p.board.slot(index).size.load() > mapping.length) *error = ENOMEM;
    StepFile* file = *error ? nullptr : make_file(Role::reader, index, mapping, stamp, name);
    if (file) return file;
    if (!*error) *error = ENOMEM;
    Board::Lock lock(p.board);
    queue::drop_hold(p.board, p.rank_index, index, getpid());
    return nullptr;
}

// `ranks`: of the task, that open it together.
StepFile* read_step(const Match& match, Intent intent, int ranks, int* error) {
    Process& p = process();
    const Board& board = p.board;
    int index = -1;
    uint64_t stamp = 0;
    char name[kNameMax];
    {
        Board::Lock lock(board);
        if (!may_read(board, match.inport, p.context.rank)) {
            log_line("error: task '%s' rank %d opens '%s', but the port's nreaders leaves this rank out; raise nreaders", p.task_name(),
                     p.context.rank, match.name);
            *error = EACCES;
            return nullptr;
        }
        if (answer_first(p, match.inport, intent != Intent::look) != First::wait) {
            *error = ENOENT;
            return nullptr;
        }
        Wait wait(p, WaitFor::data, match.inport, match.name);
        for (;;) {
            const queue::Found found = queue::find(board, match.inport, p.context.rank, match.name);
            const bool over = found.slot < 0 && (found.passed || !queue::can_produce(board, match.inport));
            if ((over || found.slot >= 0) && queue::comes_late(board, match.inport, p.context.rank, found)) {
                fail_run(p,
                         "task '%s': rank %d begins to read '%s', after other ranks have read steps of it together, as if they alone "
                         "did; give the in-port 'nreaders: %d', so that every step waits for all ranks",
                         p.task_name(), p.context.rank, match.name, board.task(p.context.task).nprocs);
                *error = EACCES;
                return nullptr;
            }
            if (found.slot >= 0) {
                WILKINS_FAULT_POINT("open.found");
                if (!queue::add_hold(board, p.rank_index, found.slot)) {
                    log_line("error: task '%s' rank %d has %d steps open at once; close files that are no longer read", p.task_name(),
                             p.context.rank, kHolds);
                    *error = EMFILE;
                    return nullptr;
                }
                WILKINS_FAULT_POINT("open.held");
                if (intent != Intent::look) {
                    queue::take(board, match.inport, p.context.rank, found);
                    ++p.me().files;
                    queue::opened_in_part(board, match.inport, ranks);
                }
                WILKINS_FAULT_POINT("open.taken");
                index = found.slot;
                break;
            }
            if (over) {
                if (!found.passed) board.task(p.context.task).saw_end = 1;
                explain_missing(p, match, found.passed ? "the step of this name was dropped or let go" : "the stream has ended");
                *error = ENOENT;
                return nullptr;
            }
            if ((*error = wait.nap(lock))) return nullptr;
        }
        stamp = board.slot(index).stamp;
        strcpy(name, match.name);
    }
    return open_held(index, stamp, name, error);
}

// Opens the program's own file on disk.
StepFile* read_disk(const char* name, int* error) {
    disk::Image image;
    if ((*error = disk::map_file(name, &image))) return nullptr;
    Mapping mapping;
    mapping.bytes = image.bytes;
    mapping.length = image.length;
    mapping.kept = false;
    StepFile* file = make_file(Role::on_disk, -1, mapping, image.identity, name);
    if (!file) {
        *error = ENOMEM;
        munmap(image.bytes, image.length);
        raw::close(image.fd);
        return nullptr;
    }
    file->state->size = image.size;
    file->state->fd = image.fd;
    return file;
}

// Opens a step that this task itself published and that is still whole. Where its files are on disk, that is what the
// program alone would read.
StepFile* reread_own(const Match& match, int* error) {
    Process& p = process();
    if (disk::has_files(p.board, match.outport)) return read_disk(match.name, error);
    const uint64_t place = hash_place(match.name);
    int index;
    uint64_t stamp = 0;
    {
        Board::Lock lock(p.board);
        index = queue::find_own(p.board, match.outport, match.name, place);
        if (index >= 0 && !queue::add_hold(p.board, p.rank_index, index)) {
            *error = EMFILE;
            return nullptr;
        }
        if (index >= 0) stamp = p.board.slot(index).stamp;
    }
    if (index < 0) {
        *error = ENOENT;
        return nullptr;
    }
    return open_held(index, stamp, match.name, error);
}

// Turns a reader's step into memory of its own, which it may change.
StepFile* private_copy(StepFile* from, int* error) {
    const uint64_t size = from->eof();
    const uint64_t reserve = process().board.head().reserve;
    void* bytes = mmap(nullptr, reserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    StepFile* file = nullptr;
    if (bytes == MAP_FAILED) {
        *error = ENOMEM;
    } else {
        Mapping mapping;
        mapping.bytes = static_cast<unsigned char*>(bytes);
        mapping.length = reserve;
        mapping.writable = true;
        file = make_file(Role::own_copy, -1, mapping, (1ull << 63) | ++private_copies, from->name());
        if (file) {
            from->read(0, bytes, size);
            WILKINS_FAULT_POINT("copy.private");
            file->state->size = size;
        } else {
            munmap(bytes, reserve);
            *error = ENOMEM;
        }
    }
    close_step(from);
    return file;
}

// Says once per port that a file was published before its program had done with it.
void hint_at_publish(const Process& p, const Match& match) {
    PortRecord& port = p.board.port(match.outport);
    if (port.reopened.fetch_add(1) > 0) return;
    log_line("hint: task '%s' rank %d reopens '%s' to add to it after it was published, which makes a second step that starts as a "
             "copy of the first; if its consumers are to see it only when it is whole, say so on the out-port '%s': 'publish: next', "
             "or 'publish: n' if it is closed n times",
             p.task_name(), p.context.rank, match.name, port.pattern);
}

// Goes on with a file that rests, or with a new step that starts as a copy of one this task published.
StepFile* continue_own(const Match& match, int* error) {
    if (StepFile* file = reopen_resting(match, false, error)) return file;
    if (*error != ENOENT) return nullptr;
    StepFile* old = reread_own(match, error);
    if (!old) return nullptr;
    StepFile* file = create(match, false, error);
    if (file) {
        const uint64_t size = old->eof();
        *error = file->reserve(size);
        if (!*error) *error = file->write(0, old->data(), size);
        if (*error) {
            discard_step(file);
            file = nullptr;
        } else {
            hint_at_publish(process(), match);
            starts_as_snapshot(file);
        }
    }
    close_step(old);
    return file;
}

}  // namespace

namespace {

// A name that is too long for a step would go to the disk unseen; if it is a port's, that ends the run.
void explain_long_name(const Process& p, const char* name) {
    for (int i = p.first_port; i < p.last_port; ++i) {
        const PortRecord& port = p.board.port(i);
        if (port.task != p.context.task || !pattern_match(port.pattern, static_cast<int>(port.components), name)) continue;
        Board::Lock lock(p.board);
        fail_run(p, "task '%s' rank %d: a file of port '%s' has a name of %zu bytes, more than the %zu that a step can carry; open it "
                    "by a shorter path, relative to the task's folder",
                 p.task_name(), p.context.rank, port.pattern, strlen(name), kNameMax - 1);
        return;
    }
}

}  // namespace

StepFile* find_open(const char* name, bool written) {
    const uint64_t place = hash_place(name);
    StepFile::State* found = nullptr;
    std::unique_lock<std::mutex> guard(open_mutex);
    for (StepFile::State* s = open_files; s && !found; s = s->next)
        if ((s->role == Role::lead || s->role == Role::own_copy) == written && s->place == place) found = s;
    if (!found || found->role == Role::own_copy) return nullptr;
    const StepToken token = {found->slot, found->slot, found->identity};
    guard.unlock();
    int error = 0;
    return attach_step(token, true, &error);
}

bool count_write(const char* name, uint32_t every) {
    std::lock_guard<std::mutex> guard(open_mutex);
    for (StepFile::State* s = open_files; s; s = s->next)
        if ((s->role == Role::lead || s->role == Role::peer) && strcmp(s->name, name) == 0) return ++s->dataset_writes % every == 0;
    return false;
}

bool match_name(const char* name, Match* match) {
    Process& p = process();
    if (!p.context.active || !name || !name[0] || p.first_port == p.last_port || passing_through()) return false;
    if (!normalise(name, match->name, sizeof(match->name))) {
        explain_long_name(p, name);
        return false;
    }
    match->outport = match->inport = -1;
    for (int i = p.first_port; i < p.last_port; ++i) {
        const PortRecord& port = p.board.port(i);
        if (port.task != p.context.task) continue;
        int& side = port.direction == Direction::out ? match->outport : match->inport;
        if (side < 0 && pattern_match(port.pattern, static_cast<int>(port.components), match->name)) side = i;
    }
    return match->outport >= 0 || match->inport >= 0;
}

StepFile* open_step(const Match& match, Intent intent, int ranks, int* error) {
    Process& p = process();
    *error = 0;
    const bool creates = intent == Intent::create || intent == Intent::create_exclusive || intent == Intent::open_or_create;
    const bool produces = match.outport >= 0 && (creates || intent == Intent::update || match.inport < 0);
    if (!produces && creates) {
        log_line("error: task '%s' rank %d creates '%s', which is one of its in-ports; only the task that produces a file may create it",
                 p.task_name(), p.context.rank, match.name);
        *error = EACCES;
        return nullptr;
    }
    p.board.port(produces ? match.outport : match.inport).touched = 1;
    StepFile* file = nullptr;
    switch (intent) {
    case Intent::create:
    case Intent::create_exclusive: file = create(match, intent == Intent::create_exclusive, error); break;
    case Intent::open_or_create:
        file = continue_own(match, error);
        if (!file && *error == ENOENT) file = create(match, false, error);
        break;
    case Intent::read:
    case Intent::look: file = produces ? reread_own(match, error) : read_step(match, intent, ranks, error); break;
    case Intent::update:
        if (produces) {
            file = continue_own(match, error);
        } else {
            file = read_step(match, Intent::read, ranks, error);
            if (file) file = private_copy(file, error);
        }
        break;
    }
    if (file) *error = 0;
    return file;
}

bool saw_end() {
    const Process& p = process();
    return p.context.active && p.board.task(p.context.task).saw_end != 0;
}

namespace {

void end_peer(SlotRecord& slot, uint64_t stamp) {
    if (slot.stamp == stamp && slot.peers > 0) --slot.peers;
}

}  // namespace

StepFile* attach_step(const StepToken& token, bool writable, int* error) {
    Process& p = process();
    *error = 0;
    uint64_t stamp;
    char name[kNameMax];
    {
        Board::Lock lock(p.board);
        if (token.slot < 0 || token.slot >= p.board.head().slots || p.board.slot(token.slot).stamp != token.stamp) {
            *error = ESTALE;
            return nullptr;
        }
        SlotRecord& slot = p.board.slot(token.slot);
        stamp = slot.stamp;
        strcpy(name, slot.name);
        ++p.me().files;
        if (writable) {
            ++slot.peers;
            WILKINS_FAULT_POINT("attach.peer");
        } else if (!queue::add_hold(p.board, p.rank_index, token.slot)) {
            *error = EMFILE;
            return nullptr;
        } else {
            for (int i = 0; i < p.board.head().ports; ++i) {
                const PortRecord& port = p.board.port(i);
                if (port.task == p.context.task && port.direction == Direction::in)
                    queue::follow_lead(p.board, i, p.context.rank, token.slot);
            }
        }
    }
    if (!writable) return open_held(token.slot, stamp, name, error);
    WILKINS_FAULT_POINT("attach.before-map");
    Mapping mapping;
    *error = p.arenas->map(token.slot, true, &mapping);
    StepFile* file = *error ? nullptr : make_file(Role::peer, token.slot, mapping, stamp, name);
    if (file) return file;
    if (!*error) *error = ENOMEM;
    Board::Lock lock(p.board);
    end_peer(p.board.slot(token.slot), stamp);
    return nullptr;
}

namespace {

// The step's file takes its name on disk. A run whose archive has a gap is no good: that ends it.
int settle_on_disk(const StepFile* file) {
    const Process& p = process();
    const StepFile::State* state = file->state;
    const int error = disk::settle(p.board, state->slot, state->mapping.bytes, file->eof());
    if (!error) return 0;
    Board::Lock lock(p.board);
    fail_run(p, "task '%s' rank %d: '%s' could not be written to disk: %s; %s", p.task_name(), p.context.rank, state->name, strerror(error),
             error == ENOSPC || error == EDQUOT ? "free some space there, or write to another disk"
             : error == EPERM || error == EOPNOTSUPP ? "this file system has no hard links, which 'mode: file' needs; use 'mode: both'"
                                                     : "mend that, or use 'mode: memory'");
    return error;
}

// The arena becomes exactly the file: no stale byte below its end, nothing behind it.
int complete(StepFile* file) {
    Process& p = process();
    SlotRecord& slot = p.board.slot(file->state->slot);
    {
        Board::Lock lock(p.board);
        if (!is_writing(slot, file->state->identity)) return ESTALE;
    }
    if (int error = slot.broken.load()) return error;
    const uint64_t size = file->eof();
    const uint64_t blocks = (size + kBlock - 1) / kBlock;
    bool stale = slot.reserved.load() < size;
    for (uint64_t b = 0; b < blocks && !stale; ++b) stale = file->state->mapping.blocks[b].load() != kValid;
    if (stale) {
        if (int error = file->reserve(blocks * kBlock)) return error;
        if (slot.touched.load() < blocks) slot.touched.store(blocks);
        for (uint64_t b = 0; b < blocks; ++b) make_valid(file->state->mapping, b, slot.reserved.load());
    }
    WILKINS_FAULT_POINT("complete.valid");
    if (slot.reserved.load() != size)
        if (int error = p.arenas->trim(file->state->slot, size)) return error;
    return settle_on_disk(file);
}

// This rank closes a step that it took as its in-port's; to look at one, or to read one's own again, is no event.
void note_closed(const Process& p, int index) {
    const SlotRecord& slot = p.board.slot(index);
    const SourceRecord& source = p.board.source(slot.source);
    const PortRecord& outport = p.board.port(source.port);
    for (int k = 0; k < outport.links; ++k) {
        const ChannelRecord& channel = p.board.channel(p.board.link(outport, k));
        const PortRecord& inport = p.board.port(channel.inport);
        if (inport.task != p.context.task || !p.board.on(slot, channel.place) || p.context.rank >= channel.readers) continue;
        if (p.board.mark(channel, source.rank, p.context.rank).next <= slot.sequence) continue;
        trace::note(p.board, "close", inport.task, p.context.rank, inport.pattern, slot.name, static_cast<int64_t>(slot.sequence),
                    static_cast<int64_t>(slot.size.load()));
        return;
    }
}

void free_file(StepFile* file) {
    StepFile::State* state = file->state;
    delist(state);
    if (state->fd >= 0) raw::close(state->fd);
    if (state->role == Role::own_copy || !state->mapping.kept) munmap(state->mapping.bytes, state->mapping.length);
    delete state;
    delete file;
}

}  // namespace

void close_step(StepFile* file) {
    StepFile::State* state = file->state;
    Process& p = process();
    if (state->pid == getpid()) {
        if (state->role == Role::lead || state->role == Role::snapshot) {
            WILKINS_FAULT_POINT("close.begun");
            const int error = complete(file);
            WILKINS_FAULT_POINT("close.complete");
            if (error) {
                log_line("error: task '%s' rank %d: '%s' could not be written whole (%s), so no consumer sees it", p.task_name(),
                         p.context.rank, state->name, strerror(error));
                give_up(p, state->slot, state->identity);
            } else {
                const uint64_t digest = final_digest(file);
                Board::Lock lock(p.board);
                const bool mine = is_writing(p.board.slot(state->slot), state->identity);
                if (mine && state->role == Role::snapshot) queue::publish(p.board, state->slot);
                else if (mine) queue::close_slot(p.board, state->slot, digest, actions::keeps_back());
            }
        } else if (state->role == Role::peer) {
            WILKINS_FAULT_POINT("close.peer");
            Board::Lock lock(p.board);
            end_peer(p.board.slot(state->slot), state->identity);
        } else if (state->role == Role::reader) {
            WILKINS_FAULT_POINT("close.reader");
            Board::Lock lock(p.board);
            note_closed(p, state->slot);
            queue::drop_hold(p.board, p.rank_index, state->slot, state->pid);
        }
    }
    WILKINS_FAULT_POINT("close.before-free");
    free_file(file);
}

void discard_step(StepFile* file) {
    const StepFile::State* state = file->state;
    const bool writes = state->role == Role::lead || state->role == Role::snapshot;
    if (writes && state->pid == getpid()) give_up(process(), state->slot, state->identity);
    free_file(file);
}

bool on_disk(const Match& match) {
    return match.inport < 0 && disk::has_files(process().board, match.outport);
}

bool may_remove_file(const Match& match) {
    const Process& p = process();
    if (match.outport >= 0 || p.board.port(match.inport).habits.mode == Mode::memory) return true;
    if (p.board.port(match.inport).habits.mode == Mode::both || !may_read(p.board, match.inport, p.context.rank)) return false;
    Board::Lock lock(p.board);
    const queue::Found next = queue::find(p.board, match.inport, p.context.rank, match.name);
    return next.slot < 0 || !next.unread || !disk::is_named(p.board, next.slot, match.name);
}

bool lookup_step(const Match& match, uint64_t* size, uint64_t* identity, int64_t* published_ns) {
    Process& p = process();
    if (on_disk(match)) return disk::look(match.name, size, identity, published_ns);
    const uint64_t place = match.outport >= 0 ? hash_place(match.name) : 0;
    Board::Lock lock(p.board);
    int index = -1;
    if (match.inport >= 0 && may_read(p.board, match.inport, p.context.rank) && answer_first(p, match.inport, false) == First::wait)
        index = queue::find(p.board, match.inport, p.context.rank, match.name).slot;
    if (index < 0 && match.outport >= 0) index = queue::find_own(p.board, match.outport, match.name, place);
    if (index < 0) return false;
    const SlotRecord& slot = p.board.slot(index);
    *size = slot.size.load();
    *identity = slot.stamp;
    *published_ns = slot.published_ns;
    return true;
}

void list_steps(void (*each)(const char* name, void* user), void* user) {
    Process& p = process();
    if (!p.context.active) return;
    Board::Lock lock(p.board);
    for (int i = 0; i < p.board.head().ports; ++i) {
        const PortRecord& port = p.board.port(i);
        if (port.task != p.context.task || port.direction != Direction::in) continue;
        for (int s = 0; s < p.board.head().slots; ++s) {
            const SlotRecord& slot = p.board.slot(s);
            if (slot.state != SlotState::published) continue;
            if (!pattern_match(port.pattern, static_cast<int>(port.components), slot.name)) continue;
            const queue::Found found = queue::find(p.board, i, p.context.rank, slot.name);
            if (found.slot == s && found.unread && !before_first(p, i)) each(slot.name, user);
        }
    }
}

int remove_step(const Match& match) {
    Process& p = process();
    const uint64_t place = match.outport >= 0 ? hash_place(match.name) : 0;
    Board::Lock lock(p.board);
    bool removed = match.outport >= 0 && queue::remove_own(p.board, match.outport, match.name, place, false);
    if (match.inport >= 0 && may_read(p.board, match.inport, p.context.rank))
        removed = queue::let_go(p.board, match.inport, p.context.rank, match.name) || removed;
    return removed ? 0 : ENOENT;
}

int delete_file(const Match& match) {
    if (!on_disk(match)) return remove_step(match);
    if (raw::unlink(match.name) != 0) return errno;
    remove_step(match);
    return 0;
}

int rename_step(const Match& from, const Match& to) {
    Process& p = process();
    int error = 0;
    {
        const uint64_t place = hash_place(from.name), new_place = hash_place(to.name);
        Board::Lock lock(p.board);
        const int index = from.outport == to.outport ? queue::find_resting(p.board, from.outport, from.name, place) : -1;
        if (index >= 0) {
            const int replaced = queue::find_resting(p.board, to.outport, to.name, new_place);
            if (replaced == index) return 0;
            if (const int refused = disk::rename_file(p.board, index, from.name, to.name)) return refused;
            if (replaced >= 0) queue::withdraw(p.board, replaced);
            SlotRecord& slot = p.board.slot(index);
            strcpy(slot.name, to.name);
            slot.place_hash = new_place;
            return 0;
        }
    }
    StepFile* old = reread_own(from, &error);
    if (!old) return error;
    {
        // First, for it may take the room that the new name needs.
        const uint64_t place = hash_place(from.name);
        Board::Lock lock(p.board);
        queue::remove_own(p.board, from.outport, from.name, place, true);
    }
    WILKINS_FAULT_POINT("rename.removed");
    StepFile* file = create(to, false, &error);
    if (file) {
        const uint64_t size = old->eof();
        error = file->write(0, old->data(), size);
        WILKINS_FAULT_POINT("rename.written");
        if (error) discard_step(file);
        else close_step(file);
    }
    close_step(old);
    if (!error && disk::has_files(p.board, from.outport)) raw::unlink(from.name);
    return error;
}

}  // namespace wilkins
