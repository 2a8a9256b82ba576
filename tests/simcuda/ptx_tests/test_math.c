/* SPDX-License-Identifier: Apache-2.0
 *
 * Floating-point arithmetic in all rounding modes, conversions, and the functions of the CUDA library. What is exact is
 * compared with 128-bit arithmetic by its definition (the largest float that is not above, ...).
 */
#include "tests/simcuda/ptx_tests/harness.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 3000 };

static void fill(float *in)
{
    static const float edges[] = {0.0f, -0.0f, 1.0f,    -1.0f,   0.5f,  1.5f,
                                  2.5f, -2.5f, FLT_MIN, FLT_MAX, 1e-3f, 123456.0f};
    uint32_t seed = 61;
    for (int i = 0; i < N; i++)
        in[i] = i < 12 ? edges[i] : random_float(&seed) * ldexpf(1, (int)(random32(&seed) % 41) - 20);
}

static void check_directed(const float got[4], __float128 exact, const char *what, int i)
{
    float near = got[0], zero = got[1], up = got[2], down = got[3];
    if (!isfinite(near))
        return; /* overflow is checked elsewhere */
    cr_assert((__float128)down <= exact && (__float128)nextafterf(down, INFINITY) > exact, "%s down, %d", what, i);
    cr_assert((__float128)up >= exact && (__float128)nextafterf(up, -INFINITY) < exact, "%s up, %d", what, i);
    cr_assert_eq(zero, exact > 0 ? down : up, "%s towards zero, %d", what, i);
    __float128 from_down = exact - (__float128)down, from_up = (__float128)up - exact;
    cr_assert(from_down < from_up   ? near == down
              : from_down > from_up ? near == up
                                    : near == down || near == up,
              "%s to nearest, %d", what, i);
}

static void check_rounding(const char *module)
{
    struct device d;
    device_open(&d, module);
    int n = N;
    float *in = device_alloc(&d, 4 * N), *out = device_alloc(&d, 80 * N);
    bool flush = strstr(module, "fast") != NULL;
    fill(in);
    device_run(&d, "rounding32", SIZE1((N + 127) / 128, 128), ARGS(&in, &out, &n));
    for (int i = 0; i < n; i++) {
        const float *o = out + 20 * i, x = in[i], y = in[(i + 1) % N], z = in[(i + 2) % N];
        __float128 qx = x, qy = y, qz = z, sum = qx + qy, product = qx * qy;
        if (i < 12 && flush)
            continue; /* results may be subnormal */
        if (sum != 0 && sum - qx == qy && sum - qy == qx && fabsf(x) < FLT_MAX && fabsf(y) < FLT_MAX)
            check_directed(o, sum, "sum", i);
        if (product != 0 && fabsf(x) < 1e19f && fabsf(y) < 1e19f && fabsf(x * y) > FLT_MIN)
            check_directed(o + 4, product, "product", i);
        bool exact = product + qz - qz == product && product + qz - product == qz; /* 113 bits are enough for the sum */
        if (exact && product + qz != 0 && fabsf(x) < 1e19f && fabsf(y) < 1e19f && fabsf(z) < 1e30f &&
            fabsf(o[8]) > FLT_MIN)
            check_directed(o + 8, product + qz, "fused", i);
        if (y != 0 && fabsf(x / y) > FLT_MIN && fabsf(y) < 1e30f && fabsf(x) < 1e30f) {
            __float128 q = qx / qy;
            cr_assert_eq(o[12], x / y, "quotient %d", i);
            cr_assert((__float128)fabsf(o[13]) <= (q < 0 ? -q : q) &&
                          (__float128)nextafterf(fabsf(o[13]), INFINITY) > (q < 0 ? -q : q),
                      "quotient towards zero, %d", i);
        }
        cr_assert_eq(o[14], sqrtf(fabsf(x)));
        if (x != 0 && fabsf(1 / x) > FLT_MIN)
            cr_assert_eq(o[15], 1 / x);
        cr_assert_eq(o[16], x < 0 ? 0 : x > 1 ? 1 : x);
        cr_assert_eq(o[17], fminf(x, y));
        cr_assert_eq(o[18], fmaxf(x, y));
        cr_assert_eq(o[19], copysignf(x, y));
    }
    device_close(&d);
}

