/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader of cubins. Everything is checked here, in one pass, before anybody uses it.
 */
#include "coalesce/cubin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Sizes and places of ELF64 structures. */
    HEADER = 64,
    SECTION = 64,
    SYMBOL = 24,
    RELA = 24,
    REL = 16,
    MACHINE_CUDA = 190,
    /* e_ident[7] and [8] since ABI version 8, where the architecture moved in e_flags (ptxas 13.0 output). */
    OSABI_CUDA_V8 = 0x41,
    WORD = 16,
    SECTIONS_MAX = 0xff00, /* indexes from here on mean something else in ELF */
};

static const size_t size_max = (size_t)1 << 31; /* far above any image seen; keeps sums in range */
static const size_t names_max = 4;              /* bytes of names per byte of image: some share their end */

uint16_t cubin_get16(const unsigned char *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

uint32_t cubin_get32(const unsigned char *at)
{
    return cubin_get16(at) | (uint32_t)cubin_get16(at + 2) << 16;
}

uint64_t cubin_get64(const unsigned char *at)
{
    return cubin_get32(at) | (uint64_t)cubin_get32(at + 4) << 32;
}

void cubin_put16(unsigned char *at, uint16_t value)
{
    at[0] = (unsigned char)value;
    at[1] = (unsigned char)(value >> 8);
}

void cubin_put32(unsigned char *at, uint32_t value)
{
    cubin_put16(at, (uint16_t)value);
    cubin_put16(at + 2, (uint16_t)(value >> 16));
}

void cubin_put64(unsigned char *at, uint64_t value)
{
    cubin_put32(at, (uint32_t)value);
    cubin_put32(at + 4, (uint32_t)(value >> 32));
}

/*
 * NULL unless the string ends inside its table. `budget` bounds the bytes of all names together: many long names could
 * share one place, and make more work than the image is large.
 */
static const char *text_at(const struct cubin_section *table, uint32_t offset, size_t *budget)
{
    const char *text, *end;

    if (!table->data || offset >= table->size)
        return NULL;
    text = (const char *)table->data + offset;
    end = memchr(text, 0, (size_t)(table->size - offset));
    if (!end || (size_t)(end - text) >= *budget)
        return NULL;
    *budget -= (size_t)(end - text) + 1;
    return text;
}

/* What is read as a table, and may become shorter, cannot be code too. */
static bool is_table(uint32_t type)
{
    return type == CUBIN_SYMTAB || type == CUBIN_STRTAB || type == CUBIN_RELA || type == CUBIN_REL ||
           type == CUBIN_INFO || type == CUBIN_CALLGRAPH;
}

static bool read_section(const struct cubin *cubin, const unsigned char *header, struct cubin_section *section)
{
    uint64_t offset = cubin_get64(header + 24), size = cubin_get64(header + 32);

    *section = (struct cubin_section){
        .type = cubin_get32(header + 4),
        .flags = cubin_get64(header + 8),
        .size = size,
        .link = cubin_get32(header + 40),
        .info = cubin_get32(header + 44),
        .align = cubin_get64(header + 48),
        .entry_size = cubin_get64(header + 56),
    };
    if (section->align > 4096 || (section->align & (section->align - 1)) || size > size_max)
        return false;
    if (section->type == 0) {
        section->size = 0;
        return true;
    }
    if (section->type == CUBIN_NOBITS)
        return true;
    if (offset > cubin->size || size > cubin->size - offset)
        return false;
    section->data = cubin->bytes + offset;
    return !(section->flags & CUBIN_EXECUTE) || (size % WORD == 0 && !is_table(section->type));
}

static bool read_names(struct cubin *cubin, const unsigned char *headers)
{
    const struct cubin_section *table = &cubin->sections[cubin->name_table];
    size_t budget = names_max * cubin->size;

    if (table->type != CUBIN_STRTAB)
        return false;
    for (uint32_t i = 0; i < cubin->section_count; i++) {
        struct cubin_section *section = &cubin->sections[i];

        section->name = i ? text_at(table, cubin_get32(headers + (size_t)i * SECTION), &budget) : "";
        if (!section->name)
            return false;
        if (section->type == CUBIN_SYMTAB) {
            if (cubin->symbol_table || section->link >= cubin->section_count)
                return false;
            cubin->symbol_table = i;
            cubin->string_table = section->link;
        }
    }
    return cubin->symbol_table && cubin->sections[cubin->string_table].type == CUBIN_STRTAB;
}

static int read_sections(struct cubin *cubin)
{
    uint64_t offset = cubin_get64(cubin->bytes + 40), total = 0;
    uint32_t count = cubin_get16(cubin->bytes + 60);

    if (cubin_get16(cubin->bytes + 58) != SECTION || count < 2 || count >= SECTIONS_MAX || offset > cubin->size ||
        (uint64_t)count * SECTION > cubin->size - offset)
        return -EINVAL;
    cubin->name_table = cubin_get16(cubin->bytes + 62);
    if (cubin->name_table >= count)
        return -EINVAL;
    cubin->sections = calloc(count, sizeof(*cubin->sections));
    if (!cubin->sections)
        return -ENOMEM;
    cubin->section_count = count;
    for (uint32_t i = 0; i < count; i++) {
        if (!read_section(cubin, cubin->bytes + offset + (size_t)i * SECTION, &cubin->sections[i]))
            return -EINVAL;
        total += cubin->sections[i].data ? cubin->sections[i].size : 0;
    }
    if (total > cubin->size) /* overlapping sections: what is built from them would be larger than the image */
        return -EINVAL;
    return read_names(cubin, cubin->bytes + offset) ? 0 : -EINVAL;
}

static bool symbol_is_sound(const struct cubin *cubin, const struct cubin_symbol *symbol)
{
    const struct cubin_section *section;

    if (!symbol->name)
        return false;
    if (symbol->section == 0 || symbol->section >= SECTIONS_MAX)
        return true;
    if (symbol->section >= cubin->section_count)
        return false;
    section = &cubin->sections[symbol->section];
    return !(section->flags & CUBIN_EXECUTE) ||
           (symbol->value <= section->size && symbol->size <= section->size - symbol->value);
}

static int read_symbols(struct cubin *cubin)
{
    const struct cubin_section *table = &cubin->sections[cubin->symbol_table];
    const struct cubin_section *strings = &cubin->sections[cubin->string_table];
    uint32_t count = (uint32_t)(table->size / SYMBOL);
    size_t budget = names_max * cubin->size;

    if (table->size % SYMBOL || count == 0)
        return -EINVAL;
    cubin->symbols = calloc(count, sizeof(*cubin->symbols));
    if (!cubin->symbols)
        return -ENOMEM;
    cubin->symbol_count = count;
    for (uint32_t i = 0; i < count; i++) {
        const unsigned char *at = table->data + (size_t)i * SYMBOL;

        cubin->symbols[i] = (struct cubin_symbol){
            .name = text_at(strings, cubin_get32(at), &budget),
            .info = at[4],
            .other = at[5],
            .section = cubin_get16(at + 6),
            .value = cubin_get64(at + 8),
            .size = cubin_get64(at + 16),
        };
        if (!symbol_is_sound(cubin, &cubin->symbols[i]))
            return -EINVAL;
    }
    return 0;
}

static bool parse_record(const struct cubin_section *section, size_t *at, struct cubin_record *record)
{
    size_t left = (size_t)section->size - *at;
    const unsigned char *bytes = section->data + *at;

    if (left < 4)
        return false;
    *record = (struct cubin_record){.format = bytes[0], .attribute = bytes[1], .value = cubin_get16(bytes + 2)};
    *at += 4;
    if (record->format == 4) {
        if (record->value > left - 4)
            return false;
        record->size = record->value;
        record->payload = bytes + 4;
        *at += record->size;
    }
    return record->format >= 1 && record->format <= 4;
}

bool cubin_next_record(const struct cubin_section *section, size_t *at, struct cubin_record *record)
{
    return *at < section->size && parse_record(section, at, record);
}

static bool records_are_sound(const struct cubin_section *section)
{
    struct cubin_record record;
    size_t at = 0;

    while (at < section->size)
        if (!parse_record(section, &at, &record))
            return false;
    return true;
}

uint32_t cubin_relocation_count(const struct cubin_section *section)
{
    if (section->type == CUBIN_RELA)
        return (uint32_t)(section->size / RELA);
    return section->type == CUBIN_REL ? (uint32_t)(section->size / REL) : 0;
}

struct cubin_relocation cubin_relocation(const struct cubin_section *section, uint32_t index)
{
    bool rela = section->type == CUBIN_RELA;
    const unsigned char *at = section->data + (size_t)index * (rela ? RELA : REL);

    return (struct cubin_relocation){
        .offset = cubin_get64(at),
        .type = cubin_get32(at + 8),
        .symbol = cubin_get32(at + 12),
        .addend = rela ? (int64_t)cubin_get64(at + 16) : 0,
    };
}

static bool relocations_are_sound(const struct cubin *cubin, const struct cubin_section *section)
{
    uint32_t count = cubin_relocation_count(section);
    const struct cubin_section *target;

    if (section->size == 0) /* old ones name a wrong symbol table when they are empty */
        return section->info < cubin->section_count;
    if (section->info >= cubin->section_count || section->link != cubin->symbol_table ||
        section->size % (section->type == CUBIN_RELA ? RELA : REL))
        return false;
    target = &cubin->sections[section->info];
    for (uint32_t i = 0; i < count; i++) {
        struct cubin_relocation relocation = cubin_relocation(section, i);

        if (relocation.symbol >= cubin->symbol_count || target->size < 4 || relocation.offset > target->size - 4)
            return false;
    }
    return true;
}

/* cuDNN has some that name another table than they mean. */
bool cubin_is_for_debugging(const struct cubin *cubin, const struct cubin_section *section)
{
    return section->info < cubin->section_count && (strncmp(cubin->sections[section->info].name, ".debug", 6) == 0 ||
                                                    strncmp(cubin->sections[section->info].name, ".nv_debug", 9) == 0);
}

static bool contents_are_sound(const struct cubin *cubin)
{
    for (uint32_t i = 1; i < cubin->section_count; i++) {
        const struct cubin_section *section = &cubin->sections[i];

        if (section->type == CUBIN_INFO && !records_are_sound(section))
            return false;
        if ((section->type == CUBIN_RELA || section->type == CUBIN_REL) && !cubin_is_for_debugging(cubin, section) &&
            !relocations_are_sound(cubin, section))
            return false;
        if (section->type == CUBIN_CALLGRAPH && section->size % 8)
            return false;
        if (section->type != CUBIN_SYMTAB && (section->flags & CUBIN_INFO_LINK) &&
            section->info >= cubin->section_count)
            return false;
    }
    return true;
}

static int read_all(struct cubin *cubin)
{
    int error = read_sections(cubin);

    if (error == 0)
        error = read_symbols(cubin);
    if (error == 0 && !contents_are_sound(cubin))
        error = -EINVAL;
    return error;
}

int cubin_open(struct cubin *cubin, const void *bytes, size_t size, enum coalesce_refusal *refusal)
{
    static const unsigned char magic[] = {0x7f, 'E', 'L', 'F', 2, 1, 1}; /* 64 bit, little-endian */
    const unsigned char *header = bytes;
    uint32_t flags;
    int error;

    if (size < HEADER || memcmp(header, magic, sizeof(magic)) != 0 || cubin_get16(header + 18) != MACHINE_CUDA) {
        *refusal = size < HEADER ? COALESCE_IMAGE_BROKEN : COALESCE_IMAGE_KIND;
        return size < HEADER ? -EINVAL : -ENOTSUP;
    }
    if (size > size_max) {
        *refusal = COALESCE_IMAGE_LARGE;
        return -ENOTSUP;
    }
    flags = cubin_get32(header + 48);
    *cubin = (struct cubin){
        .bytes = bytes,
        .size = size,
        .sm = header[7] == OSABI_CUDA_V8 && header[8] >= 8 ? flags >> 8 & 0xff : flags & 0xff,
    };
    error = read_all(cubin);
    if (error < 0)
        cubin_close(cubin);
    if (error == -EINVAL)
        *refusal = COALESCE_IMAGE_BROKEN;
    return error;
}

void cubin_close(struct cubin *cubin)
{
    free(cubin->sections);
    free(cubin->symbols);
    cubin->sections = NULL;
    cubin->symbols = NULL;
}

uint32_t cubin_find_kernel(const struct cubin *cubin, const char *name, uint32_t *symbol)
{
    for (uint32_t i = 1; i < cubin->symbol_count; i++) {
        const struct cubin_symbol *found = &cubin->symbols[i];

        if ((found->info & 15) != CUBIN_SYMBOL_FUNCTION || found->section == 0 ||
            found->section >= cubin->section_count || found->value != 0 || strcmp(found->name, name) != 0)
            continue;
        if (!(cubin->sections[found->section].flags & CUBIN_EXECUTE))
            continue;
        *symbol = i;
        return found->section;
    }
    return 0;
}
