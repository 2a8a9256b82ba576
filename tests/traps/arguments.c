/* SPDX-License-Identifier: Apache-2.0
 *
 * Section B: what a launch is must be known when the call returns, because all of it lies in memory that the caller
 * uses again at once. Traps 8 to 13.
 */
#include "tests/traps/client.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- 8 --- */

static void parameters_are_copied(void)
{
    enum { COUNT = 1000 };
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUfunction store = client_kernel("store");
    CUdeviceptr out = client_ints(COUNT);
    static int got[COUNT];

    client_hold();
    for (int i = 0; i < COUNT; i++) {
        CUdeviceptr p = out + 4 * (CUdeviceptr)i;
        int value = i;
        void *parameters[2] = {&p, &value};

        OK(client_launch(store, 1, 1, 0, stream, parameters));
        if (i == 0)
            client_still_held("store", 1);
        p = out;
        value = -1;
        parameters[0] = parameters[1] = NULL;
    }
    client_release();
    OK(cu.cuMemcpyDtoHAsync_v2(got, out, sizeof(got), stream));
    client_wait(stream);
    for (int i = 0; i < COUNT; i++)
        EXPECT(got[i] == i, "launch %d ran with the value %d", i, got[i]);
    client_expect_held(COUNT + 1);
}

/* Memory that the caller frees, and the allocator poisons, as soon as the call returns. */
static void parameters_in_heap(void)
{
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUfunction store = client_kernel("store");
    CUdeviceptr out = client_ints(50);

    client_hold();
    for (int i = 0; i < 50; i++) {
        struct {
            CUdeviceptr p;
            int value;
            void *parameters[2];
        } *heap = malloc(sizeof(*heap));

        EXPECT(heap, "no memory");
        heap->p = out + 4 * (CUdeviceptr)i;
        heap->value = 1000 + i;
        heap->parameters[0] = &heap->p;
        heap->parameters[1] = &heap->value;
        OK(client_launch(store, 1, 1, 0, stream, heap->parameters));
        memset(heap, 0x5a, sizeof(*heap));
        free(heap);
    }
    client_release();
    client_wait(stream);
    for (int i = 0; i < 50; i++)
        EXPECT_INT(client_read(out + 4 * (CUdeviceptr)i), 1000 + i, "a store");
    client_expect_held(51);
}

/* --- 9 --- */

static CUresult launch_extra(CUfunction function, CUstream stream, void *buffer, size_t *size)
{
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, size, CU_LAUNCH_PARAM_END};
    CUresult result = cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra);

    memset(extra, 0xee, sizeof(extra));
    return result;
}

static void extra_is_copied(void)
{
    enum { COUNT = 200 };
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUfunction store = client_kernel("store"), store_short = client_kernel("store_short");
    CUdeviceptr out = client_ints(COUNT + 1);

    client_hold();
    for (int i = 0; i < COUNT; i++) {
        struct {
            CUdeviceptr p;
            int value;
        } buffer = {out + 4 * (CUdeviceptr)i, i};
        size_t size = 12;

        OK(launch_extra(store, stream, &buffer, &size));
        memset(&buffer, 0xdd, sizeof(buffer));
        size = 0;
    }
    client_still_held("store", COUNT);
    {
        unsigned char buffer[16] = {0};
        CUdeviceptr p = out + 4 * COUNT;
        short value = -5;
        size_t size = 10; /* no tail padding */

        memcpy(buffer, &p, sizeof(p));
        memcpy(buffer + 8, &value, sizeof(value));
        OK(launch_extra(store_short, stream, buffer, &size));
        memset(buffer, 0xdd, sizeof(buffer));
    }
    client_release();
    client_wait(stream);
    for (int i = 0; i < COUNT; i++)
        EXPECT_INT(client_read(out + 4 * (CUdeviceptr)i), i, "a store by the extra form");
    EXPECT_INT(client_read(out + 4 * COUNT), -5, "a store of ten bytes of parameters");
    client_expect_held(COUNT + 2);
}

