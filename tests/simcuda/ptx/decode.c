/* SPDX-License-Identifier: Apache-2.0
 *
 * One PTX instruction to `struct insn`: what all decoders share, and the table that maps the first word of an opcode to
 * its decoder.
 */
#include "tests/simcuda/ptx/decode.h"

#include <errno.h>
#include <string.h>

static int cut(struct text_span span)
{
    return span.length > MESSAGE_WORD_MAX ? MESSAGE_WORD_MAX : (int)span.length;
}

/* ---- modifiers ---- */

bool dec_take(struct body *body, const char *word)
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

void dec_take_prefixed(struct body *body, const char *prefix)
{
    for (uint32_t i = 0; i < body->modifier_count; i++)
        body->used[i] |= starts_with(body->modifiers[i], prefix);
}

void dec_take_everything(struct body *body)
{
    memset(body->used, true, sizeof(body->used));
}

enum ptype dec_take_type(struct body *body)
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

int dec_take_one_of(struct body *body, const char *const *words, int count)
{
    for (int i = 0; i < count; i++) {
        if (dec_take(body, words[i]))
            return i;
    }
    return -1;
}

/* Modifiers of newer devices that are valid PTX. */
static const char *const unsupported_modifiers[] = {
    "e4m3", "e5m2", "e2m1", "e2m3",      "e3m2",   "ue8m0", "b128",   "f32x2", "u16x2", "s16x2",
    "v8",   "u8x4", "s8x4", "multicast", "tensor", "bulk",  "im2col", "pack",  "async", "L2::cache_hint_",
};

bool dec_finish(struct body *body)
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

bool dec_wrong_type(struct body *body)
{
    char opcode[MESSAGE_WORD_MAX];
    return body_fail(body, -EINVAL, "'%s' has no valid type", body_opcode(body, opcode));
}

bool dec_not_supported(struct body *body)
{
    char opcode[MESSAGE_WORD_MAX];
    return body_fail(body, -ENOTSUP, "instruction '%s' is not supported", body_opcode(body, opcode));
}

bool dec_want(struct body *body, uint32_t least, uint32_t most)
{
    char opcode[MESSAGE_WORD_MAX];
    if (body->operand_count >= least && body->operand_count <= most)
        return true;
    return body_fail(body, -EINVAL, "'%s' takes %u operands, not %u", body_opcode(body, opcode),
                     body->operand_count < least ? least : most, body->operand_count);
}

bool dec_has_modifier(const struct body *body, const char *word)
{
    for (uint32_t i = 0; i < body->modifier_count; i++) {
        if (span_is(body->modifiers[i], word))
            return true;
    }
    return false;
}

/* .weak .relaxed .acquire ... and scopes and cache hints, to flags. */
uint16_t dec_take_ordering(struct body *body)
{
    static const char *const ignored[] = {"weak", "cta", "cluster", "gpu", "sys", "ca", "cg",
                                          "cs",   "lu",  "cv",      "wb",  "wt",  "nc", "unified"};
    uint16_t flags = 0;
    if (dec_take(body, "volatile") || dec_take(body, "relaxed") || dec_take(body, "mmio"))
        flags |= F_POLL;
    if (dec_take(body, "acquire"))
        flags |= F_POLL | F_ACQUIRE;
    if (dec_take(body, "release"))
        flags |= F_POLL | F_RELEASE;
    if (dec_take(body, "acq_rel"))
        flags |= F_POLL | F_ACQUIRE | F_RELEASE;
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        dec_take(body, ignored[i]);
    dec_take_prefixed(body, "L1::");
    dec_take_prefixed(body, "L2::");
    dec_take_prefixed(body, "level::");
    return flags;
}

/* ---- operands ---- */

bool dec_bad_operand(struct body *body, const char *what)
{
    char opcode[MESSAGE_WORD_MAX];
    return body_fail(body, -EINVAL, "an operand of '%s' %s", body_opcode(body, opcode), what);
}

/* Loads, stores and conversions may use wider registers than their type; all else needs the exact size. */
bool dec_check_size(struct body *body, const struct operand *operand, enum ptype type, bool relaxed)
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
            return dec_bad_operand(body, "must be a floating-point number");
        return true;
    }
    if (operand->float_width == 32) {
        word = (uint32_t)operand->value;
        if (type_bits(type) == 32)
            return true;
        memcpy(&narrow, &word, sizeof(narrow));
        wide = (double)narrow;
    } else {
        memcpy(&wide, &operand->value, sizeof(wide));
    }
    if (type == T_F16 || type == T_BF16) {
        *out = type == T_F16 ? half_from_double(wide) : bf16_from_double(wide);
    } else if (type_bits(type) == 32) {
        narrow = (float)wide;
        memcpy(&word, &narrow, sizeof(word));
        *out = word;
    } else if (type_bits(type) == 64) {
        memcpy(out, &wide, sizeof(*out));
    } else {
        return dec_bad_operand(body, "cannot be a floating-point number");
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
    insn->imm = (int64_t)offset;
    *out = temp;
    return true;
}

