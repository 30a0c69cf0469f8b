// The process that serves a task's files to its ranks on other hosts: a C interface for wilkins/transport/far_files.py.
#include <cerrno>
#include <string>

#include "board/border.hpp"
#include "board/process.hpp"
#include "far/far_file.hpp"
#include "store/far_server.hpp"

using namespace wilkins;

// Serves connections of a listening socket, to those who begin with the key. Returns -errno when there can be no more of them;
// -ENODEV: the process is not part of a run.
WILKINS_API(int, wilkins_serve_files(int listener, const char* key, int length)) {
    if (!process().context.active) return -ENODEV;
    return -serve_files(listener, std::string(key, static_cast<size_t>(length)));
} WILKINS_OR(-errno)
