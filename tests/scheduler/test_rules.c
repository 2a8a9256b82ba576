/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of the scheduler and of its default policy, one by one.
 */
#include "tests/scheduler/helper.h"

Test(alone, the_only_lane_is_never_held_however_much_it_has_in_flight)
{
    struct sched *sched = make_lanes(2, CAP, NULL, 3);

    for (uint64_t seq = 1; seq <= 100; seq++)
        pass(sched, 1, kernel(seq, 0, SMS), 0, SCHED_REASON_IDLE);
    cr_expect(eq(u32, load_of(sched).inflight, 100));
    cr_expect(eq(u64, load_of(sched).msm, 1000 * SMS));
    sched_destroy(sched);
}

Test(alone, an_idle_device_takes_the_oldest_head_at_once)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 3);

    offer(sched, 0, kernel(1, 30, SMS));
    offer(sched, 1, kernel(1, 10, SMS));
    offer(sched, 2, kernel(1, 20, SMS));
    expect(sched, 30, 1, SCHED_REASON_IDLE);
    expect(sched, 30, 2, SCHED_REASON_IDLE);
    expect(sched, 30, 0, SCHED_REASON_IDLE);
    sched_destroy(sched);
}

Test(alone, behind_its_own_lane_while_another_only_waits)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 2);

    pass(sched, 0, kernel(1, 0, 6), 0, SCHED_REASON_IDLE);
    offer(sched, 1, kernel(1, 1, 5));
    expect_hold(sched, 1, SCHED_REASON_NO_FIT, 1 + CAP);
    offer(sched, 0, kernel(2, 2, 6));
    expect(sched, 2, 0, SCHED_REASON_IDLE);
    sched_destroy(sched);
}

Test(coschedule, what_fits_beside_the_flight_of_others)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 3);

    pass(sched, 0, kernel(1, 0, 6), 0, SCHED_REASON_IDLE);
    pass(sched, 1, kernel(1, 0, 4), 0, SCHED_REASON_FITS);
    cr_expect(eq(u64, load_of(sched).msm, 10000));
    cr_expect(eq(u32, load_of(sched).lanes_inflight, 2));
    offer(sched, 2, kernel(1, 0, 1));
    expect_hold(sched, 0, SCHED_REASON_NO_FIT, CAP);
    sched_destroy(sched);
}

Test(coschedule, a_younger_head_that_fits_passes_an_older_one_that_does_not)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 4);

    pass(sched, 0, kernel(1, 0, 6), 0, SCHED_REASON_IDLE);
    offer(sched, 1, kernel(1, 1, 5));
    offer(sched, 2, kernel(1, 3, 2));
    offer(sched, 3, kernel(1, 2, 2));
    expect(sched, 3, 3, SCHED_REASON_FITS);
    issue(sched, 3, kernel(1, 2, 2), 3);
    expect(sched, 3, 2, SCHED_REASON_FITS);
    issue(sched, 2, kernel(1, 3, 2), 3);
    expect_hold(sched, 3, SCHED_REASON_NO_FIT, 1 + CAP);
    sched_destroy(sched);
}

Test(hold, what_does_not_fit_goes_when_the_device_is_idle)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 2);

    pass(sched, 0, kernel(1, 0, 6), 0, SCHED_REASON_IDLE);
    offer(sched, 1, kernel(1, 5, 5));
    expect_hold(sched, 5, SCHED_REASON_NO_FIT, 5 + CAP);
    sched_complete(sched, 0, 1, 50);
    expect(sched, 50, 1, SCHED_REASON_IDLE);
    sched_destroy(sched);
}

Test(hold, what_does_not_fit_goes_when_its_cap_is_reached_and_not_before)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 2);

    pass(sched, 0, kernel(1, 0, 6), 0, SCHED_REASON_IDLE);
    offer(sched, 1, kernel(1, 5, 5));
    expect_hold(sched, 5, SCHED_REASON_NO_FIT, 5 + CAP);
    expect_hold(sched, 5 + CAP - 1, SCHED_REASON_NO_FIT, 5 + CAP);
    expect(sched, 5 + CAP, 1, SCHED_REASON_NO_FIT_CAP);
    sched_destroy(sched);
}

