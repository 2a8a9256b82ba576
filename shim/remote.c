/* SPDX-License-Identifier: Apache-2.0
 *
 * The connection to the broker of a device: when it is made, requests, lanes and functions that the broker knows.
 */
#include "shim/remote.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "engine/code.h"
#include "engine/function.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    AGAIN_NS = 125000000, /* between attempts to connect to a broker that was lost: twice that, and then ever longer */
    AGAIN_US = 20000,     /* and to one that hung up */
    EXIT_LOOK_US = 50,
    LISTEN_NS = 50000000,
};
#define REQUEST_NS UINT64_C(10000000000) /* the broker's driver may load a large image meanwhile */
#define AGAIN_MAX_NS UINT64_C(4000000000)
#define REUNION_NS UINT64_C(100000000)  /* a broker that was lost, and may still hang, is not waited for longer */
#define RESTART_NS UINT64_C(2000000000) /* a broker whose context was lost is there again after that */

static struct {
    _Atomic(struct remote *) remote;
    _Atomic uint64_t again_ns; /* when to try next; UINT64_MAX: never */
} devices[ENGINE_DEVICES_MAX];
static struct lock connecting;
static uint32_t epochs;   /* needs `connecting` */
static uint64_t again_ns; /* between attempts. Needs `connecting` */

static bool wanted(CUdevice device)
{
    return device >= 0 && device < ENGINE_DEVICES_MAX && shim_config.broker != BROKER_OFF && shim_mode() == MODE_FULL &&
           !shim_blocking && !shim_config.verify[0];
}

static bool driver_suffices(void)
{
    return shim_driver.cuDriverGetVersion && shim_driver.cuMemHostRegister_v2 && shim_driver.cuMemHostUnregister &&
           shim_driver.cuMemHostGetDevicePointer_v2 && shim_driver.cuStreamWaitValue32_v2 &&
           shim_driver.cuStreamWriteValue32_v2 && shim_driver.cuStreamQuery &&
           (shim_driver.cuDeviceGetUuid_v2 || shim_driver.cuDeviceGetUuid);
}

static int socket_of(CUdevice device, uint8_t uuid[16], char *path, size_t size)
{
    typeof(shim_driver.cuDeviceGetUuid) get =
        shim_driver.cuDeviceGetUuid_v2 ? shim_driver.cuDeviceGetUuid_v2 : shim_driver.cuDeviceGetUuid;
    CUuuid id;

    if (get(&id, device) != CUDA_SUCCESS)
        return -ENODEV;
    memcpy(uuid, &id, 16);
    return wire_socket_path(shim_config.broker_folder, uuid, path, size);
}

static void name_of_program(char *name, size_t size)
{
    snprintf(name, size, "%s", program_invocation_short_name ? program_invocation_short_name : "");
}

/* The first message. Takes the two descriptors over. */
static int say_hello(struct remote *remote, const uint8_t uuid[16])
{
    struct wire_request request = {.type = WIRE_HELLO};
    struct wire_reply reply = {0};
    int fds[WIRE_FDS_MAX] = {-1, -1}, version = 0, error;
    size_t count = WIRE_FDS_MAX;

    shim_driver.cuDriverGetVersion(&version);
    request.hello.magic = WIRE_MAGIC;
    request.hello.version = WIRE_VERSION;
    request.hello.driver = (uint32_t)version;
    snprintf(request.hello.build, sizeof(request.hello.build), "%s", COISSUE_VERSION);
    memcpy(request.hello.device, uuid, 16);
    request.hello.pid = getpid();
    request.hello.weight = shim_config.weight;
    request.hello.slo_ns = shim_config.slo_ns;
    request.hello.base = remote->before ? remote->before->base : 0;
    name_of_program(request.text, sizeof(request.text));
    error = wire_send(remote->socket, &request, sizeof(request), NULL, 0);
    if (error == 0)
        error =
            wire_receive(remote->socket, &reply, sizeof(reply), fds, &count, remote->before ? REUNION_NS : REQUEST_NS);
    if (error == 0)
        error = reply.error;
    if (error == 0 && count == WIRE_FDS_MAX)
        error = wire_area_map(fds[0], &remote->area);
    else if (error == 0)
        error = -EPROTO;
    if (error < 0) {
        reply.text[sizeof(reply.text) - 1] = '\0';
        snprintf(remote->refusal, sizeof(remote->refusal), "%.255s", reply.text[0] ? reply.text : strerror(-error));
    }
    if (fds[0] >= 0)
        close(fds[0]);
    if (error < 0 && fds[1] >= 0)
        close(fds[1]);
    if (error < 0)
        return error;
    remote->doorbell = fds[1];
    remote->base = reply.base;
    remote->bytes = reply.bytes;
    return 0;
}

