/* SPDX-License-Identifier: Apache-2.0
 *
 * Description: memory: limits, reuse, pools, virtual memory and its export, what kernels may touch.
 */
#include "tests/simcuda_tests/cu.h"

#include <sys/socket.h>
#include <sys/wait.h>

enum { GRANULE = 2 << 20 };

static void memory_of_the_device_is_limited(void)
{
    size_t free_bytes, total, later;
    CUdeviceptr a, b;

    OK(cuMemGetInfo_v2(&free_bytes, &total));
    OK(cuMemAlloc_v2(&a, total / 2));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&b, total / 2 + total / 4));
    OK(cuMemGetInfo_v2(&later, &total));
    CHECK(free_bytes - later >= total / 2);
    OK(cuMemFree_v2(a));
    OK(cuMemAlloc_v2(&b, total / 2 + total / 4));
    OK(cuMemFree_v2(b));
    OK(cuMemGetInfo_v2(&later, &total));
    CHECK(later == free_bytes);
}

static void many_allocations_do_not_overlap(void)
{
    enum { N = 2000 };
    static CUdeviceptr p[N];

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            OK(cuMemAlloc_v2(&p[i], 4 + (size_t)(i * 37 % 3000)));
            CHECK(p[i] % 256 == 0);
        }
        for (int i = 0; i < N; i++)
            *(volatile int *)(uintptr_t)p[i] = i; /* of this process: the simulated device's own way */
        for (int i = 0; i < N; i++)
            CHECK(*(volatile int *)(uintptr_t)p[i] == i);
        for (int i = 0; i < N; i++)
            OK(cuMemFree_v2(p[(i * 7) % N]));
    }
}

static void freed_memory_is_not_handed_out_at_once(void)
{
    CUdeviceptr a, b;

    OK(cuMemAlloc_v2(&a, 4096));
    OK(cuMemFree_v2(a));
    OK(cuMemAlloc_v2(&b, 4096));
    CHECK(a != b);
    OK(cuMemFree_v2(b));
}

static void freeing_waits_for_the_work_that_uses_it(void)
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_ints(1), q = new_ints(1);
    double began = seconds();

    OK(spin(s, 60));
    OK(store(s, p, 1));
    OK(store(s, q, 1));
    OK(cuMemFree_v2(p));
    CHECK(seconds() - began > 0.05);
    CHECK(read_int(q) == 1);
    OK(cuCtxSynchronize());
}

static void stream_ordered_frees_happen_in_stream_order(void)
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p, out = new_ints(1);
    CUfunction copy = kernel("copy_int");

    OK(cuMemAllocAsync(&p, 1024, s));
    OK(spin(s, 40));
    OK(store(s, p, 5));
    void *params[] = {&out, &p};
    OK(launch1(copy, s, params));
    OK(cuMemFreeAsync(p, s));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p, s));
    OK(cuStreamSynchronize(s));
    CHECK(read_int(out) == 5);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(p));
}

static void pools_count_what_they_gave(void)
{
    CUmemPoolProps props = {.allocType = 1, .location = {1, 0}};
    CUmemoryPool pool, standard, current;
    CUstream s = new_stream(0);
    cuuint64_t value;
    CUdeviceptr p;

    OK(cuDeviceGetDefaultMemPool(&standard, 0));
    OK(cuDeviceGetMemPool(&current, 0));
    CHECK(current == standard);
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemAllocFromPoolAsync(&p, 1 << 20, pool, s));
    OK(cuMemPoolGetAttribute(pool, 7, &value));
    CHECK(value == 1 << 20);
    value = 12345;
    OK(cuMemPoolSetAttribute(pool, 4, &value));
    value = 0;
    OK(cuMemPoolGetAttribute(pool, 4, &value));
    CHECK(value == 12345);
    OK(cuMemFreeAsync(p, s));
    OK(cuStreamSynchronize(s));
    OK(cuMemPoolGetAttribute(pool, 7, &value));
    CHECK(value == 0);
    OK(cuMemPoolTrimTo(pool, 0));
    OK(cuMemPoolDestroy(pool));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(standard));
}

static const CUmemAllocationProp exportable = {.type = 1, .requestedHandleTypes = 1, .location = {1, 0}};

static void mapped_memory_can_be_used_across_mappings(void)
{
    CUmemAccessDesc access = {{1, 0}, 3};
    CUmemGenericAllocationHandle a, b, again;
    CUdeviceptr base;
    size_t granularity;
    int value[2] = {0};

    OK(cuMemGetAllocationGranularity(&granularity, &exportable, 0));
    CHECK(granularity == GRANULE);
    OK(cuMemAddressReserve(&base, 4 * GRANULE, 0, 0, 0));
    OK(cuMemCreate(&a, GRANULE, &exportable, 0));
    OK(cuMemCreate(&b, GRANULE, &exportable, 0));
    OK(cuMemMap(base, GRANULE, 0, a, 0));
    OK(cuMemMap(base + GRANULE, GRANULE, 0, b, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(base + GRANULE, GRANULE, 0, a, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(base, 1, 1)); /* no access yet */
    OK(cuMemSetAccess(base, 2 * GRANULE, &access, 1));
    OK(cuMemsetD32_v2(base + GRANULE - 4, 6, 2)); /* over the edge between the two */
    OK(store(NULL, base + GRANULE, 7));
    OK(cuMemcpyDtoH_v2(value, base + GRANULE - 4, 8));
    CHECK(value[0] == 6 && value[1] == 7);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(base + 2 * GRANULE - 4, 6, 2));
    OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(base + 8)));
    CHECK(again == a);
    OK(cuMemRelease(again));
    OK(cuMemRelease(a));
    OK(cuMemRelease(b));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(base, 4 * GRANULE));
    OK(cuMemUnmap(base, 2 * GRANULE));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(base, 1, 1));
    OK(cuMemAddressFree(base, 4 * GRANULE));
}

