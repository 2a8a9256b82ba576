/* SPDX-License-Identifier: Apache-2.0
 *
 * scheduler/: the state of the lanes of one device, and the invariants that hold around every policy.
 *
 * What it does. Each lane offers at most one launch, its head. Heads live in a binary heap ordered by the time at which
 * they have to go, so "is one past its cap", "which is the oldest" and "when shall I be asked again" are all a look at
 * the top. sched_next goes through four questions and stops at the first that yields a launch:
 *
 *   1. Is only one lane active? Its head goes at once, however much the lane has in flight: it only pipelines behind
 *      itself, and nobody else is there to suffer or to be packed with. The window does not bind.
 *   2. Is a head due? It goes, oldest first. Every second time a lane that is short of slack may go before it, so that
 *      a backlog of old launches cannot shut out a latency target, nor the other way round.
 *   3. What does the policy choose? (policy.h) Its answer is checked.
 *   4. Is nothing in flight? The oldest head goes, whatever the policy said: the device must not idle.
 *
 * Heads that are never held are due from the start: ops (kernel == 0), which need no SM, and glued launches, which must
 * directly follow a predecessor that was issued, or else they would not be heads. Their time in the heap is submission
 * minus the hold cap. That puts them before all held launches of about their age, but a lane that submits nothing but
 * ops still cannot starve launches that are two caps older.
 *
 * SM demand. A grid asks for blocks / (blocks per SM) SMs; beyond one wave it asks for the whole device. Launches of
 * one lane run one after another, as they would in a stream, so what a lane has in flight asks for the *maximum* of its
 * launches, not for the sum. It is an upper bound: the big one may not have started yet, or small ones may be left. The
 * load of the device is the sum over lanes. Each lane keeps the launches that can still become its maximum: a list with
 * rising tokens and falling demand. A new launch pushes out the smaller ones before it, completion takes from the
 * front; both cost O(1) on average. It holds SCHED_FLIGHT_MAX entries; beyond that the two oldest are merged, with the
 * larger demand and the later token, so the load is never understated.
 *
 * In flight are all tokens between the highest complete and the highest issued one. Tokens have no gaps and are issued
 * in order, so that count needs no list, and a report that comes late or twice cannot spoil it.
 *
 * A burst starts with a launch whose predecessors are all complete when it is first seen. That is an approximation: a
 * host that is slower than the device starts a burst with each launch, which makes its deadline too generous.
 *
 * Between a decision and the report of its issue a lane neither offers a head nor has one in flight, but it stays
 * active: else it would seem to go idle and return with each launch, and lose what it is owed.
 *
 * Invariants: see scheduler.h. Here: view.head is a heap and slot.head_at its inverse; view.inflight and load_msm are
 * the sums over the lanes; view.flying lists exactly the lanes that have something in flight, view.active those and the
 * ones that offer something or are about to be issued. All of it is kept up to date by refresh(), which is called after
 * every change to a lane.
 *
 * What it may not do: allocate after sched_create, read a clock, call anything but memory functions of libc, print.
 */
#include "scheduler/scheduler.h"
#include "scheduler/policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BACKLOG_CAPS = 16 }; /* see due_time() */
enum { LATE_MAX = 63 };     /* tokens by which a report of an issue may be late: the bits of slot.recent, less one */

_Static_assert(SCHED_FLIGHT_MAX > LATE_MAX + 2, "a late report never lands among the two oldest marks of a full list");

/* A launch in flight that no later one of its lane outweighs. */
struct mark {
    uint64_t seq;
    sched_msm_t msm;
};

struct flight {
    uint32_t first, count;
    struct mark mark[SCHED_FLIGHT_MAX]; /* ring: rising seq, falling msm */
};

/* What a policy need not see of a lane. */
struct slot {
    uint64_t recent;    /* bit i: token issued - i was reported */
    uint64_t decided;   /* token that was decided and not reported as issued yet; 0: none */
    uint64_t freed_ns;  /* when it last became known that nothing of the lane is in flight */
    uint64_t seen;      /* highest token offered or issued */
    uint32_t head_at;   /* index in heap, if it offers */
    uint32_t active_at; /* index in active, if it is */
    uint32_t flying_at; /* index in flying, if it has something in flight */
};

