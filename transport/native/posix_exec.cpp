// Another program takes this process: what this one has closed is left to it, as at an end of its own.
#include <alloca.h>
#include <unistd.h>

#include <cstdarg>
#include <cstddef>

#include "posix_libc.hpp"
#include "store.hpp"

namespace wilkins {
namespace {

// While another program is asked to take the process. Costs nothing unless this one has closed files that rest.
class Leaving {
public:
    Leaving() { hand_over_resting(); }
    ~Leaving() {
        const int error = errno;
        take_back_resting();
        errno = error;
    }
    Leaving(const Leaving&) = delete;
    Leaving& operator=(const Leaving&) = delete;
};

// How many arguments there are, the null pointer that ends them among them.
size_t count(const char* first, va_list more) {
    size_t n = 1;
    for (const char* word = first; word; ++n) word = va_arg(more, const char*);
    return n;
}

void fill(char** words, const char* first, va_list more) {
    words[0] = const_cast<char*>(first);
    for (size_t k = 0; words[k]; ++k) words[k + 1] = va_arg(more, char*);
}

}  // namespace
}  // namespace wilkins

using namespace wilkins;

WILKINS_INTERPOSE(int, execve, const char* path, char* const* words, char* const* variables) {
    const Leaving leaving;
    return libc::execve(path, words, variables);
} WILKINS_OR(-1)

WILKINS_INTERPOSE(int, execv, const char* path, char* const* words) {
    const Leaving leaving;
    return libc::execv(path, words);
} WILKINS_OR(-1)

WILKINS_INTERPOSE(int, execvp, const char* name, char* const* words) {
    const Leaving leaving;
    return libc::execvp(name, words);
} WILKINS_OR(-1)

WILKINS_INTERPOSE(int, execvpe, const char* name, char* const* words, char* const* variables) {
    const Leaving leaving;
    return libc::execvpe(name, words, variables);
} WILKINS_OR(-1)

WILKINS_INTERPOSE(int, fexecve, int fd, char* const* words, char* const* variables) {
    const Leaving leaving;
    return libc::fexecve(fd, words, variables);
} WILKINS_OR(-1)

WILKINS_INTERPOSE(int, execveat, int dirfd, const char* path, char* const* words, char* const* variables, int flags) {
    const Leaving leaving;
    return libc::execveat(dirfd, path, words, variables, flags);
} WILKINS_OR(-1)

// The arguments of a call as an array, in the caller's own frame: it may share its memory with a parent (vfork).
#define WILKINS_WORDS(words, first)                                                       \
    va_list more;                                                                         \
    va_start(more, first);                                                                \
    char** const words = static_cast<char**>(alloca(count(first, more) * sizeof(char*))); \
    va_end(more);                                                                         \
    va_start(more, first);                                                                \
    fill(words, first, more)

WILKINS_INTERPOSE(int, execl, const char* path, const char* first, ...) {
    WILKINS_WORDS(words, first);
    va_end(more);
    const Leaving leaving;
    return libc::execv(path, words);
} WILKINS_OR(-1)

WILKINS_INTERPOSE(int, execlp, const char* name, const char* first, ...) {
    WILKINS_WORDS(words, first);
    va_end(more);
    const Leaving leaving;
    return libc::execvp(name, words);
} WILKINS_OR(-1)

WILKINS_INTERPOSE(int, execle, const char* path, const char* first, ...) {
    WILKINS_WORDS(words, first);
    char* const* const variables = va_arg(more, char* const*);
    va_end(more);
    const Leaving leaving;
    return libc::execve(path, words, variables);
} WILKINS_OR(-1)
