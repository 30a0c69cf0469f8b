// The two halves of a relay, which carries the steps of a port to another host: a C interface for wilkins/transport/relay.py.
//
// A step goes from its arena to the socket, and from the socket to an arena: no copy lies between, and each process keeps its
// mappings. The receiver says one byte when it can take a step. What it gets is a head, the names, and the file's bytes.
#include <endian.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "board/border.hpp"
#include "queue/queue.hpp"
#include "store/parts.hpp"
#include "waiting/wait.hpp"

using namespace wilkins;

namespace {

constexpr char kAsks = '+';
// Of what one call moves: a kernel that is given 128 MB at once takes twice as long as with pieces that stay in a cache.
constexpr size_t kPiece = 1 << 20;

// All numbers with the highest byte first. No name: the stream has ended.
struct Head {
    uint32_t folder;  // bytes of the folder in which its producer named the step
    uint32_t name;    // of that name
    uint64_t size;    // of the step
};

// Moves so many bytes by calls that move some. Returns 0 or an errno; ECONNRESET: the other half has left; EINTR: Python has an exception to raise.
template <class Move>
int move_all(uint64_t count, Move move) {
    PythonUnlocked python;
    for (uint64_t done = 0; done < count;) {
        const ssize_t n = move(done, std::min<uint64_t>(count - done, kPiece));
        const int error = errno;
        if (n > 0) done += static_cast<uint64_t>(n);
        else if (n == 0) return ECONNRESET;
        else if (error != EINTR) return error;
        else if (python.interrupted()) return EINTR;
    }
    return 0;
}

int receive(int wire, void* to, uint64_t count) {
    return move_all(count, [=](uint64_t done, size_t most) { return recv(wire, static_cast<char*>(to) + done, most, 0); });
}

// `flags`: MSG_MORE, if more follows at once.
int transmit(int wire, const void* from, uint64_t count, int flags) {
    return move_all(count, [=](uint64_t done, size_t most) {
        return send(wire, static_cast<const char*>(from) + done, most, flags | MSG_NOSIGNAL);
    });
}

constexpr int kEnd = -1;  // no step will come any more

// Takes the in-port's next step, and holds it. Returns 0, kEnd or an errno.
int take_next(int index, StepFile** step, char* name, char* folder) {
    Process& p = process();
    const Board& board = p.board;
    int slot;
    uint64_t stamp;
    {
        Board::Lock lock(board);
        queue::turn(board, index, p.context.rank);
        Wait wait(p, WaitFor::data, index, board.port(index).pattern);
        while ((slot = queue::next_choice(board, index, p.context.rank)) < 0) {
            if (!queue::can_produce(board, index)) return kEnd;
            if (const int error = wait.nap(lock)) return error;
        }
        if (!queue::add_hold(board, p.rank_index, slot)) return too_many_open(p, board.slot(slot).name);
        queue::choose(board, index, p.context.rank);
        ++p.me().files;
        const SlotRecord& taken = board.slot(slot);
        const SourceRecord& source = board.source(taken.source);
        stamp = taken.stamp;
        strcpy(name, taken.name);
        strcpy(folder, source.cwds == taken.cwds ? source.cwd : "");
    }
    int error = 0;
    *step = open_held(slot, stamp, name, &error);
    return error;
}

int send_step(int wire, const StepFile& step, const char* name, const char* folder) {
    const uint64_t size = step.eof();
    const size_t above = strlen(folder), length = strlen(name);
    const Head head = {htobe32(static_cast<uint32_t>(above)), htobe32(static_cast<uint32_t>(length)), htobe64(size)};
    char text[sizeof(head) + 2 * kNameMax];
    memcpy(text, &head, sizeof(head));
    memcpy(text + sizeof(head), folder, above);
    memcpy(text + sizeof(head) + above, name, length);
    if (const int error = transmit(wire, text, sizeof(head) + above + length, size ? MSG_MORE : 0)) return error;
    return transmit(wire, step.data(), size, 0);
}

}  // namespace

// Sends the in-port's next step when the receiver asks for one. `name`, `folder`: by which its producer called it, and from where. The step
// stays for a while afterwards: its producer may look at it. Returns 0, -1: none will come, which the receiver was told, or an errno. ENOTDIR: from
// where is not known any more; ECONNRESET: the receiver has left; EINTR: the run is being stopped, or Python has an exception to raise.
WILKINS_API(int, wilkins_relay_send(int index, int wire, char* name, char* folder)) {
    char asked = 0;
    name[0] = 0;
    if (const int error = receive(wire, &asked, 1)) return error;
    if (asked != kAsks) return EPROTO;
    StepFile* step = nullptr;
    if (const int error = take_next(index, &step, name, folder)) {
        const Head end = {};
        const int told = error == kEnd ? transmit(wire, &end, sizeof(end), 0) : 0;
        return told ? told : error;
    }
    const bool known = folder[0] || name[0] == '/';
    const int error = known ? send_step(wire, *step, name, folder) : ENOTDIR;
    close_step(step);
    return error;
} WILKINS_OR(errno)

namespace {

int receive_step(int wire, const char* name, uint64_t size) {
    Match match;
    if (!match_name(name, &match, Purpose::create) || match.outport < 0) return EPROTO;
    int error = 0;
    StepFile* step = open_step(match, Intent::create, 1, &error);
    if (!step) return error;
    error = step->prepare_write(0, size, true);
    if (!error) error = receive(wire, step->data(), size);
    if (error) discard_step(step);
    else close_step(step);
    return error;
}

}  // namespace

// Asks for a step, and publishes it under its name. `folder`: where the process is; it goes where the producer was. Returns 0, -1: there is
// none any more, or an errno. ECONNRESET: the sender has left; EINTR: the run is being stopped, or Python has an exception to raise.
WILKINS_API(int, wilkins_relay_receive(int wire, char* name, char* folder)) {
    Head head;
    char above[kNameMax] = {};
    name[0] = 0;
    if (const int error = transmit(wire, &kAsks, 1, 0)) return error;
    if (const int error = receive(wire, &head, sizeof(head))) return error;
    const uint32_t length = be32toh(head.name), over = be32toh(head.folder);
    if (!length) return kEnd;
    if (length >= kNameMax || over >= kNameMax) return EPROTO;
    if (const int error = receive(wire, above, over)) return error;
    if (const int error = receive(wire, name, length)) return error;
    name[length] = 0;
    if (over && strcmp(above, folder) != 0) {
        if (chdir(above) != 0) return errno;
        strcpy(folder, above);
    }
    return receive_step(wire, name, be64toh(head.size));
} WILKINS_OR(errno)