/* This process's devices will write and read the words of the area. */
static int register_area(struct remote *remote)
{
    CUresult result = shim_driver.cuMemHostRegister_v2(remote->area, wire_area_words(),
                                                       CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);

    if (result == CUDA_SUCCESS)
        result = shim_driver.cuMemHostGetDevicePointer_v2(&remote->area_on_device, remote->area, 0);
    if (result == CUDA_SUCCESS)
        return 0;
    snprintf(remote->refusal, sizeof(remote->refusal), "its memory cannot be registered: %s", cu_result_name(result));
    return -EIO;
}

static void let_go(struct remote *remote)
{
    if (remote->area_on_device)
        shim_driver.cuMemHostUnregister(remote->area);
    remote->area_on_device = 0;
    wire_area_unmap(remote->area);
    remote->area = NULL;
    if (remote->doorbell >= 0)
        close(remote->doorbell);
    if (remote->socket >= 0)
        close(remote->socket);
    remote->socket = remote->doorbell = -1;
}

static int try_once(struct remote *remote, const char *path, const uint8_t uuid[16])
{
    int error = remote->socket = wire_connect(path);

    if (error < 0) {
        log_debug("no broker at %s: %s", path, strerror(-error));
        return error;
    }
    error = say_hello(remote, uuid);
    if (error == 0)
        error = register_area(remote);
    if (error < 0)
        let_go(remote);
    return error;
}

/* A broker that hangs up on the greeting may be about to start anew. Then a program that begins waits a little for it.
 */
static int set_up(struct remote *remote, CUdevice device)
{
    uint64_t begin_ns = clock_ns();
    char path[256];
    uint8_t uuid[16];
    int error = socket_of(device, uuid, path, sizeof(path));
    bool hung_up = false;

    remote->device = device;
    remote->socket = remote->doorbell = -1;
    remote->capability = engine_capability(&shim_driver, device);
    if (error < 0)
        return error;
    while ((error = try_once(remote, path, uuid)) < 0) {
        hung_up |= error == -ECONNRESET || error == -EPIPE;
        if (remote->before || !hung_up ||
            (error != -ECONNRESET && error != -EPIPE && error != -ECONNREFUSED && error != -ENOENT &&
             error != -EAGAIN) ||
            clock_ns() - begin_ns > RESTART_NS)
            return error;
        usleep(AGAIN_US);
    }
    return 0;
}

/* Complains about a broker that is there but cannot be used, once for a process; and about none, if one is required. */
static void complain(const struct remote *remote, CUdevice device)
{
    if (remote->before)
        log_debug("device %d: the broker is not back: %s", device, remote->refusal);
    else if (remote->refusal[0])
        log_warn("device %d: the broker cannot be used (%s); launches stay in this process", device, remote->refusal);
    else if (shim_config.broker == BROKER_REQUIRE)
        log_warn("COISSUE_BROKER=require, but device %d has no broker; launches stay in this process", device);
}

static struct remote *make(CUdevice device, struct remote *before)
{
    size_t handles = REMOTE_FUNCTIONS_MAX * sizeof(CUfunction);
    struct remote *remote = calloc(1, sizeof(*remote));
    int error;

    if (!remote)
        return NULL;
    remote->before = before;
    remote->epoch = ++epochs;
    remote->functions = mmap(NULL, handles, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (remote->functions == MAP_FAILED)
        goto free_it;
    error = set_up(remote, device);
    if (error == 0 && before)
        error = remote_memory_share_again(remote);
    if (error < 0)
        goto release;
    for (uint32_t i = 0; i < WIRE_LANES; i++) {
        remote->lane[i].remote = remote;
        remote->lane[i].number = i;
        wire_ring(remote->area, i, &remote->lane[i].ring);
    }
    return remote;

release:
    complain(remote, device);
    let_go(remote);
    munmap(remote->functions, handles);
free_it:
    free(remote);
    return NULL;
}

/*
 * Threads may still look at the area of a connection that was lost, so it stays for now; that of the one before has had
 * at least AGAIN_NS.
 */
static void forget_before(struct remote *remote)
{
    struct remote *old = remote->before ? remote->before->before : NULL;

    if (old && old->area)
        let_go(old);
}

static struct remote *connect_device(CUdevice device)
{
    CUstreamCaptureMode mode = engine_relax(&shim_driver);
    struct remote *before, *remote;

