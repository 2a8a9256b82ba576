/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel launches: hold them, or say why not.
 *
 * This is the path that every launch of the program takes, so it has rules (docs/performance.md): no system call, no
 * allocation, no log, no lock that another thread's launch could hold. What is slow happens once: the first launch of a
 * function, of a stream, of a block shape.
 */
#include "shim/launch.h"

#include "base/clock.h"
#include "shim/remote.h"

#include <sched.h>
#include <string.h>

static enum sched_reason const HELD = SCHED_REASON_COUNT;

/*
 * The last lanes that this thread used. A lane that ended has another key, so an entry can be stale but not wrong.
 * initial-exec: a preloaded library has its thread-local storage in the static block, one instruction away.
 */
static __thread struct {
    uint64_t key;
    struct lane *lane;
} lane_cache[4] __attribute__((tls_model("initial-exec")));

static struct lane *find_lane(CUcontext context, CUstream stream)
{
    uint64_t key = lane_key(context, stream);
    uint32_t slot = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 62);
    struct lane *lane = lane_cache[slot].lane;

    if (likely(lane && lane_cache[slot].key == key && atomic_load_explicit(&lane->key, memory_order_relaxed) == key &&
               lane->context->handle == context))
        return lane;
    lane = lane_find(shim_engine, context, stream);
    if (!lane)
        lane = lane_make(shim_engine, context, stream);
    if (!lane || lane->context->handle != context)
        return NULL; /* a stream of another context: the driver will refuse the launch */
    lane_cache[slot].key = key;
    lane_cache[slot].lane = lane;
    return lane;
}

static bool attributes_can_wait(const struct launch *launch, struct arguments *arguments)
{
    if (launch->attribute_count > RECORD_ATTRIBUTES_MAX || (launch->attribute_count > 0 && !launch->attributes))
        return false;
    for (uint32_t i = 0; i < launch->attribute_count; i++) {
        const CUlaunchAttribute *attribute = &launch->attributes[i];

        if (!attribute_can_wait(attribute))
            return false;
        if (attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            arguments->glued = attribute->value.programmaticStreamSerializationAllowed != 0;
    }
    return true;
}

/* Reads an `extra` list. False if it is not the one form that the driver documents. */
static bool read_extra(void **extra, struct arguments *arguments)
{
    const void *buffer = NULL;
    const size_t *size = NULL;

    for (int i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (i >= 8)
            return false;
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = extra[i + 1];
        else
            return false;
    }
    if (!buffer || !size || *size > RECORD_PARAMETERS_MAX)
        return false;
    arguments->buffer = buffer;
    arguments->bytes = (uint32_t)*size;
    return true;
}

/*
 * What the driver would refuse at once must be refused at once, by the driver: these are the checks that it makes at
 * the call (grid of 0, block too large, shared memory beyond the function's limit), against the limits it told us.
 */
static bool driver_would_take(const struct launch *launch, const struct function *function)
{
    const uint32_t *grid = launch->grid, *block = launch->block;
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];

    if (grid[0] - 1 >= 0x7fffffffu || grid[1] - 1 >= 65535u || grid[2] - 1 >= 65535u)
        return false;
    if (threads - 1 >= function->threads_max || block[0] > 1024 || block[1] > 1024 || block[2] > 64)
        return false;
    return launch->shared_bytes <= function->shared_dynamic_max;
}

static enum sched_reason read_arguments(const struct launch *launch, const struct function *function,
                                        struct arguments *arguments)
{
    if (launch->extra) {
        if (launch->parameters || !read_extra(launch->extra, arguments))
            return SCHED_REASON_ARGUMENTS;
        /* The driver refuses a larger buffer and reads beyond a smaller one: let it answer itself. */
        return arguments->bytes == function->parameter_bytes ? HELD : SCHED_REASON_DOUBTFUL;
    }
    if (!launch->parameters && function->parameter_count > 0)
        return SCHED_REASON_ARGUMENTS;
    arguments->buffer = NULL;
    arguments->bytes = function->parameter_bytes;
    return HELD;
}