/* What the driver refuses it must refuse now, and what it takes it must get as it is. */
static void odd_extra_is_the_drivers(void)
{
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUfunction store = client_kernel("store"), store_short = client_kernel("store_short");
    CUdeviceptr p = client_ints(1);
    unsigned char buffer[16] = {0};
    int value = 3;
    void *parameters[] = {&p, &value};
    size_t size = 12;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};

    memcpy(buffer, &p, sizeof(p));
    client_hold();
    launch_store(stream, p, 1);
    /* Both forms at once. */
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, stream, parameters, extra));
    /* Tail padding counted: 16 bytes for (int *, short). Seen on driver 580. */
    size = 16;
    GIVES(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, cu.cuLaunchKernel(store_short, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
    client_release();
    client_wait(stream);
    EXPECT_INT(client_read(p), 1, "the one launch that was right");
    client_expect_home("ARGUMENTS", 1);
    client_expect_home("DOUBTFUL", 1);
    client_expect_held(2);
}

/* --- 10 --- */

static void many_bytes(void)
{
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUfunction big = client_kernel("big");
    CUdeviceptr out = client_ints(16);
    int *in = malloc(32000);

    EXPECT(in, "no memory");
    client_hold();
    /* More than a lane can hold at a time, so that room must be made as well. */
    for (int round = 0; round < 6; round++) {
        CUdeviceptr to = out + 16 * (CUdeviceptr)(round % 4);

        for (int i = 0; i < 8000; i++)
            in[i] = i * 10 + round;
        OK(client_launch(big, 1, 1, 0, stream, (void *[]){in, &to}));
        memset(in, 0xff, 32000);
    }
    client_release();
    client_wait(stream);
    for (int slot = 0; slot < 4; slot++) {
        static const int looked_at[4] = {0, 1023, 4001, 7999};
        int round = slot < 2 ? slot + 4 : slot;

        for (int i = 0; i < 4; i++)
            EXPECT_INT(client_read(out + 16 * (CUdeviceptr)slot + 4 * (CUdeviceptr)i), looked_at[i] * 10 + round,
                       "a word of the 32000 bytes");
    }
    free(in);
    client_expect_held(7);
}

static void launch_seventy(CUstream stream, CUdeviceptr out, int base)
{
    void *parameters[70];
    int values[69];

    parameters[0] = &out;
    for (int i = 0; i < 69; i++) {
        values[i] = base + i;
        parameters[i + 1] = &values[i];
    }
    OK(client_launch(client_kernel("seventy"), 1, 1, 0, stream, parameters));
    memset(values, 0x7f, sizeof(values));
    memset(parameters, 0, sizeof(parameters));
}

static void many_parameters(void)
{
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr out = client_ints(80);

    client_hold();
    launch_seventy(stream, out, 500);
    client_still_held("seventy", 1);
    client_release();
    client_wait(stream);
    for (int i = 0; i < 69; i++)
        EXPECT_INT(client_read(out + 4 * (CUdeviceptr)(10 + i)), 500 + i, "one of 70 parameters");
    client_expect_held(2);
}

/*
 * Run without cuFuncGetParamInfo, which the driver has from CUDA 12.4 on, and once more with one that fails: a list
 * that ends in the wrong error is no layout.
 */
static void unknown_layout(void)
{
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = client_ints(1), out = client_ints(80);

    client_hold();
    launch_twice_plus(stream, p, 1);
    launch_seventy(stream, out, 500);
    launch_twice_plus(stream, p, 0);
    client_release();
    client_wait(stream);
    EXPECT_INT(client_read(p), 2, "two steps");
    EXPECT_INT(client_read(out + 4 * 78), 568, "the last of 70 parameters");
    client_expect_home("LAYOUT", 4);
    client_expect_none_held();
}

/* --- 11 --- */

/* A launch of another thread that is in the queue meanwhile. */
static void *launch_elsewhere(void *argument)
{
    CUdeviceptr p = *(CUdeviceptr *)argument;

    OK(cu.cuCtxSetCurrent(client_context));
    launch_store(client_stream(CU_STREAM_NON_BLOCKING), p, 4);
    return NULL;
}

static void let_another_launch(CUdeviceptr p)
{
    pthread_t thread;

    EXPECT(pthread_create(&thread, NULL, launch_elsewhere, &p) == 0, "no thread");
    pthread_join(thread, NULL);
}

static CUlaunchAttribute cluster_of(unsigned width)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    unsigned shape[3] = {width, 1, 1};

    memcpy(attribute.value.pad, shape, sizeof(shape));
    return attribute;
}

