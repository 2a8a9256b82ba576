/* SPDX-License-Identifier: Apache-2.0
 *
 * Taking records out of a lane and giving them to the driver. All of it happens under the lane's issue lock, by the
 * device's thread or by a thread of the program that flushes.
 */
#include "base/clock.h"
#include "coalesce/pack.h"
#include "engine/convoy.h"
#include "engine/device.h"
#include "engine/twin.h"

#include <sched.h>
#include <string.h>

/* The stream that the lane's next launch goes to. */
static CUstream lane_tail(const struct lane *lane)
{
    const struct convoy *convoy = atomic_load_explicit(&((struct lane *)lane)->away, memory_order_relaxed);

    return convoy ? convoy->stream : lane->stream;
}

uint32_t launch_attributes(const struct record *record, bool away, CUlaunchAttribute *to)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < record->attribute_count; i++) {
        const CUlaunchAttribute *attribute = &record_attributes(record)[i];

        /*
         * In a convoy the launch before this one may be another lane's. What a kernel may assume of its predecessor,
         * and of the one before that, holds for its own lane only. Without the attribute it starts when all of it is
         * done.
         */
        if (away && attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            continue;
        to[count++] = *attribute;
    }
    return count;
}

CUresult lane_fire(const struct lane *lane, const struct record *record, const struct lane_shot *shot)
{
    const struct cu_driver *driver = lane->engine->driver;
    size_t size = shot->bytes;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, shot->parameters, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    void **parameters = size > 0 ? extra : NULL;
    CUlaunchAttribute attributes[RECORD_ATTRIBUTES_MAX];
    CUstream tail = lane_tail(lane);
    CUlaunchConfig config;

    if (!record->extended)
        return driver->cuLaunchKernel(shot->function, shot->grid[0], shot->grid[1], shot->grid[2],
                                      record->launch.block[0], record->launch.block[1], record->launch.block[2],
                                      record->launch.shared_bytes, tail, NULL, parameters);

    config = (CUlaunchConfig){
        .gridDimX = shot->grid[0],
        .gridDimY = shot->grid[1],
        .gridDimZ = shot->grid[2],
        .blockDimX = record->launch.block[0],
        .blockDimY = record->launch.block[1],
        .blockDimZ = record->launch.block[2],
        .sharedMemBytes = record->launch.shared_bytes,
        .hStream = tail,
        .attrs = attributes,
        .numAttrs = launch_attributes(record, tail != lane->stream, attributes),
    };
    return driver->cuLaunchKernelEx(&config, shot->function, NULL, parameters);
}

/* Verification: the launch as a pack of one. False: it is not to be had, launch the original. */
static bool fire_twin(struct lane *lane, const struct record *record, CUresult *result)
{
    struct function *function = (struct function *)record->launch.function;
    unsigned form = record->launch.grid[2] > 1 ? COALESCE_FOLD : 0;
    const struct twin *twin = twin_of_one(lane->engine, function, lane->context, form);
    struct coalesce_pack pack;
    struct lane_shot shot;

    atomic_fetch_add_explicit(&function->launches, 1, memory_order_relaxed);
    if (!lane->area)
        lane->area = engine_arena(lane->engine, COALESCE_AREA_MAX);
    if (!twin || !lane->area || (record_cluster(record) && record_cluster(record)[2] > 1) ||
        twin->layout.parameter_bytes != record->parameter_bytes)
        return false;
    coalesce_pack_begin(&pack, &twin->layout, lane->area);
    if (coalesce_pack_add(&pack, record->launch.grid, record_parameters(record)) < 0)
        return false;
    shot = (struct lane_shot){.function = twin->handle, .parameters = lane->area, .bytes = coalesce_pack_bytes(&pack)};
    memcpy(shot.grid, pack.grid, sizeof(shot.grid));
    *result = lane_fire(lane, record, &shot);
    atomic_fetch_add_explicit(&function->replaced, 1, memory_order_relaxed);
    return true;
}

