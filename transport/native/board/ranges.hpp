// What is on a board, and what belongs to what there, as ranges for loops: `for (const ChannelRecord& channel :
// channels_of(board, port))`.
#pragma once

#include "board/board.hpp"

namespace wilkins {

// Records that lie one behind the other in a table.
template <class Record>
class Row {
public:
    Row() = default;
    Row(Record& first, int count) : first_(&first), end_(&first + count) {}
    Record* begin() const { return first_; }
    Record* end() const { return end_; }

private:
    Record* first_ = nullptr;
    Record* end_ = nullptr;
};

// Those of them that pass a test when the loop comes to them.
template <class Record, class Test>
class Chosen {
public:
    class Iterator {
    public:
        Iterator(const Chosen& range, Record* at) : range_(range), at_(at) { pass(); }
        Record& operator*() const { return *at_; }
        Iterator& operator++() {
            ++at_;
            pass();
            return *this;
        }
        bool operator!=(const Iterator& other) const { return at_ != other.at_; }

    private:
        void pass() {
            while (at_ != range_.row_.end() && !range_.test_(*at_)) ++at_;
        }
        const Chosen& range_;
        Record* at_;
    };

    Chosen(Row<Record> row, Test test) : row_(row), test_(test) {}
    Iterator begin() const { return {*this, row_.begin()}; }
    Iterator end() const { return {*this, row_.end()}; }

private:
    Row<Record> row_;
    Test test_;
};

// What the links of a port lead to.
template <class Lead>
class Linked {
public:
    class Iterator {
    public:
        Iterator(const Linked& range, int link) : range_(range), link_(link) {}
        decltype(auto) operator*() const {
            return range_.lead_(range_.board_.channel(range_.board_.link(range_.port_, link_)));
        }
        Iterator& operator++() {
            ++link_;
            return *this;
        }
        bool operator!=(const Iterator& other) const { return link_ != other.link_; }

    private:
        const Linked& range_;
        int link_;
    };

    Linked(const Board& board, const PortRecord& port, Lead lead) : board_(board), port_(port), lead_(lead) {}
    Iterator begin() const { return {*this, 0}; }
    Iterator end() const { return {*this, port_.links}; }

private:
    const Board& board_;
    const PortRecord& port_;
    Lead lead_;
};

inline Row<TaskRecord> tasks_of(const Board& board) { return {board.task(0), board.head().tasks}; }
inline Row<PortRecord> ports_of(const Board& board) { return {board.port(0), board.head().ports}; }
inline Row<ChannelRecord> channels_of(const Board& board) { return {board.channel(0), board.head().channels}; }
inline Row<SourceRecord> sources_of(const Board& board) { return {board.source(0), board.head().sources}; }
inline Row<SlotRecord> slots_of(const Board& board) { return {board.slot(0), board.head().slots}; }
inline Row<RankRecord> ranks_of(const Board& board) { return {board.rank(0), board.head().ranks}; }

inline Row<RankRecord> ranks_of(const Board& board, const TaskRecord& task) {
    return {board.rank(task.first_rank), task.nprocs};
}

// The ports of a task, in-ports or out-ports.
inline auto ports_of(Row<PortRecord> row, int task, Direction direction) {
    return Chosen(row, [=](const PortRecord& port) { return port.task == task && port.direction == direction; });
}

inline auto ports_of(const Board& board, int task, Direction direction) {
    const TaskRecord& record = board.task(task);
    return ports_of(Row(board.port(record.first_port), record.last_port - record.first_port), task, direction);
}

inline auto channels_of(const Board& board, const PortRecord& port) {
    return Linked(board, port, [](ChannelRecord& channel) -> ChannelRecord& { return channel; });
}

// The out-ports that bring steps to an in-port.
inline auto outports_of(const Board& board, const PortRecord& inport) {
    return Linked(board, inport,
                  [&board](const ChannelRecord& channel) -> PortRecord& { return board.port(channel.outport); });
}

// The in-ports to which an out-port brings steps.
inline auto inports_of(const Board& board, const PortRecord& outport) {
    return Linked(board, outport,
                  [&board](const ChannelRecord& channel) -> PortRecord& { return board.port(channel.inport); });
}

inline Row<SourceRecord> sources_of(const Board& board, const PortRecord& outport) {
    return {board.source(outport.first_source), outport.sources};
}

inline Row<SourceRecord> sources_of(const Board& board, const ChannelRecord& channel) {
    return sources_of(board, board.port(channel.outport));
}

// `outport`: -1 for all there are.
inline Row<SourceRecord> sources_of(const Board& board, int outport) {
    return outport < 0 ? sources_of(board) : sources_of(board, board.port(outport));
}

// Those of a channel's sources whose steps the rank of the reading task gets: all, or none.
inline Row<SourceRecord> sources_read(const Board& board, const ChannelRecord& channel, int reader) {
    return reader < channel.readers ? sources_of(board, channel) : Row<SourceRecord>();
}

inline Row<SlotRecord> slots_of(const Board& board, const SourceRecord& source) {
    return {board.slot(source.first_slot), source.slots};
}

// (Those of an out-port's sources follow each other, each of which has as many.)
inline Row<SlotRecord> slots_of(const Board& board, const PortRecord& outport) {
    const SourceRecord& first = board.source(outport.first_source);
    return {board.slot(first.first_slot), outport.sources * first.slots};
}

// True if the channel brings the step.
inline bool on_channel(const Board& board, const SlotRecord& slot, const ChannelRecord& channel) {
    return slot.state == SlotState::published && board.on(slot, channel.place) != 0;
}

inline auto steps_of(const Board& board, const ChannelRecord& channel, Row<SlotRecord> slots) {
    return Chosen(slots, [&](const SlotRecord& slot) { return on_channel(board, slot, channel); });
}

// The steps on a channel, of all its sources or of one.
inline auto steps_of(const Board& board, const ChannelRecord& channel) {
    return steps_of(board, channel, slots_of(board, board.port(channel.outport)));
}

inline auto steps_of(const Board& board, const ChannelRecord& channel, const SourceRecord& source) {
    return steps_of(board, channel, slots_of(board, source));
}

}  // namespace wilkins
