/* SPDX-License-Identifier: Apache-2.0
 *
 * The broker is lost: what it did not take is issued at home, in order, and launches go home from then on.
 *
 * The area stays mapped, for the memory is shared and not the broker's alone. A broker that only hung may come back in
 * the middle of this: it finds `abandoned` set and drops the record that it has in its hands, so records beyond `taken`
 * are ours. They are read through a view of the ring with ends of its own, because the broker may still move the real
 * ones.
 *
 * All of it goes through one stream of its own, lane by lane: home streams may wait for the lanes' `done` words, which
 * are stored here as the records complete.
 */
#include "shim/remote.h"

#include "base/clock.h"
#include "base/log.h"
#include "engine/function.h"

#include <sched.h>
#include <string.h>

enum { HOME_MAX_NS = 1000000000 }; /* how long a home word is waited for, that the program's own device writes */

_Atomic uint32_t remote_broken;

struct replay_lane {
    struct ring ring;
    struct ring_ends ends;
    uint64_t count, sent; /* work records that are done with: taken by the broker, or issued here; and all of them */
    bool busy;            /* being replayed, further up the stack */
};

struct replay {
    struct remote *remote;
    CUstream stream;
    CUresult result; /* the first that failed */
    struct replay_lane lane[WIRE_LANES];
};

static void replay_lane(struct replay *replay, uint32_t number, uint64_t until);

static CUresult replay_launch(struct replay *replay, const struct wire_record *record)
{
    size_t size = record->parameter_bytes;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, wire_payload(record), CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    CUlaunchConfig config = {
        .gridDimX = record->launch.grid[0],
        .gridDimY = record->launch.grid[1],
        .gridDimZ = record->launch.grid[2],
        .blockDimX = record->launch.block[0],
        .blockDimY = record->launch.block[1],
        .blockDimZ = record->launch.block[2],
        .sharedMemBytes = record->launch.shared_bytes,
        .hStream = replay->stream,
        .attrs = (CUlaunchAttribute *)wire_attributes(record),
        .numAttrs = record->attribute_count,
    };
    CUfunction function = replay->remote->functions[record->launch.function];

    if (record->extended)
        return shim_driver.cuLaunchKernelEx(&config, function, NULL, size > 0 ? extra : NULL);
    return shim_driver.cuLaunchKernel(function, config.gridDimX, config.gridDimY, config.gridDimZ, config.blockDimX,
                                      config.blockDimY, config.blockDimZ, config.sharedMemBytes, replay->stream, NULL,
                                      size > 0 ? extra : NULL);
}

static CUresult replay_fill(const struct wire_record *record, CUstream stream)
{
    const typeof(record->fill) *fill = &record->fill;

    switch (fill->element) {
    case 1:
        return shim_driver.cuMemsetD2D8Async(fill->to, fill->pitch, (unsigned char)fill->value, fill->width,
                                             fill->height, stream);
    case 2:
        return shim_driver.cuMemsetD2D16Async(fill->to, fill->pitch, (unsigned short)fill->value, fill->width,
                                              fill->height, stream);
    default:
        return shim_driver.cuMemsetD2D32Async(fill->to, fill->pitch, fill->value, fill->width, fill->height, stream);
    }
}

static CUresult replay_work(struct replay *replay, const struct wire_record *record)
{
    unsigned char *slots = replay->remote->area->slot[0];

    switch (record->kind) {
    case WIRE_LAUNCH:
        return replay_launch(replay, record);
    case WIRE_COPY:
        return shim_driver.cuMemcpyAsync(record->copy.to, record->copy.from, record->copy.bytes, replay->stream);
    case WIRE_COPY_IN:
        return shim_driver.cuMemcpyHtoDAsync_v2(record->copy.to, wire_payload(record), record->copy.bytes,
                                                replay->stream);
    case WIRE_COPY_OUT:
        return shim_driver.cuMemcpyDtoHAsync_v2(slots + record->copy.to, record->copy.from, record->copy.bytes,
                                                replay->stream);
    default:
        return replay_fill(record, replay->stream);
    }
}

