/* SPDX-License-Identifier: Apache-2.0
 *
 * Section G, and what belongs to it: errors, exit, fork, and what a process notices. Traps 7, 27, 31 to 33, 36.
 */
#include "tests/traps/client.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- 7 --- */

static int entries_of(const char *path)
{
    DIR *directory = opendir(path);
    int count = 0;

    EXPECT(directory, "%s cannot be read", path);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static void nothing_before_init(void)
{
    int files, opened;

    client_open(); /* the driver may open files; the library must not, not even when it is called */
    files = entries_of("/proc/self/fd");
    EXPECT_INT(entries_of("/proc/self/task"), 3, "entries of /proc/self/task with one thread");
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cu.cuCtxSynchronize());
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cu.cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cu.cuMemFree_v2(0));
    opened = entries_of("/proc/self/fd");
    EXPECT(opened == files, "%d files were open, now %d", files, opened);
    EXPECT_INT(entries_of("/proc/self/task"), 3, "entries of /proc/self/task with one thread, before cuInit");
    client_expect_uncounted("launches before cuInit only fail");
    client_expect_none_held();
}

/* The second image must be a program of its own, with its own start and its own trace. */
static void exec_after_launch(void)
{
    CUstream stream;
    CUdeviceptr p;

    client_open();
    client_begin();
    p = client_ints(1);
    stream = client_stream(CU_STREAM_NON_BLOCKING);
    client_hold();
    launch_store(stream, p, 1);
    if (!getenv("TRAPS_SECOND")) {
        setenv("TRAPS_SECOND", "1", 1);
        execl("/proc/self/exe", "life", "trap-07-exec-after-a-launch-begins-anew", NULL);
        EXPECT(false, "exec: %s", strerror(errno));
    }
    client_finish();
    EXPECT_INT(client_read(p), 1, "the store of the second image");
    client_expect_held(2);
    client_expect_uncounted("the trace is that of the second image");
    client_allow_line("cannot start another worker thread"); /* the simulated device's, while exec ends the others */
}

/* --- 27: run with CUDA_LAUNCH_BLOCKING=1 --- */

static void launch_blocking(void)
{
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = client_ints(1);

    EXPECT(getenv("CUDA_LAUNCH_BLOCKING"), "CUDA_LAUNCH_BLOCKING is not set");
    for (int i = 0; i < 20; i++)
        launch_twice_plus(i % 2 ? stream : NULL, p, i % 3 == 0);
    for (int i = 0; i < 20; i++) {
        client_mark();
        launch_add1(stream, p);
        EXPECT(client_calls("cuLaunchKernel", "add1") != 0, "a launch had not reached the driver when it returned");
    }
    client_wait(stream);
    client_expect_none_held();
}

/* --- 31 --- */

static void refused_at_the_call(void)
{
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = client_ints(1);
    CUfunction store = client_kernel("store");
    int value = 2;
    void *parameters[] = {&p, &value};
    struct {
        unsigned grid[3], block[3], shared;
    } const bad[] = {
        {{0, 1, 1}, {1, 1, 1}, 0},      {{1, 0, 1}, {1, 1, 1}, 0},     {{1, 1, 0}, {1, 1, 1}, 0},
        {{1, 1, 1}, {0, 1, 1}, 0},      {{1, 1, 1}, {2048, 1, 1}, 0},  {{1, 1, 1}, {32, 64, 1}, 0},
        {{1, 1, 1}, {1, 1, 128}, 0},    {{1, 70000, 1}, {1, 1, 1}, 0}, {{1, 1, 70000}, {1, 1, 1}, 0},
        {{1, 1, 1}, {1, 1, 1}, 300000},
    };

    client_hold();
    launch_store(stream, p, 1);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CUresult result = cu.cuLaunchKernel(store, bad[i].grid[0], bad[i].grid[1], bad[i].grid[2], bad[i].block[0],
                                            bad[i].block[1], bad[i].block[2], bad[i].shared, stream, parameters, NULL);

        EXPECT(result == CUDA_ERROR_INVALID_VALUE, "bad launch %zu gives %s", i, cu_result_name(result));
    }
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
    client_release();
    /* None of this is remembered. */
    OK(cu.cuCtxSynchronize());
    EXPECT_INT(client_read(p), 1, "the one launch that was right");
    launch_store(stream, p, 3);
    client_wait(stream);
    EXPECT_INT(client_read(p), 3, "a launch after refused ones");
    client_expect_home("DOUBTFUL", 10);
    client_expect_held(3);
}

