// Opens steps: maps what the board says, and makes copies in the process's own memory.
#include "steps/handles.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/fault.hpp"
#include "base/raw.hpp"
#include "events.hpp"
#include "board/step_token.hpp"
#include "names/places.hpp"
#include "queue/parts.hpp"
#include "queue/queue.hpp"
#include "steps/disk.hpp"
#include "steps/open_files.hpp"
#include "steps/sums.hpp"

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

int too_many_open(const Process& p, const char* name) {
    fail_run(p, event::too_many_open(queue::count_holds(p.board, p.rank_index), name, p.board.folder()));
    return EMFILE;
}

StepFile* open_held(int index, uint64_t stamp, const char* name, int* error, uint64_t place) {
    Process& p = process();
    WILKINS_FAULT_POINT("open.before-map");
    Mapping mapping;
    const bool lazy = p.board.slot(index).lazy.is != Absence::none;
    *error = p.arenas->map(index, lazy, &mapping);
    WILKINS_FAULT_POINT("open.mapped");
    // Where address space is limited, a mapping may be shorter than a step.
    if (!*error && p.board.slot(index).size.load() > mapping.length) *error = ENOMEM;
    if (!*error) *error = open_to(mapping, p.board.slot(index).size.load());
    StepFile* file = *error ? nullptr : make_file(Role::reader, index, mapping, stamp, name, place);
    if (file) {
        file->state->published = p.board.slot(index).published_stamp;
        file->state->lazy = lazy;
        file->state->size = p.board.slot(index).size.load();
        if ((*error = sums::load(file->state)) == 0) return file;
        free_file(file);
    }
    if (!*error) *error = ENOMEM;
    Board::Lock lock(p.board);
    queue::drop_hold(p.board, p.rank_index, index, p.board.self());
    return nullptr;
}

namespace {

// Is this step still in its slot? What other hosts say of one is only a number.
bool is_known(const Board& board, int slot, uint64_t stamp) {
    return slot >= 0 && slot < board.head().slots && board.slot(slot).stamp == stamp &&
           board.slot(slot).state != SlotState::free;
}

}  // namespace

StepFile* hold_again(int index, uint64_t stamp, const char* name, int* error) {
    const Process& p = process();
    {
        Board::Lock lock(p.board);
        *error = is_known(p.board, index, stamp) && p.board.slot(index).state == SlotState::published ? 0 : ESTALE;
        if (!*error && !queue::add_hold(p.board, p.rank_index, index)) *error = too_many_open(p, name);
    }
    StepFile* const file = *error ? nullptr : open_held(index, stamp, name, error);
    if (file) file->state->again = true;
    return file;
}

StepFile* hold_too(const StepFile& file, int* error) {
    return hold_again(file.state->slot, file.state->identity, file.state->name, error);
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
        else if (!on_disk)
            known = queue::exists(p.board, p.board.source(p.board.port(match.outport), p.context.rank), match.name);
    }
    if (on_disk) return note_own(read_disk(match.name, match.name, error));
    if (index < 0) {
        *error = ENOENT;
        if (known) log_event(event::no_such_file(match.name, event::Missing::own_replaced));
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
    StepFile* const file = open_to(mapping, size) != 0
                               ? nullptr
                               : make_file(Role::own_copy, -1, mapping, (1ull << 63) | ++private_copies, name);
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
        if (!is_known(p.board, token.slot, token.stamp)) {
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
            for (const PortRecord& port : ports_of(p, Direction::in))
                queue::follow_lead(p.board, p.board.index(port), p.context.rank, token.slot);
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

StepFile* attach_far(const char* where, const StepToken& token, bool writable, const Match& match, const char* said,
                     int* error) {
    Process& p = process();
    {
        Board::Lock lock(p.board);
        ++p.me().files;
    }
    std::unique_ptr<FarFile> far =
        FarFile::open(where, token, writable ? Use::write : Use::read, said, token.slot >= 0 ? served_at() : "", error);
    if (!far) return nullptr;
    StepFile* const file =
        make_file(Role::far, -1, {}, (1ull << 63) | hash_text(where, far->token().stamp), match.name);
    if (!file) {
        *error = ENOMEM;
        return nullptr;
    }
    file->state->far = std::move(far);
    file->state->outport = match.outport;
    return file;
}

}  // namespace wilkins
