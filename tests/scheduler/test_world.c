/* SPDX-License-Identifier: Apache-2.0
 *
 * How lanes fare against each other over time, and whether the world itself does what it says.
 */
#include "tests/scheduler/helper.h"
#include "tests/scheduler/world.h"

#define MS UINT64_C(1000000)
#define US UINT64_C(1000)
#define NO_CAP (UINT64_C(1) << 50)

static struct world *make_world(const char *policy, uint32_t window, uint64_t cap_ns)
{
    struct world_config config = {.sched = {.sm_count = SMS, .window = window, .hold_cap_ns = cap_ns, .policy = policy},
                                  .issue_ns = 3 * US,
                                  .report_ns = 2 * US};
    struct world *world = world_create(&config, NULL);

    cr_assert(ne(ptr, (void *)world, NULL));
    return world;
}

static void add_backlog(struct world *world, uint32_t weight, const struct world_step *step, uint32_t launches)
{
    struct sched_lane_attr attr = {.weight = weight};

    world_add_lane(world, &attr, 0, step, 1, launches);
}

/* SM time that the lane's launches have used by now, in thousandths of an SM times nanoseconds. */
static double service(const struct world *world, uint32_t lane)
{
    double sum = 0;

    for (uint32_t i = 0; i < world_count(world, lane); i++) {
        const struct world_record *record = world_record(world, lane, i);
        if (record->issue_ns == WORLD_NEVER || record->finish_ns == WORLD_NEVER)
            break;
        sum += (double)sched_demand(&record->launch, SMS) * (double)record->run_ns;
    }
    return sum;
}

static void expect_shares(const struct world *world, const uint32_t *weights, uint32_t lanes, double tolerance)
{
    double total = 0, weight = 0;

    for (uint32_t i = 0; i < lanes; i++) {
        total += service(world, i);
        weight += weights[i];
    }
    for (uint32_t i = 0; i < lanes; i++) {
        double share = service(world, i) / total, want = weights[i] / weight;
        cr_expect(share > want * (1 - tolerance) && share < want * (1 + tolerance), "lane %u has %.3f, expected %.3f",
                  i, share, want);
    }
}

Test(world, runs_launches_of_a_lane_one_after_another_and_lanes_beside_each_other)
{
    static const struct world_step small = {.run_ns = 100 * US, .kernel = 1, .blocks = 5, .blocks_per_sm = 1};
    struct world *world = make_world("fit", WINDOW, MS);

    add_backlog(world, 1, &small, 2);
    add_backlog(world, 1, &small, 2);
    cr_assert(world_run(world, 10 * MS));
    for (uint32_t lane = 0; lane < 2; lane++) {
        const struct world_record *first = world_record(world, lane, 0), *second = world_record(world, lane, 1);
        cr_expect(ge(u64, second->start_ns, first->finish_ns));
        cr_expect(eq(u64, first->finish_ns, first->start_ns + 100 * US));
        cr_expect(le(u64, first->start_ns, 6 * US));
    }
    cr_expect(le(u64, world_now(world), 230 * US));
    world_destroy(world);
}

Test(world, runs_what_does_not_fit_later)
{
    static const struct world_step large = {.run_ns = 100 * US, .kernel = 1, .blocks = 6, .blocks_per_sm = 1};
    struct world *world = make_world("fifo", WINDOW, MS);

    add_backlog(world, 1, &large, 1);
    add_backlog(world, 1, &large, 1);
    cr_assert(world_run(world, 10 * MS));
    cr_expect(eq(u64, world_record(world, 1, 0)->issue_ns, 3 * US));
    cr_expect(eq(u64, world_record(world, 1, 0)->start_ns, 100 * US));
    world_destroy(world);
}

Test(world, a_host_that_synchronises_waits_for_its_lane)
{
    static const struct world_step steps[] = {
        {.gap_ns = 10 * US, .run_ns = 100 * US, .kernel = 1, .blocks = 1, .blocks_per_sm = 1, .sync = true}};
    struct sched_lane_attr attr = {.weight = 1};
    struct world *world = make_world("fit", WINDOW, MS);

    world_add_lane(world, &attr, 0, steps, 1, 3);
    cr_assert(world_run(world, 10 * MS));
    cr_expect(eq(u64, world_record(world, 0, 1)->launch.submit_ns, 10 * US + 100 * US + 2 * US + 10 * US));
    world_destroy(world);
}

Test(shares, follow_the_weights_when_every_launch_fills_the_device)
{
    static const struct world_step full = {.run_ns = 20 * US, .kernel = 1, .blocks = SMS, .blocks_per_sm = 1};
    static const uint32_t weights[] = {1, 2, 5};
    struct world *world = make_world("fit", WINDOW, NO_CAP);

    for (uint32_t i = 0; i < 3; i++)
        add_backlog(world, weights[i], &full, 5000);
    world_run(world, 50 * MS);
    expect_shares(world, weights, 3, 0.05);
    world_destroy(world);
}

Test(shares, follow_the_weights_when_grids_differ)
{
    static const struct world_step steps[] = {{.run_ns = 20 * US, .kernel = 1, .blocks = 9, .blocks_per_sm = 1},
                                              {.run_ns = 20 * US, .kernel = 1, .blocks = 4, .blocks_per_sm = 1},
                                              {.run_ns = 20 * US, .kernel = 1, .blocks = 6, .blocks_per_sm = 1}};
    static const uint32_t weights[] = {300, 100, 100};
    struct world *world = make_world("fit", WINDOW, NO_CAP);

    for (uint32_t i = 0; i < 3; i++)
        add_backlog(world, weights[i], &steps[i], 10000);
    world_run(world, 50 * MS);
    expect_shares(world, weights, 3, 0.05);
    world_destroy(world);
}

