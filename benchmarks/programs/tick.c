/* A task of an ensemble that publishes, or reads, a small file at a steady pace, and reports what that took.
 *
 * tick w FILE STEPS PERIOD_MS BYTES START   writes FILE once per period, from second START (of the wall clock) on
 * tick r FILE                               reads FILE until its stream ends
 *
 * Plain open, write, read and close: all that is not the kernel's is the layer's. The writer stamps the file just before
 * it closes it; the reader takes the time when it has opened it. Both print the CPU time per step, in microseconds, of all but
 * the first steps; the reader also the time from stamp to opened, for each step. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { WARM = 5, MOST = 1 << 20 };

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double cpu(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) + 1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

static void sleep_until(clockid_t clock, double when) {
    struct timespec t = {(time_t)when, (long)(1e9 * (when - (double)(time_t)when))};
    while (clock_nanosleep(clock, TIMER_ABSTIME, &t, NULL) == EINTR) {}
}

static int writer(char** argv) {
    const char* file = argv[2];
    const int steps = atoi(argv[3]);
    const double period = atof(argv[4]) / 1e3;
    const size_t bytes = (size_t)atol(argv[5]);
    char* data = calloc(1, bytes);
    srand48(getpid());
    sleep_until(CLOCK_REALTIME, atof(argv[6]));
    const double begin = now(CLOCK_MONOTONIC) + drand48() * period;
    double used = 0;
    for (int k = 0; k < steps; ++k) {
        sleep_until(CLOCK_MONOTONIC, begin + k * period);
        if (k == WARM) used = cpu();
        const int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        const double stamp = now(CLOCK_MONOTONIC);
        memcpy(data, &stamp, sizeof(stamp));
        if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes || close(fd)) return perror(file), 1;
    }
    printf("{\"steps\": %d, \"cpu_us\": %.3f}\n", steps, 1e6 * (cpu() - used) / (steps - WARM));
    return 0;
}

static int reader(char** argv) {
    static char data[1 << 20];
    double* late = malloc(MOST * sizeof(*late));
    double used = 0;
    int k = 0;
    for (; k < MOST; ++k) {
        if (k == WARM) used = cpu();
        const int fd = open(argv[2], O_RDONLY);
        const double opened = now(CLOCK_MONOTONIC);
        if (fd < 0) break;
        double stamp;
        if (read(fd, data, sizeof(data)) < (ssize_t)sizeof(stamp)) return perror(argv[2]), 1;
        memcpy(&stamp, data, sizeof(stamp));
        late[k] = opened - stamp;
        close(fd);
    }
    printf("{\"steps\": %d, \"cpu_us\": %.3f, \"late_us\": [", k, k > WARM ? 1e6 * (cpu() - used) / (k - WARM) : 0.0);
    for (int i = WARM; i < k; ++i) printf("%s%.1f", i > WARM ? ", " : "", 1e6 * late[i]);
    printf("]}\n");
    return 0;
}

int main(int argc, char** argv) {
    if (argc == 7 && argv[1][0] == 'w') return writer(argv);
    if (argc == 3 && argv[1][0] == 'r') return reader(argv);
    fprintf(stderr, "usage: tick w FILE STEPS PERIOD_MS BYTES START | tick r FILE\n");
    return 2;
}
