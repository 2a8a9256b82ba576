/* SPDX-License-Identifier: Apache-2.0
 *
 * From the clients' rings into lanes of the engine, and counts of what is complete back. The device's thread, under
 * worker->lock; but for feed_wake.
 *
 * A lane of the engine gets few records at a time: its head is all that the scheduler looks at, and what has been taken
 * from a client cannot be given back.
 */
#include "broker/private.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

enum {
    AHEAD = 2,         /* records in a lane of the engine: the head, and the one that becomes it */
    USUAL_BYTES = 512, /* of a launch of PyTorch or cuDNN with its parameters, at most */
    BATCH = 16,        /* records of one lane in one round, so that others get their turn */
    STUCK_NS = 5000000 /* somebody waits, and nothing is complete: the context is asked whether it lives */
};

static union {
    struct wire_record record;
    unsigned char bytes[(WIRE_RECORD_MAX + RING_UNIT) / RING_UNIT * RING_UNIT];
} copy; /* of the record at hand */

/* ---- issuing what is not a launch; run under the lane's issue lock ---- */

struct copy_call {
    CUdeviceptr to, from;
    uint64_t bytes;
    CUstream stream;
};

static CUresult issue_copy(const struct cu_driver *driver, const void *arguments, CUstream away)
{
    const struct copy_call *call = arguments;

    return driver->cuMemcpyAsync(call->to, call->from, call->bytes, away ? away : call->stream);
}

static CUresult issue_copy_in(const struct cu_driver *driver, const void *arguments, CUstream away)
{
    const struct copy_call *call = arguments;

    return driver->cuMemcpyHtoDAsync_v2(call->to, call + 1, call->bytes, away ? away : call->stream);
}

static CUresult issue_copy_out(const struct cu_driver *driver, const void *arguments, CUstream away)
{
    const struct copy_call *call = arguments;

    return driver->cuMemcpyDtoHAsync_v2((void *)(uintptr_t)call->to, call->from, call->bytes,
                                        away ? away : call->stream);
}

struct fill_call {
    CUdeviceptr to;
    uint64_t pitch, width, height;
    uint32_t value, element;
    CUstream stream;
};

static CUresult issue_fill(const struct cu_driver *driver, const void *arguments, CUstream away)
{
    const struct fill_call *call = arguments;
    CUstream stream = away ? away : call->stream;
    uint64_t pitch = call->height > 1 ? call->pitch : call->width * call->element;

    switch (call->element) {
    case 1:
        return driver->cuMemsetD2D8Async(call->to, pitch, (unsigned char)call->value, call->width, call->height,
                                         stream);
    case 2:
        return driver->cuMemsetD2D16Async(call->to, pitch, (unsigned short)call->value, call->width, call->height,
                                          stream);
    default:
        return driver->cuMemsetD2D32Async(call->to, pitch, call->value, call->width, call->height, stream);
    }
}

/* ---- into the engine ---- */

static void *reserve(struct lane *lane, const struct wire_record *from, uint32_t attributes, uint32_t payload,
                     struct record **record)
{
    uint64_t token, now_ns = clock_ns();

    *record = ring_reserve(&lane->ring, record_bytes(attributes, payload), &token);
    if (!*record)
        return NULL; /* cannot be: AHEAD records of the largest size fit */
    memset(*record, 0, sizeof(**record));
    (*record)->attribute_count = (uint8_t)attributes;
    (*record)->parameter_bytes = payload;
    (*record)->submit_ns = from->submit_ns < now_ns ? from->submit_ns : now_ns;
    (*record)->corr = (uint64_t)(lane->number + 1) << 40 | (token / RING_UNIT & 0xffffffffffu);
    return record_parameters(*record);
}

