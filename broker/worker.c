/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker: sets up the device, its engine and the socket, and accepts clients until it is told to stop.
 */
#include "broker/private.h"

#include "base/clock.h"
#include "base/log.h"
#include "engine/device.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRACE_RING_EVENTS = 65536, BEAT_MS = WIRE_BEAT_NS / 1000000 / 2, SUMMARY_BYTES = 8192 };
#define STUCK_NS UINT64_C(5000000000)  /* a device thread that makes no round for so long hangs */
#define LEAVE_NS UINT64_C(10000000000) /* how long work in flight is waited for at the end */

/* The engine could not do what it must. A fault of a kernel shows in the same way. */
static void engine_failed(const char *what, CUresult result)
{
    log_warn("%s: %s", what, cu_result_name(result));
}

static void *look_up(void *library, const char *symbol)
{
    return dlsym(library, symbol);
}

static int load_driver(struct worker *worker)
{
    const struct cu_driver *driver = &worker->driver;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        log_error("%s", dlerror());
        return -ENOENT;
    }
    cu_driver_fill(&worker->driver, look_up, library);
    if (driver->cuInit && driver->cuDriverGetVersion && driver->cuDeviceGet && driver->cuDevicePrimaryCtxRetain &&
        driver->cuCtxSetCurrent && driver->cuDeviceGetUuid_v2 && driver->cuDeviceGetAttribute &&
        driver->cuMemAddressReserve && driver->cuMemAddressFree && driver->cuMemImportFromShareableHandle &&
        driver->cuMemMap && driver->cuMemUnmap && driver->cuMemRelease && driver->cuMemSetAccess &&
        driver->cuMemHostRegister_v2 && driver->cuMemHostUnregister && driver->cuMemHostGetDevicePointer_v2 &&
        driver->cuLibraryLoadData && driver->cuLibraryGetKernel && driver->cuKernelSetAttribute &&
        driver->cuKernelGetAttribute && driver->cuStreamCreateWithPriority && driver->cuStreamDestroy_v2 &&
        driver->cuStreamQuery && driver->cuStreamSynchronize && driver->cuMemcpyAsync && driver->cuMemcpyHtoDAsync_v2 &&
        driver->cuMemcpyDtoHAsync_v2 && driver->cuMemsetD2D8Async && driver->cuMemsetD2D16Async &&
        driver->cuMemsetD2D32Async)
        return 0;
    log_error("this driver lacks functions that the broker needs");
    return -ENOSYS;
}

static int open_device(struct worker *worker)
{
    const struct cu_driver *driver = &worker->driver;
    CUuuid uuid;
    CUresult result = driver->cuInit(0);

    if (result == CUDA_SUCCESS)
        result = driver->cuDeviceGet(&worker->device, worker->options->device);
    if (result == CUDA_SUCCESS)
        result = driver->cuDeviceGetUuid_v2(&uuid, worker->device);
    if (result == CUDA_SUCCESS)
        result = driver->cuDevicePrimaryCtxRetain(&worker->context, worker->device);
    if (result == CUDA_SUCCESS)
        result = driver->cuCtxSetCurrent(worker->context);
    if (result == CUDA_SUCCESS)
        result = driver->cuDriverGetVersion(&worker->version);
    if (result != CUDA_SUCCESS) {
        log_error("device %d: %s", worker->options->device, cu_result_name(result));
        return -ENODEV;
    }
    worker->capability = engine_capability(driver, worker->device);
    memcpy(worker->uuid, &uuid, sizeof(worker->uuid));
    return 0;
}

static int open_trace(struct worker *worker)
{
    const struct config *config = &worker->options->config;

    return engine_trace(config->trace, config->trace_flush_ns, TRACE_RING_EVENTS, &worker->trace);
}

static int open_engine(struct worker *worker, const struct engine_feed *feed)
{
    const struct config *config = &worker->options->config;
    struct engine_options options = {
        .driver = &worker->driver,
        .trace = worker->trace,
        .tracing = trace_is_written(worker->trace),
        .policy = config->policy,
        .window = config->window,
        .packs = (uint32_t)config->packs,
        .coalesce = config->coalesce,
        .unproven = config->unproven,
        .cache = config->cache,
        .cache_bytes = (uint64_t)config->cache_mib << 20,
        .hold_cap_ns = config->hold_cap_ns,
        .spin_ns = config->spin_ns,
        .lane_attr = {.weight = config->weight},
        .feed = feed,
        .failed = engine_failed,
    };
    int error = engine_create(&options, &worker->engine);

    if (error == -EINVAL)
        log_error("COISSUE_POLICY: \"%s\" is not a policy", config->policy);
    return error;
}

static bool mps_runs(void)
{
    const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char path[4096];
    struct stat about;

    snprintf(path, sizeof(path), "%s/control", folder && *folder ? folder : "/tmp/nvidia-mps");
    return stat(path, &about) == 0;
}

static int open_socket(struct worker *worker, char *path, size_t size)
{
    const char *folder = worker->options->folder[0] ? worker->options->folder : worker->options->config.broker_folder;
    int error = wire_socket_path(folder, worker->uuid, path, size);

    if (error == 0)
        error = worker->listener = wire_listen(path);
    if (error < 0)
        log_error("%s: %s", path,
                  error == -EADDRINUSE ? "a broker serves there already"
                  : error == -EPERM    ? "others may write to that folder"
                                       : strerror(-error));
    return error < 0 ? error : 0;
}

