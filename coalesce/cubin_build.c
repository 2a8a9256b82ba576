/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a cubin from a plan: kept sections in their old order, tables of symbols and names made anew, all indexes
 * renumbered, program headers made from the sections.
 *
 * Order in the file, and program headers, are what ptxas 13.0 writes: header, sections, section headers, program
 * headers; one PT_LOAD for each run of loaded sections of one kind, and one for the program headers themselves.
 */
#include "coalesce/cubin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADER = 64,
    SECTION = 64,
    PROGRAM = 56,
    SYMBOL = 24,
    RELA = 24,
    REL = 16,
    PT_LOAD = 1,
    PT_PHDR = 6,
    PF_X = 1,
    PF_W = 2,
    PF_R = 4,
    SYMBOL_BITS = 24, /* of sh_info of a section with code; above: the register count, before ABI version 8 */
};

static const uint32_t gone = UINT32_MAX;

struct part {
    const unsigned char *data;
    unsigned char *owned; /* what data points to, if it was made here */
    size_t size;
    uint64_t offset;
};

struct build {
    const struct cubin_plan *plan;
    const struct cubin *cubin;
    uint32_t *sections, *symbols; /* old index to new, or gone */
    struct part *parts;           /* by old index */
    uint32_t section_count;
    unsigned char *image;
    size_t size;
};

static uint32_t new_symbol(const struct build *build, uint32_t old)
{
    return old < build->cubin->symbol_count ? build->symbols[old] : gone;
}

static uint32_t new_section(const struct build *build, uint32_t old)
{
    return old < build->cubin->section_count && build->sections[old] != gone ? build->sections[old] : 0;
}

static uint32_t number(uint32_t *map, const bool *keep, uint32_t count)
{
    uint32_t next = 0;

    for (uint32_t i = 0; i < count; i++)
        map[i] = keep[i] ? next++ : gone;
    return next;
}

/* Own copy of a part's data, to be changed in place; its size may be lowered afterwards. */
static unsigned char *own(struct part *part)
{
    if (!part->owned) {
        part->owned = malloc(part->size ? part->size : 1);
        if (!part->owned)
            return NULL;
        if (part->data)
            memcpy(part->owned, part->data, part->size);
        part->data = part->owned;
    }
    return part->owned;
}

static int renumber_relocations(struct build *build, uint32_t index)
{
    struct part *part = &build->parts[index];
    size_t entry = build->cubin->sections[index].type == CUBIN_RELA ? RELA : REL, kept = 0;
    unsigned char *data = own(part);

    if (!data)
        return -ENOMEM;
    for (size_t at = 0; at + entry <= part->size; at += entry) {
        uint32_t symbol = new_symbol(build, cubin_get32(data + at + 12));

        if (symbol == gone)
            continue;
        memmove(data + kept, data + at, entry);
        cubin_put32(data + kept + 12, symbol);
        kept += entry;
    }
    part->size = kept;
    return 0;
}

/* Puts new numbers into the payload of a record; false: it tells about something that is gone. */
static bool renumber_record(const struct build *build, const struct cubin_record *record, unsigned char *payload)
{
    uint32_t symbol;
    size_t end;

    switch (record->attribute) {
    case CUBIN_ATTR_PARAM_CBANK:
    case CUBIN_ATTR_FRAME_SIZE:
    case CUBIN_ATTR_MIN_STACK:
    case CUBIN_ATTR_MAX_STACK:
    case CUBIN_ATTR_REGCOUNT:
        end = record->size >= 4 ? 4 : 0;
        break;
    case CUBIN_ATTR_EXTERNS:
        end = record->size / 4 * 4;
        break;
    default:
        return true;
    }
    for (size_t at = 0; at < end; at += 4) {
        symbol = new_symbol(build, cubin_get32(payload + at));
        if (symbol == gone)
            return false;
        cubin_put32(payload + at, symbol);
    }
    return true;
}

static int renumber_records(struct build *build, uint32_t index)
{
    struct part *part = &build->parts[index];
    struct cubin_section section = {.type = CUBIN_INFO, .size = part->size};
    struct cubin_record record;
    size_t at = 0, kept = 0, start = 0;
    unsigned char *data = own(part);

    if (!data)
        return -ENOMEM;
    section.data = data;
    while (cubin_next_record(&section, &at, &record)) {
        size_t size = at - start;

        /* `start` is never before `kept`, so what follows was not overwritten. */
        memmove(data + kept, data + start, size);
        if (record.format != 4 || renumber_record(build, &record, data + kept + 4))
            kept += size;
        start = at;
    }
    part->size = kept;
    return 0;
}