static void give_launch(const struct session *session, struct lane *lane)
{
    const struct wire_record *from = &copy.record;
    const struct function *function = session->functions[from->launch.function];
    struct record *record;
    void *parameters = reserve(lane, from, from->attribute_count, from->parameter_bytes, &record);

    if (!parameters)
        return;
    record->kind = RECORD_LAUNCH;
    record->glued = from->glued != 0;
    record->extended = from->extended != 0;
    record->launch.function = function;
    memcpy(record->launch.grid, from->launch.grid, sizeof(record->launch.grid));
    memcpy(record->launch.block, from->launch.block, sizeof(record->launch.block));
    record->launch.shared_bytes = from->launch.shared_bytes;
    record->launch.blocks_per_sm = function_blocks_per_sm(
        session->worker->engine, function, from->launch.block[0] * from->launch.block[1] * from->launch.block[2],
        from->launch.shared_bytes);
    memcpy((void *)record_attributes(record), wire_attributes(from), from->attribute_count * sizeof(CUlaunchAttribute));
    memcpy(parameters, wire_payload(from), from->parameter_bytes);
    lane_commit(lane, record);
}

static void give_copy(const struct session *session, struct lane *lane)
{
    const struct wire_record *from = &copy.record;
    struct copy_call *call;
    struct record *record;

    call = reserve(lane, from, 0, (uint32_t)sizeof(*call) + from->parameter_bytes, &record);
    if (!call)
        return;
    *call = (struct copy_call){from->copy.to, from->copy.from, from->copy.bytes, lane->stream};
    record->kind = RECORD_OP;
    record->op.issue = issue_copy;
    record->op.name = "copy";
    if (from->kind == WIRE_COPY_IN) {
        record->op.issue = issue_copy_in;
        memcpy(call + 1, wire_payload(from), from->parameter_bytes);
    }
    if (from->kind == WIRE_COPY_OUT) {
        record->op.issue = issue_copy_out;
        call->to = (uintptr_t)session->area->slot[0] + from->copy.to;
    }
    lane_commit(lane, record);
}

static void give_fill(struct lane *lane)
{
    const struct wire_record *from = &copy.record;
    struct fill_call *call;
    struct record *record;

    call = reserve(lane, from, 0, sizeof(*call), &record);
    if (!call)
        return;
    *call = (struct fill_call){from->fill.to,    from->fill.pitch,   from->fill.width, from->fill.height,
                               from->fill.value, from->fill.element, lane->stream};
    record->kind = RECORD_OP;
    record->op.issue = issue_fill;
    record->op.name = "memset";
    lane_commit(lane, record);
}

static void give(const struct session *session, struct lane *lane)
{
    if (copy.record.kind == WIRE_LAUNCH)
        give_launch(session, lane);
    else if (copy.record.kind == WIRE_FILL)
        give_fill(lane);
    else
        give_copy(session, lane);
}

/* ---- out of a ring ---- */

static bool wait_is_over(const struct session *session)
{
    const struct wire_lane *words = &session->area->lane[copy.record.wait.lane];

    if (copy.record.kind == WIRE_WAIT_LANE)
        return session->lane[copy.record.wait.lane].completed >= copy.record.wait.count;
    return (int32_t)(atomic_load_explicit(&((struct wire_lane *)words)->home, memory_order_acquire) -
                     (uint32_t)copy.record.wait.count) >= 0;
}

/* The next record, in `copy`; NULL: none, or it is malformed and the session is given up. */
static const struct wire_record *next_record(struct session *session, struct session_lane *lane)
{
    const char *fault;
    uint32_t bytes;
    const void *record = ring_peek(&lane->ring, &bytes);

    if (!record)
        return NULL;
    if (bytes < sizeof(struct wire_record) || bytes > WIRE_RECORD_MAX || !ring_holds(&lane->ring, record, bytes)) {
        session_give_up(session, "a record of impossible size");
        return NULL;
    }
    memcpy(&copy, record, bytes);
    fault = record_fault(session, &copy.record, bytes);
    if (fault) {
        session_give_up(session, fault);
        return NULL;
    }
    return &copy.record;
}

/* The lane of the engine has room for another record. */
static bool has_room(const struct session_lane *lane)
{
    return lane->lane &&
           lane->taken - lane->base - atomic_load_explicit(&lane->lane->issued, memory_order_acquire) < AHEAD;
}

