// SPDX-License-Identifier: Apache-2.0
//
// Tenants that use cuBLAS and a small kernel of their own, as they would without any thought of a preload: N streams in
// one thread, or N threads with a stream and a handle each. Prints a line of JSON for each combination: a checksum over
// the bits of all outputs, and the time of a round.
//
//   cublas_streams [--work gemm,gemv,elementwise] [--tenants 1,4,16] [--rounds N]
//
// Each operation adds to half of what its predecessor in the stream left, so that one that is lost, doubled, or out of
// order changes the checksum.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        auto status_ = (call);                                                                                         \
        if ((int)status_ != 0) {                                                                                       \
            fprintf(stderr, "cublas_streams: %s:%d: %s: error %d\n", __FILE__, __LINE__, #call, (int)status_);        \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { DEPTH = 20 };          // operations of each tenant between two synchronisations
enum { WORKSPACE = 4 << 20 }; // of each handle: without one of its own, cuBLAS would share it between streams
enum { CHECK_ROUNDS = 5 };

static const int M = 256, N = 128, K = 1152; // a convolution of ResNet as a product of matrices
static const int SIDE = 1024;                // of the matrix that is multiplied by a vector
static const int ELEMENTS = 64 * 14 * 14;

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

__global__ void scale_shift_relu(const float *x, float *y, float scale, float shift, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < count) {
        float value = x[i] * scale + shift;

        y[i] = (value > 0.f ? value : 0.f) + 0.5f * y[i];
    }
}

struct Work {
    const char *name;
    int a, b, c; // floats of each buffer
};

static const Work works[] = {
    {"gemm", M * K, K * N, M * N},
    {"gemv", SIDE * SIDE, SIDE, SIDE},
    {"elementwise", ELEMENTS, 1, ELEMENTS},
};

struct Tenant {
    float *a, *b, *c;
    cudaStream_t stream;
    cublasHandle_t handle;
    void *workspace;
};

static bool needs_cublas(const Work &work)
{
    return strcmp(work.name, "elementwise") != 0;
}

static float *make_floats(int count, unsigned seed, cudaStream_t stream)
{
    float *values;

    CHECK(cudaMalloc(&values, (size_t)count * sizeof(float)));
    fill<<<(count + 255) / 256, 256, 0, stream>>>(values, count, seed);
    CHECK(cudaGetLastError());
    return values;
}

static Tenant make_tenant(const Work &work, int number)
{
    Tenant tenant = {};

    CHECK(cudaStreamCreateWithFlags(&tenant.stream, cudaStreamNonBlocking));
    tenant.a = make_floats(work.a, 3 * number, tenant.stream);
    tenant.b = make_floats(work.b, 3 * number + 1, tenant.stream);
    tenant.c = make_floats(work.c, 3 * number + 2, tenant.stream);
    if (needs_cublas(work)) {
        CHECK(cublasCreate(&tenant.handle));
        CHECK(cublasSetStream(tenant.handle, tenant.stream));
        CHECK(cudaMalloc(&tenant.workspace, WORKSPACE));
        CHECK(cublasSetWorkspace(tenant.handle, tenant.workspace, WORKSPACE));
    }
    CHECK(cudaStreamSynchronize(tenant.stream));
    return tenant;
}

static void end_tenant(Tenant &tenant)
{
    if (tenant.handle)
        CHECK(cublasDestroy(tenant.handle));
    CHECK(cudaFree(tenant.workspace));
    CHECK(cudaFree(tenant.a));
    CHECK(cudaFree(tenant.b));
    CHECK(cudaFree(tenant.c));
    CHECK(cudaStreamDestroy(tenant.stream));
}

static void operate(const Work &work, const Tenant &tenant)
{
    const float one = 1.f, half = 0.5f;

    if (&work == &works[0])
        CHECK(cublasSgemm(tenant.handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &one, tenant.a, M, tenant.b, K, &half,
                          tenant.c, M));
    else if (&work == &works[1])
        CHECK(cublasSgemv(tenant.handle, CUBLAS_OP_N, SIDE, SIDE, &one, tenant.a, SIDE, tenant.b, 1, &half, tenant.c, 1));
    else
        scale_shift_relu<<<(ELEMENTS + 255) / 256, 256, 0, tenant.stream>>>(tenant.a, tenant.c, 1.1f, 0.1f, ELEMENTS);
    CHECK(cudaGetLastError());
}

static double now_us()
{
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// All tenants take turns in one thread: operation by operation, as a server with an event loop would make them.
static std::vector<double> run_streams(const Work &work, std::vector<Tenant> &tenants, int rounds)
{
    std::vector<double> times;

    for (int round = 0; round < rounds; round++) {
        double begin = now_us();

        for (int i = 0; i < DEPTH; i++)
            for (auto &tenant : tenants)
                operate(work, tenant);
        for (auto &tenant : tenants)
            CHECK(cudaStreamSynchronize(tenant.stream));
        times.push_back(now_us() - begin);
    }
    return times;
}

// A thread for each tenant, all of them at once; a round is that of one thread.
static std::vector<double> run_threads(const Work &work, std::vector<Tenant> &tenants, int rounds)
{
    std::vector<std::vector<double>> times(tenants.size());
    std::vector<std::thread> threads;
    std::vector<double> all;
    std::atomic<int> ready{0};

    for (size_t t = 0; t < tenants.size(); t++)
        threads.emplace_back([&, t] {
            CHECK(cudaSetDevice(0));
            ready++;
            while (ready < (int)tenants.size())
                std::this_thread::yield();
            for (int round = 0; round < rounds; round++) {
                double begin = now_us();

                for (int i = 0; i < DEPTH; i++)
                    operate(work, tenants[t]);
                CHECK(cudaStreamSynchronize(tenants[t].stream));
                times[t].push_back(now_us() - begin);
            }
        });
    for (auto &thread : threads)
        thread.join();
    for (auto &some : times)
        all.insert(all.end(), some.begin(), some.end());
    return all;
}

// FNV-1a, 64 bits, over the bytes of all outputs.
static uint64_t checksum(const Work &work, const std::vector<Tenant> &tenants)
{
    std::vector<unsigned char> bytes((size_t)work.c * sizeof(float));
    uint64_t hash = 0xcbf29ce484222325u;

    for (auto &tenant : tenants) {
        CHECK(cudaMemcpy(bytes.data(), tenant.c, bytes.size(), cudaMemcpyDeviceToHost));
        for (unsigned char byte : bytes)
            hash = (hash ^ byte) * 0x100000001b3u;
    }
    return hash;
}

static void measure(const Work &work, bool threads, int count, int rounds)
{
    auto run = threads ? run_threads : run_streams;
    std::vector<Tenant> tenants;
    std::vector<double> times;
    uint64_t sum;
    double begin, seconds;

    for (int i = 0; i < count; i++)
        tenants.push_back(make_tenant(work, i));
    run(work, tenants, CHECK_ROUNDS);
    sum = checksum(work, tenants);
    begin = now_us();
    times = run(work, tenants, rounds);
    seconds = (now_us() - begin) / 1e6;
    std::sort(times.begin(), times.end());
    printf("{\"work\": \"%s\", \"placement\": \"%s\", \"tenants\": %d, \"checksum\": \"%016llx\", \"rounds\": %d, "
           "\"us per round\": {\"p10\": %.1f, \"p50\": %.1f, \"p90\": %.1f, \"p99\": %.1f}, \"operations per second\": %.0f, "
           "\"checksum after\": \"%016llx\"}\n",
           work.name, threads ? "threads" : "streams", count, (unsigned long long)sum, rounds, times[times.size() / 10],
           times[times.size() / 2], times[times.size() * 9 / 10], times[times.size() * 99 / 100],
           (double)count * DEPTH * rounds / seconds, (unsigned long long)checksum(work, tenants));
    fflush(stdout);
    for (auto &tenant : tenants)
        end_tenant(tenant);
}

int main(int argc, char **argv)
{
    std::string wanted = "gemm,gemv,elementwise", numbers = "1,4,16";
    int rounds = 60;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--work"))
            wanted = argv[i + 1];
        else if (!strcmp(argv[i], "--tenants"))
            numbers = argv[i + 1];
        else if (!strcmp(argv[i], "--rounds"))
            rounds = std::max(1, atoi(argv[i + 1]));
        else {
            fprintf(stderr, "cublas_streams: %s is no option\n", argv[i]);
            return 2;
        }
    }
    for (auto &work : works) {
        if (("," + wanted + ",").find("," + std::string(work.name) + ",") == std::string::npos)
            continue;
        for (int threads = 0; threads < 2; threads++)
            for (const char *at = numbers.c_str(); at; at = strchr(at, ','), at = at ? at + 1 : NULL)
                measure(work, threads, std::max(1, atoi(at)), rounds);
    }
    return 0;
}
