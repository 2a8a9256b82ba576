/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that wait for each other, asynchronous copies, mbarriers, clusters. What needs several host threads is in
 * ptx_concurrent.c.
 */
#include "tests/simcuda/ptx_tests/harness.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void run_together(struct device *d, const char *kernel, struct launch_size size, const void *const *args,
                         size_t count, uint32_t blocks)
{
    char params[256];
    struct ptx_launch launch;
    struct ptx_fault fault;
    size_t index = device_prepare(d, kernel, size, args, count, &launch, params);
    launch.concurrent_blocks = blocks;
    int error = ptx_run(d->instance, index, &launch, &fault);
    cr_assert_eq(error, 0, "%s: error %d, %s", kernel, error, fault.text);
}

Test(ptx_sync, a_software_barrier_over_the_grid_completes_when_blocks_are_concurrent)
{
    enum { BLOCKS = 12, ROUNDS = 9 };
    struct device d;
    device_open(&d, "sync");
    int *values = device_alloc(&d, 8 * BLOCKS), *word = device_alloc(&d, 4), rounds = ROUNDS, want[2][BLOCKS] = {{0}};
    for (int r = 0; r < ROUNDS; r++)
        for (int b = 0; b < BLOCKS; b++)
            want[(r + 1) & 1][b] = want[r & 1][(b + 1) % BLOCKS] + b;
    run_together(&d, "ring_rounds", SIZE1(BLOCKS, 64), ARGS(&values, &word, &rounds), UINT32_MAX);
    cr_assert_eq(memcmp(values + (ROUNDS & 1) * BLOCKS, want[ROUNDS & 1], sizeof(want[0])), 0);
    cr_assert_eq(*word, BLOCKS * ROUNDS);
    device_close(&d);
}

Test(ptx_sync, cooperative_groups_synchronise_the_grid)
{
    enum { BLOCKS = 6, THREADS = 96, N = BLOCKS * THREADS };
    struct device d;
    device_open(&d, "sync");
    int *values = device_alloc(&d, 8 * N), rounds = 5;
    for (int i = 0; i < N; i++)
        values[i] = i;
    char params[256];
    struct ptx_launch launch;
    struct ptx_fault fault;
    size_t index =
        device_prepare(&d, "cooperative_rounds", SIZE1(BLOCKS, THREADS), ARGS(&values, &rounds), &launch, params);
    launch.concurrent_blocks = BLOCKS;
    launch.cooperative = true;
    int error = ptx_run(d.instance, index, &launch, &fault);
    cr_assert_eq(error, 0, "%s", fault.text);
    for (int i = 0; i < N; i++)
        cr_assert_eq(values[(rounds & 1) * N + i], (i + rounds) % N + rounds, "thread %d", i);
    device_close(&d);
}

Test(ptx_sync, a_message_with_release_and_acquire_arrives)
{
    struct device d;
    device_open(&d, "sync");
    int *data = device_alloc(&d, 4), *flag = device_alloc(&d, 4), *out = device_alloc(&d, 4);
    run_together(&d, "message", SIZE1(2, 1), ARGS(&data, &flag, &out), 2);
    cr_assert_eq(*out, 99);
    device_close(&d);
}

Test(ptx_sync, more_blocks_than_fit_run_as_others_end)
{
    struct device d;
    device_open(&d, "basic");
    int n = 5000;
    float *a = device_alloc(&d, 20000), *b = device_alloc(&d, 20000), *c = device_alloc(&d, 20000);
    for (int i = 0; i < n; i++)
        a[i] = b[i] = (float)i;
    run_together(&d, "vector_add", SIZE1(79, 64), ARGS(&a, &b, &c, &n), 7);
    for (int i = 0; i < n; i++)
        cr_assert_eq(c[i], 2 * (float)i);
    device_close(&d);
}

Test(ptx_sync, asynchronous_copies_are_there_after_the_wait)
{
    struct device d;
    device_open(&d, "sync");
    int *in = device_alloc(&d, 1024), *out = device_alloc(&d, 1024);
    for (int i = 0; i < 256; i++)
        in[i] = i;
    device_run(&d, "copy_async", SIZE1(1, 64), ARGS(&in, &out));
    for (int i = 0; i < 256; i++)
        cr_assert_eq(out[i], (63 - i / 4) * 4 + i % 4);
    device_close(&d);
}

static void barrier_rounds(const char *kernel)
{
    struct device d;
    device_open(&d, "sync");
    int *out = device_alloc(&d, 256), rounds = 10;
    device_run(&d, kernel, SIZE1(1, 64), ARGS(&out, &rounds));
    for (int t = 0; t < 64; t++) {
        int sum = 0;
        for (int r = 0; r < rounds; r++)
            sum += r * 100 + (t + 1) % 64;
        cr_assert_eq(out[t], sum, "thread %d", t);
    }
    device_close(&d);
}

