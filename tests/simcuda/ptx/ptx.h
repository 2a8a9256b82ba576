/* SPDX-License-Identifier: Apache-2.0
 *
 * A PTX reader and interpreter for the simulated device.
 *
 * What it does: it reads the text of one PTX module into an immutable `ptx_module`, joins it with addresses for its
 * global variables in a `ptx_instance`, and runs one kernel grid per `ptx_run` call on the calling thread. A device
 * address IS a host address of this process. Threads are executed warp by warp: one instruction for all lanes of a warp
 * that stand at the same place, lowest place first, so that lanes meet again after divergent code.
 *
 * Invariants:
 * - Everything that is not understood is refused when the module is read, never while a kernel runs. The message names
 *   the line and the instruction.
 * - A kernel touches no byte of host memory that `may_access` did not allow. Shared, local and parameter memory belong
 *   to the run; their generic addresses lie in windows (below) which are no valid user addresses on x86-64.
 * - Text of any kind, kernels of any kind and launches of any kind end in success or in an error, never in a crash or a
 *   hang (a kernel that loops for ever ends when `abort` is set).
 * - It may not exit, abort, print, or keep anything in static writable memory. It depends on libc and libm only.
 *
 * Threads: a ptx_module is immutable and may be shared by any number of threads. Any number of ptx_run calls may be
 * active at once, also on one instance. Placing globals and destroying must not overlap with runs of that instance.
 *
 * Arithmetic: IEEE round to nearest even where PTX says .rn (the default), .rz/.rm/.rp exact as well; f32 results that
 * are NaN are 0x7fffffff as on the device (a conversion from f64 keeps sign and payload), f16 and bf16 ones 0x7fff;
 * .ftz and .sat as in PTX. f16/bf16 operations are rounded once. The .approx functions (rcp sqrt rsqrt ex2 lg2 sin cos
 * tanh, div.approx, div.full) are computed in double and rounded to nearest: more exact than the device, so results can
 * differ from the device's in the last bits, and sin.approx/cos.approx of large arguments in all of them.
 * `rcp/rsqrt.approx.ftz.f64` keep the upper 32 bits only. Compared with an H200, bit for bit: all but the .approx
 * functions of the test kernels half, bits, math, basic.
 *
 * Memory: a naturally aligned access of 1, 2, 4 or 8 bytes is single-copy atomic. Vector accesses are atomic per
 * element. .acquire/.release/.relaxed/.volatile and fence/membar map to C atomics, atom/red to __atomic builtins
 * (floating point: compare and swap).
 *
 * Barriers: bar/barrier count threads; threads that left the kernel count as arrived. The *.sync warp instructions wait
 * until all threads of the member mask that have not left arrived at such an instruction.
 *
 * NOT supported (refused when the module is read, with -ENOTSUP where the text is known to be valid PTX):
 * - tensor core and bulk copy instructions: mma, wmma, wgmma, ldmatrix, stmatrix, tcgen05, cp.async.bulk, cp.reduce;
 * - textures and surfaces: tex, tld4, suld, sust, sured, txq, suq, .texref/.samplerref/.surfref variables;
 * - 128-bit registers and atomics (.b128), vectors of eight (.v8), vector registers, atom/red of vectors, red.async,
 *   multimem, alloca, stacksave, stackrestore, setmaxnreg, redux on floats, integer SIMD (.u16x2, .s16x2), f32x2;
 * - 8, 6 and 4 bit floats (e4m3, e5m2, e2m1, ue8m0), cvt.pack, video instructions (vadd ...), set with .and/.or/.xor;
 * - shfl, vote and match without .sync (not on sm_70 and later);
 * - mapa, getctarank and the shared memory of other blocks of a cluster (barrier.cluster and the registers work);
 * - functions with .reg parameters or several results, calls of functions without a body except vprintf (ignored,
 *   returns 0), __assertfail (a fault), malloc (returns NULL) and free (ignored);
 * - .address_size 32, extern variables that the module does not define.
 * fence and membar are full fences whatever they say; prefetch, discard, createpolicy, griddepcontrol and pmevent do
 * nothing; cp.async copies at once; %clock counts nanoseconds plus instructions; the pragmas and cache hints are
 * ignored.
 */
