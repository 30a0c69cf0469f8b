// Tells whether the process has loaded a shared HDF5, by the symbol tables of what it has loaded.
#include <elf.h>

#include <atomic>
#include <cstring>

#include "base/loaded.hpp"
#include "base/resolve.hpp"
#include "posix/names.hpp"

namespace wilkins::posix {
namespace {

struct Tables {
    const ElfW(Sym) * symbols = nullptr;
    const char* strings = nullptr;
    const uint32_t* gnu_hash = nullptr;
};

Tables tables_of(const dl_phdr_info& info) {
    Tables tables;
    for (int i = 0; i < info.dlpi_phnum; ++i) {
        if (info.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
        auto* entry = reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
        for (; entry->d_tag != DT_NULL; ++entry) {
            // The loader has turned these into addresses on most machines; where it has not, they are offsets.
            const auto value = entry->d_un.d_ptr;
            const auto address = value < info.dlpi_addr ? value + info.dlpi_addr : value;
            if (entry->d_tag == DT_SYMTAB) tables.symbols = reinterpret_cast<const ElfW(Sym)*>(address);
            if (entry->d_tag == DT_STRTAB) tables.strings = reinterpret_cast<const char*>(address);
            if (entry->d_tag == DT_GNU_HASH) tables.gnu_hash = reinterpret_cast<const uint32_t*>(address);
        }
    }
    return tables;
}

// Look-up in a DT_GNU_HASH table: header, Bloom filter, buckets, chains.
bool defines(const Tables& tables, const char* name) {
    if (!tables.symbols || !tables.strings || !tables.gnu_hash) return false;
    uint32_t hash = 5381;
    for (const char* at = name; *at; ++at) hash = hash * 33 + static_cast<unsigned char>(*at);
    const uint32_t buckets = tables.gnu_hash[0];
    const uint32_t first = tables.gnu_hash[1];
    const uint32_t words = tables.gnu_hash[2];
    if (buckets == 0) return false;
    const uint32_t* bucket = tables.gnu_hash + 4 + words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t* chain = bucket + buckets;
    uint32_t index = bucket[hash % buckets];
    if (index < first) return false;
    for (;; ++index) {
        const uint32_t entry = chain[index - first];
        const ElfW(Sym) & symbol = tables.symbols[index];
        if ((entry | 1) == (hash | 1) && symbol.st_shndx != SHN_UNDEF &&
            strcmp(tables.strings + symbol.st_name, name) == 0)
            return true;
        if (entry & 1) return false;
    }
}

struct Search {
    uint64_t known_loads;
    uint64_t loads = 0;
    bool first = true;
    bool unchanged = false;
    bool found = false;
};

int look(dl_phdr_info* info, size_t, void* user) {
    auto* search = static_cast<Search*>(user);
    search->loads = info->dlpi_adds;
    if (search->loads == search->known_loads) {
        search->unchanged = true;
        return 1;
    }
    const bool executable = search->first;  // HDF5 inside the executable is a static one
    search->first = false;
    const bool ours = is_ours(tables_of(*info).symbols);
    if (!executable && !ours && defines(tables_of(*info), "H5Fopen")) search->found = true;
    return search->found;
}

}  // namespace

bool has_shared_hdf5() {
    static std::atomic<uint64_t> known_loads{0};
    static std::atomic<bool> known{false};
    if (known) return true;
    Search search{known_loads};
    each_loaded(look, &search);
    if (search.unchanged) return known;
    if (search.found) known = true;
    known_loads = search.loads;
    return search.found;
}

bool has_several_hdf5() {
    static std::atomic<uint64_t> known_loads{0};
    static std::atomic<bool> several{false};
    struct Count {
        uint64_t loads = 0;
        int found = 0;
    } count;
    const auto each = [](dl_phdr_info* info, size_t, void* user) {
        auto* counted = static_cast<Count*>(user);
        counted->loads = info->dlpi_adds;
        if (counted->loads == known_loads) return 1;
        const Tables tables = tables_of(*info);
        if (!is_ours(tables.symbols) && defines(tables, "H5Fopen")) ++counted->found;
        return 0;
    };
    each_loaded(each, &count);
    if (count.loads != known_loads) {
        several = count.found > 1;
        known_loads = count.loads;
    }
    return several;
}

}  // namespace wilkins::posix
