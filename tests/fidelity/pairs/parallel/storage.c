// Layouts of datasets that ranks write together: contiguous, chunked, filtered; when storage is allocated and filled;
// chunk caches; ranks that share a chunk.
#include <stdlib.h>

#include "parallel.h"

CASE(contiguous, "contiguous; collective and independent") {
    const hid_t f = create(file), collective = grid(f, "collective", untimed()), alone = grid(f, "independent", untimed());
    write_rows(collective, share_of(ROWS), 0, H5FD_MPIO_COLLECTIVE);
    write_rows(alone, share_of(ROWS), 5000, H5FD_MPIO_INDEPENDENT);
    const hid_t one = grid(f, "one rank", untimed());
    if (rank == ranks - 1) write_rows(one, (Share){3, 7}, 9000, H5FD_MPIO_INDEPENDENT);
    finish(f);
}

CASE(chunked, "chunked; collective and independent") {
    const hid_t f = create(file), collective = grid(f, "collective", chunked(5, 4));
    write_rows(collective, share_of(ROWS), 0, H5FD_MPIO_COLLECTIVE);
    const hid_t alone = grid(f, "independent", chunked(5, 4));
    write_rows(alone, share_of(ROWS), 5000, H5FD_MPIO_INDEPENDENT);
    const hid_t whole = grid(f, "one chunk", chunked(ROWS, COLUMNS));
    write_rows(whole, share_of(ROWS), 700, H5FD_MPIO_COLLECTIVE);
    const hid_t tiny = grid(f, "tiny chunks", chunked(1, 1));
    write_rows(tiny, share_of(ROWS), 800, H5FD_MPIO_COLLECTIVE);
    finish(f);
}

CASE(filtered, "filtered") {
    const hid_t f = create(file);
    for (int k = 0; k < 5; ++k) {
        char name[32];
        snprintf(name, sizeof(name), "filters %d", k);
        const hid_t list = chunked(k == 4 ? 5 : 4, COLUMNS);
        if (k != 1) H5Pset_shuffle(list);
        if (k < 2 || k == 4) H5Pset_deflate(list, 6);
        if (k == 3) H5Pset_szip(list, H5_SZIP_NN_OPTION_MASK, 8);
        if (k >= 2) H5Pset_fletcher32(list);
        const hid_t x = grid(f, name, list);
        Share mine = share_of(ROWS / 4);
        mine = (Share){mine.first * 4, mine.count * 4};
        write_rows(x, k == 4 ? share_of(ROWS) : mine, k * 3000, H5FD_MPIO_COLLECTIVE);
        // Again: chunks change their sizes. HDF5 1.10 hangs, on disk too, when that happens to chunks that ranks share.
        if (k < 4) write_rows(x, mine, k * 3001, H5FD_MPIO_COLLECTIVE);
        say("  %llu bytes stored", (unsigned long long)H5Dget_storage_size(x));
    }
    finish(f);
}

CASE(filtered_and_independent, "filtered; failing calls") {
    const hid_t f = create(file), list = chunked(4, COLUMNS);
    H5Pset_deflate(list, 6);
    const hid_t x = grid(f, "x", list);
    write_rows(x, share_of(ROWS), 0, H5FD_MPIO_INDEPENDENT);  // HDF5 does not do that, and says so
    finish(f);
}

CASE(allocation, "early, late and incremental allocation; fill values") {
    const hid_t f = create(file);
    const int fill = -5;
    for (int alloc = H5D_ALLOC_TIME_EARLY; alloc <= H5D_ALLOC_TIME_INCR; ++alloc)
        for (int when = H5D_FILL_TIME_ALLOC; when <= H5D_FILL_TIME_IFSET; ++when)
            for (int kind = 0; kind < 3; ++kind) {
                if (when == H5D_FILL_TIME_NEVER && kind == 2) continue;
                char name[32];
                snprintf(name, sizeof(name), "%d %d %d", alloc, when, kind);
                const hid_t list = kind ? chunked(5, 4) : untimed();
                H5Pset_alloc_time(list, (H5D_alloc_time_t)alloc);
                H5Pset_fill_time(list, (H5D_fill_time_t)when);
                H5Pset_fill_value(list, H5T_NATIVE_INT, &fill);
                if (kind == 2) H5Pset_deflate(list, 3);
                const hid_t x = grid(f, name, list);
                if (x < 0) continue;
                say("  %llu bytes stored at first", (unsigned long long)H5Dget_storage_size(x));
                if (when != H5D_FILL_TIME_NEVER) write_rows(x, rank == 0 ? (Share){7, 9} : (Share){0, 0}, 0, H5FD_MPIO_COLLECTIVE);
                else write_rows(x, share_of(ROWS), 0, H5FD_MPIO_COLLECTIVE);  // what nobody writes has no value then
                say("  %llu bytes stored", (unsigned long long)H5Dget_storage_size(x));
                H5Dclose(x);
            }
    finish(f);
}

