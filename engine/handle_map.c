/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/handle_map.h"

#include "base/clock.h"

#include <errno.h>

/* Fibonacci hashing: handles are pointers, their low bits are alike. */
static uint32_t home_slot(const struct handle_map *map, uint64_t key)
{
    return (uint32_t)((key * 0x9e3779b97f4a7c15u) >> 32) & map->mask;
}

void handle_map_init(struct handle_map *map, void *memory, uint32_t slots)
{
    map->slots = memory;
    map->mask = slots - 1;
    map->used = 0;
    atomic_init(&map->sequence, 0);
}

static uint64_t probe(const struct handle_map *map, uint64_t key)
{
    for (uint32_t i = home_slot(map, key);; i = (i + 1) & map->mask) {
        /* Acquire: pairs with the release in handle_map_set, so that what a value points to is seen complete. */
        uint64_t found = atomic_load_explicit(&map->slots[i].key, memory_order_acquire);

        if (found == key)
            return atomic_load_explicit(&map->slots[i].value, memory_order_acquire);
        if (found == 0)
            return 0;
    }
}

uint64_t handle_map_get(const struct handle_map *map, uint64_t key)
{
    for (;;) {
        uint32_t before = atomic_load_explicit(&map->sequence, memory_order_acquire);
        uint64_t value;

        if (before & 1) {
            cpu_relax();
            continue;
        }
        value = probe(map, key);
        /*
         * The loads of probe() are acquires, so this load cannot move before them: an entry that a writer stored after
         * making the sequence odd is seen together with the odd or a later value, and we look again.
         */
        if (atomic_load_explicit(&map->sequence, memory_order_relaxed) == before)
            return value;
    }
}

static void store(struct handle_map *map, uint32_t slot, uint64_t key, uint64_t value)
{
    /* Value first: a reader that finds the key finds a value that belongs to it, or sees the sequence change. */
    atomic_store_explicit(&map->slots[slot].value, value, memory_order_release);
    atomic_store_explicit(&map->slots[slot].key, key, memory_order_release);
}

int handle_map_set(struct handle_map *map, uint64_t key, uint64_t value)
{
    uint32_t i = home_slot(map, key);

    for (;; i = (i + 1) & map->mask) {
        uint64_t found = atomic_load_explicit(&map->slots[i].key, memory_order_relaxed);

        if (found == key) {
            atomic_store_explicit(&map->slots[i].value, value, memory_order_release);
            return 0;
        }
        if (found == 0)
            break;
    }
    if (map->used >= map->mask / 4 * 3)
        return -ENOSPC;
    store(map, i, key, value);
    map->used++;
    return 0;
}

void handle_map_remove(struct handle_map *map, uint64_t key)
{
    uint32_t hole = home_slot(map, key), next;

    for (;; hole = (hole + 1) & map->mask) {
        uint64_t found = atomic_load_explicit(&map->slots[hole].key, memory_order_relaxed);

        if (found == 0)
            return;
        if (found == key)
            break;
    }

    /* Odd before the first move. The exchange is acquire and release: no store below is seen without it. */
    atomic_fetch_add_explicit(&map->sequence, 1, memory_order_acq_rel);
    for (next = (hole + 1) & map->mask;; next = (next + 1) & map->mask) {
        uint64_t moving = atomic_load_explicit(&map->slots[next].key, memory_order_relaxed);
        uint32_t home;

        if (moving == 0)
            break;
        home = home_slot(map, moving);
        /* `next` may fill the hole only if its probe path passes there: home is not in (hole, next]. */
        if (((next - home) & map->mask) >= ((next - hole) & map->mask)) {
            store(map, hole, moving, atomic_load_explicit(&map->slots[next].value, memory_order_relaxed));
            hole = next;
        }
    }
    atomic_store_explicit(&map->slots[hole].key, 0, memory_order_release);
    atomic_store_explicit(&map->slots[hole].value, 0, memory_order_release);
    map->used--;
    /* Even again. Release: who reads this value sees all moves. Pairs with the first load in handle_map_get. */
    atomic_fetch_add_explicit(&map->sequence, 1, memory_order_release);
}
