/* SPDX-License-Identifier: Apache-2.0
 *
 * Policy "pack": which launches go together, and when they wait for each other.
 */
#include "tests/scheduler/helper.h"

static struct sched_launch packable(uint64_t seq, uint64_t submit_ns, uint64_t blocks, uint32_t number)
{
    struct sched_launch launch = kernel(seq, submit_ns, blocks);

    launch.pack = number;
    return launch;
}

static struct sched *make_packs(uint32_t packs, uint64_t cap_ns, uint32_t lanes)
{
    struct sched_config config = {
        .sm_count = SMS, .window = WINDOW, .packs = packs, .hold_cap_ns = cap_ns, .policy = "pack"};
    struct sched *sched = NULL;

    cr_assert(eq(int, sched_create(&config, &sched), 0));
    for (uint32_t i = 0; i < lanes; i++)
        add(sched, i, 0, 100);
    return sched;
}

static struct sched_decision decide(struct sched *sched, uint64_t now_ns)
{
    struct sched_decision decision = {.reason = SCHED_REASON_COUNT};
    uint64_t wake_ns;

    sched_next(sched, now_ns, &decision, &wake_ns);
    return decision;
}

/* The next decision has these lanes as members, in any order. */
static struct sched_decision expect_pack(struct sched *sched, uint64_t now_ns, uint64_t lanes, enum sched_reason reason)
{
    struct sched_decision decision = decide(sched, now_ns);
    uint64_t found = 0;

    for (uint32_t i = 0; i < decision.count; i++)
        found |= UINT64_C(1) << decision.member[i].lane;
    cr_assert(eq(str, (char *)sched_reason_name(decision.reason), (char *)sched_reason_name(reason)));
    cr_assert(eq(u64, found, lanes));
    return decision;
}

/* One lane is at work with something that nobody can join. */
static void occupy(struct sched *sched, uint32_t lane)
{
    pass(sched, lane, packable(1, 0, 1, 99), 0, SCHED_REASON_IDLE);
}

Test(pack, heads_with_the_same_number_go_together)
{
    struct sched *sched = make_packs(2, CAP, 4);

    occupy(sched, 3);
    offer(sched, 0, packable(1, 1, 1, 5));
    offer(sched, 1, packable(1, 2, 1, 6));
    offer(sched, 2, packable(1, 3, 1, 5));
    expect_pack(sched, 3, 1 << 0 | 1 << 2, SCHED_REASON_PACK);
    sched_destroy(sched);
}

Test(pack, launches_that_cannot_be_coalesced_are_in_none)
{
    struct sched *sched = make_packs(2, CAP, 3);

    occupy(sched, 2);
    offer(sched, 0, kernel(1, 1, 1));
    offer(sched, 1, kernel(1, 2, 1));
    expect(sched, 2, 0, SCHED_REASON_FITS);
    expect(sched, 2, 1, SCHED_REASON_FITS);
    sched_destroy(sched);
}

Test(pack, with_enough_in_flight_heads_wait_for_company)
{
    struct sched *sched = make_packs(1, CAP, 4);

    occupy(sched, 3);
    offer(sched, 0, packable(1, 1, 1, 5));
    pass(sched, 0, packable(1, 1, 1, 5), 1, SCHED_REASON_FITS); /* the slot that the idle device left */
    offer(sched, 1, packable(1, 2, 1, 5));
    expect_hold(sched, 2, SCHED_REASON_GATHER, 2 + CAP);
    offer(sched, 2, packable(1, 3, 1, 5));
    expect_hold(sched, 3, SCHED_REASON_GATHER, 2 + CAP);
    sched_complete(sched, 0, 1, 10);
    expect_pack(sched, 10, 1 << 1 | 1 << 2, SCHED_REASON_PACK);
    sched_destroy(sched);
}

