/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocating and freeing: from memory that is shared with the broker if there is one, else as the driver does it, and
 * counted (remote_private.h). What the program asks about an address is answered for its own allocation, not for the
 * mapping that it lies in.
 *
 * The forms with addresses of 32 bits (cuMemAlloc and its like) cannot name shared memory and go to the driver.
 */
#include "shim/remote_memory.h"
#include "shim/remote_private.h"

/*
 * A call that allocates. `shared` does it in shared memory and is true, or the driver does it, and `note` counts it.
 */
#define ALLOCATES(symbol, shared, note, params)                                                                        \
    SHIM_EXPORT CUresult symbol CU_PARAMS(params)                                                                      \
    {                                                                                                                  \
        typeof(shim_driver.symbol) real = shim_real(symbol);                                                           \
        CUresult result = CUDA_SUCCESS;                                                                                \
                                                                                                                       \
        if (unlikely(!real))                                                                                           \
            return SHIM_NO_DRIVER;                                                                                     \
        if (!shim_active())                                                                                            \
            return real CU_ARGS(params);                                                                               \
        order_context(NULL, CU_ID_##symbol);                                                                           \
        if (!(shared)) {                                                                                               \
            result = real CU_ARGS(params);                                                                             \
            if (result == CUDA_SUCCESS)                                                                                \
                note;                                                                                                  \
        }                                                                                                              \
        return order_result(result);                                                                                   \
    }

/* A call that frees. After the last fall-back and while the program exits, shared memory still has to be found. */
#define FREES(symbol, order, is_shared, take, params)                                                                  \
    SHIM_EXPORT CUresult symbol CU_PARAMS(params)                                                                      \
    {                                                                                                                  \
        typeof(shim_driver.symbol) real = shim_real(symbol);                                                           \
        struct private_thing taken;                                                                                    \
        CUresult result;                                                                                               \
                                                                                                                       \
        if (unlikely(!real))                                                                                           \
            return SHIM_NO_DRIVER;                                                                                     \
        if (!shim_active()) {                                                                                          \
            if (!remote_memory_none() && (is_shared))                                                                  \
                return result;                                                                                         \
            return real CU_ARGS(params);                                                                               \
        }                                                                                                              \
        order;                                                                                                         \
        if (is_shared)                                                                                                 \
            return order_result(result);                                                                               \
        take;                                                                                                          \
        result = real CU_ARGS(params);                                                                                 \
        if (result != CUDA_SUCCESS)                                                                                    \
            private_put_back(&taken);                                                                                  \
        return order_result(result);                                                                                   \
    }

/* --- of the device --- */

enum { PITCH_ALIGN = 512 }; /* of rows: what the driver gives on all devices, and more than texture units ask for */

static bool take_bytes(CUdeviceptr *address, size_t bytes)
{
    return address && bytes && remote_memory_take(bytes, address);
}

/* As the driver lays out rows. What it would refuse, and what is too large, is left to it. */
static bool take_rows(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned int element)
{
    size_t row = (width + PITCH_ALIGN - 1) & ~(size_t)(PITCH_ALIGN - 1), bytes;

    if (!address || !pitch || (element != 4 && element != 8 && element != 16) || row < width ||
        __builtin_mul_overflow(row, height, &bytes) || !bytes || !remote_memory_take(bytes, address))
        return false;
    *pitch = row;
    return true;
}

ALLOCATES(cuMemAlloc, false, private_add(PRIVATE_DEVICE, *dptr, bytesize),
          P2(CUdeviceptr_v1 *, dptr, unsigned int, bytesize))
ALLOCATES(cuMemAlloc_v2, take_bytes(dptr, bytesize), private_add(PRIVATE_DEVICE, *dptr, bytesize),
          P2(CUdeviceptr *, dptr, size_t, bytesize))
ALLOCATES(cuMemAllocPitch, false, private_add(PRIVATE_DEVICE, *dptr, 0),
          P5(CUdeviceptr_v1 *, dptr, unsigned int *, pPitch, unsigned int, WidthInBytes, unsigned int, Height,
             unsigned int, ElementSizeBytes))
ALLOCATES(cuMemAllocPitch_v2, take_rows(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes),
          private_add(PRIVATE_DEVICE, *dptr, 0),
          P5(CUdeviceptr *, dptr, size_t *, pPitch, size_t, WidthInBytes, size_t, Height, unsigned int,
             ElementSizeBytes))

FREES(cuMemFree, IN_CONTEXT(cuMemFree), remote_memory_free(dptr, false, &result),
      private_take(PRIVATE_DEVICE, dptr, &taken), P1(CUdeviceptr_v1, dptr))
FREES(cuMemFree_v2, IN_CONTEXT(cuMemFree_v2), remote_memory_free(dptr, false, &result),
      private_take(PRIVATE_DEVICE, dptr, &taken), P1(CUdeviceptr, dptr))

/*
 * Allowed for plain memory too; then it is freed on the spot, which is later than the driver would return and not
 * earlier than it would free. In a capture it is no free but a node, which the driver refuses.
 */
static bool free_in_stream(CUdeviceptr address, CUstream stream, CUresult *result)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    if (remote_memory_none())
        return false;
    if (atomic_load_explicit(&shim_engine->captures, memory_order_relaxed) > 0 &&
        (!shim_driver.cuStreamIsCapturing || shim_driver.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
         status != CU_STREAM_CAPTURE_STATUS_NONE))
        return false;
    return remote_memory_free(address, false, result);
}

