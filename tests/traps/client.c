/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/traps/client.h"

#include "tests/traps/kernels.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    WATCHDOG_S = 20,
    HELD_CAP_MS = 100, /* as in run.py */
};

struct cu_driver cu;
CUdevice client_device;
CUcontext client_context;

static void *library;
static struct kernel_entry {
    const char *name;
    bool sm90;
    CUfunction function;
} kernels[] = {
    {"spin", false, NULL},         {"store", false, NULL},
    {"store_late", false, NULL},   {"add1", false, NULL},
    {"twice_plus", false, NULL},   {"copy_int", false, NULL},
    {"wait_flag", false, NULL},    {"occupy", false, NULL},
    {"store_short", false, NULL},  {"big", false, NULL},
    {"seventy", false, NULL},      {"use_shared", false, NULL},
    {"fill", false, NULL},         {"copy_ints", false, NULL},
    {"to_workspace", false, NULL}, {"from_workspace", false, NULL},
    {"meet", false, NULL},         {"count_up", false, NULL},
    {"cluster_shape", true, NULL}, {"pdl_first", true, NULL},
    {"pdl_second", true, NULL},
};
static const char *volatile doing = "starting";

/* --- judging --- */

static void flush_and_leave(int status)
{
    fflush(stdout);
    _exit(status);
}

void client_fail(const char *file, int line, const char *format, ...)
{
    const char *slash = strrchr(file, '/');
    va_list args;

    va_start(args, format);
    printf("%s:%d: ", slash ? slash + 1 : file, line);
    vprintf(format, args);
    printf(" (while: %s)\n", doing);
    va_end(args);
    flush_and_leave(1);
    abort(); /* not reached */
}

void client_skip(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vprintf(format, args);
    printf("\n");
    va_end(args);
    flush_and_leave(77);
    abort(); /* not reached */
}

void client_step(const char *text)
{
    doing = text;
}

static void bark(int signal_number)
{
    static const char begin[] = "the watchdog ended it after 20 s, while: ";
    const char *text = doing;

    (void)signal_number;
    if (write(STDOUT_FILENO, begin, sizeof(begin) - 1) < 0 || write(STDOUT_FILENO, text, strlen(text)) < 0 ||
        write(STDOUT_FILENO, "\n", 1) < 0)
        _exit(1);
    _exit(1);
}

void client_expect_held(int launches)
{
    printf("expect held %d\n", launches);
}

void client_expect_home(const char *reason, int launches)
{
    printf("expect home %s %d\n", reason, launches);
}

void client_expect_issued(const char *reason, int launches)
{
    printf("expect issued %s %d\n", reason, launches);
}

void client_expect_packed(int launches)
{
    printf("expect packed %d\n", launches);
}

void client_expect_none_held(void)
{
    printf("expect none-held\n");
}

void client_expect_line(const char *mode, const char *text)
{
    printf("expect line %s %s\n", mode, text);
}

void client_allow_line(const char *text)
{
    printf("expect allowed %s\n", text);
}

void client_expect_uncounted(const char *why)
{
    printf("expect uncounted %s\n", why);
}

/* --- surroundings --- */

enum client_mode client_mode(void)
{
    static const char *const names[] = {"direct", "full", "gate", "held"};
    const char *mode = getenv("TRAPS_MODE");

    for (int i = 0; mode && i < 4; i++)
        if (strcmp(mode, names[i]) == 0)
            return (enum client_mode)i;
    return CLIENT_DIRECT;
}

bool client_shim(void)
{
    return client_mode() != CLIENT_DIRECT;
}

bool client_simulated(void)
{
    return getenv("SIMCUDA_TRACE") != NULL;
}

uint64_t client_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void client_sleep_ms(unsigned ms)
{
    struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};

    nanosleep(&time, NULL);
}

/* --- looking functions up, as the CUDA runtime does --- */

enum { PER_THREAD = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM };

