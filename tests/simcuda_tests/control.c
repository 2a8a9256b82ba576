/* SPDX-License-Identifier: Apache-2.0
 *
 * Description: what the environment variables of the simulated device do, and what it does before it is used. Each test
 * runs in a process of its own, because the variables are read once. Only for the simulated device.
 */
#include "tests/simcuda_tests/cu.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sys/wait.h>

static char output[1 << 16]; /* what the child wrote to stderr */

/* Runs `run` in a child with NAME=VALUE pairs; true if nothing failed there. */
static bool in_child(void (*run)(void), const char *const *environment)
{
    int status, pipes[2];
    size_t length = 0;
    ssize_t got;
    pid_t child;

    if (pipe(pipes))
        _exit(1);
    fflush(NULL);
    child = fork();
    if (child == 0) {
        close(pipes[0]);
        dup2(pipes[1], 2);
        for (; environment && *environment; environment += 2)
            setenv(environment[0], environment[1], 1);
        failures = 0;
        run();
        _exit(failures ? 1 : 0);
    }
    close(pipes[1]);
    while ((got = read(pipes[0], output + length, sizeof(output) - 1 - length)) > 0)
        length += (size_t)got;
    output[length] = '\0';
    close(pipes[0]);
    waitpid(child, &status, 0);
    if (status)
        fprintf(stderr, "in the child (status %d):\n%s", status, output);
    return status == 0;
}
#define CHILD(run, ...) CHECK(in_child(run, (const char *const[]){__VA_ARGS__, NULL}))

static int threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    int count = 0;

    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count - 2;
}

static void look_around_before_init(void)
{
    int version;
    void *pfn;
    CUdriverProcAddressQueryResult status;

    OK(cuDriverGetVersion(&version));
    OK(cuGetProcAddress_v2("cuLaunchKernel", &pfn, 12000, 0, &status));
    EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&version));
    CHECK(threads() == 1);
    OK(cuInit(0));
    CHECK(threads() == 1);
    set_up();
    CHECK(threads() == 1); /* only work needs a thread */
    OK(launch1(kernel("no_params"), NULL, NULL));
    OK(cuCtxSynchronize());
    CHECK(threads() >= 2);
}

static void nothing_happens_before_it_is_needed(void)
{
    CHILD(look_around_before_init, "X", "1");
    CHECK(output[0] == '\0');
}

static void third_alloc_fails(void)
{
    CUdeviceptr p;

    set_up();
    OK(cuMemAlloc_v2(&p, 16));
    OK(cuMemAlloc_v2(&p, 16));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&p, 16));
    OK(cuMemAlloc_v2(&p, 16));
    EXPECT(CUDA_ERROR_UNKNOWN, cuStreamSynchronize(NULL));
    OK(cuStreamSynchronize(NULL));
    OK(launch1(kernel("no_params"), NULL, NULL));
    EXPECT(CUDA_ERROR_LAUNCH_FAILED, launch1(kernel("no_params"), NULL, NULL));
    EXPECT(CUDA_ERROR_LAUNCH_FAILED, launch1(kernel("no_params"), NULL, NULL));
    /* the twin is an entry of its own */
    OK(cuLaunchKernel_ptsz(kernel("no_params"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
}

static void the_nth_call_of_an_entry_fails_on_request(void)
{
    CHILD(third_alloc_fails, "SIMCUDA_FAIL", "cuMemAlloc_v2:3:2,cuStreamSynchronize:1,cuLaunchKernel:2+:719");
}

static void only_init(void)
{
    OK(cuInit(0));
}

static void bad_settings_are_named(void)
{
    CHILD(only_init, "SIMCUDA_FAIL", "cuNobody:1");
    CHECK(strstr(output, "cuNobody") != NULL);
    CHILD(only_init, "SIMCUDA_TIME", "tomorrow");
    CHECK(strstr(output, "tomorrow") != NULL);
    CHILD(only_init, "SIMCUDA_DRIVER_VERSION", "x");
}

static void some_calls(void)
{
    CUstream s;
    CUdeviceptr p;

    set_up();
    s = new_stream(0);
    p = new_ints(1);
    OK(add1(s, p));
    OK(cuStreamSynchronize(s));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(NULL));
}

static void the_trace_has_a_line_for_each_call(void)
{
    char path[] = "/tmp/simcuda-trace-XXXXXX", *text, *line, *save;
    long number, last = -1;
    int lines = 0, fd = mkstemp(path);
    bool launched = false, synchronised = false, queried = false;

    CHECK(fd >= 0);
    close(fd);
    CHILD(some_calls, "SIMCUDA_TRACE", path);
    setenv("SIMCUDA_TESTS_DIR", "/", 1);
    text = test_file(path);
    unlink(path);
    for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char name[100];
        int result;

        CHECK(sscanf(line, "%ld tid=%*d %99s = %d", &number, name, &result) == 3);
        CHECK(number == last + 1);
        last = number;
        lines++;
        if (strcmp(name, "cuLaunchKernel") == 0)
            launched = result == 0 && strstr(line, "add1") && strstr(line, "grid=1,1,1");
        synchronised |= launched && strcmp(name, "cuStreamSynchronize") == 0;
        queried |= strcmp(name, "cuEventQuery") == 0 && result == CUDA_ERROR_INVALID_HANDLE;
    }
    CHECK(lines > 8);
    CHECK(launched && synchronised && queried);
    free(text);
}

