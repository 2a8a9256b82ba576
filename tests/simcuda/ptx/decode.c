/* SPDX-License-Identifier: Apache-2.0
 *
 * One PTX instruction to `struct insn`. A table maps the first word of the opcode to a decoder; a decoder takes the
 * modifiers that it knows and what is left over is an error, so nothing is ignored by accident.
 */
#include "tests/simcuda/ptx/reader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct entry {
    const char *name;
    bool (*decode)(struct body *body, const struct entry *entry);
    lane_fn *integer, *real; /* what the decoders of arithmetic need */
    uint8_t sources, arg;
};

static int cut(struct text_span span)
{
    return span.length > MESSAGE_WORD_MAX ? MESSAGE_WORD_MAX : (int) span.length;
}

/* ---- modifiers ---- */

static bool take(struct body *body, const char *word)
{
    for (uint32_t i = 0; i < body->modifier_count; i++) {
        if (!body->used[i] && span_is(body->modifiers[i], word))
            return body->used[i] = true;
    }
    return false;
}

static bool starts_with(struct text_span span, const char *prefix)
{
    size_t length = strlen(prefix);
    return span.length >= length && memcmp(span.at, prefix, length) == 0;
}

static void take_all_prefixed(struct body *body, const char *prefix)
{
    for (uint32_t i = 0; i < body->modifier_count; i++)
        body->used[i] |= starts_with(body->modifiers[i], prefix);
}

static void take_everything(struct body *body)
{
    memset(body->used, true, sizeof(body->used));
}

static enum ptype take_type(struct body *body)
{
    for (uint32_t i = 0; i < body->modifier_count; i++) {
        enum ptype type = body->used[i] ? T_NONE : type_from_span(body->modifiers[i]);
        if (type != T_NONE) {
            body->used[i] = true;
            return type;
        }
    }
    return T_NONE;
}

static int take_one_of(struct body *body, const char *const *words, int count)
{
    for (int i = 0; i < count; i++) {
        if (take(body, words[i]))
            return i;
    }
    return -1;
}

/* Modifiers of newer devices that are valid PTX. */
static const char *const unsupported_modifiers[] = {
    "e4m3", "e5m2", "e2m1", "e2m3", "e3m2", "ue8m0", "b128", "f32x2", "u16x2", "s16x2", "v8",
    "u8x4", "s8x4", "multicast", "tensor", "bulk", "im2col", "pack", "async", "L2::cache_hint_",
};

static bool finish_modifiers(struct body *body)
{
    char opcode[MESSAGE_WORD_MAX];
    for (uint32_t i = 0; i < body->modifier_count; i++) {
        if (body->used[i])
            continue;
        for (size_t j = 0; j < sizeof(unsupported_modifiers) / sizeof(unsupported_modifiers[0]); j++) {
            if (starts_with(body->modifiers[i], unsupported_modifiers[j]))
                return body_fail(body, -ENOTSUP, "modifier '.%.*s' of '%s' is not supported", cut(body->modifiers[i]),
                                 body->modifiers[i].at, body_opcode(body, opcode));
        }
        return body_fail(body, -EINVAL, "modifier '.%.*s' of '%s' is not known", cut(body->modifiers[i]),
                         body->modifiers[i].at, body_opcode(body, opcode));
    }
    return true;
}

static bool wrong_type(struct body *body)
{
    char opcode[MESSAGE_WORD_MAX];
    return body_fail(body, -EINVAL, "'%s' has no valid type", body_opcode(body, opcode));
}

static bool not_supported(struct body *body)
{
    char opcode[MESSAGE_WORD_MAX];
    return body_fail(body, -ENOTSUP, "instruction '%s' is not supported", body_opcode(body, opcode));
}

static bool want(struct body *body, uint32_t least, uint32_t most)
{
    char opcode[MESSAGE_WORD_MAX];
    if (body->operand_count >= least && body->operand_count <= most)
        return true;
    return body_fail(body, -EINVAL, "'%s' takes %u operands, not %u", body_opcode(body, opcode),
                     body->operand_count < least ? least : most, body->operand_count);
}

static enum rounding take_rounding(struct body *body)
{
    static const char *const words[] = {"rn", "rz", "rm", "rp", "rna"};
    return (enum rounding)(take_one_of(body, words, 5) + 1);
}

/* ---- operands ---- */

static bool bad_operand(struct body *body, const char *what)
{
    char opcode[MESSAGE_WORD_MAX];
    return body_fail(body, -EINVAL, "an operand of '%s' %s", body_opcode(body, opcode), what);
}

/* Loads, stores and conversions may use wider registers than their type; all else needs the exact size. */
static bool check_size(struct body *body, const struct operand *operand, enum ptype type, bool relaxed)
{
    char opcode[MESSAGE_WORD_MAX];
    unsigned have = type_bits(operand->type), need = type_bits(type);
    if (relaxed ? have >= need : have == need)
        return true;
    return body_fail(body, -EINVAL, "register '%.*s' of '%s' has %u bits where %u are needed", cut(operand->name),
                     operand->name.at, body_opcode(body, opcode), have, need);
}

static bool immediate_bits(struct body *body, const struct operand *operand, enum ptype type, uint64_t *out)
{
    double wide;
    float narrow;
    uint32_t word;
    *out = operand->value;
    if (operand->float_width == 0) {
        if (type == T_F32 || type == T_F64)
            return bad_operand(body, "must be a floating-point number");
        return true;
    }
    if (operand->float_width == 32) {
        word = (uint32_t) operand->value;
        if (type_bits(type) == 32)
            return true;
        memcpy(&narrow, &word, sizeof(narrow));
        wide = (double) narrow;
    } else {
        memcpy(&wide, &operand->value, sizeof(wide));
    }
    if (type == T_F16 || type == T_BF16) {
        *out = type == T_F16 ? half_from_double(wide) : bf16_from_double(wide);
    } else if (type_bits(type) == 32) {
        narrow = (float) wide;
        memcpy(&word, &narrow, sizeof(word));
        *out = word;
    } else if (type_bits(type) == 64) {
        memcpy(out, &wide, sizeof(*out));
    } else {
        return bad_operand(body, "cannot be a floating-point number");
    }
    return true;
}

/* d = special register, as an instruction of its own */
static bool special_source(struct body *body, const struct operand *operand, uint32_t *out)
{
    uint32_t temp = body_temp(body, operand->type == T_U64);
    struct insn *insn = body_emit(body, OP_SREG);
    if (!insn)
        return false;
    insn->dests = insn->operands = 1;
    insn->o[0] = temp;
    insn->imm = operand->special;
    *out = temp;
    return true;
}

static bool local_address(struct body *body, uint64_t offset, uint32_t *out)
{
    uint32_t temp = body_temp(body, true);
    struct insn *insn = body_emit(body, OP_LOCAL_ADDR);
    if (!insn)
        return false;
    insn->dests = insn->operands = 1;
    insn->o[0] = temp;
    insn->imm = (int64_t) offset;
    *out = temp;
    return true;
}

/* base + offset in a fresh 64-bit register */
static bool add_offset(struct body *body, uint32_t base, int64_t offset, uint32_t *out)
{
    uint32_t constant, temp, wide = base;
    struct insn *insn;
    if (!(base & 1)) { /* 32-bit base: addresses of shared memory */
        wide = body_temp(body, true);
        insn = body_emit(body, OP_ZEXT64);
        if (!insn)
            return false;
        insn->dests = 1;
        insn->operands = 2;
        insn->o[0] = wide;
        insn->o[1] = base;
    }
    if (!body_constant(body, (uint64_t) offset, true, -1, &constant))
        return false;
    temp = body_temp(body, true);
    insn = body_emit(body, OP_ADD64);
    if (!insn)
        return false;
    insn->dests = 1;
    insn->operands = 3;
    insn->o[0] = temp;
    insn->o[1] = wide;
    insn->o[2] = constant;
    *out = temp;
    return true;
}

/* The address of a variable, in the space that it lives in. */
static bool symbol_address(struct body *body, const struct operand *operand, bool wide, uint32_t *out)
{
    const struct symbol *symbol = &body->reader->symbols.items[operand->symbol];
    uint64_t offset = (uint64_t) operand->offset, shared;
    struct operand start = {.kind = OPD_SPECIAL, .type = T_U32, .special = SR_DYNAMIC_SMEM_START};
    uint32_t temp;
    switch (symbol->kind) {
    case SYM_GLOBAL:
        if (!wide)
            return bad_operand(body, "is an address and needs 64 bits");
        return body_constant(body, offset, true, (int32_t) symbol->index, out);
    case SYM_FUNCTION:
        if (!wide)
            return bad_operand(body, "is an address and needs 64 bits");
        return body_constant(body, PTX_WINDOW_CODE + symbol->index, true, -1, out);
    case SYM_SHARED:
        return body_shared_offset(body, operand->symbol, &shared) &&
               body_constant(body, shared + offset, wide, -1, out);
    case SYM_SHARED_DYNAMIC:
        body->function->uses_dynamic_shared = true;
        start.type = wide ? T_U64 : T_U32;
        if (!special_source(body, &start, out))
            return false;
        if (offset == 0)
            return true;
        if (!add_offset(body, *out, (int64_t) offset, &temp))
            return false;
        *out = temp;
        if (wide)
            return true;
        break;
    case SYM_LOCAL:
    case SYM_FRAME:
        if (!local_address(body, symbol->offset + offset, &temp))
            return false;
        *out = temp;
        if (wide)
            return true;
        break;
    case SYM_PARAM:
        return body_constant(body, symbol->offset + offset, wide, -1, out);
    default:
        return bad_operand(body, "is no variable");
    }
    /* narrow what was computed in 64 bits */
    temp = body_temp(body, false);
    struct insn *insn = body_emit(body, OP_TRUNC32);
    if (!insn)
        return false;
    insn->dests = 1;
    insn->operands = 2;
    insn->o[0] = temp;
    insn->o[1] = *out;
    *out = temp;
    return true;
}

static bool source(struct body *body, const struct operand *operand, enum ptype type, bool relaxed, uint32_t *out)
{
    uint64_t bits;
    switch (operand->kind) {
    case OPD_REGISTER:
        *out = operand->reg;
        return check_size(body, operand, type, relaxed);
    case OPD_IMMEDIATE:
        return immediate_bits(body, operand, type, &bits) &&
               body_constant(body, bits, type_bits(type) == 64, -1, out);
    case OPD_SPECIAL:
        if (operand->type == T_PRED || (!relaxed && type_bits(type) < type_bits(operand->type) && type != T_B32 &&
                                        type != T_U32 && type != T_S32))
            return bad_operand(body, "is a special register of another size");
        if (type_bits(type) == 64 || type_bits(operand->type) == 32)
            return special_source(body, operand, out) &&
                   (type_bits(type) == type_bits(operand->type) || type_bits(type) < 64 ||
                    add_offset(body, *out, 0, out));
        {
            struct operand narrow = *operand; /* mov.u32 of a 64-bit special register: the low half */
            narrow.type = T_U32;
            return special_source(body, &narrow, out);
        }
    case OPD_SYMBOL:
        if (type_bits(type) < 32)
            return bad_operand(body, "is an address and needs 32 or 64 bits");
        return symbol_address(body, operand, type_bits(type) == 64, out);
    case OPD_NAME:
        return body_fail(body, -EINVAL, "'%.*s' is not declared", cut(operand->name), operand->name.at);
    default:
        return bad_operand(body, "is of a kind that has no place here");
    }
}

