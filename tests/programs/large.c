/* One dataset of more bytes than 31 bits can count: large write NAME MEGABYTES, or large read NAME MEGABYTES. Every byte's value
 * follows from its place. */
#include "grid.h"

static unsigned char value(size_t place) { return (unsigned char)(place + 7 * (place >> 20)); }

int main(int argc, char **argv) {
    EXPECT(argc == 4, "usage: large write|read NAME MEGABYTES");
    const int writes = strcmp(argv[1], "write") == 0;
    const hsize_t bytes = (hsize_t)atoi(argv[3]) << 20;
    unsigned char *data = malloc(bytes);
    EXPECT(data != NULL, "no memory");
    hid_t file, set;
    if (writes) {
        for (size_t i = 0; i < bytes; ++i) data[i] = value(i);
        file = H5Fcreate(argv[2], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        CHECK(file);
        hid_t space = H5Screate_simple(1, &bytes, NULL);
        set = H5Dcreate2(file, "bytes", H5T_NATIVE_UCHAR, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        CHECK(H5Dwrite(set, H5T_NATIVE_UCHAR, H5S_ALL, H5S_ALL, H5P_DEFAULT, data));
        CHECK(H5Sclose(space));
    } else {
        file = H5Fopen(argv[2], H5F_ACC_RDONLY, H5P_DEFAULT);
        CHECK(file);
        set = H5Dopen2(file, "bytes", H5P_DEFAULT);
        EXPECT(H5Dget_storage_size(set) == bytes, "another size");
        CHECK(H5Dread(set, H5T_NATIVE_UCHAR, H5S_ALL, H5S_ALL, H5P_DEFAULT, data));
        for (size_t i = 0; i < bytes; ++i) EXPECT(data[i] == value(i), "byte %zu is %d", i, data[i]);
        printf("got all %llu bytes\n", (unsigned long long)bytes);
    }
    CHECK(H5Dclose(set));
    CHECK(H5Fclose(file));
    free(data);
    return 0;
}
