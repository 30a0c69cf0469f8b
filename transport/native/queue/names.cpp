// What a task sees of the names it has written itself: found, clashing, remembered, removed.
#include "queue/queue.hpp"

#include <algorithm>
#include <cstring>

#include "base/fault.hpp"
#include "base/patterns.hpp"
#include "board/past_names.hpp"
#include "queue/parts.hpp"
#include "queue/closed.hpp"

namespace wilkins::queue {

int find_own(const Board& board, int outport, const char* name, uint64_t place) {
    const PortRecord& port = board.port(outport);
    int best = -1;
    for (const SlotRecord& slot : slots_of(board, port)) {
        if ((slot.state != SlotState::published && slot.state != SlotState::closed) || slot.removed) continue;
        if (place ? slot.place_hash != place : strcmp(slot.name, name) != 0) continue;
        // A closed one was begun after all of its name that are published.
        if (best < 0 || slot.state == SlotState::closed ||
            (board.slot(best).state == SlotState::published && slot.published_stamp > board.slot(best).published_stamp))
            best = board.index(slot);
    }
    return best;
}

int find_written(const Board& board, int outport, uint64_t place) {
    const PortRecord& port = board.port(outport);
    int newest = -1;
    for (const SlotRecord& slot : slots_of(board, port)) {
        if (slot.state != SlotState::writing || slot.place_hash != place || slot.removed || slot.is_copy) continue;
        if (!slot.inherited && board.is_over(slot.writer_process)) continue;
        if (newest < 0 || slot.stamp > board.slot(newest).stamp) newest = board.index(slot);
    }
    return newest;
}

int find_clash(const Board& board, int outport, int rank, uint64_t place_hash) {
    const PortRecord& port = board.port(outport);
    int clash = -1;
    for (const SourceRecord& source : sources_of(board, port)) {
        if (source.rank == rank) continue;
        for (const SlotRecord& slot : slots_of(board, source))
            if (slot.place_hash == place_hash && !slot.removed && needed(board, slot, false)) clash = board.index(slot);
    }
    return clash;
}

bool in_history(const Board& board, const SourceRecord& source, const char* name, int components) {
    if (static_cast<int>(board.port(source.port).components) != components) return false;
    return past::knows(board, source.names, last_components(name, components));
}

bool is_left_out(const Board& board, int index, const char* name) {
    const PortRecord& inport = board.port(index);
    for (const ChannelRecord& channel : channels_of(board, inport)) {
        if (!past::knows(board, channel.left_out, key_of(inport, name))) continue;
        // It may be there once more, or come.
        for (const SlotRecord& slot : steps_of(board, channel))
            if (means(inport, name, slot.name)) return false;
        for (const SourceRecord& source : sources_of(board, channel))
            if (source.rewrites) return false;
        return true;
    }
    return false;
}

namespace {

// How a relay's way in calls the step of a name.
const char* key_of_source(const Board& board, int outport, const char* name) {
    return last_components(name, static_cast<int>(board.port(outport).components));
}

}  // namespace

bool knows_left_out(const Board& board, int outport, const char* name) {
    return past::knows(board, board.source(board.port(outport).first_source).names,
                       key_of_source(board, outport, name));
}

void note_left_out(const Board& board, int outport, const char* name) {
    past::add(board, board.source(board.port(outport).first_source).names, key_of_source(board, outport, name));
    for (const ChannelRecord& channel : channels_of(board, board.port(outport))) board.ring(channel.inport);
}

bool exists(const Board& board, const SourceRecord& source, const char* name) {
    return past::has(board, source.names, last_components(name, static_cast<int>(board.port(source.port).components)));
}

namespace {

// The files of the name that are being written.
template <class Visit>
void each_unfinished(const Board& board, const PortRecord& port, const char* name, uint64_t place, Visit visit) {
    for (SlotRecord& slot : slots_of(board, port)) {
        if (slot.state != SlotState::writing || slot.removed) continue;
        if (strcmp(slot.name, name) == 0 || (place && slot.place_hash == place)) visit(slot);
    }
}

// The channel does without the step, which has another name now and is published anew.
void take_back(const Board& board, const SlotRecord& slot, ChannelRecord& channel) {
    uint8_t& on = board.on(slot, channel.place);
    set_newer(channel, on, false);
    if (slot.state == SlotState::published && on == kOn) --channel.published;
    on = 0;
}

}  // namespace

bool remove_own(const Board& board, int outport, const char* name, uint64_t place, bool withdraw, bool unfinished) {
    const PortRecord& port = board.port(outport);
    bool any = false;
    for (int index; (index = find_own(board, outport, name, place)) >= 0; any = true) {
        SlotRecord& slot = board.slot(index);
        slot.removed = 1;
        WILKINS_FAULT_POINT("remove.noted");
        if (slot.state == SlotState::closed) queue::withdraw(board, index);
        if (!withdraw) continue;
        for (ChannelRecord& channel : channels_of(board, port)) take_back(board, slot, channel);
    }
    if (!withdraw && unfinished) {
        each_unfinished(board, port, name, place, [&](SlotRecord& slot) {
            slot.removed = 1;
            any = true;
        });
    }
    for (SourceRecord& source : sources_of(board, port))
        any = past::remove(board, source.names, last_components(name, static_cast<int>(port.components))) || any;
    if (withdraw && any) board.ring(outport);
    return any;
}

std::vector<uint64_t> find_unfinished(const Board& board, int outport, const char* name, uint64_t place) {
    std::vector<uint64_t> stamps;
    each_unfinished(board, board.port(outport), name, place,
                    [&](const SlotRecord& slot) { stamps.push_back(slot.stamp); });
    return stamps;
}

void lose_name(const Board& board, int outport, const char* name, uint64_t place, const std::vector<uint64_t>& stamps) {
    each_unfinished(board, board.port(outport), name, place, [&](SlotRecord& slot) {
        if (std::find(stamps.begin(), stamps.end(), slot.stamp) != stamps.end()) slot.removed = 1;
    });
}

Carried moves(const Board& board, int outport, const char* name, uint64_t place, const char* next) {
    const PortRecord& port = board.port(outport);
    const int index = find_own(board, outport, name, place);
    const int components = static_cast<int>(port.components);
    Carried found;
    if (index < 0 || board.slot(index).state != SlotState::published) return found;
    const SlotRecord& slot = board.slot(index);
    found.source = slot.source;
    SourceRecord& source = board.source(slot.source);
    strcpy(source.moving_to, next);
    source.moving_process = board.self();
    found.keeps_name = strcmp(last_components(name, components), last_components(next, components)) == 0;
    for (const ChannelRecord& channel : channels_of(board, port)) {
        const bool by_name = !in_order(board.port(channel.inport));
        found.consumed.push_back(by_name ? board.on(slot, channel.place) & kCounted : 0);
        for (int r = 0; r < channel.readers; ++r)
            found.consumed.push_back(by_name ? board.consumed(slot, channel, r) & kConsumed : 0);
    }
    return found;
}

void carry(const Board& board, int index, const Carried& from) {
    SlotRecord& slot = board.slot(index);
    const PortRecord& port = board.port(board.source(slot.source).port);
    if (from.source < 0) return;
    slot.keeps_name = from.keeps_name;
    auto consumed = from.consumed.begin();
    for (const ChannelRecord& channel : channels_of(board, port)) {
        board.on(slot, channel.place) = *consumed++;
        for (int r = 0; r < channel.readers; ++r) board.consumed(slot, channel, r) = *consumed++;
    }
}

void moved(const Board& board, const Carried& from) {
    if (from.source < 0) return;
    SourceRecord& source = board.source(from.source);
    source.moving_to[0] = '\0';
    for (const ChannelRecord& channel : channels_of(board, board.port(source.port))) board.ring(channel.inport);
}

}  // namespace wilkins::queue
