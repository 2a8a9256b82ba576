/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of a kernel or function: scopes, declarations, labels, operands.
 */
#include "tests/simcuda/ptx/reader.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int cut(struct text_span span)
{
    return span.length > MESSAGE_WORD_MAX ? MESSAGE_WORD_MAX : (int)span.length;
}

bool body_fail(struct body *body, int error, const char *format, ...)
{
    char text[PTX_ERROR_TEXT_MAX];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    return reader_fail(body->reader, error, body->line, "%s", text);
}

const char *body_opcode(const struct body *body, char buffer[MESSAGE_WORD_MAX])
{
    int used = snprintf(buffer, MESSAGE_WORD_MAX, "%.*s", cut(body->opcode), body->opcode.at);
    for (uint32_t i = 0; i < body->modifier_count && used < MESSAGE_WORD_MAX; i++)
        used += snprintf(buffer + used, (size_t)(MESSAGE_WORD_MAX - used), ".%.*s", cut(body->modifiers[i]),
                         body->modifiers[i].at);
    return buffer;
}

/* ---- scopes and names ---- */

static bool open_scope(struct body *body)
{
    if (body->depth >= SCOPE_DEPTH_MAX || body->scope_count >= SCOPES_MAX)
        return reader_fail(body->reader, -E2BIG, body->reader->lex.now.line, "too many nested blocks");
    void *items = body->scopes;
    if (!reader_grow(body->reader, &items, &body->scope_capacity, body->scope_count, sizeof(struct scope)))
        return false;
    body->scopes = items;
    body->scopes[body->scope_count] = (struct scope){body->scope, body->frame};
    body->scope = ++body->scope_count; /* scope N is scopes[N - 1]; 0 is the module */
    body->depth++;
    return true;
}

static void close_scope(struct body *body)
{
    body->frame = body->scopes[body->scope - 1].frame;
    body->scope = body->scopes[body->scope - 1].parent;
    body->depth--;
}

/* %r12 of a declaration %r<100> */
static struct symbol *find_numbered(struct body *body, struct text_span name, uint32_t scope)
{
    size_t digits = 0;
    uint64_t number = 0, power = 1;
    while (digits < name.length && digits < 8 && name.at[name.length - 1 - digits] >= '0' &&
           name.at[name.length - 1 - digits] <= '9') {
        number += power * (uint64_t)(name.at[name.length - 1 - digits] - '0');
        power *= 10;
        digits++;
        if (digits > 1 && name.at[name.length - digits] == '0')
            continue; /* a leading zero so far; a longer prefix may still fit */
        struct text_span prefix = {name.at, name.length - digits};
        struct symbol *symbol = prefix.length ? symbol_find(&body->reader->symbols, prefix, scope) : NULL;
        if (symbol && symbol->kind == SYM_REGISTERS && number < symbol->count)
            return symbol;
    }
    return NULL;
}

struct symbol *body_lookup(struct body *body, struct text_span name, uint32_t scope)
{
    for (;;) {
        struct symbol *symbol = symbol_find(&body->reader->symbols, name, scope);
        if (symbol && symbol->kind != SYM_REGISTERS)
            return symbol;
        symbol = scope ? find_numbered(body, name, scope) : NULL;
        if (symbol || scope == 0)
            return symbol;
        scope = body->scopes[scope - 1].parent;
    }
}

static struct symbol *declare(struct body *body, struct text_span name, enum symbol_kind kind, uint32_t line)
{
    if (symbol_find(&body->reader->symbols, name, body->scope)) {
        reader_fail(body->reader, -EINVAL, line, "'%.*s' is declared twice", cut(name), name.at);
        return NULL;
    }
    struct symbol *symbol = symbol_add(&body->reader->symbols, name, body->scope);
    if (!symbol) {
        reader_nomem(body->reader);
        return NULL;
    }
    symbol->kind = kind;
    return symbol;
}

/* ---- registers, constants, frame ---- */

uint32_t body_temp(struct body *body, bool wide)
{
    return wide ? body->r64++ << 2 | POOL_R64 : body->r32++ << 2 | POOL_R32;
}

