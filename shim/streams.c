/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams: synchronisation, capture, destruction.
 *
 * Capture. While any stream of the process captures, nothing is held and no marker is placed: a launch that entered a
 * graph late, or a marker that entered it at all, would be a wrong graph. BeginCapture raises the count first, then
 * flushes the context, then calls the driver, so that what was launched before is not captured, and nothing of ours
 * reaches a stream after the capture began. The count falls when the stream that began it ends it or is destroyed.
 */
#include "shim/remote.h"

enum { CAPTURES_MAX = 64 };

static struct lock captures_lock;
static uint64_t capturing_streams[CAPTURES_MAX]; /* keys of the streams in which captures began; 0: free */

/* A per-thread stream has one handle in all threads; an address of the thread's own tells them apart. */
static uint64_t capture_key(struct stream_key key)
{
    static __thread char mine __attribute__((tls_model("initial-exec")));

    return stream_is_per_thread(key) ? (uint64_t)&mine : (uint64_t)key.stream;
}

static void capture_began(struct stream_key key)
{
    lock_take(&captures_lock);
    for (int i = 0; i < CAPTURES_MAX; i++) {
        if (capturing_streams[i])
            continue;
        capturing_streams[i] = capture_key(key);
        break; /* with no slot free the count stays raised, and nothing is held any more: slow but right */
    }
    lock_drop(&captures_lock);
}

static void capture_ended(struct stream_key key)
{
    uint64_t wanted = capture_key(key);
    bool found = false;

    lock_take(&captures_lock);
    for (int i = 0; i < CAPTURES_MAX && !found; i++) {
        if (capturing_streams[i] != wanted || !wanted)
            continue;
        capturing_streams[i] = 0;
        found = true;
    }
    lock_drop(&captures_lock);
    if (found)
        atomic_fetch_sub_explicit(&shim_engine->captures, 1, memory_order_seq_cst);
}

static void before_capture(enum cu_entry entry)
{
    /* Before the lanes' issue locks are taken: who holds one after us sees the count, and places no marker. */
    atomic_fetch_add_explicit(&shim_engine->captures, 1, memory_order_seq_cst);
    order_context(NULL, entry);
    lanes_pass(shim_engine);
}

static CUresult after_begin(struct stream_key key, CUresult result)
{
    if (result == CUDA_SUCCESS)
        capture_began(key);
    else
        atomic_fetch_sub_explicit(&shim_engine->captures, 1, memory_order_seq_cst);
    return order_result(result);
}

#define BEGIN_CAPTURE(symbol, zero_is_mine, params)                                                                    \
    SHIM_EXPORT CUresult symbol CU_PARAMS(params)                                                                      \
    {                                                                                                                  \
        typeof(shim_driver.symbol) real = shim_real(symbol);                                                           \
        struct stream_key key = {hStream, zero_is_mine};                                                               \
                                                                                                                       \
        if (unlikely(!real))                                                                                           \
            return SHIM_NO_DRIVER;                                                                                     \
        if (!shim_active())                                                                                            \
            return real CU_ARGS(params);                                                                               \
        before_capture(CU_ID_##symbol);                                                                                \
        return after_begin(key, real CU_ARGS(params));                                                                 \
    }

BEGIN_CAPTURE(cuStreamBeginCapture, false, P1(CUstream, hStream))
BEGIN_CAPTURE(cuStreamBeginCapture_ptsz, true, P1(CUstream, hStream))
BEGIN_CAPTURE(cuStreamBeginCapture_v2, false, P2(CUstream, hStream, CUstreamCaptureMode, mode))
BEGIN_CAPTURE(cuStreamBeginCapture_v2_ptsz, true, P2(CUstream, hStream, CUstreamCaptureMode, mode))
BEGIN_CAPTURE(cuStreamBeginCaptureToGraph, false,
              P6(CUstream, hStream, CUgraph, hGraph, const CUgraphNode *, dependencies, const CUgraphEdgeData *,
                 dependencyData, size_t, numDependencies, CUstreamCaptureMode, mode))
BEGIN_CAPTURE(cuStreamBeginCaptureToGraph_ptsz, true,
              P6(CUstream, hStream, CUgraph, hGraph, const CUgraphNode *, dependencies, const CUgraphEdgeData *,
                 dependencyData, size_t, numDependencies, CUstreamCaptureMode, mode))

static CUresult end_capture(CUresult (*real)(CUstream, CUgraph *), struct stream_key key, CUgraph *graph)
{
    CUresult result = real(key.stream, graph);

    /* Other errors end the capture too (invalidated, unjoined); these say that it is another thread's to end. */
    if (result != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD && result != CUDA_ERROR_STREAM_CAPTURE_UNMATCHED)
        capture_ended(key);
    return result;
}

SHIM_EXPORT CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
    typeof(shim_driver.cuStreamEndCapture) real = shim_real(cuStreamEndCapture);

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(hStream, phGraph);
    return end_capture(real, (struct stream_key){hStream, false}, phGraph);
}

