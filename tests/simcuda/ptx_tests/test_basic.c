/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread per element, against the same loops in C.
 */
#include "tests/simcuda/ptx_tests/harness.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* Optimised and unoptimised code of the same source, and the interpreter for any processor. */
#define EACH(name)                                                                                                     \
    static void name(const char *module);                                                                              \
    Test(ptx_basic, name)                                                                                              \
    {                                                                                                                  \
        name("basic");                                                                                                 \
    }                                                                                                                  \
    Test(ptx_basic, name##_unoptimised)                                                                                \
    {                                                                                                                  \
        name("basic_debug");                                                                                           \
    }                                                                                                                  \
    Test(ptx_basic, name##_portable)                                                                                   \
    {                                                                                                                  \
        name("basic:portable");                                                                                        \
    }                                                                                                                  \
    static void name(const char *module)

EACH(vector_add_matches_and_keeps_to_its_range)
{
    struct device d;
    device_open(&d, module);
    int n = 1000; /* no multiple of the block */
    float *a = device_alloc(&d, 4 * n), *b = device_alloc(&d, 4 * n), *c = device_alloc(&d, 4 * n);
    uint32_t seed = 1;
    for (int i = 0; i < n; i++) {
        a[i] = random_float(&seed);
        b[i] = random_float(&seed);
    }
    device_run(&d, "vector_add", SIZE1(4, 256), ARGS(&a, &b, &c, &n));
    for (int i = 0; i < n; i++)
        cr_assert_eq(c[i], a[i] + b[i], "element %d", i);
    cr_assert_leq(d.questions, 3, "one question per allocation is enough, there were %u", d.questions);
    device_close(&d);
}

EACH(saxpy_is_fused_multiply_add)
{
    struct device d;
    device_open(&d, module);
    int n = 777;
    float alpha = 1.1f, *x = device_alloc(&d, 4 * n), *y = device_alloc(&d, 4 * n), want[777];
    uint32_t seed = 2;
    for (int i = 0; i < n; i++) {
        x[i] = random_float(&seed);
        y[i] = random_float(&seed);
        /* unoptimised code keeps the product and the sum apart */
        volatile float product = alpha * x[i];
        want[i] = strstr(module, "debug") ? product + y[i] : fmaf(alpha, x[i], y[i]);
    }
    device_run(&d, "saxpy", SIZE1(7, 128), ARGS(&alpha, &x, &y, &n));
    for (int i = 0; i < n; i++)
        cr_assert_eq(y[i], want[i], "element %d", i);
    device_close(&d);
}

EACH(vector_loads_of_four_floats_match)
{
    struct device d;
    device_open(&d, module);
    int n = 100;
    float *a = device_alloc(&d, 16 * n), *b = device_alloc(&d, 16 * n), *c = device_alloc(&d, 16 * n);
    uint32_t seed = 3;
    for (int i = 0; i < 4 * n; i++) {
        a[i] = random_float(&seed);
        b[i] = random_float(&seed);
    }
    device_run(&d, "vector_add4", SIZE1(2, 64), ARGS(&a, &b, &c, &n));
    for (int i = 0; i < n; i++) {
        cr_assert_eq(c[4 * i], a[4 * i] + b[4 * i]);
        cr_assert_eq(c[4 * i + 1], a[4 * i + 1] - b[4 * i + 1]);
        cr_assert_eq(c[4 * i + 2], a[4 * i + 2] * b[4 * i + 2]);
        cr_assert_eq(c[4 * i + 3], fmaxf(a[4 * i + 3], b[4 * i + 3]));
    }
    device_close(&d);
}

EACH(grid_stride_loop_covers_everything_once)
{
    struct device d;
    device_open(&d, module);
    long long n = 5000, *out = device_alloc(&d, 8 * (size_t)n);
    int *in = device_alloc(&d, 4 * (size_t)n);
    uint32_t seed = 4;
    for (int i = 0; i < n; i++)
        in[i] = (int)random32(&seed);
    device_run(&d, "grid_stride", SIZE1(3, 96), ARGS(&in, &out, &n));
    for (int i = 0; i < n; i++)
        cr_assert_eq(out[i], (long long)in[i] * in[i] - i, "element %d", i);
    device_close(&d);
}

EACH(three_dimensional_indices_match)
{
    struct device d;
    device_open(&d, module);
    struct launch_size size = {{3, 2, 2}, {5, 3, 4}, 0};
    int nx = 15, ny = 6, nz = 8, *out = device_alloc(&d, 4u * 15 * 6 * 8);
    device_run(&d, "index3d", size, ARGS(&out));
    for (int z = 0; z < nz; z++)
        for (int y = 0; y < ny; y++)
            for (int x = 0; x < nx; x++)
                cr_assert_eq(out[(z * ny + y) * nx + x], x + 1000 * y + 1000000 * z);
    device_close(&d);
}

EACH(double_precision_matches)
{
    struct device d;
    device_open(&d, module);
    int n = 300;
    double alpha = 0.3, *x = device_alloc(&d, 8 * n), *y = device_alloc(&d, 8 * n), want[300];
    bool fused = !strstr(module, "debug");
    uint32_t seed = 5;
    for (int i = 0; i < n; i++) {
        x[i] = (double)random_float(&seed) * 1e3;
        y[i] = (double)random_float(&seed);
        volatile double product = alpha * x[i], square = x[i] * x[i];
        double inner = fused ? fma(alpha, x[i], y[i]) : product + y[i];
        double below = fused ? fma(x[i], x[i], 1.0) : square + 1.0;
        want[i] = sqrt(fabs(inner)) / below;
    }
    device_run(&d, "daxpy", SIZE1(3, 128), ARGS(&alpha, &x, &y, &n));
    for (int i = 0; i < n; i++)
        cr_assert_eq(y[i], want[i], "element %d: %a, not %a", i, y[i], want[i]);
    device_close(&d);
}

EACH(convolution_matches)
{
    struct device d;
    device_open(&d, module);
    int width = 37, height = 21, radius = 2;
    float *image = device_alloc(&d, 4u * 37 * 21), *filter = device_alloc(&d, 4u * 25),
          *out = device_alloc(&d, 4u * 37 * 21);
    uint32_t seed = 6;
    for (int i = 0; i < width * height; i++)
        image[i] = random_float(&seed);
    for (int i = 0; i < 25; i++)
        filter[i] = random_float(&seed);
    struct launch_size size = {{3, 3, 1}, {16, 8, 1}, 0};
    device_run(&d, "conv2d", size, ARGS(&image, &filter, &out, &width, &height, &radius));
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            float sum = 0;
            for (int dy = -radius; dy <= radius; dy++) {
                for (int dx = -radius; dx <= radius; dx++) {
                    int sx = x + dx < 0 ? 0 : x + dx >= width ? width - 1 : x + dx;
                    int sy = y + dy < 0 ? 0 : y + dy >= height ? height - 1 : y + dy;
                    float p = image[sy * width + sx], q = filter[(dy + radius) * 5 + dx + radius];
                    volatile float product = p * q;
                    sum = strstr(module, "debug") ? sum + product : fmaf(p, q, sum);
                }
            }
            cr_assert_eq(out[y * width + x], sum, "pixel %d,%d: %a, not %a", x, y, (double)out[y * width + x],
                         (double)sum);
        }
    }
    device_close(&d);
}

