/* Writes one file, which it keeps open, and flushes it three times. */
#include <hdf5.h>

int main(void)
{
    const hsize_t size = 1;
    hid_t file = H5Fcreate("frames.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(1, &size, NULL);
    hid_t data = H5Dcreate2(file, "x", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    for (int step = 0; step < 3; step++) {
        if (H5Dwrite(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &step) < 0) return 1;
        if (H5Fflush(file, H5F_SCOPE_LOCAL) < 0) return 1;
    }
    H5Dclose(data);
    H5Sclose(space);
    return H5Fclose(file) < 0;
}
