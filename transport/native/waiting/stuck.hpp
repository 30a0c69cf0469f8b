// Waits that nothing can end.
#pragma once

#include <string>
#include <vector>

#include "board/board.hpp"
#include "waiting/survey.hpp"

namespace wilkins {

// Is the rank's program over, or in MPI_Finalize, while its task goes on?
bool leaves(const Board& board, int rank);

// Of a rank that waits: is one of its processes not known to wait?
bool is_unsure(const Board& board, int rank);

// Ranks that wait, and of each what wakes it. While the board is locked, all of it stands still but who may yet be woken.
class Waiting {
public:
    // `unsure`: a rank of which several processes use ports waits also if not all of them are known to. `yielding`: so does one that gives
    // up where nobody else can end its wait.
    explicit Waiting(const Board& board, bool unsure = true, bool yielding = true);

    // Can the rank, which waits, be woken by none but others of that kind?
    bool hopeless(int rank) const { return hopeless_[static_cast<size_t>(rank)] != 0; }

    // A description of all such ranks, or "".
    std::string told() const;

    // Of hopeless ranks, the sets of which each waits for each other, over others of the set, and for none outside. The other hopeless ranks
    // hang on such sets.
    std::vector<std::vector<int>> circles() const;

    Survey& survey() { return survey_; }

private:
    // One of the things that a rank waits for.
    struct Wait {
        int rank;
        bool needs_all;  // every rank that it waits for must move, not only one
        int unmoved;     // of those: how many have not ended and cannot move, so far
        std::vector<Ranks> on;
        bool ended = false;
    };

    bool ended(int rank) const { return board_.task(board_.rank(rank).task).state == TaskState::ended; }
    bool waits(int rank);
    int awaited(int rank) const;
    bool follows(int rank) const;
    std::vector<Ranks> started() const;
    bool leaves(int rank) const { return wilkins::leaves(board_, rank); }
    std::vector<Ranks> staying(int task) const;
    void add(int rank);
    void enter(size_t wait, const Ranks& ranks);
    bool has_come(int rank) const;
    void wake(size_t wait);
    void wake_all_that_can();
    std::vector<char> reached_from(int rank) const;
    std::vector<char> circle_in(std::vector<char> reached) const;

    const Board& board_;
    Survey survey_;
    const bool unsure_;
    const bool yielding_;
    std::vector<int> hopeless_;  // by rank: of the things that it waits for, how many nobody can bring
    std::vector<Wait> waits_;
    std::vector<std::vector<size_t>> by_rank_;  // its waits
    std::vector<std::vector<size_t>> of_rank_;  // waits for a rank,
    std::vector<std::vector<size_t>> of_task_;  // or for any rank of a task
    std::vector<int> woken_;  // ranks that can move, and of which those that wait for them do not know yet
};

// A description of ranks that wait for each other and cannot go on, or "". A look among them goes on by itself. Call with the lock held.
std::string find_stuck(const Board& board);

// Is the rank, which waits, one of them, and stays so unless steps are let go? Call with the lock held.
bool is_stuck(const Board& board, int rank_index);

}  // namespace wilkins
