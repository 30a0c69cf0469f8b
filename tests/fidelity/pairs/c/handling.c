// How a program handles files: opened again, appended to, mounted, copied, never closed, on drivers of its choice; SWMR.
#include <stdlib.h>
#include <unistd.h>

#include "pair.h"

static hid_t create(const char* file) {
    return H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
}

static void put(hid_t in, const char* name, int n) {
    int* values = malloc(sizeof(int) * (size_t)(n + 1));
    for (int i = 0; i < n; ++i) values[i] = i;
    const hid_t x = H5Dcreate2(in, name, H5T_STD_I32LE, space((hsize_t)n, 0), H5P_DEFAULT, untimed(), H5P_DEFAULT);
    tried(name, x);
    if (x >= 0) TRY(H5Dwrite(x, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    if (x >= 0) H5Dclose(x);
    free(values);
}

static void look_at(hid_t f, const char* name) {
    const hid_t x = H5Dopen2(f, name, H5P_DEFAULT);
    tried(name, x);
    if (x >= 0) say_values(x, H5T_NATIVE_INT);
    if (x >= 0) H5Dclose(x);
}

CASE(errors, "errors; stale files") {
    TRY(H5Fis_hdf5("no-such-file.h5"));
    TRY(H5Fopen("no-such-file.h5", H5F_ACC_RDONLY, H5P_DEFAULT));
    TRY(H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT));
    TRY(H5Fis_hdf5(file));
    say("access: %d", access(file, R_OK));
    const hid_t f = TRY(H5Fcreate(file, H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
    put(f, "x", 5);
    put(f, "x", 5);
    put(f, "y/z", 5);
    TRY(H5Fflush(f, H5F_SCOPE_GLOBAL));
    H5Fclose(TRY(H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT)));
    TRY(H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    TRY(H5Fcreate(file, H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
    TRY(H5Fcreate(file, 0x1000, H5P_DEFAULT, H5P_DEFAULT));
    TRY(H5Dopen2(f, "x", 12345));
    TRY(H5Dread(f, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, NULL));
    TRY(H5Fclose(f));
    TRY(H5Fclose(f));
    TRY(H5Fcreate(file, H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
}

LOOK(errors) {
    const hid_t f = TRY(H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT));
    TRY(H5Fis_hdf5(file));  // not before: a look does not wait for a step
    TRY(H5Ldelete(f, "x", H5P_DEFAULT));
    TRY(H5Fflush(f, H5F_SCOPE_GLOBAL));
    put(f, "new", 1);
    const hid_t x = TRY(H5Dopen2(f, "x", H5P_DEFAULT));
    const int one[5] = {1};
    TRY(H5Dwrite(x, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, one));
    TRY(H5Dread(x, H5T_C_S1, H5S_ALL, H5S_ALL, H5P_DEFAULT, (void*)one));
    TRY(H5Dread(x, H5T_NATIVE_INT, space(3, 0), H5S_ALL, H5P_DEFAULT, (void*)one));
    H5Dclose(x);
    TRY(H5Fclose(f));
}

CASE(written_while_read, "errors") {
    const hid_t f = create(file);
    put(f, "x", 5);
    TRY(H5Fclose(f));
}

LOOK(written_while_read) {
    const hid_t f = TRY(H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT));
    TRY(H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT));
    look_at(f, "x");
    TRY(H5Fclose(f));
}

CASE(over_a_stale_file, "stale files") {
    const hid_t f = create(file);
    put(f, "new", 7);
    TRY(H5Fclose(f));
}

CASE(appended, "appending; file handling; copy, move, delete", AGAIN) {
    hid_t f = create(file);
    put(f, "x", 1000);
    TRY(H5Fclose(f));
    for (int i = 0; i < 3; ++i) {
        f = TRY(H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT));
        char name[16];
        snprintf(name, sizeof(name), "y%d", i);
        put(f, name, 100 * i);
        TRY(H5Ldelete(f, "x", H5P_DEFAULT));
        put(f, "x", 2000 + i);
        hsize_t size = 0;
        TRY(H5Fget_filesize(f, &size));
        say("%llu bytes, %lld free", (unsigned long long)size, (long long)H5Fget_freespace(f));
        TRY(H5Fclose(f));
    }
}

LOOK(appended) {
    const hid_t f = TRY(H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT));
    look_at(f, "x");
    look_at(f, "y2");
    TRY(H5Fclose(f));
}

CASE(opened_twice, "file handling; closing") {
    const hid_t f = create(file), again = TRY(H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT));
    const hid_t third = TRY(H5Freopen(f));
    put(f, "first", 3);
    put(again, "second", 3);
    unsigned intent = 0;
    TRY(H5Fget_intent(again, &intent));
    say("intent %u", intent);
    TRY(H5Fclose(f));
    TRY(H5Fclose(third));
    look_at(again, "first");
    const hid_t x = H5Dopen2(again, "second", H5P_DEFAULT);
    TRY(H5Fget_obj_count(again, H5F_OBJ_ALL));
    TRY(H5Fclose(again));
    say_values(x, H5T_NATIVE_INT);
    TRY(H5Dclose(x));
    const hid_t strong = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fclose_degree(strong, H5F_CLOSE_SEMI);
    const hid_t last = TRY(H5Fopen(file, H5F_ACC_RDONLY, strong));
    const hid_t open = TRY(H5Dopen2(last, "first", H5P_DEFAULT));
    TRY(H5Fclose(last));
    H5Dclose(open);
    TRY(H5Fclose(last));
}

CASE(mounted, "mounted files", PAIR) {
    const hid_t f = create(file), g = create(target(file));
    H5Gclose(H5Gcreate2(f, "point", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    put(g, "x", 4);
    TRY(H5Fmount(f, "point", g, H5P_DEFAULT));
    look_at(f, "point/x");
    put(f, "point/y", 2);
    TRY(H5Lmove(f, "point/x", f, "x", H5P_DEFAULT, H5P_DEFAULT));
    TRY(H5Fmount(f, "nowhere", g, H5P_DEFAULT));
    TRY(H5Funmount(f, "point"));
    TRY(H5Funmount(f, "point"));
    TRY(H5Fclose(f));
    TRY(H5Fclose(g));
}

LOOK(mounted) {
    const hid_t f = TRY(H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT)), g = TRY(H5Fopen(target(file), H5F_ACC_RDONLY, H5P_DEFAULT));
    TRY(H5Fmount(f, "point", g, H5P_DEFAULT));
    look_at(f, "point/y");
    TRY(H5Fclose(f));
    TRY(H5Fclose(g));
}

CASE(copied, "copy, move, delete", PAIR) {
    const hid_t f = create(file), g = create(target(file));
    H5Gclose(H5Gcreate2(f, "a", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    put(f, "a/x", 50);
    H5Lcreate_soft("/a/x", f, "a/soft", H5P_DEFAULT, H5P_DEFAULT);
    const unsigned flags[] = {0, H5O_COPY_SHALLOW_HIERARCHY_FLAG, H5O_COPY_EXPAND_SOFT_LINK_FLAG | H5O_COPY_WITHOUT_ATTR_FLAG};
    for (int i = 0; i < 3; ++i) {
        const hid_t how = H5Pcreate(H5P_OBJECT_COPY);
        char name[16];
        snprintf(name, sizeof(name), "copy %d", i);
        TRY(H5Pset_copy_object(how, flags[i]));
        TRY(H5Ocopy(f, "a", f, name, how, H5P_DEFAULT));
        TRY(H5Ocopy(f, "a", g, name, how, H5P_DEFAULT));
        TRY(H5Ocopy(f, "none", g, name, how, H5P_DEFAULT));
    }
    TRY(H5Lmove(f, "a", f, "b", H5P_DEFAULT, H5P_DEFAULT));
    TRY(H5Ldelete(f, "copy 1", H5P_DEFAULT));
    const hid_t x = H5Oopen(f, "b/x", H5P_DEFAULT);
    TRY(H5Oincr_refcount(x));
    TRY(H5Oset_comment(x, "counted twice"));
    H5Oclose(x);
    TRY(H5Fclose(f));
    TRY(H5Fclose(g));
}

CASE(user_blocks, "user blocks; file space; formats; many objects", PAIR) {
    const hid_t how = H5Pcreate(H5P_FILE_CREATE), access_list = H5Pcreate(H5P_FILE_ACCESS);
    TRY(H5Pset_userblock(how, 2048));
    TRY(H5Pset_userblock(how, 1000));
    TRY(H5Pset_sizes(how, 4, 8));
    TRY(H5Pset_sym_k(how, 8, 8));
    TRY(H5Pset_alignment(access_list, 500, 4096));
    TRY(H5Pset_libver_bounds(access_list, H5F_LIBVER_EARLIEST, H5F_LIBVER_V18));
    hid_t f = TRY(H5Fcreate(file, H5F_ACC_TRUNC, how, access_list));
    for (int i = 0; i < 2000; ++i) {
        char name[16];
        snprintf(name, sizeof(name), "x%04d", i);
        const hid_t x = H5Dcreate2(f, name, H5T_NATIVE_INT, H5Screate(H5S_SCALAR), H5P_DEFAULT, untimed(), H5P_DEFAULT);
        H5Dwrite(x, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &i);
        H5Dclose(x);
    }
    TRY(H5Fclose(f));
    const hid_t paged = H5Pcreate(H5P_FILE_CREATE), latest = H5Pcreate(H5P_FILE_ACCESS);
    TRY(H5Pset_file_space_strategy(paged, H5F_FSPACE_STRATEGY_PAGE, 1, 1));
    TRY(H5Pset_file_space_page_size(paged, 8192));
    TRY(H5Pset_libver_bounds(latest, H5F_LIBVER_V18, H5F_LIBVER_V110));
    f = TRY(H5Fcreate(target(file), H5F_ACC_TRUNC, paged, latest));
    put(f, "x", 5000);
    TRY(H5Fclose(f));
}

CASE(drivers, "drivers", PAIR) {
    const hid_t core = H5Pcreate(H5P_FILE_ACCESS), plain = H5Pcreate(H5P_FILE_ACCESS);
    TRY(H5Pset_fapl_core(core, 65536, 1));
    hid_t f = TRY(H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, core));
    put(f, "x", 300);
    TRY(H5Fclose(f));
    TRY(H5Pset_fapl_stdio(plain));
    f = TRY(H5Fcreate(target(file), H5F_ACC_TRUNC, H5P_DEFAULT, plain));
    put(f, "x", 300);
    TRY(H5Fflush(f, H5F_SCOPE_LOCAL));
    say("image of %lld bytes", (long long)H5Fget_file_image(f, NULL, 0));
    void* handle = NULL;
    TRY(H5Fget_vfd_handle(f, plain, &handle));
    TRY(H5Fclose(f));
}

LOOK(drivers) {
    const hid_t core = H5Pcreate(H5P_FILE_ACCESS), plain = H5Pcreate(H5P_FILE_ACCESS);
    TRY(H5Pset_fapl_core(core, 65536, 0));
    hid_t f = TRY(H5Fopen(file, H5F_ACC_RDWR, core));
    put(f, "only in memory", 5);
    TRY(H5Fclose(f));
    TRY(H5Pset_fapl_sec2(plain));
    f = TRY(H5Fopen(target(file), H5F_ACC_RDONLY, plain));
    say("driver: %d", H5Pget_driver(H5Fget_access_plist(f)) == H5Pget_driver(plain));
    look_at(f, "x");
    TRY(H5Fclose(f));
}

CASE(large, "large datasets") {
    const hid_t f = create(file), list = untimed();
    H5Pset_fill_time(list, H5D_FILL_TIME_NEVER);
    const hid_t x = TRY(H5Dcreate2(f, "x", H5T_STD_I8LE, space(24 << 20, 0), H5P_DEFAULT, list, H5P_DEFAULT));
    const hsize_t start = (24 << 20) - 5, count = 5;
    const hid_t end = H5Dget_space(x);
    H5Sselect_hyperslab(end, H5S_SELECT_SET, &start, NULL, &count, NULL);
    TRY(H5Dwrite(x, H5T_NATIVE_CHAR, space(5, 0), end, H5P_DEFAULT, "abcde"));
    H5Dclose(x);
    TRY(H5Fclose(f));
}

static void take(const char* file) {
    const hid_t f = TRY(H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT));
    if (f >= 0) look_at(f, "x");
    if (f >= 0) TRY(H5Fclose(f));
}

CASE(swmr, "swmr", REFUSED) {
    const hid_t latest = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(latest, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    const hid_t f = TRY(H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, latest));
    put(f, "x", 10);
    TRY(H5Fstart_swmr_write(f));
    TRY(H5Fclose(f));
}

LOOK(swmr) {
    const hid_t f = TRY(H5Fopen(file, H5F_ACC_RDONLY | H5F_ACC_SWMR_READ, H5P_DEFAULT));
    if (f >= 0) TRY(H5Fclose(f));
    take(file);
}