static bool register_number(struct body *body, struct symbol *symbol, struct text_span name, uint32_t *out)
{
    uint32_t *id = &symbol->index;
    if (symbol->kind == SYM_REGISTERS) {
        uint32_t number = 0;
        for (size_t i = symbol->name.length; i < name.length; i++)
            number = number * 10 + (uint32_t)(name.at[i] - '0');
        if (!symbol->ids) {
            symbol->ids = calloc(symbol->count, sizeof(*symbol->ids));
            if (!symbol->ids)
                return reader_nomem(body->reader);
        }
        id = &symbol->ids[number];
    }
    if (*id == 0) {
        if (symbol->type == T_PRED) {
            if (body->preds >= PREDICATES_PER_BODY_MAX)
                return body_fail(body, -E2BIG, "more than %d predicates in one body", PREDICATES_PER_BODY_MAX);
            *id = body->preds++ + 1;
        } else {
            *id = body_temp(body, type_bits(symbol->type) == 64) + 1;
        }
    }
    *out = *id - 1;
    return true;
}

static uint32_t constant_hash(uint64_t value, bool wide, int32_t global)
{
    uint64_t mixed = (value ^ (uint64_t)(uint32_t)global << 32 ^ (wide ? 1 : 0)) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(mixed >> 32);
}

static bool grow_constant_index(struct body *body)
{
    uint32_t size = body->constant_index_size ? body->constant_index_size * 2 : 128;
    uint32_t *index = calloc(size, sizeof(*index));
    if (!index)
        return reader_nomem(body->reader);
    for (uint32_t i = 0; i < body->function->constant_count; i++) {
        const struct constant *constant = &body->function->constants[i];
        uint32_t at = constant_hash(constant->value, constant->wide, constant->global) & (size - 1);
        while (index[at])
            at = (at + 1) & (size - 1);
        index[at] = i + 1;
    }
    free(body->constant_index);
    body->constant_index = index;
    body->constant_index_size = size;
    return true;
}

bool body_constant(struct body *body, uint64_t value, bool wide, int32_t global, uint32_t *out)
{
    struct function *function = body->function;
    if (!wide)
        value = (uint32_t)value;
    if (function->constant_count * 2 >= body->constant_index_size && !grow_constant_index(body))
        return false;
    uint32_t mask = body->constant_index_size - 1, at = constant_hash(value, wide, global) & mask;
    for (; body->constant_index[at]; at = (at + 1) & mask) {
        const struct constant *constant = &function->constants[body->constant_index[at] - 1];
        if (constant->value == value && constant->wide == wide && constant->global == global) {
            *out = constant->offset | (wide ? POOL_C64 : POOL_C32);
            return true;
        }
    }
    void *items = function->constants;
    if (!reader_grow(body->reader, &items, &body->constant_capacity, function->constant_count, sizeof(struct constant)))
        return false;
    function->constants = items;
    if (function->constant_bytes > UINT32_C(1) << 30)
        return body_fail(body, -E2BIG, "too many constants in one body");
    function->constants[function->constant_count] =
        (struct constant){.value = value, .global = global, .wide = wide, .offset = function->constant_bytes};
    body->constant_index[at] = ++function->constant_count;
    *out = function->constant_bytes | (wide ? POOL_C64 : POOL_C32);
    function->constant_bytes += wide ? ROW64 : ROW32;
    return true;
}

bool body_add_frame(struct body *body, uint64_t bytes, uint32_t align, uint32_t *out)
{
    uint64_t offset = ((uint64_t)body->frame + align - 1) & ~(uint64_t)(align - 1);
    if (bytes > LOCAL_BYTES_MAX || offset + bytes > LOCAL_BYTES_MAX)
        return body_fail(body, -E2BIG, "more than %d bytes of local memory", LOCAL_BYTES_MAX);
    *out = (uint32_t)offset;
    body->frame = (uint32_t)(offset + bytes);
    if (body->frame > body->frame_max)
        body->frame_max = body->frame;
    return true;
}

/* Device functions share one area that every kernel has first; kernels add their own variables after it. */
static bool place_shared(struct body *body, uint64_t size, uint32_t align, uint64_t *out)
{
    struct ptx_module *module = body->reader->module;
    uint64_t start = body->function->is_entry ? (uint64_t)module->shared_common + body->function->shared_bytes
                                              : module->shared_common;
    uint64_t offset = (start + align - 1) & ~(uint64_t)(align - 1);
    if (offset + size > SHARED_BYTES_MAX)
        return body_fail(body, -E2BIG, "more than %d bytes of shared memory", SHARED_BYTES_MAX);
    if (body->function->is_entry)
        body->function->shared_bytes = (uint32_t)(offset + size - module->shared_common);
    else
        module->shared_common = (uint32_t)(offset + size);
    *out = offset;
    return true;
}

