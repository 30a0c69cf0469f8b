// Files that ranks open, reopen, share in parts, leave open, and what they ask about them.
#include <stdlib.h>
#include <unistd.h>

#include "parallel.h"

CASE(reopened, "reopening read-write", AGAIN) {
    hid_t f = create(file), x = grid(f, "x", chunked(5, 4));
    write_rows(x, share_of(ROWS), 0, H5FD_MPIO_COLLECTIVE);
    H5Dclose(x);
    finish(f);
    for (int round = 1; round < 4; ++round) {
        f = open_all(file, H5F_ACC_RDWR);
        x = TRY(H5Dopen2(f, "x", H5P_DEFAULT));
        say_rows(x, share_of(ROWS), H5FD_MPIO_COLLECTIVE);
        write_rows(x, share_of((hsize_t)(ROWS / (round + 1))), 10000 * round, H5FD_MPIO_COLLECTIVE);
        H5Dclose(x);
        char name[32];
        snprintf(name, sizeof(name), "more %d", round);
        x = grid(f, name, round % 2 ? untimed() : chunked(3, 3));
        write_rows(x, share_of(ROWS), round, H5FD_MPIO_INDEPENDENT);
        H5Dclose(x);
        if (round == 2) TRY(H5Ldelete(f, "more 1", H5P_DEFAULT));
        finish(f);
        f = open_all(file, H5F_ACC_RDONLY);
        x = TRY(H5Dopen2(f, "x", H5P_DEFAULT));
        say_rows(x, share_of(ROWS), H5FD_MPIO_INDEPENDENT);
        H5Dclose(x);
        finish(f);
    }
}

// By one rank alone, with the driver for files of one process, before and after all open it together.
CASE(alone_and_together, "reopening read-write", AGAIN) {
    if (rank == 0) {
        const hid_t f = TRY(H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
        H5Dclose(grid(f, "of one", untimed()));
        finish(f);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const hid_t f = open_all(file, H5F_ACC_RDWR), x = TRY(H5Dopen2(f, "of one", H5P_DEFAULT));
    write_rows(x, share_of(ROWS), 0, H5FD_MPIO_COLLECTIVE);
    H5Dclose(x);
    finish(f);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        const hid_t again = TRY(H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT)), y = TRY(H5Dopen2(again, "of one", H5P_DEFAULT));
        say_values(y, H5T_NATIVE_INT);
        TRY(H5Gcreate2(again, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        close_all();
    }
}

CASE(closed_late, "closed while objects are open") {
    const hid_t access = shared_by(MPI_COMM_WORLD);
    H5Pset_fclose_degree(access, H5F_CLOSE_WEAK);
    const hid_t f = TRY(H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, access)), x = grid(f, "x", untimed());
    TRY(H5Fclose(f));
    write_rows(x, share_of(ROWS), 0, H5FD_MPIO_COLLECTIVE);
    TRY(H5Dclose(x));
    const hid_t readable = open_all(file, H5F_ACC_RDONLY);
    say_rows(TRY(H5Dopen2(readable, "x", H5P_DEFAULT)), share_of(ROWS), H5FD_MPIO_COLLECTIVE);
}

CASE(atomic, "atomic mode") {
    const hid_t f = create(file), x = grid(f, "x", untimed());
    hbool_t flag = 9;
    TRY(H5Fget_mpi_atomicity(f, &flag));
    say("  atomic: %d", (int)flag);
    TRY(H5Fset_mpi_atomicity(f, 1));
    TRY(H5Fget_mpi_atomicity(f, &flag));
    say("  atomic: %d", (int)flag);
    for (int writer = 0; writer < ranks; ++writer) {
        if (rank == writer) write_rows(x, (Share){0, ROWS}, 10000 * writer, H5FD_MPIO_INDEPENDENT);
        MPI_Barrier(MPI_COMM_WORLD);
        say_rows(x, (Share){0, ROWS}, H5FD_MPIO_INDEPENDENT);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    TRY(H5Fset_mpi_atomicity(f, 0));
    finish(f);
}

// All ranks write the same megabyte at once, over and over: who reads it sees what one of them wrote, never a mixture.
CASE(atomic_races, "atomic mode") {
    enum { N = 1 << 18 };
    const hid_t f = create(file), x = TRY(H5Dcreate2(f, "x", H5T_STD_I32LE, space(N, 0), H5P_DEFAULT, untimed(), H5P_DEFAULT));
    TRY(H5Fset_mpi_atomicity(f, 1));
    int* const values = malloc(sizeof(int) * N);
    int mixed = 0;
    for (int round = 0; round < 8; ++round) {
        for (int i = 0; i < N; ++i) values[i] = round * ranks + rank;
        if (H5Dwrite(x, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, transfer(H5FD_MPIO_INDEPENDENT), values) < 0) say("a write fails");
        if (H5Dread(x, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, transfer(H5FD_MPIO_INDEPENDENT), values) < 0) say("a read fails");
        for (int i = 1; i < N; ++i) mixed += values[i] != values[0];
    }
    say("  mixed: %d", mixed);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < N; ++i) values[i] = i;
    if (rank == 0) TRY(H5Dwrite(x, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, transfer(H5FD_MPIO_INDEPENDENT), values));
    free(values);
    finish(f);
}

// Two groups of ranks write a file each at the same time; a group may be empty.
CASE(sub_communicators, "sub-communicators", PAIR) {
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    for (int odd = 0; odd < (ranks > 1 ? 2 : 1); ++odd) {
        if (rank % 2 != odd) continue;
        const hid_t access = shared_by(half), f = TRY(H5Fcreate(odd ? target(file) : file, H5F_ACC_TRUNC, H5P_DEFAULT, access));
        const hid_t x = grid(f, "x", chunked(5, 4)), y = grid(f, "y", untimed());
        int of_half, in_half;
        MPI_Comm_size(half, &of_half);
        MPI_Comm_rank(half, &in_half);
        const Share mine = {(hsize_t)(ROWS * in_half / of_half), (hsize_t)(ROWS * (in_half + 1) / of_half - ROWS * in_half / of_half)};
        write_rows(x, mine, 10 * odd, H5FD_MPIO_COLLECTIVE);
        write_rows(y, mine, 20 * odd, H5FD_MPIO_INDEPENDENT);
        finish(f);
    }
    if (ranks == 1) {
        const hid_t access = shared_by(MPI_COMM_SELF);
        TRY(H5Fclose(TRY(H5Fcreate(target(file), H5F_ACC_TRUNC, H5P_DEFAULT, access))));
    }
    MPI_Comm_free(&half);
}

LOOK(sub_communicators) {
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank < (ranks + 1) / 2, rank, &half);
    look_through(file, half);
    look_through(target(file), half);
    MPI_Comm_free(&half);
}

