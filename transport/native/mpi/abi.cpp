// Constants of the MPI families, and the search for the functions of the one at hand.
#include "mpi/abi.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/resolve.hpp"
#include "board/context.hpp"
#include "events.hpp"

namespace wilkins::mpiio {

namespace {

void use_mpich(Abi& abi) {
    abi.family = Family::mpich;
    abi.comm_self = 0x44000001;
    abi.datatype_null = 0x0c000000;
    abi.byte = 0x4c00010d;
    abi.integer = 0x4c000405;
    abi.op_max = 0x58000001;
    abi.info_null = 0x1c000000;
    abi.file_null = 0;
    abi.errors_return = 0x54000001;
    abi.errhandler_null = 0x14000000;
    abi.status_ignore = reinterpret_cast<const void*>(1);
    abi.error = {12, 2, 15, 3, 20, 21, 22, 25, 26, 27, 32, 34, 36, 37, 39, 40, 43, 44};
    abi.distribution = {57, 121, 122, 123, -49767};
}

// Open MPI's predefined handles as the library itself knows them (a program that is not position independent holds
// copies of the symbols), from their Fortran numbers, which are part of its binary interface.
bool use_openmpi(Abi& abi, const void* caller) {
    bool all = true;
    const auto object = [&](const char* convert, int number) {
        auto* const function = reinterpret_cast<Handle (*)(int)>(resolve(convert, caller));
        all = all && function != nullptr;
        return function != nullptr ? function(number) : 0;
    };
    abi.family = Family::openmpi;
    abi.comm_self = object("PMPI_Comm_f2c", 1);
    abi.datatype_null = object("PMPI_Type_f2c", 0);
    abi.byte = object("PMPI_Type_f2c", 1);
    abi.integer = object("PMPI_Type_f2c", 7);
    abi.op_max = object("PMPI_Op_f2c", 1);
    abi.info_null = object("PMPI_Info_f2c", 0);
    abi.file_null = object("PMPI_File_f2c", 0);
    abi.errors_return = object("PMPI_Errhandler_f2c", 2);
    abi.errhandler_null = object("PMPI_Errhandler_f2c", 0);
    abi.status_ignore = nullptr;
    abi.error = {13, 2, 16, 3, 20, 21, 23, 28, 29, 30, 35, 39, 41, 42, 44, 45, 51, 52};
    abi.distribution = {1, 0, 1, 2, -1};
    return all;
}

template <typename Function>
bool find(Function*& slot, const char* name, const void* caller) {
    slot = reinterpret_cast<Function*>(resolve(name, caller));
    return slot != nullptr;
}

bool fill(Abi& abi, const void* caller) {
    Dl_info library;
    void* const function = resolve("PMPI_Comm_rank", caller);
    if (function != nullptr && dladdr(function, &library) != 0 && std::strstr(library.dli_fname, "libmpi_abi")) {
        log_event(event::standard_abi(library.dli_fname));
        return false;
    }
    if (resolve("ompi_mpi_comm_world", caller) == nullptr) {
        use_mpich(abi);
    } else if (!use_openmpi(abi, caller)) {
        log_event(event::no_conversions());
        return false;
    }
    find(abi.Type_get_envelope_c, "PMPI_Type_get_envelope_c", caller);
    find(abi.Type_get_contents_c, "PMPI_Type_get_contents_c", caller);
    const char* missing = nullptr;
#define WILKINS_FIND(name)                        \
    if (!find(abi.name, "PMPI_" #name, caller)) { \
        missing = "MPI_" #name;                   \
    }
    WILKINS_FIND(Comm_rank)
    WILKINS_FIND(Comm_size)
    WILKINS_FIND(Comm_dup)
    WILKINS_FIND(Comm_idup)
    WILKINS_FIND(Comm_free)
    WILKINS_FIND(Comm_group)
    WILKINS_FIND(Abort)
    WILKINS_FIND(Ibcast)
    WILKINS_FIND(Iallreduce)
    WILKINS_FIND(Iallgather)
    WILKINS_FIND(Ibarrier)
    WILKINS_FIND(Test)
    WILKINS_FIND(Grequest_start)
    WILKINS_FIND(Grequest_complete)
    WILKINS_FIND(Status_set_elements_x)
    WILKINS_FIND(Status_set_cancelled)
    WILKINS_FIND(Type_size_x)
    WILKINS_FIND(Type_get_extent_x)
    WILKINS_FIND(Type_get_true_extent_x)
    WILKINS_FIND(Type_get_envelope)
    WILKINS_FIND(Type_get_contents)
    WILKINS_FIND(Type_dup)
    WILKINS_FIND(Type_free)
    WILKINS_FIND(Info_create)
    WILKINS_FIND(Info_dup)
    WILKINS_FIND(Info_free)
    WILKINS_FIND(File_get_errhandler)
    WILKINS_FIND(Errhandler_free)
    WILKINS_FIND(Error_string)
#undef WILKINS_FIND
    if (missing != nullptr) {
        log_event(event::no_function(missing));
    }
    return missing == nullptr;
}

}  // namespace

Handle Abi::load(const void* array, size_t index) const {
    if (family == Family::mpich) {
        return static_cast<Handle>(static_cast<const uint32_t*>(array)[index]);
    }
    return static_cast<const Handle*>(array)[index];
}

void Abi::store(void* place, Handle handle) const {
    std::memcpy(place, &handle, family == Family::mpich ? sizeof(uint32_t) : sizeof(Handle));
}

int Abi::error_class(int number) const {
    switch (number) {
        case ENOENT: return error.no_such_file;
        case EEXIST: return error.exists;
        case EACCES:
        case EPERM: return error.access;
        case EROFS:
        case EBADF: return error.read_only;
        case ENOSPC:
        case EFBIG: return error.no_space;
        case EDQUOT: return error.quota;
        case ENOMEM: return error.no_mem;
        case EBUSY: return error.in_use;
        case EINVAL:
        case ENAMETOOLONG: return error.bad_file;
        case ENOTSUP: return error.unsupported_operation;
        default: return error.io;
    }
}

const Abi* find_abi(const void* caller) {
    static std::atomic<const Abi*> found{nullptr};
    static std::mutex mutex;
    static Abi abi{};
    if (const Abi* known = found.load(std::memory_order_acquire)) {
        return known;
    }
    const std::lock_guard lock(mutex);
    if (found.load(std::memory_order_relaxed) == nullptr && fill(abi, caller)) {
        found.store(&abi, std::memory_order_release);
    }
    return found.load(std::memory_order_relaxed);
}

}  // namespace wilkins::mpiio
