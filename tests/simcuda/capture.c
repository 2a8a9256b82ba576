/* SPDX-License-Identifier: Apache-2.0
 *
 * Stream capture. The rules were read from an H200 with driver 580 by tests/simcuda_tests/oracle.c; in short:
 *
 *  - "Unsafe" calls (waiting for and asking about streams and events that do not capture, allocating and freeing)
 *    answer 900 and invalidate captures when the calling thread's mode is GLOBAL or THREAD_LOCAL and it owns a capture
 *    that is not RELAXED, or when its mode is GLOBAL and another thread has a GLOBAL capture.
 *  - Waiting for a context whose stream captures, and for or about a capturing stream, is 900 in every mode; about an
 *    event last recorded in a capture 907. Both invalidate.
 *  - While a blocking stream captures, any use of the legacy stream is 906 and invalidates. With a non-blocking one
 *    it is ordinary work.
 *  - A capture that was ended wrongly (903, 904, 908) is over.
 */
#include "tests/simcuda/sim.h"

#include <stdlib.h>
#include <string.h>

static struct sim_capture *captures;

void sim_capture_invalidate(struct sim_capture *capture)
{
    capture->invalid = true;
}

static struct sim_capture *capture_by_id(uint64_t id)
{
    struct sim_capture *capture = captures;

    while (capture && capture->id != id)
        capture = capture->next;
    return capture;
}

