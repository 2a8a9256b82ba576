/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and memory sets.
 *
 * What the host may observe follows the driver:
 *  - A source in pageable host memory is read at the call (the driver stages it); one in pinned memory is read when the
 *    copy executes, in stream order.
 *  - A destination in pageable host memory is complete when the call returns, also in the Async forms.
 *  - Synchronous copies go through the legacy stream (the thread's own for _ptds) and return when done, except that
 *    device-to-device copies and sets of device memory do not make the host wait.
 */
#include "tests/simcuda/sim.h"

#include <stdlib.h>
#include <string.h>

/* Seen on an H200: copies of 2 MiB from pageable memory return at once, of 4 MiB when done. */
enum { STAGED_MAX = 2 << 20 };

struct copy {
    uintptr_t dst, src;
    size_t dst_pitch, src_pitch, dst_slice, src_slice;
    size_t width, height, depth;
    bool dst_host, src_host; /* the call says "host": any pointer will do there */
};

/* What a call may name: memory that the device may touch and that was not yet given to cuMemFreeAsync. */
static bool given(uintptr_t address, size_t size, bool write)
{
    const struct sim_range *range = sim_range_find(address);

    return range && !range->pending_free && sim_memory_ok(address, size, write, NULL);
}

static bool plain(uintptr_t address)
{
    return sim_range_find(address) == NULL;
}

static bool on_host(uintptr_t address)
{
    const struct sim_range *range = sim_range_find(address);

    return !range || range->type == SIM_MEM_HOST || range->type == SIM_MEM_REGISTERED;
}

static size_t bytes_from(size_t width, size_t height, size_t depth, size_t pitch, size_t slice)
{
    return (depth - 1) * slice + (height - 1) * pitch + width;
}

static CUresult stage(struct sim_task *task)
{
    size_t size = task->copy.width * task->copy.height * task->copy.depth;
    char *to = malloc(size);

    if (!to)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t z = 0; z < task->copy.depth; z++)
        for (size_t y = 0; y < task->copy.height; y++)
            memcpy(to + (z * task->copy.height + y) * task->copy.width,
                   (const char *)task->copy.src + z * task->copy.src_slice + y * task->copy.src_pitch,
                   task->copy.width);
    task->copy.staged = to;
    task->copy.src = (uintptr_t)to;
    task->copy.src_pitch = task->copy.width;
    task->copy.src_slice = task->copy.width * task->copy.height;
    return CUDA_SUCCESS;
}

