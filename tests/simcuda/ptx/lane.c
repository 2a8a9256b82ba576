/* SPDX-License-Identifier: Apache-2.0
 *
 * What one lane computes. Operands and results are raw bits; bits above the width of the type are junk on input and are
 * cut by the caller on output. Nothing here may trap: division by zero has a value.
 */
#include "tests/simcuda/ptx/internal.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { F32_NAN = 0x7fffffff, HALF_NAN = 0x7fff };

static const struct float_format format_f16 = {10, 5}, format_bf16 = {7, 8}, format_tf32 = {10, 8},
                                 format_f32 = {23, 8}, format_f64 = {52, 11};

static inline uint64_t zx(const struct insn *insn, uint64_t v)
{
    return v << insn->shift >> insn->shift;
}

static inline int64_t sx(const struct insn *insn, uint64_t v)
{
    return (int64_t)(v << insn->shift) >> insn->shift;
}

static inline bool is_signed(const struct insn *insn)
{
    return insn->type >= T_S8 && insn->type <= T_S64;
}

static inline unsigned bits_of(const struct insn *insn)
{
    return 64u - insn->shift;
}

static uint64_t extend(enum ptype type, uint64_t v)
{
    unsigned shift = 64 - type_bits(type);
    return type_is_signed(type) ? (uint64_t)((int64_t)(v << shift) >> shift) : v << shift >> shift;
}

#define LANE(name) uint64_t name(const struct insn *insn, uint64_t a, uint64_t b, uint64_t c, uint64_t d)

/* Most use some of the operands only. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* ---- integers ---- */

static uint64_t saturate32(int64_t v)
{
    return (uint64_t)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
}

LANE(lane_add)
{
    return insn->flags & F_SAT ? saturate32((int64_t)(int32_t)a + (int32_t)b) : a + b;
}

LANE(lane_sub)
{
    return insn->flags & F_SAT ? saturate32((int64_t)(int32_t)a - (int32_t)b) : a - b;
}

LANE(lane_mul_lo)
{
    return a * b;
}

LANE(lane_mul_hi)
{
    if (is_signed(insn))
        return (uint64_t)((__int128)sx(insn, a) * sx(insn, b) >> bits_of(insn));
    return (uint64_t)((unsigned __int128)zx(insn, a) * zx(insn, b) >> bits_of(insn));
}

LANE(lane_mul_wide)
{
    return is_signed(insn) ? (uint64_t)(sx(insn, a) * sx(insn, b)) : zx(insn, a) * zx(insn, b);
}

LANE(lane_mad_lo)
{
    return a * b + c;
}

LANE(lane_mad_hi)
{
    uint64_t high = lane_mul_hi(insn, a, b, 0, 0);
    return insn->flags & F_SAT ? saturate32((int64_t)(int32_t)high + (int32_t)c) : high + c;
}

LANE(lane_mad_wide)
{
    return lane_mul_wide(insn, a, b, 0, 0) + c;
}

/* 24 bits times 24 bits: the low 32 of 48, or the high 32 */
LANE(lane_mul24)
{
    uint64_t product = insn->type == T_S32 ? (uint64_t)(((int64_t)(a << 40) >> 40) * ((int64_t)(b << 40) >> 40))
                                           : (a & 0xffffff) * (b & 0xffffff);
    return insn->flags & F_HI ? product >> 16 : product;
}

LANE(lane_mad24)
{
    return lane_mul24(insn, a, b, 0, 0) + c;
}

/* The device's emulated division yields all ones for a zero divisor. */
LANE(lane_div)
{
    if (zx(insn, b) == 0)
        return UINT64_MAX;
    if (!is_signed(insn))
        return zx(insn, a) / zx(insn, b);
    return sx(insn, b) == -1 ? -a : (uint64_t)(sx(insn, a) / sx(insn, b));
}

LANE(lane_rem)
{
    if (zx(insn, b) == 0)
        return a;
    if (!is_signed(insn))
        return zx(insn, a) % zx(insn, b);
    return sx(insn, b) == -1 ? 0 : (uint64_t)(sx(insn, a) % sx(insn, b));
}

LANE(lane_abs)
{
    return sx(insn, a) < 0 ? -a : a;
}

LANE(lane_neg)
{
    return -a;
}

static bool less(const struct insn *insn, uint64_t a, uint64_t b)
{
    return is_signed(insn) ? sx(insn, a) < sx(insn, b) : zx(insn, a) < zx(insn, b);
}

static uint64_t relu(const struct insn *insn, uint64_t v)
{
    return insn->flags & F_RELU && sx(insn, v) < 0 ? 0 : v;
}

LANE(lane_min)
{
    return relu(insn, less(insn, a, b) ? a : b);
}

LANE(lane_max)
{
    return relu(insn, less(insn, a, b) ? b : a);
}

