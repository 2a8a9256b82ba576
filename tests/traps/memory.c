/* SPDX-License-Identifier: Apache-2.0
 *
 * Section D: memory that the host or an allocator uses again as soon as the CUDA model allows it. Traps 19 to 22, 34.
 */
#include "tests/traps/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- 19 --- */

static void pageable_destination(void)
{
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr d = client_ints(1);

    for (int round = 1; round <= 3; round++) {
        uint64_t began = client_ns();
        volatile int on_stack = -1;

        client_hold();
        launch_store_late(stream, d, round, 30000000);
        client_still_held("store_late", round);
        OK(cu.cuMemcpyDtoHAsync_v2((void *)&on_stack, d, sizeof(on_stack), stream));
        EXPECT_INT(on_stack, round, "pageable memory when the copy has returned");
        EXPECT(client_ns() - began > 25000000, "the copy returned before the kernel had ended");
        client_release();
    }
    client_expect_held(6);
}

static void pinned_destination(void)
{
    struct client_shared memory = client_shared(4);
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr seen = client_ints(1);
    uint64_t began;

    client_hold();
    launch_wait_flag(stream, 1, memory.device, seen);
    began = client_ns();
    OK(cu.cuMemcpyDtoHAsync_v2((void *)&memory.host[2], seen, 4, stream));
    EXPECT(client_ns() - began < 2000000000u, "a copy to pinned memory waits for the kernel");
    EXPECT_INT(memory.host[2], 0, "the copy's destination before the kernel has ended");
    memory.host[0] = 1;
    client_release();
    client_wait(stream);
    EXPECT_INT(memory.host[2], 1, "the copy's destination");
    client_expect_held(2);
}

/* --- 20 --- */

