/* SPDX-License-Identifier: Apache-2.0
 *
 * Traps 4, 13 and 21: no call may overtake a held launch that it is ordered behind. One table of calls: before each,
 * the device is full and a store is held; after it, the driver must have seen the store first. The table is what other
 * deferring libraries were seen to let through, and more.
 */
#include "tests/traps/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the calls work on. Made anew for each row, because some rows destroy it. */
static struct {
    CUstream stream; /* where the store is held */
    CUdeviceptr target, other;
    void *pinned;
    void *registered;
    int pageable[16];
    CUevent event;
    CUmodule module;
    CUlibrary library;
    CUkernel kernel;
    CUfunction function; /* of `module` */
    CUgraph graph;
    CUgraphExec exec;
    CUcontext context; /* not the current one; has a stream of its own */
} with;

static void set_by_host(void *data)
{
    *(volatile int *)data = 1;
}

static void set_by_callback(CUstream stream, CUresult status, void *data)
{
    (void)stream;
    (void)status;
    *(volatile int *)data = 1;
}

static CUresult batch(void)
{
    CUstreamBatchMemOpParams operation = {.writeValue = {.operation = 2, .address = with.other, .value = 1}};

    return cu.cuStreamBatchMemOp_v2(with.stream, 1, &operation, 0);
}

static CUresult copy_2d(void)
{
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = with.target,
                          .srcPitch = 4,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = with.other,
                          .dstPitch = 4,
                          .WidthInBytes = 4,
                          .Height = 1};

    return cu.cuMemcpy2DAsync_v2(&copy, with.stream);
}

static CUresult launch_ex(void)
{
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, with.stream, NULL, 0};

    return cu.cuLaunchKernelEx(&config, client_kernel("copy_int"), (void *[]){&with.other, &with.target}, NULL);
}

static CUresult launch_grid(void)
{
    CUfunction function = client_kernel("copy_int");

    if (client_simulated()) /* which does not have this API of CUDA 3 */
        return cu.cuStreamSynchronize(with.stream);
    OK(cu.cuFuncSetBlockShape(function, 1, 1, 1));
    OK(cu.cuParamSetv(function, 0, &with.other, 8));
    OK(cu.cuParamSetv(function, 8, &with.target, 8));
    OK(cu.cuParamSetSize(function, 16));
    return cu.cuLaunchGridAsync(function, 1, 1, with.stream);
}

static CUresult alloc_async(void)
{
    CUdeviceptr memory;
    CUresult result = cu.cuMemAllocAsync(&memory, 64, with.stream);

    return result ? result : cu.cuMemFreeAsync(memory, with.stream);
}

static CUresult get_global(void)
{
    CUdeviceptr address;
    size_t bytes;

    return cu.cuModuleGetGlobal_v2(&address, &bytes, with.module, "counter");
}

static CUresult new_event(void)
{
    return cu.cuEventRecord(client_event(0), with.stream);
}

static CUresult wait_event(void)
{
    return cu.cuStreamWaitEvent(with.stream, with.event, 0);
}

static CUresult register_host(void)
{
    static char memory[8192] __attribute__((aligned(4096)));
    CUresult result = cu.cuMemHostRegister_v2(memory, 4096, 0);

    return result ? result : cu.cuMemHostUnregister(memory);
}

