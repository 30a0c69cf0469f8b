/* Ranks that read one step and end: one_step FILE READER [BAD CODE], READER: all, together, or the only rank that
   reads. Rank 0 prints the step, x[0] of the file. The program fails with CODE for the step BAD. */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_step(const char* name, int together) {
    int step = -1;
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), file, data;
    if (together) H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    file = H5Fopen(name, H5F_ACC_RDONLY, access);
    if (file < 0) return -1;
    data = H5Dopen2(file, "x", H5P_DEFAULT);
    if (H5Dread(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &step) < 0) step = -1;
    H5Dclose(data);
    H5Fclose(file);
    H5Pclose(access);
    return step;
}

int main(int argc, char** argv) {
    int rank, together, all, step, mine = -1, least, most;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    together = strcmp(argv[2], "together") == 0;
    all = together || strcmp(argv[2], "all") == 0;
    if (all || atoi(argv[2]) == rank) mine = read_step(argv[1], together);
    step = all || mine >= 0 ? mine : 1 << 30;
    MPI_Allreduce(&step, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&mine, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (least != most) {
        fprintf(stderr, "ranks have read steps %d to %d of %s\n", least, most, argv[1]);
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
    if (rank == 0) printf("read %d of %s\n", most, argv[1]);
    if (argc > 4 && atoi(argv[3]) == most) exit(atoi(argv[4]));
    MPI_Finalize();
    return 0;
}
