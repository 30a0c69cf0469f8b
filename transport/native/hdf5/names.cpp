// The calls by which programs name HDF5 files. A matching name gets an access list with our driver; all else passes
// through.
#include <cerrno>

#include "hdf5/hdf5.hpp"
#include "hdf5/next_function.hpp"
#include "names/first_opens.hpp"
#include "names/led.hpp"
#include "posix/links.hpp"
#include "steps/actions.hpp"
#include "steps/disk.hpp"
#include "steps/open_files.hpp"
#include "steps/step_file.hpp"
#include "store/before_open.hpp"
#include "store/led_step.hpp"
#include "store/store.hpp"

namespace {

using namespace wilkins;

// A file shared over a communicator goes through MPI-IO, and is caught there.
bool parallel(const Hdf5& lib, hid_t fapl) {
    if (fapl == 0 || !lib.get_fapl_mpio) return false;
    Quiet quiet(lib);
    return lib.get_fapl_mpio(fapl, nullptr, nullptr) >= 0;
}

// True if the list asks for a file in its program's memory that is never written out. It would not be seen on disk
// either.
bool never_stored(const Hdf5& lib, hid_t fapl) {
    if (fapl == 0 || !lib.get_fapl_core) return false;
    Quiet quiet(lib);
    uint64_t stored = 0;  // room for an hbool_t of any width
    return lib.get_fapl_core(fapl, nullptr, &stored) >= 0 && !stored;
}

// True if the list brings the file's content itself. Then nothing is read from the name.
bool brings_image(const Hdf5& lib, hid_t fapl) {
    if (fapl == 0 || !lib.get_file_image) return false;
    Quiet quiet(lib);
    size_t size = 0;
    return lib.get_file_image(fapl, nullptr, &size) >= 0 && size > 0;
}

Purpose purpose_of(Asking asking, unsigned flags) {
    if (asking == Asking::creating) return Purpose::create;
    if (asking == Asking::looking) return Purpose::look;
    return flags & kReadWrite ? Purpose::update : Purpose::read;
}

template <class F>
auto call_with_driver(Hdf5& lib, unsigned flags, hid_t fapl, Asking asking, F call) -> decltype(call(fapl)) {
    const hid_t list = with_driver(lib, fapl);
    if (list < 0) return call(fapl);
    const auto result = [&] {
        Call under_way(lib, asking, flags);
        return call(list);
    }();
    close_after(lib, list, result < 0);
    return result;
}

// Runs `call`, on a name of a port, with an access list that leads to the arena, or with the program's own.
template <class F>
auto lead_to_step(const Match& match, unsigned flags, hid_t fapl, Asking asking, const void* caller, F call)
    -> decltype(call(fapl)) {
    Hdf5* lib = hdf5_of(caller);
    if (!lib) return call(fapl);
    const bool opens = asking == Asking::opening;
    if (asking == Asking::creating && never_stored(*lib, fapl)) return call(fapl);
    if (opens && brings_image(*lib, fapl)) return call(fapl);
    if (flags & (kWriterOfMany | kOneOfManyReaders)) return lib->refuse_swmr(match.name);
    if (opens && (flags & kReadWrite) && never_stored(*lib, fapl)) asking = Asking::drafting;
    if (opens) actions::notify(actions::Event::before_open, match.name);
    if (parallel(*lib, fapl)) {
        const auto result = [&] {
            Call under_way(*lib, asking, flags);
            return call(fapl);
        }();
        if (opens && result >= 0) actions::notify(actions::Event::after_open, match.name);
        return result;
    }
    if (asking != Asking::creating && !led_step(match.name) && (match.outport < 0 || !(flags & kReadWrite)) &&
        answered_by_disk(match, opens)) {
        PassThrough passing(true);
        return call(fapl);
    }
    const bool creates = asking == Asking::creating;
    // (Which step an open means depends on the library, where there are several.)
    if (asking != Asking::looking && !led_step(match.name) && (creates || !posix::has_several_hdf5())) {
        if (const int error = await_open(match, creates)) {
            lib->push_cannot_open(match.name, error, flags);
            return -1;
        }
    }
    const auto result = call_with_driver(*lib, flags, fapl, asking, call);
    if (opens && result >= 0) actions::notify(actions::Event::after_open, match.name);
    return result;
}

// Runs `call` with an access list that leads to the arena, or with the program's own.
template <class F>
auto redirect(const char* name, unsigned flags, hid_t fapl, Asking asking, const void* caller, F call)
    -> decltype(call(fapl)) {
    if (fapl != 0 && any_driver_of_program() && could_match(name)) {
        const Hdf5* const lib = hdf5_of(caller);
        if (lib && asks_for_driver_of_program(*lib, fapl)) return call(fapl);
    }
    const int before = errno;
    Match match;
    if (match_name(name, &match, purpose_of(asking, flags))) {
        const auto result = lead_to_step(match, flags, fapl, asking, caller, call);
        if (result >= 0) errno = before;
        return result;
    }
    errno = before;
    // What is open as a draft, and a file of the task's own by now, is one file for HDF5, however often it is opened.
    Hdf5* const draws = has_draft(name) ? hdf5_of(caller) : nullptr;
    if (draws && !parallel(*draws, fapl)) return call_with_driver(*draws, flags, fapl, asking, call);
    const posix::Hdf5Opens under_way(asking == Asking::opening && !(flags & kReadWrite));
    const auto result = call(fapl);
    if (match.made && (result < 0 || !disk::exists(match.name))) forget_made(match.name);
    return result;
}

}  // namespace

