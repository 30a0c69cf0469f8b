// The record of what a program does with files: a line for each call, in a file that all processes of the program
// append to.
#pragma once

namespace wilkins::recorder {

// Adds a line: process, event, descriptor (-1: none), bytes, name, and what more there is to say. Names that are not
// absolute begin at `folder`, a descriptor or AT_FDCWD. Leaves errno alone.
void log(const char* event, int fd, long long bytes, const char* name, int folder, const char* more = "");

}  // namespace wilkins::recorder
