/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoders of control flow, calls, barriers and exchange inside a warp.
 */
#include "tests/simcuda/ptx/decode.h"

#include <errno.h>
#include <string.h>

static int cut(struct text_span span)
{
    return span.length > MESSAGE_WORD_MAX ? MESSAGE_WORD_MAX : (int)span.length;
}

bool decode_bra(struct body *body, const struct entry *entry)
{
    (void)entry;
    dec_take(body, "uni");
    if (!dec_want(body, 1, 1) || !dec_finish(body))
        return false;
    if (body->operands[0].kind != OPD_NAME)
        return dec_bad_operand(body, "must be a label");
    struct insn *insn = body_emit(body, OP_BRA);
    return insn && body_fixup(body, body->reader->module->code_count - 1, 0, body->operands[0].name);
}

bool decode_brx(struct body *body, const struct entry *entry)
{
    (void)entry;
    uint32_t a;
    dec_take(body, "uni");
    if (!dec_take(body, "idx"))
        return dec_not_supported(body);
    if (!dec_want(body, 2, 2) || !dec_finish(body) || !dec_source(body, &body->operands[0], T_U32, false, &a))
        return false;
    const struct symbol *symbol =
        body->operands[1].kind == OPD_NAME ? body_lookup(body, body->operands[1].name, body->scope) : NULL;
    if (!symbol || symbol->kind != SYM_TARGETS)
        return dec_bad_operand(body, "must be the name of a .branchtargets list");
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
        (struct frame_slot){(uint32_t)symbol->offset, (uint32_t)symbol->size, symbol->align};
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

bool decode_call(struct body *body, const struct entry *entry)
{
    (void)entry;
    struct function *function = body->function;
    uint32_t at = 0, n = body->operand_count, pointer = 0;
    struct call_site site = {.result = -1};
    dec_take(body, "uni");
    if (!dec_want(body, 1, 4) || !dec_finish(body))
        return false;
    if (body->operands[0].kind == OPD_LIST) {
        const struct operand *list = &body->operands[at++];
        if (list->count > 1)
            return body_fail(body, -ENOTSUP, "calls with several results are not supported");
        if (list->count == 1) {
            site.result = (int32_t)function->slot_count;
            if (!add_slot(body, &body->elements[list->first]))
                return false;
        }
    }
    if (at >= n)
        return dec_want(body, n + 1, n + 1);
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
        return dec_bad_operand(body, "must be a call prototype");
    const struct ptx_module *module = body->reader->module;
    enum op op = OP_CALL_POINTER;
    int builtin = 0;
    if (target->kind == OPD_REGISTER) {
        if (!dec_check_size(body, target, T_U64, false))
            return false;
        pointer = target->reg;
        function->has_indirect_call = true;
    } else {
        const struct symbol *symbol = target->kind == OPD_SYMBOL ? &body->reader->symbols.items[target->symbol] : NULL;
        if (!symbol || symbol->kind != SYM_FUNCTION)
            return body_fail(body, -EINVAL, "function '%.*s' is not declared", cut(target->name), target->name.at);
        site.callee = symbol->index;
        if (module->functions[site.callee].alias >= 0)
            site.callee = (uint32_t)module->functions[site.callee].alias;
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
    insn->sub = (uint8_t)(op == OP_CALL_BUILTIN ? builtin : 0);
    if (op == OP_CALL_POINTER) {
        insn->operands = 1;
        insn->o[0] = pointer;
    }
    return true;
}

bool decode_plain(struct body *body, const struct entry *entry)
{
    enum op op = (enum op)entry->arg;
    dec_take(body, "uni");
    if (op == OP_RET && body->function->is_entry)
        op = OP_EXIT;
    return dec_want(body, 0, 0) && dec_finish(body) && body_emit(body, op) != NULL;
}

bool decode_nanosleep(struct body *body, const struct entry *entry)
{
    (void)entry;
    uint32_t a;
    if (dec_take_type(body) != T_U32)
        return dec_wrong_type(body);
    if (!dec_want(body, 1, 1) || !dec_finish(body) || !dec_source(body, &body->operands[0], T_U32, false, &a))
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
    bool arrive = dec_take(body, "arrive"), wait = dec_take(body, "wait");
    dec_take_ordering(body);
    dec_take(body, "aligned");
    if (arrive == wait)
        return body_fail(body, -EINVAL, "barrier.cluster needs .arrive or .wait");
    return dec_want(body, 0, 0) && dec_finish(body) &&
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
        insn->sub = (uint8_t)what;
    }
    return insn;
}

bool decode_bar(struct body *body, const struct entry *entry)
{
    (void)entry;
    if (dec_take(body, "cluster"))
        return decode_cluster_barrier(body);
    dec_take(body, "cta");
    dec_take(body, "aligned");
    uint32_t zero, d = 0, number, count;
    if (!body_constant(body, 0, false, -1, &zero))
        return false;
    if (dec_take(body, "warp")) {
        uint32_t mask;
        if (!dec_take(body, "sync"))
            return dec_not_supported(body);
        return dec_want(body, 1, 1) && dec_finish(body) && dec_source(body, &body->operands[0], T_B32, false, &mask) &&
               emit_warp_sync(body, WS_BARRIER, body_temp(body, false), zero, zero, zero, mask);
    }
    uint16_t pd = 0, ps = 0;
    uint32_t at = 0, n = body->operand_count;
    unsigned sub = BAR_SYNC;
    if (dec_take(body, "red")) {
        sub = dec_take(body, "popc")  ? BAR_POPC
              : dec_take(body, "and") ? BAR_AND
              : dec_take(body, "or")  ? BAR_OR
                                      : BAR_SYNC;
        enum ptype type = dec_take_type(body);
        if (sub == BAR_SYNC || (sub == BAR_POPC ? type != T_U32 : type != T_PRED))
            return dec_wrong_type(body);
        if (!dec_want(body, 3, 4))
            return false;
        if (sub == BAR_POPC ? !dec_destination(body, &body->operands[0], T_U32, false, &d)
                            : !dec_predicate_destination(body, &body->operands[0], &pd))
            return false;
        if (!dec_predicate_source(body, &body->operands[n - 1], &ps))
            return false;
        at = 1;
        n--;
    } else if (dec_take(body, "arrive")) {
        sub = BAR_ARRIVE;
        if (!dec_want(body, 2, 2))
            return false;
    } else if (!dec_take(body, "sync") || !dec_want(body, 1, 2)) {
        return body_fail(body, -EINVAL, "a barrier needs .sync, .arrive or .red and one or two operands");
    }
    if (!dec_finish(body) || !dec_source(body, &body->operands[at], T_U32, false, &number))
        return false;
    bool counted = n > at + 1;
    if (counted ? !dec_source(body, &body->operands[at + 1], T_U32, false, &count) : ((count = zero), false))
        return false;
    if (body->operands[at].kind == OPD_IMMEDIATE && body->operands[at].value >= BARRIERS)
        return dec_bad_operand(body, "must be a barrier of 0 to 15");
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
    insn->sub = (uint8_t)sub;
    insn->pd = pd;
    insn->ps = ps;
    return true;
}

bool decode_shfl(struct body *body, const struct entry *entry)
{
    (void)entry;
    static const char *const modes[] = {"up", "down", "bfly", "idx"};
    bool sync = dec_take(body, "sync");
    int mode = dec_take_one_of(body, modes, 4);
    enum ptype type = dec_take_type(body);
    uint32_t d, a, b, c, mask;
    if (!sync)
        return dec_not_supported(body);
    if (mode < 0 || type_bits(type) != 32)
        return dec_wrong_type(body);
    if (!dec_want(body, 5, 5) || !dec_finish(body) || !dec_source(body, &body->operands[1], T_B32, false, &a) ||
        !dec_source(body, &body->operands[2], T_B32, false, &b) ||
        !dec_source(body, &body->operands[3], T_B32, false, &c) ||
        !dec_source(body, &body->operands[4], T_B32, false, &mask) ||
        !dec_destination(body, &body->operands[0], T_B32, false, &d))
        return false;
    struct insn *insn = emit_warp_sync(body, (enum warp_sync)(WS_SHFL_UP + mode), d, a, b, c, mask);
    if (!insn)
        return false;
    insn->pd = (uint16_t)body->operands[0].pair;
    return true;
}

bool decode_vote(struct body *body, const struct entry *entry)
{
    (void)entry;
    static const char *const modes[] = {"all", "any", "uni", "ballot"};
    bool sync = dec_take(body, "sync");
    int mode = dec_take_one_of(body, modes, 4);
    enum ptype type = dec_take_type(body);
    uint32_t d = 0, zero, mask;
    uint16_t pd = 0, ps;
    if (!sync)
        return dec_not_supported(body);
    if (mode < 0 || type != (mode == 3 ? T_B32 : T_PRED))
        return dec_wrong_type(body);
    if (!dec_want(body, 3, 3) || !dec_finish(body) || !dec_predicate_source(body, &body->operands[1], &ps) ||
        !dec_source(body, &body->operands[2], T_B32, false, &mask) || !body_constant(body, 0, false, -1, &zero))
        return false;
    if (mode == 3 ? !dec_destination(body, &body->operands[0], T_B32, false, &d)
                  : !dec_predicate_destination(body, &body->operands[0], &pd))
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

bool decode_match(struct body *body, const struct entry *entry)
{
    (void)entry;
    bool sync = dec_take(body, "sync"), all = dec_take(body, "all"), any = dec_take(body, "any");
    enum ptype type = dec_take_type(body);
    uint32_t d, a, zero, mask;
    if (!sync || all == any || (type_bits(type) != 32 && type_bits(type) != 64))
        return dec_wrong_type(body);
    if (!dec_want(body, 3, 3) || !dec_finish(body) || !dec_source(body, &body->operands[1], type, false, &a) ||
        !dec_source(body, &body->operands[2], T_B32, false, &mask) || !body_constant(body, 0, false, -1, &zero) ||
        !dec_destination(body, &body->operands[0], T_B32, false, &d))
        return false;
    struct insn *insn = emit_warp_sync(body, all ? WS_MATCH_ALL : WS_MATCH_ANY, d, a, zero, zero, mask);
    if (!insn)
        return false;
    insn->pd = (uint16_t)body->operands[0].pair;
    return true;
}

bool decode_redux(struct body *body, const struct entry *entry)
{
    (void)entry;
    static const char *const words[] = {"add", "min", "max", "and", "or", "xor"};
    static const uint8_t ops[] = {AT_ADD, AT_MIN, AT_MAX, AT_AND, AT_OR, AT_XOR};
    bool sync = dec_take(body, "sync");
    int what = dec_take_one_of(body, words, 6);
    enum ptype type = dec_take_type(body);
    uint32_t d, a, zero, mask;
    if (type == T_F32)
        return dec_not_supported(body);
    if (!sync || what < 0 || !dec_is_integer(type) || type_bits(type) != 32)
        return dec_wrong_type(body);
    if (!dec_want(body, 3, 3) || !dec_finish(body) || !dec_source(body, &body->operands[1], type, false, &a) ||
        !dec_source(body, &body->operands[2], T_B32, false, &mask) || !body_constant(body, 0, false, -1, &zero) ||
        !dec_destination(body, &body->operands[0], T_B32, false, &d))
        return false;
    struct insn *insn = emit_warp_sync(body, WS_REDUX, d, a, zero, zero, mask);
    if (!insn)
        return false;
    insn->compare = ops[what];
    insn->type = (uint8_t)type;
    return true;
}

bool decode_elect(struct body *body, const struct entry *entry)
{
    (void)entry;
    uint32_t d, zero, mask;
    if (!dec_take(body, "sync"))
        return dec_not_supported(body);
    if (!dec_want(body, 2, 2) || !dec_finish(body) || !dec_source(body, &body->operands[1], T_B32, false, &mask) ||
        !body_constant(body, 0, false, -1, &zero) || !dec_destination(body, &body->operands[0], T_B32, false, &d))
        return false;
    struct insn *insn = emit_warp_sync(body, WS_ELECT, d, zero, zero, zero, mask);
    if (!insn)
        return false;
    insn->pd = (uint16_t)body->operands[0].pair;
    return true;
}

bool decode_activemask(struct body *body, const struct entry *entry)
{
    (void)entry;
    enum ptype type = dec_take_type(body);
    if (type != T_B32)
        return dec_wrong_type(body);
    if (!dec_want(body, 1, 1) || !dec_finish(body))
        return false;
    return dec_emit(body, OP_ACTIVEMASK, type, NULL, 0, false) != NULL;
}