LANE(lane_sad)
{
    return c + (less(insn, a, b) ? (is_signed(insn) ? (uint64_t)sx(insn, b) - (uint64_t)sx(insn, a) : b - a)
                                 : (is_signed(insn) ? (uint64_t)sx(insn, a) - (uint64_t)sx(insn, b) : a - b));
}

LANE(lane_and)
{
    return a & b;
}

LANE(lane_or)
{
    return a | b;
}

LANE(lane_xor)
{
    return a ^ b;
}

LANE(lane_not)
{
    return ~a;
}

LANE(lane_cnot)
{
    return zx(insn, a) == 0;
}

LANE(lane_shl)
{
    return (uint32_t)b >= bits_of(insn) ? 0 : a << (uint32_t)b;
}

LANE(lane_shr)
{
    uint32_t n = (uint32_t)b;
    if (is_signed(insn))
        return (uint64_t)(sx(insn, a) >> (n > 63 ? 63 : n));
    return n >= bits_of(insn) ? 0 : zx(insn, a) >> n;
}

LANE(lane_shf)
{
    uint64_t both = (b & UINT32_MAX) << 32 | (a & UINT32_MAX);
    uint32_t n = (uint32_t)c;
    n = insn->flags & F_WRAP ? n & 31 : n > 32 ? 32 : n;
    return insn->flags & F_HI ? (n == 32 ? a : both << n >> 32) : (n == 32 ? b : both >> n);
}

LANE(lane_lop3)
{
    uint32_t x = (uint32_t)a, y = (uint32_t)b, z = (uint32_t)c, result = 0;
    for (unsigned i = 0; i < 8; i++) {
        if (insn->sub >> i & 1)
            result |= (i & 4 ? x : ~x) & (i & 2 ? y : ~y) & (i & 1 ? z : ~z);
    }
    return result;
}

LANE(lane_popc)
{
    return (uint64_t)__builtin_popcountll(zx(insn, a));
}

LANE(lane_clz)
{
    uint64_t v = zx(insn, a);
    return v ? (uint64_t)__builtin_clzll(v) - insn->shift : bits_of(insn);
}

LANE(lane_bfind)
{
    uint64_t v = is_signed(insn) && sx(insn, a) < 0 ? ~(uint64_t)sx(insn, a) : zx(insn, a);
    if (v == 0)
        return UINT32_MAX;
    uint64_t at = 63 - (uint64_t)__builtin_clzll(v);
    return insn->flags & F_WRAP ? bits_of(insn) - 1 - at : at;
}

LANE(lane_brev)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < bits_of(insn); i++)
        v |= (a >> i & 1) << (bits_of(insn) - 1 - i);
    return v;
}

LANE(lane_bfe)
{
    const unsigned top = bits_of(insn) - 1;
    const unsigned from = b & 0xff, length = c & 0xff;
    const unsigned last = from + length - 1 < top ? from + length - 1 : top; /* length 0 is handled below */
    uint64_t v = zx(insn, a);
    uint64_t fill = is_signed(insn) && length > 0 ? v >> last & 1 : 0;
    uint64_t field = from > top ? 0 : v >> from;
    unsigned have = from > top ? 0 : top + 1 - from;
    unsigned keep = length < have ? length : have;
    if (keep < 64)
        field &= (UINT64_C(1) << keep) - 1;
    if (fill && keep < 64)
        field |= UINT64_MAX << keep;
    return field;
}

LANE(lane_bfi)
{
    const unsigned bits = bits_of(insn), from = c & 0xff;
    unsigned length = d & 0xff;
    if (from >= bits || length == 0)
        return b;
    length = length > bits - from ? bits - from : length;
    uint64_t mask = (length == 64 ? UINT64_MAX : (UINT64_C(1) << length) - 1) << from;
    return (b & ~mask) | (a << from & mask);
}

/* The n-th set bit from a place: n > 0 upwards, n < 0 downwards, 0 = the place itself. */
LANE(lane_fns)
{
    uint32_t mask = (uint32_t)a, base = (uint32_t)b;
    int32_t n = (int32_t)c;
    if (n == 0)
        return base < 32 && mask >> base & 1 ? base : UINT32_MAX;
    int step = n < 0 ? -1 : 1;
    uint32_t count = n < 0 ? 0u - (uint32_t)n : (uint32_t)n;
    for (int64_t at = base; at >= 0 && at < 32; at += step) {
        if (mask >> at & 1 && --count == 0)
            return (uint64_t)at;
    }
    return UINT32_MAX;
}

