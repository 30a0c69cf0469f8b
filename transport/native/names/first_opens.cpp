// What the first open of an in-port is answered with.
#include "names/first_opens.hpp"

#include <cstring>

#include "names/match.hpp"

namespace wilkins {

namespace {

__attribute__((tls_model("initial-exec"))) thread_local bool passing = false;

}  // namespace

First answer_first(const Process& p, int inport, const char* name, bool opens) {
    PortRecord& port = p.board.port(inport);
    if (!before_first(p, inport)) return First::wait;
    FirstOpens& firsts = p.board.first_opens(port, p.context.rank);
    const uint64_t now = p.me().files + 1;
    if (opens) {
        ++firsts.opened;
        ++firsts.since_start;
        port.touched = 1;
    } else if (firsts.asked == 0) {
        firsts.asked = now;
        ++firsts.since_start;
        port.touched = 1;
    } else if (firsts.asked != now) {
        firsts.opened = port.keys.opens_per_step;
        return First::wait;
    }
    if (port.steps == 0) strcpy(port.missing_name, name);
    return port.keys.first;
}

bool before_first(const Process& p, int inport) {
    const PortRecord& port = p.board.port(inport);
    return port.keys.first != First::wait &&
           p.board.first_opens(port, p.context.rank).opened < port.keys.opens_per_step;
}

bool answered_by_disk(const Match& match, bool opens) {
    if (match.inport < 0) return false;
    const Process& p = process();
    if (p.board.port(match.inport).keys.first != First::file) return false;
    Board::Lock lock(p.board);
    return answer_first(p, match.inport, match.name, opens) == First::file;
}

void follow_first(const Match& match) {
    const Process& p = process();
    Board::Lock lock(p.board);
    answer_first(p, match.inport, match.name, true);
}

PassThrough::PassThrough(bool active) : before_(passing) { passing = passing || active; }

PassThrough::~PassThrough() { passing = before_; }

bool passing_through() { return passing; }

}  // namespace wilkins
