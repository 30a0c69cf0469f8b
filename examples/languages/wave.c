/* A wave crosses a grid whose rows are shared out among MPI ranks; every step is one file, written in parallel.
 *
 * wave-<step>.h5 holds the height (float64, contiguous, written collectively), the slope in x (float32, compressed
 * chunks that straddle the ranks' borders, written collectively), and the rank that owns each row (written
 * independently).
 */
#include <hdf5.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 120, COLUMNS = 200, STEPS = 5 };

static void check(hid_t result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "wave: %s failed\n", what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Writes this rank's rows [first, first + rows) of a dataset of ROWS x columns (columns 0: a vector). */
static void write_rows(hid_t file, const char *name, hid_t type, const void *values, hsize_t first, hsize_t rows,
                       hsize_t columns, hid_t creation, H5FD_mpio_xfer_t how)
{
    hsize_t size[2] = {ROWS, columns}, start[2] = {first, 0}, count[2] = {rows, columns};
    int rank = columns ? 2 : 1;
    hid_t space = H5Screate_simple(rank, size, NULL);
    hid_t memory = H5Screate_simple(rank, count, NULL);
    hid_t dataset = H5Dcreate(file, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    hid_t transfer = H5Pcreate(H5P_DATASET_XFER);

    check(dataset, "H5Dcreate");
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    H5Pset_dxpl_mpio(transfer, how);
    check(H5Dwrite(dataset, type, memory, space, transfer, values), "H5Dwrite");
    H5Pclose(transfer);
    H5Dclose(dataset);
    H5Sclose(memory);
    H5Sclose(space);
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);

    int first = ROWS * rank / ranks, rows = ROWS * (rank + 1) / ranks - first;
    double *height = malloc(sizeof *height * rows * COLUMNS);
    float *slope = malloc(sizeof *slope * rows * COLUMNS);
    int *owner = malloc(sizeof *owner * rows);

    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    hid_t chunks = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(chunks, 2, (hsize_t[]){50, 64});
    H5Pset_deflate(chunks, 4);

    for (int step = 0; step < STEPS; step++) {
        for (int y = 0; y < rows; y++) {
            owner[y] = rank;
            for (int x = 0; x < COLUMNS; x++) {
                double phase = 0.1 * x + 0.05 * (first + y) - 0.5 * step;
                height[y * COLUMNS + x] = sin(phase);
                slope[y * COLUMNS + x] = (float)(0.1 * cos(phase));
            }
        }
        char name[32];
        snprintf(name, sizeof name, "wave-%d.h5", step);
        hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access);
        check(file, "H5Fcreate");
        write_rows(file, "height", H5T_NATIVE_DOUBLE, height, first, rows, COLUMNS, H5P_DEFAULT, H5FD_MPIO_COLLECTIVE);
        write_rows(file, "slope", H5T_NATIVE_FLOAT, slope, first, rows, COLUMNS, chunks, H5FD_MPIO_COLLECTIVE);
        write_rows(file, "owner", H5T_NATIVE_INT, owner, first, rows, 0, H5P_DEFAULT, H5FD_MPIO_INDEPENDENT);
        check(H5Fclose(file), "H5Fclose");
        if (rank == 0)
            printf("wrote step %d\n", step);
    }

    H5Pclose(chunks);
    H5Pclose(access);
    free(owner);
    free(slope);
    free(height);
    return MPI_Finalize();
}
