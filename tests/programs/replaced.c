/* CALL PATH: closes a file "first.h5" and gives its process to the program at PATH by CALL, or starts one as a child (fork, vfork,
   posix_spawn); with "none" for a call, closes "second.h5" and ends. Where it comes back from CALL it is killed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void write_file(const char* name) {
    const int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, name, strlen(name)) < 0 || close(fd) != 0) _exit(4);
}

int main(int argc, char** argv) {
    (void)argc;
    const char *call = argv[1], *path = argv[2];
    char* words[] = {(char*)path, "none", NULL};
    if (strcmp(call, "none") == 0) {
        write_file("second.h5");
        return 0;
    }
    write_file("first.h5");
    pid_t child = -1;
    if (strcmp(call, "execl") == 0) execl(path, path, "none", (char*)NULL);
    if (strcmp(call, "execle") == 0) execle(path, path, "none", (char*)NULL, environ);
    if (strcmp(call, "execlp") == 0) execlp(path, path, "none", (char*)NULL);
    if (strcmp(call, "execv") == 0) execv(path, words);
    if (strcmp(call, "execve") == 0) execve(path, words, environ);
    if (strcmp(call, "execvp") == 0) execvp(path, words);
    if (strcmp(call, "execvpe") == 0) execvpe(path, words, environ);
    if (strcmp(call, "execveat") == 0) execveat(AT_FDCWD, path, words, environ, 0);
    if (strcmp(call, "fexecve") == 0) {
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) fexecve(fd, words, environ);
    }
    const int error = errno;
    if (strcmp(call, "posix_spawn") == 0 && posix_spawn(&child, path, NULL, NULL, words, environ) != 0) return 5;
    if (strcmp(call, "fork") == 0 && (child = fork()) == 0) {
        execv(path, words);
        _exit(5);
    }
    if (strcmp(call, "vfork") == 0 && (child = vfork()) == 0) {
        execv(path, words);
        _exit(5);
    }
    if (child > 0) waitpid(child, NULL, 0);
    else if (error != ENOENT) fprintf(stderr, "%s: %s\n", call, strerror(error));
    raise(SIGKILL);
}
