// SPDX-License-Identifier: Apache-2.0
//
// Kernels of all kinds, launched by many streams at once: each stream has data of its own, and what it computes must be
// bit for bit what the same launches compute in one stream. Nothing of coissue is in it; a library that makes one
// launch of several streams' launches changes nothing here, or it is wrong. Prints a line of JSON for each number of
// streams.
//
//   pairs --list                                                  the kernels; and those that may well stay alone
//   pairs --kernel NAME [--streams 2,5,16,64] [--rounds N] [--warm MS]
//   pairs --stale [--streams 32] [--launches N]
//   ... --spoil                                                   something goes wrong on purpose: it must be found
//
// A round is a launch in each stream. Each launch mixes what its predecessor left with data and parameters of its own,
// so that one that is lost, doubled, out of order, or has another's parameters changes all that follows.
//
// --stale: one tiny kernel, whose parameters are others at each launch, writes what it made of them to a place of its
// own; after each burst every place is looked at. It finds launches that see the parameters of an earlier one.
#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        int status_ = (int)(call);                                                                                     \
        if (status_ != 0) {                                                                                            \
            fprintf(stderr, "pairs: line %d: %s: error %d\n", __LINE__, #call, status_);                               \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

namespace cg = cooperative_groups;

enum { WORDS = 4096 };         // of each stream's data, and of its results
enum { ROUNDS_AHEAD = 32 };    // rounds that are enqueued before the host waits
enum { LARGE_SHARED = 65536 }; // bytes, more than a kernel gets without asking

struct Tenant {
    unsigned index;
    const unsigned *in;
    unsigned *out;
    cudaStream_t stream;
    CUtensorMap map; // of `in`, as a matrix
};

static __host__ __device__ unsigned mix(unsigned a, unsigned b)
{
    a = (a ^ b) * 0x9e3779b1u;
    return a ^ (a >> 15);
}

// ---- kernels
// ---------------------------------------------------------------------------------------------------------

__global__ void plain(const unsigned *in, unsigned *out, unsigned n, unsigned step)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        out[i] = mix(mix(out[i], in[i]), step + i);
}

// Parameters of all sizes, with gaps between them.
__global__ void wide(char a, const unsigned *in, short b, double d, unsigned long long big, char c, unsigned *out,
                     float f)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned value = mix((unsigned)big, (unsigned)(big >> 32));

    value = mix(value, (unsigned)(a * 3 + b * 5 + c * 7));
    value = mix(value, mix((unsigned)__double2hiint(d * i), (unsigned)__double2loint(d * i)));
    value = mix(value, __float_as_uint(f + (float)i));
    out[i] = mix(mix(out[i], in[i]), value);
}

__global__ void grids(const unsigned *in, unsigned *out, unsigned step)
{
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned i = (block * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    unsigned sizes = gridDim.x + 100 * gridDim.y + 10000 * gridDim.z + 1000000 * blockIdx.z;

    out[i] = mix(mix(out[i], in[i]), mix(step, sizes));
}

__global__ void strided(const unsigned *in, unsigned *out, unsigned n, unsigned step)
{
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = mix(mix(out[i], in[i]), step + gridDim.x);
}

struct Table {
    const unsigned *in;
    unsigned *out;
    unsigned step, spare;
    unsigned pick[32];
};

__global__ void indexed(Table table)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned old = table.out[i];

    table.out[i] = mix(mix(old, table.in[i]), table.pick[(old + i) % 32] + table.step);
}

static __device__ __noinline__ unsigned through_pointer(const unsigned *words, unsigned at)
{
    return words[at % 32];
}

__global__ void address(const __grid_constant__ Table table)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned old = table.out[i];

    table.out[i] = mix(mix(old, table.in[i]), through_pointer(table.pick, old + i) + table.step);
}

template <int BYTES> struct Large {
    enum { COUNT = (BYTES - 24) / 4 };
    const unsigned *in;
    unsigned *out;
    unsigned step, spare;
    unsigned words[COUNT];
};

