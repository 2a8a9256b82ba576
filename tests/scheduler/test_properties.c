/* SPDX-License-Identifier: Apache-2.0
 *
 * Random worlds against an independent checker, for every policy and for one that answers at random.
 *
 * The checker keeps its own books, from what it is told, in the dullest way: a list of launches for each lane, and sums
 * from scratch at each step. A failure names the seed.
 */
#include "tests/scheduler/helper.h"
#include "tests/scheduler/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 12, STEPS = 40, LAUNCHES = 200, WORLDS = 150 };

/* splitmix64: the same numbers everywhere */
static uint64_t draw(uint64_t *seed)
{
    uint64_t z = (*seed += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t below(uint64_t *seed, uint64_t limit)
{
    return draw(seed) % limit;
}

/* ---- a policy that answers anything ---- */

static int wild_pick(void *state, const struct sched_view *view, uint64_t now_ns, struct sched_decision *decision,
                     uint64_t *wake_ns)
{
    uint64_t *seed = state;

    decision->reason = (enum sched_reason)below(seed, SCHED_REASON_COUNT + 2);
    decision->count = (uint32_t)below(seed, 4);
    for (uint32_t i = 0; i < decision->count; i++) {
        decision->member[i].lane = (uint32_t)below(seed, LANES + 2);
        decision->member[i].seq = view->lane[decision->member[i].lane].head.seq;
    }
    if (below(seed, 4) == 0)
        *wake_ns = now_ns + 1 + below(seed, 100000);
    return (int)below(seed, 2);
}

static const struct sched_policy_ops wild = {
    .name = "wild", .help = "anything", .state_size = sizeof(uint64_t), .pick = wild_pick};

/* ---- the checker ---- */

struct book {
    struct sched_launch launch[LAUNCHES];
    uint64_t head_ns[LAUNCHES];
    uint32_t submitted, issued, completed;
};

struct checker {
    uint64_t seed;
    const struct world *world;
    struct sched *sched;
    struct world_config config;
    bool trust_reasons; /* FITS means that it fits */
    struct book book[LANES];
    uint64_t decisions, holds, beside, forced, hash;
};

static void mix(struct checker *checker, uint64_t value)
{
    uint64_t state = checker->hash ^ value;

    checker->hash = draw(&state);
}

/* Of launches in flight if `issued` of the lane are issued. */
static uint64_t lane_msm(const struct checker *checker, uint32_t lane, uint32_t issued)
{
    const struct book *book = &checker->book[lane];
    uint64_t device = checker->config.sched.sm_count * UINT64_C(1000), most = 0;

    for (uint32_t i = book->completed; i < issued; i++) {
        const struct sched_launch *launch = &book->launch[i];
        uint64_t msm = (launch->blocks * 1000 + launch->blocks_per_sm - 1) / launch->blocks_per_sm;

        msm = launch->kernel == 0 ? 0 : msm > device ? device : msm;
        most = msm > most ? msm : most;
    }
    return most;
}

static void check_books(const struct checker *checker)
{
    struct sched_load load = load_of(checker->sched);
    uint64_t msm = 0, inflight = 0, lanes = 0;

    for (uint32_t i = 0; i < LANES; i++) {
        const struct book *book = &checker->book[i];
        inflight += book->issued - book->completed;
        lanes += book->issued > book->completed;
        msm += lane_msm(checker, i, book->issued);
    }
    cr_assert(eq(u64, load.msm, msm), "seed %lu", (unsigned long)checker->seed);
    cr_assert(eq(u64, load.inflight, inflight), "seed %lu", (unsigned long)checker->seed);
    cr_assert(eq(u64, load.lanes_inflight, lanes), "seed %lu", (unsigned long)checker->seed);
}

static void on_submitted(void *arg, uint64_t now_ns, uint32_t lane, const struct sched_launch *launch)
{
    struct checker *checker = arg;
    struct book *book = &checker->book[lane];

    cr_assert(lt(u32, book->submitted, LAUNCHES));
    if (book->issued == book->submitted)
        book->head_ns[book->submitted] = now_ns;
    book->launch[book->submitted++] = *launch;
}

static void issued_one(struct checker *checker, uint64_t now_ns, uint32_t lane, uint64_t seq)
{
    struct book *book = &checker->book[lane];

    cr_assert(eq(u64, seq, book->issued + 1), "lane %u out of order, seed %lu", lane, (unsigned long)checker->seed);
    cr_assert(lt(u32, book->issued, book->submitted));
    book->issued++;
    if (book->issued < book->submitted)
        book->head_ns[book->issued] = now_ns;
}

/* Before a launch is issued: does the decision say what is the case? */
static void check_decision(const struct checker *checker, uint64_t now_ns, const struct sched_decision *decision)
{
    uint32_t lane = decision->member[0].lane;
    const struct book *book = &checker->book[lane];
    const struct sched_launch *launch = &book->launch[book->issued];
    uint64_t due_ns = launch->submit_ns + checker->config.sched.hold_cap_ns;
    uint64_t others = 0, msm = lane_msm(checker, lane, book->issued + 1);

    for (uint32_t i = 0; i < LANES; i++) {
        if (i != lane) {
            others += checker->book[i].issued - checker->book[i].completed;
            msm += lane_msm(checker, i, checker->book[i].issued);
        }
    }
    bool fits = msm <= checker->config.sched.sm_count * UINT64_C(1000);

    cr_assert(eq(int, decision->kind, sched_reason_kind(decision->reason)));
    if (decision->kind == SCHED_ALONE)
        cr_assert(others == 0 || launch->kernel == 0, "seed %lu", (unsigned long)checker->seed);
    else if (decision->kind == SCHED_COSCHEDULE)
        cr_assert(gt(u64, others, 0), "seed %lu", (unsigned long)checker->seed);
    else
        cr_assert(eq(int, decision->kind, SCHED_COALESCE));
    if (decision->reason == SCHED_REASON_CAP || decision->reason == SCHED_REASON_NO_FIT_CAP ||
        decision->reason == SCHED_REASON_CAP_ALONE)
        cr_assert(due_ns <= now_ns || !checker->trust_reasons, "seed %lu", (unsigned long)checker->seed);
    if (checker->trust_reasons && (decision->reason == SCHED_REASON_FITS || decision->reason == SCHED_REASON_CAP))
        cr_assert(fits, "%s, seed %lu", sched_reason_name(decision->reason), (unsigned long)checker->seed);
    if (checker->trust_reasons && decision->reason == SCHED_REASON_NO_FIT_CAP)
        cr_assert(fits == false, "seed %lu", (unsigned long)checker->seed);
}

static void on_decided(void *arg, uint64_t now_ns, const struct sched_decision *decision)
{
    struct checker *checker = arg;

    cr_assert(ge(u32, decision->count, 1));
    check_decision(checker, now_ns, decision);
    for (uint32_t i = 0; i < decision->count; i++) {
        uint32_t lane = decision->member[i].lane;
        const struct book *book = &checker->book[lane];

        cr_assert(lt(u32, lane, LANES));
        issued_one(checker, now_ns, lane, decision->member[i].seq);

        uint64_t due_ns = book->launch[book->issued - 1].submit_ns + checker->config.sched.hold_cap_ns;
        uint64_t head_ns = book->head_ns[book->issued - 1];
        if (checker->config.issue_ns == 0)
            cr_assert(now_ns <= (due_ns > head_ns ? due_ns : head_ns), "held beyond its cap, seed %lu",
                      (unsigned long)checker->seed);
        mix(checker, lane);
        mix(checker, decision->member[i].seq);
    }
    mix(checker, now_ns);
    mix(checker, decision->reason);
    checker->decisions++;
    checker->beside += decision->kind == SCHED_COSCHEDULE;
    checker->forced += decision->reason == SCHED_REASON_CAP || decision->reason == SCHED_REASON_NO_FIT_CAP;
}

static void on_flushed(void *arg, uint64_t now_ns, uint32_t lane, const struct sched_launch *launch)
{
    issued_one(arg, now_ns, lane, launch->seq);
}

static void on_completed(void *arg, uint64_t now_ns, uint32_t lane, uint64_t seq)
{
    struct checker *checker = arg;

    checker->book[lane].completed = (uint32_t)seq;
    check_books(checker);
}

static void on_held(void *arg, uint64_t now_ns, uint64_t wake_ns, const struct sched_decision *decision)
{
    struct checker *checker = arg;
    uint64_t nearest = SCHED_NEVER, inflight = 0;
    uint32_t heads = 0, active = 0;

    for (uint32_t i = 0; i < LANES; i++) {
        const struct book *book = &checker->book[i];
        inflight += book->issued - book->completed;
        active += book->submitted > book->completed;
        if (book->issued == book->submitted)
            continue;

        const struct sched_launch *head = &book->launch[book->issued];
        uint64_t due_ns = head->submit_ns + checker->config.sched.hold_cap_ns;
        heads++;
        nearest = due_ns < nearest ? due_ns : nearest;
        cr_assert(head->kernel != 0 && !head->glued, "never held, seed %lu", (unsigned long)checker->seed);
    }
    cr_assert(eq(int, decision->kind, SCHED_HOLD));
    cr_assert(eq(int, sched_reason_kind(decision->reason), SCHED_HOLD));
    cr_assert(heads == 0 || inflight > 0, "the device idles, seed %lu", (unsigned long)checker->seed);
    cr_assert(heads == 0 || active > 1, "the only lane is held, seed %lu", (unsigned long)checker->seed);
    cr_assert(heads > 0 || wake_ns == SCHED_NEVER);
    cr_assert(wake_ns > now_ns && wake_ns <= nearest, "seed %lu", (unsigned long)checker->seed);
    check_books(checker);
    mix(checker, wake_ns);
    checker->holds++;
}

/* ---- random worlds ---- */

static void draw_steps(uint64_t *seed, uint32_t sms, struct world_step *steps)
{
    uint64_t largest = 1 + below(seed, sms * 6); /* some lanes have only small grids */

    for (uint32_t i = 0; i < STEPS; i++) {
        uint16_t per_sm = (uint16_t)(1 + below(seed, 4));
        steps[i] = (struct world_step){
            .gap_ns = below(seed, 3) ? below(seed, 3000) : 0,
            .run_ns = 1 + below(seed, 20) * below(seed, 1000),
            .kernel = below(seed, 12) ? 1 + below(seed, 9) : 0,
            .blocks = 1 + below(seed, largest),
            .blocks_per_sm = per_sm,
            .glued = below(seed, 20) == 0,
            .sync = below(seed, 8) == 0,
        };
    }
}

static void run_world(uint64_t seed, const struct sched_policy_ops *policy, struct checker *checker)
{
    static struct world_step steps[LANES][STEPS];
    uint64_t draws = seed;
    struct world_observer observer = {checker, on_submitted, on_decided, on_flushed, on_completed, on_held};
    struct world *world;

    *checker = (struct checker){.seed = seed, .trust_reasons = policy != &wild};
    checker->config = (struct world_config){
        .sched = {.sm_count = 1 + (uint32_t)below(&draws, 40),
                  .window = 1 + (uint32_t)below(&draws, 20),
                  .hold_cap_ns = below(&draws, 8) ? 1 + below(&draws, 30000) : 0},
        .policy = policy,
        .issue_ns = below(&draws, 3) ? 0 : below(&draws, 2000),
        .report_ns = below(&draws, 3) ? below(&draws, 3000) : 0,
        .flush_on_sync = below(&draws, 2),
    };
    world = world_create(&checker->config, &observer);
    cr_assert(ne(ptr, (void *)world, NULL));
    checker->world = world;
    checker->sched = world_sched(world);
    for (uint32_t i = 0; i < LANES; i++) {
        struct sched_lane_attr attr = {.slo_ns = below(&draws, 3) ? 0 : 1 + below(&draws, 200000),
                                       .weight = 1 + (uint32_t)below(&draws, 1000)};
        draw_steps(&draws, checker->config.sched.sm_count, steps[i]);
        world_add_lane(world, &attr, below(&draws, 20000), steps[i], STEPS, 1 + (uint32_t)below(&draws, 4));
    }
    cr_assert(world_run(world, UINT64_C(1) << 40), "not done, seed %lu", (unsigned long)seed);
    for (uint32_t i = 0; i < LANES; i++)
        cr_assert(eq(u32, checker->book[i].completed, world_count(world, i)));
    world_destroy(world);
}

static void run_worlds(const struct sched_policy_ops *policy)
{
    static struct checker checker;
    uint64_t holds = 0, beside = 0, forced = 0;

    for (uint64_t seed = 1; seed <= WORLDS; seed++) {
        run_world(seed, policy, &checker);
        holds += checker.holds;
        beside += checker.beside;
        forced += checker.forced;
    }
    /* The worlds must be such that there is something to check. */
    cr_expect(gt(u64, holds, 1000));
    cr_expect(gt(u64, beside, 1000));
    cr_expect(gt(u64, forced, 100));
}

Test(properties, order_cap_work_conservation_and_load_hold_with_policy_fit)
{
    run_worlds(&sched_policy_fit);
}

Test(properties, order_cap_work_conservation_and_load_hold_with_policy_fifo)
{
    run_worlds(&sched_policy_fifo);
}

Test(properties, order_cap_work_conservation_and_load_hold_with_policy_alone)
{
    run_worlds(&sched_policy_alone);
}

Test(properties, order_cap_work_conservation_and_load_hold_with_a_policy_that_answers_anything)
{
    run_worlds(&wild);
}

Test(properties, the_same_input_gives_the_same_decisions)
{
    static const struct sched_policy_ops *const policies[] = {&sched_policy_fit, &sched_policy_fifo,
                                                              &sched_policy_alone, &wild};
    static struct checker first, second;

    for (size_t p = 0; p < 4; p++) {
        for (uint64_t seed = 1000; seed < 1020; seed++) {
            run_world(seed, policies[p], &first);
            run_world(seed, policies[p], &second);
            cr_assert(eq(u64, first.decisions, second.decisions));
            cr_assert(eq(u64, first.hash, second.hash), "%s, seed %lu", policies[p]->name, (unsigned long)seed);
        }
    }
}

Test(properties, different_policies_decide_differently)
{
    static struct checker fit, fifo;

    run_world(7, &sched_policy_fit, &fit);
    run_world(7, &sched_policy_fifo, &fifo);
    cr_expect(ne(u64, fit.hash, fifo.hash)); /* or else the hash says nothing */
}

/* ---- random calls: what a world does not do ---- */

enum { CALL_LANES = 6, CALL_TOKENS = 4000 };

/* Everything known of a lane, by token. */
struct model {
    bool present, offered;
    uint64_t head, issued, completed;
    bool reported[CALL_TOKENS];
    uint64_t msm[CALL_TOKENS];
};

static void model_add(struct sched *sched, struct model *model, uint32_t lane, uint64_t *seed)
{
    struct sched_lane_attr attr = {.slo_ns = below(seed, 2) * 5000, .weight = 1 + (uint32_t)below(seed, 9)};

    memset(model, 0, sizeof(*model));
    model->present = true;
    cr_assert(eq(int, sched_lane_add(sched, lane, &attr), 0));
}

static void model_issue(struct sched *sched, struct model *model, uint32_t lane, uint64_t seq, uint64_t msm)
{
    struct sched_launch launch = kernel(seq, 0, msm / 1000);

    issue(sched, lane, launch, 0);
    if (seq > model->issued)
        model->issued = seq;
    if (!model->reported[seq] && model->issued - seq < 64) {
        model->reported[seq] = true;
        model->msm[seq] = msm;
    }
    if (model->offered && model->head <= seq)
        model->offered = false;
}

/* A thread flushed some launches, and the reports come in any order, some twice, some late, some after completion. */
static void model_flush(struct sched *sched, struct model *model, uint32_t lane, uint64_t *seed)
{
    uint64_t base = model->issued;
    uint64_t count = 1 + below(seed, 6);

    for (uint64_t i = 0; i < 2 * count; i++) {
        uint64_t seq = base + 1 + below(seed, count);
        model_issue(sched, model, lane, seq, 1000 * (1 + below(seed, SMS)));
    }
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t seq = model->issued - below(seed, model->issued < 80 ? model->issued : 80);
        model_issue(sched, model, lane, seq, 1000 * (1 + below(seed, SMS)));
    }
}

static void model_complete(struct sched *sched, struct model *model, uint32_t lane, uint64_t *seed)
{
    uint64_t seq = model->completed + below(seed, 4);

    if (seq > model->issued + 2 || seq >= CALL_TOKENS)
        seq = model->issued;
    sched_complete(sched, lane, seq, 0);
    if (seq > model->completed)
        model->completed = seq;
    if (model->offered && model->head <= model->completed)
        model->offered = false;
}

static void model_offer(struct sched *sched, struct model *model, uint32_t lane, uint64_t *seed)
{
    uint64_t last = model->issued > model->completed ? model->issued : model->completed;
    struct sched_launch launch = kernel(last + 1 - below(seed, 3), 0, 1 + below(seed, SMS));

    if (last < 3 || below(seed, 4) == 0)
        launch.seq = last + 1;
    if (below(seed, 6) == 0) {
        cr_assert(eq(int, sched_offer(sched, lane, NULL), 0));
        model->offered = false;
        return;
    }
    launch.submit_ns = below(seed, 100000);
    cr_assert(eq(int, sched_offer(sched, lane, &launch), launch.seq == last + 1 ? 0 : -22));
    if (launch.seq == last + 1) {
        model->offered = true;
        model->head = launch.seq;
    }
}

/* The lists of a view name each lane that belongs to them, once. */
static void check_lists(const struct sched *sched, uint64_t seed)
{
    const struct sched_view *view = sched_view(sched);
    uint32_t active[CALL_LANES] = {0}, flying[CALL_LANES] = {0}, heads[CALL_LANES] = {0};

    for (uint32_t i = 0; i < view->actives; i++)
        active[view->active[i]]++;
    for (uint32_t i = 0; i < view->lanes_inflight; i++)
        flying[view->flying[i]]++;
    for (uint32_t i = 0; i < view->heads; i++)
        heads[view->head[i].lane]++;
    for (uint32_t i = 0; i < CALL_LANES; i++) {
        cr_assert(eq(u32, active[i], view->lane[i].active), "seed %lu", (unsigned long)seed);
        cr_assert(eq(u32, flying[i], view->lane[i].inflight > 0), "seed %lu", (unsigned long)seed);
        cr_assert(eq(u32, heads[i], view->lane[i].offered), "seed %lu", (unsigned long)seed);
    }
}

static void check_model(const struct sched *sched, const struct model *models, uint64_t seed)
{
    struct sched_load load = load_of(sched);
    uint64_t msm = 0, inflight = 0, lanes = 0, offered = 0;

    for (uint32_t i = 0; i < CALL_LANES; i++) {
        const struct model *model = &models[i];
        uint64_t most = 0;
        if (!model->present)
            continue;
        for (uint64_t seq = model->completed + 1; seq <= model->issued; seq++)
            most = model->reported[seq] && model->msm[seq] > most ? model->msm[seq] : most;
        msm += most;
        inflight += model->issued > model->completed ? model->issued - model->completed : 0;
        lanes += model->issued > model->completed;
        offered += model->offered;
    }
    cr_assert(eq(u64, load.msm, msm), "seed %lu", (unsigned long)seed);
    cr_assert(eq(u64, load.inflight, inflight), "seed %lu", (unsigned long)seed);
    cr_assert(eq(u64, load.lanes_inflight, lanes), "seed %lu", (unsigned long)seed);
    cr_assert(eq(u64, load.offered, offered), "seed %lu", (unsigned long)seed);
}

static void ask_next(struct sched *sched, struct model *models, uint64_t *seed)
{
    struct sched_decision decision;
    uint64_t wake_ns;

    if (sched_next(sched, below(seed, 100000), &decision, &wake_ns) == 0)
        return;
    for (uint32_t i = 0; i < decision.count; i++) {
        struct model *model = &models[decision.member[i].lane];
        cr_assert(model->present && model->offered);
        cr_assert(eq(u64, decision.member[i].seq, model->head));
        model->offered = false;
    }
}

static void random_calls(uint64_t seed, const struct sched_policy_ops *policy)
{
    static struct model models[CALL_LANES];
    struct sched_config config = {.sm_count = SMS, .window = 1 + (uint32_t)seed % 8, .hold_cap_ns = 20000};
    uint64_t draws = seed;
    struct sched *sched;

    memset(models, 0, sizeof(models));
    cr_assert(eq(int, sched_create_with(&config, policy, &sched), 0));
    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t lane = (uint32_t)below(&draws, CALL_LANES);
        struct model *model = &models[lane];
        uint64_t what = below(&draws, 100);

        if (!model->present) {
            model_add(sched, model, lane, &draws);
        } else if (what < 3 || model->issued + 40 > CALL_TOKENS) {
            sched_lane_remove(sched, lane);
            model->present = false;
        } else if (what < 25) {
            model_flush(sched, model, lane, &draws);
        } else if (what < 50) {
            model_complete(sched, model, lane, &draws);
        } else if (what < 75) {
            model_offer(sched, model, lane, &draws);
        } else {
            ask_next(sched, models, &draws);
        }
        check_model(sched, models, seed);
        check_lists(sched, seed);
    }
    sched_destroy(sched);
}

Test(properties, load_equals_a_recomputation_after_any_sequence_of_calls)
{
    for (uint64_t seed = 1; seed <= 40; seed++)
        random_calls(seed, seed % 2 ? &sched_policy_fit : &wild);
}
