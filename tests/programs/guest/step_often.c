/* Writes a file, reads it again, and so on: `step_often TIMES BYTES [DATASETS]`. Prints the page faults of the second half of the steps. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static long faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    const int times = atoi(argv[1]), sets = argc > 3 ? atoi(argv[3]) : 1;
    const hsize_t bytes = strtoull(argv[2], NULL, 10);
    char *data = malloc(bytes), *back = malloc(bytes), name[64];
    hid_t space = H5Screate_simple(1, &bytes, NULL);
    long before = 0;
    for (int k = 0; k < times; ++k) {
        if (k == times / 2) before = faults();
        memset(data, k, bytes);
        snprintf(name, sizeof(name), "step-%06d.h5", k);
        hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        for (int i = 0; i < sets; ++i) {
            char which[16];
            snprintf(which, sizeof(which), "x%d", i);
            hid_t set = H5Dcreate2(file, which, H5T_NATIVE_CHAR, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
            if (H5Dwrite(set, H5T_NATIVE_CHAR, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0 || H5Dclose(set) < 0) return 1;
        }
        if (H5Fclose(file) < 0) return 1;
        file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
        for (int i = 0; i < sets; ++i) {
            char which[16];
            snprintf(which, sizeof(which), "x%d", i);
            hid_t set = H5Dopen2(file, which, H5P_DEFAULT);
            if (H5Dread(set, H5T_NATIVE_CHAR, H5S_ALL, H5S_ALL, H5P_DEFAULT, back) < 0 || H5Dclose(set) < 0) return 1;
            if (memcmp(data, back, bytes) != 0) return 1;
        }
        if (H5Fclose(file) < 0) return 1;
    }
    printf("faults: %ld\n", faults() - before);
    return 0;
}