template <int BYTES> __global__ void large(const __grid_constant__ Large<BYTES> p)
{
    static_assert(sizeof(Large<BYTES>) == BYTES, "no padding");
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

    p.out[i] = mix(mix(p.out[i], p.in[i]), mix(p.words[i % Large<BYTES>::COUNT], p.words[Large<BYTES>::COUNT - 1]));
}

__global__ void shared(const unsigned *in, unsigned *out, unsigned count, unsigned step)
{
    extern __shared__ unsigned dynamic[];
    __shared__ unsigned fixed[256];
    unsigned t = threadIdx.x, i = blockIdx.x * 256 + t, value;

    for (unsigned k = t; k < count; k += 256)
        dynamic[k] = mix(in[k % WORDS], k + step);
    fixed[t] = mix(out[i], in[i]);
    __syncthreads();
    value = mix(fixed[255 - t], dynamic[(t * 61 + step) % count]);
    __syncthreads();
    fixed[t] += value;
    for (unsigned half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (t < half)
            fixed[t] += mix(fixed[t + half], half);
    }
    __syncthreads();
    out[i] = mix(out[i], fixed[0] + fixed[t]);
}

// Only what gives the same in any order.
__global__ void atomics(const unsigned *in, unsigned *out, unsigned step)
{
    __shared__ unsigned counts[64];
    unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;

    if (t < 64)
        counts[t] = 0;
    __syncthreads();
    atomicAdd(&counts[mix(in[i], step) % 64], i + 1);
    atomicAdd(&out[mix(in[i], step) % 1024], in[i] + step);
    atomicXor(&out[1024 + in[i] % 512], mix(i, step));
    atomicMax(&out[1536 + in[i] % 512], mix(in[i], step));
    __syncthreads();
    if (t < 64)
        atomicAdd(&out[2048 + t], counts[t]);
}

// Pairs of blocks that read each other's shared memory.
__global__ void clusters(const unsigned *in, unsigned *out, unsigned step)
{
    __shared__ unsigned tile[128];
    cg::cluster_group cluster = cg::this_cluster();
    unsigned t = threadIdx.x, i = blockIdx.x * 128 + t, rank = cluster.block_rank(), value;

    tile[t] = mix(out[i], in[i] + rank);
    cluster.sync();
    value = cluster.map_shared_rank(tile, rank ^ 1)[127 - t];
    cluster.sync();
    out[i] = mix(mix(out[i], value), step + rank + 16 * cluster.num_blocks());
}

template <int COUNT> struct Numbers {
    unsigned at[COUNT];
};

template <int COUNT> static constexpr Numbers<COUNT> some_numbers(unsigned seed)
{
    Numbers<COUNT> numbers = {};

    for (int i = 0; i < COUNT; i++)
        numbers.at[i] = (seed + (unsigned)i) * 2654435761u ^ seed;
    return numbers;
}

__constant__ Numbers<64> constants = some_numbers<64>(1);
__constant__ Numbers<64> written_constants = some_numbers<64>(2);
__device__ Numbers<256> table_of_module = some_numbers<256>(3);
__device__ unsigned long long total_of_module;

__global__ void constant(const unsigned *in, unsigned *out, unsigned step)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

    out[i] = mix(mix(out[i], in[i]), constants.at[(in[i] + step) % 64] + constants.at[step % 64]);
}

__global__ void constant_written(const unsigned *in, unsigned *out, unsigned step)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

    out[i] = mix(mix(out[i], in[i]), written_constants.at[(in[i] + step) % 64]);
}

__global__ void variables(const unsigned *in, unsigned *out, unsigned step)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

    out[i] = mix(mix(out[i], in[i]), table_of_module.at[(in[i] + step) % 256]);
    atomicAdd(&total_of_module, (unsigned long long)out[i]);
}

__global__ void dependent(const unsigned *in, unsigned *out, unsigned step)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

    cudaGridDependencySynchronize();
    out[i] = mix(mix(out[i], in[i]), step + i);
    cudaTriggerProgrammaticLaunchCompletion();
}

