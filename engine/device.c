/* SPDX-License-Identifier: Apache-2.0
 *
 * The background thread of a device.
 *
 * One round: hear what changed in each lane (survey), ask the scheduler, do what it says. With nothing to do the thread
 * spins for spin_ns, since the next launch of a busy program is microseconds away, then sleeps on `asleep` until a lane
 * commits. While launches are held it does not sleep: completions and hold caps are looked at all the time.
 *
 * Completion is known from markers: a 32-bit word in host memory that the device writes behind a launch
 * (cuStreamWriteValue32), or in a convoy an event (convoy.h). On an H200 a word costs about 0.9 us of this thread and
 * 2 us of the stream, so markers are placed only where somebody needs to know: while lanes compete, or every
 * TRACE_MARK_EVERY launches for a trace.
 */
#include "engine/device.h"

#include "base/clock.h"
#include "coalesce/coalesce.h"
#include "engine/convoy.h"
#include "engine/pack.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>

enum {
    COMPETE_MARK_EVERY = 4, /* launches per marker while lanes compete and the lane holds more */
    TRACE_MARK_EVERY = 16,  /* launches per marker when only a trace wants to know */
    DECISIONS = 16,         /* in one round; then completions and new launches are looked at */
    AWAY_SINGLES = 16,      /* launches that nobody joined, after which a lane leaves its convoy */
    LOAD_EVERY_NS = 100000, /* counters in a trace: more often would crowd out the launches they are about */
};

void device_grow(struct device *device, uint32_t top)
{
    if (top > atomic_load_explicit(&device->lane_top, memory_order_relaxed))
        atomic_store_explicit(&device->lane_top, top, memory_order_release);
}

uint32_t device_lane_top(const struct device *device)
{
    return atomic_load_explicit(&device->lane_top, memory_order_acquire);
}

struct lane *device_lane(struct device *device, uint32_t index)
{
    return &device->lanes[index];
}

struct lane *lane_by_number(struct engine *engine, uint32_t number)
{
    struct device *device = NULL;

    if (number / SCHED_LANES_MAX < ENGINE_DEVICES_MAX)
        device = __atomic_load_n(&engine->devices[number / SCHED_LANES_MAX], __ATOMIC_ACQUIRE);
    return device ? &device->lanes[number % SCHED_LANES_MAX] : NULL;
}

static void wake(struct device *device)
{
    if (atomic_load_explicit(&device->asleep, memory_order_relaxed) == 0)
        return;
    if (atomic_exchange_explicit(&device->asleep, 0, memory_order_relaxed) == 0)
        return;
    if (device->engine->options.feed)
        device->engine->options.feed->wake(device->engine->options.feed->argument);
    else
        wake_word(&device->asleep, 1);
}

void device_ring(struct device *device)
{
    /*
     * What the thread should see was stored before, `asleep` is read after. Pairs with the fence in rest(): either we
     * see that the thread is about to sleep, or it sees what we stored when it looks once more.
     */
    atomic_thread_fence(memory_order_seq_cst);
    wake(device);
}

void lane_touch(const struct lane *lane)
{
    _Atomic uint32_t *word = &lane->device->touched[lane->index % DEVICE_TOUCH_WORDS].lanes;
    uint32_t bit = UINT32_C(1) << lane->index / DEVICE_TOUCH_WORDS;

    /*
     * As in device_ring. Also pairs with the exchange in hear_touches(): if the bit is still set here, the exchange
     * that takes it comes later, and what is looked at behind it is what we stored. The line is only written if it must
     * be.
     */
    atomic_thread_fence(memory_order_seq_cst);
    if (!(atomic_load_explicit(word, memory_order_relaxed) & bit))
        atomic_fetch_or_explicit(word, bit, memory_order_seq_cst);
    wake(lane->device);
}

static bool capturing(const struct device *device)
{
    return atomic_load_explicit(&device->engine->captures, memory_order_seq_cst) > 0;
}

bool device_enter(struct device *device, CUcontext context)
{
    uint32_t ended = atomic_load_explicit(&device->contexts_ended, memory_order_acquire);

    /* A context that went away may have left its handle to another one. */
    if (device->current == context && device->contexts_seen == ended)
        return true;
    device->contexts_seen = ended;
    if (device->engine->driver->cuCtxSetCurrent(context) != CUDA_SUCCESS)
        return false;
    device->current = context;
    return true;
}

