// Names whose steps memory has let go of, names that readers have removed, and which files on disk hold steps.
#include <cstdio>
#include <cstring>

#include "base/fault.hpp"
#include "base/patterns.hpp"
#include "board/past_names.hpp"
#include "queue/parts.hpp"

namespace wilkins::queue {

namespace {

// In letters, since sets of names take digits for numbers.
char* spell(uint64_t word, int letters, char* at) {
    for (int k = 0; k < letters; ++k, word >>= 4) *at++ = static_cast<char>('a' + (word & 15));
    return at;
}

const char* own_name(const PortRecord& inport, const char* name) { return last_components(name, static_cast<int>(inport.components)); }

// The name, as a start of the in-port's task knows it: the next one finds gone what this one has had.
struct KeyOfStart {
    KeyOfStart(const Board& board, const PortRecord& inport, const char* name, LetGo how) {
        char* at = stpcpy(text, own_name(inport, name));
        *at++ = how == LetGo::read ? '\1' : '\2';
        *spell(board.task(inport.task).starts, 8, at) = 0;
    }
    char text[kNameMax + 16];
};

struct KeyOfFile {
    KeyOfFile(const char* name, uint64_t inode) {
        const char* base = strrchr(name, '/');
        *spell(hash_text(base ? base + 1 : name), 16, spell(inode, 16, text)) = 0;
    }
    char text[33];
};

}  // namespace

void note_let_go(const Board& board, int index) {
    const SlotRecord& slot = board.slot(index);
    SourceRecord& source = board.source(slot.source);
    const PortRecord& port = board.port(source.port);
    for (int k = 0; k < port.links; ++k) {
        const ChannelRecord& channel = board.channel(board.link(port, k));
        PortRecord& inport = board.port(channel.inport);
        if (!board.on(slot, channel.place) || !alive(board, channel) || in_order(inport)) continue;
        uint8_t all = 0;
        for (int r = 0; r < channel.readers; ++r) all |= board.had(slot, channel, r);
        if (all & kPast) continue;
        past::add(board, inport.let_go, KeyOfStart(board, inport, slot.name, all & kHad ? LetGo::read : LetGo::unread).text);
        WILKINS_FAULT_POINT("clear.let-go");
    }
    ++source.replaced_steps;
}

LetGo let_go_of(const Board& board, const PortRecord& inport, const char* name) {
    if (in_order(inport)) return LetGo::no;
    bool rewritten = false;
    each_source(board, inport, [&](const SourceRecord& source) {
        rewritten = rewritten || (source.rewrites && in_history(board, source, name, static_cast<int>(inport.components)));
    });
    if (rewritten) return LetGo::no;
    for (const LetGo how : {LetGo::read, LetGo::unread})
        if (past::has(board, inport.let_go, KeyOfStart(board, inport, name, how).text)) return how;
    return LetGo::no;
}

uint64_t count_let_go(const Board& board, const PortRecord& inport) {
    uint64_t steps = 0;
    each_source(board, inport, [&](const SourceRecord& source) { steps += source.replaced_steps; });
    return steps;
}

void note_removed(const Board& board, int index, const char* name) {
    PortRecord& inport = board.port(index);
    past::add(board, inport.removed, own_name(inport, name));
    for (const LetGo how : {LetGo::read, LetGo::unread})
        past::remove(board, inport.let_go, KeyOfStart(board, inport, name, how).text);
}

bool is_removed(const Board& board, const PortRecord& inport, const char* name) {
    return past::has(board, inport.removed, own_name(inport, name));
}

void note_named(const Board& board, PortRecord& inport, const char* name) {
    past::remove(board, inport.removed, own_name(inport, name));
    for (const LetGo how : {LetGo::read, LetGo::unread})
        past::remove(board, inport.let_go, KeyOfStart(board, inport, name, how).text);
}

bool was_published(const Board& board, const PortRecord& inport, const char* name) {
    bool published = false;
    each_source(board, inport, [&](const SourceRecord& source) {
        published = published || in_history(board, source, name, static_cast<int>(inport.components));
    });
    return published;
}

void note_file(const Board& board, const SlotRecord& slot) {
    if (slot.inode) past::add(board, board.source(slot.source).files, KeyOfFile(slot.name, slot.inode).text);
}

bool is_step_file(const Board& board, const PortRecord& inport, const char* name, uint64_t inode) {
    bool any = false;
    each_source(board, inport, [&](const SourceRecord& source) {
        any = any || past::knows(board, source.files, KeyOfFile(name, inode).text);
    });
    return any;
}

}  // namespace wilkins::queue
