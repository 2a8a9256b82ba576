/* SPDX-License-Identifier: Apache-2.0
 *
 * What is run with and without coissue: tenants that classify. Each has a stream, memory and data of its own. Half of
 * them are threads; the others are streams that one thread serves in turn, as an event loop would.
 *
 * The first round warms up (kernels are loaded at their first launch) and is not timed, but its results count.
 */
#include "demo/demo.h"

#include "base/base.h"
#include "base/clock.h"
#include "demo/kernels_ptx.h"
#include "driver/driver.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIDE = 32, /* as in kernels.cu, and TILE */
    TILE = 16,
    VALUES = SIDE * SIDE,
    LAYERS = 2,
    VERSION_ASKED = 12000, /* functions as CUDA 12.0 has them: every version since gives those */
};

const unsigned int workload_launches = 2 * LAYERS + 3;

/* A tenant's device memory, in floats. */
enum { INPUT = 0, WEIGHTS = VALUES, BIAS = WEIGHTS + (LAYERS + 1) * VALUES, WORK = BIAS + SIDE };
enum { LARGEST = WORK + 2 * VALUES, OUTPUT = LARGEST + SIDE, MEMORY_FLOATS = OUTPUT + VALUES };

static struct cu_driver driver;

static struct {
    CUcontext context;
    CUmodule module;
    CUfunction multiply, bias_relu, row_maximum, softmax;
} gpu;

struct tenant {
    unsigned int number;
    CUstream stream;
    CUdeviceptr memory;
    float *host; /* pinned: VALUES of input, VALUES of output */
    uint64_t hash;
    uint64_t launches;
};

struct worker {
    pthread_t thread;
    struct tenant *tenants; /* borrowed */
    unsigned int tenant_count, rounds;
};

static pthread_barrier_t start_line;
static _Atomic bool failed;

/* Says the first failure only: the others follow from it. */
static bool check(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return true;
    if (!atomic_exchange(&failed, true))
        complain("%s: %s (%d)", what, cu_result_name(result), (int)result);
    return false;
}

#define call(function, ...) check(driver.function(__VA_ARGS__), #function)

/* --- the driver, as the CUDA runtime finds it --- */

/* Names without version, and where the function goes. */
static const struct {
    const char *name;
    void **place;
} functions[] = {
    {"cuInit", (void **)&driver.cuInit},
    {"cuDeviceGetCount", (void **)&driver.cuDeviceGetCount},
    {"cuDeviceGet", (void **)&driver.cuDeviceGet},
    {"cuDeviceGetName", (void **)&driver.cuDeviceGetName},
    {"cuDevicePrimaryCtxRetain", (void **)&driver.cuDevicePrimaryCtxRetain},
    {"cuDevicePrimaryCtxRelease", (void **)&driver.cuDevicePrimaryCtxRelease_v2},
    {"cuCtxSetCurrent", (void **)&driver.cuCtxSetCurrent},
    {"cuModuleLoadData", (void **)&driver.cuModuleLoadData},
    {"cuModuleUnload", (void **)&driver.cuModuleUnload},
    {"cuModuleGetFunction", (void **)&driver.cuModuleGetFunction},
    {"cuMemAlloc", (void **)&driver.cuMemAlloc_v2},
    {"cuMemFree", (void **)&driver.cuMemFree_v2},
    {"cuMemHostAlloc", (void **)&driver.cuMemHostAlloc},
    {"cuMemFreeHost", (void **)&driver.cuMemFreeHost},
    {"cuMemcpyHtoD", (void **)&driver.cuMemcpyHtoD_v2},
    {"cuMemcpyHtoDAsync", (void **)&driver.cuMemcpyHtoDAsync_v2},
    {"cuMemcpyDtoHAsync", (void **)&driver.cuMemcpyDtoHAsync_v2},
    {"cuLaunchKernel", (void **)&driver.cuLaunchKernel},
    {"cuStreamCreate", (void **)&driver.cuStreamCreate},
    {"cuStreamSynchronize", (void **)&driver.cuStreamSynchronize},
    {"cuStreamDestroy", (void **)&driver.cuStreamDestroy_v2},
};

