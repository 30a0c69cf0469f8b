// What a program takes over from the process that has started it: it ends with that, and what it prints is seen as it
// comes. (The launcher cannot ask this for its child: what runs between fork and exec in Python takes a fork of the
// launcher, with its page tables, instead of a vfork.)
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace wilkins {
namespace {

constexpr const char* kStarterVariable = "WILKINS_STARTER";
constexpr const char* kOutputVariable = "WILKINS_OUTPUT";  // the inode of the pipe that the launcher reads
constexpr const char* kRankVariable = "WILKINS_RANK_PID";  // the process that an mpiexec has started

unsigned long number_in(const char* variable) {
    const char* text = getenv(variable);
    return text ? strtoul(text, nullptr, 10) : 0;
}

__attribute__((constructor)) void end_with_starter() {
    const char* starter = getenv(kStarterVariable);
    if (starter && strtol(starter, nullptr, 10) == getppid()) prctl(PR_SET_PDEATHSIG, SIGKILL);
}

// The C library holds back lines that it writes to a pipe. To the launcher's they go line by line; pipes between a
// program's own processes are left alone. (A rank's process knows that itself: its mpiexec has a pipe of its own.)
__attribute__((constructor)) void print_as_it_comes() {
    struct stat st;
    if (fstat(STDOUT_FILENO, &st) != 0 || !(S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode))) return;
    const bool read_by_launcher = st.st_ino == number_in(kOutputVariable);
    if (read_by_launcher || number_in(kRankVariable) == static_cast<unsigned long>(getpid()))
        setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
}

}  // namespace
}  // namespace wilkins
