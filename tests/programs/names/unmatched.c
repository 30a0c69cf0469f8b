/* unmatched ROUNDS: calls of the C library on names that lead to no step. Prints how many allocations they made. */
#include "bytes.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static long allocations;

void *__libc_malloc(size_t size);
void *malloc(size_t size) {
    ++allocations;
    return __libc_malloc(size);
}

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    const int rounds = atoi(argv[1]);
    char buffer[64] = "some bytes";
    struct stat st;
    REQUIRE(access("absent.dat", F_OK) == -1); /* the first call of all joins the run */
    allocations = 0;
    for (int i = 0; i < rounds; ++i) {
        int fd = open("plain.dat", O_RDWR | O_CREAT | O_TRUNC, 0600);
        REQUIRE(fd >= 0 && write(fd, buffer, 10) == 10 && pwrite(fd, buffer, 10, 20) == 10);
        REQUIRE(lseek(fd, 0, SEEK_SET) == 0 && read(fd, buffer, 10) == 10 && pread(fd, buffer, 5, 0) == 5);
        REQUIRE(fstat(fd, &st) == 0 && st.st_size == 30 && ftruncate(fd, 10) == 0);
        int copy = dup(fd);
        REQUIRE(copy >= 0 && fcntl(copy, F_GETFD) == 0 && close(copy) == 0 && close(fd) == 0);
        REQUIRE(stat("plain.dat", &st) == 0 && st.st_size == 10 && access("plain.dat", R_OK) == 0);
        REQUIRE(open("absent.dat", O_RDONLY) == -1 && errno == ENOENT);
        REQUIRE(rename("plain.dat", "renamed.dat") == 0 && unlink("renamed.dat") == 0);
    }
    printf("%ld\n", allocations);
    return 0;
}
