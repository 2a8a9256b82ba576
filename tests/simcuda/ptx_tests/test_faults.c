/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels and launches that go wrong: each ends with a report of what and where, and nothing else is harmed.
 */
#include "tests/simcuda/ptx_tests/harness.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

Test(ptx_faults, write_out_of_bounds_names_address_and_thread)
{
    struct device d;
    device_open(&d, "faults");
    int *p = device_alloc(&d, 400), value = 7;
    long long index = 100; /* the first element behind */
    struct ptx_fault fault = device_fault(&d, "write_at", SIZE1(3, 64), ARGS(&p, &index, &value));
    cr_assert_eq(fault.kind, PTX_FAULT_ILLEGAL_ADDRESS);
    cr_assert_eq(fault.address, (uint64_t)(uintptr_t)(p + 100));
    cr_assert_eq(fault.bytes, 4);
    cr_assert(fault.write);
    cr_assert_eq(fault.block[0], 1);
    cr_assert_eq(fault.thread[0], 37);
    cr_assert_str_eq(fault.kernel, "write_at");
    cr_assert_not_null(strstr(fault.text, "illegal address in kernel write_at"), "%s", fault.text);
    cr_assert_not_null(strstr(fault.text, "block (1,0,0), thread (37,0,0)"), "%s", fault.text);
    cr_assert_eq((unsigned char)((char *)p)[400], 0xa5, "nothing was written");
    index = 99;
    device_run(&d, "write_at", SIZE1(3, 64), ARGS(&p, &index, &value));
    cr_assert_eq(p[99], 7);
    device_close(&d);
}

Test(ptx_faults, null_and_wild_reads_are_illegal)
{
    struct device d;
    device_open(&d, "faults");
    int *p = device_alloc(&d, 400), *out = device_alloc(&d, 4), *null = NULL;
    static const long long wild[] = {-1, 100, 1ll << 40, -(1ll << 40), 1ll << 60};
    long long zero = 0;
    for (int i = 0; i < 5; i++) {
        struct ptx_fault fault = device_fault(&d, "read_at", SIZE1(1, 1), ARGS(&p, &wild[i], &out));
        cr_assert_eq(fault.kind, PTX_FAULT_ILLEGAL_ADDRESS, "index %lld", wild[i]);
        cr_assert_not(fault.write);
        cr_assert_eq(fault.address, (uint64_t)(uintptr_t)p + (uint64_t)wild[i] * 4);
    }
    cr_assert_eq(device_fault(&d, "read_at", SIZE1(1, 1), ARGS(&null, &zero, &out)).address, 0);
    device_close(&d);
}

Test(ptx_faults, misaligned_accesses_are_reported_as_such)
{
    struct device d;
    device_open(&d, "faults");
    char *p = device_alloc(&d, 64);
    int offset = 2;
    struct ptx_fault fault = device_fault(&d, "misaligned", SIZE1(1, 32), ARGS(&p, &offset));
    cr_assert_eq(fault.kind, PTX_FAULT_MISALIGNED);
    cr_assert_eq(fault.address, (uint64_t)(uintptr_t)p + 2);
    offset = 8;
    device_run(&d, "misaligned", SIZE1(1, 32), ARGS(&p, &offset));
    fault = device_fault(&d, "misaligned_vector", SIZE1(1, 1), ARGS(&p, &offset));
    cr_assert_eq(fault.kind, PTX_FAULT_MISALIGNED);
    cr_assert_eq(fault.bytes, 16);
    device_close(&d);
}

Test(ptx_faults, trap_names_its_thread)
{
    struct device d;
    device_open(&d, "faults");
    int lane = 45;
    struct ptx_fault fault = device_fault(&d, "traps", SIZE1(1, 64), ARGS(&lane));
    cr_assert_eq(fault.kind, PTX_FAULT_TRAP);
    cr_assert_eq(fault.thread[0], 45);
    lane = 64;
    device_run(&d, "traps", SIZE1(1, 64), ARGS(&lane));
    device_close(&d);
}