Test(hold, the_cap_counts_from_submission_also_for_a_launch_that_waited_behind_its_lane)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 2);

    pass(sched, 0, kernel(1, 0, SMS), 0, SCHED_REASON_IDLE);
    offer(sched, 1, kernel(1, 0, SMS));
    expect(sched, CAP, 1, SCHED_REASON_NO_FIT_CAP);
    issue(sched, 1, kernel(1, 0, SMS), CAP);
    pass(sched, 1, kernel(2, 0, SMS), CAP, SCHED_REASON_NO_FIT_CAP);
    offer(sched, 1, kernel(3, 1, SMS));
    expect(sched, CAP + 1, 1, SCHED_REASON_NO_FIT_CAP);
    sched_destroy(sched);
}

Test(hold, due_heads_go_in_the_order_of_their_submission)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 5);

    pass(sched, 0, kernel(1, 0, SMS), 0, SCHED_REASON_IDLE);
    offer(sched, 1, kernel(1, 30, SMS));
    offer(sched, 2, kernel(1, 10, SMS));
    offer(sched, 3, kernel(1, 40, SMS));
    offer(sched, 4, kernel(1, 20, SMS));
    expect(sched, 5000, 2, SCHED_REASON_NO_FIT_CAP);
    expect(sched, 5000, 4, SCHED_REASON_NO_FIT_CAP);
    expect(sched, 5000, 1, SCHED_REASON_NO_FIT_CAP);
    expect(sched, 5000, 3, SCHED_REASON_NO_FIT_CAP);
    sched_destroy(sched);
}

Test(hold, wakes_for_the_oldest_of_all_heads)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 4);

    pass(sched, 0, kernel(1, 0, SMS), 0, SCHED_REASON_IDLE);
    offer(sched, 1, kernel(1, 30, SMS));
    offer(sched, 2, kernel(1, 10, SMS));
    offer(sched, 3, kernel(1, 20, SMS));
    expect_hold(sched, 30, SCHED_REASON_NO_FIT, 10 + CAP);
    cr_expect(eq(int, sched_offer(sched, 2, NULL), 0));
    expect_hold(sched, 30, SCHED_REASON_NO_FIT, 20 + CAP);
    sched_destroy(sched);
}

Test(hold, never_with_a_cap_of_zero_even_if_clocks_disagree)
{
    struct sched *sched = make_lanes(1, 0, NULL, 3);

    pass(sched, 0, kernel(1, 0, 6), 0, SCHED_REASON_IDLE);
    pass(sched, 1, kernel(1, 0, 4), 0, SCHED_REASON_CAP);
    pass(sched, 2, kernel(1, 99, 9), 0, SCHED_REASON_NO_FIT_CAP);
    sched_destroy(sched);
}

Test(hold, time_that_runs_backwards_gets_an_answer_of_its_own)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 2);

    pass(sched, 0, kernel(1, 0, SMS), 0, SCHED_REASON_IDLE);
    offer(sched, 1, kernel(1, 5000, SMS));
    expect_hold(sched, 5500, SCHED_REASON_NO_FIT, 5000 + CAP);
    expect_hold(sched, 10, SCHED_REASON_NO_FIT, 5000 + CAP);
    expect_hold(sched, 5999, SCHED_REASON_NO_FIT, 5000 + CAP);
    expect(sched, 6000, 1, SCHED_REASON_NO_FIT_CAP);
    sched_destroy(sched);
}

Test(demand, of_a_lane_in_flight_is_its_largest_launch_not_the_sum)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 2);

    pass(sched, 0, kernel(1, 0, 4), 0, SCHED_REASON_IDLE);
    pass(sched, 1, kernel(1, 0, 6), 0, SCHED_REASON_FITS);
    pass(sched, 1, kernel(2, 0, 6), 0, SCHED_REASON_FITS);
    pass(sched, 1, kernel(3, 0, 2), 0, SCHED_REASON_FITS);
    cr_expect(eq(u64, load_of(sched).msm, 10000));
    offer(sched, 1, kernel(4, 0, 7));
    expect_hold(sched, 0, SCHED_REASON_NO_FIT, CAP);
    sched_destroy(sched);
}

