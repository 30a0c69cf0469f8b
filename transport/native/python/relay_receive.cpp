// The half of a relay that receives steps, and publishes them.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "board/border.hpp"
#include "far/damage.hpp"
#include "far/far_wire.hpp"
#include "python/relay.hpp"
#include "queue/origins.hpp"
#include "queue/parts.hpp"
#include "queue/queue.hpp"
#include "steps/closing.hpp"
#include "steps/handles.hpp"
#include "steps/homes.hpp"
#include "steps/kept_elsewhere.hpp"
#include "steps/lazy.hpp"
#include "steps/sums.hpp"
#include "store/store.hpp"

using namespace wilkins;
using namespace wilkins::relay;

namespace {

// Lazy steps at once, those on their way among them, and where further hosts keep some here, too: a source has twelve
// slots beyond its longest queue.
constexpr int64_t kMostLazy = 4, kMostHandedOn = 8;

// Steps on their way at once.
constexpr int kMostOnTheWay = 8;

// So long at most a step waits to come in part, and so long it is until somebody looks whether it may.
constexpr std::chrono::seconds kPatience{1};
constexpr int kLook = 20;  // ms

KeptElsewhere& kept() {
    static auto* const all = new KeptElsewhere;  // a thread of its own uses it to the end of the process
    return *all;
}

// True if this host hands steps of the port on to others.
bool hands_on(const PortRecord& outport) {
    for (const PortRecord& inport : inports_of(process().board, outport))
        if (inport.keys.far_host != 0) return true;
    return false;
}

// True if steps of the port may be published while bytes of them are absent.
bool may_lack(const PortRecord& outport) { return outport.keys.mode == Mode::memory && !outport.keys.checked; }

// What was asked for and has not come.
struct Outstanding {
    uint64_t steps = 0;
    int64_t in_part = 0;  // so many of these may come so; less than none where one had to
    uint64_t come = 0;    // since the sender was told
};
Outstanding& outstanding() {
    static Outstanding all;
    return all;
}

// `ranges`: nullptr where no step is wanted any more.
int ask(OtherHalf& sender, uint64_t steps, int64_t in_part, const std::vector<homes::Range>* ranges) {
    Outstanding& asked = outstanding();
    const Ask words = {std::exchange(asked.come, 0), steps, static_cast<uint64_t>(in_part),
                       ranges ? ranges->size() : kNoMore};
    asked.steps += steps;
    asked.in_part += in_part;
    const bool more = ranges && !ranges->empty();
    if (const int error = sender.send_words(&words, sizeof(words), more)) return error;
    return more ? sender.send_words(ranges->data(), ranges->size() * sizeof(homes::Range), false) : 0;
}

// So many further steps may come in part.
int64_t may_come_in_part() {
    const int64_t most = hands_on(process().board.port(process().first_port)) ? kMostHandedOn : kMostLazy;
    return most - static_cast<int64_t>(kept().count()) - outstanding().in_part;
}

// True if no reader waits for a step of the port. Call with the board's lock held.
bool have_all_some(const Board& board, const PortRecord& outport) {
    bool any = false;
    for (const ChannelRecord& channel : channels_of(board, outport)) {
        if (!queue::alive(board, channel)) continue;
        if (queue::queued(board, channel, 0) == 0) return false;
        any = true;
    }
    return any;
}

// True if a further step may come in part, which then takes the place of one whose name might be opened again.
bool may_another() {
    const Process& p = process();
    if (outstanding().in_part > 0 || may_come_in_part() > 0) return true;
    Board::Lock lock(p.board);
    return queue::let_go_lazy(p.board, p.board.port(p.first_port).first_source);
}

// Where no further step may come in part, one may when readers are done with another one. While they all have steps
// to read, the next one waits for that, rather than to come whole. Returns 0 or an errno.
int await_read(OtherHalf& sender) {
    if (may_another()) return 0;
    using Clock = std::chrono::steady_clock;
    Process& p = process();
    SourceRecord& source = p.board.source(p.board.port(p.first_port).first_source);
    source.asked.fetch_add(1);
    const std::vector<homes::Range> none;
    if (const int error = ask(sender, 0, 0, &none)) return error;
    for (const Clock::time_point end = Clock::now() + kPatience; !may_another() && Clock::now() < end;) {
        Board::Lock lock(p.board);
        if (!have_all_some(p.board, p.board.port(p.first_port))) return 0;
        if (const int error = nap(p, p.first_port, lock, kLook)) return error;
    }
    return 0;
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

// Takes the damaged pieces out of what has come packed, and returns the bytes of the step that were damaged. `damaged`:
// of what has come.
std::vector<ByteRange> take_out_damaged(Coming* coming, const std::vector<ByteRange>& damaged) {
    std::vector<ByteRange> plain = coming->brought;
    if (!coming->pieces.empty()) {
        plain.clear();
        uint64_t at = 0;
        for (const Piece& piece : coming->pieces) {
            plain.push_back({at, piece.begin});
            at = piece.end;
        }
        plain.push_back({at, coming->brought[0].end});
    }
    std::vector<ByteRange> found = far::damaged_bytes(plain, damaged);
    const uint64_t before = far::length_of(plain);
    std::vector<Piece> pieces = std::move(coming->pieces);
    std::vector<unsigned char> packed = std::move(coming->packed);
    coming->pieces.clear();
    coming->packed.clear();
    uint64_t at = 0;
    for (const Piece& piece : pieces) {
        const uint64_t begin = before + at, end = begin + piece.stored;
        if (std::any_of(damaged.begin(), damaged.end(),
                        [=](const ByteRange& range) { return range.begin < end && begin < range.end; })) {
            found.push_back({piece.begin, piece.end});
        } else {
            coming->pieces.push_back(piece);
            coming->packed.insert(coming->packed.end(), packed.data() + at, packed.data() + at + piece.stored);
        }
        at += piece.stored;
    }
    std::sort(found.begin(), found.end(),
              [](const ByteRange& one, const ByteRange& other) { return one.begin < other.begin; });
    return found;
}

// Bytes of the step that came damaged, from the sender's server: it still has the step. `had_changed`: they were so in
// its memory, and not on the way.
int receive_again(const StepFile& step, const char* server, const StepToken& token,
                  const std::vector<ByteRange>& ranges, bool* had_changed) {
    PythonUnlocked python;
    int error = 0;
    const std::unique_ptr<FarFile> file = FarFile::open(server, token, Use::bring, step.name(), "", &error);
    if (!file) return error;
    file->gather(ranges, step.data());
    error = file->settle();
    *had_changed = error == EIO || file->had_changed();
    return error;
}

// Damaged bytes of the step come once more. None: nobody knows what has come.
int mend(const StepFile& step, const char* server, const StepToken& token, const std::vector<ByteRange>& damaged) {
    if (damaged.empty()) return EBADMSG;
    bool had_changed = false;
    const int error = receive_again(step, server, token, damaged, &had_changed);
    if (had_changed) return error;  // as that host has said
    const PythonUnlocked python;
    far::note_damage(server, token, step.name(), "its producer's host", damaged);
    return error;
}

// The step's bytes; once more what of them was damaged on the way.
int receive_bytes(OtherHalf& sender, const StepFile& step, const char* server, const StepToken& token, Coming* coming) {
    uint64_t length = 0;
    for (const Piece& piece : coming->pieces) length += piece.stored;
    coming->packed.resize(length);
    Pieces bytes;
    if (coming->pieces.empty())
        for (const homes::Range& range : coming->brought) bytes.add(step.data() + range.begin, range.end - range.begin);
    else add_others(&bytes, step.data(), coming->brought[0].end, coming->pieces.data(), coming->pieces.size());
    bytes.add(coming->packed.data(), length);
    const int error = sender.receive_bytes(std::move(bytes));
    return error == EBADMSG ? mend(step, server, token, take_out_damaged(coming, sender.damaged())) : error;
}

// Puts the packed pieces of a step where they belong. Called with Python's lock; returns 0 or an errno.
using Unpack = int (*)(unsigned char* step, uint64_t size, const Packing* packing);

// The step's bytes come, or some of them: the others stay at `server`, and at hosts that have parts. Of what was asked
// for, they come from there, too.
int fill(OtherHalf& sender, const StepFile& step, const Head& head, const std::vector<homes::Range>& asked,
         Coming* coming, const char* server, Unpack unpack) {
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
    if (error || is_whole(coming->brought, head.size)) return error;
    {
        PythonUnlocked python;
        error = kept().connect(server);
    }
    if (error) return error;
    if ((error = lazy::publish_absent(step, coming->brought, head.token, server, coming->elsewhere))) return error;
    kept().add(step.token().slot, step.token().stamp, head.token);
    if (coming->elsewhere.hosts.empty()) return 0;
    PythonUnlocked python;
    return homes::bring(step.state, asked.data(), asked.size(), homes::kUnread);
}

// True if the step is published first, and then filled: others want what there is of it.
bool is_published_first(const PortRecord& outport, const Head& head, const Coming& coming) {
    const bool plain = is_whole(coming.brought, head.size) && coming.pieces.empty();
    return plain && head.size > kPiece && may_lack(outport) && hands_on(outport);
}

// Publishes the step, and holds it. nullptr: that fails.
StepFile* publish_to_be_filled(StepFile* step, int* error) {
    const Process& p = process();
    const StepToken token = step->token();
    char name[kNameMax];
    strcpy(name, step->name());
    *error = homes::begin_to_come(step->state);
    if (!*error) {
        Board::Lock lock(p.board);
        if (!queue::add_hold(p.board, p.rank_index, token.slot)) *error = too_many_open(p, name);
    }
    if (*error) {
        discard_step(step);
        return nullptr;
    }
    close_step(step);
    {
        Board::Lock lock(p.board);
        const SlotRecord& slot = p.board.slot(token.slot);
        if (slot.stamp != token.stamp || slot.state == SlotState::free) {  // it could not be published, as was said
            queue::drop_hold(p.board, p.rank_index, token.slot, p.board.self());
            *error = EIO;
            return nullptr;
        }
    }
    StepFile* const held = open_held(token.slot, token.stamp, name, error);
    if (held) held->state->again = true;  // its close is no event
    return held;
}

// The bytes of a published step come; once more what of them was damaged on the way.
int fill_published(OtherHalf& sender, const StepFile& step, const char* server, const StepToken& token) {
    const uint64_t size = step.eof();
    const int error = sender.receive_in_pieces(step.data(), size, [&](uint64_t end) {
        if (end < size) homes::note_come(step.state, end);
    });
    const int again = error == EBADMSG ? mend(step, server, token, sender.damaged()) : error;
    if (!again) homes::note_come(step.state, size);
    return again;
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
    --outstanding().steps;
    ++outstanding().come;
    outstanding().in_part -= !is_whole(coming.brought, head.size);
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
    SlotRecord& slot = process().board.slot(step->token().slot);
    slot.numbered = head.number + 1;
    slot.lazy.slot = head.token.slot;
    slot.lazy.stamp = head.token.stamp;
    error = note_origin(*step, head.published, before);
    if (!error) error = step->prepare_write(0, head.size, true);
    if (!error && !coming.sums.empty()) {
        error = sums::keep(process().board, step->state->slot, head.size, coming.sums);
        step->state->summed = true;
    }
    if (!error && is_published_first(process().board.port(match.outport), head, coming)) {
        step = publish_to_be_filled(step, &error);
        if (step) error = fill_published(sender, *step, server, head.token);
        if (step) close_step(step);
        return error;
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
    Outstanding& asked = outstanding();
    const bool lazily = may_lack(outport) && unpack == nullptr;
    if (lazily && !outport.keys.on_demand)
        if (const int error = await_read(sender)) return error;
    const int64_t in_part = std::max<int64_t>(may_come_in_part(), 0);
    std::vector<homes::Range> wants;
    if (!over && lazily && asked.in_part + in_part > 0) wants = lazy::last_used();
    else if (!over) wants = {{0, UINT64_MAX}};
    uint64_t steps = 0;
    {
        Board::Lock lock(p.board);
        const int most = outport.keys.on_demand ? 1 : queue::coming(p.board, outport.first_source, name, kMostOnTheWay);
        steps = std::max(static_cast<uint64_t>(most), asked.steps) - asked.steps;
    }
    name[0] = 0;
    if (const int error = ask(sender, steps, in_part, over ? nullptr : &wants)) return error;
    Head head{};
    char above[kNameMax] = {};
    if (const int error = sender.receive(&head, sizeof(head))) return error;
    if (!head.name) return kEnd;
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