static bool destination(struct body *body, const struct operand *operand, enum ptype type, bool relaxed, uint32_t *out)
{
    if (operand->kind == OPD_SINK) {
        *out = body_temp(body, type_bits(type) == 64);
        return true;
    }
    if (operand->kind == OPD_NAME)
        return body_fail(body, -EINVAL, "'%.*s' is not declared", cut(operand->name), operand->name.at);
    if (operand->kind != OPD_REGISTER)
        return bad_operand(body, "must be a register");
    *out = operand->reg;
    return check_size(body, operand, type, relaxed);
}

static bool predicate_source(struct body *body, const struct operand *operand, uint16_t *out)
{
    if (operand->kind == OPD_IMMEDIATE && operand->float_width == 0) {
        *out = operand->value ? 0 : 1; /* predicate 0 is "true" */
        return true;
    }
    if (operand->kind != OPD_PREDICATE)
        return bad_operand(body, "must be a predicate");
    *out = (uint16_t) (operand->reg << 1 | operand->negated);
    return true;
}

static bool predicate_destination(struct body *body, const struct operand *operand, uint16_t *out)
{
    *out = 0;
    if (operand->kind == OPD_SINK)
        return true;
    if (operand->kind != OPD_PREDICATE || operand->negated)
        return bad_operand(body, "must be a predicate");
    *out = (uint16_t) operand->reg;
    return true;
}

/* operands[0] = dest, operands[1 .. n] = sources of the given types, to one instruction */
static struct insn *emit_n(struct body *body, enum op op, enum ptype dest, const enum ptype *types, uint32_t n,
                           bool relaxed)
{
    uint32_t o[INSN_OPERANDS];
    for (uint32_t i = 0; i < n; i++) {
        if (!source(body, &body->operands[i + 1], types[i], relaxed, &o[i + 1]))
            return NULL;
    }
    if (!destination(body, &body->operands[0], dest, relaxed, &o[0]))
        return NULL;
    struct insn *insn = body_emit(body, op);
    if (!insn)
        return NULL;
    insn->dests = 1;
    insn->operands = (uint8_t) (n + 1);
    memcpy(insn->o, o, (n + 1) * sizeof(o[0]));
    return insn;
}

static struct insn *emit_lane(struct body *body, lane_fn *fn, enum ptype type, enum ptype dest,
                              const enum ptype *types, uint32_t n)
{
    struct insn *insn = emit_n(body, OP_LANE, dest, types, n, false);
    if (insn) {
        insn->fn = fn;
        insn->type = (uint8_t) type;
        insn->shift = (uint8_t) (64 - type_bits(type));
    }
    return insn;
}

/* ---- arithmetic ---- */

struct arithmetic {
    enum ptype type;
    enum rounding rounding;
    uint16_t flags;
    bool lo, hi, wide, approx, full;
};

static bool is_integer(enum ptype type)
{
    return type >= T_B8 && type <= T_S64;
}

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
    *a = (struct arithmetic){.type = take_type(body)};
    if (type_is_float(a->type)) {
        a->rounding = take_rounding(body);
        a->flags |= take(body, "ftz") ? F_FTZ : 0;
        a->flags |= take(body, "relu") ? F_RELU : 0;
        a->approx = take(body, "approx");
        a->full = take(body, "full");
    } else {
        a->lo = take(body, "lo");
        a->hi = take(body, "hi");
        a->wide = take(body, "wide");
    }
    if (sat_ok)
        a->flags |= take(body, "sat") ? F_SAT : 0;
}

static bool emit_arithmetic(struct body *body, const struct arithmetic *a, lane_fn *fn, enum op op, enum ptype dest,
                            const enum ptype *types, uint32_t n)
{
    if (!want(body, n + 1, n + 1) || !finish_modifiers(body))
        return false;
    struct insn *insn = emit_lane(body, fn, a->type, dest, types, n);
    if (!insn)
        return false;
    insn->op = (uint16_t) op;
    insn->flags = a->flags;
    insn->rounding = (uint8_t) a->rounding;
    return true;
}

static enum ptype twice_as_wide(enum ptype type)
{
    switch (type) {
    case T_U16: return T_U32;
    case T_S16: return T_S32;
    case T_U32: return T_U64;
    case T_S32: return T_S64;
    default: return T_NONE;
    }
}

static bool decode_carry(struct body *body, unsigned operation, bool in, uint32_t n)
{
    bool out = take(body, "cc"), hi = false;
    enum ptype type = take_type(body);
    if (!is_integer(type) || type_bits(type) < 32)
        return wrong_type(body);
    if (operation == CARRY_MAD) {
        hi = take(body, "hi");
        if (!hi && !take(body, "lo"))
            return body_fail(body, -EINVAL, "mad with carry needs .lo or .hi");
    }
    const enum ptype types[] = {type, type, type};
    struct arithmetic a = {.type = type};
    a.flags = (uint16_t) ((out ? F_CC : 0) | (in ? F_CIN : 0) | (hi ? F_HI : 0) |
                          (type_is_signed(type) ? F_SIGNED : 0));
    if (!emit_arithmetic(body, &a, NULL, OP_CARRY, type, types, n))
        return false;
    body->reader->module->code[body->reader->module->code_count - 1].sub = (uint8_t) operation;
    return true;
}

static bool has_modifier(const struct body *body, const char *word)
{
    for (uint32_t i = 0; i < body->modifier_count; i++) {
        if (span_is(body->modifiers[i], word))
            return true;
    }
    return false;
}

static bool decode_addsub(struct body *body, const struct entry *entry)
{
    struct arithmetic a;
    if (has_modifier(body, "cc"))
        return decode_carry(body, entry->arg, false, 2);
    take_arithmetic(body, &a, true);
    if (a.type == T_NONE || a.type == T_PRED || type_bits(a.type) == 8 || a.type == T_TF32 || a.lo || a.hi || a.wide)
        return wrong_type(body);
    if (a.flags & F_SAT && is_integer(a.type) && a.type != T_S32)
        return wrong_type(body);
    bool real = type_is_float(a.type);
    lane_fn *fn = real ? entry->real : entry->integer;
    enum op op = real ? fast_real(fn, &a) : a.flags & F_SAT ? OP_LANE : fast_integer(fn, a.type);
    const enum ptype types[] = {a.type, a.type};
    return emit_arithmetic(body, &a, fn, op, a.type, types, 2);
}

static bool decode_addsubc(struct body *body, const struct entry *entry)
{
    return decode_carry(body, entry->arg, true, 2);
}

static bool decode_madc(struct body *body, const struct entry *entry)
{
    (void) entry;
    return decode_carry(body, CARRY_MAD, true, 3);
}

/* mul, mad */
static bool decode_multiply(struct body *body, const struct entry *entry)
{
    struct arithmetic a;
    bool mad = entry->arg;
    if (mad && has_modifier(body, "cc"))
        return decode_carry(body, CARRY_MAD, false, 3);
    take_arithmetic(body, &a, true);
    if (type_is_float(a.type)) {
        lane_fn *fn = mad ? lane_float_fma : lane_float_mul; /* mad.f32 is fma on every device since sm_20 */
        const enum ptype types[] = {a.type, a.type, a.type};
        if (a.type == T_TF32 || a.approx || a.full)
            return wrong_type(body);
        return emit_arithmetic(body, &a, fn, fast_real(fn, &a), a.type, types, mad ? 3 : 2);
    }
    if (!is_integer(a.type) || type_bits(a.type) == 8)
        return wrong_type(body);
    if (a.flags & F_SAT && !(mad && a.hi && a.type == T_S32))
        return wrong_type(body);
    if (a.lo + a.hi + a.wide != 1)
        return body_fail(body, -EINVAL, "integer mul and mad need one of .lo, .hi, .wide");
    enum ptype dest = a.wide ? twice_as_wide(a.type) : a.type;
    if (dest == T_NONE)
        return wrong_type(body);
    lane_fn *fn = a.wide ? (mad ? lane_mad_wide : lane_mul_wide)
                  : a.hi ? (mad ? lane_mad_hi : lane_mul_hi)
                         : (mad ? lane_mad_lo : lane_mul_lo);
    const enum ptype types[] = {a.type, a.type, dest};
    return emit_arithmetic(body, &a, fn, fast_integer(fn, a.type), dest, types, mad ? 3 : 2);
}

static bool decode_mul24(struct body *body, const struct entry *entry)
{
    struct arithmetic a;
    take_arithmetic(body, &a, false);
    if ((a.type != T_U32 && a.type != T_S32) || a.lo + a.hi != 1)
        return wrong_type(body);
    a.flags = a.hi ? F_HI : 0;
    const enum ptype types[] = {a.type, a.type, a.type};
    return emit_arithmetic(body, &a, entry->integer, OP_LANE, a.type, types, entry->sources);
}

static bool decode_fma(struct body *body, const struct entry *entry)
{
    struct arithmetic a;
    take_arithmetic(body, &a, true);
    if (!type_is_float(a.type) || a.type == T_TF32 || a.approx || a.full)
        return wrong_type(body);
    const enum ptype types[] = {a.type, a.type, a.type};
    return emit_arithmetic(body, &a, entry->real, fast_real(entry->real, &a), a.type, types, 3);
}

static bool decode_divide(struct body *body, const struct entry *entry)
{
    struct arithmetic a;
    take_arithmetic(body, &a, false);
    const enum ptype types[] = {a.type, a.type};
    a.flags |= a.approx ? F_APPROX : 0;
    if (entry->real && (a.type == T_F32 || a.type == T_F64))
        return emit_arithmetic(body, &a, entry->real, OP_LANE, a.type, types, 2);
    if (!is_integer(a.type) || type_bits(a.type) == 8 || a.lo || a.hi || a.wide)
        return wrong_type(body);
    return emit_arithmetic(body, &a, entry->integer, OP_LANE, a.type, types, 2);
}

