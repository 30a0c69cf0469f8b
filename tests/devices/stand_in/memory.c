/* Device memory, also that of other processes; registered host memory; copies. */
#include "stand_in.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

static const uint64_t kMemoryMagic = 0x57494c4b4d454d31;
static struct Memory memories[kMost];
static struct Host hosts[kMost];

/* The entry that holds [address, address + size), or NULL. */
static struct Memory* memory_at(CUdeviceptr address, size_t size) {
    for (int k = 0; k < kMost; ++k)
        if (memories[k].used && address >= memories[k].address && address + size <= memories[k].address + memories[k].size)
            return &memories[k];
    return NULL;
}

static struct Host* host_at(const void* pointer, size_t size) {
    const unsigned char* address = pointer;
    for (int k = 0; k < kMost; ++k)
        if (hosts[k].used && address >= hosts[k].address && address + size <= hosts[k].address + hosts[k].size) return &hosts[k];
    return NULL;
}

static int overlaps_registered(const unsigned char* address, size_t size) {
    for (int k = 0; k < kMost; ++k)
        if (hosts[k].used && address < hosts[k].address + hosts[k].size && hosts[k].address < address + size) return 1;
    return 0;
}

static struct Memory* keep_memory(struct Memory memory) {
    pthread_mutex_lock(&mutex);
    struct Memory* found = NULL;
    for (int k = 0; !found && k < kMost; ++k)
        if (!memories[k].used) found = &memories[k];
    if (found) *found = memory, found->used = 1;
    pthread_mutex_unlock(&mutex);
    return found;
}

/* A guard page behind the memory lets a write past its end crash. */
static int map_memory(struct Memory* memory, int create) {
    const size_t whole = (memory->size + kPage - 1) / kPage * kPage;
    memory->head = map_shared(memory->name, kPage + whole, create);
    if (!memory->head) return 0;
    memory->bytes = (unsigned char*)memory->head + kPage;
    void* closed = mmap(NULL, whole + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    memory->address = (CUdeviceptr)closed;
    return closed != MAP_FAILED;
}

static void unmap_memory(struct Memory* memory) {
    const size_t whole = (memory->size + kPage - 1) / kPage * kPage;
    munmap((void*)memory->address, whole + kPage);
    munmap(memory->head, kPage + whole);
    memory->used = 0;
}

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t size) {
    BEGIN_IN_CONTEXT;
    if (!size) return INVALID_VALUE;
    struct Memory memory = {.size = size, .context = CURRENT};
    make_name(memory.name, "memory");
    if (!map_memory(&memory, 1)) return OUT_OF_MEMORY;
    *memory.head = (struct Head){.magic = kMemoryMagic, .size = size, .physical = CURRENT->physical, .owner = getpid()};
    memset(memory.bytes, 0xa5, size);
    atomic_fetch_add(&allocations, 1);
    return *address = memory.address, keep_memory(memory) ? OK : OUT_OF_MEMORY;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
    BEGIN_IN_CONTEXT;
    cuCtxSynchronize();
    pthread_mutex_lock(&mutex);
    struct Memory* memory = memory_at(address, 1);
    if (!memory || memory->address != address || memory->imported) undefined("freed what is no allocation, or not of this process");
    if (atomic_load(&memory->head->opened) > 0) undefined("freed memory that another process has open");
    atomic_store(&memory->head->freed, 1);
    shm_unlink(memory->name);
    unmap_memory(memory);
    pthread_mutex_unlock(&mutex);
    atomic_fetch_add(&frees, 1);
    return OK;
}

CUresult cuPointerGetAttribute(void* data, int attribute, CUdeviceptr address) {
    BEGIN;
    pthread_mutex_lock(&mutex);
    const struct Memory* memory = memory_at(address, 1);
    const struct Host* host = host_at((void*)address, 1);
    const int device = memory ? memory->context->device : 0;
    void* context = memory ? memory->context : NULL;
    pthread_mutex_unlock(&mutex);
    if (!memory && !host) return INVALID_VALUE;
    if (attribute == 2) *(unsigned*)data = memory ? 2 : 1;
    else if (attribute == 8) *(unsigned*)data = 0;
    else if (attribute == 9) *(int*)data = device;
    else if (attribute == 1 && memory) *(void**)data = context;
    else return INVALID_VALUE;
    return OK;
}

