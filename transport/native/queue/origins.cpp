#include "queue/origins.hpp"

#include <algorithm>

#include "queue/parts.hpp"

namespace wilkins::queue {

namespace {

template <class Visit>
void each_beside(const Board& board, Direction direction, uint32_t far_host, Visit visit) {
    for (const PortRecord& port : ports_of(board))
        if (port.direction == direction && port.keys.far_host == far_host) visit(port);
}

// True if both steps were made on one other host.
bool from_one_host(const PortRecord& port, const Board& board, const SlotRecord& than) {
    return than.origin.stamp && port.keys.far_host == port_of(board, than).keys.far_host;
}

}  // namespace

std::vector<uint64_t> before(const Board& board, int inport, const SlotRecord& step) {
    std::vector<uint64_t> found;
    each_beside(board, Direction::in, board.port(inport).keys.far_host, [&](const PortRecord& port) {
        uint64_t newest = 0;
        for (const ChannelRecord& channel : channels_of(board, port))
            for (const SlotRecord& slot : steps_of(board, channel))
                if (slot.published_stamp <= step.published_stamp) newest = std::max(newest, slot.published_stamp);
        found.push_back(newest);
    });
    return found;
}

bool note_origin(const Board& board, SlotRecord& step, uint64_t stamp, const std::vector<uint64_t>& before) {
    size_t ports = 0;
    each_beside(board, Direction::out, port_of(board, step).keys.far_host, [&](const PortRecord&) { ++ports; });
    if (before.size() != ports || stamp == 0) return false;
    for (size_t k = 0; k < ports; ++k) board.before(step, static_cast<int>(k)) = before[k];
    step.origin.stamp = stamp;
    return true;
}

bool is_before(const Board& board, const SlotRecord& step, const SlotRecord* than, uint64_t published) {
    if (than && from_one_host(port_of(board, step), board, *than)) return step.origin.stamp <= than->origin.stamp;
    return step.published_stamp <= published;
}

bool is_behind(const Board& board, int outport, const SlotRecord& than) {
    const PortRecord& out = board.port(outport);
    if (!from_one_host(out, board, than) || board.task(out.task).state == TaskState::ended) return false;
    return board.source(out.first_source).came_to < board.before(than, out.beside);
}

}  // namespace wilkins::queue
