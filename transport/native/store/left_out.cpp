#include "store/left_out.hpp"

#include <cerrno>

#include "board/ranges.hpp"
#include "far/far_file.hpp"
#include "queue/queue.hpp"

namespace wilkins {

bool learns_left_out(Process& p, const Match& match, Board::Lock& lock) {
    const PortRecord& inport = p.board.port(match.inport);
    if (in_order(inport)) return false;
    for (const PortRecord& out : outports_of(p.board, inport)) {
        const int index = p.board.index(out);
        if (!out.keys.on_demand || !out.asked_at[0] || queue::knows_left_out(p.board, index, match.name)) continue;
        lock.release();
        const int saved = errno;
        const bool left_out = FarFile::ask_whether_left_out(out.asked_at, match.name);
        errno = saved;
        lock.acquire();
        if (!left_out) continue;
        queue::note_left_out(p.board, index, match.name);
        return true;
    }
    return false;
}

}  // namespace wilkins
