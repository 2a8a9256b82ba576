/* SPDX-License-Identifier: Apache-2.0
 *
 * Module level of a PTX text. Two passes: the first reads declarations and skips bodies, the second (at the end of
 * ptx_module_create) reads bodies, device functions before kernels, because a kernel's shared memory starts after what
 * the functions use.
 */
#include "tests/simcuda/ptx/reader.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors and words ---- */

bool reader_fail(struct reader *reader, int error, uint32_t line, const char *format, ...)
{
    if (reader->error)
        return false;
    reader->error = error;
    if (reader->message_size == 0)
        return false;
    int used = snprintf(reader->message, reader->message_size, "line %u: ", line);
    if (used < 0 || (size_t)used >= reader->message_size)
        return false;
    va_list list;
    va_start(list, format);
    vsnprintf(reader->message + used, reader->message_size - (size_t)used, format, list);
    va_end(list);
    for (char *c = reader->message; *c; c++) { /* names may hold anything; the message is one line */
        if ((unsigned char)*c < ' ')
            *c = '?';
    }
    return false;
}

bool reader_nomem(struct reader *reader)
{
    return reader_fail(reader, -ENOMEM, reader->lex.now.line, "out of memory");
}

static int cut(struct text_span span)
{
    return span.length > MESSAGE_WORD_MAX ? MESSAGE_WORD_MAX : (int)span.length;
}

bool reader_expected(struct reader *reader, const char *what)
{
    const struct token *now = &reader->lex.now;
    if (now->kind == TOK_END)
        return reader_fail(reader, -EINVAL, now->line, "expected %s before the end of the text", what);
    return reader_fail(reader, -EINVAL, now->line, "expected %s before '%s%.*s'", what, now->kind == TOK_DOT ? "." : "",
                       cut(now->text), now->text.at);
}

bool reader_punct(struct reader *reader, char c)
{
    char what[] = {'\'', c, '\'', '\0'};
    if (!lex_is_punct(&reader->lex, c))
        return reader_expected(reader, what);
    lex_next(&reader->lex);
    return true;
}

bool reader_word(struct reader *reader, const char *what, struct text_span *out)
{
    if (reader->lex.now.kind != TOK_WORD)
        return reader_expected(reader, what);
    *out = reader->lex.now.text;
    lex_next(&reader->lex);
    return true;
}

bool reader_integer(struct reader *reader, const char *what, uint64_t max, uint64_t *out)
{
    if (reader->lex.now.kind != TOK_INTEGER)
        return reader_expected(reader, what);
    if (reader->lex.now.value > max)
        return reader_fail(reader, -E2BIG, reader->lex.now.line, "%s %llu is larger than %llu", what,
                           (unsigned long long)reader->lex.now.value, (unsigned long long)max);
    *out = reader->lex.now.value;
    lex_next(&reader->lex);
    return true;
}

bool reader_grow(struct reader *reader, void **items, uint32_t *capacity, uint32_t count, size_t size)
{
    if (count < *capacity)
        return true;
    uint32_t wanted = *capacity ? *capacity * 2 : 16;
    if (wanted < *capacity)
        return reader_nomem(reader);
    void *bigger = realloc(*items, (size_t)wanted * size);
    if (!bigger)
        return reader_nomem(reader);
    memset((char *)bigger + (size_t)*capacity * size, 0, (size_t)(wanted - *capacity) * size);
    *items = bigger;
    *capacity = wanted;
    return true;
}

char *span_copy(struct text_span span)
{
    char *copy = malloc(span.length + 1);
    if (copy) {
        memcpy(copy, span.at, span.length);
        copy[span.length] = '\0';
    }
    return copy;
}

/* ---- symbols: chained hash; the newest of a bucket comes first, so the newest symbols can be dropped again ---- */

static uint32_t hash_name(struct text_span name, uint32_t scope)
{
    uint32_t hash = 2166136261u ^ scope * 0x9e3779b1u; /* FNV-1a, seeded with the scope */
    for (size_t i = 0; i < name.length; i++)
        hash = (hash ^ (unsigned char)name.at[i]) * 16777619u;
    return hash;
}

struct symbol *symbol_find(struct symbols *symbols, struct text_span name, uint32_t scope)
{
    if (symbols->bucket_count == 0)
        return NULL;
    uint32_t hash = hash_name(name, scope);
    uint32_t index = symbols->buckets[hash & (symbols->bucket_count - 1)];
    for (; index; index = symbols->items[index - 1].next) {
        struct symbol *symbol = &symbols->items[index - 1];
        if (symbol->hash == hash && symbol->scope == scope && symbol->name.length == name.length &&
            memcmp(symbol->name.at, name.at, name.length) == 0)
            return symbol;
    }
    return NULL;
}

static void link_symbol(struct symbols *symbols, uint32_t index)
{
    uint32_t *bucket = &symbols->buckets[symbols->items[index].hash & (symbols->bucket_count - 1)];
    symbols->items[index].next = *bucket;
    *bucket = index + 1;
}

static bool grow_symbols(struct symbols *symbols)
{
    uint32_t capacity = symbols->capacity ? symbols->capacity * 2 : 256;
    if (capacity > UINT32_C(1) << 30)
        return false;
    struct symbol *items = realloc(symbols->items, (size_t)capacity * sizeof(*items));
    if (!items)
        return false;
    symbols->items = items;
    uint32_t *buckets = calloc(capacity, sizeof(*buckets));
    if (!buckets)
        return false;
    free(symbols->buckets);
    symbols->buckets = buckets;
    symbols->bucket_count = symbols->capacity = capacity;
    for (uint32_t i = 0; i < symbols->count; i++)
        link_symbol(symbols, i);
    return true;
}

struct symbol *symbol_add(struct symbols *symbols, struct text_span name, uint32_t scope)
{
    if (symbols->count == symbols->capacity && !grow_symbols(symbols))
        return NULL;
    uint32_t index = symbols->count++;
    symbols->items[index] = (struct symbol){.name = name, .scope = scope, .hash = hash_name(name, scope)};
    link_symbol(symbols, index);
    return &symbols->items[index];
}

