/* SPDX-License-Identifier: Apache-2.0
 *
 * Description: launches: parameters are copied at the call in every form, kernels compute what they say, blocks that
 * need each other run together, attributes reach the kernel.
 */
#include "tests/simcuda_tests/cu.h"

static void parameters_are_copied_before_the_launch_returns(void)
{
    enum { N = 300 };
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr out = new_ints(N);
    CUfunction f = kernel("store");
    static int got[N];

    OK(spin(s, 40));
    for (int i = 0; i < N; i++) {
        CUdeviceptr p = out + 4 * (unsigned)i;
        int value = i;
        void *params[] = {&p, &value};

        OK(launch1(f, s, params));
        p = 0x10;
        value = -1;
        params[0] = params[1] = NULL;
    }
    OK(cuMemcpyDtoHAsync_v2(got, out, sizeof(got), s));
    for (int i = 0; i < N; i++)
        CHECK(got[i] == i);
}

static void the_extra_form_is_copied_too(void)
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_ints(1);
    unsigned char buffer[10];
    short value = 77;
    size_t size = sizeof(buffer);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};

    memcpy(buffer, &p, 8);
    memcpy(buffer + 8, &value, 2);
    OK(spin(s, 30));
    OK(cuLaunchKernel(kernel("store_short"), 1, 1, 1, 1, 1, 1, 0, s, NULL, extra));
    memset(buffer, 0xff, sizeof(buffer));
    memset(extra, 0xff, sizeof(extra));
    size = 0;
    OK(cuStreamSynchronize(s));
    CHECK(read_int(p) == 77);
}

static void large_parameters_arrive(void)
{
    static int words[1000];
    CUdeviceptr sum = new_ints(2), second = sum + 4;
    void *params[] = {words, &sum}, *more[] = {words, &second};
    int expected = 0, first = 0;

    for (int i = 0; i < 1000; i++) {
        words[i] = i * 3 + 1;
        expected += words[i];
        if (i < 250)
            first += words[i];
    }
    OK(launch1(kernel("big1000"), NULL, params));
    OK(launch1(kernel("big4000"), NULL, more));
    memset(words, 0, sizeof(words));
    CHECK(read_int(sum) == first);
    CHECK(read_int(second) == expected);
}

static void grids_compute_what_the_kernel_says(void)
{
    enum { N = 5000, M = 32 };
    static float x[N], y[N], a[M * M], b[M * M], c[M * M];
    CUdeviceptr dx, dy, da, db, dc;
    int n = N, m = M;
    float factor = 2.5f, one = 1.0f;

    MUST(cuMemAlloc_v2(&dx, sizeof(x)));
    MUST(cuMemAlloc_v2(&dy, sizeof(y)));
    for (int i = 0; i < N; i++)
        y[i] = (float)i;
    OK(cuMemcpyHtoD_v2(dy, y, sizeof(y)));
    void *fill[] = {&dx, &one, &n}, *saxpy[] = {&factor, &dx, &dy, &n};
    OK(cuLaunchKernel(kernel("fill"), (N + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, fill, NULL));
    OK(cuLaunchKernel(kernel("saxpy"), (N + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, saxpy, NULL));
    OK(cuMemcpyDtoH_v2(y, dy, sizeof(y)));
    for (int i = 0; i < N; i++)
        CHECK(y[i] == 2.5f + (float)i);

    MUST(cuMemAlloc_v2(&da, sizeof(a)));
    MUST(cuMemAlloc_v2(&db, sizeof(b)));
    MUST(cuMemAlloc_v2(&dc, sizeof(c)));
    for (int i = 0; i < M * M; i++) {
        a[i] = (float)(i % 7);
        b[i] = (float)(i % 5) - 2;
    }
    OK(cuMemcpyHtoD_v2(da, a, sizeof(a)));
    OK(cuMemcpyHtoD_v2(db, b, sizeof(b)));
    void *gemm[] = {&da, &db, &dc, &m};
    OK(cuLaunchKernel(kernel("gemm"), M / 8, M / 8, 1, 8, 8, 1, 0, NULL, gemm, NULL));
    OK(cuMemcpyDtoH_v2(c, dc, sizeof(c)));
    for (int i = 0; i < M; i++)
        for (int j = 0; j < M; j++) {
            float sum = 0;

            for (int k = 0; k < M; k++)
                sum += a[i * M + k] * b[k * M + j];
            CHECK(c[i * M + j] == sum); /* small whole numbers: exact */
        }
}

static void dynamic_shared_memory_needs_the_function_s_permission(void)
{
    CUfunction f = kernel("use_shared");
    CUdeviceptr p = new_ints(1);
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    int words = 65536 / 4, value;
    void *params[] = {&p, &words};

    EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 65536, s, params, NULL));
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536));
    OK(spin(s, 30));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 65536, s, params, NULL));
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 4096));
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f));
    CHECK(value == 4096);
    OK(cuStreamSynchronize(s)); /* the launch was accepted under the old limit */
    CHECK(read_int(p) == words);
}

