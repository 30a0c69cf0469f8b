// HDF5's calls of which the C library sees too little: flushes, and reads and writes of datasets.
#include <fcntl.h>
#include <sys/types.h>

#include <cstdint>

#include "base/resolve.hpp"
#include "recorder/log.hpp"

#define RECORDED extern "C" __attribute__((visibility("default")))

namespace {

using namespace wilkins;

using hid_t = int64_t;
using herr_t = int;

constexpr int kLongestName = 4096;

// A line with the file that an object is in, and the object's path.
void log_object(const char* event, hid_t object, const void* caller) {
    auto* const file_name = reinterpret_cast<ssize_t (*)(hid_t, char*, size_t)>(resolve("H5Fget_name", caller));
    auto* const object_name = reinterpret_cast<ssize_t (*)(hid_t, char*, size_t)>(resolve("H5Iget_name", caller));
    char file[kLongestName], path[kLongestName];
    if (!file_name || !object_name || file_name(object, file, sizeof(file)) <= 0) return;
    if (object_name(object, path, sizeof(path)) <= 0) *path = '\0';
    recorder::log(event, -1, 0, file, AT_FDCWD, path);
}

}  // namespace

RECORDED herr_t H5Fflush(hid_t object, int scope) {
    const void* const caller = WILKINS_CALLER;
    const herr_t result = reinterpret_cast<herr_t (*)(hid_t, int)>(resolve("H5Fflush", caller))(object, scope);
    log_object("flush", object, caller);
    return result;
}

RECORDED herr_t H5Dwrite(hid_t dataset, hid_t memory_type, hid_t memory_space, hid_t file_space, hid_t list,
                         const void* buffer) {
    using Write = herr_t(hid_t, hid_t, hid_t, hid_t, hid_t, const void*);
    const void* const caller = WILKINS_CALLER;
    const herr_t result = reinterpret_cast<Write*>(resolve("H5Dwrite", caller))(dataset, memory_type, memory_space,
                                                                                file_space, list, buffer);
    log_object("dwrite", dataset, caller);
    return result;
}

RECORDED herr_t H5Dread(hid_t dataset, hid_t memory_type, hid_t memory_space, hid_t file_space, hid_t list,
                        void* buffer) {
    using Read = herr_t(hid_t, hid_t, hid_t, hid_t, hid_t, void*);
    const void* const caller = WILKINS_CALLER;
    const herr_t result = reinterpret_cast<Read*>(resolve("H5Dread", caller))(dataset, memory_type, memory_space,
                                                                              file_space, list, buffer);
    log_object("dread", dataset, caller);
    return result;
}
