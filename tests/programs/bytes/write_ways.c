/* write_ways WAY NAME SOURCE HEADER: writes HEADER bytes with write(), the bytes of the file SOURCE in a way of its own, and a
   trailer. */
#define _GNU_SOURCE
#include <aio.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUIRE(condition)                                                            \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: not true: %s (%m)\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

extern char **environ;

static const char trailer[] = "trailer\n";
static char header[20000];
static char bytes[1 << 20];
static size_t size;
static int source;

static void reap(pid_t child) {
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
}

static void say(int fd, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    REQUIRE(vdprintf(fd, format, arguments) > 0);
    va_end(arguments);
}

static void move_by_pipe(int fd, int by_splice) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    for (size_t done = 0; done < size;) {
        const size_t piece = size - done < 4096 ? size - done : 4096;
        REQUIRE(write(ends[1], bytes + done, piece) == (ssize_t)piece);
        if (by_splice) REQUIRE(splice(ends[0], NULL, fd, NULL, piece, 0) == (ssize_t)piece);
        else REQUIRE(syscall(SYS_splice, ends[0], NULL, fd, NULL, piece, 0) == (ssize_t)piece);
        done += piece;
    }
    close(ends[0]);
    close(ends[1]);
}

/* One write through a ring of its own, without a library. */
static int write_by_ring(int fd, off_t at) {
    struct io_uring_params setup = {0};
    const int ring = (int)syscall(SYS_io_uring_setup, 4, &setup);
    if (ring < 0) return 0;
    const size_t room = setup.sq_off.array + setup.sq_entries * sizeof(uint32_t);
    char *queue = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *entry = mmap(NULL, setup.sq_entries * sizeof(*entry), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                                      ring, IORING_OFF_SQES);
    REQUIRE(queue != MAP_FAILED && entry != MAP_FAILED);
    memset(entry, 0, sizeof(*entry));
    entry->opcode = IORING_OP_WRITE;
    entry->fd = fd;
    entry->addr = (uintptr_t)bytes;
    entry->len = (uint32_t)size;
    entry->off = (uint64_t)at;
    ((uint32_t *)(queue + setup.sq_off.array))[0] = 0;
    __atomic_store_n((uint32_t *)(queue + setup.sq_off.tail), 1, __ATOMIC_RELEASE);
    REQUIRE(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1);
    close(ring);
    return 1;
}

/* A child that gets the descriptor as its standard output. */
static char *const copy_source[] = {"cat", "source.txt", NULL};

