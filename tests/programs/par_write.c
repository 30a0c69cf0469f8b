/* Parallel HDF5 producer: par_write PATTERN STEPS [latest] [MB]. Writes in all the ways parallel HDF5 knows: contiguous
 * and chunked, chunks across rank borders, filtered, strided, points, compounds; collective and independent; growing.
 * With MB, adds a dataset of that many megabytes per rank. */
#include <mpi.h>

#include "grid.h"

static int rank, ranks, rows, first, mine;

static hid_t create(hid_t file, const char *name, hid_t type, int ndims, const hsize_t *dims, hid_t plist) {
    hid_t space = H5Screate_simple(ndims, dims, NULL);
    hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    CHECK(set);
    CHECK(H5Sclose(space));
    return set;
}

static hid_t transfer(H5FD_mpio_xfer_t mode) {
    hid_t list = H5Pcreate(H5P_DATASET_XFER);
    CHECK(H5Pset_dxpl_mpio(list, mode));
    return list;
}

/* Writes rows [row, row + count) of a two-dimensional dataset. */
static void write_rows(hid_t set, hid_t type, int row, int count, H5FD_mpio_xfer_t mode, const void *data) {
    const hsize_t start[2] = {(hsize_t)row, 0}, size[2] = {(hsize_t)count, COLUMNS};
    hid_t file_space = H5Dget_space(set), memory = H5Screate_simple(2, size, NULL), list = transfer(mode);
    CHECK(H5Sselect_hyperslab(file_space, H5S_SELECT_SET, start, NULL, size, NULL));
    CHECK(H5Dwrite(set, type, memory, file_space, list, data));
    CHECK(H5Pclose(list));
    CHECK(H5Sclose(memory));
    CHECK(H5Sclose(file_space));
}

static void write_contiguous(hid_t file, int step) {
    const hsize_t dims[2] = {(hsize_t)rows, COLUMNS};
    double *data = malloc(sizeof(double) * (size_t)mine * COLUMNS);
    for (int i = 0; i < mine * COLUMNS; ++i) data[i] = row_value(step, first + i / COLUMNS, i % COLUMNS);
    hid_t set = create(file, "rows", H5T_NATIVE_DOUBLE, 2, dims, H5P_DEFAULT);
    write_rows(set, H5T_NATIVE_DOUBLE, first, mine, H5FD_MPIO_COLLECTIVE, data);
    CHECK(H5Dclose(set));
    free(data);
}

static void write_chunked(hid_t file, int step) {
    const hsize_t dims[2] = {(hsize_t)rows, COLUMNS}, chunk[2] = {3, 5};
    const int fill = FILL;
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
    CHECK(H5Pset_chunk(plist, 2, chunk));
    CHECK(H5Pset_fill_value(plist, H5T_NATIVE_INT, &fill));
    hid_t set = create(file, "chunks", H5T_STD_I32BE, 2, dims, plist);
    for (int row = first; row < first + mine; ++row) {
        int data[COLUMNS];
        for (int c = 0; c < COLUMNS; ++c) data[c] = chunk_value(step, row, c);
        if (chunk_written(row)) write_rows(set, H5T_NATIVE_INT, row, 1, H5FD_MPIO_INDEPENDENT, data);
    }
    CHECK(H5Dclose(set));
    CHECK(H5Pclose(plist));
}

static void write_filtered(hid_t file, int step) {
    const hsize_t dims[2] = {(hsize_t)rows, COLUMNS}, chunk[2] = {4, COLUMNS};
    float *data = malloc(sizeof(float) * (size_t)mine * COLUMNS);
    for (int i = 0; i < mine * COLUMNS; ++i) data[i] = packed_value(step, first + i / COLUMNS, i % COLUMNS);
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
    CHECK(H5Pset_chunk(plist, 2, chunk));
    CHECK(H5Pset_shuffle(plist));
    CHECK(H5Pset_deflate(plist, 4));
    hid_t set = create(file, "packed", H5T_NATIVE_FLOAT, 2, dims, plist);
    write_rows(set, H5T_NATIVE_FLOAT, first, mine, H5FD_MPIO_COLLECTIVE, data);
    CHECK(H5Dclose(set));
    CHECK(H5Pclose(plist));
    free(data);
}

