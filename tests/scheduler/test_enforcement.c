/* SPDX-License-Identifier: Apache-2.0
 *
 * What scheduler.c guarantees around policies that are wrong.
 */
#include "tests/scheduler/helper.h"

#include <string.h>

/* What the policy of these tests answers, and what it was told. */
static struct script {
    int answer;
    uint64_t wake_ns;
    struct sched_decision decision;
    unsigned int picks, added, woke, offered, issued, completed;
    sched_msm_t issued_msm;
    bool state_was_zero;
} script;

static int scripted_pick(void *state, const struct sched_view *view, uint64_t now_ns, struct sched_decision *decision,
                         uint64_t *wake_ns)
{
    script.picks++;
    *decision = script.decision;
    if (script.wake_ns)
        *wake_ns = script.wake_ns;
    return script.answer;
}

static void scripted_added(void *state, const struct sched_view *view, uint32_t lane)
{
    static const char zero[24];

    script.state_was_zero = script.added == 0 && memcmp(state, zero, sizeof(zero)) == 0;
    script.added++;
    ((char *)state)[23] = 1;
}

static void scripted_woke(void *state, const struct sched_view *view, uint32_t lane)
{
    script.woke++;
    for (uint32_t i = 0; i < view->actives; i++)
        cr_expect(ne(u32, view->active[i], lane));
}

static void scripted_offered(void *state, const struct sched_view *view, uint32_t lane)
{
    script.offered++;
    cr_expect(view->lane[lane].offered);
    cr_expect(view->lane[lane].active);
}

static void scripted_issued(void *state, const struct sched_view *view, uint32_t lane,
                            const struct sched_launch *launch, sched_msm_t msm, uint64_t now_ns)
{
    script.issued++;
    script.issued_msm = msm;
    cr_expect(view->lane[lane].active);
}

static void scripted_completed(void *state, const struct sched_view *view, uint32_t lane, uint64_t seq, uint64_t now_ns)
{
    script.completed++;
}

static const struct sched_policy_ops scripted = {
    .name = "scripted",
    .help = "for tests",
    .state_size = 24,
    .pick = scripted_pick,
    .lane_added = scripted_added,
    .lane_woke = scripted_woke,
    .offered = scripted_offered,
    .issued = scripted_issued,
    .completed = scripted_completed,
};

/* Lane 0 has one launch of 6 SMs in flight; lanes 1 and 2 offer 3 and 5 SMs, submitted at 10 and 20. */
static struct sched *scene(void)
{
    struct sched_config config = {.sm_count = SMS, .window = WINDOW, .hold_cap_ns = CAP};
    struct sched *sched;

    script = (struct script){0};
    cr_assert(eq(int, sched_create_with(&config, &scripted, &sched), 0));
    for (uint32_t lane = 0; lane < 3; lane++)
        add(sched, lane, 0, 100);
    issue(sched, 0, kernel(1, 0, 6), 0);
    offer(sched, 1, kernel(1, 10, 3));
    offer(sched, 2, kernel(1, 20, 5));
    script.picks = 0;
    return sched;
}

static void answer_one(uint32_t lane, uint64_t seq, enum sched_reason reason)
{
    script.answer = 1;
    script.decision = (struct sched_decision){.reason = reason, .count = 1, .member = {{lane, seq}}};
}

static void answer_hold(enum sched_reason reason)
{
    script.answer = 0;
    script.decision = (struct sched_decision){.reason = reason};
}

Test(enforcement, a_policy_that_always_holds_does_not_idle_the_device)
{
    struct sched *sched = scene();

    answer_hold(SCHED_REASON_TURN);
    expect_hold(sched, 20, SCHED_REASON_TURN, 10 + CAP);
    sched_complete(sched, 0, 1, 30);
    expect(sched, 30, 1, SCHED_REASON_IDLE);
    sched_destroy(sched);
}

