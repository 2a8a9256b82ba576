/* SPDX-License-Identifier: Apache-2.0
 *
 * Integer and bit instructions against plain C.
 */
#include "tests/simcuda/ptx_tests/harness.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { N = 128, ROW = 40 };

static void fill(uint32_t *in)
{
    static const uint32_t edges[] = {0,          1,          2,          0x80000000, 0x7fffffff, 0xffffffff,
                                     0xfffffffe, 0x55555555, 0xaaaaaaaa, 0x0000ffff, 0xffff0000, 31,
                                     32,         33,         63,         0x00ff00ff};
    uint32_t seed = 21;
    for (int i = 0; i < N; i++)
        in[i] = i < 16 ? edges[i] : random32(&seed) >> (i % 5 == 0 ? random32(&seed) % 32 : 0);
}

static uint32_t reverse(uint32_t v)
{
    uint32_t r = 0;
    for (int i = 0; i < 32; i++)
        r |= (v >> i & 1) << (31 - i);
    return r;
}

/* From the text of the PTX manual: bit by bit. */
static uint32_t bfe(uint32_t a, uint32_t pos, uint32_t len, bool is_signed)
{
    uint32_t d = 0, fill_bit = 0;
    pos &= 0xff;
    len &= 0xff;
    if (is_signed && len)
        fill_bit = a >> (pos + len - 1 < 31 ? pos + len - 1 : 31) & 1;
    for (uint32_t i = 0; i < 32; i++)
        d |= (i < len && pos + i <= 31 ? a >> (pos + i) & 1 : fill_bit) << i;
    return d;
}

static uint32_t bfi(uint32_t a, uint32_t b, uint32_t pos, uint32_t len)
{
    for (uint32_t i = 0; i < len && pos + i <= 31; i++)
        b = (b & ~(1u << (pos + i))) | (a >> i & 1) << (pos + i);
    return b;
}

static uint32_t bfind(uint32_t a, bool is_signed, bool shift)
{
    if (is_signed && a >> 31)
        a = ~a;
    for (uint32_t i = 32; i-- > 0;) {
        if (a >> i & 1)
            return shift ? 31 - i : i;
    }
    return 0xffffffff;
}

static uint32_t fns(uint32_t mask, uint32_t base, int offset)
{
    if (offset == 0)
        return mask >> base & 1 ? base : 0xffffffff;
    int step = offset > 0 ? 1 : -1, left = abs(offset);
    for (int at = (int)base; at >= 0 && at <= 31; at += step) {
        if (mask >> at & 1 && --left == 0)
            return (uint32_t)at;
    }
    return 0xffffffff;
}

static uint32_t prmt(uint32_t a, uint32_t b, uint32_t c)
{
    uint64_t both = (uint64_t)b << 32 | a;
    uint32_t d = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t pick = c >> 4 * i & 7, byte = both >> 8 * pick & 0xff;
        if (c >> 4 * i & 8)
            byte = byte & 0x80 ? 0xff : 0;
        d |= byte << 8 * i;
    }
    return d;
}

static uint32_t dot4(uint32_t a, uint32_t b, uint32_t c, bool is_signed)
{
    for (int i = 0; i < 32; i += 8)
        c += is_signed ? (uint32_t)((int8_t)(a >> i) * (int8_t)(b >> i)) : (a >> i & 0xff) * (b >> i & 0xff);
    return c;
}

