// The state machine of steps, one event at a time and without waiting: for tests that compare it with its reference,
// wilkins/flow/machine.py. The events are what opening and closing a step does on the board; no arena is touched.
#include <cerrno>
#include <cstring>
#include <vector>

#include "board/board.hpp"
#include "board/border.hpp"
#include "board/ranges.hpp"
#include "queue/queue.hpp"

using namespace wilkins;

// The source begins a step. Returns its slot, or -1 where a producer would wait.
WILKINS_API(int, wilkins_try_create(const Board* board, int source, const char* name)) {
    Board::Lock lock(*board);
    const int index = queue::has_room(*board, source, name) ? queue::take_slot(*board, source, true) : -1;
    if (index < 0) return -1;
    SlotRecord& slot = board->slot(index);
    slot.writer_process = board->self();
    slot.stamp = ++board->head().stamp;
    strcpy(slot.name, name);
    slot.state = SlotState::writing;
    return index;
}
WILKINS_OR(-1)

// The step is closed. Returns 1 if the channel keeps it; `dropped` is a step given up for it, or -1.
WILKINS_API(int, wilkins_try_publish(const Board* board, int index, int channel_index, int64_t* dropped)) {
    Board::Lock lock(*board);
    const ChannelRecord& channel = board->channel(channel_index);
    const SourceRecord& source = board->source(board->slot(index).source);
    std::vector<char> before;  // by slot: is its step on the channel?
    for (const SlotRecord& slot : slots_of(*board, source)) before.push_back(on_channel(*board, slot, channel));
    queue::publish(*board, index);
    *dropped = -1;
    auto was = before.begin();
    for (const SlotRecord& slot : slots_of(*board, source))
        if (*was++ && !on_channel(*board, slot, channel)) *dropped = static_cast<int64_t>(slot.sequence);
    return on_channel(*board, board->slot(index), channel) ? 1 : 0;
}
WILKINS_OR(-1)

// The rank opens its next step. Returns 0, EAGAIN where it would wait, or ENOENT where the stream has ended.
WILKINS_API(int, wilkins_try_open(const Board* board, int inport, int reader, const char* name, uint64_t* sequence)) {
    Board::Lock lock(*board);
    const queue::Found found = queue::find(*board, inport, reader, name);
    if (found.slot < 0) return found.passed || !queue::can_produce(*board, inport) ? ENOENT : EAGAIN;
    queue::take(*board, inport, reader, found);
    *sequence = board->slot(found.slot).sequence;
    return 0;
}
WILKINS_OR(errno)