static __device__ __noinline__ unsigned collatz(unsigned value, unsigned limit)
{
    unsigned steps = 0;

    for (; value > 1 && steps < limit; steps++)
        value = value % 2 ? 3 * value + 1 : value / 2;
    return steps + value;
}

__global__ void calls(const unsigned *in, unsigned *out, unsigned limit, unsigned step)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, value = mix(out[i], in[i]);

    out[i] = mix(value, collatz(value, limit)) + collatz(step, limit);
}

__global__ void local_memory(const unsigned *in, unsigned *out, unsigned step)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, value = mix(out[i], step);
    unsigned local[64];

    for (unsigned k = 0; k < 64; k++)
        local[k] = mix(in[(i + k) % WORDS], k);
    for (unsigned k = 0; k < 16; k++) {
        unsigned at = value % 64;

        value = mix(value, local[at]);
        local[at] = value + k;
    }
    out[i] = value;
}

__global__ void __launch_bounds__(1024) many_registers(const unsigned *in, unsigned *out, unsigned step)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, sums[40], value = step;

#pragma unroll
    for (int j = 0; j < 40; j++)
        sums[j] = in[(i + j) % WORDS];
    for (unsigned k = 0; k < 8; k++) {
#pragma unroll
        for (int j = 0; j < 40; j++)
            sums[j] = mix(sums[j], sums[(j + 7) % 40] + in[(i + k) % WORDS]);
    }
#pragma unroll
    for (int j = 0; j < 40; j++)
        value = mix(value, sums[j]);
    out[i] = mix(out[i], value);
}

// A warp for each block: the product of two small matrices by the tensor cores.
__global__ void tensor_cores(const unsigned *in, unsigned *out, unsigned step)
{
    using namespace nvcuda;
    __shared__ __align__(32) half a[256], b[256];
    __shared__ __align__(32) float c[256];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fragment_a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fragment_b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fragment_c;
    unsigned first = blockIdx.x * 256;

    for (unsigned k = threadIdx.x; k < 256; k += 32) {
        a[k] = __float2half((float)(in[first + k] % 1024) / 512.f - 1.f);
        b[k] = __float2half((float)(out[first + k] % 1024) / 512.f - 1.f);
    }
    __syncwarp();
    wmma::load_matrix_sync(fragment_a, a, 16);
    wmma::load_matrix_sync(fragment_b, b, 16);
    wmma::fill_fragment(fragment_c, (float)(step % 16));
    wmma::mma_sync(fragment_c, fragment_a, fragment_b, fragment_c);
    wmma::store_matrix_sync(c, fragment_c, 16, wmma::mem_row_major);
    __syncwarp();
    for (unsigned k = threadIdx.x; k < 256; k += 32)
        out[first + k] = mix(mix(out[first + k], __float_as_uint(c[k])), step);
}

enum { MATRIX_SIDE = 64, TILE_SIDE = 32 };

static __device__ unsigned in_shared(const void *pointer)
{
    return (unsigned)__cvta_generic_to_shared(pointer);
}

// A tile of the matrix that the parameter describes, brought by the tensor memory accelerator.
__global__ void tensor_map(const __grid_constant__ CUtensorMap map, unsigned *out, unsigned step)
{
    __shared__ __align__(128) unsigned tile[TILE_SIDE * TILE_SIDE];
    __shared__ __align__(8) unsigned long long barrier;
    unsigned bar = in_shared(&barrier), first = (blockIdx.y * gridDim.x + blockIdx.x) * TILE_SIDE * TILE_SIDE, done = 0;

    if (threadIdx.x == 0) {
        asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"((unsigned)sizeof(tile))
                     : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3}], [%4];" ::"r"(in_shared(tile)),
                     "l"(&map), "r"((int)blockIdx.x * TILE_SIDE), "r"((int)blockIdx.y * TILE_SIDE), "r"(bar)
                     : "memory");
    }
    while (!done)
        asm volatile("{ .reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n"
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(bar)
                     : "memory");
    for (unsigned k = threadIdx.x; k < TILE_SIDE * TILE_SIDE; k += blockDim.x)
        out[first + k] = mix(mix(out[first + k], tile[k]), step + k);
}

