/* SPDX-License-Identifier: Apache-2.0
 *
 * The client's memory on the simulated device. The calls are those of the library, linked into this program; the
 * connection to the broker is a double, which keeps a list of what it was told and can refuse.
 */
#include "base/base.h"
#include "engine/engine.h"
#include "shim/remote_memory.h"
#include "shim/remote_private.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define OK(call) cr_assert_eq(call, CUDA_SUCCESS, #call)
#define BASE UINT64_C(0x200000000000)
#define RANGE (UINT64_C(1) << 40)
enum { MIB = 1 << 20, KNOWN_MAX = 256 };

/* --- the rest of the library, as far as it is asked --- */

static struct shim_words words;
static struct engine engine;
struct shim_words *const shim_words = &words;
struct engine *shim_engine = &engine;
struct cu_driver shim_driver;

void *shim_real_late(enum cu_entry entry)
{
    return NULL;
}

CUcontext order_current_context(void)
{
    CUcontext context = NULL;

    shim_driver.cuCtxGetCurrent(&context);
    return context;
}

void order_stream(struct stream_key key, enum cu_entry entry)
{
}

void order_context(CUcontext context, enum cu_entry entry)
{
}

void order_all(enum cu_entry entry)
{
}

CUresult order_result(CUresult result)
{
    return result;
}

/* --- the double of the connection --- */

static struct remote remote;
static bool there = true; /* is there a broker? */
static int refusal;       /* what it answers to WIRE_MEMORY */
static int drains;
static struct {
    uint64_t base, bytes;
    uint32_t kind;
    char *view; /* the same memory, elsewhere */
} known[KNOWN_MAX];
static int known_count;

struct remote *remote_of(CUdevice device)
{
    return there && device == remote.device ? &remote : NULL;
}

struct remote *remote_current(void)
{
    return there ? &remote : NULL;
}

bool remote_drain(struct remote *which)
{
    drains++;
    return true;
}

