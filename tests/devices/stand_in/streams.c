/* Streams and events, also those of other processes. */
#include "stand_in.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const uint64_t kStreamMagic = 0x57494c4b53545231, kEventMagic = 0x57494c4b45565431;
static CUstream all_streams[kMost];
static char event_names[kMost][kName];
static _Atomic int named_events;

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

CUstream stream_of(CUstream handle) {
    if ((uintptr_t)handle <= 2) {
        pthread_mutex_lock(&mutex);
        if (!CURRENT->standard) CURRENT->standard = make_stream(CURRENT);
        pthread_mutex_unlock(&mutex);
        return CURRENT->standard;
    }
    if (handle->magic != kStreamMagic) undefined("a stream that was destroyed, or never was one");
    return handle;
}

uint64_t put(CUstream stream, struct Operation what) {
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

void wait_for(CUstream stream, uint64_t number) {
    pthread_mutex_lock(&stream->mutex);
    while (stream->done < number) pthread_cond_wait(&stream->changed, &stream->mutex);
    pthread_mutex_unlock(&stream->mutex);
}

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

void forget_events(void) {
    for (int k = 0; k < named_events && k < kMost; ++k) shm_unlink(event_names[k]);
}
