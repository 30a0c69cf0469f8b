/* A stream of steps: stream write NAME STEPS TAG, or stream read NAME, until no step comes. NAME may hold one %d, for the
 * number of the step. A step holds its number and the tag of its writer; what is read is printed as "got TAG STEP".
 *
 * Built with -DUSE_MPI for parallel HDF5, and with one word more, which ranks take part: `all` or `some` (all but the
 * last) in one shared file, `zero` alone, `each` by itself, or `halves`, each half together, the second half later. */
#ifdef USE_MPI
#include <mpi.h>
#include <unistd.h>
#endif

#include "grid.h"

enum { LENGTH = 32 };

static int rank = 0, ranks = 1;
static hid_t access_list = H5P_DEFAULT;

static void write_step(const char *name, int step, const char *tag) {
    char text[LENGTH] = "";
    snprintf(text, sizeof(text), "%s", tag);
    const hsize_t length = LENGTH;
    hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access_list);
    CHECK(file);
    hid_t space = H5Screate_simple(1, &length, NULL), scalar = H5Screate(H5S_SCALAR);
    hid_t by = H5Dcreate2(file, "by", H5T_NATIVE_CHAR, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(H5Dwrite(by, H5T_NATIVE_CHAR, H5S_ALL, H5S_ALL, H5P_DEFAULT, text));
    hid_t number = H5Dcreate2(file, "step", H5T_NATIVE_INT, scalar, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(H5Dwrite(number, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &step));
    CHECK(H5Dclose(number));
    CHECK(H5Dclose(by));
    CHECK(H5Sclose(scalar));
    CHECK(H5Sclose(space));
    CHECK(H5Fclose(file));
}

/* Whether there was a step. */
static int read_step(const char *name) {
    char text[LENGTH];
    int step = -1;
    hid_t file;
    H5E_BEGIN_TRY { file = H5Fopen(name, H5F_ACC_RDONLY, access_list); }
    H5E_END_TRY
    if (file < 0) return 0;
    hid_t by = H5Dopen2(file, "by", H5P_DEFAULT), number = H5Dopen2(file, "step", H5P_DEFAULT);
    CHECK(H5Dread(by, H5T_NATIVE_CHAR, H5S_ALL, H5S_ALL, H5P_DEFAULT, text));
    CHECK(H5Dread(number, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &step));
    CHECK(H5Dclose(number));
    CHECK(H5Dclose(by));
    CHECK(H5Fclose(file));
    printf(ranks > 1 ? "got %s %d on %d\n" : "got %s %d\n", text, step, rank);
    fflush(stdout);
    return 1;
}

/* Whether this rank takes part. */
static int takes_part(const char *who) {
#ifdef USE_MPI
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (strcmp(who, "zero") == 0) return rank == 0;
    if (strcmp(who, "each") == 0) return 1;
    const int halves = strcmp(who, "halves") == 0, second = 2 * rank >= ranks;
    const int part = halves || strcmp(who, "all") == 0 || rank < ranks - 1;
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, halves ? second : part ? 0 : MPI_UNDEFINED, rank, &comm);
    if (halves && second) sleep(1);
    if (part) {
        access_list = H5Pcreate(H5P_FILE_ACCESS);
        CHECK(H5Pset_fapl_mpio(access_list, comm, MPI_INFO_NULL));
    }
    return part;
#else
    (void)who;
    return 1;
#endif
}

int main(int argc, char **argv) {
#ifdef USE_MPI
    MPI_Init(&argc, &argv);
#endif
    const int writes = argc > 1 && strcmp(argv[1], "write") == 0;
    EXPECT(argc >= (writes ? 5 : 3), "usage: stream write NAME STEPS TAG | stream read NAME");
    const int part = takes_part(argv[argc - 1]);
    const int steps = writes ? atoi(argv[3]) : 1 << 30;
    for (int step = 0, more = 1; step < steps && more; ++step) {
        char name[256];
        snprintf(name, sizeof(name), argv[2], step);
        if (part && writes) write_step(name, step, argv[4]);
        if (part && !writes) more = read_step(name);
#ifdef USE_MPI
        /* those that do not take part wait for those that do */
        if (strcmp(argv[argc - 1], "halves") != 0) MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
#endif
    }
#ifdef USE_MPI
    MPI_Finalize();
#endif
    return 0;
}
