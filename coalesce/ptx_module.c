/* SPDX-License-Identifier: Apache-2.0 */
#include "coalesce/ptx_module.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- small things ---- */

int ptx_span_compare(struct ptx_span a, struct ptx_span b)
{
    int order = memcmp(a.at, b.at, a.length < b.length ? a.length : b.length);

    return order ? order : (a.length > b.length) - (a.length < b.length);
}

int ptx_grow(void *array, size_t count, size_t *room, size_t size)
{
    void **slot = array, *grown;
    size_t wanted = *room ? *room * 2 : 16;

    if (count < *room)
        return 0;
    grown = reallocarray(*slot, wanted, size);
    if (!grown)
        return -ENOMEM;
    *slot = grown;
    *room = wanted;
    return 0;
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 99;
}

bool ptx_number(const struct ptx_token *token, uint64_t *value)
{
    const char *at = token->at, *end = token->at + token->length;
    unsigned base = 10;
    uint64_t sum = 0;

    if (token->kind != PTX_NUMBER)
        return false;
    if (token->length > 1 && end[-1] == 'U')
        end--;
    if (end - at > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X')) {
        base = 16;
        at += 2;
    } else if (end - at > 2 && at[0] == '0' && (at[1] == 'b' || at[1] == 'B')) {
        base = 2;
        at += 2;
    } else if (end - at > 1 && at[0] == '0') {
        base = 8;
        at++;
    }
    for (; at < end; at++) {
        unsigned digit = (unsigned)digit_value(*at);

        if (digit >= base || __builtin_mul_overflow(sum, base, &sum) || __builtin_add_overflow(sum, digit, &sum))
            return false;
    }
    *value = sum;
    return true;
}

uint32_t ptx_type_bytes(const struct ptx_token *token)
{
    static const struct {
        const char *name;
        uint32_t bytes;
    } types[] = {
        {".b8", 1},  {".u8", 1},  {".s8", 1},  {".b16", 2}, {".u16", 2},   {".s16", 2},
        {".f16", 2}, {".b32", 4}, {".u32", 4}, {".s32", 4}, {".f32", 4},   {".f16x2", 4},
        {".b64", 8}, {".u64", 8}, {".s64", 8}, {".f64", 8}, {".b128", 16},
    };

    for (size_t i = 0; token->kind == PTX_DOT && i < sizeof(types) / sizeof(types[0]); i++)
        if (ptx_token_is(token, types[i].name))
            return types[i].bytes;
    return 0;
}

/* ---- items ---- */

struct reader {
    struct ptx_module *module;
    struct ptx_lexer lexer;
    enum coalesce_refusal refusal;
};

static int refuse(struct reader *reader, int error, enum coalesce_refusal why)
{
    reader->refusal = why;
    return error;
}

/* What was met is not what was expected: either the text ends too early, or it is something that is not known here. */
static int unexpected(struct reader *reader)
{
    enum ptx_kind kind = reader->lexer.now.kind;

    if (kind == PTX_END || kind == PTX_BAD)
        return refuse(reader, -EINVAL, COALESCE_IMAGE_BROKEN);
    return refuse(reader, -ENOTSUP, COALESCE_PTX_UNKNOWN);
}

static const char *here(const struct reader *reader)
{
    return reader->lexer.now.at;
}

static void next(struct reader *reader)
{
    ptx_lex_next(&reader->lexer);
}

static bool take(struct reader *reader, char punct)
{
    if (!ptx_punct(&reader->lexer, punct))
        return false;
    next(reader);
    return true;
}

/* Steps over (...), [...] or {...}, whatever is in it; the current token is the opening one. */
static int skip_nested(struct reader *reader, char open, char close)
{
    size_t depth = 0;

    do {
        if (reader->lexer.now.kind == PTX_END || reader->lexer.now.kind == PTX_BAD)
            return unexpected(reader);
        if (ptx_punct(&reader->lexer, open))
            depth++;
        else if (ptx_punct(&reader->lexer, close))
            depth--;
        next(reader);
    } while (depth);
    return 0;
}

static int add_item(struct reader *reader, const struct ptx_item *item)
{
    struct ptx_module *module = reader->module;
    int error = ptx_grow(&module->items, module->item_count, &module->item_room, sizeof(*module->items));

    if (!error) {
        module->items[module->item_count] = *item;
        module->items[module->item_count++].end = here(reader);
    }
    return error;
}