static CUresult make_task(struct sim_task *task, const struct copy *c)
{
    *task = (struct sim_task){
        .type = SIM_TASK_COPY,
        .copy = {.dst = c->dst,
                 .src = c->src,
                 .dst_pitch = c->dst_pitch,
                 .src_pitch = c->src_pitch,
                 .dst_slice = c->dst_slice,
                 .src_slice = c->src_slice,
                 .width = c->width,
                 .height = c->height,
                 .depth = c->depth,
                 .dst_plain = c->dst_host && plain(c->dst),
                 .src_plain = c->src_host && plain(c->src)},
    };
    if (!c->width || !c->height || !c->depth)
        return CUDA_SUCCESS;
    if (!c->dst || !c->src)
        return CUDA_ERROR_INVALID_VALUE;
    if (!task->copy.dst_plain &&
        !given(c->dst, bytes_from(c->width, c->height, c->depth, c->dst_pitch, c->dst_slice), true))
        return CUDA_ERROR_INVALID_VALUE;
    if (!task->copy.src_plain &&
        !given(c->src, bytes_from(c->width, c->height, c->depth, c->src_pitch, c->src_slice), false))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult copy_in_stream(struct sim_stream *stream, const struct copy *c, bool host_waits)
{
    struct sim_ctx *ctx = stream->ctx;
    struct sim_task task;
    struct sim_op *op;
    CUresult result = make_task(&task, c);

    if (result)
        return result;
    if (!c->width || !c->height || !c->depth)
        return CUDA_SUCCESS;
    task.copy.params = (CUDA_MEMCPY3D){
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = c->src,
        .srcPitch = c->src_pitch,
        .srcHeight = c->src_pitch ? c->src_slice / c->src_pitch : 0,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = c->dst,
        .dstPitch = c->dst_pitch,
        .dstHeight = c->dst_pitch ? c->dst_slice / c->dst_pitch : 0,
        .WidthInBytes = c->width,
        .Height = c->height,
        .Depth = c->depth,
    };
    if (!stream->capture) {
        /* Small ones are staged; a large one keeps the caller until it is done. */
        host_waits |= task.copy.dst_plain ||
                      (task.copy.src_plain && task.copy.width * task.copy.height * task.copy.depth > STAGED_MAX);
        if (task.copy.src_plain && !host_waits) {
            result = stage(&task);
            if (result)
                return result;
        }
    }
    result = sim_enqueue(stream, &task, &op);
    if (result)
        return result;
    if (host_waits)
        sim_op_wait(op);
    sim_op_unref(op);
    return host_waits ? atomic_load(&ctx->error) : CUDA_SUCCESS;
}

static CUresult copy_async(CUstream handle, const struct copy *c)
{
    struct sim_stream *stream;
    CUresult result;

    SIM_GUARD;
    result = sim_stream_for_work(handle, &stream);
    return result ? result : copy_in_stream(stream, c, false);
}

static CUresult copy_sync(const struct copy *c)
{
    struct sim_stream *stream;
    CUresult result;

    SIM_GUARD;
    result = sim_stream_for_work(NULL, &stream);
    if (result)
        return result;
    return copy_in_stream(stream, c, on_host(c->dst) || on_host(c->src));
}

static struct copy linear(uintptr_t dst, bool dst_host, uintptr_t src, bool src_host, size_t size)
{
    return (struct copy){.dst = dst,
                         .src = src,
                         .dst_pitch = size,
                         .src_pitch = size,
                         .dst_slice = size,
                         .src_slice = size,
                         .width = size,
                         .height = 1,
                         .depth = 1,
                         .dst_host = dst_host,
                         .src_host = src_host};
}

/* ---- linear copies ---- */

CUresult sim_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
    struct copy c = linear(dst, true, src, true, ByteCount);

    return copy_sync(&c);
}

CUresult sim_cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
    struct copy c = linear(dstDevice, false, (uintptr_t)srcHost, true, ByteCount);

    return copy_sync(&c);
}

CUresult sim_cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
    struct copy c = linear((uintptr_t)dstHost, true, srcDevice, false, ByteCount);

    return copy_sync(&c);
}

CUresult sim_cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
    struct copy c = linear(dstDevice, false, srcDevice, false, ByteCount);

    return copy_sync(&c);
}

CUresult sim_cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                          size_t ByteCount)
{
    (void)dstContext;
    (void)srcContext;
    return sim_cuMemcpyDtoD_v2(dstDevice, srcDevice, ByteCount);
}

CUresult sim_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
    struct copy c = linear(dst, true, src, true, ByteCount);

    return copy_async(hStream, &c);
}

CUresult sim_cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)
{
    struct copy c = linear(dstDevice, false, (uintptr_t)srcHost, true, ByteCount);

    return copy_async(hStream, &c);
}

CUresult sim_cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
    struct copy c = linear((uintptr_t)dstHost, true, srcDevice, false, ByteCount);

    return copy_async(hStream, &c);
}

CUresult sim_cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
    struct copy c = linear(dstDevice, false, srcDevice, false, ByteCount);

    return copy_async(hStream, &c);
}

CUresult sim_cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                               size_t ByteCount, CUstream hStream)
{
    (void)dstContext;
    (void)srcContext;
    return sim_cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, hStream);
}

