#include "queue/failed_opens.hpp"

#include <cstring>

#include "base/patterns.hpp"
#include "board/past_names.hpp"
#include "queue/parts.hpp"

namespace wilkins::queue {

namespace {

// What PortRecord::consumed knows of a name, each under a letter before it.
enum Kind : char {
    kOnce = 'a',     // one step of it was read
    kTwice = 'b',    // another one, too
    kUnequal = 'c',  // one of its steps was opened oftener than others
    kShape = 'd',    // a name was read that differs from it in numbers only; see shape_of
};

class Key {
public:
    Key(const PortRecord& inport, Kind kind, const char* name) {
        text_[0] = kind;
        const char* const end = last_components(name, static_cast<int>(inport.components));
        if (kind == kShape) shape_of(end, text_ + 1, sizeof(text_) - 1);
        else strcpy(text_ + 1, end);
    }
    operator const char*() const { return text_; }

private:
    char text_[kNameMax + 1];
};

bool knows(const Board& board, const PortRecord& inport, Kind kind, const char* name) {
    return past::knows(board, inport.consumed, Key(inport, kind, name));
}

// True if a producer of the in-port publishes names again.
bool is_rewritten(const Board& board, const PortRecord& inport) {
    return any_source(board, inport, [](const SourceRecord& source) { return source.rewrites != 0; });
}

// How often the rank has opened the step that it has opened last.
uint32_t opens_of_last(const Board& board, const PortRecord& inport, int reader) {
    uint32_t opens = 0;
    uint64_t at = 0;
    for (const ChannelRecord& channel : channels_of(board, inport))
        for (const SourceRecord& source : sources_read(board, channel, reader)) {
            const Mark& mark = board.mark(channel, source.rank, reader);
            if (mark.opened_at <= at) continue;
            at = mark.opened_at;
            opens = mark.opens;
        }
    return opens;
}

// What a name of an in-port with wildcards is to its task.
Sought what_is(const Board& board, int index, int reader, const char* name, uint32_t* steps) {
    const PortRecord& inport = board.port(index);
    const bool consumed = knows(board, inport, kOnce, name);
    *steps = consumed ? 1 + knows(board, inport, kTwice, name) : 0;
    if (!consumed && !was_published(board, inport, name))
        return knows(board, inport, kShape, name) ? Sought::next_name : Sought::strange;
    if (!consumed || !is_rewritten(board, inport)) return Sought::gone;
    if (*steps < 2) return Sought::only_step;
    if (has_choice(board, index, reader)) return Sought::unread;
    return knows(board, inport, kUnequal, name) ? Sought::unequal : Sought::next_step;
}

}  // namespace

void note_consumed_name(const Board& board, int index, const char* name, bool again) {
    PortRecord& inport = board.port(index);
    const auto add = [&](Kind kind) {
        const Key key(inport, kind, name);
        const bool known = past::knows(board, inport.consumed, key);
        if (!known) past::add(board, inport.consumed, key);
        return !known;
    };
    if (again) {
        add(kUnequal);
        return;
    }
    add(kShape);
    if (!add(kOnce)) add(kTwice);
}

bool has_consumed_name(const Board& board, const PortRecord& inport, const char* name) {
    return knows(board, inport, kOnce, name);
}

void note_failed_open(const Board& board, int index, int reader, const char* name, const Asker& by) {
    const PortRecord& inport = board.port(index);
    FailedOpen& open = board.rank(board.task(inport.task).first_rank + reader).failed_open;
    uint32_t steps = 0, opens = opens_of_last(board, inport, reader) + 1;
    Sought sought = Sought::strange;
    if (!in_order(inport)) {
        sought = what_is(board, index, reader, name, &steps);
        if (sought == Sought::unequal) opens = inport.most_opens;
    } else if (inport.fixed || means(inport, name, "")) {
        steps = board.position(inport, reader);
        sought = steps < 2 ? Sought::only_step : Sought::next_step;
    }
    open.sought = Sought::nothing;  // for one that dies here
    open.port = index;
    open.steps = steps;
    open.opens = opens;
    open.process = board.self();
    open.pid = by.pid;
    open.parent = by.parent;
    open.at = now_ns();
    strcpy(open.name, name);
    open.then[0] = 0;
    open.went_on.store(WentOn::no, std::memory_order_relaxed);
    open.sought = sought;
}

void note_went_on(const Board& board, int rank_index, const Asker& by, WentOn how, const char* to) {
    FailedOpen& open = board.rank(rank_index).failed_open;
    if (!may_go_on(open)) return;
    // A process that runs beside the one that has asked may do what it had begun before.
    const bool started_since = open.pid == by.parent && open.at < by.began;
    if (open.process != board.self() && open.parent != by.pid && !started_since && !board.is_over(open.process)) return;
    const size_t length = strlen(to), most = sizeof(open.then) - 1;
    strcpy(open.then, length > most ? to + (length - most) : to);
    open.went_on.store(how, std::memory_order_relaxed);
}

bool ends_loop(const FailedOpen& open) { return open.sought == Sought::next_name || open.sought == Sought::next_step; }

const FailedOpen* last_failed_open(const Board& board, int index) {
    const TaskRecord& task = board.task(index);
    const FailedOpen* last = nullptr;
    const FailedOpen* against = nullptr;
    for (const RankRecord& rank : ranks_of(board, task)) {
        const FailedOpen& open = rank.failed_open;
        if (open.sought == Sought::nothing) continue;
        if (ends_loop(open) && open.went_on == WentOn::wrote) return &open;
        if (!ends_loop(open) && open.went_on == WentOn::no && (!against || open.at > against->at)) against = &open;
        if (!last || open.at > last->at) last = &open;
    }
    return against ? against : last;
}

}  // namespace wilkins::queue
