/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ring.h"

#include <errno.h>

/*
 * A word: bytes of the record << 2, and two flags. Zero: no record starts here. A pad is committed from the start; a
 * record without COMMITTED is being filled.
 *
 * The pairings:
 *  word, release in ring_commit and for pads / acquire in ring_peek: the content of the record.
 *  consumed, release in ring_pop / acquire in ring_reserve: the consumer has read the old record and cleared its word
 *  before a producer writes over either.
 *  reserved needs no order: whoever advanced it owns the bytes in between, and tells the consumer through the word.
 */
enum { COMMITTED = 1, PAD = 2, SIZE_SHIFT = 2 };

int ring_attach(struct ring *ring, struct ring_ends *ends, void *memory, uint32_t size)
{
    if (!memory || (uintptr_t)memory % RING_UNIT || size < RING_SIZE_MIN || size > RING_SIZE_MAX || size & (size - 1))
        return -EINVAL;
    ring->data = memory;
    ring->words = (_Atomic uint32_t *)(ring->data + size);
    ring->size = size;
    ring->ends = ends;
    return 0;
}

int ring_init(struct ring *ring, void *memory, uint32_t size)
{
    int error = ring_attach(ring, &ring->own, memory, size);

    if (error < 0)
        return error;
    atomic_store_explicit(&ring->ends->reserved, 0, memory_order_relaxed);
    atomic_store_explicit(&ring->ends->consumed, 0, memory_order_relaxed);
    return 0;
}

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + RING_UNIT - 1) & ~(uint64_t)(RING_UNIT - 1);
}

static _Atomic uint32_t *word_at(const struct ring *ring, uint64_t offset)
{
    return &ring->words[offset / RING_UNIT];
}

void *ring_reserve(struct ring *ring, uint32_t bytes, uint64_t *token)
{
    uint64_t position, offset, pad, end;
    uint64_t room = round_up(bytes);

    if (!bytes || room > ring->size / 2)
        return NULL;
    position = atomic_load_explicit(&ring->ends->reserved, memory_order_relaxed);
    do {
        offset = position & (ring->size - 1);
        pad = offset + room > ring->size ? ring->size - offset : 0;
        end = position + pad + room;
        /* Signed: `position` may be old, and the consumer beyond it and even beyond `end`. Then the exchange fails. */
        if ((int64_t)(end - atomic_load_explicit(&ring->ends->consumed, memory_order_acquire)) > (int64_t)ring->size)
            return NULL;
    } while (!atomic_compare_exchange_weak_explicit(&ring->ends->reserved, &position, end, memory_order_relaxed,
                                                    memory_order_relaxed));

    if (pad) {
        atomic_store_explicit(word_at(ring, offset), (uint32_t)pad << SIZE_SHIFT | PAD | COMMITTED,
                              memory_order_release);
        offset = 0;
    }
    atomic_store_explicit(word_at(ring, offset), bytes << SIZE_SHIFT, memory_order_relaxed);
    if (token)
        *token = end;
    return ring->data + offset;
}

/* Only the owner of the reservation writes the word until it is committed, so no read-modify-write is needed. */
static void publish(struct ring *ring, void *record, uint32_t flags)
{
    _Atomic uint32_t *word = word_at(ring, (uint64_t)((unsigned char *)record - ring->data));

    atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) | flags, memory_order_release);
}

void ring_commit(struct ring *ring, void *record)
{
    publish(ring, record, COMMITTED);
}

void ring_cancel(struct ring *ring, void *record)
{
    publish(ring, record, COMMITTED | PAD);
}

/* The word is cleared before `consumed` lets producers have the unit. */
static void give_up(struct ring *ring, uint64_t position, uint32_t bytes)
{
    atomic_store_explicit(word_at(ring, position & (ring->size - 1)), 0, memory_order_relaxed);
    atomic_store_explicit(&ring->ends->consumed, position + round_up(bytes), memory_order_release);
}

const void *ring_peek(struct ring *ring, uint32_t *bytes)
{
    /* A ring holds no more pads than units. A process that makes new ones all the time must not keep us here; what it
     * reserves meanwhile is for the next call. */
    for (uint64_t units = ring->size / RING_UNIT; units > 0; units--) {
        uint64_t position = atomic_load_explicit(&ring->ends->consumed, memory_order_relaxed);
        uint64_t offset = position & (ring->size - 1);
        uint32_t word = atomic_load_explicit(word_at(ring, offset), memory_order_acquire);

        if (!(word & COMMITTED))
            return NULL;
        if (!(word & PAD)) {
            *bytes = word >> SIZE_SHIFT;
            return ring->data + offset;
        }
        give_up(ring, position, word >> SIZE_SHIFT);
    }
    return NULL;
}

const void *ring_look(const struct ring *ring, uint64_t *position, uint32_t *bytes)
{
    uint64_t offset = *position & (ring->size - 1);
    uint32_t word = atomic_load_explicit(word_at(ring, offset), memory_order_acquire);

    if (!(word & COMMITTED))
        return NULL;
    *position += round_up(word >> SIZE_SHIFT);
    if (word & PAD)
        return NULL;
    *bytes = word >> SIZE_SHIFT;
    return ring->data + offset;
}

void ring_pop(struct ring *ring)
{
    uint64_t position = atomic_load_explicit(&ring->ends->consumed, memory_order_relaxed);
    uint32_t word = atomic_load_explicit(word_at(ring, position & (ring->size - 1)), memory_order_relaxed);

    give_up(ring, position, word >> SIZE_SHIFT);
}