static void clusters(void)
{
    CUfunction function = client_kernel_sm90("cluster_shape");
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr out = client_ints(16), p = client_ints(1);
    void *parameters[] = {&out};
    CUlaunchAttribute attribute = cluster_of(2);
    CUlaunchConfig config = {8, 1, 1, 32, 1, 1, 0, stream, &attribute, 1};

    client_hold();
    let_another_launch(p);
    OK(cu.cuLaunchKernelEx(&config, function, parameters, NULL));
    memset(&attribute, 0xcc, sizeof(attribute));
    memset(&config, 0xcc, sizeof(config));
    client_still_held("cluster_shape", 1);
    client_release();
    client_wait(stream);
    for (unsigned block = 0; block < 8; block++) {
        EXPECT_INT(client_read(out + 8 * block), 2, "the width of the cluster");
        EXPECT_INT(client_read(out + 8 * block + 4), block % 2, "the rank in the cluster");
    }
    OK(cu.cuCtxSynchronize());
    EXPECT_INT(client_read(p), 4, "the other thread's store");
    client_expect_held(3);
}

static void cooperative(void)
{
    CUfunction meet = client_kernel("meet");
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    unsigned blocks = (unsigned)client_sm_count();
    CUdeviceptr words = client_ints(4), p = client_ints(1);

    for (int form = 0; form < 2; form++) {
        CUdeviceptr count = words + 8 * (CUdeviceptr)form, met = count + 4;
        void *parameters[] = {&count, &blocks, &met};
        CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 1}};
        CUlaunchConfig config = {blocks, 1, 1, 32, 1, 1, 0, stream, &attribute, 1};

        client_step(form == 0 ? "a cooperative launch by attribute" : "a cooperative launch by name");
        client_hold();
        launch_add1(stream, p);
        let_another_launch(p + 0);
        if (form == 0)
            OK(cu.cuLaunchKernelEx(&config, meet, parameters, NULL));
        else
            OK(cu.cuLaunchCooperativeKernel(meet, blocks, 1, 1, 32, 1, 1, 0, stream, parameters));
        client_release();
        client_wait(stream);
        EXPECT_INT(client_read(met), blocks, "blocks that met all others");
    }
    /* More blocks than can be resident: refused at the call, which only the real attribute makes the driver do. */
    {
        void *parameters[] = {&words, &blocks, &words};

        GIVES(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
              cu.cuLaunchCooperativeKernel(meet, 100000, 1, 1, 1024, 1, 1, 0, stream, parameters));
    }
    client_expect_home("COOPERATIVE", 2);
    client_expect_home("ATTRIBUTE", 1);
    client_expect_held(4);
}

/* Libraries that fill a list of attributes once and set values in it do that. */
static void not_cooperative(void)
{
    CUfunction add1 = client_kernel("add1");
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = client_ints(1);
    void *parameters[] = {&p};
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 0}};
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, &attribute, 1};

    for (int i = 0; i < 3; i++)
        OK(cu.cuLaunchKernelEx(&config, add1, parameters, NULL));
    client_wait(stream);
    EXPECT_INT(client_read(p), 3, "launches that arrived");
    client_expect_held(3);
}

static CUlaunchAttribute completion_event(CUevent event)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT};

    memcpy(attribute.value.pad, &event, sizeof(event));
    return attribute;
}

static void launch_copy_with_event(CUstream stream, CUdeviceptr to, CUdeviceptr from, CUevent event)
{
    CUlaunchAttribute attribute = completion_event(event);
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, &attribute, 1};

    OK(cu.cuLaunchKernelEx(&config, client_kernel("copy_int"), (void *[]){&to, &from}, NULL));
}

/* An event that a launch records covers what was launched before it, held or not. */
static void event_of_a_launch(void)
{
    struct client_shared memory = client_shared(2);
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = client_event(CU_EVENT_DISABLE_TIMING);

    client_hold();
    launch_store_late(stream, memory.device, 9, 20000000);
    client_still_held("store_late", 1);
    launch_copy_with_event(stream, memory.device + 4, memory.device, event);
    client_release();
    OK(cu.cuEventSynchronize(event));
    EXPECT_INT(memory.host[0], 9, "the store before the launch whose event is over");
    client_wait(stream);
    EXPECT_INT(memory.host[1], 9, "the copy");
    client_expect_held(2);
    client_expect_home("ATTRIBUTE", 1);
}