void launch_copy_parameters(char *to, const struct launch *launch, const struct function *function,
                            const struct arguments *arguments)
{
    if (arguments->buffer) {
        memcpy(to, arguments->buffer, arguments->bytes);
        return;
    }
    for (uint32_t i = 0; i < function->parameter_count; i++) {
        const void *from = launch->parameters[i];

        if (function->sizes[i] == 8)
            memcpy(to + function->offsets[i], from, 8);
        else if (function->sizes[i] == 4)
            memcpy(to + function->offsets[i], from, 4);
        else
            memcpy(to + function->offsets[i], from, function->sizes[i]);
    }
}

/* A name for a launch in traces: lane and position, below 2^53 so that a JSON number holds it. */
static uint64_t correlation(const struct lane *lane, uint64_t token)
{
    return (uint64_t)(lane->number + 1) << 40 | (token / RING_UNIT & 0xffffffffffu);
}

static void trace_caller(enum trace_kind kind, enum sched_reason reason, const struct launch *launch, const char *name,
                         uint32_t lane, uint64_t corr)
{
    struct trace_event event = {
        .ts_ns = launch->begin_ns,
        .dur_ns = shim_tracing ? clock_ns() - launch->begin_ns : 0,
        .submit_ns = launch->begin_ns,
        .corr = corr,
        .name = name,
        .stream = (uint64_t)launch->stream.stream,
        .lane = lane,
        .kind = (uint16_t)kind,
        .reason = (uint16_t)reason,
        .shared_bytes = launch->shared_bytes,
    };

    memcpy(event.grid, launch->grid, sizeof(event.grid));
    memcpy(event.block, launch->block, sizeof(event.block));
    trace_put(shim_trace, &event);
}

/*
 * Room in the lane's ring. A full ring means that the device is far behind; natively the driver's own queue would be
 * full and the call would wait. Here the calling thread issues what is held, which is the same wait, usefully spent.
 */
static struct record *reserve(struct lane *lane, uint32_t bytes, uint64_t *token)
{
    void *record = ring_reserve(&lane->ring, bytes, token);

    if (unlikely(!record)) {
        lane_flush_all(lane, SCHED_REASON_ROOM);
        record = ring_reserve(&lane->ring, bytes, token);
    }
    return record;
}

static uint32_t occupancy(const struct launch *launch, const struct function *function)
{
    uint32_t threads = launch->block[0] * launch->block[1] * launch->block[2];

    return function_blocks_per_sm(shim_engine, function, threads, launch->shared_bytes);
}

/* Everything that can be known about a launch before it is put into a lane. HELD, or why it goes home. */
static enum sched_reason examine(const struct launch *launch, struct lane **lane, const struct function **function,
                                 struct arguments *arguments)
{
    enum sched_reason reason;
    CUcontext context = NULL;

    if (unlikely(atomic_load_explicit(&shim_engine->captures, memory_order_relaxed) > 0))
        return SCHED_REASON_CAPTURE;
    if (stream_is_per_thread(launch->stream))
        return SCHED_REASON_PER_THREAD;
    if (unlikely(shim_driver.cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context))
        return SCHED_REASON_CONTEXT;
    if (launch->attribute_count > 0 && !attributes_can_wait(launch, arguments))
        return SCHED_REASON_ATTRIBUTE;
    *function = function_get(shim_engine, launch->function);
    if (unlikely(!*function))
        return SCHED_REASON_LAYOUT;
    if (unlikely(!driver_would_take(launch, *function) ||
                 ((*function)->cluster_required && launch->attribute_count == 0)))
        return SCHED_REASON_DOUBTFUL;
    reason = read_arguments(launch, *function, arguments);
    if (unlikely(reason != HELD))
        return reason;
    *lane = find_lane(context, launch->stream.stream);
    return likely(*lane) ? HELD : SCHED_REASON_LANES;
}