/* Registered host memory */

static int writable(const void* address) {
    FILE* maps = fopen("/proc/self/maps", "r");
    unsigned long first, last;
    char rights[8], line[4096];
    int found = 0;
    while (maps && fgets(line, sizeof(line), maps))
        if (sscanf(line, "%lx-%lx %7s", &first, &last, rights) == 3 && (unsigned long)address >= first && (unsigned long)address < last)
            found = rights[1] == 'w';
    if (maps) fclose(maps);
    return found;
}

/* Every page must be there: not behind the end of a mapped file. */
static int readable(const unsigned char* address, size_t size) {
    for (size_t at = 0; at < size; at += kPage) {
        char byte;
        struct iovec to = {&byte, 1}, from = {(void*)(address + at), 1};
        if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != 1) return 0;
    }
    return 1;
}

CUresult cuMemHostRegister_v2(void* address, size_t size, unsigned flags) {
    BEGIN_IN_CONTEXT;
    if (!size) return INVALID_VALUE;
    if (!(flags & 8) && !writable(address)) return INVALID_VALUE;
    if (!readable(address, size)) return INVALID_VALUE;
    CUresult result = OUT_OF_MEMORY;
    pthread_mutex_lock(&mutex);
    if (overlaps_registered(address, size)) {
        result = ALREADY_REGISTERED;
    } else {
        for (int k = 0; result && k < kMost; ++k)
            if (!hosts[k].used) hosts[k] = (struct Host){1, address, size, (flags & 8) != 0}, result = OK;
    }
    pthread_mutex_unlock(&mutex);
    if (!result) atomic_fetch_add(&registrations, 1);
    return result;
}

CUresult cuMemHostUnregister(void* address) {
    BEGIN_IN_CONTEXT;
    cuCtxSynchronize();
    CUresult result = NOT_REGISTERED;
    pthread_mutex_lock(&mutex);
    for (int k = 0; k < kMost; ++k)
        if (hosts[k].used && hosts[k].address == address) hosts[k].used = 0, result = OK;
    pthread_mutex_unlock(&mutex);
    return result;
}

CUresult cuMemHostAlloc(void** out, size_t size, unsigned flags) {
    BEGIN_IN_CONTEXT;
    (void)flags;
    void* at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) return OUT_OF_MEMORY;
    const CUresult result = cuMemHostRegister_v2(at, size, 0);
    return *out = at, result;
}

CUresult cuMemFreeHost(void* address) {
    BEGIN_IN_CONTEXT;
    return cuMemHostUnregister(address);
}

/* Copies */

static unsigned char* device_bytes_at(CUdeviceptr address, size_t size) {
    pthread_mutex_lock(&mutex);
    struct Memory* memory = memory_at(address, size ? size : 1);
    unsigned char* bytes = memory ? memory->bytes + (address - memory->address) : NULL;
    if (memory && memory->imported && atomic_load(&memory->head->freed)) undefined("used memory that its process has freed");
    if (memory && memory->context != CURRENT) undefined("used memory of another device than the current context's");
    pthread_mutex_unlock(&mutex);
    return bytes;
}