#define FREES_IN_STREAM(symbol, zero_is_mine, stream)                                                                  \
    FREES(symbol, order_stream((struct stream_key){hStream, zero_is_mine}, CU_ID_##symbol),                            \
          free_in_stream(dptr, stream, &result), private_take(PRIVATE_DEVICE, dptr, &taken),                           \
          P2(CUdeviceptr, dptr, CUstream, hStream))
FREES_IN_STREAM(cuMemFreeAsync, false, hStream)
FREES_IN_STREAM(cuMemFreeAsync_ptsz, true, hStream ? hStream : CU_STREAM_PER_THREAD)

/* --- of the host --- */

/* Write-combined memory is ordinary memory here: only speed differs. Other flags are the driver's to refuse. */
static bool take_host(void **address, size_t bytes, unsigned int flags)
{
    const unsigned int known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;

    return address && bytes && !(flags & ~known) && remote_memory_take_host(bytes, flags, address);
}

ALLOCATES(cuMemAllocHost, take_host(pp, bytesize, 0), private_add(PRIVATE_HOST, (uint64_t)*pp, bytesize),
          P2(void **, pp, unsigned int, bytesize))
ALLOCATES(cuMemAllocHost_v2, take_host(pp, bytesize, 0), private_add(PRIVATE_HOST, (uint64_t)*pp, bytesize),
          P2(void **, pp, size_t, bytesize))
ALLOCATES(cuMemHostAlloc, take_host(pp, bytesize, Flags), private_add(PRIVATE_HOST, (uint64_t)*pp, bytesize),
          P3(void **, pp, size_t, bytesize, unsigned int, Flags))
FREES(cuMemFreeHost, IN_CONTEXT(cuMemFreeHost), remote_memory_free((uint64_t)p, true, &result),
      private_take(PRIVATE_HOST, (uint64_t)p, &taken), P1(void *, p))

ALLOCATES(cuMemHostRegister, false, private_add(PRIVATE_REGISTERED, (uint64_t)p, bytesize),
          P3(void *, p, size_t, bytesize, unsigned int, Flags))
ALLOCATES(cuMemHostRegister_v2, false, private_add(PRIVATE_REGISTERED, (uint64_t)p, bytesize),
          P3(void *, p, size_t, bytesize, unsigned int, Flags))

/* What is registered behind the program's back is none of its registrations. */
static bool refuse_shared(const void *p, CUresult *result)
{
    struct shared_piece piece;

    if (!remote_memory_find((uint64_t)p, &piece) || !piece.host)
        return false;
    *result = CUDA_ERROR_INVALID_VALUE;
    return true;
}

FREES(cuMemHostUnregister, IN_CONTEXT(cuMemHostUnregister), refuse_shared(p, &result),
      private_take(PRIVATE_REGISTERED, (uint64_t)p, &taken), P1(void *, p))

/* --- questions --- */

SHIM_EXPORT CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    typeof(shim_driver.cuMemHostGetFlags) real = shim_real(cuMemHostGetFlags);
    struct shared_piece piece;

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (remote_memory_none() || !pFlags || !remote_memory_find((uint64_t)p, &piece) || !piece.host)
        return real(pFlags, p);
    *pFlags = piece.flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
}

