/* SPDX-License-Identifier: Apache-2.0
 *
 * Description: threads launch the same kernel into lanes, others flush lanes and wait for them, and the device's thread
 * coalesces what it can. Every launch arrives exactly once, and behind the one before it in its lane, whatever stream
 * it goes to. When the engine has stopped, no thread of it is inside the driver, though one was loading a twin.
 *
 * The driver here keeps for each stream how many launches of each lane come before its end: a launch adds its own, an
 * event carries the numbers to the stream that waits for it. A launch that arrives in a stream which does not stand
 * behind its predecessor is out of order, unless the host has been told that the predecessor is complete.
 */
#include "engine/code.h"
#include "engine/device.h"
#include "engine/twin.h"

#include "base/clock.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LANES = 6, LAUNCHES = 4000, STREAMS = LANES + CONVOYS, EVENTS = 1024 };
enum { LOAD_US = 20000 };                    /* as a driver that compiles */
enum { AREA_BASE = 512, AREA_STRIDE = 128 }; /* of a kernel with 8 bytes of parameters, see coalesce.h */

#define KERNEL(name)                                                                                                   \
    ".visible .entry " name "(.param .u64 number)\n{\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [number];\n"               \
    "st.global.u64 [%rd1], %rd1;\nret;\n}\n"
static const char ptx[] = ".version 7.8\n.target sm_80\n.address_size 64\n" KERNEL("k") KERNEL("late");

struct progress {
    uint32_t of[LANES];
};

static struct lock driver_lock; /* for all below */
static struct progress streams[STREAMS], events[EVENTS], told;
static uint32_t next_stream = LANES, next_event = 1, wrong, coalesced, seed = 1;
static int context_object, function_object, late_object, twin_object, library_object, module_object;
static struct lane *lanes[LANES];
static _Atomic int running;
static _Atomic int loads; /* that began */
static _Atomic bool loading;

static void merge(struct progress *to, const struct progress *from)
{
    for (int i = 0; i < LANES; i++)
        if (from->of[i] > to->of[i])
            to->of[i] = from->of[i];
}

static struct progress *stream_of(CUstream stream)
{
    return &streams[(uintptr_t)stream / 0x1000 - 1];
}

static CUstream handle_of(uint32_t stream)
{
    return (CUstream)(uintptr_t)((stream + 1) * 0x1000);
}

/* ---- the driver ---- */

static CUresult get_current(CUcontext *context)
{
    *context = (CUcontext)&context_object;
    return CUDA_SUCCESS;
}

static CUresult set_current(CUcontext context)
{
    return CUDA_SUCCESS;
}

static CUresult get_device(CUdevice *device)
{
    *device = 0;
    return CUDA_SUCCESS;
}

static CUresult get_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9
             : attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT   ? 4
                                                                       : 0;
    return CUDA_SUCCESS;
}

static CUresult get_flags(CUstream stream, unsigned int *flags)
{
    *flags = CU_STREAM_NON_BLOCKING;
    return CUDA_SUCCESS;
}

static CUresult host_register(void *memory, size_t bytes, unsigned int flags)
{
    return CUDA_SUCCESS;
}

static CUresult device_pointer(CUdeviceptr *device, void *host, unsigned int flags)
{
    *device = (CUdeviceptr)(uintptr_t)host;
    return CUDA_SUCCESS;
}

/* A marker at home is reached at once. */
static CUresult write_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    lock_take(&driver_lock);
    merge(&told, stream_of(stream));
    lock_drop(&driver_lock);
    atomic_store((_Atomic uint32_t *)(uintptr_t)address, value);
    return CUDA_SUCCESS;
}

static CUresult stream_create(CUstream *stream, unsigned int flags)
{
    lock_take(&driver_lock);
    *stream = handle_of(next_stream++);
    lock_drop(&driver_lock);
    return CUDA_SUCCESS;
}

static CUresult event_create(CUevent *event, unsigned int flags)
{
    lock_take(&driver_lock);
    *event = (CUevent)(uintptr_t)next_event++;
    lock_drop(&driver_lock);
    return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream)
{
    lock_take(&driver_lock);
    events[(uintptr_t)event] = *stream_of(stream);
    lock_drop(&driver_lock);
    return CUDA_SUCCESS;
}

static CUresult stream_wait(CUstream stream, CUevent event, unsigned int flags)
{
    lock_take(&driver_lock);
    merge(stream_of(stream), &events[(uintptr_t)event]);
    lock_drop(&driver_lock);
    return CUDA_SUCCESS;
}

