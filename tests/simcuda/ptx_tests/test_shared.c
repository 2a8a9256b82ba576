/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of a block working together: shared memory, barriers, shuffles, atomics.
 */
#include "tests/simcuda/ptx_tests/harness.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Optimised and unoptimised code of the same source, and the interpreter for any processor. */
#define EACH(name)                                                                                                     \
    static void name(const char *module);                                                                              \
    Test(ptx_shared, name)                                                                                             \
    {                                                                                                                  \
        name("shared");                                                                                                \
    }                                                                                                                  \
    Test(ptx_shared, name##_unoptimised)                                                                               \
    {                                                                                                                  \
        name("shared_debug");                                                                                          \
    }                                                                                                                  \
    Test(ptx_shared, name##_portable)                                                                                  \
    {                                                                                                                  \
        name("shared:portable");                                                                                       \
    }                                                                                                                  \
    static void name(const char *module)

EACH(tiled_sgemm_matches)
{
    struct device d;
    device_open(&d, module);
    int m = 45, n = 50, k = 37;
    float *a = device_alloc(&d, 4u * 45 * 37), *b = device_alloc(&d, 4u * 37 * 50), *c = device_alloc(&d, 4u * 45 * 50);
    uint32_t seed = 11;
    for (int i = 0; i < m * k; i++)
        a[i] = random_float(&seed);
    for (int i = 0; i < k * n; i++)
        b[i] = random_float(&seed);
    struct launch_size size = {{4, 3, 1}, {16, 16, 1}, 0};
    device_run(&d, "sgemm_tiled", size, ARGS(&a, &b, &c, &m, &n, &k));
    for (int row = 0; row < m; row++) {
        for (int col = 0; col < n; col++) {
            float sum = 0;
            for (int i = 0; i < k; i++) {
                volatile float product = a[row * k + i] * b[i * n + col];
                sum = strstr(module, "debug") ? sum + product : fmaf(a[row * k + i], b[i * n + col], sum);
            }
            cr_assert_eq(c[row * n + col], sum, "element %d,%d", row, col);
        }
    }
    device_close(&d);
}

EACH(tree_reduction_with_barriers_matches)
{
    struct device d;
    device_open(&d, module);
    int n = 10000, *in = device_alloc(&d, 40000), *out = device_alloc(&d, 4), want = 0;
    uint32_t seed = 12;
    for (int i = 0; i < n; i++)
        want += in[i] = (int)(random32(&seed) % 1000) - 500;
    device_run(&d, "reduce_shared", SIZE1(5, 256), ARGS(&in, &out, &n));
    cr_assert_eq(*out, want);
    device_close(&d);
}

EACH(shuffle_reduction_matches)
{
    struct device d;
    device_open(&d, module);
    int n = 4096;
    float *in = device_alloc(&d, 4u * 4096), *out = device_alloc(&d, 4);
    double want = 0;
    for (int i = 0; i < n; i++)
        want += (double)(in[i] = (float)(i % 17)); /* sums of small integers are exact in any order */
    device_run(&d, "reduce_shuffle", SIZE1(1, 512), ARGS(&in, &out, &n));
    cr_assert_eq((double)*out, want);
    device_close(&d);
}

EACH(block_scan_matches)
{
    struct device d;
    device_open(&d, module);
    int n = 1000, *in = device_alloc(&d, 4000), *out = device_alloc(&d, 4000), sum = 0;
    for (int i = 0; i < n; i++)
        in[i] = i * 7 % 11 - 3;
    device_run(&d, "scan_block", SIZE1(1, 1024), ARGS(&in, &out, &n));
    for (int i = 0; i < n; i++)
        cr_assert_eq(out[i], sum += in[i], "element %d", i);
    device_close(&d);
}

static void histogram(const char *module, const char *kernel)
{
    struct device d;
    device_open(&d, module);
    int n = 20000;
    unsigned char *in = device_alloc(&d, 20000);
    unsigned *bins = device_alloc(&d, 1024), want[256] = {0};
    uint32_t seed = 13;
    for (int i = 0; i < n; i++)
        want[in[i] = (unsigned char)(random32(&seed) % 200)]++;
    device_run(&d, kernel, SIZE1(6, 192), ARGS(&in, &bins, &n));
    cr_assert_eq(memcmp(bins, want, sizeof(want)), 0);
    device_close(&d);
}

EACH(histogram_with_global_atomics_matches)
{
    histogram(module, "histogram_global");
}

EACH(histogram_with_shared_atomics_matches)
{
    histogram(module, "histogram_shared");
}

EACH(softmax_in_dynamic_shared_memory_matches)
{
    struct device d;
    device_open(&d, module);
    int columns = 300, rows = 4;
    float *in = device_alloc(&d, 4u * 1200), *out = device_alloc(&d, 4u * 1200);
    uint32_t seed = 14;
    for (int i = 0; i < rows * columns; i++)
        in[i] = 10 * random_float(&seed);
    device_run(&d, "softmax", SIZE_SHARED(4, 128, 512), ARGS(&in, &out, &columns));
    for (int r = 0; r < rows; r++) {
        double high = -1e30, sum = 0, total = 0;
        for (int i = 0; i < columns; i++)
            high = fmax(high, (double)in[r * columns + i]);
        for (int i = 0; i < columns; i++)
            sum += exp((double)in[r * columns + i] - high);
        for (int i = 0; i < columns; i++) {
            double want = exp((double)in[r * columns + i] - high) / sum;
            total += (double)out[r * columns + i];
            cr_assert_lt(fabs((double)out[r * columns + i] - want), 2e-6 * want + 1e-12, "row %d column %d", r, i);
        }
        cr_assert_float_eq(total, 1.0, 1e-5);
    }
    device_close(&d);
}

EACH(layernorm_matches)
{
    struct device d;
    device_open(&d, module);
    int columns = 257, rows = 3;
    float eps = 1e-5f;
    float *in = device_alloc(&d, 4u * 771), *gamma = device_alloc(&d, 4u * 257), *beta = device_alloc(&d, 4u * 257),
          *out = device_alloc(&d, 4u * 771);
    uint32_t seed = 15;
    for (int i = 0; i < rows * columns; i++)
        in[i] = 3 + random_float(&seed);
    for (int i = 0; i < columns; i++) {
        gamma[i] = 1 + random_float(&seed);
        beta[i] = random_float(&seed);
    }
    device_run(&d, "layernorm", SIZE1(3, 128), ARGS(&in, &gamma, &beta, &out, &columns, &eps));
    for (int r = 0; r < rows; r++) {
        double mean = 0, square = 0;
        for (int i = 0; i < columns; i++)
            mean += (double)in[r * columns + i] / columns;
        for (int i = 0; i < columns; i++)
            square += ((double)in[r * columns + i] - mean) * ((double)in[r * columns + i] - mean) / columns;
        for (int i = 0; i < columns; i++) {
            double want =
                ((double)in[r * columns + i] - mean) / sqrt(square + 1e-5) * (double)gamma[i] + (double)beta[i];
            cr_assert_float_eq((double)out[r * columns + i], want, 2e-5, "row %d column %d", r, i);
        }
    }
    device_close(&d);
}

EACH(barrier_reductions_match)
{
    struct device d;
    device_open(&d, module);
    int *in = device_alloc(&d, 400), *out = device_alloc(&d, 1200), positive = 0;
    for (int i = 0; i < 100; i++)
        positive += (in[i] = (i * 37 % 21) - 10) > 0;
    device_run(&d, "sync_reductions", SIZE1(1, 100), ARGS(&in, &out)); /* the last warp has 4 lanes */
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(out[3 * i], positive);
        cr_assert_eq(out[3 * i + 1], 1);
        cr_assert_eq(out[3 * i + 2], 1);
    }
    in[99] = -100;
    for (int i = 0; i < 99; i++)
        in[i] = 6;
    device_run(&d, "sync_reductions", SIZE1(1, 100), ARGS(&in, &out));
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(out[3 * i], 99);
        cr_assert_eq(out[3 * i + 1], 0);
        cr_assert_eq(out[3 * i + 2], 0);
    }
    device_close(&d);
}

