/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel of a PTX module, rewritten for packs: coalesce.h says what that is, ptx_body.c what is replaced. Here: where
 * the driver puts parameters, the layout of the area, and the new module. It holds the kernel and what it mentions, so
 * the compiler has little to do; everything else of the module is left out.
 */
#include "coalesce/ptx_body.h"

#include <stdlib.h>
#include <string.h>

enum {
    AREA_BASE = 0x200,   /* room for the division's constants and the first member's header */
    AREA_ALIGN = 128,    /* no parameter needs more, so each member's lie as the original's */
    AREA_MAX_OLD = 4096, /* before PTX 8.1 or sm_70 (ptxas 13.0: "requires PTX ISA .version 8.1 or later") */
    ALIGN_SAFE_OLD = 32, /* before sm_90 the area, when large, begins at 0x1a80 and not at 0x160: see below */
};

static uint32_t round_up(uint32_t value, uint32_t align)
{
    return (value + align - 1) & ~(align - 1);
}

/*
 * Parameters are aligned by their address in constant bank 0, not by their offset: a first parameter of .align 64 has
 * offset 0x20 on sm_80, 0x30 on sm_90, 0 on sm_100 (records of ptxas 13.0 for all three).
 */
static uint32_t bank_offset(unsigned sm)
{
    return sm < 90 ? 0x160 : sm < 100 ? 0x210 : 0x380;
}

struct declaration {
    struct ptx_span name;
    uint64_t size, align;
};

/* .param [.align n] .type [.ptr [.space] [.align n]] name [n][m] */
static int read_parameter(struct ptx_job *job, struct ptx_lexer *lexer, struct declaration *made)
{
    bool pointer = false;
    uint64_t number;

    *made = (struct declaration){0};
    if (!ptx_is(lexer, ".param"))
        return ptx_refuse(job, COALESCE_PTX_UNKNOWN);
    for (ptx_lex_next(lexer); lexer->now.kind == PTX_DOT; ptx_lex_next(lexer)) {
        if (ptx_is(lexer, ".align")) {
            ptx_lex_next(lexer);
            if (!ptx_number(&lexer->now, &number) || !number || number > AREA_ALIGN || number & (number - 1))
                return ptx_refuse(job, COALESCE_PTX_UNKNOWN);
            if (!pointer)
                made->align = number;
        } else if (ptx_is(lexer, ".texref") || ptx_is(lexer, ".samplerref") || ptx_is(lexer, ".surfref")) {
            return ptx_refuse(job, COALESCE_TEXTURE);
        } else if (ptx_is(lexer, ".ptr")) {
            pointer = true;
        } else if (pointer && (ptx_is(lexer, ".global") || ptx_is(lexer, ".const") || ptx_is(lexer, ".local") ||
                               ptx_is(lexer, ".shared"))) {
            continue;
        } else if (made->size || !(made->size = ptx_type_bytes(&lexer->now))) {
            return ptx_refuse(job, COALESCE_PTX_UNKNOWN);
        }
    }
    if (!made->size || lexer->now.kind != PTX_WORD)
        return ptx_refuse(job, COALESCE_PTX_UNKNOWN);
    if (made->align < made->size)
        made->align = made->size;
    made->name = ptx_span_of(&lexer->now);
    for (ptx_lex_next(lexer); ptx_punct(lexer, '['); ptx_lex_next(lexer)) {
        ptx_lex_next(lexer);
        if (!ptx_number(&lexer->now, &number) || !number || number > COALESCE_AREA_MAX)
            return ptx_refuse(job, COALESCE_PTX_UNKNOWN);
        made->size *= number;
        ptx_lex_next(lexer);
        if (!ptx_punct(lexer, ']') || made->size > COALESCE_AREA_MAX)
            return ptx_refuse(job, COALESCE_PTX_UNKNOWN);
    }
    return 0;
}

static int add_parameter(struct ptx_job *job, const struct declaration *made)
{
    uint32_t bank = bank_offset(job->sm);
    uint32_t offset = round_up(bank + job->parameter_bytes, (uint32_t)made->align) - bank;
    int error = ptx_grow(&job->parameters, job->parameter_count, &job->parameter_room, sizeof(*job->parameters));

    if (error)
        return error;
    if (offset + made->size > COALESCE_AREA_MAX)
        return ptx_refuse(job, COALESCE_PARAMETERS);
    if (job->sm < 90 && made->align > ALIGN_SAFE_OLD)
        return ptx_refuse(job, COALESCE_OPERAND);
    job->parameters[job->parameter_count++] = (struct ptx_parameter){made->name, offset, (uint32_t)made->size};
    job->parameter_bytes = offset + (uint32_t)made->size;
    return 0;
}

static int parameter_order(const void *a, const void *b)
{
    return ptx_span_compare(((const struct ptx_parameter *)a)->name, ((const struct ptx_parameter *)b)->name);
}

