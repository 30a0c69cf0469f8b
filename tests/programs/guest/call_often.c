/* Writes and reads one dataset of 4 KiB again and again, in a file of HDF5's core driver: `call_often TIMES stack|heap`. */
#include <hdf5.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    char near[4096] = {0};
    char *data = strcmp(argv[2], "heap") ? near : calloc(1, sizeof(near));
    const hsize_t bytes = sizeof(near);
    hid_t list = H5Pcreate(H5P_FILE_ACCESS), space = H5Screate_simple(1, &bytes, NULL);
    if (H5Pset_fapl_core(list, 1 << 16, 0) < 0) return 1;
    hid_t file = H5Fcreate("other.h5", H5F_ACC_TRUNC, H5P_DEFAULT, list);
    hid_t set = H5Dcreate2(file, "x", H5T_NATIVE_CHAR, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    for (int k = 0; k < atoi(argv[1]); ++k)
        if (H5Dwrite(set, H5T_NATIVE_CHAR, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0 ||
            H5Dread(set, H5T_NATIVE_CHAR, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0) return 1;
    return H5Dclose(set) < 0 || H5Fclose(file) < 0;
}
