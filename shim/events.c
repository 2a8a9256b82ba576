/* SPDX-License-Identifier: Apache-2.0
 *
 * Events. A record may wait in its lane, so that it takes its time stamp and its place behind what the lane holds. A
 * wait never waits in a lane: it binds to the record that is the latest when it is called, and by issuing that record
 * and the waiting stream's lane first, the driver binds it. So no versions are needed here.
 *
 * The driver refuses a record with a bad handle at the call. An event is therefore queued only when it has been
 * recorded in the same context before, by a call that the driver answered.
 */
#include "shim/remote.h"

#include "base/clock.h"

typedef CUresult (*record_fn)(CUevent event, CUstream stream);

struct call_record {
    CUevent event;
    CUstream stream;
};

static CUresult issue_record(const struct cu_driver *driver, const void *arguments, CUstream away)
{
    const struct call_record *call = arguments;

    return driver->cuEventRecord(call->event, away ? away : call->stream);
}

static CUresult record(record_fn real, CUevent event, struct stream_key key, enum cu_entry entry)
{
    struct call_record call = {event, key.stream};
    struct lane *lane;
    CUresult result;

    if (remote_used && event_record_remote(event, key))
        return order_result(CUDA_SUCCESS);
    /* An earlier record of this event that still waits elsewhere must not be issued after this one. */
    order_event(event, entry);
    if (launch_op_may_wait(key) && event_was_recorded(event) &&
        launch_queue_op(key, issue_record, cu_entry_name(entry), &call, sizeof(call), event))
        return order_result(CUDA_SUCCESS);
    order_stream(key, entry);
    result = real(event, key.stream);
    lane = stream_is_per_thread(key) ? NULL : lane_find(shim_engine, order_current_context(), key.stream);
    if (result == CUDA_SUCCESS && lane)
        event_note(event, lane, 0); /* nothing to flush, but now it may be queued; no room: it never will be */
    else
        event_forget(event);
    return order_result(result);
}

SHIM_EXPORT CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
    typeof(shim_driver.cuEventRecord) real = shim_real(cuEventRecord);

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(hEvent, hStream);
    return record(real, hEvent, (struct stream_key){hStream, false}, CU_ID_cuEventRecord);
}

SHIM_EXPORT CUresult cuEventRecord_ptsz(CUevent hEvent, CUstream hStream)
{
    typeof(shim_driver.cuEventRecord_ptsz) real = shim_real(cuEventRecord_ptsz);

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(hEvent, hStream);
    return record(real, hEvent, (struct stream_key){hStream, true}, CU_ID_cuEventRecord_ptsz);
}

/* The flags change what a record means inside a capture, so these are not queued. */
static CUresult record_with_flags(CUresult (*real)(CUevent, CUstream, unsigned int), CUevent event,
                                  struct stream_key key, unsigned int flags, enum cu_entry entry)
{
    order_event(event, entry);
    order_stream(key, entry);
    event_forget(event);
    return order_result(real(event, key.stream, flags));
}

SHIM_EXPORT CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    typeof(shim_driver.cuEventRecordWithFlags) real = shim_real(cuEventRecordWithFlags);

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(hEvent, hStream, flags);
    return record_with_flags(real, hEvent, (struct stream_key){hStream, false}, flags, CU_ID_cuEventRecordWithFlags);
}

SHIM_EXPORT CUresult cuEventRecordWithFlags_ptsz(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    typeof(shim_driver.cuEventRecordWithFlags_ptsz) real = shim_real(cuEventRecordWithFlags_ptsz);

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(hEvent, hStream, flags);
    return record_with_flags(real, hEvent, (struct stream_key){hStream, true}, flags,
                             CU_ID_cuEventRecordWithFlags_ptsz);
}

/* A remote lane comes behind what a remote record stands for. False: the driver must be asked. */
static bool wait_remote(CUstream stream, CUevent event)
{
    struct stream_key key = {stream, false};
    struct remote_lane *lane, *waiter;
    uint64_t count;

    if (!event_is_remote(event, &lane, &count))
        return false;
    waiter = remote_of_stream(key);
    if (!waiter || waiter->remote != lane->remote)
        return remote_has(lane, count);
    remote_follow(waiter, lane, count);
    return true;
}

