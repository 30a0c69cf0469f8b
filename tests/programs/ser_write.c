/* Serial HDF5 producer: ser_write PATTERN STEPS. Under MPI (built with -DUSE_MPI) each rank writes files of its own;
 * the pattern then takes the rank first: part%d-%04d.h5. */
#ifdef USE_MPI
#include <mpi.h>
#endif

#include "grid.h"

enum { ROWS = 9 };

int main(int argc, char **argv) {
    int rank = 0;
#ifdef USE_MPI
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
#endif
    EXPECT(argc == 3, "usage: ser_write PATTERN STEPS");
    const int steps = atoi(argv[2]);
    for (int step = 0; step < steps; ++step) {
        char name[256];
#ifdef USE_MPI
        snprintf(name, sizeof(name), argv[1], rank, step);
#else
        step_name(name, sizeof(name), argv[1], step);
#endif
        hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        CHECK(file);
        double data[ROWS][COLUMNS];
        for (int r = 0; r < ROWS; ++r)
            for (int c = 0; c < COLUMNS; ++c) data[r][c] = row_value(step, ROWS * rank + r, c);
        const hsize_t dims[2] = {ROWS, COLUMNS};
        hid_t space = H5Screate_simple(2, dims, NULL), scalar = H5Screate(H5S_SCALAR);
        hid_t set = H5Dcreate2(file, "rows", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        CHECK(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data));
        hid_t attribute = H5Acreate2(file, "step", H5T_NATIVE_INT, scalar, H5P_DEFAULT, H5P_DEFAULT);
        CHECK(H5Awrite(attribute, H5T_NATIVE_INT, &step));
        CHECK(H5Aclose(attribute));
        CHECK(H5Dclose(set));
        CHECK(H5Sclose(scalar));
        CHECK(H5Sclose(space));
        CHECK(H5Fclose(file));
    }
    if (rank == 0) printf("wrote %d steps\n", steps);
#ifdef USE_MPI
    MPI_Finalize();
#endif
    return 0;
}
