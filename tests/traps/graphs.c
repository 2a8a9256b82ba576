/* SPDX-License-Identifier: Apache-2.0
 *
 * Section E: captures, graphs, and code that goes away. Traps 23 to 25.
 */
#include "tests/traps/client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static CUgraphExec end_capture(CUstream stream)
{
    CUgraphExec exec;
    CUgraph graph;

    OK(cu.cuStreamEndCapture(stream, &graph));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuGraphDestroy(graph));
    return exec;
}

/* --- 23 --- */

static void held_launches_stay_outside(void)
{
    static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                                CU_STREAM_CAPTURE_MODE_RELAXED};
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING), legacy_side = client_stream(CU_STREAM_DEFAULT);

    for (int i = 0; i < 6; i++) {
        CUstream s = i % 2 ? legacy_side : stream;
        CUdeviceptr p = client_ints(1);
        CUgraphExec exec;

        client_hold();
        launch_spin(s, 1000000);
        launch_add1(s, p);
        OK(cu.cuStreamBeginCapture_v2(s, modes[i / 2]));
        launch_add1(s, p);
        exec = end_capture(s);
        client_release();
        client_wait(s);
        EXPECT_INT(client_read(p), 1, "launches outside of the capture");
        OK(cu.cuGraphLaunch(exec, s));
        client_wait(s);
        EXPECT_INT(client_read(p), 2, "and after one replay");
        OK(cu.cuGraphExecDestroy(exec));
    }
    client_expect_held(18);
    client_expect_home("CAPTURE", 6);
}

/* A capture over two streams, forked and joined by events that were also used before and are used after. */
static void capture_over_two_streams(void)
{
    CUstream a = client_stream(CU_STREAM_NON_BLOCKING), b = client_stream(CU_STREAM_NON_BLOCKING);
    CUevent fork = client_event(CU_EVENT_DISABLE_TIMING), join = client_event(CU_EVENT_DISABLE_TIMING);
    CUdeviceptr p = client_ints(2), q = p + 4;
    CUgraphExec exec;

    OK(cu.cuEventRecord(fork, a));
    OK(cu.cuEventRecord(join, b));
    client_hold();
    launch_add1(a, p);
    launch_add1(b, q);
    OK(cu.cuEventRecord(fork, a));
    OK(cu.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cu.cuEventRecord(fork, a));
    OK(cu.cuStreamWaitEvent(b, fork, 0));
    launch_add1(b, q);
    launch_add1(a, p);
    OK(cu.cuEventRecord(join, b));
    OK(cu.cuStreamWaitEvent(a, join, 0));
    launch_copy_int(a, p, q);
    exec = end_capture(a);
    client_release();
    OK(cu.cuCtxSynchronize());
    EXPECT_INT(client_read(p) * 10 + client_read(q), 11, "both values before any replay");
    client_hold();
    launch_add1(a, q);             /* 2 */
    OK(cu.cuGraphLaunch(exec, a)); /* q 3, p 2, then p = q */
    launch_add1(a, q);
    OK(cu.cuEventRecord(join, a));
    client_release();
    OK(cu.cuEventSynchronize(join));
    EXPECT_INT(client_read(p) * 10 + client_read(q), 34, "both values after one replay between launches");
    client_expect_held(6);
    client_expect_home("CAPTURE", 3);
}

/* --- 24 --- */

struct launcher {
    CUdeviceptr counter;
    _Atomic bool stop;
    _Atomic int launches;
    CUcontext context;
};

static void *keep_launching(void *argument)
{
    struct launcher *launcher = argument;
    CUstream stream;

    OK(cu.cuCtxSetCurrent(client_context));
    stream = client_stream(CU_STREAM_NON_BLOCKING);
    while (!atomic_load(&launcher->stop)) {
        launch_add1(stream, launcher->counter);
        if (atomic_fetch_add(&launcher->launches, 1) % 64 == 63) /* not a driver call that a capture forbids */
            client_sleep_ms(1);
    }
    client_wait(stream);
    return NULL;
}

static void capture_while_others_launch(void)
{
    static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                                CU_STREAM_CAPTURE_MODE_RELAXED};
    struct launcher launcher = {.counter = client_ints(1)};
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = client_ints(1);
    pthread_t thread;
    int replays = 0;

    client_kernel("add1");
    EXPECT(pthread_create(&thread, NULL, keep_launching, &launcher) == 0, "no thread");
    while (atomic_load(&launcher.launches) < 100)
        client_sleep_ms(1);
    for (int i = 0; i < 45; i++) {
        CUgraphExec exec;

        launch_add1(stream, p);
        OK(cu.cuStreamBeginCapture_v2(stream, modes[i % 3]));
        for (int k = 0; k < 5; k++)
            launch_add1(stream, p);
        exec = end_capture(stream);
        OK(cu.cuGraphLaunch(exec, stream));
        client_wait(stream);
        OK(cu.cuGraphExecDestroy(exec));
        replays++;
    }
    atomic_store(&launcher.stop, true);
    pthread_join(thread, NULL);
    EXPECT_INT(client_read(p), replays * 6, "launches and replays of the capturing thread");
    EXPECT_INT(client_read(launcher.counter), atomic_load(&launcher.launches), "launches of the other thread");
    client_expect_held(100);
    client_expect_home("CAPTURE", 200);
}