#ifndef COISSUE_TESTS_SIMCUDA_PTX_PTX_H
#define COISSUE_TESTS_SIMCUDA_PTX_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptx_module;   /* immutable; owned by the caller; create/destroy */
struct ptx_instance; /* a module plus the addresses of its globals; create/destroy; borrows the module */

enum {
    PTX_PARAM_BYTES_MAX = 32764,     /* CUDA 12.1 and later, sm_70 and later */
    PTX_BLOCK_THREADS_MAX = 1024,    /* every device so far */
    PTX_WARP_LANES = 32,             /* every device so far */
    PTX_REGISTERS_MAX = 255,         /* per thread, every device since sm_35 */
    PTX_ERROR_TEXT_MAX = 256,        /* longer messages are cut */
    PTX_STACK_BYTES_DEFAULT = 16384, /* per thread, for recursive kernels; ours */
};

/*
 * Generic address windows. Non-canonical on x86-64 (4 and 5 level paging), so no allocation ever lies there. The offset
 * in the window is the address that the .shared/.local forms of an instruction take. CODE holds function "addresses".
 */
#define PTX_WINDOW_SHARED UINT64_C(0x5348000000000000)
#define PTX_WINDOW_LOCAL UINT64_C(0x4c4f000000000000)
#define PTX_WINDOW_PARAM UINT64_C(0x5041000000000000)
#define PTX_WINDOW_CODE UINT64_C(0x434f000000000000)
#define PTX_WINDOW_BYTES (UINT64_C(1) << 32)

/* ---- modules ---- */

struct ptx_options {
    /* Highest .target accepted, as 10 * major + minor (90 = sm_90); 0 accepts any. A text for a newer target is
     * -ENOEXEC (the driver says CUDA_ERROR_NO_BINARY_FOR_GPU or INVALID_PTX). */
    unsigned max_target;
};

/*
 * Reads `len` bytes of text (a NUL ends it early). `options` may be NULL.
 *   0          *out is set; the text is no longer needed
 *   -EINVAL    the text is not valid PTX
 *   -ENOTSUP   valid, but an instruction or feature is not implemented (see the list above)
 *   -ENOEXEC   made for a newer device than options->max_target
 *   -E2BIG     a limit of this reader is exceeded
 *   -ENOMEM
 * On error `err` (if errlen > 0) holds one line "line N: ..." without a newline; on success it is empty.
 */
int ptx_module_create(const char *text, size_t len, const struct ptx_options *options, struct ptx_module **out,
                      char *err, size_t errlen);
void ptx_module_destroy(struct ptx_module *module); /* NULL is fine */

struct ptx_module_info {
    unsigned version;      /* .version as 10 * major + minor: 90 = 9.0 */
    unsigned target;       /* 90 = sm_90 (sm_90a too) */
    unsigned address_size; /* 64; texts with 32 are refused */
    size_t kernels, globals;
};
void ptx_module_info(const struct ptx_module *module, struct ptx_module_info *info);

/* ---- kernels: index 0 .. kernels - 1 in the order of the text ---- */

struct ptx_param {
    uint32_t offset, size, align; /* bytes */
};

struct ptx_kernel {
    const char *name; /* as long as the module lives */
    uint32_t param_count;
    const struct ptx_param *params;
    uint32_t param_bytes;  /* max of offset + size; not padded */
    uint32_t maxntid[3];   /* .maxntid, or 0 0 0 when not given */
    uint32_t reqntid[3];   /* .reqntid, or 0 0 0; a launch with another block is refused */
    uint32_t minnctapersm; /* 0 when not given */
    uint32_t maxnreg;      /* 0 when not given */
    uint32_t reqnctapercluster[3];
    uint32_t static_shared; /* bytes, without the dynamic part */
    uint32_t registers;     /* estimate from live ranges, 16 .. 255: for occupancy, not for refusing launches */
    uint32_t local_bytes;   /* per thread, the whole (non-recursive) call tree */
    uint32_t max_threads;   /* threads per block: from .maxntid/.reqntid, else 1024 */
    uint32_t instructions;  /* of the kernel body, without functions it calls */
    bool recursive;         /* calls itself or through pointers: needs ptx_launch.stack_bytes */
    bool uses_dynamic_shared;
};

