/* SPDX-License-Identifier: Apache-2.0
 *
 * Description: what a broker and its clients share through the driver: memory of one process that another one's kernels
 * and copies use at the same address, and words that the host or the device of one process writes and a stream of
 * another one waits for.
 *
 * Each test is a pair of processes that begin before the driver is used. What is not shared: how much memory is free
 * (each process counts its own; memory that was imported counts where it was made), the device's time, and its faults.
 */
#include "tests/simcuda_tests/cu.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { GRANULE = 2 << 20, WORDS = 4096 /* bytes */ };

/* In memory that both processes have at the same address. */
struct shared {
    _Atomic int step; /* how far the two have come, by agreement of a test */
    CUdeviceptr base;
    CUuuid uuid;
    pid_t first;
    _Alignas(4096) _Atomic uint32_t word[WORDS / 4];
};

static struct shared *shared;
static int channel; /* to the other process */

static const CUmemAllocationProp exportable = {.type = 1, .requestedHandleTypes = 1, .location = {1, 0}};
static const CUmemAccessDesc readwrite = {{1, 0}, 3};

/* ---- what the tests share ---------------------------------------------------------------------------------------- */

static void reach(int step)
{
    atomic_store(&shared->step, step);
}

static void await(int step)
{
    while (atomic_load(&shared->step) < step)
        usleep(100);
}

