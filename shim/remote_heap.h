/* SPDX-License-Identifier: Apache-2.0
 *
 * Which addresses of a range are free. Only numbers: nothing is mapped here, and nothing at the addresses is touched.
 *
 * First fit over a sorted array of free ranges, neighbours joined. Giving back never needs memory, so it cannot fail:
 * there is at most one free range more than there are taken ones, and taking makes room for it. Not safe for threads.
 */
#ifndef COISSUE_SHIM_REMOTE_HEAP_H
#define COISSUE_SHIM_REMOTE_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct remote_range {
    uint64_t base, bytes;
};

struct remote_heap {
    struct remote_range *free; /* by base; none is empty, no two touch */
    size_t count, room;
    size_t taken; /* ranges that are out */
};

/* All of [base, base + bytes) is free. -ENOMEM; -EINVAL: empty, or it wraps. */
int remote_heap_init(struct remote_heap *heap, uint64_t base, uint64_t bytes);
void remote_heap_end(struct remote_heap *heap); /* zeroed is fine */

/* `align` is a power of two, `bytes` not 0. -ENOSPC: nowhere; -ENOMEM. */
int remote_heap_take(struct remote_heap *heap, uint64_t bytes, uint64_t align, uint64_t *base);

/* What was taken, with the size that was asked for. */
void remote_heap_give(struct remote_heap *heap, uint64_t base, uint64_t bytes);

#endif
