/* SPDX-License-Identifier: Apache-2.0
 *
 * tests/simcuda: a libcuda.so.1 without a GPU.
 *
 * What it is for. The preloaded library of coissue stands between programs and the driver, and nearly all that can go
 * wrong there is order: an event that does not cover a launch, a copy that overtakes a kernel, a capture killed from
 * another thread. This library gives such programs a driver with the real meaning of streams, events, contexts, memory,
 * modules, capture and errors, on any machine; kernels are PTX, run by the interpreter in ptx/. The shipped library
 * runs on it unchanged, and so do programs that bring PTX.
 *
 * Invariants.
 *  - The exported symbols are exactly the rows of driver/entries.def. entry.c makes each of them: count and trace the
 *    call (fault.c), fail it if a test asked for that, check that the driver is initialised, call sim_<symbol>.
 *  - A row without an implementation reaches the weak sim_<symbol> in stubs.c: one line on stderr and error 801. A row
 *    _ptsz or _ptds without an implementation of its own calls that of its base with "stream 0 is the thread's own".
 *  - All state is under one lock, `sim.lock`. Work of the device (kernels, copies, callbacks) runs without it. A kernel
 *    asks for the memory it may touch through memory.c, which has its own lock-free table for that.
 *  - What is ordered on a device is ordered by edges between operations (struct sim_op, work.c), never by which thread
 *    submits or runs them. A stream is nothing but the last operation in it. The rule of the legacy stream, event
 *    waits and graphs are more edges. Operations without an edge between them really run at the same time, so a program
 *    whose kernels wait for each other works or hangs here as it does there.
 *  - Before cuInit there is no thread, no file, no output. A forked child gets CUDA_ERROR_NOT_INITIALIZED.
 *  - Errors: what the driver refuses at the call is refused at the call. A fault in a kernel is final for the process:
 *    each later call of every context of that device returns it, and no new context can be made. (CUDA's documentation
 *    speaks of the context; an H200 with driver 580 does as said here.)
 *
 * Most rules were read from an H200 by tests/simcuda_tests/oracle.c; a test compares this library with what it said.
 * Where a rule was modelled on documentation and not seen on a device, the place says "modelled".
 *
 * What it may not do: depend on anything but libc (and, when built with them, liblz4 and libzstd to unpack fatbins);
 * answer a question about an entry that it does not implement; be faster than correct.
 *
 * Environment:
 *   SIMCUDA_DEVICE=h200|a100|l4|b200   which row of devices.def (default h200)
 *   SIMCUDA_DEVICES=N                  so many of them (default 1)
 *   SIMCUDA_DRIVER_VERSION=13000       answer of cuDriverGetVersion; younger entry points then do not exist
 *   SIMCUDA_FAIL=ENTRY:N[+][:CODE],..  the N-th call (N+: each call from the N-th) of ENTRY returns CODE (default 999)
 *   SIMCUDA_TRACE=FILE                 a line for each call: number at entry, thread, entry, result, notes
 *   SIMCUDA_TIME=off|real              see time.c
 *   SIMCUDA_TIME_SCALE=N               likewise
 *   SIMCUDA_LAUNCH_NS=N                a launch keeps its caller busy so long
 */
#ifndef SIMCUDA_SIM_H
#define SIMCUDA_SIM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "driver/driver.h"
#include "tests/simcuda/ptx/ptx.h"

/* The implementations. Each is defined in the file of its subject, or else weakly in stubs.c. */
#define CU_ENTRY(symbol, cls, how, key, params) CUresult sim_##symbol CU_PARAMS(params);
#include "driver/entries.def"

/* ---- fault.c: what happens around each call -------------------------------------------------------------------- */

