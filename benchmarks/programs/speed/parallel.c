/* A stream of parallel HDF5 files: `parallel ROLE PARTS BYTES SHEET STEPS WARM PACED`, on any ranks.
 *
 * ROLE is w, r, or n, which writes though nobody reads. PARTS says what each rank has of the 8,192 rows of a file: `rows`,
 * one after the other, or `columns`, a part of each. Reads and writes are collective. A step begins when all ranks are ready, and is released or read when all
 * have done so; times between these are those of rank 0. */
#include "sheet.h"
#include <hdf5.h>
#include <mpi.h>

static int rank, ranks;

static void note_last(Sheet* sheet, int step, int column) {
    const double mine = now();
    double last;
    MPI_Reduce(&mine, &last, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) __atomic_store(&sheet->line[step][column], &last, __ATOMIC_RELEASE);
}

/* Rank 0 waits for the others; asleep, for ranks that spin would take its cores. */
static void together(void) {
    MPI_Request all;
    MPI_Ibarrier(MPI_COMM_WORLD, &all);
    for (int done = 0; MPI_Test(&all, &done, MPI_STATUS_IGNORE), !done;) usleep(100);
}

int main(int argc, char** argv) {
    if (argc != 8) return fprintf(stderr, "usage: parallel ROLE PARTS BYTES SHEET STEPS WARM PACED\n"), 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int writes = argv[1][0] != 'r', is_read = argv[1][0] == 'w', rows = argv[2][0] == 'r';
    const hsize_t all[2] = {8192, strtoull(argv[3], NULL, 10) / sizeof(double) / 8192};
    hsize_t start[2] = {0, 0}, count[2] = {all[0], all[1]};
    count[!rows] /= (hsize_t)ranks;
    start[!rows] = count[!rows] * (hsize_t)rank;
    const hsize_t n = count[0] * count[1];
    Sheet sheet = open_sheet(argv + 4);
    double* data = malloc(n * sizeof(*data));
    for (hsize_t i = 0; i < n; ++i) data[i] = (double)i;
    const hid_t list = H5Pcreate(H5P_FILE_ACCESS), transfer = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL);
    H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
    const hid_t in_file = H5Screate_simple(2, all, NULL), in_memory = H5Screate_simple(2, count, NULL);
    H5Sselect_hyperslab(in_file, H5S_SELECT_SET, start, NULL, count, NULL);
    char name[32];
    for (int step = 0; step < sheet.steps; ++step) {
        snprintf(name, sizeof(name), "step-%06d.h5", step);
        if (writes) {
            if (rank == 0) pace(&sheet, step, is_read);
            data[0] = data[n - 1] = step;
            together();
            if (rank == 0) note(&sheet, step, BEGIN);
            const hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, list);
            const hid_t set = H5Dcreate2(file, "x", H5T_NATIVE_DOUBLE, in_file, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
            if (rank == 0) note(&sheet, step, CREATED);
            if (H5Dwrite(set, H5T_NATIVE_DOUBLE, in_memory, in_file, transfer, data) < 0) return 1;
            if (rank == 0) note(&sheet, step, WRITTEN);
            H5Dclose(set);
            if (H5Fclose(file) < 0) return 1;
            note_last(&sheet, step, RELEASED);
        } else {
            if (rank == 0) note(&sheet, step, WAITING);
            const hid_t file = H5Fopen(name, H5F_ACC_RDONLY, list);
            if (rank == 0) note(&sheet, step, OPENED);
            const hid_t set = H5Dopen2(file, "x", H5P_DEFAULT);
            if (H5Dread(set, H5T_NATIVE_DOUBLE, in_memory, in_file, transfer, data) < 0) return 1;
            H5Dclose(set);
            note_last(&sheet, step, READ);
            if (H5Fclose(file) < 0) return 1;
            if (data[0] != step || data[n - 1] != step) return fprintf(stderr, "step %d: read %g\n", step, data[0]), 3;
        }
    }
    H5Sclose(in_file);
    H5Sclose(in_memory);
    H5Pclose(list);
    H5Pclose(transfer);
    MPI_Finalize();
    return 0;
}
