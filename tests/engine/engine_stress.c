/* SPDX-License-Identifier: Apache-2.0
 *
 * Description: threads launch into lanes, alone or sharing one, while others flush them and the device's thread issues.
 * Every launch arrives exactly once, and those of one thread arrive in its order.
 */
#include "tests/engine/fake_driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, LANES = 3, LAUNCHES = 6000 };

static struct lane *lanes[LANES];
static _Atomic int running;

struct worker {
    int id, stream;
};

static void *launcher(void *argument)
{
    const struct worker *worker = argument;
    unsigned int seed = (unsigned int)worker->id + 1;

    for (uint64_t i = 0; i < LAUNCHES; i++) {
        fake_launch(lanes[worker->stream], (uint64_t)worker->id << 32 | i,
                    1 + (uint32_t)rand_r(&seed) % (2 * FAKE_SMS));
        if (rand_r(&seed) % 64 == 0)
            lane_flush_all(lanes[worker->stream], SCHED_REASON_FLUSH);
    }
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static void *flusher(void *argument)
{
    struct engine *engine = argument;

    while (atomic_load(&running) > 0)
        lanes_flush(engine, NULL, SCHED_REASON_FLUSH);
    return NULL;
}

static int check(int stream, const int *launchers)
{
    uint64_t next[THREADS] = {0};
    uint32_t expected = 0;

    for (int i = 0; i < THREADS; i++)
        expected += launchers[i] == stream ? LAUNCHES : 0;
    if (fake_count(stream) != expected) {
        printf("stream %d got %u launches, not %u\n", stream, fake_count(stream), expected);
        return 1;
    }
    for (uint32_t i = 0; i < expected; i++) {
        uint64_t number = fake.stream[stream].number[i], id = number >> 32;

        if (id >= THREADS || (number & 0xffffffffu) != next[id]++) {
            printf("stream %d: launch %u is %llx\n", stream, i, (unsigned long long)number);
            return 1;
        }
    }
    return 0;
}

int main(void)
{
    static const int stream_of[THREADS] = {0, 0, 1, 2}; /* two threads share a lane */
    struct worker workers[THREADS];
    pthread_t threads[THREADS], flush;
    struct engine *engine;
    int wrong = 0;

    fake_init();
    engine = fake_engine(4, 1000000);
    if (!engine)
        return 1;
    for (int i = 0; i < LANES; i++)
        lanes[i] = lane_make(engine, fake_context(), fake_stream_handle(i));
    atomic_store(&running, THREADS);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){i, stream_of[i]};
        pthread_create(&threads[i], NULL, launcher, &workers[i]);
    }
    pthread_create(&flush, NULL, flusher, engine);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_join(flush, NULL);
    lanes_flush(engine, NULL, SCHED_REASON_FLUSH);
    for (int i = 0; i < LANES; i++)
        wrong += check(i, stream_of);
    engine_stop(engine);
    return wrong ? 1 : 0;
}