bool body_shared_offset(struct body *body, uint32_t index, uint64_t *out)
{
    struct symbol *symbol = &body->reader->symbols.items[index];
    if (!symbol->common && symbol->owner != body->stamp) { /* module scope, first use in this body */
        if (!place_shared(body, symbol->size, symbol->align, &symbol->offset))
            return false;
        symbol->owner = body->stamp;
        symbol->common = !body->function->is_entry;
    }
    *out = symbol->offset;
    return true;
}

/* ---- instructions ---- */

struct insn *body_emit(struct body *body, enum op op)
{
    struct ptx_module *module = body->reader->module;
    if (module->code_count >= INSTRUCTIONS_MAX) {
        body_fail(body, -E2BIG, "more than %d instructions", INSTRUCTIONS_MAX);
        return NULL;
    }
    void *items = module->code;
    if (!reader_grow(body->reader, &items, &body->reader->code_capacity, module->code_count, sizeof(struct insn)))
        return NULL;
    module->code = items;
    struct insn *insn = &module->code[module->code_count++];
    *insn = (struct insn){.op = (uint16_t)op, .guard = body->guard, .line = body->line};
    return insn;
}

bool body_fixup(struct body *body, uint32_t pc, uint32_t slot, struct text_span name)
{
    void *items = body->fixups;
    if (!reader_grow(body->reader, &items, &body->fixup_capacity, body->fixup_count, sizeof(struct fixup)))
        return false;
    body->fixups = items;
    body->fixups[body->fixup_count++] =
        (struct fixup){.pc = pc, .slot = slot, .scope = body->scope, .line = body->line, .name = name};
    return true;
}

static bool resolve_fixups(struct body *body)
{
    for (uint32_t i = 0; i < body->fixup_count; i++) {
        const struct fixup *fixup = &body->fixups[i];
        const struct symbol *symbol = body_lookup(body, fixup->name, fixup->scope);
        if (!symbol || symbol->kind != SYM_LABEL)
            return reader_fail(body->reader, -EINVAL, fixup->line, "label '%.*s' is not defined", cut(fixup->name),
                               fixup->name.at);
        if (fixup->pc != UINT32_MAX)
            body->reader->module->code[fixup->pc].imm = symbol->index;
        else
            body->function->targets[fixup->slot] = symbol->index;
    }
    return true;
}

/* ---- operands ---- */

static const struct {
    const char *name;
    uint8_t first;
    uint8_t components; /* 0: no .x .y .z */
    uint8_t type;
} specials[] = {
    {"%tid", SR_TID_X, 3, T_U32},
    {"%ntid", SR_NTID_X, 3, T_U32},
    {"%ctaid", SR_CTAID_X, 3, T_U32},
    {"%nctaid", SR_NCTAID_X, 3, T_U32},
    {"%laneid", SR_LANEID, 0, T_U32},
    {"%warpid", SR_WARPID, 0, T_U32},
    {"%nwarpid", SR_NWARPID, 0, T_U32},
    {"%smid", SR_SMID, 0, T_U32},
    {"%nsmid", SR_NSMID, 0, T_U32},
    {"%gridid", SR_GRIDID, 0, T_U64},
    {"%clock", SR_CLOCK, 0, T_U32},
    {"%clock_hi", SR_CLOCK_HI, 0, T_U32},
    {"%clock64", SR_CLOCK64, 0, T_U64},
    {"%globaltimer", SR_GLOBALTIMER, 0, T_U64},
    {"%globaltimer_lo", SR_GLOBALTIMER_LO, 0, T_U32},
    {"%globaltimer_hi", SR_GLOBALTIMER_HI, 0, T_U32},
    {"%lanemask_eq", SR_LANEMASK_EQ, 0, T_U32},
    {"%lanemask_lt", SR_LANEMASK_LT, 0, T_U32},
    {"%lanemask_le", SR_LANEMASK_LE, 0, T_U32},
    {"%lanemask_gt", SR_LANEMASK_GT, 0, T_U32},
    {"%lanemask_ge", SR_LANEMASK_GE, 0, T_U32},
    {"%dynamic_smem_size", SR_DYNAMIC_SMEM_SIZE, 0, T_U32},
    {"%total_smem_size", SR_TOTAL_SMEM_SIZE, 0, T_U32},
    {"%aggr_smem_size", SR_TOTAL_SMEM_SIZE, 0, T_U32},
    {"%reserved_smem_offset_begin", SR_ZERO, 0, T_U32},
    {"%reserved_smem_offset_end", SR_ZERO, 0, T_U32},
    {"%reserved_smem_offset_cap", SR_ZERO, 0, T_U32},
    {"%clusterid", SR_CLUSTERID_X, 3, T_U32},
    {"%nclusterid", SR_NCLUSTERID_X, 3, T_U32},
    {"%cluster_ctaid", SR_CLUSTER_CTAID_X, 3, T_U32},
    {"%cluster_nctaid", SR_CLUSTER_NCTAID_X, 3, T_U32},
    {"%cluster_ctarank", SR_CLUSTER_CTARANK, 0, T_U32},
    {"%cluster_nctarank", SR_CLUSTER_NCTARANK, 0, T_U32},
    {"%is_explicit_cluster", SR_IS_EXPLICIT_CLUSTER, 0, T_PRED},
    {"%envreg0", SR_ZERO, 0, T_U32},
    {"%envreg1", SR_ENVREG1, 0, T_U32},
    {"%envreg2", SR_ENVREG2, 0, T_U32},
};

