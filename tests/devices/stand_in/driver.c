/* Initialisation, devices, contexts, words for errors, and what the parts share. */
#include "stand_in.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
int ready;
_Thread_local CUcontext stack[kDepth];
_Thread_local int depth;
_Atomic uint64_t host_bytes, pageable_bytes, device_bytes, registrations, allocations, frees, opened_handles;
static int devices, visible[kMostDevices];
static struct Context contexts[kMostDevices];

void undefined(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("stand-in for CUDA: undefined behaviour: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

CUresult planned(const char* call) {
    const char* at = getenv("STAND_IN_FAIL");
    const size_t length = strlen(call);
    while (at && *at) {
        if (!strncmp(at, call, length) && at[length] == '=') return atoi(at + length + 1);
        at = strchr(at, ',');
        if (at) ++at;
    }
    return OK;
}

void make_name(char* name, const char* kind) {
    uint64_t number;
    if (getrandom(&number, sizeof(number), 0) != sizeof(number)) abort();
    const char* run = getenv("STAND_IN_RUN");
    snprintf(name, kName, "/stand-in-%.16s-%s-%016llx", run ? run : "alone", kind, (unsigned long long)number);
}

void* map_shared(const char* name, size_t size, int create) {
    const int fd = shm_open(name, O_RDWR | (create ? O_CREAT | O_EXCL : 0), 0600);
    if (fd < 0) return NULL;
    void* at = create && ftruncate(fd, (off_t)size) != 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}

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

CUresult cuGetErrorName(CUresult error, const char** name) {
    static _Thread_local char text[32];
    snprintf(text, sizeof(text), "CUDA_ERROR_%d", error);
    return *name = text, OK;
}

CUresult cuGetErrorString(CUresult error, const char** text) { return *text = error == NO_DEVICE ? "no CUDA-capable device is detected" : "as the stand-in was told, or misuse", OK; }

/* For tests: what was done so far. */
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

__attribute__((destructor)) static void end(void) {
    forget_events();
    forget_memories();
}
