/* Does the same random MPI-IO on two files and compares all it sees: io_compare ONE OTHER SEED ROUNDS. With ONE in
 * memory and OTHER on disk, the program's own MPI says what is right. Datatypes of every kind, views, explicit offsets
 * and individual pointers, blocking, nonblocking, collective and split; sizes, atomic mode, and the error classes of
 * calls that fail. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REGION = 1 << 22, ROOM = 1 << 20 }; /* no rank reaches beyond its region of the file */

static int rank, ranks, step;
static uint64_t mine, ours; /* random states: this rank's, and one that is the same on all ranks */

static void fail(const char *what, long long one, long long other) {
    fprintf(stderr, "rank %d, operation %d: %s: %lld in the first, %lld in the second\n", rank, step, what, one, other);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
static void same(const char *what, long long one, long long other) {
    if (one != other) fail(what, one, other);
}
static void ok(const char *what, int rc) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (rc == MPI_SUCCESS) return;
    MPI_Error_string(rc, text, &length);
    fprintf(stderr, "rank %d, operation %d: %s: %s\n", rank, step, what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int draw(uint64_t *state, int below) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int)((*state >> 33) % (uint64_t)below);
}
static int any(int below) { return draw(&mine, below); }
static int all(int below) { return draw(&ours, below); }

