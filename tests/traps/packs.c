/* SPDX-License-Identifier: Apache-2.0
 *
 * Ways in which coalescing could go wrong: launches of several streams that become one launch must leave what separate
 * launches leave, whatever the program does between them. Most of the work here is in mode packed.
 */
#include "tests/traps/client.h"

#include <stdio.h>
#include <string.h>

enum { STREAMS = 12, N = 96 };

/* Each thread i < n: data[i] = data[i] * factor + add (+ gain, a constant of the module) */
#define STEP_HEAD                                                                                                      \
    ".version 7.8\n.target sm_80\n.address_size 64\n"                                                                  \
    ".const .align 4 .u32 gain = 3;\n.global .align 4 .u32 calls;\n"
#define STEP_BODY(before)                                                                                              \
    ".visible .entry step(.param .u64 data, .param .u32 n, .param .u32 factor, .param .u32 add)\n{\n"                  \
    ".reg .b32 %r<12>;\n.reg .b64 %rd<6>;\n.reg .pred %p<2>;\n"                                                        \
    "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\nmad.lo.s32 %r4, %r1, %r2, %r3;\n"            \
    "ld.param.u32 %r5, [n];\nsetp.ge.u32 %p1, %r4, %r5;\n@%p1 bra DONE;\n"                                             \
    "ld.param.u64 %rd1, [data];\nmul.wide.u32 %rd2, %r4, 4;\nadd.s64 %rd3, %rd1, %rd2;\nld.global.u32 %r6, [%rd3];\n"  \
    "ld.param.u32 %r7, [factor];\nld.param.u32 %r8, [add];\nmad.lo.s32 %r9, %r6, %r7, %r8;\n" before                   \
    "st.global.u32 [%rd3], %r9;\nDONE:\nret;\n}\n"

static const char plain_step[] = STEP_HEAD STEP_BODY("");
static const char other_step[] = STEP_HEAD STEP_BODY("add.s32 %r9, %r9, 1000;\n");
static const char constant_step[] = STEP_HEAD STEP_BODY("ld.const.u32 %r10, [gain];\nadd.s32 %r9, %r9, %r10;\n");
static const char counting_step[] = STEP_HEAD STEP_BODY("red.global.add.u32 [calls], 1;\n");

static CUmodule load(const char *image, CUfunction *step)
{
    CUmodule module;

    OK(cu.cuModuleLoadData(&module, image));
    OK(cu.cuModuleGetFunction(step, module, "step"));
    return module;
}

/* What a tenant's data should be: the same arithmetic on the host. */
struct tenant {
    CUstream stream;
    CUdeviceptr data;
    unsigned want[N];
    unsigned n; /* elements that its launches touch */
};

static void begin(struct tenant *tenants)
{
    for (int t = 0; t < STREAMS; t++) {
        tenants[t].stream = client_stream(CU_STREAM_NON_BLOCKING);
        tenants[t].data = client_ints(N);
        tenants[t].n = N;
        memset(tenants[t].want, 0, sizeof(tenants[t].want));
    }
}

static void launch(struct tenant *tenant, CUfunction step, unsigned grid, unsigned block, unsigned factor, unsigned add,
                   unsigned extra)
{
    LAUNCH(step, grid, block, tenant->stream, &tenant->data, &tenant->n, &factor, &add);
    for (unsigned i = 0; i < tenant->n && i < grid * block; i++)
        tenant->want[i] = tenant->want[i] * factor + add + extra;
}

static void judge(const struct tenant *tenants)
{
    static int got[N];

    for (int t = 0; t < STREAMS; t++) {
        OK(cu.cuStreamSynchronize(tenants[t].stream));
        OK(cu.cuMemcpyDtoH_v2(got, tenants[t].data, sizeof(got)));
        for (int i = 0; i < N; i++)
            EXPECT((unsigned)got[i] == tenants[t].want[i], "stream %d, element %d: %d, expected %d", t, i, got[i],
                   (int)tenants[t].want[i]);
    }
}

