/* SPDX-License-Identifier: Apache-2.0
 *
 * Section F: kernels that need each other, and threads that wait for each other. Traps 28 to 30, 37, 39.
 */
#include "tests/traps/client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static void await(volatile int *word, int value, unsigned ms, const char *what)
{
    uint64_t began = client_ns();

    while (*word != value)
        EXPECT(client_ns() - began < ms * 1000000ull, "%s did not happen within %u ms", what, ms);
}

static pthread_t start(void *(*body)(void *), void *argument)
{
    pthread_t thread;

    EXPECT(pthread_create(&thread, NULL, body, argument) == 0, "no thread");
    return thread;
}

/* --- 28 --- */

static void *first_launch_of_a_module(void *argument)
{
    CUdeviceptr p = *(CUdeviceptr *)argument;
    CUfunction function;
    CUmodule module;
    int value = 8;

    OK(cu.cuCtxSetCurrent(client_context));
    OK(cu.cuModuleLoadData(&module, client_ptx()));
    OK(cu.cuModuleGetFunction(&function, module, "store"));
    LAUNCH(function, 1, 1, client_stream(CU_STREAM_NON_BLOCKING), &p, &value);
    return NULL;
}

/*
 * A kernel waits for a flag while another thread launches code that was never loaded. That thread is kept by the
 * driver, which waits for the device; nobody else may be kept by that thread. On an H200 the driver itself keeps all
 * other threads of the context meanwhile, so there the flag is set without it.
 */
static void lazy_loading(void)
{
    struct client_shared memory = client_shared(4); /* flag, seen, a pinned 1 */
    CUstream waiting = client_stream(CU_STREAM_NON_BLOCKING), copying = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = client_ints(2);
    pthread_t thread;

    memory.host[2] = 1;
    launch_wait_flag(waiting, (unsigned)client_sm_count() * 32, memory.device, memory.device + 4);
    thread = start(first_launch_of_a_module, &p);
    client_sleep_ms(5);
    if (client_simulated()) {
        launch_store(copying, p + 4, 9);
        OK(cu.cuMemcpyHtoDAsync_v2(memory.device, (void *)&memory.host[2], 4, copying));
    } else {
        memory.host[0] = 1;
    }
    await(&memory.host[1], 1, 2000, "the end of the kernel that waits for the copy");
    pthread_join(thread, NULL);
    OK(cu.cuCtxSynchronize());
    EXPECT_INT(client_read(p), 8, "the store of the new module");
    client_expect_held(2);
}

/* --- 29 --- */

/* A barrier of all blocks that the device holds, without a cooperative launch, beside other work. */
static void spin_barrier(void)
{
    CUfunction meet = client_kernel("meet"), shared = client_kernel("use_shared");
    CUstream s1 = client_stream(CU_STREAM_NON_BLOCKING), s2 = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr words = client_ints(2), met = words + 4, p = client_ints(1);
    unsigned blocks = (unsigned)client_sm_count();
    int size = 100 * 1024, count = size / 4;

    OK(cu.cuFuncSetAttribute(shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, size));
    for (int round = 0; round < 3; round++) {
        OK(cu.cuMemsetD32_v2(words, 0, 2));
        OK(cu.cuStreamSynchronize(NULL)); /* the memset may return before it is done, and s1 does not wait for it */
        LAUNCH(meet, blocks, 32, s1, &words, &blocks, &met);
        OK(client_launch(shared, blocks, 32, (unsigned)size, s2, (void *[]){&p, &count}));
        OK(cu.cuCtxSynchronize());
        EXPECT_INT(client_read(met), blocks, "blocks that met all others");
        EXPECT_INT(client_read(p), count, "the kernel with much shared memory");
    }
    client_expect_held(6);
}

