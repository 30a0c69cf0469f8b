// Names that stand for the next step of an in-port.
#include "queue/alias.hpp"

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
    if (port.alias_state == AliasState::given) return {port.alias, static_cast<int>(port.alias_components)};
    return {port.pattern, static_cast<int>(port.components)};
}

const char* own_name(const PortRecord& port) { return has_alias(port) ? port.alias : port.pattern; }

bool is_called(const PortRecord& port, const char* name) {
    const OwnPattern own = own_pattern(port);
    return pattern_match(own.text, own.components, name);
}

bool means(const PortRecord& inport, const char* asked, const char* published) {
    if (has_alias(inport)) return same_ends(asked, inport.alias, static_cast<int>(inport.alias_components));
    return same_ends(asked, published, static_cast<int>(inport.components));
}

const char* name_for(const PortRecord& inport, const SlotRecord& slot) {
    return has_alias(inport) ? inport.alias : slot.name;
}

namespace queue {

namespace {

using Shape = char[kNameMax];

void describe(const OnDisk& file, char (&out)[96]) {
    snprintf(out, sizeof(out), "%" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx64, file.device, file.inode, file.size,
             static_cast<uint64_t>(file.modified_ns));
}

}  // namespace

bool is_strange(const Board& board, const PortRecord& inport, const char* name) {
    if (inport.fixed || inport.shapes.stored == 0 ||
        !pattern_match(inport.pattern, static_cast<int>(inport.components), name))
        return false;
    Shape shape;
    shape_of(key_of(inport, name), shape, sizeof(shape));
    return !past::knows(board, inport.shapes, shape);
}

bool may_be_alias(const Board& board, const PortRecord& inport, const char* name) {
    return inport.alias_state == AliasState::undecided && is_strange(board, inport, name);
}

void decide(const Board& board, int index, int reader, const char* name, const OnDisk* file) {
    PortRecord& inport = board.port(index);
    if (!may_be_alias(board, inport, name)) return;
    strcpy(inport.alias, key_of(inport, name));
    inport.alias_components = inport.components;
    char known[96];
    if (file) describe(*file, known);
    if (file && !past::knows(board, inport.left, known)) {
        inport.alias_state = AliasState::prevented;
        log_event_for(board, inport.task, reader, event::stands_not(inport.alias, inport.pattern));
        return;
    }
    // Steps that were left out before go by, too.
    for (const ChannelRecord& channel : channels_of(board, inport))
        for (const SourceRecord& source : sources_of(board, channel)) {
            uint64_t& logged = board.logged(channel, source.rank);
            const uint64_t reached = highest(board, channel, source.rank);
            logged = reached > logged ? reached : logged;
        }
    inport.alias_state.store(AliasState::found, std::memory_order_release);
    log_event_for(board, inport.task, reader, event::stands(inport.alias, inport.pattern));
    board.ring(index);
}

void name_opened(const Board& board, int index, const char* name) {
    PortRecord& inport = board.port(index);
    if (inport.alias_state == AliasState::undecided && inport.shapes.stored > 0 && !is_strange(board, inport, name))
        inport.alias_state = AliasState::no;
}

void keep_names(PortRecord& inport) {
    if (inport.alias_state == AliasState::undecided) inport.alias_state = AliasState::no;
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
    if (inport.alias_state != AliasState::found) return;
    shape_of(inport.alias, stands, sizeof(stands));
    if (strcmp(shape, stands) != 0) return;
    const char* const producer = board.task(board.port(source.port).task).name;
    fail_run_for(board, inport.task, 0,
                 event::stood_before(inport.alias, inport.pattern, producer, key_of(inport, name)));
}

}  // namespace queue
}  // namespace wilkins
