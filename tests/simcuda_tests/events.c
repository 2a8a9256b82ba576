/* SPDX-License-Identifier: Apache-2.0
 *
 * Description: events have versions and times: a wait binds to the latest record, a query asks about it, and time
 * stamps are taken when the device gets there.
 */
#include "tests/simcuda_tests/cu.h"

static void an_event_is_not_ready_until_the_work_before_it_is_done(void)
{
    CUstream s = new_stream(0);
    CUevent e = new_event(0);

    OK(spin(s, 100));
    OK(cuEventRecord(e, s));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(e));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    OK(cuEventSynchronize(e));
    OK(cuEventQuery(e));
}

static void a_wait_binds_to_the_record_that_was_latest_when_it_was_called(void)
{
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING),
             c = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr flag = new_ints(1), p = new_ints(1);
    CUevent e = new_event(0);
    double began = seconds();

    OK(spin(a, 30));
    OK(store(a, p, 5));
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    OK(wait_flag(c, flag, 0)); /* c is stuck */
    OK(cuEventRecord(e, c));   /* the second version */
    OK(add1(b, p));
    OK(cuStreamSynchronize(b)); /* follows the first version only */
    CHECK(seconds() - began < 2);
    CHECK(read_int(p) == 6);
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(e));
    OK(store(b, flag, 1));
    OK(cuEventSynchronize(e));
}

static void one_event_can_chain_three_streams(void)
{
    CUstream s[3];
    CUdeviceptr p = new_ints(1);
    CUevent e = new_event(CU_EVENT_DISABLE_TIMING);
    int expected = 0;

    for (int i = 0; i < 3; i++)
        s[i] = new_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 30; i++) {
        OK(i % 2 ? add1(s[i % 3], p) : twice_plus1(s[i % 3], p));
        expected = i % 2 ? expected + 1 : expected * 2 + 1;
        OK(cuEventRecord(e, s[i % 3]));
        OK(cuStreamWaitEvent(s[(i + 1) % 3], e, 0));
    }
    OK(cuCtxSynchronize());
    CHECK(read_int(p) == expected);
}

static void waiting_for_a_destroyed_event_still_holds(void)
{
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_ints(1);
    CUevent e = new_event(0);

    OK(spin(a, 60));
    OK(store(a, p, 5));
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuEventDestroy_v2(e));
    OK(add1(b, p));
    OK(cuStreamSynchronize(b));
    CHECK(read_int(p) == 6);
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(e));
}

static void elapsed_time_is_that_of_the_device(void)
{
    CUstream s = new_stream(0);
    CUevent a = new_event(0), b = new_event(0);
    float ms = -1;

    OK(spin(s, 30)); /* the host is far ahead of the device when it records */
    OK(cuEventRecord(a, s));
    OK(spin(s, 50));
    OK(cuEventRecord(b, s));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&ms, a, b));
    OK(cuEventSynchronize(b));
    OK(cuEventElapsedTime(&ms, a, b));
    CHECK(ms > 49 && ms < 80);
    OK(cuEventElapsedTime_v2(&ms, b, a));
    CHECK(ms < -49);
}

static void a_wait_on_an_event_that_was_never_recorded_is_nothing(void)
{
    CUstream s = new_stream(0);
    CUevent e = new_event(0);

    OK(cuEventQuery(e));
    OK(cuStreamWaitEvent(s, e, 0));
    OK(cuStreamQuery(s));
}

static void context_events_cover_all_streams(void)
{
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_ints(1);
    CUevent e = new_event(0);

    OK(spin(a, 60));
    OK(store(a, p, 5));
    OK(cuCtxRecordEvent(test_context, e));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(e));
    OK(cuCtxWaitEvent(test_context, e));
    OK(add1(b, p));
    OK(cuStreamSynchronize(b));
    CHECK(read_int(p) == 6);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"an event is not ready until the work before it is done",
         an_event_is_not_ready_until_the_work_before_it_is_done},
        {"a wait binds to the record that was latest when it was called",
         a_wait_binds_to_the_record_that_was_latest_when_it_was_called},
        {"one event can chain three streams", one_event_can_chain_three_streams},
        {"waiting for a destroyed event still holds", waiting_for_a_destroyed_event_still_holds},
        {"elapsed time is that of the device", elapsed_time_is_that_of_the_device},
        {"a wait on an event that was never recorded is nothing",
         a_wait_on_an_event_that_was_never_recorded_is_nothing},
        {"context events cover all streams", context_events_cover_all_streams},
    };

    set_up();
    return RUN_TESTS(tests, argc, argv);
}
