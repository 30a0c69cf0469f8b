/* Makes the C library's calls on files of one name pattern, and says of each that goes well whether it has changed errno or the signal mask.
 *
 *     calls write|read PATTERN    PATTERN holds %d */
#define _GNU_SOURCE
#include <aio.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

enum { UNTOUCHED = 777 };

static sigset_t before;
static long long result;
static const char* pattern;

static void begin(void)
{
    memset(&before, 0, sizeof before);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    errno = UNTOUCHED;
}

static long long end(const char* what, int well)
{
    int now = errno;
    sigset_t mask;
    memset(&mask, 0, sizeof mask);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    printf("%s: %s", what, well ? "well" : "fails");
    if (well && now != UNTOUCHED) printf(", errno %d", now);
    if (memcmp(&mask, &before, sizeof mask) != 0) printf(", signal mask");
    printf("\n");
    return result;
}

#define CALL(function, ...) (begin(), result = (long long)function(__VA_ARGS__), end(#function, result >= 0))
#define POINTER(function, ...) (void*)(begin(), result = (long long)function(__VA_ARGS__), end(#function, result && result != -1))
#define NUMBER(function, ...) (begin(), result = function(__VA_ARGS__), end(#function, result == 0))

static const char* name(int k)
{
    static char names[8][64];
    static int next;
    char* at = names[next++ % 8];
    snprintf(at, 64, pattern, k);
    return at;
}

static int visit(const char* path, const struct stat* st, int flag) { return (void)path, (void)st, (void)flag, 0; }
static int visit_more(const char* path, const struct stat* st, int flag, struct FTW* at) { return (void)at, visit(path, st, flag); }
static int print(int fd, const char* format, ...)
{
    va_list words;
    va_start(words, format);
    int n = vdprintf(fd, format, words);
    va_end(words);
    return n;
}

static char page[8192];
static struct iovec part = {page, sizeof page};
static const char large[8192] = "large";

static void look(int k)
{
    struct stat st;
    struct statx more;
    char text[64];
    CALL(stat, name(k), &st);
    CALL(lstat, name(k), &st);
    CALL(fstatat, AT_FDCWD, name(k), &st, 0);
    CALL(statx, AT_FDCWD, name(k), 0, STATX_BASIC_STATS, &more);
    CALL(access, name(k), R_OK);
    CALL(eaccess, name(k), R_OK);
    CALL(faccessat, AT_FDCWD, name(k), R_OK, 0);
    free(POINTER(realpath, name(k), NULL));
    CALL(getxattr, name(k), "user.none", text, sizeof text);
    CALL(lgetxattr, name(k), "user.none", text, sizeof text);
    CALL(listxattr, name(k), text, sizeof text);
    CALL(llistxattr, name(k), text, sizeof text);
    struct statfs system;
    struct statvfs volume;
    CALL(statfs, name(k), &system);
    CALL(statvfs, name(k), &volume);
    CALL(readlink, name(k), text, sizeof text);
    CALL(readlinkat, AT_FDCWD, name(k), text, sizeof text);
}

static void list(void)
{
    struct dirent** found;
    glob_t all;
    DIR* folder = POINTER(opendir, ".");
    POINTER(readdir, folder);
    long at = (long)CALL(telldir, folder);
    begin(), seekdir(folder, at), result = 0, end("seekdir", 1);
    begin(), rewinddir(folder), result = 0, end("rewinddir", 1);
    CALL(closedir, folder);
    int fd = open(".", O_RDONLY | O_DIRECTORY);
    folder = POINTER(fdopendir, fd);
    struct dirent entry, *one;
    NUMBER(readdir_r, folder, &entry, &one);
    closedir(folder);
    CALL(scandir, ".", &found, NULL, alphasort);
    fd = open(".", O_RDONLY | O_DIRECTORY);
    CALL(scandirat, fd, ".", &found, NULL, alphasort);
    close(fd);
    NUMBER(glob, "*.dat", 0, NULL, &all);
    CALL(ftw, ".", visit, 8);
    CALL(nftw, ".", visit_more, 8, 0);
}

/* Of memory that shows a file. */
static void send_by(const void* bytes)
{
    int ends[2], pipes[2];
    struct iovec piece = {(void*)bytes, 64};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &piece, .msg_iovlen = 1}};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || pipe(pipes)) exit(1);
    CALL(send, ends[0], bytes, 64, 0);
    CALL(sendto, ends[0], bytes, 64, 0, NULL, 0);
    CALL(sendmsg, ends[0], &message.msg_hdr, 0);
    CALL(sendmmsg, ends[0], &message, 1, 0);
    CALL(vmsplice, pipes[1], &piece, 1, 0);
    for (int k = 0; k < 2; ++k) close(ends[k]), close(pipes[k]);
}