/* `rounds` launches in each stream, in turns; some finish early, so that packs have all widths. */
static void run(struct tenant *tenants, CUfunction step, int rounds, unsigned extra)
{
    for (int r = 0; r < rounds; r++)
        for (int t = 0; t < STREAMS; t++)
            if (r < rounds - 2 * t)
                launch(&tenants[t], step, 3, 32, 3, (unsigned)(r * 17 + t), extra);
}

static void streams_keep_their_values(void)
{
    struct tenant tenants[STREAMS];
    CUfunction step;

    load(plain_step, &step);
    begin(tenants);
    for (int burst = 0; burst < 6; burst++) {
        run(tenants, step, 60, 0);
        judge(tenants);
    }
    client_expect_held(1500);
    client_expect_packed(100);
}

static void grids_may_differ(void)
{
    struct tenant tenants[STREAMS];
    CUfunction step;

    load(plain_step, &step);
    begin(tenants);
    for (int burst = 0; burst < 6; burst++) {
        for (int r = 0; r < 40; r++)
            for (int t = 0; t < STREAMS; t++)
                launch(&tenants[t], step, 1 + (unsigned)(t + r) % 3, 32, 5, (unsigned)(r + t), 0);
        judge(tenants);
    }
    client_expect_packed(100);
}

/* The program writes a constant between bursts: no launch may read what it was before. */
static void written_constants_are_seen(void)
{
    struct tenant tenants[STREAMS];
    CUfunction step;
    CUmodule module = load(constant_step, &step);
    CUdeviceptr gain;
    size_t bytes;

    begin(tenants);
    run(tenants, step, 60, 3);
    judge(tenants);
    OK(cu.cuModuleGetGlobal_v2(&gain, &bytes, module, "gain"));
    for (int burst = 0; burst < 4; burst++) {
        client_write(gain, 100 + burst);
        run(tenants, step, 60, (unsigned)(100 + burst));
        judge(tenants);
    }
    client_expect_held(1500);
}

/* Whatever twin counted, it is the program's own variable. */
static void variables_are_the_programs(void)
{
    struct tenant tenants[STREAMS];
    CUfunction step;
    CUmodule module = load(counting_step, &step);
    CUdeviceptr calls;
    size_t bytes;
    int threads = 0;

    begin(tenants);
    for (int burst = 0; burst < 4; burst++) {
        run(tenants, step, 60, 0);
        judge(tenants);
    }
    for (int t = 0; t < STREAMS; t++)
        threads += 4 * N * (60 - 2 * t);
    OK(cu.cuModuleGetGlobal_v2(&calls, &bytes, module, "calls"));
    EXPECT_INT(client_read(calls), threads, "what the kernels counted");
    client_expect_held(1500);
    client_expect_packed(100);
}

/* The same name, the same layout, and often the same handle, but other code. */
static void modules_may_come_again(void)
{
    struct tenant tenants[STREAMS];
    CUfunction step;
    CUmodule module;

    begin(tenants);
    for (int i = 0; i < 8; i++) {
        module = load(i % 2 ? other_step : plain_step, &step);
        run(tenants, step, 40, i % 2 ? 1000 : 0);
        if (i % 3 != 2)
            judge(tenants);
        OK(cu.cuModuleUnload(module));
    }
    judge(tenants);
    client_expect_packed(50);
}