/* Pairs of caller and callee; numbers from -1 down are marks. */
static int renumber_callgraph(struct build *build, uint32_t index)
{
    struct part *part = &build->parts[index];
    unsigned char *data = own(part);
    size_t kept = 0;

    if (!data)
        return -ENOMEM;
    for (size_t at = 0; at + 8 <= part->size; at += 8) {
        uint32_t pair[2] = {cubin_get32(data + at), cubin_get32(data + at + 4)};
        bool keep = true;

        for (int i = 0; i < 2; i++) {
            if ((int32_t)pair[i] < 0)
                continue;
            pair[i] = new_symbol(build, pair[i]);
            keep = keep && pair[i] != gone;
        }
        if (!keep)
            continue;
        cubin_put32(data + kept, pair[0]);
        cubin_put32(data + kept + 4, pair[1]);
        kept += 8;
    }
    part->size = kept;
    return 0;
}

static void put_symbol(const struct build *build, uint32_t index, unsigned char *entry)
{
    const struct cubin_symbol *symbol = &build->cubin->symbols[index];
    uint32_t section =
        symbol->section < build->cubin->section_count ? new_section(build, symbol->section) : symbol->section;
    uint64_t size = symbol->size;

    if (index == build->plan->kernel_symbol)
        size = build->parts[symbol->section].size;
    entry[4] = symbol->info;
    entry[5] = symbol->other;
    cubin_put16(entry + 6, (uint16_t)section);
    cubin_put64(entry + 8, symbol->value);
    cubin_put64(entry + 16, size);
}

/* The table of symbols and the table of their names. */
static int make_symbols(struct build *build)
{
    const struct cubin *cubin = build->cubin;
    struct part *table = &build->parts[cubin->symbol_table], *names = &build->parts[cubin->string_table];
    size_t bytes = 1, count = 0, at = 1;

    for (uint32_t i = 0; i < cubin->symbol_count; i++) {
        if (build->symbols[i] == gone)
            continue;
        bytes += strlen(cubin->symbols[i].name) + 1;
        count++;
    }
    table->data = table->owned = calloc(count, SYMBOL);
    names->data = names->owned = calloc(1, bytes);
    if (!table->owned || !names->owned)
        return -ENOMEM;
    for (uint32_t i = 0; i < cubin->symbol_count; i++) {
        size_t length = strlen(cubin->symbols[i].name);
        unsigned char *entry;

        if (build->symbols[i] == gone)
            continue;
        entry = table->owned + (size_t)build->symbols[i] * SYMBOL;
        put_symbol(build, i, entry);
        if (length == 0)
            continue;
        memcpy(names->owned + at, cubin->symbols[i].name, length);
        cubin_put32(entry, (uint32_t)at);
        at += length + 1;
    }
    table->size = count * SYMBOL;
    names->size = at;
    return 0;
}

/* Names of sections; a section's place in it goes into `places`. */
static int make_names(struct build *build, uint32_t *places)
{
    const struct cubin *cubin = build->cubin;
    struct part *names = &build->parts[cubin->name_table];
    size_t bytes = 1, at = 1;

    for (uint32_t i = 0; i < cubin->section_count; i++)
        bytes += strlen(cubin->sections[i].name) + 1;
    names->data = names->owned = calloc(1, bytes);
    if (!names->owned)
        return -ENOMEM;
    for (uint32_t i = 1; i < cubin->section_count; i++) {
        size_t length = strlen(cubin->sections[i].name);

        if (build->sections[i] == gone || length == 0)
            continue;
        memcpy(names->owned + at, cubin->sections[i].name, length);
        places[i] = (uint32_t)at;
        at += length + 1;
    }
    names->size = at;
    return 0;
}