/* Such a record is the latest one, also if an earlier record still waits in another lane. */
static void event_of_a_launch_is_the_latest(void)
{
    struct client_shared memory = client_shared(4); /* flag, seen, source, target */
    CUstream blocked = client_stream(CU_STREAM_NON_BLOCKING), free_stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = client_event(CU_EVENT_DISABLE_TIMING);
    uint64_t began;

    OK(cu.cuEventRecord(event, blocked)); /* only an event that was recorded before is queued */
    launch_wait_flag(blocked, 1, memory.device, memory.device + 4);
    OK(cu.cuEventRecord(event, blocked));
    client_hold();
    launch_store(blocked, memory.device + 8, 6);
    OK(cu.cuEventRecord(event, blocked)); /* waits behind the store */
    launch_copy_with_event(free_stream, memory.device + 12, memory.device + 8, event);
    client_sleep_ms(1);
    began = client_ns();
    while (cu.cuEventQuery(event) == CUDA_ERROR_NOT_READY)
        EXPECT(client_ns() - began < 2000000000u, "the event follows a record that was made before that of the launch");
    EXPECT_INT(memory.host[1], 0, "what the blocked stream saw");
    memory.host[0] = 1;
    client_release();
    client_wait(blocked);
    EXPECT_INT(memory.host[1], 1, "what the blocked stream saw at last");
    client_expect_held(2);
    client_expect_home("ATTRIBUTE", 1);
}

/* --- 12 --- */

static void programmatic_pair(void)
{
    CUfunction first = client_kernel_sm90("pdl_first"), second = client_kernel_sm90("pdl_second");
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = client_ints(2), q = p + 4, elsewhere = client_ints(1);

    for (int round = 0; round < 8; round++) {
        CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                       .value = {.programmaticStreamSerializationAllowed = 1}};
        CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, &attribute, 1};
        uint64_t ns = 200000;

        client_hold();
        LAUNCH(first, 1, 1, stream, &p, &round, &ns);
        let_another_launch(elsewhere);
        OK(cu.cuLaunchKernelEx(&config, second, (void *[]){&q, &p}, NULL));
        memset(&attribute, 0, sizeof(attribute));
        client_release();
        client_wait(stream);
        EXPECT_INT(client_read(q), round + 1, "what the second kernel of the pair made of the first one's result");
    }
    client_expect_held(24);
}

/* --- 13 --- */

static void shared_memory_limit(void)
{
    enum { WORDS = 16384 }; /* 64 KiB */
    CUfunction function = client_kernel("use_shared");
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = client_ints(1);
    int words = WORDS;
    void *parameters[] = {&p, &words};

    for (int round = 0; round < 5; round++) {
        OK(cu.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, WORDS * 4));
        OK(cu.cuMemsetD32_v2(p, 0, 1));
        client_hold();
        OK(client_launch(function, 1, 32, WORDS * 4, stream, parameters));
        OK(cu.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 4096));
        client_release();
        client_wait(stream);
        EXPECT_INT(client_read(p), WORDS, "the kernel with 64 KiB of shared memory");
        /* And from now on the new limit counts, at the call. */
        GIVES(CUDA_ERROR_INVALID_VALUE, client_launch(function, 1, 32, WORDS * 4, stream, parameters));
    }
    client_expect_held(10);
    client_expect_home("DOUBTFUL", 5);
}

static const struct client_scenario scenarios[] = {
    {"trap-08-parameters-are-copied-before-the-call-returns", parameters_are_copied, false},
    {"trap-08-parameters-in-freed-heap-are-copied", parameters_in_heap, false},
    {"trap-09-parameters-of-the-extra-form-are-copied", extra_is_copied, false},
    {"trap-09-odd-extra-lists-are-left-to-the-driver", odd_extra_is_the_drivers, false},
    {"trap-10-thirty-two-thousand-bytes-of-parameters-are-copied", many_bytes, false},
    {"trap-10-seventy-parameters-are-copied", many_parameters, false},
    {"trap-10-without-a-known-layout-nothing-is-held", unknown_layout, false},
    {"trap-11-cluster-attributes-arrive", clusters, false},
    {"trap-11-a-launch-that-says-it-is-not-cooperative-is-held", not_cooperative, false},
    {"trap-11-cooperative-grids-meet", cooperative, false},
    {"trap-11-the-event-of-a-launch-covers-what-came-before", event_of_a_launch, false},
    {"trap-11-the-event-of-a-launch-is-its-latest-record", event_of_a_launch_is_the_latest, false},
    {"trap-12-a-programmatic-pair-stays-together", programmatic_pair, false},
    {"trap-13-a-held-launch-keeps-the-shared-memory-limit-of-its-time", shared_memory_limit, false},
};
CLIENT_MAIN(scenarios)