/* An answer "hold" stays true until something changes or its time comes: the engine may poll at no cost. */
struct quiet {
    bool valid;
    enum sched_reason reason;
    uint64_t from_ns, until_ns;
};

_Static_assert(offsetof(struct sched_lane, attr) == 64, "what a policy scans is one cache line of each lane");

struct sched {
    struct sched_view view;
    const struct sched_policy_ops *policy;
    uint32_t sm_count;
    uint64_t now_ns; /* the last time that we were told */
    bool was_due;    /* the last launch went because it was due, see question 2 */
    struct quiet quiet;
    struct sched_head heap[SCHED_LANES_MAX];
    uint16_t active[SCHED_LANES_MAX];
    uint16_t flying[SCHED_LANES_MAX];
    struct slot slot[SCHED_LANES_MAX];
    _Alignas(64) struct sched_lane lane[SCHED_LANES_MAX];
    struct flight flight[SCHED_LANES_MAX];
    _Alignas(max_align_t) unsigned char state[]; /* of the policy */
};

/* ---- the heap of heads ---- */

static bool head_before(const struct sched_head *a, const struct sched_head *b)
{
    if (a->due_ns != b->due_ns)
        return a->due_ns < b->due_ns;
    if (a->submit_ns != b->submit_ns)
        return a->submit_ns < b->submit_ns;
    return a->lane < b->lane; /* any order will do, but the same in every run */
}

static void heap_put(struct sched *sched, uint32_t at, const struct sched_head *head)
{
    sched->heap[at] = *head;
    sched->slot[head->lane].head_at = at;
}

static void heap_up(struct sched *sched, uint32_t at, struct sched_head head)
{
    while (at > 0 && head_before(&head, &sched->heap[(at - 1) / 2])) {
        heap_put(sched, at, &sched->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_put(sched, at, &head);
}

static void heap_down(struct sched *sched, uint32_t at, struct sched_head head)
{
    uint32_t count = sched->view.heads;

    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < count && head_before(&sched->heap[child + 1], &sched->heap[child]))
            child++;
        if (child >= count || !head_before(&sched->heap[child], &head))
            break;
        heap_put(sched, at, &sched->heap[child]);
        at = child;
    }
    heap_put(sched, at, &head);
}

static void heap_remove(struct sched *sched, uint32_t lane)
{
    uint32_t at = sched->slot[lane].head_at;
    struct sched_head last = sched->heap[--sched->view.heads];

    if (at == sched->view.heads)
        return;
    if (at > 0 && head_before(&last, &sched->heap[(at - 1) / 2]))
        heap_up(sched, at, last);
    else
        heap_down(sched, at, last);
}

/* ---- launches in flight ---- */

static struct mark *mark_at(struct flight *flight, uint32_t index)
{
    return &flight->mark[(flight->first + index) % SCHED_FLIGHT_MAX];
}

/* Removes marks from index `from` up to, not including, index `to`. */
static void flight_cut(struct flight *flight, uint32_t from, uint32_t to)
{
    if (from == 0) {
        flight->first = (flight->first + to) % SCHED_FLIGHT_MAX;
    } else {
        for (uint32_t i = to; i < flight->count; i++)
            *mark_at(flight, from + i - to) = *mark_at(flight, i);
    }
    flight->count -= to - from;
    if (flight->count == 0)
        flight->first = 0; /* stay in the same cache lines */
}