static int make_parts(struct build *build)
{
    const struct cubin *cubin = build->cubin;
    int error = 0;

    for (uint32_t i = 1; i < cubin->section_count && error == 0; i++) {
        const struct cubin_change *change = &build->plan->changes[i];
        const struct cubin_section *section = &cubin->sections[i];

        if (build->sections[i] == gone || i == cubin->symbol_table || i == cubin->string_table ||
            i == cubin->name_table)
            continue;
        build->parts[i].data = change->data ? change->data : section->data;
        build->parts[i].size = change->data ? change->size : (size_t)section->size;
        if (section->type == CUBIN_RELA || section->type == CUBIN_REL)
            error = renumber_relocations(build, i);
        else if (section->type == CUBIN_INFO)
            error = renumber_records(build, i);
        else if (section->type == CUBIN_CALLGRAPH)
            error = renumber_callgraph(build, i);
    }
    return error;
}

/* A section that became shorter may have lost a place that a relocation names. */
static bool relocations_fit(const struct build *build)
{
    for (uint32_t i = 1; i < build->cubin->section_count; i++) {
        struct cubin_section section = build->cubin->sections[i];
        size_t left;

        if (build->sections[i] == gone || (section.type != CUBIN_RELA && section.type != CUBIN_REL) ||
            cubin_is_for_debugging(build->cubin, &section))
            continue;
        left = build->parts[section.info].size;
        if (left >= build->cubin->sections[section.info].size)
            continue;
        section.data = build->parts[i].data;
        section.size = build->parts[i].size;
        for (uint32_t k = 0; k < cubin_relocation_count(&section); k++)
            if (left < 4 || cubin_relocation(&section, k).offset > left - 4)
                return false;
    }
    return true;
}

static uint64_t aligned(uint64_t value, uint64_t align)
{
    return align > 1 ? (value + align - 1) & ~(align - 1) : value;
}

static uint64_t lay_out(struct build *build)
{
    uint64_t end = HEADER;

    for (uint32_t i = 1; i < build->cubin->section_count; i++) {
        const struct cubin_section *section = &build->cubin->sections[i];

        if (build->sections[i] == gone || section->type == 0)
            continue;
        end = aligned(end, section->align);
        build->parts[i].offset = end;
        if (section->type != CUBIN_NOBITS)
            end += build->parts[i].size;
    }
    return aligned(end, 8);
}

static uint32_t new_info(const struct build *build, uint32_t index)
{
    const struct cubin_section *section = &build->cubin->sections[index];
    uint32_t symbol, below = 0;

    if (index == build->cubin->symbol_table) { /* the first symbol that is not local */
        for (uint32_t i = 0; i < build->cubin->symbol_count && i < section->info; i++)
            below += build->symbols[i] != gone;
        return below;
    }
    if (section->flags & CUBIN_EXECUTE) {
        symbol = new_symbol(build, section->info & ((1u << SYMBOL_BITS) - 1));
        return (symbol == gone ? 0 : symbol) | (section->info & ~((1u << SYMBOL_BITS) - 1));
    }
    return new_section(build, section->info);
}

static void put_section(const struct build *build, uint32_t index, uint32_t name, unsigned char *header)
{
    const struct cubin_section *section = &build->cubin->sections[index];
    const struct part *part = &build->parts[index];

    cubin_put32(header, name);
    cubin_put32(header + 4, section->type);
    cubin_put64(header + 8, section->flags);
    cubin_put64(header + 24, part->offset);
    cubin_put64(header + 32, part->size);
    cubin_put32(header + 40, new_section(build, section->link));
    cubin_put32(header + 44, new_info(build, index));
    cubin_put64(header + 48, section->align);
    cubin_put64(header + 56, section->entry_size);
}

static void put_program(unsigned char *at, uint32_t type, uint32_t flags, uint64_t offset, uint64_t in_file,
                        uint64_t in_memory)
{
    cubin_put32(at, type);
    cubin_put32(at + 4, flags);
    cubin_put64(at + 8, offset);
    cubin_put64(at + 32, in_file);
    cubin_put64(at + 40, in_memory);
    cubin_put64(at + 48, 8);
}

/* A run of loaded sections of one kind. */
struct segment {
    uint64_t start, file_end, memory;
    uint32_t flags;
    bool nobits;
};

static uint32_t flags_of(const struct cubin_section *section)
{
    return PF_R | (section->flags & CUBIN_EXECUTE ? PF_X : 0) | (section->flags & CUBIN_WRITE ? PF_W : 0);
}

/*
 * Writes PT_LOADs to `at`, or only counts them if it is NULL.
 */