static bool special_operand(struct body *body, struct text_span name, struct operand *operand, bool *found)
{
    struct lexer *lex = &body->reader->lex;
    *found = false;
    for (size_t i = 0; i < sizeof(specials) / sizeof(specials[0]); i++) {
        if (!span_is(name, specials[i].name))
            continue;
        *found = true;
        operand->kind = OPD_SPECIAL;
        operand->type = specials[i].type;
        operand->special = specials[i].first;
        if (specials[i].components == 0)
            return true;
        if (lex->now.kind != TOK_DOT || lex->now.text.length != 1 || lex->now.text.at[0] < 'x' ||
            lex->now.text.at[0] > 'z')
            return body_fail(body, -ENOTSUP, "'%.*s' without .x, .y or .z is not supported", cut(name), name.at);
        operand->special = (enum sreg)(specials[i].first + (lex->now.text.at[0] - 'x'));
        lex_next(lex);
        return true;
    }
    return true;
}

static bool read_operand(struct body *body, struct operand *operand);

static bool add_element(struct body *body, const struct operand *element, uint32_t *index)
{
    if (body->element_count >= ELEMENTS_MAX)
        return body_fail(body, -E2BIG, "too many operands");
    *index = body->element_count;
    body->elements[body->element_count++] = *element;
    return true;
}

/* +8, -8, +-8 */
static bool read_offset(struct body *body, int64_t *offset)
{
    struct lexer *lex = &body->reader->lex;
    bool negative = false;
    uint64_t value;
    if (!lex_is_punct(lex, '+') && !lex_is_punct(lex, '-'))
        return true;
    while (lex_is_punct(lex, '+') || lex_is_punct(lex, '-')) {
        negative ^= lex_is_punct(lex, '-');
        lex_next(lex);
    }
    if (!reader_integer(body->reader, "an offset", UINT64_MAX, &value))
        return false;
    *offset = (int64_t)(negative ? -value : value);
    return true;
}

static bool read_address(struct body *body, struct operand *operand)
{
    struct operand base;
    operand->kind = OPD_ADDRESS;
    operand->base = UINT32_MAX;
    if (body->reader->lex.now.kind == TOK_INTEGER) {
        uint64_t value;
        if (!reader_integer(body->reader, "an address", UINT64_MAX, &value))
            return false;
        operand->offset = (int64_t)value;
    } else {
        if (!read_operand(body, &base))
            return false;
        if (base.kind != OPD_REGISTER && base.kind != OPD_SYMBOL)
            return body_fail(body, -EINVAL, "an address is a register, a variable or a number, with an offset");
        if (!read_offset(body, &operand->offset))
            return false;
        operand->offset += base.offset;
        if (!add_element(body, &base, &operand->base))
            return false;
    }
    return reader_punct(body->reader, ']');
}

