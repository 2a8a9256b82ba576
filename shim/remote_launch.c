/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches, copies and memsets on their way to the broker, and the order between them and what stays at home.
 */
#include "shim/remote.h"

#include "base/clock.h"
#include "shim/launch.h"

#include <sched.h>
#include <stddef.h>
#include <string.h>

_Static_assert((int)RECORD_ATTRIBUTES_MAX <= (int)WIRE_ATTRIBUTES_MAX &&
                   (int)RECORD_PARAMETERS_MAX <= (int)WIRE_PARAMETERS_MAX,
               "what a lane of this process takes, the broker takes too");

bool remote_used;

enum {
    LOOK_NS = 1000000,  /* between two looks at whether the broker is well */
    SPIN_NS = 50000,    /* how long a thread looks at a count before it sleeps: a round trip takes less than 20 us */
    NAP_NS = 1000000,   /* and how long it sleeps at most before it looks whether the broker is well */
    CALM_NS = 20000000, /* how long a call that need not wait for the device does so, to spare home the wait */
};

static struct wire_lane *words_of(const struct remote_lane *lane)
{
    return &lane->remote->area->lane[lane->number];
}

static struct remote_lane *alive_lane(const struct lane *lane)
{
    struct remote_lane *remote =
        lane ? atomic_load_explicit(&((struct lane *)lane)->remote, memory_order_acquire) : NULL;

    return remote && remote_is_alive(remote->remote) ? remote : NULL;
}

struct remote_lane *remote_lane_of(struct lane *lane)
{
    struct remote_lane *known = alive_lane(lane);
    struct remote *remote;

    if (likely(known))
        return known;
    remote = remote_of(lane->context->ordinal);
    return remote ? remote_lane_begin(remote, lane) : NULL;
}

/* ---- waiting ---- */

void remote_want(struct remote_lane *lane, uint64_t count)
{
    struct wire_lane *words = words_of(lane);
    uint32_t now = atomic_load_explicit(&words->wanted, memory_order_relaxed);

    while ((int32_t)((uint32_t)count - now) > 0 &&
           !atomic_compare_exchange_weak_explicit(&words->wanted, &now, (uint32_t)count, memory_order_release,
                                                  memory_order_relaxed))
        ;
    wire_touch(lane->remote->area, lane->number, lane->remote->doorbell);
}

static void nap(struct wire_lane *words, uint64_t count)
{
    uint32_t done = atomic_load_explicit(&words->done, memory_order_acquire);

    /* Counted before `done` is compared in the kernel; the broker stores `done` before it looks at the count. */
    atomic_fetch_add_explicit(&words->sleepers, 1, memory_order_seq_cst);
    if ((int32_t)(done - (uint32_t)count) < 0)
        wait_shared(&words->done, done, NAP_NS);
    atomic_fetch_sub_explicit(&words->sleepers, 1, memory_order_relaxed);
}

bool remote_wait(struct remote_lane *lane, uint64_t count, uint64_t limit_ns)
{
    uint64_t begin_ns, looked_ns, now_ns;

    if (remote_has(lane, count))
        return true;
    begin_ns = looked_ns = clock_ns();
    remote_want(lane, count);
    for (int spins = 1; !remote_has(lane, count); spins++) {
        if (spins % 64 != 0) {
            cpu_relax();
            continue;
        }
        now_ns = clock_ns();
        if (now_ns - begin_ns > limit_ns)
            return false;
        if (now_ns - looked_ns > LOOK_NS) {
            if (!remote_is_well(lane->remote, begin_ns))
                return remote_has(lane, count);
            looked_ns = now_ns;
        }
        if (now_ns - begin_ns > SPIN_NS)
            nap(words_of(lane), count);
        else
            sched_yield();
    }
    return true;
}

/* ---- records ---- */

static void leave(struct remote_lane *lane)
{
    atomic_fetch_sub_explicit(&lane->pushers, 1, memory_order_seq_cst);
}

/*
 * Counts the thread among the pushers, and its record, if it is work, among those that were sent. False: the broker is
 * lost, and nothing may be pushed.
 */
