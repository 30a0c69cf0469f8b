// What programs of habits in C begin with: the content of steps, and telling what was read.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define N 6

static char content[8192];
static size_t length;  // of content

// Fills `content` with step k: the numbers from k to k + 999, one a line.
static inline void make(int k) {
    length = 0;
    for (int number = k; number < k + 1000; number++) length += (size_t)sprintf(content + length, "%d\n", number);
}

static inline char* name_of(int k) {
    static char name[64];
    sprintf(name, "plt%04d.dat", k);
    return name;
}

static inline unsigned crc_of(unsigned crc, unsigned char byte) {
    crc ^= (unsigned)byte << 24;
    for (int bit = 0; bit < 8; bit++) crc = crc << 1 ^ (crc & 0x80000000u ? 0x04C11DB7u : 0);
    return crc;
}

// Tells what was read under a name: the sum that `cksum` prints.
static inline void show(const char* name, const void* data, size_t size) {
    unsigned crc = 0;
    for (size_t place = 0; place < size; place++) crc = crc_of(crc, ((const unsigned char*)data)[place]);
    for (size_t rest = size; rest; rest >>= 8) crc = crc_of(crc, rest & 0xFF);
    printf("= %s %u %zu\n", name, ~crc, size);
    fflush(stdout);
}

static inline void must(int works, const char* what) {
    if (works) return;
    perror(what);
    exit(1);
}