/* Blocked before any thread starts, so that all of them have it so. */
static int watch_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/*
 * Signs of life for the clients. They come from this thread, because the device's may be in the driver for as long as
 * it takes to load a program; but not for ever.
 */
static void beat(struct worker *worker)
{
    uint64_t now_ns = clock_ns(), round_ns = atomic_load_explicit(&worker->round_ns, memory_order_relaxed);
    struct session *session;

    if (round_ns != UINT64_MAX && now_ns > round_ns + STUCK_NS)
        return;
    lock_take(&worker->lock);
    for (uint32_t i = 0; i < SESSIONS_MAX; i++)
        if ((session = fed_session(worker, i)))
            atomic_store_explicit(&session->area->heartbeat_ns, now_ns, memory_order_relaxed);
    lock_drop(&worker->lock);
}

/* Accepts until a signal, or until the context is lost. */
static void accept_clients(struct worker *worker)
{
    struct pollfd wait[] = {{.fd = worker->listener, .events = POLLIN}, {.fd = worker->signals, .events = POLLIN}};
    pid_t pid;
    int fd;

    while (atomic_load_explicit(&worker->fault, memory_order_relaxed) == 0) {
        if (poll(wait, 2, BEAT_MS) < 0 && errno != EINTR)
            return;
        beat(worker);
        if (wait[1].revents)
            return;
        sessions_reap(worker);
        if (!(wait[0].revents & POLLIN))
            continue;
        fd = wire_accept(worker->listener, &pid);
        if (fd == -EPERM)
            log_warn("a process of another user was turned away");
        else if (fd >= 0)
            session_start(worker, fd, pid);
    }
}

static bool anything_left(struct worker *worker)
{
    struct session *session;
    bool left = false;

    lock_take(&worker->lock);
    for (uint32_t i = 0; i < SESSIONS_MAX; i++)
        left |= (session = fed_session(worker, i)) && session->active;
    lock_drop(&worker->lock);
    return left;
}

/* Takes nothing more, waits for what was taken, and lets the clients know. */
static void leave(struct worker *worker)
{
    uint64_t begin_ns = clock_ns();

    lock_take(&worker->lock);
    for (uint32_t i = 0; i < SESSIONS_MAX; i++) {
        struct session *session = fed_session(worker, i);

        if (!session)
            continue;
        atomic_store_explicit(&session->area->state, WIRE_LEAVE, memory_order_release);
        session->closed = true;
        for (uint32_t j = 0; j < WIRE_LANES; j++) /* its completion is to be looked at, so that this ends */
            atomic_store_explicit(&session->area->lane[j].wanted, (uint32_t)session->lane[j].taken,
                                  memory_order_relaxed);
    }
    lock_drop(&worker->lock);
    feed_wake(worker);
    while (anything_left(worker) && clock_ns() - begin_ns < LEAVE_NS)
        usleep(200);
    lock_take(&worker->lock);
    for (uint32_t i = 0; i < SESSIONS_MAX; i++)
        if (worker->sessions[i] && worker->sessions[i]->area)
            atomic_store_explicit(&worker->sessions[i]->area->state, WIRE_GONE, memory_order_release);
    lock_drop(&worker->lock);
}

static void say_summary(struct worker *worker)
{
    char text[SUMMARY_BYTES];

    trace_summary(worker->trace, text, sizeof(text));
    text[sizeof(text) - 1] = '\0';
    fputs(text, stderr);
}

static int serve(struct worker *worker, const char *path)
{
    uint32_t fault;

    fprintf(stderr, "coissue serve: device %d, socket %s, MPS %s\n", worker->options->device, path,
            mps_runs() ? "runs" : "does not run");
    accept_clients(worker);
    fault = atomic_load_explicit(&worker->fault, memory_order_relaxed);
    if (fault) {
        log_warn("a kernel of a client has failed with %s, and the context with it", cu_result_name((CUresult)fault));
        usleep(1000); /* the device thread tells the clients in its next round */
        return BROKER_AGAIN;
    }
    unlink(path); /* nobody connects any more */
    leave(worker);
    return 0;
}

int broker_work(const struct broker_options *options)
{
    static struct worker worker;
    static struct engine_feed feed = {&worker, feed_round, feed_sleep, feed_wake};
    char path[256] = "";
    int status = 1;

    worker.options = options;
    worker.signals = watch_signals();
    worker.doorbell = eventfd(0, EFD_CLOEXEC);
    if (worker.signals < 0 || worker.doorbell < 0) {
        log_error("no descriptors are left: %s", strerror(errno));
        return 1;
    }
    if (load_driver(&worker) < 0 || open_device(&worker) < 0 || open_trace(&worker) < 0 ||
        open_engine(&worker, &feed) < 0 || open_socket(&worker, path, sizeof(path)) < 0)
        return 1;
    status = serve(&worker, path);
    if (status == 0)
        engine_stop(worker.engine);
    if (options->config.summary)
        say_summary(&worker);
    trace_destroy(worker.trace, LEAVE_NS);
    return status;
}
