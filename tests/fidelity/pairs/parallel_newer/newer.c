// What parallel HDF5 1.14 does besides: transfers of several datasets at once and by selections, chunks that ranks share
// and filter again, calls of event sets, files in pages.
#include <stdlib.h>

#include "parallel.h"

enum { SETS = 5, CELLS = ROWS * COLUMNS };

static hid_t filtered(hsize_t rows, hsize_t columns) {
    const hid_t list = chunked(rows, columns);
    H5Pset_shuffle(list);
    H5Pset_deflate(list, 4);
    return list;
}

// What no rank writes would otherwise be what MPICH's MPI-IO had in a buffer, on disk: it writes gaps, too.
static hid_t filled(hid_t list) {
    const int fill = 9;
    H5Pset_fill_value(list, H5T_NATIVE_INT, &fill);
    return list;
}

// A digest of integers.
static unsigned long long sum_of(const int* values, int n) {
    unsigned long long sum = 0;
    for (int i = 0; i < n; ++i) sum = sum * 31 + (unsigned)values[i];
    return sum;
}

// How HDF5 moved the values, in its own codes.
static void say_how(hid_t list) {
    uint32_t why_not = 0, how = 0, here = 0, anywhere = 0;
    TRY(H5Pget_no_selection_io_cause(list, &why_not));
    TRY(H5Pget_actual_selection_io_mode(list, &how));
    H5Pget_mpio_no_collective_cause(list, &here, &anywhere);
    say("  by selections: %u, not because of %u; not collective because of %u, %u", how, why_not, here, anywhere);
}

// Open MPI's own MPI-IO, as of 4.1, misreads the filtered chunks of this file on disk; ROMIO and memory do not.
#ifdef OPEN_MPI
#define LAST chunked
#else
#define LAST filtered
#endif