void symbols_truncate(struct symbols *symbols, uint32_t count)
{
    while (symbols->count > count) {
        struct symbol *last = &symbols->items[--symbols->count];
        symbols->buckets[last->hash & (symbols->bucket_count - 1)] = last->next;
        free(last->ids);
    }
}

void symbols_finish(struct symbols *symbols)
{
    symbols_truncate(symbols, 0);
    free(symbols->items);
    free(symbols->buckets);
    *symbols = (struct symbols){0};
}

/* ---- types ---- */

static const struct {
    const char *name;
    uint8_t bits;
    bool is_float, is_signed;
} types[] = {
    [T_NONE] = {"?", 0, false, false},       [T_B8] = {"b8", 8, false, false},
    [T_B16] = {"b16", 16, false, false},     [T_B32] = {"b32", 32, false, false},
    [T_B64] = {"b64", 64, false, false},     [T_U8] = {"u8", 8, false, false},
    [T_U16] = {"u16", 16, false, false},     [T_U32] = {"u32", 32, false, false},
    [T_U64] = {"u64", 64, false, false},     [T_S8] = {"s8", 8, false, true},
    [T_S16] = {"s16", 16, false, true},      [T_S32] = {"s32", 32, false, true},
    [T_S64] = {"s64", 64, false, true},      [T_F16] = {"f16", 16, true, true},
    [T_BF16] = {"bf16", 16, true, true},     [T_F16X2] = {"f16x2", 32, true, true},
    [T_BF16X2] = {"bf16x2", 32, true, true}, [T_TF32] = {"tf32", 32, true, true},
    [T_F32] = {"f32", 32, true, true},       [T_F64] = {"f64", 64, true, true},
    [T_PRED] = {"pred", 1, false, false},
};

unsigned type_bits(enum ptype type)
{
    return types[type].bits;
}

bool type_is_float(enum ptype type)
{
    return types[type].is_float;
}

bool type_is_signed(enum ptype type)
{
    return types[type].is_signed;
}

const char *type_name(enum ptype type)
{
    return types[type].name;
}

enum ptype type_from_span(struct text_span span)
{
    for (int i = T_B8; i <= T_PRED; i++) {
        if (span_is(span, types[i].name))
            return (enum ptype)i;
    }
    return T_NONE;
}

/* ---- variables ---- */

static bool read_align(struct reader *reader, uint32_t *align)
{
    uint64_t value;
    uint32_t line = reader->lex.now.line;
    lex_next(&reader->lex);
    if (!reader_integer(reader, "alignment", 4096, &value))
        return false;
    if (value == 0 || (value & (value - 1)))
        return reader_fail(reader, -EINVAL, line, "alignment %llu is not a power of two", (unsigned long long)value);
    *align = (uint32_t)value;
    return true;
}

/* .attribute(.managed) and friends say nothing that matters here. */
static bool skip_parentheses(struct reader *reader)
{
    if (!reader_punct(reader, '('))
        return false;
    uint32_t depth = 1;
    while (depth) {
        if (reader->lex.now.kind == TOK_END)
            return reader_expected(reader, "')'");
        if (lex_is_punct(&reader->lex, '('))
            depth++;
        else if (lex_is_punct(&reader->lex, ')'))
            depth--;
        lex_next(&reader->lex);
    }
    return true;
}

bool reader_variable_type(struct reader *reader, struct variable *variable)
{
    struct lexer *lex = &reader->lex;
    *variable = (struct variable){.vector = 1, .line = lex->now.line};
    while (lex->now.kind == TOK_DOT) {
        if (lex_is_dot(lex, "align")) {
            if (!read_align(reader, &variable->align))
                return false;
            continue;
        }
        if (lex_is_dot(lex, "attribute")) {
            lex_next(lex);
            if (!skip_parentheses(reader))
                return false;
            continue;
        }
        if (lex_is_dot(lex, "v2") || lex_is_dot(lex, "v4")) {
            variable->vector = lex->now.text.at[1] == '2' ? 2 : 4;
            lex_next(lex);
            continue;
        }
        if (lex_is_dot(lex, "texref") || lex_is_dot(lex, "samplerref") || lex_is_dot(lex, "surfref") ||
            lex_is_dot(lex, "b128"))
            return reader_fail(reader, -ENOTSUP, lex->now.line, "variables of type .%.*s are not supported",
                               cut(lex->now.text), lex->now.text.at);
        variable->type = type_from_span(lex->now.text);
        if (variable->type == T_NONE)
            return reader_fail(reader, -EINVAL, lex->now.line, "type '.%.*s' is not known", cut(lex->now.text),
                               lex->now.text.at);
        lex_next(lex);
        break;
    }
    if (variable->type == T_NONE)
        return reader_expected(reader, "a type");
    if (variable->type != T_PRED)
        variable->element_bytes = (uint64_t)type_bytes(variable->type) * variable->vector;
    return true;
}

bool reader_variable_name(struct reader *reader, struct variable *variable)
{
    struct lexer *lex = &reader->lex;
    variable->line = lex->now.line;
    variable->dims = 0;
    if (!reader_word(reader, "a name", &variable->name))
        return false;
    uint64_t bytes = variable->element_bytes;
    while (lex_is_punct(lex, '[')) {
        uint64_t size = 0;
        lex_next(lex);
        if (variable->dims == sizeof(variable->dim) / sizeof(variable->dim[0]))
            return reader_fail(reader, -E2BIG, variable->line, "too many dimensions");
        if (!lex_is_punct(lex, ']')) {
            if (!reader_integer(reader, "array size", GLOBAL_BYTES_MAX, &size))
                return false;
        } else if (variable->dims > 0) {
            return reader_fail(reader, -EINVAL, variable->line, "only the first dimension of '%.*s' may be open",
                               cut(variable->name), variable->name.at);
        }
        variable->dim[variable->dims++] = size;
        if (!reader_punct(reader, ']'))
            return false;
        if (__builtin_mul_overflow(bytes, size, &bytes) || bytes > GLOBAL_BYTES_MAX)
            return reader_fail(reader, -E2BIG, variable->line, "'%.*s' is larger than 4 GiB", cut(variable->name),
                               variable->name.at);
    }
    variable->bytes = bytes;
    return true;
}

static uint32_t variable_align(const struct variable *variable)
{
    uint32_t natural = (uint32_t)variable->element_bytes;
    return variable->align ? variable->align : natural ? natural : 1;
}