/* abs, neg, min, max */
static bool decode_signs(struct body *body, const struct entry *entry)
{
    struct arithmetic a;
    take_arithmetic(body, &a, false);
    if (type_is_float(a.type) && entry->sources == 2) {
        a.flags |= take(body, "NaN") ? F_NAN : 0;
        if (take(body, "xorsign")) {
            if (!take(body, "abs"))
                return body_fail(body, -EINVAL, ".xorsign needs .abs");
            a.flags |= F_ABS;
        }
    } else if (is_integer(a.type) && entry->sources == 2) {
        a.flags |= take(body, "relu") ? F_RELU : 0;
    }
    bool real = type_is_float(a.type);
    if ((!real && !is_integer(a.type)) || type_bits(a.type) == 8 || a.type == T_TF32 || a.lo || a.hi || a.wide)
        return wrong_type(body);
    lane_fn *fn = real ? entry->real : entry->integer;
    enum op op = real ? fast_real(fn, &a) : a.flags ? OP_LANE : fast_integer(fn, a.type);
    const enum ptype types[] = {a.type, a.type};
    return emit_arithmetic(body, &a, fn, op, a.type, types, entry->sources);
}

/* sqrt rcp rsqrt ex2 lg2 sin cos tanh */
static bool decode_function(struct body *body, const struct entry *entry)
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
            return wrong_type(body);
    } else if (a.type != T_F32 && !(halves && type_is_float(a.type) && a.type != T_TF32)) {
        return wrong_type(body);
    }
    if (a.approx)
        a.rounding = RND_NONE;
    const enum ptype types[] = {a.type};
    return emit_arithmetic(body, &a, fn, OP_LANE, a.type, types, 1);
}

static bool decode_copysign(struct body *body, const struct entry *entry)
{
    struct arithmetic a = {.type = take_type(body)};
    if (a.type != T_F32 && a.type != T_F64)
        return wrong_type(body);
    const enum ptype types[] = {a.type, a.type};
    return emit_arithmetic(body, &a, entry->real, OP_LANE, a.type, types, 2);
}

/* and or xor not cnot, also of predicates */
static bool decode_logic(struct body *body, const struct entry *entry)
{
    struct arithmetic a = {.type = take_type(body)};
    if (a.type == T_PRED && entry->arg) {
        uint16_t pd, ps, ps2 = 0;
        if (!want(body, entry->sources + 1u, entry->sources + 1u) || !finish_modifiers(body) ||
            !predicate_destination(body, &body->operands[0], &pd) || !predicate_source(body, &body->operands[1], &ps))
            return false;
        if (entry->sources == 2 && !predicate_source(body, &body->operands[2], &ps2))
            return false;
        struct insn *insn = body_emit(body, entry->sources == 1 ? OP_MOV_PRED : (enum op) entry->arg);
        if (!insn)
            return false;
        insn->pd = pd;
        insn->ps = entry->sources == 1 ? ps ^ 1 : ps;
        insn->ps2 = ps2;
        return true;
    }
    if (!is_integer(a.type) || type_bits(a.type) == 8)
        return wrong_type(body);
    const enum ptype types[] = {a.type, a.type};
    return emit_arithmetic(body, &a, entry->integer, fast_integer(entry->integer, a.type), a.type, types,
                           entry->sources);
}

static bool decode_shift(struct body *body, const struct entry *entry)
{
    struct arithmetic a = {.type = take_type(body)};
    if (!is_integer(a.type) || type_bits(a.type) == 8)
        return wrong_type(body);
    const enum ptype types[] = {a.type, T_U32};
    return emit_arithmetic(body, &a, entry->integer, fast_integer(entry->integer, a.type), a.type, types, 2);
}

static bool decode_shf(struct body *body, const struct entry *entry)
{
    struct arithmetic a = {.type = take_type(body)};
    bool left = take(body, "l"), right = take(body, "r"), wrap = take(body, "wrap"), clamp = take(body, "clamp");
    if (type_bits(a.type) != 32 || left == right || wrap == clamp)
        return wrong_type(body);
    a.flags = (uint16_t) ((wrap ? F_WRAP : 0) | (left ? F_HI : 0));
    const enum ptype types[] = {T_B32, T_B32, T_U32};
    return emit_arithmetic(body, &a, entry->integer, OP_LANE, T_B32, types, 3);
}

/* popc clz bfind brev: arg 1 = the result is u32 */
static bool decode_bits(struct body *body, const struct entry *entry)
{
    struct arithmetic a = {.type = take_type(body)};
    if (!is_integer(a.type) || type_bits(a.type) < 32)
        return wrong_type(body);
    if (entry->integer == lane_bfind)
        a.flags = take(body, "shiftamt") ? F_WRAP : 0;
    const enum ptype types[] = {a.type};
    return emit_arithmetic(body, &a, entry->integer, OP_LANE, entry->arg ? T_U32 : a.type, types, 1);
}

static bool decode_bitfield(struct body *body, const struct entry *entry)
{
    struct arithmetic a = {.type = take_type(body)};
    if (!is_integer(a.type) || type_bits(a.type) < 32)
        return wrong_type(body);
    const enum ptype extract[] = {a.type, T_U32, T_U32}, insert[] = {a.type, a.type, T_U32, T_U32};
    return entry->sources == 3 ? emit_arithmetic(body, &a, entry->integer, OP_LANE, a.type, extract, 3)
                               : emit_arithmetic(body, &a, entry->integer, OP_LANE, a.type, insert, 4);
}

/* fns, sad, bmsk, szext: all operands of one type or u32 */
static bool decode_misc(struct body *body, const struct entry *entry)
{
    struct arithmetic a = {.type = take_type(body)};
    enum ptype type = a.type, dest = a.type;
    if (entry->integer == lane_bmsk || entry->integer == lane_szext) {
        a.flags = take(body, "wrap") ? F_WRAP : 0;
        if (!(a.flags & F_WRAP) && !take(body, "clamp"))
            return body_fail(body, -EINVAL, "needs .wrap or .clamp");
    }
    if (entry->integer == lane_sad) {
        dest = type_is_signed(type) && type_bits(type) == 16 ? T_U16 : type;
        if (!is_integer(type) || type_bits(type) == 8)
            return wrong_type(body);
    } else if (!is_integer(type) || type_bits(type) != 32) {
        return wrong_type(body);
    }
    const enum ptype types[] = {type, type, type};
    return emit_arithmetic(body, &a, entry->integer, OP_LANE, dest, types, entry->sources);
}

static bool decode_prmt(struct body *body, const struct entry *entry)
{
    static const char *const modes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
    struct arithmetic a = {.type = take_type(body)};
    int mode = take_one_of(body, modes, 6);
    if (a.type != T_B32)
        return wrong_type(body);
    const enum ptype types[] = {T_B32, T_B32, T_B32};
    if (!emit_arithmetic(body, &a, entry->integer, OP_LANE, T_B32, types, 3))
        return false;
    body->reader->module->code[body->reader->module->code_count - 1].sub = (uint8_t) (mode + 1);
    return true;
}

static bool decode_lop3(struct body *body, const struct entry *entry)
{
    enum ptype type = take_type(body);
    const enum ptype types[] = {T_B32, T_B32, T_B32};
    if (type != T_B32)
        return wrong_type(body);
    if (!want(body, 5, 5) || !finish_modifiers(body))
        return false;
    const struct operand *table = &body->operands[4];
    if (table->kind != OPD_IMMEDIATE || table->float_width || table->value > 255)
        return bad_operand(body, "must be a lookup table of 0 to 255");
    struct insn *insn = emit_lane(body, entry->integer, type, type, types, 3);
    if (!insn)
        return false;
    insn->sub = (uint8_t) table->value;
    return true;
}

static bool decode_dot(struct body *body, const struct entry *entry)
{
    struct arithmetic a = {.type = take_type(body)};
    enum ptype second = take_type(body);
    bool hi = take(body, "hi"), lo = take(body, "lo");
    if ((a.type != T_U32 && a.type != T_S32) || (second != T_U32 && second != T_S32) ||
        (entry->integer == lane_dp2a ? hi == lo : hi || lo))
        return wrong_type(body);
    a.flags = hi ? F_HI : 0;
    const enum ptype types[] = {T_B32, T_B32, T_B32};
    if (!emit_arithmetic(body, &a, entry->integer, OP_LANE, T_B32, types, 3))
        return false;
    body->reader->module->code[body->reader->module->code_count - 1].type2 = (uint8_t) second;
    return true;
}

static bool decode_slct(struct body *body, const struct entry *entry)
{
    struct arithmetic a = {.type = take_type(body)};
    enum ptype second = take_type(body);
    a.flags = take(body, "ftz") ? F_FTZ : 0;
    if (a.type == T_NONE || a.type == T_PRED || (second != T_S32 && second != T_F32))
        return wrong_type(body);
    const enum ptype types[] = {a.type, a.type, second};
    if (!emit_arithmetic(body, &a, entry->integer, OP_LANE, a.type, types, 3))
        return false;
    body->reader->module->code[body->reader->module->code_count - 1].type2 = (uint8_t) second;
    return true;
}

/* ---- comparisons ---- */

static bool take_compare(struct body *body, enum ptype *type, uint8_t *compare)
{
    static const char *const words[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ", "neu", "ltu",
                                        "leu", "gtu", "geu", "num", "nan", "lo",  "ls",  "hi",  "hs"};
    int found = take_one_of(body, words, 18);
    if (found < 0)
        return body_fail(body, -EINVAL, "a comparison such as .eq or .lt is missing");
    if (found >= 14) { /* the unsigned names, on bits */
        static const uint8_t plain[] = {CMP_LT, CMP_LE, CMP_GT, CMP_GE};
        *compare = plain[found - 14];
    } else {
        *compare = (uint8_t) found;
    }
    if (*type == T_NONE || *type == T_PRED || *type == T_TF32 || type_bits(*type) == 8 ||
        (found >= CMP_EQU && found <= CMP_NAN && !type_is_float(*type)))
        return wrong_type(body);
    return true;
}

static enum combine take_combine(struct body *body)
{
    static const char *const words[] = {"and", "or", "xor"};
    return (enum combine)(take_one_of(body, words, 3) + 1);
}

static bool decode_setp(struct body *body, const struct entry *entry)
{
    (void) entry;
    enum ptype type = take_type(body);
    uint8_t compare;
    uint16_t pd, ps = 0, flags = take(body, "ftz") ? F_FTZ : 0;
    uint32_t a, b;
    if (!take_compare(body, &type, &compare))
        return false;
    enum combine combine = take_combine(body);
    uint32_t n = combine ? 4 : 3;
    if (!want(body, n, n) || !finish_modifiers(body) || !predicate_destination(body, &body->operands[0], &pd) ||
        !source(body, &body->operands[1], type, false, &a) || !source(body, &body->operands[2], type, false, &b))
        return false;
    if (combine && !predicate_source(body, &body->operands[3], &ps))
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
    insn->pd2 = (uint16_t) body->operands[0].pair;
    insn->ps = ps;
    insn->type = (uint8_t) type;
    insn->shift = (uint8_t) (64 - type_bits(type));
    insn->flags = flags;
    insn->compare = compare;
    insn->combine = (uint8_t) combine;
    insn->fn = lane_compare;
    return true;
}