/* The other thread's very first launch in its context: whatever is set up then must not break the capture either. */
static void *first_launch_in_a_context(void *argument)
{
    struct launcher *launcher = argument;
    CUdeviceptr p;
    CUmodule module;
    CUfunction add1;
    CUstream stream;

    OK(cu.cuCtxCreate_v2(&launcher->context, 0, client_device));
    OK(cu.cuModuleLoadData(&module, client_ptx()));
    OK(cu.cuModuleGetFunction(&add1, module, "add1"));
    stream = client_stream(CU_STREAM_NON_BLOCKING);
    p = client_ints(1);
    atomic_store(&launcher->launches, 1);
    while (!atomic_load(&launcher->stop))
        ;
    for (int i = 0; i < 3; i++)
        LAUNCH(add1, 1, 1, stream, &p);
    return NULL;
}

static void capture_while_a_context_begins(void)
{
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = client_ints(1);

    launch_add1(stream, p);
    for (int i = 0; i < 12; i++) {
        struct launcher launcher = {0};
        pthread_t thread;
        CUgraphExec exec;

        EXPECT(pthread_create(&thread, NULL, first_launch_in_a_context, &launcher) == 0, "no thread");
        while (!atomic_load(&launcher.launches))
            ;
        atomic_store(&launcher.stop, true);
        OK(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        for (int k = 0; k < 20; k++)
            launch_add1(stream, p);
        exec = end_capture(stream);
        pthread_join(thread, NULL);
        OK(cu.cuGraphExecDestroy(exec));
        OK(cu.cuCtxDestroy_v2(launcher.context));
    }
    client_wait(stream);
    client_expect_home("CAPTURE", 200);
}

/* --- 25 --- */

static void unload_at_once(void)
{
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = client_ints(2);

    for (int round = 1; round <= 6; round++) {
        CUfunction function;
        CUmodule module;
        int value = round;

        OK(cu.cuModuleLoadData(&module, client_ptx()));
        OK(cu.cuModuleGetFunction(&function, module, "store"));
        client_hold();
        LAUNCH(function, 1, 1, stream, &p, &value);
        client_release_after(1);
        OK(cu.cuModuleUnload(module));
        client_wait(stream);
        EXPECT_INT(client_read(p), round, "the store of a module that is gone");
        client_release();
    }
    client_expect_held(12);
}

/* Handles come again, for functions of other parameters: what was known of the old ones must be forgotten. */
static void handles_come_again(void)
{
    static const char *const names[] = {"store", "copy_int", "store_late", "store_short", "spin", "seventy"};
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = client_ints(80), q = client_ints(1);

    for (int round = 0; round < 18; round++) {
        const char *name = names[round % 6];
        int values[69] = {round, 2, 3};
        unsigned long long ns = 1000;
        void *parameters[70];
        CUfunction function;
        CUmodule module;

        OK(cu.cuModuleLoadData(&module, client_ptx()));
        OK(cu.cuModuleGetFunction(&function, module, name));
        for (int i = 0; i < 69; i++)
            parameters[i + 1] = &values[i];
        parameters[0] = &p;
        if (round % 6 == 1)
            parameters[1] = &q;
        if (round % 6 == 2)
            parameters[2] = &ns;
        if (round % 6 == 4)
            parameters[0] = &ns;
        client_hold();
        OK(client_launch(function, 1, 1, 0, stream, parameters));
        launch_copy_int(stream, q, p);
        client_release();
        if (round % 2)
            client_wait(stream);
        OK(cu.cuModuleUnload(module));
        client_wait(stream);
        if (round % 6 == 0 || round % 6 == 2 || round % 6 == 3)
            EXPECT_INT(client_read(q), round, "what a function with a handle used before stored");
    }
    client_expect_held(36);
}

static const struct client_scenario scenarios[] = {
    {"trap-23-held-launches-stay-outside-of-a-capture", held_launches_stay_outside, false},
    {"trap-23-a-capture-over-two-streams-is-complete", capture_over_two_streams, false},
    {"trap-24-launches-of-other-threads-do-not-end-a-capture", capture_while_others_launch, false},
    {"trap-24-the-first-launch-in-a-context-does-not-end-a-capture", capture_while_a_context_begins, false},
    {"trap-25-a-module-can-be-unloaded-behind-a-held-launch", unload_at_once, false},
    {"trap-25-handles-that-come-again-are-learned-again", handles_come_again, false},
};
CLIENT_MAIN(scenarios)
