/* SPDX-License-Identifier: Apache-2.0
 *
 * Section C: what the CUDA model orders stays in order, and what it does not order does not wait. Traps 14 to 18
 * and 35.
 */
#include "tests/traps/client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static void run_thread(void *(*body)(void *), void *argument)
{
    pthread_t thread;

    EXPECT(pthread_create(&thread, NULL, body, argument) == 0, "no thread");
    pthread_join(thread, NULL);
}

/* Waits until the device has written `value`; no driver call, so nothing is flushed by waiting. */
static void await(volatile int *word, int value, unsigned ms, const char *what)
{
    uint64_t began = client_ns();

    while (*word != value)
        EXPECT(client_ns() - began < ms * 1000000ull, "%s did not happen within %u ms", what, ms);
}

/* --- 14 --- */

static void legacy_orders_blocking_streams(void)
{
    static CUstream const nulls[] = {NULL, CU_STREAM_LEGACY};
    CUstream a = client_stream(CU_STREAM_DEFAULT), b = client_stream(CU_STREAM_DEFAULT);
    CUdeviceptr p = client_ints(1);
    int expected = 0, steps = 0;

    client_hold();
    for (int round = 0; round < 4; round++) {
        CUstream const order[] = {a, nulls[round % 2], b, nulls[(round + 1) % 2], a, nulls[round % 2]};

        for (int i = 0; i < 6; i++) {
            int k = (round + i) % 3 == 0;

            launch_twice_plus(order[i], p, k);
            expected = expected * 2 + k;
            steps++;
        }
    }
    client_release();
    OK(cu.cuCtxSynchronize());
    EXPECT_INT(client_read(p), expected, "steps that alternate between blocking streams and the null stream");
    client_expect_held(steps / 2);
}

/* A long kernel on one side, what must wait for it on the other, each way. */
static void legacy_waits_and_is_waited_for(void)
{
    struct client_shared memory = client_shared(4);
    CUstream blocking = client_stream(CU_STREAM_DEFAULT);

    client_hold();
    launch_store_late(blocking, memory.device, 1, 20000000);
    launch_copy_int(NULL, memory.device + 4, memory.device);
    client_release();
    client_wait(NULL);
    EXPECT_INT(memory.host[1], 1, "what the null stream read after a blocking stream's kernel");
    client_hold();
    launch_store_late(NULL, memory.device, 2, 20000000);
    launch_copy_int(blocking, memory.device + 8, memory.device);
    client_release();
    client_wait(blocking);
    EXPECT_INT(memory.host[2], 2, "what a blocking stream read after the null stream's kernel");
    client_expect_held(4);
}

static void non_blocking_is_exempt(void)
{
    struct client_shared memory = client_shared(4);
    CUstream exempt = client_stream(CU_STREAM_NON_BLOCKING);

    /* First the null stream would have to overtake, then the other one. */
    launch_wait_flag(exempt, 1, memory.device, memory.device + 4);
    launch_store(NULL, memory.device, 1);
    await(&memory.host[1], 1, 2000, "the end of a kernel that waits for the null stream");
    memory.host[0] = memory.host[1] = 0;
    client_wait(exempt);
    launch_wait_flag(NULL, 1, memory.device, memory.device + 4);
    launch_store(exempt, memory.device, 1);
    await(&memory.host[1], 1, 2000, "the end of a null stream kernel that waits for a non-blocking stream");
    client_expect_held(4);
}

/* The legacy event of the simpleStreams sample: it covers all blocking streams. */
static void legacy_event_covers_blocking_streams(void)
{
    struct client_shared memory = client_shared(8);
    CUevent event = client_event(0);
    CUstream streams[4];

    for (int i = 0; i < 4; i++)
        streams[i] = client_stream(CU_STREAM_DEFAULT);
    for (int round = 0; round < 2; round++) { /* in the second round the event was recorded before */
        client_hold();
        for (int i = 0; i < 4; i++)
            launch_store_late(streams[i], memory.device + 4 * (CUdeviceptr)i, round + 1, 10000000);
        OK(cu.cuEventRecord(event, NULL));
        client_release();
        OK(cu.cuEventSynchronize(event));
        for (int i = 0; i < 4; i++)
            EXPECT_INT(memory.host[i], round + 1, "what a blocking stream stored before the event");
    }
    client_expect_held(10);
}

