// The steps of an in-port one after the other, for programs written for Wilkins: a C interface for
// wilkins/transport/steps.py.
#include <cerrno>
#include <cstring>

#include "base/patterns.hpp"
#include "board/border.hpp"
#include "board/process.hpp"
#include "queue/parts.hpp"
#include "queue/queue.hpp"
#include "queue/alias.hpp"
#include "waiting/wait.hpp"

using namespace wilkins;

namespace {

// The task's in-port with this pattern, compared on the last components; without a pattern its only one. -1: none.
int find_inport(const Process& p, const char* pattern) {
    int found = -1, inports = 0;
    for (const PortRecord& port : ports_of(p, Direction::in)) {
        ++inports;
        char clean[kNameMax];
        const bool same =
            !pattern[0] || (normalise(pattern, clean, sizeof(clean)) &&
                            (!strcmp(clean, port.pattern) ||
                             !strcmp(last_components(clean, static_cast<int>(port.components)), port.pattern)));
        if (same && found < 0) found = p.board.index(port);
    }
    return pattern[0] || inports == 1 ? found : -1;
}

}  // namespace

// The index of this process's in-port, or -ENODEV: it is not part of a run, -ENOENT: it has no such in-port in memory,
// -EACCES: its rank is not one of the port's readers.
WILKINS_API(int, wilkins_steps_port(const char* pattern)) {
    Process& p = process();
    if (!p.context.active) return -ENODEV;
    const int index = find_inport(p, pattern);
    if (index < 0) return -ENOENT;
    PortRecord& port = p.board.port(index);
    port.touched = 1;
    return queue::may_read(p.board, index, p.context.rank) ? index : -EACCES;
}
WILKINS_OR(-errno)

// Waits for the in-port's next step and takes it: 0, with the step's name in `name`; ENOENT: none will come; EINTR: the
// run is being stopped, or Python has an exception to raise. Leaves the step before.
WILKINS_API(int, wilkins_steps_next(int index, char* name)) {
    Process& p = process();
    const Board& board = p.board;
    Board::Lock lock(board);
    queue::leave(board, index, p.context.rank);
    Wait wait(p, WaitFor::data, index, board.port(index).pattern);
    for (;;) {
        const int slot = queue::choose(board, index, p.context.rank);
        if (slot >= 0) {
            strcpy(name, name_for(board.port(index), board.slot(slot)));
            return 0;
        }
        if (queue::has_its_step(board, index, p.context.rank) || !queue::can_produce(board, index)) return ENOENT;
        if (const int error = wait.nap(lock)) return error;
    }
}
WILKINS_OR(errno)

// Processes of the rank take the steps by turns, each of them whole before another one asks.
WILKINS_API(void, wilkins_steps_by_turns(int index)) { process().board.port(index).by_turns = 1; }
WILKINS_OR()

// The program is done with the step before and asks for no other.
WILKINS_API(void, wilkins_steps_leave(int index)) {
    Process& p = process();
    Board::Lock lock(p.board);
    queue::leave(p.board, index, p.context.rank);
}
WILKINS_OR()

// The patterns of the task's in-ports in memory, one per line; as snprintf.
WILKINS_API(size_t, wilkins_steps_ports(char* text, size_t room)) {
    const Process& p = process();
    size_t used = 0;
    for (const PortRecord& port : ports_of(p, Direction::in)) {
        const size_t length = strlen(port.pattern);
        if (used + length + 2 <= room) {
            memcpy(text + used, port.pattern, length);
            text[used + length] = '\n';
        }
        used += length + 1;
    }
    if (room) text[used < room ? used : room - 1] = 0;
    return used;
}
WILKINS_OR(0)
