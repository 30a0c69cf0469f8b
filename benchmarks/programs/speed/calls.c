/* The cost of calls: `calls CALLS` prints the seconds of an H5Dwrite and of an H5Dread of 4 KiB in a file of HDF5's core driver, each
 * that of the fastest of 100 parts of them: what else the machine does makes calls slower, never faster. */
#include "sheet.h"
#include <hdf5.h>

enum { PARTS = 100 };

int main(int argc, char** argv) {
    if (argc != 2) return fprintf(stderr, "usage: calls CALLS\n"), 2;
    const int calls = atoi(argv[1]);
    const hsize_t n = 512;
    double data[512] = {0};
    const hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_core(list, 1 << 20, 0);
    const hid_t file = H5Fcreate("calls.h5", H5F_ACC_TRUNC, H5P_DEFAULT, list);
    const hid_t space = H5Screate_simple(1, &n, NULL);
    const hid_t set = H5Dcreate2(file, "x", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    double fastest[2] = {1e9, 1e9};
    for (int part = 0; part < 2 * PARTS; ++part) { /* reads and writes by turns */
        const double begin = now();
        for (int k = 0; k < calls / PARTS; ++k)
            if ((part % 2 ? H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data)
                          : H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data)) < 0) return 1;
        const double took = (now() - begin) / (calls / PARTS);
        if (took < fastest[part % 2]) fastest[part % 2] = took;
    }
    printf("[%.12f, %.12f]\n", fastest[0], fastest[1]);
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(list);
    return H5Fclose(file) < 0;
}
