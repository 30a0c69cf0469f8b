// Two threads make calls while the first one forks, a given number of times; each child makes the same calls.
//
//   forks CALL FORKS
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kHangs = 30 };  // seconds

static int notifier;
static void (*call)(void);
static atomic_int over;

static void close_opened(int fd) {
    if (fd < 0) _exit(3);
    close(fd);
}

static void open_step(void) { close_opened(open("s0.h5", O_RDONLY)); }

static void list(void) {
    DIR* folder = opendir(".");
    while (folder && readdir(folder)) continue;
    if (folder) closedir(folder);
}

static void watch(void) { inotify_rm_watch(notifier, inotify_add_watch(notifier, ".", IN_CREATE)); }

static void prepare_spawn(void) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 5, "s0.h5", O_RDONLY, 0);
    posix_spawn_file_actions_destroy(&actions);
}

static void read_folder(void) { close_opened(open("t0.d/a", O_RDONLY)); }

static void write_folder(void) { close_opened(open("u0.d/a", O_RDWR | O_CREAT, 0600)); }

static void move_into_folder(void) {
    char name[64], there[64];
    snprintf(name, sizeof(name), "outside-%d-%lu", getpid(), (unsigned long)pthread_self());
    snprintf(there, sizeof(there), "u0.d/%s", name);
    close_opened(open(name, O_CREAT | O_WRONLY, 0600));
    if (rename(name, there) != 0 || unlink(there) != 0) _exit(4);
}

static const struct {
    const char* name;
    void (*make)(void);
} kCalls[] = {{"open", open_step},
              {"list", list},
              {"watch", watch},
              {"prepare-spawn", prepare_spawn},
              {"read-folder", read_folder},
              {"write-folder", write_folder},
              {"move-into-folder", move_into_folder}};

static void* make_calls(void* unused) {
    while (!over) call();
    return unused;
}

int main(int count, char** arguments) {
    if (count != 3) return 2;
    for (size_t k = 0; k < sizeof(kCalls) / sizeof(*kCalls); ++k)
        if (strcmp(arguments[1], kCalls[k].name) == 0) call = kCalls[k].make;
    notifier = inotify_init1(IN_NONBLOCK);
    if (!call || notifier < 0) return 2;
    open_step();
    read_folder();
    if (mkdir("u0.d", 0700) != 0) return 5;
    write_folder();
    pthread_t threads[2];
    for (int k = 0; k < 2; ++k)
        if (pthread_create(&threads[k], NULL, make_calls, NULL) != 0) return 6;
    int status = 0;
    for (int k = 0; k < atoi(arguments[2]) && status == 0; ++k) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(kHangs);
            call();
            _exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) != child) return 7;
        if (status != 0) fprintf(stderr, "child %d ended with status %d\n", k, status);
    }
    over = 1;
    for (int k = 0; k < 2; ++k) pthread_join(threads[k], NULL);
    return status != 0;
}
