// What the process has loaded. The loader's own mutex, which dladdr takes, would stay locked in a child that is forked
// while another thread asks.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

namespace wilkins {

// dl_iterate_phdr, and no fork meanwhile.
int each_loaded(int (*look)(dl_phdr_info*, size_t, void*), void* user);

// A library or the executable: its bytes, and its name ("" of the executable, nullptr if there is none).
struct Loaded {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    const char* name = nullptr;

    bool holds(const void* address) const {
        const auto at = reinterpret_cast<uintptr_t>(address);
        return at >= begin && at < end;
    }
};
Loaded loaded_at(const void* address);

}  // namespace wilkins
