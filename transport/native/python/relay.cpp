// The two halves of a relay, which carries the steps of a port to another host: a C interface for
// wilkins/transport/relay.py.
//
// A step goes from its arena to the socket, and from the socket to an arena: no copy lies between, and each process
// keeps its mappings. The receiver says how many more steps it can take, and what of a step was read last; the sender
// keeps a step until the receiver has it. What that gets is a head, the names, and these bytes; the step is published
// with the others absent, and kept where it is (steps/lazy.hpp). Of a port with `compress`, steps come whole, and parts
// of them packed: Python packs and unpacks them (wilkins/compression/crossing.py).
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "board/border.hpp"
#include "board/trace.hpp"
#include "far/connection.hpp"
#include "far/damage.hpp"
#include "far/far_wire.hpp"
#include "queue/origins.hpp"
#include "queue/queue.hpp"
#include "steps/closing.hpp"
#include "steps/handles.hpp"
#include "steps/homes.hpp"
#include "steps/kept_elsewhere.hpp"
#include "steps/lazy.hpp"
#include "steps/sums.hpp"
#include "store/store.hpp"
#include "waiting/wait.hpp"

using namespace wilkins;

namespace {

// Lazy steps at once, and where further hosts keep some here, too: a source has twelve slots beyond its longest queue.
constexpr size_t kMostLazy = 4, kMostHandedOn = 8;
// A step of so few bytes comes whole; where tests make every step lazy, none does.
#ifdef WILKINS_HOOKS
constexpr uint64_t kSmall = 0;
#else
constexpr uint64_t kSmall = 4 * kBlock;
#endif
constexpr uint32_t kMostListed = 1 << 20;

// Steps on their way at once, and the bytes of those, as they cross, behind which another one may be sent. All have
// come whole: of other ones the receiver has to say that they stay.
constexpr int kMostOnTheWay = 8;
constexpr uint64_t kMostBytesOnTheWay = 4 << 20;
// So long a sender waits at first for word of steps that are on their way before it looks whether there is a next one
// to send, and at most.
constexpr int kFirstLook = 1, kLastLook = 4;  // ms

// The receiver has the step that was sent first of those that it had not; the first time it says that it is there.
// So many ranges follow: what the next step is to bring along.
struct Ask {
    uint64_t steps;   // that it can take beyond those that it has asked for
    uint64_t ranges;  // kNoMore: none, nor a step
};
constexpr uint64_t kNoMore = UINT64_MAX;

// Bytes of a step that are sent in fewer bytes.
struct Piece {
    uint64_t begin;
    uint64_t end;
    uint64_t stored;
};

// No name: the stream has ended. The folder, the name, what else was published before it there (see queue::before), the
// ranges that are brought, where others are, the pieces, and checksums follow; then those bytes, and after them the
// pieces'.
struct Head {
    uint32_t folder;  // bytes of the folder in which its producer named the step
    uint32_t name;    // of that name
    uint64_t size;    // of the step
    uint64_t number;  // that its producer has given it
    StepToken token;
    uint64_t published;  // its place in the order of publication, on its host
    uint64_t before;
    uint64_t ranges;
    uint64_t hosts;  // that have bytes of it, which this one has not: their addresses follow the ranges, after that of
                     // the host on which it was made,
    uint64_t runs;   // and then who has which
    uint64_t pieces;
    uint64_t sums;   // of its blocks, which follow, too: it comes whole, and nothing of it packed
    double error;    // the largest difference of an element in these
    double part;     // the largest part of its bound that such a difference is
    double seconds;  // of CPU time that packing has taken
};

// What Python has packed of a step. It stays until the next one has been given.
struct Packing {
    const Piece* pieces;
    uint64_t count;
    const void* bytes;
    uint64_t length;
    double error;
    double part;
    double seconds;
};

// The bytes of a step that are sent as they are, where others are packed.
void add_others(Pieces* bytes, unsigned char* step, uint64_t size, const Piece* pieces, uint64_t count) {
    uint64_t at = 0;
    for (const Piece* piece = pieces; piece < pieces + count; at = piece++->end)
        bytes->add(step + at, piece->begin - at);
    bytes->add(step + at, size - at);
}

using far::Connection;

// The other half of this relay, which waits for it without Python's lock. Each call returns 0 or an errno, as a
// connection's do; EINTR: the run is being stopped, or Python has an exception to raise. What is sent goes after all
// that was sent before.
class OtherHalf {
public:
    explicit OtherHalf(int wire) : wire_(wire), connection_(wire, [this] { return python_->interrupted(); }) {}

