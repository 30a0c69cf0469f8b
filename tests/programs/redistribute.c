/* A matrix that ranks write by rows and others read by columns:

       redistribute write STEPS TRANSFER ROWS COLUMNS FILL        redistribute read STEPS TRANSFER

   TRANSFER is "collective" or "independent", FILL "value" or "never". Element (i, j) of step s is s + i + j / 2^20. */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void need(int true_, const char* what) {
    if (true_) return;
    fprintf(stderr, "redistribute: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 9);
}

/* Of `total`, this rank's part. */
static void share(hsize_t total, hsize_t* first, hsize_t* count) {
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    *first = total * (hsize_t)rank / (hsize_t)size;
    *count = total * (hsize_t)(rank + 1) / (hsize_t)size - *first;
}

static int writes, collective, filled;

static void do_step(int step, hsize_t rows, hsize_t columns) {
    char name[32];
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), transfer = H5Pcreate(H5P_DATASET_XFER);
    hid_t create = H5Pcreate(H5P_DATASET_CREATE), file, data, space, memory;
    hsize_t extent[2] = {rows, columns}, first[2] = {0, 0}, count[2], i, j;
    const double fill = -1;
    double* values;
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    if (collective) H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
    snprintf(name, sizeof(name), "matrix%d.h5", step);
    file = writes ? H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access) : H5Fopen(name, H5F_ACC_RDONLY, access);
    need(file >= 0, "cannot open");
    if (writes) {
        space = H5Screate_simple(2, extent, NULL);
        if (filled) H5Pset_fill_value(create, H5T_NATIVE_DOUBLE, &fill);
        else H5Pset_fill_time(create, H5D_FILL_TIME_NEVER);
        data = H5Dcreate2(file, "x", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, create, H5P_DEFAULT);
    } else {
        data = H5Dopen2(file, "x", H5P_DEFAULT);
        space = H5Dget_space(data);
        H5Sget_simple_extent_dims(space, extent, NULL);
    }
    count[0] = extent[0];
    count[1] = extent[1];
    share(extent[writes ? 0 : 1], &first[writes ? 0 : 1], &count[writes ? 0 : 1]);
    values = malloc(count[0] * count[1] * sizeof(double));
    for (i = 0; writes && i < count[0]; ++i)
        for (j = 0; j < count[1]; ++j) values[i * count[1] + j] = step + (double)(first[0] + i) + (double)(first[1] + j) / (1 << 20);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, first, NULL, count, NULL);
    memory = H5Screate_simple(2, count, NULL);
    if (writes) need(H5Dwrite(data, H5T_NATIVE_DOUBLE, memory, space, transfer, values) >= 0, "cannot write");
    else need(H5Dread(data, H5T_NATIVE_DOUBLE, memory, space, transfer, values) >= 0, "cannot read");
    for (i = 0; !writes && i < count[0]; ++i)
        for (j = 0; j < count[1]; ++j)
            need(values[i * count[1] + j] == step + (double)(first[0] + i) + (double)(first[1] + j) / (1 << 20), "a wrong value");
    free(values);
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(data);
    H5Pclose(create);
    H5Pclose(transfer);
    H5Pclose(access);
    need(H5Fclose(file) >= 0, "cannot close");
}

int main(int argc, char** argv) {
    int step, steps;
    MPI_Init(&argc, &argv);
    need(argc > 3, "what is to be done?");
    writes = argc > 6 && strcmp(argv[1], "write") == 0;
    steps = atoi(argv[2]);
    collective = strcmp(argv[3], "collective") == 0;
    filled = writes && strcmp(argv[6], "value") == 0;
    for (step = 0; step < steps; ++step)
        do_step(step, writes ? (hsize_t)atol(argv[4]) : 0, writes ? (hsize_t)atol(argv[5]) : 0);
    MPI_Finalize();
    return 0;
}