static void send_fd(int fd)
{
    char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
    struct iovec io = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    *header = (struct cmsghdr){CMSG_LEN(sizeof(fd)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    if (sendmsg(channel, &message, 0) != 1)
        _exit(1);
}

static int receive_fd(void)
{
    char control[CMSG_SPACE(sizeof(int))], byte;
    struct iovec io = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    int fd;

    if (recvmsg(channel, &message, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&message))
        _exit(1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    return fd;
}

/* Device memory of this process, for both. */
static CUdeviceptr share_memory(size_t bytes)
{
    CUmemGenericAllocationHandle memory;
    int fd;

    MUST(cuMemCreate(&memory, bytes, &exportable, 0));
    MUST(cuMemAddressReserve(&shared->base, bytes, 0, 0, 0));
    MUST(cuMemMap(shared->base, bytes, 0, memory, 0));
    MUST(cuMemSetAccess(shared->base, bytes, &readwrite, 1));
    MUST(cuMemExportToShareableHandle(&fd, memory, 1, 0));
    MUST(cuMemRelease(memory));
    send_fd(fd);
    close(fd);
    return shared->base;
}

/* The other process's memory, at the same address. */
static CUdeviceptr take_memory(size_t bytes)
{
    CUmemGenericAllocationHandle memory;
    CUdeviceptr base;
    int fd = receive_fd();

    MUST(cuMemImportFromShareableHandle(&memory, (void *)(intptr_t)fd, 1));
    close(fd);
    MUST(cuMemAddressReserve(&base, bytes, 0, shared->base, 0));
    CHECK(base == shared->base);
    MUST(cuMemMap(base, bytes, 0, memory, 0));
    MUST(cuMemRelease(memory));
    MUST(cuMemSetAccess(base, bytes, &readwrite, 1));
    return base;
}

/* The shared words as the device of this process sees them. */
static CUdeviceptr register_words(void)
{
    CUdeviceptr words = 0;

    MUST(cuMemHostRegister_v2(shared->word, WORDS, CU_MEMHOSTREGISTER_DEVICEMAP));
    MUST(cuMemHostGetDevicePointer_v2(&words, shared->word, 0));
    CHECK(words == (uintptr_t)shared->word);
    return words;
}

static CUfunction counter_kernel(void)
{
    static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                              ".visible .entry count(.param .u64 p) {\n"
                              ".reg .u64 %rd<3>; .reg .u32 %r<2>;\n"
                              "ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd2, %rd1;\n"
                              "atom.global.add.u32 %r1, [%rd2], 1;\nret;\n}\n";
    CUfunction function;
    CUmodule module;

    MUST(cuModuleLoadData(&module, ptx));
    MUST(cuModuleGetFunction(&function, module, "count"));
    return function;
}

/* ---- (a, g) device memory ---------------------------------------------------------------------------------------- */

static void owner_of_memory(void)
{
    CUdeviceptr base = share_memory(GRANULE);
    size_t free_bytes, total;

    OK(cuMemGetInfo_v2(&free_bytes, &total));
    CHECK(total - free_bytes >= GRANULE);
    OK(store(NULL, base + 64, 20));
    OK(cuCtxSynchronize());
    reach(1);
    await(2);
    CHECK(read_int(base + 64) == 43);
    OK(add1(NULL, base + 64));
    OK(cuCtxSynchronize());
    reach(3);
}

static void user_of_memory(void)
{
    size_t before, after, total;
    CUdeviceptr base;

    OK(cuMemGetInfo_v2(&before, &total));
    base = take_memory(GRANULE);
    OK(cuMemGetInfo_v2(&after, &total));
    CHECK(after == before); /* what is used is said by the process that made it */
    await(1);
    CHECK(read_int(base + 64) == 20);
    OK(twice_plus1(NULL, base + 64));
    OK(add1(NULL, base + 64));
    OK(add1(NULL, base + 64));
    OK(cuCtxSynchronize());
    reach(2);
    await(3);
    CHECK(read_int(base + 64) == 44);
    /* One that is mapped is no longer anybody's to map again, or to free in another way. */
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(base));
    OK(cuMemUnmap(base, GRANULE));
    OK(cuMemAddressFree(base, GRANULE));
}

enum { COUNTS = 300 };

static void count_together(CUdeviceptr at)
{
    CUfunction count = counter_kernel();
    void *params[] = {&at};

    reach(atomic_load(&shared->step) + 1);
    for (int i = 0; i < COUNTS; i++)
        OK(cuLaunchKernel(count, 3, 1, 1, 2, 1, 1, 0, NULL, params, NULL));
    OK(cuCtxSynchronize());
}

static void owner_that_counts(void)
{
    CUdeviceptr base = share_memory(GRANULE);

    OK(cuMemsetD32_v2(base, 0, 64));
    OK(cuCtxSynchronize());
    reach(1);
    count_together(base);
    await(10);
    CHECK(read_int(base) == 2 * COUNTS * 6);
}

static void user_that_counts(void)
{
    CUdeviceptr base = take_memory(GRANULE);

    await(1);
    count_together(base);
    reach(10);
}

static void owner_that_is_killed(void)
{
    CUdeviceptr base = share_memory(GRANULE);

    OK(store(NULL, base, 5));
    OK(cuCtxSynchronize());
    reach(1);
    for (;;)
        OK(add1(NULL, base + 4)); /* work in flight */
}

static void user_of_a_dead_process(void)
{
    CUdeviceptr base = take_memory(GRANULE);

    await(1);
    kill(shared->first, SIGKILL);
    await(99); /* the parent has seen the end */
    CHECK(read_int(base) == 5);
    OK(add1(NULL, base));
    OK(cuCtxSynchronize());
    CHECK(read_int(base) == 6);
}

/* ---- (h) pointer attributes -------------------------------------------------------------------------------------- */

static void check_attributes(CUdeviceptr base, size_t bytes)
{
    enum { CONTEXT = 1, MEMORY_TYPE = 2, DEVICE_ORDINAL = 9, RANGE_START = 11, RANGE_SIZE = 12, MAPPED = 13 };
    CUcontext context = test_context;
    CUdeviceptr start = 0;
    unsigned type = 0, mapped = 0;
    size_t size = 0;
    int ordinal = -1;

    OK(cuPointerGetAttribute(&start, RANGE_START, base + 12345));
    OK(cuPointerGetAttribute(&size, RANGE_SIZE, base + 12345));
    CHECK(start == base && size == bytes);
    OK(cuMemGetAddressRange_v2(&start, &size, base + bytes - 1));
    CHECK(start == base && size == bytes);
    OK(cuPointerGetAttribute(&type, MEMORY_TYPE, base));
    CHECK(type == CU_MEMORYTYPE_DEVICE);
    OK(cuPointerGetAttribute(&ordinal, DEVICE_ORDINAL, base));
    CHECK(ordinal == 0);
    OK(cuPointerGetAttribute(&mapped, MAPPED, base));
    CHECK(mapped == 1);
    OK(cuPointerGetAttribute(&context, CONTEXT, base));
    CHECK(context == NULL); /* it belongs to the device, not to a context */
}

static void owner_that_asks(void)
{
    check_attributes(share_memory(3 * GRANULE), 3 * GRANULE);
}

static void user_that_asks(void)
{
    CUdeviceptr words, base = take_memory(3 * GRANULE);
    unsigned type = 0;
    void *host = NULL;

    check_attributes(base, 3 * GRANULE);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, 2, base + 3 * GRANULE));
    words = register_words();
    OK(cuPointerGetAttribute(&type, 2, words));
    CHECK(type == CU_MEMORYTYPE_HOST);
    OK(cuPointerGetAttribute(&host, 4, words + 8));
    CHECK(host == (char *)shared->word + 8);
}