/* Vector elements and call lists. Elements are contiguous because nested ones come first. */
static bool read_list(struct body *body, struct operand *operand, char close)
{
    struct lexer *lex = &body->reader->lex;
    struct operand items[72];
    operand->kind = close == '}' ? OPD_VECTOR : OPD_LIST;
    while (!lex_is_punct(lex, close)) {
        if (operand->count == sizeof(items) / sizeof(items[0]))
            return body_fail(body, -E2BIG, "more than %u operands in a list", operand->count);
        if (!read_operand(body, &items[operand->count++]))
            return false;
        if (lex_is_punct(lex, ','))
            lex_next(lex);
        else if (!lex_is_punct(lex, close))
            return reader_expected(body->reader, close == '}' ? "',' or '}'" : "',' or ')'");
    }
    lex_next(lex);
    operand->first = body->element_count;
    for (uint32_t i = 0, index; i < operand->count; i++) {
        if (!add_element(body, &items[i], &index))
            return false;
    }
    return true;
}

static bool read_number(struct body *body, struct operand *operand, bool negative)
{
    const struct token now = body->reader->lex.now;
    if (now.kind != TOK_INTEGER && now.kind != TOK_FLOAT)
        return reader_expected(body->reader, "an operand");
    operand->kind = OPD_IMMEDIATE;
    operand->value = now.value;
    if (now.kind == TOK_FLOAT) {
        operand->float_width = now.width ? now.width : 1;
        if (negative)
            operand->value ^= UINT64_C(1) << (now.width == 32 ? 31 : 63);
    } else if (negative) {
        operand->value = -operand->value;
    }
    lex_next(&body->reader->lex);
    return true;
}

static bool read_pair(struct body *body, struct operand *operand)
{
    struct text_span name;
    struct operand second = {0};
    if (!lex_is_punct(&body->reader->lex, '|'))
        return true;
    lex_next(&body->reader->lex);
    if (!reader_word(body->reader, "a predicate", &name))
        return false;
    operand->has_pair = true;
    if (span_is(name, "_"))
        return true;
    struct symbol *symbol = body_lookup(body, name, body->scope);
    if (!symbol || (symbol->kind != SYM_REGISTER && symbol->kind != SYM_REGISTERS) || symbol->type != T_PRED)
        return body_fail(body, -EINVAL, "'%.*s' is no predicate", cut(name), name.at);
    if (!register_number(body, symbol, name, &second.reg))
        return false;
    operand->pair = second.reg;
    return true;
}

static bool read_name(struct body *body, struct operand *operand)
{
    struct text_span name;
    bool found;
    if (!reader_word(body->reader, "an operand", &name))
        return false;
    operand->name = name;
    if (span_is(name, "_")) {
        operand->kind = OPD_SINK;
        return read_pair(body, operand);
    }
    struct symbol *symbol = body_lookup(body, name, body->scope);
    if (!symbol) {
        if (span_is(name, "WARP_SZ")) {
            operand->kind = OPD_IMMEDIATE;
            operand->value = PTX_WARP_LANES;
            return true;
        }
        if (!special_operand(body, name, operand, &found))
            return false;
        if (!found && name.at[0] == '%')
            return body_fail(body, -EINVAL, "register '%.*s' is not declared", cut(name), name.at);
        if (!found)
            operand->kind = OPD_NAME;
        return true;
    }
    operand->symbol = (uint32_t)(symbol - body->reader->symbols.items);
    operand->type = symbol->type;
    if (symbol->kind == SYM_REGISTER || symbol->kind == SYM_REGISTERS) {
        operand->kind = symbol->type == T_PRED ? OPD_PREDICATE : OPD_REGISTER;
        return register_number(body, symbol, name, &operand->reg) && read_pair(body, operand);
    }
    if (symbol->kind == SYM_LABEL || symbol->kind == SYM_TARGETS || symbol->kind == SYM_PROTOTYPE) {
        operand->kind = OPD_NAME;
        return true;
    }
    operand->kind = OPD_SYMBOL;
    return read_offset(body, &operand->offset);
}

