// Waits for a step or for room without taking it.
#include "store/before_open.hpp"

#include "names/match.hpp"
#include "queue/parts.hpp"
#include "queue/alias.hpp"
#include "store/left_out.hpp"
#include "store/stage.hpp"
#include "waiting/wait.hpp"

namespace wilkins {

// (What a name means that may yet come to stand for the steps, the open decides.)
bool is_answered(const Process& p, const Match& match) {
    const Board& board = p.board;
    if (queue::may_be_alias(board, board.port(match.inport), match.name)) return true;
    queue::name_opened(board, match.inport, match.name);
    const queue::Found found = queue::find(board, match.inport, p.context.rank, match.name);
    return found.slot >= 0 || found.passed || !queue::can_produce(board, match.inport) ||
           queue::asks_for_double(board, match.inport, p.context.rank, match.name);
}

namespace {

int await_step(Process& p, const Match& match, Board::Lock& lock) {
    if (!queue::may_read(p.board, match.inport, p.context.rank) || p.board.port(match.inport).keys.first != First::wait)
        return 0;
    Wait wait(p, WaitFor::data, match.inport, match.name);
    while (!is_answered(p, match)) {
        if (learns_left_out(p, match, lock)) continue;
        stage::pass_on(p);
        if (const int error = wait.nap(lock)) return error;
    }
    return 0;
}

int await_room(Process& p, const Match& match, Board::Lock& lock) {
    const PortRecord& port = p.board.port(match.outport);
    const int source = port.first_source + p.context.rank;
    if (publishes_later(port.keys) || queue::has_room(p.board, source, match.name)) return 0;
    Wait wait(p, WaitFor::room, match.outport, match.name);
    for (;;) {
        if (const int error = wait.nap(lock)) return error;
        if (queue::has_room(p.board, source, match.name)) return 0;
    }
}

}  // namespace

int await_open(const Match& match, bool creates) {
    const H5pyUnlocked h5py;
    if (!h5py.held()) return 0;
    Process& p = process();
    const bool makes = creates && match.outport >= 0;
    if (makes ? match.inport >= 0 : creates || match.outport >= 0 || match.inport < 0) return 0;
    Board::Lock lock(p.board);
    return makes ? await_room(p, match, lock) : await_step(p, match, lock);
}

}  // namespace wilkins
