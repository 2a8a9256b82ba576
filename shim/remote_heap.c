/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/remote_heap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int make_room(struct remote_heap *heap, size_t count)
{
    size_t room = heap->room ? heap->room : 8;
    struct remote_range *more;

    while (room < count)
        room *= 2;
    if (room == heap->room)
        return 0;
    more = realloc(heap->free, room * sizeof(*more));
    if (!more)
        return -ENOMEM;
    heap->free = more;
    heap->room = room;
    return 0;
}

static void insert(struct remote_heap *heap, size_t at, struct remote_range range)
{
    memmove(&heap->free[at + 1], &heap->free[at], (heap->count - at) * sizeof(range));
    heap->free[at] = range;
    heap->count++;
}

static void erase(struct remote_heap *heap, size_t at)
{
    heap->count--;
    memmove(&heap->free[at], &heap->free[at + 1], (heap->count - at) * sizeof(*heap->free));
}

int remote_heap_init(struct remote_heap *heap, uint64_t base, uint64_t bytes)
{
    struct remote_heap fresh = {0};
    int error;

    if (!bytes || base + bytes < base)
        return -EINVAL;
    error = make_room(&fresh, 1);
    if (error)
        return error;
    insert(&fresh, 0, (struct remote_range){base, bytes});
    *heap = fresh;
    return 0;
}

void remote_heap_end(struct remote_heap *heap)
{
    free(heap->free);
    *heap = (struct remote_heap){0};
}

/* Takes [base, base + bytes) out of the free range at `at`, which holds it. */
static void cut(struct remote_heap *heap, size_t at, uint64_t base, uint64_t bytes)
{
    struct remote_range *range = &heap->free[at];
    uint64_t before = base - range->base, after = range->bytes - before - bytes;

    if (before && after) {
        range->bytes = before;
        insert(heap, at + 1, (struct remote_range){base + bytes, after});
    } else if (before) {
        range->bytes = before;
    } else if (after) {
        *range = (struct remote_range){base + bytes, after};
    } else {
        erase(heap, at);
    }
}

int remote_heap_take(struct remote_heap *heap, uint64_t bytes, uint64_t align, uint64_t *base)
{
    int error = make_room(heap, heap->taken + 2);

    if (error)
        return error;
    for (size_t i = 0; i < heap->count; i++) {
        const struct remote_range *range = &heap->free[i];
        uint64_t skip = -range->base & (align - 1);

        if (skip >= range->bytes || range->bytes - skip < bytes)
            continue;
        *base = range->base + skip;
        cut(heap, i, *base, bytes);
        heap->taken++;
        return 0;
    }
    return -ENOSPC;
}

void remote_heap_give(struct remote_heap *heap, uint64_t base, uint64_t bytes)
{
    size_t low = 0, high = heap->count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (heap->free[middle].base < base)
            low = middle + 1;
        else
            high = middle;
    }
    heap->taken--;
    if (low < heap->count && base + bytes == heap->free[low].base) {
        heap->free[low].base = base;
        heap->free[low].bytes += bytes;
    } else {
        insert(heap, low, (struct remote_range){base, bytes});
    }
    if (low && heap->free[low - 1].base + heap->free[low - 1].bytes == base) {
        heap->free[low - 1].bytes += heap->free[low].bytes;
        erase(heap, low);
    }
}
