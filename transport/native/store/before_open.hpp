// What an open of a step is going to wait for, awaited before HDF5 is entered.
#pragma once

#include "steps/step.hpp"

namespace wilkins {

struct Process;

// Only where the thread holds h5py's lock, and lets go of it meanwhile: other threads of the program may then use HDF5,
// as they could if this open did not wait. Changes nothing; the open does what is to be done, and may still have to
// wait. `creates`: it makes the file. Returns 0, or the errno with which the open is to fail.
int await_open(const Match& match, bool creates);

// True if an open of the name, which is an in-port's, would get an answer now. Call with the board's lock held.
bool is_answered(const Process& p, const Match& match);

}  // namespace wilkins
