/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of private things, and the calls that need nothing but to be counted.
 */
#include "shim/remote_private.h"

#include "shim/remote.h"

#include <stdlib.h>

enum { FIRST_SLOTS = 256 };

static struct lock lock;
static struct private_thing *slots; /* open addressing, linear probing; removal shifts back */
static size_t mask, used;           /* mask + 1 slots, or none */
static _Atomic uint32_t things;

uint32_t private_things(void)
{
    return atomic_load_explicit(&things, memory_order_acquire);
}

bool remote_memory_all_shared(const struct remote *remote)
{
    (void)remote; /* what belongs to another device can be reached from this one too */
    return private_things() == 0;
}

static void change(uint32_t more)
{
    atomic_fetch_add_explicit(&things, more, memory_order_acq_rel);
}

void private_add_for_ever(void)
{
    change(1);
}

static size_t home_of(uint32_t kind, uint64_t key)
{
    return (size_t)(((key ^ (uint64_t)kind << 56) * 0x9e3779b97f4a7c15u) >> 32) & mask;
}

/* The slot of a thing, or the free one where it would be. There is always a free one. */
static size_t slot_of(uint32_t kind, uint64_t key)
{
    size_t i = home_of(kind, key);

    while (slots[i].kind && (slots[i].kind != kind || slots[i].key != key))
        i = (i + 1) & mask;
    return i;
}

static bool make_room(void)
{
    struct private_thing *old = slots, *more;
    size_t old_count = old ? mask + 1 : 0, room = old ? old_count * 2 : FIRST_SLOTS;

    if (old && used < old_count / 2)
        return true;
    more = calloc(room, sizeof(*more));
    if (!more)
        return false;
    slots = more;
    mask = room - 1;
    for (size_t i = 0; i < old_count; i++)
        if (old[i].kind)
            slots[slot_of(old[i].kind, old[i].key)] = old[i];
    free(old);
    return true;
}

static void add(const struct private_thing *thing, bool every_time)
{
    lock_take(&lock);
    if (!make_room()) {
        change(thing->count); /* never found again, so counted for ever */
    } else {
        struct private_thing *slot = &slots[slot_of(thing->kind, thing->key)];

        if (!slot->kind) {
            *slot = *thing;
            used++;
            change(thing->count);
        } else if (every_time) {
            slot->count += thing->count;
            change(thing->count);
        } else {
            slot->bytes = thing->bytes;
            slot->context = thing->context;
        }
    }
    lock_drop(&lock);
}

void private_add(enum private_kind kind, uint64_t key, uint64_t bytes)
{
    struct private_thing thing = {.key = key, .bytes = bytes, .kind = kind, .count = 1};

    if (kind != PRIVATE_MAPPED)
        thing.context = order_current_context();
    add(&thing, kind == PRIVATE_IPC || kind == PRIVATE_GRAPHICS);
}

void private_put_back(const struct private_thing *taken)
{
    if (taken->kind)
        add(taken, true);
}

/* Entries behind the hole move up, unless they are at home between it and where they lie. */
static void erase(size_t hole)
{
    for (size_t i = (hole + 1) & mask; slots[i].kind; i = (i + 1) & mask) {
        size_t home = home_of(slots[i].kind, slots[i].key);

        if (((i - home) & mask) < ((i - hole) & mask))
            continue;
        slots[hole] = slots[i];
        hole = i;
    }
    slots[hole] = (struct private_thing){0};
    used--;
}

bool private_take(enum private_kind kind, uint64_t key, struct private_thing *taken)
{
    bool found = false;

    *taken = (struct private_thing){0};
    lock_take(&lock);
    if (slots) {
        size_t i = slot_of(kind, key);

        if (slots[i].kind) {
            found = true;
            *taken = slots[i];
            taken->count = 1;
            change(-1u);
            if (--slots[i].count == 0)
                erase(i);
        }
    }
    lock_drop(&lock);
    return found;
}

/* Takes out all that `match` says; entries that erase() moves into a slot are looked at again. Needs the lock. */
static uint32_t take_all(bool (*match)(const struct private_thing *, const void *), const void *arg)
{
    uint32_t gone = 0;

    for (size_t i = 0; slots && i <= mask;) {
        if (!slots[i].kind || !match(&slots[i], arg)) {
            i++;
            continue;
        }
        gone += slots[i].count;
        erase(i);
    }
    change(-gone);
    return gone;
}

static bool lies_in(const struct private_thing *thing, const void *arg)
{
    const struct private_thing *range = arg;

    return thing->kind == PRIVATE_MAPPED && thing->key >= range->key && thing->key - range->key < range->bytes;
}