/* Reached now or later. */
static CUresult event_query(CUevent event)
{
    CUresult result = CUDA_ERROR_NOT_READY;

    lock_take(&driver_lock);
    seed = seed * 1664525u + 1013904223u;
    if (seed >> 30) {
        merge(&told, &events[(uintptr_t)event]);
        result = CUDA_SUCCESS;
    }
    lock_drop(&driver_lock);
    return result;
}

static CUresult param_info(CUfunction function, size_t index, size_t *offset, size_t *size)
{
    *offset = 0;
    *size = sizeof(uint64_t);
    return index > 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult function_attribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
    return CUDA_SUCCESS;
}

static CUresult kernel_attribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device)
{
    *value = 0;
    return CUDA_SUCCESS;
}

static CUresult set_kernel_attribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device)
{
    return CUDA_SUCCESS;
}

static CUresult function_name(const char **name, CUfunction function)
{
    *name = function == (CUfunction)&late_object ? "late" : "k";
    return CUDA_SUCCESS;
}

static CUresult library_load(CUlibrary *library, const void *code, CUjit_option *options, void **values,
                             unsigned int count, CUlibraryOption *more, void **more_values, unsigned int more_count)
{
    atomic_store(&loading, true);
    atomic_fetch_add(&loads, 1);
    usleep(LOAD_US);
    atomic_store(&loading, false);
    *library = (CUlibrary)&library_object;
    return CUDA_SUCCESS;
}

static CUresult library_unload(CUlibrary library)
{
    return CUDA_SUCCESS;
}

static CUresult library_kernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    *kernel = (CUkernel)&twin_object;
    return CUDA_SUCCESS;
}

static CUresult kernel_function(CUfunction *function, CUkernel kernel)
{
    *function = (CUfunction)kernel;
    return CUDA_SUCCESS;
}

static void arrive(struct progress *stream, uint64_t number)
{
    uint32_t lane = (uint32_t)(number >> 32), place = (uint32_t)number;
    uint32_t before = stream->of[lane] > told.of[lane] ? stream->of[lane] : told.of[lane];

    if (before != place && wrong++ < 5)
        printf("lane %u: launch %u arrived in a stream behind %u\n", lane, place, before);
    stream->of[lane] = place + 1;
}

static CUresult launch_kernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                              unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params,
                              void **extra)
{
    const unsigned char *area = extra[1];
    bool twin = f == (CUfunction)&twin_object;
    uint64_t number;

    lock_take(&driver_lock);
    for (unsigned int i = 0; i < gz; i++) {
        memcpy(&number, twin ? area + AREA_BASE + i * AREA_STRIDE : area, sizeof(number));
        arrive(stream_of(stream), number);
    }
    coalesced += twin ? gz : 0;
    lock_drop(&driver_lock);
    return CUDA_SUCCESS;
}

static struct cu_driver driver = {
    .cuCtxGetCurrent = get_current,
    .cuCtxSetCurrent = set_current,
    .cuCtxPushCurrent_v2 = set_current,
    .cuCtxPopCurrent_v2 = get_current,
    .cuCtxGetDevice = get_device,
    .cuDeviceGetAttribute = get_attribute,
    .cuStreamGetFlags = get_flags,
    .cuMemHostRegister_v2 = host_register,
    .cuMemHostGetDevicePointer_v2 = device_pointer,
    .cuStreamWriteValue32_v2 = write_value,
    .cuStreamCreate = stream_create,
    .cuStreamWaitEvent = stream_wait,
    .cuEventCreate = event_create,
    .cuEventRecord = event_record,
    .cuEventQuery = event_query,
    .cuFuncGetParamInfo = param_info,
    .cuFuncGetAttribute = function_attribute,
    .cuFuncGetName = function_name,
    .cuKernelGetAttribute = kernel_attribute,
    .cuKernelSetAttribute = set_kernel_attribute,
    .cuKernelGetFunction = kernel_function,
    .cuLibraryLoadData = library_load,
    .cuLibraryUnload = library_unload,
    .cuLibraryGetKernel = library_kernel,
    .cuLaunchKernel = launch_kernel,
};

/* ---- the program ---- */

static void launch(struct lane *lane, uint64_t number)
{
    const struct function *function = function_get(lane->engine, (CUfunction)&function_object);
    struct record *record;
    uint64_t token;

    while (!(record = ring_reserve(&lane->ring, record_bytes(0, sizeof(number)), &token)))
        lane_flush_all(lane, SCHED_REASON_ROOM);
    memset(record, 0, sizeof(*record));
    record->kind = RECORD_LAUNCH;
    record->parameter_bytes = sizeof(number);
    record->submit_ns = clock_ns();
    record->launch.function = function;
    for (int i = 0; i < 3; i++)
        record->launch.grid[i] = record->launch.block[i] = 1;
    record->launch.blocks_per_sm = 16;
    memcpy(record_parameters(record), &number, sizeof(number));
    lane_commit(lane, record);
}

