/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports of issues and completions, in every order in which flushing threads and the engine can bring them.
 */
#include "tests/scheduler/helper.h"

static void expect_load(const struct sched *sched, uint32_t inflight, uint64_t sms)
{
    cr_assert(eq(u32, load_of(sched).inflight, inflight));
    cr_assert(eq(u64, load_of(sched).msm, 1000 * sms));
}

Test(flight, reports_may_come_in_any_order)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 1);

    issue(sched, 0, kernel(3, 0, 2), 0);
    expect_load(sched, 3, 2); /* 1 and 2 were issued too, though we do not know yet what they ask for */
    issue(sched, 0, kernel(1, 0, 7), 0);
    expect_load(sched, 3, 7);
    issue(sched, 0, kernel(2, 0, 5), 0);
    expect_load(sched, 3, 7);
    sched_complete(sched, 0, 1, 0);
    expect_load(sched, 2, 5);
    sched_complete(sched, 0, 2, 0);
    expect_load(sched, 1, 2);
    sched_complete(sched, 0, 3, 0);
    expect_load(sched, 0, 0);
    sched_destroy(sched);
}

Test(flight, repeated_reports_change_nothing)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 1);

    issue(sched, 0, kernel(1, 0, 2), 0);
    issue(sched, 0, kernel(2, 0, 3), 0);
    issue(sched, 0, kernel(1, 0, 9), 0);
    issue(sched, 0, kernel(2, 0, 9), 0);
    expect_load(sched, 2, 3);
    sched_complete(sched, 0, 2, 0);
    issue(sched, 0, kernel(2, 0, 9), 0);
    sched_complete(sched, 0, 1, 0);
    expect_load(sched, 0, 0);
    sched_destroy(sched);
}

Test(flight, a_completion_may_come_before_its_issue)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 1);

    sched_complete(sched, 0, 2, 0);
    issue(sched, 0, kernel(1, 0, 4), 0);
    issue(sched, 0, kernel(2, 0, 4), 0);
    expect_load(sched, 0, 0);
    issue(sched, 0, kernel(3, 0, 4), 0);
    expect_load(sched, 1, 4);
    sched_destroy(sched);
}

Test(flight, completion_is_cumulative)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 2);

    for (uint64_t seq = 1; seq <= 300; seq++)
        issue(sched, 0, kernel(seq, 0, 1 + seq % SMS), 0);
    issue(sched, 1, kernel(1, 0, 1), 0);
    cr_expect(eq(u32, load_of(sched).lanes_inflight, 2));
    sched_complete(sched, 0, 299, 0);
    expect_load(sched, 2, 1 + 1);
    sched_complete(sched, 0, 300, 0);
    expect_load(sched, 1, 1);
    cr_expect(eq(u32, load_of(sched).lanes_inflight, 1));
    sched_destroy(sched);
}

Test(flight, a_report_withdraws_a_head_that_someone_else_issued)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 2);

    issue(sched, 1, kernel(1, 0, SMS), 0);
    offer(sched, 0, kernel(1, 0, SMS));
    expect_hold(sched, 0, SCHED_REASON_NO_FIT, CAP);
    issue(sched, 0, kernel(1, 0, SMS), 1);
    issue(sched, 0, kernel(2, 0, SMS), 1);
    expect_hold(sched, 1, SCHED_REASON_NOTHING, SCHED_NEVER);
    offer(sched, 0, kernel(3, 0, SMS));
    sched_complete(sched, 0, 3, 2);
    expect_hold(sched, 2, SCHED_REASON_NOTHING, SCHED_NEVER);
    cr_expect(zero(u32, load_of(sched).offered));
    sched_destroy(sched);
}

/* Falling demands are the case in which nothing can be dropped from the list, so that it overflows. */
Test(flight, more_launches_than_can_be_tracked_never_understate_the_load)
{
    enum { COUNT = 3 * SCHED_FLIGHT_MAX };
    struct sched_config config = {.sm_count = COUNT, .window = 1};
    struct sched *sched;

    cr_assert(eq(int, sched_create(&config, &sched), 0));
    add(sched, 0, 0, 1);
    for (uint64_t seq = 1; seq <= COUNT; seq++)
        issue(sched, 0, kernel(seq, 0, COUNT + 1 - seq), 0);
    expect_load(sched, COUNT, COUNT);
    for (uint64_t seq = 1; seq <= COUNT; seq++) {
        sched_complete(sched, 0, seq, 0);
        cr_assert(eq(u32, load_of(sched).inflight, COUNT - seq));
        cr_assert(ge(u64, load_of(sched).msm, 1000 * (COUNT - seq)));
        if (seq > COUNT - SCHED_FLIGHT_MAX) /* the younger ones are tracked one by one */
            cr_assert(eq(u64, load_of(sched).msm, 1000 * (COUNT - seq)));
    }
    sched_destroy(sched);
}

/* Reports in blocks of 64 that run backwards, into a full list. */
Test(flight, late_reports_into_a_full_list_never_understate_the_load)
{
    enum { COUNT = 4 * SCHED_FLIGHT_MAX, BLOCK = 64 };
    struct sched_config config = {.sm_count = COUNT, .window = 1};
    struct sched *sched;

    cr_assert(eq(int, sched_create(&config, &sched), 0));
    add(sched, 0, 0, 1);
    for (uint64_t block = 0; block < COUNT; block += BLOCK)
        for (uint64_t i = BLOCK; i >= 1; i--)
            issue(sched, 0, kernel(block + i, 0, COUNT + 1 - (block + i)), 0);
    expect_load(sched, COUNT, COUNT);
    for (uint64_t seq = 1; seq <= COUNT; seq++) {
        sched_complete(sched, 0, seq, 0);
        cr_assert(ge(u64, load_of(sched).msm, 1000 * (COUNT - seq)));
    }
    expect_load(sched, 0, 0);
    sched_destroy(sched);
}

Test(flight, launches_that_can_never_be_the_largest_take_no_place)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 1);

    issue(sched, 0, kernel(1, 0, 9), 0);
    for (uint64_t seq = 2; seq <= 2 * SCHED_FLIGHT_MAX; seq++)
        issue(sched, 0, kernel(seq, 0, 2), 0);
    expect_load(sched, 2 * SCHED_FLIGHT_MAX, 9);
    sched_complete(sched, 0, 1, 0); /* had the list overflowed, 1 would be merged with a later one */
    expect_load(sched, 2 * SCHED_FLIGHT_MAX - 1, 2);
    sched_destroy(sched);
}
