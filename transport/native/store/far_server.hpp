// The server of a task's files for its ranks on other hosts.
#pragma once

#include <cstdint>
#include <memory>

#include "board/step_token.hpp"
#include "far/sealing.hpp"

namespace wilkins {

// Says whose the bytes of these ranges of an HDF5 file are, of which there are those of `here`. The words, and a zero
// byte, fit into `room`.
using Owners = void (*)(const unsigned char* file, uint64_t size, const ByteRange* here, uint64_t here_count,
                        const ByteRange* ranges, uint64_t count, char* words, uint64_t room);

// Serves files of this process's task, from now on, to a rank on another host that has shown that it knows the key
// (transport/handshake.py). Closes the connection at the end. `sealing`: nullptr where the run does not encrypt.
// `owners` may be nullptr. Returns 0 or an errno; then the connection is closed.
int serve_far_file(int wire, std::shared_ptr<far::Sealing> sealing, Owners owners);

}  // namespace wilkins