Test(demand, of_a_lane_falls_when_its_largest_launch_completes)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 2);

    pass(sched, 0, kernel(1, 0, 8), 0, SCHED_REASON_IDLE);
    pass(sched, 0, kernel(2, 0, 2), 0, SCHED_REASON_IDLE);
    offer(sched, 1, kernel(1, 0, 5));
    expect_hold(sched, 0, SCHED_REASON_NO_FIT, CAP);
    sched_complete(sched, 0, 1, 1);
    cr_expect(eq(u64, load_of(sched).msm, 2000));
    expect(sched, 1, 1, SCHED_REASON_FITS);
    sched_destroy(sched);
}

Test(window, binds_while_lanes_compete)
{
    struct sched *sched = make_lanes(3, CAP, NULL, 2);

    pass(sched, 0, kernel(1, 0, 1), 0, SCHED_REASON_IDLE);
    pass(sched, 1, kernel(1, 0, 1), 0, SCHED_REASON_FITS);
    pass(sched, 0, kernel(2, 0, 1), 0, SCHED_REASON_FITS);
    offer(sched, 1, kernel(2, 7, 1));
    expect_hold(sched, 7, SCHED_REASON_WINDOW, 7 + CAP);
    sched_complete(sched, 0, 1, 8);
    expect(sched, 8, 1, SCHED_REASON_FITS);
    sched_destroy(sched);
}

Test(window, does_not_bind_any_more_when_the_other_lane_is_gone)
{
    struct sched *sched = make_lanes(2, CAP, NULL, 2);

    pass(sched, 0, kernel(1, 0, 1), 0, SCHED_REASON_IDLE);
    pass(sched, 1, kernel(1, 0, 1), 0, SCHED_REASON_FITS);
    offer(sched, 1, kernel(2, 7, 1));
    expect_hold(sched, 7, SCHED_REASON_WINDOW, 7 + CAP);
    sched_lane_remove(sched, 0);
    expect(sched, 8, 1, SCHED_REASON_IDLE);
    sched_destroy(sched);
}

Test(window, a_full_one_yields_to_the_cap)
{
    struct sched *sched = make_lanes(2, CAP, NULL, 2);

    pass(sched, 0, kernel(1, 0, 1), 0, SCHED_REASON_IDLE);
    pass(sched, 1, kernel(1, 0, 1), 0, SCHED_REASON_FITS);
    offer(sched, 1, kernel(2, 7, 1));
    expect_hold(sched, 7 + CAP - 1, SCHED_REASON_WINDOW, 7 + CAP);
    expect(sched, 7 + CAP, 1, SCHED_REASON_CAP);
    sched_destroy(sched);
}

Test(window, counts_lanes_for_the_first_launch_of_a_lane)
{
    struct sched *sched = make_lanes(2, CAP, NULL, 3);

    for (uint64_t seq = 1; seq <= 50; seq++)
        pass(sched, 0, kernel(seq, 0, 1), 0, SCHED_REASON_IDLE);
    pass(sched, 1, kernel(1, 0, 1), 0, SCHED_REASON_FITS); /* 50 in flight, but of one lane */
    offer(sched, 1, kernel(2, 0, 1));
    expect_hold(sched, 0, SCHED_REASON_WINDOW, CAP);
    offer(sched, 2, kernel(1, 1, 1));
    expect_hold(sched, 1, SCHED_REASON_WINDOW, CAP);
    sched_complete(sched, 0, 50, 2);
    expect(sched, 2, 1, SCHED_REASON_IDLE);
    issue(sched, 1, kernel(2, 0, 1), 2);
    expect(sched, 2, 2, SCHED_REASON_FITS);
    sched_destroy(sched);
}