static void trace_complete(const struct lane *lane, uint64_t seq, uint64_t now_ns)
{
    struct trace_event event = {
        .ts_ns = now_ns,
        .corr = seq,
        .stream = (uint64_t)lane->stream,
        .lane = lane->number,
        .kind = TRACE_COMPLETE,
        .device = (uint32_t)lane->device->ordinal,
    };

    trace_put(lane->engine->options.trace, &event);
}

static void tell_complete(struct lane *lane, uint64_t seq, uint64_t now_ns)
{
    if (seq <= lane->told_complete)
        return;
    lane->told_complete = seq;
    atomic_store_explicit(&lane->completed, seq, memory_order_release);
    sched_complete(lane->device->sched, lane->index, seq, now_ns);
    if (lane->engine->options.tracing)
        trace_complete(lane, seq, now_ns);
}

/* What the device and synchronising calls of the program say. */
static void hear_completions(struct lane *lane, uint64_t now_ns)
{
    uint64_t synced = atomic_load_explicit(&lane->synced, memory_order_acquire);
    uint32_t mark = atomic_load_explicit(lane->word, memory_order_acquire);

    if (mark != lane->seen_mark) {
        lane->seen_mark = mark;
        tell_complete(lane, lane->mark_covers[mark % LANE_MARKS], now_ns);
    }
    if (synced > lane->told_complete && synced <= lane->told_issued)
        tell_complete(lane, synced, now_ns);
}

/* What flushing threads issued since the last round, and what is the head now. */
static void hear_lane(struct device *device, struct lane *lane, uint64_t now_ns)
{
    uint64_t issued = atomic_load_explicit(&lane->issued, memory_order_acquire);
    bool changed = issued != lane->told_issued;

    if (!changed && (lane->offered || lane_is_empty(lane)))
        return;
    if (!lock_try(&lane->issue)) {
        lane_bit_set(device->again, lane); /* somebody flushes it */
        return;
    }
    issued = atomic_load_explicit(&lane->issued, memory_order_relaxed);
    if (issued != lane->told_issued) {
        if (lane->any_flushed)
            sched_issued(device->sched, lane->index, &lane->flushed, now_ns);
        lane->any_flushed = false;
        lane->told_issued = issued;
        lane->offered = false;
        lane_bit_set(device->unmarked, lane);
    }
    if (!lane->offered) {
        lane->offered = lane_peek(lane, &lane->head);
        sched_offer(device->sched, lane->index, lane->offered ? &lane->head : NULL);
        if (!lane->offered && !lane_is_empty(lane))
            lane_bit_set(device->again, lane); /* a record that is about to be committed, or to be cancelled */
    }
    lock_drop(&lane->issue);
}

static void take_up(struct device *device, struct lane *lane)
{
    if (sched_lane_add(device->sched, lane->index, &lane->attr) == 0)
        lane->known = true;
}

static void give_up(struct device *device, struct lane *lane)
{
    if (lane->known)
        sched_lane_remove(device->sched, lane->index);
    lane->known = false;
    lane->offered = false;
    /* Release: pairs with the acquire in slot_is_usable; the slot may be used again. */
    atomic_store_explicit(&lane->state, LANE_FREE, memory_order_release);
}

static void hear_convoys(struct device *device, uint64_t now_ns)
{
    for (uint32_t i = 0; i < device->convoy_contexts; i++)
        for (uint32_t j = 0; j < CONVOYS; j++) {
            struct convoy *convoy = &device->with_convoys[i]->convoys[j];

            if (convoy->stream && convoy->generation == device->with_convoys[i]->generation)
                convoy_hear(convoy, tell_complete, now_ns);
        }
}

static void look_at(struct device *device, struct lane *lane, uint64_t now_ns)
{
    uint32_t state = atomic_load_explicit(&lane->state, memory_order_acquire);

    if (state == LANE_ENDED)
        give_up(device, lane);
    if (state != LANE_LIVE)
        return;
    if (!lane->known)
        take_up(device, lane);
    hear_completions(lane, now_ns);
    hear_lane(device, lane, now_ns);
    /* The device will write the lane's word, or what was synchronised was not known to be issued yet. */
    if (lane->marks != lane->seen_mark ||
        atomic_load_explicit(&lane->synced, memory_order_relaxed) > lane->told_complete)
        lane_bit_set(device->again, lane);
}

