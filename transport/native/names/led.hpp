// HDF5's way to a step that the program holds already: a thread is led to it under the step's name.
#pragma once

namespace wilkins {

// From now on, opening this name to read in this thread means such a step; nullptr: no more. The text stays meanwhile.
void lead_to(const char* name);

// True if the next open of this name in this thread means a step that the program holds, whatever else the name means
// now.
bool led_step(const char* name);

}  // namespace wilkins
