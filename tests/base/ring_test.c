/* SPDX-License-Identifier: Apache-2.0
 *
 * The ring in one thread: order, room, padding, cancelling, tokens. And what another process that writes nonsense into
 * a shared one can do: stop it, but not lead this side astray.
 */
#include "base/ring.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

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

/* ---- shared with somebody --------------------------------------------------------------------------------------- */

enum { SHARED_SIZE = 8192, SHARED_MEMORY = SHARED_SIZE + SHARED_SIZE / RING_UNIT * 4, PAGE = 4096 };

static struct ring_ends *shared_ends;
static unsigned char *shared_data;
static struct ring mine, others;

/* The memory ends at a page that cannot be touched, and begins behind one: a step outside is a crash. */
static void share_ring(void)
{
    size_t pages = (SHARED_MEMORY + PAGE - 1) / PAGE * PAGE;
    unsigned char *guarded =
        mmap(NULL, pages + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    cr_assert(ne(ptr, guarded, MAP_FAILED));
    cr_assert(eq(int, mprotect(guarded + PAGE, pages, PROT_READ | PROT_WRITE), 0));
    cr_assert(eq(sz, pages % RING_UNIT, 0));
    shared_data = guarded + PAGE + (pages - SHARED_MEMORY) / RING_UNIT * RING_UNIT;
    shared_ends = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert(eq(int, ring_attach(&mine, shared_ends, shared_data, SHARED_SIZE), 0));
    cr_assert(eq(int, ring_attach(&others, shared_ends, shared_data, SHARED_SIZE), 0));
}

TestSuite(shared_ring, .init = share_ring, .timeout = 60);

Test(shared_ring, wrong_sizes_and_memory_are_refused)
{
    cr_assert(eq(int, ring_attach(&mine, shared_ends, NULL, SHARED_SIZE), -EINVAL));
    cr_assert(eq(int, ring_attach(&mine, shared_ends, shared_data + 32, SHARED_SIZE), -EINVAL));
    cr_assert(eq(int, ring_attach(&mine, shared_ends, shared_data, SHARED_SIZE - 64), -EINVAL));
    cr_assert(eq(int, ring_attach(&mine, shared_ends, shared_data, 0), -EINVAL));
}

Test(shared_ring, two_views_are_one_ring)
{
    uint64_t token, later;
    uint32_t bytes;

    for (int i = 0; i < 1000; i++) {
        unsigned char *record = ring_reserve(&others, 100 + (uint32_t)i, &token);

        memset(record, i, 100 + (size_t)i);
        cr_assert(eq(ptr, (void *)ring_peek(&mine, &bytes), NULL));
        ring_commit(&others, record);
        cr_assert(eq(ptr, (void *)ring_peek(&mine, &bytes), record));
        cr_assert(eq(u32, bytes, 100 + (uint32_t)i));
        cr_assert(ring_holds(&mine, record, bytes));
        cr_assert(not(ring_empty(&others)));
        ring_pop(&mine);
        cr_assert(ring_empty(&others));
        cr_assert(eq(u64, ring_consumed(&others), token));
    }
    /* Attaching changes nothing: a record that lies there is still there. */
    ring_commit(&others, ring_reserve(&others, 7, &token));
    cr_assert(eq(int, ring_attach(&mine, shared_ends, shared_data, SHARED_SIZE), 0));
    cr_assert(ne(ptr, (void *)ring_peek(&mine, &bytes), NULL));
    cr_assert(eq(u32, bytes, 7));
    cr_assert(ne(ptr, ring_reserve(&others, 7, &later), NULL));
    cr_assert(gt(u64, later, token));
}

/* As the consumer of a ring that it does not trust must do it. True: a record was taken. */
static bool take_carefully(void)
{
    static unsigned char copy[SHARED_SIZE];
    const unsigned char *record;
    uint32_t bytes = 0;

    record = ring_peek(&mine, &bytes);
    if (!record)
        return false;
    cr_assert(ge(u64, (uintptr_t)record, (uintptr_t)shared_data));
    cr_assert(lt(u64, (uintptr_t)record, (uintptr_t)shared_data + SHARED_SIZE));
    if (ring_holds(&mine, record, bytes)) {
        cr_assert(le(u64, (uintptr_t)record + bytes, (uintptr_t)shared_data + SHARED_SIZE));
        memcpy(copy, record, bytes);
    }
    ring_pop(&mine);
    return true;
}

static void set_word(uint32_t unit, uint32_t word)
{
    atomic_store(&mine.words[unit], word);
}

Test(shared_ring, a_size_that_leads_outside_is_told)
{
    uint32_t bytes = 0;

    for (uint32_t unit = 0; unit < SHARED_SIZE / RING_UNIT; unit++) {
        uint32_t left = SHARED_SIZE - unit * RING_UNIT;
        const uint32_t sizes[] = {0, 1, left, left + 1, SHARED_SIZE, SHARED_SIZE + 1, UINT32_MAX >> 2};

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            const void *record;

            atomic_store(&shared_ends->consumed, (uint64_t)unit * RING_UNIT);
            set_word(unit, sizes[i] << 2 | 1);
            record = ring_peek(&mine, &bytes);
            cr_assert(eq(ptr, (void *)record, shared_data + unit * RING_UNIT));
            cr_assert(eq(u32, bytes, sizes[i]));
            cr_assert(eq(int, ring_holds(&mine, record, bytes), sizes[i] <= left));
            ring_pop(&mine);
        }
    }
}