/* Field of `cu`, name and version to ask for, flags. Versions are those of cudaTypedefs.h 13.0. */
#define LOOKUPS(L)                                                                                                     \
    L(cuInit, "cuInit", 2000, 0)                                                                                       \
    L(cuDriverGetVersion, "cuDriverGetVersion", 2020, 0)                                                               \
    L(cuDeviceGet, "cuDeviceGet", 2000, 0)                                                                             \
    L(cuDeviceGetCount, "cuDeviceGetCount", 2000, 0)                                                                   \
    L(cuDeviceGetAttribute, "cuDeviceGetAttribute", 2000, 0)                                                           \
    L(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, 0)                                                   \
    L(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, 0)                                             \
    L(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, 0)                                                 \
    L(cuCtxCreate_v2, "cuCtxCreate", 3020, 0)                                                                          \
    L(cuCtxDestroy_v2, "cuCtxDestroy", 4000, 0)                                                                        \
    L(cuCtxGetCurrent, "cuCtxGetCurrent", 4000, 0)                                                                     \
    L(cuCtxSetCurrent, "cuCtxSetCurrent", 4000, 0)                                                                     \
    L(cuCtxPushCurrent_v2, "cuCtxPushCurrent", 4000, 0)                                                                \
    L(cuCtxPopCurrent_v2, "cuCtxPopCurrent", 4000, 0)                                                                  \
    L(cuCtxSynchronize, "cuCtxSynchronize", 2000, 0)                                                                   \
    L(cuCtxSynchronize_v2, "cuCtxSynchronize", 13000, 0)                                                               \
    L(cuCtxGetDevice, "cuCtxGetDevice", 2000, 0)                                                                       \
    L(cuCtxGetDevice_v2, "cuCtxGetDevice", 13000, 0)                                                                   \
    L(cuCtxSetLimit, "cuCtxSetLimit", 3010, 0)                                                                         \
    L(cuCtxGetLimit, "cuCtxGetLimit", 3010, 0)                                                                         \
    L(cuModuleLoadData, "cuModuleLoadData", 2000, 0)                                                                   \
    L(cuModuleUnload, "cuModuleUnload", 2000, 0)                                                                       \
    L(cuModuleGetFunction, "cuModuleGetFunction", 2000, 0)                                                             \
    L(cuModuleGetGlobal_v2, "cuModuleGetGlobal", 3020, 0)                                                              \
    L(cuLibraryLoadData, "cuLibraryLoadData", 12000, 0)                                                                \
    L(cuLibraryGetKernel, "cuLibraryGetKernel", 12000, 0)                                                              \
    L(cuLibraryUnload, "cuLibraryUnload", 12000, 0)                                                                    \
    L(cuKernelSetAttribute, "cuKernelSetAttribute", 12000, 0)                                                          \
    L(cuFuncSetAttribute, "cuFuncSetAttribute", 9000, 0)                                                               \
    L(cuFuncGetAttribute, "cuFuncGetAttribute", 2020, 0)                                                               \
    L(cuFuncSetCacheConfig, "cuFuncSetCacheConfig", 3000, 0)                                                           \
    L(cuFuncGetParamInfo, "cuFuncGetParamInfo", 12040, 0)                                                              \
    L(cuFuncSetBlockShape, "cuFuncSetBlockShape", 2000, 0)                                                             \
    L(cuParamSetSize, "cuParamSetSize", 2000, 0)                                                                       \
    L(cuParamSetv, "cuParamSetv", 2000, 0)                                                                             \
    L(cuLaunchGrid, "cuLaunchGrid", 2000, 0)                                                                           \
    L(cuLaunchGridAsync, "cuLaunchGridAsync", 2000, 0)                                                                 \
    L(cuOccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor", 6050, 0)             \
    L(cuMemAlloc_v2, "cuMemAlloc", 3020, 0)                                                                            \
    L(cuMemFree_v2, "cuMemFree", 3020, 0)                                                                              \
    L(cuMemHostAlloc, "cuMemHostAlloc", 2020, 0)                                                                       \
    L(cuMemFreeHost, "cuMemFreeHost", 2000, 0)                                                                         \
    L(cuMemHostRegister_v2, "cuMemHostRegister", 6050, 0)                                                              \
    L(cuMemHostUnregister, "cuMemHostUnregister", 4000, 0)                                                             \
    L(cuMemHostGetDevicePointer_v2, "cuMemHostGetDevicePointer", 3020, 0)                                              \
    L(cuMemAllocAsync, "cuMemAllocAsync", 11020, 0)                                                                    \
    L(cuMemFreeAsync, "cuMemFreeAsync", 11020, 0)                                                                      \
    L(cuMemAllocManaged, "cuMemAllocManaged", 6000, 0)                                                                 \
    L(cuMemcpy, "cuMemcpy", 4000, 0)                                                                                   \
    L(cuMemcpyAsync, "cuMemcpyAsync", 4000, 0)                                                                         \
    L(cuMemcpyPeerAsync, "cuMemcpyPeerAsync", 4000, 0)                                                                 \
    L(cuMemcpyHtoD_v2, "cuMemcpyHtoD", 3020, 0)                                                                        \
    L(cuMemcpyDtoH_v2, "cuMemcpyDtoH", 3020, 0)                                                                        \
    L(cuMemcpyDtoD_v2, "cuMemcpyDtoD", 3020, 0)                                                                        \
    L(cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync", 3020, 0)                                                              \
    L(cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync", 3020, 0)                                                              \
    L(cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync", 3020, 0)                                                              \
    L(cuMemcpy2DAsync_v2, "cuMemcpy2DAsync", 3020, 0)                                                                  \
    L(cuMemsetD8_v2, "cuMemsetD8", 3020, 0)                                                                            \
    L(cuMemsetD32_v2, "cuMemsetD32", 3020, 0)                                                                          \
    L(cuMemsetD8Async, "cuMemsetD8Async", 3020, 0)                                                                     \
    L(cuMemsetD32Async, "cuMemsetD32Async", 3020, 0)                                                                   \
    L(cuMemsetD2D32Async, "cuMemsetD2D32Async", 3020, 0)                                                               \
    L(cuStreamCreate, "cuStreamCreate", 2000, 0)                                                                       \
    L(cuStreamDestroy_v2, "cuStreamDestroy", 4000, 0)                                                                  \
    L(cuStreamSynchronize, "cuStreamSynchronize", 2000, 0)                                                             \
    L(cuStreamQuery, "cuStreamQuery", 2000, 0)                                                                         \
    L(cuStreamWaitEvent, "cuStreamWaitEvent", 3020, 0)                                                                 \
    L(cuStreamAddCallback, "cuStreamAddCallback", 5000, 0)                                                             \
    L(cuStreamWriteValue64_v2, "cuStreamWriteValue64", 11070, 0)                                                       \
    L(cuStreamWaitValue32_v2, "cuStreamWaitValue32", 11070, 0)                                                         \
    L(cuStreamBatchMemOp_v2, "cuStreamBatchMemOp", 11070, 0)                                                           \
    L(cuStreamBeginCapture_v2, "cuStreamBeginCapture", 10010, 0)                                                       \
    L(cuStreamEndCapture, "cuStreamEndCapture", 10000, 0)                                                              \
    L(cuStreamIsCapturing, "cuStreamIsCapturing", 10000, 0)                                                            \
    L(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", 10010, 0)                                \
    L(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", 11040, 0)                                            \
    L(cuGraphLaunch, "cuGraphLaunch", 10000, 0)                                                                        \
    L(cuGraphExecDestroy, "cuGraphExecDestroy", 10000, 0)                                                              \
    L(cuGraphDestroy, "cuGraphDestroy", 10000, 0)                                                                      \
    L(cuEventCreate, "cuEventCreate", 2000, 0)                                                                         \
    L(cuEventDestroy_v2, "cuEventDestroy", 4000, 0)                                                                    \
    L(cuEventRecord, "cuEventRecord", 2000, 0)                                                                         \
    L(cuEventRecordWithFlags, "cuEventRecordWithFlags", 11010, 0)                                                      \
    L(cuEventQuery, "cuEventQuery", 2000, 0)                                                                           \
    L(cuEventSynchronize, "cuEventSynchronize", 2000, 0)                                                               \
    L(cuEventElapsedTime, "cuEventElapsedTime", 2000, 0)                                                               \
    L(cuLaunchKernel, "cuLaunchKernel", 4000, 0)                                                                       \
    L(cuLaunchKernelEx, "cuLaunchKernelEx", 11060, 0)                                                                  \
    L(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", 9000, 0)                                                 \
    L(cuLaunchHostFunc, "cuLaunchHostFunc", 10000, 0)                                                                  \
    L(cuLaunchKernel_ptsz, "cuLaunchKernel", 7000, PER_THREAD)                                                         \
    L(cuLaunchKernelEx_ptsz, "cuLaunchKernelEx", 11060, PER_THREAD)                                                    \
    L(cuLaunchCooperativeKernel_ptsz, "cuLaunchCooperativeKernel", 9000, PER_THREAD)                                   \
    L(cuMemsetD32Async_ptsz, "cuMemsetD32Async", 7000, PER_THREAD)                                                     \
    L(cuMemcpyDtoHAsync_v2_ptsz, "cuMemcpyDtoHAsync", 7000, PER_THREAD)                                                \
    L(cuStreamSynchronize_ptsz, "cuStreamSynchronize", 7000, PER_THREAD)                                               \
    L(cuStreamQuery_ptsz, "cuStreamQuery", 7000, PER_THREAD)                                                           \
    L(cuStreamWaitEvent_ptsz, "cuStreamWaitEvent", 7000, PER_THREAD)                                                   \
    L(cuEventRecord_ptsz, "cuEventRecord", 7000, PER_THREAD)

void *client_open(void)
{
    return client_open_with(RTLD_NOW);
}

bool client_in_shim(void *function)
{
    Dl_info info;

    EXPECT(function && dladdr(function, &info) && info.dli_fname, "an address that lies in no library");
    return strstr(info.dli_fname, "libcoissue.so") != NULL;
}

void *client_open_with(int flags)
{
    typeof(cu.cuGetProcAddress_v2) resolver;
    const char *path = "libcuda.so.1";

    if (library)
        return library;
    client_step("looking the driver up");
    library = dlopen(path, flags);
    EXPECT(library, "%s", dlerror());
    resolver = (typeof(resolver))dlsym(library, "cuGetProcAddress_v2");
    EXPECT(resolver, "%s has no cuGetProcAddress_v2", path);
    cu.cuGetProcAddress_v2 = resolver;

#define LOOK_UP(field, name, version, flags)                                                                           \
    do {                                                                                                               \
        void *found = NULL;                                                                                            \
        CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;                                  \
        if (resolver(name, &found, version, flags, &status) == CUDA_SUCCESS && status == CU_GET_PROC_ADDRESS_SUCCESS)  \
            cu.field = (typeof(cu.field))found;                                                                        \
    } while (0);
    LOOKUPS(LOOK_UP)
    EXPECT(cu.cuLaunchKernel && cu.cuCtxSynchronize, "the driver lacks functions that every driver has");
    return library;
}

static void load_kernels(const char *image, bool sm90);

void client_begin(void)
{
    client_step("starting");
    EXPECT(client_in_shim((void *)cu.cuLaunchKernel) == client_shim(), "the look-up of cuLaunchKernel leads %s",
           client_shim() ? "past the library" : "into the library");
    OK(cu.cuInit(0));
    OK(cu.cuDeviceGet(&client_device, 0));
    OK(cu.cuDevicePrimaryCtxRetain(&client_context, client_device));
    OK(cu.cuCtxSetCurrent(client_context));
    load_kernels(client_ptx(), false);
    client_step("running");
}

void client_finish(void)
{
    client_step("finishing");
    client_release();
    OK(cu.cuCtxSynchronize());
}

int client_main(int argc, char **argv, const struct client_scenario *scenarios, size_t count)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGALRM, bark);
    alarm(WATCHDOG_S);
    for (size_t i = 0; argc > 1 && i < count; i++) {
        if (strcmp(argv[1], scenarios[i].name) != 0)
            continue;
        if (!scenarios[i].bare) {
            client_open();
            client_begin();
        }
        scenarios[i].run();
        if (!scenarios[i].bare)
            client_finish();
        client_step("leaving");
        return 0;
    }
    printf("usage: %s SCENARIO, which is one of\n", argc > 0 ? argv[0] : "?");
    for (size_t i = 0; i < count; i++)
        printf("  %s\n", scenarios[i].name);
    return 1;
}