static void faults_are_sticky(void)
{
    CUdeviceptr p, nowhere = 64;
    CUfunction store;
    CUstream stream;
    CUresult result;

    client_open();
    client_begin();
    p = client_ints(1);
    store = client_kernel("store");
    stream = client_stream(CU_STREAM_NON_BLOCKING);
    client_hold();
    launch_store(stream, p, 1);
    launch_store(stream, nowhere, 1);
    client_release();
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuStreamSynchronize(stream));
    for (int i = 0; i < 3; i++) {
        int value = 1;

        GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuCtxSynchronize());
        GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuStreamSynchronize(stream));
        /* A launch may be held, and then the next call says it. */
        result = client_launch(store, 1, 1, 0, stream, (void *[]){&p, &value});
        EXPECT(result == CUDA_ERROR_ILLEGAL_ADDRESS || (client_shim() && result == CUDA_SUCCESS),
               "a launch after a fault gives %s", cu_result_name(result));
    }
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuCtxSynchronize());
    client_expect_held(3);
    client_expect_uncounted("launches in a broken context");
    if (client_simulated())
        client_expect_line("all", "illegal address in kernel store");
}

/*
 * Run with SIMCUDA_FAIL=cuLaunchKernel:2:2, so that the driver refuses the second launch for no reason that could be
 * seen before: a held one fails when it is issued. The program must hear of it at its next call, and launches are no
 * longer held.
 */
static void failure_at_issue(void)
{
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = client_ints(1);
    CUfunction store = client_kernel("store");
    int value = 1;
    void *parameters[] = {&p, &value};
    CUresult at_launch, at_sync;

    client_hold();
    at_launch = client_launch(store, 1, 1, 0, stream, parameters);
    client_still_held("store", 1);
    at_sync = cu.cuStreamSynchronize(stream);
    if (client_mode() == CLIENT_FULL && at_launch == CUDA_ERROR_OUT_OF_MEMORY) {
        /* The machine is slow, and the launch was issued by its hold cap before the call returned. */
        EXPECT(at_sync == CUDA_SUCCESS, "the next call gives %s", cu_result_name(at_sync));
    } else if (client_mode() == CLIENT_FULL || client_mode() == CLIENT_HELD) {
        EXPECT(at_launch == CUDA_SUCCESS, "the held launch gives %s", cu_result_name(at_launch));
        EXPECT(at_sync == CUDA_ERROR_OUT_OF_MEMORY, "the next call gives %s", cu_result_name(at_sync));
    } else {
        EXPECT(at_launch == CUDA_ERROR_OUT_OF_MEMORY, "the launch gives %s", cu_result_name(at_launch));
        EXPECT(at_sync == CUDA_SUCCESS, "the next call gives %s", cu_result_name(at_sync));
    }
    client_release();
    /* It is told once, and the program goes on. */
    OK(cu.cuStreamSynchronize(stream));
    OK(client_launch(store, 1, 1, 0, stream, parameters));
    OK(cu.cuCtxSynchronize());
    EXPECT_INT(client_read(p), 1, "a launch after one that failed");
    client_expect_held(2);
    client_expect_home("GATE", 1);
    client_expect_line("full", "not held (mode gate)");
    client_expect_line("held", "not held (mode gate)");
}

/* Run with SIMCUDA_FAIL=cuMemHostRegister_v2:1+:2: the library cannot set itself up in the context. */
static void no_room_for_the_library(void)
{
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = client_ints(1);
    int expected = 0;

    for (int i = 0; i < 20; i++) {
        launch_twice_plus(stream, p, i % 2);
        expected = expected * 2 + i % 2;
    }
    client_wait(stream);
    EXPECT_INT(client_read(p), expected, "launches that are not held");
    client_expect_none_held();
    client_expect_line("shim", "cannot hold launches in a context");
}

