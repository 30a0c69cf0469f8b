// The process that serves a task's files to its ranks on other hosts: a C interface for wilkins/transport/far_files.py.
#include <cerrno>
#include <memory>
#include <utility>

#include "base/raw.hpp"
#include "board/border.hpp"
#include "board/process.hpp"
#include "far/sealing.hpp"
#include "store/far_server.hpp"

using namespace wilkins;

// Serves a connection that has passed the handshake, and closes it in the end. `keys`: of its frames, `length` bytes;
// 0: the run does not encrypt. Returns 0 or an errno, then it is closed; ENODEV: the process is not part of a run.
WILKINS_API(int, wilkins_serve_far_file(int wire, const char* keys, int length, Owners owners)) {
    int error = process().context.active ? 0 : ENODEV;
    std::shared_ptr<far::Sealing> sealing;
    if (error == 0 && length > 0) sealing = far::Sealing::make({keys, static_cast<size_t>(length)}, &error);
    if (error == 0) return serve_far_file(wire, std::move(sealing), owners);
    raw::close(wire);
    return error;
}
WILKINS_OR(errno)