static void call_stubs(void)
{
    CUarray array;

    set_up();
    for (int i = 0; i < 3; i++) {
        EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuArrayCreate_v2(&array, NULL));
        EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemcpyDtoA_v2_ptds(NULL, 0, 0, 0));
    }
}

static void what_is_not_implemented_says_so_once(void)
{
    char *first, *second;

    CHILD(call_stubs, "X", "1");
    first = strstr(output, "simcuda: cuArrayCreate_v2 is not implemented\n");
    CHECK(first && !strstr(strchr(first, '\n'), "cuArrayCreate_v2"));
    second = strstr(output, "simcuda: cuMemcpyDtoA_v2 is not implemented\n");
    CHECK(second && !strstr(strchr(second, '\n'), "cuMemcpyDtoA_v2"));
}

static void look_at_a100(void)
{
    char name[64];
    int value, major;
    CUdeviceptr out;
    CUmodule module;

    set_up();
    OK(cuDeviceGetName(name, sizeof(name), 0));
    CHECK(strstr(name, "A100") != NULL);
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    CHECK(value == 108);
    OK(cuDeviceComputeCapability(&major, &value, 0));
    CHECK(major == 8 && value == 0);
    /* no clusters there, and no code for newer devices */
    out = new_ints(8);
    char *text = test_file("cluster.ptx");
    EXPECT(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&module, text));
    free(text);
    CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    unsigned shape[3] = {2, 1, 1};
    CUlaunchConfig config = {2, 1, 1, 1, 1, 1, 0, NULL, &cluster, 1};
    void *params[] = {&out};
    memcpy(cluster.value.pad, shape, sizeof(shape));
    EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE, cuLaunchKernelEx(&config, kernel("add1"), params, NULL));
}

static void use_three_devices(void)
{
    CUcontext contexts[3];
    CUdeviceptr p[3];
    char id[3][32];
    CUdevice device;
    CUuuid uuid[2];
    int count, can;

    set_up();
    OK(cuDeviceGetCount(&count));
    CHECK(count == 3);
    EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, 3));
    for (int i = 0; i < 3; i++) {
        OK(cuDeviceGetPCIBusId(id[i], sizeof(id[i]), i));
        OK(cuDeviceGetByPCIBusId(&device, id[i]));
        CHECK(device == i);
        OK(cuCtxCreate_v2(&contexts[i], 0, i));
        OK(cuMemAlloc_v2(&p[i], 64));
        OK(cuPointerGetAttribute(&device, 9, p[i]));
        CHECK(device == i);
    }
    OK(cuDeviceGetUuid_v2(&uuid[0], 0));
    OK(cuDeviceGetUuid_v2(&uuid[1], 1));
    CHECK(memcmp(&uuid[0], &uuid[1], sizeof(CUuuid)) != 0);
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    CHECK(can == 1);
    OK(cuCtxEnablePeerAccess(contexts[0], 0));
    EXPECT(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(contexts[0], 0));
    OK(cuMemsetD32_v2(p[2], 6, 16));
    OK(cuMemcpyPeer(p[0], contexts[0], p[2], contexts[2], 64));
    CHECK(read_int(p[0]) == 6);
}

static void old_driver(void)
{
    CUdriverProcAddressQueryResult status;
    void *pfn;
    int version;

    OK(cuDriverGetVersion(&version));
    CHECK(version == 12020);
    OK(cuGetProcAddress_v2("cuFuncGetParamInfo", &pfn, 12020, 0, &status));
    CHECK(pfn == NULL && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND); /* it came with 12.4 */
    OK(cuGetProcAddress_v2("cuLaunchKernelEx", &pfn, 12020, 0, &status));
    CHECK(pfn == (void *)cuLaunchKernelEx);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuLaunchKernelEx", &pfn, 13000, 0, &status));
}

