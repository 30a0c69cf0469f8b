// Looks over a locked board as a whole: what waiting ranks wait for, at a cost that grows with the board and not with
// its square.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "board/board.hpp"

namespace wilkins {

// Entries of the rank table that stand side by side, both ends among them.
struct Ranks {
    int first;
    int last;
};

// What is found out once is remembered, so a survey is for as long as the board stays locked.
class Survey {
public:
    explicit Survey(const Board& board);

    // The ranks that a wait of a rank is for.
    std::vector<Ranks> waits_on(int rank_index, const WaitRecord& wait);

    // What must happen for it to go on: all of it.
    struct Need {
        bool all;  // of the ranks must move, and not only one
        std::vector<Ranks> ranks;
    };
    std::vector<Need> needs(int rank_index, const WaitRecord& wait);

    // The channels that keep a rank, whose wait is for room, from creating its step.
    std::vector<int> full_channels(const RankRecord& rank, const WaitRecord& wait);

    // Steps that are queued on the channel, of all its sources.
    uint64_t queued(int channel);

    // The name of the first of them; empty if there are none.
    std::string next(int channel);

    // Steps that came through the channel's out-port and that processes of the reading task have open.
    uint64_t held(int channel);

    // Ranks that may bring a step for the in-port.
    std::vector<Ranks> producers(int inport) const;

    // As Board::is_over.
    bool is_over(uint32_t process);

private:
    struct Hold {
        int slot;
        int rank;
        uint32_t process;
    };

    const std::vector<char>& opened(int inport);
    bool is_idle(int channel, int reader);
    bool full(int channel, int source, const char* name);
    bool needed(const SlotRecord& slot);
    template <class Visit>
    void each_hold(int slot, Visit visit) const;
    bool held_by_dead(int slot);
    void add_blockers(int channel, int source, std::vector<int>& to);
    void add_users(int slot, std::vector<int>& to);
    std::vector<int> users_of_source(int source);
    std::vector<int> users_of_memory(int rank_index);
    void find_users_of_memory();

    const Board& board_;
    std::vector<Hold> holds_;  // by slot
    std::map<uint32_t, bool> over_;
    std::optional<std::map<std::pair<int, int>, uint64_t>>
        held_;  // by out-port and task: steps that its processes have open
    std::vector<std::optional<std::vector<char>>> opened_;
    // Of all slots that keep memory from being used: how often each rank is a user; those held by dead processes; and
    // the users of those that are being written, by their writers, for whom they do not count.
    bool has_users_ = false;
    std::vector<int> users_;
    std::vector<int> held_by_dead_;
    std::map<int, std::vector<int>> users_of_own_;
};

}  // namespace wilkins