CASE(several_at_once, "several datasets at once") {
    const hid_t f = create(file);
    hid_t lists[SETS] = {untimed(), chunked(5, 4), chunked(ROWS, 3), untimed(), LAST(7, 5)};
    hid_t sets[SETS], types[SETS], in_file[SETS], in_memory[SETS];
    int values[SETS][CELLS];
    const void* from[SETS];
    void* to[SETS];
    for (int k = 0; k < SETS; ++k) {
        const char* const name = numbered(k);
        sets[k] = grid(f, name, filled(lists[k]));
        types[k] = H5T_NATIVE_INT;
        from[k] = to[k] = values[k];
    }
    for (int round = 0; round < 3; ++round) {
        const int count = round == 1 ? SETS - 1 : SETS;  // independent ranks write no filtered chunks together
        const hid_t list = transfer(round == 1 ? H5FD_MPIO_INDEPENDENT : H5FD_MPIO_COLLECTIVE);
        Share mine = share_of(ROWS - 5 * (hsize_t)round);
        for (int k = 0; k < count; ++k) {
            if (k == 3 && rank != 0) mine.count = 0;
            in_file[k] = rows_of(sets[k], mine);
            in_memory[k] = rows_of(sets[k], mine);
            for (int i = 0; i < CELLS; ++i) values[k][i] = round * 1000000 + k * 100000 + i;
            if (k == 3) mine = share_of(ROWS - 5 * (hsize_t)round);
        }
        TRY(H5Dwrite_multi((size_t)count, sets, types, in_memory, in_file, list, from));
        say_how(list);
        MPI_Barrier(MPI_COMM_WORLD);
        memset(values, 0, sizeof(values));
        const Share other = {mine.first / 2, ROWS / 3};
        for (int k = 0; k < count; ++k) in_file[k] = in_memory[k] = rows_of(sets[k], other);
        TRY(H5Dread_multi((size_t)count, sets, types, in_memory, in_file, list, to));
        say_how(list);
        for (int k = 0; k < count; ++k) say("  sum %llu", sum_of(values[k], CELLS));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    finish(f);
}

LOOK(several_at_once) {
    const hid_t f = open_all(file, H5F_ACC_RDONLY);
    hid_t sets[SETS], types[SETS], spaces[SETS];
    static double values[SETS][CELLS];
    void* to[SETS];
    for (int k = 0; k < SETS; ++k) {
        const char* const name = numbered(k);
        sets[k] = TRY(H5Dopen2(f, name, H5P_DEFAULT));
        types[k] = H5T_NATIVE_DOUBLE;
        spaces[k] = H5S_ALL;
        to[k] = values[k];
    }
    for (int independent = 0; independent < 2; ++independent) {
        const hid_t list = transfer(independent ? H5FD_MPIO_INDEPENDENT : H5FD_MPIO_COLLECTIVE);
        memset(values, 0, sizeof(values));
        TRY(H5Dread_multi(SETS, sets, types, spaces, spaces, list, to));
        say_how(list);
        for (int k = 0; k < SETS; ++k)
            for (int i = 0; i < CELLS; i += 7) say("  %g", values[k][i]);
    }
    finish(f);
    look_through(file, MPI_COMM_WORLD);
}

CASE(by_selections, "transfers by selections") {
    const hid_t f = create(file);
    const H5D_selection_io_mode_t modes[] = {H5D_SELECTION_IO_MODE_DEFAULT, H5D_SELECTION_IO_MODE_OFF, H5D_SELECTION_IO_MODE_ON};
    for (int k = 0; k < 24; ++k) {
        const char* const name = numbered(k);
        const hid_t x = grid(f, name, filled(k % 2 ? chunked(5, 4) : untimed()));
        const hid_t list = transfer(k / 2 % 2 ? H5FD_MPIO_INDEPENDENT : H5FD_MPIO_COLLECTIVE);
        const int converts = k / 4 % 2;
        TRY(H5Pset_selection_io(list, modes[k / 8]));
        TRY(H5Pset_modify_write_buf(list, converts));
        // Every ranks-th column of every third row, from a buffer with gaps.
        const hsize_t start[2] = {1, (hsize_t)rank}, stride[2] = {3, (hsize_t)ranks};
        const hsize_t n[2] = {(ROWS - 1 + 2) / 3, (hsize_t)((COLUMNS - rank + ranks - 1) / ranks)};
        const hsize_t room = 2 * n[0] * n[1] + 1, two = 2, one = 1, points = n[0] * n[1];
        const hid_t in_file = H5Dget_space(x), in_memory = H5Screate_simple(1, &room, NULL);
        H5Sselect_hyperslab(in_file, H5S_SELECT_SET, start, stride, n, NULL);
        H5Sselect_hyperslab(in_memory, H5S_SELECT_SET, &one, &two, &points, NULL);
        int ints[2 * CELLS + 1];
        double doubles[2 * CELLS + 1];
        for (int i = 0; i < (int)room; ++i) doubles[i] = ints[i] = rank * 10000 + k * 100 + i;
        if (converts) TRY(H5Dwrite(x, H5T_NATIVE_DOUBLE, in_memory, in_file, list, doubles));
        else TRY(H5Dwrite(x, H5T_NATIVE_INT, in_memory, in_file, list, ints));
        say_how(list);
        MPI_Barrier(MPI_COMM_WORLD);
        memset(ints, 0, sizeof(ints));
        TRY(H5Dread(x, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, list, ints));
        say_how(list);
        say("  sum %llu", sum_of(ints, CELLS));
        H5Dclose(x);
    }
    finish(f);
}

CASE(filtered_again, "filtered; ranks writing halves of one chunk") {
    const hid_t f = create(file);
    for (int k = 0; k < 6; ++k) {
        const char* const name = numbered(k);
        const hid_t list = filtered(7, k % 2 ? COLUMNS : 3);
        if (k >= 2) H5Pset_alloc_time(list, k >= 4 ? H5D_ALLOC_TIME_EARLY : H5D_ALLOC_TIME_INCR);
        const hid_t x = grid(f, name, k % 3 ? filled(list) : list);
        for (int round = 0; round < 4; ++round) {  // chunks grow and shrink
            const Share mine = share_of(ROWS - 4 * (hsize_t)round);
            int values[CELLS];
            for (int i = 0; i < CELLS; ++i) values[i] = round % 2 ? (int)((unsigned)(i + rank) * 2654435761u) : round;
            TRY(H5Dwrite(x, H5T_NATIVE_INT, rows_of(x, mine), rows_of(x, mine), transfer(H5FD_MPIO_COLLECTIVE), values));
            say("  %llu bytes stored", (unsigned long long)H5Dget_storage_size(x));
            say_rows(x, share_of(ROWS), H5FD_MPIO_COLLECTIVE);
        }
        H5Dclose(x);
    }
    finish(f);
}

// HDF5's own connector has done such a call when it returns.
CASE(event_sets, "calls of event sets") {
    const hid_t events = TRY(H5EScreate()), access = shared_by(MPI_COMM_WORLD);
    const hid_t f = TRY(H5Fcreate_async(file, H5F_ACC_TRUNC, H5P_DEFAULT, access, events));
    const hid_t group = TRY(H5Gcreate_async(f, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT, events));
    const hid_t of = space(ROWS, COLUMNS);
    const hid_t x = TRY(H5Dcreate_async(group, "x", H5T_STD_I32LE, of, H5P_DEFAULT, chunked(5, 4), H5P_DEFAULT, events));
    const hid_t a = TRY(H5Acreate_async(x, "a", H5T_STD_I32LE, H5Screate(H5S_SCALAR), H5P_DEFAULT, H5P_DEFAULT, events));
    int values[CELLS];
    for (int i = 0; i < CELLS; ++i) values[i] = rank * 1000 + i;
    const hid_t list = transfer(H5FD_MPIO_COLLECTIVE);
    TRY(H5Dwrite_async(x, H5T_NATIVE_INT, rows_of(x, share_of(ROWS)), rows_of(x, share_of(ROWS)), list, values, events));
    values[0] = 42;
    TRY(H5Awrite_async(a, H5T_NATIVE_INT, values, events));
    size_t left = 9;
    hbool_t failed = 9;
    TRY(H5ESwait(events, H5ES_WAIT_FOREVER, &left, &failed));
    say("  %zu left, failed: %d", left, (int)failed);
    TRY(H5Dread_async(x, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, list, values, events));
    TRY(H5Aclose_async(a, events));
    TRY(H5Dclose_async(x, events));
    TRY(H5Gclose_async(group, events));
    TRY(H5Fclose_async(f, events));
    TRY(H5ESwait(events, H5ES_WAIT_FOREVER, &left, &failed));
    say("  %zu left, failed: %d, sum %llu", left, (int)failed, sum_of(values, CELLS));
    TRY(H5ESclose(events));
}

CASE(paged, "files in pages") {
    const hid_t creation = H5Pcreate(H5P_FILE_CREATE), access = shared_by(MPI_COMM_WORLD);
    TRY(H5Pset_file_space_strategy(creation, H5F_FSPACE_STRATEGY_PAGE, 1, 1));
    TRY(H5Pset_file_space_page_size(creation, 8192));
    const hid_t f = TRY(H5Fcreate(file, H5F_ACC_TRUNC, creation, access));
    const hid_t x = grid(f, "x", untimed()), chunks = grid(f, "chunks", chunked(5, 4));
    write_rows(x, share_of(ROWS), 0, H5FD_MPIO_COLLECTIVE);
    write_rows(chunks, share_of(ROWS), 3000, H5FD_MPIO_INDEPENDENT);
    H5Dclose(grid(f, "deleted", untimed()));
    TRY(H5Ldelete(f, "deleted", H5P_DEFAULT));
    say("  %lld bytes free", (long long)H5Fget_freespace(f));
    finish(f);
    TRY(H5Pset_page_buffer_size(access, 1 << 16, 0, 0));
    const hid_t buffered = TRY(H5Fopen(file, H5F_ACC_RDONLY, access));
    if (buffered >= 0) finish(buffered);
}
