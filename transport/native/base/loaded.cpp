// Asks the loader, one thread at a time.
#include "base/loaded.hpp"

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "base/held_at_forks.hpp"

namespace wilkins {

namespace {

std::mutex loader_mutex;
HeldAtForks held_at_forks(loader_mutex);

struct Search {
    const void* address;
    Loaded found;
};

int look(dl_phdr_info* info, size_t, void* user) {
    auto* const search = static_cast<Search*>(user);
    Loaded one = {UINTPTR_MAX, 0, info->dlpi_name};
    for (int k = 0; k < info->dlpi_phnum; ++k) {
        const auto& part = info->dlpi_phdr[k];
        if (part.p_type != PT_LOAD) continue;
        const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
        one.begin = std::min(one.begin, begin);
        one.end = std::max(one.end, begin + part.p_memsz);
    }
    if (!one.holds(search->address)) return 0;
    search->found = one;
    return 1;
}

}  // namespace

int each_loaded(int (*look)(dl_phdr_info*, size_t, void*), void* user) {
    const std::lock_guard<std::mutex> guard(loader_mutex);
    return dl_iterate_phdr(look, user);
}

Loaded loaded_at(const void* address) {
    Search search{address, {}};
    each_loaded(look, &search);
    return search.found;
}

}  // namespace wilkins
