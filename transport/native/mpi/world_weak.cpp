// Takes our names back from weak references to MPI functions that the program's MPI does not have.
//
// mpi4py and others ask whether their MPI has a newer function by a weak reference, null if it is missing. Since this
// library defines all functions that take a communicator, all would seem to be there. So when a library first calls an
// MPI function through us, its weak references that lead to us and to nothing behind us are made null.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <mutex>

#include "mpi/world_state.hpp"

namespace wilkins {
namespace {

struct Table {
    const ElfW(Rela) * entries = nullptr;
    size_t bytes = 0;
};

// The dynamic section of one loaded library, as far as it is needed here.
struct Library {
    ElfW(Addr) base = 0;
    const ElfW(Sym) * symbols = nullptr;
    const char* names = nullptr;
    std::array<Table, 2> tables;  // data and procedure-linkage relocations
};

struct Relro {
    const ElfW(Dyn) * dynamic;
    uintptr_t first = 0, last = 0;
};

Library describe(const link_map* map) {
    Library library;
    library.base = map->l_addr;
    for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
        const auto value = entry->d_un.d_val;
        const auto* rela = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr);
        switch (entry->d_tag) {
            case DT_SYMTAB: library.symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr); break;
            case DT_STRTAB: library.names = reinterpret_cast<const char*>(entry->d_un.d_ptr); break;
            case DT_RELA: library.tables[0].entries = rela; break;
            case DT_RELASZ: library.tables[0].bytes = value; break;
            case DT_JMPREL: library.tables[1].entries = rela; break;
            case DT_PLTRELSZ: library.tables[1].bytes = value; break;
            default: break;
        }
    }
    return library;
}

// Pages that the loader made read-only after relocation.
Relro relro_of(const link_map* map) {
    Relro relro{map->l_ld};
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* data) {
            auto* wanted = static_cast<Relro*>(data);
            const ElfW(Phdr)* found = nullptr;
            bool right = false;
            for (int i = 0; i < info->dlpi_phnum; ++i) {
                const ElfW(Phdr) & header = info->dlpi_phdr[i];
                if (header.p_type == PT_GNU_RELRO) found = &header;
                if (header.p_type == PT_DYNAMIC) {
                    right = reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + header.p_vaddr) == wanted->dynamic;
                }
            }
            if (!right) return 0;
            if (found) {
                const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
                wanted->first = (info->dlpi_addr + found->p_vaddr) & ~(page - 1);
                wanted->last = (info->dlpi_addr + found->p_vaddr + found->p_memsz) & ~(page - 1);
            }
            return 1;
        },
        &relro);
    return relro;
}

void clear(void** slot, const Relro& relro) {
    const auto address = reinterpret_cast<uintptr_t>(slot);
    const bool locked = address >= relro.first && address < relro.last;
    auto* pages = reinterpret_cast<void*>(relro.first);
    const size_t length = relro.last - relro.first;
    if (locked && mprotect(pages, length, PROT_READ | PROT_WRITE) != 0) return;
    *slot = nullptr;
    if (locked) mprotect(pages, length, PROT_READ);
}

void release(const link_map* map, const void* caller) {
    const Library library = describe(map);
    if (!library.symbols || !library.names) return;
    const Relro relro = relro_of(map);
    for (const Table& table : library.tables) {
        if (!table.entries) continue;
        for (size_t i = 0; i < table.bytes / sizeof(ElfW(Rela)); ++i) {
            const ElfW(Rela) & entry = table.entries[i];
            const auto index = static_cast<size_t>(sizeof(void*) == 8 ? entry.r_info >> 32 : entry.r_info >> 8);
            const ElfW(Sym) & symbol = library.symbols[index];
            if (index == 0 || symbol.st_shndx != SHN_UNDEF || symbol.st_info >> 4 != STB_WEAK) continue;
            const char* name = library.names + symbol.st_name;
            if (strncmp(name, "MPI", 3) != 0 && strncmp(name, "PMPI", 4) != 0) continue;
            auto** slot = reinterpret_cast<void**>(library.base + entry.r_offset);
            if (*slot && is_ours(*slot) && !resolve(name, caller)) clear(slot, relro);
        }
    }
}

}  // namespace

void release_weak_references(const void* caller) {
    static std::mutex mutex;
    static std::array<const link_map*, 64> done{};
    Dl_info info;
    link_map* map = nullptr;
    if (!dladdr1(caller, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) || !map) return;
    const std::lock_guard<std::mutex> lock(mutex);
    for (const link_map*& known : done) {
        if (known == map) return;
        if (known) continue;
        known = map;
        release(map, caller);
        return;
    }
}

}  // namespace wilkins
