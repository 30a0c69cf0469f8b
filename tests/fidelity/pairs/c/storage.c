// Layouts, filters, fill values, extents, external storage, virtual datasets, chunks as they are stored.
#include <stdlib.h>

#include "pair.h"

// HDF5 2.0 has it under the name of its first version.
#pragma weak H5Dread_chunk
extern herr_t H5Dread_chunk1(hid_t dataset, hid_t list, const hsize_t* at, uint32_t* mask, void* to) __attribute__((weak));

static herr_t read_chunk(hid_t dataset, hid_t list, const hsize_t* at, uint32_t* mask, void* to) {
    return H5Dread_chunk ? H5Dread_chunk(dataset, list, at, mask, to) : H5Dread_chunk1(dataset, list, at, mask, to);
}

static hid_t create(const char* file) {
    return H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
}

static hid_t chunked(hsize_t rows, hsize_t columns) {
    const hsize_t chunk[2] = {rows, columns};
    const hid_t list = untimed();
    H5Pset_chunk(list, columns ? 2 : 1, chunk);
    return list;
}

static hid_t growing(hsize_t rows, hsize_t columns) {
    const hsize_t dims[2] = {rows, columns}, most[2] = {H5S_UNLIMITED, H5S_UNLIMITED};
    return H5Screate_simple(columns ? 2 : 1, dims, most);
}

