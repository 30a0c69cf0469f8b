// syscall: calls of the kernel by their number that open, close or look, as libuv makes them, are those of the C
// library's functions. All others go on as they came.
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "base/resolve.hpp"
#include "posix/files.hpp"
#include "steps/left_open.hpp"

extern "C" int close_range(unsigned, unsigned, int) noexcept;  // headers of glibc before 2.34 do not have it

namespace wilkins::posix {
namespace {

constexpr int kNumbers = 512;  // as in the assembly below; calls above are later than any of ours

constexpr long kOurs[] = {
#ifdef SYS_open
    SYS_open,       SYS_creat,     SYS_stat,       SYS_lstat,           SYS_access,    SYS_unlink,
    SYS_rename,     SYS_dup2,
#endif
    SYS_openat,     kOpenat2,      SYS_close,      SYS_close_range,     SYS_dup,       SYS_dup3,
    SYS_fcntl,      SYS_fsync,     SYS_fdatasync,  SYS_copy_file_range, SYS_sendfile,
#ifdef SYS_newfstatat
    SYS_newfstatat, SYS_fstat,
#endif
#ifdef SYS_renameat
    SYS_renameat,
#endif
    SYS_statx,      SYS_faccessat, SYS_faccessat2, SYS_unlinkat,        SYS_renameat2, SYS_execve,
    SYS_execveat,   SYS_wait4,     SYS_waitid,     SYS_exit_group,
};

constexpr std::array<unsigned char, kNumbers> mark_ours() {
    std::array<unsigned char, kNumbers> marks{};
    for (const long number : kOurs) marks[static_cast<size_t>(number)] = 1;
    return marks;
}

template <class T>
T pointer(long word) {
    return reinterpret_cast<T>(word);
}

int as_int(long word) { return static_cast<int>(word); }

}  // namespace

// For the assembly below, which reads both before it calls anything.
extern "C" {
__attribute__((visibility("hidden"))) extern const std::array<unsigned char, kNumbers> wilkins_our_syscalls;
__attribute__((used)) constexpr std::array<unsigned char, kNumbers> wilkins_our_syscalls = mark_ours();
__attribute__((visibility("hidden"), used)) std::atomic<long (*)(long, ...)> wilkins_kernel{nullptr};
}
static_assert(std::atomic<long (*)(long, ...)>::is_always_lock_free && sizeof(wilkins_kernel) == sizeof(void*));

namespace {

__attribute__((constructor(102))) void find_kernel() { wilkins_kernel = libc::syscall.get(); }

// `caller`: whose call it is; `path` and kin: its arguments in order.
long call_by_number(long number, long a, long b, long c, long d, long e, long f, const void* caller) {
    switch (number) {
#ifdef SYS_open
        case SYS_open: return open_name(AT_FDCWD, pointer<const char*>(a), as_int(b), static_cast<mode_t>(c), caller);
        case SYS_creat:
            return open_name(AT_FDCWD, pointer<const char*>(a), O_WRONLY | O_CREAT | O_TRUNC, static_cast<mode_t>(b),
                             caller);
        case SYS_stat: return stat_at(AT_FDCWD, pointer<const char*>(a), pointer<struct stat*>(b), 0, caller);
        case SYS_lstat:
            return stat_at(AT_FDCWD, pointer<const char*>(a), pointer<struct stat*>(b), AT_SYMLINK_NOFOLLOW, caller);
        case SYS_access: return access_at(AT_FDCWD, pointer<const char*>(a), as_int(b), 0, caller);
        case SYS_unlink: return unlink_at(AT_FDCWD, pointer<const char*>(a), 0, caller);
        case SYS_rename:
            return rename_at(AT_FDCWD, pointer<const char*>(a), AT_FDCWD, pointer<const char*>(b), 0, caller);
        case SYS_dup2: return dup2(as_int(a), as_int(b));
#endif
        case SYS_openat:
            return open_name(as_int(a), pointer<const char*>(b), as_int(c), static_cast<mode_t>(d), caller);
        case kOpenat2:
            return open_restricted(as_int(a), pointer<const char*>(b), pointer<const OpenHow*>(c),
                                   static_cast<size_t>(d), caller);
        case SYS_close: return close(as_int(a));
        case SYS_close_range: return close_range(static_cast<unsigned>(a), static_cast<unsigned>(b), as_int(c));
        case SYS_dup: return dup(as_int(a));
        case SYS_dup3: return dup3(as_int(a), as_int(b), as_int(c));
        case SYS_fcntl: return fcntl(as_int(a), as_int(b), pointer<void*>(c));
        case SYS_fsync: return fsync(as_int(a));
        case SYS_fdatasync: return fdatasync(as_int(a));
        case SYS_copy_file_range:
            return copy_file_range(as_int(a), pointer<off_t*>(b), as_int(c), pointer<off_t*>(d), static_cast<size_t>(e),
                                   static_cast<unsigned>(f));
        case SYS_sendfile: return sendfile(as_int(a), as_int(b), pointer<off_t*>(c), static_cast<size_t>(d));
#ifdef SYS_newfstatat
        case SYS_newfstatat:
            return stat_at(as_int(a), pointer<const char*>(b), pointer<struct stat*>(c), as_int(d), caller);
        case SYS_fstat: return fstat(as_int(a), pointer<struct stat*>(b));
#endif
#ifdef SYS_renameat
        case SYS_renameat:
            return rename_at(as_int(a), pointer<const char*>(b), as_int(c), pointer<const char*>(d), 0, caller);
#endif
        case SYS_statx:
            return statx_at(as_int(a), pointer<const char*>(b), as_int(c), static_cast<unsigned>(d),
                            pointer<struct statx*>(e), caller);
        case SYS_faccessat: return access_at(as_int(a), pointer<const char*>(b), as_int(c), 0, caller);
        case SYS_faccessat2: return access_at(as_int(a), pointer<const char*>(b), as_int(c), as_int(d), caller);
        case SYS_unlinkat: return unlink_at(as_int(a), pointer<const char*>(b), as_int(c), caller);
        case SYS_renameat2:
            return rename_at(as_int(a), pointer<const char*>(b), as_int(c), pointer<const char*>(d),
                             static_cast<unsigned>(e), caller);
        case SYS_execve: return execve(pointer<const char*>(a), pointer<char* const*>(b), pointer<char* const*>(c));
        case SYS_execveat:
            return execveat(as_int(a), pointer<const char*>(b), pointer<char* const*>(c), pointer<char* const*>(d),
                            as_int(e));
        case SYS_exit_group: _exit(as_int(a));
        default: break;
    }
    const long result = libc::syscall(number, a, b, c, d, e, f);
    if (number == SYS_wait4 ? result > 0 : result == 0) left_open::settle_own();
    return result;
}

}  // namespace

// Jumped to from `syscall`, so that the return address is its caller's.
extern "C" __attribute__((visibility("hidden"), used)) long wilkins_syscall(long number, long a, long b, long c, long d,
                                                                            long e, long f) try {
    const bool ours = number >= 0 && number < kNumbers && wilkins_our_syscalls[static_cast<size_t>(number)] &&
                      !is_ours(WILKINS_CALLER);
    return ours ? call_by_number(number, a, b, c, d, e, f, WILKINS_CALLER) : libc::syscall(number, a, b, c, d, e, f);
}
WILKINS_OR(-1)

}  // namespace wilkins::posix

