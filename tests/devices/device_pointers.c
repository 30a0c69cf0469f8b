/* An HDF5 program that hands device pointers to H5Dwrite and H5Dread: `write` makes four steps, `read` checks them. */
#include <dlfcn.h>
#include <hdf5.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                        \
    do {                                                                   \
        if ((call) < 0) {                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #call);     \
            exit(1);                                                       \
        }                                                                  \
    } while (0)
#define EXPECT(truth) CHECK((truth) ? 0 : -1)

enum { kRows = 6, kColumns = 10, kLarge = 5 << 20 };

typedef uint64_t Pointer;
static int (*to_device)(Pointer, const void*, size_t);
static int (*to_host)(void*, Pointer, size_t);
static int (*allocate)(Pointer*, size_t);

static void* device(size_t bytes) {
    Pointer pointer;
    CHECK(-allocate(&pointer, bytes));
    return (void*)pointer;
}

static void start_cuda(void) {
    void* cuda = dlopen("libcuda.so.1", RTLD_NOW);
    EXPECT(cuda);
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(cuda, "cuInit");
    int (*retain)(void**, int) = (int (*)(void**, int))dlsym(cuda, "cuDevicePrimaryCtxRetain");
    int (*push)(void*) = (int (*)(void*))dlsym(cuda, "cuCtxPushCurrent_v2");
    to_device = (int (*)(Pointer, const void*, size_t))dlsym(cuda, "cuMemcpyHtoD_v2");
    to_host = (int (*)(void*, Pointer, size_t))dlsym(cuda, "cuMemcpyDtoH_v2");
    allocate = (int (*)(Pointer*, size_t))dlsym(cuda, "cuMemAlloc_v2");
    void* context;
    CHECK(-init(0));
    CHECK(-retain(&context, 0));
    CHECK(-push(context));
}