static int learn(const struct wire_request *request, int fd)
{
    struct stat info;

    if (refusal)
        return refusal;
    cr_assert_lt(known_count, KNOWN_MAX);
    cr_assert_eq(fstat(fd, &info), 0);
    cr_assert_eq((uint64_t)info.st_size, request->memory.bytes);
    cr_assert_geq(request->memory.base, BASE);
    cr_assert_leq(request->memory.base + request->memory.bytes, BASE + RANGE);
    for (int i = 0; i < known_count; i++)
        cr_assert(request->memory.base >= known[i].base + known[i].bytes ||
                  known[i].base >= request->memory.base + request->memory.bytes);
    known[known_count].base = request->memory.base;
    known[known_count].bytes = request->memory.bytes;
    known[known_count].kind = request->memory.kind;
    known[known_count].view = mmap(NULL, request->memory.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert_neq(known[known_count++].view, MAP_FAILED);
    return 0;
}

int remote_request(struct remote *which, struct wire_request *request, const int *fds, size_t count,
                   struct wire_reply *reply)
{
    if (request->type == WIRE_MEMORY) {
        cr_assert_eq(count, 1);
        return learn(request, fds[0]);
    }
    cr_assert_eq(request->type, (uint32_t)WIRE_FORGET);
    for (int i = 0; i < known_count; i++) {
        if (known[i].base != request->memory.base)
            continue;
        munmap(known[i].view, known[i].bytes);
        known[i] = known[--known_count];
        return 0;
    }
    cr_assert_fail("something was forgotten that was not known");
    return -ENOENT;
}

/* Where the broker sees an address. */
static char *broker_view(uint64_t address)
{
    for (int i = 0; i < known_count; i++)
        if (address - known[i].base < known[i].bytes)
            return known[i].view + (address - known[i].base);
    cr_assert_fail("the broker does not have 0x%llx", (unsigned long long)address);
    return NULL;
}

/* --- around each test --- */

static CUcontext context;
static size_t free_before;

static void *look_up(void *library, const char *symbol)
{
    return dlsym(library, symbol);
}

static size_t free_bytes(void)
{
    size_t bytes, total;

    OK(shim_driver.cuMemGetInfo_v2(&bytes, &total));
    return bytes;
}

static void begin(void)
{
    void *library = dlopen(SIMCUDA, RTLD_NOW | RTLD_LOCAL);

    cr_assert_not_null(library, "%s", dlerror());
    cu_driver_fill(&shim_driver, look_up, library);
    OK(shim_driver.cuInit(0));
    OK(shim_driver.cuCtxCreate_v2(&context, 0, 0));
    words.active = 1;
    remote.state = REMOTE_ALIVE;
    remote.base = BASE;
    remote.bytes = RANGE;
    free_before = free_bytes();
}

TestSuite(remote_memory, .init = begin);

/* Nothing but the spare chunks is left. */
static void all_is_given_back(void)
{
    uint64_t spare = 0;

    for (int i = 0; i < known_count; i++)
        spare += known[i].kind == WIRE_DEVICE_MEMORY ? known[i].bytes : 0;
    cr_assert_leq(known_count, 2);
    cr_assert_eq(free_bytes() + spare, free_before);
    cr_assert_eq(private_things(), 0);
}

/* --- allocating --- */

static void one_of(size_t bytes)
{
    CUdeviceptr p, base;
    size_t size;

    OK(cuMemAlloc_v2(&p, bytes));
    cr_assert_eq(p % 512, 0);
    cr_assert(remote_memory_holds(&remote, p, bytes));
    cr_assert(remote_memory_holds(&remote, p + bytes - 1, 1));
    cr_assert_not(remote_memory_holds(&remote, p, bytes + 1), "beyond the end");
    cr_assert_not(remote_memory_holds(&remote, p - 1, 2));
    OK(shim_driver.cuMemsetD8_v2(p, 0x5a, bytes));
    OK(shim_driver.cuCtxSynchronize());
    cr_assert_eq(broker_view(p)[bytes - 1], 0x5a);
    OK(cuMemGetAddressRange_v2(&base, &size, p + bytes / 2));
    cr_assert_eq(base, p);
    cr_assert_eq(size, bytes);
    drains = 0;
    OK(cuMemFree_v2(p));
    cr_assert_eq(drains, 1);
    cr_assert_not(remote_memory_holds(&remote, p, 1));
}

Test(remote_memory, small_and_large_allocations_are_shared)
{
    const size_t sizes[] = {1, 511, 512, 513, 100000, MIB - 1, MIB, MIB + 1, 5 * MIB};

    for (size_t i = 0; i < array_length(sizes); i++)
        one_of(sizes[i]);
    cr_assert(remote_memory_all_shared(&remote));
    all_is_given_back();
}

Test(remote_memory, many_allocations_do_not_overlap)
{
    enum { N = 3000 };
    static CUdeviceptr p[N];

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            OK(cuMemAlloc_v2(&p[i], 4 + (size_t)(i * 37 % 9000)));
            *(volatile int *)(uintptr_t)p[i] = i;
        }
        for (int i = 0; i < N; i++) {
            cr_assert_eq(*(volatile int *)(uintptr_t)p[i], i);
            cr_assert(remote_memory_holds(&remote, p[i], 4 + (size_t)(i * 37 % 9000)));
        }
        for (int i = 0; i < N; i++)
            OK(cuMemFree_v2(p[(i * 7) % N]));
    }
    all_is_given_back();
}