/* Each rank writes every ranks-th column, from memory laid out with gaps. */
static void write_strided(hid_t file, int step) {
    const hsize_t dims[2] = {(hsize_t)rows, COLUMNS};
    const hsize_t start[2] = {0, (hsize_t)rank}, stride[2] = {1, (hsize_t)ranks};
    const hsize_t count[2] = {(hsize_t)rows, (hsize_t)((COLUMNS - rank + ranks - 1) / ranks)};
    const hsize_t room[2] = {count[0], 2 * count[1]}, every_second[2] = {1, 2}, origin[2] = {0, 0};
    double *data = calloc((size_t)(room[0] * room[1]), sizeof(double));
    for (hsize_t r = 0; r < count[0]; ++r)
        for (hsize_t k = 0; k < count[1]; ++k)
            data[r * room[1] + 2 * k] = stripe_value(step, (int)r, rank + (int)k * ranks);
    hid_t set = create(file, "stripes", H5T_NATIVE_DOUBLE, 2, dims, H5P_DEFAULT);
    hid_t space = H5Dget_space(set), memory = H5Screate_simple(2, room, NULL), list = transfer(H5FD_MPIO_COLLECTIVE);
    if (count[1] > 0) {
        CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL));
        CHECK(H5Sselect_hyperslab(memory, H5S_SELECT_SET, origin, every_second, count, NULL));
    } else {
        CHECK(H5Sselect_none(space));
        CHECK(H5Sselect_none(memory));
    }
    CHECK(H5Dwrite(set, H5T_NATIVE_DOUBLE, memory, space, list, data));
    CHECK(H5Pclose(list));
    CHECK(H5Sclose(memory));
    CHECK(H5Sclose(space));
    CHECK(H5Dclose(set));
    free(data);
}

/* Elements i with i % ranks == rank, as a list of points in no order that a stride could express. */
static void write_points(hid_t file, int step) {
    const hsize_t total = (hsize_t)rows * 5;
    const int fill = FILL;
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
    CHECK(H5Pset_fill_value(plist, H5T_NATIVE_INT, &fill));
    hid_t set = create(file, "points", H5T_NATIVE_INT, 1, &total, plist);
    hsize_t *at = malloc(sizeof(hsize_t) * total);
    int *data = malloc(sizeof(int) * total);
    size_t n = 0;
    for (hsize_t i = 0; i < total; ++i)
        if ((i * i + 3) % (hsize_t)ranks == (hsize_t)rank) at[n++] = i;
    for (size_t i = 0; i < n; ++i) data[i] = point_value(step, (int)at[i]);
    const hsize_t length = n ? n : 1;
    hid_t space = H5Dget_space(set), memory = H5Screate_simple(1, &length, NULL), list = transfer(H5FD_MPIO_COLLECTIVE);
    if (n) {
        CHECK(H5Sselect_elements(space, H5S_SELECT_SET, n, at));
    } else {
        CHECK(H5Sselect_none(space));
        CHECK(H5Sselect_none(memory));
    }
    CHECK(H5Dwrite(set, H5T_NATIVE_INT, memory, space, list, data));
    CHECK(H5Pclose(list));
    CHECK(H5Sclose(memory));
    CHECK(H5Sclose(space));
    CHECK(H5Dclose(set));
    CHECK(H5Pclose(plist));
    free(data);
    free(at);
}

static void write_compound(hid_t file, int step) {
    const hsize_t dims = (hsize_t)rows, start = (hsize_t)first, count = (hsize_t)mine;
    struct mesh *data = malloc(sizeof(struct mesh) * (size_t)mine);
    for (int i = 0; i < mine; ++i) data[i] = (struct mesh){first + i, {step, first + i, 0.5}};
    hid_t type = mesh_type();
    hid_t set = create(file, "mesh", type, 1, &dims, H5P_DEFAULT);
    hid_t space = H5Dget_space(set), memory = H5Screate_simple(1, &count, NULL), list = transfer(H5FD_MPIO_INDEPENDENT);
    CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL));
    CHECK(H5Dwrite(set, type, memory, space, list, data));
    CHECK(H5Pclose(list));
    CHECK(H5Sclose(memory));
    CHECK(H5Sclose(space));
    CHECK(H5Dclose(set));
    CHECK(H5Tclose(type));
    free(data);
}

