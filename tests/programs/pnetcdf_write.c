/* PnetCDF producer: pnetcdf_write NAME... writes classic netCDF files of all formats (CDF-1, 2 and 5) in turn, in the ways
 * that PnetCDF knows: collective and independent, whole parts, strided, mapped, lists of parts, nonblocking and buffered;
 * records, fill values, headers that grow; calls that fail. One that is named again... is opened again to add to it. */
#include "pnetcdf_tell.h"

TELL_ARRAY(int, int, "%d")
TELL_ARRAY(offset, MPI_Offset, "%lld")

enum { ROWS = 12, COLUMNS = 10, RECORDS = 4 };

/* The rows of a rank: those of neighbours touch, some ranks have one more. */
static MPI_Offset first_row(int which) { return (MPI_Offset)ROWS * which / ranks; }

static int step;

static double cell(int variable, int record, MPI_Offset row, MPI_Offset column) {
    return step * 10000.0 + variable * 1000.0 + record * 150.0 + (double)row * COLUMNS + (double)column + 0.25;
}

static const nc_type kTypes[] = {NC_BYTE, NC_CHAR, NC_SHORT, NC_INT, NC_FLOAT, NC_DOUBLE,
                                 NC_UBYTE, NC_USHORT, NC_UINT, NC_INT64, NC_UINT64};

static int types_of(int format) { return format == 5 ? 11 : 6; }

/* The attributes of all types that the format has. */
static void attributes(int nc, int variable, int format) {
    const int numbers[3] = {1, -2, 100};
    TELL(ncmpi_put_att_text(nc, variable, "units", 7, "m s-1 \xc3"));
    for (int i = 0; i < types_of(format); ++i) {
        char name[16];
        snprintf(name, sizeof(name), "of_type_%d", kTypes[i]);
        if (kTypes[i] != NC_CHAR) TELL(ncmpi_put_att_int(nc, variable, name, kTypes[i], 1 + i % 3, numbers));
    }
    TELL(ncmpi_put_att_double(nc, variable, "nothing", NC_DOUBLE, 0, NULL));
}

static int define(int nc, const char *name, nc_type type, int count, const int *dims) {
    int id = -1;
    TELL(ncmpi_def_var(nc, name, type, count, dims, &id));
    return id;
}

/* Everything in data mode that moves rows of `grid`, `strided`, `mapped` and `parts`. */
static void collective(int nc, const int *ids) {
    const MPI_Offset first = first_row(rank), count = first_row(rank + 1) - first;
    double data[ROWS * COLUMNS], turned[ROWS * COLUMNS];
    for (MPI_Offset r = 0; r < count; ++r)
        for (MPI_Offset c = 0; c < COLUMNS; ++c)
            turned[c * count + r] = data[r * COLUMNS + c] = cell(1, 0, first + r, c);
    const MPI_Offset start[2] = {first, 0}, size[2] = {count, COLUMNS};
    TELL(ncmpi_put_vara_double_all(nc, ids[0], start, size, data));
    /* Every ranks-th column: neighbouring values come from different ranks. */
    const MPI_Offset from[2] = {0, rank}, many[2] = {ROWS, (COLUMNS - rank + ranks - 1) / ranks}, step[2] = {1, ranks};
    double column[ROWS * COLUMNS];
    for (MPI_Offset r = 0; r < ROWS; ++r)
        for (MPI_Offset c = 0; c < many[1]; ++c) column[r * many[1] + c] = cell(2, 0, r, rank + c * ranks) / 8;
    TELL(ncmpi_put_vars_double_all(nc, ids[1], from, many, step, column));
    const MPI_Offset map[2] = {1, count};
    TELL(ncmpi_put_varm_double_all(nc, ids[2], start, size, NULL, map, turned));
    /* Single rows of every rank, those of others between them, last one first. */
    MPI_Offset starts[ROWS][2], sizes[ROWS][2], *at[ROWS], *of[ROWS];
    int parts = 0;
    for (int r = ROWS - 1; r >= 0; --r) {
        if (r % ranks != rank) continue;
        starts[parts][0] = r, starts[parts][1] = r % 3;
        sizes[parts][0] = 1, sizes[parts][1] = COLUMNS - 4;
        at[parts] = starts[parts], of[parts] = sizes[parts];
        ++parts;
    }
    TELL(ncmpi_put_varn_double_all(nc, ids[3], parts, at, of, data));
}

/* Ranks write by themselves, as many calls as each likes. */
static void independent(int nc, int scattered) {
    TELL(ncmpi_begin_indep_data(nc));
    for (int i = 0; i < 5 + rank; ++i) {
        const MPI_Offset at[2] = {(rank * 7 + i) % (ROWS - 1), (rank + i * ranks) % COLUMNS};
        const short value = (short)(at[0] * 100 + at[1]);
        TELL(ncmpi_put_var1_short(nc, scattered, at, &value));
    }
    if (rank == ranks - 1) {
        const MPI_Offset start[2] = {ROWS - 1, 2}, size[2] = {1, 3};
        const short row[3] = {-1, -2, -3};
        TELL(ncmpi_put_vara_short(nc, scattered, start, size, row));
    }
    TELL(ncmpi_end_indep_data(nc));
}