/* And a wait in the null stream is a wait for what comes later in the others. */
static void legacy_wait_reaches_blocking_streams(void)
{
    struct client_shared memory = client_shared(4);
    CUstream exempt = client_stream(CU_STREAM_NON_BLOCKING), blocking = client_stream(CU_STREAM_DEFAULT);
    CUevent event = client_event(CU_EVENT_DISABLE_TIMING);

    for (int round = 1; round <= 2; round++) {
        client_hold();
        launch_store_late(exempt, memory.device, round, 20000000);
        OK(cu.cuEventRecord(event, exempt));
        OK(cu.cuStreamWaitEvent(NULL, event, 0));
        launch_copy_int(blocking, memory.device + 4, memory.device);
        client_release();
        client_wait(blocking);
        EXPECT_INT(memory.host[1], round, "what a blocking stream read after the null stream waited");
    }
    client_expect_held(6);
}

/* --- 15 --- */

struct own_stream {
    struct client_shared memory;
    int index;
    bool by_handle; /* stream 2 through the plain function, or stream 0 through the other one */
};

static CUresult launch_own(CUfunction function, bool by_handle, void **parameters)
{
    return by_handle ? cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_PER_THREAD, parameters, NULL)
                     : cu.cuLaunchKernel_ptsz(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL);
}

static void *run_own(void *argument)
{
    struct own_stream *own = argument;
    CUdeviceptr p = own->memory.device + 4 * (CUdeviceptr)own->index;
    CUfunction function;
    int expected = 0;

    OK(cu.cuCtxSetCurrent(client_context));
    function = client_kernel("twice_plus");
    for (int i = 0; i < 20; i++) {
        int k = (i + own->index) % 2;

        OK(launch_own(function, own->by_handle, (void *[]){&p, &k}));
        k = 77;
        expected = expected * 2 + (i + own->index) % 2;
    }
    OK(own->by_handle ? cu.cuStreamSynchronize(CU_STREAM_PER_THREAD) : cu.cuStreamSynchronize_ptsz(NULL));
    EXPECT_INT(own->memory.host[own->index], expected, "the value in a thread's own stream after it was waited for");
    return NULL;
}