// Files that only one rank opens, through MPI-IO.
CASE(of_one_rank, "files of one rank", PAIR) {
    if (rank == 0 || rank == ranks - 1) {
        const hid_t access = shared_by(MPI_COMM_SELF);
        for (int last = 0; last < 2; ++last) {
            if (rank != (last ? ranks - 1 : 0)) continue;
            const hid_t f = TRY(H5Fcreate(last ? target(file) : file, H5F_ACC_TRUNC, H5P_DEFAULT, access));
            write_rows(grid(f, "x", chunked(5, 4)), (Share){0, ROWS}, last, H5FD_MPIO_COLLECTIVE);
            close_all();
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

LOOK(of_one_rank) {
    look_through(file, MPI_COMM_SELF);
    look_through(target(file), MPI_COMM_SELF);
}

// Read by all ranks together, and by each with the driver for files of one process.
CASE(read_alone, "files of one rank") {
    const hid_t f = create(file);
    write_rows(grid(f, "x", chunked(5, 4)), share_of(ROWS), 0, H5FD_MPIO_COLLECTIVE);
    close_all();
}

LOOK(read_alone) {
    const hid_t f = TRY(H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT)), x = TRY(H5Dopen2(f, "x", H5P_DEFAULT));
    say_values(x, H5T_NATIVE_INT);
    say_rows(x, share_of(ROWS), H5FD_MPIO_INDEPENDENT);
}

CASE(asked_about, "hints, handles and access lists") {
    MPI_Info hints;
    MPI_Info_create(&hints);
    MPI_Info_set(hints, "cb_nodes", "1");
    MPI_Info_set(hints, "no such hint", "x");
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, hints);
    H5Pset_alignment(access, 500, 4096);
    H5Pset_meta_block_size(access, 16384);
    const hid_t f = TRY(H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, access));
    write_rows(grid(f, "x", untimed()), share_of(ROWS), 0, H5FD_MPIO_COLLECTIVE);
    const hid_t own = TRY(H5Fget_access_plist(f));
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Info info = MPI_INFO_NULL;
    TRY(H5Pget_fapl_mpio(own, &comm, &info));
    int members = 0, same = 0, given = 0;
    char value[16] = "";
    MPI_Comm_size(comm, &members);
    MPI_Comm_compare(comm, MPI_COMM_WORLD, &same);
    MPI_Info_get(info, "cb_nodes", 15, value, &given);
    say("  %d members, %s, cb_nodes %d %s", members, same == MPI_CONGRUENT ? "congruent" : "another", given, value);
    MPI_Comm_free(&comm);
    MPI_Info_free(&info);
    MPI_File* handle = NULL;
    TRY(H5Fget_vfd_handle(f, H5P_DEFAULT, (void**)&handle));
    TRY(H5Fflush(f, H5F_SCOPE_LOCAL));
    MPI_Offset size = 0;
    int atomic = 9, amode = 0;
    MPI_File_get_size(*handle, &size);
    MPI_File_get_atomicity(*handle, &atomic);
    MPI_File_get_amode(*handle, &amode);
    say("  %lld bytes, atomic %d, mode %d", (long long)size, atomic, amode);
    hsize_t bytes = 0;
    unsigned intent = 0;
    TRY(H5Fget_filesize(f, &bytes));
    TRY(H5Fget_intent(f, &intent));
    char name[64] = "";
    TRY(H5Fget_name(f, name, sizeof(name)));
    say("  %llu bytes, intent %u, name %s, free %lld", (unsigned long long)bytes, intent, name, (long long)H5Fget_freespace(f));
    finish(f);
    TRY(H5Fis_hdf5(file));
    MPI_Info_free(&hints);
}