/* Two record variables, whose records alternate in the file; a rank without rows takes part with nothing. */
static void records(int nc, int field, int times, int from, int to) {
    for (int record = from; record < to; ++record) {
        const MPI_Offset first = first_row(rank), count = rank == record % ranks ? 0 : first_row(rank + 1) - first;
        const MPI_Offset start[3] = {record, first, 0}, size[3] = {1, count, COLUMNS};
        float data[ROWS * COLUMNS];
        for (MPI_Offset r = 0; r < count; ++r)
            for (MPI_Offset c = 0; c < COLUMNS; ++c) data[r * COLUMNS + c] = (float)cell(3, record, first + r, c);
        TELL(ncmpi_put_vara_float_all(nc, field, start, size, data));
        const MPI_Offset when = record, one = 1;
        const int time = 10 * record;
        TELL(ncmpi_put_vara_int_all(nc, times, &when, &one, &time));
    }
}

/* Requests that are posted, buffered, cancelled and waited for. */
static void nonblocking(int nc, int posted, int buffered) {
    enum { POSTS = 4 };
    int requests[POSTS], statuses[POSTS] = {0};
    int data[POSTS][COLUMNS], pending = -1;
    MPI_Offset usage = -1;
    TELL(ncmpi_buffer_attach(nc, POSTS * COLUMNS * (MPI_Offset)sizeof(int)));
    for (int i = 0; i < POSTS; ++i) {
        const int row = (rank + i * ranks) % ROWS;
        const MPI_Offset start[2] = {row, 0}, size[2] = {i * ranks + rank < ROWS, COLUMNS};
        for (int c = 0; c < COLUMNS; ++c) data[i][c] = (int)cell(5, i, row, c);
        if (i % 2) TELL(ncmpi_iput_vara_int(nc, posted, start, size, data[i], &requests[i]));
        else TELL(ncmpi_bput_vara_int(nc, buffered, start, size, data[i], &requests[i]));
        if (i % 2 == 0) memset(data[i], 0xee, sizeof(data[i])); /* it was copied */
    }
    TELL(ncmpi_inq_nreqs(nc, &pending));
    TELL(ncmpi_inq_buffer_usage(nc, &usage));
    tell_int("pending", &pending, 1);
    tell_offset("in the buffer", &usage, 1);
    TELL(ncmpi_cancel(nc, 1, &requests[3], &statuses[3]));
    TELL(ncmpi_wait_all(nc, 3, requests, statuses));
    tell_int("statuses", statuses, POSTS);
    TELL(ncmpi_buffer_detach(nc));
}

/* Calls that fail, with the codes of PnetCDF. */
static void failing(int nc, int grid, int bytes) {
    const MPI_Offset beyond[2] = {ROWS + 1, 0}, one[2] = {1, 1}, start[2] = {ROWS - 1, 0}, two[2] = {2, 1};
    const double values[2] = {1e9, 2};
    int id;
    TELL(ncmpi_put_vara_double_all(nc, grid, beyond, one, values));
    TELL(ncmpi_put_vara_double_all(nc, grid, start, two, values));
    TELL(ncmpi_put_vara_double_all(nc, 4711, start, one, values));
    TELL(ncmpi_put_vara_double_all(nc, bytes, start, one, values)); /* out of the range of a byte */
    TELL(ncmpi_put_vara_double(nc, grid, start, one, values));      /* not in independent mode */
    TELL(ncmpi_def_dim(nc, "late", 3, &id));                        /* not in define mode */
    TELL(ncmpi_inq_varid(nc, "no such variable", &id));
}

static void sizes(int nc) {
    MPI_Offset number[6] = {-1, -1, -1, -1, -1, -1};
    TELL(ncmpi_inq_header_size(nc, &number[0]));
    TELL(ncmpi_inq_header_extent(nc, &number[1]));
    TELL(ncmpi_inq_recsize(nc, &number[2]));
    TELL(ncmpi_inq_put_size(nc, &number[3]));
    TELL(ncmpi_inq_get_size(nc, &number[4]));
    tell_offset("sizes", number, 5);
}

