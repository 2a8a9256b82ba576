/* SPDX-License-Identifier: Apache-2.0
 *
 * Two walks over a body: the first collects what it declares, so that in the second each word can be told from a
 * parameter, a variable of the module, a special register. A word that could be two of them is refused, never guessed.
 *
 * The second copies the text. What it replaces:
 *   ld.param.t  r, [p + n]      [%coissue_base + place of p + n]
 *   mov.u64     r, p + n        add.s64 r, %coissue_base, place of p + n
 *   cvta.param.u64 r, p         the same into a register of ours first
 *   %ctaid.z                    %coissue_z: 0, or the rest of the division for FOLD
 *   %nctaid.x y z               %coissue_gx gy gz: the member's own grid
 *   a .global variable          its address in the program's module
 */
#include "coalesce/ptx_body.h"

#include "coalesce/ptx_walk.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

static bool text_room(struct ptx_text *text, size_t size)
{
    size_t wanted = text->size + size + 1, room = text->room ? text->room : 4096;
    char *grown;

    if (text->failed)
        return false;
    while (room < wanted)
        room *= 2;
    if (room == text->room)
        return true;
    grown = realloc(text->bytes, room);
    if (!grown) {
        text->failed = true;
        return false;
    }
    text->bytes = grown;
    text->room = room;
    return true;
}

void ptx_text_add(struct ptx_text *text, const char *bytes, size_t size)
{
    if (!text_room(text, size))
        return;
    memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
    text->bytes[text->size] = '\0';
}

void ptx_text_print(struct ptx_text *text, const char *format, ...)
{
    char line[512];
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof(line))
        text->failed = true;
    else
        ptx_text_add(text, line, (size_t)length);
}

/* ---- declarations ---- */

/* A name that the body declares: itself, the names that begin so and end with a number below `count`, or both. */
struct declared {
    struct ptx_span name;
    bool exact;
    uint64_t count;
};

enum { TEMPORARIES = 4, EDITS = 16 };

struct body {
    struct ptx_job *job;
    const struct ptx_item *item;
    bool kernel;

    struct declared *declared; /* sorted after the first walk */
    size_t declared_count, declared_room;
    bool reads_block, reads_grid; /* mentions %ctaid, %nctaid */

    const char *copied; /* up to here the text is in the output */
    struct ptx_walk walk;

    /* Of the current instruction. */
    const struct ptx_token *tokens;
    size_t count, opcode, operands; /* all of them; where the opcode and the operands begin */
    struct edit {
        const char *at, *end;
        char text[96];
    } edits[EDITS];
    size_t edit_count, temporaries;
    char before[TEMPORARIES * 96]; /* instructions to put in front */
    size_t before_size;
};

static int refuse(struct body *body, enum coalesce_refusal why)
{
    return ptx_refuse(body->job, why);
}

static int declare(struct body *body, struct ptx_span name, uint64_t count)
{
    int error;

    if (body->declared_count == PTX_NAMES_MAX)
        return refuse(body, COALESCE_IMAGE_LARGE);
    error = ptx_grow(&body->declared, body->declared_count, &body->declared_room, sizeof(*body->declared));
    if (!error)
        body->declared[body->declared_count++] = (struct declared){name, count == 0, count};
    return error;
}

static int declared_order(const void *a, const void *b)
{
    return ptx_span_compare(((const struct declared *)a)->name, ((const struct declared *)b)->name);
}

/* Sorts the names and makes one of equal ones, so that a body with many of them costs no more than its size. */
static void order_declared(struct body *body)
{
    struct declared *all = body->declared;
    size_t kept = 0;

    if (body->declared_count)
        qsort(all, body->declared_count, sizeof(*all), declared_order);
    for (size_t i = 0; i < body->declared_count; i++) {
        if (kept && ptx_span_compare(all[kept - 1].name, all[i].name) == 0) {
            all[kept - 1].exact |= all[i].exact;
            all[kept - 1].count = all[i].count > all[kept - 1].count ? all[i].count : all[kept - 1].count;
        } else {
            all[kept++] = all[i];
        }
    }
    body->declared_count = kept;
}