// Creates and writes a dataset of ints 0, 1, 2, ...
static hid_t counted(hid_t in, const char* name, hid_t of, hid_t list) {
    const hid_t id = H5Dcreate2(in, name, H5T_STD_I32LE, of, H5P_DEFAULT, list, H5P_DEFAULT);
    tried(name, id);
    if (id < 0) return id;
    const int n = (int)H5Sget_simple_extent_npoints(of);
    int* values = malloc(sizeof(int) * (size_t)(n + 1));
    for (int i = 0; i < n; ++i) values[i] = i % 100;
    TRY(H5Dwrite(id, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    free(values);
    return id;
}

static void look_at(const char* file, int n, const char* const* names) {
    const hid_t f = TRY(H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT));
    for (int i = 0; i < n; ++i) {
        const hid_t x = H5Dopen2(f, names[i], H5P_DEFAULT);
        tried(names[i], x);
        if (x < 0) continue;
        H5D_space_status_t status;
        H5Dget_space_status(x, &status);
        say("  %llu bytes stored, status %d", (unsigned long long)H5Dget_storage_size(x), (int)status);
        say_values(x, H5T_NATIVE_INT);
        H5Dclose(x);
    }
    TRY(H5Fclose(f));
}

CASE(layouts, "contiguous; compact; chunked; resizable; fill times") {
    const hid_t f = create(file);
    hid_t list = untimed();
    H5Dclose(counted(f, "contiguous", space(6, 7), list));
    H5Pset_layout(list, H5D_COMPACT);
    H5Dclose(counted(f, "compact", space(6, 7), list));
    TRY(H5Dcreate2(f, "too large", H5T_NATIVE_INT, space(100000, 0), H5P_DEFAULT, list, H5P_DEFAULT));
    H5Dclose(counted(f, "chunked", space(6, 7), chunked(4, 3)));
    H5Dclose(counted(f, "resizable", growing(6, 7), chunked(4, 3)));
    TRY(H5Dcreate2(f, "no chunks", H5T_NATIVE_INT, growing(6, 7), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    const int fill = -5;
    for (int alloc = H5D_ALLOC_TIME_EARLY; alloc <= H5D_ALLOC_TIME_INCR; ++alloc)
        for (int when = H5D_FILL_TIME_ALLOC; when <= H5D_FILL_TIME_IFSET; ++when)
            for (int layout = 0; layout < 2; ++layout) {
                char name[32];
                snprintf(name, sizeof(name), "%d %d %d", alloc, when, layout);
                list = layout ? chunked(5, 0) : untimed();
                H5Pset_alloc_time(list, (H5D_alloc_time_t)alloc);
                H5Pset_fill_time(list, (H5D_fill_time_t)when);
                H5Pset_fill_value(list, H5T_NATIVE_INT, &fill);
                const hid_t x = H5Dcreate2(f, name, H5T_STD_I32BE, space(12, 0), H5P_DEFAULT, list, H5P_DEFAULT);
                tried(name, x);
                if (x >= 0) say("  %llu", (unsigned long long)H5Dget_storage_size(x));
                if (x >= 0) H5Dclose(x);
            }
    TRY(H5Fclose(f));
}

LOOK(layouts) {
    const char* const names[] = {"contiguous", "compact", "chunked", "resizable", "1 0 0", "1 1 1", "2 2 0", "3 2 1"};
    look_at(file, 8, names);
}

// A filter that the program brings: every byte is turned over.
static size_t turn_over(unsigned flags, size_t n, const unsigned* values, size_t size, size_t* room, void** buffer) {
    (void)flags;
    (void)n;
    (void)values;
    (void)room;
    for (size_t i = 0; i < size; ++i) ((unsigned char*)*buffer)[i] ^= 0xff;
    return size;
}

static const H5Z_class2_t kTurnOver = {H5Z_CLASS_T_VERS, 311, 1, 1, "turn over", NULL, NULL, turn_over};

CASE(filters, "gzip; shuffle; szip; fletcher32; scale-offset; plugin filters") {
    TRY(H5Zregister(&kTurnOver));
    const hid_t f = create(file);
    const hid_t numbers = space(40, 30);
    hid_t list = chunked(16, 16);
    TRY(H5Pset_deflate(list, 6));
    H5Dclose(counted(f, "gzip", numbers, list));
    TRY(H5Pset_fletcher32(list));
    H5Dclose(counted(f, "gzip and sum", numbers, list));
    list = chunked(16, 16);
    TRY(H5Pset_shuffle(list));
    TRY(H5Pset_deflate(list, 1));
    H5Dclose(counted(f, "shuffled", numbers, list));
    list = chunked(16, 16);
    TRY(H5Pset_szip(list, H5_SZIP_NN_OPTION_MASK, 8));
    const hid_t szip = counted(f, "szip", numbers, list);
    if (szip >= 0) H5Dclose(szip);
    list = chunked(16, 16);
    TRY(H5Pset_scaleoffset(list, H5Z_SO_INT, 0));
    H5Dclose(counted(f, "scaled", numbers, list));
    list = chunked(16, 16);
    TRY(H5Pset_nbit(list));
    H5Dclose(counted(f, "bits", numbers, list));
    list = chunked(16, 16);
    TRY(H5Pset_filter(list, 311, H5Z_FLAG_MANDATORY, 0, NULL));
    H5Dclose(counted(f, "own", numbers, list));
    list = chunked(16, 16);
    TRY(H5Pset_filter(list, 312, H5Z_FLAG_MANDATORY, 0, NULL));
    TRY(H5Dcreate2(f, "none", H5T_NATIVE_INT, numbers, H5P_DEFAULT, list, H5P_DEFAULT));
    TRY(H5Zfilter_avail(312));
    TRY(H5Fclose(f));
}

LOOK(filters) {
    const char* const names[] = {"gzip", "gzip and sum", "shuffled", "szip", "scaled", "bits", "own"};
    look_at(file, 7, names);  // without the program's filter
    TRY(H5Zregister(&kTurnOver));
    look_at(file, 1, names + 6);
}

CASE(fills, "fill values; extents; partial writes; overwrites; filling memory") {
    const hid_t f = create(file);
    const int fill = 77;
    hid_t list = chunked(7, 5);
    H5Pset_fill_value(list, H5T_NATIVE_INT, &fill);
    hid_t x = counted(f, "resized", growing(20, 20), list);
    const hsize_t sizes[][2] = {{3, 20}, {20, 3}, {9, 9}, {0, 4}, {30, 2}, {11, 12}};
    for (int i = 0; i < 6; ++i) {
        TRY(H5Dset_extent(x, sizes[i]));
        say_values(x, H5T_NATIVE_INT);
        const hsize_t start[2] = {1, 0}, count[2] = {2, 2};
        const hid_t part = H5Dget_space(x);
        if (H5Sselect_hyperslab(part, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 && H5Sselect_valid(part) > 0) {
            const int four[4] = {i, i, i, i};
            TRY(H5Dwrite(x, H5T_NATIVE_INT, space(2, 2), part, H5P_DEFAULT, four));
        }
    }
    H5Dclose(x);
    x = counted(f, "fixed", space(6, 4), untimed());
    const hsize_t larger[2] = {7, 4}, points[6] = {0, 1, 5, 3, 2, 2};
    TRY(H5Dset_extent(x, larger));
    hid_t some = H5Dget_space(x);
    TRY(H5Sselect_elements(some, H5S_SELECT_SET, 3, points));
    const double three[3] = {-1.5, 1e12, 7.9};
    TRY(H5Dwrite(x, H5T_NATIVE_DOUBLE, space(3, 0), some, H5P_DEFAULT, three));
    H5Dclose(x);
    int memory[12];
    for (int i = 0; i < 12; ++i) memory[i] = i;
    const hid_t part = space(12, 0);
    const hsize_t start = 2, stride = 3, count = 3;
    H5Sselect_hyperslab(part, H5S_SELECT_SET, &start, &stride, &count, NULL);
    const short filling = 300;
    TRY(H5Dfill(&filling, H5T_NATIVE_SHORT, memory, H5T_NATIVE_INT, part));
    x = H5Dcreate2(f, "filled memory", H5T_STD_I32LE, space(12, 0), H5P_DEFAULT, untimed(), H5P_DEFAULT);
    for (int i = 0; i < 3; ++i) TRY(H5Dwrite(x, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, memory));
    H5Dclose(x);
    TRY(H5Fclose(f));
}

LOOK(fills) {
    const char* const names[] = {"resized", "fixed", "filled memory"};
    look_at(file, 3, names);
}

CASE(spaces, "zero sizes; 32 dimensions; null and scalar spaces") {
    const hid_t f = create(file);
    hsize_t dims[33];
    for (int i = 0; i < 33; ++i) dims[i] = i < 10 ? 2 : 1;
    H5Dclose(counted(f, "rank 32", H5Screate_simple(32, dims, NULL), untimed()));
    TRY(H5Screate_simple(33, dims, NULL));
    H5Dclose(counted(f, "nothing", space(0, 0), untimed()));
    H5Dclose(counted(f, "scalar", H5Screate(H5S_SCALAR), untimed()));
    H5Dclose(TRY(H5Dcreate2(f, "null", H5T_STD_I32LE, H5Screate(H5S_NULL), H5P_DEFAULT, untimed(), H5P_DEFAULT)));
    TRY(H5Fclose(f));
}

LOOK(spaces) {
    const char* const names[] = {"rank 32", "nothing", "scalar", "null"};
    look_at(file, 4, names);
}

CASE(external, "external storage") {
    const hid_t f = create(file), list = untimed();
    TRY(H5Pset_external(list, "c-raw-1.bin", 8, 40));
    TRY(H5Pset_external(list, "c-raw-2.bin", 0, H5F_UNLIMITED));
    H5Dclose(counted(f, "raw", space(20, 0), list));
    TRY(H5Fclose(f));
}

LOOK(external) {
    const char* const names[] = {"raw"};
    look_at(file, 1, names);
}

CASE(virtuals, "virtual datasets", PAIR) {
    const hid_t g = create(target(file));
    H5Dclose(counted(g, "part", space(10, 0), untimed()));
    TRY(H5Fclose(g));
    const hid_t f = create(file), list = untimed(), all = space(3, 10);
    const hsize_t start[2] = {1, 0}, count[2] = {1, 10};
    const int fill = -9;
    H5Pset_fill_value(list, H5T_NATIVE_INT, &fill);
    H5Sselect_hyperslab(all, H5S_SELECT_SET, start, NULL, count, NULL);
    TRY(H5Pset_virtual(list, all, target(file), "part", space(10, 0)));
    const hsize_t first[2] = {0, 0};
    H5Sselect_hyperslab(all, H5S_SELECT_SET, first, NULL, count, NULL);
    TRY(H5Pset_virtual(list, all, "no-such-file.h5", "part", space(10, 0)));
    H5Dclose(TRY(H5Dcreate2(f, "all", H5T_STD_I32LE, space(3, 10), H5P_DEFAULT, list, H5P_DEFAULT)));
    TRY(H5Fclose(f));
}

LOOK(virtuals) {
    const char* const names[] = {"all"};
    look_at(file, 1, names);
}

CASE(chunks, "chunk calls") {
    const hid_t f = create(file), list = chunked(2, 4);
    H5Pset_deflate(list, 3);
    const hid_t x = counted(f, "x", space(6, 8), list);
    const hsize_t at[2] = {2, 4}, wrong[2] = {1, 0};
    unsigned mask = 9;
    unsigned char raw[256];
    hsize_t size = 0;
    TRY(H5Dget_chunk_storage_size(x, at, &size));
    TRY(read_chunk(x, H5P_DEFAULT, at, &mask, raw));
    const hsize_t to[2] = {4, 0};
    TRY(H5Dwrite_chunk(x, H5P_DEFAULT, mask, to, (size_t)size, raw));
    const int plain[8] = {9, 8, 7, 6, 5, 4, 3, 2};
    const hsize_t other[2] = {0, 0};
    TRY(H5Dwrite_chunk(x, H5P_DEFAULT, 1, other, sizeof(plain), plain));
    TRY(H5Dwrite_chunk(x, H5P_DEFAULT, 0, wrong, sizeof(plain), plain));
    H5Dclose(x);
    TRY(H5Fclose(f));
}

LOOK(chunks) {
    const hid_t f = TRY(H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT));
    const hid_t x = TRY(H5Dopen2(f, "x", H5P_DEFAULT));
    hsize_t n = 0;
    TRY(H5Dget_num_chunks(x, H5S_ALL, &n));
    for (hsize_t i = 0; i < n; ++i) {
        hsize_t at[2], size;
        unsigned mask, stored = 0;
        haddr_t address;
        unsigned char raw[256];
        TRY(H5Dget_chunk_info(x, H5S_ALL, i, at, &mask, &address, &size));
        TRY(read_chunk(x, H5P_DEFAULT, at, &stored, raw));
        say("%d %d: mask %u %u, %d bytes at %d, %02x %02x", (int)at[0], (int)at[1], mask, stored, (int)size, (int)address, raw[2], raw[size - 1]);
    }
    say_values(x, H5T_NATIVE_INT);
    H5Dclose(x);
    TRY(H5Fclose(f));
}
