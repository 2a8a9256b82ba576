/* SPDX-License-Identifier: Apache-2.0
 *
 * Description: copies and sets: what the host may see when, for pageable and pinned memory; shapes; sizes.
 */
#include "tests/simcuda_tests/cu.h"

static void a_copy_to_pageable_memory_is_complete_on_return(void)
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_ints(1);
    int value = 0;
    double began = seconds();

    OK(spin(s, 80));
    OK(store(s, p, 7));
    OK(cuMemcpyDtoHAsync_v2(&value, p, sizeof(value), s));
    CHECK(value == 7);
    CHECK(seconds() - began > 0.07);
}

static void a_copy_to_pinned_memory_is_asynchronous(void)
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_ints(1);
    void *host;
    double began = seconds();

    MUST(cuMemAllocHost_v2(&host, 4096));
    *(volatile int *)host = 0;
    OK(spin(s, 80));
    OK(store(s, p, 7));
    OK(cuMemcpyDtoHAsync_v2(host, p, 4, s));
    CHECK(seconds() - began < 0.06);
    CHECK(*(volatile int *)host == 0);
    OK(cuStreamSynchronize(s));
    CHECK(*(volatile int *)host == 7);
    OK(cuMemFreeHost(host));
}

static void a_pageable_source_is_read_at_the_call(void)
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_ints(1024);
    int bytes[1024];

    for (int i = 0; i < 1024; i++)
        bytes[i] = i;
    OK(spin(s, 80));
    OK(cuMemcpyHtoDAsync_v2(p, bytes, sizeof(bytes), s));
    memset(bytes, 0xff, sizeof(bytes));
    OK(cuStreamSynchronize(s));
    OK(cuMemcpyDtoH_v2(bytes, p, sizeof(bytes)));
    for (int i = 0; i < 1024; i++)
        CHECK(bytes[i] == i);
}

static void a_pinned_source_is_read_when_the_copy_runs(void)
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_ints(1);
    CUevent e = new_event(0);
    static int registered[4096];
    void *host;

    MUST(cuMemHostAlloc(&host, 4096, 0));
    *(volatile int *)host = 1;
    OK(spin(s, 80));
    OK(cuMemcpyHtoDAsync_v2(p, host, 4, s));
    OK(cuEventRecord(e, s));
    *(volatile int *)host = 2; /* too early: the copy has not run */
    OK(cuEventSynchronize(e));
    *(volatile int *)host = 3; /* free to use */
    CHECK(read_int(p) == 2);

    OK(cuMemHostRegister_v2(registered, sizeof(registered), 0));
    registered[0] = 1;
    OK(spin(s, 80));
    OK(cuMemcpyAsync(p, (uintptr_t)registered, 4, s));
    *(volatile int *)&registered[0] = 2;
    OK(cuStreamSynchronize(s));
    CHECK(read_int(p) == 2);
    OK(cuMemHostUnregister(registered));
    OK(cuMemFreeHost(host));
}

static void synchronous_copies_come_after_blocking_streams(void)
{
    CUstream s = new_stream(0);
    CUdeviceptr p = new_ints(2);
    int value = 0;

    OK(spin(s, 50));
    OK(store(s, p, 7));
    OK(cuMemcpyDtoD_v2(p + 4, p, 4)); /* the host does not wait for this one, but it is in order */
    OK(cuMemcpyDtoH_v2(&value, p + 4, 4));
    CHECK(value == 7);
    OK(spin(s, 50));
    OK(store(s, p, 8));
    OK(cuMemsetD32_v2(p, 9, 1));
    OK(add1(s, p));
    OK(cuStreamSynchronize(s));
    CHECK(read_int(p) == 10);
}

static void synchronous_copies_do_not_wait_for_non_blocking_streams(void)
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr flag = new_ints(1), seen = new_ints(1);
    int one = 1;

    OK(wait_flag(s, flag, seen));
    OK(cuMemcpyHtoD_v2(flag, &one, 4));
    OK(cuStreamSynchronize(s));
    CHECK(read_int(seen) == 1);
}