static void name_file_of(const void *address, char *path, size_t size)
{
    Dl_info info;

    snprintf(path, size, "%s", dladdr(address, &info) && info.dli_fname ? info.dli_fname : "");
}

static bool load_driver(bool verbose, struct child_report *report)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    typeof(driver.cuGetProcAddress_v2) ask;

    if (!library) {
        if (verbose)
            complain("%s", dlerror());
        return false;
    }
    *(void **)&ask = dlsym(library, "cuGetProcAddress_v2");
    if (!ask) {
        if (verbose)
            complain("this driver is older than CUDA 12.0: it has no cuGetProcAddress_v2");
        return false;
    }
    for (size_t i = 0; i < array_length(functions); i++) {
        CUdriverProcAddressQueryResult status = 0;
        CUresult result =
            ask(functions[i].name, functions[i].place, VERSION_ASKED, CU_GET_PROC_ADDRESS_DEFAULT, &status);

        if (result != CUDA_SUCCESS || !*functions[i].place) {
            if (verbose)
                complain("the driver does not give %s: %s", functions[i].name, cu_result_name(result));
            return false;
        }
    }
    /* Nobody stands in front of a function that only answers, so it is in the driver's own file. */
    name_file_of((void *)driver.cuDeviceGetCount, report->driver, sizeof(report->driver));
    name_file_of((void *)driver.cuLaunchKernel, report->shim, sizeof(report->shim));
    if (strcmp(report->shim, report->driver) == 0)
        report->shim[0] = '\0';
    return true;
}

int workload_probe(bool verbose, struct child_report *report)
{
    CUresult result;
    int count = 0;

    if (!load_driver(verbose, report))
        return 1;
    result = driver.cuInit(0);
    if (result == CUDA_SUCCESS)
        result = driver.cuDeviceGetCount(&count);
    if (result != CUDA_SUCCESS || !count) {
        if (verbose)
            complain("%s: %s", report->driver, result ? cu_result_name(result) : "no device");
        return 1;
    }
    return 0;
}

static bool open_gpu(struct child_report *report)
{
    CUdevice device = 0;

    return call(cuInit, 0) && call(cuDeviceGet, &device, 0) &&
           call(cuDeviceGetName, report->device, sizeof(report->device), device) &&
           call(cuDevicePrimaryCtxRetain, &gpu.context, device) && call(cuCtxSetCurrent, gpu.context) &&
           call(cuModuleLoadData, &gpu.module, kernels_ptx) &&
           call(cuModuleGetFunction, &gpu.multiply, gpu.module, "multiply") &&
           call(cuModuleGetFunction, &gpu.bias_relu, gpu.module, "bias_relu") &&
           call(cuModuleGetFunction, &gpu.row_maximum, gpu.module, "row_maximum") &&
           call(cuModuleGetFunction, &gpu.softmax, gpu.module, "softmax");
}

static void close_gpu(void)
{
    if (gpu.module)
        driver.cuModuleUnload(gpu.module);
    if (gpu.context)
        driver.cuDevicePrimaryCtxRelease_v2(0);
}

/* --- tenants --- */

/* Numbers in [-0.5, 0.5), the same in every run. The generator is Knuth's MMIX linear congruence. */
static void fill(float *values, unsigned int count, uint64_t seed)
{
    for (unsigned int i = 0; i < count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        values[i] = (float)(seed >> 40) / (1 << 24) - 0.5f;
    }
}

static CUdeviceptr device_address(const struct tenant *tenant, unsigned int floats)
{
    return tenant->memory + floats * sizeof(float);
}

