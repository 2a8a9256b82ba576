/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchange between the lanes of a warp.
 */
#include "tests/simcuda/ptx_tests/harness.h"

#include <criterion/criterion.h>
#include <string.h>

/* Optimised and unoptimised code of the same source, and the interpreter for any processor. */
#define EACH(name)                                                                                                     \
    static void name(const char *module);                                                                              \
    Test(ptx_warp, name)                                                                                               \
    {                                                                                                                  \
        name("warp");                                                                                                  \
    }                                                                                                                  \
    Test(ptx_warp, name##_unoptimised)                                                                                 \
    {                                                                                                                  \
        name("warp_debug");                                                                                            \
    }                                                                                                                  \
    Test(ptx_warp, name##_portable)                                                                                    \
    {                                                                                                                  \
        name("warp:portable");                                                                                         \
    }                                                                                                                  \
    static void name(const char *module)

EACH(votes_and_matches_match)
{
    struct device d;
    device_open(&d, module);
    int *in = device_alloc(&d, 256);
    unsigned *out = device_alloc(&d, 4u * 64 * 8);
    for (int i = 0; i < 64; i++)
        in[i] = i < 32 ? i * 5 % 9 : 12; /* the second warp agrees on everything */
    device_run(&d, "votes", SIZE1(1, 64), ARGS(&in, &out));
    for (int w = 0; w < 2; w++) {
        unsigned odd = 0, any = 0;
        for (int i = 0; i < 32; i++) {
            odd |= (unsigned)(in[32 * w + i] & 1) << i;
            any |= in[32 * w + i] == 3;
        }
        for (int i = 0; i < 32; i++) {
            const unsigned *o = out + (32 * w + i) * 8;
            unsigned same = 0;
            for (int j = 0; j < 32; j++)
                same |= (unsigned)((in[32 * w + j] & 7) == (in[32 * w + i] & 7)) << j;
            cr_assert_eq(o[0], odd);
            cr_assert_eq(o[1], 1);
            cr_assert_eq(o[2], any);
            cr_assert_eq(o[3], same, "warp %d lane %d: 0x%x, not 0x%x", w, i, o[3], same);
            cr_assert_eq(o[4], 0xffffffff);
            cr_assert_eq(o[5], 1);
            cr_assert_eq(o[6], w ? 0xffffffff : 0);
            cr_assert_eq(o[7], (unsigned)w);
        }
    }
    device_close(&d);
}

EACH(votes_in_divergent_code_see_their_members_only)
{
    struct device d;
    device_open(&d, module);
    int *in = device_alloc(&d, 128);
    unsigned *out = device_alloc(&d, 384), odd = 0, two = 0, four = 0;
    for (int i = 0; i < 32; i++) {
        int v = in[i] = i * 11 % 23;
        odd |= (unsigned)(v & 1) << i;
        two |= (unsigned)(v & 1 && v & 2) << i;
        four |= (unsigned)(!(v & 1) && v & 4) << i;
    }
    device_run(&d, "divergent_votes", SIZE1(1, 32), ARGS(&in, &out));
    for (int i = 0; i < 32; i++) {
        bool is_odd = in[i] & 1;
        cr_assert_eq(out[3 * i], is_odd ? two : four, "lane %d", i);
        if (is_odd)
            cr_assert(out[3 * i + 1] >> i & 1 && !(out[3 * i + 1] & ~odd));
        else
            cr_assert_eq(out[3 * i + 1], odd);
        cr_assert_eq((int)out[3 * i + 2], in[__builtin_ctz(is_odd ? odd : ~odd)]);
    }
    device_close(&d);
}

EACH(shuffles_of_all_kinds_match)
{
    struct device d;
    device_open(&d, module);
    int *in = device_alloc(&d, 128), *out = device_alloc(&d, 1280);
    for (int i = 0; i < 32; i++)
        in[i] = 100 + i;
    device_run(&d, "shuffles", SIZE1(1, 32), ARGS(&in, &out));
    for (int i = 0; i < 32; i++) {
        const int *o = out + 10 * i;
        cr_assert_eq(o[0], in[5]);
        cr_assert_eq(o[1], in[i >= 3 ? i - 3 : i]);
        cr_assert_eq(o[2], in[i + 3 < 32 ? i + 3 : i]);
        cr_assert_eq(o[3], in[i ^ 9]);
        cr_assert_eq(o[4], in[(i & ~7) | ((i + 1) & 7)]);
        cr_assert_eq(o[5], in[(i & 7) >= 2 ? i - 2 : i]);
        cr_assert_eq(o[6], in[(i & 7) + 2 < 8 ? i + 2 : i]);
        cr_assert_eq(o[7], in[i ^ 3]);
        cr_assert_eq(o[8], in[i + 4 < 32 ? i + 4 : i]);
        cr_assert_eq(o[9], i + 4 < 32);
    }
    device_close(&d);
}

EACH(reductions_and_election_match)
{
    struct device d;
    device_open(&d, module);
    int *in = device_alloc(&d, 128), *out = device_alloc(&d, 1024), sum = 0, low = 0x7fffffff;
    unsigned high = 0, odd_bits = 0, all[2] = {~0u, ~0u}, any[2] = {0, 0};
    uint32_t seed = 41;
    for (int i = 0; i < 32; i++) {
        unsigned v = random32(&seed) | 0x10;
        in[i] = (int)v;
        sum = (int)((unsigned)sum + v);
        low = in[i] < low ? in[i] : low;
        high = v > high ? v : high;
        odd_bits ^= v;
        all[i & 1] &= v;
        any[i & 1] |= v;
    }
    device_run(&d, "reductions", SIZE1(1, 32), ARGS(&in, &out));
    for (int i = 0; i < 32; i++) {
        const int *o = out + 8 * i;
        cr_assert_eq(o[0], sum);
        cr_assert_eq(o[1], low);
        cr_assert_eq((unsigned)o[2], high);
        cr_assert_eq((unsigned)o[3], odd_bits);
        cr_assert_eq((unsigned)o[4], all[i & 1]);
        cr_assert_eq((unsigned)o[5], any[i & 1]);
        cr_assert_eq(o[6], i == 0);
        cr_assert_eq((unsigned)o[7], (1u << i) - 1);
    }
    device_close(&d);
}

EACH(both_sides_of_a_branch_meet_in_one_exchange)
{
    struct device d;
    device_open(&d, module);
    int *out = device_alloc(&d, 128);
    device_run(&d, "exchange_across_branch", SIZE1(1, 32), ARGS(&out));
    for (int i = 0; i < 32; i++)
        cr_assert_eq(out[i], i < 16 ? (i + 16) * 100 + 1 : (i - 16) * 10 + 2, "lane %d", i);
    device_close(&d);
}

EACH(a_lane_that_waits_for_another_lane_does_not_starve_it)
{
    struct device d;
    device_open(&d, module);
    int *box = device_alloc(&d, 4), *out = device_alloc(&d, 4);
    device_run(&d, "lane_hands_over", SIZE1(1, 32), ARGS(&box, &out));
    cr_assert_eq(out[0], 1234);
    device_close(&d);
}

EACH(special_registers_tell_the_launch)
{
    struct device d;
    struct ptx_launch launch;
    char params[8];
    device_open(&d, module);
    unsigned *out = device_alloc(&d, 4u * 10 * 5 * 70);
    size_t kernel = device_prepare(&d, "special_registers", SIZE_SHARED(5, 70, 1000), ARGS(&out), &launch, params);
    launch.sm_count = 4;
    cr_assert_eq(ptx_run(d.instance, kernel, &launch, NULL), 0);
    for (unsigned b = 0; b < 5; b++) {
        for (unsigned t = 0; t < 70; t++) {
            const unsigned *o = out + (b * 70 + t) * 10;
            cr_assert_eq(o[0], t % 32);
            cr_assert_eq(o[1], t / 32);
            cr_assert_eq(o[2], 3);
            cr_assert_eq(o[3], b % 4);
            cr_assert_eq(o[4], 4);
            cr_assert_eq(o[5], 1000);
            cr_assert_geq(o[6], 1000);
            cr_assert_eq(o[7], 0);
            cr_assert_eq(o[8], 1);
            cr_assert_eq(o[9], 1);
        }
    }
    device_close(&d);
}
