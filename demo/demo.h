/* SPDX-License-Identifier: Apache-2.0
 *
 * demo/: shows that coissue does what it says, on any machine.
 *
 * One program, run three times by itself: as a probe for a GPU, as the workload without coissue, and as the same
 * workload with libcoissue.so preloaded. The runs differ in nothing but the environment. What they computed is compared
 * bit for bit; what coissue did is counted from the trace that it wrote.
 *
 *   main.c      options, where things are, the verdict
 *   child.c     starts a run of ourselves, with or without the preload, and takes its report
 *   workload.c  what such a run does: tenants with kernels. Knows nothing of coissue, like any program it is meant for
 *   counts.c    counts launches in a trace
 *   result.c    the table and the JSON object
 *   kernels.cu  the kernels; kernels.ptx is made from it by regenerate.sh and becomes part of the program
 *
 * Invariants: no number is printed that was not measured in this run. The workload reaches the driver as the CUDA
 * runtime does, by dlopen and cuGetProcAddress, and never links to it. Exit status 0 means that results are equal and
 * that launches were really held.
 */
#ifndef COISSUE_DEMO_DEMO_H
#define COISSUE_DEMO_DEMO_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

enum { TENANTS_MAX = 256, ROUNDS_MAX = 1000000 };

struct demo_options {
    unsigned int tenants, rounds;
    const char *json;       /* NULL: none */
    const char *device_lib; /* folder with a libcuda.so.1; NULL: what the loader finds, else the simulated one */
    const char *library;    /* libcoissue.so */
    bool verbose;
};

/* What a run tells its parent through a pipe, in one write. Below PIPE_BUF (4096), so it comes whole or not at all. */
struct child_report {
    uint64_t magic;
    uint64_t time_ns;       /* of all rounds after the first, which warms up */
    uint64_t launches_made; /* in all rounds */
    uint64_t hashes[TENANTS_MAX];
    char device[128];
    char driver[1024]; /* file that the driver's functions are in */
    char shim[512];    /* file that the launch function is in, if that is another; empty: the driver's */
};

#define REPORT_MAGIC UINT64_C(0x636f697373756531) /* "coissue1" */

/* --- workload.c --- */

/* Only looks whether a device is there. Both return an exit status, say on stderr what went wrong (the probe: only if
 * `verbose`), and fill `report` if the status is 0. */
int workload_probe(bool verbose, struct child_report *report);
int workload_run(unsigned int tenants, unsigned int rounds, struct child_report *report);

/* Tenants that have a thread of their own; the others are streams of one more thread. */
static inline unsigned int threaded_tenants(unsigned int tenants)
{
    return (tenants + 1) / 2;
}

/* Launches of one tenant in one round. */
extern const unsigned int workload_launches;

/* --- child.c --- */

struct child {
    bool probe;
    const char *library;    /* to preload; NULL: not */
    const char *driver_dir; /* to the front of LD_LIBRARY_PATH; NULL: leave it */
    const char *trace;      /* for COISSUE_TRACE, a plain file name; NULL: none */
};

/* False, after one line on stderr, if the run failed; a probe that fails says nothing unless verbose. */
bool child_run(const struct demo_options *options, const struct child *child, struct child_report *report);

/* The other side: what to do as the child. `arguments` are what child_run gave. Returns the exit status. */
int child_main(int count, char **arguments);

/* --- counts.c --- */

struct launch_counts {
    uint64_t seen, held, alone, coscheduled, coalesced, lost;
};

/* False, after one line on stderr, if the file is not a complete trace. */
bool counts_read(const char *path, struct launch_counts *counts);

/* --- result.c --- */

struct demo_result {
    struct launch_counts counts;
    bool equal;
    double direct_ms, coissue_ms;
    char device[192];
    char trace[PATH_MAX];
};

void result_print(const struct demo_options *options, const struct demo_result *result);
/* False, after one line on stderr. */
bool result_write_json(const struct demo_options *options, const struct demo_result *result);

/* --- main.c --- */

/* One line on stderr. */
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);

#endif
