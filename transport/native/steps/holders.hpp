// Which processes have a file open: a fork that waits for work, as the worker of a pool, holds no file of the process
// that forked it.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>

namespace wilkins::holders {

// Are all that have the file open for writing, or mapped, forks of a program that wait without an end of their own?
// False where that cannot be known. `turns`: a number that is another one as soon as one of these has done anything. To
// be asked only where somebody has the file open: it looks at every process.
bool all_wait(const struct stat& file, uint64_t* turns);

// A process that has the file open, in words for people.
void name_one(const struct stat& file, char* out, size_t room);

}  // namespace wilkins::holders
