/* SPDX-License-Identifier: Apache-2.0
 *
 * Description: the order that streams give and do not give: in-order queues, the legacy stream, per-thread streams,
 * kernels that need each other, many streams, priorities.
 */
#include "tests/simcuda_tests/cu.h"

#include <pthread.h>

/* x -> 2x + 1 and x -> x + 1 do not commute, so the value tells the order. */
static void work_in_one_stream_runs_in_order(void)
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_ints(1);
    int expected = 0;

    for (int i = 0; i < 12; i++) {
        OK(add1(s, p));
        OK(twice_plus1(s, p));
        expected = (expected + 1) * 2 + 1;
    }
    OK(cuStreamSynchronize(s));
    CHECK(read_int(p) == expected);
    OK(cuStreamDestroy_v2(s));
    OK(cuMemFree_v2(p));
}

static void kernels_of_two_streams_run_at_the_same_time(void)
{
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr flag = new_ints(1), seen = new_ints(1);
    double began = seconds();

    OK(wait_flag(a, flag, seen));
    OK(store(b, flag, 1));
    OK(cuCtxSynchronize());
    CHECK(seconds() - began < 2);
    CHECK(read_int(seen) == 1);
}

static void a_waiting_kernel_sees_a_later_copy_from_the_host(void)
{
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr flag = new_ints(1), seen = new_ints(1);
    static int one = 1;

    OK(wait_flag(a, flag, seen));
    sleep_ms(20);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
    OK(cuMemcpyHtoDAsync_v2(flag, &one, 4, b));
    OK(cuStreamSynchronize(a));
    CHECK(read_int(seen) == 1);
}

static void the_legacy_stream_waits_for_blocking_streams_and_they_for_it(void)
{
    CUstream s = new_stream(0);
    CUdeviceptr p = new_ints(1);

    OK(spin(s, 60));
    OK(add1(s, p));           /* 1 */
    OK(twice_plus1(NULL, p)); /* 3: after all of s */
    OK(add1(s, p));           /* 4: after the legacy stream */
    OK(cuStreamSynchronize(s));
    CHECK(read_int(p) == 4);

    /* and between two blocking streams that have nothing else in common */
    CUstream t = new_stream(0);
    OK(cuMemsetD32_v2(p, 0, 1));
    OK(spin(s, 60));
    OK(add1(s, p));
    OK(twice_plus1(CU_STREAM_LEGACY, p));
    OK(add1(t, p));
    OK(cuStreamSynchronize(t));
    CHECK(read_int(p) == 4);
}

static void the_legacy_stream_and_a_non_blocking_stream_do_not_wait_for_each_other(void)
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr flag = new_ints(1), seen = new_ints(2);

    OK(wait_flag(s, flag, seen));
    OK(store(NULL, flag, 1));
    OK(cuCtxSynchronize());
    CHECK(read_int(seen) == 1);
    OK(store(NULL, flag, 0));
    OK(cuCtxSynchronize());
    OK(wait_flag(NULL, flag, seen + 4));
    OK(store(s, flag, 1));
    OK(cuCtxSynchronize());
    CHECK(read_int(seen + 4) == 1);
}

static void two_blocking_streams_overlap_until_the_legacy_stream_is_used(void)
{
    CUstream a = new_stream(0), b = new_stream(0);
    CUdeviceptr flag = new_ints(1), seen = new_ints(1);

    OK(wait_flag(a, flag, seen));
    OK(store(b, flag, 1));
    OK(cuCtxSynchronize());
    CHECK(read_int(seen) == 1);
}

static void an_event_in_the_legacy_stream_covers_all_blocking_streams(void)
{
    CUstream s[4], free_one = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_ints(4);
    CUevent e = new_event(0);

    for (int i = 0; i < 4; i++) {
        s[i] = new_stream(0);
        OK(spin(s[i], 40 + 10 * i));
        OK(store(s[i], p + 4 * (unsigned)i, i + 1));
    }
    OK(cuEventRecord(e, NULL));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(e));
    OK(cuStreamWaitEvent(free_one, e, 0));
    int got[4] = {0};
    OK(cuMemcpyDtoHAsync_v2(got, p, sizeof(got), free_one)); /* pageable: complete on return */
    for (int i = 0; i < 4; i++)
        CHECK(got[i] == i + 1);
}