__global__ void prints(const unsigned *in, unsigned *out, unsigned step)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

    if (step == 0xffffffffu)
        printf("never\n");
    out[i] = mix(mix(out[i], in[i]), step + i);
}

__global__ void cooperative(const unsigned *in, unsigned *out, unsigned step)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, other = gridDim.x * blockDim.x - 1 - i, value;

    out[i] = mix(out[i], in[i]);
    cg::this_grid().sync();
    value = out[other];
    cg::this_grid().sync();
    out[i] = mix(out[i] + value, step);
}

// ---- launches
// --------------------------------------------------------------------------------------------------------

static unsigned number_of(const Tenant &tenant, unsigned step)
{
    return mix(step, tenant.index);
}

static void launch_plain(const Tenant &t, unsigned step)
{
    plain<<<4, 256, 0, t.stream>>>(t.in, t.out, 960 + t.index, number_of(t, step));
}

static void launch_wide(const Tenant &t, unsigned step)
{
    unsigned number = number_of(t, step);

    wide<<<4, 256, 0, t.stream>>>((char)number, t.in, (short)(number >> 8), number * 1.0000001, number * 0x100000001ull,
                                  (char)(number >> 24), t.out, number * 0.25f);
}

static void launch_grids(const Tenant &t, unsigned step)
{
    grids<<<dim3(3, 2), dim3(16, 8), 0, t.stream>>>(t.in, t.out, number_of(t, step));
}

static void launch_grids_differ(const Tenant &t, unsigned step)
{
    grids<<<dim3(1 + t.index % 4, 1 + t.index * 3 % 5), dim3(16, 8), 0, t.stream>>>(t.in, t.out, number_of(t, step));
}

static void launch_fold(const Tenant &t, unsigned step)
{
    grids<<<dim3(3, 2, 4), dim3(16, 8), 0, t.stream>>>(t.in, t.out, number_of(t, step));
}

static void launch_fold_differ(const Tenant &t, unsigned step)
{
    grids<<<dim3(1 + t.index % 4, 1 + t.index % 3, 2), dim3(16, 8), 0, t.stream>>>(t.in, t.out, number_of(t, step));
}

static void launch_strided(const Tenant &t, unsigned step)
{
    strided<<<1 + t.index * 5 % 11, 64, 0, t.stream>>>(t.in, t.out, 960 + t.index, number_of(t, step));
}

static Table make_table(const Tenant &t, unsigned step)
{
    Table table = {t.in, t.out, number_of(t, step), 0, {}};

    for (unsigned i = 0; i < 32; i++)
        table.pick[i] = mix(table.step, i);
    return table;
}

static void launch_indexed(const Tenant &t, unsigned step)
{
    indexed<<<4, 256, 0, t.stream>>>(make_table(t, step));
}

static void launch_address(const Tenant &t, unsigned step)
{
    address<<<4, 256, 0, t.stream>>>(make_table(t, step));
}

template <int BYTES> static void launch_large(const Tenant &t, unsigned step)
{
    Large<BYTES> p = {t.in, t.out, number_of(t, step), 0, {}};

    for (unsigned i = 0; i < Large<BYTES>::COUNT; i++)
        p.words[i] = mix(p.step, i);
    large<BYTES><<<4, 256, 0, t.stream>>>(p);
}

static void launch_shared(const Tenant &t, unsigned step)
{
    shared<<<4, 256, 2048, t.stream>>>(t.in, t.out, 512, number_of(t, step));
}

static void prepare_shared_large()
{
    CHECK(cudaFuncSetAttribute(shared, cudaFuncAttributeMaxDynamicSharedMemorySize, LARGE_SHARED));
}

static void launch_shared_large(const Tenant &t, unsigned step)
{
    shared<<<4, 256, LARGE_SHARED, t.stream>>>(t.in, t.out, LARGE_SHARED / 4, number_of(t, step));
}

