/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams: creation, state, waiting, and what is put into them besides kernels and copies.
 */
#include "tests/simcuda/sim.h"

#include <stdlib.h>
#include <string.h>

/* From a stream with priority 0 to the highest; the driver clamps. As on an H200. */
enum { PRIORITY_LEAST = 0, PRIORITY_GREATEST = -5 };

struct sim_stream *sim_stream_create(struct sim_ctx *ctx, unsigned flags, int priority)
{
    struct sim_stream *stream = sim_object_create(SIM_STREAM, sizeof(*stream));

    if (!stream)
        return NULL;
    stream->ctx = ctx;
    stream->id = ++sim.next_id;
    stream->flags = flags;
    stream->priority = priority < PRIORITY_GREATEST ? PRIORITY_GREATEST
                       : priority > PRIORITY_LEAST  ? PRIORITY_LEAST
                                                    : priority;
    stream->next = ctx->streams;
    ctx->streams = stream;
    return stream;
}

/* Operations keep no pointer to a freed stream: only its last one has one at all. */
void sim_stream_free(struct sim_stream *stream)
{
    struct sim_stream **link = &stream->ctx->streams;

    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    sim_capture_forget_stream(stream);
    if (stream->last) {
        stream->last->stream = NULL;
        sim_op_unref(stream->last);
    }
    free(stream->tips);
    sim_object_destroy(stream);
}

bool sim_stream_idle(const struct sim_stream *stream)
{
    if (stream->last)
        return false;
    if (!stream->legacy)
        return true;
    for (const struct sim_stream *other = stream->ctx->streams; other; other = other->next)
        if (!(other->flags & CU_STREAM_NON_BLOCKING) && other->last)
            return false;
    return true;
}

static struct sim_stream *own_stream(struct sim_ctx *ctx)
{
    uint64_t id = sim_thread()->id;
    struct sim_stream *stream = ctx->streams;

    while (stream && stream->owner != id)
        stream = stream->next;
    if (!stream) {
        stream = sim_stream_create(ctx, 0, 0);
        if (stream)
            stream->owner = id;
    }
    return stream;
}

CUresult sim_stream_find(CUstream handle, struct sim_stream **out)
{
    struct sim_stream *stream;
    struct sim_ctx *ctx;
    CUresult result;

    if ((uintptr_t)handle > 2) {
        if (!sim_object_is(handle, SIM_STREAM))
            return CUDA_ERROR_INVALID_HANDLE;
        stream = (struct sim_stream *)handle;
        *out = stream;
        return atomic_load(&stream->ctx->error);
    }
    result = sim_context(&ctx);
    if (result)
        return result;
    if (handle == CU_STREAM_PER_THREAD || (!handle && sim_thread()->per_thread))
        stream = own_stream(ctx);
    else
        stream = ctx->legacy;
    if (!stream)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = stream;
    return CUDA_SUCCESS;
}

CUresult sim_stream_for_work(CUstream handle, struct sim_stream **stream)
{
    CUresult result = sim_stream_find(handle, stream);

    if (!result && (*stream)->legacy)
        result = sim_capture_legacy((*stream)->ctx);
    return result;
}

/* ---- making and ending ---- */

CUresult sim_cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
    struct sim_stream *stream;
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (result)
        return result;
    if (!phStream || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
        return CUDA_ERROR_INVALID_VALUE;
    stream = sim_stream_create(ctx, flags, priority);
    if (!stream)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *phStream = (CUstream)stream;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
    return sim_cuStreamCreateWithPriority(phStream, Flags, 0);
}