/* Names the item that will be added next. */
static int add_symbol(struct reader *reader, struct ptx_span name)
{
    struct ptx_module *module = reader->module;
    int error;

    if (module->symbol_count == PTX_NAMES_MAX)
        return refuse(reader, -ENOTSUP, COALESCE_IMAGE_LARGE);
    error = ptx_grow(&module->symbols, module->symbol_count, &module->symbol_room, sizeof(*module->symbols));

    if (!error)
        module->symbols[module->symbol_count++] = (struct ptx_symbol){name, (uint32_t)module->item_count, 0};
    return error;
}

static int read_version(struct reader *reader)
{
    const struct ptx_token *token = &reader->lexer.now;

    next(reader);
    if (token->kind != PTX_NUMBER || token->length != 3 || token->at[1] != '.')
        return unexpected(reader);
    reader->module->version = (unsigned)(digit_value(token->at[0]) * 10 + digit_value(token->at[2]));
    next(reader);
    return 0;
}

/* sm_90, sm_90a, sm_100f */
static bool read_architecture(struct ptx_module *module, const struct ptx_token *token)
{
    const char *at = token->at + 3, *end = token->at + token->length;
    unsigned sm = 0;

    if (token->length < 5 || memcmp(token->at, "sm_", 3) != 0)
        return false;
    for (; at < end && *at >= '0' && *at <= '9' && sm < 1000; at++)
        sm = sm * 10 + (unsigned)(*at - '0');
    if (end - at > 1 || (at < end && *at != 'a' && *at != 'f'))
        return false;
    module->target = sm;
    module->target_suffix = at < end ? *at : 0;
    return true;
}

static int read_target(struct reader *reader)
{
    do {
        next(reader);
        if (reader->lexer.now.kind != PTX_WORD)
            return unexpected(reader);
        if (ptx_is(&reader->lexer, "debug"))
            reader->module->debug = true;
        else if (!ptx_is(&reader->lexer, "texmode_unified") && !ptx_is(&reader->lexer, "texmode_independent") &&
                 !read_architecture(reader->module, &reader->lexer.now))
            return unexpected(reader);
        next(reader);
    } while (ptx_punct(&reader->lexer, ','));
    return 0;
}

static int read_header(struct reader *reader)
{
    struct ptx_item item = {.kind = PTX_ITEM_HEADER, .start = here(reader)};
    int error = 0;

    if (ptx_is(&reader->lexer, ".version")) {
        error = read_version(reader);
    } else if (ptx_is(&reader->lexer, ".target")) {
        error = read_target(reader);
    } else if (ptx_is(&reader->lexer, ".address_size")) {
        next(reader);
        reader->module->wide = ptx_is(&reader->lexer, "64");
        next(reader);
    } else { /* .pragma "...", "..."; */
        do {
            next(reader);
            if (reader->lexer.now.kind != PTX_STRING)
                return unexpected(reader);
            next(reader);
        } while (ptx_punct(&reader->lexer, ','));
        if (!take(reader, ';'))
            return unexpected(reader);
    }
    return error ? error : add_item(reader, &item);
}

/* .file 1 "name", 123, 456 and .section .debug_line { ... }: for debuggers, and wrong once code has changed. */
static int skip_debug(struct reader *reader)
{
    bool section = ptx_is(&reader->lexer, ".section");

    next(reader);
    next(reader);
    if (section)
        return ptx_punct(&reader->lexer, '{') ? skip_nested(reader, '{', '}') : unexpected(reader);
    if (reader->lexer.now.kind != PTX_STRING)
        return unexpected(reader);
    next(reader);
    while (take(reader, ',')) {
        if (reader->lexer.now.kind != PTX_NUMBER)
            return unexpected(reader);
        next(reader);
    }
    return 0;
}

static int read_alias(struct reader *reader)
{
    struct ptx_item item = {.kind = PTX_ITEM_ALIAS, .start = here(reader)};
    int error;

    next(reader);
    if (reader->lexer.now.kind != PTX_WORD)
        return unexpected(reader);
    error = add_symbol(reader, ptx_span_of(&reader->lexer.now));
    next(reader);
    if (error || !take(reader, ','))
        return error ? error : unexpected(reader);
    next(reader);
    return take(reader, ';') ? add_item(reader, &item) : unexpected(reader);
}