/* A dataset that grows twice while it is written. */
static void write_growing(hid_t file, int step) {
    const hsize_t none[2] = {0, COLUMNS}, most[2] = {H5S_UNLIMITED, COLUMNS}, chunk[2] = {2, COLUMNS};
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(2, none, most);
    CHECK(H5Pset_chunk(plist, 2, chunk));
    hid_t set = H5Dcreate2(file, "grown", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    CHECK(set);
    for (int part = 0; part < 2; ++part) {
        const hsize_t now[2] = {(hsize_t)(ranks * (part + 1)), COLUMNS};
        double data[COLUMNS];
        for (int c = 0; c < COLUMNS; ++c) data[c] = row_value(step, part * ranks + rank, c);
        CHECK(H5Dset_extent(set, now));
        write_rows(set, H5T_NATIVE_DOUBLE, part * ranks + rank, 1, H5FD_MPIO_COLLECTIVE, data);
    }
    CHECK(H5Dclose(set));
    CHECK(H5Sclose(space));
    CHECK(H5Pclose(plist));
}

static void write_bulk(hid_t file, int step, int megabytes) {
    const hsize_t count = (hsize_t)megabytes << 17, total = count * (hsize_t)ranks, start = count * (hsize_t)rank;
    double *data = malloc(sizeof(double) * count);
    for (hsize_t i = 0; i < count; ++i) data[i] = step + (double)(start + i);
    hid_t set = create(file, "bulk", H5T_NATIVE_DOUBLE, 1, &total, H5P_DEFAULT);
    hid_t space = H5Dget_space(set), memory = H5Screate_simple(1, &count, NULL), list = transfer(H5FD_MPIO_COLLECTIVE);
    CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL));
    const double begin = MPI_Wtime();
    CHECK(H5Dwrite(set, H5T_NATIVE_DOUBLE, memory, space, list, data));
    if (rank == 0) printf("bulk %d MB per rank in %.1f ms\n", megabytes, (MPI_Wtime() - begin) * 1e3);
    CHECK(H5Pclose(list));
    CHECK(H5Sclose(memory));
    CHECK(H5Sclose(space));
    CHECK(H5Dclose(set));
    free(data);
}

static void write_attributes(hid_t file, int step) {
    hid_t scalar = H5Screate(H5S_SCALAR);
    const int values[2] = {step, ranks};
    const char *const names[2] = {"step", "ranks"};
    for (int i = 0; i < 2; ++i) {
        hid_t attribute = H5Acreate2(file, names[i], H5T_NATIVE_INT, scalar, H5P_DEFAULT, H5P_DEFAULT);
        CHECK(H5Awrite(attribute, H5T_NATIVE_INT, &values[i]));
        CHECK(H5Aclose(attribute));
    }
    CHECK(H5Sclose(scalar));
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    EXPECT(argc >= 3, "usage: par_write PATTERN STEPS [latest] [MB]");
    const int steps = atoi(argv[2]);
    const int latest = argc > 3 && strcmp(argv[3], "latest") == 0;
    const int megabytes = argc > 3 + latest ? atoi(argv[3 + latest]) : 0;
    rows = 4 * ranks + 1;
    mine = rank == ranks - 1 ? 5 : 4;
    first = 4 * rank;
    for (int step = 0; step < steps; ++step) {
        char name[256];
        step_name(name, sizeof(name), argv[1], step);
        hid_t access = H5Pcreate(H5P_FILE_ACCESS);
        CHECK(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL));
        if (latest) CHECK(H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST));
        hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access);
        CHECK(file);
        write_attributes(file, step);
        write_contiguous(file, step);
        write_chunked(file, step);
        write_filtered(file, step);
        write_strided(file, step);
        write_points(file, step);
        write_compound(file, step);
        write_growing(file, step);
        if (megabytes) write_bulk(file, step, megabytes);
        CHECK(H5Fclose(file));
        CHECK(H5Pclose(access));
    }
    if (rank == 0) printf("wrote %d steps\n", steps);
    MPI_Finalize();
    return 0;
}