Test(enforcement, a_policy_that_always_holds_does_not_hold_beyond_the_cap)
{
    struct sched *sched = scene();

    answer_hold(SCHED_REASON_NO_FIT);
    script.wake_ns = UINT64_MAX;
    expect_hold(sched, 20, SCHED_REASON_NO_FIT, 10 + CAP);
    expect(sched, 10 + CAP, 1, SCHED_REASON_CAP);
    issue(sched, 1, kernel(1, 10, 3), 10 + CAP);
    expect_hold(sched, 10 + CAP, SCHED_REASON_NO_FIT, 20 + CAP);
    expect(sched, 20 + CAP, 2, SCHED_REASON_NO_FIT_CAP);
    sched_destroy(sched);
}

Test(enforcement, a_policy_may_ask_to_be_woken_earlier)
{
    struct sched *sched = scene();

    answer_hold(SCHED_REASON_TURN);
    script.wake_ns = 40;
    expect_hold(sched, 20, SCHED_REASON_TURN, 40);
    expect_hold(sched, 39, SCHED_REASON_TURN, 40);
    cr_expect(eq(u32, script.picks, 1), "nothing changed, so nothing is asked");
    script.wake_ns = 50;
    expect_hold(sched, 40, SCHED_REASON_TURN, 50);
    cr_expect(eq(u32, script.picks, 2));
    expect_hold(sched, 30, SCHED_REASON_TURN, 50);
    cr_expect(eq(u32, script.picks, 3), "time went back, so the answer may be another");
    sched_destroy(sched);
}

Test(enforcement, every_change_leads_to_a_new_answer)
{
    struct sched *sched = scene();

    answer_hold(SCHED_REASON_TURN);
    expect_hold(sched, 20, SCHED_REASON_TURN, 10 + CAP);
    issue(sched, 0, kernel(2, 0, 1), 20);
    expect_hold(sched, 20, SCHED_REASON_TURN, 10 + CAP);
    cr_expect(eq(u32, script.picks, 2));
    sched_complete(sched, 0, 1, 20);
    expect_hold(sched, 20, SCHED_REASON_TURN, 10 + CAP);
    cr_expect(eq(u32, script.picks, 3));
    offer(sched, 0, kernel(3, 20, 1));
    expect_hold(sched, 20, SCHED_REASON_TURN, 10 + CAP);
    cr_expect(eq(u32, script.picks, 4));
    sched_lane_remove(sched, 2);
    expect_hold(sched, 20, SCHED_REASON_TURN, 10 + CAP);
    cr_expect(eq(u32, script.picks, 5));
    sched_destroy(sched);
}

Test(enforcement, heads_that_are_not_offered_are_refused)
{
    struct sched *sched = scene();

    static const struct {
        uint32_t lane;
        uint64_t seq;
    } wrong[] = {{0, 2}, {1, 2}, {1, 0}, {3, 1}, {SCHED_LANES_MAX, 1}, {UINT32_MAX, 1}};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        answer_one(wrong[i].lane, wrong[i].seq, SCHED_REASON_FITS);
        expect_hold(sched, 20 + i, SCHED_REASON_TURN, 10 + CAP);
        cr_assert(eq(int, sched_offer(sched, 2, NULL), 0)); /* so that it is asked again */
        offer(sched, 2, kernel(1, 20, 5));
    }
    cr_expect(eq(u32, load_of(sched).offered, 2));
    sched_destroy(sched);
}

Test(enforcement, packs_of_a_wrong_size_or_with_a_member_twice_are_refused)
{
    static const uint32_t counts[] = {0, SCHED_PACK_MAX + 1, UINT32_MAX};
    struct sched *sched = scene();

    for (size_t i = 0; i < 3; i++) {
        answer_one(1, 1, SCHED_REASON_FITS);
        script.decision.count = counts[i];
        expect_hold(sched, 20, SCHED_REASON_TURN, 10 + CAP);
        issue(sched, 0, kernel(2 + i, 0, 1), 20);
    }
    script.decision = (struct sched_decision){.reason = SCHED_REASON_PACK, .count = 2, .member = {{1, 1}, {1, 1}}};
    expect_hold(sched, 20, SCHED_REASON_TURN, 10 + CAP);
    cr_expect(eq(u32, load_of(sched).offered, 2));
    sched_destroy(sched);
}

