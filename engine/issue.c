/* SPDX-License-Identifier: Apache-2.0
 *
 * Taking records out of a lane and giving them to the driver. All of it happens under the lane's issue lock, by the
 * device's thread or by a thread of the program that flushes.
 */
#include "base/clock.h"
#include "base/log.h"
#include "engine/device.h"
#include "engine/function.h"

#include <sched.h>
#include <string.h>

static CUresult issue_launch(const struct lane *lane, const struct record *record)
{
    const struct cu_driver *driver = lane->engine->driver;
    size_t size = record->parameter_bytes;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, record_parameters(record), CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    void **parameters = size > 0 ? extra : NULL;
    CUlaunchConfig config;

    if (!record->extended)
        return driver->cuLaunchKernel(record->launch.function->handle, record->launch.grid[0], record->launch.grid[1],
                                      record->launch.grid[2], record->launch.block[0], record->launch.block[1],
                                      record->launch.block[2], record->launch.shared_bytes, lane->stream, NULL,
                                      parameters);

    config = (CUlaunchConfig){
        .gridDimX = record->launch.grid[0],
        .gridDimY = record->launch.grid[1],
        .gridDimZ = record->launch.grid[2],
        .blockDimX = record->launch.block[0],
        .blockDimY = record->launch.block[1],
        .blockDimZ = record->launch.block[2],
        .sharedMemBytes = record->launch.shared_bytes,
        .hStream = lane->stream,
        .attrs = (CUlaunchAttribute *)record_attributes(record),
        .numAttrs = record->attribute_count,
    };
    return driver->cuLaunchKernelEx(&config, record->launch.function->handle, NULL, parameters);
}

/*
 * Errors that the program's own kernels cause. They stay with the context and every later call returns them, so they
 * say nothing about coissue.
 */
static bool is_programs_own(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_DEINITIALIZED:
        return true;
    default:
        return (int)result >= 714 && (int)result <= 719; /* the other faults of a kernel: instruction, stack, ... */
    }
}

static void issue_failed(struct lane *lane, const char *what, CUresult result)
{
    CUresult none = CUDA_SUCCESS;

    /* The first error is what the program would have got. Relaxed: the next call looks after a flush, or later. */
    atomic_compare_exchange_strong_explicit(&lane->context->latched, &none, result, memory_order_relaxed,
                                            memory_order_relaxed);
    if (!is_programs_own(result))
        lane->engine->options.failed(what, result);
}

static void describe(const struct lane *lane, const struct record *record, struct sched_launch *launch)
{
    launch->seq = atomic_load_explicit(&lane->issued, memory_order_relaxed) + 1;
    launch->submit_ns = record->submit_ns;
    launch->kernel = 0;
    launch->blocks = 0;
    launch->blocks_per_sm = 0;
    launch->glued = record->glued;
    if (record->kind == RECORD_LAUNCH || record->kind == RECORD_GATE) {
        launch->kernel = (uint64_t)record->launch.function;
        launch->blocks = (uint64_t)record->launch.grid[0] * record->launch.grid[1] * record->launch.grid[2];
        launch->blocks_per_sm = record->launch.blocks_per_sm;
    }
}

bool lane_peek(struct lane *lane, struct sched_launch *launch)
{
    uint32_t bytes;
    const struct record *record = ring_peek(&lane->ring, &bytes);

    if (!record)
        return false;
    describe(lane, record, launch);
    return true;
}

static void trace_issue(const struct lane *lane, const struct record *record, enum sched_reason reason,
                        uint64_t begin_ns, uint64_t end_ns)
{
    struct trace_event event = {
        .ts_ns = begin_ns,
        .dur_ns = end_ns - begin_ns,
        .submit_ns = record->submit_ns,
        .corr = record->corr,
        .stream = (uint64_t)lane->stream,
        .lane = lane->number,
        .kind = record->kind == RECORD_OP ? TRACE_OP : TRACE_ISSUE,
        .reason = (uint16_t)reason,
        .device = (uint32_t)lane->device->ordinal,
    };

    if (record->kind == RECORD_OP) {
        event.name = record->op.name;
    } else {
        event.name = record->launch.function->name;
        memcpy(event.grid, record->launch.grid, sizeof(event.grid));
        memcpy(event.block, record->launch.block, sizeof(event.block));
        event.shared_bytes = record->launch.shared_bytes;
    }
    trace_put(lane->engine->options.trace, &event);
}