/* The other process: maps what it gets at the address that it is told, and runs a kernel on it. */
static int importer(int channel)
{
    CUmemAccessDesc access = {{1, 0}, 3};
    CUmemGenericAllocationHandle memory;
    char control[CMSG_SPACE(sizeof(int))];
    CUdeviceptr wanted, base;
    struct iovec io = {&wanted, sizeof(wanted)};
    struct msghdr message = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    int fd;

    if (recvmsg(channel, &message, 0) != sizeof(wanted) || !CMSG_FIRSTHDR(&message))
        return 2;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    set_up();
    MUST(cuMemImportFromShareableHandle(&memory, (void *)(intptr_t)fd, 1));
    MUST(cuMemAddressReserve(&base, GRANULE, 0, wanted, 0));
    if (base != wanted)
        return 3;
    MUST(cuMemMap(base, GRANULE, 0, memory, 0));
    MUST(cuMemSetAccess(base, GRANULE, &access, 1));
    MUST(add1(NULL, base + 64));
    MUST(cuCtxSynchronize());
    return 0;
}

/* Must run before this process has called cuInit. */
static void another_process_can_work_on_exported_memory(void)
{
    CUmemAccessDesc access = {{1, 0}, 3};
    CUmemGenericAllocationHandle memory;
    CUdeviceptr base;
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec io = {&base, sizeof(base)};
    struct msghdr message = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    int pair[2], fd, status;
    pid_t child;

    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair))
        _exit(1);
    child = fork();
    if (child == 0)
        _exit(importer(pair[1]));
    set_up();
    MUST(cuMemCreate(&memory, GRANULE, &exportable, 0));
    MUST(cuMemAddressReserve(&base, GRANULE, 0, 0, 0));
    MUST(cuMemMap(base, GRANULE, 0, memory, 0));
    MUST(cuMemSetAccess(base, GRANULE, &access, 1));
    OK(store(NULL, base + 64, 41));
    OK(cuCtxSynchronize());
    OK(cuMemExportToShareableHandle(&fd, memory, 1, 0));
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(fd));
    memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    CHECK(sendmsg(pair[0], &message, 0) == sizeof(base));
    waitpid(child, &status, 0);
    CHECK(status == 0);
    CHECK(read_int(base + 64) == 42);
    close(fd);
    close(pair[0]);
    close(pair[1]);
}

/* The following end in a fault, which is final: each in a process of its own. */
static CUresult fault_of(void (*run)(void))
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        set_up();
        run();
        _exit(cuCtxSynchronize() & 0xff);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? (CUresult)WEXITSTATUS(status) : CUDA_ERROR_UNKNOWN;
}

static void late_store(void)
{
    CUdeviceptr p = new_ints(1);

    OK(cuMemFree_v2(p));
    OK(store(NULL, p, 1));
}

static void store_beyond(void)
{
    CUdeviceptr p = new_ints(64);

    OK(store(NULL, p + 256, 1));
}

static void store_to_host(void)
{
    static int value;

    OK(store(NULL, (uintptr_t)&value, 1));
}

static void copy_into_freed(void)
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING), t = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p, q = new_ints(1);

    OK(cuMemAllocAsync(&p, 64, s));
    OK(cuStreamSynchronize(s));
    OK(spin(t, 50));
    OK(cuMemcpyDtoDAsync_v2(p, q, 4, t)); /* not ordered before the free */
    OK(cuMemFreeAsync(p, s));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync_v2(p, q, 4, t));
}

/* Stricter than a device, which knows pages only and reuses freed memory at once. */
static void kernels_are_held_to_what_is_allocated(void)
{
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS & 0xff, fault_of(late_store));
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS & 0xff, fault_of(store_beyond));
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS & 0xff, fault_of(store_to_host));
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS & 0xff, fault_of(copy_into_freed));
}

static void pinned_and_managed_memory_can_be_used_by_kernels(void)
{
    CUdeviceptr managed, mapped;
    void *host;

    OK(cuMemAllocManaged(&managed, 4, 1));
    OK(cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cuMemHostGetDevicePointer_v2(&mapped, host, 0));
    OK(store(NULL, managed, 3));
    OK(store(NULL, mapped, 4));
    OK(cuCtxSynchronize());
    CHECK(*(volatile int *)(uintptr_t)managed == 3);
    CHECK(*(volatile int *)host == 4);
    OK(cuMemFree_v2(managed));
    OK(cuMemFreeHost(host));
}

int main(int argc, char **argv)
{
    static const struct test before_init[] = {
        {"kernels are held to what is allocated", kernels_are_held_to_what_is_allocated},
        {"another process can work on exported memory", another_process_can_work_on_exported_memory},
    };
    static const struct test tests[] = {
        {"memory of the device is limited", memory_of_the_device_is_limited},
        {"many allocations do not overlap", many_allocations_do_not_overlap},
        {"freed memory is not handed out at once", freed_memory_is_not_handed_out_at_once},
        {"freeing waits for the work that uses it", freeing_waits_for_the_work_that_uses_it},
        {"stream-ordered frees happen in stream order", stream_ordered_frees_happen_in_stream_order},
        {"pools count what they gave", pools_count_what_they_gave},
        {"mapped memory can be used across mappings", mapped_memory_can_be_used_across_mappings},
        {"pinned and managed memory can be used by kernels", pinned_and_managed_memory_can_be_used_by_kernels},
    };
    int status;

    setvbuf(stdout, NULL, _IOLBF, 0);
    status = RUN_TESTS(before_init, argc, argv);
    if (!test_context)
        set_up();
    return RUN_TESTS(tests, argc, argv) | status;
}