Test(ptx_math, all_rounding_modes_of_float_match_their_definition)
{
    check_rounding("math");
}

Test(ptx_math, flushing_code_matches_where_nothing_is_subnormal)
{
    check_rounding("math_fast");
}

Test(ptx_math, rounding_does_not_depend_on_the_processor)
{
    check_rounding("math:portable");
    check_rounding("math_fast:portable");
}

/* ulps: of float, as the CUDA manual bounds its functions, with some room */
static void check_functions(const char *module, bool fast)
{
    static const double ulps[20] = {2, 2, 2, 2, 3, 1, 2, 4, 3, 3, 4, 2, 0, 0, 0, 0, 4, 0, 2, 0};
    struct device d;
    device_open(&d, module);
    int n = 1000;
    float *in = device_alloc(&d, 4000), *out = device_alloc(&d, 80000);
    uint32_t seed = 62;
    for (int i = 0; i < n; i++)
        in[i] = random_float(&seed) * (i % 10 == 0 && !fast ? 1e5f : 8.0f); /* large ones reduce the argument */
    device_run(&d, "math32", SIZE1(8, 128), ARGS(&in, &out, &n));
    for (int i = 0; i < n; i++) {
        const float *o = out + 20 * i;
        double x = in[i];
        const double want[20] = {exp(x),
                                 log(fabs(x)),
                                 sin(x),
                                 cos(x),
                                 tanh(x),
                                 sqrt(fabs(x)),
                                 1 / sqrt(fabs(x)),
                                 pow(fabs(x), (double)1.7f),
                                 erf(x),
                                 exp(x),
                                 log(fabs(x)),
                                 1 / x,
                                 floor(x),
                                 ceil(x),
                                 trunc(x),
                                 rint(x),
                                 atan2(x, 2),
                                 fmod(x, (double)0.7f),
                                 cbrt(x),
                                 ldexp(x, 3)};
        for (int j = 0; j < 20; j++) {
            double ulp = fabs(want[j]) * 0x1p-23 + 0x1p-149, tolerance = ulps[j] * ulp;
            if (fast || (j >= 9 && j <= 11)) /* hardware functions: absolute error near zeros, of logarithms too */
                tolerance = fmax(0x1p-18 * fabs(want[j]), 0x1p-20);
            if (fast && j == 17)
                continue; /* the fast remainder multiplies by a reciprocal */
            if (isinf((float)want[j]) || fabs(want[j]) > 1e37) {
                cr_assert(isinf(o[j]) || fabsf(o[j]) > 1e37f, "function %d of %a", j, x);
                continue;
            }
            cr_assert(fabs((double)o[j] - want[j]) <= tolerance + 0x1p-140, "function %d of %a: %a, not %a", j, x,
                      (double)o[j], want[j]);
        }
    }
    device_close(&d);
}

Test(ptx_math, library_functions_of_float_are_close)
{
    check_functions("math", false);
}

Test(ptx_math, fast_functions_of_float_are_close)
{
    check_functions("math_fast", true);
}

Test(ptx_math, library_functions_of_double_are_close)
{
    struct device d;
    device_open(&d, "math");
    int n = 1000;
    double *in = device_alloc(&d, 8000), *out = device_alloc(&d, 96000);
    uint32_t seed = 63;
    for (int i = 0; i < n; i++)
        in[i] = ((double)random_float(&seed) + (double)random_float(&seed) * 0x1p-24) * (i % 10 == 0 ? 1e8 : 20.0);
    device_run(&d, "math64", SIZE1(8, 128), ARGS(&in, &out, &n));
    for (int i = 0; i < n; i++) {
        const double *o = out + 12 * i, x = in[i];
        const double want[12] = {exp(x),  log(fabs(x)),      sin(x),   cos(x),  tanh(x),         sqrt(fabs(x)),
                                 1.0 / x, pow(fabs(x), 1.7), floor(x), rint(x), fma(x, x, -1.0), 1 / sqrt(fabs(x))};
        for (int j = 0; j < 12; j++) {
            bool exact = j == 5 || j == 6 || (j >= 8 && j <= 10);
            if (isinf(want[j]) || fabs(want[j]) < DBL_MIN) {
                cr_assert(o[j] == want[j] || fabs(o[j]) < 1e-300, "function %d of %a: %a, not %a", j, x, o[j], want[j]);
                continue;
            }
            cr_assert(fabs(o[j] - want[j]) <= (exact ? 0 : 4) * fabs(want[j]) * 0x1p-52,
                      "function %d of %a: %a, not %a", j, x, o[j], want[j]);
        }
    }
    device_close(&d);
}

