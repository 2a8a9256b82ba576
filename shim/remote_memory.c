/* SPDX-License-Identifier: Apache-2.0
 *
 * Regions, pieces, and the table that launches read. remote_memory.h says what they are.
 */
#include "shim/remote_memory.h"

#include "base/clock.h"
#include "base/log.h"
#include "shim/remote_heap.h"
#include "shim/remote_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    REGISTER_PORTABLE_MAPPED = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP,
    RDMA_WITH_MAPPINGS = 110, /* CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED */
};

enum {
    ALIGN = 512,            /* of pieces: what the driver gives */
    GRANULARITY = 2 << 20,  /* of device regions, unless the driver wants more */
    DEVICE_OWN = 1 << 20,   /* from this size on, a region of its own: the driver rounds these up as much */
    FIRST_CHUNK = 2 << 20,  /* a program may need no more */
    DEVICE_CHUNK = 8 << 20, /* the others */
    HOST_PAGE = 4096,       /* of host regions */
    HOST_OWN = 64 << 10,    /* as DEVICE_OWN */
    HOST_CHUNK = 256 << 10, /* registering costs more than these bytes */
    PIECES_MAX = 1 << 18,   /* of a device; what comes on top is private */
    PLACES_MAX = 8,         /* how many addresses are tried, if others have put something there */
    FIRST_ID_SHIFT = 40,    /* far from the driver's own buffer ids, which count from 1 */
};

struct region {
    struct region *next;
    uint64_t base, bytes;
    bool host, chunk;
    CUcontext context;                   /* host: with which it is registered */
    CUmemGenericAllocationHandle handle; /* device */
    int fd;                              /* host; -1: none */
    uint32_t live;                       /* pieces in it */
    struct remote_heap heap;             /* of a chunk */
};

struct piece {
    struct shared_piece known;
    struct region *region;
    uint64_t taken; /* bytes of the chunk */
    bool going;     /* somebody frees it, and waits for the device */
};

/* What launches read. */
struct slot {
    _Atomic uint64_t begin, end;
};

/* All of a device. Zero until its first shared memory; then never freed. */
static struct memory {
    struct lock lock; /* for everything but reading the table */
    struct remote *remote;
    bool set_up;
    CUmemAllocationProp prop; /* of device memory */
    uint64_t granularity;
    uint64_t readers; /* a bit for each device whose kernels reach this memory */
    struct remote_heap device_space, host_space;
    struct region *regions;
    struct piece **piece; /* piece[i] is what slot i says; sorted by address */
    _Atomic(struct slot *) slots;
    _Atomic uint32_t count;
    _Atomic uint32_t sequence; /* odd while the table changes */
} memories[ENGINE_DEVICES_MAX];

static struct memory *memory_of(CUdevice device)
{
    return device >= 0 && device < ENGINE_DEVICES_MAX ? &memories[device] : NULL;
}

/* --- the table --- */

/* How many slots begin at or before the address. A reader may see a table that changes: then the answer is any number
 * up to count, and is not used. */
