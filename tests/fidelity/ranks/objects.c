// Calls of random programs that make, change and look at objects, and those about the file as a whole.
#include "performer.h"

// The path of an object of any kind, by its number; the root is the first.
static const char* any_path(const Job* job, Call* call) {
    const Paths* const kinds[] = {&job->groups, &job->sets, &job->types};
    int number = below(call, job->groups.count + job->sets.count + job->types.count), kind = 0;
    while (number >= kinds[kind]->count) number -= kinds[kind++]->count;
    return kinds[kind]->path[number];
}

// A new path: the number of a group, and of a name.
static void place(const Job* job, Call* call, char* path) {
    static const char* const names[] = {"a", "b", "c", "d", "e", "f", "g", "x y", "deep/er", "\xc3\xbc"};
    const char* const parent = job->groups.path[below(call, job->groups.count)];
    snprintf(path, PATH, "%s/%s", strlen(parent) > PATH / 2 ? "" : strcmp(parent, "/") ? parent : "", names[below(call, 10)]);
}

static int is_below(const char* path, const char* top) {
    const size_t length = strlen(top);
    return strncmp(path, top, length) == 0 && (path[length] == '/' || path[length] == 0);
}

// Forgets an object and those below it; or gives them the path of their new place.
static void moved(Job* job, const char* from, const char* to) {
    Paths* const kinds[] = {&job->groups, &job->sets, &job->types};
    for (int k = 0; k < 3; ++k) {
        const int count = kinds[k]->count;
        kinds[k]->count = 0;
        for (int i = 0; i < count; ++i) {
            char path[2 * PATH];
            snprintf(path, sizeof(path), "%s", kinds[k]->path[i]);
            if (is_below(path, from)) {
                if (!to) continue;
                snprintf(path, sizeof(path), "%s%s", to, kinds[k]->path[i] + strlen(from));
            }
            add_path(kinds[k], path);
        }
    }
}

static Paths* kind_of(Job* job, const char* path) {
    Paths* const kinds[] = {&job->sets, &job->types};
    for (int k = 0; k < 2; ++k)
        for (int i = 0; i < kinds[k]->count; ++i)
            if (strcmp(kinds[k]->path[i], path) == 0) return kinds[k];
    return &job->groups;
}

static hid_t with_parents(void) {
    const hid_t list = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(list, 1);
    H5Pset_char_encoding(list, H5T_CSET_UTF8);
    return list;
}