static void expect32(const uint32_t *in, int i, uint32_t *o)
{
    uint32_t a = in[i], b = in[(i + 1) % N], c = in[(i + 2) % N];
    int32_t sa = (int32_t)a, sb = (int32_t)b;
    uint64_t ba = (uint64_t)b << 32 | a;
    int64_t sum = (int64_t)sa + sb;
    o[0] = (uint32_t)__builtin_popcount(a);
    o[1] = a ? (uint32_t)__builtin_clz(a) : 32;
    o[2] = (uint32_t)__builtin_ffs((int)a);
    o[3] = reverse(a);
    o[4] = prmt(a, b, c & 0x7777);
    o[5] = bfe(a, b & 63, c & 63, false);
    o[6] = bfe(a, b & 63, c & 63, true);
    o[7] = bfi(a, b, c & 31, a & 31);
    o[8] = bfind(a, false, false);
    o[9] = bfind(a, true, false);
    o[10] = bfind(a, false, true);
    o[11] = fns(a, b & 31, (int)(c % 7) - 3);
    o[12] = a ^ b ^ c;
    o[13] = (a & b) | (~a & c);
    o[14] = (uint32_t)(ba << (c & 31) >> 32);
    o[15] = (uint32_t)(ba >> (c & 31));
    o[16] = (c & 63) >= 32 ? a : (uint32_t)(ba << (c & 63) >> 32);
    o[17] = (c & 63) >= 32 ? b : (uint32_t)(ba >> (c & 63));
    o[18] = (uint32_t)((uint64_t)a * b >> 32);
    o[19] = (uint32_t)((int64_t)sa * sb >> 32);
    o[20] = (a & 0xffffff) * (b & 0xffffff);
    o[21] = (uint32_t)((int64_t)((int32_t)(a << 8) >> 8) * ((int32_t)(b << 8) >> 8));
    o[22] = c + (sa < sb ? b - a : a - b);
    o[23] = c + (a < b ? b - a : a - b);
    o[24] = dot4(a, b, c, true);
    o[25] = dot4(a, b, c, false);
    o[26] = c + (uint32_t)((int16_t)a * (int8_t)b) + (uint32_t)((int16_t)(a >> 16) * (int8_t)(b >> 8));
    o[27] = c + (a & 0xffff) * (b >> 16 & 0xff) + (a >> 16) * (b >> 24);
    o[28] = b ? a / b : 0;
    o[29] = b ? a % b : 0;
    o[30] = b ? (uint32_t)((int64_t)sa / sb) : 0;
    o[31] = b ? (uint32_t)((int64_t)sa % sb) : 0;
    o[32] = sa < 0 ? -a : a;
    o[33] = (b & 63) > 31 ? 0 : a << (b & 63);
    o[34] = (uint32_t)(sa >> ((b & 63) > 31 ? 31 : b & 63));
    o[35] = (b & 63) > 31 ? 0 : a >> (b & 63);
    o[36] = !(a & 1);
    o[37] = (uint32_t)(ba >> 8 * (c & 3));
    o[38] = (uint32_t)(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
    o[39] = (int32_t)c >= 0 ? a : b;
}

Test(ptx_bits, bit_instructions_of_32_bits_match)
{
    struct device d;
    uint32_t want[ROW];
    device_open(&d, "bits");
    uint32_t *in = device_alloc(&d, 4 * N), *out = device_alloc(&d, 4 * N * ROW);
    fill(in);
    device_run(&d, "bits32", SIZE1(1, N), ARGS(&in, &out));
    for (int i = 0; i < N; i++) {
        memset(want, 0, sizeof(want));
        expect32(in, i, want);
        for (int j = 0; j < ROW; j++)
            cr_assert_eq(out[i * ROW + j], want[j], "thread %d result %d: 0x%x, not 0x%x (a=0x%x b=0x%x c=0x%x)", i, j,
                         out[i * ROW + j], want[j], in[i], in[(i + 1) % N], in[(i + 2) % N]);
    }
    device_close(&d);
}

static uint64_t bfe64(uint64_t a, unsigned pos, unsigned len)
{
    uint64_t d = 0, fill_bit = 0;
    if (len)
        fill_bit = a >> (pos + len - 1 < 63 ? pos + len - 1 : 63) & 1;
    for (unsigned i = 0; i < 64; i++)
        d |= (i < len && pos + i <= 63 ? a >> (pos + i) & 1 : fill_bit) << i;
    return d;
}

Test(ptx_bits, arithmetic_of_64_bits_matches)
{
    struct device d;
    device_open(&d, "bits");
    uint64_t *in = device_alloc(&d, 8 * N), *out = device_alloc(&d, 8 * N * 20);
    uint32_t words[N];
    fill(words);
    for (int i = 0; i < N; i++)
        in[i] = (uint64_t)words[i] << 32 | words[(i * 7 + 3) % N];
    in[0] = 1ull << 63;
    in[1] = ~0ull; /* the quotient that does not fit */
    in[2] = 0;
    device_run(&d, "bits64", SIZE1(1, N), ARGS(&in, &out));
    for (int i = 0; i < N; i++) {
        uint64_t a = in[i], b = in[(i + 1) % N], *o = out + 20 * i, r = 0;
        int64_t sa = (int64_t)a, sb = (int64_t)b;
        bool wraps = sb == -1; /* C leaves the quotient of the smallest number open */
        for (int j = 0; j < 64; j++)
            r |= (a >> j & 1) << (63 - j);
        cr_assert_eq(o[0], a * b);
        cr_assert_eq(o[1], (uint64_t)((unsigned __int128)a * b >> 64));
        cr_assert_eq(o[2], (uint64_t)((__int128)sa * sb >> 64));
        cr_assert_eq(o[3], b ? a / b : 0);
        cr_assert_eq(o[4], b ? a % b : 0);
        cr_assert_eq(o[5], !b ? 0 : wraps ? -a : (uint64_t)(sa / sb), "thread %d", i);
        cr_assert_eq(o[6], !b || wraps ? 0 : (uint64_t)(sa % sb), "thread %d", i);
        cr_assert_eq(o[7], (uint64_t)__builtin_popcountll(a));
        cr_assert_eq(o[8], a ? (uint64_t)__builtin_clzll(a) : 64);
        cr_assert_eq(o[9], r);
        cr_assert_eq(o[10], (uint64_t)__builtin_ffsll((long long)a));
        cr_assert_eq(o[11], a << (b & 63));
        cr_assert_eq(o[12], a >> (b & 63));
        cr_assert_eq(o[13], (uint64_t)(sa >> (b & 63)));
        cr_assert_eq(o[14], sa < 0 ? -a : a);
        cr_assert_eq(o[15], sa < sb ? a : b);
        cr_assert_eq(o[16], a < b ? a : b);
        cr_assert_eq(o[17], (uint64_t)(uint32_t)a * (uint32_t)b + a);
        cr_assert_eq(o[18], (uint64_t)((int64_t)(int32_t)a * (int32_t)b) + a);
        cr_assert_eq(o[19], bfe64(a, b & 127, b >> 8 & 127));
    }
    device_close(&d);
}

Test(ptx_bits, carry_chains_make_128_bit_numbers)
{
    struct device d;
    device_open(&d, "bits");
    uint64_t *in = device_alloc(&d, 8 * 4 * N), *out = device_alloc(&d, 8 * 10 * N);
    uint32_t seed = 23;
    for (int i = 0; i < 4 * N; i++)
        in[i] = i % 3 == 0 ? ~0ull : (uint64_t)random32(&seed) << 32 | random32(&seed);
    device_run(&d, "wide128", SIZE1(1, N), ARGS(&in, &out));
    for (int i = 0; i < N; i++) {
        const uint64_t *a = in + 4 * i, *o = out + 10 * i;
        unsigned __int128 x = (unsigned __int128)a[1] << 64 | a[0], y = (unsigned __int128)a[3] << 64 | a[2];
        unsigned __int128 sum = x + y, difference = x - y, product = x * y;
        uint32_t a0 = (uint32_t)a[0], a2 = (uint32_t)a[2];
        uint64_t small = (uint64_t)a0 * a2, low = (uint32_t)small + (uint64_t)(uint32_t)a[1];
        uint32_t high = (uint32_t)(small >> 32) + (uint32_t)a[3] + (uint32_t)(low >> 32);
        cr_assert_eq(o[0], (uint64_t)sum);
        cr_assert_eq(o[1], (uint64_t)(sum >> 64));
        cr_assert_eq(o[2], (uint64_t)difference);
        cr_assert_eq(o[3], (uint64_t)(difference >> 64));
        cr_assert_eq(o[4], (uint64_t)product);
        cr_assert_eq(o[5], (uint64_t)(product >> 64));
        cr_assert_eq(o[6], (uint64_t)sum);
        cr_assert_eq(o[7], (uint64_t)(sum >> 64));
        cr_assert_eq(o[8], sum < x);
        cr_assert_eq(o[9], (uint64_t)high << 32 | (uint32_t)low);
    }
    device_close(&d);
}
