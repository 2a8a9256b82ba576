/* SPDX-License-Identifier: Apache-2.0
 *
 * Completion markers of a lane of which many are on their way.
 */
#include "engine/lane.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

static uint32_t written; /* the number of the last marker that the driver was given */

static CUresult write_value(CUstream stream, CUdeviceptr address, uint32_t value, unsigned int flags)
{
    written = value;
    return CUDA_SUCCESS;
}

/*
 * What a reached marker covers must stay readable until the device reaches the next: the device's thread may not have
 * looked yet. Once the entry of marker 0 was given to marker 64, and everything up to that one counted as complete.
 */
Test(marks, of_a_reached_marker_are_not_overwritten)
{
    static struct cu_driver driver = {.cuStreamWriteValue32_v2 = write_value};
    static struct engine engine = {.driver = &driver};
    static _Atomic uint32_t word;
    static struct lane lane = {.engine = &engine, .word = &word};

    for (uint32_t reached = 0; reached < 3 * LANE_MARKS; reached += 5) {
        uint64_t covers;

        word = reached;
        covers = lane.mark_covers[reached % LANE_MARKS];
        for (int i = 0; i < 2 * LANE_MARKS; i++) {
            lane.issued++;
            lane_mark(&lane);
        }
        cr_assert(eq(u64, lane.mark_covers[reached % LANE_MARKS], covers), "marker %u", reached);
        cr_assert(gt(u32, written, reached + LANE_MARKS / 2), "marker %u: as many as can be are on their way", reached);
    }
}
