/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoders of arithmetic, logic, comparisons, moves and conversions.
 */
#include "tests/simcuda/ptx/decode.h"

#include <errno.h>
#include <string.h>

static struct insn *emit_lane(struct body *body, lane_fn *fn, enum ptype type, enum ptype dest, const enum ptype *types,
                              uint32_t n)
{
    struct insn *insn = dec_emit(body, OP_LANE, dest, types, n, false);
    if (insn) {
        insn->fn = fn;
        insn->type = (uint8_t)type;
        insn->shift = (uint8_t)(64 - type_bits(type));
    }
    return insn;
}

static enum rounding take_rounding(struct body *body)
{
    static const char *const words[] = {"rn", "rz", "rm", "rp", "rna"};
    return (enum rounding)(dec_take_one_of(body, words, 5) + 1);
}

struct arithmetic {
    enum ptype type;
    enum rounding rounding;
    uint16_t flags;
    bool lo, hi, wide, approx, full;
};

static enum op fast_integer(lane_fn *fn, enum ptype type)
{
    static const struct {
        lane_fn *fn;
        uint8_t b32, b64; /* enum op; 0 = none */
    } same[] = {
        {lane_add, OP_ADD32, OP_ADD64},    {lane_sub, OP_SUB32, OP_SUB64}, {lane_mul_lo, OP_MUL32, OP_MUL64},
        {lane_mad_lo, OP_MAD32, OP_MAD64}, {lane_and, OP_AND32, OP_AND64}, {lane_or, OP_OR32, OP_OR64},
        {lane_xor, OP_XOR32, OP_XOR64},    {lane_not, OP_NOT32, OP_NOT64}, {lane_shl, OP_SHL32, OP_SHL64},
    };
    static const struct {
        lane_fn *fn;
        uint8_t u32, s32, u64, s64;
    } signs[] = {
        {lane_min, OP_MIN_U32, OP_MIN_S32, 0, 0},
        {lane_max, OP_MAX_U32, OP_MAX_S32, 0, 0},
        {lane_shr, OP_SHR_U32, OP_SHR_S32, OP_SHR_U64, OP_SHR_S64},
        {lane_mul_wide, OP_MUL_WIDE_U32, OP_MUL_WIDE_S32, 0, 0},
        {lane_mad_wide, OP_MAD_WIDE_U32, OP_MAD_WIDE_S32, 0, 0},
    };
    unsigned bits = type_bits(type);
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]) && bits >= 32; i++) {
        if (same[i].fn == fn)
            return bits == 32 ? same[i].b32 : same[i].b64;
    }
    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]) && bits >= 32; i++) {
        if (signs[i].fn == fn)
            return bits == 32 ? (type_is_signed(type) ? signs[i].s32 : signs[i].u32)
                              : (type_is_signed(type) ? signs[i].s64 : signs[i].u64);
    }
    return OP_LANE;
}

static enum op fast_real(lane_fn *fn, const struct arithmetic *a)
{
    static const struct {
        lane_fn *fn;
        uint8_t f32, f64;
    } ops[] = {
        {lane_float_add, OP_ADD_F32, OP_ADD_F64}, {lane_float_sub, OP_SUB_F32, OP_SUB_F64},
        {lane_float_mul, OP_MUL_F32, OP_MUL_F64}, {lane_float_fma, OP_FMA_F32, OP_FMA_F64},
        {lane_float_min, OP_MIN_F32, 0},          {lane_float_max, OP_MAX_F32, 0},
        {lane_float_neg, OP_NEG_F32, 0},          {lane_float_abs, OP_ABS_F32, 0},
    };
    if (a->rounding > RND_N || (a->flags & ~F_FTZ) || (a->type != T_F32 && a->type != T_F64))
        return OP_LANE;
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        if (ops[i].fn == fn)
            return a->type == T_F32 ? ops[i].f32 : ops[i].f64;
    }
    return OP_LANE;
}