/* NULL when out of range. The pointer is good as long as the module lives. */
const struct ptx_kernel *ptx_module_kernel(const struct ptx_module *module, size_t index);
/* Index of the kernel with exactly this name, or -ENOENT. */
long ptx_module_find_kernel(const struct ptx_module *module, const char *name);

/* ---- globals: module-scope .global and .const variables with storage, in the order of the text ---- */

struct ptx_global {
    const char *name;
    uint64_t size;      /* bytes, at least 1 */
    uint32_t align;     /* a power of two */
    bool is_const;      /* .const: kernels cannot write it, the host can */
    bool visible;       /* .visible/.weak/.common: what cuModuleGetGlobal may find; static ones have names as well */
    uint64_t init_size; /* bytes that are not zero from the start; the rest up to `size` is zero. 0: all zero */
};

const struct ptx_global *ptx_module_global(const struct ptx_module *module, size_t index);
long ptx_module_find_global(const struct ptx_module *module, const char *name); /* index or -ENOENT */

/* ---- instances: one per context that loads the module ---- */

/* The instance borrows the module, which must outlive it. -ENOMEM. */
int ptx_instance_create(const struct ptx_module *module, struct ptx_instance **out);
void ptx_instance_destroy(struct ptx_instance *instance); /* NULL is fine */

/*
 * Tells where global `index` lives: `size` bytes of the embedder at a multiple of `align`, good until the instance is
 * destroyed or the global is placed again. All must be placed before the first run. -EINVAL: no such index, address 0
 * or misaligned. `may_access` must allow what kernels do there; for .const variables this interpreter asks for reads
 * only.
 */
int ptx_instance_place_global(struct ptx_instance *instance, size_t index, uint64_t address);
uint64_t ptx_instance_global_address(const struct ptx_instance *instance, size_t index); /* 0 when not placed */

/*
 * Writes the `size` initial bytes of global `index` to `to` (host memory, any alignment), addresses of other globals
 * resolved: call it when all are placed. -EINVAL: no such index or a global that is referred to is not placed.
 */
int ptx_instance_initial_bytes(const struct ptx_instance *instance, size_t index, void *to);

/* Shortcut: writes the initial bytes of every global to its place. -EINVAL when one is not placed. */
int ptx_instance_initialise(const struct ptx_instance *instance);

/* ---- running ---- */

/* A valid range around an access: [lo, hi). */
struct ptx_range {
    uint64_t lo, hi;
};

/*
 * May a kernel read (or write) `bytes` bytes at `address`? Consulted for global, const and generic accesses, never for
 * shared, local and parameter memory. `range` comes in as [address, address + bytes); the callback may widen it to all
 * that is good for the same kind of access (read or write), normally the whole allocation. The interpreter keeps a few
 * ranges until the end of this ptx_run and does not ask again inside them, so memory must not be unmapped while a
 * kernel that may use it runs (the driver's rule for free as well). Called on the thread of ptx_run only.
 */
typedef bool ptx_may_access(void *arg, uint64_t address, size_t bytes, bool write, struct ptx_range *range);

/* Counters of one run, for the device model. Written when ptx_run returns, whatever it returns (zero for -EINVAL). */
struct ptx_stats {
    uint64_t thread_instructions; /* instructions times active lanes */
    uint64_t warp_instructions;   /* instructions issued */
    uint64_t global_read_bytes, global_write_bytes;
    uint64_t atomics; /* per lane */
    uint64_t blocks;  /* blocks that ran to their end */
};

struct ptx_launch {
    uint32_t grid[3], block[3];
    uint32_t cluster[3];     /* 0 0 0 = no cluster (1 1 1); must divide the grid */
    uint32_t dynamic_shared; /* bytes */
    const void *params;      /* laid out by ptx_kernel.params; NULL only if params_size is 0 */
    size_t params_size;      /* at least ptx_kernel.param_bytes; what is beyond is ignored */