WILKINS_API(hid_t, H5Fcreate(const char* name, unsigned flags, hid_t fcpl, hid_t fapl)) {
    static NextFunction behind("H5Fcreate");
    auto real = reinterpret_cast<hid_t (*)(const char*, unsigned, hid_t, hid_t)>(behind(WILKINS_CALLER));
    return redirect(name, flags, fapl, Asking::creating, WILKINS_CALLER,
                    [=](hid_t list) { return real(name, flags, fcpl, list); });
}
WILKINS_OR_HDF5_ERROR

WILKINS_API(herr_t, H5Fstart_swmr_write(hid_t file)) {
    static NextFunction behind("H5Fstart_swmr_write");
    auto real = reinterpret_cast<herr_t (*)(hid_t)>(behind(WILKINS_CALLER));
    if (!driver_in_use()) return real(file);
    const Hdf5* lib = hdf5_of(WILKINS_CALLER);
    char name[kNameMax];
    Match match;
    if (!lib || lib->get_name(file, name, sizeof(name)) <= 0 || !match_name(name, &match)) return real(file);
    return lib->refuse_swmr(match.name);
}
WILKINS_OR_HDF5_ERROR

WILKINS_API(hid_t, H5Fopen(const char* name, unsigned flags, hid_t fapl)) {
    static NextFunction behind("H5Fopen");
    auto real = reinterpret_cast<hid_t (*)(const char*, unsigned, hid_t)>(behind(WILKINS_CALLER));
    return redirect(name, flags, fapl, Asking::opening, WILKINS_CALLER,
                    [=](hid_t list) { return real(name, flags, list); });
}
WILKINS_OR_HDF5_ERROR

WILKINS_API(hid_t, H5Fcreate_async(const char* file, const char* function, unsigned line, const char* name,
                                   unsigned flags, hid_t fcpl, hid_t fapl, hid_t events)) {
    static NextFunction behind("H5Fcreate_async");
    auto real =
        reinterpret_cast<hid_t (*)(const char*, const char*, unsigned, const char*, unsigned, hid_t, hid_t, hid_t)>(
            behind(WILKINS_CALLER));
    return redirect(name, flags, fapl, Asking::creating, WILKINS_CALLER,
                    [=](hid_t list) { return real(file, function, line, name, flags, fcpl, list, events); });
}
WILKINS_OR_HDF5_ERROR

