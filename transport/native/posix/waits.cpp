// A program learns that a process of its own has ended: by then the files that this one has left open are settled.
#include "posix/libc.hpp"
#include "steps/left_open.hpp"

using namespace wilkins;

namespace {

// `ended`: what the call answers where a process has.
template <class Result>
Result settled(Result result, bool ended) {
    if (ended) left_open::settle_own();
    return result;
}

pid_t settled(pid_t child) { return settled(child, child > 0); }

}  // namespace

WILKINS_INTERPOSE(pid_t, wait, int* status) { return settled(libc::wait(status)); }
WILKINS_OR(-1)

WILKINS_INTERPOSE(pid_t, waitpid, pid_t child, int* status, int options) {
    return settled(libc::waitpid(child, status, options));
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(pid_t, wait3, int* status, int options, struct rusage* usage) {
    return settled(libc::wait3(status, options, usage));
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(pid_t, wait4, pid_t child, int* status, int options, struct rusage* usage) {
    return settled(libc::wait4(child, status, options, usage));
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, waitid, idtype_t kind, id_t which, siginfo_t* info, int options) {
    const int result = libc::waitid(kind, which, info, options);
    return settled(result, result == 0);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, pclose, FILE* stream) { return settled(libc::pclose(stream), true); }
WILKINS_OR(-1)