    /*
     * How many blocks may be in progress at once, as a device's residency limits them. 0 or 1: one after the other in
     * ascending order. More: blocks still start one at a time in ascending order; when a block seems to wait (it polls,
     * sleeps or does not end for long) others start beside it, up to this number, and they take turns. For grid-wide
     * barriers pass at least the number of blocks of the grid. Memory per block in progress: shared memory plus about
     * threads * (registers * 4 + local bytes).
     */
    uint32_t concurrent_blocks;

    /*
     * A cooperative launch (cuLaunchCooperativeKernel): all blocks are in progress whatever concurrent_blocks says, and
     * %envreg1/2 hold the address of the memory that cooperative_groups::grid_group::sync works with. Without it that
     * sync traps, as on a device.
     */
    bool cooperative;

    uint32_t stack_bytes; /* local memory per thread of recursive kernels; 0 = PTX_STACK_BYTES_DEFAULT */
    uint32_t sm_count;    /* %nsmid; blocks get %smid = linear index modulo this; 0 = 1 */
    uint64_t grid_id;     /* %gridid */

    ptx_may_access *may_access;    /* NULL: everything is allowed (tests) */
    void *arg;                     /* for the callbacks */
    uint64_t (*now_ns)(void *arg); /* %globaltimer; NULL: CLOCK_REALTIME */

    /* Stops the run at the next slice when it becomes true (checked at least every 20,000 instructions). Read with
     * __atomic_load_n(.., acquire); set it with a release store. May be NULL. */
    const bool *abort;

    /* Ends the run with -ECANCELED after about so many warp instructions; 0 = no limit. */
    uint64_t max_instructions;

    /* Use the code for processors without AVX2 and FMA everywhere. The results are the same; for tests. */
    bool portable;

    struct ptx_stats *stats; /* may be NULL */
};

enum ptx_fault_kind {
    PTX_FAULT_NONE,
    PTX_FAULT_ILLEGAL_ADDRESS,  /* CUDA_ERROR_ILLEGAL_ADDRESS (700) */
    PTX_FAULT_MISALIGNED,       /* CUDA_ERROR_MISALIGNED_ADDRESS (716) */
    PTX_FAULT_TRAP,             /* CUDA_ERROR_LAUNCH_FAILED (719): trap or brkpt; see also PTX_FAULT_ASSERT */
    PTX_FAULT_ASSERT,           /* CUDA_ERROR_ASSERT (710): __assertfail was called */
    PTX_FAULT_BARRIER_DEADLOCK, /* no thread of a block can go on; a device would hang */
    PTX_FAULT_STACK_OVERFLOW,   /* recursion deeper than stack_bytes or 4,096 calls */
    PTX_FAULT_BAD_CALL,         /* CUDA_ERROR_INVALID_PC (718): a call through a pointer that is no function */
    PTX_FAULT_BAD_LAUNCH,       /* with -EINVAL: nothing ran; `text` says why */
};

struct ptx_fault {
    enum ptx_fault_kind kind;
    uint64_t address; /* ILLEGAL_ADDRESS, MISALIGNED: as the instruction computed it, in the space it names */
    uint32_t bytes;   /* size of that access */
    bool write;
    uint32_t block[3], thread[3];  /* the first thread that failed */
    uint32_t line;                 /* of the PTX text */
    const char *kernel;            /* as long as the module lives */
    char text[PTX_ERROR_TEXT_MAX]; /* one line that tells all of the above */
};

/*
 * Runs the whole grid on the calling thread.
 *   0           the grid completed; fault->kind is PTX_FAULT_NONE
 *   -EFAULT     a thread failed; the grid stopped there; `fault` tells
 *   -ECANCELED  *abort was seen, or max_instructions were executed
 *   -EINVAL     the launch is impossible (sizes, missing parameters, a global that is not placed); `fault->text` tells
 *   -ENOMEM
 * `fault` may be NULL.
 */
int ptx_run(struct ptx_instance *instance, size_t kernel, const struct ptx_launch *launch, struct ptx_fault *fault);

const char *ptx_fault_name(enum ptx_fault_kind kind); /* "illegal address", ...; never NULL */

#endif
