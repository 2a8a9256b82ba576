/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/fake_driver.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <unistd.h>

enum { CAP_NS = 20000000 };

static struct engine *engine;
static struct lane *lane[4];

static void begin(void)
{
    fake_init();
    engine = fake_engine(16, CAP_NS);
    cr_assert_not_null(engine);
    for (int i = 0; i < 4; i++) {
        lane[i] = lane_make(engine, fake_context(), fake_stream_handle(i));
        cr_assert_not_null(lane[i]);
    }
}

TestSuite(engine, .init = begin, .timeout = 30);

Test(engine, issues_a_lane_in_the_order_of_its_launches)
{
    for (uint64_t i = 0; i < 5000; i++)
        fake_launch(lane[0], i, 1);
    cr_assert(fake_wait_count(0, 5000));
    for (uint64_t i = 0; i < 5000; i++)
        cr_assert_eq(fake.stream[0].number[i], i);
}

Test(engine, a_lane_that_is_alone_is_not_held_and_not_marked)
{
    fake.complete_at_once = false;
    for (uint64_t i = 0; i < 300; i++)
        fake_launch(lane[0], i, FAKE_SMS);
    cr_assert(fake_wait_count(0, 300));
    cr_assert_eq(fake.markers, 0);
}

/* Lane 0 fills the device and does not complete: lane 1 waits for it, marked on demand, and not beyond the cap. */
Test(engine, what_does_not_fit_is_held_until_the_hold_cap)
{
    uint64_t begin_ns;

    fake.complete_at_once = false;
    fake_launch(lane[0], 0, FAKE_SMS);
    cr_assert(fake_wait_count(0, 1));
    begin_ns = clock_ns();
    fake_launch(lane[1], 0, FAKE_SMS);
    usleep(CAP_NS / 1000 / 4);
    cr_assert_eq(fake_count(1), 0, "issued beside a full device");
    cr_assert(fake_wait_count(1, 1));
    cr_assert_geq(clock_ns() - begin_ns, CAP_NS * 9 / 10);
}

Test(engine, what_is_held_goes_when_the_device_has_room)
{
    uint64_t begin_ns = clock_ns();

    fake.complete_at_once = false;
    fake_launch(lane[0], 0, FAKE_SMS);
    cr_assert(fake_wait_count(0, 1));
    fake_launch(lane[1], 0, FAKE_SMS);
    while (atomic_load(&fake.markers) == 0 && clock_ns() - begin_ns < 5000000000u)
        usleep(100);
    cr_assert_gt(fake.markers, 0, "the flight of a lane that competes was not marked");
    cr_assert_eq(fake_count(1), 0);
    fake_reach_markers();
    cr_assert(fake_wait_count(1, 1));
}

Test(engine, what_fits_goes_beside)
{
    uint64_t begin_ns = clock_ns();

    fake.complete_at_once = false;
    fake_launch(lane[0], 0, 1);
    cr_assert(fake_wait_count(0, 1));
    fake_launch(lane[1], 0, 1);
    cr_assert(fake_wait_count(1, 1));
    cr_assert_lt(clock_ns() - begin_ns, CAP_NS, "held although there was room");
}

Test(engine, a_flush_issues_what_is_held_before_it_returns)
{
    fake.complete_at_once = false;
    fake_launch(lane[0], 0, FAKE_SMS);
    cr_assert(fake_wait_count(0, 1));
    for (uint64_t i = 0; i < 10; i++)
        fake_launch(lane[1], i, FAKE_SMS);
    lane_flush_all(lane[1], SCHED_REASON_FLUSH);
    cr_assert_eq(fake_count(1), 10);
}

Test(engine, a_flush_up_to_a_token_stops_there)
{
    uint64_t middle = 0;

    fake.complete_at_once = false;
    fake_launch(lane[0], 0, FAKE_SMS);
    cr_assert(fake_wait_count(0, 1));
    for (uint64_t i = 0; i < 10; i++) {
        uint64_t token = fake_launch(lane[1], i, FAKE_SMS);

        if (i == 4)
            middle = token;
    }
    lane_flush(lane[1], middle, SCHED_REASON_FLUSH);
    cr_assert_eq(fake_count(1), 5);
}

Test(engine, a_refused_launch_is_latched_once_and_reported)
{
    struct context *context = context_find(engine, fake_context());

    atomic_store(&fake.fail_launches, 2);
    fake_launch(lane[0], 0, 1);
    fake_launch(lane[0], 1, 1);
    fake_launch(lane[0], 2, 1);
    cr_assert(fake_wait_count(0, 1));
    cr_assert_eq(context_take_error(context), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    cr_assert_eq(context_take_error(context), CUDA_SUCCESS);
    cr_assert_eq(fake.failures, 2);
}

Test(engine, no_marker_is_placed_while_anything_captures)
{
    fake.complete_at_once = false;
    fake_launch(lane[0], 0, FAKE_SMS);
    cr_assert(fake_wait_count(0, 1));
    atomic_store(&engine->captures, 1);
    lanes_pass(engine);
    fake_launch(lane[1], 0, FAKE_SMS);
    cr_assert(fake_wait_count(1, 1)); /* at the cap */
    cr_assert_eq(fake.markers, 0);
}

Test(engine, an_ended_lane_makes_room_for_another)
{
    for (int round = 0; round < 3 * SCHED_LANES_MAX; round++) {
        struct lane *made = lane_make(engine, fake_context(), (CUstream)(uintptr_t)(0x100000 + round * 0x100));
        uint64_t deadline = clock_ns() + 5000000000u;

        cr_assert_not_null(made, "round %d", round);
        lane_end(made);
        while (atomic_load(&made->state) != LANE_FREE && clock_ns() < deadline)
            usleep(10);
        cr_assert_eq(made->state, LANE_FREE);
    }
}

Test(engine, a_stream_without_a_lane_slot_gets_none_and_the_others_go_on)
{
    int made = 4;

    while (lane_make(engine, fake_context(), (CUstream)(uintptr_t)(0x100000 + made * 0x100)))
        made++;
    cr_assert_eq(made, SCHED_LANES_MAX);
    fake_launch(lane[0], 7, 1);
    cr_assert(fake_wait_count(0, 1));
}

Test(engine, a_context_that_ends_takes_its_lanes_along)
{
    context_end(engine, fake_context());
    cr_assert_null(context_find(engine, fake_context()));
    cr_assert_null(lane_find(engine, fake_context(), fake_stream_handle(0)));
    /* and may come back under the same handle */
    cr_assert_not_null(lane_make(engine, fake_context(), fake_stream_handle(0)));
}