static void write_file(const char *name, int format, int kind) {
    const int mode = NC_CLOBBER | (format == 5 ? NC_64BIT_DATA : format == 2 ? NC_64BIT_OFFSET : 0);
    MPI_Info info;
    int nc = -1, dims[3], ids[4], old, late;
    MPI_Info_create(&info);
    /* Into larger gaps between variables PnetCDF 1.12 writes what was in its memory. */
    MPI_Info_set(info, "nc_var_align_size", "4");
    MPI_Info_set(info, "nc_header_read_chunk_size", "1024");
    if (TELL(ncmpi_create(MPI_COMM_WORLD, name, mode, info, &nc)) != NC_NOERR) MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Info_free(&info);
    TELL(ncmpi_def_dim(nc, "time", NC_UNLIMITED, &dims[0]));
    TELL(ncmpi_def_dim(nc, "row", ROWS, &dims[1]));
    TELL(ncmpi_def_dim(nc, "column", COLUMNS, &dims[2]));
    attributes(nc, NC_GLOBAL, format);
    if (kind == 1) TELL(ncmpi_set_fill(nc, NC_FILL, &old));
    const char *const names[4] = {"grid", "strided", "mapped", "parts"};
    const nc_type types[4] = {NC_DOUBLE, NC_FLOAT, NC_INT, NC_DOUBLE};
    for (int i = 0; i < 4; ++i) ids[i] = define(nc, names[i], types[i], 2, dims + 1);
    const int scattered = define(nc, "scattered", NC_SHORT, 2, dims + 1), bytes = define(nc, "bytes", NC_BYTE, 2, dims + 1);
    const int field = define(nc, "field", NC_FLOAT, 3, dims), times = define(nc, "times", NC_INT, 1, dims);
    const int posted = define(nc, "posted", format == 5 ? NC_INT64 : NC_INT, 2, dims + 1);
    const int buffered = define(nc, "buffered", NC_DOUBLE, 2, dims + 1), note = define(nc, "note", NC_CHAR, 1, dims + 2);
    const short fill = -999;
    TELL(ncmpi_def_var_fill(nc, scattered, 0, &fill));
    TELL(ncmpi_def_var_fill(nc, bytes, 0, NULL));
    TELL(ncmpi_def_var_fill(nc, field, 0, NULL));

    attributes(nc, ids[0], format);
    TELL(ncmpi_put_vara_int_all(nc, ids[2], (MPI_Offset[]){0, 0}, (MPI_Offset[]){1, 1}, &old)); /* in define mode */
    TELL(ncmpi_enddef(nc));
    collective(nc, ids);
    independent(nc, scattered);
    for (int record = 0; record < 2; ++record) TELL(ncmpi_fill_var_rec(nc, field, record));
    records(nc, field, times, 0, 2);
    nonblocking(nc, posted, buffered);
    failing(nc, ids[0], bytes);
    TELL(ncmpi_sync(nc));
    /* The header grows beyond its room: all data moves. */
    TELL(ncmpi_redef(nc));
    char text[3000];
    memset(text, 'x', sizeof(text));
    TELL(ncmpi_put_att_text(nc, NC_GLOBAL, "long", sizeof(text), text));
    TELL(ncmpi_rename_var(nc, ids[1], "renamed"));
    late = define(nc, "late", NC_DOUBLE, 2, dims + 1);
    TELL(ncmpi__enddef(nc, 700, 8, 300, 4));
    const MPI_Offset start[2] = {first_row(rank), 0}, size[2] = {first_row(rank + 1) - first_row(rank), 1};
    double data[ROWS];
    for (int r = 0; r < ROWS; ++r) data[r] = r + 100.0 * rank;
    TELL(ncmpi_put_vara_double_all(nc, late, start, size, data));
    TELL(ncmpi_begin_indep_data(nc));
    if (rank == 0) TELL(ncmpi_put_var_text(nc, note, "ten chars."));
    TELL(ncmpi_end_indep_data(nc));
    records(nc, field, times, 2, RECORDS);
    sizes(nc);
    TELL(ncmpi_close(nc));
}

/* One that is closed and opened again to add to it. */
static void add_to(const char *name) {
    int nc = -1, field = -1, times = -1, old;
    TELL(ncmpi_open(MPI_COMM_WORLD, name, NC_WRITE, MPI_INFO_NULL, &nc));
    TELL(ncmpi_inq_varid(nc, "field", &field));
    TELL(ncmpi_inq_varid(nc, "times", &times));
    records(nc, field, times, RECORDS, RECORDS + 2);
    TELL(ncmpi_redef(nc));
    TELL(ncmpi_set_fill(nc, NC_NOFILL, &old));
    TELL(ncmpi_del_att(nc, NC_GLOBAL, "long"));
    TELL(ncmpi_put_att_text(nc, NC_GLOBAL, "added", 3, "yes"));
    TELL(ncmpi_enddef(nc));
    sizes(nc);
    TELL(ncmpi_close(nc));
}

int main(int argc, char **argv) {
    static const int formats[] = {1, 2, 5}; /* 3 and 4 are HDF5 */
    int nc = -1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    tell_in("write");
    for (step = 0; step < argc - 1; ++step) {
        const char *const name = argv[1 + step];
        write_file(name, formats[step % 3], step / 3 % 2);
        if (strncmp(name, "again", 5) == 0) {
            add_to(name);
            TELL(ncmpi_create(MPI_COMM_WORLD, name, NC_NOCLOBBER, MPI_INFO_NULL, &nc)); /* it exists */
        }
    }
    TELL(ncmpi_open(MPI_COMM_WORLD, "no such file.nc", NC_NOWRITE, MPI_INFO_NULL, &nc));
    fclose(told);
    MPI_Finalize();
    return 0;
}