static void take_arithmetic(struct body *body, struct arithmetic *a, bool sat_ok)
{
    *a = (struct arithmetic){.type = dec_take_type(body)};
    if (type_is_float(a->type)) {
        a->rounding = take_rounding(body);
        a->flags |= dec_take(body, "ftz") ? F_FTZ : 0;
        a->flags |= dec_take(body, "relu") ? F_RELU : 0;
        a->approx = dec_take(body, "approx");
        a->full = dec_take(body, "full");
    } else {
        a->lo = dec_take(body, "lo");
        a->hi = dec_take(body, "hi");
        a->wide = dec_take(body, "wide");
    }
    if (sat_ok)
        a->flags |= dec_take(body, "sat") ? F_SAT : 0;
}

static bool emit_arithmetic(struct body *body, const struct arithmetic *a, lane_fn *fn, enum op op, enum ptype dest,
                            const enum ptype *types, uint32_t n)
{
    if (!dec_want(body, n + 1, n + 1) || !dec_finish(body))
        return false;
    struct insn *insn = emit_lane(body, fn, a->type, dest, types, n);
    if (!insn)
        return false;
    insn->op = (uint16_t)op;
    insn->flags = a->flags;
    insn->rounding = (uint8_t)a->rounding;
    return true;
}

static enum ptype twice_as_wide(enum ptype type)
{
    switch (type) {
    case T_U16:
        return T_U32;
    case T_S16:
        return T_S32;
    case T_U32:
        return T_U64;
    case T_S32:
        return T_S64;
    default:
        return T_NONE;
    }
}

static bool decode_carry(struct body *body, unsigned operation, bool in, uint32_t n)
{
    bool out = dec_take(body, "cc"), hi = false;
    enum ptype type = dec_take_type(body);
    if (!dec_is_integer(type) || type_bits(type) < 32)
        return dec_wrong_type(body);
    if (operation == CARRY_MAD) {
        hi = dec_take(body, "hi");
        if (!hi && !dec_take(body, "lo"))
            return body_fail(body, -EINVAL, "mad with carry needs .lo or .hi");
    }
    const enum ptype types[] = {type, type, type};
    struct arithmetic a = {.type = type};
    a.flags = (uint16_t)((out ? F_CC : 0) | (in ? F_CIN : 0) | (hi ? F_HI : 0) | (type_is_signed(type) ? F_SIGNED : 0));
    if (!emit_arithmetic(body, &a, NULL, OP_CARRY, type, types, n))
        return false;
    body->reader->module->code[body->reader->module->code_count - 1].sub = (uint8_t)operation;
    return true;
}

bool decode_addsub(struct body *body, const struct entry *entry)
{
    struct arithmetic a;
    if (dec_has_modifier(body, "cc"))
        return decode_carry(body, entry->arg, false, 2);
    take_arithmetic(body, &a, true);
    if (a.type == T_NONE || a.type == T_PRED || type_bits(a.type) == 8 || a.type == T_TF32 || a.lo || a.hi || a.wide)
        return dec_wrong_type(body);
    if (a.flags & F_SAT && dec_is_integer(a.type) && a.type != T_S32)
        return dec_wrong_type(body);
    bool real = type_is_float(a.type);
    lane_fn *fn = real ? entry->real : entry->integer;
    enum op op = real ? fast_real(fn, &a) : a.flags & F_SAT ? OP_LANE : fast_integer(fn, a.type);
    const enum ptype types[] = {a.type, a.type};
    return emit_arithmetic(body, &a, fn, op, a.type, types, 2);
}

bool decode_addsubc(struct body *body, const struct entry *entry)
{
    return decode_carry(body, entry->arg, true, 2);
}

bool decode_madc(struct body *body, const struct entry *entry)
{
    (void)entry;
    return decode_carry(body, CARRY_MAD, true, 3);
}