/* ---- initialisers ---- */

struct initialiser {
    struct reader *reader;
    const struct variable *variable;
    struct global *global;
    uint8_t *bytes;
    uint64_t capacity, end; /* end: bytes up to the last one that was given */
    uint32_t address_capacity;
};

static bool init_room(struct initialiser *init, uint64_t end)
{
    if (init->variable->bytes && end > init->variable->bytes)
        return reader_fail(init->reader, -EINVAL, init->reader->lex.now.line, "more initial values than '%.*s' holds",
                           cut(init->variable->name), init->variable->name.at);
    if (end > init->capacity) {
        uint64_t wanted = init->capacity ? init->capacity * 2 : 64;
        while (wanted < end)
            wanted *= 2;
        uint8_t *bigger = realloc(init->bytes, wanted);
        if (!bigger)
            return reader_nomem(init->reader);
        memset(bigger + init->capacity, 0, wanted - init->capacity);
        init->bytes = bigger;
        init->capacity = wanted;
    }
    if (end > init->end)
        init->end = end;
    return true;
}

static uint64_t half_bits(enum ptype type, double value)
{
    return type == T_F16 ? half_from_double(value) : bf16_from_double(value);
}

/* The bits of a number for a variable or operand of `type`. */
static bool number_bits(struct reader *reader, enum ptype type, bool negative, uint64_t *out)
{
    const struct token now = reader->lex.now;
    double wide;
    float narrow;
    uint64_t bits = now.value;
    if (now.kind == TOK_INTEGER) {
        if (type == T_F32 || type == T_F64) {
            wide = negative ? -(double)now.value : (double)now.value;
            narrow = (float)wide;
            bits = 0;
            memcpy(&bits, type == T_F64 ? (const void *)&wide : (const void *)&narrow, type_bytes(type));
        } else if (negative) {
            bits = -bits;
        }
    } else if (now.kind == TOK_FLOAT) {
        if (now.width == 32) {
            uint32_t word = (uint32_t)now.value;
            memcpy(&narrow, &word, sizeof(word));
            wide = narrow;
        } else {
            memcpy(&wide, &now.value, sizeof(wide));
        }
        if (negative)
            wide = -wide;
        narrow = (float)wide;
        uint32_t word;
        memcpy(&word, &narrow, sizeof(word));
        if (type == T_F16 || type == T_BF16)
            bits = half_bits(type, wide);
        else if (type == T_F32 || (type_bits(type) == 32 && now.width == 32))
            bits = word;
        else
            memcpy(&bits, &wide, sizeof(bits));
    } else {
        return reader_expected(reader, "a number");
    }
    lex_next(&reader->lex);
    *out = bits;
    return true;
}

/* sym, sym+4, generic(sym), generic(sym)+4 */
static bool init_address(struct initialiser *init, uint64_t at)
{
    struct reader *reader = init->reader;
    struct text_span name;
    uint64_t offset = 0;
    bool parentheses = false, negative = false;
    uint32_t line = reader->lex.now.line;
    if (!reader_word(reader, "a name", &name))
        return false;
    if (lex_is_punct(&reader->lex, '(')) {
        if (!span_is(name, "generic"))
            return reader_fail(reader, -ENOTSUP, line, "initialiser '%.*s(...)' is not supported", cut(name), name.at);
        parentheses = true;
        lex_next(&reader->lex);
        if (!reader_word(reader, "a name", &name))
            return false;
    }
    if (parentheses && !reader_punct(reader, ')'))
        return false;
    if (lex_is_punct(&reader->lex, '+') || lex_is_punct(&reader->lex, '-')) {
        negative = lex_is_punct(&reader->lex, '-');
        lex_next(&reader->lex);
        if (!reader_integer(reader, "offset", UINT64_MAX, &offset))
            return false;
    }
    if (type_bits(init->variable->type) != 64)
        return reader_fail(reader, -ENOTSUP, line, "the address of '%.*s' needs a 64-bit variable", cut(name), name.at);
    struct symbol *symbol = symbol_find(&reader->symbols, name, 0);
    struct initial_address address = {.at = at, .global = -1, .value = negative ? -offset : offset};
    if (symbol && symbol->kind == SYM_GLOBAL)
        address.global = (int32_t)symbol->index;
    else if (symbol && symbol->kind == SYM_FUNCTION)
        address.value += PTX_WINDOW_CODE + symbol->index;
    else
        return reader_fail(reader, -EINVAL, line, "'%.*s' is no variable or function that has an address here",
                           cut(name), name.at);
    void *items = init->global->addresses;
    if (!reader_grow(reader, &items, &init->address_capacity, init->global->address_count, sizeof(address)))
        return false;
    init->global->addresses = items;
    init->global->addresses[init->global->address_count++] = address;
    return true;
}

/* Values for one level of the array: `stride` bytes per entry of this level. */
static bool init_level(struct initialiser *init, uint64_t at, uint32_t level, uint64_t limit)
{
    struct reader *reader = init->reader;
    const struct variable *variable = init->variable;
    const enum ptype type = variable->type;
    const uint64_t scalar = type_bytes(type);
    bool negative = false;
    uint64_t bits;
    if (!lex_is_punct(&reader->lex, '{')) {
        if (at >= limit)
            return init_room(init, UINT64_MAX >> 1);
        if (!init_room(init, at + scalar))
            return false;
        if (reader->lex.now.kind == TOK_WORD)
            return init_address(init, at);
        if (lex_is_punct(&reader->lex, '-')) {
            negative = true;
            lex_next(&reader->lex);
        }
        if (!number_bits(reader, type, negative, &bits))
            return false;
        memcpy(init->bytes + at, &bits, scalar);
        return true;
    }
    if (level >= variable->dims + (variable->vector > 1))
        return reader_fail(reader, -EINVAL, reader->lex.now.line, "too many braces in the initialiser of '%.*s'",
                           cut(variable->name), variable->name.at);
    uint64_t stride = scalar;
    for (uint32_t i = level + 1; i < variable->dims; i++)
        stride *= variable->dim[i];
    if (level < variable->dims)
        stride *= variable->vector;
    lex_next(&reader->lex);
    /* a flat list may also fill an array of several dimensions: step by what was written */
    while (!lex_is_punct(&reader->lex, '}')) {
        bool nested = lex_is_punct(&reader->lex, '{');
        if (!init_level(init, at, level + 1, limit))
            return false;
        at += nested ? stride : scalar;
        if (lex_is_punct(&reader->lex, ','))
            lex_next(&reader->lex);
        else if (!lex_is_punct(&reader->lex, '}'))
            return reader_expected(reader, "',' or '}'");
    }
    lex_next(&reader->lex);
    return true;
}