static long double whole(long double x, char mode)
{
    return mode == 'z' ? truncl(x) : mode == 'u' ? ceill(x) : mode == 'd' ? floorl(x) : rintl(x);
}

static long long clamp(long double x, long double low, long double high)
{
    return x != x ? 0 : (long long)(x < low ? low : x > high ? high : x);
}

static unsigned long long clamp_unsigned(long double x)
{
    return x < 0 ? 0 : x >= 0x1p64L ? ~0ull : (unsigned long long)x;
}

Test(ptx_math, floats_convert_to_integers_with_clamping)
{
    struct device d;
    device_open(&d, "math");
    static const float edges[] = {0.5f,          1.5f,           2.5f,     -0.5f,         -1.5f,         2147483520.0f,
                                  2147483648.0f, -2147483648.0f, -3e9f,    4294967040.0f, 4294967296.0f, 5e9f,
                                  9.2e18f,       9.3e18f,        -9.3e18f, 1.8e19f,       1.9e19f,       INFINITY,
                                  -INFINITY,     1e-30f,         127.4f,   300.0f,        -129.0f,       65535.0f};
    int n = 500;
    float *in = device_alloc(&d, 2000);
    int *out = device_alloc(&d, 24000);
    uint32_t seed = 64;
    for (int i = 0; i < n; i++)
        in[i] = i < 24 ? edges[i] : random_float(&seed) * ldexpf(1, (int)(random32(&seed) % 70));
    in[499] = NAN;
    device_run(&d, "convert_float", SIZE1(4, 128), ARGS(&in, &out, &n));
    for (int i = 0; i < n; i++) {
        long double x = in[i];
        const int *o = out + 12 * i;
        static const char modes[] = {'z', 'n', 'u', 'd'};
        for (int j = 0; j < 4; j++)
            cr_assert_eq(o[j], (int)clamp(whole(x, modes[j]), INT32_MIN, INT32_MAX), "%La", x);
        cr_assert_eq((unsigned)o[4], (unsigned)clamp(whole(x, 'z'), 0, UINT32_MAX), "%La", x);
        cr_assert_eq((unsigned)o[5], (unsigned)clamp(whole(x, 'n'), 0, UINT32_MAX), "%La", x);
        long long w = x >= 0x1p63L ? INT64_MAX : x < -0x1p63L ? INT64_MIN : x != x ? INT64_MIN : (long long)x;
        unsigned long long u = x != x ? 1ull << 63 : clamp_unsigned(whole(x, 'n'));
        cr_assert_eq((unsigned)o[6] | (unsigned long long)(unsigned)o[7] << 32, (unsigned long long)w, "%La", x);
        cr_assert_eq((unsigned)o[8] | (unsigned long long)(unsigned)o[9] << 32, u, "%La", x);
    }
    device_close(&d);
}

/* The float (or double, bits = 53) that is nearest, below or above an integer, by search. */
static double round_integer(__int128 v, int bits, char mode)
{
    bool negative = v < 0;
    unsigned __int128 m = negative ? (unsigned __int128)-v : (unsigned __int128)v, unit = 1;
    while (m / unit >= (unsigned __int128)1 << bits)
        unit *= 2;
    unsigned __int128 low = m / unit * unit, rest = m - low;
    bool up = mode == 'z'   ? false
              : mode == 'u' ? rest && !negative
                            : rest * 2 > unit || (rest * 2 == unit && low / unit % 2);
    double r = (double)(low + (up ? unit : 0));
    return negative ? -r : r;
}