/* A random datatype over `base`: bytes in ascending order, none twice, starting at or after 0. */
static MPI_Datatype derive(MPI_Datatype base, int depth) {
    MPI_Datatype out, old = depth > 0 ? derive(base, depth - 1) : base;
    MPI_Aint lb, extent;
    MPI_Type_get_extent(old, &lb, &extent);
    enum { MOST = 5 };
    int n = 1 + any(MOST), block = 1 + any(3), lengths[MOST], places[MOST];
    MPI_Aint bytes[MOST];
    for (int i = 0, at = any(3); i < n; ++i) {
        lengths[i] = 1 + any(3);
        places[i] = at;
        bytes[i] = at * extent;
        at += (lengths[i] > block ? lengths[i] : block) + any(3);
    }
    switch (any(12)) {
        case 0: MPI_Type_contiguous(n, old, &out); break;
        case 1: MPI_Type_vector(n, block, block + any(3), old, &out); break;
        case 2: MPI_Type_create_hvector(n, block, (block + any(3)) * extent, old, &out); break;
        case 3: MPI_Type_indexed(n, lengths, places, old, &out); break;
        case 4: MPI_Type_create_hindexed(n, lengths, bytes, old, &out); break;
        case 5: MPI_Type_create_indexed_block(n, block, places, old, &out); break;
        case 6: MPI_Type_create_hindexed_block(n, block, bytes, old, &out); break;
        case 7: {
            MPI_Datatype types[MOST];
            for (int i = 0; i < n; ++i) types[i] = old;
            MPI_Type_create_struct(n, lengths, bytes, types, &out);
            break;
        }
        case 8: {
            const int size[3] = {1 + any(4), 1 + any(4), 1 + any(4)};
            int part[3], start[3];
            for (int d = 0; d < 3; ++d) {
                part[d] = 1 + any(size[d]);
                start[d] = any(size[d] - part[d] + 1);
            }
            MPI_Type_create_subarray(3, size, part, start, any(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, old, &out);
            break;
        }
#ifndef OPEN_MPI /* it makes no type for a process without a share */
        case 9: {
            const int grid[2] = {2, 1 + any(3)}, size[2] = {3 + any(5), 3 + any(5)};
            int kind[2], argument[2] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
            for (int d = 0; d < 2; ++d) {
                kind[d] = any(2) ? MPI_DISTRIBUTE_BLOCK : MPI_DISTRIBUTE_CYCLIC;
                const int share = (size[d] + grid[d] - 1) / grid[d];
                if (any(2)) argument[d] = kind[d] == MPI_DISTRIBUTE_CYCLIC ? 1 + any(3) : share;
            }
            MPI_Type_create_darray(grid[0] * grid[1], any(grid[0] * grid[1]), 2, size, kind, argument, grid,
                                   any(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, old, &out);
            break;
        }
#endif
        case 10: MPI_Type_create_resized(old, 0, lb + extent + any(3) * extent, &out); break;
        default: MPI_Type_dup(old, &out); break;
    }
    if (old != base) MPI_Type_free(&old);
    return out;
}

/* The same with an extent that keeps repetitions apart, and with some data in it. */
static MPI_Datatype tile(MPI_Datatype base, int depth) {
    for (;;) {
        MPI_Datatype type = derive(base, depth), out;
        MPI_Aint lb, extent, true_lb, true_extent, unit;
        int size;
        MPI_Type_get_extent(base, &lb, &unit);
        MPI_Type_get_extent(type, &lb, &extent);
        MPI_Type_get_true_extent(type, &true_lb, &true_extent);
        MPI_Type_size(type, &size);
        const MPI_Aint end = (true_lb + true_extent + unit - 1) / unit * unit;
        if (size > 0 && end < 16384 && end <= 16 * size) {
            MPI_Type_create_resized(type, 0, end + any(3) * unit, &out);
            MPI_Type_commit(&out);
            MPI_Type_free(&type);
            return out;
        }
        MPI_Type_free(&type);
    }
}

static MPI_Datatype etype_of(int kind) {
    MPI_Datatype type = kind == 0 ? MPI_BYTE : MPI_INT;
    if (kind == 2) {
        MPI_Type_contiguous(3, MPI_SHORT, &type);
        MPI_Type_commit(&type);
    }
    return type;
}

static void complete(const char *what, int rc, MPI_Request *request, MPI_Status *status) {
    ok(what, rc);
    ok("MPI_Wait", MPI_Wait(request, status));
}

/* One transfer on one file, of kind `way`; `reading` or writing. */
static void transfer(MPI_File file, int way, int reading, MPI_Offset at, void *data, int count, MPI_Datatype type,
                     MPI_Status *status) {
    MPI_Request request;
    switch (way * 2 + reading) {
        case 0: ok("write_at", MPI_File_write_at(file, at, data, count, type, status)); break;
        case 1: ok("read_at", MPI_File_read_at(file, at, data, count, type, status)); break;
        case 2: ok("write_at_all", MPI_File_write_at_all(file, at, data, count, type, status)); break;
        case 3: ok("read_at_all", MPI_File_read_at_all(file, at, data, count, type, status)); break;
        case 4:
            complete("iwrite_at", MPI_File_iwrite_at(file, at, data, count, type, &request), &request, status);
            break;
        case 5: complete("iread_at", MPI_File_iread_at(file, at, data, count, type, &request), &request, status); break;
        case 6: ok("write", MPI_File_write(file, data, count, type, status)); break;
        case 7: ok("read", MPI_File_read(file, data, count, type, status)); break;
        case 8: ok("write_all", MPI_File_write_all(file, data, count, type, status)); break;
        case 9: ok("read_all", MPI_File_read_all(file, data, count, type, status)); break;
        case 10: complete("iwrite", MPI_File_iwrite(file, data, count, type, &request), &request, status); break;
        case 11: complete("iread", MPI_File_iread(file, data, count, type, &request), &request, status); break;
        case 12:
            ok("write_at_all_begin", MPI_File_write_at_all_begin(file, at, data, count, type));
            ok("write_at_all_end", MPI_File_write_at_all_end(file, data, status));
            break;
        case 13:
            ok("read_at_all_begin", MPI_File_read_at_all_begin(file, at, data, count, type));
            ok("read_at_all_end", MPI_File_read_at_all_end(file, data, status));
            break;
        case 14:
            ok("write_all_begin", MPI_File_write_all_begin(file, data, count, type));
            ok("write_all_end", MPI_File_write_all_end(file, data, status));
            break;
        case 15:
            ok("read_all_begin", MPI_File_read_all_begin(file, data, count, type));
            ok("read_all_end", MPI_File_read_all_end(file, data, status));
            break;
        case 16:
            complete("iwrite_at_all", MPI_File_iwrite_at_all(file, at, data, count, type, &request), &request, status);
            break;
        case 17:
            complete("iread_at_all", MPI_File_iread_at_all(file, at, data, count, type, &request), &request, status);
            break;
        case 18: complete("iwrite_all", MPI_File_iwrite_all(file, data, count, type, &request), &request, status); break;
        case 19: complete("iread_all", MPI_File_iread_all(file, data, count, type, &request), &request, status); break;
    }
}

static void compare_places(MPI_File files[2]) {
    MPI_Offset position[2], size[2], byte[2];
    const int at = any(300);
    for (int f = 0; f < 2; ++f) {
        ok("get_position", MPI_File_get_position(files[f], &position[f]));
        ok("get_byte_offset", MPI_File_get_byte_offset(files[f], at, &byte[f]));
        ok("get_size", MPI_File_get_size(files[f], &size[f]));
    }
    same("position", position[0], position[1]);
    same("byte offset", byte[0], byte[1]);
    same("size", size[0], size[1]);
}

static void transfer_both(MPI_File files[2], int etype_size) {
    static unsigned char data[2][ROOM];
    MPI_Datatype type = any(3) ? tile(MPI_INT, any(3)) : MPI_INT;
    const int way = all(10), reading = all(2);
    MPI_Aint lb, extent;
    MPI_Status status[2];
    int size, count, seen[2], whole[2];
    MPI_Type_get_extent(type, &lb, &extent);
    MPI_Type_size(type, &size);
    /* Individual pointers and short reads count in etypes: keep to whole ones. */
    count = any(1 + ROOM / 64 / (int)extent % 300) / etype_size * etype_size;
    const MPI_Offset at = any(200);
    MPI_Offset position;
    ok("get_position", MPI_File_get_position(files[0], &position));
    for (int f = 0; f < 2 && position > 20000; ++f) ok("seek", MPI_File_seek(files[f], at, MPI_SEEK_SET));
    for (int i = 0; i < ROOM; ++i) data[0][i] = reading ? 0xee : (unsigned char)draw(&mine, 256);
    memcpy(data[1], data[0], ROOM);
    for (int f = 0; f < 2; ++f) {
        transfer(files[f], way, reading, at, data[f], count, type, &status[f]);
        MPI_Barrier(MPI_COMM_WORLD);
        ok("get_elements", MPI_Get_elements(&status[f], MPI_BYTE, &seen[f]));
        ok("get_count", MPI_Get_count(&status[f], type, &whole[f]));
    }
    for (int i = 0; i < ROOM; ++i)
        if (data[0][i] != data[1][i]) fail("a byte of the buffer", data[0][i], data[1][i]);
    same("bytes moved", seen[0], seen[1]);
    same("elements moved", whole[0], whole[1]);
    if (type != MPI_INT) MPI_Type_free(&type);
}

static int class_of(int rc) {
    int class;
    MPI_Error_class(rc, &class);
    return class;
}

/* A call that must fail: with the same class on both files. */
static int bad_call(MPI_File file, int which, unsigned char *data) {
    MPI_Status status;
    switch (which) {
        case 0: return MPI_File_read_at(file, -7, data, 1, MPI_INT, &status);
        case 1: return MPI_File_write_at(file, -1, data, 1, MPI_INT, &status);
        case 2: return MPI_File_read_at(file, 0, data, -1, MPI_INT, &status);
        case 3: return MPI_File_write(file, data, -3, MPI_BYTE, &status);
        case 4: return MPI_File_seek(file, -5, MPI_SEEK_SET);
        case 5: return MPI_File_seek(file, 0, 12345);
        case 6: return MPI_File_set_size(file, -1);
        case 7: return MPI_File_preallocate(file, -1);
        case 8: return MPI_File_read_at(file, 0, data, 1, MPI_DATATYPE_NULL, &status);
        case 9: return MPI_File_set_view(file, -4, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
        case 10: return MPI_File_set_view(file, 0, MPI_DATATYPE_NULL, MPI_BYTE, "native", MPI_INFO_NULL);
        default: return MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "no such one", MPI_INFO_NULL);
    }
}

#ifdef OPEN_MPI
enum { BAD_CALLS = 0, PREALLOCATES = 0 }; /* it takes many bad calls for good, and preallocating loses data */
#else
enum { BAD_CALLS = 12, PREALLOCATES = 1 };
#endif

/* What is neither a transfer nor a view. */
static void others(MPI_File files[2]) {
    static unsigned char data[2][64];
    const int which = BAD_CALLS ? all(16) : 8 + all(8), bad = BAD_CALLS ? all(BAD_CALLS) : 0;
    const MPI_Offset size = (MPI_Offset)ranks * REGION + all(REGION);
    int rc[2], flag[2];
    for (int f = 0; f < 2; ++f) {
        if (which < 8) {
            rc[f] = class_of(bad_call(files[f], bad, data[f]));
        } else if (which == 8) {
            ok("sync", MPI_File_sync(files[f]));
        } else if (which < 11) {
            ok("set_atomicity", MPI_File_set_atomicity(files[f], which == 9));
            ok("get_atomicity", MPI_File_get_atomicity(files[f], &flag[f]));
        } else if (which == 11 && PREALLOCATES) {
            ok("preallocate", MPI_File_preallocate(files[f], size));
        } else {
            ok("set_size", MPI_File_set_size(files[f], size));
        }
    }
    if (which < 8) {
        char what[32];
        snprintf(what, sizeof(what), "error class of bad call %d", bad);
        const int alike = bad == 10 && rc[1] == MPI_ERR_ARG; /* MPICH takes a null type for another kind of mistake */
        if (rc[0] == MPI_SUCCESS || !alike) same(what, rc[0], rc[1]);
    } else if (which == 9 || which == 10) {
        same("atomicity", flag[0], flag[1]);
    }
}

/* Reads across the end of the file, in bytes: what is there, and no more. */
static void read_past_end(MPI_File files[2]) {
    unsigned char data[2][512];
    MPI_Status status[2];
    MPI_Offset size, place[2], position[2];
    int seen[2];
    const int before = any(300), count = any(512);
    for (int f = 0; f < 2; ++f) {
        memset(data[f], 0xee, sizeof(data[f]));
        ok("set_view", MPI_File_set_view(files[f], 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
        ok("get_size", MPI_File_get_size(files[f], &size));
#ifdef OPEN_MPI /* whose MPI_SEEK_END is not where the file ends once its size has changed */
        ok("seek", MPI_File_seek(files[f], size - before, MPI_SEEK_SET));
#else
        ok("seek", MPI_File_seek(files[f], -before, MPI_SEEK_END));
#endif
        ok("get_position", MPI_File_get_position(files[f], &place[f]));
        ok("read", MPI_File_read(files[f], data[f], count, MPI_BYTE, &status[f]));
        ok("get_position", MPI_File_get_position(files[f], &position[f]));
        ok("get_count", MPI_Get_count(&status[f], MPI_BYTE, &seen[f]));
        ok("seek", MPI_File_seek(files[f], 0, MPI_SEEK_SET));
    }
    same("place before the end", place[0], place[1]);
    same("bytes before the end", seen[0], seen[1]);
    same("bytes there", seen[0], count < before ? count : before);
#ifndef OPEN_MPI /* which goes on by what was asked for, not by what was there */
    same("position", position[0], position[1]);
#endif
    for (int i = 0; i < seen[0]; ++i)
        if (data[0][i] != data[1][i]) fail("a byte before the end", data[0][i], data[1][i]);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 5) MPI_Abort(MPI_COMM_WORLD, 2);
    ours = strtoull(argv[3], NULL, 10) * 2654435761u + 1;
    mine = ours * 31 + (uint64_t)rank + 7;
    const int rounds = atoi(argv[4]);
    MPI_File files[2];
    for (int f = 0; f < 2; ++f) {
        const int mode = MPI_MODE_RDWR | MPI_MODE_CREATE;
        ok("open", MPI_File_open(MPI_COMM_WORLD, argv[1 + f], mode, MPI_INFO_NULL, &files[f]));
        /* Reads stay inside the file: MPIs differ in what a typed read past the end does. */
        ok("set_size", MPI_File_set_size(files[f], (MPI_Offset)ranks * REGION));
    }
    int etype_size = 1, again = 0; /* the next step sets new views */
    for (step = 0; step < rounds; ++step) {
        switch (step == 0 || again ? 0 : all(9)) {
            case 0:
            case 1: {
                const int kind = all(3);
                MPI_Datatype etype = etype_of(kind), filetype = any(4) ? tile(etype, any(3)) : etype;
                const MPI_Offset disp = (MPI_Offset)rank * REGION + any(1000);
                for (int f = 0; f < 2; ++f)
                    ok("set_view", MPI_File_set_view(files[f], disp, etype, filetype, "native", MPI_INFO_NULL));
                MPI_Type_size(etype, &etype_size);
                again = 0;
                if (filetype != etype) MPI_Type_free(&filetype);
                if (kind == 2) MPI_Type_free(&etype);
                break;
            }
            case 2: {
                const MPI_Offset to = any(100);
                const int whence = any(2) ? MPI_SEEK_SET : MPI_SEEK_CUR;
                for (int f = 0; f < 2; ++f) ok("seek", MPI_File_seek(files[f], to, whence));
                break;
            }
            case 3: others(files); break;
            case 4:
                if (all(3) == 0) {
                    read_past_end(files);
                    again = 1;
                }
                break;
            default: transfer_both(files, etype_size); break;
        }
        MPI_Barrier(MPI_COMM_WORLD);
        compare_places(files);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    /* The first file last: whoever waits for it finds the second one complete. */
    for (int f = 1; f >= 0; --f) ok("close", MPI_File_close(&files[f]));
    if (rank == 0) printf("%d operations agree\n", rounds);
    MPI_Finalize();
    return 0;
}
