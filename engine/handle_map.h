/* SPDX-License-Identifier: Apache-2.0
 *
 * A map from driver handles to 64-bit values, read without a lock on every launch and written rarely.
 *
 * Open addressing with linear probing; removal shifts entries back, so there are no tombstones and a map does not wear
 * out under handles that come and go. Readers are guarded by a sequence word: odd while a writer moves entries. A
 * reader that saw a change looks again. Writers exclude each other by a lock of the owner.
 *
 * Keys are not 0, values are not 0. Memory is the owner's and of fixed size.
 */
#ifndef COISSUE_ENGINE_HANDLE_MAP_H
#define COISSUE_ENGINE_HANDLE_MAP_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct handle_slot {
    _Atomic uint64_t key, value;
};

struct handle_map {
    struct handle_slot *slots;
    uint32_t mask;
    uint32_t used; /* writers only */
    _Atomic uint32_t sequence;
};

static inline size_t handle_map_memory(uint32_t slots)
{
    return slots * sizeof(struct handle_slot);
}

/* `memory` has handle_map_memory(slots) zeroed bytes; `slots` is a power of two. */
void handle_map_init(struct handle_map *map, void *memory, uint32_t slots);

/* Any thread. 0: not there. */
uint64_t handle_map_get(const struct handle_map *map, uint64_t key);

/* Writer. Adds or replaces. -ENOSPC when three quarters are in use. */
int handle_map_set(struct handle_map *map, uint64_t key, uint64_t value);

/* Writer. Removing what is not there is fine. */
void handle_map_remove(struct handle_map *map, uint64_t key);

#endif