    lock_take(&connecting);
    before = atomic_load_explicit(&devices[device].remote, memory_order_acquire);
    remote = before;
    if ((before && remote_is_alive(before)) ||
        clock_ns() < atomic_load_explicit(&devices[device].again_ns, memory_order_relaxed) ||
        atomic_load_explicit(&shim_engine->captures, memory_order_seq_cst) > 0)
        goto out;
    remote = driver_suffices() ? make(device, before) : NULL;
    /* Memory that was taken while there was no broker is not shared, so who begins without one stays so. */
    again_ns = remote ? AGAIN_NS : again_ns * 2 < AGAIN_MAX_NS ? again_ns * 2 : AGAIN_MAX_NS;
    atomic_store_explicit(&devices[device].again_ns, before || remote ? clock_ns() + again_ns : UINT64_MAX,
                          memory_order_relaxed);
    if (!remote)
        goto out;
    forget_before(remote);
    remote_used = true;
    atomic_store_explicit(&remote->state, REMOTE_ALIVE, memory_order_release);
    /* Release: who finds the remote finds it set up. */
    atomic_store_explicit(&devices[device].remote, remote, memory_order_release);
    log_info("device %d: launches go to the broker", device);
out:
    lock_drop(&connecting);
    engine_unrelax(&shim_driver, mode);
    return remote && remote_is_alive(remote) ? remote : NULL;
}

struct remote *remote_of(CUdevice device)
{
    struct remote *remote;

    if (!wanted(device))
        return NULL;
    remote = atomic_load_explicit(&devices[device].remote, memory_order_acquire);
    if (remote && remote_is_alive(remote))
        return remote;
    if (atomic_load_explicit(&devices[device].again_ns, memory_order_relaxed) == UINT64_MAX ||
        clock_ns() < atomic_load_explicit(&devices[device].again_ns, memory_order_relaxed))
        return NULL;
    return connect_device(device);
}

struct remote *remote_current(void)
{
    CUdevice device;

    if (!shim_driver.cuCtxGetDevice || shim_driver.cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return NULL;
    return remote_of(device);
}

/* The reply. A broker that loads a large image gives signs of life meanwhile; one that hangs does not. */
static int hear(struct remote *remote, struct wire_reply *reply)
{
    uint64_t begin_ns = clock_ns(), beat_ns, now_ns;
    int error;

    do {
        error = wire_receive(remote->socket, reply, sizeof(*reply), NULL, NULL, LISTEN_NS);
        now_ns = clock_ns();
        beat_ns = atomic_load_explicit(&remote->area->heartbeat_ns, memory_order_relaxed);
        if (beat_ns < begin_ns)
            beat_ns = begin_ns;
    } while (error == -ETIMEDOUT && now_ns - begin_ns < REQUEST_NS && now_ns < beat_ns + WIRE_OWED_NS);
    return error;
}

/* Needs remote->calls. */
static int ask(struct remote *remote, struct wire_request *request, const int *fds, size_t count,
               struct wire_reply *reply)
{
    int error = remote_is_alive(remote) || atomic_load(&remote->state) == REMOTE_NEW ? 0 : -ECONNRESET;

    if (error == 0)
        error = wire_send(remote->socket, request, sizeof(*request), fds, count);
    if (error == 0)
        error = hear(remote, reply);
    reply->text[sizeof(reply->text) - 1] = '\0';
    return error;
}

int remote_request(struct remote *remote, struct wire_request *request, const int *fds, size_t count,
                   struct wire_reply *reply)
{
    int error;

