/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/remote_heap.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

enum { UNIT = 512 };
#define BASE UINT64_C(0x200000000000)

static struct remote_heap heap;

static void fresh(void)
{
    cr_assert_eq(remote_heap_init(&heap, BASE, 64 * UNIT), 0);
}

static void over(void)
{
    remote_heap_end(&heap);
}

TestSuite(remote_heap, .init = fresh, .fini = over);

static uint64_t take(uint64_t units)
{
    uint64_t base = 0;

    cr_assert_eq(remote_heap_take(&heap, units * UNIT, UNIT, &base), 0);
    return base;
}

Test(remote_heap, an_empty_range_or_one_that_wraps_is_refused)
{
    struct remote_heap other = {0};

    cr_assert_eq(remote_heap_init(&other, BASE, 0), -EINVAL);
    cr_assert_eq(remote_heap_init(&other, UINT64_MAX - UNIT, 2 * UNIT), -EINVAL);
    remote_heap_end(&other);
}

Test(remote_heap, the_first_place_that_fits_is_taken)
{
    uint64_t a = take(2), b = take(4), c = take(1);

    cr_assert_eq(a, BASE);
    cr_assert_eq(b, BASE + 2 * UNIT);
    cr_assert_eq(c, BASE + 6 * UNIT);
    remote_heap_give(&heap, a, 2 * UNIT);
    remote_heap_give(&heap, b, 4 * UNIT);
    cr_assert_eq(take(6), BASE, "the two free ranges were not joined");
}

Test(remote_heap, alignment_leaves_what_is_in_front_free)
{
    uint64_t a = take(1), b;

    cr_assert_eq(remote_heap_take(&heap, 4 * UNIT, 8 * UNIT, &b), 0);
    cr_assert_eq(b, BASE + 8 * UNIT);
    cr_assert_eq(take(7), a + UNIT);
    cr_assert_eq(take(1), BASE + 12 * UNIT);
}

Test(remote_heap, a_range_joins_both_neighbours)
{
    uint64_t a = take(8), b = take(8), c = take(8);

    remote_heap_give(&heap, a, 8 * UNIT);
    remote_heap_give(&heap, c, 8 * UNIT);
    remote_heap_give(&heap, b, 8 * UNIT);
    cr_assert_eq(heap.count, 1);
    cr_assert_eq(heap.taken, 0);
    cr_assert_eq(take(64), BASE);
}

Test(remote_heap, a_full_heap_says_so_and_is_usable_later)
{
    uint64_t all = take(64), base;

    cr_assert_eq(remote_heap_take(&heap, 1, 1, &base), -ENOSPC);
    remote_heap_give(&heap, all, 64 * UNIT);
    cr_assert_eq(remote_heap_take(&heap, 65 * UNIT, UNIT, &base), -ENOSPC);
    cr_assert_eq(take(64), BASE);
}

/* Against a map of units: everything that is out is apart, aligned and inside; nothing is lost; first means first. */
Test(remote_heap, agrees_with_a_bitmap)
{
    enum { UNITS = 64 };
    struct remote_range out[UNITS];
    bool used[UNITS] = {false};
    unsigned int seed = 1;
    int count = 0;

    for (int step = 0; step < 100000; step++) {
        if (count && rand_r(&seed) % 2) {
            int i = rand_r(&seed) % count;

            for (uint64_t u = 0; u < out[i].bytes / UNIT; u++)
                used[(out[i].base - BASE) / UNIT + u] = false;
            remote_heap_give(&heap, out[i].base, out[i].bytes);
            out[i] = out[--count];
        } else {
            uint64_t units = 1 + (uint64_t)rand_r(&seed) % 9, align = UINT64_C(1) << rand_r(&seed) % 4, base, first;
            int error = remote_heap_take(&heap, units * UNIT, align * UNIT, &base);

            for (first = 0; first + units <= UNITS; first += align) {
                uint64_t u = 0;

                while (u < units && !used[first + u])
                    u++;
                if (u == units)
                    break;
            }
            if (first + units > UNITS) {
                cr_assert_eq(error, -ENOSPC, "step %d", step);
                continue;
            }
            cr_assert_eq(error, 0, "step %d", step);
            cr_assert_eq(base, BASE + first * UNIT, "step %d", step);
            for (uint64_t u = 0; u < units; u++)
                used[first + u] = true;
            out[count++] = (struct remote_range){base, units * UNIT};
        }
        for (size_t i = 1; i < heap.count; i++)
            cr_assert_lt(heap.free[i - 1].base + heap.free[i - 1].bytes, heap.free[i].base, "step %d", step);
    }
}
