/* SPDX-License-Identifier: Apache-2.0
 *
 * tests/traps: one test for each way in which a library that defers launches is known to go wrong.
 *
 * The numbers are those of README.md, which says for each what went wrong elsewhere and what is right. A test is a
 * scenario: a function in one of the programs here, written as a plain client of the driver. It opens libcuda.so.1 and
 * looks functions up as the CUDA runtime does (dlsym of cuGetProcAddress_v2, then every function by name, version and
 * stream flavour), and it must pass without coissue first: that is what makes it a test of coissue. run.py then runs
 * it under the preloaded library in its modes:
 *
 *   direct  no preload
 *   full    COISSUE_MODE=full with the defaults
 *   gate    COISSUE_MODE=gate
 *   held    full, with a hold cap of 100 ms and a window of 1: launches really wait unless something flushes them
 *   packed  full, with a hold cap of 100 ms and one pack at a time: launches wait for others of their kernel
 *   verify  full, and each launch is replaced by its rewritten form for one member
 *
 * In the last two a program is told that it is full.
 *
 * How a trap is set: client_hold() fills the device with a kernel of another stream, so the policy holds what comes
 * next. The scenario then does what once went wrong, and checks the values that the CUDA model promises. What cannot be
 * seen from inside (how many launches were held, and why others were not) a scenario announces with client_expect_*:
 * run.py compares it with the library's trace. So a test cannot pass because the library did nothing.
 *
 * The same programs run on the simulated device (tests/simcuda) and on a real one. On the simulated one there is also a
 * list of the calls that reached the driver; see client_before.
 */
#ifndef COISSUE_TESTS_TRAPS_CLIENT_H
#define COISSUE_TESTS_TRAPS_CLIENT_H

#include "driver/driver.h"

#include <stdbool.h>
#include <stdint.h>

/* What the client looked up, by the names of entries.def. Not every entry: see the table in client.c. */
extern struct cu_driver cu;
extern CUdevice client_device;
extern CUcontext client_context; /* the primary one, current in the first thread */

enum client_mode { CLIENT_DIRECT, CLIENT_FULL, CLIENT_GATE, CLIENT_HELD };
enum client_mode client_mode(void);
bool client_shim(void);      /* the library is preloaded */
bool client_simulated(void); /* the device is the simulated one */

struct client_scenario {
    const char *name;
    void (*run)(void);
    bool bare; /* the scenario calls client_open and client_begin itself, or not at all */
};

/* main of a program: runs the scenario that argv[1] names. Exit status 0, 1 or 77. */
int client_main(int argc, char **argv, const struct client_scenario *scenarios, size_t count);
#define CLIENT_MAIN(table)                                                                                             \
    int main(int argc, char **argv)                                                                                    \
    {                                                                                                                  \
        return client_main(argc, argv, table, sizeof(table) / sizeof((table)[0]));                                     \
    }

void *client_open(void);             /* loads the driver and looks everything up; the handle of dlopen */
void *client_open_with(int flags);   /* the same with these flags for dlopen */
bool client_in_shim(void *function); /* the library stands before it */
void client_begin(void);             /* cuInit and the context */
void client_finish(void);            /* waits for the context, which must be well */

/* --- judging --- */

/* Ends the program with status 1, telling the place and the message. */
void client_fail(const char *file, int line, const char *format, ...) __attribute__((noreturn, format(printf, 3, 4)));
void client_skip(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* What the watchdog (20 s) will say the program was doing. */
void client_step(const char *text);

#define EXPECT(condition, ...)                                                                                         \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            client_fail(__FILE__, __LINE__, __VA_ARGS__);                                                              \
    } while (0)
#define EXPECT_INT(actual, expected, what)                                                                             \
    do {                                                                                                               \
        long long actual_ = (actual), expected_ = (expected);                                                          \
        if (actual_ != expected_)                                                                                      \
            client_fail(__FILE__, __LINE__, "%s is %lld, expected %lld", what, actual_, expected_);                    \
    } while (0)