    int receive(Pieces to) {
        return unlocked([&] { return connection_.receive(std::move(to)); });
    }
    int receive(void* to, uint64_t count) { return receive(Connection::one_piece(to, count)); }
    const std::vector<ByteRange>& damaged() const { return connection_.damaged(); }
    int send_words(const void* words, uint64_t count, bool more) {
        if (const int error = await_sent()) return error;
        return unlocked([&] { return connection_.send_words(Connection::one_piece(words, count), more); });
    }
    int send_bytes(Pieces bytes) {
        return unlocked([&] { return connection_.send_bytes(std::move(bytes)); });
    }
    int send_summed(Pieces bytes, const sums::Sums& sums) {
        return unlocked([&] { return connection_.send_summed(std::move(bytes), sums); });
    }
    // Sends words and bytes, by a thread of its own: the bytes stay where they are until the other half has them.
    int send_meanwhile(std::vector<char> words, Pieces bytes) {
        if (const int error = await_sent()) return error;
        sigset_t all, before;  // signals are for the thread that calls
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        sent_ = std::async(std::launch::async, [wire = wire_, words = std::move(words), bytes = std::move(bytes)] {
            Connection connection(wire);
            int error = connection.send_words(Connection::one_piece(words.data(), words.size()), true);
            if (!error) error = connection.send_bytes(bytes);
            if (error) shutdown(wire, SHUT_RDWR);  // both halves wait for what comes
            return error;
        });
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        return 0;
    }
    // Nothing is sent any more.
    void break_off() {
        shutdown(wire_, SHUT_RDWR);
        if (sent_.valid()) sent_.wait();
    }
    // Whether something has come by then.
    int await(int milliseconds, bool* came) {
        return unlocked([&] {
            *came = connection_.has_come(milliseconds);
            return !*came && over() ? EINTR : 0;
        });
    }

private:
    template <class Call>
    int unlocked(Call call) {
        PythonUnlocked python;
        python_ = &python;
        return call();
    }
    bool over() { return python_->interrupted() || process().board.head().stopped; }
    int await_sent() {
        if (!sent_.valid()) return 0;
        return unlocked([&] {
            while (sent_.wait_for(kLook) != std::future_status::ready)
                if (over()) return EINTR;
            return sent_.get();
        });
    }

    static constexpr std::chrono::milliseconds kLook{50};
    PythonUnlocked* python_ = nullptr;
    int wire_;
    Connection connection_;
    std::future<int> sent_;  // what `send_meanwhile` sends
};

// (A relay is a process of its own, and has one.)
OtherHalf& other_half(int wire) {
    static auto* const half = new OtherHalf(wire);
    return *half;
}

constexpr int kEnd = -1;  // no step will come any more

// Takes the in-port's next step, and holds it. `before`: see queue::before. Returns 0, kEnd or an errno; EAGAIN: there
// is none now, and `waits` is false.
int take_next(int index, bool waits, StepFile** step, char* name, char* folder, std::vector<uint64_t>* before) {
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
            if (!waits) return EAGAIN;
            if (const int error = wait.nap(lock)) return error;
        }
        if (!queue::add_hold(board, p.rank_index, slot)) return too_many_open(p, board.slot(slot).name);
        queue::choose(board, index, p.context.rank);
        trace::hurry(board);
        ++p.me().files;
        const SlotRecord& taken = board.slot(slot);
        const SourceRecord& source = board.source(taken.source);
        stamp = taken.stamp;
        *before = queue::before(board, index, taken);
        strcpy(name, taken.name);
        strcpy(folder, source.cwds == taken.cwds ? source.cwd : "");
    }
    int error = 0;
    *step = open_held(slot, stamp, name, &error);
    return error;
}