static void per_thread_streams(void)
{
    struct own_stream own[4];
    pthread_t threads[4];

    client_kernel("twice_plus");
    client_hold();
    for (int i = 0; i < 4; i++) {
        own[i] = (struct own_stream){i ? own[0].memory : client_shared(4), i, i % 2 == 1};
        EXPECT(pthread_create(&threads[i], NULL, run_own, &own[i]) == 0, "no thread");
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    client_expect_home("PER_THREAD", 80);
    client_expect_held(1);
}

static void *wait_in_own_stream(void *argument)
{
    struct client_shared *memory = argument;
    CUdeviceptr seen = memory->device + 4;

    OK(cu.cuCtxSetCurrent(client_context));
    OK(launch_own(client_kernel("wait_flag"), false, (void *[]){&memory->device, &seen}));
    return NULL;
}

/* One thread's stream waits; another thread's goes on. */
static void per_thread_streams_are_different(void)
{
    struct client_shared memory = client_shared(4);
    CUdeviceptr elsewhere = memory.device + 8;
    CUfunction store = client_kernel("store");
    int value = 1;

    /* A thread's first use of its stream makes it, and for that the driver may wait. */
    OK(launch_own(store, true, (void *[]){&elsewhere, &value}));
    OK(cu.cuStreamSynchronize(CU_STREAM_PER_THREAD));
    run_thread(wait_in_own_stream, &memory);
    OK(launch_own(store, true, (void *[]){&memory.device, &value}));
    await(&memory.host[1], 1, 2000, "the end of a kernel that waits for another thread's own stream");
    client_expect_home("PER_THREAD", 3);
}

/* A thread's own stream is a blocking one: the null stream's held launches come before it, and after. */
static void per_thread_against_legacy(void)
{
    CUfunction function = client_kernel("twice_plus");
    CUdeviceptr p = client_ints(1);
    int expected = 0;

    client_hold();
    for (int i = 0; i < 12; i++) {
        int k = i % 3 == 1;

        if (i % 2)
            OK(launch_own(function, i % 4 == 1, (void *[]){&p, &k}));
        else
            launch_twice_plus(NULL, p, k);
        expected = expected * 2 + k;
    }
    client_release();
    OK(cu.cuCtxSynchronize());
    EXPECT_INT(client_read(p), expected, "steps that alternate between the null stream and the thread's own");
    client_expect_home("PER_THREAD", 6);
    client_expect_held(7);
}

/* Events and copies of the per-thread flavour wait for held launches of ordinary streams. */
static void per_thread_flavour_of_other_calls(void)
{
    struct client_shared memory = client_shared(2);
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = client_ints(1);
    CUevent event = client_event(0);

    for (int round = 1; round <= 3; round++) {
        client_hold();
        launch_store_late(stream, p, round, 5000000);
        OK(cu.cuEventRecord_ptsz(event, stream));
        OK(cu.cuStreamWaitEvent_ptsz(NULL, event, 0));
        OK(cu.cuMemcpyDtoHAsync_v2_ptsz((void *)memory.host, p, 4, NULL));
        client_release();
        OK(cu.cuStreamSynchronize_ptsz(NULL));
        EXPECT_INT(memory.host[0], round, "what the thread's own stream copied after waiting for another");
    }
    client_expect_held(6);
}

/* --- 16 --- */

static void queries_do_not_lie(void)
{
    struct client_shared memory = client_shared(2);
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = client_event(0);

    for (int round = 0; round < 3; round++) {
        uint64_t began;

        memory.host[0] = memory.host[1] = 0;
        client_hold();
        launch_wait_flag(stream, 1, memory.device, memory.device + 4);
        OK(cu.cuEventRecord(event, stream));
        if (round == 2)
            GIVES(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
        GIVES(CUDA_ERROR_NOT_READY, cu.cuEventQuery(event));
        GIVES(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
        EXPECT_INT(memory.host[1], 0, "what the kernel saw");
        memory.host[0] = 1;
        began = client_ns();
        while (cu.cuEventQuery(event) == CUDA_ERROR_NOT_READY)
            EXPECT(client_ns() - began < 2000000000u, "the event does not come");
        EXPECT_INT(memory.host[1], 1, "what the kernel saw before its event");
        client_release();
        client_wait(stream);
        OK(cu.cuStreamQuery(stream));
    }
    client_expect_held(6);
}

/* Nothing but polling: the launch must get on all the same. */
static void polling_makes_progress(void)
{
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = client_event(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr p = client_ints(1);

    for (int round = 0; round < 4; round++) {
        uint64_t began;

        client_hold();
        launch_store(stream, p, round);
        OK(cu.cuEventRecord(event, stream));
        began = client_ns();
        while ((round % 2 ? cu.cuStreamQuery(stream) : cu.cuEventQuery(event)) == CUDA_ERROR_NOT_READY)
            EXPECT(client_ns() - began < 2000000000u, "no progress while the program polls");
        client_release();
        EXPECT_INT(client_read(p), round, "the store before the event");
    }
    client_expect_held(8);
    if (client_mode() == CLIENT_HELD)
        client_expect_issued("FLUSH", 4);
}

/* --- 17 --- */

static void wait_binds_to_the_record_of_its_time(void)
{
    struct client_shared memory = client_shared(8); /* flag 1, seen 1, flag 3, seen 3, target */
    CUstream s1 = client_stream(CU_STREAM_NON_BLOCKING), s2 = client_stream(CU_STREAM_NON_BLOCKING),
             s3 = client_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = client_event(0);

    for (int round = 1; round <= 2; round++) { /* in the second round the event is one that may be queued */
        for (int i = 0; i < 4; i++)
            memory.host[i] = 0;
        client_hold();
        launch_wait_flag(s1, 1, memory.device, memory.device + 4);
        OK(cu.cuEventRecord(event, s1));
        OK(cu.cuStreamWaitEvent(s2, event, 0));
        launch_store(s2, memory.device + 16, round);
        launch_wait_flag(s3, 1, memory.device + 8, memory.device + 12);
        OK(cu.cuEventRecord(event, s3));
        client_sleep_ms(5);
        EXPECT_INT(memory.host[4], round - 1, "the store that waits for the first record, before that is reached");
        memory.host[0] = 1;
        await(&memory.host[4], round, 2000, "the store that waits for the first record only");
        EXPECT_INT(memory.host[3], 0, "what the third stream saw");
        GIVES(CUDA_ERROR_NOT_READY, cu.cuEventQuery(event));
        memory.host[2] = 1;
        OK(cu.cuEventSynchronize(event));
        EXPECT_INT(memory.host[3], 1, "what the third stream saw before the second record");
        client_release();
        OK(cu.cuCtxSynchronize());
    }
    client_expect_held(8);
}

static void one_event_around_three_streams(void)
{
    CUstream streams[3];
    CUevent event = client_event(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr p = client_ints(1);
    unsigned expected = 0;

    for (int i = 0; i < 3; i++)
        streams[i] = client_stream(CU_STREAM_NON_BLOCKING);
    client_hold();
    for (int i = 0; i < 150; i++) {
        int k = i % 5 == 0;

        launch_twice_plus(streams[i % 3], p, k);
        OK(cu.cuEventRecord(event, streams[i % 3]));
        OK(cu.cuStreamWaitEvent(streams[(i + 1) % 3], event, 0));
        expected = expected * 2 + (unsigned)k;
        if (i == 75)
            client_release();
    }
    OK(cu.cuCtxSynchronize());
    EXPECT_INT(client_read(p), (int)expected, "steps in three streams that one event chains");
    client_expect_held(100);
}

/* Two records of one event that are both queued: the later one is what counts. */
static void rerecorded_while_queued(void)
{
    struct client_shared memory = client_shared(4);
    CUstream s1 = client_stream(CU_STREAM_NON_BLOCKING), s2 = client_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = client_event(CU_EVENT_DISABLE_TIMING);

    OK(cu.cuEventRecord(event, s1));
    OK(cu.cuEventRecord(event, s2));
    for (int round = 1; round <= 4; round++) {
        client_hold();
        launch_store(s1, memory.device, round);
        OK(cu.cuEventRecord(event, s1));
        launch_store_late(s2, memory.device + 4, round, 10000000);
        OK(cu.cuEventRecord(event, s2));
        client_release();
        OK(cu.cuEventSynchronize(event));
        EXPECT_INT(memory.host[1], round, "the store before the later record");
        OK(cu.cuCtxSynchronize());
    }
    client_expect_held(12);
}

static void unrecorded_and_destroyed_events(void)
{
    CUstream s1 = client_stream(CU_STREAM_NON_BLOCKING), s2 = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = client_ints(2), q = p + 4;

    client_hold();
    for (int i = 1; i <= 20; i++) {
        CUevent event = client_event(CU_EVENT_DISABLE_TIMING), never = client_event(0);

        OK(cu.cuStreamWaitEvent(s2, never, 0)); /* nothing to wait for */
        GIVES(CUDA_SUCCESS, cu.cuEventQuery(never));
        launch_store_late(s1, p, i, i % 5 ? 0 : 2000000);
        OK(cu.cuEventRecord(event, s1));
        OK(cu.cuStreamWaitEvent(s2, event, 0));
        OK(cu.cuEventDestroy_v2(event)); /* its handle may be that of the next one */
        OK(cu.cuEventDestroy_v2(never));
        launch_copy_int(s2, q, p);
        if (i == 10)
            client_release();
        if (i % 4 == 0) {
            client_wait(s2);
            EXPECT_INT(client_read(q), i, "what was copied after an event that is gone");
        }
    }
    OK(cu.cuCtxSynchronize());
    client_expect_held(20);
}

/* --- 18 --- */

/* A program as servers are: most of it on the null stream, some on blocking streams, copies and memsets in between. */
static void null_stream_program(void)
{
    CUstream streams[3] = {client_stream(CU_STREAM_DEFAULT), client_stream(CU_STREAM_DEFAULT), CU_STREAM_LEGACY};
    CUdeviceptr p = client_ints(4);
    unsigned value[4] = {0}, seed = 12345;

    for (int i = 0; i < 300; i++) {
        /* Each step goes to the null stream or follows one there, so all are in one order. */
        CUstream stream = i % 2 ? NULL : streams[(seed >> 8) % 3];
        unsigned a = (seed >> 12) % 4, b = (seed >> 16) % 4;
        int k = (int)(seed >> 20) & 1;

        seed = seed * 1664525u + 1013904223u;
        if (i % 50 == 0)
            client_hold();
        if (i % 50 == 40)
            client_release();
        switch ((seed >> 24) % 5) {
        case 0:
            OK(cu.cuMemcpyDtoDAsync_v2(p + 4 * a, p + 4 * b, a == b ? 0 : 4, stream));
            value[a] = value[b];
            break;
        case 1:
            OK(cu.cuMemsetD32Async(p + 4 * a, seed & 0xffff, 1, stream));
            value[a] = seed & 0xffff;
            break;
        case 2:
            launch_copy_int(stream, p + 4 * a, p + 4 * b);
            value[a] = value[b];
            break;
        default:
            launch_twice_plus(stream, p + 4 * a, k);
            value[a] = value[a] * 2 + (unsigned)k;
        }
        if (i % 60 == 59)
            OK(cu.cuStreamSynchronize(NULL));
    }
    client_release();
    OK(cu.cuStreamSynchronize(NULL));
    for (unsigned i = 0; i < 4; i++)
        EXPECT_INT(client_read(p + 4 * i), (int)value[i], "a value after 300 steps");
    client_expect_held(50);
}

/* --- 35 --- */

static void event_times(void)
{
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUevent begin = client_event(0), end = client_event(0);

    for (int round = 0; round < 3; round++) { /* from the second one on the records may wait in the lane */
        float ms = -1;

        if (round == 2)
            client_hold();
        launch_spin(stream, 1000000);
        OK(cu.cuEventRecord(begin, stream));
        launch_spin(stream, 50000000);
        OK(cu.cuEventRecord(end, stream));
        OK(cu.cuEventSynchronize(end));
        OK(cu.cuEventElapsedTime(&ms, begin, end));
        /* Upwards there is room for a busy machine: what once happened was a time near 0. */
        EXPECT(ms > 49.0f && ms < 400.0f, "a kernel of 50 ms takes %.3f ms by events in round %d", (double)ms, round);
    }
    client_release();
    client_expect_held(7);
}

static const struct client_scenario scenarios[] = {
    {"trap-14-the-null-stream-orders-blocking-streams", legacy_orders_blocking_streams, false},
    {"trap-14-the-null-stream-waits-and-is-waited-for", legacy_waits_and_is_waited_for, false},
    {"trap-14-non-blocking-streams-do-not-wait-for-the-null-stream", non_blocking_is_exempt, false},
    {"trap-14-an-event-in-the-null-stream-covers-blocking-streams", legacy_event_covers_blocking_streams, false},
    {"trap-14-a-wait-in-the-null-stream-holds-blocking-streams", legacy_wait_reaches_blocking_streams, false},
    {"trap-15-each-thread-has-its-own-default-stream", per_thread_streams, false},
    {"trap-15-default-streams-of-two-threads-do-not-wait-for-each-other", per_thread_streams_are_different, false},
    {"trap-15-the-null-stream-orders-per-thread-streams", per_thread_against_legacy, false},
    {"trap-15-per-thread-flavours-of-calls-wait-for-held-launches", per_thread_flavour_of_other_calls, false},
    {"trap-16-queries-say-not-ready-while-work-is-pending", queries_do_not_lie, false},
    {"trap-16-a-polling-host-makes-progress", polling_makes_progress, false},
    {"trap-17-a-wait-binds-to-the-record-of-its-time", wait_binds_to_the_record_of_its_time, false},
    {"trap-17-one-event-chains-three-streams", one_event_around_three_streams, false},
    {"trap-17-of-two-queued-records-the-later-counts", rerecorded_while_queued, false},
    {"trap-17-unrecorded-and-destroyed-events-do-no-harm", unrecorded_and_destroyed_events, false},
    {"trap-18-a-program-on-the-null-stream-gives-the-same-values", null_stream_program, false},
    {"trap-35-event-times-are-those-of-the-device", event_times, false},
};
CLIENT_MAIN(scenarios)
