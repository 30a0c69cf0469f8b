// Finds circles of waits, and stretches queues or lets steps go to end them.
#include "waiting/circle.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <cstring>
#include <list>

#include "base/fault.hpp"
#include "board/context.hpp"
#include "board/trace.hpp"
#include "events.hpp"
#include "queue/answers.hpp"
#include "queue/parts.hpp"

namespace wilkins {

namespace {

constexpr int64_t kCheckShare = 20;  // of the time, at most one part in so many goes by while the board is looked over

// A channel that keeps a rank, of a circle, from writing on.
struct Full {
    int rank;
    int channel;
    bool by_count;  // steps fill its queue; else it may be those that take memory
};

// All channels of the ports on which ranks of the circle wait for room or memory.
std::vector<Full> full_channels(const Board& board, Waiting& waiting, const std::vector<int>& circle) {
    std::vector<Full> found;
    for (const int r : circle) {
        RankRecord& rank = board.rank(r);
        each_wait(rank, [&](const WaitRecord& wait) {
            if (wait.what == WaitFor::data || waiting.survey().is_over(wait.process)) return;
            std::vector<int> full;
            if (wait.what == WaitFor::room) full = waiting.survey().full_channels(rank, wait);
            for (const int channel : full) found.push_back({r, channel, true});
            if (!full.empty()) return;
            for (const ChannelRecord& channel : channels_of(board, board.port(wait.port)))
                found.push_back({r, board.index(channel), false});
        });
    }
    return found;
}

const SourceRecord& source_of(const Board& board, const Full& full) {
    return board.source(board.port(board.channel(full.channel).outport), board.rank(full.rank).rank);
}

// Of the memory that the port may take, what steps have that go for want of it (see steps/reclaim.cpp).
uint64_t can_give_back(const Board& board, int port) {
    uint64_t bytes = 0;
    for (const SlotRecord& slot : slots_of(board)) {
        if (slot.accounted == 0 || board.source(slot.source).port != port || slot.viewed.load()) continue;
        if (!queue::is_attached(slot) && !queue::claimed(board, slot) && !queue::needed(board, slot, true))
            bytes += slot.accounted;
    }
    return bytes;
}

// Is there memory for a step more, as large as the source's largest: half of what the run's file system has free is for
// others.
bool has_memory(const Board& board, const SourceRecord& source) {
    const PortRecord& port = board.port(source.port);
    if (port.keys.mode == Mode::file) return true;
    uint64_t largest = 0;
    for (const SlotRecord& slot : slots_of(board, source)) largest = std::max<uint64_t>(largest, slot.reserved.load());
    if (port.cap && port.used + largest > port.cap &&
        port.used + largest > port.cap + can_give_back(board, source.port))
        return false;
    struct statvfs fs;
    return statvfs(board.folder(), &fs) == 0 && largest <= static_cast<uint64_t>(fs.f_bavail) * fs.f_frsize / 2;
}

// True if the number of steps alone fills the channel, and it may hold more.
bool may_grow(const Board& board, const Full& full) {
    const ChannelRecord& channel = board.channel(full.channel);
    return full.by_count && channel.queue + channel.stretched < board.port(channel.inport).keys.reorder;
}

// The full channel that has grown least, of those that can; -1: none.
int find_stretch(const Board& board, const std::vector<Full>& channels) {
    int best = -1;
    for (const Full& full : channels) {
        if (!may_grow(board, full)) continue;
        const ChannelRecord& channel = board.channel(full.channel);
        if (best >= 0 && board.channel(best).stretched <= channel.stretched) continue;
        if (has_memory(board, source_of(board, full))) best = full.channel;
    }
    return best;
}

// An in-port of which ranks have steps in common; without that, each would leave to others what these have consumed.
// -1: none.
int find_common(const Board& board, const std::vector<Full>& channels) {
    for (const Full& full : channels) {
        const PortRecord& inport = board.port(board.channel(full.channel).inport);
        if (inport.in_common && !in_order(inport)) return board.channel(full.channel).inport;
    }
    return -1;
}

// True if a rank of the task waits for a step that may come. A name that is unlike all that were published is rather a
// mistake: not for that are steps let go.
bool waits_for_data(const Board& board, const std::vector<int>& circle, int task) {
    return std::any_of(circle.begin(), circle.end(), [&](int r) {
        const RankRecord& rank = board.rank(r);
        return rank.task == task &&
               std::any_of(std::begin(rank.waits), std::end(rank.waits), [&](const WaitRecord& wait) {
                   return wait.what == WaitFor::data && !queue::is_strange(board, board.port(wait.port), wait.name);
               });
    });
}

// The step to let go: the oldest that a rank is waiting past, and that none of its task has consumed; else one that
// some have consumed.
struct Loss {
    int channel = -1;
    int slot = -1;
    bool consumed = false;
    int waits = -1;                    // the rank that waits for another one,
    const WaitRecord* wait = nullptr;  // so
};

Loss find_loss(const Board& board, const std::vector<Full>& channels, const std::vector<int>& circle) {
    Loss found;
    for (const Full& full : channels) {
        const ChannelRecord& channel = board.channel(full.channel);
        const PortRecord& inport = board.port(channel.inport);
        if (in_order(inport) || !waits_for_data(board, circle, inport.task)) continue;
        // Memory is the port's: any of its sources may have a step to let go.
        const PortRecord& outport = board.port(channel.outport);
        const int first = full.by_count ? source_of(board, full).rank : 0;
        const int last = full.by_count ? first : outport.sources - 1;
        for (int s = first; s <= last; ++s)
            for (const SlotRecord& slot : steps_of(board, channel, board.source(outport, s))) {
                if (queue::is_held_in(board, inport.task, board.index(slot))) continue;  // it is read, or going to be
                const bool consumed = queue::is_consumed(board, channel, s, slot);
                bool done = consumed;
                for (int r = 0; r < channel.readers && done; ++r) done = queue::is_past(board, channel, s, r, slot);
                if (done) continue;
                const bool better =
                    found.slot < 0 || (found.consumed && !consumed) ||
                    (found.consumed == consumed && slot.published_stamp < board.slot(found.slot).published_stamp);
                if (better) found = {full.channel, board.index(slot), consumed, -1, nullptr};
            }
    }
    if (found.slot < 0) return found;
    for (const int r : circle)
        if (const WaitRecord* wait = waits_for(board.rank(r), WaitFor::data);
            wait && board.rank(r).task == board.port(board.channel(found.channel).inport).task)
            found.waits = r, found.wait = wait;
    return found;
}

void let_go(const Board& board, const Loss& loss) {
    ChannelRecord& channel = board.channel(loss.channel);
    const PortRecord& inport = board.port(channel.inport);
    const SlotRecord& slot = board.slot(loss.slot);
    const RankRecord& rank = board.rank(loss.waits);
    const int s = board.source(slot.source).rank;
    if (loss.consumed) {
        for (int r = 0; r < channel.readers; ++r)
            if (!queue::is_done(board, channel, s, r, slot)) board.consumed(slot, channel, r) = kLeft;
    } else {
        queue::note_given_up(board, channel, slot);
        board.on(slot, channel.place) = 0;
    }
    WILKINS_FAULT_POINT("circle.let-go");
    ++channel.let_go;
    trace::note(board, "drop", inport.task, -1, inport.pattern, slot.name, static_cast<int64_t>(slot.sequence),
                static_cast<int64_t>(slot.size.load()));
    log_event_for(board, inport.task, rank.rank,
                  event::let_go(slot.name, slot.sequence, loss.consumed, loss.wait->name, inport.pattern,
                                channel.queue + channel.stretched));
    board.ring(channel.outport);
    board.ring(channel.inport);
}

// Of a circle in which no queue can grow: what ends it.
struct Relief {
    int idle = -1;                     // rank with closed files, with which nobody goes on
    int again = -1;                    // rank that opens a name again,
    const WaitRecord* wait = nullptr;  // this one
    int common = -1;                   // in-port
    Loss loss;
    bool is_there() const { return idle >= 0 || again >= 0 || common >= 0 || loss.slot >= 0; }
};

bool is_waiting(const Board& board, const RankRecord& rank) {
    return std::any_of(std::begin(rank.waits), std::end(rank.waits), [&](const WaitRecord& wait) {
        return wait.what != WaitFor::nothing && !board.is_over(wait.process);
    });
}

// A rank with closed files that are empty, or that a process of a stage has left: its readers may wait for those, and
// they are not written before this circle ends. -1: none.
int find_idle(const Board& board, const std::vector<int>& circle) {
    const auto found = std::find_if(circle.begin(), circle.end(), [&](int r) {
        const RankRecord& rank = board.rank(r);
        return queue::has_idle(board, rank.task, rank.rank, is_waiting(board, rank));
    });
    return found == circle.end() ? -1 : *found;
}

// A rank that waits to open a name again of which it has consumed a step, since the source may write another one: it
// does not before this circle ends, for it waits for room elsewhere. -1: none.
int find_again(const Board& board, const std::vector<int>& circle, const WaitRecord** found) {
    for (const int r : circle) {
        const RankRecord& rank = board.rank(r);
        for (const WaitRecord& wait : rank.waits) {
            if (wait.what != WaitFor::data || wait.kind != WaitKind::plain ||
                !queue::may_settle(board, wait.port, rank.rank, wait.name))
                continue;
            *found = &wait;
            return r;
        }
    }
    return -1;
}

Relief find_relief(const Board& board, Waiting& waiting, const std::vector<int>& circle) {
    Relief relief;
    relief.idle = find_idle(board, circle);
    if (relief.idle >= 0) return relief;
    relief.again = find_again(board, circle, &relief.wait);
    if (relief.again >= 0) return relief;
    const std::vector<Full> channels = full_channels(board, waiting, circle);
    relief.common = find_common(board, channels);
    if (relief.common < 0) relief.loss = find_loss(board, channels, circle);
    return relief;
}

// The first channel that can grow in one of the circles whose waits began before that time; -1: none.
int find_stretch(const Board& board, Waiting& waiting, int64_t before = INT64_MAX) {
    for (const std::vector<int>& circle : waiting.circles()) {
        bool old = true;
        for (const int r : circle)
            each_wait(board.rank(r), [&](const WaitRecord& wait) { old = old && wait.since <= before; });
        if (!old) continue;
        if (const int channel = find_stretch(board, full_channels(board, waiting, circle)); channel >= 0)
            return channel;
    }
    return -1;
}

bool stretch(const Board& board, int index) {
    if (index < 0) return false;
    ChannelRecord& channel = board.channel(index);
    ++channel.stretched;
    WILKINS_FAULT_POINT("circle.stretched");
    board.ring(channel.outport);
    return true;
}

bool stretch(const Board& board, Waits waits, int64_t before = INT64_MAX) {
    Waiting waiting(board, waits);
    return stretch(board, find_stretch(board, waiting, before));
}

void relieve(const Board& board, const Relief& relief, const std::vector<int>& circle) {
    if (relief.idle >= 0) {
        const RankRecord& rank = board.rank(relief.idle);
        return queue::publish_idle(board, rank.task, rank.rank, is_waiting(board, rank));
    }
    if (relief.again >= 0) {
        return queue::settle_name(board, relief.wait->port, board.rank(relief.again).rank, relief.wait->name);
    }
    if (relief.common >= 0) {
        PortRecord& inport = board.port(relief.common);
        inport.in_common = 0;
        for (const ChannelRecord& channel : channels_of(board, inport)) board.ring(channel.outport);
        return;
    }
    // First the looks get the answer that nothing is there.
    const bool looks = std::any_of(circle.begin(), circle.end(), [&](int r) {
        bool looks = false;
        each_wait(board.rank(r), [&](const WaitRecord& wait) {
            looks = looks || wait.kind == WaitKind::gives_up || wait.kind == WaitKind::polls;
        });
        return looks;
    });
    if (!looks) let_go(board, relief.loss);
}

}  // namespace

bool may_stretch(const Board& board, Waiting& waiting) {
    if (find_stretch(board, waiting) >= 0) return true;
    const std::vector<std::vector<int>> circles = waiting.circles();
    return std::any_of(circles.begin(), circles.end(), [&](const auto& circle) {
        return find_idle(board, circle) >= 0 || find_common(board, full_channels(board, waiting, circle)) >= 0;
    });
}

namespace {

// A rank that asks again and again: as if it waited for further steps of the in-port, for as long as this and its
// process live.
class AsIfWaiting {
public:
    AsIfWaiting(const Board& board, int rank, int inport)
        : wait_(*find_wait_place(board, rank)) {  // (none of its threads waits)
        wait_.kind = WaitKind::polls;
        wait_.port = inport;
        wait_.since = 0;
        memcpy(wait_.name, board.port(inport).pattern, sizeof(wait_.name));
        wait_.what = WaitFor::data;
    }
    ~AsIfWaiting() { wait_.what = WaitFor::nothing; }
    AsIfWaiting(const AsIfWaiting&) = delete;
    AsIfWaiting& operator=(const AsIfWaiting&) = delete;

private:
    WaitRecord& wait_;
};

// With all ranks whose listings show nothing new, of which none need be at it just now: what else they may do is not
// held up by a longer queue.
bool stretch_for_polls(const Board& board) {
    std::list<AsIfWaiting> polls;
    for (RankRecord& rank : ranks_of(board))
        if (!is_waiting(board, rank) && lists_nothing_new(rank) && !in_order(board.port(rank.empty_looks.port)))
            polls.emplace_back(board, board.index(rank), rank.empty_looks.port);
    return stretch(board, Waits::threads);
}

// Lets a queue grow in a circle.
bool stretch_any(const Board& board, int64_t now, bool by_poll) {
    return stretch(board, Waits::threads) || (by_poll && stretch_for_polls(board)) ||
           stretch(board, Waits::tasks, now - kOldNs);
}

void relieve_all(const Board& board, int rank) {
    if (Waiting(board, Waits::threads).hopeless(rank)) note_asleep(board, rank);
    Waiting waiting(board, Waits::known);
    for (const std::vector<int>& circle : waiting.circles())
        if (const Relief relief = find_relief(board, waiting, circle); relief.is_there())
            relieve(board, relief, circle);
}

void end_circle(const Board& board, int rank, bool by_poll) {
    BoardRecord& head = board.head();
    const int64_t now = now_ns();
    if ((head.circle_seen == head.moves && !head.circle_open) || now < head.circle_next) return;
    head.circle_open = 1;
    if (!stretch_any(board, now, by_poll)) {
        relieve_all(board, rank);
        head.circle_open = Waiting(board, Waits::tasks).any();
    }
    head.circle_seen = head.moves;
    head.circle_next = now + (now_ns() - now) * kCheckShare;
}

}  // namespace

void end_circle(const Board& board, int rank) { end_circle(board, rank, false); }

void end_circle_of_poll(const Board& board, int index, int inport) {
    RankRecord& rank = board.rank(index);
    if (is_waiting(board, rank)) return;  // a process of it that waits looks itself
    const AsIfWaiting poll(board, index, inport);
    WILKINS_FAULT_POINT("circle.polls");
    ++board.head().moves;
    end_circle(board, index, true);
}

namespace {

std::vector<int> all_waiting(const Board& board) {
    std::vector<int> all;
    for (const RankRecord& rank : ranks_of(board))
        if (is_waiting(board, rank)) all.push_back(board.index(rank));
    return all;
}

}  // namespace

bool grow(const Board& board) {
    Waiting waiting(board);
    return stretch(board, find_stretch(board, full_channels(board, waiting, all_waiting(board))));
}

bool end_wait(const Board& board) {
    const std::vector<int> all = all_waiting(board);
    const WaitRecord* wait = nullptr;
    if (const int again = find_again(board, all, &wait); again >= 0) {
        queue::settle_name(board, wait->port, board.rank(again).rank, wait->name);
        return true;
    }
    for (const int r : all) {
        for (WaitRecord& looks : board.rank(r).waits) {
            if (looks.what == WaitFor::nothing || looks.kind != WaitKind::gives_up || looks.found_nothing) continue;
            looks.found_nothing = 1;
            ++board.head().moves;
            board.ring(looks.port);
            return true;
        }
    }
    return false;
}

namespace {

// Steps that programs can see, of a port for want of whose memory a full channel does not grow.
queue::Viewed find_viewed(const Board& board, const std::vector<Full>& channels) {
    for (const Full& full : channels) {
        if (!may_grow(board, full)) continue;
        const queue::Viewed viewed = queue::count_viewed(board, board.channel(full.channel).outport);
        if (viewed.steps > 0) return viewed;
    }
    return {};
}

}  // namespace

Lasting find_lasting(const Board& board) {
    Waiting waiting(board, Waits::known, false);
    Lasting found = {waiting.description(), {}};
    if (found.description.empty() || find_stretch(board, waiting) >= 0) return {};
    for (const std::vector<int>& circle : waiting.circles()) {
        if (find_relief(board, waiting, circle).is_there()) return {};
        if (found.viewed.steps == 0) found.viewed = find_viewed(board, full_channels(board, waiting, circle));
    }
    return found;
}

std::string find_doubtful(const Board& board) {
    if (!is_quiet(board)) return "";
    Waiting waiting(board, Waits::tasks, false);
    const std::string waits = waiting.description();
    if (waits.empty() || find_stretch(board, waiting) >= 0) return "";
    std::string text;
    for (const RankRecord& rank : ranks_of(board)) {
        const int r = board.index(rank);
        if (!waiting.hopeless(r)) continue;
        std::string who = unsure_thread(board, r);
        if (who.empty() && board.task(rank.task).state == TaskState::running && !is_waiting(board, rank) &&
            !leaves(board, r) && !is_among_ranks(board, r, kAmongNs))
            who = "its program";
        if (who.empty()) continue;
        text += (text.empty() ? "" : "; ") + who + " (task '" + board.task(rank.task).name + "' rank " +
                std::to_string(rank.rank) + ") is not known to wait";
    }
    return text.empty() ? "" : waits + "; " + text;
}

}  // namespace wilkins