static void launch_atomics(const Tenant &t, unsigned step)
{
    atomics<<<4, 256, 0, t.stream>>>(t.in, t.out, number_of(t, step));
}

template <typename Kernel>
static void launch_with(const Tenant &t, unsigned step, Kernel kernel, unsigned blocks, unsigned threads,
                        cudaLaunchAttribute attribute)
{
    cudaLaunchConfig_t config = {};

    config.gridDim = blocks;
    config.blockDim = threads;
    config.stream = t.stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&config, kernel, t.in, t.out, number_of(t, step)));
}

static void launch_clusters(const Tenant &t, unsigned step)
{
    cudaLaunchAttribute attribute = {};

    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = 2;
    attribute.val.clusterDim.y = 1;
    attribute.val.clusterDim.z = 1;
    launch_with(t, step, clusters, 8, 128, attribute);
}

static void launch_dependent(const Tenant &t, unsigned step)
{
    cudaLaunchAttribute attribute = {};

    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    launch_with(t, step, dependent, 4, 256, attribute);
}

static void launch_constant(const Tenant &t, unsigned step)
{
    constant<<<4, 256, 0, t.stream>>>(t.in, t.out, number_of(t, step));
}

static void prepare_constant_written()
{
    Numbers<64> numbers = some_numbers<64>(77);

    CHECK(cudaMemcpyToSymbol(written_constants, &numbers, sizeof(numbers)));
}

static void launch_constant_written(const Tenant &t, unsigned step)
{
    constant_written<<<4, 256, 0, t.stream>>>(t.in, t.out, number_of(t, step));
}

static void launch_variables(const Tenant &t, unsigned step)
{
    variables<<<4, 256, 0, t.stream>>>(t.in, t.out, number_of(t, step));
}

static void reset_variables()
{
    unsigned long long zero = 0;

    CHECK(cudaMemcpyToSymbol(total_of_module, &zero, sizeof(zero)));
}

static unsigned long long read_variables()
{
    unsigned long long total;

    CHECK(cudaMemcpyFromSymbol(&total, total_of_module, sizeof(total)));
    return total;
}

static void launch_calls(const Tenant &t, unsigned step)
{
    calls<<<4, 256, 0, t.stream>>>(t.in, t.out, 20 + t.index, number_of(t, step));
}

static void launch_local_memory(const Tenant &t, unsigned step)
{
    local_memory<<<4, 256, 0, t.stream>>>(t.in, t.out, number_of(t, step));
}

static void launch_many_registers(const Tenant &t, unsigned step)
{
    many_registers<<<2, 1024, 0, t.stream>>>(t.in, t.out, number_of(t, step));
}

static void launch_tensor_cores(const Tenant &t, unsigned step)
{
    tensor_cores<<<4, 32, 0, t.stream>>>(t.in, t.out, number_of(t, step));
}

static void launch_tensor_map(const Tenant &t, unsigned step)
{
    tensor_map<<<dim3(MATRIX_SIDE / TILE_SIDE, MATRIX_SIDE / TILE_SIDE), 128, 0, t.stream>>>(t.map, t.out,
                                                                                             number_of(t, step));
}

static void launch_prints(const Tenant &t, unsigned step)
{
    prints<<<4, 256, 0, t.stream>>>(t.in, t.out, number_of(t, step) >> 1);
}

static void launch_cooperative(const Tenant &t, unsigned step)
{
    unsigned number = number_of(t, step);
    const unsigned *in = t.in;
    unsigned *out = t.out;
    void *parameters[] = {&in, &out, &number};

    CHECK(cudaLaunchCooperativeKernel((const void *)cooperative, dim3(2), dim3(64), parameters, 0, t.stream));
}

// ---- the list
// --------------------------------------------------------------------------------------------------------

struct Kernel {
    const char *name;
    bool together; // nothing in it forbids that launches are made one
    void (*launch)(const Tenant &tenant, unsigned step);
    void (*prepare)();
    void (*reset)();                // of what the streams share
    unsigned long long (*shared)(); // what became of it
};

