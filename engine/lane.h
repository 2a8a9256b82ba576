/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts and lanes: whose launches are held, and how far each lane has come.
 *
 * A lane is the program order of one stream of one context. It is made at the first launch into the stream and ends
 * with the stream or its context. Lanes are pooled and never freed, because other threads may still look at one that
 * has just ended; `key` tells them.
 *
 * The null stream is a lane of its context (legacy lane). Per-thread default streams have none: their handle means
 * another stream on the thread that would issue, so they are never held.
 */
#ifndef COISSUE_ENGINE_LANE_H
#define COISSUE_ENGINE_LANE_H

#include "base/ring.h"
#include "engine/engine.h"
#include "engine/record.h"

enum {
    LANE_MARKS = 64, /* completion markers of one lane that may be on their way */
    CONVOYS = 4,     /* of one context */
};

struct convoy;

enum lane_state { LANE_FREE, LANE_LIVE, LANE_ENDED }; /* ended: the device's thread has not forgotten it yet */

struct context {
    CUcontext handle; /* NULL: free slot. Written under engine->tables */
    CUdevice ordinal;
    struct device *device;
    _Atomic CUresult latched;      /* what issuing a held launch failed with, to be returned by the next call */
    _Atomic(struct lane *) legacy; /* lane of the null stream, once there is one */
    _Atomic uint32_t blocking; /* lanes of blocking streams, ever made: 0 means that the null stream has no company */
    _Atomic bool strangers;    /* there was work in a stream that has no lane, so may be blocking */
    uint32_t generation;       /* raised each time the slot is used for another context */
    /*
     * Completion words, one cache line per lane slot, written by the device. Our own memory, registered with the
     * context: when the context goes the registration goes, but a thread that still polls a word reads valid memory.
     */
    unsigned char *words;
    CUdeviceptr words_on_device;
    struct convoy *convoys; /* CONVOYS of them, once there is one. The device's thread */
};

struct lane {
    struct ring ring;

    /* Constant while the lane lives. */
    struct engine *engine;
    struct device *device;
    struct context *context;
    CUstream stream;
    uint32_t index;  /* in its device, and for the scheduler */
    uint32_t number; /* in the process, for traces */
    bool legacy, blocking;
    struct sched_lane_attr attr;
    uint32_t generation;    /* of the context when the lane began to use its word */
    _Atomic uint32_t *word; /* completion word: number of the last marker that the device reached */
    CUdeviceptr word_on_device;
    _Atomic uint64_t key;   /* of engine->lanes; 0 once the lane has ended */
    _Atomic uint32_t state; /* enum lane_state */
    void *_Atomic remote;   /* the shim's, for launches that another process makes; NULL in each new life */

    /* Taking records out, and everything below until `known`, needs this. */
    struct lock issue;
    _Atomic uint64_t issued; /* records issued so far; the next one has sequence number issued + 1 */
    uint64_t marked;         /* all up to here is covered by a marker */
    uint32_t marks;          /* markers placed; the completion word shows the number of the last one that was reached */
    uint64_t mark_covers[LANE_MARKS];
    /*
     * Where the tail is: in a convoy's stream, or at home (NULL). Written under the issue lock. Seen by whoever finds
     * the ring empty, because it is stored before the record that made it so is popped.
     */
    _Atomic(struct convoy *) away;
    CUevent event; /* for leaving home and coming back */
    uint32_t event_generation;
    uint32_t singles;            /* launches since it was last coalesced, while away */
    uint32_t life;               /* which life of this slot */
    unsigned char *area;         /* parameters of a twin, when verifying */
    struct sched_launch flushed; /* the most demanding launch that flushing threads issued since the scheduler heard */
    bool any_flushed;

    _Atomic uint32_t error;     /* CUresult of the first record of this life that could not be issued; 0: none */
    _Atomic uint64_t completed; /* all up to here is complete, as far as the device's thread knows */
    _Atomic uint64_t synced;    /* all up to here is complete: a synchronising call of the program said so */

    /* The device's thread only. */
    bool known; /* to the scheduler */
    bool offered;
    uint64_t told_issued, told_complete;
    uint32_t seen_mark;
    struct sched_launch head;
};

/* The key of a stream's lane in engine->lanes. Handles are aligned pointers, so the low bit is free for the null
 * stream. */
static inline uint64_t lane_key(CUcontext context, CUstream stream)
{
    if (stream == NULL || stream == CU_STREAM_LEGACY)
        return (uint64_t)context | 1;
    return (uint64_t)stream;
}

/* The lane of a stream if there is one, else NULL. Never waits. */
static inline struct lane *lane_find(struct engine *engine, CUcontext context, CUstream stream)
{
    return (struct lane *)handle_map_get(&engine->lanes, lane_key(context, stream));
}

/*
 * Makes the lane of a stream, or finds it. Asks the driver about the stream and, for the first lane of a context, takes
 * some pinned host memory in it, so not while anything captures. NULL: no more lanes, or the driver refused.
 */
struct lane *lane_make(struct engine *engine, CUcontext context, CUstream stream);

/* The same with attributes of its own for the scheduler, instead of the engine's. */
struct lane *lane_make_with(struct engine *engine, CUcontext context, CUstream stream,
                            const struct sched_lane_attr *attr);

/* The stream goes away. The lane must have been flushed. NULL is fine. */
void lane_end(struct lane *lane);