/* mul, mad */
bool decode_multiply(struct body *body, const struct entry *entry)
{
    struct arithmetic a;
    bool mad = entry->arg;
    if (mad && dec_has_modifier(body, "cc"))
        return decode_carry(body, CARRY_MAD, false, 3);
    take_arithmetic(body, &a, true);
    if (type_is_float(a.type)) {
        lane_fn *fn = mad ? lane_float_fma : lane_float_mul; /* mad.f32 is fma on every device since sm_20 */
        const enum ptype types[] = {a.type, a.type, a.type};
        if (a.type == T_TF32 || a.approx || a.full)
            return dec_wrong_type(body);
        return emit_arithmetic(body, &a, fn, fast_real(fn, &a), a.type, types, mad ? 3 : 2);
    }
    if (!dec_is_integer(a.type) || type_bits(a.type) == 8)
        return dec_wrong_type(body);
    if (a.flags & F_SAT && !(mad && a.hi && a.type == T_S32))
        return dec_wrong_type(body);
    if (a.lo + a.hi + a.wide != 1)
        return body_fail(body, -EINVAL, "integer mul and mad need one of .lo, .hi, .wide");
    enum ptype dest = a.wide ? twice_as_wide(a.type) : a.type;
    if (dest == T_NONE)
        return dec_wrong_type(body);
    lane_fn *fn = a.wide ? (mad ? lane_mad_wide : lane_mul_wide)
                  : a.hi ? (mad ? lane_mad_hi : lane_mul_hi)
                         : (mad ? lane_mad_lo : lane_mul_lo);
    const enum ptype types[] = {a.type, a.type, dest};
    return emit_arithmetic(body, &a, fn, fast_integer(fn, a.type), dest, types, mad ? 3 : 2);
}

bool decode_mul24(struct body *body, const struct entry *entry)
{
    struct arithmetic a;
    take_arithmetic(body, &a, false);
    if ((a.type != T_U32 && a.type != T_S32) || a.lo + a.hi != 1)
        return dec_wrong_type(body);
    a.flags = a.hi ? F_HI : 0;
    const enum ptype types[] = {a.type, a.type, a.type};
    return emit_arithmetic(body, &a, entry->integer, OP_LANE, a.type, types, entry->sources);
}

bool decode_fma(struct body *body, const struct entry *entry)
{
    struct arithmetic a;
    take_arithmetic(body, &a, true);
    if (!type_is_float(a.type) || a.type == T_TF32 || a.approx || a.full)
        return dec_wrong_type(body);
    const enum ptype types[] = {a.type, a.type, a.type};
    return emit_arithmetic(body, &a, entry->real, fast_real(entry->real, &a), a.type, types, 3);
}

bool decode_divide(struct body *body, const struct entry *entry)
{
    struct arithmetic a;
    take_arithmetic(body, &a, false);
    const enum ptype types[] = {a.type, a.type};
    a.flags |= a.approx ? F_APPROX : 0;
    if (entry->real && (a.type == T_F32 || a.type == T_F64))
        return emit_arithmetic(body, &a, entry->real, OP_LANE, a.type, types, 2);
    if (!dec_is_integer(a.type) || type_bits(a.type) == 8 || a.lo || a.hi || a.wide)
        return dec_wrong_type(body);
    return emit_arithmetic(body, &a, entry->integer, OP_LANE, a.type, types, 2);
}

/* abs, neg, min, max */
bool decode_signs(struct body *body, const struct entry *entry)
{
    struct arithmetic a;
    take_arithmetic(body, &a, false);
    if (type_is_float(a.type) && entry->sources == 2) {
        a.flags |= dec_take(body, "NaN") ? F_NAN : 0;
        if (dec_take(body, "xorsign")) {
            if (!dec_take(body, "abs"))
                return body_fail(body, -EINVAL, ".xorsign needs .abs");
            a.flags |= F_ABS;
        }
    } else if (dec_is_integer(a.type) && entry->sources == 2) {
        a.flags |= dec_take(body, "relu") ? F_RELU : 0;
    }
    bool real = type_is_float(a.type);
    if ((!real && !dec_is_integer(a.type)) || type_bits(a.type) == 8 || a.type == T_TF32 || a.lo || a.hi || a.wide)
        return dec_wrong_type(body);
    lane_fn *fn = real ? entry->real : entry->integer;
    enum op op = real ? fast_real(fn, &a) : a.flags ? OP_LANE : fast_integer(fn, a.type);
    const enum ptype types[] = {a.type, a.type};
    return emit_arithmetic(body, &a, fn, op, a.type, types, entry->sources);
}