static bool open_tenant(struct tenant *tenant, unsigned int number)
{
    enum { MODEL_FLOATS = WORK - WEIGHTS };
    float model[MODEL_FLOATS];

    tenant->number = number;
    tenant->hash = 14695981039346656037u; /* FNV-1a, 64 bits */
    fill(model, MODEL_FLOATS, 1000 + number);
    return call(cuMemAlloc_v2, &tenant->memory, MEMORY_FLOATS * sizeof(float)) &&
           call(cuMemHostAlloc, (void **)&tenant->host, 2 * VALUES * sizeof(float), 0) &&
           call(cuStreamCreate, &tenant->stream, CU_STREAM_NON_BLOCKING) &&
           call(cuMemcpyHtoD_v2, device_address(tenant, WEIGHTS), model, sizeof(model));
}

static void close_tenant(struct tenant *tenant)
{
    if (tenant->stream)
        driver.cuStreamDestroy_v2(tenant->stream);
    if (tenant->host)
        driver.cuMemFreeHost(tenant->host);
    if (tenant->memory)
        driver.cuMemFree_v2(tenant->memory);
}

static bool launch(struct tenant *tenant, CUfunction function, unsigned int grid_x, unsigned int grid_y,
                   unsigned int block_x, unsigned int block_y, void **parameters)
{
    tenant->launches++;
    return call(cuLaunchKernel, function, grid_x, grid_y, 1, block_x, block_y, 1, 0, tenant->stream, parameters, NULL);
}

static bool multiply(struct tenant *tenant, CUdeviceptr out, CUdeviceptr in, unsigned int layer)
{
    CUdeviceptr weights = device_address(tenant, WEIGHTS + layer * VALUES);

    return launch(tenant, gpu.multiply, SIDE / TILE, SIDE / TILE, TILE, TILE, (void *[]){&out, &in, &weights});
}

static bool bias_relu(struct tenant *tenant, CUdeviceptr values)
{
    CUdeviceptr bias = device_address(tenant, BIAS);
    int count = VALUES;

    return launch(tenant, gpu.bias_relu, VALUES / 256, 1, 256, 1, (void *[]){&values, &bias, &count});
}

static bool classify(struct tenant *tenant, CUdeviceptr values)
{
    CUdeviceptr largest = device_address(tenant, LARGEST), out = device_address(tenant, OUTPUT);

    return launch(tenant, gpu.row_maximum, SIDE, 1, SIDE, 1, (void *[]){&largest, &values}) &&
           launch(tenant, gpu.softmax, SIDE, 1, SIDE, 1, (void *[]){&out, &values, &largest});
}

static bool send(struct tenant *tenant, unsigned int round)
{
    fill(tenant->host, VALUES, (uint64_t)tenant->number << 32 | round);
    return call(cuMemcpyHtoDAsync_v2, device_address(tenant, INPUT), tenant->host, VALUES * sizeof(float),
                tenant->stream);
}

static bool compute(struct tenant *tenant)
{
    CUdeviceptr in = device_address(tenant, INPUT);

    for (unsigned int layer = 0; layer < LAYERS; layer++) {
        CUdeviceptr out = device_address(tenant, WORK + layer % 2 * VALUES);

        if (!multiply(tenant, out, in, layer) || !bias_relu(tenant, out))
            return false;
        in = out;
    }
    return multiply(tenant, device_address(tenant, WORK + LAYERS % 2 * VALUES), in, LAYERS) &&
           classify(tenant, device_address(tenant, WORK + LAYERS % 2 * VALUES));
}

static bool fetch(struct tenant *tenant)
{
    return call(cuMemcpyDtoHAsync_v2, tenant->host + VALUES, device_address(tenant, OUTPUT), VALUES * sizeof(float),
                tenant->stream);
}

