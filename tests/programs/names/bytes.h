/* What the programs of this folder write and expect: bytes that depend on their place, with a hole in the middle. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SIZE = 300001, HOLE_BEGIN = 90000, HOLE_END = 170000 };

#define REQUIRE(what)                                                                             \
    do {                                                                                          \
        if (!(what)) {                                                                            \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #what, strerror(errno));        \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

static unsigned char *make_bytes(void) {
    unsigned char *bytes = (unsigned char *)malloc(SIZE);
    for (int i = 0; i < SIZE; ++i) bytes[i] = i >= HOLE_BEGIN && i < HOLE_END ? 0 : (unsigned char)(i * 31 + i / 251);
    return bytes;
}

/* By openat2, not above this folder; a C library before 2.43 has no function for it. */
static inline int open_beneath(const char *name, int flags, uint64_t mode) {
    struct {
        uint64_t flags, mode, resolve;
    } how = {(uint64_t)flags, mode, 0x08 /* RESOLVE_BENEATH */};
    return (int)syscall(437, AT_FDCWD, name, &how, sizeof(how));
}