CASE(fill_values, "fill values") {
    const hid_t f = create(file);
    const double pi = 3.25;
    const int32_t pair[2] = {-1, 77};
    hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(pair));
    H5Tinsert(type, "a", 0, H5T_STD_I32LE);
    H5Tinsert(type, "b", 4, H5T_STD_I32LE);
    for (int layout = 0; layout < 2; ++layout) {
        hid_t list = layout ? chunked(7, 3) : untimed();
        H5Pset_fill_value(list, H5T_NATIVE_DOUBLE, &pi);
        TRY(H5Dcreate2(f, layout ? "double, chunks" : "double", H5T_IEEE_F32BE, space(ROWS, COLUMNS), H5P_DEFAULT, list, H5P_DEFAULT));
        list = layout ? chunked(7, 3) : untimed();
        H5Pset_fill_value(list, type, pair);
        TRY(H5Dcreate2(f, layout ? "pair, chunks" : "pair", type, space(ROWS, COLUMNS), H5P_DEFAULT, list, H5P_DEFAULT));
        grid(f, layout ? "no value, chunks" : "no value", layout ? chunked(7, 3) : untimed());
        list = layout ? chunked(7, 3) : untimed();
        H5Pset_fill_value(list, H5T_NATIVE_INT, NULL);
        H5Pset_fill_time(list, H5D_FILL_TIME_IFSET);
        write_rows(grid(f, layout ? "undefined, chunks" : "undefined", list), share_of(ROWS), 1, H5FD_MPIO_COLLECTIVE);
    }
    finish(f);
}

CASE(chunk_caches, "chunk caches set by the program") {
    const hid_t f = create(file);
    for (int k = 0; k < 4; ++k) {
        static const size_t sizes[] = {0, 64, 1 << 20, 300};
        char name[32];
        snprintf(name, sizeof(name), "cache %d", k);
        const hid_t access = H5Pcreate(H5P_DATASET_ACCESS), list = chunked(3, 5);
        H5Pset_chunk_cache(access, k == 3 ? 1 : 101, sizes[k], k == 2 ? 1.0 : 0.0);
        if (k == 2) H5Pset_deflate(list, 2);
        const hid_t x = TRY(H5Dcreate2(f, name, H5T_STD_I32LE, space(ROWS, COLUMNS), H5P_DEFAULT, list, access));
        write_rows(x, share_of(ROWS), k, H5FD_MPIO_COLLECTIVE);
        MPI_Barrier(MPI_COMM_WORLD);
        if (k != 2) write_rows(x, (Share){share_of(ROWS).first, share_of(ROWS).count ? 1 : 0}, 40 * k, H5FD_MPIO_INDEPENDENT);
        MPI_Barrier(MPI_COMM_WORLD);
        say_rows(x, share_of(ROWS), H5FD_MPIO_COLLECTIVE);
        H5Dclose(x);
    }
    finish(f);
}

