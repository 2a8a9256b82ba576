/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel launches: what the driver refuses at the call, the copy of the parameters, and running in the interpreter.
 */
#include "tests/simcuda/sim.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- parameters ---- */

static CUresult params_from_pointers(const struct ptx_kernel *kernel, unsigned char *to, void **params)
{
    for (unsigned i = 0; i < kernel->param_count; i++) {
        if (!params[i])
            return CUDA_ERROR_INVALID_VALUE;
        memcpy(to + kernel->params[i].offset, params[i], kernel->params[i].size);
    }
    return CUDA_SUCCESS;
}

static CUresult params_from_extra(const struct ptx_kernel *kernel, unsigned char *to, void **extra)
{
    const void *buffer = NULL;
    const size_t *size = NULL;

    while (*extra != CU_LAUNCH_PARAM_END) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
        extra += 2;
    }
    if (!buffer || !size)
        return kernel->param_count ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    /* Seen on an H200: one byte more than the end of the last parameter is 701, fewer are taken as they are. */
    if (!*size && kernel->param_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (*size > kernel->param_bytes)
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    memcpy(to, buffer, *size);
    return CUDA_SUCCESS;
}

/* ---- limits ---- */

/* Registers are handed out to warps in units of 256, warps in groups of 4 (one per scheduler). */
static unsigned warps_by_registers(const struct ptx_kernel *kernel, const struct sim_device_row *row)
{
    unsigned per_warp = (kernel->registers * 32 + 255) / 256 * 256;

    return (unsigned)row->regs_per_sm / per_warp / 4 * 4;
}

int sim_function_occupancy(const struct sim_function *function, unsigned threads, size_t dynamic)
{
    const struct sim_device_row *row = function->module->ctx->device->row;
    const struct ptx_kernel *kernel = function->kernel;
    unsigned warps = (threads + 31) / 32, blocks = (unsigned)row->max_blocks_per_sm, limit;
    size_t shared = (kernel->static_shared + dynamic + (size_t)row->shared_reserved + 127) / 128 * 128;

    if (!threads || threads > kernel->max_threads)
        return 0;
    limit = (unsigned)row->max_threads_per_sm / 32 / warps;
    blocks = limit < blocks ? limit : blocks;
    limit = warps_by_registers(kernel, row) / warps;
    blocks = limit < blocks ? limit : blocks;
    limit = (unsigned)((size_t)row->shared_per_sm / shared);
    blocks = limit < blocks ? limit : blocks;
    return (int)blocks;
}

static CUresult check_cluster(const struct sim_task *task, const struct sim_function *function)
{
    const struct sim_device_row *row = function->module->ctx->device->row;
    const unsigned *cluster = task->kernel.cluster;
    uint64_t blocks = (uint64_t)cluster[0] * cluster[1] * cluster[2];

    if (!blocks)
        return CUDA_SUCCESS;
    if (!row->cluster)
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    if (blocks > (function->nonportable_cluster ? 16u : (unsigned)row->cluster))
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    for (int i = 0; i < 3; i++)
        if (task->kernel.grid[i] % cluster[i])
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    return CUDA_SUCCESS;
}