static const struct declared *find_declared(const struct body *body, struct ptx_span name)
{
    const struct declared key = {.name = name};

    if (!body->declared_count)
        return NULL;
    return bsearch(&key, body->declared, body->declared_count, sizeof(key), declared_order);
}

/* Whether the body, at whatever depth, declares the word. %r12 may be the name %r12, or of %r<20>, or of %r1<5>. */
static bool is_declared(const struct body *body, struct ptx_span word)
{
    struct ptx_span prefix = word;
    const struct declared *found = find_declared(body, word);
    uint64_t number = 0, weight = 1;

    if (found && found->exact)
        return true;
    for (int digits = 0; digits < 10 && prefix.length > 1; digits++) {
        char last = prefix.at[prefix.length - 1];

        if (last < '0' || last > '9')
            return false;
        number += weight * (uint64_t)(last - '0');
        weight *= 10;
        prefix.length--;
        found = find_declared(body, prefix);
        if (found && number < found->count)
            return true;
    }
    return false;
}

static bool token_is(const struct ptx_token *token, char punct)
{
    return token->kind == PTX_PUNCT && *token->at == punct;
}

/* .reg .b32 %r<5>, a; .shared .align 4 .b8 name[16]; the names are the words outside of brackets. */
static int read_declaration(struct body *body, const struct ptx_statement *now)
{
    size_t depth = 0;
    int error = 0;

    for (size_t i = 0; i < now->count && !error; i++) {
        const struct ptx_token *token = &now->tokens[i];
        uint64_t count = 0;

        if (token_is(token, '(') || token_is(token, '['))
            depth++;
        else if ((token_is(token, ')') || token_is(token, ']')) && depth)
            depth--;
        if (token->kind != PTX_WORD || depth)
            continue;
        if (i + 2 < now->count && token_is(token + 1, '<') && (!ptx_number(token + 2, &count) || !count))
            return refuse(body, COALESCE_PTX_UNKNOWN);
        error = declare(body, ptx_span_of(token), count);
    }
    return error;
}

/* Formal parameters of a function, results included, live in its body. */
static int read_signature(struct body *body)
{
    struct ptx_lexer lexer;
    size_t depth = 0;
    int error = 0;

    ptx_lex_start(&lexer, body->item->signature, (size_t)(body->item->body - body->item->signature));
    for (; lexer.now.kind != PTX_END && !error; ptx_lex_next(&lexer)) {
        if (ptx_punct(&lexer, '('))
            depth++;
        else if (ptx_punct(&lexer, ')') && depth)
            depth--;
        else if (depth && lexer.now.kind == PTX_WORD)
            error = declare(body, ptx_span_of(&lexer.now), 0);
    }
    return error;
}

static bool begins(struct ptx_span name, const char *prefix)
{
    return name.length >= strlen(prefix) && memcmp(name.at, prefix, strlen(prefix)) == 0;
}

/* What calls a function that the module lacks calls the driver. */
static enum coalesce_refusal why_external(struct ptx_span name)
{
    if (begins(name, "cudaCG"))
        return COALESCE_COOPERATIVE;
    return begins(name, "cuda") || begins(name, "__cuda") ? COALESCE_CHILDREN : COALESCE_CALLS_OUT;
}

