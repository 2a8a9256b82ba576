/* SPDX-License-Identifier: Apache-2.0
 *
 * Description: prints what a driver answers to many small questions, a line each. oracle.h200 is what an H200 answered
 * (driver 580); the test `answers-as-a-device-does` compares the simulated device with it. To refresh: build this file
 * against any libcuda.so.1, run it on a machine with a device, with SIMCUDA_TESTS_DIR set, and keep its output.
 *
 * Each group runs in a process of its own, so that one that breaks its context hurts no other.
 */
#include "tests/simcuda_tests/cu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

static const char *group_name;

static void say(const char *what, long value)
{
    printf("%s.%s %ld\n", group_name, what, value);
}
#define ASK(call) say(#call, (long)(call))
#define ASK_AS(name, call) say(name, (long)(call))

/* Did the call take a good part of the 200 ms of a spinning kernel? */
#define WAITS(name, call)                                                                                              \
    do {                                                                                                               \
        double began_;                                                                                                 \
        CUresult result_;                                                                                              \
        spin(s, 200);                                                                                                  \
        began_ = seconds();                                                                                            \
        result_ = (call);                                                                                              \
        printf("%s.%s %d waits=%d\n", group_name, name, (int)result_, seconds() - began_ > 0.1);                       \
        cuCtxSynchronize();                                                                                            \
    } while (0)

static void no_init(void)
{
    int n;
    CUcontext c;

    ASK(cuDeviceGetCount(&n));
    ASK(cuCtxGetCurrent(&c));
    ASK(cuDriverGetVersion(&n));
    ASK(cuInit(1));
}

static void no_context(void)
{
    CUdeviceptr p;
    CUstream s;
    CUevent e;
    CUcontext c;
    CUdevice d;
    size_t a, b;

    MUST(cuInit(0));
    ASK(cuMemAlloc_v2(&p, 16));
    ASK(cuStreamSynchronize(NULL));
    ASK(cuCtxSynchronize());
    ASK(cuStreamCreate(&s, 0));
    ASK(cuEventCreate(&e, 0));
    ASK(cuMemGetInfo_v2(&a, &b));
    ASK(cuCtxPopCurrent_v2(&c));
    ASK(cuCtxGetCurrent(&c));
    ASK_AS("current is null", c == NULL);
    ASK(cuCtxGetDevice(&d));
    ASK(cuCtxSetCurrent(NULL));
    ASK(cuDeviceGet(&d, 99));
    ASK(cuDevicePrimaryCtxRelease_v2(0));
    set_up();
    s = new_stream(0);
    e = new_event(0);
    p = new_ints(1);
    CUfunction f = kernel("add1");
    void *params[] = {&p};
    MUST(cuCtxPopCurrent_v2(&c));
    ASK_AS("stream query without current", cuStreamQuery(s));
    ASK_AS("stream sync without current", cuStreamSynchronize(s));
    ASK_AS("event record without current", cuEventRecord(e, s));
    MUST(cuStreamSynchronize(s));
    ASK_AS("event query without current", cuEventQuery(e));
    ASK_AS("launch without current", launch1(f, s, params));
    ASK_AS("launch on 0 without current", launch1(f, NULL, params));
    ASK_AS("memset async without current", cuMemsetD8Async(p, 0, 4, s));
    ASK_AS("memfree without current", cuMemFree_v2(p));
}

static void contexts(void)
{
    CUcontext a, b, c;
    unsigned version, flags;
    int low, high, active;
    size_t limit;
    CUdeviceptr p;

    MUST(cuInit(0));
    MUST(cuCtxCreate_v2(&a, 0, 0));
    ASK(cuCtxGetApiVersion(a, &version));
    say("api version", version);
    ASK(cuCtxGetFlags(&flags));
    say("flags", flags);
    ASK(cuCtxGetStreamPriorityRange(&low, &high));
    say("low", low);
    say("high", high);
    for (unsigned i = 0; i < 11; i++) {
        CUresult result = cuCtxGetLimit(&limit, i);
        printf("%s.limit%u %d %ld\n", group_name, i, (int)result, result ? 0 : (long)limit);
    }
    ASK(cuCtxCreate_v2(&b, 3, 0));
    ASK(cuCtxCreate_v2(&b, 0x1000, 0));
    MUST(cuCtxCreate_v2(&b, 0, 0));
    ASK(cuCtxDestroy_v2(a));
    ASK_AS("destroyed again", cuCtxDestroy_v2(a));
    ASK_AS("push destroyed", cuCtxPushCurrent_v2(a));
    ASK_AS("pop b", cuCtxPopCurrent_v2(&c));
    ASK_AS("popped is b", c == b);
    ASK_AS("alloc in destroyed", cuMemAlloc_v2(&p, 16));
    ASK_AS("sync in destroyed", cuCtxSynchronize());
    ASK_AS("get current destroyed", cuCtxGetCurrent(&c));
    ASK_AS("current is a", c == a);
    ASK_AS("set current b", cuCtxSetCurrent(b));
    ASK_AS("destroy current b", cuCtxDestroy_v2(b));
    ASK_AS("get current", cuCtxGetCurrent(&c));
    ASK_AS("current null", c == NULL);
    ASK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    say("primary active", active);
    MUST(cuDevicePrimaryCtxRetain(&a, 0));
    MUST(cuDevicePrimaryCtxRetain(&b, 0));
    ASK_AS("same primary", a == b);
    ASK_AS("destroy primary", cuCtxDestroy_v2(a));
    MUST(cuCtxSetCurrent(a));
    ASK_AS("alloc in primary", cuMemAlloc_v2(&p, 16));
    ASK_AS("release", cuDevicePrimaryCtxRelease_v2(0));
    ASK_AS("alloc after one release", cuMemAlloc_v2(&p, 16));
    ASK_AS("release last", cuDevicePrimaryCtxRelease_v2(0));
    ASK_AS("release too often", cuDevicePrimaryCtxRelease_v2(0));
    ASK_AS("alloc in released", cuMemAlloc_v2(&p, 16));
    MUST(cuDevicePrimaryCtxRetain(&b, 0));
    ASK_AS("primary handle stays", a == b);
    ASK_AS("alloc in retained", cuMemAlloc_v2(&p, 16));
    ASK_AS("reset", cuDevicePrimaryCtxReset_v2(0));
    ASK_AS("alloc after reset", cuMemAlloc_v2(&p, 16));
    ASK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    say("active after reset", active);
    ASK_AS("retain after reset", cuDevicePrimaryCtxRetain(&b, 0));
    ASK_AS("alloc after reset and retain", cuMemAlloc_v2(&p, 16));
    ASK_AS("release after reset 1", cuDevicePrimaryCtxRelease_v2(0));
    ASK_AS("release after reset 2", cuDevicePrimaryCtxRelease_v2(0));
}

static CUresult with_extra(CUfunction f, void *bytes, size_t size)
{
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, bytes, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};

    return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra);
}