static bool read_operand(struct body *body, struct operand *operand)
{
    struct lexer *lex = &body->reader->lex;
    *operand = (struct operand){0};
    if (lex_is_punct(lex, '!')) {
        lex_next(lex);
        if (!read_name(body, operand))
            return false;
        if (operand->kind != OPD_PREDICATE)
            return body_fail(body, -EINVAL, "'!' needs a predicate");
        operand->negated = true;
        return true;
    }
    if (lex_is_punct(lex, '[')) {
        if (body->nesting == 3)
            return body_fail(body, -EINVAL, "operands are nested too deeply");
        lex_next(lex);
        body->nesting++;
        bool good = read_address(body, operand);
        body->nesting--;
        return good;
    }
    if (lex_is_punct(lex, '{') || lex_is_punct(lex, '(')) {
        char close = lex_is_punct(lex, '{') ? '}' : ')';
        if (body->nesting == 3)
            return body_fail(body, -EINVAL, "operands are nested too deeply");
        lex_next(lex);
        body->nesting++;
        bool good = read_list(body, operand, close);
        body->nesting--;
        return good;
    }
    if (lex_is_punct(lex, '-')) {
        lex_next(lex);
        return read_number(body, operand, true);
    }
    if (lex->now.kind == TOK_WORD)
        return read_name(body, operand);
    return read_number(body, operand, false);
}

/* ---- statements ---- */

static bool read_guard(struct body *body)
{
    struct lexer *lex = &body->reader->lex;
    struct operand operand;
    body->guard = 0;
    if (!lex_is_punct(lex, '@'))
        return true;
    lex_next(lex);
    if (!read_operand(body, &operand))
        return false;
    if (operand.kind != OPD_PREDICATE)
        return body_fail(body, -EINVAL, "a guard needs a predicate");
    body->guard = (uint16_t)(operand.reg << 1 | operand.negated);
    return true;
}

static bool read_instruction(struct body *body)
{
    struct lexer *lex = &body->reader->lex;
    body->line = lex->now.line;
    body->modifier_count = body->operand_count = body->element_count = 0;
    memset(body->used, 0, sizeof(body->used));
    if (!read_guard(body) || !reader_word(body->reader, "an instruction", &body->opcode))
        return false;
    while (lex->now.kind == TOK_DOT && lex->now.glued) {
        if (body->modifier_count == MODIFIERS_MAX)
            return body_fail(body, -EINVAL, "too many modifiers");
        body->modifiers[body->modifier_count++] = lex->now.text;
        lex_next(lex);
    }
    bool call = span_is(body->opcode, "call"); /* call (r), f, (a); commas as elsewhere */
    while (!lex_is_punct(lex, ';')) {
        if (body->operand_count == OPERANDS_MAX)
            return body_fail(body, -EINVAL, "too many operands");
        if (!read_operand(body, &body->operands[body->operand_count++]))
            return false;
        if (lex_is_punct(lex, ','))
            lex_next(lex);
        else if (!lex_is_punct(lex, ';'))
            return reader_expected(body->reader, call ? "',' or ';' in a call" : "',' or ';'");
    }
    lex_next(lex);
    return decode_instruction(body);
}

static bool read_registers(struct body *body)
{
    struct reader *reader = body->reader;
    struct variable variable;
    if (!reader_variable_type(reader, &variable))
        return false;
    if (variable.vector != 1)
        return body_fail(body, -ENOTSUP, "vector registers are not supported");
    for (;;) {
        struct text_span name;
        uint64_t count = 1;
        uint32_t line = reader->lex.now.line;
        bool range = false;
        if (!reader_word(reader, "a register name", &name))
            return false;
        if (lex_is_punct(&reader->lex, '<')) {
            lex_next(&reader->lex);
            if (!reader_integer(reader, "register count", REGISTERS_PER_BODY_MAX, &count) || !reader_punct(reader, '>'))
                return false;
            range = true;
        }
        body->declared += count;
        if (body->declared > REGISTERS_PER_BODY_MAX)
            return reader_fail(reader, -E2BIG, line, "more than %d registers in one body", REGISTERS_PER_BODY_MAX);
        struct symbol *symbol = declare(body, name, range ? SYM_REGISTERS : SYM_REGISTER, line);
        if (!symbol)
            return false;
        symbol->type = variable.type;
        symbol->count = (uint32_t)count;
        if (!lex_is_punct(&reader->lex, ','))
            break;
        lex_next(&reader->lex);
    }
    return reader_punct(reader, ';');
}