static CUresult stream_query(void)
{
    CUresult result = cu.cuStreamQuery(with.stream);

    return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

static CUresult destroy_context(void)
{
    return cu.cuCtxDestroy_v2(with.context);
}

/* Releases a second reference, so that the context lives on. */
static CUresult release_primary(void)
{
    CUcontext context;

    OK(cu.cuDevicePrimaryCtxRetain(&context, client_device));
    return cu.cuDevicePrimaryCtxRelease_v2(client_device);
}

#define ROW(trap, entry, call)                                                                                         \
    static CUresult row_##trap##_##entry(void)                                                                         \
    {                                                                                                                  \
        return call;                                                                                                   \
    }
#define ROWS(R)                                                                                                        \
    R(4, cuMemcpyAsync, cu.cuMemcpyAsync(with.other, with.target, 4, with.stream))                                     \
    R(4, cuMemcpyHtoDAsync, cu.cuMemcpyHtoDAsync_v2(with.target, with.pinned, 4, with.stream))                         \
    R(4, cuMemcpyDtoHAsync, cu.cuMemcpyDtoHAsync_v2(with.pinned, with.target, 4, with.stream))                         \
    R(4, cuMemcpyDtoDAsync, cu.cuMemcpyDtoDAsync_v2(with.other, with.target, 4, with.stream))                          \
    R(4, cuMemcpyPeerAsync,                                                                                            \
      cu.cuMemcpyPeerAsync(with.other, client_context, with.target, client_context, 4, with.stream))                   \
    R(4, cuMemcpy2DAsync, copy_2d())                                                                                   \
    R(4, cuMemsetD8Async, cu.cuMemsetD8Async(with.target, 1, 4, with.stream))                                          \
    R(4, cuMemsetD32Async, cu.cuMemsetD32Async(with.target, 1, 1, with.stream))                                        \
    R(4, cuMemsetD2D32Async, cu.cuMemsetD2D32Async(with.target, 4, 1, 1, 1, with.stream))                              \
    R(4, cuLaunchKernelEx, launch_ex())                                                                                \
    R(4, cuLaunchCooperativeKernel,                                                                                    \
      cu.cuLaunchCooperativeKernel(client_kernel("copy_int"), 1, 1, 1, 1, 1, 1, 0, with.stream,                        \
                                   (void *[]){&with.other, &with.target}))                                             \
    R(4, cuLaunchGridAsync, launch_grid())                                                                             \
    R(4, cuLaunchHostFunc, cu.cuLaunchHostFunc(with.stream, set_by_host, with.pinned))                                 \
    R(4, cuStreamAddCallback, cu.cuStreamAddCallback(with.stream, set_by_callback, with.pinned, 0))                    \
    R(4, cuStreamWriteValue64, cu.cuStreamWriteValue64_v2(with.stream, with.other, 1, 0))                              \
    R(4, cuStreamWaitValue32, cu.cuStreamWaitValue32_v2(with.stream, with.other, 0, CU_STREAM_WAIT_VALUE_GEQ))         \
    R(4, cuStreamBatchMemOp, batch())                                                                                  \
    R(4, cuMemAllocAsync, alloc_async())                                                                               \
    R(4, cuStreamSynchronize, cu.cuStreamSynchronize(with.stream))                                                     \
    R(4, cuStreamQuery, stream_query())                                                                                \
    R(4, cuStreamDestroy, cu.cuStreamDestroy_v2(with.stream))                                                          \
    R(4, cuEventRecord, new_event())                                                                                   \
    R(4, cuEventRecordWithFlags, cu.cuEventRecordWithFlags(with.event, with.stream, 0))                                \
    R(4, cuStreamWaitEvent, wait_event())                                                                              \
    R(4, cuGraphLaunch, cu.cuGraphLaunch(with.exec, with.stream))                                                      \
    R(4, cuCtxSynchronize, cu.cuCtxSynchronize())                                                                      \
    R(13, cuFuncSetAttribute, cu.cuFuncSetAttribute(with.function, 8, 1024))                                           \
    R(13, cuFuncSetCacheConfig, cu.cuFuncSetCacheConfig(with.function, 0))                                             \
    R(13, cuKernelSetAttribute, cu.cuKernelSetAttribute(8, 1024, with.kernel, client_device))                          \
    R(13, cuCtxSetLimit, cu.cuCtxSetLimit(0, 2048))                                                                    \
    R(13, cuModuleGetGlobal, get_global())                                                                             \
    R(21, cuMemcpyHtoD, cu.cuMemcpyHtoD_v2(with.target, with.pageable, 4))                                             \
    R(21, cuMemcpyDtoH, cu.cuMemcpyDtoH_v2(with.pageable, with.target, 4))                                             \
    R(21, cuMemcpyDtoD, cu.cuMemcpyDtoD_v2(with.other, with.target, 4))                                                \
    R(21, cuMemcpy, cu.cuMemcpy(with.other, with.target, 4))                                                           \
    R(21, cuMemsetD32, cu.cuMemsetD32_v2(with.target, 3, 1))                                                           \
    R(21, cuMemFree, cu.cuMemFree_v2(with.target))                                                                     \
    R(21, cuMemFreeHost, cu.cuMemFreeHost(with.pinned))                                                                \
    R(21, cuMemFreeAsync, cu.cuMemFreeAsync(with.target, with.stream))                                                 \
    R(21, cuMemHostRegister, register_host())                                                                          \
    R(21, cuMemHostUnregister, cu.cuMemHostUnregister(with.registered))                                                \
    R(21, cuModuleUnload, cu.cuModuleUnload(with.module))                                                              \
    R(21, cuLibraryUnload, cu.cuLibraryUnload(with.library))                                                           \
    R(21, cuGraphExecDestroy, cu.cuGraphExecDestroy(with.exec))                                                        \
    R(21, cuCtxDestroy, destroy_context())                                                                             \
    R(21, cuDevicePrimaryCtxRelease, release_primary())
ROWS(ROW)

static const struct row {
    int trap;
    const char *entry;
    CUresult (*call)(void);
} rows[] = {
#define ENTER(trap, entry, call) {trap, #entry, row_##trap##_##entry},
    ROWS(ENTER)};

static void make_graph(void)
{
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);

    OK(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    launch_copy_int(stream, with.other, with.target);
    OK(cu.cuStreamEndCapture(stream, &with.graph));
    OK(cu.cuGraphInstantiateWithFlags(&with.exec, with.graph, 0));
    OK(cu.cuStreamDestroy_v2(stream));
}

static void make_context(void)
{
    CUcontext popped;

    OK(cu.cuCtxCreate_v2(&with.context, 0, client_device));
    OK(cu.cuCtxPopCurrent_v2(&popped));
}

/* A module of its own and more only for the rows that need it: loading code takes long on a real device. */
static void prepare(const struct row *row)
{
    with.stream = client_stream(CU_STREAM_NON_BLOCKING);
    /* From a pool, so that cuMemFreeAsync may have it, and cuMemFree as well. */
    OK(cu.cuMemAllocAsync(&with.target, 64, with.stream));
    OK(cu.cuMemsetD32Async(with.target, 0, 16, with.stream));
    client_wait(with.stream);
    with.other = client_ints(16);
    OK(cu.cuMemHostAlloc(&with.pinned, 4096, 0));
    with.registered = aligned_alloc(4096, 4096);
    OK(cu.cuMemHostRegister_v2(with.registered, 4096, 0));
    with.event = client_event(0);
    OK(cu.cuEventRecord(with.event, with.stream));
    make_graph();
    with.function = client_kernel("store");
    if (row->trap != 4) {
        OK(cu.cuModuleLoadData(&with.module, client_ptx()));
        OK(cu.cuModuleGetFunction(&with.function, with.module, "store"));
        OK(cu.cuLibraryLoadData(&with.library, client_ptx(), NULL, NULL, 0, NULL, NULL, 0));
        OK(cu.cuLibraryGetKernel(&with.kernel, with.library, "store"));
    }
    if (row->call == row_21_cuCtxDestroy)
        make_context();
}

static void judge(const struct row *row)
{
    int value = 7;

    printf("%s\n", row->entry);
    client_step(row->entry);
    prepare(row);
    client_hold();
    client_mark();
    /* From the module that cuModuleUnload unloads, through the function whose attributes change. */
    LAUNCH(with.function, 1, 1, with.stream, &with.target, &value);
    client_still_held("store", 1);
    client_release_after(5);
    OK(row->call());
    OK(cu.cuCtxSynchronize());
    client_before("cuLaunchKernel", "store", row->entry, NULL);
    EXPECT(client_calls(row->entry, NULL) != 0 || row->call == row_4_cuLaunchGridAsync, "%s did not reach the driver",
           row->entry);
}

static void judge_trap(int trap)
{
    int count = 0;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].trap != trap)
            continue;
        judge(&rows[i]);
        client_release();
        count++;
    }
    EXPECT(count > 0, "no row for trap %d", trap);
    client_expect_held(2 * count);
}

