/* HDF5 files that ranks write together and over each other:
 *
 *     files write CASE SEED STEPS    files read CASE STEPS
 *
 * CASE is one of the names in `cases`, or "all" for one after another. Step k of a case has the seed SEED + k. What is
 * in a file follows from its seed, not from who was late. Every rank knows what must be in a dataset, and compares
 * while the file is open. `read` prints sums of what each rank finds in each file. */
#include "draws.h"

#include <hdf5.h>

enum { RUNS = 64, AROUND = 3 };

typedef struct {
    hid_t id;
    MPI_Comm comm;
    int size, fill;
    int *model;
} Set;

static const char *cases[] = {"fill", "filtered", "cache", "readback", "extend", "pair"};
enum { CASES = sizeof(cases) / sizeof(*cases) };

static hid_t need(hid_t id, const char *what) {
    if (id < 0) fail("cannot %s", what);
    return id;
}

static int value(int round, int at) { return (int)mixed((uint64_t)seed * 1000003u + (uint64_t)round * 7919u + (uint64_t)at); }

/* Transfers. A rank that has no part in a collective one selects nothing. */

static hid_t transfer(int collective) {
    const hid_t list = H5Pcreate(H5P_DATASET_XFER);
    if (collective) H5Pset_dxpl_mpio(list, H5FD_MPIO_COLLECTIVE);
    return list;
}

static void put(Set *set, hid_t space, hsize_t count, const int *values, int collective) {
    const hid_t list = transfer(collective), memory = H5Screate_simple(1, &count, NULL);
    if (count == 0) H5Sselect_none(memory);
    need(H5Dwrite(set->id, H5T_NATIVE_INT, memory, space, list, values), "write");
    H5Sclose(memory);
    H5Pclose(list);
}

/* Compare a part of a dataset with what must be there. */
static void look(Set *set, int first, int count, int collective, const char *when) {
    const hsize_t start = (hsize_t)first, size = (hsize_t)count;
    const hid_t list = transfer(collective), space = H5Dget_space(set->id), memory = H5Screate_simple(1, &size, NULL);
    int *values = malloc(sizeof(int) * (size_t)(count + 1));
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &size, NULL);
    need(H5Dread(set->id, H5T_NATIVE_INT, memory, space, list, values), "read");
    for (int i = 0; i < count; ++i)
        if (values[i] != set->model[first + i])
            fail("%s: element %d of %d is %d, not %d", when, first + i, set->size, values[i], set->model[first + i]);
    free(values);
    H5Sclose(memory);
    H5Sclose(space);
    H5Pclose(list);
}

static void look_around(Set *set, int collective, const char *when) {
    for (int k = 0; k < AROUND; ++k) {
        const int first = k ? any(set->size) : 0, left = set->size - first;
        look(set, first, k ? 1 + any(left) : left, collective, when);
        hesitate();
    }
}

/* Deal a dataset's elements to the ranks of its communicator, in up to RUNS runs, and let each write its own. */
static void write_round(Set *set, int round, int collective, int smooth) {
    int me, members, rest = 0, runs = 1 + all(RUNS), rotate;
    hsize_t total = 0;
    const hid_t space = H5Dget_space(set->id);
    int *values = malloc(sizeof(int) * (size_t)(set->size + 1));
    MPI_Comm_rank(set->comm, &me);
    MPI_Comm_size(set->comm, &members);
    rotate = all(members);
    const int even = all(2), gaps = all(3) == 0, apart = !collective && all(2);
    H5Sselect_none(space);
    for (int k = 0; k < runs && rest < set->size; ++k) {
        const int first = rest, left = set->size - first, each = set->size / runs + 1;
        const int most = even ? each : 1 + all(2 * each), count = most < left && k + 1 < runs ? most : left;
        const int owner = even ? (k + rotate) % members : all(members);
        rest += count;
        if (gaps && all(3) == 0) continue;
        for (int i = first; i < rest; ++i) set->model[i] = smooth ? value(round, k) : value(round, i);
        if (owner != me) continue;
        const hsize_t start = (hsize_t)first, size = (hsize_t)count;
        if (apart) {
            H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &size, NULL);
            hesitate();
            put(set, space, size, set->model + first, 0);
        } else {
            H5Sselect_hyperslab(space, H5S_SELECT_OR, &start, NULL, &size, NULL);
            memcpy(values + total, set->model + first, sizeof(int) * size);
            total += size;
        }
    }
    if (!apart) {
        hesitate();
        if (total || collective) put(set, space, total, values, collective);
    }
    free(values);
    H5Sclose(space);
}

