/* SPDX-License-Identifier: Apache-2.0
 *
 * The new cubin: rewritten code, an enlarged parameter area, records that say so, and variables of the module replaced
 * by the addresses of the program's own copies.
 */
#include "coalesce/sass.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    AREA_BASE = 0x200,       /* a member's parameters are then where bank 0 had them (sass_rewrite.c) */
    AREA_ALIGN = 128,        /* of members: descriptors of tensors in parameters need 64; a block's handle needs 64 */
    KPARAM_SIZE_MAX = 16383, /* in the first kind of record: 14 bits */
    KPARAM_FLAGS = 0x1f000,  /* of the first kind: bank 0x1f, alignment 1, as ptxas writes */
    R_CUDA_64 = 2,           /* an address of 64 bits */
};

struct job {
    const struct coalesce_source *source;
    struct cubin cubin;
    struct sass_facts facts;
    struct sass_registers registers;
    struct coalesce_layout layout;
    struct cubin_plan plan;
    bool constants;
    uint32_t instructions;
    uint32_t code_bytes;
};

static int refuse(enum coalesce_refusal *refusal, enum coalesce_refusal why)
{
    *refusal = why;
    return -ENOTSUP;
}

static int make_layout(struct job *job, uint32_t members, unsigned form, enum coalesce_refusal *refusal)
{
    uint32_t bytes = job->facts.parameter_bytes, capacity;
    uint32_t stride = (bytes + COALESCE_MEMBER_HEADER + AREA_ALIGN - 1) / AREA_ALIGN * AREA_ALIGN;

    if (members == 0 || bytes > COALESCE_AREA_MAX - AREA_BASE)
        return refuse(refusal, COALESCE_PARAMETERS);
    capacity = (COALESCE_AREA_MAX - AREA_BASE - bytes) / stride + 1;
    if (capacity > members)
        capacity = members;
    if (capacity < 2 && members > 1)
        return refuse(refusal, COALESCE_PARAMETERS);
    job->layout = (struct coalesce_layout){
        .capacity = capacity,
        .parameter_bytes = bytes,
        .base = AREA_BASE,
        .stride = stride,
        .bytes = AREA_BASE + (capacity - 1) * stride + bytes,
        .form = form,
    };
    return 0;
}

/* ---- variables ---- */

bool sass_is_texture(const struct cubin_symbol *symbol)
{
    return (symbol->info & 15) >= 10 && (symbol->info & 15) <= 13; /* types of textures, samplers, surfaces */
}

bool sass_is_module_variable(const struct cubin *cubin, const struct cubin_symbol *symbol)
{
    const struct cubin_section *home;

    if (symbol->section == 0)
        return (symbol->info & 15) == CUBIN_SYMBOL_OBJECT && strncmp(symbol->name, ".nv.reservedSmem", 16) != 0;
    if (symbol->section >= cubin->section_count)
        return false;
    home = &cubin->sections[symbol->section];
    return strncmp(home->name, ".nv.global", 10) == 0;
}

/*
 * Tables of the mathematical functions, string literals ($str, $str$1) and names of functions (__unnamed_1): never
 * written, so a copy of them is as good.
 */
bool sass_is_constant_table(const struct cubin *cubin, const struct cubin_symbol *symbol)
{
    return symbol->section && strcmp(cubin->sections[symbol->section].name, ".nv.global.init") == 0 &&
           (strncmp(symbol->name, "__cudart_", 9) == 0 || strcmp(symbol->name, "$str") == 0 ||
            strncmp(symbol->name, "$str$", 5) == 0 || strncmp(symbol->name, "__unnamed_", 10) == 0);
}

/* What happens to a relocation. */
enum fate { KEEP, DROP, RESOLVE };

static int find_fate(struct job *job, const struct cubin_section *section, const struct cubin_relocation *relocation,
                     enum fate *fate, uint64_t *value, enum coalesce_refusal *refusal)
{
    const struct cubin *cubin = &job->cubin;
    const struct cubin_symbol *symbol = &cubin->symbols[relocation->symbol];
    const struct cubin_section *target = &cubin->sections[section->info];
    uint64_t address;

    *fate = KEEP;
    if (sass_is_texture(symbol))
        return refuse(refusal, COALESCE_TEXTURE);
    if (symbol->section == 0 && (symbol->info & 15) == CUBIN_SYMBOL_FUNCTION)
        return sass_never_returns(symbol->name) ? 0 : refuse(refusal, COALESCE_CALLS_OUT);
    if (symbol->section && symbol->section < cubin->section_count &&
        strncmp(cubin->sections[symbol->section].name, ".nv.constant3", 13) == 0)
        job->constants = true;
    if (!sass_is_module_variable(cubin, symbol) || sass_is_constant_table(cubin, symbol))
        return 0;
    address = job->source->address ? job->source->address(job->source->context, symbol->name) : 0;
    if (address == 0 || relocation->type != R_CUDA_64 || (target->flags & CUBIN_EXECUTE) || !target->data ||
        target->size < 8 || relocation->offset > target->size - 8)
        return refuse(refusal, COALESCE_GLOBAL);
    *fate = RESOLVE;
    *value = address + (uint64_t)relocation->addend;
    return 0;
}