Test(enforcement, a_pack_withdraws_all_its_members)
{
    struct sched *sched = scene();
    struct sched_decision decision;
    uint64_t wake_ns;

    script.answer = 1;
    script.decision = (struct sched_decision){.reason = SCHED_REASON_FITS, .count = 2, .member = {{2, 1}, {1, 1}}};
    cr_assert(eq(int, sched_next(sched, 20, &decision, &wake_ns), 1));
    cr_expect(eq(int, decision.kind, SCHED_COALESCE));
    cr_expect(eq(int, decision.reason, SCHED_REASON_PACK));
    cr_expect(eq(u32, decision.count, 2));
    cr_expect(zero(u32, load_of(sched).offered));
    expect_hold(sched, 20, SCHED_REASON_NOTHING, SCHED_NEVER);
    sched_destroy(sched);
}

Test(enforcement, a_reason_that_does_not_say_what_is_the_case_is_replaced)
{
    struct sched *sched = scene();

    answer_one(1, 1, SCHED_REASON_IDLE); /* others are in flight, and it fits */
    expect(sched, 20, 1, SCHED_REASON_FITS);
    answer_one(2, 1, SCHED_REASON_NO_FIT); /* not a reason to issue; and it does not fit */
    offer(sched, 1, kernel(1, 10, 3));
    expect(sched, 20, 2, SCHED_REASON_NEXT);
    offer(sched, 2, kernel(1, 20, 5));
    sched_complete(sched, 0, 1, 20);
    answer_one(2, 1, SCHED_REASON_SLACK); /* nothing is in flight */
    expect(sched, 20, 2, SCHED_REASON_IDLE);
    sched_destroy(sched);

    sched = scene();
    answer_hold(SCHED_REASON_FITS); /* not a reason to hold */
    expect_hold(sched, 20, SCHED_REASON_TURN, 10 + CAP);
    sched_destroy(sched);
}

Test(enforcement, a_policy_is_not_asked_when_there_is_no_choice)
{
    struct sched *sched = scene();

    cr_expect(eq(int, sched_offer(sched, 1, NULL), 0));
    cr_expect(eq(int, sched_offer(sched, 2, NULL), 0));
    pass(sched, 0, kernel(2, 0, SMS), 0, SCHED_REASON_IDLE); /* the only lane */
    expect_hold(sched, 0, SCHED_REASON_NOTHING, SCHED_NEVER);
    offer(sched, 1, kernel(1, 0, 1));
    expect(sched, CAP, 1, SCHED_REASON_NO_FIT_CAP); /* due */
    cr_expect(zero(u32, script.picks));
    sched_destroy(sched);
}

Test(hooks, are_called_once_for_each_event)
{
    struct sched *sched = scene();

    cr_expect(eq(u32, script.added, 3));
    cr_expect(eq(u32, script.woke, 3));
    cr_expect(eq(u32, script.issued, 1));
    cr_expect(eq(u32, script.issued_msm, 6000));
    issue(sched, 0, kernel(1, 0, 6), 0);
    cr_expect(eq(u32, script.issued, 1), "repeated");
    issue(sched, 1, kernel(1, 0, 2), 0);
    cr_expect(eq(u32, script.issued, 2));
    cr_expect(eq(u32, script.woke, 3), "it was active already");
    sched_complete(sched, 1, 1, 0);
    sched_complete(sched, 1, 1, 0);
    cr_expect(eq(u32, script.completed, 1));
    cr_expect(eq(u32, script.offered, 2));
    offer(sched, 1, kernel(2, 0, 2));
    cr_expect(eq(u32, script.woke, 4));
    cr_expect(eq(u32, script.offered, 3));
    offer(sched, 1, kernel(2, 0, 2));
    cr_expect(eq(int, sched_offer(sched, 1, NULL), 0));
    cr_expect(eq(u32, script.offered, 3), "not a new head");
    sched_destroy(sched);
}

Test(hooks, get_a_zeroed_state_of_their_own)
{
    struct sched_config config = {.sm_count = SMS, .window = WINDOW, .hold_cap_ns = CAP};
    struct sched *sched;

    script = (struct script){0};
    cr_assert(eq(int, sched_create_with(&config, &scripted, &sched), 0));
    add(sched, 0, 0, 1);
    cr_expect(script.state_was_zero);
    sched_destroy(sched);
}