static void write_step(int k) {
    char name[32];
    double host[kRows * kColumns];
    void* small = device(sizeof(host));
    for (int i = 0; i < kRows * kColumns; ++i) host[i] = k + i;
    CHECK(-to_device((Pointer)small, host, sizeof(host)));
    int* numbers = malloc(sizeof(int) * kLarge);
    void* large = device(sizeof(int) * kLarge);
    for (int i = 0; i < kLarge; ++i) numbers[i] = i ^ k;
    CHECK(-to_device((Pointer)large, numbers, sizeof(int) * kLarge));

    sprintf(name, "p%d.h5", k);
    const hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(file);
    hsize_t dims[2] = {kRows, kColumns}, whole[2] = {kLarge / 1024, 1024}, chunk[2] = {1000, 1024};
    const hid_t space = H5Screate_simple(2, dims, NULL), large_space = H5Screate_simple(2, whole, NULL);
    const hid_t all = H5Dcreate2(file, "all", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(H5Dwrite(all, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, small));
    /* Every other column from device memory into the first five of the file, as floats. */
    const hid_t part = H5Dcreate2(file, "part", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    hsize_t start[2] = {1, 1}, stride[2] = {1, 2}, count[2] = {3, 4}, at[2] = {0, 0};
    const hid_t memory = H5Screate_simple(2, dims, NULL);
    CHECK(H5Sselect_hyperslab(memory, H5S_SELECT_SET, start, stride, count, NULL));
    CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, count, NULL));
    CHECK(H5Dwrite(part, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, small));
    const hid_t plain = H5Dcreate2(file, "large", H5T_NATIVE_INT, large_space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(H5Dwrite(plain, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, large));
    const hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    CHECK(H5Pset_chunk(list, 2, chunk));
    const hid_t chunked = H5Dcreate2(file, "chunked", H5T_NATIVE_INT, large_space, H5P_DEFAULT, list, H5P_DEFAULT);
    CHECK(H5Dwrite(chunked, H5T_NATIVE_INT, large_space, H5S_ALL, H5P_DEFAULT, large));
    /* Nothing is ever written to this one. */
    CHECK(H5Pset_fill_time(list, H5D_FILL_TIME_NEVER));
    CHECK(H5Pset_fill_value(list, H5T_NATIVE_INT, NULL));
    const hid_t never = H5Dcreate2(file, "never", H5T_NATIVE_INT, large_space, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Dclose(never), H5Dclose(chunked), H5Dclose(plain), H5Dclose(part), H5Dclose(all);
    H5Pclose(list), H5Sclose(memory), H5Sclose(space), H5Sclose(large_space);
    CHECK(H5Fclose(file));
    free(numbers);
}

static void read_step(int k) {
    char name[32];
    sprintf(name, "p%d.h5", k);
    const hid_t file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
    CHECK(file);
    double host[kRows * kColumns], marks[kRows * kColumns];
    void* small = device(sizeof(host));
    const hid_t all = H5Dopen2(file, "all", H5P_DEFAULT);
    CHECK(H5Dread(all, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, small));
    CHECK(-to_host(host, (Pointer)small, sizeof(host)));
    for (int i = 0; i < kRows * kColumns; ++i) EXPECT(host[i] == k + i);

    /* Into holes of what is there already, which stays. */
    for (int i = 0; i < kRows * kColumns; ++i) marks[i] = -i;
    CHECK(-to_device((Pointer)small, marks, sizeof(marks)));
    hsize_t dims[2] = {kRows, kColumns}, start[2] = {2, 0}, stride[2] = {2, 3}, count[2] = {2, 3}, at[2] = {0, 0}, four[2] = {2, 3};
    const hid_t memory = H5Screate_simple(2, dims, NULL), from = H5Screate_simple(2, dims, NULL);
    CHECK(H5Sselect_hyperslab(memory, H5S_SELECT_SET, start, stride, count, NULL));
    CHECK(H5Sselect_hyperslab(from, H5S_SELECT_SET, at, NULL, four, NULL));
    CHECK(H5Dread(all, H5T_NATIVE_DOUBLE, memory, from, H5P_DEFAULT, small));
    CHECK(-to_host(host, (Pointer)small, sizeof(host)));
    for (int r = 0; r < kRows; ++r)
        for (int c = 0; c < kColumns; ++c) {
            const int in = r >= 2 && r <= 4 && r % 2 == 0 && c % 3 == 0 && c < 9;
            EXPECT(host[r * kColumns + c] == (in ? k + (r - 2) / 2 * kColumns + c / 3 : marks[r * kColumns + c]));
        }
    const hid_t part = H5Dopen2(file, "part", H5P_DEFAULT);
    CHECK(H5Dread(part, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, host));
    for (int r = 0; r < 3; ++r)
        for (int c = 0; c < 4; ++c) EXPECT(host[r * kColumns + c] == k + (r + 1) * kColumns + 1 + 2 * c);
    EXPECT(host[4] == 0 && host[3 * kColumns] == 0);

    int* numbers = malloc(sizeof(int) * kLarge);
    void* large = device(sizeof(int) * kLarge);
    static const char* const names[] = {"large", "chunked"};
    for (int n = 0; n < 2; ++n) {
        const hid_t set = H5Dopen2(file, names[n], H5P_DEFAULT);
        memset(numbers, 0xff, sizeof(int) * kLarge);
        CHECK(-to_device((Pointer)large, numbers, sizeof(int) * kLarge));
        CHECK(H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, large));
        CHECK(-to_host(numbers, (Pointer)large, sizeof(int) * kLarge));
        for (int i = 0; i < kLarge; ++i) EXPECT(numbers[i] == (i ^ k));
        H5Dclose(set);
    }
    const hid_t never = H5Dopen2(file, "never", H5P_DEFAULT);
    if (H5Dread(never, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, large) >= 0) {
        CHECK(-to_host(numbers, (Pointer)large, sizeof(int) * kLarge));
        for (int i = 0; i < kLarge; ++i) EXPECT(numbers[i] == (i ^ k));
    }
    H5Dclose(never), H5Dclose(part), H5Dclose(all), H5Sclose(memory), H5Sclose(from);
    CHECK(H5Fclose(file));
    free(numbers);
}

int main(int argc, char** argv) {
    start_cuda();
    for (int k = 0; k < 4; ++k) {
        if (argc > 1 && !strcmp(argv[1], "write")) write_step(k);
        else read_step(k);
    }
    return 0;
}
