/* Preloaded before everything else: counts the bytes that are cleared within the process and prints their number at the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
typedef void *setting(void *, int, size_t);
static setting *behind;
static unsigned long bytes;
void *memset(void *to, int byte, size_t count) {
    if (byte == 0) bytes += count;
    if (behind) return behind(to, byte, count);
    for (size_t k = 0; k < count; ++k) ((volatile char *)to)[k] = (char)byte;
    return to;
}
void *__memset_chk(void *to, int byte, size_t count, size_t room) { return room < count ? NULL : memset(to, byte, count); }
__attribute__((constructor)) static void start(void) { behind = (setting *)dlsym(RTLD_NEXT, "memset"); }
__attribute__((destructor)) static void done(void) { fprintf(stderr, "cleared: %lu\n", bytes); }