static void fill(struct record *record, const struct launch *launch, const struct function *function,
                 const struct arguments *arguments, const struct lane *lane, uint64_t token)
{
    record->kind = RECORD_LAUNCH;
    record->glued = arguments->glued;
    record->extended = launch->extended;
    record->attribute_count = (uint8_t)launch->attribute_count;
    record->parameter_bytes = arguments->bytes;
    record->submit_ns = launch->begin_ns;
    record->corr = correlation(lane, token);
    record->launch.function = function;
    memcpy(record->launch.grid, launch->grid, sizeof(record->launch.grid));
    memcpy(record->launch.block, launch->block, sizeof(record->launch.block));
    record->launch.shared_bytes = launch->shared_bytes;
    record->launch.blocks_per_sm = occupancy(launch, function);
    if (launch->attribute_count > 0)
        memcpy((void *)record_attributes(record), launch->attributes,
               launch->attribute_count * sizeof(CUlaunchAttribute));
    launch_copy_parameters(record_parameters(record), launch, function, arguments);
}

static enum sched_reason hold(struct launch *launch)
{
    const struct function *function = NULL;
    struct arguments arguments = {0};
    struct lane *lane = NULL;
    enum sched_reason reason = examine(launch, &lane, &function, &arguments);
    struct remote_lane *remote;
    struct record *record;
    uint64_t token, corr;

    if (reason != HELD)
        return reason;
    remote = remote_lane_of(lane);
    if (remote) {
        launch->lane = lane;
        return remote_launch(remote, launch, function, &arguments);
    }
    order_around(lane);
    record = reserve(lane, record_bytes(launch->attribute_count, arguments.bytes), &token);
    if (unlikely(!record))
        return SCHED_REASON_TOO_LARGE;
    fill(record, launch, function, &arguments, lane, token);
    corr = record->corr;
    lane_commit(lane, record);
    launch->lane = lane;
    trace_caller(TRACE_SUBMIT, SCHED_REASON_IDLE, launch, function->name, lane->number, corr);
    return HELD;
}

/*
 * Gate mode: a record without arguments asks for the scheduler's word, and the calling thread issues the launch itself.
 * The wait is bounded by twice the hold cap: then the engine is not well, and the program must go on.
 */
static void pass_gate(const struct launch *launch)
{
    const struct function *function = NULL;
    struct arguments arguments = {0};
    struct lane *lane = NULL;
    uint64_t token, deadline = launch->begin_ns + 2 * shim_config.hold_cap_ns + 1000000;
    struct record *record;

    if (examine(launch, &lane, &function, &arguments) != HELD)
        return;
    order_around(lane);
    record = ring_reserve(&lane->ring, sizeof(*record), &token);
    if (!record)
        return;
    memset(record, 0, sizeof(*record));
    record->kind = RECORD_GATE;
    record->submit_ns = launch->begin_ns;
    record->corr = correlation(lane, token);
    record->launch.function = function;
    memcpy(record->launch.grid, launch->grid, sizeof(record->launch.grid));
    memcpy(record->launch.block, launch->block, sizeof(record->launch.block));
    record->launch.blocks_per_sm = occupancy(launch, function);
    lane_commit(lane, record);
    for (int spins = 0; ring_consumed(&lane->ring) < token; spins++) {
        if (spins % 64 != 63) {
            cpu_relax();
            continue;
        }
        sched_yield();
        if (clock_ns() > deadline)
            return;
    }
}

static const char *function_name(const struct launch *launch)
{
    const struct function *function = (void *)handle_map_get(&shim_engine->functions, (uint64_t)launch->function);

    return function ? function->name : "(a kernel whose parameters are not known)";
}

static enum sched_reason attempt(struct launch *launch)
{
    uint32_t mode = shim_mode();

    if (unlikely(shim_blocking))
        return SCHED_REASON_BLOCKING;
    if (likely(mode == MODE_FULL))
        return hold(launch);
    return mode == MODE_GATE ? SCHED_REASON_GATE : SCHED_REASON_MODE;
}

/*
 * A launch may record events. Such a launch is not held, but an earlier record of the event may still wait in some
 * lane: it must not be issued after this one, or it would be the latest.
 */
