// SPDX-License-Identifier: Apache-2.0
//
// How fast many tenants of one process get on: each has a stream, a cuBLAS handle, a workspace and matrices of its own,
// and all make the same small operation. Nothing of coissue is in it. Prints a line of JSON for each combination.
//
//   coalesce [--work gemm,gemv,elementwise] [--tenants 120,64,...] [--sides serial,streams,batched,threads]
//            [--threads 4] [--ms N] [--warm N] [--first N]
//
//   serial    one stream and one handle make the operations of all tenants
//   streams   each tenant's operations are in its stream; one thread makes them round robin
//   threads   the same by several threads, each of which has its share of the tenants
//   batched   what the tenants would do if they were one program: cublasSgemmBatched, cublasSgemvBatched, one kernel
//
// A round is DEPTH operations of each tenant, and waiting for all of them; its time is that of the host's clock. Rounds
// are timed for `--ms` after others for `--warm`, and for `--first` where something may be seen for the first time.
// Timed operations overwrite their output. Then come rounds in which each adds to half of what its predecessor left, so
// that one that is lost, doubled or out of order changes the digest.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        int status_ = (int)(call);                                                                                     \
        if (status_ != 0) {                                                                                            \
            fprintf(stderr, "coalesce: line %d: %s: error %d\n", __LINE__, #call, status_);                            \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { DEPTH = 20 };          // operations of each tenant between two waits
enum { WORKSPACE = 4 << 20 }; // bytes, of each handle: kernels that split sums keep semaphores there
enum { CHECK_ROUNDS = 5, ROUNDS_MIN = 10, ROUNDS_MAX = 1000 };

static const int M = 256, N = 128, K = 1152; // a convolution of ResNet as a product of matrices
static const int SIDE = 1024;                // of the matrix that is multiplied by a vector
static const int ELEMENTS = 12544;           // 64 * 14 * 14
static const int BLOCK = 256;

__global__ void fill(float *values, int count, unsigned seed)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < count) {
        unsigned x = i * 747796405u + seed * 2891336453u + 1u;

        x = (x ^ (x >> 16)) * 2246822519u;
        x ^= x >> 13;
        values[i] = (float)(x & 0xffff) / 65536.f - 0.5f;
    }
}

static __device__ void one_element(const float *x, float *y, float scale, float shift, float carry, int i)
{
    float value = x[i] * scale + shift;

    y[i] = (value > 0.f ? value : 0.f) + carry * y[i];
}

__global__ void scale_shift_relu(const float *x, float *y, float scale, float shift, float carry, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < count)
        one_element(x, y, scale, shift, carry, i);
}

// The same for all tenants at once.
__global__ void scale_shift_relu_many(const float *const *x, float *const *y, float scale, float shift, float carry,
                                      int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < count)
        one_element(x[blockIdx.z], y[blockIdx.z], scale, shift, carry, i);
}

struct Work {
    const char *name;
    int a, b, c; // floats of each buffer
};

static const Work works[] = {
    {"gemm", M *K, K *N, M *N},
    {"gemv", SIDE *SIDE, SIDE, SIDE},
    {"elementwise", ELEMENTS, 1, ELEMENTS},
};

struct Tenant {
    float *a, *b, *c;
    cudaStream_t stream;
    cublasHandle_t handle;
    void *workspace;
};

struct Tenants {
    const Work *work;
    std::vector<Tenant> all;
    float **a, **b, **c; // their buffers, for what is batched
};

static float *make_floats(int count, unsigned seed)
{
    float *values;

    CHECK(cudaMalloc(&values, (size_t)count * sizeof(float)));
    fill<<<(count + 255) / 256, 256>>>(values, count, seed);
    CHECK(cudaGetLastError());
    return values;
}

static float **make_table(const std::vector<Tenant> &tenants, float *Tenant::*buffer)
{
    std::vector<float *> pointers;
    float **table;

    for (auto &tenant : tenants)
        pointers.push_back(tenant.*buffer);
    CHECK(cudaMalloc(&table, pointers.size() * sizeof(*table)));
    CHECK(cudaMemcpy(table, pointers.data(), pointers.size() * sizeof(*table), cudaMemcpyHostToDevice));
    return table;
}

// `c` is what operations write; it begins with the same values each time.
static void fill_outputs(const Tenants &tenants, int count)
{
    for (int i = 0; i < count; i++)
        fill<<<(tenants.work->c + 255) / 256, 256>>>(tenants.all[i].c, tenants.work->c, 3 * i + 2);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}

