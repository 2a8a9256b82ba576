/* SPDX-License-Identifier: Apache-2.0
 *
 * Control flow, calls, parameters, local memory, module-scope variables.
 */
#include "tests/simcuda/ptx_tests/harness.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* Optimised and unoptimised code of the same source, and the interpreter for any processor. */
#define EACH(name)                                                                                                     \
    static void name(const char *module);                                                                              \
    Test(ptx_control, name)                                                                                            \
    {                                                                                                                  \
        name("control");                                                                                               \
    }                                                                                                                  \
    Test(ptx_control, name##_unoptimised)                                                                              \
    {                                                                                                                  \
        name("control_debug");                                                                                         \
    }                                                                                                                  \
    Test(ptx_control, name##_portable)                                                                                 \
    {                                                                                                                  \
        name("control:portable");                                                                                      \
    }                                                                                                                  \
    static void name(const char *module)

static int divergent(int v)
{
    int sum = 0;
    for (int a = 0; a < (v & 15); a++) {
        if ((a ^ v) & 1) {
            for (int b = a; b < 20; b++) {
                if ((b * v) % 13 == 5)
                    break;
                if (b % 3 == 0)
                    continue;
                sum += a * b;
            }
        } else {
            sum -= a;
        }
        if (sum > 900)
            return -sum;
    }
    return sum;
}

EACH(divergent_loops_with_early_exit_match)
{
    struct device d;
    device_open(&d, module);
    int n = 500, *in = device_alloc(&d, 2000), *out = device_alloc(&d, 2000);
    uint32_t seed = 31;
    for (int i = 0; i < n; i++)
        in[i] = (int)(random32(&seed) % 2000) - 700;
    device_run(&d, "divergent", SIZE1(4, 128), ARGS(&in, &out, &n));
    for (int i = 0; i < n; i++)
        cr_assert_eq(out[i], divergent(in[i]), "element %d", i);
    device_close(&d);
}

EACH(switch_statement_matches)
{
    struct device d;
    device_open(&d, module);
    int in[64], out_want[64];
    for (int i = 0; i < 64; i++) {
        int v = in[i] = i * 5 % 12 - 1;
        const int cases[] = {v + 11, i * 3, i - 77, i ^ 0x55, i * i, i << 3, ~i, i / 3, i % 5, i & 6};
        out_want[i] = v >= 0 && v < 10 ? cases[v] : -1;
    }
    int *device_in = device_copy(&d, in, sizeof(in)), *out = device_alloc(&d, 256);
    device_run(&d, "jump_table", SIZE1(1, 64), ARGS(&device_in, &out));
    cr_assert_eq(memcmp(out, out_want, sizeof(out_want)), 0);
    device_close(&d);
}

static int collatz(unsigned long long n)
{
    int steps = 0;
    for (; n != 1; steps++)
        n = n & 1 ? 3 * n + 1 : n / 2;
    return steps;
}

EACH(device_functions_with_structs_match)
{
    struct device d;
    device_open(&d, module);
    int *out = device_alloc(&d, 4u * 3 * 192);
    device_run(&d, "calls", SIZE1(2, 96), ARGS(&out));
    for (int i = 0; i < 192; i++) {
        cr_assert_eq(out[3 * i], collatz((unsigned long long)i + 1), "thread %d", i);
        cr_assert_eq(out[3 * i + 1], 7 + i);
        cr_assert_eq(out[3 * i + 2], (int)(i * 0.5 * 2 + 7));
    }
    device_close(&d);
}

static int fibonacci(int n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

EACH(recursion_of_different_depth_per_lane_matches)
{
    struct device d;
    device_open(&d, module);
    int *out = device_alloc(&d, 256);
    device_run(&d, "recursion", SIZE1(1, 64), ARGS(&out));
    for (int i = 0; i < 64; i++)
        cr_assert_eq(out[i], fibonacci(i % 13), "thread %d", i);
    device_close(&d);
}

EACH(recursion_beyond_the_stack_is_a_fault)
{
    struct device d;
    device_open(&d, module);
    int n = 100000, *out = device_alloc(&d, 4);
    struct ptx_fault fault = device_fault(&d, "endless_recursion", SIZE1(1, 1), ARGS(&out, &n));
    cr_assert_eq(fault.kind, PTX_FAULT_STACK_OVERFLOW);
    cr_assert_str_eq(fault.kernel, "endless_recursion");
    device_close(&d);
}

EACH(calls_through_pointers_take_each_lane_to_its_function)
{
    struct device d;
    device_open(&d, module);
    int *which = device_alloc(&d, 256), *out = device_alloc(&d, 256);
    for (int i = 0; i < 64; i++)
        which[i] = i * 7 % 3;
    device_run(&d, "pointers", SIZE1(1, 64), ARGS(&which, &out));
    for (int i = 0; i < 64; i++) {
        int v = i + 3;
        cr_assert_eq(out[i], which[i] == 0 ? 2 * v : which[i] == 1 ? v * v : -v, "thread %d", i);
    }
    device_close(&d);
}

EACH(struct_parameter_of_32000_bytes_arrives)
{
    static struct {
        int head;
        double values[3998];
        int tail;
    } big;
    struct device d;
    device_open(&d, module);
    double *out = device_alloc(&d, 8 * 32);
    big.head = 5;
    big.tail = -9;
    for (int i = 0; i < 3998; i++)
        big.values[i] = i * 0.5;
    cr_assert_eq(sizeof(big), 32000);
    device_run(&d, "big_parameter", SIZE1(1, 32), ARGS(&big, &out));
    for (int t = 0; t < 32; t++) {
        double sum = 0;
        for (int i = t; i < 3998; i += 32)
            sum += big.values[i];
        cr_assert_eq(out[t], sum + big.head + big.tail, "thread %d", t);
    }
    device_close(&d);
}

EACH(seventy_parameters_of_all_widths_arrive)
{
    struct device d;
    device_open(&d, module);
    long long *out = device_alloc(&d, 56), want[7] = {0};
    signed char a[10];
    short b[10];
    int c[10], g[9];
    long long w[10];
    unsigned char e[10];
    unsigned short f[10];
    const void *args[70] = {&out};
    int n = 1;
    for (int i = 0; i < 10; i++) {
        a[i] = (signed char)(-100 + 17 * i);
        b[i] = (short)(-30000 + 6001 * i);
        c[i] = -2000000 + 500001 * i; /* the sums of the kernel are in int */
        w[i] = -(1ll << 40) + (long long)i * 1234567890123ll;
        e[i] = (unsigned char)(255 - 9 * i);
        f[i] = (unsigned short)(65535 - 77 * i);
        want[0] += (long long)a[i] * (i + 1);
        want[1] += (long long)b[i] * (i + 1);
        want[2] += (long long)c[i] * (i + 1);
        want[3] += w[i] * (i + 1);
        want[4] += (long long)e[i] * (i + 1);
        want[5] += (long long)f[i] * (i + 1);
    }
    for (int i = 0; i < 9; i++) {
        g[i] = 1000 * i - 3;
        want[6] += (long long)g[i] * (i + 1);
    }
    for (int i = 0; i < 10; i++)
        args[n++] = &a[i];
    for (int i = 0; i < 10; i++)
        args[n++] = &b[i];
    for (int i = 0; i < 10; i++)
        args[n++] = &c[i];
    for (int i = 0; i < 10; i++)
        args[n++] = &w[i];
    for (int i = 0; i < 10; i++)
        args[n++] = &e[i];
    for (int i = 0; i < 10; i++)
        args[n++] = &f[i];
    for (int i = 0; i < 9; i++)
        args[n++] = &g[i];
    cr_assert_eq(n, 70);
    device_run(&d, "seventy_parameters", SIZE1(1, 1), args, 70);
    for (int i = 0; i < 7; i++)
        cr_assert_eq(out[i], want[i], "sum %d: %lld, not %lld", i, out[i], want[i]);
    device_close(&d);
}

static int ascending(const void *a, const void *b)
{
    return *(const int *)a < *(const int *)b ? -1 : *(const int *)a > *(const int *)b;
}

EACH(indexed_local_arrays_are_private_to_threads)
{
    struct device d;
    device_open(&d, module);
    int *in = device_alloc(&d, 256), *out = device_alloc(&d, 4u * 64 * 40), want[64];
    uint32_t seed = 33;
    for (int i = 0; i < 64; i++)
        want[i] = in[i] = (int)random32(&seed) % 1000;
    qsort(want, 64, sizeof(int), ascending);
    device_run(&d, "local_array", SIZE1(1, 40), ARGS(&in, &out));
    for (int t = 0; t < 40; t++)
        cr_assert_eq(memcmp(out + 64 * t, want, sizeof(want)), 0, "thread %d", t);
    device_close(&d);
}

EACH(printf_is_ignored_and_returns_zero)
{
    struct device d;
    device_open(&d, module);
    int *out = device_alloc(&d, 128);
    device_run(&d, "prints", SIZE1(1, 32), ARGS(&out));
    for (int i = 0; i < 32; i++)
        cr_assert_eq(out[i], 5);
    device_close(&d);
}

EACH(failed_assertion_is_a_fault_of_its_thread)
{
    struct device d;
    device_open(&d, module);
    int *in = device_alloc(&d, 400), *out = device_alloc(&d, 400);
    for (int i = 0; i < 100; i++)
        in[i] = i;
    device_run(&d, "asserts", SIZE1(1, 100), ARGS(&in, &out));
    cr_assert_eq(out[99], 99);
    in[70] = 100;
    struct ptx_fault fault = device_fault(&d, "asserts", SIZE1(1, 100), ARGS(&in, &out));
    cr_assert_eq(fault.kind, PTX_FAULT_ASSERT);
    cr_assert_eq(fault.thread[0], 70);
    device_close(&d);
}

/* ---- module-scope variables ---- */

static void *global_at(struct device *d, const char *name)
{
    long index = ptx_module_find_global(d->module, name);
    cr_assert_geq(index, 0, "no global %s", name);
    return (void *)(uintptr_t)ptx_instance_global_address(d->instance, (size_t)index);
}

Test(ptx_globals, initial_values_are_in_place_before_the_first_launch)
{
    struct device d;
    device_open(&d, "globals");
    const float *table = global_at(&d, "table");
    const int *weights = global_at(&d, "weights");
    cr_assert_eq(*(int *)global_at(&d, "counter"), 5);
    cr_assert_eq(table[0], 1.5f);
    cr_assert_eq(table[1], -2.25f);
    cr_assert_eq(table[2], 3e10f);
    cr_assert_eq(table[7], 0.0f);
    cr_assert_eq(weights[3], -40);
    cr_assert_eq(*(void **)global_at(&d, "pointer"), global_at(&d, "counter"));
    cr_assert_eq(*(const float **)global_at(&d, "inside"), table + 3);
    cr_assert_eq(*(uint64_t *)global_at(&d, "wide"), 0x123456789abcdef0ull);
    long zeros = ptx_module_find_global(d.module, "zeros");
    const struct ptx_global *info = ptx_module_global(d.module, (size_t)zeros);
    cr_assert_eq(info->size, 800);
    cr_assert_eq(info->align, 8);
    cr_assert_eq(info->init_size, 0);
    cr_assert_not(info->is_const);
    cr_assert(ptx_module_global(d.module, (size_t)ptx_module_find_global(d.module, "weights"))->is_const);
    cr_assert_eq(ptx_module_find_global(d.module, "nothing"), -2 /* ENOENT */);
    device_close(&d);
}

Test(ptx_globals, kernels_read_and_write_globals)
{
    struct device d;
    device_open(&d, "globals");
    static const int weights[] = {10, -20, 30, -40};
    static const unsigned char bytes[] = {1, 2, 254, 255, 7};
    float *f = device_alloc(&d, 128);
    int *i = device_alloc(&d, 128);
    uint64_t *w = device_alloc(&d, 256);
    ((double *)global_at(&d, "zeros"))[3] = 0.5; /* as cuMemcpyHtoD to the symbol would */
    device_run(&d, "use_globals", SIZE1(1, 32), ARGS(&f, &i, &w));
    for (int t = 0; t < 32; t++) {
        static const float table[8] = {1.5f, -2.25f, 3e10f, 4};
        cr_assert_eq(f[t], table[t & 7] + (t == 3 ? 0.5f : 0.0f));
        cr_assert_eq(i[t], weights[t & 3] + bytes[t % 5] + 5);
        cr_assert_eq(w[t], t & 1 ? ~0ull : 0x123456789abcdef0ull);
    }
    cr_assert_eq(((float *)global_at(&d, "table"))[3], 77.0f);
    cr_assert_eq(*(int *)global_at(&d, "counter"), 6);
    device_close(&d);
}

Test(ptx_globals, structs_with_pointers_to_strings_match)
{
    struct device d;
    device_open(&d, "globals");
    int *out = device_alloc(&d, 8);
    device_run(&d, "use_items", SIZE1(1, 2), ARGS(&out));
    cr_assert_eq(out[0], 'a' * 1000000 - 2 * 1000 + 100 + 5);
    cr_assert_eq(out[1], 'b' * 1000000 + 3 * 1000 + 200 + 6);
    device_close(&d);
}

Test(ptx_globals, two_instances_of_a_module_have_their_own_variables)
{
    struct device a;
    struct ptx_instance *second;
    device_open(&a, "globals");
    cr_assert_eq(ptx_instance_create(a.module, &second), 0);
    struct ptx_module_info info;
    ptx_module_info(a.module, &info);
    for (size_t i = 0; i < info.globals; i++)
        cr_assert_eq(ptx_instance_place_global(
                         second, i, (uint64_t)(uintptr_t)device_alloc(&a, ptx_module_global(a.module, i)->size)),
                     0);
    cr_assert_eq(ptx_instance_initialise(second), 0);
    int *seen = device_alloc(&a, 400);
    char params[8];
    struct ptx_launch launch;
    size_t kernel = device_prepare(&a, "take_tickets", SIZE1(1, 40), ARGS(&seen), &launch, params);
    cr_assert_eq(ptx_run(a.instance, kernel, &launch, NULL), 0);
    cr_assert_eq(ptx_run(second, kernel, &launch, NULL), 0);
    for (int i = 0; i < 100; i++)
        cr_assert_eq(seen[i], i < 40 ? 2 : 0, "both counters started at 0");
    ptx_instance_destroy(second);
    device_close(&a);
}

Test(ptx_globals, virtual_functions_are_called_through_their_table)
{
    struct device d;
    device_open(&d, "globals");
    int *kind = device_alloc(&d, 128);
    float *out = device_alloc(&d, 128);
    for (int i = 0; i < 32; i++)
        kind[i] = i % 3 == 1;
    device_run(&d, "virtuals", SIZE1(1, 32), ARGS(&kind, &out));
    for (int i = 0; i < 32; i++)
        cr_assert_eq(out[i], (float)(i * i * (kind[i] ? 3 : 1)));
    device_close(&d);
}

Test(ptx_globals, a_global_that_is_not_placed_refuses_the_launch)
{
    struct device d;
    struct ptx_instance *bare;
    struct ptx_fault fault;
    device_open(&d, "globals");
    cr_assert_eq(ptx_instance_create(d.module, &bare), 0);
    cr_assert_eq(ptx_instance_initialise(bare), -22);
    char params[8] = {0};
    struct ptx_launch launch;
    int *seen = device_alloc(&d, 4);
    size_t kernel = device_prepare(&d, "take_tickets", SIZE1(1, 1), ARGS(&seen), &launch, params);
    cr_assert_eq(ptx_run(bare, kernel, &launch, &fault), -22);
    cr_assert_eq(fault.kind, PTX_FAULT_BAD_LAUNCH);
    cr_assert_not_null(strstr(fault.text, "is not placed"), "%s", fault.text);
    cr_assert_eq(ptx_instance_place_global(bare, 0, 3), -22, "misaligned");
    cr_assert_eq(ptx_instance_place_global(bare, 100, 4096), -22, "no such global");
    ptx_instance_destroy(bare);
    device_close(&d);
}
