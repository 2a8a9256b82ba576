/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that work together in a block: shared memory, barriers, shuffles, atomics.
 */
#include <cuda_runtime.h>
#define TILE 16

extern "C" {

__global__ void sgemm_tiled(const float *a, const float *b, float *c, int m, int n, int k)
{
    __shared__ float as[TILE][TILE], bs[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < (k + TILE - 1) / TILE; t++) {
        int ka = t * TILE + threadIdx.x, kb = t * TILE + threadIdx.y;
        as[threadIdx.y][threadIdx.x] = row < m && ka < k ? a[row * k + ka] : 0;
        bs[threadIdx.y][threadIdx.x] = col < n && kb < k ? b[kb * n + col] : 0;
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && col < n)
        c[row * n + col] = sum;
}

__global__ void reduce_shared(const int *in, int *out, int n)
{
    __shared__ int part[256];
    int sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s)
            part[threadIdx.x] += part[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        atomicAdd(out, part[0]);
}

__global__ void reduce_shuffle(const float *in, float *out, int n)
{
    __shared__ float part[32];
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        sum += in[i];
    for (int s = 16; s > 0; s >>= 1)
        sum += __shfl_down_sync(0xffffffffu, sum, s);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
        for (int s = 16; s > 0; s >>= 1)
            sum += __shfl_xor_sync(0xffffffffu, sum, s);
        if (threadIdx.x == 0)
            *out = sum;
    }
}

__global__ void scan_block(const int *in, int *out, int n)
{
    __shared__ int warp_sum[32];
    int i = threadIdx.x, lane = i & 31, warp = i >> 5;
    int v = i < n ? in[i] : 0;
    for (int s = 1; s < 32; s <<= 1) {
        int w = __shfl_up_sync(0xffffffffu, v, s);
        if (lane >= s)
            v += w;
    }
    if (lane == 31)
        warp_sum[warp] = v;
    __syncthreads();
    if (warp == 0) {
        int t = lane < blockDim.x / 32 ? warp_sum[lane] : 0;
        for (int s = 1; s < 32; s <<= 1) {
            int w = __shfl_up_sync(0xffffffffu, t, s);
            if (lane >= s)
                t += w;
        }
        warp_sum[lane] = t;
    }
    __syncthreads();
    if (i < n)
        out[i] = v + (warp ? warp_sum[warp - 1] : 0);
}

__global__ void histogram_global(const unsigned char *in, unsigned *bins, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[in[i]], 1u);
}

__global__ void histogram_shared(const unsigned char *in, unsigned *bins, int n)
{
    __shared__ unsigned local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[in[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        atomicAdd(&bins[i], local[i]);
}

/* One block per row; dynamic shared memory holds blockDim.x floats. */
__global__ void softmax(const float *in, float *out, int columns)
{
    extern __shared__ float work[];
    const float *row = in + (size_t) blockIdx.x * columns;
    float high = -INFINITY;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        high = fmaxf(high, row[i]);
    work[threadIdx.x] = high;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s)
            work[threadIdx.x] = fmaxf(work[threadIdx.x], work[threadIdx.x + s]);
        __syncthreads();
    }
    high = work[0];
    __syncthreads();
    float sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        sum += expf(row[i] - high);
    work[threadIdx.x] = sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s)
            work[threadIdx.x] += work[threadIdx.x + s];
        __syncthreads();
    }
    sum = work[0];
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        out[(size_t) blockIdx.x * columns + i] = expf(row[i] - high) / sum;
}

__device__ float block_sum(float v, float *work)
{
    work[threadIdx.x] = v;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s)
            work[threadIdx.x] += work[threadIdx.x + s];
        __syncthreads();
    }
    float sum = work[0];
    __syncthreads();
    return sum;
}

__global__ void layernorm(const float *in, const float *gamma, const float *beta, float *out, int columns, float eps)
{
    __shared__ float work[128];
    const float *row = in + (size_t) blockIdx.x * columns;
    float sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        sum += row[i];
    float mean = block_sum(sum, work) / columns;
    float square = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        square += (row[i] - mean) * (row[i] - mean);
    float scale = rsqrtf(block_sum(square, work) / columns + eps);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        out[(size_t) blockIdx.x * columns + i] = (row[i] - mean) * scale * gamma[i] + beta[i];
}

__global__ void sync_reductions(const int *in, int *out)
{
    int v = in[threadIdx.x];
    int count = __syncthreads_count(v > 0);
    int all = __syncthreads_and(v > -100);
    int any = __syncthreads_or(v == 7);
    out[threadIdx.x * 3] = count;
    out[threadIdx.x * 3 + 1] = all != 0;
    out[threadIdx.x * 3 + 2] = any != 0;
}

/* Half of the block produces, the other half consumes, on two named barriers. */
__global__ void named_barriers(int *out, int rounds)
{
    __shared__ int slot[64];
    int half = blockDim.x / 2, i = threadIdx.x % half;
    for (int r = 0; r < rounds; r++) {
        if (threadIdx.x < half) {
            asm volatile("bar.sync 1, %0;" ::"r"(blockDim.x) : "memory"); /* slot is free */
            slot[i] = r * 1000 + i;
            asm volatile("bar.arrive 2, %0;" ::"r"(blockDim.x) : "memory"); /* slot is full */
        } else {
            asm volatile("bar.arrive 1, %0;" ::"r"(blockDim.x) : "memory");
            asm volatile("bar.sync 2, %0;" ::"r"(blockDim.x) : "memory");
            out[r * half + i] = slot[half - 1 - i];
        }
    }
}

__global__ void atomics(int *s, unsigned *u, unsigned long long *w, float *f, double *d)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&s[0], i);
    atomicSub(&s[1], i);
    atomicMin(&s[2], 100 - i);
    atomicMax(&s[3], i - 100);
    atomicAnd(&u[0], ~(1u << (i & 7)));
    atomicOr(&u[1], 1u << (i & 31));
    atomicXor(&u[2], i);
    atomicInc(&u[3], 99);
    atomicDec(&u[4], 99);
    atomicMin(&u[5], i + 5);
    atomicMax(&u[6], i + 5);
    atomicAdd(&w[0], 0x100000000ull + i);
    atomicMax(&w[1], 1ull << (i & 63));
    atomicAnd(&w[2], ~(1ull << (i & 31)));
    atomicAdd(&f[0], 0.5f);
    atomicAdd(&d[0], 0.25);
    /* compare and swap loop: product modulo a prime */
    unsigned long long seen = w[3], old;
    do {
        old = seen;
        seen = atomicCAS(&w[3], old, old * (i % 7 + 1) % 1000003);
    } while (seen != old);
    /* every ticket is handed out once */
    int ticket = atomicAdd(&s[4], 1);
    s[8 + ticket] = i;
    atomicExch(&s[5], 42);
}

/* A lock inside one warp: needs independent progress of the lanes. */
__global__ void warp_lock(int *lock, int *count)
{
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            *(volatile int *) count = *(volatile int *) count + 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}

/* The same lock in the form that starves older devices: the winner leaves the loop before it unlocks. */
__global__ void warp_lock_leave(int *lock, int *count)
{
    while (atomicCAS(lock, 0, 1) != 0)
        ;
    *(volatile int *) count = *(volatile int *) count + 1;
    __threadfence();
    atomicExch(lock, 0);
}
}