static bool enter(struct remote_lane *lane, bool work)
{
    atomic_fetch_add_explicit(&lane->pushers, 1, memory_order_seq_cst);
    /* seq_cst: pairs with remote_lose, which stores the state and then looks at the pushers. */
    if (unlikely(atomic_load_explicit(&lane->remote->state, memory_order_seq_cst) != REMOTE_ALIVE)) {
        leave(lane);
        return false;
    }
    if (work)
        atomic_fetch_add_explicit(&lane->sent, 1, memory_order_acq_rel);
    return true;
}

static void leave_without(struct remote_lane *lane, bool work)
{
    if (work)
        atomic_fetch_sub_explicit(&lane->sent, 1, memory_order_acq_rel);
    leave(lane);
}

/*
 * The ring is full: the device is far behind. Natively the driver's own queue would be full, and the call would wait.
 * The thread is among the pushers again when this is true. False: the broker was lost.
 */
static bool await_room(struct remote_lane *lane, bool work, uint64_t *begin_ns)
{
    if (*begin_ns == 0)
        *begin_ns = clock_ns();
    leave_without(lane, work); /* who falls back waits for the pushers, and counts what they pushed */
    wire_touch(lane->remote->area, lane->number, lane->remote->doorbell);
    sched_yield();
    return (clock_ns() - *begin_ns <= LOOK_NS || remote_is_well(lane->remote, *begin_ns)) && enter(lane, work);
}

/* Room for a record; the thread is among the pushers then. NULL: the broker was lost. */
static struct wire_record *begin(struct remote_lane *lane, uint32_t bytes, bool work)
{
    struct wire_record *record;
    uint64_t begin_ns = 0;

    if (!enter(lane, work))
        return NULL;
    while (unlikely(!(record = ring_reserve(&lane->ring, bytes, NULL))))
        if (!await_room(lane, work, &begin_ns))
            return NULL;
    return record;
}

static void end(struct remote_lane *lane, struct wire_record *record)
{
    ring_commit(&lane->ring, record);
    leave(lane);
    wire_touch(lane->remote->area, lane->number, lane->remote->doorbell);
}

static bool push_wait(struct remote_lane *lane, enum wire_kind kind, uint32_t number, uint64_t count)
{
    struct wire_record *record = begin(lane, sizeof(*record), false);

    if (!record)
        return false;
    memset(record, 0, sizeof(*record));
    record->kind = (uint8_t)kind;
    record->submit_ns = clock_ns();
    record->wait.lane = number;
    record->wait.count = count;
    end(lane, record);
    return true;
}

void remote_follow(struct remote_lane *lane, struct remote_lane *other, uint64_t count)
{
    _Atomic uint64_t *behind = &lane->behind[other->number];
    uint64_t now = atomic_load_explicit(behind, memory_order_relaxed);

    if (other == lane || now >= count || remote_has(other, count))
        return;
    push_wait(lane, WIRE_WAIT_LANE, other->number, count);
    while (now < count &&
           !atomic_compare_exchange_weak_explicit(behind, &now, count, memory_order_release, memory_order_relaxed))
        ;
    atomic_store_explicit(&lane->settled, 0, memory_order_release); /* home does not wait for that yet */
}

/* Home may have work that was not there, or not known to be complete, at the last fence. */
static bool is_dirty(const struct remote_lane *lane)
{
    return atomic_load_explicit(&((struct remote_lane *)lane)->worked, memory_order_acquire) !=
           atomic_load_explicit(&((struct remote_lane *)lane)->fenced, memory_order_acquire);
}

/*
 * All that home has in the lane's stream is known to be complete, and so is what the rule of the null stream puts
 * before the lane's next work. The driver answers for one stream, so where that rule holds it is asked for both, and
 * for the null stream only while no stream is known that it would wait for.
 */
static bool home_is_idle(const struct remote_lane *lane)
{
    const struct lane *local = lane->lane;

    /* What there was before the first lane of the context, nobody has seen. */
    if (local->legacy && lane->home == 0)
        return false;
    if (local->legacy && (atomic_load_explicit(&local->context->blocking, memory_order_acquire) > 0 ||
                          atomic_load_explicit(&local->context->strangers, memory_order_acquire)))
        return false;
    return shim_driver.cuStreamQuery(local->stream) == CUDA_SUCCESS &&
           (!local->blocking || shim_driver.cuStreamQuery(NULL) == CUDA_SUCCESS);
}

