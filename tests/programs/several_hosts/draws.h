/* For programs whose ranks do random things together: draws that all ranks share, draws of a rank's own, late ranks, and
 * failures that say how the step can be done again. */
#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, ranks, late;      /* of MPI_COMM_WORLD; whether this rank is late more often in this step */
static long seed;                  /* of this step */
static const char *doing;          /* the case */
static uint64_t mine, ours, waits; /* states: of this rank, of all ranks alike, and of the delays */

static void fail(const char *format, ...) {
    va_list values;
    fprintf(stderr, "%s, seed %ld, rank %d of %d: ", doing, seed, rank, ranks);
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
    MPI_Abort(MPI_COMM_WORLD, 9);
}

static uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static int draw(uint64_t *state, int below) {
    *state += 0x9e3779b97f4a7c15u;
    return (int)(mixed(*state) % (uint64_t)below);
}
static int any(int below) { return draw(&mine, below); }
static int all(int below) { return draw(&ours, below); }

static void begin_step(const char *name, long number) {
    doing = name;
    seed = number;
    ours = mixed((uint64_t)number);
    mine = mixed(ours + (uint64_t)rank + 1);
    waits = mixed(mine);
    late = draw(&waits, 4) == 0;
}

/* Now and then wait: mostly for a moment, in a rank that is late for up to 3 ms. */
static void hesitate(void) {
    if (draw(&waits, 3) == 0) usleep((useconds_t)draw(&waits, late ? 3000 : 300));
}
