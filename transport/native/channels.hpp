// Steps that a Python task holds as objects, and HDF5's way to them.
#pragma once

#include "store.hpp"

namespace wilkins {

// Does the next open of this name in this thread mean a step that the program holds, whatever else the name means now?
bool led_step(const char* name);

// That step, opened once more. Returns nullptr and sets *error if it cannot be.
StepFile* open_led(int* error);

}  // namespace wilkins
