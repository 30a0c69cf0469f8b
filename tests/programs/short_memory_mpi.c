/* MPI-IO on a file in memory while each allocation of the layer fails in turn, on one rank after the other:
 * short_memory_mpi NAME. Whoever has no memory is told so, all others as always, and nobody waits for ever. */
#include "short_memory.h"

#include <mpi.h>

#define WORDS 4000

static int rank, ranks, handled;
static int short_rank; /* the one whose allocations fail */
static MPI_File file;
static MPI_Datatype pairs, holes;
static int words[2 * WORDS];

static void require(int line, int true_that) {
    if (true_that) return;
    left = -1;
    fprintf(stderr, "short_memory_mpi.c:%d: not so on rank %d\n", line, rank);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define REQUIRE(condition) require(__LINE__, condition)

static void count_errors(MPI_File *failed, int *code, ...) {
    (void)failed;
    (void)code;
    ++handled;
}

static int class_of(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}

typedef int call(void);

/* The short rank makes a call until all allocations of it have failed, one at a time. Returns how many; others return 1. */
static int alone(int line, call made) {
    if (rank != short_rank) return 1;
    for (int n = 0;; ++n) {
        fail_at(n);
        const int class = class_of(made()), none = none_failed();
        require(line, class == MPI_SUCCESS || (!none && class == MPI_ERR_NO_MEM));
        if (none) return n;
    }
}
#define ALONE(made) alone(__LINE__, made)

/* The same for a call that all ranks make together. `with_it`: they all fail if one does. */
static int together(int line, call made, int with_it) {
    for (int n = 0;; ++n) {
        int none = 0;
        if (rank == short_rank) fail_at(n);
        const int class = class_of(made());
        if (rank == short_rank) none = none_failed();
        MPI_Bcast(&none, 1, MPI_INT, short_rank, MPI_COMM_WORLD);
        const int may_fail = !none && (with_it || rank == short_rank);
        require(line, class == MPI_SUCCESS || (may_fail && class == MPI_ERR_NO_MEM));
        if (none) return n;
    }
}
#define TOGETHER(made, with_it) together(__LINE__, made, with_it)

static const char *name;

/* A file that nobody will see. */
static int open_one(void) {
    const int rc = MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    if (rc == MPI_SUCCESS) MPI_File_close(&file);
    REQUIRE(file == MPI_FILE_NULL);
    return rc;
}

static int view_of_pairs(void) { return MPI_File_set_view(file, 8 * rank, MPI_INT, pairs, "native", MPI_INFO_NULL); }
static int write_together(void) { return MPI_File_write_at_all(file, 0, words, WORDS / 2, holes, MPI_STATUS_IGNORE); }
static int write_on_together(void) {
    MPI_File_seek(file, 0, MPI_SEEK_SET);
    return MPI_File_write_all(file, words, WORDS / 2, holes, MPI_STATUS_IGNORE);
}
static int write_alone(void) { return MPI_File_write_at(file, 0, words, WORDS / 2, holes, MPI_STATUS_IGNORE); }
static int read_alone(void) {
    static int found[2 * WORDS];
    const int rc = MPI_File_read_at(file, 0, found, WORDS / 2, holes, MPI_STATUS_IGNORE);
    for (int i = 0; rc == MPI_SUCCESS && i < WORDS; i += 2) REQUIRE(found[i] == words[i]);
    return rc;
}
static int write_later(void) {
    MPI_Request request;
    const int rc = MPI_File_iwrite_at(file, 0, words, WORDS / 2, holes, &request);
    return rc == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : rc;
}
static int write_split(void) {
    const int rc = MPI_File_write_at_all_begin(file, 0, words, WORDS / 2, holes);
    const int ended = MPI_File_write_at_all_end(file, words, MPI_STATUS_IGNORE);
    return rc != MPI_SUCCESS ? rc : ended;
}
static int ask_place(void) {
    MPI_Offset place;
    return MPI_File_get_byte_offset(file, 3, &place);
}
static int make_handler(void) {
    MPI_Errhandler made;
    int rc = MPI_File_create_errhandler(count_errors, &made);
    if (rc != MPI_SUCCESS) return rc;
    rc = MPI_File_set_errhandler(file, made);
    if (rc == MPI_SUCCESS) {
        const int before = handled;
        REQUIRE(MPI_File_call_errhandler(file, MPI_ERR_IO) == MPI_SUCCESS && handled == before + 1);
        /* It reaches the handler, too, that there is no memory for another one. */
        rc = MPI_File_set_errhandler(file, MPI_ERRORS_RETURN);
        if (rc != MPI_SUCCESS) REQUIRE(handled == before + 2 && MPI_File_set_errhandler(file, MPI_ERRORS_RETURN) == MPI_SUCCESS);
    }
    REQUIRE(MPI_Errhandler_free(&made) == MPI_SUCCESS);
    return rc;
}

int main(int argc, char **argv) {
    MPI_Datatype some;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    name = argv[1];
    /* Each rank has a pair of words of the file, then the next one; in memory every other word is written. */
    MPI_Type_contiguous(2, MPI_INT, &some);
    MPI_Type_create_resized(some, 0, 8 * ranks, &pairs);
    MPI_Type_commit(&pairs);
    MPI_Type_free(&some);
    MPI_Type_create_resized(MPI_INT, 0, 8, &some);
    MPI_Type_contiguous(2, some, &holes);
    MPI_Type_commit(&holes);
    for (int i = 0; i < 2 * WORDS; ++i) words[i] = i;

    for (short_rank = 0; short_rank < ranks; ++short_rank) REQUIRE(TOGETHER(open_one, 1) > 0);
    REQUIRE(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    for (short_rank = 0; short_rank < ranks; ++short_rank) {
        call *const collective[] = {write_together, write_on_together, write_split};
        call *const single[] = {view_of_pairs, write_alone, read_alone, write_later, make_handler};
        if (rank != short_rank) REQUIRE(view_of_pairs() == MPI_SUCCESS);
        for (size_t i = 0; i < sizeof(single) / sizeof(single[0]); ++i) REQUIRE(ALONE(single[i]) > 0);
        ALONE(ask_place);
        for (size_t i = 0; i < sizeof(collective) / sizeof(collective[0]); ++i) REQUIRE(TOGETHER(collective[i], 0) > 0);
        REQUIRE(MPI_File_set_atomicity(file, 1) == MPI_SUCCESS);
        ALONE(write_alone);
        MPI_Barrier(MPI_COMM_WORLD); /* a rank that kept the file would keep the others from it */
        REQUIRE(write_alone() == MPI_SUCCESS && read_alone() == MPI_SUCCESS);
        REQUIRE(MPI_File_set_atomicity(file, 0) == MPI_SUCCESS);
    }
    REQUIRE(write_together() == MPI_SUCCESS);
    REQUIRE(MPI_File_close(&file) == MPI_SUCCESS);
    MPI_Type_free(&pairs);
    MPI_Type_free(&holes);
    if (rank == 0) printf("all answers right\n");
    MPI_Finalize();
    return 0;
}