LANE(lane_prmt)
{
    enum { DEFAULT, F4E, B4E, RC8, ECL, ECR, RC16 };
    uint64_t both = (b & UINT32_MAX) << 32 | (a & UINT32_MAX);
    uint32_t result = 0, control = (uint32_t)c, n = control & 3;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t pick;
        switch (insn->sub) {
        case F4E:
            pick = n + i;
            break;
        case B4E:
            pick = (n - i) & 7;
            break;
        case RC8:
            pick = n;
            break;
        case ECL:
            pick = i > n ? i : n;
            break;
        case ECR:
            pick = i < n ? i : n;
            break;
        case RC16:
            pick = (n & 1) * 2 + (i & 1);
            break;
        default:
            pick = control >> 4 * i & 15;
        }
        uint32_t byte = both >> 8 * (pick & 7) & 0xff;
        if (insn->sub == DEFAULT && pick & 8)
            byte = byte & 0x80 ? 0xff : 0;
        result |= byte << 8 * i;
    }
    return result;
}

static int32_t piece(uint64_t v, unsigned at, unsigned bits, bool negative)
{
    uint32_t raw = (uint32_t)(v >> at) << (32 - bits);
    return negative ? (int32_t)raw >> (32 - bits) : (int32_t)(raw >> (32 - bits));
}

LANE(lane_dp4a)
{
    uint32_t sum = (uint32_t)c;
    for (unsigned i = 0; i < 32; i += 8)
        sum += (uint32_t)(piece(a, i, 8, insn->type == T_S32) * piece(b, i, 8, insn->type2 == T_S32));
    return sum;
}

LANE(lane_dp2a)
{
    uint32_t sum = (uint32_t)c;
    unsigned second = insn->flags & F_HI ? 16 : 0;
    for (unsigned i = 0; i < 2; i++)
        sum +=
            (uint32_t)(piece(a, 16 * i, 16, insn->type == T_S32) * piece(b, second + 8 * i, 8, insn->type2 == T_S32));
    return sum;
}

LANE(lane_bmsk)
{
    uint32_t from = (uint32_t)a, length = (uint32_t)b;
    if (insn->flags & F_WRAP) {
        from &= 31;
        length &= 31;
    }
    if (from > 31 || length == 0)
        return 0;
    uint64_t mask = length >= 32 ? UINT32_MAX : (UINT64_C(1) << length) - 1;
    return mask << from;
}

LANE(lane_szext)
{
    uint32_t n = (uint32_t)b;
    n = insn->flags & F_WRAP ? n & 31 : n > 32 ? 32 : n;
    if (n == 0 || n == 32)
        return n ? a : 0;
    uint32_t raw = (uint32_t)a << (32 - n);
    return insn->type == T_S32 ? (uint64_t)((int32_t)raw >> (32 - n)) : raw >> (32 - n);
}

LANE(lane_mov)
{
    return a;
}

/* ---- floating-point formats ---- */

static inline float f32(uint64_t bits)
{
    uint32_t word = (uint32_t)bits;
    float v;
    memcpy(&v, &word, sizeof(v));
    return v;
}

static inline uint64_t bits32(float v)
{
    uint32_t word;
    if (v != v)
        return F32_NAN;
    memcpy(&word, &v, sizeof(word));
    return word;
}