bool private_take_mappings(uint64_t base, uint64_t bytes, struct private_thing *taken)
{
    struct private_thing range = {.key = base, .bytes = bytes, .kind = PRIVATE_MAPPED};

    lock_take(&lock);
    range.count = take_all(lies_in, &range);
    lock_drop(&lock);
    *taken = range.count ? range : (struct private_thing){0};
    return range.count > 0;
}

static bool belongs_to(const struct private_thing *thing, const void *arg)
{
    return thing->context && thing->context == arg;
}

void private_context_ends(CUcontext context)
{
    lock_take(&lock);
    take_all(belongs_to, context);
    lock_drop(&lock);
}

#define ENDS(symbol, order, take, params)                                                                              \
    SHIM_EXPORT CUresult symbol CU_PARAMS(params)                                                                      \
    {                                                                                                                  \
        typeof(shim_driver.symbol) real = shim_real(symbol);                                                           \
        struct private_thing taken;                                                                                    \
        CUresult result;                                                                                               \
                                                                                                                       \
        if (unlikely(!real))                                                                                           \
            return SHIM_NO_DRIVER;                                                                                     \
        if (!shim_active())                                                                                            \
            return real CU_ARGS(params);                                                                               \
        order;                                                                                                         \
        take;                                                                                                          \
        result = real CU_ARGS(params);                                                                                 \
        if (result != CUDA_SUCCESS)                                                                                    \
            private_put_back(&taken);                                                                                  \
        return order_result(result);                                                                                   \
    }

#define IN_STREAM(symbol) order_stream(STREAM_PLAIN(hStream), CU_ID_##symbol)
#define IN_PTSTREAM(symbol) order_stream(STREAM_PTSZ(hStream), CU_ID_##symbol)
#define NO_ORDER (void)0
#define AS_IT_IS(result) (result)

WRAP_AROUND(cuMemAllocManaged, IN_CONTEXT(cuMemAllocManaged), order_result,
            private_add(PRIVATE_DEVICE, *dptr, bytesize),
            P3(CUdeviceptr *, dptr, size_t, bytesize, unsigned int, flags))

#define POOL(symbol, order, params)                                                                                    \
    WRAP_AROUND(symbol, order(symbol), order_result, private_add(PRIVATE_DEVICE, *dptr, bytesize), params)
POOL(cuMemAllocAsync, IN_STREAM, P3(CUdeviceptr *, dptr, size_t, bytesize, CUstream, hStream))
POOL(cuMemAllocAsync_ptsz, IN_PTSTREAM, P3(CUdeviceptr *, dptr, size_t, bytesize, CUstream, hStream))
POOL(cuMemAllocFromPoolAsync, IN_STREAM,
     P4(CUdeviceptr *, dptr, size_t, bytesize, CUmemoryPool, pool, CUstream, hStream))
POOL(cuMemAllocFromPoolAsync_ptsz, IN_PTSTREAM,
     P4(CUdeviceptr *, dptr, size_t, bytesize, CUmemoryPool, pool, CUstream, hStream))
WRAP_AROUND(cuMemPoolImportPointer, NO_ORDER, AS_IT_IS, private_add(PRIVATE_DEVICE, *ptr_out, 0),
            P3(CUdeviceptr *, ptr_out, CUmemoryPool, pool, CUmemPoolPtrExportData *, shareData))

WRAP_AROUND(cuMemMap, IN_CONTEXT(cuMemMap), order_result, private_add(PRIVATE_MAPPED, ptr, size),
            P5(CUdeviceptr, ptr, size_t, size, size_t, offset, CUmemGenericAllocationHandle, handle, unsigned long long,
               flags))
ENDS(cuMemUnmap, IN_CONTEXT(cuMemUnmap), private_take_mappings(ptr, size, &taken), P2(CUdeviceptr, ptr, size_t, size))

#define IPC(symbol)                                                                                                    \
    WRAP_AROUND(symbol, NO_ORDER, AS_IT_IS, private_add(PRIVATE_IPC, *pdptr, 0),                                       \
                P3(CUdeviceptr *, pdptr, CUipcMemHandle, handle, unsigned int, Flags))
IPC(cuIpcOpenMemHandle)
IPC(cuIpcOpenMemHandle_v2)
ENDS(cuIpcCloseMemHandle, order_all(CU_ID_cuIpcCloseMemHandle), private_take(PRIVATE_IPC, dptr, &taken),
     P1(CUdeviceptr, dptr))

WRAP_AROUND(cuImportExternalMemory, IN_CONTEXT(cuImportExternalMemory), order_result,
            private_add(PRIVATE_EXTERNAL, (uint64_t)*extMem_out, 0),
            P2(CUexternalMemory *, extMem_out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *, memHandleDesc))
