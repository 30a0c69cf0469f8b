// The program's MPI as MPI-IO on arenas needs it: constants and functions of the family at hand, found at run time.
//
// No MPI header is used. Handles are ints in the MPICH family and pointers in the Open MPI family; both travel as
// `Handle`, which every supported calling convention passes in the same register.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wilkins::mpiio {

using Handle = intptr_t;

enum class Family { mpich, openmpi };

// Access modes and whences have the same values in both families.
enum AccessMode : int {
    mode_create = 1,
    mode_rdonly = 2,
    mode_wronly = 4,
    mode_rdwr = 8,
    mode_delete_on_close = 16,
    mode_excl = 64,
    mode_append = 128,
    mode_sequential = 256,
};
inline constexpr int kSeekSet = 600;
inline constexpr int kSeekCur = 602;
inline constexpr int kSeekEnd = 604;

// How a datatype was made.
enum class Combiner {
    named = 1,
    dup,
    contiguous,
    vector,
    hvector_integer,
    hvector,
    indexed,
    hindexed_integer,
    hindexed,
    indexed_block,
    struct_integer,
    structure,
    subarray,
    darray,
    f90_real,
    f90_complex,
    f90_integer,
    resized,
    hindexed_block,
};

// Error classes, which are valid error codes too.
struct Errors {
    int arg, count, other, type, access, amode, bad_file, exists, in_use, file, io, no_mem, no_space, no_such_file,
        quota, read_only, unsupported_datarep, unsupported_operation;
};

struct Distribution {
    int order_fortran, block, cyclic, none, default_argument;
};

struct Abi {
    Family family;
    Handle comm_self, datatype_null, byte, integer, op_max, info_null, file_null, errors_return, errhandler_null;
    const void* status_ignore;
    Errors error;
    Distribution distribution;

    int (*Comm_rank)(Handle comm, int* rank);
    int (*Comm_size)(Handle comm, int* size);
    int (*Comm_dup)(Handle comm, Handle* copy);
    int (*Comm_idup)(Handle comm, Handle* copy, Handle* request);
    int (*Comm_free)(Handle* comm);
    int (*Comm_group)(Handle comm, Handle* group);
    int (*Abort)(Handle comm, int code);
    int (*Ibcast)(void* buffer, int count, Handle datatype, int root, Handle comm, Handle* request);
    int (*Iallreduce)(const void* in, void* out, int count, Handle datatype, Handle op, Handle comm, Handle* request);
    int (*Iallgather)(const void* in, int count, Handle type, void* out, int counts, Handle types, Handle comm,
                      Handle* request);
    int (*Ibarrier)(Handle comm, Handle* request);
    int (*Test)(Handle* request, int* flag, void* status);
    int (*Grequest_start)(int (*query)(void*, void*), int (*release)(void*), int (*cancel)(void*, int), void* extra,
                          Handle* request);
    int (*Grequest_complete)(Handle request);
    int (*Status_set_elements_x)(void* status, Handle datatype, int64_t count);
    int (*Status_set_cancelled)(void* status, int flag);
    int (*Type_size_x)(Handle datatype, int64_t* size);
    int (*Type_get_extent_x)(Handle datatype, int64_t* lb, int64_t* extent);
    int (*Type_get_true_extent_x)(Handle datatype, int64_t* lb, int64_t* extent);
    int (*Type_get_envelope)(Handle datatype, int* integers, int* addresses, int* datatypes, int* combiner);
    int (*Type_get_contents)(Handle datatype, int max_integers, int max_addresses, int max_datatypes, int* integers,
                             intptr_t* addresses, void* datatypes);
    // Absent before MPI 4: types made with large counts do not exist there.
    int (*Type_get_envelope_c)(Handle datatype, int64_t* integers, int64_t* addresses, int64_t* counts,
                               int64_t* datatypes, int* combiner);
    int (*Type_get_contents_c)(Handle datatype, int64_t max_integers, int64_t max_addresses, int64_t max_counts,
                               int64_t max_datatypes, int* integers, intptr_t* addresses, int64_t* counts,
                               void* datatypes);
    int (*Type_dup)(Handle datatype, Handle* copy);
    int (*Type_free)(Handle* datatype);
    int (*Info_create)(Handle* info);
    int (*Info_dup)(Handle info, Handle* copy);
    int (*Info_free)(Handle* info);
    int (*File_get_errhandler)(Handle file, Handle* errhandler);
    int (*Errhandler_free)(Handle* errhandler);
    int (*Error_string)(int code, char* text, int* length);

    // The handle without the bits that an int argument leaves undefined in its register.
    Handle clean(Handle handle) const {
        return family == Family::mpich ? static_cast<Handle>(static_cast<uint32_t>(handle)) : handle;
    }
    // Handles in the program's memory.
    Handle load(const void* array, size_t index) const;
    void store(void* place, Handle handle) const;
    Combiner combiner(int value) const { return static_cast<Combiner>(family == Family::mpich ? value : value + 1); }
    // The error class for an errno.
    int error_class(int number) const;
};

// The MPI that `caller` (a return address) uses; found once per process. nullptr, with a line in the log, if it lacks a
// function that is needed.
const Abi* find_abi(const void* caller);

}  // namespace wilkins::mpiio
