// Runs the cases of C and C++ programs: PROGRAM write|read OUT (see rig.py).
#include <stdlib.h>

#include "pair.h"

static void open_and_close(const char* file) {
    const hid_t id = H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT);
    tried("H5Fopen", id);
    if (id >= 0) H5Fclose(id);
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
    if (writes) begin_ports(argc, argv, 0);
    for (int i = 0; i < case_count; ++i) {
        if (!is_chosen(i, argc, argv)) continue;
        const char* const file = file_of(i);
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