/* The list of parameters; `directives` becomes what follows it. */
static int read_parameters(struct ptx_job *job, const struct ptx_item *kernel, const char **directives)
{
    struct declaration made;
    struct ptx_lexer lexer;
    int error = 0;

    ptx_lex_start(&lexer, kernel->signature, (size_t)(kernel->body - kernel->signature));
    if (ptx_span_compare(ptx_span_of(&lexer.now), kernel->name) != 0)
        return ptx_refuse(job, COALESCE_PTX_UNKNOWN);
    ptx_lex_next(&lexer);
    *directives = lexer.now.at;
    if (!ptx_punct(&lexer, '('))
        return 0;
    do {
        ptx_lex_next(&lexer);
        if (ptx_punct(&lexer, ')') && !job->parameter_count)
            break;
        error = read_parameter(job, &lexer, &made);
        if (!error)
            error = add_parameter(job, &made);
    } while (!error && ptx_punct(&lexer, ','));
    if (error || !ptx_punct(&lexer, ')'))
        return error ? error : ptx_refuse(job, COALESCE_PTX_UNKNOWN);
    *directives = lexer.now.at + 1;
    if (job->parameter_count)
        qsort(job->parameters, job->parameter_count, sizeof(*job->parameters), parameter_order);
    for (size_t i = 1; i < job->parameter_count; i++)
        if (parameter_order(&job->parameters[i - 1], &job->parameters[i]) == 0)
            return ptx_refuse(job, COALESCE_PTX_UNKNOWN);
    return 0;
}

/* .reqnctapercluster x, y, z: no cluster may hold blocks of two members. */
static int check_cluster_shape(struct ptx_job *job, struct ptx_lexer *lexer)
{
    uint64_t extent;

    for (int axis = 0;; axis++) {
        ptx_lex_next(lexer);
        if (axis > 2 || !ptx_number(&lexer->now, &extent))
            return ptx_refuse(job, COALESCE_PTX_UNKNOWN);
        if (axis == 2 && extent != 1)
            return ptx_refuse(job, COALESCE_CLUSTER);
        ptx_lex_next(lexer);
        if (!ptx_punct(lexer, ','))
            return job->form & COALESCE_RAGGED ? ptx_refuse(job, COALESCE_CLUSTER) : 0;
    }
}

/* Between the parameters and the body. All but clusters means the same to each block. */
static int check_directives(struct ptx_job *job, const char *start, const char *end)
{
    static const char *const known[] = {".maxntid",      ".reqntid",  ".maxnreg", ".minnctapersm",
                                        ".maxnctapersm", ".noreturn", ".pragma"};
    struct ptx_lexer lexer;
    int error = 0;

    for (ptx_lex_start(&lexer, start, (size_t)(end - start)); !error && lexer.now.kind != PTX_END;) {
        bool fine = lexer.now.kind == PTX_NUMBER || lexer.now.kind == PTX_STRING || ptx_punct(&lexer, ',') ||
                    ptx_punct(&lexer, ';');

        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && !fine; i++)
            fine = ptx_is(&lexer, known[i]);
        if (ptx_is(&lexer, ".reqnctapercluster")) {
            error = check_cluster_shape(job, &lexer);
            continue;
        }
        if (ptx_is(&lexer, ".blocksareclusters"))
            error = ptx_refuse(job, COALESCE_CLUSTER);
        else if (ptx_is(&lexer, ".explicitcluster") || ptx_is(&lexer, ".maxclusterrank"))
            error = job->form & COALESCE_RAGGED ? ptx_refuse(job, COALESCE_CLUSTER) : 0;
        else if (!fine)
            error = ptx_refuse(job, COALESCE_PTX_UNKNOWN);
        ptx_lex_next(&lexer);
    }
    return error;
}

/*
 * The offset of an indexed constant load has 16 bits and a sign, and ptxas 13.0 lets it wrap without a word: offset
 * 0x8110 came out as -0x7ef0, and the kernel read elsewhere (illegal address on an H200). The bank begins up to 0x380
 * bytes before the parameters (sm_100).
 */
enum { INDEXED_MAX = 0x8000 - 0x380 };

static int plan_area(struct ptx_job *job, uint32_t members)
{
    uint32_t most = job->module.version >= 81 && job->module.target >= 70 ? COALESCE_AREA_MAX : AREA_MAX_OLD;
    uint32_t bytes = job->parameter_bytes;
    uint32_t stride = round_up(bytes + COALESCE_MEMBER_HEADER, AREA_ALIGN);
    uint32_t room = most < AREA_BASE + bytes ? 0 : (most - AREA_BASE - bytes) / stride + 1;
    uint32_t capacity = members < room ? members : room;

    if (capacity == 0 || (members > 1 && capacity == 1) || bytes > INDEXED_MAX - AREA_BASE)
        return ptx_refuse(job, COALESCE_PARAMETERS);
    job->layout = (struct coalesce_layout){
        .capacity = capacity,
        .parameter_bytes = bytes,
        .base = AREA_BASE,
        .stride = stride,
        .bytes = AREA_BASE + (capacity - 1) * stride + bytes,
        .form = job->form,
    };
    return 0;
}

