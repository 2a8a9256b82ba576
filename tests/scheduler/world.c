/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/scheduler/world.h"

#include <stdlib.h>
#include <string.h>

/* Records of a lane, by position: [0, reported) complete and known, then finished, issued, submitted. */
struct world_lane {
    const struct world_step *steps;
    uint32_t count, total;
    uint32_t submitted, issued, finished, reported;
    uint64_t submit_ns; /* when the next step is submitted; WORLD_NEVER while it waits or at the end */
    bool running;       /* record `finished` is on the device */
    uint64_t ready;     /* rank at which record `finished` became ready, over all lanes */
    struct world_record *records;
};

struct world {
    struct world_config config;
    struct world_observer observer;
    struct sched *sched;
    uint64_t now_ns, wake_ns, busy_ns; /* the engine is busy until busy_ns */
    uint64_t ranks;
    uint64_t free_msm;
    uint32_t lanes;
    struct world_lane lane[SCHED_LANES_MAX];
};

static uint64_t min_ns(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

struct world *world_create(const struct world_config *config, const struct world_observer *observer)
{
    struct world *world = calloc(1, sizeof(*world));
    int error;

    if (!world)
        return NULL;
    world->config = *config;
    if (observer)
        world->observer = *observer;
    error = config->policy ? sched_create_with(&config->sched, config->policy, &world->sched)
                           : sched_create(&config->sched, &world->sched);
    if (error) {
        free(world);
        return NULL;
    }
    world->free_msm = (uint64_t)config->sched.sm_count * 1000;
    world->wake_ns = WORLD_NEVER;
    return world;
}

void world_destroy(struct world *world)
{
    if (!world)
        return;
    for (uint32_t i = 0; i < world->lanes; i++)
        free(world->lane[i].records);
    sched_destroy(world->sched);
    free(world);
}

uint32_t world_add_lane(struct world *world, const struct sched_lane_attr *attr, uint64_t start_ns,
                        const struct world_step *steps, uint32_t count, uint32_t repeat)
{
    uint32_t number = world->lanes++;
    struct world_lane *lane = &world->lane[number];

    *lane = (struct world_lane){.steps = steps, .count = count, .total = count * repeat};
    lane->submit_ns = lane->total ? start_ns + steps[0].gap_ns : WORLD_NEVER;
    lane->records = calloc(lane->total + 1, sizeof(*lane->records));
    if (!lane->records || sched_lane_add(world->sched, number, attr))
        abort(); /* a test that cannot be set up */
    return number;
}

static void offer(struct world *world, uint32_t number)
{
    struct world_lane *lane = &world->lane[number];
    struct world_record *record = lane->issued < lane->submitted ? &lane->records[lane->issued] : NULL;

    if (record && record->head_ns == WORLD_NEVER)
        record->head_ns = world->now_ns;
    if (sched_offer(world->sched, number, record ? &record->launch : NULL))
        abort();
}

static void issue(struct world *world, uint32_t number, enum sched_reason reason)
{
    struct world_lane *lane = &world->lane[number];
    struct world_record *record = &lane->records[lane->issued];

    record->issue_ns = world->now_ns;
    record->reason = reason;
    if (lane->issued++ == lane->finished)
        lane->ready = world->ranks++;
    sched_issued(world->sched, number, &record->launch, world->now_ns);
}

static void flush(struct world *world, uint32_t number)
{
    struct world_lane *lane = &world->lane[number];

    while (lane->issued < lane->submitted) {
        if (world->observer.flushed)
            world->observer.flushed(world->observer.arg, world->now_ns, number, &lane->records[lane->issued].launch);
        if (lane->records[lane->issued].head_ns == WORLD_NEVER)
            lane->records[lane->issued].head_ns = world->now_ns;
        issue(world, number, SCHED_REASON_FLUSH);
    }
    offer(world, number);
}

static void plan_next(struct world_lane *lane, uint64_t now_ns)
{
    const struct world_step *last = &lane->steps[(lane->submitted - 1) % lane->count];

    lane->submit_ns = WORLD_NEVER;
    if (lane->submitted < lane->total && (!last->sync || lane->reported == lane->submitted))
        lane->submit_ns = now_ns + lane->steps[lane->submitted % lane->count].gap_ns;
}

static void submit(struct world *world, uint32_t number)
{
    struct world_lane *lane = &world->lane[number];
    const struct world_step *step = &lane->steps[lane->submitted % lane->count];
    struct world_record *record = &lane->records[lane->submitted];

    *record = (struct world_record){
        .launch = {.seq = ++lane->submitted,
                   .submit_ns = world->now_ns,
                   .kernel = step->kernel,
                   .blocks = step->blocks,
                   .blocks_per_sm = step->blocks_per_sm,
                   .glued = step->glued},
        .run_ns = step->run_ns ? step->run_ns : 1,
        .sync = step->sync,
        .head_ns = WORLD_NEVER,
        .issue_ns = WORLD_NEVER,
        .start_ns = WORLD_NEVER,
        .finish_ns = WORLD_NEVER,
        .report_ns = WORLD_NEVER,
    };
    if (world->observer.submitted)
        world->observer.submitted(world->observer.arg, world->now_ns, number, &record->launch);
    if (step->sync && world->config.flush_on_sync)
        flush(world, number);
    else
        offer(world, number);
    plan_next(lane, world->now_ns);
}

/* ---- the device ---- */

static uint64_t demand(const struct world *world, const struct world_record *record)
{
    return sched_demand(&record->launch, world->config.sched.sm_count);
}

static void start_what_fits(struct world *world)
{
    for (;;) {
        struct world_lane *first = NULL;

        for (uint32_t i = 0; i < world->lanes; i++) {
            struct world_lane *lane = &world->lane[i];
            if (!lane->running && lane->finished < lane->issued && (!first || lane->ready < first->ready))
                first = lane;
        }
        if (!first || demand(world, &first->records[first->finished]) > world->free_msm)
            return;

        struct world_record *record = &first->records[first->finished];
        world->free_msm -= demand(world, record);
        record->start_ns = world->now_ns;
        record->finish_ns = world->now_ns + record->run_ns;
        first->running = true;
    }
}

static void finish_and_report(struct world *world, uint32_t number)
{
    struct world_lane *lane = &world->lane[number];
    uint32_t before = lane->reported;

    if (lane->running && lane->records[lane->finished].finish_ns <= world->now_ns) {
        struct world_record *record = &lane->records[lane->finished++];
        world->free_msm += demand(world, record);
        record->report_ns = record->finish_ns + world->config.report_ns;
        lane->running = false;
        lane->ready = world->ranks++;
    }
    while (lane->reported < lane->finished && lane->records[lane->reported].report_ns <= world->now_ns)
        lane->reported++;
    if (lane->reported == before)
        return;
    sched_complete(world->sched, number, lane->reported, world->now_ns);
    if (world->observer.completed)
        world->observer.completed(world->observer.arg, world->now_ns, number, lane->reported);
    if (lane->submit_ns == WORLD_NEVER)
        plan_next(lane, world->now_ns);
}

/* ---- the engine ---- */

static void decide(struct world *world)
{
    struct sched_decision decision;

    while (world->busy_ns <= world->now_ns) {
        if (sched_next(world->sched, world->now_ns, &decision, &world->wake_ns) == 0) {
            if (world->observer.held)
                world->observer.held(world->observer.arg, world->now_ns, world->wake_ns, &decision);
            return;
        }
        if (world->observer.decided)
            world->observer.decided(world->observer.arg, world->now_ns, &decision);
        for (uint32_t i = 0; i < decision.count; i++) {
            issue(world, decision.member[i].lane, decision.reason);
            offer(world, decision.member[i].lane);
        }
        world->busy_ns = world->now_ns + world->config.issue_ns;
        start_what_fits(world);
    }
    world->wake_ns = WORLD_NEVER; /* busy; it looks again when it is done */
}

static uint64_t next_event(const struct world *world)
{
    uint64_t next = world->wake_ns;

    if (world->busy_ns > world->now_ns)
        next = min_ns(next, world->busy_ns);
    for (uint32_t i = 0; i < world->lanes; i++) {
        const struct world_lane *lane = &world->lane[i];
        next = min_ns(next, lane->submit_ns);
        if (lane->running)
            next = min_ns(next, lane->records[lane->finished].finish_ns);
        if (lane->reported < lane->finished)
            next = min_ns(next, lane->records[lane->reported].report_ns);
    }
    return next;
}

bool world_run(struct world *world, uint64_t until_ns)
{
    for (;;) {
        uint64_t next = next_event(world);

        if (next == WORLD_NEVER)
            return true;
        if (next > until_ns)
            return false;
        if (next > world->now_ns)
            world->now_ns = next;
        for (uint32_t i = 0; i < world->lanes; i++)
            finish_and_report(world, i);
        for (uint32_t i = 0; i < world->lanes; i++)
            while (world->lane[i].submit_ns <= world->now_ns)
                submit(world, i);
        start_what_fits(world);
        decide(world);
    }
}

uint64_t world_now(const struct world *world)
{
    return world->now_ns;
}

struct sched *world_sched(struct world *world)
{
    return world->sched;
}

uint32_t world_count(const struct world *world, uint32_t lane)
{
    return world->lane[lane].submitted;
}

const struct world_record *world_record(const struct world *world, uint32_t lane, uint32_t index)
{
    return &world->lane[lane].records[index];
}
