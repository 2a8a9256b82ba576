/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

#include "base/clock.h"
#include "coalesce/coalesce.h"
#include "engine/device.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum {
    LANE_SLOTS = 2048,
    FUNCTION_SLOTS = 1 << 16, /* a large framework launches a few thousand kernels */
    EVENT_SLOTS = 1 << 14,
    CODE_SLOTS = 1 << 17,   /* kernels that the program looked up, and their images */
    ARENA_BYTES = 16 << 20, /* reserved, not touched: a function takes about 300 bytes and its name */
};
enum { STOP_WAIT_NS = 1000000000 }; /* long enough for nearly every twin to be loaded, short enough for who waits */

static void *map_zeroed(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

static const char *reason_name(unsigned int reason)
{
    return sched_reason_name((enum sched_reason)reason);
}

static const char *reason_text(unsigned int reason)
{
    return sched_reason_text((enum sched_reason)reason);
}

static const char *reason_kind(unsigned int reason)
{
    return sched_kind_name(sched_reason_kind((enum sched_reason)reason));
}

static const char *refusal_name(unsigned int refusal)
{
    return coalesce_refusal_name((enum coalesce_refusal)refusal);
}

static const char *refusal_text(unsigned int refusal)
{
    return coalesce_refusal_text((enum coalesce_refusal)refusal);
}

int engine_trace(const char *path, uint64_t flush_ns, uint32_t ring_events, struct trace **trace)
{
    struct trace_options options = {
        .path = path,
        .flush_ns = flush_ns,
        .version = COISSUE_VERSION,
        .ring_events = ring_events,
        .reason_name = reason_name,
        .reason_text = reason_text,
        .kind_name = reason_kind,
        .reason_count = SCHED_REASON_COUNT,
        .refusal_name = refusal_name,
        .refusal_text = refusal_text,
        .refusal_count = COALESCE_REFUSAL_COUNT,
    };

    return trace_create(&options, trace);
}

unsigned engine_capability(const struct cu_driver *driver, CUdevice device)
{
    int major = 0, minor = 0;

    driver->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    driver->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    return (unsigned)(major * 10 + minor);
}

CUstreamCaptureMode engine_relax(const struct cu_driver *driver)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    if (driver->cuThreadExchangeStreamCaptureMode)
        driver->cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

void engine_unrelax(const struct cu_driver *driver, CUstreamCaptureMode mode)
{
    if (driver->cuThreadExchangeStreamCaptureMode)
        driver->cuThreadExchangeStreamCaptureMode(&mode);
}

static bool policy_exists(const char *name)
{
    if (!name || !*name)
        return true;
    for (const char *const *known = sched_policy_names(); *known; known++)
        if (strcmp(*known, name) == 0)
            return true;
    return false;
}

int engine_create(const struct engine_options *options, struct engine **created)
{
    size_t maps = handle_map_memory(LANE_SLOTS) + handle_map_memory(FUNCTION_SLOTS) + handle_map_memory(EVENT_SLOTS) +
                  handle_map_memory(CODE_SLOTS);
    size_t contexts = ENGINE_CONTEXTS_MAX * sizeof(struct context);
    size_t bytes = sizeof(struct engine) + CACHE_LINE + maps + contexts + ARENA_BYTES;
    struct engine *engine;
    unsigned char *memory;

    if (!policy_exists(options->policy))
        return -EINVAL;
    memory = map_zeroed(bytes);
    if (!memory)
        return -ENOMEM;
    engine = (struct engine *)memory;
    memory += (sizeof(*engine) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    engine->options = *options;
    engine->driver = options->driver;
    twin_cache_init(&engine->twin_cache, options->cache, options->cache_bytes);
    handle_map_init(&engine->lanes, memory, LANE_SLOTS);
    memory += handle_map_memory(LANE_SLOTS);
    handle_map_init(&engine->functions, memory, FUNCTION_SLOTS);
    memory += handle_map_memory(FUNCTION_SLOTS);
    handle_map_init(&engine->events, memory, EVENT_SLOTS);
    memory += handle_map_memory(EVENT_SLOTS);
    handle_map_init(&engine->codes, memory, CODE_SLOTS);
    memory += handle_map_memory(CODE_SLOTS);
    engine->contexts = (struct context *)memory;
    memory += (contexts + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    engine->arena = memory;
    engine->arena_size = ARENA_BYTES - CACHE_LINE;
    *created = engine;
    return 0;
}

static void await_end(struct thread *thread, uint64_t deadline_ns)
{
    uint64_t now_ns = clock_ns();

    thread_await_end(thread, now_ns < deadline_ns ? deadline_ns - now_ns : 0);
}

void engine_stop(struct engine *engine)
{
    uint64_t deadline_ns = clock_ns() + STOP_WAIT_NS;
    struct device *devices[ENGINE_DEVICES_MAX];

    /* Release: pairs with the acquires in the threads' loops. */
    atomic_store_explicit(&engine->stopping, true, memory_order_release);
    for (int i = 0; i < ENGINE_DEVICES_MAX; i++) {
        devices[i] = __atomic_load_n(&engine->devices[i], __ATOMIC_ACQUIRE);
        if (devices[i])
            device_ring(devices[i]);
    }
    /* Release: a maker that sees the addition sees `stopping` too. */
    atomic_fetch_add_explicit(&engine->twins.bell, 1, memory_order_release);
    wake_word(&engine->twins.bell, 1);
    /* The devices' threads first: until they end, they may start the maker of twins. */
    for (int i = 0; i < ENGINE_DEVICES_MAX; i++)
        if (devices[i])
            await_end(&devices[i]->thread, deadline_ns);
    await_end(&engine->twins.thread, deadline_ns);
}

void *engine_arena(struct engine *engine, size_t bytes)
{
    void *memory = NULL;

    bytes = (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    lock_take(&engine->arena_lock);
    if (bytes <= engine->arena_size - engine->arena_used) {
        memory = engine->arena + engine->arena_used;
        engine->arena_used += bytes;
    }
    lock_drop(&engine->arena_lock);
    return memory;
}
