/* Writes or reads steps that prove to be whole: each value is known from the step's number, and a digest is over all.
 *   whole WHO write HOW NAME FIRST STEPS ROWS   HOW: close, reopen (closed half-way), flush (one file, to the end)
 *   whole WHO read NAME                         until a file is missing
 * NAME may hold %d, the number. The variable PAUSE: seconds between steps. Where HDF5 is parallel, the ranks share each file. What a process is doing stands in the
 * file phase-WHO-RANK (see whole.py); a writer ends early when there is a file `enough`. */
#include <fcntl.h>
#include <hdf5.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef H5_HAVE_PARALLEL
#include <mpi.h>
#endif

enum { COLUMNS = 512, SETS = 4, CHUNK = 16, PARTS = 4 };
enum { BETWEEN, CREATE, WRITE, EXTEND, REST, REOPEN, FLUSH, CLOSE, DONE, OPEN, READ, LEAVE };

static const char *const names[SETS] = {"u", "c", "z", "g"};
static int rank = 0, ranks = 1;
static volatile int64_t *told;
static int64_t digest;

static void fail(const char *what) {
    fprintf(stderr, "rank %d: %s failed\n", rank, what);
#ifdef H5_HAVE_PARALLEL
    MPI_Abort(MPI_COMM_WORLD, 7);
#endif
    exit(7);
}

#define CHECK(call)                   \
    do {                              \
        if ((call) < 0) fail(#call);  \
    } while (0)

static void phase(int number, int now) { told[1] = (int64_t)number * 16 + now; }

static void tell(const char *who) {
    char name[256];
    snprintf(name, sizeof(name), "phase-%s-%d", who, rank);
    const int file = open(name, O_RDWR | O_CREAT, 0600);
    CHECK(file);
    CHECK(ftruncate(file, 16));
    told = mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (told == MAP_FAILED) fail("mmap");
    close(file);
    told[0] = getpid();
}

static int value(int number, int set, int at) { return number * 1000003 + set * 10007 + at; }

static int first_row(int rows, int of) { return (int)((int64_t)rows * of / ranks); }

static int64_t sum_of_ranks(int64_t mine) {
#ifdef H5_HAVE_PARALLEL
    int64_t all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    return all;
#else
    return mine;
#endif
}

static hid_t access_list(void) {
    hid_t list = H5Pcreate(H5P_FILE_ACCESS);
#ifdef H5_HAVE_PARALLEL
    CHECK(H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL));
#endif
    return list;
}

static hid_t transfer_list(void) {
    hid_t list = H5Pcreate(H5P_DATASET_XFER);
#ifdef H5_HAVE_PARALLEL
    CHECK(H5Pset_dxpl_mpio(list, H5FD_MPIO_COLLECTIVE));
#endif
    return list;
}

static void put_number(hid_t file, const char *name, int64_t number) {
    hid_t at;
    if (H5Aexists(file, name) > 0) {
        at = H5Aopen(file, name, H5P_DEFAULT);
    } else {
        hid_t scalar = H5Screate(H5S_SCALAR);
        at = H5Acreate2(file, name, H5T_NATIVE_INT64, scalar, H5P_DEFAULT, H5P_DEFAULT);
        CHECK(H5Sclose(scalar));
    }
    CHECK(at);
    CHECK(H5Awrite(at, H5T_NATIVE_INT64, &number));
    CHECK(H5Aclose(at));
}

static int64_t get_number(hid_t file, const char *name) {
    int64_t number = -1;
    hid_t at = H5Aopen(file, name, H5P_DEFAULT);
    if (at < 0) return -1;
    if (H5Aread(at, H5T_NATIVE_INT64, &number) < 0) number = -1;
    H5Aclose(at);
    return number;
}

/* Rows [row, row + count) of a dataset, written or read. */
static herr_t transfer(hid_t set, int row, int count, int *data, int writes) {
    const hsize_t start[2] = {(hsize_t)row, 0}, size[2] = {(hsize_t)count, COLUMNS};
    hid_t space = H5Dget_space(set), memory = H5Screate_simple(2, size, NULL), list = transfer_list();
    CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, size, NULL));
    const herr_t done = writes ? H5Dwrite(set, H5T_NATIVE_INT, memory, space, list, data)
                               : H5Dread(set, H5T_NATIVE_INT, memory, space, list, data);
    CHECK(H5Pclose(list));
    CHECK(H5Sclose(memory));
    CHECK(H5Sclose(space));
    return done;
}

/* The k-th dataset: contiguous, chunked, compressed, or grown part by part. */
static void write_set(hid_t file, int number, int k, int rows) {
    const int row = first_row(rows, rank), count = first_row(rows, rank + 1) - row;
    int *data = malloc(sizeof(int) * (size_t)count * COLUMNS);
    int64_t sum = 0;
    for (int i = 0; i < count * COLUMNS; ++i) sum += data[i] = value(number, k, row * COLUMNS + i);
    hid_t set;
    if (H5Lexists(file, names[k], H5P_DEFAULT) > 0) {
        phase(number, WRITE);
        CHECK(set = H5Dopen2(file, names[k], H5P_DEFAULT));
    } else {
        const hsize_t chunk[2] = {CHUNK, COLUMNS}, most[2] = {H5S_UNLIMITED, COLUMNS};
        hsize_t dims[2] = {k == 3 ? 0 : (hsize_t)rows, COLUMNS};
        hid_t plist = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(2, dims, k == 3 ? most : NULL);
        if (k > 0) CHECK(H5Pset_chunk(plist, 2, chunk));
        if (k == 2) {
            CHECK(H5Pset_shuffle(plist));
            CHECK(H5Pset_deflate(plist, 1));
        }
        phase(number, EXTEND);
        CHECK(set = H5Dcreate2(file, names[k], H5T_NATIVE_INT, space, H5P_DEFAULT, plist, H5P_DEFAULT));
        CHECK(H5Sclose(space));
        CHECK(H5Pclose(plist));
        for (int part = 1; k == 3 && part <= PARTS; ++part) {
            dims[0] = (hsize_t)(rows * part / PARTS);
            CHECK(H5Dset_extent(set, dims));
        }
        phase(number, WRITE);
    }
    CHECK(transfer(set, row, count, data, 1));
    CHECK(H5Dclose(set));
    free(data);
    digest += sum_of_ranks(sum);
}