Test(op, goes_at_once_in_the_order_of_its_lane_and_asks_for_no_sm)
{
    struct sched *sched = make_lanes(1, CAP, NULL, 3);
    struct sched_launch op = {.seq = 1, .submit_ns = 5};

    pass(sched, 0, kernel(1, 0, SMS), 0, SCHED_REASON_IDLE);
    offer(sched, 2, kernel(1, 0, SMS));
    pass(sched, 1, op, 5, SCHED_REASON_OP);
    cr_expect(eq(u64, load_of(sched).msm, 1000 * SMS));
    cr_expect(eq(u32, load_of(sched).inflight, 2));
    expect_hold(sched, 5, SCHED_REASON_WINDOW, CAP);
    sched_destroy(sched);
}

Test(op, of_a_busy_lane_does_not_starve_due_launches_of_others)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 3);
    struct sched_launch op = {.seq = 1, .submit_ns = 3 * CAP};

    pass(sched, 0, kernel(1, 0, SMS), 0, SCHED_REASON_IDLE);
    offer(sched, 1, kernel(1, 0, SMS));
    issue(sched, 0, kernel(2, 0, SMS), 3 * CAP); /* tells the time */
    offer(sched, 2, op);
    expect(sched, 3 * CAP, 1, SCHED_REASON_NO_FIT_CAP);
    expect(sched, 3 * CAP, 2, SCHED_REASON_OP);
    sched_destroy(sched);
}

Test(op, whose_clock_is_ahead_is_still_an_op)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 2);
    struct sched_launch op = {.seq = 1, .submit_ns = 5 * CAP};

    pass(sched, 0, kernel(1, 0, SMS), 0, SCHED_REASON_IDLE);
    pass(sched, 1, op, 0, SCHED_REASON_OP);
    sched_destroy(sched);
}

Test(glued, follows_its_predecessor_without_being_held)
{
    struct sched *sched = make_lanes(1, CAP, NULL, 2);
    struct sched_launch glued = kernel(2, 0, SMS);

    glued.glued = true;
    pass(sched, 0, kernel(1, 0, 6), 0, SCHED_REASON_IDLE);
    pass(sched, 0, glued, 0, SCHED_REASON_GLUED);
    offer(sched, 1, kernel(1, 0, 3));
    expect(sched, CAP, 1, SCHED_REASON_NO_FIT_CAP);
    issue(sched, 1, kernel(1, 0, 3), CAP);
    glued.submit_ns = CAP;
    pass(sched, 1, glued, CAP, SCHED_REASON_GLUED_BESIDE);
    sched_destroy(sched);
}

Test(slack, a_lane_whose_slack_is_short_goes_first_whatever_is_in_flight)
{
    struct sched *sched = make(1, CAP, NULL);

    add(sched, 0, 0, 100);
    add(sched, 1, 0, 100);
    add(sched, 2, 4 * CAP, 100);
    pass(sched, 0, kernel(1, 0, SMS), 0, SCHED_REASON_IDLE);
    offer(sched, 1, kernel(1, 1, SMS));
    offer(sched, 2, kernel(1, 2, SMS));
    expect_hold(sched, 2, SCHED_REASON_WINDOW, 3); /* slack is exactly 4 caps */
    expect(sched, 3, 2, SCHED_REASON_SLACK);
    issue(sched, 2, kernel(1, 2, SMS), 3);
    pass(sched, 2, kernel(2, 4, SMS), 4, SCHED_REASON_SLACK);
    expect_hold(sched, 4, SCHED_REASON_WINDOW, 1 + CAP);
    sched_destroy(sched);
}

Test(slack, a_lane_with_time_left_waits_and_is_woken_when_it_has_none)
{
    struct sched *sched = make(WINDOW, CAP, NULL);

    add(sched, 0, 0, 100);
    add(sched, 1, 4 * CAP + 500, 100);
    pass(sched, 0, kernel(1, 0, SMS), 0, SCHED_REASON_IDLE);
    offer(sched, 1, kernel(1, 10, SMS));
    expect_hold(sched, 10, SCHED_REASON_NO_FIT, 10 + 501);
    expect_hold(sched, 510, SCHED_REASON_NO_FIT, 10 + 501);
    expect(sched, 511, 1, SCHED_REASON_SLACK);
    sched_destroy(sched);
}