/* Run with SIMCUDA_FAIL=cuStreamWriteValue32_v2:1+:801: the device tells nothing about its progress. */
static void no_markers(void)
{
    CUstream a = client_stream(CU_STREAM_NON_BLOCKING), b = client_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = client_ints(2);
    int expected = 0;

    client_hold();
    for (int i = 0; i < 20; i++) {
        launch_twice_plus(a, p, i % 2);
        launch_twice_plus(b, p + 4, i % 2);
        expected = expected * 2 + i % 2;
    }
    client_sleep_ms(5);
    client_release();
    OK(cu.cuCtxSynchronize());
    EXPECT_INT(client_read(p), expected, "launches of the first stream");
    EXPECT_INT(client_read(p + 4), expected, "launches of the second stream");
    client_expect_line("full", "from now on launches are not held (mode gate)");
    client_expect_line("held", "from now on launches are not held (mode gate)");
    client_allow_line("from now on coissue does nothing (mode off)"); /* if the next marker fails as well */
}

/* --- 32 --- */

static CUstream exit_stream;
static CUdeviceptr exit_memory;

static void *exit_from_here(void *argument)
{
    (void)argument;
    OK(cu.cuCtxSetCurrent(client_context));
    launch_store(exit_stream, exit_memory, 3);
    exit(0);
}

