// SPDX-License-Identifier: Apache-2.0
//
// Kernels that read their parameters in every way that machine code knows. make-sass-kernels.sh makes sass_kernels.cubin
// of them; test_sass.c and the tests in tests/gpu use that.
struct table {
    float *out;
    const float *in;
    int count;
    float scale;
    float values[8];
    unsigned short shorts[16];
};

extern "C" __global__ void plain(float *out, const float *in, int count, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < count)
        out[i] = in[i] * scale;
}

extern "C" __global__ void grid(float *out, const float *in, int count, float scale)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        out[i] = in[i] * scale + gridDim.y;
}

// Index in a register.
extern "C" __global__ void indexed(const __grid_constant__ table t)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < t.count)
        t.out[i] = t.in[i] * t.values[i & 7] + t.shorts[threadIdx.x & 15];
}

// Index in a uniform register.
extern "C" __global__ void uniform_index(const __grid_constant__ table t, int k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;

    for (int n = 0; n < k; n++)
        sum += t.values[n & 7] * t.shorts[(n + k) & 15];
    if (i < t.count)
        t.out[i] = t.in[i] * sum;
}

__device__ __noinline__ float through_pointer(const table *t, int i)
{
    return t->values[i & 7] * t->scale;
}

// Address of a parameter; a call.
extern "C" __global__ void address(const __grid_constant__ table t)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < t.count)
        t.out[i] = t.in[i] + through_pointer(&t, i);
}

// Block index on z, in the fold form the member's own.
extern "C" __global__ void z(float *out, const float *in, int count, int stride)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < count && blockIdx.z < gridDim.z)
        out[blockIdx.z * stride + i] = in[blockIdx.z * stride + i] * 2 + gridDim.z;
}

extern "C" __global__ void shared(float *out, const float *in, int count)
{
    __shared__ float tile[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    tile[threadIdx.x & 255] = i < count ? in[i] : 0;
    __syncthreads();
    if (i < count)
        out[i] = tile[(blockDim.x - 1 - threadIdx.x) & 255];
}

// A table of jumps.
extern "C" __global__ void jumps(float *out, const float *in, int count, int which)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = i < count ? in[i] : 1;

    switch (which) {
    case 0: x += 1; break;
    case 1: x = sqrtf(x); break;
    case 2: x = x * x; break;
    case 3: x = 1 / x; break;
    case 4: x = x * x * x; break;
    case 5: x = x - 7; break;
    case 6: x = fabsf(x) + 2; break;
    case 7: x = rintf(x); break;
    default: x = 0;
    }
    if (i < count)
        out[i] = x;
}

__device__ int counter;
__constant__ float factors[16];

extern "C" __global__ void variable(float *out, int count)
{
    if (threadIdx.x == 0)
        atomicAdd(&counter, count);
    out[threadIdx.x] = count;
}

extern "C" __global__ void constant(float *out, int count)
{
    out[threadIdx.x] = factors[count & 15];
}
