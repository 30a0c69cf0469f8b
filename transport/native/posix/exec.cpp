// Other programs take this process, or are started by it: the files that this one writes are left to them, and what it
// has closed.
#include <alloca.h>
#include <unistd.h>

#include <cstdarg>
#include <cstddef>

#include "posix/files.hpp"
#include "steps/left_open.hpp"
#include "store/store.hpp"

namespace wilkins {
namespace {

// While another program is asked to take the process. Costs nothing unless this one has files open to write them, or
// has closed some that rest.
class Leaving {
public:
    Leaving() {
        posix::leave_all();
        hand_over_closed();
    }
    ~Leaving() {
        const int error = errno;
        take_back_closed();
        posix::take_back_all();
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
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, execv, const char* path, char* const* words) {
    const Leaving leaving;
    return libc::execv(path, words);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, execvp, const char* name, char* const* words) {
    const Leaving leaving;
    return libc::execvp(name, words);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, execvpe, const char* name, char* const* words, char* const* variables) {
    const Leaving leaving;
    return libc::execvpe(name, words, variables);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, fexecve, int fd, char* const* words, char* const* variables) {
    const Leaving leaving;
    return libc::fexecve(fd, words, variables);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, execveat, int dirfd, const char* path, char* const* words, char* const* variables, int flags) {
    const Leaving leaving;
    return libc::execveat(dirfd, path, words, variables, flags);
}
WILKINS_OR(-1)

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
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, execlp, const char* name, const char* first, ...) {
    WILKINS_WORDS(words, first);
    va_end(more);
    const Leaving leaving;
    return libc::execvp(name, words);
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(int, execle, const char* path, const char* first, ...) {
    WILKINS_WORDS(words, first);
    char* const* const variables = va_arg(more, char* const*);
    va_end(more);
    const Leaving leaving;
    return libc::execve(path, words, variables);
}
WILKINS_OR(-1)

// Calls that start another process without a fork that could be watched (posix/spawn.cpp has another). It may get any
// descriptor.

WILKINS_INTERPOSE(int, system, const char* command) {
    posix::hand_all_to_child();
    const int status = libc::system(command);
    left_open::settle_own();
    return status;
}
WILKINS_OR(-1)

WILKINS_INTERPOSE(FILE*, popen, const char* command, const char* mode) {
    posix::hand_all_to_child();
    return libc::popen(command, mode);
}
WILKINS_OR(nullptr)

// The address of the C library's own vfork, to which ours goes on: it must return into the caller's frame, twice.
extern "C" __attribute__((visibility("hidden"), used)) void* wilkins_before_vfork() try {
    posix::hand_all_to_child();
    return reinterpret_cast<void*>(libc::vfork.get());
}
WILKINS_OR(reinterpret_cast<void*>(libc::vfork.get()))

#if defined(__x86_64__)
__asm__(R"(
    .text
    .globl vfork
    .type vfork, @function
vfork:
    .cfi_startproc
    endbr64
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    call wilkins_before_vfork
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    jmp *%rax
    .cfi_endproc
    .size vfork, .-vfork
)");
#elif defined(__aarch64__)
__asm__(R"(
    .text
    .globl vfork
    .type vfork, %function
vfork:
    .cfi_startproc
    stp x29, x30, [sp, #-16]!
    .cfi_adjust_cfa_offset 16
    bl wilkins_before_vfork
    ldp x29, x30, [sp], #16
    .cfi_adjust_cfa_offset -16
    mov x16, x0
    br x16
    .cfi_endproc
    .size vfork, .-vfork
)");
#endif
