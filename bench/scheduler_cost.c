/* SPDX-License-Identifier: Apache-2.0
 *
 * What the scheduler costs the engine for each launch: sched_offer, sched_next (those that answer "hold" included),
 * sched_issued and sched_complete, with all lanes backlogged. Launches complete in the order of their issue, one
 * at a time, as an engine that polls would see them. Launches see a virtual time, and what is measured is CPU time of
 * the thread, so that other processes disturb little. No CUDA.
 *
 *   scheduler_cost [POLICY...]        one JSON object on stdout
 *
 * The targets: 300 ns per launch at 16 lanes, 1000 ns at 256.
 */
#include "scheduler/scheduler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 101, LAUNCHES = 5000, WINDOW = 16, SM_COUNT = 132, RING = 1024 };

struct issued {
    uint32_t lane;
    uint64_t seq;
};

struct setup {
    const char *policy;
    uint32_t lanes;
    uint32_t blocks_max; /* demand of a launch is 1 to this many blocks, 4 of which fit on an SM */
    uint32_t batch;      /* completions are seen this many at a time */
    uint64_t slo_ns;     /* of every second lane */
    const char *shape;
    uint32_t kernels; /* that can be coalesced; 0: none can */
};

struct load {
    struct sched *sched;
    const struct setup *setup;
    uint64_t now_ns, random;
    struct sched_launch head[SCHED_LANES_MAX];
    struct issued ring[RING]; /* in flight, in the order of issue */
    uint32_t first, count;
    uint64_t holds;
};

static void fail(const char *what)
{
    fprintf(stderr, "scheduler_cost: %s\n", what);
    exit(1);
}

static uint64_t cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void offer(struct load *load, uint32_t lane)
{
    load->random = load->random * 6364136223846793005u + 1442695040888963407u;
    load->head[lane] = (struct sched_launch){
        .seq = load->head[lane].seq + 1,
        .submit_ns = load->now_ns,
        .kernel = 1,
        .blocks = 1 + (load->random >> 33) % load->setup->blocks_max,
        .blocks_per_sm = 4,
        .pack = load->setup->kernels ? 1 + (uint32_t)(load->random >> 40) % load->setup->kernels : 0};
    if (sched_offer(load->sched, lane, &load->head[lane]))
        fail("an offer was refused");
}

static void issue(struct load *load, const struct sched_decision *decision)
{
    for (uint32_t i = 0; i < decision->count; i++) {
        uint32_t lane = decision->member[i].lane;

        sched_issued(load->sched, lane, &load->head[lane], load->now_ns);
        load->ring[(load->first + load->count++) % RING] = (struct issued){lane, load->head[lane].seq};
        offer(load, lane);
    }
}

static void complete(struct load *load)
{
    for (uint32_t i = 0; i < load->setup->batch && load->count > 0; i++) {
        struct issued *done = &load->ring[load->first];
        sched_complete(load->sched, done->lane, done->seq, load->now_ns);
        load->first = (load->first + 1) % RING;
        load->count--;
    }
}

static void run_launches(struct load *load, uint32_t launches)
{
    struct sched_decision decision;
    uint64_t wake_ns;

    while (launches > 0) {
        /* A lane that is the only one is never held: stop it, as a host that waits for a result would. */
        while (launches > 0 && load->count + SCHED_PACK_MAX <= RING &&
               sched_next(load->sched, load->now_ns, &decision, &wake_ns)) {
            issue(load, &decision);
            launches -= decision.count < launches ? decision.count : launches;
        }
        load->holds++;
        load->now_ns += 1000;
        complete(load);
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void measure(const struct setup *setup, bool last)
{
    static struct load load;
    struct sched_config config = {
        .sm_count = SM_COUNT, .window = WINDOW, .hold_cap_ns = 1000000000, .policy = setup->policy};
    double ns[ROUNDS];

    load = (struct load){.setup = setup, .random = 1};
    if (sched_create(&config, &load.sched))
        fail("unknown policy");
    for (uint32_t lane = 0; lane < setup->lanes; lane++) {
        struct sched_lane_attr attr = {.weight = 100, .slo_ns = lane % 2 ? setup->slo_ns : 0};
        if (sched_lane_add(load.sched, lane, &attr))
            fail("a lane was refused");
        offer(&load, lane);
    }
    run_launches(&load, LAUNCHES); /* warm up */
    load.holds = 0;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t start_ns = cpu_ns();
        run_launches(&load, LAUNCHES);
        ns[i] = (double)(cpu_ns() - start_ns) / LAUNCHES;
    }
    sched_destroy(load.sched);
    qsort(ns, ROUNDS, sizeof(*ns), compare);
    printf("    {\"policy\": \"%s\", \"lanes\": %u, \"shape\": \"%s\", \"ns_per_launch\": {\"median\": %.1f, \"p10\": "
           "%.1f, \"p90\": %.1f, \"max\": %.1f}, \"holds_per_launch\": %.3f}%s\n",
           setup->policy, setup->lanes, setup->shape, ns[ROUNDS / 2], ns[ROUNDS / 10], ns[ROUNDS * 9 / 10],
           ns[ROUNDS - 1], (double)load.holds / ((double)LAUNCHES * ROUNDS), last ? "" : ",");
}

static void measure_policy(const char *policy, bool last_policy)
{
    static const uint32_t lanes[] = {1, 16, 64, SCHED_LANES_MAX};
    enum { COUNTS = sizeof(lanes) / sizeof(*lanes) };

    for (int i = 0; i < COUNTS; i++) {
        struct setup small = {policy, lanes[i], 32, 1, 0, "small grids, the window is full"};
        struct setup mixed = {policy, lanes[i], SM_COUNT * 4, 1, 0, "all grids, the device is full"};
        /* so far away that no lane is short of slack, but all have to be looked at */
        struct setup packs = {policy, lanes[i], 32, 1, 0, "small grids of four kernels that can be coalesced", 4};
        struct setup target = {policy, lanes[i], SM_COUNT * 4, 1, UINT64_C(1) << 50, "as before, half with a target"};

        measure(&small, false);
        measure(&mixed, false);
        measure(&packs, false);
        measure(&target, last_policy && i == COUNTS - 1);
    }
}

int main(int argc, char **argv)
{
    const char *const *names = argc > 1 ? (const char *const *)argv + 1 : sched_policy_names();

    printf("{\"benchmark\": \"scheduler_cost\", \"window\": %d, \"rounds\": %d, \"launches_per_round\": %d, "
           "\"results\": [\n",
           WINDOW, ROUNDS, LAUNCHES);
    for (; *names; names++)
        measure_policy(*names, names[1] == NULL);
    printf("]}\n");
    return 0;
}
