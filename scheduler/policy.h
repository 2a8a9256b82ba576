/* SPDX-License-Identifier: Apache-2.0
 *
 * What a scheduling policy sees and answers. Internal to scheduler/; the engine uses scheduler.h only.
 *
 * scheduler.c keeps the state and the invariants. A policy is asked only when there is a choice: at least two lanes are
 * active, and no head is past its hold cap (or one is, and a lane short of slack may go first). It reads the view,
 * never changes it, and answers with one head, a pack of heads, or "hold". The answer is checked: heads that are not
 * offered are refused, and holding on an idle device is overruled. So a policy can be slow or unfair, but it can
 * neither reorder a lane, nor hold beyond the cap, nor leave the device idle.
 *
 * A policy has no clock, no I/O and no allocation: its state is `state_size` zeroed bytes that live as long as the
 * scheduler. The answer depends on the arguments and that state only. All calls come from the thread of the scheduler.
 */
#ifndef COISSUE_SCHEDULER_POLICY_H
#define COISSUE_SCHEDULER_POLICY_H

#include "scheduler/scheduler.h"

#include <stddef.h>

#define SCHED_NEVER UINT64_MAX /* a time that does not come */

/* One lane, as a policy sees it. The first cache line is what a choice among heads reads. */
struct sched_lane {
    struct sched_launch head; /* valid while `offered` */
    sched_msm_t head_msm;     /* its SM demand */
    sched_msm_t flight_msm;   /* SM demand of the lane's launches in flight: their maximum, see scheduler.c */
    uint64_t deadline_ns;     /* burst start + SLO; SCHED_NEVER for best effort */
    uint64_t inflight;        /* launches issued and not known complete */

    struct sched_lane_attr attr;
    uint64_t issued;    /* highest token issued */
    uint64_t completed; /* highest token complete */
    uint64_t burst_ns;  /* submission of the first launch of the burst */
    bool present;
    bool offered;
    bool active; /* offers a head, or has something in flight, or a decision of it was not reported as issued yet */
};

/* A head that is offered. Repeats what a scan over all heads needs, so that it runs through one array. */
struct sched_head {
    uint64_t due_ns; /* when it has to go */
    uint64_t submit_ns;
    uint64_t deadline_ns; /* of its lane */
    uint32_t lane;
    sched_msm_t msm;
    uint32_t pack; /* 0: it cannot be coalesced */
};

struct sched_view {
    const struct sched_lane *lane; /* by lane number */
    const struct sched_head *head; /* `heads` of them, a binary heap: head[0] is the one to go first by age */
    const uint16_t *active;        /* `actives` lane numbers, in no particular order */
    const uint16_t *flying;        /* `lanes_inflight` lane numbers, in no particular order */
    uint32_t heads;
    uint32_t packable; /* of the heads, those that can be coalesced */
    uint32_t actives;
    uint32_t lanes_inflight;
    uint32_t slo_lanes; /* lanes with a latency target */
    uint32_t window;
    uint32_t packs;      /* issues of launches that can be coalesced, in flight, at most */
    uint64_t inflight;   /* launches, over all lanes */
    uint64_t load_msm;   /* sum of flight_msm over all lanes */
    uint64_t device_msm; /* SMs of the device * 1000 */
    uint64_t hold_cap_ns;
};

struct sched_policy_ops {
    const char *name; /* what COISSUE_POLICY says; the name in SCHED_POLICIES */
    const char *help; /* one line for people */
    size_t state_size;

    /*
     * 1: issue these heads; `reason`, `count` and `member` are set (`kind` follows from them).
     * 0: hold; `reason` is of kind HOLD and says what keeps head[0] waiting. `*wake_ns` comes in as the nearest hold
     * cap and may be lowered to the time at which the answer changes by itself.
     */
    int (*pick)(void *state, const struct sched_view *view, uint64_t now_ns, struct sched_decision *decision,
                uint64_t *wake_ns);