struct sim_call {
    uint64_t number;
    bool per_thread_before; /* the thread's flag outside of this call */
};
/* False: do not call the implementation, return *result (after sim_leave). */
bool sim_enter(struct sim_call *call, enum cu_entry entry, CUresult *result);
CUresult sim_leave(struct sim_call *call, enum cu_entry entry, CUresult result);
/* Adds words to the trace line of the call that this thread is in. */
void sim_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* One line on stderr, once for each `key` (any address). */
void sim_loud(const void *key, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The implementation that a _ptsz or _ptds entry falls back to, or NULL. (stubs.c) */
void *sim_base_implementation(enum cu_entry entry);
enum cu_entry sim_base_entry(enum cu_entry entry, bool *per_thread);
CUresult sim_not_implemented(enum cu_entry entry);

/* ---- object.c: handles, threads, the lock ------------------------------------------------------------------------ */

enum sim_kind {
    SIM_NONE,
    SIM_CONTEXT,
    SIM_STREAM,
    SIM_EVENT,
    SIM_MODULE,
    SIM_FUNCTION,
    SIM_LIBRARY,
    SIM_KERNEL,
    SIM_GRAPH,
    SIM_NODE,
    SIM_EXEC,
    SIM_POOL,
    SIM_LINK,
    SIM_MEMORY, /* cuMemCreate */
    SIM_USER_OBJECT,
};

/* Live handles. A handle that is not in the table is answered with INVALID_HANDLE instead of being followed. */
void *sim_object_create(enum sim_kind kind, size_t size); /* zeroed; NULL: out of memory */
void sim_object_destroy(void *object);                    /* forgets and frees */
void sim_object_forget(void *object);                     /* forgets; the memory stays the caller's */
bool sim_object_is(const void *object, enum sim_kind kind);

struct sim_ctx;
struct sim_stream;

struct sim_thread {
    struct sim_ctx **stack;
    unsigned depth, room;
    CUstreamCaptureMode mode;
    bool in_host_function; /* this is a driver thread inside a callback: CUDA calls are not permitted */
    bool per_thread;       /* the current call is a _ptsz or _ptds: stream 0 is this thread's own */
    uint64_t id;
    char note[160];
};
struct sim_thread *sim_thread(void);

struct sim_device_row; /* devices.def */
struct sim_device {
    int ordinal;
    const struct sim_device_row *row;
    struct sim_ctx *primary;
    unsigned primary_refs, primary_flags;
    struct sim_pool *default_pool, *pool;
    size_t used;             /* bytes of device memory handed out */
    _Atomic(CUresult) fault; /* of a kernel: no context of this device works after it, as on an H200 */
};

struct sim_state {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    atomic_bool initialised;
    int device_count;
    struct sim_device *devices;
    int driver_version;
    uint64_t next_id;
    struct sim_ctx *_Atomic contexts; /* all that ever were */
    atomic_bool forked, exiting;
    bool eager;        /* CUDA_MODULE_LOADING=EAGER */
    unsigned captures; /* active captures in the process */
    int launch_ns, time_scale;
    bool real_time;
};
extern struct sim_state sim;

void sim_lock(void);
void sim_unlock(void);
void sim_unlock_guard(int *guard);
/* Holds the lock to the end of the block. */
#define SIM_GUARD                                                                                                      \
    __attribute__((cleanup(sim_unlock_guard))) int guard_ = (sim_lock(), 0);                                           \
    (void)guard_

uint64_t sim_now_ns(void);

/* ---- device.c -----------------------------------------------------------------------------------------------------
 */

struct sim_device_row {
    const char *key, *name;
    int major, minor, sms;
    int max_threads_per_sm, max_blocks_per_sm, regs_per_sm;
    int shared_per_sm, shared_optin, shared_reserved;
    int clock_khz, memory_clock_khz, bus_bits;
    size_t memory, l2;
    int async_engines;
    int cluster; /* largest portable cluster, 0: none */
    bool tensor_map;
    unsigned pci_device;
};
CUresult sim_devices_create(void);
CUresult sim_device_get(CUdevice ordinal, struct sim_device **device);
int sim_device_attribute(const struct sim_device *device, CUdevice_attribute attribute, int *value);

/* ---- context.c ----------------------------------------------------------------------------------------------------
 */

struct sim_ctx {
    struct sim_ctx *next;
    struct sim_device *device;
    uint64_t id;
    unsigned flags;
    bool primary, dead;
    _Atomic(CUresult) error; /* sticky */
    bool abort;              /* __atomic; running kernels of this context end soon after this is set */
    struct sim_stream *legacy;
    struct sim_stream *streams; /* all of them, the legacy one included */
    size_t limits[16];
    CUfunc_cache cache;
    CUsharedconfig shared_config;
    struct sim_module *modules;
    unsigned peers; /* bit per device ordinal */
};
/* The calling thread's context: 201 without one, 709 if it was destroyed, its sticky error. */
CUresult sim_context(struct sim_ctx **ctx);
CUresult sim_context_plain(struct sim_ctx **ctx); /* the same, but the sticky error is not looked at */
CUresult sim_context_get(CUcontext handle, struct sim_ctx **ctx);
void sim_context_fail(struct sim_ctx *ctx, CUresult error); /* first error wins; any thread, no lock needed */
CUresult sim_context_wait(struct sim_ctx *ctx);             /* lock held */

/* ---- work.c: operations and the threads that run them ------------------------------------------------------------ */

enum sim_op_state { SIM_OP_WAITING, SIM_OP_READY, SIM_OP_RUNNING, SIM_OP_DONE };

struct sim_op {
    unsigned refs;
    enum sim_op_state state;
    unsigned blockers; /* operations that must end first, and one until armed */
    struct sim_op **followers;
    unsigned follower_count, follower_room;
    struct sim_ctx *ctx;
    struct sim_stream *stream;       /* whose last operation this is, or NULL */
    void (*run)(struct sim_op *op);  /* NULL: nothing to do. Called without the lock. */
    void (*drop)(struct sim_op *op); /* frees what it owns; lock held; may be NULL */
    bool always;                     /* runs even in a failed context */
    bool waited;                     /* some host thread waits for it */
    uint64_t done_ns;
    struct sim_op *next_ready;
};
/* `size` >= sizeof(struct sim_op); the caller has the one reference. */
struct sim_op *sim_op_create(size_t size, struct sim_ctx *ctx, void (*run)(struct sim_op *));
struct sim_op *sim_op_ref(struct sim_op *op);
void sim_op_unref(struct sim_op *op); /* lock held; NULL is fine */
void sim_op_follow(struct sim_op *op, struct sim_op *earlier);
void sim_op_arm(struct sim_op *op); /* no more edges: it starts when its blockers are done */
/* Puts an operation behind all that its stream and the legacy rule say, and arms it. Takes over the reference. */
void sim_stream_add(struct sim_stream *stream, struct sim_op *op);
/* The two halves of it, for graphs: edges only; and making it the stream's last. */
void sim_stream_order(struct sim_stream *stream, struct sim_op *op);
void sim_stream_set_last(struct sim_stream *stream, struct sim_op *op); /* not armed yet */
void sim_op_wait(struct sim_op *op);                                    /* lock held; NULL or done: returns at once */
unsigned sim_running_ops(void);                                         /* how many run right now; any thread */

/* ---- stream.c, event.c --------------------------------------------------------------------------------------------
 */

struct sim_stream {
    struct sim_stream *next;
    struct sim_ctx *ctx;
    uint64_t id;
    unsigned flags;
    int priority;
    uint64_t owner; /* per-thread default stream of that thread; else 0 */
    bool legacy;
    bool destroyed;      /* the handle is gone, work is still in flight */
    struct sim_op *last; /* NULL: idle */
    struct sim_capture *capture;
    struct sim_node **tips; /* what the next captured operation depends on */
    size_t tip_count, tip_room;
    CUstreamAttrValue attributes[24];
};
/* Finds the stream of a handle under the rules of the current call, and its context's error. */
CUresult sim_stream_find(CUstream handle, struct sim_stream **stream);
/* For calls that put work into it: also what capture forbids. Sets stream->capture users' path in sim_enqueue. */
CUresult sim_stream_for_work(CUstream handle, struct sim_stream **stream);
struct sim_stream *sim_stream_create(struct sim_ctx *ctx, unsigned flags, int priority);
void sim_stream_free(struct sim_stream *stream);
bool sim_stream_idle(const struct sim_stream *stream);

struct sim_event {
    struct sim_ctx *ctx;
    unsigned flags;
    struct sim_op *record; /* the latest one; NULL: never recorded */
    uint64_t capture_id;   /* last recorded in that capture, else 0 */
    struct sim_node **tips;
    size_t tip_count;
};
CUresult sim_event_get(CUevent handle, struct sim_event **event);
void sim_event_set_record(struct sim_event *event, struct sim_op *op); /* takes a reference */

/* ---- memory.c -----------------------------------------------------------------------------------------------------
 */

enum sim_memory_type { SIM_MEM_DEVICE, SIM_MEM_HOST, SIM_MEM_REGISTERED, SIM_MEM_MANAGED, SIM_MEM_MAPPED };
struct sim_range {
    uintptr_t base;
    size_t size;
    enum sim_memory_type type;
    struct sim_ctx *ctx; /* NULL for VMM mappings */
    struct sim_device *device;
    uint64_t id;
    unsigned flags;
    struct sim_pool *pool;
    bool writable, sync_memops, pending_free;
};
void sim_memory_init(void);
/* The allocation that holds an address, or NULL. The answer is valid while the lock is held. */
struct sim_range *sim_range_find(uintptr_t address);
CUresult sim_device_alloc(struct sim_ctx *ctx, size_t size, uintptr_t *address);
CUresult sim_range_add(uintptr_t base, size_t size, enum sim_memory_type type, struct sim_ctx *ctx,
                       struct sim_device *device, unsigned flags);
void sim_range_remove(uintptr_t base);         /* forgets only */
void sim_device_free(struct sim_range *range); /* device memory: quarantine */
void sim_memory_drop_context(struct sim_ctx *ctx);
/* May the device touch [address, address + size)? Any thread, with or without the lock. `whole` (may be NULL) gets all
 * that is allowed around it. */
bool sim_memory_ok(uintptr_t address, size_t size, bool write, struct ptx_range *whole);

struct sim_pool {
    struct sim_device *device;
    size_t used, used_high;
    uint64_t threshold;
    int attributes[8];
    bool is_default;
};

void sim_range_forget_pool(const struct sim_pool *pool);

/* ---- task.c: what an operation or a graph node does ---------------------------------------------------------------
 */

/* Values are those of CUgraphNodeType. */
enum sim_task_type {
    SIM_TASK_KERNEL = 0,
    SIM_TASK_COPY = 1,
    SIM_TASK_SET = 2,
    SIM_TASK_HOST = 3,
    SIM_TASK_GRAPH = 4,
    SIM_TASK_EMPTY = 5,
    SIM_TASK_WAIT_EVENT = 6,
    SIM_TASK_RECORD_EVENT = 7,
    SIM_TASK_ALLOC = 10,
    SIM_TASK_FREE = 11,
    SIM_TASK_MEMOP = 12,
};

struct sim_task {
    enum sim_task_type type;
    union {
        struct {
            struct sim_function *function;
            unsigned grid[3], block[3], shared;
            unsigned cluster[3];
            bool cooperative;
            unsigned char *params; /* owned, laid out as the kernel's parameter space */
            size_t params_size;
            void **pointers;               /* owned: into params, for cuGraphKernelNodeGetParams */
            CUlaunchAttribute *attributes; /* owned */
            unsigned attribute_count;
        } kernel;
        struct {
            uintptr_t dst, src;
            size_t dst_pitch, src_pitch, dst_slice, src_slice; /* bytes between rows and between planes */
            size_t width, height, depth;
            void *staged;              /* owned: bytes taken from pageable memory at the call; src points into it */
            CUDA_MEMCPY3D params;      /* as given, for cuGraphMemcpyNodeGetParams */
            bool dst_plain, src_plain; /* ordinary host memory: not ours to check */
        } copy;
        struct {
            uintptr_t dst;
            size_t pitch, width, height; /* width in elements */
            unsigned value, element;
        } set;
        struct {
            CUhostFn fn;
            void *data;
            CUstreamCallback callback; /* cuStreamAddCallback instead of fn */
            CUstream stream;
        } host;
        struct {
            struct sim_event *event;
        } event;
        struct {
            struct sim_graph *graph; /* owned clone */
        } child;
        struct {
            bool wait, wide;
            uintptr_t address;
            uint64_t value;
            unsigned flags;
        } memop;
        struct {
            uintptr_t address;
        } free;
    };
};
void sim_task_finish(struct sim_task *task);
CUresult sim_task_clone(struct sim_task *to, const struct sim_task *from);
void sim_task_run(const struct sim_task *task, struct sim_ctx *ctx); /* no lock */
/* Captures the task into the stream's graph or submits it. The task is moved on success and finished on failure. If
 * `op` is not NULL it gets a reference to the operation, or NULL when captured. */
CUresult sim_enqueue(struct sim_stream *stream, struct sim_task *task, struct sim_op **op);
struct sim_op *sim_op_from_task(struct sim_ctx *ctx, struct sim_task *task); /* moves the task */

/* copy.c: for graph nodes */
CUresult sim_copy_task(struct sim_task *task, const CUDA_MEMCPY3D *params);
CUresult sim_set_task(struct sim_task *task, const CUDA_MEMSET_NODE_PARAMS *params);

/* ---- module.c, launch.c -------------------------------------------------------------------------------------------
 */

struct sim_image { /* parsed code, shared by the modules made from it */
    unsigned refs;
    struct ptx_module *ptx;
    struct ptx_module_info info;
    size_t const_bytes;
};
struct sim_module {
    struct sim_module *next;
    struct sim_ctx *ctx;
    struct sim_image *image;
    struct sim_library *library; /* NULL for cuModuleLoad* */
    struct sim_function **functions;
    unsigned function_count;
    struct ptx_instance *instance;
};
struct sim_function {
    struct sim_module *module;
    const struct ptx_kernel *kernel;
    unsigned index;
    int max_dynamic_shared, carveout;
    bool loaded;
    bool nonportable_cluster;
    struct sim_op *loading; /* launches follow it; see sim_function_load */
};
struct sim_kernel { /* CUkernel */
    struct sim_library *library;
    unsigned index;
    int max_dynamic_shared, carveout;
};
struct sim_library {
    struct sim_image *image;
    struct sim_kernel **kernels;
    unsigned kernel_count;
};
/* A CUfunction, or a CUkernel cast to one. */
CUresult sim_function_get(CUfunction handle, struct sim_function **function);
void sim_module_free(struct sim_module *module);
/* Brings the function's code to the device, unless that was done. */
CUresult sim_function_load(struct sim_function *function);
int sim_function_occupancy(const struct sim_function *function, unsigned threads, size_t dynamic);
CUresult sim_kernel_task(struct sim_task *task, struct sim_function *function, const unsigned grid[3],
                         const unsigned block[3], unsigned shared, void **params, void **extra,
                         const CUlaunchAttribute *attributes, unsigned attribute_count);
void sim_kernel_run(const struct sim_task *task, struct sim_ctx *ctx);
CUresult sim_function_info(const struct sim_function *function, CUfunction_attribute attribute, int *value);

/* image.c: finds PTX text in what was given to cuModuleLoadData. The text is malloc()ed and 0-terminated. */
CUresult sim_image_text(const void *image, char **text);
CUresult sim_file_read(const char *path, void **bytes, size_t *size);

/* ---- capture.c, graph.c -------------------------------------------------------------------------------------------
 */

struct sim_node {
    struct sim_graph *graph;
    struct sim_task task;
    struct sim_node **deps;
    size_t dep_count, dep_room;
    size_t index; /* position in graph->nodes; used while instantiating and cloning */
    bool disabled;
    const struct sim_node *original; /* in clones and executables */
};
struct sim_graph {
    struct sim_node **nodes;
    size_t count, room;
    bool is_child; /* owned by a node */
    struct sim_capture *capture;
    struct sim_user **users;
    size_t user_count;
};
struct sim_graph_exec {
    struct sim_graph *graph;
    uint64_t flags;
    struct sim_op *last; /* launches of one executable do not overlap */
};
struct sim_capture {
    struct sim_capture *next;
    uint64_t id;
    CUstreamCaptureMode mode;
    uint64_t thread;
    struct sim_stream *origin;
    struct sim_graph *graph;
    bool invalid, own_graph;
};
struct sim_graph *sim_graph_create(void);
void sim_graph_free(struct sim_graph *graph);
struct sim_graph *sim_graph_clone(const struct sim_graph *graph);
CUresult sim_graph_add(struct sim_graph *graph, struct sim_node *const *deps, size_t count, struct sim_task *task,
                       struct sim_node **node); /* moves the task */
/* Operations for all nodes; roots follow what `first` follows; `last` follows all leaves. */
CUresult sim_graph_submit(struct sim_graph *graph, struct sim_stream *stream, struct sim_op *after);

/* For calls that may break a capture ("potentially unsafe"): 900, and the captures that forbid it are invalid. */
CUresult sim_capture_unsafe(void);
void sim_capture_invalidate(struct sim_capture *capture);
CUresult sim_capture_task(struct sim_stream *stream, struct sim_task *task); /* moves the task on success */
/* Work on the legacy stream while a blocking stream of the context captures: 906. */
CUresult sim_capture_legacy(struct sim_ctx *ctx);
/* Waiting for a stream or asking about it: 900 while it captures, and "potentially unsafe" else. */
CUresult sim_capture_query(struct sim_stream *stream);
/* Waiting for an event or asking about it: 907 when last recorded in a capture, and "potentially unsafe" else. */
CUresult sim_capture_event(struct sim_event *event);
/* A wait for a whole context: 900 while a stream of it captures. */
CUresult sim_capture_context(struct sim_ctx *ctx);
void sim_capture_forget_stream(struct sim_stream *stream);
CUresult sim_capture_record(struct sim_stream *stream, struct sim_event *event);
CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event);
CUresult sim_capture_set_tips(struct sim_stream *stream, struct sim_node *const *tips, size_t count);

/* ---- time.c -------------------------------------------------------------------------------------------------------
 */

void sim_time_init(void);
void sim_time_launch_cost(void);
/* Waits until the kernel that began then would have ended on the device; no lock. */
void sim_time_kernel(struct sim_device *device, uint64_t blocks, unsigned per_sm, unsigned warps_per_block,
                     const struct ptx_stats *stats, uint64_t began);

/* ---- small things -------------------------------------------------------------------------------------------------
 */

int sim_driver_version(void);
int sim_env_int(const char *name, int fallback, int low, int high);

#endif