Test(slack, lanes_with_a_target_are_counted)
{
    struct sched *sched = make(WINDOW, CAP, NULL);

    add(sched, 0, 0, 100);
    add(sched, 1, 1000, 100);
    add(sched, 2, 1000, 100);
    cr_expect(eq(u32, sched_view(sched)->slo_lanes, 2));
    sched_lane_remove(sched, 0);
    sched_lane_remove(sched, 2);
    cr_expect(eq(u32, sched_view(sched)->slo_lanes, 1));
    sched_destroy(sched);
}

Test(slack, the_least_goes_first)
{
    struct sched *sched = make(WINDOW, CAP, NULL);

    add(sched, 0, 0, 100);
    add(sched, 1, 3000, 100);
    add(sched, 2, 1000, 100);
    add(sched, 3, 2000, 100);
    pass(sched, 0, kernel(1, 0, SMS), 0, SCHED_REASON_IDLE);
    for (uint32_t lane = 1; lane <= 3; lane++)
        offer(sched, lane, kernel(1, 10, SMS));
    expect(sched, 10, 2, SCHED_REASON_SLACK);
    expect(sched, 10, 3, SCHED_REASON_SLACK);
    expect(sched, 10, 1, SCHED_REASON_SLACK);
    sched_destroy(sched);
}

Test(slack, and_due_launches_take_turns)
{
    struct sched *sched = make(WINDOW, CAP, NULL);

    add(sched, 0, 0, 100);
    add(sched, 1, 0, 100);
    add(sched, 2, 1000, 100);
    pass(sched, 0, kernel(1, 0, SMS), 0, SCHED_REASON_IDLE);
    offer(sched, 1, kernel(1, 0, SMS));
    offer(sched, 2, kernel(1, 5000, SMS));
    for (uint64_t seq = 1; seq <= 5; seq++) {
        expect(sched, 5000, 1, SCHED_REASON_NO_FIT_CAP);
        issue(sched, 1, kernel(seq, 0, SMS), 5000);
        offer(sched, 1, kernel(seq + 1, 0, SMS));
        expect(sched, 5000, 2, SCHED_REASON_SLACK);
        issue(sched, 2, kernel(seq, 5000, SMS), 5000);
        offer(sched, 2, kernel(seq + 1, 5000, SMS));
    }
    sched_destroy(sched);
}

Test(burst, starts_with_the_first_launch_after_the_lane_was_complete)
{
    struct sched *sched = make(WINDOW, CAP, NULL);
    const struct sched_lane *lane = &sched_view(sched)->lane[0];

    add(sched, 0, 100, 1);
    cr_expect(eq(u64, lane->deadline_ns, SCHED_NEVER));
    pass(sched, 0, kernel(1, 10, 1), 12, SCHED_REASON_IDLE);
    cr_expect(eq(u64, lane->burst_ns, 10));
    cr_expect(eq(u64, lane->deadline_ns, 110));
    offer(sched, 0, kernel(2, 20, 1));
    sched_complete(sched, 0, 1, 30); /* the lane is not complete: 2 is offered */
    expect(sched, 30, 0, SCHED_REASON_IDLE);
    issue(sched, 0, kernel(2, 20, 1), 30);
    issue(sched, 0, kernel(3, 40, 1), 45);
    cr_expect(eq(u64, lane->burst_ns, 10));
    sched_complete(sched, 0, 3, 50);
    offer(sched, 0, kernel(4, 60, 1));
    cr_expect(eq(u64, lane->burst_ns, 60));
    cr_expect(eq(u64, lane->deadline_ns, 160));
    cr_expect(eq(int, sched_offer(sched, 0, NULL), 0));
    offer(sched, 0, kernel(4, 60, 1)); /* not a new one */
    cr_expect(eq(u64, lane->burst_ns, 60));
    sched_destroy(sched);
}

Test(burst, also_starts_with_a_launch_that_was_flushed)
{
    struct sched *sched = make(WINDOW, CAP, NULL);

    add(sched, 0, 100, 1);
    issue(sched, 0, kernel(1, 10, 1), 15);
    cr_expect(eq(u64, sched_view(sched)->lane[0].deadline_ns, 110));
    sched_destroy(sched);
}

