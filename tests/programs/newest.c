/* Ranks that read the newest step of a file that others rewrite, at their own pace.
   newest write STEPS COUNT PAUSE: all ranks write state.h5 together, STEPS times.
   newest read together|alone PAUSE [SEED]: until there is none any more; each rank prints the steps that it has read.
   The value of element i in step s is 1000 s + i / 2^20. PAUSE: milliseconds between steps; readers take up to twice as
   many, each rank others, by SEED. */
#include <errno.h>
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void need(int true_, const char* what) {
    if (true_) return;
    fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 9);
}

static hid_t file_of(int writes, int together) {
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), file;
    if (together) H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    file = writes ? H5Fcreate("state.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access)
                  : H5Fopen("state.h5", H5F_ACC_RDONLY, access);
    H5Pclose(access);
    return file;
}

static void write_step(int step, hsize_t count) {
    hid_t file = file_of(1, 1);
    hsize_t total = count * (hsize_t)size, first = count * (hsize_t)rank;
    hid_t space = H5Screate_simple(1, &total, NULL), part = H5Screate_simple(1, &count, NULL);
    hid_t data = H5Dcreate2(file, "x", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    double* values = malloc(count * sizeof(double));
    for (hsize_t i = 0; i < count; ++i) values[i] = 1000.0 * step + (double)(first + i) / (1 << 20);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &first, NULL, &count, NULL);
    need(H5Dwrite(data, H5T_NATIVE_DOUBLE, part, space, H5P_DEFAULT, values) >= 0, "cannot write");
    free(values);
    H5Dclose(data);
    H5Sclose(part);
    H5Sclose(space);
    need(H5Fclose(file) >= 0, "cannot close");
}

/* The number of the step, or -1. */
static int read_step(int together) {
    hid_t file = file_of(0, together), data, space, transfer = H5Pcreate(H5P_DATASET_XFER);
    hsize_t total = 0;
    double* values;
    int step, least, most;
    if (file < 0) return -1;
    if (together) H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
    data = H5Dopen2(file, "x", H5P_DEFAULT);
    space = H5Dget_space(data);
    H5Sget_simple_extent_dims(space, &total, NULL);
    values = malloc(total * sizeof(double));
    need(H5Dread(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, transfer, values) >= 0, "cannot read");
    step = (int)(values[0] / 1000);
    for (hsize_t i = 0; i < total; ++i)
        need(values[i] == 1000.0 * step + (double)i / (1 << 20), "the values are wrong");
    free(values);
    H5Pclose(transfer);
    H5Sclose(space);
    H5Dclose(data);
    need(H5Fclose(file) >= 0, "cannot close");
    if (!together) return step;
    MPI_Allreduce(&step, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&step, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    need(least == most, "ranks have read different steps together");
    return step;
}

int main(int argc, char** argv) {
    char said[1 << 16] = "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    if (strcmp(argv[1], "write") == 0) {
        for (int step = 0; step < atoi(argv[2]); ++step) {
            write_step(step, (hsize_t)atol(argv[3]));
            usleep((useconds_t)atoi(argv[4]) * 1000);
        }
    } else {
        const int together = strcmp(argv[2], "together") == 0, pause = 1000 * atoi(argv[3]);
        srand((unsigned)((argc > 4 ? 100 * atoi(argv[4]) : 0) + rank));
        for (int step; (step = read_step(together)) >= 0;) {
            snprintf(said + strlen(said), sizeof(said) - strlen(said), " %d", step);
            if (pause) usleep((useconds_t)(rand() % (2 * pause)));
        }
        printf("rank %d has read%s\n", rank, said);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