static void exit_from_another_thread(void)
{
    pthread_t thread;

    exit_memory = client_ints(1);
    exit_stream = client_stream(CU_STREAM_NON_BLOCKING);
    client_expect_held(2);
    client_hold();
    EXPECT(pthread_create(&thread, NULL, exit_from_here, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
    client_sleep_ms(15000);
    EXPECT(false, "exit from another thread does not end the process");
}

static void exit_with_full_lanes(void)
{
    CUdeviceptr p = client_ints(1);
    CUstream streams[3];

    for (int s = 0; s < 3; s++)
        streams[s] = client_stream(s % 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
    client_expect_held(400);
    printf("expect driver-launches add1 400\n");
    client_hold();
    for (int i = 0; i < 400; i++)
        launch_add1(streams[i % 3], p);
    exit(0);
}

static void at_exit_before(void)
{
    CUresult result = cu.cuCtxSynchronize();

    EXPECT(result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED, "at exit: %s", cu_result_name(result));
    result = cu.cuStreamQuery(exit_stream);
    EXPECT(result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED || result == CUDA_ERROR_NOT_READY,
           "a query at exit gives %s", cu_result_name(result));
}

static void at_exit_after(void)
{
    launch_store(exit_stream, exit_memory, 2);
    OK(cu.cuStreamSynchronize(exit_stream));
    EXPECT_INT(client_read(exit_memory), 2, "a launch in an exit handler");
}

static void exit_handlers(void)
{
    client_open();
    atexit(at_exit_before); /* runs after the library's and the driver's, which come with cuInit */
    client_begin();
    atexit(at_exit_after); /* runs before them */
    exit_memory = client_ints(1);
    exit_stream = client_stream(CU_STREAM_NON_BLOCKING);
    client_expect_held(2);
    client_expect_uncounted("launches in exit handlers");
    launch_store(exit_stream, exit_memory, 1);
    launch_store(exit_stream, exit_memory, 4);
}

static _Atomic int launched_for_ever;

static void await_launches(int count)
{
    while (atomic_load(&launched_for_ever) < count)
        client_sleep_ms(1);
}

static void *launch_for_ever(void *argument)
{
    CUdeviceptr p = *(CUdeviceptr *)argument;
    CUfunction add1;
    CUstream stream;

    OK(cu.cuCtxSetCurrent(client_context));
    add1 = client_kernel("add1");
    stream = client_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0;; i++) {
        CUresult result = client_launch(add1, 1, 1, 0, stream, (void *[]){&p});

        if (result == CUDA_ERROR_DEINITIALIZED)
            return NULL;
        EXPECT(result == CUDA_SUCCESS, "a launch while the process ends gives %s", cu_result_name(result));
        atomic_fetch_add(&launched_for_ever, 1);
        if (i % 20 == 19) { /* not more than the trace can take */
            cu.cuStreamSynchronize(stream);
            client_sleep_ms(1);
        }
    }
}

static void exit_while_others_launch(void)
{
    static CUdeviceptr p[3];

    client_kernel("add1");
    for (int i = 0; i < 3; i++) {
        pthread_t thread;

        p[i] = client_ints(1);
        EXPECT(pthread_create(&thread, NULL, launch_for_ever, &p[i]) == 0, "no thread");
        pthread_detach(thread);
    }
    await_launches(100);
    client_expect_held(50);
    client_expect_uncounted("other threads launch while the process ends");
    exit(0);
}

static void close_the_driver(void)
{
    void *library = client_open();
    CUdeviceptr p;
    CUstream stream;

    client_begin();
    p = client_ints(1);
    stream = client_stream(CU_STREAM_NON_BLOCKING);
    client_hold();
    launch_store(stream, p, 1);
    client_expect_held(2);
    client_release();
    dlclose(library);
    client_sleep_ms(150); /* time for a thread that still uses the driver to show it */
}

/* --- 33 --- */

static int child_status(pid_t child)
{
    int status = -1;

    EXPECT(child > 0, "no child: %s", strerror(errno));
    EXPECT(waitpid(child, &status, 0) == child, "waitpid: %s", strerror(errno));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + (WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

/* The driver's own answers in a child of fork, and nothing of the parent's touched. Exit status: 0, or what was wrong.
 */
static int child_asks(CUstream stream)
{
    alarm(10);
    if (cu.cuCtxSynchronize() != CUDA_ERROR_NOT_INITIALIZED)
        return 2;
    /* The driver of an H200 does not notice here; what counts then is that the call comes back. */
    if (cu.cuStreamSynchronize(stream) != CUDA_ERROR_NOT_INITIALIZED && client_simulated())
        return 3;
    if (cu.cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL) == CUDA_SUCCESS)
        return 4;
    return 0;
}

static void fork_with_held_launches(void)
{
    CUdeviceptr p = client_ints(1);
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    int expected = 0;

    for (int i = 0; i < 6; i++) {
        pid_t child;

        client_hold();
        launch_twice_plus(stream, p, 1);
        expected = expected * 2 + 1;
        child = fork();
        if (child == 0) {
            if (i % 3 == 0)
                _exit(child_asks(stream));
            if (i % 3 == 1)
                exit(0); /* exit handlers and all */
            execl("/bin/true", "true", NULL);
            _exit(5);
        }
        launch_twice_plus(stream, p, 0);
        expected = expected * 2;
        client_release();
        EXPECT_INT(child_status(child), 0, "the child's status");
        client_wait(stream);
        EXPECT_INT(client_read(p), expected, "the parent's steps around a fork");
    }
    client_expect_held(18);
    client_expect_issued("DRAIN", 1);
    client_expect_uncounted("the children ask the driver too");
}

/* A clone that no handler of pthread_atfork sees. */
static void raw_clone(void)
{
    CUdeviceptr p = client_ints(1);
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);

    for (int i = 0; i < 4; i++) {
        pid_t child;

        client_hold();
        launch_add1(stream, p);
        child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
        if (child == 0) {
            if (i % 2)
                execl("/bin/true", "true", NULL);
            _exit(0);
        }
        launch_add1(stream, p);
        client_release();
        EXPECT_INT(child_status(child), 0, "the child's status");
        client_wait(stream);
        EXPECT_INT(client_read(p), 2 * (i + 1), "the parent's launches around a clone");
    }
    client_expect_held(12);
}

/* Workers that are forked before the driver is used may use it themselves. */
static void fork_before_init(void)
{
    pid_t children[3];

    client_open();
    for (int i = 0; i < 3; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            CUdeviceptr p;
            CUstream stream;

            alarm(15);
            client_begin();
            p = client_ints(1);
            stream = client_stream(CU_STREAM_NON_BLOCKING);
            for (int k = 0; k < 50; k++)
                launch_add1(stream, p);
            client_wait(stream);
            exit(client_read(p) == 50 ? 0 : 2);
        }
    }
    client_begin();
    {
        CUdeviceptr p = client_ints(1);
        CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);

        for (int k = 0; k < 50; k++)
            launch_add1(stream, p);
        client_wait(stream);
        EXPECT_INT(client_read(p), 50, "the parent's launches");
    }
    for (int i = 0; i < 3; i++)
        EXPECT_INT(child_status(children[i]), 0, "a worker's status");
    client_finish();
    client_expect_held(50);
    client_expect_uncounted("several processes");
}

