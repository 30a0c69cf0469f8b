/* What the PnetCDF programs share: each rank tells every return code and value in a file of its own. */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static FILE *told;

static void tell_in(const char *stem) {
    char name[256];
    snprintf(name, sizeof(name), "%s-%d.txt", stem, rank);
    told = fopen(name, "w");
    if (told == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
    setvbuf(told, NULL, _IOLBF, 0);
}

/* A call, what it returned, and in the words of PnetCDF. */
static int tell(const char *call, int rc) {
    fprintf(told, "%.60s: %d %s\n", call, rc, ncmpi_strerror(rc));
    return rc;
}
#define TELL(call) tell(#call, call)

#define TELL_ARRAY(suffix, type, format)                                        \
    static void tell_##suffix(const char *what, const type *values, int count) { \
        fprintf(told, "%s:", what);                                             \
        for (int i = 0; i < count; ++i) fprintf(told, " " format, values[i]);   \
        fprintf(told, "\n");                                                    \
    }