static unsigned char *changed_data(struct job *job, uint32_t section)
{
    if (job->plan.changes[section].data)
        return job->plan.changes[section].data;
    return cubin_plan_change(&job->plan, section, (size_t)job->cubin.sections[section].size);
}

/* Bank 4 holds addresses for all kernels of the module; those of variables that others use do not matter. */
static bool is_used(const struct job *job, const struct cubin_section *target, uint64_t offset)
{
    const struct sass_facts *facts = &job->facts;

    if (strcmp(target->name, ".nv.constant4") != 0 || facts->bank4_indexed)
        return true;
    return offset / 8 < 8192 && (facts->bank4_used[offset / 8 / 64] >> (offset / 8 % 64) & 1);
}

static int resolve_section(struct job *job, uint32_t index, enum coalesce_refusal *refusal)
{
    const struct cubin_section *section = &job->cubin.sections[index];
    uint32_t count = cubin_relocation_count(section), kept = 0;
    size_t entry = count ? (size_t)(section->size / count) : 0;
    unsigned char *records;

    /* Something that is loaded refers to debug information, under its name at least. */
    if (cubin_is_for_debugging(&job->cubin, section))
        return refuse(refusal, COALESCE_IMAGE_KIND);
    records = cubin_plan_change(&job->plan, index, (size_t)section->size);
    if (!records)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        struct cubin_relocation relocation = cubin_relocation(section, i);
        enum fate fate = DROP;
        uint64_t value = 0;
        int error = 0;

        if (is_used(job, &job->cubin.sections[section->info], relocation.offset))
            error = find_fate(job, section, &relocation, &fate, &value, refusal);
        if (error < 0)
            return error;
        if (fate == KEEP) {
            memmove(records + kept * entry, records + i * entry, entry);
            kept++;
        } else if (fate == RESOLVE) {
            unsigned char *data = changed_data(job, section->info);

            if (!data)
                return -ENOMEM;
            cubin_put64(data + relocation.offset, value);
        }
    }
    job->plan.changes[index].size = kept * entry;
    return 0;
}

/* Kept sections may need more sections, whose relocations may need more. */
static int resolve(struct job *job, enum coalesce_refusal *refusal)
{
    const struct cubin *cubin = &job->cubin;
    bool again = true;

    while (again) {
        again = false;
        for (uint32_t i = 1; i < cubin->section_count; i++) {
            const struct cubin_section *section = &cubin->sections[i];
            int error;

            if ((section->type != CUBIN_RELA && section->type != CUBIN_REL) || job->plan.changes[i].data ||
                !job->plan.keep_section[section->info])
                continue;
            error = resolve_section(job, i, refusal);
            if (error < 0)
                return error;
            again = true;
        }
        if (again)
            cubin_plan_grow(&job->plan);
    }
    return 0;
}

/* ---- code ---- */

static uint32_t find_section(const struct cubin *cubin, const char *name)
{
    for (uint32_t i = 1; i < cubin->section_count; i++)
        if (strcmp(cubin->sections[i].name, name) == 0)
            return i;
    return 0;
}

static void keep_bank(struct job *job, bool reads, const char *name)
{
    uint32_t section = find_section(&job->cubin, name);

    if (reads && section)
        job->plan.keep_section[section] = true;
}

/* Which functions a kernel calls is known from relocations; what they read may need more sections. */
static int analyse_callees(struct job *job, enum coalesce_refusal *refusal)
{
    const struct cubin *cubin = &job->cubin;
    bool *seen = calloc(cubin->section_count, sizeof(*seen)), again = true;
    int error = seen ? 0 : -ENOMEM;

    while (again && error == 0) {
        again = false;
        keep_bank(job, job->facts.bank3, ".nv.constant3");
        keep_bank(job, job->facts.bank4, ".nv.constant4");
        cubin_plan_grow(&job->plan);
        error = resolve(job, refusal);
        for (uint32_t i = 1; i < cubin->section_count && error == 0; i++) {
            if (!job->plan.keep_section[i] || seen[i] || i == job->facts.section ||
                !(cubin->sections[i].flags & CUBIN_EXECUTE))
                continue;
            seen[i] = again = true;
            error = sass_analyse_code(&job->facts, i, refusal);
        }
    }
    free(seen);
    job->constants = job->constants || job->facts.bank3;
    return error;
}

