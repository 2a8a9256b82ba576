/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: who owns which addresses, and what the device may touch.
 *
 * A device address is an address of this process. Device memory comes from one large reservation per device, which is
 * mapped once and never unmapped, so a kernel that uses freed memory finds no hole; it is refused by the table instead.
 * Freed memory goes through a quarantine, so that a late kernel meets "freed" and not "someone else's".
 *
 * The table is a sorted array under its own read-write lock, because kernels ask it while the big lock is elsewhere.
 * Lock order: sim.lock before table_lock.
 */
#include "tests/simcuda/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    GRANULE = 512,         /* alignment and rounding of device allocations; the driver's is 256 or 512 */
    LARGE_ALIGN = 2 << 20, /* and of those that take whole pages of a real device */
    LARGE = 1 << 20,
    QUARANTINE_COUNT = 4096, /* freed blocks kept apart, at most */
};
/* Our device addresses start here if the kernel lets us, so that they are easy to tell from host pointers. */
#define HEAP_HINT UINT64_C(0x700000000000)

static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct sim_range *table; /* by base, no overlaps */
static size_t table_count, table_room;

struct extent {
    uintptr_t base;
    size_t size;
};
static struct heap {
    uintptr_t base;
    size_t size;
    struct extent *free; /* by base */
    size_t free_count, free_room;
    struct extent quarantine[QUARANTINE_COUNT]; /* ring */
    size_t first, count, bytes;
} heaps[16];

/* ---- the table ---- */

