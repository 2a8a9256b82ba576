/* SPDX-License-Identifier: Apache-2.0
 *
 * scheduler/: which launch goes next, and beside what.
 *
 * A scheduler knows the head launch of each lane that holds something, what is in flight on its device, and nothing
 * else: no CUDA, no threads, no clock (time is an argument, in nanoseconds of any monotonic clock), no I/O and, after
 * sched_create, no allocation. So the same code runs in the engine's thread, in unit tests, and over recorded traces.
 *
 * How the engine uses it, always from one thread:
 *
 *   sched_lane_add      a lane appeared                      sched_lane_remove   ... or went away
 *   sched_offer         a lane's head launch is this one
 *   sched_next          what shall be issued now?  -> a decision, or: hold, and ask again at `wake_ns`
 *   sched_issued        it was issued (by the decision, or by a thread that flushed its lane)
 *   sched_complete      all of the lane's launches up to this token have completed
 *
 * Invariants, whatever the policy says:
 *  1. A lane's launches are issued in its order: only heads are offered, only heads are chosen.
 *  2. No head is held beyond hold_cap_ns after its submission: sched_next returns it, with a reason that says so. When
 *     several heads are due, the calls of sched_next for one `now_ns` return them all before one returns 0. For a head
 *     that can be coalesced the cap counts from when nothing of its lane is in flight any more, if that is later: until
 *     then it queues behind its own lane, as it would in the plain driver. That ends after 16 caps.
 *  3. Work conserving: with nothing in flight and any head offered, sched_next returns a decision.
 *  4. A decision does not depend on how fast the host is, only on the arguments.
 *
 * Errors are negative errno. A lane number is an index below SCHED_LANES_MAX, chosen by the caller.
 */
#ifndef COISSUE_SCHEDULER_SCHEDULER_H
#define COISSUE_SCHEDULER_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SCHED_LANES_MAX = 256,  /* lanes of one device */
    SCHED_FLIGHT_MAX = 256, /* launches in flight per lane that are tracked one by one; older ones are merged */
    SCHED_PACK_MAX = 128,   /* members of one pack */
    SCHED_PACKS = 4,        /* one that runs, and enough behind it for the time that it takes to send another */
    SCHED_SM_MAX = 65536,   /* SMs of one device */
};

enum sched_reason {
#define REASON(name, kind, text) SCHED_REASON_##name,
#include "scheduler/reasons.def"
    SCHED_REASON_COUNT
};

enum sched_kind { SCHED_ALONE, SCHED_COSCHEDULE, SCHED_COALESCE, SCHED_HOLD, SCHED_HOME };

const char *sched_reason_name(enum sched_reason reason); /* "IDLE" */
const char *sched_reason_text(enum sched_reason reason); /* the sentence of reasons.def */
enum sched_kind sched_reason_kind(enum sched_reason reason);
const char *sched_kind_name(enum sched_kind kind); /* "alone", "coschedule", "coalesce", "hold", "home" */

/* SM demand is counted in thousandths of an SM: blocks * 1000 / blocks that fit on one SM, rounded up, and no more than
 * the device has: a grid of more than one wave asks for all of it. */
typedef uint32_t sched_msm_t;

struct sched_launch {
    uint64_t seq;           /* token: position in its lane, from 1, without gaps */
    uint64_t submit_ns;     /* when the program launched it */
    uint64_t kernel;        /* identity of the function; 0 for an op that is no kernel */
    uint64_t blocks;        /* of the whole grid */
    uint32_t pack;          /* launches with the same number may be coalesced; 0: it may not */
    uint16_t blocks_per_sm; /* occupancy at its block size and shared memory; 0: unknown, counts as 1 */
    bool glued;             /* must directly follow its predecessor in its stream (programmatic dependent launch) */
};

/* What a user asked for, from the environment of the process that owns the lane. */
struct sched_lane_attr {
    uint64_t slo_ns; /* 0: best effort */
    uint32_t weight; /* share among best-effort lanes, 1 or more */
};

struct sched_config {
    uint32_t sm_count;    /* of the device; 1 to SCHED_SM_MAX */
    uint32_t window;      /* packs in flight while lanes compete, see sched_view_window_open(); 1 or more */
    uint32_t packs;       /* the same for packs, and for launches that wait for one; 0: the default, SCHED_PACKS */
    uint64_t hold_cap_ns; /* 0: never hold */
    const char *policy;   /* name of a policy, see sched_policy_names(); NULL or empty: the default */
};

struct sched_decision {
    enum sched_kind kind;
    enum sched_reason reason;
    uint32_t count; /* members; 1 unless coalesced */
    struct {
        uint32_t lane;
        uint64_t seq;
    } member[SCHED_PACK_MAX];
};

struct sched;

/* -EINVAL: a value out of range or an unknown policy. -ENOMEM. */
int sched_create(const struct sched_config *config, struct sched **sched);
void sched_destroy(struct sched *sched); /* NULL is fine */

/* -EINVAL: no such lane number, or a weight of 0. -EEXIST. */
int sched_lane_add(struct sched *sched, uint32_t lane, const struct sched_lane_attr *attr);

/* Forgets what it offers and has in flight too. A lane that was not added is fine. */
void sched_lane_remove(struct sched *sched, uint32_t lane);

/*
 * The lane's head is now this launch (NULL: it holds none). Replaces what was offered before. The launch is copied.
 * -ENOENT: no such lane. -EINVAL: its seq is 0, or not above every one that was reported as issued or complete: it
 * would be out of order; what was offered before stays.
 */
int sched_offer(struct sched *sched, uint32_t lane, const struct sched_launch *head);

/*
 * Returns 1 and a decision, or 0 to hold. On 0, `*wake_ns` is the latest time at which to ask again even if nothing
 * changes (the nearest hold cap, or earlier if a deadline asks for it; UINT64_MAX if nothing is offered) and
 * `decision->reason` says what keeps the oldest head waiting. On 1, `*wake_ns` is left alone. The chosen heads are
 * withdrawn; nothing counts as in flight before sched_issued. A decision that cannot be carried out is taken back by
 * offering its launches again, or by sched_complete for their tokens.
 */
int sched_next(struct sched *sched, uint64_t now_ns, struct sched_decision *decision, uint64_t *wake_ns);

/*
 * `launch` was issued. Also for launches that a flushing thread issued without a decision, in any number, and in any
 * order; a repeated report is ignored, and so is one that comes more than 63 tokens late. Since a lane's launches are
 * issued in order, everything up to `launch->seq` counts as issued, and a head that is not above it is withdrawn.
 */
void sched_issued(struct sched *sched, uint32_t lane, const struct sched_launch *launch, uint64_t now_ns);

/* Everything of the lane up to and including `seq` has completed on the device. May come before its sched_issued. */
void sched_complete(struct sched *sched, uint32_t lane, uint64_t seq, uint64_t now_ns);

/* For counters in the trace. */
struct sched_load {
    uint32_t offered;  /* lanes with a head */
    uint32_t inflight; /* launches issued and not known complete */
    uint32_t lanes_inflight;
    uint64_t msm; /* SM demand in flight: the largest of each lane, summed over lanes; may exceed the device */
};
void sched_load(const struct sched *sched, struct sched_load *load);

/* Names of all policies, ended by NULL; the first is the default. */
const char *const *sched_policy_names(void);

#endif
