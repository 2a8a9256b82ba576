/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/function.h"

#include "engine/code.h"
#include "engine/record.h"

#include <errno.h>
#include <string.h>

/*
 * cuFuncGetParamInfo exists from CUDA 12.4 and refuses a CUkernel with INVALID_HANDLE; cuKernelGetFunction then gives
 * the function of the current context. The end of the list is an INVALID_VALUE. Seen on driver 580.
 */
static CUfunction queryable(const struct cu_driver *driver, CUfunction handle)
{
    size_t offset, size;
    CUresult result = driver->cuFuncGetParamInfo(handle, 0, &offset, &size);
    CUfunction function = NULL;

    if (result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE)
        return handle;
    if (result != CUDA_ERROR_INVALID_HANDLE)
        return NULL; /* a broken context, or a driver that does not answer: nothing is known */
    if (!driver->cuKernelGetFunction || driver->cuKernelGetFunction(&function, (CUkernel)handle) != CUDA_SUCCESS)
        return NULL;
    return function;
}

/* -EINVAL if the list does not end as it should: then what was read is no layout. */
static int count_parameters(const struct cu_driver *driver, CUfunction function, uint32_t *count)
{
    CUresult result = CUDA_SUCCESS;
    size_t offset, size;
    uint32_t found = 0;

    while (found < RECORD_PARAMETERS_MAX) {
        result = driver->cuFuncGetParamInfo(function, found, &offset, &size);
        if (result != CUDA_SUCCESS)
            break;
        found++;
    }
    if (result != CUDA_ERROR_INVALID_VALUE)
        return -EINVAL;
    *count = found;
    return 0;
}

static int read_layout(struct engine *engine, struct function *function)
{
    const struct cu_driver *driver = engine->driver;
    uint32_t count = 0, bytes = 0, *numbers = NULL;
    int error = count_parameters(driver, function->query, &count);

    if (error < 0)
        return error;
    if (count > 0) {
        numbers = engine_arena(engine, 2 * count * sizeof(*numbers));
        if (!numbers)
            return -ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        size_t offset, size;

        if (driver->cuFuncGetParamInfo(function->query, i, &offset, &size) != CUDA_SUCCESS)
            return -EINVAL;
        numbers[i] = (uint32_t)offset;
        numbers[count + i] = (uint32_t)size;
        if (offset + size > bytes)
            bytes = (uint32_t)(offset + size);
    }
    function->parameter_count = count;
    function->parameter_bytes = bytes;
    function->offsets = numbers;
    function->sizes = numbers + count;
    return 0;
}

static bool same_layout(const struct cu_driver *driver, const struct function *old, CUfunction query)
{
    size_t offset, size;

    for (uint32_t i = 0; i < old->parameter_count; i++)
        if (driver->cuFuncGetParamInfo(query, i, &offset, &size) != CUDA_SUCCESS || offset != old->offsets[i] ||
            size != old->sizes[i])
            return false;
    return driver->cuFuncGetParamInfo(query, old->parameter_count, &offset, &size) == CUDA_ERROR_INVALID_VALUE;
}

static uint32_t attribute(const struct cu_driver *driver, CUfunction function, CUfunction_attribute which)
{
    int value;

    if (!driver->cuFuncGetAttribute || driver->cuFuncGetAttribute(&value, which, function) != CUDA_SUCCESS || value < 0)
        return 0;
    return (uint32_t)value;
}

/* The driver's string goes with the module. */
static const char *name_of(const struct cu_driver *driver, CUfunction function)
{
    const char *name = NULL;

    if (!driver->cuFuncGetName || driver->cuFuncGetName(&name, function) != CUDA_SUCCESS || !name)
        return "(unnamed kernel)";
    return name;
}

static const char *keep_name(struct engine *engine, const char *name)
{
    size_t length = strnlen(name, FUNCTION_NAME_MAX);
    char *copy = engine_arena(engine, length + 1);

    if (!copy)
        return "(unnamed kernel)";
    memcpy(copy, name, length);
    copy[length] = '\0';
    return copy;
}

/* Where the handle comes from. The program may have got it in ways that say it only of the function behind a kernel. */
static struct code *origin(struct engine *engine, CUfunction handle, CUfunction query)
{
    struct code *code = code_of(engine, (uint64_t)handle);
    CUmodule module;

    if (!code && query != handle)
        code = code_of(engine, (uint64_t)query);
    if (!code && engine->driver->cuFuncGetModule && engine->driver->cuFuncGetModule(&module, query) == CUDA_SUCCESS)
        code = code_of(engine, (uint64_t)module);
    return code;
}