/* Loader workers: forked by one thread while others launch, they work on shared memory and never touch the driver. */
static void forks_while_others_launch(void)
{
    static CUdeviceptr p;
    pthread_t thread;

    p = client_ints(1);
    client_kernel("add1");
    EXPECT(pthread_create(&thread, NULL, launch_for_ever, &p) == 0, "no thread");
    pthread_detach(thread);
    for (int i = 0; i < 30; i++) {
        pid_t child = fork();

        if (child == 0) {
            void *memory = malloc(100000);

            _exit(memory ? 0 : 1);
        }
        EXPECT_INT(child_status(child), 0, "a worker's status");
    }
    await_launches(100);
    client_expect_held(50);
    client_expect_uncounted("a thread launches while the process ends");
    exit(0);
}

/* --- 36 --- */

/* run.py compares names, numbers and threads of the library's trace with what the driver saw. */
static void *launch_a_few(void *argument)
{
    CUdeviceptr p = *(CUdeviceptr *)argument;
    CUstream stream;

    OK(cu.cuCtxSetCurrent(client_context));
    stream = client_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 7; i++)
        launch_store(stream, p, i);
    printf("expect caller %ld store 7\n", syscall(SYS_gettid));
    client_wait(stream);
    return NULL;
}

static void trace_tells_who_launched(void)
{
    CUdeviceptr p = client_ints(1), q = client_ints(1);
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    pthread_t thread;

    client_hold();
    for (int i = 0; i < 5; i++)
        launch_add1(stream, p);
    EXPECT(pthread_create(&thread, NULL, launch_a_few, &q) == 0, "no thread");
    pthread_join(thread, NULL);
    printf("expect caller %ld add1 5\n", syscall(SYS_gettid));
    printf("expect caller %ld occupy 1\n", syscall(SYS_gettid));
    client_expect_held(13);
}

static const struct client_scenario scenarios[] = {
    {"trap-07-nothing-happens-before-cuinit", nothing_before_init, true},
    {"trap-07-exec-after-a-launch-begins-anew", exec_after_launch, true},
    {"trap-27-with-launch-blocking-nothing-is-held", launch_blocking, false},
    {"trap-31-what-the-driver-refuses-is-refused-at-the-call", refused_at_the_call, false},
    {"trap-31-a-fault-stays-with-its-context", faults_are_sticky, true},
    {"trap-31-a-failure-at-issue-is-told-by-the-next-call", failure_at_issue, false},
    {"trap-31-without-room-for-the-library-programs-run", no_room_for_the_library, false},
    {"trap-31-without-markers-programs-run", no_markers, false},
    {"trap-32-exit-from-another-thread", exit_from_another_thread, false},
    {"trap-32-exit-issues-what-is-held", exit_with_full_lanes, false},
    {"trap-32-exit-handlers-may-call-the-driver", exit_handlers, true},
    {"trap-32-exit-while-other-threads-launch", exit_while_others_launch, false},
    {"trap-32-closing-the-driver-does-no-harm", close_the_driver, true},
    {"trap-33-fork-leaves-the-parent-and-the-child-well", fork_with_held_launches, false},
    {"trap-33-a-raw-clone-leaves-the-parent-well", raw_clone, false},
    {"trap-33-workers-forked-before-cuinit-use-the-driver", fork_before_init, true},
    {"trap-33-fork-while-other-threads-launch", forks_while_others_launch, false},
    {"trap-36-the-trace-names-each-launch-and-its-caller", trace_tells_who_launched, false},
};
CLIENT_MAIN(scenarios)
