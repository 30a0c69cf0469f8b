// Calls of random programs that write, read and resize datasets.
#include "performer.h"

enum { AXES = 3 };
enum { SHARE, TURNS, BLOCKS, POINTS, ALL, ONE, COMBINED, ALIGNED, ALIGNED_TURNS, OUTSIDE, KINDS };

// How ranks select: a kind, four numbers whose meaning it decides, and those that select nothing.
typedef struct {
    int kind;
    long a, b, c, d;
    unsigned idle;
} How;

// What is selected from: an extent, and its chunks (all of it, if it has none).
typedef struct {
    int axes;
    hsize_t dims[AXES], chunk[AXES];
} Extent;

static How how_of(Call* call) {
    How how;
    how.kind = below(call, KINDS);
    how.idle = (unsigned)next(call);
    how.a = next(call);
    how.b = next(call);
    how.c = next(call);
    how.d = next(call);
    return how;
}

static Extent extent_of(hid_t dataset, hid_t space) {
    Extent of = {0};
    of.axes = H5Sget_simple_extent_dims(space, of.dims, NULL);
    memcpy(of.chunk, of.dims, sizeof(of.chunk));
    const hid_t list = H5Dget_create_plist(dataset);
    if (H5Pget_layout(list) == H5D_CHUNKED) H5Pget_chunk(list, AXES, of.chunk);
    H5Pclose(list);
    return of;
}

// A regular grid of blocks that lies inside; ranks may have some in common.
static void select_blocks(hid_t space, const Extent* of, const How* how, int rank, long shift, H5S_seloper_t op) {
    hsize_t start[AXES], stride[AXES], count[AXES], block[AXES];
    for (int i = 0; i < of->axes; ++i) {
        const hsize_t size = of->dims[i];
        start[i] = (hsize_t)(how->a + shift + 3 * i + rank * how->c) % size;
        block[i] = 1 + (hsize_t)(how->b + shift + i) % 3;
        if (block[i] > size - start[i]) block[i] = size - start[i];
        stride[i] = block[i] + (hsize_t)(how->c + i) % 3;
        const hsize_t fit = (size - start[i] - block[i]) / stride[i] + 1, wanted = 1 + (hsize_t)(how->d + shift) % 5;
        count[i] = wanted < fit ? wanted : fit;
    }
    H5Sselect_hyperslab(space, op, start, stride, count, block);
}

// Some elements, in any order; none twice, which MPI does not allow where they are written.
static void select_points(hid_t space, const Extent* of, const How* how, int rank) {
    const hsize_t elements = (hsize_t)H5Sget_simple_extent_npoints(space), wanted = 1 + (hsize_t)how->a % 8;
    hsize_t at[8 * AXES], chosen[8];
    size_t count = 0;
    unsigned long long random = (unsigned long long)(how->b * 1000 + rank + 1);
    for (hsize_t tries = 0; tries < wanted; ++tries) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        hsize_t element = (random >> 33) % elements;
        int known = 0;
        for (size_t p = 0; p < count; ++p) known |= chosen[p] == element;
        if (known) continue;
        chosen[count] = element;
        for (int i = of->axes; i-- > 0; element /= of->dims[i]) at[count * (size_t)of->axes + (size_t)i] = element % of->dims[i];
        ++count;
    }
    H5Sselect_elements(space, H5S_SELECT_SET, count, at);
}