Test(shared_ring, nonsense_in_all_words_and_ends_never_leads_outside)
{
    uint64_t random = 1;

    for (int round = 0; round < 200000; round++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint32_t unit = (uint32_t)(random >> 33) % (SHARED_SIZE / RING_UNIT);
        uint32_t word = (uint32_t)(random >> 13);

        set_word(unit, random & 16 ? word : (word & 0x3ff03) | 1);
        if (round % 8 == 0)
            atomic_store(&shared_ends->consumed, random & 32 ? random : random % (2 * SHARED_SIZE));
        if (round % 8 == 4)
            atomic_store(&shared_ends->reserved, random & 64 ? random : ring_consumed(&mine) + random % SHARED_SIZE);
        for (int i = 0; i < 4 && take_carefully(); i++)
            ;
        if (round % 2) {
            uint32_t bytes = 1 + (uint32_t)(random >> 40) % ring_largest(&mine);
            unsigned char *record = ring_reserve(&mine, bytes, NULL);

            if (record) {
                cr_assert(ge(u64, (uintptr_t)record, (uintptr_t)shared_data));
                cr_assert(le(u64, (uintptr_t)record + bytes, (uintptr_t)shared_data + SHARED_SIZE));
                record[0] = record[bytes - 1] = 'r';
                ring_commit(&mine, record);
            }
        }
    }
}

static _Atomic bool enough;

static void *make_pads(void *arg)
{
    while (!atomic_load_explicit(&enough, memory_order_relaxed))
        for (uint32_t unit = 0; unit < SHARED_SIZE / RING_UNIT; unit++)
            atomic_store_explicit(&others.words[unit], RING_UNIT << 2 | 3, memory_order_relaxed);
    return NULL;
}

/* A process that makes pads faster than they are skipped keeps the consumer from nobody else. */
Test(shared_ring, endless_pads_do_not_hold_the_consumer)
{
    pthread_t thread;
    uint64_t most = 0;
    uint32_t bytes;
    bool found = false;

    cr_assert(eq(int, pthread_create(&thread, NULL, make_pads, NULL), 0));
    while (!atomic_load(&others.words[0]))
        ;
    for (int i = 0; i < 3000000; i++) {
        uint64_t before = ring_consumed(&mine), skipped;

        found |= ring_peek(&mine, &bytes) != NULL;
        skipped = ring_consumed(&mine) - before;
        most = skipped > most ? skipped : most;
    }
    cr_assert(not(found));
    cr_assert(le(u64, most, SHARED_SIZE));
    atomic_store(&enough, true);
    pthread_join(thread, NULL);
}
