/* The same measurement in C: `rate w STEPS MIB` writes, `rate r STEPS MIB` reads. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    const int writes = argv[1][0] == 'w', steps = atoi(argv[2]);
    hsize_t n = (hsize_t)atoi(argv[3]) * 131072;
    double *data = calloc(n, sizeof *data), *copy = calloc(n, sizeof *copy);
    if (!data || !copy) return 1;
    for (hsize_t i = 0; i < n; ++i) data[i] = writes ? (double)i : -1.0;
    memset(copy, 1, n * sizeof *copy);
    printf("[");
    for (int step = 0; step < steps; ++step) {
        double copied, moved, begin;
        char name[32];
        snprintf(name, sizeof name, "rate-%04d.h5", step);
        if (writes) {
            data[0] = step;
            begin = now();
            memcpy(copy, data, n * sizeof *data);
            copied = now() - begin;
            hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
            hid_t space = H5Screate_simple(1, &n, NULL);
            hid_t set = H5Dcreate2(file, "x", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
            begin = now();
            if (H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0) return 1;
            moved = now() - begin;
            H5Dclose(set);
            H5Sclose(space);
            if (H5Fclose(file) < 0) return 1;
        } else {
            hid_t file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
            hid_t set = H5Dopen2(file, "x", H5P_DEFAULT);
            begin = now();
            if (H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0) return 1;
            moved = now() - begin;
            H5Dclose(set);
            H5Fclose(file);
            if (data[0] != step || data[n - 1] != (double)(n - 1)) return 3;
            begin = now();
            memcpy(copy, data, n * sizeof *data);
            copied = now() - begin;
        }
        printf("%s[%.9f, %.9f]", step ? ", " : "", copied, moved);
    }
    printf("]\n");
    free(data);
    return copy[0] < -2; /* keeps the copy from being optimised away */
}
