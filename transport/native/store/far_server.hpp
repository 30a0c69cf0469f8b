// The server of a task's files for its ranks on other hosts.
#pragma once

#include <string>

namespace wilkins {

// Serves the files of this process's task, which has to be part of a run, to ranks on other hosts that know the key. Returns an errno
// when nobody can connect any more.
int serve_files(int listener, const std::string& key);

}  // namespace wilkins