static void flight_add(struct flight *flight, uint64_t seq, sched_msm_t msm)
{
    uint32_t at = flight->count; /* marks before this index are older */
    uint32_t from;

    while (at > 0 && mark_at(flight, at - 1)->seq > seq)
        at--;
    if (msm == 0 || (at < flight->count && mark_at(flight, at)->msm >= msm))
        return; /* it can never be the maximum */

    for (from = at; from > 0 && mark_at(flight, from - 1)->msm <= msm; from--)
        ; /* nor can those, from now on */
    if (from < at) {
        flight_cut(flight, from, at);
        at = from;
    }
    if (flight->count == SCHED_FLIGHT_MAX) {
        mark_at(flight, 1)->msm = mark_at(flight, 0)->msm;
        flight_cut(flight, 0, 1);
        at--; /* it was not among the two oldest: reports are at most LATE_MAX tokens late */
    }
    for (uint32_t i = flight->count++; i > at; i--)
        *mark_at(flight, i) = *mark_at(flight, i - 1);
    *mark_at(flight, at) = (struct mark){.seq = seq, .msm = msm};
}

static void flight_complete(struct flight *flight, uint64_t seq)
{
    uint32_t done = 0;

    while (done < flight->count && mark_at(flight, done)->seq <= seq)
        done++;
    if (done > 0)
        flight_cut(flight, 0, done);
}

/* ---- lanes ---- */

