// The order of steps among ports of another host: relays carry each port's steps by themselves, so what was published
// first there may come last.
#pragma once

#include <vector>

#include "board/board.hpp"

namespace wilkins::queue {

// On the host that made the step: by port whose steps go to the same host as those of this in-port of a relay, in their
// order, the published_stamp of the newest one up to the step; 0: there is none.
std::vector<uint64_t> before(const Board& board, int inport, const SlotRecord& step);

// On the other host: notes that, of a step that is not published yet. False if the relay counts other ports than this
// board does.
bool note_origin(const Board& board, SlotRecord& step, uint64_t stamp, const std::vector<uint64_t>& before);

// True if the step was published up to when `than` was, of which `published` is the place here. For two steps of one
// other host, their order there counts.
bool is_before(const Board& board, const SlotRecord& step, const SlotRecord* than, uint64_t published);

// True if a step of the out-port may come yet that was published before this one on their host.
bool is_behind(const Board& board, int outport, const SlotRecord& than);

}  // namespace wilkins::queue
