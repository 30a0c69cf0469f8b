/* Writes files of one dataset of rows of 16 KiB, the left half of all rows and then the right: `step_in_columns TIMES BYTES`. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    const int times = atoi(argv[1]);
    const hsize_t all[2] = {strtoull(argv[2], NULL, 10) >> 14, 1 << 14}, half[2] = {all[0], all[1] / 2};
    char *data = malloc(half[0] * half[1]), name[64];
    for (hsize_t k = 0; k < half[0] * half[1]; ++k) data[k] = (char)k;
    hid_t list = H5Pcreate(H5P_FILE_ACCESS), space = H5Screate_simple(2, all, NULL), memory = H5Screate_simple(2, half, NULL);
    H5Pset_sieve_buf_size(list, 0); /* HDF5 gathers rows in it, and reads for that */
    for (int k = 0; k < times; ++k) {
        snprintf(name, sizeof(name), "step-%06d.h5", k);
        hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, list);
        hid_t set = H5Dcreate2(file, "x", H5T_NATIVE_CHAR, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        for (hsize_t side = 0; side < 2; ++side) {
            const hsize_t start[2] = {0, side * half[1]};
            H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, half, NULL);
            if (H5Dwrite(set, H5T_NATIVE_CHAR, memory, space, H5P_DEFAULT, data) < 0) return 1;
        }
        if (H5Dclose(set) < 0 || H5Fclose(file) < 0) return 1;
        file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT); /* or the queue would be full */
        if (H5Fclose(file) < 0) return 1;
    }
    return 0;
}
