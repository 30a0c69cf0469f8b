// How values travel: collective and independent, selections of every kind, conversions, and what HDF5 says it did.
#include <stdlib.h>

#include "parallel.h"

// How HDF5 moved the values, in its own codes.
static void say_how(hid_t list) {
    H5D_mpio_actual_io_mode_t io;
    H5D_mpio_actual_chunk_opt_mode_t chunks;
    uint32_t here = 0, anywhere = 0;
    H5Pget_mpio_actual_io_mode(list, &io);
    H5Pget_mpio_actual_chunk_opt_mode(list, &chunks);
    H5Pget_mpio_no_collective_cause(list, &here, &anywhere);
    say("  mode %d, chunks %d, not collective because of %u, %u", (int)io, (int)chunks, here, anywhere);
}

CASE(how_it_went, "collective and independent") {
    const hid_t f = create(file);
    for (int k = 0; k < 7; ++k) {
        const char* const name = numbered(k);
        const hid_t x = grid(f, name, k == 0 ? untimed() : chunked(5, 4)), list = transfer(H5FD_MPIO_COLLECTIVE);
        const Share mine = share_of(ROWS);
        const hid_t in_file = rows_of(x, mine), memory = space(mine.count ? mine.count : 1, COLUMNS);
        if (mine.count == 0) H5Sselect_none(memory);
        if (k == 2) TRY(H5Pset_dxpl_mpio_chunk_opt(list, H5FD_MPIO_CHUNK_ONE_IO));
        if (k == 3) TRY(H5Pset_dxpl_mpio_chunk_opt(list, H5FD_MPIO_CHUNK_MULTI_IO));
        if (k == 4) TRY(H5Pset_dxpl_mpio_collective_opt(list, H5FD_MPIO_INDIVIDUAL_IO));
        if (k == 5) TRY(H5Pset_dxpl_mpio_chunk_opt_num(list, 1));
        double values[ROWS * COLUMNS];
        int ints[ROWS * COLUMNS];
        for (int i = 0; i < ROWS * COLUMNS; ++i) values[i] = ints[i] = rank * 1000 + i;
        if (k == 6) TRY(H5Dwrite(x, H5T_NATIVE_DOUBLE, memory, in_file, list, values));  // a conversion breaks it up
        else TRY(H5Dwrite(x, H5T_NATIVE_INT, memory, in_file, list, ints));
        say_how(list);
        TRY(H5Dread(x, H5T_NATIVE_INT, memory, in_file, list, ints));
        say_how(list);
    }
    finish(f);
}

CASE(some_have_nothing, "ranks without anything to write or read") {
    const hid_t f = create(file);
    for (int k = 0; k < 3; ++k) {
        const char* const name = numbered(k);
        const hid_t list = k ? chunked(5, 4) : untimed();
        if (k == 2) H5Pset_deflate(list, 1);
        const hid_t x = grid(f, name, list);
        const int mine = rank == ranks - 1;
        write_rows(x, mine ? (Share){2, 17} : (Share){0, 0}, 0, H5FD_MPIO_COLLECTIVE);
        write_rows(x, (Share){0, 0}, 0, H5FD_MPIO_COLLECTIVE);
        say_rows(x, rank == 0 ? (Share){0, ROWS} : (Share){0, 0}, H5FD_MPIO_COLLECTIVE);
    }
    const hid_t none = TRY(H5Dcreate2(f, "zero", H5T_NATIVE_INT, space(0, 0), H5P_DEFAULT, untimed(), H5P_DEFAULT));
    int value = 0;
    TRY(H5Dwrite(none, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, transfer(H5FD_MPIO_COLLECTIVE), &value));
    finish(f);
}

