/* SPDX-License-Identifier: Apache-2.0
 *
 * Instances and launches: where globals lie, which blocks are in progress, whose turn it is.
 */
#include "tests/simcuda/ptx/exec.h"

#include <errno.h>
#include <fenv.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    TURN_ALONE = 4096,    /* instructions of a warp before the next warp, one block in progress */
    TURN_SHARED = 512,    /* several blocks: a barrier between them costs everybody's turn */
    TURNS_TOTAL = 20000,  /* instructions between looks at `abort`, and between sched_yield calls */
    ROUNDS_PATIENCE = 64, /* rounds without an end of a block before others are started beside it */
    ROUNDS_IDLE = 200,    /* rounds in which all polled before the thread sleeps a little */
    SLEEP_NS_IDLE = 20000,
    SLEEP_NS_MAX = 100000,
};

static const uint64_t MEMORY_MAX = UINT64_C(1) << 36; /* of all blocks in progress; a wrong launch, not a big one */

/* No user memory of x86-64 lies above, with five levels of page tables either; the windows do. */
#define USER_END (UINT64_C(1) << 56)

/* ---- instances ---- */

int ptx_instance_create(const struct ptx_module *module, struct ptx_instance **out)
{
    struct ptx_instance *instance = calloc(1, sizeof(*instance));
    if (!instance)
        return -ENOMEM;
    instance->module = module;
    instance->addresses = calloc((size_t)module->global_count + 1, sizeof(*instance->addresses));
    instance->tables = calloc((size_t)module->function_count + 1, sizeof(*instance->tables));
    if (!instance->addresses || !instance->tables) {
        ptx_instance_destroy(instance);
        return -ENOMEM;
    }
    *out = instance;
    return 0;
}

static void drop_tables(struct ptx_instance *instance)
{
    for (uint32_t i = 0; i < instance->module->function_count; i++) {
        if (instance->tables[i]) {
            free(instance->tables[i]->rows);
            free(instance->tables[i]);
            instance->tables[i] = NULL;
        }
    }
}

void ptx_instance_destroy(struct ptx_instance *instance)
{
    if (!instance)
        return;
    if (instance->tables)
        drop_tables(instance);
    free(instance->tables);
    free(instance->addresses);
    free(instance);
}

int ptx_instance_place_global(struct ptx_instance *instance, size_t index, uint64_t address)
{
    if (index >= instance->module->global_count || address == 0 ||
        address % instance->module->globals[index].info.align)
        return -EINVAL;
    instance->addresses[index] = address;
    drop_tables(instance); /* they may hold the old address */
    return 0;
}

uint64_t ptx_instance_global_address(const struct ptx_instance *instance, size_t index)
{
    return index < instance->module->global_count ? instance->addresses[index] : 0;
}

int ptx_instance_initial_bytes(const struct ptx_instance *instance, size_t index, void *to)
{
    if (index >= instance->module->global_count)
        return -EINVAL;
    const struct global *global = &instance->module->globals[index];
    for (uint32_t i = 0; i < global->address_count; i++) {
        const struct initial_address *address = &global->addresses[i];
        if (address->global >= 0 && instance->addresses[address->global] == 0)
            return -EINVAL;
    }
    if (global->info.init_size)
        memcpy(to, global->init, global->info.init_size);
    memset((char *)to + global->info.init_size, 0, global->info.size - global->info.init_size);
    for (uint32_t i = 0; i < global->address_count; i++) {
        const struct initial_address *address = &global->addresses[i];
        uint64_t value = address->value + (address->global >= 0 ? instance->addresses[address->global] : 0);
        memcpy((char *)to + address->at, &value, sizeof(value));
    }
    return 0;
}

int ptx_instance_initialise(const struct ptx_instance *instance)
{
    for (uint32_t i = 0; i < instance->module->global_count; i++) {
        if (instance->addresses[i] == 0)
            return -EINVAL;
        int error = ptx_instance_initial_bytes(instance, i, (void *)(uintptr_t)instance->addresses[i]);
        if (error)
            return error;
    }
    return 0;
}