/* base + offset in a fresh 64-bit register */
bool dec_add_offset(struct body *body, uint32_t base, int64_t offset, uint32_t *out)
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
    if (!body_constant(body, (uint64_t)offset, true, -1, &constant))
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
bool dec_symbol_address(struct body *body, const struct operand *operand, bool wide, uint32_t *out)
{
    const struct symbol *symbol = &body->reader->symbols.items[operand->symbol];
    uint64_t offset = (uint64_t)operand->offset, shared;
    struct operand start = {.kind = OPD_SPECIAL, .type = T_U32, .special = SR_DYNAMIC_SMEM_START};
    uint32_t temp;
    switch (symbol->kind) {
    case SYM_GLOBAL:
        if (!wide)
            return dec_bad_operand(body, "is an address and needs 64 bits");
        return body_constant(body, offset, true, (int32_t)symbol->index, out);
    case SYM_FUNCTION:
        if (!wide)
            return dec_bad_operand(body, "is an address and needs 64 bits");
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
        if (!dec_add_offset(body, *out, (int64_t)offset, &temp))
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
        return dec_bad_operand(body, "is no variable");
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

bool dec_source(struct body *body, const struct operand *operand, enum ptype type, bool relaxed, uint32_t *out)
{
    uint64_t bits;
    switch (operand->kind) {
    case OPD_REGISTER:
        *out = operand->reg;
        return dec_check_size(body, operand, type, relaxed);
    case OPD_IMMEDIATE:
        return immediate_bits(body, operand, type, &bits) && body_constant(body, bits, type_bits(type) == 64, -1, out);
    case OPD_SPECIAL:
        if (operand->type == T_PRED ||
            (!relaxed && type_bits(type) < type_bits(operand->type) && type != T_B32 && type != T_U32 && type != T_S32))
            return dec_bad_operand(body, "is a special register of another size");
        if (type_bits(type) == 64 || type_bits(operand->type) == 32)
            return special_source(body, operand, out) && (type_bits(type) == type_bits(operand->type) ||
                                                          type_bits(type) < 64 || dec_add_offset(body, *out, 0, out));
        {
            struct operand narrow = *operand; /* mov.u32 of a 64-bit special register: the low half */
            narrow.type = T_U32;
            return special_source(body, &narrow, out);
        }
    case OPD_SYMBOL:
        if (type_bits(type) < 32)
            return dec_bad_operand(body, "is an address and needs 32 or 64 bits");
        return dec_symbol_address(body, operand, type_bits(type) == 64, out);
    case OPD_NAME:
        return body_fail(body, -EINVAL, "'%.*s' is not declared", cut(operand->name), operand->name.at);
    default:
        return dec_bad_operand(body, "is of a kind that has no place here");
    }
}

bool dec_destination(struct body *body, const struct operand *operand, enum ptype type, bool relaxed, uint32_t *out)
{
    if (operand->kind == OPD_SINK) {
        *out = body_temp(body, type_bits(type) == 64);
        return true;
    }
    if (operand->kind == OPD_NAME)
        return body_fail(body, -EINVAL, "'%.*s' is not declared", cut(operand->name), operand->name.at);
    if (operand->kind != OPD_REGISTER)
        return dec_bad_operand(body, "must be a register");
    *out = operand->reg;
    return dec_check_size(body, operand, type, relaxed);
}

bool dec_predicate_source(struct body *body, const struct operand *operand, uint16_t *out)
{
    if (operand->kind == OPD_IMMEDIATE && operand->float_width == 0) {
        *out = operand->value ? 0 : 1; /* predicate 0 is "true" */
        return true;
    }
    if (operand->kind != OPD_PREDICATE)
        return dec_bad_operand(body, "must be a predicate");
    *out = (uint16_t)(operand->reg << 1 | operand->negated);
    return true;
}

bool dec_predicate_destination(struct body *body, const struct operand *operand, uint16_t *out)
{
    *out = 0;
    if (operand->kind == OPD_SINK)
        return true;
    if (operand->kind != OPD_PREDICATE || operand->negated)
        return dec_bad_operand(body, "must be a predicate");
    *out = (uint16_t)operand->reg;
    return true;
}

/* operands[0] = dest, operands[1 .. n] = sources of the given types, to one instruction */
struct insn *dec_emit(struct body *body, enum op op, enum ptype dest, const enum ptype *types, uint32_t n, bool relaxed)
{
    uint32_t o[INSN_OPERANDS];
    for (uint32_t i = 0; i < n; i++) {
        if (!dec_source(body, &body->operands[i + 1], types[i], relaxed, &o[i + 1]))
            return NULL;
    }
    if (!dec_destination(body, &body->operands[0], dest, relaxed, &o[0]))
        return NULL;
    struct insn *insn = body_emit(body, op);
    if (!insn)
        return NULL;
    insn->dests = 1;
    insn->operands = (uint8_t)(n + 1);
    memcpy(insn->o, o, (n + 1) * sizeof(o[0]));
    return insn;
}

bool dec_is_integer(enum ptype type)
{
    return type >= T_B8 && type <= T_S64;
}

/* ---- the table ---- */

static bool decode_unsupported(struct body *body, const struct entry *entry)
{
    (void)entry;
    return dec_not_supported(body);
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