/* --- the device --- */

/*
 * All functions of an image are got before anything else happens. The driver loads the code of a function when it is
 * first asked for, and what uses it then starts only when the device has finished what it was doing: a scenario would
 * wait for itself.
 */
static void load_kernels(const char *image, bool sm90)
{
    CUmodule module;

    OK(cu.cuModuleLoadData(&module, image));
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
        if (kernels[i].sm90 == sm90)
            OK(cu.cuModuleGetFunction(&kernels[i].function, module, kernels[i].name));
}

static CUfunction find_kernel(const char *name)
{
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
        if (strcmp(kernels[i].name, name) == 0)
            return kernels[i].function;
    EXPECT(false, "no kernel %s", name);
    return NULL;
}

const char *client_ptx(void)
{
    return kernels_ptx;
}

const char *client_ptx_sm90(void)
{
    int major = 0;

    OK(cu.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, client_device));
    if (major < 9)
        client_skip("needs a device of compute capability 9.0 or higher; this one has %d", major);
    return kernels_sm90_ptx;
}

CUfunction client_kernel(const char *name)
{
    return find_kernel(name);
}

CUfunction client_kernel_sm90(const char *name)
{
    if (!find_kernel(name))
        load_kernels(client_ptx_sm90(), true);
    return find_kernel(name);
}

