/* SPDX-License-Identifier: Apache-2.0
 *
 * A driver made of a few C functions, for tests of the engine alone. Launches carry a number as their only parameter;
 * the fake keeps, per stream, what it was given and in which order. Markers are reached when the test says so, or at
 * once. All of it may be called from several threads.
 */
#ifndef COISSUE_TESTS_ENGINE_FAKE_DRIVER_H
#define COISSUE_TESTS_ENGINE_FAKE_DRIVER_H

#include "engine/engine.h"
#include "engine/function.h"
#include "engine/lane.h"

enum { FAKE_STREAMS = 16, FAKE_LAUNCHES = 1 << 16, FAKE_SMS = 4 };

struct fake_stream {
    struct lock lock;
    uint32_t count;
    uint64_t number[FAKE_LAUNCHES]; /* parameters of the launches, in the order of arrival */
    uint32_t reached;               /* markers that were placed */
};

struct fake {
    struct cu_driver driver;
    struct fake_stream stream[FAKE_STREAMS];
    _Atomic bool complete_at_once; /* markers are reached when they are placed */
    _Atomic int fail_launches;     /* that many launches from now on fail with LAUNCH_OUT_OF_RESOURCES */
    _Atomic int failures;          /* calls of options.failed */
    _Atomic int markers;
};

extern struct fake fake;

/* Makes the driver new; a context is current everywhere. Streams are fake_stream_handle(0..). */
void fake_init(void);
CUstream fake_stream_handle(int index);
CUcontext fake_context(void);

/* An engine on the fake driver. `window` and `hold_cap_ns` as in engine_options. */
struct engine *fake_engine(uint32_t window, uint64_t hold_cap_ns);

/* Reaches all markers that were placed so far, in all streams. */
void fake_reach_markers(void);

/* Launches `number` into a lane, a grid of `blocks`; one block fills an SM. Returns the token. */
uint64_t fake_launch(struct lane *lane, uint64_t number, uint32_t blocks);

uint32_t fake_count(int stream);

/* Waits until stream `index` got `count` launches; false after five seconds. */
bool fake_wait_count(int index, uint32_t count);

#endif
