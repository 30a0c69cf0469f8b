// Finding the HDF5 libraries of the process and preparing access lists for them.
#include <dlfcn.h>
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "base/held_at_forks.hpp"
#include "base/resolve.hpp"
#include "board/context.hpp"
#include "events.hpp"
#include "hdf5/hdf5.hpp"
#include "hdf5/next_function.hpp"
#include "store/store.hpp"

namespace wilkins {

namespace {

constexpr int kMostLibraries = 16;

std::atomic<bool> in_use{false};  // a library of this process has our driver

thread_local Asking current = Asking::opening;
thread_local bool current_exclusive = false;
thread_local Hdf5* current_library = nullptr;

template <class F>
bool look_up(F& function, const char* name, const Scope& near) {
    function = reinterpret_cast<F>(near.find(name));
    return function != nullptr;
}

// An id that the library keeps in a variable. An executable that uses the variable has a copy of its own, in which the
// library then works too (a copy relocation): the library's instance stays as it was before HDF5 was opened.
bool look_up_id(const hid_t*& id, const char* name, const Scope& near) {
    if (look_up(id, name, near) && *id > 0) return true;
    const void* copy = dlsym(RTLD_DEFAULT, name);
    if (copy) id = static_cast<const hid_t*>(copy);
    return id != nullptr;
}

bool fill(Hdf5& lib, const Scope& at) {
    // Everything is looked up from inside the library itself, so that another HDF5 in the process cannot answer.
    const bool whole = look_up(lib.open, "H5open", at) && look_up(lib.get_libversion, "H5get_libversion", at) &&
                       look_up(lib.register_driver, "H5FDregister", at) && look_up(lib.is_valid, "H5Iis_valid", at) &&
                       look_up(lib.copy_list, "H5Pcopy", at) && look_up(lib.create_list, "H5Pcreate", at) &&
                       look_up(lib.close_list, "H5Pclose", at) && look_up(lib.set_driver, "H5Pset_driver", at) &&
                       look_up(lib.get_name, "H5Fget_name", at) && look_up(lib.clear_errors, "H5Eclear2", at) &&
                       look_up(lib.get_auto2, "H5Eget_auto2", at) && look_up(lib.set_auto2, "H5Eset_auto2", at) &&
                       look_up(lib.get_errors, "H5Eget_current_stack", at) &&
                       look_up(lib.set_errors, "H5Eset_current_stack", at) && look_up(lib.push_error, "H5Epush2", at) &&
                       lib.open() >= 0 && look_up_id(lib.file_access_class, "H5P_CLS_FILE_ACCESS_ID_g", at);
    look_up(lib.is_auto2, "H5Eauto_is_v2", at);
    look_up(lib.get_auto1, "H5Eget_auto1", at);
    look_up(lib.set_auto1, "H5Eset_auto1", at);
    look_up(lib.get_fapl_mpio, "H5Pget_fapl_mpio", at);
    look_up(lib.get_fapl_core, "H5Pget_fapl_core", at);
    look_up(lib.get_file_image, "H5Pget_file_image", at);
    look_up(lib.get_driver, "H5Pget_driver", at);
    look_up(lib.get_driver_info, "H5Pget_driver_info", at);
    look_up(lib.posix_driver, "H5FD_sec2_init", at);
    look_up_id(lib.posix_driver_id, "H5FD_SEC2_id_g", at);
    look_up_id(lib.error_class, "H5E_ERR_CLS_g", at);
    look_up_id(lib.major_file, "H5E_FILE_g", at);
    look_up_id(lib.minor_cannot_open, "H5E_CANTOPENFILE_g", at);
    look_up_id(lib.major_arguments, "H5E_ARGS_g", at);
    look_up_id(lib.minor_bad_value, "H5E_BADVALUE_g", at);
    look_up_id(lib.major_resource, "H5E_RESOURCE_g", at);
    look_up_id(lib.minor_no_space, "H5E_NOSPACE_g", at);
    return whole && lib.get_libversion(&lib.version[0], &lib.version[1], &lib.version[2]) >= 0 &&
           (lib.version[0] > 1 || lib.version[1] >= 10);
}

}  // namespace

void Hdf5::push_cannot_open(const char* name, int error, unsigned flags) const {
    if (!error_class || !major_file || !minor_cannot_open) return;
    push_error(0, "wilkins", "open", 0, *error_class, *major_file, *minor_cannot_open,
               "unable to open file: name = '%s', errno = %d, error message = '%s', flags = %x, o_flags = %x", name,
               error, strerror(error), flags, static_cast<unsigned>(posix_flags(flags)));
}

void Hdf5::push_undefined(uint64_t address) const {
    if (!error_class || !major_arguments || !minor_bad_value) return;
    push_error(0, "wilkins", "transfer", 0, *error_class, *major_arguments, *minor_bad_value,
               "addr undefined, addr = %llu", static_cast<unsigned long long>(address));
}

void Hdf5::push_failed(const char* function, int error) const {
    if (!error_class || !major_resource || !minor_no_space) return;
    push_error(0, "wilkins", function, 0, *error_class, *major_resource, *minor_no_space,
               "errno = %d, error message = '%s'", error, strerror(error));
}

int Hdf5::refuse_swmr(const char* name) const {
    const Event refused = event::no_swmr(name);
    char text[2048];
    word_event(refused, text, sizeof(text));
    log_event(refused);
    if (!error_class || !major_file || !minor_cannot_open) return -1;
    fail([&] {
        push_error(0, "wilkins", "open", 0, *error_class, *major_file, *minor_cannot_open, "%s", text);
        // h5py says the outermost error, and the innermost in brackets.
        push_error(0, "wilkins", "open", 0, *error_class, *major_file, *minor_cannot_open, "no SWMR under a workflow");
    });
    return -1;
}

// To ask by the other version than the one in force is an error in HDF5, and to set by it puts that one in force.
Hdf5::Handler Hdf5::handler() const {
    unsigned second = 1;
    if (is_auto2 && get_auto1 && set_auto1) is_auto2(0, &second);
    Handler now = {second != 0, nullptr, nullptr};
    if (now.second) get_auto2(0, &now.function, &now.data);
    else get_auto1(&now.function, &now.data);
    return now;
}

void Hdf5::set_handler(const Handler& handler) const {
    if (handler.second) set_auto2(0, handler.function, handler.data);
    else set_auto1(handler.function, handler.data);
}

void Hdf5::call(const Handler& handler) {
    if (!handler.function) return;
    if (handler.second) reinterpret_cast<herr_t (*)(hid_t, void*)>(handler.function)(0, handler.data);
    else reinterpret_cast<herr_t (*)(void*)>(handler.function)(handler.data);
}

Quiet::Quiet(const Hdf5& library) : library_(library), handler_(library.handler()) {
    library_.set_handler({handler_.second, nullptr, nullptr});
}

Quiet::~Quiet() { library_.set_handler(handler_); }

int posix_flags(unsigned flags) {
    int mode = flags & kReadWrite ? O_RDWR : O_RDONLY;
    if (flags & kTruncate) mode |= O_TRUNC;
    if (flags & kCreate) mode |= O_CREAT;
    if (flags & kExclusive) mode |= O_EXCL;
    return mode;
}

namespace {

std::mutex libraries_mutex;
HeldAtForks libraries_held_at_forks(libraries_mutex);
Hdf5 libraries[kMostLibraries];
int count = 0;

// `add`: if the library is not known yet.
Hdf5* find_library(const void* identity, const Hdf5* add) {
    std::lock_guard<std::mutex> guard(libraries_mutex);
    const auto last = libraries + count;
    const auto known = std::find_if(libraries, last, [=](const Hdf5& one) { return one.identity == identity; });
    if (known != last) return known;
    if (!add || count == kMostLibraries) return nullptr;
    ++count;
    *last = *add;
    return last;
}

// Flushes the library's files that lead to steps.
bool flush_files(const Scope& near, const char* but) {
    constexpr hid_t everywhere = 0x1f;  // H5F_OBJ_ALL, in the place of a file
    constexpr unsigned files = 1;       // H5F_OBJ_FILE
    constexpr int most = 256;
    ssize_t (*get_ids)(hid_t, unsigned, size_t, hid_t*) = nullptr;
    ssize_t (*get_name)(hid_t, char*, size_t) = nullptr;
    herr_t (*get_intent)(hid_t, unsigned*) = nullptr;
    herr_t (*flush)(hid_t, int) = nullptr;
    if (!look_up(get_ids, "H5Fget_obj_ids", near) || !look_up(get_name, "H5Fget_name", near) ||
        !look_up(get_intent, "H5Fget_intent", near) || !look_up(flush, "H5Fflush", near))
        return true;
    hid_t ids[most];
    bool flushed = true;
    const ssize_t found = get_ids(everywhere, files, most, ids);
    for (ssize_t k = 0; k < found; ++k) {
        char name[kNameMax];
        unsigned intent = 0;
        Match match;
        if (get_intent(ids[k], &intent) < 0 || !(intent & kReadWrite) || get_name(ids[k], name, sizeof(name)) <= 0)
            continue;
        if (!match_name(name, &match) || match.outport < 0 || (but && strcmp(match.name, but) == 0)) continue;
        flushed = flush(ids[k], 0) >= 0 && flushed;
    }
    return flushed;
}

}  // namespace

bool flush_open_files(const char* but) {
    const void* known[kMostLibraries];
    int n = 0;
    {
        std::lock_guard<std::mutex> guard(libraries_mutex);
        for (; n < count; ++n) known[n] = libraries[n].open ? libraries[n].identity : nullptr;
    }
    bool flushed = true;
    for (int k = 0; k < n; ++k)
        if (known[k]) flushed = flush_files(Scope(known[k]), but) && flushed;
    return flushed;
}

Hdf5* hdf5_of(const void* caller) {
    static NextFunction open("H5Fopen");
    const void* identity = open(caller);
    if (!identity) return nullptr;
    Hdf5* known = find_library(identity, nullptr);
    if (!known) {
        Hdf5 found;  // without the mutex: HDF5 may wait for a lock of its own
        found.identity = identity;
        if (!fill(found, Scope(identity))) found.open = nullptr;
        known = find_library(identity, &found);
    }
    return known && known->open ? known : nullptr;
}

herr_t fail_thrown(const char* function, const std::exception& what, const void* caller) {
    const int error = thrown(function, what);
    if (const Hdf5* library = hdf5_of(caller)) library->fail([&] { library->push_failed(function, error); });
    return -1;
}

hid_t asked_driver(const Hdf5& lib, hid_t list) {
    if (list == 0 || !lib.get_driver || !lib.get_driver_info) return -1;
    const hid_t driver = lib.get_driver(list);
    if (driver != lib.driver) return driver;
    const auto* info = static_cast<const DriverInfo*>(lib.get_driver_info(list));
    return info ? info->replaced : -1;
}

hid_t with_driver(Hdf5& lib, hid_t fapl) {
    if (lib.driver < 0 || lib.is_valid(lib.driver) <= 0) lib.driver = register_driver(lib);
    if (lib.driver < 0) return -1;
    in_use.store(true, std::memory_order_relaxed);
    const hid_t list = fapl == 0 ? lib.create_list(*lib.file_access_class) : lib.copy_list(fapl);
    if (list < 0) return -1;
    const DriverInfo info = {asked_driver(lib, fapl), 0};
    if (lib.set_driver(list, lib.driver, &info) >= 0) return list;
    lib.close_list(list);
    return -1;
}

namespace {

// Guarded by the mutex.
struct OfProgram {
    const void* library;
    hid_t driver;
};
OfProgram of_program[16];
std::atomic<int> count_of_program{0};

}  // namespace

void note_driver(hid_t driver, const void* caller) {
    const void* const library = resolve("H5Fopen", caller);
    std::lock_guard<std::mutex> guard(libraries_mutex);
    const int n = count_of_program;
    if (driver < 0 || n == static_cast<int>(std::size(of_program))) return;
    of_program[n] = {library, driver};
    count_of_program = n + 1;
}

bool any_driver_of_program() { return count_of_program.load(std::memory_order_relaxed) > 0; }

bool asks_for_driver_of_program(const Hdf5& lib, hid_t list) {
    const hid_t driver = asked_driver(lib, list);
    std::lock_guard<std::mutex> guard(libraries_mutex);
    bool any = false;
    for (int k = 0; k < count_of_program; ++k)
        any = any || (of_program[k].library == lib.identity && of_program[k].driver == driver);
    return any;
}

bool driver_in_use() { return in_use.load(std::memory_order_relaxed); }

void close_after(const Hdf5& lib, hid_t list, bool failed) {
    const hid_t errors = failed ? lib.get_errors() : -1;
    lib.close_list(list);
    if (errors >= 0) lib.set_errors(errors);
}

Call::Call(Hdf5& library, Asking asking, unsigned flags)
    : before_(current), exclusive_before_(current_exclusive), library_before_(current_library) {
    current = asking;
    current_exclusive = flags & kExclusive;
    current_library = &library;
}

Call::~Call() {
    current = before_;
    current_exclusive = exclusive_before_;
    current_library = library_before_;
}

Asking Call::asking() { return current; }

bool Call::exclusive() { return current_exclusive; }

Hdf5* Call::library() { return current_library; }

}  // namespace wilkins