/* Text for an architecture that the device is not, or of a kind that is not rewritten. */
static int check_module(struct ptx_job *job)
{
    const struct ptx_module *module = &job->module;

    if (module->debug)
        return ptx_refuse(job, COALESCE_DEBUG);
    if (module->target > job->sm || (module->target_suffix == 'a' && module->target != job->sm) ||
        (module->target_suffix == 'f' && module->target / 10 != job->sm / 10))
        return ptx_refuse(job, COALESCE_NO_CODE);
    return 0;
}

static int write_kernel(struct ptx_job *job, const struct ptx_item *kernel, const char *directives)
{
    struct ptx_text *out = &job->out;

    ptx_text_add(out, kernel->start, (size_t)(kernel->signature - kernel->start));
    ptx_text_add(out, kernel->name.at, kernel->name.length);
    ptx_text_print(out, "(\n\t.param .align 16 .b8 " PTX_AREA "[%u]\n)", job->layout.bytes);
    ptx_text_add(out, directives, (size_t)(kernel->body - directives));
    return ptx_body_rewrite(job, kernel, true);
}

/* A variable whose value is an address would hold the place of a copy. */
static bool mentions_symbols(const struct ptx_job *job, const struct ptx_item *item)
{
    struct ptx_lexer lexer;
    bool value = false;

    ptx_lex_start(&lexer, item->start, (size_t)(item->end - item->start));
    for (; lexer.now.kind != PTX_END; ptx_lex_next(&lexer)) {
        if (ptx_punct(&lexer, '='))
            value = true;
        if (value && lexer.now.kind == PTX_WORD && ptx_module_find(&job->module, ptx_span_of(&lexer.now)))
            return true;
    }
    return false;
}

static int write_item(struct ptx_job *job, const struct ptx_item *item)
{
    struct ptx_text *out = &job->out;

    switch (item->kind) {
    case PTX_ITEM_GLOBAL: /* each place that mentions it has its address now */
        return 0;
    case PTX_ITEM_ENTRY: /* the kernel is written by write_kernel, and none other is reached: place_symbol refuses it */
        return 0;
    case PTX_ITEM_CONST:
        if (mentions_symbols(job, item))
            return ptx_refuse(job, COALESCE_GLOBAL);
        break;
    case PTX_ITEM_FUNCTION:
        if (item->body) {
            ptx_text_add(out, item->start, (size_t)(item->body - item->start));
            return ptx_body_rewrite(job, item, false);
        }
        break;
    default:
        break;
    }
    ptx_text_add(out, item->start, (size_t)(item->end - item->start));
    return 0;
}

static int write_module(struct ptx_job *job, const struct ptx_item *kernel, const char *directives)
{
    int error = 0;

    for (size_t i = 0; i < job->module.item_count && !error; i++) {
        const struct ptx_item *item = &job->module.items[i];

        if (!item->reached && item->kind != PTX_ITEM_HEADER)
            continue;
        error = item == kernel ? write_kernel(job, kernel, directives) : write_item(job, item);
        ptx_text_add(&job->out, "\n", 1);
    }
    if (!error && job->out.failed)
        error = -ENOMEM;
    return error;
}

static int rewrite(struct ptx_job *job, uint32_t members)
{
    const struct coalesce_source *source = job->source;
    struct ptx_span name = {source->kernel, strlen(source->kernel)};
    const char *text = source->bytes, *directives;
    struct ptx_item *kernel;
    int error = ptx_module_read(&job->module, text, strnlen(text, source->size), &job->refusal);

    if (!error)
        error = check_module(job);
    if (error)
        return error;
    kernel = ptx_module_item(&job->module, name);
    if (!kernel || kernel->kind != PTX_ITEM_ENTRY || !kernel->body)
        return ptx_refuse(job, COALESCE_NO_KERNEL);
    error = read_parameters(job, kernel, &directives);
    if (!error)
        error = check_directives(job, directives, kernel->body);
    if (!error)
        error = plan_area(job, members);
    if (!error)
        error = ptx_module_reach(&job->module, kernel);
    if (!error)
        error = write_module(job, kernel, directives);
    return error;
}

int ptx_rewrite(const struct coalesce_source *source, unsigned sm, uint32_t members, unsigned form,
                struct coalesce_output *output, enum coalesce_refusal *refusal)
{
    struct ptx_job job = {.source = source, .sm = sm, .form = form};
    int error = rewrite(&job, members);

    if (!error) {
        *output = (struct coalesce_output){
            .image = job.out.bytes,
            .size = job.out.size,
            .layout = job.layout,
            .code_bytes = (uint32_t)job.out.size,
            .instructions = job.instructions,
            .constants = job.constants,
        };
        job.out.bytes = NULL;
    } else if (error != -ENOMEM) {
        *refusal = job.refusal;
    }
    ptx_module_finish(&job.module);
    free(job.parameters);
    free(job.out.bytes);
    return error;
}
