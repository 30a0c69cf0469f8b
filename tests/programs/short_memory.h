/* Lets allocations of the layer fail, one at a time. The program's own malloc stands before the C library's, and knows by the
 * address that it returns to who asks. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#define NOTHING_THROWN noexcept
#else
#define NOTHING_THROWN
#endif

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *place, size_t size);

static __thread long left = -1; /* allocations of the layer in this thread until one fails; below 0: all succeed */

static int is_to_fail(const void *caller) {
    Dl_info asks;
    if (left < 0 || !dladdr(caller, &asks) || !strstr(asks.dli_fname, "libwilkins")) return 0;
    if (left-- > 0) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size) NOTHING_THROWN { return is_to_fail(__builtin_return_address(0)) ? NULL : __libc_malloc(size); }

void *calloc(size_t count, size_t size) NOTHING_THROWN {
    return is_to_fail(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *place, size_t size) NOTHING_THROWN {
    return is_to_fail(__builtin_return_address(0)) ? NULL : __libc_realloc(place, size);
}

#ifdef __cplusplus
}
#endif

/* The next statements are carried out with the n-th allocation of the layer failing. */
static inline void fail_at(long n) { left = n; }

/* All succeed again. True if none has failed, because there were no more. */
static inline int none_failed(void) {
    const int none = left >= 0;
    left = -1;
    return none;
}
