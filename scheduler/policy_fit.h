/* SPDX-License-Identifier: Apache-2.0
 *
 * The state and the questions of policy "fit", for policies that build on it. policy_fit.c says what they mean.
 */
#ifndef COISSUE_SCHEDULER_POLICY_FIT_H
#define COISSUE_SCHEDULER_POLICY_FIT_H

#include "scheduler/policy.h"

/* Virtual times are compared by their difference, so that wrapping does no harm. */
struct fit_lane {
    uint64_t vtime;
    uint64_t quantum; /* lead up to which the lane's head is eligible */
    uint32_t weight;
    uint32_t rest; /* of the last division by weight: small launches of heavy lanes must not count as nothing */
};

struct fit {
    uint64_t floor; /* virtual time of the least advanced active lane, as last computed */
    uint32_t floor_lane;
    bool loners;          /* look only at heads that cannot be coalesced */
    uint64_t deadline_ns; /* no head has a deadline before this one; refreshed when it comes near */
    struct fit_lane lane[SCHED_LANES_MAX];
};

void fit_lane_added(void *state, const struct sched_view *view, uint32_t lane);
void fit_lane_woke(void *state, const struct sched_view *view, uint32_t lane);
void fit_offered(void *state, const struct sched_view *view, uint32_t lane);
void fit_issued(void *state, const struct sched_view *view, uint32_t lane, const struct sched_launch *launch,
                sched_msm_t msm, uint64_t now_ns);

/* The lane with least slack, if it is short of it. -1: no lane is; `*wake_ns` is lowered to when one may be. */
int fit_urgent(struct fit *fit, const struct sched_view *view, uint64_t now_ns, uint64_t *wake_ns);

/* The lane of the oldest head that is eligible, fits, and for which the window is open; -1: none. */
int fit_oldest(struct fit *fit, const struct sched_view *view);

/* What keeps the oldest head waiting, when none of the two gives a lane. */
enum sched_reason fit_hold_reason(const struct sched_view *view);

#endif