/* ---- (b, c) host memory of both ---------------------------------------------------------------------------------- */

static void owner_of_words(void)
{
    CUdeviceptr words = register_words();

    atomic_store(&shared->word[1], 30);
    reach(1);
    await(2);
    CHECK(atomic_load(&shared->word[1]) == 31);
    CHECK(read_int(words + 8) == 77);
    OK(cuMemHostUnregister(shared->word));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(words, 1, 1));
}

static void user_of_words(void)
{
    CUdeviceptr words = register_words();

    await(1);
    OK(add1(NULL, words + 4));
    OK(cuMemsetD32Async(words + 8, 77, 1, NULL));
    OK(cuCtxSynchronize());
    reach(2);
}

static void owner_of_both(void)
{
    CUdeviceptr base = share_memory(GRANULE);

    for (uint32_t i = 0; i < 16; i++)
        atomic_store(&shared->word[i], 100 + i);
    OK(cuMemsetD32_v2(base, 9, WORDS));
    OK(cuCtxSynchronize());
    reach(1);
    await(2);
    CHECK(read_int(base + 60) == 115);
    CHECK(read_int(base + 64) == 9);
    CHECK(atomic_load(&shared->word[32]) == 100 && atomic_load(&shared->word[47]) == 115);
    CHECK(read_int(base + 1024) == 500);
}

static void user_of_both(void)
{
    CUdeviceptr base = take_memory(GRANULE), words = register_words();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    int plain[16], more[16];

    await(1);
    OK(cuMemcpyAsync(base, words, 64, s));            /* the host's words to the device */
    OK(cuMemcpyAsync(words + 128, base, 64, s));      /* and back, elsewhere */
    OK(cuMemcpyAsync((uintptr_t)plain, base, 64, s)); /* to memory that nobody registered */
    CHECK(plain[0] == 100 && plain[15] == 115);       /* complete when the call returns */
    for (int i = 0; i < 16; i++)
        more[i] = 500 + i;
    OK(cuMemcpyAsync(base + 1024, (uintptr_t)more, 64, s));
    memset(more, 0, sizeof(more)); /* staged: may be used again */
    OK(cuMemcpyAsync((uintptr_t)more, words + 128, 64, s));
    CHECK(more[15] == 115);
    OK(cuStreamSynchronize(s));
    reach(2);
}

/* ---- (d, e) words that are waited for ---------------------------------------------------------------------------- */

static void host_that_writes_late(void)
{
    await(1);
    sleep_ms(30);
    atomic_store(&shared->word[0], 6);
    await(3);
    /* Only the stream of the other process tells: its write of the word. */
    while (atomic_load(&shared->word[8]) != 0xfffffff0)
        usleep(50);
    atomic_store(&shared->word[4], 0xfffffff0 + 32); /* beyond 2^32: at least, modulo */
    await(4);
}

static void streams_that_wait(void)
{
    enum { STREAMS = 8 };
    CUdeviceptr words = register_words(), p = new_ints(STREAMS);
    CUstream s[STREAMS], other = new_stream(CU_STREAM_NON_BLOCKING);
    double began;

    for (int i = 0; i < STREAMS; i++) {
        s[i] = new_stream(CU_STREAM_NON_BLOCKING);
        OK(cuStreamWaitValue32_v2(s[i], words, 6, CU_STREAM_WAIT_VALUE_GEQ));
        OK(store(s[i], p + 4 * (CUdeviceptr)i, 1));
    }
    for (int i = 0; i < 20; i++) { /* other work goes on meanwhile */
        OK(add1(other, p));
        OK(cuStreamSynchronize(other));
    }
    for (int i = 0; i < STREAMS; i++)
        EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(s[i]));
    began = seconds();
    reach(1);
    for (int i = 0; i < STREAMS; i++)
        OK(cuStreamSynchronize(s[i])); /* nothing happened in this process */
    CHECK(seconds() - began >= 0.03);
    CHECK(read_int(p + 4) == 1);

    /* To and fro: the device writes, the other host answers, the stream goes on. */
    OK(cuStreamWriteValue32_v2(s[0], words + 32, 0xfffffff0, 0));
    OK(cuStreamWaitValue32_v2(s[0], words + 16, 5, CU_STREAM_WAIT_VALUE_GEQ));
    OK(store(s[0], p, 9));
    reach(3);
    OK(cuStreamSynchronize(s[0]));
    CHECK(read_int(p) == 9);
    reach(4);
}