// Rows along an axis, in units: a share of them, or every n-th.
static void select_rows(hid_t space, const Extent* of, int axis, hsize_t unit, hsize_t rank, hsize_t ranks, int in_turns) {
    hsize_t start[AXES] = {0}, stride[AXES] = {1, 1, 1}, count[AXES] = {1, 1, 1}, block[AXES];
    memcpy(block, of->dims, sizeof(block));
    const hsize_t rows = of->dims[axis], units = (rows + unit - 1) / unit;
    if (in_turns) {
        const hsize_t whole = rows / unit;
        start[axis] = rank * unit;
        stride[axis] = ranks * unit;
        count[axis] = whole > rank ? (whole - rank + ranks - 1) / ranks : 0;
        block[axis] = unit;
    } else {
        const hsize_t end = units * (rank + 1) / ranks * unit;
        start[axis] = units * rank / ranks * unit;
        block[axis] = (end < rows ? end : rows) - (start[axis] < rows ? start[axis] : rows);
    }
    if (count[axis] == 0 || block[axis] == 0) H5Sselect_none(space);
    else H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, block);
}

// Selects what a rank is to transfer.
static void choose(hid_t space, const Extent* of, const How* how, int rank, int ranks) {
    static const H5S_seloper_t ops[] = {H5S_SELECT_OR, H5S_SELECT_AND, H5S_SELECT_XOR, H5S_SELECT_NOTB, H5S_SELECT_NOTA};
    const hsize_t turned = (hsize_t)(rank + how->b) % (hsize_t)ranks, all = (hsize_t)ranks;
    const int idle = (int)(how->idle >> rank & 1), axis = of->axes ? (int)(how->a % of->axes) : 0;
    if (of->axes == 0) {
        if (idle) H5Sselect_none(space);
        return;
    }
    if (idle || H5Sget_simple_extent_npoints(space) == 0 || (how->kind == ONE && turned != 0)) {
        H5Sselect_none(space);
        return;
    }
    switch (how->kind) {
        case SHARE: select_rows(space, of, axis, 1, turned, all, 0); break;
        case TURNS: select_rows(space, of, axis, 1, turned, all, 1); break;
        case BLOCKS: select_blocks(space, of, how, rank, 0, H5S_SELECT_SET); break;
        case POINTS: select_points(space, of, how, rank); break;
        case COMBINED:
            select_blocks(space, of, how, rank, 0, H5S_SELECT_SET);
            select_blocks(space, of, how, rank, how->b + 1, ops[how->d % 5]);
            break;
        case ALIGNED: select_rows(space, of, axis, of->chunk[axis], turned, all, 0); break;
        case ALIGNED_TURNS: select_rows(space, of, axis, of->chunk[axis], turned, all, 1); break;
        case OUTSIDE: {
            hsize_t start[AXES], count[AXES];
            for (int i = 0; i < of->axes; ++i) start[i] = of->dims[i] - 1, count[i] = 3;
            H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
            break;
        }
        default: H5Sselect_all(space);
    }
}

// Values in memory: as the dataset lies in the file, packed, or with gaps between elements; and what is selected there.
typedef struct {
    int kind;
    size_t count, size;  // how many elements are selected; bytes of one
    hid_t space;
    unsigned char* values;
} Memory;

static Memory memory_of(hid_t space, hid_t type, int kind, size_t elements) {
    const hssize_t selected = H5Sget_select_npoints(space);
    Memory of = {kind, selected < 0 ? 0 : (size_t)selected, H5Tget_size(type), -1, NULL};
    if (kind == 0) {
        of.space = H5Scopy(space);
        of.values = calloc(elements + 4, of.size);
        return of;
    }
    const hsize_t length = kind == 1 ? of.count : 2 * of.count, start = 1, step = 2, count = of.count, one = 1;
    of.space = H5Screate_simple(1, length ? &length : &one, NULL);
    if (of.count == 0) H5Sselect_none(of.space);
    else if (kind == 2) H5Sselect_hyperslab(of.space, H5S_SELECT_SET, &start, &step, &count, NULL);
    of.values = calloc(length + 1, of.size);
    return of;
}

