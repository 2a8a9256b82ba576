/* SPDX-License-Identifier: Apache-2.0
 *
 * A client: its thread answers its requests, one after the other, and when the connection ends, cleans up behind it.
 */
#include "broker/private.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

void session_give_up(struct session *session, const char *why)
{
    const char *none = NULL;

    session->fed = false; /* the device thread's, or under its lock */
    if (!atomic_compare_exchange_strong(&session->broken, &none, why))
        return;
    shutdown(session->socket, SHUT_RDWR); /* its thread finds the connection ended, and says why */
}

/* ---- the first message ---- */

static const char *hello_fault(const struct worker *worker, const struct wire_request *request)
{
    if (request->type != WIRE_HELLO || request->hello.magic != WIRE_MAGIC)
        return "the first message is none of coissue's";
    if (request->hello.version != WIRE_VERSION)
        return "another version of the protocol";
    if (strncmp(request->hello.build, COISSUE_VERSION, sizeof(request->hello.build)) != 0)
        return "another version of coissue than the broker's, " COISSUE_VERSION;
    if (memcmp(request->hello.device, worker->uuid, sizeof(worker->uuid)) != 0)
        return "another device than the broker's";
    if (request->hello.driver != (uint32_t)worker->version)
        return "another driver than the broker's";
    return NULL;
}

/* One that comes back has its memory at the addresses that it had. */
static int take_slot(struct worker *worker, struct session *session, uint64_t base)
{
    uint64_t wanted = base >= SLOT_FIRST ? (base - SLOT_FIRST) / SLOT_BYTES : SESSIONS_MAX;
    int error = -EBUSY;

    lock_take(&worker->lock);
    for (uint32_t i = 0; i < SESSIONS_MAX && error < 0; i++) {
        if (worker->sessions[i] || (base && i != wanted))
            continue;
        worker->sessions[i] = session;
        session->slot = i;
        error = 0;
    }
    lock_drop(&worker->lock);
    return error;
}

/* The client's addresses, reserved as the client does it, and the area. */
static int set_up(struct session *session, int *area_fd, char *text, size_t size)
{
    struct worker *worker = session->worker;
    uint64_t base = SLOT_FIRST + session->slot * SLOT_BYTES;
    CUdeviceptr granted = 0;
    CUresult result = worker->driver.cuMemAddressReserve(&granted, wire_device_bytes(SLOT_BYTES), 0, base, 0);
    int error;

    if (result == CUDA_SUCCESS && granted != base)
        worker->driver.cuMemAddressFree(granted, wire_device_bytes(SLOT_BYTES));
    if (result != CUDA_SUCCESS || granted != base) {
        snprintf(text, size, "the broker's driver does not grant the addresses from %#llx on",
                 (unsigned long long)base);
        return -EADDRNOTAVAIL;
    }
    session->reserved = true;
    error = wire_area_create(&session->area, area_fd);
    if (error < 0)
        return error;
    result = worker->driver.cuMemHostRegister_v2(session->area, wire_area_words(),
                                                 CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    if (result == CUDA_SUCCESS)
        result = worker->driver.cuMemHostGetDevicePointer_v2(&session->area_on_device, session->area, 0);
    if (result != CUDA_SUCCESS) {
        snprintf(text, size, "the broker cannot register memory: %s", cu_result_name(result));
        return -EIO;
    }
    for (uint32_t i = 0; i < WIRE_LANES; i++)
        wire_ring(session->area, i, &session->lane[i].ring);
    atomic_store_explicit(&session->area->heartbeat_ns, clock_ns(), memory_order_relaxed);
    return 0;
}

static bool greet(struct session *session)
{
    struct worker *worker = session->worker;
    struct wire_request request;
    struct wire_reply reply = {0};
    int fds[WIRE_FDS_MAX] = {-1, -1};
    size_t count = 0;
    const char *fault;

    if (wire_receive(session->socket, &request, sizeof(request), NULL, &count, UINT64_MAX) < 0)
        return false;
    request.text[sizeof(request.text) - 1] = '\0';
    fault = hello_fault(worker, &request);
    if (fault) {
        reply.error = -EPROTO;
        snprintf(reply.text, sizeof(reply.text), "%s", fault);
    } else if ((reply.error = take_slot(worker, session, request.hello.base)) < 0) {
        snprintf(reply.text, sizeof(reply.text), "the broker has %d clients already, or one at these addresses",
                 SESSIONS_MAX);
    } else {
        reply.error = set_up(session, &fds[0], reply.text, sizeof(reply.text));
    }
    snprintf(session->name, sizeof(session->name), "%.31s", request.text);
    session->attr = (struct sched_lane_attr){.slo_ns = request.hello.slo_ns,
                                             .weight = request.hello.weight ? request.hello.weight : 100};
    reply.base = SLOT_FIRST + session->slot * SLOT_BYTES;
    reply.bytes = SLOT_BYTES;
    fds[1] = worker->doorbell;
    wire_send(session->socket, &reply, sizeof(reply), reply.error == 0 ? fds : NULL, reply.error == 0 ? 2 : 0);
    if (fds[0] >= 0)
        close(fds[0]);
    if (reply.error < 0)
        log_warn("process %d is refused: %s", (int)session->pid, reply.text);
    return reply.error == 0;
}

/* ---- lanes ---- */

static int lane_begin(struct session *session, const struct wire_request *request)
{
    struct worker *worker = session->worker;
    uint32_t number = request->lane.lane;
    struct session_lane *mine = number < WIRE_LANES ? &session->lane[number] : NULL;
    CUstream stream;
    struct lane *lane;

    if (!mine || mine->lane)
        return -EINVAL;
    if (worker->driver.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, request->lane.priority) !=
        CUDA_SUCCESS)
        return -EIO;
    lane = lane_make_with(worker->engine, worker->context, stream, &session->attr);
    if (!lane) {
        worker->driver.cuStreamDestroy_v2(stream);
        return -ENOSPC;
    }
    lock_take(&worker->lock);
    mine->stream = stream;
    mine->base = mine->completed = mine->taken;
    mine->lane = lane;
    session->pending |= UINT32_C(1) << number;
    lock_drop(&worker->lock);
    feed_wake(worker);
    return 0;
}

