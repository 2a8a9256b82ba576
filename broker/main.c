/* SPDX-License-Identifier: Apache-2.0
 *
 * coissue-broker: what `coissue serve` starts. Its arguments are checked there; here they are only read.
 *
 *   coissue-broker DEVICE FOLDER [TIMES]        FOLDER may be empty: the user's. TIMES: how often in a row it has
 *                                               started itself anew
 */
#include "broker/broker.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <linux/close_range.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PACKS = 8, HOLD_CAP_NS = 5000000 }; /* measured with 16 PyTorch servers on an H200, bench/README.md */
enum { PATIENT_TIMES = 5, FAST_US = 1000, SLOW_US = 1000000 };
#define CALM_NS UINT64_C(10000000000) /* who served that long has not failed in a row */

static const char *get(const char *name)
{
    return getenv(name);
}

static void complain(void *argument, const char *message)
{
    (void)argument;
    fprintf(stderr, "coissue serve: %s\n", message);
}

/*
 * The context is lost. Everything goes with the process image, and what the driver has open with its descriptors;
 * clients see their connections end, and come back. Returns only if that fails.
 */
static void start_anew(char **arguments, int times)
{
    char number[16];
    char *again[] = {arguments[0], arguments[1], arguments[2], number, NULL};

    snprintf(number, sizeof(number), "%d", times);
    usleep(times > PATIENT_TIMES ? SLOW_US : FAST_US);
    close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
    execv("/proc/self/exe", again);
    fprintf(stderr, "coissue serve: cannot start anew: %s\n", strerror(errno));
}

int main(int count, char **arguments)
{
    static struct broker_options options;
    uint64_t begin_ns = clock_ns();
    int status, times;
    char *end;

    if (count != 3 && count != 4) {
        fprintf(stderr, "usage: coissue-broker DEVICE FOLDER\n");
        return 2;
    }
    options.device = (int)strtol(arguments[1], &end, 10);
    options.folder = arguments[2];
    times = count == 4 ? atoi(arguments[3]) : 0;
    if (*end || options.device < 0) {
        fprintf(stderr, "coissue serve: \"%s\" is not the number of a device\n", arguments[1]);
        return 2;
    }
    config_read(&options.config, get, environ, complain, NULL);
    /* Many tenants make wide packs, which take longer to gather than in one process. */
    if (!getenv("COISSUE_HOLD_CAP_US"))
        options.config.hold_cap_ns = HOLD_CAP_NS;
    if (!getenv("COISSUE_PACKS"))
        options.config.packs = PACKS;
    log_set((enum log_level)options.config.log_level, STDERR_FILENO);
    status = broker_work(&options);
    if (status == BROKER_AGAIN) {
        start_anew(arguments, clock_ns() - begin_ns < CALM_NS ? times + 1 : 0);
        status = 1;
    }
    fflush(stderr);
    _exit(status); /* not exit: threads of ours are inside the driver, and its handlers would wait for them */
}
