/* Parallel HDF5 consumer that opens every step several times: reopen STEPS OPENS. The first open of a step is collective,
 * the others are each rank's own; /x[0] must be the step's number in all of them. */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int read_x(hid_t fapl) {
    int value = -1;
    hid_t file = H5Fopen("out.h5", H5F_ACC_RDONLY, fapl);
    if (file < 0) return -1;
    hid_t x = H5Dopen2(file, "x", H5P_DEFAULT);
    if (H5Dread(x, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value) < 0) value = -2;
    H5Dclose(x);
    H5Fclose(file);
    return value;
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    hid_t together = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(together, MPI_COMM_WORLD, MPI_INFO_NULL);
    for (int step = 0; step < atoi(argv[1]); ++step) {
        for (int open = 0; open < atoi(argv[2]); ++open) {
            const int value = read_x(open == 0 ? together : H5P_DEFAULT);
            if (value == step) continue;
            fprintf(stderr, "rank %d: open %d of step %d read %d\n", rank, open, step, value);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    H5Pclose(together);
    MPI_Finalize();
    return 0;
}