static void flag_of_another_stream(void)
{
    struct client_shared memory = client_shared(2);
    CUstream s1 = client_stream(CU_STREAM_NON_BLOCKING), s2 = client_stream(CU_STREAM_NON_BLOCKING);
    uint64_t began;

    for (int round = 0; round < 3; round++) {
        memory.host[0] = memory.host[1] = 0;
        /* A grid without end for the scheduler, so the store does not fit beside it. */
        launch_wait_flag(s1, (unsigned)client_sm_count() * 32, memory.device, memory.device + 4);
        launch_store(s2, memory.device, 1);
        began = client_ns();
        OK(cu.cuCtxSynchronize());
        EXPECT(client_ns() - began < 1500000000u, "the context needed %llu ms",
               (unsigned long long)(client_ns() - began) / 1000000);
        EXPECT_INT(memory.host[1], 1, "what the waiting kernel saw");
    }
    client_expect_held(6);
}

/* The host makes no driver call at all after the launch. Only the hold cap can let the launch go. */
static void host_polls_memory(void)
{
    struct client_shared memory = client_shared(2);
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);

    for (int round = 1; round <= 3; round++) {
        client_hold();
        launch_store(stream, memory.device, round);
        await(&memory.host[0], round, 1000, "a store that the host polls for");
        EXPECT(client_holding(), "the device was held all the time");
        client_release();
    }
    client_expect_held(6);
    client_expect_issued("NO_FIT_CAP", 1);
}

/* Two held launches that need each other, in different lanes, the later one first. */
static void held_kernels_that_need_each_other(void)
{
    struct client_shared memory = client_shared(4); /* flag a, seen a, flag b, seen b */
    CUstream s1 = client_stream(CU_STREAM_NON_BLOCKING), s2 = client_stream(CU_STREAM_NON_BLOCKING);

    client_hold();
    launch_wait_flag(s1, 1, memory.device, memory.device + 4);
    launch_store(s1, memory.device + 8, 1);
    launch_store(s2, memory.device, 1);
    launch_wait_flag(s2, 1, memory.device + 8, memory.device + 12);
    await(&memory.host[3], 1, 2000, "the end of kernels that wait for each other");
    EXPECT_INT(memory.host[1], 1, "what the first of them saw");
    client_expect_held(5);
}

/* --- 30 --- */

static pthread_mutex_t app_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int callbacks;

static void locking_callback(void *data)
{
    (void)data;
    pthread_mutex_lock(&app_lock);
    atomic_fetch_add(&callbacks, 1);
    pthread_mutex_unlock(&app_lock);
}

static void callback_against_lock(void)
{
    CUstream s1 = client_stream(CU_STREAM_NON_BLOCKING), s2 = client_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = client_event(CU_EVENT_DISABLE_TIMING);
    enum {
        BEHIND = 300,
        BESIDE = 1500
    }; /* natively a launch waits when about 1000 lie in a stream that stands still */
    CUdeviceptr p = client_ints(2);

    for (int round = 1; round <= 2; round++) {
        client_hold();
        pthread_mutex_lock(&app_lock);
        launch_add1(s1, p);
        OK(cu.cuLaunchHostFunc(s1, locking_callback, NULL));
        client_release();
        /* The callback waits for the lock that this thread holds while it launches, on that stream and another. */
        for (int i = 0; i < BESIDE; i++) {
            if (i < BEHIND)
                launch_add1(s1, p);
            launch_add1(s2, p + 4);
            if (i % 100 == 0)
                OK(cu.cuEventRecord(event, s2));
        }
        EXPECT_INT(atomic_load(&callbacks), round - 1, "callbacks that got past the lock");
        pthread_mutex_unlock(&app_lock);
        OK(cu.cuCtxSynchronize());
        EXPECT_INT(atomic_load(&callbacks), round, "callbacks");
        EXPECT_INT(client_read(p), round * (BEHIND + 1), "launches behind the callback");
        EXPECT_INT(client_read(p + 4), round * BESIDE, "launches beside it");
    }
    client_expect_held(2 * (BEHIND + BESIDE));
}

/* --- 37 --- */

