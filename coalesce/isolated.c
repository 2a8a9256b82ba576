/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a kernel uses anything outside itself that is not the same in another process.
 *
 * Machine code: all sections that the kernel's code can get at by relocations are looked at, from its own on. Banks 3
 * and 4 are common to the kernels of a module: bank 4 holds addresses of variables, of which only those count that the
 * code reads; where that cannot be told, all count. PTX: all items that the kernel, and what it mentions, mention.
 */
#include "coalesce/ptx_module.h"
#include "coalesce/sass.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BANK4_WORDS = 8192 }; /* of 8 bytes, of the 64 KiB of a bank */

struct reach {
    const struct cubin *cubin;
    bool *reached, *done; /* of each section */
    bool bank3, bank4_all;
    bool bank4[BANK4_WORDS];
};

static int refuse(enum coalesce_refusal *refusal, enum coalesce_refusal why)
{
    *refusal = why;
    return -ENOTSUP;
}

/* ---- machine code ---- */

/* Which words of the common banks a section of code reads. */
static void read_banks(struct reach *reach, const struct cubin_section *section)
{
    for (uint64_t at = 0; section->data && at + SASS_WORD <= section->size; at += SASS_WORD) {
        struct sass_instruction instruction = sass_decode(sass_word_at(section->data, at));

        if (instruction.kind == SASS_UNKNOWN)
            reach->bank3 = reach->bank4_all = true;
        if (!instruction.constant)
            continue;
        reach->bank3 = reach->bank3 || instruction.bank == 3;
        if (instruction.bank != 4)
            continue;
        reach->bank4_all = reach->bank4_all || instruction.indexed;
        for (uint32_t i = instruction.offset / 8; i <= (instruction.offset + instruction.bytes) / 8; i++)
            if (i < BANK4_WORDS)
                reach->bank4[i] = true;
    }
}

static int look_at_symbol(struct reach *reach, const struct cubin_symbol *symbol, enum coalesce_refusal *refusal)
{
    const struct cubin *cubin = reach->cubin;
    unsigned type = symbol->info & 15;

    if (sass_is_texture(symbol))
        return refuse(refusal, COALESCE_TEXTURE);
    if (symbol->section == 0) {
        if (type == CUBIN_SYMBOL_FUNCTION)
            return sass_never_returns(symbol->name) ? 0 : refuse(refusal, COALESCE_CALLS_OUT);
        if (symbol->name[0] && strncmp(symbol->name, ".nv.reservedSmem", 16) != 0)
            return refuse(refusal, COALESCE_GLOBAL);
        return 0;
    }
    if (symbol->section >= cubin->section_count)
        return 0; /* an absolute number */
    if (sass_is_module_variable(cubin, symbol) && !sass_is_constant_table(cubin, symbol))
        return refuse(refusal, COALESCE_GLOBAL);
    reach->reached[symbol->section] = true;
    return 0;
}

static bool counts(const struct reach *reach, const struct cubin_section *target, uint64_t offset)
{
    if (strcmp(target->name, ".nv.constant4") != 0 || reach->bank4_all)
        return true;
    return offset / 8 < BANK4_WORDS && reach->bank4[offset / 8];
}

static int follow(struct reach *reach, uint32_t target, enum coalesce_refusal *refusal)
{
    const struct cubin *cubin = reach->cubin;

    for (uint32_t i = 1; i < cubin->section_count; i++) {
        const struct cubin_section *section = &cubin->sections[i];
        int error = 0;

        if ((section->type != CUBIN_RELA && section->type != CUBIN_REL) || section->info != target ||
            cubin_is_for_debugging(cubin, section))
            continue;
        for (uint32_t k = 0; k < cubin_relocation_count(section) && error == 0; k++) {
            struct cubin_relocation relocation = cubin_relocation(section, k);

            if (counts(reach, &cubin->sections[target], relocation.offset))
                error = look_at_symbol(reach, &cubin->symbols[relocation.symbol], refusal);
        }
        if (error < 0)
            return error;
    }
    return 0;
}

static bool is_bank(const struct cubin_section *section, const char *bank)
{
    return strcmp(section->name, bank) == 0;
}

/* Banks come last of each round: what the code reads of them is known when all code that was reached was read. */
static int follow_all(struct reach *reach, enum coalesce_refusal *refusal)
{
    const struct cubin *cubin = reach->cubin;
    bool again = true;
    int error = 0;

    while (again && error == 0) {
        again = false;
        for (uint32_t i = 1; i < cubin->section_count && error == 0; i++) {
            const struct cubin_section *section = &cubin->sections[i];

            if (!reach->reached[i] || reach->done[i])
                continue;
            reach->done[i] = again = true;
            if (section->flags & CUBIN_EXECUTE)
                read_banks(reach, section);
            error = follow(reach, i, refusal);
        }
        for (uint32_t i = 1; i < cubin->section_count && error == 0 && !again; i++) {
            bool wanted = is_bank(&cubin->sections[i], ".nv.constant4") ||
                          (reach->bank3 && is_bank(&cubin->sections[i], ".nv.constant3"));

            if (!wanted)
                continue;
            /* Once more each time: code that was reached since may read more of it. */
            error = follow(reach, i, refusal);
            for (uint32_t k = 1; k < cubin->section_count; k++)
                again = again || (reach->reached[k] && !reach->done[k]);
        }
    }
    return error;
}

