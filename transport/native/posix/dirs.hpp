// Directories as programs read them.
#pragma once

#include "posix/libc.hpp"

namespace wilkins::posix {

// opendir, fdopendir, readdir and closedir as the program means them; `caller`: who makes the call. They may throw.
DIR* open_directory(const char* path, const void* caller);
DIR* open_directory(int fd, const void* caller);
struct dirent* read_directory(DIR* directory);
int close_directory(DIR* directory);

}  // namespace wilkins::posix
