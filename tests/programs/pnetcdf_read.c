/* PnetCDF consumer: pnetcdf_read NAME... reads all that is in classic netCDF files, in each way that PnetCDF knows, and
 * on any number of ranks. */
#include "pnetcdf_tell.h"

TELL_ARRAY(double, double, "%.17g")
TELL_ARRAY(int, int, "%d")
TELL_ARRAY(offset, MPI_Offset, "%lld")

enum { MOST = 4096 };
static double values[MOST];

static int parts_of(const MPI_Offset *size, int dims) {
    MPI_Offset all = 1;
    for (int d = 0; d < dims; ++d) all *= size[d];
    return (int)all;
}

static void clear(void) {
    for (int i = 0; i < MOST; ++i) values[i] = -7;
}

static void attribute(int nc, int variable, int index) {
    char name[NC_MAX_NAME + 1], text[MOST] = "";
    nc_type type;
    MPI_Offset length = -1;
    TELL(ncmpi_inq_attname(nc, variable, index, name));
    TELL(ncmpi_inq_att(nc, variable, name, &type, &length));
    fprintf(told, "attribute %s of type %d: ", name, type);
    if (type == NC_CHAR) {
        TELL(ncmpi_get_att_text(nc, variable, name, text));
        fprintf(told, "%s\n", text);
    } else {
        clear();
        TELL(ncmpi_get_att_double(nc, variable, name, values));
        tell_double("values", values, (int)length);
    }
}

/* All values of a variable, each rank's columns of it in five ways. */
static void variable(int nc, int id, int unlimited) {
    char name[NC_MAX_NAME + 1];
    nc_type type;
    int dims, dim[3], attributes, no_fill = -1;
    MPI_Offset size[3] = {1, 1, 1}, start[3] = {0}, part[3], step[3] = {1, 1, 1}, map[3], place = -1;
    double fill[1] = {0};
    TELL(ncmpi_inq_var(nc, id, name, &type, &dims, dim, &attributes));
    fprintf(told, "variable %s of type %d\n", name, type);
    tell_int("dimensions", dim, dims);
    TELL(ncmpi_inq_var_fill(nc, id, &no_fill, fill));
    TELL(ncmpi_inq_varoffset(nc, id, &place));
    tell_int("without fill", &no_fill, 1);
    tell_offset("place", &place, 1);
    for (int i = 0; i < attributes; ++i) attribute(nc, id, i);
    for (int d = 0; d < dims; ++d) TELL(ncmpi_inq_dimlen(nc, dim[d], &size[d]));
    if (type == NC_CHAR) {
        char text[MOST] = "";
        TELL(ncmpi_get_var_text_all(nc, id, text));
        for (int i = 0; i < parts_of(size, dims); ++i) fprintf(told, " %02x", (unsigned char)text[i]);
        fprintf(told, "\n");
        return;
    }
    clear();
    TELL(ncmpi_get_var_double_all(nc, id, values));
    tell_double("all", values, parts_of(size, dims));
    /* This rank's share of the last dimension: across what single ranks wrote. */
    memcpy(part, size, sizeof(part));
    const int last = dims - 1;
    start[last] = size[last] * rank / ranks;
    part[last] = size[last] * (rank + 1) / ranks - start[last];
    clear();
    TELL(ncmpi_get_vara_double_all(nc, id, start, part, values));
    tell_double("columns", values, parts_of(part, dims));
    MPI_Offset room = 1; /* turned around in memory */
    for (int d = 0; d < dims; ++d) map[d] = room, room *= part[d];
    clear();
    TELL(ncmpi_get_varm_double_all(nc, id, start, part, NULL, map, values));
    tell_double("turned", values, parts_of(part, dims));
    /* The same in two halves, by requests that wait together. */
    MPI_Offset next[3], half[3], rest[3], *const at[2] = {start, next}, *const of[2] = {half, rest};
    memcpy(next, start, sizeof(next)), memcpy(half, part, sizeof(half)), memcpy(rest, part, sizeof(rest));
    half[0] = part[0] / 2, next[0] = start[0] + half[0], rest[0] = part[0] - half[0];
    int request[2], status[2] = {0};
    clear();
    TELL(ncmpi_iget_vara_double(nc, id, start, half, values, &request[0]));
    TELL(ncmpi_iget_vara_double(nc, id, next, rest, values + parts_of(half, dims), &request[1]));
    TELL(ncmpi_wait_all(nc, 2, request, status));
    tell_int("statuses", status, 2);
    tell_double("posted", values, parts_of(part, dims));
    if (dim[0] != unlimited) { /* PnetCDF 1.12 corrupts its memory with lists of parts of records, on disk too */
        clear();
        TELL(ncmpi_get_varn_double_all(nc, id, 2, at, of, values));
        tell_double("in parts", values, parts_of(part, dims));
    }
    step[0] = 2, part[0] = (part[0] + 1) / 2;
    clear();
    TELL(ncmpi_get_vars_double_all(nc, id, start, part, step, values));
    tell_double("every second", values, parts_of(part, dims));
    int integers[MOST];
    memset(integers, 0xee, sizeof(integers));
    TELL(ncmpi_get_vara_int_all(nc, id, start, part, integers)); /* fill values of floats are out of its range */
    TELL(ncmpi_begin_indep_data(nc));
    for (int i = 0; i <= rank; ++i) {
        start[0] = i % (size[0] > 0 ? size[0] : 1);
        clear();
        TELL(ncmpi_get_var1_double(nc, id, start, values));
        tell_double("alone", values, 1);
    }
    TELL(ncmpi_end_indep_data(nc));
}

static void read_file(const char *name) {
    int nc = -1, format = -1, dims = 0, variables = 0, attributes = 0, unlimited = -1;
    MPI_Offset number[4] = {-1, -1, -1, -1};
    fprintf(told, "== %s\n", name);
    TELL(ncmpi_inq_file_format(name, &format));
    if (TELL(ncmpi_open(MPI_COMM_WORLD, name, NC_NOWRITE, MPI_INFO_NULL, &nc)) != NC_NOERR) return;
    tell_int("format", &format, 1);
    TELL(ncmpi_inq(nc, &dims, &variables, &attributes, &unlimited));
    TELL(ncmpi_inq_header_size(nc, &number[0]));
    TELL(ncmpi_inq_header_extent(nc, &number[1]));
    TELL(ncmpi_inq_recsize(nc, &number[2]));
    TELL(ncmpi_inq_num_rec_vars(nc, &format));
    tell_offset("sizes", number, 3);
    for (int d = 0; d < dims; ++d) {
        char dim[NC_MAX_NAME + 1];
        TELL(ncmpi_inq_dim(nc, d, dim, &number[3]));
        fprintf(told, "dimension %s: %lld\n", dim, number[3]);
    }
    for (int i = 0; i < attributes; ++i) attribute(nc, NC_GLOBAL, i);
    for (int i = 0; i < variables; ++i) variable(nc, i, unlimited);
    const MPI_Offset origin[2] = {0, 0}, one[2] = {1, 1};
    TELL(ncmpi_put_vara_double_all(nc, 0, origin, one, values)); /* it is open for reading */
    TELL(ncmpi_redef(nc));
    TELL(ncmpi_close(nc));
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    tell_in("read");
    for (int i = 1; i < argc; ++i) read_file(argv[i]);
    fclose(told);
    MPI_Finalize();
    return 0;
}
