/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/handle_map.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

enum { SLOTS = 64 };

static struct handle_slot memory[SLOTS];
static struct handle_map map;

static void fresh(void)
{
    handle_map_init(&map, memory, SLOTS);
}

TestSuite(handle_map, .init = fresh);

Test(handle_map, finds_what_was_set_and_nothing_else)
{
    cr_assert_eq(handle_map_set(&map, 0x1000, 7), 0);
    cr_assert_eq(handle_map_get(&map, 0x1000), 7);
    cr_assert_eq(handle_map_get(&map, 0x1001), 0);
}

Test(handle_map, setting_again_replaces_the_value)
{
    handle_map_set(&map, 0x1000, 7);
    handle_map_set(&map, 0x1000, 8);
    cr_assert_eq(handle_map_get(&map, 0x1000), 8);
    handle_map_remove(&map, 0x1000);
    cr_assert_eq(handle_map_get(&map, 0x1000), 0, "a replaced key was there twice");
}

Test(handle_map, says_when_it_is_full_and_keeps_what_it_has)
{
    uint64_t count = 0;

    while (handle_map_set(&map, (count + 1) * 64, count + 1) == 0)
        count++;
    cr_assert_geq(count, SLOTS / 2);
    cr_assert_lt(count, SLOTS);
    cr_assert_eq(handle_map_set(&map, 0xdead0, 1), -ENOSPC);
    for (uint64_t i = 0; i < count; i++)
        cr_assert_eq(handle_map_get(&map, (i + 1) * 64), i + 1);
}

Test(handle_map, removing_what_is_not_there_changes_nothing)
{
    handle_map_set(&map, 0x1000, 7);
    handle_map_remove(&map, 0x2000);
    cr_assert_eq(handle_map_get(&map, 0x1000), 7);
}

/* Against a plain array, for long enough that every kind of shifting on removal has happened. */
Test(handle_map, agrees_with_a_simple_model_over_many_sets_and_removals)
{
    uint64_t model[40] = {0};
    unsigned int seed = 1;

    for (int step = 0; step < 200000; step++) {
        uint64_t key = (uint64_t)(rand_r(&seed) % 40), handle = (key + 1) * 0x40;

        if (rand_r(&seed) % 2) {
            model[key] = (uint64_t)step + 1;
            cr_assert_eq(handle_map_set(&map, handle, model[key]), 0);
        } else {
            model[key] = 0;
            handle_map_remove(&map, handle);
        }
        if (step % 64 == 0)
            for (uint64_t i = 0; i < 40; i++)
                cr_assert_eq(handle_map_get(&map, (i + 1) * 0x40), model[i], "step %d key %lu", step, i);
    }
}

Test(handle_map, does_not_wear_out_under_handles_that_come_and_go)
{
    for (uint64_t i = 1; i < 100000; i++) {
        cr_assert_eq(handle_map_set(&map, i * 16, i), 0);
        handle_map_remove(&map, i * 16);
    }
    cr_assert_eq(map.used, 0);
}