/*
 * What is pushed next comes behind what the program has put into its own stream so far. Often that is complete, and
 * then a question to the driver is all. `fenced` is stored last: a thread that finds the lane clean finds the wait in
 * the ring.
 */
static void fence(struct remote_lane *lane)
{
    CUstream home = lane->lane->stream;
    CUdeviceptr word = lane->remote->area_on_device + offsetof(struct wire_area, lane) +
                       lane->number * sizeof(struct wire_lane) + offsetof(struct wire_lane, home);
    CUstreamCaptureMode mode = engine_relax(&shim_driver);
    uint32_t worked;
    bool fenced;

    lock_take(&lane->fence);
    worked = atomic_load_explicit(&lane->worked, memory_order_acquire);
    fenced = !is_dirty(lane) || home_is_idle(lane);
    if (!fenced &&
        shim_driver.cuStreamWriteValue32_v2(home, word, lane->home + 1, CU_STREAM_WRITE_VALUE_DEFAULT) == CUDA_SUCCESS)
        fenced = push_wait(lane, WIRE_WAIT_HOME, lane->number, ++lane->home);
    else if (!fenced)
        fenced = shim_driver.cuStreamSynchronize(home) == CUDA_SUCCESS; /* an error is the program's to find */
    if (fenced)
        atomic_store_explicit(&lane->fenced, worked, memory_order_release);
    lock_drop(&lane->fence);
    engine_unrelax(&shim_driver, mode);
}

/* The rule of the null stream, among what the broker has. See order.c. */
static void follow_around(struct remote_lane *lane)
{
    const struct context *context = lane->lane->context;
    struct remote_lane *other;

    if (lane->lane->legacy) {
        for (uint32_t i = 0; i < device_lane_top(context->device); i++) {
            struct lane *beside = device_lane(context->device, i);

            if (beside->context == context && beside->blocking && (other = alive_lane(beside)))
                remote_follow(lane, other, atomic_load_explicit(&other->sent, memory_order_acquire));
        }
    } else if (lane->lane->blocking) {
        other = alive_lane(atomic_load_explicit(&((struct context *)context)->legacy, memory_order_acquire));
        if (other)
            remote_follow(lane, other, atomic_load_explicit(&other->sent, memory_order_acquire));
    }
}

/* Before a record of work. */
static void order_before(struct remote_lane *lane)
{
    struct lane *local = (struct lane *)lane->lane;

    if (unlikely(!lane_is_settled(local)))
        lane_flush_all(local, SCHED_REASON_FLUSH); /* from before the broker came */
    if (is_dirty(lane))
        fence(lane);
    if (local->legacy ? atomic_load_explicit(&local->context->blocking, memory_order_acquire) > 0 : local->blocking)
        follow_around(lane);
}

enum sched_reason remote_launch(struct remote_lane *lane, const struct launch *launch, const struct function *function,
                                const struct arguments *arguments)
{
    struct wire_record *record;
    int64_t number;

    if (unlikely(!remote_memory_all_shared(lane->remote)))
        return SCHED_REASON_PRIVATE;
    number = remote_function(lane->remote, function);
    if (unlikely(number < 0))
        return SCHED_REASON_FOREIGN;
    order_before(lane);
    record = begin(lane, wire_record_bytes(launch->attribute_count, arguments->bytes), true);
    if (unlikely(!record))
        return SCHED_REASON_LOST;
    record->kind = WIRE_LAUNCH;
    record->glued = arguments->glued;
    record->extended = launch->extended;
    record->attribute_count = (uint8_t)launch->attribute_count;
    record->parameter_bytes = arguments->bytes;
    record->submit_ns = launch->begin_ns;
    record->launch.function = (uint32_t)number;
    memcpy(record->launch.grid, launch->grid, sizeof(record->launch.grid));
    memcpy(record->launch.block, launch->block, sizeof(record->launch.block));
    record->launch.shared_bytes = launch->shared_bytes;
    if (launch->attribute_count > 0)
        memcpy((void *)wire_attributes(record), launch->attributes,
               launch->attribute_count * sizeof(CUlaunchAttribute));
    launch_copy_parameters(wire_payload(record), launch, function, arguments);
    end(lane, record);
    return SCHED_REASON_BROKER;
}

