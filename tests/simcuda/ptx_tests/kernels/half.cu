/* SPDX-License-Identifier: Apache-2.0
 *
 * Half precision and bfloat16: conversions and arithmetic, scalar and packed.
 */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" {

/* From all float patterns that the host passes. */
__global__ void half_from_float(const float *in, unsigned short *nearest, unsigned short *zero, unsigned short *up,
                                unsigned short *down, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    nearest[i] = __half_as_ushort(__float2half_rn(in[i]));
    zero[i] = __half_as_ushort(__float2half_rz(in[i]));
    up[i] = __half_as_ushort(__float2half_ru(in[i]));
    down[i] = __half_as_ushort(__float2half_rd(in[i]));
}

__global__ void float_from_half(float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = __half2float(__ushort_as_half((unsigned short) i));
}

__global__ void bf16_from_float(const float *in, unsigned short *nearest, unsigned short *zero, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    nearest[i] = __bfloat16_as_ushort(__float2bfloat16_rn(in[i]));
    zero[i] = __bfloat16_as_ushort(__float2bfloat16_rz(in[i]));
}

__global__ void half_arithmetic(const unsigned short *a, const unsigned short *b, const unsigned short *c,
                                unsigned short *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    __half x = __ushort_as_half(a[i]), y = __ushort_as_half(b[i]), z = __ushort_as_half(c[i]);
    unsigned short *o = out + 12 * i;
    o[0] = __half_as_ushort(__hadd_rn(x, y));
    o[1] = __half_as_ushort(__hsub_rn(x, y));
    o[2] = __half_as_ushort(__hmul_rn(x, y));
    o[3] = __half_as_ushort(__hfma(x, y, z));
    o[4] = __half_as_ushort(__hmax(x, y));
    o[5] = __half_as_ushort(__hmin(x, y));
    o[6] = __half_as_ushort(__hneg(x));
    o[7] = __half_as_ushort(__habs(x));
    o[8] = __hlt(x, y);
    o[9] = __heq(x, y);
    o[10] = (unsigned short) __half2int_rz(x);
    o[11] = __half_as_ushort(__hfma_sat(x, y, z));
}

__global__ void half2_arithmetic(const __half2 *a, const __half2 *b, const __half2 *c, __half2 *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    __half2 *o = out + 4 * i;
    o[0] = __hadd2_rn(a[i], b[i]);
    o[1] = __hmul2_rn(a[i], b[i]);
    o[2] = __hfma2(a[i], b[i], c[i]);
    o[3] = __hmax2(a[i], b[i]);
}

__global__ void bf16_arithmetic(const __nv_bfloat16 *a, const __nv_bfloat16 *b, const __nv_bfloat16 *c,
                                __nv_bfloat16 *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    __nv_bfloat16 *o = out + 5 * i;
    o[0] = __hadd_rn(a[i], b[i]);
    o[1] = __hmul_rn(a[i], b[i]);
    o[2] = __hfma(a[i], b[i], c[i]);
    o[3] = __hmax(a[i], b[i]);
    o[4] = __hsub_rn(a[i], b[i]);
}

__global__ void bf162_arithmetic(const __nv_bfloat162 *a, const __nv_bfloat162 *b, __nv_bfloat162 *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[2 * i] = __hadd2_rn(a[i], b[i]);
    out[2 * i + 1] = __hfma2(a[i], b[i], a[i]);
}

__global__ void half_dot(const __half2 *a, const __half2 *b, float *out, int n)
{
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += 32) {
        float2 x = __half22float2(a[i]), y = __half22float2(b[i]);
        sum = fmaf(x.x, y.x, sum);
        sum = fmaf(x.y, y.y, sum);
    }
    for (int s = 16; s > 0; s >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, s);
    if (threadIdx.x == 0)
        *out = sum;
}

__global__ void half_functions(const unsigned short *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    __half x = __ushort_as_half(in[i]);
    out[4 * i] = __half2float(hexp(x));
    out[4 * i + 1] = __half2float(hsqrt(x));
    out[4 * i + 2] = __half2float(hlog(x));
    out[4 * i + 3] = __half2float(hrcp(x));
}

__global__ void half_atomics(__half *sum, __half2 *sum2, __nv_bfloat16 *sumb)
{
    atomicAdd(sum, __float2half(0.5f));
    atomicAdd(sum2, __floats2half2_rn(1.0f, 2.0f));
    atomicAdd(sumb, __float2bfloat16(1.0f));
}
}