/* sqrt rcp rsqrt ex2 lg2 sin cos tanh */
bool decode_function(struct body *body, const struct entry *entry)
{
    struct arithmetic a;
    take_arithmetic(body, &a, false);
    lane_fn *fn = entry->real;
    bool halves = fn == lane_float_ex2 || fn == lane_float_tanh;
    if (a.type == T_F64) {
        if (fn == lane_float_rcp && a.approx)
            fn = lane_float_rcp64h;
        else if (fn == lane_float_rsqrt && a.flags & F_FTZ)
            fn = lane_float_rsqrt64h;
        else if (fn != lane_float_rcp && fn != lane_float_sqrt && fn != lane_float_rsqrt)
            return dec_wrong_type(body);
    } else if (a.type != T_F32 && !(halves && type_is_float(a.type) && a.type != T_TF32)) {
        return dec_wrong_type(body);
    }
    if (a.approx)
        a.rounding = RND_NONE;
    const enum ptype types[] = {a.type};
    return emit_arithmetic(body, &a, fn, OP_LANE, a.type, types, 1);
}

bool decode_copysign(struct body *body, const struct entry *entry)
{
    struct arithmetic a = {.type = dec_take_type(body)};
    if (a.type != T_F32 && a.type != T_F64)
        return dec_wrong_type(body);
    const enum ptype types[] = {a.type, a.type};
    return emit_arithmetic(body, &a, entry->real, OP_LANE, a.type, types, 2);
}

/* and or xor not cnot, also of predicates */
bool decode_logic(struct body *body, const struct entry *entry)
{
    struct arithmetic a = {.type = dec_take_type(body)};
    if (a.type == T_PRED && entry->arg) {
        uint16_t pd, ps, ps2 = 0;
        if (!dec_want(body, entry->sources + 1u, entry->sources + 1u) || !dec_finish(body) ||
            !dec_predicate_destination(body, &body->operands[0], &pd) ||
            !dec_predicate_source(body, &body->operands[1], &ps))
            return false;
        if (entry->sources == 2 && !dec_predicate_source(body, &body->operands[2], &ps2))
            return false;
        struct insn *insn = body_emit(body, entry->sources == 1 ? OP_MOV_PRED : (enum op)entry->arg);
        if (!insn)
            return false;
        insn->pd = pd;
        insn->ps = entry->sources == 1 ? ps ^ 1 : ps;
        insn->ps2 = ps2;
        return true;
    }
    if (!dec_is_integer(a.type) || type_bits(a.type) == 8)
        return dec_wrong_type(body);
    const enum ptype types[] = {a.type, a.type};
    return emit_arithmetic(body, &a, entry->integer, fast_integer(entry->integer, a.type), a.type, types,
                           entry->sources);
}

bool decode_shift(struct body *body, const struct entry *entry)
{
    struct arithmetic a = {.type = dec_take_type(body)};
    if (!dec_is_integer(a.type) || type_bits(a.type) == 8)
        return dec_wrong_type(body);
    const enum ptype types[] = {a.type, T_U32};
    return emit_arithmetic(body, &a, entry->integer, fast_integer(entry->integer, a.type), a.type, types, 2);
}

bool decode_shf(struct body *body, const struct entry *entry)
{
    struct arithmetic a = {.type = dec_take_type(body)};
    bool left = dec_take(body, "l"), right = dec_take(body, "r"), wrap = dec_take(body, "wrap"),
         clamp = dec_take(body, "clamp");
    if (type_bits(a.type) != 32 || left == right || wrap == clamp)
        return dec_wrong_type(body);
    a.flags = (uint16_t)((wrap ? F_WRAP : 0) | (left ? F_HI : 0));
    const enum ptype types[] = {T_B32, T_B32, T_U32};
    return emit_arithmetic(body, &a, entry->integer, OP_LANE, T_B32, types, 3);
}

