/* Stands in for libcuda.so.1 where there is no GPU: the calls that Wilkins uses, on host memory, so that misuse shows.

   Device memory is shared memory that is mapped twice: at the address that programs get, without any right of access, so that
   a host access to a device pointer crashes; and where only this file reads and writes it. A stream is a thread with a queue, and every
   operation on one comes late (STAND_IN_DELAY_US), so that work that is not ordered as it must be reads and writes too early or too late.
   What CUDA leaves undefined ends the process with a message. The environment:

   STAND_IN_DEVICES   number of devices (1)           CUDA_VISIBLE_DEVICES   which of them are seen, by number
   STAND_IN_DELAY_US  delay of every operation (500)  STAND_IN_FAIL          "cuMemHostRegister_v2=801,...": calls that fail, and how
   STAND_IN_RUN       part of all names in /dev/shm
*/
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct Context* CUcontext;
typedef struct Stream* CUstream;
typedef struct Event* CUevent;
typedef struct { unsigned char data[64]; } Handle;

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_CONTEXT = 201,
       OPERATING_SYSTEM = 304, INVALID_HANDLE = 400, NOT_READY = 600, ALREADY_REGISTERED = 712, NOT_REGISTERED = 713,
       NOT_SUPPORTED = 801 };
enum { kPage = 4096, kMostDevices = 8, kMost = 4096, kDepth = 16, kName = 64 };

struct Context { int device; int physical; _Atomic int retained; CUstream standard; };

/* In shared memory, since events cross processes; `opened` counts the other processes that have the memory open. */
struct Shared { _Atomic uint64_t recorded, completed; };
struct Head { uint64_t magic; uint64_t size; int physical; pid_t owner; _Atomic int opened; _Atomic int freed; };

struct Memory { int used; CUdeviceptr address; size_t size; unsigned char* bytes; struct Head* head; CUcontext context; int imported, opens;
                char name[kName]; };
struct Host { int used; unsigned char* address; size_t size; int read_only; };
struct Event { uint64_t magic; unsigned flags; struct Shared* shared; CUcontext context; int imported; char name[kName]; };

enum What { COPY, RECORD, WAIT };
struct Operation { enum What what; void* to; const void* from; size_t size; struct Shared* event; uint64_t version; struct Operation* next; };
struct Stream { uint64_t magic; CUcontext context; pthread_t thread; pthread_mutex_t mutex; pthread_cond_t changed; struct Operation *first, *last;
                uint64_t put, done; int closing; };

static const uint64_t kMemoryMagic = 0x57494c4b4d454d31, kStreamMagic = 0x57494c4b53545231, kEventMagic = 0x57494c4b45565431;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int ready, devices, visible[kMostDevices];
static struct Context contexts[kMostDevices];
static struct Memory memories[kMost];
static struct Host hosts[kMost];
static _Thread_local CUcontext stack[kDepth];
static _Thread_local int depth;
static char event_names[kMost][kName];
static _Atomic int named_events;
static _Atomic uint64_t host_bytes, pageable_bytes, device_bytes, registrations, allocations, frees, opened_handles;