static bool decode_set(struct body *body, const struct entry *entry)
{
    struct arithmetic a = {.type = take_type(body)};
    enum ptype second = take_type(body);
    uint8_t compare;
    a.flags = take(body, "ftz") ? F_FTZ : 0;
    if (!take_compare(body, &second, &compare))
        return false;
    if (take_combine(body) != COMBINE_NONE)
        return not_supported(body);
    if (a.type == T_NONE || a.type == T_PRED || type_bits(a.type) == 8 || a.type == T_TF32)
        return wrong_type(body);
    const enum ptype types[] = {second, second};
    if (!emit_arithmetic(body, &a, entry->integer, OP_LANE, a.type, types, 2))
        return false;
    struct insn *insn = &body->reader->module->code[body->reader->module->code_count - 1];
    insn->type2 = (uint8_t) second;
    insn->compare = compare;
    return true;
}

static bool decode_selp(struct body *body, const struct entry *entry)
{
    (void) entry;
    enum ptype type = take_type(body);
    uint16_t ps;
    if (type == T_NONE || type == T_PRED || type_bits(type) == 8)
        return wrong_type(body);
    const enum ptype types[] = {type, type};
    if (!want(body, 4, 4) || !finish_modifiers(body) || !predicate_source(body, &body->operands[3], &ps))
        return false;
    struct insn *insn = emit_n(body, type_bits(type) == 64 ? OP_SELP64 : OP_SELP32, type, types, 2, false);
    if (!insn)
        return false;
    insn->ps = ps;
    return true;
}