static void device_that_writes(void)
{
    CUdeviceptr words = register_words();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);

    await(1);
    for (uint32_t i = 1; i <= 200; i++) {
        OK(cuStreamWaitValue32_v2(s, words, i, CU_STREAM_WAIT_VALUE_EQ));
        OK(cuStreamWriteValue32_v2(s, words + 64, i, 0));
    }
    OK(cuStreamSynchronize(s));
}

static void device_that_answers(void)
{
    CUdeviceptr words = register_words();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);

    for (uint32_t i = 1; i <= 200; i++) {
        OK(cuStreamWriteValue32_v2(s, words, i, 0));
        OK(cuStreamWaitValue32_v2(s, words + 64, i, CU_STREAM_WAIT_VALUE_GEQ));
    }
    reach(1);
    OK(cuStreamSynchronize(s));
    CHECK(atomic_load(&shared->word[16]) == 200);
}

static void waits_for_the_dead(void)
{
    CUdeviceptr words = register_words();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);

    OK(cuStreamWaitValue32_v2(s, words, 1, CU_STREAM_WAIT_VALUE_GEQ));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    exit(failures ? 1 : 0); /* must not wait for the stream */
}

static void nothing(void)
{
}

/* ---- (f) identity ------------------------------------------------------------------------------------------------ */

static void first_that_tells(void)
{
    OK(cuDeviceGetUuid_v2(&shared->uuid, 0));
    reach(1);
}

static void second_that_compares(void)
{
    CUuuid uuid;

    await(1);
    OK(cuDeviceGetUuid_v2(&uuid, 0));
    CHECK(memcmp(&uuid, &shared->uuid, sizeof(uuid)) == 0);
}

/* ---- pairs ------------------------------------------------------------------------------------------------------- */

static void run_pair(void (*first)(void), void (*second)(void))
{
    pid_t child[2];
    int pair[2], status;

    *shared = (struct shared){0};
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    for (int i = 0; i < 2; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            failures = 0;
            channel = pair[i];
            close(pair[1 - i]);
            set_up();
            (i ? second : first)();
            _exit(failures ? 1 : 0);
        }
        if (i == 0)
            shared->first = child[0];
    }
    close(pair[0]);
    close(pair[1]);
    for (int i = 0; i < 2; i++) {
        waitpid(child[i], &status, 0);
        if (first == owner_that_is_killed && i == 0) {
            CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
            reach(99);
        } else {
            CHECK(status == 0);
        }
    }
}

#define PAIR(name, first, second)                                                                                      \
    static void name(void)                                                                                             \
    {                                                                                                                  \
        run_pair(first, second);                                                                                       \
    }
PAIR(kernels_of_two_processes, owner_of_memory, user_of_memory)
PAIR(atomics_of_two_processes, owner_that_counts, user_that_counts)
PAIR(memory_of_the_dead, owner_that_is_killed, user_of_a_dead_process)
PAIR(attributes_of_mappings, owner_that_asks, user_that_asks)
PAIR(registered_words, owner_of_words, user_of_words)
PAIR(copies_between_both, owner_of_both, user_of_both)
PAIR(late_writes_of_a_host, host_that_writes_late, streams_that_wait)
PAIR(writes_of_a_device, device_that_answers, device_that_writes)
PAIR(ends_in_a_wait, waits_for_the_dead, nothing)
PAIR(one_device, first_that_tells, second_that_compares)

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"kernels of two processes work on the same memory", kernels_of_two_processes},
        {"atomics of two processes count together", atomics_of_two_processes},
        {"memory of a dead process stays with whoever mapped it", memory_of_the_dead},
        {"attributes of a mapping are those of the mapping in both", attributes_of_mappings},
        {"registered words lie at their own address for the device", registered_words},
        {"copies go between mapped, registered and plain memory", copies_between_both},
        {"a stream notices what another process's host writes", late_writes_of_a_host},
        {"streams of two processes wait for each other", writes_of_a_device},
        {"a process that ends does not wait for a word", ends_in_a_wait},
        {"a device is the same one in all processes", one_device},
    };

    setvbuf(stdout, NULL, _IOLBF, 0);
    shared =
        mmap(NULL, (sizeof(*shared) + 4095) / 4096 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? 77 : RUN_TESTS(tests, argc, argv);
}
