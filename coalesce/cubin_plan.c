/* SPDX-License-Identifier: Apache-2.0
 *
 * Which parts of a cubin one kernel needs. A library's cubin holds hundreds of kernels, and each rewritten kernel is
 * loaded as a module of its own, so what it does not need is left out.
 *
 * Sections that are not known make the choice fail: then the whole cubin is loaded. That costs memory, not results.
 */
#include "coalesce/cubin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int cubin_plan_init(struct cubin_plan *plan, const struct cubin *cubin, uint32_t kernel, uint32_t kernel_symbol)
{
    *plan = (struct cubin_plan){
        .cubin = cubin,
        .keep_section = calloc(cubin->section_count, sizeof(*plan->keep_section)),
        .keep_symbol = calloc(cubin->symbol_count, sizeof(*plan->keep_symbol)),
        .changes = calloc(cubin->section_count, sizeof(*plan->changes)),
        .kernel = kernel,
        .kernel_symbol = kernel_symbol,
    };
    if (plan->keep_section && plan->keep_symbol && plan->changes)
        return 0;
    cubin_plan_finish(plan);
    return -ENOMEM;
}

void cubin_plan_finish(struct cubin_plan *plan)
{
    for (uint32_t i = 0; plan->changes && i < plan->cubin->section_count; i++)
        free(plan->changes[i].data);
    free(plan->changes);
    free(plan->keep_section);
    free(plan->keep_symbol);
    *plan = (struct cubin_plan){0};
}

unsigned char *cubin_plan_change(struct cubin_plan *plan, uint32_t section, size_t size)
{
    const struct cubin_section *old = &plan->cubin->sections[section];
    struct cubin_change *change = &plan->changes[section];
    unsigned char *data = calloc(1, size ? size : 1);

    if (!data)
        return NULL;
    if (old->data)
        memcpy(data, old->data, old->size < size ? (size_t)old->size : size);
    free(change->data);
    *change = (struct cubin_change){.data = data, .size = size};
    return data;
}

