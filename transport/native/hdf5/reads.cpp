// HDF5's calls that read datasets. Buffers in a GPU's memory are staged; all others pass through.
#include "hdf5/device.hpp"
#include "hdf5/hdf5.hpp"
#include "hdf5/next_function.hpp"

namespace {

using namespace wilkins;

bool any_staged(size_t count, const hid_t* datasets, void* const* buffers, const void* caller) {
    for (size_t k = 0; k < count; ++k)
        if (is_staged(datasets[k], buffers[k], caller)) return true;
    return false;
}

// A read of several datasets of which some go to device memory: one after the other.
herr_t read_each(size_t count, const hid_t* datasets, const hid_t* memory_types, const hid_t* memory_spaces,
                 const hid_t* file_spaces, hid_t list, void* const* buffers, ReadCall call, const void* caller) {
    for (size_t k = 0; k < count; ++k) {
        const Transfer transfer{datasets[k], memory_types[k], memory_spaces[k], file_spaces[k], list};
        const herr_t result =
            is_staged(datasets[k], buffers[k], caller)
                ? read_staged(transfer, buffers[k], call, caller)
                : call(datasets[k], memory_types[k], memory_spaces[k], file_spaces[k], list, buffers[k]);
        if (result < 0) return result;
    }
    return 0;
}

}  // namespace

WILKINS_API(herr_t,
            H5Dread(hid_t dataset, hid_t memory_type, hid_t memory_space, hid_t file_space, hid_t list, void* buffer)) {
    static NextFunction behind("H5Dread");
    const void* caller = WILKINS_CALLER;
    const Reads under_way(dataset, caller);
    auto real = reinterpret_cast<ReadCall>(behind(caller));
    if (is_staged(dataset, buffer, caller))
        return read_staged({dataset, memory_type, memory_space, file_space, list}, buffer, real, caller);
    return real(dataset, memory_type, memory_space, file_space, list, buffer);
}
WILKINS_OR_HDF5_ERROR

WILKINS_API(herr_t,
            H5Dread_async(const char* file, const char* function, unsigned line, hid_t dataset, hid_t memory_type,
                          hid_t memory_space, hid_t file_space, hid_t list, void* buffer, hid_t events)) {
    static NextFunction behind("H5Dread_async"), plain("H5Dread");
    const void* caller = WILKINS_CALLER;
    const Reads under_way(dataset, caller);
    auto real = reinterpret_cast<herr_t (*)(const char*, const char*, unsigned, hid_t, hid_t, hid_t, hid_t, hid_t,
                                            void*, hid_t)>(behind(caller));
    if (is_staged(dataset, buffer, caller))
        return read_staged({dataset, memory_type, memory_space, file_space, list}, buffer,
                           reinterpret_cast<ReadCall>(plain(caller)), caller);
    return real(file, function, line, dataset, memory_type, memory_space, file_space, list, buffer, events);
}
WILKINS_OR_HDF5_ERROR

WILKINS_API(herr_t, H5Dread_multi(size_t count, hid_t* datasets, hid_t* memory_types, hid_t* memory_spaces,
                                  hid_t* file_spaces, hid_t list, void** buffers)) {
    static NextFunction behind("H5Dread_multi"), plain("H5Dread");
    const void* caller = WILKINS_CALLER;
    const Reads under_way(count ? datasets[0] : -1, caller);
    auto real = reinterpret_cast<herr_t (*)(size_t, hid_t*, hid_t*, hid_t*, hid_t*, hid_t, void**)>(behind(caller));
    if (any_staged(count, datasets, buffers, caller))
        return read_each(count, datasets, memory_types, memory_spaces, file_spaces, list, buffers,
                         reinterpret_cast<ReadCall>(plain(caller)), caller);
    return real(count, datasets, memory_types, memory_spaces, file_spaces, list, buffers);
}
WILKINS_OR_HDF5_ERROR
