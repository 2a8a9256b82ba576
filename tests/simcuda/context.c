/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts, primary contexts and each thread's stack of them.
 *
 * A context is never freed: a thread may still have it on its stack long after another one destroyed it, and must then
 * hear CONTEXT_IS_DESTROYED. There are few of them in a process.
 */
#include "tests/simcuda/sim.h"

#include <stdlib.h>
#include <string.h>

/* Flags that cuCtxCreate takes: CU_CTX_SCHED_*, MAP_HOST, LMEM_RESIZE_TO_MAX, COREDUMP, USER_COREDUMP, SYNC_MEMOPS. */
enum { FLAGS_ALL = 0xff, LIMIT_COUNT = 10 };

static bool start_context(struct sim_ctx *ctx, unsigned flags)
{
    ctx->dead = false;
    ctx->flags = flags;
    ctx->id = ++sim.next_id;
    atomic_store(&ctx->error, CUDA_SUCCESS);
    __atomic_store_n(&ctx->abort, false, __ATOMIC_RELEASE); /* read by the interpreter */
    memset(ctx->limits, 0, sizeof(ctx->limits));
    ctx->limits[0] = 1024;                                   /* STACK_SIZE; these are the answers of an H200 */
    ctx->limits[1] = 8650752;                                /* PRINTF_FIFO_SIZE */
    ctx->limits[2] = 8388608;                                /* MALLOC_HEAP_SIZE */
    ctx->limits[4] = 2048;                                   /* DEV_RUNTIME_PENDING_LAUNCH_COUNT */
    ctx->limits[5] = 64;                                     /* MAX_L2_FETCH_GRANULARITY */
    ctx->limits[6] = 11796480;                               /* PERSISTING_L2_CACHE_SIZE */
    ctx->limits[7] = (size_t)ctx->device->row->shared_optin; /* SHMEM_SIZE */
    ctx->legacy = sim_stream_create(ctx, 0, 0);
    if (!ctx->legacy)
        return false;
    ctx->legacy->legacy = true;
    return true;
}

static struct sim_ctx *context_new(struct sim_device *device, unsigned flags, bool primary)
{
    struct sim_ctx *ctx = sim_object_create(SIM_CONTEXT, sizeof(*ctx));

    if (!ctx)
        return NULL;
    ctx->device = device;
    ctx->primary = primary;
    ctx->next = atomic_load(&sim.contexts);
    atomic_store(&sim.contexts, ctx);
    if (!start_context(ctx, flags)) {
        ctx->dead = true;
        return NULL;
    }
    return ctx;
}

CUresult sim_context_wait(struct sim_ctx *ctx)
{
    struct sim_stream *stream = ctx->streams;
    struct sim_op **ops = NULL;
    size_t count = 0, room = 0;

    /* First note what is in flight now, then wait: the list may change while we do. */
    for (; stream; stream = stream->next) {
        if (!stream->last)
            continue;
        if (count == room) {
            struct sim_op **more = realloc(ops, (room = room * 2 + 16) * sizeof(*ops));

            if (!more) {
                for (size_t i = 0; i < count; i++)
                    sim_op_unref(ops[i]);
                free(ops);
                return CUDA_ERROR_OUT_OF_MEMORY;
            }
            ops = more;
        }
        ops[count++] = sim_op_ref(stream->last);
    }
    for (size_t i = 0; i < count; i++) {
        sim_op_wait(ops[i]);
        sim_op_unref(ops[i]);
    }
    free(ops);
    return atomic_load(&ctx->error);
}

void sim_context_fail(struct sim_ctx *failed, CUresult error)
{
    struct sim_device *device = failed->device;
    CUresult none = CUDA_SUCCESS;

    /* The list of contexts only grows, at its head, and no context is ever freed: no lock is needed to walk it. A
     * context that is made meanwhile asks for the device's error itself. */
    atomic_compare_exchange_strong(&device->fault, &none, error);
    for (struct sim_ctx *ctx = atomic_load(&sim.contexts); ctx; ctx = ctx->next) {
        if (ctx->device != device)
            continue;
        none = CUDA_SUCCESS;
        if (atomic_compare_exchange_strong(&ctx->error, &none, atomic_load(&device->fault)))
            __atomic_store_n(&ctx->abort, true, __ATOMIC_RELEASE); /* read by the interpreter and by value waits */
    }
}