static void note(struct replay *replay, CUresult result)
{
    if (replay->result == CUDA_SUCCESS)
        replay->result = result;
}

/* All up to the lanes' counts is complete, for who waits for it: threads, and home streams. */
static void publish(struct replay *replay)
{
    for (uint32_t i = 0; i < WIRE_LANES; i++) {
        struct wire_lane *words = &replay->remote->area->lane[i];

        atomic_store_explicit(&words->completed, replay->lane[i].count, memory_order_release);
        atomic_store_explicit(&words->done, (uint32_t)replay->lane[i].count, memory_order_release);
        wake_shared(&words->done, INT32_MAX);
    }
}

static void catch_up(struct replay *replay)
{
    note(replay, shim_driver.cuStreamSynchronize(replay->stream));
    publish(replay);
}

static void replay_wait(struct replay *replay, const struct wire_record *record)
{
    const struct wire_lane *words = &replay->remote->area->lane[record->wait.lane];
    uint64_t begin_ns = clock_ns();

    if (record->kind == WIRE_WAIT_LANE) {
        replay_lane(replay, record->wait.lane, record->wait.count);
        return; /* one stream, so what is issued next comes behind it */
    }
    catch_up(replay); /* the home stream may wait for that */
    while ((int32_t)(atomic_load_explicit(&words->home, memory_order_acquire) - (uint32_t)record->wait.count) < 0) {
        sched_yield();
        if (clock_ns() - begin_ns > HOME_MAX_NS) {
            note(replay, CUDA_ERROR_LAUNCH_TIMEOUT);
            return;
        }
    }
}

/* Issues the lane's records up to a count. */
static void replay_lane(struct replay *replay, uint32_t number, uint64_t until)
{
    struct replay_lane *lane = &replay->lane[number];
    const struct wire_record *record;
    uint32_t bytes;

    if (lane->busy)
        return;
    lane->busy = true;
    while (lane->count < until && (record = ring_peek(&lane->ring, &bytes))) {
        if (record->kind < WIRE_WAIT_LANE) {
            note(replay, replay_work(replay, record));
            lane->count++;
        } else {
            replay_wait(replay, record);
        }
        ring_pop(&lane->ring);
    }
    lane->busy = false;
}

/*
 * How many work records there are between the ends, and where the first of them ends. Nobody pushes any more, so what
 * is not committed is a record that a broker which came back has just removed: then the real end has moved, or will.
 */
static uint64_t records_in(struct remote_lane *lane, struct replay_lane *view, uint64_t *behind_first)
{
    uint64_t work, position, before;
    uint32_t bytes;

again:
    work = 0;
    position = atomic_load(&lane->ring.ends->consumed);
    atomic_store_explicit(&view->ends.consumed, position, memory_order_relaxed);
    *behind_first = position;
    while (position < ring_reserved(&view->ring)) {
        const struct wire_record *record;

        before = position;
        record = ring_look(&view->ring, &position, &bytes);
        if (record && record->kind < WIRE_WAIT_LANE && work++ == 0)
            *behind_first = position;
        if (position == before) {
            sched_yield();
            goto again;
        }
    }
    return work;
}

/* Counts what is lost, and what is left to do. Returns whether work may have run in part. */
static bool take_stock(struct replay *replay)
{
    bool lost = false;

    for (uint32_t i = 0; i < WIRE_LANES; i++) {
        struct remote_lane *remote_lane = &replay->remote->lane[i];
        struct wire_lane *words = &replay->remote->area->lane[i];
        struct replay_lane *lane = &replay->lane[i];
        uint64_t behind_first, held, taken;

        ring_attach(&lane->ring, &lane->ends, remote_lane->ring.data, (uint32_t)remote_lane->ring.size);
        atomic_store_explicit(&lane->ends.reserved, atomic_load(&remote_lane->ring.ends->reserved),
                              memory_order_relaxed);
        held = records_in(remote_lane, lane, &behind_first);
        /* After `abandoned` was set: see wire/area.h. */
        taken = atomic_load_explicit(&words->taken, memory_order_seq_cst);
        lane->sent = atomic_load_explicit(&remote_lane->sent, memory_order_acquire);
        lane->count = taken;
        if (taken + held > lane->sent) /* one was taken and is still there */
            atomic_store_explicit(&lane->ends.consumed, behind_first, memory_order_relaxed);
        lost |= taken > atomic_load_explicit(&words->completed, memory_order_acquire);
    }
    return lost;
}