Test(ptx_sync, mbarrier_phases_alternate)
{
    barrier_rounds("mbarrier_rounds");
}

Test(ptx_sync, the_library_barrier_works)
{
    barrier_rounds("block_barrier");
}

Test(ptx_sync, cluster_registers_and_barrier_work)
{
    struct device d;
    device_open(&d, "sync");
    unsigned *out = device_alloc(&d, 4u * 5 * 6);
    cr_assert_eq(
        ptx_module_kernel(d.module, (size_t)ptx_module_find_kernel(d.module, "clusters"))->reqnctapercluster[0], 2);
    device_run(&d, "clusters", SIZE1(6, 32), ARGS(&out));
    for (unsigned b = 0; b < 6; b++) {
        cr_assert_eq(out[5 * b], b % 2);
        cr_assert_eq(out[5 * b + 1], 2);
        cr_assert_eq(out[5 * b + 2], b / 2);
        cr_assert_eq(out[5 * b + 3], 3);
        cr_assert_eq(out[5 * b + 4], (b ^ 1) % 2, "written before the barrier");
    }
    device_close(&d);
}

Test(ptx_sync, a_block_that_left_does_not_hold_up_its_cluster)
{
    static const char text[] =
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out) .reqnctapercluster 3\n{\n"
        ".reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .pred %p;\nmov.u32 %r1, %cluster_ctarank;\nsetp.eq.u32 %p, %r1, 1;\n"
        "@%p exit;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\nld.param.u64 %rd1, [out];\nmov.u32 %r2, %ctaid.x;\n"
        "mul.wide.u32 %rd2, %r2, 4;\nadd.s64 %rd1, %rd1, %rd2;\nst.global.u32 [%rd1], %r1;\nret;\n}\n";
    struct device d;
    device_open_text(&d, text);
    unsigned *out = device_alloc(&d, 4 * 12);
    memset(out, 0xff, 4 * 12);
    for (uint32_t concurrent = 0; concurrent < 8; concurrent++)
        run_together(&d, "k", SIZE1(12, 33), ARGS(&out), concurrent);
    for (unsigned b = 0; b < 12; b++)
        cr_assert_eq(out[b], b % 3 == 1 ? UINT32_MAX : b % 3);
    device_close(&d);
}

Test(ptx_sync, a_wait_with_plain_loads_gets_its_company_too)
{
    static const char text[] = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 flag)\n{\n"
                               ".reg .b64 %rd; .reg .b32 %r<4>; .reg .pred %p;\nld.param.u64 %rd, [flag];\n"
                               "mov.u32 %r1, %ctaid.x;\nsetp.eq.u32 %p, %r1, 5;\n@%p st.global.u32 [%rd], 1;\n"
                               "L: ld.global.u32 %r2, [%rd];\nsetp.eq.u32 %p, %r2, 0;\n@%p bra L;\nret;\n}\n";
    struct device d;
    device_open_text(&d, text);
    int *flag = device_alloc(&d, 4);
    run_together(&d, "k", SIZE1(6, 32), ARGS(&flag), 6);
    cr_assert_eq(*flag, 1);
    device_close(&d);
}

static uint64_t tick(void *arg)
{
    (void)arg;
    static uint64_t now = 5000;
    return now += 1000;
}

Test(ptx_sync, the_embedder_makes_the_time)
{
    struct device d;
    struct ptx_launch launch;
    char params[64];
    device_open(&d, "sync");
    long long ns = 100000;
    unsigned long long *waited = device_alloc(&d, 8);
    size_t kernel = device_prepare(&d, "sleep_for", SIZE1(1, 1), ARGS(&ns, &waited), &launch, params);
    launch.now_ns = tick;
    cr_assert_eq(ptx_run(d.instance, kernel, &launch, NULL), 0);
    cr_assert_eq(*waited, 100000);
    device_close(&d);
}

Test(ptx_sync, an_abort_that_is_already_set_runs_nothing)
{
    struct device d;
    struct ptx_launch launch;
    char params[64];
    bool stop = true;
    device_open(&d, "sync");
    int *never = device_alloc(&d, 4);
    size_t kernel = device_prepare(&d, "for_ever", SIZE1(1, 32), ARGS(&never), &launch, params);
    launch.abort = &stop;
    cr_assert_eq(ptx_run(d.instance, kernel, &launch, NULL), -ECANCELED);
    device_close(&d);
}
