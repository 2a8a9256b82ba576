/* SPDX-License-Identifier: Apache-2.0
 *
 * "fifo": strictly by submission time, beside whatever is in flight. The device's own block scheduler decides who runs.
 * Weights, targets and SM demand play no part; only the window holds. A baseline to compare other policies with.
 */
#include "scheduler/policy.h"

static int fifo_pick(void *state, const struct sched_view *view, uint64_t now_ns, struct sched_decision *decision,
                     uint64_t *wake_ns)
{
    uint32_t lane = view->head[0].lane;

    if (sched_view_window_open(view, lane))
        return sched_pick_one(view, lane, SCHED_REASON_NEXT, decision);
    decision->reason = SCHED_REASON_WINDOW;
    return 0;
}

const struct sched_policy_ops sched_policy_fifo = {
    .name = "fifo",
    .help = "by submission time, beside whatever is in flight",
    .pick = fifo_pick,
};