static const Kernel kernels[] = {
    {"plain", true, launch_plain},
    {"wide", true, launch_wide},
    {"grids", true, launch_grids},
    {"grids_differ", true, launch_grids_differ},
    {"strided", true, launch_strided},
    {"fold", true, launch_fold},
    {"fold_differ", true, launch_fold_differ},
    {"indexed", true, launch_indexed},
    {"address", true, launch_address},
    {"large_1k", true, launch_large<1024>},
    {"large_4k", true, launch_large<4096>},
    {"shared", true, launch_shared},
    {"shared_large", true, launch_shared_large, prepare_shared_large},
    {"atomics", true, launch_atomics},
    {"clusters", true, launch_clusters},
    {"dependent", true, launch_dependent},
    {"constant", true, launch_constant},
    {"variables", true, launch_variables, nullptr, reset_variables, read_variables},
    {"calls", true, launch_calls},
    {"local_memory", true, launch_local_memory},
    {"many_registers", true, launch_many_registers},
    {"tensor_cores", true, launch_tensor_cores},
    {"tensor_map", true, launch_tensor_map},
    {"constant_written", false, launch_constant_written, prepare_constant_written},
    {"prints", false, launch_prints},
    {"cooperative", false, launch_cooperative},
};

// ---- running
// ---------------------------------------------------------------------------------------------------------

