// HDF5's way to a step that the program holds already: a thread is led to it under the step's name.
#pragma once

#include "names/led.hpp"
#include "steps/step.hpp"

namespace wilkins {

// From now on, opening the step's name to read in this thread means this step; nullptr: no more.
void lead(const StepFile* step);

// That step, opened once more. Returns nullptr and sets *error if it cannot be.
StepFile* open_led(int* error);

}  // namespace wilkins