/* ---- copies and memsets ---- */

/* The lane whose work goes to the broker now, or NULL. Only one that launches already: others gain nothing. */
struct remote_lane *remote_of_stream(struct stream_key key)
{
    CUcontext context;
    struct remote_lane *lane;

    if (!remote_used || shim_mode() != MODE_FULL || stream_is_per_thread(key) ||
        atomic_load_explicit(&shim_engine->captures, memory_order_relaxed) > 0)
        return NULL;
    context = order_current_context();
    lane = context ? alive_lane(lane_find(shim_engine, context, key.stream)) : NULL;
    return lane && lane->lane->context->handle == context && remote_memory_all_shared(lane->remote) ? lane : NULL;
}

bool remote_stands(struct stream_key key, struct remote_lane **lane, uint64_t *count)
{
    struct remote_lane *found = remote_of_stream(key);

    /* Where the null stream orders, a record also stands for what others did. */
    if (!found || found->lane->blocking ||
        (found->lane->legacy && atomic_load_explicit(&found->lane->context->blocking, memory_order_acquire) > 0))
        return false;
    if (is_dirty(found) && !home_is_idle(found))
        return false;
    for (uint32_t i = 0; i < WIRE_LANES; i++)
        if (!remote_has(&found->remote->lane[i], atomic_load_explicit(&found->behind[i], memory_order_acquire)))
            return false;
    *lane = found;
    *count = atomic_load_explicit(&found->sent, memory_order_acquire);
    return true;
}

static struct wire_record *begin_work(struct remote_lane *lane, enum wire_kind kind, uint32_t payload)
{
    struct wire_record *record;

    order_before(lane);
    record = begin(lane, wire_record_bytes(0, payload), true);
    if (!record)
        return NULL;
    memset(record, 0, sizeof(*record));
    record->kind = (uint8_t)kind;
    record->submit_ns = clock_ns();
    return record;
}

static bool push_copy(struct remote_lane *lane, enum wire_kind kind, uint64_t to, uint64_t from, uint64_t bytes,
                      const void *content)
{
    uint32_t payload = content ? (uint32_t)bytes : 0;
    struct wire_record *record = begin_work(lane, kind, payload);

    if (!record)
        return false;
    record->parameter_bytes = payload;
    record->copy.to = to;
    record->copy.from = from;
    record->copy.bytes = bytes;
    if (payload)
        memcpy(wire_payload(record), content, payload);
    end(lane, record);
    return true;
}

bool remote_copy(struct stream_key key, uint64_t to, uint64_t from, uint64_t bytes)
{
    struct remote_lane *lane = remote_of_stream(key);

    return lane && bytes > 0 && remote_memory_holds(lane->remote, to, bytes) &&
           remote_memory_holds(lane->remote, from, bytes) && push_copy(lane, WIRE_COPY, to, from, bytes, NULL);
}

bool remote_copy_in(struct stream_key key, uint64_t to, const void *from, uint64_t bytes)
{
    struct remote_lane *lane = remote_of_stream(key);

    if (!lane || bytes == 0 || !from || !remote_memory_holds(lane->remote, to, bytes))
        return false;
    if (remote_memory_holds(lane->remote, (uint64_t)from, bytes))
        return push_copy(lane, WIRE_COPY, to, (uint64_t)from, bytes, NULL);
    /* Pageable: the driver, too, has read it when the call returns. */
    return bytes <= WIRE_COPY_IN_MAX && push_copy(lane, WIRE_COPY_IN, to, 0, bytes, from);
}

static uint32_t take_slot(struct remote *remote)
{
    for (uint32_t i = 0; i < WIRE_SLOTS; i++)
        if (lock_try(&remote->slot[i]))
            return i;
    lock_take(&remote->slot[0]);
    return 0;
}