static double now_ms()
{
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static unsigned *make_words()
{
    unsigned *words;

    CHECK(cudaMalloc(&words, WORDS * sizeof(*words)));
    return words;
}

static void fill_words(unsigned *to, unsigned seed)
{
    std::vector<unsigned> words(WORDS);

    for (unsigned i = 0; i < WORDS; i++)
        words[i] = mix(mix(i, seed), 12345);
    CHECK(cudaMemcpy(to, words.data(), WORDS * sizeof(*to), cudaMemcpyHostToDevice));
}

static CUtensorMap make_map(unsigned *words)
{
    static auto encode =
        (decltype(&cuTensorMapEncodeTiled))dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuTensorMapEncodeTiled");
    cuuint64_t sizes[] = {MATRIX_SIDE, MATRIX_SIDE}, strides[] = {MATRIX_SIDE * sizeof(*words)};
    cuuint32_t box[] = {TILE_SIDE, TILE_SIDE}, steps[] = {1, 1};
    CUtensorMap map;

    if (!encode) {
        fprintf(stderr, "pairs: the driver has no cuTensorMapEncodeTiled\n");
        exit(1);
    }
    CHECK(encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 2, words, sizes, strides, box, steps,
                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    return map;
}

static std::vector<Tenant> make_tenants(int count)
{
    std::vector<Tenant> tenants(count);

    for (int i = 0; i < count; i++) {
        unsigned *in = make_words();

        fill_words(in, i);
        tenants[i].index = i;
        tenants[i].in = in;
        tenants[i].out = make_words();
        tenants[i].map = make_map(in);
        CHECK(cudaStreamCreateWithFlags(&tenants[i].stream, cudaStreamNonBlocking));
    }
    return tenants;
}

static void wait_for(const std::vector<Tenant> &tenants)
{
    for (auto &tenant : tenants)
        CHECK(cudaStreamSynchronize(tenant.stream));
}

// Returns how many rounds it made: as many as were asked for, or at least so many that the time is over.
static unsigned run(const Kernel &kernel, const std::vector<Tenant> &tenants, unsigned rounds, double ms)
{
    double begin = now_ms();
    unsigned step = 0;

    for (; step < rounds || (ms > 0 && now_ms() - begin < ms); step++) {
        for (auto &tenant : tenants)
            kernel.launch(tenant, step);
        if (step % ROUNDS_AHEAD == ROUNDS_AHEAD - 1)
            wait_for(tenants);
    }
    CHECK(cudaGetLastError());
    wait_for(tenants);
    return step;
}

struct Results {
    std::vector<std::vector<unsigned>> words; // of each tenant
    unsigned long long shared;
};

static Results run_from_the_start(const Kernel &kernel, const std::vector<Tenant> &tenants, unsigned rounds)
{
    Results results = {};

    for (auto &tenant : tenants)
        fill_words(tenant.out, 1000 + tenant.index);
    if (kernel.reset)
        kernel.reset();
    CHECK(cudaDeviceSynchronize());
    run(kernel, tenants, rounds, 0);
    for (auto &tenant : tenants) {
        results.words.emplace_back(WORDS);
        CHECK(cudaMemcpy(results.words.back().data(), tenant.out, WORDS * sizeof(unsigned), cudaMemcpyDeviceToHost));
    }
    if (kernel.shared)
        results.shared = kernel.shared();
    return results;
}

static uint64_t digest(const Results &results)
{
    uint64_t hash = 0xcbf29ce484222325u ^ results.shared;

    for (auto &words : results.words)
        for (unsigned word : words)
            hash = (hash ^ word) * 0x100000001b3u;
    return hash;
}

static void compare(const Kernel &kernel, int count, unsigned rounds, double warm_ms, bool spoil)
{
    std::vector<Tenant> tenants = make_tenants(count), alone = tenants;
    Results expected, found;
    unsigned warm = 0;
    int different = 0;

    for (auto &tenant : alone)
        tenant.stream = tenants[0].stream;
    expected = run_from_the_start(kernel, alone, rounds);
    if (warm_ms > 0)
        warm = run(kernel, tenants, 0, warm_ms); // a library may need time to prepare for what it sees
    found = run_from_the_start(kernel, tenants, spoil ? rounds - 1 : rounds);
    for (int i = 0; i < count; i++)
        different += found.words[i] != expected.words[i];
    printf("{\"kernel\": \"%s\", \"streams\": %d, \"rounds\": %u, \"warm-up rounds\": %u, \"equal\": %s, "
           "\"streams that differ\": %d, \"digest\": \"%016llx\"}\n",
           kernel.name, count, rounds, warm, different == 0 && found.shared == expected.shared ? "true" : "false",
           different, (unsigned long long)digest(found));
    fflush(stdout);
    for (auto &tenant : tenants) {
        CHECK(cudaFree((void *)tenant.in));
        CHECK(cudaFree(tenant.out));
        CHECK(cudaStreamDestroy(tenant.stream));
    }
}

// ---- stale parameters
// ------------------------------------------------------------------------------------------------

enum { STALE_WORDS = 24, STALE_BLOCKS = 4, STALE_BURST = 64 };

struct Changing {
    unsigned *places; // STALE_BLOCKS of them for each launch of a burst
    unsigned place, spare;
    unsigned word[STALE_WORDS];
};

static __host__ __device__ unsigned word_of(unsigned number, unsigned i)
{
    return mix(mix(number, i), 0xc0155ed5u);
}

static __device__ unsigned made_of(const unsigned *word)
{
    unsigned value = 0;

#pragma unroll
    for (unsigned i = 0; i < STALE_WORDS; i++)
        value = mix(value, word[i]);
    return value;
}

__global__ void write_place(Changing p)
{
    if (threadIdx.x == 0)
        p.places[p.place * STALE_BLOCKS + blockIdx.x] = made_of(p.word) + blockIdx.x;
}

// Launch `first + i` of the burst has place i.
__global__ void look_at_places(const unsigned *places, unsigned first, unsigned count, unsigned long long *wrong)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, word[STALE_WORDS];

    if (i >= count)
        return;
    for (unsigned k = 0; k < STALE_WORDS; k++)
        word[k] = word_of(first + i, k);
    for (unsigned block = 0; block < STALE_BLOCKS; block++)
        if (places[i * STALE_BLOCKS + block] != made_of(word) + block)
            atomicAdd(wrong, 1ull);
}

static void launch_burst(unsigned *places, unsigned first, const std::vector<cudaStream_t> &streams, bool spoil)
{
    unsigned place = 0;

    for (int i = 0; i < STALE_BURST; i++)
        for (auto stream : streams) {
            Changing p = {places, place, 0, {}};

            for (unsigned k = 0; k < STALE_WORDS; k++)
                p.word[k] = word_of(first + place - (spoil && place == 1), k);
            write_place<<<STALE_BLOCKS, 32, 0, stream>>>(p);
            place++;
        }
    CHECK(cudaGetLastError());
    for (auto stream : streams)
        CHECK(cudaStreamSynchronize(stream));
}

static void look_for_stale(int count, unsigned launches, bool spoil)
{
    std::vector<cudaStream_t> streams(count);
    unsigned burst = count * STALE_BURST, done = 0, bursts_wrong = 0, *places;
    unsigned long long *wrong, before = 0, now = 0;
    bool spoiled = false;
    cudaStream_t checking;
    double begin = now_ms();

    for (auto &stream : streams)
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&checking, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&places, burst * STALE_BLOCKS * sizeof(*places)));
    CHECK(cudaMemset(places, 0, burst * STALE_BLOCKS * sizeof(*places)));
    CHECK(cudaMalloc(&wrong, sizeof(*wrong)));
    CHECK(cudaMemset(wrong, 0, sizeof(*wrong)));
    CHECK(cudaDeviceSynchronize());
    while (done < launches) {
        launch_burst(places, done, streams, spoil && !spoiled);
        spoiled = true;
        look_at_places<<<(burst + 255) / 256, 256, 0, checking>>>(places, done, burst, wrong);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpyAsync(&now, wrong, sizeof(now), cudaMemcpyDeviceToHost, checking));
        CHECK(cudaStreamSynchronize(checking));
        bursts_wrong += now != before;
        before = now;
        done += burst;
    }
    printf("{\"kernel\": \"stale\", \"streams\": %d, \"launches\": %u, \"values looked at\": %llu, \"wrong values\": "
           "%llu, "
           "\"bursts with wrong values\": %u, \"seconds\": %.2f}\n",
           count, done, (unsigned long long)done * STALE_BLOCKS, now, bursts_wrong, (now_ms() - begin) / 1000);
    fflush(stdout);
}

