// When a set is complete, for each of the ways to say so.
#include "store/set_publication.hpp"

#include <string>

#include "base/raw.hpp"
#include "queue/parts.hpp"
#include "queue/queue.hpp"
#include "queue/closed.hpp"
#include "names/set_folder.hpp"
#include "names/set_names.hpp"

namespace wilkins::sets {

namespace {

// Steps of the port that were begun after this one.
int count_later(const Board& board, const PortRecord& port, const SlotRecord& slot) {
    int later = 0;
    for (const SlotRecord& other : slots_of(board, port))
        later += other.state != SlotState::free && other.stamp > slot.stamp;
    return later;
}

// Ranks that have not come to the step yet, but may: one that has written in another one, until two later ones are
// begun.
bool awaits_ranks(const Board& board, const PortRecord& port, const SlotRecord& slot, int later) {
    bool any_published = false;
    for (const SourceRecord& source : sources_of(board, port))
        any_published = any_published || source.next_sequence > source.first_sequence;
    if (later >= 2) return false;
    for (const SourceRecord& source : sources_of(board, port)) {
        if (source.set_turn >= slot.stamp) continue;
        if (source.set_turn == 0 ? !any_published : !board.is_over(source.set_writer)) return true;
    }
    return false;
}

bool is_complete(const Board& board, const PortRecord& port, int index) {
    const SlotRecord& slot = board.slot(index);
    if (port.keys.publish == Publish::file) return slot.set_complete != 0;
    if (port.keys.publish == Publish::close) return slot.set_complete != 0 && !has_writers(board, index, slot.stamp);
    if (port.keys.publish != Publish::next) return false;
    const int later = count_later(board, port, slot);
    return later > 0 && !has_writers(board, index, slot.stamp) && !awaits_ranks(board, port, slot, later);
}

// The source's step that is to be published next, the one that was begun first; those that closes complete do not wait
// for each other. -1: there is none.
int find_next(const Board& board, const PortRecord& port, const SourceRecord& source) {
    int found = -1;
    for (const SlotRecord& slot : slots_of(board, source)) {
        if (slot.state != SlotState::closed || (found >= 0 && slot.stamp >= board.slot(found).stamp)) continue;
        const int k = board.index(slot);
        if (port.keys.publish != Publish::close || is_complete(board, port, k)) found = k;
    }
    return found >= 0 && is_complete(board, port, found) ? found : -1;
}

// True if its program has left anything of the step. (A folder it may have removed again.)
bool is_there(const Board& board, const PortRecord& port, int slot, uint64_t stamp) {
    RealPath folder;
    contents_of_step(board, slot, stamp, folder);
    if (!is_list(port)) return raw::access(folder) == 0;
    bool any = false;
    each_entry(folder, [&](const char* name) {
        char step[kNameMax];
        any = any || (step_of_file(port, name, step) && same_ends(step, board.slot(slot).name, 1));
    });
    return any;
}

uint64_t bytes_of(const Board& board, int slot, uint64_t stamp) {
    RealPath folder;
    contents_of_step(board, slot, stamp, folder);
    return bytes_below(folder);
}

}  // namespace

void publish_complete(const Process& p, int outport) {
    const Board& board = p.board;
    const PortRecord& port = board.port(outport);
    for (const SourceRecord& source : sources_of(board, port)) {
        for (;;) {
            int index;
            uint64_t stamp = 0;
            {
                Board::Lock lock(board);
                index = find_next(board, port, source);
                if (index < 0) break;
                stamp = board.slot(index).stamp;
            }
            const bool there = is_there(board, port, index, stamp);
            const uint64_t bytes = port.keys.on_disk ? 0 : bytes_of(board, index, stamp);
            Board::Lock lock(board);
            SlotRecord& slot = board.slot(index);
            if (slot.state != SlotState::closed || slot.stamp != stamp || !is_complete(board, port, index)) continue;
            slot.set_bytes = bytes;
            if (there) queue::publish(board, index);
            else queue::withdraw(board, index);
        }
    }
}

}  // namespace wilkins::sets
