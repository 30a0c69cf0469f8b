// What device buffers ask of the layer: which arena an address lies in, and who still needs a step whose values are on
// a device only. A C interface for wilkins/transport/devices/.
#include <cstdint>
#include <iterator>

#include "base/patterns.hpp"
#include "board/border.hpp"
#include "queue/parts.hpp"
#include "queue/queue.hpp"
#include "steps/handles.hpp"
#include "steps/step_file.hpp"
#include "store/store.hpp"

using namespace wilkins;

struct ArenaPart {
    uint64_t base;
    uint64_t length;  // bytes of memory that the arena has
    uint64_t cuts;    // how often it has lost memory
    int32_t writable;
    int32_t kept;
    int32_t slot;
};

// 1, and fills `part`, if the process keeps a mapping of an arena that holds the address.
WILKINS_API(int, wilkins_arena_at(uint64_t address, ArenaPart* part)) {
    if (!context().active) return 0;
    Process& p = process();
    Mapping mapping;
    const int slot = p.arenas->find(reinterpret_cast<const void*>(address), &mapping);
    if (slot < 0) return 0;
    const SlotRecord& record = p.board.slot(slot);
    const uint64_t size = record.reserved.load(std::memory_order_acquire);
    if (open_to(mapping, size) != 0) return 0;
    *part = {reinterpret_cast<uint64_t>(mapping.bytes),
             size,
             record.cuts.load(std::memory_order_acquire),
             mapping.writable,
             mapping.kept,
             slot};
    return 1;
}
WILKINS_OR(0)

// The arena of a step that is being written, and what identifies the step.
WILKINS_API(int, wilkins_device_slot(const StepFile* step, uint64_t* stamp)) {
    *stamp = step->identity();
    return step->state->slot;
}
WILKINS_OR(-1)

// The ranks that read files of this name from memory; 0 if device memory cannot accompany its steps, as where these are
// published by another rule than their close, and so in another arena or by another process.
WILKINS_API(int, wilkins_device_readers(const char* name)) {
    Match match;
    if (!match_name(name, &match) || match.outport < 0) return 0;
    const Board& board = process().board;
    const PortRecord& port = board.port(match.outport);
    if (port.keys.publish != Publish::close || port.keys.publish_count != 1 || port.keys.mode != Mode::memory) return 0;
    int readers = 0;
    Board::Lock lock(board);
    for (const ChannelRecord& channel : channels_of(board, port)) readers += channel.readers;
    return readers;
}
WILKINS_OR(0)

WILKINS_API(int, wilkins_device_rank()) { return context().rank; }
WILKINS_OR(-1)

// This process's number in the run, which no other process has ever.
WILKINS_API(unsigned, wilkins_device_process()) { return process().board.self(); }
WILKINS_OR(0)

// The out-port that files of this name belong to, or -1.
WILKINS_API(int, wilkins_device_outport(const char* name)) {
    Match match;
    return match_name(name, &match) ? match.outport : -1;
}
WILKINS_OR(-1)

// A rank of a task, as readers sign their answers.
struct Reader {
    int32_t task;
    int32_t rank;
};

// How a step stands whose producer wants to end: -1: a reader has yet to take it; else, how many ranks hold it, of
// which the first `room` are noted in `holders`.
WILKINS_API(int, wilkins_device_held(int index, uint64_t stamp, Reader* holders, int room)) {
    Process& p = process();
    const Board& board = p.board;
    Board::Lock lock(board);
    sweep_dead_readers(p, board.source(board.slot(index).source).port);
    const SlotRecord& slot = board.slot(index);
    if (board.head().stopped || slot.stamp != stamp || slot.state != SlotState::published) return 0;
    const SourceRecord& source = board.source(slot.source);
    const PortRecord& port = board.port(source.port);
    const int s = source.rank;
    for (const ChannelRecord& channel : channels_of(board, port)) {
        if (!board.on(slot, channel.place) || !queue::alive(board, channel)) continue;
        for (int r = 0; r < channel.readers; ++r)
            if (!queue::is_past(board, channel, s, r, slot)) return -1;
    }
    int ranks = 0;
    for (RankRecord& rank : ranks_of(board)) {
        if (!queue::holds(board, rank, index)) continue;
        if (ranks < room) holders[ranks] = {rank.task, rank.rank};
        ++ranks;
    }
    return ranks;
}
WILKINS_OR(-1)
