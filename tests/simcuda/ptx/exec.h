/* SPDX-License-Identifier: Apache-2.0
 *
 * State of a running grid, between run.c (blocks, turns) and exec.c (one warp for a while).
 */
#ifndef COISSUE_TESTS_SIMCUDA_PTX_EXEC_H
#define COISSUE_TESTS_SIMCUDA_PTX_EXEC_H

#include "tests/simcuda/ptx/internal.h"

enum {
    WORKSPACE_BYTES = 64, /* cooperative_groups uses 8; its layout is {size, barrier word} */
    WARPS_MAX = PTX_BLOCK_THREADS_MAX / PTX_WARP_LANES,
    RANGES_KEPT = 4,
    POLLS_BEFORE_TURN = 4, /* the same value read as often by a waiting loop: let others run */
};

/* Where the registers and local variables of a function call begin. Lanes run together if pc and this are equal. */
struct frame {
    uint32_t function, depth;
    uint32_t b32, b64, bp; /* rows */
    uint32_t fp;           /* bytes of local memory */
};

struct call_record {
    uint32_t pc; /* after the call */
    struct frame frame;
};

struct call_stack {
    struct call_record *records;
    uint32_t capacity;
};

struct barrier {
    bool in_use;
    uint32_t expected;           /* threads; 0 = all of the block */
    uint32_t arrived[WARPS_MAX]; /* lanes */
    uint32_t waiting[WARPS_MAX]; /* lanes that wait for completion */
    uint32_t popc;
    bool all, any;
};

struct cluster {
    uint32_t users;   /* blocks in progress */
    uint32_t threads; /* that have not left */
    uint32_t arrived;
    uint32_t phase;
};

struct block_state;

struct warp {
    struct block_state *block;
    uint32_t index;
    uint32_t live, run;                         /* lanes */
    uint32_t wait_sync, wait_bar, wait_cluster; /* lanes; disjoint, and none of them in run */
    uint32_t carry;                             /* condition code, a bit per lane */
    uint32_t skip;                              /* lanes that had a whole turn while others waited for theirs */
    uint32_t sleep_ns;
    uint32_t poll_pc, poll_count;
    uint64_t poll_value;
    uint32_t pc[PTX_WARP_LANES];
    struct frame frame[PTX_WARP_LANES];
    uint32_t sync_mask[PTX_WARP_LANES];
    uint32_t cluster_phase[PTX_WARP_LANES];
    uint32_t tid[3][PTX_WARP_LANES];
    struct call_stack stack[PTX_WARP_LANES];
    char *r32, *r64;
    uint32_t *preds;
    uint32_t rows32, rows64, rows_pred; /* allocated */
};

struct block_state {
    bool active;
    uint64_t index;
    uint32_t ctaid[3], cluster_ctaid[3], cluster_rank;
    struct cluster *cluster;
    char *shared, *local;
    struct warp *warps;
    uint32_t live_warps;
    struct barrier barriers[BARRIERS];
};

struct run {
    const struct ptx_module *module;
    struct ptx_instance *instance;
    const struct ptx_launch *launch;
    const struct function *kernel;
    const struct insn *code;
    uint32_t threads, warps;
    uint32_t static_shared, shared_bytes; /* static rounded up for the dynamic part; all */
    uint32_t local_stride;                /* bytes per thread */
    uint32_t cluster[3], cluster_size;
    char *params;
    char *workspace; /* of a cooperative launch: WORKSPACE_BYTES that kernels may use, else NULL */
    uint32_t param_bytes;
    struct ptx_range ranges[2][RANGES_KEPT]; /* read, write; most recent first */
    struct ptx_stats stats;
    struct ptx_fault *fault; /* never NULL */
    uint64_t start_ns;
};

enum step {
    STEP_TURN,    /* used its instructions */
    STEP_POLL,    /* seems to wait for somebody */
    STEP_SLEEP,   /* nanosleep */
    STEP_BLOCKED, /* no lane can go on */
    STEP_DONE,    /* all lanes left */
    STEP_FAULT,
    STEP_NOMEM,
};

/* Runs lanes of `warp` for about `budget` instructions. Both do the same. */
enum step ptx_exec_plain(struct run *run, struct warp *warp, uint32_t budget);
enum step ptx_exec_avx2(struct run *run, struct warp *warp, uint32_t budget);

/* run.c */
const char *run_constants(struct run *run, uint32_t function); /* NULL: out of memory */
uint64_t run_now(const struct run *run);
void run_fault(struct run *run, const struct warp *warp, unsigned lane, enum ptx_fault_kind kind, uint32_t pc,
               uint64_t address, uint32_t bytes, bool write);
bool run_access(struct run *run, uint64_t address, uint32_t bytes, bool write);
/* warp.c */
void warp_exit(struct run *run, struct warp *warp, uint32_t lanes);
void warp_barrier(struct run *run, struct warp *warp, const struct insn *insn, uint32_t lanes);
void warp_sync(struct run *run, struct warp *warp, uint32_t lanes); /* lanes stand behind their instruction */
void warp_cluster_arrive(struct run *run, struct warp *warp, uint32_t lanes);
void warp_cluster_wait(struct run *run, struct warp *warp, uint32_t lanes);
bool warp_rows(struct warp *warp, uint32_t rows32, uint32_t rows64, uint32_t rows_pred);
/* PTX_FAULT_NONE, or what is wrong. Lanes stand behind the call. */
enum ptx_fault_kind warp_call(struct run *run, struct warp *warp, uint32_t lanes, uint32_t callee,
                              const struct call_site *site, bool *nomem);
void warp_return(struct run *run, struct warp *warp, uint32_t lanes);
void warp_builtin(struct run *run, struct warp *warp, uint32_t lanes, const struct call_site *site);
void warp_mbarrier(struct run *run, struct warp *warp, const struct insn *insn, unsigned lane, char *at, bool *poll);
uint32_t special_value32(const struct run *run, const struct warp *warp, unsigned lane, unsigned which);
uint64_t special_value64(const struct run *run, const struct warp *warp, unsigned lane, unsigned which);

/* Rows as one lane sees them, whatever the other lanes do. */
static inline uint32_t *lane_row32(struct warp *warp, unsigned lane, uint32_t operand)
{
    return (uint32_t *)(warp->r32 + (size_t)warp->frame[lane].b32 * ROW32 + (operand & ~3u)) + lane;
}

static inline uint64_t *lane_row64(struct warp *warp, unsigned lane, uint32_t operand)
{
    return (uint64_t *)(warp->r64 + (size_t)warp->frame[lane].b64 * ROW64 + (operand & ~3u)) + lane;
}

static inline char *thread_local_memory(const struct run *run, const struct warp *warp, unsigned lane)
{
    return warp->block->local + (size_t)(warp->index * PTX_WARP_LANES + lane) * run->local_stride;
}

#endif
