/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies between host and device: given to the broker like launches, if the lane is remote and both ends can be had
 * there. So a server whose requests are copy, launches, copy leaves the device to the broker altogether. What cannot be
 * given away takes the way that its row in entries.def says.
 */
#include "shim/remote.h"

#define STREAM_PLAIN(stream) ((struct stream_key){stream, false})
#define STREAM_PTSZ(stream) ((struct stream_key){stream, true})

#define COPY_ASYNC(symbol, key, give, params)                                                                          \
    SHIM_EXPORT CUresult symbol CU_PARAMS(params)                                                                      \
    {                                                                                                                  \
        typeof(shim_driver.symbol) real = shim_real(symbol);                                                           \
                                                                                                                       \
        if (unlikely(!real))                                                                                           \
            return SHIM_NO_DRIVER;                                                                                     \
        if (!shim_active())                                                                                            \
            return real CU_ARGS(params);                                                                               \
        if (remote_used && (give))                                                                                     \
            return order_result(CUDA_SUCCESS);                                                                         \
        order_stream(key, CU_ID_##symbol);                                                                             \
        return order_result(real CU_ARGS(params));                                                                     \
    }

#define IN_ASYNC(symbol, flavour)                                                                                      \
    COPY_ASYNC(symbol, flavour(hStream), remote_copy_in(flavour(hStream), dstDevice, srcHost, ByteCount),              \
               P4(CUdeviceptr, dstDevice, const void *, srcHost, size_t, ByteCount, CUstream, hStream))
#define OUT_ASYNC(symbol, flavour)                                                                                     \
    COPY_ASYNC(symbol, flavour(hStream), remote_copy_out(flavour(hStream), dstHost, srcDevice, ByteCount),             \
               P4(void *, dstHost, CUdeviceptr, srcDevice, size_t, ByteCount, CUstream, hStream))
/* Either end may be anything here, so both must be known. */
#define ANY_ASYNC(symbol, flavour)                                                                                     \
    COPY_ASYNC(symbol, flavour(hStream), remote_copy(flavour(hStream), dst, src, ByteCount),                           \
               P4(CUdeviceptr, dst, CUdeviceptr, src, size_t, ByteCount, CUstream, hStream))

IN_ASYNC(cuMemcpyHtoDAsync_v2, STREAM_PLAIN)
IN_ASYNC(cuMemcpyHtoDAsync_v2_ptsz, STREAM_PTSZ)
OUT_ASYNC(cuMemcpyDtoHAsync_v2, STREAM_PLAIN)
OUT_ASYNC(cuMemcpyDtoHAsync_v2_ptsz, STREAM_PTSZ)
ANY_ASYNC(cuMemcpyAsync, STREAM_PLAIN)
ANY_ASYNC(cuMemcpyAsync_ptsz, STREAM_PTSZ)

/* In the null stream, and complete when they return. */
static bool null_stream_complete(void)
{
    remote_await(lane_find(shim_engine, order_current_context(), NULL));
    return true;
}

#define COPY_SYNC(symbol, give, params)                                                                                \
    SHIM_EXPORT CUresult symbol CU_PARAMS(params)                                                                      \
    {                                                                                                                  \
        typeof(shim_driver.symbol) real = shim_real(symbol);                                                           \
                                                                                                                       \
        if (unlikely(!real))                                                                                           \
            return SHIM_NO_DRIVER;                                                                                     \
        if (!shim_active())                                                                                            \
            return real CU_ARGS(params);                                                                               \
        if (remote_used && (give) && null_stream_complete())                                                           \
            return order_result(CUDA_SUCCESS);                                                                         \
        order_context(NULL, CU_ID_##symbol);                                                                           \
        return order_result(real CU_ARGS(params));                                                                     \
    }

#define IN_SYNC(symbol, flavour)                                                                                       \
    COPY_SYNC(symbol, remote_copy_in(flavour(NULL), dstDevice, srcHost, ByteCount),                                    \
              P3(CUdeviceptr, dstDevice, const void *, srcHost, size_t, ByteCount))
#define OUT_SYNC(symbol, flavour)                                                                                      \
    COPY_SYNC(symbol, remote_copy_out(flavour(NULL), dstHost, srcDevice, ByteCount),                                   \
              P3(void *, dstHost, CUdeviceptr, srcDevice, size_t, ByteCount))

IN_SYNC(cuMemcpyHtoD_v2, STREAM_PLAIN)
IN_SYNC(cuMemcpyHtoD_v2_ptds, STREAM_PTSZ)
OUT_SYNC(cuMemcpyDtoH_v2, STREAM_PLAIN)
OUT_SYNC(cuMemcpyDtoH_v2_ptds, STREAM_PTSZ)