static void waiting_for_the_legacy_stream_waits_for_blocking_streams(void)
{
    CUstream s = new_stream(0), free_one = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr flag = new_ints(1);

    OK(wait_flag(free_one, flag, 0));
    OK(spin(s, 80));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    OK(cuStreamSynchronize(NULL)); /* must not wait for free_one: it would take 5 s */
    OK(cuStreamQuery(s));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(free_one));
    OK(store(s, flag, 1));
    OK(cuCtxSynchronize());
}

struct thread_arg {
    CUdeviceptr flag, seen;
    CUfunction wait, store;
    bool first;
    CUstream id_of;
    unsigned long long id;
};

static void *use_own_stream(void *arg)
{
    struct thread_arg *a = arg;
    int one = 1;

    cuCtxSetCurrent(test_context);
    cuStreamGetId(CU_STREAM_PER_THREAD, &a->id);
    if (a->first) {
        void *params[] = {&a->flag, &a->seen};

        OK(launch1(a->wait, CU_STREAM_PER_THREAD, params));
    } else {
        void *params[] = {&a->flag, &one};

        sleep_ms(30);
        /* 0 means the own stream in this form */
        OK(cuLaunchKernel_ptsz(a->store, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    }
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return NULL;
}

static void each_thread_has_a_default_stream_of_its_own(void)
{
    struct thread_arg arg[2] = {{.first = true}, {.first = false}};
    pthread_t thread[2];
    double began = seconds();

    for (int i = 0; i < 2; i++) {
        arg[i].flag = i ? arg[0].flag : new_ints(1);
        arg[i].seen = i ? arg[0].seen : new_ints(1);
        arg[i].wait = kernel("wait_flag");
        arg[i].store = kernel("store");
    }
    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, use_own_stream, &arg[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    CHECK(seconds() - began < 2);
    CHECK(read_int(arg[0].seen) == 1);
    CHECK(arg[0].id != arg[1].id);
}

static void the_own_stream_of_a_thread_is_a_blocking_one(void)
{
    CUdeviceptr p = new_ints(1);

    OK(spin(CU_STREAM_PER_THREAD, 60));
    OK(add1(CU_STREAM_PER_THREAD, p));
    OK(twice_plus1(NULL, p));
    OK(cuStreamSynchronize(NULL));
    CHECK(read_int(p) == 3);
}

static void a_hundred_and_twenty_streams_make_progress_together(void)
{
    enum { N = 120 };
    static CUstream s[N];
    CUdeviceptr met = new_ints(2), p = new_ints(N);
    unsigned blocks = N;
    CUdeviceptr count = met, seen = met + 4;
    void *params[] = {&count, &blocks, &seen};
    CUfunction meet = kernel("meet");

    for (int i = 0; i < N; i++) {
        s[i] = new_stream(CU_STREAM_NON_BLOCKING);
        /* each kernel waits until all 120 are running */
        OK(launch1(meet, s[i], params));
        OK(store(s[i], p + 4 * (unsigned)i, i));
    }
    OK(cuCtxSynchronize());
    CHECK(read_int(seen) == N);
    for (int i = 0; i < N; i++) {
        CHECK(read_int(p + 4 * (unsigned)i) == i);
        OK(cuStreamDestroy_v2(s[i]));
    }
}

static void destroying_a_stream_lets_its_work_finish(void)
{
    CUstream s = new_stream(0);
    CUdeviceptr p = new_ints(1);
    double began = seconds();

    OK(spin(s, 80));
    OK(store(s, p, 7));
    OK(cuStreamDestroy_v2(s));
    CHECK(seconds() - began < 0.05);
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(s));
    OK(add1(NULL, p)); /* the legacy stream still comes after it */
    OK(cuCtxSynchronize());
    CHECK(read_int(p) == 8);
}

static void host_functions_run_in_stream_order_on_another_thread(void);
static pthread_t host_thread;
static int host_saw;
static CUdeviceptr host_reads;
static void look(void *data)
{
    (void)data;
    host_thread = pthread_self();
    host_saw = *(volatile int *)(uintptr_t)host_reads; /* managed memory */
}

static void host_functions_run_in_stream_order_on_another_thread(void)
{
    CUstream s = new_stream(0);

    MUST(cuMemAllocManaged(&host_reads, 4, 1));
    *(int *)(uintptr_t)host_reads = 1;
    OK(spin(s, 40));
    OK(store(s, host_reads, 5));
    OK(cuLaunchHostFunc(s, look, NULL));
    OK(store(s, host_reads, 6));
    OK(cuStreamSynchronize(s));
    CHECK(host_saw == 5);
    CHECK(!pthread_equal(host_thread, pthread_self()));
    CHECK(*(int *)(uintptr_t)host_reads == 6);
}

static void values_written_by_the_host_release_a_waiting_stream(void)
{
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr v = new_ints(2), p = new_ints(1);

    OK(cuStreamWaitValue32_v2(a, v, 3, CU_STREAM_WAIT_VALUE_GEQ));
    OK(store(a, p, 1));
    sleep_ms(20);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
    OK(cuStreamWriteValue32_v2(b, v, 2, 0));
    OK(cuStreamSynchronize(b));
    sleep_ms(20);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
    OK(cuStreamWriteValue32_v2(b, v, 4, 0));
    OK(cuStreamSynchronize(a));
    CHECK(read_int(p) == 1);

    CUstreamBatchMemOpParams ops[2];
    memset(ops, 0, sizeof(ops));
    ops[0].writeValue.operation = 2;
    ops[0].writeValue.address = v;
    ops[0].writeValue.value = 9;
    ops[1].waitValue.operation = 1;
    ops[1].waitValue.address = v;
    ops[1].waitValue.value = 9;
    ops[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    OK(cuStreamBatchMemOp_v2(a, 2, ops, 0));
    OK(cuStreamSynchronize(a));
    CHECK(read_int(v) == 9);
}

static void stream_attributes_can_be_set_and_copied(void)
{
    CUstream a = new_stream(0), b = new_stream(0);
    CUstreamAttrValue value = {.priority = -2}, got;

    OK(cuStreamSetAttribute(a, 3, &value));
    OK(cuStreamCopyAttributes(b, a));
    OK(cuStreamGetAttribute(b, 3, &got));
    CHECK(got.priority == -2);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"work in one stream runs in order", work_in_one_stream_runs_in_order},
        {"kernels of two streams run at the same time", kernels_of_two_streams_run_at_the_same_time},
        {"a waiting kernel sees a later copy from the host", a_waiting_kernel_sees_a_later_copy_from_the_host},
        {"the legacy stream waits for blocking streams and they for it",
         the_legacy_stream_waits_for_blocking_streams_and_they_for_it},
        {"the legacy stream and a non-blocking stream do not wait for each other",
         the_legacy_stream_and_a_non_blocking_stream_do_not_wait_for_each_other},
        {"two blocking streams overlap until the legacy stream is used",
         two_blocking_streams_overlap_until_the_legacy_stream_is_used},
        {"an event in the legacy stream covers all blocking streams",
         an_event_in_the_legacy_stream_covers_all_blocking_streams},
        {"waiting for the legacy stream waits for blocking streams",
         waiting_for_the_legacy_stream_waits_for_blocking_streams},
        {"each thread has a default stream of its own", each_thread_has_a_default_stream_of_its_own},
        {"the own stream of a thread is a blocking one", the_own_stream_of_a_thread_is_a_blocking_one},
        {"a hundred and twenty streams make progress together", a_hundred_and_twenty_streams_make_progress_together},
        {"destroying a stream lets its work finish", destroying_a_stream_lets_its_work_finish},
        {"host functions run in stream order on another thread", host_functions_run_in_stream_order_on_another_thread},
        {"values written by the host release a waiting stream", values_written_by_the_host_release_a_waiting_stream},
        {"stream attributes can be set and copied", stream_attributes_can_be_set_and_copied},
    };

    set_up();
    return RUN_TESTS(tests, argc, argv);
}