static bool read_initialiser(struct reader *reader, struct variable *variable, struct global *global)
{
    struct initialiser init = {.reader = reader, .variable = variable, .global = global};
    bool open = variable->dims > 0 && variable->dim[0] == 0;
    if (!init_level(&init, 0, 0, open ? GLOBAL_BYTES_MAX : variable->bytes)) {
        free(init.bytes);
        return false;
    }
    if (open) {
        uint64_t step = variable->element_bytes;
        for (uint32_t i = 1; i < variable->dims; i++)
            step *= variable->dim[i];
        if (step == 0)
            step = 1;
        variable->bytes = (init.end + step - 1) / step * step;
    }
    global->init = init.bytes;
    global->info.init_size = init.end;
    return true;
}

bool reader_global(struct reader *reader, bool is_const, bool visible, bool is_extern, uint32_t scope)
{
    struct variable variable;
    if (!reader_variable_type(reader, &variable))
        return false;
    for (;;) {
        if (!reader_variable_name(reader, &variable))
            return false;
        if (variable.type == T_PRED)
            return reader_fail(reader, -EINVAL, variable.line, "a variable cannot be of type .pred");
        struct symbol *symbol = symbol_find(&reader->symbols, variable.name, scope);
        if (is_extern) {
            if (!symbol)
                return reader_fail(reader, -EINVAL, variable.line, "variable '%.*s' is extern and defined nowhere",
                                   cut(variable.name), variable.name.at);
        } else if (symbol) {
            return reader_fail(reader, -EINVAL, variable.line, "'%.*s' is declared twice", cut(variable.name),
                               variable.name.at);
        } else {
            struct ptx_module *module = reader->module;
            void *items = module->globals;
            if (!reader_grow(reader, &items, &reader->global_capacity, module->global_count, sizeof(struct global)))
                return false;
            module->globals = items;
            struct global *global = &module->globals[module->global_count];
            global->name = span_copy(variable.name);
            symbol = global->name ? symbol_add(&reader->symbols, variable.name, scope) : NULL;
            if (!symbol) {
                free(global->name);
                global->name = NULL;
                return reader_nomem(reader);
            }
            symbol->kind = SYM_GLOBAL;
            symbol->type = variable.type;
            symbol->index = module->global_count++; /* from here on ptx_module_destroy frees it */
            global->info = (struct ptx_global){
                .name = global->name, .align = variable_align(&variable), .is_const = is_const, .visible = visible};
            if (lex_is_punct(&reader->lex, '=')) {
                lex_next(&reader->lex);
                if (!read_initialiser(reader, &variable, global))
                    return false;
            }
            if (variable.bytes == 0)
                return reader_fail(reader, -EINVAL, variable.line, "'%.*s' has no size", cut(variable.name),
                                   variable.name.at);
            global->info.size = variable.bytes;
        }
        if (!lex_is_punct(&reader->lex, ','))
            break;
        lex_next(&reader->lex);
    }
    return reader_punct(reader, ';');
}

static bool read_module_shared(struct reader *reader, bool is_extern)
{
    struct variable variable;
    if (!reader_variable_type(reader, &variable))
        return false;
    for (;;) {
        if (!reader_variable_name(reader, &variable))
            return false;
        bool dynamic = variable.dims > 0 && variable.dim[0] == 0;
        if (symbol_find(&reader->symbols, variable.name, 0))
            return reader_fail(reader, -EINVAL, variable.line, "'%.*s' is declared twice", cut(variable.name),
                               variable.name.at);
        if (variable.type == T_PRED || (!dynamic && variable.bytes == 0) || (is_extern && !dynamic))
            return reader_fail(reader, -EINVAL, variable.line, "'%.*s' cannot be a shared variable", cut(variable.name),
                               variable.name.at);
        if (variable.bytes > SHARED_BYTES_MAX)
            return reader_fail(reader, -E2BIG, variable.line, "'%.*s' does not fit into shared memory",
                               cut(variable.name), variable.name.at);
        struct symbol *symbol = symbol_add(&reader->symbols, variable.name, 0);
        if (!symbol)
            return reader_nomem(reader);
        symbol->kind = dynamic ? SYM_SHARED_DYNAMIC : SYM_SHARED;
        symbol->type = variable.type;
        symbol->size = variable.bytes;
        symbol->align = variable_align(&variable);
        if (dynamic && symbol->align > reader->module->dynamic_align)
            reader->module->dynamic_align = symbol->align;
        if (!lex_is_punct(&reader->lex, ','))
            break;
        lex_next(&reader->lex);
    }
    return reader_punct(reader, ';');
}

/* ---- functions ---- */

struct param_list {
    struct ptx_param *items;
    struct text_span *names;
    uint32_t count, capacity, bytes;
    uint32_t bank; /* parameters are aligned by their offset from so far below the first */
};

/*
 * Parameters of kernels lie in constant bank 0 behind words of the driver and are aligned by their place there: a first
 * parameter of .align 64 has offset 0x20 on sm_80, 0x30 on sm_90, 0 on sm_100 (records in cubins of ptxas 13.0).
 */
static uint32_t param_bank(const struct reader *reader)
{
    return reader->device == 0 ? 0 : reader->device < 90 ? 0x160 : reader->device < 100 ? 0x210 : 0x380;
}

static void param_list_finish(struct param_list *list)
{
    free(list->items);
    free(list->names);
    *list = (struct param_list){0};
}