/* Lane 0 has a launch that fills the device in flight; lane 1 has `count` of its own issued by flushes. */
static struct sched *lead(uint32_t count)
{
    struct sched *sched = make_lanes(WINDOW, UINT64_C(1) << 40, NULL, 3);

    issue(sched, 0, kernel(1, 0, SMS), 0);
    for (uint32_t seq = 1; seq <= count; seq++)
        issue(sched, 1, kernel(seq, 0, SMS), 0);
    return sched;
}

Test(weights, a_lane_that_leads_by_more_than_the_quantum_waits_for_the_others)
{
    struct sched *sched = lead(6);

    offer(sched, 0, kernel(2, 20, 1));
    offer(sched, 1, kernel(7, 10, 1)); /* older, but it has had its share: its lead is 5 launches */
    offer(sched, 2, kernel(1, 5, 1));  /* does not fit */
    sched_complete(sched, 0, 1, 20);   /* nothing of lane 0 in flight, so lane 1 would fit behind itself */
    cr_expect(eq(u64, load_of(sched).msm, 1000 * SMS));
    cr_expect(eq(u32, load_of(sched).lanes_inflight, 1));
    expect_hold(sched, 20, SCHED_REASON_NO_FIT, 5 + (UINT64_C(1) << 40));
    cr_expect(eq(int, sched_offer(sched, 2, NULL), 0));
    expect_hold(sched, 20, SCHED_REASON_TURN, 10 + (UINT64_C(1) << 40));
    sched_complete(sched, 1, 6, 30);
    expect(sched, 30, 0, SCHED_REASON_IDLE);
    sched_destroy(sched);
}

Test(weights, a_lane_that_leads_by_less_than_the_quantum_goes_on)
{
    struct sched *sched = lead(4);

    offer(sched, 0, kernel(2, 20, 1));
    offer(sched, 1, kernel(5, 10, 1));
    sched_complete(sched, 0, 1, 20);
    expect(sched, 20, 1, SCHED_REASON_IDLE);
    sched_destroy(sched);
}

Test(weights, a_lead_is_not_forgotten_by_going_idle_for_a_moment)
{
    struct sched *sched = lead(6);

    sched_complete(sched, 1, 6, 10);
    cr_expect(eq(u32, load_of(sched).lanes_inflight, 1));
    offer(sched, 0, kernel(2, 30, 2));
    expect(sched, 30, 0, SCHED_REASON_IDLE);
    issue(sched, 0, kernel(2, 30, 2), 30);
    offer(sched, 0, kernel(3, 30, 2));
    sched_complete(sched, 0, 1, 31);
    offer(sched, 1, kernel(7, 20, 2)); /* fits and is older */
    expect(sched, 31, 0, SCHED_REASON_IDLE);
    sched_destroy(sched);
}

Test(weights, idle_time_earns_no_credit)
{
    struct sched *sched = make_lanes(WINDOW, UINT64_C(1) << 40, NULL, 2);
    uint64_t seq = 0;
    int ahead = 0;

    for (uint64_t i = 1; i <= 1000; i++)
        pass(sched, 0, kernel(i, 0, SMS), 0, SCHED_REASON_IDLE);
    sched_complete(sched, 0, 999, 0);
    /* Lane 1 returns. It may lead by the quantum; had it been credited 1000 launches, lane 0 would wait for all. */
    for (;; ahead++) {
        struct sched_decision decision;
        uint64_t wake_ns;

        cr_assert(lt(int, ahead, 10));
        sched_complete(sched, 1, seq, 0);
        sched_complete(sched, 0, 1000, 0);
        offer(sched, 1, kernel(++seq, 1, SMS));
        offer(sched, 0, kernel(1001, 2, SMS));
        cr_assert(eq(int, sched_next(sched, 2, &decision, &wake_ns), 1));
        if (decision.member[0].lane == 0)
            break;
        issue(sched, 1, kernel(seq, 1, SMS), 2);
    }
    cr_expect(ge(int, ahead, 4));
    sched_destroy(sched);
}

