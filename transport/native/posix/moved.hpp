// Files of the disk that get an out-port's name by a system call of the program's own, past the C library, as Rust's
// tempfile renames (safetensors, tokenizers): their close finds out.
#pragma once

#include <fcntl.h>

namespace wilkins::posix::moved {

// A file was opened: one that is made exclusively may be renamed when it is written.
void note_opened(int fd, int flags);

// Before a descriptor is closed: if its file is called like an out-port's by now, it is published. Returns 0 or an
// errno. For all descriptors but those of such files, it costs a comparison.
int publish(int fd, const void* caller);

}  // namespace wilkins::posix::moved
