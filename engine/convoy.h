/* SPDX-License-Identifier: Apache-2.0
 *
 * Convoys: streams of ours in which lanes go together while their launches are coalesced.
 *
 * A pack is one launch, so it is in one stream, and what its members did before must come before it. Doing that by
 * events for each launch would cost more than the launch. So a lane that takes part in a pack joins the convoy's stream
 * once, and stays: what it issues next goes there too, coalesced or not, in the order of that one stream. It goes home
 * when a call of the program needs what it did (lane_flush), or when it has long not been coalesced.
 *
 * The streams are non-blocking ones of the context, made when they are first needed. They are used by the device's
 * thread alone, except that a thread that takes a lane home records an event there.
 *
 * Completion. Markers are events, not words that the device writes: a pack is short, and behind each the word would
 * cost the stream 2.1 us, an event nothing that could be measured (bench/h200/micro.py), at the price of a query of
 * 0.25 us now and then. A marker covers what all lanes of the convoy issued there before. Notes say what that was: one
 * for each launch of each lane, in a ring; a marker names the position up to which it covers. If notes are overwritten
 * before their marker is seen, a later note of the same lane tells more than they did.
 */
#ifndef COISSUE_ENGINE_CONVOY_H
#define COISSUE_ENGINE_CONVOY_H

#include "engine/lane.h"

enum { CONVOY_NOTES = 8192 };

struct convoy_note {
    uint32_t lane, life; /* index in the device, and which of the slot's lives */
    uint64_t seq;
};

struct convoy {
    CUstream stream; /* NULL: not made yet */
    struct context *context;
    uint32_t generation;              /* of the context */
    uint32_t marks, seen;             /* markers: placed, and known to be reached */
    CUevent events[LANE_MARKS];       /* by marker */
    uint64_t mark_covers[LANE_MARKS]; /* position in the notes */
    uint64_t noted, told, marked;     /* positions: put down, told to the scheduler, covered by a marker */
    struct convoy_note *notes;        /* CONVOY_NOTES of them */
};

/* All need the device's thread, and the context current where they call the driver. */

/* A convoy of the context: number `index` below CONVOYS. NULL: it cannot be made. */
struct convoy *convoy_get(struct context *context, uint32_t index);

/* The lane leaves home, or another convoy. Needs its issue lock. False: it stays where it is. */
bool convoy_join(struct convoy *convoy, struct lane *lane);

/* The lane issued up to `seq` there. */
void convoy_note(struct convoy *convoy, const struct lane *lane, uint64_t seq);

/* A marker is on its way: something will be heard. */
static inline bool convoy_will_tell(const struct convoy *convoy)
{
    return convoy->marks != convoy->seen;
}

/* Puts a marker behind everything, if something is not covered yet. Nothing may be capturing. */
void convoy_mark(struct convoy *convoy);

/* What its last marker says, lane by lane. */
typedef void (*convoy_tell_fn)(struct lane *lane, uint64_t seq, uint64_t now_ns);
void convoy_hear(struct convoy *convoy, convoy_tell_fn tell, uint64_t now_ns);

#endif