CUresult sim_cuStreamDestroy_v2(CUstream handle)
{
    struct sim_stream *stream;

    SIM_GUARD;
    if (!sim_object_is(handle, SIM_STREAM))
        return CUDA_ERROR_INVALID_HANDLE;
    stream = (struct sim_stream *)handle;
    if (stream->legacy || stream->owner)
        return CUDA_ERROR_INVALID_HANDLE;
    if (atomic_load(&stream->ctx->error))
        return atomic_load(&stream->ctx->error);
    if (stream->last) {
        /* The work goes on, and the legacy stream and context waits still count it: work.c frees the stream later. */
        sim_capture_forget_stream(stream);
        sim_object_forget(stream);
        stream->destroyed = true;
        return CUDA_SUCCESS;
    }
    sim_stream_free(stream);
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamDestroy(CUstream hStream)
{
    return sim_cuStreamDestroy_v2(hStream);
}

/* ---- state ---- */

CUresult sim_cuStreamQuery(CUstream hStream)
{
    struct sim_stream *stream;
    CUresult result;

    SIM_GUARD;
    result = sim_stream_find(hStream, &stream);
    if (!result)
        result = sim_capture_query(stream);
    if (result)
        return result;
    return sim_stream_idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult sim_cuStreamSynchronize(CUstream hStream)
{
    struct sim_stream *stream;
    struct sim_ctx *ctx;
    struct sim_op *op;
    CUresult result;

    SIM_GUARD;
    result = sim_stream_find(hStream, &stream);
    if (!result)
        result = sim_capture_query(stream);
    if (result)
        return result;
    ctx = stream->ctx;
    if (stream->legacy) {
        /* Waiting for the legacy stream is waiting for an operation put into it now. */
        op = sim_op_create(sizeof(*op), ctx, NULL);
        if (!op)
            return CUDA_ERROR_OUT_OF_MEMORY;
        sim_stream_order(stream, op);
        sim_op_arm(op);
    } else {
        op = stream->last ? sim_op_ref(stream->last) : NULL;
    }
    sim_op_wait(op);
    sim_op_unref(op);
    return atomic_load(&ctx->error);
}

#define STREAM_ANSWER(entry, type, unsafe, answer)                                                                     \
    CUresult sim_##entry(CUstream hStream, type *value)                                                                \
    {                                                                                                                  \
        struct sim_stream *stream;                                                                                     \
        CUresult result;                                                                                               \
                                                                                                                       \
        SIM_GUARD;                                                                                                     \
        result = sim_stream_find(hStream, &stream);                                                                    \
        if (result)                                                                                                    \
            return result;                                                                                             \
        if (unsafe && stream->capture) {                                                                               \
            sim_capture_invalidate(stream->capture);                                                                   \
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;                                                              \
        }                                                                                                              \
        if (!value)                                                                                                    \
            return CUDA_ERROR_INVALID_VALUE;                                                                           \
        *value = answer;                                                                                               \
        return CUDA_SUCCESS;                                                                                           \
    }
STREAM_ANSWER(cuStreamGetPriority, int, false, stream->priority)
STREAM_ANSWER(cuStreamGetCtx, CUcontext, false, (CUcontext)stream->ctx)
/* Surprising, but an H200 does so: asking for these breaks a capture. */
STREAM_ANSWER(cuStreamGetFlags, unsigned int, true, stream->flags)
STREAM_ANSWER(cuStreamGetId, unsigned long long, true, stream->id)
STREAM_ANSWER(cuStreamGetDevice, CUdevice, true, stream->ctx->device->ordinal)

CUresult sim_cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
    CUresult result = sim_cuStreamGetCtx(hStream, pCtx);

    if (!result && pGreenCtx)
        *pGreenCtx = NULL;
    return result;
}

CUresult sim_cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx)
{
    CUcontext ctx;
    CUresult result = sim_cuStreamGetCtx(hStream, &ctx);

    if (!result && phCtx)
        *phCtx = NULL;
    return result;
}

static const unsigned attribute_count = sizeof(((struct sim_stream *)0)->attributes) / sizeof(CUstreamAttrValue);

CUresult sim_cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value)
{
    struct sim_stream *stream;
    CUresult result;

    SIM_GUARD;
    result = sim_stream_find(hStream, &stream);
    if (result)
        return result;
    if (!value || attr >= attribute_count)
        return CUDA_ERROR_INVALID_VALUE;
    stream->attributes[attr] = *value;
    if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        stream->priority = value->priority;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value)
{
    struct sim_stream *stream;
    CUresult result;

    SIM_GUARD;
    result = sim_stream_find(hStream, &stream);
    if (result)
        return result;
    if (!value || attr >= attribute_count)
        return CUDA_ERROR_INVALID_VALUE;
    *value = stream->attributes[attr];
    if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        value->priority = stream->priority;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamCopyAttributes(CUstream dst, CUstream src)
{
    struct sim_stream *to, *from;
    CUresult result;

    SIM_GUARD;
    result = sim_stream_find(dst, &to);
    if (!result)
        result = sim_stream_find(src, &from);
    if (!result)
        memcpy(to->attributes, from->attributes, sizeof(to->attributes));
    return result;
}

/* ---- work that is neither kernel nor copy ---- */

CUresult sim_cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
    struct sim_task task = {.type = SIM_TASK_HOST};
    struct sim_stream *stream;
    CUresult result;

    SIM_GUARD;
    result = sim_stream_for_work(hStream, &stream);
    if (result)
        return result;
    if (!fn)
        return CUDA_ERROR_INVALID_VALUE;
    task.host.fn = fn;
    task.host.data = userData;
    return sim_enqueue(stream, &task, NULL);
}