WILKINS_API(hid_t, H5Fopen_async(const char* file, const char* function, unsigned line, const char* name,
                                 unsigned flags, hid_t fapl, hid_t events)) {
    static NextFunction behind("H5Fopen_async");
    auto real = reinterpret_cast<hid_t (*)(const char*, const char*, unsigned, const char*, unsigned, hid_t, hid_t)>(
        behind(WILKINS_CALLER));
    return redirect(name, flags, fapl, Asking::opening, WILKINS_CALLER,
                    [=](hid_t list) { return real(file, function, line, name, flags, list, events); });
}
WILKINS_OR_HDF5_ERROR

WILKINS_API(htri_t, H5Fis_accessible(const char* name, hid_t fapl)) {
    static NextFunction behind("H5Fis_accessible");
    auto real = reinterpret_cast<htri_t (*)(const char*, hid_t)>(behind(WILKINS_CALLER));
    return redirect(name, 0, fapl, Asking::looking, WILKINS_CALLER, [=](hid_t list) { return real(name, list); });
}
WILKINS_OR_HDF5_ERROR

WILKINS_API(htri_t, H5Fis_hdf5(const char* name)) {
    static NextFunction behind("H5Fis_hdf5"), accessible("H5Fis_accessible");
    auto real = reinterpret_cast<htri_t (*)(const char*)>(behind(WILKINS_CALLER));
    Match match;
    // Before 1.12 it takes no access list; its default driver reaches the arena through the C library's names.
    auto with_list = reinterpret_cast<htri_t (*)(const char*, hid_t)>(accessible(WILKINS_CALLER));
    if (!with_list || !match_name(name, &match)) return real(name);
    return redirect(name, 0, 0, Asking::looking, WILKINS_CALLER, [=](hid_t list) { return with_list(name, list); });
}
WILKINS_OR_HDF5_ERROR

WILKINS_API(herr_t, H5Fdelete(const char* name, hid_t fapl)) {
    static NextFunction behind("H5Fdelete");
    auto real = reinterpret_cast<herr_t (*)(const char*, hid_t)>(behind(WILKINS_CALLER));
    Match match;
    if (!match_name(name, &match)) return real(name, fapl);
    const Hdf5* lib = hdf5_of(WILKINS_CALLER);
    if (lib) lib->clear_errors(0);
    const int before = errno;
    const int error = delete_file(match);
    if (error == 0) {
        errno = before;
        return 0;
    }
    if (lib) lib->fail([&] { lib->push_cannot_open(name, error, 0); });
    return -1;
}
WILKINS_OR_HDF5_ERROR

WILKINS_API(hid_t, H5FDregister(const void* driver)) {
    static NextFunction behind("H5FDregister");
    const hid_t id = reinterpret_cast<hid_t (*)(const void*)>(behind(WILKINS_CALLER))(driver);
    note_driver(id, WILKINS_CALLER);
    return id;
}
WILKINS_OR_HDF5_ERROR

// A program that asks for a file's driver gets that of a file on disk.
WILKINS_API(hid_t, H5Pget_driver(hid_t list)) {
    static NextFunction behind("H5Pget_driver");
    const hid_t driver = reinterpret_cast<hid_t (*)(hid_t)>(behind(WILKINS_CALLER))(list);
    if (driver < 0 || !driver_in_use()) return driver;
    const Hdf5* lib = hdf5_of(WILKINS_CALLER);
    if (!lib || driver != lib->driver) return driver;
    const hid_t asked = asked_driver(*lib, list);
    if (asked >= 0) return asked;
    return lib->posix_driver ? lib->posix_driver() : lib->posix_driver_id ? *lib->posix_driver_id : driver;
}
WILKINS_OR_HDF5_ERROR
