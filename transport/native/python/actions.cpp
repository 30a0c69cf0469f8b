// The C functions by which a Python task's start-up code (transport/actions.py) sets hooks, and by which these serve
// files.
#include "board/border.hpp"
#include "events.hpp"
#include "hdf5/hdf5.hpp"
#include "queue/queue.hpp"
#include "queue/closed.hpp"
#include "queue/alias.hpp"
#include "steps/actions.hpp"
#include "steps/snapshot.hpp"
#include "steps/step_file.hpp"
#include "store/store.hpp"
#include "waiting/wait.hpp"

#include <cerrno>
#include <cstring>

namespace wilkins {
namespace actions {
namespace {

std::atomic<bool> keeps{false};

bool is_own(const Process& p, const SlotRecord& slot) {
    const SourceRecord& source = p.board.source(slot.source);
    return p.board.port(source.port).task == p.context.task &&
           (source.rank == p.context.rank || slot.writer == p.rank_index);
}

// This rank's closed file that was begun first after `stamp`, or -1.
int next_closed(const Process& p, uint64_t stamp) {
    int found = -1;
    for (const SlotRecord& slot : slots_of(p.board)) {
        if (slot.state != SlotState::closed || slot.stamp <= stamp || !is_own(p, slot)) continue;
        if (found < 0 || slot.stamp < p.board.slot(found).stamp) found = p.board.index(slot);
    }
    return found;
}

// Files that are closed: published as they are, or as copies if they are to be kept.
int serve_closed() {
    Process& p = process();
    for (uint64_t stamp = 0;;) {
        Match match;
        {
            Board::Lock lock(p.board);
            const int index = next_closed(p, stamp);
            if (index < 0) return 0;
            SlotRecord& slot = p.board.slot(index);
            stamp = slot.stamp;
            if (!keeps) {
                if (slot.snapshots > 0 && slot.snapshot_changes == slot.changes.load()) queue::withdraw(p.board, index);
                else queue::publish(p.board, index);
                continue;
            }
            match.outport = p.board.source(slot.source).port;
            strcpy(match.name, slot.name);
        }
        int error = 0;
        StepFile* file = open_step(match, Intent::update, 1, &error);
        if (!file) return error;
        error = publish_snapshot(file, true);
        close_step(file);
        if (error) return error;
    }
}

// Files that are open: HDF5 flushes them, and what they then hold is published.
bool serve_open() {
    FlushCall under_way(Flushing::by_layer);
    return flush_open_files(closing.closed);
}

}  // namespace

}  // namespace actions
}  // namespace wilkins

using namespace wilkins;
using namespace wilkins::actions;

// The rank within the task, or -1 outside a run.
WILKINS_API(int, wilkins_actions_rank()) {
    const Process& p = process();
    return p.context.active ? p.task_rank() : -1;
}
WILKINS_OR(-1)

WILKINS_API(void, wilkins_actions_hook(int event, void (*hook)(const char*))) {
    if (event < 0 || event >= kEvents) return;
    hooks[event].store(hook);
    active = true;
}
WILKINS_OR()

WILKINS_API(void, wilkins_actions_serve_on_close(int serves)) {
    serves_on_close = serves != 0;
    active = true;
}
WILKINS_OR()

WILKINS_API(void, wilkins_actions_keep(int keep)) { keeps = keep != 0; }
WILKINS_OR()

// Publishes what this rank has written: files that are open, and files that are closed and were kept back. 0 or an
// errno.
WILKINS_API(int, wilkins_actions_serve_all()) {
    if (closing.depth > 0) {
        closing.serve = true;
        return 0;
    }
    const bool flushed = serve_open();
    const int error = serve_closed();
    return error ? error : flushed ? 0 : EIO;
}
WILKINS_OR(errno)

// Takes this rank's closed files away that were kept back.
WILKINS_API(void, wilkins_actions_clear()) {
    const Process& p = process();
    if (!p.context.active) return;
    Board::Lock lock(p.board);
    for (int index; (index = next_closed(p, 0)) >= 0;) queue::withdraw(p.board, index);
}
WILKINS_OR()

// The k-th in-port's pattern; its length, or -1 if there is none.
WILKINS_API(int, wilkins_actions_inport(int k, char* pattern, int room)) {
    const Process& p = process();
    for (const PortRecord& port : ports_of(p, Direction::in)) {
        if (k-- > 0) continue;
        if (static_cast<int>(strlen(port.pattern)) >= room) return -1;
        strcpy(pattern, port.pattern);
        return static_cast<int>(strlen(pattern));
    }
    return -1;
}
WILKINS_OR(-1)

// The name of the step that the k-th in-port would give next; waits for one. Its length, 0 at the end of the stream, or
// -1.
WILKINS_API(int, wilkins_actions_next(int k, char* name, int room)) {
    Process& p = process();
    if (!p.context.active || room < static_cast<int>(kNameMax)) return -1;
    for (const PortRecord& port : ports_of(p, Direction::in)) {
        if (k-- > 0) continue;
        Board::Lock lock(p.board);
        Wait wait(p, WaitFor::data, p.board.index(port), port.pattern);
        for (;;) {
            const int slot = queue::next_step(p.board, p.board.index(port));
            if (slot >= 0) {
                strcpy(name, name_for(port, p.board.slot(slot)));
                return static_cast<int>(strlen(name));
            }
            if (!queue::can_produce(p.board, p.board.index(port))) return 0;
            if (wait.nap(lock)) return -1;
        }
    }
    return -1;
}
WILKINS_OR(-1)

WILKINS_API(int, wilkins_actions_matches(const char* name)) {
    Match match;
    return match_name(name, &match) ? 1 : 0;
}
WILKINS_OR(0)

WILKINS_API(void, wilkins_actions_log(const char* method, const char* why)) {
    log_event(event::no_action(method, why));
}
WILKINS_OR()
