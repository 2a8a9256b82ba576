/* SPDX-License-Identifier: Apache-2.0
 *
 * "alone": launches of one lane at a time are in flight, by submission time. A lane whose head is younger than that of
 * a waiting lane does not go on behind itself, so lanes take turns. This is time-slicing at the grain of launches: the
 * second baseline, and the policy to try when kernels that run beside each other are suspected of disturbing each
 * other.
 */
#include "scheduler/policy.h"

static int alone_pick(void *state, const struct sched_view *view, uint64_t now_ns, struct sched_decision *decision,
                      uint64_t *wake_ns)
{
    uint32_t lane = view->head[0].lane;

    decision->reason = SCHED_REASON_TURN;
    if (sched_view_others(view, lane) > 0)
        return 0;
    decision->reason = SCHED_REASON_WINDOW;
    if (!sched_view_window_open(view, lane))
        return 0;
    return sched_pick_one(view, lane, SCHED_REASON_IDLE, decision);
}

const struct sched_policy_ops sched_policy_alone = {
    .name = "alone",
    .help = "launches of one lane at a time, by submission time",
    .pick = alone_pick,
};