LOOK(chunk_caches) {
    const hid_t access = shared_by(MPI_COMM_WORLD);
    H5Pset_cache(access, 0, 7, 100, 0.75);
    const hid_t f = TRY(H5Fopen(file, H5F_ACC_RDONLY, access));
    for (int k = 0; k < 4; ++k) {
        char name[32];
        snprintf(name, sizeof(name), "cache %d", k);
        const hid_t set = H5Pcreate(H5P_DATASET_ACCESS);
        H5Pset_chunk_cache(set, 11, k % 2 ? 0 : 1 << 16, 1.0);
        const hid_t x = TRY(H5Dopen2(f, name, set));
        for (int again = 0; again < 2; ++again)
            say_rows(x, share_of(ROWS), again ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
        H5Dclose(x);
    }
    finish(f);
}

// Every rank writes a part of every chunk: columns in turn, with the ranks before and after it in the same rows.
CASE(halves_of_a_chunk, "ranks writing halves of one chunk") {
    const hid_t f = create(file);
    for (int k = 0; k < 4; ++k) {
        char name[32];
        snprintf(name, sizeof(name), "shared %d", k);
        const hid_t list = chunked(k % 2 ? ROWS : 5, COLUMNS);
        if (k == 2) H5Pset_deflate(list, 4);
        const hid_t x = grid(f, name, list), in_file = H5Dget_space(x);
        const hsize_t start[2] = {0, (hsize_t)rank}, stride[2] = {1, (hsize_t)ranks};
        const hsize_t size[2] = {ROWS, (hsize_t)((COLUMNS - rank + ranks - 1) / ranks)};
        H5Sselect_hyperslab(in_file, H5S_SELECT_SET, start, stride, size, NULL);
        const hsize_t n = size[0] * size[1];
        int* const values = malloc(sizeof(int) * n);
        for (hsize_t i = 0; i < n; ++i) values[i] = rank * 100000 + (int)i;
        const hid_t memory = H5Screate_simple(1, &n, NULL);
        const hid_t mode = transfer(k == 3 ? H5FD_MPIO_INDEPENDENT : H5FD_MPIO_COLLECTIVE);
        TRY(H5Dwrite(x, H5T_NATIVE_INT, memory, in_file, mode, values));
        free(values);
    }
    // Halves written one after the other, by two ranks that leave the other half alone.
    const hid_t x = grid(f, "in turns", chunked(ROWS, COLUMNS));
    for (int turn = 0; turn < 2; ++turn) {
        if (rank == (turn ? ranks - 1 : 0)) write_rows(x, (Share){turn ? ROWS / 2 : 0, ROWS / 2}, turn, H5FD_MPIO_INDEPENDENT);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    finish(f);
}

CASE(stored_chunks, "chunks written as they are stored") {
    const hid_t f = create(file), list = chunked(4, COLUMNS);
    H5Pset_alloc_time(list, H5D_ALLOC_TIME_EARLY);
    const hid_t x = grid(f, "x", list);
    int values[4 * COLUMNS];
    for (int i = 0; i < 4 * COLUMNS; ++i) values[i] = rank * 1000 + i;
    for (int chunk = rank; chunk < ROWS / 4; chunk += ranks) {
        const hsize_t at[2] = {(hsize_t)chunk * 4, 0};
        TRY(H5Dwrite_chunk(x, H5P_DEFAULT, 0, at, sizeof(values), values));
    }
    finish(f);
}

LOOK(stored_chunks) {
    const hid_t f = open_all(file, H5F_ACC_RDONLY), x = TRY(H5Dopen2(f, "x", H5P_DEFAULT));
    for (int chunk = rank; chunk < ROWS / 4; chunk += ranks) {
        const hsize_t at[2] = {(hsize_t)chunk * 4, 0};
        int values[4 * COLUMNS] = {0};
        uint32_t mask = 9;
        hsize_t size = 0;
        TRY(H5Dget_chunk_storage_size(x, at, &size));
        TRY(H5Dread_chunk(x, H5P_DEFAULT, at, &mask, values));
        say("  chunk %d: %llu bytes, mask %u, %d to %d", chunk, (unsigned long long)size, mask, values[0], values[39]);
    }
    finish(f);
}

CASE(small_and_large, "large datasets (24 MB)") {
    const hid_t f = create(file);
    const hsize_t total = 3 << 20, first = total * (hsize_t)rank / (hsize_t)ranks;
    const hsize_t mine = total * (hsize_t)(rank + 1) / (hsize_t)ranks - first;
    double* values = malloc(sizeof(double) * mine);
    for (hsize_t i = 0; i < mine; ++i) values[i] = (double)(first + i) / 3;
    for (int layout = 0; layout < 2; ++layout) {
        const hid_t x = TRY(H5Dcreate2(f, layout ? "chunks" : "whole", H5T_NATIVE_DOUBLE, space(total, 0), H5P_DEFAULT,
                                       layout ? chunked(100000, 0) : untimed(), H5P_DEFAULT));
        const hid_t in_file = H5Dget_space(x), memory = space(mine, 0);
        H5Sselect_hyperslab(in_file, H5S_SELECT_SET, &first, NULL, &mine, NULL);
        TRY(H5Dwrite(x, H5T_NATIVE_DOUBLE, memory, in_file, transfer(H5FD_MPIO_COLLECTIVE), values));
    }
    const int few[3] = {rank, rank + 1, rank + 2};
    for (int r = 0; r < ranks; ++r) {  // all ranks take part in making it; one writes it
        char name[32];
        snprintf(name, sizeof(name), "of rank %d", r);
        const hid_t list = untimed();
        H5Pset_layout(list, H5D_COMPACT);
        const hid_t x = TRY(H5Dcreate2(f, name, H5T_NATIVE_INT, space(3, 0), H5P_DEFAULT, list, H5P_DEFAULT));
        const int same[3] = {r, r + 1, r + 2};
        TRY(H5Dwrite(x, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, r == rank ? few : same));
    }
    free(values);
    finish(f);
}