// PARENT NAME ORDER
static void group(Job* job, Call* call) {
    char path[PATH];
    place(job, call, path);
    const hid_t links = with_parents(), list = H5Pcreate(H5P_GROUP_CREATE);
    if (below(call, 2)) H5Pset_link_creation_order(list, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    const hid_t id = TRY(H5Gcreate2(job->id, path, links, list, H5P_DEFAULT));
    if (id >= 0) add_path(&job->groups, path), H5Gclose(id);
    H5Pclose(list);
    H5Pclose(links);
}

// PARENT NAME TYPE
static void commit(Job* job, Call* call) {
    char path[PATH];
    place(job, call, path);
    const hid_t links = with_parents(), type = type_of(below(call, FIXED_TYPES));
    if (TRY(H5Tcommit2(job->id, path, type, links, H5P_DEFAULT, H5P_DEFAULT)) >= 0) add_path(&job->types, path);
    H5Tclose(type);
    H5Pclose(links);
}

static void add_filters(hid_t list, int which) {
    if (which & 1) H5Pset_shuffle(list);
    if (which & 2) H5Pset_deflate(list, 4);
    if (which & 4) H5Pset_fletcher32(list);
}

static void set_fill(hid_t list, hid_t type, long seed) {
    if (seed < 0 || H5Tis_variable_str(type) > 0) return;
    if (seed == 0) {
        H5Pset_fill_value(list, type, NULL);
        return;
    }
    unsigned char value[64];
    fill(value, type, 1, seed);
    H5Pset_fill_value(list, type, value);
}

// PARENT NAME TYPE, AXES and sizes, LAYOUT, chunks, greatest sizes, FILTERS FILLING ALLOCATION FILL CACHE COMMITTED
static void create(Job* job, Call* call) {
    char path[PATH];
    place(job, call, path);
    hid_t type = type_of(below(call, FIXED_TYPES + 1));
    const int axes = below(call, 4);
    hsize_t dims[3], chunk[3], most[3];
    for (int i = 0; i < 3; ++i) dims[i] = (hsize_t)next(call);
    const int layout = below(call, 4);
    for (int i = 0; i < 3; ++i) chunk[i] = (hsize_t)next(call);
    for (int i = 0; i < 3; ++i) {
        const long more = next(call);
        most[i] = more < 0 || layout != H5D_CHUNKED ? dims[i] : more == 0 ? H5S_UNLIMITED : dims[i] + (hsize_t)more;
        if (most[i] < chunk[i]) chunk[i] = most[i] ? most[i] : 1;
    }
    const int filters = below(call, 8), filling = below(call, 3);
    int alloc = below(call, 4);
    const long seed = next(call);
    // Filtered chunks that are allocated, and not filled, cannot be read: a rank that writes a part of one fails, and the
    // others wait for it.
    if (filters && layout == H5D_CHUNKED && (filling == H5D_FILL_TIME_NEVER || seed == 0)) alloc = H5D_ALLOC_TIME_INCR;
    const int cache = below(call, 3), committed = below(call, 2) && job->types.count;
    const hid_t list = untimed(), access = H5Pcreate(H5P_DATASET_ACCESS), links = with_parents();
    if (committed) {
        H5Tclose(type);
        type = H5Topen2(job->id, job->types.path[job->types.count - 1], H5P_DEFAULT);
    }
    if (axes || layout != H5D_CHUNKED) H5Pset_layout(list, (H5D_layout_t)layout);
    if (axes && layout == H5D_CHUNKED) {
        H5Pset_chunk(list, axes, chunk);
        add_filters(list, filters);
    }
    if (alloc) H5Pset_alloc_time(list, (H5D_alloc_time_t)alloc);
    if (H5Tis_variable_str(type) <= 0) H5Pset_fill_time(list, (H5D_fill_time_t)filling);
    set_fill(list, type, seed);
    if (cache) H5Pset_chunk_cache(access, 11, cache == 1 ? 0 : 300, 0.5);
    const hid_t space = axes ? H5Screate_simple(axes, dims, most) : H5Screate(H5S_SCALAR);
    const hid_t x = TRY(H5Dcreate2(job->id, path, type, space, links, list, access));
    if (x >= 0) {
        add_path(&job->sets, path);
        say("  %llu bytes stored", (unsigned long long)H5Dget_storage_size(x));
        if (is_unfilled(list)) write_whole(job, x, seed);
        H5Dclose(x);
    }
    H5Sclose(space);
    H5Pclose(links);
    H5Pclose(access);
    H5Pclose(list);
    if (type >= 0) H5Tclose(type);
}

hid_t open_set(Job* job, Call* call) {
    const long number = next(call);
    if (job->sets.count == 0) return -1;
    const char* const path = job->sets.path[number % job->sets.count];
    const hid_t id = H5Dopen2(job->id, path, H5P_DEFAULT);
    tried(path, id);
    return id;
}

static const char* attribute_name(Call* call) {
    static const char* const names[] = {"a", "b", "c", "units", "\xc3\xbc"};
    return names[below(call, 5)];
}

// OBJECT NAME TYPE COUNT SEED; a count of 0 is a scalar
static void attribute(Job* job, Call* call) {
    const char *const path = any_path(job, call), *const name = attribute_name(call);
    const hid_t type = type_of(below(call, FIXED_TYPES + 1));
    const hsize_t count = (hsize_t)below(call, 9), many = count ? count : 1;
    const hid_t space = count ? H5Screate_simple(1, &count, NULL) : H5Screate(H5S_SCALAR);
    const hid_t id = TRY(H5Acreate_by_name(job->id, path, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    if (id >= 0 && H5Tis_variable_str(type) > 0) {
        static const char* const words[] = {"of", "any", "length", "", "u", "v", "words", "last"};
        TRY(H5Awrite(id, type, words));
    } else if (id >= 0) {
        unsigned char* const values = malloc(many * H5Tget_size(type));
        fill(values, type, many, next(call));
        TRY(H5Awrite(id, type, values));
        free(values);
    }
    if (id >= 0) H5Aclose(id);
    H5Sclose(space);
    H5Tclose(type);
}

// OBJECT NAME
static void forget(Job* job, Call* call) {
    const char *const path = any_path(job, call), *const name = attribute_name(call);
    TRY(H5Adelete_by_name(job->id, path, name, H5P_DEFAULT));
}

// OBJECT NAME NAME
static void rename_attribute(Job* job, Call* call) {
    const char *const path = any_path(job, call), *const name = attribute_name(call);
    TRY(H5Arename_by_name(job->id, path, name, attribute_name(call), H5P_DEFAULT));
}

// OBJECT
static void delete(Job* job, Call* call) {
    char path[PATH];
    snprintf(path, sizeof(path), "%s", any_path(job, call));
    if (TRY(H5Ldelete(job->id, path, H5P_DEFAULT)) >= 0) moved(job, path, NULL);
}

// OBJECT PARENT NAME
static void move(Job* job, Call* call) {
    char from[PATH], to[PATH];
    snprintf(from, sizeof(from), "%s", any_path(job, call));
    place(job, call, to);
    if (is_below(to, from)) return;  // HDF5 does it, and what has moved is out of reach
    const hid_t links = with_parents();
    if (TRY(H5Lmove(job->id, from, job->id, to, links, H5P_DEFAULT)) >= 0) moved(job, from, to);
    H5Pclose(links);
}

// OBJECT PARENT NAME: all ranks write the copy, each at its own time; what one of them writes there next is not to be lost.
static void copy(Job* job, Call* call) {
    char from[PATH], to[PATH];
    snprintf(from, sizeof(from), "%s", any_path(job, call));
    place(job, call, to);
    if (is_below(to, from)) return;
    const hid_t links = with_parents();
    if (TRY(H5Ocopy(job->id, from, job->id, to, H5P_DEFAULT, links)) >= 0) add_path(kind_of(job, from), to);
    MPI_Barrier(job->comm);
    H5Pclose(links);
}

// OBJECT PARENT NAME SOFT
static void link_to(Job* job, Call* call) {
    char from[PATH], to[PATH];
    snprintf(from, sizeof(from), "%s", any_path(job, call));
    place(job, call, to);
    const hid_t links = with_parents();
    if (below(call, 2)) TRY(H5Lcreate_soft(from, job->id, to, links, H5P_DEFAULT));
    else if (TRY(H5Lcreate_hard(job->id, from, job->id, to, links, H5P_DEFAULT)) >= 0) add_path(kind_of(job, from), to);
    H5Pclose(links);
}

static herr_t look_at_attribute(hid_t on, const char* name, const H5A_info_t* info, void* unused) {
    (void)unused;
    const hid_t id = H5Aopen(on, name, H5P_DEFAULT), type = H5Aget_type(id);
    unsigned char* const values = calloc(info->data_size + 1, 1);
    if (H5Tis_variable_str(type) > 0) say("  %s: strings", name);
    else if (H5Aread(id, type, values) >= 0) say_content(name, values, info->data_size);
    else say("  %s: not read", name);
    free(values);
    H5Tclose(type);
    H5Aclose(id);
    return 0;
}

static herr_t look_at_link(hid_t in, const char* name, const H5L_info_t* info, void* unused) {
    (void)in, (void)unused;
    say("  %s: link of kind %d, %lld", name, (int)info->type, info->corder_valid ? (long long)info->corder : -1);
    return 0;
}

// OBJECT IDLE: ranks look at an object, its attributes and members; some do not, where HDF5 lets each by itself.
static void look(Job* job, Call* call) {
    const char* const path = any_path(job, call);
    if (!job->alike && next(call) >> job->rank & 1) return;
    const hid_t id = TRY(H5Oopen(job->id, path, H5P_DEFAULT));
    if (id < 0) return;
    H5O_info_t info;
    TRY(H5Oget_info2(id, &info, H5O_INFO_ALL));
    say("  %s: kind %d at %llu, %u links, %llu attributes", path, (int)info.type, (unsigned long long)info.addr, info.rc,
        (unsigned long long)info.num_attrs);
    TRY(H5Aiterate2(id, H5_INDEX_NAME, H5_ITER_INC, NULL, look_at_attribute, NULL));
    if (info.type == H5O_TYPE_GROUP) TRY(H5Literate(id, H5_INDEX_NAME, H5_ITER_DEC, NULL, look_at_link, NULL));
    if (info.type == H5O_TYPE_DATASET) {
        H5D_space_status_t status = H5D_SPACE_STATUS_ERROR;
        TRY(H5Dget_space_status(id, &status));
        say("  %llu bytes stored, status %d, offset %lld", (unsigned long long)H5Dget_storage_size(id), (int)status,
            (long long)H5Dget_offset(id));
    }
    H5Oclose(id);
}

static void flush(Job* job, Call* call) {
    TRY(H5Fflush(job->id, below(call, 2) ? H5F_SCOPE_GLOBAL : H5F_SCOPE_LOCAL));
    MPI_Barrier(job->comm);
}

static void size(Job* job, Call* call) {
    (void)call;
    hsize_t bytes = 0;
    TRY(H5Fget_filesize(job->id, &bytes));
    say("  %llu bytes, free %lld", (unsigned long long)bytes, (long long)H5Fget_freespace(job->id));
}

static void atomic(Job* job, Call* call) {
    hbool_t is = 9;
    TRY(H5Fset_mpi_atomicity(job->id, below(call, 2)));
    TRY(H5Fget_mpi_atomicity(job->id, &is));
    say("  atomic: %d", (int)is);
}

// MODE: closes the file and opens it again.
static void reopen(Job* job, Call* call) {
    const unsigned flags = below(call, 3) ? H5F_ACC_RDWR : H5F_ACC_RDONLY;
    TRY(H5Fclose(job->id));
    job->id = TRY(H5Fopen(job->name, flags, job->access));
}

// NUMBER: one rank alone opens the file as one process would, while the others have it closed.
static void alone(Job* job, Call* call) {
    TRY(H5Fclose(job->id));
    MPI_Barrier(job->comm);
    if (job->rank == below(call, job->ranks)) {
        const hid_t id = TRY(H5Fopen(job->name, H5F_ACC_RDWR, H5P_DEFAULT));
        const hid_t made = TRY(H5Gcreate2(id, "by one rank", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        if (made >= 0) H5Gclose(made);
        if (id >= 0) TRY(H5Fclose(id));
    }
    MPI_Barrier(job->comm);
    job->id = TRY(H5Fopen(job->name, H5F_ACC_RDWR, job->access));
}

// WHICH OBJECT: a call that cannot succeed.
static void wrong(Job* job, Call* call) {
    const int which = below(call, 8);
    const char* const path = any_path(job, call);
    const hsize_t huge[3] = {1 << 20, 1 << 20, 1 << 20};
    const hid_t x = which == 2 ? H5Dopen2(job->id, path, H5P_DEFAULT) : -1;
    switch (which) {
        case 0: TRY(H5Dopen2(job->id, "nowhere", H5P_DEFAULT)); break;
        case 1: TRY(H5Ldelete(job->id, "nowhere", H5P_DEFAULT)); break;
        case 2: TRY(H5Dset_extent(x, huge)); break;
        case 3: TRY(H5Aopen_by_name(job->id, path, "nowhere", H5P_DEFAULT, H5P_DEFAULT)); break;
        case 4: TRY(H5Fopen("nowhere.h5", H5F_ACC_RDWR, job->access)); break;
        case 5: TRY(H5Lmove(job->id, "nowhere", job->id, "elsewhere", H5P_DEFAULT, H5P_DEFAULT)); break;
        case 6: TRY(H5Gopen2(job->id, job->sets.count ? job->sets.path[0] : "nowhere", H5P_DEFAULT)); break;
        default: TRY(H5Ocopy(job->id, "nowhere", job->id, "elsewhere", H5P_DEFAULT, H5P_DEFAULT));
    }
    if (x >= 0) H5Dclose(x);
}

const Known object_calls[] = {
    {"group", group},   {"commit", commit}, {"create", create}, {"attribute", attribute}, {"forget", forget},
    {"delete", delete}, {"move", move},     {"copy", copy},     {"link", link_to},        {"rename", rename_attribute},
    {"look", look},     {"flush", flush},   {"size", size},     {"atomic", atomic},       {"reopen", reopen},
    {"alone", alone},   {"wrong", wrong},   {NULL, NULL},
};
