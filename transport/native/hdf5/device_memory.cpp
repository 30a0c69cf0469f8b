// The process's own CUDA driver, found without loading it, and copies by it. Not run on a GPU: see docs/guides/gpus.md.
#include "hdf5/device_memory.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "base/loaded.hpp"

namespace wilkins {

namespace {

using Context = void*;

// Names, types and constants of cuda.h.
struct Driver {
    int (*get_attribute)(void*, int, uint64_t);
    int (*get_current)(Context*);
    int (*retain)(Context*, int);
    int (*push)(Context);
    int (*pop)(Context*);
    int (*synchronize)();
    int (*to_host)(void*, uint64_t, size_t);
    int (*to_device)(uint64_t, const void*, size_t);
    int (*allocate_host)(void**, size_t, unsigned);
};
constexpr int kContext = 1, kMemoryType = 2, kIsManaged = 8, kOrdinal = 9;
constexpr unsigned kDevice = 2, kPortable = 1;

std::atomic<const Driver*> found{nullptr};
std::atomic<unsigned long long> seen{0};  // libraries that this process had loaded, when it was last looked through

int count_loads(dl_phdr_info* info, size_t, void* loads) {
    *static_cast<unsigned long long*>(loads) = info->dlpi_adds;
    return 1;
}

int is_driver(dl_phdr_info* info, size_t, void*) {
    return info->dlpi_name && strstr(info->dlpi_name, "/libcuda.so") ? 1 : 0;
}

template <class F>
bool look_up(void* library, F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(library, name));
    return function != nullptr;
}

// nullptr: the driver's library lacks something.
const Driver* load() {
    auto made = std::make_unique<Driver>();
    Driver& driver = *made;
    void* library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    const bool whole =
        library && look_up(library, driver.get_attribute, "cuPointerGetAttribute") &&
        look_up(library, driver.get_current, "cuCtxGetCurrent") &&
        look_up(library, driver.retain, "cuDevicePrimaryCtxRetain") &&
        look_up(library, driver.push, "cuCtxPushCurrent_v2") && look_up(library, driver.pop, "cuCtxPopCurrent_v2") &&
        look_up(library, driver.synchronize, "cuCtxSynchronize") &&
        look_up(library, driver.to_host, "cuMemcpyDtoH_v2") && look_up(library, driver.to_device, "cuMemcpyHtoD_v2") &&
        look_up(library, driver.allocate_host, "cuMemHostAlloc");
    return whole ? made.release() : nullptr;
}

// Looks again only when the process has loaded something since.
bool present() {
    if (found.load(std::memory_order_acquire) != nullptr) return true;
    unsigned long long loads = 0;
    each_loaded(count_loads, &loads);
    if (loads == seen.load(std::memory_order_relaxed)) return false;
    if (each_loaded(is_driver, nullptr)) {
        const Driver* none = nullptr;
        const Driver* const made = load();
        if (!found.compare_exchange_strong(none, made, std::memory_order_acq_rel))
            delete made;  // another thread's is in use
    }
    seen.store(loads, std::memory_order_relaxed);
    return found.load() != nullptr;
}

uintptr_t address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

// The end of the program, behind which its heap comes, and that of the stack that it began on.
uintptr_t program_end = UINTPTR_MAX, stack_end = 0;

int note_end(dl_phdr_info* program, size_t, void*) {
    uintptr_t end = 0;
    for (int k = 0; k < program->dlpi_phnum; ++k) {
        const auto& part = program->dlpi_phdr[k];
        const uintptr_t its_end = program->dlpi_addr + part.p_vaddr + part.p_memsz;
        if (part.p_type == PT_LOAD && its_end > end) end = its_end;
    }
    // The kernel leaves up to a gigabyte; a program that was started through the loader by name has its heap elsewhere.
    constexpr uintptr_t most_gap = 1ull << 31;
    if (end && address(sbrk(0)) - end < most_gap) program_end = end;
    return 1;  // the first one is the program
}

__attribute__((constructor)) void note_begin(int, char** arguments, char**) {
    each_loaded(note_end, nullptr);
    stack_end = address(arguments);
}

// True if it is on the first thread's stack, or in the heap whose end `brk` moves. No driver gives memory there, and
// most small buffers are: for them nothing has to be asked.
bool is_surely_host(const void* pointer) {
    constexpr uintptr_t least_gap = 64u << 20;  // Linux leaves twice that below the stack before other mappings come
    const uintptr_t at = address(pointer), here = address(__builtin_frame_address(0));
    return (at >= here && at < stack_end && stack_end - here < least_gap) ||
           (at >= program_end && at < address(sbrk(0)));
}

// Call where it is present.
const Driver& driver() { return *found.load(std::memory_order_acquire); }

uint64_t number(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

// The context whose memory it is; memory of no single context (of CUDA's pools, say) is any context's of its device.
Context context_of(const void* pointer) {
    Context context = nullptr;
    if (driver().get_attribute(&context, kContext, number(pointer)) == 0 && context) return context;
    if (driver().get_current(&context) == 0 && context) return context;
    int ordinal = 0;
    if (driver().get_attribute(&ordinal, kOrdinal, number(pointer)) != 0 || driver().retain(&context, ordinal) != 0)
        return nullptr;
    return context;
}

template <class F>
int in_context_of(const void* pointer, F copy) {
    constexpr int invalid_context = 201;
    Context context = context_of(pointer), before;
    if (!context) return invalid_context;
    if (const int error = driver().push(context)) return error;
    int error = driver().synchronize();
    if (!error) error = copy();
    driver().pop(&before);
    return error;
}

std::mutex staging_mutex;
unsigned char* staging = nullptr;

}  // namespace

bool DeviceMemory::holds(const void* pointer) {
    if (!pointer || is_surely_host(pointer) || !present()) return false;
    unsigned type = 0, managed = 0;
    if (driver().get_attribute(&type, kMemoryType, number(pointer)) != 0 || type != kDevice) return false;
    return driver().get_attribute(&managed, kIsManaged, number(pointer)) != 0 || !managed;
}

int DeviceMemory::to_host(void* host, const void* device, size_t bytes) {
    return in_context_of(device, [=] { return driver().to_host(host, number(device), bytes); });
}

int DeviceMemory::to_device(void* device, const void* host, size_t bytes) {
    return in_context_of(device, [=] {
        const int error = driver().to_device(number(device), host, bytes);
        return error ? error : driver().synchronize();
    });
}

Staging::Staging(size_t bytes, const void* device) {
    if (bytes <= kPiece && staging_mutex.try_lock()) {
        kept_ = true;
        if (!staging) {
            void* pinned = nullptr;
            const int error = in_context_of(device, [&] { return driver().allocate_host(&pinned, kPiece, kPortable); });
            staging = static_cast<unsigned char*>(error ? malloc(kPiece) : pinned);
        }
        bytes_ = staging;
        return;
    }
    bytes_ = static_cast<unsigned char*>(malloc(bytes));
}

Staging::~Staging() {
    if (kept_) staging_mutex.unlock();
    else free(bytes_);
}

}  // namespace wilkins