/* popc clz bfind brev: arg 1 = the result is u32 */
bool decode_bits(struct body *body, const struct entry *entry)
{
    struct arithmetic a = {.type = dec_take_type(body)};
    if (!dec_is_integer(a.type) || type_bits(a.type) < 32)
        return dec_wrong_type(body);
    if (entry->integer == lane_bfind)
        a.flags = dec_take(body, "shiftamt") ? F_WRAP : 0;
    const enum ptype types[] = {a.type};
    return emit_arithmetic(body, &a, entry->integer, OP_LANE, entry->arg ? T_U32 : a.type, types, 1);
}

bool decode_bitfield(struct body *body, const struct entry *entry)
{
    struct arithmetic a = {.type = dec_take_type(body)};
    if (!dec_is_integer(a.type) || type_bits(a.type) < 32)
        return dec_wrong_type(body);
    const enum ptype extract[] = {a.type, T_U32, T_U32}, insert[] = {a.type, a.type, T_U32, T_U32};
    return entry->sources == 3 ? emit_arithmetic(body, &a, entry->integer, OP_LANE, a.type, extract, 3)
                               : emit_arithmetic(body, &a, entry->integer, OP_LANE, a.type, insert, 4);
}

/* fns, sad, bmsk, szext: all operands of one type or u32 */
bool decode_misc(struct body *body, const struct entry *entry)
{
    struct arithmetic a = {.type = dec_take_type(body)};
    enum ptype type = a.type, dest = a.type;
    if (entry->integer == lane_bmsk || entry->integer == lane_szext) {
        a.flags = dec_take(body, "wrap") ? F_WRAP : 0;
        if (!(a.flags & F_WRAP) && !dec_take(body, "clamp"))
            return body_fail(body, -EINVAL, "needs .wrap or .clamp");
    }
    if (entry->integer == lane_sad) {
        dest = type_is_signed(type) && type_bits(type) == 16 ? T_U16 : type;
        if (!dec_is_integer(type) || type_bits(type) == 8)
            return dec_wrong_type(body);
    } else if (!dec_is_integer(type) || type_bits(type) != 32) {
        return dec_wrong_type(body);
    }
    const enum ptype types[] = {type, type, type};
    return emit_arithmetic(body, &a, entry->integer, OP_LANE, dest, types, entry->sources);
}

bool decode_prmt(struct body *body, const struct entry *entry)
{
    static const char *const modes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
    struct arithmetic a = {.type = dec_take_type(body)};
    int mode = dec_take_one_of(body, modes, 6);
    if (a.type != T_B32)
        return dec_wrong_type(body);
    const enum ptype types[] = {T_B32, T_B32, T_B32};
    if (!emit_arithmetic(body, &a, entry->integer, OP_LANE, T_B32, types, 3))
        return false;
    body->reader->module->code[body->reader->module->code_count - 1].sub = (uint8_t)(mode + 1);
    return true;
}

bool decode_lop3(struct body *body, const struct entry *entry)
{
    enum ptype type = dec_take_type(body);
    const enum ptype types[] = {T_B32, T_B32, T_B32};
    if (type != T_B32)
        return dec_wrong_type(body);
    if (!dec_want(body, 5, 5) || !dec_finish(body))
        return false;
    const struct operand *table = &body->operands[4];
    if (table->kind != OPD_IMMEDIATE || table->float_width || table->value > 255)
        return dec_bad_operand(body, "must be a lookup table of 0 to 255");
    struct insn *insn = emit_lane(body, entry->integer, type, type, types, 3);
    if (!insn)
        return false;
    insn->sub = (uint8_t)table->value;
    return true;
}