void cubin_plan_keep_all(struct cubin_plan *plan)
{
    memset(plan->keep_section, true, plan->cubin->section_count);
    memset(plan->keep_symbol, true, plan->cubin->symbol_count);
    plan->whole = true;
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool is_executable(const struct cubin_section *section)
{
    return (section->flags & CUBIN_EXECUTE) != 0;
}

static bool is_relocation(const struct cubin_section *section)
{
    return section->type == CUBIN_RELA || section->type == CUBIN_REL;
}

/* Sections that every cubin keeps: tables, notes, what the driver asks about the toolchain, reserved shared memory. */
static bool is_always_kept(const struct cubin *cubin, uint32_t index)
{
    const struct cubin_section *section = &cubin->sections[index];

    return index == cubin->symbol_table || index == cubin->string_table || index == cubin->name_table ||
           section->type == CUBIN_CALLGRAPH || strcmp(section->name, ".nv.info") == 0 ||
           strcmp(section->name, ".nv.compat") == 0 || starts_with(section->name, ".note.nv.") ||
           strcmp(section->name, ".nv.rel.action") == 0 || starts_with(section->name, ".nv.shared.reserved.");
}

/* Belongs to one function: its information, constants, shared memory. */
static bool belongs_to_code(const struct cubin *cubin, const struct cubin_section *section)
{
    if (is_executable(section) || is_relocation(section) || section->info == 0 ||
        section->info >= cubin->section_count || !is_executable(&cubin->sections[section->info]))
        return false;
    return section->type == CUBIN_PROGBITS || section->type == CUBIN_NOBITS || section->type == CUBIN_INFO;
}

static bool may_be_dropped(const struct cubin *cubin, const struct cubin_section *section)
{
    if (section->type == 0 || is_executable(section) || is_relocation(section) || belongs_to_code(cubin, section))
        return true;
    if (starts_with(section->name, ".debug") || starts_with(section->name, ".nv_debug") ||
        starts_with(section->name, ".nv.global") || starts_with(section->name, ".nv.constant"))
        return true;
    return false;
}

/* Records of one function that hold no symbol but the ones that the builder renumbers (seen in ptxas output). */
static bool record_is_known(const struct cubin_record *record)
{
    static const uint8_t known[] = {0x04, 0x05, 0x0a, 0x0f, 0x10, 0x17, 0x19, 0x1b, 0x1c, 0x1d, 0x1e, 0x21, 0x25, 0x27,
                                    0x28, 0x29, 0x2a, 0x2b, 0x2e, 0x30, 0x31, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3d,
                                    0x3e, 0x3f, 0x41, 0x44, 0x45, 0x46, 0x47, 0x4a, 0x4c, 0x50, 0x54, 0x55, 0x5f};

    return record->format < 4 || memchr(known, record->attribute, sizeof(known));
}

static bool records_are_known(const struct cubin_section *section)
{
    struct cubin_record record;
    size_t at = 0;

    while (cubin_next_record(section, &at, &record))
        if (!record_is_known(&record))
            return false;
    return true;
}

/* The section as it will be: changed data count. */
static struct cubin_section as_changed(const struct cubin_plan *plan, uint32_t index)
{
    struct cubin_section section = plan->cubin->sections[index];

    if (plan->changes[index].data) {
        section.data = plan->changes[index].data;
        section.size = plan->changes[index].size;
    }
    return section;
}

static bool keep_targets(struct cubin_plan *plan, uint32_t index)
{
    struct cubin_section section = as_changed(plan, index);
    bool grew = false;

    for (uint32_t i = 0; i < cubin_relocation_count(&section); i++) {
        uint32_t symbol = cubin_relocation(&section, i).symbol, home = plan->cubin->symbols[symbol].section;

        plan->keep_symbol[symbol] = true;
        if (home == 0 || home >= plan->cubin->section_count || plan->keep_section[home])
            continue;
        plan->keep_section[home] = true;
        grew = true;
    }
    return grew;
}

static bool is_needed(const struct cubin_plan *plan, uint32_t index)
{
    const struct cubin *cubin = plan->cubin;
    const struct cubin_section *section = &cubin->sections[index];

    if (index == 0 || is_always_kept(cubin, index))
        return true;
    if (is_relocation(section) || belongs_to_code(cubin, section))
        return plan->keep_section[section->info];
    return false;
}

/*
 * Relocations count once they were looked at (so they have data of their own in the plan): some are dropped then.
 * Each round keeps more, or is the last; so there are at most as many as sections. Few in fact: calls nest little.
 */
void cubin_plan_grow(struct cubin_plan *plan)
{
    bool grew = true;

    while (grew) {
        grew = false;
        for (uint32_t i = 0; i < plan->cubin->section_count; i++) {
            if (!plan->keep_section[i] && is_needed(plan, i))
                plan->keep_section[i] = grew = true;
            if (plan->keep_section[i] && plan->changes[i].data && is_relocation(&plan->cubin->sections[i]) &&
                keep_targets(plan, i))
                grew = true;
        }
    }
}

/*
 * Descriptions of frames are left out, but an empty section stays in their place: all cubins have one, before the
 * notes, and NVIDIA's cuobjdump calls a cubin invalid whose notes come earlier.
 */
static int keep_empty_frames(struct cubin_plan *plan)
{
    for (uint32_t i = 1; i < plan->cubin->section_count; i++) {
        const struct cubin_section *section = &plan->cubin->sections[i];

        if (plan->keep_section[i] || section->type != CUBIN_PROGBITS || is_executable(section) ||
            strcmp(section->name, ".debug_frame") != 0)
            continue;
        plan->keep_section[i] = true;
        if (!cubin_plan_change(plan, i, 0))
            return -ENOMEM;
    }
    return 0;
}

int cubin_plan_close(struct cubin_plan *plan)
{
    const struct cubin *cubin = plan->cubin;

    cubin_plan_grow(plan);
    if (keep_empty_frames(plan) < 0)
        return -ENOMEM;
    for (uint32_t i = 1; i < cubin->section_count; i++) {
        const struct cubin_section *section = &cubin->sections[i];

        if (!plan->keep_section[i] && !may_be_dropped(cubin, section))
            return -ENOTSUP;
        if (plan->keep_section[i] && section->type == CUBIN_INFO && section->info && !records_are_known(section))
            return -ENOTSUP;
        /* Kept for its name, or because a symbol is in it: it would belong to section 0. */
        if (plan->keep_section[i] && (is_relocation(section) || belongs_to_code(cubin, section)) &&
            !plan->keep_section[section->info])
            return -ENOTSUP;
    }
    plan->keep_symbol[0] = true;
    for (uint32_t i = 1; i < cubin->symbol_count; i++) {
        const struct cubin_symbol *symbol = &cubin->symbols[i];

        if (symbol->section == 0 ? starts_with(symbol->name, ".nv.reservedSmem")
                                 : symbol->section < cubin->section_count && plan->keep_section[symbol->section])
            plan->keep_symbol[i] = true;
    }
    return 0;
}