static CUresult check_limits(const struct sim_task *task, const struct sim_function *function)
{
    const struct sim_device_row *row = function->module->ctx->device->row;
    const struct ptx_kernel *kernel = function->kernel;
    const unsigned *grid = task->kernel.grid, *block = task->kernel.block;
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    unsigned dynamic = task->kernel.shared;

    if (!grid[0] || !grid[1] || !grid[2] || grid[0] > 2147483647 || grid[1] > 65535 || grid[2] > 65535)
        return CUDA_ERROR_INVALID_VALUE;
    if (!threads || block[0] > 1024 || block[1] > 1024 || block[2] > 64 || threads > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    if (kernel->reqntid[0] &&
        (block[0] != kernel->reqntid[0] || block[1] != (kernel->reqntid[1] ? kernel->reqntid[1] : 1) ||
         block[2] != (kernel->reqntid[2] ? kernel->reqntid[2] : 1)))
        return CUDA_ERROR_INVALID_VALUE;
    if (kernel->maxntid[0]) {
        uint64_t most = (uint64_t)kernel->maxntid[0] * (kernel->maxntid[1] ? kernel->maxntid[1] : 1) *
                        (kernel->maxntid[2] ? kernel->maxntid[2] : 1);

        if (threads > most)
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (dynamic > (unsigned)function->max_dynamic_shared ||
        dynamic + kernel->static_shared > (unsigned)row->shared_optin)
        return CUDA_ERROR_INVALID_VALUE;
    if ((threads + 31) / 32 > warps_by_registers(kernel, row))
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (task->kernel.cooperative) {
        uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
        int per_sm = sim_function_occupancy(function, (unsigned)threads, dynamic);

        if (blocks > (uint64_t)per_sm * (uint64_t)row->sms)
            return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    }
    return check_cluster(task, function);
}

/* ---- the task ---- */

static CUresult apply_attributes(struct sim_task *task, const CUlaunchAttribute *attributes, unsigned count)
{
    if (count && !attributes)
        return CUDA_ERROR_INVALID_VALUE;
    task->kernel.attributes = malloc((count + 1) * sizeof(*attributes));
    if (!task->kernel.attributes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (count)
        memcpy(task->kernel.attributes, attributes, count * sizeof(*attributes));
    task->kernel.attribute_count = count;
    for (unsigned i = 0; i < count; i++) {
        if (attributes[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
            task->kernel.cooperative = attributes[i].value.cooperative != 0;
        else if (attributes[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            memcpy(task->kernel.cluster, attributes[i].value.pad, sizeof(task->kernel.cluster));
    }
    return CUDA_SUCCESS;
}

CUresult sim_kernel_task(struct sim_task *task, struct sim_function *function, const unsigned grid[3],
                         const unsigned block[3], unsigned shared, void **params, void **extra,
                         const CUlaunchAttribute *attributes, unsigned attribute_count)
{
    const struct ptx_kernel *kernel = function->kernel;
    CUresult result;

    memset(task, 0, sizeof(*task));
    task->type = SIM_TASK_KERNEL;
    task->kernel.function = function;
    memcpy(task->kernel.grid, grid, sizeof(task->kernel.grid));
    memcpy(task->kernel.block, block, sizeof(task->kernel.block));
    memcpy(task->kernel.cluster, kernel->reqnctapercluster, sizeof(task->kernel.cluster));
    task->kernel.shared = shared;
    result = apply_attributes(task, attributes, attribute_count);
    if (!result)
        result = check_limits(task, function);
    if (!result)
        result = sim_function_load(function);
    if (!result && ((params && extra) || (!params && !extra && kernel->param_count)))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        goto fail;
    result = CUDA_ERROR_OUT_OF_MEMORY;
    task->kernel.params_size = kernel->param_bytes;
    task->kernel.params = calloc(1, (size_t)kernel->param_bytes + 8);
    task->kernel.pointers = malloc((kernel->param_count + 1) * sizeof(void *));
    if (!task->kernel.params || !task->kernel.pointers)
        goto fail;
    for (unsigned i = 0; i < kernel->param_count; i++)
        task->kernel.pointers[i] = task->kernel.params + kernel->params[i].offset;
    result = CUDA_SUCCESS;
    if (params)
        result = params_from_pointers(kernel, task->kernel.params, params);
    else if (extra)
        result = params_from_extra(kernel, task->kernel.params, extra);
    if (!result)
        return CUDA_SUCCESS;
fail:
    sim_task_finish(task);
    return result;
}

/* ---- running ---- */

static bool may_access(void *arg, uint64_t address, size_t bytes, bool write, struct ptx_range *range)
{
    (void)arg;
    return sim_memory_ok(address, bytes, write, range);
}

/* %globaltimer. Kernels that wait read it in their loop; with more of them than processors they would keep the very
 * thread from running that is to release them, so they give way. */
static uint64_t device_clock(void *arg)
{
    static __thread unsigned reads;
    struct timespec now;

    (void)arg;
    if (++reads % 16 == 0 && sim_running_ops() > 1)
        sched_yield();
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static CUresult fault_code(enum ptx_fault_kind kind)
{
    switch (kind) {
    case PTX_FAULT_ILLEGAL_ADDRESS:
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    case PTX_FAULT_MISALIGNED:
        return CUDA_ERROR_MISALIGNED_ADDRESS;
    case PTX_FAULT_ASSERT:
        return CUDA_ERROR_ASSERT;
    case PTX_FAULT_BAD_CALL:
        return CUDA_ERROR_INVALID_PC;
    default:
        return CUDA_ERROR_LAUNCH_FAILED;
    }
}

void sim_kernel_run(const struct sim_task *task, struct sim_ctx *ctx)
{
    static _Atomic uint64_t grid_ids;
    const struct sim_function *function = task->kernel.function;
    const struct sim_device_row *row = ctx->device->row;
    const unsigned *grid = task->kernel.grid, *block = task->kernel.block;
    uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2], began = sim_now_ns(), resident;
    int per_sm = sim_function_occupancy(function, block[0] * block[1] * block[2], task->kernel.shared);
    struct ptx_stats stats = {0};
    struct ptx_fault fault;
    struct ptx_launch launch = {
        .grid = {grid[0], grid[1], grid[2]},
        .block = {block[0], block[1], block[2]},
        .cluster = {task->kernel.cluster[0], task->kernel.cluster[1], task->kernel.cluster[2]},
        .dynamic_shared = task->kernel.shared,
        .params = task->kernel.params,
        .params_size = task->kernel.params_size,
        .stack_bytes = (uint32_t)ctx->limits[0],
        .sm_count = (uint32_t)row->sms,
        .grid_id = atomic_fetch_add_explicit(&grid_ids, 1, memory_order_relaxed) + 1,
        .may_access = may_access,
        .now_ns = device_clock,
        .abort = &ctx->abort,
        .stats = &stats,
    };
    int code;

    /* As many blocks at once as the device would hold: kernels with barriers of their own rely on it. */
    resident = (uint64_t)(per_sm > 0 ? per_sm : 1) * (uint64_t)row->sms;
    launch.concurrent_blocks = (uint32_t)(blocks < resident ? blocks : resident);
    code = ptx_run(function->module->instance, function->index, &launch, &fault);
    if (code == -EFAULT || code == -EINVAL || code == -ENOMEM) {
        CUresult result = code == -EFAULT ? fault_code(fault.kind) : CUDA_ERROR_LAUNCH_FAILED;

        fprintf(stderr, "simcuda: kernel %s: %s\n", function->kernel->name,
                code == -ENOMEM ? "the simulator is out of memory" : fault.text);
        sim_context_fail(ctx, result);
        return;
    }
    sim_time_kernel(ctx->device, blocks, (unsigned)(per_sm > 0 ? per_sm : 1),
                    (block[0] * block[1] * block[2] + 31) / 32, &stats, began);
}

/* ---- entry points ---- */

/* The events that a launch may carry are recorded behind the kernel. A real device may record them earlier. */
static CUresult record_launch_events(struct sim_stream *stream, const CUlaunchAttribute *attributes, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct sim_event *event;
        struct sim_op *op;
        CUevent handle;
        CUresult result;

        if (attributes[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT &&
            attributes[i].id != CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
            continue;
        memcpy(&handle, attributes[i].value.pad, sizeof(handle));
        result = sim_event_get(handle, &event);
        if (result)
            return result;
        if (stream->capture) {
            result = sim_capture_record(stream, event);
            if (result)
                return result;
            continue;
        }
        op = sim_op_create(sizeof(*op), stream->ctx, NULL);
        if (!op)
            return CUDA_ERROR_OUT_OF_MEMORY;
        sim_event_set_record(event, op);
        sim_op_follow(op, stream->last);
        sim_op_arm(op);
        sim_op_unref(op);
    }
    return CUDA_SUCCESS;
}

static CUresult check_events(const CUlaunchAttribute *attributes, unsigned count)
{
    for (unsigned i = 0; i < count && attributes; i++) {
        CUevent handle;

        if (attributes[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT &&
            attributes[i].id != CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
            continue;
        memcpy(&handle, attributes[i].value.pad, sizeof(handle));
        if (!sim_object_is(handle, SIM_EVENT))
            return CUDA_ERROR_INVALID_HANDLE;
    }
    return CUDA_SUCCESS;
}

static CUresult launch(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    const unsigned grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
    const unsigned block[3] = {config->blockDimX, config->blockDimY, config->blockDimZ};
    struct sim_function *function;
    struct sim_stream *stream;
    struct sim_task task;
    CUresult result;

    sim_time_launch_cost();
    SIM_GUARD;
    result = sim_stream_find(config->hStream, &stream);
    if (!result)
        result = sim_function_get(f, &function);
    if (result)
        return result;
    if (function->module->ctx != stream->ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_note("grid=%u,%u,%u block=%u,%u,%u stream=%llu %s", grid[0], grid[1], grid[2], block[0], block[1], block[2],
             (unsigned long long)stream->id, function->kernel->name);
    result = check_events(config->attrs, config->numAttrs);
    if (!result)
        result = sim_kernel_task(&task, function, grid, block, config->sharedMemBytes, params, extra, config->attrs,
                                 config->numAttrs);
    if (result)
        return result;
    if (stream->legacy) {
        result = sim_capture_legacy(stream->ctx);
        if (result) {
            sim_task_finish(&task);
            return result;
        }
    }
    result = sim_enqueue(stream, &task, NULL);
    return result ? result : record_launch_events(stream, config->attrs, config->numAttrs);
}

CUresult sim_cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                            unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                            unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra)
{
    CUlaunchConfig config = {.gridDimX = gridDimX,
                             .gridDimY = gridDimY,
                             .gridDimZ = gridDimZ,
                             .blockDimX = blockDimX,
                             .blockDimY = blockDimY,
                             .blockDimZ = blockDimZ,
                             .sharedMemBytes = sharedMemBytes,
                             .hStream = hStream};

    return launch(&config, f, kernelParams, extra);
}

CUresult sim_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
    return config ? launch(config, f, kernelParams, extra) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                       unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                       unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                       void **kernelParams)
{
    CUlaunchAttribute cooperative = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 1}};
    CUlaunchConfig config = {.gridDimX = gridDimX,
                             .gridDimY = gridDimY,
                             .gridDimZ = gridDimZ,
                             .blockDimX = blockDimX,
                             .blockDimY = blockDimY,
                             .blockDimZ = blockDimZ,
                             .sharedMemBytes = sharedMemBytes,
                             .hStream = hStream,
                             .attrs = &cooperative,
                             .numAttrs = 1};

    return launch(&config, f, kernelParams, NULL);
}

/* ---- occupancy ---- */

CUresult sim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func, int blockSize,
                                                                  size_t dynamicSMemSize, unsigned int flags)
{
    struct sim_function *function;
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (!result)
        result = sim_function_get(func, &function);
    if (result)
        return result;
    if (!numBlocks || blockSize <= 0 || (flags & ~1u))
        return CUDA_ERROR_INVALID_VALUE;
    *numBlocks = sim_function_occupancy(function, (unsigned)blockSize, dynamicSMemSize);
    return CUDA_SUCCESS;
}

CUresult sim_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize,
                                                         size_t dynamicSMemSize)
{
    return sim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize, dynamicSMemSize, 0);
}

CUresult sim_cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, CUfunction func,
                                                       CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                       size_t dynamicSMemSize, int blockSizeLimit, unsigned int flags)
{
    struct sim_function *function;
    struct sim_ctx *ctx;
    CUresult result;
    int best = 0, best_size = 0, best_blocks = 0, most;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (!result)
        result = sim_function_get(func, &function);
    if (result)
        return result;
    if (!minGridSize || !blockSize || (flags & ~1u))
        return CUDA_ERROR_INVALID_VALUE;
    most = (int)function->kernel->max_threads;
    if (blockSizeLimit > 0 && blockSizeLimit < most)
        most = blockSizeLimit;
    for (int size = most; size > 0; size = size % 32 ? size / 32 * 32 : size - 32) {
        size_t dynamic = blockSizeToDynamicSMemSize ? blockSizeToDynamicSMemSize(size) : dynamicSMemSize;
        int blocks = sim_function_occupancy(function, (unsigned)size, dynamic);

        if (blocks * size > best) {
            best = blocks * size;
            best_size = size;
            best_blocks = blocks;
        }
    }
    *blockSize = best_size;
    *minGridSize = best_blocks * ctx->device->row->sms;
    return CUDA_SUCCESS;
}

CUresult sim_cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
                                              CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
                                              int blockSizeLimit)
{
    return sim_cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, func, blockSizeToDynamicSMemSize,
                                                         dynamicSMemSize, blockSizeLimit, 0);
}

CUresult sim_cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func, int numBlocks,
                                                     int blockSize)
{
    struct sim_function *function;
    struct sim_ctx *ctx;
    const struct sim_device_row *row;
    CUresult result;
    size_t per_block, used;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (!result)
        result = sim_function_get(func, &function);
    if (result)
        return result;
    if (!dynamicSmemSize || numBlocks <= 0 || blockSize <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    row = ctx->device->row;
    if (sim_function_occupancy(function, (unsigned)blockSize, 0) < numBlocks)
        return CUDA_ERROR_INVALID_VALUE;
    /* As an H200: what the driver reserves per block is not taken off. */
    per_block = (size_t)row->shared_per_sm / (size_t)numBlocks / 128 * 128;
    used = function->kernel->static_shared;
    *dynamicSmemSize = per_block > used ? per_block - used : 0;
    if (*dynamicSmemSize > (size_t)function->max_dynamic_shared)
        *dynamicSmemSize = (size_t)function->max_dynamic_shared;
    return CUDA_SUCCESS;
}

CUresult sim_cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func, const CUlaunchConfig *config)
{
    struct sim_function *function;
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (!result)
        result = sim_function_get(func, &function);
    if (result)
        return result;
    if (!clusterSize || !config || !ctx->device->row->cluster)
        return CUDA_ERROR_INVALID_VALUE;
    *clusterSize = function->nonportable_cluster ? 16 : ctx->device->row->cluster;
    return CUDA_SUCCESS;
}

CUresult sim_cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func, const CUlaunchConfig *config)
{
    struct sim_function *function;
    struct sim_ctx *ctx;
    unsigned cluster[3] = {1, 1, 1};
    CUresult result;
    int per_sm;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (!result)
        result = sim_function_get(func, &function);
    if (result)
        return result;
    if (!numClusters || !config || !ctx->device->row->cluster)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            memcpy(cluster, config->attrs[i].value.pad, sizeof(cluster));
    if (!cluster[0] || !cluster[1] || !cluster[2])
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    per_sm = sim_function_occupancy(function, config->blockDimX * config->blockDimY * config->blockDimZ,
                                    config->sharedMemBytes);
    /* Simple: ignores that the blocks of a cluster share one group of SMs. */
    *numClusters = per_sm * ctx->device->row->sms / (int)(cluster[0] * cluster[1] * cluster[2]);
    return CUDA_SUCCESS;
}