    /*
     * A head goes because it is due or because nothing is in flight: which others go with it? `decision` has it as its
     * only member; the policy may add some. NULL: none ever do.
     */
    void (*join)(void *state, const struct sched_view *view, struct sched_decision *decision);

    /* The rest may be NULL. The view shows the state after the event, but `lane_woke` comes before the lane is listed
     * in `active`. */
    void (*lane_added)(void *state, const struct sched_view *view, uint32_t lane);
    void (*lane_woke)(void *state, const struct sched_view *view, uint32_t lane); /* it was not active and will be */
    void (*offered)(void *state, const struct sched_view *view, uint32_t lane);   /* it has a new head */
    void (*issued)(void *state, const struct sched_view *view, uint32_t lane, const struct sched_launch *launch,
                   sched_msm_t msm, uint64_t now_ns); /* once for each launch */
    void (*completed)(void *state, const struct sched_view *view, uint32_t lane, uint64_t seq, uint64_t now_ns);
};

/* The one table of policies; the first is the default. A new one: a row here and a const struct sched_policy_<name>. */
#define SCHED_POLICIES(POLICY)                                                                                         \
    POLICY(pack)                                                                                                       \
    POLICY(fit)                                                                                                        \
    POLICY(fifo)                                                                                                       \
    POLICY(alone)

#define POLICY(name) extern const struct sched_policy_ops sched_policy_##name;
SCHED_POLICIES(POLICY)
#undef POLICY

/* NULL: no policy has that name. A NULL or empty name asks for the default. */
const struct sched_policy_ops *sched_policy_find(const char *name);

/* As sched_create, with a policy that need not be in the table; `config->policy` is not read. For tests and tools. */
int sched_create_with(const struct sched_config *config, const struct sched_policy_ops *policy, struct sched **sched);

/* What a policy may look at. Owned by the scheduler, always up to date. */
const struct sched_view *sched_view(const struct sched *sched);

/* SM demand of a launch on a device of `sm_count` SMs. 0 for an op. */
sched_msm_t sched_demand(const struct sched_launch *launch, uint32_t sm_count);

/* Other lanes than this one that have something in flight. */
static inline uint32_t sched_view_others(const struct sched_view *view, uint32_t lane)
{
    return view->lanes_inflight - (view->lane[lane].inflight > 0);
}

/* Does the lane's head fit beside what is in flight? Behind its own lane it takes no more SMs than the larger of the
 * two, so with nothing of another lane in flight the answer is yes. */
static inline bool sched_view_fits(const struct sched_view *view, uint32_t lane)
{
    const struct sched_lane *l = &view->lane[lane];
    uint64_t own = l->head_msm > l->flight_msm ? l->head_msm : l->flight_msm;

    return view->load_msm - l->flight_msm + own <= view->device_msm;
}

/*
 * May the lane's head enter the in-flight window? A lane's first launch in flight is counted against lanes, a further
 * one against launches. So a lane that comes while another has hundreds in flight, from a time when it was the only
 * one, need not wait until they drain, and while lanes compete there are always fewer than 2 * window launches in
 * flight that came through the window.
 */
static inline bool sched_view_window_open(const struct sched_view *view, uint32_t lane)
{
    return view->lane[lane].inflight > 0 ? view->inflight < view->window : view->lanes_inflight < view->window;
}

/* Fills a decision with the head of one lane. */
static inline int sched_pick_one(const struct sched_view *view, uint32_t lane, enum sched_reason reason,
                                 struct sched_decision *decision)
{
    decision->reason = reason;
    decision->count = 1;
    decision->member[0].lane = lane;
    decision->member[0].seq = view->lane[lane].head.seq;
    return 1;
}

static inline uint64_t sched_add_ns(uint64_t a, uint64_t b)
{
    return a > SCHED_NEVER - b ? SCHED_NEVER : a + b;
}

static inline uint64_t sched_sub_ns(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

#endif
