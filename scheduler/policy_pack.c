/* SPDX-License-Identifier: Apache-2.0
 *
 * "pack", the default: launches of several lanes that can be coalesced are held until there are several of them.
 *
 * A launch of a few microseconds leaves most of the device idle, and launches beside each other gain little: what is
 * short is not room but launches. So while `packs` issues are in flight, heads that can be coalesced wait, and more of
 * their kind come. When one completes, one of them goes, and with it every head with the same pack number. The busier
 * the device, the longer they wait and the wider the packs become; with little to do nothing waits.
 *
 * The least advanced goes first: the lane that has issued the fewest launches since it last had nothing to do. So lanes
 * that run the same sequence of kernels meet: those that are behind are served until they have caught up, and from then
 * on all go together. Of equally advanced ones the oldest. Age alone does not do that: a program submits a whole
 * sequence at once, so each launch of the lane that began first is older than those of all others, and lanes would be
 * served one after the other.
 *
 * A lane that has much in flight already, from a time when it was alone, waits until that has drained: it is served
 * best of all, and a pack with it would start when its last launch has ended.
 *
 * A pack that ends just behind a whole wave of blocks leaves the device nearly idle for the time of a block. Then it is
 * cut back to whole waves, if its lanes launch the same kernel again and again: then the others go with the next one.
 * In a sequence of kernels they would only stay behind, and need a wave of their own.
 *
 * Heads that cannot be coalesced go as in "fit".
 */
#include "scheduler/policy_fit.h"

enum {
    PACK_FLIGHTS = 64,
    PACK_BACKLOG = 8,       /* launches in flight beyond which a lane waits; several packs' worth */
    PACK_WAVES = 128,       /* a pack of more waves delays who comes next, by tens of microseconds a hundred waves */
    PACK_TAIL_PERCENT = 25, /* a last wave that is filled less than this is not worth its time */
};

struct pack_flight {
    uint64_t seq;
    uint32_t lane;
};

struct pack {
    struct fit fit; /* first: its functions are called with our state */
    uint32_t flights;
    uint32_t last[SCHED_LANES_MAX];          /* pack number of each lane's last launch */
    uint32_t progress[SCHED_LANES_MAX];      /* launches since the lane was last idle */
    struct pack_flight flight[PACK_FLIGHTS]; /* one member of each issue that is not known complete */
};

static void forget_landed(struct pack *pack, const struct sched_view *view)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < pack->flights; i++) {
        const struct sched_lane *lane = &view->lane[pack->flight[i].lane];

        if (lane->present && lane->completed < pack->flight[i].seq)
            pack->flight[kept++] = pack->flight[i];
    }
    pack->flights = kept;
}

static bool may_start(const struct sched_view *view, const struct sched_head *head)
{
    return head->pack && view->lane[head->lane].inflight <= PACK_BACKLOG;
}

/* The head that can be coalesced of the least advanced lane. -1: none. */
static int least_advanced(const struct pack *pack, const struct sched_view *view)
{
    uint64_t submit_ns = SCHED_NEVER;
    uint32_t progress = UINT32_MAX;
    int best = -1;

    for (uint32_t i = 0; view->packable > 0 && i < view->heads; i++) {
        const struct sched_head *head = &view->head[i];
        uint32_t of_lane = pack->progress[head->lane];

        if (of_lane > progress || (of_lane == progress && head->submit_ns >= submit_ns) || !may_start(view, head))
            continue;
        submit_ns = head->submit_ns;
        progress = of_lane;
        best = (int)head->lane;
    }
    return best;
}

/* How many of `count` members fill whole waves, if the rest would not be worth a wave of its own. */
static uint32_t whole_waves(const struct sched_view *view, const struct sched_launch *launch, uint32_t count,
                            uint64_t blocks, bool repeats)
{
    uint64_t wave = view->device_msm / 1000 * (launch->blocks_per_sm ? launch->blocks_per_sm : 1);
    uint64_t waves = blocks / wave, tail = blocks % wave;

    if (waves > PACK_WAVES) {
        waves = PACK_WAVES;
    } else if (!repeats || waves == 0 || tail * 100 >= wave * PACK_TAIL_PERCENT || tail == 0) {
        return count;
    }
    count = (uint32_t)((uint64_t)count * waves * wave / blocks);
    return count ? count : 1;
}