Test(ptx_math, integers_convert_to_floats_in_all_directions)
{
    struct device d;
    device_open(&d, "math");
    int n = 1000;
    long long *in = device_alloc(&d, 8000);
    float *f = device_alloc(&d, 32000);
    double *g = device_alloc(&d, 32000);
    uint32_t seed = 65;
    for (int i = 0; i < n; i++)
        in[i] = (long long)(((uint64_t)random32(&seed) << 32 | random32(&seed)) >> random32(&seed) % 64);
    in[0] = INT64_MIN;
    in[1] = -1;
    in[2] = 0;
    in[3] = 0x1000001; /* half way between two floats */
    in[4] = 0x1000003;
    device_run(&d, "convert_integer", SIZE1(8, 128), ARGS(&in, &f, &g, &n));
    for (int i = 0; i < n; i++) {
        long long v = in[i];
        unsigned long long u = (unsigned long long)v;
        cr_assert_eq((double)f[8 * i], round_integer(v, 24, 'n'), "%lld", v);
        cr_assert_eq((double)f[8 * i + 1], round_integer(v, 24, 'z'), "%lld", v);
        cr_assert_eq((double)f[8 * i + 2], round_integer(u, 24, 'n'), "%lld", v);
        cr_assert_eq((double)f[8 * i + 3], round_integer((int)v, 24, 'n'), "%lld", v);
        cr_assert_eq((double)f[8 * i + 4], round_integer((unsigned)v, 24, 'z'), "%lld", v);
        cr_assert_eq((double)f[8 * i + 5], round_integer(u, 24, 'u'), "%lld", v);
        cr_assert_eq(f[8 * i + 6], (float)(short)v);
        cr_assert_eq(f[8 * i + 7], (float)(unsigned char)v);
        cr_assert_eq(g[4 * i], round_integer(v, 53, 'n'));
        cr_assert_eq(g[4 * i + 1], round_integer(u, 53, 'z'));
        cr_assert_eq(g[4 * i + 2], (double)(int)v);
        cr_assert_eq(g[4 * i + 3], (double)(unsigned)v);
    }
    device_close(&d);
}

Test(ptx_math, doubles_convert_to_everything)
{
    struct device d;
    device_open(&d, "math");
    int n = 1000;
    double *in = device_alloc(&d, 8000);
    float *f = device_alloc(&d, 12000);
    long long *l = device_alloc(&d, 32000);
    uint32_t seed = 66;
    for (int i = 0; i < n; i++)
        in[i] = ((double)random_float(&seed) + (double)random_float(&seed) * 0x1p-24) *
                ldexp(1, (int)(random32(&seed) % 70) - 2);
    in[0] = 1.0 + 0x1p-24; /* half way between two floats */
    in[1] = 1.0 + 0x1p-24 + 0x1p-52;
    in[2] = 0x1.fffffefp127;
    device_run(&d, "convert_double", SIZE1(8, 128), ARGS(&in, &f, &l, &n));
    cr_assert_eq(f[0], 1.0f);
    cr_assert_eq(f[3], nextafterf(1.0f, 2.0f));
    for (int i = 0; i < n; i++) {
        double x = in[i];
        cr_assert_eq(f[3 * i], (float)x);
        float zero = (float)x, up = (float)x;
        if (fabs((double)zero) > fabs(x))
            zero = nextafterf(zero, 0);
        if ((double)up < x)
            up = nextafterf(up, INFINITY);
        cr_assert_eq(f[3 * i + 1], zero);
        cr_assert_eq(f[3 * i + 2], up);
        long double w = x;
        cr_assert_eq(l[4 * i], x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : (long long)x);
        cr_assert_eq((unsigned long long)l[4 * i + 1], clamp_unsigned(truncl(w)));
        cr_assert_eq(l[4 * i + 2], clamp(rintl(w), INT32_MIN, INT32_MAX));
        cr_assert_eq(l[4 * i + 3], clamp(ceill(w), 0, UINT32_MAX));
    }
    device_close(&d);
}