static uint32_t position(const struct slot *slots, uint32_t count, uint64_t address)
{
    uint32_t low = 0, high = count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (atomic_load_explicit(&slots[middle].begin, memory_order_acquire) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool remote_memory_holds(const struct remote *remote, uint64_t begin, uint64_t bytes)
{
    const struct memory *memory = memory_of(remote->device);
    const struct slot *slots = memory ? atomic_load_explicit(&memory->slots, memory_order_acquire) : NULL;

    while (slots) {
        uint32_t before = atomic_load_explicit(&memory->sequence, memory_order_acquire), at;
        uint64_t from = 0, end = 0;

        if (before & 1) {
            cpu_relax();
            continue;
        }
        at = position(slots, atomic_load_explicit(&memory->count, memory_order_acquire), begin);
        if (at) {
            from = atomic_load_explicit(&slots[at - 1].begin, memory_order_acquire);
            end = atomic_load_explicit(&slots[at - 1].end, memory_order_acquire);
        }
        /* All loads were acquires: one that saw a change is followed by one that sees the sequence changed. */
        if (atomic_load_explicit(&memory->sequence, memory_order_relaxed) == before)
            return begin >= from && begin < end && bytes <= end - begin;
    }
    return false;
}

static void slot_store(struct slot *slot, uint64_t begin, uint64_t end)
{
    atomic_store_explicit(&slot->begin, begin, memory_order_release);
    atomic_store_explicit(&slot->end, end, memory_order_release);
}

static void slot_copy(struct slot *to, const struct slot *from)
{
    slot_store(to, atomic_load_explicit(&from->begin, memory_order_relaxed),
               atomic_load_explicit(&from->end, memory_order_relaxed));
}

static void table_changes(struct memory *memory)
{
    atomic_fetch_add_explicit(&memory->sequence, 1, memory_order_acq_rel);
}

static int table_add(struct memory *memory, struct piece *piece)
{
    struct slot *slots = atomic_load_explicit(&memory->slots, memory_order_relaxed);
    uint32_t count = atomic_load_explicit(&memory->count, memory_order_relaxed), at;

    if (count == PIECES_MAX)
        return -ENOSPC;
    at = position(slots, count, piece->known.base);
    table_changes(memory);
    for (uint32_t i = count; i > at; i--) {
        slot_copy(&slots[i], &slots[i - 1]);
        memory->piece[i] = memory->piece[i - 1];
    }
    slot_store(&slots[at], piece->known.base, piece->known.base + piece->known.bytes);
    memory->piece[at] = piece;
    atomic_store_explicit(&memory->count, count + 1, memory_order_release);
    table_changes(memory);
    return 0;
}

static void table_remove(struct memory *memory, uint32_t at)
{
    struct slot *slots = atomic_load_explicit(&memory->slots, memory_order_relaxed);
    uint32_t count = atomic_load_explicit(&memory->count, memory_order_relaxed);

    table_changes(memory);
    for (uint32_t i = at + 1; i < count; i++) {
        slot_copy(&slots[i - 1], &slots[i]);
        memory->piece[i - 1] = memory->piece[i];
    }
    atomic_store_explicit(&memory->count, count - 1, memory_order_release);
    table_changes(memory);
}

/* The piece that holds an address, and its place; NULL. Needs the lock. */
static struct piece *table_find(const struct memory *memory, uint64_t address, uint32_t *at)
{
    const struct slot *slots = atomic_load_explicit(&memory->slots, memory_order_relaxed);
    uint32_t count = atomic_load_explicit(&memory->count, memory_order_relaxed);
    uint32_t behind = slots ? position(slots, count, address) : 0;
    struct piece *piece = behind ? memory->piece[behind - 1] : NULL;

    if (!piece || address - piece->known.base >= piece->known.bytes)
        return NULL;
    *at = behind - 1;
    return piece;
}

/* --- setting up --- */

static void *table_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

/* Like plain memory: network cards may read and write it if they may at all. */
static CUmemAllocationProp device_memory(CUdevice device)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    int rdma = 0;

    if (shim_driver.cuDeviceGetAttribute &&
        shim_driver.cuDeviceGetAttribute(&rdma, (CUdevice_attribute)RDMA_WITH_MAPPINGS, device) == CUDA_SUCCESS)
        prop.allocFlags.gpuDirectRDMACapable = rdma != 0;
    return prop;
}

static uint64_t granularity_of(const CUmemAllocationProp *prop)
{
    size_t granularity = 0;

    if (shim_driver.cuMemGetAllocationGranularity(&granularity, prop, 0) != CUDA_SUCCESS || granularity < GRANULARITY ||
        (granularity & (granularity - 1)))
        return GRANULARITY;
    return granularity;
}

/*
 * All addresses for device memory, in one piece: a driver grants a large reservation where it is asked for, a small one
 * where it likes.
 */
static int device_reserve(uint64_t begin, uint64_t bytes)
{
    CUdeviceptr got = 0;

    if (shim_driver.cuMemAddressReserve(&got, bytes, 0, begin, 0) != CUDA_SUCCESS)
        return -EIO;
    if (got == begin)
        return 0;
    shim_driver.cuMemAddressFree(got, bytes);
    return -EADDRINUSE;
}

/* Device memory goes into the lower part of the addresses, host memory into the upper. */
static int set_up(struct memory *memory, struct remote *remote)
{
    uint64_t granularity, begin, middle, end;
    struct slot *slots;
    int error;

    if (memory->set_up)
        return memory->remote == remote ? 0 : -EINVAL;
    if (!shim_driver.cuMemGetAllocationGranularity || !shim_driver.cuMemAddressReserve || !shim_driver.cuMemCreate ||
        !shim_driver.cuMemMap || !shim_driver.cuMemSetAccess || !shim_driver.cuMemExportToShareableHandle ||
        !shim_driver.cuMemUnmap || !shim_driver.cuMemRelease || !shim_driver.cuMemAddressFree)
        return -ENOTSUP;
    memory->prop = device_memory(remote->device);
    granularity = granularity_of(&memory->prop);
    begin = (remote->base + granularity - 1) & ~(granularity - 1);
    middle = (remote->base + wire_device_bytes(remote->bytes)) & ~(granularity - 1);
    end = (remote->base + remote->bytes) & ~(uint64_t)(HOST_PAGE - 1);
    if (begin >= middle || middle >= end)
        return -EINVAL;
    error = device_reserve(begin, middle - begin);
    if (error)
        return error;
    slots = table_memory(PIECES_MAX * sizeof(*slots));
    memory->piece = table_memory(PIECES_MAX * sizeof(struct piece *));
    error = slots && memory->piece ? 0 : -ENOMEM;
    if (!error)
        error = remote_heap_init(&memory->device_space, begin, middle - begin);
    if (!error)
        error = remote_heap_init(&memory->host_space, middle, end - middle);
    if (error)
        goto fail;
    memory->granularity = granularity;
    memory->remote = remote;
    memory->set_up = true;
    atomic_store_explicit(&memory->slots, slots, memory_order_release);
    atomic_store_explicit(&shim_words->shared, 1, memory_order_release);
    return 0;
fail:
    remote_heap_end(&memory->device_space);
    if (memory->piece)
        munmap(memory->piece, PIECES_MAX * sizeof(struct piece *));
    if (slots)
        munmap(slots, PIECES_MAX * sizeof(*slots));
    memory->piece = NULL;
    shim_driver.cuMemAddressFree(begin, middle - begin);
    return error;
}

/* --- regions --- */

static int announce(struct remote *remote, const struct region *region, int fd)
{
    struct wire_request request = {
        .type = WIRE_MEMORY,
        .memory = {.base = region->base,
                   .bytes = region->bytes,
                   .kind = region->host ? WIRE_HOST_MEMORY : WIRE_DEVICE_MEMORY},
    };
    struct wire_reply reply;

    return remote_request(remote, &request, &fd, 1, &reply);
}

static void renounce(struct remote *remote, const struct region *region)
{
    struct wire_request request = {
        .type = WIRE_FORGET,
        .memory = {.base = region->base,
                   .bytes = region->bytes,
                   .kind = region->host ? WIRE_HOST_MEMORY : WIRE_DEVICE_MEMORY},
    };
    struct wire_reply reply;

    if (remote_is_alive(remote))
        remote_request(remote, &request, NULL, 0, &reply);
}

static int announce_device(struct remote *remote, const struct region *region)
{
    int fd = -1, error;

    if (shim_driver.cuMemExportToShareableHandle(&fd, region->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) !=
        CUDA_SUCCESS)
        return -EIO;
    error = announce(remote, region, fd);
    close(fd);
    return error;
}

static int device_access(const struct memory *memory, const struct region *region)
{
    uint64_t readers = memory->readers | UINT64_C(1) << memory->remote->device;
    CUmemAccessDesc access[ENGINE_DEVICES_MAX];
    size_t count = 0;

    for (int i = 0; i < ENGINE_DEVICES_MAX; i++)
        if (readers >> i & 1)
            access[count++] = (CUmemAccessDesc){.location = {CU_MEM_LOCATION_TYPE_DEVICE, i},
                                                .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return shim_driver.cuMemSetAccess(region->base, region->bytes, access, count) == CUDA_SUCCESS ? 0 : -EIO;
}

static int device_map(struct memory *memory, struct region *region)
{
    CUresult result;
    int error;

    error = remote_heap_take(&memory->device_space, region->bytes, memory->granularity, &region->base);
    if (error)
        return error;
    result = shim_driver.cuMemCreate(&region->handle, region->bytes, &memory->prop, 0);
    error = result == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO;
    if (result != CUDA_SUCCESS)
        goto reserved;
    error = -EIO;
    if (shim_driver.cuMemMap(region->base, region->bytes, 0, region->handle, 0) != CUDA_SUCCESS)
        goto created;
    error = device_access(memory, region);
    if (!error)
        error = announce_device(memory->remote, region);
    if (!error)
        return 0;
    shim_driver.cuMemUnmap(region->base, region->bytes);
created:
    shim_driver.cuMemRelease(region->handle);
reserved:
    remote_heap_give(&memory->device_space, region->base, region->bytes);
    return error;
}

static void device_unmap(struct memory *memory, const struct region *region)
{
    renounce(memory->remote, region);
    if (shim_driver.cuMemUnmap(region->base, region->bytes) != CUDA_SUCCESS) {
        log_warn("device %d: memory at 0x%llx cannot be unmapped, it is kept", memory->remote->device,
                 (unsigned long long)region->base);
        return;
    }
    shim_driver.cuMemRelease(region->handle);
    remote_heap_give(&memory->device_space, region->base, region->bytes);
}

static int host_reserve(struct memory *memory, struct region *region)
{
    for (int i = 0; i < PLACES_MAX; i++) {
        int error = remote_heap_take(&memory->host_space, region->bytes, HOST_PAGE, &region->base);
        void *wish, *got;

        if (error)
            return error;
        wish = (void *)(uintptr_t)region->base;
        got = mmap(wish, region->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, region->fd, 0);
        if (got == wish)
            return 0;
        if (got != MAP_FAILED) {
            munmap(got, region->bytes); /* a kernel that does not know the flag */
        } else if (errno != EEXIST) {
            error = -errno;
            remote_heap_give(&memory->host_space, region->base, region->bytes);
            return error;
        }
    }
    return -EADDRINUSE;
}

static int host_map(struct memory *memory, struct region *region)
{
    void *address;
    CUdeviceptr on_device = 0;
    int error;

    region->fd = memfd_create("coissue", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (region->fd < 0)
        return -errno;
    if (ftruncate(region->fd, (off_t)region->bytes) || fcntl(region->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)) {
        error = -errno;
        goto made;
    }
    error = host_reserve(memory, region);
    if (error)
        goto made;
    address = (void *)(uintptr_t)region->base;
    error = -EIO;
    if (shim_driver.cuMemHostRegister_v2(address, region->bytes, REGISTER_PORTABLE_MAPPED) != CUDA_SUCCESS)
        goto mapped;
    if (shim_driver.cuMemHostGetDevicePointer_v2(&on_device, address, 0) == CUDA_SUCCESS && on_device == region->base)
        error = announce(memory->remote, region, region->fd);
    if (!error)
        return 0;
    shim_driver.cuMemHostUnregister(address);
mapped:
    munmap(address, region->bytes);
    remote_heap_give(&memory->host_space, region->base, region->bytes);
made:
    close(region->fd);
    return error;
}

static void host_unmap(struct memory *memory, const struct region *region)
{
    void *address = (void *)(uintptr_t)region->base;

    renounce(memory->remote, region);
    shim_driver.cuMemHostUnregister(address); /* fails if the context is gone, and the registration with it */
    munmap(address, region->bytes);
    close(region->fd);
    remote_heap_give(&memory->host_space, region->base, region->bytes);
}

static void region_end(struct memory *memory, struct region *region)
{
    struct region **link = &memory->regions;

    while (*link != region)
        link = &(*link)->next;
    *link = region->next;
    if (region->host)
        host_unmap(memory, region);
    else
        device_unmap(memory, region);
    remote_heap_end(&region->heap);
    free(region);
}

/* Chunks with nothing in them, but for `spare` and what is not like it. NULL: all of them. True: there were any. */
static bool trim(struct memory *memory, const struct region *spare)
{
    bool any = false;

    for (struct region *region = memory->regions, *next; region; region = next) {
        next = region->next;
        if (region->live || region == spare || (spare && (!region->chunk || region->host != spare->host)))
            continue;
        region_end(memory, region);
        any = true;
    }
    return any;
}

/* -ENOMEM: the device has no more, even when all that is not in use is given back. */
static int region_begin(struct memory *memory, uint64_t bytes, bool host, bool chunk, struct region **begun)
{
    struct region *region = calloc(1, sizeof(*region));
    uint64_t unit = host ? HOST_PAGE : memory->granularity;
    int error;

    if (!region)
        return -ENOBUFS;
    *region = (struct region){.host = host, .chunk = chunk, .fd = -1, .context = order_current_context()};
    error = __builtin_add_overflow(bytes, unit - 1, &region->bytes) ? -ENOSPC : 0;
    region->bytes &= ~(unit - 1);
    if (!error)
        error = host ? host_map(memory, region) : device_map(memory, region);
    if (error == -ENOMEM && !host && trim(memory, NULL))
        error = device_map(memory, region);
    if (!error) {
        region->next = memory->regions;
        memory->regions = region;
    }
    if (!error && chunk) {
        error = remote_heap_init(&region->heap, region->base, region->bytes);
        if (error) {
            region_end(memory, region);
            return error;
        }
    }
    if (error)
        free(region);
    else
        *begun = region;
    return error;
}

/* --- pieces --- */

static uint64_t new_id(void)
{
    static _Atomic uint64_t last;

    return (UINT64_C(1) << FIRST_ID_SHIFT) + atomic_fetch_add_explicit(&last, 1, memory_order_relaxed);
}

/* Host chunks are registered with one context, and end with it. */
static bool chunk_fits(const struct region *region, const struct shared_piece *wanted)
{
    return region->chunk && region->host == wanted->host && (!region->host || region->context == wanted->context);
}

static int place_in_chunk(struct memory *memory, struct piece *piece)
{
    bool first = true;
    int error;

    piece->taken = (piece->known.bytes + ALIGN - 1) & ~(uint64_t)(ALIGN - 1);
    for (struct region *region = memory->regions; region; region = region->next) {
        if (!chunk_fits(region, &piece->known))
            continue;
        first = false;
        piece->region = region;
        if (remote_heap_take(&region->heap, piece->taken, ALIGN, &piece->known.base) == 0)
            return 0;
    }
    error = region_begin(memory,
                         piece->known.host ? HOST_CHUNK
                         : first           ? FIRST_CHUNK
                                           : DEVICE_CHUNK,
                         piece->known.host, true, &piece->region);
    return error ? error : remote_heap_take(&piece->region->heap, piece->taken, ALIGN, &piece->known.base);
}

static int place(struct memory *memory, struct piece *piece)
{
    int error;

    if (piece->known.bytes < (piece->known.host ? HOST_OWN : DEVICE_OWN))
        return place_in_chunk(memory, piece);
    error = region_begin(memory, piece->known.bytes, piece->known.host, false, &piece->region);
    if (!error)
        piece->known.base = piece->region->base;
    return error;
}

static void unplace(struct memory *memory, const struct piece *piece)
{
    struct region *region = piece->region;

    if (region->chunk)
        remote_heap_give(&region->heap, piece->known.base, piece->taken);
    if (region->live)
        return;
    if (region->chunk)
        trim(memory, region); /* one is kept, so that a program that frees its last and allocates again is fast */
    else
        region_end(memory, region);
}

static int piece_begin(struct memory *memory, const struct shared_piece *wanted, uint64_t *base)
{
    struct piece *piece = malloc(sizeof(*piece));
    int error;

    if (!piece)
        return -ENOBUFS;
    *piece = (struct piece){.known = *wanted};
    error = place(memory, piece);
    if (error)
        goto out;
    error = table_add(memory, piece);
    if (error) {
        unplace(memory, piece);
        goto out;
    }
    piece->region->live++;
    *base = piece->known.base;
    return 0;
out:
    free(piece);
    return error;
}

static void piece_end(struct memory *memory, uint32_t at)
{
    struct piece *piece = memory->piece[at];

    table_remove(memory, at);
    piece->region->live--;
    unplace(memory, piece);
    free(piece);
}

/* --- allocating --- */

static bool something_captures(void)
{
    return atomic_load_explicit(&shim_engine->captures, memory_order_relaxed) > 0;
}

/*
 * What a plain allocation and its free do while something captures: they are refused in most modes of capture, or wait
 * for the context. The driver is asked by making one.
 */
static CUresult try_plainly(void)
{
    CUdeviceptr probe;
    CUresult result = shim_driver.cuMemAlloc_v2(&probe, ALIGN);

    return result == CUDA_SUCCESS ? shim_driver.cuMemFree_v2(probe) : result;
}

static bool take(struct shared_piece *wanted, uint64_t *base)
{
    struct remote *remote = remote_current();
    struct memory *memory = remote && remote_is_alive(remote) ? memory_of(remote->device) : NULL;
    int error;

    if (!memory || (something_captures() && try_plainly() != CUDA_SUCCESS))
        return false;
    wanted->id = new_id();
    wanted->context = order_current_context();
    wanted->device = remote->device;
    lock_take(&memory->lock);
    error = set_up(memory, remote);
    if (!error)
        error = piece_begin(memory, wanted, base);
    if (error)
        trim(memory, NULL); /* the driver will be asked, and may need it */
    lock_drop(&memory->lock);
    if (error && error != -ENOMEM)
        log_info("device %d: %llu bytes of memory are not shared with the broker: error %d", remote->device,
                 (unsigned long long)wanted->bytes, -error);
    return !error;
}

bool remote_memory_take(size_t bytes, CUdeviceptr *address)
{
    struct shared_piece wanted = {.bytes = bytes};
    uint64_t base;

    if (!take(&wanted, &base))
        return false;
    *address = base;
    return true;
}

bool remote_memory_take_host(size_t bytes, unsigned int flags, void **address)
{
    struct shared_piece wanted = {.bytes = bytes, .host = true, .flags = flags};
    uint64_t base;

    if (!shim_driver.cuMemHostRegister_v2 || !shim_driver.cuMemHostUnregister ||
        !shim_driver.cuMemHostGetDevicePointer_v2 || !take(&wanted, &base))
        return false;
    *address = (void *)(uintptr_t)base;
    return true;
}

bool remote_memory_find(uint64_t address, struct shared_piece *piece)
{
    bool found = false;

    if (remote_memory_none())
        return false;
    for (int i = 0; i < ENGINE_DEVICES_MAX && !found; i++) {
        const struct piece *holds;
        uint32_t at;

        if (!atomic_load_explicit(&memories[i].slots, memory_order_acquire))
            continue;
        lock_take(&memories[i].lock);
        holds = table_find(&memories[i], address, &at);
        found = holds != NULL;
        if (found)
            *piece = holds->known;
        lock_drop(&memories[i].lock);
    }
    return found;
}

/* --- freeing --- */

/* Waits for what a context was given, as a plain free does. */
static CUresult wait_for(CUcontext context)
{
    bool elsewhere = context != order_current_context();
    CUcontext popped;
    CUresult result;

    if (elsewhere) {
        result = shim_driver.cuCtxPushCurrent_v2(context);
        if (result != CUDA_SUCCESS)
            return result;
    }
    result = something_captures() ? try_plainly() : shim_driver.cuCtxSynchronize();
    if (elsewhere)
        shim_driver.cuCtxPopCurrent_v2(&popped);
    return result;
}

/* Makes the piece that begins there the calling thread's to free. -EBUSY: another thread frees it. */
static int claim(struct memory *memory, const struct shared_piece *wanted)
{
    struct piece *piece;
    uint32_t at;
    int error = -ENOENT;

    lock_take(&memory->lock);
    piece = table_find(memory, wanted->base, &at);
    if (piece && piece->known.id == wanted->id)
        error = piece->going ? -EBUSY : 0;
    if (!error)
        piece->going = true;
    lock_drop(&memory->lock);
    return error;
}

/* Ends a claim. A context that ended meanwhile has freed the piece. */
static void settle(struct memory *memory, const struct shared_piece *wanted, bool end)
{
    struct piece *piece;
    uint32_t at;

    lock_take(&memory->lock);
    piece = table_find(memory, wanted->base, &at);
    if (piece && piece->known.id == wanted->id) {
        if (end)
            piece_end(memory, at);
        else
            piece->going = false;
    }
    lock_drop(&memory->lock);
}

bool remote_memory_free(uint64_t address, bool host, CUresult *result)
{
    struct shared_piece piece;
    struct memory *memory;

    if (!remote_memory_find(address, &piece) || piece.base != address || piece.host != host)
        return false;
    memory = memory_of(piece.device);
    if (claim(memory, &piece) != 0)
        return false; /* freed twice: the driver does not know the address, and says so */
    remote_drain(memory->remote);
    *result = wait_for(piece.context);
    settle(memory, &piece, *result == CUDA_SUCCESS);
    return true;
}

static bool has_pieces(struct memory *memory, CUcontext context)
{
    bool found = false;

    lock_take(&memory->lock);
    for (uint32_t i = 0; i < atomic_load_explicit(&memory->count, memory_order_relaxed) && !found; i++)
        found = memory->piece[i]->known.context == context;
    for (const struct region *region = memory->regions; region && !found; region = region->next)
        found = region->host && region->context == context;
    lock_drop(&memory->lock);
    return found;
}

void remote_memory_context_ends(CUcontext context)
{
    if (!context)
        return;
    private_context_ends(context);
    for (int i = 0; i < ENGINE_DEVICES_MAX && !remote_memory_none(); i++) {
        struct memory *memory = &memories[i];

        if (!atomic_load_explicit(&memory->slots, memory_order_acquire) || !has_pieces(memory, context))
            continue;
        remote_drain(memory->remote);
        wait_for(context);
        lock_take(&memory->lock);
        for (uint32_t at = atomic_load_explicit(&memory->count, memory_order_relaxed); at-- > 0;)
            if (memory->piece[at]->known.context == context)
                piece_end(memory, at);
        /* Also the host chunk that was kept: it is registered with the context. */
        trim(memory, NULL);
        lock_drop(&memory->lock);
    }
}

CUcontext remote_memory_primary(CUdevice device)
{
    CUcontext context = NULL;
    unsigned int flags;
    int active = 0;

    if ((remote_memory_none() && !private_things()) || !shim_driver.cuDevicePrimaryCtxGetState ||
        !shim_driver.cuDevicePrimaryCtxRetain || !shim_driver.cuDevicePrimaryCtxRelease_v2 ||
        shim_driver.cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || !active)
        return NULL;
    /* The driver does not say which it is without a reference. */
    if (shim_driver.cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
        return NULL;
    shim_driver.cuDevicePrimaryCtxRelease_v2(device);
    return context;
}

/* --- other devices, other brokers --- */

void remote_memory_let(CUdevice owner, CUdevice reader)
{
    struct memory *memory = memory_of(owner);

    if (!memory || !memory_of(reader))
        return;
    lock_take(&memory->lock);
    memory->readers |= UINT64_C(1) << reader;
    for (const struct region *region = memory->regions; region; region = region->next)
        if (!region->host && device_access(memory, region) != 0)
            log_warn("device %d: its memory cannot be made accessible to device %d", owner, reader);
    lock_drop(&memory->lock);
}

int remote_memory_share_again(struct remote *remote)
{
    struct memory *memory = memory_of(remote->device);
    int error = 0;

    if (!memory)
        return 0;
    lock_take(&memory->lock);
    for (const struct region *region = memory->regions; region && !error; region = region->next) {
        if (region->base < remote->base || region->base - remote->base > remote->bytes ||
            region->bytes > remote->bytes - (region->base - remote->base))
            error = -EADDRNOTAVAIL;
        else
            error = region->host ? announce(remote, region, region->fd) : announce_device(remote, region);
    }
    if (memory->set_up && !error)
        memory->remote = remote;
    lock_drop(&memory->lock);
    return error;
}
