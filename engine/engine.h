/* SPDX-License-Identifier: Apache-2.0
 *
 * engine/: joins the scheduler to a driver.
 *
 * What is here
 *   lane.h      lanes and contexts: who may hold launches, and how far each lane has come
 *   function.h  what we know of a kernel: parameter layout, limits, occupancy
 *   record.h    a held launch or op as it lies in its lane's ring
 *   issue.c     taking records out of a lane and giving them to the driver
 *   code.h      which image each function came from
 *   twin.h      rewritten forms of kernels, and the thread that makes them
 *   twin_cache  ... and where they are kept on disk
 *   convoy.h    streams of ours in which several lanes go together while their launches are coalesced
 *   pack.c      a decision to coalesce, carried out
 *   device.c    the background thread of a device: asks the scheduler, issues, watches completions
 *   handle_map  lock-free lookup from driver handles to our own structures
 *
 * The life of a held launch
 *   A thread of the program reserves a record in its lane's ring, copies the launch into it and commits. It touches the
 *   lane (lane_touch): sets a bit that the device's thread looks at, if it is not set yet, and rings the bell, which is
 *   a load of one word while that thread is awake. From then on whoever holds the lane's issue lock may take the
 *   record out: the device's thread, when the scheduler chooses the lane; or a thread of the program that flushes the
 *   lane because a call must not overtake what the lane holds. So a flush never waits for the background thread to be
 *   scheduled by the kernel; it does the work itself.
 *
 * Invariants
 *  1. Records leave a lane in the order in which they were reserved, each exactly once, under the lane's issue lock.
 *  2. A record counts as consumed only after the driver call that issues it has returned. "Flushed up to token T" is
 *     therefore ring_consumed() >= T.
 *  3. Launches are issued in the lane's own stream (its home), or, while the lane is away in a convoy, in the convoy's
 *     stream. Its tail is in one of the two. Joining a convoy makes the convoy wait for home; going home makes home
 *     wait for the convoy. A call of the program that needs what the lane did finds the lane at home.
 *  4. The issue lock is held over driver calls for this lane only. Who waits for it waits for exactly these calls, as
 *     it would inside the driver. Nobody waits for a second lane's issue lock while holding one: the device's thread,
 *     which needs those of all members of a pack, tries them and goes without the members whose lock is taken.
 *  5. The device's thread launches, places completion markers and asks whether they are reached, and joins lanes to
 *     convoys by events: no synchronisation, no callback. It runs in relaxed capture mode, and places no marker while
 *     any stream of the process captures.
 *  6. What a marker covers can be read until the next one is reached: LANE_MARKS - 1 are on their way at most.
 *
 * What it may not do: exit, abort, print; allocate on the path of a launch; call cuInit; hold a launch that is not in
 * a ring. It depends on base, driver, trace, scheduler and coalesce.
 */
#ifndef COISSUE_ENGINE_ENGINE_H
#define COISSUE_ENGINE_ENGINE_H

#include "base/lock.h"
#include "base/thread.h"
#include "driver/driver.h"
#include "engine/handle_map.h"
#include "engine/twin_cache.h"
#include "scheduler/scheduler.h"
#include "trace/trace.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    ENGINE_DEVICES_MAX = 16,
    ENGINE_CONTEXTS_MAX = 64,
    ENGINE_RING_BYTES = 128 * 1024, /* per lane: at least three launches of the largest size, hundreds of usual ones */
    ENGINE_RINGS_MAX = 320,         /* over all devices: bounds the memory of a process, 320 * 136 KiB = 43 MiB */
};

struct code;
struct context;
struct device;
struct lane;
struct twin;

/* The thread that makes twins (twin.h), and its queue. */
struct twin_maker {
    struct lock lock;
    struct twin *first, *last;
    _Atomic uint32_t bell;
    struct thread thread; /* starts with the first twin */
    _Atomic uint64_t made, refused;
};

/*
 * Where a device's records come from when they are not committed by threads of this process: the broker's. All are
 * called by the device's thread, except wake.
 */
struct engine_feed {
    void *argument;
    /* Once a round: commits what came. True: somebody waits for what is in flight, so completion is looked at. */
    bool (*round)(void *argument, uint64_t now_ns);
    /* Sleeps until something came, or until wake. Called only if the last round was false. */
    void (*sleep)(void *argument);
    /* Any thread: makes sleep return, now or when it is called next. */
    void (*wake)(void *argument);
};

