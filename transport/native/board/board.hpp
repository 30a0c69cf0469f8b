// The board of a run: mapping it, locking it, and ringing those who wait.
#pragma once

#include <mutex>
#include <string>

#include "board/layout.hpp"
#include "board/life.hpp"

namespace wilkins {

// A mapped board. Records are reached by index; everything but atomics is read and written under Board::Lock.
class Board {
public:
    Board() = default;
    ~Board();
    Board(const Board&) = delete;
    Board& operator=(const Board&) = delete;

    // Maps the board of the run in `folder`. Returns 0 or an errno.
    int attach(const char* folder);
    bool attached() const { return base_ != nullptr; }
    const char* folder() const { return folder_; }

    BoardRecord& head() const { return *reinterpret_cast<BoardRecord*>(base_); }
    TaskRecord& task(int i) const { return at<TaskRecord>(head().at_tasks, i); }
    PortRecord& port(int i) const { return at<PortRecord>(head().at_ports, i); }
    ChannelRecord& channel(int i) const { return at<ChannelRecord>(head().at_channels, i); }
    SourceRecord& source(int i) const { return at<SourceRecord>(head().at_sources, i); }
    SourceRecord& source(const PortRecord& outport, int rank) const { return source(outport.first_source + rank); }
    SlotRecord& slot(int i) const { return at<SlotRecord>(head().at_slots, i); }
    UnmatchedName* unmatched_names(int task) const {
        return &at<UnmatchedName>(head().at_unmatched_names, task * kUnmatchedNames);
    }
    RankRecord& rank(int i) const { return at<RankRecord>(head().at_ranks, i); }
    // The place of a record in its table.
    int index(const TaskRecord& task) const { return static_cast<int>(&task - &this->task(0)); }
    int index(const PortRecord& port) const { return static_cast<int>(&port - &this->port(0)); }
    int index(const ChannelRecord& channel) const { return static_cast<int>(&channel - &this->channel(0)); }
    int index(const SourceRecord& source) const { return static_cast<int>(&source - &this->source(0)); }
    int index(const SlotRecord& slot) const { return static_cast<int>(&slot - &this->slot(0)); }
    int index(const RankRecord& rank) const { return static_cast<int>(&rank - &this->rank(0)); }
    // The k-th channel of a port.
    int link(const PortRecord& port, int k) const { return at<int32_t>(head().at_links, port.first_link + k); }
    Mark& mark(const ChannelRecord& channel, int source, int reader) const {
        return at<Mark>(channel.marks, source * channel.readers + reader);
    }
    uint64_t& logged(const ChannelRecord& channel, int source) const { return at<uint64_t>(channel.logged, source); }
    uint64_t& offered(const ChannelRecord& channel, int source) const { return at<uint64_t>(channel.offered, source); }
    uint64_t& first(const ChannelRecord& channel, int source) const { return at<uint64_t>(channel.firsts, source); }
    uint8_t& on(const SlotRecord& slot, int place) const { return at<uint8_t>(slot.on, place); }
    uint8_t& consumed(const SlotRecord& slot, const ChannelRecord& channel, int reader) const {
        return at<uint8_t>(slot.consumed, channel.reader_place + reader);
    }
    uint64_t& before(const SlotRecord& slot, int beside) const { return at<uint64_t>(slot.origin.before, beside); }
    uint64_t& latest(const PortRecord& port, int rank) const { return at<uint64_t>(port.latest, rank); }
    uint32_t& position(const PortRecord& port, int rank) const { return at<uint32_t>(port.positions, rank); }
    Asked& asked(const PortRecord& port, int rank) const { return at<Asked>(port.asked, rank); }
    uint64_t& given(const PortRecord& port, uint32_t n) const {
        return at<uint64_t>(port.given, static_cast<int>(n % port.log_room));
    }
    Looked& looked(const PortRecord& port, int rank) const { return at<Looked>(port.looked, rank); }
    FirstOpens& first_opens(const PortRecord& port, int rank) const { return at<FirstOpens>(port.firsts, rank); }
    Delivery& delivery(const PortRecord& port, uint32_t n) const {
        return at<Delivery>(port.log, static_cast<int>(n % port.log_room));
    }