static void hear_touches(struct device *device)
{
    for (uint32_t i = 0; i < DEVICE_TOUCH_WORDS; i++) {
        _Atomic uint32_t *word = &device->touched[i].lanes;
        uint32_t bits;

        if (atomic_load_explicit(word, memory_order_relaxed) == 0)
            continue;
        for (bits = atomic_exchange_explicit(word, 0, memory_order_seq_cst); bits; bits &= bits - 1)
            set_bit(device->again, (uint32_t)__builtin_ctz(bits) * DEVICE_TOUCH_WORDS + i);
    }
}

/* Looks at the lanes that were touched, and at those that may have changed by themselves. */
static void survey(struct device *device, uint64_t now_ns)
{
    hear_convoys(device, now_ns);
    hear_touches(device);
    for (uint32_t word = 0; word < DEVICE_LANE_WORDS; word++) {
        uint64_t bits = device->again[word];

        device->again[word] = 0;
        for (; bits; bits &= bits - 1)
            look_at(device, &device->lanes[word * 64 + (uint32_t)__builtin_ctzll(bits)], now_ns);
    }
}

/* Counters for the trace, when they changed. */
static void trace_load(struct device *device, uint64_t now_ns)
{
    struct sched_load load;
    struct trace_event event;

    sched_load(device->sched, &load);
    if ((load.offered == device->told_held && load.inflight == device->told_flight) ||
        now_ns - device->told_load_ns < LOAD_EVERY_NS)
        return;
    device->told_load_ns = now_ns;
    device->told_held = load.offered;
    device->told_flight = load.inflight;
    event = (struct trace_event){
        .ts_ns = now_ns,
        .kind = TRACE_LOAD,
        .device = (uint32_t)device->ordinal,
        .value = {load.offered, load.inflight, (uint32_t)load.msm},
    };
    trace_put(device->engine->options.trace, &event);
}

static bool lanes_compete(const struct device *device)
{
    struct sched_load load;

    sched_load(device->sched, &load);
    return load.lanes_inflight > 1 || (load.lanes_inflight == 1 && load.offered > 0);
}

/* Marks a lane if somebody will want to know how far it came. Needs the issue lock and its context current. */
static void mark_if_useful(struct device *device, struct lane *lane, bool compete)
{
    struct convoy *convoy = atomic_load_explicit(&lane->away, memory_order_relaxed);
    uint64_t unmarked = convoy ? convoy->noted - convoy->marked
                               : atomic_load_explicit(&lane->issued, memory_order_relaxed) - lane->marked;
    uint64_t every = compete ? COMPETE_MARK_EVERY : TRACE_MARK_EVERY;

    if (unmarked == 0 || capturing(device) || (!compete && !device->engine->options.tracing))
        return;
    if (unmarked < every && !lane_is_empty(lane))
        return;
    if (convoy)
        convoy_mark(convoy);
    else
        lane_mark(lane);
}

/* Issues the head of a lane. Needs the issue lock and its context current. */
static void issue_head(struct device *device, struct lane *lane, enum sched_reason reason, bool compete)
{
    struct convoy *convoy = atomic_load_explicit(&lane->away, memory_order_relaxed);
    struct sched_launch launch;

    if (convoy && ++lane->singles > AWAY_SINGLES)
        lane_go_home(lane);
    if (!lane_issue_one(lane, reason, &launch))
        return;
    convoy = atomic_load_explicit(&lane->away, memory_order_relaxed); /* it may have gone home */
    sched_issued(device->sched, lane->index, &launch, clock_ns());
    lane->told_issued = launch.seq;
    if (convoy)
        convoy_note(convoy, lane, launch.seq);
    else
        lane_bit_set(device->unmarked, lane);
    mark_if_useful(device, lane, compete);
    lane_bit_set(device->again, lane);
}

static void issue_left_over(struct device *device, struct lane *lane, enum sched_reason reason)
{
    issue_head(device, lane, reason, true);
}