static bool add_param(struct reader *reader, struct param_list *list, const struct variable *variable)
{
    uint32_t align = variable_align(variable), capacity = list->capacity;
    uint64_t end = (uint64_t)list->bank + list->bytes;
    uint64_t offset = ((end + align - 1) & ~(uint64_t)(align - 1)) - list->bank;
    if (variable->bytes == 0 || variable->type == T_PRED)
        return reader_fail(reader, -EINVAL, variable->line, "parameter '%.*s' has no size", cut(variable->name),
                           variable->name.at);
    if (offset + variable->bytes > PTX_PARAM_BYTES_MAX)
        return reader_fail(reader, -E2BIG, variable->line, "parameters are larger than %d bytes", PTX_PARAM_BYTES_MAX);
    void *grown = list->items;
    if (!reader_grow(reader, &grown, &capacity, list->count, sizeof(struct ptx_param)))
        return false;
    list->items = grown;
    grown = list->names;
    if (!reader_grow(reader, &grown, &list->capacity, list->count, sizeof(struct text_span)))
        return false;
    list->names = grown;
    list->names[list->count] = variable->name;
    list->items[list->count++] = (struct ptx_param){(uint32_t)offset, (uint32_t)variable->bytes, align};
    list->bytes = (uint32_t)(offset + variable->bytes);
    return true;
}

/* ( .param .type [.ptr ...] name, ... ) */
static bool read_params(struct reader *reader, struct param_list *list)
{
    struct lexer *lex = &reader->lex;
    struct variable variable;
    if (!reader_punct(reader, '('))
        return false;
    while (!lex_is_punct(lex, ')')) {
        if (lex_is_dot(lex, "reg"))
            return reader_fail(reader, -ENOTSUP, lex->now.line, "functions with .reg parameters are not supported");
        if (!lex_is_dot(lex, "param"))
            return reader_expected(reader, "'.param'");
        lex_next(lex);
        if (!reader_variable_type(reader, &variable))
            return false;
        if (lex_is_dot(lex, "ptr")) {
            lex_next(lex);
            while (lex->now.kind == TOK_DOT) { /* .global .align 8: hints about what it points to */
                bool align = lex_is_dot(lex, "align");
                uint32_t ignored;
                if (align && !read_align(reader, &ignored))
                    return false;
                if (!align)
                    lex_next(lex);
            }
        }
        if (!reader_variable_name(reader, &variable) || !add_param(reader, list, &variable))
            return false;
        if (lex_is_punct(lex, ','))
            lex_next(lex);
        else if (!lex_is_punct(lex, ')'))
            return reader_expected(reader, "',' or ')'");
    }
    lex_next(lex);
    return true;
}

static bool read_three(struct reader *reader, uint32_t out[3])
{
    out[0] = out[1] = out[2] = 1;
    for (int i = 0; i < 3; i++) {
        uint64_t value = 0;
        if (!reader_integer(reader, "a number", UINT32_MAX, &value))
            return false;
        out[i] = (uint32_t)value;
        if (!lex_is_punct(&reader->lex, ','))
            break;
        lex_next(&reader->lex);
    }
    return true;
}

/* Performance directives between the parameters and the body. */
static bool read_directives(struct reader *reader, struct ptx_kernel *kernel)
{
    struct lexer *lex = &reader->lex;
    uint32_t three[3];
    while (lex->now.kind == TOK_DOT) {
        struct text_span name = lex->now.text;
        uint32_t line = lex->now.line;
        lex_next(lex);
        if (span_is(name, "maxntid")) {
            if (!read_three(reader, kernel->maxntid))
                return false;
        } else if (span_is(name, "reqntid")) {
            if (!read_three(reader, kernel->reqntid))
                return false;
        } else if (span_is(name, "reqnctapercluster")) {
            if (!read_three(reader, kernel->reqnctapercluster))
                return false;
        } else if (span_is(name, "minnctapersm") || span_is(name, "maxnctapersm")) {
            if (!read_three(reader, three))
                return false;
            if (span_is(name, "minnctapersm"))
                kernel->minnctapersm = three[0];
        } else if (span_is(name, "maxnreg")) {
            if (!read_three(reader, three))
                return false;
            kernel->maxnreg = three[0];
        } else if (span_is(name, "maxclusterrank")) {
            if (!read_three(reader, three))
                return false;
        } else if (span_is(name, "pragma")) {
            if (lex->now.kind != TOK_STRING)
                return reader_expected(reader, "a string");
            while (lex->now.kind == TOK_STRING || lex_is_punct(lex, ','))
                lex_next(lex);
            if (!reader_punct(reader, ';'))
                return false;
        } else if (span_is(name, "attribute") || span_is(name, "abi_preserve") ||
                   span_is(name, "abi_preserve_control")) {
            if (lex_is_punct(lex, '(') ? !skip_parentheses(reader) : !read_three(reader, three))
                return false;
        } else if (!span_is(name, "noreturn") && !span_is(name, "explicitcluster") &&
                   !span_is(name, "blocksareclusters")) {
            return reader_fail(reader, -EINVAL, line, "directive '.%.*s' is not known", cut(name), name.at);
        }
    }
    return true;
}

static bool skip_body(struct reader *reader)
{
    uint32_t depth = 0, line = reader->lex.now.line;
    do {
        if (reader->lex.now.kind == TOK_END)
            return reader_fail(reader, -EINVAL, line, "the body that starts here is not closed");
        if (lex_is_punct(&reader->lex, '{'))
            depth++;
        else if (lex_is_punct(&reader->lex, '}'))
            depth--;
        lex_next(&reader->lex);
    } while (depth);
    return true;
}

static int builtin_of(struct text_span name)
{
    return span_is(name, "vprintf")        ? BUILTIN_PRINTF
           : span_is(name, "__assertfail") ? BUILTIN_ASSERT
           : span_is(name, "malloc")       ? BUILTIN_MALLOC
           : span_is(name, "free")         ? BUILTIN_FREE
                                           : -1;
}

/* The function of this name, new if need be. */
static struct function *get_function(struct reader *reader, struct text_span name, uint32_t line, uint32_t *index)
{
    struct ptx_module *module = reader->module;
    struct symbol *symbol = symbol_find(&reader->symbols, name, 0);
    if (symbol && symbol->kind != SYM_FUNCTION) {
        reader_fail(reader, -EINVAL, line, "'%.*s' is declared twice", cut(name), name.at);
        return NULL;
    }
    if (symbol) {
        *index = symbol->index;
        return &module->functions[symbol->index];
    }
    void *items = module->functions;
    if (!reader_grow(reader, &items, &reader->function_capacity, module->function_count, sizeof(struct function)))
        return NULL;
    module->functions = items;
    struct function *function = &module->functions[module->function_count];
    function->name = span_copy(name);
    symbol = function->name ? symbol_add(&reader->symbols, name, 0) : NULL;
    if (!symbol) {
        free(function->name);
        function->name = NULL;
        reader_nomem(reader);
        return NULL;
    }
    symbol->kind = SYM_FUNCTION;
    symbol->index = *index = module->function_count++;
    function->builtin = builtin_of(name);
    function->alias = -1;
    function->line = line;
    return function;
}

