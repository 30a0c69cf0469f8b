// The server's side: for each open file of a rank on another host, a handle on the step like that of any rank.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
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
#include "far/part.hpp"
#include "far/serving.hpp"
#include "names/places.hpp"
#include "queue/queue.hpp"
#include "steps/creating.hpp"
#include "steps/handles.hpp"
#include "steps/homes.hpp"
#include "steps/kept_here.hpp"
#include "steps/snapshot.hpp"
#include "store/far_answers.hpp"
#include "store/far_server.hpp"
#include "store/store.hpp"

namespace wilkins {

namespace {

using far::Connection;

// The number of the host of a rank that writes, if bytes of the step may be there. That serves nothing where they are
// wanted here before readers ask for them.
uint64_t number_for(const far::Hello& hello, const StepFile& step) {
    const AccessKeys* const keys = hello.use == Use::write && hello.address[0] != 0 ? keys_of(&step) : nullptr;
    if (keys == nullptr || keys->mode != Mode::memory || publishes_later(*keys) || takes_snapshots(*keys)) return 0;
    const int number = homes::number_of(step.state->slot, hello.address, served_at(), false);
    return number > 0 && number < homes::kMostHosts ? static_cast<uint64_t>(number) : 0;
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
    if (hello.use == Use::bring) return hold_again(hello.token.slot, hello.token.stamp, hello.name, error);
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

// Whether connections may wait for another file: if they had all descriptors, nobody else could come.
bool has_room() {
    rlimit files{};
    return getrlimit(RLIMIT_NOFILE, &files) != 0 || far::Serving::here().connections() < files.rlim_cur / 2;
}

// A rank on another host, with what it has open.
class FarRank : public far::Served {
public:
    FarRank(int wire, std::shared_ptr<far::Sealing> sealing, Owners owners)
        : wire_(wire), connection_(wire), owners_(owners) {
        const int now = 1;
        setsockopt(wire, IPPROTO_TCP, TCP_NODELAY, &now, sizeof(now));
        connection_.seal_with(std::move(sealing));
    }
    ~FarRank() override {
        guarded("the server of files", [this] { return let_go(), 0; }, [](int error) { return error; });
        raw::close(wire_);
    }

    int wire() const override { return wire_; }
    Connection& connection() override { return connection_; }
    Next serve_one() override {
        if (step_ != nullptr) return goes_on(serve_step());
        if (part_ != nullptr) return goes_on(serve_part());
        return greet();
    }

private:
    Next greet();
    Next open(const far::Hello& hello);
    Next serve_kept();
    bool open_part(const far::Hello& hello);
    bool serve_step();
    bool serve_part();
    static Next goes_on(bool more) { return more ? Next::more : Next::over; }
    bool say_opened(const far::Opened& opened) {
        return connection_.send_words(Connection::one_piece(&opened, sizeof(opened))) == 0;
    }
    void let_go() {
        number_ = 0;
        error_ = 0;
        part_ = nullptr;
        if (step_ != nullptr) close_step(std::exchange(step_, nullptr));
    }

    int wire_;
    Connection connection_;
    Owners owners_;
    StepFile* step_ = nullptr;
    uint64_t number_ = 0;  // of the rank's host (`number_for`)
    int error_ = 0;        // of writes
    Part* part_ = nullptr;
};

FarRank::Next FarRank::greet() {
    far::Hello hello{};
    if (connection_.receive(&hello, sizeof(hello)) != 0) return Next::over;
    hello.name[sizeof(hello.name) - 1] = 0;
    hello.address[sizeof(hello.address) - 1] = 0;
    switch (hello.use) {
        case Use::ask: {
            const Held held = holds_for_others(hello.name, hello.token.slot == 1);
            return goes_on(say_opened({0, {}, static_cast<uint64_t>(held)}));
        }
        case Use::miss: return goes_on(say_opened({0, {}, static_cast<uint64_t>(misses(hello.name))}));
        case Use::keep: return serve_kept();
        case Use::part: return goes_on(open_part(hello));
        default: return open(hello);
    }
}

FarRank::Next FarRank::open(const far::Hello& hello) {
    int error = 0;
    step_ = open_for(hello, &error);
    if (step_ == nullptr) return goes_on(say_opened({std::max(error, 1), {}, 0}));
    number_ = number_for(hello, *step_);
    return goes_on(say_opened({0, step_->token(), number_}));
}

// By a thread of its own, since it speaks unasked, too.
FarRank::Next FarRank::serve_kept() {
    std::thread([this] {
        guarded(
            "the server of files",
            [&] {
                if (say_opened({0, {}, 0})) KeptHere::all().serve(connection_);
                return 0;
            },
            [](int thrown) { return thrown; });
        delete this;
    }).detach();
    return Next::taken;
}

// Does what the rank asks of its step. False: it has let go of it, or is gone.
bool FarRank::serve_step() {
    far::Request request{};
    const int failed = connection_.receive(&request, sizeof(request));
    if (failed == EBADMSG) far::mark_damaged(*step_);
    if (failed != 0 || request.place + request.length < request.place) return false;
    switch (request.what) {
        case far::write: return far::take_write(connection_, step_, request, &error_);
        case far::settle: return far::answer(connection_, error_, 0);
        case far::put:
            if (error_ == 0) error_ = step_->put(request.place, request.length, number_);
            return true;
        case far::read: return far::give_read(connection_, step_, request, number_);
        case far::gather: return far::give_gathered(connection_, step_, request.length);
        case far::host: return far::give_address(connection_, step_, request.kind);
        case far::owners: return far::give_owners(connection_, step_, request.length, owners_);
        case far::eof: return far::answer(connection_, 0, step_->eof());
        case far::cut: return far::answer(connection_, step_->set_eof(request.length), 0);
        case far::publish: return far::answer(connection_, step_->writable() ? publish_snapshot(step_) : EBADF, 0);
        case far::lock: return far::answer(connection_, step_->lock(static_cast<short>(request.kind)), 0);
        case far::leave: let_go(); return has_room();
        default: let_go(); return far::answer(connection_, 0, 0) && request.what == far::close && has_room();
    }
}

// What ranks here have written of a step on another host.
bool FarRank::open_part(const far::Hello& hello) {
    int error = 0;
    part_ = Part::open(hello.address, hello.token.slot, false, &error);
    if (part_ != nullptr && !part_->holds(hello.token.stamp, nullptr)) error = ESTALE;
    if (error != 0) part_ = nullptr;
    return say_opened({error, hello.token, 0});
}

// Reads of it for another host.
bool FarRank::serve_part() {
    far::Request request{};
    if (connection_.receive(&request, sizeof(request)) != 0) return false;
    if (request.what == far::leave) {
        let_go();
        return has_room();
    }
    std::vector<ByteRange> ranges = {{request.place, request.place + request.length}};
    if (request.what == far::gather && !far::take_ranges(connection_, request.length, &ranges)) return false;
    if (request.what != far::gather && request.what != far::read) return false;
    uint64_t end = 0;
    for (const ByteRange& range : ranges) end = range.end < range.begin ? UINT64_MAX : std::max(end, range.end);
    const int error = part_->open_to_read(end);
    return far::answer(connection_, error, 0, error == 0) && error == 0 &&
           far::give_ranges(connection_, part_->bytes(), ranges);
}

}  // namespace

int serve_far_file(int wire, std::shared_ptr<far::Sealing> sealing, Owners owners) {
    return far::Serving::here().add(std::make_unique<FarRank>(wire, std::move(sealing), owners));
}

}  // namespace wilkins