static bool read_body_variable(struct body *body, enum symbol_kind kind)
{
    struct reader *reader = body->reader;
    struct variable variable;
    if (!reader_variable_type(reader, &variable))
        return false;
    for (;;) {
        if (!reader_variable_name(reader, &variable))
            return false;
        bool dynamic = kind == SYM_SHARED && variable.dims && variable.dim[0] == 0;
        if (variable.type == T_PRED || (variable.bytes == 0 && !dynamic))
            return reader_fail(reader, -EINVAL, variable.line, "'%.*s' has no size", cut(variable.name),
                               variable.name.at);
        uint32_t align = variable.align ? variable.align : (uint32_t)variable.element_bytes, offset;
        struct symbol *symbol = declare(body, variable.name, dynamic ? SYM_SHARED_DYNAMIC : kind, variable.line);
        if (!symbol)
            return false;
        symbol->type = variable.type;
        symbol->size = variable.bytes;
        symbol->align = align;
        if (dynamic) {
            if (align > reader->module->dynamic_align)
                reader->module->dynamic_align = align;
        } else if (kind == SYM_SHARED) {
            symbol->owner = body->stamp;
            if (!place_shared(body, variable.bytes, align, &symbol->offset))
                return false;
        } else {
            if (!body_add_frame(body, variable.bytes, align, &offset))
                return false;
            symbol->offset = offset;
        }
        if (!lex_is_punct(&reader->lex, ','))
            break;
        lex_next(&reader->lex);
    }
    return reader_punct(reader, ';');
}

static bool skip_to_semicolon(struct body *body)
{
    struct lexer *lex = &body->reader->lex;
    while (!lex_is_punct(lex, ';')) {
        if (lex->now.kind == TOK_END || lex_is_punct(lex, '}'))
            return reader_expected(body->reader, "';'");
        lex_next(lex);
    }
    lex_next(lex);
    return true;
}

static bool read_targets(struct body *body, uint32_t *index)
{
    struct function *function = body->function;
    void *items = function->tables;
    if (!reader_grow(body->reader, &items, &body->table_capacity, function->table_count, sizeof(struct jump_table)))
        return false;
    function->tables = items;
    struct jump_table *table = &function->tables[function->table_count];
    *table = (struct jump_table){function->target_count, 0};
    *index = function->table_count++;
    for (;;) {
        struct text_span name;
        if (!reader_word(body->reader, "a label", &name))
            return false;
        items = function->targets;
        if (!reader_grow(body->reader, &items, &body->target_capacity, function->target_count, sizeof(uint32_t)))
            return false;
        function->targets = items;
        if (!body_fixup(body, UINT32_MAX, function->target_count, name))
            return false;
        function->target_count++;
        table->count++;
        if (!lex_is_punct(&body->reader->lex, ','))
            break;
        lex_next(&body->reader->lex);
    }
    return reader_punct(body->reader, ';');
}

/* name: and name: .branchtargets ... and name: .callprototype ... */
static bool read_label(struct body *body)
{
    struct lexer *lex = &body->reader->lex;
    struct text_span name = lex->now.text;
    body->line = lex->now.line;
    lex_next(lex);
    lex_next(lex); /* the colon */
    if (lex_is_dot(lex, "branchtargets")) {
        uint32_t index;
        struct symbol *symbol = declare(body, name, SYM_TARGETS, body->line);
        if (!symbol)
            return false;
        uint32_t at = (uint32_t)(symbol - body->reader->symbols.items);
        lex_next(lex);
        if (!read_targets(body, &index))
            return false;
        body->reader->symbols.items[at].index = index;
        return true;
    }
    if (lex_is_dot(lex, "callprototype") || lex_is_dot(lex, "calltargets"))
        return declare(body, name, SYM_PROTOTYPE, body->line) && skip_to_semicolon(body);
    struct symbol *symbol = declare(body, name, SYM_LABEL, body->line);
    if (!symbol)
        return false;
    symbol->index = body->reader->module->code_count;
    return true;
}