// What there is here of these ranges in a step.
std::vector<homes::Range> inside(const StepFile& step, const std::vector<homes::Range>& asked) {
    const uint64_t size = step.eof();
    if (step.state->lazy) return homes::here_among(step.state->slot, asked, size);
    std::vector<homes::Range> found;
    if (size <= kSmall || step.state->compared) return {{0, size}};
    for (const homes::Range& range : asked)
        if (range.begin < size) found.push_back({range.begin, std::min(range.end, size)});
    return found;
}

// What of a step goes along, and who has which bytes of it, where hosts have some that this one has not.
struct Places {
    std::vector<homes::Range> brought;
    std::vector<homes::Host> hosts;
    std::vector<homes::Run> runs;
};

// True if the step has come from a third host, from which this one brings what is absent: as for readers here, so for
// those of the receiver.
bool is_handed_on(const StepFile& step) { return process().board.slot(step.state->slot).lazy.is == Absence::lazy; }

Places places_of(const StepFile& step, const std::vector<homes::Range>& asked) {
    Places places;
    places.brought = inside(step, asked);  // first: readers here may bring more meanwhile
    if (!step.state->lazy || is_handed_on(step)) return places;
    places.hosts = homes::hosts(step.state->slot);
    places.runs = homes::runs_of(step.state->slot, 0, step.eof());
    return places;
}

struct Sent {
    StepFile* step;
    uint64_t bytes;  // that cross
};

struct Sending {
    // What was sent stays until the receiver has it: if it has to stay any longer, the receiver keeps it by then.
    std::deque<Sent> on_the_way;
    uint64_t bytes = 0;  // of these
    bool whole = true;   // all of them came so
    uint64_t steps = 0;  // that the receiver can take yet
    std::vector<homes::Range> asked;
    StepFile* step = nullptr;  // was taken, and is sent next
    std::vector<uint64_t> before;
    bool more = true;  // that it is to take any

    bool may_send() const { return steps > 0 && (on_the_way.empty() || (whole && bytes < kMostBytesOnTheWay)); }
};
Sending& sending() {
    static auto* const one = new Sending;
    return *one;
}

// This half does no more for those that it reads from, or that read from it.
void leave_board() {
    const Process& p = process();
    Board::Lock lock(p.board);
    queue::task_exited(p.board, p.context.task, true, true, log_discarded);
}

template <class T>
int receive_list(OtherHalf& half, uint64_t count, std::vector<T>* list) {
    if (count > kMostListed) return EPROTO;
    list->resize(count);
    return half.receive(list->data(), count * sizeof(T));
}

// Waits for what the receiver says.
int hear(OtherHalf& receiver) {
    Sending& s = sending();
    Ask ask{};
    if (const int error = receiver.receive(&ask, sizeof(ask))) return error;
    s.more = ask.ranges != kNoMore;
    if (const int error = s.more ? receive_list(receiver, ask.ranges, &s.asked) : 0) return error;
    s.steps += ask.steps;
    if (s.on_the_way.empty()) return 0;
    s.bytes -= s.on_the_way.front().bytes;
    close_step(s.on_the_way.front().step);
    s.on_the_way.pop_front();
    s.whole = s.whole || s.on_the_way.empty();
    return 0;
}

// Takes the next step when there is one that the receiver can take. Returns 0, kEnd or an errno.
int take_when_asked(OtherHalf& receiver, int index, char* name, char* folder) {
    Sending& s = sending();
    for (int pause = kFirstLook;; pause = std::min(2 * pause, kLastLook)) {
        for (bool came = true; came;) {
            if (const int error = s.may_send() ? receiver.await(0, &came) : 0) return error;
            if (const int error = came ? hear(receiver) : 0) return error;
            if (!s.more) {
                leave_board();
                return kEnd;
            }
        }
        const int error = take_next(index, s.on_the_way.empty(), &s.step, name, folder, &s.before);
        if (error != EAGAIN) return error;
        bool came = false;
        if (const int failed = receiver.await(pause, &came)) return failed;
    }
}

// Brings what of this is on other hosts.
int bring(StepFile& step, const std::vector<homes::Range>& ranges) {
    PythonUnlocked python;
    step.bring(ranges);
    return step.settle();
}
int bring_all(StepFile& step) { return bring(step, {{0, step.eof()}}); }