CUresult sim_capture_unsafe(void)
{
    const struct sim_thread *thread = sim_thread();
    CUresult result = CUDA_SUCCESS;

    if (!captures || thread->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_SUCCESS;
    for (struct sim_capture *capture = captures; capture; capture = capture->next) {
        bool forbids = capture->thread == thread->id ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                                                     : capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                                                           thread->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;

        if (forbids) {
            sim_capture_invalidate(capture);
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return result;
}

CUresult sim_capture_legacy(struct sim_ctx *ctx)
{
    CUresult result = CUDA_SUCCESS;

    if (!captures)
        return result;
    for (struct sim_stream *stream = ctx->streams; stream; stream = stream->next) {
        if (stream->capture && !(stream->flags & CU_STREAM_NON_BLOCKING)) {
            sim_capture_invalidate(stream->capture);
            result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    }
    return result;
}

CUresult sim_capture_context(struct sim_ctx *ctx)
{
    CUresult result = CUDA_SUCCESS;

    if (!captures)
        return result;
    for (struct sim_stream *stream = ctx->streams; stream; stream = stream->next) {
        if (stream->capture) {
            sim_capture_invalidate(stream->capture);
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return result ? result : sim_capture_unsafe();
}

CUresult sim_capture_query(struct sim_stream *stream)
{
    CUresult result;

    if (stream->capture) {
        sim_capture_invalidate(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (stream->legacy) {
        result = sim_capture_legacy(stream->ctx);
        if (result)
            return result;
    }
    return sim_capture_unsafe();
}

CUresult sim_capture_event(struct sim_event *event)
{
    struct sim_capture *capture;

    if (!event->capture_id)
        return sim_capture_unsafe();
    capture = capture_by_id(event->capture_id);
    if (!capture)
        return CUDA_ERROR_INVALID_VALUE; /* its capture is over */
    sim_capture_invalidate(capture);
    return CUDA_ERROR_CAPTURED_EVENT;
}

/* ---- tips: the nodes that the next captured operation of a stream depends on ---- */

static CUresult add_tip(struct sim_stream *stream, struct sim_node *node)
{
    for (size_t i = 0; i < stream->tip_count; i++)
        if (stream->tips[i] == node)
            return CUDA_SUCCESS;
    if (stream->tip_count == stream->tip_room) {
        size_t room = stream->tip_room ? stream->tip_room * 2 : 4;
        struct sim_node **tips = realloc(stream->tips, room * sizeof(struct sim_node *));

        if (!tips)
            return CUDA_ERROR_OUT_OF_MEMORY;
        stream->tips = tips;
        stream->tip_room = room;
    }
    stream->tips[stream->tip_count++] = node;
    return CUDA_SUCCESS;
}

CUresult sim_capture_set_tips(struct sim_stream *stream, struct sim_node *const *tips, size_t count)
{
    CUresult result = CUDA_SUCCESS;

    stream->tip_count = 0;
    for (size_t i = 0; i < count && !result; i++)
        result = add_tip(stream, tips[i]);
    return result;
}

static void leave_capture(struct sim_stream *stream)
{
    stream->capture = NULL;
    stream->tip_count = 0;
}

CUresult sim_capture_task(struct sim_stream *stream, struct sim_task *task)
{
    struct sim_node *node;
    CUresult result;

    if (stream->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    result = sim_graph_add(stream->capture->graph, stream->tips, stream->tip_count, task, &node);
    return result ? result : sim_capture_set_tips(stream, &node, 1);
}

CUresult sim_capture_record(struct sim_stream *stream, struct sim_event *event)
{
    struct sim_node **tips;

    if (stream->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    tips = malloc((stream->tip_count + 1) * sizeof(struct sim_node *));
    if (!tips)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (stream->tip_count)
        memcpy(tips, stream->tips, stream->tip_count * sizeof(struct sim_node *));
    free(event->tips);
    event->tips = tips;
    event->tip_count = stream->tip_count;
    event->capture_id = stream->capture->id;
    return CUDA_SUCCESS;
}

CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event)
{
    struct sim_capture *from = event->capture_id ? capture_by_id(event->capture_id) : NULL;
    CUresult result = CUDA_SUCCESS;

    if (stream->capture && stream->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!event->capture_id) {
        if (!event->record)
            return CUDA_SUCCESS; /* never recorded: nothing to wait for */
        sim_capture_invalidate(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (!from)
        return CUDA_ERROR_INVALID_VALUE; /* its capture is over */
    if (from->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->legacy) {
        sim_capture_invalidate(from);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (stream->capture && stream->capture != from) {
        sim_capture_invalidate(stream->capture);
        sim_capture_invalidate(from);
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (!stream->capture) {
        stream->capture = from;
        stream->tip_count = 0;
    }
    for (size_t i = 0; i < event->tip_count && !result; i++)
        result = add_tip(stream, event->tips[i]);
    return result;
}

/* ---- begin and end ---- */

static void capture_over(struct sim_capture *capture)
{
    struct sim_capture **link = &captures;

    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    for (struct sim_ctx *ctx = atomic_load(&sim.contexts); ctx; ctx = ctx->next)
        for (struct sim_stream *stream = ctx->streams; stream; stream = stream->next)
            if (stream->capture == capture)
                leave_capture(stream);
    free(capture);
    sim.captures--;
}

void sim_capture_forget_stream(struct sim_stream *stream)
{
    struct sim_capture *capture = stream->capture;
    struct sim_graph *graph;

    if (!capture)
        return;
    sim_capture_invalidate(capture);
    leave_capture(stream);
    if (capture->origin != stream)
        return;
    graph = capture->own_graph ? capture->graph : NULL;
    capture_over(capture);
    sim_graph_free(graph);
}

static CUresult begin(CUstream handle, CUstreamCaptureMode mode, struct sim_graph *graph, struct sim_node *const *deps,
                      size_t count)
{
    struct sim_capture *capture;
    struct sim_stream *stream;
    CUresult result;

    if (mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_stream_find(handle, &stream);
    if (result)
        return result;
    if (stream->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    capture = calloc(1, sizeof(*capture));
    if (!capture)
        return CUDA_ERROR_OUT_OF_MEMORY;
    capture->own_graph = !graph;
    capture->graph = graph ? graph : sim_graph_create();
    if (!capture->graph) {
        free(capture);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    capture->id = ++sim.next_id;
    capture->mode = mode;
    capture->thread = sim_thread()->id;
    capture->origin = stream;
    capture->next = captures;
    captures = capture;
    sim.captures++;
    stream->capture = capture;
    stream->tip_count = 0;
    return sim_capture_set_tips(stream, deps, count);
}

CUresult sim_cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
    SIM_GUARD;
    return begin(hStream, mode, NULL, NULL, 0);
}

CUresult sim_cuStreamBeginCapture(CUstream hStream)
{
    SIM_GUARD;
    return begin(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL, NULL, 0);
}

CUresult sim_cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
                                         const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                         CUstreamCaptureMode mode)
{
    (void)dependencyData;
    SIM_GUARD;
    if (!sim_object_is(hGraph, SIM_GRAPH) || (numDependencies && !dependencies))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < numDependencies; i++)
        if (!sim_object_is(dependencies[i], SIM_NODE))
            return CUDA_ERROR_INVALID_VALUE;
    return begin(hStream, mode, (struct sim_graph *)hGraph, (struct sim_node *const *)dependencies, numDependencies);
}

/* Every node without a dependent must be among the origin's tips: else a stream was not joined. */
static bool joined(const struct sim_capture *capture)
{
    const struct sim_graph *graph = capture->graph;
    const struct sim_stream *origin = capture->origin;
    bool *used = calloc(graph->count + 1, sizeof(bool));
    bool all = true;

    if (!used)
        return false;
    for (size_t i = 0; i < graph->count; i++)
        graph->nodes[i]->index = i;
    for (size_t i = 0; i < graph->count; i++)
        for (size_t k = 0; k < graph->nodes[i]->dep_count; k++)
            used[graph->nodes[i]->deps[k]->index] = true;
    for (size_t i = 0; i < origin->tip_count; i++)
        used[origin->tips[i]->index] = true;
    for (size_t i = 0; i < graph->count && capture->own_graph; i++)
        all &= used[i];
    free(used);
    return all;
}

CUresult sim_cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
    struct sim_capture *capture;
    struct sim_stream *stream;
    struct sim_graph *graph;
    CUresult result;
    bool own;

    SIM_GUARD;
    result = sim_stream_find(hStream, &stream);
    if (result)
        return result;
    if (!phGraph)
        return CUDA_ERROR_INVALID_VALUE;
    capture = stream->capture;
    if (!capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != stream) {
        /* The origin's own end says 901 then; the others are out of it. */
        sim_capture_invalidate(capture);
        for (struct sim_stream *other = stream->ctx->streams; other; other = other->next)
            if (other->capture == capture && other != capture->origin)
                leave_capture(other);
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != sim_thread()->id)
        result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    else if (capture->invalid)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!joined(capture))
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    graph = capture->graph;
    own = capture->own_graph;
    capture_over(capture);
    if (result) {
        if (own)
            sim_graph_free(graph);
        *phGraph = NULL;
        return result;
    }
    *phGraph = (CUgraph)graph;
    return CUDA_SUCCESS;
}

CUresult sim_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    struct sim_thread *thread = sim_thread();
    CUstreamCaptureMode before = thread->mode;

    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    thread->mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

/* ---- asking ---- */

static CUresult info(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, struct sim_stream **out)
{
    struct sim_stream *stream;
    CUresult result = sim_stream_find(handle, &stream);

    if (result)
        return result;
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->legacy && captures) {
        for (struct sim_stream *other = stream->ctx->streams; other; other = other->next)
            if (other->capture && !(other->flags & CU_STREAM_NON_BLOCKING))
                return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT; /* asking invalidates nothing */
    }
    *status = !stream->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                         : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (id && stream->capture)
        *id = stream->capture->id;
    if (out)
        *out = stream;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
    SIM_GUARD;
    return info(hStream, captureStatus, NULL, NULL);
}

CUresult sim_cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out)
{
    SIM_GUARD;
    return info(hStream, captureStatus_out, id_out, NULL);
}

CUresult sim_cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
                                       CUgraph *graph_out, const CUgraphNode **dependencies_out,
                                       size_t *numDependencies_out)
{
    struct sim_stream *stream;
    CUresult result;

    SIM_GUARD;
    result = info(hStream, captureStatus_out, id_out, &stream);
    if (result || *captureStatus_out != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return result;
    if (graph_out)
        *graph_out = (CUgraph)stream->capture->graph;
    if (dependencies_out)
        *dependencies_out = (const CUgraphNode *)stream->tips;
    if (numDependencies_out)
        *numDependencies_out = stream->tip_count;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
                                       CUgraph *graph_out, const CUgraphNode **dependencies_out,
                                       const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out)
{
    if (edgeData_out)
        *edgeData_out = NULL; /* edges without data only */
    return sim_cuStreamGetCaptureInfo_v2(hStream, captureStatus_out, id_out, graph_out, dependencies_out,
                                         numDependencies_out);
}

CUresult sim_cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
                                                  const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                                  unsigned int flags)
{
    enum { ADD = 0, SET = 1 };
    struct sim_stream *stream;
    CUresult result;

    (void)dependencyData;
    SIM_GUARD;
    result = sim_stream_find(hStream, &stream);
    if (result)
        return result;
    if (!stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (flags > SET || (numDependencies && !dependencies))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < numDependencies; i++)
        if (!sim_object_is(dependencies[i], SIM_NODE))
            return CUDA_ERROR_INVALID_VALUE;
    if (flags == SET)
        stream->tip_count = 0;
    for (size_t i = 0; i < numDependencies && !result; i++)
        result = add_tip(stream, (struct sim_node *)dependencies[i]);
    return result;
}

CUresult sim_cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies, size_t numDependencies,
                                               unsigned int flags)
{
    return sim_cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, NULL, numDependencies, flags);
}
