/* SPDX-License-Identifier: Apache-2.0
 *
 * The mathematical functions of the CUDA library, compiled to PTX, and conversions between all number types.
 */
extern "C" {

__global__ void math32(const float *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float x = in[i];
    float *o = out + 20 * i;
    o[0] = expf(x);
    o[1] = logf(fabsf(x));
    o[2] = sinf(x);
    o[3] = cosf(x);
    o[4] = tanhf(x);
    o[5] = sqrtf(fabsf(x));
    o[6] = rsqrtf(fabsf(x));
    o[7] = powf(fabsf(x), 1.7f);
    o[8] = erff(x);
    o[9] = __expf(x);
    o[10] = __logf(fabsf(x));
    o[11] = __fdividef(1.0f, x);
    o[12] = floorf(x);
    o[13] = ceilf(x);
    o[14] = truncf(x);
    o[15] = rintf(x);
    o[16] = atan2f(x, 2.0f);
    o[17] = fmodf(x, 0.7f);
    o[18] = cbrtf(x);
    o[19] = ldexpf(x, 3);
}

__global__ void math64(const double *in, double *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    double x = in[i];
    double *o = out + 12 * i;
    o[0] = exp(x);
    o[1] = log(fabs(x));
    o[2] = sin(x);
    o[3] = cos(x);
    o[4] = tanh(x);
    o[5] = sqrt(fabs(x));
    o[6] = 1.0 / x;
    o[7] = pow(fabs(x), 1.7);
    o[8] = floor(x);
    o[9] = rint(x);
    o[10] = fma(x, x, -1.0);
    o[11] = rsqrt(fabs(x));
}

__global__ void rounding32(const float *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float x = in[i], y = in[(i + 1) % n], z = in[(i + 2) % n];
    float *o = out + 20 * i;
    o[0] = __fadd_rn(x, y);
    o[1] = __fadd_rz(x, y);
    o[2] = __fadd_ru(x, y);
    o[3] = __fadd_rd(x, y);
    o[4] = __fmul_rn(x, y);
    o[5] = __fmul_rz(x, y);
    o[6] = __fmul_ru(x, y);
    o[7] = __fmul_rd(x, y);
    o[8] = __fmaf_rn(x, y, z);
    o[9] = __fmaf_rz(x, y, z);
    o[10] = __fmaf_ru(x, y, z);
    o[11] = __fmaf_rd(x, y, z);
    o[12] = __fdiv_rn(x, y);
    o[13] = __fdiv_rz(x, y);
    o[14] = __fsqrt_rn(fabsf(x));
    o[15] = __frcp_rn(x);
    o[16] = __saturatef(x);
    o[17] = fminf(x, y);
    o[18] = fmaxf(x, y);
    o[19] = copysignf(x, y);
}

__global__ void convert_float(const float *in, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float x = in[i];
    int *o = out + 12 * i;
    o[0] = __float2int_rz(x);
    o[1] = __float2int_rn(x);
    o[2] = __float2int_ru(x);
    o[3] = __float2int_rd(x);
    o[4] = (int) __float2uint_rz(x);
    o[5] = (int) __float2uint_rn(x);
    long long w = __float2ll_rz(x);
    o[6] = (int) w;
    o[7] = (int) (w >> 32);
    unsigned long long u = __float2ull_rn(x);
    o[8] = (int) u;
    o[9] = (int) (u >> 32);
    o[10] = (signed char) x;
    o[11] = (unsigned short) x;
}

__global__ void convert_integer(const long long *in, float *f, double *d, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    long long v = in[i];
    f[8 * i] = __ll2float_rn(v);
    f[8 * i + 1] = __ll2float_rz(v);
    f[8 * i + 2] = __ull2float_rn((unsigned long long) v);
    f[8 * i + 3] = __int2float_rn((int) v);
    f[8 * i + 4] = __uint2float_rz((unsigned) v);
    f[8 * i + 5] = __ull2float_ru((unsigned long long) v);
    f[8 * i + 6] = (float) (short) v;
    f[8 * i + 7] = (float) (unsigned char) v;
    d[4 * i] = __ll2double_rn(v);
    d[4 * i + 1] = __ull2double_rz((unsigned long long) v);
    d[4 * i + 2] = (int) v;
    d[4 * i + 3] = (unsigned) v;
}

__global__ void convert_double(const double *in, float *f, long long *l, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    double x = in[i];
    f[3 * i] = __double2float_rn(x);
    f[3 * i + 1] = __double2float_rz(x);
    f[3 * i + 2] = __double2float_ru(x);
    l[4 * i] = __double2ll_rz(x);
    l[4 * i + 1] = (long long) __double2ull_rz(x);
    l[4 * i + 2] = __double2int_rn(x);
    l[4 * i + 3] = __double2uint_ru(x);
}
}