EACH(bytes_and_shorts_wrap_like_c)
{
    struct device d;
    device_open(&d, module);
    int n = 256;
    unsigned char *in = device_alloc(&d, 256);
    signed char *s8 = device_alloc(&d, 256);
    short *s16 = device_alloc(&d, 512);
    unsigned short *u16 = device_alloc(&d, 512);
    for (int i = 0; i < n; i++)
        in[i] = (unsigned char)i;
    device_run(&d, "bytes", SIZE1(2, 128), ARGS(&in, &s8, &s16, &u16, &n));
    for (int i = 0; i < n; i++) {
        cr_assert_eq(s8[i], (signed char)(in[i] * 3 - 7));
        cr_assert_eq(s16[i], (short)((short)((signed char)in[i]) * (short)5));
        cr_assert_eq(u16[i], (unsigned short)((unsigned short)(in[i] << 8) / 7));
    }
    device_close(&d);
}

Test(ptx_basic, statistics_count_threads_and_bytes)
{
    struct device d;
    struct ptx_launch launch;
    struct ptx_stats stats = {0};
    char params[64];
    device_open(&d, "basic");
    int n = 512;
    float *a = device_alloc(&d, 2048), *b = device_alloc(&d, 2048), *c = device_alloc(&d, 2048);
    size_t kernel = device_prepare(&d, "vector_add", SIZE1(2, 256), ARGS(&a, &b, &c, &n), &launch, params);
    launch.stats = &stats;
    cr_assert_eq(ptx_run(d.instance, kernel, &launch, NULL), 0);
    cr_assert_eq(stats.blocks, 2);
    cr_assert_eq(stats.global_read_bytes, 512 * 8);
    cr_assert_eq(stats.global_write_bytes, 512 * 4);
    cr_assert_eq(stats.thread_instructions, 32 * stats.warp_instructions, "no divergence here");
    cr_assert_gt(stats.warp_instructions, 16 * 10);
    device_close(&d);
}
