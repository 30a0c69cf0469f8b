/* Preloaded before everything else: counts the calls that allocate and prints the count at the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
static unsigned long calls;
void *malloc(size_t n) { ++calls; return __libc_malloc(n); }
void *calloc(size_t a, size_t b) { ++calls; return __libc_calloc(a, b); }
void *realloc(void *p, size_t n) { ++calls; return __libc_realloc(p, n); }
__attribute__((destructor)) static void done(void) { fprintf(stderr, "allocations: %lu\n", calls); }
