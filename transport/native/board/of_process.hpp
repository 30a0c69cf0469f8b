// State that a fork does not share with its parent, whose other threads may be about to change it.
#pragma once

#include <atomic>
#include <memory>

#include "board/process.hpp"

namespace wilkins {

// Of each process, the one that it makes when it first asks. A fork makes its own: mutexes in that of its parent may be
// locked for ever, so it stays where it is. Each is there to the end of the process.
template <class State>
class OfProcess {
public:
    State& get() {
        const uint32_t self = process().board.self();
        Made* known = made_.load(std::memory_order_acquire);
        if (known != nullptr && known->process == self) return known->state;
        auto made = std::make_unique<Made>();
        made->process = self;
        if (made_.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) known = made.release();
        return known->state;  // (or the one of another thread that was first)
    }

    // nullptr: the process has not asked for it yet.
    State* known() const {
        Made* const known = made_.load(std::memory_order_acquire);
        return known != nullptr && known->process == process().board.joined() ? &known->state : nullptr;
    }

private:
    struct Made {
        uint32_t process = 0;
        State state;
    };
    std::atomic<Made*> made_{nullptr};
};

}  // namespace wilkins