static Tenants make_tenants(const Work &work, int count)
{
    Tenants tenants = {&work};

    for (int i = 0; i < count; i++) {
        Tenant tenant = {};

        tenant.a = make_floats(work.a, 3 * i);
        tenant.b = make_floats(work.b, 3 * i + 1);
        tenant.c = make_floats(work.c, 3 * i + 2);
        CHECK(cudaStreamCreateWithFlags(&tenant.stream, cudaStreamNonBlocking));
        if (strcmp(work.name, "elementwise") != 0) {
            CHECK(cublasCreate(&tenant.handle));
            CHECK(cublasSetStream(tenant.handle, tenant.stream));
            CHECK(cudaMalloc(&tenant.workspace, WORKSPACE));
            CHECK(cudaMemset(tenant.workspace, 0, WORKSPACE));
            CHECK(cublasSetWorkspace(tenant.handle, tenant.workspace, WORKSPACE));
        }
        tenants.all.push_back(tenant);
    }
    tenants.a = make_table(tenants.all, &Tenant::a);
    tenants.b = make_table(tenants.all, &Tenant::b);
    tenants.c = make_table(tenants.all, &Tenant::c);
    CHECK(cudaDeviceSynchronize());
    return tenants;
}

static void end_tenants(Tenants &tenants)
{
    for (auto &tenant : tenants.all) {
        if (tenant.handle)
            CHECK(cublasDestroy(tenant.handle));
        CHECK(cudaFree(tenant.workspace));
        CHECK(cudaFree(tenant.a));
        CHECK(cudaFree(tenant.b));
        CHECK(cudaFree(tenant.c));
        CHECK(cudaStreamDestroy(tenant.stream));
    }
    CHECK(cudaFree(tenants.a));
    CHECK(cudaFree(tenants.b));
    CHECK(cudaFree(tenants.c));
}

// The operation of one tenant, in the stream and with the handle of `by`.
static void operate(const Work &work, const Tenant &tenant, const Tenant &by, float carry)
{
    const float one = 1.f;

    if (&work == &works[0])
        CHECK(cublasSgemm(by.handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &one, tenant.a, M, tenant.b, K, &carry,
                          tenant.c, M));
    else if (&work == &works[1])
        CHECK(cublasSgemv(by.handle, CUBLAS_OP_N, SIDE, SIDE, &one, tenant.a, SIDE, tenant.b, 1, &carry, tenant.c, 1));
    else
        scale_shift_relu<<<(ELEMENTS + BLOCK - 1) / BLOCK, BLOCK, 0, by.stream>>>(tenant.a, tenant.c, 1.1f, 0.1f, carry,
                                                                                  ELEMENTS);
}

static void operate_batched(const Tenants &tenants, int count, float carry)
{
    const Tenant &by = tenants.all[0];
    const float one = 1.f;

    if (tenants.work == &works[0])
        CHECK(cublasSgemmBatched(by.handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &one, tenants.a, M, tenants.b, K, &carry,
                                 tenants.c, M, count));
    else if (tenants.work == &works[1])
        CHECK(cublasSgemvBatched(by.handle, CUBLAS_OP_N, SIDE, SIDE, &one, tenants.a, SIDE, tenants.b, 1, &carry,
                                 tenants.c, 1, count));
    else
        scale_shift_relu_many<<<dim3((ELEMENTS + BLOCK - 1) / BLOCK, 1, count), BLOCK, 0, by.stream>>>(
            tenants.a, tenants.c, 1.1f, 0.1f, carry, ELEMENTS);
}

// ---- rounds ----

static void round_serial(const Tenants &tenants, int count, float carry)
{
    for (int i = 0; i < DEPTH; i++)
        for (int t = 0; t < count; t++)
            operate(*tenants.work, tenants.all[t], tenants.all[0], carry);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(tenants.all[0].stream));
}

static void round_batched(const Tenants &tenants, int count, float carry)
{
    for (int i = 0; i < DEPTH; i++)
        operate_batched(tenants, count, carry);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(tenants.all[0].stream));
}

// Those of `count` tenants that are number `first` and every `step`-th behind it.
static void round_streams(const Tenants &tenants, int first, int step, int count, float carry)
{
    for (int i = 0; i < DEPTH; i++)
        for (int t = first; t < count; t += step)
            operate(*tenants.work, tenants.all[t], tenants.all[t], carry);
    CHECK(cudaGetLastError());
    for (int t = first; t < count; t += step)
        CHECK(cudaStreamSynchronize(tenants.all[t].stream));
}

// Threads that each do their share of a round; the caller is the first of them.
class Crew
{
  public:
    Crew(const Tenants &tenants, int threads, int count) : tenants_(tenants), size_(threads), count_(count)
    {
        for (int i = 1; i < threads; i++)
            threads_.emplace_back([this, i] { work(i); });
    }

    ~Crew()
    {
        ended_ = true;
        round_++;
        for (auto &thread : threads_)
            thread.join();
    }

    void round(float carry)
    {
        carry_ = carry;
        done_ = 1;
        round_++;
        round_streams(tenants_, 0, size_, count_, carry);
        while (done_ < size_)
            __builtin_ia32_pause();
    }

  private:
    void work(int number)
    {
        CHECK(cudaSetDevice(0));
        for (int seen = 0;;) {
            while (round_ == seen)
                __builtin_ia32_pause();
            seen++;
            if (ended_)
                return;
            round_streams(tenants_, number, size_, count_, carry_);
            done_++;
        }
    }

    const Tenants &tenants_;
    const int size_, count_;
    float carry_ = 0.f;
    std::atomic<int> round_{0}, done_{0};
    std::atomic<bool> ended_{false};
    std::vector<std::thread> threads_;
};