bool decode_dot(struct body *body, const struct entry *entry)
{
    struct arithmetic a = {.type = dec_take_type(body)};
    enum ptype second = dec_take_type(body);
    bool hi = dec_take(body, "hi"), lo = dec_take(body, "lo");
    if ((a.type != T_U32 && a.type != T_S32) || (second != T_U32 && second != T_S32) ||
        (entry->integer == lane_dp2a ? hi == lo : hi || lo))
        return dec_wrong_type(body);
    a.flags = hi ? F_HI : 0;
    const enum ptype types[] = {T_B32, T_B32, T_B32};
    if (!emit_arithmetic(body, &a, entry->integer, OP_LANE, T_B32, types, 3))
        return false;
    body->reader->module->code[body->reader->module->code_count - 1].type2 = (uint8_t)second;
    return true;
}

bool decode_slct(struct body *body, const struct entry *entry)
{
    struct arithmetic a = {.type = dec_take_type(body)};
    enum ptype second = dec_take_type(body);
    a.flags = dec_take(body, "ftz") ? F_FTZ : 0;
    if (a.type == T_NONE || a.type == T_PRED || (second != T_S32 && second != T_F32))
        return dec_wrong_type(body);
    const enum ptype types[] = {a.type, a.type, second};
    if (!emit_arithmetic(body, &a, entry->integer, OP_LANE, a.type, types, 3))
        return false;
    body->reader->module->code[body->reader->module->code_count - 1].type2 = (uint8_t)second;
    return true;
}

/* ---- comparisons ---- */

static bool take_compare(struct body *body, enum ptype *type, uint8_t *compare)
{
    static const char *const words[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge", "equ", "neu", "ltu",
                                        "leu", "gtu", "geu", "num", "nan", "lo", "ls",  "hi",  "hs"};
    int found = dec_take_one_of(body, words, 18);
    if (found < 0)
        return body_fail(body, -EINVAL, "a comparison such as .eq or .lt is missing");
    if (found >= 14) { /* the unsigned names, on bits */
        static const uint8_t plain[] = {CMP_LT, CMP_LE, CMP_GT, CMP_GE};
        *compare = plain[found - 14];
    } else {
        *compare = (uint8_t)found;
    }
    if (*type == T_NONE || *type == T_PRED || *type == T_TF32 || type_bits(*type) == 8 ||
        (found >= CMP_EQU && found <= CMP_NAN && !type_is_float(*type)))
        return dec_wrong_type(body);
    return true;
}

static enum combine take_combine(struct body *body)
{
    static const char *const words[] = {"and", "or", "xor"};
    return (enum combine)(dec_take_one_of(body, words, 3) + 1);
}

bool decode_setp(struct body *body, const struct entry *entry)
{
    (void)entry;
    enum ptype type = dec_take_type(body);
    uint8_t compare;
    uint16_t pd, ps = 0, flags = dec_take(body, "ftz") ? F_FTZ : 0;
    uint32_t a, b;
    if (!take_compare(body, &type, &compare))
        return false;
    enum combine combine = take_combine(body);
    uint32_t n = combine ? 4 : 3;
    if (!dec_want(body, n, n) || !dec_finish(body) || !dec_predicate_destination(body, &body->operands[0], &pd) ||
        !dec_source(body, &body->operands[1], type, false, &a) ||
        !dec_source(body, &body->operands[2], type, false, &b))
        return false;
    if (combine && !dec_predicate_source(body, &body->operands[3], &ps))
        return false;
    bool fast = (type_bits(type) == 32 || type_bits(type) == 64) && type != T_F16X2 && type != T_BF16X2 &&
                !(flags & F_FTZ) && compare <= CMP_GEU;
    struct insn *insn = body_emit(body, fast ? OP_SETP : OP_SETP_LANE);
    if (!insn)
        return false;
    insn->operands = 2;
    insn->o[0] = a;
    insn->o[1] = b;
    insn->pd = pd;
    insn->pd2 = (uint16_t)body->operands[0].pair;
    insn->ps = ps;
    insn->type = (uint8_t)type;
    insn->shift = (uint8_t)(64 - type_bits(type));
    insn->flags = flags;
    insn->compare = compare;
    insn->combine = (uint8_t)combine;
    insn->fn = lane_compare;
    return true;
}