// Puts an extent's values where the selected ones are transferred from.
static void lay_out(Memory* to, hid_t space, hid_t type, const unsigned char* all, size_t elements) {
    if (to->kind == 0) {
        memcpy(to->values, all, elements * to->size);
        return;
    }
    if (to->count == 0) return;
    unsigned char* const packed = malloc(to->count * to->size);
    H5Dgather(space, all, type, to->count * to->size, packed, NULL, NULL);
    const size_t step = to->kind == 1 ? 1 : 2;
    for (size_t i = 0; i < to->count; ++i) memcpy(to->values + (i * step + step - 1) * to->size, packed + i * to->size, to->size);
    free(packed);
}

int is_unfilled(hid_t list) {
    H5D_fill_time_t when = H5D_FILL_TIME_ERROR;
    H5D_fill_value_t value = H5D_FILL_VALUE_ERROR;
    H5Pget_fill_time(list, &when);
    H5Pfill_value_defined(list, &value);
    if (when == H5D_FILL_TIME_IFSET && value == H5D_FILL_VALUE_DEFAULT) return 1;
    return when == H5D_FILL_TIME_NEVER || value == H5D_FILL_VALUE_UNDEFINED;
}

void write_whole(Job* job, hid_t dataset, long seed) {
    const hid_t space = H5Dget_space(dataset), type = H5Dget_type(dataset), list = H5Pcreate(H5P_DATASET_XFER);
    const size_t elements = (size_t)H5Sget_simple_extent_npoints(space);
    unsigned char* const values = malloc((elements + 1) * H5Tget_size(type));
    fill(values, type, elements, seed);
    H5Pset_dxpl_mpio(list, H5FD_MPIO_COLLECTIVE);
    TRY(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, list, values));
    MPI_Barrier(job->comm);
    free(values);
    H5Pclose(list);
    H5Tclose(type);
    H5Sclose(space);
}

// Whether filtered chunks are stored that are not written again: HDF5 1.10 hangs, on disk too, in some such writes.
static int is_packed_for_good(hid_t dataset) {
    if (H5_VERS_MINOR != 10) return 0;
    const hid_t list = H5Dget_create_plist(dataset);
    const int filters = H5Pget_layout(list) == H5D_CHUNKED ? H5Pget_nfilters(list) : 0;
    H5Pclose(list);
    return filters > 0 && H5Dget_storage_size(dataset) > 0;
}

static void say_how(hid_t list) {
    H5D_mpio_actual_io_mode_t mode;
    H5D_mpio_actual_chunk_opt_mode_t chunks;
    uint32_t here = 0, anywhere = 0;
    H5Pget_mpio_actual_io_mode(list, &mode);
    H5Pget_mpio_actual_chunk_opt_mode(list, &chunks);
    H5Pget_mpio_no_collective_cause(list, &here, &anywhere);
    say("  done as %d, %d, for %u, %u", (int)mode, (int)chunks, here, anywhere);
}