static void pass(int fd, const char *way) {
    struct stat st;
    const off_t at = lseek(fd, 0, SEEK_CUR);
    char text[400];
    if (!strcmp(way, "write")) {
        REQUIRE(write(fd, bytes, size) == (ssize_t)size);
    } else if (!strcmp(way, "dprintf")) {
        REQUIRE(dprintf(fd, "%s", bytes) == (int)size);
    } else if (!strcmp(way, "vdprintf")) {
        say(fd, "%s", bytes);
    } else if (!strcmp(way, "syscall write")) {
        REQUIRE(syscall(SYS_write, fd, bytes, size) == (ssize_t)size);
    } else if (!strcmp(way, "syscall pwrite")) {
        REQUIRE(syscall(SYS_pwrite64, fd, bytes, size, at) == (ssize_t)size && lseek(fd, (off_t)size, SEEK_CUR) > 0);
    } else if (!strcmp(way, "syscall pwritev")) {
        struct iovec piece = {bytes, size};
        REQUIRE(syscall(SYS_pwritev, fd, &piece, 1, at, 0) == (ssize_t)size && lseek(fd, (off_t)size, SEEK_CUR) > 0);
    } else if (!strcmp(way, "syscall ftruncate")) {
        REQUIRE(syscall(SYS_ftruncate, fd, at + 5000) == 0 && lseek(fd, 0, SEEK_END) == at + 5000);
    } else if (!strcmp(way, "io_uring")) {
        if (!write_by_ring(fd, at)) REQUIRE(write(fd, bytes, size) == (ssize_t)size); /* a kernel that has none */
        else REQUIRE(lseek(fd, (off_t)size, SEEK_CUR) > 0);
    } else if (!strcmp(way, "splice")) {
        move_by_pipe(fd, 1);
    } else if (!strcmp(way, "syscall splice")) {
        move_by_pipe(fd, 0);
    } else if (!strcmp(way, "sendfile")) {
        REQUIRE(sendfile(fd, source, NULL, size) == (ssize_t)size);
    } else if (!strcmp(way, "copy_file_range")) {
        REQUIRE(copy_file_range(source, NULL, fd, NULL, size, 0) == (ssize_t)size);
    } else if (!strcmp(way, "copy_file_range within")) {
        off_t from = 0, to = at;
        REQUIRE(copy_file_range(fd, &from, fd, &to, 20, 0) == 20 && lseek(fd, 20, SEEK_CUR) > 0);
    } else if (!strcmp(way, "aio_write") || !strcmp(way, "lio_listio")) {
        struct aiocb one = {.aio_fildes = fd, .aio_buf = bytes, .aio_nbytes = size, .aio_offset = at, .aio_lio_opcode = LIO_WRITE};
        struct aiocb *list[] = {&one};
        if (way[0] == 'l') {
            REQUIRE(lio_listio(LIO_WAIT, list, 1, NULL) == 0);
        } else {
            REQUIRE(aio_write(&one) == 0);
            while (aio_suspend((const struct aiocb *const *)list, 1, NULL) != 0) continue;
        }
        REQUIRE(aio_error(&one) == 0 && aio_return(&one) == (ssize_t)size && lseek(fd, (off_t)size, SEEK_CUR) > 0);
        char back[20] = {0};
        struct aiocb again = {.aio_fildes = fd, .aio_buf = back, .aio_nbytes = 20, .aio_offset = 0};
        list[0] = &again;
        REQUIRE(aio_read(&again) == 0);
        while (aio_suspend((const struct aiocb *const *)list, 1, NULL) != 0) continue;
        REQUIRE(aio_return(&again) == 20 && memcmp(back, header, 20) == 0);
    } else if (!strcmp(way, "writev")) {
        struct iovec pieces[2] = {{bytes, 100}, {bytes + 100, size - 100}};
        REQUIRE(writev(fd, pieces, 2) == (ssize_t)size);
    } else if (!strcmp(way, "mmap")) {
        REQUIRE(ftruncate(fd, at + (off_t)size) == 0);
        char *map = mmap(NULL, (size_t)at + size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        REQUIRE(map != MAP_FAILED && memcmp(map, header, (size_t)at) == 0);
        memcpy(map + at, bytes, size);
        REQUIRE(munmap(map, (size_t)at + size) == 0 && lseek(fd, (off_t)size, SEEK_CUR) > 0);
    } else if (!strcmp(way, "stdout")) {
        const int before = dup(1);
        REQUIRE(fflush(stdout) == 0 && dup2(fd, 1) == 1 && printf("%s", bytes) == (int)size && fflush(stdout) == 0);
        REQUIRE(dup2(before, 1) == 1 && close(before) == 0);
    } else if (!strcmp(way, "/dev/fd")) {
        snprintf(text, sizeof(text), "/dev/fd/%d", fd);
        const int other = open(text, O_WRONLY);
        REQUIRE(other >= 0 && lseek(other, 0, SEEK_END) == at && write(other, bytes, size) == (ssize_t)size && close(other) == 0);
        REQUIRE(lseek(fd, 0, SEEK_END) == at + (off_t)size);
    } else if (!strcmp(way, "/proc/self/fd")) {
        snprintf(text, sizeof(text), "/proc/self/fd/%d", fd);
        FILE *other = fopen(text, "a");
        REQUIRE(other && fwrite(bytes, 1, size, other) == size && fclose(other) == 0);
        REQUIRE(lseek(fd, 0, SEEK_END) == at + (off_t)size);
    } else if (!strcmp(way, "fork")) {
        const pid_t child = fork();
        if (child == 0) _exit(write(fd, bytes, size) == (ssize_t)size ? 0 : 1);
        reap(child);
    } else if (!strcmp(way, "vfork")) {
        const pid_t child = vfork();
        if (child == 0) {
            if (dup2(fd, 1) == 1) execvp("cat", copy_source);
            _exit(1);
        }
        reap(child);
    } else if (!strcmp(way, "posix_spawn")) {
        posix_spawn_file_actions_t actions;
        pid_t child;
        REQUIRE(posix_spawn_file_actions_init(&actions) == 0 && posix_spawn_file_actions_adddup2(&actions, fd, 1) == 0);
        REQUIRE(posix_spawnp(&child, "cat", &actions, NULL, copy_source, environ) == 0);
        reap(child);
    } else if (!strcmp(way, "pidfd_spawn")) {
#if __GLIBC_PREREQ(2, 39)
        posix_spawn_file_actions_t actions;
        int child;
        siginfo_t how;
        REQUIRE(posix_spawn_file_actions_init(&actions) == 0 && posix_spawn_file_actions_adddup2(&actions, fd, 1) == 0);
        REQUIRE(pidfd_spawnp(&child, "cat", &actions, NULL, copy_source, environ) == 0);
        REQUIRE(waitid(P_PIDFD, (id_t)child, &how, WEXITED) == 0 && how.si_status == 0 && close(child) == 0);
#else
        REQUIRE(write(fd, bytes, size) == (ssize_t)size);
#endif
    } else if (!strcmp(way, "system")) {
        snprintf(text, sizeof(text), "cat source.txt >&%d", fd);
        REQUIRE(system(text) == 0);
    } else if (!strcmp(way, "popen")) {
        snprintf(text, sizeof(text), "cat >&%d", fd);
        FILE *child = popen(text, "w");
        REQUIRE(child && fwrite(bytes, 1, size, child) == size && pclose(child) == 0);
    } else if (!strcmp(way, "passed")) { /* to another process, through a socket */
        int ends[2];
        REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
        const pid_t child = fork();
        char place[CMSG_SPACE(sizeof(int))] = {0}, word = 0;
        struct iovec piece = {&word, 1};
        struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = place, .msg_controllen = sizeof(place)};
        if (child == 0) {
            close(fd);
            if (recvmsg(ends[1], &message, 0) != 1) _exit(1);
            int got;
            memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(got));
            _exit(write(got, bytes, size) == (ssize_t)size ? 0 : 1);
        }
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &fd, sizeof(fd));
        REQUIRE(sendmsg(ends[0], &message, 0) == 1);
        reap(child);
    } else if (!strcmp(way, "F_SETFL")) {
        REQUIRE(fcntl(fd, F_SETFL, O_APPEND) == 0 && lseek(fd, 0, SEEK_SET) == 0 && (fcntl(fd, F_GETFL) & O_APPEND));
        REQUIRE(write(fd, bytes, size) == (ssize_t)size);
    } else {
        fprintf(stderr, "no such way: %s\n", way);
        exit(2);
    }
    REQUIRE(fstat(fd, &st) == 0 && st.st_size >= at);
}