/* A record waits in a lane that is away; another stream binds to it. */
static void events_between_packs_order_streams(void)
{
    struct tenant tenants[STREAMS];
    CUevent events[STREAMS];
    CUfunction step;

    load(plain_step, &step);
    begin(tenants);
    for (int t = 0; t < STREAMS; t++)
        events[t] = client_event(CU_EVENT_DISABLE_TIMING);
    for (int burst = 0; burst < 5; burst++) {
        run(tenants, step, 40, 0);
        for (int t = 0; t < STREAMS; t++)
            OK(cu.cuEventRecord(events[t], tenants[t].stream));
        /* Each stream goes on with its neighbour's data, behind what the neighbour did. */
        for (int t = 0; t < STREAMS; t++) {
            struct tenant borrowed = tenants[(t + 1) % STREAMS];

            OK(cu.cuStreamWaitEvent(tenants[t].stream, events[(t + 1) % STREAMS], 0));
            borrowed.stream = tenants[t].stream;
            launch(&borrowed, step, 3, 32, 7, 1, 0);
            memcpy(tenants[(t + 1) % STREAMS].want, borrowed.want, sizeof(borrowed.want));
            OK(cu.cuEventRecord(events[t], tenants[t].stream));
        }
        for (int t = 0; t < STREAMS; t++)
            OK(cu.cuStreamWaitEvent(tenants[(t + 1) % STREAMS].stream, events[t], 0));
        run(tenants, step, 40, 0);
        judge(tenants);
    }
    client_expect_packed(100);
}

/* Copies and memsets between packs, in lanes that are away, by calls that are queued and calls that are not. */
static void copies_between_packs_keep_their_place(void)
{
    struct tenant tenants[STREAMS];
    CUdeviceptr other = client_ints(STREAMS * N);
    CUfunction step;

    load(plain_step, &step);
    begin(tenants);
    for (int burst = 0; burst < 20; burst++) {
        run(tenants, step, 30, 0);
        for (int t = 0; t < STREAMS; t++) {
            CUdeviceptr mine = other + 4 * (CUdeviceptr)(t * N);

            OK(cu.cuMemcpyDtoDAsync_v2(mine, tenants[t].data, 4 * N, tenants[t].stream));
            OK(cu.cuMemsetD32Async(tenants[t].data, 5, N, tenants[t].stream));
            launch(&tenants[t], step, 3, 32, 0, 9, 0);
            OK(cu.cuMemcpyDtoDAsync_v2(tenants[t].data, mine, 2 * N, tenants[t].stream));
        }
        /* Half of it is back as it was, half is 9. */
        for (int t = 0; t < STREAMS; t++) {
            static int got[N];

            OK(cu.cuMemcpyDtoHAsync_v2(got, other + 4 * (CUdeviceptr)(t * N), 4 * N, tenants[t].stream));
            OK(cu.cuStreamSynchronize(tenants[t].stream));
            for (int i = 0; i < N / 2; i++)
                tenants[t].want[i] = (unsigned)got[i];
        }
        judge(tenants);
    }
    client_expect_packed(50);
}

/* The same launch in several streams: a race that the program may have, if all write the same. */
static void equal_launches_are_all_done(void)
{
    CUdeviceptr counter = client_ints(1), data = client_ints(N);
    struct tenant tenants[STREAMS];
    CUfunction step;
    unsigned n = N, factor = 0, add = 4;
    CUmodule module = load(counting_step, &step);
    size_t bytes;

    begin(tenants);
    for (int r = 0; r < 40; r++)
        for (int t = 0; t < STREAMS; t++)
            LAUNCH(step, 3, 32, tenants[t].stream, &data, &n, &factor, &add);
    OK(cu.cuCtxSynchronize());
    OK(cu.cuModuleGetGlobal_v2(&counter, &bytes, module, "calls"));
    EXPECT_INT(client_read(counter), 40 * STREAMS * N, "threads that ran");
    EXPECT_INT(client_read(data), 4, "what they wrote");
}

static const struct client_scenario scenarios[] = {
    {"packs-streams-keep-their-values", streams_keep_their_values, false},
    {"packs-grids-may-differ", grids_may_differ, false},
    {"packs-written-constants-are-seen", written_constants_are_seen, false},
    {"packs-variables-are-the-programs", variables_are_the_programs, false},
    {"packs-modules-may-come-again", modules_may_come_again, false},
    {"packs-events-between-packs-order-streams", events_between_packs_order_streams, false},
    {"packs-copies-between-packs-keep-their-place", copies_between_packs_keep_their_place, false},
    {"packs-equal-launches-are-all-done", equal_launches_are_all_done, false},
};
CLIENT_MAIN(scenarios)