int client_sm_count(void)
{
    int count;

    OK(cu.cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, client_device));
    return count;
}

CUstream client_stream(unsigned flags)
{
    CUstream stream;

    OK(cu.cuStreamCreate(&stream, flags));
    return stream;
}

CUevent client_event(unsigned flags)
{
    CUevent event;

    OK(cu.cuEventCreate(&event, flags));
    return event;
}

CUdeviceptr client_ints(size_t count)
{
    CUdeviceptr memory;

    OK(cu.cuMemAlloc_v2(&memory, count * sizeof(int)));
    OK(cu.cuMemsetD32_v2(memory, 0, count));
    OK(cu.cuStreamSynchronize(NULL)); /* a memset of device memory may return before it is done */
    return memory;
}

int client_read(CUdeviceptr address)
{
    int value;

    OK(cu.cuMemcpyDtoH_v2(&value, address, sizeof(value)));
    return value;
}

void client_write(CUdeviceptr address, int value)
{
    OK(cu.cuMemcpyHtoD_v2(address, &value, sizeof(value)));
}

void client_wait(CUstream stream)
{
    OK(cu.cuStreamSynchronize(stream));
}

struct client_shared client_shared(size_t count)
{
    struct client_shared shared;
    void *host;

    OK(cu.cuMemHostAlloc(&host, count * sizeof(int), CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    memset(host, 0, count * sizeof(int));
    shared.host = host;
    OK(cu.cuMemHostGetDevicePointer_v2(&shared.device, host, 0));
    return shared;
}

CUresult client_launch(CUfunction function, unsigned grid, unsigned block, unsigned shared, CUstream stream,
                       void **parameters)
{
    return cu.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, stream, parameters, NULL);
}

/* --- holding --- */

static struct client_shared gate; /* [0]: leave, [1]: here */
static CUstream gate_stream;
static CUfunction gate_kernel;
static unsigned gate_grid, gate_shared_bytes;
static uint64_t held_since_ns;
static bool holding;

/*
 * One thread per block and all the shared memory that a block can have: then one block fills an SM, and the simulated
 * device has few blocks to run.
 */
static void prepare_gate(void)
{
    int bytes, per_sm;

    gate = client_shared(2);
    gate_stream = client_stream(CU_STREAM_NON_BLOCKING);
    gate_kernel = client_kernel("occupy");
    OK(cu.cuDeviceGetAttribute(&bytes, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, client_device));
    OK(cu.cuFuncSetAttribute(gate_kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes));
    gate_shared_bytes = (unsigned)bytes;
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, gate_kernel, 1, gate_shared_bytes));
    gate_grid = (unsigned)(per_sm * client_sm_count());
}