/* Ranks write one after another, over parts of what those before them wrote, in an order that only messages between
 * two ranks tell. */
static void write_in_turns(Set *set, int round) {
    int me, members, last = -1, token = 0;
    const int turns = 2 + all(6), width = 1 + all(set->size), from = all(set->size - width + 1);
    MPI_Comm_rank(set->comm, &me);
    MPI_Comm_size(set->comm, &members);
    for (int turn = 0; turn < turns; ++turn) {
        const int who = all(members), count = 1 + all(width), first = from + all(width - count + 1);
        if (last >= 0 && last != who) {
            if (me == last) MPI_Send(&token, 1, MPI_INT, who, 7, set->comm);
            if (me == who) MPI_Recv(&token, 1, MPI_INT, last, 7, set->comm, MPI_STATUS_IGNORE);
        }
        last = who;
        if (me == who) {
            hesitate();
            look(set, from, width, 0, "before a turn");
        }
        for (int i = first; i < first + count; ++i) set->model[i] = value(1000 * (round + 1) + turn, i);
        if (me != who) continue;
        const hid_t space = H5Dget_space(set->id);
        const hsize_t start = (hsize_t)first, size = (hsize_t)count;
        H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &size, NULL);
        put(set, space, size, set->model + first, 0);
        H5Sclose(space);
        look(set, from, width, 0, "after a turn");
    }
    MPI_Barrier(set->comm);
}

/* Files and datasets. */

static hid_t create(const char *name, MPI_Comm comm, int spills) {
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(access, comm, MPI_INFO_NULL);
    if (all(4) == 0) H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    if (all(4) == 0) H5Pset_alignment(access, 1000, 4096);
    if (spills) {
        H5AC_cache_config_t cache = {.version = H5AC__CURR_CACHE_CONFIG_VERSION};
        need(H5Pget_mdc_config(access, &cache), "get a cache's configuration");
        cache.dirty_bytes_threshold = (size_t)(1 << (10 + all(6)));
        cache.metadata_write_strategy =
            all(2) ? H5AC_METADATA_WRITE_STRATEGY__DISTRIBUTED : H5AC_METADATA_WRITE_STRATEGY__PROCESS_0_ONLY;
        need(H5Pset_mdc_config(access, &cache), "set a cache's configuration");
    }
    const hid_t file = need(H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access), "create a file");
    H5Pclose(access);
    return file;
}

static Set dataset(hid_t file, const char *name, MPI_Comm comm, int size, hid_t list, int most) {
    const hsize_t now = (hsize_t)size, limit = most ? H5S_UNLIMITED : now;
    const hid_t space = H5Screate_simple(1, &now, &limit);
    Set set = {.comm = comm, .size = size, .fill = all(2) ? value(99, 0) : 0};
    set.model = malloc(sizeof(int) * (size_t)((most ? most : size) + 1));
    for (int i = 0; i < size; ++i) set.model[i] = set.fill;
    H5Pset_obj_track_times(list, 0);
    H5Pset_fill_value(list, H5T_NATIVE_INT, &set.fill);
    set.id = need(H5Dcreate2(file, name, H5T_STD_I32LE, space, H5P_DEFAULT, list, H5P_DEFAULT), "create a dataset");
    H5Pclose(list);
    H5Sclose(space);
    return set;
}

static void let_go(Set *set) {
    H5Dclose(set->id);
    free(set->model);
}

static hid_t layout(int size, int chunked) {
    const hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    const int least = 1 + size / 50;
    const hsize_t chunk = (hsize_t)(least + all(size - least + 1));
    if (chunked) H5Pset_chunk(list, 1, &chunk);
    return list;
}

static void put_attribute(hid_t attribute, int round, int count) {
    int values[256];
    for (int i = 0; i < count; ++i) values[i] = value(round, i);
    need(H5Awrite(attribute, H5T_NATIVE_INT, values), "write an attribute");
}