Test(pack, a_pack_counts_until_its_leader_is_complete)
{
    struct sched *sched = make_packs(1, CAP, 4);
    struct sched_decision decision;

    occupy(sched, 3);
    offer(sched, 0, packable(1, 1, 1, 5));
    offer(sched, 1, packable(1, 1, 1, 5));
    decision = expect_pack(sched, 1, 1 << 0 | 1 << 1, SCHED_REASON_PACK);
    issue(sched, 0, packable(1, 1, 1, 5), 2);
    issue(sched, 1, packable(1, 1, 1, 5), 2);
    offer(sched, 2, packable(1, 3, 1, 5));
    expect_hold(sched, 3, SCHED_REASON_GATHER, 3 + CAP);
    sched_complete(sched, decision.member[0].lane, 1, 4);
    expect(sched, 4, 2, SCHED_REASON_FITS);
    sched_destroy(sched);
}

Test(pack, a_head_at_its_cap_takes_its_companions_along)
{
    struct sched *sched = make_packs(1, CAP, 4);

    occupy(sched, 3);
    pass(sched, 0, packable(1, 1, 1, 5), 1, SCHED_REASON_FITS);
    offer(sched, 1, packable(1, 2, 1, 5));
    offer(sched, 2, packable(1, 900, 1, 5));
    expect_hold(sched, 900, SCHED_REASON_GATHER, 2 + CAP);
    expect_pack(sched, 2 + CAP, 1 << 1 | 1 << 2, SCHED_REASON_PACK_CAP);
    sched_destroy(sched);
}

/* Queueing behind one's own launches is no hold: the cap counts from their completion. */
Test(pack, the_cap_counts_from_when_a_launch_could_have_begun)
{
    struct sched *sched = make_packs(1, CAP, 4);

    occupy(sched, 3);
    pass(sched, 0, packable(1, 1, 1, 5), 1, SCHED_REASON_FITS);
    offer(sched, 0, packable(2, 2, 1, 5));
    expect_hold(sched, 2 + CAP, SCHED_REASON_GATHER, 2 + 16 * CAP);
    pass(sched, 1, packable(1, 3, 1, 6), 3 + CAP, SCHED_REASON_CAP);
    sched_complete(sched, 0, 1, 5 * CAP);
    expect_hold(sched, 5 * CAP, SCHED_REASON_GATHER, 6 * CAP);
    expect(sched, 6 * CAP, 0, SCHED_REASON_CAP);
    sched_destroy(sched);
}

Test(pack, a_completion_that_nobody_hears_of_ends_a_hold_after_sixteen_caps)
{
    struct sched *sched = make_packs(1, CAP, 4);

    occupy(sched, 3);
    pass(sched, 0, packable(1, 1, 1, 5), 1, SCHED_REASON_FITS);
    offer(sched, 0, packable(2, 2, 1, 5));
    expect_hold(sched, 2 + 16 * CAP - 1, SCHED_REASON_GATHER, 2 + 16 * CAP);
    expect(sched, 2 + 16 * CAP, 0, SCHED_REASON_CAP);
    sched_destroy(sched);
}

Test(pack, a_head_at_its_cap_goes_alone_if_nobody_can_go_with_it)
{
    struct sched *sched = make_packs(1, CAP, 4);

    occupy(sched, 3);
    pass(sched, 0, packable(1, 1, 1, 5), 1, SCHED_REASON_FITS);
    offer(sched, 1, packable(1, 2, 1, 5));
    offer(sched, 2, packable(1, 900, 1, 6));
    expect(sched, 2 + CAP, 1, SCHED_REASON_CAP);
    sched_destroy(sched);
}

Test(pack, a_lane_with_a_backlog_is_not_waited_for)
{
    struct sched *sched = make_packs(2, CAP, 3);

    for (uint64_t seq = 1; seq <= 20; seq++)
        pass(sched, 0, packable(seq, 0, 1, 5), 0, SCHED_REASON_IDLE);
    offer(sched, 0, packable(21, 1, 1, 5));
    offer(sched, 1, packable(1, 2, 1, 5));
    offer(sched, 2, packable(1, 3, 1, 5));
    expect_pack(sched, 3, 1 << 1 | 1 << 2, SCHED_REASON_PACK);
    sched_destroy(sched);
}

