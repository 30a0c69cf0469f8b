/* Ranks that write or read files together: together write STEPS COUNT [PAUSE], together read WRITERS. The value of
   element i of rank r in step s is 1000 s + r + i / 2^20. Odd steps are transferred collectively. PAUSE: milliseconds
   before each step. */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static hid_t file_of(int step, int writes) {
    char name[32];
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), file;
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    snprintf(name, sizeof(name), "out%03d.h5", step);
    file = writes ? H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access) : H5Fopen(name, H5F_ACC_RDONLY, access);
    H5Pclose(access);
    return file;
}

static hid_t transfer_of(int step) {
    hid_t transfer = H5Pcreate(H5P_DATASET_XFER);
    if (step % 2) H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
    return transfer;
}

static double value(int step, int writer, hsize_t at) { return 1000.0 * step + writer + (double)at / (1 << 20); }

static void need(int true_, const char* what) {
    if (true_) return;
    fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 9);
}

static void write_step(int step, hsize_t count) {
    hid_t file = file_of(step, 1), transfer = transfer_of(step);
    hsize_t total = count * (hsize_t)size, first = count * (hsize_t)rank;
    hid_t space = H5Screate_simple(1, &total, NULL), part = H5Screate_simple(1, &count, NULL);
    hid_t data = H5Dcreate2(file, "x", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    double* values = malloc(count * sizeof(double));
    for (hsize_t i = 0; i < count; ++i) values[i] = value(step, rank, i);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &first, NULL, &count, NULL);
    need(H5Dwrite(data, H5T_NATIVE_DOUBLE, part, space, transfer, values) >= 0, "cannot write");
    free(values);
    H5Dclose(data);
    H5Sclose(part);
    H5Sclose(space);
    H5Pclose(transfer);
    need(H5Fclose(file) >= 0, "cannot close");
}

static int read_step(int step, int writers) {
    hid_t file = file_of(step, 0), transfer = transfer_of(step), data, space, part;
    hsize_t total = 0, first, count, each;
    double* values;
    if (file < 0) return 0;
    data = H5Dopen2(file, "x", H5P_DEFAULT);
    space = H5Dget_space(data);
    H5Sget_simple_extent_dims(space, &total, NULL);
    each = total / (hsize_t)writers;
    first = total * (hsize_t)rank / (hsize_t)size;
    count = total * (hsize_t)(rank + 1) / (hsize_t)size - first;
    part = H5Screate_simple(1, &count, NULL);
    values = malloc(count * sizeof(double) + 1);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &first, NULL, &count, NULL);
    need(H5Dread(data, H5T_NATIVE_DOUBLE, part, space, transfer, values) >= 0, "cannot read");
    for (hsize_t i = 0; i < count; ++i)
        need(values[i] == value(step, (int)((first + i) / each), (first + i) % each), "reads a wrong value");
    free(values);
    H5Dclose(data);
    H5Sclose(part);
    H5Sclose(space);
    H5Pclose(transfer);
    H5Fclose(file);
    return 1;
}

int main(int argc, char** argv) {
    int step = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(argv[1], "write") == 0)
        for (; step < atoi(argv[2]); ++step) {
            if (argc > 4) usleep((useconds_t)atoi(argv[4]) * 1000);
            write_step(step, (hsize_t)atoll(argv[3]));
        }
    else {
        H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
        while (read_step(step, atoi(argv[2]))) ++step;
    }
    printf("rank %d of %d: %d steps\n", rank, size, step);
    MPI_Finalize();
    return 0;
}