static void await_pushers(struct remote *remote)
{
    for (uint32_t i = 0; i < WIRE_LANES; i++)
        while (atomic_load_explicit(&remote->lane[i].pushers, memory_order_seq_cst) > 0)
            sched_yield();
}

static struct lane *any_lane(const struct remote *remote)
{
    for (uint32_t i = 0; i < WIRE_LANES; i++)
        if (remote->lane[i].lane)
            return (struct lane *)remote->lane[i].lane;
    return NULL;
}

/* The error that a lane's records ended with, if the broker said so before it went. */
static CUresult told(const struct remote *remote)
{
    for (uint32_t i = 0; i < WIRE_LANES; i++) {
        CUresult result = (CUresult)atomic_load_explicit(&remote->area->lane[i].error, memory_order_acquire);

        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_ERROR_LAUNCH_FAILED;
}

/* Issues what the broker did not take. The context of a lane is made current; all lanes of a device share one mostly.
 */
static void replay_all(struct replay *replay, const struct lane *any)
{
    bool entered = lane_enter(any);

    note(replay, shim_driver.cuStreamCreate(&replay->stream, CU_STREAM_NON_BLOCKING));
    if (replay->result == CUDA_SUCCESS) {
        for (uint32_t i = 0; i < WIRE_LANES; i++)
            replay_lane(replay, i, replay->lane[i].sent);
        catch_up(replay);
        shim_driver.cuStreamDestroy_v2(replay->stream);
    }
    if (entered)
        lane_leave(any);
}

/* Streams that wait for the lanes must not wait for ever, whatever became of the work. */
static void release_all(struct replay *replay)
{
    for (uint32_t i = 0; i < WIRE_LANES; i++)
        replay->lane[i].count = replay->lane[i].sent;
    publish(replay);
}

static void fall_back(struct remote *remote, const char *why)
{
    struct replay replay = {.remote = remote};
    const struct lane *any = any_lane(remote);
    uint64_t left = 0;
    bool lost;

    atomic_store_explicit(&remote->area->abandoned, 1, memory_order_seq_cst);
    await_pushers(remote);
    lost = take_stock(&replay);
    for (uint32_t i = 0; i < WIRE_LANES; i++)
        left += replay.lane[i].sent - replay.lane[i].count;
    if (!lost && any && left > 0)
        replay_all(&replay, any);
    if (lost)
        replay.result = told(remote);
    release_all(&replay);
    if (replay.result != CUDA_SUCCESS)
        atomic_store_explicit(&remote_broken, (uint32_t)replay.result, memory_order_relaxed);
    log_warn("device %d: the broker is lost (%s); launches stay in this process%s", remote->device, why,
             !lost ? "" : ", and what it had begun has failed");
}

void remote_lose(struct remote *remote, const char *why)
{
    uint32_t alive = REMOTE_ALIVE;

    /* seq_cst: pairs with enter() in remote_launch.c. */
    if (atomic_compare_exchange_strong_explicit(&remote->state, &alive, REMOTE_LOSING, memory_order_seq_cst,
                                                memory_order_acquire)) {
        fall_back(remote, why ? why : "it is not well");
        atomic_store_explicit(&remote->state, REMOTE_DEAD, memory_order_seq_cst);
        wake_word(&remote->state, INT32_MAX);
        return;
    }
    while ((alive = atomic_load_explicit(&remote->state, memory_order_acquire)) == REMOTE_LOSING)
        wait_word(&remote->state, REMOTE_LOSING, UINT64_MAX);
}