bool decode_set(struct body *body, const struct entry *entry)
{
    struct arithmetic a = {.type = dec_take_type(body)};
    enum ptype second = dec_take_type(body);
    uint8_t compare;
    a.flags = dec_take(body, "ftz") ? F_FTZ : 0;
    if (!take_compare(body, &second, &compare))
        return false;
    if (take_combine(body) != COMBINE_NONE)
        return dec_not_supported(body);
    if (a.type == T_NONE || a.type == T_PRED || type_bits(a.type) == 8 || a.type == T_TF32)
        return dec_wrong_type(body);
    const enum ptype types[] = {second, second};
    if (!emit_arithmetic(body, &a, entry->integer, OP_LANE, a.type, types, 2))
        return false;
    struct insn *insn = &body->reader->module->code[body->reader->module->code_count - 1];
    insn->type2 = (uint8_t)second;
    insn->compare = compare;
    return true;
}

bool decode_selp(struct body *body, const struct entry *entry)
{
    (void)entry;
    enum ptype type = dec_take_type(body);
    uint16_t ps;
    if (type == T_NONE || type == T_PRED || type_bits(type) == 8)
        return dec_wrong_type(body);
    const enum ptype types[] = {type, type};
    if (!dec_want(body, 4, 4) || !dec_finish(body) || !dec_predicate_source(body, &body->operands[3], &ps))
        return false;
    struct insn *insn = dec_emit(body, type_bits(type) == 64 ? OP_SELP64 : OP_SELP32, type, types, 2, false);
    if (!insn)
        return false;
    insn->ps = ps;
    return true;
}