// ---- measuring ----

static double now_us()
{
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// FNV-1a over the words of all outputs.
static uint64_t digest(const Tenants &tenants, int count)
{
    std::vector<uint32_t> words(tenants.work->c);
    uint64_t hash = 0xcbf29ce484222325u;

    for (int t = 0; t < count; t++) {
        CHECK(cudaMemcpy(words.data(), tenants.all[t].c, words.size() * sizeof(words[0]), cudaMemcpyDeviceToHost));
        for (uint32_t word : words)
            hash = (hash ^ word) * 0x100000001b3u;
    }
    return hash;
}

struct Times {
    double ms, warm_ms, first_ms;
};

static void measure(const Tenants &tenants, const char *side, int count, int threads, double warm_ms, double ms,
                    const std::function<void(float)> &round)
{
    std::vector<double> times;
    uint64_t overwritten, carried;
    double begin = now_us(), before, after;

    for (int i = 0; i < 3 || now_us() - begin < warm_ms * 1000; i++)
        round(0.f);
    begin = now_us();
    do {
        before = now_us();
        round(0.f);
        after = now_us();
        times.push_back(after - before);
    } while (times.size() < ROUNDS_MIN || (after - begin < ms * 1000 && times.size() < ROUNDS_MAX));
    overwritten = digest(tenants, count);
    fill_outputs(tenants, count);
    for (int i = 0; i < CHECK_ROUNDS; i++)
        round(0.5f);
    carried = digest(tenants, count);
    std::sort(times.begin(), times.end());
    printf(
        "{\"work\": \"%s\", \"side\": \"%s\", \"tenants\": %d, \"threads\": %d, \"operations\": %d, \"rounds\": %zu, "
        "\"us per round\": {\"p10\": %.1f, \"p50\": %.1f, \"p90\": %.1f}, \"digest\": \"%016llx %016llx\"}\n",
        tenants.work->name, side, count, threads, count * DEPTH, times.size(), times[times.size() / 10],
        times[times.size() / 2], times[times.size() * 9 / 10], (unsigned long long)overwritten,
        (unsigned long long)carried);
    fflush(stdout);
}

static bool listed(const std::string &list, const char *word)
{
    return ("," + list + ",").find("," + std::string(word) + ",") != std::string::npos;
}

static void measure_all(const Tenants &tenants, int count, const std::string &sides, int threads, double warm_ms,
                        double ms)
{
    if (listed(sides, "streams"))
        measure(tenants, "streams", count, 1, warm_ms, ms,
                [&](float carry) { round_streams(tenants, 0, 1, count, carry); });
    if (listed(sides, "threads") && count > 1 && threads > 1) {
        Crew crew(tenants, std::min(threads, count), count);

        measure(tenants, "threads", count, std::min(threads, count), warm_ms, ms,
                [&](float carry) { crew.round(carry); });
    }
    if (listed(sides, "serial"))
        measure(tenants, "serial", count, 1, warm_ms, ms, [&](float carry) { round_serial(tenants, count, carry); });
    if (listed(sides, "batched"))
        measure(tenants, "batched", count, 1, warm_ms, ms, [&](float carry) { round_batched(tenants, count, carry); });
}

static std::vector<int> numbers(const char *text)
{
    std::vector<int> found;

    for (const char *at = text; at; at = strchr(at, ','), at = at ? at + 1 : NULL)
        found.push_back(std::max(1, atoi(at)));
    return found;
}

int main(int argc, char **argv)
{
    std::string wanted = "gemm,gemv,elementwise", sides = "serial,streams,batched,threads";
    std::vector<int> counts = {120, 64, 32, 20, 16, 8, 4, 2, 1};
    Times times = {60, 60, 60};
    int threads = 4;

    for (int i = 1; i < argc; i += 2) {
        std::string option = argv[i];
        const char *value = i + 1 < argc ? argv[i + 1] : "";

        if (option == "--work")
            wanted = value;
        else if (option == "--tenants")
            counts = numbers(value);
        else if (option == "--sides")
            sides = value;
        else if (option == "--threads")
            threads = std::max(1, atoi(value));
        else if (option == "--ms")
            times.ms = atof(value);
        else if (option == "--warm")
            times.warm_ms = atof(value);
        else if (option == "--first")
            times.first_ms = atof(value);
        else {
            fprintf(stderr, "coalesce: %s is no option\n", argv[i]);
            return 2;
        }
    }
    for (auto &work : works) {
        Tenants tenants;

        if (!listed(wanted, work.name))
            continue;
        tenants = make_tenants(work, *std::max_element(counts.begin(), counts.end()));
        for (size_t i = 0; i < counts.size(); i++) {
            // The first of all, and the first with few tenants: another kernel may serve those.
            bool first = i == 0 || (counts[i] <= 16 && counts[i - 1] > 16);

            measure_all(tenants, counts[i], sides, threads, first ? times.first_ms : times.warm_ms, times.ms);
        }
        end_tenants(tenants);
    }
    return 0;
}
