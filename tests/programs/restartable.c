/* A parallel simulation that can be restarted: restartable STEPS EVERY PAUSE_MS [--from FILE]. Its ranks step a field, write it to
 * u%04d.h5 in parallel, and every so many steps a checkpoint, chk%04d.h5; with FILE it goes on from that one. */
#include <math.h>
#include <mpi.h>
#include <unistd.h>

#include "grid.h"

enum { CELLS = 64 };

static int rank, ranks, mine;

static hid_t parallel(void) {
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    CHECK(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL));
    return access;
}

static void move(hid_t file, const char *name, double *data, int writes) {
    const hsize_t all = CELLS, start = (hsize_t)(rank * mine), count = (hsize_t)mine;
    hid_t space = H5Screate_simple(1, &all, NULL), memory = H5Screate_simple(1, &count, NULL);
    CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL));
    hid_t list = H5Pcreate(H5P_DATASET_XFER);
    CHECK(H5Pset_dxpl_mpio(list, H5FD_MPIO_COLLECTIVE));
    hid_t set = writes ? H5Dcreate2(file, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)
                       : H5Dopen2(file, name, H5P_DEFAULT);
    CHECK(set);
    if (writes) CHECK(H5Dwrite(set, H5T_NATIVE_DOUBLE, memory, space, list, data));
    else CHECK(H5Dread(set, H5T_NATIVE_DOUBLE, memory, space, list, data));
    CHECK(H5Dclose(set));
    CHECK(H5Pclose(list));
    CHECK(H5Sclose(memory));
    CHECK(H5Sclose(space));
}

static void write_step(const char *pattern, int number, int step, double *data) {
    char name[256];
    step_name(name, sizeof(name), pattern, number);
    hid_t access = parallel(), file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    CHECK(file);
    move(file, "u", data, 1);
    hid_t scalar = H5Screate(H5S_SCALAR), attribute = H5Acreate2(file, "step", H5T_NATIVE_INT, scalar, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(H5Awrite(attribute, H5T_NATIVE_INT, &step));
    CHECK(H5Aclose(attribute));
    CHECK(H5Sclose(scalar));
    CHECK(H5Fclose(file));
    CHECK(H5Pclose(access));
}

static int read_checkpoint(const char *name, double *data) {
    int step;
    hid_t access = parallel(), file = H5Fopen(name, H5F_ACC_RDONLY, access);
    CHECK(file);
    move(file, "u", data, 0);
    hid_t attribute = H5Aopen(file, "step", H5P_DEFAULT);
    CHECK(H5Aread(attribute, H5T_NATIVE_INT, &step));
    CHECK(H5Aclose(attribute));
    CHECK(H5Fclose(file));
    CHECK(H5Pclose(access));
    return step;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    mine = CELLS / ranks;
    const int steps = atoi(argv[1]), every = atoi(argv[2]), pause = atoi(argv[3]);
    double *data = calloc((size_t)mine, sizeof(double));
    int step = 0;
    if (argc > 5 && !strcmp(argv[4], "--from")) {
        step = read_checkpoint(argv[5], data);
        if (rank == 0) printf("restarted at %d from %s\n", step, argv[5]);
    }
    while (step < steps) {
        for (int i = 0; i < mine; ++i) data[i] = sin(data[i] + step) + rank * mine + i;
        write_step("u%04d.h5", step, step, data);
        ++step;
        if (step % every == 0) write_step("chk%04d.h5", step, step, data);
        usleep((unsigned)pause * 1000);
    }
    free(data);
    MPI_Finalize();
    return 0;
}