CUresult sim_cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                                   CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, CUstream hStream)
{
    if (!dsts || !srcs || !sizes || !count || !attrs || !attrsIdxs || !numAttrs || numAttrs > count)
        return CUDA_ERROR_INVALID_VALUE;
    if (!hStream || hStream == CU_STREAM_LEGACY)
        return CUDA_ERROR_INVALID_VALUE; /* documented: not on the legacy stream */
    for (size_t i = 0; i < count; i++) {
        CUresult result = sim_cuMemcpyAsync(dsts[i], srcs[i], sizes[i], hStream);

        if (result)
            return result;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                                CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
                                CUstream hStream)
{
    CUresult result = sim_cuMemcpyBatchAsync_v2(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream);

    if (result && failIdx)
        *failIdx = SIZE_MAX; /* "the error does not belong to one copy" */
    return result;
}

/* ---- 2D and 3D ---- */

static bool side(CUmemorytype type, const void *host, CUdeviceptr device, uintptr_t *address, bool *is_host)
{
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        *address = (uintptr_t)host;
        *is_host = true;
        return true;
    case CU_MEMORYTYPE_DEVICE:
        *address = device;
        *is_host = false;
        return true;
    case CU_MEMORYTYPE_UNIFIED:
        *address = device;
        *is_host = true;
        return true;
    default:
        return false;
    }
}

static CUresult from_3d(const CUDA_MEMCPY3D *p, struct copy *c)
{
    size_t src_pitch, dst_pitch, src_height, dst_height;

    if (!p || p->reserved0 || p->reserved1 || p->srcLOD || p->dstLOD)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->srcMemoryType == CU_MEMORYTYPE_ARRAY || p->dstMemoryType == CU_MEMORYTYPE_ARRAY) {
        static const char key;

        sim_loud(&key, "copies to and from arrays are not implemented");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (!side(p->srcMemoryType, p->srcHost, p->srcDevice, &c->src, &c->src_host) ||
        !side(p->dstMemoryType, p->dstHost, p->dstDevice, &c->dst, &c->dst_host))
        return CUDA_ERROR_INVALID_VALUE;
    src_pitch = p->srcPitch ? p->srcPitch : p->WidthInBytes + p->srcXInBytes;
    dst_pitch = p->dstPitch ? p->dstPitch : p->WidthInBytes + p->dstXInBytes;
    src_height = p->srcHeight ? p->srcHeight : p->Height + p->srcY;
    dst_height = p->dstHeight ? p->dstHeight : p->Height + p->dstY;
    if (src_pitch < p->WidthInBytes + p->srcXInBytes || dst_pitch < p->WidthInBytes + p->dstXInBytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->Depth > 1 && (src_height < p->Height + p->srcY || dst_height < p->Height + p->dstY))
        return CUDA_ERROR_INVALID_VALUE;
    c->src_pitch = src_pitch;
    c->dst_pitch = dst_pitch;
    c->src_slice = src_pitch * src_height;
    c->dst_slice = dst_pitch * dst_height;
    c->width = p->WidthInBytes;
    c->height = p->Height;
    c->depth = p->Depth;
    c->src += p->srcZ * c->src_slice + p->srcY * src_pitch + p->srcXInBytes;
    c->dst += p->dstZ * c->dst_slice + p->dstY * dst_pitch + p->dstXInBytes;
    return CUDA_SUCCESS;
}

static CUresult from_2d(const CUDA_MEMCPY2D *p, struct copy *c)
{
    CUDA_MEMCPY3D three;

    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    three = (CUDA_MEMCPY3D){
        .srcXInBytes = p->srcXInBytes,
        .srcY = p->srcY,
        .srcMemoryType = p->srcMemoryType,
        .srcHost = p->srcHost,
        .srcDevice = p->srcDevice,
        .srcPitch = p->srcPitch,
        .dstXInBytes = p->dstXInBytes,
        .dstY = p->dstY,
        .dstMemoryType = p->dstMemoryType,
        .dstHost = p->dstHost,
        .dstDevice = p->dstDevice,
        .dstPitch = p->dstPitch,
        .WidthInBytes = p->WidthInBytes,
        .Height = p->Height,
        .Depth = 1,
    };
    return from_3d(&three, c);
}

/* For graph nodes. */
CUresult sim_copy_task(struct sim_task *task, const CUDA_MEMCPY3D *p)
{
    struct copy c;
    CUresult result = from_3d(p, &c);

    if (!result)
        result = make_task(task, &c);
    if (!result)
        task->copy.params = *p;
    return result;
}

CUresult sim_cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy)
{
    struct copy c;
    CUresult result = from_2d(pCopy, &c);

    return result ? result : copy_sync(&c);
}

