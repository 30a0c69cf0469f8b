// What the parts of files.hpp share: the table of the descriptors that lead to steps.
#pragma once

#include "posix/files.hpp"

namespace wilkins::posix {

extern std::atomic<OpenStep*> table[kMostDescriptors];
extern std::atomic<int> entries;
extern std::atomic<int> highest;
extern std::mutex leaving;          // held while entries leave the table, and by those who walk through it
extern std::atomic<bool> has_left;  // this process has left steps to others

// Standard input, output and errors are what other programs are given, and what the C library writes by itself.
inline constexpr int kLastStandard = 2;

// The descriptor leads to the step from now on; false if it is too large for that.
bool enter(int fd, OpenStep* step);

// A second, independent descriptor of the same file; -1 and errno on failure.
int reopen_anew(int fd, int flags);
// The same, or a duplicate where there is none.
int reopen(int fd, int flags);
// A descriptor for the program of a step that it reads, which keeps that as it is; -1 and errno on failure.
int open_view(StepFile* step, int flags);

}  // namespace wilkins::posix
