/* unmatched ROUNDS: calls of the C library on names that lead to no step. Prints how many allocations were made: by calls
   that need none, and by those that make some themselves. */
#include "bytes.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static long allocations;

void *__libc_malloc(size_t size);
void *malloc(size_t size) {
    ++allocations;
    return __libc_malloc(size);
}

static int visit(const char *path, const struct stat *st, int kind, struct FTW *place) {
    (void)st, (void)kind, (void)place;
    return path[0] == 0;
}

static int any(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static void use_file(void) {
    char buffer[64] = "some bytes";
    struct stat st;
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

/* Those that move bytes past read and write. */
static void use_otherwise(void) {
    char buffer[64] = "some bytes";
    const struct iovec piece = {buffer, 10};
    int ends[2], from = open("from.dat", O_RDWR | O_CREAT | O_TRUNC, 0600), to = open("to.dat", O_RDWR | O_CREAT | O_TRUNC, 0600);
    off_t at = 0, place = 0;
    REQUIRE(from >= 0 && to >= 0 && writev(from, &piece, 1) == 10 && pwritev(from, &piece, 1, 10) == 10);
    REQUIRE(preadv(from, &piece, 1, 0) == 10 && lseek(from, 0, SEEK_SET) == 0 && readv(from, &piece, 1) == 10);
    REQUIRE(sendfile(to, from, &at, 5) == 5 && copy_file_range(from, &place, to, NULL, 5, 0) == 5);
    REQUIRE(pipe(ends) == 0 && splice(from, NULL, ends[1], NULL, 5, 0) == 5 && splice(ends[0], NULL, to, NULL, 5, 0) == 5);
    REQUIRE(posix_fallocate(to, 0, 4096) == 0 && futimens(to, NULL) == 0 && fsync(to) == 0 && fdatasync(to) == 0);
    void *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, to, 0);
    REQUIRE(map != MAP_FAILED && munmap(map, 4096) == 0);
    REQUIRE(close(ends[0]) == 0 && close(ends[1]) == 0 && close(from) == 0 && close(to) == 0);
    REQUIRE(unlink("from.dat") == 0 && unlink("to.dat") == 0);
}

/* Those that allocate by themselves. */
static void use_folder(void) {
    struct stat st;
    struct dirent **names;
    glob_t found;
    int fd = open("folder", O_RDONLY | O_DIRECTORY), n;
    REQUIRE(fd >= 0 && fstatat(fd, "in.dat", &st, 0) == 0 && fchdir(fd) == 0 && chdir("..") == 0 && close(fd) == 0);
    REQUIRE((fd = open("folder/in.dat", O_WRONLY)) >= 0 && dprintf(fd, "%d", 7) == 1 && close(fd) == 0);
    DIR *folder = opendir("folder");
    REQUIRE(folder && readdir(folder));
    const long at = telldir(folder);
    while (readdir(folder)) continue;
    seekdir(folder, at);
    rewinddir(folder);
    REQUIRE(closedir(folder) == 0 && glob("folder/*.dat", 0, NULL, &found) == 0 && found.gl_pathc == 1);
    globfree(&found);
    REQUIRE(nftw("folder", visit, 4, FTW_PHYS) == 0 && (n = scandir("folder", &names, any, alphasort)) == 1);
    while (n-- > 0) free(names[n]);
    free(names);
}

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    const int rounds = atoi(argv[1]);
    REQUIRE(access("absent.dat", F_OK) == -1); /* the first call of all joins the run */
    REQUIRE((mkdir("folder", 0700) == 0 || errno == EEXIST) && close(creat("folder/in.dat", 0600)) == 0);
    allocations = 0;
    for (int i = 0; i < rounds; ++i) {
        use_file();
        use_otherwise();
    }
    printf("%ld", allocations);
    allocations = 0;
    for (int i = 0; i < rounds; ++i) use_folder();
    printf(" %ld\n", allocations);
    return 0;
}