Test(shares, follow_the_weights_behind_a_narrow_window)
{
    static const struct world_step small = {.run_ns = 20 * US, .kernel = 1, .blocks = 1, .blocks_per_sm = 1};
    static const uint32_t weights[] = {1, 1, 4};
    struct world *world = make_world("fit", 2, NO_CAP);

    for (uint32_t i = 0; i < 3; i++)
        add_backlog(world, weights[i], &small, 20000);
    world_run(world, 200 * MS);
    expect_shares(world, weights, 3, 0.05);
    world_destroy(world);
}

Test(shares, a_lane_with_large_grids_is_not_starved_by_lanes_with_small_ones)
{
    static const struct world_step full = {.run_ns = 20 * US, .kernel = 1, .blocks = SMS, .blocks_per_sm = 1};
    static const struct world_step small = {.run_ns = 20 * US, .kernel = 1, .blocks = 2, .blocks_per_sm = 1};
    static const uint32_t weights[] = {100, 100, 100};
    struct world *world = make_world("fit", WINDOW, NO_CAP);

    add_backlog(world, 100, &full, 5000);
    add_backlog(world, 100, &small, 20000);
    add_backlog(world, 100, &small, 20000);
    world_run(world, 100 * MS);
    expect_shares(world, weights, 3, 0.1);
    world_destroy(world);
}

Test(shares, what_one_lane_cannot_use_the_others_get)
{
    static const struct world_step full = {.run_ns = 20 * US, .kernel = 1, .blocks = SMS, .blocks_per_sm = 1};
    static const struct world_step rare = {
        .gap_ns = 1 * MS, .run_ns = 20 * US, .kernel = 1, .blocks = SMS, .blocks_per_sm = 1, .sync = true};
    struct sched_lane_attr attr = {.weight = 1000};
    struct world *world = make_world("fit", WINDOW, NO_CAP);

    add_backlog(world, 1, &full, 5000);
    world_add_lane(world, &attr, 0, &rare, 1, 1000);
    world_run(world, 50 * MS);
    cr_expect(gt(dbl, service(world, 0), 0.85 * 1000 * SMS * 50 * (double)MS));
    world_destroy(world);
}

/* Longest time from submission to the end of a burst's last launch. */
static uint64_t slowest_burst(const struct world *world, uint32_t lane, uint32_t burst)
{
    uint64_t slowest = 0;

    for (uint32_t i = burst - 1; i < world_count(world, lane); i += burst) {
        const struct world_record *last = world_record(world, lane, i);
        if (last->finish_ns == WORLD_NEVER)
            break;
        uint64_t took = last->finish_ns - world_record(world, lane, i + 1 - burst)->launch.submit_ns;
        slowest = took > slowest ? took : slowest;
    }
    return slowest;
}

static uint64_t burst_beside_backlogs(const char *policy, uint64_t slo_ns)
{
    static const struct world_step full = {
        .gap_ns = 25 * US, .run_ns = 100 * US, .kernel = 1, .blocks = SMS, .blocks_per_sm = 1};
    static const struct world_step burst[] = {
        {.gap_ns = 500 * US, .run_ns = 20 * US, .kernel = 2, .blocks = 3, .blocks_per_sm = 1},
        {.gap_ns = 5 * US, .run_ns = 20 * US, .kernel = 3, .blocks = 3, .blocks_per_sm = 1},
        {.gap_ns = 5 * US, .run_ns = 20 * US, .kernel = 4, .blocks = 3, .blocks_per_sm = 1, .sync = true}};
    struct sched_lane_attr attr = {.slo_ns = slo_ns, .weight = 100};
    struct world *world = make_world(policy, 4, 1 * MS);
    uint64_t slowest;

    world_add_lane(world, &attr, 0, burst, 3, 50);
    for (uint32_t i = 0; i < 4; i++)
        add_backlog(world, 100, &full, 400);
    world_run(world, 40 * MS);
    cr_assert(gt(u32, world_count(world, 0), 30));
    slowest = slowest_burst(world, 0, 3);
    world_destroy(world);
    return slowest;
}

Test(targets, a_lane_with_a_target_is_faster_than_without_one)
{
    uint64_t with = burst_beside_backlogs("fit", 2 * MS), without = burst_beside_backlogs("fit", 0);
    uint64_t fifo = burst_beside_backlogs("fifo", 2 * MS);

    cr_expect(lt(u64, with, without));
    cr_expect(lt(u64, with, fifo));
}

Test(starvation, every_head_goes_within_its_cap_under_every_policy)
{
    static const struct world_step full = {
        .gap_ns = 300 * US, .run_ns = 900 * US, .kernel = 1, .blocks = SMS, .blocks_per_sm = 1};

    for (const char *const *name = sched_policy_names(); *name; name++) {
        struct world_config config = {.sched = {.sm_count = SMS, .window = 1, .hold_cap_ns = MS, .policy = *name},
                                      .report_ns = 2 * US};
        struct world *world = world_create(&config, NULL);
        uint64_t longest = 0;

        for (uint32_t i = 0; i < 6; i++)
            add_backlog(world, 1 + i * 1000, &full, 50);
        cr_assert(world_run(world, 1000 * MS));
        for (uint32_t lane = 0; lane < 6; lane++) {
            for (uint32_t i = 0; i < 50; i++) {
                const struct world_record *record = world_record(world, lane, i);
                uint64_t held = record->issue_ns - record->launch.submit_ns;
                cr_assert(record->head_ns > record->launch.submit_ns || held <= MS, "%s", *name);
                longest = held > longest ? held : longest;
            }
        }
        cr_expect(eq(u64, longest, MS), "%s: the world must be crowded enough to reach the cap", *name);
        world_destroy(world);
    }
}