static bool read_body_directive(struct body *body)
{
    struct lexer *lex = &body->reader->lex;
    struct text_span name = lex->now.text;
    uint32_t line = lex->now.line;
    body->line = line;
    lex_next(lex);
    if (span_is(name, "extern")) {
        name = lex->now.text;
        if (!lex_is_dot(lex, "shared"))
            return reader_expected(body->reader, "'.shared'");
        lex_next(lex);
    }
    if (span_is(name, "reg"))
        return read_registers(body);
    if (span_is(name, "local"))
        return read_body_variable(body, SYM_LOCAL);
    if (span_is(name, "param"))
        return read_body_variable(body, SYM_FRAME);
    if (span_is(name, "shared"))
        return read_body_variable(body, SYM_SHARED);
    if (span_is(name, "global") || span_is(name, "const"))
        return reader_global(body->reader, name.at[0] == 'c', false, false, body->scope);
    if (span_is(name, "pragma"))
        return skip_to_semicolon(body);
    if (span_is(name, "loc") || span_is(name, "file")) { /* ends with the line */
        while (lex->now.line == line && lex->now.kind != TOK_END && !lex_is_punct(lex, '}'))
            lex_next(lex);
        return true;
    }
    return reader_fail(body->reader, -EINVAL, line, "directive '.%.*s' is not known", cut(name), name.at);
}

static bool read_statement(struct body *body)
{
    struct lexer *lex = &body->reader->lex;
    if (lex_is_punct(lex, '{')) {
        lex_next(lex);
        return open_scope(body);
    }
    if (lex_is_punct(lex, '}')) {
        close_scope(body); /* the caller stops at depth 0 */
        if (body->depth > 0)
            lex_next(lex);
        return true;
    }
    if (lex_is_punct(lex, ';')) {
        lex_next(lex);
        return true;
    }
    if (lex->now.kind == TOK_DOT)
        return read_body_directive(body);
    if (lex->now.kind == TOK_WORD) {
        struct token next = lex_peek(lex);
        if (next.kind == TOK_PUNCT && next.punct == ':')
            return read_label(body);
    }
    return read_instruction(body);
}

static bool declare_params(struct body *body)
{
    struct function *function = body->function;
    for (uint32_t i = 0; i < function->param_count + function->result_count; i++) {
        bool result = i >= function->param_count;
        const struct ptx_param *param = result ? &function->results[i - function->param_count] : &function->params[i];
        struct text_span name = result ? function->result_names[i - function->param_count] : function->param_names[i];
        struct symbol *symbol = declare(body, name, function->is_entry ? SYM_PARAM : SYM_FRAME, function->body_line);
        if (!symbol)
            return false;
        symbol->type = T_B8;
        symbol->offset = param->offset;
        symbol->size = param->size;
        if (!function->is_entry && param->offset + param->size > body->frame)
            body->frame = body->frame_max = param->offset + param->size;
    }
    return true;
}

static bool read_statements(struct body *body)
{
    struct reader *reader = body->reader;
    struct function *function = body->function;
    lex_start(&reader->lex, reader->text, reader->length, function->body_at, function->body_line);
    body->line = function->body_line;
    lex_next(&reader->lex); /* { */
    if (!open_scope(body) || !declare_params(body))
        return false;
    while (body->depth > 0) {
        if (reader->lex.now.kind == TOK_END)
            return reader_expected(reader, "'}'");
        if (!read_statement(body))
            return false;
    }
    body->guard = 0;
    body->line = reader->lex.now.line;
    struct insn *last = body_emit(body, function->is_entry ? OP_EXIT : OP_RET); /* falling off the end returns */
    return last && resolve_fixups(body);
}

bool body_read(struct reader *reader, struct function *function, uint32_t stamp)
{
    struct body *body = calloc(1, sizeof(*body));
    if (!body)
        return reader_nomem(reader);
    body->reader = reader;
    body->function = function;
    body->stamp = stamp;
    body->preds = 1; /* 0 is "true" */
    body->first_symbol = reader->symbols.count;
    function->first_pc = reader->module->code_count;
    bool good = read_statements(body);
    if (good) {
        function->pc_count = reader->module->code_count - function->first_pc;
        function->frame_bytes = body->frame_max;
        struct alloc_input input = {.code = reader->module->code + function->first_pc,
                                    .count = function->pc_count,
                                    .r32 = body->r32,
                                    .r64 = body->r64,
                                    .preds = body->preds,
                                    .function = function};
        if (alloc_registers(function, &input))
            good = reader_nomem(reader);
    }
    symbols_truncate(&reader->symbols, body->first_symbol);
    free(body->scopes);
    free(body->fixups);
    free(body->constant_index);
    free(body);
    return good;
}
