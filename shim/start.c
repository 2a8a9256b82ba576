/* SPDX-License-Identifier: Apache-2.0
 *
 * When coissue begins and how it steps back: cuInit, fork, exit, falling back.
 *
 * It begins when the program's own cuInit has succeeded, never by itself, and does then: read the configuration, set up
 * the log, make the engine's tables, open the trace if one is wanted. Threads start later, with the first held launch.
 */
#include "shim/remote.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "engine/twin.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, EXIT_WAIT_NS = 1000000000, SUMMARY_BYTES = 8192 };
/* At 250,000 launches a second the device's thread puts two events per launch; the writer looks every 5 ms. */
enum { TRACE_RING_EVENTS = 8192 };

/* Page-aligned and alone in its page, so that the kernel can be told to wipe it in a child. */
static _Alignas(PAGE_BYTES) union {
    struct shim_words words;
    char page[PAGE_BYTES];
} words_page;

struct shim_words *const shim_words = &words_page.words;
struct engine *shim_engine;
struct trace *shim_trace;
struct config shim_config;
bool shim_tracing, shim_blocking;

static struct lock start_lock;
static bool started;

/* "1", "on", "yes" or "true", in any case; the full parser with its messages runs in shim_start. */
static bool is_yes(const char *text)
{
    static const char *const words[] = {"1", "on", "yes", "true"};

    for (size_t i = 0; text && i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    return false;
}

bool shim_disabled(void)
{
    static _Atomic int known; /* 0: not asked yet, 1: wanted, 2: not wanted */
    int state = atomic_load_explicit(&known, memory_order_relaxed);
    const char *mode;

    if (state == 0) {
        mode = secure_getenv("COISSUE_MODE");
        state = is_yes(secure_getenv("COISSUE_DISABLE")) || (mode && strcasecmp(mode, "off") == 0) ? 2 : 1;
        atomic_store_explicit(&known, state, memory_order_relaxed);
    }
    return state == 2;
}

static void complain(void *argument, const char *message)
{
    (void)argument;
    log_warn("%s", message);
}

static const char *environment(const char *name)
{
    return secure_getenv(name);
}

static void open_log(void)
{
    char path[CONFIG_TEXT_MAX];
    int fd = STDERR_FILENO, error;

    if (shim_config.log_file[0]) {
        error = config_expand_path(shim_config.log_file, path, sizeof(path));
        fd = error < 0 ? error : path_create(path, O_APPEND);
        if (fd < 0) {
            log_warn("COISSUE_LOG_FILE: cannot open \"%s\": %s; using stderr", shim_config.log_file, strerror(-fd));
            fd = STDERR_FILENO;
        }
    }
    log_set((enum log_level)shim_config.log_level, fd);
}

static int open_trace(void)
{
    int error = engine_trace(shim_config.trace, shim_config.trace_flush_ns, TRACE_RING_EVENTS, &shim_trace);

    /* A file that cannot be written is not an error here: trace_create said so, and counts without it. */
    shim_tracing = error == 0 && trace_is_written(shim_trace);
    return error;
}

static int open_engine(void)
{
    struct engine_options options = {
        .driver = &shim_driver,
        .trace = shim_trace,
        .tracing = shim_tracing,
        .policy = shim_config.policy,
        .window = shim_config.window,
        .packs = (uint32_t)shim_config.packs,
        .coalesce = shim_config.coalesce && !shim_config.verify[0],
        .unproven = shim_config.unproven,
        .cache = shim_config.cache,
        .cache_bytes = (uint64_t)shim_config.cache_mib << 20,
        .verify = shim_config.verify[0] != 0,
        .hold_cap_ns = shim_config.hold_cap_ns,
        .spin_ns = shim_config.spin_ns,
        .lane_attr = {.slo_ns = shim_config.slo_ns, .weight = shim_config.weight},
        .failed = shim_fall_back,
    };
    int error = engine_create(&options, &shim_engine);

    if (error == -EINVAL) {
        log_warn("COISSUE_POLICY: \"%s\" is not a policy; using %s", shim_config.policy, sched_policy_names()[0]);
        options.policy = NULL;
        error = engine_create(&options, &shim_engine);
    }
    return error;
}

static void say_summary(void)
{
    char text[SUMMARY_BYTES];
    size_t length = trace_summary(shim_trace, text, sizeof(text));

    if (length >= sizeof(text))
        length = sizeof(text) - 1;
    fd_write_all(STDERR_FILENO, text, length); /* nowhere to say that it failed */
}

static void write_report(void)
{
    char path[CONFIG_TEXT_MAX];
    int error = config_expand_path(shim_config.verify, path, sizeof(path));
    int fd = error < 0 ? error : path_create(path, O_TRUNC);

    error = fd < 0 ? fd : twins_report(shim_engine, fd);
    if (error < 0)
        log_warn("COISSUE_VERIFY: cannot write \"%s\": %s", shim_config.verify, strerror(-error));
    if (fd >= 0)
        close(fd);
}

/*
 * Registered after the driver's cuInit, so it runs before the driver's own handlers. New launches go straight to the
 * driver from here on; what is held is issued; then the engine's threads end, so that none of them is inside the driver
 * when its handlers run.
 */
static void at_exit(void)
{
    if (!shim_active())
        return; /* the child of a fork, or nothing ever began */
    atomic_store_explicit(&shim_words->mode, MODE_OFF, memory_order_relaxed);
    lanes_flush(shim_engine, NULL, SCHED_REASON_DRAIN);
    remote_exit(EXIT_WAIT_NS);
    engine_stop(shim_engine);
    lanes_pass(shim_engine);
    atomic_store_explicit(&shim_words->active, 0, memory_order_release);
    if (shim_config.summary)
        say_summary();
    if (shim_config.verify[0])
        write_report();
    trace_destroy(shim_trace, EXIT_WAIT_NS);
}

/* The child must not find launches that nobody will issue, and the parent's must not be lost to a long child. */
static void before_fork(void)
{
    if (shim_active())
        lanes_flush(shim_engine, NULL, SCHED_REASON_DRAIN);
}

/* The kernel wiped the words already, if it knows MADV_WIPEONFORK. No lock, no write, no call into the driver. */
static void in_child(void)
{
    trace_abandon(shim_trace); /* first: before the program can reuse our descriptor */
    atomic_store_explicit(&shim_words->mode, MODE_OFF, memory_order_relaxed);
    atomic_store_explicit(&shim_words->active, 0, memory_order_relaxed);
}

/* The program asks the driver to finish each launch before the next. Then nothing may be held. */
static bool launches_block(void)
{
    const char *blocking = secure_getenv("CUDA_LAUNCH_BLOCKING");

    return blocking && *blocking && strcmp(blocking, "0") != 0;
}

static bool driver_suffices(void)
{
    return shim_driver.cuCtxGetCurrent && shim_driver.cuCtxSetCurrent && shim_driver.cuCtxPushCurrent_v2 &&
           shim_driver.cuCtxPopCurrent_v2 && shim_driver.cuCtxGetDevice && shim_driver.cuDeviceGetAttribute &&
           shim_driver.cuLaunchKernel && shim_driver.cuStreamGetFlags && shim_driver.cuEventRecord;
}

static void start(void)
{
    enum config_mode mode;

    config_read(&shim_config, environment, environ, complain, NULL);
    open_log();
    mode = shim_config.disable ? MODE_OFF : (enum config_mode)shim_config.mode;
    shim_blocking = launches_block();
    if (mode == MODE_OFF)
        return;
    if (!shim_bind() || !driver_suffices()) {
        log_warn("this driver lacks functions that coissue needs; doing nothing");
        return;
    }
    if (open_trace() < 0 || open_engine() < 0) {
        log_warn("not enough memory to begin; doing nothing");
        return;
    }
    madvise(&words_page, sizeof(words_page), MADV_WIPEONFORK); /* older kernels: in_child does it */
    pthread_atfork(before_fork, NULL, in_child);
    atexit(at_exit);
    atomic_store_explicit(&shim_words->mode, mode, memory_order_relaxed);
    /* Release: pairs with the acquire in shim_active. */
    atomic_store_explicit(&shim_words->active, 1, memory_order_release);
    log_info("version %s: mode %s%s", COISSUE_VERSION, mode == MODE_FULL ? "full" : "gate",
             shim_blocking ? ", but CUDA_LAUNCH_BLOCKING is set, so no launch is held" : "");
}

void shim_start(void)
{
    lock_take(&start_lock);
    if (!started) {
        started = true;
        start();
    }
    lock_drop(&start_lock);
}

void shim_fall_back(const char *what, CUresult result)
{
    uint32_t mode = shim_mode(), next = mode == MODE_FULL ? MODE_GATE : MODE_OFF;

    if (mode == MODE_OFF || !atomic_compare_exchange_strong(&shim_words->mode, &mode, next))
        return;
    log_warn("%s: %s (%d); from now on %s", what, cu_result_name(result), (int)result,
             next == MODE_GATE ? "launches are not held (mode gate)" : "coissue does nothing (mode off)");
}

SHIM_EXPORT CUresult cuInit(unsigned int Flags)
{
    typeof(shim_driver.cuInit) real = shim_real(cuInit);
    CUresult result;

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    result = real(Flags);
    if (result == CUDA_SUCCESS && !shim_disabled())
        shim_start();
    return result;
}