/* What the prologue must know, and calls of the driver, so that these are the reason and not their strings. */
static int note_words(struct body *body, const struct ptx_statement *now)
{
    size_t opcode = token_is(&now->tokens[0], '@') ? now->count > 1 && token_is(&now->tokens[1], '!') ? 3 : 2 : 0;
    bool call = opcode < now->count && ptx_token_is(&now->tokens[opcode], "call");

    for (size_t i = 0; i < now->count; i++) {
        const struct ptx_token *token = &now->tokens[i];
        const struct ptx_item *item;

        if (token->kind != PTX_WORD)
            continue;
        body->reads_block |= ptx_token_is(token, "%ctaid");
        body->reads_grid |= ptx_token_is(token, "%nctaid");
        item = call ? ptx_module_item(&body->job->module, ptx_span_of(token)) : NULL;
        if (item && item->kind == PTX_ITEM_FUNCTION && !item->body)
            return refuse(body, why_external(item->name));
    }
    return 0;
}

/* An error of the walk is one of the text. */
static int next_statement(struct body *body)
{
    int error = ptx_walk_next(&body->walk);

    if (error)
        body->job->refusal = error == -EINVAL ? COALESCE_IMAGE_BROKEN : COALESCE_PTX_UNKNOWN;
    return error;
}

static int first_walk(struct body *body)
{
    struct ptx_statement *now = &body->walk.now;
    int error = body->kernel ? 0 : read_signature(body);

    ptx_walk_start(&body->walk, body->item->body, body->item->end);
    while (!error && !(error = next_statement(body)) && now->kind != PTX_STATEMENT_END) {
        if (now->kind == PTX_STATEMENT_DECLARATION)
            error = read_declaration(body, now);
        else if (now->kind == PTX_STATEMENT_LABEL)
            error = declare(body, ptx_span_of(&now->tokens[0]), 0);
        else if (now->kind == PTX_STATEMENT_INSTRUCTION)
            error = note_words(body, now);
    }
    order_declared(body);
    return error;
}

/* ---- one instruction ---- */

static bool opcode_is(const struct body *body, const char *opcode)
{
    return ptx_token_is(&body->tokens[body->opcode], opcode);
}

static bool has_modifier(const struct body *body, const char *modifier)
{
    for (size_t i = body->opcode + 1; i < body->operands; i++)
        if (ptx_token_is(&body->tokens[i], modifier))
            return true;
    return false;
}

/* The instruction's last modifier is a type of 64 bits that an address may have. */
static bool is_address_type(const struct body *body)
{
    const struct ptx_token *last = &body->tokens[body->operands - 1];

    return ptx_token_is(last, ".u64") || ptx_token_is(last, ".b64") || ptx_token_is(last, ".s64");
}

static const char *token_end(const struct ptx_token *token)
{
    return token->at + token->length;
}

