/* SPDX-License-Identifier: Apache-2.0
 *
 * The ring in one thread: order, room, padding, cancelling, tokens.
 */
#include "base/ring.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>

enum { SIZE = 1024 };

static _Alignas(RING_UNIT) unsigned char memory[SIZE + SIZE / RING_UNIT * 4];
static struct ring ring;

static void make_ring(void)
{
    cr_assert(eq(sz, ring_memory(SIZE), sizeof(memory)));
    cr_assert(eq(int, ring_init(&ring, memory, SIZE), 0));
}

static uint64_t put(uint32_t bytes, int filling)
{
    uint64_t token = 0;
    void *record = ring_reserve(&ring, bytes, &token);

    cr_assert(ne(ptr, record, NULL));
    memset(record, filling, bytes);
    ring_commit(&ring, record);
    return token;
}

static void take(uint32_t bytes, int filling)
{
    uint32_t found = 0;
    const unsigned char *record = ring_peek(&ring, &found);

    cr_assert(ne(ptr, (void *)record, NULL));
    cr_assert(eq(u32, found, bytes));
    for (uint32_t i = 0; i < bytes; i++)
        cr_assert(eq(int, record[i], filling));
    ring_pop(&ring);
}

static void expect_nothing(void)
{
    uint32_t bytes;

    cr_assert(eq(ptr, (void *)ring_peek(&ring, &bytes), NULL));
}

TestSuite(ring, .init = make_ring);

Test(ring, wrong_sizes_and_memory_are_refused)
{
    struct ring other;

    cr_assert(eq(int, ring_init(&other, NULL, SIZE), -EINVAL));
    cr_assert(eq(int, ring_init(&other, memory + 8, SIZE), -EINVAL));
    cr_assert(eq(int, ring_init(&other, memory, 0), -EINVAL));
    cr_assert(eq(int, ring_init(&other, memory, 64), -EINVAL));
    cr_assert(eq(int, ring_init(&other, memory, SIZE - 64), -EINVAL));
    cr_assert(eq(int, ring_init(&other, memory, 1u << 30), -EINVAL));
}

Test(ring, records_come_out_in_order_with_size_and_content)
{
    cr_assert(ring_empty(&ring));
    expect_nothing();
    put(1, 'a');
    put(64, 'b');
    put(65, 'c');
    cr_assert(not(ring_empty(&ring)));
    take(1, 'a');
    take(64, 'b');
    take(65, 'c');
    expect_nothing();
    cr_assert(ring_empty(&ring));
}

Test(ring, sizes_out_of_range_are_refused_and_leave_the_token_alone)
{
    uint64_t token = 77;

    cr_assert(eq(ptr, ring_reserve(&ring, 0, &token), NULL));
    cr_assert(eq(ptr, ring_reserve(&ring, ring_largest(&ring) + 1, &token), NULL));
    cr_assert(eq(ptr, ring_reserve(&ring, UINT32_MAX, &token), NULL));
    cr_assert(eq(u64, token, 77));
    cr_assert(ring_empty(&ring));
}

Test(ring, a_full_ring_answers_null_and_takes_more_after_a_pop)
{
    for (int i = 0; i < SIZE / RING_UNIT; i++)
        put(RING_UNIT, i);
    cr_assert(eq(ptr, ring_reserve(&ring, 1, NULL), NULL));
    take(RING_UNIT, 0);
    put(RING_UNIT, 'n');
    cr_assert(eq(ptr, ring_reserve(&ring, 1, NULL), NULL));
    for (int i = 1; i < SIZE / RING_UNIT; i++)
        take(RING_UNIT, i);
    take(RING_UNIT, 'n');
    expect_nothing();
}

Test(ring, an_uncommitted_record_stops_the_consumer_also_before_committed_ones)
{
    void *first = ring_reserve(&ring, 64, NULL);

    memset(first, '1', 64);
    put(64, '2');
    expect_nothing();
    cr_assert(not(ring_empty(&ring)));
    ring_commit(&ring, first);
    take(64, '1');
    take(64, '2');
}

Test(ring, a_cancelled_record_is_skipped_and_its_token_counts_as_consumed)
{
    uint64_t token;
    void *record = ring_reserve(&ring, 200, &token);

    ring_cancel(&ring, record);
    expect_nothing();
    cr_assert(eq(u64, ring_consumed(&ring), token));
    cr_assert(ring_empty(&ring));
    put(10, 'x');
    record = ring_reserve(&ring, 10, NULL);
    ring_cancel(&ring, record);
    put(10, 'y');
    take(10, 'x');
    take(10, 'y');
    cr_assert(ring_empty(&ring));
}

Test(ring, tokens_grow_and_tell_when_their_record_was_consumed)
{
    uint64_t a = put(100, 'a'), b = put(100, 'b');

    cr_assert(gt(u64, a, 0));
    cr_assert(gt(u64, b, a));
    cr_assert(eq(u64, ring_reserved(&ring), b));
    cr_assert(lt(u64, ring_consumed(&ring), a));
    take(100, 'a');
    cr_assert(ge(u64, ring_consumed(&ring), a));
    cr_assert(lt(u64, ring_consumed(&ring), b));
    take(100, 'b');
    cr_assert(ge(u64, ring_consumed(&ring), b));
}

Test(ring, a_record_never_wraps_and_the_largest_fits_an_empty_ring_at_every_position)
{
    for (int i = 0; i < 5 * SIZE / RING_UNIT; i++) {
        unsigned char *record = ring_reserve(&ring, ring_largest(&ring), NULL);

        cr_assert(ne(ptr, record, NULL), "position %d", i);
        cr_assert(record >= memory && record + ring_largest(&ring) <= memory + SIZE);
        cr_assert(eq(sz, (uintptr_t)record % RING_UNIT, 0));
        memset(record, i, ring_largest(&ring));
        ring_commit(&ring, record);
        take(ring_largest(&ring), i & 255);
        put(1, 'x');
        take(1, 'x');
    }
}

Test(ring, content_that_looks_like_anything_is_never_taken_for_a_record)
{
    for (int i = 0; i < 1000; i++) {
        put(512 - 64 * (i % 3), 0xff);
        take(512 - 64 * (i % 3), 0xff);
        cr_assert(ne(ptr, ring_reserve(&ring, 64, NULL), NULL));
        expect_nothing();
        ring_cancel(&ring, ring.data + ((ring_reserved(&ring) - 64) & (SIZE - 1)));
        expect_nothing();
    }
}

Test(ring, an_emptied_ring_leaves_memory_that_can_be_a_ring_again)
{
    for (int i = 0; i < 100; i++) {
        put(1 + i * 5, i);
        take(1 + i * 5, i);
    }
    make_ring();
    expect_nothing();
    put(7, 'z');
    take(7, 'z');
}