/* All that was taken is complete: then nothing of the lane is in the engine or on the device. */
static void drain(struct session *session, struct session_lane *mine)
{
    struct worker *worker = session->worker;
    uint64_t issued;

    lane_flush_all(mine->lane, SCHED_REASON_DRAIN);
    issued = atomic_load_explicit(&mine->lane->issued, memory_order_acquire);
    if (worker->driver.cuStreamSynchronize(mine->stream) == CUDA_SUCCESS)
        lane_synced(mine->lane, issued);
}

static int lane_finish(struct session *session, uint32_t number)
{
    struct worker *worker = session->worker;
    struct session_lane *mine = number < WIRE_LANES ? &session->lane[number] : NULL;
    struct lane *lane = mine ? mine->lane : NULL;

    if (!lane)
        return -EINVAL;
    drain(session, mine);
    lock_take(&worker->lock);
    mine->lane = NULL;
    mine->completed = mine->taken;
    lock_drop(&worker->lock);
    lane_end(lane);
    worker->driver.cuStreamDestroy_v2(mine->stream);
    return 0;
}

/* ---- functions ---- */

static int64_t number_function(struct session *session, const struct function *function)
{
    const struct function **functions;

    for (uint32_t i = 0; i < session->function_count; i++)
        if (session->functions[i] == function)
            return i;
    if (session->function_count >= FUNCTIONS_MAX)
        return -ENOSPC;
    if (session->function_count % 256 == 0) {
        functions = malloc((session->function_count + 256) * sizeof(*functions));
        if (!functions)
            return -ENOMEM;
        if (session->function_count > 0)
            memcpy(functions, session->functions, session->function_count * sizeof(*functions));
        lock_take(&session->worker->lock);
        free(session->functions);
        session->functions = functions;
        lock_drop(&session->worker->lock);
    }
    session->functions[session->function_count] = function;
    lock_take(&session->worker->lock);
    session->function_count++;
    lock_drop(&session->worker->lock);
    return session->function_count - 1;
}

static int64_t find_function(struct session *session, const struct wire_request *request, char *text, size_t size)
{
    const struct function *function;
    int error = code_function(session->worker, request, &function, text, size);

    return error < 0 ? error : number_function(session, function);
}

/* ---- requests ---- */

