/* SPDX-License-Identifier: Apache-2.0
 *
 * The queue of a lane: records of any size from any number of threads to one consumer, in memory of the caller.
 *
 *   producer: record = ring_reserve(ring, bytes, &token); fill it; ring_commit(ring, record)
 *   consumer: while ((record = ring_peek(ring, &bytes))) { use it; ring_pop(ring); }
 *
 * The order of records is the order of reservations. A record that is reserved but not committed stops the consumer, so
 * a producer fills its record at once and in between calls nothing that can wait for the consumer. Nothing here blocks,
 * allocates or enters the kernel; a full ring answers NULL.
 *
 * Positions count bytes since the ring was made and never go back. A record's token is the position of its end:
 * the record was consumed once ring_consumed(ring) >= token. Tokens of one ring grow in record order; 0 is before all.
 *
 * The consumer is one thread at a time. The role may move between threads if a lock (or another release/acquire pair)
 * orders the old consumer's last call before the new one's first.
 *
 * How: `reserved` is advanced by compare-and-swap; each 64-byte unit of the data has one word in `words`, which holds
 * size and state of the record that starts there. A record never wraps: if it does not fit before the end of the data,
 * the rest is skipped by a pad record. Invariant: all words that start no live record are zero. So a consumer that
 * looks at a record which is reserved but not yet described reads zero, never bytes left by an earlier record.
 */
#ifndef COISSUE_BASE_RING_H
#define COISSUE_BASE_RING_H

#include "base/base.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RING_UNIT = 64,          /* records start at multiples of this, and so are aligned to it */
    RING_SIZE_MIN = 128,     /* two units: a record may be at most half the ring, see ring_largest */
    RING_SIZE_MAX = 1 << 29, /* far above any need; a word has 30 bits for a size */
};

struct ring_ends {
    _Alignas(CACHE_LINE) _Atomic uint64_t reserved; /* written by producers */
    _Alignas(CACHE_LINE) _Atomic uint64_t consumed; /* written by the consumer */
};

struct ring {
    /* Constant after ring_init or ring_attach. */
    _Alignas(CACHE_LINE) unsigned char *data;
    _Atomic uint32_t *words;
    uint64_t size;
    struct ring_ends *ends; /* `own`, or in memory that processes share */

    struct ring_ends own;
};

/* Bytes of memory that a ring with `size` bytes of data needs: the data and one word per unit. */
static inline size_t ring_memory(uint32_t size)
{
    return (size_t)size + size / RING_UNIT * sizeof(uint32_t);
}

/*
 * `memory` has ring_memory(size) bytes, is aligned to RING_UNIT, stays the caller's and must be all zero, as mmap gives
 * it (what an empty ring leaves behind will do too). `size` is a power of two. -EINVAL for other values.
 */
int ring_init(struct ring *ring, void *memory, uint32_t size);

/*
 * A view of a ring whose ends and memory are shared by processes, each with a `struct ring` of its own. Zeroed ends and
 * memory are an empty ring; nothing is written here. What the other side can do by writing nonsense: stop the ring,
 * repeat or skip records, and change a record that was peeked. It cannot make this side touch memory outside the ring
 * as long as the consumer asks ring_holds() about each record, and copies it before it looks at it.
 */
int ring_attach(struct ring *ring, struct ring_ends *ends, void *memory, uint32_t size);

/* The record of a ring_peek lies in the ring, all `bytes` of it. Always so if nobody else can write to its memory. */
static inline bool ring_holds(const struct ring *ring, const void *record, uint32_t bytes)
{
    return bytes <= ring->size - (uint64_t)((const unsigned char *)record - ring->data);
}

/* The largest record that is sure to fit into the empty ring: half of it, for the other half may have to be padded. */
static inline uint32_t ring_largest(const struct ring *ring)
{
    return (uint32_t)(ring->size / 2);
}

/*
 * Any thread. `bytes` of room (1 to ring_largest), aligned to RING_UNIT, with undefined content; NULL if the ring is
 * too full now or `bytes` is out of range. `token` may be NULL and is set on success only. Each reservation must be
 * committed or cancelled, by any thread, or the ring stops for ever.
 */
void *ring_reserve(struct ring *ring, uint32_t bytes, uint64_t *token);

/* Publishes a record: what was written before is seen by the consumer that gets it. */
void ring_commit(struct ring *ring, void *record);

/* Gives a reservation back: the consumer skips it. Its token counts as consumed like any other. */
void ring_cancel(struct ring *ring, void *record);

/* Consumer. The oldest record, or NULL if there is none or it is not committed. The same until ring_pop. */
const void *ring_peek(struct ring *ring, uint32_t *bytes);

/*
 * Consumer. The record that starts at *position, without giving it up, and *position moves behind it. NULL: nothing to
 * be had there; then *position has moved (padding) or not (not committed).
 */
const void *ring_look(const struct ring *ring, uint64_t *position, uint32_t *bytes);

/*
 * Consumer. Asks the memory for what the next ring_peek will read, and the `bytes` behind it: for one who has several
 * rings to look at, whose records other cores have written.
 */
static inline void ring_prefetch(const struct ring *ring, uint32_t bytes)
{
    uint64_t offset = atomic_load_explicit(&ring->ends->consumed, memory_order_relaxed) & (ring->size - 1);

    __builtin_prefetch(&ring->words[offset / RING_UNIT], 1);
    for (uint32_t at = 0; at < bytes && offset + at < ring->size; at += CACHE_LINE)
        __builtin_prefetch(ring->data + offset + at);
}

/* Consumer. Gives up the record of the last ring_peek, which must not have been NULL. */
void ring_pop(struct ring *ring);

/*
 * Any thread. Position up to which records were consumed. Acquire: pairs with the release in ring_pop, so that all that
 * the consumer did before it popped a record is seen by who finds the record's token consumed.
 */
static inline uint64_t ring_consumed(const struct ring *ring)
{
    return atomic_load_explicit(&ring->ends->consumed, memory_order_acquire);
}

/*
 * Any thread. Position up to which room was reserved: the token of the newest record, committed or not. Relaxed:
 * records of this thread, and of threads that it synchronised with, are included because one atomic never goes back.
 */
static inline uint64_t ring_reserved(const struct ring *ring)
{
    return atomic_load_explicit(&ring->ends->reserved, memory_order_relaxed);
}

/*
 * Any thread. True if at some moment during the call no record was reserved that had not been consumed. `consumed` is
 * read first: it never passes `reserved`, so if the later read of `reserved` gives the same, both were equal at that
 * moment. The other order could compare values of different moments. Before sleeping on a true answer see wait_word.
 */
static inline bool ring_empty(const struct ring *ring)
{
    uint64_t consumed = ring_consumed(ring);

    return atomic_load_explicit(&ring->ends->reserved, memory_order_acquire) == consumed;
}

#endif