/* Two runs can agree on nonsense, so each looks at what it got: rows of probabilities add up to 1. */
static bool take(struct tenant *tenant, unsigned int round)
{
    const float *out = tenant->host + VALUES;
    const unsigned char *bytes = (const unsigned char *)out;

    if (!call(cuStreamSynchronize, tenant->stream))
        return false;
    for (unsigned int row = 0; row < SIDE; row++) {
        float sum = 0;

        for (unsigned int i = 0; i < SIDE; i++)
            sum += out[row * SIDE + i];
        if (!(fabsf(sum - 1) < 1e-3f)) { /* rounding leaves 32 values within 1e-5 */
            if (!atomic_exchange(&failed, true))
                complain("tenant %u, round %u: row %u of the result adds up to %g, not 1", tenant->number, round, row,
                         (double)sum);
            return false;
        }
    }
    for (size_t i = 0; i < VALUES * sizeof(float); i++)
        tenant->hash = (tenant->hash ^ bytes[i]) * 1099511628211u;
    memset(tenant->host + VALUES, 0, VALUES * sizeof(float)); /* what stays there is not the next round's */
    return true;
}

static bool run_round(const struct worker *worker, unsigned int round)
{
    struct tenant *tenants = worker->tenants;
    bool fine = !atomic_load(&failed);

    for (unsigned int i = 0; fine && i < worker->tenant_count; i++)
        fine = send(&tenants[i], round);
    for (unsigned int i = 0; fine && i < worker->tenant_count; i++)
        fine = compute(&tenants[i]);
    for (unsigned int i = 0; fine && i < worker->tenant_count; i++)
        fine = fetch(&tenants[i]);
    for (unsigned int i = 0; fine && i < worker->tenant_count; i++)
        fine = take(&tenants[i], round);
    return fine;
}

static void *worker_main(void *arg)
{
    const struct worker *worker = arg;
    bool fine = call(cuCtxSetCurrent, gpu.context) && run_round(worker, 0);

    /* Also after a failure: the others wait here for everybody. */
    pthread_barrier_wait(&start_line);
    for (unsigned int round = 1; fine && round <= worker->rounds; round++)
        fine = run_round(worker, round);
    return NULL;
}

/* --- all of it --- */

/* Starts a thread for each worker. If one cannot be started, nothing can be shown, and the process ends. */
static uint64_t run_workers(struct worker *workers, unsigned int count)
{
    uint64_t begin_ns;

    pthread_barrier_init(&start_line, NULL, count + 1);
    for (unsigned int i = 0; i < count; i++) {
        int error = pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]);

        if (error) {
            complain("cannot start thread %u of %u: %s", i + 1, count, strerror(error));
            exit(1);
        }
    }
    pthread_barrier_wait(&start_line);
    begin_ns = clock_ns();
    for (unsigned int i = 0; i < count; i++)
        pthread_join(workers[i].thread, NULL);
    pthread_barrier_destroy(&start_line);
    return clock_ns() - begin_ns;
}

int workload_run(unsigned int tenants_wanted, unsigned int rounds, struct child_report *report)
{
    static struct tenant tenants[TENANTS_MAX];
    static struct worker workers[TENANTS_MAX];
    unsigned int threaded = threaded_tenants(tenants_wanted), opened = 0, worker_count = 0;

    if (!load_driver(true, report))
        return 1;
    if (!open_gpu(report))
        goto out;
    for (; opened < tenants_wanted; opened++)
        if (!open_tenant(&tenants[opened], opened))
            goto out;
    for (; worker_count < threaded; worker_count++)
        workers[worker_count] = (struct worker){.tenants = &tenants[worker_count], .tenant_count = 1, .rounds = rounds};
    if (tenants_wanted > threaded)
        workers[worker_count++] =
            (struct worker){.tenants = &tenants[threaded], .tenant_count = tenants_wanted - threaded, .rounds = rounds};
    report->time_ns = run_workers(workers, worker_count);
    for (unsigned int i = 0; i < tenants_wanted; i++) {
        report->hashes[i] = tenants[i].hash;
        report->launches_made += tenants[i].launches;
    }
out:
    for (unsigned int i = 0; i <= opened && i < tenants_wanted; i++)
        close_tenant(&tenants[i]);
    close_gpu();
    return atomic_load(&failed) ? 1 : 0;
}