/* A context goes away, and its lanes with it: they must have been flushed. Unknown contexts are fine. */
void context_end(struct engine *engine, CUcontext context);

/* The context if a lane was ever made in it, else NULL. */
struct context *context_find(struct engine *engine, CUcontext context);

/* Takes a latched error out, or CUDA_SUCCESS. */
CUresult context_take_error(struct context *context);

/* Nothing of the lane waits to be issued. The caller's own earlier submissions are included. */
static inline bool lane_is_empty(const struct lane *lane)
{
    return ring_empty(&lane->ring);
}

/* And what it did is in the program's own stream: a call on that stream comes behind all of it. */
static inline bool lane_is_settled(const struct lane *lane)
{
    return ring_empty(&lane->ring) && atomic_load_explicit(&((struct lane *)lane)->away, memory_order_acquire) == NULL;
}

/* There is something about this lane that the device's thread should hear of. Any thread, after having stored it. */
void lane_touch(const struct lane *lane);

/*
 * Nothing of the lane is on its way. Only where all that its stream does are its records: a program puts work of its
 * own into its streams, that nobody counts. Needs the issue lock.
 */
static inline bool lane_is_idle(const struct lane *lane)
{
    return lane->engine->options.feed &&
           atomic_load_explicit(&((struct lane *)lane)->completed, memory_order_acquire) >=
               atomic_load_explicit(&((struct lane *)lane)->issued, memory_order_relaxed);
}

/* Publishes a record and tells the device's thread. */
static inline void lane_commit(struct lane *lane, struct record *record)
{
    ring_commit((struct ring *)&lane->ring, record);
    lane_touch(lane);
}

/*
 * Issues what the lane holds, up to and including the record with `token`, on the calling thread, in the lane's own
 * stream. Records that other threads reserved but have not committed are waited for. May be called with any context
 * current.
 */
void lane_flush(struct lane *lane, uint64_t token, enum sched_reason reason);

/* The same for all that is reserved now, and if the lane is away it comes home. */
void lane_flush_all(struct lane *lane, enum sched_reason reason);

/*
 * The program will wait for what the lane did. If the lane is away, waiting for the convoy's markers is cheaper than
 * going home, which takes two driver calls: then this waits, for a while, until all is known complete.
 */
void lane_await(struct lane *lane);

/* Makes the lane's context current for the calling thread. True: lane_leave must pop it again. */
bool lane_enter(const struct lane *lane);
void lane_leave(const struct lane *lane);

/* All lanes of a context, or of the process if `context` is NULL. Returns how many had anything to issue. */
uint32_t lanes_flush(struct engine *engine, const struct context *context, enum sched_reason reason);

/*
 * Takes and drops each lane's issue lock. What was stored before is seen by whoever takes one of them afterwards, and
 * whoever held one before has finished.
 */
void lanes_pass(struct engine *engine);

/* Remembers that all that was issued when `issued` was read is complete now. */
void lane_synced(struct lane *lane, uint64_t issued);

/* The lanes of a device, by index below its top; ended and free ones are among them, see `state`. Any thread. */
uint32_t device_lane_top(const struct device *device);
struct lane *device_lane(struct device *device, uint32_t index);

/* The lane with this number, or NULL. */
struct lane *lane_by_number(struct engine *engine, uint32_t number);

/* --- for device.c and issue.c, under lane->issue --- */

/* Issues the oldest committed record. False if there is none. The lane's context must be current. */
bool lane_issue_one(struct lane *lane, enum sched_reason reason, struct sched_launch *launch);

/* Fills `launch` from the oldest committed record. False if there is none. */
bool lane_peek(struct lane *lane, struct sched_launch *launch);

/* Home waits for what the lane did in a convoy. The lane's context must be current. Being at home is fine. */
void lane_go_home(struct lane *lane);

/* What follows when the oldest record was issued: it is traced and leaves the ring. `at`: the stream it went to. */
struct issue {
    enum sched_reason reason;
    CUstream at;
    uint64_t begin_ns, end_ns;
    uint32_t pack;    /* number of the pack, 0: none */
    uint32_t members; /* of it */
    bool first;       /* of the members: so that packs can be counted */
};
void lane_issued(struct lane *lane, const struct record *record, const struct sched_launch *launch,
                 const struct issue *issue);

/* The attributes of a launch, as they are in the stream that it goes to: RECORD_ATTRIBUTES_MAX at most. Returns how
 * many. */
uint32_t launch_attributes(const struct record *record, bool away, CUlaunchAttribute *to);

/* What is launched: the program's kernel with its parameters, or a twin of it with a parameter area. */
struct lane_shot {
    CUfunction function;
    uint32_t grid[3];
    void *parameters;
    size_t bytes;
};

/* Launches it at the lane's tail, with block, shared memory and attributes of `record`. */
CUresult lane_fire(const struct lane *lane, const struct record *record, const struct lane_shot *shot);

/* Remembers an error for the next call of the context, and complains unless the program's own kernels caused it. */
void lane_failed(struct lane *lane, const char *what, CUresult result);

/* An error that a kernel of the program causes, and that says nothing about us. */
bool error_is_programs_own(CUresult result);

/* The oldest committed record and what the scheduler would be told of it; NULL if there is none. */
const struct record *lane_head(struct lane *lane, struct sched_launch *launch);

/* Puts a completion marker behind what was issued. The lane's context must be current; nothing may be capturing. */
void lane_mark(struct lane *lane);

#endif