static void overlap_and_its_reasons(void)
{
    struct client_shared memory = client_shared(4);
    CUstream s1 = client_stream(CU_STREAM_NON_BLOCKING), s2 = client_stream(CU_STREAM_NON_BLOCKING);

    /* Small kernels: the second must run beside the first, or the first would not end. */
    for (int round = 1; round <= 40; round++) {
        memory.host[0] = memory.host[1] = 0;
        launch_wait_flag(s1, 1, memory.device, memory.device + 4);
        launch_store(s2, memory.device, 1);
        await(&memory.host[1], 1, 2000, "the end of a small kernel that another one ends");
    }
    /* One that fills the device: the next is issued by its hold cap, and the trace says that it did not fit. */
    client_hold();
    launch_store(s2, memory.device + 8, 1);
    await(&memory.host[2], 1, 1000, "a store beside a kernel that fills the device");
    client_expect_held(82);
    client_expect_issued("IDLE", 1);
    if (client_mode() == CLIENT_FULL) /* with a window of 1 nothing goes beside anything before its hold cap */
        client_expect_issued("FITS", 1);
    client_expect_issued("NO_FIT_CAP", 1);
}

/* --- 39 --- */

struct worker {
    CUdeviceptr counter;
    int launches;
};

static void *launch_many(void *argument)
{
    struct worker *worker = argument;
    CUstream stream;

    OK(cu.cuCtxSetCurrent(client_context));
    stream = client_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < worker->launches; i++) {
        launch_add1(stream, worker->counter);
        if (i % 50 == 49)
            client_wait(stream);
    }
    client_wait(stream);
    return NULL;
}

static void eight_threads(void)
{
    struct worker workers[8];
    pthread_t threads[8];

    client_kernel("add1");
    for (int i = 0; i < 8; i++) {
        workers[i] = (struct worker){client_ints(1), 200};
        threads[i] = start(launch_many, &workers[i]);
    }
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 8; i++)
        EXPECT_INT(client_read(workers[i].counter), 200, "launches of one of eight threads");
    client_expect_held(1600);
}

/* Several threads, one stream: each launch once, none lost between them. */
static CUstream one_stream;

static void *launch_into_one(void *argument)
{
    struct worker *worker = argument;
    CUfunction add1;

    OK(cu.cuCtxSetCurrent(client_context));
    add1 = client_kernel("add1");
    for (int i = 0; i < worker->launches; i++)
        LAUNCH(add1, 1, 1, one_stream, &worker->counter);
    return NULL;
}

static void threads_in_one_stream(void)
{
    struct worker worker = {client_ints(1), 150};
    pthread_t threads[4];

    one_stream = client_stream(CU_STREAM_NON_BLOCKING);
    client_kernel("add1");
    client_hold();
    for (int i = 0; i < 4; i++)
        threads[i] = start(launch_into_one, &worker);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    client_release();
    client_wait(one_stream);
    EXPECT_INT(client_read(worker.counter), 600, "launches of four threads into one stream");
    client_expect_held(601);
}

static const struct client_scenario scenarios[] = {
    {"trap-28-the-first-launch-of-new-code-keeps-nobody-else", lazy_loading, false},
    {"trap-29-a-barrier-of-all-blocks-gets-on", spin_barrier, false},
    {"trap-29-a-kernel-gets-the-flag-that-another-stream-sets", flag_of_another_stream, false},
    {"trap-29-a-launch-is-issued-though-the-host-only-polls-memory", host_polls_memory, false},
    {"trap-29-held-kernels-that-need-each-other-get-on", held_kernels_that_need_each_other, false},
    {"trap-30-a-callback-that-waits-for-a-lock-stops-no-launch", callback_against_lock, false},
    {"trap-37-the-trace-says-why-kernels-did-or-did-not-overlap", overlap_and_its_reasons, false},
    {"trap-39-eight-threads-launch-without-losing-one", eight_threads, false},
    {"trap-39-four-threads-share-one-stream", threads_in_one_stream, false},
};
CLIENT_MAIN(scenarios)
