// Finds the function behind ours, from where the caller stands.
#include "base/resolve.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstddef>

// The start of this library in memory; the linker defines it.
extern "C" const ElfW(Ehdr) wilkins_header __asm__("__ehdr_start") __attribute__((visibility("hidden")));

namespace wilkins {

namespace {

// Bytes of this library in memory, by its program headers.
size_t measure_library() {
    const auto* base = reinterpret_cast<const char*>(&wilkins_header);
    const auto* segment = reinterpret_cast<const ElfW(Phdr)*>(base + wilkins_header.e_phoff);
    size_t size = 0;
    for (int i = 0; i < wilkins_header.e_phnum; ++i)
        if (segment[i].p_type == PT_LOAD) size = std::max<size_t>(size, segment[i].p_vaddr + segment[i].p_memsz);
    return size;
}

}  // namespace

bool is_ours(const void* address) {
    static std::atomic<size_t> size{0};
    size_t known = size.load(std::memory_order_relaxed);
    if (known == 0) size.store(known = measure_library(), std::memory_order_relaxed);
    const auto* base = reinterpret_cast<const char*>(&wilkins_header);
    return address >= base && address < base + known;
}

Scope::Scope(const void* caller) {
    Dl_info info;
    struct link_map* map = nullptr;
    if (!caller || !dladdr1(caller, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) || !map) return;
    // The program itself has an empty name; its own scope is the global one.
    if (map->l_name && map->l_name[0]) library_ = dlopen(map->l_name, RTLD_NOLOAD | RTLD_LAZY);
}

Scope::~Scope() {
    if (library_) dlclose(library_);
}

void* Scope::find(const char* name) const {
    void* found = library_ ? dlsym(library_, name) : nullptr;
    if (found && is_ours(found)) found = nullptr;
    if (!found) found = dlsym(RTLD_NEXT, name);
    return found && is_ours(found) ? nullptr : found;
}

void* resolve_libc(const char* name) { return dlsym(RTLD_NEXT, name); }

}  // namespace wilkins