static bool add_kernel(struct reader *reader, const struct ptx_kernel *kernel, uint32_t function)
{
    struct ptx_module *module = reader->module;
    uint32_t capacity = reader->kernel_capacity;
    void *items = module->kernels;
    if (!reader_grow(reader, &items, &capacity, module->kernel_count, sizeof(*kernel)))
        return false;
    module->kernels = items;
    items = module->kernel_function;
    if (!reader_grow(reader, &items, &reader->kernel_capacity, module->kernel_count, sizeof(uint32_t)))
        return false;
    module->kernel_function = items;
    module->kernels[module->kernel_count] = *kernel;
    module->kernel_function[module->kernel_count++] = function;
    return true;
}

static bool read_function(struct reader *reader, bool is_entry)
{
    struct lexer *lex = &reader->lex;
    struct ptx_kernel kernel = {0};
    struct param_list params = {.bank = is_entry ? param_bank(reader) : 0}, results = {0};
    uint32_t line = lex->now.line, index;
    struct text_span name;
    while (lex_is_dot(lex, "attribute") || lex_is_dot(lex, "noreturn")) {
        bool attribute = lex_is_dot(lex, "attribute");
        lex_next(lex);
        if (attribute && !skip_parentheses(reader))
            return false;
    }
    if (!is_entry && lex_is_punct(lex, '(') && !read_params(reader, &results))
        goto fail;
    if (!reader_word(reader, is_entry ? "a kernel name" : "a function name", &name))
        goto fail;
    if (lex_is_punct(lex, '(') && !read_params(reader, &params))
        goto fail;
    if (!read_directives(reader, &kernel))
        goto fail;
    struct function *function = get_function(reader, name, line, &index);
    if (!function)
        goto fail;
    bool has_body = lex_is_punct(lex, '{');
    if (function->defined && has_body) {
        reader_fail(reader, -EINVAL, line, "'%.*s' is defined twice", cut(name), name.at);
        goto fail;
    }
    if (!function->defined) {
        free(function->params);
        free(function->param_names);
        free(function->results);
        free(function->result_names);
        function->is_entry = is_entry;
        function->params = params.items;
        function->param_names = params.names;
        function->param_count = params.count;
        function->param_bytes = params.bytes;
        function->results = results.items;
        function->result_names = results.names;
        function->result_count = results.count;
        uint32_t end = params.bytes;
        for (uint32_t i = 0; i < results.count; i++) { /* results lie behind the parameters in the frame */
            struct ptx_param *result = &results.items[i];
            result->offset = (end + result->align - 1) & ~(result->align - 1);
            end = result->offset + result->size;
        }
        params = results = (struct param_list){0};
    }
    if (has_body) {
        function->defined = true;
        function->body_at = (size_t)(lex->now.text.at - reader->text);
        function->body_line = lex->now.line;
        function->line = line;
        if (is_entry && !add_kernel(reader, &kernel, index))
            goto fail;
        if (!skip_body(reader))
            goto fail;
    } else if (!reader_punct(reader, ';')) {
        goto fail;
    }
    param_list_finish(&params);
    param_list_finish(&results);
    return true;
fail:
    param_list_finish(&params);
    param_list_finish(&results);
    return false;
}

static bool read_alias(struct reader *reader)
{
    struct text_span name, target;
    uint32_t line = reader->lex.now.line, index, target_index;
    if (!reader_word(reader, "a function name", &name) || !reader_punct(reader, ',') ||
        !reader_word(reader, "a function name", &target) || !reader_punct(reader, ';'))
        return false;
    if (!get_function(reader, target, line, &target_index) || !get_function(reader, name, line, &index))
        return false;
    if (reader->module->functions[index].defined || index == target_index)
        return reader_fail(reader, -EINVAL, line, "'%.*s' is defined twice", cut(name), name.at);
    reader->module->functions[index].alias = (int32_t)target_index;
    return true;
}

/* ---- the module ---- */

static bool read_version(struct reader *reader)
{
    struct lexer *lex = &reader->lex;
    if (!lex_is_dot(lex, "version"))
        return reader_expected(reader, "'.version'");
    lex_next(lex);
    if (lex->now.kind != TOK_FLOAT || lex->now.width != 0)
        return reader_expected(reader, "a version number");
    double version;
    memcpy(&version, &lex->now.value, sizeof(version));
    if (!(version >= 1.0 && version < 100.0))
        return reader_fail(reader, -EINVAL, lex->now.line, "version %.*s is not known", cut(lex->now.text),
                           lex->now.text.at);
    reader->module->info.version = (unsigned)(version * 10 + 0.5);
    lex_next(lex);
    return true;
}

static bool read_target(struct reader *reader, const struct ptx_options *options)
{
    struct lexer *lex = &reader->lex;
    uint32_t line = lex->now.line;
    if (!lex_is_dot(lex, "target"))
        return reader_expected(reader, "'.target'");
    lex_next(lex);
    for (;;) {
        struct text_span name;
        if (!reader_word(reader, "a target", &name))
            return false;
        if (name.length > 3 && memcmp(name.at, "sm_", 3) == 0) {
            unsigned target = 0;
            size_t i = 3;
            for (; i < name.length && i < 7 && name.at[i] >= '0' && name.at[i] <= '9'; i++)
                target = target * 10 + (unsigned)(name.at[i] - '0');
            if (target < 10 || i + 1 < name.length)
                return reader_fail(reader, -EINVAL, line, "target '%.*s' is not known", cut(name), name.at);
            reader->module->info.target = target;
        } else if (!span_is(name, "debug") && !span_is(name, "texmode_unified") &&
                   !span_is(name, "texmode_independent") && !span_is(name, "map_f64_to_f32")) {
            return reader_fail(reader, -EINVAL, line, "target '%.*s' is not known", cut(name), name.at);
        }
        if (!lex_is_punct(lex, ','))
            break;
        lex_next(lex);
    }
    if (reader->module->info.target == 0)
        return reader_fail(reader, -EINVAL, line, "the target names no sm_NN");
    if (options && options->max_target && reader->module->info.target > options->max_target)
        return reader_fail(reader, -ENOEXEC, line, "target sm_%u is newer than the device's sm_%u",
                           reader->module->info.target, options->max_target);
    return true;
}