ENDS(cuDestroyExternalMemory, IN_CONTEXT(cuDestroyExternalMemory),
     private_take(PRIVATE_EXTERNAL, (uint64_t)extMem, &taken), P1(CUexternalMemory, extMem))

WRAP_AROUND(cuTexObjectCreate, NO_ORDER, AS_IT_IS, private_add(PRIVATE_TEXTURE, (uint64_t)*pTexObject, 0),
            P4(CUtexObject *, pTexObject, const CUDA_RESOURCE_DESC *, pResDesc, const CUDA_TEXTURE_DESC *, pTexDesc,
               const CUDA_RESOURCE_VIEW_DESC *, pResViewDesc))
ENDS(cuTexObjectDestroy, IN_CONTEXT(cuTexObjectDestroy), private_take(PRIVATE_TEXTURE, (uint64_t)texObject, &taken),
     P1(CUtexObject, texObject))
WRAP_AROUND(cuSurfObjectCreate, NO_ORDER, AS_IT_IS, private_add(PRIVATE_SURFACE, (uint64_t)*pSurfObject, 0),
            P2(CUsurfObject *, pSurfObject, const CUDA_RESOURCE_DESC *, pResDesc))
ENDS(cuSurfObjectDestroy, IN_CONTEXT(cuSurfObjectDestroy), private_take(PRIVATE_SURFACE, (uint64_t)surfObject, &taken),
     P1(CUsurfObject, surfObject))

/* Resources are mapped and unmapped in any grouping. */
static void graphics_mapped(unsigned int number, const CUgraphicsResource *resources)
{
    for (unsigned int i = 0; i < number; i++)
        private_add(PRIVATE_GRAPHICS, (uint64_t)resources[i], 0);
}

static void graphics_unmapped(unsigned int number, const CUgraphicsResource *resources)
{
    struct private_thing taken;

    for (unsigned int i = 0; i < number; i++)
        private_take(PRIVATE_GRAPHICS, (uint64_t)resources[i], &taken);
}

#define GRAPHICS(symbol, order, note)                                                                                  \
    WRAP_AROUND(symbol, order(symbol), order_result, note(count, resources),                                           \
                P3(unsigned int, count, CUgraphicsResource *, resources, CUstream, hStream))
GRAPHICS(cuGraphicsMapResources, IN_STREAM, graphics_mapped)
GRAPHICS(cuGraphicsMapResources_ptsz, IN_PTSTREAM, graphics_mapped)
GRAPHICS(cuGraphicsUnmapResources, IN_STREAM, graphics_unmapped)
GRAPHICS(cuGraphicsUnmapResources_ptsz, IN_PTSTREAM, graphics_unmapped)

/* Nobody says when these end. Texture references are part of modules; memory of graphs outlives its node. */
#define FOR_EVER(symbol, params) WRAP_AROUND(symbol, IN_CONTEXT(symbol), order_result, private_add_for_ever(), params)
FOR_EVER(cuTexRefSetArray, P3(CUtexref, hTexRef, CUarray, hArray, unsigned int, Flags))
FOR_EVER(cuTexRefSetMipmappedArray, P3(CUtexref, hTexRef, CUmipmappedArray, hMipmappedArray, unsigned int, Flags))
FOR_EVER(cuTexRefSetAddress,
         P4(unsigned int *, ByteOffset, CUtexref, hTexRef, CUdeviceptr_v1, dptr, unsigned int, bytes))
FOR_EVER(cuTexRefSetAddress_v2, P4(size_t *, ByteOffset, CUtexref, hTexRef, CUdeviceptr, dptr, size_t, bytes))
FOR_EVER(cuTexRefSetAddress2D,
         P4(CUtexref, hTexRef, const CUDA_ARRAY_DESCRIPTOR_v1 *, desc, CUdeviceptr_v1, dptr, unsigned int, Pitch))
FOR_EVER(cuTexRefSetAddress2D_v2,
         P4(CUtexref, hTexRef, const CUDA_ARRAY_DESCRIPTOR *, desc, CUdeviceptr, dptr, size_t, Pitch))
FOR_EVER(cuTexRefSetAddress2D_v3,
         P4(CUtexref, hTexRef, const CUDA_ARRAY_DESCRIPTOR *, desc, CUdeviceptr, dptr, size_t, Pitch))
FOR_EVER(cuSurfRefSetArray, P3(CUsurfref, hSurfRef, CUarray, hArray, unsigned int, Flags))
WRAP_AROUND(cuGraphAddMemAllocNode, NO_ORDER, AS_IT_IS, private_add_for_ever(),
            P5(CUgraphNode *, phGraphNode, CUgraph, hGraph, const CUgraphNode *, dependencies, size_t, numDependencies,
               CUDA_MEM_ALLOC_NODE_PARAMS *, nodeParams))