CUresult sim_cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags)
{
    struct sim_task task = {.type = SIM_TASK_HOST};
    struct sim_stream *stream;
    CUresult result;

    SIM_GUARD;
    result = sim_stream_for_work(hStream, &stream);
    if (result)
        return result;
    if (!callback || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture) {
        sim_capture_invalidate(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    task.host.callback = callback;
    task.host.data = userData;
    task.host.stream = hStream;
    return sim_enqueue(stream, &task, NULL);
}

static CUresult memop(CUstream handle, bool wait, bool wide, CUdeviceptr address, uint64_t value, unsigned flags)
{
    struct sim_task task = {.type = SIM_TASK_MEMOP};
    struct sim_stream *stream;
    CUresult result;

    SIM_GUARD;
    result = sim_stream_for_work(handle, &stream);
    if (result)
        return result;
    if (address & (wide ? 7 : 3) || !sim_memory_ok(address, wide ? 8 : 4, !wait, NULL))
        return CUDA_ERROR_INVALID_VALUE;
    if (wait ? (flags & ~(3u | 1u << 30)) : (flags & ~1u))
        return CUDA_ERROR_INVALID_VALUE;
    task.memop.wait = wait;
    task.memop.wide = wide;
    task.memop.address = address;
    task.memop.value = value;
    task.memop.flags = flags & 3;
    return sim_enqueue(stream, &task, NULL);
}

CUresult sim_cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
    return memop(stream, true, false, addr, value, flags);
}
CUresult sim_cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
    return memop(stream, true, false, addr, value, flags);
}
CUresult sim_cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags)
{
    return memop(stream, true, true, addr, value, flags);
}
CUresult sim_cuStreamWaitValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags)
{
    return memop(stream, true, true, addr, value, flags);
}
CUresult sim_cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
    return memop(stream, false, false, addr, value, flags);
}
CUresult sim_cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
    return memop(stream, false, false, addr, value, flags);
}
CUresult sim_cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags)
{
    return memop(stream, false, true, addr, value, flags);
}
CUresult sim_cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags)
{
    return memop(stream, false, true, addr, value, flags);
}

/* CUstreamBatchMemOpType in cuda.h */
enum { OP_WAIT_32 = 1, OP_WRITE_32 = 2, OP_FLUSH = 3, OP_WAIT_64 = 4, OP_WRITE_64 = 5, OP_BARRIER = 6 };

CUresult sim_cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,
                                   unsigned int flags)
{
    if (!paramArray || flags || count == 0 || count > 256)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        unsigned kind = paramArray[i].operation;

        if (kind == 0 || kind > OP_BARRIER)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; i < count; i++) {
        const CUstreamBatchMemOpParams *p = &paramArray[i];
        bool wait = p->operation == OP_WAIT_32 || p->operation == OP_WAIT_64;
        bool wide = p->operation == OP_WAIT_64 || p->operation == OP_WRITE_64;
        CUresult result;

        if (p->operation == OP_FLUSH || p->operation == OP_BARRIER)
            continue; /* everything is in order and visible anyway */
        result = memop(stream, wait, wide, p->waitValue.address, wide ? p->waitValue.value64 : p->waitValue.value,
                       p->waitValue.flags);
        if (result)
            return result;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,
                                unsigned int flags)
{
    return sim_cuStreamBatchMemOp_v2(stream, count, paramArray, flags);
}

CUresult sim_cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags)
{
    struct sim_task task = {.type = SIM_TASK_EMPTY};
    struct sim_stream *stream;
    CUresult result;

    (void)length;
    (void)flags;
    SIM_GUARD;
    result = sim_stream_for_work(hStream, &stream);
    if (result)
        return result;
    if (!sim_range_find(dptr))
        return CUDA_ERROR_INVALID_VALUE;
    return sim_enqueue(stream, &task, NULL);
}