static inline double f64(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

static inline uint64_t bits64(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

uint64_t float_pack(struct float_format format, bool negative, uint64_t mantissa, int exponent, bool sticky,
                    enum rounding rounding)
{
    const uint64_t sign = (uint64_t)negative << (format.mantissa + format.exponent);
    const uint64_t infinity = ((UINT64_C(1) << format.exponent) - 1) << format.mantissa;
    const int bias = (1 << (format.exponent - 1)) - 1;
    if (mantissa == 0)
        return sign;
    int zeros = __builtin_clzll(mantissa);
    mantissa <<= zeros;
    int e = exponent + 63 - zeros; /* value = 1.xxx * 2^e */
    int drop = 63 - format.mantissa;
    bool subnormal = e < 1 - bias;
    if (subnormal)
        drop += 1 - bias - e;
    uint64_t kept = drop > 63 ? 0 : mantissa >> drop;
    uint64_t lost = drop > 64 ? 1 : drop == 64 ? mantissa : mantissa & ((UINT64_C(1) << drop) - 1);
    uint64_t half = drop > 64 ? 2 : UINT64_C(1) << (drop - 1);
    bool inexact = lost != 0 || sticky, up = false;
    switch (rounding) {
    case RND_Z:
        break;
    case RND_M:
        up = negative && inexact;
        break;
    case RND_P:
        up = !negative && inexact;
        break;
    case RND_A:
        up = lost >= half;
        break;
    default:
        up = lost > half || (lost == half && (sticky || (kept & 1)));
    }
    kept += up;
    uint64_t bits = subnormal ? kept : kept + ((uint64_t)(e + bias - 1) << format.mantissa);
    if (!subnormal && (e > bias || bits >= infinity)) {
        bool to_infinity = rounding == RND_Z   ? false
                           : rounding == RND_M ? negative
                           : rounding == RND_P ? !negative
                                               : true;
        bits = to_infinity ? infinity : infinity - 1;
    }
    return sign | bits;
}

uint64_t float_from_double(struct float_format format, double value, enum rounding rounding)
{
    uint64_t bits = bits64(value), mantissa = bits & ((UINT64_C(1) << 52) - 1);
    int exponent = (int)(bits >> 52 & 0x7ff);
    bool negative = bits >> 63;
    const uint64_t infinity = ((UINT64_C(1) << format.exponent) - 1) << format.mantissa;
    if (exponent == 0x7ff) {
        if (mantissa) /* the device's NaN: no sign, all ones */
            return infinity | ((UINT64_C(1) << format.mantissa) - 1);
        return (uint64_t)negative << (format.mantissa + format.exponent) | infinity;
    }
    if (exponent)
        mantissa |= UINT64_C(1) << 52;
    else
        exponent = 1;
    return float_pack(format, negative, mantissa, exponent - 1075, false, rounding);
}

double half_to_double(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, mantissa = bits & 1023;
    if (exponent == 0)
        return (double)(sign ? -(float)mantissa : (float)mantissa) * 0x1p-24;
    /* the bias of a float is 112 more; infinity and NaN keep the largest exponent */
    return (double)f32(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | mantissa << 13);
}

double bf16_to_double(uint16_t bits)
{
    return (double)f32((uint64_t)bits << 16);
}

uint16_t half_from_double(double value)
{
    return (uint16_t)float_from_double(format_f16, value, RND_N);
}

uint16_t bf16_from_double(double value)
{
    return (uint16_t)float_from_double(format_bf16, value, RND_N);
}

/*
 * a + b with the last bit set if the sum is not exact (and truncated): rounding that to a format of at most 51 bits
 * gives the correctly rounded sum. TwoSum finds the error of the rounded sum.
 */
double add_to_odd(double a, double b)
{
    double sum = a + b;
    if (!isfinite(sum))
        return sum;
    double other = sum - a, error = (a - (sum - other)) + (b - other);
    uint64_t bits = bits64(sum);
    if (error == 0.0 || bits & 1)
        return sum;
    /* away from zero if the exact value is larger in magnitude, else towards zero: both neighbours are odd */
    return f64((error > 0.0) == (sum > 0.0) ? bits + 1 : bits - 1);
}

/* ---- floating-point arithmetic ---- */

enum real_op { R_ADD, R_SUB, R_MUL, R_FMA, R_MIN, R_MAX, R_ABS, R_NEG, R_EX2, R_TANH };

static inline float flush(const struct insn *insn, float v)
{
    return insn->flags & F_FTZ && fabsf(v) < FLT_MIN ? copysignf(0.0f, v) : v;
}

static uint64_t finish32(const struct insn *insn, float v)
{
    v = flush(insn, v);
    if (insn->flags & F_SAT)
        v = v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f; /* NaN becomes 0 */
    if (insn->flags & F_RELU && v < 0.0f)
        v = 0.0f;
    return bits32(v);
}

static double pick(const struct insn *insn, bool smaller, double a, double b)
{
    if (a != a || b != b)
        return insn->flags & F_NAN || (a != a && b != b) ? (double)NAN : a != a ? b : a;
    double sign = 1.0;
    if (insn->flags & F_ABS) {
        sign = signbit(a) != signbit(b) ? -1.0 : 1.0;
        a = fabs(a);
        b = fabs(b);
    }
    bool first = a < b || (a == b && signbit(a)); /* -0 is below +0 */
    return sign * (first == smaller ? a : b);
}

static uint64_t small_result(const struct insn *insn, bool half, double v)
{
    uint16_t bits = half ? half_from_double(v) : bf16_from_double(v);
    if ((bits & 0x7fff) > (half ? 0x7c00 : 0x7f80))
        return insn->flags & F_SAT ? 0 : HALF_NAN;
    if (insn->flags & F_FTZ && !(bits & (half ? 0x7c00 : 0x7f80)))
        bits &= 0x8000;
    if (insn->flags & (F_SAT | F_RELU) && bits >> 15)
        bits = 0;
    if (insn->flags & F_SAT && bits > (half ? 0x3c00 : 0x3f80))
        bits = half ? 0x3c00 : 0x3f80;
    return bits;
}

/* f16 and bf16: products of two are exact in double; sums are rounded to odd, then once to the format. */
static uint64_t small_op(const struct insn *insn, enum real_op op, bool half, uint64_t a, uint64_t b, uint64_t c)
{
    if (insn->flags & F_FTZ) {
        const uint16_t exponent = half ? 0x7c00 : 0x7f80;
        a = a & exponent ? a : a & 0x8000;
        b = b & exponent ? b : b & 0x8000;
        c = c & exponent ? c : c & 0x8000;
    }
    if ((op == R_ABS || op == R_NEG) && (a & 0x7fff) > (half ? 0x7c00u : 0x7f80u))
        return HALF_NAN; /* the device computes them by an addition */
    if (op == R_ABS)
        return a & 0x7fff;
    if (op == R_NEG)
        return (a ^ 0x8000) & 0xffff;
    double x = half ? half_to_double((uint16_t)a) : bf16_to_double((uint16_t)a);
    double y = half ? half_to_double((uint16_t)b) : bf16_to_double((uint16_t)b);
    double z = half ? half_to_double((uint16_t)c) : bf16_to_double((uint16_t)c);
    switch (op) {
    case R_ADD:
        x = add_to_odd(x, y);
        break;
    case R_SUB:
        x = add_to_odd(x, -y);
        break;
    case R_MUL:
        x = x * y;
        break;
    case R_FMA:
        x = add_to_odd(x * y, z);
        break;
    case R_MIN:
        x = pick(insn, true, x, y);
        break;
    case R_MAX:
        x = pick(insn, false, x, y);
        break;
    case R_EX2:
        x = exp2(x);
        break;
    default:
        x = tanh(x);
    }
    return small_result(insn, half, x);
}

static uint64_t op32(const struct insn *insn, enum real_op op, uint64_t a, uint64_t b, uint64_t c)
{
    float x = flush(insn, f32(a)), y = flush(insn, f32(b)), z = flush(insn, f32(c));
    bool directed = insn->rounding > RND_N;
    const enum rounding rounding = (enum rounding)insn->rounding;
    switch (op) {
    case R_ADD:
        return finish32(insn, directed ? round_float(ROUND_ADD, rounding, x, y, 0) : x + y);
    case R_SUB:
        return finish32(insn, directed ? round_float(ROUND_SUB, rounding, x, y, 0) : x - y);
    case R_MUL:
        return finish32(insn, directed ? round_float(ROUND_MUL, rounding, x, y, 0) : x * y);
    case R_FMA:
        return finish32(insn, directed ? round_float(ROUND_FMA, rounding, x, y, z) : fmaf(x, y, z));
    case R_MIN:
        return finish32(insn, (float)pick(insn, true, x, y));
    case R_MAX:
        return finish32(insn, (float)pick(insn, false, x, y));
    case R_ABS:
        return finish32(insn, fabsf(x));
    case R_NEG:
        return finish32(insn, -x);
    case R_EX2:
        return finish32(insn, (float)exp2(x));
    default:
        return finish32(insn, (float)tanh(x));
    }
}

static uint64_t finish64(const struct insn *insn, double v)
{
    if (insn->flags & F_SAT)
        v = v > 0.0 ? (v < 1.0 ? v : 1.0) : 0.0;
    return bits64(v);
}

static uint64_t quiet64(uint64_t nan)
{
    return nan | UINT64_C(1) << 51;
}

static uint64_t op64(const struct insn *insn, enum real_op op, uint64_t a, uint64_t b, uint64_t c)
{
    double x = f64(a), y = f64(b), z = f64(c);
    bool directed = insn->rounding > RND_N;
    const enum rounding rounding = (enum rounding)insn->rounding;
    switch (op) {
    case R_ADD:
        return finish64(insn, directed ? round_double(ROUND_ADD, rounding, x, y, 0) : x + y);
    case R_SUB:
        return finish64(insn, directed ? round_double(ROUND_SUB, rounding, x, y, 0) : x - y);
    case R_MUL:
        return finish64(insn, directed ? round_double(ROUND_MUL, rounding, x, y, 0) : x * y);
    case R_FMA:
        return finish64(insn, directed ? round_double(ROUND_FMA, rounding, x, y, z) : fma(x, y, z));
    case R_MIN:
        return bits64(pick(insn, true, x, y));
    case R_MAX:
        return bits64(pick(insn, false, x, y));
    /* NaN passes as it is, with its sign */
    case R_ABS:
        return x != x ? quiet64(a) : a & INT64_MAX;
    case R_NEG:
        return x != x ? quiet64(a) : a ^ UINT64_C(1) << 63;
    default:
        return a;
    }
}

static uint64_t real_op(const struct insn *insn, enum real_op op, uint64_t a, uint64_t b, uint64_t c)
{
    bool half = insn->type == T_F16 || insn->type == T_F16X2;
    switch (insn->type) {
    case T_F32:
        return op32(insn, op, a, b, c);
    case T_F64:
        return op64(insn, op, a, b, c);
    case T_F16X2:
    case T_BF16X2:
        return small_op(insn, op, half, a & 0xffff, b & 0xffff, c & 0xffff) |
               small_op(insn, op, half, a >> 16 & 0xffff, b >> 16 & 0xffff, c >> 16 & 0xffff) << 16;
    default:
        return small_op(insn, op, half, a & 0xffff, b & 0xffff, c & 0xffff);
    }
}

LANE(lane_float_add)
{
    return real_op(insn, R_ADD, a, b, 0);
}

LANE(lane_float_sub)
{
    return real_op(insn, R_SUB, a, b, 0);
}

LANE(lane_float_mul)
{
    return real_op(insn, R_MUL, a, b, 0);
}

LANE(lane_float_fma)
{
    return real_op(insn, R_FMA, a, b, c);
}

LANE(lane_float_min)
{
    return real_op(insn, R_MIN, a, b, 0);
}

LANE(lane_float_max)
{
    return real_op(insn, R_MAX, a, b, 0);
}

LANE(lane_float_abs)
{
    return real_op(insn, R_ABS, a, 0, 0);
}

LANE(lane_float_neg)
{
    return real_op(insn, R_NEG, a, 0, 0);
}

LANE(lane_float_ex2)
{
    return real_op(insn, R_EX2, a, 0, 0);
}

LANE(lane_float_tanh)
{
    return real_op(insn, R_TANH, a, 0, 0);
}

LANE(lane_float_div)
{
    bool directed = insn->rounding > RND_N;
    const enum rounding rounding = (enum rounding)insn->rounding;
    if (insn->type == T_F64)
        return bits64(directed ? round_double(ROUND_DIV, rounding, f64(a), f64(b), 0) : f64(a) / f64(b));
    float x = flush(insn, f32(a)), y = flush(insn, f32(b));
    if (insn->flags & F_APPROX && fabsf(y) > 0x1p126f && isfinite(y)) /* PTX: its reciprocal is taken as zero */
        return finish32(insn, x * copysignf(0.0f, y));
    return finish32(insn, directed ? round_float(ROUND_DIV, rounding, x, y, 0) : x / y);
}

LANE(lane_float_rcp)
{
    bool directed = insn->rounding > RND_N;
    const enum rounding rounding = (enum rounding)insn->rounding;
    if (insn->type == T_F64)
        return bits64(directed ? round_double(ROUND_DIV, rounding, 1.0, f64(a), 0) : 1.0 / f64(a));
    float x = flush(insn, f32(a));
    return finish32(insn, directed ? round_float(ROUND_DIV, rounding, 1.0f, x, 0) : 1.0f / x);
}

LANE(lane_float_sqrt)
{
    bool directed = insn->rounding > RND_N;
    const enum rounding rounding = (enum rounding)insn->rounding;
    if (insn->type == T_F64)
        return bits64(directed ? round_double(ROUND_SQRT, rounding, f64(a), 0, 0) : sqrt(f64(a)));
    float x = flush(insn, f32(a));
    return finish32(insn, directed ? round_float(ROUND_SQRT, rounding, x, 0, 0) : sqrtf(x));
}

LANE(lane_float_rsqrt)
{
    if (insn->type == T_F64)
        return bits64(1.0 / sqrt(f64(a)));
    return finish32(insn, (float)(1.0 / sqrt((double)flush(insn, f32(a)))));
}

/* The device computes these from the upper half of the operand and gives an upper half; subnormals are flushed. */
static double upper_half(double v)
{
    if (fabs(v) < DBL_MIN)
        return copysign(0.0, v);
    return f64(bits64(v) & UINT64_C(0xffffffff00000000));
}

LANE(lane_float_rcp64h)
{
    return bits64(upper_half(1.0 / upper_half(f64(a))));
}

LANE(lane_float_rsqrt64h)
{
    return bits64(upper_half(1.0 / sqrt(upper_half(f64(a)))));
}

LANE(lane_float_lg2)
{
    return finish32(insn, (float)log2((double)flush(insn, f32(a))));
}

LANE(lane_float_sin)
{
    return finish32(insn, (float)sin((double)flush(insn, f32(a))));
}

LANE(lane_float_cos)
{
    return finish32(insn, (float)cos((double)flush(insn, f32(a))));
}

/* PTX: the sign of the first operand, the magnitude of the second */
LANE(lane_float_copysign)
{
    uint64_t sign = UINT64_C(1) << (bits_of(insn) - 1);
    return (b & (sign - 1)) | (a & sign);
}

/* ---- comparisons ---- */

static bool compare_numbers(enum compare compare, bool lt, bool eq, bool gt)
{
    switch (compare) {
    case CMP_EQ:
        return eq;
    case CMP_NE:
        return lt || gt;
    case CMP_LT:
        return lt;
    case CMP_LE:
        return lt || eq;
    case CMP_GT:
        return gt;
    case CMP_GE:
        return gt || eq;
    case CMP_EQU:
        return !(lt || gt);
    case CMP_NEU:
        return !eq;
    case CMP_LTU:
        return !(gt || eq);
    case CMP_LEU:
        return !gt;
    case CMP_GTU:
        return !(lt || eq);
    case CMP_GEU:
        return !lt;
    case CMP_NUM:
        return lt || eq || gt;
    default:
        return !(lt || eq || gt);
    }
}

/* CMP_NE on integers: lt or gt covers it; on floats NE is ordered, as PTX wants. */
static bool compare_typed(enum compare compare, enum ptype type, bool ftz, uint64_t a, uint64_t b)
{
    if (!type_is_float(type)) {
        uint64_t x = extend(type, a), y = extend(type, b);
        bool lt = type_is_signed(type) ? (int64_t)x < (int64_t)y : x < y;
        return compare_numbers(compare, lt, x == y, !lt && x != y);
    }
    double x, y;
    if (type == T_F64) {
        x = f64(a);
        y = f64(b);
    } else if (type == T_F32) {
        struct insn flags = {.flags = ftz ? F_FTZ : 0};
        x = (double)flush(&flags, f32(a));
        y = (double)flush(&flags, f32(b));
    } else {
        bool half = type == T_F16 || type == T_F16X2;
        x = half ? half_to_double((uint16_t)a) : bf16_to_double((uint16_t)a);
        y = half ? half_to_double((uint16_t)b) : bf16_to_double((uint16_t)b);
        if (ftz && half) { /* 2^-14 is the smallest normal */
            x = fabs(x) < 0x1p-14 ? 0.0 : x;
            y = fabs(y) < 0x1p-14 ? 0.0 : y;
        }
    }
    return compare_numbers(compare, x<y, x == y, x> y);
}

/* Bit 0: the answer; for packed types bit 1 is the answer for the upper half. */
LANE(lane_compare)
{
    const enum compare compare = (enum compare)insn->compare;
    const enum ptype type = (enum ptype)insn->type;
    uint64_t answer = compare_typed(compare, type, insn->flags & F_FTZ, a, b);
    if (type == T_F16X2 || type == T_BF16X2)
        answer |= (uint64_t)compare_typed(compare, type, insn->flags & F_FTZ, a >> 16, b >> 16) << 1;
    return answer;
}

static uint64_t truth(enum ptype type)
{
    switch (type) {
    case T_F32:
        return 0x3f800000;
    case T_F64:
        return UINT64_C(0x3ff0000000000000);
    case T_F16:
    case T_F16X2:
        return 0x3c00;
    case T_BF16:
    case T_BF16X2:
        return 0x3f80;
    default:
        return UINT64_MAX;
    }
}

LANE(lane_set)
{
    const enum compare compare = (enum compare)insn->compare;
    const enum ptype type = (enum ptype)insn->type2, result = (enum ptype)insn->type;
    bool ftz = insn->flags & F_FTZ;
    uint64_t low = compare_typed(compare, type, ftz, a, b) ? truth(result) : 0;
    if (type != T_F16X2 && type != T_BF16X2)
        return low;
    uint64_t high = compare_typed(compare, type, ftz, a >> 16, b >> 16) ? truth(result) : 0;
    return (low & 0xffff) | (high & 0xffff) << 16;
}

LANE(lane_testp)
{
    double x = insn->type == T_F64 ? f64(a) : (double)f32(a);
    bool subnormal = x != 0.0 && fabs(x) < (insn->type == T_F64 ? DBL_MIN : (double)FLT_MIN);
    switch (insn->sub) {
    case 0:
        return isfinite(x);
    case 1:
        return isinf(x) != 0;
    case 2:
        return !isnan(x);
    case 3:
        return isnan(x);
    case 4:
        return isfinite(x) && x != 0.0 && !subnormal;
    default:
        return subnormal;
    }
}

LANE(lane_slct)
{
    if (insn->type2 == T_S32)
        return (int32_t)c >= 0 ? a : b;
    return flush(insn, f32(c)) >= 0.0f ? a : b; /* NaN selects the second */
}

/* ---- conversions ---- */

static struct float_format format_of(enum ptype type)
{
    switch (type) {
    case T_F16:
        return format_f16;
    case T_BF16:
        return format_bf16;
    case T_TF32:
        return format_tf32;
    case T_F32:
        return format_f32;
    default:
        return format_f64;
    }
}

/* Range of an integer type; as the magnitude of its end on one side. */
static uint64_t limit(enum ptype type, bool negative)
{
    unsigned bits = type_bits(type);
    if (!type_is_signed(type))
        return negative ? 0 : bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    return (UINT64_C(1) << (bits - 1)) - (negative ? 0 : 1);
}

static uint64_t integer_to_integer(const struct insn *insn, uint64_t a)
{
    const enum ptype to = (enum ptype)insn->type, from = (enum ptype)insn->type2;
    uint64_t v = extend(from, a);
    if (insn->flags & F_SAT) {
        bool negative = type_is_signed(from) && (int64_t)v < 0;
        uint64_t magnitude = negative ? -v : v, most = limit(to, negative);
        v = magnitude > most ? (negative ? -most : most) : v;
    }
    return extend(to, v);
}

static double round_whole(double x, enum rounding rounding)
{
    switch (rounding) {
    case RND_Z:
    case RND_ZI:
        return trunc(x);
    case RND_M:
    case RND_MI:
        return floor(x);
    case RND_P:
    case RND_PI:
        return ceil(x);
    default:
        return rint(x); /* the run sets round to nearest even */
    }
}

static uint64_t float_to_integer(const struct insn *insn, double x)
{
    const enum ptype to = (enum ptype)insn->type;
    if (x != x) /* PTX: zero, but the top bit if either side has 64 bits */
        return type_bits(to) == 64 || insn->type2 == T_F64 ? extend(to, UINT64_C(1) << (type_bits(to) - 1)) : 0;
    x = round_whole(x, (enum rounding)insn->rounding);
    bool negative = x < 0.0;
    uint64_t most = limit(to, negative);
    double magnitude = fabs(x);
    uint64_t v = magnitude >= 0x1p64 ? UINT64_MAX : (uint64_t)magnitude;
    v = v > most ? most : v;
    return extend(to, negative ? -v : v);
}

static uint64_t float_to_float(const struct insn *insn, double x)
{
    const enum ptype to = (enum ptype)insn->type;
    enum rounding rounding = (enum rounding)insn->rounding;
    const struct float_format format = format_of(to);
    if (rounding >= RND_NI) {
        x = round_whole(x, rounding);
        rounding = RND_N;
    }
    if (insn->flags & F_SAT)
        x = x > 0.0 ? (x < 1.0 ? x : 1.0) : 0.0;
    if (insn->flags & F_RELU && x < 0.0)
        x = 0.0;
    if (to == T_F64)
        return x != x ? quiet64(bits64(x)) : bits64(x);
    if (x != x && to == T_F32 && insn->type2 == T_F64) /* keeps sign and upper payload, unlike all others */
        return (bits64(x) >> 32 & 0x80000000) | 0x7fc00000 | (bits64(x) >> 29 & 0x7fffff);
    uint64_t bits = float_from_double(format, x, rounding);
    const uint64_t sign = UINT64_C(1) << (format.mantissa + format.exponent);
    const uint64_t infinity = ((UINT64_C(1) << format.exponent) - 1) << format.mantissa;
    if (insn->flags & F_SATFINITE && (bits & ~sign) == infinity)
        bits = (bits & sign) | (infinity - 1);
    if (insn->flags & F_FTZ && to == T_F32 && !(bits & infinity))
        bits &= sign;
    return to == T_TF32 ? bits << 13 : bits;
}

static double to_double(const struct insn *insn, uint64_t a)
{
    switch (insn->type2) {
    case T_F16:
        return half_to_double((uint16_t)a);
    case T_BF16:
        return bf16_to_double((uint16_t)a);
    case T_F32:
        return (double)flush(insn, f32(a));
    default:
        return f64(a);
    }
}

LANE(lane_cvt)
{
    const enum ptype to = (enum ptype)insn->type, from = (enum ptype)insn->type2;
    if (type_is_float(from)) {
        double x = to_double(insn, a);
        return type_is_float(to) ? float_to_float(insn, x) : float_to_integer(insn, x);
    }
    if (!type_is_float(to))
        return integer_to_integer(insn, a);
    uint64_t v = extend(from, a);
    bool negative = type_is_signed(from) && (int64_t)v < 0;
    uint64_t bits = float_pack(format_of(to), negative, negative ? -v : v, 0, false, (enum rounding)insn->rounding);
    if (insn->flags & F_SAT) /* an integer is 0, at least 1, or negative */
        bits = negative || v == 0 ? 0 : float_pack(format_of(to), false, 1, 0, false, RND_N);
    return to == T_TF32 ? bits << 13 : bits;
}

/* cvt.f16x2.f32 d, a, b: a goes to the upper half */
LANE(lane_cvt_pack)
{
    struct insn one = *insn;
    one.type = insn->type == T_F16X2 ? T_F16 : T_BF16;
    return lane_cvt(&one, b, 0, 0, 0) | lane_cvt(&one, a, 0, 0, 0) << 16;
}

/* ---- atomics ---- */

static uint64_t atomic_real(const struct insn *insn, uint64_t old, uint64_t b)
{
    struct insn one = *insn;
    one.flags = 0;
    one.rounding = RND_N;
    return real_op(&one, insn->sub == AT_ADD ? R_ADD : insn->sub == AT_MIN ? R_MIN : R_MAX, old, b, 0);
}

uint64_t atomic_new_value(const struct insn *insn, uint64_t old, uint64_t b, uint64_t c)
{
    if (type_is_float((enum ptype)insn->type))
        return atomic_real(insn, old, b);
    old = zx(insn, old);
    b = zx(insn, b);
    switch (insn->sub) {
    case AT_ADD:
        return old + b;
    case AT_MIN:
        return less(insn, old, b) ? old : b;
    case AT_MAX:
        return less(insn, old, b) ? b : old;
    case AT_INC:
        return old >= b ? 0 : old + 1;
    case AT_DEC:
        return old == 0 || old > b ? b : old - 1;
    case AT_AND:
        return old & b;
    case AT_OR:
        return old | b;
    case AT_XOR:
        return old ^ b;
    case AT_EXCH:
        return b;
    default:
        return old == b ? c : old;
    }
}
