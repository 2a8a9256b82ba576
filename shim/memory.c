/* SPDX-License-Identifier: Apache-2.0
 *
 * Memsets and device-to-device copies: work of a lane that may wait in it like a launch.
 *
 * The driver refuses a bad address at the call, so it must be asked before the call is queued: only memory that lies
 * whole in one allocation that it knows is taken. Everything else goes straight on, in order. The functions are written
 * once, as macros over the stream flavours of entries.def.
 */
#include "shim/remote.h"

/* Bytes from `begin` on lie in one allocation of the current context. False is always safe. */
static bool memory_is_known(CUdeviceptr begin, uint64_t bytes)
{
    CUdeviceptr base;
    size_t size;

    if (bytes == 0 || !shim_driver.cuMemGetAddressRange_v2 ||
        shim_driver.cuMemGetAddressRange_v2(&base, &size, begin) != CUDA_SUCCESS)
        return false;
    return begin >= base && bytes <= size - (begin - base);
}

/* A memset of rows; the last row has no padding. Overflowing products are refused, so that the driver answers them. */
static bool rows_are_known(CUdeviceptr begin, uint64_t pitch, uint64_t width, uint64_t height)
{
    uint64_t bytes;

    if (height == 0 || width > pitch || __builtin_mul_overflow(pitch, height - 1, &bytes) ||
        __builtin_add_overflow(bytes, width, &bytes))
        return false;
    return memory_is_known(begin, bytes);
}

static bool elements_are_known(CUdeviceptr begin, uint64_t count, uint64_t size)
{
    uint64_t bytes;

    /* A misaligned address is the driver's to refuse. */
    return begin % size == 0 && !__builtin_mul_overflow(count, size, &bytes) && memory_is_known(begin, bytes);
}

/* The body of a call that may be queued: `known` says whether the driver would take it, `give` offers it to the broker.
 */
#define QUEUE_BODY(symbol, key, known, give, params)                                                                   \
    struct call_##symbol {                                                                                             \
        CU_FIELDS(params)                                                                                              \
    };                                                                                                                 \
    static CUresult issue_##symbol(const struct cu_driver *driver, const void *arguments, CUstream away)               \
    {                                                                                                                  \
        struct call_##symbol copy = *(const struct call_##symbol *)arguments;                                          \
        const struct call_##symbol *call = &copy;                                                                      \
                                                                                                                       \
        if (away)                                                                                                      \
            copy.hStream = away;                                                                                       \
        return driver->symbol CU_FROM_CALL(params);                                                                    \
    }                                                                                                                  \
    SHIM_EXPORT CUresult symbol CU_PARAMS(params)                                                                      \
    {                                                                                                                  \
        typeof(shim_driver.symbol) real = shim_real(symbol);                                                           \
        struct call_##symbol call;                                                                                     \
                                                                                                                       \
        if (unlikely(!real))                                                                                           \
            return SHIM_NO_DRIVER;                                                                                     \
        if (!shim_active())                                                                                            \
            return real CU_ARGS(params);                                                                               \
        if (remote_used && (give))                                                                                     \
            return order_result(CUDA_SUCCESS);                                                                         \
        call = (struct call_##symbol){CU_STORE(params)};                                                               \
        if (launch_op_may_wait(key) && (known) &&                                                                      \
            launch_queue_op(key, issue_##symbol, #symbol, &call, sizeof(call), NULL))                                  \
            return order_result(CUDA_SUCCESS);                                                                         \
        order_stream(key, CU_ID_##symbol);                                                                             \
        return order_result(real CU_ARGS(params));                                                                     \
    }

#define MEMSET_1D(symbol, flavour, type, name)                                                                         \
    QUEUE_BODY(symbol, flavour(hStream), elements_are_known(dstDevice, N, sizeof(type)),                               \
               remote_fill(flavour(hStream), dstDevice, 0, N, 1, name, sizeof(type)),                                  \
               P4(CUdeviceptr, dstDevice, type, name, size_t, N, CUstream, hStream))

#define MEMSET_2D(symbol, flavour, type, name)                                                                         \
    QUEUE_BODY(                                                                                                        \
        symbol, flavour(hStream),                                                                                      \
        dstDevice % sizeof(type) == 0 && Width <= SIZE_MAX / sizeof(type) &&                                           \
            rows_are_known(dstDevice, dstPitch, Width * sizeof(type), Height),                                         \
        remote_fill(flavour(hStream), dstDevice, dstPitch, Width, Height, name, sizeof(type)),                         \
        P6(CUdeviceptr, dstDevice, size_t, dstPitch, type, name, size_t, Width, size_t, Height, CUstream, hStream))

#define COPY(symbol, flavour)                                                                                          \
    QUEUE_BODY(symbol, flavour(hStream),                                                                               \
               memory_is_known(dstDevice, ByteCount) && memory_is_known(srcDevice, ByteCount),                         \
               remote_copy(flavour(hStream), dstDevice, srcDevice, ByteCount),                                         \
               P4(CUdeviceptr, dstDevice, CUdeviceptr, srcDevice, size_t, ByteCount, CUstream, hStream))

MEMSET_1D(cuMemsetD8Async, STREAM_PLAIN, unsigned char, uc)
MEMSET_1D(cuMemsetD8Async_ptsz, STREAM_PTSZ, unsigned char, uc)
MEMSET_1D(cuMemsetD16Async, STREAM_PLAIN, unsigned short, us)
MEMSET_1D(cuMemsetD16Async_ptsz, STREAM_PTSZ, unsigned short, us)
MEMSET_1D(cuMemsetD32Async, STREAM_PLAIN, unsigned int, ui)
MEMSET_1D(cuMemsetD32Async_ptsz, STREAM_PTSZ, unsigned int, ui)
MEMSET_2D(cuMemsetD2D8Async, STREAM_PLAIN, unsigned char, uc)
MEMSET_2D(cuMemsetD2D8Async_ptsz, STREAM_PTSZ, unsigned char, uc)
MEMSET_2D(cuMemsetD2D16Async, STREAM_PLAIN, unsigned short, us)
MEMSET_2D(cuMemsetD2D16Async_ptsz, STREAM_PTSZ, unsigned short, us)
MEMSET_2D(cuMemsetD2D32Async, STREAM_PLAIN, unsigned int, ui)
MEMSET_2D(cuMemsetD2D32Async_ptsz, STREAM_PTSZ, unsigned int, ui)
COPY(cuMemcpyDtoDAsync_v2, STREAM_PLAIN)
COPY(cuMemcpyDtoDAsync_v2_ptsz, STREAM_PTSZ)
