/* Parallel HDF5 producers with file habits of their own: publish WAY STEPS [latest]. Every step's /x holds 10 * step + rank.
 *   nyx    rank 0 makes the file alone and closes it, then all ranks reopen it together
 *   token  the ranks open the file one after the other, each by itself, to add their number
 *   flush  one file to the end, flushed after every step
 *   write  one file to the end, never flushed
 *   uneven the same, but rank 0 writes once more than the others */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                     \
    do {                                                                \
        if ((call) < 0) {                                               \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #call);  \
            MPI_Abort(MPI_COMM_WORLD, 1);                               \
        }                                                               \
    } while (0)

static int rank, ranks;

static hid_t make_x(hid_t file) {
    const hsize_t size = (hsize_t)ranks;
    hid_t space = H5Screate_simple(1, &size, NULL);
    hid_t x = H5Dcreate2(file, "x", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(x);
    CHECK(H5Sclose(space));
    return x;
}

static void write_mine(hid_t x, int step, hid_t list) {
    const hsize_t start = (hsize_t)rank, count = 1;
    const int value = 10 * step + rank;
    hid_t space = H5Dget_space(x), memory = H5Screate_simple(1, &count, NULL);
    CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL));
    CHECK(H5Dwrite(x, H5T_NATIVE_INT, memory, space, list, &value));
    CHECK(H5Sclose(memory));
    CHECK(H5Sclose(space));
}

static void add_mine(hid_t file, int step, hid_t list) {
    hid_t x = H5Dopen2(file, "x", H5P_DEFAULT);
    CHECK(x);
    write_mine(x, step, list);
    CHECK(H5Dclose(x));
    CHECK(H5Fclose(file));
}

static void make_alone(void) {
    hid_t file = H5Fcreate("out.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(file);
    CHECK(H5Dclose(make_x(file)));
    CHECK(H5Fclose(file));
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *way = argv[1];
    const int steps = atoi(argv[2]);
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), list = H5Pcreate(H5P_DATASET_XFER);
    CHECK(H5Pset_fapl_mpio(fapl, MPI_COMM_WORLD, MPI_INFO_NULL));
    CHECK(H5Pset_dxpl_mpio(list, H5FD_MPIO_COLLECTIVE));
    if (argc > 3) CHECK(H5Pset_libver_bounds(fapl, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST));
    if (strcmp(way, "nyx") == 0 || strcmp(way, "token") == 0) {
        for (int step = 0; step < steps; ++step) {
            if (rank == 0) make_alone();
            MPI_Barrier(MPI_COMM_WORLD);
            if (strcmp(way, "nyx") == 0) {
                hid_t file = H5Fopen("out.h5", H5F_ACC_RDWR, fapl);
                CHECK(file);
                add_mine(file, step, list);
            } else {
                for (int turn = 0; turn < ranks; ++turn) {
                    if (turn == rank) add_mine(H5Fopen("out.h5", H5F_ACC_RDWR, H5P_DEFAULT), step, H5P_DEFAULT);
                    MPI_Barrier(MPI_COMM_WORLD);
                }
            }
        }
    } else {
        hid_t file = H5Fcreate("out.h5", H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
        CHECK(file);
        hid_t x = make_x(file);
        for (int step = 0; step < steps; ++step) {
            write_mine(x, step, list);
            if (strcmp(way, "flush") == 0) CHECK(H5Fflush(file, H5F_SCOPE_GLOBAL));
        }
        if (strcmp(way, "uneven") == 0) {
            if (rank == 0) write_mine(x, steps, H5P_DEFAULT);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        CHECK(H5Dclose(x));
        CHECK(H5Fclose(file));
    }
    CHECK(H5Pclose(list));
    CHECK(H5Pclose(fapl));
    MPI_Finalize();
    return 0;
}
