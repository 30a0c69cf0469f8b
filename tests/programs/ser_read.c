/* Serial HDF5 consumer: ser_read PATTERN STEPS. Checks /rows of every step, whoever wrote it. Under MPI (built with
 * -DUSE_MPI) each rank reads the files of the producer's rank of the same number; the pattern takes the rank first. */
#ifdef USE_MPI
#include <mpi.h>
#endif

#include "grid.h"

int main(int argc, char **argv) {
    int rank = 0;
#ifdef USE_MPI
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
#endif
    EXPECT(argc == 3, "usage: ser_read PATTERN STEPS");
    const int steps = atoi(argv[2]);
    double sum = 0;
    for (int step = 0; step < steps; ++step) {
        char name[256];
#ifdef USE_MPI
        snprintf(name, sizeof(name), argv[1], rank, step);
#else
        step_name(name, sizeof(name), argv[1], step);
#endif
        hid_t file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
        CHECK(file);
        hid_t set = H5Dopen2(file, "rows", H5P_DEFAULT);
        CHECK(set);
        hid_t space = H5Dget_space(set);
        hsize_t dims[2];
        CHECK(H5Sget_simple_extent_dims(space, dims, NULL));
        EXPECT(dims[1] == COLUMNS, "%d columns", (int)dims[1]);
        double *data = malloc(sizeof(double) * dims[0] * dims[1]);
        CHECK(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data));
        for (int i = 0; i < (int)(dims[0] * dims[1]); ++i) {
            const double expected = row_value(step, rank * (int)dims[0] + i / COLUMNS, i % COLUMNS);
            EXPECT(data[i] == expected, "step %d: element %d is %g, not %g", step, i, data[i], expected);
            sum += data[i];
        }
        free(data);
        CHECK(H5Sclose(space));
        CHECK(H5Dclose(set));
        CHECK(H5Fclose(file));
    }
    printf("rank %d read %d steps, sum %.2f\n", rank, steps, sum);
#ifdef USE_MPI
    MPI_Finalize();
#endif
    return 0;
}