static uint64_t first[LANES]; /* launches that were made to get the kernel rewritten */

/* Until launches are coalesced: a twin takes a moment. */
static void warm_up(void)
{
    for (int round = 0; round < LAUNCHES / 2; round++) {
        bool enough;

        for (uint64_t i = 0; i < LANES; i++)
            launch(lanes[i], i << 32 | first[i]++);
        usleep(200);
        lock_take(&driver_lock);
        enough = coalesced > 0;
        lock_drop(&driver_lock);
        if (enough)
            return;
    }
}

static void *launcher(void *argument)
{
    uint64_t id = (uint64_t)(uintptr_t)argument;
    unsigned int mine = (unsigned int)id + 1;

    for (uint64_t i = first[id]; i < LAUNCHES; i++) {
        launch(lanes[id], id << 32 | i);
        if (rand_r(&mine) % 4 == 0)
            sched_yield();
        switch (rand_r(&mine) % 512) {
        case 0:
            lane_flush_all(lanes[id], SCHED_REASON_FLUSH);
            break;
        case 1:
            lane_await(lanes[id]);
            lane_flush_all(lanes[id], SCHED_REASON_FLUSH);
            break;
        case 2:
            lane_flush_all(lanes[id], SCHED_REASON_DRAIN);
            break;
        }
    }
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static void *flusher(void *argument)
{
    unsigned int mine = 77;

    while (atomic_load(&running) > 0) {
        lane_flush_all(lanes[rand_r(&mine) % LANES], SCHED_REASON_DRAIN);
        usleep(2000);
    }
    return NULL;
}

static void failed(const char *what, CUresult result)
{
    printf("%s failed\n", what);
    wrong++;
}

static struct engine *start(void)
{
    struct engine_options options = {.driver = &driver,
                                     .window = 16,
                                     .packs = 2,
                                     .hold_cap_ns = 2000000,
                                     .spin_ns = 50000,
                                     .coalesce = true,
                                     .cache = "off",
                                     .lane_attr = {.weight = 100},
                                     .failed = failed};
    struct engine *engine;

    if (engine_create(&options, &engine) < 0)
        exit(1);
    code_loaded(engine, (uint64_t)&module_object, false, ptx);
    code_derived(engine, (uint64_t)&function_object, (uint64_t)&module_object);
    code_derived(engine, (uint64_t)&late_object, (uint64_t)&module_object);
    for (uint32_t i = 0; i < LANES; i++)
        lanes[i] = lane_make(engine, (CUcontext)&context_object, handle_of(i));
    return engine;
}

/* In the place of the device's thread, which knows nothing of this function. */
static void stop_while_a_twin_is_loaded(struct engine *engine)
{
    uint64_t give_up_ns = clock_ns() + 5000000000u;
    int before = atomic_load(&loads);

    twin_get(engine, function_get(engine, (CUfunction)&late_object), lanes[0]->context, 0);
    while (atomic_load(&loads) == before && clock_ns() < give_up_ns)
        sched_yield();
    if (atomic_load(&loads) == before) {
        printf("the second twin was never loaded\n");
        wrong++;
    }
    engine_stop(engine);
    if (atomic_load(&loading)) {
        printf("stopped while a twin is being loaded\n");
        wrong++;
    }
    if (!thread_ended(&lanes[0]->device->thread)) {
        printf("stopped, but the device's thread goes on\n");
        wrong++;
    }
}

int main(void)
{
    pthread_t threads[LANES], flush;
    struct engine *engine = start();

    warm_up();
    atomic_store(&running, LANES);
    for (uintptr_t i = 0; i < LANES; i++)
        pthread_create(&threads[i], NULL, launcher, (void *)i);
    pthread_create(&flush, NULL, flusher, NULL);
    for (int i = 0; i < LANES; i++)
        pthread_join(threads[i], NULL);
    pthread_join(flush, NULL);
    lanes_flush(engine, NULL, SCHED_REASON_DRAIN);
    stop_while_a_twin_is_loaded(engine);
    lock_take(&driver_lock);
    for (int i = 0; i < LANES; i++)
        if (stream_of(lanes[i]->stream)->of[i] != LAUNCHES && told.of[i] != LAUNCHES) {
            printf("lane %d: %u launches at home\n", i, stream_of(lanes[i]->stream)->of[i]);
            wrong++;
        }
    printf("%u of %d launches coalesced\n", coalesced, LANES * LAUNCHES);
    if (coalesced == 0)
        wrong++;
    lock_drop(&driver_lock);
    return wrong ? 1 : 0;
}