CASE(selections, "hyperslabs, their unions, and points") {
    const hid_t f = create(file);
    const hsize_t dims[3] = {12, 9, 8}, chunk[3] = {5, 4, 3};
    for (int k = 0; k < 6; ++k) {
        const char* const name = numbered(k);
        const hid_t list = untimed();
        if (k % 2) H5Pset_chunk(list, 3, chunk);
        const int fill = -3;
        H5Pset_fill_value(list, H5T_NATIVE_INT, &fill);
        const hid_t x = TRY(H5Dcreate2(f, name, H5T_STD_I32BE, H5Screate_simple(3, dims, NULL), H5P_DEFAULT, list, H5P_DEFAULT));
        const hid_t in_file = H5Dget_space(x);
        H5Sselect_none(in_file);
        if (k < 2) {  // every ranks-th column, in blocks
            const hsize_t start[3] = {1, 0, (hsize_t)rank}, stride[3] = {3, 3, (hsize_t)ranks}, n[3] = {3, 3, (hsize_t)((8 - rank + ranks - 1) / ranks)}, block[3] = {2, 2, 1};
            H5Sselect_hyperslab(in_file, H5S_SELECT_SET, start, stride, n, block);
        } else if (k < 4) {  // unions and differences
            const hsize_t start[3] = {(hsize_t)(2 * rank), 0, 0}, n[3] = {2, 9, 8}, hole[3] = {2, 3, 8}, at[3] = {(hsize_t)(2 * rank), 3, 0};
            const hsize_t corner[3] = {(hsize_t)(2 * rank), 4, 2}, one[3] = {1, 1, 3};
            H5Sselect_hyperslab(in_file, H5S_SELECT_SET, start, NULL, n, NULL);
            H5Sselect_hyperslab(in_file, H5S_SELECT_NOTB, at, NULL, hole, NULL);
            H5Sselect_hyperslab(in_file, H5S_SELECT_OR, corner, NULL, one, NULL);
        } else {  // points, in no order
            hsize_t points[40][3];
            size_t n = 0;
            for (int i = 0; i < 40; ++i) {
                const int number = i * 53 % 864;
                if (number % ranks != rank) continue;
                points[n][0] = (hsize_t)(number / 72);
                points[n][1] = (hsize_t)(number / 8 % 9);
                points[n++][2] = (hsize_t)(number % 8);
            }
            if (n) H5Sselect_elements(in_file, H5S_SELECT_SET, n, &points[0][0]);
        }
        const hssize_t n = H5Sget_select_npoints(in_file);
        // Memory has gaps, and starts behind some.
        const hsize_t room = 2 * (hsize_t)n + 5, start = 3, stride = 2, size = (hsize_t)n;
        const hid_t memory = H5Screate_simple(1, &room, NULL);
        if (n) H5Sselect_hyperslab(memory, H5S_SELECT_SET, &start, &stride, &size, NULL);
        else H5Sselect_none(memory);
        int* values = malloc(sizeof(int) * room);
        for (hsize_t i = 0; i < room; ++i) values[i] = rank * 10000 + (int)i;
        const hid_t mode = transfer(k % 3 ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
        say("  %lld points", (long long)n);
        TRY(H5Dwrite(x, H5T_NATIVE_INT, memory, in_file, mode, values));
        MPI_Barrier(MPI_COMM_WORLD);
        memset(values, 0, sizeof(int) * room);
        TRY(H5Dread(x, H5T_NATIVE_INT, memory, in_file, mode, values));
        long long sum = 0;
        for (hsize_t i = 0; i < room; ++i) sum = sum * 31 + values[i];
        say("  sum %lld", sum);
        free(values);
        H5Dclose(x);
    }
    finish(f);
}

LOOK(selections) {
    const hid_t f = open_all(file, H5F_ACC_RDONLY);
    for (int k = 0; k < 6; ++k) {
        const char* const name = numbered(k);
        const hid_t x = TRY(H5Dopen2(f, name, H5P_DEFAULT)), in_file = H5Dget_space(x);
        const hsize_t start[3] = {0, (hsize_t)(rank % 9), 1}, stride[3] = {2, 3, 4}, n[3] = {6, (hsize_t)(rank % 9 < 3 ? 3 : rank % 9 < 6 ? 2 : 1), 2};
        H5Sselect_hyperslab(in_file, H5S_SELECT_SET, start, stride, n, NULL);
        const hsize_t size = n[0] * n[1] * n[2];
        double values[64] = {0};
        const hid_t memory = H5Screate_simple(1, &size, NULL);
        TRY(H5Dread(x, H5T_NATIVE_DOUBLE, memory, in_file, transfer(k % 2 ? H5FD_MPIO_INDEPENDENT : H5FD_MPIO_COLLECTIVE), values));
        for (hsize_t i = 0; i < size; i += 5) say("  %g", values[i]);
        H5Dclose(x);
    }
    finish(f);
    look_through(file, MPI_COMM_WORLD);
}

CASE(overwritten, "overwrites") {
    const hid_t f = create(file), x = grid(f, "x", untimed()), chunks = grid(f, "chunks", chunked(7, 7));
    for (int k = 0; k < 5; ++k) {
        const Share mine = share_of((hsize_t)(ROWS - 3 * k));
        write_rows(x, mine, 10000 * k, k % 2 ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
        MPI_Barrier(MPI_COMM_WORLD);
        write_rows(chunks, mine, 10000 * k, k % 2 ? H5FD_MPIO_INDEPENDENT : H5FD_MPIO_COLLECTIVE);
        MPI_Barrier(MPI_COMM_WORLD);
        say_rows(x, share_of(ROWS), H5FD_MPIO_COLLECTIVE);
        say_rows(chunks, share_of(ROWS), H5FD_MPIO_COLLECTIVE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    finish(f);
}

CASE(failing_transfers, "failing calls") {
    const hid_t f = create(file), x = grid(f, "x", untimed()), chunks = grid(f, "chunks", chunked(5, 4));
    int values[ROWS * COLUMNS] = {0};
    const hsize_t start[2] = {ROWS - 1, 0}, size[2] = {5, COLUMNS};
    const hid_t outside = H5Dget_space(x);
    H5Sselect_hyperslab(outside, H5S_SELECT_SET, start, NULL, size, NULL);
    TRY(H5Dwrite(x, H5T_NATIVE_INT, space(5, COLUMNS), outside, transfer(H5FD_MPIO_COLLECTIVE), values));
    TRY(H5Dwrite(x, H5T_NATIVE_INT, space(5, COLUMNS), H5S_ALL, transfer(H5FD_MPIO_INDEPENDENT), values));
    TRY(H5Dwrite(x, H5T_C_S1, H5S_ALL, H5S_ALL, transfer(H5FD_MPIO_INDEPENDENT), values));
    TRY(H5Dcreate2(f, "x", H5T_NATIVE_INT, space(3, 0), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    TRY(H5Ldelete(f, "no such", H5P_DEFAULT));
    const hsize_t larger[2] = {ROWS + 1, COLUMNS};
    TRY(H5Dset_extent(x, larger));
    TRY(H5Dset_extent(chunks, larger));
    finish(f);
    const hid_t readable = open_all(file, H5F_ACC_RDONLY), again = TRY(H5Dopen2(readable, "x", H5P_DEFAULT));
    TRY(H5Dwrite(again, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, transfer(H5FD_MPIO_INDEPENDENT), values));
    TRY(H5Gcreate2(readable, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Dclose(again);
    finish(readable);
}
