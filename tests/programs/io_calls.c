/* What MPI-IO on a file in memory answers besides transfers: io_calls NAME. Error classes, error handlers, hints, groups,
 * views, conversions of handles; second handles, and when collective writes return; a file on disk beside it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int handled;

static void count_errors(MPI_File *file, int *code, ...) {
    (void)file;
    (void)code;
    ++handled;
}

static int handled_by_others = 0;

static void count_others(MPI_File *file, int *code, ...) {
    (void)file;
    (void)code;
    ++handled_by_others;
}

static void require(int line, int true_that) {
    if (true_that) return;
    fprintf(stderr, "io_calls.c:%d: not so\n", line);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define REQUIRE(condition) require(__LINE__, condition)

static void class_is(int line, int wanted, int code) {
    int found;
    MPI_Error_class(code, &found);
    if (found == wanted) return;
    fprintf(stderr, "io_calls.c:%d: error class %d, not %d\n", line, found, wanted);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define GIVES(wanted, call) class_is(__LINE__, wanted, call)

static void refusals(const char *name) {
    MPI_File file;
    GIVES(MPI_ERR_AMODE, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    GIVES(MPI_ERR_NO_SUCH_FILE, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    REQUIRE(file == MPI_FILE_NULL);
    GIVES(MPI_ERR_NO_SUCH_FILE, MPI_File_delete(name, MPI_INFO_NULL));
}

static void properties(MPI_File file) {
    MPI_Info info;
    char value[8] = "";
    int found, members, ranks, amode;
    GIVES(MPI_SUCCESS, MPI_File_get_info(file, &info));
    MPI_Info_get(info, "cb_nodes", 7, value, &found);
    REQUIRE(found && strcmp(value, "2") == 0);
    MPI_Info_free(&info);

    MPI_Group group;
    GIVES(MPI_SUCCESS, MPI_File_get_group(file, &group));
    MPI_Group_size(group, &members);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    REQUIRE(members == ranks);
    MPI_Group_free(&group);

    GIVES(MPI_SUCCESS, MPI_File_get_amode(file, &amode));
    REQUIRE(amode == (MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_EXCL));
    REQUIRE(MPI_File_f2c(MPI_File_c2f(file)) == file);

    MPI_Offset disp;
    MPI_Datatype etype, filetype;
    char datarep[MPI_MAX_DATAREP_STRING];
    GIVES(MPI_SUCCESS, MPI_File_get_view(file, &disp, &etype, &filetype, datarep));
    REQUIRE(disp == 0 && etype == MPI_BYTE && filetype == MPI_BYTE && strcmp(datarep, "native") == 0);
}

static void errors(MPI_File file) {
    int x = 0;
    MPI_Status status;
    MPI_Errhandler handler, seen;
    GIVES(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_write_shared(file, &x, 1, MPI_INT, &status));
    GIVES(MPI_ERR_ACCESS, MPI_File_read_at(file, 0, &x, 1, MPI_INT, &status));
    GIVES(MPI_ERR_UNSUPPORTED_DATAREP, MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL));
    MPI_File_create_errhandler(count_errors, &handler);
    GIVES(MPI_SUCCESS, MPI_File_set_errhandler(file, handler));
    GIVES(MPI_SUCCESS, MPI_File_get_errhandler(file, &seen));
    REQUIRE(seen == handler);
    MPI_File_read_at(file, 0, &x, 1, MPI_INT, &status);
    MPI_File_call_errhandler(file, MPI_ERR_IO);
    REQUIRE(handled == 2);
    // The file has its handler as long as it is open, whatever becomes of others, and of the program's handle on it.
    MPI_Errhandler others[200];
    for (int i = 0; i < 200; ++i) MPI_File_create_errhandler(count_others, &others[i]);
    MPI_File_call_errhandler(file, MPI_ERR_IO);
    REQUIRE(handled == 3 && handled_by_others == 0);
    GIVES(MPI_SUCCESS, MPI_File_set_errhandler(file, others[0]));
    MPI_File_call_errhandler(file, MPI_ERR_IO);
    REQUIRE(handled == 3 && handled_by_others == 1);
    for (int i = 0; i < 200; ++i) MPI_Errhandler_free(&others[i]);
    for (int i = 0; i < 200; ++i) MPI_File_create_errhandler(count_errors, &others[i]);
    MPI_File_call_errhandler(file, MPI_ERR_IO);
    REQUIRE(handled == 3 && handled_by_others == 2);
    GIVES(MPI_SUCCESS, MPI_File_set_errhandler(file, handler));
    for (int i = 0; i < 200; ++i) MPI_Errhandler_free(&others[i]);
}

/* What a program asks for it may use and has to free, also after it has freed the handle that it made. */
static void freed_handlers(MPI_File file) {
    MPI_Errhandler handler, seen, others[200];
    MPI_File missing;
    const int before = handled, before_others = handled_by_others;
    MPI_File_create_errhandler(count_errors, &handler);
    GIVES(MPI_SUCCESS, MPI_File_set_errhandler(file, handler));
    GIVES(MPI_SUCCESS, MPI_Errhandler_free(&handler));
    REQUIRE(handler == MPI_ERRHANDLER_NULL);
    for (int i = 0; i < 200; ++i) MPI_File_create_errhandler(count_others, &others[i]);
    GIVES(MPI_SUCCESS, MPI_File_get_errhandler(file, &seen));
    for (int i = 0; i < 200; ++i) REQUIRE(seen != others[i]);
    /* It is as good as ever: for MPI's own files, and for other ones in memory. */
    GIVES(MPI_SUCCESS, MPI_File_set_errhandler(MPI_FILE_NULL, seen));
    MPI_File_open(MPI_COMM_SELF, "no-such-folder/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &missing);
    REQUIRE(handled == before + 1 && handled_by_others == before_others);
    GIVES(MPI_SUCCESS, MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    GIVES(MPI_SUCCESS, MPI_Errhandler_free(&seen));
    REQUIRE(seen == MPI_ERRHANDLER_NULL);
    MPI_File_call_errhandler(file, MPI_ERR_IO);
    REQUIRE(handled == before + 2);
    for (int i = 0; i < 200; ++i) GIVES(MPI_SUCCESS, MPI_Errhandler_free(&others[i]));
    /* So it is with MPI's own handlers, however often. */
    GIVES(MPI_SUCCESS, MPI_File_set_errhandler(file, MPI_ERRORS_RETURN));
    for (int i = 0; i < 20; ++i) {
        GIVES(MPI_SUCCESS, MPI_File_get_errhandler(file, &seen));
        REQUIRE(seen == MPI_ERRORS_RETURN);
        GIVES(MPI_SUCCESS, MPI_Errhandler_free(&seen));
    }
}

static void sizes(MPI_File file) {
    int x = 5, count;
    MPI_Offset size;
    MPI_Status status;
    GIVES(MPI_SUCCESS, MPI_File_seek(file, 0, MPI_SEEK_END));
    GIVES(MPI_SUCCESS, MPI_File_write(file, &x, 1, MPI_INT, &status));
    MPI_Get_count(&status, MPI_INT, &count);
    REQUIRE(count == 1);
    GIVES(MPI_SUCCESS, MPI_File_preallocate(file, 100000));
    GIVES(MPI_SUCCESS, MPI_File_get_size(file, &size));
    REQUIRE(size == 100000);
}

/* A name that is opened again while it is open is the same file, on every rank; and from a collective write no rank
 * returns before all have written, however fast it is itself. */
static void opened_twice(MPI_File file, const char *name) {
    enum { MANY = 32 << 20 };
    MPI_File again;
    MPI_Status status;
    const int mode = MPI_MODE_RDWR | MPI_MODE_CREATE;
    int rank;
    unsigned char last = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    GIVES(MPI_ERR_FILE_EXISTS, MPI_File_open(MPI_COMM_SELF, name, mode | MPI_MODE_EXCL, MPI_INFO_NULL, &again));
    GIVES(MPI_SUCCESS, MPI_File_open(MPI_COMM_SELF, name, mode, MPI_INFO_NULL, &again));
    for (int turn = 0; turn < 3; ++turn) {
        const int writer = 1 - turn % 2, count = rank == writer ? MANY : 0;
        unsigned char *data = malloc((size_t)count + 1);
        memset(data, 'a' + turn, (size_t)count);
        GIVES(MPI_SUCCESS, MPI_File_write_at_all(file, 0, data, count, MPI_BYTE, &status));
        GIVES(MPI_SUCCESS, MPI_File_read_at(again, MANY - 1, &last, 1, MPI_BYTE, &status));
        REQUIRE(last == 'a' + turn);
        free(data);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    GIVES(MPI_SUCCESS, MPI_File_close(&again));
    GIVES(MPI_SUCCESS, MPI_File_set_size(file, 0));
}

static void beside_on_disk(void) {
    int x = 5, y = 0;
    MPI_File file;
    MPI_Status status;
    const int mode = MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE;
    GIVES(MPI_SUCCESS, MPI_File_open(MPI_COMM_WORLD, "unmatched.tmp", mode, MPI_INFO_NULL, &file));
    GIVES(MPI_SUCCESS, MPI_File_write_at_all(file, 0, &x, 1, MPI_INT, &status));
    GIVES(MPI_SUCCESS, MPI_File_read_at_all(file, 0, &y, 1, MPI_INT, &status));
    REQUIRE(x == y);
    GIVES(MPI_SUCCESS, MPI_File_close(&file));
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    REQUIRE(argc == 2);
    int rank;
    MPI_File file;
    MPI_Info hints;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Info_create(&hints);
    MPI_Info_set(hints, "cb_nodes", "2");
    refusals(argv[1]);
    const int mode = MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_EXCL;
    GIVES(MPI_SUCCESS, MPI_File_open(MPI_COMM_WORLD, argv[1], mode, hints, &file));
    properties(file);
    errors(file);
    freed_handlers(file);
    opened_twice(file, argv[1]);
    sizes(file);
    beside_on_disk();
    GIVES(MPI_SUCCESS, MPI_File_close(&file));
    REQUIRE(file == MPI_FILE_NULL);
    GIVES(MPI_ERR_FILE_EXISTS, MPI_File_open(MPI_COMM_WORLD, argv[1], mode, hints, &file));
    MPI_Info_free(&hints);
    if (rank == 0) printf("all answers right\n");
    MPI_Finalize();
    return 0;
}