    lock_take(&remote->calls);
    error = ask(remote, request, fds, count, reply);
    lock_drop(&remote->calls);
    if (error == 0)
        return reply->error;
    remote_lose(remote, error == -ETIMEDOUT ? "it does not answer" : "the connection ended");
    return -ECONNRESET;
}

static bool connection_ended(const struct remote *remote)
{
    char byte;
    ssize_t result = recv(remote->socket, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT);

    return result == 0 || (result < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/*
 * Something was taken and is not known to be complete. To give that up is an error for the program, so a broker that
 * has merely not run for a while, on a machine with much to do, gets more time.
 */
static bool owes(const struct remote *remote)
{
    for (uint32_t i = 0; i < WIRE_LANES; i++)
        if (atomic_load_explicit(&remote->area->lane[i].taken, memory_order_acquire) >
            atomic_load_explicit(&remote->area->lane[i].completed, memory_order_acquire))
            return true;
    return false;
}

bool remote_is_well(struct remote *remote, uint64_t since_ns)
{
    uint64_t beat_ns, now_ns = clock_ns();
    int kept = errno;
    bool ended;

    if (!remote_is_alive(remote)) {
        remote_lose(remote, NULL); /* returns when what follows from that is done */
        return false;
    }
    beat_ns = atomic_load_explicit(&remote->area->heartbeat_ns, memory_order_relaxed);
    if (beat_ns < since_ns)
        beat_ns = since_ns;
    ended = connection_ended(remote);
    errno = kept;
    if (ended || atomic_load_explicit(&remote->area->state, memory_order_acquire) == WIRE_GONE)
        remote_lose(remote, "it has ended");
    else if (now_ns > beat_ns + (owes(remote) ? WIRE_OWED_NS : WIRE_SILENT_NS))
        remote_lose(remote, "it hangs");
    return remote_is_alive(remote);
}

bool remote_drain(struct remote *remote)
{
    for (uint32_t i = 0; i < WIRE_LANES; i++) {
        struct remote_lane *lane = &remote->lane[i];

        if (!remote_wait(lane, atomic_load_explicit(&lane->sent, memory_order_acquire), UINT64_MAX))
            return false;
    }
    return true;
}

static bool all_taken(const struct remote *remote)
{
    for (uint32_t i = 0; i < WIRE_LANES; i++)
        if (atomic_load_explicit(&((struct remote *)remote)->lane[i].sent, memory_order_acquire) >
            atomic_load_explicit(&remote->area->lane[i].taken, memory_order_acquire))
            return false;
    return true;
}

void remote_exit(uint64_t limit_ns)
{
    uint64_t begin_ns = clock_ns();

    for (int i = 0; i < ENGINE_DEVICES_MAX; i++) {
        struct remote *remote = atomic_load_explicit(&devices[i].remote, memory_order_acquire);

        while (remote && remote_is_alive(remote) && !all_taken(remote) && clock_ns() - begin_ns < limit_ns &&
               remote_is_well(remote, begin_ns))
            usleep(EXIT_LOOK_US);
    }
}

/* ---- lanes ---- */

/* Needs remote->calls. */
static struct remote_lane *free_lane(struct remote *remote)
{
    for (uint32_t i = 0; i < WIRE_LANES; i++)
        if (!remote->lane[i].lane)
            return &remote->lane[i];
    return NULL;
}

/* Counts go on where the last lane of this number stopped, as those of the broker do. */
static void reset(struct remote_lane *remote_lane, const struct lane *lane)
{
    remote_lane->lane = lane;
    for (uint32_t i = 0; i < WIRE_LANES; i++)
        atomic_store_explicit(&remote_lane->behind[i], 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&remote_lane->worked, 1, memory_order_relaxed); /* who knows */
}

struct remote_lane *remote_lane_begin(struct remote *remote, struct lane *lane)
{
    struct wire_request request = {.type = WIRE_LANE_BEGIN};
    struct wire_reply reply;
    struct remote_lane *found = NULL;
    int error = -ENOSPC, priority = 0;

    if (lane->stream && shim_driver.cuStreamGetPriority)
        shim_driver.cuStreamGetPriority(lane->stream, &priority);
    lock_take(&remote->calls);
    found = atomic_load_explicit(&lane->remote, memory_order_relaxed);
    if (found && found->remote == remote)
        goto out; /* another thread was faster */
    found = free_lane(remote);
    if (!found)
        goto out;
    request.lane.lane = found->number;
    request.lane.priority = priority;
    error = ask(remote, &request, NULL, 0, &reply);
    if (error == 0)
        error = reply.error;
    if (error < 0) {
        found = NULL;
        goto out;
    }
    reset(found, lane);
    /* Release: pairs with the acquire in remote_lane_of. */
    atomic_store_explicit(&lane->remote, found, memory_order_release);
out:
    lock_drop(&remote->calls);
    return found;
}

void remote_lane_end(struct lane *lane)
{
    struct remote_lane *remote_lane = lane ? atomic_load_explicit(&lane->remote, memory_order_acquire) : NULL;
    struct wire_request request = {.type = WIRE_LANE_END};
    struct wire_reply reply;

    if (!remote_lane || remote_lane->lane != lane)
        return;
    remote_await(lane);
    atomic_store_explicit(&lane->remote, NULL, memory_order_release);
    request.lane.lane = remote_lane->number;
    if (remote_is_alive(remote_lane->remote))
        remote_request(remote_lane->remote, &request, NULL, 0, &reply);
    lock_take(&remote_lane->remote->calls);
    remote_lane->lane = NULL;
    lock_drop(&remote_lane->remote->calls);
}

void remote_context_ends(CUcontext handle)
{
    const struct context *context = remote_used ? context_find(shim_engine, handle) : NULL;

    for (uint32_t i = 0; context && i < device_lane_top(context->device); i++) {
        struct lane *lane = device_lane(context->device, i);

        if (lane->context == context && atomic_load_explicit(&lane->state, memory_order_acquire) == LANE_LIVE)
            remote_lane_end(lane);
    }
}

/* ---- functions ---- */

/* What struct function keeps: the connection's number above, and the function's number + 1, or FOREIGN. */
enum { FOREIGN = 0xffffffff };

static uint64_t remembered(const struct remote *remote, uint32_t number)
{
    return (uint64_t)remote->epoch << 32 | number;
}

static int send_code(struct remote *remote, struct wire_request *request, const struct image_code *code,
                     struct wire_reply *reply)
{
    int error, fd = memfd_create("coissue-code", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return -errno;
    request->type = WIRE_CODE;
    error = fd_write_all(fd, code->bytes, code->size);
    if (error == 0)
        error = remote_request(remote, request, &fd, 1, reply);
    close(fd);
    return error;
}

static int attribute_of(const struct function *function, CUfunction_attribute attribute)
{
    int value;

    return shim_driver.cuFuncGetAttribute(&value, attribute, function->query) == CUDA_SUCCESS ? value : -1;
}

/* Names the code to the broker, then the kernel in it. The function's number, or -errno. */
static int64_t introduce(struct remote *remote, const struct function *function, const struct image_code *code)
{
    struct image_digest digest = image_hash(code->bytes, code->size, 0);
    struct wire_request request = {.type = WIRE_KNOWN};
    struct wire_reply reply;
    int error;

    memcpy(request.code.hash, digest.words, sizeof(request.code.hash));
    request.code.bytes = code->size;
    request.code.ptx = code->code == COALESCE_PTX;
    error = remote_request(remote, &request, NULL, 0, &reply);
    if (error == -ENOENT)
        error = send_code(remote, &request, code, &reply);
    if (error < 0)
        return error;
    request = (struct wire_request){.type = WIRE_FUNCTION};
    request.function.code = reply.number;
    request.function.shared_dynamic_max = attribute_of(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    request.function.carveout = attribute_of(function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
    request.function.nonportable_cluster = attribute_of(function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
    request.function.parameter_bytes = function->parameter_bytes;
    snprintf(request.text, sizeof(request.text), "%s", function->name);
    error = remote_request(remote, &request, NULL, 0, &reply);
    if (error < 0) {
        log_debug("%.200s: not for the broker: %s", function->name, reply.text[0] ? reply.text : strerror(-error));
        return error;
    }
    return reply.number < REMOTE_FUNCTIONS_MAX ? (int64_t)reply.number : -ENOSPC;
}

static int64_t learn(struct remote *remote, const struct function *function)
{
    struct code *code = function->code;
    enum coalesce_refusal refusal;
    struct image_code found;
    int64_t number = -ENOTSUP;

    if (!code->known)
        return -ENOTSUP;
    lock_take(&code->reading);
    if (!atomic_load_explicit(&code->gone, memory_order_acquire) &&
        image_find(&code->image, remote->capability, function->name, &found, &refusal) == 0) {
        number = introduce(remote, function, &found);
        image_code_finish(&found);
    }
    lock_drop(&code->reading);
    return number;
}

int64_t remote_function(struct remote *remote, const struct function *function)
{
    _Atomic uint64_t *memory = &((struct function *)function)->remote;
    uint64_t value = atomic_load_explicit(memory, memory_order_acquire);
    int64_t number;

    /* Who knows where a variable is may write to it, and its copy in the broker would not change. */
    if (!function->code || atomic_load_explicit(&function->code->given, memory_order_relaxed))
        return -1;
    if (likely(value >> 32 == remote->epoch))
        return (uint32_t)value == FOREIGN ? -1 : (int64_t)(uint32_t)value - 1;
    number = learn(remote, function);
    if (number == -ECONNRESET)
        return -1;
    if (number >= 0)
        remote->functions[number] = function->handle;
    /* Release: who finds the number finds the handle, for falling back. */
    atomic_store_explicit(memory, remembered(remote, number < 0 ? FOREIGN : (uint32_t)number + 1),
                          memory_order_release);
    return number < 0 ? -1 : number;
}
