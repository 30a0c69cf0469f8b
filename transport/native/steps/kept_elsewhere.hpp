// The lazy steps that a relay has for readers of this host, and that have to stay where they were made.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "board/board.hpp"
#include "board/step_token.hpp"
#include "far/line.hpp"

namespace wilkins {

// Their host keeps each from when it sends it (steps/kept_here.hpp), and hears by one connection which it need not keep
// any more.
class KeptElsewhere {
public:
    // Connects to the relay's sender, if that was not done: it keeps all. Returns 0 or an errno; ECONNRESET: it has let
    // go of them.
    int connect(const char* sender);
    // `there`: what the sender calls the step of this slot.
    void add(int slot, uint64_t stamp, const StepToken& there);

    // How many there are. Lets go of those that nobody can read any more, and frees their slots.
    size_t count();

    // The stream has ended. Waits until nobody can read any of them, nor a step that its host might have to mend.
    // Returns 0, or EINTR as a wait does.
    int await_end(int port);

private:
    struct Kept {
        int slot;
        uint64_t stamp;
        StepToken there;
    };

    template <class IsOver>
    void let_go(IsOver is_over);
    void lose();
    void watch();

    std::mutex mutex_;  // but for receiving: one thread does
    std::unique_ptr<far::Line> line_;
    bool lost_ = false;
    std::vector<Kept> kept_;
};

}  // namespace wilkins
