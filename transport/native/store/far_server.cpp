// The server's side: a thread for each open file of a rank on another host. It is a handle on the step like that of any
// rank.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/raw.hpp"
#include "board/border.hpp"
#include "board/step_token.hpp"
#include "far/far_file.hpp"
#include "far/far_wire.hpp"
#include "names/places.hpp"
#include "queue/queue.hpp"
#include "steps/creating.hpp"
#include "steps/handles.hpp"
#include "steps/homes.hpp"
#include "steps/snapshot.hpp"
#include "store/far_server.hpp"
#include "store/store.hpp"

namespace wilkins {

namespace {

constexpr size_t kBuffer = 1 << 18;

using far::Connection;

bool answer(Connection& rank, int error, uint64_t value, bool more = false) {
    const far::Answer said = {error, value};
    return rank.send_words(Connection::one_piece(&said, sizeof(said)), more) == 0;
}

// Something that a rank has written was damaged on its way: the step is not whole.
void note_damage(const StepFile& step) {
    if (step.writable() && step.state->slot >= 0) process().board.slot(step.state->slot).broken.store(EBADMSG);
}

// Takes what is written, straight into the step's memory. What cannot be written is taken all the same. False: the
// connection is broken.
bool take_write(Connection& rank, StepFile* step, const far::Request& request, int* error) {
    if (*error == 0) *error = step->prepare_write(request.place, request.length, true);
    std::vector<unsigned char> nowhere(*error != 0 ? std::min<uint64_t>(request.length, kBuffer) : 0);
    for (uint64_t left = request.length; left > 0;) {
        const uint64_t part = nowhere.empty() ? left : std::min<uint64_t>(left, nowhere.size());
        const int failed = rank.receive(nowhere.empty() ? step->data() + request.place : nowhere.data(), part);
        if (failed != 0 && failed != EBADMSG) return false;
        if (failed != 0) note_damage(*step);
        if (*error == 0) *error = failed;
        left -= part;
    }
    return true;
}

// False also where they cannot be read: who asks may have none in their stead.
bool give_bytes(Connection& rank, StepFile* step, uint64_t place, uint64_t length, bool more) {
    std::vector<unsigned char> part(std::min<uint64_t>(length, kBuffer));
    for (uint64_t done = 0; done < length;) {
        const uint64_t count = std::min<uint64_t>(part.size(), length - done);
        step->read(place + done, part.data(), count);
        if (step->settle() != 0) return false;
        done += count;
        if (rank.send_bytes(Connection::one_piece(part.data(), count), more || done < length) != 0) return false;
    }
    return true;
}

bool take_ranges(Connection& rank, uint64_t count, std::vector<ByteRange>* ranges) {
    constexpr uint64_t kMost = 1 << 24;
    if (count > kMost) return false;
    ranges->resize(count);
    return rank.receive(ranges->data(), count * sizeof(ByteRange)) == 0;
}

bool give_ranges(Connection& rank, const unsigned char* bytes, const std::vector<ByteRange>& ranges) {
    Pieces all;
    for (const ByteRange& range : ranges)
        all.add(const_cast<unsigned char*>(bytes) + range.begin, range.end - range.begin);
    return rank.send_bytes(std::move(all)) == 0;
}

// Of a step that is read: what one question asks for.
bool give_gathered(Connection& rank, StepFile* step, uint64_t count) {
    std::vector<ByteRange> ranges;
    if (!take_ranges(rank, count, &ranges)) return false;
    const uint64_t size = step->eof();
    const bool sound = std::all_of(ranges.begin(), ranges.end(),
                                   [=](const ByteRange& one) { return one.begin <= one.end && one.end <= size; });
    if (sound) step->bring(ranges);
    const int error = !sound || step->writable() ? EPROTO : step->settle();
    if (!answer(rank, error, step->state->mended.load(), error == 0) || error != 0) return error != 0;
    return give_ranges(rank, step->data(), ranges);
}

// `number`: of the host of the rank that asks, which can read what hosts have by itself; 0: it cannot.
bool give_read(Connection& rank, StepFile* step, const far::Request& request, uint64_t number) {
    const StepFile::State* const state = step->state;
    std::vector<homes::Run> runs;
    if (number != 0 && homes::any(process().board.slot(state->slot)))
        runs = homes::runs_of(state->slot, request.place, request.place + request.length);
    if (runs.size() == 1 && runs[0].host == homes::kHere) runs.clear();
    if (!answer(rank, 0, runs.size(), true)) return false;
    if (runs.empty()) return give_bytes(rank, step, request.place, request.length, false);
    const bool any =
        std::any_of(runs.begin(), runs.end(), [](const homes::Run& run) { return run.host == homes::kHere; });
    if (rank.send_words(Connection::one_piece(runs.data(), runs.size() * sizeof(homes::Run)), any) != 0) return false;
    uint64_t at = request.place;
    for (const homes::Run& run : runs) {
        if (run.host == homes::kHere &&
            !give_bytes(rank, step, at, run.end - at, run.end < request.place + request.length))
            return false;
        at = run.end;
    }
    return true;
}

bool give_address(Connection& rank, const StepFile* step, int32_t number) {
    char address[kAddressMax] = {};
    const homes::Host* const host = homes::host(step->state->slot, static_cast<uint64_t>(number));
    if (host != nullptr) strcpy(address, host->where);
    return answer(rank, host != nullptr ? 0 : ENOENT, 0, true) &&
           rank.send_words(Connection::one_piece(address, sizeof(address))) == 0;
}

// Nothing is brought for it: who asks may have the table of what is elsewhere.
bool give_owners(Connection& rank, const StepFile* step, uint64_t count, Owners owners) {
    std::vector<ByteRange> ranges;
    if (!take_ranges(rank, count, &ranges)) return false;
    char words[1024] = {};
    const uint64_t size = step->eof();
    std::vector<ByteRange> here = {{0, size}};
    if (step->state->lazy) here = homes::here_among(step->state->slot, here, size);
    if (owners != nullptr && !step->writable())
        owners(step->data(), size, here.data(), here.size(), ranges.data(), ranges.size(), words, sizeof(words));
    const size_t length = strnlen(words, sizeof(words));
    return answer(rank, 0, length, length > 0) &&
           (length == 0 || rank.send_words(Connection::one_piece(words, length)) == 0);
}

// The number of the host of a rank that writes, if bytes of the step may be there. That serves nothing where they are
// wanted here before readers ask for them.
uint64_t number_for(const far::Hello& hello, const StepFile& step) {
    const AccessKeys* const keys = hello.use == Use::write && hello.address[0] != 0 ? keys_of(&step) : nullptr;
    if (keys == nullptr || keys->mode != Mode::memory || publishes_later(*keys) || takes_snapshots(*keys)) return 0;
    const int number = homes::number_of(step.state->slot, hello.address, served_at(), false);
    return number > 0 && number < homes::kMostHosts ? static_cast<uint64_t>(number) : 0;
}

// Does what the rank asks, until it lets go of the step. Its end lets go of it, too.
void serve_step(Connection& rank, StepFile* step, uint64_t number, Owners owners) {
    int error = 0;  // of writes
    for (;;) {
        far::Request request{};
        const int failed = rank.receive(&request, sizeof(request));
        if (failed == EBADMSG) note_damage(*step);
        bool goes_on = failed == 0 && request.place + request.length >= request.place;
        if (goes_on && request.what == far::write) goes_on = take_write(rank, step, request, &error);
        else if (goes_on && request.what == far::settle) goes_on = answer(rank, error, 0);
        else if (goes_on && request.what == far::put)
            error = error != 0 ? error : step->put(request.place, request.length, number);
        else if (goes_on && request.what == far::read) goes_on = give_read(rank, step, request, number);
        else if (goes_on && request.what == far::gather) goes_on = give_gathered(rank, step, request.length);
        else if (goes_on && request.what == far::host) goes_on = give_address(rank, step, request.kind);
        else if (goes_on && request.what == far::owners) goes_on = give_owners(rank, step, request.length, owners);
        else if (goes_on && request.what == far::eof) goes_on = answer(rank, 0, step->eof());
        else if (goes_on && request.what == far::cut) goes_on = answer(rank, step->set_eof(request.length), 0);
        else if (goes_on && request.what == far::publish)
            goes_on = answer(rank, step->writable() ? publish_snapshot(step) : EBADF, 0);
        else if (goes_on && request.what == far::lock)
            goes_on = answer(rank, step->lock(static_cast<short>(request.kind)), 0);
        else {
            close_step(step);
            if (goes_on) answer(rank, 0, 0);
            return;
        }
    }
}

bool memory_is_short() {
    const Board& board = process().board;
    Board::Lock lock(board);
    for (const RankRecord& rank : ranks_of(board))
        if (waits_for(rank, WaitFor::memory)) return true;
    return false;
}

void note_kept(const StepFile& step, int more) {
    const Board& board = process().board;
    Board::Lock lock(board);
    board.slot(step.token().slot).kept_for += static_cast<uint32_t>(more);
}

// Until the other side lets go of the step, or ends. Where the step has come from a third host, the other side hears of
// that host's want of memory, too.
void keep_step(int wire, StepFile* step) {
    const Board& board = process().board;
    const std::atomic<uint32_t>& pressed = board.port(board.source(board.slot(step->token().slot).source).port).pressed;
    uint32_t heard = pressed.load();
    note_kept(*step, 1);
    for (pollfd one = {wire, POLLIN, 0};;) {
        const int ready = poll(&one, 1, far::kPause);
        if (ready > 0 || (ready < 0 && errno != EINTR)) break;
        const bool is_short = ready == 0 && (memory_is_short() || pressed.load() != heard);
        heard = pressed.load();
        if (is_short && send(wire, "", 1, MSG_NOSIGNAL) != 1) break;
    }
    note_kept(*step, -1);
    close_step(step);
}

bool say_opened(Connection& rank, const far::Opened& opened) {
    return rank.send_words(Connection::one_piece(&opened, sizeof(opened))) == 0;
}

// Reads for other hosts what ranks here have written of a step on one of them, until they let go of it.
void serve_part(Connection& rank, const far::Hello& hello) {
    int error = 0;
    Part* const part = Part::open(hello.address, hello.token.slot, false, &error);
    if (part != nullptr && !part->holds(hello.token.stamp, nullptr)) error = ESTALE;
    const far::Opened opened = {error, hello.token, 0};
    if (!say_opened(rank, opened) || error != 0) return;
    for (far::Request request{}; rank.receive(&request, sizeof(request)) == 0;) {
        std::vector<ByteRange> ranges = {{request.place, request.place + request.length}};
        if (request.what == far::gather && !take_ranges(rank, request.length, &ranges)) return;
        if (request.what != far::gather && request.what != far::read) return;
        uint64_t end = 0;
        for (const ByteRange& range : ranges) end = range.end < range.begin ? UINT64_MAX : std::max(end, range.end);
        error = part->open_to_read(end);
        if (!answer(rank, error, 0, error == 0) || error != 0) return;
        if (!give_ranges(rank, part->bytes(), ranges)) return;
    }
}

// A step that is written is open to those who write it too, any other one to those who read.
bool is_open_to(const StepToken& token, bool writable) {
    const Board& board = process().board;
    Board::Lock lock(board);
    return token.slot < board.head().slots && is_writing(board.slot(token.slot), token.stamp) == writable;
}

// The step that a rank asks for: one that a rank here has open, or a file of the task's own, by name.
StepFile* open_for(const far::Hello& hello, int* error) {
    const bool writable = hello.use == Use::write;
    if (hello.use == Use::bring || hello.use == Use::keep)
        return hold_again(hello.token.slot, hello.token.stamp, hello.name, error);
    *error = ESTALE;
    if (hello.token.slot >= 0 && !is_open_to(hello.token, writable)) return nullptr;
    if (hello.token.slot >= 0) return attach_step(hello.token, writable, hello.name, error);
    Match match;
    *error = ENOENT;
    if (!match_name(hello.name, &match, writable ? Purpose::update : Purpose::read) || match.outport < 0)
        return nullptr;
    return writable ? continue_own(match, error) : reread_own(match, error);
}

// True if an in-port of this process's task does not get the step of the name.
bool misses(const char* name) {
    const Process& p = process();
    Board::Lock lock(p.board);
    for (const PortRecord& port : ports_of(p, Direction::in))
        if (queue::is_left_out(p.board, p.board.index(port), name)) return true;
    return false;
}

void serve_connection(int wire, std::shared_ptr<far::Sealing> sealing, Owners owners) {
    const int now = 1;
    setsockopt(wire, IPPROTO_TCP, TCP_NODELAY, &now, sizeof(now));
    Connection rank(wire);
    rank.seal_with(std::move(sealing));
    far::Hello hello{};
    if (rank.receive(&hello, sizeof(hello)) != 0) return;
    hello.name[sizeof(hello.name) - 1] = 0;
    hello.address[sizeof(hello.address) - 1] = 0;
    if (hello.use == Use::ask) {
        say_opened(rank, {0, {}, static_cast<uint64_t>(holds_for_others(hello.name, hello.token.slot == 1))});
        return;
    }
    if (hello.use == Use::miss) {
        say_opened(rank, {0, {}, static_cast<uint64_t>(misses(hello.name))});
        return;
    }
    if (hello.use == Use::part) {
        serve_part(rank, hello);
        return;
    }
    int error = 0;
    StepFile* const step = open_for(hello, &error);
    const uint64_t number = step != nullptr ? number_for(hello, *step) : 0;
    const far::Opened opened = {step != nullptr ? 0 : std::max(error, 1), step != nullptr ? step->token() : StepToken{},
                                number};
    if (!say_opened(rank, opened)) {
        if (step != nullptr) close_step(step);
    } else if (step != nullptr) {
        if (hello.use == Use::keep) keep_step(wire, step);
        else serve_step(rank, step, number, owners);
    }
}

}  // namespace

void serve_far_file(int wire, std::shared_ptr<far::Sealing> sealing, Owners owners) {
    std::thread([wire, sealing = std::move(sealing), owners] {
        guarded(
            "the server of files", [&] { return serve_connection(wire, sealing, owners), 0; },
            [](int error) { return error; });
        raw::close(wire);
    }).detach();
}

}  // namespace wilkins