static bool relocated(const struct job *job, uint32_t section, const struct sass_code *code)
{
    const struct cubin *cubin = &job->cubin;

    for (uint32_t i = 1; i < cubin->section_count; i++) {
        const struct cubin_section *relocations = &cubin->sections[i];

        if ((relocations->type != CUBIN_RELA && relocations->type != CUBIN_REL) || relocations->info != section)
            continue;
        for (uint32_t k = 0; k < cubin_relocation_count(relocations); k++)
            if (code->changed_at[cubin_relocation(relocations, k).offset / SASS_WORD])
                return true;
    }
    return false;
}

static int rewrite_section(struct job *job, uint32_t section, enum coalesce_refusal *refusal)
{
    struct sass_code code;
    int error = sass_rewrite_code(&job->facts, section, &job->registers, &job->layout, &code, refusal);

    if (error < 0)
        return error;
    job->instructions += code.changed;
    if (code.changed && relocated(job, section, &code)) {
        error = refuse(refusal, COALESCE_RELOCATION);
    } else if (code.changed) {
        job->plan.changes[section] = (struct cubin_change){.data = code.bytes, .size = code.size};
        code.bytes = NULL; /* the plan's now */
    }
    if (section == job->facts.section)
        job->code_bytes = (uint32_t)job->cubin.sections[section].size;
    sass_code_finish(&code);
    return error;
}

static int rewrite_sections(struct job *job, enum coalesce_refusal *refusal)
{
    int error = 0;

    for (uint32_t i = 1; i < job->cubin.section_count && error == 0; i++)
        if (job->plan.keep_section[i] && (job->cubin.sections[i].flags & CUBIN_EXECUTE))
            error = rewrite_section(job, i, refusal);
    return error;
}

/* ---- records ---- */

static void put_record(unsigned char *at, uint8_t format, uint8_t attribute, uint16_t value)
{
    at[0] = format;
    at[1] = attribute;
    cubin_put16(at + 2, value);
}

/* One parameter that is the whole area. */
static void put_parameter(unsigned char *at, uint32_t bytes)
{
    bool small = bytes <= KPARAM_SIZE_MAX;

    memset(at, 0, 16);
    put_record(at, 4, small ? CUBIN_ATTR_KPARAM : CUBIN_ATTR_KPARAM_V2, 12);
    cubin_put32(at + 12, small ? bytes << 18 | KPARAM_FLAGS : bytes);
}

static int change_records(struct job *job)
{
    const struct cubin_section *old = &job->cubin.sections[job->facts.info];
    unsigned char *data = cubin_plan_change(&job->plan, job->facts.info, (size_t)old->size + 4);
    uint32_t bytes = job->layout.bytes;
    size_t at = 0, start = 0, end = 0;
    struct cubin_record record;
    bool done = false, says_z = !job->facts.target->z_record;

    if (!data)
        return -ENOMEM;
    while (cubin_next_record(old, &at, &record)) {
        bool parameter = record.attribute == CUBIN_ATTR_KPARAM || record.attribute == CUBIN_ATTR_KPARAM_V2;
        size_t size = at - start;

        says_z = says_z || record.attribute == CUBIN_ATTR_CTAID_Z_USED;
        if (!parameter) {
            memcpy(data + end, old->data + start, size);
            if (record.attribute == CUBIN_ATTR_CBANK_PARAM_SIZE)
                cubin_put16(data + end + 2, (uint16_t)bytes);
            else if (record.attribute == CUBIN_ATTR_PARAM_CBANK && record.size >= 8)
                cubin_put16(data + end + 10, (uint16_t)bytes);
            end += size;
        } else if (!done && size >= 16) {
            put_parameter(data + end, bytes);
            end += 16;
            done = true;
        }
        start = at;
    }
    if (!says_z) { /* the prologue reads it */
        put_record(data + end, 1, CUBIN_ATTR_CTAID_Z_USED, 0);
        end += 4;
    }
    job->plan.changes[job->facts.info].size = end;
    return 0;
}

/* The record of the register count, for the register that the indexed form adds. */
static int change_register_count(struct job *job)
{
    for (uint32_t i = 1; i < job->cubin.section_count; i++) {
        const struct cubin_section *section = &job->cubin.sections[i];
        struct cubin_record record;
        unsigned char *data;
        size_t at = 0;

        if (section->type != CUBIN_INFO || section->info != 0)
            continue;
        data = changed_data(job, i);
        if (!data)
            return -ENOMEM;
        while (cubin_next_record(section, &at, &record))
            if (record.attribute == CUBIN_ATTR_REGCOUNT && record.size >= 8 &&
                cubin_get32(record.payload) == job->facts.symbol)
                cubin_put32(data + (record.payload - section->data) + 4, job->facts.registers + 1);
    }
    return 0;
}