/* False: the client is not what it should be. Takes `fd` over. */
static bool answer(struct session *session, struct wire_request *request, int fd, struct wire_reply *reply)
{
    struct worker *worker = session->worker;
    int64_t result = -EINVAL;
    bool takes = request->type == WIRE_MEMORY || request->type == WIRE_CODE;

    request->text[sizeof(request->text) - 1] = '\0';
    switch (request->type) {
    case WIRE_MEMORY:
        result = memory_share(session, request, fd, reply->text, sizeof(reply->text));
        break;
    case WIRE_FORGET:
        result = memory_forget(session, request->memory.base, request->memory.bytes);
        break;
    case WIRE_KNOWN:
        result = code_known(worker, request);
        break;
    case WIRE_CODE:
        result = code_take(worker, request, fd);
        break;
    case WIRE_FUNCTION:
        result = find_function(session, request, reply->text, sizeof(reply->text));
        break;
    case WIRE_LANE_BEGIN:
        result = lane_begin(session, request);
        break;
    case WIRE_LANE_END:
        result = lane_finish(session, request->lane.lane);
        break;
    default:
        if (fd >= 0)
            close(fd);
        return false;
    }
    if (!takes && fd >= 0)
        close(fd);
    reply->error = result < 0 ? (int32_t)result : 0;
    reply->number = result < 0 ? 0 : (uint32_t)result;
    return true;
}

static const char *converse(struct session *session)
{
    struct wire_request request;
    struct wire_reply reply;

    for (;;) {
        int fd = -1, error;
        size_t count = 1;

        error = wire_receive(session->socket, &request, sizeof(request), &fd, &count, UINT64_MAX);
        if (error == -EPROTO)
            return "a message of another size";
        if (error < 0)
            return NULL;
        memset(&reply, 0, sizeof(reply));
        if (!answer(session, &request, count > 0 ? fd : -1, &reply))
            return "a message of unknown kind";
        if (wire_send(session->socket, &reply, sizeof(reply), NULL, 0) < 0)
            return NULL;
    }
}

/* ---- the end ---- */

static void clean_up(struct session *session)
{
    struct worker *worker = session->worker;

    lock_take(&worker->lock);
    session->fed = false;
    lock_drop(&worker->lock);
    for (uint32_t i = 0; i < WIRE_LANES; i++)
        lane_finish(session, i);
    memory_forget_all(session);
    if (session->reserved)
        worker->driver.cuMemAddressFree(SLOT_FIRST + session->slot * SLOT_BYTES, wire_device_bytes(SLOT_BYTES));
    if (session->area_on_device)
        worker->driver.cuMemHostUnregister(session->area);
    lock_take(&worker->lock);
    if (worker->sessions[session->slot] == session)
        worker->sessions[session->slot] = NULL;
    lock_drop(&worker->lock);
    wire_area_unmap(session->area);
    close(session->socket);
    free(session->functions);
}

static void session_main(void *argument)
{
    struct session *session = argument;
    struct worker *worker = session->worker;
    const char *fault = NULL, *broken;

    worker->driver.cuCtxSetCurrent(worker->context);
    if (greet(session)) {
        lock_take(&worker->lock);
        session->fed = true;
        lock_drop(&worker->lock);
        feed_wake(worker); /* it may sleep without having told this client so */
        log_info("process %d (%s) has come", (int)session->pid, session->name);
        fault = converse(session);
    }
    broken = atomic_load(&session->broken);
    if (broken || fault)
        log_warn("process %d (%s) is sent away: %s", (int)session->pid, session->name, broken ? broken : fault);
    clean_up(session);
    log_info("process %d (%s) has gone", (int)session->pid, session->name);
}

void session_start(struct worker *worker, int socket, pid_t pid)
{
    struct session *session = calloc(1, sizeof(*session));

    if (!session) {
        close(socket);
        return;
    }
    session->worker = worker;
    session->socket = socket;
    session->pid = pid;
    session->slot = SESSIONS_MAX;
    if (thread_start(&session->thread, "coissue-client", THREAD_STACK_PROGRAM, session_main, session) < 0) {
        log_warn("process %d: no thread can be started for it", (int)pid);
        close(socket);
        free(session);
        return;
    }
    session->next = worker->ever;
    worker->ever = session;
}

void sessions_reap(struct worker *worker)
{
    for (struct session **at = &worker->ever; *at;) {
        struct session *session = *at;

        if (!thread_ended(&session->thread)) {
            at = &session->next;
            continue;
        }
        *at = session->next;
        free(session);
    }
}