static void end_context(struct sim_ctx *ctx)
{
    sim_context_wait(ctx);
    ctx->dead = true;
    while (ctx->streams)
        sim_stream_free(ctx->streams);
    ctx->legacy = NULL;
    while (ctx->modules)
        sim_module_free(ctx->modules);
    sim_memory_drop_context(ctx);
}

CUresult sim_context_plain(struct sim_ctx **out)
{
    struct sim_thread *thread = sim_thread();
    struct sim_ctx *ctx = thread->depth ? thread->stack[thread->depth - 1] : NULL;

    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (ctx->dead)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *out = ctx;
    return CUDA_SUCCESS;
}

CUresult sim_context(struct sim_ctx **ctx)
{
    CUresult result = sim_context_plain(ctx);

    return result ? result : atomic_load(&(*ctx)->error);
}

CUresult sim_context_get(CUcontext handle, struct sim_ctx **ctx)
{
    if (!handle || !sim_object_is(handle, SIM_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    *ctx = (struct sim_ctx *)handle;
    return (*ctx)->dead ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

static CUresult push(struct sim_thread *thread, struct sim_ctx *ctx)
{
    if (thread->depth == thread->room) {
        unsigned room = thread->room ? thread->room * 2 : 8;
        struct sim_ctx **stack = realloc(thread->stack, room * sizeof(*stack));

        if (!stack)
            return CUDA_ERROR_OUT_OF_MEMORY;
        thread->stack = stack;
        thread->room = room;
    }
    thread->stack[thread->depth++] = ctx;
    return CUDA_SUCCESS;
}

/* ---- own contexts ---- */

CUresult sim_cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    struct sim_device *device;
    struct sim_ctx *ctx;
    CUresult result;

    if (!pctx || (flags & ~FLAGS_ALL) || (flags & 7) == 3 || (flags & 7) > 4)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_GUARD;
    result = sim_device_get(dev, &device);
    if (!result)
        result = atomic_load(&device->fault);
    if (result)
        return result;
    ctx = context_new(device, flags, false);
    if (!ctx)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = push(sim_thread(), ctx);
    if (result) {
        end_context(ctx);
        return result;
    }
    *pctx = (CUcontext)ctx;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    return sim_cuCtxCreate_v2(pctx, flags, dev);
}

CUresult sim_cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags,
                            CUdevice dev)
{
    if (paramsArray || numParams)
        return CUDA_ERROR_NOT_SUPPORTED; /* execution affinity needs MPS */
    return sim_cuCtxCreate_v2(pctx, flags, dev);
}

CUresult sim_cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev)
{
    if (ctxCreateParams) {
        /* {execAffinityParams, numExecAffinityParams, cigParams}: all empty is the same as none. */
        struct {
            void *affinity;
            int count;
            void *cig;
        } given;

        memcpy(&given, ctxCreateParams, sizeof(given));
        if (given.affinity || given.count || given.cig)
            return CUDA_ERROR_NOT_SUPPORTED;
    }
    return sim_cuCtxCreate_v2(pctx, flags, dev);
}

