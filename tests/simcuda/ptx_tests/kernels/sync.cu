/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for other blocks, other grids and the host; asynchronous copies.
 */
#include <cooperative_groups.h>
#include <cuda/barrier>

namespace cg = cooperative_groups;

extern "C" {

/* Each round every block adds what its right neighbour wrote in the round before. */
__global__ void ring_rounds(int *values, int *barrier_word, int rounds)
{
    int self = blockIdx.x, right = (blockIdx.x + 1) % gridDim.x;
    for (int r = 0; r < rounds; r++) {
        int v = *(volatile int *) &values[(r & 1) * gridDim.x + right];
        if (threadIdx.x == 0)
            values[((r + 1) & 1) * gridDim.x + self] = v + self;
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(barrier_word, 1);
            while (*(volatile int *) barrier_word < (r + 1) * (int) gridDim.x)
                ;
            __threadfence();
        }
        __syncthreads();
    }
}

__global__ void cooperative_rounds(int *values, int rounds)
{
    cg::grid_group grid = cg::this_grid();
    int n = (int) grid.size(), i = (int) grid.thread_rank();
    for (int r = 0; r < rounds; r++) {
        int v = values[(r & 1) * n + (i + 1) % n];
        values[((r + 1) & 1) * n + i] = v + 1;
        grid.sync();
    }
}

__global__ void wait_for_flag(volatile int *flag, int value, int *out)
{
    while (*flag != value)
        ;
    __threadfence();
    *out = value * 2;
}

__global__ void set_flag(volatile int *flag, int value)
{
    __threadfence();
    *flag = value;
}

__global__ void for_ever(volatile int *never)
{
    while (*never == 0)
        ;
}

__global__ void sleep_for(long long ns, unsigned long long *waited)
{
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        __nanosleep(100);
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < ns);
    *waited = now - start;
}

__global__ void copy_async(const int4 *in, int4 *out)
{
    __shared__ int4 buffer[64];
    unsigned to = (unsigned) __cvta_generic_to_shared(&buffer[threadIdx.x]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(in + threadIdx.x) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    out[threadIdx.x] = buffer[blockDim.x - 1 - threadIdx.x];
}

__global__ void mbarrier_rounds(int *out, int rounds)
{
    __shared__ unsigned long long bar;
    __shared__ int word[64];
    unsigned address = (unsigned) __cvta_generic_to_shared(&bar);
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address), "r"(blockDim.x) : "memory");
    __syncthreads();
    int sum = 0;
    for (int r = 0; r < rounds; r++) {
        word[threadIdx.x] = r * 100 + threadIdx.x;
        asm volatile("{\n\t.reg .b64 s;\n\tmbarrier.arrive.shared.b64 s, [%0];\n\t}" ::"r"(address) : "memory");
        unsigned done = 0;
        while (!done)
            asm volatile("{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                         "selp.u32 %0, 1, 0, p;\n\t}"
                         : "=r"(done)
                         : "r"(address), "r"(r & 1)
                         : "memory");
        sum += word[(threadIdx.x + 1) % blockDim.x];
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}

__global__ void block_barrier(int *out, int rounds)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int word[64];
    if (threadIdx.x == 0)
        init(&bar, blockDim.x);
    __syncthreads();
    int sum = 0;
    for (int r = 0; r < rounds; r++) {
        word[threadIdx.x] = r * 100 + threadIdx.x;
        bar.arrive_and_wait();
        sum += word[(threadIdx.x + 1) % blockDim.x];
        bar.arrive_and_wait();
    }
    out[threadIdx.x] = sum;
}

/* Message passing between blocks: data first, then the flag with release; the reader acquires. */
__global__ void message(int *data, int *flag, int *out)
{
    if (blockIdx.x == 0) {
        int seen = 0;
        while (!seen)
            asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        *out = *data;
    } else {
        *data = 99;
        asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(flag), "r"(1) : "memory");
    }
}

__global__ void __cluster_dims__(2, 1, 1) clusters(unsigned *out)
{
    unsigned v;
    unsigned *o = out + blockIdx.x * 5;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(v));
    o[0] = v;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(v));
    o[1] = v;
    asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(v));
    o[2] = v;
    asm volatile("mov.u32 %0, %%nclusterid.x;" : "=r"(v));
    o[3] = v;
    asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
    o[4] = out[(blockIdx.x ^ 1) * 5]; /* what the other block of the cluster wrote before the barrier */
}
}