Test(weights, a_lead_over_a_lane_that_has_nothing_to_offer_does_not_matter)
{
    struct sched *sched = make_lanes(WINDOW, CAP, NULL, 2);

    issue(sched, 0, kernel(1, 0, 1), 0);
    for (uint64_t seq = 1; seq <= 10; seq++)
        issue(sched, 1, kernel(seq, 0, SMS), 0);
    sched_complete(sched, 1, 10, 0);
    offer(sched, 1, kernel(11, 0, 1));
    expect(sched, 0, 1, SCHED_REASON_FITS);
    sched_destroy(sched);
}

/* Both lanes always offer a launch that fills an idle device, that of lane 1 being older. How often does lane 0 go
 * before lane 1 does? */
static int turns_before_lane_1(struct sched *sched, uint64_t seq0, uint64_t seq1)
{
    for (int turns = 0; turns < 100; turns++) {
        struct sched_decision decision;
        uint64_t wake_ns;

        offer(sched, 1, kernel(seq1, 1, SMS));
        offer(sched, 0, kernel(seq0, 2, SMS));
        cr_assert(eq(int, sched_next(sched, 2, &decision, &wake_ns), 1));
        if (decision.member[0].lane == 1)
            return turns;
        issue(sched, 0, kernel(seq0, 2, SMS), 2);
        offer(sched, 0, kernel(seq0 + 1, 2, SMS)); /* before it completes, so that the lane is never idle */
        sched_complete(sched, 0, seq0++, 2);
    }
    return 100;
}

Test(weights, a_debt_is_bounded)
{
    struct sched *sched = make_lanes(WINDOW, UINT64_C(1) << 40, NULL, 2);
    int turns;

    offer(sched, 0, kernel(1, 2, SMS));
    for (uint64_t seq = 1; seq <= 1000; seq++)
        issue(sched, 1, kernel(seq, 0, SMS), 0); /* flushed: nobody was asked */
    sched_complete(sched, 1, 1000, 0);
    turns = turns_before_lane_1(sched, 1, 1001);
    cr_expect(ge(int, turns, 4));
    cr_expect(le(int, turns, 16));
    sched_destroy(sched);
}

Test(weights, a_lane_that_was_alone_owes_nothing_to_one_that_comes_later)
{
    struct sched *sched = make_lanes(WINDOW, UINT64_C(1) << 40, NULL, 2);

    for (uint64_t seq = 1; seq <= 1000; seq++)
        pass(sched, 1, kernel(seq, 0, SMS), 0, SCHED_REASON_IDLE);
    sched_complete(sched, 1, 1000, 0);
    offer(sched, 0, kernel(1, 2, SMS)); /* while no lane is active */
    cr_expect(zero(int, turns_before_lane_1(sched, 1, 1001)));
    sched_destroy(sched);
}

Test(weights, hold_for_launches_so_small_that_each_counts_as_less_than_one)
{
    static const uint32_t weights[] = {10000, 5000};
    struct sched_launch tiny = {.kernel = 1, .blocks = 1, .blocks_per_sm = 1000};
    struct sched *sched = make(1, UINT64_C(1) << 40, NULL);
    uint64_t seq[] = {1, 1};

    for (uint32_t lane = 0; lane < 2; lane++) {
        add(sched, lane, 0, weights[lane]);
        tiny.seq = 1;
        offer(sched, lane, tiny);
    }
    for (int i = 0; i < 600000; i++) {
        struct sched_decision decision;
        uint64_t wake_ns;

        cr_assert(eq(int, sched_next(sched, 0, &decision, &wake_ns), 1));
        uint32_t lane = decision.member[0].lane;
        tiny.seq = seq[lane];
        issue(sched, lane, tiny, 0);
        tiny.seq = seq[lane] + 1;
        offer(sched, lane, tiny);
        sched_complete(sched, lane, seq[lane]++, 0);
    }
    cr_expect(lt(dbl, (double)seq[0] / (double)seq[1], 2.3));
    cr_expect(gt(dbl, (double)seq[0] / (double)seq[1], 1.7));
    sched_destroy(sched);
}