/* ---- constants ---- */

static struct constant_table *make_table(const struct ptx_instance *instance, const struct function *function)
{
    struct constant_table *table = calloc(1, sizeof(*table));
    if (!table)
        return NULL;
    table->rows = aligned_alloc(64, (size_t)function->constant_bytes + 64);
    if (!table->rows) {
        free(table);
        return NULL;
    }
    for (uint32_t i = 0; i < function->constant_count; i++) {
        const struct constant *constant = &function->constants[i];
        uint64_t value = constant->value + (constant->global >= 0 ? instance->addresses[constant->global] : 0);
        char *row = table->rows + constant->offset;
        for (unsigned lane = 0; lane < PTX_WARP_LANES; lane++) {
            if (constant->wide)
                ((uint64_t *)(void *)row)[lane] = value;
            else
                ((uint32_t *)(void *)row)[lane] = (uint32_t)value;
        }
    }
    return table;
}

/* Several runs may make the same table; the first one to publish it wins. Acquire pairs with the release below. */
const char *run_constants(struct run *run, uint32_t function)
{
    struct constant_table **slot = &run->instance->tables[function];
    struct constant_table *table = __atomic_load_n(slot, __ATOMIC_ACQUIRE), *none = NULL;
    if (table)
        return table->rows;
    table = make_table(run->instance, &run->module->functions[function]);
    if (!table)
        return NULL;
    if (__atomic_compare_exchange_n(slot, &none, table, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
        return table->rows;
    free(table->rows);
    free(table);
    return none->rows;
}

/* ---- what exec.c asks for ---- */

uint64_t run_now(const struct run *run)
{
    struct timespec now;
    if (run->launch->now_ns)
        return run->launch->now_ns(run->launch->arg);
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The slow way: other kept ranges, then the embedder. What was found moves to the front. */
bool run_access(struct run *run, uint64_t address, uint32_t bytes, bool write)
{
    struct ptx_range *kept = run->ranges[write], range = {address, address + bytes};
    unsigned at;
    if (address >= USER_END || range.hi > USER_END)
        return false;
    for (at = 0; at < RANGES_KEPT; at++) {
        if (address >= kept[at].lo && range.hi <= kept[at].hi)
            break;
    }
    if (at < RANGES_KEPT) {
        range = kept[at];
    } else {
        at = RANGES_KEPT - 1;
        const uint64_t own = (uint64_t)(uintptr_t)run->workspace;
        if (own && address >= own && range.hi <= own + WORKSPACE_BYTES)
            range = (struct ptx_range){own, own + WORKSPACE_BYTES};
        else if (!run->launch->may_access)
            range = (struct ptx_range){0, USER_END};
        else if (!run->launch->may_access(run->launch->arg, address, bytes, write, &range))
            return false;
        range.hi = range.hi > USER_END ? USER_END : range.hi; /* generic accesses to windows must not match */
        if (range.lo > address || range.hi < address + bytes) /* the embedder widened in the wrong direction */
            return true;
    }
    memmove(kept + 1, kept, at * sizeof(*kept));
    kept[0] = range;
    return true;
}

const char *ptx_fault_name(enum ptx_fault_kind kind)
{
    switch (kind) {
    case PTX_FAULT_NONE:
        return "no fault";
    case PTX_FAULT_ILLEGAL_ADDRESS:
        return "illegal address";
    case PTX_FAULT_MISALIGNED:
        return "misaligned address";
    case PTX_FAULT_TRAP:
        return "trap";
    case PTX_FAULT_ASSERT:
        return "assertion failed";
    case PTX_FAULT_BARRIER_DEADLOCK:
        return "barrier deadlock";
    case PTX_FAULT_STACK_OVERFLOW:
        return "stack overflow";
    case PTX_FAULT_BAD_CALL:
        return "call of something that is no function";
    case PTX_FAULT_BAD_LAUNCH:
        return "launch refused";
    }
    return "unknown fault";
}

void run_fault(struct run *run, const struct warp *warp, unsigned lane, enum ptx_fault_kind kind, uint32_t pc,
               uint64_t address, uint32_t bytes, bool write)
{
    struct ptx_fault *fault = run->fault;
    const struct block_state *block = warp->block;
    char access[96] = "";
    fault->kind = kind;
    fault->address = address;
    fault->bytes = bytes;
    fault->write = write;
    fault->line = run->code[pc].line;
    for (int i = 0; i < 3; i++) {
        fault->block[i] = block->ctaid[i];
        fault->thread[i] = warp->tid[i][lane];
    }
    if (bytes)
        snprintf(access, sizeof(access), ": %s of %u bytes at 0x%llx", write ? "write" : "read", bytes,
                 (unsigned long long)address);
    snprintf(fault->text, sizeof(fault->text), "%s in kernel %.80s, line %u, block (%u,%u,%u), thread (%u,%u,%u)%s",
             ptx_fault_name(kind), fault->kernel, fault->line, fault->block[0], fault->block[1], fault->block[2],
             fault->thread[0], fault->thread[1], fault->thread[2], access);
}

/* ---- blocks ---- */

struct grid {
    struct run *run;
    uint64_t blocks, next; /* of the whole grid */
    struct block_state *slots;
    uint32_t slot_limit, slot_count; /* how many there may be, how many have memory */
    uint32_t active;
    uint32_t rounds_without_end, rounds_idle;
    struct cluster *clusters;       /* one for each cluster_size slots, which start together */
    uint64_t yielded_at, looked_at; /* warp instructions when we last did */
    enum step (*exec)(struct run *run, struct warp *warp, uint32_t budget);
};

/* The n-th block: blocks of a cluster follow each other. */
static void place_block(const struct run *run, struct block_state *block, uint64_t n)
{
    const uint32_t *grid = run->launch->grid;
    uint64_t cluster = n / run->cluster_size;
    uint32_t rank = (uint32_t)(n % run->cluster_size);
    block->index = n;
    block->cluster_rank = rank;
    for (int i = 0; i < 3; i++) {
        uint32_t clusters = grid[i] / run->cluster[i];
        block->cluster_ctaid[i] = rank % run->cluster[i];
        rank /= run->cluster[i];
        block->ctaid[i] = (uint32_t)(cluster % clusters) * run->cluster[i] + block->cluster_ctaid[i];
        cluster /= clusters;
    }
}

static void start_warp(const struct run *run, struct warp *warp, uint32_t index)
{
    uint32_t lanes = run->threads - index * PTX_WARP_LANES;
    warp->live = lanes >= PTX_WARP_LANES ? UINT32_MAX : (UINT32_C(1) << lanes) - 1;
    warp->run = warp->live;
    warp->wait_sync = warp->wait_bar = warp->wait_cluster = warp->carry = warp->skip = 0;
    warp->poll_pc = UINT32_MAX;
    warp->preds[0] = UINT32_MAX;
    for (unsigned lane = 0; lane < PTX_WARP_LANES; lane++) {
        warp->pc[lane] = run->kernel->first_pc;
        warp->frame[lane] = (struct frame){.function = (uint32_t)(run->kernel - run->module->functions)};
    }
}

static void start_block(struct grid *grid, struct block_state *block)
{
    struct run *run = grid->run;
    place_block(run, block, grid->next++);
    block->cluster = &grid->clusters[(uint32_t)(block - grid->slots) / run->cluster_size];
    block->cluster->users++;
    block->active = true;
    block->live_warps = run->warps;
    memset(block->barriers, 0, sizeof(block->barriers));
    for (uint32_t i = 0; i < run->warps; i++)
        start_warp(run, &block->warps[i], i);
    grid->active++;
}

/* The next cluster (mostly of one block) in the slots from `first` on. */
static void start_cluster(struct grid *grid, uint32_t first)
{
    const uint32_t size = grid->run->cluster_size;
    grid->clusters[first / size] = (struct cluster){.threads = grid->run->threads * size};
    for (uint32_t i = 0; i < size; i++)
        start_block(grid, &grid->slots[first + i]);
}

static void end_block(struct grid *grid, struct block_state *block)
{
    const uint32_t slot = (uint32_t)(block - grid->slots);
    block->active = false;
    grid->active--;
    grid->rounds_without_end = 0;
    grid->run->stats.blocks++;
    if (--block->cluster->users == 0 && grid->next < grid->blocks)
        start_cluster(grid, slot - slot % grid->run->cluster_size);
}

static void finish_slot(const struct run *run, struct block_state *block)
{
    for (uint32_t i = 0; block->warps && i < run->warps; i++) {
        struct warp *warp = &block->warps[i];
        for (unsigned lane = 0; lane < PTX_WARP_LANES; lane++)
            free(warp->stack[lane].records);
        free(warp->r32);
        free(warp->r64);
        free(warp->preds);
    }
    free(block->warps);
    free(block->shared);
    free(block->local);
}

static int init_slot(const struct run *run, struct block_state *block)
{
    const uint32_t *size = run->launch->block;
    block->warps = calloc(run->warps, sizeof(*block->warps));
    block->shared = aligned_alloc(4096, ((size_t)run->shared_bytes + 4096) & ~(size_t)4095);
    /* calloc leaves untouched pages of a large stack unmapped */
    block->local = calloc((size_t)run->warps * PTX_WARP_LANES, run->local_stride ? run->local_stride : 1);
    if (!block->warps || !block->shared || !block->local)
        return -ENOMEM;
    memset(block->shared, 0, run->shared_bytes);
    for (uint32_t i = 0; i < run->warps; i++) {
        struct warp *warp = &block->warps[i];
        warp->block = block;
        warp->index = i;
        if (!warp_rows(warp, run->kernel->n32 + 1, run->kernel->n64 + 1, run->kernel->npred + 1))
            return -ENOMEM;
        for (uint32_t lane = 0; lane < PTX_WARP_LANES; lane++) {
            uint32_t thread = i * PTX_WARP_LANES + lane;
            warp->tid[0][lane] = thread % size[0];
            warp->tid[1][lane] = thread / size[0] % size[1];
            warp->tid[2][lane] = thread / size[0] / size[1];
        }
    }
    return 0;
}

/* ---- turns ---- */

struct round {
    bool progress;     /* some lane ran */
    bool waits;        /* some lane polled, slept or waits for its cluster */
    bool all_wait;     /* all that ran polled or slept */
    bool all_sleep;    /* all that ran called nanosleep */
    uint32_t sleep_ns; /* the shortest */
};

static void wake_cluster_waiters(struct warp *warp)
{
    for (uint32_t left = warp->wait_cluster; left; left &= left - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(left);
        if (warp->cluster_phase[lane] != warp->block->cluster->phase) {
            warp->wait_cluster &= ~(UINT32_C(1) << lane);
            warp->run |= UINT32_C(1) << lane;
        }
    }
}

static void report_deadlock(struct run *run, const struct block_state *block)
{
    for (uint32_t i = 0; i < run->warps; i++) {
        const struct warp *warp = &block->warps[i];
        if (warp->live) {
            unsigned lane = (unsigned)__builtin_ctz(warp->live);
            run_fault(run, warp, lane, PTX_FAULT_BARRIER_DEADLOCK, warp->pc[lane] - 1, 0, 0, false);
            return;
        }
    }
}

static bool aborted(const struct run *run)
{
    return run->launch->abort && __atomic_load_n(run->launch->abort, __ATOMIC_ACQUIRE);
}

/* Somebody wants the run to end, or it has used what it may. */
static bool stopped(struct grid *grid)
{
    const struct run *run = grid->run;
    const uint64_t now = run->stats.warp_instructions, limit = run->launch->max_instructions;
    if (limit && now >= limit)
        return true;
    if (now - grid->looked_at < TURNS_TOTAL)
        return false;
    grid->looked_at = now;
    return aborted(run);
}

/* One turn for every warp of a block. */
static int turn_block(struct grid *grid, struct block_state *block, struct round *round)
{
    struct run *run = grid->run;
    bool progress = false, waits_for_others = false;
    for (uint32_t i = 0; i < run->warps; i++) {
        struct warp *warp = &block->warps[i];
        if (warp->live == 0)
            continue;
        if (warp->wait_cluster)
            wake_cluster_waiters(warp);
        if (warp->run == 0) {
            waits_for_others |= warp->wait_cluster != 0;
            continue;
        }
        progress = true;
        enum step step = grid->exec(run, warp, grid->slot_count > 1 ? TURN_SHARED : TURN_ALONE);
        if (step == STEP_FAULT)
            return -EFAULT;
        if (step == STEP_NOMEM)
            return -ENOMEM;
        if (step == STEP_SLEEP)
            round->sleep_ns = warp->sleep_ns < round->sleep_ns ? warp->sleep_ns : round->sleep_ns;
        round->all_sleep &= step == STEP_SLEEP;
        round->all_wait &= step == STEP_SLEEP || step == STEP_POLL;
        round->waits |= step == STEP_SLEEP || step == STEP_POLL;
        if (warp->live == 0)
            block->live_warps--;
        if (stopped(grid))
            return -ECANCELED;
    }
    /* lanes that a later warp woke count as progress in the next round */
    if (!progress && !waits_for_others) {
        report_deadlock(run, block);
        return -EFAULT;
    }
    round->progress |= progress;
    round->waits |= waits_for_others;
    return 0;
}

/* Waiting kernels wait for other threads of this process: give them the processor. */
static void rest(struct grid *grid, const struct round *round)
{
    struct timespec pause = {0, SLEEP_NS_IDLE};
    const uint64_t now = grid->run->stats.warp_instructions;
    grid->rounds_idle = round->all_wait ? grid->rounds_idle + 1 : 0;
    if (round->all_sleep)
        pause.tv_nsec = round->sleep_ns < SLEEP_NS_MAX ? (long)round->sleep_ns : SLEEP_NS_MAX;
    if (round->all_sleep || grid->rounds_idle > ROUNDS_IDLE) {
        nanosleep(&pause, NULL);
    } else if (round->all_wait || now - grid->yielded_at >= TURNS_TOTAL) {
        sched_yield();
        grid->yielded_at = now;
    }
}

static int add_cluster(struct grid *grid)
{
    const uint32_t first = grid->slot_count;
    for (uint32_t i = 0; i < grid->run->cluster_size; i++) {
        grid->slot_count++; /* before: a slot that has only part of its memory is freed as well */
        int error = init_slot(grid->run, &grid->slots[first + i]);
        if (error)
            return error;
    }
    start_cluster(grid, first);
    return 0;
}

/*
 * Blocks that run to their end need no company, and fewer blocks in progress fit the cache better. So one starts, and
 * the number doubles whenever a block seems to wait for another: it polls, sleeps, or does not come to its end.
 */
static int add_company(struct grid *grid, const struct round *round, bool *added)
{
    uint32_t wanted = grid->active / grid->run->cluster_size;
    *added = false;
    if (++grid->rounds_without_end < ROUNDS_PATIENCE && !round->waits)
        return 0;
    grid->rounds_without_end = 0;
    while (wanted-- && grid->slot_count < grid->slot_limit && grid->next < grid->blocks) {
        int error = add_cluster(grid);
        if (error)
            return error;
        *added = true;
    }
    return 0;
}

static int run_rounds(struct grid *grid)
{
    struct run *run = grid->run;
    int error = add_cluster(grid);
    while (!error && grid->active) {
        struct round round = {.all_wait = true, .all_sleep = true, .sleep_ns = UINT32_MAX};
        const struct block_state *stuck = NULL;
        bool added;
        for (uint32_t i = 0; i < grid->slot_count; i++) {
            struct block_state *block = &grid->slots[i];
            while (block->active) {
                error = turn_block(grid, block, &round);
                if (error)
                    return error;
                if (block->live_warps) {
                    stuck = block;
                    break;
                }
                end_block(grid, block);
                if (run->cluster_size > 1)
                    break;
            }
        }
        if (!stuck)
            continue;
        error = add_company(grid, &round, &added);
        if (added)
            continue;
        if (!round.progress) { /* every block waits for its cluster */
            report_deadlock(run, stuck);
            return -EFAULT;
        }
        if (aborted(run))
            return -ECANCELED;
        rest(grid, &round);
    }
    return error;
}

static enum step (*best_exec(bool portable))(struct run *run, struct warp *warp, uint32_t budget)
{
#if defined(PTX_HAVE_AVX2)
    if (!portable && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return ptx_exec_avx2;
#endif
    return ptx_exec_plain;
}

static int run_grid(struct run *run)
{
    const struct ptx_launch *launch = run->launch;
    struct grid grid = {.run = run, .exec = best_exec(launch->portable)};
    int error = -ENOMEM;
    grid.blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    uint64_t slots = launch->cooperative ? grid.blocks : launch->concurrent_blocks ? launch->concurrent_blocks : 1;
    slots = (slots + run->cluster_size - 1) / run->cluster_size * run->cluster_size;
    slots = slots > grid.blocks ? grid.blocks : slots; /* a multiple of the cluster as well */
    uint64_t per_block = (uint64_t)run->shared_bytes +
                         (uint64_t)run->warps * PTX_WARP_LANES * (run->local_stride + 4ull * run->kernel->n32) + 8192;
    if (slots * per_block > MEMORY_MAX)
        return -ENOMEM;
    grid.slot_limit = (uint32_t)slots;
    grid.slots = calloc(slots, sizeof(*grid.slots));
    grid.clusters = calloc(slots / run->cluster_size, sizeof(*grid.clusters));
    if (!grid.slots || !grid.clusters)
        goto done;
    error = aborted(run) ? -ECANCELED : run_rounds(&grid);
done:
    for (uint32_t i = 0; grid.slots && i < grid.slot_count; i++)
        finish_slot(run, &grid.slots[i]);
    free(grid.slots);
    free(grid.clusters);
    return error;
}

/* ---- launches ---- */

__attribute__((format(printf, 2, 3))) static int refuse(struct ptx_fault *fault, const char *format, ...)
{
    char reason[160];
    va_list list;
    va_start(list, format);
    vsnprintf(reason, sizeof(reason), format, list);
    va_end(list);
    fault->kind = PTX_FAULT_BAD_LAUNCH;
    snprintf(fault->text, sizeof(fault->text), "launch of kernel %.64s refused: %s",
             fault->kernel ? fault->kernel : "?", reason);
    return -EINVAL;
}

static int check_sizes(const struct ptx_kernel *kernel, const struct ptx_launch *launch, struct ptx_fault *fault)
{
    static const uint32_t block_max[3] = {1024, 1024, 64}, grid_max[3] = {INT32_MAX, 65535, 65535};
    uint64_t threads = 1;
    for (int i = 0; i < 3; i++) {
        if (launch->block[i] == 0 || launch->block[i] > block_max[i])
            return refuse(fault, "block size %u in dimension %d", launch->block[i], i);
        if (launch->grid[i] == 0 || launch->grid[i] > grid_max[i])
            return refuse(fault, "grid size %u in dimension %d", launch->grid[i], i);
        if (kernel->reqntid[0] && launch->block[i] != kernel->reqntid[i])
            return refuse(fault, "block size %u in dimension %d where .reqntid says %u", launch->block[i], i,
                          kernel->reqntid[i]);
        threads *= launch->block[i];
    }
    if (threads > kernel->max_threads)
        return refuse(fault, "%llu threads per block, at most %u", (unsigned long long)threads, kernel->max_threads);
    if (launch->dynamic_shared > SHARED_BYTES_MAX)
        return refuse(fault, "%u bytes of dynamic shared memory", launch->dynamic_shared);
    if (launch->params_size < kernel->param_bytes || (kernel->param_bytes && !launch->params))
        return refuse(fault, "%zu bytes of parameters, %u needed", launch->params ? launch->params_size : 0,
                      kernel->param_bytes);
    return 0;
}

static int check_cluster(struct run *run, const struct ptx_kernel *kernel, struct ptx_fault *fault)
{
    const struct ptx_launch *launch = run->launch;
    const uint32_t *cluster = launch->cluster[0] ? launch->cluster : kernel->reqnctapercluster;
    run->cluster_size = 1;
    for (int i = 0; i < 3; i++) {
        run->cluster[i] = cluster[0] && cluster[i] ? cluster[i] : 1;
        if (launch->grid[i] % run->cluster[i] || run->cluster[i] > 16)
            return refuse(fault, "grid size %u in dimension %d is no multiple of the cluster's %u", launch->grid[i], i,
                          run->cluster[i]);
        run->cluster_size *= run->cluster[i];
    }
    if (run->cluster_size > 16)
        return refuse(fault, "%u blocks per cluster, at most 16", run->cluster_size);
    return 0;
}

static int prepare(struct run *run, size_t kernel_index)
{
    const struct ptx_kernel *kernel = ptx_module_kernel(run->module, kernel_index);
    const struct ptx_launch *launch = run->launch;
    struct ptx_fault *fault = run->fault;
    if (!kernel)
        return refuse(fault, "no kernel number %zu", kernel_index);
    fault->kernel = kernel->name;
    int error = check_sizes(kernel, launch, fault);
    if (!error)
        error = check_cluster(run, kernel, fault);
    if (error)
        return error;
    for (uint32_t i = 0; i < run->module->global_count; i++) {
        if (run->instance->addresses[i] == 0)
            return refuse(fault, "global %.64s is not placed", run->module->globals[i].name);
    }
    const uint32_t align = run->module->dynamic_align;
    run->kernel = &run->module->functions[run->module->kernel_function[kernel_index]];
    run->threads = launch->block[0] * launch->block[1] * launch->block[2];
    run->warps = (run->threads + PTX_WARP_LANES - 1) / PTX_WARP_LANES;
    run->static_shared =
        kernel->uses_dynamic_shared ? (kernel->static_shared + align - 1) & ~(align - 1) : kernel->static_shared;
    run->shared_bytes = run->static_shared + launch->dynamic_shared;
    uint32_t stack = launch->stack_bytes ? launch->stack_bytes : PTX_STACK_BYTES_DEFAULT;
    run->local_stride = kernel->recursive ? kernel->local_bytes + stack : kernel->local_bytes;
    if (run->local_stride > LOCAL_BYTES_MAX * 2u)
        return refuse(fault, "%u bytes of stack per thread", stack);
    run->local_stride = (run->local_stride + 15) & ~15u;
    run->param_bytes = kernel->param_bytes;
    run->params = aligned_alloc(64, ((size_t)kernel->param_bytes + 64) & ~(size_t)63);
    if (!run->params)
        return -ENOMEM;
    if (kernel->param_bytes)
        memcpy(run->params, launch->params, kernel->param_bytes);
    if (launch->cooperative) {
        run->workspace = aligned_alloc(WORKSPACE_BYTES, WORKSPACE_BYTES);
        if (!run->workspace)
            return -ENOMEM;
        memset(run->workspace, 0, WORKSPACE_BYTES);
    }
    return 0;
}

int ptx_run(struct ptx_instance *instance, size_t kernel, const struct ptx_launch *launch, struct ptx_fault *fault)
{
    struct ptx_fault own;
    struct run run = {
        .module = instance->module, .instance = instance, .launch = launch, .code = instance->module->code};
    fenv_t environment;
    run.fault = fault ? fault : &own;
    *run.fault = (struct ptx_fault){0};
    int error = prepare(&run, kernel);
    if (!error) {
        /* the host thread may flush subnormals or round otherwise */
        fegetenv(&environment);
        fesetenv(FE_DFL_ENV);
        run.start_ns = run_now(&run);
        error = run_grid(&run);
        fesetenv(&environment);
    }
    free(run.params);
    free(run.workspace);
    if (launch->stats)
        *launch->stats = run.stats;
    return error;
}