static void order_events(const struct launch *launch)
{
    for (uint32_t i = 0; launch->attributes && i < launch->attribute_count; i++) {
        const CUlaunchAttribute *attribute = &launch->attributes[i];
        CUevent event;

        if (attribute->id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT &&
            attribute->id != CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
            continue;
        memcpy(&event, attribute->value.pad, sizeof(event)); /* the first member of both */
        order_event(event, launch->entry);
        event_forget(event);
    }
}

/* Decides about a launch. True: it is held, and the call has succeeded. False: the caller issues it. */
static bool launch_is_held(struct launch *launch, enum sched_reason forced)
{
    enum sched_reason reason = forced;

    launch->begin_ns = clock_ns();
    if (forced == HELD)
        reason = attempt(launch);
    if (likely(reason == HELD))
        return true;
    if (likely(reason == SCHED_REASON_BROKER)) {
        trace_caller(TRACE_HOME, reason, launch, function_name(launch), launch->lane->number, 0);
        return true;
    }
    if (reason == SCHED_REASON_GATE)
        pass_gate(launch);
    order_stream(launch->stream, launch->entry);
    order_events(launch);
    trace_caller(TRACE_HOME, reason, launch, function_name(launch), UINT32_MAX, 0);
    return false;
}

/* A held launch succeeds, unless an earlier one of its context was refused when it was issued. */
static CUresult held_result(const struct launch *launch)
{
    uint32_t broken = atomic_load_explicit(&remote_broken, memory_order_relaxed);

    if (unlikely(broken))
        return (CUresult)broken;
    return context_take_error(launch->lane->context);
}

#define LAUNCH_WORDS(x, y, z) ((const uint32_t[3]){x, y, z})

static CUresult launch_kernel(typeof(shim_driver.cuLaunchKernel) real, enum cu_entry entry, bool zero_is_mine,
                              CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                              unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                              unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra)
{
    struct launch launch = {
        .function = f,
        .stream = {hStream, zero_is_mine},
        .grid = LAUNCH_WORDS(gridDimX, gridDimY, gridDimZ),
        .block = LAUNCH_WORDS(blockDimX, blockDimY, blockDimZ),
        .shared_bytes = sharedMemBytes,
        .parameters = kernelParams,
        .extra = extra,
        .entry = entry,
    };

    if (launch_is_held(&launch, HELD))
        return held_result(&launch);
    return order_result(real(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream,
                             kernelParams, extra));
}

SHIM_EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                                    unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                                    unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra)
{
    typeof(shim_driver.cuLaunchKernel) real = shim_real(cuLaunchKernel);

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream,
                    kernelParams, extra);
    return launch_kernel(real, CU_ID_cuLaunchKernel, false, f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,
                         blockDimZ, sharedMemBytes, hStream, kernelParams, extra);
}

SHIM_EXPORT CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                         unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                         unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                         void **kernelParams, void **extra)
{
    typeof(shim_driver.cuLaunchKernel_ptsz) real = shim_real(cuLaunchKernel_ptsz);

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream,
                    kernelParams, extra);
    return launch_kernel(real, CU_ID_cuLaunchKernel_ptsz, true, f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,
                         blockDimZ, sharedMemBytes, hStream, kernelParams, extra);
}

static CUresult launch_kernel_ex(typeof(shim_driver.cuLaunchKernelEx) real, enum cu_entry entry, bool zero_is_mine,
                                 const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
    struct launch launch;

    if (!config)
        return real(config, f, kernelParams, extra);
    launch = (struct launch){
        .function = f,
        .stream = {config->hStream, zero_is_mine},
        .grid = &config->gridDimX,
        .block = &config->blockDimX,
        .shared_bytes = config->sharedMemBytes,
        .parameters = kernelParams,
        .extra = extra,
        .attributes = config->attrs,
        .attribute_count = config->numAttrs,
        .extended = true,
        .entry = entry,
    };
    if (launch_is_held(&launch, HELD))
        return held_result(&launch);
    return order_result(real(config, f, kernelParams, extra));
}

SHIM_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
    typeof(shim_driver.cuLaunchKernelEx) real = shim_real(cuLaunchKernelEx);

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(config, f, kernelParams, extra);
    return launch_kernel_ex(real, CU_ID_cuLaunchKernelEx, false, config, f, kernelParams, extra);
}