static void cooperative_blocks_are_all_resident(void)
{
    CUdeviceptr count = new_ints(2), met = count + 4;
    unsigned blocks = 264;
    void *params[] = {&count, &blocks, &met};

    OK(cuLaunchCooperativeKernel(kernel("meet"), blocks, 1, 1, 32, 1, 1, 0, NULL, params));
    OK(cuCtxSynchronize());
    CHECK(read_int(met) == (int)blocks);
    EXPECT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
           cuLaunchCooperativeKernel(kernel("meet"), 1000000, 1, 1, 32, 1, 1, 0, NULL, params));
}

static void an_ordinary_grid_that_fits_is_resident_too(void)
{
    CUdeviceptr count = new_ints(2), met = count + 4;
    unsigned blocks = 132;
    void *params[] = {&count, &blocks, &met};

    OK(cuLaunchKernel(kernel("meet"), blocks, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
    OK(cuCtxSynchronize());
    CHECK(read_int(met) == (int)blocks);
}

static void cluster_dimensions_reach_the_kernel(void)
{
    CUdeviceptr out = new_ints(24);
    CUmodule module;
    CUfunction f;
    unsigned shape[3] = {2, 1, 1}, got[24];
    CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    CUlaunchConfig config = {4, 1, 1, 32, 1, 1, 0, NULL, &cluster, 1};
    void *params[] = {&out};
    char *text = test_file("cluster.ptx");
    CUresult loaded = cuModuleLoadData(&module, text);

    free(text);
    OK(loaded);
    if (loaded)
        return;
    OK(cuModuleGetFunction(&f, module, "cluster_shape"));
    memcpy(cluster.value.pad, shape, sizeof(shape));
    OK(cuLaunchKernelEx(&config, f, params, NULL));
    memset(&cluster, 0xff, sizeof(cluster));
    OK(cuMemcpyDtoH_v2(got, out, sizeof(got)));
    for (unsigned i = 0; i < 4; i++)
        CHECK(got[3 * i] == 2 && got[3 * i + 1] == 1 && got[3 * i + 2] == i % 2);
    OK(cuModuleUnload(module));
}

static void a_launch_can_record_an_event(void)
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING), t = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_ints(1);
    CUevent e = new_event(CU_EVENT_DISABLE_TIMING);
    CUlaunchAttribute record = {.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT};
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, s, &record, 1};
    unsigned long long ns = 50000000;
    void *params[] = {&ns};

    memcpy(record.value.pad, &e, sizeof(e));
    OK(cuLaunchKernelEx(&config, kernel("spin"), params, NULL));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(e));
    OK(cuStreamWaitEvent(t, e, 0));
    OK(add1(t, p));
    OK(cuStreamSynchronize(t));
    CHECK(read_int(p) == 1);
}

static void unknown_attributes_are_accepted(void)
{
    CUdeviceptr p = new_ints(1);
    CUlaunchAttribute some[3] = {{.id = 6, .value = {.programmaticStreamSerializationAllowed = 1}},
                                 {.id = 8, .value = {.priority = -1}},
                                 {.id = 0}};
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, some, 3};
    void *params[] = {&p};

    OK(cuLaunchKernelEx(&config, kernel("add1"), params, NULL));
    CHECK(read_int(p) == 1);
}

static void too_many_registers_are_refused(void)
{
    /* 200 registers for each of 1024 threads do not fit an SM. The register count is an estimate of ours. */
    CUfunction f = kernel("many_registers");
    int registers, most;

    OK(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
    OK(cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
    CHECK(registers >= 100);
    CHECK(most <= 256);
}

static void occupancy_follows_the_limits_of_the_device(void)
{
    CUfunction f = kernel("add1");
    int blocks, grid, size, sms;
    size_t shared;

    OK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 1024, 0));
    CHECK(blocks == 2);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 32, 0));
    CHECK(blocks == 32);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 32, 48 << 10));
    CHECK(blocks == 4); /* 228 KB / 49 KB */
    OK(cuOccupancyMaxPotentialBlockSize(&grid, &size, f, NULL, 0, 0));
    CHECK(size == 1024 && grid == 2 * sms);
    OK(cuOccupancyAvailableDynamicSMemPerBlock(&shared, f, 2, 128));
    CHECK(shared == 48 << 10); /* what the function may use without asking */
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 200 << 10));
    OK(cuOccupancyAvailableDynamicSMemPerBlock(&shared, f, 2, 128));
    CHECK(shared == 233472 / 2);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"parameters are copied before the launch returns", parameters_are_copied_before_the_launch_returns},
        {"the extra form is copied too", the_extra_form_is_copied_too},
        {"large parameters arrive", large_parameters_arrive},
        {"grids compute what the kernel says", grids_compute_what_the_kernel_says},
        {"dynamic shared memory needs the function's permission",
         dynamic_shared_memory_needs_the_function_s_permission},
        {"cooperative blocks are all resident", cooperative_blocks_are_all_resident},
        {"an ordinary grid that fits is resident too", an_ordinary_grid_that_fits_is_resident_too},
        {"cluster dimensions reach the kernel", cluster_dimensions_reach_the_kernel},
        {"a launch can record an event", a_launch_can_record_an_event},
        {"unknown attributes are accepted", unknown_attributes_are_accepted},
        {"too many registers are refused", too_many_registers_are_refused},
        {"occupancy follows the limits of the device", occupancy_follows_the_limits_of_the_device},
    };

    set_up();
    return RUN_TESTS(tests, argc, argv);
}