static void undefined(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("stand-in for CUDA: undefined behaviour: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

/* What the environment says this call returns. */
static CUresult planned(const char* call) {
    const char* at = getenv("STAND_IN_FAIL");
    const size_t length = strlen(call);
    while (at && *at) {
        if (!strncmp(at, call, length) && at[length] == '=') return atoi(at + length + 1);
        at = strchr(at, ',');
        if (at) ++at;
    }
    return OK;
}

#define BEGIN                                              \
    do {                                                   \
        if (planned(__func__)) return planned(__func__);   \
        if (!ready) return NOT_INITIALIZED;                \
    } while (0)
#define BEGIN_IN_CONTEXT                   \
    BEGIN;                                 \
    if (!depth) return INVALID_CONTEXT
#define CURRENT (stack[depth - 1])

static void make_name(char* name, const char* kind) {
    uint64_t number;
    if (getrandom(&number, sizeof(number), 0) != sizeof(number)) abort();
    const char* run = getenv("STAND_IN_RUN");
    snprintf(name, kName, "/stand-in-%.16s-%s-%016llx", run ? run : "alone", kind, (unsigned long long)number);
}

static void* map_shared(const char* name, size_t size, int create) {
    const int fd = shm_open(name, O_RDWR | (create ? O_CREAT | O_EXCL : 0), 0600);
    if (fd < 0) return NULL;
    void* at = create && ftruncate(fd, (off_t)size) != 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}

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

/* Streams */

static void perform(struct Operation* operation) {
    const char* delay = getenv("STAND_IN_DELAY_US");
    usleep(delay ? (useconds_t)atoi(delay) : 500);
    if (operation->what == COPY) memcpy(operation->to, operation->from, operation->size);
    if (operation->what == RECORD && atomic_load(&operation->event->completed) < operation->version)
        atomic_store(&operation->event->completed, operation->version);
    while (operation->what == WAIT && atomic_load(&operation->event->completed) < operation->version) usleep(50);
}

static void* serve(void* argument) {
    struct Stream* stream = argument;
    pthread_mutex_lock(&stream->mutex);
    for (;;) {
        while (!stream->first && !stream->closing) pthread_cond_wait(&stream->changed, &stream->mutex);
        struct Operation* operation = stream->first;
        if (!operation) break;
        pthread_mutex_unlock(&stream->mutex);
        perform(operation);
        pthread_mutex_lock(&stream->mutex);
        stream->first = operation->next;
        if (!stream->first) stream->last = NULL;
        free(operation);
        ++stream->done;
        pthread_cond_broadcast(&stream->changed);
    }
    pthread_mutex_unlock(&stream->mutex);
    return NULL;
}

static CUstream make_stream(CUcontext context) {
    struct Stream* stream = calloc(1, sizeof(*stream));
    stream->magic = kStreamMagic;
    stream->context = context;
    pthread_mutex_init(&stream->mutex, NULL);
    pthread_cond_init(&stream->changed, NULL);
    pthread_create(&stream->thread, NULL, serve, stream);
    return stream;
}

/* The stream a handle means in the current context; 0, 1 and 2 are the standard ones. */
static CUstream stream_of(CUstream handle) {
    if ((uintptr_t)handle <= 2) {
        pthread_mutex_lock(&mutex);
        if (!CURRENT->standard) CURRENT->standard = make_stream(CURRENT);
        pthread_mutex_unlock(&mutex);
        return CURRENT->standard;
    }
    if (handle->magic != kStreamMagic) undefined("a stream that was destroyed, or never was one");
    return handle;
}

static uint64_t put(CUstream stream, struct Operation what) {
    struct Operation* operation = malloc(sizeof(*operation));
    *operation = what;
    operation->next = NULL;
    pthread_mutex_lock(&stream->mutex);
    if (stream->last) stream->last->next = operation;
    else stream->first = operation;
    stream->last = operation;
    const uint64_t number = ++stream->put;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->mutex);
    return number;
}

static void wait_for(CUstream stream, uint64_t number) {
    pthread_mutex_lock(&stream->mutex);
    while (stream->done < number) pthread_cond_wait(&stream->changed, &stream->mutex);
    pthread_mutex_unlock(&stream->mutex);
}

/* Initialisation, devices, contexts */

CUresult cuInit(unsigned flags) {
    if (planned(__func__)) return planned(__func__);
    if (flags) return INVALID_VALUE;
    pthread_mutex_lock(&mutex);
    if (!ready) {
        const char* text = getenv("STAND_IN_DEVICES");
        const int all = text ? atoi(text) : 1;
        const char* seen = getenv("CUDA_VISIBLE_DEVICES");
        if (seen) {
            while (*seen && devices < kMostDevices) {
                char* end;
                const long k = strtol(seen, &end, 10);
                if (end == seen || k < 0 || k >= all) break;
                visible[devices++] = (int)k;
                seen = *end == ',' ? end + 1 : end;
            }
        } else {
            for (; devices < all && devices < kMostDevices; ++devices) visible[devices] = devices;
        }
        ready = 1;
    }
    pthread_mutex_unlock(&mutex);
    return devices ? OK : NO_DEVICE;
}

CUresult cuDriverGetVersion(int* version) { return *version = 13000, planned(__func__); }

CUresult cuDeviceGetCount(int* count) {
    BEGIN;
    return *count = devices, OK;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    BEGIN;
    if (ordinal < 0 || ordinal >= devices) return INVALID_DEVICE;
    return *device = ordinal, OK;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
    BEGIN;
    snprintf(name, (size_t)length, "stand-in for a GPU, number %d", visible[device]);
    return OK;
}

CUresult cuDeviceGetUuid_v2(unsigned char* uuid, CUdevice device) {
    BEGIN;
    memset(uuid, 0x57, 16);
    uuid[15] = (unsigned char)visible[device];
    return OK;
}

CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice device) {
    BEGIN;
    (void)device;
    return *value = attribute == 99 || attribute == 113 || attribute == 125 || attribute == 41, OK;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
    BEGIN;
    if (device < 0 || device >= devices) return INVALID_DEVICE;
    contexts[device].device = device;
    contexts[device].physical = visible[device];
    atomic_fetch_add(&contexts[device].retained, 1);
    return *context = &contexts[device], OK;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    BEGIN;
    if (atomic_fetch_sub(&contexts[device].retained, 1) <= 0) undefined("a context released more often than retained");
    return OK;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
    BEGIN;
    if (!context || depth == kDepth || !context->retained) return INVALID_CONTEXT;
    stack[depth++] = context;
    return OK;
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
    BEGIN_IN_CONTEXT;
    if (context) *context = CURRENT;
    --depth;
    return OK;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
    BEGIN;
    return *context = depth ? CURRENT : NULL, OK;
}

