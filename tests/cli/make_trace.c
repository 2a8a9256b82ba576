/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a trace with known content, through trace/ itself, so that the reader is tested against the real writer:
 * make-trace [--empty | --packs] FILE. Lane 0 holds 100 launches for 1 to 100 us, the last one coalesced; lane 7 holds
 * two. One launch was not held, one operation is no kernel, one call flushed. With --packs: a pack of three launches of
 * lanes 0 to 2 and one of two, a single launch, and kernels that were rewritten or not.
 */
#include "coalesce/coalesce.h"
#include "scheduler/scheduler.h"
#include "trace/trace.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *reason_name(unsigned int reason)
{
    return sched_reason_name((enum sched_reason)reason);
}

static const char *reason_text(unsigned int reason)
{
    return sched_reason_text((enum sched_reason)reason);
}

static const char *kind_name(unsigned int reason)
{
    return sched_kind_name(sched_reason_kind((enum sched_reason)reason));
}

static const char *refusal_name(unsigned int refusal)
{
    return coalesce_refusal_name((enum coalesce_refusal)refusal);
}

static const char *refusal_text(unsigned int refusal)
{
    return coalesce_refusal_text((enum coalesce_refusal)refusal);
}

static uint64_t now_ns;

/* A launch of `lane` that was held for so many microseconds. */
static void put_launch(struct trace *trace, uint32_t lane, uint64_t corr, uint64_t held_us, enum sched_reason reason)
{
    struct trace_event event = {.ts_ns = now_ns,
                                .dur_ns = 500,
                                .submit_ns = now_ns,
                                .corr = corr,
                                .name = "kernel",
                                .stream = 0x1000 + lane,
                                .lane = lane,
                                .kind = TRACE_SUBMIT,
                                .grid = {1, 1, 1},
                                .block = {32, 1, 1}};

    trace_put(trace, &event);
    event.kind = TRACE_ISSUE;
    event.reason = (uint16_t)reason;
    event.ts_ns += held_us * 1000;
    trace_put(trace, &event);
    now_ns += 200000;
}

static void put_others(struct trace *trace)
{
    struct trace_event event = {.ts_ns = now_ns, .dur_ns = 500, .name = "kernel", .lane = UINT32_MAX};

    event.kind = TRACE_HOME;
    event.reason = SCHED_REASON_COOPERATIVE;
    event.grid[0] = event.grid[1] = event.grid[2] = 1;
    trace_put(trace, &event);
    event.kind = TRACE_FLUSH;
    event.name = "cuStreamSynchronize";
    trace_put(trace, &event);
    event = (struct trace_event){.ts_ns = now_ns,
                                 .dur_ns = 500,
                                 .submit_ns = now_ns - 1000,
                                 .corr = 900,
                                 .name = "cuMemsetD8Async",
                                 .stream = 0x1000,
                                 .kind = TRACE_OP,
                                 .reason = SCHED_REASON_OP};
    trace_put(trace, &event);
}

/* Each member was held for 10 us less than the one before. */
static void put_pack(struct trace *trace, uint32_t pack, uint32_t members)
{
    for (uint32_t lane = 0; lane < members; lane++) {
        struct trace_event event = {.ts_ns = now_ns,
                                    .dur_ns = 500,
                                    .corr = 1000 * pack + lane,
                                    .name = "kernel",
                                    .lane = lane,
                                    .kind = TRACE_SUBMIT,
                                    .grid = {1, 1, 1},
                                    .block = {32, 1, 1}};

        trace_put(trace, &event);
        event.kind = TRACE_ISSUE;
        event.stream = 0xc000;
        event.reason = SCHED_REASON_PACK;
        event.submit_ns = event.ts_ns;
        event.ts_ns += 50000; /* all of a pack at one time */
        event.submit_ns += 10000 * lane;
        event.value[0] = pack;
        event.value[1] = members;
        event.value[2] = lane == 0;
        trace_put(trace, &event);
    }
    now_ns += 200000;
}

static void put_rewrite(struct trace *trace, const char *name, enum coalesce_refusal refusal)
{
    struct trace_event event = {.ts_ns = now_ns,
                                .dur_ns = 70000,
                                .name = name,
                                .lane = UINT32_MAX,
                                .kind = TRACE_REWRITE,
                                .value = {refusal, 0, refusal ? 0 : 16}};

    trace_put(trace, &event);
    now_ns += 200000;
}

static void put_packs(struct trace *trace)
{
    put_pack(trace, 1, 3);
    put_pack(trace, 2, 2);
    put_launch(trace, 1, 201, 5, SCHED_REASON_NOT_READY);
    put_rewrite(trace, "kernel", COALESCE_NONE);
    put_rewrite(trace, "other", COALESCE_INSTRUCTION);
    put_rewrite(trace, "another", COALESCE_INSTRUCTION);
    put_rewrite(trace, "third", COALESCE_NO_IMAGE);
}

int main(int count, char **arguments)
{
    int empty = count == 3 && strcmp(arguments[1], "--empty") == 0;
    int packs = count == 3 && strcmp(arguments[1], "--packs") == 0;
    struct trace_options options = {.path = arguments[count - 1],
                                    .version = "1.2.3",
                                    .reason_name = reason_name,
                                    .reason_text = reason_text,
                                    .kind_name = kind_name,
                                    .reason_count = SCHED_REASON_COUNT,
                                    .refusal_name = refusal_name,
                                    .refusal_text = refusal_text,
                                    .refusal_count = COALESCE_REFUSAL_COUNT};
    struct trace *trace = NULL;
    struct timespec now;

    if (count != 2 + empty + packs || trace_create(&options, &trace)) {
        fprintf(stderr, "usage: make-trace [--empty | --packs] FILE\n");
        return 1;
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    trace_name_lane(trace, 7, "seventh");
    if (packs)
        put_packs(trace);
    for (uint64_t i = 1; !empty && !packs && i <= 100; i++)
        put_launch(trace, 0, i, i, i == 100 ? SCHED_REASON_PACK : i % 2 ? SCHED_REASON_IDLE : SCHED_REASON_FITS);
    if (!empty && !packs) {
        put_launch(trace, 7, 201, 1000, SCHED_REASON_NO_FIT_CAP);
        put_launch(trace, 7, 202, 0, SCHED_REASON_FLUSH);
        put_others(trace);
    }
    trace_destroy(trace, 10000000000u);
    return 0;
}
