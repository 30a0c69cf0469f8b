// Runs the cases of parallel programs: mpiexec -n RANKS PROGRAM write|read OUT (see rig.py and parallel.h).
#include "parallel.h"

#include <stdlib.h>

int rank, ranks;

hid_t shared_by(MPI_Comm comm) {
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(access, comm, MPI_INFO_NULL);
    return access;
}

hid_t create(const char* file) {
    const hid_t access = shared_by(MPI_COMM_WORLD), id = TRY(H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, access));
    H5Pclose(access);
    return id;
}

hid_t open_all(const char* file, unsigned flags) {
    const hid_t access = shared_by(MPI_COMM_WORLD), id = TRY(H5Fopen(file, flags, access));
    H5Pclose(access);
    return id;
}

void finish(hid_t file) {
    hid_t ids[64];
    const ssize_t n = H5Fget_obj_ids(file, H5F_OBJ_ALL & ~H5F_OBJ_FILE & ~H5F_OBJ_LOCAL, 64, ids);
    for (ssize_t i = 0; i < n; ++i) H5Idec_ref(ids[i]);
    TRY(H5Fclose(file));
}

hid_t transfer(H5FD_mpio_xfer_t mode) {
    const hid_t list = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_dxpl_mpio(list, mode);
    return list;
}

Share share_of(hsize_t rows) {
    const hsize_t r = (hsize_t)rank, n = (hsize_t)ranks;
    return (Share){rows * r / n, rows * (r + 1) / n - rows * r / n};
}

hid_t chunked(hsize_t rows, hsize_t columns) {
    const hsize_t chunk[2] = {rows, columns};
    const hid_t list = untimed();
    H5Pset_chunk(list, columns ? 2 : 1, chunk);
    return list;
}

hid_t grid(hid_t in, const char* name, hid_t list) {
    const hid_t of = space(ROWS, COLUMNS), id = H5Dcreate2(in, name, H5T_STD_I32LE, of, H5P_DEFAULT, list, H5P_DEFAULT);
    tried(name, id);
    H5Sclose(of);
    return id;
}

const char* numbered(int k) {
    static char name[32];
    snprintf(name, sizeof(name), "x%d", k);
    return name;
}

hid_t rows_of(hid_t dataset, Share rows) {
    hsize_t dims[2] = {0, 0};
    const hid_t selected = H5Dget_space(dataset);
    H5Sget_simple_extent_dims(selected, dims, NULL);
    const hsize_t start[2] = {rows.first, 0}, size[2] = {rows.count, dims[1]};
    if (rows.count) H5Sselect_hyperslab(selected, H5S_SELECT_SET, start, NULL, size, NULL);
    else H5Sselect_none(selected);
    return selected;
}

// Selects rows of a dataset in its space, and makes a space for them in memory.
static void select_rows(hid_t dataset, Share rows, hid_t* in_file, hid_t* in_memory) {
    hsize_t dims[2] = {0, 0};
    *in_file = rows_of(dataset, rows);
    H5Sget_simple_extent_dims(*in_file, dims, NULL);
    *in_memory = space(rows.count ? rows.count : 1, dims[1]);
    if (rows.count == 0) H5Sselect_none(*in_memory);
}

herr_t write_rows(hid_t dataset, Share rows, int base, H5FD_mpio_xfer_t mode) {
    hid_t in_file, in_memory;
    select_rows(dataset, rows, &in_file, &in_memory);
    const hsize_t n = (hsize_t)H5Sget_simple_extent_npoints(in_memory), columns = n / (rows.count ? rows.count : 1);
    int* values = malloc(sizeof(int) * (n + 1));
    for (hsize_t i = 0; i < n; ++i) values[i] = base + (int)((rows.first + i / columns) * 100 + i % columns);
    const hid_t list = transfer(mode);
    const herr_t rc = (herr_t)TRY(H5Dwrite(dataset, H5T_NATIVE_INT, in_memory, in_file, list, values));
    H5Pclose(list);
    H5Sclose(in_memory);
    H5Sclose(in_file);
    free(values);
    return rc;
}

