/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/convoy.h"

#include "base/log.h"
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
    uint32_t slot = SCHED_LANES_MAX + index;
    CUstream stream;

    if (!convoy->notes)
        convoy->notes = engine_arena(engine, CONVOY_NOTES * sizeof(*convoy->notes));
    if (!convoy->notes || !engine->driver->cuStreamCreate || !engine->driver->cuEventCreate ||
        !engine->driver->cuStreamWaitEvent ||
        engine->driver->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return false;
    convoy->context = context;
    convoy->generation = context->generation;
    convoy->marks = convoy->seen_mark = 0;
    convoy->noted = convoy->told = convoy->marked = 0;
    convoy->word = (_Atomic uint32_t *)(context->words + slot * CACHE_LINE);
    convoy->word_on_device = context->words_on_device + slot * CACHE_LINE;
    atomic_store_explicit(convoy->word, 0, memory_order_relaxed);
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
    if (!lane_event(lane) ||
        driver->cuEventRecord(lane->event, before ? before->stream : lane->stream) != CUDA_SUCCESS ||
        driver->cuStreamWaitEvent(convoy->stream, lane->event, 0) != CUDA_SUCCESS)
        return false;
    lane->singles = 0;
    /* Release: with the pop of the next record it is seen by a thread that finds the lane empty. See lane_is_settled.
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
    uint32_t reached = atomic_load_explicit(convoy->word, memory_order_relaxed);
    CUresult result;

    if (convoy->marked == convoy->noted || convoy->marks - reached >= LANE_MARKS)
        return;
    convoy->mark_covers[(convoy->marks + 1) % LANE_MARKS] = convoy->noted;
    result = engine->driver->cuStreamWriteValue32_v2(convoy->stream, convoy->word_on_device, convoy->marks + 1,
                                                     CU_STREAM_WRITE_VALUE_DEFAULT);
    convoy->marked = convoy->noted; /* also when it failed: do not try for ever */
    if (result == CUDA_SUCCESS)
        convoy->marks++;
    else if (!error_is_programs_own(result))
        engine->options.failed("cuStreamWriteValue32", result);
}

void convoy_hear(struct convoy *convoy, convoy_tell_fn tell, uint64_t now_ns)
{
    struct device *device = convoy->context->device;
    uint32_t mark = atomic_load_explicit(convoy->word, memory_order_acquire);
    uint64_t covered;

    if (mark == convoy->seen_mark)
        return;
    convoy->seen_mark = mark;
    covered = convoy->mark_covers[mark % LANE_MARKS];
    if (convoy->noted - convoy->told > CONVOY_NOTES)
        convoy->told = convoy->noted - CONVOY_NOTES;
    for (; convoy->told < covered; convoy->told++) {
        const struct convoy_note *note = &convoy->notes[convoy->told % CONVOY_NOTES];
        struct lane *lane = &device->lanes[note->lane];

        if (lane->life == note->life && atomic_load_explicit(&lane->state, memory_order_acquire) == LANE_LIVE)
            tell(lane, note->seq, now_ns);
    }
}
