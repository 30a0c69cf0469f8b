// When steps that are folders or several files are complete, and their publication.
#pragma once

#include "board/process.hpp"

namespace wilkins::sets {

// Publishes the port's steps that are complete, in the order in which they were begun.
void publish_complete(const Process& p, int outport);

}  // namespace wilkins::sets