/* To pageable memory, by way of a slot of the area. The driver, too, returns when such a copy is complete. */
static bool copy_out(struct remote_lane *lane, char *to, uint64_t from, uint64_t bytes)
{
    struct remote *remote = lane->remote;
    uint32_t slot = take_slot(remote);
    bool copied = true;

    for (uint64_t done = 0; copied && done < bytes;) {
        uint64_t piece = bytes - done < WIRE_SLOT_BYTES ? bytes - done : WIRE_SLOT_BYTES;

        copied = push_copy(lane, WIRE_COPY_OUT, (uint64_t)slot * WIRE_SLOT_BYTES, from + done, piece, NULL) &&
                 remote_wait(lane, atomic_load_explicit(&lane->sent, memory_order_acquire), UINT64_MAX) &&
                 remote_is_alive(remote);
        if (copied)
            memcpy(to + done, remote->area->slot[slot], piece);
        done += piece;
    }
    lock_drop(&remote->slot[slot]);
    return copied;
}

bool remote_copy_out(struct stream_key key, void *to, uint64_t from, uint64_t bytes)
{
    struct remote_lane *lane = remote_of_stream(key);

    if (!lane || bytes == 0 || !to || !remote_memory_holds(lane->remote, from, bytes))
        return false;
    if (remote_memory_holds(lane->remote, (uint64_t)to, bytes))
        return push_copy(lane, WIRE_COPY, (uint64_t)to, from, bytes, NULL);
    return copy_out(lane, to, from, bytes);
}

bool remote_fill(struct stream_key key, uint64_t to, uint64_t pitch, uint64_t width, uint64_t height, uint32_t value,
                 uint32_t element)
{
    struct remote_lane *lane = remote_of_stream(key);
    struct wire_record *record;
    uint64_t row, bytes;

    if (!lane || width == 0 || height == 0 || to % element != 0 || __builtin_mul_overflow(width, element, &row) ||
        (height > 1 && row > pitch) || __builtin_mul_overflow(pitch, height - 1, &bytes) ||
        __builtin_add_overflow(bytes, row, &bytes) || !remote_memory_holds(lane->remote, to, bytes))
        return false;
    record = begin_work(lane, WIRE_FILL, 0);
    if (!record)
        return false;
    record->fill.to = to;
    record->fill.pitch = pitch;
    record->fill.width = width;
    record->fill.height = height;
    record->fill.value = value;
    record->fill.element = element;
    end(lane, record);
    return true;
}

/* ---- home comes behind ---- */

CUresult remote_take_error(struct remote_lane *lane)
{
    struct wire_lane *words = words_of(lane);
    CUresult result;

    if (likely(atomic_load_explicit(&words->error, memory_order_relaxed) == 0))
        return CUDA_SUCCESS;
    result = (CUresult)atomic_exchange_explicit(&words->error, 0, memory_order_relaxed);
    if (error_is_programs_own(result)) /* what it left behind is the same as if its own context had failed */
        atomic_store_explicit(&remote_broken, (uint32_t)result, memory_order_relaxed);
    return result;
}

static void latch_error(const struct lane *lane, struct remote_lane *remote)
{
    CUresult none = CUDA_SUCCESS, result = remote_take_error(remote);

    if (result != CUDA_SUCCESS)
        atomic_compare_exchange_strong_explicit(&lane->context->latched, &none, result, memory_order_relaxed,
                                                memory_order_relaxed);
}

void remote_await(struct lane *lane)
{
    struct remote_lane *remote = alive_lane(lane);

    if (!remote)
        return;
    remote_wait(remote, atomic_load_explicit(&remote->sent, memory_order_acquire), UINT64_MAX);
    for (uint32_t i = 0; i < WIRE_LANES; i++)
        remote_wait(&remote->remote->lane[i], atomic_load_explicit(&remote->behind[i], memory_order_acquire),
                    UINT64_MAX);
    latch_error(lane, remote);
}

static bool captures(CUstream stream)
{
    CUstreamCaptureStatus status;

    return atomic_load_explicit(&shim_engine->captures, memory_order_seq_cst) > 0 &&
           (!shim_driver.cuStreamIsCapturing || shim_driver.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
            status != CU_STREAM_CAPTURE_STATUS_NONE);
}

