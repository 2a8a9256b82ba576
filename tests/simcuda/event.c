/* SPDX-License-Identifier: Apache-2.0
 *
 * Events. Recording makes an operation and remembers it in the event: that is the event's version. A wait follows the
 * operation that is remembered when the wait is called, so a later record changes nothing for it.
 */
#include "tests/simcuda/sim.h"

#include <stdlib.h>

CUresult sim_event_get(CUevent handle, struct sim_event **event)
{
    if (!sim_object_is(handle, SIM_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    *event = (struct sim_event *)handle;
    return CUDA_SUCCESS;
}

void sim_event_set_record(struct sim_event *event, struct sim_op *op)
{
    sim_op_unref(event->record);
    event->record = sim_op_ref(op);
    event->capture_id = 0;
    free(event->tips);
    event->tips = NULL;
    event->tip_count = 0;
}

CUresult sim_cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    struct sim_event *event;
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (result)
        return result;
    if (!phEvent || (Flags & ~7u))
        return CUDA_ERROR_INVALID_VALUE;
    if ((Flags & CU_EVENT_INTERPROCESS) && !(Flags & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_VALUE;
    event = sim_object_create(SIM_EVENT, sizeof(*event));
    if (!event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    event->ctx = ctx;
    event->flags = Flags;
    *phEvent = (CUevent)event;
    return CUDA_SUCCESS;
}

CUresult sim_cuEventDestroy_v2(CUevent handle)
{
    struct sim_event *event;
    CUresult result;

    SIM_GUARD;
    result = sim_event_get(handle, &event);
    if (!result)
        result = atomic_load(&event->ctx->error);
    if (result)
        return result;
    sim_op_unref(event->record); /* waits that follow it have their own edges */
    free(event->tips);
    sim_object_destroy(event);
    return CUDA_SUCCESS;
}

CUresult sim_cuEventDestroy(CUevent hEvent)
{
    return sim_cuEventDestroy_v2(hEvent);
}

static CUresult record(CUevent handle, CUstream stream_handle, unsigned flags)
{
    struct sim_stream *stream;
    struct sim_event *event;
    struct sim_op *op;
    CUresult result;

    SIM_GUARD;
    result = sim_stream_for_work(stream_handle, &stream);
    if (!result)
        result = sim_event_get(handle, &event);
    if (result)
        return result;
    if (event->ctx != stream->ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags & ~1u)
        return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CU_EVENT_RECORD_EXTERNAL) && !stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (stream->capture) {
        struct sim_task task = {.type = SIM_TASK_RECORD_EVENT, .event = {event}};

        return flags & CU_EVENT_RECORD_EXTERNAL ? sim_capture_task(stream, &task) : sim_capture_record(stream, event);
    }
    op = sim_op_create(sizeof(*op), stream->ctx, NULL);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_event_set_record(event, op);
    sim_stream_add(stream, op);
    return CUDA_SUCCESS;
}

CUresult sim_cuEventRecord(CUevent hEvent, CUstream hStream)
{
    return record(hEvent, hStream, 0);
}

CUresult sim_cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    return record(hEvent, hStream, flags);
}

CUresult sim_cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    struct sim_stream *stream;
    struct sim_event *event;
    struct sim_op *op;
    CUresult result;

    SIM_GUARD;
    result = sim_stream_for_work(hStream, &stream);
    if (!result)
        result = sim_event_get(hEvent, &event);
    if (result)
        return result;
    if (Flags & ~1u)
        return CUDA_ERROR_INVALID_VALUE;
    if ((Flags & 1) && !stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (Flags & 1) {
        struct sim_task task = {.type = SIM_TASK_WAIT_EVENT, .event = {event}};

        return sim_capture_task(stream, &task);
    }
    if (stream->capture || event->capture_id)
        return sim_capture_wait(stream, event);
    if (!event->record || event->record->state == SIM_OP_DONE)
        return CUDA_SUCCESS;
    op = sim_op_create(sizeof(*op), stream->ctx, NULL);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_op_follow(op, event->record);
    sim_stream_add(stream, op);
    return CUDA_SUCCESS;
}

CUresult sim_cuEventQuery(CUevent hEvent)
{
    struct sim_event *event;
    CUresult result;

    SIM_GUARD;
    result = sim_event_get(hEvent, &event);
    if (!result)
        result = sim_capture_event(event);
    if (!result)
        result = atomic_load(&event->ctx->error);
    if (result)
        return result;
    return event->record && event->record->state != SIM_OP_DONE ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult sim_cuEventSynchronize(CUevent hEvent)
{
    struct sim_event *event;
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_event_get(hEvent, &event);
    if (!result)
        result = sim_capture_event(event);
    if (result)
        return result;
    ctx = event->ctx;
    sim_op_wait(event->record); /* the event may be destroyed meanwhile */
    return atomic_load(&ctx->error);
}

CUresult sim_cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    struct sim_event *start, *end;
    CUresult result;

    SIM_GUARD;
    result = sim_event_get(hStart, &start);
    if (!result)
        result = sim_event_get(hEnd, &end);
    if (result)
        return result;
    if (!pMilliseconds)
        return CUDA_ERROR_INVALID_VALUE;
    if (start->capture_id || end->capture_id)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (start->ctx != end->ctx || ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) || !start->record ||
        !end->record)
        return CUDA_ERROR_INVALID_HANDLE;
    result = atomic_load(&start->ctx->error);
    if (result)
        return result;
    if (start->record->state != SIM_OP_DONE || end->record->state != SIM_OP_DONE)
        return CUDA_ERROR_NOT_READY;
    *pMilliseconds = (float)((double)(int64_t)(end->record->done_ns - start->record->done_ns) / 1e6);
    return CUDA_SUCCESS;
}

CUresult sim_cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    return sim_cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}

static CUresult context_event(CUcontext ctx_handle, CUevent handle, struct sim_ctx **ctx, struct sim_event **event)
{
    CUresult result = ctx_handle ? sim_context_get(ctx_handle, ctx) : sim_context(ctx);

    return result ? result : sim_event_get(handle, event);
}

CUresult sim_cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
    struct sim_event *event;
    struct sim_ctx *ctx;
    struct sim_op *op;
    CUresult result;

    SIM_GUARD;
    result = context_event(hCtx, hEvent, &ctx, &event);
    if (!result)
        result = sim_capture_context(ctx);
    if (result)
        return result;
    if (event->ctx != ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    op = sim_op_create(sizeof(*op), ctx, NULL);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (struct sim_stream *stream = ctx->streams; stream; stream = stream->next)
        sim_op_follow(op, stream->last);
    sim_event_set_record(event, op);
    sim_op_arm(op);
    sim_op_unref(op);
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent)
{
    struct sim_event *event;
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = context_event(hCtx, hEvent, &ctx, &event);
    if (!result)
        result = sim_capture_context(ctx);
    if (result || !event->record)
        return result;
    for (struct sim_stream *stream = ctx->streams; stream; stream = stream->next) {
        struct sim_op *op = sim_op_create(sizeof(*op), ctx, NULL);

        if (!op)
            return CUDA_ERROR_OUT_OF_MEMORY;
        sim_op_follow(op, event->record);
        sim_stream_add(stream, op);
    }
    return CUDA_SUCCESS;
}