/*
 * True if the handle still stands for what we knew: then only the epoch was old. The origin tells a recycled handle of
 * a kernel of the same name and layout.
 */
static bool still_valid(struct engine *engine, const struct function *old, CUfunction query)
{
    const struct cu_driver *driver = engine->driver;

    return old->query == query && old->code == origin(engine, old->handle, query) && same_layout(driver, old, query) &&
           strncmp(old->name, name_of(driver, query), FUNCTION_NAME_MAX) == 0 &&
           old->threads_max == attribute(driver, query, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) &&
           old->shared_dynamic_max == attribute(driver, query, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
}

/*
 * No lock is held over the driver calls in here: the driver may load code and wait for the device meanwhile, and other
 * threads must get on. Two threads that learn one handle at the same time both get a right answer; one is kept.
 */
static struct function *learn(struct engine *engine, CUfunction handle, struct function *old, uint32_t epoch)
{
    const struct cu_driver *driver = engine->driver;
    CUfunction query = queryable(driver, handle);
    struct function *function;
    int kept;

    if (!query)
        return NULL;
    /* Load the code now, on the thread that launches: a lazy load at issue could wait for the device (traps: 28). */
    if (driver->cuFuncLoad)
        driver->cuFuncLoad(query);
    if (old && still_valid(engine, old, query)) {
        atomic_store_explicit(&old->epoch, epoch, memory_order_release);
        return old;
    }
    function = engine_arena(engine, sizeof(*function));
    if (!function)
        return NULL;
    function->handle = handle;
    function->query = query;
    function->threads_max = attribute(driver, query, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    function->shared_dynamic_max = attribute(driver, query, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    function->code = origin(engine, handle, query);
    function->cluster_required = attribute(driver, query, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET) != 0;
    function->name = keep_name(engine, name_of(driver, query));
    atomic_init(&function->epoch, epoch);
    if (read_layout(engine, function) < 0)
        return NULL;

    lock_take(&engine->tables);
    kept = handle_map_set(&engine->functions, (uint64_t)handle, (uint64_t)function);
    lock_drop(&engine->tables);
    return kept < 0 ? NULL : function;
}

const struct function *function_get(struct engine *engine, CUfunction handle)
{
    /* Acquire: pairs with function_forget_all; a handle that was recycled before this launch is seen as unknown. */
    uint32_t epoch = atomic_load_explicit(&engine->function_epoch, memory_order_acquire);
    struct function *function = (struct function *)handle_map_get(&engine->functions, (uint64_t)handle);

    if (function && atomic_load_explicit(&function->epoch, memory_order_acquire) == epoch)
        return function;
    if (!handle || !engine->driver->cuFuncGetParamInfo)
        return NULL;

    return learn(engine, handle, function, epoch);
}

uint32_t function_blocks_per_sm(struct engine *engine, const struct function *function, uint32_t threads,
                                uint32_t shared_bytes)
{
    struct function_shape *shapes = ((struct function *)function)->shapes;
    uint64_t key = (uint64_t)threads << 32 | shared_bytes;
    int blocks = 0;
    uint32_t slot;

    for (slot = 0; slot < FUNCTION_SHAPES; slot++)
        if (atomic_load_explicit(&shapes[slot].key, memory_order_acquire) == key)
            return atomic_load_explicit(&shapes[slot].blocks_per_sm, memory_order_relaxed);

    if (!engine->driver->cuOccupancyMaxActiveBlocksPerMultiprocessor ||
        engine->driver->cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function->query, (int)threads,
                                                                    shared_bytes) != CUDA_SUCCESS ||
        blocks < 1)
        blocks = 1;
    slot = atomic_fetch_add_explicit(&((struct function *)function)->shape_next, 1, memory_order_relaxed);
    slot %= FUNCTION_SHAPES;
    /*
     * Two threads may write one slot; a reader can then pair one's key with the other's number. That is a wrong guess
     * of SM demand for one launch, nothing more, and cheaper than a lock.
     */
    atomic_store_explicit(&shapes[slot].blocks_per_sm, (uint32_t)blocks, memory_order_relaxed);
    atomic_store_explicit(&shapes[slot].key, key, memory_order_release);
    return (uint32_t)blocks;
}

void function_forget_all(struct engine *engine)
{
    atomic_fetch_add_explicit(&engine->function_epoch, 1, memory_order_release);
}