static void issue_member(struct device *device, struct lane *lane, uint64_t seq, enum sched_reason reason, bool compete)
{
    struct sched_launch launch;

    lane->offered = false; /* whatever becomes of it, look at the lane again */
    lane_bit_set(device->again, lane);
    if (!lock_try(&lane->issue))
        return; /* a flush is at it */
    if (atomic_load_explicit(&lane->state, memory_order_relaxed) == LANE_LIVE && lane_peek(lane, &launch) &&
        launch.seq == seq && device_enter(device, lane->context->handle))
        issue_head(device, lane, reason, compete);
    lock_drop(&lane->issue);
}

static void carry_out(struct device *device, const struct sched_decision *decision)
{
    bool compete = lanes_compete(device) || decision->kind == SCHED_COSCHEDULE;

    atomic_fetch_add_explicit(&device->issues, 1, memory_order_relaxed);
    if (decision->count > 1)
        pack_issue(device, decision, issue_left_over);
    else
        issue_member(device, &device->lanes[decision->member[0].lane], decision->member[0].seq, decision->reason,
                     compete);
}

/*
 * A decision, and further ones while they are about copies and memsets, which come once for each member of a pack:
 * hearing of everything takes longer than issuing one. After a launch the lanes' new heads are heard first, since one
 * of them may be less advanced than those that are known.
 */
static void carry_out_all(struct device *device, struct sched_decision *decision, uint64_t now_ns)
{
    uint64_t wake_ns;

    for (int i = 1;; i++) {
        bool op = decision->count == 1 && device->lanes[decision->member[0].lane].head.kernel == 0;

        carry_out(device, decision);
        if (!op || i == DECISIONS || sched_next(device->sched, now_ns, decision, &wake_ns) != 1)
            return;
    }
}

/* A marker for what a lane did at home. */
static void mark_lane(struct device *device, struct lane *lane)
{
    /* Away, the convoy's markers cover what it did at home too. */
    if (!lane->known || lane->told_complete >= lane->told_issued || lane->marked == lane->told_issued ||
        atomic_load_explicit(&lane->away, memory_order_relaxed)) {
        lane_bit_clear(device->unmarked, lane);
        return;
    }
    if (!lock_try(&lane->issue))
        return;
    if (atomic_load_explicit(&lane->state, memory_order_relaxed) == LANE_LIVE && !capturing(device) &&
        atomic_load_explicit(&lane->away, memory_order_relaxed) == NULL &&
        device_enter(device, lane->context->handle)) {
        lane_mark(lane);
        lane_bit_set(device->again, lane);
        if (lane->marked == lane->told_issued)
            lane_bit_clear(device->unmarked, lane);
    }
    lock_drop(&lane->issue);
}

/*
 * Launches are held, so lanes compete: those that were alone until now were not marked, and their completion is what
 * the held launches wait for.
 */
static void mark_flight(struct device *device)
{
    if (capturing(device))
        return;
    for (uint32_t word = 0; word < DEVICE_LANE_WORDS; word++)
        for (uint64_t bits = device->unmarked[word]; bits; bits &= bits - 1)
            mark_lane(device, &device->lanes[word * 64 + (uint32_t)__builtin_ctzll(bits)]);
    for (uint32_t i = 0; i < device->convoy_contexts; i++)
        for (uint32_t j = 0; j < CONVOYS; j++) {
            struct context *context = device->with_convoys[i];
            struct convoy *convoy = &context->convoys[j];

            if (convoy->stream && convoy->generation == context->generation && convoy->marked != convoy->noted &&
                !convoy_will_tell(convoy) && context->handle && device_enter(device, context->handle))
                convoy_mark(convoy);
        }
}

static bool any_waiting(const struct device *device)
{
    uint32_t top = atomic_load_explicit(&device->lane_top, memory_order_acquire);

    for (uint32_t i = 0; i < top; i++) {
        const struct lane *lane = &device->lanes[i];
        uint32_t state = atomic_load_explicit(&lane->state, memory_order_acquire);

        if (state == LANE_ENDED || (state == LANE_LIVE && !lane_is_empty(lane)))
            return true;
    }
    return false;
}

/* Somebody looks at what this thread finds out. */
static bool is_awaited(const struct device *device)
{
    return device->feed_waits || atomic_load_explicit(&((struct device *)device)->awaited, memory_order_relaxed) > 0;
}

