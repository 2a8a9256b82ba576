/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of the tests. kernels.ptx is made from this file by make-kernels.sh and committed, so that no test needs
 * a CUDA toolkit.
 */
typedef unsigned long long u64;

#ifndef ONLY_CLUSTER
static __device__ u64 now_ns()
{
    u64 value;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value));
    return value;
}

/* Keeps one thread of the device busy for so long. */
extern "C" __global__ void spin(u64 ns)
{
    u64 began = now_ns();

    while (now_ns() - began < ns)
        ;
}

extern "C" __global__ void store(int *p, int value)
{
    *p = value;
}

extern "C" __global__ void add1(int *p)
{
    *p += 1;
}

/* Waits until *p is 1, at most 5 s; *seen (may be null) gets what was there at the end. */
extern "C" __global__ void wait_flag(volatile int *p, int *seen)
{
    u64 began = now_ns();

    while (*p != 1 && now_ns() - began < 5000000000ull)
        ;
    if (seen)
        *seen = *p;
}

/* *to = *from * 2 + 1: shows in which order things ran. */
extern "C" __global__ void twice_plus1(int *p)
{
    *p = *p * 2 + 1;
}

extern "C" __global__ void copy_int(int *to, const int *from)
{
    *to = *from;
}

extern "C" __global__ void fill(float *p, float value, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        p[i] = value;
}

extern "C" __global__ void saxpy(float a, const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        y[i] = a * x[i] + y[i];
}

/* C = A x B, row-major, n x n, 8 x 8 tiles in shared memory. */
extern "C" __global__ void gemm(const float *a, const float *b, float *c, int n)
{
    __shared__ float as[8][8], bs[8][8];
    int row = blockIdx.y * 8 + threadIdx.y, column = blockIdx.x * 8 + threadIdx.x;
    float sum = 0;

    for (int tile = 0; tile < n; tile += 8) {
        as[threadIdx.y][threadIdx.x] = a[row * n + tile + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(tile + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < 8; k++)
            sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

struct block_of_1000 {
    int words[250];
};
struct block_of_4000 {
    int words[1000];
};

extern "C" __global__ void big1000(block_of_1000 values, int *sum)
{
    int total = 0;

    for (int i = 0; i < 250; i++)
        total += values.words[i];
    *sum = total;
}

extern "C" __global__ void big4000(block_of_4000 values, int *sum)
{
    int total = 0;

    for (int i = 0; i < 1000; i++)
        total += values.words[i];
    *sum = total;
}

/* Ends of parameters that are no multiple of 8: 8 + 2 bytes. */
extern "C" __global__ void store_short(int *p, short value)
{
    *p = value;
}

extern "C" __global__ void no_params()
{
}

/* As many blocks as given must be running at once, or nobody gets on (5 s). */
extern "C" __global__ void meet(unsigned *count, unsigned blocks, unsigned *met)
{
    u64 began = now_ns();

    if (threadIdx.x)
        return;
    atomicAdd(count, 1);
    while (*(volatile unsigned *)count < blocks && now_ns() - began < 5000000000ull)
        ;
    if (*(volatile unsigned *)count >= blocks)
        atomicAdd(met, 1);
}

extern "C" __global__ void __launch_bounds__(64) at_most_64(int *p)
{
    *p = 64;
}

/* Dynamic shared memory: the last word of it. */
extern "C" __global__ void use_shared(int *p, int words)
{
    extern __shared__ int memory[];

    memory[words - 1] = words;
    __syncthreads();
    *p = memory[words - 1];
}

/* Many registers stay live over the loop: too many for 1024 threads. */
extern "C" __global__ void __launch_bounds__(256) many_registers(float *p, int n)
{
    float v[120];

    for (int i = 0; i < 120; i++)
        v[i] = p[i];
    for (int k = 0; k < n; k++)
        for (int i = 0; i < 120; i++)
            v[i] = v[i] * v[(i + 7) % 120] + p[i + k];
    for (int i = 0; i < 120; i++)
        p[i] = v[i];
}

extern "C" __global__ void misaligned(char *p)
{
    *(int *)(p + 1) = 1;
}

extern "C" __global__ void do_trap()
{
    asm volatile("trap;");
}

__device__ int counter = 41;
__constant__ int factor = 3;

extern "C" __global__ void count_up(int *out)
{
    counter += 1;
    *out = counter * factor;
}
#endif

#ifndef WITHOUT_CLUSTER
extern "C" __global__ void cluster_shape(unsigned *out)
{
    unsigned x, y, rank;

    asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(x));
    asm volatile("mov.u32 %0, %%cluster_nctaid.y;" : "=r"(y));
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        unsigned *mine = out + 3 * blockIdx.x;

        mine[0] = x;
        mine[1] = y;
        mine[2] = rank;
    }
}
#endif
