/* SPDX-License-Identifier: Apache-2.0
 *
 * A decision to coalesce, carried out: the heads of several lanes become one launch of their kernel's twin.
 *
 * The scheduler decided by numbers that lanes gave; here the records themselves are looked at, under the issue locks of
 * their lanes. Whoever does not fit is issued alone. If the twin is not ready, all are. Nothing waits: neither for a
 * lock nor for a twin.
 */
#include "engine/pack.h"

#include "base/clock.h"
#include "coalesce/pack.h"
#include "engine/convoy.h"
#include "engine/twin.h"

#include <string.h>

struct member {
    struct lane *lane;
    const struct record *record;
    struct sched_launch launch;
};

struct gathering {
    struct device *device;
    struct member member[SCHED_PACK_MAX];
    uint32_t count;
};

/* Bytes of an attribute's value that mean something; what lies behind them in the union may be anything. */
static size_t attribute_bytes(CUlaunchAttributeID id)
{
    switch (id) {
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
        return 3 * sizeof(uint32_t);
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        return sizeof(uint32_t);
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
        return 0;
    default:
        return sizeof(CUlaunchAttributeValue);
    }
}

static bool same_attributes(const struct record *a, const struct record *b)
{
    CUlaunchAttribute of_a[RECORD_ATTRIBUTES_MAX], of_b[RECORD_ATTRIBUTES_MAX];
    uint32_t count = launch_attributes(a, true, of_a);

    if (launch_attributes(b, true, of_b) != count)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (of_a[i].id != of_b[i].id || memcmp(&of_a[i].value, &of_b[i].value, attribute_bytes(of_a[i].id)) != 0)
            return false;
    return true;
}

static bool can_go_together(const struct member *a, const struct member *b)
{
    const struct record *x = a->record, *y = b->record;

    return a->lane->context == b->lane->context && x->kind == RECORD_LAUNCH && y->kind == RECORD_LAUNCH &&
           x->launch.function == y->launch.function && x->launch.shared_bytes == y->launch.shared_bytes &&
           memcmp(x->launch.block, y->launch.block, sizeof(x->launch.block)) == 0 &&
           x->launch.grid[2] == y->launch.grid[2] && x->parameter_bytes == y->parameter_bytes &&
           (!record_cluster(x) || memcmp(x->launch.grid, y->launch.grid, sizeof(x->launch.grid)) == 0) &&
           x->extended == y->extended && (!x->extended || same_attributes(x, y));
}

enum { SEEN_SLOTS = 2 * SCHED_PACK_MAX };