/* A driver call and the result that it must have. */
#define GIVES(result, call)                                                                                            \
    do {                                                                                                               \
        CUresult result_ = (call);                                                                                     \
        if (result_ != (CUresult)(result))                                                                             \
            client_fail(__FILE__, __LINE__, "%s gives %s (%d), expected %s (%d)", #call, cu_result_name(result_),      \
                        (int)result_, cu_result_name((CUresult)(result)), (int)(result));                              \
    } while (0)
#define OK(call) GIVES(CUDA_SUCCESS, call)

/* For run.py. Under full and held at least so many launches were held (under gate: waited at the gate). */
void client_expect_held(int launches);
/* Under full and held at least so many were not held, for this reason (a name of reasons.def). */
void client_expect_home(const char *reason, int launches);
/* Under full and held at least so many held launches were issued for this reason. */
void client_expect_issued(const char *reason, int launches);
/* In mode packed at least so many launches went in packs. */
void client_expect_packed(int launches);
/* No launch was held. */
void client_expect_none_held(void);
/* A line on stderr that contains the text, exactly once, in that mode ("full", "held", ...; "shim": all but direct). */
void client_expect_line(const char *mode, const char *text);
/* Lines with this text are no fault, but need not come. */
void client_allow_line(const char *text);
/* The counts of launches of the library and of the driver will differ, because ... */
void client_expect_uncounted(const char *why);

/* --- the device --- */

uint64_t client_ns(void); /* CLOCK_MONOTONIC */
void client_sleep_ms(unsigned ms);

/* Fills the device, in the eyes of the scheduler, until client_release or 5 s. Returns when that kernel runs. */
void client_hold(void);
void client_release(void);
void client_release_after(unsigned ms); /* by another thread */
bool client_holding(void);

CUstream client_stream(unsigned flags);
CUevent client_event(unsigned flags);
CUdeviceptr client_ints(size_t count); /* zeroed device memory */
int client_read(CUdeviceptr address);  /* synchronous copy */
void client_write(CUdeviceptr address, int value);
void client_wait(CUstream stream);

/* Pinned memory that both sides see. */
struct client_shared {
    volatile int *host;
    CUdeviceptr device;
};
struct client_shared client_shared(size_t count);

const char *client_ptx(void);               /* the image of kernels.cu for sm_80 */
const char *client_ptx_sm90(void);          /* that for sm_90; skips the test if the device is older */
CUfunction client_kernel(const char *name); /* of the primary context; any thread after client_begin */
CUfunction client_kernel_sm90(const char *name);
int client_sm_count(void);

CUresult client_launch(CUfunction function, unsigned grid, unsigned block, unsigned shared, CUstream stream,
                       void **parameters);
/* LAUNCH(function, grid, block, stream, &a, &b): the arguments' memory is the caller's, as always. */
#define LAUNCH(function, grid, block, stream, ...)                                                                     \
    OK(client_launch(function, grid, block, 0, stream, (void *[]){__VA_ARGS__}))

void launch_spin(CUstream stream, uint64_t ns);
void launch_store(CUstream stream, CUdeviceptr p, int value);
void launch_store_late(CUstream stream, CUdeviceptr p, int value, uint64_t ns);
void launch_add1(CUstream stream, CUdeviceptr p);
void launch_twice_plus(CUstream stream, CUdeviceptr p, int k);
void launch_copy_int(CUstream stream, CUdeviceptr to, CUdeviceptr from);
void launch_wait_flag(CUstream stream, unsigned grid, CUdeviceptr flag, CUdeviceptr seen);

/* --- what reached the driver; only the simulated one tells --- */

/* From now on only calls that reach the driver after this one count. */
void client_mark(void);

/* How many calls reached the driver whose name begins with `entry` and whose note has the word `note` (a kernel's name;
 * NULL: any). -1 on a real device. */
int client_calls(const char *entry, const char *note);

/*
 * Fails unless the first call like (entry, note) reached the driver, and before the first one like `later` if that did.
 * `entry` is a beginning of the name: "cuMemFree" means cuMemFree_v2 too. Always true on a real device.
 */
void client_before(const char *entry, const char *note, const char *later, const char *later_note);

/*
 * Under held: fails if `launches` or more launches of that kernel have reached the driver. Not judged on a real device,
 * or when so much time went by since client_hold that the hold cap may have let them go.
 */
void client_still_held(const char *kernel, int launches);

#endif
