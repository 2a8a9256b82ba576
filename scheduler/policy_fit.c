/* SPDX-License-Identifier: Apache-2.0
 *
 * "fit": beside each other goes what the SMs have room for.
 *
 * Three rules, in this order.
 *
 *  1. A lane with a latency target whose slack (deadline - now) is below FIT_SLACK_CAPS hold caps goes first, least
 *     slack first, whatever is in flight and however full the window is. A head may be held for one cap and its
 *     successors for as long again, so slack has to be short well before it is gone.
 *  2. Lanes that compete advance a virtual time by SM demand / weight with each launch. A head is eligible while its
 *     lane leads the least advanced head by at most FIT_QUANTUM launches that fill the device. That makes the weights
 *     hold in the long run, without a switch of lanes (and so a drained device) after each launch.
 *  3. Of the eligible heads that fit beside what is in flight and for which the window is open, the oldest goes.
 *
 * The least advanced head is always eligible. If it does not fit, the others pass it by for as long as they are
 * eligible too, then the device drains and it goes: so a lane with large grids is not starved by lanes with small ones.
 *
 * How long kernels run is not known here, so a launch counts by its demand alone. Virtual time of lanes that are not
 * active stands still: on its return a lane starts at the least advanced active lane, or where it was if that is later,
 * but no more than FIT_DEBT_QUANTA later. Keeping the debt is what makes weights count for programs that synchronise
 * after every request; bounding it forgives those whose launches went out by flushes or hold caps that nobody chose.
 */
#include "scheduler/policy_fit.h"

enum {
    FIT_SLACK_CAPS = 4, /* see rule 1 */
    FIT_QUANTUM = 4,    /* enough launches to hide a drain of a few microseconds behind kernels of a few microseconds */
    FIT_DEBT_QUANTA = 4, /* twice the lead that two lanes can build against each other by rule 2 */
    FIT_SCALE = 64,      /* virtual time per thousandth of an SM at weight 1; 2^40 launches on 132 SMs until it wraps */
};

static bool before(uint64_t a, uint64_t b)
{
    return (int64_t)(a - b) < 0;
}

/*
 * Virtual times only grow, and a lane that wakes starts at the floor or later. So the floor never falls, one that was
 * computed some time ago is a lower bound, and it is still the floor if an active lane stands at it. With no lane
 * active it stays where it was.
 */
static void fit_update_floor(struct fit *fit, const struct sched_view *view)
{
    if (view->lane[fit->floor_lane].active && fit->lane[fit->floor_lane].vtime == fit->floor)
        return;
    for (uint32_t i = 0; i < view->actives; i++) {
        uint32_t lane = view->active[i];
        if (i > 0 && !before(fit->lane[lane].vtime, fit->floor))
            continue;
        fit->floor = fit->lane[lane].vtime;
        fit->floor_lane = lane;
    }
}

void fit_lane_added(void *state, const struct sched_view *view, uint32_t lane)
{
    struct fit *fit = state;
    uint32_t weight = view->lane[lane].attr.weight;

    fit->lane[lane] = (struct fit_lane){
        .vtime = fit->floor,
        .quantum = FIT_QUANTUM * FIT_SCALE * view->device_msm / weight,
        .weight = weight,
    };
}

void fit_lane_woke(void *state, const struct sched_view *view, uint32_t lane)
{
    struct fit *fit = state;
    struct fit_lane *own = &fit->lane[lane];
    uint64_t debt_max = FIT_DEBT_QUANTA * own->quantum;

    fit_update_floor(fit, view);
    if (before(own->vtime, fit->floor))
        own->vtime = fit->floor;
    else if (own->vtime - fit->floor > debt_max)
        own->vtime = fit->floor + debt_max;
}

void fit_offered(void *state, const struct sched_view *view, uint32_t lane)
{
    struct fit *fit = state;

    if (view->lane[lane].deadline_ns < fit->deadline_ns)
        fit->deadline_ns = view->lane[lane].deadline_ns;
}

void fit_issued(void *state, const struct sched_view *view, uint32_t lane, const struct sched_launch *launch,
                sched_msm_t msm, uint64_t now_ns)
{
    struct fit *fit = state;
    struct fit_lane *own = &fit->lane[lane];
    uint64_t cost = (uint64_t)msm * FIT_SCALE + own->rest;

    own->vtime += cost / own->weight;
    own->rest = (uint32_t)(cost % own->weight);
    if (view->actives <= 1 && before(fit->floor, own->vtime))
        fit->floor = own->vtime;
}

/* From when on is a lane with this deadline short of slack? */
static uint64_t fit_urgent_ns(const struct sched_view *view, uint64_t deadline_ns)
{
    uint64_t margin =
        view->hold_cap_ns > SCHED_NEVER / FIT_SLACK_CAPS ? SCHED_NEVER : FIT_SLACK_CAPS * view->hold_cap_ns;

    if (deadline_ns == SCHED_NEVER)
        return SCHED_NEVER;
    return deadline_ns < margin ? 0 : sched_add_ns(deadline_ns - margin, 1);
}

