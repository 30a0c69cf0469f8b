/* Creates, writes, flushes, opens and closes a plain file many times: `open_often NAME TIMES`. */
#include <hdf5.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    for (int i = atoi(argv[2]); i > 0; --i) {
        hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        hid_t space = H5Screate(H5S_SCALAR);
        hid_t set = H5Dcreate2(file, "x", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        if (H5Dwrite(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &i) < 0 || H5Fflush(set, H5F_SCOPE_GLOBAL) < 0) return 1;
        if (H5Dclose(set) < 0 || H5Sclose(space) < 0) return 1;
        if (file < 0 || H5Fclose(file) < 0) return 1;
        file = H5Fopen(argv[1], H5F_ACC_RDONLY, H5P_DEFAULT);
        if (file < 0 || H5Fclose(file) < 0) return 1;
    }
    return 0;
}
