/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that knows what its results must be. It launches kernels in several streams, with copies and sets between
 * them, and after each burst compares all that it has with what the host computed. So a launch that is lost, done twice
 * or out of order shows, whoever makes it and whatever dies meanwhile. It knows nothing of coissue.
 *
 *   client [options]
 *     --launches N      in each stream (default 200); 0: until --until
 *     --until FILE      goes on until that file exists
 *     --streams N       (default 2)
 *     --kernels N       different ones, in turn (default 2)
 *     --elements N      that a launch changes (default 256)
 *     --burst N         launches of a stream between two checks (default 20)
 *     --sleep-us N      between bursts
 *     --copies          copies and sets of all kinds between the launches
 *     --kill-at N       ends by SIGKILL after so many launches, with work in flight
 *     --fault-at N      a kernel that writes to address 8, after so many launches
 *     --say             a line "ready" when the device is set up, and one with the number of each burst
 *
 * The kernel: counter += 1, and data[i] = data[i] * 3 + 1 + number of the kernel. The counter is changed by an atomic,
 * so that a launch that was done twice at the same time is seen as well.
 *
 * The last line is JSON:
 *   launches       that the driver took
 *   bursts         that were checked
 *   wrong          values that are not what they should be, in bursts that ended without an error
 *   checksum       of all data at the last check; the same for the same options
 *   error, call    the first result that is not success, and of what; then the program ends, as programs do
 *   error_ns       when
 *   longest_us     the longest burst, from its first call to the end of its check
 *   longest_ns     when that began; times are CLOCK_MONOTONIC
 *   begin_ns, end_ns
 * Exit status: 0 all right, 1 wrong values, 2 the options, 3 an error of the driver.
 */
#include "driver/driver.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STREAMS_MAX = 64, KERNELS_MAX = 64, ELEMENTS_MAX = 1 << 20, BLOCK = 64 };

static struct {
    unsigned long launches, kill_at, fault_at, sleep_us;
    unsigned streams, kernels, elements, burst;
    const char *until;
    bool copies, say;
} options = {.launches = 200, .streams = 2, .kernels = 2, .elements = 256, .burst = 20};

struct tenant {
    CUstream stream;
    CUdeviceptr data, counter, spare;
    uint32_t *expected, *found, *staging; /* found: pageable; staging: pinned */
    uint32_t launches;
};

static struct cu_driver cuda;
static struct tenant tenants[STREAMS_MAX];
static CUfunction kernels[KERNELS_MAX], fault;
static struct {
    unsigned long launches, bursts, wrong;
    uint64_t begin_ns, longest_us, longest_ns, error_ns;
    CUresult error;
    const char *call;
} result;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static _Noreturn void finish(void)
{
    uint64_t checksum = 14695981039346656037u; /* FNV-1a, by words */

    for (unsigned s = 0; s < options.streams; s++)
        for (unsigned i = 0; tenants[s].found && i < options.elements; i++)
            checksum = (checksum ^ tenants[s].found[i]) * 1099511628211u;
    printf("{\"launches\": %lu, \"bursts\": %lu, \"wrong\": %lu, \"checksum\": \"%016lx\", \"error\": %d, \"call\": "
           "\"%s\", \"error_ns\": %lu, \"longest_us\": %lu, \"longest_ns\": %lu, \"begin_ns\": %lu, \"end_ns\": %lu}\n",
           result.launches, result.bursts, result.wrong, (unsigned long)checksum, (int)result.error,
           result.call ? result.call : "", (unsigned long)result.error_ns, (unsigned long)result.longest_us,
           (unsigned long)result.longest_ns, (unsigned long)result.begin_ns, (unsigned long)now_ns());
    fflush(stdout);
    exit(result.error ? 3 : result.wrong ? 1 : 0);
}

static void check(CUresult answer, const char *call)
{
    if (answer == CUDA_SUCCESS)
        return;
    result.error = answer;
    result.call = call;
    result.error_ns = now_ns();
    finish();
}
#define CALL(function, ...) check(cuda.function(__VA_ARGS__), #function)

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

static char *kernel_text(void)
{
    static const char body[] =
        ".visible .entry step_%u(.param .u64 counter, .param .u64 data, .param .u32 n) {\n"
        ".reg .u64 %%rd<6>; .reg .u32 %%r<9>; .reg .pred %%p<3>;\n"
        "ld.param.u64 %%rd1, [counter]; ld.param.u64 %%rd2, [data]; ld.param.u32 %%r1, [n];\n"
        "mov.u32 %%r2, %%ctaid.x; mov.u32 %%r3, %%ntid.x; mov.u32 %%r4, %%tid.x;\n"
        "mad.lo.s32 %%r5, %%r2, %%r3, %%r4;\n"
        "setp.ne.u32 %%p1, %%r5, 0;\n@%%p1 bra $no_count;\n"
        "cvta.to.global.u64 %%rd3, %%rd1;\natom.global.add.u32 %%r6, [%%rd3], 1;\n"
        "$no_count:\nsetp.ge.u32 %%p2, %%r5, %%r1;\n@%%p2 bra $done;\n"
        "cvta.to.global.u64 %%rd4, %%rd2;\nmul.wide.u32 %%rd5, %%r5, 4;\nadd.s64 %%rd5, %%rd4, %%rd5;\n"
        "ld.global.u32 %%r7, [%%rd5];\nmad.lo.u32 %%r8, %%r7, 3, %u;\nst.global.u32 [%%rd5], %%r8;\n"
        "$done:\nret;\n}\n";
    static const char stray[] = ".visible .entry stray(.param .u64 p) {\n.reg .u64 %rd<3>;\n"
                                "ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd2, %rd1;\n"
                                "st.global.u32 [%rd2], 1;\nret;\n}\n";
    char *text = malloc((sizeof(body) + 16) * (options.kernels + 1) + sizeof(stray) + 100), *at = text;

    if (!text)
        exit(2);
    at += sprintf(at, ".version 7.0\n.target sm_80\n.address_size 64\n%s", stray);
    for (unsigned k = 0; k < options.kernels; k++)
        at += sprintf(at, body, k, 1 + k);
    return text;
}