CUresult sim_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy)
{
    return sim_cuMemcpy2D_v2(pCopy);
}

CUresult sim_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
    struct copy c;
    CUresult result = from_2d(pCopy, &c);

    return result ? result : copy_async(hStream, &c);
}

CUresult sim_cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy)
{
    struct copy c;
    CUresult result = from_3d(pCopy, &c);

    return result ? result : copy_sync(&c);
}

CUresult sim_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
    struct copy c;
    CUresult result = from_3d(pCopy, &c);

    return result ? result : copy_async(hStream, &c);
}

/* ---- sets ---- */

CUresult sim_set_task(struct sim_task *task, const CUDA_MEMSET_NODE_PARAMS *p)
{
    size_t bytes;

    if (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4)
        return CUDA_ERROR_INVALID_VALUE;
    bytes = p->width * p->elementSize;
    if (p->dst & (p->elementSize - 1) || (p->height > 1 && p->pitch < bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (p->width && p->height && !given(p->dst, (p->height - 1) * (p->height > 1 ? p->pitch : 0) + bytes, true))
        return CUDA_ERROR_INVALID_VALUE;
    *task = (struct sim_task){.type = SIM_TASK_SET,
                              .set = {.dst = p->dst,
                                      .pitch = p->pitch,
                                      .width = p->width,
                                      .height = p->height,
                                      .value = p->value,
                                      .element = p->elementSize}};
    return CUDA_SUCCESS;
}

static CUresult set_memory(bool async, CUstream handle, CUdeviceptr dst, size_t pitch, unsigned value, unsigned element,
                           size_t width, size_t height)
{
    CUDA_MEMSET_NODE_PARAMS params = {
        .dst = dst, .pitch = pitch, .value = value, .elementSize = element, .width = width, .height = height};
    struct sim_stream *stream;
    struct sim_task task;
    struct sim_ctx *ctx;
    struct sim_op *op;
    CUresult result;
    bool wait;

    SIM_GUARD;
    result = sim_stream_for_work(handle, &stream);
    if (!result)
        result = sim_set_task(&task, &params);
    if (result || !width || !height)
        return result;
    ctx = stream->ctx;
    wait = !async && on_host(dst);
    result = sim_enqueue(stream, &task, &op);
    if (result)
        return result;
    if (wait)
        sim_op_wait(op);
    sim_op_unref(op);
    return wait ? atomic_load(&ctx->error) : CUDA_SUCCESS;
}

CUresult sim_cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
    return set_memory(false, NULL, dstDevice, 0, uc, 1, N, 1);
}
CUresult sim_cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N)
{
    return set_memory(false, NULL, dstDevice, 0, us, 2, N, 1);
}
CUresult sim_cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N)
{
    return set_memory(false, NULL, dstDevice, 0, ui, 4, N, 1);
}
CUresult sim_cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height)
{
    return set_memory(false, NULL, dstDevice, dstPitch, uc, 1, Width, Height);
}
CUresult sim_cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height)
{
    return set_memory(false, NULL, dstDevice, dstPitch, us, 2, Width, Height);
}
CUresult sim_cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height)
{
    return set_memory(false, NULL, dstDevice, dstPitch, ui, 4, Width, Height);
}
CUresult sim_cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream)
{
    return set_memory(true, hStream, dstDevice, 0, uc, 1, N, 1);
}
CUresult sim_cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream)
{
    return set_memory(true, hStream, dstDevice, 0, us, 2, N, 1);
}
CUresult sim_cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream)
{
    return set_memory(true, hStream, dstDevice, 0, ui, 4, N, 1);
}
CUresult sim_cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height,
                               CUstream hStream)
{
    return set_memory(true, hStream, dstDevice, dstPitch, uc, 1, Width, Height);
}
CUresult sim_cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height,
                                CUstream hStream)
{
    return set_memory(true, hStream, dstDevice, dstPitch, us, 2, Width, Height);
}
CUresult sim_cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height,
                                CUstream hStream)
{
    return set_memory(true, hStream, dstDevice, dstPitch, ui, 4, Width, Height);
}
