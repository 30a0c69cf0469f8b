// Finds the function behind ours, from where the caller stands.
#include "base/resolve.hpp"

#include <dlfcn.h>
#include <link.h>

namespace wilkins {

namespace {

const void* base_of(const void* address) {
    Dl_info info;
    return dladdr(address, &info) ? info.dli_fbase : nullptr;
}

const void* own_base() {
    static const void* base = base_of(reinterpret_cast<const void*>(&resolve));
    return base;
}

}  // namespace

bool is_ours(const void* address) { return base_of(address) == own_base(); }

void* resolve(const char* name, const void* caller) {
    Dl_info info;
    struct link_map* map = nullptr;
    void* found = nullptr;
    if (caller && dladdr1(caller, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) && map) {
        // The program itself has an empty name; its own scope is the global one.
        const char* path = map->l_name && map->l_name[0] ? map->l_name : nullptr;
        if (void* handle = path ? dlopen(path, RTLD_NOLOAD | RTLD_LAZY) : nullptr) {
            found = dlsym(handle, name);
            dlclose(handle);
        }
    }
    if (found && is_ours(found)) found = nullptr;
    if (!found) found = dlsym(RTLD_NEXT, name);
    return found && is_ours(found) ? nullptr : found;
}

void* resolve_libc(const char* name) { return dlsym(RTLD_NEXT, name); }

}  // namespace wilkins