struct engine_options {
    const struct cu_driver *driver; /* borrowed, must outlive the engine; entries that are missing are NULL */
    struct trace *trace;            /* borrowed */
    bool tracing;                   /* a trace is written, so progress is worth a marker now and then */
    const char *policy;             /* NULL or empty: the default */
    uint32_t window, packs;
    uint64_t hold_cap_ns, spin_ns;
    bool coalesce;     /* launches of several lanes may become one */
    bool unproven;     /* also where rewritten machine code never ran (coalesce.h) */
    const char *cache; /* folder for rewritten kernels; NULL or empty: the user's; "off": none */
    uint64_t cache_bytes;
    bool verify; /* each launch is replaced by its rewritten form for one member */
    struct sched_lane_attr lane_attr;
    const struct engine_feed *feed; /* borrowed; NULL: programs commit their launches themselves */
    /* Something that should not happen did. Called at most a few times, in any thread, perhaps under a lane's lock. */
    void (*failed)(const char *what, CUresult result);
};

struct engine {
    struct engine_options options;
    const struct cu_driver *driver;

    struct lock tables;          /* writers of the maps and arrays below; never held over a wait for a lane */
    struct handle_map lanes;     /* lane key -> struct lane * */
    struct handle_map functions; /* CUfunction or CUkernel -> struct function * */
    struct handle_map events;    /* CUevent -> where its last record is queued */
    struct lock events_lock;
    _Atomic uint32_t function_epoch; /* raised when handles may have been recycled or attributes changed */

    struct handle_map codes; /* modules, libraries and what comes from them -> struct code * */
    struct lock code_lock;
    bool codes_full;
    _Atomic size_t code_copied; /* bytes of images that were copied */
    struct twin_maker twins;
    struct lock twins_of_one;     /* for verification only */
    struct twin_cache twin_cache; /* whoever makes twins: its thread, or when verifying the holder of the lock above */

    struct context *contexts; /* ENGINE_CONTEXTS_MAX of them */
    CUcontext refused;        /* the last one that could not be set up. Needs `tables` */
    struct device *devices[ENGINE_DEVICES_MAX];
    uint32_t rings;

    struct lock arena_lock;
    unsigned char *arena; /* for structures that live as long as the process */
    size_t arena_used, arena_size;

    /*
     * Captures in progress in this process. Raised before cuStreamBeginCapture reaches the driver and before lanes are
     * flushed for it: whoever takes a lane's issue lock after that flush sees it, and places no marker.
     */
    _Atomic int captures;
    _Atomic bool stopping;
};

/*
 * A trace that has the engine's words: names and texts of reasons and refusals. Otherwise as trace_create, with the
 * file, how often it is written, and events of each thread's ring.
 */
int engine_trace(const char *path, uint64_t flush_ns, uint32_t ring_events, struct trace **trace);

/* 90: the device has compute capability 9.0. 0: the driver does not say. */
unsigned engine_capability(const struct cu_driver *driver, CUdevice device);

/*
 * Calls of ours must not end a capture of another thread, nor fail because of one (traps: 24). What the calling
 * thread's mode was, for engine_unrelax; a thread of ours stays relaxed.
 */
CUstreamCaptureMode engine_relax(const struct cu_driver *driver);
void engine_unrelax(const struct cu_driver *driver, CUstreamCaptureMode mode);

/* -ENOMEM, -EINVAL (policy). Starts nothing: threads start with the first lane of their device. */
int engine_create(const struct engine_options *options, struct engine **engine);

/*
 * Stops our threads and waits until they have ended, since a driver that tears itself down is no place to be in. It
 * waits for about a second at most: what they call in the driver may in turn wait for the program, which is waiting
 * here. The memory stays, for threads of the program may still be inside. Called once, at exit, with flushed lanes.
 */
void engine_stop(struct engine *engine);

/* Zeroed memory that lives as long as the process, aligned to 64 bytes; NULL if there is none. Any thread. */
void *engine_arena(struct engine *engine, size_t bytes);

/* The bell of a device: its thread sees what was stored before, if it sleeps. What is new of a lane: lane_touch. */
void device_ring(struct device *device);

/* The first lane of a device. Needs engine->tables. -errno from starting the thread or asking the driver. */
int device_start(struct engine *engine, CUdevice ordinal, struct device **device);

#endif