// ---- the command line
// ------------------------------------------------------------------------------------------------

static std::vector<int> numbers(const char *text)
{
    std::vector<int> found;

    for (const char *at = text; at; at = strchr(at, ','), at = at ? at + 1 : NULL)
        found.push_back(std::max(1, atoi(at)));
    return found;
}

static int usage(const char *what)
{
    fprintf(stderr, "pairs: %s\n", what);
    return 2;
}

int main(int argc, char **argv)
{
    std::vector<int> counts;
    const char *name = NULL;
    bool stale = false, spoil = false;
    unsigned rounds = 500, launches = 2000000;
    double warm_ms = 0;

    for (int i = 1; i < argc; i++) {
        std::string option = argv[i];

        if (option == "--list") {
            for (auto &kernel : kernels)
                printf("%s %s\n", kernel.name, kernel.together ? "together" : "alone");
            return 0;
        }
        if (option == "--stale" || option == "--spoil") {
            (option == "--stale" ? stale : spoil) = true;
            continue;
        }
        if (i + 1 >= argc)
            return usage("an option has no value, or is none");
        if (option == "--kernel")
            name = argv[++i];
        else if (option == "--streams")
            counts = numbers(argv[++i]);
        else if (option == "--rounds")
            rounds = (unsigned)std::max(1, atoi(argv[++i]));
        else if (option == "--launches")
            launches = (unsigned)std::max(1, atoi(argv[++i]));
        else if (option == "--warm")
            warm_ms = atof(argv[++i]);
        else
            return usage("unknown option");
    }
    if (stale) {
        look_for_stale(counts.empty() ? 32 : counts[0], launches, spoil);
        return 0;
    }
    if (counts.empty())
        counts = {2, 5, 16, 64};
    for (auto &kernel : kernels) {
        if (!name || strcmp(kernel.name, name) != 0)
            continue;
        CHECK(cudaFree(NULL)); // the context
        if (kernel.prepare)
            kernel.prepare();
        for (int count : counts)
            compare(kernel, count, rounds, warm_ms, spoil);
        return 0;
    }
    return usage("no kernel of that name");
}
