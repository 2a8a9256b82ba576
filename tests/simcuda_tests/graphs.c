/* SPDX-License-Identifier: Apache-2.0
 *
 * Description: capturing streams into graphs, and running graphs. Which calls capture forbids is in oracle.c.
 */
#include "tests/simcuda_tests/cu.h"

#include <pthread.h>

static CUgraphExec end_and_instantiate(CUstream s)
{
    CUgraph graph;
    CUgraphExec exec;

    MUST(cuStreamEndCapture(s, &graph));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuGraphDestroy(graph));
    return exec;
}

static void captured_work_runs_at_each_launch_and_not_before(void)
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_ints(1);
    CUgraphExec exec;

    OK(spin(s, 40));
    OK(add1(s, p)); /* before the capture: runs once */
    OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(add1(s, p));
    exec = end_and_instantiate(s);
    OK(cuStreamSynchronize(s));
    CHECK(read_int(p) == 1);
    OK(cuGraphLaunch(exec, s));
    OK(cuGraphLaunch(exec, s));
    OK(cuStreamSynchronize(s));
    CHECK(read_int(p) == 3);
    OK(cuGraphExecDestroy(exec));
}

static void parameters_are_those_of_the_capture(void)
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_ints(2);
    CUfunction f = kernel("store");
    int value = 11;
    void *params[] = {&p, &value};
    CUgraphExec exec;

    OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(launch1(f, s, params));
    value = 12;
    p += 4;
    params[0] = NULL;
    exec = end_and_instantiate(s);
    OK(cuGraphLaunch(exec, s));
    OK(cuStreamSynchronize(s));
    CHECK(read_int(p - 4) == 11);
    CHECK(read_int(p) == 0);
}

static void a_host_function_saw(void *data)
{
    ++*(int *)data;
}

static void a_graph_keeps_the_order_of_all_kinds_of_work(void)
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_ints(2);
    static int calls;
    void *host;
    CUgraphExec exec;

    MUST(cuMemAllocHost_v2(&host, 64));
    OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemsetD32Async(p, 5, 1, s));
    OK(twice_plus1(s, p));
    OK(cuMemcpyDtoDAsync_v2(p + 4, p, 4, s));
    OK(add1(s, p + 4));
    OK(cuMemcpyDtoHAsync_v2(host, p + 4, 4, s));
    OK(cuLaunchHostFunc(s, a_host_function_saw, &calls));
    exec = end_and_instantiate(s);
    for (int i = 1; i <= 3; i++) {
        *(volatile int *)host = 0;
        OK(cuGraphLaunch(exec, s));
        OK(cuStreamSynchronize(s));
        CHECK(*(volatile int *)host == 12);
        CHECK(calls == i);
    }
    OK(cuGraphExecDestroy(exec));
    OK(cuMemFreeHost(host));
}

static void branches_of_a_graph_run_at_the_same_time(void)
{
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr flag = new_ints(1), seen = new_ints(1);
    CUevent fork = new_event(0), join = new_event(0);
    CUgraphExec exec;

    OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemsetD32Async(flag, 0, 1, a));
    OK(cuEventRecord(fork, a));
    OK(cuStreamWaitEvent(b, fork, 0));
    OK(wait_flag(a, flag, seen));
    OK(store(b, flag, 1));
    OK(cuEventRecord(join, b));
    OK(cuStreamWaitEvent(a, join, 0));
    OK(add1(a, seen));
    exec = end_and_instantiate(a);
    for (int i = 0; i < 2; i++) {
        double began = seconds();

        OK(cuGraphLaunch(exec, a));
        OK(cuStreamSynchronize(a));
        CHECK(seconds() - began < 2);
        CHECK(read_int(seen) == 2);
    }
}

static void a_graph_launch_is_one_operation_of_its_stream(void)
{
    CUstream s = new_stream(0), t = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_ints(1);
    CUevent e = new_event(0);
    CUgraphExec exec;

    OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(spin(s, 30));
    OK(twice_plus1(s, p));
    exec = end_and_instantiate(s);
    OK(add1(s, p));             /* 1 */
    OK(cuGraphLaunch(exec, s)); /* 3 */
    OK(add1(s, p));             /* 4 */
    OK(cuEventRecord(e, s));
    OK(cuStreamWaitEvent(t, e, 0));
    OK(twice_plus1(t, p)); /* 9 */
    OK(cuStreamSynchronize(t));
    CHECK(read_int(p) == 9);
    OK(add1(NULL, p));          /* 10, and the legacy stream waits for graphs of blocking streams */
    OK(cuGraphLaunch(exec, s)); /* 21 */
    OK(add1(NULL, p));          /* 22 */
    OK(cuCtxSynchronize());
    CHECK(read_int(p) == 22);
}

