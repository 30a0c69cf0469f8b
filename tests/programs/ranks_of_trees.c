/* Steps of ranks, built in a tree of another Debian: ranks_of_trees write|read STEPS RANKS. A writer is an MPI program,
 * if built with -DRANKS, or all ranks by itself; a reader reads the files of all ranks. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef RANKS
#include <mpi.h>
#endif

enum { VALUES = 5000 };

static int write_one(int step, int rank) {
    static int values[VALUES];
    char name[64];
    hsize_t size = VALUES;
    for (int k = 0; k < VALUES; ++k) values[k] = 100000 * step + 10000 * rank + k;
    sprintf(name, "tree%d-%d.h5", step, rank);
    hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), space = H5Screate_simple(1, &size, NULL);
    hid_t set = H5Dcreate2(file, "x", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const int failed = H5Dwrite(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0;
    return failed | (H5Dclose(set) < 0) | (H5Sclose(space) < 0) | (H5Fclose(file) < 0);
}

static int read_one(int step, int rank) {
    static int values[VALUES];
    char name[64];
    sprintf(name, "tree%d-%d.h5", step, rank);
    hid_t file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT), set = H5Dopen2(file, "x", H5P_DEFAULT);
    if (H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) return 1;
    for (int k = 0; k < VALUES; ++k)
        if (values[k] != 100000 * step + 10000 * rank + k) return 2;
    return (H5Dclose(set) < 0) | (H5Fclose(file) < 0);
}

int main(int count, char** words) {
    const int writes = count > 3 && strcmp(words[1], "write") == 0, steps = atoi(words[2]), ranks = atoi(words[3]);
    int failed = 0, first = 0, end = ranks;
#ifdef RANKS
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &first);
    end = first + 1;
#endif
    for (int step = 0; step < steps; ++step)
        for (int rank = first; rank < end; ++rank) failed |= writes ? write_one(step, rank) : read_one(step, rank);
#ifdef RANKS
    MPI_Finalize();
#endif
    if (!failed) printf("%s %d steps of ranks %d to %d\n", words[1], steps, first, end - 1);
    return failed;
}