static CUresult issue_launch(struct lane *lane, const struct record *record)
{
    struct lane_shot shot = {.function = record->launch.function->handle,
                             .parameters = record_parameters(record),
                             .bytes = record->parameter_bytes};
    CUresult result;

    if (lane->engine->options.verify && fire_twin(lane, record, &result))
        return result;
    memcpy(shot.grid, record->launch.grid, sizeof(shot.grid));
    return lane_fire(lane, record, &shot);
}

/*
 * Errors that the program's own kernels cause. They stay with the context and every later call returns them, so they
 * say nothing about coissue.
 */
bool error_is_programs_own(CUresult result)
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

void lane_failed(struct lane *lane, const char *what, CUresult result)
{
    CUresult none = CUDA_SUCCESS;
    uint32_t no_error = CUDA_SUCCESS;

    /* Relaxed: who looks at it has seen, by acquire, that the record is complete or issued. */
    atomic_compare_exchange_strong_explicit(&lane->error, &no_error, (uint32_t)result, memory_order_relaxed,
                                            memory_order_relaxed);
    /* The first error is what the program would have got. Relaxed: the next call looks after a flush, or later. */
    atomic_compare_exchange_strong_explicit(&lane->context->latched, &none, result, memory_order_relaxed,
                                            memory_order_relaxed);
    if (!error_is_programs_own(result))
        lane->engine->options.failed(what, result);
}

/* What lets launches of several lanes become one: all that a launch has only once. Equal keys may be coalesced; whether
 * they really can is looked at when it comes to that. */
static uint32_t pack_key(const struct record *record)
{
    const struct function *function = record->launch.function;
    const unsigned int *cluster = record_cluster(record);
    bool fold = record->launch.grid[2] > 1;
    uint64_t key = (uint64_t)function;

    if (!function_may_pack(function, fold ? COALESCE_FOLD : 0) || (cluster && cluster[2] > 1))
        return 0;
    for (int i = 0; i < 3; i++)
        key = (key ^ record->launch.block[i]) * 0x9e3779b97f4a7c15u;
    key = (key ^ record->launch.shared_bytes) * 0x9e3779b97f4a7c15u;
    key = (key ^ record->launch.grid[2]) * 0x9e3779b97f4a7c15u;
    if (cluster || !function_may_pack(function, COALESCE_RAGGED | (fold ? COALESCE_FOLD : 0)))
        key = (key ^ ((uint64_t)record->launch.grid[0] << 32 | record->launch.grid[1])) * 0x9e3779b97f4a7c15u;
    return key >> 32 ? (uint32_t)(key >> 32) : 1;
}

static void describe(const struct lane *lane, const struct record *record, struct sched_launch *launch)
{
    *launch = (struct sched_launch){
        .seq = atomic_load_explicit(&((struct lane *)lane)->issued, memory_order_relaxed) + 1,
        .submit_ns = record->submit_ns,
        .glued = record->glued,
    };
    if (record->kind == RECORD_OP)
        return;
    launch->kernel = (uint64_t)record->launch.function;
    launch->blocks = (uint64_t)record->launch.grid[0] * record->launch.grid[1] * record->launch.grid[2];
    launch->blocks_per_sm = (uint16_t)record->launch.blocks_per_sm; /* hardware has room for tens */
    if (record->kind == RECORD_LAUNCH && lane->engine->options.coalesce && !lane->legacy)
        launch->pack = pack_key(record);
    /* One that may be coalesced is worth waiting for; in a convoy it does not follow its predecessor anyway. */
    if (launch->pack)
        launch->glued = false;
}

const struct record *lane_head(struct lane *lane, struct sched_launch *launch)
{
    uint32_t bytes;
    const struct record *record = ring_peek(&lane->ring, &bytes);

    if (record)
        describe(lane, record, launch);
    return record;
}

bool lane_peek(struct lane *lane, struct sched_launch *launch)
{
    return lane_head(lane, launch) != NULL;
}