SHIM_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    typeof(shim_driver.cuMemGetAddressRange_v2) real = shim_real(cuMemGetAddressRange_v2);
    struct shared_piece piece;
    CUresult result;

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    result = real(pbase, psize, dptr);
    if (result != CUDA_SUCCESS || remote_memory_none() || !remote_memory_find(dptr, &piece))
        return result;
    if (pbase)
        *pbase = piece.base;
    if (psize)
        *psize = piece.bytes;
    return result;
}

/* Shared memory must not look as if the program had mapped it: handles name the mapping, not the allocation. */
SHIM_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    typeof(shim_driver.cuMemRetainAllocationHandle) real = shim_real(cuMemRetainAllocationHandle);
    struct shared_piece piece;

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!remote_memory_none() && remote_memory_find((uint64_t)addr, &piece))
        return CUDA_ERROR_INVALID_VALUE;
    return real(handle, addr);
}

/* Numbers of CUpointer_attribute in cuda.h. */
enum {
    POINTER_CONTEXT = 1,
    POINTER_BUFFER_ID = 7,
    POINTER_DEVICE_ORDINAL = 9,
    POINTER_LEGACY_IPC = 10,
    POINTER_RANGE_START = 11,
    POINTER_RANGE_SIZE = 12,
    POINTER_HANDLE_TYPES = 14,
};

/* What is not the mapping's. False: it is. */
static bool attribute_of(const struct shared_piece *piece, CUpointer_attribute attribute, void *data)
{
    switch (attribute) {
    case POINTER_CONTEXT:
        *(CUcontext *)data = piece->context;
        return true;
    case POINTER_BUFFER_ID:
        *(unsigned long long *)data = piece->id;
        return true;
    case POINTER_DEVICE_ORDINAL:
        *(int *)data = piece->device;
        return true;
    case POINTER_LEGACY_IPC:
        *(unsigned int *)data = 0;
        return true;
    case POINTER_RANGE_START:
        *(CUdeviceptr *)data = piece->base;
        return true;
    case POINTER_RANGE_SIZE:
        *(size_t *)data = piece->bytes;
        return true;
    case POINTER_HANDLE_TYPES:
        *(unsigned long long *)data = 0;
        return true;
    default:
        return false;
    }
}

SHIM_EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    typeof(shim_driver.cuPointerGetAttribute) real = shim_real(cuPointerGetAttribute);
    struct shared_piece piece;

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!remote_memory_none() && data && remote_memory_find(ptr, &piece) && attribute_of(&piece, attribute, data))
        return CUDA_SUCCESS;
    return real(data, attribute, ptr);
}

SHIM_EXPORT CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes, void **data,
                                            CUdeviceptr ptr)
{
    typeof(shim_driver.cuPointerGetAttributes) real = shim_real(cuPointerGetAttributes);
    struct shared_piece piece;
    CUresult result;

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    result = real(numAttributes, attributes, data, ptr);
    if (result != CUDA_SUCCESS || remote_memory_none() || !remote_memory_find(ptr, &piece))
        return result;
    for (unsigned int i = 0; i < numAttributes; i++)
        attribute_of(&piece, attributes[i], data[i]);
    return result;
}

/* --- peers --- */

/* Plain memory of the peer becomes reachable with this call; shared memory has to be made so. */
static void let_current_reach(CUcontext peer)
{
    CUdevice reader, owner;
    CUcontext popped;

    private_add_for_ever(); /* the peer's memory is not the broker's */
    if (shim_driver.cuCtxGetDevice(&reader) != CUDA_SUCCESS || shim_driver.cuCtxPushCurrent_v2(peer) != CUDA_SUCCESS)
        return;
    if (shim_driver.cuCtxGetDevice(&owner) == CUDA_SUCCESS)
        remote_memory_let(owner, reader);
    shim_driver.cuCtxPopCurrent_v2(&popped);
}

ALLOCATES(cuCtxEnablePeerAccess, false, let_current_reach(peerContext), P2(CUcontext, peerContext, unsigned int, Flags))
