/* Makes HDF5's calls on files of one name pattern, and says of each what of its surroundings it has changed: errno, the ways to be told of
 * errors, the error stack, the default access list, open ids, the signal mask. "-" is nothing.
 *
 *     state write|read PATTERN FIRST    PATTERN holds %d; five files from number FIRST on, each under another error handler */
#define _GNU_SOURCE
#include <errno.h>
#include <hdf5.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNTOUCHED = 777, TYPES = 20, DRIVERS = 8, MOST_IDS = 1500 };

typedef struct {
    int error;
    unsigned second;
    void *function, *data;
    char stack[600];
    int lists_equal;
    int ids[TYPES];
    sigset_t mask;
} state_t;

static hid_t usual_list;

static herr_t add_entry(unsigned n, const H5E_error2_t* entry, void* text)
{
    char major[80], minor[80];
    H5Eget_msg(entry->maj_num, NULL, major, sizeof major);
    H5Eget_msg(entry->min_num, NULL, minor, sizeof minor);
    size_t used = strlen(text);
    snprintf((char*)text + used, 600 - used, "%s%s/%s", n ? ", " : "", major, minor);
    return 0;
}

static void look(state_t* s)
{
    memset(s, 0, sizeof *s);
    s->error = errno;
    hid_t stack = H5Eget_current_stack(); /* first: other calls empty it */
    H5Ewalk2(stack, H5E_WALK_UPWARD, add_entry, s->stack);
    H5Eclose_stack(stack);
    H5Eauto_is_v2(H5E_DEFAULT, &s->second);
    if (s->second) H5Eget_auto2(H5E_DEFAULT, (H5E_auto2_t*)&s->function, &s->data);
    else H5Eget_auto1((H5E_auto1_t*)&s->function, &s->data);
    s->lists_equal = H5Pequal(H5P_FILE_ACCESS_DEFAULT, usual_list) > 0;
    for (int type = 1; type < TYPES; ++type)
        for (hid_t k = 0; type != DRIVERS && k < MOST_IDS; ++k) s->ids[type] += H5Iis_valid(((hid_t)type << 56) | k) > 0;
    pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
}

static state_t before;

static void begin(void)
{
    look(&before);
    errno = UNTOUCHED;
}

static int64_t result;

static int64_t end(const char* what, int opens)
{
    static state_t now;
    look(&now);
    printf("%s: %s", what, result < 0 ? "fails" : "well");
    if (result >= 0 && now.error != UNTOUCHED) printf(", errno %d", now.error);
    if (now.second != before.second || now.function != before.function || now.data != before.data) printf(", error handler");
    if (now.stack[0]) printf(", stack %s", now.stack);
    if (!now.lists_equal) printf(", default access list");
    int more = 0;
    for (int type = 1; type < TYPES; ++type) more += now.ids[type] - before.ids[type];
    if (more != (result >= 0 ? opens : 0)) printf(", %+d ids", more);
    if (memcmp(&now.mask, &before.mask, sizeof now.mask) != 0) printf(", signal mask");
    printf("\n");
    return result;
}

#define CALL(opens, call) (begin(), result = (call), end(#call, opens))

static int told;
static herr_t tell1(void* data) { return ++*(int*)data, 0; }
static herr_t tell2(hid_t stack, void* data) { return (void)stack, ++*(int*)data, 0; }

static void set_handler(int k)
{
    switch (k) {
    case 0: H5Eset_auto2(H5E_DEFAULT, NULL, NULL); break;
    case 1: H5Eset_auto1(NULL, NULL); break;
    case 2: H5Eset_auto1(tell1, &told); break;
    case 3: H5Eset_auto2(H5E_DEFAULT, tell2, &told); break;
    default: H5Eset_auto2(H5E_DEFAULT, (H5E_auto2_t)H5Eprint2, stderr); break; /* as it is at first */
    }
}

/* Calls that later versions have. */
hid_t is_accessible(const char* name, hid_t list) __asm__("H5Fis_accessible") __attribute__((weak));
hid_t register_driver(const void* driver) __asm__("H5FDregister");
herr_t delete_file(const char* name, hid_t list) __asm__("H5Fdelete") __attribute__((weak));
herr_t write_multi(size_t n, hid_t* d, hid_t* t, hid_t* m, hid_t* f, hid_t list, const void** from) __asm__("H5Dwrite_multi") __attribute__((weak));
herr_t read_multi(size_t n, hid_t* d, hid_t* t, hid_t* m, hid_t* f, hid_t list, void** to) __asm__("H5Dread_multi") __attribute__((weak));
hid_t create_async(const char*, const char*, unsigned, const char*, unsigned, hid_t, hid_t, hid_t) __asm__("H5Fcreate_async") __attribute__((weak));
hid_t open_async(const char*, const char*, unsigned, const char*, unsigned, hid_t, hid_t) __asm__("H5Fopen_async") __attribute__((weak));
herr_t flush_async(const char*, const char*, unsigned, hid_t, int, hid_t) __asm__("H5Fflush_async") __attribute__((weak));
herr_t write_async(const char*, const char*, unsigned, hid_t, hid_t, hid_t, hid_t, hid_t, const void*, hid_t) __asm__("H5Dwrite_async") __attribute__((weak));
herr_t read_async(const char*, const char*, unsigned, hid_t, hid_t, hid_t, hid_t, hid_t, void*, hid_t) __asm__("H5Dread_async") __attribute__((weak));
herr_t write_multi_async(const char*, const char*, unsigned, size_t, hid_t*, hid_t*, hid_t*, hid_t*, hid_t, const void**, hid_t) __asm__("H5Dwrite_multi_async") __attribute__((weak));