EACH(named_barriers_hand_over_between_halves)
{
    struct device d;
    device_open(&d, module);
    int rounds = 20, *out = device_alloc(&d, 4u * 64 * 20);
    device_run(&d, "named_barriers", SIZE1(1, 128), ARGS(&out, &rounds));
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < 64; i++)
            cr_assert_eq(out[r * 64 + i], r * 1000 + 63 - i, "round %d slot %d", r, i);
    device_close(&d);
}

EACH(all_atomics_match)
{
    struct device d;
    device_open(&d, module);
    enum { N = 256 };
    int *s = device_alloc(&d, 4 * (8 + N));
    unsigned *u = device_alloc(&d, 32);
    unsigned long long *w = device_alloc(&d, 32), product = 1;
    float *f = device_alloc(&d, 4);
    double *g = device_alloc(&d, 8);
    bool seen[N] = {false};
    u[0] = 0xffffffff;
    u[5] = 1000;
    w[2] = ~0ull;
    w[3] = 1;
    device_run(&d, "atomics", SIZE1(2, 128), ARGS(&s, &u, &w, &f, &g));
    unsigned inc = 0, dec = 0;
    for (int i = 0; i < N; i++) {
        product = product * (unsigned)(i % 7 + 1) % 1000003;
        inc = inc >= 99 ? 0 : inc + 1;
        dec = dec == 0 || dec > 99 ? 99 : dec - 1;
    }
    cr_assert_eq(s[0], N * (N - 1) / 2);
    cr_assert_eq(s[1], -N * (N - 1) / 2);
    cr_assert_eq(s[2], 100 - (N - 1));
    cr_assert_eq(s[3], N - 1 - 100);
    cr_assert_eq(s[4], N);
    cr_assert_eq(s[5], 42);
    cr_assert_eq(u[0], 0xffffff00);
    cr_assert_eq(u[1], 0xffffffff);
    cr_assert_eq(u[2], 0); /* the exclusive or of 0 .. 255 */
    cr_assert_eq(u[3], inc);
    cr_assert_eq(u[4], dec);
    cr_assert_eq(u[5], 5);
    cr_assert_eq(u[6], N + 4);
    cr_assert_eq(w[0], 0x100000000ull * N + N * (N - 1) / 2);
    cr_assert_eq(w[1], 1ull << 63);
    cr_assert_eq(w[2], 0xffffffff00000000ull);
    cr_assert_eq(w[3], product, "%llu, not %llu", w[3], product);
    cr_assert_eq(*f, 0.5f * N);
    cr_assert_eq(*g, 0.25 * N);
    for (int i = 0; i < N; i++) {
        cr_assert(s[8 + i] >= 0 && s[8 + i] < N && !seen[s[8 + i]], "ticket %d", i);
        seen[s[8 + i]] = true;
    }
    device_close(&d);
}

static void lock(const char *module, const char *kernel)
{
    struct device d;
    device_open(&d, module);
    int *word = device_alloc(&d, 4), *count = device_alloc(&d, 4);
    device_run(&d, kernel, SIZE1(1, 64), ARGS(&word, &count));
    cr_assert_eq(*count, 64);
    cr_assert_eq(*word, 0);
    device_close(&d);
}

EACH(lock_between_lanes_of_a_warp_makes_progress)
{
    lock(module, "warp_lock");
}

EACH(lock_released_behind_the_loop_makes_progress)
{
    lock(module, "warp_lock_leave");
}