// DATASET COLLECTIVE CONVERSION MEMORY SEED, and how ranks select.
static void transfer(Job* job, Call* call, int writes) {
    const hid_t x = open_set(job, call);
    if (x < 0) return;
    const int together = below(call, 2), conversion = below(call, 4), kind = below(call, 3);
    const long seed = next(call);
    How how = how_of(call);
    if (writes && is_packed_for_good(x)) {
        H5Dclose(x);
        return;
    }
    if (together && how.kind == OUTSIDE) how.kind = ALL;  // the others would wait for one that fails
    const hid_t made = H5Dget_create_plist(x);
    if (H5Pget_layout(made) == H5D_COMPACT) how.kind = ALL, how.idle = 0;  // it is metadata: all ranks have the same
    H5Pclose(made);
    const hid_t space = H5Dget_space(x), type = H5Dget_type(x), in_memory = memory_type(type, conversion);
    const Extent of = extent_of(x, space);
    choose(space, &of, &how, job->rank, job->ranks);
    const size_t elements = (size_t)H5Sget_simple_extent_npoints(space);
    Memory memory = memory_of(space, in_memory, kind, elements);
    const hid_t list = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_dxpl_mpio(list, together ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
    const int takes_part = together || !(how.idle >> job->rank & 1);
    const int whole = kind == 0 && how.kind == ALL && !(how.idle >> job->rank & 1) && how.b % 2;
    const hid_t in_file = whole ? H5S_ALL : space, there = whole ? H5S_ALL : memory.space;
    if (writes && takes_part) {
        unsigned char* const all = malloc((elements + 1) * memory.size);
        fill(all, in_memory, elements, seed);
        if (how.kind != OUTSIDE) lay_out(&memory, space, in_memory, all, elements);
        free(all);
        TRY(H5Dwrite(x, in_memory, there, in_file, list, memory.values));
    } else if (takes_part) {
        TRY(H5Dread(x, in_memory, there, in_file, list, memory.values));
        const size_t length = kind == 0 ? elements : kind * memory.count;
        say_content("values", memory.values, length * memory.size);
    }
    if (together) say_how(list);
    free(memory.values);
    H5Sclose(memory.space);
    H5Pclose(list);
    H5Tclose(in_memory);
    H5Tclose(type);
    H5Sclose(space);
    H5Dclose(x);
    MPI_Barrier(job->comm);
}

static void write_values(Job* job, Call* call) { transfer(job, call, 1); }
static void read_values(Job* job, Call* call) { transfer(job, call, 0); }

// DATASET SIZE SIZE SIZE
static void extend(Job* job, Call* call) {
    const hid_t x = open_set(job, call);
    if (x < 0) return;
    const hid_t space = H5Dget_space(x);
    hsize_t dims[AXES] = {0}, sizes[AXES];
    const int axes = H5Sget_simple_extent_dims(space, dims, NULL), packed = is_packed_for_good(x);
    const hid_t list = H5Dget_create_plist(x);
    const int fixed = is_unfilled(list);
    H5Pclose(list);
    for (int i = 0; i < axes; ++i) {
        sizes[i] = (hsize_t)below(call, axes == 1 ? 80 : axes == 2 ? 30 : 9);
        // HDF5 1.10 also hangs when such chunks are cut off and written again.
        if (fixed || (packed && sizes[i] < dims[i])) sizes[i] = dims[i];
    }
    TRY(H5Dset_extent(x, sizes));
    say("  %llu bytes stored", (unsigned long long)H5Dget_storage_size(x));
    H5Sclose(space);
    H5Dclose(x);
}

// DATASET SEED: ranks write chunks in turn as they are stored.
static void write_chunks(Job* job, Call* call) {
    const hid_t x = open_set(job, call);
    if (x < 0) return;
    const long seed = next(call);
    const hid_t space = H5Dget_space(x), type = H5Dget_type(x), list = H5Dget_create_plist(x);
    const Extent of = extent_of(x, space);
    if (H5Pget_layout(list) == H5D_CHUNKED && H5Pget_nfilters(list) == 0 && H5Tis_variable_str(type) <= 0) {
        size_t elements = 1;
        for (int i = 0; i < of.axes; ++i) elements *= of.chunk[i];
        unsigned char* const values = malloc(elements * H5Tget_size(type));
        const hsize_t rows = of.dims[0] ? (of.dims[0] + of.chunk[0] - 1) / of.chunk[0] : 0;
        for (hsize_t row = (hsize_t)job->rank; row < rows && H5Sget_simple_extent_npoints(space); row += (hsize_t)job->ranks) {
            const hsize_t at[AXES] = {row * of.chunk[0], 0, 0};
            fill(values, type, elements, seed + (long)row);
            TRY(H5Dwrite_chunk(x, H5P_DEFAULT, 0, at, elements * H5Tget_size(type), values));
        }
        free(values);
    }
    H5Pclose(list);
    H5Tclose(type);
    H5Sclose(space);
    H5Dclose(x);
    MPI_Barrier(job->comm);
}

const Known transfer_calls[] = {
    {"write", write_values}, {"read", read_values}, {"extend", extend}, {"chunks", write_chunks}, {NULL, NULL},
};