/* Modifiers and type of a variable, up to its name. */
static int read_variable_type(struct reader *reader, struct ptx_item *item)
{
    int error = 0;

    while (!error && reader->lexer.now.kind == PTX_DOT) {
        bool align = ptx_is(&reader->lexer, ".align"), attribute = ptx_is(&reader->lexer, ".attribute");

        if (ptx_is(&reader->lexer, ".texref") || ptx_is(&reader->lexer, ".samplerref") ||
            ptx_is(&reader->lexer, ".surfref"))
            item->kind = PTX_ITEM_TEXTURE;
        next(reader);
        if (align && reader->lexer.now.kind != PTX_NUMBER)
            return unexpected(reader);
        if (align)
            next(reader);
        if (attribute)
            error = ptx_punct(&reader->lexer, '(') ? skip_nested(reader, '(', ')') : unexpected(reader);
    }
    return error;
}

/* name [n] [m] = value */
static int read_declarator(struct reader *reader)
{
    int error;

    if (reader->lexer.now.kind != PTX_WORD)
        return unexpected(reader);
    error = add_symbol(reader, ptx_span_of(&reader->lexer.now));
    next(reader);
    while (!error && ptx_punct(&reader->lexer, '['))
        error = skip_nested(reader, '[', ']');
    if (error || !take(reader, '='))
        return error;
    while (!error && !ptx_punct(&reader->lexer, ',') && !ptx_punct(&reader->lexer, ';')) {
        if (ptx_punct(&reader->lexer, '{'))
            error = skip_nested(reader, '{', '}');
        else if (ptx_punct(&reader->lexer, '('))
            error = skip_nested(reader, '(', ')');
        else if (reader->lexer.now.kind == PTX_END || reader->lexer.now.kind == PTX_BAD)
            error = unexpected(reader);
        else
            next(reader);
    }
    return error;
}

static int read_variable(struct reader *reader, struct ptx_item *item)
{
    int error;

    item->kind = ptx_is(&reader->lexer, ".const")    ? PTX_ITEM_CONST
                 : ptx_is(&reader->lexer, ".shared") ? PTX_ITEM_SHARED
                                                     : PTX_ITEM_GLOBAL;
    next(reader);
    error = read_variable_type(reader, item);
    do {
        if (!error)
            error = read_declarator(reader);
    } while (!error && take(reader, ','));
    if (!error && !take(reader, ';'))
        error = unexpected(reader);
    return error ? error : add_item(reader, item);
}

/* (results) name (parameters) directives, then a body or a semicolon. */
static int read_code(struct reader *reader, struct ptx_item *item)
{
    int error = 0;

    item->kind = ptx_is(&reader->lexer, ".entry") ? PTX_ITEM_ENTRY : PTX_ITEM_FUNCTION;
    next(reader);
    item->signature = here(reader);
    while (!error && !ptx_punct(&reader->lexer, '{') && !ptx_punct(&reader->lexer, ';')) {
        if (ptx_punct(&reader->lexer, '('))
            error = skip_nested(reader, '(', ')');
        else if (reader->lexer.now.kind == PTX_END || reader->lexer.now.kind == PTX_BAD)
            return unexpected(reader);
        else {
            if (reader->lexer.now.kind == PTX_WORD && !item->name.at) {
                item->name = ptx_span_of(&reader->lexer.now);
                error = add_symbol(reader, item->name);
            }
            next(reader);
        }
    }
    if (!error && !item->name.at)
        error = unexpected(reader);
    if (!error && ptx_punct(&reader->lexer, '{')) {
        item->body = here(reader);
        error = skip_nested(reader, '{', '}');
    } else if (!error) {
        next(reader);
    }
    return error ? error : add_item(reader, item);
}

static bool is_linkage(const struct ptx_lexer *lexer)
{
    return ptx_is(lexer, ".extern") || ptx_is(lexer, ".visible") || ptx_is(lexer, ".weak") || ptx_is(lexer, ".common");
}

static int read_item(struct reader *reader)
{
    static const char *const headers[] = {".version", ".target", ".address_size", ".pragma"};
    struct ptx_item item = {.start = here(reader)};
    const struct ptx_lexer *lexer = &reader->lexer;

    if (lexer->now.kind != PTX_DOT)
        return unexpected(reader);
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
        if (ptx_is(lexer, headers[i]))
            return read_header(reader);
    if (ptx_is(lexer, ".file") || ptx_is(lexer, ".section"))
        return skip_debug(reader);
    if (ptx_is(lexer, ".alias"))
        return read_alias(reader);
    while (is_linkage(lexer)) {
        item.external |= ptx_is(lexer, ".extern");
        next(reader);
    }
    if (ptx_is(lexer, ".global") || ptx_is(lexer, ".const") || ptx_is(lexer, ".shared"))
        return read_variable(reader, &item);
    if (ptx_is(lexer, ".func") || ptx_is(lexer, ".entry"))
        return read_code(reader, &item);
    return unexpected(reader);
}