static void pinned_source(void)
{
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = client_event(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr d = client_ints(256), p = client_ints(1);
    int *source;

    OK(cu.cuMemHostAlloc((void **)&source, 1024, 0));
    for (int round = 1; round <= 10; round++) {
        uint64_t began = client_ns();

        memset(source, round, 1024);
        client_hold();
        launch_store(stream, p, round);
        OK(cu.cuMemcpyHtoDAsync_v2(d, source, 1024, stream));
        launch_add1(stream, p);
        OK(cu.cuEventRecord(event, stream));
        while (cu.cuEventQuery(event) == CUDA_ERROR_NOT_READY)
            EXPECT(client_ns() - began < 4000000000u, "the event does not come");
        memset(source, 0xee, 1024);
        client_release();
        EXPECT_INT(client_read(d + 1020), round * 0x01010101, "the end of what was copied before the source changed");
        EXPECT_INT(client_read(p), round + 1, "the kernels around the copy");
    }
    client_expect_held(30);
}

static void fill_from_stack(CUdeviceptr d, int value, CUstream stream)
{
    int source[1024];

    for (int i = 0; i < 1024; i++)
        source[i] = value;
    OK(cu.cuMemcpyHtoDAsync_v2(d, source, sizeof(source), stream));
    for (volatile int i = 0; i < 1024; i++)
        source[i] = -1;
}

static void pageable_source(void)
{
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr d = client_ints(1024), p = client_ints(1);

    client_hold();
    for (int round = 1; round <= 5; round++) {
        launch_spin(stream, 5000000);
        launch_store(stream, p, round);
        fill_from_stack(d, round, stream);
        launch_copy_int(stream, p, d + 4092);
        if (round == 3)
            client_release();
    }
    client_release();
    client_wait(stream);
    EXPECT_INT(client_read(d), 5, "the first word of the last copy");
    EXPECT_INT(client_read(d + 4092), 5, "the last word of the last copy");
    EXPECT_INT(client_read(p), 5, "what a kernel behind the copy read");
    client_expect_held(10);
}

/* --- 21 --- */

/* The host looks at pinned memory after it has unregistered it: what was launched has arrived. */
static void unregistered_memory_is_complete(void)
{
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    int *memory = aligned_alloc(4096, 4096);
    CUdeviceptr device;

    EXPECT(memory, "no memory");
    for (int round = 1; round <= 5; round++) {
        memory[0] = 0;
        OK(cu.cuMemHostRegister_v2(memory, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
        OK(cu.cuMemHostGetDevicePointer_v2(&device, memory, 0));
        client_hold();
        launch_store_late(stream, device, round, 2000000);
        client_release_after(5);
        OK(cu.cuMemHostUnregister(memory));
        EXPECT_INT(*(volatile int *)memory, round, "memory after it was unregistered");
        client_release();
    }
    OK(cu.cuCtxSynchronize());
    free(memory);
    client_expect_held(10);
}

static void frees_are_clean(void)
{
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);

    for (int round = 0; round < 8; round++) {
        CUdeviceptr d = client_ints(64);
        struct client_shared pinned = client_shared(4);

        client_hold();
        launch_store(stream, d, round);
        launch_store_late(stream, pinned.device, round, 200000);
        client_release_after(1);
        if (round % 2) {
            OK(cu.cuMemFree_v2(d));
            OK(cu.cuMemFreeHost((void *)pinned.host));
        } else {
            OK(cu.cuMemFreeHost((void *)pinned.host));
            OK(cu.cuMemFree_v2(d));
        }
        client_release();
        client_wait(stream);
    }
    OK(cu.cuCtxSynchronize());
    client_expect_held(24);
}

/* --- 22 --- */

/* A caching allocator hands one block to one tensor after the other in stream order, without waiting. */
static void blocks_used_again_in_stream_order(void)
{
    enum { N = 512, COPIES = 16 };
    CUstream streams[2] = {client_stream(CU_STREAM_NON_BLOCKING), client_stream(CU_STREAM_NON_BLOCKING)};
    CUdeviceptr block[2] = {client_ints(N), client_ints(N)}, copies = client_ints(2 * COPIES * N);
    CUfunction fill = client_kernel("fill"), copy = client_kernel("copy_ints");
    int n = N, zero = 0;
    static int got[2 * COPIES * N];

    client_hold();
    for (int i = 0; i < 64; i++) {
        for (int s = 0; s < 2; s++) {
            CUdeviceptr y = copies + 4ull * N * (CUdeviceptr)(s * COPIES + i % COPIES);
            int value = i * 2 + s;

            LAUNCH(fill, 4, 128, streams[s], &block[s], &value, &n);
            LAUNCH(copy, 4, 128, streams[s], &y, &block[s], &n);
            LAUNCH(fill, 4, 128, streams[s], &block[s], &zero, &n); /* the same block, for the next tensor */
        }
        if (i % 16 == 8)
            client_release();
        if (i % 16 == 15 && i < 63) {
            client_wait(streams[0]);
            client_hold();
        }
    }
    client_release();
    OK(cu.cuCtxSynchronize());
    OK(cu.cuMemcpyDtoH_v2(got, copies, sizeof(got)));
    for (int s = 0; s < 2; s++)
        for (int c = 0; c < COPIES; c++)
            for (int i = 0; i < N; i++)
                EXPECT(got[(s * COPIES + c) * N + i] == (48 + c) * 2 + s, "stream %d, copy %d, element %d: %d", s, c, i,
                       got[(s * COPIES + c) * N + i]);
    client_expect_held(300);
}

/* The driver's own stream-ordered allocator. */
static void driver_allocator(void)
{
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr out = client_ints(40);

    client_hold();
    for (int i = 0; i < 40; i++) {
        CUdeviceptr block;

        OK(cu.cuMemAllocAsync(&block, 4096, stream));
        launch_store(stream, block, i);
        launch_copy_int(stream, out + 4 * (CUdeviceptr)i, block);
        OK(cu.cuMemFreeAsync(block, stream));
        if (i == 20)
            client_release();
    }
    client_wait(stream);
    for (int i = 0; i < 40; i++)
        EXPECT_INT(client_read(out + 4 * (CUdeviceptr)i), i, "what went through a block of the stream's pool");
    client_expect_held(60);
}

/* --- 34 --- */

/* Split-K in small: partial results go to a workspace that each product of the stream uses again. */
static void one_workspace(void)
{
    enum { N = 64, ROUNDS = 60 };
    CUstream streams[2] = {client_stream(CU_STREAM_NON_BLOCKING), client_stream(CU_STREAM_DEFAULT)};
    CUdeviceptr workspace[2] = {client_ints(N), client_ints(N)}, out = client_ints(2 * ROUNDS);
    CUfunction to = client_kernel("to_workspace"), from = client_kernel("from_workspace");
    int n = N;

    client_hold();
    for (int i = 0; i < ROUNDS; i++) {
        for (int s = 0; s < 2; s++) {
            CUdeviceptr sum = out + 4 * (CUdeviceptr)(2 * i + s);

            LAUNCH(to, 2, 32, streams[s], &workspace[s], &i, &n);
            LAUNCH(from, 2, 32, streams[s], &workspace[s], &sum, &n);
        }
        if (i % 20 == 10)
            client_release();
        if (i % 20 == 19 && i + 1 < ROUNDS)
            client_hold();
    }
    client_release();
    OK(cu.cuCtxSynchronize());
    for (int i = 0; i < ROUNDS; i++)
        for (int s = 0; s < 2; s++)
            EXPECT_INT(client_read(out + 4 * (CUdeviceptr)(2 * i + s)), N * i * 31 + N * (N - 1) / 2,
                       "a sum over the workspace");
    client_expect_held(200);
}

static const struct client_scenario scenarios[] = {
    {"trap-19-a-copy-to-pageable-memory-is-done-when-it-returns", pageable_destination, false},
    {"trap-19-a-copy-to-pinned-memory-does-not-wait", pinned_destination, false},
    {"trap-20-a-pinned-source-is-free-after-its-event", pinned_source, false},
    {"trap-20-a-pageable-source-is-free-after-the-call", pageable_source, false},
    {"trap-21-unregistered-memory-holds-what-was-launched", unregistered_memory_is_complete, false},
    {"trap-21-memory-can-be-freed-under-held-launches", frees_are_clean, false},
    {"trap-22-a-caching-allocator-may-use-blocks-again", blocks_used_again_in_stream_order, false},
    {"trap-22-the-stream-ordered-allocator-keeps-its-order", driver_allocator, false},
    {"trap-34-kernels-of-one-stream-may-share-a-workspace", one_workspace, false},
};
CLIENT_MAIN(scenarios)