/* The stream `at` waits on the device for a count of a lane. Its context is current. */
static void stream_waits(CUstream at, struct remote_lane *lane, uint64_t count)
{
    CUdeviceptr word = lane->remote->area_on_device + offsetof(struct wire_area, lane) +
                       lane->number * sizeof(struct wire_lane) + offsetof(struct wire_lane, done);

    if (remote_has(lane, count))
        return;
    /* Nothing of ours may enter a graph, so for a stream that captures the host waits. */
    if (captures(at) ||
        shim_driver.cuStreamWaitValue32_v2(at, word, (uint32_t)count, CU_STREAM_WAIT_VALUE_GEQ) != CUDA_SUCCESS)
        remote_wait(lane, count, UINT64_MAX);
    else
        remote_want(lane, count);
}

static void home_waits(struct lane *lane, struct remote_lane *remote, uint64_t sent)
{
    bool entered = lane_enter(lane);

    stream_waits(lane->stream, remote, sent);
    for (uint32_t i = 0; i < WIRE_LANES; i++)
        stream_waits(lane->stream, &remote->remote->lane[i],
                     atomic_load_explicit(&remote->behind[i], memory_order_acquire));
    if (entered)
        lane_leave(lane);
}

/*
 * The lanes in whose streams the calling thread's present call works. They are dirty from before the call, so that no
 * other thread's record passes it, and once more after it: one that came in between made them clean.
 */
static __thread struct {
    struct remote_lane *lane[2];
    bool more;
} works __attribute__((tls_model("initial-exec")));

static void work_at_home(struct remote_lane *lane)
{
    atomic_fetch_add_explicit(&lane->worked, 1, memory_order_release);
}

static void note_home(struct remote_lane *lane)
{
    if (!works.lane[0] || works.lane[0] == lane)
        works.lane[0] = lane;
    else if (!works.lane[1] || works.lane[1] == lane)
        works.lane[1] = lane;
    else
        works.more = true;
    work_at_home(lane);
}

static void all_dirty(void)
{
    for (int d = 0; d < ENGINE_DEVICES_MAX; d++) {
        struct device *device = __atomic_load_n(&shim_engine->devices[d], __ATOMIC_ACQUIRE);

        for (uint32_t i = 0; device && i < device_lane_top(device); i++) {
            struct remote_lane *lane = alive_lane(device_lane(device, i));

            if (lane)
                work_at_home(lane);
        }
    }
}

void remote_called(void)
{
    for (int i = 0; i < 2; i++) {
        if (works.lane[i])
            work_at_home(works.lane[i]);
        works.lane[i] = NULL;
    }
    if (works.more)
        all_dirty();
    works.more = false;
}

void remote_settle(struct lane *lane)
{
    struct remote_lane *remote = alive_lane(lane);
    uint64_t sent, settled;

    if (!remote)
        return;
    sent = atomic_load_explicit(&remote->sent, memory_order_acquire);
    settled = atomic_load_explicit(&remote->settled, memory_order_relaxed);
    if (settled < sent) {
        home_waits(lane, remote, sent);
        atomic_store_explicit(&remote->settled, sent, memory_order_relaxed);
    }
    latch_error(lane, remote);
    note_home(remote);
}

void remote_settle_all(const struct context *context)
{
    if (!remote_used)
        return;
    for (int d = 0; d < ENGINE_DEVICES_MAX; d++) {
        struct device *device = __atomic_load_n(&shim_engine->devices[d], __ATOMIC_ACQUIRE);

        for (uint32_t i = 0; device && i < device_lane_top(device); i++) {
            struct lane *lane = device_lane(device, i);
            struct remote_lane *remote = alive_lane(lane);

            if (!remote || (context && lane->context != context) ||
                atomic_load_explicit(&lane->state, memory_order_acquire) != LANE_LIVE)
                continue;
            remote_wait(remote, atomic_load_explicit(&remote->sent, memory_order_acquire), CALM_NS);
            remote_settle(lane);
        }
    }
}
