// The state machine of steps, as programs meet it that list folders: which steps stay for a listing of them all, and
// what a program has read of those it was shown.
#include "queue/queue.hpp"

#include "queue/parts.hpp"

namespace wilkins::queue {

bool waits_for_series(const Board& board, const SlotRecord& slot) {
    const PortRecord& port = board.port(board.source(slot.source).port);
    for (const ChannelRecord& channel : channels_of(board, port))
        if (on_channel(board, slot, channel) && alive(board, channel) && kept_to_end(board, channel)) return true;
    return false;
}

bool full_of_series(const Board& board, int source_index) {
    bool all = true;
    for (const SlotRecord& slot : slots_of(board, board.source(source_index)))
        all = all && waits_for_series(board, slot);
    return all;
}

uint64_t begin_listing(const Board& board, int index, int reader, bool whole) {
    PortRecord& inport = board.port(index);
    const uint64_t number = ++board.asked(inport, reader).listings;
    ListingAnswer& answer = inport.listings[number % kListings];
    if (answer.number < number) answer = {number, board.head().publications};
    const uint64_t published = answer.number == number ? answer.published : board.head().publications;
    inport.listed_to = published > inport.listed_to ? published : inport.listed_to;
    if (whole) inport.listed_whole = 1;
    return published;
}

ReadAsListed read_as_listed(const Board& board, int task) {
    ReadAsListed read = {false, false};
    bool later = false;
    for (const PortRecord& port : ports_of(board, task, Direction::in)) {
        if (in_order(port)) continue;
        read.some = read.some || port.read_listed > 0;
        read.whole = read.whole || port.listed_whole;
        later = later || port.read_later > 0;
    }
    read.some = read.some && !later;
    return read;
}

}  // namespace wilkins::queue