static void copies_of_rows_and_planes_touch_only_those(void)
{
    unsigned char host[6 * 16], back[6 * 16];
    CUdeviceptr p;
    size_t pitch;

    for (int i = 0; i < 96; i++)
        host[i] = (unsigned char)i;
    MUST(cuMemAllocPitch_v2(&p, &pitch, 16, 6, 4));
    CHECK(pitch >= 16);
    OK(cuMemsetD2D8_v2(p, pitch, 0xaa, 16, 6));
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = host,
                       .srcPitch = 16,
                       .srcXInBytes = 4,
                       .srcY = 1,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = p,
                       .dstPitch = pitch,
                       .dstXInBytes = 2,
                       .dstY = 3,
                       .WidthInBytes = 8,
                       .Height = 2};
    OK(cuMemcpy2D_v2(&c));
    CUDA_MEMCPY2D r = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = p,
                       .srcPitch = pitch,
                       .dstMemoryType = CU_MEMORYTYPE_HOST,
                       .dstHost = back,
                       .dstPitch = 16,
                       .WidthInBytes = 16,
                       .Height = 6};
    OK(cuMemcpy2D_v2(&r));
    for (int y = 0; y < 6; y++)
        for (int x = 0; x < 16; x++) {
            bool inside = y >= 3 && y < 5 && x >= 2 && x < 10;

            CHECK(back[y * 16 + x] == (inside ? host[(y - 2) * 16 + x + 2] : 0xaa));
        }
    CUDA_MEMCPY3D d = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = host,
                       .srcPitch = 8,
                       .srcHeight = 4,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = p,
                       .dstPitch = 8,
                       .dstHeight = 2,
                       .WidthInBytes = 8,
                       .Height = 2,
                       .Depth = 3};
    OK(cuMemcpy3D_v2(&d));
    OK(cuMemcpyDtoH_v2(back, p, 48));
    for (int z = 0; z < 3; z++)
        for (int y = 0; y < 2; y++)
            for (int x = 0; x < 8; x++)
                CHECK(back[z * 16 + y * 8 + x] == host[z * 32 + y * 8 + x]);
    c.WidthInBytes = 17;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&c));
    OK(cuMemFree_v2(p));
}

static void sets_write_whole_elements(void)
{
    CUdeviceptr p = new_ints(8);
    unsigned short half[16];
    unsigned word[8];
    CUstream s = new_stream(0);

    OK(cuMemsetD16_v2(p + 2, 0x1234, 3));
    OK(cuMemcpyDtoH_v2(half, p, 32));
    CHECK(half[0] == 0 && half[1] == 0x1234 && half[3] == 0x1234 && half[4] == 0);
    OK(cuMemsetD32Async(p, 0xdeadbeef, 8, s));
    OK(cuMemsetD8Async(p + 1, 0, 1, s));
    OK(cuMemcpyDtoHAsync_v2(word, p, 32, s));
    CHECK(word[0] == 0xdead00ef && word[7] == 0xdeadbeef);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD16_v2(p + 1, 0, 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(p, 0, 9));
}

static void a_batch_of_copies_is_in_order(void)
{
    CUstream s = new_stream(0);
    CUdeviceptr p = new_ints(4), dst[2] = {p + 4, p + 8}, src[2] = {p, p + 4};
    size_t sizes[2] = {4, 4}, index = 0;
    char attributes[64] = {1}; /* srcAccessOrder: stream */

    OK(store(s, p, 7));
    OK(cuMemcpyBatchAsync_v2(dst, src, sizes, 2, (CUmemcpyAttributes *)attributes, &index, 1, s));
    OK(cuStreamSynchronize(s));
    CHECK(read_int(p + 8) == 7);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"a copy to pageable memory is complete on return", a_copy_to_pageable_memory_is_complete_on_return},
        {"a copy to pinned memory is asynchronous", a_copy_to_pinned_memory_is_asynchronous},
        {"a pageable source is read at the call", a_pageable_source_is_read_at_the_call},
        {"a pinned source is read when the copy runs", a_pinned_source_is_read_when_the_copy_runs},
        {"synchronous copies come after blocking streams", synchronous_copies_come_after_blocking_streams},
        {"synchronous copies do not wait for non-blocking streams",
         synchronous_copies_do_not_wait_for_non_blocking_streams},
        {"copies of rows and planes touch only those", copies_of_rows_and_planes_touch_only_those},
        {"sets write whole elements", sets_write_whole_elements},
        {"a batch of copies is in order", a_batch_of_copies_is_in_order},
    };

    set_up();
    return RUN_TESTS(tests, argc, argv);
}
