/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that fail, each in one way.
 */
extern "C" {

__global__ void write_at(int *p, long long index, int value)
{
    if (blockIdx.x == 1 && threadIdx.x == 37)
        p[index] = value;
}

__global__ void read_at(const int *p, long long index, int *out)
{
    out[0] = p[index];
}

__global__ void misaligned(char *p, int offset)
{
    *(int *) (p + offset) = 1;
}

__global__ void misaligned_vector(char *p, int offset)
{
    *(float4 *) (p + offset) = make_float4(1, 2, 3, 4);
}

__global__ void traps(int lane)
{
    if (threadIdx.x == lane)
        __trap();
}

__global__ void shared_overflow(int index, int *out)
{
    extern __shared__ int small[];
    small[index] = 7;
    out[0] = small[index];
}

/* Half of the block never comes to barrier 1 and waits at barrier 2 instead. */
__global__ void deadlock(int *out)
{
    if (threadIdx.x < 32)
        asm volatile("bar.sync 1, 64;" ::: "memory");
    else
        asm volatile("bar.sync 2, 64;" ::: "memory");
    out[threadIdx.x] = 1;
}

/* A barrier that some threads never reach because they left. That is legal. */
__global__ void leave_before_barrier(int *out)
{
    if (threadIdx.x >= 40)
        return;
    __syncthreads();
    out[threadIdx.x] = 1;
}

__global__ void write_constant(const int *p)
{
    *(int *) p = 3;
}

__global__ void __launch_bounds__(128, 4) bounded(int *out)
{
    out[threadIdx.x] = 1;
}
}
