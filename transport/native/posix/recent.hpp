// Where a program's own writes went since it was last asked whether something else has written to the file, too. Asking
// costs a system call, so it is done after every so many bytes; until then nobody knows which of the two came last.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>

namespace wilkins::posix {

class RecentWrites {
public:
    static constexpr uint64_t kBytes = 1u << 20;
    static constexpr int kRanges = 16;

    // Is it time to ask?
    bool is_full() const { return full_.load(std::memory_order_relaxed); }

    void add(uint64_t begin, uint64_t end) {
        std::lock_guard<std::mutex> lock(changing_);
        bytes_ += end - begin;
        Range& last = ranges_[count_ > 0 ? count_ - 1 : 0];
        const bool joins = count_ > 0 && begin <= last.end && end >= last.begin;
        if (!joins && count_ < kRanges) ranges_[count_++] = {begin, end};
        else
            last = {std::min(last.begin, begin),
                    std::max(last.end, end)};  // of threads that write together: more than was written
        if (bytes_ >= kBytes || count_ == kRanges) full_.store(true, std::memory_order_relaxed);
    }

    // `untouched`: nothing else has written so far. Returns what it says.
    template <class Ask>
    bool ask(Ask untouched) {
        std::lock_guard<std::mutex> lock(changing_);
        if (!untouched()) return false;
        bytes_ = 0;
        count_ = 0;
        full_.store(false, std::memory_order_relaxed);
        return true;
    }

    bool contain(uint64_t place) {
        std::lock_guard<std::mutex> lock(changing_);
        return std::any_of(ranges_, ranges_ + count_,
                           [place](const Range& range) { return place >= range.begin && place < range.end; });
    }

private:
    struct Range {
        uint64_t begin, end;
    };
    Range ranges_[kRanges] = {};
    int count_ = 0;
    uint64_t bytes_ = 0;
    std::atomic<bool> full_{false};
    std::mutex changing_;
};

}  // namespace wilkins::posix