static bool read_address_size(struct reader *reader)
{
    uint64_t size;
    uint32_t line = reader->lex.now.line;
    lex_next(&reader->lex);
    if (!reader_integer(reader, "address size", UINT32_MAX, &size))
        return false;
    if (size != 64)
        return reader_fail(reader, -ENOTSUP, line, "address size %llu is not supported, only 64",
                           (unsigned long long)size);
    reader->module->info.address_size = 64;
    return true;
}

/* Debug information: .file 1 "x", .section .debug_x { ... } */
static bool skip_debug(struct reader *reader, struct text_span name)
{
    struct lexer *lex = &reader->lex;
    uint32_t line = lex->now.line;
    if (span_is(name, "section")) {
        while (lex->now.kind == TOK_DOT || lex->now.kind == TOK_WORD)
            lex_next(lex);
        return lex_is_punct(lex, '{') ? skip_body(reader) : reader_expected(reader, "'{'");
    }
    while (lex->now.line == line && lex->now.kind != TOK_END)
        lex_next(lex);
    return true;
}

static bool read_declaration(struct reader *reader)
{
    struct lexer *lex = &reader->lex;
    bool visible = false, is_extern = false;
    for (;;) {
        if (lex->now.kind != TOK_DOT)
            return reader_expected(reader, "a directive");
        struct text_span name = lex->now.text;
        uint32_t line = lex->now.line;
        lex_next(lex);
        if (span_is(name, "visible") || span_is(name, "weak") || span_is(name, "common"))
            visible = true;
        else if (span_is(name, "extern"))
            is_extern = true;
        else if (span_is(name, "entry"))
            return read_function(reader, true);
        else if (span_is(name, "func"))
            return read_function(reader, false);
        else if (span_is(name, "global") || span_is(name, "const"))
            return reader_global(reader, name.at[0] == 'c', visible, is_extern, 0);
        else if (span_is(name, "shared"))
            return read_module_shared(reader, is_extern);
        else if (span_is(name, "alias"))
            return read_alias(reader);
        else if (span_is(name, "file") || span_is(name, "section") || span_is(name, "loc"))
            return skip_debug(reader, name);
        else if (span_is(name, "pragma")) {
            while (lex->now.kind == TOK_STRING || lex_is_punct(lex, ','))
                lex_next(lex);
            return reader_punct(reader, ';');
        } else
            return reader_fail(reader, -EINVAL, line, "directive '.%.*s' is not known", cut(name), name.at);
    }
}

static bool resolve_aliases(struct reader *reader)
{
    struct ptx_module *module = reader->module;
    for (uint32_t i = 0; i < module->function_count; i++) {
        struct function *function = &module->functions[i];
        uint32_t steps = 0;
        while (function->alias >= 0 && module->functions[function->alias].alias >= 0) {
            function->alias = module->functions[function->alias].alias;
            if (++steps > module->function_count)
                return reader_fail(reader, -EINVAL, function->line, "alias '%.64s' refers to itself", function->name);
        }
    }
    return true;
}

/* Depth first over the call graph: bytes of frames of the deepest chain; a cycle is UINT32_MAX. */
struct walk {
    struct ptx_module *module;
    uint8_t *state; /* 0 new, 1 in progress, 2 done */
};

static uint32_t add_stack(uint32_t a, uint32_t b)
{
    return a == UINT32_MAX || b > UINT32_MAX - 1 - a ? UINT32_MAX : a + b;
}

static uint32_t frame_size(const struct function *function)
{
    return (function->frame_bytes + 15) & ~UINT32_C(15);
}

static uint32_t tree_stack(struct walk *walk, uint32_t index, uint32_t depth)
{
    struct function *function = &walk->module->functions[index];
    if (walk->state[index] == 2)
        return function->tree_stack;
    if (walk->state[index] == 1 || depth > 200) /* deeper trees are treated like recursion: a stack of fixed size */
        return UINT32_MAX;
    walk->state[index] = 1;
    uint32_t deepest = function->has_indirect_call ? UINT32_MAX : 0;
    for (uint32_t i = 0; i < function->call_count && deepest != UINT32_MAX; i++) {
        uint32_t callee = function->calls_at[i].callee;
        if (walk->module->functions[callee].defined) {
            uint32_t stack = tree_stack(walk, callee, depth + 1);
            deepest = stack > deepest ? stack : deepest;
        }
    }
    walk->state[index] = 2;
    function->tree_stack = add_stack(frame_size(function), deepest);
    return function->tree_stack;
}

static void describe_kernel(struct ptx_module *module, uint32_t index)
{
    struct ptx_kernel *kernel = &module->kernels[index];
    const struct function *function = &module->functions[module->kernel_function[index]];
    kernel->name = function->name;
    kernel->params = function->params;
    kernel->param_count = function->param_count;
    kernel->param_bytes = function->param_bytes;
    kernel->static_shared = module->shared_common + function->shared_bytes;
    kernel->instructions = function->pc_count;
    kernel->recursive = function->tree_stack == UINT32_MAX;
    kernel->local_bytes = kernel->recursive ? function->frame_bytes : function->tree_stack;
    kernel->uses_dynamic_shared = function->uses_dynamic_shared;
    const uint32_t *limit = kernel->reqntid[0] ? kernel->reqntid : kernel->maxntid;
    uint64_t threads = (uint64_t)limit[0] * limit[1];
    threads = threads > PTX_BLOCK_THREADS_MAX ? PTX_BLOCK_THREADS_MAX : threads * limit[2];
    kernel->max_threads = threads == 0 || threads > PTX_BLOCK_THREADS_MAX ? PTX_BLOCK_THREADS_MAX : (uint32_t)threads;
    /* a few registers for addresses and the like that PTX does not show; hardware allocates eights */
    uint32_t registers = (function->pressure + 6 + 7) & ~7u;
    if (limit[0]) { /* the compiler would have kept to what fits */
        uint32_t blocks = kernel->minnctapersm ? kernel->minnctapersm : 1;
        uint32_t fits = 65536 / kernel->max_threads / blocks & ~7u;
        registers = registers > fits ? fits : registers;
    }
    if (kernel->maxnreg && registers > kernel->maxnreg)
        registers = kernel->maxnreg;
    kernel->registers = registers < 16 ? 16 : registers > PTX_REGISTERS_MAX ? PTX_REGISTERS_MAX : registers;
}

