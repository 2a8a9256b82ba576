/* SPDX-License-Identifier: Apache-2.0
 *
 * Description: Producers put records of random sizes into a small ring while one consumer, whose role wanders between
 * two threads, takes them out. Checks: each producer's records come in its order, none is lost, doubled or torn, tokens
 * grow, wrap-around and a full ring happen. Afterwards prints what a record costs without contention.
 */
#include "base/ring.h"

#include "base/clock.h"
#include "base/lock.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PRODUCERS_MAX = 4, RING_BYTES = 8192, CONSUMERS = 2 };

struct head {
    uint32_t producer;
    uint32_t bytes;
    uint64_t number;
    uint64_t token;
};

static struct ring ring;
static struct lock consumer_lock;
static uint64_t per_producer;
static uint64_t next_number[PRODUCERS_MAX]; /* under consumer_lock */
static uint64_t taken, last_token;          /* under consumer_lock */
static int producers;
static _Atomic uint64_t times_full, cancelled;
static _Atomic int failed;

#define fail(...)                                                                                                      \
    do {                                                                                                               \
        fprintf(stderr, __VA_ARGS__);                                                                                  \
        fputc('\n', stderr);                                                                                           \
        atomic_store(&failed, 1);                                                                                      \
    } while (0)

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static unsigned char filling(const struct head *head)
{
    return (unsigned char)(head->number * 7 + head->producer * 31 + head->bytes);
}

static void *produce(void *arg)
{
    uint32_t producer = (uint32_t)(uintptr_t)arg;
    uint32_t random = 12345 + producer;

    for (uint64_t number = 0; number < per_producer && !atomic_load(&failed); number++) {
        uint32_t limit = next_random(&random) % 16 ? 600 : RING_BYTES / 2 - (uint32_t)sizeof(struct head);
        uint32_t bytes = (uint32_t)sizeof(struct head) + next_random(&random) % limit;
        struct head *head;
        uint64_t token;

        while (!(head = ring_reserve(&ring, bytes, &token))) {
            atomic_fetch_add_explicit(&times_full, 1, memory_order_relaxed);
            sched_yield();
            if (atomic_load(&failed))
                return NULL;
        }
        *head = (struct head){.producer = producer, .bytes = bytes, .number = number, .token = token};
        memset(head + 1, filling(head), bytes - sizeof(*head));
        if (next_random(&random) % 32 == 0) {
            number--;
            ring_cancel(&ring, head);
            atomic_fetch_add_explicit(&cancelled, 1, memory_order_relaxed);
        } else {
            ring_commit(&ring, head);
        }
    }
    return NULL;
}

static void check(const struct head *head, uint32_t bytes)
{
    const unsigned char *content = (const unsigned char *)(head + 1);

    if (head->producer >= (uint32_t)producers || head->bytes != bytes || head->number != next_number[head->producer])
        fail("producer %u: %u bytes, number %lu; %u bytes and number %lu expected", head->producer, head->bytes,
             (unsigned long)head->number, bytes, (unsigned long)next_number[head->producer % PRODUCERS_MAX]);
    else
        next_number[head->producer]++;
    if (head->token <= last_token || head->token <= ring_consumed(&ring) || head->token > ring_reserved(&ring))
        fail("token %lu after %lu", (unsigned long)head->token, (unsigned long)last_token);
    last_token = head->token;
    for (uint32_t i = 0; i < bytes - sizeof(*head); i++) {
        if (content[i] != filling(head)) {
            fail("byte %u of record %lu is torn", i, (unsigned long)head->number);
            return;
        }
    }
}

/* Takes a few records and then lets the other consumer have the role. */
static bool consume_some(void)
{
    const struct head *head = NULL;
    bool done;

    lock_take(&consumer_lock);
    for (int i = 0; i < 50; i++) {
        uint32_t bytes;
        uint64_t token;

        head = ring_peek(&ring, &bytes);
        if (!head)
            break;
        check(head, bytes);
        token = head->token;
        ring_pop(&ring);
        if (ring_consumed(&ring) != token)
            fail("after its pop, token %lu is not the position %lu", (unsigned long)token,
                 (unsigned long)ring_consumed(&ring));
        taken++;
    }
    done = taken == per_producer * (uint64_t)producers || atomic_load(&failed);
    lock_drop(&consumer_lock);
    if (!head)
        sched_yield();
    return !done;
}

static void *consume(void *arg)
{
    while (consume_some())
        ;
    return NULL;
}

static void stress(int count, uint64_t records, void *memory)
{
    pthread_t threads[PRODUCERS_MAX + CONSUMERS];

    memset(memory, 0, ring_memory(RING_BYTES));
    memset(next_number, 0, sizeof(next_number));
    producers = count;
    per_producer = records / (uint64_t)count;
    taken = last_token = 0;
    atomic_store(&times_full, 0);
    if (ring_init(&ring, memory, RING_BYTES))
        fail("ring_init failed");
    for (int i = 0; i < count + CONSUMERS; i++)
        if (pthread_create(&threads[i], NULL, i < count ? produce : consume, (void *)(uintptr_t)i))
            exit(77);
    for (int i = 0; i < count + CONSUMERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < count; i++)
        if (next_number[i] != per_producer)
            fail("producer %d: %lu of %lu records arrived", i, (unsigned long)next_number[i],
                 (unsigned long)per_producer);
    ring_peek(&ring, &(uint32_t){0}); /* skips what was cancelled last */
    if (!ring_empty(&ring))
        fail("the ring is not empty at the end");
    if (ring_consumed(&ring) < 10 * RING_BYTES)
        fail("the ring did not wrap around");
    printf("%d producers: %lu records, %lu times full\n", count, (unsigned long)taken, (unsigned long)times_full);
}

static void measure(void *memory)
{
    enum { ROUNDS = 1000000 };
    uint64_t begin;

    memset(memory, 0, ring_memory(RING_BYTES));
    ring_init(&ring, memory, RING_BYTES);
    begin = clock_ns();
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t token;
        uint32_t bytes;
        uint64_t *record = ring_reserve(&ring, 320, &token);

        *record = token;
        ring_commit(&ring, record);
        if (*(const uint64_t *)ring_peek(&ring, &bytes) != token)
            fail("wrong record");
        ring_pop(&ring);
    }
    printf("reserve, commit, peek and pop: %lu ns\n", (unsigned long)((clock_ns() - begin) / ROUNDS));
}

int main(int count, char **arguments)
{
    uint64_t records = count > 1 ? strtoull(arguments[1], NULL, 10) : 40000;
    void *memory = aligned_alloc(RING_UNIT, (ring_memory(RING_BYTES) + RING_UNIT - 1) / RING_UNIT * RING_UNIT);

    if (!memory)
        return 77;
    for (int i = 1; i <= PRODUCERS_MAX && !failed; i++)
        stress(i, records, memory);
    if (!failed)
        measure(memory);
    free(memory);
    return failed;
}
