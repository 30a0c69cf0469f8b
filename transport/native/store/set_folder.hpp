// The folders of the run's own in which steps lie that are folders, and who writes there.
#pragma once

#include <limits.h>

#include "board/process.hpp"

namespace wilkins::sets {

using RealPath = char[PATH_MAX];

// Where the step's contents lie.
void folder_of_step(const Board& board, int slot, uint64_t stamp, RealPath& out);

// Which step's a path of the run's own is; false: no step's. `rest`: what follows the folder, without a slash.
bool step_of_folder(const Board& board, const char* path, int* slot, uint64_t* stamp, const char** rest);

// The folder for notes of who writes there, and of what the program that begins the step calls it, from the root on; false with errno.
bool make_notes(const Board& board, int slot, uint64_t stamp, const char* name);

// That name; false: it is not known.
bool read_name(const Board& board, int slot, uint64_t stamp, RealPath& out);

// The process writes there from now on; it does not any more. False with errno.
bool note_writer(const Board& board, int slot, uint64_t stamp, uint32_t process);
void forget_writer(const Board& board, int slot, uint64_t stamp, uint32_t process);

// Does a living process write there?
bool has_writers(const Board& board, int slot, uint64_t stamp);

// Has this process something open in the folder: a descriptor, a mapping, its own working folder?
bool is_open_here(const char* folder);

// Bytes of all files below.
uint64_t bytes_below(const char* folder);

// Removes the folder with all in it, and its notes.
void remove(const Board& board, int slot, uint64_t stamp);

}  // namespace wilkins::sets
