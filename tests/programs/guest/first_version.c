/* Writes files, and asks of each whether a dataset is there, quietly, by the first version of HDF5's error handling. */
#include <hdf5.h>
#include <stdio.h>

int main(void)
{
    for (int k = 0; k < 3; k++) {
        char name[32];
        H5E_auto1_t handler = NULL;
        void* data = NULL;
        snprintf(name, sizeof name, "x%d.h5", k);
        hid_t list = H5Pcreate(H5P_FILE_ACCESS);
        hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, list);
        herr_t asked = H5Eget_auto1(&handler, &data);
        H5Eset_auto1(NULL, NULL);
        hid_t there = H5Dopen1(file, "a");
        H5Eset_auto1(handler, data);
        printf("%s\n", asked < 0 || !handler || there >= 0 ? "wrong" : "well");
        hid_t space = H5Screate(H5S_SCALAR);
        hid_t set = H5Dcreate2(file, "a", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        H5Dwrite(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &k);
        H5Dclose(set);
        H5Sclose(space);
        H5Fclose(file);
        H5Pclose(list);
    }
    return 0;
}