static size_t table_position(uintptr_t address)
{
    size_t low = 0, high = table_count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (table[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low; /* the first range that begins after the address */
}

static struct sim_range *table_find(uintptr_t address)
{
    size_t position = table_position(address);

    if (!position)
        return NULL;
    struct sim_range *range = &table[position - 1];
    return address - range->base < range->size ? range : NULL;
}

struct sim_range *sim_range_find(uintptr_t address)
{
    return table_find(address); /* the table changes under sim.lock only, which the caller holds */
}

CUresult sim_range_add(uintptr_t base, size_t size, enum sim_memory_type type, struct sim_ctx *ctx,
                       struct sim_device *device, unsigned flags)
{
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    size_t position;

    pthread_rwlock_wrlock(&table_lock);
    if (table_count == table_room) {
        size_t room = table_room ? table_room * 2 : 256;
        struct sim_range *more = realloc(table, room * sizeof(*more));

        if (!more)
            goto out;
        table = more;
        table_room = room;
    }
    position = table_position(base);
    memmove(&table[position + 1], &table[position], (table_count - position) * sizeof(*table));
    table_count++;
    table[position] = (struct sim_range){
        .base = base,
        .size = size,
        .type = type,
        .ctx = ctx,
        .device = device,
        .id = ++sim.next_id,
        .flags = flags,
        .writable = true,
    };
    result = CUDA_SUCCESS;
out:
    pthread_rwlock_unlock(&table_lock);
    return result;
}

void sim_range_remove(uintptr_t base)
{
    struct sim_range *range;

    pthread_rwlock_wrlock(&table_lock);
    range = table_find(base);
    if (range && range->base == base) {
        size_t position = (size_t)(range - table);

        memmove(range, range + 1, (table_count - position - 1) * sizeof(*table));
        table_count--;
    }
    pthread_rwlock_unlock(&table_lock);
}

void sim_range_forget_pool(const struct sim_pool *pool)
{
    for (size_t i = 0; i < table_count; i++)
        if (table[i].pool == pool)
            table[i].pool = NULL;
}

bool sim_memory_ok(uintptr_t address, size_t size, bool write, struct ptx_range *whole)
{
    const struct sim_range *range;
    bool ok = false;

    pthread_rwlock_rdlock(&table_lock);
    range = table_find(address);
    if (range && whole)
        *whole = (struct ptx_range){range->base, range->base + range->size};
    while (range && (range->writable || !write)) {
        size_t here = range->size - (address - range->base);

        if (size <= here) {
            ok = true;
            break;
        }
        /* Mappings of cuMemMap may lie side by side and be used as one; allocations may not. */
        size -= here;
        address += here;
        range = range->type == SIM_MEM_MAPPED ? table_find(address) : NULL;
        if (range && range->type == SIM_MEM_MAPPED && whole)
            whole->hi = range->base + range->size;
        else if (range && range->type != SIM_MEM_MAPPED)
            range = NULL;
    }
    pthread_rwlock_unlock(&table_lock);
    return ok;
}

/* ---- the heap of a device ---- */

void sim_memory_init(void)
{
    for (int i = 0; i < sim.device_count; i++) {
        struct heap *heap = &heaps[i];
        size_t size = sim.devices[i].row->memory * 2;
        void *base;

        /* Twice the device's memory, so that the quarantine never makes an allocation fail that a device would do.
         * Halved until the system agrees: a limit on address space is the user's choice. */
        do {
            base = mmap((void *)(uintptr_t)(HEAP_HINT + ((uint64_t)i << 40)), size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (base != MAP_FAILED)
                break;
            size /= 2;
        } while (size > (64u << 20));
        if (base == MAP_FAILED)
            continue;
        madvise(base, size, MADV_DONTDUMP);
        heap->base = (uintptr_t)base;
        heap->size = size;
        heap->free = malloc(sizeof(*heap->free) * 64);
        if (!heap->free)
            continue;
        heap->free_room = 64;
        heap->free[0] = (struct extent){heap->base, size};
        heap->free_count = 1;
    }
}

static bool extent_insert(struct heap *heap, size_t position, struct extent extent)
{
    if (heap->free_count == heap->free_room) {
        struct extent *more = realloc(heap->free, heap->free_room * 2 * sizeof(*more));

        if (!more)
            return false;
        heap->free = more;
        heap->free_room *= 2;
    }
    memmove(&heap->free[position + 1], &heap->free[position], (heap->free_count - position) * sizeof(extent));
    heap->free[position] = extent;
    heap->free_count++;
    return true;
}

static void extent_remove(struct heap *heap, size_t position)
{
    heap->free_count--;
    memmove(&heap->free[position], &heap->free[position + 1], (heap->free_count - position) * sizeof(struct extent));
}

static uintptr_t heap_take(struct heap *heap, size_t size, size_t align)
{
    for (size_t i = 0; i < heap->free_count; i++) {
        struct extent *extent = &heap->free[i];
        uintptr_t base = (extent->base + align - 1) & ~(uintptr_t)(align - 1);
        size_t skip = base - extent->base;

        if (skip >= extent->size || extent->size - skip < size)
            continue;
        size_t rest = extent->size - skip - size;
        if (skip && rest) {
            if (!extent_insert(heap, i + 1, (struct extent){base + size, rest}))
                return 0;
            heap->free[i].size = skip;
        } else if (skip) {
            extent->size = skip;
        } else if (rest) {
            extent->base += size;
            extent->size = rest;
        } else {
            extent_remove(heap, i);
        }
        return base;
    }
    return 0;
}

static void heap_give(struct heap *heap, struct extent extent)
{
    size_t i = 0;

    while (i < heap->free_count && heap->free[i].base < extent.base)
        i++;
    if (i && heap->free[i - 1].base + heap->free[i - 1].size == extent.base) {
        heap->free[i - 1].size += extent.size;
        if (i < heap->free_count && heap->free[i - 1].base + heap->free[i - 1].size == heap->free[i].base) {
            heap->free[i - 1].size += heap->free[i].size;
            extent_remove(heap, i);
        }
        return;
    }
    if (i < heap->free_count && extent.base + extent.size == heap->free[i].base) {
        heap->free[i].base = extent.base;
        heap->free[i].size += extent.size;
        return;
    }
    extent_insert(heap, i, extent); /* out of memory: the extent is lost, which is harmless here */
}

static void quarantine_pop(struct heap *heap)
{
    struct extent extent = heap->quarantine[heap->first];

    heap->first = (heap->first + 1) % QUARANTINE_COUNT;
    heap->count--;
    heap->bytes -= extent.size;
    heap_give(heap, extent);
}

static size_t rounded(size_t size)
{
    return (size + GRANULE - 1) & ~(size_t)(GRANULE - 1);
}

CUresult sim_device_alloc(struct sim_ctx *ctx, size_t size, uintptr_t *address)
{
    struct sim_device *device = ctx->device;
    struct heap *heap = &heaps[device->ordinal];
    uintptr_t base;
    CUresult result;

    if (size > device->row->memory || device->used + rounded(size) > device->row->memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    while (!(base = heap_take(heap, rounded(size), size >= LARGE ? LARGE_ALIGN : GRANULE)) && heap->count)
        quarantine_pop(heap);
    if (!base)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = sim_range_add(base, size, SIM_MEM_DEVICE, ctx, device, 0);
    if (result) {
        heap_give(heap, (struct extent){base, rounded(size)});
        return result;
    }
    device->used += rounded(size);
    *address = base;
    return CUDA_SUCCESS;
}

void sim_device_free(struct sim_range *range)
{
    struct heap *heap = &heaps[range->device->ordinal];
    struct extent extent = {range->base, rounded(range->size)};
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (extent.base + page - 1) & ~(page - 1),
              last = (extent.base + extent.size) & ~(page - 1);

    range->device->used -= extent.size;
    if (range->pool)
        range->pool->used -= range->size;
    sim_range_remove(extent.base);
    /* Whole pages go back to the system; the rest gets a pattern that no result of a kernel looks like. */
    if (first < last)
        madvise((void *)first, last - first, MADV_DONTNEED);
    else
        memset((void *)extent.base, 0xdb, extent.size);
    if (heap->count == QUARANTINE_COUNT)
        quarantine_pop(heap);
    heap->quarantine[(heap->first + heap->count++) % QUARANTINE_COUNT] = extent;
    heap->bytes += extent.size;
    while (heap->bytes > heap->size / 4 && heap->count > 1)
        quarantine_pop(heap);
}

void sim_memory_drop_context(struct sim_ctx *ctx)
{
    for (size_t i = 0; i < table_count;) {
        struct sim_range *range = &table[i];

        if (range->ctx != ctx) {
            i++;
            continue;
        }
        switch (range->type) {
        case SIM_MEM_DEVICE:
            sim_device_free(range);
            break;
        case SIM_MEM_HOST:
        case SIM_MEM_MANAGED: {
            void *base = (void *)range->base;
            size_t size = range->size;

            sim_range_remove(range->base);
            munmap(base, size);
            break;
        }
        default:
            sim_range_remove(range->base);
            break;
        }
    }
}

/* ---- entry points: device memory ---- */

CUresult sim_cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    struct sim_ctx *ctx;
    uintptr_t address;
    CUresult result;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (!result)
        result = sim_capture_unsafe();
    if (result)
        return result;
    if (!dptr || !bytesize)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_device_alloc(ctx, bytesize, &address);
    if (!result)
        *dptr = address;
    return result;
}

CUresult sim_cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                                unsigned int ElementSizeBytes)
{
    size_t pitch = rounded(WidthInBytes);
    CUresult result;

    if (!pPitch || !Height || (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
        return CUDA_ERROR_INVALID_VALUE;
    if (pitch < WidthInBytes || pitch > SIZE_MAX / Height)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_cuMemAlloc_v2(dptr, pitch * Height);
    if (!result)
        *pPitch = pitch;
    return result;
}

CUresult sim_cuMemFree_v2(CUdeviceptr dptr)
{
    struct sim_range *range;
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_capture_unsafe();
    if (result || !dptr)
        return result;
    range = sim_range_find(dptr);
    if (!range || range->base != dptr || (range->type != SIM_MEM_DEVICE && range->type != SIM_MEM_MANAGED))
        return CUDA_ERROR_INVALID_VALUE;
    /* No context need be current. The driver waits for the work of the context that owns the memory. */
    ctx = range->ctx;
    result = atomic_load(&ctx->error);
    if (result)
        return result;
    result = sim_context_wait(ctx);
    range = sim_range_find(dptr); /* others may have freed it while we waited */
    if (!range || range->base != dptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (range->type == SIM_MEM_DEVICE) {
        sim_device_free(range);
    } else {
        size_t size = range->size;

        sim_range_remove(range->base);
        munmap((void *)(uintptr_t)dptr, size);
    }
    return result;
}

CUresult sim_cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (result)
        return result;
    if (total)
        *total = ctx->device->row->memory;
    if (free_bytes)
        *free_bytes = ctx->device->row->memory - ctx->device->used;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    struct sim_range *range;
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (result)
        return result;
    range = sim_range_find(dptr);
    if (!range)
        return CUDA_ERROR_NOT_FOUND;
    if (pbase)
        *pbase = range->base;
    if (psize)
        *psize = range->size;
    return CUDA_SUCCESS;
}

/* ---- host memory ---- */

static CUresult map_host(void **pp, size_t size, enum sim_memory_type type, unsigned flags)
{
    struct sim_ctx *ctx;
    CUresult result;
    void *base;

    result = sim_context(&ctx);
    if (!result)
        result = sim_capture_unsafe();
    if (result)
        return result;
    if (!pp || !size)
        return CUDA_ERROR_INVALID_VALUE;
    base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = sim_range_add((uintptr_t)base, size, type, ctx, ctx->device, flags);
    if (result) {
        munmap(base, size);
        return result;
    }
    *pp = base;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    SIM_GUARD;
    if (Flags & ~7u)
        return CUDA_ERROR_INVALID_VALUE;
    return map_host(pp, bytesize, SIM_MEM_HOST, Flags);
}

CUresult sim_cuMemAllocHost_v2(void **pp, size_t bytesize)
{
    SIM_GUARD;
    return map_host(pp, bytesize, SIM_MEM_HOST, 0);
}

CUresult sim_cuMemAllocHost(void **pp, unsigned int bytesize)
{
    return sim_cuMemAllocHost_v2(pp, bytesize);
}

CUresult sim_cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    void *base;
    CUresult result;

    SIM_GUARD;
    if (!dptr || (flags != 1 && flags != 2)) /* CU_MEM_ATTACH_GLOBAL or _HOST */
        return CUDA_ERROR_INVALID_VALUE;
    result = map_host(&base, bytesize, SIM_MEM_MANAGED, flags);
    if (!result)
        *dptr = (uintptr_t)base;
    return result;
}

CUresult sim_cuMemFreeHost(void *p)
{
    struct sim_range *range;
    struct sim_ctx *ctx;
    CUresult result;
    size_t size;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (!result)
        result = sim_capture_unsafe();
    if (result || !p)
        return result;
    range = sim_range_find((uintptr_t)p);
    if (!range || range->base != (uintptr_t)p || range->type != SIM_MEM_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_context_wait(range->ctx);
    range = sim_range_find((uintptr_t)p);
    if (!range || range->base != (uintptr_t)p)
        return CUDA_ERROR_INVALID_VALUE;
    size = range->size;
    sim_range_remove(range->base);
    munmap(p, size);
    return result;
}

CUresult sim_cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (!result)
        result = sim_capture_unsafe();
    if (result)
        return result;
    if (!p || !bytesize || (Flags & ~15u))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < table_count; i++)
        if (table[i].base < (uintptr_t)p + bytesize && (uintptr_t)p < table[i].base + table[i].size)
            return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    return sim_range_add((uintptr_t)p, bytesize, SIM_MEM_REGISTERED, ctx, ctx->device, Flags);
}

CUresult sim_cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags)
{
    return sim_cuMemHostRegister_v2(p, bytesize, Flags);
}

CUresult sim_cuMemHostUnregister(void *p)
{
    struct sim_range *range;
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (!result)
        result = sim_capture_unsafe();
    if (result)
        return result;
    range = sim_range_find((uintptr_t)p);
    if (!range)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    if (range->base != (uintptr_t)p || range->type != SIM_MEM_REGISTERED)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_context_wait(range->ctx);
    sim_range_remove((uintptr_t)p);
    return result;
}

CUresult sim_cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
    struct sim_range *range;
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (result)
        return result;
    range = sim_range_find((uintptr_t)p);
    if (!pdptr || Flags || !range || (range->type != SIM_MEM_HOST && range->type != SIM_MEM_REGISTERED))
        return CUDA_ERROR_INVALID_VALUE;
    *pdptr = (uintptr_t)p;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    struct sim_range *range;
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (result)
        return result;
    range = sim_range_find((uintptr_t)p);
    if (!pFlags || !range || range->type != SIM_MEM_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    *pFlags = range->flags | CU_MEMHOSTALLOC_DEVICEMAP; /* with unified addressing all of it is mapped */
    return CUDA_SUCCESS;
}

/* ---- pointer attributes: numbers of CUpointer_attribute in cuda.h ---- */

static CUresult pointer_attribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    const struct sim_range *range = sim_range_find(ptr);
    bool host = range && (range->type == SIM_MEM_HOST || range->type == SIM_MEM_REGISTERED);

    switch (attribute) {
    case 1: /* CONTEXT */
        *(CUcontext *)data = range ? (CUcontext)range->ctx : NULL;
        return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case 2: /* MEMORY_TYPE */
        *(unsigned *)data = !range ? 0 : host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case 3: /* DEVICE_POINTER */
        *(CUdeviceptr *)data = range ? ptr : 0;
        return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case 4: /* HOST_POINTER */
        *(void **)data = range && (host || range->type == SIM_MEM_MANAGED) ? (void *)(uintptr_t)ptr : NULL;
        return *(void **)data ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case 6: /* SYNC_MEMOPS */
        *(unsigned *)data = range ? range->sync_memops : 0;
        return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case 7: /* BUFFER_ID */
        *(unsigned long long *)data = range ? range->id : 0;
        return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case 8: /* IS_MANAGED */
        *(unsigned *)data = range && range->type == SIM_MEM_MANAGED;
        return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case 9: /* DEVICE_ORDINAL */
        *(int *)data = range && range->device ? range->device->ordinal : -2;
        return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case 10: /* IS_LEGACY_CUDA_IPC_CAPABLE */
        *(unsigned *)data = 0;
        return CUDA_SUCCESS;
    case 11: /* RANGE_START_ADDR */
    case 19: /* MAPPING_BASE_ADDR */
        *(CUdeviceptr *)data = range ? range->base : 0;
        return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case 12: /* RANGE_SIZE */
    case 18: /* MAPPING_SIZE */
        *(size_t *)data = range ? range->size : 0;
        return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case 13: /* MAPPED */
        *(unsigned *)data = range != NULL;
        return CUDA_SUCCESS;
    case 14: /* ALLOWED_HANDLE_TYPES */
        *(unsigned long long *)data = range && range->type == SIM_MEM_MAPPED;
        return CUDA_SUCCESS;
    case 15: /* IS_GPU_DIRECT_RDMA_CAPABLE */
    case 21: /* IS_HW_DECOMPRESS_CAPABLE */
        *(unsigned *)data = 0;
        return CUDA_SUCCESS;
    case 16: /* ACCESS_FLAGS */
        *(unsigned *)data = range ? (range->writable ? 3 : 1) : 0;
        return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case 17: /* MEMPOOL_HANDLE */
        *(CUmemoryPool *)data = range ? (CUmemoryPool)range->pool : NULL;
        return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case 20: /* MEMORY_BLOCK_ID */
        *(unsigned long long *)data = range ? range->id : 0;
        return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult sim_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context_plain(&ctx); /* answered even after a fault */
    if (result)
        return result;
    return data && sim_range_find(ptr) ? pointer_attribute(data, attribute, ptr) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes, void **data,
                                    CUdeviceptr ptr)
{
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (result)
        return result;
    if (!attributes || !data || !numAttributes)
        return CUDA_ERROR_INVALID_VALUE;
    /* Unlike the single form this one answers "nothing" for a pointer that it does not know. */
    for (unsigned i = 0; i < numAttributes; i++) {
        if (attributes[i] == 0 || attributes[i] == 5 || attributes[i] > 21)
            return CUDA_ERROR_INVALID_VALUE;
        pointer_attribute(data[i], attributes[i], ptr);
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    struct sim_range *range;
    struct sim_ctx *ctx;
    CUresult result;

    SIM_GUARD;
    result = sim_context(&ctx);
    if (result)
        return result;
    range = sim_range_find(ptr);
    if (!value || attribute != 6 || !range || range->type != SIM_MEM_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    range->sync_memops = *(const unsigned *)value != 0;
    return CUDA_SUCCESS;
}

/* ---- hints: checked and accepted ---- */

static CUresult known_range(CUdeviceptr ptr, size_t count)
{
    struct sim_ctx *ctx;
    CUresult result = sim_context(&ctx);

    if (result)
        return result;
    return count && sim_memory_ok(ptr, count, false, NULL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
    (void)location;
    SIM_GUARD;
    return advice < 1 || advice > 6 ? CUDA_ERROR_INVALID_VALUE : known_range(devPtr, count);
}

CUresult sim_cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
    return sim_cuMemAdvise_v2(devPtr, count, advice, (CUmemLocation){1, device});
}

CUresult sim_cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
                                   CUstream hStream)
{
    struct sim_task task = {.type = SIM_TASK_EMPTY};
    struct sim_stream *stream;
    CUresult result;

    (void)location;
    SIM_GUARD;
    result = sim_stream_for_work(hStream, &stream);
    if (!result)
        result = flags ? CUDA_ERROR_INVALID_VALUE : known_range(devPtr, count);
    if (result)
        return result;
    if (stream->capture) {
        sim_capture_invalidate(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return sim_enqueue(stream, &task, NULL);
}

CUresult sim_cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
    return sim_cuMemPrefetchAsync_v2(devPtr, count, (CUmemLocation){1, dstDevice}, 0, hStream);
}