bool decode_testp(struct body *body, const struct entry *entry)
{
    static const char *const words[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
    enum ptype type = dec_take_type(body);
    int which = dec_take_one_of(body, words, 6);
    uint16_t pd;
    uint32_t a;
    if ((type != T_F32 && type != T_F64) || which < 0)
        return dec_wrong_type(body);
    if (!dec_want(body, 2, 2) || !dec_finish(body) || !dec_predicate_destination(body, &body->operands[0], &pd) ||
        !dec_source(body, &body->operands[1], type, false, &a))
        return false;
    struct insn *insn = body_emit(body, OP_SETP_LANE);
    if (!insn)
        return false;
    insn->operands = 2;
    insn->o[0] = insn->o[1] = a;
    insn->pd = pd;
    insn->type = (uint8_t)type;
    insn->sub = (uint8_t)which;
    insn->fn = entry->integer;
    return true;
}

/* ---- moves and conversions ---- */

static bool decode_pack(struct body *body, enum ptype type)
{
    const struct operand *vector = &body->operands[body->operands[0].kind == OPD_VECTOR ? 0 : 1];
    bool unpack = vector == &body->operands[0];
    uint32_t o[INSN_OPERANDS], n = vector->count;
    if ((n != 2 && n != 4) || type_bits(type) / n < 8 || body->operands[unpack ? 1 : 0].kind == OPD_VECTOR)
        return dec_bad_operand(body, "is a vector of a size that does not fit");
    static const enum ptype parts[] = {T_B8, T_B16, T_B32};
    unsigned part_bits = type_bits(type) / n;
    enum ptype part = parts[part_bits == 8 ? 0 : part_bits == 16 ? 1 : 2];
    for (uint32_t i = 0; i < n; i++) {
        const struct operand *element = &body->elements[vector->first + i];
        if (unpack ? !dec_destination(body, element, part, part == T_B8, &o[i])
                   : !dec_source(body, element, part, part == T_B8, &o[i + 1]))
            return false;
    }
    if (unpack ? !dec_source(body, &body->operands[1], type, false, &o[n])
               : !dec_destination(body, &body->operands[0], type, false, &o[0]))
        return false;
    struct insn *insn = body_emit(body, unpack ? OP_UNPACK : OP_PACK);
    if (!insn)
        return false;
    insn->dests = (uint8_t)(unpack ? n : 1);
    insn->operands = (uint8_t)(n + 1);
    insn->count = (uint8_t)n;
    insn->type = (uint8_t)part;
    memcpy(insn->o, o, (n + 1) * sizeof(o[0]));
    return true;
}

bool decode_mov(struct body *body, const struct entry *entry)
{
    (void)entry;
    enum ptype type = dec_take_type(body);
    const enum ptype types[] = {type};
    uint16_t pd, ps;
    if (type == T_NONE)
        return dec_wrong_type(body);
    if (!dec_want(body, 2, 2) || !dec_finish(body))
        return false;
    if (type == T_PRED) {
        bool special = body->operands[1].kind == OPD_SPECIAL && body->operands[1].type == T_PRED;
        if (!dec_predicate_destination(body, &body->operands[0], &pd))
            return false;
        if (!special && !dec_predicate_source(body, &body->operands[1], &ps))
            return false;
        struct insn *insn = body_emit(body, special ? OP_SREG : OP_MOV_PRED);
        if (!insn)
            return false;
        insn->pd = pd;
        insn->ps = special ? 0 : ps;
        insn->imm = special ? body->operands[1].special : 0;
        return true;
    }
    if (body->operands[0].kind == OPD_VECTOR || body->operands[1].kind == OPD_VECTOR)
        return decode_pack(body, type);
    return dec_emit(body, type_bits(type) == 64 ? OP_MOV64 : OP_MOV32, type, types, 1, false) != NULL;
}

static enum rounding take_cvt_rounding(struct body *body)
{
    static const char *const words[] = {"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"};
    return (enum rounding)(dec_take_one_of(body, words, 9) + 1);
}

bool decode_cvt(struct body *body, const struct entry *entry)
{
    (void)entry;
    enum rounding rounding = take_cvt_rounding(body);
    uint16_t flags =
        (uint16_t)((dec_take(body, "ftz") ? F_FTZ : 0) | (dec_take(body, "sat") ? F_SAT : 0) |
                   (dec_take(body, "relu") ? F_RELU : 0) | (dec_take(body, "satfinite") ? F_SATFINITE : 0));
    enum ptype to = dec_take_type(body), from = dec_take_type(body);
    if (!dec_finish(body))
        return false;
    if (to == T_NONE || from == T_NONE || to == T_PRED || from == T_PRED || from == T_F16X2 || from == T_BF16X2 ||
        from == T_TF32)
        return dec_wrong_type(body);
    struct insn *insn;
    if (to == T_F16X2 || to == T_BF16X2) {
        const enum ptype types[] = {T_F32, T_F32};
        if (from != T_F32)
            return dec_wrong_type(body);
        if (!dec_want(body, 3, 3))
            return false;
        insn = dec_emit(body, OP_LANE, to, types, 2, false);
        if (insn)
            insn->fn = lane_cvt_pack;
    } else {
        const enum ptype types[] = {from};
        bool same = flags == 0 && rounding == RND_NONE;
        if (!dec_want(body, 2, 2))
            return false;
        insn = dec_emit(body, OP_LANE, to, types, 1, true);
        if (insn) {
            bool from_wide = insn->o[1] & 1, to_wide = insn->o[0] & 1;
            insn->fn = lane_cvt;
            if (same && from == T_U32 && to_wide && !from_wide && (to == T_U64 || to == T_S64))
                insn->op = OP_ZEXT64;
            else if (same && from == T_S32 && to_wide && !from_wide && (to == T_U64 || to == T_S64))
                insn->op = OP_SEXT64;
            else if (same && from_wide && !to_wide && type_bits(to) == 32 && dec_is_integer(to) &&
                     dec_is_integer(from) && type_bits(from) == 64)
                insn->op = OP_TRUNC32;
            else if (rounding == RND_N && flags == 0 && from == T_S32 && to == T_F32 && !from_wide && !to_wide)
                insn->op = OP_S32_TO_F32;
        }
    }
    if (!insn)
        return false;
    insn->type = (uint8_t)to;
    insn->type2 = (uint8_t)from;
    insn->shift = (uint8_t)(64 - type_bits(to));
    insn->rounding = (uint8_t)rounding;
    insn->flags = flags;
    return true;
}