void client_hold(void)
{
    uint64_t began;

    if (!gate_stream)
        prepare_gate();
    EXPECT(!holding, "the device is held already");
    /* The kernel before this one must have left, or the host would open the gate for both. */
    client_wait(gate_stream);
    gate.host[0] = gate.host[1] = 0;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    {
        CUdeviceptr here = gate.device + sizeof(int);

        OK(client_launch(gate_kernel, gate_grid, 1, gate_shared_bytes, gate_stream, (void *[]){&gate.device, &here}));
    }
    began = client_ns();
    while (gate.host[1] == 0)
        EXPECT(client_ns() - began < 4000000000u, "the kernel that fills the device does not begin");
    held_since_ns = client_ns();
    holding = true;
}

bool client_holding(void)
{
    return holding;
}

void client_release(void)
{
    if (gate_stream)
        gate.host[0] = 1;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    holding = false;
}

static void *release_later(void *argument)
{
    client_sleep_ms((unsigned)(uintptr_t)argument);
    client_release();
    return NULL;
}

void client_release_after(unsigned ms)
{
    pthread_t thread;

    EXPECT(pthread_create(&thread, NULL, release_later, (void *)(uintptr_t)ms) == 0, "no thread");
    pthread_detach(thread);
}

/* --- launches by name --- */