/* A kernel on one value, written in PTX. */
static uint32_t one(const char *instruction, uint32_t a, uint32_t b, uint32_t c)
{
    char text[2048];
    struct device d;
    snprintf(text, sizeof(text),
             ".version 8.0\n.target sm_90\n.address_size 64\n"
             ".visible .entry k(.param .u64 p, .param .u32 a, .param .u32 b, .param .u32 c)\n{\n"
             ".reg .b64 %%rd<3>; .reg .b32 %%r<10>; .reg .f32 %%f<10>; .reg .pred %%p<4>; .reg .b16 %%h<4>; .reg .f64 "
             "%%d<4>;\n"
             "ld.param.u64 %%rd1, [p];\nld.param.b32 %%r1, [a];\nld.param.b32 %%r2, [b];\nld.param.b32 %%r3, [c];\n"
             "mov.b32 %%f1, %%r1; mov.b32 %%f2, %%r2; mov.b32 %%f3, %%r3;\nmov.b32 %%r0, 0;\n%s\n"
             "st.global.b32 [%%rd1], %%r0;\nret;\n}\n",
             instruction);
    device_open_text(&d, text);
    uint32_t *out = device_alloc(&d, 4), result;
    device_run(&d, "k", SIZE1(1, 1), ARGS(&out, &a, &b, &c));
    result = *out;
    device_close(&d);
    return result;
}

Test(ptx_math, not_a_number_has_the_pattern_of_the_device)
{
    cr_assert_eq(one("add.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;", 0x7f800000, 0xff800000, 0), 0x7fffffff);
    cr_assert_eq(one("mul.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;", 0xffc12345, 0x3f800000, 0), 0x7fffffff);
    cr_assert_eq(one("sqrt.rn.f32 %f0, %f1; mov.b32 %r0, %f0;", 0xbf800000, 0, 0), 0x7fffffff);
    cr_assert_eq(one("min.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;", 0x7fc00000, 0x40000000, 0), 0x40000000);
    cr_assert_eq(one("min.NaN.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;", 0x7fc00000, 0x40000000, 0), 0x7fffffff);
    cr_assert_eq(one("max.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;", 0x80000000, 0x00000000, 0), 0x00000000);
    cr_assert_eq(one("min.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;", 0x00000000, 0x80000000, 0), 0x80000000);
    /* seen on an H200: f64 to f32 keeps sign and payload; the reciprocal of huge divisors is zero in div.approx */
    cr_assert_eq(one("mov.b64 %d1, {%r1, %r2}; cvt.rn.f32.f64 %f0, %d1; mov.b32 %r0, %f0;", 0xdff, 0xffffffff, 0),
                 0xfffffff8);
    cr_assert_eq(one("div.approx.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;", 0xbf800000, 0x7f000000, 0), 0x80000000);
    cr_assert_eq(one("div.full.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;", 0x40000000, 0x7e800000, 0), 0x01000000);
    cr_assert_eq(one("add.sat.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;", 0x7fc00000, 0, 0), 0);
}

Test(ptx_math, subnormals_are_kept_or_flushed_as_the_instruction_says)
{
    cr_assert_eq(one("add.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;", 1, 1, 0), 2);
    cr_assert_eq(one("add.ftz.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;", 0x80000001, 0x80000001, 0), 0x80000000);
    cr_assert_eq(one("mul.ftz.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;", 0x00800000, 0x3f000000, 0), 0);
    cr_assert_eq(one("mul.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;", 0x00800000, 0x3f000000, 0), 0x00400000);
    cr_assert_eq(one("fma.rn.ftz.f32 %f0, %f1, %f2, %f3; mov.b32 %r0, %f0;", 0x3f800000, 0x00400000, 0x00400000), 0);
    cr_assert_eq(one("setp.gt.ftz.f32 %p1, %f1, %f2; selp.b32 %r0, 1, 0, %p1;", 1, 0, 0), 0);
    cr_assert_eq(one("setp.gt.f32 %p1, %f1, %f2; selp.b32 %r0, 1, 0, %p1;", 1, 0, 0), 1);
    cr_assert_eq(one("testp.subnormal.f32 %p1, %f1; selp.b32 %r0, 1, 0, %p1;", 1, 0, 0), 1);
}

