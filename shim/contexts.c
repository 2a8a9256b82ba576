/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts: synchronisation and the ways in which they end. A context that ends takes its streams, modules and
 * functions with it, so everything held is issued, its lanes are given up and all function knowledge is asked for anew.
 */
#include "shim/remote.h"

#include "engine/function.h"
#include "shim/remote.h"

/* What had been issued in each lane of a context when somebody began to wait for the context. */
struct progress {
    struct context *context;
    uint32_t top; /* lanes that there were then; one that comes later has nothing that was waited for */
    uint64_t issued[SCHED_LANES_MAX];
};

static void progress_read(struct progress *progress, CUcontext handle)
{
    progress->context = context_find(shim_engine, handle ? handle : order_current_context());
    if (!progress->context)
        return;
    progress->top = device_lane_top(progress->context->device);
    for (uint32_t i = 0; i < progress->top; i++)
        progress->issued[i] =
            atomic_load_explicit(&device_lane(progress->context->device, i)->issued, memory_order_acquire);
}

static void progress_synced(const struct progress *progress)
{
    for (uint32_t i = 0; progress->context && i < progress->top; i++) {
        struct lane *lane = device_lane(progress->context->device, i);

        if (lane->context == progress->context && atomic_load_explicit(&lane->state, memory_order_acquire) == LANE_LIVE)
            lane_synced(lane, progress->issued[i]);
    }
}

SHIM_EXPORT CUresult cuCtxSynchronize(void)
{
    typeof(shim_driver.cuCtxSynchronize) real = shim_real(cuCtxSynchronize);
    struct progress progress;
    CUresult result;

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real();
    order_context(NULL, CU_ID_cuCtxSynchronize);
    progress_read(&progress, NULL);
    result = real();
    if (result == CUDA_SUCCESS)
        progress_synced(&progress);
    return order_result(result);
}

/* The form that cuGetProcAddress gives from CUDA 13.0 on: it names the context. */
SHIM_EXPORT CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
    typeof(shim_driver.cuCtxSynchronize_v2) real = shim_real(cuCtxSynchronize_v2);
    struct progress progress;
    CUresult result;

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(ctx);
    order_context(ctx, CU_ID_cuCtxSynchronize_v2);
    progress_read(&progress, ctx);
    result = real(ctx);
    if (result == CUDA_SUCCESS)
        progress_synced(&progress);
    return order_result(result);
}

/* Issues everything and gives up what we know of `context`. */
static void leave(CUcontext context, enum cu_entry entry)
{
    order_all(entry);
    remote_context_ends(context);
    context_end(shim_engine, context);
    function_forget_all(shim_engine);
}

#define CONTEXT_ENDS(symbol, memory_ends)                                                                              \
    SHIM_EXPORT CUresult symbol(CUcontext ctx)                                                                         \
    {                                                                                                                  \
        typeof(shim_driver.symbol) real = shim_real(symbol);                                                           \
        CUresult result;                                                                                               \
                                                                                                                       \
        if (unlikely(!real))                                                                                           \
            return SHIM_NO_DRIVER;                                                                                     \
        if (!shim_active())                                                                                            \
            return real(ctx);                                                                                          \
        leave(ctx, CU_ID_##symbol);                                                                                    \
        memory_ends;                                                                                                   \
        result = real(ctx);                                                                                            \
        function_forget_all(shim_engine);                                                                              \
        return result;                                                                                                 \
    }

CONTEXT_ENDS(cuCtxDestroy, remote_memory_context_ends(ctx))
CONTEXT_ENDS(cuCtxDestroy_v2, remote_memory_context_ends(ctx))
CONTEXT_ENDS(cuCtxDetach, (void)0) /* it may live on; what it had then stays until the process ends */

SHIM_EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx hCtx)
{
    typeof(shim_driver.cuGreenCtxDestroy) real = shim_real(cuGreenCtxDestroy);
    CUcontext context = NULL;
    CUresult result;

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(hCtx);
    if (shim_driver.cuCtxFromGreenCtx)
        shim_driver.cuCtxFromGreenCtx(&context, hCtx);
    leave(context, CU_ID_cuGreenCtxDestroy);
    result = real(hCtx);
    function_forget_all(shim_engine);
    return result;
}

/*
 * A primary context ends with its last reference, or when it is reset. Which of our contexts it is, the driver does not
 * say without taking a reference, so all contexts of the device are given up: for one that lives on this costs setting
 * up its lanes again at the next launch.
 */
static void primary_ends(CUdevice device, enum cu_entry entry)
{
    order_all(entry);
    for (int i = 0; i < ENGINE_CONTEXTS_MAX; i++) {
        struct context *context = &shim_engine->contexts[i];
        CUcontext handle = __atomic_load_n(&context->handle, __ATOMIC_ACQUIRE);

        if (handle && context->ordinal == device) {
            remote_context_ends(handle);
            context_end(shim_engine, handle);
        }
    }
    function_forget_all(shim_engine);
}

/* The call is over. If this was not the last reference, the context and its memory live on. */
static void primary_ended(CUdevice device, CUcontext primary)
{
    unsigned int flags;
    int active = 0;

    if (primary && shim_driver.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && !active)
        remote_memory_context_ends(primary);
}

#define PRIMARY_ENDS(symbol)                                                                                           \
    SHIM_EXPORT CUresult symbol(CUdevice dev)                                                                          \
    {                                                                                                                  \
        typeof(shim_driver.symbol) real = shim_real(symbol);                                                           \
        CUcontext primary;                                                                                             \
        CUresult result;                                                                                               \
                                                                                                                       \
        if (unlikely(!real))                                                                                           \
            return SHIM_NO_DRIVER;                                                                                     \
        if (!shim_active())                                                                                            \
            return real(dev);                                                                                          \
        primary_ends(dev, CU_ID_##symbol);                                                                             \
        primary = remote_memory_primary(dev);                                                                          \
        result = real(dev);                                                                                            \
        primary_ended(dev, primary);                                                                                   \
        function_forget_all(shim_engine);                                                                              \
        return result;                                                                                                 \
    }

PRIMARY_ENDS(cuDevicePrimaryCtxRelease)
PRIMARY_ENDS(cuDevicePrimaryCtxRelease_v2)
PRIMARY_ENDS(cuDevicePrimaryCtxReset)
PRIMARY_ENDS(cuDevicePrimaryCtxReset_v2)
