// Steps that this process reads: waits for those of in-ports, and finds those it wrote itself; other ranks attach to them.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/fault.hpp"
#include "base/raw.hpp"
#include "queue/answers.hpp"
#include "queue/parts.hpp"
#include "queue/queue.hpp"
#include "queue/stand_in.hpp"
#include "queue/vain_opens.hpp"
#include "store/disk.hpp"
#include "store/first_opens.hpp"
#include "store/let_go.hpp"
#include "store/parts.hpp"
#include "store/second_pass.hpp"
#include "store/stage.hpp"
#include "store/unmatched_names.hpp"
#include "waiting/members.hpp"
#include "waiting/wait.hpp"

namespace wilkins {

namespace {

std::atomic<uint64_t> private_copies{0};

}  // namespace

void sweep_dead_readers(Process& p, int port) {
    for (RankRecord& rank : ranks_of(p.board))
        queue::each_hold(p.board, rank, [&](int32_t held, uint32_t process) {
            if (port >= 0 && p.board.source(p.board.slot(held).source).port != port) return;
            if (p.board.is_over(process)) queue::drop_hold(p.board, p.board.index(rank), held, process);
        });
}

namespace {

void explain_missing(const Process& p, const Match& match, const char* why) {
    log_line("task '%s' rank %d: no such file '%s': %s", p.task_name(), p.told_rank(), match.name, why);
}

const char* why_missing(const Board& board, const PortRecord& inport, const char* name, const queue::Found& found) {
    if (stands_in(inport) && !means(inport, name, "")) return "another name stands for the steps of the in-port";
    if (queue::let_go_of(board, inport, name) == queue::LetGo::read)
        return "its task has read the step of this name, whose memory is that of a later one by now; to find more of them again, give the in-port a "
               "longer 'reorder'";
    if (found.passed) return "the step of this name was dropped or let go";
    if (!queue::is_strange(board, inport, name)) return "the stream has ended";
    return "the stream has ended, and no producer has written a file of such a name; if it is to mean the next step, whatever that is "
           "called, give it to the in-port as its 'as'";
}

// The rank opens the name, and gets the step `next`, or none: it may have gone by a look that has shown it the step before that.
void hint_at_looks(const Process& p, int inport, const char* name, const Look* next) {
    static std::atomic<bool> told{false};
    const PortRecord& port = p.board.port(inport);
    const Looked& looked = p.board.looked(port, p.context.rank);
    const bool shown = looked.had.identity == 0 && looked.had_name == hash_name(port, name);
    if (!shown || !in_order(port) || (next && next->size == looked.had.size) || told.exchange(true)) return;
    log_line("hint: task '%s' rank %d looked at '%s' when it had read it and no other was there, was shown what it had read, and opened the name "
             "again, which %s; if it opens what it sees, give the in-port 'looks: wait', and each look waits for the next step",
             p.task_name(), p.told_rank(), name, next ? "led to the next step, of another size" : "found the end of the stream");
}

// The rank has got a step of an in-port: it goes on, although one of another in-port was not there when its task opened that a second time.
void hint_at_opens(const Process& p, const char* name) {
    for (PortRecord& port : ports_of(p, Direction::in)) {
        if (!port.again) continue;
        port.again = 0;
        log_line("hint: task '%s' rank %d opened '%s' again, of which it had read the only step, found none, and went on to '%s'; if it opens the "
                 "same file several times, give the in-port '%s' 'opens_per_step:' with a number as high",
                 p.task_name(), p.told_rank(), port.pattern, name, port.pattern);
    }
}

// The rank has got a step, and has left a newer version of a name behind that it has read.
void hint_at_newer(const Process& p, int inport, int index) {
    PortRecord& port = p.board.port(inport);
    const int left = port.told_newer ? -1 : queue::newer_behind(p.board, inport, index);
    if (left < 0) return;
    port.told_newer = 1;
    const SlotRecord& newer = p.board.slot(left);
    log_line("hint: task '%s' rank %d went on to '%s', and has not read the newer '%s', which was published after it had read that name; if each "
             "file is whole only when it was written n times, give the out-port '%s' 'publish: n', or 'publish: next' if it is reopened for that",
             p.task_name(), p.told_rank(), p.board.slot(index).name, newer.name, p.board.port(p.board.source(newer.source).port).pattern);
}

}  // namespace

int too_many_open(const Process& p, const char* name) {
    fail_run(p,
             "task '%s' rank %d has %d steps open at once, and to open '%s', too, the shared memory of %s is too full; close files "
             "that are no longer read, or free some memory there",
             p.task_name(), p.told_rank(), queue::count_holds(p.board, p.rank_index), name, p.board.folder());
    return EMFILE;
}

StepFile* open_held(int index, uint64_t stamp, const char* name, int* error, uint64_t place) {
    Process& p = process();
    WILKINS_FAULT_POINT("open.before-map");
    Mapping mapping;
    const bool lent = p.board.slot(index).lent.is != Absence::none;
    *error = p.arenas->map(index, lent, &mapping);
    WILKINS_FAULT_POINT("open.mapped");
    // Where address space is limited, a mapping may be shorter than a step.
    if (!*error && p.board.slot(index).size.load() > mapping.length) *error = ENOMEM;
    if (!*error) *error = open_to(mapping, p.board.slot(index).size.load());
    StepFile* file = *error ? nullptr : make_file(Role::reader, index, mapping, stamp, name, place);
    if (file) {
        file->state->published = p.board.slot(index).published_stamp;
        file->state->lent = lent;
        file->state->size = p.board.slot(index).size.load();
        return file;
    }
    if (!*error) *error = ENOMEM;
    Board::Lock lock(p.board);
    queue::drop_hold(p.board, p.rank_index, index, p.board.self());
    return nullptr;
}

bool may_read(const Board& board, int inport, int rank) {
    const PortRecord& port = board.port(inport);
    for (const ChannelRecord& channel : channels_of(board, port))
        if (rank < channel.readers) return true;
    return false;
}

StepFile* read_disk(const char* path, const char* name, int* error) {
    disk::Image image;
    if ((*error = disk::map_file(path, &image))) return nullptr;
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

namespace {

// A program that adds to a file of its own, and has none yet, waits for a step of the name only while one may come. Is none to be waited for?
bool is_own(const Process& p, const Match& match, Wait& wait, Board::Lock& lock) {
    PortRecord& inport = p.board.port(match.inport);
    if (!match.makes || !queue::is_strange(p.board, inport, match.name)) return false;
    if (queue::may_stand_in(p.board, inport, match.name) || (stands_in(inport) && !means(inport, match.name, ""))) return true;
    if (!wait.is_in_vain(lock)) return false;
    if (!inport.told_missing) {
        inport.told_missing = 1;
        log_line("task '%s' rank %d opens '%s' to add to it, and all that could write it waits for this task: it is a file of the task's own; a "
                 "pattern of the in-port '%s' that does not match it saves the wait",
                 p.task_name(), p.told_rank(), match.name, inport.pattern);
    }
    return true;
}

}  // namespace

StepFile* read_step(const Match& match, Intent intent, int ranks, int* error) {
    Process& p = process();
    const Board& board = p.board;
    int index = -1;
    uint64_t stamp = 0;
    char name[kNameMax];
    std::optional<Stored> stored;
    {
        Board::Lock lock(board);
        if (!may_read(board, match.inport, p.context.rank)) {
            log_line("error: task '%s' rank %d opens '%s', but the port's nreaders leaves this rank out; raise nreaders", p.task_name(),
                     p.told_rank(), match.name);
            *error = EACCES;
            return nullptr;
        }
        note_came(board, p.rank_index);
        if (answer_first(p, match.inport, match.name, intent != Intent::look) != First::wait) {
            *error = ENOENT;
            return nullptr;
        }
        note_member(board, p.rank_index, false);
        Wait wait(p, WaitFor::data, match.inport, match.name);
        for (;;) {
            if (queue::may_stand_in(board, board.port(match.inport), match.name) && !match.makes) {
                OnDisk file;
                lock.release();
                const bool there = disk::look(match.name, &file);
                lock.acquire();
                queue::decide(board, match.inport, p.context.rank, match.name, there ? &file : nullptr);
            } else if (intent != Intent::look) {
                queue::name_opened(board, match.inport, match.name);
            }
            const queue::Found found = queue::find(board, match.inport, p.context.rank, match.name);
            if (!found.chosen && queue::asks_for_double(board, match.inport, p.context.rank, match.name)) {
                *error = EACCES;
                return nullptr;
            }
            const bool over = found.slot < 0 && (found.passed || !queue::can_produce(board, match.inport));
            if ((over || found.slot >= 0) && queue::comes_late(board, match.inport, p.context.rank, found)) {
                fail_run(p,
                         "task '%s': rank %d begins to read '%s', after other ranks have read steps of it together, as if they alone "
                         "did; give the in-port 'nreaders: %d', so that every step waits for all ranks",
                         p.task_name(), p.told_rank(), match.name, board.task(p.context.task).nprocs);
                *error = EACCES;
                return nullptr;
            }
            if (found.slot >= 0) {
                WILKINS_FAULT_POINT("open.found");
                if (!queue::add_hold(board, p.rank_index, found.slot)) {
                    *error = too_many_open(p, match.name);
                    return nullptr;
                }
                WILKINS_FAULT_POINT("open.held");
                if (intent != Intent::look) {
                    if (!found.unread) hint_at_open_again(p, match.inport, board.slot(found.slot).opened_at);
                    else note_went_on(p, WentOn::read, match.name);
                    queue::take(board, match.inport, p.context.rank, found);
                    ++p.me().files;
                    const Look next = {board.slot(found.slot).size.load(), board.slot(found.slot).stamp, board.slot(found.slot).published_ns};
                    hint_at_looks(p, match.inport, match.name, &next);
                    hint_at_opens(p, match.name);
                    if (found.unread) hint_at_newer(p, match.inport, found.slot);
                    note_had(board, match.inport, p.context.rank, found.slot, match.name);
                    queue::opened_in_part(board, match.inport, ranks);
                }
                WILKINS_FAULT_POINT("open.taken");
                index = found.slot;
                break;
            }
            if (over && (stored = find_let_go(p, match, lock))) {
                if (intent != Intent::look) queue::note_had_late(board, match.inport, match.name);
                ++p.me().files;
                board.head().moved_at = now_ns();
                break;
            }
            if (over && queue::let_go_of(board, board.port(match.inport), match.name) == queue::LetGo::read) {
                *error = refuse_let_go(p, match);
                return nullptr;
            }
            if (over) {
                queue::note_vain_open(board, match.inport, p.context.rank, match.name, asker());
                PortRecord& inport = board.port(match.inport);
                hint_at_looks(p, match.inport, match.name, nullptr);
                inport.again = in_order(inport) && inport.steps == 1;
                note_in_vain(p, match.inport, match.name, intent == Intent::look);
                explain_missing(p, match, why_missing(board, board.port(match.inport), match.name, found));
                *error = ENOENT;
                return nullptr;
            }
            if (is_own(p, match, wait, lock)) {
                *error = ENOENT;
                return nullptr;
            }
            stage::pass_on(p);
            if ((*error = wait.nap(lock))) return nullptr;
        }
        if (!stored) stamp = board.slot(index).stamp;
        strcpy(name, match.name);
    }
    if (stored) return open_stored(match, *stored, error);
    return open_held(index, stamp, name, error, match.place);
}

StepFile* reread_own(const Match& match, int* error) {
    Process& p = process();
    const uint64_t place = place_of(match);
    const bool on_disk = disk::has_files(p.board, match.outport);
    int index;
    uint64_t stamp = 0;
    uint32_t closes = 0;
    bool known = false;
    const auto note_own = [&](StepFile* file) {
        if (file && index >= 0) file->state->own = {index, stamp};
        if (file) file->state->closes = closes;
        return file;
    };
    {
        Board::Lock lock(p.board);
        index = queue::find_own(p.board, match.outport, match.name, place);
        if (index >= 0) closes = p.board.slot(index).closes;
        if (index >= 0 && !on_disk && !queue::add_hold(p.board, p.rank_index, index)) {
            *error = too_many_open(p, match.name);
            return nullptr;
        }
        if (index >= 0) stamp = p.board.slot(index).stamp;
        else if (!on_disk) known = queue::exists(p.board, p.board.source(p.board.port(match.outport), p.context.rank), match.name);
    }
    if (on_disk) return note_own(read_disk(match.name, match.name, error));
    if (index < 0) {
        *error = ENOENT;
        if (known)
            explain_missing(p, match,
                            "its task has written it, but its readers have had it, and its memory holds a later step; a longer "
                            "'queue' of the port keeps more steps, 'mode: both' keeps every file on disk");
        return nullptr;
    }
    return note_own(open_held(index, stamp, match.name, error, place));
}

namespace {

// Memory of the process's own for so many bytes, which `fill` brings there: it returns 0 or an errno.
template <class Fill>
StepFile* make_copy(uint64_t size, const char* name, int* error, Fill fill) {
    Mapping mapping;
    if (map_most(-1, process().board.head().reserve, size, true, &mapping) != 0) {
        *error = ENOMEM;
        return nullptr;
    }
    StepFile* const file = open_to(mapping, size) != 0 ? nullptr : make_file(Role::own_copy, -1, mapping, (1ull << 63) | ++private_copies, name);
    if (!file) {
        unmap(mapping);
        *error = ENOMEM;
        return nullptr;
    }
    *error = fill(mapping.bytes);
    file->state->size = size;
    if (*error == 0) return file;
    free_file(file);
    return nullptr;
}

// A copy in the process's own memory.
StepFile* copy_of(StepFile* from, int* error) {
    const uint64_t size = from->eof();
    StepFile* const file = make_copy(size, from->name(), error, [&](unsigned char* to) {
        from->read(0, to, size);
        return from->settle();
    });
    if (file) file->state->published = from->state->published;
    return file;
}

}  // namespace

StepFile* copy_of_file(int fd, const char* name, int* error) {
    struct stat st;
    if (raw::fstat(fd, &st) != 0) {
        *error = errno;
        return nullptr;
    }
    const auto size = static_cast<uint64_t>(st.st_size);
    return make_copy(size, name, error, [&](unsigned char* to) {
        for (uint64_t done = 0; done < size;) {
            const ssize_t n = raw::pread(fd, to + done, size - done, static_cast<off_t>(done));
            if (n == 0) break;  // it was cut meanwhile
            if (n > 0) done += static_cast<uint64_t>(n);
            else if (errno != EINTR) return errno;
        }
        return 0;
    });
}

StepFile* to_draft(StepFile* from, const Match& match, int* error) {
    *error = 0;
    const uint64_t published = from->state->published;
    StepFile* const file = make_file(Role::draft, -1, {}, from->identity(), match.name, from->state->place);
    std::unique_ptr<Draft> draft(new (std::nothrow) Draft(from, match));
    if (file && draft) {
        file->state->draft = std::move(draft);
        file->state->published = published;
        return file;
    }
    if (!draft) close_step(from);
    if (file) free_file(file);
    *error = ENOMEM;
    return nullptr;
}

StepFile* to_draft_in_memory(StepFile* from, int* error) {
    *error = 0;
    StepFile* const file = copy_of(from, error);
    if (file) file->state->draft = std::move(from->state->draft);
    free_file(from);
    return file;
}

StepFile* private_copy(StepFile* from, int* error) {
    *error = 0;
    StepFile* const file = copy_of(from, error);
    close_step(from);
    return file;
}

int descriptor_to_read(StepFile* file) {
    StepFile::State* const state = file->state;
    if (state->fd >= 0 || state->role != Role::own_copy) return file->descriptor();
    const int fd = memfd_create("wilkins-copy", MFD_CLOEXEC);
    for (uint64_t done = 0; fd >= 0 && done < state->size;) {
        const ssize_t n = raw::write(fd, state->mapping.bytes + done, state->size - done);
        if (n >= 0) {
            done += static_cast<uint64_t>(n);
        } else if (const int error = errno; error != EINTR) {
            raw::close(fd);
            errno = error;
            return -1;
        }
    }
    return state->fd = fd;
}

StepFile* borrow_far(StepFile* far, int* error) {
    *error = 0;
    StepFile* const file = copy_of(far, error);
    if (!file) {
        close_step(far);
        return nullptr;
    }
    file->state->home = std::move(far->state->far);
    free_file(far);
    return file;
}

void end_peer(SlotRecord& slot, uint64_t stamp) {
    if (slot.stamp == stamp && slot.peers > 0) --slot.peers;
}

StepFile* attach_step(const StepToken& token, bool writable, const char* name, int* error) {
    Process& p = process();
    *error = 0;
    uint64_t stamp;
    {
        Board::Lock lock(p.board);
        if (token.slot < 0 || token.slot >= p.board.head().slots || p.board.slot(token.slot).stamp != token.stamp) {
            *error = ESTALE;
            return nullptr;
        }
        SlotRecord& slot = p.board.slot(token.slot);
        stamp = slot.stamp;
        ++p.me().files;
        if (writable) {
            ++slot.peers;
            WILKINS_FAULT_POINT("attach.peer");
        } else if (!queue::add_hold(p.board, p.rank_index, token.slot)) {
            *error = too_many_open(p, name);
            return nullptr;
        } else {
            for (const PortRecord& port : ports_of(p, Direction::in)) queue::follow_lead(p.board, p.board.index(port), p.context.rank, token.slot);
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

StepFile* attach_far(const char* where, const StepToken& token, bool writable, const Match& match, const char* said, int* error) {
    Process& p = process();
    {
        Board::Lock lock(p.board);
        ++p.me().files;
    }
    std::unique_ptr<FarFile> far = FarFile::open(where, token, writable ? Use::write : Use::read, said, token.slot >= 0 ? served_at() : "", error);
    if (!far) return nullptr;
    StepFile* const file = make_file(Role::far, -1, {}, (1ull << 63) | hash_text(where, far->token().stamp), match.name);
    if (!file) {
        *error = ENOMEM;
        return nullptr;
    }
    file->state->far = std::move(far);
    file->state->outport = match.outport;
    return file;
}

}  // namespace wilkins
