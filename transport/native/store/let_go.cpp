#include "store/let_go.hpp"

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "base/patterns.hpp"
#include "events.hpp"
#include "names/places.hpp"
#include "names/second_pass.hpp"
#include "steps/disk.hpp"
#include "steps/handles.hpp"
#include "store/store.hpp"
#include "waiting/wait.hpp"

namespace wilkins {

namespace {

// Where the file of a name may lie: where the program says, or where a producer has written, if the program may call
// that otherwise.
std::vector<std::string> places(const Board& board, const PortRecord& inport, const char* name) {
    std::vector<std::string> found = {name};
    for (const PortRecord& out : outports_of(board, inport))
        if (out.begun) found.push_back(std::string(out.begun_in) + "/" + last_components(name, 1));
    return found;
}

}  // namespace

std::optional<Stored> find_stored(const Process& p, const Match& match, Board::Lock& lock) {
    const PortRecord& inport = p.board.port(match.inport);
    if (inport.keys.mode == Mode::memory) return {};
    for (const std::string& place : places(p.board, inport, match.name)) {
        Stored stored;
        if (place.size() >= sizeof(stored.path)) continue;
        lock.release();
        const int saved = errno;
        const bool there = disk::look(place.c_str(), &stored.file);
        errno = saved;
        lock.acquire();
        if (!there || !queue::is_step_file(p.board, inport, match.name, stored.file.inode)) continue;
        strcpy(stored.path, place.c_str());
        return stored;
    }
    return {};
}

std::optional<Stored> find_let_go(const Process& p, const Match& match, Board::Lock& lock) {
    const PortRecord& inport = p.board.port(match.inport);
    if (queue::let_go_of(p.board, inport, match.name) == queue::LetGo::no) return {};
    return find_stored(p, match, lock);
}

StepFile* open_stored(const Match& match, const Stored& stored, int* error) {
    StepFile* const file = read_disk(stored.path, match.name, error);
    if (!file) return nullptr;
    file->state->published = kPublishedEarlier;
    if (file->identity() == disk::identity_of(stored.file)) return file;
    close_step(file);
    *error = ENOENT;
    return nullptr;
}

int refuse_let_go(const Process& p, const Match& match, bool looks_into) {
    const PortRecord& inport = p.board.port(match.inport);
    const bool on_disk = inport.keys.mode != Mode::memory;
    fail_run(p, event::opens_replaced(looks_into, match.name, on_disk, inport.pattern, steps_to_keep(p.board, inport),
                                      !on_disk && !inport.keys.is_set));
    return EIO;
}

namespace {

constexpr int64_t kLongestStay = 5'000'000'000;  // ns

// The run ends. Until then the program is not to go on with what HDF5 makes of a file that is missing.
void stay(Process& p, int port, Board::Lock& lock) {
    const int64_t since = now_ns();
    while (now_ns() - since < kLongestStay && nap(p, port, lock) == 0) continue;
}

}  // namespace

int refuse_gone_within(Process& p, const Match& match, Board::Lock& lock) {
    const PortRecord& inport = p.board.port(match.inport);
    fail_run(p, event::leads_to_replaced(match.name, inport.pattern));
    stay(p, match.inport, lock);
    return EIO;
}

StepFile* open_gone_within(const Match& match, int* error) {
    Process& p = process();
    const PortRecord& inport = p.board.port(match.inport);
    std::optional<Stored> found;
    {
        Board::Lock lock(p.board);
        if (queue::is_removed(p.board, inport, match.name)) {
            *error = ENOENT;
            return nullptr;
        }
        if (!queue::was_published(p.board, inport, match.name)) {
            lock.release();
            StepFile* const file = open_step(match, Intent::read, 1, error);  // which says why there is none
            // It may be a file that its producer writes beside its ports: HDF5 would go on with fill values.
            return !file && *error == ENOENT && disk::exists(match.name) ? read_disk(match.name, match.name, error)
                                                                         : file;
        }
        if (!in_order(inport)) found = find_stored(p, match, lock);
        if (!found) {
            const bool read = queue::let_go_of(p.board, inport, match.name) == queue::LetGo::read;
            fail_run(p, event::leads_to_gone(match.name, read, inport.pattern, steps_to_keep(p.board, inport),
                                             inport.keys.mode == Mode::memory));
            stay(p, match.inport, lock);
            *error = EIO;
            return nullptr;
        }
        queue::note_consumed_late(p.board, match.inport, match.name);
        p.board.port(match.inport).touched = 1;
        ++p.me().files;
        p.board.head().moved_at = now_ns();
    }
    return open_stored(match, *found, error);
}

int refuse_untaken_within(const char* name) {
    Process& p = process();
    const int saved = errno;
    const PortRecord* out = nullptr;
    Board::Lock lock(p.board);
    int port = p.first_port;
    for (; port < p.last_port; ++port)
        if (p.board.port(port).task == p.context.task && p.board.port(port).direction == Direction::in &&
            (out = published_by(p.board, port, name)))
            break;
    errno = saved;
    if (!out) return ENOENT;
    fail_run(p, event::leads_to_untaken(name, p.board.task(out->task).name, last_components(name, 1), out->pattern));
    stay(p, port, lock);
    return EIO;
}

int refuse_own_within(const Match& match) {
    Process& p = process();
    Board::Lock lock(p.board);
    const PortRecord& port = p.board.port(match.outport);
    bool written = false;
    for (const SourceRecord& source : sources_of(p.board, port))
        written = written || queue::exists(p.board, source, match.name);
    if (!written) return ENOENT;
    fail_run(p, event::leads_to_own(match.name, port.pattern));
    stay(p, match.outport, lock);
    return EIO;
}

}  // namespace wilkins
