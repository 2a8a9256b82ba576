/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that each touch a part of what ptx_rewrite() replaces. pack_kernels.ptx is made from this file by
 * make-pack-kernels.sh and committed, so that no test needs a CUDA toolkit. Each takes (out, ...) and writes, from its
 * blocks' and threads' numbers, values that tell blocks, grids and parameters apart.
 */
#include <cstdio>

typedef unsigned u32;

#define BLOCK (blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z))
#define THREAD (BLOCK * blockDim.x + threadIdx.x)

/* Parameters of each size, in an order that leaves gaps. */
extern "C" __global__ void sizes(u32 *out, char a, double b, short c, float d, long long e, u32 n)
{
    if (THREAD < n)
        out[THREAD] = (u32)(a * 3 + b * 5 + c * 7 + d * 11) + (u32)(e >> 32) + (u32)e + THREAD;
}

/* All of the grid, block by block. */
extern "C" __global__ void grid(u32 *out)
{
    if (threadIdx.x == 0) {
        u32 *mine = out + 8 * BLOCK;

        mine[0] = gridDim.x;
        mine[1] = gridDim.y;
        mine[2] = gridDim.z;
        mine[3] = blockIdx.x;
        mine[4] = blockIdx.y;
        mine[5] = blockIdx.z;
        mine[6] = blockDim.z;
        mine[7] = threadIdx.z;
    }
}

struct table {
    int words[24];
};

/* A parameter that is read at a place known at run time: through its address. */
extern "C" __global__ void indexed(u32 *out, table values, u32 step)
{
    out[THREAD] = values.words[(THREAD * step) % 24];
}

__device__ __noinline__ u32 sum(const int *words, u32 count)
{
    u32 total = 0;

    for (u32 i = 0; i < count; i++)
        total = total * 31 + words[i];
    return total + blockIdx.x;
}

/* The address of a parameter goes to a function. */
extern "C" __global__ void address(u32 *out, u32 seed, const __grid_constant__ table values)
{
    out[THREAD] = sum(values.words + threadIdx.x % 4, 20) ^ seed;
}

struct __align__(64) aligned
{
    u32 words[32];
};

/* A parameter whose place depends on the architecture. */
extern "C" __global__ void wide(u32 *out, const __grid_constant__ aligned values, u32 last)
{
    out[THREAD] = values.words[THREAD % 32] + (u32)((unsigned long long)&values & 63) + last;
}

/* Shared memory and barriers: a reduction whose order shows in its bits. */
extern "C" __global__ void reduce(float *out, const float *in, u32 n)
{
    extern __shared__ float dynamic[];
    __shared__ float fixed[64];
    float mine = 0;

    for (u32 i = THREAD; i < n; i += gridDim.x * gridDim.y * gridDim.z * blockDim.x)
        mine += in[i] * 1.0009765625f;
    dynamic[threadIdx.x] = mine;
    fixed[threadIdx.x % 64] = 0;
    __syncthreads();
    for (u32 half = blockDim.x / 2; half; half /= 2) {
        if (threadIdx.x < half)
            dynamic[threadIdx.x] += dynamic[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        fixed[1] = dynamic[0];
        out[BLOCK] = fixed[1];
    }
}

/* Atomics and a branch with many targets. */
extern "C" __global__ void count(u32 *out, u32 kind)
{
    u32 lane = threadIdx.x % 32;

    switch (kind) {
    case 0:
        atomicAdd(out, blockIdx.z + 1);
        break;
    case 1:
        atomicMax(out + 1, THREAD);
        break;
    case 2:
        atomicXor(out + 2, 1u << lane);
        break;
    case 3:
        atomicAdd(out + 3, __ballot_sync(~0u, lane & 1) & 0xff);
        break;
    case 4:
        atomicExch(out + 4, gridDim.x);
        break;
    case 5:
        atomicInc(out + 5, 7);
        break;
    default:
        atomicAdd(out + 6, __shfl_xor_sync(~0u, lane, 3));
    }
}

__device__ u32 total = 5;
__device__ u32 history[64];
__constant__ u32 factors[4] = {3, 5, 7, 11};

/* Variables of the module. */
extern "C" __global__ void variables(u32 *out)
{
    if (threadIdx.x == 0) {
        atomicAdd(&total, 1);
        history[BLOCK % 64] = gridDim.x;
    }
    out[THREAD] = history[(THREAD + 1) % 64] & 0;
}

extern "C" __global__ void constants(u32 *out, u32 which)
{
    out[THREAD] = factors[which % 4] * THREAD;
}

/* Refused. */
extern "C" __global__ void prints(u32 *out)
{
    printf("%u\n", out[0]);
}

extern "C" __global__ void allocates(u32 **out)
{
    *out = (u32 *)malloc(4);
}

extern "C" __global__ void names_the_grid(unsigned long long *out)
{
    asm volatile("{ .reg .u64 %%id; mov.u64 %%id, %%gridid; st.u64 [%0], %%id; }" ::"l"(out));
}