/* Rule 1: the lane with least slack, if it is short. -1: no lane is; `*wake_ns` is lowered to when one may be. */
int fit_urgent(struct fit *fit, const struct sched_view *view, uint64_t now_ns, uint64_t *wake_ns)
{
    int lane = -1;

    if (now_ns >= fit_urgent_ns(view, fit->deadline_ns)) {
        fit->deadline_ns = SCHED_NEVER;
        for (uint32_t i = 0; i < view->heads; i++) {
            if (view->head[i].deadline_ns >= fit->deadline_ns)
                continue;
            fit->deadline_ns = view->head[i].deadline_ns;
            lane = (int)view->head[i].lane;
        }
    }

    uint64_t urgent_ns = fit_urgent_ns(view, fit->deadline_ns);

    if (now_ns >= urgent_ns)
        return lane;
    if (urgent_ns < *wake_ns)
        *wake_ns = urgent_ns;
    return -1;
}

/* The least virtual time of all heads. Active lanes without a head do not count: nobody waits for them. */
static uint64_t fit_heads_floor(struct fit *fit, const struct sched_view *view)
{
    uint64_t floor = fit->lane[view->head[0].lane].vtime;

    fit_update_floor(fit, view);
    if (view->lane[fit->floor_lane].offered)
        return fit->floor;
    for (uint32_t i = 1; i < view->heads; i++) {
        uint64_t vtime = fit->lane[view->head[i].lane].vtime;
        floor = before(vtime, floor) ? vtime : floor;
    }
    return floor;
}

static bool fit_eligible(const struct fit *fit, uint32_t lane, uint64_t floor)
{
    return fit->lane[lane].vtime - floor <= fit->lane[lane].quantum;
}

/* The best head so far. */
struct best {
    uint64_t submit_ns;
    int lane; /* -1: none */
};

static void consider(const struct fit *fit, const struct sched_view *view, uint32_t lane, uint64_t floor,
                     struct best *best)
{
    uint64_t submit_ns = view->lane[lane].head.submit_ns;

    if (fit->loners && view->lane[lane].head.pack)
        return;
    if (best->lane >= 0 && (submit_ns > best->submit_ns || (submit_ns == best->submit_ns && (int)lane > best->lane)))
        return;
    if (fit_eligible(fit, lane, floor))
        *best = (struct best){.submit_ns = submit_ns, .lane = (int)lane};
}

/*
 * Rules 2 and 3: the lane of the oldest head that is eligible, fits, and for which the window is open. -1: none. Lanes
 * that have something in flight are few. For the others the questions of room and window have one answer, so that most
 * heads are dismissed by a look at their demand.
 */
int fit_oldest(struct fit *fit, const struct sched_view *view)
{
    bool own_open = view->inflight < view->window, first_open = view->lanes_inflight < view->window;
    uint64_t room = view->device_msm > view->load_msm ? view->device_msm - view->load_msm : 0;
    struct best best = {.lane = -1};
    uint64_t floor;

    if (!own_open && !first_open)
        return -1;
    floor = fit_heads_floor(fit, view);
    for (uint32_t i = 0; own_open && i < view->lanes_inflight; i++) {
        uint32_t lane = view->flying[i];
        if (view->lane[lane].offered && sched_view_fits(view, lane))
            consider(fit, view, lane, floor, &best);
    }
    for (uint32_t i = 0; first_open && room > 0 && i < view->heads; i++) {
        const struct sched_head *head = &view->head[i];
        if (head->msm > room || view->lane[head->lane].inflight > 0)
            continue;
        consider(fit, view, head->lane, floor, &best);
        if (i == 0 && best.lane == (int)head->lane)
            break; /* head[0] is the oldest of all */
    }
    return best.lane;
}

enum sched_reason fit_hold_reason(const struct sched_view *view)
{
    if (!sched_view_window_open(view, view->head[0].lane))
        return SCHED_REASON_WINDOW;
    return sched_view_fits(view, view->head[0].lane) ? SCHED_REASON_TURN : SCHED_REASON_NO_FIT;
}

static int fit_pick(void *state, const struct sched_view *view, uint64_t now_ns, struct sched_decision *decision,
                    uint64_t *wake_ns)
{
    int lane = fit_urgent(state, view, now_ns, wake_ns);

    if (lane >= 0)
        return sched_pick_one(view, (uint32_t)lane, SCHED_REASON_SLACK, decision);
    lane = fit_oldest(state, view);
    if (lane >= 0)
        return sched_pick_one(view, (uint32_t)lane, SCHED_REASON_FITS, decision);

    decision->reason = fit_hold_reason(view);
    return 0;
}

const struct sched_policy_ops sched_policy_fit = {
    .name = "fit",
    .help = "beside each other what the SMs have room for; least slack first, then shares by weight, then by age",
    .state_size = sizeof(struct fit),
    .pick = fit_pick,
    .lane_added = fit_lane_added,
    .lane_woke = fit_lane_woke,
    .offered = fit_offered,
    .issued = fit_issued,
};
