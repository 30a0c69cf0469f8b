/* Creates, opens and closes a plain file many times: `open_often NAME TIMES`. */
#include <hdf5.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    for (int i = atoi(argv[2]); i > 0; --i) {
        hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        if (file < 0 || H5Fclose(file) < 0) return 1;
        file = H5Fopen(argv[1], H5F_ACC_RDONLY, H5P_DEFAULT);
        if (file < 0 || H5Fclose(file) < 0) return 1;
    }
    return 0;
}
