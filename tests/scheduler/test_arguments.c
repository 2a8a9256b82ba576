/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/scheduler/helper.h"

#include <errno.h>
#include <string.h>

Test(reasons, each_has_a_name_a_text_and_a_kind)
{
    for (int i = 0; i < SCHED_REASON_COUNT; i++) {
        cr_expect(strlen(sched_reason_name(i)) > 0);
        cr_expect(strlen(sched_reason_text(i)) > strlen(sched_reason_name(i)) / 2);
        cr_expect(ne(str, (char *)sched_kind_name(sched_reason_kind(i)), "?"));
    }
    cr_expect(eq(str, (char *)sched_reason_name(SCHED_REASON_NO_FIT), "NO_FIT"));
    cr_expect(eq(int, sched_reason_kind(SCHED_REASON_PACK), SCHED_COALESCE));
    cr_expect(eq(int, sched_reason_kind(SCHED_REASON_CAPTURE), SCHED_HOME));
}

Test(reasons, numbers_without_a_row_are_named_with_a_question_mark)
{
    cr_expect(eq(str, (char *)sched_reason_name(SCHED_REASON_COUNT), "?"));
    cr_expect(eq(str, (char *)sched_reason_text((enum sched_reason) - 1), "?"));
    cr_expect(eq(int, sched_reason_kind((enum sched_reason)4711), SCHED_HOME));
    cr_expect(eq(str, (char *)sched_kind_name((enum sched_kind)99), "?"));
}

Test(reasons, fit_into_the_counters_of_the_trace)
{
    cr_expect(le(int, SCHED_REASON_COUNT, 64)); /* struct trace_totals */
}

Test(policies, names_are_listed_and_the_first_is_the_default)
{
    const char *const *names = sched_policy_names();
    size_t count = 0;

    for (; names[count]; count++) {
        const struct sched_policy_ops *ops = sched_policy_find(names[count]);
        cr_assert(ne(ptr, (void *)ops, NULL));
        cr_expect(eq(str, (char *)ops->name, (char *)names[count]));
        cr_expect(strlen(ops->help) > 0);
    }
    cr_expect(ge(sz, count, 3));
    cr_expect(eq(ptr, (void *)sched_policy_find(NULL), (void *)sched_policy_find(names[0])));
    cr_expect(eq(ptr, (void *)sched_policy_find(""), (void *)sched_policy_find(names[0])));
    cr_expect(eq(ptr, (void *)sched_policy_find("fi"), NULL));
}

Test(create, refuses_what_is_out_of_range_and_sets_nothing)
{
    const struct sched_config good = {.sm_count = 1, .window = 1};
    struct sched *untouched = (struct sched *)&good, *sched = untouched;
    struct sched_config bad;

    bad = good, bad.sm_count = 0;
    cr_expect(eq(int, sched_create(&bad, &sched), -EINVAL));
    bad = good, bad.sm_count = SCHED_SM_MAX + 1;
    cr_expect(eq(int, sched_create(&bad, &sched), -EINVAL));
    bad = good, bad.window = 0;
    cr_expect(eq(int, sched_create(&bad, &sched), -EINVAL));
    bad = good, bad.policy = "unheard-of";
    cr_expect(eq(int, sched_create(&bad, &sched), -EINVAL));
    cr_expect(eq(int, sched_create(NULL, &sched), -EINVAL));
    cr_expect(eq(int, sched_create(&good, NULL), -EINVAL));
    cr_expect(eq(int, sched_create_with(&good, NULL, &sched), -EINVAL));
    cr_expect(eq(ptr, sched, untouched));
    sched_destroy(NULL);
}

Test(create, takes_the_extremes_of_each_range)
{
    struct sched_config config = {.sm_count = SCHED_SM_MAX, .window = UINT32_MAX, .hold_cap_ns = UINT64_MAX};
    struct sched_launch launch = {.seq = 1, .submit_ns = UINT64_MAX, .kernel = 1, .blocks = UINT64_MAX};
    struct sched *sched;

    cr_assert(eq(int, sched_create(&config, &sched), 0));
    add(sched, SCHED_LANES_MAX - 1, UINT64_MAX, UINT32_MAX);
    add(sched, 0, 1, 1);
    pass(sched, SCHED_LANES_MAX - 1, launch, UINT64_MAX - 1, SCHED_REASON_IDLE);
    cr_expect(eq(u64, load_of(sched).msm, UINT64_C(1000) * SCHED_SM_MAX));
    sched_destroy(sched);
}

Test(lanes, are_added_once_and_refused_out_of_range)
{
    struct sched *sched = make(WINDOW, CAP, NULL);
    struct sched_lane_attr attr = {.weight = 1}, weightless = {.slo_ns = 5};

    cr_expect(eq(int, sched_lane_add(sched, SCHED_LANES_MAX, &attr), -EINVAL));
    cr_expect(eq(int, sched_lane_add(sched, 3, NULL), -EINVAL));
    cr_expect(eq(int, sched_lane_add(sched, 3, &weightless), -EINVAL));
    cr_expect(eq(int, sched_lane_add(NULL, 3, &attr), -EINVAL));
    cr_expect(eq(int, sched_lane_add(sched, 3, &attr), 0));
    cr_expect(eq(int, sched_lane_add(sched, 3, &attr), -EEXIST));
    sched_lane_remove(sched, 3);
    sched_lane_remove(sched, 3);
    sched_lane_remove(sched, SCHED_LANES_MAX);
    cr_expect(eq(int, sched_lane_add(sched, 3, &attr), 0));
    sched_destroy(sched);
}

