/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/lane.h"

#include "base/log.h"
#include "engine/device.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

struct context *context_find(struct engine *engine, CUcontext handle)
{
    for (int i = 0; i < ENGINE_CONTEXTS_MAX; i++) {
        /* Acquire: pairs with the release in context_make, which fills the rest first. */
        CUcontext found = __atomic_load_n(&engine->contexts[i].handle, __ATOMIC_ACQUIRE);

        if (found == handle && handle)
            return &engine->contexts[i];
    }
    return NULL;
}

CUresult context_take_error(struct context *context)
{
    if (atomic_load_explicit(&context->latched, memory_order_relaxed) == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    return atomic_exchange_explicit(&context->latched, CUDA_SUCCESS, memory_order_relaxed);
}

/*
 * Registering memory is a call that ends captures of other threads, and one may have begun since the launch was found
 * to be plain. In relaxed mode a thread does not (traps: 24).
 */
static CUresult register_words(const struct cu_driver *driver, void *words, size_t bytes)
{
    CUstreamCaptureMode mode = engine_relax(driver);
    CUresult result = driver->cuMemHostRegister_v2(words, bytes, CU_MEMHOSTREGISTER_DEVICEMAP);

    engine_unrelax(driver, mode);
    return result;
}

static int context_words(const struct cu_driver *driver, struct context *context)
{
    size_t bytes = SCHED_LANES_MAX * CACHE_LINE; /* a line each: the device writes one while threads poll another */
    CUresult result;

    if (!driver->cuMemHostRegister_v2 || !driver->cuMemHostGetDevicePointer_v2 || !driver->cuStreamWriteValue32_v2)
        return -ENOSYS;
    if (!context->words) {
        void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (memory == MAP_FAILED)
            return -ENOMEM;
        context->words = memory;
    }
    result = register_words(driver, context->words, bytes);
    /* Still registered: the program released a primary context that others keep, and we ended our part too early. */
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        return -ENOMEM;
    if (driver->cuMemHostGetDevicePointer_v2(&context->words_on_device, context->words, 0) != CUDA_SUCCESS) {
        driver->cuMemHostUnregister(context->words);
        return -ENOMEM;
    }
    return 0;
}

/* Needs engine->tables. */
static struct context *context_make(struct engine *engine, CUcontext handle)
{
    struct context *context = context_find(engine, handle);
    int error;

    if (context)
        return context;
    if (engine->refused == handle)
        return NULL;
    for (int i = 0; i < ENGINE_CONTEXTS_MAX && !context; i++)
        if (!engine->contexts[i].handle)
            context = &engine->contexts[i];
    if (!context) {
        log_warn("more than %d contexts: launches in further ones are not held", ENGINE_CONTEXTS_MAX);
        return NULL;
    }
    if (engine->driver->cuCtxGetDevice(&context->ordinal) != CUDA_SUCCESS)
        return NULL;
    error = device_start(engine, context->ordinal, &context->device);
    if (error == 0)
        error = context_words(engine->driver, context);
    if (error < 0) {
        log_warn("device %d: cannot hold launches in a context: error %d", context->ordinal, -error);
        engine->refused = handle; /* its next launches need not try again */
        return NULL;
    }
    context->generation++;
    atomic_store_explicit(&context->latched, CUDA_SUCCESS, memory_order_relaxed);
    atomic_store_explicit(&context->legacy, NULL, memory_order_relaxed);
    atomic_store_explicit(&context->blocking, 0, memory_order_relaxed);
    atomic_store_explicit(&context->strangers, false, memory_order_relaxed);
    __atomic_store_n(&context->handle, handle, __ATOMIC_RELEASE);
    return context;
}

/* Needs engine->tables. */
static int lane_ring(struct engine *engine, struct lane *lane)
{
    void *memory;

    if (lane->ring.data)
        return 0; /* from an earlier life, and empty */
    if (engine->rings >= ENGINE_RINGS_MAX)
        return -ENOSPC;
    memory = mmap(NULL, ring_memory(ENGINE_RING_BYTES), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return -ENOMEM;
    engine->rings++;
    return ring_init(&lane->ring, memory, ENGINE_RING_BYTES);
}

/*
 * A slot whose last marker has not been reached yet must not be used again in the same context: the device would still
 * write its word. Needs engine->tables.
 */
static bool slot_is_usable(const struct lane *lane, const struct context *context)
{
    if (atomic_load_explicit(&lane->state, memory_order_acquire) != LANE_FREE)
        return false;
    if (lane->context != context || lane->generation != context->generation)
        return true;
    return atomic_load_explicit(lane->word, memory_order_relaxed) == lane->marks;
}

static struct lane *free_slot(struct device *device, const struct context *context)
{
    for (uint32_t i = 0; i < SCHED_LANES_MAX; i++)
        if (slot_is_usable(&device->lanes[i], context))
            return &device->lanes[i];
    return NULL;
}

static void lane_use_word(struct lane *lane, struct context *context)
{
    if (lane->context == context && lane->generation == context->generation)
        return; /* goes on counting where the last lane of this slot stopped */
    lane->context = context;
    lane->generation = context->generation;
    lane->word = (_Atomic uint32_t *)(context->words + lane->index * CACHE_LINE);
    lane->word_on_device = context->words_on_device + lane->index * CACHE_LINE;
    lane->marks = 0;
    atomic_store_explicit(lane->word, 0, memory_order_relaxed);
}

/* The ring of a former lane is empty; its token goes on, the count of records begins anew. */
static void lane_reset(struct lane *lane)
{
    atomic_store_explicit(&lane->issued, 0, memory_order_relaxed);
    atomic_store_explicit(&lane->synced, 0, memory_order_relaxed);
    atomic_store_explicit(&lane->completed, 0, memory_order_relaxed);
    atomic_store_explicit(&lane->error, CUDA_SUCCESS, memory_order_relaxed);
    lane->marked = 0;
    lane->any_flushed = false;
    atomic_store_explicit(&lane->away, NULL, memory_order_relaxed);
    lane->life++;
    lane->known = lane->offered = false;
    atomic_store_explicit(&lane->remote, NULL, memory_order_relaxed);
    lane->told_issued = lane->told_complete = 0;
    lane->seen_mark = lane->marks;
}

static void name_tracks(const struct lane *lane)
{
    struct trace *trace = lane->engine->options.trace;
    char name[96];

    if (!lane->engine->options.tracing)
        return;
    if (lane->legacy)
        snprintf(name, sizeof(name), "lane %u: null stream of context %p", lane->number, (void *)lane->context->handle);
    else
        snprintf(name, sizeof(name), "lane %u: %sstream %p", lane->number, lane->blocking ? "" : "non-blocking ",
                 (void *)lane->stream);
    trace_name_lane(trace, lane->number, name);
    snprintf(name, sizeof(name), "device %d, stream %p", lane->device->ordinal, (void *)lane->stream);
    trace_name_stream(trace, (uint64_t)lane->stream, name);
}

/* Needs engine->tables. */
static struct lane *lane_start(struct engine *engine, struct context *context, CUstream stream, unsigned int flags,
                               const struct sched_lane_attr *attr)
{
    struct device *device = context->device;
    struct lane *lane = free_slot(device, context);
    uint64_t key = lane_key(context->handle, stream);

    if (!lane || lane_ring(engine, lane) < 0) {
        log_warn("more streams than lanes (%u rings in use): launches in further streams are not held", engine->rings);
        return NULL;
    }
    lane->engine = engine;
    lane->device = device;
    lane->stream = stream;
    lane->index = (uint32_t)(lane - device->lanes);
    lane_use_word(lane, context);
    lane->number = (uint32_t)device->ordinal * SCHED_LANES_MAX + lane->index;
    lane->legacy = (key & 1) != 0;
    lane->blocking = !lane->legacy && !(flags & CU_STREAM_NON_BLOCKING);
    lane->attr = *attr;
    lane_reset(lane);
    if (handle_map_set(&engine->lanes, key, (uint64_t)lane) < 0)
        return NULL;
    if (lane->legacy)
        atomic_store_explicit(&context->legacy, lane, memory_order_release);
    else if (lane->blocking)
        atomic_fetch_add_explicit(&context->blocking, 1, memory_order_release);
    atomic_store_explicit(&lane->key, key, memory_order_relaxed);
    /* Release: pairs with the acquire in the device's thread, which then takes the lane up. */
    atomic_store_explicit(&lane->state, LANE_LIVE, memory_order_release);
    device_grow(device, lane->index + 1);
    lane_touch(lane);
    name_tracks(lane);
    return lane;
}

struct lane *lane_make(struct engine *engine, CUcontext handle, CUstream stream)
{
    return lane_make_with(engine, handle, stream, &engine->options.lane_attr);
}

struct lane *lane_make_with(struct engine *engine, CUcontext handle, CUstream stream,
                            const struct sched_lane_attr *attr)
{
    struct context *context;
    struct lane *lane = NULL;
    unsigned int flags = 0;

    if (stream && stream != CU_STREAM_LEGACY && engine->driver->cuStreamGetFlags(stream, &flags) != CUDA_SUCCESS)
        return NULL;
    lock_take(&engine->tables);
    context = context_make(engine, handle);
    if (context) {
        lane = lane_find(engine, handle, stream);
        if (!lane)
            lane = lane_start(engine, context, stream, flags, attr);
    }
    lock_drop(&engine->tables);
    return lane;
}

void lane_end(struct lane *lane)
{
    uint64_t key;

    if (!lane)
        return;
    lock_take(&lane->engine->tables);
    key = atomic_load_explicit(&lane->key, memory_order_relaxed);
    if (key) {
        handle_map_remove(&lane->engine->lanes, key);
        atomic_store_explicit(&lane->key, 0, memory_order_relaxed);
        if (lane->legacy)
            atomic_store_explicit(&lane->context->legacy, NULL, memory_order_relaxed);
        /* Under the issue lock, so that the device's thread is not in the middle of marking this stream. */
        lock_take(&lane->issue);
        atomic_store_explicit(&lane->state, LANE_ENDED, memory_order_release);
        lock_drop(&lane->issue);
        lane_touch(lane);
    }
    lock_drop(&lane->engine->tables);
}

void context_end(struct engine *engine, CUcontext handle)
{
    struct context *context = context_find(engine, handle);

    if (!context) {
        lock_take(&engine->tables);
        if (engine->refused == handle)
            engine->refused = NULL; /* the handle may come again */
        lock_drop(&engine->tables);
        return;
    }
    for (uint32_t i = 0; i < SCHED_LANES_MAX; i++) {
        struct lane *lane = &context->device->lanes[i];

        if (lane->context == context && atomic_load_explicit(&lane->state, memory_order_acquire) == LANE_LIVE)
            lane_end(lane);
    }
    lock_take(&engine->tables);
    atomic_fetch_add_explicit(&context->device->contexts_ended, 1, memory_order_release);
    __atomic_store_n(&context->handle, NULL, __ATOMIC_RELEASE);
    lock_drop(&engine->tables);
}

void lane_synced(struct lane *lane, uint64_t issued)
{
    uint64_t seen = atomic_load_explicit(&lane->synced, memory_order_relaxed);

    while (seen < issued && !atomic_compare_exchange_weak_explicit(&lane->synced, &seen, issued, memory_order_release,
                                                                   memory_order_relaxed))
        ;
    lane_touch(lane);
}