Test(ptx_faults, shared_memory_ends_where_the_launch_says)
{
    struct device d;
    device_open(&d, "faults");
    int index = 24, *out = device_alloc(&d, 4);
    device_run(&d, "shared_overflow", SIZE_SHARED(1, 1, 100), ARGS(&index, &out));
    cr_assert_eq(*out, 7);
    index = 25;
    cr_assert_eq(device_fault(&d, "shared_overflow", SIZE_SHARED(1, 1, 100), ARGS(&index, &out)).kind,
                 PTX_FAULT_ILLEGAL_ADDRESS);
    index = -1;
    cr_assert_eq(device_fault(&d, "shared_overflow", SIZE_SHARED(1, 1, 100), ARGS(&index, &out)).kind,
                 PTX_FAULT_ILLEGAL_ADDRESS);
    device_close(&d);
}

Test(ptx_faults, barriers_that_cannot_complete_are_a_fault_and_no_hang)
{
    struct device d;
    device_open(&d, "faults");
    int *out = device_alloc(&d, 256);
    struct ptx_fault fault = device_fault(&d, "deadlock", SIZE1(1, 64), ARGS(&out));
    cr_assert_eq(fault.kind, PTX_FAULT_BARRIER_DEADLOCK);
    cr_assert_eq(out[0], 0);
    device_close(&d);
}

Test(ptx_faults, threads_that_left_do_not_hold_up_a_barrier)
{
    struct device d;
    device_open(&d, "faults");
    int *out = device_alloc(&d, 256);
    device_run(&d, "leave_before_barrier", SIZE1(1, 64), ARGS(&out));
    for (int i = 0; i < 64; i++)
        cr_assert_eq(out[i], i < 40);
    device_close(&d);
}

Test(ptx_faults, writes_to_constant_memory_are_refused)
{
    struct device d;
    device_open(&d, "faults");
    int *p = device_alloc(&d, 4);
    device_run(&d, "write_constant", SIZE1(1, 1), ARGS(&p));
    cr_assert_eq(*p, 3);
    d.ranges[d.range_count - 1].writable = false;
    struct ptx_fault fault = device_fault(&d, "write_constant", SIZE1(1, 1), ARGS(&p));
    cr_assert_eq(fault.kind, PTX_FAULT_ILLEGAL_ADDRESS);
    cr_assert(fault.write);
    device_close(&d);
}

Test(ptx_faults, impossible_launches_are_refused_with_a_reason)
{
    struct device d;
    struct ptx_launch launch;
    struct ptx_fault fault;
    char params[64] = {0};
    device_open(&d, "faults");
    int *out = device_alloc(&d, 512);
    size_t kernel = device_prepare(&d, "bounded", SIZE1(1, 128), ARGS(&out), &launch, params);
    const struct ptx_kernel *k = ptx_module_kernel(d.module, kernel);
    cr_assert_eq(k->maxntid[0], 128);
    cr_assert_eq(k->minnctapersm, 4);
    cr_assert_eq(k->max_threads, 128);
    cr_assert_eq(ptx_run(d.instance, kernel, &launch, &fault), 0);
    struct ptx_launch bad = launch;
    bad.block[0] = 129;
    cr_assert_eq(ptx_run(d.instance, kernel, &bad, &fault), -EINVAL);
    cr_assert_eq(fault.kind, PTX_FAULT_BAD_LAUNCH);
    cr_assert_not_null(strstr(fault.text, "129 threads per block, at most 128"), "%s", fault.text);
    bad = launch;
    bad.grid[1] = 0;
    cr_assert_eq(ptx_run(d.instance, kernel, &bad, &fault), -EINVAL);
    cr_assert_not_null(strstr(fault.text, "grid size 0"), "%s", fault.text);
    bad = launch;
    bad.params_size = 4;
    cr_assert_eq(ptx_run(d.instance, kernel, &bad, &fault), -EINVAL);
    cr_assert_not_null(strstr(fault.text, "4 bytes of parameters, 8 needed"), "%s", fault.text);
    bad = launch;
    bad.cluster[0] = 2;
    cr_assert_eq(ptx_run(d.instance, kernel, &bad, &fault), -EINVAL);
    cr_assert_eq(ptx_run(d.instance, 1000, &launch, &fault), -EINVAL);
    cr_assert_eq(ptx_run(d.instance, kernel, &bad, NULL), -EINVAL, "without a report too");
    device_close(&d);
}