static uint32_t put_segments(const struct build *build, unsigned char *at)
{
    struct segment run = {0};
    uint32_t count = 0;

    for (uint32_t i = 1; i <= build->cubin->section_count; i++) {
        const struct cubin_section *section = i < build->cubin->section_count ? &build->cubin->sections[i] : NULL;
        const struct part *part = section ? &build->parts[i] : NULL;
        bool nobits = section && section->type == CUBIN_NOBITS;

        if (section && (build->sections[i] == gone || !(section->flags & CUBIN_ALLOC)))
            continue;
        if (run.flags && (!section || run.flags != flags_of(section) || (run.nobits && !nobits))) {
            if (at)
                put_program(at + (size_t)count * PROGRAM, PT_LOAD, run.flags, run.start, run.file_end - run.start,
                            run.memory);
            count++;
            run.flags = 0;
        }
        if (!section)
            break;
        if (!run.flags)
            run = (struct segment){.start = part->offset, .file_end = part->offset, .flags = flags_of(section)};
        if (!nobits)
            run.file_end = part->offset + part->size;
        run.memory = nobits ? aligned(run.memory, section->align) + part->size : run.file_end - run.start;
        run.nobits = nobits;
    }
    return count;
}

static void put_sections(const struct build *build, uint64_t headers, const uint32_t *names)
{
    for (uint32_t i = 1; i < build->cubin->section_count; i++) {
        const struct part *part = &build->parts[i];

        if (build->sections[i] == gone)
            continue;
        if (part->data && part->size)
            memcpy(build->image + part->offset, part->data, part->size);
        put_section(build, i, names[i], build->image + headers + (size_t)build->sections[i] * SECTION);
    }
}

static int put_image(struct build *build, const uint32_t *names)
{
    uint64_t headers = lay_out(build), programs = headers + (uint64_t)build->section_count * SECTION;
    uint32_t count = put_segments(build, NULL) + 2;
    uint64_t table = (uint64_t)count * PROGRAM;

    build->size = (size_t)(programs + table);
    build->image = calloc(1, build->size);
    if (!build->image)
        return -ENOMEM;
    memcpy(build->image, build->cubin->bytes, HEADER);
    cubin_put64(build->image + 32, programs);
    cubin_put64(build->image + 40, headers);
    cubin_put16(build->image + 54, PROGRAM);
    cubin_put16(build->image + 56, (uint16_t)count);
    cubin_put16(build->image + 60, (uint16_t)build->section_count);
    cubin_put16(build->image + 62, (uint16_t)build->sections[build->cubin->name_table]);
    put_sections(build, headers, names);
    put_program(build->image + programs, PT_PHDR, PF_R, programs, table, table);
    put_program(build->image + programs + PROGRAM, PT_LOAD, PF_R, programs, table, table);
    put_segments(build, build->image + programs + 2 * PROGRAM);
    return 0;
}

static int build_all(struct build *build)
{
    const struct cubin *cubin = build->cubin;
    uint32_t *names = calloc(cubin->section_count, sizeof(*names));
    int error = -ENOMEM;

    build->sections = calloc(cubin->section_count, sizeof(*build->sections));
    build->symbols = calloc(cubin->symbol_count, sizeof(*build->symbols));
    build->parts = calloc(cubin->section_count, sizeof(*build->parts));
    if (!names || !build->sections || !build->symbols || !build->parts)
        goto out;
    build->section_count = number(build->sections, build->plan->keep_section, cubin->section_count);
    number(build->symbols, build->plan->keep_symbol, cubin->symbol_count);
    error = make_parts(build);
    if (error == 0)
        error = make_symbols(build);
    /* A file may use one table for both kinds of names; the second would replace the first. */
    if (error == 0)
        error = cubin->string_table == cubin->name_table ? -ENOTSUP : make_names(build, names);
    if (error == 0 && !relocations_fit(build))
        error = -ENOTSUP;
    if (error == 0)
        error = put_image(build, names);
out:
    free(names);
    return error;
}

int cubin_build(const struct cubin_plan *plan, void **image, size_t *size)
{
    struct build build = {.plan = plan, .cubin = plan->cubin};
    int error = build_all(&build);

    for (uint32_t i = 0; build.parts && i < build.cubin->section_count; i++)
        free(build.parts[i].owned);
    free(build.parts);
    free(build.sections);
    free(build.symbols);
    if (error < 0)
        return error;
    *image = build.image;
    *size = build.size;
    return 0;
}
