// The server's side: a thread for each open file of a rank on another host. It is a handle on the step like that of any
// rank.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/raw.hpp"
#include "board/border.hpp"
#include "board/step_token.hpp"
#include "far/far_file.hpp"
#include "far/far_wire.hpp"
#include "names/places.hpp"
#include "steps/creating.hpp"
#include "steps/handles.hpp"
#include "steps/homes.hpp"
#include "steps/snapshot.hpp"
#include "store/store.hpp"

namespace wilkins {

namespace {

constexpr size_t kBuffer = 1 << 18;
constexpr size_t kPiece = 1 << 20;  // of what one call sends: see python/relay.cpp

// What comes in by a connection, through a buffer, so that small writes do not cost a system call each.
class Incoming {
public:
    explicit Incoming(int wire) : wire_(wire), buffer_(kBuffer) {}

    bool take(void* memory, size_t length) {
        auto* to = static_cast<unsigned char*>(memory);
        while (length > 0) {
            if (at_ < end_) {
                const size_t count = std::min(length, end_ - at_);
                memcpy(to, buffer_.data() + at_, count);
                at_ += count;
                to += count;
                length -= count;
            } else if (length >= kBuffer) {
                const ssize_t count = receive(to, length);
                if (count <= 0) return false;
                to += count;
                length -= static_cast<size_t>(count);
            } else {
                const ssize_t count = receive(buffer_.data(), kBuffer);
                if (count <= 0) return false;
                at_ = 0;
                end_ = static_cast<size_t>(count);
            }
        }
        return true;
    }

private:
    ssize_t receive(unsigned char* to, size_t length) const {
        ssize_t count = 0;
        do {
            count = ::recv(wire_, to, length, 0);
        } while (count < 0 && errno == EINTR);
        return count;
    }

    int wire_;
    std::vector<unsigned char> buffer_;
    size_t at_ = 0;
    size_t end_ = 0;
};

bool send_all(int wire, const void* bytes, size_t length, int flags) {
    const auto* at = static_cast<const char*>(bytes);
    while (length > 0) {
        const ssize_t count =
            ::send(wire, at, std::min(length, kPiece), MSG_NOSIGNAL | (length > kPiece ? MSG_MORE : flags));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        at += count;
        length -= static_cast<size_t>(count);
    }
    return true;
}

bool answer(int wire, int error, uint64_t value, int flags = 0) {
    const far::Answer said = {error, value};
    return send_all(wire, &said, sizeof(said), flags);
}

// Takes what is written, straight into the step's memory. What cannot be written is taken all the same. False: the
// connection is broken.
bool take_write(Incoming& in, StepFile* step, const far::Request& request, int* error) {
    const int failed = *error != 0 ? *error : step->prepare_write(request.place, request.length, true);
    if (failed == 0) return in.take(step->data() + request.place, request.length);
    *error = failed;
    std::vector<unsigned char> nowhere(std::min<uint64_t>(request.length, kBuffer));
    for (uint64_t left = request.length; left > 0;) {
        const uint64_t part = std::min<uint64_t>(left, nowhere.size());
        if (!in.take(nowhere.data(), part)) return false;
        left -= part;
    }
    return true;
}

bool give_bytes(int wire, StepFile* step, uint64_t place, uint64_t length, bool more) {
    std::vector<unsigned char> part(std::min<uint64_t>(length, kBuffer));
    for (uint64_t done = 0; done < length;) {
        const uint64_t count = std::min<uint64_t>(part.size(), length - done);
        step->read(place + done, part.data(), count);
        done += count;
        if (!send_all(wire, part.data(), count, more || done < length ? MSG_MORE : 0)) return false;
    }
    return true;
}

// Bytes on their way, gathered if they are few.
class Outgoing {
public:
    explicit Outgoing(int wire) : wire_(wire) { gathered_.reserve(kBuffer); }

