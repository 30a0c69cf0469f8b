// Calls of HDF5 1.14 and later, which the headers of 1.10 do not declare: several datasets in one call, event sets.
#include "pair.h"

extern herr_t H5Dwrite_multi(size_t n, hid_t datasets[], hid_t memory[], hid_t spaces[], hid_t files[], hid_t list, const void* from[]);
extern herr_t H5Dread_multi(size_t n, hid_t datasets[], hid_t memory[], hid_t spaces[], hid_t files[], hid_t list, void* to[]);
extern hid_t H5EScreate(void);
extern herr_t H5ESwait(hid_t events, uint64_t timeout, size_t* under_way, hbool_t* failed);
extern herr_t H5ESclose(hid_t events);
extern hid_t H5Fcreate_async(const char* source, const char* function, unsigned line, const char* name, unsigned flags, hid_t how,
                             hid_t access, hid_t events);
extern hid_t H5Fopen_async(const char* source, const char* function, unsigned line, const char* name, unsigned flags, hid_t access,
                           hid_t events);
extern herr_t H5Fclose_async(const char* source, const char* function, unsigned line, hid_t file, hid_t events);
extern hid_t H5Dcreate_async(const char* source, const char* function, unsigned line, hid_t in, const char* name, hid_t type,
                             hid_t of, hid_t link, hid_t how, hid_t access, hid_t events);
extern herr_t H5Dwrite_async(const char* source, const char* function, unsigned line, hid_t dataset, hid_t memory, hid_t space,
                             hid_t of, hid_t list, const void* from, hid_t events);

#define HERE __FILE__, __func__, __LINE__

CASE(several_in_one_call, "multi-dataset calls") {
    const hid_t f = H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const int numbers[4] = {1, 2, 3, 4};
    const double reals[4] = {0.5, 1.5, 2.5, 3.5};
    hid_t chunks = untimed();
    const hsize_t three = 3;
    H5Pset_chunk(chunks, 1, &three);
    hid_t sets[2] = {H5Dcreate2(f, "i", H5T_STD_I32BE, space(4, 0), H5P_DEFAULT, untimed(), H5P_DEFAULT),
                     H5Dcreate2(f, "f", H5T_IEEE_F64LE, space(4, 0), H5P_DEFAULT, chunks, H5P_DEFAULT)};
    hid_t memory[2] = {H5T_NATIVE_INT, H5T_NATIVE_DOUBLE}, all[2] = {H5S_ALL, H5S_ALL};
    const void* from[2] = {numbers, reals};
    TRY(H5Dwrite_multi(2, sets, memory, all, all, H5P_DEFAULT, from));
    memory[0] = -1;
    TRY(H5Dwrite_multi(2, sets, memory, all, all, H5P_DEFAULT, from));
    H5Dclose(sets[0]);
    H5Dclose(sets[1]);
    TRY(H5Fclose(f));
}

LOOK(several_in_one_call) {
    const hid_t f = TRY(H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT));
    hid_t sets[2] = {H5Dopen2(f, "i", H5P_DEFAULT), H5Dopen2(f, "f", H5P_DEFAULT)};
    hid_t memory[2] = {H5T_NATIVE_INT, H5T_NATIVE_DOUBLE}, all[2] = {H5S_ALL, H5S_ALL};
    int numbers[4] = {0};
    double reals[4] = {0};
    void* to[2] = {numbers, reals};
    TRY(H5Dread_multi(2, sets, memory, all, all, H5P_DEFAULT, to));
    say("%d %d %g %g", numbers[0], numbers[3], reals[0], reals[3]);
    H5Dclose(sets[0]);
    H5Dclose(sets[1]);
    TRY(H5Fclose(f));
}

CASE(with_an_event_set, "async calls") {
    const hid_t events = TRY(H5EScreate());
    const int numbers[4] = {4, 3, 2, 1};
    const hid_t f = TRY(H5Fcreate_async(HERE, file, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT, events));
    const hid_t x = TRY(H5Dcreate_async(HERE, f, "x", H5T_STD_I32LE, space(4, 0), H5P_DEFAULT, untimed(), H5P_DEFAULT, events));
    TRY(H5Dwrite_async(HERE, x, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers, events));
    size_t under_way = 0;
    hbool_t failed = 0;
    H5Dclose(x);
    TRY(H5Fclose_async(HERE, f, events));
    TRY(H5ESwait(events, UINT64_MAX, &under_way, &failed));
    TRY(H5Fopen_async(HERE, "no-such-file.h5", H5F_ACC_RDONLY, H5P_DEFAULT, events));
    TRY(H5ESclose(events));
}

LOOK(with_an_event_set) {
    const hid_t events = TRY(H5EScreate());
    const hid_t f = TRY(H5Fopen_async(HERE, file, H5F_ACC_RDONLY, H5P_DEFAULT, events));
    const hid_t x = H5Dopen2(f, "x", H5P_DEFAULT);
    say_values(x, H5T_NATIVE_INT);
    H5Dclose(x);
    TRY(H5Fclose_async(HERE, f, events));
    TRY(H5ESclose(events));
}