/* True: there may be more, look again in the next round. */
static bool take_records(struct session *session, uint32_t number)
{
    struct session_lane *lane = &session->lane[number];
    struct wire_lane *words = &session->area->lane[number];

    if (!lane->lane)
        return false;
    for (int i = 0; i < BATCH; i++) {
        if (!has_room(lane))
            return true;
        if (!next_record(session, lane))
            return false;
        if (copy.record.kind >= WIRE_WAIT_LANE) {
            if (!wait_is_over(session))
                return true;
            ring_pop(&lane->ring);
            continue;
        }
        /* Then `abandoned`: see wire/area.h. */
        atomic_store_explicit(&words->taken, ++lane->taken, memory_order_seq_cst);
        if (atomic_load_explicit(&session->area->abandoned, memory_order_seq_cst)) {
            session_give_up(session, "it has given this broker up");
            return false;
        }
        ring_pop(&lane->ring);
        session->active |= UINT32_C(1) << number;
        give(session, lane->lane);
    }
    return true;
}

/* ---- what is complete ---- */

static void publish(struct session *session, uint32_t number, uint64_t completed)
{
    struct session_lane *lane = &session->lane[number];
    struct wire_lane *words = &session->area->lane[number];
    uint32_t error = atomic_load_explicit(&lane->lane->error, memory_order_relaxed);

    if (error && atomic_exchange_explicit(&lane->lane->error, 0, memory_order_relaxed))
        atomic_store_explicit(&words->error, error, memory_order_relaxed);
    lane->completed = completed;
    lane->since_ns = 0;
    /* Release: who finds the count finds the error, and what the work did. */
    atomic_store_explicit(&words->completed, completed, memory_order_release);
    /* seq_cst: pairs with the sleeper, which counts itself and then compares `done` in the kernel. */
    atomic_store_explicit(&words->done, (uint32_t)completed, memory_order_seq_cst);
    /*
     * Only for what is waited for: a server waits for the last of a hundred launches, and waking it for each would take
     * longer than all else here. Who waits for less than others of its lane looks again by itself.
     */
    if ((int32_t)((uint32_t)completed - atomic_load_explicit(&words->wanted, memory_order_relaxed)) >= 0 &&
        atomic_load_explicit(&words->sleepers, memory_order_seq_cst) > 0)
        wake_shared(&words->done, INT32_MAX);
}

static void ask_context(struct worker *worker, const struct session_lane *lane)
{
    CUresult result;

    if (worker->driver.cuCtxSetCurrent(worker->context) != CUDA_SUCCESS)
        return;
    result = worker->driver.cuStreamQuery(lane->stream);
    if (error_is_programs_own(result))
        atomic_store_explicit(&worker->fault, (uint32_t)result, memory_order_relaxed);
}

/* Publishes what is new in a lane. True: somebody waits for more. */
static bool hear_lane(struct session *session, uint32_t number, uint64_t now_ns)
{
    struct session_lane *lane = &session->lane[number];
    uint64_t completed;
    uint32_t wanted;

    if (!lane->lane) {
        session->active &= ~(UINT32_C(1) << number);
        return false;
    }
    completed = lane->base + atomic_load_explicit(&lane->lane->completed, memory_order_acquire);
    if (completed != lane->completed)
        publish(session, number, completed);
    if (completed >= lane->taken)
        session->active &= ~(UINT32_C(1) << number);
    wanted = atomic_load_explicit(&session->area->lane[number].wanted, memory_order_acquire);
    if ((int32_t)(wanted - (uint32_t)completed) <= 0 || completed >= lane->taken)
        return false;
    if (lane->since_ns == 0)
        lane->since_ns = now_ns;
    if (now_ns - lane->since_ns > STUCK_NS) {
        ask_context(session->worker, lane);
        lane->since_ns = now_ns;
    }
    return true;
}

/*
 * Which lanes to look at. Their records were written by other cores, and are asked for all at once: one after the
 * other, waiting for memory would take longer than everything else.
 */
