// One name from two sources of an in-port: whoever asks for it by name would get the one or the other by chance. It is
// an error, whichever comes first, the second publication or the question. A task that takes the steps in order can
// tell them apart.
#include <cstdio>

#include "board/context.hpp"
#include "board/past_names.hpp"
#include "events.hpp"
#include "queue/parts.hpp"

namespace wilkins::queue {

namespace {

// In such a port names mean steps, and there is more than one who could publish them.
bool may_double(const Board& board, const PortRecord& inport) {
    if (in_order(inport)) return false;
    int sources = 0;
    for (const PortRecord& out : outports_of(board, inport)) sources += out.sources;
    return sources > 1;
}

// Two sources of the in-port that have published the name; without a first one there are none.
struct Double {
    int first = -1;
    int second = -1;
};

// `second`: one of the two; -1: any.
Double find_double(const Board& board, const PortRecord& inport, const char* name, int second) {
    Double found = {-1, second};
    for (const PortRecord& out : outports_of(board, inport))
        for (const SourceRecord& source : sources_of(board, out)) {
            if (board.index(source) == second || !past::knows(board, source.names, key_of(inport, name))) continue;
            if (found.first < 0) found.first = board.index(source);
            else if (found.second < 0) found.second = board.index(source);
            if (found.second >= 0) return found;
        }
    return {};
}

void fail(const Board& board, const PortRecord& inport, int reader, const char* name, Double pair) {
    const SourceRecord &first = board.source(pair.first), &second = board.source(pair.second);
    const TaskRecord &one = board.task(board.port(first.port).task), &other = board.task(board.port(second.port).task);
    const char* const asked = key_of(inport, name);
    fail_run_for(board, inport.task, reader,
                 &one == &other ? event::double_ranks(asked, first.rank, second.rank, one.name, inport.pattern)
                                : event::double_tasks(asked, one.name, other.name, inport.pattern));
}

}  // namespace

bool asks_for_double(const Board& board, int index, int reader, const char* name) {
    PortRecord& inport = board.port(index);
    if (!may_double(board, inport) || board.task(inport.task).one_step) return false;
    if (!past::knows(board, inport.by_name, key_of(inport, name)))
        past::add(board, inport.by_name, key_of(inport, name));
    const Double pair = find_double(board, inport, name, -1);
    if (pair.first < 0) return false;
    fail(board, inport, reader, name, pair);
    return true;
}

void remember_for_readers(const Board& board, SourceRecord& source, const char* name) {
    const PortRecord& port = board.port(source.port);
    for (const ChannelRecord& channel : channels_of(board, port)) {
        const int index = channel.inport;
        PortRecord& inport = board.port(index);
        if (!pattern_match(inport.pattern, static_cast<int>(inport.components), name)) continue;
        note_named(board, inport, name);
        remember_shape(board, index, source, name);
        if (!may_double(board, inport)) continue;
        if (inport.components != port.components) past::add(board, source.names, key_of(inport, name));
        if (!past::knows(board, inport.by_name, key_of(inport, name))) continue;
        const Double pair = find_double(board, inport, name, board.index(source));
        if (pair.first >= 0) fail(board, inport, 0, name, pair);
    }
}

}  // namespace wilkins::queue