SHIM_EXPORT CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                                           void **extra)
{
    typeof(shim_driver.cuLaunchKernelEx_ptsz) real = shim_real(cuLaunchKernelEx_ptsz);

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(config, f, kernelParams, extra);
    return launch_kernel_ex(real, CU_ID_cuLaunchKernelEx_ptsz, true, config, f, kernelParams, extra);
}

static CUresult launch_cooperative(typeof(shim_driver.cuLaunchCooperativeKernel) real, enum cu_entry entry,
                                   bool zero_is_mine, CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                   unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                   unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                   void **kernelParams)
{
    struct launch launch = {
        .function = f,
        .stream = {hStream, zero_is_mine},
        .grid = LAUNCH_WORDS(gridDimX, gridDimY, gridDimZ),
        .block = LAUNCH_WORDS(blockDimX, blockDimY, blockDimZ),
        .shared_bytes = sharedMemBytes,
        .entry = entry,
    };

    /* All blocks must be resident at once, so what it runs beside matters to more than speed. */
    (void)launch_is_held(&launch, SCHED_REASON_COOPERATIVE);
    return order_result(
        real(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams));
}

SHIM_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                               unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                               unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                               void **kernelParams)
{
    typeof(shim_driver.cuLaunchCooperativeKernel) real = shim_real(cuLaunchCooperativeKernel);

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream,
                    kernelParams);
    return launch_cooperative(real, CU_ID_cuLaunchCooperativeKernel, false, f, gridDimX, gridDimY, gridDimZ, blockDimX,
                              blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams);
}

SHIM_EXPORT CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                                    unsigned int gridDimZ, unsigned int blockDimX,
                                                    unsigned int blockDimY, unsigned int blockDimZ,
                                                    unsigned int sharedMemBytes, CUstream hStream, void **kernelParams)
{
    typeof(shim_driver.cuLaunchCooperativeKernel_ptsz) real = shim_real(cuLaunchCooperativeKernel_ptsz);

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream,
                    kernelParams);
    return launch_cooperative(real, CU_ID_cuLaunchCooperativeKernel_ptsz, true, f, gridDimX, gridDimY, gridDimZ,
                              blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams);
}

/*
 * Calls that are not launches but may wait in a lane: memsets, device-to-device copies, event records. Their wrappers
 * have made sure that the driver would take them, so that no error comes later than it would have.
 */
static struct lane *lane_that_holds(struct stream_key key)
{
    struct lane *lane;
    CUcontext context;

    if (shim_mode() != MODE_FULL || atomic_load_explicit(&shim_engine->captures, memory_order_relaxed) > 0 ||
        stream_is_per_thread(key))
        return NULL;
    context = order_current_context();
    lane = context ? lane_find(shim_engine, context, key.stream) : NULL;
    /* Behind nothing there is nothing to wait for: the call itself is as cheap as queueing it. */
    if (!lane || lane->context->handle != context || lane_is_settled(lane))
        return NULL;
    return lane;
}

bool launch_op_may_wait(struct stream_key key)
{
    return lane_that_holds(key) != NULL;
}

bool launch_queue_op(struct stream_key key, launch_op_fn issue, const char *name, const void *arguments, uint32_t bytes,
                     CUevent event)
{
    struct lane *lane = lane_that_holds(key);
    struct record *record;
    uint64_t token;

    if (!lane)
        return false;
    order_around(lane);
    record = ring_reserve(&lane->ring, record_bytes(0, bytes), &token);
    if (!record)
        return false;
    memset(record, 0, sizeof(*record));
    record->kind = RECORD_OP;
    record->parameter_bytes = bytes;
    record->submit_ns = clock_ns();
    record->corr = correlation(lane, token);
    record->op.issue = issue;
    record->op.name = name;
    memcpy(record_parameters(record), arguments, bytes);
    if (event && event_note(event, lane, token) < 0) {
        ring_cancel(&lane->ring, record);
        return false;
    }
    lane_commit(lane, record);
    return true;
}
