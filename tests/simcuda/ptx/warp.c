/* SPDX-License-Identifier: Apache-2.0
 *
 * What lanes do together or what changes their state: barriers, warp exchange, calls, leaving. Everything here handles
 * lanes one by one through their own frame and pc, so it does not matter whether they arrived together.
 */
#include "tests/simcuda/ptx/exec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FOR_LANES(lane, set)                                                                                           \
    for (uint32_t left_##lane = (set), lane = 0; left_##lane && ((lane = (uint32_t)__builtin_ctz(left_##lane)), true); \
         left_##lane &= left_##lane - 1)

/* The instruction that a waiting lane stands behind. */
static const struct insn *lane_insn(const struct run *run, const struct warp *warp, unsigned lane)
{
    return &run->code[warp->pc[lane] - 1];
}

static uint64_t read_operand(struct run *run, struct warp *warp, unsigned lane, uint32_t operand)
{
    if (operand & 2) {
        const char *constants = run_constants(run, warp->frame[lane].function);
        const char *row = constants + (operand & ~3u);
        return operand & 1 ? *(const uint64_t *)(const void *)row : *(const uint32_t *)(const void *)row;
    }
    return operand & 1 ? *lane_row64(warp, lane, operand) : *lane_row32(warp, lane, operand);
}

static void write_result(struct warp *warp, unsigned lane, uint32_t operand, uint64_t value)
{
    if (operand & 1)
        *lane_row64(warp, lane, operand) = value;
    else
        *lane_row32(warp, lane, operand) = (uint32_t)value;
}

static bool read_predicate(const struct warp *warp, unsigned lane, uint16_t ps)
{
    return ((warp->preds[warp->frame[lane].bp + (ps >> 1)] >> lane) ^ ps) & 1;
}

static void write_predicate(struct warp *warp, unsigned lane, uint16_t pd, bool value)
{
    if (pd) {
        uint32_t *word = &warp->preds[warp->frame[lane].bp + pd];
        *word = (*word & ~(UINT32_C(1) << lane)) | (uint32_t)value << lane;
    }
}

/* ---- block barriers ---- */

/* Threads that left, and lanes that a block of a crooked size never had, count as arrived. */
static bool barrier_complete(const struct run *run, const struct block_state *block, const struct barrier *barrier)
{
    uint32_t threads = 0;
    bool all = true;
    for (uint32_t i = 0; i < run->warps; i++) {
        const uint32_t live = block->warps[i].live;
        all &= (live & ~barrier->arrived[i]) == 0;
        if (barrier->arrived[i])
            threads += (uint32_t)__builtin_popcount(barrier->arrived[i] | ~live);
    }
    return barrier->expected ? threads >= barrier->expected : all;
}

static void barrier_release(struct run *run, struct block_state *block, struct barrier *barrier)
{
    for (uint32_t i = 0; i < run->warps; i++) {
        struct warp *warp = &block->warps[i];
        FOR_LANES(lane, barrier->waiting[i])
        {
            const struct insn *insn = lane_insn(run, warp, lane);
            if (insn->sub == BAR_POPC)
                write_result(warp, lane, insn->o[0], barrier->popc);
            else if (insn->sub == BAR_AND || insn->sub == BAR_OR)
                write_predicate(warp, lane, insn->pd, insn->sub == BAR_AND ? barrier->all : barrier->any);
        }
        warp->run |= barrier->waiting[i];
        warp->wait_bar &= ~barrier->waiting[i];
    }
    *barrier = (struct barrier){0};
}

void warp_barrier(struct run *run, struct warp *warp, const struct insn *insn, uint32_t lanes)
{
    struct block_state *block = warp->block;
    uint32_t touched = 0;
    FOR_LANES(lane, lanes)
    {
        uint32_t number = (uint32_t)read_operand(run, warp, lane, insn->o[1]) % BARRIERS;
        struct barrier *barrier = &block->barriers[number];
        if (!barrier->in_use) {
            barrier->in_use = barrier->all = true;
            barrier->expected = insn->count ? (uint32_t)read_operand(run, warp, lane, insn->o[2]) : 0;
        }
        if (insn->sub >= BAR_POPC) {
            bool value = read_predicate(warp, lane, insn->ps);
            barrier->popc += value;
            barrier->all &= value;
            barrier->any |= value;
        }
        barrier->arrived[warp->index] |= UINT32_C(1) << lane;
        if (insn->sub != BAR_ARRIVE) {
            barrier->waiting[warp->index] |= UINT32_C(1) << lane;
            warp->wait_bar |= UINT32_C(1) << lane;
            warp->run &= ~(UINT32_C(1) << lane);
        }
        touched |= UINT32_C(1) << number;
    }
    FOR_LANES(number, touched)
    {
        if (barrier_complete(run, block, &block->barriers[number]))
            barrier_release(run, block, &block->barriers[number]);
    }
}

/* ---- exchange in a warp ---- */

struct exchange {
    uint32_t set;
    uint64_t a[PTX_WARP_LANES];
    uint32_t ballot;
};

static void shuffle(struct run *run, struct warp *warp, const struct exchange *x)
{
    FOR_LANES(lane, x->set)
    {
        const struct insn *insn = lane_insn(run, warp, lane);
        int b = (int)read_operand(run, warp, lane, insn->o[2]) & 31;
        uint32_t c = (uint32_t)read_operand(run, warp, lane, insn->o[3]);
        int segment = c >> 8 & 31, self = (int)lane;
        int most = (self & segment) | ((int)(c & 31) & ~segment), from;
        bool good;
        switch (insn->sub) {
        case WS_SHFL_UP:
            from = self - b;
            good = from >= most;
            break;
        case WS_SHFL_DOWN:
            from = self + b;
            good = from <= most;
            break;
        case WS_SHFL_BFLY:
            from = self ^ b;
            good = from <= most;
            break;
        default:
            from = (self & segment) | (b & ~segment);
            good = from <= most;
        }
        if (!good || !(x->set >> (from & 31) & 1))
            from = self; /* a source that does not take part has no defined value */
        write_result(warp, lane, insn->o[0], x->a[from]);
        write_predicate(warp, lane, insn->pd, good);
    }
}

static uint32_t reduce(const struct insn *insn, const struct exchange *x)
{
    struct insn step = *insn;
    step.sub = insn->compare;
    step.shift = 32;
    uint32_t first = (uint32_t)__builtin_ctz(x->set);
    uint64_t value = x->a[first];
    FOR_LANES(lane, x->set & (x->set - 1))
    value = atomic_new_value(&step, value, x->a[lane], 0);
    return (uint32_t)value;
}

static void match(struct warp *warp, const struct insn *insn, const struct exchange *x, unsigned lane)
{
    uint32_t equal = 0;
    FOR_LANES(other, x->set)
    equal |= (uint32_t)(x->a[other] == x->a[lane]) << other;
    bool all = equal == x->set;
    if (insn->sub == WS_MATCH_ALL)
        equal = all ? x->set : 0;
    write_result(warp, lane, insn->o[0], equal);
    write_predicate(warp, lane, insn->pd, all);
}

/* All lanes of `set` stand behind an exchange of the same kind. */
static void exchange(struct run *run, struct warp *warp, uint32_t set)
{
    struct exchange x = {.set = set};
    const uint32_t leader = (uint32_t)__builtin_ctz(set);
    const struct insn *first = lane_insn(run, warp, leader);
    if (first->sub == WS_BARRIER)
        return;
    FOR_LANES(lane, set)
    {
        const struct insn *insn = lane_insn(run, warp, lane);
        x.a[lane] = read_operand(run, warp, lane, insn->o[1]);
        x.ballot |= (uint32_t)read_predicate(warp, lane, insn->ps) << lane;
    }
    if (first->sub <= WS_SHFL_IDX) {
        shuffle(run, warp, &x);
        return;
    }
    const uint32_t reduced = first->sub == WS_REDUX ? reduce(first, &x) : 0;
    FOR_LANES(lane, set)
    {
        const struct insn *insn = lane_insn(run, warp, lane);
        switch (insn->sub) {
        case WS_VOTE_ALL:
            write_predicate(warp, lane, insn->pd, x.ballot == set);
            break;
        case WS_VOTE_ANY:
            write_predicate(warp, lane, insn->pd, x.ballot != 0);
            break;
        case WS_VOTE_UNI:
            write_predicate(warp, lane, insn->pd, x.ballot == set || x.ballot == 0);
            break;
        case WS_VOTE_BALLOT:
            write_result(warp, lane, insn->o[0], x.ballot);
            break;
        case WS_REDUX:
            write_result(warp, lane, insn->o[0], reduced);
            break;
        case WS_ELECT:
            write_result(warp, lane, insn->o[0], leader);
            write_predicate(warp, lane, insn->pd, lane == leader);
            break;
        default:
            match(warp, insn, &x, lane);
        }
    }
}

/* Lets every complete group of waiting lanes go on. */
static void release_exchanges(struct run *run, struct warp *warp)
{
    FOR_LANES(lane, warp->wait_sync)
    {
        if (!(warp->wait_sync >> lane & 1))
            continue; /* went with an earlier lane of this loop */
        uint32_t set = warp->sync_mask[lane] & warp->live;
        bool complete = (set & ~warp->wait_sync) == 0;
        FOR_LANES(other, complete ? set : 0)
        complete &= (warp->sync_mask[other] & warp->live) == set &&
                    lane_insn(run, warp, other)->sub == lane_insn(run, warp, lane)->sub;
        if (complete) {
            exchange(run, warp, set);
            warp->wait_sync &= ~set;
            warp->run |= set;
        }
    }
}

void warp_sync(struct run *run, struct warp *warp, uint32_t lanes)
{
    FOR_LANES(lane, lanes)
    {
        uint32_t mask = (uint32_t)read_operand(run, warp, lane, lane_insn(run, warp, lane)->o[4]);
        warp->sync_mask[lane] = mask | UINT32_C(1) << lane;
    }
    warp->run &= ~lanes;
    warp->wait_sync |= lanes;
    release_exchanges(run, warp);
}

/* ---- clusters ---- */

static void cluster_check(struct cluster *cluster)
{
    if (cluster->arrived && cluster->arrived >= cluster->threads) {
        cluster->arrived = 0;
        cluster->phase++;
    }
}

void warp_cluster_arrive(struct run *run, struct warp *warp, uint32_t lanes)
{
    (void)run;
    struct cluster *cluster = warp->block->cluster;
    FOR_LANES(lane, lanes)
    {
        warp->cluster_phase[lane] = cluster->phase;
        cluster->arrived++;
    }
    cluster_check(cluster);
}

void warp_cluster_wait(struct run *run, struct warp *warp, uint32_t lanes)
{
    (void)run;
    FOR_LANES(lane, lanes)
    {
        if (warp->cluster_phase[lane] == warp->block->cluster->phase) {
            warp->wait_cluster |= UINT32_C(1) << lane;
            warp->run &= ~(UINT32_C(1) << lane);
        }
    }
}

/* ---- leaving ---- */

void warp_exit(struct run *run, struct warp *warp, uint32_t lanes)
{
    struct block_state *block = warp->block;
    warp->live &= ~lanes;
    warp->run &= ~lanes;
    block->cluster->threads -= (uint32_t)__builtin_popcount(lanes);
    cluster_check(block->cluster);
    release_exchanges(run, warp);
    for (uint32_t i = 0; i < BARRIERS; i++) {
        struct barrier *barrier = &block->barriers[i];
        if (barrier->in_use && barrier_complete(run, block, barrier))
            barrier_release(run, block, barrier);
    }
}

/* ---- calls ---- */

static bool grow_rows(char **rows, uint32_t *have, uint32_t want, size_t size)
{
    if (want <= *have)
        return true;
    uint32_t wanted = *have * 2 > want ? *have * 2 : want;
    char *bigger = aligned_alloc(64, ((size_t)wanted * size + 63) & ~(size_t)63);
    if (!bigger)
        return false;
    if (*have)
        memcpy(bigger, *rows, (size_t)*have * size);
    memset(bigger + (size_t)*have * size, 0, (size_t)(wanted - *have) * size);
    free(*rows);
    *rows = bigger;
    *have = wanted;
    return true;
}

bool warp_rows(struct warp *warp, uint32_t rows32, uint32_t rows64, uint32_t rows_pred)
{
    char *preds = (char *)warp->preds;
    bool good = grow_rows(&warp->r32, &warp->rows32, rows32, ROW32) &&
                grow_rows(&warp->r64, &warp->rows64, rows64, ROW64) &&
                grow_rows(&preds, &warp->rows_pred, rows_pred, sizeof(uint32_t));
    warp->preds = (uint32_t *)(void *)preds;
    return good;
}

static bool push(struct warp *warp, unsigned lane)
{
    struct call_stack *stack = &warp->stack[lane];
    uint32_t depth = warp->frame[lane].depth;
    if (depth >= stack->capacity) {
        uint32_t capacity = stack->capacity ? stack->capacity * 2 : 8;
        struct call_record *records = realloc(stack->records, capacity * sizeof(*records));
        if (!records)
            return false;
        stack->records = records;
        stack->capacity = capacity;
    }
    stack->records[depth] = (struct call_record){warp->pc[lane], warp->frame[lane]};
    return true;
}

/* All lanes stand in one frame, because they ran the call together. */
enum ptx_fault_kind warp_call(struct run *run, struct warp *warp, uint32_t lanes, uint32_t callee,
                              const struct call_site *site, bool *nomem)
{
    const struct frame from = warp->frame[__builtin_ctz(lanes)];
    const struct function *caller = &run->module->functions[from.function], *to = &run->module->functions[callee];
    const struct frame frame = {.function = callee,
                                .depth = from.depth + 1,
                                .b32 = from.b32 + caller->n32,
                                .b64 = from.b64 + caller->n64,
                                .bp = from.bp + caller->npred,
                                .fp = (from.fp + caller->frame_bytes + 15) & ~15u};
    const uint32_t arguments = site->args < to->param_count ? site->args : to->param_count;
    if (frame.depth > CALL_DEPTH_MAX || (uint64_t)frame.fp + to->frame_bytes > run->local_stride)
        return PTX_FAULT_STACK_OVERFLOW;
    *nomem =
        !run_constants(run, callee) || !warp_rows(warp, frame.b32 + to->n32, frame.b64 + to->n64, frame.bp + to->npred);
    if (*nomem)
        return PTX_FAULT_NONE;
    warp->preds[frame.bp] |= lanes; /* the "true" row, for these lanes only: others may use the word for their own */
    FOR_LANES(lane, lanes)
    {
        if (!push(warp, lane)) {
            *nomem = true;
            return PTX_FAULT_NONE;
        }
        char *memory = thread_local_memory(run, warp, lane);
        for (uint32_t i = 0; i < arguments; i++) {
            const struct frame_slot *slot = &caller->slots[site->first_arg + i];
            uint32_t bytes = slot->size < to->params[i].size ? slot->size : to->params[i].size;
            memcpy(memory + frame.fp + to->params[i].offset, memory + from.fp + slot->offset, bytes);
        }
        warp->frame[lane] = frame;
        warp->pc[lane] = to->first_pc;
    }
    return PTX_FAULT_NONE;
}

void warp_return(struct run *run, struct warp *warp, uint32_t lanes)
{
    FOR_LANES(lane, lanes)
    {
        const struct frame frame = warp->frame[lane];
        const struct call_record *record = &warp->stack[lane].records[frame.depth - 1];
        const struct function *callee = &run->module->functions[frame.function];
        const struct function *caller = &run->module->functions[record->frame.function];
        const struct call_site *site = &caller->calls_at[run->code[record->pc - 1].imm];
        if (site->result >= 0 && callee->result_count) {
            const struct frame_slot *slot = &caller->slots[site->result];
            uint32_t bytes = slot->size < callee->results[0].size ? slot->size : callee->results[0].size;
            char *memory = thread_local_memory(run, warp, lane);
            memcpy(memory + record->frame.fp + slot->offset, memory + frame.fp + callee->results[0].offset, bytes);
        }
        warp->frame[lane] = record->frame;
        warp->pc[lane] = record->pc;
    }
}

/* printf, malloc and free: the result is zero. */
void warp_builtin(struct run *run, struct warp *warp, uint32_t lanes, const struct call_site *site)
{
    FOR_LANES(lane, lanes)
    {
        const struct frame *frame = &warp->frame[lane];
        if (site->result >= 0) {
            const struct frame_slot *slot = &run->module->functions[frame->function].slots[site->result];
            memset(thread_local_memory(run, warp, lane) + frame->fp + slot->offset, 0, slot->size);
        }
    }
}

/* ---- mbarrier objects: one 64-bit word of shared memory ---- */

/*
 * Bits 0..19 pending arrivals, 20..39 expected arrivals of the next phase, 40..61 bytes that are still to come
 * (signed), 63 parity of the phase. The layout is ours; programs treat it as opaque.
 */
enum { MBAR_BITS = 20, MBAR_TX_BITS = 22 };
static const uint64_t mbar_field = (UINT64_C(1) << MBAR_BITS) - 1;

struct mbar {
    uint64_t pending, expected;
    int64_t tx;
    uint64_t parity;
};

static struct mbar mbar_unpack(uint64_t word)
{
    return (struct mbar){word & mbar_field, word >> MBAR_BITS & mbar_field, (int64_t)(word << 2) >> (64 - MBAR_TX_BITS),
                         word >> 63};
}

static uint64_t mbar_pack(const struct mbar *bar)
{
    uint64_t tx = (uint64_t)bar->tx & ((UINT64_C(1) << MBAR_TX_BITS) - 1);
    return (bar->pending & mbar_field) | (bar->expected & mbar_field) << MBAR_BITS | tx << 2 * MBAR_BITS |
           bar->parity << 63;
}

static void mbar_settle(struct mbar *bar)
{
    if (bar->pending == 0 && bar->tx == 0) {
        bar->pending = bar->expected;
        bar->parity ^= 1;
    }
}

static void mbar_arrive(struct mbar *bar, uint64_t count)
{
    bar->pending -= count > bar->pending ? bar->pending : count;
}

void warp_mbarrier(struct run *run, struct warp *warp, const struct insn *insn, unsigned lane, char *at, bool *poll)
{
    uint64_t word, operand = read_operand(run, warp, lane, insn->o[2]);
    memcpy(&word, at, sizeof(word));
    struct mbar bar = mbar_unpack(word);
    bool done;
    switch (insn->sub) {
    case MBAR_INIT:
        bar = (struct mbar){operand & mbar_field, operand & mbar_field, 0, 0};
        break;
    case MBAR_INVAL:
        bar = (struct mbar){0};
        break;
    case MBAR_EXPECT:
        bar.tx += (int64_t)(uint32_t)operand;
        break;
    case MBAR_COMPLETE:
        bar.tx -= (int64_t)(uint32_t)operand;
        break;
    case MBAR_ARRIVE_EXPECT:
        bar.tx += (int64_t)(uint32_t)operand;
        mbar_arrive(&bar, 1);
        break;
    case MBAR_ARRIVE_DROP:
        bar.expected -= (uint32_t)operand > bar.expected ? bar.expected : (uint32_t)operand;
        mbar_arrive(&bar, (uint32_t)operand);
        break;
    case MBAR_ARRIVE:
        mbar_arrive(&bar, (uint32_t)operand);
        break;
    case MBAR_CP_ASYNC_NOINC:
        mbar_arrive(&bar, 1);
        break; /* earlier copies are done: it arrives at once */
    case MBAR_CP_ASYNC:
        break; /* adds one pending arrival and makes it */
    case MBAR_TEST:
    case MBAR_TEST_PARITY:
        done = insn->sub == MBAR_TEST ? bar.parity != operand >> 63 : bar.parity != (operand & 1);
        write_predicate(warp, lane, insn->pd, done);
        *poll |= !done;
        return;
    default:
        return;
    }
    if (insn->sub != MBAR_INIT && insn->sub != MBAR_INVAL)
        mbar_settle(&bar);
    if (insn->sub == MBAR_ARRIVE || insn->sub == MBAR_ARRIVE_DROP || insn->sub == MBAR_ARRIVE_EXPECT)
        write_result(warp, lane, insn->o[0], word); /* the phase before */
    word = mbar_pack(&bar);
    memcpy(at, &word, sizeof(word));
}

/* ---- special registers ---- */

uint64_t special_value64(const struct run *run, const struct warp *warp, unsigned lane, unsigned which)
{
    switch (which) {
    case SR_GRIDID:
        return run->launch->grid_id;
    case SR_CLOCK:
    case SR_CLOCK_HI:
    case SR_CLOCK64: { /* one tick per nanosecond and per instruction: moves with both */
        struct ptx_stats now = run->stats;
        return run_now(run) - run->start_ns + now.warp_instructions;
    }
    case SR_GLOBALTIMER:
    case SR_GLOBALTIMER_LO:
    case SR_GLOBALTIMER_HI:
        return run_now(run);
    default:
        return special_value32(run, warp, lane, which);
    }
}

uint32_t special_value32(const struct run *run, const struct warp *warp, unsigned lane, unsigned which)
{
    const struct block_state *block = warp->block;
    const struct ptx_launch *launch = run->launch;
    const uint32_t below = (UINT32_C(1) << lane) - 1, self = UINT32_C(1) << lane;
    switch (which) {
    case SR_TID_X:
    case SR_TID_Y:
    case SR_TID_Z:
        return warp->tid[which - SR_TID_X][lane];
    case SR_NTID_X:
    case SR_NTID_Y:
    case SR_NTID_Z:
        return launch->block[which - SR_NTID_X];
    case SR_CTAID_X:
    case SR_CTAID_Y:
    case SR_CTAID_Z:
        return block->ctaid[which - SR_CTAID_X];
    case SR_NCTAID_X:
    case SR_NCTAID_Y:
    case SR_NCTAID_Z:
        return launch->grid[which - SR_NCTAID_X];
    case SR_LANEID:
        return lane;
    case SR_WARPID:
        return warp->index;
    case SR_NWARPID:
        return run->warps;
    case SR_SMID:
        return (uint32_t)(block->index % (launch->sm_count ? launch->sm_count : 1));
    case SR_NSMID:
        return launch->sm_count ? launch->sm_count : 1;
    case SR_LANEMASK_EQ:
        return self;
    case SR_LANEMASK_LT:
        return below;
    case SR_LANEMASK_LE:
        return below | self;
    case SR_LANEMASK_GT:
        return ~(below | self);
    case SR_LANEMASK_GE:
        return ~below;
    case SR_DYNAMIC_SMEM_SIZE:
        return launch->dynamic_shared;
    case SR_TOTAL_SMEM_SIZE:
        return run->shared_bytes;
    case SR_DYNAMIC_SMEM_START:
        return run->static_shared;
    case SR_CLUSTERID_X:
    case SR_CLUSTERID_Y:
    case SR_CLUSTERID_Z:
        return block->ctaid[which - SR_CLUSTERID_X] / run->cluster[which - SR_CLUSTERID_X];
    case SR_NCLUSTERID_X:
    case SR_NCLUSTERID_Y:
    case SR_NCLUSTERID_Z:
        return launch->grid[which - SR_NCLUSTERID_X] / run->cluster[which - SR_NCLUSTERID_X];
    case SR_CLUSTER_CTAID_X:
    case SR_CLUSTER_CTAID_Y:
    case SR_CLUSTER_CTAID_Z:
        return block->cluster_ctaid[which - SR_CLUSTER_CTAID_X];
    case SR_CLUSTER_NCTAID_X:
    case SR_CLUSTER_NCTAID_Y:
    case SR_CLUSTER_NCTAID_Z:
        return run->cluster[which - SR_CLUSTER_NCTAID_X];
    case SR_CLUSTER_CTARANK:
        return block->cluster_rank;
    case SR_CLUSTER_NCTARANK:
        return run->cluster_size;
    case SR_ENVREG1:
        return (uint32_t)((uint64_t)(uintptr_t)run->workspace >> 32);
    case SR_ENVREG2:
        return (uint32_t)(uintptr_t)run->workspace;
    case SR_IS_EXPLICIT_CLUSTER:
        return launch->cluster[0] != 0;
    case SR_CLOCK:
    case SR_GLOBALTIMER:
    case SR_GLOBALTIMER_LO:
    case SR_CLOCK64:
    case SR_GRIDID:
        return (uint32_t)special_value64(run, warp, lane, which);
    case SR_CLOCK_HI:
    case SR_GLOBALTIMER_HI:
        return (uint32_t)(special_value64(run, warp, lane, which) >> 32);
    default:
        return 0;
    }
}
