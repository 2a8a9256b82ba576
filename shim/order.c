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
#include "shim/remote.h"

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

    if (remote_used)
        remote_settle(lane);
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
    if (!lane && !stream_is_legacy(key))
        atomic_store_explicit(&context->strangers, true, memory_order_release);
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

    remote_settle_all(context);
    /* Without a context of ours the call may concern any: memory is freed from whatever thread comes by. */
    if (lanes_flush(shim_engine, context, SCHED_REASON_FLUSH) > 0)
        trace_flush(entry, UINT32_MAX, begin_ns);
}

void order_all(enum cu_entry entry)
{
    uint64_t begin_ns = clock_ns();

    remote_settle_all(NULL);
    if (lanes_flush(shim_engine, NULL, SCHED_REASON_FLUSH) > 0)
        trace_flush(entry, UINT32_MAX, begin_ns);
}

CUresult order_result(CUresult result)
{
    uint32_t broken = atomic_load_explicit(&remote_broken, memory_order_relaxed);
    struct context *context;

    if (remote_used)
        remote_called();
    if (result != CUDA_SUCCESS)
        return result;
    if (unlikely(broken))
        return (CUresult)broken;
    context = context_find(shim_engine, order_current_context());
    return context ? context_take_error(context) : result;
}

/*
 * Events. An entry says in which lane, and up to which token, the last record of an event waits. It outlives its record
 * harmlessly: a token that was consumed needs no flush. Tokens are positions in a ring of less than 2^48 bytes per
 * process life, lane numbers are below 2^12. Of a record that is remote the token is a count of the lane.
 */
enum { TOKEN_BITS = 48, LANE_MASK = 0x1fff };
#define EVENT_REMOTE (UINT64_C(1) << 62) /* the driver has not heard of the record */
#define EVENT_PLAIN (UINT64_C(1) << 63)  /* carries no time, and no other process has a handle */

static uint64_t token_of(uint64_t value)
{
    return value & ((UINT64_C(1) << TOKEN_BITS) - 1);
}

/* Needs events_lock. */
static int event_set(CUevent event, uint64_t value)
{
    uint64_t plain = handle_map_get(&shim_engine->events, (uint64_t)event) & EVENT_PLAIN;

    if (value | plain)
        return handle_map_set(&shim_engine->events, (uint64_t)event, value | plain);
    handle_map_remove(&shim_engine->events, (uint64_t)event);
    return 0;
}

static int event_store(CUevent event, uint64_t value)
{
    int error;

    lock_take(&shim_engine->events_lock);
    error = event_set(event, value);
    lock_drop(&shim_engine->events_lock);
    return error;
}

static uint64_t event_value(const struct lane *lane, uint64_t token)
{
    return ((uint64_t)lane->number + 1) << TOKEN_BITS | token;
}

int event_note(CUevent event, const struct lane *lane, uint64_t token)
{
    return event_store(event, event_value(lane, token));
}

void event_forget(CUevent event)
{
    event_store(event, 0);
}

void event_created(CUevent event, unsigned int flags)
{
    bool plain = (flags & (CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)) == CU_EVENT_DISABLE_TIMING;

    event_destroyed(event); /* a handle that was another's */
    if (plain)
        event_store(event, EVENT_PLAIN);
}

void event_destroyed(CUevent event)
{
    lock_take(&shim_engine->events_lock);
    handle_map_remove(&shim_engine->events, (uint64_t)event);
    lock_drop(&shim_engine->events_lock);
}

static struct lane *event_lane(uint64_t value)
{
    uint32_t number = (uint32_t)(value >> TOKEN_BITS) & LANE_MASK;

    return number > 0 ? lane_by_number(shim_engine, number - 1) : NULL;
}

bool event_was_recorded(CUevent event)
{
    uint64_t value = handle_map_get(&shim_engine->events, (uint64_t)event);
    const struct lane *lane = value ? event_lane(value) : NULL;

    return lane && lane->context && lane->context->handle == order_current_context();
}

bool event_record_remote(CUevent event, struct stream_key key)
{
    uint64_t value = handle_map_get(&shim_engine->events, (uint64_t)event), count;
    struct remote_lane *lane;

    if (!(value & EVENT_PLAIN) || !remote_stands(key, &lane, &count))
        return false;
    if (!(value & EVENT_REMOTE))
        order_event(event, CU_ID_cuEventRecord); /* one that waits in a lane would come later than this one */
    return event_store(event, EVENT_REMOTE | event_value(lane->lane, count)) == 0;
}

bool event_is_remote(CUevent event, struct remote_lane **lane, uint64_t *count)
{
    uint64_t value = remote_used ? handle_map_get(&shim_engine->events, (uint64_t)event) : 0;
    struct lane *local = value & EVENT_REMOTE ? event_lane(value) : NULL;

    *lane = local ? atomic_load_explicit(&local->remote, memory_order_acquire) : NULL;
    *count = token_of(value);
    return *lane != NULL;
}

/* The driver hears of the record: it comes behind what it stood for, and perhaps behind more. */
static void make_real(CUevent event, struct lane *lane)
{
    bool entered = lane_enter(lane);

    remote_settle(lane);
    event_note(event, lane, 0);
    shim_driver.cuEventRecord(event, lane->stream);
    if (entered)
        lane_leave(lane);
}

void order_event(CUevent event, enum cu_entry entry)
{
    uint64_t value = event ? handle_map_get(&shim_engine->events, (uint64_t)event) : 0;
    uint64_t token = token_of(value), begin_ns;
    struct lane *lane = value ? event_lane(value) : NULL;

    if (!lane)
        return;
    if (value & EVENT_REMOTE) {
        /* A lane that ended was waited for: then the record is as good as complete, like one that never was. */
        if (atomic_load_explicit(&lane->remote, memory_order_acquire))
            make_real(event, lane);
        else
            event_forget(event);
        return;
    }
    if (ring_consumed(&lane->ring) >= token)
        return;
    begin_ns = clock_ns();
    lane_flush(lane, token, SCHED_REASON_FLUSH);
    trace_flush(entry, lane->number, begin_ns);
}
