// Names whose steps memory has let go of, names that readers have removed, and which files on disk hold steps.
#include <cstring>
#include <initializer_list>

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

// The name, as a start of the in-port's task knows it: for the next start, what this one has consumed is gone.
struct KeyOfStart {
    KeyOfStart(const Board& board, const PortRecord& inport, const char* name, LetGo how) {
        char* at = stpcpy(text, key_of(inport, name));
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

namespace {

// In the order of the in-port, the next step behind the one before it is not there any more.
void note_gone(const Board& board, PortRecord& inport, const SlotRecord& gone) {
    SlotRecord* before = nullptr;
    for (const ChannelRecord& channel : channels_of(board, inport))
        for (SlotRecord& slot : steps_of(board, channel)) {
            if (slot.published_stamp >= gone.published_stamp) continue;
            if (!before || slot.published_stamp > before->published_stamp) before = &slot;
        }
    uint64_t& first = before ? before->gone_after : inport.first_gone;
    if (first == 0 || gone.published_stamp < first) first = gone.published_stamp;
}

}  // namespace

bool is_last_gone(const Board& board, const PortRecord& inport, int last, uint64_t published) {
    for (const ChannelRecord& channel : channels_of(board, inport))
        if (channel.every != 1 || channel.when_full != WhenFull::block) return false;
    if (published == UINT64_MAX) return in_order(inport) && inport.log_end > 1;  // that is any of them
    const uint64_t gone = last >= 0 ? board.slot(last).gone_after : inport.first_gone;
    return in_order(inport) && gone != 0 && gone < published;
}

void note_let_go(const Board& board, int index) {
    const SlotRecord& slot = board.slot(index);
    if (slot.state != SlotState::published) return;
    const bool comes_again = may_come_again(board, slot);
    SourceRecord& source = board.source(slot.source);
    const PortRecord& port = board.port(source.port);
    for (const ChannelRecord& channel : channels_of(board, port)) {
        PortRecord& inport = board.port(channel.inport);
        if (!board.on(slot, channel.place) || !alive(board, channel)) continue;
        if (in_order(inport)) note_gone(board, inport, slot);
        if (in_order(inport) || !comes_again) continue;
        uint8_t all = 0;
        for (int r = 0; r < channel.readers; ++r) all |= board.consumed(slot, channel, r);
        if (all & kPast) continue;
        past::add(board, inport.let_go,
                  KeyOfStart(board, inport, slot.name, all & kConsumed ? LetGo::read : LetGo::unread).text);
    }
    source.replaced_steps += comes_again;
}

void note_given_up(const Board& board, const ChannelRecord& channel, const SlotRecord& slot) {
    PortRecord& inport = board.port(channel.inport);
    if (!in_order(inport)) past::add(board, inport.let_go, KeyOfStart(board, inport, slot.name, LetGo::unread).text);
}

void note_consumed_late(const Board& board, int index, const char* name) {
    PortRecord& inport = board.port(index);
    if (!past::remove(board, inport.let_go, KeyOfStart(board, inport, name, LetGo::unread).text)) return;
    past::add(board, inport.let_go, KeyOfStart(board, inport, name, LetGo::read).text);
    for (ChannelRecord& channel : channels_of(board, inport)) {
        bool from_here = false;
        for (const SourceRecord& source : sources_of(board, channel))
            from_here = from_here || in_history(board, source, name, static_cast<int>(inport.components));
        if (!from_here || channel.let_go == 0) continue;
        --channel.let_go;
        ++channel.read;
        ++inport.steps;
        return;
    }
}

LetGo let_go_of(const Board& board, const PortRecord& inport, const char* name) {
    if (in_order(inport)) return LetGo::no;
    const bool rewritten = any_source(board, inport, [&](const SourceRecord& source) {
        return source.rewrites && in_history(board, source, name, static_cast<int>(inport.components));
    });
    if (rewritten) return LetGo::no;
    for (const LetGo how : {LetGo::read, LetGo::unread})
        if (past::has(board, inport.let_go, KeyOfStart(board, inport, name, how).text)) return how;
    return LetGo::no;
}

uint64_t count_let_go(const Board& board, const PortRecord& inport) {
    uint64_t steps = 0;
    for (const PortRecord& out : outports_of(board, inport))
        for (const SourceRecord& source : sources_of(board, out)) steps += source.replaced_steps;
    return steps;
}

void note_removed(const Board& board, int index, const char* name) {
    PortRecord& inport = board.port(index);
    past::add(board, inport.removed, key_of(inport, name));
    for (const LetGo how : {LetGo::read, LetGo::unread})
        past::remove(board, inport.let_go, KeyOfStart(board, inport, name, how).text);
}

bool is_removed(const Board& board, const PortRecord& inport, const char* name) {
    return past::has(board, inport.removed, key_of(inport, name));
}

void note_named(const Board& board, PortRecord& inport, const char* name) {
    past::remove(board, inport.removed, key_of(inport, name));
    for (const LetGo how : {LetGo::read, LetGo::unread})
        past::remove(board, inport.let_go, KeyOfStart(board, inport, name, how).text);
}

bool was_published(const Board& board, const PortRecord& inport, const char* name) {
    return any_source(board, inport, [&](const SourceRecord& source) {
        return in_history(board, source, name, static_cast<int>(inport.components));
    });
}

void note_file(const Board& board, const SlotRecord& slot) {
    if (slot.inode) past::add(board, board.source(slot.source).files, KeyOfFile(slot.name, slot.inode).text);
}

bool is_step_file(const Board& board, const PortRecord& inport, const char* name, uint64_t inode) {
    return any_source(board, inport, [&](const SourceRecord& source) {
        return past::knows(board, source.files, KeyOfFile(name, inode).text);
    });
}

}  // namespace wilkins::queue
