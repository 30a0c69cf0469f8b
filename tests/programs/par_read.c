/* Parallel HDF5 consumer: par_read PATTERN STEPS. Each rank reads columns (the producer wrote rows) and checks them. */
#include <mpi.h>

#include "grid.h"

static int rank, ranks, rows, first, mine;

static int attribute(hid_t file, const char *name) {
    int value = -1;
    hid_t attribute = H5Aopen(file, name, H5P_DEFAULT);
    CHECK(attribute);
    CHECK(H5Aread(attribute, H5T_NATIVE_INT, &value));
    CHECK(H5Aclose(attribute));
    return value;
}

/* Reads this rank's columns of a two-dimensional dataset; returns how many rows it has. */
static int read_columns(hid_t file, const char *name, hid_t type, H5FD_mpio_xfer_t mode, void *data) {
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT), list = H5Pcreate(H5P_DATASET_XFER);
    CHECK(set);
    CHECK(H5Pset_dxpl_mpio(list, mode));
    hid_t space = H5Dget_space(set);
    hsize_t dims[2];
    CHECK(H5Sget_simple_extent_dims(space, dims, NULL));
    EXPECT(dims[1] == COLUMNS && (int)dims[0] <= rows, "/%s is %d x %d", name, (int)dims[0], (int)dims[1]);
    const hsize_t start[2] = {0, (hsize_t)first}, size[2] = {dims[0], (hsize_t)mine};
    hid_t memory = H5Screate_simple(2, size, NULL);
    if (mine > 0) {
        CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, size, NULL));
    } else {
        CHECK(H5Sselect_none(space));
        CHECK(H5Sselect_none(memory));
    }
    CHECK(H5Dread(set, type, memory, space, list, data));
    CHECK(H5Sclose(memory));
    CHECK(H5Sclose(space));
    CHECK(H5Pclose(list));
    CHECK(H5Dclose(set));
    return (int)dims[0];
}

/* Reads columns and checks each element against an expression of `row` and `column`. Adds to `sum`. */
#define CHECK_COLUMNS(file, name, Type, type, mode, expected)                                                    \
    do {                                                                                                         \
        Type *data = malloc(sizeof(Type) * (size_t)rows *COLUMNS);                                               \
        const int height = read_columns(file, name, type, mode, data);                                           \
        for (int row = 0; row < height; ++row)                                                                   \
            for (int i = 0; i < mine; ++i) {                                                                     \
                const int column = first + i;                                                                    \
                const Type value = data[row * mine + i];                                                         \
                EXPECT(value == (Type)(expected), "step %d: /%s[%d, %d] is %g, not %g", step, name, row, column, \
                       (double)value, (double)(expected));                                                       \
                sum += (double)value;                                                                            \
            }                                                                                                    \
        free(data);                                                                                              \
    } while (0)

/* All ranks read all of a one-dimensional dataset. */
static int read_all(hid_t file, const char *name, hid_t type, void *data) {
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
    CHECK(set);
    hid_t space = H5Dget_space(set);
    const int length = (int)H5Sget_simple_extent_npoints(space);
    CHECK(H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data));
    CHECK(H5Sclose(space));
    CHECK(H5Dclose(set));
    return length;
}

static void check_lists(hid_t file, int step) {
    int *points = malloc(sizeof(int) * (size_t)rows * 5);
    const int count = read_all(file, "points", H5T_NATIVE_INT, points);
    EXPECT(count == rows * 5, "%d points", count);
    for (int i = 0; i < count; ++i)
        EXPECT(points[i] == point_value(step, i), "step %d: point %d is %d", step, i, points[i]);
    free(points);
    struct mesh *mesh = malloc(sizeof(struct mesh) * (size_t)rows);
    hid_t type = mesh_type();
    EXPECT(read_all(file, "mesh", type, mesh) == rows, "wrong length of /mesh");
    for (int i = 0; i < rows; ++i)
        EXPECT(mesh[i].id == i && mesh[i].at[0] == step && mesh[i].at[1] == i && mesh[i].at[2] == 0.5,
               "step %d: mesh %d", step, i);
    CHECK(H5Tclose(type));
    free(mesh);
}

