// Numbers the questions of ranks, and remembers the last answers of each in-port.
#include "queue/answers.hpp"

#include <algorithm>
#include <cstring>

#include "base/patterns.hpp"
#include "queue/parts.hpp"

namespace wilkins {

namespace {

constexpr uint64_t kAgain = 3;  // so many listings without a new step are "again and again"

}  // namespace

uint64_t hash_name(const PortRecord& inport, const char* name) {
    const int components = static_cast<int>(has_alias(inport) ? inport.alias_components : inport.components);
    return hash_text(last_components(name, components));
}

SharedAnswer::SharedAnswer(const Board& board, int inport, int reader, const char* name)
    : board_(board), inport_(inport), name_(hash_name(board.port(inport), name)) {
    const PortRecord& port = board.port(inport);
    int together = 0;
    for (const ChannelRecord& channel : channels_of(board, port)) together = std::max(together, channel.readers);
    if (together < 2) return;
    Looked& looked = board.looked(port, reader);
    const uint64_t number = ++looked.questions;
    const Answered& answer = port.answers[number % kAnswers];
    if (answer.number > number || (answer.number == number && answer.name != name_)) looked.apart = 1;
    if (!looked.apart) number_ = number;
}

SharedAnswer::Known SharedAnswer::known() const {
    const PortRecord& port = board_.port(inport_);
    const Answered& answer = port.answers[number_ % kAnswers];
    if (number_ == 0 || answer.number != number_ || answer.name != name_) return {false, -1};
    if (answer.stamp == 0) return {true, -1};
    for (const ChannelRecord& channel : channels_of(board_, port))
        for (const SlotRecord& slot : steps_of(board_, channel))
            if (slot.stamp == answer.stamp) return {true, board_.index(slot)};
    return {false, -1};  // it is gone
}

void SharedAnswer::give(uint64_t stamp) {
    PortRecord& port = board_.port(inport_);
    Answered& answer = port.answers[number_ % kAnswers];
    if (number_ == 0 || answer.number >= number_) return;
    answer.number = 0;  // for one that dies here
    answer.name = name_;
    answer.stamp = stamp;
    answer.number = number_;
    board_.ring(inport_);
}

void note_came(const Board& board, int rank_index) {
    RankRecord& rank = board.rank(rank_index);
    const uint32_t process = board.self();
    uint32_t* place = nullptr;
    for (uint32_t& known : rank.came) {
        if (known == process) return;
        if (!place && known == 0) place = &known;
    }
    for (uint32_t& known : rank.came)
        if (!place && board.is_over(known)) place = &known;
    if (place) *place = process;
}

void note_consumed(const Board& board, int inport, int reader, int index, const char* name) {
    const PortRecord& port = board.port(inport);
    const SlotRecord& slot = board.slot(index);
    Looked& looked = board.looked(port, reader);
    looked.consumed.identity = 0;
    looked.consumed_slot = index;
    looked.consumed_name = hash_name(port, name);
    looked.consumed.size = slot.size.load();
    looked.consumed.published_ns = slot.published_ns;
    looked.consumed.identity = slot.stamp;
}

void forget_consumed(const Board& board, int inport, int reader, const char* name) {
    const PortRecord& port = board.port(inport);
    Looked& looked = board.looked(port, reader);
    if (looked.consumed_name != hash_name(port, name)) return;
    looked.consumed.identity = 0;
    looked.consumed_name = 0;
}

void note_failed(const Board& board, int inport, int reader, const char* name) {
    RankRecord& rank = board.rank(board.task(board.port(inport).task).first_rank + reader);
    EmptyLooks& empty_looks = rank.empty_looks;
    const int64_t now = now_ns();
    if (empty_looks.looks == 0 || empty_looks.files != rank.files) {
        empty_looks.looks = 0;
        empty_looks.since = now;
        empty_looks.files = rank.files;
    }
    ++empty_looks.looks;
    empty_looks.last = now;
    empty_looks.port = inport;
    empty_looks.lists = 0;
    strncpy(empty_looks.name, name, sizeof(empty_looks.name) - 1);
}

bool note_listed(const Board& board, int inport, int reader, uint64_t last) {
    const PortRecord& port = board.port(inport);
    EmptyLooks& empty_looks = board.rank(board.task(port.task).first_rank + reader).empty_looks;
    if (last > empty_looks.shown) {
        empty_looks.shown = last;
        empty_looks.looks = 0;
        return false;
    }
    note_failed(board, inport, reader, port.pattern);
    empty_looks.lists = 1;
    if (!queue::has_choice(board, inport, reader)) queue::want(board, inport);
    return lists_nothing_new(board.rank(board.task(port.task).first_rank + reader));
}

bool lists_nothing_new(const RankRecord& rank) {
    return rank.empty_looks.lists && rank.empty_looks.looks >= kAgain && rank.empty_looks.files == rank.files;
}

void forget_looks(const Board& board, int index) {
    const TaskRecord& task = board.task(index);
    for (RankRecord& rank : ranks_of(board, task)) {
        rank.empty_looks.looks = rank.empty_looks.shown = 0;
        rank.failed_open.sought = Sought::nothing;
        for (uint32_t& process : rank.came) process = 0;
    }
    for (PortRecord& port : ports_of(board, index, Direction::in)) {
        port.again = 0;
        for (int r = 0; r < task.nprocs; ++r) board.looked(port, r) = {};
        for (Answered& answer : port.answers) answer = {};
    }
}

}  // namespace wilkins
