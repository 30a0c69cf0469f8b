// Names that stand for the next step of an in-port.
#include "queue/stand_in.hpp"

#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "base/patterns.hpp"
#include "board/context.hpp"
#include "board/past_names.hpp"
#include "events.hpp"
#include "queue/parts.hpp"

namespace wilkins {

OwnPattern own_pattern(const PortRecord& port) {
    if (port.stand_in == StandIn::given) return {port.stands, static_cast<int>(port.stands_components)};
    return {port.pattern, static_cast<int>(port.components)};
}

const char* own_name(const PortRecord& port) { return stands_in(port) ? port.stands : port.pattern; }

bool is_called(const PortRecord& port, const char* name) {
    const OwnPattern own = own_pattern(port);
    return pattern_match(own.text, own.components, name);
}

bool means(const PortRecord& inport, const char* asked, const char* published) {
    if (stands_in(inport)) return same_ends(asked, inport.stands, static_cast<int>(inport.stands_components));
    return same_ends(asked, published, static_cast<int>(inport.components));
}

const char* name_for(const PortRecord& inport, const SlotRecord& slot) { return stands_in(inport) ? inport.stands : slot.name; }

namespace queue {

namespace {

using Shape = char[kNameMax];

void describe(const OnDisk& file, char (&out)[96]) {
    snprintf(out, sizeof(out), "%" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx64, file.device, file.inode, file.size,
             static_cast<uint64_t>(file.modified_ns));
}

}  // namespace

bool is_strange(const Board& board, const PortRecord& inport, const char* name) {
    if (inport.fixed || inport.shapes.stored == 0 || !pattern_match(inport.pattern, static_cast<int>(inport.components), name)) return false;
    Shape shape;
    shape_of(key_of(inport, name), shape, sizeof(shape));
    return !past::knows(board, inport.shapes, shape);
}

bool may_stand_in(const Board& board, const PortRecord& inport, const char* name) {
    return inport.stand_in == StandIn::undecided && is_strange(board, inport, name);
}

void decide(const Board& board, int index, int reader, const char* name, const OnDisk* file) {
    PortRecord& inport = board.port(index);
    if (!may_stand_in(board, inport, name)) return;
    strcpy(inport.stands, key_of(inport, name));
    inport.stands_components = inport.components;
    char known[96];
    if (file) describe(*file, known);
    if (file && !past::knows(board, inport.left, known)) {
        inport.stand_in = StandIn::prevented;
        log_event_for(board, inport.task, reader, event::stands_not(inport.stands, inport.pattern));
        return;
    }
    // Steps that were left out before go by, too.
    for (const ChannelRecord& channel : channels_of(board, inport))
        for (const SourceRecord& source : sources_of(board, channel)) {
            uint64_t& logged = board.logged(channel, source.rank);
            const uint64_t reached = highest(board, channel, source.rank);
            logged = reached > logged ? reached : logged;
        }
    inport.stand_in.store(StandIn::found, std::memory_order_release);
    log_event_for(board, inport.task, reader, event::stands(inport.stands, inport.pattern));
    board.ring(index);
}

void name_opened(const Board& board, int index, const char* name) {
    PortRecord& inport = board.port(index);
    if (inport.stand_in == StandIn::undecided && inport.shapes.stored > 0 && !is_strange(board, inport, name)) inport.stand_in = StandIn::no;
}

void keep_names(PortRecord& inport) {
    if (inport.stand_in == StandIn::undecided) inport.stand_in = StandIn::no;
}

void left_by_run(const Board& board, int index, const OnDisk& file) {
    char known[96];
    describe(file, known);
    past::add(board, board.port(index).left, known);
}

void remember_shape(const Board& board, int index, const SourceRecord& source, const char* name) {
    PortRecord& inport = board.port(index);
    if (inport.fixed) return;
    Shape shape, stands;
    shape_of(key_of(inport, name), shape, sizeof(shape));
    if (!past::knows(board, inport.shapes, shape)) past::add(board, inport.shapes, shape);
    if (inport.stand_in != StandIn::found) return;
    shape_of(inport.stands, stands, sizeof(stands));
    if (strcmp(shape, stands) != 0) return;
    const char* const producer = board.task(board.port(source.port).task).name;
    fail_run_for(board, inport.task, 0, event::stood_before(inport.stands, inport.pattern, producer, key_of(inport, name)));
}

}  // namespace queue
}  // namespace wilkins
