/* Preloaded: a file system that stops answering. The call that STALL names (rename, stat, lstat, unlink), on a file of the name
   STALL_AT (or of one that begins so, if it ends with a star), makes the file "stalled" and returns no sooner than there is one called
   "answers". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void stall(const char* call, const char* path) {
    const char *which = getenv("STALL"), *where = getenv("STALL_AT");
    const char* name = strrchr(path, '/');
    if (!which || strcmp(which, call) != 0) return;
    const size_t length = strlen(where), some = length && where[length - 1] == '*' ? length - 1 : length + 1;
    if (strncmp(where, name ? name + 1 : path, some) != 0) return;
    syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, "stalled", O_WRONLY | O_CREAT, 0600));
    while (syscall(SYS_faccessat, AT_FDCWD, "answers", F_OK) != 0) usleep(10000);
}

int rename(const char* from, const char* to) {
    stall("rename", from);
    return ((int (*)(const char*, const char*))dlsym(RTLD_NEXT, "rename"))(from, to);
}

int stat(const char* restrict path, struct stat* restrict st) {
    stall("stat", path);
    return ((int (*)(const char*, struct stat*))dlsym(RTLD_NEXT, "stat"))(path, st);
}

int lstat(const char* restrict path, struct stat* restrict st) {
    stall("lstat", path);
    return ((int (*)(const char*, struct stat*))dlsym(RTLD_NEXT, "lstat"))(path, st);
}

int unlink(const char* path) {
    stall("unlink", path);
    return ((int (*)(const char*))dlsym(RTLD_NEXT, "unlink"))(path);
}