static void launches_of_one_executable_do_not_overlap(void)
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING), t = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_ints(1);
    CUgraphExec exec;

    OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (int i = 0; i < 20; i++)
        OK(add1(s, p));
    exec = end_and_instantiate(s);
    for (int i = 0; i < 4; i++)
        OK(cuGraphLaunch(exec, i % 2 ? s : t));
    OK(cuCtxSynchronize());
    CHECK(read_int(p) == 80);
}

static void external_events_of_a_graph_order_it_against_streams(void)
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING), t = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_ints(1);
    CUevent out = new_event(0), in = new_event(0);
    CUgraphExec exec;

    OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuStreamWaitEvent(s, in, 1));
    OK(twice_plus1(s, p));
    OK(cuEventRecordWithFlags(out, s, CU_EVENT_RECORD_EXTERNAL));
    exec = end_and_instantiate(s);
    OK(spin(t, 40));
    OK(store(t, p, 3));
    OK(cuEventRecord(in, t));
    OK(cuGraphLaunch(exec, s)); /* 7 */
    OK(cuStreamWaitEvent(t, out, 0));
    OK(add1(t, p)); /* 8 */
    OK(cuStreamSynchronize(t));
    CHECK(read_int(p) == 8);
}

static void a_graph_can_be_built_by_hand_and_changed(void)
{
    CUdeviceptr p = new_ints(2);
    CUfunction f = kernel("store"), g = kernel("add1");
    CUgraph graph, child;
    CUgraphNode set, one, two, branch, nodes[8], got[4];
    CUgraphExec exec;
    size_t count;
    int value = 20;
    void *store_params[] = {&p, &value}, *add_params[] = {&p};
    CUDA_KERNEL_NODE_PARAMS k = {.func = f,
                                 .gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = store_params};
    CUDA_KERNEL_NODE_PARAMS a = k;
    CUDA_MEMSET_NODE_PARAMS m = {.dst = p + 4, .value = 1, .elementSize = 4, .width = 1, .height = 1};
    CUDA_HOST_NODE_PARAMS h;
    static int calls;

    a.func = g;
    a.kernelParams = add_params;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphCreate(&child, 0));
    OK(cuGraphAddKernelNode_v2(&one, child, NULL, 0, &a));
    OK(cuGraphAddKernelNode_v2(&two, child, &one, 1, &a));
    OK(cuGraphAddKernelNode_v2(&set, graph, NULL, 0, &k));
    OK(cuGraphAddMemsetNode(&branch, graph, NULL, 0, &m, test_context));
    OK(cuGraphAddChildGraphNode(&one, graph, &set, 1, child));
    h = (CUDA_HOST_NODE_PARAMS){a_host_function_saw, &calls};
    OK(cuGraphAddHostNode(&two, graph, (CUgraphNode[]){one, branch}, 2, &h));
    OK(cuGraphGetNodes(graph, NULL, &count));
    CHECK(count == 4);
    OK(cuGraphGetRootNodes(graph, NULL, &count));
    CHECK(count == 2);
    count = 8;
    OK(cuGraphNodeGetDependencies(two, nodes, &count));
    CHECK(count == 2 && nodes[0] == one && nodes[1] == branch);
    OK(cuGraphNodeGetDependentNodes(set, NULL, &count));
    CHECK(count == 1);
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    CHECK(read_int(p) == 22);
    CHECK(read_int(p + 4) == 1);
    CHECK(calls == 1);

    value = 40;
    OK(cuGraphExecKernelNodeSetParams_v2(exec, set, &k));
    m.value = 2;
    OK(cuGraphExecMemsetNodeSetParams(exec, branch, &m, test_context));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    CHECK(read_int(p) == 42);
    CHECK(read_int(p + 4) == 2);
    OK(cuGraphNodeSetEnabled(exec, set, 0));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuCtxSynchronize());
    CHECK(read_int(p) == 44);

    OK(cuGraphRemoveDependencies(graph, &one, &two, 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphRemoveDependencies(graph, &one, &two, 1));
    OK(cuGraphAddDependencies(graph, &two, &set, 1));
    OK(cuGraphAddDependencies(graph, &one, &two, 1)); /* set -> one -> two -> set: a cycle */
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroyNode(two));
    count = 4;
    OK(cuGraphGetNodes(graph, got, &count));
    CHECK(count == 3 && got[3] == NULL);
    OK(cuGraphDestroy(child));
    OK(cuGraphDestroy(graph));
}

