// Between files of the disk and steps: what renames and links of one to the other make.
#pragma once

#include "posix/names.hpp"

namespace wilkins::posix {

// All return 0 or an errno. `intent`: create, or create_exclusive, which fails where the name is taken.

// The first `size` bytes of a file become the step's.
int fill_from(StepFile* step, int fd, uint64_t size);

// A finished file of the disk becomes a step of the name; the file stays.
int publish_file(int dirfd, const char* path, const Match& name, Intent intent);

// A step becomes a step of another name, too. One of an in-port counts as read.
int publish_step(const Match& step, const Match& name, Intent intent);

// A step becomes a file of the disk; `flags`: O_TRUNC, or O_EXCL. One of an in-port counts as read.
int save_step(const Match& step, int dirfd, const char* path, int flags);

}  // namespace wilkins::posix