int send_step(OtherHalf& receiver, const char* name, const char* folder, Packing packing) {
    Sending& s = sending();
    StepFile& step = *s.step;
    const uint64_t size = step.eof();
    if (const int error = is_handed_on(step) ? bring(step, s.asked) : 0) return error;
    Places places = places_of(step, s.asked);
    if (places.runs.size() > kMostListed ||
        places.brought.size() > kMostListed) {  // its readers here have brought so many pieces of it
        if (const int error = bring_all(step)) return error;
        places = places_of(step, s.asked);
    }
    const auto& [brought, hosts, runs] = places;
    const bool whole = brought.size() == 1 && brought[0].begin == 0 && brought[0].end == size;
    if (!whole || packing.count > kMostListed) packing.count = 0;
    // What crosses is what was published, as its checksums show: no others are computed.
    const bool summed = whole && packing.count == 0 && !step.state->sums.empty();
    const StepToken token = step.token();
    const SlotRecord& slot = process().board.slot(token.slot);
    const uint64_t number = slot.numbered ? slot.numbered - 1 : slot.sequence;
    const Head head = {static_cast<uint32_t>(strlen(folder)),
                       static_cast<uint32_t>(strlen(name)),
                       size,
                       number,
                       token,
                       step.state->published,
                       s.before.size(),
                       brought.size(),
                       hosts.size(),
                       runs.size(),
                       packing.count,
                       summed ? step.state->sums.size() : 0,
                       packing.count > 0 ? packing.error : 0,
                       packing.count > 0 ? packing.part : 0,
                       packing.seconds};
    std::vector<char> text;
    const auto add = [&text](const void* from, size_t count) {
        text.insert(text.end(), static_cast<const char*>(from), static_cast<const char*>(from) + count);
    };
    add(&head, sizeof(head));
    add(folder, head.folder);
    add(name, head.name);
    add(s.before.data(), s.before.size() * sizeof(uint64_t));
    add(brought.data(), brought.size() * sizeof(homes::Range));
    if (!hosts.empty()) add(homes::lead(step.state->slot), kAddressMax);
    for (const homes::Host& host : hosts) add(host.where, kAddressMax);
    add(runs.data(), runs.size() * sizeof(homes::Run));
    add(packing.pieces, packing.count * sizeof(Piece));
    if (summed) add(step.state->sums.data(), step.state->sums.size() * sizeof(uint32_t));
    Pieces bytes;
    if (packing.count > 0) {
        add_others(&bytes, step.data(), size, packing.pieces, packing.count);
        bytes.add(const_cast<void*>(packing.bytes), packing.length);
    } else {
        for (const homes::Range& range : brought) bytes.add(step.data() + range.begin, range.end - range.begin);
    }
    const uint64_t crossing = bytes.length();
    s.on_the_way.push_back({std::exchange(s.step, nullptr), crossing});
    s.bytes += crossing;
    s.whole = s.whole && whole;
    --s.steps;
    if (packing.count > 0) return receiver.send_meanwhile(std::move(text), std::move(bytes));
    if (const int error = receiver.send_words(text.data(), text.size(), !brought.empty())) return error;
    return summed ? receiver.send_summed(std::move(bytes), step.state->sums) : receiver.send_bytes(std::move(bytes));
}

}  // namespace

// Takes the in-port's next step when the receiver can take one, to be sent by the next call. `name`, `folder`: by which
// its producer called it, and from where. `whole`: bytes that are on other hosts are brought; `bytes`, `size`: the
// step's. It stays until the receiver has it, or longer: its producer may look at it. Returns 0, -1: none will come,
// which the receiver knows, or an errno. ENOTDIR: from where is not known any more; ECONNRESET: the receiver has left;
// EINTR: the run is being stopped, or Python has an exception to raise.
WILKINS_API(int, wilkins_relay_take(int index, int wire, char* name, char* folder, int whole, const void** bytes,
                                    uint64_t* size)) {
    OtherHalf& receiver = other_half(wire);
    Sending& s = sending();
    name[0] = 0;
    if (const int error = take_when_asked(receiver, index, name, folder)) {
        int failed = 0;
        while (error == kEnd && !s.on_the_way.empty() && !failed) failed = hear(receiver);
        const Head end = {};
        if (error == kEnd && !failed) failed = receiver.send_words(&end, sizeof(end), false);
        return failed ? failed : error;
    }
    const bool known = folder[0] || name[0] == '/';
    if (!known) return ENOTDIR;
    if (const int error = whole && s.step->may_lack() ? bring_all(*s.step) : 0) return error;
    *bytes = s.step->data();
    *size = s.step->eof();
    return 0;
}
WILKINS_OR(errno)