static void *lookup(void *library, const char *symbol)
{
    return dlsym(library, symbol);
}

static void set_up_tenant(struct tenant *tenant, unsigned number)
{
    size_t bytes = options.elements * sizeof(uint32_t);
    void *staging = NULL;

    CALL(cuStreamCreate, &tenant->stream, CU_STREAM_NON_BLOCKING);
    CALL(cuMemAlloc_v2, &tenant->data, bytes);
    CALL(cuMemAlloc_v2, &tenant->spare, bytes);
    CALL(cuMemAlloc_v2, &tenant->counter, sizeof(uint32_t));
    CALL(cuMemHostAlloc, &staging, bytes, 0);
    tenant->staging = staging;
    tenant->expected = calloc(options.elements, sizeof(uint32_t));
    tenant->found = calloc(options.elements, sizeof(uint32_t));
    if (!tenant->expected || !tenant->found)
        exit(2);
    for (unsigned i = 0; i < options.elements; i++)
        tenant->expected[i] = i * 2654435761u + number;
    CALL(cuMemcpyHtoD_v2, tenant->data, tenant->expected, bytes);
    CALL(cuMemsetD32_v2, tenant->counter, 0, 1);
    CALL(cuMemsetD8_v2, tenant->spare, 0, bytes);
}

static void set_up(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    char *text = kernel_text(), name[32];
    CUcontext context;
    CUmodule module;
    CUdevice device;

    if (!library) {
        fprintf(stderr, "client: %s\n", dlerror());
        exit(2);
    }
    cu_driver_fill(&cuda, lookup, library);
    CALL(cuInit, 0);
    CALL(cuDeviceGet, &device, 0);
    CALL(cuDevicePrimaryCtxRetain, &context, device);
    CALL(cuCtxSetCurrent, context);
    CALL(cuModuleLoadData, &module, text);
    free(text);
    for (unsigned k = 0; k < options.kernels; k++) {
        snprintf(name, sizeof(name), "step_%u", k);
        CALL(cuModuleGetFunction, &kernels[k], module, name);
    }
    CALL(cuModuleGetFunction, &fault, module, "stray");
    for (unsigned s = 0; s < options.streams; s++)
        set_up_tenant(&tenants[s], s);
    CALL(cuCtxSynchronize);
}

/* ---- work -------------------------------------------------------------------------------------------------------- */

static void launch(struct tenant *tenant)
{
    unsigned number = tenant->launches % options.kernels, blocks = (options.elements + BLOCK - 1) / BLOCK;
    void *parameters[] = {&tenant->counter, &tenant->data, &options.elements};

    if (options.kill_at && result.launches == options.kill_at)
        raise(SIGKILL);
    if (options.fault_at && result.launches == options.fault_at) {
        CUdeviceptr nowhere = 8;

        CALL(cuLaunchKernel, fault, 1, 1, 1, 1, 1, 1, 0, tenant->stream, (void *[]){&nowhere}, NULL);
    }
    CALL(cuLaunchKernel, kernels[number], blocks, 1, 1, BLOCK, 1, 1, 0, tenant->stream, parameters, NULL);
    for (unsigned i = 0; i < options.elements; i++)
        tenant->expected[i] = tenant->expected[i] * 3 + 1 + number;
    tenant->launches++;
    result.launches++;
}