static void rest(struct device *device)
{
    const struct engine_feed *feed = device->engine->options.feed;

    atomic_store_explicit(&device->asleep, 1, memory_order_relaxed);
    /* `asleep` before, the rings after. Pairs with the fences in device_ring and lane_touch. */
    atomic_thread_fence(memory_order_seq_cst);
    if (!any_waiting(device) && !is_awaited(device) &&
        !atomic_load_explicit(&device->engine->stopping, memory_order_acquire)) {
        if (feed)
            feed->sleep(feed->argument);
        else
            wait_word(&device->asleep, 1, UINT64_MAX);
    }
    atomic_store_explicit(&device->asleep, 0, memory_order_relaxed);
}

/* Waiting without sleeping. On a machine with few cores, let whoever makes the work run. */
static void idle_round(uint64_t *rounds)
{
    cpu_relax();
    if (++*rounds % 64 == 0)
        sched_yield();
}

static void device_loop(struct device *device)
{
    const struct engine_feed *feed = device->engine->options.feed;
    uint64_t idle_since = 0, rounds = 0;
    struct sched_decision decision;

    while (!atomic_load_explicit(&device->engine->stopping, memory_order_acquire)) {
        uint64_t now_ns = clock_ns(), wake_ns = UINT64_MAX;

        if (feed)
            device->feed_waits = feed->round(feed->argument, now_ns);
        survey(device, now_ns);
        if (sched_next(device->sched, now_ns, &decision, &wake_ns) == 1) {
            carry_out_all(device, &decision, now_ns);
            idle_since = 0;
        } else if (wake_ns != UINT64_MAX) {
            mark_flight(device);
            idle_round(&rounds);
            idle_since = 0;
        } else {
            if (idle_since == 0)
                idle_since = now_ns;
            if (is_awaited(device))
                mark_flight(device);
            if (now_ns - idle_since >= device->engine->options.spin_ns && !is_awaited(device))
                rest(device);
            else
                idle_round(&rounds);
        }
        if (device->engine->options.tracing)
            trace_load(device, now_ns);
    }
}

static void device_main(void *argument)
{
    struct device *device = argument;

    engine_relax(device->engine->driver);
    device_loop(device);
}

static int start_thread(struct device *device)
{
    char name[THREAD_NAME_MAX];

    snprintf(name, sizeof(name), "coissue-dev%d", device->ordinal);
    return thread_start(&device->thread, name, THREAD_STACK_SMALL, device_main, device);
}

static int read_device(const struct cu_driver *driver, struct device *device)
{
    int count;

    if (driver->cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device->ordinal) !=
            CUDA_SUCCESS ||
        count < 1)
        return -ENODEV;
    device->sm_count = (uint32_t)count;
    device->capability = engine_capability(driver, device->ordinal);
    return 0;
}

int device_start(struct engine *engine, CUdevice ordinal, struct device **started)
{
    struct sched_config config = {
        .window = engine->options.window,
        .packs = engine->options.packs,
        .hold_cap_ns = engine->options.hold_cap_ns,
        .policy = engine->options.policy,
    };
    struct device *device;
    void *lanes;
    int error;

    if (ordinal < 0 || ordinal >= ENGINE_DEVICES_MAX)
        return -ENODEV;
    if (engine->devices[ordinal]) {
        *started = engine->devices[ordinal];
        return 0;
    }
    device = engine_arena(engine, sizeof(*device));
    if (device)
        device->area = engine_arena(engine, COALESCE_AREA_MAX);
    lanes =
        mmap(NULL, SCHED_LANES_MAX * sizeof(struct lane), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!device || !device->area || lanes == MAP_FAILED)
        return -ENOMEM;
    device->engine = engine;
    device->ordinal = ordinal;
    device->lanes = lanes;
    error = read_device(engine->driver, device);
    if (error)
        goto unmap;
    config.sm_count = device->sm_count;
    error = sched_create(&config, &device->sched);
    if (error)
        goto unmap;
    error = start_thread(device);
    if (error)
        goto destroy;
    __atomic_store_n(&engine->devices[ordinal], device, __ATOMIC_RELEASE);
    *started = device;
    return 0;

destroy:
    sched_destroy(device->sched);
unmap:
    munmap(lanes, SCHED_LANES_MAX * sizeof(struct lane));
    return error;
}