static int symbol_order(const void *a, const void *b)
{
    const struct ptx_symbol *first = a, *second = b;
    int order = ptx_span_compare(first->name, second->name);

    return order ? order : (first->item > second->item) - (first->item < second->item);
}

/* The item with a body before one without, one of this module before an external one. */
static bool defines_better(const struct ptx_item *item, const struct ptx_item *than)
{
    if ((item->body != NULL) != (than->body != NULL))
        return item->body != NULL;
    return !item->external && than->external;
}

/* Sorts the names, and finds the definition of each. */
static void order_symbols(struct ptx_module *module)
{
    struct ptx_symbol *symbols = module->symbols;
    size_t count = module->symbol_count, end;

    if (count)
        qsort(symbols, count, sizeof(*symbols), symbol_order);
    for (size_t first = 0; first < count; first = end) {
        uint32_t best = symbols[first].item;

        for (end = first; end < count && ptx_span_compare(symbols[first].name, symbols[end].name) == 0; end++)
            if (defines_better(&module->items[symbols[end].item], &module->items[best]))
                best = symbols[end].item;
        for (size_t i = first; i < end; i++)
            symbols[i].definition = best;
    }
}

int ptx_module_read(struct ptx_module *module, const char *text, size_t size, enum coalesce_refusal *refusal)
{
    struct reader reader = {.module = module};
    int error = 0;

    *module = (struct ptx_module){.text = text, .size = size};
    if (size > PTX_BYTES_MAX) {
        *refusal = COALESCE_IMAGE_LARGE;
        return -ENOTSUP;
    }
    ptx_lex_start(&reader.lexer, text, size);
    while (!error && reader.lexer.now.kind != PTX_END)
        error = read_item(&reader);
    if (!error && !module->version)
        error = refuse(&reader, -EINVAL, COALESCE_IMAGE_BROKEN);
    if (!error && (!module->target || !module->wide))
        error = refuse(&reader, -ENOTSUP, COALESCE_PTX_UNKNOWN);
    if (error) {
        *refusal = error == -ENOMEM ? *refusal : reader.refusal;
        return error;
    }
    order_symbols(module);
    return 0;
}

void ptx_module_finish(struct ptx_module *module)
{
    free(module->items);
    free(module->symbols);
    *module = (struct ptx_module){0};
}

/* ---- names ---- */

const struct ptx_symbol *ptx_module_find(const struct ptx_module *module, struct ptx_span name)
{
    size_t low = 0, high = module->symbol_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (ptx_span_compare(module->symbols[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == module->symbol_count || ptx_span_compare(module->symbols[low].name, name) != 0)
        return NULL;
    return &module->symbols[low];
}

static bool same_name(const struct ptx_module *module, const struct ptx_symbol *symbol, struct ptx_span name)
{
    return symbol < module->symbols + module->symbol_count && ptx_span_compare(symbol->name, name) == 0;
}

struct ptx_item *ptx_module_item(const struct ptx_module *module, struct ptx_span name)
{
    const struct ptx_symbol *symbol = ptx_module_find(module, name);

    return symbol ? &module->items[symbol->definition] : NULL;
}

/* Marks all declarations of a name; those marked now go onto the stack, whose room suffices for each item once. */
static void reach_name(struct ptx_module *module, struct ptx_span name, uint32_t *stack, size_t *depth)
{
    const struct ptx_symbol *symbol = ptx_module_find(module, name);

    if (symbol && module->items[symbol->item].reached)
        return; /* and so are its other declarations */
    for (; symbol && same_name(module, symbol, name); symbol++) {
        if (module->items[symbol->item].reached)
            continue;
        module->items[symbol->item].reached = true;
        stack[(*depth)++] = symbol->item;
    }
}

int ptx_module_reach(struct ptx_module *module, struct ptx_item *from)
{
    uint32_t *stack = reallocarray(NULL, module->item_count, sizeof(*stack));
    size_t depth = 0;

    if (!stack)
        return -ENOMEM;
    if (!from->reached) {
        from->reached = true;
        stack[depth++] = (uint32_t)(from - module->items);
    }
    while (depth) {
        const struct ptx_item *item = &module->items[stack[--depth]];
        struct ptx_lexer lexer;

        ptx_lex_start(&lexer, item->start, (size_t)(item->end - item->start));
        for (; lexer.now.kind != PTX_END && lexer.now.kind != PTX_BAD; ptx_lex_next(&lexer))
            if (lexer.now.kind == PTX_WORD)
                reach_name(module, ptx_span_of(&lexer.now), stack, &depth);
    }
    free(stack);
    return 0;
}