// Sends the step that was taken, with these parts of it packed. Such a step is still being sent when this returns.
// Returns 0 or an errno, as above.
WILKINS_API(int, wilkins_relay_give(int wire, const char* name, const char* folder, const Packing* packing)) {
    return send_step(other_half(wire), name, folder, *packing);
}
WILKINS_OR(errno)

// Ends the connection where the sender fails: nothing of any step is sent any more.
WILKINS_API(int, wilkins_relay_break_off(int wire)) {
    other_half(wire).break_off();
    return 0;
}
WILKINS_OR(errno)

namespace {

KeptElsewhere& kept() {
    static auto* const all = new KeptElsewhere;  // a thread of its own uses it to the end of the process
    return *all;
}

// What the next step is to bring along: what was read of the last one of which that is known.
std::vector<homes::Range> wanted(bool whole) {
    const Process& p = process();
    const PortRecord& outport = p.board.port(p.first_port);
    size_t most = kMostLazy;
    for (const PortRecord& inport : inports_of(p.board, outport))
        if (inport.keys.far_host != 0) most = kMostHandedOn;
    const bool lazily = !whole && outport.keys.mode == Mode::memory && !outport.keys.checked && kept().count() < most;
    return lazily ? lazy::last_used() : std::vector<homes::Range>{{0, UINT64_MAX}};
}

bool are_sound(const std::vector<homes::Range>& ranges, uint64_t size) {
    uint64_t end = 0;
    for (const homes::Range& range : ranges) {
        if (range.begin < end || range.begin % homes::kSector != 0 || range.end > size ||
            (range.end % homes::kSector != 0 && range.end != size))
            return false;
        end = range.end;
    }
    return true;
}

// True if the pieces are parts of a step that is brought whole, in order and apart.
bool are_sound(const std::vector<Piece>& pieces, const std::vector<homes::Range>& brought, uint64_t size) {
    if (pieces.empty()) return true;
    uint64_t end = 0;
    for (const Piece& piece : pieces) {
        if (piece.begin < end || piece.begin >= piece.end || piece.end > size) return false;
        if (piece.stored == 0 || piece.stored > piece.end - piece.begin) return false;
        end = piece.end;
    }
    return brought.size() == 1 && brought[0].begin == 0 && brought[0].end == size;
}

// Where bytes are that the sender has not. Returns 0 or an errno.
int receive_elsewhere(OtherHalf& sender, const Head& head, lazy::Elsewhere* elsewhere) {
    if (head.hosts > homes::kMostHosts) return EPROTO;
    *elsewhere = {};
    if (const int error = head.hosts > 0 ? sender.receive(elsewhere->lead, kAddressMax) : 0) return error;
    for (uint64_t k = 0; k < head.hosts; ++k) {
        homes::Host host = {};
        if (const int error = sender.receive(host.where, kAddressMax)) return error;
        host.where[kAddressMax - 1] = 0;
        elsewhere->hosts.push_back(host);
    }
    elsewhere->lead[kAddressMax - 1] = 0;
    if (const int error = receive_list(sender, head.runs, &elsewhere->runs)) return error;
    const auto known = [&](const homes::Run& run) { return run.host <= head.hosts; };
    return std::all_of(elsewhere->runs.begin(), elsewhere->runs.end(), known) ? 0 : EPROTO;
}

// What comes of a step, and what of it comes packed.
struct Coming {
    std::vector<homes::Range> brought;
    lazy::Elsewhere elsewhere;
    std::vector<Piece> pieces;
    std::vector<unsigned char> packed;
    sums::Sums sums;
};

// `damaged`: what of that which has come.
void note_damage(const StepFile& step, const char* server, const StepToken& token, const Coming& coming,
                 const std::vector<ByteRange>& damaged) {
    std::vector<far::Crossed> crossed;
    const auto add = [&](uint64_t begin, uint64_t end) { crossed.push_back({begin, end, end - begin}); };
    if (coming.pieces.empty())
        for (const homes::Range& range : coming.brought) add(range.begin, range.end);
    uint64_t at = 0;
    for (const Piece& piece : coming.pieces) {
        add(at, piece.begin);
        at = piece.end;
    }
    if (!coming.pieces.empty()) add(at, coming.brought[0].end);
    for (const Piece& piece : coming.pieces) crossed.push_back({piece.begin, piece.end, piece.stored});
    const PythonUnlocked python;
    far::note_damage(server, token, step.name(), "its producer's host", far::damaged_bytes(crossed, damaged));
}

// Bytes of the step that were damaged on the way, from the sender's server: it still has the step.
int receive_again(const StepFile& step, const char* server, const StepToken& token,
                  const std::vector<homes::Range>& ranges) {
    PythonUnlocked python;
    int error = 0;
    const std::unique_ptr<FarFile> file = FarFile::open(server, token, Use::bring, step.name(), "", &error);
    if (!file) return error;
    file->gather(ranges, step.data());
    return file->settle();
}

// The step's bytes, once more if they were damaged on the way.
int receive_bytes(OtherHalf& sender, const StepFile& step, const char* server, const StepToken& token, Coming* coming) {
    uint64_t length = 0;
    for (const Piece& piece : coming->pieces) length += piece.stored;
    coming->packed.resize(length);
    Pieces bytes;
    if (coming->pieces.empty())
        for (const homes::Range& range : coming->brought) bytes.add(step.data() + range.begin, range.end - range.begin);
    else add_others(&bytes, step.data(), coming->brought[0].end, coming->pieces.data(), coming->pieces.size());
    bytes.add(coming->packed.data(), length);
    const int error = sender.receive(std::move(bytes));
    if (error != EBADMSG) return error;
    note_damage(step, server, token, *coming, sender.damaged());
    coming->pieces.clear();
    coming->packed.clear();
    return receive_again(step, server, token, coming->brought);
}

// Puts the packed pieces of a step where they belong. Called with Python's lock; returns 0 or an errno.
using Unpack = int (*)(unsigned char* step, uint64_t size, const Packing* packing);

// The step's bytes come, or some of them: the others stay at `server`, and at hosts that have parts. Of what was asked
// for, they come from there, too.
int fill(OtherHalf& sender, const StepFile& step, const Head& head, const std::vector<homes::Range>& asked,
         Coming* coming, const char* server, Unpack unpack) {
    uint64_t count = 0;
    for (const homes::Range& range : coming->brought) count += range.end - range.begin;
    int error = receive_bytes(sender, step, server, head.token, coming);
    if (!error && unpack) {
        const Packing packing = {coming->pieces.data(),
                                 coming->pieces.size(),
                                 coming->packed.data(),
                                 coming->packed.size(),
                                 head.error,
                                 head.part,
                                 head.seconds};
        error = unpack(step.data(), head.size, &packing);
    }
    if (error || count == head.size) return error;
    std::unique_ptr<FarFile> keeps = FarFile::open(server, head.token, Use::keep, step.name(), "", &error);
    if (!keeps) return error;
    if ((error = lazy::publish_absent(step, coming->brought, head.token, server, coming->elsewhere))) return error;
    kept().add(step.token().slot, step.token().stamp, std::move(keeps));
    if (coming->elsewhere.hosts.empty()) return 0;
    PythonUnlocked python;
    return homes::bring(step.state, asked.data(), asked.size(), homes::kUnread);
}

int note_origin(const StepFile& step, uint64_t published, const std::vector<uint64_t>& before) {
    const Board& board = process().board;
    Board::Lock lock(board);
    return queue::note_origin(board, board.slot(step.state->slot), published, before) ? 0 : EPROTO;
}

// Waits until a reader wants a step. `last`: the name of the one before. Returns 0; kEnd: no reader will want any; or
// EINTR, as a wait does.
int await_demand(int outport, const char* last) {
    Process& p = process();
    Board::Lock lock(p.board);
    Wait wait(p, WaitFor::room, outport, last);
    while (!queue::is_wanted(p.board, outport, last)) {
        if (!queue::is_read(p.board, outport)) return kEnd;
        if (const int error = wait.nap(lock)) return error;
    }
    return 0;
}

int receive_step(OtherHalf& sender, const char* name, const Head& head, const std::vector<homes::Range>& asked,
                 const char* server, Unpack unpack) {
    std::vector<uint64_t> before;
    Coming coming;
    if (const int error = receive_list(sender, head.before, &before)) return error;
    if (const int error = receive_list(sender, head.ranges, &coming.brought)) return error;
    if (const int error = receive_elsewhere(sender, head, &coming.elsewhere)) return error;
    if (const int error = receive_list(sender, head.pieces, &coming.pieces)) return error;
    if (const int error = receive_list(sender, head.sums, &coming.sums)) return error;
    Match match;
    if (!are_sound(coming.brought, head.size) || !are_sound(coming.pieces, coming.brought, head.size) ||
        (!unpack && !coming.pieces.empty()) || !match_name(name, &match, Purpose::create) || match.outport < 0)
        return EPROTO;
    int error = 0;
    StepFile* step = open_step(match, Intent::create, 1, &error);
    if (!step) return error;
    process().board.slot(step->token().slot).numbered = head.number + 1;
    error = note_origin(*step, head.published, before);
    if (!error) error = step->prepare_write(0, head.size, true);
    if (!error && !coming.sums.empty()) {
        error = sums::keep(process().board, step->state->slot, head.size, coming.sums);
        step->state->summed = true;
    }
    if (!error) error = fill(sender, *step, head, asked, &coming, server, unpack);
    if (error) discard_step(step);
    else close_step(step);
    return error;
}

}  // namespace