static uint64_t parameter_hash(const struct record *record)
{
    const unsigned char *bytes = record_parameters(record);
    uint64_t hash = record->parameter_bytes, word;
    uint32_t at = 0;

    for (; at + sizeof(word) <= record->parameter_bytes; at += sizeof(word)) {
        memcpy(&word, bytes + at, sizeof(word));
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    for (; at < record->parameter_bytes; at++)
        hash = (hash ^ bytes[at]) * 0x9e3779b97f4a7c15u;
    return hash ? hash : 1;
}

/*
 * The same work twice is a program that races with itself, or that relies on something which we do not see: kernels
 * that share a workspace of semaphores hang the device. By a hash, so that a chance in 2^64 sends a launch alone.
 */
static bool is_new(uint64_t seen[SEEN_SLOTS], const struct record *record)
{
    uint64_t hash = parameter_hash(record);
    uint32_t slot = (uint32_t)(hash >> 32) % SEEN_SLOTS;

    for (; seen[slot]; slot = (slot + 1) % SEEN_SLOTS)
        if (seen[slot] == hash)
            return false;
    seen[slot] = hash;
    return true;
}

/* Locks the lanes whose heads are what the scheduler decided about. */
static void lock_members(struct gathering *all, const struct sched_decision *decision)
{
    for (uint32_t i = 0; i < decision->count; i++) {
        struct lane *lane = &all->device->lanes[decision->member[i].lane];
        struct member *member = &all->member[all->count];

        lane->offered = false; /* whatever becomes of it, look at the lane again */
        lane_bit_set(all->device->again, lane);
        if (!lock_try(&lane->issue))
            continue;
        member->lane = lane;
        if (atomic_load_explicit(&lane->state, memory_order_relaxed) == LANE_LIVE)
            member->record = lane_head(lane, &member->launch);
        else
            member->record = NULL;
        if (member->record && member->launch.seq == decision->member[i].seq)
            all->count++;
        else
            lock_drop(&lane->issue);
    }
}

static void swap(struct member *a, struct member *b)
{
    struct member c = *a;

    *a = *b;
    *b = c;
}

/* Brings those that can go with the first one to the front, and says how many they are. */
static uint32_t agreeing(struct gathering *all)
{
    uint64_t seen[SEEN_SLOTS] = {0};
    uint32_t count = 1;

    is_new(seen, all->member[0].record);
    for (uint32_t i = 1; i < all->count; i++)
        if (can_go_together(&all->member[0], &all->member[i]) && is_new(seen, all->member[i].record))
            swap(&all->member[count++], &all->member[i]);
    return count;
}

static unsigned form_of(const struct gathering *all, uint32_t count)
{
    const uint32_t *grid = all->member[0].record->launch.grid;
    unsigned form = grid[2] > 1 ? COALESCE_FOLD : 0;

    for (uint32_t i = 1; i < count; i++)
        if (memcmp(grid, all->member[i].record->launch.grid, 2 * sizeof(*grid)) != 0)
            form |= COALESCE_RAGGED;
    return form;
}

/* The convoy in which most of the members are; if none is away, the one with the least on its way. */
static struct convoy *choose_convoy(const struct gathering *all, uint32_t count)
{
    struct context *context = all->member[0].lane->context;
    uint32_t there[CONVOYS] = {0}, best = 0;
    bool any = false;

    for (uint32_t i = 0; i < count; i++) {
        const struct convoy *convoy = atomic_load_explicit(&all->member[i].lane->away, memory_order_relaxed);

        /* One that has nothing on its way costs nothing to bring elsewhere, so those that have decide. */
        if (convoy && !lane_is_idle(all->member[i].lane)) {
            there[convoy - context->convoys]++;
            any = true;
        }
    }
    for (uint32_t i = 1; i < CONVOYS && context->convoys; i++) {
        const struct convoy *a = &context->convoys[best], *b = &context->convoys[i];

        if (any ? there[i] > there[best] : a->noted - a->told > b->noted - b->told)
            best = i;
    }
    return convoy_get(context, best);
}

static void remember_context(struct device *device, struct context *context)
{
    for (uint32_t i = 0; i < device->convoy_contexts; i++)
        if (device->with_convoys[i] == context)
            return;
    if (device->convoy_contexts < ENGINE_CONTEXTS_MAX)
        device->with_convoys[device->convoy_contexts++] = context;
}

/* Fills the parameter area. Returns how many members are in it. */
static uint32_t fill_area(const struct gathering *all, uint32_t count, const struct twin *twin,
                          struct coalesce_pack *pack)
{
    coalesce_pack_begin(pack, &twin->layout, all->device->area);
    for (uint32_t i = 0; i < count; i++) {
        const struct record *record = all->member[i].record;

        if (record->parameter_bytes != twin->layout.parameter_bytes ||
            coalesce_pack_add(pack, record->launch.grid, record_parameters(record)) < 0)
            break;
    }
    return pack->count;
}

static void tell_issued(struct gathering *all, uint32_t count, struct convoy *convoy, struct issue *issue)
{
    for (uint32_t i = 0; i < count; i++) {
        struct member *member = &all->member[i];
        struct lane *lane = member->lane;

        issue->first = i == 0;
        lane_issued(lane, member->record, &member->launch, issue);
        sched_issued(all->device->sched, lane->index, &member->launch, issue->end_ns);
        lane->told_issued = member->launch.seq;
        lane->singles = 0;
        convoy_note(convoy, lane, member->launch.seq);
    }
}

/* Issues the first `count` members, or as many as the twin takes, as one launch. 0: none; nothing was issued. */
static uint32_t issue_together(struct gathering *all, uint32_t count, enum sched_reason reason)
{
    struct device *device = all->device;
    struct engine *engine = device->engine;
    struct lane *first = all->member[0].lane;
    const struct record *record = all->member[0].record;
    const struct twin *twin = twin_get(engine, record->launch.function, first->context, form_of(all, count));
    struct convoy *convoy = twin ? choose_convoy(all, count) : NULL;
    struct issue issue = {.reason = reason, .begin_ns = clock_ns()};
    struct coalesce_pack pack;
    struct lane_shot shot;
    CUresult result;

    if (!convoy)
        return 0;
    remember_context(device, first->context);
    count = fill_area(all, count, twin, &pack);
    if (count < 2)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        if (!convoy_join(convoy, all->member[i].lane))
            return 0;
    shot =
        (struct lane_shot){.function = twin->handle, .parameters = device->area, .bytes = coalesce_pack_bytes(&pack)};
    memcpy(shot.grid, pack.grid, sizeof(shot.grid));
    result = lane_fire(first, record, &shot);
    if (result != CUDA_SUCCESS) {
        twin_failed(twin, result);
        return 0;
    }
    issue.end_ns = clock_ns();
    issue.at = convoy->stream;
    issue.pack = (uint32_t)++device->packs;
    issue.members = count;
    tell_issued(all, count, convoy, &issue);
    if (atomic_load_explicit(&engine->captures, memory_order_seq_cst) == 0)
        convoy_mark(convoy);
    return count;
}

void pack_issue(struct device *device, const struct sched_decision *decision, pack_issue_one_fn issue_one)
{
    struct gathering all = {.device = device};
    uint32_t count, done = 0;

    lock_members(&all, decision);
    if (all.count > 0 && device_enter(device, all.member[0].lane->context->handle)) {
        count = agreeing(&all);
        if (count > 1)
            atomic_store_explicit(&device->packed_ns, clock_ns(), memory_order_relaxed);
        if (count > 1)
            done = issue_together(&all, count, decision->reason);
        /* Those that a full area left behind come back with the next pack; of those that cannot go, each goes alone. */
        for (uint32_t i = done ? count : 0; i < all.count; i++)
            if (device_enter(device, all.member[i].lane->context->handle))
                issue_one(device, all.member[i].lane, SCHED_REASON_NOT_READY);
    }
    for (uint32_t i = 0; i < all.count; i++)
        lock_drop(&all.member[i].lane->issue);
}
