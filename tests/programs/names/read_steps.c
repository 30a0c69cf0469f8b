/* read_steps NAME STEPS: reads and checks what write_steps writes. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    const int steps = atoi(argv[2]);
    for (int step = 0; step < steps; ++step) {
        char name[256];
        snprintf(name, sizeof(name), argv[1], step);
        if (H5Fis_hdf5(name) <= 0) return 1;
        hid_t file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
        if (file < 0) return 1;
        hid_t set = H5Dopen2(file, "values", H5P_DEFAULT);
        hid_t space = H5Dget_space(set);
        hsize_t count = 0;
        H5Sget_simple_extent_dims(space, &count, NULL);
        double *values = malloc(count * sizeof(double));
        if (H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) return 1;
        int right = count == 20000 + 100 * (hsize_t)step;
        for (hsize_t i = 0; i < count; ++i) right = right && values[i] == 1000.0 * step + (double)(i % 100);
        printf("%d %s\n", step, right ? "right" : "wrong");
        free(values);
        if (H5Dclose(set) < 0 || H5Sclose(space) < 0 || H5Fclose(file) < 0) return 1;
    }
    return 0;
}