/* Sections that belong to the kernel by their name: its code, and its banks 0 and 2 (jump tables, constants). */
static void begin(struct reach *reach, uint32_t section, const char *kernel)
{
    reach->reached[section] = true;
    for (uint32_t i = 1; i < reach->cubin->section_count; i++) {
        const char *name = reach->cubin->sections[i].name;

        if (strncmp(name, ".nv.constant", 12) == 0 && name[12] && name[13] == '.' && strcmp(name + 14, kernel) == 0)
            reach->reached[i] = true;
    }
}

static int cubin_isolated(const struct coalesce_source *source, enum coalesce_refusal *refusal)
{
    struct cubin cubin;
    struct reach *reach = calloc(1, sizeof(*reach));
    uint32_t section, symbol;
    int error;

    if (!reach)
        return -ENOMEM;
    error = cubin_open(&cubin, source->bytes, source->size, refusal);
    if (error < 0)
        goto free_reach;
    reach->cubin = &cubin;
    reach->reached = calloc(cubin.section_count, 2 * sizeof(bool));
    section = cubin_find_kernel(&cubin, source->kernel, &symbol);
    if (!reach->reached) {
        error = -ENOMEM;
    } else if (section == 0) {
        error = refuse(refusal, COALESCE_NO_KERNEL);
    } else {
        reach->done = reach->reached + cubin.section_count;
        begin(reach, section, source->kernel);
        if (!sass_target(cubin.sm))
            reach->bank3 = reach->bank4_all = true; /* what its code reads cannot be told */
        error = follow_all(reach, refusal);
    }
    free(reach->reached);
    cubin_close(&cubin);
free_reach:
    free(reach);
    return error;
}

/* ---- PTX ---- */

static bool has_prefix(struct ptx_span name, const char *prefix)
{
    return name.length >= strlen(prefix) && memcmp(name.at, prefix, strlen(prefix)) == 0;
}

static bool is_named(struct ptx_span name, const char *text)
{
    return name.length == strlen(text) && memcmp(name.at, text, name.length) == 0;
}

/* As sass_is_constant_table. */
static bool is_never_written(struct ptx_span name)
{
    return is_named(name, "$str") || has_prefix(name, "$str$") || has_prefix(name, "__unnamed_") ||
           has_prefix(name, "__cudart_");
}

/* Items of variables have no name of their own: a statement may declare several. */
static int look_at_variable(const struct ptx_module *module, struct ptx_symbol *symbol, enum coalesce_refusal *refusal)
{
    const struct ptx_item *item = &module->items[symbol->item];

    if (item->reached && item->kind == PTX_ITEM_GLOBAL && !is_never_written(symbol->name))
        return refuse(refusal, COALESCE_GLOBAL);
    if (item->reached && item->kind == PTX_ITEM_TEXTURE)
        return refuse(refusal, COALESCE_TEXTURE);
    return 0;
}

/* A function that is only declared, and that nobody in the module defines. */
static bool calls_out(const struct ptx_module *module, const struct ptx_item *item)
{
    const struct ptx_item *definition;

    if (!item->reached || item->kind != PTX_ITEM_FUNCTION || item->body || is_named(item->name, "__assertfail"))
        return false;
    definition = ptx_module_item(module, item->name);
    return !definition || (definition->kind == PTX_ITEM_FUNCTION && !definition->body);
}

static int ptx_isolated(const struct coalesce_source *source, enum coalesce_refusal *refusal)
{
    struct ptx_module module = {0};
    struct ptx_item *entry;
    int error = ptx_module_read(&module, source->bytes, source->size, refusal);

    if (error < 0)
        goto finish;
    entry = ptx_module_item(&module, (struct ptx_span){source->kernel, strlen(source->kernel)});
    if (!entry || entry->kind != PTX_ITEM_ENTRY || !entry->body) {
        error = refuse(refusal, COALESCE_NO_KERNEL);
        goto finish;
    }
    error = ptx_module_reach(&module, entry);
    if (error == -ENOTSUP || error == -EINVAL)
        *refusal = COALESCE_PTX_UNKNOWN;
    for (size_t i = 0; i < module.symbol_count && error == 0; i++)
        error = look_at_variable(&module, &module.symbols[i], refusal);
    for (size_t i = 0; i < module.item_count && error == 0; i++)
        if (calls_out(&module, &module.items[i]))
            error = refuse(refusal, COALESCE_CALLS_OUT);
finish:
    ptx_module_finish(&module);
    return error;
}

int coalesce_isolated(const struct coalesce_source *source, enum coalesce_refusal *refusal)
{
    return source->code == COALESCE_PTX ? ptx_isolated(source, refusal) : cubin_isolated(source, refusal);
}
