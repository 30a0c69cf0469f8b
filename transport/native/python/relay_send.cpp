// The half of a relay that reads steps, and sends them.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "board/border.hpp"
#include "board/trace.hpp"
#include "python/relay.hpp"
#include "queue/origins.hpp"
#include "queue/queue.hpp"
#include "steps/closing.hpp"
#include "steps/handles.hpp"
#include "steps/homes.hpp"
#include "steps/kept_here.hpp"
#include "store/store.hpp"

using namespace wilkins;
using namespace wilkins::relay;

namespace {

// A step of so few bytes comes whole; where tests make every step lazy, none does.
#ifdef WILKINS_HOOKS
constexpr uint64_t kSmall = 0;
#else
constexpr uint64_t kSmall = 4 * kBlock;
#endif
// The bytes of steps on their way, as they cross, behind which another one may be sent.
constexpr uint64_t kMostBytesOnTheWay = 4 << 20;
// So long a sender waits at first for word of steps that are on their way before it looks whether there is a next one
// to send, and at most.
constexpr int kFirstLook = 1, kLastLook = 4;  // ms

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
    // What was sent stays until the receiver has it. What was sent in part stays longer (steps/kept_here.hpp).
    std::deque<Sent> on_the_way;
    uint64_t bytes = 0;    // of these
    uint64_t steps = 0;    // that the receiver can take yet
    int64_t may_lack = 0;  // so many of them may come in part; less than none where one had to
    std::vector<homes::Range> asked;
    StepFile* step = nullptr;  // was taken, and is sent next
    std::vector<uint64_t> before;
    bool more = true;  // that it is to take any

    bool may_send() const {
        const bool whole = asked.size() == 1 && asked[0].begin == 0 && asked[0].end == UINT64_MAX;
        return steps > 0 && (whole || may_lack > 0) && (on_the_way.empty() || bytes < kMostBytesOnTheWay);
    }
};
Sending& sending() {
    static auto* const one = new Sending;
    return *one;
}

// Waits for what the receiver says.
int hear(OtherHalf& receiver) {
    Sending& s = sending();
    Ask ask{};
    if (const int error = receiver.receive(&ask, sizeof(ask))) return error;
    s.more = ask.ranges != kNoMore;
    if (const int error = s.more ? receive_list(receiver, ask.ranges, &s.asked) : 0) return error;
    s.steps += ask.steps;
    s.may_lack += static_cast<int64_t>(ask.in_part);
    if (ask.come > s.on_the_way.size()) return EPROTO;
    for (; ask.come > 0; --ask.come) {
        s.bytes -= s.on_the_way.front().bytes;
        close_step(s.on_the_way.front().step);
        s.on_the_way.pop_front();
    }
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

// Of a step whose bytes come, all of which the receiver is to get: they go on as they come.
bool goes_on_as_it_comes(const StepFile& step, const std::vector<homes::Range>& asked) {
    const bool comes = process().board.slot(step.state->slot).lazy.comes.load() != 0;
    return comes && asked.size() == 1 && asked[0].begin == 0 && asked[0].end >= step.eof();
}

int send_step(OtherHalf& receiver, const char* name, const char* folder, Packing packing) {
    Sending& s = sending();
    StepFile& step = *s.step;
    const uint64_t size = step.eof();
    const bool comes = goes_on_as_it_comes(step, s.asked);
    if (const int error = is_handed_on(step) && !comes ? bring(step, s.asked) : 0) return error;
    Places places;
    if (comes) places.brought = {{0, size}};
    else places = places_of(step, s.asked);
    if (places.runs.size() > kMostListed ||
        places.brought.size() > kMostListed) {  // its readers here have brought so many pieces of it
        if (const int error = bring_all(step)) return error;
        places = places_of(step, s.asked);
    }
    const auto& [brought, hosts, runs] = places;
    const bool whole = is_whole(brought, size);
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
    if (const int error = whole ? 0 : KeptHere::all().add(step)) return error;
    s.on_the_way.push_back({std::exchange(s.step, nullptr), crossing});
    s.bytes += crossing;
    s.may_lack -= !whole;
    --s.steps;
    if (packing.count > 0) return receiver.send_meanwhile(std::move(text), std::move(bytes));
    if (const int error = receiver.send_words(text.data(), text.size(), !brought.empty())) return error;
    if (comes)
        return receiver.send_in_pieces(step.data(), size, [&, at = uint64_t{0}](uint64_t end, bool waits) mutable {
            if (!waits && !homes::has_come(slot, end)) return EAGAIN;
            return bring(step, {{std::exchange(at, end), end}});
        });
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
