/* SPDX-License-Identifier: Apache-2.0
 *
 * The time of the simulated device. SIMCUDA_TIME=off (default): work takes what the interpreter needs.
 * SIMCUDA_TIME=real: a kernel takes at least what this model says, so that overlap, packing and waiting show in the
 * time of a program:
 *
 *   blocks resident per SM = occupancy; waves = blocks / (SMs x occupancy), rounded up
 *   cycles of a wave = max(instructions per warp x 4,                       one warp issues every 4th cycle
 *                          resident warps x instructions per warp / 4)      an SM issues for 4 warps per cycle
 *   time = 2 us + max(waves x cycles / clock, bytes / memory bandwidth)
 *
 * with the instruction and byte counts of the interpreter. A kernel occupies min(SMs, blocks / occupancy, rounded up)
 * SMs for that time; kernels of all streams share the SMs of the device, and one that does not fit starts when enough
 * are free. The 2 us are the measured cost of an empty kernel in a full stream on an H200 (docs of the project). The
 * interpreter is slower than a device, so "at least" is all that can be promised. SIMCUDA_TIME_SCALE=N makes the model
 * N times slower; with some hundreds the interpreter is fast enough, and times are right relative to each other.
 */
#include "tests/simcuda/sim.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LAUNCH_NS = 2000,
    SPIN_NS = 60000, /* the system's timers are late by about this much */
    PENDING_MAX = 512,
};

static pthread_mutex_t account_lock = PTHREAD_MUTEX_INITIALIZER;
static struct reservation {
    uint64_t end;
    unsigned sms;
} reservations[16][PENDING_MAX];
static unsigned reservation_count[16];

void sim_time_init(void)
{
    const char *mode = getenv("SIMCUDA_TIME");

    sim.real_time = mode && strcmp(mode, "real") == 0;
    if (mode && *mode && !sim.real_time && strcmp(mode, "off") != 0)
        sim_loud(&account_lock, "SIMCUDA_TIME: '%s' is neither off nor real; off", mode);
    sim.time_scale = sim_env_int("SIMCUDA_TIME_SCALE", 1, 1, 1000000);
    sim.launch_ns = sim_env_int("SIMCUDA_LAUNCH_NS", 0, 0, 1000000000);
}

static void wait_until(uint64_t when)
{
    uint64_t now = sim_now_ns();

    if (now + SPIN_NS < when) {
        uint64_t wake = when - SPIN_NS;
        struct timespec at = {(time_t)(wake / 1000000000u), (long)(wake % 1000000000u)};

        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    }
    while (sim_now_ns() < when)
        sched_yield();
}

void sim_time_launch_cost(void)
{
    if (sim.launch_ns)
        wait_until(sim_now_ns() + (uint64_t)sim.launch_ns);
}

/* When `sms` SMs are free, not before `began`; they are taken for `duration` from then. Returns the end. */
static uint64_t reserve(int device, unsigned total, unsigned sms, uint64_t began, uint64_t duration)
{
    struct reservation *list = reservations[device];
    unsigned count = 0;
    uint64_t start = began;

    pthread_mutex_lock(&account_lock);
    for (unsigned i = 0; i < reservation_count[device]; i++)
        if (list[i].end > began)
            list[count++] = list[i];
    for (;;) {
        unsigned used = 0;
        uint64_t next = UINT64_MAX;

        for (unsigned i = 0; i < count; i++) {
            if (list[i].end <= start)
                continue;
            used += list[i].sms;
            next = list[i].end < next ? list[i].end : next;
        }
        if (used + sms <= total || next == UINT64_MAX)
            break;
        start = next;
    }
    if (count < PENDING_MAX)
        list[count++] = (struct reservation){start + duration, sms};
    reservation_count[device] = count;
    pthread_mutex_unlock(&account_lock);
    return start + duration;
}

void sim_time_kernel(struct sim_device *device, uint64_t blocks, unsigned per_sm, unsigned warps_per_block,
                     const struct ptx_stats *stats, uint64_t began)
{
    const struct sim_device_row *row = device->row;
    uint64_t room = (uint64_t)per_sm * (uint64_t)row->sms, waves = (blocks + room - 1) / room;
    double warps = (double)blocks * warps_per_block, per_warp, cycles, memory_ns, bandwidth, compute_ns;
    uint64_t resident = (blocks + (uint64_t)row->sms - 1) / (uint64_t)row->sms;
    uint64_t duration;
    unsigned sms;

    if (!sim.real_time)
        return;
    if (resident > per_sm)
        resident = per_sm;
    per_warp = (double)stats->warp_instructions / warps;
    cycles = per_warp * 4;
    if ((double)(resident * warps_per_block) * per_warp / 4 > cycles)
        cycles = (double)(resident * warps_per_block) * per_warp / 4;
    compute_ns = (double)waves * cycles * 1e6 / row->clock_khz;
    bandwidth = (double)row->memory_clock_khz * 1e3 * 2 * row->bus_bits / 8; /* bytes per second, double data rate */
    memory_ns = (double)(stats->global_read_bytes + stats->global_write_bytes) / bandwidth * 1e9;
    sms = (unsigned)((blocks + per_sm - 1) / per_sm);
    if (sms > (unsigned)row->sms)
        sms = (unsigned)row->sms;
    duration = (LAUNCH_NS + (uint64_t)(compute_ns > memory_ns ? compute_ns : memory_ns)) * (uint64_t)sim.time_scale;
    wait_until(reserve(device->ordinal, (unsigned)row->sms, sms, began, duration));
}