Test(fifo, takes_the_oldest_beside_whatever_is_in_flight)
{
    struct sched *sched = make_lanes(WINDOW, CAP, "fifo", 3);

    pass(sched, 0, kernel(1, 0, SMS), 0, SCHED_REASON_IDLE);
    offer(sched, 1, kernel(1, 2, 1));
    offer(sched, 2, kernel(1, 1, SMS));
    expect(sched, 2, 2, SCHED_REASON_NEXT);
    issue(sched, 2, kernel(1, 1, SMS), 2);
    expect(sched, 2, 1, SCHED_REASON_NEXT);
    sched_destroy(sched);
}

Test(fifo, holds_only_for_the_window)
{
    struct sched *sched = make_lanes(1, CAP, "fifo", 2);

    pass(sched, 0, kernel(1, 0, 1), 0, SCHED_REASON_IDLE);
    offer(sched, 1, kernel(1, 2, 1));
    expect_hold(sched, 2, SCHED_REASON_WINDOW, 2 + CAP);
    sched_complete(sched, 0, 1, 3);
    expect(sched, 3, 1, SCHED_REASON_IDLE);
    sched_destroy(sched);
}

Test(fifo, lets_the_first_launch_of_a_lane_in_while_another_has_many_in_flight)
{
    struct sched *sched = make_lanes(2, CAP, "fifo", 3);

    for (uint64_t seq = 1; seq <= 50; seq++)
        pass(sched, 0, kernel(seq, 0, 1), 0, SCHED_REASON_IDLE);
    pass(sched, 1, kernel(1, 0, 1), 0, SCHED_REASON_NEXT);
    offer(sched, 2, kernel(1, 0, 1));
    expect_hold(sched, 0, SCHED_REASON_WINDOW, CAP);
    sched_destroy(sched);
}

Test(alone_policy, has_launches_of_one_lane_in_flight_and_lanes_take_turns)
{
    struct sched *sched = make_lanes(WINDOW, CAP, "alone", 2);

    pass(sched, 0, kernel(1, 0, 1), 0, SCHED_REASON_IDLE);
    offer(sched, 0, kernel(2, 1, 1));
    offer(sched, 1, kernel(1, 2, 1));
    expect(sched, 2, 0, SCHED_REASON_IDLE);
    issue(sched, 0, kernel(2, 1, 1), 2);
    offer(sched, 0, kernel(3, 3, 1));
    expect_hold(sched, 3, SCHED_REASON_TURN, 2 + CAP);
    sched_complete(sched, 0, 1, 4);
    expect_hold(sched, 4, SCHED_REASON_TURN, 2 + CAP);
    sched_complete(sched, 0, 2, 5);
    expect(sched, 5, 1, SCHED_REASON_IDLE);
    sched_destroy(sched);
}

Test(alone_policy, obeys_the_window_while_another_lane_waits)
{
    struct sched *sched = make_lanes(2, CAP, "alone", 2);

    pass(sched, 0, kernel(1, 0, 1), 0, SCHED_REASON_IDLE);
    pass(sched, 0, kernel(2, 0, 1), 0, SCHED_REASON_IDLE);
    offer(sched, 1, kernel(1, 2, 1));
    offer(sched, 0, kernel(3, 1, 1));
    expect_hold(sched, 2, SCHED_REASON_WINDOW, 1 + CAP);
    sched_complete(sched, 0, 1, 3);
    expect(sched, 3, 0, SCHED_REASON_IDLE);
    sched_destroy(sched);
}

Test(alone_policy, a_due_head_behind_its_own_lane_says_so)
{
    struct sched *sched = make_lanes(WINDOW, CAP, "alone", 2);

    pass(sched, 0, kernel(1, 0, 1), 0, SCHED_REASON_IDLE);
    offer(sched, 1, kernel(1, 1, 1));
    offer(sched, 0, kernel(2, 2, 1));
    expect_hold(sched, 2, SCHED_REASON_TURN, 1 + CAP);
    cr_expect(eq(int, sched_offer(sched, 1, NULL), 0));
    offer(sched, 1, kernel(1, 900, 1));
    expect(sched, 2 + CAP, 0, SCHED_REASON_CAP_ALONE);
    issue(sched, 0, kernel(2, 2, 1), 2 + CAP);
    expect(sched, 900 + CAP, 1, SCHED_REASON_CAP);
    sched_destroy(sched);
}
