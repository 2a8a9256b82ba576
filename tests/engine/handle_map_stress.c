/* SPDX-License-Identifier: Apache-2.0
 *
 * Description: readers of a handle map, while a writer adds and removes entries around them, find the entries that stay
 * always, and never find a value under another's key.
 */
#include "engine/handle_map.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { SLOTS = 256, STAY = 40, COME_AND_GO = 100, READERS = 3, ROUNDS = 3000 };

static struct handle_slot memory[SLOTS];
static struct handle_map map;
static _Atomic int stop, wrong, reads;

static uint64_t key_of(uint64_t number)
{
    return (number + 1) * 64;
}

static void *reader(void *argument)
{
    uint64_t number = (uint64_t)(size_t)argument;

    while (!atomic_load(&stop)) {
        uint64_t key, value;

        number = (number * 1103515245 + 12345) % (STAY + COME_AND_GO);
        key = key_of(number);
        value = handle_map_get(&map, key);
        if ((number < STAY && value != key * 3) || (value && value != key * 3))
            atomic_fetch_add(&wrong, 1);
        atomic_fetch_add(&reads, 1);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[READERS];

    handle_map_init(&map, memory, SLOTS);
    for (uint64_t i = 0; i < STAY; i++)
        handle_map_set(&map, key_of(i), key_of(i) * 3);
    for (size_t i = 0; i < READERS; i++)
        pthread_create(&threads[i], NULL, reader, (void *)(i + 1));
    for (int round = 0; round < ROUNDS; round++) {
        for (uint64_t i = STAY; i < STAY + COME_AND_GO; i++)
            handle_map_set(&map, key_of(i), key_of(i) * 3);
        for (uint64_t i = STAY; i < STAY + COME_AND_GO; i++)
            handle_map_remove(&map, key_of((i * 7) % COME_AND_GO + STAY));
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    printf("%d reads, %d wrong\n", reads, wrong);
    return wrong ? 1 : 0;
}
