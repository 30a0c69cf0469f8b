// Runs the cases of C and C++ programs: PROGRAM write|read OUT (see rig.py).
#include "pair.h"

#include <stdarg.h>
#include <stdlib.h>

#define MOST 128

static struct {
    const char* name;
    Act produce, consume;
    int flags;
} cases[MOST];
static int count;
static FILE* out;

void add_case(const char* name, Act produce, int flags) {
    if (count == MOST) abort();
    cases[count].name = name;
    cases[count].produce = produce;
    cases[count++].flags = flags;
}

void add_look(const char* name, Act consume) {
    for (int i = 0; i < count; ++i)
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
    say("  #%u %s, %s: %s", n, major, minor, error->desc ? error->desc : "");
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

static void open_and_close(const char* file) {
    const hid_t id = H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT);
    tried("H5Fopen", id);
    if (id >= 0) H5Fclose(id);
}

static void close_all(void) {  // what a case left open would keep its file open to the end
    hid_t ids[64];
    const unsigned kinds[] = {H5F_OBJ_DATASET | H5F_OBJ_GROUP | H5F_OBJ_DATATYPE | H5F_OBJ_ATTR, H5F_OBJ_FILE};
    for (int k = 0; k < 2; ++k) {
        const ssize_t n = H5Fget_obj_ids((hid_t)H5F_OBJ_ALL, kinds[k], 64, ids);
        for (ssize_t i = 0; i < n; ++i)  // C++ has types of its own, of no file, for all its life
            if (H5Iget_type(ids[i]) != H5I_DATATYPE || H5Tcommitted(ids[i]) > 0) H5Idec_ref(ids[i]);
    }
}

static void begin_port(const char* kind) {  // only a port's second file tells that its names are not one stream
    for (int i = 1; i <= 2; ++i) {
        char name[64];
        snprintf(name, sizeof(name), "%s-%d.h5", kind, i);
        FILE* f = fopen(name, "wb");
        if (f) fclose(f);
    }
}

int main(int argc, char** argv) {
    // HDF5 of other versions than the headers': all that is used here is in all of them.
    setenv("HDF5_DISABLE_VERSION_CHECK", "2", 1);
    if (argc < 3 || !(out = fopen(argv[2], "w"))) {
        fprintf(stderr, "usage: %s write|read OUT [CASE...]\n", argv[0]);
        return 2;
    }
    const int writes = strcmp(argv[1], "write") == 0;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    int kinds = 0;
    for (int i = 0; i < count; ++i) kinds |= cases[i].flags & AGAIN ? AGAIN : cases[i].flags & PAIR ? PAIR | 8 : 8;
    for (int i = 0; writes && i < 3; ++i) {
        static const char* const names[] = {"case", "target", "again"};
        static const int bits[] = {8, PAIR, AGAIN};
        if (kinds & bits[i]) begin_port(names[i]);
    }
    for (int i = 0; i < count; ++i) {
        int chosen = argc == 3;
        for (int k = 3; k < argc; ++k) chosen |= strcmp(argv[k], cases[i].name) == 0;
        if (!chosen) continue;
        char file[128];
        snprintf(file, sizeof(file), "%s-%s.h5", cases[i].flags & AGAIN ? "again" : "case", cases[i].name);
        say("== %s", cases[i].name);
        if (writes) {
            cases[i].produce(file);
        } else if (cases[i].consume) {
            cases[i].consume(file);
        } else {
            open_and_close(file);
            if (cases[i].flags & PAIR) open_and_close(target(file));
        }
        close_all();
        fflush(out);
    }
    return fclose(out) != 0;
}
