/* SPDX-License-Identifier: Apache-2.0
 *
 * A device's part of the engine: its scheduler, its lanes, and the thread that drives both. Internal to engine/.
 */
#ifndef COISSUE_ENGINE_DEVICE_H
#define COISSUE_ENGINE_DEVICE_H

#include "engine/lane.h"

enum { DEVICE_LANE_WORDS = SCHED_LANES_MAX / 64, DEVICE_TOUCH_WORDS = 16 };
_Static_assert(SCHED_LANES_MAX / DEVICE_TOUCH_WORDS <= 32, "a word has a bit for each of its lanes");

struct device {
    struct engine *engine;
    CUdevice ordinal;
    uint32_t sm_count;
    unsigned capability; /* 90: compute capability 9.0 */
    struct thread thread;
    struct lane *lanes;        /* SCHED_LANES_MAX of them */
    _Atomic uint32_t lane_top; /* lanes at or above were never used */

    _Atomic uint64_t packed_ns;      /* when several launches were last found that could go together; 0: never */
    _Atomic uint64_t issues;         /* launches and packs that the device's thread issued */
    _Atomic uint32_t contexts_ended; /* how many; so that the thread does not trust a handle that was recycled */

    /*
     * A bit for each lane about which there is something to hear. Set by anybody, taken by the thread. Neighbouring
     * lanes are in different words, and each word has a cache line of its own: threads that launch into a few streams
     * do not take each other's.
     */
    struct {
        _Alignas(CACHE_LINE) _Atomic uint32_t lanes;
    } touched[DEVICE_TOUCH_WORDS];
    _Atomic uint32_t awaited; /* threads that look at what this thread finds out: it must not sleep */

    /* 1 while the thread sleeps or is about to. Mostly read: a committing thread looks at it once. */
    _Alignas(CACHE_LINE) _Atomic uint32_t asleep;

    /* The device's thread only. */
    _Alignas(CACHE_LINE) struct sched *sched;
    CUcontext current;
    bool feed_waits; /* what the feed said in its last round */
    uint32_t contexts_seen;
    uint32_t told_held, told_flight; /* counters in the trace */
    uint64_t told_load_ns;
    uint64_t again[DEVICE_LANE_WORDS];    /* lanes to look at in the next round in any case */
    uint64_t unmarked[DEVICE_LANE_WORDS]; /* lanes with something at home that no marker covers */
    unsigned char *area;                  /* parameters of the pack that is being issued: COALESCE_AREA_MAX bytes */
    uint64_t packs;                       /* issued; names them in traces */
    struct context *with_convoys[ENGINE_CONTEXTS_MAX];
    uint32_t convoy_contexts;
};

static inline void set_bit(uint64_t *words, uint32_t number)
{
    words[number / 64] |= UINT64_C(1) << number % 64;
}

static inline void lane_bit_set(uint64_t *words, const struct lane *lane)
{
    set_bit(words, lane->index);
}

static inline void lane_bit_clear(uint64_t *words, const struct lane *lane)
{
    words[lane->index / 64] &= ~(UINT64_C(1) << lane->index % 64);
}

/* Makes a context current for the device's thread. False: it is not to be had. */
bool device_enter(struct device *device, CUcontext context);

/* Lanes below `top` exist. Needs engine->tables. */
void device_grow(struct device *device, uint32_t top);

#endif
