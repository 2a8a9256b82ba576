/* SPDX-License-Identifier: Apache-2.0
 *
 * What must be issued before a call may reach the driver. These functions are the meaning of the classes in
 * driver/entries.def.
 *
 * The rule of the null stream: it waits for all earlier work of the context's blocking streams, and their later work
 * waits for it. The driver keeps that order among what it was given, so it is enough that we give it things in the
 * program's order: whoever touches the null stream flushes the blocking lanes, whoever touches a blocking stream
 * flushes the null stream's lane. Non-blocking streams are exempt. A per-thread default stream is a blocking stream.
 */
#include "shim/shim.h"

#include "base/clock.h"

CUcontext order_current_context(void)
{
    CUcontext context = NULL;

    if (!shim_driver.cuCtxGetCurrent || shim_driver.cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        return NULL;
    return context;
}

static const char *call_name(enum cu_entry entry)
{
    return entry < CU_ENTRY_COUNT ? cu_entry_name(entry) : "a driver function that is not known here";
}

static void trace_flush(enum cu_entry entry, uint32_t lane, uint64_t begin_ns)
{
    struct trace_event event = {
        .kind = TRACE_FLUSH,
        .ts_ns = begin_ns,
        .dur_ns = clock_ns() - begin_ns,
        .name = call_name(entry),
        .lane = lane,
    };

    trace_put(shim_trace, &event);
}

static void flush_lane(struct lane *lane, enum cu_entry entry)
{
    uint64_t begin_ns;

    if (!lane || lane_is_settled(lane))
        return;
    begin_ns = clock_ns();
    lane_flush_all(lane, SCHED_REASON_FLUSH);
    trace_flush(entry, lane->number, begin_ns);
}

static void flush_blocking(const struct context *context, enum cu_entry entry)
{
    const struct device *device = context->device;

    if (atomic_load_explicit(&context->blocking, memory_order_acquire) == 0)
        return;
    for (uint32_t i = 0; i < device_lane_top(device); i++) {
        struct lane *lane = device_lane((struct device *)device, i);

        if (lane->context == context && lane->blocking &&
            atomic_load_explicit(&lane->state, memory_order_acquire) == LANE_LIVE)
            flush_lane(lane, entry);
    }
}

void order_around(struct lane *lane)
{
    if (lane->legacy)
        flush_blocking(lane->context, CU_ID_cuLaunchKernel);
    else if (lane->blocking)
        flush_lane(atomic_load_explicit(&lane->context->legacy, memory_order_acquire), CU_ID_cuLaunchKernel);
}

/* The context in which a stream's work is ordered: its lane's if it has one, whatever context is current. */
static struct context *context_of(struct stream_key key, CUcontext current, struct lane **lane)
{
    *lane = stream_is_per_thread(key) ? NULL : lane_find(shim_engine, current, key.stream);
    return *lane ? (*lane)->context : context_find(shim_engine, current);
}

void order_stream(struct stream_key key, enum cu_entry entry)
{
    struct lane *lane;
    struct context *context = context_of(key, order_current_context(), &lane);

    if (!context)
        return; /* nothing was ever held there */
    if (stream_is_legacy(key))
        flush_blocking(context, entry);
    else if (!lane || lane->blocking)
        /* A stream without a lane may be blocking; a look at one more lane is cheaper than asking the driver. */
        flush_lane(atomic_load_explicit(&context->legacy, memory_order_acquire), entry);
    flush_lane(lane, entry);
}

void order_context(CUcontext handle, enum cu_entry entry)
{
    uint64_t begin_ns = clock_ns();
    struct context *context = context_find(shim_engine, handle ? handle : order_current_context());

    /* Without a context of ours the call may concern any: memory is freed from whatever thread comes by. */
    if (lanes_flush(shim_engine, context, SCHED_REASON_FLUSH) > 0)
        trace_flush(entry, UINT32_MAX, begin_ns);
}

void order_all(enum cu_entry entry)
{
    uint64_t begin_ns = clock_ns();

    if (lanes_flush(shim_engine, NULL, SCHED_REASON_FLUSH) > 0)
        trace_flush(entry, UINT32_MAX, begin_ns);
}

CUresult order_result(CUresult result)
{
    struct context *context;

    if (result != CUDA_SUCCESS)
        return result;
    context = context_find(shim_engine, order_current_context());
    return context ? context_take_error(context) : result;
}

/*
 * Events. An entry says in which lane, and up to which token, the last record of an event waits. It outlives its record
 * harmlessly: a token that was consumed needs no flush. Tokens are positions in a ring of less than 2^48 bytes per
 * process life, lane numbers are below 2^12.
 */
enum { TOKEN_BITS = 48 };

int event_note(CUevent event, const struct lane *lane, uint64_t token)
{
    uint64_t value = ((uint64_t)lane->number + 1) << TOKEN_BITS | token;
    int error;

    lock_take(&shim_engine->events_lock);
    error = handle_map_set(&shim_engine->events, (uint64_t)event, value);
    lock_drop(&shim_engine->events_lock);
    return error;
}

static struct lane *event_lane(uint64_t value)
{
    return lane_by_number(shim_engine, (uint32_t)(value >> TOKEN_BITS) - 1);
}

bool event_was_recorded(CUevent event)
{
    uint64_t value = handle_map_get(&shim_engine->events, (uint64_t)event);
    const struct lane *lane = value ? event_lane(value) : NULL;

    return lane && lane->context && lane->context->handle == order_current_context();
}

void event_forget(CUevent event)
{
    lock_take(&shim_engine->events_lock);
    handle_map_remove(&shim_engine->events, (uint64_t)event);
    lock_drop(&shim_engine->events_lock);
}

void order_event(CUevent event, enum cu_entry entry)
{
    uint64_t value = event ? handle_map_get(&shim_engine->events, (uint64_t)event) : 0;
    uint64_t token = value & (((uint64_t)1 << TOKEN_BITS) - 1), begin_ns;
    struct lane *lane;

    if (!value)
        return;
    lane = event_lane(value);
    if (!lane || ring_consumed(&lane->ring) >= token)
        return;
    begin_ns = clock_ns();
    lane_flush(lane, token, SCHED_REASON_FLUSH);
    trace_flush(entry, lane->number, begin_ns);
}
