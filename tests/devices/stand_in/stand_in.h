/* What stands in for libcuda.so.1 where there is no GPU: the calls that Wilkins uses, on host memory, so that misuse shows.

   Device memory is shared memory that is mapped twice: at the address that programs get, without any right of access, so that
   a host access to a device pointer crashes; and where only this file reads and writes it. A stream is a thread with a queue, and every
   operation on one comes late (STAND_IN_DELAY_US), so that work that is not ordered as it must be reads and writes too early or too late.
   What CUDA leaves undefined ends the process with a message. The environment:

   STAND_IN_DEVICES   number of devices (1)           CUDA_VISIBLE_DEVICES   which of them are seen, by number
   STAND_IN_DELAY_US  delay of every operation (500)  STAND_IN_FAIL          "cuMemHostRegister_v2=801,...": calls that fail, and how
   STAND_IN_RUN       part of all names in /dev/shm
*/
#define _GNU_SOURCE
#pragma once
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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

/* What the parts share; no program sees it. */
#pragma GCC visibility push(hidden)

extern pthread_mutex_t mutex;
extern int ready;
extern _Thread_local CUcontext stack[kDepth];
extern _Thread_local int depth;
extern _Atomic uint64_t host_bytes, pageable_bytes, device_bytes, registrations, allocations, frees, opened_handles;

void undefined(const char* format, ...);

/* What the environment says this call returns. */
CUresult planned(const char* call);

void make_name(char* name, const char* kind);
void* map_shared(const char* name, size_t size, int create);

/* The stream a handle means in the current context; 0, 1 and 2 are the standard ones. */
CUstream stream_of(CUstream handle);
uint64_t put(CUstream stream, struct Operation what);
void wait_for(CUstream stream, uint64_t number);

/* A process that ends takes its names along, as a driver would. */
void forget_events(void);
void forget_memories(void);

#pragma GCC visibility pop

CUresult cuCtxSynchronize(void);
CUresult cuStreamSynchronize(CUstream stream);

#define BEGIN                                              \
    do {                                                   \
        if (planned(__func__)) return planned(__func__);   \
        if (!ready) return NOT_INITIALIZED;                \
    } while (0)
#define BEGIN_IN_CONTEXT                   \
    BEGIN;                                 \
    if (!depth) return INVALID_CONTEXT
#define CURRENT (stack[depth - 1])