static void launches(void)
{
    int one = 1, value;
    size_t offset, size;

    set_up();
    CUdeviceptr p = new_ints(4096);
    CUfunction f = kernel("add1"), none = kernel("no_params"), shared = kernel("use_shared"),
               registers = kernel("many_registers"), bounded = kernel("at_most_64"), shrt = kernel("store_short");
    void *params[] = {&p}, *many[] = {&p, &one};
    unsigned char buffer[64] = {0};
    void *end_only[] = {CU_LAUNCH_PARAM_END};

    memcpy(buffer, &p, sizeof(p));
    ASK_AS("grid 0", cuLaunchKernel(f, 0, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    ASK_AS("grid y 0", cuLaunchKernel(f, 1, 0, 1, 1, 1, 1, 0, NULL, params, NULL));
    ASK_AS("grid y 65536", cuLaunchKernel(f, 1, 65536, 1, 1, 1, 1, 0, NULL, params, NULL));
    ASK_AS("grid x 2^31", cuLaunchKernel(f, 1u << 31, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    ASK_AS("block 0", cuLaunchKernel(f, 1, 1, 1, 0, 1, 1, 0, NULL, params, NULL));
    ASK_AS("block 2048", cuLaunchKernel(f, 1, 1, 1, 2048, 1, 1, 0, NULL, params, NULL));
    ASK_AS("block 64x64", cuLaunchKernel(f, 1, 1, 1, 64, 64, 1, 0, NULL, params, NULL));
    ASK_AS("block z 65", cuLaunchKernel(f, 1, 1, 1, 1, 1, 65, 0, NULL, params, NULL));
    ASK_AS("over launch bounds", cuLaunchKernel(bounded, 1, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    ASK_AS("at launch bounds", cuLaunchKernel(bounded, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
    ASK_AS("over register bounds", cuLaunchKernel(registers, 1, 1, 1, 512, 1, 1, 0, NULL, many, NULL));
    ASK_AS("shared 48K", cuLaunchKernel(shared, 1, 1, 1, 1, 1, 1, 49152, NULL, many, NULL));
    ASK_AS("shared 48K+1", cuLaunchKernel(shared, 1, 1, 1, 1, 1, 1, 49153, NULL, many, NULL));
    ASK_AS("set 64K", cuFuncSetAttribute(shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536));
    ASK_AS("shared 64K", cuLaunchKernel(shared, 1, 1, 1, 1, 1, 1, 65536, NULL, many, NULL));
    ASK_AS("set 227K", cuFuncSetAttribute(shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448));
    ASK_AS("set 228K", cuFuncSetAttribute(shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 233472));
    ASK_AS("set -1", cuFuncSetAttribute(shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1));
    ASK_AS("set 4K", cuFuncSetAttribute(shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 4096));
    ASK_AS("shared 8K after 4K", cuLaunchKernel(shared, 1, 1, 1, 1, 1, 1, 8192, NULL, many, NULL));
    ASK_AS("set num regs", cuFuncSetAttribute(shared, CU_FUNC_ATTRIBUTE_NUM_REGS, 10));
    ASK_AS("set carveout 101", cuFuncSetAttribute(shared, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101));
    ASK_AS("get 99", cuFuncGetAttribute(&value, 99, f));
    for (unsigned i = 0; i < 16; i++)
        if (i != CU_FUNC_ATTRIBUTE_NUM_REGS) {
            CUresult result = cuFuncGetAttribute(&value, i, f);
            printf("%s.attribute%u %d %d\n", group_name, i, (int)result, value);
        }
    ASK_AS("null function", cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    ASK_AS("no kernelParams", cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    ASK_AS("no kernelParams, none needed", cuLaunchKernel(none, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    ASK_AS("extra end only, none needed", cuLaunchKernel(none, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, end_only));
    ASK_AS("extra end only, one needed", cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, end_only));
    size = 8;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    ASK_AS("both forms", cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, extra));
    ASK_AS("extra 10 bytes, size 0", with_extra(shrt, buffer, 0));
    for (size_t bytes = 8; bytes <= 17; bytes++) {
        char name[40];

        snprintf(name, sizeof(name), "extra 10 bytes, size %zu", bytes);
        ASK_AS(name, with_extra(shrt, buffer, bytes));
    }
    ASK_AS("sync afterwards", cuCtxSynchronize());
    ASK_AS("param info 0", cuFuncGetParamInfo(shrt, 0, &offset, &size));
    say("offset 0", (long)offset);
    say("size 0", (long)size);
    ASK_AS("param info 1", cuFuncGetParamInfo(shrt, 1, &offset, &size));
    say("offset 1", (long)offset);
    say("size 1", (long)size);
    ASK_AS("param info 2", cuFuncGetParamInfo(shrt, 2, &offset, &size));
    ASK_AS("param info no size", cuFuncGetParamInfo(shrt, 0, &offset, NULL));
    ASK_AS("param info no offset", cuFuncGetParamInfo(shrt, 0, NULL, &size));

    CUlaunchAttribute cooperative = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 1}};
    CUlaunchConfig config = {100000, 1, 1, 32, 1, 1, 0, NULL, &cooperative, 1};
    ASK_AS("cooperative too large", cuLaunchKernelEx(&config, f, params, NULL));
    config.gridDimX = 132;
    ASK_AS("cooperative", cuLaunchKernelEx(&config, f, params, NULL));
    CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    unsigned shape[3] = {2, 1, 1};
    memcpy(cluster.value.pad, shape, sizeof(shape));
    config = (CUlaunchConfig){3, 1, 1, 32, 1, 1, 0, NULL, &cluster, 1};
    ASK_AS("cluster 2 in grid 3", cuLaunchKernelEx(&config, f, params, NULL));
    config.gridDimX = 4;
    ASK_AS("cluster 2 in grid 4", cuLaunchKernelEx(&config, f, params, NULL));
    shape[0] = 16;
    config.gridDimX = 16;
    memcpy(cluster.value.pad, shape, sizeof(shape));
    ASK_AS("cluster 16", cuLaunchKernelEx(&config, f, params, NULL));
    ASK_AS("attrs null", (config.attrs = NULL, cuLaunchKernelEx(&config, f, params, NULL)));
    ASK_AS("config null", cuLaunchKernelEx(NULL, f, params, NULL));
    ASK_AS("sync at end", cuCtxSynchronize());

    CUlibrary library;
    CUkernel k;
    CUfunction g;
    unsigned count;
    MUST(cuLibraryLoadData(&library, test_file("kernels.ptx"), NULL, NULL, 0, NULL, NULL, 0));
    MUST(cuLibraryGetKernel(&k, library, "add1"));
    ASK_AS("GetParamInfo of CUkernel", cuFuncGetParamInfo((CUfunction)k, 0, &offset, &size));
    ASK_AS("FuncGetAttribute of CUkernel", cuFuncGetAttribute(&value, 0, (CUfunction)k));
    ASK_AS("FuncSetAttribute of CUkernel", cuFuncSetAttribute((CUfunction)k, 8, 1024));
    const char *name;
    ASK_AS("FuncGetName of CUkernel", cuFuncGetName(&name, (CUfunction)k));
    CUmodule module;
    ASK_AS("FuncGetModule of CUkernel", cuFuncGetModule(&module, (CUfunction)k));
    ASK_AS("occupancy of CUkernel", cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, (CUfunction)k, 32, 0));
    ASK_AS("launch CUkernel", launch1((CUfunction)k, NULL, params));
    ASK_AS("kernel get function", cuKernelGetFunction(&g, k));
    ASK_AS("kernel of function launch", launch1(g, NULL, params));
    ASK_AS("KernelGetParamInfo 1", cuKernelGetParamInfo(k, 1, &offset, &size));
    ASK(cuLibraryGetKernel(&k, library, "nobody"));
    ASK(cuLibraryGetKernelCount(&count, library));
    say("kernels", count);
    ASK(cuModuleGetFunction(&g, test_module, "nobody"));
    CUdeviceptr where;
    ASK_AS("global counter", cuModuleGetGlobal_v2(&where, &size, test_module, "counter"));
    say("its size", (long)size);
    ASK_AS("constant factor", cuModuleGetGlobal_v2(&where, &size, test_module, "factor"));
    ASK_AS("global nobody", cuModuleGetGlobal_v2(&where, &size, test_module, "nobody"));
    ASK_AS("global no outputs", cuModuleGetGlobal_v2(NULL, NULL, test_module, "counter"));
    ASK_AS("bad ptx", cuModuleLoadData(&module, "this is no ptx at all"));
    ASK_AS("newer ptx target", cuModuleLoadData(&module, ".version 9.0\n.target sm_120\n.address_size 64\n"
                                                         ".visible .entry k() { ret; }\n"));
    ASK_AS("empty image", cuModuleLoadData(&module, ""));
}

static void memory(void)
{
    static int stack_like[1024];
    int value;
    size_t size, total;
    void *host, *data[2];
    unsigned flags;
    CUdeviceptr p, q, base;

    set_up();
    ASK_AS("alloc 0", cuMemAlloc_v2(&p, 0));
    ASK_AS("alloc null", cuMemAlloc_v2(NULL, 16));
    ASK_AS("alloc too much", cuMemAlloc_v2(&p, 1ull << 40));
    p = new_ints(256);
    ASK_AS("free inside", cuMemFree_v2(p + 4));
    ASK_AS("free 0", cuMemFree_v2(0));
    ASK_AS("free host pointer", cuMemFree_v2((uintptr_t)stack_like));
    ASK_AS("HtoD 0 bytes", cuMemcpyHtoD_v2(p, stack_like, 0));
    ASK_AS("HtoD to host pointer", cuMemcpyHtoD_v2((uintptr_t)stack_like, &stack_like[512], 16));
    ASK_AS("DtoH from host pointer", cuMemcpyDtoH_v2(stack_like, (uintptr_t)&stack_like[512], 16));
    ASK_AS("memcpy host to host", cuMemcpy((uintptr_t)stack_like, (uintptr_t)&stack_like[512], 16));
    ASK_AS("HtoD beyond 1 GiB", cuMemcpyHtoD_v2(p + (1ull << 30), stack_like, 16));
    ASK_AS("HtoD to null", cuMemcpyHtoD_v2(0, stack_like, 16));
    ASK_AS("HtoD from null", cuMemcpyHtoD_v2(p, NULL, 16));
    ASK_AS("memset misaligned", cuMemsetD32_v2(p + 1, 0, 1));
    ASK_AS("memset 0 elements", cuMemsetD32_v2(p, 0, 0));
    ASK_AS("memset host pointer", cuMemsetD8_v2((uintptr_t)stack_like, 0, 16));
    ASK_AS("memset2d narrow pitch", cuMemsetD2D8_v2(p, 8, 0, 16, 2));
    ASK_AS("address range", cuMemGetAddressRange_v2(&base, &size, p + 8));
    ASK_AS("range base", base == p);
    say("range size", (long)size);
    ASK_AS("address range of host", cuMemGetAddressRange_v2(&base, &size, (uintptr_t)stack_like));
    MUST(cuMemAllocHost_v2(&host, 4096));
    ASK_AS("address range of pinned", cuMemGetAddressRange_v2(&base, &size, (uintptr_t)host));
    ASK_AS("host get device pointer", cuMemHostGetDevicePointer_v2(&q, host, 0));
    ASK_AS("same", q == (uintptr_t)host);
    ASK_AS("host get flags", cuMemHostGetFlags(&flags, host));
    say("flags", flags);
    ASK_AS("host get flags of other", cuMemHostGetFlags(&flags, stack_like));
    ASK_AS("device pointer of other", cuMemHostGetDevicePointer_v2(&q, stack_like, 0));
    ASK_AS("free host inside", cuMemFreeHost((char *)host + 16));
    ASK_AS("free host of other", cuMemFreeHost(stack_like));
    ASK_AS("register 0", cuMemHostRegister_v2(stack_like, 0, 0));
    ASK_AS("register", cuMemHostRegister_v2(stack_like, sizeof(stack_like), 0));
    ASK_AS("register again", cuMemHostRegister_v2(stack_like, sizeof(stack_like), 0));
    ASK_AS("unregister", cuMemHostUnregister(stack_like));
    ASK_AS("unregister again", cuMemHostUnregister(stack_like));
    ASK_AS("unregister pinned", cuMemHostUnregister(host));
    ASK_AS("free null host", cuMemFreeHost(NULL));
    ASK_AS("managed", cuMemAllocManaged(&q, 4096, 1));
    ASK_AS("managed flags 0", cuMemAllocManaged(&base, 4096, 0));
    const CUdeviceptr pointers[] = {p, (uintptr_t)host, q, (uintptr_t)stack_like, 0};
    const char *names[] = {"device", "pinned", "managed", "pageable", "null"};
    for (int i = 0; i < 5; i++) {
        for (unsigned attribute = 1; attribute <= 21; attribute++) {
            char room[64] = {0};
            CUresult result;

            if (attribute == 5)
                continue;
            result = cuPointerGetAttribute(room, attribute, pointers[i]);
            memcpy(&value, room, sizeof(value));
            printf("%s.pointer %s attribute %u = %d", group_name, names[i], attribute, (int)result);
            if (!result && (attribute == 2 || attribute == 8 || attribute == 9 || attribute == 12 || attribute == 13))
                printf(" %d", value);
            printf("\n");
        }
        char a[64] = {0}, b[64] = {0};
        CUpointer_attribute two[] = {2, 8};
        data[0] = a;
        data[1] = b;
        ASK_AS(names[i], cuPointerGetAttributes(2, two, data, pointers[i]));
        memcpy(&value, a, sizeof(value));
        say("type", value);
    }
    ASK_AS("free managed", cuMemFree_v2(q));
    ASK_AS("free", cuMemFree_v2(p));
    ASK_AS("free twice", cuMemFree_v2(p));
    ASK_AS("memcpy to freed", cuMemcpyHtoD_v2(p, stack_like, 16));
    ASK(cuMemGetInfo_v2(&size, &total));
    ASK_AS("alloc pitch", cuMemAllocPitch_v2(&p, &size, 100, 10, 4));
    say("pitch", (long)size);
    ASK_AS("alloc pitch element 3", cuMemAllocPitch_v2(&p, &size, 100, 10, 3));
}

static void events(void)
{
    float ms;

    set_up();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent a = new_event(0), b = new_event(0), untimed = new_event(CU_EVENT_DISABLE_TIMING);
    CUevent e;
    unsigned flags;
    int priority;
    unsigned long long id;

    ASK_AS("query never recorded", cuEventQuery(a));
    ASK_AS("sync never recorded", cuEventSynchronize(a));
    ASK_AS("wait never recorded", cuStreamWaitEvent(s, a, 0));
    ASK_AS("elapsed never recorded", cuEventElapsedTime(&ms, a, b));
    MUST(cuEventRecord(a, s));
    MUST(cuStreamSynchronize(s));
    ASK_AS("elapsed second never recorded", cuEventElapsedTime(&ms, a, b));
    spin(s, 100);
    MUST(cuEventRecord(b, s));
    ASK_AS("elapsed not ready", cuEventElapsedTime(&ms, a, b));
    ASK_AS("elapsed not ready v2", cuEventElapsedTime_v2(&ms, a, b));
    ASK_AS("query not ready", cuEventQuery(b));
    ASK_AS("stream query not ready", cuStreamQuery(s));
    ASK_AS("destroy pending", cuEventDestroy_v2(b));
    MUST(cuEventRecord(untimed, s));
    MUST(cuStreamSynchronize(s));
    ASK_AS("elapsed untimed", cuEventElapsedTime(&ms, a, untimed));
    ASK_AS("create flags 8", cuEventCreate(&e, 8));
    ASK_AS("create interprocess alone", cuEventCreate(&e, CU_EVENT_INTERPROCESS));
    ASK_AS("stream create flags 2", cuStreamCreate(&s, 2));
    ASK_AS("record null", cuEventRecord(NULL, s));
    ASK_AS("query null", cuEventQuery(NULL));
    ASK_AS("record flags 1 outside capture", cuEventRecordWithFlags(a, s, 1));
    ASK_AS("record flags 2", cuEventRecordWithFlags(a, s, 2));
    ASK_AS("wait flags 1 outside capture", cuStreamWaitEvent(s, a, 1));
    ASK_AS("wait flags 2", cuStreamWaitEvent(s, a, 2));
    ASK_AS("legacy flags", cuStreamGetFlags(NULL, &flags));
    say("flags", flags);
    ASK_AS("per-thread flags", cuStreamGetFlags(CU_STREAM_PER_THREAD, &flags));
    say("flags", flags);
    ASK_AS("legacy id", cuStreamGetId(NULL, &id));
    ASK_AS("create priority -100", cuStreamCreateWithPriority(&s, 0, -100));
    cuStreamGetPriority(s, &priority);
    say("priority", priority);
    ASK_AS("create priority 100", cuStreamCreateWithPriority(&s, 0, 100));
    cuStreamGetPriority(s, &priority);
    say("priority", priority);
    ASK_AS("destroy legacy", cuStreamDestroy_v2(CU_STREAM_LEGACY));
    ASK_AS("destroy per thread", cuStreamDestroy_v2(CU_STREAM_PER_THREAD));
    ASK_AS("destroy null stream", cuStreamDestroy_v2(NULL));
    CUcontext other;
    MUST(cuCtxCreate_v2(&other, 0, 0));
    CUevent in_other = new_event(0);
    ASK_AS("record event of another context", cuEventRecord(in_other, s));
    ASK_AS("record stream of another context", cuEventRecord(a, s));
    ASK_AS("wait event of another context", cuStreamWaitEvent(s, in_other, 0));
    MUST(cuEventSynchronize(a));
    ASK_AS("query event of another context", cuEventQuery(a));
    ASK_AS("launch in stream of another context", spin(s, 0));
    ASK_AS("function of another context", launch1(kernel("no_params"), NULL, NULL));
    ASK_AS("alloc, free in other", cuMemFree_v2(new_ints(1)));
}

static void waiting(void)
{
    static int pageable[16];
    static char large[8 << 20];
    int *pinned;
    void *host;

    set_up();
    CUstream s = new_stream(0);
    CUdeviceptr p = new_ints(1024), q = new_ints(1024), big;
    CUdeviceptr temporary = new_ints(1024);
    CUmodule module;
    char *text = test_file("kernels.ptx");

    MUST(cuMemAlloc_v2(&big, sizeof(large)));
    MUST(cuMemAllocHost_v2(&host, 4096));
    pinned = host;
    MUST(spin(s, 1));
    MUST(cuModuleLoadData(&module, text));
    MUST(cuMemcpyHtoDAsync_v2(big, large, sizeof(large), s));
    MUST(cuCtxSynchronize());
    WAITS("memcpy DtoD", cuMemcpyDtoD_v2(p, q, 64));
    WAITS("memset", cuMemsetD32_v2(p, 0, 16));
    WAITS("memset pinned", cuMemsetD32_v2((uintptr_t)pinned, 0, 16));
    WAITS("memcpy HtoD pageable", cuMemcpyHtoD_v2(p, pageable, 64));
    WAITS("memcpy HtoD pinned", cuMemcpyHtoD_v2(p, pinned, 64));
    WAITS("memcpy DtoH pageable", cuMemcpyDtoH_v2(pageable, p, 64));
    WAITS("memcpy unified DtoD", cuMemcpy(p, q, 64));
    WAITS("async DtoH pageable", cuMemcpyDtoHAsync_v2(pageable, p, 64, s));
    WAITS("async DtoH pinned", cuMemcpyDtoHAsync_v2(pinned, p, 64, s));
    WAITS("async HtoD pageable", cuMemcpyHtoDAsync_v2(p, pageable, 64, s));
    WAITS("async HtoD pageable 8 MiB", cuMemcpyHtoDAsync_v2(big, large, sizeof(large), s));
    WAITS("async HtoD pinned", cuMemcpyHtoDAsync_v2(p, pinned, 64, s));
    WAITS("unified async to pageable", cuMemcpyAsync((uintptr_t)pageable, p, 64, s));
    WAITS("alloc", cuMemAlloc_v2(&temporary, 4096));
    WAITS("free", cuMemFree_v2(temporary));
    WAITS("module unload", cuModuleUnload(module));
    WAITS("alloc host", cuMemAllocHost_v2(&host, 4096));
    WAITS("free host", cuMemFreeHost(host));
    WAITS("host register", cuMemHostRegister_v2(large, sizeof(large), 0));
    WAITS("host unregister", cuMemHostUnregister(large));
    WAITS("module load", cuModuleLoadData(&module, text));
    WAITS("get function", cuModuleGetFunction(&(CUfunction){0}, module, "store"));
    WAITS("module load without globals",
          cuModuleLoadData(&(CUmodule){0}, ".version 8.0\n.target sm_80\n.address_size 64\n"
                                           ".visible .entry k() { ret; }\n"));
    CUlibrary library_;
    CUkernel k;
    CUfunction f;
    WAITS("library load", cuLibraryLoadData(&library_, text, NULL, NULL, 0, NULL, NULL, 0));
    WAITS("library get kernel", cuLibraryGetKernel(&k, library_, "no_params"));
    WAITS("launch of a library kernel, first", launch1((CUfunction)k, s, NULL));
    WAITS("kernel get function", cuKernelGetFunction(&f, k));
    WAITS("launch of a library kernel, second", launch1((CUfunction)k, s, NULL));
    WAITS("first launch of a module function", (cuModuleGetFunction(&f, module, "no_params"), launch1(f, s, NULL)));
    WAITS("library unload", cuLibraryUnload(library_));
    WAITS("func attribute", cuFuncSetAttribute(kernel("use_shared"), 8, 1024));
    WAITS("set limit", cuCtxSetLimit(0, 2048));
    WAITS("async HtoD pageable 64 KiB", cuMemcpyHtoDAsync_v2(big, large, 64 << 10, s));
    WAITS("async HtoD pageable 64 KiB + 4", cuMemcpyHtoDAsync_v2(big, large, (64 << 10) + 4, s));
    WAITS("async HtoD pageable 1 MiB", cuMemcpyHtoDAsync_v2(big, large, 1 << 20, s));
    WAITS("async HtoD pageable 2 MiB", cuMemcpyHtoDAsync_v2(big, large, 2 << 20, s));
    WAITS("async HtoD pageable 4 MiB", cuMemcpyHtoDAsync_v2(big, large, 4 << 20, s));
    WAITS("alloc async", cuMemAllocAsync(&temporary, 4096, s));
    WAITS("free async", cuMemFreeAsync(temporary, s));
    WAITS("alloc managed", cuMemAllocManaged(&temporary, 4096, 1));
    WAITS("write value", cuStreamWriteValue32_v2(s, p, 1, 0));
    CUgraph graph;
    CUgraphExec exec;
    MUST(cuStreamBeginCapture_v2(s, 0));
    MUST(store(s, p, 1));
    MUST(cuStreamEndCapture(s, &graph));
    WAITS("graph instantiate", cuGraphInstantiateWithFlags(&exec, graph, 0));
    WAITS("graph launch", cuGraphLaunch(exec, s));
    WAITS("graph exec destroy", cuGraphExecDestroy(exec));
    WAITS("get global", cuModuleGetGlobal_v2(&temporary, NULL, module, "counter"));
    WAITS("stream create", cuStreamCreate(&(CUstream){0}, 0));
    WAITS("stream sync null", cuStreamSynchronize(NULL));
    CUstream t = new_stream(0), u = new_stream(CU_STREAM_NON_BLOCKING);
    MUST(cuCtxSynchronize());
    WAITS("sync of another blocking stream", cuStreamSynchronize(t));
    WAITS("sync of a non-blocking stream", cuStreamSynchronize(u));
    WAITS("stream query null", cuStreamQuery(NULL));
    CUstream v = new_stream(0);
    MUST(spin(v, 100));
    double began = seconds();
    MUST(cuStreamDestroy_v2(v));
    ASK_AS("stream destroy waits", seconds() - began > 0.05);
    WAITS("context sync", cuCtxSynchronize());
    WAITS("mem get info", cuMemGetInfo_v2(&(size_t){0}, &(size_t){0}));
    CUevent e = new_event(0);
    MUST(cuCtxSynchronize());
    spin(s, 200);
    MUST(cuEventRecord(e, s));
    began = seconds();
    MUST(cuEventDestroy_v2(e));
    ASK_AS("event destroy waits", seconds() - began > 0.1);
    MUST(cuCtxSynchronize());
}

/* ---- capture: three modes, the call from the same thread, another one, another one that is relaxed ---- */

static CUstream cap, side, blocking_side;
static CUevent ev_plain, ev_captured;
static CUdeviceptr cap_memory, cap_free;
static void *cap_host;
static char *cap_text;
static int cap_registered[2048], cap_host_registered[2048];
static CUmodule cap_module;
static CUstream cap_spare;
static CUgraph cap_graph;
static CUgraphExec cap_exec;
static CUlibrary cap_library;

static void noop(void *data)
{
    (void)data;
}

static void callback_noop(CUstream stream, CUresult status, void *data)
{
    (void)stream;
    (void)status;
    (void)data;
}

static CUresult unsafe_call(int which, const char **name)
{
    static int pageable[4];
    CUdeviceptr p;
    CUmodule module;
    CUstream s;
    CUevent e;
    float ms;
    void *host;
    int value;
    CUstreamCaptureStatus status;
    CUgraphExec exec;
    CUlibrary library_out;
    CUcontext context_out;
    CUmemGenericAllocationHandle handle_out;
    CUmemAllocationProp prop = {.type = 1, .location = {1, 0}};
    unsigned flags_out;
    unsigned long long id_out;
    CUstreamAttrValue attribute_out;
    CUfunction function_out;

    switch (which) {
    case 0:
        *name = "event query";
        return cuEventQuery(ev_plain);
    case 1:
        *name = "event sync";
        return cuEventSynchronize(ev_plain);
    case 2:
        *name = "mem alloc";
        return cuMemAlloc_v2(&p, 64);
    case 3:
        *name = "mem free";
        return cuMemFree_v2(cap_free);
    case 4:
        *name = "sync legacy";
        return cuStreamSynchronize(NULL);
    case 5:
        *name = "sync side";
        return cuStreamSynchronize(side);
    case 6:
        *name = "query side";
        return cuStreamQuery(side);
    case 7:
        *name = "context sync";
        return cuCtxSynchronize();
    case 8:
        *name = "alloc host";
        return cuMemAllocHost_v2(&host, 64);
    case 9:
        *name = "module load";
        return cuModuleLoadData(&module, cap_text);
    case 10:
        *name = "memcpy HtoD";
        return cuMemcpyHtoD_v2(cap_memory, pageable, 16);
    case 11:
        *name = "memset";
        return cuMemsetD32_v2(cap_memory, 0, 4);
    case 12:
        *name = "launch legacy";
        return add1(NULL, cap_memory);
    case 13:
        *name = "launch side";
        return add1(side, cap_memory);
    case 14:
        *name = "stream create";
        return cuStreamCreate(&s, 0);
    case 15:
        *name = "event create";
        return cuEventCreate(&e, 0);
    case 16:
        *name = "record side";
        return cuEventRecord(ev_plain, side);
    case 17:
        *name = "query legacy";
        return cuStreamQuery(NULL);
    case 18:
        *name = "mem info";
        return cuMemGetInfo_v2(&(size_t){0}, &(size_t){0});
    case 19:
        *name = "elapsed";
        return cuEventElapsedTime(&ms, ev_plain, ev_plain);
    case 20:
        *name = "DtoH async pageable side";
        return cuMemcpyDtoHAsync_v2(pageable, cap_memory, 16, side);
    case 21:
        *name = "host register";
        return cuMemHostRegister_v2(cap_registered, 4096, 0);
    case 22:
        *name = "host func side";
        return cuLaunchHostFunc(side, noop, NULL);
    case 23:
        *name = "sync captured stream";
        return cuStreamSynchronize(cap);
    case 24:
        *name = "query captured stream";
        return cuStreamQuery(cap);
    case 25:
        *name = "query captured event";
        return cuEventQuery(ev_captured);
    case 26:
        *name = "sync captured event";
        return cuEventSynchronize(ev_captured);
    case 27:
        *name = "launch blocking side";
        return add1(blocking_side, cap_memory);
    case 28:
        *name = "is capturing legacy";
        return cuStreamIsCapturing(NULL, &status);
    case 29:
        *name = "record legacy";
        return cuEventRecord(ev_plain, NULL);
    case 30:
        *name = "free host";
        return cuMemFreeHost(cap_host);
    case 31:
        *name = "func attribute";
        return cuFuncGetAttribute(&value, 0, kernel("store"));
    case 32:
        *name = "memcpy DtoH";
        return cuMemcpyDtoH_v2(pageable, cap_memory, 16);
    case 33:
        *name = "memcpy DtoD";
        return cuMemcpyDtoD_v2(cap_memory, cap_memory + 64, 16);
    case 34:
        *name = "launch captured from here";
        return add1(cap, cap_memory);
    case 35:
        *name = "wait side captured event";
        return cuStreamWaitEvent(side, ev_captured, 0);
    case 36:
        *name = "legacy waits captured event";
        return cuStreamWaitEvent(NULL, ev_captured, 0);
    case 37:
        *name = "record captured uses plain";
        return cuEventRecord(ev_plain, cap);
    case 38:
        *name = "captured waits plain event";
        return cuStreamWaitEvent(cap, ev_plain, 0);
    case 39:
        *name = "callback captured";
        return cuStreamAddCallback(cap, callback_noop, NULL, 0);
    case 40:
        *name = "begin again";
        return cuStreamBeginCapture_v2(cap, 0);
    case 41:
        *name = "pool alloc side";
        return cuMemAllocAsync(&p, 64, side);
    case 42:
        *name = "set attribute";
        return cuFuncSetAttribute(kernel("use_shared"), 8, 1024);
    case 43:
        *name = "elapsed captured";
        return cuEventElapsedTime(&ms, ev_plain, ev_captured);
    case 44:
        *name = "memset2 blocking side";
        return cuMemsetD32Async(cap_memory, 0, 4, blocking_side);
    case 45:
        *name = "destroy captured event";
        return cuEventDestroy_v2(new_event(0));
    case 46:
        *name = "ctx record event";
        return cuCtxRecordEvent(test_context, ev_plain);
    case 47:
        *name = "write value captured";
        return cuStreamWriteValue32_v2(cap, cap_memory, 1, 0);
    case 48:
        *name = "prefetch captured";
        return cuMemPrefetchAsync_v2(cap_memory, 16, (CUmemLocation){1, 0}, 0, cap);
    case 49:
        *name = "HtoD async pageable captured";
        return cuMemcpyHtoDAsync_v2(cap_memory, pageable, 16, cap);
    case 50:
        *name = "DtoH async pageable captured";
        return cuMemcpyDtoHAsync_v2(pageable, cap_memory, 16, cap);
    case 51:
        *name = "module unload";
        return cuModuleUnload(cap_module);
    case 52:
        *name = "stream destroy";
        return cuStreamDestroy_v2(cap_spare);
    case 53:
        *name = "set limit";
        return cuCtxSetLimit(0, 1024);
    case 54:
        *name = "graph launch side";
        return cuGraphLaunch(cap_exec, side);
    case 55:
        *name = "graph instantiate";
        return cuGraphInstantiateWithFlags(&exec, cap_graph, 0);
    case 56:
        *name = "library load";
        return cuLibraryLoadData(&library_out, cap_text, NULL, NULL, 0, NULL, NULL, 0);
    case 57:
        *name = "library unload";
        return cuLibraryUnload(cap_library);
    case 58:
        *name = "alloc managed";
        return cuMemAllocManaged(&p, 64, 1);
    case 59:
        *name = "host unregister";
        return cuMemHostUnregister(cap_host_registered);
    case 60:
        *name = "retain primary";
        return cuDevicePrimaryCtxRetain(&context_out, 0);
    case 61:
        *name = "pointer attribute";
        return cuPointerGetAttribute(&value, 9, cap_memory);
    case 62:
        *name = "free async side";
        return cuMemFreeAsync(cap_free, side);
    case 63:
        *name = "exec destroy";
        return cuGraphExecDestroy(cap_exec);
    case 64:
        *name = "wait value captured";
        return cuStreamWaitValue32_v2(cap, cap_memory, 0, 0);
    case 65:
        *name = "mem create";
        return cuMemCreate(&handle_out, 2 << 20, &prop, 0);
    case 66:
        *name = "context create";
        {
            CUresult made = cuCtxCreate_v2(&context_out, 0, 0);
            if (!made)
                cuCtxPopCurrent_v2(&context_out);
            return made;
        }
    case 67:
        *name = "get stream flags captured";
        return cuStreamGetFlags(cap, &flags_out);
    case 68:
        *name = "get function";
        return cuModuleGetFunction(&function_out, test_module, "spin");
    case 69:
        *name = "get global";
        return cuModuleGetGlobal_v2(&p, NULL, test_module, "counter");
    case 70:
        *name = "lazy library kernel";
        {
            CUkernel k;
            CUresult found = cuLibraryGetKernel(&k, cap_library, "add1");
            void *params[] = {&cap_memory};
            return found ? found : launch1((CUfunction)k, cap, params);
        }
    case 71:
        *name = "get stream priority captured";
        return cuStreamGetPriority(cap, &value);
    case 72:
        *name = "get stream id captured";
        return cuStreamGetId(cap, &id_out);
    case 73:
        *name = "get stream context captured";
        return cuStreamGetCtx(cap, &context_out);
    case 74:
        *name = "get stream device captured";
        return cuStreamGetDevice(cap, &value);
    case 75:
        *name = "get stream attribute captured";
        return cuStreamGetAttribute(cap, 8, &attribute_out);
    case 76:
        *name = "host func captured";
        return cuLaunchHostFunc(cap, noop, NULL);
    default:
        *name = NULL;
        return 0;
    }
}

static const char *unsafe_names[80];
static const char *unsafe_name(int which)
{
    return unsafe_names[which];
}

struct other {
    int which;
    bool relaxed;
    CUresult result;
};

static void *other_thread(void *arg)
{
    struct other *other = arg;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    const char *name;

    cuCtxSetCurrent(test_context);
    if (other->relaxed)
        cuThreadExchangeStreamCaptureMode(&mode);
    other->result = unsafe_call(other->which, &name);
    return NULL;
}

static void capture_matrix(void)
{
    static const char *const places[] = {"same", "other", "relaxed"};

    set_up();
    cap_text = test_file("kernels.ptx");
    cap_memory = new_ints(64);
    ev_plain = new_event(0);
    MUST(cuEventRecord(ev_plain, NULL));
    MUST(cuGraphCreate(&cap_graph, 0));
    for (unsigned flags = 0; flags < 2; flags++) {
        for (unsigned mode = 0; mode < 3; mode++) {
            for (int place = 0; place < 3; place++) {
                for (int which = 0;; which++) {
                    CUgraph graph = NULL;
                    CUresult result, end;
                    const char *name = NULL;
                    struct other other = {which, place == 2, 0};

                    if (which > 76)
                        break;
                    if (flags && which != 4 && which != 7 && which != 12 && which != 10 && which != 11 && which != 17 &&
                        which != 27 && which != 28 && which != 29 && which != 23 && which != 46 && which != 33)
                        continue;
                    cap = new_stream(flags);
                    side = new_stream(CU_STREAM_NON_BLOCKING);
                    blocking_side = new_stream(0);
                    ev_captured = new_event(0);
                    cap_free = new_ints(16);
                    cap_spare = new_stream(0);
                    if (which == 51)
                        MUST(cuModuleLoadData(&cap_module, cap_text));
                    if (which == 57 || which == 70)
                        MUST(cuLibraryLoadData(&cap_library, cap_text, NULL, NULL, 0, NULL, NULL, 0));
                    cuMemHostRegister_v2(cap_host_registered, 4096, 0);
                    MUST(cuGraphInstantiateWithFlags(&cap_exec, cap_graph, 0));
                    MUST(cuMemAllocHost_v2(&cap_host, 64));
                    MUST(cuCtxSynchronize());
                    MUST(cuStreamBeginCapture_v2(cap, mode));
                    MUST(add1(cap, cap_memory));
                    MUST(cuEventRecord(ev_captured, cap));
                    if (place) {
                        pthread_t thread;

                        pthread_create(&thread, NULL, other_thread, &other);
                        pthread_join(thread, NULL);
                        result = other.result;
                    } else {
                        result = unsafe_call(which, &name);
                        unsafe_names[which] = name;
                    }
                    end = cuStreamEndCapture(cap, &graph);
                    if (!name)
                        name = unsafe_name(which);
                    printf("%s.%s mode%u %s: %s %d end %d graph %d\n", group_name, flags ? "nonblocking" : "blocking",
                           mode, places[place], name, (int)result, (int)end, graph != NULL);
                    cuStreamEndCapture(side, &graph);
                    cuStreamDestroy_v2(cap);
                    cuStreamDestroy_v2(side);
                    cuStreamDestroy_v2(blocking_side);
                    cuEventDestroy_v2(ev_captured);
                    cuMemHostUnregister(cap_registered);
                    cuEventRecord(ev_plain, NULL);
                    cuCtxSynchronize();
                }
            }
        }
    }
}

static void *end_elsewhere(void *arg)
{
    CUgraph graph;

    cuCtxSetCurrent(test_context);
    *(CUresult *)arg = cuStreamEndCapture(cap, &graph);
    return NULL;
}

static void capture_more(void)
{
    CUgraph graph, again;
    CUgraphExec exec;
    CUstreamCaptureStatus status;
    cuuint64_t id;
    CUstreamCaptureMode exchange;

    set_up();
    CUdeviceptr p = new_ints(16);
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent e = new_event(0), f = new_event(0);

    ASK_AS("begin on legacy", cuStreamBeginCapture_v2(NULL, 0));
    ASK_AS("begin on 1", cuStreamBeginCapture_v2(CU_STREAM_LEGACY, 0));
    ASK_AS("begin on per thread", cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, 0));
    ASK_AS("end on per thread", cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
    ASK_AS("mode 3", cuStreamBeginCapture_v2(a, 3));
    ASK_AS("end without begin", cuStreamEndCapture(a, &graph));
    exchange = 7;
    ASK_AS("exchange 7", cuThreadExchangeStreamCaptureMode(&exchange));
    exchange = CU_STREAM_CAPTURE_MODE_RELAXED;
    ASK_AS("exchange relaxed", cuThreadExchangeStreamCaptureMode(&exchange));
    say("was", exchange);
    ASK_AS("exchange back", cuThreadExchangeStreamCaptureMode(&exchange));
    say("was", exchange);

    MUST(cuStreamBeginCapture_v2(a, 0));
    ASK_AS("empty end", cuStreamEndCapture(a, &graph));
    size_t count = 99;
    ASK(cuGraphGetNodes(graph, NULL, &count));
    say("nodes", (long)count);

    for (unsigned mode = 0; mode < 3; mode++) {
        CUresult result;
        pthread_t thread;

        cap = new_stream(CU_STREAM_NON_BLOCKING);
        MUST(cuStreamBeginCapture_v2(cap, mode));
        pthread_create(&thread, NULL, end_elsewhere, &result);
        pthread_join(thread, NULL);
        printf("%s.end elsewhere mode %u %d then %d\n", group_name, mode, (int)result,
               (int)cuStreamEndCapture(cap, &graph));
    }

    /* fork and join */
    MUST(cuStreamBeginCapture_v2(a, 0));
    MUST(add1(a, p));
    MUST(cuEventRecord(e, a));
    ASK_AS("fork", cuStreamWaitEvent(b, e, 0));
    ASK_AS("b captures", cuStreamIsCapturing(b, &status));
    say("status", status);
    ASK(cuStreamGetCaptureInfo(b, &status, &id));
    MUST(add1(b, p));
    ASK_AS("end on b", cuStreamEndCapture(b, &graph));
    ASK_AS("end unjoined", cuStreamEndCapture(a, &graph));
    ASK_AS("b after", cuStreamIsCapturing(b, &status));
    say("status", status);

    MUST(cuStreamBeginCapture_v2(a, 0));
    MUST(add1(a, p));
    MUST(cuEventRecord(e, a));
    MUST(cuStreamWaitEvent(b, e, 0));
    ASK_AS("end unjoined but no work", cuStreamEndCapture(a, &graph));

    MUST(cuStreamBeginCapture_v2(a, 0));
    MUST(add1(a, p));
    MUST(cuEventRecord(e, a));
    MUST(cuStreamWaitEvent(b, e, 0));
    MUST(add1(b, p));
    MUST(cuEventRecord(f, b));
    MUST(cuStreamWaitEvent(a, f, 0));
    MUST(add1(a, p));
    ASK_AS("end joined", cuStreamEndCapture(a, &graph));
    ASK(cuGraphGetNodes(graph, NULL, &count));
    say("nodes", (long)count);
    ASK(cuGraphGetRootNodes(graph, NULL, &count));
    say("roots", (long)count);
    ASK(cuGraphGetEdges(graph, NULL, NULL, &count));
    say("edges", (long)count);
    ASK_AS("captured event after end", cuEventQuery(f));
    ASK_AS("sync captured event after end", cuEventSynchronize(f));
    ASK_AS("wait for captured event after end", cuStreamWaitEvent(a, f, 0));
    ASK_AS("instantiate", cuGraphInstantiateWithFlags(&exec, graph, 0));
    ASK_AS("launch", cuGraphLaunch(exec, a));
    ASK_AS("launch legacy", cuGraphLaunch(exec, NULL));
    MUST(cuCtxSynchronize());
    say("p", read_int(p));

    /* merge of two captures; isolation */
    MUST(cuStreamBeginCapture_v2(a, 2));
    MUST(cuStreamBeginCapture_v2(b, 2));
    MUST(add1(a, p));
    MUST(cuEventRecord(e, a));
    ASK_AS("merge", cuStreamWaitEvent(b, e, 0));
    ASK_AS("end a", cuStreamEndCapture(a, &graph));
    ASK_AS("end b", cuStreamEndCapture(b, &again));
    CUstream c = new_stream(CU_STREAM_NON_BLOCKING);
    MUST(cuEventRecord(e, c));
    MUST(cuStreamBeginCapture_v2(a, 0));
    ASK_AS("wait on uncaptured event", cuStreamWaitEvent(a, e, 0));
    ASK_AS("end", cuStreamEndCapture(a, &graph));
    MUST(spin(c, 50));
    MUST(cuEventRecord(e, c));
    MUST(cuStreamBeginCapture_v2(a, 0));
    ASK_AS("wait on pending uncaptured event", cuStreamWaitEvent(a, e, 0));
    ASK_AS("end", cuStreamEndCapture(a, &graph));
    CUevent never = new_event(0);
    MUST(cuStreamBeginCapture_v2(a, 0));
    ASK_AS("wait on never recorded event", cuStreamWaitEvent(a, never, 0));
    ASK_AS("end", cuStreamEndCapture(a, &graph));
    MUST(cuStreamBeginCapture_v2(a, 0));
    ASK_AS("external wait", cuStreamWaitEvent(a, e, 1));
    ASK_AS("external record", cuEventRecordWithFlags(e, a, 1));
    MUST(cuMemsetD32Async(p, 5, 4, a));
    MUST(cuMemcpyDtoDAsync_v2(p, p + 16, 16, a));
    MUST(cuLaunchHostFunc(a, noop, NULL));
    ASK_AS("end", cuStreamEndCapture(a, &graph));
    CUgraphNode nodes[16];
    count = 16;
    ASK(cuGraphGetNodes(graph, nodes, &count));
    for (size_t i = 0; i < count; i++) {
        CUgraphNodeType type;

        cuGraphNodeGetType(nodes[i], &type);
        say("type", type);
    }
    count = 2;
    ASK_AS("get 2 nodes", cuGraphGetNodes(graph, nodes, &count));
    say("count", (long)count);
    count = 12;
    ASK_AS("get more nodes", cuGraphGetNodes(graph, nodes, &count));
    say("count", (long)count);
    say("last", nodes[6] == NULL);
    MUST(cuStreamBeginCapture_v2(a, 0));
    ASK_AS("destroy capturing stream", cuStreamDestroy_v2(a));
    ASK_AS("end destroyed", c == a ? 0 : cuStreamEndCapture(c, &graph));
    ASK_AS("alloc afterwards", cuMemAlloc_v2(&p, 16));

    /* update */
    a = new_stream(CU_STREAM_NON_BLOCKING);
    p = new_ints(4);
    MUST(cuStreamBeginCapture_v2(a, 0));
    MUST(add1(a, p));
    MUST(cuStreamEndCapture(a, &graph));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuStreamBeginCapture_v2(a, 0));
    MUST(add1(a, p));
    MUST(add1(a, p));
    MUST(cuStreamEndCapture(a, &again));
    CUgraphExecUpdateResultInfo info;
    ASK_AS("update other topology", cuGraphExecUpdate_v2(exec, again, &info));
    say("result", info.result);
    MUST(cuStreamBeginCapture_v2(a, 0));
    MUST(store(a, p, 3));
    MUST(cuStreamEndCapture(a, &again));
    ASK_AS("update other function", cuGraphExecUpdate_v2(exec, again, &info));
    say("result", info.result);
    MUST(cuStreamBeginCapture_v2(a, 0));
    MUST(cuMemsetD32Async(p, 5, 4, a));
    MUST(cuStreamEndCapture(a, &again));
    ASK_AS("update other type", cuGraphExecUpdate_v2(exec, again, &info));
    say("result", info.result);
    ASK_AS("launch updated", cuGraphLaunch(exec, a));
    MUST(cuCtxSynchronize());
    say("p", read_int(p));
    ASK_AS("destroy exec", cuGraphExecDestroy(exec));
    ASK_AS("destroy graph", cuGraphDestroy(graph));
    MUST(cuGraphCreate(&graph, 0));
    CUgraphNode node;
    int *value = malloc(sizeof(*value));
    *value = 77;
    void *params[] = {&p, value};
    CUDA_KERNEL_NODE_PARAMS kp = {.func = kernel("store"),
                                  .gridDimX = 1,
                                  .gridDimY = 1,
                                  .gridDimZ = 1,
                                  .blockDimX = 1,
                                  .blockDimY = 1,
                                  .blockDimZ = 1,
                                  .kernelParams = params},
                            got = {0};
    ASK_AS("add kernel node", cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &kp));
    *value = 78;
    ASK_AS("get params", cuGraphKernelNodeGetParams_v2(node, &got));
    say("func same", got.func == kp.func);
    say("value", *(int *)got.kernelParams[1]);
    say("extra null", got.extra == NULL);
    kp.gridDimX = 0;
    ASK_AS("add kernel node grid 0", cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &kp));
    ASK_AS("add node bad dependency", cuGraphAddEmptyNode(&node, graph, (CUgraphNode[]){NULL}, 1));
}

static void sticky(void)
{
    CUdeviceptr p;
    CUevent e;
    CUstream t;
    CUdevice d;
    size_t a, b;
    int n;
    unsigned flags;
    CUcontext c;

    set_up();
    CUstream s = new_stream(0), idle = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent before = new_event(0);
    CUdeviceptr good = new_ints(4);
    CUfunction add = kernel("add1");
    void *params[] = {&good};
    MUST(cuEventRecord(before, s));
    MUST(cuStreamSynchronize(s));
    ASK_AS("faulty launch", store(s, 0x10, 1));
    ASK_AS("sync", cuStreamSynchronize(s));
    ASK_AS("sync again", cuStreamSynchronize(s));
    ASK_AS("context sync", cuCtxSynchronize());
    ASK_AS("sync idle stream", cuStreamSynchronize(idle));
    ASK_AS("query idle stream", cuStreamQuery(idle));
    ASK_AS("query old event", cuEventQuery(before));
    ASK_AS("sync old event", cuEventSynchronize(before));
    ASK_AS("launch", launch1(add, idle, params));
    ASK_AS("alloc", cuMemAlloc_v2(&p, 16));
    ASK_AS("free", cuMemFree_v2(good));
    ASK_AS("memcpy", cuMemcpyDtoH_v2(&n, good, 4));
    ASK_AS("event create", cuEventCreate(&e, 0));
    ASK_AS("stream create", cuStreamCreate(&t, 0));
    ASK_AS("get device", cuCtxGetDevice(&d));
    ASK_AS("get flags", cuCtxGetFlags(&flags));
    ASK_AS("get current", cuCtxGetCurrent(&c));
    ASK_AS("mem info", cuMemGetInfo_v2(&a, &b));
    ASK_AS("pointer attribute", cuPointerGetAttribute(&n, 2, good));
    ASK_AS("func attribute", cuFuncGetAttribute(&n, 0, add));
    ASK_AS("get function", cuModuleGetFunction(&add, test_module, "store"));
    ASK_AS("get limit", cuCtxGetLimit(&a, 0));
    ASK_AS("stream flags", cuStreamGetFlags(s, &flags));
    ASK_AS("record", cuEventRecord(before, s));
    ASK_AS("wait", cuStreamWaitEvent(idle, before, 0));
    ASK_AS("host func", cuLaunchHostFunc(idle, noop, NULL));
    ASK_AS("event destroy", cuEventDestroy_v2(before));
    ASK_AS("stream destroy", cuStreamDestroy_v2(idle));
    ASK_AS("module unload", cuModuleUnload(test_module));
    ASK_AS("pop", cuCtxPopCurrent_v2(&c));
    ASK_AS("push", cuCtxPushCurrent_v2(c));
    ASK_AS("device attribute", cuDeviceGetAttribute(&n, 16, 0));
    ASK_AS("destroy", cuCtxDestroy_v2(c));
    ASK_AS("new context", cuCtxCreate_v2(&c, 0, 0));
    ASK_AS("alloc in new", cuMemAlloc_v2(&p, 16));
}

static void fault(const char *which)
{
    CUcontext primary, other, again;
    CUdeviceptr p, q;

    MUST(cuInit(0));
    MUST(cuCtxCreate_v2(&other, 0, 0));
    q = new_ints(4);
    CUstream in_other = new_stream(0);
    CUevent event_in_other = new_event(0);
    MUST(cuDevicePrimaryCtxRetain(&primary, 0));
    MUST(cuCtxSetCurrent(primary));
    char *text = test_file("kernels.ptx");
    MUST(cuModuleLoadData(&test_module, text));
    p = new_ints(4);
    void *params[] = {&p};
    launch1(kernel(which), NULL, params);
    ASK_AS(which, cuCtxSynchronize());
    MUST(cuCtxSetCurrent(other));
    ASK_AS("sync other context", cuCtxSynchronize());
    ASK_AS("alloc in other context", cuMemAlloc_v2(&p, 16));
    ASK_AS("memset in other context", cuMemsetD32Async(q, 1, 4, in_other));
    ASK_AS("sync stream in other context", cuStreamSynchronize(in_other));
    ASK_AS("record in other context", cuEventRecord(event_in_other, in_other));
    ASK_AS("third context", cuCtxCreate_v2(&again, 0, 0));
    ASK_AS("destroy other", cuCtxDestroy_v2(other));
    ASK_AS("reset", cuDevicePrimaryCtxReset_v2(0));
    ASK_AS("retain", cuDevicePrimaryCtxRetain(&primary, 0));
    ASK_AS("set current", cuCtxSetCurrent(primary));
    ASK_AS("alloc after reset", cuMemAlloc_v2(&p, 16));
    ASK_AS("release", cuDevicePrimaryCtxRelease_v2(0));
    ASK_AS("retain again", cuDevicePrimaryCtxRetain(&primary, 0));
    ASK_AS("new context after all", cuCtxCreate_v2(&again, 0, 0));
    ASK_AS("count", cuDeviceGetCount(&(int){0}));
}

static void fault_misaligned(void)
{
    fault("misaligned");
}

static void fault_trap(void)
{
    fault("do_trap");
}

static void fault_use_after_free(void)
{
    set_up();
    CUdeviceptr p;

    MUST(cuMemAlloc_v2(&p, 64 << 20));
    MUST(cuMemFree_v2(p));
    store(NULL, p, 1);
    ASK_AS("use after free", cuCtxSynchronize());
}

static CUevent callback_event;
static CUdeviceptr callback_memory;
static CUfunction callback_function;
static CUstream callback_other;
static char callback_said[4096];
#define TELL(name, call)                                                                                               \
    sprintf(callback_said + strlen(callback_said), "%s.in callback %s %d\n", group_name, name, (int)(call))

static void asks(void *data)
{
    CUdeviceptr p;
    CUcontext c;
    CUstreamCaptureStatus status;
    unsigned flags;
    int n;
    void *params[] = {&callback_memory};
    CUfunction f;

    TELL("stream query", cuStreamQuery(data));
    TELL("alloc", cuMemAlloc_v2(&p, 16));
    TELL("get current", cuCtxGetCurrent(&c));
    TELL("set current", cuCtxSetCurrent(test_context));
    TELL("driver version", cuDriverGetVersion(&n));
    TELL("event query", cuEventQuery(callback_event));
    TELL("device count", cuDeviceGetCount(&n));
    TELL("launch host func", cuLaunchHostFunc(data, noop, NULL));
    TELL("init", cuInit(0));
    TELL("launch", launch1(callback_function, callback_other, params));
    TELL("record", cuEventRecord(callback_event, callback_other));
    TELL("wait event", cuStreamWaitEvent(callback_other, callback_event, 0));
    TELL("memset async", cuMemsetD32Async(callback_memory, 0, 1, callback_other));
    TELL("memcpy async", cuMemcpyDtoDAsync_v2(callback_memory, callback_memory + 16, 4, callback_other));
    TELL("is capturing", cuStreamIsCapturing(callback_other, &status));
    TELL("stream flags", cuStreamGetFlags(callback_other, &flags));
    TELL("get function", cuModuleGetFunction(&f, test_module, "store"));
    TELL("pointer attribute", cuPointerGetAttribute(&n, 9, callback_memory));
    TELL("stream sync", cuStreamSynchronize(callback_other));
    TELL("event sync", cuEventSynchronize(callback_event));
    TELL("context sync", cuCtxSynchronize());
    TELL("free", cuMemFree_v2(callback_memory));
    TELL("stream create", cuStreamCreate(&(CUstream){0}, 0));
    TELL("event create", cuEventCreate(&(CUevent){0}, 0));
    TELL("device attribute", cuDeviceGetAttribute(&n, 16, 0));
    TELL("error name", cuGetErrorName(1, &(const char *){0}));
    TELL("memcpy", cuMemcpyDtoH_v2(&n, callback_memory, 4));
}

static void host_functions(void)
{
    set_up();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);

    callback_other = new_stream(CU_STREAM_NON_BLOCKING);
    callback_event = new_event(0);
    callback_memory = new_ints(64);
    callback_function = kernel("add1");
    ASK(cuLaunchHostFunc(s, asks, s));
    sleep_ms(500);
    fputs(callback_said, stdout);
    fflush(stdout);
    ASK_AS("null function", cuLaunchHostFunc(s, NULL, NULL));
    ASK_AS("callback flags", cuStreamAddCallback(s, callback_noop, NULL, 1));
}

static void after_fork(void)
{
    int status, n;
    CUdeviceptr p;
    pid_t child;

    set_up();
    fflush(stdout);
    child = fork();
    if (child == 0) {
        ASK_AS("child device count", cuDeviceGetCount(&n));
        ASK_AS("child alloc", cuMemAlloc_v2(&p, 16));
        ASK_AS("child init", cuInit(0));
        ASK_AS("child driver version", cuDriverGetVersion(&n));
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, &status, 0);
    ASK_AS("child status", status);
    ASK_AS("parent alloc", cuMemAlloc_v2(&p, 16));
}

/* ---- which symbol a name and version mean ---- */

static void *library;
static const char *const symbols[] = {
#define CU_ENTRY(symbol, cls, how, key, params) #symbol,
#include "driver/entries.def"
};
enum { SYMBOLS = sizeof(symbols) / sizeof(symbols[0]) };
static void *addresses[SYMBOLS];

static void symbol_of(void *address, char *name, size_t size)
{
    name[0] = '\0';
    for (int i = 0; address && i < SYMBOLS; i++)
        if (addresses[i] == address)
            snprintf(name + strlen(name), size - strlen(name), "%s%s", name[0] ? "=" : "", symbols[i]);
    if (!name[0])
        snprintf(name, size, "?");
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void proc_addresses(void)
{
    static const int versions[] = {0,     1000,  2000,  2010,  2020,  3000,  3010,  3020,  4000,  4010,  5000,
                                   5050,  6000,  6050,  7000,  7050,  8000,  9000,  9010,  9020,  10000, 10010,
                                   10020, 11000, 11010, 11020, 11030, 11040, 11050, 11060, 11070, 11080, 12000,
                                   12010, 12020, 12030, 12040, 12050, 12060, 12080, 12090, 13000, 13010, 14000};
    void *pfn;
    CUdriverProcAddressQueryResult status;
    char previous[2][400], current[400];

    library = dlopen("libcuda.so.1", RTLD_NOW);
    for (int i = 0; i < SYMBOLS; i++)
        addresses[i] = dlsym(library, symbols[i]);
    pfn = (void *)0x77;
    ASK_AS("v1 unknown name", cuGetProcAddress("cuNobody", &pfn, 12000, 0));
    say("pfn", (long)pfn);
    pfn = (void *)0x77;
    status = 77;
    ASK_AS("v2 unknown name", cuGetProcAddress_v2("cuNobody", &pfn, 12000, 0, &status));
    say("pfn", (long)pfn);
    say("status", status);
    pfn = (void *)0x77;
    ASK_AS("v2 unknown name, no status", cuGetProcAddress_v2("cuNobody", &pfn, 12000, 0, NULL));
    say("pfn", (long)pfn);
    pfn = (void *)0x77;
    status = 77;
    ASK_AS("v2 too old", cuGetProcAddress_v2("cuLaunchKernelEx", &pfn, 11000, 0, &status));
    say("pfn", (long)pfn);
    say("status", status);
    pfn = (void *)0x77;
    ASK_AS("v1 too old", cuGetProcAddress("cuLaunchKernelEx", &pfn, 11000, 0));
    say("pfn", (long)pfn);
    ASK_AS("v2 empty name", cuGetProcAddress_v2("", &pfn, 12000, 0, &status));
    ASK_AS("v2 flags 3", cuGetProcAddress_v2("cuLaunchKernel", &pfn, 12000, 3, &status));
    ASK_AS("v2 flags 4", cuGetProcAddress_v2("cuLaunchKernel", &pfn, 12000, 4, &status));
    pfn = NULL;
    ASK_AS("v2 name with suffix", cuGetProcAddress_v2("cuMemAlloc_v2", &pfn, 12000, 0, &status));
    say("status", status);
    say("found", pfn != NULL);
    ASK_AS("v2 name with ptsz", cuGetProcAddress_v2("cuLaunchKernel_ptsz", &pfn, 12000, 0, &status));
    say("status", status);
    for (int i = 0; i < SYMBOLS; i++) {
        const char *name = symbols[i];
        size_t length = strlen(name);

        if (strstr(name, "_v2") || strstr(name, "_v3") || strstr(name, "_v4") || strstr(name, "_ptsz") ||
            strstr(name, "_ptds"))
            continue;
        (void)length;
        strcpy(previous[0], "-");
        strcpy(previous[1], "-");
        for (size_t v = 0; v < sizeof(versions) / sizeof(versions[0]); v++) {
            for (int flags = 0; flags <= 2; flags += 2) {
                CUresult result;

                pfn = NULL;
                status = 77;
                result = cuGetProcAddress_v2(name, &pfn, versions[v], (cuuint64_t)flags, &status);
                if (pfn)
                    symbol_of(pfn, current, sizeof(current));
                else
                    snprintf(current, sizeof(current), "none(%d,%u)", (int)result, status);
                if (strcmp(current, previous[flags / 2]) != 0)
                    printf("%s.%s flags %d from %d: %s\n", group_name, name, flags, versions[v], current);
                strcpy(previous[flags / 2], current);
            }
        }
    }
    (void)by_number;
}

/* ---- loading code while a kernel runs ---- */

static volatile int *lazy_flag;
static CUstream lazy_busy;

static void *release_later(void *arg)
{
    (void)arg;
    sleep_ms(300);
    *lazy_flag = 1;
    return NULL;
}

/* A kernel waits for the host; meanwhile the call: does the host wait for that kernel, does the device? */
static void lazily(const char *name, CUresult (*call)(CUstream), CUstream s)
{
    CUdeviceptr flag = (uintptr_t)lazy_flag;
    pthread_t thread;
    CUresult result, query;
    double began;

    *lazy_flag = 0;
    MUST(wait_flag(lazy_busy, flag, 0));
    pthread_create(&thread, NULL, release_later, NULL);
    sleep_ms(50);
    began = seconds();
    result = call(s);
    began = seconds() - began;
    sleep_ms(50);
    query = cuStreamQuery(s);
    printf("%s.%s %d host waits=%d then %d\n", group_name, name, (int)result, began > 0.15, (int)query);
    pthread_join(thread, NULL);
    cuCtxSynchronize();
}

static CUdeviceptr lazy_memory;
static CUfunction lazy_function;
static CUkernel lazy_kernel;
static CUmodule lazy_module;
static CUgraphExec lazy_exec;

static CUresult lazy_launch(CUstream s)
{
    void *params[] = {&lazy_memory, &lazy_memory};

    return launch1(lazy_function, s, params);
}

static CUresult lazy_launch_kernel(CUstream s)
{
    void *params[] = {&lazy_memory, &lazy_memory};

    return launch1((CUfunction)lazy_kernel, s, params);
}

static CUresult lazy_get(CUstream s)
{
    (void)s;
    return cuModuleGetFunction(&lazy_function, lazy_module, "fill");
}

static CUresult lazy_get_and_launch(CUstream s)
{
    CUresult result = cuModuleGetFunction(&lazy_function, lazy_module, "twice_plus1");

    return result ? result : lazy_launch(s);
}

static CUresult lazy_load(CUstream s)
{
    (void)s;
    return cuFuncLoad(lazy_function);
}

static CUresult lazy_attribute(CUstream s)
{
    int value;

    (void)s;
    return cuFuncGetAttribute(&value, 4, lazy_function);
}

static CUresult lazy_memset(CUstream s)
{
    return cuMemsetD32Async(lazy_memory, 0, 1, s);
}

static CUresult lazy_graph(CUstream s)
{
    return cuGraphLaunch(lazy_exec, s);
}

static CUresult lazy_info(CUstream s)
{
    size_t offset, size;

    (void)s;
    return cuFuncGetParamInfo(lazy_function, 0, &offset, &size);
}

static void lazy(void)
{
    char *text = test_file("kernels.ptx");
    CUfunctionLoadingState state;
    CUlibrary library_of;
    CUgraph graph;
    void *host;

    set_up();
    MUST(cuMemAllocHost_v2(&host, 64));
    lazy_flag = host;
    lazy_busy = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    lazy_memory = new_ints(64);
    *lazy_flag = 1;
    MUST(wait_flag(lazy_busy, (uintptr_t)lazy_flag, 0));
    MUST(cuMemsetD32Async(lazy_memory, 0, 1, s));
    MUST(cuCtxSynchronize());
    lazy_function = kernel("copy_int");
    ASK(cuFuncIsLoaded(&state, lazy_function));
    say("loaded", state);
    lazily("first launch", lazy_launch, s);
    ASK(cuFuncIsLoaded(&state, lazy_function));
    say("loaded", state);
    lazily("second launch", lazy_launch, s);
    lazily("second launch, new stream", lazy_launch, new_stream(CU_STREAM_NON_BLOCKING));
    lazily("memset in a new stream", lazy_memset, new_stream(CU_STREAM_NON_BLOCKING));
    lazy_function = kernel("add1");
    lazily("func load", lazy_load, s);
    lazily("first launch after func load", lazy_launch, s);
    lazy_function = kernel("twice_plus1");
    lazily("func attribute", lazy_attribute, s);
    lazily("first launch after func attribute", lazy_launch, s);
    lazy_function = kernel("no_params");
    lazily("param info", lazy_info, s);
    lazily("first launch after param info", lazy_launch, s);
    MUST(cuModuleLoadData(&lazy_module, text));
    lazily("get function", lazy_get, s);
    lazily("get function and launch", lazy_get_and_launch, s);
    lazily("launch again", lazy_launch, s);
    MUST(cuLibraryLoadData(&library_of, text, NULL, NULL, 0, NULL, NULL, 0));
    MUST(cuLibraryGetKernel(&lazy_kernel, library_of, "add1"));
    lazily("first launch of a library kernel", lazy_launch_kernel, s);
    lazily("second launch of a library kernel", lazy_launch_kernel, s);
    MUST(cuLibraryGetKernel(&lazy_kernel, library_of, "copy_int"));
    lazily("first launch of another kernel of the library", lazy_launch_kernel, s);
    MUST(cuModuleGetFunction(&lazy_function, lazy_module, "copy_int"));
    MUST(cuStreamBeginCapture_v2(s, 2));
    MUST(lazy_launch(s));
    MUST(cuStreamEndCapture(s, &graph));
    MUST(cuGraphInstantiateWithFlags(&lazy_exec, graph, 0));
    lazily("first graph launch", lazy_graph, s);
    lazily("second graph launch", lazy_graph, s);
}

static void occupancy(void)
{
    set_up();
    CUfunction f = kernel("add1");
    int value, grid, size;
    size_t bytes;

    for (int threads = 32; threads <= 1024; threads *= 2)
        for (size_t dynamic = 0; dynamic <= 48 << 10; dynamic += 16 << 10) {
            cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, f, threads, dynamic);
            printf("%s.threads %d shared %zu: %d\n", group_name, threads, dynamic, value);
        }
    ASK(cuOccupancyMaxPotentialBlockSize(&grid, &size, f, NULL, 0, 0));
    printf("%s.potential grid %d block %d\n", group_name, grid, size);
    for (int blocks = 1; blocks <= 16; blocks *= 2) {
        CUresult result = cuOccupancyAvailableDynamicSMemPerBlock(&bytes, f, blocks, 128);
        printf("%s.available for %d blocks: %d %zu\n", group_name, blocks, (int)result, bytes);
    }
    MUST(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 200 << 10));
    for (int blocks = 1; blocks <= 16; blocks *= 2) {
        CUresult result = cuOccupancyAvailableDynamicSMemPerBlock(&bytes, f, blocks, 128);
        printf("%s.available with opt-in for %d blocks: %d %zu\n", group_name, blocks, (int)result, bytes);
    }
}

static void proc_null_pfn(void)
{
    CUdriverProcAddressQueryResult status;

    ASK_AS("v2 null pfn", cuGetProcAddress_v2("cuLaunchKernel", NULL, 12000, 0, &status));
}

static void proc_null_name(void)
{
    CUdriverProcAddressQueryResult status;
    void *pfn;

    ASK_AS("v2 null name", cuGetProcAddress_v2(NULL, &pfn, 12000, 0, &status));
}

static void attributes(void)
{
    int value;

    MUST(cuInit(0));
    for (unsigned i = 0; i <= 150; i++) {
        CUresult result = cuDeviceGetAttribute(&value, i, 0);

        printf("%s.%u %d %d\n", group_name, i, (int)result, result ? 0 : value);
    }
    size_t memory_size;
    cuDeviceTotalMem_v2(&memory_size, 0);
    say("memory", (long)memory_size);
    char name[100];
    cuDeviceGetName(name, sizeof(name), 0);
    printf("%s.name %s\n", group_name, name);
}

static const struct {
    const char *name;
    void (*run)(void);
} groups[] = {
    {"no_init", no_init},
    {"no_context", no_context},
    {"contexts", contexts},
    {"launches", launches},
    {"memory", memory},
    {"events", events},
    {"waiting", waiting},
    {"capture_more", capture_more},
    {"sticky", sticky},
    {"fault_misaligned", fault_misaligned},
    {"fault_trap", fault_trap},
    {"fault_use_after_free", fault_use_after_free},
    {"host_functions", host_functions},
    {"after_fork", after_fork},
    {"lazy", lazy},
    {"occupancy", occupancy},
    {"attributes", attributes},
    {"proc", proc_addresses},
    {"proc_null_pfn", proc_null_pfn},
    {"proc_null_name", proc_null_name},
    {"capture", capture_matrix},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        int status;
        pid_t child;

        if (argc > 1) {
            bool wanted = false;

            for (int k = 1; k < argc; k++)
                wanted |= strcmp(argv[k], groups[i].name) == 0;
            if (!wanted)
                continue;
        }
        group_name = groups[i].name;
        fflush(stdout);
        child = fork();
        if (child == 0) {
            alarm(100);
            groups[i].run();
            fflush(stdout);
            _exit(0);
        }
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status))
            printf("%s: ended with status %d\n", group_name, status);
    }
    return 0;
}