void say_rows(hid_t dataset, Share rows, H5FD_mpio_xfer_t mode) {
    hid_t in_file, in_memory;
    select_rows(dataset, rows, &in_file, &in_memory);
    const size_t n = rows.count ? (size_t)H5Sget_simple_extent_npoints(in_memory) : 0;
    int* values = calloc(n + 1, sizeof(int));
    const hid_t list = transfer(mode);
    TRY(H5Dread(dataset, H5T_NATIVE_INT, in_memory, in_file, list, values));
    unsigned long long sum = 17;
    for (size_t i = 0; i < n; ++i) sum = sum * 1000003ull + (unsigned long long)values[i];
    say("  rows %llu+%llu: %zu values, %d to %d, sum %llx", (unsigned long long)rows.first, (unsigned long long)rows.count, n,
        n ? values[0] : 0, n ? values[n - 1] : 0, sum);
    H5Pclose(list);
    H5Sclose(in_memory);
    H5Sclose(in_file);
    free(values);
}

static herr_t look_at(hid_t file, const char* name, const H5O_info_t* info, void* unused) {
    (void)unused;
    if (info->type != H5O_TYPE_DATASET) return 0;
    const hid_t x = H5Dopen2(file, name, H5P_DEFAULT), of = H5Dget_space(x), type = H5Dget_type(x);
    H5D_space_status_t status;
    H5Dget_space_status(x, &status);
    say("%s: %llu bytes stored, status %d", name, (unsigned long long)H5Dget_storage_size(x), (int)status);
    if (!H5Tis_variable_str(type) && H5Tget_class(type) != H5T_VLEN) say_values(x, type);
    if (H5Tget_class(type) == H5T_INTEGER && H5Sget_simple_extent_ndims(of) == 2) {
        hsize_t dims[2];
        H5Sget_simple_extent_dims(of, dims, NULL);
        say_rows(x, share_of(dims[0]), H5FD_MPIO_COLLECTIVE);
        if (rank % 2 == 0) say_rows(x, share_of(dims[0]), H5FD_MPIO_INDEPENDENT);
    }
    H5Tclose(type);
    H5Sclose(of);
    H5Dclose(x);
    return 0;
}

void look_through(const char* file, MPI_Comm comm) {
    const hid_t access = shared_by(comm), f = TRY(H5Fopen(file, H5F_ACC_RDONLY, access));
    H5Pclose(access);
    if (f < 0) return;
    hsize_t size = 0;
    H5Fget_filesize(f, &size);
    say("%llu bytes", (unsigned long long)size);
    TRY(H5Ovisit(f, H5_INDEX_NAME, H5_ITER_INC, look_at, NULL));
    finish(f);
}

// A rank's line begins with its number.
static void print_lines(FILE* to, int of, char* text) {
    char* rest = text;
    for (char* line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
        if (*line) fprintf(to, "%d: %s\n", of, line);
}

// Rank 0 writes what all ranks have said.
static void gather(const char* name, char* text, FILE* to) {
    int size = (int)strlen(text) + 1;
    if (rank != 0) {
        MPI_Send(&size, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
        MPI_Send(text, size, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
        return;
    }
    fprintf(to, "== %s\n", name);
    print_lines(to, 0, text);
    for (int other = 1; other < ranks; ++other) {
        MPI_Recv(&size, 1, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        char* const theirs = malloc((size_t)size);
        MPI_Recv(theirs, size, MPI_CHAR, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        print_lines(to, other, theirs);
        free(theirs);
    }
    fflush(to);
}

static void run(int i, int writes, FILE* to) {
    char file[128], *text = NULL;
    size_t length = 0;
    snprintf(file, sizeof(file), "%s", file_of(i));
    out = open_memstream(&text, &length);
    if (writes) {
        cases[i].produce(file);
    } else if (cases[i].consume) {
        cases[i].consume(file);
    } else {
        look_through(file, MPI_COMM_WORLD);
        if (cases[i].flags & PAIR) look_through(target(file), MPI_COMM_WORLD);
    }
    if (!writes || !(cases[i].flags & HELD)) close_all();
    fclose(out);
    gather(cases[i].name, text, to);
    free(text);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    FILE* to = NULL;
    if (argc < 3 || (rank == 0 && !(to = fopen(argv[2], "w")))) {
        fprintf(stderr, "usage: %s write|read OUT [CASE...]\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const int writes = strcmp(argv[1], "write") == 0;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    if (writes) begin_ports(argc, argv, rank);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < case_count; ++i)
        if (is_chosen(i, argc, argv)) run(i, writes, to);
    const int failed = to && fclose(to) != 0;
    MPI_Finalize();
    return failed;
}