static void hear_touches(struct session *session)
{
    if (atomic_load_explicit(&session->area->touched, memory_order_relaxed))
        session->pending |= atomic_exchange_explicit(&session->area->touched, 0, memory_order_seq_cst);
    for (uint32_t bits = session->pending; bits; bits &= bits - 1) {
        const struct session_lane *lane = &session->lane[__builtin_ctz(bits)];

        if (has_room(lane))
            ring_prefetch(&lane->ring, USUAL_BYTES);
    }
}

static bool round_of(struct session *session, uint64_t now_ns)
{
    bool waits = false;
    uint32_t bits = session->pending;

    session->pending = 0;
    for (; bits && session->fed && !session->closed; bits &= bits - 1) {
        uint32_t number = (uint32_t)__builtin_ctz(bits);

        if (number < WIRE_LANES && take_records(session, number))
            session->pending |= UINT32_C(1) << number;
    }
    for (bits = session->active; bits; bits &= bits - 1)
        waits |= hear_lane(session, (uint32_t)__builtin_ctz(bits), now_ns);
    return waits || session->pending;
}

/* The context is lost: who has work in flight gets the error, and nothing is taken any more. */
static void tell_fault(struct worker *worker, uint32_t fault)
{
    for (uint32_t i = 0; i < SESSIONS_MAX; i++) {
        struct session *session = fed_session(worker, i);

        if (!session)
            continue;
        for (uint32_t j = 0; j < WIRE_LANES; j++)
            if (session->lane[j].taken > session->lane[j].completed)
                atomic_store_explicit(&session->area->lane[j].error, fault, memory_order_release);
        session->fed = false;
        atomic_store_explicit(&session->area->state, WIRE_GONE, memory_order_release);
    }
}

bool feed_round(void *argument, uint64_t now_ns)
{
    static bool entered; /* questions about functions need a context */
    struct worker *worker = argument;
    struct session *session;
    uint32_t fault;
    bool waits = false;

    if (!entered)
        entered = worker->driver.cuCtxSetCurrent(worker->context) == CUDA_SUCCESS;
    atomic_store_explicit(&worker->round_ns, now_ns, memory_order_relaxed);
    lock_take(&worker->lock);
    for (uint32_t i = 0; i < SESSIONS_MAX; i++)
        if ((session = fed_session(worker, i)))
            __builtin_prefetch(&session->area->touched, 1);
    for (uint32_t i = 0; i < SESSIONS_MAX; i++)
        if ((session = fed_session(worker, i)))
            hear_touches(session);
    for (uint32_t i = 0; i < SESSIONS_MAX; i++)
        if ((session = fed_session(worker, i)))
            waits |= round_of(session, now_ns);
    fault = atomic_load_explicit(&worker->fault, memory_order_relaxed);
    if (fault)
        tell_fault(worker, fault);
    lock_drop(&worker->lock);
    return waits;
}

/* Tells the clients whether they must ring. True: one of them has touched a lane. */
static bool set_asleep(struct worker *worker, uint32_t asleep)
{
    struct session *session;
    bool touched = false;

    lock_take(&worker->lock);
    for (uint32_t i = 0; i < SESSIONS_MAX; i++)
        if ((session = fed_session(worker, i)))
            atomic_store_explicit(&session->area->asleep, asleep, memory_order_seq_cst);
    /* `asleep` before, `touched` after. Pairs with the fence in wire_touch. */
    atomic_thread_fence(memory_order_seq_cst);
    for (uint32_t i = 0; i < SESSIONS_MAX; i++)
        if ((session = fed_session(worker, i)))
            touched |= atomic_load_explicit(&session->area->touched, memory_order_seq_cst) != 0;
    lock_drop(&worker->lock);
    return touched;
}

void feed_sleep(void *argument)
{
    struct worker *worker = argument;
    uint64_t count;

    atomic_store_explicit(&worker->round_ns, UINT64_MAX, memory_order_relaxed);
    /* A wake that came before is still in the doorbell. A session that is new rings it. */
    if (!set_asleep(worker, 1))
        while (read(worker->doorbell, &count, sizeof(count)) < 0 && errno == EINTR)
            ;
    set_asleep(worker, 0);
}

void feed_wake(void *argument)
{
    wire_knock(((struct worker *)argument)->doorbell);
}
