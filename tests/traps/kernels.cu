/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of the trap tests. kernels.ptx and kernels_sm90.ptx are made from this file by regenerate.sh and
 * committed, so that no test needs a CUDA toolkit. Whatever waits has a bound, so that a wrong order ends in a wrong
 * value and not in a hang.
 */
typedef unsigned long long u64;

static __device__ __forceinline__ u64 now_ns()
{
    u64 value;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value));
    return value;
}

#define BOUND_NS 5000000000ull

#ifndef ONLY_SM90
/* Keeps one thread of the device busy for so long. */
extern "C" __global__ void spin(u64 ns)
{
    u64 began = now_ns();

    while (now_ns() - began < ns)
        __nanosleep(2000);
}

extern "C" __global__ void store(int *p, int value)
{
    *p = value;
}

extern "C" __global__ void store_late(int *p, int value, u64 ns)
{
    u64 began = now_ns();

    while (now_ns() - began < ns)
        __nanosleep(2000);
    *p = value;
}

extern "C" __global__ void add1(int *p)
{
    *p += 1;
}

/* Shows in which order things ran: no two orders of different k give the same value. */
extern "C" __global__ void twice_plus(int *p, int k)
{
    *p = *p * 2 + k;
}

extern "C" __global__ void copy_int(int *to, const int *from)
{
    *to = *from;
}

/* Waits until *flag is 1; *seen gets what was there at the end. */
extern "C" __global__ void wait_flag(volatile int *flag, int *seen)
{
    u64 began = now_ns();

    if (blockIdx.x || threadIdx.x)
        return;
    while (*flag != 1 && now_ns() - began < BOUND_NS)
        __nanosleep(2000);
    *seen = *flag;
}

/*
 * With a grid that fills the device this looks, to whoever counts blocks, like a device without room. Only one thread
 * stays, until the host sets *leave, so that other kernels do run beside it.
 */
extern "C" __global__ void occupy(volatile int *leave, volatile int *here)
{
    u64 began = now_ns();

    if (blockIdx.x || threadIdx.x)
        return;
    *here = 1;
    __threadfence_system();
    while (*leave != 1 && now_ns() - began < BOUND_NS)
        __nanosleep(2000);
}

/* Ends of parameters that are no multiple of 8: 8 + 2 bytes. */
extern "C" __global__ void store_short(int *p, short value)
{
    *p = value;
}

struct words_8000 {
    int word[8000];
};

/* 32000 bytes of parameters, and one pointer. Looks at a few words: at both ends and in between. */
extern "C" __global__ void big(const __grid_constant__ words_8000 in, int *out)
{
    out[0] = in.word[0];
    out[1] = in.word[1023];
    out[2] = in.word[4001];
    out[3] = in.word[7999];
}

#define TEN(m, d) m(d##0) m(d##1) m(d##2) m(d##3) m(d##4) m(d##5) m(d##6) m(d##7) m(d##8) m(d##9)
#define PARAMETER(n) , int p##n
#define STORE(n) out[n] = p##n;

/* 70 parameters: a pointer and 69 numbers, of which the first ten are 10 to 19 so that their names are regular. */
extern "C" __global__ void seventy(int *out TEN(PARAMETER, 1) TEN(PARAMETER, 2) TEN(PARAMETER, 3) TEN(PARAMETER, 4)
                                       TEN(PARAMETER, 5) TEN(PARAMETER, 6), int p70, int p71, int p72, int p73, int p74,
                                   int p75, int p76, int p77, int p78)
{
    TEN(STORE, 1)
    TEN(STORE, 2)
    TEN(STORE, 3)
    TEN(STORE, 4)
    TEN(STORE, 5)
    TEN(STORE, 6)
    STORE(70) STORE(71) STORE(72) STORE(73) STORE(74) STORE(75) STORE(76) STORE(77) STORE(78)
}

/* Dynamic shared memory: the last word of it. */
extern "C" __global__ void use_shared(int *p, int words)
{
    extern __shared__ int memory[];

    memory[words - 1] = words;
    __syncthreads();
    *p = memory[words - 1];
}

extern "C" __global__ void fill(int *p, int value, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        p[i] = value;
}

extern "C" __global__ void copy_ints(int *to, const int *from, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        to[i] = from[i];
}

/* A step of a computation that keeps its intermediate values in memory which the next step uses again. */
extern "C" __global__ void to_workspace(int *workspace, int a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        workspace[i] = a * 31 + i;
}

extern "C" __global__ void from_workspace(const int *workspace, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        atomicAdd(out, workspace[i]);
}

/* All blocks must be running at once, or nobody gets on. *met counts those that saw all others. */
extern "C" __global__ void meet(unsigned *count, unsigned blocks, unsigned *met)
{
    u64 began = now_ns();

    if (threadIdx.x)
        return;
    atomicAdd(count, 1);
    while (*(volatile unsigned *)count < blocks && now_ns() - began < BOUND_NS)
        __nanosleep(100);
    if (*(volatile unsigned *)count >= blocks)
        atomicAdd(met, 1);
}

__device__ int counter = 41;

extern "C" __global__ void count_up(int *out)
{
    counter += 1;
    *out = counter;
}
#endif

#ifndef WITHOUT_SM90
/* What a block knows of its cluster: width and its own rank in it. */
extern "C" __global__ void cluster_shape(unsigned *out)
{
    unsigned width, rank;

    asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(width));
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        out[2 * blockIdx.x] = width;
        out[2 * blockIdx.x + 1] = rank;
    }
}

/* The second of a programmatic pair: may begin before the first has ended, and waits for its results. */
extern "C" __global__ void pdl_second(int *to, const int *from)
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
    *to = *from + 1;
}

/* The first: lets the second begin at once, and takes its time. */
extern "C" __global__ void pdl_first(volatile int *p, int value, u64 ns)
{
    u64 began = now_ns();

    asm volatile("griddepcontrol.launch_dependents;");
    while (now_ns() - began < ns)
        ;
    *p = value;
}
#endif