static CUstream all_streams[kMost];

CUresult cuCtxSynchronize(void) {
    BEGIN_IN_CONTEXT;
    pthread_mutex_lock(&mutex);
    CUstream standard = CURRENT->standard;
    pthread_mutex_unlock(&mutex);
    if (standard) wait_for(standard, standard->put);
    for (int k = 0; k < kMost; ++k)
        if (all_streams[k] && all_streams[k]->context == CURRENT) wait_for(all_streams[k], all_streams[k]->put);
    return OK;
}

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
    BEGIN_IN_CONTEXT;
    (void)flags;
    *stream = make_stream(CURRENT);
    for (int k = 0; k < kMost; ++k) {
        CUstream none = NULL;
        if (__atomic_compare_exchange_n(&all_streams[k], &none, *stream, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) break;
    }
    return OK;
}

CUresult cuStreamDestroy_v2(CUstream stream) {
    BEGIN_IN_CONTEXT;
    if ((uintptr_t)stream <= 2) return INVALID_HANDLE;
    stream = stream_of(stream);
    for (int k = 0; k < kMost; ++k)
        if (all_streams[k] == stream) all_streams[k] = NULL;
    wait_for(stream, stream->put);
    pthread_mutex_lock(&stream->mutex);
    stream->closing = 1;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->mutex);
    pthread_join(stream->thread, NULL);
    stream->magic = 0; /* and never freed: its later use is to be seen */
    return OK;
}

CUresult cuStreamSynchronize(CUstream stream) {
    BEGIN_IN_CONTEXT;
    stream = stream_of(stream);
    return wait_for(stream, stream->put), OK;
}

CUresult cuStreamQuery(CUstream stream) {
    BEGIN_IN_CONTEXT;
    stream = stream_of(stream);
    pthread_mutex_lock(&stream->mutex);
    const int busy = stream->done < stream->put;
    pthread_mutex_unlock(&stream->mutex);
    return busy ? NOT_READY : OK;
}

/* Events */

static CUevent event_of(CUevent event) {
    if (!event || event->magic != kEventMagic) undefined("an event that was destroyed, or never was one");
    return event;
}

CUresult cuEventCreate(CUevent* out, unsigned flags) {
    BEGIN_IN_CONTEXT;
    if ((flags & 4) && !(flags & 2)) return INVALID_VALUE;
    struct Event* event = calloc(1, sizeof(*event));
    event->magic = kEventMagic;
    event->flags = flags;
    event->context = CURRENT;
    if (flags & 4) {
        make_name(event->name, "event");
        event->shared = map_shared(event->name, sizeof(struct Shared), 1);
        const int k = atomic_fetch_add(&named_events, 1);
        if (k < kMost) memcpy(event_names[k], event->name, kName);
    } else {
        event->shared = calloc(1, sizeof(struct Shared));
    }
    return *out = event, event->shared ? OK : OUT_OF_MEMORY;
}

