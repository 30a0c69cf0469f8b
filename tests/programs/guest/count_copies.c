/* Preloaded before everything else: counts the bytes that are copied within the process and prints their number at the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stddef.h>
typedef void *copying(void *, const void *, size_t);
static copying *behind;
static unsigned long bytes;
static void *copy(void *to, const void *from, size_t count) {
    bytes += count;
    if (behind) return behind(to, from, count);
    for (size_t k = 0; k < count; ++k) ((volatile char *)to)[k] = ((const char *)from)[k];
    return to;
}
void *memcpy(void *to, const void *from, size_t count) { return copy(to, from, count); }
void *__memcpy_chk(void *to, const void *from, size_t count, size_t room) { return room < count ? NULL : copy(to, from, count); }
__attribute__((constructor)) static void start(void) { behind = (copying *)dlsym(RTLD_NEXT, "memmove"); }
__attribute__((destructor)) static void done(void) { fprintf(stderr, "copied: %lu\n", bytes); }
