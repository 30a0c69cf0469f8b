// HDF5's calls that open what a file holds by its path. All pass through; one that finds nothing in a step leaves a
// note for whoever explains, at the end, what a program had to miss.
#include <cstdio>
#include <cstring>

#include "board/context.hpp"
#include "board/process.hpp"
#include "hdf5/hdf5.hpp"
#include "hdf5/next_function.hpp"
#include "store/store.hpp"
#include "names/unmatched_names.hpp"

namespace {

using namespace wilkins;

// HDF5's error stack, out of the way of the calls that are made while this lives.
class SetAside {
public:
    explicit SetAside(const Hdf5& lib) : lib_(lib), stack_(lib.get_errors()) {}
    ~SetAside() { lib_.set_errors(stack_); }
    SetAside(const SetAside&) = delete;
    SetAside& operator=(const SetAside&) = delete;

private:
    const Hdf5& lib_;
    const hid_t stack_;
};

void note(hid_t place, const char* name, const void* caller) {
    static NextFunction object_name("H5Iget_name");
    const Hdf5* lib = hdf5_of(caller);
    auto get_object_name = reinterpret_cast<ssize_t (*)(hid_t, char*, size_t)>(object_name(caller));
    if (!lib || !get_object_name) return;
    const SetAside errors(*lib);  // the program may ask for them yet
    const Quiet quiet(*lib);
    char file[kNameMax], path[kNameMax] = "", group[kNameMax] = "";
    Match match;
    if (lib->get_name(place, file, sizeof(file)) <= 0 || !match_name(file, &match) || match.inport < 0 ||
        match.outport >= 0)
        return;
    if (*name != '/' && get_object_name(place, group, sizeof(group)) > 0 && group[1]) strcat(group, "/");
    if (snprintf(path, sizeof(path), "%s%s",
                 *name == '/' ? ""
                 : group[0]   ? group
                              : "/",
                 name) >= static_cast<int>(sizeof(path)))
        return;
    note_not_found(process(), match.inport, match.name, path, quiet.printed());
}

// What a call has found, noted if that is nothing.
hid_t looked_up(hid_t result, hid_t place, const char* name, const void* caller) {
    if (result < 0 && name && *name && driver_in_use()) note(place, name, caller);
    return result;
}

}  // namespace

WILKINS_API(hid_t, H5Oopen(hid_t place, const char* name, hid_t list)) {
    static NextFunction behind("H5Oopen");
    auto real = reinterpret_cast<hid_t (*)(hid_t, const char*, hid_t)>(behind(WILKINS_CALLER));
    return looked_up(real(place, name, list), place, name, WILKINS_CALLER);
}
WILKINS_OR_HDF5_ERROR

WILKINS_API(hid_t, H5Dopen1(hid_t place, const char* name)) {
    static NextFunction behind("H5Dopen1");
    auto real = reinterpret_cast<hid_t (*)(hid_t, const char*)>(behind(WILKINS_CALLER));
    return looked_up(real(place, name), place, name, WILKINS_CALLER);
}
WILKINS_OR_HDF5_ERROR

WILKINS_API(hid_t, H5Dopen2(hid_t place, const char* name, hid_t list)) {
    static NextFunction behind("H5Dopen2");
    auto real = reinterpret_cast<hid_t (*)(hid_t, const char*, hid_t)>(behind(WILKINS_CALLER));
    return looked_up(real(place, name, list), place, name, WILKINS_CALLER);
}
WILKINS_OR_HDF5_ERROR

WILKINS_API(hid_t, H5Gopen2(hid_t place, const char* name, hid_t list)) {
    static NextFunction behind("H5Gopen2");
    auto real = reinterpret_cast<hid_t (*)(hid_t, const char*, hid_t)>(behind(WILKINS_CALLER));
    return looked_up(real(place, name, list), place, name, WILKINS_CALLER);
}
WILKINS_OR_HDF5_ERROR
