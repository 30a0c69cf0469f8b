// The MPI_File_* functions a program calls: for a handle of ours the arena answers, for others the program's own MPI.
//
// Fortran needs no entries of its own: the Fortran libraries of both MPI families call these C functions, and the
// conversions of handles below.
#include <cstdint>
#include <utility>

#include "base/resolve.hpp"
#include "board/border.hpp"
#include "mpi/abi.hpp"
#include "mpi/file.hpp"
#include "mpi/world.hpp"
#include "names/first_opens.hpp"
#include "store/store.hpp"

using wilkins::guarded;
using wilkins::Match;
using wilkins::Purpose;
using wilkins::mpiio::Abi;
using wilkins::mpiio::Errhandler;
using wilkins::mpiio::fail_without_file;
using wilkins::mpiio::File;
using wilkins::mpiio::find_abi;
using wilkins::mpiio::Handle;
using Offset = int64_t;
using Count = int64_t;

namespace {

constexpr int kUnknownMpi = 15;  // MPI_ERR_OTHER or kin in all families
constexpr auto kRead = File::Direction::read;
constexpr auto kWrite = File::Direction::write;

// `buffer` of a write is only read from.
void* data(const void* buffer) { return const_cast<void*>(buffer); }

int at(File* file, File::Direction direction, Offset offset, const void* buffer, Count count, Handle type,
       void* status) {
    Count bytes = 0;
    const int rc = file->transfer(direction, offset, data(buffer), count, type, &bytes);
    if (rc == 0) file->finish(status, bytes);
    return rc;
}

int next(File* file, File::Direction direction, const void* buffer, Count count, Handle type, void* status) {
    Count bytes = 0;
    const int rc = file->transfer_next(direction, data(buffer), count, type, &bytes);
    if (rc == 0) file->finish(status, bytes);
    return rc;
}

int iat(File* file, File::Direction direction, Offset offset, const void* buffer, Count count, Handle type,
        Handle* request) {
    Count bytes = 0;
    const int rc = file->transfer(direction, offset, data(buffer), count, type, &bytes);
    return rc != 0 ? rc : file->request(bytes, request);
}

int inext(File* file, File::Direction direction, const void* buffer, Count count, Handle type, Handle* request) {
    Count bytes = 0;
    const int rc = file->transfer_next(direction, data(buffer), count, type, &bytes);
    return rc != 0 ? rc : file->request(bytes, request);
}

int begin(File* file, File::Direction direction, Offset offset, const void* buffer, Count count, Handle type) {
    Count bytes = 0;
    const int rc = file->transfer(direction, offset, data(buffer), count, type, &bytes);
    file->split_bytes = bytes;
    return rc;
}

int begin_next(File* file, File::Direction direction, const void* buffer, Count count, Handle type) {
    Count bytes = 0;
    const int rc = file->transfer_next(direction, data(buffer), count, type, &bytes);
    file->split_bytes = bytes;
    return rc;
}

// The same for calls that all ranks make together: none moves a byte before the last one has arrived, and from a write
// none returns before the last byte is there. MPI does not ask for that, but MPI-IO on files does so, and HDF5 counts
// on it: what a rank has written by itself before such a call must not land on what another one writes in it, and what
// it reads by itself afterwards, to change a part of it and write it back, must hold what the others wrote.
template <typename Transfer, typename... Arguments>
int together(Transfer transfer, File* file, File::Direction direction, Arguments... arguments) {
    if (const int rc = file->arrive()) return rc;
    const int rc = transfer(file, direction, arguments...);
    const int left = direction == kWrite ? file->arrive() : 0;
    return rc != 0 ? rc : left;
}

int end(File* file, void* status) {
    file->finish(status, file->split_bytes);
    return 0;
}

template <typename Value>
int give(Value* place, Value value) {
    *place = value;
    return 0;
}

int extent(File* file, Handle type, Count* out) {
    Count lb = 0;
    const int rc = file->mpi().Type_get_extent_x(type, &lb, out);
    return rc != 0 ? file->fail(rc) : 0;
}

// A file of ours answers a call. What is thrown is an error of the file's, whose handler is called when all else is
// over.
template <typename Answer>
int answered(const char* function, File* file, Answer answer) {
    int error = 0;
    const int code = guarded(function, answer, [&](int thrown) { return error = thrown; });
    return error == 0 ? code : file->fail(file->mpi().error_class(error));
}

// The same for calls without an open file.
template <typename Answer>
int answered(const char* function, const Abi& mpi, Answer answer) {
    int error = 0;
    const int code = guarded(function, answer, [&](int thrown) { return error = thrown; });
    return error == 0 ? code : fail_without_file(mpi, mpi.error_class(error));
}

int open_name(int (*real)(Handle, const char*, int, Handle, Handle*), const void* caller, Handle comm, const char* name,
              int amode, Handle info, Handle* fh) {
    Match match;
    const Purpose purpose = amode & wilkins::mpiio::mode_create   ? Purpose::create
                            : amode & wilkins::mpiio::mode_rdonly ? Purpose::read
                                                                  : Purpose::update;
    if (!wilkins::match_name(name, &match, purpose)) {
        return real ? real(wilkins::world_comm(comm), name, amode, info, fh) : wilkins::no_mpi("MPI_File_open");
    }
    const Abi* const mpi = find_abi(caller);
    if (mpi == nullptr) return kUnknownMpi;
    bool disk = false;
    if (const int rc = answered("MPI_File_open", *mpi, [&] { return File::on_disk(*mpi, comm, match, amode, &disk); }))
        return rc;
    if (disk) {
        const wilkins::PassThrough passing(true);
        return real ? real(wilkins::world_comm(comm), name, amode, info, fh) : wilkins::no_mpi("MPI_File_open");
    }
    *fh = mpi->file_null;
    return answered("MPI_File_open", *mpi, [&] { return File::open(*mpi, comm, match, amode, info, fh); });
}

int close_handle(int (*real)(Handle*), const void*, Handle* fh) {
    File* const file = File::find(*fh);
    if (file == nullptr) return real ? real(fh) : wilkins::no_mpi("MPI_File_close");
    *fh = file->mpi().file_null;
    const Abi& mpi = file->mpi();
    return answered("MPI_File_close", mpi, [=] { return file->close(); });
}

int delete_name(int (*real)(const char*, Handle), const void* caller, const char* name, Handle info) {
    Match match;
    if (!wilkins::match_name(name, &match)) return real ? real(name, info) : wilkins::no_mpi("MPI_File_delete");
    const Abi* const mpi = find_abi(caller);
    if (mpi == nullptr) return kUnknownMpi;
    return answered("MPI_File_delete", *mpi, [=] {
        const int error = wilkins::delete_file(match);
        return error == 0 ? 0 : fail_without_file(*mpi, mpi->error_class(error));
    });
}

Handle from_fortran(Handle (*real)(int), const void*, int fortran) {
    const Handle ours = File::from_fortran(fortran);
    if (ours != 0) return ours;
    return real ? real(fortran) : 0;
}

int create_errhandler(int (*real)(Errhandler*, void*), const void* caller, Errhandler* function, void* errhandler) {
    if (!real) return wilkins::no_mpi("MPI_File_create_errhandler");
    const Abi* const mpi = find_abi(caller);
    if (mpi == nullptr) return real(function, errhandler);
    return answered("MPI_File_create_errhandler", *mpi, [=] {
        auto room = wilkins::mpiio::room_for(function);
        const int rc = real(function, errhandler);
        if (rc == 0) wilkins::mpiio::remember_errhandler(mpi->load(errhandler, 0), std::move(room));
        return rc;
    });
}

int free_errhandler(int (*real)(void*), const void* caller, void* errhandler) {
    const Abi* const mpi = wilkins::mpiio::any_references() ? find_abi(caller) : nullptr;
    if (mpi != nullptr && wilkins::mpiio::give_back(mpi->load(errhandler, 0))) {
        mpi->store(errhandler, mpi->errhandler_null);
        return 0;
    }
    return real ? real(errhandler) : wilkins::no_mpi("MPI_Errhandler_free");
}

}  // namespace

