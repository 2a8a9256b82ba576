/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies between host and device: given to the broker like launches, if the lane is remote and both ends can be had
 * there. So a server whose requests are copy, launches, copy leaves the device to the broker altogether. What cannot be
 * given away takes the way that its row in entries.def says.
 */
#include "shim/remote.h"

/* Given away, or flushed as the row's class says. */
#define COPY_ASYNC(symbol, key, give, params)                                                                          \
    WRAP_BEFORE(symbol, if (remote_used && (give)) return order_result(CUDA_SUCCESS);                                  \
                order_stream(key, CU_ID_##symbol), params)

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
    WRAP_BEFORE(symbol, if (remote_used && (give) && null_stream_complete()) return order_result(CUDA_SUCCESS);        \
                IN_CONTEXT(symbol), params)

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