Test(ptx_faults, a_fault_leaves_the_instance_usable)
{
    struct device d;
    device_open(&d, "faults");
    int *p = device_alloc(&d, 400), value = 7, lane = 0;
    long long index = 1000, good = 1;
    for (int i = 0; i < 3; i++) {
        device_fault(&d, "write_at", SIZE1(2, 64), ARGS(&p, &index, &value));
        device_fault(&d, "traps", SIZE1(1, 64), ARGS(&lane));
        device_run(&d, "write_at", SIZE1(2, 64), ARGS(&p, &good, &value));
    }
    cr_assert_eq(p[1], 7);
    device_close(&d);
}

Test(ptx_faults, a_pointer_that_is_no_function_cannot_be_called)
{
    static const char text[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
                               ".visible .entry k(.param .u64 p)\n{\n.reg .b64 %rd<3>;\n"
                               "ld.param.u64 %rd1, [p];\nproto: .callprototype _ ();\n"
                               "call %rd1, (), proto;\nret;\n}\n";
    struct device d;
    device_open_text(&d, text);
    uint64_t bad[] = {0, PTX_WINDOW_CODE, PTX_WINDOW_CODE + 1000, ~0ull};
    for (int i = 0; i < 4; i++) /* number 0 is the kernel itself */
        cr_assert_eq(device_fault(&d, "k", SIZE1(1, 32), ARGS(&bad[i])).kind, PTX_FAULT_BAD_CALL);
    device_close(&d);
}

Test(ptx_faults, addresses_of_the_windows_are_bounded)
{
    static const char text[] =
        ".version 8.0\n.target sm_90\n.address_size 64\n"
        ".visible .entry k(.param .u64 p, .param .u64 out)\n{\n.reg .b64 %rd<4>; .reg .b32 %r<3>;\n"
        ".reg .pred %p<5>; .shared .align 16 .b8 s[64]; .local .align 16 .b8 l[32];\n"
        "ld.param.u64 %rd1, [p];\nld.param.u64 %rd2, [out];\n"
        "isspacep.shared %p1, %rd1;\nisspacep.local %p2, %rd1;\nisspacep.global %p3, %rd1;\n"
        "selp.b32 %r1, 1, 0, %p1;\n@%p2 add.u32 %r1, %r1, 2;\n@%p3 add.u32 %r1, %r1, 4;\n"
        "st.global.u32 [%rd2], %r1;\n"
        "st.u32 [%rd1], %r1;\nld.u32 %r2, [%rd1];\nst.global.u32 [%rd2+4], %r2;\nret;\n}\n";
    static const struct {
        uint64_t address;
        uint32_t space;
        bool good;
    } cases[] = {
        {PTX_WINDOW_SHARED, 1, true},       {PTX_WINDOW_SHARED + 60, 1, true},
        {PTX_WINDOW_SHARED + 64, 1, false}, {PTX_WINDOW_LOCAL + 28, 2, true},
        {PTX_WINDOW_LOCAL + 32, 2, false},  {PTX_WINDOW_LOCAL + PTX_WINDOW_BYTES - 4, 2, false},
        {PTX_WINDOW_PARAM, 0, false}, /* read only */
        {PTX_WINDOW_CODE, 4, false},
    };
    struct device d;
    device_open_text(&d, text);
    uint32_t *out = device_alloc(&d, 8);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (cases[i].good) {
            device_run(&d, "k", SIZE1(1, 1), ARGS(&cases[i].address, &out));
            cr_assert_eq(out[1], out[0]);
        } else {
            struct ptx_fault fault = device_fault(&d, "k", SIZE1(1, 1), ARGS(&cases[i].address, &out));
            cr_assert_eq(fault.kind, PTX_FAULT_ILLEGAL_ADDRESS);
            cr_assert_eq(fault.address, cases[i].address);
        }
        cr_assert_eq(out[0], cases[i].space, "case %zu", i);
    }
    device_close(&d);
}