CASE(opened_twice, "files opened twice") {
    const hid_t f = create(file), x = grid(f, "x", untimed());
    write_rows(x, share_of(ROWS), 0, H5FD_MPIO_COLLECTIVE);
    const hid_t again = open_all(file, H5F_ACC_RDWR);
    say_rows(TRY(H5Dopen2(again, "x", H5P_DEFAULT)), share_of(ROWS), H5FD_MPIO_COLLECTIVE);
    const hid_t third = TRY(H5Freopen(f));
    write_rows(grid(third, "y", chunked(5, 4)), share_of(ROWS), 9, H5FD_MPIO_COLLECTIVE);
    finish(f);
    const hid_t refused = open_all(file, H5F_ACC_RDONLY);
    if (refused >= 0) TRY(H5Fclose(refused));
    close_all();
    const hid_t access = shared_by(MPI_COMM_WORLD);
    TRY(H5Fcreate(file, H5F_ACC_EXCL, H5P_DEFAULT, access));
}

CASE(rewritten, "files opened twice") {  // at once, before anyone looks
    hid_t f = create(file);
    H5Dclose(grid(f, "first", untimed()));
    TRY(H5Fflush(f, H5F_SCOPE_GLOBAL));
    TRY(H5Gcreate2(f, "second", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    close_all();
}

CASE(no_such_file, "failing calls") {
    H5Fclose(create(file));
    const hid_t access = shared_by(MPI_COMM_WORLD);
    TRY(H5Fopen("case-no_such_file_at_all.h5", H5F_ACC_RDWR, access));
    TRY(H5Fcreate("no-such-folder/x.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access));
    TRY(H5Fis_hdf5("case-no_such_file_at_all.h5"));
}

CASE(over_a_stale_file, "a stale or huge file of that name on disk") {
    const hid_t f = create(file);
    write_rows(grid(f, "x", chunked(5, 4)), share_of(ROWS), 0, H5FD_MPIO_COLLECTIVE);
    finish(f);
}

CASE(over_a_huge_file, "a stale or huge file of that name on disk") {
    const hid_t f = create(file);
    write_rows(grid(f, "x", untimed()), share_of(ROWS), 0, H5FD_MPIO_COLLECTIVE);
    finish(f);
}

CASE(newest_format, "oldest and newest file formats") {
    const hid_t access = shared_by(MPI_COMM_WORLD), creation = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    H5Pset_userblock(creation, 1024);
    H5Pset_link_creation_order(creation, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    const hid_t f = TRY(H5Fcreate(file, H5F_ACC_TRUNC, creation, access));
    const hsize_t dims[2] = {ROWS, COLUMNS}, most[2] = {H5S_UNLIMITED, H5S_UNLIMITED}, one[2] = {H5S_UNLIMITED, COLUMNS};
    for (int k = 0; k < 4; ++k) {  // each kind of chunk index
        static const char* const names[] = {"fixed", "tree", "extensible", "single"};
        const hid_t of = H5Screate_simple(2, dims, k == 1 ? most : k == 2 ? one : NULL);
        const hid_t list = k == 3 ? chunked(ROWS, COLUMNS) : chunked(5, 4);
        const hid_t x = TRY(H5Dcreate2(f, names[k], H5T_STD_I32LE, of, H5P_DEFAULT, list, H5P_DEFAULT));
        write_rows(x, share_of(ROWS), k, H5FD_MPIO_COLLECTIVE);
    }
    close_all();
}