Test(remote_memory, rows_have_the_pitch_of_the_driver)
{
    CUdeviceptr p, plain, base;
    size_t pitch, size, of_the_driver;

    OK(cuMemAllocPitch_v2(&p, &pitch, 1000, 30, 4));
    OK(shim_driver.cuMemAllocPitch_v2(&plain, &of_the_driver, 1000, 30, 4));
    cr_assert_eq(pitch, of_the_driver);
    OK(cuMemGetAddressRange_v2(&base, &size, p));
    cr_assert_eq(size, pitch * 30);
    cr_assert(remote_memory_holds(&remote, p, pitch * 30));
    OK(cuMemFree_v2(p));
    OK(shim_driver.cuMemFree_v2(plain));
    cr_assert_eq(cuMemAllocPitch_v2(&p, &pitch, 1000, 30, 5), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(cuMemAllocPitch_v2(&p, &pitch, SIZE_MAX - 5, 30, 4), CUDA_ERROR_INVALID_VALUE);
    all_is_given_back();
}

Test(remote_memory, host_memory_is_shared)
{
    const size_t sizes[] = {1, 4096, 65535, 65536, 300000};
    unsigned int flags;
    CUdeviceptr on_device;
    char *p;

    for (size_t i = 0; i < array_length(sizes); i++) {
        OK(cuMemHostAlloc((void **)&p, sizes[i], CU_MEMHOSTALLOC_WRITECOMBINED));
        cr_assert_eq((uintptr_t)p % 512, 0);
        p[sizes[i] - 1] = 7;
        cr_assert_eq(broker_view((uintptr_t)p)[sizes[i] - 1], 7);
        cr_assert(remote_memory_holds(&remote, (uintptr_t)p, sizes[i]));
        OK(cuMemHostGetFlags(&flags, p));
        cr_assert_eq(flags, CU_MEMHOSTALLOC_WRITECOMBINED | CU_MEMHOSTALLOC_DEVICEMAP);
        OK(shim_driver.cuMemHostGetDevicePointer_v2(&on_device, p, 0));
        cr_assert_eq(on_device, (uintptr_t)p);
        cr_assert_eq(cuMemHostUnregister(p), CUDA_ERROR_INVALID_VALUE);
        cr_assert_neq(cuMemFree_v2((uintptr_t)p), CUDA_SUCCESS);
        OK(cuMemFreeHost(p));
        cr_assert_not(remote_memory_holds(&remote, (uintptr_t)p, 1));
    }
    OK(cuMemAllocHost_v2((void **)&p, 10));
    OK(cuMemFreeHost(p));
    cr_assert_eq(cuMemHostAlloc((void **)&p, 10, 64), CUDA_ERROR_INVALID_VALUE);
    all_is_given_back();
}

Test(remote_memory, what_the_driver_refuses_is_refused)
{
    CUdeviceptr p;
    void *host;

    cr_assert_eq(cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(cuMemAlloc_v2(NULL, 8), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(cuMemAllocHost_v2(&host, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree_v2(0));
    OK(cuMemFreeHost(NULL));
    OK(cuMemAlloc_v2(&p, 4096));
    cr_assert_eq(cuMemFree_v2(p + 512), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree_v2(p));
    cr_assert_eq(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
    all_is_given_back();
}

/* --- questions --- */

Test(remote_memory, attributes_are_those_of_the_allocation)
{
    CUpointer_attribute asked[] = {1, 2, 7, 11, 12, 14};
    unsigned long long id, other_id, types;
    CUdeviceptr p, q, start;
    CUcontext owner;
    unsigned int type, ipc;
    size_t size;
    void *into[] = {&owner, &type, &other_id, &start, &size, &types};
    CUmemGenericAllocationHandle handle;

    OK(cuMemAlloc_v2(&p, 1000));
    OK(cuMemAlloc_v2(&q, 3 * MIB));
    OK(cuPointerGetAttribute(&owner, 1, p + 10));
    cr_assert_eq(owner, context);
    OK(cuPointerGetAttribute(&id, 7, p));
    OK(cuPointerGetAttribute(&start, 11, p + 999));
    OK(cuPointerGetAttribute(&size, 12, p + 999));
    OK(cuPointerGetAttribute(&ipc, 10, p));
    OK(cuPointerGetAttribute(&type, 2, p));
    cr_assert_eq(start, p);
    cr_assert_eq(size, 1000);
    cr_assert_eq(ipc, 0);
    cr_assert_eq(type, (unsigned)CU_MEMORYTYPE_DEVICE);
    OK(cuPointerGetAttributes(array_length(asked), asked, into, q + 2 * MIB));
    cr_assert_eq(owner, context);
    cr_assert_neq(other_id, id);
    cr_assert_eq(start, q);
    cr_assert_eq(size, 3 * MIB);
    cr_assert_eq(types, 0);
    cr_assert_neq(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)q), CUDA_SUCCESS);
    OK(cuMemFree_v2(p));
    OK(cuMemFree_v2(q));
}

/* --- private things --- */

/* Whatever is made and unmade leaves the count as it was. */
Test(remote_memory, private_things_are_counted_over_their_life)
{
    static char buffer[4096] __attribute__((aligned(4096)));
    CUdeviceptr p;

    OK(cuMemAllocManaged(&p, 4096, 1));
    cr_assert_eq(private_things(), 1);
    cr_assert_not(remote_memory_all_shared(&remote));
    cr_assert_not(remote_memory_holds(&remote, p, 1));
    cr_assert_neq(cuMemFree_v2(p + 8), CUDA_SUCCESS);
    cr_assert_eq(private_things(), 1);
    OK(cuMemFree_v2(p));
    cr_assert_neq(cuMemFree_v2(p), CUDA_SUCCESS);
    cr_assert_eq(private_things(), 0);

    OK(cuMemHostRegister_v2(buffer, sizeof(buffer), 0));
    cr_assert_neq(cuMemHostRegister_v2(buffer, sizeof(buffer), 0), CUDA_SUCCESS);
    cr_assert_eq(private_things(), 1);
    OK(cuMemHostUnregister(buffer));
    cr_assert_neq(cuMemHostUnregister(buffer), CUDA_SUCCESS);
    cr_assert_eq(private_things(), 0);

    OK(cuMemAllocAsync(&p, 100, NULL));
    cr_assert_eq(private_things(), 1);
    OK(cuMemFreeAsync(p, NULL));
    cr_assert_eq(private_things(), 0);
    OK(cuMemAllocAsync_ptsz(&p, 100, NULL));
    OK(cuMemFree_v2(p));
    cr_assert_eq(private_things(), 0);
}

Test(remote_memory, mappings_of_the_program_are_private)
{
    CUmemAllocationProp prop = {.type = 1, .location = {1, 0}};
    CUmemAccessDesc access = {.location = {1, 0}, .flags = 3};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p;

    OK(shim_driver.cuMemAddressReserve(&p, 4 * MIB, 0, 0, 0));
    OK(shim_driver.cuMemCreate(&handle, 2 * MIB, &prop, 0));
    OK(cuMemMap(p, 2 * MIB, 0, handle, 0));
    OK(cuMemMap(p + 2 * MIB, 2 * MIB, 0, handle, 0));
    OK(shim_driver.cuMemSetAccess(p, 4 * MIB, &access, 1));
    cr_assert_eq(private_things(), 2);
    cr_assert_neq(cuMemUnmap(p, 3 * MIB), CUDA_SUCCESS);
    cr_assert_eq(private_things(), 2);
    OK(cuMemUnmap(p, 4 * MIB));
    cr_assert_eq(private_things(), 0);
    OK(shim_driver.cuMemRelease(handle));
    OK(shim_driver.cuMemAddressFree(p, 4 * MIB));
}

Test(remote_memory, plain_memory_from_before_the_broker_is_private)
{
    CUdeviceptr p, q;
    void *host;

    there = false;
    OK(cuMemAlloc_v2(&p, 100));
    OK(cuMemAllocHost_v2(&host, 100));
    there = true;
    OK(cuMemAlloc_v2(&q, 100));
    cr_assert_eq(private_things(), 2);
    cr_assert_not(remote_memory_holds(&remote, p, 1));
    cr_assert(remote_memory_holds(&remote, q, 100));
    OK(cuMemFree_v2(p));
    OK(cuMemFreeHost(host));
    OK(cuMemFree_v2(q));
    all_is_given_back();
}

Test(remote_memory, many_private_things_are_told_apart)
{
    enum { N = 2000 };
    static CUdeviceptr p[N];

    there = false;
    for (int i = 0; i < N; i++)
        OK(cuMemAlloc_v2(&p[i], 512));
    cr_assert_eq(private_things(), N);
    for (int i = 0; i < N; i++)
        OK(cuMemFree_v2(p[(i * 7) % N]));
    cr_assert_eq(private_things(), 0);
}

/* --- refusals --- */

Test(remote_memory, what_the_broker_refuses_is_allocated_plainly)
{
    CUdeviceptr small, large;
    void *host;

    refusal = -EIO;
    OK(cuMemAlloc_v2(&small, 100));
    OK(cuMemAlloc_v2(&large, 4 * MIB));
    OK(cuMemAllocHost_v2(&host, 100));
    cr_assert_eq(private_things(), 3);
    cr_assert_not(remote_memory_holds(&remote, small, 1));
    refusal = 0;
    OK(cuMemFree_v2(small));
    OK(cuMemFree_v2(large));
    OK(cuMemFreeHost(host));
    cr_assert_eq(known_count, 0);
    all_is_given_back();
    one_of(4 * MIB);
}

Test(remote_memory, a_device_without_memory_says_so)
{
    CUdeviceptr p, q;
    size_t total = free_before / (2 * MIB) * (2 * MIB);

    cr_assert_eq(cuMemAlloc_v2(&p, total + 4 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc_v2(&p, 100));
    OK(cuMemFree_v2(p)); /* an empty chunk stays, and must not be in the way */
    cr_assert_eq(known_count, 1);
    OK(cuMemAlloc_v2(&p, total));
    cr_assert(remote_memory_holds(&remote, p, total));
    cr_assert_eq(cuMemAlloc_v2(&q, 4 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemFree_v2(p));
    all_is_given_back();
}

static void occupy(uint64_t address)
{
    void *got = mmap((void *)(uintptr_t)address, 2 * MIB, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

    cr_assert_neq(got, MAP_FAILED);
}

Test(remote_memory, host_addresses_that_are_in_use_are_left_out)
{
    void *p;

    occupy(BASE + wire_device_bytes(RANGE));
    OK(cuMemAllocHost_v2(&p, 3 * MIB));
    cr_assert(remote_memory_holds(&remote, (uintptr_t)p, 3 * MIB));
    OK(cuMemFreeHost(p));
    one_of(100);
    all_is_given_back();
}

Test(remote_memory, if_the_addresses_of_the_device_are_in_use_memory_is_plain)
{
    CUdeviceptr p;

    occupy(BASE + 64 * MIB);
    OK(cuMemAlloc_v2(&p, 3 * MIB));
    cr_assert_not(remote_memory_holds(&remote, p, 1));
    cr_assert_eq(private_things(), 1);
    OK(cuMemFree_v2(p));
    all_is_given_back();
}

Test(remote_memory, without_a_living_broker_memory_is_plain_and_shared_memory_can_be_freed)
{
    CUdeviceptr p, q;

    OK(cuMemAlloc_v2(&p, 3 * MIB));
    remote.state = REMOTE_DEAD;
    OK(cuMemAlloc_v2(&q, 3 * MIB));
    cr_assert_not(remote_memory_holds(&remote, q, 1));
    OK(cuMemFree_v2(p));
    OK(cuMemFree_v2(q));
    cr_assert_eq(free_bytes(), free_before);
}

Test(remote_memory, shared_memory_can_be_freed_when_the_library_does_nothing_else)
{
    CUdeviceptr p;

    OK(cuMemAlloc_v2(&p, 3 * MIB));
    words.active = 0;
    OK(cuMemFree_v2(p));
    all_is_given_back();
}

/* --- contexts, captures, brokers --- */

Test(remote_memory, a_context_that_ends_gives_all_back)
{
    CUcontext second;
    CUdeviceptr p, kept, plain;
    void *host;

    OK(cuMemAlloc_v2(&kept, 100));
    OK(shim_driver.cuCtxCreate_v2(&second, 0, 0));
    for (int i = 0; i < 50; i++)
        OK(cuMemAlloc_v2(&p, (size_t)(i + 1) * 50000));
    OK(cuMemAllocHost_v2(&host, 100));
    OK(cuMemAllocHost_v2(&host, 100000));
    OK(cuMemAllocManaged(&plain, 100, 1));
    remote_memory_context_ends(second);
    OK(shim_driver.cuCtxDestroy_v2(second));
    cr_assert_eq(private_things(), 0);
    cr_assert_not(remote_memory_holds(&remote, (uintptr_t)host, 1));
    cr_assert(remote_memory_holds(&remote, kept, 100));
    OK(shim_driver.cuCtxSetCurrent(context));
    OK(cuMemAllocHost_v2(&host, 100));
    OK(cuMemFreeHost(host));
    OK(cuMemFree_v2(kept));
    all_is_given_back();
}

Test(remote_memory, the_primary_context_is_found_and_can_have_ended_before)
{
    CUcontext primary;
    CUdeviceptr p;
    void *host;

    OK(shim_driver.cuDevicePrimaryCtxRetain(&primary, 0));
    OK(shim_driver.cuCtxSetCurrent(primary));
    OK(cuMemAlloc_v2(&p, 4 * MIB));
    OK(cuMemAllocHost_v2(&host, 100));
    cr_assert_eq(remote_memory_primary(0), primary);
    OK(shim_driver.cuDevicePrimaryCtxRelease_v2(0));
    cr_assert_null(remote_memory_primary(0));
    remote_memory_context_ends(primary);
    cr_assert_eq(known_count, 0);
    OK(shim_driver.cuCtxSetCurrent(context));
    all_is_given_back();
}

Test(remote_memory, during_a_capture_the_driver_decides)
{
    CUstream stream;
    CUgraph graph;
    CUdeviceptr p;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    OK(shim_driver.cuStreamCreate(&stream, 1));
    engine.captures = 1;
    OK(shim_driver.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    cr_assert_eq(cuMemAlloc_v2(&p, 100), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    cr_assert_neq(shim_driver.cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    OK(shim_driver.cuThreadExchangeStreamCaptureMode(&mode));
    OK(shim_driver.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemAlloc_v2(&p, 100));
    cr_assert(remote_memory_holds(&remote, p, 100));
    OK(cuMemFree_v2(p));
    OK(shim_driver.cuStreamEndCapture(stream, &graph));
    engine.captures = 0;
    all_is_given_back();
}

Test(remote_memory, shared_memory_can_be_freed_in_a_stream_but_not_in_a_capture)
{
    CUstream stream;
    CUgraph graph;
    CUdeviceptr p;

    OK(shim_driver.cuStreamCreate(&stream, 1));
    OK(cuMemAlloc_v2(&p, 100));
    engine.captures = 1;
    OK(shim_driver.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    cuMemFreeAsync(p, stream);
    cr_assert(remote_memory_holds(&remote, p, 100));
    shim_driver.cuStreamEndCapture(stream, &graph);
    engine.captures = 0;
    OK(cuMemFreeAsync(p, stream));
    cr_assert_not(remote_memory_holds(&remote, p, 1));
    all_is_given_back();
}

/* Readers see what is there for the whole time, whatever moves around it, and never what is not there. */
static void *look(void *arg)
{
    const CUdeviceptr *p = arg;
    uintptr_t wrong = 0;

    for (int i = 0; i < 300000; i++)
        wrong += !remote_memory_holds(&remote, p[0], 1000) + remote_memory_holds(&remote, p[0], 1001);
    return (void *)wrong;
}

Test(remote_memory, readers_see_a_whole_table)
{
    pthread_t reader[2];
    CUdeviceptr fixed[1], p[64], first;
    void *wrong;

    OK(cuMemAlloc_v2(&first, 512));
    OK(cuMemAlloc_v2(&fixed[0], 1000));
    OK(cuMemFree_v2(first));
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&reader[i], NULL, look, fixed), 0);
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 64; i++)
            OK(cuMemAlloc_v2(&p[i], (size_t)(i + 1) * 100));
        for (int i = 0; i < 64; i++)
            OK(cuMemFree_v2(p[i]));
    }
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(pthread_join(reader[i], &wrong), 0);
        cr_assert_null(wrong);
    }
}

Test(remote_memory, a_new_broker_gets_everything_again)
{
    CUdeviceptr p, q;
    void *host;

    OK(cuMemAlloc_v2(&p, 100));
    OK(cuMemAlloc_v2(&q, 3 * MIB));
    OK(cuMemAllocHost_v2(&host, 100));
    cr_assert_eq(known_count, 3);
    known_count = 0;
    OK(remote_memory_share_again(&remote));
    cr_assert_eq(known_count, 3);
    *(volatile char *)(uintptr_t)q = 9;
    cr_assert_eq(*broker_view(q), 9);
    known_count = 0;
    remote.base += RANGE;
    cr_assert_eq(remote_memory_share_again(&remote), -EADDRNOTAVAIL);
}