static void trap_4(void)
{
    judge_trap(4);
}

static void trap_13(void)
{
    judge_trap(13);
}

static void trap_21(void)
{
    judge_trap(21);
}

/* --- 4: each way to launch, one after the other in one stream --- */

static void all_paths(void)
{
    CUstream s = client_stream(CU_STREAM_NON_BLOCKING);
    CUfunction f = client_kernel("twice_plus");
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, s, NULL, 0};
    CUdeviceptr p = client_ints(1);
    int k = 1, expected = 0, steps = 0;
    void *args[] = {&p, &k};
    CUgraphExec exec;
    CUgraph graph;

    OK(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    launch_twice_plus(s, p, 0);
    OK(cu.cuStreamEndCapture(s, &graph));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));

    client_hold();
#define STEP(plus, call)                                                                                               \
    do {                                                                                                               \
        k = plus;                                                                                                      \
        OK(call);                                                                                                      \
        k = 99;                                                                                                        \
        expected = expected * 2 + (plus);                                                                              \
        steps++;                                                                                                       \
    } while (0)
    for (int round = 0; round < 2; round++) {
        STEP(1, cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
        STEP(0, cu.cuLaunchKernelEx(&config, f, args, NULL));
        STEP(1, cu.cuLaunchCooperativeKernel(f, 1, 1, 1, 1, 1, 1, 0, s, args));
        STEP(0, cu.cuLaunchKernel_ptsz(f, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
        STEP(1, cu.cuLaunchKernelEx_ptsz(&config, f, args, NULL));
        STEP(0, cu.cuGraphLaunch(exec, s));
        STEP(1, cu.cuLaunchCooperativeKernel_ptsz(f, 1, 1, 1, 1, 1, 1, 0, s, args));
        STEP(1, cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
    }
    client_release();
    client_wait(s);
    EXPECT_INT(client_read(p), expected, "the value after launches by all paths");
    client_expect_held(7);
    client_expect_home("COOPERATIVE", 4);
}

static const struct client_scenario scenarios[] = {
    {"trap-04-no-call-of-a-stream-overtakes-its-held-launch", trap_4, false},
    {"trap-04-each-path-to-a-launch-keeps-its-place", all_paths, false},
    {"trap-13-changes-of-function-state-do-not-overtake-held-launches", trap_13, false},
    {"trap-21-frees-and-synchronous-copies-do-not-overtake-held-launches", trap_21, false},
};
CLIENT_MAIN(scenarios)
