/* SPDX-License-Identifier: Apache-2.0
 *
 * Instructions that exchange values inside a warp.
 */
extern "C" {

__global__ void votes(const int *in, unsigned *out)
{
    int v = in[threadIdx.x];
    unsigned *o = out + threadIdx.x * 8;
    o[0] = __ballot_sync(0xffffffffu, v & 1);
    o[1] = __all_sync(0xffffffffu, v >= 0);
    o[2] = __any_sync(0xffffffffu, v == 3);
    o[3] = __match_any_sync(0xffffffffu, v & 7);
    int equal;
    o[4] = __match_all_sync(0xffffffffu, v & 0x40000000, &equal);
    o[5] = equal;
    o[6] = __match_all_sync(0xffffffffu, v, &equal);
    o[7] = equal;
}

__global__ void divergent_votes(const int *in, unsigned *out)
{
    int v = in[threadIdx.x];
    unsigned *o = out + threadIdx.x * 3;
    unsigned mask = __ballot_sync(0xffffffffu, v & 1);
    if (v & 1) {
        o[0] = __ballot_sync(mask, v & 2);
        o[1] = __activemask() & mask; /* at least this lane; what else stands here is up to the device */
        o[2] = __shfl_sync(mask, v, __ffs(mask) - 1);
    } else {
        o[0] = __ballot_sync(~mask, v & 4);
        o[1] = mask;
        o[2] = __shfl_sync(~mask, v, __ffs(~mask) - 1);
    }
}

__global__ void shuffles(const int *in, int *out)
{
    int v = in[threadIdx.x];
    int *o = out + threadIdx.x * 10;
    o[0] = __shfl_sync(0xffffffffu, v, 5);
    o[1] = __shfl_up_sync(0xffffffffu, v, 3);
    o[2] = __shfl_down_sync(0xffffffffu, v, 3);
    o[3] = __shfl_xor_sync(0xffffffffu, v, 9);
    o[4] = __shfl_sync(0xffffffffu, v, threadIdx.x + 1, 8);
    o[5] = __shfl_up_sync(0xffffffffu, v, 2, 8);
    o[6] = __shfl_down_sync(0xffffffffu, v, 2, 8);
    o[7] = __shfl_xor_sync(0xffffffffu, v, 3, 4);
    int r, p;
    asm volatile("{\n\t.reg .pred p;\n\tshfl.sync.down.b32 %0|p, %2, 4, 0x1f, 0xffffffff;\n\tselp.b32 %1, 1, 0, p;\n\t}"
                 : "=r"(r), "=r"(p)
                 : "r"(v));
    o[8] = r;
    o[9] = p;
}

__global__ void reductions(const int *in, int *out)
{
    int v = in[threadIdx.x];
    unsigned mask = threadIdx.x & 1 ? 0xaaaaaaaau : 0x55555555u;
    int *o = out + threadIdx.x * 8;
    o[0] = __reduce_add_sync(0xffffffffu, v);
    o[1] = __reduce_min_sync(0xffffffffu, v);
    o[2] = __reduce_max_sync(0xffffffffu, (unsigned) v);
    o[3] = __reduce_xor_sync(0xffffffffu, (unsigned) v);
    o[4] = __reduce_and_sync(mask, (unsigned) v);
    o[5] = __reduce_or_sync(mask, (unsigned) v);
    int leader;
    asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\tselp.b32 %0, 1, 0, p;\n\t}" : "=r"(leader));
    o[6] = leader;
    __syncwarp();
    unsigned lanes;
    asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(lanes));
    o[7] = (int) lanes;
}

/* The two sides of a branch meet in one exchange of the whole warp, from different places of the code. */
__global__ void exchange_across_branch(int *out)
{
    int v = threadIdx.x, r;
    if (threadIdx.x < 16) {
        v = v * 10;
        asm volatile("shfl.sync.bfly.b32 %0, %1, 16, 0x1f, 0xffffffff;" : "=r"(r) : "r"(v));
        out[threadIdx.x] = r + 1;
    } else {
        v = v * 100;
        asm volatile("shfl.sync.bfly.b32 %0, %1, 16, 0x1f, 0xffffffff;" : "=r"(r) : "r"(v));
        out[threadIdx.x] = r + 2;
    }
}

/* A lane waits for a value that another lane of the same warp writes after more work. */
__global__ void lane_hands_over(volatile int *box, int *out)
{
    if (threadIdx.x == 0) {
        while (*box == 0)
            ;
        out[0] = *box;
    } else if (threadIdx.x == 7) {
        int sum = 0;
        for (int i = 0; i < 1000; i++)
            sum += i & *out;
        __threadfence();
        *box = 1234 + sum;
    }
}

__global__ void special_registers(unsigned *out)
{
    unsigned v;
    unsigned *o = out + (blockIdx.x * blockDim.x + threadIdx.x) * 10;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(v));
    o[0] = v;
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(v));
    o[1] = v;
    asm volatile("mov.u32 %0, %%nwarpid;" : "=r"(v));
    o[2] = v;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(v));
    o[3] = v;
    asm volatile("mov.u32 %0, %%nsmid;" : "=r"(v));
    o[4] = v;
    asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(v));
    o[5] = v;
    asm volatile("mov.u32 %0, %%total_smem_size;" : "=r"(v));
    o[6] = v;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(v));
    o[7] = v;
    long long before = clock64();
    for (int i = 0; i < 10; i++)
        asm volatile("nanosleep.u32 20;");
    o[8] = clock64() > before;
    unsigned long long time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    o[9] = time > 1000;
}
}
