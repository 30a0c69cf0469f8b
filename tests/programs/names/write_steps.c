/* write_steps NAME STEPS: writes one file per step, of growing length; %d in NAME is the step. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    const int steps = atoi(argv[2]);
    for (int step = 0; step < steps; ++step) {
        char name[256];
        snprintf(name, sizeof(name), argv[1], step);
        hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        if (file < 0) return 1;
        const hsize_t count = 20000 + 100 * (hsize_t)step;
        double *values = malloc(count * sizeof(double));
        for (hsize_t i = 0; i < count; ++i) values[i] = 1000.0 * step + (double)(i % 100);
        hid_t space = H5Screate_simple(1, &count, NULL);
        hid_t set = H5Dcreate2(file, "values", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        if (H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) return 1;
        free(values);
        if (H5Dclose(set) < 0 || H5Sclose(space) < 0 || H5Fclose(file) < 0) return 1;
    }
    return 0;
}
