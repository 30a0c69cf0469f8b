// A call of MPI's that other ranks of the task may have to end: while it lasts, the board says that this rank waits for
// them.
#pragma once

namespace wilkins {

class AmongRanks {
public:
    AmongRanks();
    ~AmongRanks();
    AmongRanks(const AmongRanks&) = delete;
    AmongRanks& operator=(const AmongRanks&) = delete;

private:
    bool outermost_ = false;  // MPI calls itself
};

}  // namespace wilkins
