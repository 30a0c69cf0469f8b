/* read_parts NAME STEPS: opens a file of this name for each step, and prints what its virtual dataset and its links show. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>

static void print(hid_t file, const char *name, int count) {
    double values[12];
    const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
    if (dataset < 0 || H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) exit(1);
    for (int i = 0; i < count; ++i) printf(" %g", values[i]);
    H5Dclose(dataset);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    for (int step = 0; step < atoi(argv[2]); ++step) {
        const hid_t file = H5Fopen(argv[1], H5F_ACC_RDONLY, H5P_DEFAULT);
        if (file < 0) return 1;
        print(file, "whole", 12);
        print(file, "out", 4);
        print(file, "itself", 4);
        print(file, "whole", 12);
        printf("\n");
        H5Fclose(file);
    }
    return 0;
}