/* Each kind in turn. They must keep their place between launches; values say whether they did. */
static void something_else(struct tenant *tenant)
{
    size_t bytes = options.elements * sizeof(uint32_t);
    unsigned some = options.elements / 4;

    switch (tenant->launches % 5) {
    case 0: /* there and back again, on the device */
        CALL(cuMemcpyDtoDAsync_v2, tenant->spare, tenant->data, bytes, tenant->stream);
        CALL(cuMemsetD32Async, tenant->data, 0xdead, options.elements, tenant->stream);
        CALL(cuMemcpyAsync, tenant->data, tenant->spare, bytes, tenant->stream);
        break;
    case 1:
        CALL(cuMemsetD32Async, tenant->data, tenant->launches, some, tenant->stream);
        for (unsigned i = 0; i < some; i++)
            tenant->expected[i] = tenant->launches;
        break;
    case 2: { /* from memory of the stack, which may be used again at once */
        uint32_t values[4] = {tenant->launches, 1, 2, 3};

        CALL(cuMemcpyHtoDAsync_v2, tenant->data + 4 * some, values, sizeof(values[0]) * (some < 4 ? some : 4),
             tenant->stream);
        memcpy(tenant->expected + some, values, sizeof(values[0]) * (some < 4 ? some : 4));
        memset(values, 0xff, sizeof(values));
        break;
    }
    case 3: /* complete when the call returns */
        CALL(cuMemcpyDtoHAsync_v2, tenant->found, tenant->data, bytes, tenant->stream);
        result.wrong += memcmp(tenant->found, tenant->expected, bytes) != 0;
        break;
    default: /* through pinned memory */
        CALL(cuMemcpyDtoHAsync_v2, tenant->staging, tenant->data, bytes, tenant->stream);
        CALL(cuMemsetD8Async, tenant->data, 0xee, bytes, tenant->stream);
        CALL(cuMemcpyHtoDAsync_v2, tenant->data, tenant->staging, bytes, tenant->stream);
        CALL(cuStreamSynchronize, tenant->stream); /* `staging` is used again */
        break;
    }
}

static void check_tenant(struct tenant *tenant)
{
    uint32_t counter = 0;

    CALL(cuMemcpyDtoH_v2, &counter, tenant->counter, sizeof(counter));
    CALL(cuMemcpyDtoH_v2, tenant->found, tenant->data, options.elements * sizeof(uint32_t));
    if (counter != tenant->launches) {
        fprintf(stderr, "client: %u launches left %u effects\n", tenant->launches, counter);
        result.wrong++;
    }
    for (unsigned i = 0; i < options.elements; i++)
        result.wrong += tenant->found[i] != tenant->expected[i];
}

static void one_burst(unsigned long launches)
{
    uint64_t begin_ns = now_ns(), took_us;

    for (unsigned long i = 0; i < launches; i++) {
        for (unsigned s = 0; s < options.streams; s++) {
            launch(&tenants[s]);
            if (options.copies && (i + s) % 3 == 0)
                something_else(&tenants[s]);
        }
    }
    for (unsigned s = 0; s < options.streams; s++)
        CALL(cuStreamSynchronize, tenants[s].stream);
    for (unsigned s = 0; s < options.streams; s++)
        check_tenant(&tenants[s]);
    result.bursts++;
    took_us = (now_ns() - begin_ns) / 1000;
    if (took_us > result.longest_us) {
        result.longest_us = took_us;
        result.longest_ns = begin_ns;
    }
    if (options.say) {
        printf("burst %lu\n", result.bursts);
        fflush(stdout);
    }
    if (options.sleep_us)
        usleep((useconds_t)options.sleep_us);
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static unsigned long number_of(const char *text, unsigned long low, unsigned long high)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (!*text || *end || value < low || value > high) {
        fprintf(stderr, "client: '%s' is not a number from %lu to %lu\n", text, low, high);
        exit(2);
    }
    return value;
}

static void read_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";

        if (strcmp(name, "--copies") == 0) {
            options.copies = true;
            continue;
        }
        if (strcmp(name, "--say") == 0) {
            options.say = true;
            continue;
        }
        i++;
        if (strcmp(name, "--launches") == 0)
            options.launches = number_of(value, 0, 100000000);
        else if (strcmp(name, "--until") == 0)
            options.until = value;
        else if (strcmp(name, "--streams") == 0)
            options.streams = (unsigned)number_of(value, 1, STREAMS_MAX);
        else if (strcmp(name, "--kernels") == 0)
            options.kernels = (unsigned)number_of(value, 1, KERNELS_MAX);
        else if (strcmp(name, "--elements") == 0)
            options.elements = (unsigned)number_of(value, 16, ELEMENTS_MAX);
        else if (strcmp(name, "--burst") == 0)
            options.burst = (unsigned)number_of(value, 1, 100000);
        else if (strcmp(name, "--sleep-us") == 0)
            options.sleep_us = number_of(value, 0, 999999);
        else if (strcmp(name, "--kill-at") == 0)
            options.kill_at = number_of(value, 1, 100000000);
        else if (strcmp(name, "--fault-at") == 0)
            options.fault_at = number_of(value, 1, 100000000);
        else {
            fprintf(stderr, "client: unknown option '%s'\n", name);
            exit(2);
        }
    }
    if (!options.launches && !options.until) {
        fprintf(stderr, "client: without --launches there must be --until\n");
        exit(2);
    }
}

int main(int argc, char **argv)
{
    unsigned long left;

    read_options(argc, argv);
    set_up();
    result.begin_ns = now_ns();
    if (options.say) {
        puts("ready");
        fflush(stdout);
    }
    if (options.until)
        while (access(options.until, F_OK) != 0)
            one_burst(options.burst);
    for (left = options.launches; left > 0; left -= left < options.burst ? left : options.burst)
        one_burst(left < options.burst ? left : options.burst);
    finish();
}