static void trace_issue(const struct lane *lane, const struct record *record, const struct issue *issue)
{
    struct trace_event event = {
        .ts_ns = issue->begin_ns,
        .dur_ns = issue->end_ns - issue->begin_ns,
        .submit_ns = record->submit_ns,
        .corr = record->corr,
        .stream = (uint64_t)issue->at,
        .lane = lane->number,
        .kind = record->kind == RECORD_OP ? TRACE_OP : TRACE_ISSUE,
        .reason = (uint16_t)issue->reason,
        .device = (uint32_t)lane->device->ordinal,
        .value = {issue->pack, issue->members, issue->first},
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

void lane_issued(struct lane *lane, const struct record *record, const struct sched_launch *launch,
                 const struct issue *issue)
{
    if (record->kind != RECORD_GATE) /* the calling thread issues it, and says so */
        trace_issue(lane, record, issue);
    /* Release: pairs with the acquire in the device's thread, which counts what flushing threads issued. */
    atomic_store_explicit(&lane->issued, launch->seq, memory_order_release);
    ring_pop(&lane->ring);
}

bool lane_issue_one(struct lane *lane, enum sched_reason reason, struct sched_launch *launch)
{
    const struct record *record = lane_head(lane, launch);
    struct issue issue = {.reason = reason, .begin_ns = clock_ns()};
    CUresult result = CUDA_SUCCESS;
    bool away;

    if (!record)
        return false;
    /* A copy at the beginning of a burst must not stop the others of a convoy that the lane was in before. */
    if (lane_is_idle(lane))
        lane_go_home(lane);
    away = atomic_load_explicit(&lane->away, memory_order_relaxed) != NULL;
    issue.at = lane_tail(lane);
    switch (record->kind) {
    case RECORD_LAUNCH:
        result = issue_launch(lane, record);
        break;
    case RECORD_OP:
        result = record->op.issue(lane->engine->driver, record_parameters(record), away ? issue.at : NULL);
        issue.reason = SCHED_REASON_OP;
        break;
    case RECORD_GATE:
        break;
    }
    if (result != CUDA_SUCCESS)
        lane_failed(lane, record->kind == RECORD_OP ? record->op.name : record->launch.function->name, result);
    issue.end_ns = clock_ns();
    lane_issued(lane, record, launch, &issue);
    return true;
}

void lane_go_home(struct lane *lane)
{
    const struct cu_driver *driver = lane->engine->driver;
    const struct convoy *convoy = atomic_load_explicit(&lane->away, memory_order_relaxed);
    CUresult result;

    if (!convoy)
        return;
    if (atomic_load_explicit(&lane->completed, memory_order_acquire) >=
        atomic_load_explicit(&lane->issued, memory_order_relaxed)) {
        /* Nothing to wait for. Release as below. */
        atomic_store_explicit(&lane->away, NULL, memory_order_release);
        return;
    }
    result = driver->cuEventRecord(lane->event, convoy->stream);
    if (result == CUDA_SUCCESS)
        result = driver->cuStreamWaitEvent(lane->stream, lane->event, 0);
    if (result != CUDA_SUCCESS)
        lane_failed(lane, "cuStreamWaitEvent", result);
    /* Release: who finds the lane settled finds home waiting for the convoy. Pairs with lane_is_settled. */
    atomic_store_explicit(&lane->away, NULL, memory_order_release);
}

void lane_mark(struct lane *lane)
{
    uint64_t issued = atomic_load_explicit(&lane->issued, memory_order_relaxed);
    uint32_t reached = atomic_load_explicit(lane->word, memory_order_relaxed);
    CUresult result;

    if (lane->marked == issued || lane->marks - reached >= LANE_MARKS - 1)
        return;
    lane->mark_covers[(lane->marks + 1) % LANE_MARKS] = issued;
    result = lane->engine->driver->cuStreamWriteValue32_v2(lane->stream, lane->word_on_device, lane->marks + 1,
                                                           CU_STREAM_WRITE_VALUE_DEFAULT);
    lane->marked = issued; /* also when it failed: do not try for ever */
    if (result == CUDA_SUCCESS)
        lane->marks++;
    else if (!error_is_programs_own(result))
        lane->engine->options.failed("cuStreamWriteValue32", result);
}

bool lane_enter(const struct lane *lane)
{
    const struct cu_driver *driver = lane->engine->driver;
    CUcontext current = NULL;

    if (driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == lane->context->handle)
        return false;
    return driver->cuCtxPushCurrent_v2(lane->context->handle) == CUDA_SUCCESS;
}

void lane_leave(const struct lane *lane)
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
    entered = lane_enter(lane);
    lock_take(&lane->issue);
    lane_go_home(lane);
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
    lane_touch(lane); /* the device's thread counts what was issued */
    if (entered)
        lane_leave(lane);
}

enum {
    COMPANY_NS = 10000000, /* while packs are not older than this, lanes have company */
    AWAIT_NS = 2000000,    /* how long a thread looks for a convoy's markers before it asks the driver to wait */
    PATIENCE_NS = 2000000, /* how long a flush waits for a device's thread that issues nothing: wide packs take less */
    COMPANY_MAX_NS = 100000000, /* and for one that issues, but nothing of its lane */
};

/*
 * In a lane that has company, what a flush needs is better issued by the device's thread together with the others',
 * than here and now one by one: the program will wait for the device anyway. As long as the device's thread gets on,
 * this waits; the hold cap bounds how long it leaves the lane's launches. True: they are all issued.
 */
static bool company_issues(struct lane *lane, uint64_t token)
{
    const struct device *device = lane->device;
    uint64_t begin_ns = clock_ns(), since = begin_ns, seen = 0, now_ns, issues;

    if (!lane->engine->options.coalesce ||
        begin_ns - atomic_load_explicit(&((struct device *)device)->packed_ns, memory_order_relaxed) > COMPANY_NS)
        return false;
    for (int spins = 1; ring_consumed(&lane->ring) < token; spins++) {
        if (spins % 64 != 0) {
            cpu_relax();
            continue;
        }
        sched_yield();
        now_ns = clock_ns();
        issues = atomic_load_explicit(&((struct device *)device)->issues, memory_order_relaxed);
        if (issues != seen)
            since = now_ns;
        seen = issues;
        if (now_ns - since > PATIENCE_NS || now_ns - begin_ns > COMPANY_MAX_NS)
            return false;
    }
    return true;
}

static bool complete_or_home(const struct lane *lane)
{
    struct lane *mine = (struct lane *)lane;

    return atomic_load_explicit(&mine->completed, memory_order_acquire) >=
               atomic_load_explicit(&mine->issued, memory_order_acquire) ||
           !atomic_load_explicit(&mine->away, memory_order_acquire);
}

void lane_await(struct lane *lane)
{
    struct device *device = lane->device;
    uint64_t since = 0, now_ns;

    if (!atomic_load_explicit(&lane->away, memory_order_acquire) || !company_issues(lane, ring_reserved(&lane->ring)))
        return;
    /* Before the bell: the device's thread either sees that somebody waits, or is woken. */
    atomic_fetch_add_explicit(&device->awaited, 1, memory_order_seq_cst);
    device_ring(device);
    for (int spins = 1; !complete_or_home(lane); spins++) {
        if (spins % 64 != 0) {
            cpu_relax();
            continue;
        }
        sched_yield();
        now_ns = clock_ns();
        since = since ? since : now_ns;
        if (now_ns - since > AWAIT_NS)
            break; /* long work: the driver knows better how to wait for it */
    }
    atomic_fetch_sub_explicit(&device->awaited, 1, memory_order_relaxed);
}

static void come_home(struct lane *lane)
{
    bool entered = lane_enter(lane);

    lock_take(&lane->issue);
    lane_go_home(lane);
    lock_drop(&lane->issue);
    if (entered)
        lane_leave(lane);
}

void lane_flush_all(struct lane *lane, enum sched_reason reason)
{
    uint64_t token = ring_reserved(&lane->ring);

    if (!lane_is_empty(lane) && !(reason == SCHED_REASON_FLUSH && company_issues(lane, token)))
        lane_flush(lane, token, reason);
    /* Empty before we looked, or by the device's thread while we waited for the lock. */
    if (atomic_load_explicit(&lane->away, memory_order_acquire))
        come_home(lane);
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
    if ((context && lane->context != context) || lane_is_settled(lane))
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
