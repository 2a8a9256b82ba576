/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/fake_driver.h"

#include "base/clock.h"

#include <sched.h>
#include <string.h>

struct fake fake;

/* The last marker of each stream: where and what to write. */
static struct {
    _Atomic uint32_t *word;
    uint32_t value;
} markers[FAKE_STREAMS];

static int context_object, function_object;

CUstream fake_stream_handle(int index)
{
    return (CUstream)(uintptr_t)((index + 1) * 0x1000);
}

CUcontext fake_context(void)
{
    return (CUcontext)&context_object;
}

static struct fake_stream *stream_of(CUstream handle)
{
    return &fake.stream[(uintptr_t)handle / 0x1000 - 1];
}

static CUresult get_current(CUcontext *context)
{
    *context = fake_context();
    return CUDA_SUCCESS;
}

static CUresult set_current(CUcontext context)
{
    return context == fake_context() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult pop_current(CUcontext *context)
{
    *context = fake_context();
    return CUDA_SUCCESS;
}

static CUresult get_device(CUdevice *device)
{
    *device = 0;
    return CUDA_SUCCESS;
}

static CUresult get_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    *value = attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? FAKE_SMS : 0;
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

static CUresult write_value(CUstream handle, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    struct fake_stream *stream = stream_of(handle);
    _Atomic uint32_t *word = (_Atomic uint32_t *)(uintptr_t)address;

    lock_take(&stream->lock);
    markers[stream - fake.stream].word = word;
    markers[stream - fake.stream].value = value;
    lock_drop(&stream->lock);
    atomic_fetch_add(&fake.markers, 1);
    if (atomic_load(&fake.complete_at_once))
        atomic_store(word, value);
    return CUDA_SUCCESS;
}

static CUresult param_info(CUfunction function, size_t index, size_t *offset, size_t *size)
{
    if (index > 0)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = 0;
    *size = sizeof(uint64_t);
    return CUDA_SUCCESS;
}

static CUresult function_attribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
    return CUDA_SUCCESS;
}

static CUresult launch_kernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                              unsigned int by, unsigned int bz, unsigned int shared, CUstream handle, void **params,
                              void **extra)
{
    struct fake_stream *stream = stream_of(handle);
    int fail = atomic_load(&fake.fail_launches);

    if (fail > 0 && atomic_fetch_sub(&fake.fail_launches, 1) > 0)
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    lock_take(&stream->lock);
    memcpy(&stream->number[stream->count++ % FAKE_LAUNCHES], extra[1], sizeof(uint64_t));
    lock_drop(&stream->lock);
    return CUDA_SUCCESS;
}

static void failed(const char *what, CUresult result)
{
    atomic_fetch_add(&fake.failures, 1);
}

void fake_init(void)
{
    memset(&fake, 0, sizeof(fake));
    memset(markers, 0, sizeof(markers));
    fake.complete_at_once = true;
    fake.driver.cuCtxGetCurrent = get_current;
    fake.driver.cuCtxSetCurrent = set_current;
    fake.driver.cuCtxPushCurrent_v2 = set_current;
    fake.driver.cuCtxPopCurrent_v2 = pop_current;
    fake.driver.cuCtxGetDevice = get_device;
    fake.driver.cuDeviceGetAttribute = get_attribute;
    fake.driver.cuStreamGetFlags = get_flags;
    fake.driver.cuMemHostRegister_v2 = host_register;
    fake.driver.cuMemHostGetDevicePointer_v2 = device_pointer;
    fake.driver.cuStreamWriteValue32_v2 = write_value;
    fake.driver.cuFuncGetParamInfo = param_info;
    fake.driver.cuFuncGetAttribute = function_attribute;
    fake.driver.cuLaunchKernel = launch_kernel;
}

struct engine *fake_engine(uint32_t window, uint64_t hold_cap_ns)
{
    struct engine_options options = {
        .driver = &fake.driver,
        .window = window,
        .hold_cap_ns = hold_cap_ns,
        .spin_ns = 50000,
        .lane_attr = {.weight = 100},
        .failed = failed,
    };
    struct engine *engine = NULL;

    return engine_create(&options, &engine) == 0 ? engine : NULL;
}

void fake_reach_markers(void)
{
    for (int i = 0; i < FAKE_STREAMS; i++) {
        lock_take(&fake.stream[i].lock);
        if (markers[i].word)
            atomic_store(markers[i].word, markers[i].value);
        lock_drop(&fake.stream[i].lock);
    }
}

uint64_t fake_launch(struct lane *lane, uint64_t number, uint32_t blocks)
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
    record->corr = 1;
    record->launch.function = function;
    record->launch.grid[0] = blocks;
    record->launch.grid[1] = record->launch.grid[2] = 1;
    record->launch.block[0] = record->launch.block[1] = record->launch.block[2] = 1;
    record->launch.blocks_per_sm = 1;
    memcpy(record_parameters(record), &number, sizeof(number));
    lane_commit(lane, record);
    return token;
}

uint32_t fake_count(int index)
{
    struct fake_stream *stream = &fake.stream[index];
    uint32_t count;

    lock_take(&stream->lock);
    count = stream->count;
    lock_drop(&stream->lock);
    return count;
}

bool fake_wait_count(int index, uint32_t count)
{
    uint64_t deadline = clock_ns() + 5000000000u;

    while (fake_count(index) < count) {
        if (clock_ns() > deadline)
            return false;
        sched_yield();
    }
    return true;
}
