// Where the contents of steps lie that are folders or several files, and who writes there.
#pragma once

#include <limits.h>

#include <functional>

#include "board/process.hpp"

namespace wilkins::sets {

using RealPath = char[PATH_MAX];

// Calls `visit` with the name of each entry, as the kernel has it. False: the folder cannot be opened.
bool each_entry(const char* folder, const std::function<void(const char*)>& visit);

// Where the step's contents lie: in the run's folder, or on the disk.
void contents_of_step(const Board& board, int slot, uint64_t stamp, RealPath& out);

// A new folder in the run's own for the contents; or they lie in that folder of the disk. False with errno.
bool make_contents(const Board& board, int slot, uint64_t stamp);
bool link_contents(const Board& board, int slot, uint64_t stamp, const char* on_disk);

// Which step's a path of the run's own is; false: no step's. `rest`: what follows the folder, without a slash.
bool step_of_folder(const Board& board, const char* path, int* slot, uint64_t* stamp, const char** rest);

// The folder for notes of who writes there, and of what the program that begins the step calls it, from the root on;
// false with errno.
bool make_notes(const Board& board, int slot, uint64_t stamp, const char* name);

// That name; false: it is not known.
bool read_name(const Board& board, int slot, uint64_t stamp, RealPath& out);

// The process writes there from now on; it does not any more. False with errno.
bool note_writer(const Board& board, int slot, uint64_t stamp, uint32_t process);
void forget_writer(const Board& board, int slot, uint64_t stamp, uint32_t process);

// True if a living process writes there.
bool has_writers(const Board& board, int slot, uint64_t stamp);

// True if this process has something of the step open: a descriptor, a mapping, its own working folder. The step is not
// to go meanwhile.
bool is_open_here(const Board& board, int slot, uint64_t stamp);

// Bytes of all files below.
uint64_t bytes_below(const char* folder);

// Removes the folder in the run's own with all in it, and its notes. What is on the disk stays.
void remove(const Board& board, int slot, uint64_t stamp);

}  // namespace wilkins::sets