static int newer;
static int value = 7;

static void try_objects(hid_t file)
{
    CALL(0, H5Dopen1(file, "none"));
    CALL(0, H5Dopen2(file, "none", H5P_DEFAULT));
    CALL(0, H5Gopen2(file, "none", H5P_DEFAULT));
    CALL(0, H5Oopen(file, "none", H5P_DEFAULT));
    H5Dclose(CALL(1, H5Dopen1(file, "a")));
    H5Gclose(CALL(1, H5Gopen2(file, "/", H5P_DEFAULT)));
    H5Oclose(CALL(1, H5Oopen(file, "a", H5P_DEFAULT)));
    hid_t list = H5Fget_access_plist(file);
    CALL(0, H5Pget_driver(list));
    H5Pclose(list);
    hid_t data = CALL(1, H5Dopen2(file, "a", H5P_DEFAULT)), type = H5T_NATIVE_INT, all = H5S_ALL;
    void* to = &value;
    CALL(0, H5Dread(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value));
    if (newer) {
        CALL(0, read_multi(1, &data, &type, &all, &all, H5P_DEFAULT, &to));
        CALL(0, read_async("", "", 0, data, type, all, all, H5P_DEFAULT, to, 0));
    }
    H5Dclose(data);
}

static void write_file(const char* name)
{
    hid_t list = H5Pcreate(H5P_FILE_ACCESS), type = H5T_NATIVE_INT, all = H5S_ALL;
    hsize_t size = 1, offset = 0;
    CALL(0, H5Fopen(name, H5F_ACC_RDONLY, list));
    CALL(0, H5Fis_hdf5(name));
    CALL(0, register_driver(NULL)); /* which is none */
    hid_t file = newer ? CALL(1, create_async("", "", 0, name, H5F_ACC_EXCL, H5P_DEFAULT, list, 0)) : CALL(1, H5Fcreate(name, H5F_ACC_EXCL, H5P_DEFAULT, list));
    hid_t space = H5Screate_simple(1, &size, NULL), chunked = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(chunked, 1, &size);
    hid_t data = H5Dcreate2(file, "a", type, space, H5P_DEFAULT, chunked, H5P_DEFAULT);
    const void* from = &value;
    CALL(0, H5Dwrite(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value));
    CALL(0, H5Dwrite(data, -1, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value));
    CALL(0, H5Dwrite_chunk(data, H5P_DEFAULT, 0, &offset, sizeof value, &value));
    if (newer) {
        CALL(0, write_multi(1, &data, &type, &all, &all, H5P_DEFAULT, &from));
        CALL(0, write_async("", "", 0, data, type, all, all, H5P_DEFAULT, from, 0));
        CALL(0, write_multi_async("", "", 0, 1, &data, &type, &all, &all, H5P_DEFAULT, &from, 0));
        CALL(0, flush_async("", "", 0, file, H5F_SCOPE_LOCAL, 0));
    }
    CALL(0, H5Fflush(file, H5F_SCOPE_GLOBAL));
    H5Dclose(data);
    try_objects(file);
    CALL(-1, H5Fclose(file));
    CALL(0, H5Fcreate(name, H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
    CALL(0, H5Fis_hdf5(name));
    file = CALL(1, H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT));
    CALL(-1, H5Fclose(file));
    file = CALL(1, H5Fcreate("other.hdf", H5F_ACC_TRUNC, H5P_DEFAULT, list));
    CALL(-1, H5Fclose(file));
    if (newer) {
        CALL(0, is_accessible(name, H5P_DEFAULT));
        CALL(0, delete_file("other.hdf", H5P_DEFAULT));
        CALL(0, delete_file("none.hdf", H5P_DEFAULT));
    }
    H5Sclose(space);
    H5Pclose(chunked);
    H5Pclose(list);
}

static void read_file(const char* name)
{
    hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    CALL(0, H5Fis_hdf5(name));
    if (newer) CALL(0, is_accessible(name, list));
    hid_t file = newer ? CALL(1, open_async("", "", 0, name, H5F_ACC_RDONLY, list, 0)) : CALL(1, H5Fopen(name, H5F_ACC_RDONLY, list));
    try_objects(file);
    CALL(-1, H5Fclose(file));
    H5Pclose(list);
}

int main(int count, char** words)
{
    char name[64];
    unsigned version[3];
    (void)count;
    setvbuf(stdout, NULL, _IOLBF, 0);
    H5open();
    H5get_libversion(&version[0], &version[1], &version[2]);
    newer = version[0] > 1 || version[1] >= 14;
    usual_list = H5Pcopy(H5P_FILE_ACCESS_DEFAULT);
    int writes = strcmp(words[1], "write") == 0, first = atoi(words[3]);
    for (int k = 0; k < 5; ++k) {
        set_handler(k);
        snprintf(name, sizeof name, words[2], first + k);
        printf("handler %d\n", k);
        if (writes) write_file(name);
        else read_file(name);
    }
    snprintf(name, sizeof name, words[2], first + 99);
    CALL(0, H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT));
    CALL(0, H5Fis_hdf5(name));
    printf("told %d times\n", told);
    return 0;
}
