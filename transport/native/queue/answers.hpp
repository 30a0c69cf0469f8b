// What ranks were answered that asked without reading, kept on the board: so that ranks that ask alike are answered
// alike, and that it shows whose looks find nothing. Call everything here with the board's lock held.
#pragma once

#include "board/board.hpp"

namespace wilkins {

// Of a name as the in-port's programs say it: of the components that its pattern has.
uint64_t hash_name(const PortRecord& inport, const char* name);

// The n-th question of a rank about an in-port, about `name`. Where several ranks of a task ask the same, one question
// after the other, the n-th of each has the same answer: that of the rank which was answered first. A rank that asks
// otherwise goes by itself from then on, and so does one that comes when the answer is forgotten.
class SharedAnswer {
public:
    SharedAnswer(const Board& board, int inport, int reader, const char* name);

    // `slot`: of the step that is there, -1: there is none.
    struct Known {
        bool given;
        int slot;
    };
    Known known() const;

    // `stamp`: of the step that is there, 0: there is none. The answer that is known already stays.
    void give(uint64_t stamp);

private:
    const Board& board_;
    int inport_;
    uint64_t number_ = 0;  // 0: the rank asks by itself
    uint64_t name_;
};

// This process of the rank asks for steps, or opens them.
void note_came(const Board& board, int rank_index);

// The rank has opened a step of the in-port under this name; it has let go of it.
void note_consumed(const Board& board, int inport, int reader, int slot, const char* name);
void forget_consumed(const Board& board, int inport, int reader, const char* name);

// The answer to the rank was that the name is not there.
void note_failed(const Board& board, int inport, int reader, const char* name);

// A listing has shown the rank steps of the in-port, the last of which was published as this one; 0: none. Returns
// whether it lists again and again, is shown nothing new and reads nothing.
bool note_listed(const Board& board, int inport, int reader, uint64_t last);

// True if the rank has done nothing else of late.
bool lists_nothing_new(const RankRecord& rank);

// A program of the task starts, which has asked nothing yet.
void forget_looks(const Board& board, int task);

}  // namespace wilkins