CUresult cuEventDestroy_v2(CUevent event) {
    BEGIN_IN_CONTEXT;
    event_of(event)->magic = 0;
    if (event->name[0] && !event->imported) shm_unlink(event->name);
    return OK; /* what it shares stays: streams may still have to record it */
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    BEGIN_IN_CONTEXT;
    stream = stream_of(stream);
    if (event_of(event)->context != stream->context) return INVALID_HANDLE;
    const uint64_t version = atomic_fetch_add(&event->shared->recorded, 1) + 1;
    put(stream, (struct Operation){.what = RECORD, .event = event->shared, .version = version});
    return OK;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    BEGIN_IN_CONTEXT;
    (void)flags;
    stream = stream_of(stream);
    const uint64_t version = atomic_load(&event_of(event)->shared->recorded);
    if (!version) undefined("a stream waits for an event before it was recorded");
    put(stream, (struct Operation){.what = WAIT, .event = event->shared, .version = version});
    return OK;
}

CUresult cuEventQuery(CUevent event) {
    BEGIN_IN_CONTEXT;
    event_of(event);
    return atomic_load(&event->shared->completed) < atomic_load(&event->shared->recorded) ? NOT_READY : OK;
}

CUresult cuEventSynchronize(CUevent event) {
    BEGIN_IN_CONTEXT;
    const uint64_t version = atomic_load(&event_of(event)->shared->recorded);
    if (!version) undefined("the host waits for an event before it was recorded");
    while (atomic_load(&event->shared->completed) < version) usleep(50);
    return OK;
}

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent from, CUevent to) {
    BEGIN_IN_CONTEXT;
    event_of(from), event_of(to);
    return *milliseconds = 1, OK;
}

/* Device memory */

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

CUresult cuIpcGetEventHandle(Handle* handle, CUevent event) {
    BEGIN;
    if (!(event_of(event)->flags & 4)) return INVALID_VALUE;
    memset(handle, 0, sizeof(*handle));
    memcpy(handle->data, event->name, sizeof(event->name));
    return OK;
}

CUresult cuIpcOpenEventHandle(CUevent* out, Handle handle) {
    BEGIN_IN_CONTEXT;
    struct Event* event = calloc(1, sizeof(*event));
    *event = (struct Event){.magic = kEventMagic, .flags = 6, .context = CURRENT, .imported = 1};
    memcpy(event->name, handle.data, sizeof(event->name));
    event->shared = map_shared(event->name, sizeof(struct Shared), 0);
    if (!event->shared) return free(event), INVALID_VALUE;
    return *out = event, OK;
}

/* Words for errors */

CUresult cuGetErrorName(CUresult error, const char** name) {
    static _Thread_local char text[32];
    snprintf(text, sizeof(text), "CUDA_ERROR_%d", error);
    return *name = text, OK;
}

CUresult cuGetErrorString(CUresult error, const char** text) { return *text = error == NO_DEVICE ? "no CUDA-capable device is detected" : "as the stand-in was told, or misuse", OK; }

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

uint64_t stand_in_count(const char* what) {
    if (!strcmp(what, "host bytes")) return host_bytes;
    if (!strcmp(what, "pageable bytes")) return pageable_bytes;
    if (!strcmp(what, "device bytes")) return device_bytes;
    if (!strcmp(what, "registrations")) return registrations;
    if (!strcmp(what, "allocations")) return allocations;
    if (!strcmp(what, "frees")) return frees;
    if (!strcmp(what, "opened handles")) return opened_handles;
    undefined("nothing counts '%s'", what);
    return 0;
}

/* A process that ends takes its names along, as a driver would; its memory lives on where others have it open. */
__attribute__((destructor)) static void end(void) {
    for (int k = 0; k < named_events && k < kMost; ++k) shm_unlink(event_names[k]);
    for (int k = 0; k < kMost; ++k)
        if (memories[k].used && !memories[k].imported && memories[k].head->owner == getpid()) shm_unlink(memories[k].name);
        else if (memories[k].used && memories[k].imported) atomic_fetch_sub(&memories[k].head->opened, 1);
}