    // This process's number in the run, and whether another process has died (see board/life.hpp).
    uint32_t self() const { return life_.self(); }
    uint32_t joined() const { return life_.joined(); }
    bool is_over(uint32_t process) const { return life_.is_over(process); }

    // Whom others name when this process holds the board's lock for long; before, it is a launcher.
    void introduce(int task, int rank) {
        task_ = task;
        rank_ = rank;
    }
    uint64_t pid_namespace() const { return life_.pid_namespace(); }
    const Life& life() const { return life_; }

    // Holds the board's lock. A process that dies holding it leaves records that are each whole (every change ends
    // in one store); what follows from them is completed by the next owner (see queue::repair).
    class Lock {
    public:
        explicit Lock(const Board& board);
        Lock(const Board& board, std::defer_lock_t) : board_(board) {}
        ~Lock();
        // Writes nothing to a file before others can have the lock, and does not return before what happened until now,
        // and must be in the trace file before anybody acts on it, is there. False if that takes longer than this lock
        // may wait.
        bool release();
        void acquire();
        // From now on it waits no longer than so many ns for anything. False if the lock is not free in that time.
        bool acquire_within(int64_t patience);
        // Also few events go to the trace file when the lock is released (see board/trace.hpp).
        void write_events() { events_kept_ = 0; }
        // True if this thread holds one. Then what a signal handler of it does must not ask for another.
        static bool is_held();
        // If this thread holds a lock: keeps a line for the log until that is released.
        static bool keep_line(const char* file, const char* line, size_t length);
        // If this thread holds the board's lock: wakes those who sleep at the port when that is released, as they need
        // it first.
        static bool wake_later(const Board& board, int port);
        Lock(const Lock&) = delete;
        Lock& operator=(const Lock&) = delete;

    private:
        bool take_by(int64_t until);
        int64_t limit() const;

        const Board& board_;
        bool held_ = false;
        bool written_ = true;    // what the last release returned
        int64_t patience_ = -1;  // none
        uint64_t events_kept_ = kTraceMany;
        std::string lines_;
        const char* log_file_ = nullptr;
        Lock* outer_ = nullptr;
        static constexpr int kMostRung = 16;
        int rung_[kMostRung];
        int rings_ = 0;
    };

    // Room beyond the tables, for what nobody can count before (see board/annex.cpp). Call with the lock held. `extend`
    // gives a handle of so many zeroed bytes, for ever; 0: shared memory is full. `annex` gives their address in this
    // process, or nullptr. `annexed`: bytes given so far.
    uint64_t extend(uint64_t bytes) const;
    unsigned char* annex(uint64_t handle) const;
    uint64_t annexed() const;

    // Wakes everyone who waits at a port. Call with the lock held.
    void ring(int port) const;
    // Sleeps until the port is rung after `seen` was read, at most `milliseconds`. Call without the lock.
    // Returns false if a signal ended the sleep.
    bool sleep(int port, uint32_t seen, int milliseconds) const;
    uint32_t bell(int port) const { return this->port(port).bell.load(std::memory_order_acquire); }

    // Takes one of the board's two locks, and says who has it.
    Taken take(NamedLock& lock, int64_t until) const;

private:
    template <class T>
    T& at(uint64_t offset, int index) const {
        return *reinterpret_cast<T*>(base_ + offset + static_cast<uint64_t>(index) * sizeof(T));
    }

    unsigned char* base_ = nullptr;
    uint64_t size_ = 0;
    mutable unsigned char* annexed_[kSegments] = {};
    char folder_[512] = {};
    char file_[528] = {};
    Life life_;
    int task_ = -1;
    int rank_ = 0;
};

// Nanoseconds of the monotonic clock.
int64_t now_ns();

namespace queue {

// Completes what a process was at when it died with the board's lock, and wakes everyone. May be begun again. Whoever
// takes the lock next calls it; how changes of steps end is known to the rules of the queue, which define it
// (queue/queue.cpp).
void repair(const Board& board);

}  // namespace queue
}  // namespace wilkins