SHIM_EXPORT CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    typeof(shim_driver.cuStreamWaitEvent) real = shim_real(cuStreamWaitEvent);

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(hStream, hEvent, Flags);
    if (remote_used && wait_remote(hStream, hEvent))
        return order_result(CUDA_SUCCESS);
    order_event(hEvent, CU_ID_cuStreamWaitEvent);
    order_stream((struct stream_key){hStream, false}, CU_ID_cuStreamWaitEvent);
    return order_result(real(hStream, hEvent, Flags));
}

SHIM_EXPORT CUresult cuStreamWaitEvent_ptsz(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    typeof(shim_driver.cuStreamWaitEvent_ptsz) real = shim_real(cuStreamWaitEvent_ptsz);

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(hStream, hEvent, Flags);
    order_event(hEvent, CU_ID_cuStreamWaitEvent_ptsz);
    order_stream((struct stream_key){hStream, true}, CU_ID_cuStreamWaitEvent_ptsz);
    return order_result(real(hStream, hEvent, Flags));
}

SHIM_EXPORT CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    typeof(shim_driver.cuEventCreate) real = shim_real(cuEventCreate);
    CUresult result;

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    result = real(phEvent, Flags);
    if (result == CUDA_SUCCESS && shim_active() && remote_used)
        event_created(*phEvent, Flags);
    return result;
}

SHIM_EXPORT CUresult cuEventQuery(CUevent hEvent)
{
    typeof(shim_driver.cuEventQuery) real = shim_real(cuEventQuery);
    struct remote_lane *lane;
    uint64_t count;

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(hEvent);
    if (event_is_remote(hEvent, &lane, &count)) {
        if (remote_has(lane, count))
            return order_result(remote_take_error(lane));
        remote_want(lane, count);
        /* A program that only polls must find out as well. */
        return remote_is_well(lane->remote, clock_ns()) ? CUDA_ERROR_NOT_READY : order_result(CUDA_SUCCESS);
    }
    order_event(hEvent, CU_ID_cuEventQuery);
    return order_result(real(hEvent));
}

SHIM_EXPORT CUresult cuEventSynchronize(CUevent hEvent)
{
    typeof(shim_driver.cuEventSynchronize) real = shim_real(cuEventSynchronize);
    struct remote_lane *lane;
    uint64_t count;

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(hEvent);
    if (event_is_remote(hEvent, &lane, &count)) {
        remote_wait(lane, count, UINT64_MAX);
        return order_result(remote_take_error(lane));
    }
    order_event(hEvent, CU_ID_cuEventSynchronize);
    return order_result(real(hEvent));
}

static CUresult destroy(CUresult (*real)(CUevent), CUevent event, enum cu_entry entry)
{
    order_event(event, entry);
    event_destroyed(event); /* before the driver can give the handle to another event */
    return order_result(real(event));
}

SHIM_EXPORT CUresult cuEventDestroy(CUevent hEvent)
{
    typeof(shim_driver.cuEventDestroy) real = shim_real(cuEventDestroy);

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    return shim_active() ? destroy(real, hEvent, CU_ID_cuEventDestroy) : real(hEvent);
}

SHIM_EXPORT CUresult cuEventDestroy_v2(CUevent hEvent)
{
    typeof(shim_driver.cuEventDestroy_v2) real = shim_real(cuEventDestroy_v2);

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    return shim_active() ? destroy(real, hEvent, CU_ID_cuEventDestroy_v2) : real(hEvent);
}

static CUresult elapsed(CUresult (*real)(float *, CUevent, CUevent), float *milliseconds, CUevent start, CUevent end,
                        enum cu_entry entry)
{
    order_event(start, entry);
    order_event(end, entry);
    return order_result(real(milliseconds, start, end));
}

SHIM_EXPORT CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    typeof(shim_driver.cuEventElapsedTime) real = shim_real(cuEventElapsedTime);

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(pMilliseconds, hStart, hEnd);
    return elapsed(real, pMilliseconds, hStart, hEnd, CU_ID_cuEventElapsedTime);
}

SHIM_EXPORT CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    typeof(shim_driver.cuEventElapsedTime_v2) real = shim_real(cuEventElapsedTime_v2);

    if (unlikely(!real))
        return SHIM_NO_DRIVER;
    if (!shim_active())
        return real(pMilliseconds, hStart, hEnd);
    return elapsed(real, pMilliseconds, hStart, hEnd, CU_ID_cuEventElapsedTime_v2);
}