static bool decode_testp(struct body *body, const struct entry *entry)
{
    static const char *const words[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
    enum ptype type = take_type(body);
    int which = take_one_of(body, words, 6);
    uint16_t pd;
    uint32_t a;
    if ((type != T_F32 && type != T_F64) || which < 0)
        return wrong_type(body);
    if (!want(body, 2, 2) || !finish_modifiers(body) || !predicate_destination(body, &body->operands[0], &pd) ||
        !source(body, &body->operands[1], type, false, &a))
        return false;
    struct insn *insn = body_emit(body, OP_SETP_LANE);
    if (!insn)
        return false;
    insn->operands = 2;
    insn->o[0] = insn->o[1] = a;
    insn->pd = pd;
    insn->type = (uint8_t) type;
    insn->sub = (uint8_t) which;
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
        return bad_operand(body, "is a vector of a size that does not fit");
    static const enum ptype parts[] = {T_B8, T_B16, T_B32};
    unsigned part_bits = type_bits(type) / n;
    enum ptype part = parts[part_bits == 8 ? 0 : part_bits == 16 ? 1 : 2];
    for (uint32_t i = 0; i < n; i++) {
        const struct operand *element = &body->elements[vector->first + i];
        if (unpack ? !destination(body, element, part, part == T_B8, &o[i])
                   : !source(body, element, part, part == T_B8, &o[i + 1]))
            return false;
    }
    if (unpack ? !source(body, &body->operands[1], type, false, &o[n])
               : !destination(body, &body->operands[0], type, false, &o[0]))
        return false;
    struct insn *insn = body_emit(body, unpack ? OP_UNPACK : OP_PACK);
    if (!insn)
        return false;
    insn->dests = (uint8_t) (unpack ? n : 1);
    insn->operands = (uint8_t) (n + 1);
    insn->count = (uint8_t) n;
    insn->type = (uint8_t) part;
    memcpy(insn->o, o, (n + 1) * sizeof(o[0]));
    return true;
}

static bool decode_mov(struct body *body, const struct entry *entry)
{
    (void) entry;
    enum ptype type = take_type(body);
    const enum ptype types[] = {type};
    uint16_t pd, ps;
    if (type == T_NONE)
        return wrong_type(body);
    if (!want(body, 2, 2) || !finish_modifiers(body))
        return false;
    if (type == T_PRED) {
        bool special = body->operands[1].kind == OPD_SPECIAL && body->operands[1].type == T_PRED;
        if (!predicate_destination(body, &body->operands[0], &pd))
            return false;
        if (!special && !predicate_source(body, &body->operands[1], &ps))
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
    return emit_n(body, type_bits(type) == 64 ? OP_MOV64 : OP_MOV32, type, types, 1, false) != NULL;
}

static enum rounding take_cvt_rounding(struct body *body)
{
    static const char *const words[] = {"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"};
    return (enum rounding)(take_one_of(body, words, 9) + 1);
}

static bool decode_cvt(struct body *body, const struct entry *entry)
{
    (void) entry;
    enum rounding rounding = take_cvt_rounding(body);
    uint16_t flags = (uint16_t) ((take(body, "ftz") ? F_FTZ : 0) | (take(body, "sat") ? F_SAT : 0) |
                                 (take(body, "relu") ? F_RELU : 0) | (take(body, "satfinite") ? F_SATFINITE : 0));
    enum ptype to = take_type(body), from = take_type(body);
    if (!finish_modifiers(body))
        return false;
    if (to == T_NONE || from == T_NONE || to == T_PRED || from == T_PRED || from == T_F16X2 || from == T_BF16X2 ||
        from == T_TF32)
        return wrong_type(body);
    struct insn *insn;
    if (to == T_F16X2 || to == T_BF16X2) {
        const enum ptype types[] = {T_F32, T_F32};
        if (from != T_F32)
            return wrong_type(body);
        if (!want(body, 3, 3))
            return false;
        insn = emit_n(body, OP_LANE, to, types, 2, false);
        if (insn)
            insn->fn = lane_cvt_pack;
    } else {
        const enum ptype types[] = {from};
        bool same = flags == 0 && rounding == RND_NONE;
        if (!want(body, 2, 2))
            return false;
        insn = emit_n(body, OP_LANE, to, types, 1, true);
        if (insn) {
            bool from_wide = insn->o[1] & 1, to_wide = insn->o[0] & 1;
            insn->fn = lane_cvt;
            if (same && from == T_U32 && to_wide && !from_wide && (to == T_U64 || to == T_S64))
                insn->op = OP_ZEXT64;
            else if (same && from == T_S32 && to_wide && !from_wide && (to == T_U64 || to == T_S64))
                insn->op = OP_SEXT64;
            else if (same && from_wide && !to_wide && type_bits(to) == 32 && is_integer(to) && is_integer(from) &&
                     type_bits(from) == 64)
                insn->op = OP_TRUNC32;
            else if (rounding == RND_N && flags == 0 && from == T_S32 && to == T_F32 && !from_wide && !to_wide)
                insn->op = OP_S32_TO_F32;
        }
    }
    if (!insn)
        return false;
    insn->type = (uint8_t) to;
    insn->type2 = (uint8_t) from;
    insn->shift = (uint8_t) (64 - type_bits(to));
    insn->rounding = (uint8_t) rounding;
    insn->flags = flags;
    return true;
}

/* ---- memory ---- */

static enum space take_space(struct body *body, bool *given)
{
    static const struct {
        const char *word;
        enum space space;
    } words[] = {
        {"global", SP_GLOBAL},
        {"const", SP_CONST},
        {"shared", SP_SHARED},
        {"shared::cta", SP_SHARED},
        {"shared::cluster", SP_SHARED},
        {"local", SP_LOCAL},
        {"param", SP_PARAM_KERNEL},
        {"param::entry", SP_PARAM_KERNEL},
        {"param::func", SP_PARAM_FRAME},
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (take(body, words[i].word)) {
            *given = true;
            return words[i].space;
        }
    }
    *given = false;
    return SP_GENERIC;
}

/* .weak .relaxed .acquire ... and scopes and cache hints, to flags. */
static uint16_t take_ordering(struct body *body)
{
    static const char *const ignored[] = {"weak", "cta", "cluster", "gpu", "sys", "ca", "cg", "cs", "lu",
                                          "cv",   "wb",  "wt",      "nc",  "unified"};
    uint16_t flags = 0;
    if (take(body, "volatile") | take(body, "relaxed") | take(body, "mmio"))
        flags |= F_POLL;
    if (take(body, "acquire"))
        flags |= F_POLL | F_ACQUIRE;
    if (take(body, "release"))
        flags |= F_POLL | F_RELEASE;
    if (take(body, "acq_rel"))
        flags |= F_POLL | F_ACQUIRE | F_RELEASE;
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        take(body, ignored[i]);
    take_all_prefixed(body, "L1::");
    take_all_prefixed(body, "L2::");
    take_all_prefixed(body, "level::");
    return flags;
}

/* Base operand and offset of an address. Variables must live in the space that the instruction names. */
static bool address(struct body *body, const struct operand *operand, enum space space, uint32_t *base, int64_t *offset)
{
    if (operand->kind != OPD_ADDRESS)
        return bad_operand(body, "must be an address in brackets");
    *offset = operand->offset;
    if (operand->base == UINT32_MAX) {
        *offset = 0;
        return body_constant(body, (uint64_t) operand->offset, true, -1, base);
    }
    const struct operand *inner = &body->elements[operand->base];
    if (inner->kind == OPD_REGISTER) {
        *base = inner->reg;
        unsigned bits = type_bits(inner->type);
        if (bits == 64 || (bits == 32 && space == SP_SHARED))
            return true;
        return body_fail(body, -EINVAL, "register '%.*s' is no address of that space", cut(inner->name),
                         inner->name.at);
    }
    const enum symbol_kind kind = body->reader->symbols.items[inner->symbol].kind;
    bool fits = kind == SYM_GLOBAL                                ? space == SP_GLOBAL || space == SP_CONST || space == SP_GENERIC
                : kind == SYM_SHARED || kind == SYM_SHARED_DYNAMIC ? space == SP_SHARED
                : kind == SYM_LOCAL                               ? space == SP_LOCAL
                : kind == SYM_FRAME                               ? space == SP_PARAM_FRAME
                : kind == SYM_PARAM                               ? space == SP_PARAM_KERNEL
                                                                  : false;
    if (!fits)
        return body_fail(body, -EINVAL, "'%.*s' is no variable of the space that the instruction names",
                         cut(inner->name), inner->name.at);
    struct operand plain = *inner;
    plain.offset = 0;
    return symbol_address(body, &plain, true, base);
}

/* Parameter accesses with a name go straight to the parameter buffer or the frame. */
static bool decode_param_access(struct body *body, enum op op, struct insn *made)
{
    const struct operand *operand = &body->operands[op == OP_ST_FRAME ? 0 : 1];
    const struct operand *inner = &body->elements[operand->base];
    const struct symbol *symbol = &body->reader->symbols.items[inner->symbol];
    uint64_t end = (uint64_t) operand->offset + (uint64_t) made->bytes * made->count;
    if (operand->offset < 0 || end > symbol->size)
        return body_fail(body, -EINVAL, "access outside of parameter '%.*s'", cut(inner->name), inner->name.at);
    if ((symbol->offset + (uint64_t) operand->offset) % ((uint64_t) made->bytes * made->count))
        return body_fail(body, -EINVAL, "misaligned access to parameter '%.*s'", cut(inner->name), inner->name.at);
    made->imm = (int64_t) symbol->offset + operand->offset;
    struct insn *insn = body_emit(body, op);
    if (!insn)
        return false;
    made->op = (uint16_t) op;
    made->guard = insn->guard;
    made->line = insn->line;
    *insn = *made;
    return true;
}

static bool decode_memory(struct body *body, const struct entry *entry)
{
    bool store = entry->arg, given;
    struct insn made = {0};
    made.flags = take_ordering(body);
    enum space space = take_space(body, &given);
    made.count = take(body, "v2") ? 2 : take(body, "v4") ? 4 : 1;
    enum ptype type = take_type(body);
    if (!finish_modifiers(body))
        return false;
    if (type == T_NONE || type == T_PRED || type == T_TF32)
        return wrong_type(body);
    bool hint = body->operand_count == 3; /* a cache policy */
    if (!want(body, 2, 3))
        return false;
    if (hint && (body->operands[2].kind != OPD_REGISTER || type_bits(body->operands[2].type) != 64))
        return bad_operand(body, "must be a cache policy");
    const struct operand *where = &body->operands[store ? 0 : 1], *what = &body->operands[store ? 1 : 0];
    made.type = (uint8_t) type;
    made.bytes = (uint8_t) type_bytes(type);
    made.shift = (uint8_t) (64 - type_bits(type));
    if (made.bytes * made.count > 16)
        return wrong_type(body);
    /* values */
    for (uint32_t i = 0; i < made.count; i++) {
        const struct operand *value = what;
        if (made.count > 1 || what->kind == OPD_VECTOR) {
            if (what->kind != OPD_VECTOR || what->count != made.count)
                return bad_operand(body, "must be a vector of the size that the instruction names");
            value = &body->elements[what->first + i];
        }
        if (store ? !source(body, value, type, true, &made.o[i]) : !destination(body, value, type, true, &made.o[i]))
            return false;
    }
    made.dests = store ? 0 : made.count;
    made.operands = made.count;
    /* place */
    if (where->kind != OPD_ADDRESS)
        return bad_operand(body, "must be an address in brackets");
    const struct operand *inner = where->base != UINT32_MAX ? &body->elements[where->base] : NULL;
    if (space == SP_PARAM_KERNEL || space == SP_PARAM_FRAME) {
        if (inner && inner->kind == OPD_SYMBOL) {
            enum symbol_kind kind = body->reader->symbols.items[inner->symbol].kind;
            if (kind == SYM_FRAME)
                return decode_param_access(body, store ? OP_ST_FRAME : OP_LD_FRAME, &made);
            if (kind == SYM_PARAM && !store)
                return decode_param_access(body, OP_LD_PARAM, &made);
            return body_fail(body, -EINVAL, "'%.*s' is no parameter that can be accessed so", cut(inner->name),
                             inner->name.at);
        }
        space = body->function->is_entry ? SP_PARAM_KERNEL : SP_PARAM_FRAME;
    }
    if (store && (space == SP_CONST || space == SP_PARAM_KERNEL))
        return body_fail(body, -EINVAL, "this memory cannot be written");
    uint32_t base;
    if (!address(body, where, space, &base, &made.imm))
        return false;
    struct insn *insn = body_emit(body, store ? OP_ST : OP_LD);
    if (!insn)
        return false;
    made.op = insn->op;
    made.guard = insn->guard;
    made.line = insn->line;
    made.space = (uint8_t) (space == SP_PARAM_FRAME ? SP_LOCAL : space);
    made.o[made.operands++] = base;
    *insn = made;
    return true;
}

static bool decode_atom(struct body *body, const struct entry *entry)
{
    static const char *const words[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"};
    bool reduction = entry->arg, given;
    uint16_t flags = take_ordering(body);
    enum space space = take_space(body, &given);
    int what = take_one_of(body, words, 10);
    enum ptype type = take_type(body);
    uint32_t d = 0, base, b, c = 0, at = reduction ? 0 : 1;
    int64_t offset;
    take(body, "noftz");
    if (what < 0)
        return not_supported(body);
    if (!finish_modifiers(body))
        return false;
    bool real = type_is_float(type), sized = type_bits(type) >= 32 || (what == AT_CAS && type_bits(type) == 16);
    if (type == T_NONE || type == T_PRED || type == T_TF32 || (real && what != AT_ADD && what != AT_MIN && what != AT_MAX) ||
        (real && what != AT_ADD && type_bits(type) == 64) || (!real && !sized) ||
        (space != SP_GENERIC && space != SP_GLOBAL && space != SP_SHARED) || (reduction && what >= AT_EXCH))
        return wrong_type(body);
    uint32_t n = at + (what == AT_CAS ? 3u : 2u);
    if (!want(body, n, n + 1)) /* + cache policy */
        return false;
    if (!address(body, &body->operands[at], space, &base, &offset) ||
        !source(body, &body->operands[at + 1], type, false, &b))
        return false;
    if (what == AT_CAS && !source(body, &body->operands[at + 2], type, false, &c))
        return false;
    if (!reduction && !destination(body, &body->operands[0], type, false, &d))
        return false;
    if (what != AT_CAS && !body_constant(body, 0, type_bits(type) == 64, -1, &c))
        return false;
    if (reduction)
        d = body_temp(body, type_bits(type) == 64);
    struct insn *insn = body_emit(body, OP_ATOM);
    if (!insn)
        return false;
    insn->dests = 1;
    insn->operands = 4;
    insn->o[0] = d;
    insn->o[1] = base;
    insn->o[2] = b;
    insn->o[3] = c;
    insn->imm = offset;
    insn->sub = (uint8_t) what;
    insn->type = (uint8_t) type;
    insn->bytes = (uint8_t) type_bytes(type);
    insn->shift = (uint8_t) (64 - type_bits(type));
    insn->count = 1;
    insn->space = (uint8_t) space;
    insn->flags = (uint16_t) (reduction ? flags & ~F_POLL : flags | F_POLL);
    return true;
}

static bool decode_cvta(struct body *body, const struct entry *entry)
{
    (void) entry;
    bool to = take(body, "to"), given;
    enum space space = take_space(body, &given);
    enum ptype type = take_type(body);
    uint32_t a, window, d;
    if (!given || (type != T_U64 && type != T_B64))
        return wrong_type(body);
    if (!want(body, 2, 2) || !finish_modifiers(body) || !source(body, &body->operands[1], T_U64, false, &a) ||
        !destination(body, &body->operands[0], T_U64, false, &d))
        return false;
    uint64_t base = space == SP_SHARED                                  ? PTX_WINDOW_SHARED
                    : space == SP_LOCAL || space == SP_PARAM_FRAME     ? PTX_WINDOW_LOCAL
                    : space == SP_PARAM_KERNEL && body->function->is_entry ? PTX_WINDOW_PARAM
                    : space == SP_PARAM_KERNEL                         ? PTX_WINDOW_LOCAL
                                                                       : 0;
    if (!body_constant(body, to ? -base : base, true, -1, &window))
        return false;
    struct insn *insn = body_emit(body, base ? OP_ADD64 : OP_MOV64);
    if (!insn)
        return false;
    insn->dests = 1;
    insn->operands = base ? 3 : 2;
    insn->o[0] = d;
    insn->o[1] = a;
    insn->o[2] = window;
    return true;
}

static bool decode_isspacep(struct body *body, const struct entry *entry)
{
    (void) entry;
    bool given;
    enum space space = take_space(body, &given);
    uint16_t pd;
    uint32_t a;
    if (!given)
        return wrong_type(body);
    if (!want(body, 2, 2) || !finish_modifiers(body) || !predicate_destination(body, &body->operands[0], &pd) ||
        !source(body, &body->operands[1], T_U64, false, &a))
        return false;
    struct insn *insn = body_emit(body, OP_ISSPACEP);
    if (!insn)
        return false;
    insn->operands = 1;
    insn->o[0] = a;
    insn->pd = pd;
    insn->space = (uint8_t) space;
    return true;
}

static bool decode_fence(struct body *body, const struct entry *entry)
{
    (void) entry;
    take_everything(body);
    return body_emit(body, OP_FENCE) != NULL;
}

static bool decode_nop(struct body *body, const struct entry *entry)
{
    (void) entry;
    take_everything(body);
    return body_emit(body, OP_NOP) != NULL;
}

/* The policy is a number that nothing reads. */
static bool decode_createpolicy(struct body *body, const struct entry *entry)
{
    (void) entry;
    uint32_t zero, d;
    take_everything(body);
    if (body->operand_count == 0)
        return want(body, 1, OPERANDS_MAX);
    if (!destination(body, &body->operands[0], T_B64, false, &d) || !body_constant(body, 0, true, -1, &zero))
        return false;
    struct insn *insn = body_emit(body, OP_MOV64);
    if (!insn)
        return false;
    insn->dests = 1;
    insn->operands = 2;
    insn->o[0] = d;
    insn->o[1] = zero;
    return true;
}

static bool full_address(struct body *body, const struct operand *operand, enum space space, uint32_t *out)
{
    int64_t offset;
    if (!address(body, operand, space, out, &offset))
        return false;
    return offset == 0 || add_offset(body, *out, offset, out);
}

static bool emit_mbarrier(struct body *body, unsigned what, uint32_t base, int64_t offset, uint32_t count)
{
    uint32_t state = body_temp(body, true);
    struct insn *insn = body_emit(body, OP_MBARRIER);
    if (!insn)
        return false;
    insn->dests = 1;
    insn->operands = 3;
    insn->o[0] = state;
    insn->o[1] = base;
    insn->o[2] = count;
    insn->imm = offset;
    insn->sub = (uint8_t) what;
    return true;
}

static bool decode_cp(struct body *body, const struct entry *entry)
{
    (void) entry;
    bool given;
    uint32_t to, from, size = 0;
    if (!take(body, "async") || has_modifier(body, "bulk") || has_modifier(body, "reduce"))
        return not_supported(body);
    if (take(body, "commit_group") || take(body, "wait_group") || take(body, "wait_all"))
        return finish_modifiers(body) && body_emit(body, OP_NOP) != NULL; /* copies are done at once */
    if (take(body, "mbarrier")) {
        bool noinc = take(body, "noinc");
        int64_t offset;
        uint32_t one;
        take(body, "arrive");
        enum space space = take_space(body, &given);
        if (take_type(body) != T_B64)
            return wrong_type(body);
        return want(body, 1, 1) && finish_modifiers(body) && address(body, &body->operands[0], space, &to, &offset) &&
               body_constant(body, 1, false, -1, &one) &&
               emit_mbarrier(body, noinc ? MBAR_CP_ASYNC_NOINC : MBAR_CP_ASYNC, to, offset, one);
    }
    take_ordering(body);
    if (take_space(body, &given) == SP_GENERIC || take_space(body, &given) == SP_GENERIC)
        return wrong_type(body); /* .shared and .global, in whichever order the table finds them */
    if (!want(body, 3, 5) || !finish_modifiers(body))
        return false;
    const struct operand *bytes = &body->operands[2];
    if (bytes->kind != OPD_IMMEDIATE || (bytes->value != 4 && bytes->value != 8 && bytes->value != 16))
        return bad_operand(body, "must be a size of 4, 8 or 16");
    bool partial = body->operand_count > 3 && body->operands[3].kind != OPD_PREDICATE &&
                   !(body->operands[3].kind == OPD_REGISTER && type_bits(body->operands[3].type) == 64);
    uint16_t ignore = 1; /* never: not "true" */
    if (partial ? !source(body, &body->operands[3], T_U32, false, &size)
                : !body_constant(body, bytes->value, false, -1, &size))
        return false;
    if (body->operand_count > 3 && body->operands[3].kind == OPD_PREDICATE &&
        !predicate_source(body, &body->operands[3], &ignore))
        return false;
    if (!full_address(body, &body->operands[0], SP_SHARED, &to) ||
        !full_address(body, &body->operands[1], SP_GLOBAL, &from))
        return false;
    struct insn *insn = body_emit(body, OP_CP_ASYNC);
    if (!insn)
        return false;
    insn->operands = 3;
    insn->o[0] = to;
    insn->o[1] = from;
    insn->o[2] = size;
    insn->bytes = (uint8_t) bytes->value;
    insn->count = 1;
    insn->ps = ignore;
    return true;
}

static bool decode_mbarrier(struct body *body, const struct entry *entry)
{
    (void) entry;
    static const char *const words[] = {"init",      "inval",     "arrive",   "arrive_drop", "expect_tx",
                                        "complete_tx", "test_wait", "try_wait", "pending_count"};
    static const uint8_t subs[] = {MBAR_INIT,     MBAR_INVAL, MBAR_ARRIVE, MBAR_ARRIVE_DROP, MBAR_EXPECT,
                                   MBAR_COMPLETE, MBAR_TEST,  MBAR_TEST,   MBAR_PENDING};
    bool given, arrive = has_modifier(body, "arrive"), drop = has_modifier(body, "arrive_drop");
    bool expect = (arrive || drop) && take(body, "expect_tx");
    int what = take_one_of(body, words, 9);
    if (what < 0)
        return not_supported(body);
    unsigned sub = subs[what];
    take_ordering(body);
    enum space space = take_space(body, &given);
    take(body, "noComplete");
    if (sub == MBAR_TEST && take(body, "parity"))
        sub = MBAR_TEST_PARITY;
    if (expect)
        sub = MBAR_ARRIVE_EXPECT;
    if (expect && drop)
        return not_supported(body);
    if (take_type(body) != T_B64)
        return wrong_type(body);
    if (!finish_modifiers(body))
        return false;
    uint32_t n = body->operand_count, base, count, at = 0, d = 0;
    int64_t offset = 0;
    uint16_t pd = 0;
    bool has_result = n && body->operands[0].kind != OPD_ADDRESS;
    if (!want(body, 1, 4))
        return false;
    if (sub == MBAR_PENDING) {
        const enum ptype types[] = {T_B64};
        if (!want(body, 2, 2))
            return false;
        struct insn *insn = emit_n(body, OP_MBARRIER, T_U32, types, 1, false);
        if (!insn)
            return false;
        insn->sub = MBAR_PENDING;
        return true;
    }
    if (sub == MBAR_TEST || sub == MBAR_TEST_PARITY) {
        if (!want(body, 3, 4) || !predicate_destination(body, &body->operands[0], &pd))
            return false;
        at = 1;
    } else if (has_result) {
        if (sub != MBAR_ARRIVE && sub != MBAR_ARRIVE_DROP && sub != MBAR_ARRIVE_EXPECT)
            return bad_operand(body, "must be an address in brackets");
        if (!destination(body, &body->operands[0], T_B64, false, &d))
            return false;
        at = 1;
    }
    if (at >= n || !address(body, &body->operands[at], space, &base, &offset))
        return at < n ? false : want(body, n + 1, n + 1);
    bool needs_count = sub != MBAR_INVAL && sub != MBAR_ARRIVE && sub != MBAR_ARRIVE_DROP;
    if (needs_count && n < at + 2)
        return want(body, at + 2, at + 3);
    if (n > at + 1 ? !source(body, &body->operands[at + 1], sub == MBAR_TEST ? T_B64 : T_U32, false, &count)
                   : !body_constant(body, 1, false, -1, &count))
        return false;
    if (!emit_mbarrier(body, sub, base, offset, count))
        return false;
    struct insn *insn = &body->reader->module->code[body->reader->module->code_count - 1];
    insn->space = (uint8_t) space;
    insn->pd = pd;
    if (has_result && pd == 0 && sub != MBAR_TEST && sub != MBAR_TEST_PARITY)
        insn->o[0] = d;
    return true;
}

/* ---- control flow ---- */

static bool decode_bra(struct body *body, const struct entry *entry)
{
    (void) entry;
    take(body, "uni");
    if (!want(body, 1, 1) || !finish_modifiers(body))
        return false;
    if (body->operands[0].kind != OPD_NAME)
        return bad_operand(body, "must be a label");
    struct insn *insn = body_emit(body, OP_BRA);
    return insn && body_fixup(body, body->reader->module->code_count - 1, 0, body->operands[0].name);
}

static bool decode_brx(struct body *body, const struct entry *entry)
{
    (void) entry;
    uint32_t a;
    take(body, "uni");
    if (!take(body, "idx"))
        return not_supported(body);
    if (!want(body, 2, 2) || !finish_modifiers(body) || !source(body, &body->operands[0], T_U32, false, &a))
        return false;
    const struct symbol *symbol = body->operands[1].kind == OPD_NAME
                                      ? body_lookup(body, body->operands[1].name, body->scope)
                                      : NULL;
    if (!symbol || symbol->kind != SYM_TARGETS)
        return bad_operand(body, "must be the name of a .branchtargets list");
    uint32_t table = symbol->index;
    struct insn *insn = body_emit(body, OP_BRX);
    if (!insn)
        return false;
    insn->operands = 1;
    insn->o[0] = a;
    insn->imm = table;
    return true;
}

static bool add_slot(struct body *body, const struct operand *operand)
{
    const struct symbol *symbol = operand->kind == OPD_SYMBOL ? &body->reader->symbols.items[operand->symbol] : NULL;
    struct function *function = body->function;
    if (!symbol || symbol->kind != SYM_FRAME || operand->offset)
        return body_fail(body, -ENOTSUP, "arguments of a call must be .param variables of the caller");
    void *items = function->slots;
    if (!reader_grow(body->reader, &items, &body->slot_capacity, function->slot_count, sizeof(struct frame_slot)))
        return false;
    function->slots = items;
    function->slots[function->slot_count++] =
        (struct frame_slot){(uint32_t) symbol->offset, (uint32_t) symbol->size, symbol->align};
    return true;
}

static bool check_callee(struct body *body, const struct function *callee, const struct call_site *site)
{
    const struct frame_slot *slots = body->function->slots;
    if (callee->is_entry)
        return body_fail(body, -EINVAL, "kernel '%.64s' cannot be called", callee->name);
    if (!callee->defined && callee->builtin < 0)
        return body_fail(body, -EINVAL, "function '%.64s' is called but defined nowhere", callee->name);
    if (callee->builtin >= 0 && !callee->defined)
        return site->result < 0 || slots[site->result].size <= 8 ||
               body_fail(body, -EINVAL, "the result of '%.64s' is too large", callee->name);
    if (site->args != callee->param_count)
        return body_fail(body, -EINVAL, "'%.64s' takes %u arguments, not %u", callee->name, callee->param_count,
                         site->args);
    for (uint32_t i = 0; i < site->args; i++) {
        if (slots[site->first_arg + i].size != callee->params[i].size)
            return body_fail(body, -EINVAL, "argument %u of '%.64s' has %u bytes, not %u", i + 1, callee->name,
                             callee->params[i].size, slots[site->first_arg + i].size);
    }
    if (site->result >= 0 && (callee->result_count != 1 || slots[site->result].size != callee->results[0].size))
        return body_fail(body, -EINVAL, "the result of '%.64s' has another size", callee->name);
    return true;
}

static bool decode_call(struct body *body, const struct entry *entry)
{
    (void) entry;
    struct function *function = body->function;
    uint32_t at = 0, n = body->operand_count, pointer = 0;
    struct call_site site = {.result = -1};
    take(body, "uni");
    if (!want(body, 1, 4) || !finish_modifiers(body))
        return false;
    if (body->operands[0].kind == OPD_LIST) {
        const struct operand *list = &body->operands[at++];
        if (list->count > 1)
            return body_fail(body, -ENOTSUP, "calls with several results are not supported");
        if (list->count == 1) {
            site.result = (int32_t) function->slot_count;
            if (!add_slot(body, &body->elements[list->first]))
                return false;
        }
    }
    if (at >= n)
        return want(body, n + 1, n + 1);
    const struct operand *target = &body->operands[at++];
    site.first_arg = function->slot_count;
    if (at < n && body->operands[at].kind == OPD_LIST) {
        const struct operand *list = &body->operands[at++];
        site.args = list->count;
        for (uint32_t i = 0; i < list->count; i++) {
            if (!add_slot(body, &body->elements[list->first + i]))
                return false;
        }
    }
    if (at < n && body->operands[at].kind != OPD_NAME) /* prototype or target list: sizes are checked when it runs */
        return bad_operand(body, "must be a call prototype");
    const struct ptx_module *module = body->reader->module;
    enum op op = OP_CALL_POINTER;
    int builtin = 0;
    if (target->kind == OPD_REGISTER) {
        if (!check_size(body, target, T_U64, false))
            return false;
        pointer = target->reg;
        function->has_indirect_call = true;
    } else {
        const struct symbol *symbol =
            target->kind == OPD_SYMBOL ? &body->reader->symbols.items[target->symbol] : NULL;
        if (!symbol || symbol->kind != SYM_FUNCTION)
            return body_fail(body, -EINVAL, "function '%.*s' is not declared", cut(target->name), target->name.at);
        site.callee = symbol->index;
        if (module->functions[site.callee].alias >= 0)
            site.callee = (uint32_t) module->functions[site.callee].alias;
        const struct function *callee = &module->functions[site.callee];
        if (!check_callee(body, callee, &site))
            return false;
        op = callee->defined ? OP_CALL : OP_CALL_BUILTIN;
        builtin = callee->builtin;
    }
    void *items = function->calls_at;
    if (!reader_grow(body->reader, &items, &body->call_capacity, function->call_count, sizeof(site)))
        return false;
    function->calls_at = items;
    function->calls = true;
    function->calls_at[function->call_count] = site;
    struct insn *insn = body_emit(body, op);
    if (!insn)
        return false;
    insn->imm = function->call_count++;
    insn->sub = (uint8_t) (op == OP_CALL_BUILTIN ? builtin : 0);
    if (op == OP_CALL_POINTER) {
        insn->operands = 1;
        insn->o[0] = pointer;
    }
    return true;
}

static bool decode_plain(struct body *body, const struct entry *entry)
{
    enum op op = (enum op) entry->arg;
    take(body, "uni");
    if (op == OP_RET && body->function->is_entry)
        op = OP_EXIT;
    return want(body, 0, 0) && finish_modifiers(body) && body_emit(body, op) != NULL;
}

static bool decode_nanosleep(struct body *body, const struct entry *entry)
{
    (void) entry;
    uint32_t a;
    if (take_type(body) != T_U32)
        return wrong_type(body);
    if (!want(body, 1, 1) || !finish_modifiers(body) || !source(body, &body->operands[0], T_U32, false, &a))
        return false;
    struct insn *insn = body_emit(body, OP_NANOSLEEP);
    if (!insn)
        return false;
    insn->operands = 1;
    insn->o[0] = a;
    return true;
}

/* ---- barriers and warp exchange ---- */

static bool decode_cluster_barrier(struct body *body)
{
    bool arrive = take(body, "arrive"), wait = take(body, "wait");
    take_ordering(body);
    take(body, "aligned");
    if (arrive == wait)
        return body_fail(body, -EINVAL, "barrier.cluster needs .arrive or .wait");
    return want(body, 0, 0) && finish_modifiers(body) &&
           body_emit(body, arrive ? OP_CLUSTER_ARRIVE : OP_CLUSTER_WAIT) != NULL;
}

static struct insn *emit_warp_sync(struct body *body, enum warp_sync what, uint32_t d, uint32_t a, uint32_t b,
                                   uint32_t c, uint32_t mask)
{
    struct insn *insn = body_emit(body, OP_WARP_SYNC);
    if (insn) {
        insn->dests = 1;
        insn->operands = 5;
        insn->o[0] = d;
        insn->o[1] = a;
        insn->o[2] = b;
        insn->o[3] = c;
        insn->o[4] = mask;
        insn->sub = (uint8_t) what;
    }
    return insn;
}

static bool decode_bar(struct body *body, const struct entry *entry)
{
    (void) entry;
    if (take(body, "cluster"))
        return decode_cluster_barrier(body);
    take(body, "cta");
    take(body, "aligned");
    uint32_t zero, d = 0, number, count;
    if (!body_constant(body, 0, false, -1, &zero))
        return false;
    if (take(body, "warp")) {
        uint32_t mask;
        if (!take(body, "sync"))
            return not_supported(body);
        return want(body, 1, 1) && finish_modifiers(body) &&
               source(body, &body->operands[0], T_B32, false, &mask) &&
               emit_warp_sync(body, WS_BARRIER, body_temp(body, false), zero, zero, zero, mask);
    }
    uint16_t pd = 0, ps = 0;
    uint32_t at = 0, n = body->operand_count;
    unsigned sub = BAR_SYNC;
    if (take(body, "red")) {
        sub = take(body, "popc") ? BAR_POPC : take(body, "and") ? BAR_AND : take(body, "or") ? BAR_OR : BAR_SYNC;
        enum ptype type = take_type(body);
        if (sub == BAR_SYNC || (sub == BAR_POPC ? type != T_U32 : type != T_PRED))
            return wrong_type(body);
        if (!want(body, 3, 4))
            return false;
        if (sub == BAR_POPC ? !destination(body, &body->operands[0], T_U32, false, &d)
                            : !predicate_destination(body, &body->operands[0], &pd))
            return false;
        if (!predicate_source(body, &body->operands[n - 1], &ps))
            return false;
        at = 1;
        n--;
    } else if (take(body, "arrive")) {
        sub = BAR_ARRIVE;
        if (!want(body, 2, 2))
            return false;
    } else if (!take(body, "sync") || !want(body, 1, 2)) {
        return body_fail(body, -EINVAL, "a barrier needs .sync, .arrive or .red and one or two operands");
    }
    if (!finish_modifiers(body) || !source(body, &body->operands[at], T_U32, false, &number))
        return false;
    bool counted = n > at + 1;
    if (counted ? !source(body, &body->operands[at + 1], T_U32, false, &count) : ((count = zero), false))
        return false;
    if (body->operands[at].kind == OPD_IMMEDIATE && body->operands[at].value >= BARRIERS)
        return bad_operand(body, "must be a barrier of 0 to 15");
    if (sub != BAR_POPC)
        d = body_temp(body, false);
    struct insn *insn = body_emit(body, OP_BAR);
    if (!insn)
        return false;
    insn->dests = 1;
    insn->operands = 3;
    insn->o[0] = d;
    insn->o[1] = number;
    insn->o[2] = count;
    insn->count = counted;
    insn->sub = (uint8_t) sub;
    insn->pd = pd;
    insn->ps = ps;
    return true;
}

static bool decode_shfl(struct body *body, const struct entry *entry)
{
    (void) entry;
    static const char *const modes[] = {"up", "down", "bfly", "idx"};
    bool sync = take(body, "sync");
    int mode = take_one_of(body, modes, 4);
    enum ptype type = take_type(body);
    uint32_t d, a, b, c, mask;
    if (!sync)
        return not_supported(body);
    if (mode < 0 || type_bits(type) != 32)
        return wrong_type(body);
    if (!want(body, 5, 5) || !finish_modifiers(body) || !source(body, &body->operands[1], T_B32, false, &a) ||
        !source(body, &body->operands[2], T_B32, false, &b) || !source(body, &body->operands[3], T_B32, false, &c) ||
        !source(body, &body->operands[4], T_B32, false, &mask) ||
        !destination(body, &body->operands[0], T_B32, false, &d))
        return false;
    struct insn *insn = emit_warp_sync(body, (enum warp_sync)(WS_SHFL_UP + mode), d, a, b, c, mask);
    if (!insn)
        return false;
    insn->pd = (uint16_t) body->operands[0].pair;
    return true;
}

static bool decode_vote(struct body *body, const struct entry *entry)
{
    (void) entry;
    static const char *const modes[] = {"all", "any", "uni", "ballot"};
    bool sync = take(body, "sync");
    int mode = take_one_of(body, modes, 4);
    enum ptype type = take_type(body);
    uint32_t d = 0, zero, mask;
    uint16_t pd = 0, ps;
    if (!sync)
        return not_supported(body);
    if (mode < 0 || type != (mode == 3 ? T_B32 : T_PRED))
        return wrong_type(body);
    if (!want(body, 3, 3) || !finish_modifiers(body) || !predicate_source(body, &body->operands[1], &ps) ||
        !source(body, &body->operands[2], T_B32, false, &mask) || !body_constant(body, 0, false, -1, &zero))
        return false;
    if (mode == 3 ? !destination(body, &body->operands[0], T_B32, false, &d)
                  : !predicate_destination(body, &body->operands[0], &pd))
        return false;
    if (mode != 3)
        d = body_temp(body, false);
    struct insn *insn = emit_warp_sync(body, (enum warp_sync)(WS_VOTE_ALL + mode), d, zero, zero, zero, mask);
    if (!insn)
        return false;
    insn->ps = ps;
    insn->pd = pd;
    return true;
}

static bool decode_match(struct body *body, const struct entry *entry)
{
    (void) entry;
    bool sync = take(body, "sync"), all = take(body, "all"), any = take(body, "any");
    enum ptype type = take_type(body);
    uint32_t d, a, zero, mask;
    if (!sync || all == any || (type_bits(type) != 32 && type_bits(type) != 64))
        return wrong_type(body);
    if (!want(body, 3, 3) || !finish_modifiers(body) || !source(body, &body->operands[1], type, false, &a) ||
        !source(body, &body->operands[2], T_B32, false, &mask) || !body_constant(body, 0, false, -1, &zero) ||
        !destination(body, &body->operands[0], T_B32, false, &d))
        return false;
    struct insn *insn = emit_warp_sync(body, all ? WS_MATCH_ALL : WS_MATCH_ANY, d, a, zero, zero, mask);
    if (!insn)
        return false;
    insn->pd = (uint16_t) body->operands[0].pair;
    return true;
}

static bool decode_redux(struct body *body, const struct entry *entry)
{
    (void) entry;
    static const char *const words[] = {"add", "min", "max", "and", "or", "xor"};
    static const uint8_t ops[] = {AT_ADD, AT_MIN, AT_MAX, AT_AND, AT_OR, AT_XOR};
    bool sync = take(body, "sync");
    int what = take_one_of(body, words, 6);
    enum ptype type = take_type(body);
    uint32_t d, a, zero, mask;
    if (type == T_F32)
        return not_supported(body);
    if (!sync || what < 0 || !is_integer(type) || type_bits(type) != 32)
        return wrong_type(body);
    if (!want(body, 3, 3) || !finish_modifiers(body) || !source(body, &body->operands[1], type, false, &a) ||
        !source(body, &body->operands[2], T_B32, false, &mask) || !body_constant(body, 0, false, -1, &zero) ||
        !destination(body, &body->operands[0], T_B32, false, &d))
        return false;
    struct insn *insn = emit_warp_sync(body, WS_REDUX, d, a, zero, zero, mask);
    if (!insn)
        return false;
    insn->compare = ops[what];
    insn->type = (uint8_t) type;
    return true;
}

static bool decode_elect(struct body *body, const struct entry *entry)
{
    (void) entry;
    uint32_t d, zero, mask;
    if (!take(body, "sync"))
        return not_supported(body);
    if (!want(body, 2, 2) || !finish_modifiers(body) || !source(body, &body->operands[1], T_B32, false, &mask) ||
        !body_constant(body, 0, false, -1, &zero) || !destination(body, &body->operands[0], T_B32, false, &d))
        return false;
    struct insn *insn = emit_warp_sync(body, WS_ELECT, d, zero, zero, zero, mask);
    if (!insn)
        return false;
    insn->pd = (uint16_t) body->operands[0].pair;
    return true;
}

static bool decode_activemask(struct body *body, const struct entry *entry)
{
    (void) entry;
    enum ptype type = take_type(body);
    if (type != T_B32)
        return wrong_type(body);
    if (!want(body, 1, 1) || !finish_modifiers(body))
        return false;
    return emit_n(body, OP_ACTIVEMASK, type, NULL, 0, false) != NULL;
}

/* ---- the table ---- */

static bool decode_unsupported(struct body *body, const struct entry *entry)
{
    (void) entry;
    return not_supported(body);
}

static const struct entry entries[] = {
    {"abs", decode_signs, lane_abs, lane_float_abs, 1, 0},
    {"activemask", decode_activemask, NULL, NULL, 0, 0},
    {"add", decode_addsub, lane_add, lane_float_add, 2, CARRY_ADD},
    {"addc", decode_addsubc, NULL, NULL, 2, CARRY_ADD},
    {"and", decode_logic, lane_and, NULL, 2, OP_AND_PRED},
    {"applypriority", decode_nop, NULL, NULL, 0, 0},
    {"atom", decode_atom, NULL, NULL, 0, 0},
    {"bar", decode_bar, NULL, NULL, 0, 0},
    {"barrier", decode_bar, NULL, NULL, 0, 0},
    {"bfe", decode_bitfield, lane_bfe, NULL, 3, 0},
    {"bfi", decode_bitfield, lane_bfi, NULL, 4, 0},
    {"bfind", decode_bits, lane_bfind, NULL, 1, 1},
    {"bmsk", decode_misc, lane_bmsk, NULL, 2, 0},
    {"bra", decode_bra, NULL, NULL, 0, 0},
    {"brev", decode_bits, lane_brev, NULL, 1, 0},
    {"brkpt", decode_plain, NULL, NULL, 0, OP_TRAP},
    {"brx", decode_brx, NULL, NULL, 0, 0},
    {"call", decode_call, NULL, NULL, 0, 0},
    {"clz", decode_bits, lane_clz, NULL, 1, 1},
    {"cnot", decode_logic, lane_cnot, NULL, 1, 0},
    {"copysign", decode_copysign, NULL, lane_float_copysign, 2, 0},
    {"cos", decode_function, NULL, lane_float_cos, 1, 0},
    {"cp", decode_cp, NULL, NULL, 0, 0},
    {"createpolicy", decode_createpolicy, NULL, NULL, 0, 0},
    {"cvt", decode_cvt, NULL, NULL, 0, 0},
    {"cvta", decode_cvta, NULL, NULL, 0, 0},
    {"discard", decode_nop, NULL, NULL, 0, 0},
    {"div", decode_divide, lane_div, lane_float_div, 2, 0},
    {"dp2a", decode_dot, lane_dp2a, NULL, 3, 0},
    {"dp4a", decode_dot, lane_dp4a, NULL, 3, 0},
    {"elect", decode_elect, NULL, NULL, 0, 0},
    {"ex2", decode_function, NULL, lane_float_ex2, 1, 0},
    {"exit", decode_plain, NULL, NULL, 0, OP_EXIT},
    {"fence", decode_fence, NULL, NULL, 0, 0},
    {"fma", decode_fma, NULL, lane_float_fma, 3, 0},
    {"fns", decode_misc, lane_fns, NULL, 3, 0},
    {"griddepcontrol", decode_nop, NULL, NULL, 0, 0},
    {"isspacep", decode_isspacep, NULL, NULL, 0, 0},
    {"ld", decode_memory, NULL, NULL, 0, 0},
    {"ldu", decode_memory, NULL, NULL, 0, 0},
    {"lg2", decode_function, NULL, lane_float_lg2, 1, 0},
    {"lop3", decode_lop3, lane_lop3, NULL, 3, 0},
    {"mad", decode_multiply, NULL, NULL, 3, 1},
    {"mad24", decode_mul24, lane_mad24, NULL, 3, 0},
    {"madc", decode_madc, NULL, NULL, 3, 0},
    {"match", decode_match, NULL, NULL, 0, 0},
    {"max", decode_signs, lane_max, lane_float_max, 2, 0},
    {"mbarrier", decode_mbarrier, NULL, NULL, 0, 0},
    {"membar", decode_fence, NULL, NULL, 0, 0},
    {"min", decode_signs, lane_min, lane_float_min, 2, 0},
    {"mov", decode_mov, NULL, NULL, 0, 0},
    {"mul", decode_multiply, NULL, NULL, 2, 0},
    {"mul24", decode_mul24, lane_mul24, NULL, 2, 0},
    {"nanosleep", decode_nanosleep, NULL, NULL, 0, 0},
    {"neg", decode_signs, lane_neg, lane_float_neg, 1, 0},
    {"not", decode_logic, lane_not, NULL, 1, OP_MOV_PRED},
    {"or", decode_logic, lane_or, NULL, 2, OP_OR_PRED},
    {"pmevent", decode_nop, NULL, NULL, 0, 0},
    {"popc", decode_bits, lane_popc, NULL, 1, 1},
    {"prefetch", decode_nop, NULL, NULL, 0, 0},
    {"prefetchu", decode_nop, NULL, NULL, 0, 0},
    {"prmt", decode_prmt, lane_prmt, NULL, 3, 0},
    {"rcp", decode_function, NULL, lane_float_rcp, 1, 0},
    {"red", decode_atom, NULL, NULL, 0, 1},
    {"redux", decode_redux, NULL, NULL, 0, 0},
    {"rem", decode_divide, lane_rem, NULL, 2, 0},
    {"ret", decode_plain, NULL, NULL, 0, OP_RET},
    {"rsqrt", decode_function, NULL, lane_float_rsqrt, 1, 0},
    {"sad", decode_misc, lane_sad, NULL, 3, 0},
    {"selp", decode_selp, NULL, NULL, 0, 0},
    {"set", decode_set, lane_set, NULL, 2, 0},
    {"setp", decode_setp, NULL, NULL, 0, 0},
    {"shf", decode_shf, lane_shf, NULL, 3, 0},
    {"shfl", decode_shfl, NULL, NULL, 0, 0},
    {"shl", decode_shift, lane_shl, NULL, 2, 0},
    {"shr", decode_shift, lane_shr, NULL, 2, 0},
    {"sin", decode_function, NULL, lane_float_sin, 1, 0},
    {"slct", decode_slct, lane_slct, NULL, 3, 0},
    {"sqrt", decode_function, NULL, lane_float_sqrt, 1, 0},
    {"st", decode_memory, NULL, NULL, 0, 1},
    {"sub", decode_addsub, lane_sub, lane_float_sub, 2, CARRY_SUB},
    {"subc", decode_addsubc, NULL, NULL, 2, CARRY_SUB},
    {"szext", decode_misc, lane_szext, NULL, 2, 0},
    {"tanh", decode_function, NULL, lane_float_tanh, 1, 0},
    {"testp", decode_testp, lane_testp, NULL, 1, 0},
    {"trap", decode_plain, NULL, NULL, 0, OP_TRAP},
    {"vote", decode_vote, NULL, NULL, 0, 0},
    {"xor", decode_logic, lane_xor, NULL, 2, OP_XOR_PRED},
    /* valid PTX that this interpreter does not run; ptx.h lists it */
    {"alloca", decode_unsupported, NULL, NULL, 0, 0},
    {"clusterlaunchcontrol", decode_unsupported, NULL, NULL, 0, 0},
    {"getctarank", decode_unsupported, NULL, NULL, 0, 0},
    {"istypep", decode_unsupported, NULL, NULL, 0, 0},
    {"ldmatrix", decode_unsupported, NULL, NULL, 0, 0},
    {"mapa", decode_unsupported, NULL, NULL, 0, 0},
    {"mma", decode_unsupported, NULL, NULL, 0, 0},
    {"movmatrix", decode_unsupported, NULL, NULL, 0, 0},
    {"multimem", decode_unsupported, NULL, NULL, 0, 0},
    {"setmaxnreg", decode_unsupported, NULL, NULL, 0, 0},
    {"stackrestore", decode_unsupported, NULL, NULL, 0, 0},
    {"stacksave", decode_unsupported, NULL, NULL, 0, 0},
    {"stmatrix", decode_unsupported, NULL, NULL, 0, 0},
    {"suld", decode_unsupported, NULL, NULL, 0, 0},
    {"suq", decode_unsupported, NULL, NULL, 0, 0},
    {"sured", decode_unsupported, NULL, NULL, 0, 0},
    {"sust", decode_unsupported, NULL, NULL, 0, 0},
    {"tcgen05", decode_unsupported, NULL, NULL, 0, 0},
    {"tensormap", decode_unsupported, NULL, NULL, 0, 0},
    {"tex", decode_unsupported, NULL, NULL, 0, 0},
    {"tld4", decode_unsupported, NULL, NULL, 0, 0},
    {"txq", decode_unsupported, NULL, NULL, 0, 0},
    {"vabsdiff", decode_unsupported, NULL, NULL, 0, 0},
    {"vadd", decode_unsupported, NULL, NULL, 0, 0},
    {"vmad", decode_unsupported, NULL, NULL, 0, 0},
    {"vmax", decode_unsupported, NULL, NULL, 0, 0},
    {"vmin", decode_unsupported, NULL, NULL, 0, 0},
    {"vset", decode_unsupported, NULL, NULL, 0, 0},
    {"vshl", decode_unsupported, NULL, NULL, 0, 0},
    {"vshr", decode_unsupported, NULL, NULL, 0, 0},
    {"vsub", decode_unsupported, NULL, NULL, 0, 0},
    {"wgmma", decode_unsupported, NULL, NULL, 0, 0},
    {"wmma", decode_unsupported, NULL, NULL, 0, 0},
};

static int compare_word(struct text_span span, const char *word)
{
    size_t length = strlen(word), common = span.length < length ? span.length : length;
    int order = memcmp(span.at, word, common);
    return order ? order : span.length < length ? -1 : span.length > length;
}

/* The supported part of the table is sorted, and so is the rest. */
static const struct entry *find_entry(struct text_span name)
{
    const size_t all = sizeof(entries) / sizeof(entries[0]);
    size_t split = 0;
    while (split < all && entries[split].decode != decode_unsupported)
        split++;
    for (int part = 0; part < 2; part++) {
        size_t low = part ? split : 0, high = part ? all : split;
        while (low < high) {
            size_t middle = (low + high) / 2;
            int order = compare_word(name, entries[middle].name);
            if (order == 0)
                return &entries[middle];
            if (order < 0)
                high = middle;
            else
                low = middle + 1;
        }
    }
    return NULL;
}

bool decode_instruction(struct body *body)
{
    char opcode[MESSAGE_WORD_MAX];
    const struct entry *entry = find_entry(body->opcode);
    if (!entry)
        return body_fail(body, -EINVAL, "unknown instruction '%s'", body_opcode(body, opcode));
    return entry->decode(body, entry);
}
