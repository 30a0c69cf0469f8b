// Children that leave an HDF5 file open, flushed, and end: by exit, by _exit or by a signal. The last file is whole.
#include <hdf5.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static hid_t make(int k)
{
    char name[32];
    const hsize_t size = 1;
    snprintf(name, sizeof name, "left%d.h5", k);
    const hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(1, &size, NULL);
    const hid_t data = H5Dcreate2(file, "x", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (file < 0 || data < 0 || H5Dwrite(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &k) < 0) exit(1);
    H5Dclose(data);
    H5Sclose(space);
    return file;
}

int main(int argc, char** argv)
{
    const char* const end = argc > 1 ? argv[1] : "exit";
    for (int k = 0; k < 2; k++) {
        if (fork() == 0) {
            if (H5Fflush(make(k), H5F_SCOPE_LOCAL) < 0) exit(1);
            if (!strcmp(end, "kill")) raise(SIGKILL);
            if (!strcmp(end, "_exit")) _exit(0);
            exit(0);
        }
        wait(NULL);
    }
    return H5Fclose(make(2)) < 0;
}
