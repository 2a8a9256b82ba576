/* SPDX-License-Identifier: Apache-2.0
 *
 * A discrete-event world around a scheduler, in virtual time: hosts that submit launches, an engine that issues what
 * the scheduler decides, and a device that runs them. Deterministic: no clock, no threads, no randomness.
 *
 * Device model: launches of a lane run one after another. A launch starts when its predecessor in the lane has finished
 * and its SM demand is free; among those that could start the one issued first goes first, and nothing passes it. That
 * is coarser than a GPU, which fills gaps block by block, but it has what a scheduler is about: order, room, and
 * waiting.
 *
 * Host model: each lane goes through a list of steps. A step is submitted `gap_ns` after the one before it was, or,
 * after a step with `sync`, after everything of the lane is known to be complete. A lane can repeat its list.
 */
#ifndef COISSUE_TESTS_SCHEDULER_WORLD_H
#define COISSUE_TESTS_SCHEDULER_WORLD_H

#include "scheduler/policy.h"
#include "scheduler/scheduler.h"

struct world_step {
    uint64_t gap_ns;
    uint64_t run_ns; /* on the device, once it has its SMs; at least 1 */
    uint64_t kernel; /* 0: an op */
    uint64_t blocks;
    uint32_t blocks_per_sm;
    bool glued;
    bool sync; /* the host waits for the lane after this step */
};

struct world_config {
    struct sched_config sched;
    const struct sched_policy_ops *policy; /* NULL: by sched.policy */
    uint64_t issue_ns;                     /* the engine is busy this long with each launch */
    uint64_t report_ns;                    /* from the end of a launch to sched_complete */
    bool flush_on_sync; /* the host issues what its lane holds before it waits, as a synchronising call does */
};

/* What became of one launch. Times are WORLD_NEVER until they happen. */
#define WORLD_NEVER UINT64_MAX
struct world_record {
    struct sched_launch launch;
    uint64_t run_ns;
    uint64_t head_ns; /* when it became the head of its lane */
    uint64_t issue_ns;
    uint64_t start_ns, finish_ns;
    uint64_t report_ns;
    enum sched_reason reason;
    bool sync;
};

/* Told about everything, in the order in which it happens. Members may be NULL. */
struct world_observer {
    void *arg;
    void (*submitted)(void *arg, uint64_t now_ns, uint32_t lane, const struct sched_launch *launch);
    void (*decided)(void *arg, uint64_t now_ns, const struct sched_decision *decision); /* before it is issued */
    void (*flushed)(void *arg, uint64_t now_ns, uint32_t lane, const struct sched_launch *launch);
    void (*completed)(void *arg, uint64_t now_ns, uint32_t lane, uint64_t seq);
    void (*held)(void *arg, uint64_t now_ns, uint64_t wake_ns, const struct sched_decision *decision);
};

struct world;

/* NULL: the scheduler refused its configuration, or no memory. `observer` is copied and may be NULL. */
struct world *world_create(const struct world_config *config, const struct world_observer *observer);
void world_destroy(struct world *world);

/* Adds lane 0, 1, 2... and returns its number. The steps are repeated `repeat` times; they are borrowed. */
uint32_t world_add_lane(struct world *world, const struct sched_lane_attr *attr, uint64_t start_ns,
                        const struct world_step *steps, uint32_t count, uint32_t repeat);

/* Runs until `until_ns` or until nothing is left to happen. True in the latter case: all launches are complete. */
bool world_run(struct world *world, uint64_t until_ns);

uint64_t world_now(const struct world *world);
struct sched *world_sched(struct world *world);

/* Launches of the lane submitted so far; seq n is record n - 1. */
uint32_t world_count(const struct world *world, uint32_t lane);
const struct world_record *world_record(const struct world *world, uint32_t lane, uint32_t index);

#endif
