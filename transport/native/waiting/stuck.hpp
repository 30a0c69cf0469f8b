// Waits that nothing can end.
#pragma once

#include <string>
#include <vector>

#include "board/board.hpp"
#include "waiting/members.hpp"
#include "waiting/survey.hpp"

namespace wilkins {

// Which ranks are taken to wait.
enum class Waits {
    known,    // those of which each thread is known to that uses ports
    threads,  // those of which one thread does
    tasks,    // all of a task of which one rank does: the others may wait for that one
};

// Ranks that wait, and of each what wakes it. While the board is locked, all of it stands still but who may yet be
// woken.
class Waiting {
public:
    // `yielding`: a rank waits also if it gives up where nobody else can end its wait. `views_last`: who lacks memory
    // waits for any rank that can move, and what programs can see comes free by nothing else.
    explicit Waiting(const Board& board, Waits waits = Waits::threads, bool yielding = true, bool views_last = false);

    // True if none but others of that kind can wake the rank, which waits.
    bool hopeless(int rank) const { return hopeless_[static_cast<size_t>(rank)] != 0; }

    // True if there is such a rank.
    bool any() const;

    // A description of all such ranks, or "".
    std::string description() const;

    // Of hopeless ranks, the sets of which each waits for each other, over others of the set, and for none outside. The
    // other hopeless ranks hang on such sets.
    std::vector<std::vector<int>> circles() const;

    Survey& survey() { return survey_; }

private:
    // A thread of a rank, or the rank itself; if one can be woken, the rank can move.
    struct Waiter {
        int rank;
        const WaitRecord* record;  // none: it is to be started, leaves, or is in a call of MPI's
        int lacking;               // of the things that it waits for, how many nobody can bring
    };

    // One of the things that a rank waits for.
    struct Wait {
        size_t waiter;
        bool needs_all;  // every rank that it waits for must move, not only one
        int unmoved;     // of those: how many have not ended and cannot move, so far
        std::vector<Ranks> on;
        bool ended = false;
    };

    bool ended(int rank) const { return board_.task(board_.rank(rank).task).state == TaskState::ended; }
    bool waits(int rank);
    bool is_among(int rank) const;
    std::vector<Ranks> others(int rank) const;
    int awaited(int rank) const;
    bool follows(int rank) const;
    std::vector<Ranks> started() const;
    bool leaves(int rank) const { return wilkins::leaves(board_, rank); }
    std::vector<Ranks> staying(int task) const;
    void add(int rank);
    void add(int rank, const WaitRecord* record, std::vector<Survey::Need> needs);
    const Waiter& waiter_of(const Wait& wait) const { return waiters_[wait.waiter]; }
    void enter(size_t wait, const Ranks& ranks);
    bool has_come(const Waiter& waiter) const;
    void wake(size_t wait);
    void wake_all_that_can();
    std::vector<char> reached_from(int rank) const;
    std::vector<char> circle_in(std::vector<char> reached) const;

    const Board& board_;
    Survey survey_;
    const Waits who_;
    const bool yielding_;
    const bool views_last_;
    std::vector<char> hopeless_;  // by rank: none of its waiters can be woken
    std::vector<Waiter> waiters_;
    std::vector<Wait> waits_;
    std::vector<std::vector<size_t>> by_rank_;  // its waits
    std::vector<std::vector<size_t>> of_rank_;  // waits for a rank,
    std::vector<std::vector<size_t>> of_task_;  // or for any rank of a task
    std::vector<int> woken_;  // ranks that can move, and of which those that wait for them do not know yet
};

// A description of ranks that wait for each other and cannot go on, or "". A look among them goes on by itself. Call
// with the lock held.
std::string find_stuck(const Board& board);

// True if the rank, which waits, is one of them, and stays so unless steps are let go. Call with the lock held.
bool is_stuck(const Board& board, int rank_index);

}  // namespace wilkins