// A number that is none of ours costs two comparisons, and goes on with all registers as they are but those that any
// call may change.
#if defined(__x86_64__)
__asm__(R"(
    .text
    .globl syscall
    .type syscall, @function
syscall:
    .cfi_startproc
    endbr64
    cmpq $512, %rdi
    jae 1f
    leaq wilkins_our_syscalls(%rip), %rax
    cmpb $0, (%rax, %rdi)
    jne 2f
1:  movq wilkins_kernel(%rip), %rax
    testq %rax, %rax
    je 2f
    jmp *%rax
2:  jmp wilkins_syscall
    .cfi_endproc
    .size syscall, .-syscall
)");
#elif defined(__aarch64__)
__asm__(R"(
    .text
    .globl syscall
    .type syscall, %function
syscall:
    .cfi_startproc
    cmp x0, #512
    b.hs 1f
    adrp x16, wilkins_our_syscalls
    add x16, x16, :lo12:wilkins_our_syscalls
    ldrb w16, [x16, x0]
    cbnz w16, 2f
1:  adrp x16, wilkins_kernel
    ldr x16, [x16, :lo12:wilkins_kernel]
    cbz x16, 2f
    br x16
2:  b wilkins_syscall
    .cfi_endproc
    .size syscall, .-syscall
)");
#endif
