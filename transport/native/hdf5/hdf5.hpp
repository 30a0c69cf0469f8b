// The HDF5 libraries of the process: one record each, with the functions and ids the layer needs from it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "base/resolve.hpp"
#include "board/border.hpp"
#include "posix/files.hpp"

namespace wilkins {

using hid_t = int64_t;
using herr_t = int;
using htri_t = int;
using haddr_t = uint64_t;

// Flags of HDF5's calls that open files, and what its POSIX driver makes of them.
constexpr unsigned kReadWrite = 0x1, kTruncate = 0x2, kExclusive = 0x4, kCreate = 0x10, kWriterOfMany = 0x20,
                   kOneOfManyReaders = 0x40;
int posix_flags(unsigned flags);

// One HDF5 library (a process may hold several, of different versions). 64-bit ids: HDF5 1.10 and later.
struct Hdf5 {
    const void* identity = nullptr;  // address of its H5Fopen
    unsigned version[3] = {};
    hid_t driver = -1;

    herr_t (*open)() = nullptr;
    herr_t (*get_libversion)(unsigned*, unsigned*, unsigned*) = nullptr;
    hid_t (*register_driver)(const void*) = nullptr;
    htri_t (*is_valid)(hid_t) = nullptr;
    hid_t (*copy_list)(hid_t) = nullptr;
    hid_t (*create_list)(hid_t) = nullptr;
    herr_t (*close_list)(hid_t) = nullptr;
    herr_t (*set_driver)(hid_t, hid_t, const void*) = nullptr;
    herr_t (*get_fapl_mpio)(hid_t, void*, void*) = nullptr;
    herr_t (*get_fapl_core)(hid_t, size_t*, void*) = nullptr;
    ssize_t (*get_name)(hid_t, char*, size_t) = nullptr;
    herr_t (*clear_errors)(hid_t) = nullptr;
    herr_t (*get_file_image)(hid_t, void**, size_t*) = nullptr;
    hid_t (*get_driver)(hid_t) = nullptr;
    const void* (*get_driver_info)(hid_t) = nullptr;
    herr_t (*is_auto2)(hid_t, unsigned*) = nullptr;
    herr_t (*get_auto1)(void**, void**) = nullptr;
    herr_t (*set_auto1)(void*, void*) = nullptr;
    herr_t (*get_auto2)(hid_t, void**, void**) = nullptr;
    herr_t (*set_auto2)(hid_t, void*, void*) = nullptr;
    hid_t (*get_errors)() = nullptr;
    herr_t (*set_errors)(hid_t) = nullptr;
    herr_t (*push_error)(hid_t, const char*, const char*, unsigned, hid_t, hid_t, hid_t, const char*, ...) = nullptr;
    hid_t (*posix_driver)() = nullptr;  // up to 1.14 a function, then a variable
    const hid_t* posix_driver_id = nullptr;
    const hid_t* file_access_class = nullptr;
    const hid_t* error_class = nullptr;
    const hid_t* major_file = nullptr;
    const hid_t* minor_cannot_open = nullptr;
    const hid_t* major_arguments = nullptr;
    const hid_t* minor_bad_value = nullptr;
    const hid_t* major_resource = nullptr;
    const hid_t* minor_no_space = nullptr;

    // Pushes an entry that says why a file cannot be opened, in the words of HDF5's own POSIX driver (h5py reads errno
    // there).
    void push_cannot_open(const char* name, int error, unsigned flags) const;

    // Pushes an entry that says that there is nothing at this address, in the same words.
    void push_undefined(uint64_t address) const;

    // Pushes an entry that says why a call fails that is not HDF5's own fault.
    void push_failed(const char* function, int error) const;

    // What HDF5 calls when a call of the program's has failed, in the version of the interface by which the program has
    // set it.
    struct Handler {
        bool second;     // version
        void* function;  // nullptr: none
        void* data;
    };
    Handler handler() const;  // (clears the error stack, as most calls do)
    void set_handler(const Handler& handler) const;

    // A call of the program's fails by `push`, which says why on the error stack: the program's handler is called as by
    // HDF5.
    template <class Push>
    void fail(Push push) const {
        const Handler before = handler();
        clear_errors(0);
        push();
        call(before);
    }

    static void call(const Handler& handler);

    // Fails a call that asks for one writer with many readers, as HDF5 fails its calls: on its error stack, printed if
    // the program has errors printed. Also in the run's log. Returns -1.
    int refuse_swmr(const char* name) const;
};

// While it lives, HDF5 reports no error to the program. Afterwards the program's handler is as it was, of whichever
// version.
class Quiet {
public:
    explicit Quiet(const Hdf5& library);
    ~Quiet();
    // True if the program lets HDF5 print its errors, as those do that expect none.
    bool printed() const { return handler_.function != nullptr; }
    Quiet(const Quiet&) = delete;
    Quiet& operator=(const Quiet&) = delete;

private:
    const Hdf5& library_;
    const Hdf5::Handler handler_;
};

// The library that a call from `caller` reaches. nullptr if it lacks what the layer needs (older than 1.10).
Hdf5* hdf5_of(const void* caller);

// What the interposed call that is under way asks of the driver's open.
// `drafting`: it opens a file whose changes are not to be stored.
enum class Asking { opening, drafting, creating, looking };

// What an interposed call of HDF5's answers, made from `caller`, in which something was thrown.
herr_t fail_thrown(const char* function, const std::exception& what, const void* caller);

// Flushes every file that programs have open to write through a library of the process and that leads to a step. False
// if one could not be flushed. `but`: leaves out files of this name.
bool flush_open_files(const char* but);

// Closes an access list; HDF5's error stack, which any call into HDF5 clears, stays as a failed call left it.
void close_after(const Hdf5& library, hid_t list, bool failed);

// What a list with our driver says about it.
struct DriverInfo {
    hid_t replaced;   // the driver that the program asked for, or -1: none
    uint64_t within;  // of the list of a file that is open: the number of the step out of which a library opens more
                      // with it; 0: none
};

// The driver that the program put into a list that may have ours by now, or -1: HDF5's usual one.
hid_t asked_driver(const Hdf5& library, hid_t list);

// Access list `fapl` with our driver set in it, or -1 (error on HDF5's stack). Close it after use.
hid_t with_driver(Hdf5& library, hid_t fapl);

// False as long as no list of this process has got our driver.
bool driver_in_use();

// While a library reads a dataset: a file that it opens for that as bytes, since the dataset's are in there, is opened
// out of the dataset's file.
class Reads {
public:
    Reads(hid_t dataset, const void* caller);

private:
    const posix::DatasetRead under_way_;
};

// Set while an interposed call runs in this thread, so that the driver's open knows why it is called and for whom.
class Call {
public:
    Call(Hdf5& library, Asking asking, unsigned flags);
    ~Call();
    static Asking asking();
    static bool exclusive();  // the file must not exist
    static Hdf5* library();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

private:
    Asking before_;
    bool exclusive_before_;
    Hdf5* library_before_;
};

// A driver that the program itself has registered. It knows what its names mean: h5py's writes to a file object of
// Python's.
void note_driver(hid_t driver, const void* caller);
bool any_driver_of_program();
bool asks_for_driver_of_program(const Hdf5& library, hid_t list);

// Registers the driver's class with a library; the class layout depends on its version.
hid_t register_driver(const Hdf5& library);

}  // namespace wilkins

// After the body of an interposed function of HDF5's: how it fails if something was thrown in it.
#define WILKINS_OR_HDF5_ERROR                                        \
    catch (const std::exception& what) {                             \
        return wilkins::fail_thrown(__func__, what, WILKINS_CALLER); \
    }