void launch_spin(CUstream stream, uint64_t ns)
{
    LAUNCH(client_kernel("spin"), 1, 1, stream, &ns);
}

void launch_store(CUstream stream, CUdeviceptr p, int value)
{
    LAUNCH(client_kernel("store"), 1, 1, stream, &p, &value);
}

void launch_store_late(CUstream stream, CUdeviceptr p, int value, uint64_t ns)
{
    LAUNCH(client_kernel("store_late"), 1, 1, stream, &p, &value, &ns);
}

void launch_add1(CUstream stream, CUdeviceptr p)
{
    LAUNCH(client_kernel("add1"), 1, 1, stream, &p);
}

void launch_twice_plus(CUstream stream, CUdeviceptr p, int k)
{
    LAUNCH(client_kernel("twice_plus"), 1, 1, stream, &p, &k);
}

void launch_copy_int(CUstream stream, CUdeviceptr to, CUdeviceptr from)
{
    LAUNCH(client_kernel("copy_int"), 1, 1, stream, &to, &from);
}

void launch_wait_flag(CUstream stream, unsigned grid, CUdeviceptr flag, CUdeviceptr seen)
{
    LAUNCH(client_kernel("wait_flag"), grid, 1, stream, &flag, &seen);
}

/* --- the simulated driver's list of calls --- */

/* A line of SIMCUDA_TRACE is "NUMBER tid=N ENTRY = RESULT NOTE"; the note of a launch ends in the kernel's name. */
struct call_line {
    unsigned long long number;
    char entry[96];
    char note[224];
};

static bool read_call(FILE *file, struct call_line *call)
{
    char line[512];

    while (fgets(line, sizeof(line), file)) {
        int result;

        call->note[0] = '\0';
        if (sscanf(line, "%llu tid=%*d %95s = %d %223[^\n]", &call->number, call->entry, &result, call->note) >= 3)
            return true;
    }
    return false;
}

static unsigned long long mark;

/* Is it one of the words of the text? "store" must not find "store_late". */
static bool has_word(const char *text, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = text; (at = strstr(at, word)) != NULL; at += length)
        if ((at == text || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

static bool is_like(const struct call_line *call, const char *entry, const char *note)
{
    return strncmp(call->entry, entry, strlen(entry)) == 0 && (!note || has_word(call->note, note));
}

static unsigned long long first_call(const char *entry, const char *note, int *count)
{
    FILE *file = fopen(getenv("SIMCUDA_TRACE"), "re");
    unsigned long long first = 0;
    struct call_line call;

    *count = 0;
    if (!file)
        return 0;
    while (read_call(file, &call)) {
        if (call.number <= mark || !is_like(&call, entry, note))
            continue;
        if (*count == 0 || call.number < first)
            first = call.number;
        ++*count;
    }
    fclose(file);
    return first;
}

void client_mark(void)
{
    FILE *file = client_simulated() ? fopen(getenv("SIMCUDA_TRACE"), "re") : NULL;
    struct call_line call;

    while (file && read_call(file, &call))
        if (call.number > mark)
            mark = call.number;
    if (file)
        fclose(file);
}

int client_calls(const char *entry, const char *note)
{
    int count = -1;

    if (client_simulated())
        first_call(entry, note, &count);
    return count;
}

void client_before(const char *entry, const char *note, const char *later, const char *later_note)
{
    unsigned long long first, second;
    int count, later_count;

    if (!client_simulated())
        return;
    first = first_call(entry, note, &count);
    second = first_call(later, later_note, &later_count);
    EXPECT(count > 0, "no %s(%s) has reached the driver", entry, note ? note : "");
    EXPECT(later_count == 0 || first < second, "%s(%s) reached the driver before %s(%s)", later,
           later_note ? later_note : "", entry, note ? note : "");
}

void client_still_held(const char *kernel, int launches)
{
    int count = client_calls("cuLaunchKernel", kernel);

    if (client_mode() != CLIENT_HELD || count < 0)
        return;
    if (!holding || client_ns() - held_since_ns > HELD_CAP_MS * 1000000ull * 9 / 10) {
        printf("not judged: too much time went by to say that %s must still be held\n", kernel);
        return;
    }
    EXPECT(count < launches, "%d launches of %s have reached the driver: nothing was held here", count, kernel);
}