Test(lanes, start_afresh_when_their_number_is_used_again)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 1);

    pass(sched, 0, kernel(1, 0, 4), 0, SCHED_REASON_IDLE);
    offer(sched, 0, kernel(2, 0, 4));
    sched_lane_remove(sched, 0);
    cr_expect(zero(u32, load_of(sched).offered));
    cr_expect(zero(u32, load_of(sched).inflight));
    cr_expect(zero(u64, load_of(sched).msm));
    expect_hold(sched, 1, SCHED_REASON_NOTHING, SCHED_NEVER);

    add(sched, 0, 0, 1);
    pass(sched, 0, kernel(1, 5, 3), 5, SCHED_REASON_IDLE);
    cr_expect(eq(u64, load_of(sched).msm, 3000));
    sched_destroy(sched);
}

Test(offer, is_refused_for_unknown_lanes_and_tokens_out_of_order)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 2);
    struct sched_launch launch = kernel(0, 0, 1);

    cr_expect(eq(int, sched_offer(sched, 2, &launch), -ENOENT));
    cr_expect(eq(int, sched_offer(sched, SCHED_LANES_MAX, &launch), -ENOENT));
    cr_expect(eq(int, sched_offer(sched, UINT32_MAX, NULL), -ENOENT));
    cr_expect(eq(int, sched_offer(sched, 0, &launch), -EINVAL), "token 0");

    issue(sched, 0, kernel(5, 0, 1), 0);
    sched_complete(sched, 0, 7, 0);
    offer(sched, 0, kernel(8, 0, 1));
    launch.seq = 5;
    cr_expect(eq(int, sched_offer(sched, 0, &launch), -EINVAL), "issued");
    launch.seq = 7;
    cr_expect(eq(int, sched_offer(sched, 0, &launch), -EINVAL), "complete");
    expect(sched, 0, 0, SCHED_REASON_IDLE);
    sched_destroy(sched);
}

Test(offer, replaces_what_was_offered_and_can_be_taken_back)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 2);

    issue(sched, 1, kernel(1, 0, SMS), 0);
    offer(sched, 0, kernel(1, 10, SMS));
    expect_hold(sched, 10, SCHED_REASON_NO_FIT, 10 + CAP);
    offer(sched, 0, kernel(1, 20, SMS));
    expect_hold(sched, 20, SCHED_REASON_NO_FIT, 20 + CAP);
    cr_expect(eq(int, sched_offer(sched, 0, NULL), 0));
    cr_expect(eq(int, sched_offer(sched, 0, NULL), 0));
    expect_hold(sched, 30, SCHED_REASON_NOTHING, SCHED_NEVER);
    cr_expect(zero(u32, load_of(sched).offered));
    sched_destroy(sched);
}

Test(reports, of_unknown_lanes_and_tokens_change_nothing)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 1);
    struct sched_launch launch = kernel(1, 0, 1);

    sched_issued(sched, 1, &launch, 0);
    sched_issued(sched, SCHED_LANES_MAX, &launch, 0);
    sched_issued(sched, 0, NULL, 0);
    launch.seq = 0;
    sched_issued(sched, 0, &launch, 0);
    sched_complete(sched, 1, 1, 0);
    sched_complete(sched, UINT32_MAX, 1, 0);
    sched_complete(sched, 0, 0, 0);
    cr_expect(zero(u32, load_of(sched).inflight));
    cr_expect(zero(u32, load_of(sched).lanes_inflight));
    sched_destroy(sched);
}

static sched_msm_t demand_of(uint64_t blocks, uint16_t per_sm, uint32_t sms)
{
    struct sched_launch launch = {.kernel = 1, .blocks = blocks, .blocks_per_sm = per_sm};

    return sched_demand(&launch, sms);
}

Test(demand, is_blocks_over_occupancy_rounded_up_and_at_most_the_device)
{
    struct sched_launch op = {.blocks = 5};

    cr_expect(eq(u32, demand_of(1, 1, 132), 1000));
    cr_expect(eq(u32, demand_of(33, 4, 132), 8250));
    cr_expect(eq(u32, demand_of(1, 32, 132), 32), "31.25 rounded up");
    cr_expect(eq(u32, demand_of(132 * 4 - 1, 4, 132), 131750));
    cr_expect(eq(u32, demand_of(132 * 4, 4, 132), 132000));
    cr_expect(eq(u32, demand_of(132 * 4 + 1, 4, 132), 132000), "a second wave asks for no more than the device");
    cr_expect(eq(u32, demand_of(7, 0, 132), 7000), "unknown occupancy counts as 1");
    cr_expect(eq(u32, demand_of(0, 4, 132), 250), "an empty grid counts as one block");
    cr_expect(eq(u32, demand_of(UINT64_MAX, UINT16_MAX, SCHED_SM_MAX), SCHED_SM_MAX * 1000));
    cr_expect(eq(u32, demand_of(UINT64_C(1) << 31, UINT16_MAX, SCHED_SM_MAX), 32768501), "no overflow");
    cr_expect(zero(u32, sched_demand(&op, 132)));
}
