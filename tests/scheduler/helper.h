/* SPDX-License-Identifier: Apache-2.0
 *
 * Short ways to build schedulers and launches. The device of most tests has 10 SMs and its kernels one block per SM, so
 * that `sms` of a launch reads as what it asks for.
 */
#ifndef COISSUE_TESTS_SCHEDULER_HELPER_H
#define COISSUE_TESTS_SCHEDULER_HELPER_H

#include "scheduler/policy.h"
#include "scheduler/scheduler.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

enum { SMS = 10, WINDOW = 16 };
#define CAP UINT64_C(1000)

static inline struct sched *make(uint32_t window, uint64_t cap_ns, const char *policy)
{
    struct sched_config config = {.sm_count = SMS, .window = window, .hold_cap_ns = cap_ns, .policy = policy};
    struct sched *sched = NULL;

    cr_assert(eq(int, sched_create(&config, &sched), 0));
    return sched;
}

static inline void add(struct sched *sched, uint32_t lane, uint64_t slo_ns, uint32_t weight)
{
    struct sched_lane_attr attr = {.slo_ns = slo_ns, .weight = weight};

    cr_assert(eq(int, sched_lane_add(sched, lane, &attr), 0));
}

/* A scheduler with `lanes` best-effort lanes of weight 100. */
static inline struct sched *make_lanes(uint32_t window, uint64_t cap_ns, const char *policy, uint32_t lanes)
{
    struct sched *sched = make(window, cap_ns, policy);

    for (uint32_t i = 0; i < lanes; i++)
        add(sched, i, 0, 100);
    return sched;
}

static inline struct sched_launch kernel(uint64_t seq, uint64_t submit_ns, uint64_t sms)
{
    return (struct sched_launch){.seq = seq, .submit_ns = submit_ns, .kernel = 7, .blocks = sms, .blocks_per_sm = 1};
}

static inline void offer(struct sched *sched, uint32_t lane, struct sched_launch launch)
{
    cr_assert(eq(int, sched_offer(sched, lane, &launch), 0));
}

static inline void issue(struct sched *sched, uint32_t lane, struct sched_launch launch, uint64_t now_ns)
{
    sched_issued(sched, lane, &launch, now_ns);
}

/* The next decision must be this one. It is not reported as issued. */
static inline void expect(struct sched *sched, uint64_t now_ns, uint32_t lane, enum sched_reason reason)
{
    struct sched_decision decision = {.reason = SCHED_REASON_COUNT};
    uint64_t wake_ns = 4711;

    cr_assert(eq(int, sched_next(sched, now_ns, &decision, &wake_ns), 1), "held (%s) at %lu, expected lane %u (%s)",
              sched_reason_name(decision.reason), (unsigned long)now_ns, lane, sched_reason_name(reason));
    cr_assert(eq(u32, decision.count, 1));
    cr_assert(eq(u32, decision.member[0].lane, lane));
    cr_assert(eq(str, (char *)sched_reason_name(decision.reason), (char *)sched_reason_name(reason)));
    cr_assert(eq(int, decision.kind, sched_reason_kind(reason)));
    cr_assert(eq(u64, wake_ns, 4711), "wake_ns must be left alone with a decision");
}

/* The next answer must be to hold. */
static inline void expect_hold(struct sched *sched, uint64_t now_ns, enum sched_reason reason, uint64_t wake_ns)
{
    struct sched_decision decision = {.reason = SCHED_REASON_COUNT};
    uint64_t wake = 4711;

    cr_assert(eq(int, sched_next(sched, now_ns, &decision, &wake), 0), "lane %u (%s) at %lu, expected to hold (%s)",
              decision.member[0].lane, sched_reason_name(decision.reason), (unsigned long)now_ns,
              sched_reason_name(reason));
    cr_assert(eq(str, (char *)sched_reason_name(decision.reason), (char *)sched_reason_name(reason)));
    cr_assert(eq(int, decision.kind, SCHED_HOLD));
    cr_assert(eq(u64, wake, wake_ns));
}

/* Offers a launch, expects it to be decided, and reports it as issued. */
static inline void pass(struct sched *sched, uint32_t lane, struct sched_launch launch, uint64_t now_ns,
                        enum sched_reason reason)
{
    offer(sched, lane, launch);
    expect(sched, now_ns, lane, reason);
    issue(sched, lane, launch, now_ns);
}

static inline struct sched_load load_of(const struct sched *sched)
{
    struct sched_load load;

    sched_load(sched, &load);
    return load;
}

#endif