/* One step of carrying facts from callees to callers; what lies on a cycle was seen in progress by its callees only. */
static bool settle_callers(struct ptx_module *module)
{
    bool changed = false;
    for (uint32_t i = 0; i < module->function_count; i++) {
        struct function *function = &module->functions[i];
        for (uint32_t j = 0; j < function->call_count; j++) {
            const struct function *callee = &module->functions[function->calls_at[j].callee];
            bool endless = callee->defined && callee->tree_stack == UINT32_MAX && function->tree_stack != UINT32_MAX;
            bool dynamic = callee->uses_dynamic_shared && !function->uses_dynamic_shared;
            if (endless)
                function->tree_stack = UINT32_MAX;
            if (dynamic)
                function->uses_dynamic_shared = true;
            changed |= endless || dynamic;
        }
    }
    return changed;
}

static bool finish_module(struct reader *reader)
{
    struct ptx_module *module = reader->module;
    struct walk walk = {module, calloc(module->function_count + 1, 1)};
    if (!walk.state)
        return reader_nomem(reader);
    for (uint32_t i = 0; i < module->function_count; i++)
        tree_stack(&walk, i, 0);
    free(walk.state);
    while (settle_callers(module)) {
    }
    for (uint32_t i = 0; i < module->kernel_count; i++)
        describe_kernel(module, i);
    module->info.kernels = module->kernel_count;
    module->info.globals = module->global_count;
    return true;
}

static bool read_module(struct reader *reader, const struct ptx_options *options)
{
    struct ptx_module *module = reader->module;
    lex_start(&reader->lex, reader->text, reader->length, 0, 1);
    if (!read_version(reader) || !read_target(reader, options))
        return false;
    if (lex_is_dot(&reader->lex, "address_size") && !read_address_size(reader))
        return false;
    if (module->info.address_size == 0)
        return reader_fail(reader, -ENOTSUP, reader->lex.now.line, "expected '.address_size 64'");
    while (reader->lex.now.kind != TOK_END) {
        if (lex_is_punct(&reader->lex, ';')) /* stray, as after "}" in some hand-made texts */
            lex_next(&reader->lex);
        else if (!read_declaration(reader))
            return false;
    }
    if (!resolve_aliases(reader))
        return false;
    uint32_t stamp = 1;
    for (int entries = 0; entries <= 1; entries++) {
        for (uint32_t i = 0; i < module->function_count; i++) {
            if (module->functions[i].defined && module->functions[i].is_entry == entries &&
                !body_read(reader, &module->functions[i], stamp++))
                return false;
        }
    }
    return finish_module(reader);
}

int ptx_module_create(const char *text, size_t len, const struct ptx_options *options, struct ptx_module **out,
                      char *err, size_t errlen)
{
    struct reader reader = {
        .text = text, .message = err, .message_size = errlen, .device = options ? options->max_target : 0};
    char nothing[1];
    if (errlen == 0) {
        reader.message = nothing;
        reader.message_size = 0;
    } else {
        err[0] = '\0';
    }
    if (!text || len == 0) {
        reader_fail(&reader, -EINVAL, 1, "the text is empty");
        return reader.error;
    }
    if (len > TEXT_MAX) {
        reader_fail(&reader, -E2BIG, 1, "the text is longer than %d bytes", TEXT_MAX);
        return reader.error;
    }
    reader.length = strnlen(text, len);
    reader.module = calloc(1, sizeof(*reader.module));
    if (!reader.module) {
        reader_nomem(&reader);
        return reader.error;
    }
    reader.module->dynamic_align = 16;
    bool good = read_module(&reader, options);
    symbols_finish(&reader.symbols);
    if (!good) {
        ptx_module_destroy(reader.module);
        return reader.error;
    }
    *out = reader.module;
    return 0;
}

static void finish_function(struct function *function)
{
    free(function->name);
    free(function->params);
    free(function->param_names);
    free(function->results);
    free(function->result_names);
    free(function->constants);
    free(function->slots);
    free(function->calls_at);
    free(function->tables);
    free(function->targets);
}

void ptx_module_destroy(struct ptx_module *module)
{
    if (!module)
        return;
    for (uint32_t i = 0; i < module->function_count; i++)
        finish_function(&module->functions[i]);
    for (uint32_t i = 0; i < module->global_count; i++) {
        free(module->globals[i].name);
        free(module->globals[i].init);
        free(module->globals[i].addresses);
    }
    free(module->functions);
    free(module->globals);
    free(module->kernels);
    free(module->kernel_function);
    free(module->code);
    free(module);
}

/* ---- queries ---- */

void ptx_module_info(const struct ptx_module *module, struct ptx_module_info *info)
{
    *info = module->info;
}

const struct ptx_kernel *ptx_module_kernel(const struct ptx_module *module, size_t index)
{
    return index < module->kernel_count ? &module->kernels[index] : NULL;
}

long ptx_module_find_kernel(const struct ptx_module *module, const char *name)
{
    for (uint32_t i = 0; i < module->kernel_count; i++) {
        if (strcmp(module->kernels[i].name, name) == 0)
            return (long)i;
    }
    return -ENOENT;
}

const struct ptx_global *ptx_module_global(const struct ptx_module *module, size_t index)
{
    return index < module->global_count ? &module->globals[index].info : NULL;
}

long ptx_module_find_global(const struct ptx_module *module, const char *name)
{
    for (uint32_t i = 0; i < module->global_count; i++) {
        if (strcmp(module->globals[i].name, name) == 0)
            return (long)i;
    }
    return -ENOENT;
}