static void the_device_and_the_driver_version_can_be_chosen(void)
{
    CHILD(look_at_a100, "SIMCUDA_DEVICE", "a100");
    CHILD(use_three_devices, "SIMCUDA_DEVICES", "3");
    CHILD(old_driver, "SIMCUDA_DRIVER_VERSION", "12020");
}

static void no_such_device(void)
{
    EXPECT(CUDA_ERROR_NO_DEVICE, cuInit(0));
}

static void an_unknown_device_is_named(void)
{
    CHILD(no_such_device, "SIMCUDA_DEVICE", "voodoo2");
    CHECK(strstr(output, "voodoo2") != NULL);
    CHILD(no_such_device, "SIMCUDA_DEVICES", "0");
}

static void calls_at_exit(void)
{
    int count;

    EXPECT(CUDA_ERROR_DEINITIALIZED, cuDeviceGetCount(&count));
    if (failures)
        _exit(1);
}

static void exit_with_work_in_flight(void)
{
    atexit(calls_at_exit); /* registered before cuInit: runs after the driver's own */
    set_up();
    spin(new_stream(CU_STREAM_NON_BLOCKING), 3000);
    exit(0);
}

static void a_process_may_exit_with_work_in_flight(void)
{
    double began = seconds();

    CHILD(exit_with_work_in_flight, "X", "1");
    CHECK(seconds() - began < 2);
}

static void measure(void)
{
    enum { N = 100 };
    CUfunction f;
    CUevent a, b;
    CUstream s;
    float ms;
    double began;

    set_up();
    f = kernel("no_params");
    s = new_stream(CU_STREAM_NON_BLOCKING);
    a = new_event(0);
    b = new_event(0);
    OK(launch1(f, s, NULL));
    OK(cuStreamSynchronize(s));
    OK(cuEventRecord(a, s));
    began = seconds();
    for (int i = 0; i < N; i++)
        OK(launch1(f, s, NULL));
    began = seconds() - began;
    OK(cuEventRecord(b, s));
    OK(cuStreamSynchronize(s));
    OK(cuEventElapsedTime(&ms, a, b));
    CHECK(ms >= N * 2e-3);     /* 2 us each, at least */
    CHECK(began >= N * 20e-6); /* and 20 us of the caller, as was asked for */
}

/* Two launches in two streams: milliseconds until both are done, at 2 us x 5000 each. */
static double two_launches(unsigned blocks)
{
    CUstream s[2] = {new_stream(CU_STREAM_NON_BLOCKING), new_stream(CU_STREAM_NON_BLOCKING)};
    CUfunction f = kernel("no_params");
    double began = seconds();

    for (int i = 0; i < 2; i++)
        OK(cuLaunchKernel(f, blocks, 1, 1, 1024, 1, 1, 0, s[i], NULL, NULL));
    OK(cuCtxSynchronize());
    return (seconds() - began) * 1e3;
}

static void share_the_device(void)
{
    double small, large;

    set_up();
    small = two_launches(2);   /* one SM each: at the same time */
    large = two_launches(264); /* all SMs each: one after the other */
    CHECK(small >= 10);
    CHECK(large >= 20);
    CHECK(small < large - 5);
}

static void time_can_be_that_of_a_device(void)
{
    CHILD(measure, "SIMCUDA_TIME", "real", "SIMCUDA_LAUNCH_NS", "20000");
    CHILD(share_the_device, "SIMCUDA_TIME", "real", "SIMCUDA_TIME_SCALE", "5000");
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"nothing happens before it is needed", nothing_happens_before_it_is_needed},
        {"the N-th call of an entry fails on request", the_nth_call_of_an_entry_fails_on_request},
        {"bad settings are named", bad_settings_are_named},
        {"what is not implemented says so once", what_is_not_implemented_says_so_once},
        {"the device and the driver version can be chosen", the_device_and_the_driver_version_can_be_chosen},
        {"an unknown device is named", an_unknown_device_is_named},
        {"a process may exit with work in flight", a_process_may_exit_with_work_in_flight},
        {"time can be that of a device", time_can_be_that_of_a_device},
        {"the trace has a line for each call", the_trace_has_a_line_for_each_call},
    };

    setvbuf(stdout, NULL, _IOLBF, 0);
    return RUN_TESTS(tests, argc, argv);
}
