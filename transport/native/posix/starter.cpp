// Lets a program end with the process that has started it. (The launcher cannot ask this for its child: what runs between
// fork and exec in Python takes a fork of the launcher, with its page tables, instead of a vfork.)
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>

namespace wilkins {
namespace {

constexpr const char* kStarterVariable = "WILKINS_STARTER";

__attribute__((constructor)) void end_with_starter() {
    const char* starter = getenv(kStarterVariable);
    if (starter && strtol(starter, nullptr, 10) == getppid()) prctl(PR_SET_PDEATHSIG, SIGKILL);
}

}  // namespace
}  // namespace wilkins
