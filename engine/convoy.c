/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/convoy.h"

#include "engine/device.h"

#include <stdio.h>

static void name_stream(const struct convoy *convoy, uint32_t index)
{
    struct engine *engine = convoy->context->device->engine;
    char name[64];

    if (!engine->options.tracing)
        return;
    snprintf(name, sizeof(name), "device %d, convoy %u", convoy->context->ordinal, index);
    trace_name_stream(engine->options.trace, (uint64_t)convoy->stream, name);
}

static bool convoy_start(struct convoy *convoy, struct context *context, uint32_t index)
{
    struct engine *engine = context->device->engine;
    CUstream stream;

    if (!convoy->notes)
        convoy->notes = engine_arena(engine, CONVOY_NOTES * sizeof(*convoy->notes));
    if (!convoy->notes || !engine->driver->cuStreamCreate || !engine->driver->cuEventCreate ||
        !engine->driver->cuStreamWaitEvent || !engine->driver->cuEventQuery ||
        engine->driver->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return false;
    for (uint32_t i = 0; i < LANE_MARKS; i++)
        if (engine->driver->cuEventCreate(&convoy->events[i], CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
            return false; /* so little memory is left that the program has other worries than a stream */
    convoy->context = context;
    convoy->generation = context->generation;
    convoy->marks = convoy->seen = 0;
    convoy->noted = convoy->told = convoy->marked = 0;
    convoy->stream = stream;
    name_stream(convoy, index);
    return true;
}

struct convoy *convoy_get(struct context *context, uint32_t index)
{
    struct convoy *convoy;

    if (!context->convoys)
        context->convoys = engine_arena(context->device->engine, CONVOYS * sizeof(*context->convoys));
    if (!context->convoys)
        return NULL;
    convoy = &context->convoys[index];
    if (convoy->stream && convoy->generation == context->generation)
        return convoy;
    convoy->stream = NULL; /* the one of an earlier context went with it */
    return convoy_start(convoy, context, index) ? convoy : NULL;
}

static bool lane_event(struct lane *lane)
{
    if (lane->event && lane->event_generation == lane->context->generation)
        return true;
    if (lane->engine->driver->cuEventCreate(&lane->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
        lane->event = NULL;
        return false;
    }
    lane->event_generation = lane->context->generation;
    return true;
}

bool convoy_join(struct convoy *convoy, struct lane *lane)
{
    const struct cu_driver *driver = lane->engine->driver;
    struct convoy *before = atomic_load_explicit(&lane->away, memory_order_relaxed);

    if (before == convoy)
        return true;
    if (!lane_event(lane))
        return false; /* it will be needed to come home */
    if (lane_is_idle(lane)) {
        lane->singles = 0;
        atomic_store_explicit(&lane->away, convoy, memory_order_release); /* as below; there is nothing to wait for */
        return true;
    }
    if (driver->cuEventRecord(lane->event, before ? before->stream : lane->stream) != CUDA_SUCCESS ||
        driver->cuStreamWaitEvent(convoy->stream, lane->event, 0) != CUDA_SUCCESS)
        return false;
    lane->singles = 0;
    /*
     * Release: with the pop of the next record it is seen by a thread that finds the lane empty. See lane_is_settled.
     */
    atomic_store_explicit(&lane->away, convoy, memory_order_release);
    return true;
}

void convoy_note(struct convoy *convoy, const struct lane *lane, uint64_t seq)
{
    convoy->notes[convoy->noted++ % CONVOY_NOTES] =
        (struct convoy_note){.lane = lane->index, .life = lane->life, .seq = seq};
}

void convoy_mark(struct convoy *convoy)
{
    struct engine *engine = convoy->context->device->engine;
    uint32_t next = convoy->marks + 1;
    CUresult result;

    if (convoy->marked == convoy->noted || convoy->marks - convoy->seen >= LANE_MARKS - 1)
        return;
    result = engine->driver->cuEventRecord(convoy->events[next % LANE_MARKS], convoy->stream);
    convoy->marked = convoy->noted; /* also when it failed: do not try for ever */
    if (result == CUDA_SUCCESS) {
        convoy->mark_covers[next % LANE_MARKS] = convoy->noted;
        convoy->marks = next;
    } else if (!error_is_programs_own(result)) {
        engine->options.failed("cuEventRecord", result);
    }
}

/* Up to which note all is complete. */
static uint64_t covered(struct convoy *convoy)
{
    const struct cu_driver *driver = convoy->context->device->engine->driver;

    while (convoy->seen != convoy->marks &&
           driver->cuEventQuery(convoy->events[(convoy->seen + 1) % LANE_MARKS]) == CUDA_SUCCESS)
        convoy->seen++;
    return convoy->mark_covers[convoy->seen % LANE_MARKS];
}

void convoy_hear(struct convoy *convoy, convoy_tell_fn tell, uint64_t now_ns)
{
    struct device *device = convoy->context->device;
    uint64_t until;

    if (!convoy_will_tell(convoy))
        return;
    until = covered(convoy);
    if (convoy->noted - convoy->told > CONVOY_NOTES)
        convoy->told = convoy->noted - CONVOY_NOTES;
    for (; convoy->told < until; convoy->told++) {
        const struct convoy_note *note = &convoy->notes[convoy->told % CONVOY_NOTES];
        struct lane *lane = &device->lanes[note->lane];

        if (lane->life == note->life && atomic_load_explicit(&lane->state, memory_order_acquire) == LANE_LIVE)
            tell(lane, note->seq, now_ns);
    }
}