SHIM_EXPORT CUresult cuStreamEndCapture_ptsz(CUstream hStream, CUgraph *phGraph)
{
    typeof(shim_driver.cuStreamEndCapture_ptsz) real = shim_real(cuStreamEndCapture_ptsz);

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(hStream, phGraph);
    return end_capture(real, (struct stream_key){hStream, true}, phGraph);
}

/* A synchronised lane is known to be complete, which saves the device a marker. */
static CUresult synchronize(CUresult (*real)(CUstream), struct stream_key key, enum cu_entry entry)
{
    struct lane *lane = NULL;
    uint64_t issued = 0;
    CUresult result;

    if (!stream_is_per_thread(key))
        lane = lane_find(shim_engine, order_current_context(), key.stream);
    if (lane) {
        lane_await(lane);
        remote_await(lane);
    }
    order_stream(key, entry);
    if (lane)
        issued = atomic_load_explicit(&lane->issued, memory_order_acquire);
    result = real(key.stream);
    if (result == CUDA_SUCCESS && lane)
        lane_synced(lane, issued);
    return order_result(result);
}

SHIM_EXPORT CUresult cuStreamSynchronize(CUstream hStream)
{
    typeof(shim_driver.cuStreamSynchronize) real = shim_real(cuStreamSynchronize);

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(hStream);
    return synchronize(real, (struct stream_key){hStream, false}, CU_ID_cuStreamSynchronize);
}

SHIM_EXPORT CUresult cuStreamSynchronize_ptsz(CUstream hStream)
{
    typeof(shim_driver.cuStreamSynchronize_ptsz) real = shim_real(cuStreamSynchronize_ptsz);

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(hStream);
    return synchronize(real, (struct stream_key){hStream, true}, CU_ID_cuStreamSynchronize_ptsz);
}

static CUresult destroy(CUresult (*real)(CUstream), CUstream stream, enum cu_entry entry)
{
    struct stream_key key = {stream, false};

    if (stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD) {
        order_stream(key, entry);
        /* Before the driver can give the handle to another stream. */
        remote_lane_end(lane_find(shim_engine, order_current_context(), stream));
        lane_end(lane_find(shim_engine, order_current_context(), stream));
        capture_ended(key);
    }
    return order_result(real(stream));
}

SHIM_EXPORT CUresult cuStreamDestroy(CUstream hStream)
{
    typeof(shim_driver.cuStreamDestroy) real = shim_real(cuStreamDestroy);

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    return shim_active() ? destroy(real, hStream, CU_ID_cuStreamDestroy) : real(hStream);
}

SHIM_EXPORT CUresult cuStreamDestroy_v2(CUstream hStream)
{
    typeof(shim_driver.cuStreamDestroy_v2) real = shim_real(cuStreamDestroy_v2);

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    return shim_active() ? destroy(real, hStream, CU_ID_cuStreamDestroy_v2) : real(hStream);
}