static void an_update_needs_the_same_shape(void)
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_ints(1), q = new_ints(1);
    CUgraphExecUpdateResultInfo info;
    CUgraphExec exec;
    CUgraph other;

    OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(add1(s, p));
    exec = end_and_instantiate(s);
    OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(add1(s, q));
    OK(cuStreamEndCapture(s, &other));
    OK(cuGraphExecUpdate_v2(exec, other, &info));
    CHECK(info.result == 0);
    OK(cuGraphLaunch(exec, s));
    OK(cuStreamSynchronize(s));
    CHECK(read_int(p) == 0 && read_int(q) == 1);
}

static void *launches_elsewhere(void *arg)
{
    CUdeviceptr p = *(CUdeviceptr *)arg;
    CUfunction f;
    CUstream s;
    void *params[] = {&p};

    cuCtxSetCurrent(test_context);
    s = new_stream(CU_STREAM_NON_BLOCKING);
    f = kernel("add1");
    for (int i = 0; i < 300; i++)
        OK(launch1(f, s, params));
    return NULL;
}

static void launches_of_another_thread_do_not_disturb_a_capture(void)
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_ints(1), q = new_ints(1);
    pthread_t thread;
    CUgraph graph;
    size_t count;

    OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    pthread_create(&thread, NULL, launches_elsewhere, &q);
    for (int i = 0; i < 50; i++)
        OK(add1(s, p));
    pthread_join(thread, NULL);
    OK(cuStreamEndCapture(s, &graph));
    OK(cuGraphGetNodes(graph, NULL, &count));
    CHECK(count == 50);
    OK(cuCtxSynchronize());
    CHECK(read_int(q) == 300);
    CHECK(read_int(p) == 0);
    OK(cuGraphDestroy(graph));
}

static void user_objects_end_with_their_graphs(void)
{
    static int ended;
    CUuserObject object;
    CUgraph graph;
    CUgraphExec exec;

    OK(cuGraphCreate(&graph, 0));
    OK(cuUserObjectCreate(&object, &ended, a_host_function_saw, 1, 1));
    OK(cuGraphRetainUserObject(graph, object, 1, 1));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    CHECK(ended == 0);
    OK(cuGraphExecDestroy(exec));
    CHECK(ended == 1);
}

static void capture_to_a_graph_adds_to_it(void)
{
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = new_ints(1);
    CUgraphNode first;
    CUgraph graph, same;
    CUgraphExec exec;
    CUstreamCaptureStatus status;
    const CUgraphNode *tips;
    cuuint64_t id;
    size_t count;

    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddEmptyNode(&first, graph, NULL, 0));
    OK(cuStreamBeginCaptureToGraph(s, graph, &first, NULL, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuStreamGetCaptureInfo_v2(s, &status, &id, &same, &tips, &count));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && same == graph && count == 1 && tips[0] == first);
    OK(add1(s, p));
    OK(cuStreamEndCapture(s, &same));
    CHECK(same == graph);
    OK(cuGraphGetEdges(graph, NULL, NULL, &count));
    CHECK(count == 1);
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, s));
    OK(cuStreamSynchronize(s));
    CHECK(read_int(p) == 1);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"captured work runs at each launch and not before", captured_work_runs_at_each_launch_and_not_before},
        {"parameters are those of the capture", parameters_are_those_of_the_capture},
        {"a graph keeps the order of all kinds of work", a_graph_keeps_the_order_of_all_kinds_of_work},
        {"branches of a graph run at the same time", branches_of_a_graph_run_at_the_same_time},
        {"a graph launch is one operation of its stream", a_graph_launch_is_one_operation_of_its_stream},
        {"launches of one executable do not overlap", launches_of_one_executable_do_not_overlap},
        {"external events of a graph order it against streams", external_events_of_a_graph_order_it_against_streams},
        {"a graph can be built by hand and changed", a_graph_can_be_built_by_hand_and_changed},
        {"an update needs the same shape", an_update_needs_the_same_shape},
        {"launches of another thread do not disturb a capture", launches_of_another_thread_do_not_disturb_a_capture},
        {"user objects end with their graphs", user_objects_end_with_their_graphs},
        {"capture to a graph adds to it", capture_to_a_graph_adds_to_it},
    };

    set_up();
    return RUN_TESTS(tests, argc, argv);
}