CUresult sim_cuCtxDestroy_v2(CUcontext handle)
{
    struct sim_thread *thread = sim_thread();
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context_get(handle, &ctx);
    if (result)
        return result;
    if (ctx->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    end_context(ctx);
    if (thread->depth && thread->stack[thread->depth - 1] == ctx)
        thread->depth--;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxDestroy(CUcontext ctx)
{
    return sim_cuCtxDestroy_v2(ctx);
}

CUresult sim_cuCtxPushCurrent_v2(CUcontext handle)
{
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context_get(handle, &ctx);
    if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED)
        result = CUDA_SUCCESS; /* the next call that needs it will tell */
    return result ? result : push(sim_thread(), ctx);
}

CUresult sim_cuCtxPushCurrent(CUcontext ctx)
{
    return sim_cuCtxPushCurrent_v2(ctx);
}

CUresult sim_cuCtxPopCurrent_v2(CUcontext *pctx)
{
    struct sim_thread *thread = sim_thread();

    SIM_GUARD;
    if (!thread->depth || !thread->stack[thread->depth - 1])
        return CUDA_ERROR_INVALID_CONTEXT;
    thread->depth--;
    if (pctx)
        *pctx = (CUcontext)thread->stack[thread->depth];
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxPopCurrent(CUcontext *pctx)
{
    return sim_cuCtxPopCurrent_v2(pctx);
}

CUresult sim_cuCtxSetCurrent(CUcontext handle)
{
    struct sim_thread *thread = sim_thread();
    struct sim_ctx *ctx = NULL;

    SIM_GUARD;
    if (!handle) {
        if (thread->depth)
            thread->depth--;
        return CUDA_SUCCESS;
    }
    if (!sim_object_is(handle, SIM_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    ctx = (struct sim_ctx *)handle;
    if (!thread->depth)
        return push(thread, ctx);
    thread->stack[thread->depth - 1] = ctx;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetCurrent(CUcontext *pctx)
{
    struct sim_thread *thread = sim_thread();

    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    *pctx = thread->depth ? (CUcontext)thread->stack[thread->depth - 1] : NULL;
    return CUDA_SUCCESS;
}

/* The given context, or the current one for NULL. */
static CUresult this_or_current(CUcontext handle, struct sim_ctx **ctx)
{
    return handle ? sim_context_get(handle, ctx) : sim_context_plain(ctx);
}

CUresult sim_cuCtxGetDevice_v2(CUdevice *device, CUcontext handle)
{
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = this_or_current(handle, &ctx);
    if (result)
        return result;
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = ctx->device->ordinal;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetDevice(CUdevice *device)
{
    return sim_cuCtxGetDevice_v2(device, NULL);
}

CUresult sim_cuCtxSynchronize_v2(CUcontext handle)
{
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = this_or_current(handle, &ctx);
    if (!result)
        result = atomic_load(&ctx->error);
    if (!result)
        result = sim_capture_context(ctx);
    return result ? result : sim_context_wait(ctx);
}

CUresult sim_cuCtxSynchronize(void)
{
    return sim_cuCtxSynchronize_v2(NULL);
}

CUresult sim_cuCtxGetFlags(unsigned int *flags)
{
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context_plain(&ctx);
    if (result)
        return result;
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = ctx->flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetFlags(unsigned int flags)
{
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context_plain(&ctx);
    if (result)
        return result;
    if (flags & ~FLAGS_ALL)
        return CUDA_ERROR_INVALID_VALUE;
    ctx->flags = flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetId(CUcontext handle, unsigned long long *ctxId)
{
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = this_or_current(handle, &ctx);
    if (result)
        return result;
    if (!ctxId)
        return CUDA_ERROR_INVALID_VALUE;
    *ctxId = ctx->id;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetApiVersion(CUcontext handle, unsigned int *version)
{
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = this_or_current(handle, &ctx);
    if (result)
        return result;
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = 3020; /* what the driver says for all contexts made by cuCtxCreate_v2 and later */
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context_plain(&ctx);
    if (result)
        return result;
    if (leastPriority)
        *leastPriority = 0;
    if (greatestPriority)
        *greatestPriority = -5;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetLimit(CUlimit limit, size_t value)
{
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (result)
        return result;
    if (limit >= LIMIT_COUNT)
        return CUDA_ERROR_INVALID_VALUE;
    if (limit == 3 || limit >= 7) /* DEV_RUNTIME_SYNC_DEPTH; those that can only be asked */
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    result = sim_capture_unsafe();
    if (!result)
        result = sim_context_wait(ctx);
    if (result)
        return result;
    ctx->limits[limit] = value;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (result)
        return result;
    if (!pvalue || limit >= LIMIT_COUNT)
        return CUDA_ERROR_INVALID_VALUE;
    if (limit == 3 || limit == 9) /* DEV_RUNTIME_SYNC_DEPTH, CIG_SHMEM_FALLBACK_ENABLED */
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *pvalue = ctx->limits[limit];
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (result)
        return result;
    if (!pconfig)
        return CUDA_ERROR_INVALID_VALUE;
    *pconfig = ctx->cache;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetCacheConfig(CUfunc_cache config)
{
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (result)
        return result;
    if (config > 3)
        return CUDA_ERROR_INVALID_VALUE;
    ctx->cache = config;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetSharedMemConfig(CUsharedconfig *pConfig)
{
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (result)
        return result;
    if (!pConfig)
        return CUDA_ERROR_INVALID_VALUE;
    *pConfig = 1; /* four-byte banks; newer devices know no other */
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    struct sim_ctx *ctx;

    (void)config;
    SIM_GUARD;
    return sim_context(&ctx);
}

CUresult sim_cuCtxResetPersistingL2Cache(void)
{
    struct sim_ctx *ctx;

    SIM_GUARD;
    return sim_context(&ctx);
}

static CUresult peer_access(CUcontext peer, bool enable)
{
    struct sim_ctx *ctx, *other;
    CUresult result;
    unsigned bit;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (!result)
        result = sim_context_get(peer, &other);
    if (result)
        return result;
    if (other->device == ctx->device)
        return CUDA_ERROR_INVALID_DEVICE;
    bit = 1u << other->device->ordinal;
    if (enable && (ctx->peers & bit))
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    if (!enable && !(ctx->peers & bit))
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    ctx->peers ^= bit;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
    return Flags ? CUDA_ERROR_INVALID_VALUE : peer_access(peerContext, true);
}

CUresult sim_cuCtxDisablePeerAccess(CUcontext peerContext)
{
    return peer_access(peerContext, false);
}

/* ---- primary contexts ---- */

CUresult sim_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    struct sim_device *device;
    CUresult result;

    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_GUARD;
    result = sim_device_get(dev, &device);
    if (!result)
        result = atomic_load(&device->fault);
    if (result)
        return result;
    if (!device->primary)
        device->primary = context_new(device, device->primary_flags, true);
    else if (device->primary->dead && !start_context(device->primary, device->primary_flags))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!device->primary)
        return CUDA_ERROR_OUT_OF_MEMORY;
    device->primary_refs++;
    *pctx = (CUcontext)device->primary;
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    struct sim_device *device;
    CUresult result;

    SIM_GUARD;
    result = sim_device_get(dev, &device);
    if (result)
        return result;
    if (!device->primary_refs)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--device->primary_refs == 0)
        end_context(device->primary);
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxRelease(CUdevice dev)
{
    return sim_cuDevicePrimaryCtxRelease_v2(dev);
}

CUresult sim_cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    struct sim_device *device;
    CUresult result;

    SIM_GUARD;
    result = sim_device_get(dev, &device);
    if (result)
        return result;
    if (device->primary && !device->primary->dead)
        end_context(device->primary); /* who retained it still has to release it */
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxReset(CUdevice dev)
{
    return sim_cuDevicePrimaryCtxReset_v2(dev);
}

CUresult sim_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    struct sim_device *device;
    CUresult result;

    SIM_GUARD;
    result = sim_device_get(dev, &device);
    if (result)
        return result;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    *active = device->primary && !device->primary->dead;
    *flags = *active ? device->primary->flags : device->primary_flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
    struct sim_device *device;
    CUresult result;

    SIM_GUARD;
    result = sim_device_get(dev, &device);
    if (result)
        return result;
    if (flags & ~FLAGS_ALL)
        return CUDA_ERROR_INVALID_VALUE;
    device->primary_flags = flags;
    if (device->primary && !device->primary->dead)
        device->primary->flags = flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
    return sim_cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}
