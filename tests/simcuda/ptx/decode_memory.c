/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoders of loads, stores, atomics, address conversions, asynchronous copies and mbarriers.
 */
#include "tests/simcuda/ptx/decode.h"

#include <errno.h>
#include <string.h>

static int cut(struct text_span span)
{
    return span.length > MESSAGE_WORD_MAX ? MESSAGE_WORD_MAX : (int)span.length;
}

static enum space take_space(struct body *body, bool *given)
{
    static const struct {
        const char *word;
        enum space space;
    } words[] = {
        {"global", SP_GLOBAL},           {"const", SP_CONST},
        {"shared", SP_SHARED},           {"shared::cta", SP_SHARED},
        {"shared::cluster", SP_SHARED},  {"local", SP_LOCAL},
        {"param", SP_PARAM_KERNEL},      {"param::entry", SP_PARAM_KERNEL},
        {"param::func", SP_PARAM_FRAME},
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (dec_take(body, words[i].word)) {
            *given = true;
            return words[i].space;
        }
    }
    *given = false;
    return SP_GENERIC;
}

/* Base operand and offset of an address. Variables must live in the space that the instruction names. */
static bool address(struct body *body, const struct operand *operand, enum space space, uint32_t *base, int64_t *offset)
{
    if (operand->kind != OPD_ADDRESS)
        return dec_bad_operand(body, "must be an address in brackets");
    *offset = operand->offset;
    if (operand->base == UINT32_MAX) {
        *offset = 0;
        return body_constant(body, (uint64_t)operand->offset, true, -1, base);
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
    bool fits = kind == SYM_GLOBAL ? space == SP_GLOBAL || space == SP_CONST || space == SP_GENERIC
                : kind == SYM_SHARED || kind == SYM_SHARED_DYNAMIC ? space == SP_SHARED
                : kind == SYM_LOCAL                                ? space == SP_LOCAL
                : kind == SYM_FRAME                                ? space == SP_PARAM_FRAME
                : kind == SYM_PARAM                                ? space == SP_PARAM_KERNEL
                                                                   : false;
    if (!fits)
        return body_fail(body, -EINVAL, "'%.*s' is no variable of the space that the instruction names",
                         cut(inner->name), inner->name.at);
    struct operand plain = *inner;
    plain.offset = 0;
    return dec_symbol_address(body, &plain, true, base);
}

/* Parameter accesses with a name go straight to the parameter buffer or the frame. */
static bool decode_param_access(struct body *body, enum op op, struct insn *made)
{
    const struct operand *operand = &body->operands[op == OP_ST_FRAME ? 0 : 1];
    const struct operand *inner = &body->elements[operand->base];
    const struct symbol *symbol = &body->reader->symbols.items[inner->symbol];
    uint64_t end = (uint64_t)operand->offset + (uint64_t)made->bytes * made->count;
    if (operand->offset < 0 || end > symbol->size)
        return body_fail(body, -EINVAL, "access outside of parameter '%.*s'", cut(inner->name), inner->name.at);
    if ((symbol->offset + (uint64_t)operand->offset) % ((uint64_t)made->bytes * made->count))
        return body_fail(body, -EINVAL, "misaligned access to parameter '%.*s'", cut(inner->name), inner->name.at);
    made->imm = (int64_t)symbol->offset + operand->offset;
    struct insn *insn = body_emit(body, op);
    if (!insn)
        return false;
    made->op = (uint16_t)op;
    made->guard = insn->guard;
    made->line = insn->line;
    *insn = *made;
    return true;
}

bool decode_memory(struct body *body, const struct entry *entry)
{
    bool store = entry->arg, given;
    struct insn made = {0};
    made.flags = dec_take_ordering(body);
    enum space space = take_space(body, &given);
    made.count = dec_take(body, "v2") ? 2 : dec_take(body, "v4") ? 4 : 1;
    enum ptype type = dec_take_type(body);
    if (!dec_finish(body))
        return false;
    if (type == T_NONE || type == T_PRED || type == T_TF32)
        return dec_wrong_type(body);
    bool hint = body->operand_count == 3; /* a cache policy */
    if (!dec_want(body, 2, 3))
        return false;
    if (hint && (body->operands[2].kind != OPD_REGISTER || type_bits(body->operands[2].type) != 64))
        return dec_bad_operand(body, "must be a cache policy");
    const struct operand *where = &body->operands[store ? 0 : 1], *what = &body->operands[store ? 1 : 0];
    made.type = (uint8_t)type;
    made.bytes = (uint8_t)type_bytes(type);
    made.shift = (uint8_t)(64 - type_bits(type));
    if (made.bytes * made.count > 16)
        return dec_wrong_type(body);
    /* values */
    for (uint32_t i = 0; i < made.count; i++) {
        const struct operand *value = what;
        if (made.count > 1 || what->kind == OPD_VECTOR) {
            if (what->kind != OPD_VECTOR || what->count != made.count)
                return dec_bad_operand(body, "must be a vector of the size that the instruction names");
            value = &body->elements[what->first + i];
        }
        if (store ? !dec_source(body, value, type, true, &made.o[i])
                  : !dec_destination(body, value, type, true, &made.o[i]))
            return false;
    }
    made.dests = store ? 0 : made.count;
    made.operands = made.count;
    /* place */
    if (where->kind != OPD_ADDRESS)
        return dec_bad_operand(body, "must be an address in brackets");
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
    made.space = (uint8_t)(space == SP_PARAM_FRAME ? SP_LOCAL : space);
    made.o[made.operands++] = base;
    *insn = made;
    return true;
}

bool decode_atom(struct body *body, const struct entry *entry)
{
    static const char *const words[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"};
    bool reduction = entry->arg, given;
    uint16_t flags = dec_take_ordering(body);
    enum space space = take_space(body, &given);
    int what = dec_take_one_of(body, words, 10);
    enum ptype type = dec_take_type(body);
    uint32_t d = 0, base, b, c = 0, at = reduction ? 0 : 1;
    int64_t offset;
    dec_take(body, "noftz");
    if (what < 0)
        return dec_not_supported(body);
    if (!dec_finish(body))
        return false;
    bool real = type_is_float(type), sized = type_bits(type) >= 32 || (what == AT_CAS && type_bits(type) == 16);
    if (type == T_NONE || type == T_PRED || type == T_TF32 ||
        (real && what != AT_ADD && what != AT_MIN && what != AT_MAX) ||
        (real && what != AT_ADD && type_bits(type) == 64) || (!real && !sized) ||
        (space != SP_GENERIC && space != SP_GLOBAL && space != SP_SHARED) || (reduction && what >= AT_EXCH))
        return dec_wrong_type(body);
    uint32_t n = at + (what == AT_CAS ? 3u : 2u);
    if (!dec_want(body, n, n + 1)) /* + cache policy */
        return false;
    if (!address(body, &body->operands[at], space, &base, &offset) ||
        !dec_source(body, &body->operands[at + 1], type, false, &b))
        return false;
    if (what == AT_CAS && !dec_source(body, &body->operands[at + 2], type, false, &c))
        return false;
    if (!reduction && !dec_destination(body, &body->operands[0], type, false, &d))
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
    insn->sub = (uint8_t)what;
    insn->type = (uint8_t)type;
    insn->bytes = (uint8_t)type_bytes(type);
    insn->shift = (uint8_t)(64 - type_bits(type));
    insn->count = 1;
    insn->space = (uint8_t)space;
    insn->flags = (uint16_t)(reduction ? flags & ~F_POLL : flags | F_POLL);
    return true;
}

bool decode_cvta(struct body *body, const struct entry *entry)
{
    (void)entry;
    bool to = dec_take(body, "to"), given;
    enum space space = take_space(body, &given);
    enum ptype type = dec_take_type(body);
    uint32_t a, window, d;
    if (!given || (type != T_U64 && type != T_B64))
        return dec_wrong_type(body);
    if (!dec_want(body, 2, 2) || !dec_finish(body) || !dec_source(body, &body->operands[1], T_U64, false, &a) ||
        !dec_destination(body, &body->operands[0], T_U64, false, &d))
        return false;
    uint64_t base = space == SP_SHARED                                     ? PTX_WINDOW_SHARED
                    : space == SP_LOCAL || space == SP_PARAM_FRAME         ? PTX_WINDOW_LOCAL
                    : space == SP_PARAM_KERNEL && body->function->is_entry ? PTX_WINDOW_PARAM
                    : space == SP_PARAM_KERNEL                             ? PTX_WINDOW_LOCAL
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

bool decode_isspacep(struct body *body, const struct entry *entry)
{
    (void)entry;
    bool given;
    enum space space = take_space(body, &given);
    uint16_t pd;
    uint32_t a;
    if (!given)
        return dec_wrong_type(body);
    if (!dec_want(body, 2, 2) || !dec_finish(body) || !dec_predicate_destination(body, &body->operands[0], &pd) ||
        !dec_source(body, &body->operands[1], T_U64, false, &a))
        return false;
    struct insn *insn = body_emit(body, OP_ISSPACEP);
    if (!insn)
        return false;
    insn->operands = 1;
    insn->o[0] = a;
    insn->pd = pd;
    insn->space = (uint8_t)space;
    return true;
}

bool decode_fence(struct body *body, const struct entry *entry)
{
    (void)entry;
    dec_take_everything(body);
    return body_emit(body, OP_FENCE) != NULL;
}

bool decode_nop(struct body *body, const struct entry *entry)
{
    (void)entry;
    dec_take_everything(body);
    return body_emit(body, OP_NOP) != NULL;
}

/* The policy is a number that nothing reads. */
bool decode_createpolicy(struct body *body, const struct entry *entry)
{
    (void)entry;
    uint32_t zero, d;
    dec_take_everything(body);
    if (body->operand_count == 0)
        return dec_want(body, 1, OPERANDS_MAX);
    if (!dec_destination(body, &body->operands[0], T_B64, false, &d) || !body_constant(body, 0, true, -1, &zero))
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
    return offset == 0 || dec_add_offset(body, *out, offset, out);
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
    insn->sub = (uint8_t)what;
    return true;
}

bool decode_cp(struct body *body, const struct entry *entry)
{
    (void)entry;
    bool given;
    uint32_t to, from, size = 0;
    if (!dec_take(body, "async") || dec_has_modifier(body, "bulk") || dec_has_modifier(body, "reduce"))
        return dec_not_supported(body);
    if (dec_take(body, "commit_group") || dec_take(body, "wait_group") || dec_take(body, "wait_all"))
        return dec_finish(body) && body_emit(body, OP_NOP) != NULL; /* copies are done at once */
    if (dec_take(body, "mbarrier")) {
        bool noinc = dec_take(body, "noinc");
        int64_t offset;
        uint32_t one;
        dec_take(body, "arrive");
        enum space space = take_space(body, &given);
        if (dec_take_type(body) != T_B64)
            return dec_wrong_type(body);
        return dec_want(body, 1, 1) && dec_finish(body) && address(body, &body->operands[0], space, &to, &offset) &&
               body_constant(body, 1, false, -1, &one) &&
               emit_mbarrier(body, noinc ? MBAR_CP_ASYNC_NOINC : MBAR_CP_ASYNC, to, offset, one);
    }
    dec_take_ordering(body);
    if (take_space(body, &given) == SP_GENERIC || take_space(body, &given) == SP_GENERIC)
        return dec_wrong_type(body); /* .shared and .global, in whichever order the table finds them */
    if (!dec_want(body, 3, 5) || !dec_finish(body))
        return false;
    const struct operand *bytes = &body->operands[2];
    if (bytes->kind != OPD_IMMEDIATE || (bytes->value != 4 && bytes->value != 8 && bytes->value != 16))
        return dec_bad_operand(body, "must be a size of 4, 8 or 16");
    bool partial = body->operand_count > 3 && body->operands[3].kind != OPD_PREDICATE &&
                   !(body->operands[3].kind == OPD_REGISTER && type_bits(body->operands[3].type) == 64);
    uint16_t ignore = 1; /* never: not "true" */
    if (partial ? !dec_source(body, &body->operands[3], T_U32, false, &size)
                : !body_constant(body, bytes->value, false, -1, &size))
        return false;
    if (body->operand_count > 3 && body->operands[3].kind == OPD_PREDICATE &&
        !dec_predicate_source(body, &body->operands[3], &ignore))
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
    insn->bytes = (uint8_t)bytes->value;
    insn->count = 1;
    insn->ps = ignore;
    return true;
}

bool decode_mbarrier(struct body *body, const struct entry *entry)
{
    (void)entry;
    static const char *const words[] = {"init",        "inval",     "arrive",   "arrive_drop",  "expect_tx",
                                        "complete_tx", "test_wait", "try_wait", "pending_count"};
    static const uint8_t subs[] = {MBAR_INIT,     MBAR_INVAL, MBAR_ARRIVE, MBAR_ARRIVE_DROP, MBAR_EXPECT,
                                   MBAR_COMPLETE, MBAR_TEST,  MBAR_TEST,   MBAR_PENDING};
    bool given, arrive = dec_has_modifier(body, "arrive"), drop = dec_has_modifier(body, "arrive_drop");
    bool expect = (arrive || drop) && dec_take(body, "expect_tx");
    int what = dec_take_one_of(body, words, 9);
    if (what < 0)
        return dec_not_supported(body);
    unsigned sub = subs[what];
    dec_take_ordering(body);
    enum space space = take_space(body, &given);
    dec_take(body, "noComplete");
    if (sub == MBAR_TEST && dec_take(body, "parity"))
        sub = MBAR_TEST_PARITY;
    if (expect)
        sub = MBAR_ARRIVE_EXPECT;
    if (expect && drop)
        return dec_not_supported(body);
    if (dec_take_type(body) != T_B64)
        return dec_wrong_type(body);
    if (!dec_finish(body))
        return false;
    uint32_t n = body->operand_count, base, count, at = 0, d = 0;
    int64_t offset = 0;
    uint16_t pd = 0;
    bool has_result = n && body->operands[0].kind != OPD_ADDRESS;
    if (!dec_want(body, 1, 4))
        return false;
    if (sub == MBAR_PENDING) {
        const enum ptype types[] = {T_B64};
        if (!dec_want(body, 2, 2))
            return false;
        struct insn *insn = dec_emit(body, OP_MBARRIER, T_U32, types, 1, false);
        if (!insn)
            return false;
        insn->sub = MBAR_PENDING;
        return true;
    }
    if (sub == MBAR_TEST || sub == MBAR_TEST_PARITY) {
        if (!dec_want(body, 3, 4) || !dec_predicate_destination(body, &body->operands[0], &pd))
            return false;
        at = 1;
    } else if (has_result) {
        if (sub != MBAR_ARRIVE && sub != MBAR_ARRIVE_DROP && sub != MBAR_ARRIVE_EXPECT)
            return dec_bad_operand(body, "must be an address in brackets");
        if (!dec_destination(body, &body->operands[0], T_B64, false, &d))
            return false;
        at = 1;
    }
    if (at >= n || !address(body, &body->operands[at], space, &base, &offset))
        return at < n ? false : dec_want(body, n + 1, n + 1);
    bool needs_count = sub != MBAR_INVAL && sub != MBAR_ARRIVE && sub != MBAR_ARRIVE_DROP;
    if (needs_count && n < at + 2)
        return dec_want(body, at + 2, at + 3);
    if (n > at + 1 ? !dec_source(body, &body->operands[at + 1], sub == MBAR_TEST ? T_B64 : T_U32, false, &count)
                   : !body_constant(body, 1, false, -1, &count))
        return false;
    if (!emit_mbarrier(body, sub, base, offset, count))
        return false;
    struct insn *insn = &body->reader->module->code[body->reader->module->code_count - 1];
    insn->space = (uint8_t)space;
    insn->pd = pd;
    if (has_result && pd == 0 && sub != MBAR_TEST && sub != MBAR_TEST_PARITY)
        insn->o[0] = d;
    return true;
}