/* Adds all that can go with the only member. */
static void pack_join(void *state, const struct sched_view *view, struct sched_decision *decision)
{
    struct pack *pack = state;
    uint32_t leader = decision->member[0].lane;
    const struct sched_launch *launch = &view->lane[leader].head;
    uint64_t blocks = launch->blocks;

    for (uint32_t i = 0; i < view->heads && decision->count < SCHED_PACK_MAX; i++) {
        uint32_t lane = view->head[i].lane;

        if (view->head[i].pack != launch->pack || lane == leader || !may_start(view, &view->head[i]))
            continue;
        decision->member[decision->count].lane = lane;
        decision->member[decision->count++].seq = view->lane[lane].head.seq;
        blocks += view->lane[lane].head.blocks;
    }
    decision->count = whole_waves(view, launch, decision->count, blocks, pack->last[leader] == launch->pack);
    if (pack->flights < PACK_FLIGHTS)
        pack->flight[pack->flights++] = (struct pack_flight){.lane = leader, .seq = launch->seq};
}

/* The head of `leader`, and all that can go with it. */
static int gather(struct pack *pack, const struct sched_view *view, uint32_t leader, enum sched_reason alone,
                  enum sched_reason together, struct sched_decision *decision)
{
    sched_pick_one(view, leader, alone, decision);
    if (view->lane[leader].head.pack)
        pack_join(pack, view, decision);
    if (decision->count > 1)
        decision->reason = together;
    return 1;
}

static void pack_issued(void *state, const struct sched_view *view, uint32_t lane, const struct sched_launch *launch,
                        sched_msm_t msm, uint64_t now_ns)
{
    struct pack *pack = state;

    pack->last[lane] = launch->pack;
    pack->progress[lane] += launch->kernel != 0;
    fit_issued(&pack->fit, view, lane, launch, msm, now_ns);
}

static void pack_lane_woke(void *state, const struct sched_view *view, uint32_t lane)
{
    struct pack *pack = state;

    pack->progress[lane] = 0;
    fit_lane_woke(&pack->fit, view, lane);
}

static int pack_pick(void *state, const struct sched_view *view, uint64_t now_ns, struct sched_decision *decision,
                     uint64_t *wake_ns)
{
    struct pack *pack = state;
    int lane = fit_urgent(&pack->fit, view, now_ns, wake_ns);
    int packable;

    forget_landed(pack, view);
    if (lane >= 0)
        return gather(pack, view, (uint32_t)lane, SCHED_REASON_SLACK, SCHED_REASON_PACK_SLACK, decision);
    packable = least_advanced(pack, view);
    if (packable >= 0 && pack->flights < view->packs)
        return gather(pack, view, (uint32_t)packable,
                      sched_view_fits(view, (uint32_t)packable) ? SCHED_REASON_FITS : SCHED_REASON_NEXT,
                      SCHED_REASON_PACK, decision);
    pack->fit.loners = view->packable > 0;
    lane = fit_oldest(&pack->fit, view);
    if (lane >= 0)
        return sched_pick_one(view, (uint32_t)lane, SCHED_REASON_FITS, decision);
    decision->reason = view->lane[view->head[0].lane].head.pack ? SCHED_REASON_GATHER : fit_hold_reason(view);
    return 0;
}

const struct sched_policy_ops sched_policy_pack = {
    .name = "pack",
    .help = "launches of the same kernel together, while the device is busy; the rest as in fit",
    .state_size = sizeof(struct pack),
    .pick = pack_pick,
    .join = pack_join,
    .lane_added = fit_lane_added,
    .lane_woke = pack_lane_woke,
    .offered = fit_offered,
    .issued = pack_issued,
};
