/* The sheet of a measurement: a file that producer, consumer and harness map, with a line of times for each step.
 *
 * All clocks are CLOCK_MONOTONIC, in seconds, so that times of two processes can be compared; 0: not yet. Producers and
 * consumers without a layer between them also wait on it for each other. */
#ifndef SHEET_H
#define SHEET_H
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { BEGIN, CREATED, WRITTEN, RELEASED, WAITING, OPENING, OPENED, READ, COLUMNS };
enum { AHEAD = 3 }; /* steps that a producer without a layer may be ahead of its consumer: two queued, one being read */

/* What a program measures; the last words of its command. */
typedef struct {
    const char* path;
    int steps;
    int warm;  /* steps made as fast as it goes, before ... */
    int paced; /* ... these, each of which begins after a pause, when its consumer waits for it; the others follow as fast as it goes */
    double (*line)[COLUMNS];
} Sheet;

static inline double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline Sheet open_sheet(char** words) {
    Sheet sheet = {words[0], atoi(words[1]), atoi(words[2]), atoi(words[3]), NULL};
    const size_t bytes = sizeof(double[COLUMNS]) * (size_t)sheet.steps;
    const int fd = open(sheet.path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes)) exit((perror(sheet.path), 1));
    sheet.line = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (sheet.line == MAP_FAILED) exit((perror(sheet.path), 1));
    return sheet;
}

static inline void note(Sheet* sheet, int step, int column) {
    const double time = now();
    __atomic_store(&sheet->line[step][column], &time, __ATOMIC_RELEASE);
}

static inline void wait_for(Sheet* sheet, int step, int column) {
    for (double time = 0; !time; sched_yield()) __atomic_load(&sheet->line[step][column], &time, __ATOMIC_ACQUIRE);
}

/* Lets a paced step begin after a pause, when its consumer, if it has one, has been waiting for a while, as in a workflow that computes. */
static inline void pace(Sheet* sheet, int step, int has_consumer) {
    if (step < sheet->warm || step >= sheet->warm + sheet->paced) return;
    if (has_consumer) wait_for(sheet, step, WAITING);
    usleep(2000);
}
#endif