bool lane_issue_one(struct lane *lane, enum sched_reason reason, struct sched_launch *launch)
{
    const struct engine *engine = lane->engine;
    uint32_t bytes;
    const struct record *record = ring_peek(&lane->ring, &bytes);
    CUresult result = CUDA_SUCCESS;
    uint64_t begin_ns;

    if (!record)
        return false;
    describe(lane, record, launch);
    begin_ns = clock_ns();
    switch (record->kind) {
    case RECORD_LAUNCH:
        result = issue_launch(lane, record);
        break;
    case RECORD_OP:
        result = record->op.issue(engine->driver, record_parameters(record));
        reason = SCHED_REASON_OP;
        break;
    case RECORD_GATE:
        break;
    }
    if (result != CUDA_SUCCESS)
        issue_failed(lane, record->kind == RECORD_OP ? record->op.name : record->launch.function->name, result);
    if (record->kind != RECORD_GATE) /* the calling thread issues it, and says so */
        trace_issue(lane, record, reason, begin_ns, clock_ns());
    /* Release: pairs with the acquire in the device's thread, which counts what flushing threads issued. */
    atomic_store_explicit(&lane->issued, launch->seq, memory_order_release);
    ring_pop(&lane->ring);
    return true;
}

void lane_mark(struct lane *lane)
{
    uint64_t issued = atomic_load_explicit(&lane->issued, memory_order_relaxed);
    uint32_t reached = atomic_load_explicit(lane->word, memory_order_relaxed);
    CUresult result;

    if (lane->marked == issued || lane->marks - reached >= LANE_MARKS)
        return;
    lane->mark_covers[(lane->marks + 1) % LANE_MARKS] = issued;
    result = lane->engine->driver->cuStreamWriteValue32_v2(lane->stream, lane->word_on_device, lane->marks + 1,
                                                           CU_STREAM_WRITE_VALUE_DEFAULT);
    lane->marked = issued; /* also when it failed: do not try for ever */
    if (result == CUDA_SUCCESS)
        lane->marks++;
    else if (!is_programs_own(result))
        lane->engine->options.failed("cuStreamWriteValue32", result);
}

/* The lane's context is made current for the calling thread; returns whether it must be popped again. */
static bool enter_context(const struct lane *lane)
{
    const struct cu_driver *driver = lane->engine->driver;
    CUcontext current = NULL;

    if (driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == lane->context->handle)
        return false;
    return driver->cuCtxPushCurrent_v2(lane->context->handle) == CUDA_SUCCESS;
}

static void leave_context(const struct lane *lane)
{
    CUcontext popped;

    lane->engine->driver->cuCtxPopCurrent_v2(&popped);
}

/* Keeps the most demanding of what was flushed: that is what the scheduler should know of the lane's flight. */
static void note_flushed(struct lane *lane, const struct sched_launch *launch)
{
    if (!lane->any_flushed || launch->blocks > lane->flushed.blocks)
        lane->flushed = *launch;
    lane->flushed.seq = launch->seq;
    lane->any_flushed = true;
}

void lane_flush(struct lane *lane, uint64_t token, enum sched_reason reason)
{
    struct sched_launch launch;
    bool entered;
    int spins = 0;

    if (ring_consumed(&lane->ring) >= token)
        return;
    entered = enter_context(lane);
    lock_take(&lane->issue);
    while (ring_consumed(&lane->ring) < token) {
        if (lane_issue_one(lane, reason, &launch)) {
            note_flushed(lane, &launch);
        } else if (++spins < 100) {
            cpu_relax(); /* another thread is between reserve and commit: a copy of at most 32 KiB */
        } else {
            sched_yield();
        }
    }
    lock_drop(&lane->issue);
    if (entered)
        leave_context(lane);
}

void lane_flush_all(struct lane *lane, enum sched_reason reason)
{
    if (!lane_is_empty(lane))
        lane_flush(lane, ring_reserved(&lane->ring), reason);
}

typedef bool (*lane_visit_fn)(struct lane *lane, const struct context *context, enum sched_reason reason);

/* Visits every living lane; returns for how many the visit was true. */
static uint32_t for_each_lane(struct engine *engine, lane_visit_fn visit, const struct context *context,
                              enum sched_reason reason)
{
    uint32_t count = 0;

    for (int d = 0; d < ENGINE_DEVICES_MAX; d++) {
        struct device *device = __atomic_load_n(&engine->devices[d], __ATOMIC_ACQUIRE);
        uint32_t top = device ? device_lane_top(device) : 0;

        for (uint32_t i = 0; i < top; i++) {
            struct lane *lane = &device->lanes[i];

            if (atomic_load_explicit(&lane->state, memory_order_acquire) == LANE_LIVE)
                count += visit(lane, context, reason);
        }
    }
    return count;
}

static bool flush_visit(struct lane *lane, const struct context *context, enum sched_reason reason)
{
    if ((context && lane->context != context) || lane_is_empty(lane))
        return false;
    lane_flush_all(lane, reason);
    return true;
}

uint32_t lanes_flush(struct engine *engine, const struct context *context, enum sched_reason reason)
{
    return for_each_lane(engine, flush_visit, context, reason);
}

static bool pass_visit(struct lane *lane, const struct context *context, enum sched_reason reason)
{
    (void)context;
    (void)reason;
    lock_take(&lane->issue);
    lock_drop(&lane->issue);
    return true;
}

void lanes_pass(struct engine *engine)
{
    for_each_lane(engine, pass_visit, NULL, SCHED_REASON_FLUSH);
}