/* Replaces the tokens from `first` to `last`. */
static int edit(struct body *body, size_t first, size_t last, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static int edit(struct body *body, size_t first, size_t last, const char *format, ...)
{
    struct edit *made = &body->edits[body->edit_count];
    va_list arguments;

    if (body->edit_count == EDITS || (body->edit_count && body->tokens[first].at < made[-1].end))
        return refuse(body, COALESCE_PTX_UNKNOWN);
    made->at = body->tokens[first].at;
    made->end = token_end(&body->tokens[last]);
    va_start(arguments, format);
    vsnprintf(made->text, sizeof(made->text), format, arguments);
    va_end(arguments);
    body->edit_count++;
    return 0;
}

/* Puts an instruction in front of this one: `operation` of `operands` and `value`, into a register of ours. */
static int temporary(struct body *body, const char *operation, const char *operands, uint64_t value, size_t *index)
{
    size_t room = sizeof(body->before) - body->before_size;
    int length;

    if (body->temporaries == TEMPORARIES)
        return refuse(body, COALESCE_PTX_UNKNOWN);
    *index = body->temporaries++;
    length = snprintf(body->before + body->before_size, room, "%s %%" PTX_OURS "t%zu, %s%" PRIu64 ";\n\t", operation,
                      *index, operands, value);
    if (length < 0 || (size_t)length >= room)
        return refuse(body, COALESCE_PTX_UNKNOWN);
    body->before_size += (size_t)length;
    body->job->instructions++;
    return 0;
}

/*
 * The displacement behind the name at `i`: + n, - n, + -n. `last` becomes its last token. False: what follows is no
 * displacement, nor the end of an operand.
 */
static bool displacement(const struct body *body, size_t i, size_t *last, int64_t *value)
{
    bool minus = false;
    uint64_t number;

    *last = i;
    *value = 0;
    if (++i == body->count || token_is(&body->tokens[i], ']') || token_is(&body->tokens[i], ','))
        return true;
    if (token_is(&body->tokens[i], '-'))
        minus = true;
    else if (!token_is(&body->tokens[i], '+'))
        return false;
    if (++i < body->count && !minus && token_is(&body->tokens[i], '-')) {
        minus = true;
        i++;
    }
    if (i == body->count || !ptx_number(&body->tokens[i], &number) || number > INT32_MAX)
        return false;
    *value = minus ? -(int64_t)number : (int64_t)number;
    *last = i;
    return i + 1 == body->count || token_is(&body->tokens[i + 1], ']') || token_is(&body->tokens[i + 1], ',');
}

/* The word at `i` is the base of an address: [word...] */
static bool in_brackets(const struct body *body, size_t i, size_t last)
{
    return i > body->operands && token_is(&body->tokens[i - 1], '[') && last + 1 < body->count &&
           token_is(&body->tokens[last + 1], ']');
}

/* The word at `i` is the second and last operand: op r, word... */
static bool is_source(const struct body *body, size_t i, size_t last)
{
    return i == body->operands + 2 && token_is(&body->tokens[i - 1], ',') && last + 1 == body->count;
}

static int place_parameter(struct body *body, size_t i, const struct ptx_parameter *parameter)
{
    bool in_space = has_modifier(body, ".param") || has_modifier(body, ".param::entry");
    int64_t at, place;
    size_t last, index;
    int error;

    if (!displacement(body, i, &last, &at) || at < 0 || at >= parameter->size)
        return refuse(body, COALESCE_OPERAND);
    place = (int64_t)body->job->layout.base + parameter->offset + at;
    body->job->instructions++;
    if (in_brackets(body, i, last) && in_space && (opcode_is(body, "ld") || opcode_is(body, "prefetch")))
        return edit(body, i, last, "%%" PTX_OURS "base+%lld", (long long)place);
    if (!is_source(body, i, last) || !is_address_type(body))
        return refuse(body, COALESCE_OPERAND);
    if (opcode_is(body, "mov") && body->operands == body->opcode + 2) {
        error = edit(body, body->opcode, body->operands - 1, "add.s64");
        return error ? error : edit(body, i, last, "%%" PTX_OURS "base, %lld", (long long)place);
    }
    if (!opcode_is(body, "cvta") || !in_space)
        return refuse(body, COALESCE_OPERAND);
    error = temporary(body, "add.s64", "%" PTX_OURS "base, ", (uint64_t)place, &index);
    return error ? error : edit(body, i, last, "%%" PTX_OURS "t%zu", index);
}

static uint64_t address_of(const struct body *body, struct ptx_span name)
{
    const struct coalesce_source *source = body->job->source;
    uint64_t address = 0;
    char *symbol;

    if (!source->address)
        return 0;
    symbol = strndup(name.at, name.length);
    if (symbol)
        address = source->address(source->context, symbol);
    free(symbol);
    return address;
}

/* A variable in global memory: the program's own, not the copy that a second module would have. */
static int place_global(struct body *body, size_t i)
{
    uint64_t address = address_of(body, ptx_span_of(&body->tokens[i]));
    size_t last, index;
    int64_t at;
    int error;

    if (!address || !displacement(body, i, &last, &at))
        return refuse(body, COALESCE_GLOBAL);
    body->job->instructions++;
    if (in_brackets(body, i, last)) {
        error = temporary(body, "mov.u64", "", address + (uint64_t)at, &index);
        return error ? error : edit(body, i, last, "%%" PTX_OURS "t%zu", index);
    }
    if (!is_source(body, i, last) || !is_address_type(body))
        return refuse(body, COALESCE_GLOBAL);
    if (opcode_is(body, "mov"))
        return edit(body, i, last, "%" PRIu64, address + (uint64_t)at);
    if (!opcode_is(body, "cvta") || !has_modifier(body, ".global"))
        return refuse(body, COALESCE_GLOBAL);
    error = temporary(body, "mov.u64", "", address + (uint64_t)at, &index);
    return error ? error : edit(body, i, last, "%%" PTX_OURS "t%zu", index);
}

/* The word that names who is called: the first one outside of parentheses. */
static bool is_callee(const struct body *body, size_t i)
{
    size_t depth = 0;

    if (!opcode_is(body, "call"))
        return false;
    for (size_t k = body->operands; k < i; k++) {
        depth += token_is(&body->tokens[k], '(');
        depth -= token_is(&body->tokens[k], ')') && depth;
        if (!depth && body->tokens[k].kind == PTX_WORD)
            return false;
    }
    return depth == 0;
}

static int place_symbol(struct body *body, size_t i, const struct ptx_item *item)
{
    static const char *const handles[] = {"tex", "tld4", "txq", "suld", "sust", "sured", "suq"};

    for (size_t k = 0; k < sizeof(handles) / sizeof(handles[0]); k++)
        if (opcode_is(body, handles[k]))
            return refuse(body, COALESCE_TEXTURE);
    switch (item->kind) {
    case PTX_ITEM_GLOBAL:
        return place_global(body, i);
    case PTX_ITEM_CONST:
        if (item->external)
            return refuse(body, COALESCE_GLOBAL);
        body->job->constants = true;
        return 0;
    case PTX_ITEM_SHARED:
        return 0;
    case PTX_ITEM_FUNCTION:
        if (!item->body)
            return refuse(body, why_external(item->name));
        return is_callee(body, i) ? 0 : refuse(body, COALESCE_PTX_UNKNOWN);
    case PTX_ITEM_TEXTURE:
        return refuse(body, COALESCE_TEXTURE);
    case PTX_ITEM_ENTRY:
        return refuse(body, COALESCE_CHILDREN);
    default:
        return refuse(body, COALESCE_PTX_UNKNOWN);
    }
}

/* The component that is read: 'x', 'y', 'z'; 0: the whole vector, or something else. */
static char component(const struct body *body, size_t i)
{
    static const char *const names[] = {".x", ".y", ".z"};

    for (size_t k = 0; k < 3 && i + 1 < body->count; k++)
        if (ptx_token_is(&body->tokens[i + 1], names[k]))
            return (char)('x' + k);
    return 0;
}

/* mov.v4.u32 r, %ctaid: all components at once, of which compilers of today make no use. The fourth is 0. */
static int place_vector(struct body *body, size_t i, enum ptx_special special)
{
    static const char block[] = "mov.u32 %" PTX_OURS "x, %ctaid.x;\n\tmov.u32 %" PTX_OURS "y, %ctaid.y;\n\t";
    static const char fourth[] = "mov.u32 %" PTX_OURS "w, 0;\n\t";
    bool is_block = special == PTX_SPECIAL_BLOCK;

    if (!body->kernel || !opcode_is(body, "mov") || !has_modifier(body, ".v4") || i + 1 != body->count ||
        ptx_type_bytes(&body->tokens[body->operands - 1]) != 4)
        return refuse(body, COALESCE_SPECIAL);
    body->before_size = (size_t)snprintf(body->before, sizeof(body->before), "%s%s", is_block ? block : "", fourth);
    body->job->instructions += is_block ? 4 : 2;
    if (is_block)
        return edit(body, i, i, "{%%" PTX_OURS "x, %%" PTX_OURS "y, %%" PTX_OURS "z, %%" PTX_OURS "w}");
    return edit(body, i, i, "{%%" PTX_OURS "gx, %%" PTX_OURS "gy, %%" PTX_OURS "gz, %%" PTX_OURS "w}");
}

/*
 * %ctaid.x and y are as they were. The registers that stand for the others have 32 bits, as the special ones have
 * today; programs of the first PTX read them with 16.
 */
static int place_special(struct body *body, size_t i, enum ptx_special special)
{
    const struct ptx_job *job = body->job;
    char which = component(body, i);
    bool narrow = ptx_type_bytes(&body->tokens[body->operands - 1]) == 2;

    if (special == PTX_SPECIAL_KEPT || special == PTX_SPECIAL_NONE)
        return 0;
    if (special != PTX_SPECIAL_CHANGED && special != PTX_SPECIAL_CLUSTER && i + 1 == body->count)
        return place_vector(body, i, special);
    if (special == PTX_SPECIAL_CHANGED || !which)
        return refuse(body, COALESCE_SPECIAL);
    if (special == PTX_SPECIAL_CLUSTER)
        return which == 'z' || job->form & COALESCE_RAGGED ? refuse(body, COALESCE_SPECIAL) : 0;
    if (special == PTX_SPECIAL_BLOCK && which != 'z')
        return 0;
    /* A function that is called knows nothing of the member but that its z is 0. */
    if (!body->kernel && (special == PTX_SPECIAL_GRID || job->form & COALESCE_FOLD))
        return refuse(body, COALESCE_SPECIAL);
    if (narrow)
        return refuse(body, COALESCE_SPECIAL);
    body->job->instructions++;
    if (special == PTX_SPECIAL_BLOCK)
        return edit(body, i, i + 1, "%%" PTX_OURS "z");
    return edit(body, i, i + 1, "%%" PTX_OURS "g%c", which);
}

static int parameter_order(const void *key, const void *element)
{
    return ptx_span_compare(*(const struct ptx_span *)key, ((const struct ptx_parameter *)element)->name);
}

static int place_word(struct body *body, size_t i)
{
    const struct ptx_job *job = body->job;
    struct ptx_span word = ptx_span_of(&body->tokens[i]);
    const struct ptx_parameter *parameter = NULL;
    const struct ptx_item *item;
    enum ptx_special special = ptx_special_of(word);

    if (begins(word, "%" PTX_OURS) || ptx_token_is(&body->tokens[i], PTX_AREA))
        return refuse(body, COALESCE_PTX_UNKNOWN);
    if (body->kernel && job->parameter_count)
        parameter = bsearch(&word, job->parameters, job->parameter_count, sizeof(*parameter), parameter_order);
    item = ptx_module_item(&job->module, word);
    if (is_declared(body, word)) /* an undeclared %name counts as special: PTX_SPECIAL_CHANGED */
        return parameter || item || (special != PTX_SPECIAL_NONE && special != PTX_SPECIAL_CHANGED)
                   ? refuse(body, COALESCE_PTX_UNKNOWN)
                   : 0;
    if (parameter && item)
        return refuse(body, COALESCE_PTX_UNKNOWN);
    if (parameter)
        return place_parameter(body, i, parameter);
    if (item)
        return place_symbol(body, i, item);
    return place_special(body, i, special);
}

/* Where guard, opcode and modifiers end. */
static int split(struct body *body)
{
    size_t at = 0;

    if (token_is(&body->tokens[0], '@'))
        at = body->count > 1 && token_is(&body->tokens[1], '!') ? 3 : 2;
    if (at >= body->count || body->tokens[at].kind != PTX_WORD || !ptx_opcode_known(ptx_span_of(&body->tokens[at])))
        return refuse(body, COALESCE_PTX_UNKNOWN);
    body->opcode = at++;
    while (at < body->count && body->tokens[at].kind == PTX_DOT)
        at++;
    body->operands = at;
    return 0;
}

/* A call through a register, or with a list of who may be called. */
static bool calls_indirectly(const struct body *body)
{
    size_t depth = 0, words = 0;
    const struct ptx_item *callee = NULL;

    for (size_t i = body->operands; i < body->count; i++) {
        depth += token_is(&body->tokens[i], '(');
        depth -= token_is(&body->tokens[i], ')') && depth;
        if (depth || body->tokens[i].kind != PTX_WORD)
            continue;
        words++;
        callee = ptx_module_item(&body->job->module, ptx_span_of(&body->tokens[i]));
    }
    return words != 1 || !callee || callee->kind != PTX_ITEM_FUNCTION;
}

static void flush(struct body *body, const char *to)
{
    ptx_text_add(&body->job->out, body->copied, (size_t)(to - body->copied));
    body->copied = to;
}

/*
 * `before` goes in front of the guard: it fills registers of ours only, so it may run where the instruction does not.
 */
static void apply_edits(struct body *body)
{
    if (body->before_size) {
        flush(body, body->tokens[0].at);
        ptx_text_add(&body->job->out, body->before, body->before_size);
    }
    for (size_t i = 0; i < body->edit_count; i++) {
        flush(body, body->edits[i].at);
        ptx_text_add(&body->job->out, body->edits[i].text, strlen(body->edits[i].text));
        body->copied = body->edits[i].end;
    }
}

static int rewrite_instruction(struct body *body)
{
    int error;

    body->tokens = body->walk.now.tokens;
    body->count = body->walk.now.count;
    body->edit_count = body->temporaries = body->before_size = 0;
    error = split(body);
    if (!error && opcode_is(body, "call") && calls_indirectly(body))
        error = refuse(body, COALESCE_PTX_UNKNOWN);
    for (size_t i = 0; i < body->count && !error; i++)
        if (body->tokens[i].kind == PTX_WORD && i != body->opcode)
            error = place_word(body, i);
    if (!error)
        apply_edits(body);
    return error;
}

/* ---- the body ---- */

/* Which member, and its place in the area. ptxas makes of it one shift and reads c[0x0][R + n] (sm_80, sm_90). */
static void write_member(struct body *body)
{
    struct ptx_text *out = &body->job->out;
    const struct coalesce_layout *layout = &body->job->layout;

    ptx_text_print(out, "\n\tmov.u32 %%" PTX_OURS "m, %%ctaid.z;");
    if (layout->form & COALESCE_FOLD) {
        ptx_text_print(out, "\n\tld.param.v2.u32 {%%" PTX_OURS "a, %%" PTX_OURS "b}, [" PTX_AREA "];");
        ptx_text_print(out, "\n\tmul.hi.u32 %%" PTX_OURS "a, %%" PTX_OURS "m, %%" PTX_OURS "a;");
        ptx_text_print(out, "\n\tmad.lo.u32 %%" PTX_OURS "z, %%" PTX_OURS "a, %%" PTX_OURS "b, %%" PTX_OURS "m;");
        ptx_text_print(out, "\n\tmov.u32 %%" PTX_OURS "m, %%" PTX_OURS "a;");
        body->job->instructions += 4;
    } else {
        ptx_text_print(out, "\n\tmov.u32 %%" PTX_OURS "z, 0;");
        body->job->instructions++;
    }
    ptx_text_print(out, "\n\tmov.u64 %%" PTX_OURS "base, " PTX_AREA ";");
    ptx_text_print(out, "\n\tmad.wide.u32 %%" PTX_OURS "base, %%" PTX_OURS "m, %u, %%" PTX_OURS "base;",
                   layout->stride);
    body->job->instructions += 3;
}

static void write_grid(struct body *body)
{
    struct ptx_text *out = &body->job->out;
    unsigned header = body->job->layout.base - COALESCE_MEMBER_HEADER;

    ptx_text_print(out, "\n\tld.param.v2.u32 {%%" PTX_OURS "gx, %%" PTX_OURS "gy}, [%%" PTX_OURS "base+%u];", header);
    ptx_text_print(out, "\n\tld.param.u32 %%" PTX_OURS "gz, [%%" PTX_OURS "base+%u];", header + 8);
    body->job->instructions += 2;
}

/* Blocks that the member's own grid does not have leave at once. */
static void write_exit(struct body *body)
{
    struct ptx_text *out = &body->job->out;

    ptx_text_print(out, "\n\tmov.u32 %%" PTX_OURS "a, %%ctaid.x;\n\tmov.u32 %%" PTX_OURS "b, %%ctaid.y;");
    ptx_text_print(out,
                   "\n\tsetp.ge.u32 %%" PTX_OURS "p, %%" PTX_OURS "a, %%" PTX_OURS "gx;\n\t@%%" PTX_OURS "p exit;");
    ptx_text_print(out,
                   "\n\tsetp.ge.u32 %%" PTX_OURS "p, %%" PTX_OURS "b, %%" PTX_OURS "gy;\n\t@%%" PTX_OURS "p exit;");
    body->job->instructions += 6;
}

static void write_prologue(struct body *body)
{
    struct ptx_text *out = &body->job->out;

    ptx_text_print(out, "\n\t.reg .b64 %%" PTX_OURS "t<%d>;", TEMPORARIES);
    if (!body->kernel) {
        if (body->reads_block)
            ptx_text_print(out, "\n\t.reg .b32 %%" PTX_OURS "z;\n\tmov.u32 %%" PTX_OURS "z, 0;");
        return;
    }
    ptx_text_print(out, "\n\t.reg .b64 %%" PTX_OURS "base;\n\t.reg .pred %%" PTX_OURS "p;");
    for (const char *const *name = (const char *const[]){"m", "a", "b", "x", "y", "z", "w", "gx", "gy", "gz", NULL};
         *name; name++)
        ptx_text_print(out, "\n\t.reg .b32 %%" PTX_OURS "%s;", *name);
    write_member(body);
    if (body->reads_grid || body->job->form & COALESCE_RAGGED)
        write_grid(body);
    if (body->job->form & COALESCE_RAGGED)
        write_exit(body);
    ptx_text_print(out, "\n");
}

/* Names that are ours may not be declared by the program either. */
static int check_ours(struct body *body)
{
    for (size_t i = 0; i < body->declared_count; i++)
        if (begins(body->declared[i].name, "%" PTX_OURS) || begins(body->declared[i].name, PTX_OURS))
            return refuse(body, COALESCE_PTX_UNKNOWN);
    return 0;
}

static int second_walk(struct body *body)
{
    struct ptx_statement *now = &body->walk.now;
    int error;

    ptx_walk_start(&body->walk, body->item->body, body->item->end);
    error = next_statement(body); /* the first brace */
    body->copied = now->start;
    if (!error) {
        flush(body, now->end);
        write_prologue(body);
    }
    while (!error && !(error = next_statement(body)) && now->kind != PTX_STATEMENT_END) {
        if (now->kind == PTX_STATEMENT_INSTRUCTION) {
            error = rewrite_instruction(body);
        } else if (now->kind == PTX_STATEMENT_LINE) {
            flush(body, now->start);
            body->copied = now->end;
        }
    }
    if (!error)
        flush(body, now->start);
    return error;
}

int ptx_body_rewrite(struct ptx_job *job, const struct ptx_item *item, bool kernel)
{
    struct body *body = calloc(1, sizeof(*body)); /* a statement's tokens are too many for a stack that is not ours */
    int error;

    if (!body)
        return -ENOMEM;
    body->job = job;
    body->item = item;
    body->kernel = kernel;
    error = first_walk(body);
    if (!error)
        error = check_ours(body);
    if (!error)
        error = second_walk(body);
    free(body->declared);
    free(body);
    if (!error && job->out.failed)
        error = -ENOMEM;
    return error;
}