    bool give(const unsigned char* bytes, size_t length) {
        if (gathered_.size() + length > kBuffer && !send(MSG_MORE)) return false;
        if (length > kBuffer) {  // the last of it stays, for the kernel waits for what follows MSG_MORE
            const size_t most = length - kBuffer / 2;
            if (!send_all(wire_, bytes, most, MSG_MORE)) return false;
            bytes += most;
            length -= most;
        }
        gathered_.insert(gathered_.end(), bytes, bytes + length);
        return true;
    }
    // What has been given is all.
    bool end() { return send(0); }

private:
    bool send(int flags) {
        const bool sent = send_all(wire_, gathered_.data(), gathered_.size(), flags);
        gathered_.clear();
        return sent;
    }

    int wire_;
    std::vector<unsigned char> gathered_;
};

bool take_ranges(Incoming& in, uint64_t count, std::vector<ByteRange>* ranges) {
    constexpr uint64_t kMost = 1 << 24;
    if (count > kMost) return false;
    ranges->resize(count);
    return in.take(ranges->data(), count * sizeof(ByteRange));
}

// Of a step that is read: what one question asks for.
bool give_gathered(Incoming& in, int wire, StepFile* step, uint64_t count) {
    std::vector<ByteRange> ranges;
    if (!take_ranges(in, count, &ranges)) return false;
    const uint64_t size = step->eof();
    const bool sound = std::all_of(ranges.begin(), ranges.end(),
                                   [=](const ByteRange& one) { return one.begin <= one.end && one.end <= size; });
    if (sound) step->bring(ranges);
    const int error = !sound || step->writable() ? EPROTO : step->settle();
    if (!answer(wire, error, 0, error == 0 ? MSG_MORE : 0) || error != 0) return error != 0;
    Outgoing out(wire);
    for (const ByteRange& range : ranges)
        if (!out.give(step->data() + range.begin, range.end - range.begin)) return false;
    return out.end();
}

// `number`: of the host of the rank that asks, which can read what hosts have by itself; 0: it cannot.
bool give_read(int wire, StepFile* step, const far::Request& request, uint64_t number) {
    const StepFile::State* const state = step->state;
    std::vector<homes::Run> runs;
    if (number != 0 && homes::any(process().board.slot(state->slot)))
        runs = homes::runs_of(state->slot, request.place, request.place + request.length);
    if (runs.size() == 1 && runs[0].host == homes::kHere) runs.clear();
    if (!answer(wire, 0, runs.size(), MSG_MORE)) return false;
    if (runs.empty()) return give_bytes(wire, step, request.place, request.length, false);
    const bool any =
        std::any_of(runs.begin(), runs.end(), [](const homes::Run& run) { return run.host == homes::kHere; });
    if (!send_all(wire, runs.data(), runs.size() * sizeof(homes::Run), any ? MSG_MORE : 0)) return false;
    uint64_t at = request.place;
    for (const homes::Run& run : runs) {
        if (run.host == homes::kHere &&
            !give_bytes(wire, step, at, run.end - at, run.end < request.place + request.length))
            return false;
        at = run.end;
    }
    return true;
}

bool give_address(int wire, const StepFile* step, int32_t number) {
    char address[kAddressMax] = {};
    const homes::Host* const host = homes::host(step->state->slot, static_cast<uint64_t>(number));
    if (host != nullptr) strcpy(address, host->where);
    return answer(wire, host != nullptr ? 0 : ENOENT, 0, MSG_MORE) && send_all(wire, address, sizeof(address), 0);
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
void serve_step(Incoming& in, int wire, StepFile* step, uint64_t number) {
    int error = 0;  // of writes
    for (;;) {
        far::Request request{};
        bool goes_on = in.take(&request, sizeof(request)) && request.place + request.length >= request.place;
        if (goes_on && request.what == far::write) goes_on = take_write(in, step, request, &error);
        else if (goes_on && request.what == far::settle) goes_on = answer(wire, error, 0);
        else if (goes_on && request.what == far::put)
            error = error != 0 ? error : step->put(request.place, request.length, number);
        else if (goes_on && request.what == far::read) goes_on = give_read(wire, step, request, number);
        else if (goes_on && request.what == far::gather) goes_on = give_gathered(in, wire, step, request.length);
        else if (goes_on && request.what == far::host) goes_on = give_address(wire, step, request.kind);
        else if (goes_on && request.what == far::eof) goes_on = answer(wire, 0, step->eof());
        else if (goes_on && request.what == far::cut) goes_on = answer(wire, step->set_eof(request.length), 0);
        else if (goes_on && request.what == far::publish)
            goes_on = answer(wire, step->writable() ? publish_snapshot(step) : EBADF, 0);
        else if (goes_on && request.what == far::lock)
            goes_on = answer(wire, step->lock(static_cast<short>(request.kind)), 0);
        else {
            close_step(step);
            if (goes_on) answer(wire, 0, 0);
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

// Until the other side lets go of the step, or ends.
void keep_step(int wire, StepFile* step) {
    note_kept(*step, 1);
    for (pollfd one = {wire, POLLIN, 0};;) {
        const int ready = poll(&one, 1, far::kPause);
        if (ready > 0 || (ready < 0 && errno != EINTR)) break;
        if (ready == 0 && memory_is_short() && !send_all(wire, "", 1, 0)) break;
    }
    note_kept(*step, -1);
    close_step(step);
}

// Reads for other hosts what ranks here have written of a step on one of them, until they let go of it.
void serve_part(Incoming& in, int wire, const far::Hello& hello) {
    int error = 0;
    Part* const part = Part::open(hello.address, hello.token.slot, false, &error);
    if (part != nullptr && !part->holds(hello.token.stamp, nullptr)) error = ESTALE;
    const far::Opened opened = {error, hello.token, 0};
    if (!send_all(wire, &opened, sizeof(opened), 0) || error != 0) return;
    const auto give = [&](Outgoing& out, const ByteRange& range) {
        return out.give(part->bytes() + range.begin, range.end - range.begin);
    };
    for (far::Request request{}; in.take(&request, sizeof(request));) {
        std::vector<ByteRange> ranges = {{request.place, request.place + request.length}};
        if (request.what == far::gather && !take_ranges(in, request.length, &ranges)) return;
        if (request.what != far::gather && request.what != far::read) return;
        uint64_t end = 0;
        for (const ByteRange& range : ranges) end = range.end < range.begin ? UINT64_MAX : std::max(end, range.end);
        error = part->open_to_read(end);
        if (!answer(wire, error, 0, error == 0 ? MSG_MORE : 0) || error != 0) return;
        Outgoing out(wire);
        for (const ByteRange& range : ranges)
            if (!give(out, range)) return;
        if (!out.end()) return;
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

void serve_connection(int wire) {
    const int now = 1;
    setsockopt(wire, IPPROTO_TCP, TCP_NODELAY, &now, sizeof(now));
    Incoming in(wire);
    far::Hello hello{};
    if (!in.take(&hello, sizeof(hello))) return;
    hello.name[sizeof(hello.name) - 1] = 0;
    hello.address[sizeof(hello.address) - 1] = 0;
    if (hello.use == Use::ask) {
        const far::Opened answer = {0, {}, static_cast<uint64_t>(holds_for_others(hello.name, hello.token.slot == 1))};
        send_all(wire, &answer, sizeof(answer), 0);
        return;
    }
    if (hello.use == Use::part) {
        serve_part(in, wire, hello);
        return;
    }
    int error = 0;
    StepFile* const step = open_for(hello, &error);
    const uint64_t number = step != nullptr ? number_for(hello, *step) : 0;
    const far::Opened opened = {step != nullptr ? 0 : std::max(error, 1), step != nullptr ? step->token() : StepToken{},
                                number};
    if (step == nullptr) send_all(wire, &opened, sizeof(opened), 0);
    else if (!send_all(wire, &opened, sizeof(opened), 0)) close_step(step);
    else if (hello.use == Use::keep) keep_step(wire, step);
    else serve_step(in, wire, step, number);
}

}  // namespace

void serve_far_file(int wire) {
    std::thread([wire] {
        guarded("the server of files", [&] { return serve_connection(wire), 0; }, [](int error) { return error; });
        raw::close(wire);
    }).detach();
}

}  // namespace wilkins
