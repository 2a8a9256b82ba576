/* SPDX-License-Identifier: Apache-2.0
 *
 * Virtual memory management (cuMemAddressReserve, cuMemCreate, cuMemMap, ...) and memory pools.
 *
 * Physical memory is a memfd, so that it can be exported as a file descriptor and mapped at the same address in another
 * process. An unmapped piece of a reservation is ordinary inaccessible memory; the table (memory.c) refuses it first.
 *
 * Processes share bytes and nothing else: each has its own count of used memory (cuMemGetInfo), in which an import does
 * not count, its own faults, and its own time. On a device all of these are one.
 */
#include "tests/simcuda/sim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    GRANULARITY = 2 << 20,
    LOCATION_DEVICE = 1,
    TYPE_PINNED = 1,
    HANDLE_FD = 1, /* CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR */
    ACCESS_READ = 1,
    ACCESS_READWRITE = 3,
};

struct sim_memory {
    int fd;
    size_t size;
    unsigned refs; /* the handle, each retain, each mapping */
    struct sim_device *device;
    CUmemAllocationProp prop;
    bool imported;
};

struct mapping {
    uintptr_t base;
    size_t size;
    struct sim_memory *memory;
    size_t offset;
};
static struct mapping *mappings;
static size_t mapping_count;

struct reservation {
    uintptr_t base;
    size_t size;
};
static struct reservation *reservations;
static size_t reservation_count;

static void memory_unref(struct sim_memory *memory)
{
    if (--memory->refs)
        return;
    if (!memory->imported)
        memory->device->used -= memory->size;
    close(memory->fd);
    sim_object_destroy(memory);
}

