// A wait for something on the board: says what for while it sleeps, lets Python go on, ends early if it must.
#pragma once

#include "board/process.hpp"

namespace wilkins {

inline constexpr int kNap = 1000;  // ms a wait sleeps at most before it looks again

inline constexpr int kUnheard = 250;  // where it looks at what no bell tells of

// One sleep until the port's bell rings, with the lock released. Returns 0, or EINTR if the run was stopped or a signal
// handler of the program raised.
int nap(Process& process, int port, Board::Lock& lock, int milliseconds = kNap);

class Wait {
public:
    Wait(Process& process, WaitFor what, int port, const char* name, WaitKind kind = WaitKind::plain);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

    // The same, and the board says what for; the lock must outlive the wait. The first nap takes 5 ms at most, and
    // each twice as long as the one before in which no bell rang.
    int nap(Board::Lock& lock, int milliseconds = kNap);

    // Only that the board says what for, until the next nap or the end of the wait.
    void tell(Board::Lock& lock);

    // True if all who could end it wait for this rank themselves. Then the caller goes on without, now or after a nap,
    // so the run is not stuck.
    bool has_found_nothing(Board::Lock& lock);

    // One for memory that programs can see: does no other rank go on, which might let them see less?
    bool is_alone(Board::Lock& lock);

private:
    void share_failed() const;
    void note(const char* event) const;
    void go_on();

    Process& process_;
    WaitFor what_;
    int port_;
    const char* name_;
    WaitKind kind_;
    Board::Lock* lock_ = nullptr;
    int64_t since_ = 0;
    WaitRecord* record_ = nullptr;  // where the board has it; none: it is not noted, or there is no room
    bool found_nothing_ = false;    // see WaitRecord: somebody has said so in one of its naps
    int pause_;                     // ms that its next nap takes at most
};

}  // namespace wilkins