static int change_sections(struct job *job)
{
    size_t bank = job->facts.target->parameter_base + job->layout.bytes;
    int error = change_records(job);

    if (error == 0 && !cubin_plan_change(&job->plan, job->facts.constant0, bank))
        error = -ENOMEM;
    if (error == 0 && job->registers.place_register)
        error = change_register_count(job);
    return error;
}

/* ---- all of it ---- */

static int check_form(const struct job *job, unsigned form, enum coalesce_refusal *refusal)
{
    if ((form & COALESCE_RAGGED) && job->facts.clusters)
        return refuse(refusal, COALESCE_CLUSTER);
    if ((form & COALESCE_RAGGED) && job->facts.reads_count)
        return refuse(refusal, COALESCE_SPECIAL);
    return 0;
}

static int rewrite(struct job *job, uint32_t members, unsigned form, enum cubin_build build,
                   struct coalesce_output *output, enum coalesce_refusal *refusal)
{
    int error = analyse_callees(job, refusal);

    if (error == 0)
        error = check_form(job, form, refusal);
    if (error == 0)
        error = make_layout(job, members, form, refusal);
    if (error == 0)
        error = sass_choose_registers(&job->facts, form, &job->registers, refusal);
    if (error == 0)
        error = rewrite_sections(job, refusal);
    if (error == 0)
        error = change_sections(job);
    if (error < 0)
        return error;
    if (build == CUBIN_WHOLE)
        cubin_plan_keep_all(&job->plan);
    else
        error = cubin_plan_close(&job->plan);
    if (error == 0)
        error = cubin_build(&job->plan, &output->image, &output->size);
    if (error == -ENOTSUP)
        *refusal = COALESCE_IMAGE_KIND;
    return error;
}

static bool is_wanted(const struct coalesce_source *source, unsigned sm)
{
    const struct sass_target *target = sass_target(sm);

    return target && (target->proven || source->unproven);
}

int sass_rewrite_avoiding(const struct coalesce_source *source, unsigned sm, uint32_t members, unsigned form,
                          enum cubin_build build, uint64_t avoid, struct coalesce_output *output,
                          enum coalesce_refusal *refusal)
{
    struct coalesce_output made = {0};
    struct job job = {.source = source};
    int error;

    if (!is_wanted(source, sm))
        return refuse(refusal, COALESCE_ARCHITECTURE);
    error = cubin_open(&job.cubin, source->bytes, source->size, refusal);
    if (error < 0)
        return error;
    if (job.cubin.sm / 10 != sm / 10 || job.cubin.sm > sm) /* a device runs code for lower minor versions too */
        error = refuse(refusal, COALESCE_NO_CODE);
    else if (!is_wanted(source, job.cubin.sm))
        error = refuse(refusal, COALESCE_ARCHITECTURE);
    else
        error = sass_analyse(&job.cubin, source->kernel, &job.facts, refusal);
    if (error == 0)
        error = cubin_plan_init(&job.plan, &job.cubin, job.facts.section, job.facts.symbol);
    if (error == 0) {
        job.plan.keep_section[job.facts.section] = true;
        job.facts.uniform_written |= avoid;
        error = rewrite(&job, members, form, build, &made, refusal);
        cubin_plan_finish(&job.plan);
    }
    cubin_close(&job.cubin);
    if (error < 0)
        return error;
    made.layout = job.layout;
    made.code_bytes = job.code_bytes;
    made.instructions = job.instructions;
    made.constants = job.constants;
    *output = made;
    return 0;
}

int sass_rewrite_with(const struct coalesce_source *source, unsigned sm, uint32_t members, unsigned form,
                      enum cubin_build build, struct coalesce_output *output, enum coalesce_refusal *refusal)
{
    return sass_rewrite_avoiding(source, sm, members, form, build, 0, output, refusal);
}

int sass_rewrite(const struct coalesce_source *source, unsigned sm, uint32_t members, unsigned form,
                 struct coalesce_output *output, enum coalesce_refusal *refusal)
{
    enum coalesce_refusal why;
    int error = sass_rewrite_with(source, sm, members, form, CUBIN_SUBSET, output, &why);

    if (error == -ENOTSUP && why == COALESCE_IMAGE_KIND)
        error = sass_rewrite_with(source, sm, members, form, CUBIN_WHOLE, output, &why);
    if (error == -ENOTSUP || error == -EINVAL)
        *refusal = why;
    return error;
}