// Defines one symbol. `params` names the file handle `fh`; `answer` is what a file of ours replies, and may use `file`.
#define WILKINS_SYMBOL(symbol, params, args, answer)                                                     \
    extern "C" WILKINS_MPI_SYMBOL int symbol params;                                                     \
    int symbol params {                                                                                  \
        if (File* const file = File::find(fh)) return answered(#symbol, file, [&] { return answer; });   \
        static wilkins::RealFunction real(#symbol);                                                      \
        void* const function = real.get(WILKINS_CALLER);                                                 \
        return function ? reinterpret_cast<decltype(&symbol)>(function) args : wilkins::no_mpi(#symbol); \
    }
#define WILKINS_FILE(name, params, args, answer)          \
    WILKINS_SYMBOL(MPI_File_##name, params, args, answer) \
    WILKINS_SYMBOL(PMPI_File_##name, params, args, answer)
// A function with a count, and its variant with a large one. In `params`, `count` is the type of the count.
#define WILKINS_UNPACK(...) __VA_ARGS__
#define WILKINS_COUNTED(name, before, after, args, answer)                                     \
    WILKINS_FILE(name, (WILKINS_UNPACK before, int count, WILKINS_UNPACK after), args, answer) \
    WILKINS_FILE(name##_c, (WILKINS_UNPACK before, Count count, WILKINS_UNPACK after), args, answer)

// Transfers at explicit offsets.
#define WILKINS_AT(name, direction, Buffer)                                                       \
    WILKINS_COUNTED(name, (Handle fh, Offset offset, Buffer buffer), (Handle type, void* status), \
                    (fh, offset, buffer, count, type, status),                                    \
                    at(file, direction, offset, buffer, count, type, status))
#define WILKINS_AT_ALL(name, direction, Buffer)                                                   \
    WILKINS_COUNTED(name, (Handle fh, Offset offset, Buffer buffer), (Handle type, void* status), \
                    (fh, offset, buffer, count, type, status),                                    \
                    together(at, file, direction, offset, buffer, count, type, status))
#define WILKINS_IAT(name, direction, Buffer)                                                          \
    WILKINS_COUNTED(name, (Handle fh, Offset offset, Buffer buffer), (Handle type, Handle * request), \
                    (fh, offset, buffer, count, type, request),                                       \
                    iat(file, direction, offset, buffer, count, type, request))
#define WILKINS_AT_BEGIN(name, direction, Buffer)                                                                      \
    WILKINS_COUNTED(name, (Handle fh, Offset offset, Buffer buffer), (Handle type), (fh, offset, buffer, count, type), \
                    together(begin, file, direction, offset, buffer, count, type))
// Transfers from the individual file pointer.
#define WILKINS_NEXT(name, direction, Buffer)                                                                         \
    WILKINS_COUNTED(name, (Handle fh, Buffer buffer), (Handle type, void* status), (fh, buffer, count, type, status), \
                    next(file, direction, buffer, count, type, status))
#define WILKINS_NEXT_ALL(name, direction, Buffer)                                                                     \
    WILKINS_COUNTED(name, (Handle fh, Buffer buffer), (Handle type, void* status), (fh, buffer, count, type, status), \
                    together(next, file, direction, buffer, count, type, status))
#define WILKINS_INEXT(name, direction, Buffer)                                         \
    WILKINS_COUNTED(name, (Handle fh, Buffer buffer), (Handle type, Handle * request), \
                    (fh, buffer, count, type, request), inext(file, direction, buffer, count, type, request))
#define WILKINS_NEXT_BEGIN(name, direction, Buffer)                                             \
    WILKINS_COUNTED(name, (Handle fh, Buffer buffer), (Handle type), (fh, buffer, count, type), \
                    together(begin_next, file, direction, buffer, count, type))
#define WILKINS_END(name, Buffer) \
    WILKINS_FILE(name, (Handle fh, Buffer buffer, void* status), (fh, buffer, status), end(file, status))
// Transfers from the shared file pointer, which files in memory do not have.
#define WILKINS_SHARED(name, Buffer, Last)                                                                         \
    WILKINS_COUNTED(name, (Handle fh, Buffer buffer), (Handle type, Last * last), (fh, buffer, count, type, last), \
                    file->unsupported("MPI_File_" #name))
#define WILKINS_SHARED_BEGIN(name, Buffer)                                                      \
    WILKINS_COUNTED(name, (Handle fh, Buffer buffer), (Handle type), (fh, buffer, count, type), \
                    file->unsupported("MPI_File_" #name))

WILKINS_AT(read_at, kRead, void*)
WILKINS_AT_ALL(read_at_all, kRead, void*)
WILKINS_AT(write_at, kWrite, const void*)
WILKINS_AT_ALL(write_at_all, kWrite, const void*)
WILKINS_IAT(iread_at, kRead, void*)
WILKINS_IAT(iread_at_all, kRead, void*)
WILKINS_IAT(iwrite_at, kWrite, const void*)
WILKINS_IAT(iwrite_at_all, kWrite, const void*)
WILKINS_AT_BEGIN(read_at_all_begin, kRead, void*)
WILKINS_AT_BEGIN(write_at_all_begin, kWrite, const void*)
WILKINS_END(read_at_all_end, void*)
WILKINS_END(write_at_all_end, const void*)

WILKINS_NEXT(read, kRead, void*)
WILKINS_NEXT_ALL(read_all, kRead, void*)
WILKINS_NEXT(write, kWrite, const void*)
WILKINS_NEXT_ALL(write_all, kWrite, const void*)
WILKINS_INEXT(iread, kRead, void*)
WILKINS_INEXT(iread_all, kRead, void*)
WILKINS_INEXT(iwrite, kWrite, const void*)
WILKINS_INEXT(iwrite_all, kWrite, const void*)
WILKINS_NEXT_BEGIN(read_all_begin, kRead, void*)
WILKINS_NEXT_BEGIN(write_all_begin, kWrite, const void*)
WILKINS_END(read_all_end, void*)
WILKINS_END(write_all_end, const void*)

WILKINS_SHARED(read_shared, void*, void)
WILKINS_SHARED(write_shared, const void*, void)
WILKINS_SHARED(iread_shared, void*, Handle)
WILKINS_SHARED(iwrite_shared, const void*, Handle)
WILKINS_SHARED(read_ordered, void*, void)
WILKINS_SHARED(write_ordered, const void*, void)
WILKINS_SHARED_BEGIN(read_ordered_begin, void*)
WILKINS_SHARED_BEGIN(write_ordered_begin, const void*)
WILKINS_FILE(read_ordered_end, (Handle fh, void* buffer, void* status), (fh, buffer, status),
             file->unsupported("MPI_File_read_ordered_end"))
WILKINS_FILE(write_ordered_end, (Handle fh, const void* buffer, void* status), (fh, buffer, status),
             file->unsupported("MPI_File_write_ordered_end"))
WILKINS_FILE(seek_shared, (Handle fh, Offset offset, int whence), (fh, offset, whence),
             file->unsupported("MPI_File_seek_shared"))
WILKINS_FILE(get_position_shared, (Handle fh, Offset* offset), (fh, offset),
             file->unsupported("MPI_File_get_position_shared"))

WILKINS_FILE(set_size, (Handle fh, Offset size), (fh, size), file->set_size(size, false))
WILKINS_FILE(preallocate, (Handle fh, Offset size), (fh, size), file->set_size(size, true))
WILKINS_FILE(get_size, (Handle fh, Offset* size), (fh, size), give(size, file->size()))
WILKINS_FILE(sync, (Handle fh), (fh), file->sync())
WILKINS_FILE(set_atomicity, (Handle fh, int flag), (fh, flag), file->set_atomicity(flag != 0))
WILKINS_FILE(get_atomicity, (Handle fh, int* flag), (fh, flag), give(flag, file->atomic() ? 1 : 0))
WILKINS_FILE(get_amode, (Handle fh, int* amode), (fh, amode), give(amode, file->amode()))
WILKINS_FILE(get_group, (Handle fh, void* group), (fh, group), file->get_group(group))
WILKINS_FILE(get_info, (Handle fh, void* info), (fh, info), file->get_info(info))
WILKINS_FILE(set_info, (Handle fh, Handle info), (fh, info), file->set_info(info))
WILKINS_FILE(set_view, (Handle fh, Offset disp, Handle etype, Handle filetype, const char* datarep, Handle info),
             (fh, disp, etype, filetype, datarep, info), file->set_view(disp, etype, filetype, datarep))
WILKINS_FILE(get_view, (Handle fh, Offset* disp, void* etype, void* filetype, char* datarep),
             (fh, disp, etype, filetype, datarep), file->get_view(disp, etype, filetype, datarep))
WILKINS_FILE(seek, (Handle fh, Offset offset, int whence), (fh, offset, whence), file->seek(offset, whence))
WILKINS_FILE(get_position, (Handle fh, Offset* offset), (fh, offset), give(offset, file->position()))
WILKINS_FILE(get_byte_offset, (Handle fh, Offset offset, Offset* disp), (fh, offset, disp),
             file->byte_offset(offset, disp))
WILKINS_FILE(get_type_extent, (Handle fh, Handle type, intptr_t* out), (fh, type, out),
             extent(file, type, reinterpret_cast<Count*>(out)))
WILKINS_FILE(get_type_extent_c, (Handle fh, Handle type, Count* out), (fh, type, out), extent(file, type, out))
WILKINS_FILE(set_errhandler, (Handle fh, Handle errhandler), (fh, errhandler),
             file->set_errhandler(file->mpi().clean(errhandler)))
WILKINS_FILE(get_errhandler, (Handle fh, void* errhandler), (fh, errhandler), file->get_errhandler(errhandler))
WILKINS_FILE(call_errhandler, (Handle fh, int code), (fh, code), (static_cast<void>(file->fail(code)), 0))
WILKINS_FILE(c2f, (Handle fh), (fh), file->fortran())

// The rest is not called on an open file: each has a function above that gets the program's own function first.
#define WILKINS_OTHER_SYMBOL(symbol, Result, params, answer, ...)                                  \
    extern "C" WILKINS_MPI_SYMBOL Result symbol params;                                            \
    Result symbol params {                                                                         \
        static wilkins::RealFunction real(#symbol);                                                \
        const void* const caller = WILKINS_CALLER;                                                 \
        return answer(reinterpret_cast<decltype(&symbol)>(real.get(caller)), caller, __VA_ARGS__); \
    }
#define WILKINS_OTHER(name, Result, params, answer, ...)                       \
    WILKINS_OTHER_SYMBOL(MPI_File_##name, Result, params, answer, __VA_ARGS__) \
    WILKINS_OTHER_SYMBOL(PMPI_File_##name, Result, params, answer, __VA_ARGS__)

WILKINS_OTHER(open, int, (Handle comm, const char* name, int amode, Handle info, Handle* fh), open_name, comm, name,
              amode, info, fh)
WILKINS_OTHER(close, int, (Handle * fh), close_handle, fh)
WILKINS_OTHER(delete, int, (const char* name, Handle info), delete_name, name, info)
WILKINS_OTHER(f2c, Handle, (int fortran), from_fortran, fortran)
WILKINS_OTHER(create_errhandler, int, (Errhandler * function, void* errhandler), create_errhandler, function,
              errhandler)
WILKINS_OTHER_SYMBOL(MPI_Errhandler_free, int, (void* errhandler), free_errhandler, errhandler)
WILKINS_OTHER_SYMBOL(PMPI_Errhandler_free, int, (void* errhandler), free_errhandler, errhandler)