static hid_t attribute(hid_t object, const char *name, int count) {
    const hsize_t size = (hsize_t)count;
    const hid_t space = H5Screate_simple(1, &size, NULL);
    const hid_t id = H5Acreate2(object, name, H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Sclose(space);
    return need(id, "create an attribute");
}

static void attribute_is(hid_t object, const char *name, int first, int count) {
    const hid_t attribute = need(H5Aopen(object, name, H5P_DEFAULT), "open an attribute");
    int values[256];
    need(H5Aread(attribute, H5T_NATIVE_INT, values), "read an attribute");
    for (int i = 0; i < count; ++i)
        if (values[i] != value(first, i)) fail("%s: element %d is %d, not %d", name, i, values[i], value(first, i));
    H5Aclose(attribute);
}

/* The cases. */

/* Rank 0 fills, there is a barrier, and all write over it. */
static void fill(const char *name) {
    const hid_t file = create(name, MPI_COMM_WORLD, 0);
    char called[16];
    for (int k = 0; k < 3; ++k) {
        const int size = 1 + all(k ? 3000 : 300000);
        const hid_t list = layout(size, all(2));
        H5Pset_alloc_time(list, H5D_ALLOC_TIME_EARLY);
        H5Pset_fill_time(list, H5D_FILL_TIME_ALLOC);
        snprintf(called, sizeof(called), "x%d", k);
        Set set = dataset(file, called, MPI_COMM_WORLD, size, list, 0);
        hesitate();
        MPI_Barrier(MPI_COMM_WORLD);
        for (int round = 0; round < 2; ++round) {
            write_round(&set, round, all(4) == 0, 0);
            hesitate();
            MPI_Barrier(MPI_COMM_WORLD);
            look_around(&set, 0, "after a barrier");
            MPI_Barrier(MPI_COMM_WORLD);
        }
        let_go(&set);
    }
    need(H5Fclose(file), "close a file");
}

/* Chunks change their length and place as ranks of other hosts write parts of them. */
static void filtered(const char *name) {
    const hid_t file = create(name, MPI_COMM_WORLD, all(3) == 0);
    const int size = 1000 + all(60000), rounds = 3 + all(3);
    const hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk = (hsize_t)(200 + all(size < 8000 ? size - 200 : 8000));
    H5Pset_chunk(list, 1, &chunk);
    if (all(2)) H5Pset_shuffle(list);
    H5Pset_deflate(list, 1 + (unsigned)all(6));
    Set set = dataset(file, "x0", MPI_COMM_WORLD, size, list, 0);
    for (int round = 0; round < rounds; ++round) {
        write_round(&set, round, 1, all(2));
        hesitate();
        if (all(2)) look_around(&set, 1, "after it was written");
        if (all(3) == 0) H5Fflush(file, H5F_SCOPE_LOCAL);
    }
    let_go(&set);
    need(H5Fclose(file), "close a file");
}

static void make_small(hid_t file) {
    H5AC_cache_config_t cache = {.version = H5AC__CURR_CACHE_CONFIG_VERSION};
    need(H5Fget_mdc_config(file, &cache), "get a cache's configuration");
    cache.set_initial_size = 1;
    cache.initial_size = cache.max_size = cache.min_size = 1 << 16;
    need(H5Fset_mdc_config(file, &cache), "set a cache's configuration");
}

/* Metadata leave the cache early, now from the one rank, now from another. Then the cache is made small, and each rank
 * reads for itself what others have written. Its size is so late since HDF5 1.10 stands still, on disk, too, where a rank
 * has something in a small cache that others lack, and all are to change it. */
static void cache(const char *name) {
    enum { SETS = 24 };
    Set sets[SETS];
    hid_t attributes[SETS];
    int written[SETS], lengths[SETS];
    char called[24];
    const hid_t file = create(name, MPI_COMM_WORLD, 1);
    for (int k = 0; k < SETS; ++k) {
        const int size = 64 + all(2000), one = all(k + 1);
        snprintf(called, sizeof(called), "group%d", k / 8);
        if (k % 8 == 0) H5Gclose(need(H5Gcreate2(file, called, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "create a group"));
        snprintf(called, sizeof(called), "group%d/x%d", k / 8, k);
        sets[k] = dataset(file, called, MPI_COMM_WORLD, size, layout(size, all(4)), 0);
        attributes[k] = attribute(sets[k].id, "a", lengths[k] = 1 + all(200));
        put_attribute(attributes[k], written[k] = k, lengths[k]);
        hesitate();
        put_attribute(attributes[one], written[one] = 100 + k, lengths[one]);
    }
    for (int k = 0; k < SETS; ++k) {
        H5Aclose(attributes[k]);
        H5Dclose(sets[k].id);
    }
    need(H5Fflush(file, H5F_SCOPE_LOCAL), "flush");
    make_small(file);
    for (int k = 0; k < 20; ++k) {
        const int one = any(SETS);
        snprintf(called, sizeof(called), "group%d/x%d", one / 8, one);
        const hid_t again = need(H5Dopen2(file, called, H5P_DEFAULT), "open a dataset again");
        attribute_is(again, "a", written[one], lengths[one]);
        hesitate();
        H5Dclose(again);
    }
    for (int k = 0; k < 6; ++k) {
        const int one = all(SETS);
        Set *set = &sets[one];
        snprintf(called, sizeof(called), "group%d/x%d", one / 8, one);
        set->id = need(H5Dopen2(file, called, H5P_DEFAULT), "open a dataset again");
        write_round(set, k, 0, 0);
        MPI_Barrier(MPI_COMM_WORLD);
        look_around(set, 0, "in a small cache");
        MPI_Barrier(MPI_COMM_WORLD);
        H5Dclose(set->id);
    }
    for (int k = 0; k < SETS; ++k) free(sets[k].model);
    need(H5Fclose(file), "close a file");
}

/* Ranks read what others wrote, also where they wrote and read before. */
static void readback(const char *name) {
    const hid_t file = create(name, MPI_COMM_WORLD, 0);
    for (int k = 0; k < 2; ++k) {
        const int size = 1 + all(k ? 100000 : 1000);
        Set set = dataset(file, k ? "x1" : "x0", MPI_COMM_WORLD, size, layout(size, all(2)), 0);
        for (int round = 0; round < 4; ++round) {
            if (all(3)) {
                write_round(&set, round, all(4) == 0, 0);
                hesitate();
                MPI_Barrier(MPI_COMM_WORLD);
            } else {
                write_in_turns(&set, round);
            }
            look_around(&set, all(4) == 0, "after a barrier");
            MPI_Barrier(MPI_COMM_WORLD);
        }
        let_go(&set);
    }
    need(H5Fclose(file), "close a file");
}

/* Datasets grow, with flushes between. None shrinks: HDF5 1.10 then has a chunk in the cache of every rank, and writes it
 * over what others have written since. */
static void extend(const char *name) {
    enum { MOST = 60000 };
    const hid_t file = create(name, MPI_COMM_WORLD, 0), list = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk = (hsize_t)(500 + all(5000));
    H5Pset_chunk(list, 1, &chunk);
    Set set = dataset(file, "x0", MPI_COMM_WORLD, 1 + all(3000), list, MOST);
    for (int round = 0; round < 5; ++round) {
        const int size = set.size + all(MOST - set.size) / 2;
        const hsize_t now = (hsize_t)size;
        need(H5Dset_extent(set.id, &now), "change an extent");
        for (int i = set.size; i < size; ++i) set.model[i] = set.fill;
        set.size = size;
        hesitate();
        MPI_Barrier(MPI_COMM_WORLD);
        write_round(&set, round, all(3) == 0, 0);
        if (all(3)) need(H5Fflush(file, H5F_SCOPE_LOCAL), "flush");
        MPI_Barrier(MPI_COMM_WORLD);
        look_around(&set, 0, "after a flush");
        MPI_Barrier(MPI_COMM_WORLD);
    }
    let_go(&set);
    need(H5Fclose(file), "close a file");
}

/* Two files are open at once. Some ranks have both, and each file is another rank's to lead. */
static void pair(const char *name) {
    const int has[2] = {rank + 1 < ranks, rank > 0};
    hid_t files[2];
    Set sets[2];
    MPI_Comm comms[2];
    char called[64];
    for (int side = 0; side < 2; ++side) {
        MPI_Comm_split(MPI_COMM_WORLD, has[side] ? 0 : MPI_UNDEFINED, side ? ranks - rank : rank, &comms[side]);
        const uint64_t before = ours;
        if (has[side]) {
            snprintf(called, sizeof(called), "%.*s-%s.h5", (int)strlen(name) - 3, name, side ? "right" : "left");
            files[side] = create(called, comms[side], 0);
            const int size = 1 + all(40000);
            sets[side] = dataset(files[side], "x0", comms[side], size, layout(size, all(2)), 0);
        }
        ours = mixed(before + (uint64_t)side);
    }
    for (int round = 0; round < 6; ++round)
        for (int side = 0; side < 2; ++side) {
            const uint64_t before = ours;
            const int turns = all(3) == 0;
            if (has[side] && turns) write_in_turns(&sets[side], round);
            else if (has[side]) write_round(&sets[side], round, all(4) == 0, 0);
            hesitate();
            if (has[side]) {
                MPI_Barrier(comms[side]);
                look_around(&sets[side], 0, side ? "in the right file" : "in the left file");
                MPI_Barrier(comms[side]);
            }
            ours = mixed(before + (uint64_t)side + 2);
        }
    for (int side = 0; side < 2; ++side) {
        if (has[side]) {
            let_go(&sets[side]);
            need(H5Fclose(files[side]), "close a file");
            MPI_Comm_free(&comms[side]);
        }
    }
}

static void (*const perform[CASES])(const char *) = {fill, filtered, cache, readback, extend, pair};

/* Readers. */

static void sum_attributes(hid_t object, uint64_t *sum) {
    int values[256] = {0};
    const int count = H5Aget_num_attrs(object);
    for (int k = 0; k < count; ++k) {
        const hid_t one = H5Aopen_by_idx(object, ".", H5_INDEX_NAME, H5_ITER_INC, (hsize_t)k, H5P_DEFAULT, H5P_DEFAULT);
        need(H5Aread(one, H5T_NATIVE_INT, values), "read an attribute");
        for (int i = 0; i < 256; ++i) *sum = mixed(*sum + (uint64_t)(uint32_t)values[i] + 1);
        H5Aclose(one);
    }
}

/* Adds a dataset's part of this rank. */
static herr_t sum_object(hid_t file, const char *name, const H5O_info_t *info, void *data) {
    uint64_t *sum = data;
    hsize_t total = 0, first, count;
    if (info->type != H5O_TYPE_DATASET) return 0;
    const hid_t id = need(H5Dopen2(file, name, H5P_DEFAULT), "open a dataset"), space = H5Dget_space(id);
    H5Sget_simple_extent_dims(space, &total, NULL);
    first = total * (hsize_t)rank / (hsize_t)ranks;
    count = total * (hsize_t)(rank + 1) / (hsize_t)ranks - first;
    const hid_t list = transfer((int)(total % 2)), memory = H5Screate_simple(1, &count, NULL);
    int *values = malloc(sizeof(int) * (size_t)(count + 1));
    if (count) {
        H5Sselect_hyperslab(space, H5S_SELECT_SET, &first, NULL, &count, NULL);
    } else {
        H5Sselect_none(space);
        H5Sselect_none(memory);
    }
    hesitate();
    need(H5Dread(id, H5T_NATIVE_INT, memory, space, list, values), "read");
    for (hsize_t i = 0; i < count; ++i) *sum = mixed(*sum + (uint64_t)(uint32_t)values[i] + 1);
    sum_attributes(id, sum);
    free(values);
    H5Sclose(memory);
    H5Sclose(space);
    H5Pclose(list);
    H5Dclose(id);
    return 0;
}

static void read_file(const char *name) {
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    uint64_t sum = 0;
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    const hid_t file = need(H5Fopen(name, H5F_ACC_RDONLY, access), name);
    H5Pclose(access);
    need(H5Ovisit(file, H5_INDEX_NAME, H5_ITER_INC, sum_object, &sum), "visit");
    need(H5Fclose(file), "close a file");
    printf("%s rank %d: %016llx\n", name, rank, (unsigned long long)sum);
}

static void read_step(int one, const char *name) {
    char called[64];
    if (strcmp(cases[one], "pair") != 0) {
        read_file(name);
        return;
    }
    for (int side = 0; side < 2; ++side) {
        snprintf(called, sizeof(called), "%.*s-%s.h5", (int)strlen(name) - 3, name, side ? "right" : "left");
        read_file(called);
    }
}

int main(int argc, char **argv) {
    char name[32];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int writes = argc > 4 && strcmp(argv[1], "write") == 0, steps = argc > 3 ? atoi(argv[writes ? 4 : 3]) : 0;
    const long first = writes ? atol(argv[3]) : 0;
    for (int one = 0; one < CASES; ++one) {
        if (strcmp(argv[2], "all") != 0 && strcmp(argv[2], cases[one]) != 0) continue;
        for (int step = 0; step < steps; ++step) {
            snprintf(name, sizeof(name), "%s-%04d.h5", cases[one], step);
            begin_step(cases[one], first + step);
            if (writes) perform[one](name);
            else read_step(one, name);
        }
    }
    MPI_Finalize();
    return 0;
}