// Asks for as many steps as there is room for, and publishes the next one under its name. `folder`: where the process
// is; it goes where the producer was. `server`: where the sender gives what is absent (address:port). `unpack`: for a
// port with `compress`, or nullptr. Returns 0, -1: there is none any more, or an errno. ECONNRESET: the sender has
// left; EINTR: the run is being stopped, or Python has an exception to raise.
WILKINS_API(int, wilkins_relay_receive(int wire, const char* server, char* name, char* folder, Unpack unpack)) {
    const Process& p = process();
    OtherHalf& sender = other_half(wire);
    PortRecord& outport = p.board.port(p.first_port);
    if (!outport.asked_at[0])
        strncpy(outport.asked_at, server, kAddressMax - 1);  // readers look at it once a step has come
    const int over = outport.keys.on_demand ? await_demand(p.first_port, name) : 0;
    if (over && over != kEnd) return over;
    const std::vector<homes::Range> wants = over ? std::vector<homes::Range>() : wanted(unpack != nullptr);
    static uint64_t on_the_way = 0;
    Ask ask = {0, over ? kNoMore : wants.size()};
    Head head{};
    char above[kNameMax] = {};
    {
        Board::Lock lock(p.board);
        const int most = outport.keys.on_demand ? 1 : queue::coming(p.board, outport.first_source, name, kMostOnTheWay);
        ask.steps = std::max(static_cast<uint64_t>(most), on_the_way) - on_the_way;
    }
    name[0] = 0;
    on_the_way += ask.steps;
    if (const int error = sender.send_words(&ask, sizeof(ask), !wants.empty())) return error;
    if (const int error = sender.send_words(wants.data(), wants.size() * sizeof(homes::Range), false)) return error;
    if (const int error = sender.receive(&head, sizeof(head))) return error;
    if (!head.name) return kEnd;
    --on_the_way;
    if (head.name >= kNameMax || head.folder >= kNameMax) return EPROTO;
    if (const int error = sender.receive(above, head.folder)) return error;
    if (const int error = sender.receive(name, head.name)) return error;
    name[head.name] = 0;
    if (head.folder && strcmp(above, folder) != 0) {
        if (chdir(above) != 0) return errno;
        strcpy(folder, above);
    }
    return receive_step(sender, name, head, wants, server, unpack);
}
WILKINS_OR(errno)

// No step will come any more, and the task's readers may know. Waits until they can read no step of which bytes are
// absent. Returns 0, or EINTR: the run is being stopped, or Python has an exception to raise.
WILKINS_API(int, wilkins_relay_end()) {
    leave_board();
    return kept().await_end(process().first_port);
}
WILKINS_OR(errno)
