// What cases of C and C++ programs are and say; pair_main.c and parallel_main.c run them.
#include "pair.h"

#include <stdarg.h>
#include <stdlib.h>

Case cases[MOST];
int case_count;
FILE* out;

void add_case(const char* name, Act produce, int flags) {
    if (case_count == MOST) abort();
    cases[case_count].name = name;
    cases[case_count].produce = produce;
    cases[case_count++].flags = flags;
}

void add_look(const char* name, Act consume) {
    for (int i = 0; i < case_count; ++i)
        if (strcmp(cases[i].name, name) == 0) cases[i].consume = consume;
}

void say(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(out, format, arguments);
    va_end(arguments);
    fputc('\n', out);
}

static herr_t say_error(unsigned n, const H5E_error2_t* error, void* unused) {
    char major[80] = "", minor[80] = "";
    (void)unused;
    H5Eget_msg(error->maj_num, NULL, major, sizeof(major));
    H5Eget_msg(error->min_num, NULL, minor, sizeof(minor));
    // What an MPI says of an error beyond its class is the MPI's own.
    const char* const words = error->desc ? error->desc : "";
    const char* const its_own = strstr(words, "MPI error string is");
    say("  #%u %s, %s: %.*s", n, major, minor, its_own ? (int)(its_own - words) : (int)strlen(words), words);
    return 0;
}

long long tried(const char* call, long long result) {
    const hid_t stack = result < 0 ? H5Eget_current_stack() : -1;
    if (result >= 1 << 24) say("%s: id", call);
    else say("%s: %lld", call, result);
    if (stack >= 0) {
        H5Ewalk2(stack, H5E_WALK_DOWNWARD, say_error, NULL);
        H5Eclose_stack(stack);
    }
    return result;
}

const char* target(const char* file) {
    static char name[256];
    snprintf(name, sizeof(name), "target%s", strchr(file, '-'));
    return name;
}

hid_t untimed(void) {
    const hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(list, 0);
    return list;
}

hid_t space(hsize_t rows, hsize_t columns) {
    const hsize_t dims[2] = {rows, columns};
    return H5Screate_simple(columns ? 2 : 1, dims, NULL);
}

static void say_bytes(const unsigned char* bytes, size_t size) {
    unsigned long long sum = 1469598103934665603ull;
    for (size_t i = 0; i < size; ++i) sum = (sum ^ bytes[i]) * 1099511628211ull;
    fprintf(out, "  %zu bytes, digest %llx:", size, sum);
    for (size_t i = 0; i < size && i < 64; ++i) fprintf(out, " %02x", bytes[i]);
    fputc('\n', out);
}

void say_values(hid_t dataset, hid_t type) {
    const hid_t of = H5Dget_space(dataset);
    const size_t size = (size_t)H5Sget_simple_extent_npoints(of) * H5Tget_size(type);
    unsigned char* values = calloc(size + 1, 1);
    if (TRY(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values)) >= 0) say_bytes(values, size);
    free(values);
    H5Sclose(of);
}

void close_all(void) {
    hid_t ids[64];
    const unsigned kinds[] = {H5F_OBJ_DATASET | H5F_OBJ_GROUP | H5F_OBJ_DATATYPE | H5F_OBJ_ATTR, H5F_OBJ_FILE};
    for (int k = 0; k < 2; ++k) {
        const ssize_t n = H5Fget_obj_ids((hid_t)H5F_OBJ_ALL, kinds[k], 64, ids);
        for (ssize_t i = 0; i < n; ++i)  // C++ has types of its own, of no file, for all its life
            if (H5Iget_type(ids[i]) != H5I_DATATYPE || H5Tcommitted(ids[i]) > 0) H5Idec_ref(ids[i]);
    }
}

static void begin_port(const char* kind, int of) {
    for (int i = 2 * of + 1; i <= 2 * of + 2; ++i) {
        char name[64];
        snprintf(name, sizeof(name), "%s-%d.h5", kind, i);
        FILE* f = fopen(name, "wb");
        if (f) fclose(f);
    }
}

void begin_ports(int argc, char** argv, int of) {
    static const char* const names[] = {"case", "target", "again"};
    static const int bits[] = {8, PAIR, AGAIN};
    int kinds = 0;
    for (int i = 0; i < case_count; ++i)
        if (is_chosen(i, argc, argv)) kinds |= cases[i].flags & AGAIN ? AGAIN : cases[i].flags & PAIR ? PAIR | 8 : 8;
    for (int i = 0; i < 3; ++i)
        if (kinds & bits[i]) begin_port(names[i], of);
}

const char* file_of(int i) {
    static char file[128];
    snprintf(file, sizeof(file), "%s-%s.h5", cases[i].flags & AGAIN ? "again" : "case", cases[i].name);
    return file;
}

int is_chosen(int i, int argc, char** argv) {
    int chosen = argc == 3;
    for (int k = 3; k < argc; ++k) chosen |= strcmp(argv[k], cases[i].name) == 0;
    return chosen;
}
