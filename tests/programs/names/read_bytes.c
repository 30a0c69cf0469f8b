/* read_bytes WAY NAME: reads the bytes through one way of the C library and compares them. */
#include "bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    REQUIRE(argc == 3);
    const char *way = argv[1], *name = argv[2];
    unsigned char *bytes = make_bytes(), *got = calloc(2, SIZE);
    struct stat by_name, by_descriptor;
    int fd = -1;
    if (!strcmp(way, "fopen")) {
        FILE *file = fopen(name, "r");
        REQUIRE(file);
        REQUIRE(fread(got, 1, SIZE + 1, file) == SIZE);
        REQUIRE(fclose(file) == 0);
    } else {
        fd = strcmp(way, "openat2") ? open(name, O_RDONLY) : open_beneath(name, O_RDONLY, 0);
        REQUIRE(fd >= 0);
        REQUIRE(stat(name, &by_name) == 0 && fstat(fd, &by_descriptor) == 0);
        REQUIRE(by_name.st_size == SIZE && by_descriptor.st_size == SIZE);
        REQUIRE(by_name.st_ino == by_descriptor.st_ino && by_name.st_dev == by_descriptor.st_dev);
    }
    if (!strcmp(way, "read") || !strcmp(way, "openat2")) {
        ssize_t n, all = 0;
        while ((n = read(fd, got + all, 70000)) > 0) all += n;
        REQUIRE(n == 0 && all == SIZE);
    } else if (!strcmp(way, "pread")) {
        REQUIRE(pread(fd, got + 1000, SIZE, 1000) == SIZE - 1000);
        REQUIRE(pread(fd, got, 1000, 0) == 1000);
        REQUIRE(pread(fd, got, 1000, SIZE) == 0);
        REQUIRE(write(fd, got, 1) == -1 && errno == EBADF);
    } else if (!strcmp(way, "readv")) {
        struct iovec pieces[2] = {{got, 5}, {got + 5, SIZE}};
        REQUIRE(readv(fd, pieces, 2) == SIZE);
    } else if (!strcmp(way, "mmap")) {
        unsigned char *map = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
        REQUIRE(map != MAP_FAILED);
        memcpy(got, map, SIZE);
        REQUIRE(munmap(map, SIZE) == 0);
    } else if (!strcmp(way, "fdopen")) {
        FILE *file = fdopen(fd, "r");
        REQUIRE(file && fread(got, 1, SIZE, file) == SIZE && fclose(file) == 0);
        fd = -1;
    } else if (strcmp(way, "fopen")) {
        fprintf(stderr, "no such way: %s\n", way);
        return 2;
    }
    if (fd >= 0) REQUIRE(close(fd) == 0);
    errno = 0;
    REQUIRE(memcmp(bytes, got, SIZE) == 0);
    free(bytes);
    free(got);
    return 0;
}