static void write_sets(hid_t file, int number, int rows, int from, int to) {
    if (from == 0) {
        digest = 0;
        put_number(file, "number", number);
        put_number(file, "rows", rows);
    }
    for (int k = from; k < to; ++k) write_set(file, number, k, rows);
    if (to == SETS) put_number(file, "digest", digest);
}

static hid_t create(const char *name, int number) {
    char path[256];
    snprintf(path, sizeof(path), name, number);
    hid_t access = access_list(), file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    CHECK(file);
    CHECK(H5Pclose(access));
    return file;
}

static hid_t reopen(const char *name, int number) {
    char path[256];
    snprintf(path, sizeof(path), name, number);
    hid_t access = access_list(), file = H5Fopen(path, H5F_ACC_RDWR, access);
    CHECK(file);
    CHECK(H5Pclose(access));
    return file;
}

static void pause_between(void) {
    const char *seconds = getenv("PAUSE");
    if (seconds) usleep((useconds_t)(atof(seconds) * 1e6));
}

static int enough(void) {
    int found = access("enough", F_OK) == 0;
#ifdef H5_HAVE_PARALLEL
    MPI_Bcast(&found, 1, MPI_INT, 0, MPI_COMM_WORLD);
#endif
    return found;
}

static void write_all(const char *how, const char *name, int first, int steps, int rows) {
    const int flushes = strcmp(how, "flush") == 0, halves = strcmp(how, "reopen") == 0;
    hid_t file = -1;
    for (int number = first; number < first + steps && !enough(); ++number) {
        if (number > first) pause_between();
        const int of_step = flushes ? rows : rows * (2 + number % 3) / 2;
        phase(number, CREATE);
        if (file < 0) file = create(name, number);
        phase(number, WRITE);
        write_sets(file, number, of_step, 0, halves ? 2 : SETS);
        if (flushes) {
            phase(number, FLUSH);
            CHECK(H5Fflush(file, H5F_SCOPE_GLOBAL));
        } else {
            phase(number, halves ? REST : CLOSE);
            CHECK(H5Fclose(file));
            if (halves) {
                phase(number, REOPEN);
                file = reopen(name, number);
                write_sets(file, number, of_step, 2, SETS);
                phase(number, CLOSE);
                CHECK(H5Fclose(file));
            }
            file = -1;
        }
        phase(number, DONE);
    }
    if (file >= 0) CHECK(H5Fclose(file));
}

/* Whether this rank's part of an open file is as it was written. */
static int is_whole(hid_t file, int number, int64_t rows) {
    int right = number >= 0 && rows > 0;
    digest = 0;
    for (int k = 0; k < SETS; ++k) {
        int64_t sum = 0;
        hid_t set = right ? H5Dopen2(file, names[k], H5P_DEFAULT) : -1;
        if (set >= 0) {
            hsize_t dims[2] = {0, 0};
            hid_t space = H5Dget_space(set);
            right = H5Sget_simple_extent_ndims(space) == 2 && H5Sget_simple_extent_dims(space, dims, NULL) == 2;
            right = right && (int64_t)dims[0] == rows && dims[1] == COLUMNS;
            H5Sclose(space);
            const int row = first_row((int)rows, rank), count = first_row((int)rows, rank + 1) - row;
            int *data = malloc(sizeof(int) * (size_t)count * COLUMNS);
            right = right && transfer(set, row, count, data, 0) >= 0;
            for (int i = 0; right && i < count * COLUMNS; ++i) {
                sum += data[i];
                right = data[i] == value(number, k, row * COLUMNS + i);
            }
            free(data);
            H5Dclose(set);
        } else {
            right = 0;
        }
        digest += sum_of_ranks(sum);
    }
    right = right && get_number(file, "digest") == digest;
    return sum_of_ranks(right) == ranks;
}

static void read_all(const char *name) {
    for (int count = 0;; ++count) {
        char path[256], line[64];
        snprintf(path, sizeof(path), name, count);
        phase(count, OPEN);
        hid_t access = access_list(), file = -1;
        H5E_BEGIN_TRY { file = H5Fopen(path, H5F_ACC_RDONLY, access); }
        H5E_END_TRY
        H5Pclose(access);
        if (file < 0) return;
        phase(count, READ);
        const int number = (int)get_number(file, "number");
        const int whole = is_whole(file, number, get_number(file, "rows"));
        const int length = snprintf(line, sizeof(line), "got %d %s\n", number, whole ? "whole" : "TORN");
        if (rank == 0 && write(STDOUT_FILENO, line, (size_t)length) != length) fail("write");
        pause_between();
        phase(count, LEAVE);
        CHECK(H5Fclose(file));
        phase(count, DONE);
    }
}

int main(int argc, char **argv) {
#ifdef H5_HAVE_PARALLEL
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
#endif
    tell(argv[1]);
    if (argc == 4)
        read_all(argv[3]);
    else if (argc == 8)
        write_all(argv[3], argv[4], atoi(argv[5]), atoi(argv[6]), atoi(argv[7]));
    else
        fail("understanding the arguments");
#ifdef H5_HAVE_PARALLEL
    MPI_Finalize();
#endif
    return 0;
}