/* Eleven blocks on ten SMs, in lanes whose launch before was of kernel `before`. */
static uint32_t width_after(uint32_t before)
{
    struct sched *sched = make_packs(2, CAP, 12);
    uint32_t count;

    for (uint32_t lane = 0; lane < 11; lane++) {
        issue(sched, lane, packable(1, 0, 1, before), 0);
        sched_complete(sched, lane, 1, 0);
    }
    occupy(sched, 11);
    for (uint32_t lane = 0; lane < 11; lane++)
        offer(sched, lane, packable(2, 1 + lane, 1, 5));
    count = decide(sched, 20).count;
    sched_destroy(sched);
    return count;
}

Test(pack, ends_with_a_whole_wave_if_the_rest_can_go_with_the_next)
{
    cr_expect(eq(u32, width_after(5), 10));
}

Test(pack, leaves_nobody_behind_in_a_sequence_of_kernels)
{
    cr_expect(eq(u32, width_after(4), 11));
}

Test(pack, keeps_a_last_wave_that_is_half_full)
{
    struct sched *sched = make_packs(2, CAP, 17);

    occupy(sched, 16);
    for (uint32_t lane = 0; lane < 15; lane++)
        offer(sched, lane, packable(1, 1 + lane, 1, 5));
    cr_expect(eq(u32, decide(sched, 20).count, 15));
    sched_destroy(sched);
}

Test(pack, has_no_more_waves_than_others_can_wait_for)
{
    struct sched *sched = make_packs(2, CAP, 17);

    occupy(sched, 16);
    for (uint32_t lane = 0; lane < 16; lane++)
        offer(sched, lane, packable(1, 1 + lane, 100, 5)); /* ten waves each */
    cr_expect(eq(u32, decide(sched, 20).count, 12));
    sched_destroy(sched);
}

Test(pack, the_least_advanced_lane_goes_first_and_so_catches_up)
{
    struct sched *sched = make_packs(8, CAP, 3);

    occupy(sched, 2);
    for (uint64_t seq = 1; seq <= 3; seq++)
        issue(sched, 0, packable(seq, 0, 1, 5), 0);
    issue(sched, 1, packable(1, 0, 1, 5), 0);
    offer(sched, 0, packable(4, 1, 1, 7)); /* older, but its lane is ahead */
    offer(sched, 1, packable(2, 9, 1, 6));
    pass(sched, 1, packable(2, 9, 1, 6), 10, SCHED_REASON_FITS);
    /* Now it has come to the same kernel. */
    offer(sched, 1, packable(3, 9, 1, 7));
    expect_pack(sched, 11, 1 << 0 | 1 << 1, SCHED_REASON_PACK);
    sched_destroy(sched);
}

Test(pack, a_lane_that_was_idle_begins_anew_and_is_not_ahead)
{
    struct sched *sched = make_packs(8, CAP, 3);

    occupy(sched, 2);
    for (uint64_t seq = 1; seq <= 3; seq++)
        issue(sched, 0, packable(seq, 0, 1, 5), 0);
    sched_complete(sched, 0, 3, 1);
    issue(sched, 1, packable(1, 0, 1, 5), 1);
    offer(sched, 1, packable(2, 2, 1, 6));
    offer(sched, 0, packable(4, 3, 1, 7));
    pass(sched, 0, packable(4, 3, 1, 7), 10, SCHED_REASON_FITS);
    sched_destroy(sched);
}

Test(pack, a_launch_that_is_larger_than_any_pack_goes)
{
    struct sched *sched = make_packs(2, CAP, 2);

    occupy(sched, 1);
    offer(sched, 0, packable(1, 1, 5000, 5));
    cr_expect(eq(u32, decide(sched, 2).count, 1));
    sched_destroy(sched);
}

Test(pack, a_head_short_of_slack_takes_its_companions_along)
{
    struct sched *sched = make_packs(1, CAP, 2);

    add(sched, 2, 2 * CAP, 100);
    add(sched, 3, 0, 100);
    occupy(sched, 3);
    pass(sched, 0, packable(1, 1, 1, 5), 1, SCHED_REASON_FITS);
    offer(sched, 1, packable(1, 2, 1, 5));
    offer(sched, 2, packable(1, 3, 1, 5));
    expect_pack(sched, 3, 1 << 1 | 1 << 2, SCHED_REASON_PACK_SLACK);
    sched_destroy(sched);
}
