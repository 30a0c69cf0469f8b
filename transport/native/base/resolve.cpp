// Finds the function behind ours, from where the caller stands.
#include "base/resolve.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

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

// Before glibc 2.33, its headers made calls of these with a version out of those without.
#if defined(__x86_64__) || defined(__s390x__) || defined(__powerpc64__)
constexpr int kStatVersion = 1;
#else
constexpr int kStatVersion = 0;
#endif
using Xstat = int(int, const char*, struct stat*);
using Fxstat = int(int, int, struct stat*);
using Fxstatat = int(int, int, const char*, struct stat*, int);

template <class Signature, class... Arguments>
int with_version(const char* name, Arguments... arguments) {
    if (auto* found = reinterpret_cast<Signature*>(dlsym(RTLD_NEXT, name))) return found(kStatVersion, arguments...);
    errno = ENOSYS;
    return -1;
}

int older_stat(const char* path, struct stat* st) { return with_version<Xstat>("__xstat", path, st); }
int older_lstat(const char* path, struct stat* st) { return with_version<Xstat>("__lxstat", path, st); }
int older_fstat(int fd, struct stat* st) { return with_version<Fxstat>("__fxstat", fd, st); }
int older_fstatat(int dirfd, const char* path, struct stat* st, int flags) {
    return with_version<Fxstatat>("__fxstatat", dirfd, path, st, flags);
}
int older_close_range(unsigned first, unsigned last, int flags) {
    return static_cast<int>(syscall(SYS_close_range, first, last, flags));
}

// What stands in for a function that older C libraries do not have.
void* older(const char* name) {
    static const struct {
        const char* name;
        void* function;
    } kOlder[] = {
        {"stat", reinterpret_cast<void*>(older_stat)},
        {"lstat", reinterpret_cast<void*>(older_lstat)},
        {"fstat", reinterpret_cast<void*>(older_fstat)},
        {"fstatat", reinterpret_cast<void*>(older_fstatat)},
        {"close_range", reinterpret_cast<void*>(older_close_range)},
    };
    for (const auto& one : kOlder)
        if (std::strcmp(one.name, name) == 0) return one.function;
    return nullptr;
}

// The newest of several functions of one name. Before glibc 2.36, dlsym found the oldest one behind a library.
void* newest(const char* name) {
    static const struct {
        const char *name, *version;
    } kVersions[] = {
        {"glob", "GLIBC_2.27"},        {"lio_listio", "GLIBC_2.4"},    {"nftw", "GLIBC_2.3.3"},
        {"posix_spawn", "GLIBC_2.15"}, {"posix_spawnp", "GLIBC_2.15"}, {"realpath", "GLIBC_2.3"},
    };
    for (const auto& one : kVersions)
        if (std::strcmp(one.name, name) == 0) return dlvsym(RTLD_NEXT, name, one.version);
    return nullptr;
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

void* resolve_libc(const char* name) {
    if (void* found = newest(name)) return found;
    void* found = dlsym(RTLD_NEXT, name);
    return found ? found : older(name);
}

}  // namespace wilkins