static pid_t start(void)
{
    char* words[] = {"true", NULL};
    pid_t child;
    if (posix_spawnp(&child, "true", NULL, NULL, words, environ)) exit(1);
    return child;
}

static void wait_for_children(void)
{
    siginfo_t how;
    pid_t child = start();
    CALL(wait, NULL);
    child = start();
    CALL(waitpid, child, NULL, 0);
    child = start();
    CALL(wait3, NULL, 0, NULL);
    child = start();
    CALL(wait4, child, NULL, 0, NULL);
    child = start();
    CALL(waitid, P_PID, child, &how, WEXITED);
    CALL(waitpid, -1, NULL, 0); /* there is none */
}

static void read_by(int fd)
{
    CALL(read, fd, page, 4096);
    CALL(pread, fd, page, 4096, 0);
    CALL(lseek, fd, 0, SEEK_SET);
    CALL(readv, fd, &part, 1);
    CALL(preadv, fd, &part, 1, 0);
    CALL(preadv2, fd, &part, 1, 0, 0);
    struct stat st;
    CALL(fstat, fd, &st);
    void* bytes = POINTER(mmap, NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    send_by(bytes);
    CALL(munmap, bytes, 4096);
    struct aiocb block = {.aio_fildes = fd, .aio_buf = page, .aio_nbytes = 4096}, *blocks[] = {&block};
    CALL(aio_read, &block);
    aio_suspend((const struct aiocb* const*)blocks, 1, NULL);
    block.aio_lio_opcode = LIO_READ;
    CALL(lio_listio, LIO_WAIT, blocks, 1, NULL);
    int copy = (int)CALL(dup, fd);
    CALL(dup2, fd, copy);
    CALL(dup3, fd, copy, O_CLOEXEC);
    CALL(fcntl, fd, F_GETFL);
    CALL(close, copy);
    int pipes[2], out = open("copied.tmp", O_RDWR | O_CREAT | O_TRUNC, 0600);
    off_t at = 0;
    if (pipe(pipes)) exit(1);
    CALL(splice, fd, &at, pipes[1], NULL, 4096, 0);
    at = 0;
    CALL(sendfile, out, fd, &at, 4096);
    at = 0;
    CALL(copy_file_range, fd, &at, out, NULL, 4096, 0);
    close(out);
    close(pipes[0]);
    close(pipes[1]);
}

static void write_by(int fd)
{
    CALL(write, fd, large, sizeof large);
    CALL(write, fd, large, 10);
    CALL(pwrite, fd, large, sizeof large, 0);
    CALL(fsync, fd);
    CALL(fdatasync, fd);
    CALL(writev, fd, &part, 1);
    CALL(pwritev, fd, &part, 1, 0);
    CALL(pwritev2, fd, &part, 1, 0, 0);
    CALL(print, fd, "%d\n", 5);
    CALL(ftruncate, fd, 8192);
    CALL(fallocate, fd, 0, 0, 8192);
    NUMBER(posix_fallocate, fd, 0, 8192);
    CALL(futimens, fd, NULL);
    CALL(fchmod, fd, 0600);
    CALL(fchown, fd, -1, -1);
    struct aiocb block = {.aio_fildes = fd, .aio_buf = page, .aio_nbytes = 4096}, *blocks[] = {&block};
    CALL(aio_write, &block);
    aio_suspend((const struct aiocb* const*)blocks, 1, NULL);
}

static void write_files(void)
{
    int fd = (int)CALL(open, name(0), O_RDWR | O_CREAT | O_TRUNC, 0600);
    write_by(fd);
    CALL(close, fd);
    fd = (int)CALL(openat, AT_FDCWD, name(1), O_WRONLY | O_CREAT, 0600);
    CALL(write, fd, large, sizeof large);
    CALL(close, fd);
    fd = (int)CALL(creat, name(2), 0600);
    FILE* stream = POINTER(fdopen, fd, "w");
    fprintf(stream, "%s", page);
    CALL(fclose, stream);
    stream = POINTER(fopen, name(3), "w");
    fprintf(stream, "three");
    stream = POINTER(freopen, name(4), "w", stream);
    fprintf(stream, "four");
    CALL(fclose, stream);
    fd = open("draft", O_WRONLY | O_CREAT, 0600);
    if (write(fd, large, sizeof large) < 0) exit(1);
    close(fd);
    CALL(link, "draft", name(5));
    CALL(linkat, AT_FDCWD, "draft", AT_FDCWD, name(6), 0);
    CALL(rename, "draft", name(7));
    CALL(renameat, AT_FDCWD, name(7), AT_FDCWD, name(8));
    CALL(renameat2, AT_FDCWD, name(8), AT_FDCWD, name(9), 0);
    CALL(truncate, name(9), 100);
    CALL(chmod, name(1), 0600);
    CALL(fchmodat, AT_FDCWD, name(1), 0600, 0);
    CALL(chown, name(1), -1, -1);
    CALL(lchown, name(1), -1, -1);
    CALL(fchownat, AT_FDCWD, name(1), -1, -1, 0);
    CALL(utime, name(1), NULL);
    CALL(utimes, name(1), NULL);
    CALL(utimensat, AT_FDCWD, name(1), NULL, 0);
    look(9);
    list();
    fd = open(name(9), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    close_range((unsigned)fd + 50, ~0u, 0);
    CALL(close_range, (unsigned)fd, (unsigned)fd, 0);
    fd = open(name(10), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    begin(), closefrom(fd), result = 0, end("closefrom", 1);
    posix_spawn_file_actions_t actions;
    char* words[] = {"true", NULL};
    pid_t child;
    NUMBER(posix_spawn_file_actions_init, &actions);
    NUMBER(posix_spawn_file_actions_addopen, &actions, 1, name(11), O_WRONLY | O_CREAT, 0600);
    NUMBER(posix_spawn, &child, "/bin/true", &actions, NULL, words, environ);
    waitpid(child, NULL, 0);
    NUMBER(posix_spawn_file_actions_destroy, &actions);
    NUMBER(posix_spawnp, &child, "true", NULL, NULL, words, environ);
    waitpid(child, NULL, 0);
#if __GLIBC_PREREQ(2, 39)
    int process;
    NUMBER(pidfd_spawn, &process, "/bin/true", NULL, NULL, words, environ);
    waitid(P_PIDFD, (id_t)process, &(siginfo_t){0}, WEXITED);
    NUMBER(pidfd_spawnp, &process, "true", NULL, NULL, words, environ);
    waitid(P_PIDFD, (id_t)process, &(siginfo_t){0}, WEXITED);
#endif
    NUMBER(system, "true");
    stream = POINTER(popen, "true", "r");
    CALL(pclose, stream);
    wait_for_children();
    CALL(mkdir, "below", 0700);
    CALL(mkdirat, AT_FDCWD, "below/more", 0700);
    CALL(chdir, "below");
    char here[4096];
    POINTER(getcwd, here, sizeof here);
    CALL(rmdir, "more");
    fd = open("..", O_RDONLY | O_DIRECTORY);
    CALL(fchdir, fd);
    close(fd);
    CALL(rmdir, "below");
    fd = (int)CALL(syscall, SYS_openat, AT_FDCWD, name(1), O_RDONLY);
    CALL(syscall, SYS_close, fd);
    CALL(symlink, name(1), "linked");
    CALL(symlinkat, name(1), AT_FDCWD, "linked too");
    CALL(unlink, name(9));
    CALL(unlinkat, AT_FDCWD, name(10), 0);
    CALL(remove, name(11));
}

static void read_files(void)
{
    look(0);
    list();
    int fd = (int)CALL(open, name(0), O_RDONLY);
    read_by(fd);
    CALL(close, fd);
    FILE* stream = POINTER(fopen, name(1), "r");
    if (fgetc(stream) == EOF) exit(1);
    CALL(fclose, stream);
    stream = fopen("/dev/null", "r");
    stream = POINTER(freopen, name(2), "r", stream);
    CALL(fclose, stream);
    CALL(link, name(3), "kept");
    CALL(rename, name(4), "moved");
    fd = (int)CALL(openat, AT_FDCWD, name(5), O_RDWR);
    CALL(write, fd, "x", 1);
    CALL(close, fd);
    close(open(name(6), O_RDONLY));
    CALL(chmod, name(6), 0600);
    CALL(utime, name(6), NULL);
    CALL(unlink, name(6));
}

int main(int count, char** words)
{
    (void)count;
    setvbuf(stdout, NULL, _IOLBF, 0);
    memset(page, 'a', sizeof page - 1);
    pattern = words[2];
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &some, NULL);
    strcmp(words[1], "write") == 0 ? write_files() : read_files();
    return 0;
}
