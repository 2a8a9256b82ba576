/* SPDX-License-Identifier: Apache-2.0
 *
 * f16 and bf16. The oracle knows the value of every pattern and searches for the nearest ones; it shares no code with
 * the interpreter.
 */
#include "tests/simcuda/ptx_tests/harness.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { F16, BF16 };

static double value_of(int format, uint16_t bits)
{
    int mantissa_bits = format == F16 ? 10 : 7, bias = format == F16 ? 15 : 127, top = format == F16 ? 31 : 255;
    int exponent = (bits & 0x7fff) >> mantissa_bits, mantissa = bits & ((1 << mantissa_bits) - 1);
    double v = exponent == 0 ? ldexp(mantissa, 1 - bias - mantissa_bits)
                             : ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
    if (exponent == top)
        v = mantissa ? (double)NAN : (double)INFINITY;
    return bits & 0x8000 ? -v : v;
}

/* Largest pattern whose magnitude is not above |x|: patterns of one sign are in order of their value. */
static uint16_t below(int format, long double magnitude)
{
    uint16_t low = 0, high = format == F16 ? 0x7c00 : 0x7f80; /* value(low) <= x < value(high) or x infinite */
    while (high - low > 1) {
        uint16_t middle = (uint16_t)((low + high) / 2);
        if ((long double)value_of(format, middle) <= magnitude)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* mode: 'n' nearest even, 'z', 'u', 'd' */
static uint16_t round_to(int format, long double x, char mode)
{
    uint16_t infinity = format == F16 ? 0x7c00 : 0x7f80, sign = signbit(x) ? 0x8000 : 0;
    if (x != x)
        return 0x7fff;
    if (isinf(x))
        return sign | infinity;
    long double magnitude = fabsl(x);
    uint16_t low = below(format, magnitude), high = low + 1;
    long double a = (long double)value_of(format, low), b = (long double)value_of(format, high);
    if (high == infinity) /* where the next value would be */
        b = a + (a - (long double)value_of(format, low - 1));
    if (magnitude == a)
        return sign | low;
    bool up = mode == 'u' ? !sign : mode == 'd' ? sign != 0 : false;
    if (mode == 'n')
        up = magnitude - a > b - magnitude || (magnitude - a == b - magnitude && low & 1);
    return sign | (up ? high : low);
}

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

enum { MANY = 20000 };

static void fill_floats(float *in)
{
    static const uint32_t edges[] = {0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0x477fe000,
                                     0x477fefff, 0x477ff000, 0x477ff001, 0x47800000, 0x33000000, 0x33000001,
                                     0x32ffffff, 0x33800000, 0x38800000, 0x387fc000, 0x387fe000, 0x00000001,
                                     0x007fffff, 0x7f7fffff, 0x7f7f8000, 0x7f7f7fff, 0x3f808000, 0x3f818000,
                                     0x3f801000, 0x3f803000, 0xbf801000, 0xbf803000};
    uint32_t seed = 51, n = sizeof(edges) / sizeof(edges[0]);
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t bits = random32(&seed);
        if (i % 2) /* most patterns are out of the range of f16; keep half of them in it */
            bits = (bits & 0x807fffff) | ((96 + bits % 50) << 23);
        in[i] = float_of(i < n ? edges[i] : bits);
    }
}

Test(ptx_half, conversions_from_float_round_in_all_directions)
{
    struct device d;
    device_open(&d, "half");
    int n = MANY;
    float *in = device_alloc(&d, 4 * MANY);
    uint16_t *near = device_alloc(&d, 2 * MANY), *zero = device_alloc(&d, 2 * MANY), *up = device_alloc(&d, 2 * MANY),
             *down = device_alloc(&d, 2 * MANY);
    fill_floats(in);
    device_run(&d, "half_from_float", SIZE1((MANY + 255) / 256, 256), ARGS(&in, &near, &zero, &up, &down, &n));
    for (int i = 0; i < n; i++) {
        long double x = in[i];
        cr_assert_eq(near[i], round_to(F16, x, 'n'), "%a: 0x%x, not 0x%x", (double)x, near[i], round_to(F16, x, 'n'));
        cr_assert_eq(zero[i], round_to(F16, x, 'z'), "%a", (double)x);
        cr_assert_eq(up[i], round_to(F16, x, 'u'), "%a", (double)x);
        cr_assert_eq(down[i], round_to(F16, x, 'd'), "%a", (double)x);
    }
    device_run(&d, "bf16_from_float", SIZE1((MANY + 255) / 256, 256), ARGS(&in, &near, &zero, &n));
    for (int i = 0; i < n; i++) {
        long double x = in[i];
        cr_assert_eq(near[i], round_to(BF16, x, 'n'), "%a: 0x%x, not 0x%x", (double)x, near[i], round_to(BF16, x, 'n'));
        cr_assert_eq(zero[i], round_to(BF16, x, 'z'), "%a", (double)x);
    }
    device_close(&d);
}

Test(ptx_half, every_half_converts_to_its_float)
{
    struct device d;
    device_open(&d, "half");
    float *out = device_alloc(&d, 4 * 65536);
    device_run(&d, "float_from_half", SIZE1(256, 256), ARGS(&out));
    for (int i = 0; i < 65536; i++) {
        double want = value_of(F16, (uint16_t)i);
        if (want != want)
            cr_assert(out[i] != out[i], "pattern 0x%x", i);
        else
            cr_assert((double)out[i] == want && !signbit(out[i]) == !signbit(want), "pattern 0x%x", i);
    }
    device_close(&d);
}

static void fill_halves(uint16_t *a, int n, uint32_t seed, int format)
{
    static const uint16_t edges[] = {0,      0x8000, 0x7c00, 0xfc00, 0x7e00, 1,
                                     0x8001, 0x3ff,  0x400,  0x7bff, 0x3c00, 0xbc00};
    for (int i = 0; i < n; i++) {
        a[i] = (uint16_t)random32(&seed);
        if (format == BF16) /* products and sums of these are exact in long double */
            a[i] = (uint16_t)((a[i] & 0x807f) | (117 + a[i] % 19) << 7);
        else if (i % 8 == 0)
            a[i] = edges[random32(&seed) % 12];
    }
}

static uint16_t keep(double x, double y, uint16_t a, uint16_t b, bool larger)
{
    if (x != x && y != y)
        return 0x7fff;
    if (x != x || y != y)
        return x != x ? b : a;
    bool first = x == y ? (bool)signbit(x) != larger : (x > y) == larger;
    return first ? a : b;
}

Test(ptx_half, arithmetic_is_rounded_once)
{
    struct device d;
    device_open(&d, "half");
    int n = MANY;
    uint16_t *a = device_alloc(&d, 2 * MANY), *b = device_alloc(&d, 2 * MANY), *c = device_alloc(&d, 2 * MANY),
             *out = device_alloc(&d, 24 * MANY);
    fill_halves(a, n, 52, F16);
    fill_halves(b, n, 53, F16);
    fill_halves(c, n, 54, F16);
    device_run(&d, "half_arithmetic", SIZE1((MANY + 127) / 128, 128), ARGS(&a, &b, &c, &out, &n));
    for (int i = 0; i < n; i++) {
        const uint16_t *o = out + 12 * i;
        double x = value_of(F16, a[i]), y = value_of(F16, b[i]), z = value_of(F16, c[i]);
        long double fused = (long double)x * (long double)y + (long double)z;
        uint16_t want = round_to(F16, fused, 'n');
        cr_assert_eq(o[0], round_to(F16, (long double)x + (long double)y, 'n'), "%a + %a: 0x%x", x, y, o[0]);
        cr_assert_eq(o[1], round_to(F16, (long double)x - (long double)y, 'n'), "%a - %a: 0x%x", x, y, o[1]);
        cr_assert_eq(o[2], round_to(F16, (long double)x * (long double)y, 'n'), "%a * %a: 0x%x", x, y, o[2]);
        cr_assert_eq(o[3], want, "%a * %a + %a: 0x%x, not 0x%x", x, y, z, o[3], want);
        cr_assert_eq(o[4], keep(x, y, a[i], b[i], true), "max of %a and %a", x, y);
        cr_assert_eq(o[5], keep(x, y, a[i], b[i], false), "min of %a and %a", x, y);
        cr_assert_eq(o[6], x != x ? 0x7fff : a[i] ^ 0x8000); /* seen on an H200 */
        cr_assert_eq(o[7], x != x ? 0x7fff : a[i] & 0x7fff);
        cr_assert_eq(o[8], x < y);
        cr_assert_eq(o[9], x == y);
        cr_assert_eq(o[10], (uint16_t)(x != x ? 0 : isinf(x) ? (x > 0 ? INT32_MAX : INT32_MIN) : (int)x));
        double clamped = fused != fused ? 0.0 : fused < 0 ? 0.0 : fused > 1 ? 1.0 : (double)fused;
        cr_assert_eq(o[11] & 0x7fff, round_to(F16, (long double)clamped, 'n') & 0x7fff);
    }
    device_close(&d);
}

Test(ptx_half, packed_halves_are_two_independent_numbers)
{
    struct device d;
    device_open(&d, "half");
    int n = 1000;
    uint16_t *a = device_alloc(&d, 4000), *b = device_alloc(&d, 4000), *c = device_alloc(&d, 4000),
             *out = device_alloc(&d, 16000);
    fill_halves(a, 2 * n, 55, F16);
    fill_halves(b, 2 * n, 56, F16);
    fill_halves(c, 2 * n, 57, F16);
    device_run(&d, "half2_arithmetic", SIZE1(8, 128), ARGS(&a, &b, &c, &out, &n));
    for (int i = 0; i < 2 * n; i++) {
        const uint16_t *o = out + 8 * (i / 2) + i % 2;
        long double x = value_of(F16, a[i]), y = value_of(F16, b[i]), z = value_of(F16, c[i]);
        cr_assert_eq(o[0], round_to(F16, x + y, 'n'));
        cr_assert_eq(o[2], round_to(F16, x * y, 'n'));
        cr_assert_eq(o[4], round_to(F16, x * y + z, 'n'));
        cr_assert_eq(o[6], keep((double)x, (double)y, a[i], b[i], true));
    }
    device_close(&d);
}

Test(ptx_half, bfloat16_arithmetic_is_rounded_once)
{
    struct device d;
    device_open(&d, "half");
    int n = 4000;
    uint16_t *a = device_alloc(&d, 8000), *b = device_alloc(&d, 8000), *c = device_alloc(&d, 8000),
             *out = device_alloc(&d, 40000);
    fill_halves(a, n, 58, BF16);
    fill_halves(b, n, 59, BF16);
    fill_halves(c, n, 60, BF16);
    /* the product 1.0078125 * 1.5 = 1.51171875 lies half way; a tiny addend decides, far below a double's last bit */
    a[0] = a[1] = 0x3f81;
    b[0] = b[1] = 0x3fc0;
    c[0] = 0x0080;
    c[1] = 0x8080;
    device_run(&d, "bf16_arithmetic", SIZE1(32, 128), ARGS(&a, &b, &c, &out, &n));
    cr_assert_eq(out[2], 0x3fc2, "0x%x", out[2]);
    cr_assert_eq(out[7], 0x3fc1, "0x%x", out[7]);
    for (int i = 2; i < n; i++) {
        const uint16_t *o = out + 5 * i;
        long double x = value_of(BF16, a[i]), y = value_of(BF16, b[i]), z = value_of(BF16, c[i]);
        cr_assert_eq(o[0], round_to(BF16, x + y, 'n'));
        cr_assert_eq(o[1], round_to(BF16, x * y, 'n'));
        cr_assert_eq(o[2], round_to(BF16, x * y + z, 'n'));
        cr_assert_eq(o[3], keep((double)x, (double)y, a[i], b[i], true));
        cr_assert_eq(o[4], round_to(BF16, x - y, 'n'));
    }
    n = 2000;
    device_run(&d, "bf162_arithmetic", SIZE1(16, 128), ARGS(&a, &b, &out, &n));
    for (int i = 2; i < 2 * n; i++) {
        const uint16_t *o = out + 4 * (i / 2) + i % 2;
        long double x = value_of(BF16, a[i]), y = value_of(BF16, b[i]);
        cr_assert_eq(o[0], round_to(BF16, x + y, 'n'));
        cr_assert_eq(o[2], round_to(BF16, x * y + x, 'n'));
    }
    device_close(&d);
}

Test(ptx_half, dot_product_accumulates_in_float)
{
    struct device d;
    device_open(&d, "half");
    int n = 320;
    uint16_t *a = device_alloc(&d, 1280), *b = device_alloc(&d, 1280);
    float *out = device_alloc(&d, 4);
    double want = 0;
    for (int i = 0; i < 2 * n; i++) {
        a[i] = round_to(F16, (i % 7 - 3) * 0.5L, 'n');
        b[i] = round_to(F16, (i % 5 - 2) * 0.25L, 'n');
        want += value_of(F16, a[i]) * value_of(F16, b[i]); /* exact: multiples of 1/8 */
    }
    device_run(&d, "half_dot", SIZE1(1, 32), ARGS(&a, &b, &out, &n));
    cr_assert_eq((double)*out, want);
    device_close(&d);
}

Test(ptx_half, functions_are_close)
{
    struct device d;
    device_open(&d, "half");
    int n = 500;
    uint16_t *in = device_alloc(&d, 1000);
    float *out = device_alloc(&d, 8000);
    for (int i = 0; i < n; i++)
        in[i] = round_to(F16, 0.01L + i * 0.02L, 'n');
    device_run(&d, "half_functions", SIZE1(4, 128), ARGS(&in, &out, &n));
    for (int i = 0; i < n; i++) {
        double x = value_of(F16, in[i]), want[4] = {exp(x), sqrt(x), log(x), 1 / x};
        for (int j = 0; j < 4; j++)
            cr_assert_lt(fabs((double)out[4 * i + j] - want[j]), fabs(want[j]) * 0x1p-9 + 0x1p-10, "function %d of %a",
                         j, x);
    }
    device_close(&d);
}

Test(ptx_half, atomic_additions_of_halves_add_up)
{
    struct device d;
    device_open(&d, "half");
    uint16_t *sum = device_alloc(&d, 4), *sum2 = device_alloc(&d, 4), *sumb = device_alloc(&d, 4);
    device_run(&d, "half_atomics", SIZE1(2, 50), ARGS(&sum, &sum2, &sumb));
    cr_assert_eq(value_of(F16, sum[0]), 50.0);
    cr_assert_eq(sum[1], 0, "the neighbour is untouched");
    cr_assert_eq(value_of(F16, sum2[0]), 100.0);
    cr_assert_eq(value_of(F16, sum2[1]), 200.0);
    cr_assert_eq(value_of(BF16, sumb[0]), 100.0);
    device_close(&d);
}
