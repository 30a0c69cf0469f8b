/* Preloaded before everything else: counts how often the list of loaded libraries is gone through, and prints that at the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
typedef int visiting(struct dl_phdr_info *, size_t, void *);
static unsigned long searches;
int dl_iterate_phdr(visiting *visit, void *data) {
    ++searches;
    return ((int (*)(visiting *, void *))dlsym(RTLD_NEXT, "dl_iterate_phdr"))(visit, data);
}
__attribute__((destructor)) static void done(void) { fprintf(stderr, "searches: %lu\n", searches); }
