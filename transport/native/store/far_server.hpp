// The server of a task's files for its ranks on other hosts.
#pragma once

namespace wilkins {

// Serves, in a thread of its own, a file of this process's task to a rank on another host, which has shown that it
// knows the key (transport/handshake.py). Closes the connection at the end.
void serve_far_file(int wire);

}  // namespace wilkins
