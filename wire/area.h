/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory that one client and the broker share. The broker makes it, seals its size, and sends the descriptor.
 *
 * Layout: struct wire_area (a header, the lanes' words, the staging slots), then for each lane WIRE_RING_BYTES of data
 * and the ring's words. The first part, up to wire_area_words(), is small enough to be registered with a CUDA context:
 * devices on both sides read and write it.
 *
 * Counts. A lane's records that are work (launches, copies, memsets; not waits) are counted from 1, in the order of its
 * ring, modulo 2^32 where a device compares them. `taken`, `completed` and `done` are such counts.
 */
#ifndef COISSUE_WIRE_AREA_H
#define COISSUE_WIRE_AREA_H

#include "base/base.h"
#include "base/ring.h"
#include "wire/wire.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WIRE_RING_BYTES = 256 * 1024, /* at least four launches of the largest size, a thousand of usual ones */
    WIRE_SLOTS = 4,               /* copies to pageable memory that may be under way at a time */
    WIRE_SLOT_BYTES = 512 * 1024, /* larger ones go in pieces */
};

enum {
    WIRE_BEAT_NS = 20000000,    /* between two signs of life of a broker that runs, however long its driver takes */
    WIRE_SILENT_NS = 100000000, /* without one it hangs: nothing more is sent */
    WIRE_OWED_NS = 300000000,   /* and what it has begun is given up */
};

enum wire_state {
    WIRE_RUNS,  /* the broker takes records */
    WIRE_LEAVE, /* it is about to stop: send nothing more; what was sent will be complete */
    WIRE_GONE,  /* it takes nothing any more */
};

struct wire_lane {
    struct ring_ends ends; /* of its ring */

    /* The client writes these. */
    _Alignas(CACHE_LINE) _Atomic uint32_t wanted; /* a count that somebody waits for: the broker makes haste to know */
    _Atomic uint32_t sleepers; /* threads that sleep on `done`, a millisecond at most: woken when it reaches `wanted` */
    /* Written by the client's device behind work in its own stream; WIRE_WAIT_HOME waits for it. Starts at 0. */
    _Alignas(CACHE_LINE) _Atomic uint32_t home;

    /* The broker writes these. */
    _Alignas(CACHE_LINE) _Atomic uint64_t taken; /* records taken from the ring, whatever became of them */
    _Atomic uint64_t completed;                  /* release, after `error` */
    _Atomic uint32_t done;                       /* the low half of `completed`; sleepers and devices wait for it */
    _Atomic uint32_t error;                      /* CUresult of the first record that failed; 0: none */
};

struct wire_area {
    uint64_t magic;
    uint32_t version, lanes;
    uint64_t bytes;

    /* The broker writes these. */
    _Alignas(CACHE_LINE) _Atomic uint32_t state; /* enum wire_state */
    _Atomic uint32_t asleep;       /* 1: who commits a record sets it to 0 and, if it was 1, writes to the doorbell */
    _Atomic uint64_t heartbeat_ns; /* CLOCK_MONOTONIC of the last sign of life, at most WIRE_BEAT_NS old */

    /*
     * The client takes back what the broker has not taken, because it does not answer. The broker raises `taken`, then
     * looks here, and drops the record if this is set; the client sets this, then reads `taken`. Both seq_cst: so a
     * record is run by one of them or, if it was taken, perhaps by the broker, but never by both.
     */
    _Alignas(CACHE_LINE) _Atomic uint32_t abandoned;

    /* A bit for each lane with something new. Set by the client after a commit, taken by the broker. */
    _Alignas(CACHE_LINE) _Atomic uint32_t touched;

    struct wire_lane lane[WIRE_LANES];
    _Alignas(4096) unsigned char slot[WIRE_SLOTS][WIRE_SLOT_BYTES];
};

static inline size_t wire_area_words(void)
{
    return (sizeof(struct wire_area) + 4095) / 4096 * 4096;
}

/* The broker: a new area, all zero but its header, and its descriptor (close-on-exec). Unmap and close. -errno. */
int wire_area_create(struct wire_area **area, int *fd);

/*
 * The client: maps what it was sent, after checking size, seal, magic and version. Does not take the descriptor.
 * -EPROTO: it is not such an area.
 */
int wire_area_map(int fd, struct wire_area **area);
void wire_area_unmap(struct wire_area *area); /* NULL is fine */

/* This side's view of a lane's ring. */
void wire_ring(struct wire_area *area, uint32_t lane, struct ring *ring);

/*
 * The client, after having committed a record or raised `wanted`: tells the broker. Makes a system call only if the
 * broker sleeps.
 */
void wire_touch(struct wire_area *area, uint32_t lane, int doorbell);

/* Who sleeps at the doorbell wakes, now or when he comes there next. Keeps errno. */
void wire_knock(int doorbell);

#endif