static uint64_t min_ns(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool can_hold(const struct sched_launch *launch)
{
    return launch->kernel != 0 && !launch->glued;
}

/*
 * When a head has to go: one cap after its submission. One that can be coalesced has more time while its lane has
 * something in flight: it only queues behind that, as it would in the plain driver, so its cap counts from when the
 * lane's last launch is known complete. Under load everything is older than a cap, and would else go alone, which is
 * what makes the load. Completion may become known late or never (a marker that could not be placed), so there is an
 * end to that too: BACKLOG_CAPS after the submission.
 *
 * What is never held has to go by now, also if the thread that submitted it read its clock after the scheduler was last
 * told the time.
 */
static uint64_t due_time(const struct sched *sched, uint32_t number, const struct sched_launch *head)
{
    uint64_t cap_ns = sched->view.hold_cap_ns, from_ns = head->submit_ns;

    if (cap_ns == 0 || !can_hold(head))
        return min_ns(sched_sub_ns(head->submit_ns, cap_ns), sched->now_ns);
    if (!head->pack)
        return sched_add_ns(from_ns, cap_ns);
    if (sched->slot[number].freed_ns > from_ns)
        from_ns = sched->slot[number].freed_ns;
    if (sched->lane[number].inflight > 0 || from_ns - head->submit_ns > BACKLOG_CAPS * cap_ns)
        return sched_add_ns(head->submit_ns, BACKLOG_CAPS * cap_ns);
    return sched_add_ns(from_ns, cap_ns);
}

static struct sched_lane *find_lane(struct sched *sched, uint32_t number)
{
    if (!sched || number >= SCHED_LANES_MAX || !sched->lane[number].present)
        return NULL;
    return &sched->lane[number];
}

/* Sets of lanes, as arrays without gaps. Each member knows its place. */
static void set_put(uint16_t *set, uint32_t *count, uint32_t number, uint32_t *at)
{
    *at = *count;
    set[(*count)++] = (uint16_t)number;
}

/* Fills the gap with the last member, and returns that one: its place has changed. */
static uint16_t set_cut(uint16_t *set, uint32_t *count, uint32_t at)
{
    return set[at] = set[--*count];
}

static void set_active(struct sched *sched, uint32_t number, bool active)
{
    struct sched_view *view = &sched->view;
    struct slot *slot = sched->slot;

    if (sched->lane[number].active == active)
        return;
    if (!active) {
        slot[set_cut(sched->active, &view->actives, slot[number].active_at)].active_at = slot[number].active_at;
    } else {
        if (sched->policy->lane_woke)
            sched->policy->lane_woke(sched->state, view, number);
        set_put(sched->active, &view->actives, number, &slot[number].active_at);
    }
    sched->lane[number].active = active;
}

static void set_flying(struct sched *sched, uint32_t number, bool flying)
{
    struct sched_view *view = &sched->view;
    struct slot *slot = sched->slot;

    if ((sched->lane[number].inflight > 0) == flying)
        return;
    if (flying)
        set_put(sched->flying, &view->lanes_inflight, number, &slot[number].flying_at);
    else
        slot[set_cut(sched->flying, &view->lanes_inflight, slot[number].flying_at)].flying_at = slot[number].flying_at;
}

/* Brings everything that follows from a lane's tokens, flight and head up to date. */
static void refresh(struct sched *sched, uint32_t number)
{
    struct sched_view *view = &sched->view;
    struct sched_lane *lane = &sched->lane[number];
    struct flight *flight = &sched->flight[number];
    uint64_t inflight = lane->issued > lane->completed ? lane->issued - lane->completed : 0;
    sched_msm_t msm = flight->count ? mark_at(flight, 0)->msm : 0;

    sched->quiet.valid = false;
    view->inflight += inflight - lane->inflight;
    set_flying(sched, number, inflight > 0);
    view->load_msm += (uint64_t)msm - lane->flight_msm;
    lane->inflight = inflight;
    lane->flight_msm = msm;
    set_active(sched, number, lane->offered || inflight > 0 || sched->slot[number].decided > 0);
}

/* A launch of the lane comes to our knowledge for the first time: does it start a burst? */
static void see(struct sched *sched, uint32_t number, const struct sched_launch *launch)
{
    struct sched_lane *lane = &sched->lane[number];

    if (launch->seq <= sched->slot[number].seen)
        return;
    sched->slot[number].seen = launch->seq;
    if (lane->completed < launch->seq - 1)
        return;
    lane->burst_ns = launch->submit_ns;
    lane->deadline_ns = lane->attr.slo_ns ? sched_add_ns(launch->submit_ns, lane->attr.slo_ns) : SCHED_NEVER;
}

/* The lane offers nothing any more. refresh() is left to the caller. */
static void withdraw(struct sched *sched, uint32_t number)
{
    if (!sched->lane[number].offered)
        return;
    heap_remove(sched, number);
    sched->view.packable -= sched->lane[number].head.pack != 0;
    sched->lane[number].offered = false;
}

/* The token was issued or is complete: neither it nor an earlier one can still wait. */
static void pass_token(struct sched *sched, uint32_t number, uint64_t seq)
{
    if (sched->lane[number].offered && sched->lane[number].head.seq <= seq)
        withdraw(sched, number);
    if (sched->slot[number].decided <= seq)
        sched->slot[number].decided = 0;
}

static bool same_launch(const struct sched_launch *a, const struct sched_launch *b)
{
    return a->seq == b->seq && a->submit_ns == b->submit_ns && a->kernel == b->kernel && a->blocks == b->blocks &&
           a->blocks_per_sm == b->blocks_per_sm && a->pack == b->pack && a->glued == b->glued;
}

sched_msm_t sched_demand(const struct sched_launch *launch, uint32_t sm_count)
{
    uint64_t per_sm = launch->blocks_per_sm ? launch->blocks_per_sm : 1;
    uint64_t blocks = launch->blocks ? launch->blocks : 1;

    if (launch->kernel == 0)
        return 0;
    if (blocks >= per_sm * sm_count) /* 2^48 at most */
        return (sched_msm_t)(sm_count * 1000);
    return (sched_msm_t)((blocks * 1000 + per_sm - 1) / per_sm);
}

int sched_lane_add(struct sched *sched, uint32_t lane, const struct sched_lane_attr *attr)
{
    if (!sched || lane >= SCHED_LANES_MAX || !attr || attr->weight == 0)
        return -EINVAL;
    if (sched->lane[lane].present)
        return -EEXIST;
    sched->lane[lane] = (struct sched_lane){.present = true, .attr = *attr, .deadline_ns = SCHED_NEVER};
    sched->slot[lane] = (struct slot){0};
    sched->flight[lane].first = sched->flight[lane].count = 0;
    sched->view.slo_lanes += attr->slo_ns > 0;
    if (sched->policy->lane_added)
        sched->policy->lane_added(sched->state, &sched->view, lane);
    return 0;
}

void sched_lane_remove(struct sched *sched, uint32_t lane)
{
    struct sched_lane *l = find_lane(sched, lane);

    if (!l)
        return;
    withdraw(sched, lane);
    l->completed = l->issued;
    sched->slot[lane].decided = 0;
    sched->flight[lane].count = 0;
    refresh(sched, lane);
    sched->view.slo_lanes -= l->attr.slo_ns > 0;
    l->present = false;
}

int sched_offer(struct sched *sched, uint32_t lane, const struct sched_launch *head)
{
    struct sched_lane *l = find_lane(sched, lane);

    if (!l)
        return -ENOENT;
    if (head && (head->seq <= l->issued || head->seq <= l->completed))
        return -EINVAL;
    if (head ? l->offered && same_launch(&l->head, head) : !l->offered)
        return 0;

    withdraw(sched, lane);
    if (head) {
        see(sched, lane, head);
        sched->slot[lane].decided = 0;
        l->head = *head;
        l->head_msm = sched_demand(head, sched->sm_count);
        l->offered = true;
        heap_up(sched, sched->view.heads++,
                (struct sched_head){.due_ns = due_time(sched, lane, head),
                                    .submit_ns = head->submit_ns,
                                    .deadline_ns = l->deadline_ns,
                                    .lane = lane,
                                    .msm = l->head_msm,
                                    .pack = head->pack});
        sched->view.packable += head->pack != 0;
    }
    refresh(sched, lane);
    if (head && sched->policy->offered)
        sched->policy->offered(sched->state, &sched->view, lane);
    return 0;
}

/* Marks a token as reported. False: it was before, or it is too old to tell. */
static bool note_issue(struct sched_lane *lane, struct slot *slot, uint64_t seq)
{
    if (seq > lane->issued) {
        uint64_t ahead = seq - lane->issued;
        slot->recent = (ahead <= LATE_MAX ? slot->recent << ahead : 0) | 1;
        lane->issued = seq;
        return true;
    }

    uint64_t behind = lane->issued - seq;
    if (behind > LATE_MAX || (slot->recent >> behind & 1))
        return false;
    slot->recent |= UINT64_C(1) << behind;
    return true;
}

void sched_issued(struct sched *sched, uint32_t lane, const struct sched_launch *launch, uint64_t now_ns)
{
    struct sched_lane *l = find_lane(sched, lane);

    if (!l || !launch || launch->seq == 0 || !note_issue(l, &sched->slot[lane], launch->seq))
        return;

    sched_msm_t msm = sched_demand(launch, sched->sm_count);

    sched->now_ns = now_ns;
    see(sched, lane, launch);
    if (launch->seq > l->completed)
        flight_add(&sched->flight[lane], launch->seq, msm);
    pass_token(sched, lane, launch->seq);
    refresh(sched, lane);
    if (sched->policy->issued)
        sched->policy->issued(sched->state, &sched->view, lane, launch, msm, now_ns);
}

/* Nothing of the lane is in flight any more: from now on its head waits for us alone. */
static void free_lane(struct sched *sched, uint32_t number, uint64_t now_ns)
{
    struct sched_lane *lane = &sched->lane[number];
    struct sched_head head;

    sched->slot[number].freed_ns = now_ns;
    if (!lane->offered || !lane->head.pack)
        return;
    head = sched->heap[sched->slot[number].head_at];
    head.due_ns = due_time(sched, number, &lane->head);
    heap_remove(sched, number);
    heap_up(sched, sched->view.heads++, head);
}

void sched_complete(struct sched *sched, uint32_t lane, uint64_t seq, uint64_t now_ns)
{
    struct sched_lane *l = find_lane(sched, lane);

    if (!l || seq <= l->completed)
        return;
    sched->now_ns = now_ns;
    l->completed = seq;
    flight_complete(&sched->flight[lane], seq);
    pass_token(sched, lane, seq);
    refresh(sched, lane);
    if (l->inflight == 0)
        free_lane(sched, lane, now_ns);
    if (sched->policy->completed)
        sched->policy->completed(sched->state, &sched->view, lane, seq, now_ns);
}

/* ---- decisions ---- */

/* The reason of a head that goes without a choice, either because it is never held or because its time has come. */
static enum sched_reason due_reason(const struct sched *sched, uint32_t lane)
{
    const struct sched_view *view = &sched->view;
    const struct sched_lane *l = &sched->lane[lane];
    bool beside = sched_view_others(view, lane) > 0;

    if (l->head.kernel == 0)
        return SCHED_REASON_OP;
    if (l->head.glued)
        return beside ? SCHED_REASON_GLUED_BESIDE : SCHED_REASON_GLUED;
    if (beside)
        return sched_view_fits(view, lane) ? SCHED_REASON_CAP : SCHED_REASON_NO_FIT_CAP;
    return view->inflight > 0 && view->actives > 1 ? SCHED_REASON_CAP_ALONE : SCHED_REASON_IDLE;
}

static bool members_valid(const struct sched *sched, const struct sched_decision *decision)
{
    uint64_t taken[SCHED_LANES_MAX / 64] = {0};

    if (decision->count < 1 || decision->count > SCHED_PACK_MAX)
        return false;
    for (uint32_t i = 0; i < decision->count; i++) {
        uint32_t lane = decision->member[i].lane;
        if (lane >= SCHED_LANES_MAX || !sched->lane[lane].offered ||
            sched->lane[lane].head.seq != decision->member[i].seq)
            return false;
        if (taken[lane / 64] >> lane % 64 & 1)
            return false;
        taken[lane / 64] |= UINT64_C(1) << lane % 64;
    }
    return true;
}

/* Asks the policy. False: hold, with a reason of that kind. */
static bool ask(struct sched *sched, uint64_t now_ns, struct sched_decision *decision, uint64_t *wake_ns)
{
    decision->count = 0;
    decision->reason = SCHED_REASON_TURN;
    if (sched->policy->pick(sched->state, &sched->view, now_ns, decision, wake_ns) == 1 &&
        members_valid(sched, decision))
        return true;
    if (sched_reason_kind(decision->reason) != SCHED_HOLD)
        decision->reason = SCHED_REASON_TURN;
    return false;
}

/* What a policy gives as the reason is kept if it agrees with what is in flight, and replaced by what is the case if
 * not: a trace must not say "alone" of a launch that went beside others. */
static enum sched_reason true_reason(const struct sched *sched, const struct sched_decision *decision)
{
    const struct sched_view *view = &sched->view;
    uint32_t lane = decision->member[0].lane;
    enum sched_kind kind = sched_reason_kind(decision->reason);

    if (decision->count > 1)
        return kind == SCHED_COALESCE ? decision->reason : SCHED_REASON_PACK;
    if (!can_hold(&sched->lane[lane].head))
        return due_reason(sched, lane);
    if (sched_view_others(view, lane) == 0)
        return SCHED_REASON_IDLE;
    if (kind == SCHED_COSCHEDULE)
        return decision->reason;
    return sched_view_fits(view, lane) ? SCHED_REASON_FITS : SCHED_REASON_NEXT;
}

/* The heads of a decision leave the heap. */
static int commit(struct sched *sched, enum sched_reason reason, struct sched_decision *decision)
{
    for (uint32_t i = 0; i < decision->count; i++) {
        uint32_t lane = decision->member[i].lane;
        withdraw(sched, lane);
        sched->slot[lane].decided = decision->member[i].seq;
        refresh(sched, lane);
    }
    decision->reason = reason;
    decision->kind = sched_reason_kind(reason);
    return 1;
}

/* The head goes whatever the policy says, but not without those that can go with it. */
static int take(struct sched *sched, uint32_t lane, enum sched_reason reason, struct sched_decision *decision)
{
    sched_pick_one(&sched->view, lane, reason, decision);
    if (sched->policy->join && sched->lane[lane].head.pack && sched->view.actives > 1) {
        sched->policy->join(sched->state, &sched->view, decision);
        if (!members_valid(sched, decision) || decision->member[0].lane != lane)
            sched_pick_one(&sched->view, lane, reason, decision);
    }
    if (decision->count > 1)
        reason = reason == SCHED_REASON_IDLE ? SCHED_REASON_PACK : SCHED_REASON_PACK_CAP;
    return commit(sched, reason, decision);
}

static int hold(struct sched *sched, uint64_t now_ns, uint64_t wake_ns, struct sched_decision *decision,
                uint64_t *out_ns)
{
    sched->quiet = (struct quiet){.valid = true, .reason = decision->reason, .from_ns = now_ns, .until_ns = wake_ns};
    decision->kind = SCHED_HOLD;
    decision->count = 0;
    *out_ns = wake_ns;
    return 0;
}

int sched_next(struct sched *sched, uint64_t now_ns, struct sched_decision *decision, uint64_t *wake_ns)
{
    struct sched_view *view = &sched->view;
    const struct quiet *quiet = &sched->quiet;

    sched->now_ns = now_ns;
    if (quiet->valid && now_ns >= quiet->from_ns && now_ns < quiet->until_ns) {
        decision->reason = quiet->reason;
        return hold(sched, quiet->from_ns, quiet->until_ns, decision, wake_ns);
    }
    if (view->heads == 0) {
        decision->reason = SCHED_REASON_NOTHING;
        return hold(sched, now_ns, SCHED_NEVER, decision, wake_ns);
    }

    uint32_t oldest = sched->heap[0].lane;
    uint64_t until_ns = sched->heap[0].due_ns;
    bool due = until_ns <= now_ns;

    if (due || view->actives == 1) {
        bool yields = due && sched->was_due && sched->view.slo_lanes > 0 && view->actives > 1;
        if (yields && ask(sched, now_ns, decision, &until_ns) && decision->reason == SCHED_REASON_SLACK) {
            sched->was_due = false;
            return commit(sched, true_reason(sched, decision), decision);
        }
        sched->was_due = due;
        return take(sched, oldest, due_reason(sched, oldest), decision);
    }

    sched->was_due = false;
    if (ask(sched, now_ns, decision, &until_ns))
        return commit(sched, true_reason(sched, decision), decision);
    if (view->inflight == 0)
        return take(sched, oldest, SCHED_REASON_IDLE, decision);
    if (until_ns > sched->heap[0].due_ns) /* a policy may ask for less time, not for more */
        until_ns = sched->heap[0].due_ns;
    return hold(sched, now_ns, until_ns, decision, wake_ns);
}

void sched_load(const struct sched *sched, struct sched_load *load)
{
    const struct sched_view *view = &sched->view;

    *load = (struct sched_load){
        .offered = view->heads,
        .inflight = view->inflight < UINT32_MAX ? (uint32_t)view->inflight : UINT32_MAX,
        .lanes_inflight = view->lanes_inflight,
        .msm = view->load_msm,
    };
}

const struct sched_view *sched_view(const struct sched *sched)
{
    return &sched->view;
}

/* ---- life ---- */

int sched_create_with(const struct sched_config *config, const struct sched_policy_ops *policy, struct sched **sched)
{
    size_t size;
    struct sched *s;

    if (!config || !sched || !policy || !policy->pick)
        return -EINVAL;
    if (config->sm_count == 0 || config->sm_count > SCHED_SM_MAX || config->window == 0)
        return -EINVAL;

    /* aligned_alloc wants a multiple of the alignment. */
    size = (sizeof(*s) + policy->state_size + _Alignof(struct sched) - 1) / _Alignof(struct sched) *
           _Alignof(struct sched);
    s = aligned_alloc(_Alignof(struct sched), size);
    if (!s)
        return -ENOMEM;
    memset(s, 0, size);
    s->policy = policy;
    s->sm_count = config->sm_count;
    s->view = (struct sched_view){
        .lane = s->lane,
        .head = s->heap,
        .active = s->active,
        .flying = s->flying,
        .window = config->window,
        .packs = config->packs ? config->packs : SCHED_PACKS,
        .device_msm = (uint64_t)config->sm_count * 1000,
        .hold_cap_ns = config->hold_cap_ns,
    };
    *sched = s;
    return 0;
}

int sched_create(const struct sched_config *config, struct sched **sched)
{
    const struct sched_policy_ops *policy = config ? sched_policy_find(config->policy) : NULL;

    return policy ? sched_create_with(config, policy, sched) : -EINVAL;
}

void sched_destroy(struct sched *sched)
{
    free(sched);
}