/* Ways in which the last of the file comes after its descriptor, or its process, is gone. */
static int ends_late(int fd, const char *way) {
    if (!strcmp(way, "closed before its child")) {
        int go[2];
        REQUIRE(pipe(go) == 0);
        const pid_t child = fork();
        char word;
        if (child == 0) {
            close(go[1]);
            REQUIRE(read(go[0], &word, 1) == 1 && write(fd, bytes, size) == (ssize_t)size);
            _exit(0);
        }
        REQUIRE(close(fd) == 0 && write(go[1], "x", 1) == 1);
        reap(child);
    } else if (!strcmp(way, "mapped to the end")) {
        REQUIRE(ftruncate(fd, (off_t)size) == 0);
        char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        REQUIRE(map != MAP_FAILED && close(fd) == 0);
        memcpy(map, bytes, size);
    } else if (!strcmp(way, "unmapped after its close")) {
        REQUIRE(ftruncate(fd, (off_t)size) == 0);
        char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        REQUIRE(map != MAP_FAILED && close(fd) == 0);
        memcpy(map, bytes, size);
        REQUIRE(munmap(map, size) == 0);
    } else if (!strcmp(way, "duplicate closed last") || !strcmp(way, "duplicate closed first")) {
        const int copy = (int)syscall(SYS_dup, fd);
        REQUIRE(copy >= 0 && write(fd, bytes, 100) == 100 && close(way[17] == 'l' ? fd : copy) == 0);
        REQUIRE(write(way[17] == 'l' ? copy : fd, bytes + 100, size - 100) == (ssize_t)size - 100);
        REQUIRE(close(way[17] == 'l' ? copy : fd) == 0);
    } else if (!strcmp(way, "exec")) {
        REQUIRE(fcntl(fd, F_SETFD, 0) == 0 && dup2(fd, 1) == 1 && close(fd) == 0);
        execvp("cat", copy_source);
        REQUIRE(!"exec");
    } else {
        return 0;
    }
    return 1;
}

int main(int argc, char **argv) {
    REQUIRE(argc == 5);
    const size_t first = (size_t)atoi(argv[4]);
    REQUIRE(first < sizeof(header));
    for (size_t k = 0; k < first; ++k) header[k] = (char)('a' + k % 23);
    source = open(argv[3], O_RDONLY);
    REQUIRE(source >= 0);
    const ssize_t n = pread(source, bytes, sizeof(bytes) - 1, 0);
    REQUIRE(n > 0);
    size = (size_t)n;
    const int fd = open(argv[2], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    REQUIRE(fd >= 0 && fcntl(fd, F_SETFD, 0) == 0);
    REQUIRE(write(fd, header, first) == (ssize_t)first);
    if (ends_late(fd, argv[1])) return 0;
    pass(fd, argv[1]);
    REQUIRE(write(fd, trailer, strlen(trailer)) == (ssize_t)strlen(trailer));
    REQUIRE(close(fd) == 0);
    return 0;
}