/* Pageable memory is copied before the call returns; registered memory when the stream comes to it. */
static CUresult host_copy(void* to, const void* from, const void* host, size_t size, CUstream stream) {
    pthread_mutex_lock(&mutex);
    const int registered = host_at(host, size ? size : 1) != NULL;
    const int partly = !registered && overlaps_registered(host, size);
    pthread_mutex_unlock(&mutex);
    if (partly) return INVALID_VALUE;
    stream = stream_of(stream);
    if (stream->context != CURRENT) return INVALID_HANDLE;
    atomic_fetch_add(&host_bytes, size);
    if (!registered) atomic_fetch_add(&pageable_bytes, size);
    const uint64_t number = put(stream, (struct Operation){.what = COPY, .to = to, .from = from, .size = size});
    if (!registered) wait_for(stream, number);
    return OK;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t size, CUstream stream) {
    BEGIN_IN_CONTEXT;
    unsigned char* bytes = device_bytes_at(to, size);
    return bytes ? host_copy(bytes, from, from, size, stream) : INVALID_VALUE;
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t size, CUstream stream) {
    BEGIN_IN_CONTEXT;
    const unsigned char* bytes = device_bytes_at(from, size);
    return bytes ? host_copy(to, bytes, to, size, stream) : INVALID_VALUE;
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
    BEGIN_IN_CONTEXT;
    unsigned char* target = device_bytes_at(to, size);
    const unsigned char* source = device_bytes_at(from, size);
    if (!target || !source) return INVALID_VALUE;
    stream = stream_of(stream);
    if (stream->context != CURRENT) return INVALID_HANDLE;
    atomic_fetch_add(&device_bytes, size);
    put(stream, (struct Operation){.what = COPY, .to = target, .from = source, .size = size});
    return OK;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t size) {
    const CUresult result = cuMemcpyHtoDAsync_v2(to, from, size, NULL);
    return result ? result : cuStreamSynchronize(NULL);
}

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t size) {
    const CUresult result = cuMemcpyDtoHAsync_v2(to, from, size, NULL);
    return result ? result : cuStreamSynchronize(NULL);
}

/* Between processes */

CUresult cuIpcGetMemHandle(Handle* handle, CUdeviceptr address) {
    BEGIN;
    pthread_mutex_lock(&mutex);
    const struct Memory* memory = memory_at(address, 1);
    memset(handle, 0, sizeof(*handle));
    if (memory) memcpy(handle->data, memory->name, sizeof(memory->name));
    pthread_mutex_unlock(&mutex);
    return memory ? OK : INVALID_VALUE;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, Handle handle, unsigned flags) {
    BEGIN_IN_CONTEXT;
    if (flags != 1) return INVALID_VALUE;
    struct Memory memory = {.context = CURRENT, .imported = 1, .opens = 1};
    memcpy(memory.name, handle.data, sizeof(memory.name));
    struct Head* head = map_shared(memory.name, kPage, 0);
    if (!head || head->magic != kMemoryMagic) return INVALID_VALUE;
    if (head->owner == getpid()) return INVALID_CONTEXT;
    if (head->physical != CURRENT->physical) return INVALID_DEVICE; /* peers are not played */
    memory.size = head->size;
    munmap(head, kPage);
    if (!map_memory(&memory, 0)) return OUT_OF_MEMORY;
    atomic_fetch_add(&memory.head->opened, 1);
    atomic_fetch_add(&opened_handles, 1);
    return *address = memory.address, keep_memory(memory) ? OK : OUT_OF_MEMORY;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
    BEGIN_IN_CONTEXT;
    cuCtxSynchronize();
    pthread_mutex_lock(&mutex);
    struct Memory* memory = memory_at(address, 1);
    if (!memory || !memory->imported || memory->address != address) undefined("closed what is not another process's memory");
    atomic_fetch_sub(&memory->head->opened, 1);
    unmap_memory(memory);
    pthread_mutex_unlock(&mutex);
    return OK;
}

/* For tests */

/* Fills device memory, or reads it, at once and uncounted: what a kernel would do. */
int stand_in_poke(CUdeviceptr address, const void* from, size_t size) {
    pthread_mutex_lock(&mutex);
    struct Memory* memory = memory_at(address, size);
    if (memory) memcpy(memory->bytes + (address - memory->address), from, size);
    pthread_mutex_unlock(&mutex);
    return memory != NULL;
}

int stand_in_peek(void* to, CUdeviceptr address, size_t size) {
    pthread_mutex_lock(&mutex);
    struct Memory* memory = memory_at(address, size);
    if (memory) memcpy(to, memory->bytes + (address - memory->address), size);
    pthread_mutex_unlock(&mutex);
    return memory != NULL;
}

/* Its memory lives on where others have it open. */
void forget_memories(void) {
    for (int k = 0; k < kMost; ++k)
        if (memories[k].used && !memories[k].imported && memories[k].head->owner == getpid()) shm_unlink(memories[k].name);
        else if (memories[k].used && memories[k].imported) atomic_fetch_sub(&memories[k].head->opened, 1);
}