static CUresult memory_get(CUmemGenericAllocationHandle handle, struct sim_memory **memory)
{
    *memory = (struct sim_memory *)(uintptr_t)handle;
    return sim_object_is(*memory, SIM_MEMORY) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static const struct reservation *reservation_of(uintptr_t base, size_t size)
{
    for (size_t i = 0; i < reservation_count; i++)
        if (base >= reservations[i].base && base - reservations[i].base <= reservations[i].size &&
            size <= reservations[i].size - (base - reservations[i].base))
            return &reservations[i];
    return NULL;
}

CUresult sim_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                           CUmemAllocationGranularity_flags option)
{
    if (!granularity || !prop || option > 1 || prop->type != TYPE_PINNED || prop->location.type != LOCATION_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = GRANULARITY;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                                 unsigned long long flags)
{
    size_t align = alignment > GRANULARITY ? alignment : GRANULARITY;
    struct reservation *more;
    uintptr_t base, aligned;
    void *room;

    if (!ptr || !size || size % GRANULARITY || flags || (alignment & (alignment - 1)) || addr % GRANULARITY)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_GUARD;
    room = MAP_FAILED;
    if (addr) /* a wish: granted when the place is free */
        room = mmap((void *)(uintptr_t)addr, size, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (room != MAP_FAILED && (uintptr_t)room != addr) {
        munmap(room, size);
        room = MAP_FAILED;
    }
    if (room == MAP_FAILED) {
        room = mmap(NULL, size + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (room == MAP_FAILED)
            return CUDA_ERROR_OUT_OF_MEMORY;
        base = (uintptr_t)room;
        aligned = (base + align - 1) & ~(uintptr_t)(align - 1);
        if (aligned != base)
            munmap((void *)base, aligned - base);
        munmap((void *)(aligned + size), base + align - aligned);
        room = (void *)aligned;
    }
    more = realloc(reservations, (reservation_count + 1) * sizeof(*more));
    if (!more) {
        munmap(room, size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    reservations = more;
    reservations[reservation_count++] = (struct reservation){(uintptr_t)room, size};
    *ptr = (uintptr_t)room;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    SIM_GUARD;
    for (size_t i = 0; i < reservation_count; i++) {
        if (reservations[i].base != ptr || reservations[i].size != size)
            continue;
        for (size_t k = 0; k < mapping_count; k++)
            if (mappings[k].base - ptr < size)
                return CUDA_ERROR_INVALID_VALUE; /* still mapped */
        reservations[i] = reservations[--reservation_count];
        munmap((void *)(uintptr_t)ptr, size);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

static struct sim_memory *memory_new(int fd, size_t size, struct sim_device *device)
{
    struct sim_memory *memory = sim_object_create(SIM_MEMORY, sizeof(*memory));

    if (!memory)
        return NULL;
    memory->fd = fd;
    memory->size = size;
    memory->refs = 1;
    memory->device = device;
    return memory;
}

CUresult sim_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                         unsigned long long flags)
{
    struct sim_memory *memory;
    struct sim_device *device;
    int fd;

    if (!handle || !prop || !size || size % GRANULARITY || flags || prop->type != TYPE_PINNED ||
        prop->location.type != LOCATION_DEVICE || (prop->requestedHandleTypes & ~(unsigned)HANDLE_FD))
        return CUDA_ERROR_INVALID_VALUE;
    SIM_GUARD;
    if (sim_device_get(prop->location.id, &device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (size > device->row->memory - device->used)
        return CUDA_ERROR_OUT_OF_MEMORY;
    fd = memfd_create("simcuda", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)size)) {
        if (fd >= 0)
            close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memory = memory_new(fd, size, device);
    if (!memory) {
        close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memory->prop = *prop;
    device->used += size;
    *handle = (uintptr_t)memory;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    struct sim_memory *memory;

    SIM_GUARD;
    if (memory_get(handle, &memory))
        return CUDA_ERROR_INVALID_VALUE;
    memory_unref(memory);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                      unsigned long long flags)
{
    struct sim_memory *memory;
    struct mapping *more;

    SIM_GUARD;
    if (memory_get(handle, &memory) || !size || size % GRANULARITY || offset % GRANULARITY || flags ||
        offset > memory->size || size > memory->size - offset || !reservation_of(ptr, size))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < mapping_count; i++)
        if (mappings[i].base < ptr + size && ptr < mappings[i].base + mappings[i].size)
            return CUDA_ERROR_INVALID_VALUE; /* something is mapped there */
    more = realloc(mappings, (mapping_count + 1) * sizeof(*more));
    if (!more)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mappings = more;
    if (mmap((void *)(uintptr_t)ptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory->fd, (off_t)offset) ==
        MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mappings[mapping_count++] = (struct mapping){ptr, size, memory, offset};
    memory->refs++;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    bool any = false;

    if (!desc || !count || !size)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (desc[i].location.type != LOCATION_DEVICE || (desc[i].flags & ~3u) || desc[i].flags == 2)
            return CUDA_ERROR_INVALID_VALUE;
    SIM_GUARD;
    for (size_t i = 0; i < mapping_count; i++) {
        struct mapping *mapping = &mappings[i];
        struct sim_range *range;
        CUresult result;

        if (mapping->base < ptr || mapping->base - ptr >= size)
            continue;
        any = true;
        sim_range_remove(mapping->base);
        if (!desc[0].flags)
            continue;
        result = sim_range_add(mapping->base, mapping->size, SIM_MEM_MAPPED, NULL, mapping->memory->device, 0);
        if (result)
            return result;
        range = sim_range_find(mapping->base);
        range->writable = desc[0].flags == ACCESS_READWRITE;
    }
    return any ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
    const struct sim_range *range;

    if (!flags || !location)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_GUARD;
    range = sim_range_find(ptr);
    *flags = !range ? 0 : range->writable ? ACCESS_READWRITE : ACCESS_READ;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    size_t found = 0;

    SIM_GUARD;
    for (size_t i = 0; i < mapping_count; i++)
        if (mappings[i].base >= ptr && mappings[i].base - ptr < size)
            found += mappings[i].size;
    if (!size || found != size)
        return CUDA_ERROR_INVALID_VALUE;
    /* Running kernels may keep what they were allowed to touch; nothing must vanish under them. */
    for (struct sim_ctx *ctx = atomic_load(&sim.contexts); ctx; ctx = ctx->next)
        if (!ctx->dead)
            sim_context_wait(ctx);
    for (size_t i = 0; i < mapping_count; i++) {
        struct mapping mapping = mappings[i];

        if (mapping.base < ptr || mapping.base - ptr >= size)
            continue;
        sim_range_remove(mapping.base);
        mmap((void *)mapping.base, mapping.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0);
        mappings[i--] = mappings[--mapping_count];
        memory_unref(mapping.memory);
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
                                          CUmemAllocationHandleType handleType, unsigned long long flags)
{
    struct sim_memory *memory;
    int fd;

    if (!shareableHandle || flags)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_GUARD;
    if (memory_get(handle, &memory) || handleType != HANDLE_FD || !(memory->prop.requestedHandleTypes & HANDLE_FD))
        return CUDA_ERROR_INVALID_VALUE;
    fd = fcntl(memory->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)shareableHandle = fd;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                            CUmemAllocationHandleType shHandleType)
{
    struct sim_memory *memory;
    struct stat info;
    int fd;

    if (!handle || shHandleType != HANDLE_FD)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_GUARD;
    fd = fcntl((int)(intptr_t)osHandle, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (fstat(fd, &info) || info.st_size <= 0 || info.st_size % GRANULARITY) {
        close(fd);
        return CUDA_ERROR_INVALID_VALUE;
    }
    memory = memory_new(fd, (size_t)info.st_size, &sim.devices[0]);
    if (!memory) {
        close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memory->imported = true;
    memory->prop =
        (CUmemAllocationProp){.type = TYPE_PINNED, .requestedHandleTypes = HANDLE_FD, .location = {LOCATION_DEVICE, 0}};
    *handle = (uintptr_t)memory;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
    struct sim_memory *memory;

    SIM_GUARD;
    if (!prop || memory_get(handle, &memory))
        return CUDA_ERROR_INVALID_VALUE;
    *prop = memory->prop;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_GUARD;
    for (size_t i = 0; i < mapping_count; i++) {
        if ((uintptr_t)addr - mappings[i].base >= mappings[i].size)
            continue;
        mappings[i].memory->refs++;
        *handle = (uintptr_t)mappings[i].memory;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

/* ---- pools: bookkeeping over plain device memory ---- */

/* CUmemPool_attribute in cuda.h */
enum {
    POOL_FOLLOW_EVENTS = 1,
    POOL_OPPORTUNISTIC = 2,
    POOL_INTERNAL = 3,
    POOL_THRESHOLD = 4,
    POOL_RESERVED_CURRENT = 5,
    POOL_RESERVED_HIGH = 6,
    POOL_USED_CURRENT = 7,
    POOL_USED_HIGH = 8,
};

static CUresult pool_get(CUmemoryPool handle, struct sim_pool **pool)
{
    *pool = (struct sim_pool *)handle;
    return sim_object_is(handle, SIM_POOL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void pool_defaults(struct sim_pool *pool)
{
    pool->attributes[POOL_FOLLOW_EVENTS] = pool->attributes[POOL_OPPORTUNISTIC] = pool->attributes[POOL_INTERNAL] = 1;
}

static CUresult alloc_async(CUdeviceptr *dptr, size_t size, struct sim_pool *pool, CUstream handle)
{
    struct sim_stream *stream;
    uintptr_t address;
    CUresult result;

    result = sim_stream_for_work(handle, &stream);
    if (result)
        return result;
    if (!dptr || !size)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture) {
        static const char key;

        /* A device makes an allocation node of it. */
        sim_loud(&key, "cuMemAllocAsync in a capture is not implemented");
        sim_capture_invalidate(stream->capture);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    result = sim_capture_unsafe();
    if (result)
        return result;
    if (!pool)
        pool = stream->ctx->device->pool;
    result = sim_device_alloc(stream->ctx, size, &address);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        /* Frees may still stand in streams. */
        sim_context_wait(stream->ctx);
        result = sim_device_alloc(stream->ctx, size, &address);
    }
    if (result)
        return result;
    sim_range_find(address)->pool = pool;
    pool->used += size;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    *dptr = address;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    SIM_GUARD;
    return alloc_async(dptr, bytesize, NULL, hStream);
}

CUresult sim_cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool handle, CUstream hStream)
{
    struct sim_pool *pool;

    SIM_GUARD;
    return pool_get(handle, &pool) ? CUDA_ERROR_INVALID_VALUE : alloc_async(dptr, bytesize, pool, hStream);
}

CUresult sim_cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
    struct sim_task task = {.type = SIM_TASK_FREE};
    struct sim_stream *stream;
    struct sim_range *range;
    CUresult result;

    SIM_GUARD;
    result = sim_stream_for_work(hStream, &stream);
    if (result || !dptr)
        return result;
    range = sim_range_find(dptr);
    if (!range || range->base != dptr || range->type != SIM_MEM_DEVICE || range->pending_free)
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream->capture) {
        result = sim_capture_unsafe();
        if (result)
            return result;
        range->pending_free = true;
    }
    task.free.address = dptr;
    return sim_enqueue(stream, &task, NULL);
}

CUresult sim_cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *poolProps)
{
    struct sim_device *device;
    struct sim_pool *pool;

    if (!out || !poolProps || poolProps->allocType != TYPE_PINNED || poolProps->location.type != LOCATION_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_GUARD;
    if (sim_device_get(poolProps->location.id, &device))
        return CUDA_ERROR_INVALID_VALUE;
    pool = sim_object_create(SIM_POOL, sizeof(*pool));
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pool->device = device;
    pool_defaults(pool);
    *out = (CUmemoryPool)pool;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolDestroy(CUmemoryPool handle)
{
    struct sim_pool *pool;

    SIM_GUARD;
    if (pool_get(handle, &pool) || pool->is_default)
        return CUDA_ERROR_INVALID_VALUE;
    if (pool->device->pool == pool)
        pool->device->pool = pool->device->default_pool;
    sim_range_forget_pool(pool);
    sim_object_destroy(pool);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolTrimTo(CUmemoryPool handle, size_t minBytesToKeep)
{
    struct sim_pool *pool;

    (void)minBytesToKeep;
    SIM_GUARD;
    return pool_get(handle, &pool); /* nothing is kept anyway */
}

CUresult sim_cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attr, void *value)
{
    struct sim_pool *pool;

    SIM_GUARD;
    if (!value || pool_get(handle, &pool))
        return CUDA_ERROR_INVALID_VALUE;
    switch (attr) {
    case POOL_FOLLOW_EVENTS:
    case POOL_OPPORTUNISTIC:
    case POOL_INTERNAL:
        pool->attributes[attr] = *(int *)value;
        return CUDA_SUCCESS;
    case POOL_THRESHOLD:
        pool->threshold = *(cuuint64_t *)value;
        return CUDA_SUCCESS;
    case POOL_RESERVED_HIGH:
    case POOL_USED_HIGH:
        if (*(cuuint64_t *)value)
            return CUDA_ERROR_INVALID_VALUE; /* may only be reset */
        pool->used_high = pool->used;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult sim_cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attr, void *value)
{
    struct sim_pool *pool;

    SIM_GUARD;
    if (!value || pool_get(handle, &pool))
        return CUDA_ERROR_INVALID_VALUE;
    switch (attr) {
    case POOL_FOLLOW_EVENTS:
    case POOL_OPPORTUNISTIC:
    case POOL_INTERNAL:
        *(int *)value = pool->attributes[attr];
        return CUDA_SUCCESS;
    case POOL_THRESHOLD:
        *(cuuint64_t *)value = pool->threshold;
        return CUDA_SUCCESS;
    case POOL_RESERVED_CURRENT:
    case POOL_USED_CURRENT:
        *(cuuint64_t *)value = pool->used;
        return CUDA_SUCCESS;
    case POOL_RESERVED_HIGH:
    case POOL_USED_HIGH:
        *(cuuint64_t *)value = pool->used_high;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult sim_cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count)
{
    struct sim_pool *pool;

    SIM_GUARD;
    return pool_get(handle, &pool) || (count && !map) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult sim_cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool handle, CUmemLocation *location)
{
    struct sim_pool *pool;

    SIM_GUARD;
    if (!flags || !location || pool_get(handle, &pool))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = ACCESS_READWRITE;
    return CUDA_SUCCESS;
}

static CUresult device_pool(CUdevice dev, CUmemoryPool *out, bool default_one)
{
    struct sim_device *device;
    CUresult result;

    SIM_GUARD;
    result = sim_device_get(dev, &device);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUmemoryPool)(default_one ? device->default_pool : device->pool);
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
    return device_pool(dev, pool_out, true);
}

CUresult sim_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    return device_pool(dev, pool, false);
}

CUresult sim_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool handle)
{
    struct sim_device *device;
    struct sim_pool *pool;
    CUresult result;

    SIM_GUARD;
    result = sim_device_get(dev, &device);
    if (!result)
        result = pool_get(handle, &pool);
    if (!result)
        device->pool = pool;
    return result;
}

CUresult sim_cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type)
{
    if (!location || location->type != LOCATION_DEVICE || type != TYPE_PINNED)
        return CUDA_ERROR_NOT_SUPPORTED;
    return device_pool(location->id, pool_out, true);
}

CUresult sim_cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    if (!location || location->type != LOCATION_DEVICE || type != TYPE_PINNED)
        return CUDA_ERROR_NOT_SUPPORTED;
    return device_pool(location->id, pool, false);
}

CUresult sim_cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    if (!location || location->type != LOCATION_DEVICE || type != TYPE_PINNED)
        return CUDA_ERROR_NOT_SUPPORTED;
    return sim_cuDeviceSetMemPool(location->id, pool);
}