Test(ptx_math, comparisons_know_unordered_operands)
{
    static const struct {
        const char *name;
        int less, equal, greater, unordered;
    } cases[] = {{"eq", 0, 1, 0, 0},  {"ne", 1, 0, 1, 0},  {"lt", 1, 0, 0, 0},  {"le", 1, 1, 0, 0},
                 {"gt", 0, 0, 1, 0},  {"ge", 0, 1, 1, 0},  {"equ", 0, 1, 0, 1}, {"neu", 1, 0, 1, 1},
                 {"ltu", 1, 0, 0, 1}, {"leu", 1, 1, 0, 1}, {"gtu", 0, 0, 1, 1}, {"geu", 0, 1, 1, 1},
                 {"num", 1, 1, 1, 0}, {"nan", 0, 0, 0, 1}};
    const uint32_t one_f = 0x3f800000, two_f = 0x40000000, nan_f = 0x7fc00000;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[160];
        snprintf(text, sizeof(text),
                 "setp.%s.f32 %%p1|%%p2, %%f1, %%f2; selp.b32 %%r0, 1, 2, %%p1; @%%p2 add.u32 %%r0, %%r0, 4;",
                 cases[i].name);
        cr_assert_eq(one(text, one_f, two_f, 0), cases[i].less ? 1u : 6u, "%s less", cases[i].name);
        cr_assert_eq(one(text, one_f, one_f, 0), cases[i].equal ? 1u : 6u, "%s equal", cases[i].name);
        cr_assert_eq(one(text, two_f, one_f, 0), cases[i].greater ? 1u : 6u, "%s greater", cases[i].name);
        cr_assert_eq(one(text, nan_f, one_f, 0), cases[i].unordered ? 1u : 6u, "%s unordered", cases[i].name);
    }
    cr_assert_eq(one("setp.lo.u32 %p1, %r1, %r2; selp.b32 %r0, 1, 0, %p1;", 1, 0xffffffff, 0), 1);
    cr_assert_eq(one("setp.lt.s32 %p1, %r1, %r2; selp.b32 %r0, 1, 0, %p1;", 1, 0xffffffff, 0), 0);
    cr_assert_eq(one("setp.ne.s32 %p2, %r3, 0; setp.lt.and.s32 %p1, %r1, %r2, !%p2; selp.b32 %r0, 1, 0, %p1;", 1, 2, 7),
                 0);
    cr_assert_eq(one("set.lt.u32.f32 %r0, %f1, %f2;", one_f, two_f, 0), 0xffffffff);
    cr_assert_eq(one("set.lt.f32.s32 %f0, %r1, %r2; mov.b32 %r0, %f0;", 1, 2, 0), one_f);
}

Test(ptx_math, packing_and_special_operands_work)
{
    cr_assert_eq(one("mov.b32 {%h1, %h2}, %r1; mov.b32 %r0, {%h2, %h1};", 0x12345678, 0, 0), 0x56781234);
    cr_assert_eq(one("cvt.rn.f16x2.f32 %r0, %f1, %f2;", 0x3f800000, 0x40000000, 0), 0x3c004000);
    cr_assert_eq(one("cvt.rna.tf32.f32 %r0, %f1;", 0x3f801000, 0, 0), 0x3f802000);
    cr_assert_eq(one("cvt.sat.u8.s32 %r0, %r1;", (uint32_t)-5, 0, 0), 0);
    cr_assert_eq(one("cvt.sat.s8.s32 %r0, %r1;", 300, 0, 0), 127);
    cr_assert_eq(one("add.u32 %r0, %tid.x, WARP_SZ;", 0, 0, 0), 32);
    cr_assert_eq(one("mad.lo.u32 %r0, %ntid.x, 7, %r1;", 5, 0, 0), 12);
    cr_assert_eq(one("bmsk.clamp.b32 %r0, %r1, %r2;", 4, 8, 0), 0xff0);
    cr_assert_eq(one("szext.wrap.s32 %r0, %r1, %r2;", 0x8, 4, 0), 0xfffffff8);
}
