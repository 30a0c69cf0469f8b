// The process that serves a task's files to its ranks on other hosts: a C interface for wilkins/transport/far_files.py.
#include <cerrno>

#include "board/border.hpp"
#include "board/process.hpp"
#include "store/far_server.hpp"

using namespace wilkins;

// Serves a connection that has passed the handshake, in a thread that closes it in the end. Returns 0 or an errno, and
// the connection is the caller's still; ENODEV: the process is not part of a run.
WILKINS_API(int, wilkins_serve_far_file(int wire, Owners owners)) {
    if (!process().context.active) return ENODEV;
    serve_far_file(wire, owners);
    return 0;
}
WILKINS_OR(errno)