static void check_bulk(hid_t file, int step) {
    if (H5Lexists(file, "bulk", H5P_DEFAULT) <= 0) return;
    hid_t set = H5Dopen2(file, "bulk", H5P_DEFAULT), list = H5Pcreate(H5P_DATASET_XFER);
    hid_t space = H5Dget_space(set);
    const hsize_t total = (hsize_t)H5Sget_simple_extent_npoints(space);
    const hsize_t start = total / (hsize_t)ranks * (hsize_t)rank;
    const hsize_t count = rank == ranks - 1 ? total - start : total / (hsize_t)ranks;
    static double *data = NULL; /* kept, so that the time printed is the transfer's and not that of fresh memory */
    static hsize_t room = 0;
    if (count > room) {
        free(data);
        data = malloc(sizeof(double) * count);
        for (hsize_t i = 0; i < count; ++i) data[i] = -1;
        room = count;
    }
    hid_t memory = H5Screate_simple(1, &count, NULL);
    CHECK(H5Pset_dxpl_mpio(list, H5FD_MPIO_COLLECTIVE));
    CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL));
    const double begin = MPI_Wtime();
    CHECK(H5Dread(set, H5T_NATIVE_DOUBLE, memory, space, list, data));
    if (rank == 0) printf("bulk %.0f MB in %.1f ms\n", (double)count / (1 << 17), (MPI_Wtime() - begin) * 1e3);
    for (hsize_t i = 0; i < count; ++i)
        EXPECT(data[i] == step + (double)(start + i), "step %d: bulk %llu", step, (unsigned long long)(start + i));
    CHECK(H5Sclose(memory));
    CHECK(H5Sclose(space));
    CHECK(H5Pclose(list));
    CHECK(H5Dclose(set));
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    EXPECT(argc == 3, "usage: par_read PATTERN STEPS");
    first = COLUMNS * rank / ranks;
    mine = COLUMNS * (rank + 1) / ranks - first;
    const int steps = atoi(argv[2]);
    for (int step = 0; step < steps; ++step) {
        char name[256];
        step_name(name, sizeof(name), argv[1], step);
        hid_t access = H5Pcreate(H5P_FILE_ACCESS);
        CHECK(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL));
        hid_t file = H5Fopen(name, H5F_ACC_RDONLY, access);
        CHECK(file);
        EXPECT(attribute(file, "step") == step, "expected step %d, got %d", step, attribute(file, "step"));
        const int producers = attribute(file, "ranks");
        rows = 4 * producers + 1;
        double sum = 0, total = 0;
        CHECK_COLUMNS(file, "rows", double, H5T_NATIVE_DOUBLE, H5FD_MPIO_COLLECTIVE, row_value(step, row, column));
        CHECK_COLUMNS(file, "chunks", int, H5T_NATIVE_INT, H5FD_MPIO_COLLECTIVE, chunk_value(step, row, column));
        CHECK_COLUMNS(file, "packed", float, H5T_NATIVE_FLOAT, H5FD_MPIO_COLLECTIVE, packed_value(step, row, column));
        CHECK_COLUMNS(file, "stripes", double, H5T_NATIVE_DOUBLE, H5FD_MPIO_INDEPENDENT,
                      stripe_value(step, row, column));
        CHECK_COLUMNS(file, "grown", double, H5T_NATIVE_DOUBLE, H5FD_MPIO_INDEPENDENT, row_value(step, row, column));
        check_lists(file, step);
        check_bulk(file, step);
        CHECK(H5Fclose(file));
        CHECK(H5Pclose(access));
        MPI_Reduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0) printf("step %d sum %.2f\n", step, total);
    }
    if (rank == 0) printf("read %d steps\n", steps);
    MPI_Finalize();
    return 0;
}
