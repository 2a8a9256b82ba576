/* SPDX-License-Identifier: Apache-2.0
 *
 * Description: No wake-up is lost between clients that commit records and a broker that goes to sleep in between.
 *
 * Threads stand for processes. The consumer does as the broker's device thread: it takes the bits, empties the rings
 * of those lanes, and when nothing is left says that it is asleep, looks again, and reads the doorbell. It looks for no
 * more than a few rounds before it sleeps, so that nearly every record meets another moment of going to sleep. A lost
 * wake-up leaves both sides waiting, which the consumer's time limit finds.
 *
 * A second part is the way back: a client that sleeps on a lane's `done` until the broker stores and wakes.
 *
 *   wake_stress [RECORDS]
 */
#include "base/clock.h"
#include "base/lock.h"
#include "wire/area.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    CLIENTS = 3,
    LOST_MS = 10000, /* nobody sleeps for so long while records are made */
    AHEAD = 64,      /* records that a client makes before it waits for the broker */
};

static struct wire_area *area;
static int doorbell;
static uint64_t per_client, sleeps, bells;
static _Atomic int failed;

static void fail(const char *what)
{
    fprintf(stderr, "failed: %s\n", what);
    atomic_store(&failed, 1);
    exit(1);
}

static void *client(void *argument)
{
    uint32_t number = (uint32_t)(uintptr_t)argument;
    struct wire_lane *lane = &area->lane[number];
    struct ring ring;

    wire_ring(area, number, &ring);
    for (uint64_t i = 1; i <= per_client; i++) {
        uint64_t *record;

        while (!(record = ring_reserve(&ring, 64, NULL)))
            sched_yield();
        *record = i;
        ring_commit(&ring, record);
        wire_touch(area, number, doorbell);
        if (i % AHEAD && (i + number) % 7)
            continue;
        /* As a program that synchronises: sleeps until the broker has got so far. */
        for (;;) {
            uint32_t done;

            /* seq_cst, and the fence: pair with those of the consumer. Either it sees a sleeper, or this sees `done`.
             */
            atomic_fetch_add_explicit(&lane->sleepers, 1, memory_order_seq_cst);
            atomic_thread_fence(memory_order_seq_cst);
            done = atomic_load_explicit(&lane->done, memory_order_seq_cst);
            if (done != (uint32_t)i && wait_shared(&lane->done, done, (uint64_t)LOST_MS * 1000000u) == -ETIMEDOUT)
                fail("a client was not woken");
            atomic_fetch_sub_explicit(&lane->sleepers, 1, memory_order_seq_cst);
            if (done == (uint32_t)i)
                break;
        }
    }
    return NULL;
}

static uint64_t empty(uint32_t number, struct ring *ring, uint64_t *expected)
{
    struct wire_lane *lane = &area->lane[number];
    const uint64_t *record;
    uint64_t taken = 0;
    uint32_t bytes;

    while ((record = ring_peek(ring, &bytes))) {
        if (bytes != 64 || *record != *expected + 1)
            fail("a record is wrong");
        ++*expected;
        ring_pop(ring);
        taken++;
    }
    if (taken) {
        atomic_store_explicit(&lane->done, (uint32_t)*expected, memory_order_seq_cst);
        atomic_thread_fence(memory_order_seq_cst);
        if (atomic_load_explicit(&lane->sleepers, memory_order_seq_cst))
            wake_shared(&lane->done, INT32_MAX);
    }
    return taken;
}

/* Until somebody rings, unless there is something to do by now. */
static void sleep_on_doorbell(void)
{
    struct pollfd bell = {.fd = doorbell, .events = POLLIN};
    uint64_t rung;
    int ready;

    atomic_store_explicit(&area->asleep, 1, memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst); /* pairs with the one in wire_touch */
    if (atomic_load_explicit(&area->touched, memory_order_seq_cst)) {
        atomic_store_explicit(&area->asleep, 0, memory_order_seq_cst);
        return; /* a bell may have been rung meanwhile: it ends the next sleep early */
    }
    sleeps++;
    do
        ready = poll(&bell, 1, LOST_MS);
    while (ready < 0 && errno == EINTR);
    if (ready == 0)
        fail("a wake-up was lost: the consumer sleeps and a record is there, or nobody makes any");
    if (read(doorbell, &rung, sizeof(rung)) == sizeof(rung))
        bells += rung;
}

static void consume(uint64_t records)
{
    struct ring ring[CLIENTS];
    uint64_t expected[CLIENTS] = {0}, taken = 0;
    int quiet = 0;

    for (uint32_t i = 0; i < CLIENTS; i++)
        wire_ring(area, i, &ring[i]);
    while (taken < records) {
        /* Acquire: pairs with the fetch_or in wire_touch; and a full barrier before the rings are looked at. */
        uint32_t touched = atomic_exchange_explicit(&area->touched, 0, memory_order_seq_cst);

        for (uint32_t i = 0; i < CLIENTS; i++)
            if (touched & UINT32_C(1) << i)
                taken += empty(i, &ring[i], &expected[i]);
        if (touched)
            quiet = 0;
        else if (++quiet > (int)(taken % 3))
            sleep_on_doorbell();
    }
}

int main(int count, char **arguments)
{
    uint64_t records = count > 1 ? strtoull(arguments[1], NULL, 10) : 1000000, begin_ns = clock_ns();
    pthread_t threads[CLIENTS];
    int fd;

    per_client = records / CLIENTS + 1;
    doorbell = eventfd(0, EFD_CLOEXEC);
    if (doorbell < 0 || wire_area_create(&area, &fd) < 0)
        return 77;
    for (uintptr_t i = 0; i < CLIENTS; i++)
        if (pthread_create(&threads[i], NULL, client, (void *)i))
            return 77;
    consume(per_client * CLIENTS);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    printf("%lu records, %lu sleeps, %lu bells, %lu ms\n", (unsigned long)(per_client * CLIENTS), (unsigned long)sleeps,
           (unsigned long)bells, (unsigned long)((clock_ns() - begin_ns) / 1000000));
    if (sleeps < 100)
        fail("the consumer hardly slept: nothing was shown");
    wire_area_unmap(area);
    close(fd);
    close(doorbell);
    return failed;
}
