/* write_bytes WAY NAME: writes the bytes through one way of the C library, each as real programs use it. */
#include "bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void write_with_hole(int fd, const unsigned char *bytes) {
    REQUIRE(write(fd, bytes, HOLE_BEGIN) == HOLE_BEGIN);
    REQUIRE(lseek(fd, HOLE_END - HOLE_BEGIN, SEEK_CUR) == HOLE_END);
    REQUIRE(write(fd, bytes + HOLE_END, SIZE - HOLE_END) == SIZE - HOLE_END);
}

static void check_size(int fd) {
    struct stat st;
    REQUIRE(fstat(fd, &st) == 0);
    REQUIRE(st.st_size == SIZE);
}

int main(int argc, char **argv) {
    REQUIRE(argc == 3);
    const char *way = argv[1], *name = argv[2];
    unsigned char *bytes = make_bytes();
    struct iovec pieces[2] = {{bytes, 1000}, {bytes + 1000, SIZE - 1000}};
    const int create = O_RDWR | O_CREAT | O_TRUNC;
    if (!strcmp(way, "write")) {
        int fd = open(name, create, 0600);
        REQUIRE(fd >= 0);
        write_with_hole(fd, bytes);
        check_size(fd);
        REQUIRE(lseek(fd, 0, SEEK_END) == SIZE);
        unsigned char back[100];
        REQUIRE(pread(fd, back, 100, 5000) == 100 && memcmp(back, bytes + 5000, 100) == 0);
        REQUIRE(close(fd) == 0);
    } else if (!strcmp(way, "openat2")) {
        int fd = open_beneath(name, create, 0600);
        write_with_hole(fd, bytes);
        REQUIRE(close(fd) == 0);
    } else if (!strcmp(way, "pwrite")) { /* out of order, longer first, then cut */
        int fd = creat(name, 0600);
        REQUIRE(fd >= 0);
        REQUIRE(ftruncate(fd, 2 * SIZE) == 0);
        REQUIRE(pwrite(fd, bytes + HOLE_END, SIZE - HOLE_END, HOLE_END) == SIZE - HOLE_END);
        REQUIRE(pwrite(fd, bytes, HOLE_BEGIN, 0) == HOLE_BEGIN);
        REQUIRE(ftruncate(fd, SIZE) == 0);
        check_size(fd);
        REQUIRE(close(fd) == 0);
    } else if (!strcmp(way, "append")) {
        int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
        REQUIRE(fd >= 0);
        for (int at = 0; at < SIZE; at += 50000) {
            const int count = SIZE - at < 50000 ? SIZE - at : 50000;
            REQUIRE(lseek(fd, 0, SEEK_SET) == 0);
            REQUIRE(write(fd, bytes + at, count) == count);
        }
        REQUIRE(close(fd) == 0);
    } else if (!strcmp(way, "fopen")) {
        FILE *file = fopen(name, "wb");
        REQUIRE(file);
        REQUIRE(fwrite(bytes, 1, HOLE_BEGIN, file) == HOLE_BEGIN);
        REQUIRE(fseek(file, HOLE_END, SEEK_SET) == 0);
        REQUIRE(fwrite(bytes + HOLE_END, 1, SIZE - HOLE_END, file) == SIZE - HOLE_END);
        REQUIRE(fclose(file) == 0);
    } else if (!strcmp(way, "fdopen")) { /* some bytes before the stream, the rest through it */
        int fd = open(name, create, 0600);
        REQUIRE(write(fd, bytes, 10) == 10);
        FILE *file = fdopen(fd, "w");
        REQUIRE(file);
        REQUIRE(fwrite(bytes + 10, 1, SIZE - 10, file) == SIZE - 10);
        REQUIRE(fclose(file) == 0);
    } else if (!strcmp(way, "writev")) {
        int fd = open(name, create, 0600);
        REQUIRE(writev(fd, pieces, 2) == SIZE);
        REQUIRE(close(fd) == 0);
    } else if (!strcmp(way, "mmap")) {
        int fd = open(name, create, 0600);
        REQUIRE(ftruncate(fd, SIZE) == 0);
        unsigned char *map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        REQUIRE(map != MAP_FAILED);
        memcpy(map, bytes, SIZE);
        REQUIRE(munmap(map, SIZE) == 0);
        REQUIRE(close(fd) == 0);
    } else if (!strcmp(way, "dup")) { /* only the last close is one */
        int fd = open(name, create, 0600);
        int copy = dup(fd), other = fcntl(fd, F_DUPFD_CLOEXEC, 50);
        REQUIRE(copy >= 0 && other >= 50);
        REQUIRE(close(fd) == 0);
        REQUIRE(write(copy, bytes, 1000) == 1000);
        REQUIRE(close(copy) == 0);
        REQUIRE(write(other, bytes + 1000, SIZE - 1000) == SIZE - 1000);
        REQUIRE(close(other) == 0);
    } else if (!strcmp(way, "exit")) { /* ends without closing */
        int fd = open(name, create, 0600);
        write_with_hole(fd, bytes);
        exit(0);
    } else if (!strcmp(way, "fork")) { /* a child that closes its copy, or ends, closes nothing of the parent's */
        int fd = open(name, create, 0600);
        REQUIRE(write(fd, bytes, 1000) == 1000);
        pid_t child = fork();
        if (child == 0) {
            close(fd);
            exit(0);
        }
        REQUIRE(waitpid(child, NULL, 0) == child);
        REQUIRE(write(fd, bytes + 1000, SIZE - 1000) == SIZE - 1000);
        REQUIRE(close(fd) == 0);
    } else if (!strcmp(way, "rename")) { /* write, then rename: the name appears whole */
        char draft[300];
        snprintf(draft, sizeof(draft), "%s.draft", name);
        FILE *file = fopen(draft, "w");
        REQUIRE(file && fwrite(bytes, 1, SIZE, file) == SIZE && fclose(file) == 0);
        REQUIRE(rename(draft, name) == 0);
        REQUIRE(access(draft, F_OK) != 0 && errno == ENOENT);
    } else {
        fprintf(stderr, "no such way: %s\n", way);
        return 2;
    }
    free(bytes);
    return 0;
}
